/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "store_cluster.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { STORE_PORT = 7100 };

void store_cluster_fail(struct store_cluster *c, const char *why)
{
    if (c->failure == NULL)
        c->failure = why;
}

/* ---- Nodes ---- */

static uint64_t store_cluster_clock(void *ctx)
{
    const struct store_cluster *c = ctx;
    return snic_world_now(c->world) + c->o.clock_ns;
}

static void store_replica_options(struct store_cluster *c, struct store_cluster_node *n, int found,
                                  struct snic_replica_opts *o)
{
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    o->flags = found ? SNIC_REPLICA_FOUND : 0;
    o->loop = n->loop;
    o->net = n->net;
    o->log = n->io;
    o->addrs = c->addrs;
    o->cluster = 0x510e;
    o->node = n->number;
    o->incarnation = 1000 * (n->run + 1);
    o->configured = (uint16_t)((1u << c->o.nodes) - 1);
    o->model = c->o.model;
    o->keys_max = c->o.keys_max;
    o->writes_max = c->o.writes_max != 0 ? c->o.writes_max : 32;
    o->waits_max = 256;
    o->reads_max = 64;
    o->scopes_max = c->o.model == SNIC_DDP_SCOPE ? 16 : 0;
    o->sends_max = 1024;
    o->appends_max = 1024;
    o->values_bytes = (uint64_t)(c->o.keys_max + 512) * 16384;
    if (c->o.value_max > 65536)
        o->values_bytes = 8 * snic_pow2_up(c->o.value_max + SNIC_STORE_OVERHEAD);
    o->background_ns = 20 * (uint64_t)STORE_MS;
    o->member.restart_wait_ns = 2000 * (uint64_t)STORE_MS;
    o->wal.opts_size = sizeof(o->wal);
    o->wal.flags = SNIC_WAL_CREATE;
    o->wal.segment_bytes = 262144;
    if (c->o.value_max > 65536)
        o->wal.segment_bytes = 4 * (uint32_t)snic_pow2_up(c->o.value_max);
    o->wal.block_bytes = 512;
    o->wal.uuid[0] = c->o.seed;
    o->wal.uuid[1] = n->number;
    o->clock = c->o.clock_ns != 0 ? store_cluster_clock : NULL;
    o->ctx = c;
}

static void store_options_of(struct store_cluster *c, const struct snic_replica_opts *r,
                             struct snic_store_opts *o)
{
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    o->replica = r;
    o->value_max = c->o.value_max;
    o->sessions_max = c->o.sessions_max;
    o->session_window_ns = c->o.session_window_ns;
    o->ops_max = c->o.ops_max;
    memcpy(o->hash_key, c->o.hash_key, sizeof(o->hash_key));
    o->tries_max = c->o.tries_max;
    o->changes_max = c->o.changes_max;
    o->changes_bytes = c->o.changes_bytes;
}

static void store_doors(struct store_cluster *c, struct store_cluster_node *n)
{
    struct snic_net_uring_opts net = {.opts_size = sizeof(net), .conns_max = 16};
    net.recv_buffers = 16;
    net.pool_buffers = 32;
    net.send_queue = 256;
    if (snic_world_loop(c->world, n->number, &n->loop) != 0 ||
        snic_net_sim_open(&n->net, c->fabric, n->loop, &net) != 0 ||
        snic_io_mem_open(&n->io, n->loop, n->disk) != 0)
        abort();
}

void store_cluster_options(struct store_cluster *c, uint32_t node, struct snic_replica_opts *r,
                           struct snic_store_opts *o)
{
    if (c->node[node].loop == NULL)
        store_doors(c, &c->node[node]);
    store_replica_options(c, &c->node[node], 1, r);
    store_options_of(c, r, o);
}

static void store_close(struct store_cluster_node *n)
{
    if (n->loop == NULL)
        return;
    snic_net_shut(n->net);
    if (n->s != NULL)
        (void)snic_store_fini(n->s);
    snic_io_close(n->io);
    snic_loop_close(n->loop);
    n->loop = NULL;
    n->s = NULL;
}

