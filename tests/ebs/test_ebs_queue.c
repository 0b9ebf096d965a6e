/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The queue of I/Os by itself, under a transport of a few lines that does what the header requires
 * and no more: what it has of an RPC is a list and a bit.
 */
#include "ebs/queue.h"
#include "support.h"

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

enum { RPCS = 16, SERVERS = 2, DISKS = 2, HERE = EBS_RPC_OTHER };

struct plain_rpc {
    struct ebs_rpc q;
    uint32_t begun; /* times */
};

struct plain {
    struct ebs_queue q;
    struct snic_link here; /* RPCs that have a server */
    struct plain_rpc rpc[RPCS];
    uint32_t over;   /* calls of give_up and end */
    uint32_t fences; /* that were to be sent */
    unsigned char memory[1 << 16];
};

static struct plain plain;
static struct snic_iov pieces[64];
static unsigned char bytes[64 * SNIC_EBS_BLOCK_BYTES];

static struct plain *plain_of(struct ebs_queue *q)
{
    return SNIC_CONTAINER(q, struct plain, q);
}

static void plain_begin(struct ebs_queue *q, struct ebs_rpc *r)
{
    assert_true(r->where == EBS_RPC_FREE && snic_link_alone(&r->link));
    assert_true(r->server < SERVERS && q->loads[r->server].used);
    SNIC_CONTAINER(r, struct plain_rpc, q)->begun++;
    q->loads[r->server].backlog += r->count;
    r->sent = 1;
    ebs_rpc_move(r, &plain_of(q)->here, HERE);
}

static void plain_made(struct ebs_queue *q, struct ebs_rpc *r)
{
    assert_true(snic_link_alone(&r->link) && !r->timer.armed && r->acked == 0);
    SNIC_CONTAINER(r, struct plain_rpc, q)->begun = 0;
    if (r->server != ebs_server_none(q))
        plain_begin(q, r);
}

static void plain_leave(struct ebs_queue *q, struct ebs_rpc *r)
{
    assert_int_not_equal(r->where, EBS_RPC_ENDED);
    if (r->where == HERE)
        q->loads[r->server].backlog -= r->count;
}

static void plain_end(struct ebs_queue *q, struct ebs_rpc *r, int result)
{
    assert_int_not_equal(r->where, EBS_RPC_ENDED);
    plain_of(q)->over++;
    if (r->where == HERE)
        q->loads[r->server].backlog -= r->count;
    ebs_rpc_end(q, r, result);
}

static void plain_give_up(struct ebs_queue *q, struct ebs_rpc *r, int result)
{
    assert_false(ebs_rpc_is_over(r));
    if (!r->sent || r->op == SNIC_EBS_IO_READ) {
        plain_end(q, r, result);
        return;
    }
    plain_of(q)->over++;
    plain_leave(q, r);
    ebs_rpc_fence(q, r, result);
}

static void plain_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct ebs_rpc *r = SNIC_CONTAINER(t, struct ebs_rpc, timer);
    (void)now_ns;
    if (r->where == EBS_RPC_FENCING)
        plain.fences += ebs_rpc_fence_retry(&plain.q, r, 16 * MS);
}

static const struct ebs_queue_ops plain_ops = {.made = plain_made,
                                               .leave = plain_leave,
                                               .begin = plain_begin,
                                               .give_up = plain_give_up,
                                               .end = plain_end};

static uint64_t disk_blocks = 4096; /* of the next queue */

static struct plain *open_queue(void)
{
    const struct ebs_queue_opts o = {.client_epoch = 1,
                                     .disks_max = DISKS,
                                     .servers_max = SERVERS,
                                     .rpcs_max = RPCS,
                                     .chunks_max = 1,
                                     .disk_blocks_max = disk_blocks,
                                     .deadline_ns = 60 * SECOND,
                                     .slow_ns = SECOND,
                                     .seed = support_seed()};
    const struct snic_ebs_disk_opts d = {
        .opts_size = sizeof(d), .sa_epoch = 1, .blocks = disk_blocks};
    struct snic_arena measure = {NULL, 0, 0}, a;
    struct ebs_queue parts;
    memset(&plain, 0, sizeof(plain));
    memset(&parts, 0, sizeof(parts));
    ebs_queue_layout(&measure, &o, &parts);
    a.base = plain.memory + (SNIC_CACHELINE - (uintptr_t)plain.memory % SNIC_CACHELINE);
    a.size = sizeof(plain.memory) - SNIC_CACHELINE;
    a.used = 0;
    assert_true(measure.used <= a.size);
    ebs_queue_layout(&a, &o, &plain.q);
    memset(plain.memory + (a.base - plain.memory) + (a.used - plain.q.map_bytes), 0xa5,
           plain.q.map_bytes);
    ebs_queue_init(&plain.q, &o, &plain_ops, 0);
    snic_link_init(&plain.here);
    for (uint32_t i = 0; i < RPCS; i++)
        ebs_queue_add(&plain.q, &plain.rpc[i].q, i, plain_fired);
    for (uint32_t i = 0; i < SERVERS; i++)
        plain.q.loads[i].used = 1;
    for (uint32_t i = 0; i < DISKS; i++)
        assert_int_equal(ebs_queue_attach(&plain.q, i, &d, NULL, 0), 0);
    assert_int_equal(ebs_queue_check(&plain.q), 0);
    return &plain;
}

