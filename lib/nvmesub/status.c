/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Snapshots for the owner's status pages. */
#include "nvmesub/nvmesub_priv.h"

void snic_nvmesub_get_stats(const struct snic_nvmesub *s, struct snic_nvmesub_stats *out)
{
    *out = s->stats;
}

int snic_nvmesub_get_ctrl(const struct snic_nvmesub *s, uint32_t index,
                          struct snic_nvmesub_ctrl_status *out)
{
    if (index >= s->opts.controllers_max || s->ctrls[index].state == NVMESUB_CTRL_FREE)
        return SNIC_ENOENT;
    const struct nvmesub_ctrl *c = &s->ctrls[index];
    memset(out, 0, sizeof(*out));
    out->cntlid = nvmesub_cntlid(s, c);
    out->port = c->admin != SNIC_NVMESUB__NONE ? (uint16_t)s->conns[c->admin].peer.port : 0;
    out->host = c->host;
    out->queues = c->io;
    out->cc = c->cc;
    out->csts = c->csts;
    out->kato_ms = c->kato_ms;
    out->ending = c->state == NVMESUB_CTRL_ENDING;
    memcpy(out->hostid, s->hosts[c->host].hostid, 16);
    memcpy(out->hostnqn, s->hosts[c->host].nqn, sizeof(out->hostnqn));
    return 0;
}

int snic_nvmesub_get_ns(const struct snic_nvmesub *s, uint32_t nsid,
                        struct snic_nvmesub_ns_status *out)
{
    if (nsid == 0 || nsid > s->opts.namespaces_max || !s->ns[nsid - 1].used)
        return SNIC_ENOENT;
    const struct nvmesub_ns *n = &s->ns[nsid - 1];
    memset(out, 0, sizeof(*out));
    out->blocks = n->blocks;
    out->nsid = nsid;
    out->shift = n->shift;
    out->group = n->group;
    out->read_only = n->read_only;
    out->removing = n->removing;
    out->rtype = n->rtype;
    out->holder = n->holder;
    out->registrants = n->registrants;
    out->generation = n->resv_gen;
    out->ptpl = n->ptpl;
    return 0;
}
