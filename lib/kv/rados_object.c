/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Objects on RADOS: ranges cut into stripes, and walks through the list of an object's stripes.
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdlib.h>

static uint32_t kv_rados_stripe_end(uint64_t number, uint64_t end)
{
    return (uint32_t)snic_min_u64(end - number * KV_RADOS_STRIPE, KV_RADOS_STRIPE);
}

/* ---- READ ---- */

/** Byte @p at of the pieces. */
static const struct snic_iov *kv_rados_iov_at(const struct snic_iov *iov, uint64_t at, size_t *skip)
{
    while (at >= iov->size) {
        at -= iov->size;
        iov++;
    }
    *skip = (size_t)at;
    return iov;
}

/** Copy bytes into pieces, from `skip` of the first on; NULL: zeros. */
static void kv_rados_scatter(const struct snic_iov *iov, size_t skip, const unsigned char *from,
                             uint64_t size)
{
    while (size > 0) {
        size_t n = (size_t)snic_min_u64(size, iov->size - skip);
        if (from != NULL) {
            memcpy((unsigned char *)iov->base + skip, from, n);
            from += n;
        } else {
            memset((unsigned char *)iov->base + skip, 0, n);
        }
        size -= n;
        skip = 0;
        iov++;
    }
}

static void kv_rados_read_done(struct kv_rados_sub *u, int result)
{
    if (result < 0 && result != -2) {
        kv_rados_fail(u->call, result);
        return;
    }
    if (result == 0 && u->got_result < 0) {
        kv_rados_fail(u->call, u->got_result);
        return;
    }
    size_t got = result < 0 ? 0 : u->got;
    if (u->scratch != NULL) {
        memset(u->scratch + got, 0, u->bytes - got);
        kv_rados_scatter(u->to, u->skip, u->scratch, u->bytes);
    } else {
        memset((unsigned char *)u->to->base + u->skip + got, 0, u->bytes - got);
    }
}

static void kv_rados_result_length(struct kv_rados_call *c)
{
    c->req->op->result = (int64_t)c->req->op->length;
    kv_rados_finish(c);
}

static void kv_rados_read(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    char name[KV_RADOS_NAME];
    c->next = kv_rados_result_length;
    for (uint64_t at = op->offset, end = at + op->length; at < end;) {
        uint64_t number = at / KV_RADOS_STRIPE;
        uint32_t to = kv_rados_stripe_end(number, end);
        uint32_t from = (uint32_t)(at % KV_RADOS_STRIPE);
        struct kv_rados_sub *u = kv_rados_sub(c->store, c);
        u->to = kv_rados_iov_at(op->iov, at - op->offset, &u->skip);
        u->bytes = to - from;
        char *memory = (char *)u->to->base + u->skip;
        if (u->to->size - u->skip < u->bytes) {
            u->scratch = malloc(u->bytes);
            SNIC_ASSERT(u->scratch != NULL);
            memory = (char *)u->scratch;
        }
        u->read = rados_create_read_op();
        rados_read_op_read(u->read, from, u->bytes, memory, &u->got, &u->got_result);
        kv_rados_stripe_name(name, op->object, number);
        kv_rados_send(u, name, kv_rados_read_done);
        at += u->bytes;
    }
}

/* ---- WRITE ---- */

void kv_rados_write_parts(struct kv_rados_call *c, uint64_t object, uint64_t offset, uint64_t size,
                          const unsigned char *data, int commit)
{
    uint64_t end = offset + size;
    uint32_t first = c->part_count;
    for (uint64_t at = offset; at < end;) {
        uint64_t number = at / KV_RADOS_STRIPE;
        uint32_t from = (uint32_t)(at % KV_RADOS_STRIPE);
        uint32_t to = kv_rados_stripe_end(number, end);
        struct kv_rados_part *p = kv_rados_part(c, KV_RADOS_WRITE, object, number, from, to);
        p->data = data;
        p->commit = commit != 0;
        p->guess = commit || from == 0;
        data += to - from;
        at += to - from;
    }
    for (uint32_t i = first; i < c->part_count; i++)
        kv_rados_part_run(c->parts[i]);
}