void store_cluster_up(struct store_cluster *c, uint32_t node, int found)
{
    struct store_cluster_node *n = &c->node[node];
    struct snic_replica_opts r;
    struct snic_store_opts o;
    if (n->up)
        return;
    if (n->loop == NULL)
        store_doors(c, n);
    store_replica_options(c, n, found, &r);
    store_options_of(c, &r, &o);
    size_t size = snic_store_memsize(&o);
    if (n->size < size) {
        if (n->mem != NULL)
            support_guard_free(n->mem);
        n->mem = support_guard_alloc(size, SNIC_STORE_ALIGN);
        n->size = size;
    }
    n->run++;
    if (size == 0 || snic_store_init(&n->s, n->mem, n->size, &o) != 0) {
        store_cluster_fail(c, size == 0 ? snic_store_opts_wrong(&o) : "snic_store_init");
        n->s = NULL;
        store_close(n);
        return;
    }
    n->up = 1;
}

static void store_stop(struct store_cluster_node *n, enum store_death how)
{
    if (n->paused)
        store_cluster_pause(n->c, n->number, 0);
    n->run++; /* its operations are lost */
    n->up = 0;
    snic_store_stop(n->s);
    if (how == STORE_POWER)
        snic_disk_power_cut(n->disk, snic_rng_next(&n->c->rng));
    if (how == STORE_DARK)
        snic_disk_power_cut(n->disk, SNIC_FAULT_KEEP_NONE);
}

void store_cluster_down(struct store_cluster *c, uint32_t node, enum store_death how)
{
    if (!c->node[node].up)
        return;
    store_stop(&c->node[node], how);
    store_close(&c->node[node]);
}

void store_cluster_down_all(struct store_cluster *c, enum store_death how)
{
    int up[STORE_NODES] = {0};
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        up[i] = c->node[i].up;
        if (up[i])
            store_stop(&c->node[i], how);
    }
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        if (up[i])
            store_close(&c->node[i]);
    }
}

void store_cluster_pause(struct store_cluster *c, uint32_t node, int paused)
{
    if (!c->node[node].up || c->node[node].paused == paused)
        return;
    c->node[node].paused = paused;
    snic_world_pause(c->world, node, paused);
}

static void store_tick(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

static void store_defaults(struct store_cluster_opts *o)
{
    o->nodes = o->nodes != 0 ? o->nodes : 3;
    o->model = o->model != 0 ? o->model : SNIC_DDP_SYNCH;
    o->keys_max = o->keys_max != 0 ? o->keys_max : 256;
    o->value_max = o->value_max != 0 ? o->value_max : STORE_VALUE;
    o->flush_ns_max = o->flush_ns_max != 0 ? o->flush_ns_max : STORE_MS / 2;
}

struct store_cluster *store_cluster_new(const struct store_cluster_opts *opts)
{
    struct store_cluster *c = calloc(1, sizeof(*c));
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = opts->seed, .nodes_max = 16};
    c->o = *opts;
    store_defaults(&c->o);
    snic_rng_init(&c->rng, opts->seed ^ UINT64_C(0x5eed));
    if (snic_world_open(&c->world, &w) != 0 ||
        snic_world_loop(c->world, STORE_NODES, &c->clock) != 0 ||
        snic_net_fabric_open(&c->fabric, c->world, NULL) != 0)
        abort();
    snic_timer_init(&c->tick, store_tick);
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .sector = 512, .size = 8 << 20};
        if (c->o.value_max > 65536)
            d.size = 40 * snic_pow2_up(c->o.value_max);
        d.seed = snic_rng_next(&c->rng);
        d.delay_min_ns = 10000;
        d.delay_max_ns = c->o.flush_ns_max;
        if (snic_disk_open(&c->node[i].disk, &d) != 0)
            abort();
        c->node[i].c = c;
        c->node[i].number = i;
        c->addrs[i].family = SNIC_NET_SIM;
        c->addrs[i].node = i;
        c->addrs[i].port = STORE_PORT;
    }
    return c;
}

void store_cluster_free(struct store_cluster *c)
{
    store_cluster_down_all(c, STORE_CRASH);
    for (uint32_t i = 0; i < c->o.nodes; i++) {
        store_close(&c->node[i]);
        snic_disk_close(c->node[i].disk);
        if (c->node[i].mem != NULL)
            support_guard_free(c->node[i].mem);
    }
    snic_loop_cancel(c->clock, &c->tick);
    snic_loop_close(c->clock);
    snic_net_fabric_close(c->fabric);
    snic_world_close(c->world);
    free(c);
}

