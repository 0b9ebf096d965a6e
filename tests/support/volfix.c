/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "volfix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define BLOCK 4096u
#define VD VOLFIX_VD
#define CLIENT 10u

static void wrong(struct volfix *f, const char *format, ...) SNIC_PRINTF(2, 3);
static void wrong(struct volfix *f, const char *format, ...)
{
    va_list ap;
    if (f->why[0] != 0)
        return;
    va_start(ap, format);
    (void)vsnprintf(f->why, sizeof(f->why), format, ap);
    va_end(ap);
}

/* ---- Servers ---- */

static void opened(void *ctx, int result, const struct snic_segments_report *report)
{
    struct volfix_server *s = ctx;
    (void)report;
    s->opened = 1;
    s->result = result;
}

static void failed(void *ctx, uint32_t disk, int error)
{
    struct volfix_server *s = ctx;
    (void)disk;
    (void)error;
    s->failed++;
}

static uint32_t rights(void *ctx, uint32_t account, uint64_t vd_id)
{
    struct volfix *f = ((struct volfix_server *)ctx)->f;
    f->rights_account = account;
    f->rights_disk = vd_id;
    return f->rights;
}

#define UNIX_BASE UINT64_C(1700000000)

uint64_t volfix_unix(const struct volfix *f)
{
    return UNIX_BASE + f->unix_later + snic_world_now(f->world) / (1000 * VOLFIX_MS);
}

static uint64_t unix_time(void *ctx)
{
    return volfix_unix(ctx);
}

/* Small, so that what the network has no room for waits; and with few buffers, which would be laid
   out anew at each start. */
static const struct snic_net_uring_opts net_opts = {
    .opts_size = sizeof(net_opts), .send_queue = 3, .pool_buffers = 64};

int volfix_server_start(struct volfix *f, uint32_t server)
{
    static const struct snic_volume_server_events ev = {
        .opened = opened, .failed = failed, .rights = rights};
    struct volfix_server *s = &f->server[server];
    struct snic_volume_server_opts o = {.opts_size = sizeof(o), .disks = 1};
    assert_null(s->s);
    assert_int_equal(snic_world_loop(f->world, server, &s->loop), 0);
    assert_int_equal(snic_net_sim_open(&s->net, f->fabric, s->loop, &net_opts), 0);
    assert_int_equal(snic_io_mem_open(&s->io, s->loop, s->disk), 0);
    o.loop = s->loop;
    o.net = s->net;
    o.addr = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = server, .port = VOLFIX_PORT};
    o.io = &s->io;
    o.seed = snic_rng_next(&f->rng);
    o.writes_max = 64;
    o.reads_max = 16;
    o.trains_max = 16;
    o.sends_max = 16;
    o.streams_max = 8;
    o.transports = f->transports;
    o.flags = f->governed;
    o.sec = f->sec;
    o.secret = f->server_secret;
    o.secret_of = f->secret_of;
    o.secret_ctx = f;
    o.token_key = f->token_key;
    o.unix_time = unix_time;
    o.token_ctx = f;
    o.tokens_max = f->tokens_max;
    memcpy(o.wire_keys, f->server_wire[server], sizeof(o.wire_keys));
    o.frames_max = 16;
    if (f->small) {
        o.writes_max = o.reads_max = o.sends_max = 4;
        o.trains_max = 9;
        o.frames_max = 2;
        o.conns_max = 1;
    }
    o.store = (struct snic_segments_opts){
        .flags = SNIC_SEGMENTS_BLANK | f->salvage, .log_bytes = 4u << 20, .cache_blocks = 1024};
    o.store.uuid[0] = server + 1;
    size_t size = snic_volume_server_memsize(&o);
    assert_true(size > 0);
    void *mem = support_guard_alloc(size, SNIC_VOLUME_ALIGN);
    s->opened = 0;
    assert_int_equal(snic_volume_server_open(&s->s, mem, size, &o, &ev, s), 0);
    while (!s->opened)
        assert_int_equal(snic_world_step(f->world), 1);
    return s->result;
}

static void server_close(struct volfix *f, struct volfix_server *s)
{
    (void)f;
    support_guard_free(snic_volume_server_close(s->s));
    s->s = NULL;
    snic_io_close(s->io);
    snic_net_shut(s->net);
    snic_loop_close(s->loop);
}

void volfix_server_kill(struct volfix *f, uint32_t server, uint64_t seed)
{
    snic_disk_power_cut(f->server[server].disk, seed);
    server_close(f, &f->server[server]);
}

void volfix_server_stop(struct volfix *f, uint32_t server)
{
    server_close(f, &f->server[server]);
}

