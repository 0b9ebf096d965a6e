/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The subsystem driven by a string of operations: connections, commands with any entry and data,
 * losses, namespaces, ANA, time, I/O entries, and an owner that answers when the string lets it.
 * After each operation the engine is checked; at the end every command must have been returned.
 */
#include "snicstore/nvmesub.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNS = 8, CMDS = 24, DATA = 4096, NAMESPACES = 6 };
enum { IDLE = 0, SENT, OWNED };

struct fuzz_cmd {
    struct snic_nvmesub_cmd c;
    int state;
    int auth;
    unsigned char *data;
};

struct fuzz_conn {
    int open, ended, attached;
    uint32_t at_device;
    struct snic_nvmesub_queue q;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_nvmesub *s;
    struct snic_nvmesub_view *v;
    uint64_t now;
    uint64_t quiesce[NAMESPACES + 1], persist[NAMESPACES + 1];
    struct fuzz_conn conn[CONNS];
    struct fuzz_cmd cmd[CMDS];
};

static void must(int ok)
{
    if (!ok)
        abort();
}

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
    if (v < 0xf0)
        return v;
    v = take(f);
    v |= (uint32_t)take(f) << 8;
    v |= (uint32_t)take(f) << 16;
    return v | (uint32_t)take(f) << 24;
}

static const char *fuzz_nqn(unsigned i)
{
    static const char *const names[] = {"nqn.a", "nqn.b", "nqn.c", SNIC_NVME_DISCOVERY_NQN};
    return names[i % 4];
}

static void fuzz_open(struct fuzz *f)
{
    uint8_t b = take(f);
    struct snic_nvmesub_opts o = {.opts_size = sizeof(o),
                                  .flags = b & 7,
                                  .controllers_max = 3,
                                  .conns_max = CONNS,
                                  .namespaces_max = NAMESPACES,
                                  .hosts_max = 3,
                                  .allowed_max = 2,
                                  .groups_max = 2,
                                  .entries_max = 2,
                                  .queues_max = 2,
                                  .depth_max = 4,
                                  .data_max = 4096,
                                  .subnqn = "nqn.s"};
    size_t size = snic_nvmesub_memsize(&o);
    must(size > 0);
    void *mem = aligned_alloc(SNIC_NVMESUB_ALIGN, size);
    must(mem != NULL && snic_nvmesub_init(&f->s, mem, size, &o, f->now) == 0);
    f->v = snic_nvmesub_get_view(f->s);
}

static void fuzz_action(struct fuzz *f, const struct snic_nvmesub_action *a)
{
    struct fuzz_cmd *c = a->cmd != NULL ? SNIC_CONTAINER(a->cmd, struct fuzz_cmd, c) : NULL;
    switch (a->kind) {
    case SNIC_NVMESUB_COMPLETE:
    case SNIC_NVMESUB_DROP:
        must(c->state == SENT && c->c.data_out <= c->c.room);
        must(a->kind == SNIC_NVMESUB_COMPLETE || !a->attached);
        c->state = IDLE;
        free(c->data);
        c->data = NULL;
        if (a->attached) {
            f->conn[a->conn].attached = 1;
            f->conn[a->conn].q = a->queue;
        }
        break;
    case SNIC_NVMESUB_END:
        must(f->conn[a->conn].open && !f->conn[a->conn].ended);
        f->conn[a->conn].ended = 1;
        break;
    case SNIC_NVMESUB_ABORT:
    case SNIC_NVMESUB_AUTH:
        must(c->state == SENT);
        c->state = OWNED;
        c->auth = a->kind == SNIC_NVMESUB_AUTH;
        break;
    case SNIC_NVMESUB_PERSIST:
        f->persist[a->nsid] = a->sequence;
        break;
    case SNIC_NVMESUB_QUIESCE:
        must(f->quiesce[a->nsid] == 0);
        f->quiesce[a->nsid] = a->sequence;
        break;
    default:
        must(a->kind == SNIC_NVMESUB_UNFENCE);
    }
}

static void fuzz_poll(struct fuzz *f)
{
    struct snic_nvmesub_action a;
    while (snic_nvmesub_poll(f->s, &a)) {
        fuzz_action(f, &a);
        must(snic_nvmesub_check(f->s) == 0);
    }
}

