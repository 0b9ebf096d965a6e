/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reading: the active table over the batch in flight over LMDB's snapshot (S1, S2).
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>

struct lmdb_key lmdb_key_record(const struct snic_kvop_key *k)
{
    struct lmdb_key key = {.size = (uint8_t)(9 + k->size), .bytes = {'R'}};
    snic_put_be64(key.bytes + 1, k->group);
    memcpy(key.bytes + 9, k->bytes, k->size);
    return key;
}

struct lmdb_key lmdb_key_number(uint8_t kind, uint64_t a)
{
    struct lmdb_key key = {.size = 9, .bytes = {kind}};
    snic_put_be64(key.bytes + 1, a);
    return key;
}

struct lmdb_key lmdb_key_pair(uint8_t kind, uint64_t a, uint64_t b)
{
    struct lmdb_key key = {.size = 17, .bytes = {kind}};
    snic_put_be64(key.bytes + 1, a);
    snic_put_be64(key.bytes + 9, b);
    return key;
}

int lmdb_error(int mdb)
{
    switch (mdb) {
    case 0:
        return 0;
    case MDB_NOTFOUND:
        return SNIC_ENOENT;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return SNIC_ENOSPC;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_BAD_VALSIZE:
        return SNIC_ECORRUPT;
    case MDB_VERSION_MISMATCH:
        return SNIC_EVERSION;
    case MDB_READERS_FULL:
    case ENOMEM:
        return SNIC_ENOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return SNIC_EACCES;
    default:
        return mdb > 0 && mdb != EIO ? snic_error_from_os(mdb) : SNIC_EIO;
    }
}

void lmdb_snapshot_drop(struct lmdb_kv *s)
{
    if (s->snap_live)
        mdb_txn_reset(s->snap);
    s->snap_live = 0;
}

int lmdb_remap(struct lmdb_kv *s)
{
    lmdb_snapshot_drop(s);
    (void)pthread_mutex_lock(&s->writer.txn);
    int e = mdb_env_set_mapsize(s->env, 0);
    (void)pthread_mutex_unlock(&s->writer.txn);
    return e;
}

int lmdb_snapshot(struct lmdb_kv *s)
{
    if (s->snap_live)
        return 0;
    int e = mdb_txn_renew(s->snap);
    if (e == MDB_MAP_RESIZED) {
        e = lmdb_remap(s);
        if (e == 0)
            e = mdb_txn_renew(s->snap);
    }
    if (e == 0)
        e = mdb_cursor_renew(s->snap, s->cursor);
    s->snap_live = e == 0;
    return lmdb_error(e);
}

int lmdb_snapshot_behind(struct lmdb_kv *s)
{
    MDB_envinfo info;
    if (s->readonly) /* it cannot write, and changes nothing by what it reads */
        return 0;
    return lmdb_snapshot(s) != 0 || mdb_env_info(s->env, &info) != 0 ||
           mdb_txn_id(s->snap) < info.me_last_txnid;
}

int lmdb_unseal(const MDB_val *k, const MDB_val *v, struct lmdb_value *out)
{
    if (v->mv_size < LMDB_RECORD_TAIL || v->mv_size > LMDB_VALUE_ROOM)
        return SNIC_ECORRUPT;
    const unsigned char *data = v->mv_data;
    uint32_t size = (uint32_t)v->mv_size - LMDB_RECORD_TAIL;
    uint32_t crc = snic_crc32c(snic_crc32c(0, k->mv_data, k->mv_size), data, size);
    if (crc != snic_get_le32(data + size))
        return SNIC_ECORRUPT;
    out->data = data;
    out->size = size;
    return 0;
}

/** Look the key up in the tables: 1 found, 0 deleted, -1 not in them. */
static int lmdb_get_table(const struct lmdb_kv *s, const struct lmdb_key *k, struct lmdb_value *v)
{
    struct lmdb_entry *e = lmdb_table_find(&s->active->table, k);
    if (e == NULL && s->flight != NULL)
        e = lmdb_table_find(&s->flight->table, k);
    if (e == NULL)
        return -1;
    if (e->size == SNIC_LMDB__DELETED)
        return 0;
    v->data = e->value;
    v->size = e->size;
    return 1;
}

