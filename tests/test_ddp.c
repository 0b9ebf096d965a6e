/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine: its contract, one behaviour at a time. One engine is node 0 of three; the
 * test is the other two, its log and its client. What several engines do together is at the end.
 */
#include "test_ddp_world.h"

#include "support.h"

#include <stdlib.h>

struct one {
    struct snic_ddp *d;
    void *mem;
    size_t size;
    struct snic_ddp_view view;
    uint64_t now;
    uint32_t sent[32]; /* messages of each type since the last look */
    uint32_t did[16];  /* actions of each type */
    struct snic_ddp_msg last[32];
    struct snic_ddp_action done;
    uint32_t flush;   /* id of the last FLUSH */
    uint32_t suspect; /* mask of the last SUSPECT */
    uint32_t suspects;
    uint32_t order;  /* types of messages of this step: first, then last */
    uint16_t to[32]; /* of the last of each type */
};

static struct snic_ddp_opts one_opts(uint32_t model, uint32_t flags)
{
    struct snic_ddp_opts o = {.opts_size = sizeof(o), .model = model, .flags = flags};
    o.keys_max = 3;
    o.writes_max = 4;
    o.waits_max = 4;
    o.reads_max = 1;
    o.scopes_max = 1;
    return o;
}

static int one_step(struct one *x, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    memset(x->sent, 0, sizeof(x->sent));
    memset(x->did, 0, sizeof(x->did));
    x->order = 0;
    int r = snic_ddp_step(x->d, x->now, ev);
    while (snic_ddp_poll(x->d, &a) != 0) {
        x->did[a.type]++;
        if (a.type == SNIC_DDP_SEND) {
            x->sent[a.msg.type]++;
            x->last[a.msg.type] = a.msg;
            x->to[a.msg.type] = a.to;
            x->order = (x->order == 0 ? a.msg.type : x->order & 0xff) | (uint32_t)a.msg.type << 8;
        } else if (a.type == SNIC_DDP_DONE) {
            x->done = a;
        } else if (a.type == SNIC_DDP_FLUSH) {
            x->flush = a.id;
        } else if (a.type == SNIC_DDP_SUSPECT) {
            x->suspect = a.to;
            x->suspects++;
        }
    }
    assert_int_equal(snic_ddp_check(x->d), 0);
    return r;
}

static struct one one_new(uint32_t model, uint32_t flags)
{
    struct one x;
    struct snic_ddp_opts o = one_opts(model, flags);
    memset(&x, 0, sizeof(x));
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    x.view.epoch = 1;
    x.view.full = 7;
    struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = 1000000000};
    assert_int_equal(one_step(&x, &epoch), 0);
    assert_int_equal(one_step(&x, &lease), 0);
    return x;
}

static int one_message(struct one *x, uint32_t type, uint32_t src, uint64_t ts, uint32_t flags)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.flags = (uint8_t)flags;
    m.epoch = x->view.epoch;
    m.key = world_key(1);
    m.ts = ts;
    m.value = ts;
    m.length = 5;
    return one_step(x, &ev);
}

static int one_client(struct one *x, uint32_t type, uint64_t expect)
{
    struct snic_ddp_event ev = {.type = type, .key = world_key(1), .ts = expect, .token = 77};
    ev.value = 1000;
    return one_step(x, &ev);
}

static int one_appended(struct one *x, uint64_t ts)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = world_key(1), .ts = ts};
    return one_step(x, &ev);
}

static int one_tick(struct one *x, uint64_t ns)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    x->now += ns;
    return one_step(x, &ev);
}

/* Time passes, with a TICK whenever there is something to do; how many messages of this type. */
static uint32_t one_time(struct one *x, uint64_t ns, uint32_t type)
{
    uint64_t end = x->now + ns;
    uint32_t sent = 0;
    for (uint64_t at; (at = snic_ddp_deadline_ns(x->d)) <= end;) {
        assert_int_equal(one_tick(x, at > x->now ? at - x->now : 0), 0);
        sent += x->sent[type];
    }
    x->now = end;
    return sent;
}

/* An engine that was told nothing yet. */
static struct one one_fresh(uint32_t model, uint32_t node, uint32_t keys)
{
    struct one x;
    struct snic_ddp_opts o = one_opts(model, 0);
    memset(&x, 0, sizeof(x));
    o.node = node;
    o.keys_max = keys;
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    return x;
}

static int one_view(struct one *x, uint16_t full, uint16_t learners, uint32_t donor,
                    uint32_t restart)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x->view};
    x->view.epoch++;
    x->view.full = full;
    x->view.learners = learners;
    x->view.donor = donor;
    x->view.restart = restart;
    return one_step(x, &ev);
}

static int one_get(struct one *x)
{
    struct snic_ddp_entry e;
    struct snic_ddp_key k = world_key(1);
    return snic_ddp_get(x->d, x->now, &k, &e);
}

