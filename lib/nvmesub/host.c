/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rules of hosts, by NQN; identities, by host id and NQN; fences.
 *   H1 An identity is used while controllers (refs), registrations or held Connects refer to it, or
 *      it is fenced.
 *   H2 The owner's part of a fence is up exactly while ending > 0.
 */
#include "nvmesub/nvmesub_priv.h"

struct nvmesub_rule *nvmesub_rule_find(const struct snic_nvmesub *s, const char *nqn)
{
    for (uint32_t i = 0; i < s->opts.allowed_max; i++)
        if (s->rules[i].used && strcmp(s->rules[i].nqn, nqn) == 0)
            return &s->rules[i];
    return NULL;
}

static int nvmesub_range_has(const struct snic_nvmesub_range *r,
                             const struct snic_nvmesub_range *address)
{
    uint32_t whole = r->bits / 8, rest = r->bits % 8;
    if (r->family != address->family || memcmp(r->address, address->address, whole) != 0)
        return 0;
    uint8_t mask = (uint8_t)(0xff00U >> rest);
    return rest == 0 || (r->address[whole] & mask) == (address->address[whole] & mask);
}

int nvmesub_rule_admits(const struct nvmesub_rule *r, const struct snic_nvmesub_range *address)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (nvmesub_range_has(&r->ranges[i], address))
            return 1;
    return r->count == 0;
}

/* ---- Identities ---- */

static int nvmesub_hostid_zero(const uint8_t hostid[16])
{
    static const uint8_t zero[16];
    return memcmp(hostid, zero, 16) == 0;
}

uint32_t nvmesub_host_find(const struct snic_nvmesub *s, const uint8_t hostid[16], const char *nqn)
{
    if (nvmesub_hostid_zero(hostid))
        return SNIC_NVMESUB__NONE;
    for (uint32_t i = 0; i < s->opts.hosts_max; i++) {
        const struct nvmesub_host *h = &s->hosts[i];
        if (h->used && memcmp(h->hostid, hostid, 16) == 0 && strcmp(h->nqn, nqn) == 0)
            return i;
    }
    return SNIC_NVMESUB__NONE;
}

uint32_t nvmesub_host_get(struct snic_nvmesub *s, const uint8_t hostid[16], const char *nqn)
{
    uint32_t found = nvmesub_host_find(s, hostid, nqn);
    for (uint32_t i = 0; found == SNIC_NVMESUB__NONE && i < s->opts.hosts_max; i++) {
        struct nvmesub_host *h = &s->hosts[i];
        if (h->used || h->out.kind != 0 ||
            atomic_load_explicit(&s->view.fence[i], memory_order_relaxed) != 0)
            continue;
        h->used = 1;
        memcpy(h->hostid, hostid, 16);
        memset(h->nqn, 0, sizeof(h->nqn));
        memcpy(h->nqn, nqn, strlen(nqn));
        s->stats.hosts++;
        found = i;
    }
    return found;
}

void nvmesub_host_put(struct snic_nvmesub *s, uint32_t host)
{
    struct nvmesub_host *h = &s->hosts[host];
    if (h->used && h->refs == 0 && h->registrations == 0 && h->ending == 0 &&
        snic_link_alone(&h->held)) {
        h->used = 0;
        s->stats.hosts--;
    }
}

void nvmesub_fence_raise(struct snic_nvmesub *s, uint32_t host)
{
    if (s->hosts[host].ending++ == 0)
        /* Before the messages that follow, which synchronise by themselves. */
        atomic_fetch_add_explicit(&s->view.fence[host], 1, memory_order_acq_rel);
    s->stats.fences++;
}

void nvmesub_fence_lower(struct snic_nvmesub *s, uint32_t host)
{
    struct nvmesub_host *h = &s->hosts[host];
    SNIC_ASSERT(h->ending > 0);
    if (--h->ending != 0)
        return;
    /* What the device has done before what is held goes there: pairs with io.c's load. */
    atomic_fetch_sub_explicit(&s->view.fence[host], 1, memory_order_acq_rel);
    nvmesub_out_push(s, &h->out, SNIC_NVMESUB_UNFENCE);
    nvmesub_host_put(s, host);
}
