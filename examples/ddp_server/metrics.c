/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The figures of --stats and --metrics, summed over the shards. Of latencies, which cannot be
 * summed, the largest of a shard; of each other node what all shards have for it.
 */
#include "node.h"

#include <stdarg.h>
#include <stdio.h>

#define METRICS_NAME 56

struct metrics_out {
    struct ex_metric *out;
    size_t count;
};

static void metrics_put(struct metrics_out *o, uint64_t value, int counter, const char *format, ...)
    SNIC_PRINTF(4, 5);
static void metrics_put(struct metrics_out *o, uint64_t value, int counter, const char *format, ...)
{
    static char names[EX_METRICS_MAX][METRICS_NAME];
    va_list ap;

    if (o->count == EX_METRICS_MAX)
        return;
    va_start(ap, format);
    (void)vsnprintf(names[o->count], METRICS_NAME, format, ap);
    va_end(ap);
    o->out[o->count] = (struct ex_metric){names[o->count], value, counter};
    o->count++;
}

struct metrics_progress {
    uint32_t reading; /* shards */
    uint32_t learning;
    uint32_t percent; /* mean of all shards */
};

/* ---- Sums over the shards ---- */

static void metrics_add(struct ds_snapshot *sum, const struct ds_snapshot *s, int first)
{
    sum->replica.serves = (first || sum->replica.serves) && s->replica.serves;
    sum->replica.member.vote = (first || sum->replica.member.vote) && s->replica.member.vote;
    sum->replica.writable = (first || sum->replica.writable) && s->replica.writable;
    if (first || s->replica.full < sum->replica.full)
        sum->replica.full = s->replica.full;
    sum->replica.min_full = s->replica.min_full;
    sum->replica.member.view.epoch += s->replica.member.view.epoch;
    sum->replica.values_bytes += s->replica.values_bytes;
    sum->replica.no_quorum += s->replica.no_quorum;
    sum->replica.no_room += s->replica.no_room;
    sum->replica.wal.segments += s->replica.wal.segments;
    sum->replica.wal.segments_free += s->replica.wal.segments_free;
    sum->replica.wal.record_bytes += s->replica.wal.record_bytes;
    sum->replica.wal.batch_bytes += s->replica.wal.batch_bytes;
    sum->replica.wal.flushes += s->replica.wal.flushes;
    sum->replica.ddp.records += s->replica.ddp.records;
    sum->replica.ddp.tombstones += s->replica.ddp.tombstones;
    sum->replica.ddp.writes += s->replica.ddp.writes;
    sum->replica.ddp.learning.confirmed += s->replica.ddp.learning.confirmed;
    sum->replica.ddp.learning.pulled += s->replica.ddp.learning.pulled;
    sum->replica.ddp.learning.bytes += s->replica.ddp.learning.bytes;
    sum->replica.wal.opening_bytes += s->replica.wal.opening_bytes;
    sum->replica.wal.opening_total += s->replica.wal.opening_total;
    sum->store.keys += s->store.keys;
    sum->store.expired += s->store.expired;
    sum->store.conflicts += s->store.conflicts;
    sum->store.watches += s->store.watches;
    sum->store.overflows += s->store.overflows;
    sum->front.conns += s->front.conns;
    sum->front.refused += s->front.refused;
    sum->front.idle_closed += s->front.idle_closed;
    sum->front.pauses += s->front.pauses;
    sum->front.protocol_errors += s->front.protocol_errors;
    for (uint32_t i = 0; i < EX_FRONT_LIMITS; i++)
        sum->front.limited[i] += s->front.limited[i];
    sum->commands += s->commands;
    sum->errors += s->errors;
    sum->auth_failures += s->auth_failures;
    sum->query_limit += s->query_limit;
}

