/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Execution of operations by the store in memory.
 *
 * A commit is one change: guards, space and memory are checked first, and nothing fails after the
 * first record was changed. Object bytes that do not belong to the same step (kvop.h) are changes
 * of their own before it: a store that has no commits over several groups writes them even before
 * it checks the guards, as RADOS must.
 */
#include <stdlib.h>

#include "kv/mem_priv.h"

static const uint64_t kv_mem_reserve_max = (uint64_t)64 << 20;

/* ---- Space ---- */

static uint64_t kv_mem_free(const struct snic_kvmem *m, int reserve)
{
    uint64_t all = m->opts.space - (reserve ? 0 : m->reserve);
    return all > m->used ? all - m->used : 0;
}

static int kv_mem_fits(const struct snic_kvmem *m, const struct snic_kvop *op, int64_t more)
{
    if (more <= 0)
        return 1;
    return (uint64_t)more <= kv_mem_free(m, (op->flags & SNIC_KVOP_RESERVE) != 0);
}

/* ---- Reading records ---- */

static void kv_mem_get(struct snic_kvmem *m, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < op->get_count; i++) {
        struct snic_kvop_get *g = &op->gets[i];
        struct kv_mem_record *r = kv_mem_find(m, &g->key);
        if (r != NULL && r->damaged) {
            g->size = 0;
            g->result = SNIC_ECORRUPT;
            op->result = SNIC_ECORRUPT;
        } else {
            kv_get_answer(g, r == NULL ? NULL : kv_mem_value(r), r == NULL ? 0 : r->size);
        }
    }
    if (op->result == 0)
        op->result = kv_get_result(op);
}

static int kv_mem_in_scan(const struct snic_kvop *op, const struct kv_mem_record *r)
{
    return r != NULL && r->key.group == op->key.group && r->key.size >= op->key.size &&
           memcmp(r->key.bytes, op->key.bytes, op->key.size) == 0;
}

static void kv_mem_scan(struct snic_kvmem *m, struct snic_kvop *op)
{
    const struct snic_kvop_key *from = &op->key;
    if (op->after.size != 0 && snic_kvop_key_compare(&op->after, from) >= 0)
        from = &op->after;
    struct kv_mem_pos p = kv_mem_lower(m, from);
    struct kv_mem_record *r = kv_mem_at(&p);
    if (r != NULL && (r->key.size == 0 || (op->after.size != 0 && from == &op->after &&
                                           snic_kvop_key_compare(&r->key, from) == 0))) {
        p.at++;
        r = kv_mem_at(&p);
    }
    while (kv_mem_in_scan(op, r) && op->out_count < op->scan_max) {
        if (snic_kvop_append(op, r->key.bytes, r->key.size, kv_mem_value(r),
                             r->damaged ? 0 : r->size) != 0) {
            op->result = op->out_count == 0 ? SNIC_EMSGSIZE : 0;
            return;
        }
        p.at++;
        r = kv_mem_at(&p);
    }
    op->end = !kv_mem_in_scan(op, r);
}

/** The cursor is the number after the last one delivered. */
static void kv_mem_groups(struct snic_kvmem *m, struct snic_kvop *op)
{
    uint64_t *out = op->out;
    uint64_t number = op->cursor;
    for (;;) {
        struct snic_kvop_key key = {.group = number};
        struct kv_mem_pos p = kv_mem_lower(m, &key);
        const struct kv_mem_record *r = kv_mem_at(&p);
        op->end = r == NULL;
        if (r == NULL || op->out_room - op->out_size < sizeof(uint64_t))
            return;
        out[op->out_count++] = r->key.group;
        op->out_size += (uint32_t)sizeof(uint64_t);
        number = r->key.group + 1;
        op->cursor = number;
        if (number == 0) {
            op->end = 1;
            return;
        }
    }
}

/* ---- Commit ---- */

