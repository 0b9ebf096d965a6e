/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Servers: their numbers, and what their answers mean for an RPC, whatever the transport.
 */
#include "ebs/queue_priv.h"

/* ---- Numbers ---- */

int ebs_server_add(struct ebs_queue *q, uint32_t server, uint64_t now_ns)
{
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    if (server >= q->o.servers_max)
        return SNIC_EINVAL;
    if (q->loads[server].used)
        return SNIC_EEXIST;
    q->loads[server].used = 1;
    q->servers_high = (uint32_t)snic_max_u64(q->servers_high, server + 1);
    return 0;
}

int ebs_server_release(struct ebs_queue *q, uint32_t server, int forget, uint64_t now_ns)
{
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    if (server >= q->o.servers_max || !q->loads[server].used)
        return SNIC_ENOENT;
    if (q->loads[server].rpcs > 0 || (!forget && ebs_queue_mapped(q, server, 0) != 0))
        return SNIC_EBUSY;
    (void)ebs_queue_mapped(q, server, 1);
    return 0;
}

void ebs_server_removed(struct ebs_queue *q, struct ebs_load *l)
{
    SNIC_ASSERT(l->rpcs == 0 && l->backlog == 0);
    (void)q;
    snic_link_remove(&l->event);
    memset(l, 0, sizeof(*l));
    snic_link_init(&l->event);
}

void ebs_server_suspect(struct ebs_queue *q, struct ebs_load *l, int suspect)
{
    l->suspect = (uint8_t)suspect;
    if (suspect)
        ebs_lookups_expire_now(&q->lookups, q->now_ns);
    if (snic_link_alone(&l->event))
        snic_link_append(&q->server_events, &l->event);
}

/* ---- Answers ---- */

void ebs_rpc_acknowledged(struct ebs_queue *q, struct ebs_rpc *r)
{
    ebs_busy_clear(&q->loads[r->server].busy);
    ebs_disk_token_accepted(&q->disks[r->disk]);
    ebs_rpc_answered(q, r);
}

static enum ebs_verdict ebs_rpc_lease_lost(struct ebs_queue *q, struct ebs_rpc *r)
{
    ebs_queue_lease_lost(q, r->disk);
    q->ops->end(q, r, SNIC_ESTALE);
    return EBS_VERDICT_OVER;
}

enum ebs_verdict ebs_rpc_verdict(struct ebs_queue *q, struct ebs_rpc *r, uint32_t status)
{
    if (status >= SNIC_EBS_STATUS_END)
        return EBS_VERDICT_REFUSED; /* of a later version */
    switch ((enum snic_ebs_status)status) {
    case SNIC_EBS_SUPERSEDED:
        if (r->wver == q->disks[r->disk].wver) /* there is no later write of this lease */
            return ebs_rpc_lease_lost(q, r);
        return EBS_VERDICT_DONE;
    case SNIC_EBS_OK:
        return EBS_VERDICT_DONE;
    case SNIC_EBS_BAD_CRC:
        return EBS_VERDICT_DAMAGED;
    case SNIC_EBS_BUSY:
        q->s.busy++;
        ebs_busy_refused(&q->loads[r->server].busy, q->now_ns);
        return EBS_VERDICT_BUSY;
    case SNIC_EBS_STALE_GEN:
    case SNIC_EBS_NO_SEGMENT:
        return EBS_VERDICT_MOVED;
    case SNIC_EBS_FENCED:
    case SNIC_EBS_NO_LEASE:
        return ebs_rpc_lease_lost(q, r);
    case SNIC_EBS_NO_CONN:
    case SNIC_EBS_BAD_VERSION:
    case SNIC_EBS_BAD_FLAGS:
    case SNIC_EBS_BAD_AUTH:
    case SNIC_EBS_UNPROVEN:
        return EBS_VERDICT_CONNECTION;
    case SNIC_EBS_NO_TOKEN:
        return EBS_VERDICT_NO_TOKEN;
    case SNIC_EBS_IO:
        ebs_busy_failed(&q->loads[r->server].busy, q->now_ns);
        return EBS_VERDICT_REFUSED;
    case SNIC_EBS_INVALID:
    case SNIC_EBS_DAMAGED:
    case SNIC_EBS_NO_SPACE:
    case SNIC_EBS_FORBIDDEN:
    case SNIC_EBS_GEN_AHEAD: /* of fences */
    case SNIC_EBS_STATUS_END:
    default:
        return EBS_VERDICT_REFUSED;
    }
}

int ebs_rpc_fence_matches(const struct ebs_rpc *r, uint32_t server, const struct snic_ebs_header *h)
{
    return r->where == EBS_RPC_FENCING && r->server == server && h->u.block.seg_id == r->seg_id &&
           h->u.block.seg_gen == r->seg_gen && h->u.block.wver > r->wver;
}

int ebs_rpc_fence_answered(struct ebs_queue *q, struct ebs_rpc *r, uint32_t status)
{
    struct ebs_disk *d = &q->disks[r->disk];
    int no_token = status == SNIC_EBS_NO_TOKEN, send_token = no_token && ebs_disk_has_token(d);
    if (status == SNIC_EBS_OK)
        ebs_busy_clear(&q->loads[r->server].busy);
    else if (status == SNIC_EBS_IO)
        ebs_busy_failed(&q->loads[r->server].busy, q->now_ns);
    if (no_token && !send_token)
        ebs_disk_token_refused(q, d);
    /* A newer generation or lease there refuses our writes as a fence does, and so does a server
       that accepts no token of ours; with GEN_AHEAD the server has an older one, and writes in
       flight may be applied when it is raised. */
    if (status == SNIC_EBS_OK || status == SNIC_EBS_STALE_GEN || status == SNIC_EBS_NO_SEGMENT ||
        status == SNIC_EBS_NO_LEASE || status == SNIC_EBS_FORBIDDEN || (no_token && !send_token))
        q->ops->end(q, r, r->result);
    else
        ebs_rpc_fence_refused(q, r);
    return send_token;
}
