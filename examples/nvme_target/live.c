/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The configuration's parts put into the target that serves, and taken out of it. */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct {
    struct snic_loop *loop;
    struct snic_nvmet *target;
    struct tg_namespace *closing; /* one at a time */
    void (*closed)(void);
    struct snic_loop_msg msg;
} live;

struct snic_nvmet *tg_target(void)
{
    return live.target;
}

void tg_target_set(struct snic_nvmet *t, struct snic_loop *loop)
{
    live.target = t;
    live.loop = loop;
}

int tg_host_up(const struct tg_subsystem *s, const struct tg_host *h, struct tg_error *e)
{
    if (tg_keys_has(h->nqn, e) != 0)
        return -1;
    int r = snic_nvmet_allow(live.target, (uint32_t)s->number, h->nqn, 0, h->from, h->from_count);
    return r == 0 ? 0 : tg_fail(e, "host %s: %s", h->nqn, snic_strerror(r));
}

int tg_ana_up(const struct tg_ana *a, struct tg_error *e)
{
    int r = snic_nvmet_ana_set(live.target, (uint32_t)a->subsystem->number, a->group, a->port,
                               a->state);
    return r == 0 ? 0
                  : tg_fail(e, "ana: group %u, port %u: %s", a->group, a->port, snic_strerror(r));
}

int tg_subsystem_up(struct tg_subsystem *s, struct tg_error *e)
{
    struct snic_nvmet_subsystem_opts o = {.opts_size = sizeof(o), .subnqn = s->nqn};
    o.serial = s->serial;
    o.flags = s->any ? SNIC_NVMESUB_ANY_HOST : 0;
    o.hosts = s->names;
    o.host_count = s->host_count;
    o.persist = tg.config != NULL ? tg_persist : NULL;
    if (tg_keys_hosts(s, &o, e) != 0)
        return -1;
    int r = snic_nvmet_subsystem_add(live.target, &o);
    if (r < 0)
        return tg_fail(e, "subsystem %s: %s", s->nqn, snic_strerror(r));
    s->number = r;
    for (uint32_t i = 0; i < s->host_count; i++)
        if (tg_host_up(s, &s->hosts[i], e) != 0)
            return -1;
    for (uint32_t i = 0; i < TG_GROUPS * SNIC_NVMESUB_PORTS_MAX; i++) {
        struct tg_ana a = {s, i / SNIC_NVMESUB_PORTS_MAX + 1, i % SNIC_NVMESUB_PORTS_MAX, 0};
        a.state = s->ana[a.group - 1][a.port];
        if (a.state != 0 && tg_ana_up(&a, e) != 0)
            return -1;
    }
    return 0;
}

static int up_refused(const struct tg_namespace *ns, const char *name, int r, struct tg_error *e)
{
    if (r == SNIC_ENOTSUP)
        return tg_fail(e,
                       "%s: the file system cannot zero ranges (fallocate), which Write Zeroes "
                       "needs: put the file on ext4, XFS or tmpfs, or make it read-only",
                       name);
    if (r == SNIC_EEXIST)
        return tg_fail(e, "namespace %" PRIu32 ": the one before is still being removed", ns->nsid);
    return tg_fail(e, "%s cannot be a namespace: %s (blocks of %u bytes, transfers up to %u)", name,
                   snic_strerror(r), ns->io->geometry.block, ns->io->geometry.transfer_max);
}

/* What is done where the device's loop runs. */
struct there {
    struct tg_namespace *ns;
    int now;
    struct tg_error *e;
    uint32_t tenant;
    const struct snic_gimbal_tenant_opts *o;
    uint64_t bytes;
    int result;
};

static void open_there(void *ctx)
{
    struct there *t = ctx;
    t->result = tg_open(tg_loops_of(t->ns, live.loop), t->ns, t->now, t->e);
}

static void close_there(void *ctx)
{
    tg_close(ctx);
}

static void tenant_there(void *ctx)
{
    struct there *t = ctx;
    t->result = snic_qos_tenant_add(t->ns->io, t->tenant, t->o);
    if (t->result == SNIC_EEXIST)
        t->result = snic_qos_tenant_set(t->ns->io, t->tenant, t->o);
}

