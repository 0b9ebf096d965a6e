/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options, and those of the engines that follow from them. */
#include "nvmet/nvmet_priv.h"

static const char *nvmet_opts_bad(const struct snic_nvmet_opts *o)
{
    if ((o->flags & ~SNIC_NVMET_STEER_CPU) != 0 || o->reserved != 0)
        return "flags: unknown bits";
    if (o->conns_max < 2 || o->conns_max > SNIC_NVMET_CONNS_MAX)
        return "conns_max: not 2..16384";
    if (o->loops_max > SNIC_NVMET_LOOPS_MAX)
        return "loops_max: above 16";
    if (o->conns_max * o->loops_max > SNIC_NVMET_CONNS_MAX)
        return "loops_max: more than 16384 connections together";
    if (o->host_conns_max > o->conns_max * o->loops_max)
        return "host_conns_max: above conns_max of all loops";
    if (o->subsystems_max > SNIC_NVMET_SUBSYSTEMS_MAX)
        return "subsystems_max: above 64";
    if (o->namespaces_max > SNIC_NVMET_NAMESPACES_MAX)
        return "namespaces_max: above 4096";
    if (o->queues_max > 64)
        return "queues_max: above 64";
    if (o->depth_max < SNIC_NVMESUB_ADMIN_DEPTH || o->depth_max > SNIC_NVMET_DEPTH_MAX)
        return "depth_max: not 32..1024";
    if (o->data_max < SNIC_NVMET__PAGE || o->data_max > 1U << 20 || !snic_is_pow2(o->data_max))
        return "data_max: not 4096 x 2^n up to 1 MiB";
    if (o->data_bytes < 2 * o->data_max || o->data_bytes > SNIC_NVMET_DATA_BYTES_MAX ||
        o->data_bytes % SNIC_NVMET__PAGE != 0)
        return "data_bytes: not a multiple of 4096 from 2 data_max to 64 MiB";
    if (o->capsule_bytes > 1U << 20 || o->capsule_bytes % 16 != 0)
        return "capsule_bytes: not a multiple of 16 up to 1 MiB";
    if (o->capsules > o->depth_max)
        return "capsules: above depth_max";
    if (o->greet_ns > SNIC_NVMETCP_NS_MAX)
        return "greet_ns: above 2^60";
    if (o->data_ns > SNIC_NVMETCP_NS_MAX)
        return "data_ns: above 2^60";
    if (o->close_ns > SNIC_NVMETCP_NS_MAX)
        return "close_ns: above 2^60";
    return NULL;
}

/* As many as data_bytes would hold: a write with its data in the capsule should wait for buffers no
 * sooner than one without. */
static uint32_t nvmet_opts_capsules(const struct snic_nvmet_opts *o)
{
    uint64_t each = snic_align_up(snic_max_u64(o->capsule_bytes, 8192), SNIC_NVMET__PAGE);
    return (uint32_t)snic_min_u64(o->depth_max, snic_max_u64(o->data_bytes / each, 16));
}

int nvmet_opts(struct snic_nvmet_opts *full, const struct snic_nvmet_opts *o, const char **wrong)
{
    memset(full, 0, sizeof(*full));
    *wrong = "opts_size: not that of the struct";
    if (snic_opts_copy(full, sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    full->conns_max += full->conns_max == 0 ? 64 : 0;
    full->loops_max += full->loops_max == 0 ? 1 : 0;
    if (full->host_conns_max == 0)
        full->host_conns_max = (uint32_t)snic_max_u64(full->conns_max / 2, 2);
    full->subsystems_max += full->subsystems_max == 0 ? 4 : 0;
    full->namespaces_max += full->namespaces_max == 0 ? 32 : 0;
    full->queues_max += full->queues_max == 0 ? 8 : 0;
    full->depth_max += full->depth_max == 0 ? 128 : 0;
    full->data_max += full->data_max == 0 ? 128U << 10 : 0;
    if (full->data_bytes == 0 && full->data_max <= 1U << 20)
        full->data_bytes = (uint32_t)snic_max_u64(1U << 20, 2 * full->data_max);
    full->capsule_bytes += full->capsule_bytes == 0 ? 8192 : 0;
    if (full->capsules == 0)
        full->capsules = nvmet_opts_capsules(full);
    full->greet_ns += full->greet_ns == 0 ? UINT64_C(10000000000) : 0;
    full->data_ns += full->data_ns == 0 ? UINT64_C(10000000000) : 0;
    full->close_ns += full->close_ns == 0 ? UINT64_C(10000000000) : 0;
    *wrong = nvmet_opts_bad(full);
    return *wrong == NULL ? 0 : SNIC_EINVAL;
}

const char *snic_nvmet_opts_wrong(const struct snic_nvmet_opts *o)
{
    struct snic_nvmet_opts full;
    const char *wrong;
    (void)nvmet_opts(&full, o, &wrong);
    return wrong;
}

/* A grant stays in use until its R2T was reported as sent, which may be after its data came: so
 * there are twice as many as commands. */
void nvmet_target_opts(const struct snic_nvmet_opts *o, struct snic_nvmetcp_target_opts *t)
{
    memset(t, 0, sizeof(*t));
    t->opts_size = sizeof(*t);
    t->depth_max = o->depth_max;
    t->inline_max = (uint32_t)snic_max_u64(o->capsule_bytes, 8192);
    t->inline_buffers = o->capsules;
    t->grants_max = 2 * o->depth_max;
    t->transfer_max = o->data_max;
    t->greet_ns = o->greet_ns;
    t->data_ns = o->data_ns;
    t->close_ns = o->close_ns;
}

void nvmet_sub_opts(const struct snic_nvmet_opts *o, struct snic_nvmesub_opts *s)
{
    memset(s, 0, sizeof(*s));
    s->opts_size = sizeof(*s);
    uint32_t conns = o->conns_max * o->loops_max;
    s->controllers_max = (uint32_t)snic_min_u64(conns, SNIC_NVMESUB_CONTROLLERS_MAX);
    s->conns_max = conns;
    s->namespaces_max = o->namespaces_max;
    s->hosts_max = (uint32_t)snic_min_u64(conns, SNIC_NVMESUB_HOSTS_MAX);
    s->allowed_max = SNIC_NVMET__HOSTS * o->subsystems_max;
    s->entries_max = o->subsystems_max * SNIC_NVMESUB_PORTS_MAX;
    s->queues_max = o->queues_max;
    s->depth_max = o->depth_max;
    s->data_max = o->data_max;
    s->capsule_bytes = o->capsule_bytes;
    s->subnqn = SNIC_NVME_DISCOVERY_NQN; /* to measure */
}