static void look(struct plain *p, uint64_t now_ns)
{
    struct snic_timer *t;
    p->q.now_ns = snic_max_u64(p->q.now_ns, now_ns);
    while ((t = snic_wheel_pop(&p->q.wheel, p->q.now_ns)) != NULL)
        t->fn(t, p->q.now_ns);
    ebs_queue_expire(&p->q);
    ebs_queue_lookups(&p->q);
    if (p->q.dirty || p->q.now_ns >= p->q.qos_ns) {
        p->q.dirty = 0;
        ebs_queue_admit(&p->q);
    }
    assert_int_equal(ebs_queue_check(&p->q), 0);
}

static void submit(struct plain *p, struct snic_ebs_io *io, uint32_t op, uint64_t lba,
                   uint32_t blocks)
{
    memset(io, 0, sizeof(*io));
    io->op = (uint8_t)op;
    io->lba = lba;
    io->blocks = blocks;
    pieces[0].base = bytes;
    pieces[0].size = (size_t)blocks * SNIC_EBS_BLOCK_BYTES;
    io->iov = op <= SNIC_EBS_IO_WRITE ? pieces : NULL;
    io->iov_count = op <= SNIC_EBS_IO_WRITE;
    assert_int_equal(ebs_queue_submit(&p->q, io, p->q.now_ns), 0);
}

static void place(struct plain *p, uint64_t segment, uint32_t server, uint32_t gen)
{
    const struct snic_ebs_where w = {.seg_id = 7 + segment, .server = server, .seg_gen = gen};
    assert_int_equal(ebs_queue_map(&p->q, 0, segment, &w, p->q.now_ns), 0);
    assert_int_equal(ebs_queue_check(&p->q), 0);
}

static struct ebs_rpc *first_here(struct plain *p)
{
    return snic_link_alone(&p->here) ? NULL : SNIC_CONTAINER(p->here.next, struct ebs_rpc, link);
}

static void finish(struct plain *p)
{
    while (first_here(p) != NULL)
        plain_end(&p->q, first_here(p), 0);
    assert_int_equal(ebs_queue_check(&p->q), 0);
}

/* ---- Contract ---- */

static int no_cipher(void *key, uint64_t unit, void *out, const void *in, size_t size)
{
    (void)key;
    (void)unit;
    memmove(out, in, size);
    return 0;
}

