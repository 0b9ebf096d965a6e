/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What hardly ever happens to either half of a node: what makes no sense, completions of nothing or
 * twice, two keys of one hash, tables that are full.
 */
#include "test_ddpnic_world.h"

#include "ddpnic/ddpnic_priv.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static struct snic_ddpnic_opts options(uint32_t model)
{
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o),
                                 .model = model,
                                 .keys_max = NW_KEYS,
                                 .writes_max = 8,
                                 .waits_max = 16,
                                 .reads_max = 4,
                                 .scopes_max = 4,
                                 .vfifo_max = 8,
                                 .dfifo_max = 8,
                                 .others_max = NW_NODES - 1};
    return o;
}

static struct nw_world *world(uint32_t nodes, uint32_t model)
{
    struct snic_ddpnic_opts o = options(model);
    struct nw_world *w = nw_new(1, nodes, &o);
    nw_start(w);
    return w;
}

/* Refused by node 0, and nothing has changed. */
static void refused(struct nw_world *w, int host, struct snic_ddp_event ev, int error)
{
    static unsigned char before[16384], after[16384];
    struct snic_ddpnic *d = w->node[0].d;
    size_t n = snic_ddpnic_canon(d, before, sizeof(before));
    assert_true(n <= sizeof(before));
    assert_int_equal(host ? nw_step_host(w, 0, &ev) : nw_step_nic(w, 0, &ev), error);
    memset(after, 0xee, 16);
    assert_int_equal(snic_ddpnic_canon(d, after, 8), n); /* of which no more is written */
    assert_int_equal(after[8], 0xee);
    assert_int_equal(snic_ddpnic_canon(d, after, sizeof(after)), n);
    assert_memory_equal(before, after, n);
}

static struct snic_ddp_msg message(uint32_t type, uint32_t src, uint64_t ts)
{
    struct snic_ddp_msg m = {.type = (uint8_t)type, .src = (uint8_t)src, .epoch = 1, .ts = ts};
    m.src_incarnation = m.dst_incarnation = 1;
    m.key = nw_key(1);
    if (type == SNIC_DDP_INV)
        m.flags = SNIC_DDP_MSG_TOMBSTONE;
    return m;
}

static int completes(struct nw_world *w, uint32_t type, uint64_t ts)
{
    struct snic_ddp_event ev = {.type = type, .key = nw_key(1), .ts = ts};
    return nw_step_nic(w, 0, &ev);
}

static void test_ddpnic_edges_options_and_views_refused(void **state)
{
    struct snic_ddpnic_opts o;
    struct snic_ddpnic *d = NULL;
    (void)state;
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        o = options(SNIC_DDP_SYNCH);                                                               \
        o.field = (value);                                                                         \
        assert_int_equal(snic_ddpnic_memsize(&o), 0);                                              \
    } while (0)
    BAD(opts_size, 3);
    BAD(keys_max, (1u << 28) + 1);
    BAD(writes_max, (1u << 20) + 1);
    BAD(waits_max, (1u << 20) + 1);
    BAD(vfifo_max, (1u << 20) + 1);
    BAD(dfifo_max, 0);
    BAD(retransmit_ns, (UINT64_C(1) << 50) + 1);
    BAD(replay_ns, (UINT64_C(1) << 50) + 1);
#undef BAD
    o = options(SNIC_DDP_SYNCH);
    assert_int_equal(snic_ddpnic_init(&d, NULL, SIZE_MAX, &o), SNIC_ENOSPC);
    assert_null(d);
    struct nw_world *w = world(3, SNIC_DDP_SYNCH);
    struct snic_ddp_view v = w->view;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH};
    refused(w, 0, ev, SNIC_EINVAL);
    ev.view = &v;
    v.epoch = SNIC_DDP_EPOCH_MAX + 1;
    refused(w, 0, ev, SNIC_EINVAL);
    v.epoch = 2;
    v.restart = 1;
    refused(w, 0, ev, SNIC_EINVAL);
    /* Left out, and in again: only anew. Left out for longer it may hear of it. */
    nw_leave(w, 1);
    nw_notify(w, 0);
    v = w->view;
    v.epoch++;
    assert_int_equal(nw_step_nic(w, 0, &ev), 0);
    v.epoch++;
    v.full |= 1;
    refused(w, 0, ev, SNIC_EINVAL);
    nw_free(w);
}

