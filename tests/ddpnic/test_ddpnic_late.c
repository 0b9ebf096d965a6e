/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What does not come by itself: writes that are sent again or done over, room that each waits for,
 * and which node is suspected for it.
 */
#include "test_ddpnic_world.h"

#include "support.h"

#include <string.h>

static struct snic_ddpnic_opts options(uint32_t model, uint32_t flags)
{
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o),
                                 .model = model,
                                 .flags = flags,
                                 .keys_max = NW_KEYS,
                                 .writes_max = 8,
                                 .waits_max = 16,
                                 .reads_max = 4,
                                 .scopes_max = 4,
                                 .vfifo_max = 4,
                                 .dfifo_max = 4};
    return o;
}

/* The oldest message from one to the other arrives. */
static void arrive(struct nw_world *w, uint32_t src, uint32_t dst)
{
    for (uint32_t i = 0; i < w->messages; i++) {
        if (w->message[i].src == src && w->message[i].dst == dst) {
            assert_int_equal(nw_deliver(w, i, 0), 0);
            return;
        }
    }
    fail_msg("nothing from %u to %u", src, dst);
}

/* All stores, drains and logs end; what is on the network is lost. */
static void drain_and_lose(struct nw_world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        while (w->node[n].up && w->node[n].pending != 0)
            nw_complete(w, n, 0);
    }
    w->messages = 0;
}

static void write_to_nic(struct nw_world *w, uint32_t n)
{
    assert_true(nw_op(w, SNIC_DDP_WRITE, n, 1, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, n), 0);
}

/*
 * Four writes of a key, a < b < c < d, and PAPER, where the older wait for the newer. Node 1 works
 * on its a and on a replay of b, which are all the writes its NIC has room for; c is of node 0; d
 * reached node 1 alone before its coordinator crashed, so only node 1 can complete it. If
 * node 0 let the replay of b wait for c, then b would wait for c, c for d at node 1, and d for the
 * slot that b has.
 */
static void test_ddpnic_replay_older_waits_for_nothing(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        struct snic_ddpnic_opts o = options(model, SNIC_DDP_PAPER);
        struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
        struct snic_ddpnic_stats info;
        o.writes_max = 2;
        struct nw_world *w = nw_new(support_seed(), 4, &o);
        nw_start(w);
        write_to_nic(w, 1); /* a */
        arrive(w, 1, 0);
        arrive(w, 1, 3);
        drain_and_lose(w);
        write_to_nic(w, 2); /* b */
        arrive(w, 2, 1);
        drain_and_lose(w);
        w->now += UINT64_C(10000000);
        assert_int_equal(nw_step_nic(w, 1, &tick), 0);
        snic_ddpnic_get_stats(w->node[1].d, &info);
        assert_int_equal(info.counters.replays, 1);
        assert_int_equal(info.nic_writes, 2);
        drain_and_lose(w);
        write_to_nic(w, 0); /* c */
        drain_and_lose(w);
        write_to_nic(w, 3); /* d */
        arrive(w, 3, 1);
        drain_and_lose(w);
        nw_crash(w, 2);
        nw_crash(w, 3);
        nw_leave(w, 1u << 2 | 1u << 3);
        nw_notify_all(w);
        nw_settle(w);
        nw_same(w);
        nw_promised(w);
        nw_free(w);
    }
}

/* All timers of a node for this long; what it sends is lost. */
static void let_pass(struct nw_world *w, uint32_t n, uint64_t ns)
{
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    uint64_t end = w->now + ns;
    uint64_t next;
    while ((next = snic_ddpnic_deadline_ns(w->node[n].d)) <= end) {
        w->now = next > w->now ? next : w->now;
        assert_int_equal(nw_step_nic(w, n, &tick), 0);
        w->messages = 0;
    }
    w->now = end;
}

/* A write of node 0 that all have stored, and acknowledged; the acknowledgements are late. */
struct slow {
    struct snic_ddp_msg m[16];
    uint32_t count;
};

