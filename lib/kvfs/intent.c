/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commits over several groups on stores whose commits are limited to one group.
 *
 * Let a commit have guards (records as they were read) and changes. It is to happen as a whole, at
 * one moment at which all guards hold, or not at all.
 *
 * J1  Fast: all groups but one are private to the commit (an inode made by it). Their records are
 *     written first; no other can know them. The one commit of the remaining group checks the
 *     guards and makes the changes: it is that moment. If it fails, the private records are deleted
 *     again; after a crash recovery finds them in the session's ranges of inode numbers.
 * J2  Else an intent record is written first, pending, with a number that no other intent has or
 *     will have. It exists before the first reservation and is deleted after the last one, except
 *     for reservations that arrive late (J7).
 * J3  Every record that is to change is replaced by a reserved one that holds old and new value,
 *     guarded by the old one. From then on no other commit changes the record: all guards are whole
 *     records, and a reserved one equals nothing that another commit has read.
 * J4  Guards on records that do not change are checked after all reservations are in place: let T
 *     be a moment between those reservations and the checks' answers at which such a record was
 *     as it had been read. All records that change are held from before T until the commit
 *     point. Another commit that changes a record only checked here, after T, comes later in the
 *     serial order, and has not seen a record of this one: it would have met the reservation (a
 *     reserved record fails its guards and its checks). And if it had reserved a record that is
 *     checked here before T, the check fails. So no two such commits miss each other's changes.
 * J5  The commit point: the intent record changes from pending to committed, guarded by its pending
 *     bytes. An operation blocked by a pending intent aborts it, under the same guard. So it is
 *     decided once, and a pending intent that has been aborted is never committed.
 * J6  A reservation is resolved by its intent: committed, the new value; aborted or missing, the
 *     old one. The record is replaced guarded by the reserved bytes, which name the intent, so that
 *     it is done once, and a late one changes nothing.
 * J7  A missing intent means old: a committed intent is deleted only when all its reservations have
 *     been resolved, and a reservation is made only while the intent is pending, unless it was in
 *     flight when the session was declared dead and its intents were cleared; that intent was not
 *     committed, or the reservations had all been made.
 * J8  Objects that end with the commit (CHANGE_TRUNCATE from 0) are named by the intent and
 *     truncated after the commit point; that may be repeated, for no inode number is used twice.
 *     Object bytes (CHANGE_WRITE) are written with the reservations, as stores may do it.
 * J9  No operation waits while holding reservations: one that is blocked by another's reservation
 *     aborts its own intent first.
 * J10 A commit that the store has not answered, or has refused, may have happened: a session that
 *     had such a commit searches when it ends, for its intents and in its ranges, as recovery does
 *     when it is dead.
 */
#include "kvfs/intent.h"

SNIC_STATIC_ASSERT(sizeof(struct snic_kvfs_reservation) == 24, "as a reserved record begins");

enum { KVFS_INTENT_BLIND = 2 }; /* kvfs_read.guard: read for the reservation alone */

/* ---- What is to be done, gathered once ---- */

static struct kvfs_read *kvfs_intent_read(const struct kvfs_op *op, const struct snic_kvop_key *key)
{
    struct kvfs_read *r = op->reads;
    while (r != NULL && !(kvfs_txn_is_guard(r) && kvfs_key_equal(&r->key, key)))
        r = r->next;
    return r;
}

static int kvfs_intent_is_made(const struct kvfs_op *op, uint64_t group)
{
    return op->made != 0 && group == op->made;
}

/* Read as stored: a record that another has reserved has no old value until it is resolved. */
static int kvfs_intent_is_read(const struct kvfs_op *op, const struct snic_kvop_key *key)
{
    const struct kvfs_read *r = kvfs_intent_read(op, key);
    return r != NULL && (r->flags & SNIC_KVFS_RESERVED) == 0;
}

/* Read records that change without having been read: they are reserved as they are now. */
static int kvfs_intent_read_blind(struct kvfs_op *op)
{
    int rc = 0;
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        const void *body;
        uint32_t size;
        int got;
        if (c->run != op->run_count || c->key.size == 0 || kvfs_intent_is_made(op, c->key.group) ||
            kvfs_intent_is_read(op, &c->key))
            continue;
        c->run--; /* not seen by the read */
        got = kvfs_get(op, &c->key, &body, &size);
        c->run++;
        for (struct kvfs_read *r = op->reads; r != NULL; r = r->next)
            if (r->guard && kvfs_key_equal(&r->key, &c->key))
                r->guard |= KVFS_INTENT_BLIND;
        if (got != 0 && got != SNIC_ENOENT && (rc == 0 || got != KVFS_PENDING))
            rc = got;
    }
    return rc;
}

