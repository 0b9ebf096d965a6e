/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a shard's replica is doing, in words, and the errors of its operations. */
#include "node.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define STATE_REPORT_NS 2000000000u /* between two lines of progress */

/* Is what a peer refuses, or of a peer is refused, for the cluster's key? */
static int state_key(const struct snic_replica_peer_stats *p)
{
    return p->state != SNIC_REPLICA_PEER_UP && p->refusal != NULL &&
           strncmp(p->refusal, "key:", 4) == 0;
}

/* No other node that there is accepts this node's key, nor it theirs: its own is the wrong one. */
static int state_wrong_key(const struct snic_replica_stats *i,
                           const struct snic_replica_peer_stats *peers, uint64_t node)
{
    uint32_t wrong = 0;

    for (uint32_t n = 0; n < DS_NODES_MAX; n++) {
        int other = n != node && (i->member.view.configured >> n & 1) != 0;

        if (peers[n].state == SNIC_REPLICA_PEER_UP || (other && !state_key(&peers[n])))
            return 0;
        wrong += (uint32_t)state_key(&peers[n]);
    }
    return wrong > 0;
}

const char *ds_state_name(const struct snic_replica_stats *i,
                          const struct snic_replica_peer_stats *peers, uint64_t node)
{
    static const char *const states[] = {
        [SNIC_MEMBER_BOOTING] = "is booting",
        [SNIC_MEMBER_LOST] = "lost its membership file",
        [SNIC_MEMBER_NO_MAJORITY] = "hears no majority of the nodes",
        [SNIC_MEMBER_RESTARTING] = "waits for the nodes of the last membership",
        [SNIC_MEMBER_REPLACED] = "was removed or replaced: it needs a new, empty directory",
        [SNIC_MEMBER_OUTSIDE] = "is not a member",
        [SNIC_MEMBER_LEARNING] = "is learning the keys",
        [SNIC_MEMBER_NO_LEASE] = "has no lease",
        [SNIC_MEMBER_SERVING] = "serves"};

    if (i->state == SNIC_REPLICA_READING)
        return "is reading its log";
    if (i->state == SNIC_REPLICA_STOPPED)
        return "has stopped";
    if (i->member.state == SNIC_MEMBER_SERVING && !i->serves)
        return states[SNIC_MEMBER_NO_LEASE]; /* it has just ended */
    if (i->member.state < SNIC_MEMBER_NO_LEASE && state_wrong_key(i, peers, node))
        return "has another cluster key than the other nodes (--cluster-key)";
    if (i->member.state == SNIC_MEMBER_OUTSIDE && (i->member.view.witness >> node & 1) != 0)
        return "is a witness: it votes and has no data";
    return i->member.state < SNIC_COUNTOF(states) && states[i->member.state] != NULL
               ? states[i->member.state]
               : "is in an unknown state";
}

/* ---- What it waits for ---- */

/* "0,2" */
static const char *state_nodes(uint32_t mask, char out[64])
{
    size_t n = 0;

    (void)snprintf(out, 64, "none");
    for (uint32_t i = 0; i < DS_NODES_MAX; i++)
        if ((mask >> i & 1) != 0)
            n += (size_t)snprintf(out + n, 64 - n, "%s%u", n > 0 ? "," : "", i);
    return out;
}

/* Members that this node does not hear, or that do not hear it. */
static uint32_t state_unheard(const struct snic_member_status *m)
{
    return (uint32_t)((m->view.full | m->view.learners) & ~m->hears);
}

static void state_learner(const struct ds_snapshot *n, char *out, size_t max)
{
    const struct snic_replica_stats *i = &n->replica;
    const struct snic_member_status *m = &i->member;
    uint32_t donor = m->view.donor;
    char nodes[64];

    if (donor < DS_NODES_MAX && n->peers[donor].state != SNIC_REPLICA_PEER_UP)
        (void)snprintf(out, max, "for a connection with node %u, to learn the keys from it", donor);
    else if (i->ddp.learned && state_unheard(m) != 0)
        (void)snprintf(out, max, "with all keys, to hear the members %s in both directions",
                       state_nodes(state_unheard(m), nodes));
    else if (i->ddp.learned)
        (void)snprintf(out, max, "with all keys, for an epoch in which it counts as a copy");
    else if (i->wal.full)
        (void)snprintf(out, max,
                       "for room in its log, which is full (--log-size): delete keys, or replace "
                       "it by a node with an empty --dir and a larger log");
    else
        (void)snprintf(out, max, "for node %u to send the keys that differ", donor);
}

