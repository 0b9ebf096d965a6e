/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Keys in order, operations checked, scan output packed.
 */
#include "snicstore/kvop.h"

SNIC_STATIC_ASSERT(sizeof(struct snic_kvop_key) == 64, "keys are compared and copied as one line");
SNIC_STATIC_ASSERT(sizeof(struct snic_kvop_record) == 16, "records stay aligned");
SNIC_STATIC_ASSERT(SNIC_KVOP_VALUE_MAX <= SNIC_KVOP_COMMIT_MAX, "one value fits a commit");

int snic_kvop_key_compare(const struct snic_kvop_key *a, const struct snic_kvop_key *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order != 0 ? order : (int)a->size - (int)b->size;
}

/* ---- Validation ---- */

/** Zero behind its size, so that equal keys are equal structs. */
static int kvop_key_tail(const struct snic_kvop_key *k)
{
    static const unsigned char zeros[SNIC_KVOP_KEY_MAX + 1];
    return memcmp(k->bytes + k->size, zeros, sizeof(zeros) - k->size) == 0;
}

static int kvop_key_fine(const struct snic_kvop_key *k, uint32_t size_min)
{
    return k->size >= size_min && k->size <= SNIC_KVOP_KEY_MAX && k->pad == 0 && kvop_key_tail(k);
}

static int kvop_key_equal(const struct snic_kvop_key *a, const struct snic_kvop_key *b)
{
    return a->group == b->group && memcmp(a, b, sizeof(*a)) == 0;
}

static int kvop_aligned(const void *p)
{
    return ((uintptr_t)p & 7) == 0;
}

static int kvop_check_get(const struct snic_kvop *op)
{
    if (op->get_count > SNIC_KVOP_GETS_MAX)
        return SNIC_EMSGSIZE;
    if (op->gets == NULL || op->get_count == 0)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < op->get_count; i++) {
        const struct snic_kvop_get *g = &op->gets[i];
        if (!kvop_key_fine(&g->key, 1) || (g->value == NULL && g->room != 0))
            return SNIC_EINVAL;
    }
    return 0;
}

static int kvop_check_scan(const struct snic_kvop *op)
{
    if (op->out == NULL || op->out_room == 0 || !kvop_aligned(op->out) || op->scan_max == 0)
        return SNIC_EINVAL;
    if (!kvop_key_fine(&op->key, 0) || !kvop_key_fine(&op->after, 0))
        return SNIC_EINVAL;
    return op->after.size != 0 && op->after.group != op->key.group ? SNIC_EINVAL : 0;
}

static int kvop_check_groups(const struct snic_kvop *op)
{
    if (op->out == NULL || op->out_room == 0 || !kvop_aligned(op->out))
        return SNIC_EINVAL;
    return op->out_room < sizeof(uint64_t) ? SNIC_EMSGSIZE : 0;
}

static int kvop_check_range(uint64_t offset, uint64_t length)
{
    return offset > SNIC_KVOP_OBJECT_MAX || length > SNIC_KVOP_OBJECT_MAX - offset ? SNIC_ERANGE
                                                                                   : 0;
}

static int kvop_check_change(const struct snic_kvop_change *c)
{
    if (c->kind == SNIC_KVOP_CHANGE_TRUNCATE)
        return kvop_check_range(c->offset, 0);
    if (c->kind == SNIC_KVOP_DELETE)
        return kvop_key_fine(&c->key, 1) ? 0 : SNIC_EINVAL;
    if (c->kind != SNIC_KVOP_PUT && c->kind != SNIC_KVOP_CHANGE_WRITE)
        return SNIC_EINVAL;
    if (c->value == NULL || c->size == 0)
        return SNIC_EINVAL;
    if (c->size > SNIC_KVOP_VALUE_MAX)
        return SNIC_EMSGSIZE;
    if (c->kind == SNIC_KVOP_CHANGE_WRITE)
        return kvop_check_range(c->offset, c->size);
    return kvop_key_fine(&c->key, 1) ? 0 : SNIC_EINVAL;
}

static int kvop_is_record(const struct snic_kvop_change *c)
{
    return c->kind == SNIC_KVOP_PUT || c->kind == SNIC_KVOP_DELETE;
}

