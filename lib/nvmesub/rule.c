/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rules of hosts: who may connect, and from where. */
#include "nvmesub/nvmesub_priv.h"

static int nvmesub_range_fine(const struct snic_nvmesub_range *r)
{
    return (r->family == SNIC_NVME_ADRFAM_IPV4 && r->bits <= 32) ||
           (r->family == SNIC_NVME_ADRFAM_IPV6 && r->bits <= 128);
}

/* Controllers of the host from addresses that its new rule does not have end; all, if a proof is
 * required that was not before. */
static void nvmesub_rule_apply(struct snic_nvmesub *s, const struct nvmesub_rule *r, int unproven)
{
    for (uint32_t i = 0; i < s->opts.controllers_max; i++) {
        struct nvmesub_ctrl *c = &s->ctrls[i];
        if (c->state != NVMESUB_CTRL_LIVE || strcmp(s->hosts[c->host].nqn, r->nqn) != 0)
            continue;
        c->rule = (uint32_t)(r - s->rules);
        if (unproven || !nvmesub_rule_admits(r, &s->conns[c->admin].peer.address))
            nvmesub_ctrl_end(s, c, SNIC_NVMESUB_BY_OWNER, 1);
    }
}

int snic_nvmesub_allow(struct snic_nvmesub *s, const char *hostnqn, uint32_t flags,
                       const struct snic_nvmesub_range *ranges, uint32_t count)
{
    if (!nvmesub_nqn_fine(hostnqn, SNIC_NVME_NQN_BYTES) || (flags & ~SNIC_NVMESUB_HOST_AUTH) != 0 ||
        count > SNIC_NVMESUB_RANGES_MAX || (count != 0 && ranges == NULL))
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < count; i++)
        if (!nvmesub_range_fine(&ranges[i]))
            return SNIC_EINVAL;
    struct nvmesub_rule *r = nvmesub_rule_find(s, hostnqn);
    for (uint32_t i = 0; r == NULL && i < s->opts.allowed_max; i++)
        if (!s->rules[i].used)
            r = &s->rules[i];
    if (r == NULL)
        return SNIC_ENOSPC;
    uint32_t before = r->used ? r->flags : 0U;
    memset(r, 0, sizeof(*r));
    r->used = 1;
    r->flags = (uint8_t)flags;
    r->count = (uint8_t)count;
    if (count != 0)
        memcpy(r->ranges, ranges, count * sizeof(*ranges));
    memcpy(r->nqn, hostnqn, strlen(hostnqn) + 1);
    nvmesub_rule_apply(s, r, (flags & ~before & SNIC_NVMESUB_HOST_AUTH) != 0);
    return 0;
}

void snic_nvmesub_any_host(struct snic_nvmesub *s, int on)
{
    s->opts.flags &= ~SNIC_NVMESUB_ANY_HOST;
    s->opts.flags |= on ? SNIC_NVMESUB_ANY_HOST : 0;
    for (uint32_t i = 0; !on && i < s->opts.controllers_max; i++)
        if (s->ctrls[i].state != NVMESUB_CTRL_FREE && s->ctrls[i].rule == SNIC_NVMESUB__NONE)
            nvmesub_ctrl_end(s, &s->ctrls[i], SNIC_NVMESUB_BY_OWNER, 1);
}

void snic_nvmesub_end_all(struct snic_nvmesub *s)
{
    s->closing = 1;
    for (uint32_t i = 0; i < s->opts.controllers_max; i++)
        if (s->ctrls[i].state != NVMESUB_CTRL_FREE)
            nvmesub_ctrl_end(s, &s->ctrls[i], SNIC_NVMESUB_BY_OWNER, 1);
}

int snic_nvmesub_deny(struct snic_nvmesub *s, const char *hostnqn)
{
    struct nvmesub_rule *r = nvmesub_rule_find(s, hostnqn);
    if (r == NULL)
        return SNIC_ENOENT;
    uint32_t rule = (uint32_t)(r - s->rules);
    r->used = 0;
    for (uint32_t i = 0; i < s->opts.entries_max; i++)
        nvmesub_bit_clear(s->entries[i].rules, rule);
    for (uint32_t i = 0; i < s->opts.controllers_max; i++) {
        struct nvmesub_ctrl *c = &s->ctrls[i];
        if (c->state == NVMESUB_CTRL_FREE || c->rule != rule)
            continue;
        c->rule = SNIC_NVMESUB__NONE;
        if ((s->opts.flags & SNIC_NVMESUB_ANY_HOST) == 0)
            nvmesub_ctrl_end(s, c, SNIC_NVMESUB_BY_OWNER, 1);
    }
    return 0;
}
