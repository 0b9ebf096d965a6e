/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What hardly ever happens to the replication engine: what makes no sense, rooms that are full,
 * pieces of work longer than the ring of actions, things that come late or twice.
 */
#include "test_ddp_one.h"

#include "ddp/ddp_priv.h"
#include "support.h"

#include <stdlib.h>

/* An engine of node 0 with so much room. */
static struct one roomy(uint32_t model, uint32_t flags, uint32_t keys, uint32_t pool)
{
    struct one x;
    struct snic_ddp_opts o = one_opts(model, flags);
    memset(&x, 0, sizeof(x));
    o.keys_max = keys;
    o.writes_max = o.waits_max = pool;
    o.scopes_max = pool / 2;
    x.size = snic_ddp_memsize(&o);
    x.mem = support_guard_alloc(x.size, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&x.d, x.mem, x.size, &o), 0);
    return x;
}

static void lease(struct one *x)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    assert_int_equal(one_step(x, &ev), 0);
}

static int deliver(struct one *x, const struct snic_ddp_msg *m)
{
    struct snic_ddp_msg with = *m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &with};
    with.epoch = x->view.epoch;
    return one_step(x, &ev);
}
#define DELIVER(x, ...) deliver((x), &(const struct snic_ddp_msg){__VA_ARGS__})
#define STEP(x, ...) one_step((x), &(const struct snic_ddp_event){__VA_ARGS__})

static uint32_t holds(const struct one *x)
{
    struct snic_ddp_stats info;
    snic_ddp_get_stats(x->d, &info);
    return info.records;
}

static unsigned char first[65536];

static size_t look(const struct one *x)
{
    size_t n = snic_ddp_canon(x->d, NULL, 0, first, sizeof(first));
    assert_true(n <= sizeof(first));
    return n;
}

static void same(const struct one *x, size_t n)
{
    static unsigned char after[sizeof(first)];
    memset(after, 0xee, 16);
    assert_int_equal(snic_ddp_canon(x->d, NULL, 0, after, 8), n); /* of which no more is written */
    assert_int_equal(after[8], 0xee);
    assert_int_equal(snic_ddp_canon(x->d, NULL, 0, after, sizeof(after)), n);
    assert_memory_equal(first, after, n);
}

/* Refused, and nothing has changed. */
#define REFUSED(x, call, expected)                                                                 \
    do {                                                                                           \
        size_t bytes_ = look(x);                                                                   \
        assert_int_equal((call), (expected));                                                      \
        same((x), bytes_);                                                                         \
    } while (0)

static void test_ddp_options_and_memory_bounds(void **state)
{
    struct snic_ddp_opts o;
    struct snic_ddp *d = NULL;
    (void)state;
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        o = one_opts(SNIC_DDP_SCOPE, 0);                                                           \
        o.field = (value);                                                                         \
        assert_int_equal(snic_ddp_memsize(&o), 0);                                                 \
        support_names(snic_ddp_opts_wrong(&o), #field);                                            \
    } while (0)
    BAD(keys_max, (UINT32_C(1) << 28) + 1);
    BAD(writes_max, (UINT32_C(1) << 20) + 1);
    BAD(waits_max, (UINT32_C(1) << 20) + 1);
    BAD(reads_max, (UINT32_C(1) << 20) + 1);
    BAD(scopes_max, (UINT32_C(1) << 16) + 1);
    BAD(retransmit_ns, (UINT64_C(1) << 50) + 1);
    BAD(replay_ns, (UINT64_C(1) << 50) + 1);
    BAD(model, SNIC_DDP_SCOPE + 1);
    BAD(node, SNIC_DDP_NODES_MAX);
    BAD(others_max, SNIC_DDP_NODES_MAX);
    BAD(flags, 8);
    BAD(opts_size, 3);
#undef BAD
    o = one_opts(SNIC_DDP_SYNCH, 0);
    assert_null(snic_ddp_opts_wrong(&o));
    size_t size = snic_ddp_memsize(&o);
    unsigned char *mem = support_guard_alloc(size + SNIC_DDP_ALIGN, SNIC_DDP_ALIGN);
    assert_int_equal(snic_ddp_init(&d, mem + 8, size, &o), SNIC_EINVAL);
    assert_int_equal(snic_ddp_init(&d, NULL, size, &o), SNIC_ENOSPC);
    assert_null(d);
    support_guard_free(mem);
}