static struct kvfs_intent_group *kvfs_intent_group_of(struct kvfs_intent *n, uint64_t group)
{
    for (uint32_t i = 0; i < n->group_count; i++)
        if (n->groups[i].group == group)
            return &n->groups[i];
    if (n->group_count == KVFS_INTENT_GROUPS)
        return NULL;
    n->groups[n->group_count].group = group;
    return &n->groups[n->group_count++];
}

/* 1: a deletion of a record that does not exist: nothing to do. */
static int kvfs_intent_is_nothing(const struct kvfs_op *op, const struct kvfs_change *c)
{
    struct kvfs_read *r =
        c->kind == SNIC_KVOP_DELETE && c->key.size != 0 ? kvfs_intent_read(op, &c->key) : NULL;
    if (r == NULL || (r->guard & KVFS_INTENT_BLIND) == 0 || r->state != KVFS_READ_ABSENT)
        return 0;
    r->guard = 0;
    return 1;
}

static int kvfs_intent_gather(struct kvfs_op *op, struct kvfs_intent *n)
{
    struct kvfs_intent_group *g;
    for (struct kvfs_change *c = op->changes; c != NULL; c = c->next) {
        if (c->run != op->run_count || kvfs_intent_is_nothing(op, c))
            continue;
        g = kvfs_intent_group_of(n, c->key.size != 0 ? c->key.group : c->object);
        if (g == NULL)
            return SNIC_E2BIG;
        if (c->kind == SNIC_KVOP_CHANGE_TRUNCATE) {
            if (n->object_count == SNIC_KVFS_INTENT_OBJECTS_MAX)
                return SNIC_E2BIG;
            n->objects[n->object_count++] = c->object;
        }
        SNIC_ASSERT(n->item_count < SNIC_COUNTOF(n->items));
        g->changes++;
        n->items[n->item_count++] = (struct kvfs_intent_item){
            .change = c, .read = c->key.size != 0 ? kvfs_intent_read(op, &c->key) : NULL};
    }
    for (struct kvfs_read *r = op->reads; r != NULL; r = r->next) {
        if (!kvfs_txn_is_guard(r))
            continue;
        g = kvfs_intent_group_of(n, r->key.group);
        if (g == NULL)
            return SNIC_E2BIG;
        g->guards++;
        for (uint32_t i = 0; i < n->item_count; i++)
            if (n->items[i].read == r)
                g->guards--;
        if (n->read_count == SNIC_KVOP_GUARDS_MAX)
            return SNIC_E2BIG;
        n->reads[n->read_count++] = r;
    }
    for (uint32_t i = 0; i < n->group_count; i++)
        n->open_count += !kvfs_intent_is_made(op, n->groups[i].group);
    return 0;
}

/* A record reserved: head, reservation, old, new. */
static int kvfs_intent_reserve_fill(struct kvfs_op *op, struct kvfs_intent *n,
                                    struct kvfs_intent_item *it)
{
    const struct kvfs_change *c = it->change;
    SNIC_ASSERT(it->read != NULL && (it->read->flags & SNIC_KVFS_RESERVED) == 0); /* J3 */
    uint32_t old_size = it->read->state == KVFS_READ_PRESENT ? it->read->size : 0;
    uint32_t new_size = c->kind == SNIC_KVOP_PUT ? c->size : 0;
    uint32_t size = SNIC_KVFS_HEAD + (uint32_t)sizeof(struct snic_kvfs_reservation);
    if (old_size + new_size > SNIC_KVOP_VALUE_MAX - size)
        return SNIC_EMSGSIZE;
    unsigned char *p = kvfs_memory(op, size + old_size + new_size);
    if (p == NULL)
        return SNIC_ENOMEM;
    memset(p, 0, size);
    snic_put_le64(p + 8, n->session);
    snic_put_le64(p + 16, n->number);
    snic_put_le32(p + 24, old_size);
    snic_put_le32(p + 28, new_size);
    if (old_size != 0)
        memcpy(p + size, it->read->record, old_size);
    if (new_size != 0)
        memcpy(p + size + old_size, c->record, new_size);
    it->reserved = p;
    it->reserved_size = size + old_size + new_size;
    snic_kvfs_seal(&c->key, p, it->reserved_size, SNIC_KVFS_RESERVED);
    return 0;
}