static void metrics_add_peers(struct ds_snapshot *sum, const struct ds_snapshot *s)
{
    sum->replica.member.view.configured |= s->replica.member.view.configured;
    for (uint32_t i = 0; i < DS_NODES_MAX; i++) {
        struct snic_replica_peer_stats *to = &sum->peers[i];
        const struct snic_replica_peer_stats *p = &s->peers[i];

        to->state += p->state == SNIC_REPLICA_PEER_UP;
        to->rtt_ns = snic_max_u64(to->rtt_ns, p->rtt_ns);
        to->flush_ns = snic_max_u64(to->flush_ns, p->flush_ns);
        to->queued += p->queued + p->unacknowledged;
        to->queued_bytes += p->queued_bytes;
        to->sent_bytes += p->sent_bytes;
        to->lost += p->lost;
    }
}

static void metrics_add_latencies(struct ds_snapshot *sum, const struct ds_snapshot *s)
{
    for (uint32_t k = 0; k < SNIC_STORE_CLASSES; k++)
        for (uint32_t d = 0; d < SNIC_STORE_DURABILITIES; d++) {
            for (uint32_t q = 0; q < 2; q++)
                sum->quantiles[k][d][q] =
                    snic_max_u64(sum->quantiles[k][d][q], s->quantiles[k][d][q]);
            sum->quantiles[k][d][2] += s->quantiles[k][d][2];
        }
}

/* ---- What is put ---- */

static void metrics_node(struct metrics_out *o, const struct ds_snapshot *s)
{
    metrics_put(o, s->replica.serves, 0, "serves");
    metrics_put(o, s->replica.member.vote, 0, "vote");
    metrics_put(o, s->replica.writable, 0, "writable");
    metrics_put(o, s->replica.full, 0, "full_nodes");
    metrics_put(o, s->replica.min_full, 0, "min_full");
    metrics_put(o, s->replica.member.view.epoch, 1, "epochs");
    metrics_put(o, s->store.keys, 0, "keys");
    metrics_put(o, s->replica.ddp.tombstones, 0, "tombstones");
    metrics_put(o, s->replica.ddp.records, 0, "records");
    metrics_put(o, s->replica.values_bytes, 0, "values_bytes");
    metrics_put(o, s->replica.ddp.writes, 0, "writes_under_way");
    metrics_put(o, s->replica.wal.segments, 0, "log_segments");
    metrics_put(o, s->replica.wal.segments_free, 0, "log_segments_free");
    metrics_put(o, s->replica.wal.record_bytes, 1, "log_record_bytes");
    metrics_put(o, s->replica.wal.batch_bytes, 1, "log_written_bytes");
    metrics_put(o, s->replica.wal.flushes, 1, "log_flushes");
    metrics_put(o, s->replica.no_quorum, 1, "refused_no_replicas");
    metrics_put(o, s->replica.no_room, 1, "messages_without_room");
    metrics_put(o, s->store.conflicts, 1, "write_conflicts");
    metrics_put(o, s->store.expired, 1, "expired");
    metrics_put(o, s->store.watches, 0, "watches");
    metrics_put(o, s->store.overflows, 1, "watch_overflows");
}

static void metrics_clients(struct metrics_out *o, const struct ds_snapshot *s)
{
    metrics_put(o, s->commands, 1, "commands");
    metrics_put(o, s->errors, 1, "errors");
    metrics_put(o, s->auth_failures, 1, "auth_failures");
    metrics_put(o, s->front.conns, 0, "connections");
    metrics_put(o, s->front.refused, 1, "connections_refused");
    metrics_put(o, s->front.idle_closed, 1, "connections_idle_closed");
    metrics_put(o, s->front.pauses, 1, "pauses");
    metrics_put(o, s->front.protocol_errors, 1, "protocol_errors");
    metrics_put(o, s->front.limited[EX_FRONT_CONN], 1, "output_limit_resets");
    metrics_put(o, s->front.limited[EX_FRONT_TOTAL], 1, "clients_memory_resets");
    metrics_put(o, s->query_limit, 1, "query_limit_resets");
    metrics_put(o, ex_cpu_process_ns(), 1, "cpu_ns");
}

