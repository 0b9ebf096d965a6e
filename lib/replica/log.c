/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * From the data path to the log. What is to be appended, flushed or retired waits in a ring, in
 * order, until the log takes it, and then until it is durable; then the data path is notified.
 * While more than a few wait, or the ring is nearly full, nothing is taken in that would append;
 * what is left of the ring is for what the writes in flight may still do.
 *
 * A log that is full of what is needed refuses records and takes tombstones: they are the way out.
 * So while a record waits for a full log no other record is taken in, tombstones are, and they go
 * to the log in front of it, and in the place of records of their own key that wait. To come
 * earlier is no harm to a FLUSH, which is for what was asked for before it. A put that a full log
 * does not take keeps its place among the writes in flight; one of these is for deletions (ddp.h).
 * It has begun at other nodes, so it can be refused no more: while one waits for compaction no
 * other put is begun here.
 *
 * In a restart of all no key can be deleted before all logs have what one of them has, so the
 * records that this takes may use the space of tombstones.
 *
 * A node that was left out keeps its log, as its table of that time, while it learns: until it is
 * FULL again an operator can begin from it. Entries that the donor does not have are made void one
 * by one: by a record that REPLACES what is before it, or DROPS it. Such a record stands behind
 * those that it makes void, and segments are freed in order, so none of these returns. Only a log
 * with gaps, or with more than the table takes, is retired as a whole by a record: those before it
 * are not loaded when the log is read, and not kept by compaction.
 */
#include "replica_priv.h"

#define REPLICA_WAITING 32 /* entries that may wait while more are taken in */

static struct replica_entry *replica_entry_at(struct replica_log *l, uint32_t i)
{
    return &l->entry[i & (l->entries - 1)];
}

static struct replica_entry *replica_entry_new(struct snic_replica *r, uint32_t kind)
{
    struct replica_log *l = &r->log;
    SNIC_ASSERT(l->tail - l->head < l->entries); /* replica_log_room leaves enough */
    struct replica_entry *e = replica_entry_at(l, l->tail++);
    memset(e, 0, sizeof(*e));
    e->kind = kind;
    e->at_ns = snic_loop_clock(r->o.loop);
    e->engine = r->engine;
    return e;
}

/* What the log has not taken is not appended. */
static void replica_log_drop(struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    l->refusal = 0;
    while (l->tail != l->mid) {
        struct replica_entry *e = replica_entry_at(l, --l->tail);
        if (e->value != 0)
            replica_value_drop(&r->values, e->value);
        e->value = 0;
    }
}

/* May something come in that appends? 0; SNIC_ENOSPC the log is full; SNIC_EAGAIN it is busy. */
int replica_log_room(const struct snic_replica *r, enum replica_room of)
{
    const struct replica_log *l = &r->log;
    uint64_t reserve = (uint64_t)r->o.writes_max + r->o.scopes_max + 64;
    int full = l->refusal == SNIC_ENOSPC;
    if (l->tail - l->head + reserve >= l->entries)
        return full ? SNIC_ENOSPC : SNIC_EAGAIN;
    if (full)
        return of == REPLICA_ROOM_TOMBSTONE || r->restarts ? 0 : SNIC_ENOSPC;
    if (of == REPLICA_ROOM_PUT && l->refusal != 0 && snic_wal_makes_room(l->wal))
        return SNIC_EAGAIN;
    return l->tail - l->mid < REPLICA_WAITING ? 0 : SNIC_EAGAIN;
}

void replica_log_append(struct snic_replica *r, const struct snic_ddp_action *a)
{
    int drops = (a->flags & SNIC_DDP_DROPS) != 0;
    struct replica_entry *e = replica_entry_new(r, drops ? REPLICA_E_DROP : REPLICA_E_RECORD);
    e->flags = drops                                 ? SNIC_REPLICA__DROPS
               : (a->flags & SNIC_DDP_REPLACES) != 0 ? SNIC_REPLICA__REPLACES
                                                     : 0;
    e->key = a->msg.key;
    e->ts = a->msg.ts;
    e->scope = a->msg.scope;
    if ((a->flags & SNIC_DDP_BACKGROUND) != 0) {
        e->flags |= SNIC_WAL_BACKGROUND;
        e->at_ns = 0;
    }
    if ((a->flags & SNIC_DDP_MSG_TOMBSTONE) != 0) {
        e->flags |= SNIC_WAL_TOMBSTONE;
        return;
    }
    e->value = a->msg.value;
    replica_value_hold(&r->values, e->value); /* N2 */
}

