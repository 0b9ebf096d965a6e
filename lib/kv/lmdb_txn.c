/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a batch does inside LMDB's transaction: its table and, shared, the commits, the blocks that
 * it frees and reserves, and marks. The writer's thread runs it: it touches nothing of the handle
 * but the batch and what only transactions use.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

int lmdb_txn_put(MDB_txn *txn, MDB_dbi dbi, const void *key, uint32_t key_size, const void *value,
                 uint32_t size)
{
    unsigned char head[LMDB_KEY_MAX];
    SNIC_ASSERT(key_size <= sizeof(head));
    memcpy(head, key, key_size);
    MDB_val k = {.mv_size = key_size, .mv_data = head};
    MDB_val v = {.mv_size = size + LMDB_RECORD_TAIL};
    int e = mdb_put(txn, dbi, &k, &v, MDB_RESERVE);
    if (e != 0)
        return e;
    unsigned char *to = v.mv_data;
    memcpy(to, value, size);
    snic_put_le32(to + size, snic_crc32c(snic_crc32c(0, head, key_size), value, size));
    return 0;
}

static int lmdb_txn_table(struct lmdb_kv *s, MDB_txn *txn, const struct lmdb_table *t)
{
    SNIC_DASSERT(lmdb_table_check(t) == 0);
    for (const struct lmdb_entry *e = t->head[0]; e != NULL; e = e->next[0]) {
        int r;
        if (e->size == SNIC_LMDB__DELETED) {
            unsigned char head[LMDB_KEY_MAX];
            memcpy(head, e->key, e->key_size);
            MDB_val k = {.mv_size = e->key_size, .mv_data = head};
            r = mdb_del(txn, s->dbi, &k, NULL);
            r = r == MDB_NOTFOUND ? 0 : r;
        } else {
            r = lmdb_txn_put(txn, s->dbi, e->key, e->key_size, e->value, e->size);
        }
        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- Commits ---- */

int lmdb_guard_holds(const struct snic_kvop_guard *g, int there, const struct lmdb_value *v)
{
    if (g->value == NULL || !there)
        return (g->value == NULL) == !there;
    return g->size == v->size && memcmp(g->value, v->data, v->size) == 0;
}

int lmdb_is_record(const struct snic_kvop_change *c)
{
    return c->kind == SNIC_KVOP_PUT || c->kind == SNIC_KVOP_DELETE;
}

void lmdb_guard_failed(struct snic_kvop *op, uint32_t i)
{
    op->result = SNIC_ECANCELED;
    op->failed_guard = i;
}

static int lmdb_commit_inside(struct lmdb_kv *s, MDB_txn *txn, struct snic_kvop *op)
{
    op->result = 0; /* the transaction may be a retry */
    op->failed_guard = UINT32_MAX;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        struct lmdb_key k = lmdb_key_record(&op->guards[i].key);
        MDB_val key = {.mv_size = k.size, .mv_data = k.bytes};
        MDB_val value;
        struct lmdb_value v = {0};
        int e = mdb_get(txn, s->dbi, &key, &value);
        if (e != 0 && e != MDB_NOTFOUND)
            return e;
        int r = e == 0 ? lmdb_unseal(&key, &value, &v) : 0;
        if (r != 0) {
            op->result = r;
            return 0;
        }
        if (!lmdb_guard_holds(&op->guards[i], e == 0, &v)) {
            lmdb_guard_failed(op, i);
            return 0;
        }
    }
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *c = &op->changes[i];
        if (!lmdb_is_record(c))
            continue;
        struct lmdb_key k = lmdb_key_record(&c->key);
        MDB_val key = {.mv_size = k.size, .mv_data = k.bytes};
        int e = c->kind == SNIC_KVOP_PUT
                    ? lmdb_txn_put(txn, s->dbi, k.bytes, k.size, c->value, c->size)
                    : mdb_del(txn, s->dbi, &key, NULL);
        if (e != 0 && e != MDB_NOTFOUND)
            return e;
    }
    return 0;
}

/* ---- Shared: blocks and marks ---- */

static int lmdb_segment_get(struct lmdb_kv *s, MDB_txn *txn, uint64_t n, unsigned char *record)
{
    struct lmdb_key k = lmdb_key_number('F', n);
    MDB_val key = {.mv_size = k.size, .mv_data = k.bytes};
    MDB_val value;
    struct lmdb_value v;
    int e = mdb_get(txn, s->dbi, &key, &value);
    if (e == MDB_NOTFOUND) {
        memset(record, 0, LMDB_SEGMENT_RECORD);
        record[8] = n == 0; /* the file's head */
    }
    if (e != 0)
        return e;
    if (lmdb_unseal(&key, &value, &v) != 0 || v.size != LMDB_SEGMENT_RECORD)
        return MDB_CORRUPTED;
    memcpy(record, v.data, LMDB_SEGMENT_RECORD);
    return 0;
}

