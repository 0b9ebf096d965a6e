/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenants as the user adds, changes, removes and views them.
 */
#include "qos/qos_priv.h"

static struct qos *qos_of(const struct snic_io *io)
{
    SNIC_ASSERT(strcmp(io->ops->name, "qos") == 0);
    return SNIC_CONTAINER(io, struct qos, io);
}

int snic_qos_tenant_add(struct snic_io *io, uint32_t id, const struct snic_gimbal_tenant_opts *o)
{
    struct qos *q = qos_of(io);
    struct qos_tenant *t;
    uint32_t index;
    int r;
    if (id == SNIC_QOS_DEFAULT)
        return SNIC_EINVAL;
    (void)qos_time(q, snic_loop_clock(io->loop));
    index = qos_tenant_find(q, id);
    if (index == SNIC_QOS__NONE)
        return qos_tenant_add(q, id, o, 0, &index);
    t = &q->tenants[index];
    if (!t->automatic)
        return SNIC_EEXIST;
    r = o != NULL ? snic_gimbal_tenant_set(q->gimbal, index, o) : 0;
    if (r != 0)
        return r;
    t->automatic = 0;
    q->automatic--;
    snic_link_remove(&t->idle);
    qos_pump(q);
    return 0;
}

int snic_qos_tenant_set(struct snic_io *io, uint32_t id, const struct snic_gimbal_tenant_opts *o)
{
    struct qos *q = qos_of(io);
    uint32_t index = qos_tenant_find_any(q, id);
    int r;
    if (index == SNIC_QOS__NONE)
        return SNIC_ENOENT;
    (void)qos_time(q, snic_loop_clock(io->loop));
    qos_pump(q); /* the caps until now held until now */
    r = snic_gimbal_tenant_set(q->gimbal, index, o);
    qos_pump(q); /* a cap may be gone */
    return r;
}

int snic_qos_tenant_remove(struct snic_io *io, uint32_t id)
{
    struct qos *q = qos_of(io);
    uint32_t index = qos_tenant_find_any(q, id);
    if (index == 0)
        return SNIC_EINVAL;
    if (index == SNIC_QOS__NONE)
        return SNIC_ENOENT;
    (void)qos_time(q, snic_loop_clock(io->loop));
    qos_tenant_drop(q, index);
    qos_pump(q);
    return 0;
}

int snic_qos_group_add(struct snic_io *io, uint32_t group, const struct snic_gimbal_tenant_opts *o)
{
    return snic_gimbal_group_add(qos_of(io)->gimbal, group, o);
}

int snic_qos_group_set(struct snic_io *io, uint32_t group, const struct snic_gimbal_tenant_opts *o)
{
    struct qos *q = qos_of(io);
    (void)qos_time(q, snic_loop_clock(io->loop));
    qos_pump(q);
    int r = snic_gimbal_group_set(q->gimbal, group, o);
    qos_pump(q); /* a cap may be gone */
    return r;
}

int snic_qos_group_remove(struct snic_io *io, uint32_t group)
{
    return snic_gimbal_group_remove(qos_of(io)->gimbal, group);
}

int snic_qos_get_group_view(const struct snic_io *io, uint32_t group,
                            struct snic_gimbal_tenant_view *out)
{
    return snic_gimbal_get_group_view(qos_of(io)->gimbal, group, out);
}

void snic_qos_get_view(const struct snic_io *io, struct snic_qos_view *out)
{
    const struct qos *q = qos_of(io);
    snic_gimbal_get_view(q->gimbal, &out->device);
    out->requests = q->requests;
    out->automatic = q->automatic;
    out->evicted = q->evicted;
    out->unknown = q->unknown;
    out->busy = q->busy;
    out->parts = q->parts_sent;
    out->inner_full = q->inner_full;
}

int snic_qos_profile_set(struct snic_io *io, const struct snic_gimbal_profile *p)
{
    return snic_gimbal_profile_set(qos_of(io)->gimbal, p);
}

void snic_qos_get_learned(const struct snic_io *io, struct snic_gimbal_learned *out)
{
    snic_gimbal_get_learned(qos_of(io)->gimbal, out);
}

static void qos_tenant_view(const struct qos *q, uint32_t index, struct snic_qos_tenant_view *out)
{
    const struct qos_tenant *t = &q->tenants[index];
    int r;
    memset(out, 0, sizeof(*out));
    out->id = t->id;
    out->requests = t->requests;
    out->completed = t->completed;
    out->errors = t->errors;
    out->busy = t->busy;
    if (q->waits != NULL) {
        out->wait_p50_ns = snic_hist_quantile(&q->waits[index], 500000);
        out->wait_p99_ns = snic_hist_quantile(&q->waits[index], 990000);
    }
    r = snic_gimbal_get_tenant_view(q->gimbal, index, &out->engine);
    SNIC_ASSERT(r == 0); /* Q6 */
    (void)r;
}

int snic_qos_get_tenant_view(const struct snic_io *io, uint32_t id,
                             struct snic_qos_tenant_view *out)
{
    const struct qos *q = qos_of(io);
    uint32_t index = qos_tenant_find_any(q, id);
    if (index == SNIC_QOS__NONE)
        return SNIC_ENOENT;
    qos_tenant_view(q, index, out);
    return 0;
}

int snic_qos_tenant_next(const struct snic_io *io, uint32_t *cursor,
                         struct snic_qos_tenant_view *out)
{
    const struct qos *q = qos_of(io);
    for (uint32_t i = *cursor; i <= q->opts.tenants_max; i++) {
        if (q->tenants[i].state == QOS_TENANT_ADDED) {
            qos_tenant_view(q, i, out);
            *cursor = i + 1;
            return 0;
        }
    }
    return SNIC_ENOENT;
}
