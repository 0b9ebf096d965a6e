/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_PORT = 7000 };

void cluster_fail(struct cluster *c, const char *why)
{
    if (c->failure != NULL)
        return;
    c->failure = c->why;
    (void)snprintf(c->why, sizeof(c->why), "%s (at %llu ns)", why,
                   (unsigned long long)snic_world_now(c->world));
}

struct snic_ddp_key cluster_key(uint32_t key)
{
    struct snic_ddp_key k = {{UINT64_C(0x1000) + key, key * 7}};
    return k;
}

static uint32_t cluster_key_of(const struct snic_ddp_key *k)
{
    return (uint32_t)(k->w[0] - 0x1000);
}

/* ---- Values: 8 bytes of a unique number, then bytes computed from it ---- */

static uint32_t cluster_size(const struct cluster *c, uint64_t content)
{
    return 8 + (uint32_t)(content * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (c->o.value_max - 7);
}

static void cluster_fill(unsigned char *p, uint32_t size, uint64_t content)
{
    memcpy(p, &content, 8);
    for (uint32_t i = 8; i < size; i++)
        p[i] = (unsigned char)(content + i);
}

static uint64_t cluster_content(struct cluster *c, const void *data, uint32_t size)
{
    uint64_t content = 0;
    const unsigned char *p = data;
    if (size < 8) {
        cluster_fail(c, "a value that no client wrote");
        return 0;
    }
    memcpy(&content, p, 8);
    int same = size == cluster_size(c, content);
    for (uint32_t i = 8; same && i < size; i += 1 + size / 64)
        same = p[i] == (unsigned char)(content + i);
    if (!same || p[size - 1] != (size > 8 ? (unsigned char)(content + size - 1) : p[7]))
        cluster_fail(c, "a value with wrong bytes");
    return content;
}

/* ---- All written values (R4) ---- */

static uint64_t cluster_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static struct cluster_written *cluster_written_slot(struct cluster *c, uint64_t key, uint64_t ts)
{
    uint32_t i = (uint32_t)cluster_mix(key, ts) & (c->written_room - 1);
    while (c->written[i].ts != 0 && (c->written[i].ts != ts || c->written[i].key != key))
        i = (i + 1) & (c->written_room - 1);
    return &c->written[i];
}

static void cluster_record_write(struct cluster *c, uint64_t key, uint64_t ts, uint64_t content)
{
    struct cluster_written *w = cluster_written_slot(c, key, ts);
    if (w->ts != 0) {
        if (w->content != content)
            cluster_fail(c, "two values with one timestamp");
        return;
    }
    w->ts = ts;
    w->key = key;
    w->content = content;
    if (++c->written_count * 2 <= c->written_room)
        return;
    struct cluster_written *old = c->written;
    uint32_t n = c->written_room;
    c->written_room *= 2;
    c->written = calloc(c->written_room, sizeof(*c->written));
    for (uint32_t i = 0; i < n; i++) {
        if (old[i].ts != 0)
            *cluster_written_slot(c, old[i].key, old[i].ts) = old[i];
    }
    free(old);
}

/* ---- Trace of the nodes ---- */

static void cluster_hash(struct cluster *c, uint32_t node, uint64_t a, uint64_t b, uint64_t d)
{
    c->hash = cluster_mix(cluster_mix(cluster_mix(c->hash ^ node, a), b), d);
}

static void cluster_view(struct cluster *c, struct cluster_node *n,
                         const struct snic_member_action *a)
{
    n->role = a->role;
    if (a->view.epoch > c->epoch)
        c->epoch = a->view.epoch;
    if (a->view.restart == 0 || a->view.epoch <= c->restart_epoch)
        return;
    c->restart_epoch = a->view.epoch;
    if (a->view.epoch > 1 && c->restart_count < CLUSTER_RESTARTS)
        c->restarts[c->restart_count++] = ++c->happened;
}

static void cluster_action(struct cluster *c, const struct snic_replica_trace *t)
{
    const struct snic_ddp_action *a = t->action;
    int writes = (a->type == SNIC_DDP_APPEND && (a->flags & SNIC_DDP_DROPS) == 0) ||
                 (a->type == SNIC_DDP_SEND &&
                  (a->msg.type == SNIC_DDP_INV || a->msg.type == SNIC_DDP_RECORD));
    int probe = a->type == SNIC_DDP_SEND && a->msg.type == SNIC_DDP_INV &&
                (a->msg.flags & SNIC_DDP_MSG_LOCKED) != 0; /* without its value */
    if (!writes || probe || a->msg.ts == 0)
        return;
    uint64_t content = t->data != NULL ? cluster_content(c, t->data, t->size) : 0;
    cluster_record_write(c, cluster_key_of(&a->msg.key), a->msg.ts, content);
    if (a->type == SNIC_DDP_APPEND && c->submitting != NULL) /* H2: appended within the call */
        c->submitting->ts = a->msg.ts;
}

static void cluster_trace(void *ctx, const struct snic_replica_trace *t)
{
    struct cluster_node *n = ctx;
    struct cluster *c = n->c;
    if (t->kind == SNIC_REPLICA_TRACE_EVENT) {
        cluster_hash(c, n->number, t->now_ns, t->event->type, (uint64_t)(int64_t)t->result);
    } else if (t->kind == SNIC_REPLICA_TRACE_ACTION) {
        cluster_hash(c, n->number, t->action->type, t->action->msg.ts, t->action->to);
        cluster_action(c, t);
    } else {
        cluster_hash(c, n->number, t->member->type, t->member->view.epoch, t->member->until_ns);
        if (t->member->type == SNIC_MEMBER_VIEW)
            cluster_view(c, n, t->member);
    }
    if (c->o.trace != NULL)
        c->o.trace(c->o.ctx, n->number, t);
}

/* ---- Clients ---- */

/* The SYNC has made earlier operations of its scope durable, except those of unknown outcome. */
static void cluster_synced(struct cluster *c, const struct cluster_op *s)
{
    for (uint32_t i = 0; i < c->op_count; i++) {
        struct cluster_op *o = &c->ops[i];
        int unknown = !o->open && o->result == SNIC_EUNKNOWN;
        if (o->op.scope == s->op.scope && o->op.kind != SNIC_REPLICA_SYNC && o->call < s->call &&
            !unknown)
            o->synced = s->end;
    }
}

static void cluster_done(struct snic_replica_op *op)
{
    struct cluster_op *o = SNIC_CONTAINER(op, struct cluster_op, op);
    struct cluster *c = o->c;
    if (o->lost)
        return; /* sent by a crashing process: its clients are lost */
    if (!o->open || o->run_number != c->node[o->node].run_number) {
        cluster_fail(c, "a reply to an operation that is not pending");
        return;
    }
    o->open = 0;
    o->result = op->result;
    o->end = ++c->happened;
    c->answered++;
    if (op->result == 0 && op->kind != SNIC_REPLICA_GET &&
        (op->copies < c->o.min_full || op->copies == 0 || op->copies > c->o.nodes))
        cluster_fail(c, "an answer for a number of copies that cannot be");
    int reads = op->kind == SNIC_REPLICA_GET || op->result == SNIC_ECANCELED;
    if (reads && (op->result == 0 || op->result == SNIC_ENOENT || op->result == SNIC_ECANCELED)) {
        o->content = op->data != NULL ? cluster_content(c, op->data, op->size) : 0;
        o->ts = op->ts;
    } else if (op->result == 0 && op->kind != SNIC_REPLICA_SYNC) {
        o->ts = op->ts;
    } else if (op->result == 0) {
        cluster_synced(c, o);
    }
}

static void cluster_draw_durability(struct cluster *c, struct cluster_op *o)
{
    static const uint8_t reads[] = {SNIC_DDP_DURABILITY_DEFAULT, SNIC_DDP_DURABILITY_MEMORY,
                                    SNIC_DDP_DURABILITY_ALL};
    if (o->op.kind == SNIC_REPLICA_GET)
        o->op.durability = reads[snic_rng_below(&c->mix, SNIC_COUNTOF(reads))];
    else if (o->op.kind != SNIC_REPLICA_SYNC)
        o->op.durability = (uint8_t)snic_rng_below(&c->mix, SNIC_DDP_DURABILITY_SCOPE + 1);
}

struct cluster_op *cluster_submit(struct cluster *c, uint32_t node, uint32_t kind, uint32_t key,
                                  const struct cluster_op *expect, int *result)
{
    static unsigned char buffer[SNIC_REPLICA_VALUE_MAX];
    struct cluster_node *n = &c->node[node];
    int r = SNIC_ESTALE;
    if (c->op_count == CLUSTER_OPS || !n->up || n->paused) {
        if (result != NULL)
            *result = r;
        return NULL;
    }
    struct cluster_op *o = &c->ops[c->op_count++];
    memset(o, 0, sizeof(*o));
    o->c = c;
    o->node = node;
    o->run_number = n->run_number;
    o->key = key;
    o->open = 1;
    o->end = o->synced = LIN_OPEN;
    o->op.done = cluster_done;
    o->op.kind = kind;
    o->op.key = cluster_key(key);
    if (c->o.mix && !c->unmixed)
        cluster_draw_durability(c, o);
    if (kind == SNIC_REPLICA_GET && c->o.confirms && !c->unmixed && snic_rng_below(&c->mix, 2) != 0)
        o->op.flags = SNIC_REPLICA_OP_CONFIRM;
    int scoped = o->op.durability == SNIC_DDP_DURABILITY_SCOPE ||
                 (o->op.durability == SNIC_DDP_DURABILITY_DEFAULT && c->o.model == SNIC_DDP_SCOPE);
    if (kind == SNIC_REPLICA_SYNC || (scoped && kind != SNIC_REPLICA_GET)) {
        if (n->scope == 0)
            n->scope = snic_replica_scope(n->r);
        o->op.scope = n->scope;
    }
    if (kind == SNIC_REPLICA_PUT || kind == SNIC_REPLICA_CAS) {
        o->wrote = o->content = ++c->contents;
        o->op.size = cluster_size(c, o->content);
        o->op.data = buffer;
        cluster_fill(buffer, o->op.size, o->content);
    }
    if (expect != NULL) {
        o->expect = expect->content;
        o->expect_ts = expect->content != 0 ? expect->ts : 0;
        o->op.ts = o->expect_ts;
    }
    o->call = ++c->happened;
    if (kind == SNIC_REPLICA_PUT || kind == SNIC_REPLICA_DELETE)
        c->submitting = o;
    r = snic_replica_submit(n->r, &o->op);
    c->submitting = NULL;
    if (result != NULL)
        *result = r;
    if (r == 0)
        return o;
    if (r == SNIC_ESTALE)
        n->scope = 0;
    c->op_count--;
    return NULL;
}

int cluster_do(struct cluster *c, uint32_t node, uint32_t kind, uint32_t key,
               struct cluster_op **out)
{
    int r = 0;
    c->unmixed = 1;
    struct cluster_op *o = cluster_submit(c, node, kind, key, NULL, &r);
    c->unmixed = 0;
    if (out != NULL)
        *out = o;
    for (uint32_t i = 0; o != NULL && o->open && i < 2000000; i++) {
        if (snic_world_step(c->world) == 0)
            break;
    }
    if (o != NULL && kind == SNIC_REPLICA_SYNC)
        c->node[node].scope = 0;
    return o == NULL ? r : o->open ? SNIC_ETIMEDOUT : o->result;
}

/* ---- Clocks ---- */

static uint64_t cluster_local(const struct cluster_node *n)
{
    const struct cluster_time *t = &n->time;
    uint64_t elapsed = snic_world_now(n->c->world) - t->from;
    return t->shows + elapsed / 1000000 * (uint64_t)(1000000 + t->ppm) +
           elapsed % 1000000 * (uint64_t)(1000000 + t->ppm) / 1000000;
}

static uint64_t cluster_now(void *ctx)
{
    return cluster_local(ctx);
}

void cluster_clock(struct cluster *c, uint32_t node, int32_t ppm, int64_t jump_ns)
{
    struct cluster_node *n = &c->node[node];
    n->time.shows = cluster_local(n) + (uint64_t)jump_ns;
    n->time.from = snic_world_now(c->world);
    n->time.ppm = ppm;
}

/* ---- Disks that report flushes they have not done ---- */

enum { CLUSTER_LOG_AT = 8 * 4096 }; /* the log's segments begin here, behind the membership file */

void cluster_lie(struct cluster *c, uint32_t node, enum cluster_lie lie)
{
    struct cluster_node *n = &c->node[node];
    size_t size = (size_t)c->o.segment_bytes * c->o.segments;
    if (n->flushed == NULL)
        n->flushed = malloc(size);
    n->lies = lie;
    memcpy(n->flushed, snic_disk_bytes(n->disk), size);
}

/* A power cut: of the sectors written since the last real flush all are lost, or a random half. */
static void cluster_lose_flushed(struct cluster *c, struct cluster_node *n)
{
    unsigned char *p = snic_disk_bytes(n->disk);
    size_t size = (size_t)c->o.segment_bytes * c->o.segments;
    for (size_t at = CLUSTER_LOG_AT; at < size; at += 512) {
        if (n->lies == CLUSTER_LIE_ALL || snic_rng_below(&c->rng, 2) != 0)
            memcpy(p + at, n->flushed + at, 512);
    }
    memcpy(n->flushed, p, size);
    snic_disk_sync(n->disk);
}

/* ---- Nodes ---- */

static void cluster_options(struct cluster *c, struct cluster_node *n, struct snic_replica_opts *o)
{
    uint16_t all = (uint16_t)((1u << c->o.nodes) - 1);
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    o->loop = n->loop;
    o->net = n->net;
    o->log = n->io;
    o->addrs = c->addrs;
    o->cluster = 0x51c1;
    o->node = n->number;
    o->incarnation = 1000 * (n->run_number + 1);
    o->configured = all;
    if (c->o.founders != 0)
        o->configured = (uint16_t)(c->o.founders | 1u << n->number);
    o->witness = (uint16_t)(c->o.witness ? 1u << (c->o.nodes - 1) : 0);
    o->min_full = c->o.min_full;
    o->member.slow_ns = c->o.slow_ns;
    o->nodes_max = c->o.nodes_max != 0 ? c->o.nodes_max : c->o.nodes;
    o->model = c->o.model;
    o->ddp_flags = c->o.ddp_flags;
    o->keys_max = c->o.keys_max;
    o->writes_max = c->o.writes_max;
    o->waits_max = 256;
    o->reads_max = 64;
    o->scopes_max = c->o.model == SNIC_DDP_SCOPE || c->o.mix ? 16 : 0;
    o->value_max = c->o.value_max;
    o->sends_max = 1024;
    o->window_bytes = 64 << 10;
    o->appends_max = 1024;
    o->values_bytes =
        (uint64_t)(c->o.keys_max + 64 + 32 * (c->o.nodes + 2)) * snic_pow2_up(c->o.value_max + 127);
    if (c->o.tight != 0 && n->number + 1 == c->o.nodes)
        o->values_bytes = c->o.tight * snic_pow2_up(c->o.value_max);
    o->background_ns = c->o.background_ns;
    o->clock = c->o.clocks ? cluster_now : NULL;
    o->member.drift_ppm = c->o.drift_ppm;
    o->member.restart_wait_ns = 2000 * (uint64_t)CLUSTER_MS;
    o->wal.opts_size = sizeof(o->wal);
    o->wal.flags = SNIC_WAL_CREATE;
    o->wal.segment_bytes = c->o.segment_bytes;
    o->wal.block_bytes = 512;
    o->wal.uuid[0] = c->o.seed;
    o->wal.uuid[1] = n->number;
    o->trace = cluster_trace;
    o->notify = c->o.notify;
    o->ctx = n;
    o->sec = c->o.sec;
    o->secret = c->o.secret;
    o->gcm = c->o.gcm[n->number];
    if (o->sec != NULL) {
        snic_put_le32(o->random, n->run_number);
        o->random[31] = (unsigned char)(n->number + 1);
    }
    if (c->o.values_bytes != 0)
        o->values_bytes = c->o.values_bytes;
    if (c->o.burst) {
        o->trace = NULL;
        o->writes_max = o->waits_max = o->reads_max = o->appends_max = 0;
        o->sends_max = o->window_bytes = 0;
        o->wal.block_bytes = 4096;
    }
}

void cluster_new_disk(struct cluster *c, uint32_t node)
{
    memset(snic_disk_bytes(c->node[node].disk), 0, (size_t)c->o.segment_bytes * c->o.segments);
    snic_disk_sync(c->node[node].disk);
}

int cluster_change(struct cluster *c, uint32_t at, uint32_t kind, uint32_t node)
{
    struct snic_replica_request q = {.kind = kind, .node = node};
    if (kind == SNIC_MEMBER_ADD)
        q.addr = &c->addrs[node];
    return c->node[at].up ? snic_replica_reconfigure(c->node[at].r, &q) : SNIC_ESTALE;
}

void cluster_up(struct cluster *c, uint32_t node, int found)
{
    struct cluster_node *n = &c->node[node];
    struct snic_replica_opts o;
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 32};
    net.recv_buffers = 8;
    net.pool_buffers = c->o.burst ? 1024 : 128;
    net.send_queue = c->o.send_queue;
    if (n->up)
        return;
    if (snic_world_loop(c->world, node, &n->loop) != 0 ||
        snic_net_sim_open(&n->net, c->fabric, n->loop, &net) != 0 ||
        snic_io_mem_open(&n->io, n->loop, n->disk) != 0) {
        cluster_fail(c, "cannot open the loop, net or disk of a node");
        return;
    }
    cluster_options(c, n, &o);
    if (found)
        o.flags |= SNIC_REPLICA_FOUND;
    size_t size = snic_replica_memsize(&o);
    if (n->size < size) {
        free(n->mem);
        n->mem = aligned_alloc(SNIC_REPLICA_ALIGN, snic_align_up(size, SNIC_REPLICA_ALIGN));
        n->size = size;
    }
    n->run_number++;
    n->scope = 0;
    n->role = 0;
    if (c->o.clocks) { /* each boot starts the clock at another origin */
        n->time.from = snic_world_now(c->world);
        n->time.shows = (UINT64_C(1) << 34) + snic_rng_below(&c->rng, UINT64_C(1) << 36);
    }
    if (size == 0 || snic_replica_init(&n->r, n->mem, n->size, &o) != 0) {
        cluster_fail(c, "snic_replica_init");
        snic_net_shut(n->net);
        snic_io_close(n->io);
        snic_loop_close(n->loop);
        return;
    }
    n->up = 1;
}

