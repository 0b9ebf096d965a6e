/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A hostile target: it answers each command as a good one would, unless the next byte of the input
 * has it answer with another status, result or data, twice, not at all, with damaged bytes, or end
 * the connection. The host must neither crash nor spin, and complete each request exactly once. An
 * input that begins with FFh is a name of a device instead.
 */
#include "snicstore/nvmehost.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNS = 16, OUT = 96 << 10, IN = 64 << 10, REQS = 4, TOTAL = 40, BLOCK = 4096 };

struct fake {
    struct fuzz *f;
    struct snic_net_conn *net;
    unsigned char *in, *out; /* buffers */
    size_t have, queued, sending;
    struct snic_net_send_req req;
    struct snic_iov iov;
    struct snic_nvmetcp_params rx, tx;
    int used, aer;
    uint16_t aer_cid;
    uint32_t skip; /* bytes of data to drop */
};

struct fuzz_req {
    struct snic_io_req req;
    struct fuzz *f;
    int busy;
    unsigned char data[8 * BLOCK];
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[2];
    struct snic_net *net[2];
    struct snic_io *io;
    struct fake fake[CONNS];
    struct fuzz_req r[REQS];
    uint32_t begun, done;
};

static void must_at(int ok, int line)
{
    if (ok)
        return;
    (void)fprintf(stderr, "fuzz_nvmehost.c:%d\n", line);
    abort();
}
#define must(ok) must_at(ok, __LINE__)

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static uint32_t take32(struct fuzz *f)
{
    uint32_t v = take(f);
    v |= (uint32_t)take(f) << 8;
    v |= (uint32_t)take(f) << 16;
    return v | (uint32_t)take(f) << 24;
}

/* ---- The target's stream ---- */

static void fake_flush(struct fake *k);

static void fake_sent(struct snic_net_send_req *r)
{
    struct fake *k = SNIC_CONTAINER(r, struct fake, req);
    memmove(k->out, k->out + k->sending, k->queued - k->sending);
    k->queued -= k->sending;
    k->sending = 0;
    fake_flush(k);
}

static void fake_flush(struct fake *k)
{
    if (k->net == NULL || k->sending > 0 || k->queued == 0)
        return;
    memset(&k->req, 0, sizeof(k->req));
    k->iov.base = k->out;
    k->iov.size = k->queued;
    k->req.iov = &k->iov;
    k->req.iov_count = 1;
    k->req.region = SNIC_NO_REGION;
    k->req.done = fake_sent;
    if (snic_net_send(k->net, &k->req) == 1)
        k->sending = k->queued;
}

/* A PDU, with @p damage of its bytes changed. */
static void fake_pdu(struct fake *k, struct snic_nvmetcp_pdu *p, const void *data, int damage)
{
    unsigned char *at = k->out + k->queued;
    if (k->queued + SNIC_NVMETCP_HEADER_MAX + 128 + p->data_size > OUT)
        return;
    int n = snic_nvmetcp_encode(at, p, &k->tx);
    must(n > 0);
    memset(at + n, 0, p->pad_size);
    if (p->data_size > 0)
        memcpy(at + n + p->pad_size, data, p->data_size);
    size_t size = (size_t)n + p->pad_size + p->data_size;
    for (int i = 0; i < damage; i++)
        at[take(k->f) % size] ^= take(k->f);
    k->queued += size;
    fake_flush(k);
}

static void fake_response(struct fake *k, uint16_t cid, uint64_t result, uint16_t status,
                          int damage)
{
    unsigned char cqe[16] = {0};
    struct snic_nvmetcp_pdu p = {.type = SNIC_NVMETCP_CAPSULE_RESP, .capsule = cqe};
    snic_put_le64(cqe, result);
    snic_put_le16(cqe + 8, 0xffff);
    snic_put_le16(cqe + 12, cid);
    snic_put_le16(cqe + 14, (uint16_t)(status << 1));
    fake_pdu(k, &p, NULL, damage);
}

/* ---- What a good target answers ---- */

static void good_ctrl(struct snic_nvme_id_ctrl *id)
{
    id->cmic = 8;
    id->mdts = 2;
    id->cntrltype = 1;
    id->vwc = 1;
    snic_put_le32(&id->oaes, SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA);
    snic_put_le16(&id->oncs, SNIC_NVME_ONCS_DSM | SNIC_NVME_ONCS_WRITE_ZEROES);
    snic_put_le32(&id->ioccsz, 4 + 4096 / 16);
}