static void test_ebs_queue_refusals_change_nothing(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 2, .blocks = 4096};
    struct snic_ebs_where w = {.seg_id = 1, .server = 0, .seg_gen = 2};
    struct snic_ebs_io io = {.disk = DISKS};
    struct snic_ebs_wait wait;
    struct snic_ebs_busy busy;
    const struct snic_ebs_sec_ops xts = {.ops_size = sizeof(xts), .xts_encrypt = no_cipher};
    int key;
    (void)state;
    assert_int_equal(ebs_queue_attach(&p->q, DISKS, &d, NULL, 0), SNIC_EINVAL);
    assert_int_equal(ebs_queue_attach(&p->q, 0, &d, NULL, 0), SNIC_EEXIST);
    assert_int_equal(ebs_queue_detach(&p->q, 1), 0);
    assert_int_equal(ebs_queue_detach(&p->q, 1), SNIC_ENOENT);
    assert_int_equal(ebs_queue_limit(&p->q, 1, &d, 0), SNIC_ENOENT);
    d.sa_epoch = 65536;
    assert_int_equal(ebs_queue_attach(&p->q, 1, &d, NULL, 0), SNIC_EOVERFLOW);
    d.sa_epoch = 0;
    assert_int_equal(ebs_queue_attach(&p->q, 1, &d, NULL, 0), SNIC_EINVAL);
    d.sa_epoch = 65535;
    d.blocks = 4097;
    assert_int_equal(ebs_queue_attach(&p->q, 1, &d, NULL, 0), SNIC_EINVAL);
    d.blocks = 4096;
    d.xts_key = &key;
    assert_int_equal(ebs_queue_attach(&p->q, 1, &d, NULL, 0), SNIC_EINVAL);
    assert_int_equal(ebs_queue_attach(&p->q, 1, &d, &xts, 0), 0);
    assert_int_equal(ebs_queue_map(&p->q, DISKS, 0, &w, 0), SNIC_ENOENT);
    assert_int_equal(ebs_queue_map(&p->q, 0, 8, &w, 0), SNIC_EINVAL);
    assert_int_equal(ebs_queue_map(&p->q, 0, 7, &w, 0), 0);
    w.seg_gen = 1;
    assert_int_equal(ebs_queue_map(&p->q, 0, 7, &w, 0), SNIC_ESTALE);
    w.server = SERVERS;
    assert_int_equal(ebs_queue_map(&p->q, 0, 7, &w, 0), SNIC_ENOENT);
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), SNIC_ENOENT);
    io.disk = 0;
    io.op = SNIC_EBS_IO_FLUSH + 1;
    io.blocks = 1;
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), SNIC_EINVAL);
    io.op = SNIC_EBS_IO_ZERO;
    io.lba = 4096;
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), SNIC_EINVAL);
    io.op = SNIC_EBS_IO_WRITE; /* without pieces */
    io.lba = 0;
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), SNIC_EINVAL);
    p->q.disks[0].wver = snic_ebs_id(1, SNIC_EBS_COUNTER_MAX); /* none is assigned twice */
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), SNIC_EOVERFLOW);
    assert_int_equal(ebs_queue_get_wait(&p->q, DISKS, &wait), SNIC_ENOENT);
    assert_int_equal(ebs_queue_get_wait(&p->q, 0, &wait), 0);
    assert_int_equal(ebs_queue_get_busy(&p->q, SERVERS, &busy), SNIC_ENOENT);
    assert_true(p->q.s.inside == 0 && p->q.s.rpcs == 0 && ebs_queue_done(&p->q) == NULL);
    assert_int_equal(ebs_queue_check(&p->q), 0);
}

/* Places of one GiB are known, of a disk of eleven: those of another one are refused, those that
   are known stay, and work. */
static void test_ebs_queue_places_beyond_chunks_refused(void **state)
{
    struct snic_ebs_where w = {.seg_id = 1, .server = 0, .seg_gen = 2};
    (void)state;
    disk_blocks = UINT64_C(11) << 18;
    struct plain *p = open_queue();
    disk_blocks = 4096;
    assert_int_equal(ebs_queue_map(&p->q, 0, 511, &w, 0), 0);
    for (uint64_t g = 1; g <= 10; g++)
        assert_int_equal(ebs_queue_map(&p->q, 0, g << 9, &w, 0), SNIC_ENOSPC);
    assert_int_equal(ebs_queue_map(&p->q, 0, 0, &w, 0), 0);
    assert_int_equal(ebs_queue_check(&p->q), 0);
}

/* A flush ends with the writes before it, a write with its RPCs, and versions grow in order. */
static void test_ebs_queue_order(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io a, b, flush;
    (void)state;
    place(p, 0, 0, 1);
    submit(p, &a, SNIC_EBS_IO_WRITE, 0, 64);
    submit(p, &flush, SNIC_EBS_IO_FLUSH, 0, 0);
    submit(p, &b, SNIC_EBS_IO_ZERO, 100, 100);
    look(p, 1);
    assert_true(p->q.s.rpcs == 3 && p->q.loads[0].rpcs == 3 && p->q.loads[0].backlog == 164);
    assert_true(a.wver != 0 && b.wver == a.wver + 1);
    assert_null(ebs_queue_done(&p->q));
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &a);
    assert_ptr_equal(ebs_queue_done(&p->q), &flush);
    assert_ptr_equal(ebs_queue_done(&p->q), &b);
    assert_true(p->q.loads[0].backlog == 0 && p->q.rpcs_free == RPCS && p->q.s.inside == 0);
    assert_true(ebs_queue_deadline_ns(&p->q) <= 1); /* slots came back: an I/O may wait */
    look(p, 1);
    assert_true(ebs_queue_deadline_ns(&p->q) == SNIC_NEVER);
}

/* What shows its blocks keeps an RPC, and with it the I/O. */
static void test_ebs_queue_refs_keep(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io;
    (void)state;
    place(p, 0, 0, 1);
    submit(p, &io, SNIC_EBS_IO_WRITE, 0, 1);
    look(p, 1);
    struct ebs_rpc *r = first_here(p);
    uint64_t id = r->id;
    r->refs = 2;
    plain_end(&p->q, r, 0);
    ebs_rpc_unref(&p->q, r);
    assert_int_equal(ebs_queue_check(&p->q), 0);
    assert_null(ebs_queue_done(&p->q));
    ebs_rpc_unref(&p->q, r);
    assert_ptr_equal(ebs_queue_done(&p->q), &io);
    submit(p, &io, SNIC_EBS_IO_WRITE, 0, 1);
    look(p, 1);
    assert_true(first_here(p) == r && r->id == id + RPCS); /* the slot, and never the id */
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &io);
}

