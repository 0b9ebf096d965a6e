/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SWAPDB. */
#include "store_priv.h"

/*
 * The record that makes older servers refuse the log, in the segment of the exchange that follows
 * it. One that no exchange follows, for want of room, does no harm.
 */
static int swap_mark(struct kv_store *s, uint64_t version)
{
    static const char key[] = "SWAPDB";
    uint64_t swap = kv_record_bytes(0, 2);
    uint64_t address;
    uint64_t at;
    int r;

    do {
        struct kv_record mark = {.type = KV_RECORD_SET, .database = KV_MARK_DATABASE};

        mark.version = version;
        mark.key_size = sizeof(key) - 1;
        r = kv_log_append(s, &mark, key, "", KV_FOR_DELETE, &address);
        at = s->tail & (s->boundary - 1);
    } while (r == 0 && (at == 0 || s->boundary - at < swap));
    return r;
}

int kv_store_swap(struct kv_store *s, uint32_t a, uint32_t b, uint64_t *end)
{
    struct kv_record r = {.type = KV_RECORD_SWAP, .database = (uint16_t)a, .value_size = 2};
    unsigned char other[2];
    uint64_t address;
    int error;

    if (kv_swap_reserve(s) != 0 || kv_index_reserve(&s->index) != 0)
        return SNIC_ENOMEM;
    snic_put_le16(other, (uint16_t)b);
    r.version = s->version + 1;
    error = swap_mark(s, r.version);
    if (error == 0)
        error = kv_log_append(s, &r, "", other, KV_FOR_DELETE, &address);
    if (error != 0)
        return error;
    s->version = r.version;
    *end = address + kv_record_bytes(0, 2);
    s->deletion = *end;                   /* keys of both may be absent now */
    (void)kv_swap_note(s, address, a, b); /* has room */
    s->swap_work[a] = (uint16_t)b;
    s->swap_work[b] = (uint16_t)a;
    kv_swap_index(s, s->swap_work);
    s->swap_work[a] = (uint16_t)a;
    s->swap_work[b] = (uint16_t)b;
    if (s->opts.invalidate_all != NULL)
        s->opts.invalidate_all(s->opts.ctx, r.version);
    s->attach_version = s->version; /* the DPU's floor has risen */
    s->old_until = s->tail;
    s->caching = s->opts.cache != NULL;
    s->cache_cursor = 0;
    return 0;
}