static void metrics_latencies(struct metrics_out *o, const struct ds_snapshot *s)
{
    static const char *const classes[] = {"read", "write", "change", "sync"};
    static const char *const levels[] = {"default", "memory", "here", "all", "scope"};

    for (uint32_t k = 0; k < SNIC_STORE_CLASSES; k++)
        for (uint32_t d = 0; d < SNIC_STORE_DURABILITIES; d++) {
            const uint64_t *q = s->quantiles[k][d];

            if (q[2] == 0)
                continue;
            metrics_put(o, q[2], 1, "%s_%s_count", classes[k], levels[d]);
            metrics_put(o, q[0] / 1000, 0, "%s_%s_p50_us", classes[k], levels[d]);
            metrics_put(o, q[1] / 1000, 0, "%s_%s_p99_us", classes[k], levels[d]);
        }
}

/* Of a node that does not serve yet; what was learned stays until it learns again. */
static void metrics_progress(struct metrics_out *o, const struct ds_snapshot *s,
                             const struct metrics_progress *p)
{
    const struct snic_ddp_learning *l = &s->replica.ddp.learning;

    metrics_put(o, p->reading, 0, "reading_shards");
    metrics_put(o, s->replica.wal.opening_bytes, 0, "log_read_bytes");
    metrics_put(o, s->replica.wal.opening_total, 0, "log_to_read_bytes");
    metrics_put(o, p->learning, 0, "learning_shards");
    metrics_put(o, p->percent, 0, "learned_percent");
    metrics_put(o, l->confirmed, 0, "learned_confirmed_keys");
    metrics_put(o, l->pulled, 0, "learned_pulled_keys");
    metrics_put(o, l->bytes, 0, "learned_pulled_bytes");
}

static void metrics_peers(struct metrics_out *o, const struct ds_node *n,
                          const struct ds_snapshot *s)
{
    for (uint32_t i = 0; i < DS_NODES_MAX; i++) {
        const struct snic_replica_peer_stats *p = &s->peers[i];

        if (i == n->config->node || (s->replica.member.view.configured >> i & 1) == 0)
            continue;
        metrics_put(o, p->state, 0, "peer%u_shards_up", i);
        metrics_put(o, p->rtt_ns / 1000, 0, "peer%u_rtt_us", i);
        metrics_put(o, p->flush_ns / 1000, 0, "peer%u_flush_us", i);
        metrics_put(o, p->queued, 0, "peer%u_lag_messages", i);
        metrics_put(o, p->queued_bytes, 0, "peer%u_lag_bytes", i);
        metrics_put(o, p->sent_bytes, 1, "peer%u_sent_bytes", i);
        metrics_put(o, p->lost, 1, "peer%u_lost", i);
    }
}

size_t ds_metrics(void *ctx, struct ex_metric *out)
{
    static struct ds_snapshot sum;
    static struct ds_snapshot s;
    static const struct ds_snapshot none;
    struct ds_node *n = ctx;
    struct metrics_out o = {out, 0};
    struct metrics_progress p = {0};

    sum = none;
    for (uint32_t i = 0; i < n->count; i++) {
        ds_state_get(&n->shards[i], &s);
        metrics_add(&sum, &s, i == 0);
        metrics_add_peers(&sum, &s);
        metrics_add_latencies(&sum, &s);
        p.reading += s.replica.state == SNIC_REPLICA_READING;
        p.learning += s.replica.state == SNIC_REPLICA_RUNNING &&
                      s.replica.member.state == SNIC_MEMBER_LEARNING;
        p.percent += ds_learned_percent(&s.replica);
    }
    p.percent /= n->count;
    metrics_node(&o, &sum);
    metrics_clients(&o, &sum);
    metrics_latencies(&o, &sum);
    metrics_progress(&o, &sum, &p);
    metrics_peers(&o, n, &sum);
    return o.count;
}