/* What has no place is lookups for as one, waits, and begins at the place of the answer. */
static void test_ebs_queue_place_unknown(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io;
    struct ebs_event ev;
    (void)state;
    submit(p, &io, SNIC_EBS_IO_WRITE, 512 - 8, 16);
    look(p, 1);
    assert_int_equal(p->q.loads[SERVERS].rpcs, 2);
    assert_int_equal(ebs_queue_event(&p->q, &ev), 1);
    assert_true(ev.segment == 0 && ev.disk == 0 && !ev.lease);
    assert_int_equal(ebs_queue_event(&p->q, &ev), 1);
    assert_int_equal(ev.segment, 1);
    assert_int_equal(ebs_queue_event(&p->q, &ev), 0);
    place(p, 1, 1, 1);
    place(p, 0, 0, 1);
    assert_true(p->q.loads[0].rpcs == 1 && p->q.loads[1].rpcs == 1 &&
                p->q.loads[SERVERS].rpcs == 0);
    /* One is refused there: it is parked once, and again lookups for. */
    struct ebs_rpc *r = first_here(p);
    plain_leave(&p->q, r);
    assert_int_equal(ebs_rpc_park(&p->q, r), 1);
    assert_int_equal(ebs_rpc_park(&p->q, r), 0);
    assert_int_equal(ebs_queue_check(&p->q), 0);
    assert_int_equal(ebs_queue_event(&p->q, &ev), 1);
    assert_int_equal(ev.segment, 1);
    place(p, 1, 0, 2);
    assert_int_equal(SNIC_CONTAINER(r, struct plain_rpc, q)->begun, 2);
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &io);
    assert_int_equal(io.result, 0);
}

/* Is all of it @p value? */
static int are(const unsigned char *at, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != value)
            return 0;
    return 1;
}

/* Reads of what was never written are zeros, wherever they lie in memory; writes wait for a place.
 */
static void test_ebs_queue_hole(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io a, w, b;
    const size_t block = SNIC_EBS_BLOCK_BYTES;
    (void)state;
    memset(bytes, 1, sizeof(bytes));
    memset(&a, 0, sizeof(a));
    pieces[0].base =
        bytes + 32 * block; /* 6 blocks of segment 0 in one piece, the rest in others */
    pieces[0].size = 7 * block;
    pieces[1].base = bytes + 2 * block;
    pieces[1].size = block;
    pieces[2].base = bytes + 8 * block;
    pieces[2].size = 8 * block;
    a.lba = 512 - 6;
    a.blocks = 16;
    a.iov = pieces;
    a.iov_count = 3;
    assert_int_equal(ebs_queue_submit(&p->q, &a, 0), 0);
    assert_int_equal(ebs_queue_hole(&p->q, DISKS, 0, 1, 1), SNIC_ENOENT);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), 0); /* it does not wait yet */
    look(p, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(ebs_queue_waits(&p->q, 0, i), i < 2 ? SNIC_EBS_WAITS_HOLE : 0);
    assert_int_equal(ebs_queue_hole(&p->q, 0, 1, 1, 2), 0);
    assert_true(are(bytes + 38 * block, block, 0) && are(bytes + 2 * block, block, 0) &&
                are(bytes + 8 * block, 8 * block, 0));
    assert_true(are(bytes + 32 * block, 6 * block, 1) && are(bytes + 39 * block, block, 1) &&
                are(bytes + 3 * block, 5 * block, 1) && are(bytes + 16 * block, 16 * block, 1));
    assert_null(ebs_queue_done(&p->q));
    memset(&w, 0, sizeof(w));
    w.op = SNIC_EBS_IO_WRITE;
    w.lba = 3;
    w.blocks = 1;
    w.iov = &pieces[3];
    w.iov_count = 1;
    pieces[3].base = bytes;
    pieces[3].size = block;
    assert_int_equal(ebs_queue_submit(&p->q, &w, 2), 0);
    look(p, 2);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_PLACE | SNIC_EBS_WAITS_HOLE);
    assert_int_equal(ebs_queue_hole(&p->q, 0, 0, 2, 2), 0);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_PLACE);
    assert_int_equal(ebs_queue_check(&p->q), 0);
    assert_ptr_equal(ebs_queue_done(&p->q), &a);
    assert_true(a.result == 0 && are(bytes + 32 * block, 7 * block, 0));
    assert_int_equal(p->q.s.blocks_read, 16);
    assert_null(ebs_queue_done(&p->q)); /* the write */
    place(p, 0, 0, 1);
    /* Where there was a place, that there is none is no reason to read zeros. */
    submit(p, &b, SNIC_EBS_IO_READ, 0, 1);
    look(p, 3);
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &w);
    assert_ptr_equal(ebs_queue_done(&p->q), &b);
    (void)ebs_queue_mapped(&p->q, 0, 1);
    submit(p, &b, SNIC_EBS_IO_READ, 0, 1);
    look(p, 4);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_PLACE);
    assert_int_equal(ebs_queue_hole(&p->q, 0, 0, 4, 4), 0);
    assert_null(ebs_queue_done(&p->q));
    place(p, 0, 1, 2);
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &b);
}

