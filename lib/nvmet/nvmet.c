/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Memory, open, close, listeners, status. */
#include "nvmet/nvmet_priv.h"

/* ---- Memory ---- */

struct nvmet_sizes {
    size_t sub;
    size_t target;
    uint32_t cmds;
    uint32_t pages;
};

static void nvmet_place_sub(struct snic_arena *a, const struct snic_nvmet_opts *o,
                            const struct nvmet_sizes *z, struct nvmet_sub *sub)
{
    void *mem = snic_arena_take(a, 1, z->sub, SNIC_NVMESUB_ALIGN);
    struct nvmet_conn **conns = snic_arena_take(a, o->conns_max, sizeof(*conns), 8);
    struct nvmet_ns *ns = snic_arena_take(a, o->namespaces_max, sizeof(*ns), SNIC_CACHELINE);
    if (sub == NULL || ns == NULL)
        return;
    memset(conns, 0, o->conns_max * sizeof(*conns));
    memset(ns, 0, o->namespaces_max * sizeof(*ns));
    sub->mem = mem;
    sub->conns = conns;
    sub->ns = ns;
}

static void nvmet_place_conn(struct snic_arena *a, const struct nvmet_sizes *z,
                             struct nvmet_conn *c)
{
    struct nvmet_cmd *cmds = snic_arena_take(a, z->cmds, sizeof(*cmds), SNIC_CACHELINE);
    uint64_t *map = snic_arena_take(a, z->pages / 64 + 1, sizeof(*map), 8);
    void *target = snic_arena_take(a, 1, z->target, SNIC_NVMETCP_ALIGN);
    unsigned char *arena = snic_arena_take(a, z->pages, SNIC_NVMET__PAGE, SNIC_NVMET__PAGE);
    if (c == NULL || arena == NULL)
        return;
    c->cmds = cmds;
    c->map = map;
    c->target_mem = target;
    c->arena = arena;
}

static struct snic_nvmet *nvmet_place(struct snic_arena *a, const struct snic_nvmet_opts *o,
                                      const struct nvmet_sizes *z)
{
    struct snic_nvmet *s = snic_arena_take(a, 1, sizeof(*s), SNIC_CACHELINE);
    struct nvmet_sub *subs =
        snic_arena_take(a, o->subsystems_max + 1, sizeof(*subs), SNIC_CACHELINE);
    struct nvmet_conn *conns = snic_arena_take(a, o->conns_max, sizeof(*conns), SNIC_CACHELINE);
    int placing = a->base != NULL && a->used != SIZE_MAX;
    if (placing) {
        memset(s, 0, sizeof(*s));
        memset(subs, 0, (o->subsystems_max + 1) * sizeof(*subs));
        memset(conns, 0, o->conns_max * sizeof(*conns));
        s->subs = subs;
        s->conns = conns;
    }
    for (uint32_t i = 0; i <= o->subsystems_max; i++)
        nvmet_place_sub(a, o, z, placing ? &subs[i] : NULL);
    for (uint32_t i = 0; i < o->conns_max; i++)
        nvmet_place_conn(a, z, placing ? &conns[i] : NULL);
    return placing && a->used != SIZE_MAX ? s : NULL;
}

static void nvmet_sizes(const struct snic_nvmet_opts *o, struct nvmet_sizes *z)
{
    struct snic_nvmetcp_target_opts t;
    struct snic_nvmesub_opts e;
    nvmet_target_opts(o, &t);
    nvmet_sub_opts(o, &e);
    z->target = snic_nvmetcp_target_memsize(&t);
    z->sub = snic_nvmesub_memsize(&e);
    z->cmds = 2 * o->depth_max; /* as many as the engine has responses */
    z->pages = o->data_bytes / SNIC_NVMET__PAGE;
    SNIC_ASSERT(z->target != 0 && z->sub != 0); /* options that nvmet_opts() lets through */
}

size_t snic_nvmet_memsize(const struct snic_nvmet_opts *o)
{
    struct snic_nvmet_opts full;
    struct nvmet_sizes z;
    struct snic_arena a = {.base = NULL};
    const char *wrong;
    if (nvmet_opts(&full, o, &wrong) != 0)
        return 0;
    nvmet_sizes(&full, &z);
    (void)nvmet_place(&a, &full, &z);
    return a.used == SIZE_MAX ? 0 : (size_t)snic_align_up(a.used, SNIC_NVMET_ALIGN);
}

/* ---- Open, close ---- */