/** The parts of a commit, determined before anything is changed. */
struct kv_mem_commit {
    const struct snic_kvop_change *write;
    const struct snic_kvop_change *truncates[SNIC_KVOP_CHANGES_MAX];
    uint32_t truncate_count;
    uint32_t record_count;
    int one_step; /* the bytes belong to the records' change */
    struct kv_mem_record *old[SNIC_KVOP_CHANGES_MAX];
    struct kv_mem_record *made[SNIC_KVOP_CHANGES_MAX];
};

static int kv_mem_one_step(const struct snic_kvmem *m, const struct snic_kvop *op,
                           const struct snic_kvop_change *write)
{
    int is = write->offset + write->size <= m->opts.stripe_bytes;
    if ((m->opts.caps & SNIC_KV_CAP_ATOMIC_OBJECT) != 0)
        return 1;
    for (uint32_t i = 0; i < op->guard_count && is; i++)
        is = op->guards[i].key.group == write->object;
    for (uint32_t i = 0; i < op->change_count && is; i++) {
        const struct snic_kvop_change *change = &op->changes[i];
        is = (change->kind != SNIC_KVOP_PUT && change->kind != SNIC_KVOP_DELETE) ||
             change->key.group == write->object;
    }
    return is;
}

static void kv_mem_commit_sort(const struct snic_kvmem *m, const struct snic_kvop *op,
                               struct kv_mem_commit *c)
{
    c->write = NULL;
    c->truncate_count = 0;
    c->record_count = 0;
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *change = &op->changes[i];
        if (change->kind == SNIC_KVOP_CHANGE_WRITE)
            c->write = change;
        else if (change->kind == SNIC_KVOP_CHANGE_TRUNCATE)
            c->truncates[c->truncate_count++] = change;
        else
            c->record_count++;
    }
    c->one_step = c->write != NULL && kv_mem_one_step(m, op, c->write);
}

/** 0; SNIC_ECANCELED, failed_guard is set; SNIC_ECORRUPT. */
static int kv_mem_commit_guards(const struct snic_kvmem *m, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < op->guard_count; i++) {
        const struct snic_kvop_guard *g = &op->guards[i];
        struct kv_mem_record *r = kv_mem_find(m, &g->key);
        if (r != NULL && r->damaged)
            return SNIC_ECORRUPT;
        if ((r == NULL) == (g->value == NULL) &&
            (r == NULL || (r->size == g->size && memcmp(kv_mem_value(r), g->value, g->size) == 0)))
            continue;
        op->failed_guard = i;
        return SNIC_ECANCELED;
    }
    return 0;
}

/** The bytes of a commit: check space, memory and edges, then write. */
static int kv_mem_commit_bytes(struct snic_kvmem *m, struct snic_kvop *op,
                               const struct snic_kvop_change *w, int inside)
{
    struct snic_iov piece = {(void *)(uintptr_t)w->value, w->size};
    uint64_t more = kv_mem_missing(m, w->object, w->offset, w->size) * SNIC_KVOP_BLOCK;
    if (!inside) {
        int r = kv_mem_edges(m, w->object, w->offset, w->size, &op->bad_offset);
        if (r != 0)
            return r;
        if (!kv_mem_fits(m, op, (int64_t)more) ||
            kv_mem_prepare(m, w->object, w->offset, w->size, 1) != 0)
            return SNIC_ENOSPC;
    }
    kv_mem_write(m, w->object, w->offset, &piece, w->size, inside);
    op->allocated += (int64_t)more;
    return 0;
}

static void kv_mem_commit_drop(struct snic_kvmem *m, const struct snic_kvop *op,
                               struct kv_mem_commit *c)
{
    for (uint32_t i = 0; i < op->change_count; i++)
        kv_mem_record_free(m, c->made[i]);
}

