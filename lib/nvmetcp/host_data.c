/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the host receives: responses, data, R2Ts; and the data that it sends for these. H1 to H3.
 */
#include "nvmetcp/host_priv.h"

static struct snic_nvmetcp_host *nvmetcp_host_of(struct nvmetcp_conn *c)
{
    return SNIC_CONTAINER(c, struct snic_nvmetcp_host, c);
}

static struct nvmetcp_task *nvmetcp_task_of(struct snic_nvmetcp_host *h, uint16_t cid)
{
    uint32_t i = cid & ((1u << h->tag_bits) - 1u);
    if (i >= nvmetcp_host_tasks(&h->o))
        return NULL;
    struct nvmetcp_task *k = &h->tasks[i];
    /* A controller cannot answer what it has not received. */
    return k->cmd != NULL && !k->answered && k->cmd->cid == cid && k->out.handed ? k : NULL;
}

/* H2 */
static void nvmetcp_task_settle(struct snic_nvmetcp_host *h, struct nvmetcp_task *k)
{
    if (k->answered && k->outs == 0 && k->ev.type == 0)
        nvmetcp_event(&h->c, &k->ev, SNIC_NVMETCP_DONE);
}

static void nvmetcp_task_answer(struct snic_nvmetcp_host *h, struct nvmetcp_task *k, int error,
                                uint16_t status, uint64_t result)
{
    struct snic_nvmetcp_command *q = k->cmd;
    k->answered = 1;
    q->status = status;
    q->result = result;
    q->error = error;
    if (error == 0 && k->corrupt) {
        q->error = SNIC_ECORRUPT;
        q->status = SNIC_NVMETCP__TRANSPORT;
    } else if (error == 0 && status == 0 && k->dir == NVMETCP_DIR_OUT && q->received < q->size) {
        q->error = SNIC_EPROTO;
    }
    nvmetcp_task_settle(h, k);
}

/* ---- Data to be sent ---- */

static void nvmetcp_send_next(struct snic_nvmetcp_host *h, struct nvmetcp_send *s)
{
    struct nvmetcp_task *k = &h->tasks[s->task];
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_H2C_DATA};
    uint32_t n = (uint32_t)snic_min_u64(s->left, h->h2c_max);
    pdu.flags = n == s->left ? SNIC_NVMETCP_LAST : 0;
    pdu.cccid = k->cmd->cid;
    pdu.ttag = s->ttag;
    pdu.offset = s->offset;
    pdu.length = n;
    pdu.data_size = n;
    memset(&s->out, 0, sizeof(s->out));
    s->out.kind = NVMETCP_OUT_DATA;
    s->out.head = s->head;
    s->out.head_size = (uint8_t)snic_nvmetcp_encode(s->head, &pdu, &h->c.tx);
    s->out.pad_size = (uint8_t)pdu.pad_size;
    s->out.data = s->at;
    s->out.data_size = n;
    if ((h->c.tx.digests & SNIC_NVMETCP_DDGST) != 0) {
        snic_put_le32(s->tail, nvmetcp_span_crc(s->at, n));
        s->out.tail = s->tail;
        s->out.tail_size = 4;
    }
    s->left -= n;
    s->offset += n;
    nvmetcp_span_skip(&s->at, n, s->left);
    nvmetcp_out_queue(&h->c, &s->out);
}

static int nvmetcp_host_r2t(struct snic_nvmetcp_host *h)
{
    const struct snic_nvmetcp_pdu *p = &h->c.in.pdu;
    struct nvmetcp_task *k = nvmetcp_task_of(h, p->cccid);
    if (k == NULL || k->dir != NVMETCP_DIR_IN || k->is_inline)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_HEADER, 8);
    if (p->length == 0)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_HEADER, 16);
    if (p->offset > k->cmd->size || p->length > k->cmd->size - p->offset)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_RANGE, 0);
    if (k->r2ts >= h->o.r2ts_max)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_LIMIT, 0);
    struct snic_node *n = snic_queue_pop(&h->free_sends);
    if (n == NULL)
        return SNIC_EAGAIN;
    struct nvmetcp_send *s = SNIC_CONTAINER(n, struct nvmetcp_send, free);
    s->used = 1;
    s->task = (uint32_t)(k - h->tasks);
    s->ttag = p->ttag;
    s->offset = p->offset;
    s->left = p->length;
    s->at.iov = k->cmd->iov;
    s->at.skip = 0;
    nvmetcp_span_skip(&s->at, p->offset, p->length);
    k->r2ts++;
    k->outs++;
    h->c.s.r2ts++;
    nvmetcp_send_next(h, s);
    return 0;
}

