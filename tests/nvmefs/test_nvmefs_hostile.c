/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs: a host that lies gets a status, a DPU that lies breaks nothing but the queue. */
#include "test_nvmefs_util.h"

static const struct snic_nvmefs_dpu_opts basic = {.opts_size = sizeof(basic),
                                                  .flags = SNIC_NVMEFS_DPU_ORDERED,
                                                  .queues_max = DUO_QUEUES,
                                                  .depth_max = 8,
                                                  .chunk_bytes = 4096,
                                                  .chunks = 32,
                                                  .steps = 32};

enum { REGION = 65536, HEADER_AT = 32768 };

/** A queue of 8 whose host is this test: it writes every byte itself. */
struct liar {
    struct duo x;
    unsigned char *m; /* the region: bells 0, SQ 4096, CQ 8192 */
    uint32_t tail;
    uint32_t reaped;
};

static void liar_open(struct liar *l)
{
    memset(l, 0, sizeof(*l));
    duo_open(&l->x, &basic);
    (void)duo_region_add(&l->x, REGION, 0);
    (void)duo_region_add(&l->x, 4096, 1);
    l->m = l->x.regions[0].base;
    struct snic_nvmefs_ctl c = {.type = SNIC_NVMEFS_CTL_CREATE,
                                .generation = 1,
                                .depth = 8,
                                .sq = 4096,
                                .cq = 8192,
                                .bells = 0};
    duo_send(&l->x, &c);
    duo_settle(&l->x);
    assert_int_equal(l->x.created_error, 0);
}

static void liar_close(struct liar *l)
{
    struct snic_nvmefs_ctl c = {.type = SNIC_NVMEFS_CTL_DELETE, .generation = 1};
    duo_send(&l->x, &c);
    duo_settle(&l->x);
    assert_int_equal(l->x.deleted, 1);
    duo_check(&l->x);
    duo_close(&l->x);
}

static void liar_push(struct liar *l, struct snic_nvmefs_sqe *s)
{
    s->lap = (uint8_t)nvmefs_turn(l->tail, 3);
    snic_nvmefs_sqe_encode(l->m + 4096 + (size_t)(l->tail & 7) * 64, s);
    if ((l->tail & 7) == 0)
        snic_nvmefs_sqe_encode(l->m + 4096 + (size_t)8 * 64, s);
    l->tail++;
}

static int liar_reap(struct liar *l, struct snic_nvmefs_cqe *c)
{
    unsigned char *at = l->m + 8192 + (size_t)(l->reaped & 7) * 16;
    snic_nvmefs_cqe_decode(c, at);
    if (c->phase != nvmefs_turn(l->reaped, 3))
        return 0;
    l->reaped++;
    return 1;
}

/** Push, let the DPU work, serve what it asks for. The status it answers. */
static uint32_t liar_try(struct liar *l, struct snic_nvmefs_sqe *s)
{
    struct snic_nvmefs_cqe c = {0};
    struct snic_nvmefs_cmd *cmd;
    liar_push(l, s);
    snic_nvmefs_dpu_bell(l->x.d, 0);
    duo_settle(&l->x);
    while ((cmd = snic_nvmefs_dpu_poll_request(l->x.d)) != NULL) {
        snic_nvmefs_dpu_finish(l->x.d, cmd, SNIC_NVMEFS_STATUS_OK, cmd->data_size);
        duo_settle(&l->x);
    }
    assert_int_equal(liar_reap(l, &c), 1);
    assert_int_equal(c.cid, s->cid);
    duo_check(&l->x);
    return c.status;
}

/** A good entry for an operation with @p data bytes at page 0xa000. */
static struct snic_nvmefs_sqe liar_good(struct liar *l, uint8_t op, uint32_t data)
{
    uint64_t header[64];
    struct snic_fsop r = {.kind = op, .ino = 3};
    int n = snic_nvmefs_head_encode(&r, header, sizeof(header));
    struct snic_nvmefs_sqe s = {.opcode = SNIC_NVMEFS_OPCODE, .cid = 2};
    uint32_t at = HEADER_AT + 4096 - (uint32_t)n;
    assert_true(n > 0);
    memcpy(l->m + at, header, (size_t)n);
    s.wh_len = (uint16_t)n;
    s.rh_len = (uint16_t)snic_nvmefs_op_answer(op);
    s.write[0] = at;
    s.write_len = (uint32_t)n;
    s.read_len = s.rh_len;
    s.read[0] = HEADER_AT;
    if (snic_nvmefs_op_data(op) == 1) {
        s.write_len += data;
        s.write[1] = 0xa000;
    } else if (snic_nvmefs_op_data(op) == 2) {
        s.read_len += data;
        s.read[0] = 0xa000;
    }
    return s;
}