struct store_req {
    struct snic_segments_req *q;
    int done;
};
static struct store_req store;

static void store_done(struct snic_segments_req *q)
{
    assert_ptr_equal(q, store.q);
    store.done = 1;
}

int volfix_store(struct volfix *f, uint32_t server, struct snic_segments_req *q)
{
    q->done = store_done;
    store.q = q;
    store.done = 0;
    int r = snic_segments_submit(snic_volume_server_store(f->server[server].s), q);
    while (r == SNIC_EAGAIN) { /* its log is full */
        volfix_run(f, 100000);
        r = snic_segments_submit(snic_volume_server_store(f->server[server].s), q);
    }
    if (r != 0)
        return r;
    while (!store.done)
        assert_int_equal(snic_world_step(f->world), 1);
    return q->result;
}

void volfix_settle_home(struct volfix *f, uint32_t server)
{
    struct snic_segments *s = snic_volume_server_store(f->server[server].s);
    struct snic_segments_info info;
    snic_segments_checkpoint(s);
    do {
        volfix_run(f, VOLFIX_MS);
        snic_segments_inspect(s, &info);
    } while (info.dirty != 0);
}

void volfix_segment_create(struct volfix *f, uint32_t server, uint32_t segment, uint32_t gen)
{
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_CREATE, .seg_id = 100 + segment};
    q.vd_id = VD;
    q.base_lba = (uint64_t)segment * 512;
    q.gen = gen;
    q.disk = SNIC_SEGMENTS_ANY_DISK;
    assert_int_equal(volfix_store(f, server, &q), 0);
    f->place[segment].server = server;
    f->place[segment].gen = gen;
}

/* ---- The client ---- */

static void map(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen)
{
    struct volfix *f = ctx;
    (void)gen;
    f->maps++;
    assert_true(segment < VOLFIX_SEGMENTS);
    if (!f->mute)
        assert_int_equal(snic_volume_map(f->v, disk, segment, 100 + segment,
                                         f->place[segment].server, f->place[segment].gen),
                         0);
}

static void lease(void *ctx, uint32_t disk)
{
    (void)disk;
    ((struct volfix *)ctx)->leases++;
}

static void suspect(void *ctx, uint32_t server, int is)
{
    (void)server;
    ((struct volfix *)ctx)->suspects += is != 0;
}

static void slow(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks)
{
    (void)disk;
    (void)lba;
    (void)blocks;
    ((struct volfix *)ctx)->slow++;
}

void volfix_token_is(struct volfix *f, const struct snic_ebs_token *t, void *key)
{
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
    assert_int_equal(snic_ebs_token_sign(token, t, f->sec, key), 0);
    assert_int_equal(snic_volume_disk_token(f->v, 0, token), 0);
}

void volfix_token(struct volfix *f)
{
    struct snic_ebs_token t = {.vd_id = VD,
                               .not_after = volfix_unix(f) + f->token_seconds,
                               .key_id = f->token_key_id,
                               .account = f->account,
                               .gen = snic_volume_gen(f->epoch, 0),
                               .rights = f->token_rights};
    if (f->token_rights != 0)
        volfix_token_is(f, &t, f->token_key(f, f->token_key_id));
}

static void token(void *ctx, uint32_t disk)
{
    struct volfix *f = ctx;
    assert_int_equal(disk, 0);
    f->token_requests++;
    if (!f->token_mute)
        volfix_token(f);
}

static void raise_generations(struct volfix *f)
{
    for (uint32_t i = 0; i < VOLFIX_SEGMENTS; i++) {
        struct snic_segments_req q = {.op = SNIC_SEGMENTS_SET_GEN, .seg_id = 100 + i};
        if (f->place[i].gen == 0)
            continue;
        if (f->server[f->place[i].server].s == NULL)
            assert_int_equal(volfix_server_start(f, f->place[i].server), 0);
        q.gen = snic_volume_gen(f->epoch, f->place[i].gen & 0xffff);
        assert_int_equal(volfix_store(f, f->place[i].server, &q), 0);
        f->place[i].gen = q.gen;
    }
}