/* Memory is as large as it says, and options are looked at. */
static void test_ddp_init_options_checked(void **state)
{
    (void)state;
    struct snic_ddp *d = NULL;
    struct snic_ddp_opts good = one_opts(SNIC_DDP_SYNCH, 0);
    size_t size = snic_ddp_memsize(&good);
    void *mem = support_guard_alloc(size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&d, mem, size - 1, &good), SNIC_ENOSPC);
    assert_null(d);
    struct snic_ddp_opts bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].model = 0;
    bad[1].model = 6;
    bad[2].flags = 4;
    bad[3].node = SNIC_DDP_NODES_MAX;
    bad[4].keys_max = 0;
    bad[5].writes_max = 1;
    bad[6].waits_max = 1;
    bad[7].reads_max = (1u << 20) + 1;
    bad[8].replay_ns = UINT64_MAX;
    bad[9].opts_size = 3;
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(snic_ddp_memsize(&bad[i]), 0);
        assert_int_equal(snic_ddp_init(&d, mem, size, &bad[i]), SNIC_EINVAL);
    }
    assert_int_equal(snic_ddp_init(&d, mem, size, &good), 0);
    support_guard_free(mem);
}

/* The state as bytes, to see that nothing changed. */
static size_t one_canon(struct one *x, unsigned char *out, size_t size)
{
    size_t n = snic_ddp_canon(x->d, out, size);
    assert_true(n <= size);
    return n;
}

/* Each refusal leaves everything as it was. */
static void test_ddp_refused_event_changes_nothing(void **state)
{
    (void)state;
    static unsigned char before[4096];
    static unsigned char after[4096];
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t other = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, other, 0), 0);
    size_t n = one_canon(&x, before, sizeof(before));
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, other, 0), SNIC_EPROTO); /* not its own */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(2, 2, 1), 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, 0, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 16, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 3, other, 0), SNIC_ESTALE); /* no member */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 0, other, 0), SNIC_ESTALE); /* itself */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL, 1, snic_ddp_ts(1, 9, 1), 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, other, 0), SNIC_EPROTO); /* the model's */
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_P, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, 0, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, 99, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, other, 128), SNIC_EPROTO);
    assert_int_equal(one_message(&x, SNIC_DDP_PULL, 1, 0, 0), SNIC_EPROTO); /* no learner */
    assert_int_equal(one_message(&x, SNIC_DDP_RECORD, 1, other, 0), SNIC_EPROTO);
    assert_int_equal(one_client(&x, SNIC_DDP_SYNC, 0), SNIC_EINVAL);
    assert_int_equal(one_client(&x, 99, 0), SNIC_EINVAL);
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* goes back */
    ev.type = SNIC_DDP_LOADED;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* too late */
    ev.type = SNIC_DDP_FIRE;
    ev.id = 1000;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL);
    assert_int_equal(one_canon(&x, after, sizeof(after)), n);
    assert_memory_equal(before, after, n);
    struct snic_ddp_info info;
    snic_ddp_inspect(x.d, &info);
    assert_int_equal(info.counters.invalid, 12);
    assert_int_equal(info.counters.foreign, 2);
    support_guard_free(x.mem);
}

/* Rooms that are full, the lease that ended. */
static void test_ddp_full_or_fenced_refused(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_EAGAIN); /* one is for replays */
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), 0);            /* waits */
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), SNIC_EAGAIN);
    assert_int_equal(one_get(&x), SNIC_EAGAIN);
    x.now = 1000000000;
    assert_int_equal(one_get(&x), SNIC_ESTALE);
    assert_int_equal(one_client(&x, SNIC_DDP_READ, 0), SNIC_ESTALE);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_ESTALE);
    /* Left out: every client hears of it. */
    x.view.epoch = 2;
    x.view.full = 6;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 4);
    assert_int_equal(x.done.result, SNIC_ESTALE); /* the read, last: shows nothing any more */
    x.view.epoch = 3;
    x.view.full = 7;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* only anew */
    support_guard_free(x.mem);
}

/* The last version of an epoch is not passed. */
static void test_ddp_versions_used_up_asks_for_epoch(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t last = snic_ddp_ts(1, SNIC_DDP_VERSION_MAX - 1, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, last, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, last, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), SNIC_EAGAIN);
    assert_int_equal(x.did[SNIC_DDP_NEED_EPOCH], 1);
    x.view.epoch = 2;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    assert_true(x.last[SNIC_DDP_INV].ts > last);
    support_guard_free(x.mem);
}

/*
 * The coordinator's table (spec section 1.1), as what is true after each of: stored everywhere (c),
 * durable everywhere else (p), durable here (l). 1: answered, 2: unlocked, 4: validated, 8: VAL_P.
 */
static void test_ddp_coordinator_each_model_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t model;
        uint32_t flags;
        uint8_t c, cp, cpl, cl; /* what is true then */
    } rows[] = {
        {SNIC_DDP_SYNCH, 0, 0, 0, 7, 0},
        {SNIC_DDP_STRICT, 0, 6, 6, 15, 6},
        {SNIC_DDP_STRICT, SNIC_DDP_VALC_AFTER_PERSIST, 0, 0, 15, 6},
        {SNIC_DDP_RENF, 0, 1, 1, 7, 1},
        {SNIC_DDP_EVENT, 0, 7, 7, 7, 7},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        for (uint32_t order = 0; order < 2; order++) {
            struct one x = one_new(rows[i].model, rows[i].flags);
            uint32_t is = 0;
            int whole = rows[i].model == SNIC_DDP_SYNCH;
            int c_only = rows[i].model == SNIC_DDP_EVENT;
            assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
            uint64_t ts = x.last[SNIC_DDP_INV].ts;
            for (uint32_t phase = 0; phase < 3; phase++) {
                /* c, p, l or c, l, p. */
                uint32_t what = phase == 0 ? 0 : (phase == 1) == (order == 0) ? 1 : 2;
                for (uint32_t n = 1; n < 3; n++) {
                    if (what == 2 && n == 2)
                        break;
                    if (what == 2)
                        assert_int_equal(one_appended(&x, ts), 0);
                    else if (what == 0 && !whole)
                        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, ts, 0), 0);
                    else if (what == 1 && !c_only)
                        assert_int_equal(
                            one_message(&x, whole ? SNIC_DDP_ACK : SNIC_DDP_ACK_P, n, ts, 0), 0);
                    else
                        continue;
                    is |= x.did[SNIC_DDP_DONE] != 0 ? 1 : 0;
                    is |= x.sent[SNIC_DDP_VAL] + x.sent[SNIC_DDP_VAL_C] != 0 ? 4 : 0;
                    is |= x.sent[SNIC_DDP_VAL_P] != 0 ? 8 : 0;
                }
                is |= one_get(&x) == 0 ? 2 : 0;
                uint32_t want = phase == 0   ? rows[i].c
                                : phase == 2 ? rows[i].cpl
                                : order == 0 ? rows[i].cp
                                             : rows[i].cl;
                assert_int_equal(is, want);
            }
            support_guard_free(x.mem);
        }
    }
}

