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
    uint32_t all = o->conns_max * o->loops_max;
    struct nvmet_conn **conns = snic_arena_take(a, all, sizeof(*conns), 8);
    struct nvmet_dev *devs = snic_arena_take(a, o->namespaces_max, sizeof(*devs), SNIC_CACHELINE);
    char(*names)[SNIC_NVME_NQN_BYTES] = snic_arena_take(a, SNIC_NVMET__HOSTS, sizeof(*names), 8);
    if (sub == NULL || devs == NULL)
        return;
    memset(conns, 0, all * sizeof(*conns));
    memset(devs, 0, o->namespaces_max * sizeof(*devs));
    sub->mem = mem;
    sub->conns = conns;
    sub->devs = devs;
    sub->names = names;
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

/* Namespaces as this loop has them, of all subsystems but discovery. */
static void nvmet_place_ns(struct snic_arena *a, const struct snic_nvmet_opts *o,
                           struct nvmet_ns **table)
{
    for (uint32_t i = 0; i < o->subsystems_max; i++) {
        struct nvmet_ns *ns = snic_arena_take(a, o->namespaces_max, sizeof(*ns), SNIC_CACHELINE);
        if (table == NULL || ns == NULL)
            continue;
        memset(ns, 0, o->namespaces_max * sizeof(*ns));
        table[i] = ns;
    }
}

static struct snic_nvmet *nvmet_place(struct snic_arena *a, const struct snic_nvmet_opts *o,
                                      const struct nvmet_sizes *z, int first)
{
    struct snic_nvmet *s = snic_arena_take(a, 1, sizeof(*s), SNIC_CACHELINE);
    struct nvmet_ns **ns = snic_arena_take(a, o->subsystems_max + 1, sizeof(*ns), 8);
    struct nvmet_conn *conns = snic_arena_take(a, o->conns_max, sizeof(*conns), SNIC_CACHELINE);
    struct nvmet_sub *subs = NULL;
    if (first)
        subs = snic_arena_take(a, o->subsystems_max + 1, sizeof(*subs), SNIC_CACHELINE);
    int placing = a->base != NULL && a->used != SIZE_MAX;
    if (placing) {
        memset(s, 0, sizeof(*s));
        memset(ns, 0, (o->subsystems_max + 1) * sizeof(*ns));
        memset(conns, 0, o->conns_max * sizeof(*conns));
        if (first)
            memset(subs, 0, (o->subsystems_max + 1) * sizeof(*subs));
        s->subs = subs;
        s->ns = ns;
        s->conns = conns;
    }
    for (uint32_t i = 0; first && i <= o->subsystems_max; i++)
        nvmet_place_sub(a, o, z, placing ? &subs[i] : NULL);
    nvmet_place_ns(a, o, placing ? ns : NULL);
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

static size_t nvmet_memsize(const struct snic_nvmet_opts *o, int first)
{
    struct snic_nvmet_opts full;
    struct nvmet_sizes z;
    struct snic_arena a = {.base = NULL};
    const char *wrong;
    if (nvmet_opts(&full, o, &wrong) != 0)
        return 0;
    nvmet_sizes(&full, &z);
    (void)nvmet_place(&a, &full, &z, first);
    return a.used == SIZE_MAX ? 0 : (size_t)snic_align_up(a.used, SNIC_NVMET_ALIGN);
}

size_t snic_nvmet_memsize(const struct snic_nvmet_opts *o)
{
    return nvmet_memsize(o, 1);
}

size_t snic_nvmet_join_memsize(const struct snic_nvmet_opts *o)
{
    return nvmet_memsize(o, 0);
}

/* ---- Open, close ---- */

/* A loop without subsystems. */
static int nvmet_make(struct snic_nvmet **out, void *mem, size_t size, struct snic_net *net,
                      const struct snic_nvmet_opts *full, int first)
{
    struct nvmet_sizes z;
    struct snic_arena a = {.base = mem, .size = size};
    if ((uintptr_t)mem % SNIC_NVMET_ALIGN != 0)
        return SNIC_EINVAL;
    nvmet_sizes(full, &z);
    struct snic_nvmet *s = nvmet_place(&a, full, &z, first);
    if (s == NULL)
        return SNIC_ENOSPC;
    s->mem = mem;
    s->net = net;
    s->loop = net->loop;
    s->o = *full;
    nvmet_target_opts(full, &s->target);
    s->sub_size = z.sub;
    s->cmds = z.cmds;
    s->arena_pages = z.pages;
    snic_link_init(&s->free_conns);
    snic_link_init(&s->fresh);
    snic_link_init(&s->up);
    snic_link_init(&s->dirty);
    snic_link_init(&s->seats);
    s->pump.fn = nvmet_pump;
    s->flush.fn = nvmet_mail_flush;
    for (uint32_t i = 0; i < full->conns_max; i++) {
        s->conns[i].s = s;
        nvmet_conn_init(&s->conns[i]);
    }
    *out = s;
    return 0;
}

/* Loop number first->loop_count. */
static void nvmet_join(struct snic_nvmet *first, struct snic_nvmet *s)
{
    s->first = first;
    s->index = first->loop_count;
    first->loops[first->loop_count++] = s;
    for (uint32_t i = 0; i < s->o.subsystems_max; i++)
        for (uint32_t k = 0; k < s->o.namespaces_max; k++) {
            s->ns[i][k].s = s;
            s->ns[i][k].dev = &first->subs[i].devs[k];
        }
}

int snic_nvmet_open(struct snic_nvmet **out, void *mem, size_t size, struct snic_net *net,
                    const struct snic_nvmet_opts *o)
{
    static const struct snic_nvmet_subsystem_opts discovery = {.opts_size = sizeof(discovery),
                                                               .subnqn = SNIC_NVME_DISCOVERY_NQN};
    struct snic_nvmet_opts full;
    struct snic_nvmet *s;
    const char *wrong;
    if (nvmet_opts(&full, o, &wrong) != 0)
        return SNIC_EINVAL;
    int r = nvmet_make(&s, mem, size, net, &full, 1);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i <= full.subsystems_max; i++) {
        s->subs[i].s = s;
        s->subs[i].index = i;
        nvmet_sub_init(&s->subs[i]);
    }
    nvmet_join(s, s);
    r = nvmet_sub_open(&s->subs[full.subsystems_max], &discovery,
                       SNIC_NVMESUB_DISCOVERY | SNIC_NVMESUB_ANY_HOST);
    SNIC_ASSERT(r == 0);
    *out = s;
    return 0;
}