/* Views that no membership decides. */
static void test_ddp_views_without_sense_refused(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, 3);
    struct snic_ddp_view v = {.epoch = 1, .full = 6, .learners = 1, .donor = 1};
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH};
    REFUSED(&x, one_step(&x, &ev), SNIC_EINVAL);
    ev.view = &v;
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        struct snic_ddp_view right = v;                                                            \
        v.field = (value);                                                                         \
        REFUSED(&x, one_step(&x, &ev), SNIC_EINVAL);                                               \
        v = right;                                                                                 \
    } while (0)
    BAD(epoch, SNIC_DDP_EPOCH_MAX + 1);
    BAD(full, 7);   /* a learner, too */
    BAD(donor, 16); /* no node, */
    BAD(donor, 0);  /* itself, */
    BAD(restart, 1);
    assert_int_equal(one_step(&x, &ev), 0);
    v.epoch = 2;
    BAD(incarnation[0], 1); /* a new life, in an engine of the old one */
    BAD(full, 7);
    v.full = 7;
    v.learners = 0;
    REFUSED(&x, one_step(&x, &ev), SNIC_EINVAL); /* has not caught up */
    support_guard_free(x.mem);

    x = one_new(SNIC_DDP_SYNCH, 0);
    v = x.view;
    v.epoch = 2;
    BAD(incarnation[0], 1);
    v.full = 6;
    v.learners = 1;
    v.donor = 1;
    REFUSED(&x, one_step(&x, &ev), SNIC_EINVAL); /* FULL, and again a learner */
    support_guard_free(x.mem);

    x = one_fresh(SNIC_DDP_SYNCH, 0, 3); /* a log of epoch 5 */
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_LOADED, .ts = 0), SNIC_EINVAL);
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_LOADED, .ts = 9, .flags = SNIC_DDP_MSG_CAS), SNIC_EINVAL);
    assert_int_equal(STEP(&x, .type = SNIC_DDP_LOADED, .ts = snic_ddp_ts(5, 2, 1)), 0);
    v = (struct snic_ddp_view){.epoch = 5, .full = 3, .restart = 1};
    REFUSED(&x, one_step(&x, &ev), SNIC_EINVAL);
    v.epoch = 6;
    BAD(restart, 0);
    assert_int_equal(one_step(&x, &ev), 0);
    v.restart = 0;
    v.epoch = SNIC_DDP_EPOCH_MAX; /* the last there can be */
    assert_int_equal(one_step(&x, &ev), 0);
    BAD(epoch, SNIC_DDP_EPOCH_MAX + 1);
    BAD(epoch, 10 * SNIC_DDP_EPOCH_MAX);
#undef BAD
    support_guard_free(x.mem);
}

static void test_ddp_messages_without_sense_refused(void **state)
{
    (void)state;
    uint64_t ts = snic_ddp_ts(1, 2, 1), later = snic_ddp_ts(9, 2, 1);
    const uint8_t cas = SNIC_DDP_MSG_CAS;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_MESSAGE), SNIC_EINVAL);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .ts = ts, .dst = 2), SNIC_ESTALE);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .ts = ts, .dst_incarnation = 1),
            SNIC_ESTALE);
    REFUSED(&x,
            DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .ts = ts, .flags = cas, .seen = {later}),
            SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_VAL, .src = 1), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_QUERY, .src = 1), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_NACK, .src = 1, .ts = ts, .seen = {ts}), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_NACK, .src = 1, .ts = ts, .seen = {later}),
            SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PERSIST, .src = 1, .scope = 0), SNIC_EPROTO);
    /* An INV without its value is of no CAS, and is marked as having none. */
    const uint8_t probe = SNIC_DDP_MSG_LOCKED, none = SNIC_DDP_MSG_TOMBSTONE;
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .ts = ts, .flags = probe), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .ts = ts, .flags = probe | none | cas),
            SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_DIGEST, .src = 1, .index = 64), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PURGE, .src = 1), SNIC_EPROTO);
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_CAS, .flags = cas), SNIC_EINVAL);
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_FLUSHED, .id = 0), SNIC_EINVAL);
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_FIRE, .id = 0), SNIC_EINVAL); /* not armed */
    /* Node 2 is a learner: it coordinates nothing, and is queried for nothing. */
    assert_int_equal(one_view(&x, 3, 4, 1, 0), 0);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_INV, .src = 2, .ts = snic_ddp_ts(2, 2, 2)),
            SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_DIGEST, .src = 2), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PURGE, .src = 2, .ts = ts), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PURGE, .src = 1, .ts = ts), SNIC_EPROTO);
    support_guard_free(x.mem);

    x = one_new(SNIC_DDP_SCOPE, 0);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PERSIST, .src = 1), SNIC_EPROTO);
    REFUSED(&x, one_client(&x, SNIC_DDP_SYNC, 0), SNIC_EINVAL);
    support_guard_free(x.mem);
}