/** Make new records, reserve memory, and check that it fits. Nothing is visible yet. */
static int kv_mem_commit_prepare(struct snic_kvmem *m, struct snic_kvop *op,
                                 struct kv_mem_commit *c)
{
    const struct snic_kvop_change *w = c->one_step ? c->write : NULL;
    int64_t more = 0;
    int r = kv_mem_reserve(m, c->record_count + 1);
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *change = &op->changes[i];
        int put = change->kind == SNIC_KVOP_PUT;
        c->old[i] = NULL;
        c->made[i] = NULL;
        if (!put && change->kind != SNIC_KVOP_DELETE)
            continue;
        c->old[i] = kv_mem_find(m, &change->key);
        if (c->old[i] != NULL)
            more -= (int64_t)kv_mem_record_bytes(change->key.size, c->old[i]->size);
        if (!put)
            continue;
        more += (int64_t)kv_mem_record_bytes(change->key.size, change->size);
        if (!m->opts.track && c->old[i] != NULL && c->old[i]->size == change->size)
            continue; /* in place */
        c->made[i] = kv_mem_record_make(m, &change->key, change->value, change->size);
        r = c->made[i] == NULL ? SNIC_ENOMEM : r;
    }
    if (r == 0 && w != NULL) {
        more += (int64_t)(kv_mem_missing(m, w->object, w->offset, w->size) * SNIC_KVOP_BLOCK);
        r = kv_mem_edges(m, w->object, w->offset, w->size, &op->bad_offset);
    }
    if (r == 0 && !kv_mem_fits(m, op, more))
        r = SNIC_ENOSPC;
    if (r == 0 && w != NULL)
        r = kv_mem_prepare(m, w->object, w->offset, w->size, 1);
    uint64_t undos = c->record_count;
    if (c->write != NULL)
        undos += c->write->size / SNIC_KVOP_BLOCK + 2;
    if (r == 0)
        r = kv_mem_undo_reserve(m, undos);
    if (r != 0)
        kv_mem_commit_drop(m, op, c);
    return r == SNIC_ENOMEM ? SNIC_ENOSPC : r;
}

/** One record's change, from c->old[i] to c->made[i]. */
static void kv_mem_commit_record(struct snic_kvmem *m, const struct snic_kvop_change *change,
                                 struct kv_mem_record *old, struct kv_mem_record *made)
{
    if (change->kind == SNIC_KVOP_PUT && made == NULL) {
        memcpy(kv_mem_value(old), change->value, change->size);
        old->damaged = 0;
        return;
    }
    if (old == NULL && made == NULL)
        return;
    if (old != NULL)
        m->used -= kv_mem_record_bytes(change->key.size, old->size);
    if (made != NULL)
        m->used += kv_mem_record_bytes(change->key.size, made->size);
    if (old == NULL)
        kv_mem_insert(m, made);
    else if (made == NULL)
        kv_mem_remove(m, old);
    else
        kv_mem_replace(m, old, made);
    if (m->opts.track)
        kv_mem_undo_record(m, &change->key, old);
    else
        kv_mem_record_free(m, old);
}

static int kv_mem_commit_truncates(struct snic_kvmem *m, struct snic_kvop *op,
                                   const struct kv_mem_commit *c)
{
    int r = 0;
    for (uint32_t i = 0; i < c->truncate_count && r == 0; i++) {
        const struct snic_kvop_change *t = c->truncates[i];
        uint64_t before = m->used;
        kv_mem_change(m);
        r = kv_mem_punch(m, t->object, t->offset, SNIC_KVOP_OBJECT_MAX - t->offset);
        op->allocated -= (int64_t)(before - m->used);
    }
    return r == SNIC_ENOMEM ? SNIC_EUNKNOWN : r; /* the records are changed already */
}