int snic_nvmet_join(struct snic_nvmet **out, void *mem, size_t size, struct snic_net *net,
                    struct snic_nvmet *first)
{
    struct snic_nvmesub_stats stats;
    struct snic_nvmet *s;
    if (first->first != first || first->closing)
        return SNIC_EINVAL;
    if (first->loop_count == first->o.loops_max)
        return SNIC_ENOSPC;
    for (uint32_t i = 0; i < first->loop_count; i++)
        if (first->loops[i]->loop == net->loop)
            return SNIC_EEXIST;
    for (uint32_t i = 0; i < first->o.subsystems_max; i++) {
        if (first->subs[i].engine == NULL)
            continue;
        snic_nvmesub_get_stats(first->subs[i].engine, &stats);
        if (stats.namespaces > 0)
            return SNIC_EBUSY;
    }
    int r = nvmet_make(&s, mem, size, net, &first->o, 0);
    if (r != 0)
        return r;
    nvmet_join(first, s);
    *out = s;
    return 0;
}

void snic_nvmet_stop(struct snic_nvmet *s)
{
    if (s->closing)
        return;
    s->closing = 1;
    for (uint32_t i = 0; i < SNIC_NVMESUB_PORTS_MAX; i++) {
        if (s->ports[i].listener != NULL)
            snic_net_unlisten(s->ports[i].listener);
        s->ports[i].listener = NULL;
    }
    for (uint32_t i = 0; i < s->o.conns_max; i++)
        if (s->conns[i].used)
            nvmet_conn_kill(&s->conns[i], SNIC_ECONNABORTED, 0);
    nvmet_conn_done(s);
}

void *snic_nvmet_close(struct snic_nvmet *s)
{
    snic_nvmet_stop(s);
    while (!s->closed || s->pump_on || s->flush_on)
        if (snic_loop_once(s->loop, SNIC_NEVER) < 0)
            break; /* the kernel refuses: nothing will come any more */
    for (uint32_t i = 0; s->subs != NULL && i <= s->o.subsystems_max; i++)
        nvmet_sub_fini(&s->subs[i]);
    return s->mem;
}