/* The follower's, FAST and PAPER: what an INV is answered with at once, and once it is durable. */
static void test_ddp_follower_each_model_table(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        for (uint32_t paper = 0; paper < 2; paper++) {
            struct one x = one_new(model, paper);
            uint64_t newer = snic_ddp_ts(1, 2, 2);
            uint64_t older = snic_ddp_ts(1, 2, 1);
            uint32_t split = model != SNIC_DDP_SYNCH;
            uint32_t p = model == SNIC_DDP_SYNCH   ? SNIC_DDP_ACK
                         : model == SNIC_DDP_EVENT ? 0
                                                   : SNIC_DDP_ACK_P;
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, newer, 0), 0);
            assert_int_equal(x.did[SNIC_DDP_APPEND], 1);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
            assert_int_equal(x.sent[SNIC_DDP_ACK] + x.sent[SNIC_DDP_ACK_P], 0);
            assert_int_equal(one_get(&x), SNIC_EAGAIN);
            /* The older write's INV comes after the newer one's. */
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, older, 0), 0);
            assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
            assert_int_equal(x.did[SNIC_DDP_APPEND], 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split && !paper);
            assert_int_equal(one_appended(&x, newer), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK] + x.sent[SNIC_DDP_ACK_P], p == 0  ? 0
                                                                            : paper ? 1
                                                                                    : 2);
            /* The newer one is complete. */
            uint32_t val =
                model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF ? SNIC_DDP_VAL : SNIC_DDP_VAL_C;
            assert_int_equal(one_message(&x, val, 2, newer, 0), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split && paper);
            assert_int_equal(one_get(&x), 0);
            if (model == SNIC_DDP_STRICT)
                assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 2, newer, 0), 0);
            assert_int_equal(p != 0 ? x.sent[p] : 0, p != 0 && paper);
            /* Twice the same INV: acknowledged again, never locked again (H3). */
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, newer, 0), 0);
            assert_int_equal(one_get(&x), 0);
            assert_int_equal(x.sent[SNIC_DDP_ACK_C], split);
            assert_int_equal(p != 0 ? x.sent[p] : 0, p != 0);
            assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
            assert_int_equal(snic_ddp_deadline_ns(x.d), SNIC_NEVER);
            support_guard_free(x.mem);
        }
    }
}

/* A lock that stays is asked about, then the write is done over, with its timestamp (H4). */
static void test_ddp_lock_stays_asks_then_replays(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, ts);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY);
    assert_int_equal(one_tick(&x, 1000000), 0); /* again, to both */
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_VAL], 1);
    assert_int_equal(one_get(&x), 0);
    support_guard_free(x.mem);
}

/* Strict: a VAL_P that was lost is asked for though nothing is locked (H5). */
static void test_ddp_strict_lost_val_p_asked_for(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_STRICT, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, ts, 0), 0);
    assert_int_equal(one_get(&x), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 1, ts, 0), 0);
    assert_int_equal(snic_ddp_deadline_ns(x.d), SNIC_NEVER);
    support_guard_free(x.mem);
}

/* VALs that overtake each other: what is known to be everywhere only grows (H6). */
static void test_ddp_val_reordered_never_lowers(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, snic_ddp_ts(1, 2, 1), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, snic_ddp_ts(1, 4, 2), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 2, snic_ddp_ts(1, 4, 2), 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, snic_ddp_ts(1, 2, 1), 0), 0);
    assert_int_equal(snic_ddp_next(x.d, &cursor, &e), 0);
    assert_int_equal(e.seen[0], snic_ddp_ts(1, 4, 2));
    support_guard_free(x.mem);
}

/* A view drops what a node of another incarnation acknowledged, and asks who has not (H19). */
static void test_ddp_epoch_keeps_acks_of_same_incarnation(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
    x.view.epoch = 2;
    x.view.incarnation[1] = 1;
    x.view.full = 5;
    x.view.learners = 2;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), SNIC_ESTALE); /* its old one */
    x.view.epoch = 3;
    x.view.learners = 0;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1); /* node 2's counts on */
    support_guard_free(x.mem);
}

/*
 * A11's single round is not enough: b is complete and x, concurrent with b and above it, is still
 * on its way here. What compares with b must not succeed.
 */