int snic_nvmet_open(struct snic_nvmet **out, void *mem, size_t size, struct snic_net *net,
                    const struct snic_nvmet_opts *o)
{
    static const struct snic_nvmet_subsystem_opts discovery = {.opts_size = sizeof(discovery),
                                                               .subnqn = SNIC_NVME_DISCOVERY_NQN};
    struct snic_nvmet_opts full;
    struct nvmet_sizes z;
    struct snic_arena a = {.base = mem, .size = size};
    const char *wrong;
    if (nvmet_opts(&full, o, &wrong) != 0 || (uintptr_t)mem % SNIC_NVMET_ALIGN != 0)
        return SNIC_EINVAL;
    nvmet_sizes(&full, &z);
    struct snic_nvmet *s = nvmet_place(&a, &full, &z);
    if (s == NULL)
        return SNIC_ENOSPC;
    s->mem = mem;
    s->net = net;
    s->loop = net->loop;
    s->o = full;
    nvmet_target_opts(&full, &s->target);
    s->sub_size = z.sub;
    s->cmds = z.cmds;
    s->arena_pages = z.pages;
    snic_link_init(&s->free_conns);
    snic_link_init(&s->fresh);
    snic_link_init(&s->up);
    snic_link_init(&s->dirty);
    s->pump.fn = nvmet_pump;
    for (uint32_t i = 0; i <= full.subsystems_max; i++) {
        s->subs[i].s = s;
        nvmet_sub_init(&s->subs[i]);
    }
    for (uint32_t i = 0; i < full.conns_max; i++) {
        s->conns[i].s = s;
        nvmet_conn_init(&s->conns[i]);
    }
    int r = nvmet_sub_open(&s->subs[full.subsystems_max], &discovery,
                           SNIC_NVMESUB_DISCOVERY | SNIC_NVMESUB_ANY_HOST);
    SNIC_ASSERT(r == 0);
    *out = s;
    return 0;
}

void *snic_nvmet_close(struct snic_nvmet *s)
{
    s->closing = 1;
    for (uint32_t i = 0; i < SNIC_NVMESUB_PORTS_MAX; i++) {
        if (s->ports[i].listener != NULL)
            snic_net_unlisten(s->ports[i].listener);
        s->ports[i].listener = NULL;
    }
    for (uint32_t i = 0; i < s->o.conns_max; i++)
        if (s->conns[i].used)
            nvmet_conn_kill(&s->conns[i], SNIC_ECONNABORTED, 0);
    while (s->stats.conns > 0 || s->pump_on)
        if (snic_loop_once(s->loop, SNIC_NEVER) < 0)
            break; /* the kernel refuses: nothing will come any more */
    for (uint32_t i = 0; i <= s->o.subsystems_max; i++)
        nvmet_sub_fini(&s->subs[i]);
    return s->mem;
}

/* ---- Listeners ---- */

int snic_nvmet_listen(struct snic_nvmet *t, const struct snic_net_addr *a,
                      const struct snic_net_addr *shown)
{
    uint32_t i = 0;
    while (i < SNIC_NVMESUB_PORTS_MAX && t->ports[i].listener != NULL)
        i++;
    if (i == SNIC_NVMESUB_PORTS_MAX)
        return SNIC_ENOSPC;
    struct nvmet_port *p = &t->ports[i];
    p->s = t;
    p->number = i;
    int r = snic_net_listen(t->net, a, 0, nvmet_conn_accept, p, &p->listener);
    if (r != 0) {
        p->listener = NULL;
        return r;
    }
    (void)snic_net_listen_addr(p->listener, &p->addr);
    p->shown = shown != NULL ? *shown : p->addr;
    if (p->shown.port == 0)
        p->shown.port = p->addr.port;
    nvmet_discovery(t);
    return (int)i;
}

int snic_nvmet_listen_addr(const struct snic_nvmet *t, uint32_t port, struct snic_net_addr *out)
{
    if (port >= SNIC_NVMESUB_PORTS_MAX || t->ports[port].listener == NULL)
        return SNIC_ENOENT;
    *out = t->ports[port].addr;
    return 0;
}

uint32_t snic_nvmet_tenant(const char *hostnqn)
{
    static const unsigned char key[16] = "snicstore tenant";
    uint32_t hash = (uint32_t)snic_siphash(key, hostnqn, strlen(hostnqn));
    return hash == UINT32_MAX ? 0 : hash;
}

/* ---- Status ---- */

void snic_nvmet_get_stats(const struct snic_nvmet *t, struct snic_nvmet_stats *out)
{
    *out = t->stats;
}

static int nvmet_conn_fine(const struct snic_nvmet *s, const struct nvmet_conn *c)
{
    uint32_t active = 0, pages = 0, bits = 0;
    for (uint32_t i = 0; i < s->cmds; i++) {
        const struct nvmet_cmd *cmd = &c->cmds[i];
        active += cmd->state == NVMET_CMD_SUBSYSTEM || cmd->state == NVMET_CMD_ROOM ||
                  cmd->state == NVMET_CMD_DEVICE || (cmd->state != NVMET_CMD_FREE && cmd->reserved);
        if (cmd->state != NVMET_CMD_FREE)
            pages += cmd->pages;
        if (cmd->state == NVMET_CMD_HELD && snic_link_alone(&cmd->link))
            return 0;
    }
    for (uint32_t i = 0; i < s->arena_pages; i++)
        bits += (c->map[i / 64] >> i % 64 & 1U) != 0;
    if (active > c->active || c->active > active + 1 || pages != bits) /* T1, T3; a flush */
        return 0;
    return snic_nvmetcp_target_check(c->t) == 0;
}

int snic_nvmet_check(const struct snic_nvmet *t)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        used += t->conns[i].used;
        if (t->conns[i].used && !nvmet_conn_fine(t, &t->conns[i]))
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; i <= t->o.subsystems_max; i++)
        if (t->subs[i].engine != NULL && snic_nvmesub_check(t->subs[i].engine) != 0)
            return SNIC_ECORRUPT;
    return used == t->stats.conns ? 0 : SNIC_ECORRUPT;
}