/** 1: change @p n is of a key or object of an earlier one, or a second CHANGE_WRITE. */
static int kvop_changed_before(const struct snic_kvop *op, uint32_t n)
{
    const struct snic_kvop_change *c = &op->changes[n];
    for (uint32_t i = 0; i < n; i++) {
        const struct snic_kvop_change *other = &op->changes[i];
        if (kvop_is_record(c) != kvop_is_record(other))
            continue;
        if (kvop_is_record(c)) {
            if (kvop_key_equal(&c->key, &other->key))
                return 1;
        } else if (c->object == other->object ||
                   (c->kind == SNIC_KVOP_CHANGE_WRITE && other->kind == c->kind)) {
            return 1;
        }
    }
    return 0;
}

/** Bytes and contents; the caller has checked the counts. */
static int kvop_check_commit_parts(const struct snic_kvop *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        const struct snic_kvop_guard *g = &op->guards[i];
        if (!kvop_key_fine(&g->key, 1) || (g->value == NULL) != (g->size == 0))
            return SNIC_EINVAL;
        if (g->size > SNIC_KVOP_VALUE_MAX)
            return SNIC_EMSGSIZE;
        bytes += g->size;
    }
    for (uint32_t i = 0; i < op->change_count; i++) {
        int r = kvop_check_change(&op->changes[i]);
        if (r != 0)
            return r;
        if (kvop_changed_before(op, i))
            return SNIC_EINVAL;
        bytes += op->changes[i].size;
    }
    return bytes > SNIC_KVOP_COMMIT_MAX ? SNIC_EMSGSIZE : 0;
}

static int kvop_check_commit(const struct snic_kvop *op, uint32_t caps)
{
    if (op->guard_count > SNIC_KVOP_GUARDS_MAX || op->change_count > SNIC_KVOP_CHANGES_MAX)
        return SNIC_EMSGSIZE;
    if ((op->guards == NULL && op->guard_count != 0) ||
        (op->changes == NULL && op->change_count != 0))
        return SNIC_EINVAL;
    int r = kvop_check_commit_parts(op);
    if (r != 0 || (caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0)
        return r;
    const struct snic_kvop_key *first = op->guard_count != 0 ? &op->guards[0].key : NULL;
    for (uint32_t i = 1; i < op->guard_count; i++) {
        if (op->guards[i].key.group != first->group)
            return SNIC_ENOTSUP;
    }
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *c = &op->changes[i];
        if (!kvop_is_record(c))
            continue;
        if (first == NULL)
            first = &c->key;
        if (c->key.group != first->group)
            return SNIC_ENOTSUP;
    }
    return 0;
}

static int kvop_check_pieces(const struct snic_kvop *op)
{
    if (op->length > SNIC_KVOP_TRANSFER_MAX || op->iov_count > SNIC_KVOP_IOV_MAX)
        return SNIC_EMSGSIZE;
    if (op->length == 0 || op->iov == NULL || op->iov_count == 0)
        return SNIC_EINVAL;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < op->iov_count; i++) {
        const struct snic_iov *v = &op->iov[i];
        if (v->base == NULL || v->size == 0 || v->size > op->length)
            return SNIC_EINVAL;
        sum += v->size;
    }
    if (sum != op->length)
        return SNIC_EINVAL;
    return kvop_check_range(op->offset, op->length);
}

static int kvop_check_object(const struct snic_kvop *op, uint32_t caps)
{
    if (op->length == 0)
        return SNIC_EINVAL;
    if (op->kind == SNIC_KVOP_OBJECT_ALLOC && (caps & SNIC_KV_CAP_ALLOC) == 0)
        return SNIC_ENOTSUP;
    return kvop_check_range(op->offset, op->length);
}

static int kvop_check_fence(const struct snic_kvop *op, uint32_t caps)
{
    if ((caps & SNIC_KV_CAP_FENCE) == 0)
        return SNIC_ENOTSUP;
    if ((caps & SNIC_KV_CAP_READONLY) != 0)
        return SNIC_EPERM;
    if (op->iov == NULL || op->iov_count != 1 || op->iov[0].base == NULL || op->length == 0 ||
        op->iov[0].size != op->length)
        return SNIC_EINVAL;
    return op->length > SNIC_KVOP_IDENTITY_MAX ? SNIC_EMSGSIZE : 0;
}

