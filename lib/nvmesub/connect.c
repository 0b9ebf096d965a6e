/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The Connect command: who may, and to what. */
#include "nvmesub/nvmesub_priv.h"

/* Offsets that a refusal names: in the entry, and in the data. */
enum { NVMESUB_AT_QID = 42, NVMESUB_AT_SQSIZE = 44 };
#define SNIC_NVMESUB__AT(field)                                                                    \
    (SNIC_NVME_IATTR_DATA | (uint32_t)offsetof(struct snic_nvme_connect_data, field))

struct nvmesub_connect_args {
    const struct snic_nvme_connect_data *data;
    const char *hostnqn;
    const struct nvmesub_rule *rule;
    uint16_t qid;
    uint32_t depth;
    uint8_t cattr;
    uint32_t kato;
};

static uint32_t nvmesub_connect_invalid(struct nvmesub_req *r, uint32_t where)
{
    r->cmd->cqe.dw0 = where;
    return SNIC_NVMESUB__FAIL(CONNECT_PARAM);
}

static uint32_t nvmesub_rule_number(const struct snic_nvmesub *s, const struct nvmesub_rule *rule)
{
    return rule != NULL ? (uint32_t)(rule - s->rules) : SNIC_NVMESUB__NONE;
}

/** The controller of @p host is ending: later. */
static uint32_t nvmesub_connect_hold(struct nvmesub_req *r, uint32_t host)
{
    r->s->stats.held++;
    nvmesub_keep(r->cmd, &r->s->hosts[host].held, NVMESUB_CMD_HELD);
    return SNIC_NVMESUB__PENDING;
}

static void nvmesub_connect_take(struct nvmesub_conn *conn, const struct nvmesub_connect_args *a,
                                 uint8_t state)
{
    conn->state = state;
    conn->qid = a->qid;
    conn->depth = (uint16_t)a->depth;
    conn->head = 0;
    conn->no_sq_flow = (a->cattr & SNIC_NVME_CATTR_NO_SQ_FLOW) != 0;
    conn->auth = a->rule != NULL && (a->rule->flags & SNIC_NVMESUB_HOST_AUTH) != 0;
}

static uint32_t nvmesub_connect_admin(struct nvmesub_req *r, const struct nvmesub_connect_args *a)
{
    struct snic_nvmesub *s = r->s;
    if (snic_get_le16(&a->data->cntlid) != SNIC_NVME_CNTLID_DYNAMIC)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(cntlid));
    if (a->depth > snic_max_u64(SNIC_NVMESUB_ADMIN_DEPTH, s->opts.depth_max))
        return nvmesub_connect_invalid(r, NVMESUB_AT_SQSIZE);
    if (a->kato > s->opts.kato_ms_max)
        return SNIC_NVMESUB__FAIL(KATO_INVALID);
    uint32_t host = nvmesub_host_get(s, a->data->hostid, a->hostnqn);
    if (host == SNIC_NVMESUB__NONE)
        return SNIC_NVME_SC_CONNECT_BUSY;
    if (s->hosts[host].ending != 0)
        return nvmesub_connect_hold(r, host);
    struct nvmesub_ctrl *c = nvmesub_ctrl_new(s, r->conn, host, nvmesub_rule_number(s, a->rule));
    if (c == NULL) {
        nvmesub_host_put(s, host);
        return SNIC_NVME_SC_CONNECT_BUSY;
    }
    uint32_t unit = SNIC_NVMESUB__KATO_UNIT_MS;
    c->kato_ms = (a->kato + unit - 1) / unit * unit;
    nvmesub_connect_take(r->conn, a, NVMESUB_CONN_ADMIN);
    nvmesub_ctrl_arm(s, c);
    r->cmd->cqe.dw0 = nvmesub_cntlid(s, c) | (r->conn->auth ? SNIC_NVME_CONNECT_ATR : 0U);
    s->stats.connects++;
    return 0;
}