int lmdb_get(struct lmdb_kv *s, const struct lmdb_key *k, struct lmdb_value *v)
{
    int there = lmdb_get_table(s, k, v);
    if (there >= 0)
        return there ? 0 : SNIC_ENOENT;
    int r = lmdb_snapshot(s);
    if (r != 0)
        return r;
    struct lmdb_key copy = *k;
    MDB_val key = {.mv_size = k->size, .mv_data = copy.bytes};
    MDB_val value;
    int e = mdb_get(s->snap, s->dbi, &key, &value);
    if (e != 0)
        return lmdb_error(e);
    return lmdb_unseal(&key, &value, v);
}

/* ---- In order ---- */

/** A position in the three layers: the next entry of each. */
struct lmdb_merge {
    struct lmdb_entry *table[2]; /* active, in flight */
    MDB_val key;
    MDB_val value;
    int stored; /* key and value are there */
};

static int lmdb_merge_begin(struct lmdb_kv *s, struct lmdb_merge *m, const struct lmdb_key *k)
{
    struct lmdb_key copy = *k;
    m->table[0] = lmdb_table_lower(&s->active->table, k);
    m->table[1] = s->flight == NULL ? NULL : lmdb_table_lower(&s->flight->table, k);
    int r = lmdb_snapshot(s);
    if (r != 0)
        return r;
    m->key = (MDB_val){.mv_size = k->size, .mv_data = copy.bytes};
    int e = mdb_cursor_get(s->cursor, &m->key, &m->value, MDB_SET_RANGE);
    m->stored = e == 0;
    return e == 0 || e == MDB_NOTFOUND ? 0 : lmdb_error(e);
}

/** The layer with the smallest key, of equal ones the upper layer: 0, 1, 2; -1 at the end. */
static int lmdb_merge_pick(const struct lmdb_merge *m, const unsigned char **key, uint32_t *size)
{
    int best = -1;
    for (int i = 0; i < 2; i++) {
        const struct lmdb_entry *e = m->table[i];
        if (e != NULL && (best < 0 || lmdb_compare(e->key, e->key_size, *key, *size) < 0)) {
            best = i;
            *key = e->key;
            *size = e->key_size;
        }
    }
    if (m->stored &&
        (best < 0 || lmdb_compare(m->key.mv_data, (uint32_t)m->key.mv_size, *key, *size) < 0)) {
        best = 2;
        *key = m->key.mv_data;
        *size = (uint32_t)m->key.mv_size;
    }
    return best;
}

/** Skip the entry of @p key in every layer. */
static int lmdb_merge_skip(struct lmdb_kv *s, struct lmdb_merge *m, const unsigned char *key,
                           uint32_t size)
{
    for (int i = 0; i < 2; i++) {
        struct lmdb_entry *e = m->table[i];
        if (e != NULL && e->key_size == size && memcmp(e->key, key, size) == 0)
            m->table[i] = e->next[0];
    }
    if (!m->stored || m->key.mv_size != size || memcmp(m->key.mv_data, key, size) != 0)
        return 0;
    int e = mdb_cursor_get(s->cursor, &m->key, &m->value, MDB_NEXT);
    m->stored = e == 0;
    return e == 0 || e == MDB_NOTFOUND ? 0 : lmdb_error(e);
}

/**
 * The next existing entry; the position moves behind it. A damaged one has no data in its value, so
 * that entries behind it can still be read. 0, SNIC_ENOENT at the end, error.
 */
static int lmdb_merge_next(struct lmdb_kv *s, struct lmdb_merge *m, struct lmdb_key *k,
                           struct lmdb_value *v)
{
    for (;;) {
        const unsigned char *key = NULL;
        uint32_t size = 0;
        int layer = lmdb_merge_pick(m, &key, &size);
        if (layer < 0)
            return SNIC_ENOENT;
        if (size > LMDB_KEY_MAX)
            return SNIC_ECORRUPT;
        int deleted = layer < 2 && m->table[layer]->size == SNIC_LMDB__DELETED;
        if (layer == 2) {
            if (lmdb_unseal(&m->key, &m->value, v) != 0)
                *v = (struct lmdb_value){.data = NULL};
        } else if (!deleted) {
            v->data = m->table[layer]->value;
            v->size = m->table[layer]->size;
        }
        k->size = (uint8_t)size;
        memcpy(k->bytes, key, size);
        int r = lmdb_merge_skip(s, m, k->bytes, k->size);
        if (r != 0 || !deleted)
            return r;
    }
}