void volfix_client_start(struct volfix *f)
{
    static const struct snic_volume_events ev = {
        .map = map, .lease = lease, .suspect = suspect, .slow = slow, .token = token};
    struct snic_volume_opts o = {.opts_size = sizeof(o), .rpcs_max = 64, .trains_max = 16};
    struct snic_volume_disk_opts d = {.opts_size = sizeof(d), .vd_id = VD};
    assert_null(f->v);
    f->epoch++;
    raise_generations(f);
    assert_int_equal(snic_world_loop(f->world, CLIENT, &f->loop), 0);
    assert_int_equal(snic_net_sim_open(&f->net, f->fabric, f->loop, &net_opts), 0);
    o.loop = f->loop;
    o.net = f->net;
    o.local = (struct snic_net_addr){.family = SNIC_NET_SIM, .node = CLIENT};
    o.seed = snic_rng_next(&f->rng);
    o.client_epoch = f->epoch;
    o.depth = VOLFIX_DEPTH;
    o.transport = f->transport;
    o.flags = f->paper ? SNIC_VOLUME_PAPER : 0;
    o.deadline_ns = f->deadline_ns;
    o.slow_ns = f->slow_ns;
    o.suspect_ns = f->suspect_ns;
    o.progress_ns = f->progress_ns;
    o.error_ns = f->error_ns;
    o.sec = f->sec;
    o.secret = f->client_secret;
    o.account = f->account;
    memcpy(o.wire_keys, f->client_wire, sizeof(o.wire_keys));
    size_t size = snic_volume_memsize(&o);
    f->mem = support_guard_alloc(size, SNIC_VOLUME_ALIGN);
    assert_int_equal(snic_volume_open(&f->v, f->mem, size, &o, &ev, f), 0);
    for (uint32_t i = 0; i < f->servers; i++) {
        struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = i, .port = VOLFIX_PORT};
        assert_int_equal(snic_volume_server_add(f->v, i, &a), 0);
    }
    d.sa_epoch = f->epoch;
    d.bytes = (uint64_t)VOLFIX_BLOCKS * BLOCK;
    d.xts_key = f->xts_key;
    assert_int_equal(snic_volume_disk_open(f->v, 0, &d, &f->io), 0);
    if (f->token_key != NULL)
        volfix_token(f);
}

void volfix_client_kill(struct volfix *f)
{
    uint64_t wanted = f->wanted;
    f->wanted = 0;
    f->again = volfix_again(f);
    support_guard_free(snic_volume_close(f->v));
    f->wanted = wanted;
    f->v = NULL;
    snic_net_shut(f->net);
    snic_loop_close(f->loop);
}

/* ---- One I/O ---- */

static void io_done(struct snic_io_req *r)
{
    r->backend[0] = 1;
}

int64_t volfix_states(struct volfix *f, uint64_t segment, void *data)
{
    struct snic_io_req r;
    snic_io_req_init(&r);
    r.done = io_done;
    r.op = SNIC_IO_READ;
    r.offset = segment * SNIC_VOLUME_SEGMENT_BYTES;
    r.length = r.buf.size = BLOCK;
    r.buf.base = data;
    int n = snic_volume_disk_states(f->io, &r);
    if (n != 1)
        return n == 0 ? SNIC_EAGAIN : n;
    r.backend[0] = 0;
    while (r.backend[0] == 0)
        assert_int_equal(snic_world_step(f->world), 1);
    return r.result;
}

int64_t volfix_io(struct volfix *f, uint32_t op, uint64_t offset, uint64_t length, void *data)
{
    struct snic_io_req r, *p = &r;
    snic_io_req_init(&r);
    r.done = io_done;
    r.op = (uint8_t)op;
    r.offset = offset;
    r.length = length;
    r.buf.base = data;
    r.buf.size = length;
    int n = snic_io_submit(f->io, &p, 1);
    if (n != 1)
        return n == 0 ? SNIC_EAGAIN : n;
    r.backend[0] = 0;
    while (r.backend[0] == 0)
        assert_int_equal(snic_world_step(f->world), 1);
    return r.result;
}

/* ---- The client ---- */

/* A block's stamp names its writer; its lba distinguishes it. */
static void fill(struct volfix_io *x)
{
    for (uint32_t i = 0; i < x->blocks; i++) {
        unsigned char *p = x->data + (size_t)i * BLOCK;
        memset(p, (int)(x->stamp & 0xff), BLOCK);
        snic_put_le64(p, x->stamp);
        snic_put_le64(p + 8, x->lba + i);
        snic_put_le64(p + BLOCK - 8, x->stamp);
    }
}

/* Writes of a block are one at a time, so stamps are in the order of their effects. */
static int taken(const struct volfix *f, uint64_t lba, uint32_t blocks)
{
    for (uint32_t i = 0; i < VOLFIX_DEPTH; i++) {
        const struct volfix_io *x = &f->ios[i];
        if (x->busy && x->req.op != SNIC_IO_READ && x->req.op != SNIC_IO_FLUSH &&
            x->lba < lba + blocks && lba < x->lba + x->blocks)
            return 1;
    }
    return 0;
}