static void kv_rados_write(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    const unsigned char *data = op->iov[0].base;
    if (op->iov_count > 1) {
        c->data = malloc(op->length);
        SNIC_ASSERT(c->data != NULL);
        data = c->data;
        unsigned char *to = c->data;
        for (uint32_t i = 0; i < op->iov_count; i++) {
            memcpy(to, op->iov[i].base, op->iov[i].size);
            to += op->iov[i].size;
        }
    }
    c->next = kv_rados_result_length;
    kv_rados_write_parts(c, op->object, op->offset, op->length, data, 0);
}

/* ---- ZERO ---- */

static void kv_rados_zero_page(struct kv_rados_call *c)
{
    kv_rados_parts_free(c);
    if (c->from >= c->end) {
        kv_rados_finish(c);
        return;
    }
    c->pending = 1;
    while (c->from < c->end && c->part_count < KV_RADOS_PAGE / 4) {
        uint64_t number = c->from / KV_RADOS_STRIPE;
        (void)kv_rados_part(c, KV_RADOS_ZERO, c->object, number,
                            (uint32_t)(c->from % KV_RADOS_STRIPE),
                            kv_rados_stripe_end(number, c->end));
        c->from = (number + 1) * KV_RADOS_STRIPE;
    }
    for (uint32_t i = 0; i < c->part_count; i++)
        kv_rados_part_run(c->parts[i]);
    kv_rados_put(c);
}

/* ---- Walks through the listed stripes ---- */

/** The part for a stripe of the page, which begins at c->from. */
static void kv_rados_walk_part(struct kv_rados_call *c, enum kv_rados_part_kind kind,
                               uint64_t number, const struct kv_rados_generation *seen)
{
    uint64_t base = number * KV_RADOS_STRIPE;
    uint32_t from = c->from > base ? (uint32_t)(c->from - base) : 0;
    struct kv_rados_part *p =
        kv_rados_part(c, kind, c->object, number, from, kv_rados_stripe_end(number, c->end));
    p->seen = *seen;
}

static enum kv_rados_part_kind kv_rados_walk_kind(const struct kv_rados_call *c)
{
    uint32_t kind = c->req->op->kind;
    return kind == SNIC_KVOP_OBJECT_STAT || kind == SNIC_KVOP_OBJECT_SEEK ? KV_RADOS_LOOK
                                                                          : KV_RADOS_PUNCH;
}

static void kv_rados_walk_listed(struct kv_rados_sub *u, int result)
{
    static const struct kv_rados_generation nothing;
    struct kv_rados_call *c = u->call;
    enum kv_rados_part_kind kind = kv_rados_walk_kind(c);
    char *key, *value;
    size_t key_size, value_size;
    c->more = 0;
    if (result < 0 && result != -2) {
        kv_rados_fail(c, result);
        return;
    }
    if (result == -2 || kv_rados_dead(c))
        return;
    if (c->from < KV_RADOS_STRIPE)
        kv_rados_walk_part(c, kind, 0, &nothing);
    while (rados_omap_get_next2(u->iter, &key, &value, &key_size, &value_size) == 0 &&
           key != NULL) {
        uint64_t number = strtoull(key + 2, NULL, 16);
        if (number == 0 || value_size != sizeof(nothing) ||
            number > SNIC_KVOP_OBJECT_MAX / KV_RADOS_STRIPE) {
            c->error = SNIC_ECORRUPT;
            break;
        }
        if (number * KV_RADOS_STRIPE >= c->end) {
            u->more = 0;
            break;
        }
        struct kv_rados_generation seen = {snic_get_le64(value), snic_get_le64(value + 8)};
        kv_rados_walk_part(c, kind, number, &seen);
    }
    c->more = u->more;
    for (uint32_t i = 0; i < c->part_count; i++)
        kv_rados_part_run(c->parts[i]);
}