static void test_nvmefs_bad_entries_get_their_status(void **state)
{
    struct liar l;
    struct snic_nvmefs_sqe s;
    (void)state;
    liar_open(&l);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OK);
    s.opcode = 0x02;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OPCODE);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    s.cid = 8; /* not less than the depth */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    s.wh_len = 32;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    s.write_len = s.wh_len - 1U;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    s.write_len = UINT32_MAX;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_GETATTR, 0);
    s.rh_len = (uint16_t)(s.rh_len - 8); /* the answer would not fit */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_READ, 4096);
    s.write_len += 4096; /* both ways */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_GETATTR, 0);
    s.write_len += 4096; /* data where the operation has none */
    s.write[1] = 0xa000;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_FIELD);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    l.m[HEADER_AT + 4096 - s.wh_len] = 9;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_VERSION);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    l.m[HEADER_AT + 4096 - s.wh_len + 1] = 77;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OPCODE);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    l.m[HEADER_AT + 4096 - s.wh_len + 26] = 7; /* a name */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_HEADER);
    s = liar_good(&l, SNIC_FSOP_READ, 4096);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OK); /* and it works on */
    liar_close(&l);
}

/* What would break: a list or page outside of what the host registered is read, or written. */
static void test_nvmefs_pointers_outside_of_windows_are_refused(void **state)
{
    struct liar l;
    struct snic_nvmefs_sqe s;
    (void)state;
    liar_open(&l);
    static const uint64_t bad[] = {REGION,
                                   SNIC_NVMEFS_ADDRESS(0, (UINT64_C(1) << 48) - 4096),
                                   SNIC_NVMEFS_ADDRESS(1, 4096),
                                   SNIC_NVMEFS_ADDRESS(2, 0),
                                   SNIC_NVMEFS_ADDRESS(63, 0),
                                   SNIC_NVMEFS_ADDRESS(64, 0),
                                   SNIC_NVMEFS_ADDRESS(0xffff, 0)};
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        uint64_t before = l.x.ops;
        s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
        s.write[1] = bad[i];
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        s = liar_good(&l, SNIC_FSOP_READ, 4096);
        s.read[0] = bad[i];
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        s = liar_good(&l, SNIC_FSOP_WRITE, 8192); /* a list */
        s.write[1] = bad[i];
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        s = liar_good(&l, SNIC_FSOP_WRITE, 8192); /* by the list */
        s.write[1] = HEADER_AT;
        snic_put_le64(l.m + HEADER_AT, 0xa000);
        snic_put_le64(l.m + HEADER_AT + 8, bad[i]);
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        s = liar_good(&l, SNIC_FSOP_WRITE, 0); /* the header itself */
        s.write[0] = bad[i];
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        s = liar_good(&l, SNIC_FSOP_READ, 4096);
        s.read_sgl = 1;
        snic_nvmefs_sgl_encode(s.read, bad[i], 4096, 0);
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        snic_nvmefs_sgl_encode(s.read, bad[i], 32, 1);
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
        assert_true(l.x.ops > before);
    }
    /* The last bytes of a window are in it, one more is not. */
    s = liar_good(&l, SNIC_FSOP_READ, 100);
    s.read[0] = REGION - 100;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OK);
    s.read_sgl = 1;
    snic_nvmefs_sgl_encode(s.read, REGION - 99, 100, 0);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_ADDRESS);
    liar_close(&l);
}

