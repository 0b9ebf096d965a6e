/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Namespaces and ANA groups, changed while hosts use them.
 *   S2 A removed namespace is used until its QUIESCE is done.
 */
#include "nvmesub/nvmesub_priv.h"

static int nvmesub_zero(const void *p, size_t size)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < size; i++)
        if (b[i] != 0)
            return 0;
    return 1;
}

int snic_nvmesub_ns_add(struct snic_nvmesub *s, const struct snic_nvmesub_ns_opts *in)
{
    struct snic_nvmesub_ns_opts o = {0};
    if (snic_opts_copy(&o, sizeof(o), in) != 0 || nvmesub_discovery(s))
        return SNIC_EINVAL;
    o.group = o.group != 0 ? o.group : 1;
    if (o.nsid > s->opts.namespaces_max || o.group > s->opts.groups_max ||
        (o.shift != 9 && o.shift != 12) || o.blocks == 0 ||
        o.blocks > UINT64_MAX >> (o.shift + 1) || o.read_only > 1 || o.optimal_blocks > 65536 ||
        (nvmesub_zero(o.nguid, 16) && nvmesub_zero(o.uuid, 16) && nvmesub_zero(o.eui64, 8)))
        return SNIC_EINVAL;
    uint32_t nsid = o.nsid;
    for (uint32_t i = 1; nsid == 0 && i <= s->opts.namespaces_max; i++)
        if (!s->ns[i - 1].used)
            nsid = i;
    if (nsid == 0)
        return SNIC_ENOSPC;
    struct nvmesub_ns *n = &s->ns[nsid - 1];
    if (n->used)
        return SNIC_EEXIST;
    n->used = 1;
    n->generation++;
    n->group = o.group;
    n->shift = (uint8_t)o.shift;
    n->blocks = o.blocks;
    n->read_only = (uint8_t)o.read_only;
    n->optimal = o.optimal_blocks;
    memcpy(n->nguid, o.nguid, 16);
    memcpy(n->uuid, o.uuid, 16);
    memcpy(n->eui64, o.eui64, 8);
    n->resv_gen = 0;
    n->ptpl = 0;
    s->groups[n->group - 1].namespaces++;
    s->stats.namespaces++;
    nvmesub_view_ns(s, nsid);
    nvmesub_event_ns(s, nsid);
    return (int)nsid;
}

static void nvmesub_ns_gone(struct snic_nvmesub *s, struct nvmesub_ns *n)
{
    SNIC_ASSERT(snic_link_alone(&n->waiting));
    n->used = 0;
    n->removing = 0;
    n->removal_sent = 0;
    s->groups[n->group - 1].namespaces--;
    s->stats.namespaces--;
}

void snic_nvmesub_quiesced(struct snic_nvmesub *s, uint32_t nsid, uint64_t sequence)
{
    SNIC_ASSERT(nsid != 0 && nsid <= s->opts.namespaces_max);
    struct nvmesub_ns *n = &s->ns[nsid - 1];
    SNIC_ASSERT(n->used && n->quiesce.kind == 0 && sequence == n->quiesce_sent);
    SNIC_ASSERT(n->quiesce_done + 1 == n->quiesce_sent);
    n->quiesce_done = sequence;
    nvmesub_ns_wake(s, n, 0);
    if (n->removal_sent)
        nvmesub_ns_gone(s, n); /* S2 */
    else
        nvmesub_quiesce_next(s, n);
}

int snic_nvmesub_ns_remove(struct snic_nvmesub *s, uint32_t nsid)
{
    struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    n->removing = 1;
    nvmesub_resv_forget(s, n);
    n->persist_done = n->persist_want; /* its record is of no use any more */
    n->persist_sent = n->persist_want;
    if (n->persist.kind != 0)
        snic_link_remove(&n->persist.link);
    n->persist.kind = 0;
    nvmesub_ns_wake(s, n, 0);
    nvmesub_view_ns(s, nsid);
    nvmesub_event_ns(s, nsid);
    n->abort_wanted = 0;
    nvmesub_quiesce_next(s, n);
    return 0;
}

static int nvmesub_ns_changed(struct snic_nvmesub *s, uint32_t nsid)
{
    nvmesub_view_ns(s, nsid);
    nvmesub_event_ns(s, nsid);
    return 0;
}

int snic_nvmesub_ns_resize(struct snic_nvmesub *s, uint32_t nsid, uint64_t blocks)
{
    struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    if (blocks == 0 || blocks > UINT64_MAX >> (n->shift + 1))
        return SNIC_EINVAL;
    if (n->blocks == blocks)
        return 0;
    n->blocks = blocks;
    return nvmesub_ns_changed(s, nsid);
}

int snic_nvmesub_ns_read_only(struct snic_nvmesub *s, uint32_t nsid, int on)
{
    struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    if (n->read_only == (on != 0))
        return 0;
    n->read_only = on != 0;
    return nvmesub_ns_changed(s, nsid);
}

/* ---- ANA ---- */

void nvmesub_ana_changed(struct snic_nvmesub *s)
{
    s->ana_changes++;
    nvmesub_event_all(s, SNIC_NVMESUB__EV_ANA);
}

int snic_nvmesub_ns_group(struct snic_nvmesub *s, uint32_t nsid, uint32_t group)
{
    struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    if (group == 0 || group > s->opts.groups_max)
        return SNIC_EINVAL;
    if (n->group == group)
        return 0;
    s->groups[n->group - 1].namespaces--;
    s->groups[n->group - 1].changes = s->ana_changes + 1;
    n->group = group;
    s->groups[group - 1].namespaces++;
    s->groups[group - 1].changes = s->ana_changes + 1;
    nvmesub_ns_changed(s, nsid);
    nvmesub_ana_changed(s);
    return 0;
}

int snic_nvmesub_ana_set(struct snic_nvmesub *s, uint32_t group, uint32_t port, uint32_t state)
{
    if (group == 0 || group > s->opts.groups_max || port >= SNIC_NVMESUB_PORTS_MAX ||
        ((state < SNIC_NVME_ANA_OPTIMIZED || state > SNIC_NVME_ANA_LOSS) &&
         state != SNIC_NVME_ANA_CHANGE))
        return SNIC_EINVAL;
    struct nvmesub_group *g = &s->groups[group - 1];
    if (nvmesub_ana_state(s, group, port) == state)
        return 0;
    g->states = (g->states & ~(UINT64_C(15) << (4 * port))) | (uint64_t)state << (4 * port);
    g->changes = s->ana_changes + 1;
    for (uint32_t i = 1; i <= s->opts.namespaces_max; i++)
        if (nvmesub_ns_find(s, i) != NULL && s->ns[i - 1].group == group)
            nvmesub_view_ns(s, i);
    nvmesub_ana_changed(s);
    return 0;
}

/* ---- Health ---- */

void snic_nvmesub_health(struct snic_nvmesub *s, const struct snic_nvme_smart *log)
{
    s->smart = *log;
    for (uint32_t i = 0; i < s->opts.controllers_max; i++) {
        struct nvmesub_ctrl *c = &s->ctrls[i];
        uint8_t wanted = (uint8_t)(log->critical_warning & c->aec & 0xff);
        uint8_t fresh = (uint8_t)(wanted & ~c->health);
        c->health = wanted;
        if (fresh != 0)
            nvmesub_event(s, c, SNIC_NVMESUB__EV_HEALTH);
    }
}
