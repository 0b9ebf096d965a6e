/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What every change of a file's bytes has in common: what is sent ahead of the commit, the bits
 * that it clears, the commit, and what is deferred.
 */
#include "kvfs/data_priv.h"

/* op->s[KVFS_DATA_S_TAIL] */
enum { KVFS_CHANGE_TAIL_CLEAN = 1, KVFS_CHANGE_TAIL_SENT = 2 };

int kvfs_data_shared(struct kvfs_op *op)
{
    enum { KVFS_DATA_UNKNOWN = 0, KVFS_DATA_IS_ALONE, KVFS_DATA_IS_SHARED };
    if (op->s[KVFS_DATA_S_SHARED] == KVFS_DATA_UNKNOWN)
        op->s[KVFS_DATA_S_SHARED] = kvfs_alone(op->k) ? KVFS_DATA_IS_ALONE : KVFS_DATA_IS_SHARED;
    return op->s[KVFS_DATA_S_SHARED] == KVFS_DATA_IS_SHARED;
}

const struct kvfs_ahead *kvfs_data_ahead(struct kvfs_op *op, uint64_t ino)
{
    struct kvfs_ahead *ahead = kvfs_alloc(op, sizeof(*ahead));
    if (ahead != NULL && !ahead->known) {
        ahead->known = 1;
        ahead->clean = kvfs_tail_is_clean(op, ino);
        ahead->again = (op->s[KVFS_DATA_S_TAIL] & KVFS_CHANGE_TAIL_SENT) != 0;
    }
    return ahead;
}

void kvfs_data_send_ahead(struct kvfs_op *op, uint64_t ino, int tail)
{
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_NONE);
    kvfs_save_word(op, KVFS_DATA_S_TAIL, KVFS_CHANGE_TAIL_SENT);
    if (tail)
        kvfs_tail_set(op, ino, 0);
}

void kvfs_data_commit_note(struct kvfs_op *op, int64_t allocated, int clean)
{
    op->s[KVFS_DATA_S_ALLOCATED] = (uint64_t)allocated;
    op->s[KVFS_DATA_S_TAIL] &= KVFS_CHANGE_TAIL_SENT;
    op->s[KVFS_DATA_S_TAIL] |= clean ? KVFS_CHANGE_TAIL_CLEAN : 0;
}

int kvfs_data_commit(struct kvfs_op *op, uint64_t ino, int durable, uint32_t step)
{
    int64_t counted, allocated;
    int rc;
    SNIC_ASSERT(step < KVFS_DATA_COMMITTING);
    if (op->phase == (step | KVFS_DATA_COMMITTED))
        return 0;
    rc = kvfs_commit(op, durable);
    if (op->commit_state != KVFS_COMMIT_NONE) /* else the next run notes the changes again */
        op->phase = step | KVFS_DATA_COMMITTING;
    if (rc == KVFS_PENDING)
        return rc;
    if (rc != 0) {
        kvfs_tail_set(op, ino, 0);
        return rc;
    }
    op->phase = step | KVFS_DATA_COMMITTED;
    counted = (int64_t)op->s[KVFS_DATA_S_ALLOCATED];
    allocated = kvfs_commit_allocated(op);
    if (allocated == INT64_MIN) /* outcome read back: records committed, object's space unknown */
        kvfs_tail_set(op, ino, 0);
    else if ((op->s[KVFS_DATA_S_TAIL] & KVFS_CHANGE_TAIL_CLEAN) != 0)
        kvfs_tail_set(op, ino, 1);
    op->s[KVFS_DATA_S_TAIL] = 0;
    if (counted == INT64_MIN || allocated == INT64_MIN || counted == allocated)
        return 0;
    return kvfs_defer_space(op, ino, allocated - counted);
}

int kvfs_data_defer_times(struct kvfs_op *op, uint64_t ino, int64_t allocated)
{
    struct snic_fsop_attr a;
    int rc = kvfs_peek_attr(op, ino, &a);
    if (rc != 0)
        return rc;
    a.mtime = kvfs_time(op);
    a.ctime = a.mtime;
    rc = kvfs_defer_times(op, &a);
    if (rc == 0 && allocated != 0)
        rc = kvfs_defer_space(op, ino, allocated);
    if (rc == 0)
        op->s[KVFS_DATA_S_TAIL] = 0;
    return rc;
}

static const char kvfs_data_change_caps[] = "security.capability";

static uint32_t kvfs_data_change_mode(const struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    const struct snic_fsop *req = op->req;
    int kill = (req->flags & SNIC_FSOP_KILL_PRIV) != 0 ||
               ((req->flags & SNIC_FSOP_CHECKED) == 0 && req->cred.uid != 0);
    return kill ? kvfs_mode_killed(op, a, 0) : a->mode;
}

/* 0: it has file capabilities; SNIC_ENODATA; PENDING; SNIC_E*. */
static int kvfs_data_change_has_caps(struct kvfs_op *op, const struct snic_fsop_attr *a, int guard)
{
    const void *value;
    uint32_t size;
    if ((a->flags & SNIC_KVFS_ATTR_XATTR) == 0)
        return SNIC_ENODATA;
    return kvfs_xattr_find(op, a->ino, kvfs_data_change_caps, sizeof(kvfs_data_change_caps) - 1,
                           guard, &value, &size);
}

int kvfs_data_strip(struct kvfs_op *op, struct snic_fsop_attr *a, int kill_mode)
{
    struct snic_kvop_key key;
    int rc = kvfs_data_change_has_caps(op, a, 1);
    if (kill_mode)
        a->mode = kvfs_data_change_mode(op, a);
    if (rc == SNIC_ENODATA)
        return 0;
    if (rc != 0)
        return rc;
    kvfs_xattr_key(op, &key, a->ino, kvfs_data_change_caps, sizeof(kvfs_data_change_caps) - 1);
    return kvfs_delete(op, &key);
}

int kvfs_data_inside(struct kvfs_op *op, uint64_t end, const struct snic_fsop_attr *a)
{
    int rc;
    if ((a->flags & SNIC_KVFS_ATTR_BIG) == 0 || end > a->size ||
        op->k->o.times_ns <= SNIC_KVFS_TIMES_AT_ONCE || kvfs_data_change_mode(op, a) != a->mode)
        return KVFS_DATA_MORE;
    rc = kvfs_data_change_has_caps(op, a, 0);
    return rc == SNIC_ENODATA ? 0 : rc == 0 ? KVFS_DATA_MORE : rc;
}