static void test_nvmefs_bad_lists_are_refused(void **state)
{
    struct liar l;
    struct snic_nvmefs_sqe s;
    uint64_t w[2];
    (void)state;
    liar_open(&l);
    s = liar_good(&l, SNIC_FSOP_WRITE, 8192);
    s.write[1] = HEADER_AT + 4; /* not aligned */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_PRP);
    s.write[1] = HEADER_AT + 4096 - 8; /* continues in the next page */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_PRP);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    s.write[1] = 0xa008; /* a second page with an offset */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_PRP);
    s = liar_good(&l, SNIC_FSOP_WRITE, 8192);
    s.write[1] = HEADER_AT;
    snic_put_le64(l.m + HEADER_AT, 0xa000);
    snic_put_le64(l.m + HEADER_AT + 8, 0xb001);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_PRP);
    s = liar_good(&l, SNIC_FSOP_READ, 4096);
    s.read_sgl = 1;
    snic_nvmefs_sgl_encode(s.read, 0xa000, 4095, 0);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_LENGTH);
    s.read[1] |= UINT64_C(0x20) << 56; /* a segment that is not the last */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_TYPE);
    snic_nvmefs_sgl_encode(s.read, HEADER_AT, 24, 1);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_COUNT);
    snic_nvmefs_sgl_encode(s.read, HEADER_AT, 0, 1);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_COUNT);
    snic_nvmefs_sgl_encode(s.read, 0x1000, 4096, 1); /* no room for it and the header */
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_COUNT);
    snic_nvmefs_sgl_encode(s.read, HEADER_AT, 32, 1);
    for (int i = 0; i < 3; i++) {
        static const uint32_t lengths[3][2] = {{4096, 0}, {4096, 1}, {2048, 2047}};
        for (int k = 0; k < 2; k++) {
            snic_nvmefs_sgl_encode(w, 0xa000, lengths[i][k], 0);
            snic_put_le64(l.m + HEADER_AT + k * 16, w[0]);
            snic_put_le64(l.m + HEADER_AT + k * 16 + 8, w[1]);
        }
        assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_LENGTH);
    }
    snic_nvmefs_sgl_encode(w, 0xa000, 2048, 1); /* a segment in a segment */
    snic_put_le64(l.m + HEADER_AT + 24, w[1]);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_SGL_TYPE);
    liar_close(&l);
}

/* The header may lie anywhere in the first piece, and across two: nothing depends on our layout. */
static void test_nvmefs_another_hosts_layout_works(void **state)
{
    struct liar l;
    struct snic_nvmefs_sqe s;
    unsigned char header[64];
    (void)state;
    liar_open(&l);
    s = liar_good(&l, SNIC_FSOP_WRITE, 4096);
    memcpy(header, l.m + s.write[0], s.wh_len);
    s.write[0] = 0xafe0; /* 32 bytes of it, the rest and the data in the next two pages */
    memcpy(l.m + 0xafe0, header, 32);
    memcpy(l.m + 0xc000, header + 32, s.wh_len - 32U);
    s.write[1] = 0xd000;
    snic_put_le64(l.m + 0xd000, 0xc000);
    snic_put_le64(l.m + 0xd008, 0xe000);
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OK);
    s = liar_good(&l, SNIC_FSOP_STATFS, 0);
    memcpy(header, l.m + s.write[0], s.wh_len);
    s.write[0] = 0xafe0;
    memcpy(l.m + 0xafe0, header, 32);
    memcpy(l.m + 0xc000, header + 32, s.wh_len - 32U);
    s.write[1] = 0xc000;
    assert_int_equal(liar_try(&l, &s), SNIC_NVMEFS_STATUS_OK);
    liar_close(&l);
}

static void test_nvmefs_duplicate_ids_and_foreign_aborts(void **state)
{
    struct liar l;
    struct snic_nvmefs_cqe c;
    struct snic_nvmefs_cmd *cmd;
    (void)state;
    liar_open(&l);
    struct snic_nvmefs_sqe s = liar_good(&l, SNIC_FSOP_READ, 4096);
    liar_push(&l, &s);
    liar_push(&l, &s);
    liar_push(&l, &s);
    snic_nvmefs_dpu_bell(l.x.d, 0);
    duo_settle(&l.x);
    assert_int_equal(liar_reap(&l, &c), 1);
    assert_true(c.cid == 2 && c.status == SNIC_NVMEFS_STATUS_CID);
    assert_int_equal(liar_reap(&l, &c), 1);
    assert_int_equal(c.status, SNIC_NVMEFS_STATUS_CID);
    cmd = snic_nvmefs_dpu_poll_request(l.x.d);
    assert_non_null(cmd);
    assert_null(snic_nvmefs_dpu_poll_request(l.x.d));
    /* Aborts of nothing, of another queue, of an id that can not be, and of itself. */
    static const uint32_t aborts[] = {3U << 16, 1 | 2U << 16, 99U << 16, 5U << 16};
    for (size_t i = 0; i < SNIC_COUNTOF(aborts); i++) {
        struct snic_nvmefs_sqe a = {
            .opcode = SNIC_NVMEFS_OPCODE_ABORT, .cid = 5, .write_len = aborts[i]};
        liar_push(&l, &a);
        snic_nvmefs_dpu_bell(l.x.d, 0);
        duo_settle(&l.x);
        assert_int_equal(liar_reap(&l, &c), 1);
        assert_true(c.cid == 5 && c.status == 0 && c.result == 1);
    }
    assert_null(snic_nvmefs_dpu_poll_cancel(l.x.d));
    snic_nvmefs_dpu_finish(l.x.d, cmd, SNIC_NVMEFS_STATUS_OK, 4096);
    duo_settle(&l.x);
    assert_int_equal(liar_reap(&l, &c), 1);
    assert_true(c.cid == 2 && c.status == 0 && c.result == 4096);
    liar_close(&l);
}