static int kv_mem_commit(struct snic_kvmem *m, struct snic_kvop *op)
{
    struct kv_mem_commit c;
    int multi = (m->opts.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0;
    kv_mem_commit_sort(m, op, &c);
    for (uint32_t i = 0; i < c.truncate_count; i++) {
        const struct snic_kvop_change *t = c.truncates[i];
        int r = kv_mem_edges(m, t->object, t->offset, 0, &op->bad_offset);
        if (r != 0)
            return r;
    }
    if (c.write != NULL && !c.one_step && !multi) {
        int r = kv_mem_commit_bytes(m, op, c.write, 0);
        if (r != 0)
            return r;
    }
    int r = kv_mem_commit_guards(m, op);
    if (r != 0 || op->change_count == 0)
        return r;
    r = kv_mem_commit_prepare(m, op, &c);
    if (r != 0)
        return r;
    if (c.write != NULL && !c.one_step && multi) {
        r = kv_mem_commit_bytes(m, op, c.write, 0);
        if (r != 0) {
            kv_mem_commit_drop(m, op, &c);
            return r;
        }
    }
    if (c.record_count != 0 || c.one_step)
        kv_mem_change(m);
    if (c.one_step)
        (void)kv_mem_commit_bytes(m, op, c.write, 1);
    for (uint32_t i = 0; i < op->change_count; i++) {
        uint32_t kind = op->changes[i].kind;
        if (kind == SNIC_KVOP_PUT || kind == SNIC_KVOP_DELETE)
            kv_mem_commit_record(m, &op->changes[i], c.old[i], c.made[i]);
    }
    return kv_mem_commit_truncates(m, op, &c);
}

/* ---- Objects ---- */

static int64_t kv_mem_object_write(struct snic_kvmem *m, struct snic_kvop *op)
{
    uint64_t more = kv_mem_missing(m, op->object, op->offset, op->length) * SNIC_KVOP_BLOCK;
    int r = kv_mem_edges(m, op->object, op->offset, op->length, &op->bad_offset);
    if (r != 0)
        return r;
    if (!kv_mem_fits(m, op, (int64_t)more) ||
        kv_mem_prepare(m, op->object, op->offset, op->length, 1) != 0)
        return SNIC_ENOSPC;
    kv_mem_write(m, op->object, op->offset, op->iov, op->length, 0);
    op->allocated = (int64_t)more;
    return (int64_t)op->length;
}

static int64_t kv_mem_object_take(struct snic_kvmem *m, struct snic_kvop *op, int zero)
{
    uint64_t more = kv_mem_missing(m, op->object, op->offset, op->length) * SNIC_KVOP_BLOCK;
    int r = zero ? kv_mem_edges(m, op->object, op->offset, op->length, &op->bad_offset) : 0;
    if (r != 0)
        return r;
    if (!kv_mem_fits(m, op, (int64_t)more) ||
        kv_mem_prepare(m, op->object, op->offset, op->length, 0) != 0)
        return SNIC_ENOSPC;
    kv_mem_change(m);
    kv_mem_take(m, op->object, op->offset, op->length, zero);
    op->allocated = (int64_t)more;
    return 0;
}

static int64_t kv_mem_object_punch(struct snic_kvmem *m, struct snic_kvop *op, uint64_t length)
{
    uint64_t before = m->used;
    int r = kv_mem_edges(m, op->object, op->offset, length, &op->bad_offset);
    if (r != 0)
        return r;
    kv_mem_change(m);
    if (kv_mem_punch(m, op->object, op->offset, length) != 0)
        return SNIC_ENOSPC;
    op->allocated = -(int64_t)(before - m->used);
    return 0;
}

int snic_kvmem_fenced(const struct snic_kvmem *m, const void *identity, uint32_t size)
{
    for (uint32_t i = 0; i < m->fences_count && i < KVMEM_FENCES; i++)
        if (m->fences[i].size == size && memcmp(m->fences[i].identity, identity, size) == 0)
            return 1;
    return 0;
}

static void kv_mem_fence(struct snic_kvmem *m, const struct snic_iov *identity)
{
    uint32_t size = (uint32_t)identity->size;
    SNIC_ASSERT(size <= SNIC_KVOP_IDENTITY_MAX);
    if (snic_kvmem_fenced(m, identity->base, size))
        return;
    struct kv_mem_fence *f = &m->fences[m->fences_count++ % KVMEM_FENCES];
    f->size = size;
    memcpy(f->identity, identity->base, size);
}

static int64_t kv_mem_other(struct snic_kvmem *m, struct snic_kvop *op)
{
    const struct kv_mem_object *o;
    int r;
    switch (op->kind) {
    case SNIC_KVOP_OBJECT_READ:
        r = kv_mem_read(m, op);
        return r != 0 ? r : (int64_t)op->length;
    case SNIC_KVOP_OBJECT_WRITE:
        return kv_mem_object_write(m, op);
    case SNIC_KVOP_OBJECT_ZERO:
    case SNIC_KVOP_OBJECT_ALLOC:
        return kv_mem_object_take(m, op, op->kind == SNIC_KVOP_OBJECT_ZERO);
    case SNIC_KVOP_OBJECT_PUNCH:
        return kv_mem_object_punch(m, op, op->length);
    case SNIC_KVOP_OBJECT_TRUNCATE:
        return kv_mem_object_punch(m, op, SNIC_KVOP_OBJECT_MAX - op->offset);
    case SNIC_KVOP_OBJECT_SEEK:
        return kv_mem_seek(m, op->object, op->offset, (op->flags & SNIC_KVOP_SEEK_HOLE) != 0);
    case SNIC_KVOP_OBJECT_STAT:
        o = kv_mem_object_find(m, op->object);
        op->allocated = o == NULL ? 0 : (int64_t)(o->blocks * SNIC_KVOP_BLOCK);
        return 0;
    case SNIC_KVOP_SYNC:
        kv_mem_sync(m);
        return 0;
    case SNIC_KVOP_FENCE:
        kv_mem_fence(m, op->iov);
        return 0;
    default: /* SPACE */
        op->space = m->opts.space;
        op->space_free = kv_mem_free(m, 0);
        return 0;
    }
}

/* ---- Faults ---- */

static int kv_mem_fault_matches(const struct snic_kv_fault *f, const struct snic_kvop *op)
{
    return f->kinds == 0 || (f->kinds >> op->kind & 1) != 0;
}

struct kv_mem_verdict kv_mem_judge(struct snic_kvmem *m, const struct snic_kvop *op)
{
    struct kv_mem_verdict v = {.kind = 0};
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->faults_count; i++) {
        struct snic_kv_fault *f = &m->faults[i];
        int fires = kv_mem_fault_matches(f, op) && --f->after == 0;
        if (fires) {
            if (f->kind == SNIC_KV_FAULT_DELAY)
                v.delay_ns += f->delay_ns;
            else if (v.kind == 0)
                v = (struct kv_mem_verdict){f->kind, f->error, v.delay_ns, f->keep};
            f->after = 1;
        }
        int spent = fires && f->repeat == 0;
        if (fires && f->repeat != 0 && f->repeat != UINT64_MAX)
            f->repeat--;
        if (!spent)
            m->faults[left++] = *f;
    }
    m->faults_count = left;
    return v;
}

