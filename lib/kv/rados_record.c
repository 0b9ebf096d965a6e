/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records on RADOS: the omap of a group's object. A commit is one write operation: guards are
 * omap comparisons (a missing value compares as an empty one, and no value is empty), then keys are
 * set and removed, and object bytes of stripe 0 are written or truncated along. Other stripes are
 * truncated afterwards.
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdio.h>
#include <stdlib.h>

/** The key bytes of an omap key; their number, 0: it is none. */
static uint32_t kv_rados_unescape(unsigned char *out, const char *key, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 1; i < size && n < SNIC_KVOP_KEY_MAX; i++) {
        out[n] = (unsigned char)key[i];
        if (key[i] == 1) {
            if (++i == size || (key[i] != 1 && key[i] != 2))
                return 0;
            out[n] = (unsigned char)(key[i] - 1);
        }
        n++;
    }
    return n;
}

/* ---- GET ---- */

static void kv_rados_got(struct kv_rados_sub *s, int result)
{
    struct kv_rados_call *c = s->call;
    struct snic_kvop *op = c->req->op;
    char *key, *value;
    size_t key_size, value_size;
    unsigned char bytes[SNIC_KVOP_KEY_MAX];
    if (result == -2)
        return; /* no such group: all are missing */
    if (result < 0 || s->iter_result < 0) {
        kv_rados_fail(c, result < 0 ? result : s->iter_result);
        return;
    }
    while (rados_omap_get_next2(s->iter, &key, &value, &key_size, &value_size) == 0 &&
           key != NULL) {
        uint32_t size = kv_rados_unescape(bytes, key, key_size);
        for (uint32_t i = 0; i < op->get_count; i++) {
            struct snic_kvop_get *g = &op->gets[i];
            if (g->key.group == s->group && g->key.size == size &&
                memcmp(g->key.bytes, bytes, size) == 0)
                kv_get_answer(g, value, (uint32_t)value_size);
        }
    }
}

static void kv_rados_get_end(struct kv_rados_call *c)
{
    c->req->op->result = kv_get_result(c->req->op);
    kv_rados_finish(c);
}

/** Keys of the group that gets[first] names, in one operation. */
static void kv_rados_get_group(struct kv_rados_call *c, uint32_t first)
{
    struct snic_kvop *op = c->req->op;
    char keys[SNIC_KVOP_GETS_MAX][KV_RADOS_KEY];
    const char *list[SNIC_KVOP_GETS_MAX];
    size_t sizes[SNIC_KVOP_GETS_MAX];
    char name[KV_RADOS_NAME];
    size_t n = 0;
    struct kv_rados_sub *s = kv_rados_sub(c->store, c);
    s->group = op->gets[first].key.group;
    for (uint32_t i = first; i < op->get_count; i++) {
        if (op->gets[i].key.group != s->group)
            continue;
        sizes[n] = kv_rados_key(keys[n], &op->gets[i].key);
        list[n] = keys[n];
        n++;
    }
    s->read = rados_create_read_op();
    rados_read_op_omap_get_vals_by_keys2(s->read, list, n, sizes, &s->iter, &s->iter_result);
    kv_rados_group_name(name, s->group);
    kv_rados_send(s, name, kv_rados_got);
}

void kv_rados_get(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    c->next = kv_rados_get_end;
    for (uint32_t i = 0; i < op->get_count; i++) {
        int seen = 0;
        kv_get_answer(&op->gets[i], NULL, 0);
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = op->gets[j].key.group == op->gets[i].key.group;
        if (!seen)
            kv_rados_get_group(c, i);
    }
}

/* ---- SCAN ---- */

static void kv_rados_scan_page(struct kv_rados_call *c);

/** More records are wanted, and there are some. */
static void kv_rados_scan_more(struct kv_rados_call *c)
{
    if (!c->more) {
        kv_rados_finish(c);
        return;
    }
    c->pending = 1;
    kv_rados_scan_page(c);
    kv_rados_put(c);
}

static void kv_rados_scanned(struct kv_rados_sub *s, int result)
{
    struct kv_rados_call *c = s->call;
    struct snic_kvop *op = c->req->op;
    char *key, *value;
    size_t key_size, value_size;
    unsigned char bytes[SNIC_KVOP_KEY_MAX];
    c->more = 0;
    if (result == -2) {
        op->end = 1;
        return;
    }
    if (result < 0 || s->iter_result < 0) {
        kv_rados_fail(c, result < 0 ? result : s->iter_result);
        return;
    }
    while (rados_omap_get_next2(s->iter, &key, &value, &key_size, &value_size) == 0 &&
           key != NULL) {
        uint32_t size = kv_rados_unescape(bytes, key, key_size);
        if (op->out_count == op->scan_max)
            return;
        if (size == 0 || value_size == 0 || key_size >= KV_RADOS_KEY) {
            c->error = SNIC_ECORRUPT;
            return;
        }
        if (snic_kvop_append(op, bytes, size, value, (uint32_t)value_size) != 0) {
            if (op->out_count == 0)
                c->error = SNIC_EMSGSIZE;
            return;
        }
        memcpy(c->after, key, key_size);
        c->after[key_size] = 0;
    }
    op->end = !s->more;
    c->more = s->more && op->out_count < op->scan_max;
}

static void kv_rados_scan_page(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    char prefix[KV_RADOS_KEY];
    char name[KV_RADOS_NAME];
    struct kv_rados_sub *s = kv_rados_sub(c->store, c);
    uint64_t max = snic_min_u64(op->scan_max - op->out_count, (op->out_room - op->out_size) / 24);
    (void)kv_rados_key(prefix, &op->key);
    s->read = rados_create_read_op();
    rados_read_op_omap_get_vals2(s->read, c->after, prefix, snic_max_u64(max, 1), &s->iter,
                                 &s->more, &s->iter_result);
    kv_rados_group_name(name, op->key.group);
    kv_rados_send(s, name, kv_rados_scanned);
}