void ds_state_waits(const struct ds_snapshot *n, uint64_t node, char *out, size_t max)
{
    const struct snic_member_status *m = &n->replica.member;
    char nodes[64];
    char hears[64];

    out[0] = 0;
    if (n->replica.state != SNIC_REPLICA_RUNNING)
        return;
    (void)state_nodes(m->hears, hears);
    if (m->state == SNIC_MEMBER_NO_MAJORITY && m->view.configured == 0)
        (void)snprintf(out, max, "to hear the nodes of --peers: it hears %s", hears);
    else if (m->state == SNIC_MEMBER_NO_MAJORITY)
        (void)snprintf(out, max, "to hear a majority of the nodes %s: it hears %s",
                       state_nodes(m->view.configured, nodes), hears);
    else if (m->state == SNIC_MEMBER_RESTARTING && m->missing != 0)
        (void)snprintf(out, max,
                       "for the nodes %s of the last membership: start them, or if their disks are "
                       "lost for ever use `ddp_server ctl override`",
                       state_nodes(m->missing, nodes));
    else if (m->state == SNIC_MEMBER_LEARNING)
        state_learner(n, out, max);
    else if (m->state == SNIC_MEMBER_OUTSIDE && (m->view.witness >> node & 1) == 0 &&
             state_unheard(m) != 0)
        (void)snprintf(out, max, "to hear the members %s in both directions",
                       state_nodes(state_unheard(m), nodes));
    else if (m->state == SNIC_MEMBER_NO_LEASE)
        (void)snprintf(out, max, "for a lease of a majority of the nodes %s: it hears %s",
                       state_nodes(m->view.configured, nodes), hears);
}

/* ---- Errors ---- */

/* The error of a node that does not serve. */
static void state_put_not_serving(struct ds_shard *s, struct resp_reply *reply)
{
    struct snic_replica_stats i;
    int loading;

    snic_replica_get_stats(snic_store_replica(s->store), &i);
    loading = i.state == SNIC_REPLICA_READING ||
              (i.state == SNIC_REPLICA_RUNNING && i.member.state == SNIC_MEMBER_LEARNING);
    if (i.serves)
        ds_error(reply,
                 "CLUSTERDOWN the node did not serve: shard %u had no lease when the command "
                 "came (epoch %u): repeat it, or use another node",
                 s->index, i.member.view.epoch);
    else
        ds_error(reply, "%s the node does not serve: shard %u %s (epoch %u): use another node",
                 loading ? "LOADING" : "CLUSTERDOWN", s->index,
                 ds_state_name(&i, s->snapshot.peers, s->node->config->node), i.member.view.epoch);
}

static void state_put_no_quorum(struct ds_shard *s, struct resp_reply *reply, uint32_t copies)
{
    struct snic_replica_stats i;

    snic_replica_get_stats(snic_store_replica(s->store), &i);
    ds_error(reply,
             "NOREPLICAS Not enough good replicas to write: %u node%s all keys, %u needed (%s)",
             i.full, i.full == 1 ? " has" : "s have", copies > i.min_full ? copies : i.min_full,
             copies > i.min_full ? "COPIES" : "--min-full");
}

/* The view has it of one that was added or moved, --clients of others. */
const char *ds_state_client(const struct ds_config *c, const struct snic_member_view *v,
                            uint32_t node, char text[64])
{
    struct snic_net_addr a;

    if (v->configured != 0 && (v->configured >> node & 1) == 0)
        return NULL;
    if (snic_replica_client_addr(v, node, &a) == 0 && snic_net_addr_format(&a, text, 64) >= 0)
        return text;
    return node < c->clients_count ? c->clients[node] : NULL;
}