int snic_kvmem_fault(struct snic_kvmem *m, const struct snic_kv_fault *f)
{
    if (f->kind < SNIC_KV_FAULT_ERROR || f->kind > SNIC_KV_FAULT_CRASH || f->after == 0 ||
        (f->kind == SNIC_KV_FAULT_ERROR && f->error >= 0) ||
        (f->kind == SNIC_KV_FAULT_CRASH && !m->opts.track))
        return SNIC_EINVAL;
    if (m->faults_count == KVMEM_FAULTS)
        return SNIC_ENOSPC;
    m->faults[m->faults_count++] = *f;
    return 0;
}

void snic_kvmem_faults_clear(struct snic_kvmem *m)
{
    m->faults_count = 0;
}

/* ---- The medium ---- */

void kv_mem_execute(struct snic_kvmem *m, struct snic_kvop *op, const struct kv_mem_verdict *v)
{
    if (v->kind == SNIC_KV_FAULT_CRASH)
        snic_kvmem_crash(m, v->keep);
    if (m->crashed) {
        op->result = SNIC_EPEERDEAD;
        return;
    }
    if (v->kind == SNIC_KV_FAULT_ERROR) {
        op->result = v->error;
        return;
    }
    if (op->kind == SNIC_KVOP_GET)
        kv_mem_get(m, op);
    else if (op->kind == SNIC_KVOP_SCAN)
        kv_mem_scan(m, op);
    else if (op->kind == SNIC_KVOP_GROUPS)
        kv_mem_groups(m, op);
    else if (op->kind == SNIC_KVOP_COMMIT)
        op->result = kv_mem_commit(m, op);
    else
        op->result = kv_mem_other(m, op);
    if ((op->flags & SNIC_KVOP_DURABLE) != 0 && op->result >= 0)
        kv_mem_sync(m);
    if (v->kind == SNIC_KV_FAULT_UNKNOWN)
        op->result = SNIC_EUNKNOWN;
}