static void test_ddp_cas_hidden_write_refused(void **state)
{
    (void)state;
    struct world *w = world_new(3, 3, SNIC_DDP_EVENT, 0);
    world_start(w);
    int b = world_op(w, SNIC_DDP_WRITE, 1, 1, 0, 0, NULL);
    int xx = world_op(w, SNIC_DDP_WRITE, 2, 1, 0, 0, NULL);
    uint64_t b_ts = snic_ddp_ts(1, 2, 1);
    for (uint32_t i = 0; i < w->messages;) { /* all but x's INVs */
        if (w->message[i].m.type == SNIC_DDP_INV && w->message[i].m.src == 2)
            i++;
        else {
            (void)world_deliver(w, i, 0);
            i = 0;
        }
    }
    assert_int_equal(w->op[b].state, OP_OK);
    int r = world_op(w, SNIC_DDP_READ, 0, 1, 0, 0, NULL);
    assert_int_equal(w->op[r].ts, b_ts);
    int c = world_op(w, SNIC_DDP_CAS, 0, 1, b_ts, 0, NULL);
    world_settle(w);
    assert_int_equal(w->op[c].result, SNIC_ECANCELED);
    assert_int_equal(w->op[c].content, w->op[xx].content);
    world_check_cas(w);
    world_same(w);
    world_free(w);
}

static void test_ddp_cas_compares(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        struct world *w = world_new(4, 3, model, 0);
        world_start(w);
        int a = world_op(w, SNIC_DDP_CAS, 0, 1, 0, 0, NULL); /* two create it, one wins */
        int b = world_op(w, SNIC_DDP_CAS, 1, 1, 0, 0, NULL);
        world_settle(w);
        assert_true((w->op[a].state == OP_OK) != (w->op[b].state == OP_OK));
        int won = w->op[a].state == OP_OK ? a : b;
        int c = world_op(w, SNIC_DDP_CAS, 2, 1, w->op[won].ts, 0, NULL);
        world_settle(w);
        assert_int_equal(w->op[c].state, OP_OK);
        int e = world_op(w, SNIC_DDP_CAS, 2, 1, w->op[won].ts, 0, NULL);
        world_settle(w);
        assert_int_equal(w->op[e].result, SNIC_ECANCELED);
        assert_int_equal(w->op[e].ts, w->op[c].ts);
        world_same(w);
        world_free(w);
    }
}

/* A deleted key leaves: promises first, then a floor under which nothing comes back (A4). */
static void test_ddp_purge_promises_then_floor(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t old = snic_ddp_ts(1, 2, 2);
    uint64_t gone = snic_ddp_ts(1, 40, 1);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, old, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, gone, SNIC_DDP_MSG_TOMBSTONE), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_ASK, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0); /* locked */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, gone, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_ASK, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0); /* not durable */
    assert_int_equal(one_appended(&x, gone), 0);
    /* A write of another key, numbered below, is in flight. */
    struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(2), .value = 9};
    assert_int_equal(one_step(&x, &ev), 0);
    uint64_t low = x.last[SNIC_DDP_INV].ts;
    assert_true(low < gone);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_ASK, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0);
    for (uint32_t n = 1; n < 3; n++) {
        struct snic_ddp_msg m = x.last[SNIC_DDP_INV];
        struct snic_ddp_event ack = {.type = SNIC_DDP_MESSAGE, .msg = &m};
        m.type = SNIC_DDP_ACK_C;
        m.src = (uint8_t)n;
        m.dst = 0;
        assert_int_equal(one_step(&x, &ack), 0);
    }
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_ASK, 1, gone, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 1);
    /* It promised: no key is numbered below any more. */
    ev.key = world_key(3);
    assert_int_equal(one_step(&x, &ev), 0);
    assert_true(x.last[SNIC_DDP_INV].ts > gone);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, gone, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_FORGET], 1);
    /* A copy of the old write comes late: as if the deletion were still here. */
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, old, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 1);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 1);
    while (snic_ddp_next(x.d, &cursor, &e) == 0)
        assert_true(e.key.w[0] != world_key(1).w[0]);
    support_guard_free(x.mem);
}

/* What a CAS asks is answered by what answers it: an old acknowledgement of b does not. */
static void test_ddp_cas_old_ack_not_counted(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t b = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, b, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, b, 0), 0);
    assert_int_equal(one_client(&x, SNIC_DDP_CAS, b), 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, b);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, b, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, b, SNIC_DDP_MSG_CAS), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1); /* and now it writes, one above */
    assert_int_equal(x.last[SNIC_DDP_INV].ts, snic_ddp_ts(1, 3, 0));
    support_guard_free(x.mem);
}

/* Only its coordinator decides a CAS: another node asks until it may (cas.c, C1). */
static void test_ddp_cas_lock_not_replayed_unasked(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t c = snic_ddp_ts(1, 3, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, c, SNIC_DDP_MSG_CAS), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(one_tick(&x, 10000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    }
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, c, SNIC_DDP_MSG_REPLAY), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_CAS);
    support_guard_free(x.mem);
}

