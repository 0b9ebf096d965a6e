/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The steps of a path: how it is set up, and what an event repeats of that. One command at a time,
 * each begun when the one before has succeeded.
 */
#include "nvmehost/nvmehost_priv.h"

#include "snicstore/nvme_wire.h"

void nvmehost_step_submit(struct nvmehost_path *p, struct nvmehost_conn *c,
                          const struct snic_nvme_sqe *e, uint32_t bytes)
{
    memset(&c->cmd, 0, sizeof(c->cmd));
    snic_nvme_sqe_store(c->cmd.sqe, e);
    c->cmd_iov.base = c->data;
    c->cmd_iov.size = bytes;
    c->cmd.iov = bytes > 0 ? &c->cmd_iov : NULL;
    c->cmd.iov_count = bytes > 0;
    c->cmd.size = bytes;
    p->pending = 1;
    int r = snic_nvmetcp_host_submit(c->e, &c->cmd, snic_loop_now(p->s->loop));
    if (r == 0)
        return;
    p->pending = 0;
    nvmehost_path_fail(p, r == SNIC_ENOTCONN ? SNIC_ECONNRESET : SNIC_EPROTO, 0);
}

void nvmehost_step_connect(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    struct snic_nvmehost *s = p->s;
    struct snic_nvme_connect_data *d = (void *)c->data;
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_CONNECT};
    memset(d, 0, sizeof(*d));
    memcpy(d->hostid, s->o.hostid, sizeof(d->hostid));
    snic_put_le16(&d->cntlid, c->qid == 0 ? SNIC_NVME_CNTLID_DYNAMIC : p->cntlid);
    memcpy(d->subnqn, s->subnqn, sizeof(s->subnqn));
    memcpy(d->hostnqn, s->hostnqn, sizeof(s->hostnqn));
    e.cdw10 = (uint32_t)c->qid << 16;
    e.cdw11 = c->room | SNIC_NVME_CATTR_NO_SQ_FLOW << 16;
    e.cdw12 = c->qid == 0 ? s->o.kato_ms : 0;
    snic_nvmetcp_host_inline(c->e, 8192);
    nvmehost_step_submit(p, c, &e, sizeof(*d));
}

static void nvmehost_step_property(struct nvmehost_path *p, uint32_t type, uint32_t size8,
                                   uint32_t at, uint32_t value)
{
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = type, .cdw10 = size8, .cdw11 = at, .cdw12 = value};
    nvmehost_step_submit(p, &p->conns[0], &e, 0);
}

static void nvmehost_step_feature(struct nvmehost_path *p, uint32_t id, uint32_t value)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_SET_FEATURES, .cdw10 = id, .cdw11 = value};
    nvmehost_step_submit(p, &p->conns[0], &e, 0);
}

static void nvmehost_step_identify(struct nvmehost_path *p, uint32_t cns, uint32_t nsid)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns};
    memset(p->conns[0].data, 0, SNIC_NVMEHOST__DATA);
    nvmehost_step_submit(p, &p->conns[0], &e, SNIC_NVME_IDENTIFY_BYTES);
}

/* @p lsp is specific to the page; bit 0 of the ANA log's: groups without their namespaces. */
static void nvmehost_step_log(struct nvmehost_path *p, uint32_t page, uint32_t lsp)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_GET_LOG, .nsid = SNIC_NVME_NSID_ALL};
    e.cdw10 = page | lsp << 8 | (SNIC_NVMEHOST__DATA / 4 - 1) << 16;
    memset(p->conns[0].data, 0, SNIC_NVMEHOST__DATA);
    nvmehost_step_submit(p, &p->conns[0], &e, SNIC_NVMEHOST__DATA);
}

static void nvmehost_step_io(struct nvmehost_path *p)
{
    int r = nvmehost_conn_open(&p->conns[p->next], p->entries);
    if (r != 0)
        nvmehost_path_fail(p, r, 0);
}