void nvmetcp_host_handed(struct nvmetcp_conn *c, struct nvmetcp_out *o)
{
    struct nvmetcp_send *s = SNIC_CONTAINER(o, struct nvmetcp_send, out);
    if (o->kind == NVMETCP_OUT_DATA && s->left == 0)
        nvmetcp_host_of(c)->tasks[s->task].r2ts--;
}

void nvmetcp_host_out_sent(struct nvmetcp_conn *c, struct nvmetcp_out *o)
{
    struct snic_nvmetcp_host *h = nvmetcp_host_of(c);
    struct nvmetcp_task *k;
    if (o->kind == NVMETCP_OUT_COMMAND) {
        k = SNIC_CONTAINER(o, struct nvmetcp_task, out);
    } else if (o->kind == NVMETCP_OUT_DATA) {
        struct nvmetcp_send *s = SNIC_CONTAINER(o, struct nvmetcp_send, out);
        k = &h->tasks[s->task];
        if (s->left > 0 && !k->answered && c->state == NVMETCP_UP) {
            nvmetcp_send_next(h, s);
            return;
        }
        k->r2ts = (uint16_t)(k->r2ts - (s->left > 0));
        s->used = 0;
        snic_queue_push(&h->free_sends, &s->free);
    } else {
        return;
    }
    k->outs--;
    nvmetcp_task_settle(h, k);
    nvmetcp_conn_resume(c);
}

/* ---- Data and responses received ---- */

static int nvmetcp_host_data(struct snic_nvmetcp_host *h)
{
    struct nvmetcp_in *in = &h->c.in;
    const struct snic_nvmetcp_pdu *p = &in->pdu;
    struct nvmetcp_task *k = nvmetcp_task_of(h, p->cccid);
    if (k == NULL || k->dir != NVMETCP_DIR_OUT)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_HEADER, 8);
    if (p->length == 0)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_HEADER, 16);
    if (p->offset > k->cmd->size || p->length > k->cmd->size - p->offset)
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_RANGE, 0);
    int last = (p->flags & SNIC_NVMETCP_LAST) != 0;
    if (k->last || p->offset != k->cmd->received ||
        (p->length == k->cmd->size - p->offset && !last))
        return nvmetcp_conn_refuse(&h->c, SNIC_NVMETCP_FES_SEQUENCE, 0);
    in->dest = k->at;
    h->receiving = k;
    return 0;
}

static void nvmetcp_host_data_done(struct snic_nvmetcp_host *h, int good)
{
    struct nvmetcp_task *k = h->receiving;
    const struct snic_nvmetcp_pdu *p = &h->c.in.pdu;
    h->receiving = NULL;
    k->cmd->received += p->length;
    nvmetcp_span_skip(&k->at, p->length, k->cmd->size - k->cmd->received);
    k->last = (p->flags & SNIC_NVMETCP_LAST) != 0;
    if (!good)
        k->corrupt = 1;
    if ((p->flags & SNIC_NVMETCP_SUCCESS) != 0) {
        h->c.s.successes++;
        h->c.s.responses++;
        nvmetcp_task_answer(h, k, 0, 0, 0);
    }
}

