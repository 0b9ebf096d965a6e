/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long runs of two hosts with several controllers, queues and namespaces, beside a small model:
 * what is at the device and what may start; whose controllers are there; which events must come.
 * The engine is checked after every action. The threads of connections are late at random: they
 * stop, quiesce and answer when chance lets them.
 */
#include "test_nvmesub_util.h"

enum { CTRLS = 5, QUEUES = 10, OPS = 4, NAMESPACES = 4 };

/* A queue as the test knows it. */
struct rq {
    int used;
    uint32_t conn;
    int ctrl;
    int host;
    struct snic_nvmesub_op op[OPS];
    int started[OPS]; /* 0 none, 1 checked, 2 at the device */
};

struct rc {
    int used;
    struct nx_ctrl c;
    int host;
    int enabled;
    int aers; /* outstanding */
    int aec;
    int expects; /* a namespace event must be delivered or masked */
};

static struct nx x;
static struct rq queues[QUEUES];
static struct rc ctrls[CTRLS];
static uint64_t blocks[NAMESPACES + 1]; /* 0: not there */
static int read_only[NAMESPACES + 1];
static int old_writes[2]; /* at the device, of queues that have ended, by host */
static struct snic_rng rng;
static struct nx_cmd *held_connect[4];
static int held_host[4];
static uint64_t seen_hold, seen_start, seen_connect, seen_drop, seen_fence, seen_event; /* it met */

static uint32_t below(uint32_t n)
{
    return (uint32_t)snic_rng_below(&rng, n);
}

/* The first queue from a random place on that has a command in state @p want. */
static struct rq *pick(int want, uint32_t *slot)
{
    uint32_t first = below(QUEUES * OPS);
    for (uint32_t i = 0; i < QUEUES * OPS; i++) {
        uint32_t at = (first + i) % (QUEUES * OPS);
        *slot = at % OPS;
        if (queues[at / OPS].used && queues[at / OPS].started[*slot] == want)
            return &queues[at / OPS];
    }
    return NULL;
}

static int queue_ended(const struct rq *q)
{
    return x.conn[q->conn].ended || x.conn[q->conn].lost;
}

/* Queues whose connection is gone are forgotten; their commands must have ended before. */
static void sweep(void)
{
    memset(old_writes, 0, sizeof(old_writes));
    for (int i = 0; i < QUEUES; i++) {
        struct rq *q = &queues[i];
        if (!q->used)
            continue;
        int at_device = 0;
        for (int k = 0; k < OPS; k++)
            at_device += q->started[k] == 2;
        if (!x.conn[q->conn].open || !x.conn[q->conn].attached) {
            assert_int_equal(at_device, 0);
            q->used = 0;
        } else if (queue_ended(q)) {
            old_writes[q->host] += at_device;
        }
    }
    for (int i = 0; i < CTRLS; i++)
        if (ctrls[i].used && (!x.conn[ctrls[i].c.conn].open || x.conn[ctrls[i].c.conn].ended ||
                              x.conn[ctrls[i].c.conn].lost))
            ctrls[i].used = 0;
    for (int i = 0; i < NX_CMDS; i++)
        if (x.cmd[i].busy && (x.cmd[i].done || x.cmd[i].dropped))
            nx_free(&x.cmd[i]);
}

static void do_connect(void)
{
    int i = (int)below(CTRLS);
    struct snic_nvmesub_stats st;
    snic_nvmesub_get_stats(x.s, &st);
    if (ctrls[i].used || st.controllers >= 5 || st.conns > 16 || old_writes[0] || old_writes[1])
        return;
    int host = (int)below(2);
    uint32_t fenced = 0;
    for (int k = 0; k < QUEUES; k++)
        fenced += queues[k].used && queues[k].host == host && queue_ended(&queues[k]);
    if (fenced)
        return;
    ctrls[i] = (struct rc){
        .used = 1, .c = nx_admin(&x, host, 0, below(2) ? 3000 : 0), .host = host, .enabled = 1};
}

static void do_queue(void)
{
    int i = (int)below(CTRLS), k = (int)below(QUEUES);
    if (!ctrls[i].used || queues[k].used || !ctrls[i].enabled)
        return;
    for (int j = 0; j < QUEUES; j++)
        if (queues[j].used && queues[j].host == ctrls[i].host &&
            (queue_ended(&queues[j]) ||
             (queues[j].ctrl == i && x.conn[queues[j].conn].q.qid == k % 4 + 1)))
            return;
    queues[k] = (struct rq){.used = 1,
                            .conn = nx_queue(&x, &ctrls[i].c, (uint16_t)(k % 4 + 1)),
                            .ctrl = i,
                            .host = ctrls[i].host};
}

