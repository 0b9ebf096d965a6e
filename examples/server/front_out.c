/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "front_out.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define FRONT_BLOCK_MIN ((size_t)4 << 10) /* clients with short replies need no more */
#define FRONT_BLOCK_MAX ((size_t)256 << 10)
#define FRONT_SEND_MAX ((size_t)1 << 20) /* that a client reads shows when a send has ended */
#define FRONT_TRIM_BYTES (64 << 20)      /* of replies that have gone: their memory goes back */

struct front_out_block {
    struct front_out_block *next;
    size_t begin; /* first byte that was not sent */
    size_t end;
    size_t room;
    char *data;  /* behind this struct, or taken */
    void *taken; /* NULL: nothing is */
};

static void out_add(struct front_out *o, struct front_out_block *b)
{
    if (o->last != NULL)
        o->last->next = b;
    else
        o->first = b;
    o->last = b;
    o->memory += sizeof(*b) + b->room;
    o->bytes += b->end - b->begin;
    o->blocks++;
}

static struct front_out_block *out_new(struct front_out *o, size_t room, void *taken, size_t size)
{
    struct front_out_block *b = malloc(sizeof(*b) + (taken == NULL ? room : 0));

    if (b == NULL)
        return NULL;
    b->next = NULL;
    b->begin = 0;
    b->end = size;
    b->room = room;
    b->data = taken != NULL ? taken : (char *)(b + 1);
    b->taken = taken;
    out_add(o, b);
    return b;
}

static struct front_out_block *out_block(struct front_out *o, size_t size)
{
    size_t room = FRONT_BLOCK_MIN;

    if (o->last != NULL && o->last->taken == NULL && o->last->room > room / 2)
        room = 2 * o->last->room;

    while (room < size && room < FRONT_BLOCK_MAX)
        room *= 2;
    return out_new(o, room < FRONT_BLOCK_MAX ? room : FRONT_BLOCK_MAX, NULL, 0);
}

int front_out_take(struct front_out *o, void *data, size_t size)
{
    return out_new(o, size, data, size) != NULL ? 0 : SNIC_ENOMEM;
}

int front_out_room(struct front_out *o, size_t size)
{
    return out_new(o, size, NULL, 0) != NULL ? 0 : SNIC_ENOMEM;
}

void front_out_splice(struct front_out *o, struct front_out_block *first)
{
    while (first != NULL) {
        struct front_out_block *b = first;

        first = b->next;
        b->next = NULL;
        out_add(o, b);
    }
}

const void *front_out_data(const struct front_out_block *b)
{
    return b->data;
}

const struct front_out_block *front_out_next(const struct front_out_block *b)
{
    return b->next;
}

int front_out_append(struct front_out *o, const void *data, size_t size)
{
    const char *from = data;

    while (size > 0) {
        struct front_out_block *b = o->last;
        size_t n;

        if (b == NULL || b->end == b->room)
            b = out_block(o, size);
        if (b == NULL)
            return SNIC_ENOMEM;
        n = size < b->room - b->end ? size : b->room - b->end;
        memcpy(b->data + b->end, from, n);
        b->end += n;
        o->bytes += n;
        from += n;
        size -= n;
    }
    return 0;
}

static void out_free(struct front_out_block *b)
{
    free(b->taken);
    free(b);
}

uint32_t front_out_gather(const struct front_out *o, struct snic_iov iov[FRONT_OUT_IOV],
                          size_t *bytes)
{
    uint32_t n = 0;

    *bytes = 0;
    for (struct front_out_block *b = o->first; b != NULL && n < FRONT_OUT_IOV; b = b->next) {
        size_t size = b->end - b->begin;

        if (*bytes >= FRONT_SEND_MAX)
            break;
        if (size == 0) /* kept to be used again, and what was moved is behind it */
            continue;
        if (size > FRONT_SEND_MAX - *bytes)
            size = FRONT_SEND_MAX - *bytes;
        iov[n].base = b->data + b->begin;
        iov[n++].size = size;
        *bytes += size;
    }
    return n;
}

void front_out_sent(struct front_out *o, size_t bytes)
{
    while (bytes > 0) {
        struct front_out_block *b = o->first;
        size_t n = bytes < b->end - b->begin ? bytes : b->end - b->begin;

        b->begin += n;
        bytes -= n;
        o->bytes -= n;
        if (b->begin < b->end)
            break;
        if (b->next == NULL && b->room == FRONT_BLOCK_MIN) { /* used again */
            b->begin = b->end = 0;
            break;
        }
        o->first = b->next;
        if (o->first == NULL)
            o->last = NULL;
        o->memory -= sizeof(*b) + b->room;
        o->blocks--;
        out_free(b);
    }
}

void front_out_free_blocks(struct front_out_block *first)
{
    while (first != NULL) {
        struct front_out_block *b = first;

        first = b->next;
        out_free(b);
    }
}

void front_out_free(struct front_out *o)
{
    front_out_free_blocks(o->first);
    memset(o, 0, sizeof(*o));
}

void front_out_init(void)
{
    /* Else each batch of replies unmaps its pages, and the next one faults them in. */
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, FRONT_TRIM_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, 2 * (int)FRONT_BLOCK_MAX);
#endif
}

void front_out_trim(uint64_t held, uint64_t *most)
{
    if (*most - held < FRONT_TRIM_BYTES)
        return;
    *most = held;
#ifdef __GLIBC__ /* malloc() keeps what lies below memory in use, however much it is */
    (void)malloc_trim(FRONT_TRIM_BYTES);
#endif
}