/* Every entry of a full queue is nonsense, over and over: bounded, and nothing is left. */
static void test_nvmefs_floods_of_nonsense(void **state)
{
    struct liar l;
    (void)state;
    liar_open(&l);
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < 8; i++) {
            unsigned char *e = l.m + 4096 + (size_t)(l.tail & 7) * 64;
            snic_rng_fill(&l.x.rng, e, 64);
            uint32_t d0 = snic_get_le32(e) & ~(1U << 11);
            d0 |= nvmefs_turn(l.tail, 3) << 11;
            if (i % 2)
                d0 = (d0 & 0xfff8cc00) | SNIC_NVMEFS_OPCODE;
            snic_put_le32(e, d0);
            if ((l.tail & 7) == 0)
                memcpy(l.m + 4096 + 512, e, 64);
            l.tail++;
        }
        snic_nvmefs_dpu_bell(l.x.d, 0);
        struct snic_nvmefs_cmd *c;
        duo_settle(&l.x);
        while ((c = snic_nvmefs_dpu_poll_request(l.x.d)) != NULL) {
            snic_nvmefs_dpu_finish(l.x.d, c, SNIC_NVMEFS_STATUS_OK, 0);
            duo_settle(&l.x);
        }
        duo_check(&l.x);
    }
    struct snic_nvmefs_dpu_stats s;
    snic_nvmefs_dpu_get_stats(l.x.d, &s);
    assert_true(s.statuses > 3000 * 6);
    liar_close(&l);
}

/* The completion queue can not be written: FAILED is reported, and DELETE still answers. */
static void test_nvmefs_an_unreachable_queue_fails(void **state)
{
    struct liar l;
    (void)state;
    liar_open(&l);
    struct snic_nvmefs_sqe s = liar_good(&l, SNIC_FSOP_READ, 4096);
    liar_push(&l, &s);
    snic_nvmefs_dpu_bell(l.x.d, 0);
    duo_settle(&l.x);
    struct snic_nvmefs_cmd *c = snic_nvmefs_dpu_poll_request(l.x.d);
    assert_non_null(c);
    size_t size = l.x.regions[0].size;
    l.x.regions[0].size = 0;
    snic_nvmefs_dpu_finish(l.x.d, c, SNIC_NVMEFS_STATUS_OK, 4096);
    duo_settle(&l.x);
    assert_int_equal(l.x.failed, 1);
    duo_check(&l.x);
    l.x.regions[0].size = size;
    liar_close(&l);
}

/* ---- A DPU that lies ---- */

struct victim {
    struct duo x;
    struct snic_nvmefs_req r[3];
};

static void victim_open(struct victim *v)
{
    memset(v, 0, sizeof(*v));
    duo_open(&v->x, &basic);
    duo_queue(&v->x, 0, 4, 4096);
    for (int i = 0; i < 3; i++) {
        v->r[i] = (struct snic_nvmefs_req){.op.kind = SNIC_FSOP_GETATTR, .op.ino = 9};
        assert_int_equal(snic_nvmefs_host_submit(v->x.h[0], &v->r[i]), 0);
    }
    (void)snic_nvmefs_host_kick(v->x.h[0]);
}

static void victim_close(struct victim *v, uint32_t outstanding)
{
    assert_int_equal(snic_nvmefs_host_outstanding(v->x.h[0]), outstanding);
    duo_check(&v->x);
    snic_nvmefs_host_reset(v->x.h[0]);
    for (uint32_t i = 0; i < outstanding; i++) {
        struct snic_nvmefs_req *r = snic_nvmefs_host_reap(v->x.h[0]);
        assert_non_null(r);
        assert_int_equal(r->op.result, SNIC_EUNKNOWN);
        assert_int_equal(r->status, SNIC_NVMEFS_STATUS_DELETED); /* unanswered */
    }
    assert_null(snic_nvmefs_host_reap(v->x.h[0]));
    assert_int_equal(snic_nvmefs_host_error(v->x.h[0]), 0);
    duo_close(&v->x);
}