/* Mark the process as dead and its pending operations as lost. The loop stays open until the disk
 * has completed all requests. */
static void cluster_mark_dead(struct cluster *c, struct cluster_node *n)
{
    struct snic_replica_stats info;
    snic_replica_get_stats(n->r, &info);
    c->events += info.events;
    for (uint32_t i = 0; i < c->op_count; i++) {
        if (c->ops[i].node == n->number && c->ops[i].run_number == n->run_number &&
            c->ops[i].open) {
            c->ops[i].open = 0;
            c->ops[i].lost = 1;
            c->ops[i].result = SNIC_EUNKNOWN;
        }
    }
    n->run_number++; /* replies that it still sends are ignored */
    n->up = 0;
}

static void cluster_power_cut(struct cluster *c, struct cluster_node *n, enum cluster_death how)
{
    if (how == CLUSTER_POWER)
        snic_disk_power_cut(n->disk, snic_rng_next(&c->rng));
    if (how == CLUSTER_DARK)
        snic_disk_power_cut(n->disk, SNIC_FAULT_KEEP_NONE);
    if (how != CLUSTER_CRASH && n->flushed != NULL)
        cluster_lose_flushed(c, n);
}

void cluster_down(struct cluster *c, uint32_t node, enum cluster_death how)
{
    struct cluster_node *n = &c->node[node];
    if (!n->up)
        return;
    if (n->paused)
        cluster_pause(c, node, 0);
    cluster_mark_dead(c, n);
    snic_replica_stop(n->r);
    cluster_power_cut(c, n, how);
    snic_net_shut(n->net);
    (void)snic_replica_fini(n->r);
    snic_io_close(n->io);
    snic_loop_close(n->loop);
    n->r = NULL;
}