/** The flags that a kind may have; UINT32_MAX: no such kind. */
static uint32_t kvop_flags_of(uint32_t kind)
{
    static const uint32_t change = SNIC_KVOP_DURABLE | SNIC_KVOP_RESERVE;
    switch (kind) {
    case SNIC_KVOP_COMMIT:
    case SNIC_KVOP_OBJECT_ZERO:
    case SNIC_KVOP_OBJECT_PUNCH:
    case SNIC_KVOP_OBJECT_ALLOC:
    case SNIC_KVOP_OBJECT_TRUNCATE:
        return change;
    case SNIC_KVOP_OBJECT_WRITE:
        return change | SNIC_KVOP_DIRECT;
    case SNIC_KVOP_OBJECT_READ:
        return SNIC_KVOP_DIRECT;
    case SNIC_KVOP_OBJECT_SEEK:
        return SNIC_KVOP_SEEK_HOLE;
    default:
        return kind >= SNIC_KVOP_GET && kind <= SNIC_KVOP_FENCE ? 0 : UINT32_MAX;
    }
}

static int kvop_check_kind(const struct snic_kvop *op, uint32_t caps)
{
    switch (op->kind) {
    case SNIC_KVOP_GET:
        return kvop_check_get(op);
    case SNIC_KVOP_SCAN:
        return kvop_check_scan(op);
    case SNIC_KVOP_GROUPS:
        return kvop_check_groups(op);
    case SNIC_KVOP_COMMIT:
        return kvop_check_commit(op, caps);
    case SNIC_KVOP_OBJECT_READ:
    case SNIC_KVOP_OBJECT_WRITE:
        return kvop_check_pieces(op);
    case SNIC_KVOP_OBJECT_ZERO:
    case SNIC_KVOP_OBJECT_PUNCH:
    case SNIC_KVOP_OBJECT_ALLOC:
        return kvop_check_object(op, caps);
    case SNIC_KVOP_OBJECT_TRUNCATE:
    case SNIC_KVOP_OBJECT_SEEK:
        return kvop_check_range(op->offset, 0);
    case SNIC_KVOP_FENCE:
        return kvop_check_fence(op, caps);
    default:
        return 0;
    }
}

int snic_kvop_validate(const struct snic_kvop *op, uint32_t caps)
{
    uint32_t allowed = kvop_flags_of(op->kind);
    if (allowed == UINT32_MAX || (op->flags & ~allowed) != 0)
        return SNIC_EINVAL;
    int r = kvop_check_kind(op, caps);
    if (r != 0 || (caps & SNIC_KV_CAP_READONLY) == 0)
        return r;
    /* DURABLE is for operations that change the store. */
    int changes =
        op->kind == SNIC_KVOP_COMMIT ? op->change_count != 0 : (allowed & SNIC_KVOP_DURABLE) != 0;
    return changes ? SNIC_EPERM : 0;
}

/* ---- Scan output ---- */

const struct snic_kvop_record *snic_kvop_first(const struct snic_kvop *op)
{
    return op->out_size == 0 ? NULL : (const struct snic_kvop_record *)op->out;
}

const struct snic_kvop_record *snic_kvop_next(const struct snic_kvop *op,
                                              const struct snic_kvop_record *r)
{
    const unsigned char *out = op->out;
    const unsigned char *at = (const unsigned char *)r + r->bytes;
    return at >= out + op->out_size ? NULL : (const struct snic_kvop_record *)(const void *)at;
}

int snic_kvop_append(struct snic_kvop *op, const void *key, uint32_t key_size, const void *value,
                     uint32_t value_size)
{
    SNIC_DASSERT(key_size >= 1 && key_size <= SNIC_KVOP_KEY_MAX && kvop_aligned(op->out));
    uint64_t used = sizeof(struct snic_kvop_record) + key_size + (uint64_t)value_size;
    uint64_t bytes = snic_align_up(used, 8);
    if (bytes > op->out_room - op->out_size)
        return SNIC_EMSGSIZE;
    unsigned char *at = (unsigned char *)op->out + op->out_size;
    struct snic_kvop_record head = {
        .bytes = (uint32_t)bytes, .value_size = value_size, .key_size = (uint8_t)key_size};
    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), key, key_size);
    memcpy(at + sizeof(head) + key_size, value, value_size);
    memset(at + used, 0, bytes - used);
    op->out_size += (uint32_t)bytes;
    op->out_count++;
    return 0;
}
