/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MKFS, MOUNT, UNMOUNT. The invariants S1 to S7 are in session.c.
 */
#include "kvfs/session_priv.h"

enum {
    KVFS_SESSION_MOUNT_LEASES = 3, /* so long a mount waits for others to stop caching */
    KVFS_SESSION_MOUNT_WIPE = 64,  /* records of one commit */
    KVFS_SESSION_MOUNT_FIRST_INO = 2,
    KVFS_SESSION_MOUNT_LOOK_NS = 100000, /* between checks of the engine's own operations */
    KVFS_SESSION_MOUNT_ROOT_MODE = 0755
};

/* ---- MKFS ---- */

enum {
    KVFS_MKFS_OLD = 0, /* the superblock of an earlier file system is deleted */
    KVFS_MKFS_WIPE,    /* is there a group? */
    KVFS_MKFS_GROUP,   /* one group is deleted, page by page */
    KVFS_MKFS_ROOT,
    KVFS_MKFS_SUPER
};
enum { KVFS_MKFS_S_GROUP = 0 }; /* op->s */

/* Delete one group; then the next group. */
static int kvfs_session_mount_wipe_group(struct kvfs_op *op)
{
    unsigned char *room = kvfs_alloc(op, KVFS_SCAN_BYTES);
    const struct snic_kvop *got;
    struct snic_kvop want = {.kind = SNIC_KVOP_SCAN,
                             .scan_max = KVFS_SESSION_MOUNT_WIPE,
                             .key = {.group = op->s[KVFS_MKFS_S_GROUP]},
                             .out = room,
                             .out_room = KVFS_SCAN_BYTES};
    struct snic_kvop truncate = {.kind = SNIC_KVOP_OBJECT_TRUNCATE,
                                 .object = op->s[KVFS_MKFS_S_GROUP]};
    if (room == NULL)
        return SNIC_ENOMEM;
    int rc = kvfs_io(op, 0, &want, &got);
    if (rc != 0)
        return rc;
    for (const struct snic_kvop_record *r = snic_kvop_first(got); r != NULL && rc == 0;
         r = snic_kvop_next(got, r)) {
        struct snic_kvop_key key;
        snic_kvop_key_set(&key, op->s[KVFS_MKFS_S_GROUP], snic_kvop_record_key(r), r->key_size);
        rc = kvfs_delete(op, &key);
    }
    if (rc == 0 && got->out_count > 0)
        rc = kvfs_commit(op, 0);
    if (rc != 0 || got->out_count > 0)
        return rc != 0 ? rc : kvfs_next(op, KVFS_MKFS_GROUP);
    rc = kvfs_io(op, 1, &truncate, &got);
    return rc != 0 ? rc : kvfs_next(op, KVFS_MKFS_WIPE);
}

/* The next group that holds anything. */
static int kvfs_session_mount_wipe(struct kvfs_op *op)
{
    uint64_t *name = kvfs_alloc(op, sizeof(*name));
    const struct snic_kvop *got;
    struct snic_kvop want = {.kind = SNIC_KVOP_GROUPS, .out = name, .out_room = sizeof(*name)};
    if (name == NULL)
        return SNIC_ENOMEM;
    want.scan_max = 1;
    int rc = kvfs_io(op, 0, &want, &got);
    if (rc != 0)
        return rc;
    if (got->out_count == 0)
        return kvfs_next(op, KVFS_MKFS_ROOT);
    op->s[KVFS_MKFS_S_GROUP] = *name;
    return kvfs_next(op, KVFS_MKFS_GROUP);
}

static int kvfs_session_mount_options(const struct snic_fsop *req, struct snic_kvfs_mkfs *o)
{
    memset(o, 0, sizeof(*o));
    if (req->name != NULL && req->name_size != sizeof(*o))
        return SNIC_EINVAL;
    if (req->name != NULL)
        memcpy(o, req->name, sizeof(*o));
    if (o->mode == 0)
        o->mode = KVFS_SESSION_MOUNT_ROOT_MODE;
    o->mode &= 07777;
    if (o->seed == 0)
        o->seed = snic_get_le64(o->uuid) ^ snic_get_le64(o->uuid + 8);
    return 0;
}