/* ---- Listeners ---- */

static int nvmet_listen(struct snic_nvmet *t, uint32_t number, const struct snic_net_addr *a)
{
    struct nvmet_port *p = &t->ports[number];
    uint32_t loops = t->o.loops_max, flags = loops > 1 ? SNIC_NET_REUSEPORT : 0;
    if (loops > 1 && (t->o.flags & SNIC_NVMET_STEER_CPU) != 0)
        flags |= SNIC_NET_STEER_CPU(t->first->loop_count);
    p->s = t;
    p->number = number;
    int r = snic_net_listen(t->net, a, flags, nvmet_conn_accept, p, &p->listener);
    if (r != 0)
        p->listener = NULL;
    return r;
}

int snic_nvmet_listen(struct snic_nvmet *t, const struct snic_net_addr *a,
                      const struct snic_net_addr *shown)
{
    uint32_t i = 0;
    while (i < SNIC_NVMESUB_PORTS_MAX && t->ports[i].listener != NULL)
        i++;
    if (i == SNIC_NVMESUB_PORTS_MAX)
        return SNIC_ENOSPC;
    if (t->first != t)
        return SNIC_EINVAL;
    int r = nvmet_listen(t, i, a);
    if (r != 0)
        return r;
    struct nvmet_port *p = &t->ports[i];
    (void)snic_net_listen_addr(p->listener, &p->addr);
    p->shown = shown != NULL ? *shown : p->addr;
    if (p->shown.port == 0)
        p->shown.port = p->addr.port;
    for (uint32_t k = 0; k < t->o.subsystems_max; k++)
        if (snic_nvmet_engine(t, k) != NULL)
            nvmet_discovery(t, k);
    return (int)i;
}

int snic_nvmet_share(struct snic_nvmet *t, uint32_t port, const struct snic_net_addr *a)
{
    struct snic_net_addr at = {0};
    if (t->first == t)
        return SNIC_EINVAL;
    if (snic_nvmet_listen_addr(t->first, port, &at) != 0)
        return SNIC_ENOENT;
    if (t->ports[port].listener != NULL)
        return SNIC_EEXIST;
    int r = nvmet_listen(t, port, a != NULL ? a : &at);
    if (r == 0)
        (void)snic_net_listen_addr(t->ports[port].listener, &t->ports[port].addr);
    return r;
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

/* @p held: with the pages of its commands */
static int nvmet_conn_fine(const struct snic_nvmet *s, const struct nvmet_conn *c, uint64_t *held)
{
    uint32_t active = 0, pages = 0, bits = 0;
    for (uint32_t i = 0; i < s->cmds; i++) {
        const struct nvmet_cmd *cmd = &c->cmds[i];
        if (cmd->state == NVMET_CMD_FREE)
            continue;
        active +=
            cmd->state == NVMET_CMD_SUBSYSTEM || cmd->state == NVMET_CMD_DEVICE || cmd->reserved;
        if ((cmd->away || cmd->cancelling) && cmd->state != NVMET_CMD_DEVICE && !cmd->reserved)
            return 0; /* T5 */
        pages += cmd->pages;
        if (cmd->state == NVMET_CMD_HELD && snic_link_alone(&cmd->link))
            return 0;
    }
    for (uint32_t i = 0; i < s->arena_pages; i++)
        bits += (c->map[i / 64] >> i % 64 & 1U) != 0;
    *held += (uint64_t)pages * SNIC_NVMET__PAGE;
    if (active > c->active || c->active > active + 1 || pages != bits) /* T1, T3; a flush */
        return 0;
    return snic_nvmetcp_target_check(c->t) == 0;
}

int snic_nvmet_check(const struct snic_nvmet *t)
{
    uint32_t used = 0;
    uint64_t held = 0;
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        used += t->conns[i].used;
        if (t->conns[i].used && !nvmet_conn_fine(t, &t->conns[i], &held))
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = 0; t->subs != NULL && i <= t->o.subsystems_max; i++)
        if (t->subs[i].engine != NULL && snic_nvmesub_check(t->subs[i].engine) != 0)
            return SNIC_ECORRUPT;
    return used == t->stats.conns && held == t->stats.memory ? 0 : SNIC_ECORRUPT;
}