static int lmdb_segment_set(struct lmdb_kv *s, MDB_txn *txn, uint64_t n,
                            const unsigned char *record)
{
    struct lmdb_key k = lmdb_key_number('F', n);
    return lmdb_txn_put(txn, s->dbi, k.bytes, k.size, record, LMDB_SEGMENT_RECORD);
}

static int lmdb_shared_frees(struct lmdb_kv *s, MDB_txn *txn, const struct lmdb_runs *frees)
{
    unsigned char record[LMDB_SEGMENT_RECORD];
    for (uint32_t i = 0; i < frees->count; i++) {
        uint32_t block = frees->at[i].block;
        uint32_t left = frees->at[i].count;
        while (left > 0) {
            uint32_t n = block / LMDB_SEGMENT;
            int e = lmdb_segment_get(s, txn, n, record);
            if (e != 0)
                return e;
            for (; left > 0 && block / LMDB_SEGMENT == n; left--, block++) {
                uint32_t bit = block % LMDB_SEGMENT;
                record[8 + bit / 8] &= (unsigned char)~(1U << bit % 8);
            }
            e = lmdb_segment_set(s, txn, n, record);
            if (e != 0)
                return e;
        }
    }
    return 0;
}

static int lmdb_shared_marks(struct lmdb_kv *s, MDB_txn *txn, const struct lmdb_runs *marks)
{
    unsigned char record[LMDB_SEGMENT_RECORD];
    for (uint32_t i = 0; i < marks->count; i++) {
        for (uint32_t n = marks->at[i].block; n < marks->at[i].block + marks->at[i].count; n++) {
            int e = lmdb_segment_get(s, txn, n, record);
            if (e == 0) {
                snic_put_le32(record, 1);
                e = lmdb_segment_set(s, txn, n, record);
            }
            if (e != 0)
                return e;
        }
    }
    return 0;
}

/** Reserve free blocks of a segment for the batch. @return their number */
static uint32_t lmdb_shared_take(struct lmdb_batch *b, uint32_t n, unsigned char *record,
                                 uint32_t want)
{
    uint32_t prepared = snic_get_le32(record + 4);
    uint32_t got = 0;
    for (uint32_t bit = 0; bit < prepared && got < want; bit++) {
        if ((record[8 + bit / 8] >> bit % 8 & 1) != 0)
            continue;
        if (lmdb_runs_add(&b->got, n * LMDB_SEGMENT + bit, 1) != 0)
            break;
        record[8 + bit / 8] |= (unsigned char)(1U << bit % 8);
        got++;
    }
    return got;
}

static int lmdb_shared_reserve(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b)
{
    unsigned char record[LMDB_SEGMENT_RECORD];
    uint32_t left = b->want;
    b->got.count = 0;
    uint32_t start = s->rotor < s->segment_count ? s->rotor : 0;
    for (uint32_t i = 0; i < s->segment_count && left > 0; i++) {
        uint32_t n = (start + i) % s->segment_count;
        int e = lmdb_segment_get(s, txn, n, record);
        if (e != 0 && e != MDB_NOTFOUND)
            return e;
        int grown = 0;
        uint32_t from = snic_get_le32(record + 4);
        if (from <= (n == 0 ? 1U : 0U)) { /* never used, or its space was returned */
            uint32_t prepared = lmdb_segment_extend(s, n, from);
            snic_put_le32(record + 4, prepared);
            grown = prepared > from;
            if (!grown && n > 0 && start == 0)
                break; /* the disk is full */
        }
        uint32_t got = lmdb_shared_take(b, n, record, left);
        if (got > 0 || grown) {
            e = lmdb_segment_set(s, txn, n, record);
            if (e != 0)
                return e;
        }
        left -= got;
        if (got > 0)
            s->rotor = n;
    }
    return 0;
}

static int lmdb_shared_body(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b)
{
    if (s->mode == LMDB_SOLE)
        return 0; /* all of it is in the table */
    int e = lmdb_shared_frees(s, txn, &b->frees);
    if (e == 0)
        e = lmdb_shared_marks(s, txn, &b->marks);
    return e != 0 ? e : lmdb_shared_reserve(s, txn, b);
}

int lmdb_txn_batch(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b)
{
    for (struct snic_node *n = b->commits.first; n != NULL; n = n->next) {
        int e = lmdb_commit_inside(s, txn, SNIC_CONTAINER(n, struct snic_kv_req, node)->op);
        if (e != 0)
            return e;
    }
    int e = lmdb_txn_table(s, txn, &b->table);
    return e != 0 ? e : lmdb_shared_body(s, txn, b);
}

#endif /* SNIC_WITH_LMDB */