void ds_put_failure(struct ds_request *r, int error)
{
    struct resp_reply *out = &r->reply;

    switch (error) {
    case SNIC_ESTALE:
        state_put_not_serving(r->shard, out);
        break;
    case SNIC_ENOQUORUM:
        state_put_no_quorum(r->shard, out, r->op.copies_min);
        break;
    case SNIC_EUNKNOWN:
        if ((r->op.out & SNIC_STORE_NOT_TRIED) != 0)
            ds_error(out, "UNKNOWN outcome unknown: the key's list of sessions does not go back so "
                          "far; this attempt wrote nothing");
        else
            ds_error(out, "UNKNOWN outcome unknown: the membership changed before the write was "
                          "acknowledged; it may take effect, now or later, or not");
        break;
    case SNIC_EAGAIN:
        ds_error(out, "TRYAGAIN the node has no room for the command at the moment, or other "
                      "writes came first too often; nothing was written");
        break;
    case SNIC_ENOSPC: /* lib/storeclient knows it by its first words: another OOM is passing */
        ds_error(out, "OOM no space left: the log (--log-size) is full, or --keys keys exist: "
                      "delete keys");
        break;
    case SNIC_EMSGSIZE:
        ds_error(out, "ERR value is longer than %llu bytes (--value-max)",
                 (unsigned long long)r->shard->node->config->value_max);
        break;
    case SNIC_EEXIST:
        ds_error(out, "ERR another key has the same 128-bit hash: '%.*s'",
                 (int)snic_min_u64(r->op.size, 128),
                 r->op.data != NULL ? (const char *)r->op.data : "");
        break;
    default:
        ds_error(out, "ERR %s", snic_strerror(error));
        break;
    }
}

/* ---- Refusals ---- */

void ds_state_refusals(struct ds_shard *s)
{
    const struct ds_snapshot *n = &s->snapshot;

    for (uint32_t i = 0; i < DS_NODES_MAX; i++) {
        const char *refusal = n->peers[i].refusal;

        if (refusal == s->refusals[i])
            continue;
        s->refusals[i] = refusal;
        if (refusal == NULL)
            continue;
        ex_log(EX_WARNING, "shard %u: no connection with node %u: %s", s->index, i, refusal);
        if (state_wrong_key(&n->replica, n->peers, s->node->config->node))
            ex_log(EX_ERROR,
                   "shard %u: no other node has this node's cluster key: what they send cannot be "
                   "opened, and they refuse this node: check its --cluster-key, or FILE.key beside "
                   "--config",
                   s->index);
    }
}

/* ---- Progress ---- */

uint32_t ds_learned_percent(const struct snic_replica_stats *i)
{
    if (i->state == SNIC_REPLICA_READING)
        return 0;
    if (i->state != SNIC_REPLICA_RUNNING || i->member.state != SNIC_MEMBER_LEARNING)
        return 100;
    return (uint32_t)(i->ddp.learning.done * 100 >> 32);
}

/* A line of a shard that reads its log, or learns. */
static void state_report(const struct ds_shard *s, const struct snic_replica_stats *i)
{
    const struct snic_ddp_learning *l = &i->ddp.learning;

    if (i->state == SNIC_REPLICA_READING && i->wal.opening_total == 0)
        ex_log(EX_INFO, "shard %u: opens its log: the disk has not answered yet", s->index);
    else if (i->state == SNIC_REPLICA_READING)
        ex_log(EX_INFO, "shard %u: opens its log: %" PRIu64 " of at most %" PRIu64 " MiB", s->index,
               i->wal.opening_bytes >> 20, i->wal.opening_total >> 20);
    else
        ex_log(EX_INFO,
               "shard %u: learns: %u%% of the keys are compared, %" PRIu64
               " of its own confirmed, %" PRIu64 " pulled (%" PRIu64 " bytes)",
               s->index, ds_learned_percent(i), l->confirmed, l->pulled, l->bytes);
}

/* The log is open: what the options named, and it has otherwise. */
static void state_opened(const struct ds_shard *s, const struct snic_replica_stats *i)
{
    uint64_t unused = s->log->geometry.size - (uint64_t)i->wal.segments * i->wal.segment_bytes;

    ex_log(EX_INFO, "shard %u: has opened its log: %u records", s->index, i->ddp.records);
    if (i->found_ignored)
        ex_log(
            EX_WARNING,
            "shard %u: --found is ignored: by its log this node has run before, and it continues "
            "with that. The option is for the first start only",
            s->index);
    /* Beside the segments a log has less than one of them. */
    if (unused >= 2 * (uint64_t)i->wal.segment_bytes)
        ex_log(EX_WARNING,
               "shard %u: %" PRIu64 " MiB of the log's file are not used: the file has grown since "
               "the log was made, which keeps its size",
               s->index, unused >> 20);
}

