/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes of a target that serves, on the owner's loop: hosts, sizes, ANA states, subsystems that
 * are removed, records that are stored.
 *   C1 hosts[i] is names[i]; the engine has a rule for each, and the discovery engine for each that
 *      a subsystem without any_host has.
 *   C2 A subsystem that is being removed is found by no Connect; it is free when it has no seat and
 *      no UNFENCE is under way.
 */
#include "nvmet/nvmet_priv.h"

/* The subsystem, unless it is being removed. */
static struct nvmet_sub *nvmet_change_sub(struct snic_nvmet *t, uint32_t subsystem)
{
    return snic_nvmet_engine(t, subsystem) != NULL ? &t->subs[subsystem] : NULL;
}

/* ---- Hosts ---- */

static uint32_t nvmet_change_find(const struct nvmet_sub *sub, const char *hostnqn)
{
    uint32_t i = 0;
    while (i < sub->host_count && strcmp(sub->hosts[i], hostnqn) != 0)
        i++;
    return i;
}

int nvmet_change_add(struct nvmet_sub *sub, const char *hostnqn)
{
    uint32_t i = nvmet_change_find(sub, hostnqn);
    if (i < sub->host_count)
        return 0;
    SNIC_ASSERT(i < SNIC_NVMET__HOSTS);
    memcpy(sub->names[i], hostnqn, strlen(hostnqn) + 1);
    sub->hosts[i] = sub->names[i];
    sub->host_count++;
    return 1;
}

int snic_nvmet_allow(struct snic_nvmet *t, uint32_t subsystem, const char *hostnqn, uint32_t flags,
                     const struct snic_nvmesub_range *ranges, uint32_t count)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    if (sub == NULL)
        return SNIC_ENOENT;
    if (nvmet_change_find(sub, hostnqn) == SNIC_NVMET__HOSTS)
        return SNIC_ENOSPC;
    flags |= nvmet_auth_rule(t, hostnqn);
    int r = snic_nvmesub_allow(sub->engine, hostnqn, flags, ranges, count);
    if (r != 0)
        return r;
    if (nvmet_change_add(sub, hostnqn))
        nvmet_discovery(t, subsystem);
    nvmet_sub_poll(sub);
    return 0;
}

/* No subsystem shows entries to the host by its name. */
static void nvmet_change_forget(struct snic_nvmet *t, const char *hostnqn)
{
    struct nvmet_sub *discovery = &t->subs[t->o.subsystems_max];
    for (uint32_t i = 0; i < t->o.subsystems_max; i++) {
        const struct nvmet_sub *sub = nvmet_change_sub(t, i);
        if (sub != NULL && nvmet_change_find(sub, hostnqn) < sub->host_count)
            return;
    }
    if (snic_nvmesub_deny(discovery->engine, hostnqn) == 0)
        nvmet_sub_poll(discovery);
}

int snic_nvmet_deny(struct snic_nvmet *t, uint32_t subsystem, const char *hostnqn)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    char name[SNIC_NVME_NQN_BYTES];
    if (sub == NULL)
        return SNIC_ENOENT;
    uint32_t i = nvmet_change_find(sub, hostnqn);
    int r = snic_nvmesub_deny(sub->engine, hostnqn);
    if (r != 0)
        return r;
    SNIC_ASSERT(i < sub->host_count); /* C1 */
    memcpy(name, sub->names[i], sizeof(name));
    sub->host_count--;
    memmove(sub->names[i], sub->names[sub->host_count], sizeof(name));
    nvmet_discovery(t, subsystem);
    nvmet_change_forget(t, name);
    nvmet_sub_poll(sub);
    return 0;
}

int snic_nvmet_any_host(struct snic_nvmet *t, uint32_t subsystem, int on)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    if (sub == NULL)
        return SNIC_ENOENT;
    sub->any_host = on != 0;
    snic_nvmesub_any_host(sub->engine, on);
    nvmet_discovery(t, subsystem);
    nvmet_sub_poll(sub);
    return 0;
}

/* ---- Namespaces ---- */

int snic_nvmet_ns_resize(struct snic_nvmet *t, uint32_t subsystem, uint32_t nsid, uint64_t bytes)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    struct snic_nvmesub_ns_status status;
    if (sub == NULL || snic_nvmesub_get_ns(sub->engine, nsid, &status) != 0)
        return SNIC_ENOENT;
    int r = snic_nvmesub_ns_resize(sub->engine, nsid, bytes >> status.shift);
    nvmet_sub_poll(sub);
    return r;
}

int snic_nvmet_ana_set(struct snic_nvmet *t, uint32_t subsystem, uint32_t group, uint32_t port,
                       uint32_t state)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    if (sub == NULL)
        return SNIC_ENOENT;
    int r = snic_nvmesub_ana_set(sub->engine, group, port, state);
    nvmet_sub_poll(sub);
    return r;
}

void snic_nvmet_persisted(struct snic_nvmet *t, uint32_t subsystem, uint32_t nsid,
                          uint64_t sequence, int error)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    if (sub == NULL)
        return;
    snic_nvmesub_persisted(sub->engine, nsid, sequence, error);
    nvmet_sub_poll(sub);
}

/* ---- A subsystem is removed ---- */

static void nvmet_change_gone(struct snic_loop_msg *msg)
{
    struct nvmet_sub *sub = SNIC_CONTAINER(msg, struct nvmet_sub, gone);
    struct snic_nvmet *t = sub->s;
    snic_nvmet_subsystem_removed_fn removed = sub->removed;
    nvmet_sub_fini(sub);
    sub->removing = 0;
    t->pending--;
    if (removed != NULL)
        removed(sub->removed_ctx, sub->index);
    nvmet_seat_check(t);
}

void nvmet_change_check(struct nvmet_sub *sub)
{
    struct snic_nvmet *t = sub->s;
    if (sub->removing != 1)
        return;
    for (struct snic_link *l = t->seats.next; l != &t->seats; l = l->next)
        if (SNIC_CONTAINER(l, struct nvmet_seat, link)->sub == sub)
            return;
    for (uint32_t i = 0; i < t->loop_count; i++)
        if (sub->notes[i].away)
            return;
    sub->removing = 2;
    t->pending++;
    sub->gone.fn = nvmet_change_gone;
    snic_loop_defer(t->loop, &sub->gone);
}

int snic_nvmet_subsystem_remove(struct snic_nvmet *t, uint32_t subsystem,
                                snic_nvmet_subsystem_removed_fn removed, void *ctx)
{
    struct nvmet_sub *sub = nvmet_change_sub(t, subsystem);
    struct snic_nvmesub_ns_status status;
    if (sub == NULL)
        return SNIC_ENOENT;
    for (uint32_t i = 1; i <= t->o.namespaces_max; i++)
        if (snic_nvmesub_get_ns(sub->engine, i, &status) == 0)
            return SNIC_EBUSY;
    sub->removed = removed;
    sub->removed_ctx = ctx;
    sub->removing = 1;
    sub->any_host = 0;
    uint32_t hosts = sub->host_count;
    sub->host_count = 0;
    nvmet_discovery(t, subsystem);
    for (uint32_t i = 0; i < hosts; i++)
        nvmet_change_forget(t, sub->names[i]);
    snic_nvmesub_end_all(sub->engine);
    nvmet_sub_poll(sub);
    nvmet_change_check(sub);
    return 0;
}
