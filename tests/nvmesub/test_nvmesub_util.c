/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_nvmesub_util.h"

#include <stdio.h>

void nx_name(uint8_t field[SNIC_NVME_NQN_BYTES], const char *nqn)
{
    memset(field, 0, SNIC_NVME_NQN_BYTES);
    memcpy(field, nqn, strlen(nqn));
}

const char *nx_nqn(int i)
{
    static char names[8][64];
    snprintf(names[i % 8], sizeof(names[0]), "nqn.2026-11.example:host%d", i);
    return names[i % 8];
}

void nx_opts(struct snic_nvmesub_opts *o)
{
    *o = (struct snic_nvmesub_opts){.opts_size = sizeof(*o),
                                    .flags = SNIC_NVMESUB_ANY_HOST,
                                    .controllers_max = 6,
                                    .conns_max = 24,
                                    .namespaces_max = NX_NS,
                                    .hosts_max = 6,
                                    .allowed_max = 4,
                                    .groups_max = 3,
                                    .entries_max = 4,
                                    .queues_max = 4,
                                    .depth_max = 16,
                                    .data_max = NX_DATA,
                                    .subnqn = NX_SUBNQN,
                                    .serial = "S1",
                                    .model = "M"};
}

void nx_open(struct nx *x, const struct snic_nvmesub_opts *in)
{
    struct snic_nvmesub_opts o;
    memset(x, 0, sizeof(*x));
    nx_opts(&o);
    if (in != NULL)
        o = *in;
    size_t size = snic_nvmesub_memsize(&o);
    assert_true(size > 0);
    x->mem = support_guard_alloc(size, SNIC_NVMESUB_ALIGN);
    x->now = 1000;
    assert_int_equal(snic_nvmesub_init(&x->s, x->mem, size, &o, x->now), 0);
    assert_int_equal(snic_nvmesub_check(x->s), 0);
    x->v = snic_nvmesub_get_view(x->s);
}

void nx_free(struct nx_cmd *c)
{
    assert_true(c->busy && (c->done || c->dropped));
    c->busy = 0;
}

static void nx_action(struct nx *x, const struct snic_nvmesub_action *a)
{
    struct nx_cmd *c = a->cmd != NULL ? SNIC_CONTAINER(a->cmd, struct nx_cmd, c) : NULL;
    switch (a->kind) {
    case SNIC_NVMESUB_COMPLETE:
    case SNIC_NVMESUB_DROP:
        assert_true(c->busy && !c->done && !c->dropped);
        c->done = a->kind == SNIC_NVMESUB_COMPLETE;
        c->dropped = !c->done;
        if (a->attached) {
            x->conn[a->conn].attached = 1;
            x->conn[a->conn].q = a->queue;
        }
        break;
    case SNIC_NVMESUB_END:
        assert_true(x->conn[a->conn].open);
        x->conn[a->conn].ended = 1;
        x->conn[a->conn].reason = a->reason;
        break;
    case SNIC_NVMESUB_QUIESCE:
        x->quiesces++;
        x->quiesce = *a;
        if (!x->hold_quiesce)
            snic_nvmesub_quiesced(x->s, a->nsid, a->sequence);
        break;
    case SNIC_NVMESUB_PERSIST:
        x->persists++;
        x->persist = *a;
        if (x->hold_persist)
            break;
        x->record_size[a->nsid - 1] =
            snic_nvmesub_record(x->s, a->nsid, x->record[a->nsid - 1], NX_RECORD);
        snic_nvmesub_persisted(x->s, a->nsid, a->sequence, x->persist_error);
        break;
    case SNIC_NVMESUB_ABORT:
        x->aborts++;
        x->abort = *a;
        if (!x->hold_abort)
            snic_nvmesub_abort_done(x->s, a->cmd, 0);
        break;
    case SNIC_NVMESUB_AUTH:
        x->auths++;
        x->auth = *a;
        break;
    default:
        assert_int_equal(a->kind, SNIC_NVMESUB_UNFENCE);
        x->unfences++;
        break;
    }
}