void nvmehost_step_begin(struct nvmehost_path *p, uint8_t step)
{
    uint32_t events = p->oaes & (SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA);
    uint32_t queues = p->s->o.queues - 1;
    p->step = step;
    switch (step) {
    case NVMEHOST_STEP_CONNECT:
        nvmehost_step_connect(p, &p->conns[0]);
        break;
    case NVMEHOST_STEP_CAP:
        nvmehost_step_property(p, SNIC_NVME_FABRICS_PROPERTY_GET, 1, SNIC_NVME_PROP_CAP, 0);
        break;
    case NVMEHOST_STEP_CC:
        nvmehost_step_property(p, SNIC_NVME_FABRICS_PROPERTY_SET, 0, SNIC_NVME_PROP_CC,
                               SNIC_NVME_CC_EN | (uint32_t)p->mps << 7 | 6U << 16 | 4U << 20);
        break;
    case NVMEHOST_STEP_CSTS:
        nvmehost_step_property(p, SNIC_NVME_FABRICS_PROPERTY_GET, 0, SNIC_NVME_PROP_CSTS, 0);
        break;
    case NVMEHOST_STEP_CTRL:
        nvmehost_step_identify(p, SNIC_NVME_CNS_CTRL, 0);
        break;
    case NVMEHOST_STEP_QUEUES:
        nvmehost_step_feature(p, SNIC_NVME_FEAT_QUEUES, queues | queues << 16);
        break;
    case NVMEHOST_STEP_EVENTS:
        nvmehost_step_feature(p, SNIC_NVME_FEAT_AEC, events);
        break;
    case NVMEHOST_STEP_CREDIT:
        nvmehost_step_feature(p, SNIC_NVME_FEAT_CREDIT, 1);
        break;
    case NVMEHOST_STEP_CHANGED:
        nvmehost_step_log(p, SNIC_NVME_LOG_CHANGED_NS, 0);
        break;
    case NVMEHOST_STEP_NS:
        nvmehost_step_identify(p, SNIC_NVME_CNS_NS, p->s->o.nsid);
        break;
    case NVMEHOST_STEP_DESC:
        nvmehost_step_identify(p, SNIC_NVME_CNS_NS_DESC, p->s->o.nsid);
        break;
    case NVMEHOST_STEP_ANA:
        nvmehost_step_log(p, SNIC_NVME_LOG_ANA, 1);
        break;
    case NVMEHOST_STEP_IO:
        nvmehost_step_io(p);
        break;
    case NVMEHOST_STEP_REGISTER:
    case NVMEHOST_STEP_ACQUIRE:
    case NVMEHOST_STEP_HOLDER:
    case NVMEHOST_STEP_PREEMPT:
    case NVMEHOST_STEP_UNLOCK:
        nvmehost_lock_begin(p);
        break;
    case NVMEHOST_STEP_BYE:
        nvmehost_step_property(p, SNIC_NVME_FABRICS_PROPERTY_SET, 0, SNIC_NVME_PROP_CC,
                               SNIC_NVME_CC_EN | (uint32_t)p->mps << 7 | 1U << 14 | 6U << 16 |
                                   4U << 20);
        break;
    default:
        p->step = NVMEHOST_STEP_NONE;
        break;
    }
}

/* ---- What they found ---- */

static void nvmehost_step_cap(struct nvmehost_path *p, uint64_t cap)
{
    uint32_t mqes = (uint32_t)(cap & 0xffff) + 1;
    p->mps = cap >> 48 & 15U;
    p->entries = (uint32_t)snic_min_u64(p->s->o.entries, snic_max_u64(mqes, 2));
    nvmehost_step_begin(p, NVMEHOST_STEP_CC);
}

