/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Removal of inodes.
 *
 * O1 An inode without a name has nlink 0 and is either removed by the commit that removed its last
 *    name, or put on the orphans' list ('O') by that very commit, until nothing is left of it: the
 *    record in the list is deleted last.
 * O2 No session opens an inode with nlink 0 that is not open in it already. So a session that has
 *    recorded, under the inode's lock, that it does not have it open, never will.
 * O3 While a session is alone it decides by itself. Else it records its claim in the list's
 *    record, guarded, and a session that finds that all sessions of the table, read after that
 *    record, do not have it open, removes the inode: a session not in that table arrived when nlink
 *    was 0 (O2).
 * O4 Removal can be repeated: an inode number is never used again.
 */
#include "kvfs/session_priv.h"

enum { KVFS_ORPHAN_PAGE = 48 };
/* Phases of collecting: what is deleted. */
enum {
    KVFS_ORPHAN_DECIDE = 0,
    KVFS_ORPHAN_EMPTY, /* all but the attributes, page by page */
    KVFS_ORPHAN_ATTR,
    KVFS_ORPHAN_LIST,   /* the list's record */
    KVFS_ORPHAN_AT_ONCE /* all, in one commit */
};
enum {
    KVFS_COLLECT_S_INO = KVFS_OWN_S_ARGUMENT,
    KVFS_COLLECT_S_EMPTIED
}; /* op->s: the object is truncated */
/* Phases of the sweep. */
enum { KVFS_SWEEP_PAGE = 0, KVFS_SWEEP_WAIT /* for the removals of the page before */ };
enum { KVFS_SWEEP_S_LAST = 0, KVFS_SWEEP_S_MORE }; /* op->s: where the next page begins, if so */

static void kvfs_orphan_key(struct snic_kvop_key *key, uint64_t ino)
{
    snic_kvfs_key_number(key, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, ino);
}

static int kvfs_orphan_put(struct kvfs_op *op, uint64_t ino, const struct snic_kvfs_orphan *o)
{
    struct snic_kvop_key key;
    unsigned char *record = kvfs_alloc(op, SNIC_KVFS_ORPHAN_BYTES);
    if (record == NULL)
        return SNIC_ENOMEM;
    uint32_t size = snic_kvfs_orphan_encode(record, o);
    kvfs_orphan_key(&key, ino);
    return kvfs_put(op, &key, record + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD);
}

/* 0; SNIC_ENOENT; KVFS_PENDING; SNIC_E*. */
static int kvfs_orphan_get(struct kvfs_op *op, uint64_t ino, struct snic_kvfs_orphan *o)
{
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    kvfs_orphan_key(&key, ino);
    int rc = kvfs_get(op, &key, &body, &size);
    if (rc != 0)
        return rc;
    rc = snic_kvfs_orphan_decode(o, (const unsigned char *)body - SNIC_KVFS_HEAD,
                                 size + SNIC_KVFS_HEAD);
    if (rc != 0)
        kvfs_report_damage(op->k, &key, "orphan record malformed");
    return rc;
}

static int kvfs_orphan_delete_kind(struct kvfs_op *op, uint64_t ino, enum snic_kvfs_record kind)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, ino, kind);
    return kvfs_delete(op, &key);
}

/* Delete all records of an inode without further names and extended attributes. */
static int kvfs_orphan_delete_all(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    uint32_t type = a->mode & KVFS_IFMT;
    int rc = kvfs_orphan_delete_kind(op, a->ino, SNIC_KVFS_REC_ATTR);
    if (rc == 0 && type != KVFS_IFDIR)
        rc = kvfs_orphan_delete_kind(op, a->ino, SNIC_KVFS_REC_LOCKS);
    if (rc == 0 && type == KVFS_IFLNK)
        rc = kvfs_orphan_delete_kind(op, a->ino, SNIC_KVFS_REC_TARGET);
    if (rc != 0 || type != KVFS_IFREG)
        return rc;
    if ((a->flags & SNIC_KVFS_ATTR_BIG) == 0)
        rc = kvfs_orphan_delete_kind(op, a->ino, SNIC_KVFS_REC_DATA);
    if (rc == 0 && ((a->flags & SNIC_KVFS_ATTR_BIG) != 0 || !kvfs_tail_is_clean(op, a->ino)))
        rc = kvfs_change_object(op, SNIC_KVOP_CHANGE_TRUNCATE, a->ino, 0, NULL, 0);
    return rc;
}