int nx_stop(struct nx *x)
{
    int stopped = 0;
    for (uint32_t i = 0; i < NX_CONNS; i++) {
        struct nx_conn *n = &x->conn[i];
        if (!n->open || !(n->ended || n->lost))
            continue;
        if (n->attached)
            snic_nvmesub_io_lost(x->v, &n->q);
        if (n->attached && n->q.at_device != 0)
            continue;
        for (int k = 0; k < NX_CMDS; k++) /* the owner has some of its commands */
            if (x->cmd[k].busy && x->cmd[k].c.conn == i && !x->cmd[k].done && !x->cmd[k].dropped)
                n = NULL, k = NX_CMDS;
        if (n == NULL)
            continue;
        snic_nvmesub_stopped(x->s, i, x->now);
        memset(n, 0, sizeof(*n));
        stopped++;
    }
    return stopped;
}

void nx_pump(struct nx *x)
{
    struct snic_nvmesub_action a;
    int more;
    assert_int_equal(snic_nvmesub_check(x->s), 0);
    do {
        more = 0;
        while (snic_nvmesub_poll(x->s, &a)) {
            more = 1;
            nx_action(x, &a);
            assert_int_equal(snic_nvmesub_check(x->s), 0);
        }
        if (!x->hold_stop)
            more |= nx_stop(x) != 0;
    } while (more);
    assert_int_equal(snic_nvmesub_check(x->s), 0);
}

uint32_t nx_conn(struct nx *x, uint32_t port)
{
    struct snic_nvmesub_peer p = {
        .port = port, .address = {.family = SNIC_NVME_ADRFAM_IPV4, .address = {10, 0, 0, 1}}};
    int conn = snic_nvmesub_open(x->s, &p);
    assert_true(conn >= 0 && conn < NX_CONNS);
    assert_false(x->conn[conn].open);
    memset(&x->conn[conn], 0, sizeof(x->conn[conn]));
    x->conn[conn].open = 1;
    return (uint32_t)conn;
}

void nx_lost(struct nx *x, uint32_t conn)
{
    x->conn[conn].lost = 1;
    if (x->conn[conn].attached)
        snic_nvmesub_io_lost(x->v, &x->conn[conn].q);
    snic_nvmesub_lost(x->s, conn, x->now);
}

void nx_close(struct nx *x)
{
    x->hold_stop = x->hold_quiesce = x->hold_persist = x->hold_abort = 0;
    for (uint32_t i = 0; i < NX_CONNS; i++)
        if (x->conn[i].open)
            nx_lost(x, i);
    nx_pump(x);
    struct snic_nvmesub_stats st;
    snic_nvmesub_get_stats(x->s, &st);
    assert_int_equal(st.conns, 0);
    assert_int_equal(st.controllers, 0);
    assert_ptr_equal(snic_nvmesub_fini(x->s), x->mem);
    support_guard_free(x->mem);
}

void nx_sqe(struct snic_nvme_sqe *e, uint8_t opcode, uint32_t nsid, uint32_t bytes)
{
    *e = (struct snic_nvme_sqe){.opcode = opcode,
                                .flags = SNIC_NVME_FLAG_SGL,
                                .cid = 7,
                                .nsid = nsid,
                                .sgl_length = bytes,
                                .sgl_key = (uint32_t)SNIC_NVME_SGL_TRANSPORT << 24};
}

