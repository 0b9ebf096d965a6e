/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What commands of a namespace wait for: its record to be stored, its threads to be quiet.
 *   S1 One QUIESCE of a namespace is out at a time: quiesce_sent - quiesce_done is 0 or 1. What is
 *      wanted meanwhile goes into the next one.
 */
#include "nvmesub/nvmesub_priv.h"

void nvmesub_quiesce_next(struct snic_nvmesub *s, struct nvmesub_ns *n)
{
    if (n->quiesce_sent != n->quiesce_done) /* S1 */
        return;
    if (!n->abort_wanted && (!n->removing || n->removal_sent))
        return;
    n->abort_wanted = 0;
    n->removal_sent = n->removing;
    n->quiesce_sent++;
    nvmesub_out_push(s, &n->quiesce, SNIC_NVMESUB_QUIESCE);
}

void nvmesub_ns_wake(struct snic_nvmesub *s, struct nvmesub_ns *n, int error)
{
    for (struct snic_link *l = n->waiting.next, *next; l != &n->waiting; l = next) {
        struct snic_nvmesub_cmd *cmd = SNIC_CONTAINER(l, struct snic_nvmesub_cmd, link);
        next = l->next;
        if ((cmd->waits & SNIC_NVMESUB__WAIT_PERSIST) != 0 && n->persist_done >= cmd->wait[0]) {
            cmd->waits &= (uint8_t)~SNIC_NVMESUB__WAIT_PERSIST;
            if (error != 0)
                cmd->status = SNIC_NVME_SC_INTERNAL;
        }
        if ((cmd->waits & SNIC_NVMESUB__WAIT_QUIESCE) != 0 && n->quiesce_done >= cmd->wait[1])
            cmd->waits &= (uint8_t)~SNIC_NVMESUB__WAIT_QUIESCE;
        if (cmd->waits == 0)
            nvmesub_complete(s, cmd, cmd->status);
    }
}

void nvmesub_persist(struct snic_nvmesub *s, struct nvmesub_ns *n, struct snic_nvmesub_cmd *cmd)
{
    n->persist_want++;
    nvmesub_out_push(s, &n->persist, SNIC_NVMESUB_PERSIST);
    cmd->wait[0] = n->persist_want;
    cmd->waits |= SNIC_NVMESUB__WAIT_PERSIST;
}

void snic_nvmesub_persisted(struct snic_nvmesub *s, uint32_t nsid, uint64_t sequence, int error)
{
    SNIC_ASSERT(nsid != 0 && nsid <= s->opts.namespaces_max);
    struct nvmesub_ns *n = &s->ns[nsid - 1];
    SNIC_ASSERT(sequence <= n->persist_sent);
    if (sequence <= n->persist_done)
        return;
    n->persist_done = sequence;
    nvmesub_ns_wake(s, n, error);
}