/* A cursor is of one donor's table: with another donor a learner begins again. */
static void test_ddp_learner_other_donor_begins_again(void **state)
{
    (void)state;
    struct one x;
    struct snic_ddp_opts o = one_opts(SNIC_DDP_SYNCH, 0);
    memset(&x, 0, sizeof(x));
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &x.view};
    x.view.epoch = 1;
    x.view.full = 6;
    x.view.learners = 1;
    x.view.donor = 1;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    struct snic_ddp_msg m;
    struct snic_ddp_event end = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULLED;
    m.src = 1;
    m.epoch = 1;
    m.seen[0] = 5;
    assert_int_equal(one_step(&x, &end), 0); /* an empty piece */
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 2; /* the same donor: goes on */
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 3;
    x.view.donor = 2;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    m.src = 2;
    m.epoch = 3;
    assert_int_equal(one_step(&x, &end), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 5);
    x.view.epoch = 4;
    x.view.incarnation[2] = 1; /* the same node with another table */
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.last[SNIC_DDP_PULL].scope, 0);
    x.view.epoch = 5;
    x.view.full = 7;
    x.view.learners = 0;
    assert_int_equal(one_step(&x, &ev), SNIC_EINVAL); /* not before it has all */
    support_guard_free(x.mem);
}

/*
 * A donor whose network carries one value of an answer and drops the others: the learner gets all
 * of them, in as many questions, and holds nobody to be slow.
 */
static void test_ddp_learner_catches_up_value_by_value(void **state)
{
    (void)state;
    enum { KEYS = 100 };
    struct one donor = one_fresh(SNIC_DDP_EVENT, 0, KEYS);
    struct one x = one_fresh(SNIC_DDP_EVENT, 2, KEYS);
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_info info;
    assert_int_equal(one_view(&donor, 1, 0, 0, 0), 0);
    assert_int_equal(one_step(&donor, &lease), 0);
    for (uint32_t k = 0; k < KEYS; k++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(k), .value = k + 1};
        assert_int_equal(one_step(&donor, &ev), 0);
    }
    assert_int_equal(one_view(&donor, 1, 4, 0, 0), 0);
    x.view.epoch = 1;
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    for (uint32_t i = 0; x.did[SNIC_DDP_FLUSH] == 0; i++) {
        struct snic_ddp_msg m = x.last[SNIC_DDP_PULL];
        struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
        struct snic_ddp_action a;
        uint32_t records = 0;
        assert_true(i <= KEYS);
        assert_true(x.sent[SNIC_DDP_PULL] == 1);
        m.dst = 0;
        assert_int_equal(snic_ddp_step(donor.d, donor.now, &ev), 0);
        while (snic_ddp_poll(donor.d, &a) != 0) {
            assert_int_equal(a.type, SNIC_DDP_SEND);
            if (a.msg.type == SNIC_DDP_RECORD && records++ > 0)
                continue;
            m = a.msg;
            m.dst = 2;
            assert_int_equal(one_step(&x, &ev), 0);
            if (x.sent[SNIC_DDP_PULL] != 0)
                break; /* asks for the next piece */
        }
        if (x.sent[SNIC_DDP_PULL] == 0 && x.did[SNIC_DDP_FLUSH] == 0)
            assert_int_equal(one_tick(&x, 1000000), 0);
    }
    assert_int_equal(x.suspects, 0);
    snic_ddp_inspect(x.d, &info);
    assert_int_equal(info.records, KEYS);
    support_guard_free(donor.mem);
    support_guard_free(x.mem);
}

/* Of a piece the donor says first what it has, then sends what the learner lacks. */
static void test_ddp_donor_sends_what_is_missing(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_EVENT, 0, 3);
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_msg m;
    struct snic_ddp_event pull = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    struct snic_ddp_info info;
    assert_int_equal(one_view(&x, 1, 0, 0, 0), 0);
    assert_int_equal(one_step(&x, &lease), 0);
    for (uint32_t k = 0; k < 3; k++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = world_key(k), .value = k + 1};
        assert_int_equal(one_step(&x, &ev), 0);
    }
    assert_int_equal(one_view(&x, 1, 4, 0, 0), 0);
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_PULL;
    m.src = 2;
    m.epoch = 2;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.order, SNIC_DDP_PULLED | SNIC_DDP_RECORD << 8);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 3);
    assert_int_equal(x.last[SNIC_DDP_PULLED].seen[1], 7);
    m.seen[0] = 5;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 1);
    assert_int_equal(x.last[SNIC_DDP_RECORD].index, 1);
    m.scope = 99; /* behind all */
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.sent[SNIC_DDP_RECORD], 0);
    assert_int_equal(x.last[SNIC_DDP_PULLED].seen[0], UINT64_MAX);
    support_guard_free(x.mem);
    /* One that does not serve yet is asked for nothing wrong. */
    x = one_fresh(SNIC_DDP_EVENT, 0, 3);
    assert_int_equal(one_view(&x, 3, 4, 1, 1), 0);
    m.epoch = 1;
    assert_int_equal(one_step(&x, &pull), 0);
    assert_int_equal(x.did[SNIC_DDP_SEND], 0);
    snic_ddp_inspect(x.d, &info);
    assert_int_equal(info.counters.invalid, 0);
    support_guard_free(x.mem);
}

/* SUSPECT is said when the mask changes: by whatever waits, until the last that waits does not. */
static void test_ddp_suspect_whole_mask_each_change(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t a = x.last[SNIC_DDP_INV].ts;
    (void)one_time(&x, 150000000, 0);
    assert_int_equal(x.suspects, 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspects, 1); /* and not again and again */
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, a, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 4);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0); /* another, which node 2 answers */
    uint64_t b = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, b, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, b, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.suspects, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, a, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 0);
    support_guard_free(x.mem);
}

