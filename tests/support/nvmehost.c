/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "support/nvmehost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The stream ---- */

static void nh_done(const struct snic_nvmetcp_event *e)
{
    SNIC_CONTAINER(e->req, struct nh_cmd, c)->done = 1;
}

static void nh_events(struct nh_queue *q)
{
    struct snic_nvmetcp_event e;
    while (snic_nvmetcp_host_poll(q->e, &e, snic_loop_now(q->h->loop))) {
        if (e.type == SNIC_NVMETCP_DONE)
            nh_done(&e);
        else if (e.type == SNIC_NVMETCP_READY)
            q->ready = 1;
        else if (e.type == SNIC_NVMETCP_TERM)
            q->term = e.fes;
        else if (e.type == SNIC_NVMETCP_ENDED) {
            q->ended = 1;
            q->reason = e.reason;
            if (e.fes != 0)
                q->term = e.fes;
        }
    }
}

static void nh_sent(struct snic_net_send_req *r)
{
    struct nh_queue *q = SNIC_CONTAINER(r, struct nh_queue, req);
    if (r->result == 0)
        snic_nvmetcp_host_sent(q->e, q->sending, snic_loop_now(q->h->loop));
    q->sending = 0;
    nh_pump(q);
}

static void nh_output(struct nh_queue *q)
{
    size_t bytes;
    if (q->net == NULL || q->sending > 0)
        return;
    uint32_t n = snic_nvmetcp_host_output(q->e, q->iov, SNIC_NET_IOV_MAX, &bytes);
    if (n == 0)
        return;
    memset(&q->req, 0, sizeof(q->req));
    q->req.region = SNIC_NO_REGION;
    q->req.done = nh_sent;
    q->req.iov = q->iov;
    q->req.iov_count = n;
    q->sending = bytes;
    if (snic_net_send(q->net, &q->req) != 1) {
        q->sending = 0;
        snic_nvmetcp_host_rewind(q->e);
    }
}

static void nh_feed(struct nh_queue *q)
{
    while (!q->deaf && !snic_queue_empty(&q->bufs)) {
        struct snic_net_buf *b = SNIC_CONTAINER(q->bufs.first, struct snic_net_buf, node);
        size_t used = b->size;
        (void)snic_nvmetcp_host_recv(q->e, b->data, b->size, &used, snic_loop_now(q->h->loop));
        b->data += used;
        b->size -= (uint32_t)used;
        if (b->size > 0)
            return;
        snic_queue_pop(&q->bufs);
        snic_net_put(q->h->net, b);
    }
}

void nh_pump(struct nh_queue *q)
{
    if (q->e == NULL)
        return;
    nh_feed(q);
    nh_events(q);
    nh_output(q);
    if (q->ended && q->net != NULL)
        snic_net_abort(q->net);
}

static void nh_fire(struct snic_timer *t, uint64_t now)
{
    (void)now;
    nh_pump(SNIC_CONTAINER(t, struct nh_queue, timer));
}

static void nh_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct nh_queue *q = ctx;
    (void)c;
    if (error == 0)
        nh_pump(q);
}

static void nh_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    struct nh_queue *q = ctx;
    (void)c;
    snic_queue_push(&q->bufs, &buf->node);
    nh_pump(q);
}

static void nh_eof(void *ctx, struct snic_net_conn *c)
{
    struct nh_queue *q = ctx;
    (void)c;
    snic_nvmetcp_host_closed(q->e, snic_loop_now(q->h->loop));
    nh_pump(q);
}

static void nh_writable(void *ctx, struct snic_net_conn *c)
{
    (void)c;
    nh_pump(ctx);
}

static void nh_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct nh_queue *q = ctx;
    (void)c;
    (void)reason;
    q->net = NULL;
    q->closed = 1;
    if (q->e == NULL)
        return;
    snic_nvmetcp_host_closed(q->e, snic_loop_now(q->h->loop));
    nh_events(q);
}

void nh_once(const struct nh *h)
{
    int r = snic_loop_once(h->loop, SNIC_NEVER);
    if (h->after != NULL)
        h->after();
    if (r > 0 || snic_loop_world(h->loop) == NULL)
        return;
    (void)fprintf(stderr, "nothing can ever happen again\n");
    abort();
}

static void nh_turn(struct nh_queue *q)
{
    uint64_t at = snic_nvmetcp_host_deadline_ns(q->e);
    if (at != SNIC_NEVER)
        snic_loop_arm(q->h->loop, &q->timer, at);
    else
        snic_loop_cancel(q->h->loop, &q->timer);
    nh_once(q->h);
}

