/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The 'K' record of a file: the locks of all sessions, visible to each other.
 *
 * Entries of 40 bytes: session, owner, start, end (8 bytes each), type (4; bit 2: flock), pid (4).
 * Entries of sessions that are no longer alive do not count and are deleted by the next change.
 */
#include "kvfs/locks_priv.h"

enum {
    KVFS_STORE_ENTRY = 40,
    KVFS_STORE_FLOCK = 4,
    KVFS_STORE_ENTRIES = (SNIC_KVOP_VALUE_MAX - SNIC_KVFS_HEAD) / KVFS_STORE_ENTRY
};

static uint64_t kvfs_locks_store_decode(const unsigned char *p, struct kvfs_lock_range *r)
{
    uint32_t type = snic_get_le32(p + 32);
    r->owner = snic_get_le64(p + 8);
    r->start = snic_get_le64(p + 16);
    r->end = snic_get_le64(p + 24);
    r->type = type & (KVFS_STORE_FLOCK - 1);
    r->kind = (type & KVFS_STORE_FLOCK) != 0 ? KVFS_LOCKS_FLOCK : KVFS_LOCKS_POSIX;
    r->pid = snic_get_le32(p + 36);
    return snic_get_le64(p);
}

static void kvfs_locks_store_encode(unsigned char *p, uint64_t session,
                                    const struct kvfs_lock_range *r)
{
    snic_put_le64(p, session);
    snic_put_le64(p + 8, r->owner);
    snic_put_le64(p + 16, r->start);
    snic_put_le64(p + 24, r->end);
    snic_put_le32(p + 32, r->type | (r->kind == KVFS_LOCKS_FLOCK ? KVFS_STORE_FLOCK : 0u));
    snic_put_le32(p + 36, r->pid);
}

/* Its entries. 0; PENDING; SNIC_E*. */
static int kvfs_locks_store_get(struct kvfs_op *op, uint64_t ino, int guard,
                                const unsigned char **entries, uint32_t *count)
{
    struct snic_kvop_key key;
    const void *body = NULL;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_LOCKS);
    *count = 0;
    *entries = NULL;
    rc = guard ? kvfs_get(op, &key, &body, &size) : kvfs_peek(op, &key, &body, &size);
    if (rc == SNIC_ENOENT)
        return 0;
    if (rc != 0)
        return rc;
    if (size % KVFS_STORE_ENTRY != 0) {
        kvfs_report_damage(op->k, &key, "locks malformed");
        return SNIC_ECORRUPT;
    }
    *count = size / KVFS_STORE_ENTRY;
    *entries = body;
    return 0;
}

/* A lock of another session that is alive. */
static int kvfs_locks_store_counts(const struct kvfs_op *op, uint64_t session)
{
    return session != op->k->session.id && kvfs_session_alive(op->k, session);
}

int kvfs_locks_other(struct kvfs_op *op, uint64_t ino, const struct kvfs_lock_range *r, int guard,
                     struct kvfs_lock_range *out)
{
    struct kvfs_lock_range want = *r, other;
    const unsigned char *entries;
    uint32_t count;
    int rc = kvfs_locks_store_get(op, ino, guard, &entries, &count);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        uint64_t session = kvfs_locks_store_decode(entries + (size_t)i * KVFS_STORE_ENTRY, &other);
        want.owner = ~other.owner; /* numbers of owners are per session: never the same owner */
        if (kvfs_locks_conflict(&other, &want) && kvfs_locks_store_counts(op, session)) {
            *out = other;
            return KVFS_LOCKS_CONFLICT;
        }
    }
    return rc;
}

struct kvfs_locks_store_list {
    unsigned char *entries;
    uint32_t count;
    int full;
};

static void kvfs_locks_store_add(struct kvfs_locks_store_list *list, uint64_t session,
                                 const struct kvfs_lock_range *r)
{
    if (list->count == KVFS_STORE_ENTRIES) {
        list->full = 1;
        return;
    }
    SNIC_ASSERT(list->count < KVFS_STORE_ENTRIES);
    kvfs_locks_store_encode(list->entries + (size_t)list->count++ * KVFS_STORE_ENTRY, session, r);
}

/* Add the locks held here, after the change. */
static void kvfs_locks_store_add_own(struct kvfs_op *op, struct kvfs_lock_file *f,
                                     const struct kvfs_lock_range *want, uint64_t owner,
                                     uint32_t kinds, struct kvfs_locks_store_list *list)
{
    uint64_t session = op->k->session.id;
    struct kvfs_lock_range sum = {0}, pieces[2];
    if (want != NULL)
        sum = *want;
    for (struct snic_link *p = f->held.next; p != &f->held; p = p->next) {
        const struct kvfs_lock_range *held = &kvfs_lock_at(p)->r;
        int n = want == NULL ? 0 : kvfs_locks_pieces(held, want, &sum, pieces);
        if (want == NULL && (held->owner != owner || (held->kind & kinds) == 0))
            kvfs_locks_store_add(list, session, held);
        for (int i = 0; i < n; i++)
            kvfs_locks_store_add(list, session, &pieces[i]);
    }
    if (want != NULL && want->type != SNIC_FSOP_UNLCK)
        kvfs_locks_store_add(list, session, &sum);
}

int kvfs_locks_put(struct kvfs_op *op, struct kvfs_lock_file *f, const struct kvfs_lock_range *want,
                   uint64_t owner, uint32_t kinds)
{
    struct snic_kvop_key key;
    struct kvfs_lock_range other;
    struct kvfs_locks_store_list list = {.count = 0};
    const unsigned char *entries;
    uint32_t count;
    int rc = kvfs_locks_store_get(op, f->ino, 1, &entries, &count);
    if (rc != 0)
        return rc;
    list.entries = kvfs_alloc(op, (size_t)KVFS_STORE_ENTRIES * KVFS_STORE_ENTRY);
    if (list.entries == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t session = kvfs_locks_store_decode(entries + (size_t)i * KVFS_STORE_ENTRY, &other);
        if (kvfs_locks_store_counts(op, session))
            kvfs_locks_store_add(&list, session, &other);
    }
    kvfs_locks_store_add_own(op, f, want, owner, kinds, &list);
    if (list.full)
        return SNIC_ENOLCK;
    snic_kvfs_key(&key, f->ino, SNIC_KVFS_REC_LOCKS);
    if (list.count == 0)
        return count == 0 ? 0 : kvfs_delete(op, &key);
    return kvfs_put(op, &key, list.entries, list.count * KVFS_STORE_ENTRY);
}