static int kvfs_session_mount_make_root(struct kvfs_op *op, const struct snic_kvfs_mkfs *o)
{
    struct snic_fsop_attr a = {.mode = KVFS_IFDIR | o->mode,
                               .nlink = 2,
                               .uid = o->uid,
                               .gid = o->gid,
                               .flags = SNIC_KVFS_ATTR_PARENT};
    a.atime = a.mtime = a.ctime = a.btime = kvfs_time(op);
    int rc = kvfs_put_attr(op, &a);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

static int kvfs_session_mount_make_super(struct kvfs_op *op, const struct snic_kvfs_mkfs *o)
{
    struct snic_kvfs_super s = {
        .version = SNIC_KVFS_VERSION, .seed = o->seed, .created = kvfs_time(op)};
    unsigned char record[SNIC_KVFS_SUPER_BYTES];
    unsigned char number[SNIC_KVFS_NUMBER_BYTES];
    struct snic_kvop_key key;
    memcpy(s.uuid, o->uuid, sizeof(s.uuid));
    memset(record, 0, sizeof(record));
    snic_kvfs_super_encode(record, &s);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    int rc = kvfs_put(op, &key, record + SNIC_KVFS_HEAD, sizeof(record) - SNIC_KVFS_HEAD);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    snic_kvfs_number_encode(number, KVFS_SESSION_MOUNT_FIRST_INO);
    if (rc == 0)
        rc = kvfs_put(op, &key, number + SNIC_KVFS_HEAD, sizeof(number) - SNIC_KVFS_HEAD);
    kvfs_session_key(&key, 0);
    snic_kvfs_number_encode(number, 1);
    if (rc == 0)
        rc = kvfs_put(op, &key, number + SNIC_KVFS_HEAD, sizeof(number) - SNIC_KVFS_HEAD);
    return rc != 0 ? rc : kvfs_commit(op, 1);
}

/*
 * The superblock is deleted first and written last: a store whose MKFS was interrupted has no file
 * system, and the next MKFS clears it.
 */
int kvfs_run_mkfs(struct kvfs_op *op)
{
    struct snic_kvfs_mkfs o;
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc = kvfs_session_mount_options(op->req, &o);
    if (rc != 0)
        return rc;
    if (op->k->session.id != 0)
        return SNIC_EBUSY;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    switch (op->phase) {
    case KVFS_MKFS_OLD:
        rc = kvfs_peek(op, &key, &body, &size);
        if (rc == KVFS_PENDING)
            return rc;
        if (rc == SNIC_ENOENT)
            return kvfs_next(op, KVFS_MKFS_WIPE);
        if (o.force == 0)
            return rc == 0 || rc == SNIC_EVERSION || rc == SNIC_ECORRUPT ? SNIC_EEXIST : rc;
        rc = kvfs_delete(op, &key);
        if (rc == 0)
            rc = kvfs_commit(op, 1);
        return rc != 0 ? rc : kvfs_next(op, KVFS_MKFS_WIPE);
    case KVFS_MKFS_WIPE:
        return kvfs_session_mount_wipe(op);
    case KVFS_MKFS_GROUP:
        return kvfs_session_mount_wipe_group(op);
    case KVFS_MKFS_ROOT:
        rc = kvfs_session_mount_make_root(op, &o);
        return rc != 0 ? rc : kvfs_next(op, KVFS_MKFS_SUPER);
    default:
        return kvfs_session_mount_make_super(op, &o);
    }
}

/* ---- MOUNT ---- */

enum {
    KVFS_MOUNT_SUPER = 0,
    KVFS_MOUNT_ARRIVE,  /* our record in the table */
    KVFS_MOUNT_SETTLE,  /* until no other session caches */
    KVFS_MOUNT_WITHDRAW /* it has failed */
};
enum { KVFS_MOUNT_S_SINCE = 2, KVFS_MOUNT_S_ERROR }; /* op->s */

static int kvfs_session_mount_super(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    int rc = kvfs_peek(op, &key, &body, &size);
    if (rc != 0)
        return rc;
    return snic_kvfs_super_decode(
        &op->k->session.super, (const unsigned char *)body - SNIC_KVFS_HEAD, size + SNIC_KVFS_HEAD);
}

static int kvfs_session_mount_is_busy(const struct kvfs_session *s)
{
    return s->busy || s->recovering || s->sweeping || s->yielding || s->timing || s->collecting > 0;
}

/* Clear the session's state, except for what outlives a session. */
static void kvfs_session_mount_clear(struct snic_kvfs *k)
{
    struct kvfs_session *s = &k->session;
    kvfs_wake_all(&s->waiters);
    struct kvfs_session kept = *s;
    kvfs_session_init(k);
    s->super = kept.super;
    s->mounts = kept.mounts;
    s->intents = kept.intents;
    s->era = kept.era + 1;
    s->collecting = kept.collecting;
    s->scans_begun = kept.scans_begun;
    s->round_begun = kept.round_begun;
    s->was_sole = k->sole;
}

/* Each session has an identity of its own. */
static void kvfs_session_mount_begin(struct snic_kvfs *k)
{
    struct kvfs_session *s = &k->session;
    SNIC_ASSERT(!kvfs_session_mount_is_busy(s)); /* no operation of the session before */
    kvfs_session_mount_clear(k);
    s->id = k->o.session_id + s->mounts++ * 0x9e3779b97f4a7c15ULL;
    s->id += s->id == 0;
    s->era++;                     /* files may have changed meanwhile */
    k->ino_next = k->ino_end = 0; /* N2 (inode.c): the range is in the other session's record */
}

/* Add our record to the table. */
static int kvfs_session_mount_arrive(struct kvfs_op *op)
{
    struct kvfs_session *s = &op->k->session;
    struct kvfs_session_table *t;
    struct kvfs_session_tx *x = kvfs_alloc(op, sizeof(*x));
    struct snic_kvop_key key;
    if (x == NULL)
        return SNIC_ENOMEM;
    int rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    if (t->table == NULL) {
        kvfs_session_key(&key, 0);
        kvfs_report_damage(op->k, &key, "table of sessions is missing");
        return SNIC_ECORRUPT;
    }
    if (kvfs_session_row(t, s->id) != NULL) /* a fence must not be created again (S7) */
        return SNIC_EEXIST;
    if (t->count == KVFS_SESSIONS_MAX)
        return SNIC_EBUSY;
    if (!x->built) {
        struct snic_kvfs_session mine = {.flags = t->count == 0 ? SNIC_KVFS_SESSION_CACHES : 0};
        kvfs_session_key(&key, 0);
        kvfs_session_guard(x, &key, t->table, t->table_size); /* S2 */
        kvfs_session_put_number(x, &key, t->version + 1);
        kvfs_session_key(&key, s->id);
        kvfs_session_guard(x, &key, NULL, 0);
        kvfs_session_put(x, &key, &mine);
        snic_kvfs_key_beat(&key, s->id);
        kvfs_session_put_number(x, &key, 1);
        snic_kvfs_key_fence(&key, s->id);
        kvfs_session_put_fence(x, &key, op->k);
    }
    rc = kvfs_session_commit(op, 1, x, 0);
    if (rc != 0)
        return rc;
    kvfs_session_set_fence(op->k);
    s->alone = t->count == 0;
    s->proven_ns = op->now.mono_ns;
    s->next_ns = op->k->now.mono_ns;
    op->s[KVFS_MOUNT_S_SINCE] = op->k->now.mono_ns;
    return kvfs_next(op, KVFS_MOUNT_SETTLE);
}

/* 1: no other session caches, dead ones are removed, the orphans were scanned. */
static int kvfs_session_mount_is_settled(const struct snic_kvfs *k)
{
    const struct kvfs_session *s = &k->session;
    if (s->beats == 0 || s->recovering || s->sweeping || !s->swept || s->sweep || s->busy)
        return 0;
    for (uint32_t i = 0; i < s->other_count; i++)
        if (k->sole || (s->others[i].flags & SNIC_KVFS_SESSION_CACHES) != 0) /* S4 */
            return 0;
    return s->other_count > 0 || s->alone;
}

static int kvfs_session_mount_withdraw(struct kvfs_op *op)
{
    struct kvfs_session *s = &op->k->session;
    struct kvfs_session_table *t;
    if (s->next_ns != SNIC_NEVER) {
        s->next_ns = SNIC_NEVER;
        kvfs_session_wake(op->k); /* there will be no heartbeat to wait for */
    }
    if (kvfs_session_mount_is_busy(s) || kvfs_locks_publishing(op->k))
        return kvfs_wait(op, &s->waiters, SNIC_NEVER, 1);
    int rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    const struct kvfs_session_row *own = kvfs_session_row(t, s->id);
    if (own == NULL || (own->s.flags & SNIC_KVFS_SESSION_DEAD) != 0)
        return SNIC_EIO;
    return kvfs_session_remove(op, 1, own, 1);
}

static int kvfs_session_mount_settle(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session *s = &k->session;
    int rc = s->error;
    if (rc == 0 && s->dead)
        rc = SNIC_EIO;
    if (rc == 0 && kvfs_session_mount_is_settled(k)) {
        SNIC_ASSERT(s->id != 0 && !s->dead && s->fence_key.size != 0); /* S7 */
        s->mounted = 1;
        return 0;
    }
    if (rc == 0 &&
        k->now.mono_ns - op->s[KVFS_MOUNT_S_SINCE] > KVFS_SESSION_MOUNT_LEASES * k->o.lease_ns)
        rc = SNIC_EBUSY;
    if (rc == 0)
        return kvfs_wait(op, &s->waiters, SNIC_NEVER, 1);
    op->s[KVFS_MOUNT_S_ERROR] = (uint64_t)(int64_t)rc;
    return kvfs_next(op, KVFS_MOUNT_WITHDRAW);
}

int kvfs_run_mount(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session *s = &k->session;
    int rc;
    if (op->phase == KVFS_MOUNT_SUPER) {
        if (s->id != 0 && !s->dead)
            return SNIC_EBUSY;
        rc = kvfs_session_mount_super(op);
        if (rc != 0)
            return rc;
        if (kvfs_session_mount_is_busy(s))
            return kvfs_wait(op, &s->waiters, SNIC_NEVER, 1);
        kvfs_session_mount_begin(k);
        if ((k->o.caps & SNIC_KV_CAP_READONLY) != 0) {
            s->id = 0;
            s->mounted = 1;
            return 0;
        }
        return kvfs_next(op, KVFS_MOUNT_ARRIVE);
    }
    if (op->phase == KVFS_MOUNT_ARRIVE) {
        rc = kvfs_session_mount_arrive(op);
        if (!kvfs_runs_again(op, rc))
            kvfs_session_mount_clear(k);
        return rc;
    }
    if (op->phase == KVFS_MOUNT_SETTLE)
        return kvfs_session_mount_settle(op);
    rc = kvfs_session_mount_withdraw(op);
    if (kvfs_runs_again(op, rc))
        return KVFS_PENDING;
    kvfs_session_mount_clear(k);
    return (int)(int64_t)op->s[KVFS_MOUNT_S_ERROR];
}

/* ---- UNMOUNT ---- */

enum {
    KVFS_UNMOUNT_FLUSH = 0,
    KVFS_UNMOUNT_INTENTS, /* the search at the end (intent.c, J10), and ... */
    KVFS_UNMOUNT_LOOK,
    KVFS_UNMOUNT_RANGE, /* ... range by range */
    KVFS_UNMOUNT_WITHDRAW,
    KVFS_UNMOUNT_SYNC
};
enum { KVFS_UNMOUNT_S_AT = 0, KVFS_UNMOUNT_S_FIRST, KVFS_UNMOUNT_S_COUNT, KVFS_UNMOUNT_S_ERROR };
SNIC_STATIC_ASSERT((int)KVFS_UNMOUNT_S_ERROR < (int)KVFS_ORPHAN_RANGE_S_AT &&
                       (int)KVFS_UNMOUNT_S_ERROR < (int)KVFS_INTENT_S_AT &&
                       (int)KVFS_UNMOUNT_S_ERROR < (int)KVFS_TIMES_S_INO,
                   "words of op->s that phases keep are not those of other phases");

/* The next range of our own in which may be inodes without a name. The unassigned numbers of the
 * last one are none. */
static int kvfs_session_mount_next_range(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session_table *t;
    int rc = kvfs_session_scan(op, 0, &t);
    if (rc != 0)
        return rc;
    const struct kvfs_session_row *own = kvfs_session_row(t, k->session.id);
    if (own == NULL || op->s[KVFS_UNMOUNT_S_AT] == own->s.range_count)
        return kvfs_next(op, KVFS_UNMOUNT_WITHDRAW);
    uint64_t first = own->s.ranges[op->s[KVFS_UNMOUNT_S_AT]].first;
    uint64_t count = own->s.ranges[op->s[KVFS_UNMOUNT_S_AT]].count;
    if (k->ino_next >= first && k->ino_next - first < count)
        count = k->ino_next - first;
    op->s[KVFS_UNMOUNT_S_FIRST] = first;
    op->s[KVFS_UNMOUNT_S_COUNT] = count;
    return kvfs_next(op, KVFS_UNMOUNT_RANGE);
}

int kvfs_run_unmount(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct kvfs_session *s = &k->session;
    const struct snic_kvop *got;
    struct snic_kvop sync = {.kind = SNIC_KVOP_SYNC};
    int rc;
    if ((s->id == 0 || s->dead) && op->phase != KVFS_UNMOUNT_SYNC) {
        if (k->own_in_flight > 0) /* the engine may be ended after this */
            return kvfs_wait(op, NULL, k->now.mono_ns + KVFS_SESSION_MOUNT_LOOK_NS, 1);
        rc = s->dead ? SNIC_EIO : 0;
        kvfs_session_mount_clear(k);
        return rc;
    }
    if (op->phase == KVFS_UNMOUNT_FLUSH) {
        kvfs_linger_end(k);
        rc = kvfs_times_flush_all(op);
        if (rc != 0)
            return rc;
        return kvfs_next(op, s->commit_unknown ? KVFS_UNMOUNT_INTENTS : KVFS_UNMOUNT_WITHDRAW);
    }
    if (op->phase == KVFS_UNMOUNT_INTENTS) {
        rc = kvfs_intent_finish_next(op, s->id);
        return rc != 0 ? rc : kvfs_next(op, KVFS_UNMOUNT_LOOK);
    }
    if (op->phase == KVFS_UNMOUNT_LOOK)
        return kvfs_session_mount_next_range(op);
    if (op->phase == KVFS_UNMOUNT_RANGE) {
        rc = kvfs_orphan_range(op, op->s[KVFS_UNMOUNT_S_FIRST], op->s[KVFS_UNMOUNT_S_COUNT]);
        if (rc != 0)
            return rc;
        op->s[KVFS_UNMOUNT_S_AT]++;
        op->s[KVFS_ORPHAN_RANGE_S_AT] = 0;
        return kvfs_next(op, KVFS_UNMOUNT_LOOK);
    }
    if (op->phase == KVFS_UNMOUNT_WITHDRAW) {
        rc = kvfs_session_mount_withdraw(op);
        if (kvfs_runs_again(op, rc))
            return KVFS_PENDING;
        if (rc != 0 && rc != SNIC_EIO) {
            s->next_ns = k->now.mono_ns; /* the session continues: its record may exist */
            return rc;
        }
        op->s[KVFS_UNMOUNT_S_ERROR] = (uint64_t)(int64_t)rc;
        return kvfs_next(op, KVFS_UNMOUNT_SYNC);
    }
    rc = kvfs_io(op, 0, &sync, &got);
    if (rc == KVFS_PENDING)
        return rc;
    if (k->own_in_flight > 0) /* begun for requests during the unmount */
        return kvfs_wait(op, NULL, k->now.mono_ns + KVFS_SESSION_MOUNT_LOOK_NS, 0);
    kvfs_times_forget_all(k); /* deferred for such requests: H5 */
    kvfs_cache_drop(k);
    kvfs_session_mount_clear(k);
    return op->s[KVFS_UNMOUNT_S_ERROR] != 0 ? (int)(int64_t)op->s[KVFS_UNMOUNT_S_ERROR] : rc;
}
