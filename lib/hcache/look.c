/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Looks at the map of buckets that need one, and at the clock for those that are dirty. */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

enum { LOOK_READ, LOOK_CLEAR };

void hcache_look_start(struct snic_hcache_control *c, struct hcache_job *j)
{
    SNIC_ASSERT(!c->look_running);
    c->look_wanted = 0;
    c->look_running = 1;
    c->looks_started++;
    c->stats.looks++;
    c->look_at = 0;
    hcache_job_op(j, SNIC_HCACHE_OP_READ, 0, SNIC_HCACHE_OFF_WAIT, c->look_copy,
                  SNIC_CACHELINE + c->look_words * 8);
    hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, LOOK_READ);
}

/* Pages that have been dirty for long enough. */
static void look_age(struct snic_hcache_control *c)
{
    uint32_t now = hcache_ms(c->now_ns);
    uint32_t most = hcache_ms(c->flush_ns);
    uint64_t w;

    for (w = 0; w < c->look_words && c->dirty.set != 0; w++) {
        uint64_t bits = c->dirty.words[w] & ~c->fresh.words[w] & ~c->later.words[w];

        for (; bits != 0; bits &= bits - 1) {
            uint64_t bucket = w * 64 + (uint64_t)__builtin_ctzll(bits);

            if (now - c->since[bucket] >= most)
                hcache_bit_set(&c->fresh, bucket);
        }
    }
}

static void look_done(struct snic_hcache_control *c, struct hcache_job *j)
{
    const uint64_t *map = c->look_copy + SNIC_CACHELINE / 8;
    uint64_t w;

    for (w = 0; w < c->look_words; w++) {
        uint64_t bits = map[w];

        if (w == c->g.buckets / 64) /* drop bits of buckets that do not exist */
            bits &= (UINT64_C(1) << c->g.buckets % 64) - 1;
        c->fresh.set += (uint64_t)__builtin_popcountll(bits & ~c->fresh.words[w]);
        c->fresh.words[w] |= bits;
    }
    if (c->look_copy[0] != c->wait_seen) {
        c->wait_seen = c->look_copy[0];
        c->waiting = 1;
    }
    look_age(c);
    c->look_running = 0;
    c->next_look_ns = c->now_ns + c->look_ns;
    hcache_job_end(c, j);
    hcache_fsync_looked(c, c->looks_started);
    if (c->fresh.set == 0)
        hcache_progress(c); /* nothing left that a waiter could wait for us to do */
}

void hcache_look_step(struct snic_hcache_control *c, struct hcache_job *j)
{
    const uint64_t *map = c->look_copy + SNIC_CACHELINE / 8;

    j->op_count = 0;
    for (; c->look_at < c->look_words && j->op_count < SNIC_HCACHE_OPS_MAX; c->look_at++)
        if (map[c->look_at] != 0) /* C1; bits are taken away here only, so this takes just these */
            hcache_job_add(j, 0, SNIC_HCACHE_OFF_MAP + c->look_at * 8, 0 - map[c->look_at]);
    if (j->op_count != 0)
        hcache_job_emit(c, j, SNIC_HCACHE_ACT_DMA, LOOK_CLEAR);
    else
        look_done(c, j);
}