static void good_data(struct fuzz *f, const struct snic_nvme_sqe *e, unsigned char *out)
{
    struct snic_nvme_id_ns *ns = (void *)out;
    struct snic_nvme_ana_header *head = (void *)out;
    struct snic_nvme_ana_group *g = (void *)(out + sizeof(*head));
    (void)f;
    if (e->opcode == SNIC_NVME_ADMIN_IDENTIFY && e->cdw10 == SNIC_NVME_CNS_CTRL) {
        good_ctrl((void *)out);
    } else if (e->opcode == SNIC_NVME_ADMIN_IDENTIFY && e->cdw10 == SNIC_NVME_CNS_NS) {
        snic_put_le64(&ns->nsze, 64);
        snic_put_le32(&ns->anagrpid, 1);
        ns->lbaf[0].lbads = 12;
    } else if (e->opcode == SNIC_NVME_ADMIN_IDENTIFY) {
        out[0] = SNIC_NVME_NIDT_UUID;
        out[1] = 16;
        out[4] = 1;
    } else if ((e->cdw10 & 255) == SNIC_NVME_LOG_ANA) {
        snic_put_le16(&head->ngrps, 1);
        snic_put_le32(&g->grpid, 1);
        g->state = SNIC_NVME_ANA_OPTIMIZED;
    }
}

static uint64_t good_result(const struct snic_nvme_sqe *e)
{
    if (e->opcode != SNIC_NVME_FABRICS)
        return 0;
    if ((e->nsid & 255) == SNIC_NVME_FABRICS_CONNECT)
        return 1;
    if ((e->nsid & 255) != SNIC_NVME_FABRICS_PROPERTY_GET)
        return 0;
    return e->cdw11 == SNIC_NVME_PROP_CAP ? 63 : SNIC_NVME_CSTS_RDY;
}

/* Data to the host, with the response in it, or damaged in its content. */
static void fake_data(struct fake *k, const struct snic_nvme_sqe *e, uint8_t how)
{
    static _Alignas(8) unsigned char data[IN];
    struct snic_nvmetcp_pdu p = {.type = SNIC_NVMETCP_C2H_DATA,
                                 .flags = SNIC_NVMETCP_LAST | SNIC_NVMETCP_SUCCESS,
                                 .cccid = e->cid};
    uint32_t size = e->sgl_length < IN ? e->sgl_length : IN;
    memset(data, 0, size);
    if (size == SNIC_NVME_IDENTIFY_BYTES && e->nsid != 0x77)
        good_data(k->f, e, data);
    if (how == 2 && size > 0)
        for (uint32_t n = 1 + take(k->f) % 8; n > 0; n--) {
            uint32_t at = take32(k->f) & 0xffff;
            data[at % size] = take(k->f);
        }
    p.length = p.data_size = how == 9 ? (uint32_t)snic_min_u64(take32(k->f), size) : size;
    p.offset = how == 10 ? take32(k->f) : 0;
    fake_pdu(k, &p, data, how == 4 ? 1 + take(k->f) % 4 : 0);
}

static void fake_r2t(struct fake *k, const struct snic_nvme_sqe *e, uint8_t how)
{
    struct snic_nvmetcp_pdu p = {.type = SNIC_NVMETCP_R2T, .cccid = e->cid, .ttag = e->cid};
    p.length = how == 9 ? take32(k->f) : e->sgl_length;
    p.offset = how == 10 ? take32(k->f) : 0;
    fake_pdu(k, &p, NULL, how == 4 ? 1 : 0);
}

static void fake_event(struct fake *k)
{
    uint32_t info = take(k->f);
    if (k->aer)
        fake_response(k, k->aer_cid, 2U | info << 8, 0, 0);
    k->aer = 0;
}

static void fake_term(struct fake *k)
{
    unsigned char head[24] = {0};
    struct snic_nvmetcp_pdu p = {.type = SNIC_NVMETCP_C2H_TERM, .fes = take(k->f), .data_size = 24};
    fake_pdu(k, &p, head, 0);
}