void kv_rados_scan(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    c->after[0] = 0;
    if (op->after.size != 0)
        (void)kv_rados_key(c->after, &op->after);
    c->next = kv_rados_scan_more;
    kv_rados_scan_page(c);
}

/* ---- COMMIT ---- */

/** The group does not exist: so none of its records does. */
static void kv_rados_commit_absent(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        if (op->guards[i].value == NULL)
            continue;
        op->failed_guard = i;
        c->error = SNIC_ECANCELED;
        return;
    }
}

static void kv_rados_committed(struct kv_rados_sub *s, int result)
{
    struct kv_rados_call *c = s->call;
    if (result == -2)
        kv_rados_commit_absent(c);
    else if (result < 0 && (result != -125 || s->aborted || !kv_rados_commit_failed(s)))
        kv_rados_fail(c, result);
}

/** Changes of each kind. */
struct kv_rados_kinds {
    uint32_t puts;
    uint32_t deletes;
    uint64_t group;
    const struct snic_kvop_change *write;
    const struct snic_kvop_change *cut; /* a truncation that begins in the group's own stripe 0 */
};

static struct kv_rados_kinds kv_rados_kinds(const struct snic_kvop *op)
{
    struct kv_rados_kinds n = {.puts = 0};
    if (op->guard_count != 0)
        n.group = op->guards[0].key.group;
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *ch = &op->changes[i];
        if (ch->kind == SNIC_KVOP_PUT || ch->kind == SNIC_KVOP_DELETE)
            n.group = ch->key.group;
        n.puts += ch->kind == SNIC_KVOP_PUT;
        n.deletes += ch->kind == SNIC_KVOP_DELETE;
        if (ch->kind == SNIC_KVOP_CHANGE_WRITE)
            n.write = ch;
    }
    for (uint32_t i = 0; i < op->change_count && n.write == NULL; i++) {
        const struct snic_kvop_change *ch = &op->changes[i];
        if (ch->kind == SNIC_KVOP_CHANGE_TRUNCATE && ch->object == n.group &&
            ch->offset < KV_RADOS_STRIPE && n.puts + n.deletes + op->guard_count != 0)
            n.cut = ch;
    }
    return n;
}

/** The next TRUNCATE; when there is none left, the end. */
static void kv_rados_commit_truncates(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    struct kv_rados_kinds n = kv_rados_kinds(op);
    while (c->step < op->change_count) {
        const struct snic_kvop_change *ch = &op->changes[c->step++];
        if (ch->kind != SNIC_KVOP_CHANGE_TRUNCATE)
            continue;
        /* Do not truncate stripe 0 a second time: others may have written to it since. */
        uint64_t from = ch == n.cut ? KV_RADOS_STRIPE : ch->offset;
        c->pending = 1;
        kv_rados_punch(c, ch->object, from, SNIC_KVOP_OBJECT_MAX, kv_rados_commit_truncates);
        c->whole = ch->offset == 0;
        kv_rados_put(c);
        return;
    }
    if (n.puts == 0 && n.write == NULL && (n.deletes != 0 || n.cut != NULL))
        kv_rados_tidy(c->store, n.group);
    kv_rados_finish(c);
}

/** Guards and records, without object bytes. */
static void kv_rados_commit_records(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    struct kv_rados_kinds n = kv_rados_kinds(op);
    char name[KV_RADOS_NAME];
    kv_rados_parts_free(c);
    c->next = kv_rados_commit_truncates;
    c->pending = 1;
    if (op->guard_count != 0 || n.puts + n.deletes != 0) {
        struct kv_rados_sub *s = kv_rados_sub(c->store, c);
        if (n.puts + n.deletes == 0)
            s->read = rados_create_read_op();
        else
            s->write = rados_create_write_op();
        if (n.puts != 0)
            rados_write_op_create(s->write, LIBRADOS_CREATE_IDEMPOTENT, NULL);
        kv_rados_commit_guards(s);
        if (s->write != NULL)
            kv_rados_commit_changes(s);
        kv_rados_group_name(name, n.group);
        kv_rados_send(s, name, kv_rados_committed);
    }
    kv_rados_put(c);
}

void kv_rados_commit(struct kv_rados_call *c)
{
    const struct snic_kvop *op = c->req->op;
    struct kv_rados_kinds n = kv_rados_kinds(op);
    c->step = 0;
    if (n.cut != NULL) {
        struct kv_rados_part *p = kv_rados_part(c, KV_RADOS_PUNCH, n.cut->object, 0,
                                                (uint32_t)n.cut->offset, KV_RADOS_STRIPE);
        p->commit = 1;
        c->next = kv_rados_commit_truncates;
        kv_rados_part_run(p);
        return;
    }
    if (n.write == NULL) {
        c->next = kv_rados_commit_records;
        return;
    }
    int records = n.puts + n.deletes + op->guard_count != 0;
    int one = n.write->offset + n.write->size <= KV_RADOS_STRIPE &&
              (!records || n.group == n.write->object);
    c->next = one ? kv_rados_commit_truncates : kv_rados_commit_records;
    kv_rados_write_parts(c, n.write->object, n.write->offset, n.write->size, n.write->value, one);
}

#else
typedef int kv_rados_record_is_empty;
#endif /* SNIC_WITH_RADOS */