void ds_state_progress(struct ds_shard *s, uint64_t now_ns)
{
    const struct snic_replica_stats *i = &s->snapshot.replica;
    uint32_t phase = i->state == SNIC_REPLICA_READING ? DS_PHASE_READS
                     : i->state == SNIC_REPLICA_RUNNING && i->member.state == SNIC_MEMBER_LEARNING
                         ? DS_PHASE_LEARNS
                         : DS_PHASE_NONE;

    uint64_t learned = i->ddp.learning.confirmed + i->ddp.learning.pulled;

    /* What lasts for less than the time between two publications is seen by what it has done. */
    if (s->phase != phase || (phase == DS_PHASE_NONE && s->learned != learned)) {
        if (s->phase == DS_PHASE_READS && i->state == SNIC_REPLICA_RUNNING)
            state_opened(s, i);
        if (phase == DS_PHASE_NONE && (s->phase == DS_PHASE_LEARNS || s->learned != learned) &&
            (i->member.view.full >> s->node->config->node & 1) != 0) {
            s->learned = learned;
            ex_log(EX_INFO,
                   "shard %u: has learned: %" PRIu64 " keys of its own confirmed, %" PRIu64
                   " pulled (%" PRIu64 " bytes)",
                   s->index, i->ddp.learning.confirmed, i->ddp.learning.pulled,
                   i->ddp.learning.bytes);
        }
        s->phase = phase;
        s->reported_ns = now_ns;
    } else if (phase != DS_PHASE_NONE && now_ns - s->reported_ns >= STATE_REPORT_NS) {
        s->reported_ns = now_ns;
        state_report(s, i);
    }
}

/* ---- Snapshots ---- */

static void state_quantiles(struct ds_shard *s, struct ds_snapshot *n)
{
    for (uint32_t k = 0; k < SNIC_STORE_CLASSES; k++)
        for (uint32_t d = 0; d < SNIC_STORE_DURABILITIES; d++) {
            const struct snic_hist *h = snic_store_latency(s->store, k, d);

            if (h == NULL)
                continue;
            n->quantiles[k][d][0] = snic_hist_quantile(h, 500000);
            n->quantiles[k][d][1] = snic_hist_quantile(h, 990000);
            n->quantiles[k][d][2] = h->count;
        }
}

void ds_state_publish(struct ds_shard *s)
{
    struct ds_snapshot *n = &s->snapshot;

    (void)pthread_mutex_lock(&s->lock);
    snic_replica_get_stats(snic_store_replica(s->store), &n->replica);
    for (uint32_t i = 0; i < DS_NODES_MAX; i++)
        if (snic_replica_get_peer(snic_store_replica(s->store), i, &n->peers[i]) != 0)
            n->peers[i].state = SNIC_REPLICA_PEER_DOWN;
    snic_store_get_stats(s->store, &n->store);
    if (s->front != NULL)
        ex_front_get_stats(s->front, &n->front);
    state_quantiles(s, n);
    n->commands = s->commands;
    n->errors = s->errors + s->reply.errors;
    n->auth_failures = s->auth_failures;
    n->query_limit = s->framing.query_limit;
    n->turn_most = s->turn_most;
    (void)pthread_mutex_unlock(&s->lock);
}

void ds_state_get(struct ds_shard *s, struct ds_snapshot *out)
{
    (void)pthread_mutex_lock(&s->lock);
    *out = s->snapshot;
    (void)pthread_mutex_unlock(&s->lock);
}

void ds_settings_changed(struct ds_shard *s)
{
    if (!atomic_exchange(&s->settings_queued, 1))
        snic_loop_post(s->loop, &s->settings);
}

void ds_node_drain(struct ds_node *n)
{
    if (atomic_exchange(&n->draining, 1))
        return;
    ex_log(EX_INFO, "draining");
    for (uint32_t i = 0; i < n->count; i++)
        snic_loop_post(n->shards[i].loop, &n->shards[i].drain);
}