static void judge_read(struct volfix *f, struct volfix_io *x)
{
    for (uint32_t i = 0; i < x->blocks; i++) {
        const unsigned char *p = x->data + (size_t)i * BLOCK;
        struct volfix_block *b = &f->block[x->lba + i];
        uint64_t stamp = snic_get_le64(p);
        if (stamp != 0 && (stamp > f->stamps || snic_get_le64(p + 8) != x->lba + i ||
                           snic_get_le64(p + BLOCK - 8) != stamp))
            wrong(f, "block %" PRIu64 ": what is read was never written there", x->lba + i);
        if (stamp == 0 && p[BLOCK / 2] != 0)
            wrong(f, "block %" PRIu64 ": neither zeros nor data", x->lba + i);
        /* Zeros have no stamp: they may be as new as any write of zeros of that block. */
        if (stamp != 0 && stamp < x->floor[i])
            wrong(f, "block %" PRIu64 ": %" PRIu64 " is read, %" PRIu64 " was acknowledged",
                  x->lba + i, stamp, x->floor[i]);
        if (stamp == 0 && x->floor[i] > b->order)
            wrong(f, "block %" PRIu64 ": zeros are read, %" PRIu64 " was acknowledged", x->lba + i,
                  x->floor[i]);
        if (stamp > b->acked) /* what was read stays */
            b->acked = stamp;
    }
}

static void client_next(struct volfix *f);

static void client_done(struct snic_io_req *r)
{
    struct volfix_io *x = SNIC_CONTAINER(r, struct volfix_io, req);
    struct volfix *f = x->f;
    x->busy = 0;
    f->inflight--;
    f->done++;
    if (r->result != (int64_t)r->length) {
        f->failed++;
        if (r->result != SNIC_EUNKNOWN && r->result != SNIC_ECANCELED)
            wrong(f, "an I/O ends with %s", snic_errname((int)r->result));
    } else if (r->op == SNIC_IO_READ) {
        judge_read(f, x);
    } else if (r->op != SNIC_IO_FLUSH) {
        for (uint32_t i = 0; i < x->blocks; i++)
            f->block[x->lba + i].acked = x->stamp;
    }
    client_next(f);
}

static void client_begin(struct volfix *f, struct volfix_io *x)
{
    static const uint8_t ops[] = {SNIC_IO_READ,    SNIC_IO_READ,  SNIC_IO_READ,  SNIC_IO_WRITE,
                                  SNIC_IO_WRITE,   SNIC_IO_WRITE, SNIC_IO_WRITE, SNIC_IO_ZERO,
                                  SNIC_IO_DISCARD, SNIC_IO_FLUSH};
    struct snic_io_req *r = &x->req;
    uint8_t op = ops[snic_rng_below(&f->rng, sizeof(ops))];
    x->blocks = 1 + (uint32_t)snic_rng_below(&f->rng, VOLFIX_IO_BLOCKS);
    x->lba = snic_rng_below(&f->rng, VOLFIX_BLOCKS - x->blocks + 1);
    if (op != SNIC_IO_FLUSH && op != SNIC_IO_READ && taken(f, x->lba, x->blocks))
        op = SNIC_IO_READ;
    snic_io_req_init(r);
    r->done = client_done;
    r->op = op;
    r->offset = x->lba * BLOCK;
    r->length = (uint64_t)x->blocks * BLOCK;
    if (op == SNIC_IO_READ)
        for (uint32_t i = 0; i < x->blocks; i++)
            x->floor[i] = f->block[x->lba + i].acked;
    if (op == SNIC_IO_FLUSH)
        r->offset = r->length = 0;
    x->stamp = ++f->stamps;
    if (op == SNIC_IO_ZERO || op == SNIC_IO_DISCARD)
        for (uint32_t i = 0; i < x->blocks; i++)
            f->block[x->lba + i].order = x->stamp;
    if (op == SNIC_IO_WRITE)
        fill(x);
    else
        memset(x->data, 0xee, (size_t)x->blocks * BLOCK);
    if (x->blocks > 2 && (x->stamp & 1) != 0) { /* in pieces */
        x->iov[0] = (struct snic_iov){x->data, BLOCK};
        x->iov[1] = (struct snic_iov){x->data + BLOCK, (size_t)(x->blocks - 2) * BLOCK};
        x->iov[2] = (struct snic_iov){x->data + (size_t)(x->blocks - 1) * BLOCK, BLOCK};
        r->iov = x->iov;
        r->iov_count = 3;
    } else {
        r->buf.base = x->data;
        r->buf.size = (size_t)x->blocks * BLOCK;
    }
    x->busy = 1;
    f->inflight++;
    f->begun++;
    int n = snic_io_submit(f->io, &r, 1);
    if (n != 1)
        wrong(f, "submit returns %d", n);
}