/* The intent's record in both states it can have from us. */
static int kvfs_intent_record_fill(struct kvfs_op *op, struct kvfs_intent *n)
{
    struct snic_kvfs_intent *r = kvfs_memory(op, sizeof(*r));
    uint32_t room = SNIC_KVFS_HEAD + 8 + n->object_count * 8 + n->item_count * 64;
    n->pending = kvfs_memory(op, room);
    n->committed = kvfs_memory(op, room);
    if (r == NULL || n->pending == NULL || n->committed == NULL)
        return SNIC_ENOMEM;
    r->key_count = 0;
    for (uint32_t i = 0; i < n->item_count; i++)
        if (n->items[i].reserved != NULL)
            r->keys[r->key_count++] = n->items[i].change->key;
    r->object_count = (uint16_t)n->object_count;
    memcpy(r->objects, n->objects, sizeof(n->objects));
    r->state = SNIC_KVFS_INTENT_PENDING;
    SNIC_ASSERT(r->key_count <= n->item_count);
    n->record_size = snic_kvfs_intent_encode(n->pending, r);
    SNIC_ASSERT(n->record_size <= room);
    snic_kvfs_seal(&n->key, n->pending, n->record_size, 0);
    r->state = SNIC_KVFS_INTENT_COMMITTED;
    (void)snic_kvfs_intent_encode(n->committed, r);
    snic_kvfs_seal(&n->key, n->committed, n->record_size, 0);
    return 0;
}

static int kvfs_intent_prepare(struct kvfs_op *op, struct kvfs_intent *n)
{
    struct snic_kvfs *k = op->k;
    size_t places;
    uint32_t room;
    int rc = kvfs_intent_gather(op, n);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n->item_count; i++) {
        struct kvfs_change *c = n->items[i].change;
        if (c->kind == SNIC_KVOP_PUT)
            snic_kvfs_seal(&c->key, c->record, c->size, 0);
    }
    places = (n->group_count + 1) * sizeof(*n->places);
    n->guards = kvfs_memory(op, (n->item_count + n->read_count + 1) * sizeof(*n->guards));
    n->changes = kvfs_memory(op, (n->item_count + 1) * sizeof(*n->changes));
    n->places = kvfs_memory(op, places);
    if (n->guards == NULL || n->changes == NULL || n->places == NULL)
        return SNIC_ENOMEM;
    memset(n->places, 0, places);
    if (n->open_count <= 1)
        return 0; /* J1 */
    n->session = k->session.id;
    n->number = ++k->session.intents;
    snic_kvfs_key_intent(&n->key, n->session, n->number);
    for (uint32_t i = 0; i < n->item_count && rc == 0; i++)
        if (n->items[i].read != NULL && !kvfs_intent_is_made(op, n->items[i].change->key.group))
            rc = kvfs_intent_reserve_fill(op, n, &n->items[i]);
    if (rc == 0)
        rc = kvfs_intent_record_fill(op, n);
    room = n->record_size;
    for (uint32_t i = 0; i < n->item_count; i++)
        room = room < n->items[i].reserved_size ? n->items[i].reserved_size : room;
    n->room_size = room;
    n->room = rc == 0 ? kvfs_memory(op, room) : NULL;
    n->single = rc == 0 ? kvfs_intent_single(op) : NULL;
    return rc == 0 && (n->room == NULL || n->single == NULL) ? SNIC_ENOMEM : rc;
}

/* ---- Steps: commits of groups, all of a step in flight together ---- */

static void kvfs_intent_guard(struct kvfs_intent *n, struct snic_kvop *op,
                              const struct snic_kvop_key *key, const void *value, uint32_t size)
{
    SNIC_ASSERT(n->guard_at <= n->item_count + n->read_count); /* of kvfs_intent_prepare() */
    struct snic_kvop_guard *g = &n->guards[n->guard_at++];
    memset(g, 0, sizeof(*g));
    g->key = *key;
    g->value = value;
    g->size = size;
    op->guard_count++;
}

static struct snic_kvop_change *kvfs_intent_change(struct kvfs_intent *n, struct snic_kvop *op)
{
    SNIC_ASSERT(n->change_at <= n->item_count);
    struct snic_kvop_change *c = &n->changes[n->change_at++];
    memset(c, 0, sizeof(*c));
    op->change_count++;
    return c;
}

static void kvfs_intent_value(struct snic_kvop_change *c, const struct snic_kvop_key *key,
                              const void *record, uint32_t size)
{
    c->key = *key;
    c->kind = size != 0 ? SNIC_KVOP_PUT : SNIC_KVOP_DELETE;
    c->value = size != 0 ? record : NULL;
    c->size = size;
}