static uint32_t nvmesub_connect_io(struct nvmesub_req *r, const struct nvmesub_connect_args *a)
{
    struct snic_nvmesub *s = r->s;
    uint32_t cntlid = snic_get_le16(&a->data->cntlid);
    if (nvmesub_discovery(s) || a->qid > s->opts.queues_max)
        return nvmesub_connect_invalid(r, NVMESUB_AT_QID);
    if (a->depth > s->opts.depth_max)
        return nvmesub_connect_invalid(r, NVMESUB_AT_SQSIZE);
    if (cntlid == 0 || cntlid > s->opts.controllers_max ||
        s->ctrls[cntlid - 1].state != NVMESUB_CTRL_LIVE)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(cntlid));
    struct nvmesub_ctrl *c = &s->ctrls[cntlid - 1];
    const struct nvmesub_host *host = &s->hosts[c->host];
    const struct nvmesub_conn *admin = &s->conns[c->admin];
    if (strcmp(host->nqn, a->hostnqn) != 0)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(hostnqn));
    if (memcmp(host->hostid, a->data->hostid, 16) != 0)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(hostid));
    if (admin->peer.port != r->conn->peer.port)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(cntlid));
    if (admin->auth)
        return SNIC_NVMESUB__FAIL(AUTH_REQUIRED);
    if (c->csts != SNIC_NVME_CSTS_RDY || c->reset || c->shutdown)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    uint32_t other = c->queue[a->qid - 1];
    if (other != SNIC_NVMESUB__NONE && !s->conns[other].ended) {
        if (!s->conns[other].auth)
            return SNIC_NVMESUB__FAIL(SEQUENCE);
        nvmesub_conn_delete(s, &s->conns[other]); /* only a claim: it makes room */
    }
    if (host->ending != 0)
        return nvmesub_connect_hold(r, c->host);
    if (other != SNIC_NVMESUB__NONE)
        return SNIC_NVME_SC_CONNECT_BUSY;
    r->conn->ctrl = nvmesub_ctrl_slot(s, c);
    r->conn->epoch = c->epoch;
    nvmesub_connect_take(r->conn, a, NVMESUB_CONN_IO);
    snic_link_append(&c->conns, &r->conn->sibling);
    c->queue[a->qid - 1] = (uint32_t)(r->conn - s->conns);
    c->io++;
    r->cmd->cqe.dw0 = cntlid | (r->conn->auth ? SNIC_NVME_CONNECT_ATR : 0U);
    r->cmd->wait[0] = UINT64_MAX; /* poll attaches the queue */
    return 0;
}

static uint32_t nvmesub_connect_check(struct nvmesub_req *r)
{
    struct snic_nvmesub *s = r->s;
    struct nvmesub_connect_args a = {.data = r->cmd->data,
                                     .qid = (uint16_t)(r->sqe.cdw10 >> 16),
                                     .depth = (r->sqe.cdw11 & 0xffff) + 1,
                                     .cattr = (uint8_t)(r->sqe.cdw11 >> 16),
                                     .kato = r->sqe.cdw12};
    if (r->conn->state != NVMESUB_CONN_NEW)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    if (s->closing)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(subnqn));
    uint32_t status = nvmesub_data_in(r, sizeof(*a.data));
    if (status != 0)
        return status;
    if ((r->sqe.cdw10 & 0xffff) != 0)
        return SNIC_NVMESUB__FAIL(CONNECT_FORMAT);
    if (a.depth < 2)
        return nvmesub_connect_invalid(r, NVMESUB_AT_SQSIZE);
    if (!nvmesub_nqn_fine((const char *)a.data->subnqn, SNIC_NVME_NQN_BYTES) ||
        strcmp((const char *)a.data->subnqn, s->subnqn) != 0)
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(subnqn));
    a.hostnqn = (const char *)a.data->hostnqn;
    if (!nvmesub_nqn_fine(a.hostnqn, SNIC_NVME_NQN_BYTES))
        return nvmesub_connect_invalid(r, SNIC_NVMESUB__AT(hostnqn));
    a.rule = nvmesub_rule_find(s, a.hostnqn);
    if (a.rule == NULL ? (s->opts.flags & SNIC_NVMESUB_ANY_HOST) == 0
                       : !nvmesub_rule_admits(a.rule, &r->conn->peer.address))
        return SNIC_NVMESUB__FAIL(CONNECT_HOST);
    return a.qid == 0 ? nvmesub_connect_admin(r, &a) : nvmesub_connect_io(r, &a);
}

#undef SNIC_NVMESUB__AT

uint32_t nvmesub_connect(struct nvmesub_req *r)
{
    uint32_t status = nvmesub_connect_check(r);
    r->s->stats.refused += status != 0 && status != SNIC_NVMESUB__PENDING;
    return status;
}