/** Parts for the next listed stripes of [c->from, c->end); then c->next. */
static void kv_rados_walk(struct kv_rados_call *c, uint32_t page)
{
    char after[KV_RADOS_NAME] = "!i";
    char name[KV_RADOS_NAME];
    uint64_t number = c->from / KV_RADOS_STRIPE;
    kv_rados_parts_free(c);
    struct kv_rados_sub *u = kv_rados_sub(c->store, c);
    if (number > 1)
        kv_rados_stripe_list_key(after, number - 1);
    u->read = rados_create_read_op();
    rados_read_op_omap_get_vals2(u->read, after, "!i", page, &u->iter, &u->more, &u->iter_result);
    kv_rados_group_name(name, c->object);
    kv_rados_send(u, name, kv_rados_walk_listed);
}

/** Behind the page's last stripe. */
static void kv_rados_walk_on(struct kv_rados_call *c)
{
    if (c->part_count != 0)
        c->from = (c->parts[c->part_count - 1]->stripe->number + 1) * KV_RADOS_STRIPE;
}

/* ---- PUNCH and TRUNCATE ---- */

static void kv_rados_punch_page(struct kv_rados_call *c);

static void kv_rados_unlisted(struct kv_rados_sub *u, int result)
{
    /* -125: another handle is creating one of them again; the others stay listed, harmlessly */
    if (result < 0 && result != -125 && result != -2)
        kv_rados_fail(u->call, result);
}

/** R2: remove stripes that no longer exist from the list. */
static void kv_rados_unlist(struct kv_rados_call *c)
{
    char keys[KV_RADOS_PAGE][KV_RADOS_NAME];
    const char *list[KV_RADOS_PAGE];
    size_t sizes[KV_RADOS_PAGE];
    char name[KV_RADOS_NAME];
    size_t n = 0;
    struct kv_rados_sub *u = NULL;
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct kv_rados_part *p = c->parts[i];
        char value[sizeof(p->seen)];
        if (!p->gone || p->stripe->number == 0)
            continue;
        if (u == NULL) {
            u = kv_rados_sub(c->store, c);
            u->write = rados_create_write_op();
        }
        kv_rados_stripe_list_key(keys[n], p->stripe->number);
        list[n] = keys[n];
        sizes[n] = strlen(keys[n]);
        snic_put_le64(value, p->seen.client);
        snic_put_le64(value + 8, p->seen.number);
        rados_write_op_omap_cmp2(u->write, keys[n], LIBRADOS_CMPXATTR_OP_EQ, value, sizes[n],
                                 sizeof(value), NULL);
        n++;
    }
    if (u == NULL)
        return;
    rados_write_op_omap_rm_keys2(u->write, list, sizes, n);
    kv_rados_group_name(name, c->object);
    kv_rados_send(u, name, kv_rados_unlisted);
}

static void kv_rados_punch_next(struct kv_rados_call *c)
{
    c->pending = 1;
    kv_rados_walk_on(c);
    if (!c->more || c->from >= c->end) {
        if (c->tidy)
            kv_rados_tidy(c->store, c->object);
        kv_rados_parts_free(c);
        c->next = c->then;
        kv_rados_put(c);
        return;
    }
    c->next = kv_rados_punch_page;
    kv_rados_walk(c, KV_RADOS_PAGE - 1);
    kv_rados_put(c);
}

static void kv_rados_punch_page(struct kv_rados_call *c)
{
    c->pending = 1;
    c->next = kv_rados_punch_next;
    for (uint32_t i = 0; i < c->part_count; i++)
        c->tidy |= c->parts[i]->gone;
    kv_rados_unlist(c);
    kv_rados_put(c);
}

void kv_rados_punch(struct kv_rados_call *c, uint64_t object, uint64_t from, uint64_t end,
                    void (*next)(struct kv_rados_call *c))
{
    c->object = object;
    c->from = from;
    c->end = end;
    c->then = next;
    c->whole = from == 0 && end == SNIC_KVOP_OBJECT_MAX;
    c->tidy = 0;
    c->next = kv_rados_punch_page;
    kv_rados_walk(c, KV_RADOS_PAGE - 1);
}