static void fake_command(struct fake *k, const unsigned char *sqe, uint32_t in_capsule)
{
    struct snic_nvme_sqe e;
    uint8_t how = take(k->f);
    snic_nvme_sqe_load(&e, sqe);
    uint32_t dir = e.sgl_length > 0 ? snic_nvme_direction(&e) : SNIC_NVME_DIR_NONE;
    int damage = how == 4 ? 1 + take(k->f) % 4 : 0;
    uint64_t result = how == 5 ? take32(k->f) | (uint64_t)take32(k->f) << 32 : good_result(&e);
    if (how == 3)
        return;
    if (how == 6 || how == 7) {
        if (how == 6)
            snic_net_abort(k->net);
        else
            snic_net_shutdown(k->net);
        return;
    }
    if (how == 8)
        fake_term(k);
    if (how == 11)
        fake_event(k);
    if (e.opcode == SNIC_NVME_ADMIN_AER && k->aer_cid == 0xffff && how != 12) {
        k->aer = 1;
        k->aer_cid = e.cid;
        return;
    }
    if (how == 1)
        fake_response(k, e.cid, result, (uint16_t)(take32(k->f) & 0x7fff), 0);
    else if (dir == SNIC_NVME_DIR_IN)
        fake_data(k, &e, how);
    else if (dir == SNIC_NVME_DIR_OUT && in_capsule == 0)
        fake_r2t(k, &e, how);
    else
        fake_response(k, e.cid, result, 0, damage);
    if (how == 13)
        fake_response(k, (uint16_t)(e.cid ^ take(k->f)), result, 0, 0);
}

/* ---- What it receives ---- */

/* @return bytes consumed; 0: more are needed */
static size_t fake_parse(struct fake *k)
{
    struct snic_nvmetcp_pdu p;
    struct snic_nvmetcp_pdu ic = {.type = SNIC_NVMETCP_ICRESP, .limit = 8192};
    int r = snic_nvmetcp_decode(&p, &k->rx, k->in, k->have);
    if (r == SNIC_EAGAIN)
        return 0;
    if (r != 0) {
        snic_net_abort(k->net); /* the host's TermReq, or it follows what was damaged */
        return k->have;
    }
    k->skip = p.plen - p.head_size;
    if (p.type == SNIC_NVMETCP_ICREQ)
        fake_pdu(k, &ic, NULL, take(k->f) == 4);
    else if (p.type == SNIC_NVMETCP_CAPSULE_CMD)
        fake_command(k, p.capsule, p.data_size);
    else if (p.type == SNIC_NVMETCP_H2C_DATA && (p.flags & SNIC_NVMETCP_LAST) != 0)
        fake_response(k, p.cccid, 0, 0, 0);
    return p.head_size;
}

static void fake_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct fake *k = ctx;
    size_t n = 1;
    (void)c;
    if (k->have + b->size <= IN)
        memcpy(k->in + k->have, b->data, b->size);
    k->have += k->have + b->size <= IN ? b->size : 0;
    snic_net_put(k->f->net[0], b);
    while (n > 0 && k->have > 0) {
        if (k->skip > 0) {
            n = (size_t)snic_min_u64(k->skip, k->have);
            k->skip -= (uint32_t)n;
        } else {
            n = fake_parse(k);
        }
        memmove(k->in, k->in + n, k->have - n);
        k->have -= n;
    }
}

static void fake_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_close(c);
}

static void fake_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct fake *k = ctx;
    (void)c;
    (void)reason;
    k->net = NULL;
    k->used = 0;
}

static void fake_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = fake_recv, .eof = fake_eof, .closed = fake_closed};
    struct fuzz *f = ctx;
    (void)peer;
    for (uint32_t i = 0; i < CONNS; i++) {
        struct fake *k = &f->fake[i];
        if (k->used)
            continue;
        k->used = 1;
        k->net = c;
        k->have = k->queued = k->sending = 0;
        k->skip = 0;
        k->aer = 0;
        k->aer_cid = 0xffff;
        k->tx.to_host = 1;
        snic_net_bind(c, &events, k);
        return;
    }
    snic_net_abort(c);
}

/* ---- The user ---- */

static void user_next(struct fuzz_req *r);

static void user_done(struct snic_io_req *req)
{
    struct fuzz_req *r = SNIC_CONTAINER(req, struct fuzz_req, req);
    must(r->busy);
    r->busy = 0;
    r->f->done++;
    user_next(r);
}