/* A read of more than may be without a place continues as answers arrive. */
static void test_ebs_queue_hole_larger_than_the_pool(void **state)
{
    struct plain *p = open_queue();
    static unsigned char all[2048 * SNIC_EBS_BLOCK_BYTES];
    struct snic_iov iov = {all, sizeof(all)};
    struct snic_ebs_io io;
    struct ebs_event ev;
    uint32_t lookups = 0;
    (void)state;
    memset(all, 1, sizeof(all));
    memset(&io, 0, sizeof(io));
    io.blocks = 2048;
    io.iov = &iov;
    io.iov_count = 1;
    assert_int_equal(ebs_queue_submit(&p->q, &io, 0), 0);
    for (uint64_t now = 1; now < 100 && p->q.s.inside != 0; now++) {
        look(p, now);
        while (ebs_queue_event(&p->q, &ev)) {
            assert_true(++lookups < 64);
            assert_int_equal(ebs_queue_hole(&p->q, 0, ev.segment, now, now), 0);
            assert_int_equal(ebs_queue_check(&p->q), 0);
        }
        (void)ebs_queue_done(&p->q);
    }
    assert_true(p->q.s.inside == 0 && io.result == 0 && are(all, sizeof(all), 0));
}

/* What has no RPC yet, for want of room, waits for a place, too. */
static void test_ebs_queue_waits_sees_the_first(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io[RPCS / 2], w;
    (void)state;
    for (uint32_t i = 0; i < RPCS / 2; i++)
        submit(p, &io[i], SNIC_EBS_IO_READ, i, 1);
    look(p, 1);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_HOLE);
    submit(p, &w, SNIC_EBS_IO_WRITE, 100, 1);
    look(p, 2);
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_HOLE | SNIC_EBS_WAITS_PLACE);
    assert_int_equal(ebs_queue_waits(&p->q, 1, 0), 0);
    assert_int_equal(ebs_queue_waits(&p->q, DISKS, 0), 0);
    ebs_queue_halt(&p->q);
    while (ebs_queue_done(&p->q) != NULL)
        ;
}

/* Where writes use the whole pool, a hole needs none, and is lookups for once for each of its
   segments; nothing of an encrypted or limited disk is different. */
static void test_ebs_queue_hole_without_room(void **state)
{
    const uint8_t ops[] = {SNIC_EBS_IO_READ, SNIC_EBS_IO_ZERO, SNIC_EBS_IO_TRIM};
    struct plain *p = open_queue();
    struct snic_ebs_io w[RPCS / 2], io;
    struct ebs_event ev;
    uint32_t lookups = 0;
    (void)state;
    for (uint32_t i = 0; i < RPCS / 2; i++)
        submit(p, &w[i], SNIC_EBS_IO_WRITE, i, 1);
    look(p, 1);
    for (uint32_t k = 0; k < SNIC_COUNTOF(ops); k++) {
        memset(bytes, 1, sizeof(bytes));
        submit(p, &io, ops[k], 1024 - 8, 16);
        look(p, 2);
        for (uint32_t turn = 0; turn < 8; turn++) {
            while (ebs_queue_event(&p->q, &ev)) {
                if (ev.segment == 0)
                    continue; /* full servers */
                lookups++;
                assert_int_equal(ebs_queue_waits(&p->q, 0, ev.segment), SNIC_EBS_WAITS_HOLE);
                assert_int_equal(ebs_queue_hole(&p->q, 0, ev.segment, 1, 2), 0);
                assert_int_equal(ebs_queue_check(&p->q), 0); /* too early an answer */
                assert_int_equal(ebs_queue_hole(&p->q, 0, ev.segment, 2, 2), 0);
            }
            look(p, 2);
        }
        assert_int_equal(lookups, 2 * (k + 1));
        assert_ptr_equal(ebs_queue_done(&p->q), &io);
        assert_int_equal(io.result, 0);
        if (ops[k] == SNIC_EBS_IO_READ)
            assert_true(are(bytes, 16 * (size_t)SNIC_EBS_BLOCK_BYTES, 0));
    }
    assert_null(ebs_queue_done(&p->q));
    /* A write there waits as it did, and is not lookups for the faster for such an answer. */
    submit(p, &io, SNIC_EBS_IO_WRITE, 2048, 1);
    look(p, 3);
    for (lookups = 0; ebs_queue_event(&p->q, &ev) && lookups < 8; lookups++) {
        assert_int_equal(ebs_queue_hole(&p->q, 0, ev.segment, 3, 3), 0);
        look(p, 3);
    }
    assert_int_equal(lookups, 1);
    ebs_queue_halt(&p->q);
    while (ebs_queue_done(&p->q) != NULL)
        ;
}