/* A Connect while its host is fenced waits, and is served when what is at the device has ended. */
static void do_held_connect(void)
{
    int slot = (int)below(4), host = (int)below(2), fenced = 0;
    struct snic_nvmesub_stats st;
    snic_nvmesub_get_stats(x.s, &st);
    for (int k = 0; k < QUEUES; k++)
        fenced |= queues[k].used && queues[k].host == host && x.conn[queues[k].conn].lost;
    if (!fenced || held_connect[slot] != NULL || st.conns > 18 || st.controllers > 3)
        return;
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    nx_connect_data(&d, host, SNIC_NVME_CNTLID_DYNAMIC);
    nx_connect_sqe(&e, 0, 32, 0);
    uint32_t conn = nx_conn(&x, 0);
    held_connect[slot] = nx_send(&x, conn, &e, &d);
    held_host[slot] = host;
    nx_pump(&x);
}

static void check_held(void)
{
    for (int i = 0; i < 4; i++) {
        struct nx_cmd *c = held_connect[i];
        if (c == NULL)
            continue;
        if (!c->done && !c->dropped)
            continue;
        seen_connect += c->done != 0;
        if (c->done) /* not one old command is at the device now */
            assert_int_equal(old_writes[held_host[i]], 0);
        if (x.conn[c->c.conn].open && !x.conn[c->c.conn].lost)
            nx_lost(&x, c->c.conn);
        held_connect[i] = NULL;
    }
}

static void do_check(void)
{
    static const uint8_t opcodes[] = {SNIC_NVME_IO_READ, SNIC_NVME_IO_WRITE, SNIC_NVME_IO_FLUSH,
                                      SNIC_NVME_IO_WRITE_ZEROES};
    uint32_t k, nsid = 1 + below(NAMESPACES), which = below(4);
    struct rq *q = pick(0, &k);
    uint64_t lba = below(8);
    if (q == NULL)
        return;
    uint32_t r = nx_io(&x, q->conn, opcodes[which], nsid, lba, &q->op[k]);
    int ended = snic_nvmesub_io_ended(x.v, &x.conn[q->conn].q), writes = which == 1 || which == 3;
    assert_true(ended || !queue_ended(q));
    if (ended) {
        assert_int_equal(r, SNIC_NVMESUB_IO_DROP);
        return;
    }
    if (blocks[nsid] == 0)
        assert_int_equal(r, NX_STATUS(NX_DNR(INVALID_NS)));
    else if (writes && read_only[nsid])
        assert_int_equal(r, NX_STATUS(NX_DNR(WRITE_PROTECTED)));
    else if (which != 2 && lba >= blocks[nsid])
        assert_int_equal(r, NX_STATUS(NX_DNR(LBA_RANGE)));
    else if (writes && old_writes[q->host] != 0)
        assert_int_equal(r, SNIC_NVMESUB_IO_HOLD);
    else if (!writes)
        assert_int_equal(r, SNIC_NVMESUB_IO_RUN);
    if (r == SNIC_NVMESUB_IO_RUN)
        q->started[k] = 1;
    seen_hold += r == SNIC_NVMESUB_IO_HOLD;
}

static void do_start(void)
{
    uint32_t k;
    struct rq *q = pick(1, &k);
    struct snic_nvme_cqe cqe;
    if (q == NULL)
        return;
    int r = snic_nvmesub_io_start(x.v, &x.conn[q->conn].q, &q->op[k], &cqe);
    int writes = q->op[k].kind == SNIC_NVMESUB_WRITE || q->op[k].kind == SNIC_NVMESUB_ZEROES;
    if (r == SNIC_NVMESUB_IO_RUN) {
        assert_false(queue_ended(q)); /* nothing starts after the end */
        assert_true(blocks[q->op[k].nsid] != 0);
        if (writes)
            assert_int_equal(old_writes[q->host], 0);
    }
    seen_start += r == SNIC_NVMESUB_IO_RUN;
    seen_drop += r == SNIC_NVMESUB_IO_DROP;
    if (r != SNIC_NVMESUB_IO_HOLD)
        q->started[k] = r == SNIC_NVMESUB_IO_RUN ? 2 : 0;
}

static void do_done(void)
{
    uint32_t k;
    struct rq *q = pick(2, &k);
    struct snic_nvme_cqe cqe;
    if (q == NULL)
        return;
    snic_nvmesub_io_done(x.v, &x.conn[q->conn].q, q->op[k].cid, 0, 0, &cqe);
    q->started[k] = 0;
}