int nh_open(struct nh_queue *q, struct nh *h)
{
    static const struct snic_net_stream_events events = {.connected = nh_connected,
                                                         .recv = nh_recv,
                                                         .eof = nh_eof,
                                                         .writable = nh_writable,
                                                         .closed = nh_closed};
    struct snic_nvmetcp_host_opts o = {.opts_size = sizeof(o)};
    memset(q, 0, sizeof(*q));
    q->h = h;
    snic_timer_init(&q->timer, nh_fire);
    o.digests = h->digests;
    o.entries = h->entries != 0 ? h->entries : 32;
    o.flags = h->no_sq_flow ? SNIC_NVMETCP_NO_SQ_FLOW : 0;
    o.greet_ns = UINT64_C(300000000000); /* against hangs only */
    size_t size = snic_nvmetcp_host_memsize(&o);
    q->mem = aligned_alloc(SNIC_NVMETCP_ALIGN, (size_t)snic_align_up(size, SNIC_NVMETCP_ALIGN));
    q->open = 1;
    int r = snic_nvmetcp_host_init(&q->e, q->mem, size, &o, snic_loop_now(h->loop));
    if (r == 0)
        r = snic_net_connect(h->net, &h->addr, &events, q, &q->net);
    if (r != 0)
        return r;
    while (!q->ready && !q->ended)
        nh_turn(q);
    return q->ready ? 0 : q->reason;
}

void nh_close(struct nh_queue *q)
{
    if (!q->open)
        return;
    snic_nvmetcp_host_end(q->e, SNIC_ECONNABORTED, snic_loop_now(q->h->loop));
    nh_events(q);
    while (!snic_queue_empty(&q->bufs))
        snic_net_put(q->h->net,
                     SNIC_CONTAINER(snic_queue_pop(&q->bufs), struct snic_net_buf, node));
    if (q->net != NULL)
        snic_net_abort(q->net);
    snic_loop_cancel(q->h->loop, &q->timer);
    while (!q->closed)
        nh_once(q->h);
    free(snic_nvmetcp_host_fini(q->e));
    q->e = NULL;
    q->open = 0;
}

/* ---- Commands ---- */

void nh_prepare(struct nh_cmd *cmd, const struct snic_nvme_sqe *e, void *data, uint32_t bytes)
{
    memset(cmd, 0, sizeof(*cmd));
    snic_nvme_sqe_store(cmd->c.sqe, e);
    cmd->iov.base = data;
    cmd->iov.size = bytes;
    cmd->c.iov = &cmd->iov;
    cmd->c.iov_count = bytes > 0;
    cmd->c.size = bytes;
}

int nh_submit(struct nh_queue *q, struct nh_cmd *cmd)
{
    int r = snic_nvmetcp_host_submit(q->e, &cmd->c, snic_loop_now(q->h->loop));
    if (r == 0)
        nh_pump(q);
    return r;
}

uint32_t nh_wait(struct nh_queue *q, struct nh_cmd *cmd)
{
    while (!cmd->done)
        nh_turn(q);
    return cmd->c.error == SNIC_ECANCELED ? NH_ENDED : cmd->c.status;
}

uint32_t nh_run(struct nh_queue *q, const struct snic_nvme_sqe *e, void *data, uint32_t bytes,
                uint64_t *result)
{
    struct nh_cmd cmd;
    nh_prepare(&cmd, e, data, bytes);
    if (nh_submit(q, &cmd) != 0)
        return NH_ENDED;
    uint32_t status = nh_wait(q, &cmd);
    if (result != NULL)
        *result = cmd.c.result;
    return status;
}

uint32_t nh_property_set(struct nh_queue *q, uint32_t at, uint32_t value)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS,
                              .nsid = SNIC_NVME_FABRICS_PROPERTY_SET,
                              .cdw11 = at,
                              .cdw12 = value};
    return nh_run(q, &e, NULL, 0, NULL);
}

uint32_t nh_property_get(struct nh_queue *q, uint32_t at, uint64_t *value)
{
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_PROPERTY_GET, .cdw11 = at};
    return nh_run(q, &e, NULL, 0, value);
}

uint32_t nh_auth(struct nh_queue *q, uint8_t type, void *data, uint32_t bytes)
{
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = type, .cdw10 = SNIC_NVMEAUTH_CDW10, .cdw11 = bytes};
    return nh_run(q, &e, data, bytes, NULL);
}