static void kvfs_intent_object(struct snic_kvop_change *to, const struct kvfs_change *c)
{
    to->kind = c->kind;
    to->object = c->object;
    to->offset = c->offset;
    to->value = c->bytes;
    to->size = c->size;
}

static void kvfs_intent_read_guards(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < n->read_count; i++) {
        const struct kvfs_read *r = n->reads[i];
        int there = r->state == KVFS_READ_PRESENT;
        if (r->key.group == group)
            kvfs_intent_guard(n, op, &r->key, there ? r->record : NULL, there ? r->size : 0);
    }
}

/* A group's changes without reservations, with its guards: private groups, and the last one. */
static void kvfs_intent_fill_plain(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op)
{
    kvfs_intent_read_guards(n, group, op);
    for (uint32_t i = 0; i < n->item_count; i++) {
        const struct kvfs_change *c = n->items[i].change;
        if (c->key.size == 0 && c->object == group)
            kvfs_intent_object(kvfs_intent_change(n, op), c);
        else if (c->key.size != 0 && c->key.group == group)
            kvfs_intent_value(kvfs_intent_change(n, op), &c->key, c->record,
                              c->kind == SNIC_KVOP_PUT ? c->size : 0);
    }
}

static void kvfs_intent_fill_undo(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < n->item_count; i++) {
        const struct kvfs_change *c = n->items[i].change;
        if (c->key.size != 0 && c->key.group == group)
            kvfs_intent_value(kvfs_intent_change(n, op), &c->key, NULL, 0);
        else if (c->key.size == 0 && c->object == group)
            kvfs_intent_object(
                kvfs_intent_change(n, op),
                &(struct kvfs_change){.kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = group});
    }
}

static void kvfs_intent_fill_reserve(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op)
{
    kvfs_intent_read_guards(n, group, op); /* J3 */
    for (uint32_t i = 0; i < n->item_count; i++) {
        const struct kvfs_intent_item *it = &n->items[i];
        const struct kvfs_change *c = it->change;
        if (c->key.size == 0 && c->object == group && c->kind == SNIC_KVOP_CHANGE_WRITE)
            kvfs_intent_object(kvfs_intent_change(n, op), c);
        else if (it->reserved != NULL && c->key.group == group)
            kvfs_intent_value(kvfs_intent_change(n, op), &c->key, it->reserved, it->reserved_size);
    }
}

/* J4: records that were only read. */
static void kvfs_intent_fill_check(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < n->read_count; i++) {
        const struct kvfs_read *r = n->reads[i];
        int changed = 0, there = r->state == KVFS_READ_PRESENT;
        for (uint32_t j = 0; j < n->item_count; j++)
            changed |= n->items[j].read == r;
        if (!changed && r->key.group == group)
            kvfs_intent_guard(n, op, &r->key, there ? r->record : NULL, there ? r->size : 0);
    }
}

/* J6: from the reserved record to the new (or the old) one. */
static void kvfs_intent_fill_settle(struct kvfs_intent *n, uint64_t group, struct snic_kvop *op,
                                    int committed)
{
    for (uint32_t i = 0; i < n->item_count; i++) {
        const struct kvfs_intent_item *it = &n->items[i];
        const struct kvfs_change *c = it->change;
        int put = c->kind == SNIC_KVOP_PUT;
        if (c->key.size == 0 && c->object == group && committed &&
            c->kind == SNIC_KVOP_CHANGE_TRUNCATE)
            kvfs_intent_object(kvfs_intent_change(n, op), c); /* J8 */
        if (it->reserved == NULL || c->key.group != group)
            continue;
        kvfs_intent_guard(n, op, &c->key, it->reserved, it->reserved_size);
        if (committed)
            kvfs_intent_value(kvfs_intent_change(n, op), &c->key, c->record, put ? c->size : 0);
        else
            kvfs_intent_value(kvfs_intent_change(n, op), &c->key, it->read->record,
                              it->read->state == KVFS_READ_PRESENT ? it->read->size : 0);
    }
}

