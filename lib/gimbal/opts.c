/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options of a switch and of a tenant: defaults, ranges, and the text that names a wrong one.
 */
#include "gimbal/gimbal_priv.h"

#include <stddef.h>

struct gimbal_range {
    uint32_t offset;
    uint32_t bytes; /* 4 or 8 */
    uint64_t preset;
    uint64_t min;
    uint64_t max;
    const char *wrong;
};

#define SNIC_GIMBAL__FIELD(field)                                                                  \
    offsetof(struct snic_gimbal_opts, field), sizeof(((struct snic_gimbal_opts *)0)->field)

static const struct gimbal_range gimbal_ranges[] = {
    {SNIC_GIMBAL__FIELD(tenants_max), 64, 1, SNIC_GIMBAL_TENANTS_MAX, "tenants_max: not 1..4096"},
    {SNIC_GIMBAL__FIELD(queue_max), 4096, 1, SNIC_GIMBAL_QUEUE_MAX, "queue_max: not 1..2^20"},
    {SNIC_GIMBAL__FIELD(size_max), 8u << 20, 1, SNIC_GIMBAL_SIZE_MAX, "size_max: not 1..64 MiB"},
    {SNIC_GIMBAL__FIELD(slot_bytes), 128u << 10, 512, SNIC_GIMBAL_SLOT_MAX,
     "slot_bytes: not 512..4 MiB"},
    {SNIC_GIMBAL__FIELD(slot_threshold), 8, 1, SNIC_GIMBAL__SLOTS, "slot_threshold: not 1..64"},
    {SNIC_GIMBAL__FIELD(quantum_bytes), 128u << 10, 512, SNIC_GIMBAL_SLOT_MAX,
     "quantum_bytes: not 512..4 MiB"},
    {SNIC_GIMBAL__FIELD(thresh_min_ns), 250000, 1, SNIC_GIMBAL_NS_MAX,
     "thresh_min_ns: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(thresh_max_ns), 1500000, 2, SNIC_GIMBAL_NS_MAX,
     "thresh_max_ns: not 2..2^40"},
    {SNIC_GIMBAL__FIELD(alpha_d_shift), 1, 1, 8, "alpha_d_shift: not 1..8"},
    {SNIC_GIMBAL__FIELD(alpha_t_shift), 1, 1, 8, "alpha_t_shift: not 1..8"},
    {SNIC_GIMBAL__FIELD(beta), 8, 1, 1024, "beta: not 1..1024"},
    {SNIC_GIMBAL__FIELD(write_cost_worst), 9 * SNIC_GIMBAL_COST_ONE, SNIC_GIMBAL_COST_ONE,
     SNIC_GIMBAL_COST_MAX, "write_cost_worst: not 16..512"},
    {SNIC_GIMBAL__FIELD(write_cost_delta), SNIC_GIMBAL_COST_ONE / 2, 1, SNIC_GIMBAL_COST_MAX,
     "write_cost_delta: not 1..512"},
    {SNIC_GIMBAL__FIELD(bucket_bytes), 256u << 10, 512, SNIC_GIMBAL_SIZE_MAX,
     "bucket_bytes: not 512..64 MiB"},
    {SNIC_GIMBAL__FIELD(rate_start), 50000000, 1, SNIC_GIMBAL_RATE_MAX, "rate_start: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(rate_min), 4000000, 1, SNIC_GIMBAL_RATE_MAX, "rate_min: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(rate_max), UINT64_C(8000000000), 1, SNIC_GIMBAL_RATE_MAX,
     "rate_max: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(cost_period_ns), 20000000, 1, SNIC_GIMBAL_NS_MAX,
     "cost_period_ns: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(rate_window_ns), 10000000, 1, SNIC_GIMBAL_NS_MAX,
     "rate_window_ns: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(lost_ns), UINT64_C(2000000000), 1, SNIC_GIMBAL_NS_MAX,
     "lost_ns: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(idle_ns), 1000000, 1, SNIC_GIMBAL_NS_MAX, "idle_ns: not 1..2^40"},
    {SNIC_GIMBAL__FIELD(groups_max), 0, 0, SNIC_GIMBAL_GROUPS_MAX, "groups_max: not 0..1024"},
    {SNIC_GIMBAL__FIELD(slot_overlap), SNIC_GIMBAL_OVERLAP, 1, 16 * SNIC_GIMBAL_OVERLAP_ONE,
     "slot_overlap: not 1..4096"},
};

/* The field's value, its default filled in where it was 0. */
static uint64_t gimbal_opts_field(struct snic_gimbal_opts *o, const struct gimbal_range *r)
{
    unsigned char *at = (unsigned char *)o + r->offset;
    uint64_t value = 0;
    uint32_t low = 0;
    if (r->bytes == sizeof(low)) {
        memcpy(&low, at, sizeof(low));
        value = low;
    } else {
        memcpy(&value, at, sizeof(value));
    }
    if (value != 0)
        return value;
    low = (uint32_t)r->preset;
    if (r->bytes == sizeof(low))
        memcpy(at, &low, sizeof(low));
    else
        memcpy(at, &r->preset, sizeof(r->preset));
    return r->preset;
}

const char *gimbal_opts_fill(struct snic_gimbal_opts *full, const struct snic_gimbal_opts *o)
{
    const uint32_t flags = SNIC_GIMBAL_DISCARD | SNIC_GIMBAL_SLOT_ABOVE | SNIC_GIMBAL_SLOT_BARRIER |
                           SNIC_GIMBAL_ONE_BUCKET | SNIC_GIMBAL_CREDIT_LATEST |
                           SNIC_GIMBAL_NO_EXPRESS | SNIC_GIMBAL_LEARN;
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if ((full->flags & ~flags) != 0)
        return "flags: unknown bits";
    for (size_t i = 0; i < SNIC_COUNTOF(gimbal_ranges); i++) {
        const struct gimbal_range *r = &gimbal_ranges[i];
        uint64_t value = gimbal_opts_field(full, r);
        if (value < r->min || value > r->max)
            return r->wrong;
    }
    if (full->thresh_min_ns >= full->thresh_max_ns)
        return "thresh_min_ns: not below thresh_max_ns";
    if (full->rate_start < full->rate_min || full->rate_start > full->rate_max)
        return "rate_start: not rate_min..rate_max";
    return NULL;
}

int gimbal_opts_rate_open(const struct snic_gimbal_opts *o)
{
    struct snic_gimbal_opts in = {0};
    return snic_opts_copy(&in, (uint32_t)sizeof(in), o) == 0 && in.rate_max == 0;
}

const char *gimbal_tenant_opts_fill(struct snic_gimbal_tenant_opts *full,
                                    const struct snic_gimbal_tenant_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (o != NULL && snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (full->weight == 0)
        full->weight = 1;
    for (unsigned p = 0; p < SNIC_GIMBAL_PRIORITIES; p++) {
        if (full->priority_weight[p] == 0)
            full->priority_weight[p] = (uint8_t)(1u << p);
    }
    if (full->weight > SNIC_GIMBAL_WEIGHT_MAX)
        return "weight: not 1..256";
    if (full->bytes_per_second > SNIC_GIMBAL__CAP_MAX)
        return "bytes_per_second: above 2^40";
    if (full->ios_per_second > SNIC_GIMBAL__CAP_MAX)
        return "ios_per_second: above 2^40";
    if (full->floor_bytes_per_second > SNIC_GIMBAL__CAP_MAX)
        return "floor_bytes_per_second: above 2^40";
    if (full->floor_ios_per_second > SNIC_GIMBAL__CAP_MAX)
        return "floor_ios_per_second: above 2^40";
    if (full->bytes_per_second != 0 && full->floor_bytes_per_second > full->bytes_per_second)
        return "floor_bytes_per_second: above bytes_per_second";
    if (full->ios_per_second != 0 && full->floor_ios_per_second > full->ios_per_second)
        return "floor_ios_per_second: above ios_per_second";
    if (full->group > SNIC_GIMBAL_GROUPS_MAX)
        return "group: not 0..1024";
    if (full->reserved != 0)
        return "reserved: not 0";
    return NULL;
}

const char *snic_gimbal_opts_wrong(const struct snic_gimbal_opts *o)
{
    struct snic_gimbal_opts full;
    return gimbal_opts_fill(&full, o);
}

const char *snic_gimbal_tenant_opts_wrong(const struct snic_gimbal_tenant_opts *o)
{
    struct snic_gimbal_tenant_opts full;
    return gimbal_tenant_opts_fill(&full, o);
}
