/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs one scenario: set-up, the event loop, results. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

static void *run_zeroed(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (p == NULL)
        minos_die("out of memory");
    return p;
}

/* Memory for a node's engine, which the next run reuses. */
static void *run_memory(uint32_t node, size_t size)
{
    static struct {
        void *at;
        size_t size;
    } kept[SNIC_DDP_NODES_MAX];
    size = (size + 4095) / 4096 * 4096;
    if (kept[node].size < size) {
        free(kept[node].at);
        kept[node].at = aligned_alloc(4096, size);
        kept[node].size = size;
        if (kept[node].at == NULL)
            minos_die("out of memory");
    }
    return kept[node].at;
}

static void run_spec(struct world *w, const struct minos_spec *s)
{
    w->s = *s;
    if (w->s.nodes < 2 || w->s.nodes > SNIC_DDP_NODES_MAX || w->s.design >= MINOS_DESIGNS)
        minos_die("scenario refused: too few or too many nodes, or an unknown design");
    if (w->s.keys == 0)
        w->s.keys = (uint32_t)w->p->v[MINOS_KEYS];
    if (w->s.fifo == 0)
        w->s.fifo = (uint32_t)w->p->v[MINOS_FIFO];
    if (w->s.persist_ns == 0)
        w->s.persist_ns = w->p->v[MINOS_PERSIST];
    if (w->s.net_ns == 0)
        w->s.net_ns = w->p->v[MINOS_NET];
    w->cores = (uint32_t)w->p->v[MINOS_CORES];
    if (w->cores > WORLD_CORES_MAX || w->p->v[MINOS_SNIC_CORES] > WORLD_CORES_MAX)
        minos_die("too many host or SmartNIC cores: raise WORLD_CORES_MAX");
    w->clients = w->s.nodes * w->cores * (uint32_t)w->p->v[MINOS_CLIENTS];
}

static void run_begin(struct world *w)
{
    int host = w->s.design < MINOS_COMBINED;
    minos_load_init(&w->load, w->s.keys, w->s.uniform, (uint32_t)w->p->v[MINOS_THETA]);
    w->parcels_free = WORLD_NIL;
    w->nodes = run_zeroed(w->s.nodes, sizeof(*w->nodes));
    w->client = run_zeroed(w->clients, sizeof(*w->client));
    w->owners = run_zeroed(WORLD_OWNERS, sizeof(*w->owners));
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        struct world_node *n = &w->nodes[i];
        n->cores = run_zeroed(w->cores, sizeof(*n->cores));
        n->appending = n->flushing = WORLD_NIL;
        for (uint32_t c = 0; c < w->cores; c++)
            n->cores[c].append = WORLD_NIL;
        size_t size = host ? host_memsize(w) : nic_memsize(w);
        void *mem = run_memory(i, size);
        if (host)
            host_init(w, i, mem, size);
        else
            nic_init(w, i, mem, size);
    }
    for (uint32_t i = 0; i < w->clients; i++) {
        struct world_client *c = &w->client[i];
        snic_rng_init(&c->rng, w->s.seed * 1000003 + i);
        c->what = WORLD_WRITE;
        c->scope = (uint64_t)(i + 1) << 32;
    }
}

static void run_raise(double *use, const struct world *w, uint64_t busy)
{
    double u = (double)busy / (double)w->now;
    if (*use < u)
        *use = u;
}

/* The utilisation of the busiest server of each kind; a node's SmartNIC cores count as one. */
static void run_utilisation(struct world *w)
{
    double *use = w->out->use;
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        const struct world_node *n = &w->nodes[i];
        uint64_t pool = 0;
        for (uint32_t c = 0; c < w->cores; c++)
            run_raise(&use[MINOS_USE_CORE], w, n->cores[c].busy);
        for (uint32_t c = 0; c < w->p->v[MINOS_SNIC_CORES]; c++)
            pool += n->snic[c].busy;
        const uint64_t busy[MINOS_USES] = {
            [MINOS_USE_SNIC] = pool / w->p->v[MINOS_SNIC_CORES],
            [MINOS_USE_ENGINE] = n->engine.busy,
            [MINOS_USE_PCIE_DOWN] = n->pcie_down.busy,
            [MINOS_USE_PCIE_UP] = n->pcie_up.busy,
            [MINOS_USE_EGRESS] = n->egress.busy,
            [MINOS_USE_INGRESS] = n->ingress.busy,
            [MINOS_USE_DMA] = snic_max_u64(n->fifo[0].dma.busy, n->fifo[1].dma.busy)};
        for (uint32_t u = MINOS_USE_SNIC; u < MINOS_USES; u++)
            run_raise(&use[u], w, busy[u]);
    }
}