static void test_ddp_records_without_sense_refused(void **state)
{
    (void)state;
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, 3);
    assert_int_equal(one_view(&x, 6, 1, 1, 0), 0);
    uint8_t record = SNIC_DDP_RECORD, locked = SNIC_DDP_MSG_LOCKED;
    REFUSED(&x, DELIVER(&x, .type = record, .src = 1), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = record, .src = 1, .ts = ts, .seen = {ts + 1}), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = record, .src = 1, .ts = ts, .seen = {0, ts + 1}), SNIC_EPROTO);
    REFUSED(
        &x,
        DELIVER(&x, .type = SNIC_DDP_OFFER, .src = 1, .ts = ts, .flags = SNIC_DDP_MSG_TOMBSTONE),
        SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = record, .src = 1, .ts = ts, .seen = {ts}, .flags = locked),
            SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = record, .src = 2, .ts = ts), SNIC_EPROTO); /* not the donor */
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PULLED, .src = 1, .seen = {0, 5}), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PULLED, .src = 1, .seen = {0, 0x201}), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PURGE, .src = 1, .ts = ts), SNIC_EPROTO);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_DIGEST, .src = 1), SNIC_EPROTO);
    /* In REnf a lock outlasts gV. */
    support_guard_free(x.mem);
    x = one_fresh(SNIC_DDP_RENF, 0, 3);
    assert_int_equal(one_view(&x, 6, 1, 1, 0), 0);
    assert_int_equal(
        DELIVER(&x, .type = record, .src = 1, .ts = ts, .seen = {ts}, .flags = SNIC_DDP_MSG_LOCKED),
        0);
    support_guard_free(x.mem);
}

/* No room for a record: INV and RECORD count as lost, and change nothing. */
static void test_ddp_table_full_messages_lost(void **state)
{
    (void)state;
    for (uint32_t learns = 0; learns < 2; learns++) {
        struct one x = one_fresh(SNIC_DDP_EVENT, 0, 3);
        assert_int_equal(one_view(&x, learns ? 6 : 7, learns ? 1 : 0, 1, 0), 0);
        uint32_t most = 3 + 15 * 4;
        uint64_t ts = snic_ddp_ts(1, 2, 1);
        for (uint64_t k = 1; k <= most; k++)
            assert_int_equal(
                DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .key = {{k, 0}}, .ts = ts, .value = k),
                0);
        REFUSED(&x,
                DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .key = {{99, 0}}, .ts = ts, .value = 9),
                SNIC_EAGAIN);
        if (learns)
            REFUSED(&x,
                    DELIVER(&x, .type = SNIC_DDP_RECORD, .src = 1, .key = {{99, 0}}, .ts = ts,
                            .value = 9),
                    SNIC_EAGAIN);
        assert_int_equal(holds(&x), most);
        support_guard_free(x.mem);
    }
    /* No place among the waits: neither for a new key nor for [PERSIST]sc. */
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    for (uint64_t k = 1; k <= 4; k++)
        assert_int_equal(DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .key = {{k, 0}},
                                 .ts = snic_ddp_ts(1, 2, 1), .value = k),
                         0);
    REFUSED(
        &x,
        DELIVER(&x, .type = SNIC_DDP_INV, .src = 2, .key = {{9, 0}}, .ts = snic_ddp_ts(1, 2, 2)),
        SNIC_EAGAIN);
    support_guard_free(x.mem);
    x = one_new(SNIC_DDP_SCOPE, 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(DELIVER(&x, .type = SNIC_DDP_PERSIST, .src = 1, .scope = 5, .index = i),
                         0);
    REFUSED(&x, DELIVER(&x, .type = SNIC_DDP_PERSIST, .src = 1, .scope = 5, .index = 4),
            SNIC_EAGAIN);
    support_guard_free(x.mem);
}