static void test_ddpnic_edges_messages_without_sense_refused(void **state)
{
    struct nw_world *w = world(3, SNIC_DDP_SYNCH);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    struct snic_ddp_msg m = message(SNIC_DDP_INV, 1, ts);
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    (void)state;
    m.dst = 1;
    refused(w, 0, ev, SNIC_ESTALE);
    m.dst = 0;
    m.dst_incarnation = 2;
    refused(w, 0, ev, SNIC_ESTALE);
    m = message(SNIC_DDP_INV, 1, ts);
    assert_int_equal(nw_step_nic(w, 0, &ev), 0);
    m = message(SNIC_DDP_VAL, 1, 0);
    refused(w, 0, ev, SNIC_EPROTO);
    m.ts = snic_ddp_ts(1, 4, 1); /* an INV that never arrived */
    refused(w, 0, ev, SNIC_EPROTO);
    m = message(SNIC_DDP_PERSIST, 1, 0);
    m.scope = 5;
    refused(w, 0, ev, SNIC_EPROTO);
    /* Acknowledgements of nothing. */
    m = message(SNIC_DDP_ACK, 1, 0);
    refused(w, 0, ev, 0);
    m = message(SNIC_DDP_ACK, 1, ts);
    refused(w, 0, ev, 0); /* not its own, and not yet complete: nothing to report */
    m.key = nw_key(2);
    refused(w, 0, ev, 0);
    assert_int_equal(w->messages, 0);
    nw_free(w);
    w = world(2, SNIC_DDP_SCOPE);
    ev.type = SNIC_DDP_MESSAGE;
    m = message(SNIC_DDP_PERSIST, 1, 0);
    refused(w, 0, ev, SNIC_EPROTO);
    m = message(SNIC_DDP_PERSIST_ACK, 1, 0);
    m.scope = 7;
    refused(w, 0, ev, 0); /* unrequested */
    nw_free(w);
}

/* The messages of one half to the other are checked, too. */
static void test_ddpnic_edges_pcie_without_sense_refused(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SYNCH);
    struct snic_ddp_msg m = message(SNIC_DDP_INV, 0, snic_ddp_ts(1, 2, 0));
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_PCIE, .msg = &m};
    (void)state;
    refused(w, 0, ev, SNIC_EINVAL); /* a key that the host never wrote */
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL) >= 0);
    m.ts = 0;
    refused(w, 0, ev, SNIC_EINVAL);
    m.ts = snic_ddp_ts(1, 3, 0); /* the lock's bit */
    refused(w, 0, ev, SNIC_EINVAL);
    m.ts = snic_ddp_ts(1, 4, 0); /* above the present one */
    refused(w, 0, ev, SNIC_EINVAL);
    m.type = SNIC_DDP_PERSIST;
    m.scope = 5;
    refused(w, 0, ev, SNIC_EINVAL);
    /* To the host. */
    m = message(SNIC_DDP_VAL, 0, snic_ddp_ts(1, 2, 0));
    refused(w, 1, ev, SNIC_EINVAL);
    m.type = SNIC_DDP_PERSIST_ACK;
    m.seen[0] = 1;
    refused(w, 1, ev, 0); /* of a scope that is not there */
    m.type = SNIC_DDP_ACK;
    m.key = nw_key(2);
    refused(w, 1, ev, 0);
    m.key = nw_key(1);
    m.ts += 32;
    refused(w, 1, ev, 0); /* no waiter for that */
    ev.type = SNIC_DDPNIC_WAKE;
    ev.key = nw_key(2);
    refused(w, 1, ev, 0);
    ev.key = nw_key(1);
    refused(w, 1, ev, 0); /* is locked */
    ev.type = SNIC_DDP_SYNC;
    ev.scope = 5;
    refused(w, 1, ev, SNIC_EINVAL);
    nw_calm(w);
    nw_free(w);
    w = world(2, SNIC_DDP_SCOPE);
    ev.type = SNIC_DDP_SYNC;
    ev.scope = 0;
    refused(w, 1, ev, SNIC_EINVAL);
    ev.type = SNIC_DDPNIC_PCIE;
    m = message(SNIC_DDP_PERSIST, 0, 0);
    refused(w, 0, ev, SNIC_EINVAL);
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 9, NULL) >= 0);
    ev.msg = &m;
    m.type = SNIC_DDP_PERSIST_ACK;
    m.scope = 9;
    m.seen[0] = 1;
    refused(w, 1, ev, 0); /* not yet requested */
    m.type = SNIC_DDP_PERSIST;
    m.seen[1] = 1;
    refused(w, 0, ev, 0); /* a further copy without the first */
    nw_calm(w);
    nw_free(w);
}

