/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenant ids to the engine's indices, 1..tenants_max; index 0 is the default tenant. Q6, Q7 of
 * qos_priv.h.
 */
#include "qos/qos_priv.h"

/* ---- The table ---- */

static uint32_t *qos_tenant_bucket(const struct qos *q, uint32_t id)
{
    return &q->buckets[(id * 2654435769u) >> q->bucket_shift];
}

/** Index, or NONE. */
uint32_t qos_tenant_find(const struct qos *q, uint32_t id)
{
    uint32_t i = *qos_tenant_bucket(q, id);
    while (i != SNIC_QOS__NONE && q->tenants[i].id != id)
        i = q->tenants[i].next;
    return i;
}

uint32_t qos_tenant_find_any(const struct qos *q, uint32_t id)
{
    return id == SNIC_QOS_DEFAULT ? 0 : qos_tenant_find(q, id);
}

static void qos_tenant_unhash(struct qos *q, uint32_t index)
{
    uint32_t *p = qos_tenant_bucket(q, q->tenants[index].id);
    while (*p != index)
        p = &q->tenants[*p].next;
    *p = q->tenants[index].next;
}

static void qos_tenant_free(struct qos *q, uint32_t index)
{
    struct qos_tenant *t = &q->tenants[index];
    t->state = QOS_TENANT_FREE;
    t->next = q->tenant_free;
    q->tenant_free = index;
}

void qos_tenant_drop(struct qos *q, uint32_t index)
{
    struct qos_tenant *t = &q->tenants[index];
    int r = snic_gimbal_tenant_remove(q->gimbal, index);
    SNIC_ASSERT(r == 0);
    (void)r;
    qos_tenant_unhash(q, index);
    snic_link_remove(&t->idle);
    q->automatic -= (uint32_t)t->automatic;
    q->tenants_added--;
    t->automatic = 0;
    if (t->requests == 0)
        qos_tenant_free(q, index);
    else
        t->state = QOS_TENANT_LEAVING; /* Q6 */
}

/**
 * The automatic tenant that has been idle longest leaves, if for @p idle_ns at least: for one with
 * the options @p o, which are checked first, so that a refused request evicts no tenant.
 * @return 0; SNIC_EINVAL; SNIC_ENOSPC
 */
static int qos_tenant_evict(struct qos *q, const struct snic_gimbal_tenant_opts *o,
                            uint64_t idle_ns)
{
    struct qos_tenant *t;
    uint32_t index;
    if (snic_link_alone(&q->idle))
        return SNIC_ENOSPC;
    t = SNIC_CONTAINER(q->idle.next, struct qos_tenant, idle);
    if (q->now_ns - t->idle_ns < idle_ns)
        return SNIC_ENOSPC;
    index = (uint32_t)(t - q->tenants);
    if (o != NULL && snic_gimbal_tenant_set(q->gimbal, index, o) != 0)
        return SNIC_EINVAL;
    qos_tenant_drop(q, index);
    q->evicted++;
    return 0;
}

/** @return 0; SNIC_EINVAL; SNIC_ENOSPC */
int qos_tenant_add(struct qos *q, uint32_t id, const struct snic_gimbal_tenant_opts *o,
                   uint64_t idle_ns, uint32_t *out)
{
    uint32_t *bucket = qos_tenant_bucket(q, id);
    uint32_t index;
    struct qos_tenant *t;
    int r = q->tenant_free == SNIC_QOS__NONE ? qos_tenant_evict(q, o, idle_ns) : 0;
    if (r != 0)
        return r;
    index = q->tenant_free;
    t = &q->tenants[index];
    r = snic_gimbal_tenant_add(q->gimbal, index, o);
    if (r != 0)
        return r; /* SNIC_EINVAL: the engine's index is as free as ours (Q6) */
    q->tenant_free = t->next;
    memset(t, 0, sizeof(*t));
    snic_link_init(&t->idle);
    t->id = id;
    t->state = QOS_TENANT_ADDED;
    t->next = *bucket;
    *bucket = index;
    if (q->waits != NULL)
        snic_hist_reset(&q->waits[index]);
    q->tenants_added++;
    *out = index;
    return 0;
}