/* Acknowledges what was asked for last, of both others. */
static void acknowledge(struct one *x, uint8_t type)
{
    struct snic_ddp_msg m = x->last[SNIC_DDP_INV];
    m.type = type;
    m.flags &= SNIC_DDP_MSG_CAS;
    for (uint8_t n = 1; n < 3; n++) {
        m.src = n;
        m.dst = 0;
        assert_int_equal(deliver(x, &m), 0);
    }
}

static int cas(struct one *x, uint64_t ts, uint32_t flags)
{
    return STEP(x, .type = SNIC_DDP_CAS, .key = world_key(1), .token = 7, .ts = ts, .flags = flags,
                .value = (flags & SNIC_DDP_MSG_TOMBSTONE) == 0 ? 1234 : 0);
}

/* A CAS may delete: both rounds, and its answer when it lost. */
static void test_ddp_cas_deletes(void **state)
{
    (void)state;
    const uint32_t tombstone = SNIC_DDP_MSG_TOMBSTONE;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(one_client(&x, SNIC_DDP_WRITE, 0), 0);
    uint64_t a = x.last[SNIC_DDP_INV].ts;
    acknowledge(&x, SNIC_DDP_ACK_C);
    assert_int_equal(one_get(&x), 0);
    /* Compares with something else: nothing to give back, the value comes with it. */
    assert_int_equal(cas(&x, a + 1, tombstone), 0);
    assert_int_equal(x.done.result, SNIC_ECANCELED);
    assert_int_equal(x.done.msg.ts, a);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 0);
    /* The first half asks about a itself, which is no tombstone. */
    assert_int_equal(cas(&x, a, tombstone), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, a);
    assert_int_equal(x.last[SNIC_DDP_INV].flags & tombstone, 0);
    acknowledge(&x, SNIC_DDP_ACK_C);
    uint64_t b = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(b, snic_ddp_ts(1, 3, 0));
    assert_int_equal(x.last[SNIC_DDP_INV].flags, tombstone | SNIC_DDP_MSG_CAS);
    /* Locked: one that compares with a hears it when that is decided. */
    assert_int_equal(cas(&x, a, tombstone), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    x.last[SNIC_DDP_INV].ts = b;
    x.last[SNIC_DDP_INV].flags = SNIC_DDP_MSG_CAS;
    acknowledge(&x, SNIC_DDP_ACK_C);
    assert_int_equal(x.did[SNIC_DDP_DONE], 2);
    assert_int_equal(one_get(&x), SNIC_ENOENT);
    /* Only if absent: it is, so this deletes what is not there, and that is no error. */
    assert_int_equal(cas(&x, 0, tombstone), 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, b);
    support_guard_free(x.mem);
}

