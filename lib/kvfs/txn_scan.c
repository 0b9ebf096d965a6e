/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Lists of records in the store, page by page. */
#include "kvfs/txn_priv.h"

enum { KVFS_TXN_SCAN_KEY = 17 }; /* bytes of a key with a hash */

int kvfs_scan_in(struct kvfs_op *op, uint64_t ino, uint8_t kind, const struct snic_kvop_key *after,
                 uint32_t max, uint32_t room, const struct snic_kvop **page)
{
    struct snic_kvop want;
    memset(&want, 0, sizeof(want));
    want.kind = SNIC_KVOP_SCAN;
    want.scan_max = max;
    snic_kvop_key_set(&want.key, ino, &kind, 1);
    if (after->size != 0)
        want.after = *after;
    want.out_room = room;
    want.out = kvfs_alloc(op, room);
    if (want.out == NULL)
        return SNIC_ENOMEM;
    return kvfs_io(op, 0, &want, page);
}

int kvfs_scan(struct kvfs_op *op, uint64_t ino, uint8_t kind, const struct snic_kvop_key *after,
              uint32_t max, const struct snic_kvop **page)
{
    return kvfs_scan_in(op, ino, kind, after, max, KVFS_SCAN_BYTES, page);
}

int kvfs_scan_record(struct kvfs_op *op, const struct snic_kvop *page,
                     const struct snic_kvop_record *r, struct snic_kvop_key *key, const void **body,
                     uint32_t *size)
{
    const void *record = snic_kvop_record_value(r);
    uint32_t record_size = r->value_size;
    int rc;
    if (r->key_size > SNIC_KVOP_KEY_MAX)
        return SNIC_ECORRUPT;
    snic_kvop_key_set(key, page->key.group, snic_kvop_record_key(r), r->key_size);
    rc = r->key_size == KVFS_TXN_SCAN_KEY ? snic_kvfs_verify(key, record, record_size)
                                          : SNIC_ECORRUPT;
    if (rc > 0 && (rc & (int)SNIC_KVFS_RESERVED) != 0) {
        rc = kvfs_intent_resolve(op, key, record, record_size, &record, &record_size);
        if (rc != 0)
            return rc;
        if (record_size == 0)
            return SNIC_ENOENT;
        rc = snic_kvfs_verify(key, record, record_size);
    }
    if (rc < 0) {
        kvfs_report_damage(op->k, key, "record malformed or damaged");
        return rc;
    }
    *body = (const unsigned char *)record + SNIC_KVFS_HEAD;
    *size = record_size - SNIC_KVFS_HEAD;
    return 0;
}

struct snic_fsop_hash kvfs_scan_hash(const unsigned char *key)
{
    struct snic_fsop_hash h = {snic_get_be64(key + 1), snic_get_be64(key + 9)};
    return h;
}

void kvfs_scan_last(const struct snic_kvop *page, struct snic_fsop_hash *h)
{
    for (const struct snic_kvop_record *r = snic_kvop_first(page); r != NULL;
         r = snic_kvop_next(page, r)) {
        if (r->key_size == KVFS_TXN_SCAN_KEY)
            *h = kvfs_scan_hash(snic_kvop_record_key(r));
    }
}