void replica_log_flush(struct snic_replica *r, uint32_t id)
{
    replica_entry_new(r, REPLICA_E_FLUSH)->id = id;
}

/* The next record of this engine that is on its way to the log, from *@p at on (0: the first); 0:
 * no more. */
int replica_log_taken(struct snic_replica *r, uint32_t *at, struct replica_entry *out)
{
    struct replica_log *l = &r->log;
    while (l->head + *at != l->tail) {
        const struct replica_entry *e = replica_entry_at(l, l->head + (*at)++);
        if (e->kind != REPLICA_E_RECORD || e->engine != r->engine)
            continue;
        *out = *e;
        return 1;
    }
    return 0;
}

/*
 * What an earlier engine of this node still waits to append would be retired at once: dropped. And
 * the log may be full of what is of no use from here on, and look for room no more.
 */
void replica_log_retire(struct snic_replica *r)
{
    replica_log_drop(r);
    struct replica_entry *e = replica_entry_new(r, REPLICA_E_RETIRE);
    e->flags = SNIC_WAL_TOMBSTONE | SNIC_REPLICA__RETIRE;
    snic_wal_compact(r->log.wal);
}

/* A key is gone everywhere: keep() will drop its records. */
void replica_log_forget(struct snic_replica *r, const struct snic_ddp_action *a)
{
    (void)a;
    if (r->log.writable)
        snic_wal_compact(r->log.wal);
}

/*
 * The newest timestamp of a key that was appended, durable or not; 0: none yet. Entries that still
 * wait for the log do not count.
 */
static uint64_t replica_log_newest(struct snic_replica *r, const struct snic_ddp_entry *e)
{
    struct replica_log *l = &r->log;
    uint64_t newest = e->durable;
    for (uint32_t i = l->head; i != l->mid; i++) {
        const struct replica_entry *w = replica_entry_at(l, i);
        if (w->kind == REPLICA_E_RECORD && w->key.w[0] == e->key.w[0] && w->key.w[1] == e->key.w[1])
            newest = snic_max_u64(newest, w->ts);
    }
    return newest;
}

/*
 * The log has that at the position: earlier records of the key are not needed any more, even of the
 * same timestamp. A learner appends again what it dropped and requested again, and what it held and
 * an INV brought; else timestamps are enough. If another key takes the record's number, it is
 * appended later than this.
 */
void replica_log_has(struct snic_replica *r, const struct snic_ddp_key *key, uint64_t ts,
                     uint64_t position)
{
    struct snic_ddp_entry e;
    if (r->part == SNIC_DDP_FULL || snic_ddp_kept(r->ddp, key, &e) != 0 || e.ts != ts ||
        (e.flags & SNIC_DDP_REPLACES) != 0)
        return;
    r->log.since[e.number] = position;
}

/* Has a learner dropped the key's records for one that waits for room? */
static int replica_log_yields(struct snic_replica *r, const struct snic_ddp_key *key)
{
    struct replica_log *l = &r->log;
    for (uint32_t i = l->mid; i != l->tail && r->part == SNIC_DDP_LEARNER; i++) {
        const struct replica_entry *w = replica_entry_at(l, i);
        if (w->alone && w->key.w[0] == key->w[0] && w->key.w[1] == key->w[1])
            return 1;
    }
    return 0;
}

/*
 * Only the newest record of a key is needed, and none of a key that is gone; but the newest that
 * is in the log, not one that still waits for it (H28). That one only: while newer values of all
 * keys wait for room, keeping all older ones would never make any. Compaction may continue after
 * the stop, when the appended records are not known any more: then all from the durable one on.
 *
 * A record with a timestamp above the key's: of a time before this node was left out. It goes when
 * the one that replaces it is in the log.
 */
int replica_log_keep(void *ctx, const struct snic_wal_record *rec)
{
    struct snic_replica *r = ctx;
    struct snic_ddp_entry e;
    struct snic_ddp_key key = {{rec->key.w[0], rec->key.w[1]}};
    const uint32_t marks = SNIC_REPLICA__RETIRE | SNIC_REPLICA__DROPS;
    if ((rec->flags & marks) != 0 || rec->position < r->log.retired)
        return 0;
    if (snic_ddp_kept(r->ddp, &key, &e) != 0 || replica_log_yields(r, &key))
        return 0;
    if (rec->position < r->log.since[e.number])
        return 0;
    if (rec->ts > e.ts)
        return (e.flags & SNIC_DDP_REPLACES) != 0 || replica_log_newest(r, &e) == 0;
    return rec->ts == e.ts || (rec->ts >= e.durable && rec->ts >= replica_log_newest(r, &e));
}