static void victim_cqe(struct victim *v, const struct snic_nvmefs_cqe *c, int half)
{
    unsigned char b[16];
    unsigned char *at = v->x.h[0]->cq + (size_t)(v->x.h[0]->cq_head & 3) * 16;
    snic_nvmefs_cqe_encode(b, c);
    if (half != 1)
        memcpy(at, b, 8);
    if (half != 0)
        memcpy(at + 8, b + 8, 8);
}

static void test_nvmefs_bad_completions_break_the_queue(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct victim v;
        victim_open(&v);
        struct snic_nvmefs_cqe c = {.cid = v.r[0].cid, .sq_head = 3, .phase = 1, .status = 1};
        if (i == 0)
            c.cid = 3; /* Abort's, which is not out */
        else if (i == 1)
            c.cid = 77;
        else if (i == 2)
            c.sq_head = 4; /* more than there are */
        else if (i == 3)
            c.queue = 1;
        victim_cqe(&v, &c, 2);
        struct snic_nvmefs_req *r = snic_nvmefs_host_reap(v.x.h[0]);
        if (i < 4) {
            assert_null(r);
            assert_int_equal(snic_nvmefs_host_error(v.x.h[0]), SNIC_EPROTO);
            assert_int_equal(snic_nvmefs_host_submit(v.x.h[0], &v.r[0]), SNIC_EPROTO);
            victim_close(&v, 3);
            continue;
        }
        assert_ptr_equal(r, &v.r[0]);
        assert_int_equal(r->op.result, SNIC_ENOTSUP);
        victim_cqe(&v, &c, 2); /* the same command again */
        assert_null(snic_nvmefs_host_reap(v.x.h[0]));
        assert_int_equal(snic_nvmefs_host_error(v.x.h[0]), SNIC_EPROTO);
        victim_close(&v, 2);
    }
}

/* A command that ended while its abort had to wait takes the abort with it: the command that has
   its id next is not aborted. */
static void test_nvmefs_late_abort_hits_no_other_command(void **state)
{
    struct snic_nvmefs_host_stats s;
    struct victim v;
    (void)state;
    victim_open(&v);
    struct snic_nvmefs_host *h = v.x.h[0];
    assert_int_equal(snic_nvmefs_host_abort(h, &v.r[0]), 0);
    assert_int_equal(snic_nvmefs_host_abort(h, &v.r[1]), 0); /* waits: one is out */
    snic_nvmefs_host_get_stats(h, &s);
    assert_int_equal(s.aborts, 1);
    uint16_t cid = v.r[1].cid;
    struct snic_nvmefs_cqe c = {.cid = cid, .sq_head = 4, .phase = 1, .result = SNIC_ENOENT};
    victim_cqe(&v, &c, 2);
    assert_ptr_equal(snic_nvmefs_host_reap(h), &v.r[1]);
    assert_int_equal(snic_nvmefs_host_submit(h, &v.r[1]), 0);
    assert_int_equal(v.r[1].cid, cid);
    c.cid = 3; /* Abort's */
    c.result = 0;
    victim_cqe(&v, &c, 2);
    assert_null(snic_nvmefs_host_reap(h));
    assert_int_equal(snic_nvmefs_host_error(h), 0);
    snic_nvmefs_host_get_stats(h, &s);
    assert_int_equal(s.aborts, 1);
    victim_close(&v, 3);
}

/* Half an entry is none, whichever half. */
static void test_nvmefs_half_a_completion_waits_for_the_other(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct victim v;
        victim_open(&v);
        struct snic_nvmefs_cqe c = {
            .cid = v.r[1].cid, .sq_head = 2, .phase = 1, .result = SNIC_ENOENT};
        victim_cqe(&v, &c, first);
        assert_null(snic_nvmefs_host_reap(v.x.h[0]));
        assert_int_equal(snic_nvmefs_host_error(v.x.h[0]), 0);
        victim_cqe(&v, &c, 1 - first);
        assert_ptr_equal(snic_nvmefs_host_reap(v.x.h[0]), &v.r[1]);
        assert_int_equal(v.r[1].op.result, SNIC_ENOENT);
        victim_close(&v, 2);
    }
}