/* An answer holds for the state when the lookup was sent. */
static void test_ebs_queue_hole_is_as_old_as_its_question(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io a, b;
    (void)state;
    submit(p, &a, SNIC_EBS_IO_READ, 0, 1);
    look(p, 10);
    submit(p, &b, SNIC_EBS_IO_READ, 1, 1);
    look(p, 20);
    assert_int_equal(ebs_queue_hole(&p->q, 0, 0, 9, 30), 0);
    assert_ptr_equal(ebs_queue_done(&p->q), &a);
    assert_null(ebs_queue_done(&p->q));
    assert_int_equal(ebs_queue_waits(&p->q, 0, 0), SNIC_EBS_WAITS_HOLE);
    assert_int_equal(ebs_queue_hole(&p->q, 0, 0, 10, 30), 0);
    assert_ptr_equal(ebs_queue_done(&p->q), &b);
}

/* ---- Time ---- */

/*
 * All time runs out for an I/O of which one RPC has ended and is shown still, and one was abandoned
 * before: neither is abandoned again. The fence goes where the segment goes, and a higher
 * generation is its answer.
 */
static void test_ebs_queue_expires_once(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io;
    (void)state;
    place(p, 0, 0, 1);
    submit(p, &io, SNIC_EBS_IO_ZERO, 0, 192);
    look(p, 1);
    struct ebs_rpc *shown = first_here(p);
    shown->refs = 1;
    plain_end(&p->q, shown, 0);
    struct ebs_rpc *fenced = first_here(p);
    plain_give_up(&p->q, fenced, SNIC_ENOSPC);
    assert_int_equal(p->over, 2);
    look(p, 2);
    assert_int_equal(p->fences, 0); /* one of its version may come through yet */
    assert_ptr_equal(ebs_queue_slow(&p->q), NULL);
    look(p, SECOND);
    assert_ptr_equal(ebs_queue_slow(&p->q), &io);
    assert_true(ebs_queue_deadline_ns(&p->q) <= SECOND + 16 * MS); /* the fence's timer */
    look(p, 60 * SECOND);
    assert_int_equal(p->over, 3);
    look(p, 60 * SECOND + 20 * MS);
    assert_true(p->fences >= 2);
    place(p, 0, 1, 1); /* elsewhere, and no answer to a fence */
    assert_true(fenced->where == EBS_RPC_FENCING && fenced->server == 1);
    assert_null(ebs_queue_done(&p->q));
    place(p, 0, 1, 2);
    assert_null(ebs_queue_done(&p->q));
    ebs_rpc_unref(&p->q, shown);
    assert_ptr_equal(ebs_queue_done(&p->q), &io);
    assert_int_equal(io.result, SNIC_ENOSPC);
}

/* A server that never answers has all the RPCs that it may have, and some are abandoned: more I/O
   for it fails at once, that for another server is not behind it, and when the fences count all is
   as before. */
static void test_ebs_queue_abandoned_holds_up_no_other_server(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io[RPCS / 2], more, other;
    (void)state;
    p->q.o.error_ns = 61 * SECOND;
    for (uint64_t i = 0; i < 7; i++)
        place(p, i, 0, 1);
    place(p, 7, 1, 1);
    for (uint32_t i = 0; i < RPCS / 2; i++)
        submit(p, &io[i], SNIC_EBS_IO_ZERO, i % 4 * 512 + i, 1);
    look(p, 1);
    look(p, 60 * SECOND + 1);
    assert_null(ebs_queue_done(&p->q));
    look(p, 62 * SECOND);
    for (uint32_t i = 0; i < RPCS / 2; i++)
        assert_int_equal(ebs_queue_done(&p->q)->result, SNIC_EIO);
    assert_int_equal(p->q.s.abandoned, RPCS / 2);
    submit(p, &more, SNIC_EBS_IO_ZERO, 5 * 512, 1);
    submit(p, &other, SNIC_EBS_IO_ZERO, 7 * 512, 1);
    look(p, 62 * SECOND + 1);
    assert_ptr_equal(ebs_queue_done(&p->q), &more);
    assert_int_equal(more.result, SNIC_EIO);
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &other);
    assert_int_equal(other.result, 0);
    for (uint64_t i = 0; i < 4; i++)
        place(p, i, 1, 2); /* elsewhere, of a later generation: no copy is written any more */
    assert_int_equal(p->q.s.rpcs, 0);
    assert_true(p->q.loads[0].abandoned == 0 && p->q.loads[1].abandoned == 0);
    submit(p, &more, SNIC_EBS_IO_ZERO, 0, 1);
    look(p, 62 * SECOND + 2);
    finish(p);
    assert_ptr_equal(ebs_queue_done(&p->q), &more);
    assert_int_equal(more.result, 0);
}

