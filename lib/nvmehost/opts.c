/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options, and those of the engines that follow from them. */
#include "nvmehost/nvmehost_priv.h"

static int nvmehost_nqn_fine(const char *nqn)
{
    return nqn != NULL && nqn[0] != 0 && memchr(nqn, 0, SNIC_NVME_NQN_LENGTH + 1) != NULL;
}

static const char *nvmehost_opts_times(const struct snic_nvmehost_opts *o)
{
    if (o->connect_ns > SNIC_NVMETCP_NS_MAX)
        return "connect_ns: above 2^60";
    if (o->io_ns > SNIC_NVMETCP_NS_MAX)
        return "io_ns: above 2^60";
    if (o->loss_ns > SNIC_NVMETCP_NS_MAX && o->loss_ns != SNIC_NEVER)
        return "loss_ns: above 2^60";
    if (o->fence_ns > SNIC_NVMETCP_NS_MAX)
        return "fence_ns: above 2^60";
    if (o->backoff_ns > SNIC_NVMETCP_NS_MAX)
        return "backoff_ns: above 2^60";
    return NULL;
}

static const char *nvmehost_opts_bad(const struct snic_nvmehost_opts *o)
{
    if ((o->flags & ~(SNIC_NVMEHOST_VOLATILE | SNIC_NVMEHOST_CREDIT | SNIC_NVMEHOST_LOCK |
                      SNIC_NVMEHOST_TAKE)) != 0)
        return "flags: unknown bits";
    if (o->pad != 0)
        return "pad: not 0";
    if (o->addrs == NULL)
        return "addrs: none";
    if (o->addr_count < 1 || o->addr_count > SNIC_NVMEHOST_PATHS_MAX)
        return "addr_count: not 1..8";
    if (o->nsid == SNIC_NVME_NSID_ALL)
        return "nsid: not that of a namespace";
    if (!nvmehost_nqn_fine(o->subnqn))
        return "subnqn: not a name of 1..223 characters";
    if (!nvmehost_nqn_fine(o->hostnqn))
        return "hostnqn: not a name of 1..223 characters";
    if (o->queues > SNIC_NVMEHOST_QUEUES_MAX)
        return "queues: above 16";
    if (o->entries < 2 || o->entries > SNIC_NVMETCP_DEPTH_MAX)
        return "entries: not 2..4096";
    if (o->depth > SNIC_NVMEHOST_DEPTH_MAX)
        return "depth: above 4096";
    if ((o->digests & ~(SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST)) != 0)
        return "digests: unknown bits";
    if (o->command_max < 4096 || o->command_max > SNIC_NVMETCP_TRANSFER_MAX ||
        o->command_max % 4096 != 0)
        return "command_max: not a multiple of 4096 up to 1 GiB";
    if (o->transfer_max < 65536 || o->transfer_max > SNIC_NVMETCP_TRANSFER_MAX ||
        o->transfer_max % 65536 != 0)
        return "transfer_max: not a multiple of 65536 up to 1 GiB";
    if (o->kato_ms < 100 || o->kato_ms > 3600000)
        return "kato_ms: not 100..3600000";
    if (o->auth != NULL && o->random == NULL)
        return "random: none, with auth";
    return nvmehost_opts_times(o);
}

int nvmehost_opts(struct snic_nvmehost_opts *full, const struct snic_nvmehost_opts *o,
                  const char **wrong)
{
    memset(full, 0, sizeof(*full));
    *wrong = "opts_size: not that of the struct";
    if (snic_opts_copy(full, sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    full->nsid += full->nsid == 0;
    full->queues += full->queues == 0;
    full->entries += full->entries == 0 ? 128 : 0;
    full->depth += full->depth == 0 ? 128 : 0;
    full->command_max += full->command_max == 0 ? 1U << 20 : 0;
    full->transfer_max += full->transfer_max == 0 ? 16U << 20 : 0;
    full->kato_ms += full->kato_ms == 0 ? 5000 : 0;
    full->connect_ns += full->connect_ns == 0 ? UINT64_C(10000000000) : 0;
    full->io_ns += full->io_ns == 0 ? UINT64_C(30000000000) : 0;
    full->loss_ns += full->loss_ns == 0 ? UINT64_C(60000000000) : 0;
    full->backoff_ns += full->backoff_ns == 0 ? UINT64_C(5000000000) : 0;
    if (full->fence_ns == 0)
        full->fence_ns = full->kato_ms * UINT64_C(2000000) + UINT64_C(1000000000);
    *wrong = nvmehost_opts_bad(full);
    return *wrong == NULL ? 0 : SNIC_EINVAL;
}

void nvmehost_engine_opts(const struct snic_nvmehost_opts *o, uint32_t entries,
                          struct snic_nvmetcp_host_opts *out)
{
    memset(out, 0, sizeof(*out));
    out->opts_size = sizeof(*out);
    out->flags = SNIC_NVMETCP_NO_SQ_FLOW;
    out->digests = o->digests;
    out->entries = entries;
    out->transfer_max = (uint32_t)snic_max_u64(o->command_max, SNIC_NVMEHOST__DATA);
    out->greet_ns = o->connect_ns;
    out->close_ns = UINT64_C(1000000000);
}

const char *snic_nvmehost_opts_wrong(const struct snic_nvmehost_opts *o)
{
    struct snic_nvmehost_opts full;
    const char *wrong;
    (void)nvmehost_opts(&full, o, &wrong);
    return wrong;
}
