/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory of the message at hand, where it spans buffers: a block, a run of the area, or a buffer.
 */
#include "director/director_priv.h"

/* May a message have @n blocks of the area? However long it is, it leaves most to others. */
static int director_area_fair(const struct snic_director *d, uint32_t n)
{
    return (uint64_t)n * SNIC_DIRECTOR__BLOCK <= SNIC_DIRECTOR__AREA_OWN ||
           n <= d->parts.runs.free_blocks / SNIC_DIRECTOR__SHARE;
}

/* The block of the area that @c's part begins with. */
static uint32_t director_part_run(const struct snic_director_conn *c)
{
    return (uint32_t)((size_t)(c->part - c->d->parts.area) / SNIC_DIRECTOR__BLOCK);
}

/* Memory for a message of @want bytes or some more, in @cap and @kind; NULL: there is none. */
static unsigned char *director_part_find(struct snic_director_conn *c, uint32_t want, uint32_t *cap,
                                         uint8_t *kind)
{
    struct snic_director *d = c->d;
    uint64_t bytes = snic_max_u64(want, (uint64_t)c->part_cap + c->part_cap / 4);
    bytes = snic_min_u64(bytes, d->opts.message_max);
    uint32_t n = (uint32_t)(snic_align_up(bytes, SNIC_DIRECTOR__BLOCK) / SNIC_DIRECTOR__BLOCK);
    *cap = (uint32_t)snic_min_u64((uint64_t)n * SNIC_DIRECTOR__BLOCK, d->opts.message_max);
    *kind = DIRECTOR_PART_RUN;
    if (c->part != NULL && c->part_kind == DIRECTOR_PART_RUN && director_area_fair(d, n) &&
        base_runs_extend(&d->parts.runs, director_part_run(c), n))
        return c->part;
    uint32_t i = director_area_fair(d, n) ? base_runs_take(&d->parts.runs, n) : SNIC_RUNS__NONE;
    if (i != SNIC_RUNS__NONE)
        return d->parts.area + (size_t)i * SNIC_DIRECTOR__BLOCK;
    *cap = d->opts.message_max;
    *kind = DIRECTOR_PART_BUFFER;
    if (d->parts.idle_count == 0 || (d->parts.idle_count == 1 && want <= SNIC_DIRECTOR__AREA_OWN &&
                                     d->opts.message_max > SNIC_DIRECTOR__AREA_OWN))
        return NULL; /* the last one is for those that only fit there */
    d->parts.idle_count--;
    return (unsigned char *)snic_queue_pop(&d->parts.idle);
}

void director_part_give(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (c->part == NULL)
        return;
    if (c->part_kind == DIRECTOR_PART_BLOCK) {
        director_block_give(c, SNIC_CONTAINER(c->part, struct director_block, data));
    } else {
        if (c->part_kind == DIRECTOR_PART_RUN) {
            base_runs_give(&d->parts.runs, director_part_run(c));
        } else {
            snic_queue_push(&d->parts.idle, (struct snic_node *)(void *)c->part);
            d->parts.idle_count++;
        }
        if (!snic_link_alone(&d->parts.waiters))
            director_wake(d, &d->parts.waiters, SNIC_DIRECTOR__WAIT_PART);
    }
    c->part = NULL;
    c->part_kind = DIRECTOR_PART_BLOCK;
    c->part_size = 0;
    c->part_cap = 0;
}

/*
 * Make room for @want bytes of the message being assembled, keeping its present bytes.
 * 1; 0 @c now waits; SNIC_EMSGSIZE no message may be so long.
 */
int director_part_grow(struct snic_director_conn *c, uint32_t want)
{
    struct snic_director *d = c->d;
    unsigned char *mem;
    uint32_t cap = SNIC_DIRECTOR__DATA;
    uint8_t kind = DIRECTOR_PART_BLOCK;
    if (want > d->message_max)
        return SNIC_EMSGSIZE;
    if (want <= SNIC_DIRECTOR__DATA) {
        struct director_block *b = director_block_take(c, SNIC_DIRECTOR__RESERVE);
        if (b == NULL) {
            director_wait(c, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
            return 0;
        }
        mem = b->data;
    } else {
        mem = director_part_find(c, want, &cap, &kind);
        if (mem == NULL) {
            director_wait(c, &d->parts.waiters, SNIC_DIRECTOR__WAIT_PART);
            return 0;
        }
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(d->loop);
    }
    if (mem != c->part) {
        uint32_t size = c->part_size;
        if (size > 0)
            memcpy(mem, c->part, size);
        director_part_give(c);
        c->part = mem;
        c->part_size = size;
    }
    c->part_cap = cap;
    c->part_kind = kind;
    return 1;
}

/* The message at hand was sent on, or answered. */
void director_conn_consume(struct snic_director_conn *c)
{
    if (c->part != NULL)
        director_part_give(c);
    else
        director_in_take(&c->client, c->msg_size);
    c->decided = 0;
    c->msg = NULL;
    c->frame_state = 0;
}