int lmdb_seek(struct lmdb_kv *s, struct lmdb_key *k, struct lmdb_value *v)
{
    struct lmdb_merge m;
    int r = lmdb_merge_begin(s, &m, k);
    return r != 0 ? r : lmdb_merge_next(s, &m, k, v);
}

/* ---- Operations ---- */

void lmdb_run_get(struct lmdb_kv *s, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < op->get_count; i++) {
        struct snic_kvop_get *g = &op->gets[i];
        struct lmdb_key key = lmdb_key_record(&g->key);
        struct lmdb_value v = {0};
        int r = lmdb_get(s, &key, &v);
        if (r == 0) {
            kv_get_answer(g, v.data, v.size);
        } else if (r == SNIC_ENOENT) {
            kv_get_answer(g, NULL, 0);
        } else {
            g->size = 0;
            g->result = r;
            op->result = r;
        }
    }
    if (op->result == 0)
        op->result = kv_get_result(op);
}

/** The smallest key above @p k. */
static void lmdb_key_after(struct lmdb_key *k)
{
    if (k->size < LMDB_KEY_MAX) {
        k->bytes[k->size++] = 0;
        return;
    }
    uint32_t i = k->size; /* the largest size: count up; the first byte never overflows */
    while (i > 0 && ++k->bytes[i - 1] == 0)
        i--;
    k->size = (uint8_t)(i == 0 ? 1 : i);
}

void lmdb_run_scan(struct lmdb_kv *s, struct snic_kvop *op)
{
    struct lmdb_key prefix = lmdb_key_record(&op->key);
    struct lmdb_key k = prefix;
    if (op->after.size > 0) {
        k = lmdb_key_record(&op->after);
        lmdb_key_after(&k);
        if (lmdb_compare(k.bytes, k.size, prefix.bytes, prefix.size) < 0)
            k = prefix;
    }
    struct lmdb_merge m;
    int r = lmdb_merge_begin(s, &m, &k);
    while (r == 0) {
        struct lmdb_value v = {0};
        r = lmdb_merge_next(s, &m, &k, &v);
        if (r == SNIC_ENOENT ||
            (r == 0 && (k.size < prefix.size || memcmp(k.bytes, prefix.bytes, prefix.size) != 0))) {
            op->end = 1;
            return;
        }
        if (r != 0)
            break;
        if (op->out_count == op->scan_max)
            return;
        if (k.size == prefix.size - op->key.size) {
            op->result = SNIC_ECORRUPT; /* no record has an empty key */
            return;
        }
        const void *value = v.data == NULL ? (const void *)k.bytes : v.data; /* damaged: size 0 */
        if (snic_kvop_append(op, k.bytes + 9, k.size - 9U, value, v.size) != 0) {
            op->result = op->out_count == 0 ? SNIC_EMSGSIZE : 0;
            return;
        }
    }
    op->result = r;
}

/** The smallest number >= @p from with keys of @p kind; 1 if there is one, 0, or an error. */
static int lmdb_groups_next(struct lmdb_kv *s, uint8_t kind, uint64_t from, uint64_t *number)
{
    struct lmdb_key k = lmdb_key_number(kind, from);
    struct lmdb_value v;
    int r = lmdb_seek(s, &k, &v);
    if (r == SNIC_ENOENT || (r == 0 && (k.bytes[0] != kind || k.size < 9)))
        return 0;
    if (r != 0)
        return r;
    *number = snic_get_be64(k.bytes + 1);
    return 1;
}

/* The cursor is the number after the last one delivered. */
void lmdb_run_groups(struct lmdb_kv *s, struct snic_kvop *op)
{
    uint64_t *out = op->out;
    for (;;) {
        uint64_t group = 0;
        uint64_t object = 0;
        int g = lmdb_groups_next(s, 'R', op->cursor, &group);
        int o = g < 0 ? g : lmdb_groups_next(s, 'M', op->cursor, &object);
        if (g < 0 || o < 0) {
            op->result = g < 0 ? g : o;
            return;
        }
        if (!g && !o) {
            op->end = 1;
            return;
        }
        if (op->out_room - op->out_size < sizeof(*out))
            return;
        uint64_t n = !o ? group : !g ? object : snic_min_u64(group, object);
        out[op->out_count++] = n;
        op->out_size += (uint32_t)sizeof(*out);
        if (n == UINT64_MAX) {
            op->end = 1;
            return;
        }
        op->cursor = n + 1;
    }
}

#endif /* SNIC_WITH_LMDB */