void snic_kvmem_apply(struct snic_kvmem *m, struct snic_kvop *op)
{
    struct kv_mem_verdict v = {.kind = 0};
    kv_op_begin(op);
    op->result = snic_kvop_validate(op, m->opts.caps);
    if (op->result != 0)
        return;
    if (m->faults_count != 0 && !m->crashed)
        v = kv_mem_judge(m, op);
    kv_mem_execute(m, op, &v);
}

int snic_kvmem_open(struct snic_kvmem **out, const struct snic_kvmem_opts *o)
{
    static const uint32_t usual = SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_BLOCK |
                                  SNIC_KV_CAP_CHECKSUM | SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_DURABLE |
                                  SNIC_KV_CAP_SHARED;
    struct snic_kvmem_opts opts = {.opts_size = 0};
    int r = snic_opts_copy(&opts, sizeof(opts), o);
    if (r != 0)
        return r;
    opts.caps = opts.caps == 0 ? usual : opts.caps;
    opts.space = opts.space == 0 ? (uint64_t)64 << 30 : opts.space;
    opts.stripe_bytes = opts.stripe_bytes == 0 ? 4U << 20 : opts.stripe_bytes;
    if ((opts.caps &
         ~(usual | SNIC_KV_CAP_ATOMIC_OBJECT | SNIC_KV_CAP_FENCE | SNIC_KV_CAP_READONLY)) != 0 ||
        opts.track > 1 || opts.delay_min_ns > opts.delay_max_ns ||
        opts.stripe_bytes % SNIC_KVOP_BLOCK != 0 || opts.space > SNIC_KVOP_OBJECT_MAX)
        return SNIC_EINVAL;
    struct snic_kvmem *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return SNIC_ENOMEM;
    m->opts = opts;
    m->reserve = snic_min_u64(opts.space / 32, kv_mem_reserve_max);
    snic_rng_init(&m->rng, opts.seed);
    snic_link_init(&m->handles);
    if (kv_mem_reserve(m, 1) != 0) {
        kv_mem_tree_close(m);
        kv_mem_slab_close(m);
        free(m);
        return SNIC_ENOMEM;
    }
    *out = m;
    return 0;
}

void snic_kvmem_close(struct snic_kvmem *m)
{
    SNIC_ASSERT(m->handles_count == 0);
    kv_mem_sync(m);
    struct kv_mem_pos p = kv_mem_begin(m);
    for (struct kv_mem_record *r = kv_mem_at(&p); r != NULL; p.at++, r = kv_mem_at(&p)) {
        if (r->key.size == 0)
            kv_mem_object_free(m, kv_mem_object_of(r));
        else
            kv_mem_record_free(m, r);
    }
    kv_mem_tree_close(m);
    kv_mem_slab_close(m);
    for (unsigned char *b = m->blocks, *next; b != NULL; b = next) {
        memcpy(&next, b, sizeof(next));
        free(b);
    }
    free(m->undo);
    free(m);
}