static void write_slowly(struct nw_world *w, struct slow *s)
{
    write_to_nic(w, 0);
    for (uint32_t n = 1; n < w->nodes; n++)
        arrive(w, 0, n);
    for (uint32_t n = 0; n < w->nodes; n++) {
        while (w->node[n].pending != 0)
            nw_complete(w, n, 0);
    }
    assert_true(s->count + w->messages <= 16);
    memcpy(&s->m[s->count], w->message, w->messages * sizeof(s->m[0]));
    s->count += w->messages;
    w->messages = 0;
}

/* The acknowledgement of node 0's write of this version comes. */
static void ack(struct nw_world *w, const struct slow *s, uint32_t src, uint32_t type,
                uint64_t version)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->m[i].src == src && s->m[i].type == type &&
            s->m[i].ts == snic_ddp_ts(1, version, 0)) {
            w->message[0] = s->m[i];
            w->messages = 1;
            arrive(w, src, 0);
            w->messages = 0;
            return;
        }
    }
    fail_msg("there is no such acknowledgement");
}

/* SUSPECT is sent when the mask changes: by whatever waits, until the last that waits does not. */
static void test_ddpnic_suspect_whole_mask_each_change(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_EVENT, 0);
    struct nw_world *w = nw_new(support_seed(), 3, &o);
    const struct nw_node *x = &w->node[0];
    struct slow s = {.count = 0};
    (void)state;
    nw_start(w);
    write_slowly(w, &s);
    let_pass(w, 0, 150000000);
    assert_int_equal(x->suspects, 0);
    let_pass(w, 0, 400000000);
    assert_int_equal(x->suspects, 1); /* and not again and again */
    assert_int_equal(x->suspect, 6);
    ack(w, &s, 1, SNIC_DDP_ACK_C, 2);
    assert_int_equal(x->suspects, 2);
    assert_int_equal(x->suspect, 4);
    write_slowly(w, &s); /* another, which node 2 answers */
    ack(w, &s, 1, SNIC_DDP_ACK_C, 4);
    ack(w, &s, 2, SNIC_DDP_ACK_C, 4);
    assert_int_equal(x->suspects, 2);
    ack(w, &s, 2, SNIC_DDP_ACK_C, 2);
    assert_int_equal(x->suspects, 3);
    assert_int_equal(x->suspect, 0);
    /* A new epoch: all nodes begin anew. */
    write_to_nic(w, 0);
    let_pass(w, 0, 400000000);
    assert_int_equal(x->suspect, 6);
    nw_leave(w, 4);
    nw_notify(w, 0);
    assert_int_equal(x->suspect, 0);
    let_pass(w, 0, 400000000);
    assert_int_equal(x->suspect, 2);
    nw_leave(w, 1); /* and a node that is left out waits for none */
    nw_notify(w, 0);
    assert_int_equal(x->suspect, 0);
    nw_free(w);
}

