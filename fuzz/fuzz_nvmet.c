/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A target with two loops between hostile hosts, in a simulated world. The input is a string of
 * operations: bytes and PDUs of any content from three clients, well-formed greetings, Connects and
 * commands, ends of connections, time, and a namespace that is removed and added. After each the
 * target is checked; at the end it must close.
 */
#include "snicstore/nvmet.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 3, LOOPS = 2, OUT = 4096, DISK = 64 << 10 };

struct fuzz_client {
    struct snic_net_conn *conn;
    struct snic_net_send_req send;
    struct snic_iov iov;
    unsigned char out[OUT];
    int busy;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_world *w;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[LOOPS + 1]; /* the clients' is the last */
    struct snic_net *net[LOOPS + 1];
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_nvmet *t[LOOPS];
    void *mem[LOOPS];
    struct snic_nvmet_ns_opts ns;
    struct fuzz_client clients[CLIENTS];
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

static uint32_t take_bytes(struct fuzz *f, unsigned char *to, uint32_t most)
{
    uint32_t n = (uint32_t)snic_min_u64(f->left, most);
    memcpy(to, f->in, n);
    f->in += n;
    f->left -= n;
    return n;
}

/* ---- What a client sends ---- */

static void fuzz_greeting(unsigned char *p)
{
    memset(p, 0, 128);
    p[2] = 128;
    snic_put_le32(p + 4, 128);
}

/* The header of a command's capsule, with @p data bytes behind the entry. */
static uint32_t fuzz_capsule(unsigned char *p, uint32_t data)
{
    memset(p, 0, 72);
    p[0] = SNIC_NVMETCP_CAPSULE_CMD;
    p[2] = 72;
    p[3] = data > 0 ? 72 : 0;
    snic_put_le32(p + 4, 72 + data);
    return 72 + data;
}

static uint32_t fuzz_connect(struct fuzz *f, unsigned char *p)
{
    uint8_t what = take(f);
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_FABRICS,
                              .flags = SNIC_NVME_FLAG_SGL,
                              .nsid = SNIC_NVME_FABRICS_CONNECT};
    struct snic_nvme_connect_data d;
    uint32_t size = fuzz_capsule(p, sizeof(d));
    memset(&d, 0, sizeof(d));
    d.hostid[0] = 1 + (what & 1);
    memcpy(d.hostnqn, "nqn.h", 5);
    memcpy(d.subnqn, "nqn.s", 5);
    snic_put_le16(&d.cntlid, (what & 2) != 0 ? take(f) : SNIC_NVME_CNTLID_DYNAMIC);
    e.cid = what;
    e.cdw10 = (what & 2) != 0 ? (uint32_t)(what >> 4 & 3) << 16 : 0;
    e.cdw11 = 31;
    e.sgl_length = sizeof(d);
    e.sgl_key = SNIC_NVME_SGL_DATA_OFFSET << 24;
    snic_nvme_sqe_store(p + 8, &e);
    memcpy(p + 72, &d, sizeof(d));
    return size;
}

/* A command of an I/O queue, nearly right; or one that enables the controller, or resets it. */
static uint32_t fuzz_command(struct fuzz *f, unsigned char *p)
{
    static const uint8_t opcodes[] = {
        SNIC_NVME_IO_WRITE,        SNIC_NVME_IO_READ, SNIC_NVME_IO_FLUSH, SNIC_NVME_IO_COMPARE,
        SNIC_NVME_IO_WRITE_ZEROES, SNIC_NVME_IO_DSM,  SNIC_NVME_FABRICS,  SNIC_NVME_ADMIN_IDENTIFY};
    uint8_t what = take(f);
    uint32_t data = (what & 8) != 0 ? 4096U * (1 + take(f) % 4) : 0, size;
    struct snic_nvme_sqe e = {.opcode = opcodes[what & 7], .flags = SNIC_NVME_FLAG_SGL};
    e.cid = what ^ take(f);
    e.nsid = 1;
    e.cdw10 = take(f) & 15;
    e.cdw12 = data > 0 ? data / 4096 - 1 : 0;
    if (e.opcode == SNIC_NVME_FABRICS) {
        e.nsid = SNIC_NVME_FABRICS_PROPERTY_SET;
        e.cdw11 = SNIC_NVME_PROP_CC;
        e.cdw12 = 0x460000 | (what >> 4 & 1);
    }
    e.sgl_length = data;
    e.sgl_key = SNIC_NVME_SGL_TRANSPORT << 24;
    if (e.opcode == SNIC_NVME_IO_WRITE && (what & 16) != 0) {
        e.sgl_key = SNIC_NVME_SGL_DATA_OFFSET << 24;
        e.cdw12 = 0;
        e.sgl_length = 512;
    }
    size = fuzz_capsule(p, snic_nvme_sgl_type(&e) == SNIC_NVME_SGL_DATA_OFFSET ? 512 : 0);
    snic_nvme_sqe_store(p + 8, &e);
    return size;
}