/* While a CAS asks, the last version is used up: it did not happen, and a new epoch is wanted. */
static void test_ddp_cas_without_version_gives_up(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t top = snic_ddp_ts(1, SNIC_DDP_VERSION_MAX, 1);
    const uint8_t creates = SNIC_DDP_MSG_CAS | SNIC_DDP_MSG_REPLAY | SNIC_DDP_MSG_TOMBSTONE;
    assert_int_equal(cas(&x, 0, 0), 0);
    /* Another's CAS of another key, which may be numbered that high. */
    assert_int_equal(DELIVER(&x, .type = SNIC_DDP_INV, .src = 1, .key = {{50, 0}}, .flags = creates,
                             .seen = {top}),
                     0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 1);
    struct snic_ddp_msg m = {
        .type = SNIC_DDP_ACK_C, .flags = SNIC_DDP_MSG_CAS, .key = world_key(1)};
    for (uint8_t n = 1; n < 3; n++) {
        m.src = n;
        assert_int_equal(deliver(&x, &m), 0);
    }
    assert_int_equal(x.sent[SNIC_DDP_INV], 1); /* others have to number above that first */
    assert_int_equal(x.last[SNIC_DDP_INV].seen[0], top);
    m.seen[0] = top;
    for (uint8_t n = 1; n < 3; n++) {
        m.src = n;
        assert_int_equal(deliver(&x, &m), 0);
    }
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.result, SNIC_EAGAIN);
    assert_int_equal(x.did[SNIC_DDP_NEED_EPOCH], 1);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 1); /* its value */
    assert_int_equal(holds(&x), 0);
    support_guard_free(x.mem);
}

/*
 * A CAS that compared with what the key does not hold waits for the unlock beside the write that
 * locks. Overtaken, that write's value goes to the write, and the CAS's own stays the CAS's.
 */
static void test_ddp_cas_lost_keeps_own_value(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t a = snic_ddp_ts(1, 2, 1), b = snic_ddp_ts(1, 4, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, a, 0), 0);
    assert_int_equal(cas(&x, 0, 0), 0); /* there is something */
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, b, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 1); /* a's, which nothing here needs */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 2, b, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 1); /* its own, 1234 */
    assert_int_equal(x.done.result, SNIC_ECANCELED);
    assert_int_equal(x.done.msg.ts, b);
    support_guard_free(x.mem);
}

/* Two keys of one hash are two keys. */
static void test_ddp_keys_of_one_hash_apart(void **state)
{
    (void)state;
    enum { SLOTS = 1 << 20 };
    for (uint32_t form = 0; form < 2; form++) { /* either half of the key differs, or both */
        uint32_t *seen = calloc(SLOTS, sizeof(*seen));
        struct snic_ddp_key one = {{0, 0}}, two = {{0, 0}};
        assert_non_null(seen);
        for (uint32_t i = 1; i < SLOTS && two.w[1] == 0; i++) {
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
        assert_true(two.w[1] != 0 && one.w[1] != two.w[1]);
        struct one x = one_fresh(SNIC_DDP_EVENT, 0, 3);
        struct snic_ddp_entry e;
        assert_int_equal(one_view(&x, 1, 0, 0, 0), 0);
        lease(&x);
        assert_int_equal(STEP(&x, .type = SNIC_DDP_WRITE, .key = one, .value = 1), 0);
        assert_int_equal(snic_ddp_get(x.d, x.now, &two, &e), SNIC_ENOENT);
        assert_int_equal(STEP(&x, .type = SNIC_DDP_WRITE, .key = two, .value = 2), 0);
        assert_int_equal(snic_ddp_get(x.d, x.now, &one, &e), 0);
        assert_int_equal(e.value, 1);
        assert_int_equal(snic_ddp_get(x.d, x.now, &two, &e), 0);
        assert_int_equal(e.value, 2);
        assert_int_equal(holds(&x), 2);
        support_guard_free(x.mem);
    }
}

/* More acknowledgements become due at once than the ring holds. */
static void test_ddp_many_acks_due_all_sent(void **state)
{
    (void)state;
    struct one x = roomy(SNIC_DDP_STRICT, SNIC_DDP_PAPER, 3, 64);
    uint64_t top = snic_ddp_ts(1, 100, 1);
    assert_int_equal(one_view(&x, 0xffff, 0, 0, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, top, 0), 0);
    for (uint32_t n = 2; n < 16; n++) {
        for (uint64_t v = 2; v < 6; v += 2)
            assert_int_equal(one_message(&x, SNIC_DDP_INV, n, snic_ddp_ts(1, v, n), 0), 0);
    }
    assert_int_equal(one_appended(&x, top), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_P], 1); /* node 1's */
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, top, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 28);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 1, top, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_P], 28);
    struct snic_ddp_stats info;
    snic_ddp_get_stats(x.d, &info);
    assert_int_equal(info.waits, 0);
    support_guard_free(x.mem);
}

