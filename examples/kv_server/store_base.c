/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all parts of the store use: hashes, lines for the log, requests to the files below, the call
 * for background work. */
#include "store_priv.h"

#include <stdarg.h>
#include <stdio.h>

void kv_store_log(struct kv_store *s, int level, const char *format, ...)
{
    char text[256];
    va_list ap;

    if (s->opts.log == NULL)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    s->opts.log(s->opts.ctx, level, text);
}

void kv_store_submit(struct kv_store *s, struct kv_file_req *r, kv_file_done_fn done)
{
    r->done = done;
    s->requests++;
    if (!s->attached) {
        s->requests--;
        r->next = s->parked;
        s->parked = r;
        return;
    }
    s->opts.files->submit(s->opts.files_ctx, r);
}

int kv_store_parked(struct kv_store *s, struct kv_file_req *r)
{
    s->requests--;
    if (r->result != SNIC_EPEERDEAD || s->closing)
        return 0;
    s->attached = 0; /* the files' owner calls detach, too, but maybe later */
    r->next = s->parked;
    s->parked = r;
    return 1;
}

void kv_store_kick(struct kv_store *s)
{
    if (!s->kicked) {
        s->kicked = 1;
        snic_loop_defer(s->opts.loop, &s->kick);
    }
}

void kv_store_hash(const struct kv_store *s, uint32_t database, const void *key, uint32_t size,
                   unsigned char out[16], uint64_t *low, uint64_t *high)
{
    kv_key_hash(out, s->opts.hash_seed, database, key, size);
    *low = snic_get_le64(out);
    *high = snic_get_le64(out + 8);
}

void kv_store_entry_hash(const struct kv_entry *e, unsigned char out[16])
{
    snic_put_le64(out, e->hash);
    snic_put_le64(out + 8, e->hash_high);
}

uint64_t kv_store_end(const struct kv_entry *e)
{
    return e->address + kv_record_bytes(e->key_size, e->value_size);
}