uint32_t nh_authenticate(struct nh_queue *q)
{
    static uint16_t tid;
    static uint8_t in[4096], out[4096];
    struct snic_nvmeauth_random random;
    const struct nh *h = q->h;
    uint32_t status = 0;
    if (q->proof.hashes == 0)
        snic_nvmeauth_init(&q->proof, h->hostnqn, h->subnqn, SNIC_NVMEAUTH_HASHES,
                           h->groups != 0 ? h->groups : SNIC_NVMEAUTH_GROUPS);
    int n = snic_nvmeauth_host_start(&q->proof, tid++, out, sizeof(out));
    while (status == 0 && n > 0) {
        status = nh_auth(q, SNIC_NVME_FABRICS_AUTH_SEND, out, (uint32_t)n);
        if (status != 0 || q->proof.state == SNIC_NVMEAUTH_DONE ||
            q->proof.state == SNIC_NVMEAUTH_OVER)
            break;
        status = nh_auth(q, SNIC_NVME_FABRICS_AUTH_RECEIVE, in, sizeof(in));
        if (status == 0 && h->random(&random) != 0)
            abort();
        if (status == 0)
            n = snic_nvmeauth_host_step(&q->proof, h->auth, &h->keys, &random, in, sizeof(in), out);
    }
    return status;
}

uint32_t nh_connect(struct nh_queue *q, uint16_t qid, uint16_t cntlid)
{
    struct snic_nvme_connect_data d;
    const struct nh *h = q->h;
    uint32_t entries = qid == 0 ? 32 : h->entries != 0 ? h->entries : 32;
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_CONNECT};
    uint64_t result;
    memset(&d, 0, sizeof(d));
    memcpy(d.hostid, h->hostid, sizeof(d.hostid));
    snic_put_le16(&d.cntlid, cntlid);
    memcpy(d.subnqn, h->subnqn, strlen(h->subnqn));
    memcpy(d.hostnqn, h->hostnqn, strlen(h->hostnqn));
    e.cdw10 = (uint32_t)qid << 16;
    e.cdw11 = (entries - 1) | (h->no_sq_flow ? SNIC_NVME_CATTR_NO_SQ_FLOW << 16 : 0);
    e.cdw12 = qid == 0 ? h->kato_ms : 0;
    snic_nvmetcp_host_inline(q->e, 8192);
    uint32_t status = nh_run(q, &e, &d, sizeof(d), &result);
    if (status == 0)
        q->cntlid = (uint16_t)result;
    snic_nvmetcp_host_inline(q->e, qid == 0 ? 8192 : h->capsule);
    q->required = status == 0 && (result & SNIC_NVME_CONNECT_ATR) != 0;
    if (q->required && h->auth != NULL) {
        status = nh_authenticate(q);
        if (status == 0 && q->proof.state != SNIC_NVMEAUTH_DONE)
            status = SNIC_NVME_SC_AUTH_REQUIRED;
    }
    return status;
}

uint32_t nh_admin(struct nh_queue *q, struct nh *h)
{
    uint64_t csts = 0;
    if (nh_open(q, h) != 0)
        return NH_ENDED;
    uint32_t status = nh_connect(q, 0, SNIC_NVME_CNTLID_DYNAMIC);
    if (status == 0)
        status = nh_property_set(q, SNIC_NVME_PROP_CC, SNIC_NVME_CC_EN | 6U << 16 | 4U << 20);
    while (status == 0 && (csts & SNIC_NVME_CSTS_RDY) == 0)
        status = nh_property_get(q, SNIC_NVME_PROP_CSTS, &csts);
    return status;
}

uint32_t nh_io_queue(struct nh_queue *q, const struct nh_queue *admin, uint16_t qid)
{
    if (nh_open(q, admin->h) != 0)
        return NH_ENDED;
    return nh_connect(q, qid, admin->cntlid);
}

uint32_t nh_identify(struct nh_queue *q, uint32_t cns, uint32_t nsid, void *data)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns};
    return nh_run(q, &e, data, SNIC_NVME_IDENTIFY_BYTES, NULL);
}

uint32_t nh_log(struct nh_queue *q, uint32_t page, void *data, uint32_t bytes)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_GET_LOG, .nsid = SNIC_NVME_NSID_ALL};
    uint32_t dwords = bytes / 4 - 1;
    e.cdw10 = page | (dwords & 0xffff) << 16;
    e.cdw11 = dwords >> 16;
    return nh_run(q, &e, data, bytes, NULL);
}

void nh_rw(struct nh_cmd *cmd, uint8_t opcode, uint32_t nsid, uint64_t lba, uint32_t blocks,
           void *data, uint32_t bytes)
{
    struct snic_nvme_sqe e = {.opcode = opcode, .nsid = nsid};
    e.cdw10 = (uint32_t)lba;
    e.cdw11 = (uint32_t)(lba >> 32);
    e.cdw12 = blocks > 0 ? blocks - 1 : 0;
    nh_prepare(cmd, &e, data, bytes);
}

uint32_t nh_io(struct nh_queue *q, uint8_t opcode, uint32_t nsid, uint64_t lba, uint32_t blocks,
               void *data, uint32_t bytes)
{
    struct nh_cmd cmd;
    nh_rw(&cmd, opcode, nsid, lba, blocks, data, bytes);
    if (nh_submit(q, &cmd) != 0)
        return NH_ENDED;
    return nh_wait(q, &cmd);
}