/* Count entries whose timestamp differs from node 0's or that are locked, keys that only some nodes
 * have, and engines that fail their check. */
static uint64_t run_differences(const struct world *w)
{
    uint64_t *ts = run_zeroed(w->s.keys, sizeof(*ts));
    uint32_t *seen = run_zeroed(w->s.keys, sizeof(*seen));
    uint64_t differ = 0;
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        struct snic_ddpnic_entry e;
        uint64_t cursor = 0;
        const struct world_node *n = &w->nodes[i];
        while ((n->ddp != NULL ? snic_ddp_next(n->ddp, &cursor, &e.host)
                               : snic_ddpnic_next(n->pair, &cursor, &e)) == 0) {
            uint64_t k = e.host.key.w[1];
            uint64_t locked = n->ddp != NULL ? e.host.flags & SNIC_DDP_MSG_LOCKED : e.host.locked;
            if (e.host.ts == 0)
                continue;
            if (i == 0)
                ts[k] = e.host.ts;
            differ += ts[k] != e.host.ts || locked != 0;
            seen[k]++;
        }
        differ += (n->ddp != NULL ? snic_ddp_check(n->ddp) : snic_ddpnic_check(n->pair)) != 0;
    }
    for (uint32_t k = 0; k < w->s.keys; k++)
        differ += seen[k] != 0 && seen[k] != w->s.nodes;
    free(ts);
    free(seen);
    return differ;
}

static void run_results(struct world *w)
{
    struct minos_result *r = w->out;
    double us = (double)(w->until - w->from) / 1e6;
    const double ns_per_ps = 1e-3;
    r->reads = w->count[WORLD_READ];
    r->writes = w->count[WORLD_WRITE];
    r->read_ns = r->reads == 0 ? 0 : (double)w->sum[WORLD_READ] / (double)r->reads * ns_per_ps;
    r->write_ns = r->writes == 0 ? 0 : (double)w->sum[WORLD_WRITE] / (double)r->writes * ns_per_ps;
    r->login_ns = w->count[2] == 0 ? 0 : (double)w->sum[2] / (double)w->count[2] * ns_per_ps;
    r->reads_per_us = (double)r->reads / us;
    r->writes_per_us = (double)r->writes / us;
    r->clients = w->s.alone ? 1 : w->clients;
    r->events = w->order;
    if (w->handlers != 0 && r->writes != 0)
        r->comm = ((double)w->comm / (double)r->writes - (double)w->handler / (double)w->handlers) *
                  ns_per_ps / r->write_ns;
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        if (w->nodes[i].ddp != NULL) {
            struct snic_ddp_stats info;
            snic_ddp_get_stats(w->nodes[i].ddp, &info);
            r->obsolete += info.counters.obsolete;
            if (info.writes + info.waits + info.reads + info.counters.retransmits != 0)
                minos_die("an engine has operations pending after the last event");
        } else {
            struct snic_ddpnic_stats info;
            snic_ddpnic_get_stats(w->nodes[i].pair, &info);
            r->obsolete += info.counters.obsolete;
            if (info.host_writes + info.nic_writes + info.waits + info.reads + info.vfifo +
                    info.dfifo + info.counters.retransmits !=
                0)
                minos_die("an engine has operations pending after the last event");
        }
    }
    run_utilisation(w);
    if (w->s.audit)
        r->differ = run_differences(w);
}

static void run_end(struct world *w)
{
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        struct world_node *n = &w->nodes[i];
        for (uint32_t c = 0; c < w->cores; c++)
            free(n->cores[c].queue.at);
        free(n->cores);
        free(n->fifo[0].waiting.at);
        free(n->fifo[1].waiting.at);
    }
    free(w->nodes);
    free(w->client);
    free(w->owners);
    free(w->parcels);
    free(w->heap);
}

void minos_run(const struct minos_param *p, const struct minos_spec *s, struct minos_result *out)
{
    struct world w;
    memset(&w, 0, sizeof(w));
    memset(out, 0, sizeof(*out));
    w.p = p;
    w.out = out;
    run_spec(&w, s);
    run_begin(&w);
    for (uint32_t i = 0; i < (w.s.alone ? 1 : w.clients); i++)
        world_issue(&w, i);
    while (w.heap_count > 0) {
        struct world_event e = world_next(&w);
        w.now = e.at;
        e.fn(&w, e.a, e.b);
    }
    for (uint32_t i = 0; i < w.clients; i++) {
        if (w.client[i].active)
            minos_die("a client still waits for a reply and no event is left"); /* W3 */
    }
    if (w.measuring != 2)
        minos_die("no event is left, but the measured time is not over");
    run_results(&w);
    run_end(&w);
}