/* A server answers, but for one segment's fence, and has all the RPCs that it may have: I/O for its
   other segments waits for a place. When it is SUSPECT, no I/O waits for it. */
static void test_ebs_queue_abandoned_one_fails_no_other(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io first, io[RPCS / 2 - 1], more;
    (void)state;
    p->q.o.error_ns = 61 * SECOND;
    for (uint64_t i = 0; i < 4; i++)
        place(p, i, 0, 1);
    submit(p, &first, SNIC_EBS_IO_ZERO, 0, 1);
    look(p, 1);
    look(p, 60 * SECOND + 1);
    look(p, 62 * SECOND);
    assert_ptr_equal(ebs_queue_done(&p->q), &first);
    assert_true(first.result == SNIC_EIO && p->q.loads[0].abandoned == 1);
    for (uint32_t round = 0; round < 2; round++) {
        p->q.loads[0].suspect = (uint8_t)round;
        for (uint32_t i = 0; i < RPCS / 2 - 1; i++)
            submit(p, &io[i], SNIC_EBS_IO_ZERO, 512 + i, 1);
        submit(p, &more, SNIC_EBS_IO_ZERO, 1024, 1);
        look(p, 62 * SECOND + 1);
        if (round == 0)
            assert_null(ebs_queue_done(&p->q));
        else
            assert_ptr_equal(ebs_queue_done(&p->q), &more);
        finish(p);
        for (uint32_t i = 0; i < RPCS / 2 - 1; i++)
            assert_int_equal(ebs_queue_done(&p->q)->result, 0);
        look(p, 62 * SECOND + 2);
        finish(p);
        assert_ptr_equal(ebs_queue_done(&p->q), round == 0 ? &more : NULL);
        assert_int_equal(more.result, round == 0 ? 0 : SNIC_EIO);
    }
}

static void test_ebs_queue_fence_refused_is_sent_later(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io;
    (void)state;
    place(p, 0, 0, 1);
    submit(p, &io, SNIC_EBS_IO_ZERO, 0, 1);
    look(p, 1);
    struct ebs_rpc *r = first_here(p);
    plain_give_up(&p->q, r, SNIC_EIO);
    look(p, 2);
    assert_int_equal(p->fences, 1);
    for (uint64_t wait = 128; wait < 4000; wait *= 2) {
        uint64_t from = p->q.now_ns, due = snic_min_u64(wait, 1000) * MS;
        uint32_t sent = p->fences;
        ebs_rpc_fence_refused(&p->q, r);
        look(p, from + due - MS);
        assert_int_equal(p->fences, sent);
        look(p, from + due + MS);
        assert_true(p->fences > sent);
    }
    plain_end(&p->q, r, r->result);
    assert_ptr_equal(ebs_queue_done(&p->q), &io);
    assert_int_equal(io.result, SNIC_EIO);
}

/* Nothing is left that would cause a wakeup, and a failed I/O keeps its error. */
static void test_ebs_queue_halt_ends_all(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io[5];
    int seen = 0;
    (void)state;
    place(p, 0, 0, 1);
    submit(p, &io[0], SNIC_EBS_IO_WRITE, 0, 1);
    submit(p, &io[1], SNIC_EBS_IO_WRITE, 1024, 1); /* no place */
    submit(p, &io[2], SNIC_EBS_IO_ZERO, 64, 448);
    submit(p, &io[3], SNIC_EBS_IO_FLUSH, 0, 0);
    submit(p, &io[4], SNIC_EBS_IO_ZERO, 0, 4096); /* more than there are RPCs */
    look(p, 1);
    plain_give_up(&p->q, first_here(p), SNIC_ENOSPC);
    ebs_queue_halt(&p->q);
    assert_int_equal(ebs_queue_check(&p->q), 0);
    for (struct snic_ebs_io *x; (x = ebs_queue_done(&p->q)) != NULL; seen++)
        assert_true(x == &io[3] ? x->result == 0 : x->result == SNIC_EUNKNOWN);
    assert_int_equal(seen, 5);
    assert_true(ebs_queue_deadline_ns(&p->q) == SNIC_NEVER && p->q.s.inside == 0);
    assert_int_equal(ebs_queue_submit(&p->q, &io[0], 2), SNIC_ENOENT);
    place(p = open_queue(), 0, 0, 1);
    submit(p, &io[0], SNIC_EBS_IO_ZERO, 0, 4096);
    look(p, 1);
    plain_end(&p->q, first_here(p), SNIC_ENOSPC); /* and the rest was not admitted */
    ebs_queue_halt(&p->q);
    assert_int_equal(io[0].result, SNIC_ENOSPC);
}