/* A replay answers no client, and its suspicion ends with it all the same; a scope's SYNC. */
static void test_ddpnic_suspect_of_replay_and_sync_withdrawn(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SCOPE, 0);
    struct nw_world *w = nw_new(support_seed(), 2, &o);
    (void)state;
    nw_start(w);
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 9, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    arrive(w, 0, 1);
    drain_and_lose(w);
    let_pass(w, 1, 400000000);
    assert_int_equal(w->node[1].suspects, 1);
    assert_int_equal(w->node[1].suspect, 1);
    nw_settle(w);
    assert_int_equal(w->node[1].suspects, 2);
    assert_int_equal(w->node[1].suspect, 0);
    assert_int_equal(w->node[0].suspects, 0);
    assert_true(nw_op(w, SNIC_DDP_SYNC, 0, 1, 9, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    drain_and_lose(w);
    let_pass(w, 0, 400000000);
    assert_int_equal(w->node[0].suspects, 1);
    assert_int_equal(w->node[0].suspect, 2);
    nw_settle(w);
    assert_int_equal(w->node[0].suspects, 2);
    assert_int_equal(w->node[0].suspect, 0);
    nw_same(w);
    nw_free(w);
}

/* REnf, Strict: what all have stored waits for dFIFOs, and is not sent again all the time. */
static void test_ddpnic_stored_everywhere_retried_slowly(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_STRICT; model <= SNIC_DDP_RENF; model++) {
        struct snic_ddpnic_opts o = options(model, 0);
        struct nw_world *w = nw_new(support_seed(), 3, &o);
        struct snic_ddpnic_stats info;
        struct slow s = {.count = 0};
        nw_start(w);
        write_slowly(w, &s);
        ack(w, &s, 1, SNIC_DDP_ACK_C, 2);
        let_pass(w, 0, 3500000);
        snic_ddpnic_get_stats(w->node[0].d, &info);
        assert_int_equal(info.counters.retransmits, 2); /* to node 2, after 1 and 3 ms */
        ack(w, &s, 2, SNIC_DDP_ACK_C, 2);
        let_pass(w, 0, 63000000);
        snic_ddpnic_get_stats(w->node[0].d, &info);
        assert_int_equal(info.counters.retransmits, 2);
        ack(w, &s, 1, SNIC_DDP_ACK_P, 2);
        let_pass(w, 0, 1000000); /* an ACK_P may have been lost */
        snic_ddpnic_get_stats(w->node[0].d, &info);
        assert_int_equal(info.counters.retransmits, 3);
        nw_settle(w);
        nw_same(w);
        nw_free(w);
    }
}

/*
 * Each of two nodes takes the last free record for a key of its own: both come to their end, and
 * then there is no room for a third.
 */
static void test_ddpnic_last_record_taken_twice_ends(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SYNCH, 0);
    int r = 0;
    (void)state;
    o.keys_max = 1;
    o.others_max = 1;
    struct nw_world *w = nw_new(support_seed(), 2, &o);
    nw_start(w);
    int a = nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL);
    int b = nw_op(w, SNIC_DDP_WRITE, 1, 2, 0, NULL);
    assert_true(a >= 0 && b >= 0);
    nw_settle(w);
    assert_int_equal(w->op[a].state, NW_OK);
    assert_int_equal(w->op[b].state, NW_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_true(nw_op(w, SNIC_DDP_WRITE, n, 0, 0, &r) < 0);
        assert_int_equal(r, SNIC_ENOSPC);
    }
    nw_same(w);
    nw_free(w);
}

/* A view of more nodes than there is room for. */
static void test_ddpnic_others_max_checked(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SYNCH, 0);
    struct snic_ddp_view v = {.epoch = 1, .full = 7, .incarnation = {1, 1, 1}};
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
    (void)state;
    size_t all = snic_ddpnic_memsize(&o);
    o.others_max = 16;
    assert_int_equal(snic_ddpnic_memsize(&o), 0);
    o.others_max = 1;
    assert_true(snic_ddpnic_memsize(&o) < all);
    struct nw_world *w = nw_new(support_seed(), 2, &o);
    assert_int_equal(nw_step_nic(w, 0, &ev), SNIC_EINVAL);
    v.full = 6; /* without this node */
    assert_int_equal(nw_step_nic(w, 0, &ev), 0);
    nw_free(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_replay_older_waits_for_nothing),
        cmocka_unit_test(test_ddpnic_suspect_whole_mask_each_change),
        cmocka_unit_test(test_ddpnic_suspect_of_replay_and_sync_withdrawn),
        cmocka_unit_test(test_ddpnic_stored_everywhere_retried_slowly),
        cmocka_unit_test(test_ddpnic_last_record_taken_twice_ends),
        cmocka_unit_test(test_ddpnic_others_max_checked),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