/* Data for an R2T, whose tag is guessed. */
static uint32_t fuzz_data(struct fuzz *f, unsigned char *p)
{
    uint32_t bytes = 512U * (take(f) % 6);
    memset(p, 0, 24 + bytes);
    p[0] = SNIC_NVMETCP_H2C_DATA;
    p[1] = take(f) & 7;
    p[2] = p[3] = 24;
    snic_put_le32(p + 4, 24 + bytes);
    p[8] = take(f);
    p[10] = take(f);
    p[11] = take(f);
    snic_put_le32(p + 16, bytes);
    return 24 + bytes;
}

static void fuzz_sent(struct snic_net_send_req *r)
{
    SNIC_CONTAINER(r, struct fuzz_client, send)->busy = 0;
}

static void fuzz_send(struct fuzz *f, struct fuzz_client *c, uint8_t what)
{
    uint32_t n = 128;
    if (c->busy)
        return;
    if (what == 0)
        fuzz_greeting(c->out);
    else if (what == 1)
        n = fuzz_connect(f, c->out);
    else if (what == 2)
        n = fuzz_command(f, c->out);
    else if (what == 3)
        n = fuzz_data(f, c->out);
    else
        n = take_bytes(f, c->out, take(f));
    c->iov = (struct snic_iov){c->out, n};
    c->send = (struct snic_net_send_req){
        .done = fuzz_sent, .iov = &c->iov, .iov_count = 1, .region = SNIC_NO_REGION};
    if (n > 0 && snic_net_send(c->conn, &c->send) == 1)
        c->busy = 1;
}

static void fuzz_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void fuzz_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct fuzz_client *)ctx)->conn = NULL;
}

static struct snic_net_addr fuzz_addr(uint32_t loop)
{
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1 + loop, .port = 4420};
    return a;
}

static void fuzz_client(struct fuzz *f, uint8_t what)
{
    static const struct snic_net_stream_events ev = {.recv = fuzz_recv, .closed = fuzz_closed};
    struct fuzz_client *c = &f->clients[what % CLIENTS];
    struct snic_net_addr a = fuzz_addr(what >> 7);
    what = what / CLIENTS % 8;
    if (c->conn == NULL) {
        c->busy = 0;
        if (snic_net_connect(f->net[LOOPS], &a, &ev, c, &c->conn) != 0)
            c->conn = NULL;
    } else if (what == 5) {
        snic_net_abort(c->conn);
    } else if (what == 6) {
        snic_net_shutdown(c->conn);
    } else if (what == 7) {
        snic_net_pause(c->conn, take(f) & 1);
    } else {
        fuzz_send(f, c, what);
    }
}

/* ---- The world ---- */