static void nvmehost_step_csts(struct nvmehost_path *p, uint64_t csts)
{
    if ((csts & SNIC_NVME_CSTS_CFS) != 0)
        nvmehost_path_fail(p, SNIC_EIO, 0);
    else if ((csts & SNIC_NVME_CSTS_RDY) != 0) {
        p->enabled = 1;
        nvmehost_step_begin(p, NVMEHOST_STEP_CTRL);
    } else
        p->poll_ns = snic_loop_now(p->s->loop) + SNIC_NVMEHOST__POLL_NS;
}

static void nvmehost_step_queues(struct nvmehost_path *p, uint64_t result)
{
    uint32_t least = (uint32_t)snic_min_u64(result & 0xffff, result >> 16 & 0xffff) + 1;
    p->queues = (uint32_t)snic_min_u64(p->s->o.queues, least);
    nvmehost_step_begin(p, NVMEHOST_STEP_EVENTS);
}

static void nvmehost_step_ns(struct nvmehost_path *p)
{
    int r = nvmehost_identify_ns(p, p->conns[0].data);
    if (r != 0)
        nvmehost_path_fail(p, r, 1);
    else
        nvmehost_step_begin(p, NVMEHOST_STEP_DESC);
}

/* All is known: the I/O queues, or back to work. */
static void nvmehost_step_found(struct nvmehost_path *p)
{
    int r = nvmehost_adopt(p);
    if (r != 0) {
        nvmehost_path_fail(p, r, 1);
        return;
    }
    p->next = 1;
    nvmehost_step_begin(p, p->state == NVMEHOST_PATH_UP ? NVMEHOST_STEP_NONE : NVMEHOST_STEP_IO);
}

void nvmehost_path_up(struct nvmehost_path *p)
{
    struct snic_nvmehost *s = p->s;
    /* Of paths that are set up at once another may have been adopted last, or be up already. */
    int r = s->open ? nvmehost_same(p) : nvmehost_adopt(p);
    if (r != 0) {
        nvmehost_path_fail(p, r, 1);
        return;
    }
    p->state = NVMEHOST_PATH_UP;
    p->step = NVMEHOST_STEP_NONE;
    p->backoff_ns = SNIC_NVMEHOST__BACKOFF_NS;
    p->error = 0;
    p->hard = 0;
    s->stats.connects++;
    s->open = 1;
}

static void nvmehost_step_joined(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    snic_nvmetcp_host_inline(c->e, p->inline_max);
    c->usable = 1;
    c->worked = 1;
    if (p->next < p->queues) {
        p->next++;
        nvmehost_step_begin(p, NVMEHOST_STEP_IO);
    } else if ((p->s->o.flags & SNIC_NVMEHOST_LOCK) != 0) {
        nvmehost_step_begin(p, NVMEHOST_STEP_REGISTER);
    } else {
        nvmehost_path_up(p);
    }
}

void nvmehost_step_proved(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    if (c->qid == 0)
        nvmehost_step_begin(p, NVMEHOST_STEP_CAP);
    else
        nvmehost_step_joined(p, c);
}

static void nvmehost_step_connected(struct nvmehost_path *p, struct nvmehost_conn *c,
                                    uint64_t result)
{
    if (c->qid == 0)
        p->cntlid = (uint16_t)result;
    if ((result & SNIC_NVME_CONNECT_ATR) != 0)
        nvmehost_auth_begin(p, c);
    else
        nvmehost_step_proved(p, c);
}