/* More scopes than the ring holds are queried again in a new epoch. */
static void test_ddp_many_scopes_all_sent_again(void **state)
{
    (void)state;
    enum { SCOPES = 32 };
    struct one x = roomy(SNIC_DDP_SCOPE, 0, SCOPES, 2 * SCOPES + 2);
    assert_int_equal(one_view(&x, 7, 0, 0, 0), 0);
    lease(&x);
    for (uint64_t s = 1; s <= SCOPES; s++) {
        assert_int_equal(STEP(&x, .type = SNIC_DDP_WRITE, .key = {{s, 0}}, .value = s, .scope = s),
                         0);
        acknowledge(&x, SNIC_DDP_ACK_C);
        /* An acknowledgement of an earlier use, before this one's request: not counted. */
        assert_int_equal(DELIVER(&x, .type = SNIC_DDP_PERSIST_ACK, .src = 1, .scope = s), 0);
        assert_int_equal(STEP(&x, .type = SNIC_DDP_SYNC, .scope = s, .token = s), 0);
        assert_int_equal(x.sent[SNIC_DDP_PERSIST], 1);
        REFUSED(&x, STEP(&x, .type = SNIC_DDP_SYNC, .scope = s, .token = 99), SNIC_EAGAIN);
    }
    assert_int_equal(one_view(&x, 3, 0, 0, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PERSIST], SCOPES);
    /* Left out: each is answered, and its number stays until FLUSHED, whatever comes. */
    assert_int_equal(one_view(&x, 6, 0, 0, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], SCOPES);
    assert_int_equal(x.done.result, SNIC_EUNKNOWN);
    assert_int_equal(one_view(&x, 2, 0, 0, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    struct snic_ddp_stats info;
    for (uint32_t i = 0; i < SCOPES; i++) {
        snic_ddp_get_stats(x.d, &info);
        assert_int_equal(info.scopes, SCOPES - i);
        assert_int_equal(STEP(&x, .type = SNIC_DDP_FLUSHED, .id = SNIC_DDP__ID_SCOPE | i), 0);
        REFUSED(&x, STEP(&x, .type = SNIC_DDP_FLUSHED, .id = SNIC_DDP__ID_SCOPE | i), SNIC_EINVAL);
    }
    REFUSED(&x, STEP(&x, .type = SNIC_DDP_FLUSHED, .id = SNIC_DDP__ID_SCOPE | 999), SNIC_EINVAL);
    support_guard_free(x.mem);
}

/* What comes late: a flush of a learner that was left out, a record's end without a waiter. */
static void test_ddp_late_completions_change_nothing(void **state)
{
    (void)state;
    struct one x = one_fresh(SNIC_DDP_SYNCH, 0, 3);
    assert_int_equal(one_view(&x, 6, 1, 1, 0), 0);
    struct snic_ddp_msg pull = x.last[SNIC_DDP_PULL];
    struct snic_ddp_key name = {{0, ddp_pull_name(&pull)}};
    assert_int_equal(DELIVER(&x, .type = SNIC_DDP_PULLED, .src = 1, .scope = pull.scope,
                             .key = name, .seen = {0, 0x0f04}),
                     0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_view(&x, 6, 0, 0, 0), 0);
    assert_int_equal(STEP(&x, .type = SNIC_DDP_FLUSHED, .id = x.flush), 0);
    assert_int_equal(x.did[SNIC_DDP_CAUGHT_UP], 0);
    support_guard_free(x.mem);

    x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    REFUSED(&x, one_appended(&x, ts + 1), 0); /* of an incarnation of this key that is gone */
    assert_int_equal(x.did[SNIC_DDP_SEND], 0);
    struct snic_ddp_timer t[2];
    memset(t, 0, sizeof(t));
    assert_int_equal(snic_ddp_timers(x.d, t, 0), 1);
    assert_int_equal(t[0].kind, 0);
    assert_int_equal(snic_ddp_timers(x.d, t, 2), 1);
    assert_int_equal(t[0].kind, SNIC_DDP_TIMER_LOCK);
    support_guard_free(x.mem);
}

/* Only its coordinator, once, may permit the end of a CAS's lock. */
static void test_ddp_cas_permit_from_owner_only(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    const uint8_t permit = SNIC_DDP_MSG_REPLAY;
    struct snic_ddp_key key = world_key(1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, SNIC_DDP_MSG_CAS), 0);
    uint64_t before = snic_ddp_deadline_ns(x.d);
    x.now++;
    assert_int_equal(
        DELIVER(&x, .type = SNIC_DDP_QUERY, .src = 2, .key = key, .ts = ts, .flags = permit), 0);
    assert_int_equal(snic_ddp_deadline_ns(x.d), before);
    assert_int_equal(
        DELIVER(&x, .type = SNIC_DDP_QUERY, .src = 1, .key = key, .ts = ts, .flags = permit), 0);
    assert_int_equal(snic_ddp_deadline_ns(x.d), before + 1);
    x.now++;
    assert_int_equal(
        DELIVER(&x, .type = SNIC_DDP_QUERY, .src = 1, .key = key, .ts = ts, .flags = permit), 0);
    assert_int_equal(snic_ddp_deadline_ns(x.d), before + 1); /* asked for again, not put off */
    assert_int_equal(one_tick(&x, before), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1); /* the replay */
    support_guard_free(x.mem);
}

/* Only a node that has it as a complete, durable tombstone purges a key. */
static void test_ddp_purge_of_what_is_not_deleted_refused(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_STRICT, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    const uint8_t tombstone = SNIC_DDP_MSG_TOMBSTONE;
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, ts, 0), 0); /* a value */
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, ts, 0), 0);
    assert_int_equal(holds(&x), 1);
    ts = snic_ddp_ts(1, 4, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, tombstone), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, ts, 0), 0); /* locked */
    assert_int_equal(holds(&x), 1);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, ts, 0), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, ts, 0), 0); /* ACK_P is still owed */
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK] + x.did[SNIC_DDP_FORGET], 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_P], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_P, 1, ts, 0), 0);
    /* This node, the lowest, asks; an acknowledgement of another key's is none. */
    while (x.sent[SNIC_DDP_PURGE_REQUEST] == 0)
        assert_int_equal(one_tick(&x, snic_ddp_deadline_ns(x.d) - x.now), 0);
    struct snic_ddp_msg m = x.last[SNIC_DDP_PURGE_REQUEST];
    m.type = SNIC_DDP_PURGE_ACK;
    for (uint8_t n = 1; n < 3; n++) {
        m.src = n;
        m.key.w[1] ^= 1;
        assert_int_equal(deliver(&x, &m), 0);
        m.key.w[1] ^= 1;
        assert_int_equal(holds(&x), 1);
        assert_int_equal(deliver(&x, &m), 0);
    }
    assert_int_equal(x.sent[SNIC_DDP_PURGE], 1);
    assert_int_equal(holds(&x), 0);
    support_guard_free(x.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_options_and_memory_bounds),
        cmocka_unit_test(test_ddp_views_without_sense_refused),
        cmocka_unit_test(test_ddp_messages_without_sense_refused),
        cmocka_unit_test(test_ddp_records_without_sense_refused),
        cmocka_unit_test(test_ddp_table_full_messages_lost),
        cmocka_unit_test(test_ddp_cas_deletes),
        cmocka_unit_test(test_ddp_cas_without_version_gives_up),
        cmocka_unit_test(test_ddp_cas_lost_keeps_own_value),
        cmocka_unit_test(test_ddp_keys_of_one_hash_apart),
        cmocka_unit_test(test_ddp_many_acks_due_all_sent),
        cmocka_unit_test(test_ddp_many_scopes_all_sent_again),
        cmocka_unit_test(test_ddp_late_completions_change_nothing),
        cmocka_unit_test(test_ddp_cas_permit_from_owner_only),
        cmocka_unit_test(test_ddp_purge_of_what_is_not_deleted_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
