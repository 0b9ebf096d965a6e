/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The places of records, sent to the cache of the DPU, and the walk over all of them. */
#include "store_priv.h"

#define KV_CACHE_STEP 512u /* keys per step of the cache walk */

int kv_store_cache(struct kv_store *s, const struct kv_entry *e)
{
    unsigned char hash[16];
    struct kv_item item;
    const struct kv_segment *g = kv_log_segment(s, e->address / s->opts.segment_bytes);

    if (s->opts.cache == NULL || g == NULL)
        return 0;
    if (e->address < kv_swap_end(s))
        return 0; /* the record may bear another number than the DPU would look for */
    kv_store_entry_hash(e, hash);
    item.file = g->file;
    item.offset = (uint32_t)(e->address & (s->opts.segment_bytes - 1));
    item.bytes = (uint32_t)kv_record_bytes(e->key_size, e->value_size);
    item.expire_ms = e->expire_ms;
    return s->opts.cache(s->opts.ctx, hash, &item, e->version);
}

void kv_store_missed(struct kv_store *s, const struct kv_entry *e)
{
    if (kv_store_end(e) <= s->written && (e->address < s->head || s->opts.cache_memory))
        (void)kv_store_cache(s, e); /* without room: at its next read */
}

static void store_cache_visit(void *ctx, struct kv_entry *e)
{
    struct kv_store *s = ctx;

    if (s->cache_blocked || kv_store_end(e) > s->written)
        return;
    if (kv_store_cache(s, e) != 0)
        s->cache_blocked = 1;
}

void kv_store_cache_walk(struct kv_store *s)
{
    uint64_t before = s->cache_cursor;
    uint64_t next;

    if (!s->caching || s->cache_blocked || !s->attached)
        return;
    next = kv_index_scan(&s->index, before, KV_CACHE_STEP, store_cache_visit, s);
    if (s->cache_blocked)
        return; /* the same step again: caching a key twice is harmless */
    s->cache_cursor = next;
    if (next == 0)
        s->caching = 0;
    else
        kv_store_kick(s);
}

void kv_store_resume_cache(struct kv_store *s)
{
    if (s->cache_blocked) {
        s->cache_blocked = 0;
        kv_store_kick(s);
    }
}