void qos_tenants_init(struct qos *q)
{
    uint32_t buckets = (uint32_t)snic_pow2_up((uint64_t)q->opts.tenants_max * 2);
    memset(q->buckets, 0xff, buckets * sizeof(*q->buckets)); /* NONE */
    q->bucket_shift = (uint32_t)__builtin_clz(buckets) + 1;
    snic_link_init(&q->idle);
    q->tenant_free = SNIC_QOS__NONE;
    for (uint32_t i = q->opts.tenants_max; i > 0; i--) {
        snic_link_init(&q->tenants[i].idle);
        qos_tenant_free(q, i);
    }
    snic_link_init(&q->tenants[0].idle);
    q->tenants[0].id = SNIC_QOS_DEFAULT;
    q->tenants[0].state = QOS_TENANT_ADDED;
}

uint32_t qos_tenant_of(struct qos *q, uint32_t id)
{
    uint32_t index = qos_tenant_find_any(q, id);
    if (index != SNIC_QOS__NONE)
        return index;
    if ((q->opts.flags & SNIC_QOS_AUTO) != 0 &&
        qos_tenant_add(q, id, &q->tenant_opts, q->opts.idle_ns, &index) == 0) {
        struct qos_tenant *t = &q->tenants[index];
        t->automatic = 1;
        t->idle_ns = q->now_ns;
        q->automatic++;
        snic_link_append(&q->idle, &t->idle);
        return index;
    }
    q->unknown++;
    return 0;
}

void qos_tenant_enter(struct qos *q, uint32_t index)
{
    struct qos_tenant *t = &q->tenants[index];
    t->requests++;
    snic_link_remove(&t->idle); /* Q7 */
}

void qos_tenant_leave(struct qos *q, uint32_t index)
{
    struct qos_tenant *t = &q->tenants[index];
    SNIC_ASSERT(t->requests > 0);
    t->requests--;
    if (t->requests > 0)
        return;
    if (t->state == QOS_TENANT_LEAVING) {
        qos_tenant_free(q, index);
    } else if (t->automatic) {
        t->idle_ns = q->now_ns;
        snic_link_append(&q->idle, &t->idle); /* Q7 */
    }
}

void qos_tenants_uncap(struct qos *q)
{
    for (uint32_t i = 0; i <= q->opts.tenants_max; i++) {
        struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o)};
        struct snic_gimbal_tenant_view v;
        if (q->tenants[i].state != QOS_TENANT_ADDED ||
            snic_gimbal_get_tenant_view(q->gimbal, i, &v) != 0)
            continue;
        o.weight = v.weight;
        int r = snic_gimbal_tenant_set(q->gimbal, i, &o);
        SNIC_ASSERT(r == 0);
        (void)r;
    }
    /* Those of tenants that were removed. */
    for (uint32_t i = 1; i <= q->groups_max; i++) {
        struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o)};
        (void)!snic_gimbal_group_set(q->gimbal, i, &o); /* SNIC_ENOENT: no such group */
    }
}

/* ---- Check ---- */

int qos_tenants_check(const struct qos *q)
{
    uint32_t requests = 0;
    uint32_t automatic = 0;
    uint32_t idle = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i <= q->opts.tenants_max; i++) {
        const struct qos_tenant *t = &q->tenants[i];
        requests += t->requests;
        automatic += t->state == QOS_TENANT_ADDED && t->automatic;
        idle += t->automatic && t->requests == 0;
        if (i > 0 && (t->state == QOS_TENANT_ADDED) != (qos_tenant_find(q, t->id) == i))
            return SNIC_ECORRUPT;
        if ((t->state == QOS_TENANT_FREE && t->requests > 0) ||
            (t->state == QOS_TENANT_LEAVING && t->requests == 0))
            return SNIC_ECORRUPT;
    }
    for (const struct snic_link *l = q->idle.next; l != &q->idle; l = l->next) {
        const struct qos_tenant *t = SNIC_CONTAINER(l, const struct qos_tenant, idle);
        if (t->requests > 0 || !t->automatic || t->idle_ns < before)
            return SNIC_ECORRUPT; /* Q7 */
        before = t->idle_ns;
        idle--;
    }
    return idle == 0 && automatic == q->automatic && requests <= q->requests ? 0 : SNIC_ECORRUPT;
}