/* The place that a dead I/O needed is not what the next one waits for. */
static void test_ebs_queue_need_dies_with_its_io(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io io[RPCS / 2], big, next;
    struct ebs_event ev;
    (void)state;
    for (uint32_t i = 0; i < RPCS / 2; i++) /* all that may be without a place */
        submit(p, &io[i], SNIC_EBS_IO_ZERO, i, 1);
    look(p, 1);
    submit(p, &big, SNIC_EBS_IO_ZERO, 1024, 1);
    look(p, 2); /* MAP is due for it, and not polled */
    submit(p, &next, SNIC_EBS_IO_ZERO, 2048, 1);
    p->q.now_ns = 30 * SECOND;
    next.submitted_ns = 30 * SECOND; /* it lives on when the others are abandoned */
    look(p, 60 * SECOND + 2);
    for (uint32_t k = 0; k < 20 && ebs_queue_event(&p->q, &ev); k++)
        assert_true(ev.segment != 2);
    place(p, 4, 0, 1);
    look(p, 60 * SECOND + 3);
    finish(p);
    uint32_t done = 0;
    for (struct snic_ebs_io *x; (x = ebs_queue_done(&p->q)) != NULL; done++)
        assert_int_equal(x->result, x == &next ? 0 : SNIC_EIO);
    assert_int_equal(done, RPCS / 2 + 2);
}

/* Of two I/Os that need the same place in turn, both with a part that is over, each waits since it
   needed it, and not since the one before did. */
static void test_ebs_queue_need_is_its_own(void **state)
{
    struct plain *p = open_queue();
    struct snic_ebs_io other[RPCS / 2], io;
    struct ebs_event ev;
    struct snic_ebs_wait wait;
    (void)state;
    place(p, 0, 0, 1);
    for (uint64_t now = 0; now < 150 * SECOND; now += 61 * SECOND) {
        look(p, now);
        for (uint32_t i = 0; i < RPCS / 2; i++) { /* all that may be without a place */
            memset(&other[i], 0, sizeof(other[i]));
            other[i].op = SNIC_EBS_IO_ZERO;
            other[i].disk = 1;
            other[i].blocks = 1;
            assert_int_equal(ebs_queue_submit(&p->q, &other[i], now), 0);
        }
        look(p, now);
        submit(p, &io, SNIC_EBS_IO_ZERO, 511, 2);
        look(p, now + MS); /* the first block goes, the second needs an unknown place */
        finish(p);
        look(p, now + 2 * MS);
        while (ebs_queue_event(&p->q, &ev))
            ;
        assert_int_equal(ebs_queue_get_wait(&p->q, 0, &wait), 1);
        assert_true(wait.segment == 1 && wait.place && wait.server == UINT32_MAX);
        assert_int_equal(wait.since_ns, now + MS);
        look(p, now + 60 * SECOND + 2 * MS);
        for (uint32_t k = 0; k < RPCS / 2 + 1; k++)
            assert_int_equal(ebs_queue_done(&p->q)->result, SNIC_EIO);
        assert_true(ebs_queue_done(&p->q) == NULL && p->q.s.inside == 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ebs_queue_refusals_change_nothing),
        cmocka_unit_test(test_ebs_queue_places_beyond_chunks_refused),
        cmocka_unit_test(test_ebs_queue_order),
        cmocka_unit_test(test_ebs_queue_refs_keep),
        cmocka_unit_test(test_ebs_queue_place_unknown),
        cmocka_unit_test(test_ebs_queue_hole),
        cmocka_unit_test(test_ebs_queue_waits_sees_the_first),
        cmocka_unit_test(test_ebs_queue_hole_without_room),
        cmocka_unit_test(test_ebs_queue_hole_is_as_old_as_its_question),
        cmocka_unit_test(test_ebs_queue_hole_larger_than_the_pool),
        cmocka_unit_test(test_ebs_queue_expires_once),
        cmocka_unit_test(test_ebs_queue_abandoned_holds_up_no_other_server),
        cmocka_unit_test(test_ebs_queue_abandoned_one_fails_no_other),
        cmocka_unit_test(test_ebs_queue_fence_refused_is_sent_later),
        cmocka_unit_test(test_ebs_queue_halt_ends_all),
        cmocka_unit_test(test_ebs_queue_need_dies_with_its_io),
        cmocka_unit_test(test_ebs_queue_need_is_its_own),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