int tg_namespace_up(struct tg_namespace *ns, int now, struct tg_error *e)
{
    struct there there = {.ns = ns, .now = now, .e = e};
    const struct tg_subsystem *s = &tg.subs[ns->subsystem];
    const char *name = tg_device_name(ns);
    struct snic_nvmet_ns_opts o = {.opts_size = sizeof(o), .nsid = ns->nsid, .group = ns->group};
    tg_loops_call(ns, open_there, &there);
    if (there.result != 0)
        return -1;
    o.io = ns->io;
    o.reserve = ns->qos != NULL ? snic_qos_reserve : NULL;
    o.commit = ns->qos != NULL ? snic_qos_commit : NULL;
    int r = tg_uuid(ns, e);
    memcpy(o.uuid, ns->uuid, sizeof(o.uuid));
    if (r == 0) {
        r = snic_nvmet_ns_add(live.target, (uint32_t)s->number, &o);
        if (r < 0)
            (void)up_refused(ns, name, r, e);
    }
    if (r < 0) {
        tg_loops_call(ns, close_there, ns);
        return -1;
    }
    ex_log(EX_INFO, "namespace %" PRIu32 " of %s: %s, %" PRIu64 " MiB%s", ns->nsid, s->nqn, name,
           ns->io->geometry.size >> 20,
           (ns->io->caps & SNIC_IO_CAP_READONLY) != 0 ? ", read-only" : "");
    return 0;
}

int tg_tenant_up(const struct tg_tenant *t, struct tg_error *e)
{
    struct snic_gimbal_tenant_opts o = tg_tenant_opts(t);
    uint32_t id = snic_nvmet_tenant(t->nqn);
    for (uint32_t i = 0; i < TG_NAMESPACES; i++) {
        if (!tg.ns[i].used || tg.ns[i].qos == NULL)
            continue;
        struct there there = {.ns = &tg.ns[i], .tenant = id, .o = &o};
        tg_loops_call(&tg.ns[i], tenant_there, &there);
        if (there.result != 0)
            return tg_fail(e, "%s: %s", t->nqn, snic_strerror(there.result));
    }
    return 0;
}

/* On the first loop, out of the event in which the last request ended. */
static void namespace_gone(struct snic_loop_msg *msg)
{
    (void)msg;
    tg_loops_call(live.closing, close_there, live.closing);
    live.closing = NULL;
    live.closed();
}

static void namespace_removed(void *ctx, struct snic_io *io)
{
    (void)ctx;
    (void)io;
    live.msg.fn = namespace_gone;
    snic_loop_post(live.loop, &live.msg);
}

int tg_namespace_down(struct tg_namespace *ns, void (*done)(void), struct tg_error *e)
{
    const struct tg_subsystem *s = &tg.subs[ns->subsystem];
    live.closing = ns;
    live.closed = done;
    int r =
        snic_nvmet_ns_remove(live.target, (uint32_t)s->number, ns->nsid, namespace_removed, NULL);
    if (r == 0)
        return 0;
    live.closing = NULL;
    return tg_fail(e, "namespace %" PRIu32 ": %s", ns->nsid, snic_strerror(r));
}

static void size_there(void *ctx)
{
    const struct there *t = ctx;
    t->ns->device->geometry.size = t->ns->io->geometry.size = t->bytes;
}

int tg_namespace_resize(struct tg_namespace *ns, uint64_t bytes, struct tg_error *e)
{
    struct there there = {.ns = ns, .bytes = bytes};
    const struct tg_subsystem *s = &tg.subs[ns->subsystem];
    struct snic_nvmesub_ns_status status;
    const struct snic_nvmesub *engine = snic_nvmet_engine(live.target, (uint32_t)s->number);
    if (snic_nvmesub_get_ns(engine, ns->nsid, &status) != 0)
        return tg_fail(e, "namespace %" PRIu32 " is being removed", ns->nsid);
    if (bytes % (UINT64_C(1) << status.shift) != 0)
        return tg_fail(e, "namespace %" PRIu32 ": not a multiple of its blocks of %u bytes",
                       ns->nsid, 1U << status.shift);
    int grows = bytes > ns->io->geometry.size;
    if (tg_grow(ns, bytes, e) != 0)
        return -1;
    if (grows)
        tg_loops_call(ns, size_there, &there);
    int r = snic_nvmet_ns_resize(live.target, (uint32_t)s->number, ns->nsid, bytes);
    if (r != 0)
        return tg_fail(e, "namespace %" PRIu32 ": %s", ns->nsid, snic_strerror(r));
    tg_loops_call(ns, size_there, &there); /* what is beyond fails there */
    ns->size = bytes;
    return 0;
}

static void subsystem_removed(void *ctx, uint32_t number)
{
    void (*done)(void) = live.closed;
    (void)ctx;
    (void)number;
    done();
}

int tg_subsystem_down(struct tg_subsystem *s, void (*done)(void), struct tg_error *e)
{
    live.closed = done;
    int r = snic_nvmet_subsystem_remove(live.target, (uint32_t)s->number, subsystem_removed, NULL);
    return r == 0 ? 0 : tg_fail(e, "subsystem %s: %s", s->nqn, snic_strerror(r));
}
