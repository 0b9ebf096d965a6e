/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the log reports: its records and the membership's file while it is opened; afterwards what
 * is durable, and that there is room.
 */
#include "replica_priv.h"

static void replica_on_durable(void *ctx, uint64_t up_to)
{
    struct snic_replica *r = ctx;
    if (r->state != SNIC_REPLICA_RUNNING)
        return;
    r->log.durable = snic_max_u64(r->log.durable, up_to);
    replica_log_ahead(r);
    replica_settle(r);
}

static void replica_on_room(void *ctx)
{
    struct snic_replica *r = ctx;
    if (r->state == SNIC_REPLICA_RUNNING)
        replica_settle(r);
}

static void replica_on_failed(void *ctx, int error)
{
    struct snic_replica *r = ctx;
    if (r->state == SNIC_REPLICA_STOPPED)
        return;
    replica_fail(r, error);
    replica_settle(r);
}

static void replica_on_meta(void *ctx)
{
    struct snic_replica *r = ctx;
    struct snic_member_event ev = {.type = SNIC_MEMBER_STORED, .id = r->log.store_id};
    if (r->state != SNIC_REPLICA_RUNNING)
        return;
    r->log.store_id = 0;
    if (replica_step_member(r, &ev) != 0)
        replica_fail(r, SNIC_EPROTO);
    replica_settle(r);
}

static void replica_on_accepted(void *ctx)
{
    struct snic_replica *r = ctx;
    r->log.accepting = 0;
    r->log.writable = 1;
    if (r->state == SNIC_REPLICA_RUNNING)
        replica_settle(r);
}

/*
 * A log holds what was deleted and purged until compaction passes it, so there may be more keys in
 * it than the table ever had at once. This node begins with nothing, then, as if the log were in
 * doubt, and is no one to begin from (replica_view); nothing is written to the log before it learns
 * from others, so with more room the next start may read it.
 */
static void replica_log_too_much(struct snic_replica *r)
{
    r->log.too_much = 1;
    replica_forget_all(r);
}

/* A record of the log. */
static void replica_on_found(void *ctx, const struct snic_wal_record *rec)
{
    struct snic_replica *r = ctx;
    struct snic_ddp_event ev = {.type = SNIC_DDP_LOADED, .ts = rec->ts, .length = rec->length};
    if (r->state != SNIC_REPLICA_READING || r->failure != 0)
        return;
    if ((rec->flags & SNIC_REPLICA__RETIRE) != 0) {
        r->log.retired = rec->position;
        r->log.too_much = 0;
        replica_forget_all(r);
        return;
    }
    if (r->log.too_much)
        return;
    ev.key.w[0] = rec->key.w[0];
    ev.key.w[1] = rec->key.w[1];
    if ((rec->flags & SNIC_REPLICA__REPLACES) != 0)
        ev.flags |= SNIC_DDP_REPLACES;
    if ((rec->flags & SNIC_REPLICA__DROPS) != 0)
        ev.flags |= SNIC_DDP_DROPS;
    if ((rec->flags & SNIC_WAL_TOMBSTONE) != 0) {
        ev.flags |= SNIC_DDP_MSG_TOMBSTONE;
        ev.length = 0;
    } else {
        uint32_t n;
        ev.value = replica_value_new(&r->values, rec->length);
        if (ev.value == 0) {
            replica_log_too_much(r);
            return;
        }
        memcpy(replica_value_at(&r->values, ev.value, &n), rec->bytes, rec->length);
        replica_value_give(&r->values, ev.value);
    }
    int result = replica_step_ddp(r, &ev);
    if (result == 0 && (ev.flags & SNIC_DDP_DROPS) == 0)
        replica_log_has(r, &ev.key, ev.ts, rec->position);
    if (result == 0)
        return;
    if (ev.value != 0)
        replica_value_release(&r->values, ev.value);
    if (result == SNIC_ENOSPC)
        replica_log_too_much(r);
    else
        replica_fail(r, result);
}

static void replica_on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct snic_replica *r = ctx;
    struct snic_member_record record, *found = NULL;
    const void *bytes;
    uint32_t length;
    if (r->state != SNIC_REPLICA_READING)
        return;
    if (result != 0)
        replica_fail(r, result);
    if (r->failure != 0) {
        replica_settle(r);
        return;
    }
    r->log.writable = report->verdict == SNIC_WAL_CLEAN;
    r->log.gaps = report->verdict == SNIC_WAL_CORRUPT;
    r->log.durable = snic_wal_durable(r->log.wal);
    result = SNIC_ENOENT;
    if (snic_wal_meta_get(r->log.wal, &bytes, &length) == 0)
        result = replica_get_record(bytes, length, &record);
    if (result == 0)
        found = &record;
    if (result == SNIC_EVERSION) { /* its votes are in there: it must not vote without them */
        replica_fail(r, result);
        replica_settle(r);
        return;
    }
    int ran = report->meta != 0 || report->records != 0; /* whatever is left of it (A9) */
    replica_boot(r, found, report->verdict == SNIC_WAL_CLEAN && !r->log.too_much, ran);
    replica_settle(r);
}

int replica_log_open(struct snic_replica *r)
{
    static const struct snic_wal_events events = {
        .opened = replica_on_opened,
        .found = replica_on_found,
        .durable = replica_on_durable,
        .room = replica_on_room,
        .failed = replica_on_failed,
        .meta_stored = replica_on_meta,
        .accepted = replica_on_accepted,
        .keep = replica_log_keep,
    };
    struct replica_log *l = &r->log;
    return snic_wal_open(&l->wal, l->mem, l->size, r->o.log, &l->opts, &events, r);
}