/* ---- Time ---- */

void store_cluster_run(struct store_cluster *c, uint64_t ns)
{
    uint64_t until = snic_world_now(c->world) + ns;
    snic_loop_arm(c->clock, &c->tick, until);
    uint64_t most = c->o.checks != 0 ? c->o.checks : UINT64_MAX;
    while (c->failure == NULL) {
        uint64_t n = snic_world_run(c->world, until, most);
        for (uint32_t i = 0; c->o.checks != 0 && i < c->o.nodes; i++) {
            if (c->node[i].up && snic_store_check(c->node[i].s) != 0)
                store_cluster_fail(c, "snic_store_check");
        }
        if (n < most)
            return;
    }
}

int store_cluster_serves(const struct store_cluster *c, uint32_t node)
{
    struct snic_replica_stats info;
    if (!c->node[node].up || c->node[node].paused)
        return 0;
    snic_replica_get_stats(snic_store_replica(c->node[node].s), &info);
    return info.serves != 0;
}

int store_cluster_settle(struct store_cluster *c)
{
    for (uint32_t i = 0; i < 6000 && c->failure == NULL; i++) {
        uint32_t serving = 0;
        for (uint32_t n = 0; n < c->o.nodes; n++)
            serving += store_cluster_serves(c, n) != 0;
        if (serving == c->o.nodes)
            return 1;
        store_cluster_run(c, 10 * STORE_MS);
    }
    return 0;
}

/* ---- Operations ---- */

static void store_acted(struct snic_store_op *op)
{
    struct store_act *a = SNIC_CONTAINER(op, struct store_act, op);
    if (a->lost)
        return;
    if (!a->pending || a->run != a->c->node[a->node].run) {
        a->lost = 1; /* its node ended before */
        a->pending = 0;
        return;
    }
    a->pending = 0;
    a->present = op->data != NULL;
    a->size = op->size;
    if (op->data != NULL && op->size <= sizeof(a->data))
        memcpy(a->data, op->data, op->size);
}

int store_begin(struct store_cluster *c, uint32_t node, struct store_act *a)
{
    struct store_cluster_node *n = &c->node[node];
    if (!n->up || n->paused)
        return SNIC_ESTALE;
    a->c = c;
    a->node = node;
    a->run = n->run;
    a->pending = 1;
    a->lost = 0;
    a->op.done = store_acted;
    if (a->op.key != a->key && a->op.key != NULL && a->op.key_size <= sizeof(a->key)) {
        if (a->op.key_size != 0)
            memcpy(a->key, a->op.key, a->op.key_size);
        a->op.key = a->key;
    }
    int result = snic_store_submit(n->s, &a->op);
    if (result != 0)
        a->pending = 0;
    return result;
}

int store_act(struct store_cluster *c, uint32_t node, struct store_act *a)
{
    int result = store_begin(c, node, a);
    for (uint32_t i = 0; result == SNIC_EAGAIN && i < 1000; i++) {
        store_cluster_run(c, STORE_MS);
        result = store_begin(c, node, a);
    }
    if (result != 0)
        return result;
    for (uint32_t i = 0; a->pending && i < 100000; i++)
        store_cluster_run(c, STORE_MS / 10);
    if (a->pending)
        store_cluster_fail(c, "an operation without an answer");
    return a->op.result;
}

static int store_simple(struct store_cluster *c, uint32_t node, uint32_t kind, const void *key,
                        uint32_t key_size, const void *data, uint32_t size)
{
    struct store_act *a = &c->got;
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = kind;
    a->op.key = key;
    a->op.key_size = key_size;
    a->op.data = data;
    a->op.size = size;
    return store_act(c, node, a);
}

int store_get(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size)
{
    return store_simple(c, node, SNIC_STORE_GET, key, key_size, NULL, 0);
}

int store_put(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size,
              const void *data, uint32_t size)
{
    return store_simple(c, node, SNIC_STORE_PUT, key, key_size, data, size);
}

int store_delete(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size)
{
    return store_simple(c, node, SNIC_STORE_DELETE, key, key_size, NULL, 0);
}