static void fuzz_target(struct fuzz *f)
{
    struct snic_nvmet_opts o = {.opts_size = sizeof(o),
                                .conns_max = 4,
                                .host_conns_max = 8,
                                .subsystems_max = 1,
                                .namespaces_max = 2,
                                .queues_max = 4,
                                .depth_max = 32,
                                .data_max = 8192,
                                .data_bytes = 16384,
                                .capsules = 4,
                                .loops_max = LOOPS};
    struct snic_nvmet_subsystem_opts s = {
        .opts_size = sizeof(s), .flags = SNIC_NVMESUB_ANY_HOST, .subnqn = "nqn.s"};
    for (uint32_t i = 0; i < LOOPS; i++) {
        struct snic_net_addr a = fuzz_addr(i);
        size_t size = i == 0 ? snic_nvmet_memsize(&o) : snic_nvmet_join_memsize(&o);
        f->mem[i] = aligned_alloc(SNIC_NVMET_ALIGN, size);
        must(f->mem[i] != NULL);
        if (i == 0)
            must(snic_nvmet_open(&f->t[0], f->mem[0], size, f->net[0], &o) == 0 &&
                 snic_nvmet_listen(f->t[0], &a, NULL) == 0);
        else
            must(snic_nvmet_join(&f->t[i], f->mem[i], size, f->net[i], f->t[0]) == 0 &&
                 snic_nvmet_share(f->t[i], 0, &a) == 0);
    }
    must(snic_nvmet_subsystem_add(f->t[0], &s) == 0);
}

static void fuzz_open(struct fuzz *f)
{
    uint8_t what = take(f);
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 1};
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = DISK,
                               .delay_min_ns = 1000,
                               .delay_max_ns = 4000000,
                               .depth = (what & 1) != 0 ? 1 : 64};
    must(snic_world_open(&f->w, &w) == 0 && snic_net_fabric_open(&f->fabric, f->w, NULL) == 0);
    for (uint32_t i = 0; i <= LOOPS; i++)
        must(snic_world_loop(f->w, 1 + i, &f->loop[i]) == 0 &&
             snic_net_sim_open(&f->net[i], f->fabric, f->loop[i], NULL) == 0);
    must(snic_disk_open(&f->disk, &d) == 0);
    must(snic_io_mem_open(&f->io, f->loop[what >> 1 & 1], f->disk) == 0);
    fuzz_target(f);
    f->ns = (struct snic_nvmet_ns_opts){.opts_size = sizeof(f->ns), .nsid = 1, .io = f->io};
    f->ns.uuid[0] = 1;
    must(snic_nvmet_ns_add(f->t[0], 0, &f->ns) == 1);
}

static void fuzz_close(struct fuzz *f)
{
    for (uint32_t i = 0; i < LOOPS; i++)
        snic_nvmet_stop(f->t[i]);
    for (uint32_t i = 0; i < LOOPS; i++)
        must(snic_nvmet_close(f->t[i]) == f->mem[i]);
    snic_io_close(f->io);
    snic_disk_close(f->disk);
    for (uint32_t i = 0; i <= LOOPS; i++) {
        snic_net_shut(f->net[i]);
        snic_loop_close(f->loop[i]);
    }
    for (uint32_t i = 0; i < LOOPS; i++)
        free(f->mem[i]);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->w);
}

static void fuzz_run(struct fuzz *f, uint64_t ns)
{
    (void)snic_world_run(f->w, snic_world_now(f->w) + ns, 100000);
}

static void fuzz_namespace(struct fuzz *f)
{
    if (snic_nvmet_ns_remove(f->t[0], 0, 1, NULL, NULL) != 0)
        (void)!snic_nvmet_ns_add(f->t[0], 0, &f->ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {.in = data, .left = size < 8192 ? size : 8192};
    fuzz_open(&f);
    while (f.left > 0) {
        uint8_t what = take(&f);
        if (what < 240)
            fuzz_client(&f, what);
        else if (what < 254)
            fuzz_run(&f, (uint64_t)(what & 7) * (what & 8 ? 100000 : 3000000));
        else
            fuzz_namespace(&f);
        if (what >= 224)
            fuzz_run(&f, 0);
        for (uint32_t i = 0; i < LOOPS; i++)
            must(snic_nvmet_check(f.t[i]) == 0);
    }
    fuzz_close(&f);
    return 0;
}