static void test_nvmefs_answers_that_can_not_be(void **state)
{
    struct victim v;
    unsigned char mine[4096];
    static const int64_t results[] = {1, -600, -5000, INT64_MAX};
    (void)state;
    victim_open(&v);
    struct snic_nvmefs_cqe c = {.cid = v.r[0].cid, .sq_head = 3, .phase = 1};
    victim_cqe(&v, &c, 2); /* no answer was written */
    assert_ptr_equal(snic_nvmefs_host_reap(v.x.h[0]), &v.r[0]);
    assert_int_equal(v.r[0].op.result, SNIC_EVERSION);
    for (size_t i = 0; i < SNIC_COUNTOF(results); i++) {
        struct snic_nvmefs_req *r = &v.r[1];
        c.cid = v.r[1].cid;
        c.phase = (uint8_t)nvmefs_turn(v.x.h[0]->cq_head, 2);
        c.result = results[i];
        c.sq_head = (uint16_t)v.x.h[0]->tail;
        victim_cqe(&v, &c, 2);
        assert_ptr_equal(snic_nvmefs_host_reap(v.x.h[0]), r);
        assert_int_equal(r->op.result, SNIC_EPROTO);
        *r = (struct snic_nvmefs_req){.op.kind = SNIC_FSOP_READLINK,
                                      .op.ino = 9,
                                      .op.iov = &(struct snic_iov){mine, 100},
                                      .op.iov_count = 1};
        if (i > 0)
            r->op.kind = SNIC_FSOP_UNLINK, r->op.iov_count = 0;
        assert_int_equal(snic_nvmefs_host_submit(v.x.h[0], r), 0);
    }
    victim_close(&v, 2);
    /* More bytes than there is room for. */
    victim_open(&v);
    c = (struct snic_nvmefs_cqe){.cid = v.r[0].cid, .sq_head = 3, .phase = 1, .status = 2};
    victim_cqe(&v, &c, 2);
    assert_non_null(snic_nvmefs_host_reap(v.x.h[0]));
    v.r[0] = (struct snic_nvmefs_req){
        .op.kind = SNIC_FSOP_READ, .op.iov = &(struct snic_iov){mine, 100}, .op.iov_count = 1};
    assert_int_equal(snic_nvmefs_host_submit(v.x.h[0], &v.r[0]), 0);
    c = (struct snic_nvmefs_cqe){.cid = v.r[0].cid, .sq_head = 4, .phase = 1, .result = 101};
    victim_cqe(&v, &c, 2);
    assert_ptr_equal(snic_nvmefs_host_reap(v.x.h[0]), &v.r[0]);
    assert_int_equal(v.r[0].op.result, SNIC_EPROTO);
    victim_close(&v, 2);
    /* A request for a size only: nothing has come. */
    victim_open(&v);
    c = (struct snic_nvmefs_cqe){.cid = v.r[0].cid, .sq_head = 3, .phase = 1, .status = 2};
    victim_cqe(&v, &c, 2);
    assert_non_null(snic_nvmefs_host_reap(v.x.h[0]));
    v.r[0] = (struct snic_nvmefs_req){
        .op.kind = SNIC_FSOP_GETXATTR, .op.name = "user.x", .op.name_size = 6};
    assert_int_equal(snic_nvmefs_host_submit(v.x.h[0], &v.r[0]), 0);
    c = (struct snic_nvmefs_cqe){.cid = v.r[0].cid, .sq_head = 4, .phase = 1, .result = 1000};
    victim_cqe(&v, &c, 2);
    assert_ptr_equal(snic_nvmefs_host_reap(v.x.h[0]), &v.r[0]);
    assert_int_equal(v.r[0].op.result, 1000);
    assert_int_equal(v.r[0].data_size, 0);
    victim_close(&v, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmefs_bad_entries_get_their_status),
        cmocka_unit_test(test_nvmefs_pointers_outside_of_windows_are_refused),
        cmocka_unit_test(test_nvmefs_bad_lists_are_refused),
        cmocka_unit_test(test_nvmefs_another_hosts_layout_works),
        cmocka_unit_test(test_nvmefs_duplicate_ids_and_foreign_aborts),
        cmocka_unit_test(test_nvmefs_floods_of_nonsense),
        cmocka_unit_test(test_nvmefs_an_unreachable_queue_fails),
        cmocka_unit_test(test_nvmefs_late_abort_hits_no_other_command),
        cmocka_unit_test(test_nvmefs_bad_completions_break_the_queue),
        cmocka_unit_test(test_nvmefs_half_a_completion_waits_for_the_other),
        cmocka_unit_test(test_nvmefs_answers_that_can_not_be),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