/* A replay answers nobody, and its suspicion ends with it all the same. */
static void test_ddp_suspect_of_replay_withdrawn(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspects, 1);
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.suspects, 3);
    assert_int_equal(x.suspect, 0);
    /* A new epoch: everybody begins anew. */
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    (void)one_time(&x, 400000000, 0);
    assert_int_equal(x.suspect, 6);
    assert_int_equal(one_view(&x, 7, 0, 0, 0), 0);
    assert_int_equal(x.suspect, 0);
    support_guard_free(x.mem);
}

/* A restart takes as long as it takes: slow is who sends nothing. */
static void test_ddp_restart_suspects_silent_only(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, 3);
    assert_int_equal(one_view(&x, 7, 0, 0, 1), 0);
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(one_message(&x, SNIC_DDP_DIGEST, 1, 0, 0), 0);
        (void)one_time(&x, 50000000, 0);
    }
    assert_int_equal(x.suspects, 1);
    assert_int_equal(x.suspect, 4);
    assert_int_equal(one_message(&x, SNIC_DDP_DIGEST, 2, 0, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_SUSPECT], 1);
    assert_int_equal(x.suspect, 0);
    /* Who is done hears, of a node that is not, that it lives. */
    assert_int_equal(one_message(&x, SNIC_DDP_RESTARTED, 1, 0, 0), 0);
    x.to[SNIC_DDP_DIGEST] = 0;
    uint64_t at = snic_ddp_deadline_ns(x.d);
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    struct snic_ddp_action a;
    uint32_t told = 0;
    x.now = at;
    assert_int_equal(snic_ddp_step(x.d, x.now, &ev), 0);
    while (snic_ddp_poll(x.d, &a) != 0)
        told |= a.type == SNIC_DDP_SEND && a.msg.type == SNIC_DDP_DIGEST ? a.to : 0u;
    assert_int_equal(told, 6);
    support_guard_free(x.mem);
}

/* As long as a write's coordinator answers, nobody else does the write over. */
static void test_ddp_live_coordinator_not_replayed(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(one_tick(&x, 10000000), 0);
        assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
        assert_int_equal(x.sent[SNIC_DDP_INV], 0);
        if (i % 2 == 0)
            assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, ts, SNIC_DDP_MSG_LOCKED), 0);
        else
            assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    }
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    /* Not its coordinator's word. */
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 2, ts, SNIC_DDP_MSG_LOCKED), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, ts, SNIC_DDP_MSG_REPLAY), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, SNIC_DDP_MSG_REPLAY);
    support_guard_free(x.mem);
}

/* QUERY of a write that goes on is always answered: by the write to who has not acknowledged. */
static void test_ddp_query_of_live_write_answered(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    (void)one_time(&x, 40000000, 0);
    uint64_t deadline = snic_ddp_deadline_ns(x.d);
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 1, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1);
    assert_int_equal(x.last[SNIC_DDP_QUERY].flags, SNIC_DDP_MSG_LOCKED);
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 2, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.to[SNIC_DDP_INV], 4);
    /* Who asks does not put off when the silent one is sent it again. */
    assert_int_equal(snic_ddp_deadline_ns(x.d), deadline);
    support_guard_free(x.mem);
}

/* What waits for logs only is not sent again at the pace of what may be lost. */
static void test_ddp_logs_waited_for_patiently(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_STRICT; model <= SNIC_DDP_RENF; model++) {
        struct one x = one_new(model, 0);
        assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
        uint64_t ts = x.last[SNIC_DDP_INV].ts;
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
        assert_int_equal(one_time(&x, 5000000, SNIC_DDP_INV), 2);
        assert_int_equal(x.to[SNIC_DDP_INV], 4); /* not who has stored it */
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
        assert_int_equal(one_time(&x, 60000000, SNIC_DDP_INV), 0);
        assert_int_equal(one_time(&x, 10000000, SNIC_DDP_INV), 1); /* ACK_P may be lost */
        assert_int_equal(x.to[SNIC_DDP_INV], 6);
        support_guard_free(x.mem);
    }
}

/* Two nodes let in one new key each where there is room for one: both writes are answered. */
static void test_ddp_last_room_taken_twice(void **state)
{
    (void)state;
    struct world *w = world_new(support_seed(), 2, SNIC_DDP_SYNCH, 0);
    int r = 0;
    w->opts.keys_max = 2;
    for (uint32_t n = 0; n < 2; n++) {
        world_crash(w, n);
        world_boot(w, n);
    }
    world_start(w);
    (void)world_op(w, SNIC_DDP_WRITE, 0, 0, 0, 0, NULL);
    world_settle(w);
    int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, NULL);
    int b = world_op(w, SNIC_DDP_WRITE, 1, 2, 0, 0, NULL);
    assert_true(a >= 0 && b >= 0);
    for (uint32_t i = 0; i < 100 && w->messages > 0; i++)
        (void)world_deliver(w, 0, 0);
    world_settle(w);
    assert_int_equal(w->op[a].state, OP_OK);
    assert_int_equal(w->op[b].state, OP_OK);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(world_op(w, SNIC_DDP_WRITE, n, 3, 0, 0, &r), -1);
        assert_int_equal(r, SNIC_ENOSPC);
    }
    world_same(w);
    world_free(w);
}