static void kvfs_intent_fill_record(struct kvfs_intent *n, struct snic_kvop *op)
{
    if (n->step == KVFS_INTENT_PRIVATE) {
        kvfs_intent_guard(n, op, &n->key, NULL, 0);
        kvfs_intent_value(kvfs_intent_change(n, op), &n->key, n->pending, n->record_size);
    } else if (n->step == KVFS_INTENT_FLIP) {
        kvfs_intent_guard(n, op, &n->key, n->pending, n->record_size); /* J5 */
        kvfs_intent_value(kvfs_intent_change(n, op), &n->key, n->committed, n->record_size);
    } else if (n->step == KVFS_INTENT_DELETE) {
        kvfs_intent_value(kvfs_intent_change(n, op), &n->key, NULL, 0);
    }
}

static void kvfs_intent_fill_group(const struct kvfs_op *op, struct kvfs_intent *n, uint32_t i,
                                   struct snic_kvop *want)
{
    uint64_t group = n->groups[i].group;
    int made = kvfs_intent_is_made(op, group);
    if (n->step == KVFS_INTENT_PRIVATE && made)
        kvfs_intent_fill_plain(n, group,
                               want); /* NOLINT(bugprone-branch-clone): the order decides */
    else if (n->step == KVFS_INTENT_UNDO && made && n->error != 0)
        kvfs_intent_fill_undo(n, group, want);
    else if (made)
        return;
    else if (n->step == KVFS_INTENT_DECIDE)
        kvfs_intent_fill_plain(n, group, want);
    else if (n->step == KVFS_INTENT_RESERVE)
        kvfs_intent_fill_reserve(n, group, want);
    else if (n->step == KVFS_INTENT_CHECK)
        kvfs_intent_fill_check(n, group, want);
    else if (n->step == KVFS_INTENT_APPLY)
        kvfs_intent_fill_settle(n, group, want, 1);
    else if (n->step == KVFS_INTENT_RESTORE && n->groups[i].held)
        kvfs_intent_fill_settle(n, group, want, 0);
}

/* One commit of the step; without guards and changes it is done at once. */
static void kvfs_intent_send(struct kvfs_op *op, struct kvfs_intent *n, uint32_t i)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_COMMIT};
    const struct snic_kvop *got;
    want.guards = n->guards + n->guard_at;
    want.changes = n->changes + n->change_at;
    if (i < n->group_count)
        kvfs_intent_fill_group(op, n, i, &want);
    else if (n->pending != NULL)
        kvfs_intent_fill_record(n, &want);
    if (want.guard_count + want.change_count == 0) {
        n->places[i].io.op = want;
        n->places[i].state = KVFS_PLACE_DONE;
        return;
    }
    if (n->durable)
        want.flags |= SNIC_KVOP_DURABLE;
    if (op->reserve || n->step >= KVFS_INTENT_APPLY)
        want.flags |= SNIC_KVOP_RESERVE;
    op->k->stats.store_commits++;
    (void)kvfs_io_in(op, &n->places[i], &want, &got);
}

/* All commits of the step: KVFS_PENDING; 0; SNIC_ECANCELED, or else the first error. */
static int kvfs_intent_run(struct kvfs_op *op, struct kvfs_intent *n)
{
    int rc = 0;
    if (!n->begun) {
        n->begun = 1;
        for (uint32_t i = 0; i <= n->group_count; i++)
            kvfs_intent_send(op, n, i);
    }
    for (uint32_t i = 0; i <= n->group_count; i++) {
        int result = (int)n->places[i].io.op.result;
        if (n->places[i].state == KVFS_PLACE_SENT)
            return KVFS_PENDING;
        if (result < 0 && result != SNIC_ECANCELED)
            op->k->session.commit_unknown = 1; /* J10 */
        if (n->step == KVFS_INTENT_RESERVE && i < n->group_count)
            n->groups[i].held = result != SNIC_ECANCELED;
        if (result < 0 && (rc == 0 || result == SNIC_ECANCELED))
            rc = result;
    }
    return rc;
}

/* ---- The course ---- */

/* It has failed: the operation starts over if it met another commit, or fails. */
static int kvfs_intent_failed(struct kvfs_op *op, struct kvfs_intent *n)
{
    SNIC_ASSERT(n->error != 0);
    op->intent = NULL;
    op->commit_state = KVFS_COMMIT_NONE;
    if (n->error == SNIC_ECANCELED) {
        kvfs_txn_retry(op);
        if (op->commit_state == KVFS_COMMIT_NONE)
            return KVFS_PENDING;
        return op->commit_error;
    }
    op->commit_state = KVFS_COMMIT_FAILED;
    op->commit_error = kvfs_txn_error(n->error);
    return op->commit_error;
}

static void kvfs_intent_fail(struct kvfs_intent *n, int error, uint32_t step)
{
    n->error = error;
    kvfs_intent_begin(n, step);
}