static void fuzz_lost(struct fuzz *f, uint32_t i)
{
    struct fuzz_conn *n = &f->conn[i];
    if (!n->open)
        return;
    if (n->attached)
        snic_nvmesub_io_lost(f->v, &n->q);
    snic_nvmesub_lost(f->s, i, f->now);
    must(snic_nvmesub_check(f->s) == 0);
    fuzz_poll(f); /* an END may have been on its way */
    n->ended = 1;
}

static void fuzz_stop(struct fuzz *f, uint32_t i)
{
    struct fuzz_conn *n = &f->conn[i];
    if (!n->open || !n->ended || n->at_device != 0)
        return;
    for (int k = 0; k < CMDS; k++)
        if (f->cmd[k].state != IDLE && f->cmd[k].c.conn == i)
            return;
    snic_nvmesub_stopped(f->s, i, f->now);
    memset(n, 0, sizeof(*n));
}

static void fuzz_connect_data(struct fuzz *f, unsigned char *out)
{
    struct snic_nvme_connect_data d = {0};
    uint8_t b = take(f);
    memset(d.hostid, b & 3, 16);
    snic_put_le16(&d.cntlid, (b & 12) == 12 ? SNIC_NVME_CNTLID_DYNAMIC : (uint16_t)(b >> 2 & 3));
    b = take(f);
    snprintf((char *)d.hostnqn, sizeof(d.hostnqn), "%s", fuzz_nqn(b & 3));
    snprintf((char *)d.subnqn, sizeof(d.subnqn), "%s", b & 4 ? fuzz_nqn(3) : "nqn.s");
    if (b & 0x80)
        ((unsigned char *)&d)[take32(f) % sizeof(d)] ^= take(f);
    memcpy(out, &d, sizeof(d));
}

static void fuzz_entry(struct fuzz *f, struct snic_nvme_sqe *e)
{
    uint8_t b = take(f);
    *e = (struct snic_nvme_sqe){.opcode = take(f),
                                .flags = b & 0x20 ? take(f) : SNIC_NVME_FLAG_SGL,
                                .cid = b & 7,
                                .nsid = take32(f),
                                .sgl_key = (uint32_t)SNIC_NVME_SGL_TRANSPORT << 24,
                                .cdw10 = take32(f),
                                .cdw11 = take32(f),
                                .cdw12 = b & 8 ? take32(f) : 0,
                                .cdw13 = b & 0x10 ? take32(f) : 0,
                                .cdw14 = b & 0x40 ? take32(f) : 0};
    if (b & 0x80) /* shifted fields: qid, counts, actions */
        e->cdw10 |= (uint32_t)take(f) << 16;
    e->sgl_length = e->opcode == SNIC_NVME_ADMIN_IDENTIFY ? 4096 : (uint32_t)take(f) * 16;
    if (e->opcode == SNIC_NVME_ADMIN_GET_LOG)
        e->sgl_length = ((e->cdw10 >> 16) + 1) * 4;
}

static void fuzz_submit(struct fuzz *f, uint32_t conn, int connect)
{
    struct snic_nvme_sqe e;
    struct fuzz_cmd *c = NULL;
    for (int i = 0; i < CMDS && c == NULL; i++)
        if (f->cmd[i].state == IDLE)
            c = &f->cmd[i];
    if (c == NULL || !f->conn[conn].open)
        return;
    memset(&c->c, 0x77, sizeof(c->c));
    fuzz_entry(f, &e);
    if (connect) {
        e = (struct snic_nvme_sqe){.opcode = SNIC_NVME_FABRICS,
                                   .flags = SNIC_NVME_FLAG_SGL,
                                   .nsid = SNIC_NVME_FABRICS_CONNECT,
                                   .sgl_length = 1024,
                                   .sgl_key = (uint32_t)SNIC_NVME_SGL_DATA_OFFSET << 24,
                                   .cdw10 = (uint32_t)(take(f) & 3) << 16,
                                   .cdw11 = 1U + (take(f) & 3),
                                   .cdw12 = e.cdw12};
    }
    snic_nvme_sqe_store(c->c.sqe, &e);
    uint32_t size = e.sgl_length <= DATA ? e.sgl_length : 0, direction = snic_nvme_direction(&e);
    c->data = malloc(size + (size == 0)); /* exact: a byte too far is seen */
    must(c->data != NULL);
    c->c.data = c->data;
    c->c.data_in = direction == SNIC_NVME_DIR_OUT ? size : 0;
    c->c.room = direction == SNIC_NVME_DIR_IN ? size : 0;
    if (connect)
        fuzz_connect_data(f, c->data);
    for (uint32_t i = 0; !connect && i < c->c.data_in; i++)
        c->data[i] = i % 8 == 0 ? take(f) & 3 : 0;
    c->state = SENT;
    snic_nvmesub_submit(f->s, conn, &c->c, f->now);
}