/* ---- To the log ---- */

static int replica_entry_submit(struct snic_replica *r, struct replica_entry *e)
{
    struct snic_wal_record rec;
    if (e->kind == REPLICA_E_FLUSH) {
        e->position = snic_wal_flush(r->log.wal);
        return 0;
    }
    memset(&rec, 0, sizeof(rec));
    rec.key.w[0] = e->key.w[0];
    rec.key.w[1] = e->key.w[1];
    rec.ts = e->ts;
    rec.scope = e->scope;
    rec.flags = e->flags;
    if (r->restarts)
        rec.flags |= SNIC_WAL_LAST_SPACE;
    rec.epoch = snic_ddp_ts_epoch(e->ts);
    if (e->value != 0)
        rec.bytes = replica_value_at(&r->values, e->value, &rec.length);
    int result = snic_wal_append(r->log.wal, &rec, &e->position);
    if (result != 0)
        return result;
    if (e->value != 0)
        replica_value_drop(&r->values, e->value);
    e->value = 0;
    if (e->kind == REPLICA_E_RECORD)
        replica_log_has(r, &e->key, e->ts, e->position);
    if (e->kind == REPLICA_E_RETIRE) {
        r->log.retired = e->position;
        r->log.gaps = r->log.too_much = 0;
        snic_wal_compact(r->log.wal);
    }
    return 0;
}

/* The entry @i of those that wait is in the log, as the last one. */
static void replica_log_front(struct replica_log *l, uint32_t i)
{
    struct replica_entry e = *replica_entry_at(l, i);
    for (uint32_t k = i; k != l->mid; k--)
        *replica_entry_at(l, k) = *replica_entry_at(l, k - 1);
    *replica_entry_at(l, l->mid++) = e; /* in the order of positions: pump */
}

/*
 * The tombstone @i went to the log. Records of its key that wait in front of it are older, and will
 * not be needed any more: they are as durable as it is, and are not appended.
 */
static void replica_log_passed(struct snic_replica *r, uint32_t i)
{
    struct replica_log *l = &r->log;
    const struct replica_entry e = *replica_entry_at(l, i);
    for (uint32_t k = l->mid; k != i; k++) {
        struct replica_entry *w = replica_entry_at(l, k);
        if (w->kind != REPLICA_E_RECORD || w->key.w[0] != e.key.w[0] || w->key.w[1] != e.key.w[1])
            continue;
        if (w->value != 0)
            replica_value_drop(&r->values, w->value);
        w->value = 0;
        w->position = e.position;
        replica_log_front(l, k);
    }
    replica_log_front(l, i);
}

/* What a record that is not appended would have replaced is replaced by the one in its place. */
static void replica_log_inherit(struct replica_log *l, uint32_t i)
{
    struct replica_entry *e = replica_entry_at(l, i);
    for (uint32_t k = l->mid; k != i && e->kind == REPLICA_E_RECORD; k++) {
        const struct replica_entry *w = replica_entry_at(l, k);
        if (w->kind == REPLICA_E_RECORD && w->key.w[0] == e->key.w[0] && w->key.w[1] == e->key.w[1])
            e->flags |= w->flags & SNIC_REPLICA__REPLACES;
    }
}

/* The log is full: tombstones go in front of what it refuses. Returns the log's last result. */
static int replica_log_pass(struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    for (uint32_t i = l->mid + 1; i != l->tail; i++) {
        struct replica_entry *e = replica_entry_at(l, i);
        if ((e->kind != REPLICA_E_RECORD && e->kind != REPLICA_E_DROP) ||
            (e->flags & SNIC_WAL_TOMBSTONE) == 0)
            continue;
        replica_log_inherit(l, i);
        int result = replica_entry_submit(r, e);
        if (result != 0)
            return result;
        replica_log_passed(r, i);
    }
    return 0;
}

/* What the log takes of what waits. */
static void replica_log_submit(struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    int result = 0;
    l->refusal = 0;
    while (result == 0 && l->writable && l->mid != l->tail) {
        result = replica_entry_submit(r, replica_entry_at(l, l->mid));
        l->mid += result == 0;
    }
    if (result == SNIC_EAGAIN || result == SNIC_ENOSPC)
        l->refusal = result; /* room() comes; a full log waits for compaction (A10) */
    if (result == SNIC_ENOSPC) {
        for (uint32_t i = l->mid; i != l->tail; i++)
            replica_entry_at(l, i)->at_ns = 0; /* they wait for compaction, which is no flush */
        result = replica_log_pass(r);
    }
    if (result != 0 && result != SNIC_EAGAIN && result != SNIC_ENOSPC)
        replica_fail(r, result);
}