static void user_next(struct fuzz_req *r)
{
    static const uint8_t ops[] = {SNIC_IO_READ, SNIC_IO_WRITE, SNIC_IO_FLUSH, SNIC_IO_ZERO,
                                  SNIC_IO_DISCARD};
    struct snic_io_req *one = &r->req;
    uint32_t i = r->f->begun;
    if (i == TOTAL)
        return;
    snic_io_req_init(&r->req);
    r->req.done = user_done;
    r->req.op = ops[i % 7 < 5 ? i % 7 : i % 2];
    r->req.offset = i % 8 * BLOCK;
    r->req.length = (1 + i % 8) * BLOCK;
    r->req.buf.base = r->data;
    r->req.buf.size = sizeof(r->data) / 8 * (1 + i % 8);
    r->busy = 1;
    if (snic_io_submit(r->f->io, &one, 1) == 1)
        r->f->begun++;
    else
        r->busy = 0;
}

static void fuzz_open(struct fuzz *f)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 1};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 1};
    struct snic_net_listener *l;
    must(snic_world_open(&f->world, &w) == 0);
    must(snic_net_fabric_open(&f->fabric, f->world, NULL) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        must(snic_world_loop(f->world, i + 1, &f->loop[i]) == 0);
        must(snic_net_sim_open(&f->net[i], f->fabric, f->loop[i], NULL) == 0);
    }
    for (uint32_t i = 0; i < CONNS; i++) {
        f->fake[i].f = f;
        f->fake[i].in = malloc(IN);
        f->fake[i].out = malloc(OUT);
        must(f->fake[i].in != NULL && f->fake[i].out != NULL);
    }
    must(snic_net_listen(f->net[0], &a, 0, fake_accept, f, &l) == 0);
}

static void fuzz_close(struct fuzz *f)
{
    for (uint32_t i = 0; i < 2; i++)
        snic_net_shut(f->net[i]);
    for (uint32_t i = 0; i < 2; i++)
        snic_loop_close(f->loop[i]);
    for (uint32_t i = 0; i < CONNS; i++) {
        free(f->fake[i].in);
        free(f->fake[i].out);
    }
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->world);
}

static void fuzz_run(struct fuzz *f)
{
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 1};
    struct snic_nvmehost_opts o = {.opts_size = sizeof(o),
                                   .addrs = &a,
                                   .addr_count = 1,
                                   .subnqn = "s",
                                   .hostnqn = "h",
                                   .queues = 2,
                                   .entries = 8,
                                   .depth = 8,
                                   .kato_ms = 1000,
                                   .flags = SNIC_NVMEHOST_CREDIT,
                                   .connect_ns = UINT64_C(2000000000),
                                   .io_ns = UINT64_C(1000000000),
                                   .loss_ns = UINT64_C(3000000000)};
    struct snic_nvmehost *h = NULL;
    int good = f->left == 0; /* then this is a target as any other */
    size_t size = snic_nvmehost_memsize(&o);
    void *mem = aligned_alloc(SNIC_NVMEHOST_ALIGN, snic_align_up(size, SNIC_NVMEHOST_ALIGN));
    must(mem != NULL && snic_nvmehost_open(&h, mem, size, f->net[1], &o) == 0);
    (void)snic_nvmehost_wait(h, UINT64_C(6000000000));
    f->io = snic_nvmehost_io(h);
    for (uint32_t i = 0; i < REQS && f->io != NULL; i++) {
        f->r[i].f = f;
        user_next(&f->r[i]);
    }
    uint64_t events = 0;
    for (uint32_t i = 0; i < 200; i++) {
        events += snic_world_run(f->world, snic_world_now(f->world) + 100000000, 200000);
        must(snic_nvmehost_check(h) == 0);
    }
    must(events < 200000); /* it does not spin */
    must(snic_nvmehost_close(h) == mem);
    for (uint32_t i = 0; i < REQS; i++)
        must(!f->r[i].busy);
    must(f->done == f->begun && (!good || f->done == TOTAL));
    free(mem);
}

static void fuzz_name(const uint8_t *data, size_t size)
{
    static struct snic_nvmehost_uri u;
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    if (snic_nvmehost_uri_parse(&u, text) == NULL && u.hostnqn[0] != 0)
        must(snic_nvmehost_opts_wrong(&u.opts) == NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    memset(&fuzz, 0, sizeof(fuzz));
    if (size > 0 && data[0] == 0xff) {
        fuzz_name(data + 1, size - 1);
        return 0;
    }
    fuzz.in = data;
    fuzz.left = size;
    fuzz_open(&fuzz);
    fuzz_run(&fuzz);
    fuzz_close(&fuzz);
    return 0;
}