/** One entry of an I/O queue, and the start of what may start. */
static void fuzz_io(struct fuzz *f, uint32_t i)
{
    struct fuzz_conn *n = &f->conn[i];
    struct snic_nvme_sqe e;
    struct snic_nvmesub_op op, one;
    struct snic_nvme_cqe cqe;
    unsigned char raw[SNIC_NVME_SQE_BYTES], ranges[4096];
    if (!n->attached)
        return;
    fuzz_entry(f, &e);
    snic_nvme_sqe_store(raw, &e);
    int r = snic_nvmesub_io_check(f->v, &n->q, raw, &op, &cqe);
    must(!n->ended || r == SNIC_NVMESUB_IO_DROP);
    if (r != SNIC_NVMESUB_IO_RUN)
        return;
    must(op.kind >= SNIC_NVMESUB_READ && op.kind <= SNIC_NVMESUB_VERIFY);
    if (op.kind == SNIC_NVMESUB_DISCARD) {
        memset(ranges, take(f), sizeof(ranges));
        for (uint32_t k = 0; k < op.count; k++)
            if (snic_nvmesub_io_range(f->v, &op, ranges, k, &one) == 0)
                must(one.offset <= UINT64_MAX - one.length);
    }
    if (snic_nvmesub_io_start(f->v, &n->q, &op, &cqe) == SNIC_NVMESUB_IO_RUN)
        n->at_device++;
}

static void fuzz_done(struct fuzz *f, uint32_t i)
{
    struct snic_nvme_cqe cqe;
    if (f->conn[i].at_device == 0)
        return;
    f->conn[i].at_device--;
    snic_nvmesub_io_done(f->v, &f->conn[i].q, 1, take(f), take(f), &cqe);
}

static void fuzz_owner(struct fuzz *f, uint8_t b)
{
    uint32_t nsid = 1 + b % NAMESPACES;
    if (b & 0x40) {
        struct fuzz_cmd *c = &f->cmd[b % CMDS];
        if (c->state != OWNED)
            return;
        c->state = SENT;
        if (c->auth && b & 0x20 && !f->conn[c->c.conn].ended) {
            snic_nvmesub_authenticated(f->s, c->c.conn);
            if (f->conn[c->c.conn].attached)
                snic_nvmesub_io_authenticated(&f->conn[c->c.conn].q);
        }
        if (c->auth)
            snic_nvmesub_auth_done(f->s, &c->c, b & 0x80 ? SNIC_NVME_SC_INTERNAL : 0);
        else
            snic_nvmesub_abort_done(f->s, &c->c, b & 1);
    } else if (b & 0x80 && f->quiesce[nsid] != 0) {
        uint64_t sequence = f->quiesce[nsid];
        f->quiesce[nsid] = 0;
        snic_nvmesub_quiesced(f->s, nsid, sequence);
    } else if (f->persist[nsid] != 0) {
        unsigned char record[64 + 256 * 3];
        int size = snic_nvmesub_record(f->s, nsid, record, sizeof(record));
        must(size >= 64 || size == SNIC_ENOENT);
        must(size < 0 || snic_nvmesub_restore(f->s, nsid, record, (size_t)size) <= 0);
        snic_nvmesub_persisted(f->s, nsid, f->persist[nsid], b & 0x20 ? SNIC_EIO : 0);
        f->persist[nsid] = 0;
    }
}

