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
    char data[];
};

static struct front_out_block *out_block(struct front_out *o, size_t size)
{
    size_t room = o->last != NULL ? 2 * o->last->room : FRONT_BLOCK_MIN;
    struct front_out_block *b;

    while (room < size && room < FRONT_BLOCK_MAX)
        room *= 2;
    room = room < FRONT_BLOCK_MAX ? room : FRONT_BLOCK_MAX;
    b = malloc(sizeof(*b) + room);
    if (b == NULL)
        return NULL;
    b->next = NULL;
    b->begin = b->end = 0;
    b->room = room;
    if (o->last != NULL)
        o->last->next = b;
    else
        o->first = b;
    o->last = b;
    o->memory += sizeof(*b) + room;
    o->blocks++;
    return b;
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

uint32_t front_out_gather(const struct front_out *o, struct snic_iov iov[FRONT_OUT_IOV],
                          size_t *bytes)
{
    uint32_t n = 0;

    *bytes = 0;
    for (struct front_out_block *b = o->first; b != NULL && n < FRONT_OUT_IOV; b = b->next) {
        if (b->begin == b->end || *bytes >= FRONT_SEND_MAX)
            break;
        iov[n].base = b->data + b->begin;
        iov[n].size = b->end - b->begin;
        *bytes += iov[n++].size;
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
        free(b);
    }
}

void front_out_free(struct front_out *o)
{
    while (o->first != NULL) {
        struct front_out_block *b = o->first;

        o->first = b->next;
        free(b);
    }
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