struct nx_cmd *nx_send(struct nx *x, uint32_t conn, const struct snic_nvme_sqe *e, const void *out)
{
    struct nx_cmd *c = NULL;
    for (int i = 0; i < NX_CMDS && c == NULL; i++)
        if (!x->cmd[i].busy)
            c = &x->cmd[i];
    if (c == NULL)
        return NULL;
    memset(&c->c, 0x5a, sizeof(c->c));
    c->busy = 1;
    c->done = c->dropped = 0;
    c->c.data = NULL;
    c->c.data_in = 0;
    c->c.room = 0;
    memset(c->data, 0xee, sizeof(c->data));
    uint32_t direction = snic_nvme_direction(e);
    if (e->sgl_length <= NX_DATA && direction != SNIC_NVME_DIR_NONE) {
        c->c.data = c->data;
        if (direction == SNIC_NVME_DIR_OUT && out != NULL) {
            memcpy(c->data, out, e->sgl_length);
            c->c.data_in = e->sgl_length;
        } else if (direction == SNIC_NVME_DIR_IN) {
            c->c.room = e->sgl_length;
        }
    }
    snic_nvme_sqe_store(c->c.sqe, e);
    snic_nvmesub_submit(x->s, conn, &c->c, x->now);
    return c;
}

uint32_t nx_run(struct nx *x, uint32_t conn, const struct snic_nvme_sqe *e, const void *out)
{
    struct nx_cmd *c = nx_send(x, conn, e, out);
    assert_non_null(c);
    nx_pump(x);
    assert_true(c->done);
    assert_int_equal(c->c.cqe.cid, e->cid);
    x->last = c;
    nx_free(c);
    return c->c.cqe.status & ~SNIC_NVME_MORE;
}

void nx_connect_data(struct snic_nvme_connect_data *d, int host, uint16_t cntlid)
{
    memset(d, 0, sizeof(*d));
    memset(d->hostid, 0x10 + host, sizeof(d->hostid));
    snic_put_le16(&d->cntlid, cntlid);
    nx_name(d->subnqn, NX_SUBNQN);
    nx_name(d->hostnqn, nx_nqn(host));
}

void nx_connect_sqe(struct snic_nvme_sqe *e, uint16_t qid, uint16_t entries, uint32_t kato_ms)
{
    nx_sqe(e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_CONNECT, sizeof(struct snic_nvme_connect_data));
    e->sgl_key = (uint32_t)SNIC_NVME_SGL_DATA_OFFSET << 24;
    e->cdw10 = (uint32_t)qid << 16;
    e->cdw11 = (uint32_t)(entries - 1);
    e->cdw12 = kato_ms;
}

struct nx_ctrl nx_admin(struct nx *x, int host, uint32_t port, uint32_t kato_ms)
{
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct nx_ctrl c = {.conn = nx_conn(x, port), .host = host};
    nx_connect_data(&d, host, SNIC_NVME_CNTLID_DYNAMIC);
    nx_connect_sqe(&e, 0, 32, kato_ms);
    assert_int_equal(nx_run(x, c.conn, &e, &d), 0);
    c.cntlid = (uint16_t)x->last->c.cqe.dw0;
    assert_int_equal(nx_csts(x, &c), 0);
    assert_int_equal(nx_cc(x, &c, NX_CC_EN), 0);
    assert_int_equal(nx_csts(x, &c), SNIC_NVME_CSTS_RDY);
    return c;
}

uint32_t nx_cc(struct nx *x, const struct nx_ctrl *c, uint32_t cc)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_SET, 0);
    e.cdw11 = SNIC_NVME_PROP_CC;
    e.cdw12 = cc;
    return nx_run(x, c->conn, &e, NULL);
}

uint32_t nx_csts(struct nx *x, const struct nx_ctrl *c)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_GET, 0);
    e.cdw11 = SNIC_NVME_PROP_CSTS;
    assert_int_equal(nx_run(x, c->conn, &e, NULL), 0);
    return x->last->c.cqe.dw0;
}

uint32_t nx_queue(struct nx *x, const struct nx_ctrl *c, uint16_t qid)
{
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    uint32_t conn = nx_conn(x, 0);
    nx_connect_data(&d, c->host, c->cntlid);
    nx_connect_sqe(&e, qid, 8, 0);
    assert_int_equal(nx_run(x, conn, &e, &d), 0);
    assert_true(x->conn[conn].attached);
    assert_int_equal(x->last->c.cqe.dw0, c->cntlid);
    return conn;
}

