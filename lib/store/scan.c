/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The keys in order, one by one: a cursor is the last key, so it needs no memory here. */
#include "store_priv.h"

#define SNIC_STORE__SCANNED 256 /* records that one call looks at */

/* The node at which the scan continues; NIL: none. */
static uint32_t scan_from(const struct snic_store *s, const struct snic_store_cursor *c)
{
    int above = c->begun != 0;
    const unsigned char *key = c->key;
    uint32_t size = c->key_size;
    if (store_key_compare(c->key, c->key_size, c->prefix, c->prefix_size) < 0) {
        key = c->prefix;
        size = c->prefix_size;
        above = 0;
    }
    return store_index_lower(s, key, size, above);
}

static void scan_entry(const struct snic_store *s, uint32_t n, const unsigned char *key,
                       uint32_t key_size, struct snic_store_entry *out)
{
    const struct store_node *k = &s->p.nodes[n];
    struct store_envelope e;
    uint32_t size;
    memset(out, 0, sizeof(*out));
    out->key = key;
    out->key_size = key_size;
    if ((k->flags & STORE_N_LOCKED) != 0)
        return;
    const void *bytes = snic_replica_value(s->replica, k->value, &size);
    int result = store_envelope_get(bytes, size, &e);
    SNIC_ASSERT(result == 0);
    (void)result;
    out->data = e.data;
    out->size = e.size;
    out->version = k->ts;
    out->value = k->value;
    out->ttl_ns = store_ttl_left(s, n);
}

int snic_store_next(struct snic_store *s, struct snic_store_cursor *cursor,
                    struct snic_store_entry *out)
{
    if (cursor->key_size > SNIC_STORE_KEY_MAX || cursor->prefix_size > SNIC_STORE_KEY_MAX)
        return SNIC_EMSGSIZE;
    if (!snic_replica_serves(s->replica))
        return SNIC_ESTALE;
    uint32_t n = scan_from(s, cursor);
    for (uint32_t i = 0; n != SNIC_STORE__NIL; n = store_index_next(s, n)) {
        uint32_t size;
        const unsigned char *key = store_node_key(s, n, &size);
        if (size < cursor->prefix_size ||
            (cursor->prefix_size != 0 && memcmp(key, cursor->prefix, cursor->prefix_size) != 0))
            return SNIC_ENOENT;
        if (size != 0)
            memcpy(cursor->key, key, size);
        cursor->key_size = size;
        cursor->begun = 1;
        if ((s->p.nodes[n].flags & (STORE_N_LOCKED | STORE_N_LIVE)) != 0) {
            scan_entry(s, n, key, size, out);
            return 0;
        }
        if (++i == SNIC_STORE__SCANNED)
            return SNIC_EAGAIN;
    }
    return SNIC_ENOENT;
}