void cluster_down_all(struct cluster *c, enum cluster_death how)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        struct cluster_node *n = &c->node[i];
        if (!n->up)
            continue;
        if (n->paused)
            cluster_pause(c, i, 0);
        cluster_mark_dead(c, n);
        snic_replica_stop(n->r);
        cluster_power_cut(c, n, how);
        up |= 1u << i;
    }
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        struct cluster_node *n = &c->node[i];
        if ((up >> i & 1) == 0)
            continue;
        snic_net_shut(n->net);
        (void)snic_replica_fini(n->r);
        snic_io_close(n->io);
        snic_loop_close(n->loop);
        n->r = NULL;
    }
}

void cluster_pause(struct cluster *c, uint32_t node, int paused)
{
    if (!c->node[node].up || c->node[node].paused == paused)
        return;
    c->node[node].paused = paused;
    snic_world_pause(c->world, node, paused);
}

/* The timer lets time advance when no node has an event. */
static void cluster_tick(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

struct cluster *cluster_new(const struct cluster_opts *opts)
{
    struct cluster *c = calloc(1, sizeof(*c));
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = opts->seed, .nodes_max = 16};
    c->o = *opts;
    c->o.nodes = c->o.nodes != 0 ? c->o.nodes : 3;
    c->o.model = c->o.model != 0 ? c->o.model : SNIC_DDP_SYNCH;
    c->o.keys = c->o.keys != 0 ? c->o.keys : 4;
    c->o.keys_max = c->o.keys_max != 0 ? c->o.keys_max : 64;
    c->o.segment_bytes = c->o.segment_bytes != 0 ? c->o.segment_bytes : 16384;
    c->o.segments = c->o.segments != 0 ? c->o.segments : 14;
    c->o.value_max = c->o.value_max != 0 ? c->o.value_max : 400;
    c->o.background_ns = c->o.background_ns != 0 ? c->o.background_ns : 20 * CLUSTER_MS;
    c->o.flush_ns_max = c->o.flush_ns_max != 0 ? c->o.flush_ns_max : CLUSTER_MS / 2;
    c->o.writes_max = c->o.writes_max != 0 ? c->o.writes_max : 32;
    c->o.send_queue = c->o.send_queue != 0 ? c->o.send_queue : 128;
    c->ops = calloc(CLUSTER_OPS, sizeof(*c->ops));
    c->written_room = 1024;
    c->written = calloc(c->written_room, sizeof(*c->written));
    snic_rng_init(&c->rng, opts->seed ^ UINT64_C(0x5eed));
    snic_rng_init(&c->mix, c->o.seed ^ 0x6d6978);
    if (snic_world_open(&c->world, &w) != 0 ||
        snic_world_loop(c->world, CLUSTER_NODES, &c->clock) != 0 ||
        snic_net_fabric_open(&c->fabric, c->world, NULL) != 0)
        abort();
    snic_timer_init(&c->tick, cluster_tick);
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .sector = 512};
        d.size = (uint64_t)c->o.segment_bytes * c->o.segments;
        d.seed = snic_rng_next(&c->rng);
        d.delay_min_ns = 10000;
        d.delay_max_ns = c->o.flush_ns_max;
        if (snic_disk_open(&c->node[i].disk, &d) != 0)
            abort();
        c->node[i].c = c;
        c->node[i].number = i;
        c->node[i].time.from = c->node[i].time.shows = snic_world_now(c->world);
        c->addrs[i].family = SNIC_NET_SIM;
        c->addrs[i].node = i;
        c->addrs[i].port = CLUSTER_PORT;
    }
    return c;
}