static void do_namespace(void)
{
    uint32_t nsid = 1 + below(NAMESPACES);
    struct snic_nvmesub_ns_status st;
    if (snic_nvmesub_get_ns(x.s, nsid, &st) != 0) {
        blocks[nsid] = 4 + below(8);
        read_only[nsid] = 0;
        nx_ns(&x, nsid, blocks[nsid]);
    } else if (st.removing) {
        assert_int_equal(blocks[nsid], 0);
    } else if (below(6) == 0) {
        blocks[nsid] = 0;
        assert_int_equal(snic_nvmesub_ns_remove(x.s, nsid), 0);
    } else if (below(2)) {
        blocks[nsid] = 4 + below(8);
        assert_int_equal(snic_nvmesub_ns_resize(x.s, nsid, blocks[nsid]), 0);
    } else {
        read_only[nsid] = (int)below(2);
        assert_int_equal(snic_nvmesub_ns_read_only(x.s, nsid, read_only[nsid]), 0);
    }
}

static void do_loss(void)
{
    struct rc *c = &ctrls[below(CTRLS)];
    struct rq *q = &queues[below(QUEUES)];
    if (below(2) && c->used)
        nx_lost(&x, c->c.conn);
    else if (q->used && !queue_ended(q))
        nx_lost(&x, q->conn);
    sweep();
}

static void do_reset(void)
{
    struct rc *c = &ctrls[below(CTRLS)];
    if (!c->used)
        return;
    uint32_t cc = !c->enabled ? NX_CC_EN : below(4) == 0 ? NX_CC_EN | 1U << 14 : 0;
    nx_cc(&x, &c->c, cc);
    uint32_t csts = nx_csts(&x, &c->c);
    c->enabled = cc == NX_CC_EN;
    if (csts != (c->enabled ? SNIC_NVME_CSTS_RDY : 0U)) /* a shutdown, or a reset that waits */
        nx_lost(&x, c->c.conn);
}

static void do_admin(void)
{
    struct rc *c = &ctrls[below(CTRLS)];
    if (!c->used || !c->enabled)
        return;
    switch (below(4)) {
    case 0:
        nx_feature(&x, &c->c, SNIC_NVME_FEAT_AEC, 0, SNIC_NVME_AEC_NS);
        break;
    case 1:
        nx_aer(&x, &c->c);
        break;
    case 2:
        nx_log(&x, &c->c, SNIC_NVME_LOG_CHANGED_NS, 64, 0);
        break;
    default:
        nx_log(&x, &c->c, SNIC_NVME_LOG_ERROR, 64, 0);
    }
}

static void do_time(void)
{
    x.now += (uint64_t)below(1000) * 1000000;
    snic_nvmesub_tick(x.s, x.now);
    assert_true(snic_nvmesub_deadline_ns(x.s) > x.now);
}

static void step(void)
{
    x.hold_stop = below(4) != 0;
    uint32_t what = below(100);
    if (what < 8)
        do_connect();
    else if (what < 20)
        do_queue();
    else if (what < 23)
        do_held_connect();
    else if (what < 50)
        do_check();
    else if (what < 72)
        do_start();
    else if (what < 86)
        do_done();
    else if (what < 92)
        do_namespace();
    else if (what < 93)
        do_loss();
    else if (what < 94)
        do_reset();
    else if (what < 99)
        do_admin();
    else
        do_time();
    nx_pump(&x);
    sweep();
    check_held();
}

static void test_nvmesub_random_two_hosts(void **state)
{
    (void)state;
    uint64_t rounds = support_rounds(40, 2000), steps = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        snic_rng_init(&rng, support_seed() * 1000 + i);
        memset(queues, 0, sizeof(queues));
        memset(ctrls, 0, sizeof(ctrls));
        memset(blocks, 0, sizeof(blocks));
        memset(old_writes, 0, sizeof(old_writes));
        memset(held_connect, 0, sizeof(held_connect));
        nx_open(&x, NULL);
        for (int k = 0; k < 2000; k++, steps++)
            step();
        x.hold_stop = 0;
        struct snic_nvme_cqe cqe;
        for (int k = 0; k < QUEUES; k++)
            for (int o = 0; o < OPS; o++)
                if (queues[k].used && queues[k].started[o] == 2)
                    snic_nvmesub_io_done(x.v, &x.conn[queues[k].conn].q, 0, 0, 0, &cqe);
        struct snic_nvmesub_stats st;
        snic_nvmesub_get_stats(x.s, &st);
        seen_fence += st.fences;
        seen_event += st.events;
        nx_close(&x);
    }
    assert_true(seen_hold > 0 && seen_start > 0 && seen_connect > 0 && seen_drop > 0);
    assert_true(seen_fence > 0 && seen_event > 0);
    print_message("hold %lu start %lu connect %lu drop %lu fence %lu event %lu\n",
                  (unsigned long)seen_hold, (unsigned long)seen_start, (unsigned long)seen_connect,
                  (unsigned long)seen_drop, (unsigned long)seen_fence, (unsigned long)seen_event);
    print_message("%lu steps\n", (unsigned long)steps);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_random_two_hosts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