/* A view of more nodes than there is room for. */
static void test_ddp_others_max_checked(void **state)
{
    (void)state;
    struct snic_ddp *d = NULL;
    struct snic_ddp_opts o = one_opts(SNIC_DDP_SYNCH, 0);
    size_t all = snic_ddp_memsize(&o);
    o.others_max = 16;
    assert_int_equal(snic_ddp_memsize(&o), 0);
    o.others_max = 1;
    size_t size = snic_ddp_memsize(&o);
    assert_true(size < all);
    void *mem = support_guard_alloc(size, SNIC_DDP_ALIGN);
    struct snic_ddp_view v = {.epoch = 1, .full = 7};
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
    assert_int_equal(snic_ddp_init(&d, mem, size, &o), 0);
    assert_int_equal(snic_ddp_step(d, 0, &ev), SNIC_EINVAL);
    v.full = 3;
    assert_int_equal(snic_ddp_step(d, 0, &ev), 0);
    support_guard_free(mem);
}

/* [PERSIST]sc is answered when every log holds the scope, not before. */
static void test_ddp_scope_sync_durable_everywhere(void **state)
{
    (void)state;
    struct world *w = world_new(5, 3, SNIC_DDP_SCOPE, 0);
    world_start(w);
    int r = 0;
    int u = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, 5, NULL);
    assert_int_equal(w->op[u].result, SNIC_ESTALE);
    assert_int_equal(world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, &r), -1);
    assert_int_equal(r, SNIC_EINVAL);
    int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 5, NULL);
    int s = world_op(w, SNIC_DDP_SYNC, 0, 0, 0, 5, NULL);
    while (w->messages > 0)
        (void)world_deliver(w, 0, 0);
    assert_int_equal(w->op[a].state, OP_OK);
    assert_int_equal(w->op[s].state, OP_OPEN); /* no log has flushed */
    struct snic_ddp_event own = {.type = SNIC_DDP_FLUSHED, .id = w->node[0].flush[0].id};
    w->node[0].flushes = 0;
    assert_int_equal(world_step(w, 0, &own), 0);
    assert_int_equal(w->op[s].state, OP_OPEN); /* the others' have not */
    world_settle(w);
    assert_int_equal(w->op[s].state, OP_OK);
    for (uint32_t n = 0; n < 3; n++)
        assert_true(world_durable(w, n, 1) >= w->op[a].ts);
    world_same(w);
    world_free(w);
}

static int one_scope(struct one *x, uint32_t type, uint32_t src, uint64_t scope, uint32_t round)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.epoch = x->view.epoch;
    m.scope = scope;
    m.index = round;
    return one_step(x, &ev);
}

static int one_flushed(struct one *x, uint32_t id)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_FLUSHED, .id = id};
    return one_step(x, &ev);
}

/*
 * A scope that is used again after SYNC: the flush for a late copy of the first [PERSIST]sc began
 * before the second one's writes came, and must not stand for the second one's.
 */
static void test_ddp_scope_used_again_flushes_again(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_flushed(&x, x.flush), 0);
    assert_int_equal(x.sent[SNIC_DDP_PERSIST_ACK], 1);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0); /* a copy */
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 1), 0); /* and one more */
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 0);
    uint32_t late = x.flush;
    assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST, 1, 7, 2), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_flushed(&x, late), 0);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].index, 1);
    assert_int_equal(one_flushed(&x, x.flush), 0);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].index, 2);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].scope, 7);
    support_guard_free(x.mem);
}

/* The coordinator's side of it: what acknowledges the first SYNC does not count for the second. */
static void test_ddp_scope_used_again_old_ack_not_counted(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    for (uint32_t round = 1; round <= 2; round++) {
        struct snic_ddp_event write = {.type = SNIC_DDP_WRITE, .key = world_key(1), .scope = 7};
        struct snic_ddp_event sync = {.type = SNIC_DDP_SYNC, .scope = 7, .token = 5};
        assert_int_equal(one_step(&x, &write), 0);
        uint64_t ts = x.last[SNIC_DDP_INV].ts;
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
        assert_int_equal(one_step(&x, &sync), 0);
        assert_int_equal(x.last[SNIC_DDP_PERSIST].index, round);
        assert_int_equal(one_flushed(&x, x.flush), 0);
        for (uint32_t n = 1; n <= 2 && round == 2; n++)
            assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST_ACK, n, 7, 1), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], 0);
        for (uint32_t n = 1; n <= 2; n++)
            assert_int_equal(one_scope(&x, SNIC_DDP_PERSIST_ACK, n, 7, round), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    }
    support_guard_free(x.mem);
}

/* Strict, all crash: what was read and not yet durable is gone, as the header says. */
static void test_ddp_strict_read_can_unhappen(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_STRICT; model++) {
        struct world *w = world_new(6, 3, model, 0);
        world_start(w);
        int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, 0, NULL);
        while (w->messages > 0)
            (void)world_deliver(w, 0, 0);
        int r = world_op(w, SNIC_DDP_READ, 2, 1, 0, 0, NULL);
        assert_int_equal(w->op[a].state, OP_OPEN);
        assert_int_equal(w->op[r].state, model == SNIC_DDP_STRICT ? OP_OK : OP_OPEN);
        assert_int_equal(world_durable(w, 2, 1), 0);
        world_free(w);
    }
}