void cluster_free(struct cluster *c)
{
    cluster_down_all(c, CLUSTER_CRASH);
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        snic_disk_close(c->node[i].disk);
        free(c->node[i].mem);
        free(c->node[i].flushed);
    }
    snic_loop_cancel(c->clock, &c->tick);
    snic_loop_close(c->clock);
    snic_net_fabric_close(c->fabric);
    snic_world_close(c->world);
    free(c->written);
    free(c->ops);
    free(c);
}

/* ---- Time ---- */

static void cluster_check(struct cluster *c)
{
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        if (c->node[i].up && snic_replica_check(c->node[i].r) != 0)
            cluster_fail(c, "snic_replica_check");
    }
}

void cluster_run(struct cluster *c, uint64_t ns)
{
    uint64_t until = snic_world_now(c->world) + ns;
    snic_loop_arm(c->clock, &c->tick, until);
    uint64_t steps_max = c->o.checks != 0 ? c->o.checks : UINT64_MAX;
    while (c->failure == NULL) {
        uint64_t n = snic_world_run(c->world, until, steps_max);
        c->steps += n;
        if (c->o.checks != 0)
            cluster_check(c);
        if (n < steps_max)
            return;
    }
}

int cluster_serves(const struct cluster *c, uint32_t node)
{
    struct snic_replica_stats info;
    if (!c->node[node].up || c->node[node].paused)
        return 0;
    snic_replica_get_stats(c->node[node].r, &info);
    return info.serves != 0;
}

int cluster_settle(struct cluster *c, uint64_t ns)
{
    uint64_t end = snic_world_now(c->world) + ns;
    for (;;) {
        uint32_t data = c->o.nodes - (c->o.witness ? 1 : 0);
        uint32_t serving = 0;
        for (uint32_t i = 0; i < data; i++)
            serving += cluster_serves(c, i) != 0;
        if (serving == data)
            return 1;
        if (snic_world_now(c->world) >= end || c->failure != NULL)
            return 0;
        cluster_run(c, 10 * CLUSTER_MS);
    }
}