static void client_next(struct volfix *f)
{
    for (uint32_t i = 0; i < VOLFIX_DEPTH && f->v != NULL && f->begun < f->wanted; i++)
        if (!f->ios[i].busy && snic_rng_below(&f->rng, 4) != 0)
            client_begin(f, &f->ios[i]);
    for (uint32_t i = 0; f->inflight == 0 && f->v != NULL && f->begun < f->wanted; i++)
        client_begin(f, &f->ios[i]);
}

void volfix_load(struct volfix *f, uint64_t ios)
{
    f->wanted = f->begun + ios;
    client_next(f);
}

void volfix_run(struct volfix *f, uint64_t ns)
{
    (void)snic_world_run(f->world, snic_world_now(f->world) + ns, UINT64_MAX);
}

int volfix_settle(struct volfix *f, uint64_t ns)
{
    uint64_t end = snic_world_now(f->world) + ns;
    while ((f->inflight != 0 || f->begun < f->wanted) && f->why[0] == 0) {
        client_next(f);
        if (snic_world_now(f->world) >= end || snic_world_step(f->world) == 0)
            return -1;
    }
    return 0;
}

void volfix_audit(struct volfix *f)
{
    struct volfix_io *x = &f->ios[0];
    assert_int_equal(f->inflight, 0);
    for (x->lba = 0; x->lba < VOLFIX_BLOCKS; x->lba += x->blocks) {
        x->blocks = 32;
        for (uint32_t i = 0; i < x->blocks; i++)
            x->floor[i] = f->block[x->lba + i].acked;
        int64_t r = volfix_io(f, SNIC_IO_READ, x->lba * BLOCK, x->blocks * BLOCK, x->data);
        if (r != x->blocks * BLOCK)
            wrong(f, "the last reading ends with %" PRId64, r);
        judge_read(f, x);
    }
}

void volfix_check(struct volfix *f)
{
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s != NULL)
            assert_int_equal(snic_volume_server_check(f->server[i].s), 0);
    if (f->v != NULL)
        assert_int_equal(snic_volume_check(f->v), 0);
    assert_string_equal(f->why, "");
}

/* ---- Beginning and end ---- */

uint64_t volfix_blocks_written(struct volfix *f)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(f->v, &s);
    return s.agent.blocks_written + s.luna.blocks_written;
}

uint64_t volfix_again(struct volfix *f)
{
    struct snic_volume_stats s;
    snic_volume_get_stats(f->v, &s);
    return f->again + s.agent.retransmits + s.luna.replays;
}

void volfix_start(struct volfix *f, uint32_t transport, uint64_t seed, uint32_t servers)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = seed};
    struct snic_net_fabric_opts n = {.opts_size = sizeof(n), .recv_size = 4096};
    n.gather_ns = 20000; /* as the kernel's sockets do */
    memset(f, 0, sizeof(*f));
    f->transport = transport;
    f->seed = seed;
    f->servers = servers;
    snic_rng_init(&f->rng, seed);
    assert_int_equal(snic_world_open(&f->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&f->fabric, f->world, &n), 0);
    for (uint32_t i = 0; i < servers; i++) {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .seed = seed + i, .size = VOLFIX_DISK};
        d.delay_min_ns = 20000;
        d.delay_max_ns = 200000;
        f->server[i].f = f;
        f->server[i].index = i;
        assert_int_equal(snic_disk_open(&f->server[i].disk, &d), 0);
        assert_int_equal(volfix_server_start(f, i), 0);
    }
    for (uint32_t i = 0; i < VOLFIX_SEGMENTS; i++)
        volfix_segment_create(f, i % servers, i, snic_volume_gen(1, 0));
    for (uint32_t i = 0; i < VOLFIX_DEPTH; i++) {
        f->ios[i].f = f;
        f->ios[i].data = aligned_alloc(BLOCK, (size_t)VOLFIX_IO_BLOCKS * BLOCK);
        assert_non_null(f->ios[i].data);
    }
    volfix_client_start(f);
}

void volfix_end(struct volfix *f)
{
    if (f->v != NULL)
        volfix_client_kill(f);
    for (uint32_t i = 0; i < f->servers; i++) {
        if (f->server[i].s != NULL)
            volfix_server_stop(f, i);
        snic_disk_close(f->server[i].disk);
    }
    for (uint32_t i = 0; i < VOLFIX_DEPTH; i++)
        free(f->ios[i].data);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->world);
    assert_string_equal(f->why, "");
}