/* Stores, drains and log writes end once, and in their order. */
static void test_ddpnic_edges_completions_once(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SYNCH);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    struct snic_ddp_msg m = message(SNIC_DDP_INV, 1, ts);
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    (void)state;
    assert_int_equal(completes(w, SNIC_DDPNIC_VSTORED, ts), SNIC_EINVAL); /* of no key */
    assert_int_equal(nw_step_nic(w, 0, &ev), 0);
    ev = (struct snic_ddp_event){.type = SNIC_DDPNIC_DRAINED, .key = nw_key(1), .ts = ts};
    refused(w, 0, ev, SNIC_EINVAL); /* is not stored */
    ev.type = SNIC_DDPNIC_LOGGED;
    refused(w, 0, ev, SNIC_EINVAL);
    ev.type = SNIC_DDPNIC_VSTORED;
    ev.ts = ts + 32;
    refused(w, 0, ev, SNIC_EINVAL);
    assert_int_equal(completes(w, SNIC_DDPNIC_VSTORED, ts), 0);
    ev.ts = ts;
    refused(w, 0, ev, SNIC_EINVAL); /* twice */
    ev.type = SNIC_DDPNIC_DRAINED;
    ev.ts = ts + 32;
    refused(w, 0, ev, SNIC_EINVAL);
    assert_int_equal(completes(w, SNIC_DDPNIC_DSTORED, ts), 0);
    ev.type = SNIC_DDPNIC_DSTORED;
    ev.ts = ts;
    refused(w, 0, ev, SNIC_EINVAL);
    assert_int_equal(completes(w, SNIC_DDPNIC_DRAINED, ts), 0);
    ev.type = SNIC_DDPNIC_DRAINED;
    refused(w, 0, ev, SNIC_EINVAL);
    assert_int_equal(completes(w, SNIC_DDPNIC_LOGGED, ts), 0);
    ev.type = SNIC_DDPNIC_LOGGED;
    refused(w, 0, ev, SNIC_EINVAL);
    ev.type = SNIC_DDPNIC_MARKED;
    ev.id = 1;
    ev.scope = 5;
    refused(w, 0, ev, SNIC_EINVAL);
    ev.type = SNIC_DDP_FIRE;
    ev.id = UINT32_MAX;
    refused(w, 0, ev, SNIC_EINVAL);
    struct snic_ddp_timer t[2];
    memset(t, 0, sizeof(t));
    assert_int_equal(snic_ddpnic_timers(w->node[0].d, t, 0), 1);
    assert_int_equal(t[0].kind, 0);
    assert_int_equal(snic_ddpnic_timers(w->node[0].d, t, 2), 1);
    assert_int_equal(t[0].kind, SNIC_DDP_TIMER_LOCK);
    nw_free(w);
}

/* Two keys of one hash are two keys, and a table that is full takes no third. */
static void test_ddpnic_edges_keys_of_one_hash_apart(void **state)
{
    enum { SLOTS = 1 << 20 };
    (void)state;
    for (uint32_t form = 0; form < 2; form++) {
        uint32_t *seen = calloc(SLOTS, sizeof(*seen));
        struct snic_ddp_key one = {{0, 0}}, two = {{0, 0}};
        assert_non_null(seen);
        for (uint32_t i = 1; i < SLOTS && two.w[0] == 0; i++) {
            struct snic_ddp_key k = {{form ? 1 : i, i}};
            uint32_t h = ddp_hash(&k), s = h % SLOTS;
            struct snic_ddp_key other = {{form ? 1 : seen[s], seen[s]}};
            if (seen[s] != 0 && ddp_hash(&other) == h) {
                one = other;
                two = k;
            }
            seen[s] = i;
        }
        free(seen);
        assert_true(two.w[0] != 0 && one.w[1] != two.w[1]);
        struct snic_ddpnic_opts o = options(SNIC_DDP_EVENT);
        o.keys_max = 1;
        o.others_max = 1;
        o.writes_max = 3;
        o.vfifo_max = o.dfifo_max = 64;
        size_t size = snic_ddpnic_memsize(&o);
        void *mem = support_guard_alloc(size, SNIC_DDPNIC_ALIGN);
        struct snic_ddpnic *d;
        assert_int_equal(snic_ddpnic_init(&d, mem, size, &o), 0);
        assert_non_null(ddpnic_add(d, &one));
        assert_null(ddpnic_find(d, &two));
        struct ddpnic_rec *r = ddpnic_add(d, &two);
        assert_ptr_equal(ddpnic_find(d, &two), r);
        assert_true(ddpnic_find(d, &one) != r && ddpnic_find(d, &one) != NULL);
        assert_int_equal(snic_ddpnic_check(d), 0);
        /* Full of the others' keys. */
        struct snic_ddp_view v = {.epoch = 1, .full = 3};
        struct snic_ddp_msg m = {.type = SNIC_DDP_INV, .src = 1, .epoch = 1};
        struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &v};
        struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
        struct snic_ddp_action a;
        assert_int_equal(snic_ddpnic_step_nic(d, 1, &epoch), 0);
        int e = 0;
        m.ts = snic_ddp_ts(1, 2, 1);
        m.flags = SNIC_DDP_MSG_TOMBSTONE;
        for (uint64_t k = 1; k < 60 && e == 0; k++) {
            while (snic_ddpnic_poll_nic(d, &a) != 0)
                continue;
            m.key.w[0] = 1000 + k;
            e = snic_ddpnic_step_nic(d, 1, &ev);
        }
        assert_int_equal(e, SNIC_EAGAIN);
        while (snic_ddpnic_poll_nic(d, &a) != 0)
            continue;
        assert_int_equal(d->recs.used, d->recs.max);
        assert_int_equal(snic_ddpnic_check(d), 0);
        support_guard_free(mem);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_edges_options_and_views_refused),
        cmocka_unit_test(test_ddpnic_edges_messages_without_sense_refused),
        cmocka_unit_test(test_ddpnic_edges_pcie_without_sense_refused),
        cmocka_unit_test(test_ddpnic_edges_completions_once),
        cmocka_unit_test(test_ddpnic_edges_keys_of_one_hash_apart),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