/* It is kept, without a name, and on the list. */
static int kvfs_orphan_add(struct kvfs_op *op, struct kvfs_inode *i, const struct snic_fsop_attr *a)
{
    struct snic_kvfs_orphan o = {.count = 0};
    struct snic_fsop_attr gone = *a;
    int rc;
    SNIC_ASSERT(i != NULL && i->writer == op);
    i->orphan = 1;
    rc = kvfs_put_attr(op, &gone);
    return rc != 0 ? rc : kvfs_orphan_put(op, a->ino, &o);
}

/* 1: the attributes show that it has no other records. */
static int kvfs_orphan_is_plain(const struct snic_fsop_attr *a)
{
    const uint32_t more = SNIC_KVFS_ATTR_XATTR | SNIC_KVFS_ATTR_ACL | SNIC_KVFS_ATTR_DEFAULT_ACL |
                          SNIC_KVFS_ATTR_PARENTS;
    return (a->flags & more) == 0;
}

int kvfs_orphan(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    struct kvfs_inode *i;
    int multi = (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0;
    SNIC_ASSERT(a->nlink == 0); /* O1 */
    int rc = kvfs_lock(op, a->ino, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    i = kvfs_inode_find(op->k, a->ino);
    SNIC_ASSERT(i != NULL);
    if (kvfs_alone(op->k) && i->opens == 0 && i->pins == 0 && kvfs_orphan_is_plain(a) &&
        !kvfs_inode_holds(op) && (multi || (a->flags & SNIC_KVFS_ATTR_BIG) == 0)) {
        i->orphan = 0;
        return kvfs_orphan_delete_all(op, a);
    }
    return kvfs_orphan_add(op, i, a);
}

int kvfs_orphan_later(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    SNIC_ASSERT(a->nlink == 0); /* O1 */
    int rc = kvfs_lock(op, a->ino, KVFS_EXCLUSIVE);
    return rc != 0 ? rc : kvfs_orphan_add(op, kvfs_inode_find(op->k, a->ino), a);
}

/* ---- Collecting: one inode ---- */

static struct snic_kvfs_claim *kvfs_orphan_claim(struct snic_kvfs_orphan *o, uint64_t session)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (o->claims[i].session == session)
            return &o->claims[i];
    return NULL;
}

/* Remove claims of sessions that are not in the table any more. */
static void kvfs_orphan_prune(const struct snic_kvfs *k, struct snic_kvfs_orphan *o)
{
    for (uint32_t i = 0; i < o->count;) {
        int there = o->claims[i].session == k->session.id;
        for (uint32_t j = 0; j < k->session.other_count; j++)
            there |= k->session.others[j].id == o->claims[i].session;
        if (there)
            i++;
        else
            o->claims[i] = o->claims[--o->count];
    }
}

/* Put this session's claim in the record. 1: it has changed. */
static int kvfs_orphan_claim_set(const struct snic_kvfs *k, struct snic_kvfs_orphan *o,
                                 uint64_t open)
{
    struct snic_kvfs_claim *own = kvfs_orphan_claim(o, k->session.id);
    if (own == NULL) {
        if (o->count == SNIC_KVFS_ORPHAN_SESSIONS_MAX)
            return 0;
        own = &o->claims[o->count++];
        own->session = k->session.id;
        own->open = !open;
    }
    if (own->open == open)
        return 0;
    own->open = open;
    return 1;
}

static int kvfs_orphan_all_closed(const struct snic_kvfs *k, struct snic_kvfs_orphan *o)
{
    for (uint32_t j = 0; j < k->session.other_count; j++) {
        const struct snic_kvfs_claim *c = kvfs_orphan_claim(o, k->session.others[j].id);
        if (c == NULL || c->open)
            return 0;
    }
    return 1;
}

/*
 * Decide: the next phase in *out, KVFS_ORPHAN_DECIDE: a session has it open.
 */
static int kvfs_orphan_decide(struct kvfs_op *op, uint32_t *out)
{
    struct snic_kvfs *k = op->k;
    struct snic_kvfs_orphan o = {.count = 0};
    struct snic_fsop_attr a;
    struct snic_kvop_key key;
    uint64_t open;
    int missing, rc;
    *out = KVFS_ORPHAN_DECIDE;
    rc = kvfs_lock(op, op->s[KVFS_COLLECT_S_INO], KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    kvfs_orphan_key(&key, op->s[KVFS_COLLECT_S_INO]);
    kvfs_prefetch(op, &key);
    missing = kvfs_get_attr(op, op->s[KVFS_COLLECT_S_INO], &a);
    if (missing != 0 && missing != SNIC_ENOENT)
        return missing;
    rc = kvfs_orphan_get(op, op->s[KVFS_COLLECT_S_INO], &o);
    if (rc != 0 && rc != SNIC_ENOENT)
        return rc;
    if (missing != 0 || a.nlink != 0) {
        if (rc == SNIC_ENOENT)
            return 0;
        rc = kvfs_delete(op, &key);
        return rc != 0 ? rc : kvfs_commit(op, 0);
    }
    struct kvfs_inode *i = kvfs_inode_find(k, op->s[KVFS_COLLECT_S_INO]);
    open = i != NULL && (i->opens != 0 || i->pins != 0);
    if (open)
        i->orphan = 1;
    if (op->commit_state == KVFS_COMMIT_NONE) { /* else it is decided; sessions may have left */
        if (kvfs_alone(k)) {                    /* O3 */
            int multi = (k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0;
            if (!open)
                *out = multi && kvfs_orphan_is_plain(&a) ? KVFS_ORPHAN_AT_ONCE : KVFS_ORPHAN_EMPTY;
            return 0;
        }
        rc = kvfs_session_reload(op, 0);
        if (rc != 0)
            return rc;
        kvfs_orphan_prune(k, &o);
        if (!open && kvfs_orphan_all_closed(k, &o)) {
            *out = KVFS_ORPHAN_EMPTY;
            return 0;
        }
        if (!kvfs_orphan_claim_set(k, &o, open))
            return 0;
    }
    rc = kvfs_orphan_put(op, op->s[KVFS_COLLECT_S_INO], &o);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

/* The object, then all records but the attributes, page by page. 0: done. */
static int kvfs_orphan_delete_records(struct kvfs_op *op)
{
    unsigned char *room = kvfs_alloc(op, KVFS_SCAN_BYTES);
    const struct snic_kvop *got;
    struct snic_kvop truncate = {.kind = SNIC_KVOP_OBJECT_TRUNCATE,
                                 .object = op->s[KVFS_COLLECT_S_INO]};
    struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN,
                             .scan_max = KVFS_ORPHAN_PAGE,
                             .key = {.group = op->s[KVFS_COLLECT_S_INO]},
                             .out = room,
                             .out_room = KVFS_SCAN_BYTES};
    uint32_t count = 0;
    int rc = room == NULL ? SNIC_ENOMEM : 0;
    if (rc == 0 && op->s[KVFS_COLLECT_S_EMPTIED] == 0)
        rc = kvfs_io(op, 0, &truncate, &got);
    if (rc != 0)
        return rc;
    rc = kvfs_io(op, 1, &scan, &got);
    for (const struct snic_kvop_record *r = rc == 0 ? snic_kvop_first(got) : NULL;
         r != NULL && rc == 0; r = snic_kvop_next(got, r)) {
        struct snic_kvop_key key;
        const unsigned char *bytes = snic_kvop_record_key(r);
        if (r->key_size == 1 && bytes[0] == SNIC_KVFS_REC_ATTR)
            continue;
        snic_kvop_key_set(&key, op->s[KVFS_COLLECT_S_INO], bytes, r->key_size);
        rc = kvfs_delete(op, &key);
        count++;
    }
    if (rc == 0 && count > 0)
        rc = kvfs_commit(op, 0);
    if (rc != 0 || count == 0)
        return rc;
    op->s[KVFS_COLLECT_S_EMPTIED] = 1;
    return kvfs_next(op, op->phase);
}

/* Delete all of it, and the list's record. The lock is held since it was decided. */
static int kvfs_orphan_delete_at_once(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    struct snic_kvop_key key;
    int rc = kvfs_get_attr(op, op->s[KVFS_COLLECT_S_INO], &a);
    if (rc == 0)
        rc = kvfs_orphan_delete_all(op, &a);
    if (rc != 0 && rc != SNIC_ENOENT)
        return rc;
    kvfs_orphan_key(&key, op->s[KVFS_COLLECT_S_INO]);
    rc = kvfs_delete(op, &key);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

/* Delete the attributes, and then the list's record. */
static int kvfs_orphan_delete_inode(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    int multi = (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0;
    int rc = 0;
    kvfs_orphan_key(&key, op->s[KVFS_COLLECT_S_INO]);
    if (op->phase == KVFS_ORPHAN_ATTR) {
        rc = kvfs_orphan_delete_kind(op, op->s[KVFS_COLLECT_S_INO], SNIC_KVFS_REC_ATTR);
        if (rc == 0 && multi)
            rc = kvfs_delete(op, &key);
        if (rc == 0)
            rc = kvfs_commit(op, 0);
        if (rc != 0 || multi)
            return rc;
        return kvfs_next(op, KVFS_ORPHAN_LIST);
    }
    rc = kvfs_delete(op, &key);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

static int kvfs_orphan_collect(struct kvfs_op *op)
{
    uint32_t next;
    int rc;
    if (op->phase == KVFS_ORPHAN_DECIDE) {
        rc = kvfs_orphan_decide(op, &next);
        return rc != 0 || next == KVFS_ORPHAN_DECIDE ? rc : kvfs_next(op, next);
    }
    rc = kvfs_lock(op, op->s[KVFS_COLLECT_S_INO], KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    if (op->phase == KVFS_ORPHAN_EMPTY) {
        rc = kvfs_orphan_delete_records(op);
        return rc != 0 ? rc : kvfs_next(op, KVFS_ORPHAN_ATTR);
    }
    rc = op->phase == KVFS_ORPHAN_AT_ONCE ? kvfs_orphan_delete_at_once(op)
                                          : kvfs_orphan_delete_inode(op);
    if (rc != 0)
        return rc;
    struct kvfs_inode *i = kvfs_inode_find(op->k, op->s[KVFS_COLLECT_S_INO]);
    if (i != NULL)
        i->orphan = 0;
    kvfs_times_forget(op->k, op->s[KVFS_COLLECT_S_INO]);
    op->k->stats.orphans++;
    return 0;
}

int kvfs_run_collect(struct kvfs_op *op)
{
    int rc;
    op->reserve = 1;
    rc = kvfs_orphan_collect(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    SNIC_ASSERT(op->k->session.collecting > 0);
    op->k->session.collecting--;
    kvfs_session_wake(op->k);
    return rc;
}

/* ---- The whole list ---- */

static int kvfs_orphan_sweep(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN, .scan_max = KVFS_ORPHAN_PAGE};
    const unsigned char prefix = SNIC_KVFS_REC_ORPHAN;
    const struct snic_kvop *got;
    uint64_t last = 0;
    if (op->phase == KVFS_SWEEP_WAIT) {
        if (k->session.collecting > 0 || !snic_link_alone(&k->collects))
            return kvfs_wait(op, &k->session.waiters, SNIC_NEVER, 1);
        return kvfs_next(op, KVFS_SWEEP_PAGE);
    }
    scan.out = kvfs_alloc(op, KVFS_SCAN_BYTES);
    scan.out_room = KVFS_SCAN_BYTES;
    if (scan.out == NULL)
        return SNIC_ENOMEM;
    snic_kvop_key_set(&scan.key, SNIC_KVFS_GROUP_ORPHANS, &prefix, 1);
    if (op->s[KVFS_SWEEP_S_MORE] != 0)
        kvfs_orphan_key(&scan.after, op->s[KVFS_SWEEP_S_LAST]);
    int rc = kvfs_io(op, 0, &scan, &got);
    if (rc != 0 || got->out_count == 0)
        return rc;
    for (const struct snic_kvop_record *r = snic_kvop_first(got); r != NULL;
         r = snic_kvop_next(got, r)) {
        struct kvfs_inode *i;
        if (r->key_size != 9)
            continue;
        last = snic_get_be64(snic_kvop_record_key(r) + 1);
        i = kvfs_inode_get(k, last);
        if (i == NULL)
            break; /* the table is full: the next sweep */
        i->orphan = 1;
        kvfs_collect(k, last);
    }
    op->s[KVFS_SWEEP_S_LAST] = last;
    op->s[KVFS_SWEEP_S_MORE] = 1;
    return kvfs_next(op, KVFS_SWEEP_WAIT);
}

int kvfs_run_sweep(struct kvfs_op *op)
{
    struct kvfs_session *s = &op->k->session;
    int rc = kvfs_orphan_sweep(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    SNIC_ASSERT(s->sweeping);
    s->sweeping = 0;
    s->swept = 1;
    if (rc != 0 && !s->mounted)
        s->error = rc;
    kvfs_session_wake(op->k);
    return rc;
}
