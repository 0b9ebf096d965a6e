/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The configuration as it is now: subsystems, hosts, namespaces, tenants. */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tg_nqn_fits(const char *what, const char *nqn, struct tg_error *e)
{
    if (strlen(nqn) == 0 || strlen(nqn) > SNIC_NVME_NQN_LENGTH)
        return tg_fail(e, "%s '%s': an NQN has 1 to %u characters", what, nqn,
                       SNIC_NVME_NQN_LENGTH);
    return 0;
}

/* ---- Subsystems ---- */

struct tg_subsystem *tg_subsystem_find(const char *nqn)
{
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        if (tg.subs[i].nqn[0] != 0 && strcmp(tg.subs[i].nqn, nqn) == 0)
            return &tg.subs[i];
    return NULL;
}

struct tg_subsystem *tg_subsystem_get(const char *nqn, struct tg_error *e)
{
    struct tg_subsystem *s = tg_subsystem_find(nqn);
    if (s == NULL)
        (void)tg_fail(e, "'%s' is not a subsystem of this target", nqn);
    return s;
}

struct tg_subsystem *tg_subsystem_new(const char *nqn, const char *serial, struct tg_error *e)
{
    static const unsigned char key[16];
    uint32_t i = 0;
    if (tg_nqn_fits("subsystem", nqn, e) != 0)
        return NULL;
    if (strcmp(nqn, SNIC_NVME_DISCOVERY_NQN) == 0) {
        (void)tg_fail(e,
                      "subsystem %s: that is the name of the discovery subsystem, which is "
                      "always there",
                      nqn);
        return NULL;
    }
    if (tg_subsystem_find(nqn) != NULL) {
        (void)tg_fail(e, "subsystem %s: named twice", nqn);
        return NULL;
    }
    if (serial != NULL && (serial[0] == 0 || strlen(serial) > 20)) {
        (void)tg_fail(e, "serial '%s': a serial number has 1 to 20 characters", serial);
        return NULL;
    }
    while (i < TG_SUBSYSTEMS && tg.subs[i].nqn[0] != 0)
        i++;
    if (i == TG_SUBSYSTEMS) {
        (void)tg_fail(e, "subsystem %s: at most %d", nqn, TG_SUBSYSTEMS);
        return NULL;
    }
    struct tg_subsystem *s = &tg.subs[i];
    memset(s, 0, sizeof(*s));
    (void)snprintf(s->nqn, sizeof(s->nqn), "%s", nqn);
    if (serial != NULL)
        (void)snprintf(s->serial, sizeof(s->serial), "%s", serial);
    else
        (void)snprintf(s->serial, sizeof(s->serial), "%016" PRIx64,
                       snic_siphash(key, nqn, strlen(nqn)));
    s->number = -1;
    return s;
}

/* ---- Hosts ---- */

struct tg_host *tg_host_find(struct tg_subsystem *s, const char *nqn)
{
    for (uint32_t i = 0; i < s->host_count; i++)
        if (strcmp(s->hosts[i].nqn, nqn) == 0)
            return &s->hosts[i];
    return NULL;
}

int tg_host_set(struct tg_subsystem *s, const struct tg_host *h, struct tg_error *e)
{
    struct tg_host *old = tg_host_find(s, h->nqn);
    if (tg_nqn_fits("host", h->nqn, e) != 0)
        return -1;
    if (old == NULL && s->host_count == TG_HOSTS)
        return tg_fail(e, "host %s: at most %d of a subsystem", h->nqn, TG_HOSTS);
    if (old == NULL) {
        old = &s->hosts[s->host_count];
        s->names[s->host_count++] = old->nqn;
    }
    *old = *h;
    return 0;
}

void tg_host_drop(struct tg_subsystem *s, struct tg_host *h)
{
    *h = s->hosts[--s->host_count]; /* names[i] is that of hosts[i] */
}

/* ---- Namespaces ---- */

