/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options: defaults and ranges. */
#include "nvmesub/nvmesub_priv.h"

struct nvmesub_limit {
    size_t offset;
    uint32_t least;
    uint32_t most;
    uint32_t preset;
    const char *wrong;
};

#define SNIC_NVMESUB__LIMIT(field, least, most, preset, text)                                      \
    {                                                                                              \
        offsetof(struct snic_nvmesub_opts, field), least, most, preset, #field ": " text           \
    }

static const struct nvmesub_limit nvmesub_limits[] = {
    SNIC_NVMESUB__LIMIT(controllers_max, 1, SNIC_NVMESUB_CONTROLLERS_MAX, 64, "1..4096"),
    SNIC_NVMESUB__LIMIT(conns_max, 1, SNIC_NVMESUB_CONNS_MAX, 1024, "1..16384"),
    SNIC_NVMESUB__LIMIT(namespaces_max, 1, SNIC_NVMESUB_NAMESPACES_MAX, 256, "1..4096"),
    SNIC_NVMESUB__LIMIT(hosts_max, 1, SNIC_NVMESUB_HOSTS_MAX, 64, "1..1024"),
    SNIC_NVMESUB__LIMIT(allowed_max, 1, SNIC_NVMESUB_ALLOWED_MAX, 64, "1..4096"),
    SNIC_NVMESUB__LIMIT(groups_max, 1, SNIC_NVMESUB_GROUPS_MAX, 16, "1..128"),
    SNIC_NVMESUB__LIMIT(entries_max, 1, SNIC_NVMESUB_ENTRIES_MAX, 64, "1..4096"),
    SNIC_NVMESUB__LIMIT(queues_max, 1, SNIC_NVMESUB_IO_QUEUES_MAX, 16, "1..1024"),
    SNIC_NVMESUB__LIMIT(depth_max, 2, SNIC_NVMESUB_DEPTH_MAX, 128, "2..4096"),
    SNIC_NVMESUB__LIMIT(data_max, 4096, SNIC_NVMESUB_DATA_MAX, 1U << 20, "4096 x 2^n up to 32 MiB"),
    SNIC_NVMESUB__LIMIT(capsule_bytes, 16, 1U << 20, 8192, "16 x n up to 1 MiB"),
    SNIC_NVMESUB__LIMIT(kato_ms_max, 1, SNIC_NVMESUB_KATO_MS_MAX, SNIC_NVMESUB_KATO_MS_MAX,
                        "1..86400000"),
};

#undef SNIC_NVMESUB__LIMIT

int nvmesub_nqn_fine(const char *nqn, size_t size)
{
    const char *end = memchr(nqn, 0, size);
    return end != NULL && end != nqn && end - nqn <= (ptrdiff_t)SNIC_NVME_NQN_LENGTH;
}

static const char *nvmesub_opts_fill(struct snic_nvmesub_opts *o,
                                     const struct snic_nvmesub_opts *in)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: unset, or from a newer version";
    for (size_t i = 0; i < SNIC_COUNTOF(nvmesub_limits); i++) {
        const struct nvmesub_limit *l = &nvmesub_limits[i];
        uint32_t v;
        memcpy(&v, (char *)o + l->offset, sizeof(v));
        if (v == 0)
            v = l->preset;
        if (v < l->least || v > l->most)
            return l->wrong;
        memcpy((char *)o + l->offset, &v, sizeof(v));
    }
    if ((o->flags & ~(SNIC_NVMESUB_DISCOVERY | SNIC_NVMESUB_ANY_HOST | SNIC_NVMESUB_NO_VWC)) != 0)
        return "flags: unknown bits";
    if (!snic_is_pow2(o->data_max))
        return "data_max: 4096 x 2^n up to 32 MiB";
    if (o->capsule_bytes % 16 != 0)
        return "capsule_bytes: 16 x n up to 1 MiB";
    if ((o->flags & SNIC_NVMESUB_DISCOVERY) != 0)
        o->subnqn = SNIC_NVME_DISCOVERY_NQN;
    if (o->subnqn == NULL || !nvmesub_nqn_fine(o->subnqn, SNIC_NVME_NQN_BYTES))
        return "subnqn: 1..223 characters";
    o->serial = o->serial != NULL ? o->serial : "0";
    o->model = o->model != NULL ? o->model : "snicstore";
    o->firmware = o->firmware != NULL ? o->firmware : "";
    if (memchr(o->serial, 0, 21) == NULL)
        return "serial: at most 20 characters";
    if (memchr(o->model, 0, 41) == NULL)
        return "model: at most 40 characters";
    if (memchr(o->firmware, 0, 9) == NULL)
        return "firmware: at most 8 characters";
    return NULL;
}

int nvmesub_opts_read(struct snic_nvmesub_opts *out, const struct snic_nvmesub_opts *in)
{
    struct snic_nvmesub_opts o;
    if (nvmesub_opts_fill(&o, in) != NULL)
        return SNIC_EINVAL;
    *out = o;
    return 0;
}

const char *snic_nvmesub_opts_wrong(const struct snic_nvmesub_opts *o)
{
    struct snic_nvmesub_opts filled;
    return nvmesub_opts_fill(&filled, o);
}