static void nvmetcp_host_response(struct snic_nvmetcp_host *h)
{
    const unsigned char *cqe = h->c.in.pdu.capsule;
    struct nvmetcp_task *k = nvmetcp_task_of(h, snic_get_le16(cqe + 12));
    uint16_t sqhd = snic_get_le16(cqe + 8);
    SNIC_ASSERT(k != NULL); /* judged with the header */
    if (k->cmd->sqe[0] == SNIC_NVMETCP__FABRICS && k->cmd->sqe[4] == SNIC_NVMETCP__FC_CONNECT)
        h->flow = (h->o.flags & SNIC_NVMETCP_NO_SQ_FLOW) == 0 || sqhd != 0xffff;
    if (sqhd < h->o.entries)
        h->sq_head = sqhd;
    h->c.s.responses++;
    nvmetcp_task_answer(h, k, 0, snic_get_le16(cqe + 14) >> 1, snic_get_le64(cqe));
}

static int nvmetcp_host_greet(struct snic_nvmetcp_host *h)
{
    struct nvmetcp_conn *c = &h->c;
    const struct snic_nvmetcp_pdu *p = &c->in.pdu;
    if ((p->digests & ~h->o.digests) != 0)
        return nvmetcp_conn_refuse(c, SNIC_NVMETCP_FES_HEADER, 11);
    c->state = NVMETCP_UP;
    c->greet_ns = SNIC_NEVER;
    c->rx.digests = p->digests;
    c->tx.digests = p->digests;
    c->tx.pda = p->pda;
    c->s.digests = p->digests;
    h->h2c_max = p->limit;
    nvmetcp_event(c, &h->ready, SNIC_NVMETCP_READY);
    return 0;
}

int nvmetcp_host_head(struct nvmetcp_conn *c)
{
    struct snic_nvmetcp_host *h = nvmetcp_host_of(c);
    const struct snic_nvmetcp_pdu *p = &c->in.pdu;
    if (p->type == SNIC_NVMETCP_C2H_TERM)
        return 0;
    if ((c->state == NVMETCP_NEW) != (p->type == SNIC_NVMETCP_ICRESP) ||
        (c->state == NVMETCP_NEW && !c->ic.handed))
        return nvmetcp_conn_refuse(c, SNIC_NVMETCP_FES_SEQUENCE, 0);
    if (p->type == SNIC_NVMETCP_CAPSULE_RESP &&
        nvmetcp_task_of(h, snic_get_le16(p->capsule + 12)) == NULL)
        return nvmetcp_conn_refuse(c, SNIC_NVMETCP_FES_HEADER, 20);
    if (p->type == SNIC_NVMETCP_C2H_DATA)
        return nvmetcp_host_data(h);
    return p->type == SNIC_NVMETCP_R2T ? nvmetcp_host_r2t(h) : 0;
}

int nvmetcp_host_done(struct nvmetcp_conn *c, int good)
{
    struct snic_nvmetcp_host *h = nvmetcp_host_of(c);
    switch (c->in.pdu.type) {
    case SNIC_NVMETCP_ICRESP:
        return nvmetcp_host_greet(h);
    case SNIC_NVMETCP_C2H_DATA:
        nvmetcp_host_data_done(h, good);
        return 0;
    case SNIC_NVMETCP_CAPSULE_RESP:
        nvmetcp_host_response(h);
        return 0;
    case SNIC_NVMETCP_C2H_TERM:
        nvmetcp_conn_peer_term(c);
        return 0;
    default:
        return 0;
    }
}

/* H2: commands end as their PDUs leave, or, when no more will, at once. */
void nvmetcp_host_down(struct nvmetcp_conn *c)
{
    struct snic_nvmetcp_host *h = nvmetcp_host_of(c);
    h->receiving = NULL;
    for (uint32_t i = 0; i < nvmetcp_host_tasks(&h->o); i++) {
        struct nvmetcp_task *k = &h->tasks[i];
        if (k->cmd == NULL)
            continue;
        if (c->state == NVMETCP_OVER) {
            if (k->answered && k->outs > 0)
                k->cmd->error = SNIC_ECANCELED; /* its bytes may still be in the socket */
            k->outs = 0;
        }
        if (!k->answered)
            nvmetcp_task_answer(h, k, SNIC_ECANCELED, 0, 0);
        else
            nvmetcp_task_settle(h, k);
    }
}