static void fuzz_configure(struct fuzz *f, uint8_t b)
{
    uint32_t nsid = 1 + b % NAMESPACES;
    struct snic_nvmesub_ns_opts o = {.opts_size = sizeof(o),
                                     .nsid = nsid,
                                     .shift = b & 0x80 ? 9 : 12,
                                     .blocks = 1 + take(f),
                                     .uuid = {1}};
    struct snic_nvme_discovery_entry entry = {.trtype = 3};
    struct snic_nvmesub_range range = {.family = 1, .bits = b & 31};
    const char *host = fuzz_nqn(b);
    switch (take(f) % 9) {
    case 0:
    case 1:
        (void)!snic_nvmesub_ns_add(f->s, &o);
        break;
    case 2:
        (void)!snic_nvmesub_ns_remove(f->s, nsid);
        break;
    case 3:
        (void)!snic_nvmesub_ns_resize(f->s, nsid, take(f));
        break;
    case 4:
        (void)!snic_nvmesub_ns_read_only(f->s, nsid, b & 0x40);
        break;
    case 5:
        (void)!snic_nvmesub_ns_group(f->s, nsid, b >> 4);
        break;
    case 6:
        (void)!snic_nvmesub_ana_set(f->s, 1 + b % 2, b >> 4, take(f));
        break;
    case 7:
        if (b & 0x40)
            (void)!snic_nvmesub_allow(f->s, host, b >> 7, &range, b >> 5 & 1);
        else
            (void)!snic_nvmesub_deny(f->s, host);
        break;
    default:
        (void)!snic_nvmesub_entry(f->s, b % 3, b & 4 ? &entry : NULL, &host, b >> 3 & 1);
    }
}

static void fuzz_step(struct fuzz *f)
{
    uint8_t op = take(f), b = op >> 4;
    uint32_t conn = b % CONNS;
    struct snic_nvmesub_peer peer = {.port = b % 2, .address = {.family = 1}};
    int r;
    switch (op % 11) {
    case 0:
        r = snic_nvmesub_open(f->s, &peer);
        must(r == SNIC_EAGAIN || (r >= 0 && r < CONNS && !f->conn[r].open));
        if (r >= 0)
            f->conn[r].open = 1;
        break;
    case 1:
        fuzz_submit(f, conn, 1);
        break;
    case 2:
    case 3:
        fuzz_submit(f, conn, 0);
        break;
    case 4:
        fuzz_io(f, conn);
        break;
    case 5:
        fuzz_done(f, conn);
        break;
    case 6:
        fuzz_lost(f, conn);
        break;
    case 7:
        fuzz_stop(f, conn);
        break;
    case 8:
        fuzz_owner(f, take(f));
        break;
    case 9:
        fuzz_configure(f, take(f));
        break;
    default:
        f->now += (uint64_t)take(f) << (2 * b);
        snic_nvmesub_tick(f->s, f->now);
        must(snic_nvmesub_deadline_ns(f->s) > f->now);
    }
    must(snic_nvmesub_check(f->s) == 0);
    if ((op & 0x80) == 0)
        fuzz_poll(f);
}

static void fuzz_close(struct fuzz *f)
{
    struct snic_nvmesub_stats st;
    for (uint32_t i = 0; i < CONNS; i++)
        while (f->conn[i].at_device != 0)
            fuzz_done(f, i);
    for (uint32_t i = 0; i < CONNS; i++)
        fuzz_lost(f, i);
    for (int round = 0; round < 3; round++) {
        fuzz_poll(f);
        for (int i = 0; i < CMDS; i++) {
            struct fuzz_cmd *c = &f->cmd[i];
            if (c->state != OWNED)
                continue;
            c->state = SENT;
            if (c->auth)
                snic_nvmesub_auth_done(f->s, &c->c, 0);
            else
                snic_nvmesub_abort_done(f->s, &c->c, 0);
        }
        for (uint32_t i = 1; i <= NAMESPACES; i++)
            if (f->quiesce[i] != 0) {
                uint64_t sequence = f->quiesce[i];
                f->quiesce[i] = 0;
                snic_nvmesub_quiesced(f->s, i, sequence);
            }
        fuzz_poll(f);
        for (uint32_t i = 0; i < CONNS; i++)
            fuzz_stop(f, i);
    }
    fuzz_poll(f);
    must(snic_nvmesub_check(f->s) == 0);
    for (int i = 0; i < CMDS; i++)
        must(f->cmd[i].state == IDLE);
    snic_nvmesub_get_stats(f->s, &st);
    must(st.conns == 0 && st.controllers == 0);
    free(snic_nvmesub_fini(f->s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    memset(&f, 0, sizeof(f));
    f.in = data;
    f.left = size < 4096 ? size : 4096;
    f.now = 1;
    fuzz_open(&f);
    while (f.left > 0)
        fuzz_step(&f);
    fuzz_close(&f);
    return 0;
}