/* ---- STAT and SEEK ---- */

static void kv_rados_stat_page(struct kv_rados_call *c)
{
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct kv_rados_stripe *s = c->parts[i]->stripe;
        for (uint32_t w = 0; w < KV_RADOS_WORDS && s->live; w++)
            c->allocated += __builtin_popcountll(s->map[w]) * (int64_t)SNIC_KVOP_BLOCK;
    }
    kv_rados_walk_on(c);
    if (!c->more) {
        kv_rados_finish(c);
        return;
    }
    c->pending = 1;
    kv_rados_walk(c, KV_RADOS_PAGE - 1);
    kv_rados_put(c);
}

/** The first block of a stripe at or behind @p block that is taken, or (hole) is not; 512: none. */
static uint32_t kv_rados_stripe_seek(const struct kv_rados_stripe *s, uint32_t block, int hole)
{
    while (block < KV_RADOS_BLOCKS && (s->live && kv_rados_map_bit(s->map, block)) == hole)
        block++;
    return block;
}

/** Search the page; 1 when the result is found, which is *at. */
static int kv_rados_seek_in_page(const struct kv_rados_call *c, int hole, uint64_t *at)
{
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct kv_rados_stripe *s = c->parts[i]->stripe;
        uint64_t base = s->number * KV_RADOS_STRIPE;
        if (hole && *at < base)
            return 1;
        uint32_t from = *at > base ? (uint32_t)((*at - base) / SNIC_KVOP_BLOCK) : 0;
        uint32_t block = kv_rados_stripe_seek(s, from, hole);
        if (block < KV_RADOS_BLOCKS) {
            *at = snic_max_u64(*at, base + (uint64_t)block * SNIC_KVOP_BLOCK);
            return 1;
        }
        *at = base + KV_RADOS_STRIPE;
    }
    return 0;
}

static void kv_rados_seek_page(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    int hole = (op->flags & SNIC_KVOP_SEEK_HOLE) != 0;
    uint64_t at = c->from;
    int found = kv_rados_seek_in_page(c, hole, &at) || (hole && !c->more);
    if (!found && c->more) {
        c->from = at;
        c->pending = 1;
        kv_rados_walk(c, 8);
        kv_rados_put(c);
        return;
    }
    if (found && at < SNIC_KVOP_OBJECT_MAX)
        op->result = (int64_t)at;
    else
        c->error = SNIC_ENOENT;
    kv_rados_finish(c);
}

void kv_rados_object(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    c->object = op->object;
    c->from = op->offset;
    c->end = op->offset + op->length;
    switch (op->kind) {
    case SNIC_KVOP_OBJECT_READ:
        kv_rados_read(c);
        break;
    case SNIC_KVOP_OBJECT_WRITE:
        kv_rados_write(c);
        break;
    case SNIC_KVOP_OBJECT_ZERO:
        c->next = kv_rados_zero_page;
        break;
    case SNIC_KVOP_OBJECT_PUNCH:
        kv_rados_punch(c, op->object, op->offset, c->end, kv_rados_finish);
        break;
    case SNIC_KVOP_OBJECT_TRUNCATE:
        kv_rados_punch(c, op->object, op->offset, SNIC_KVOP_OBJECT_MAX, kv_rados_finish);
        break;
    case SNIC_KVOP_OBJECT_STAT:
        c->from = 0;
        c->end = SNIC_KVOP_OBJECT_MAX;
        c->next = kv_rados_stat_page;
        kv_rados_walk(c, KV_RADOS_PAGE - 1);
        break;
    default: /* SEEK */
        c->end = SNIC_KVOP_OBJECT_MAX;
        c->next = kv_rados_seek_page;
        kv_rados_walk(c, 8);
        break;
    }
}

#else
typedef int kv_rados_object_is_empty;
#endif /* SNIC_WITH_RADOS */