/* It will never take what waits, unless something goes; and nothing is on its way that lets it. */
int replica_log_stuck(struct replica_log *l)
{
    if (l->refusal != SNIC_ENOSPC)
        return 0;
    for (uint32_t i = l->head; i != l->tail; i++) {
        uint32_t kind = replica_entry_at(l, i)->kind;
        if (kind == REPLICA_E_DROP || kind == REPLICA_E_RETIRE)
            return 0;
    }
    return l->mid != l->tail;
}

/*
 * A learner's log is full: it drops the records of each key for which another one waits, so that
 * compaction makes room; the donor has them. Otherwise a record that was dropped and is sent again,
 * with the same timestamp, would keep the void one in the log and never find room itself. Returns 0
 * if there was none left to give up.
 */
int replica_log_yield(struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    int found = 0;
    for (uint32_t i = l->mid; i != l->tail; i++) {
        struct replica_entry *e = replica_entry_at(l, i);
        if (e->kind != REPLICA_E_RECORD || e->alone)
            continue;
        e->alone = 1;
        found = 1;
    }
    if (found)
        snic_wal_compact(l->wal);
    return found;
}

/* The records of what is durable by now are fetched together. */
void replica_log_ahead(const struct snic_replica *r)
{
    struct snic_ddp_key keys[REPLICA_WAITING];
    const struct replica_log *l = &r->log;
    uint32_t n = 0;
    for (uint32_t i = l->head; i != l->mid && n < SNIC_COUNTOF(keys); i++) {
        const struct replica_entry *e = &l->entry[i & (l->entries - 1)];
        if (e->position > l->durable)
            break;
        if (e->kind == REPLICA_E_RECORD)
            keys[n++] = e->key;
    }
    if (n > 1)
        snic_ddp_prefetch(r->ddp, keys, n);
}

/* The next durable entry; 0: there is none. */
int replica_log_next(struct snic_replica *r, struct replica_entry *out)
{
    struct replica_log *l = &r->log;
    replica_log_submit(r);
    if (l->head == l->mid)
        return 0;
    struct replica_entry e = *replica_entry_at(l, l->head);
    if (e.position > l->durable)
        return 0;
    l->head++;
    if (e.at_ns != 0)
        replica_pace_flush(r, snic_loop_clock(r->o.loop) - e.at_ns);
    *out = e;
    return 1;
}

/* Take the log as it is, if its end is in doubt. */
void replica_log_accept(struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    if (l->writable || l->accepting)
        return;
    int result = snic_wal_accept_tail(l->wal);
    l->accepting = result == 0;
    if (result != 0)
        replica_fail(r, result);
}

void replica_log_store(struct snic_replica *r, uint64_t id, const struct snic_member_record *rec)
{
    unsigned char bytes[SNIC_REPLICA__RECORD];
    uint32_t size = replica_put_record(bytes, rec);
    int result = snic_wal_meta_put(r->log.wal, bytes, size);
    r->log.store_id = id; /* N5 */
    if (result != 0)
        replica_fail(r, result);
}

/* ---- Memory, the end ---- */

void replica_log_layout(struct snic_arena *a, struct snic_replica *r)
{
    struct replica_log *l = &r->log;
    l->opts = r->o.wal;
    l->entries = r->o.appends_max;
    l->size = snic_wal_memsize(r->o.log, &l->opts);
    l->mem = snic_arena_take(a, 1, l->size, SNIC_REPLICA_ALIGN);
    l->entry = snic_arena_take(a, l->entries, sizeof(*l->entry), 64);
    uint32_t records = snic_ddp_records(&r->ddp_opts);
    l->since = snic_arena_take(a, records, sizeof(*l->since), 64);
    if (a->base != NULL)
        memset(l->since, 0, records * sizeof(*l->since));
}

/* N6: what is in the log's buffers may still be written. */
void replica_log_stop(struct snic_replica *r)
{
    replica_log_drop(r);
    r->log.head = r->log.tail;
}

void replica_log_fini(struct snic_replica *r)
{
    (void)snic_wal_close(r->log.wal);
}

#undef REPLICA_WAITING