uint32_t nx_feature(struct nx *x, const struct nx_ctrl *c, uint8_t id, uint32_t nsid,
                    uint32_t value)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_SET_FEATURES, nsid, 0);
    e.cdw10 = id;
    e.cdw11 = value;
    return nx_run(x, c->conn, &e, NULL);
}

const unsigned char *nx_log(struct nx *x, const struct nx_ctrl *c, uint8_t id, uint32_t bytes,
                            int rae)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_LOG, SNIC_NVME_NSID_ALL, bytes);
    e.cdw10 = id | (rae ? 1U << 15 : 0U) | (bytes / 4 - 1) << 16;
    assert_int_equal(nx_run(x, c->conn, &e, NULL), 0);
    assert_int_equal(x->last->c.data_out, bytes);
    return x->last->data;
}

uint32_t nx_ns(struct nx *x, uint32_t nsid, uint64_t blocks)
{
    struct snic_nvmesub_ns_opts o = {.opts_size = sizeof(o),
                                     .nsid = nsid,
                                     .shift = 9,
                                     .blocks = blocks,
                                     .nguid = {0xab, (uint8_t)nsid}};
    int r = snic_nvmesub_ns_add(x->s, &o);
    assert_true(r > 0);
    nx_pump(x);
    return (uint32_t)r;
}

struct nx_cmd *nx_aer(struct nx *x, const struct nx_ctrl *c)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_AER, 0, 0);
    struct nx_cmd *cmd = nx_send(x, c->conn, &e, NULL);
    assert_non_null(cmd);
    nx_pump(x);
    return cmd;
}

uint32_t nx_resv(struct nx *x, uint32_t conn, uint8_t opcode, uint32_t nsid, uint32_t cdw10,
                 uint64_t crkey, uint64_t other)
{
    struct snic_nvme_sqe e;
    struct snic_nvmesub_op op;
    struct snic_nvme_cqe cqe;
    unsigned char data[16], raw[SNIC_NVME_SQE_BYTES];
    snic_put_le64(data, crkey);
    snic_put_le64(data + 8, other);
    nx_sqe(&e, opcode, nsid, opcode == SNIC_NVME_IO_RESV_RELEASE ? 8 : 16);
    e.cdw10 = cdw10;
    snic_nvme_sqe_store(raw, &e);
    assert_int_equal(snic_nvmesub_io_check(x->v, &x->conn[conn].q, raw, &op, &cqe),
                     SNIC_NVMESUB_IO_FORWARD);
    uint32_t status = nx_run(x, conn, &e, data);
    snic_nvmesub_io_finish(x->v, &x->conn[conn].q, 0, &x->last->c.cqe);
    return status;
}

uint32_t nx_io(struct nx *x, uint32_t conn, uint8_t opcode, uint32_t nsid, uint64_t lba,
               struct snic_nvmesub_op *op)
{
    struct snic_nvme_sqe e;
    struct snic_nvme_cqe cqe = {0};
    unsigned char raw[SNIC_NVME_SQE_BYTES];
    int data = opcode == SNIC_NVME_IO_READ || opcode == SNIC_NVME_IO_WRITE ||
               opcode == SNIC_NVME_IO_COMPARE;
    nx_sqe(&e, opcode, nsid, data ? 512 : opcode == SNIC_NVME_IO_DSM ? 16 : 0);
    if (opcode == SNIC_NVME_IO_DSM)
        e.cdw11 = SNIC_NVME_DSM_DEALLOCATE;
    else
        e.cdw10 = (uint32_t)lba, e.cdw11 = (uint32_t)(lba >> 32);
    snic_nvme_sqe_store(raw, &e);
    int r = snic_nvmesub_io_check(x->v, &x->conn[conn].q, raw, op, &cqe);
    if (r == SNIC_NVMESUB_IO_STATUS) {
        assert_int_equal(cqe.cid, e.cid);
        return NX_STATUS(cqe.status);
    }
    return (uint32_t)r;
}