/* J1 */
static void kvfs_intent_after_fast(struct kvfs_op *op, struct kvfs_intent *n, int rc)
{
    if (n->step == KVFS_INTENT_PRIVATE && rc == 0)
        kvfs_intent_begin(n, KVFS_INTENT_DECIDE);
    else if (n->step == KVFS_INTENT_DECIDE && rc == 0)
        n->step = KVFS_INTENT_DONE;
    else if (n->step == KVFS_INTENT_DECIDE && rc == SNIC_EUNKNOWN)
        kvfs_intent_fail(n, rc, KVFS_INTENT_FAILED); /* the name may have been committed */
    else if (n->step == KVFS_INTENT_UNDO)
        n->step = KVFS_INTENT_FAILED;
    else
        kvfs_intent_fail(n, rc, op->made != 0 ? KVFS_INTENT_UNDO : KVFS_INTENT_FAILED);
}

/* J2 to J6; after a failure before the commit point records are restored; a failure after it only
   delays. */
static void kvfs_intent_after(struct kvfs_intent *n, int rc)
{
    switch (n->step) {
    case KVFS_INTENT_PRIVATE:
    case KVFS_INTENT_RESERVE:
    case KVFS_INTENT_CHECK:
        if (rc == 0)
            kvfs_intent_begin(n, n->step + 1);
        else
            kvfs_intent_fail(n, rc, KVFS_INTENT_RESTORE);
        break;
    case KVFS_INTENT_FLIP:
        if (rc == 0)
            kvfs_intent_begin(n, KVFS_INTENT_APPLY);
        else if (rc == SNIC_ECANCELED)
            kvfs_intent_fail(n, rc, KVFS_INTENT_RESTORE); /* another session has aborted it */
        else
            kvfs_intent_fail(n, rc, KVFS_INTENT_QUERY);
        break;
    case KVFS_INTENT_RESTORE:
    case KVFS_INTENT_APPLY:
        if (rc != 0) /* another session was first, or the store fails: one by one */
            kvfs_intent_begin(n, KVFS_INTENT_SETTLE);
        else
            kvfs_intent_begin(n, KVFS_INTENT_UNDO);
        break;
    case KVFS_INTENT_UNDO:
        SNIC_ASSERT(n->pending != NULL); /* J2: there is an intent */
        kvfs_intent_begin(n, KVFS_INTENT_DELETE);
        break;
    default:
        n->step = n->error == 0 ? KVFS_INTENT_DONE : KVFS_INTENT_FAILED;
        break;
    }
}

static int kvfs_intent_start(struct kvfs_op *op, int durable)
{
    int rc = kvfs_intent_read_blind(op);
    struct kvfs_intent *n;
    if (rc != 0)
        return rc;
    n = kvfs_memory(op, sizeof(*n));
    if (n == NULL)
        return SNIC_ENOMEM;
    memset(n, 0, sizeof(*n));
    n->durable = durable != 0;
    rc = kvfs_intent_prepare(op, n);
    if (rc != 0)
        return rc;
    kvfs_intent_begin(n, KVFS_INTENT_PRIVATE);
    op->intent = n;
    op->commit_state = KVFS_COMMIT_SENT;
    op->k->stats.intents++;
    return 0;
}

int kvfs_intent_commit(struct kvfs_op *op, int durable)
{
    struct kvfs_intent *n = op->intent;
    int rc = 0;
    if (n == NULL) {
        rc = kvfs_intent_start(op, durable);
        if (rc != 0)
            return rc;
        n = op->intent;
    }
    for (;;) {
        if (n->step == KVFS_INTENT_DONE)
            break;
        if (n->step == KVFS_INTENT_FAILED)
            return kvfs_intent_failed(op, n);
        if (n->step == KVFS_INTENT_QUERY || n->step == KVFS_INTENT_SETTLE) {
            rc = kvfs_intent_slow(op, n);
            if (rc == KVFS_PENDING)
                return rc;
            continue;
        }
        rc = kvfs_intent_run(op, n);
        if (rc == KVFS_PENDING)
            return rc;
        if (n->open_count <= 1)
            kvfs_intent_after_fast(op, n, rc);
        else
            kvfs_intent_after(n, rc);
    }
    SNIC_ASSERT(n->error == 0);
    op->intent = NULL;
    for (uint32_t i = 0; i < n->item_count; i++)
        n->items[i].change->run = op->run_count; /* they count for txn_commit.c afterwards */
    return 0;
}