/* A copy of the memory is a node in the same state. */
static void test_ddp_copy_continues_alike(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_STRICT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    struct one y = x;
    y.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    memcpy(y.mem, x.mem, x.size);
    y.d = y.mem;
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    for (uint32_t n = 1; n < 3; n++) {
        assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, n, ts, 0), 0);
        assert_int_equal(one_message(&y, SNIC_DDP_ACK_C, n, ts, 0), 0);
    }
    assert_int_equal(x.sent[SNIC_DDP_VAL_C], 1);
    assert_int_equal(y.sent[SNIC_DDP_VAL_C], 1);
    assert_memory_equal(x.mem, y.mem, x.size);
    support_guard_free(x.mem);
    support_guard_free(y.mem);
}

/* Every model, both modes: a write is answered, read everywhere, and nothing is left behind. */
static void test_ddp_three_nodes_write_read_everywhere(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct world *w = world_new(1, 3, model, flags);
            uint64_t scope = model == SNIC_DDP_SCOPE ? 9 : 0;
            world_start(w);
            int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, scope, NULL);
            int b = world_op(w, SNIC_DDP_WRITE, 2, 1, 0, scope, NULL);
            assert_true(a >= 0 && b >= 0);
            world_settle(w);
            assert_int_equal(w->op[a].state, OP_OK);
            for (uint32_t n = 0; n < 3; n++) {
                int r = world_op(w, SNIC_DDP_READ, n, 1, 0, 0, NULL);
                assert_int_equal(w->op[r].state, OP_OK);
                assert_int_equal(w->op[r].content, w->op[b].content);
                r = world_op(w, SNIC_DDP_READ, n, 2, 0, 0, NULL);
                assert_int_equal(w->op[r].result, SNIC_ENOENT);
            }
            world_same(w);
            world_free(w);
        }
    }
}

/* Others are in order and serve when a new epoch finds this node still waiting to hear so: no
 * digests come any more (H18). It must not wait for them for ever. */
static void test_ddp_restart_epoch_after_others_done(void **state)
{
    (void)state;
    struct world *w = world_new(support_seed(), 3, SNIC_DDP_SYNCH, 0);
    struct snic_ddp_info info;
    world_view(w, 7, 0, 0, 1);
    world_tell_all(w);
    for (uint32_t served = 0; served < 2;) { /* what tells node 2 that others are done is lost */
        assert_true(w->messages > 0);
        const struct snic_ddp_msg *m = &w->message[0].m;
        if (m->type == SNIC_DDP_RESTARTED && m->dst == 2)
            world_drop(w, 0);
        else
            (void)world_deliver(w, 0, 0);
        served = 0;
        for (uint32_t n = 0; n < 2; n++) {
            snic_ddp_inspect(w->node[n].d, &info);
            served += info.serves;
        }
    }
    while (w->messages > 0)
        world_drop(w, 0);
    world_view(w, 7, 0, 0, 0);
    world_tell_all(w);
    world_settle(w);
    snic_ddp_inspect(w->node[2].d, &info);
    assert_int_equal(info.serves, 1);
    world_same(w);
    world_free(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_init_options_checked),
        cmocka_unit_test(test_ddp_refused_event_changes_nothing),
        cmocka_unit_test(test_ddp_full_or_fenced_refused),
        cmocka_unit_test(test_ddp_versions_used_up_asks_for_epoch),
        cmocka_unit_test(test_ddp_coordinator_each_model_table),
        cmocka_unit_test(test_ddp_follower_each_model_table),
        cmocka_unit_test(test_ddp_lock_stays_asks_then_replays),
        cmocka_unit_test(test_ddp_strict_lost_val_p_asked_for),
        cmocka_unit_test(test_ddp_val_reordered_never_lowers),
        cmocka_unit_test(test_ddp_epoch_keeps_acks_of_same_incarnation),
        cmocka_unit_test(test_ddp_cas_hidden_write_refused),
        cmocka_unit_test(test_ddp_cas_compares),
        cmocka_unit_test(test_ddp_purge_promises_then_floor),
        cmocka_unit_test(test_ddp_cas_old_ack_not_counted),
        cmocka_unit_test(test_ddp_cas_lock_not_replayed_unasked),
        cmocka_unit_test(test_ddp_learner_other_donor_begins_again),
        cmocka_unit_test(test_ddp_learner_catches_up_value_by_value),
        cmocka_unit_test(test_ddp_donor_sends_what_is_missing),
        cmocka_unit_test(test_ddp_suspect_whole_mask_each_change),
        cmocka_unit_test(test_ddp_suspect_of_replay_withdrawn),
        cmocka_unit_test(test_ddp_restart_suspects_silent_only),
        cmocka_unit_test(test_ddp_live_coordinator_not_replayed),
        cmocka_unit_test(test_ddp_query_of_live_write_answered),
        cmocka_unit_test(test_ddp_logs_waited_for_patiently),
        cmocka_unit_test(test_ddp_last_room_taken_twice),
        cmocka_unit_test(test_ddp_others_max_checked),
        cmocka_unit_test(test_ddp_scope_sync_durable_everywhere),
        cmocka_unit_test(test_ddp_scope_used_again_flushes_again),
        cmocka_unit_test(test_ddp_scope_used_again_old_ack_not_counted),
        cmocka_unit_test(test_ddp_strict_read_can_unhappen),
        cmocka_unit_test(test_ddp_copy_continues_alike),
        cmocka_unit_test(test_ddp_restart_epoch_after_others_done),
        cmocka_unit_test(test_ddp_three_nodes_write_read_everywhere),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