void nvmehost_step_done(struct nvmehost_path *p, struct nvmehost_conn *c, uint64_t result)
{
    int r;
    int credit = (p->s->o.flags & SNIC_NVMEHOST_CREDIT) != 0;
    switch (p->step) {
    case NVMEHOST_STEP_CONNECT:
    case NVMEHOST_STEP_IO:
        nvmehost_step_connected(p, c, result);
        break;
    case NVMEHOST_STEP_AUTH:
        nvmehost_auth_done(p, c);
        break;
    case NVMEHOST_STEP_CAP:
        nvmehost_step_cap(p, result);
        break;
    case NVMEHOST_STEP_CC:
        nvmehost_step_begin(p, NVMEHOST_STEP_CSTS);
        break;
    case NVMEHOST_STEP_CSTS:
        nvmehost_step_csts(p, result);
        break;
    case NVMEHOST_STEP_CTRL:
        r = nvmehost_identify_ctrl(p, c->data);
        if (r != 0)
            nvmehost_path_fail(p, r, 1);
        else
            nvmehost_step_begin(p, NVMEHOST_STEP_QUEUES);
        break;
    case NVMEHOST_STEP_QUEUES:
        nvmehost_step_queues(p, result);
        break;
    case NVMEHOST_STEP_EVENTS:
        nvmehost_step_begin(p, credit ? NVMEHOST_STEP_CREDIT : NVMEHOST_STEP_NS);
        break;
    case NVMEHOST_STEP_CREDIT:
        p->has_credit = 1;
        nvmehost_step_begin(p, NVMEHOST_STEP_NS);
        break;
    case NVMEHOST_STEP_CHANGED:
        nvmehost_step_begin(p, NVMEHOST_STEP_NS);
        break;
    case NVMEHOST_STEP_NS:
        nvmehost_step_ns(p);
        break;
    case NVMEHOST_STEP_DESC:
        nvmehost_identify_desc(p, c->data);
        if (p->has_ana)
            nvmehost_step_begin(p, NVMEHOST_STEP_ANA);
        else
            nvmehost_step_found(p);
        break;
    case NVMEHOST_STEP_ANA:
        nvmehost_ana_log(p, c->data);
        nvmehost_step_found(p);
        break;
    case NVMEHOST_STEP_REGISTER:
    case NVMEHOST_STEP_ACQUIRE:
    case NVMEHOST_STEP_HOLDER:
    case NVMEHOST_STEP_PREEMPT:
    case NVMEHOST_STEP_UNLOCK:
        nvmehost_lock_done(p);
        break;
    case NVMEHOST_STEP_BYE:
        p->bye = 2;
        p->step = NVMEHOST_STEP_NONE;
        nvmehost_kick(p->s);
        break;
    default:
        break;
    }
}

void nvmehost_step_failed(struct nvmehost_path *p, uint32_t status)
{
    int hard = (status & SNIC_NVME_DNR) != 0;
    if (p->step == NVMEHOST_STEP_CREDIT || p->step == NVMEHOST_STEP_EVENTS) {
        nvmehost_step_begin(p, NVMEHOST_STEP_NS); /* it goes without */
    } else if (p->step == NVMEHOST_STEP_DESC) {
        nvmehost_step_done(p, &p->conns[0], 0); /* of an older target */
    } else if (p->step == NVMEHOST_STEP_CHANGED) {
        nvmehost_step_begin(p, NVMEHOST_STEP_NS);
    } else if (p->step >= NVMEHOST_STEP_REGISTER && p->step <= NVMEHOST_STEP_UNLOCK) {
        nvmehost_lock_failed(p, status);
    } else if (p->step == NVMEHOST_STEP_AUTH) {
        nvmehost_path_fail(p, SNIC_EACCES, 1);
    } else if (p->step == NVMEHOST_STEP_CONNECT) {
        uint32_t sc = status & SNIC_NVME_SCT_SC;
        int e = sc == SNIC_NVME_SC_CONNECT_PARAM  ? SNIC_ENOENT
                : sc == SNIC_NVME_SC_CONNECT_HOST ? SNIC_EACCES
                : sc == SNIC_NVME_SC_CONNECT_BUSY ? SNIC_EBUSY
                                                  : SNIC_EPROTO;
        nvmehost_path_fail(p, e, hard);
    } else {
        int e = snic_nvme_status_error(status);
        if ((status & SNIC_NVME_SCT_SC) == SNIC_NVME_SC_INVALID_NS)
            e = SNIC_ENOENT;
        nvmehost_path_fail(p, e == 0 ? SNIC_EIO : e, hard);
    }
}
