/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Gimbal behind the face of its peers: the switch at the target, Algorithm 3 at the client. */
#include "sched.h"

#include <stdlib.h>

struct sched {
    struct snic_gimbal *g;
    void *mem;
    uint32_t credit[]; /* per tenant, as its client knows it */
};

static int gimbal_setup(struct sched *s, const struct sched_opts *o, uint64_t now)
{
    struct snic_gimbal_opts g = {.opts_size = sizeof(g)};
    if (o->gimbal != NULL)
        g = *o->gimbal;
    g.tenants_max = o->tenants;
    size_t size = snic_gimbal_memsize(&g);
    if (size == 0 || posix_memalign(&s->mem, SNIC_GIMBAL_ALIGN, size) != 0)
        return -1;
    if (snic_gimbal_init(&s->g, s->mem, size, &g, now) != 0)
        return -1;
    for (uint32_t k = 1; k <= g.groups_max; k++) {
        if (snic_gimbal_group_add(s->g, k, NULL) != 0)
            return -1;
    }
    for (uint32_t t = 0; t < o->tenants; t++) {
        struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to)};
        struct snic_gimbal_tenant_view v;
        if (o->tenant != NULL)
            to = o->tenant[t];
        to.weight = o->weight != NULL ? o->weight[t] : 1;
        if (snic_gimbal_tenant_add(s->g, t, &to) != 0 ||
            snic_gimbal_get_tenant_view(s->g, t, &v) != 0)
            return -1;
        s->credit[t] = v.credit;
    }
    return 0;
}

static void gimbal_close(struct sched *s)
{
    if (s->g != NULL)
        snic_gimbal_fini(s->g);
    free(s->mem);
    free(s);
}

static struct sched *gimbal_open(const struct sched_opts *o, uint64_t now)
{
    struct sched *s = calloc(1, sizeof(*s) + o->tenants * sizeof(s->credit[0]));
    if (s != NULL && gimbal_setup(s, o, now) != 0) {
        gimbal_close(s);
        return NULL;
    }
    return s;
}

static void gimbal_submit(struct sched *s, struct sched_io *io, uint64_t now)
{
    /* What the switch refuses, the client sent beyond all its limits: a program's error. */
    if (snic_gimbal_submit(s->g, &io->g, now) != 0)
        abort();
}

static struct sched_io *gimbal_poll(struct sched *s, uint64_t now)
{
    struct snic_gimbal_io *io = snic_gimbal_poll(s->g, now);
    return io != NULL ? SNIC_CONTAINER(io, struct sched_io, g) : NULL;
}

static uint64_t gimbal_deadline(struct sched *s)
{
    return snic_gimbal_deadline_ns(s->g);
}

static void gimbal_complete(struct sched *s, struct sched_io *io, uint64_t now)
{
    snic_gimbal_complete(s->g, &io->g, 1, now);
}

static void gimbal_client_done(struct sched *s, struct sched_io *io, uint64_t now)
{
    (void)now;
    s->credit[io->g.tenant] = io->g.credit;
}

/* One I/O may always be out: without any, no completion would bring credit. */
static int gimbal_client_may_send(struct sched *s, uint32_t tenant, uint32_t inflight, uint64_t now)
{
    (void)now;
    return inflight == 0 || inflight < s->credit[tenant];
}

struct snic_gimbal *sched_gimbal_switch(struct sched *s)
{
    return s->g;
}

const struct sched_ops sched_gimbal = {"gimbal",        gimbal_open,        gimbal_close,
                                       gimbal_submit,   gimbal_poll,        gimbal_deadline,
                                       gimbal_complete, gimbal_client_done, gimbal_client_may_send};