int tg_subsystem_full(const struct tg_subsystem *s)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used && !tg.ns[i].gone && &tg.subs[tg.ns[i].subsystem] == s)
            return 1;
    return 0;
}

struct tg_namespace *tg_namespace_find(const struct tg_subsystem *s, uint32_t nsid)
{
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used && !tg.ns[i].gone && &tg.subs[tg.ns[i].subsystem] == s &&
            tg.ns[i].nsid == nsid)
            return &tg.ns[i];
    return NULL;
}

struct tg_namespace *tg_namespace_get(const struct tg_subsystem *s, uint32_t nsid,
                                      struct tg_error *e)
{
    struct tg_namespace *ns = tg_namespace_find(s, nsid);
    if (ns == NULL)
        (void)tg_fail(e, "subsystem %s has no namespace %" PRIu32, s->nqn, nsid);
    return ns;
}

struct tg_namespace *tg_namespace_new(const struct tg_namespace *like, struct tg_error *e)
{
    const struct tg_subsystem *s = &tg.subs[like->subsystem];
    uint32_t i = 0, nsid = like->nsid != 0 ? like->nsid : 1;
    while (i < TG_NAMESPACES && tg.ns[i].used)
        i++;
    if (i == TG_NAMESPACES) {
        (void)tg_fail(e, "at most %d namespaces", TG_NAMESPACES);
        return NULL;
    }
    while (like->nsid == 0 && tg_namespace_find(s, nsid) != NULL)
        nsid++;
    if (nsid > tg.namespaces) {
        (void)tg_fail(e, "namespace %" PRIu32 ": ids are 1 to %" PRIu64 " (--namespaces)", nsid,
                      tg.namespaces);
        return NULL;
    }
    if (tg_namespace_find(s, nsid) != NULL) {
        (void)tg_fail(e, "namespace %" PRIu32 " of %s: there is one already", nsid, s->nqn);
        return NULL;
    }
    char *path = like->path != NULL ? strdup(like->path) : NULL;
    if (like->path != NULL && path == NULL) {
        (void)tg_fail(e, "out of memory");
        return NULL;
    }
    struct tg_namespace *ns = &tg.ns[i];
    *ns = *like;
    ns->path = path;
    ns->nsid = nsid;
    ns->group = like->group != 0 ? like->group : 1;
    ns->used = 1;
    return ns;
}

void tg_namespace_free(struct tg_namespace *ns)
{
    free(ns->path);
    memset(ns, 0, sizeof(*ns));
}

/* ---- Tenants ---- */

const struct tg_tenant *tg_tenant_find(const char *nqn)
{
    for (uint32_t i = 0; i < tg.tenant_count; i++)
        if (strcmp(tg.tenants[i].nqn, nqn) == 0)
            return &tg.tenants[i];
    return NULL;
}

struct snic_gimbal_tenant_opts tg_tenant_opts(const struct tg_tenant *t)
{
    return (struct snic_gimbal_tenant_opts){.opts_size = sizeof(struct snic_gimbal_tenant_opts),
                                            .weight = t->weight,
                                            .bytes_per_second = t->bytes,
                                            .ios_per_second = t->ios,
                                            .floor_bytes_per_second = t->floor_bytes,
                                            .floor_ios_per_second = t->floor_ios,
                                            .group = t->group};
}

int tg_tenant_set(const struct tg_tenant *t, struct tg_error *e)
{
    struct tg_tenant *old = NULL;
    if (tg_nqn_fits("host", t->nqn, e) != 0)
        return -1;
    for (uint32_t i = 0; i < tg.tenant_count; i++)
        if (strcmp(tg.tenants[i].nqn, t->nqn) == 0)
            old = &tg.tenants[i];
    if (old == NULL && tg.tenant_count == TG_TENANTS)
        return tg_fail(e, "%s: at most %d hosts with a weight, cap, floor or group", t->nqn,
                       TG_TENANTS);
    if (old == NULL)
        old = &tg.tenants[tg.tenant_count++];
    *old = *t;
    return 0;
}
