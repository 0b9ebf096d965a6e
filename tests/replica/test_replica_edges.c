/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One node without its cluster: options, operations that are refused, what is looked at without
 * asking, a stop at any time, what happens seldom, and its check, broken in each way.
 */
#include "test_replica_alone.h"

#include "support.h"

#include <string.h>

static void test_replica_edges_options_checked(void **state)
{
    struct snic_replica_opts o;
    struct snic_replica *r = NULL;
    (void)state;
    doors(1);
    size_t size = snic_replica_memsize(&fix.o);
    unsigned char *mem = support_guard_alloc(size + 8, SNIC_REPLICA_ALIGN);
    assert_null(snic_replica_opts_wrong(&fix.o));
#define BAD(field, value) NAMED(field, value, #field)
#define NAMED(field, value, name)                                                                  \
    do {                                                                                           \
        o = fix.o;                                                                                 \
        o.field = (value);                                                                         \
        support_names(snic_replica_opts_wrong(&o), name);                                          \
        assert_int_equal(snic_replica_memsize(&o), 0);                                             \
        assert_int_equal(snic_replica_init(&r, mem, size, &o), SNIC_EINVAL);                       \
    } while (0)
    BAD(opts_size, 3);
    BAD(flags, 2);
    BAD(loop, NULL);
    BAD(net, NULL);
    BAD(log, NULL);
    BAD(addrs, NULL);
    BAD(net, fix.net[1]); /* on another loop */
    NAMED(loop, fix.loop[1], "net");
    BAD(ddp_flags, 4);
    BAD(value_max, SNIC_REPLICA_VALUE_MAX + 1);
    BAD(values_bytes, (UINT64_C(1) << 36) + 1);
    BAD(values_bytes, 3999);
    BAD(appends_max, 1u << 25);
    BAD(appends_max, 4097);
    BAD(appends_max, 256); /* with 256 writes at a time */
    BAD(writes_max, (1u << 20) + 1);
    BAD(waits_max, (1u << 20) + 1);
    BAD(reads_max, (1u << 20) + 1);
    BAD(scopes_max, (1u << 16) + 1);
    BAD(retransmit_ns, (UINT64_C(1) << 50) + 1);
    BAD(replay_ns, (UINT64_C(1) << 50) + 1);
    BAD(min_full, 17);
    BAD(pad, 1);
    BAD(nodes_max, 17);
    BAD(background_ns, (UINT64_C(1) << 40) + 1);
    BAD(keys_max, 0);
    BAD(node, 1); /* none of the configured ones */
    NAMED(wal.flags, 64, "wal");
    o = fix.o;
    struct snic_io other = *fix.io;
    other.loop = fix.loop[1];
    o.log = &other;
    assert_int_equal(snic_replica_memsize(&o), 0);
    struct snic_net streams = *fix.net[0];
    streams.caps = SNIC_NET_CAP_STREAM;
    BAD(net, &streams);
#undef NAMED
#undef BAD
    o = fix.o;
    o.configured = 3;
    o.nodes_max = 1;
    support_names(snic_replica_opts_wrong(&o), "nodes_max");
    o = fix.o;
    o.keys_max = 0;
    assert_int_equal(snic_replica_records(&o), 0);
    support_guard_free(mem);
    finish();
}

static void test_replica_edges_memory_and_address_checked(void **state)
{
    struct snic_replica *r = NULL;
    (void)state;
    doors(1);
    size_t size = snic_replica_memsize(&fix.o);
    unsigned char *mem = support_guard_alloc(size + 8, SNIC_REPLICA_ALIGN);
    assert_int_equal(snic_replica_init(&r, mem, size - 1, &fix.o), SNIC_ENOSPC);
    assert_int_equal(snic_replica_init(&r, mem + 8, size, &fix.o), SNIC_EINVAL);
    /* Its address is in use. */
    struct snic_net_dgram_events none = {.recv = replica_dgram_recv};
    struct snic_net_dgram *d;
    assert_int_equal(snic_net_dgram_open(fix.net[0], &fix.addrs[0], &none, NULL, &d), 0);
    int e = snic_replica_init(&r, mem, size, &fix.o);
    assert_true(e < 0 && e != SNIC_EINVAL && e != SNIC_ENOSPC);
    assert_null(r);
    snic_net_dgram_close(d);
    support_guard_free(mem);
    finish();
}

/* Those of the connections. */
static void test_replica_edges_link_options_checked(void **state)
{
    static const struct snic_ebs_sec_ops ciphers = {.ops_size = sizeof(ciphers)};
    struct snic_replica_opts o;
    (void)state;
    doors(1);
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        o = fix.o;                                                                                 \
        o.field = (value);                                                                         \
        support_names(snic_replica_opts_wrong(&o), #field);                                        \
        assert_int_equal(snic_replica_memsize(&o), 0);                                             \
    } while (0)
    BAD(pad2, 1);
    BAD(sends_max, (1u << 20) + 1);
    BAD(window_bytes, (64u << 10) - 1);
    BAD(window_bytes, (64u << 20) + 1);
    BAD(sec, &ciphers); /* without keys */
    fix.o.secret = &o;
    BAD(sec, &ciphers);
    fix.o.secret = NULL;
    o = fix.o;
    o.sec = &ciphers;
    o.secret = o.gcm = &o;
    support_names(snic_replica_opts_wrong(&o), "random");
#undef BAD
    finish();
}

/* Memory for values is full of what the embedder holds. */
static void embedder_holds_all(const unsigned char *bytes)
{
    struct snic_ddp_key k = {{2, 0}};
    struct snic_replica_entry e;
    struct op o, p;
    uint32_t held = 0;
    uint64_t values[256];
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    while (act(&o, SNIC_REPLICA_PUT, 2, bytes, 4000) == 0) {
        assert_int_equal(act(&p, SNIC_REPLICA_GET, 2, NULL, 0), 0);
        assert_int_equal(snic_replica_look(fix.r, &k, &e), 0);
        snic_replica_hold(fix.r, e.value);
        values[held++] = e.value;
        assert_true(held < 256);
    }
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 2, bytes, 4000), SNIC_EAGAIN);
    assert_int_equal(info().ops, 0);
    while (held > 0)
        snic_replica_drop(fix.r, values[--held]);
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 2, bytes, 4000), 0);
    assert_int_equal(info().values, 2);
}

static void test_replica_edges_operations_refused(void **state)
{
    static unsigned char bytes[4001];
    struct op o, p;
    struct snic_replica_entry e;
    uint64_t cursor = 0;
    (void)state;
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    doors(1);
    start();
    assert_int_equal(snic_replica_override(fix.r, 0, 0), SNIC_EAGAIN); /* it reads its log */
    assert_int_equal(begin(&o, SNIC_REPLICA_GET, 1, NULL, 0), SNIC_ESTALE);
    assert_int_equal(snic_replica_look(fix.r, &o.op.key, &e), SNIC_ESTALE);
    assert_int_equal(snic_replica_next(fix.r, &cursor, &e), SNIC_ESTALE);
    run(2000 * (uint64_t)MS);
    assert_int_equal(info().serves, 1);
    assert_int_equal(snic_replica_override(fix.r, 2, 0), SNIC_EINVAL); /* unknown node */
    assert_int_equal(begin(&o, 0, 1, NULL, 0), SNIC_EINVAL);
    assert_int_equal(begin(&o, SNIC_REPLICA_SYNC + 1, 1, NULL, 0), SNIC_EINVAL);
    assert_int_equal(begin(&o, SNIC_REPLICA_SYNC, 1, NULL, 0), SNIC_EINVAL); /* the model's */
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 1, NULL, 5), SNIC_EINVAL);
    o.op.data = bytes;
    o.op.size = o.op.front_size = 1;
    assert_int_equal(snic_replica_submit(fix.r, &o.op), SNIC_EINVAL); /* no bytes of the front */
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 1, bytes, 4001), SNIC_EMSGSIZE);
    assert_int_equal(info().values, 0);
    assert_int_equal(info().ops, 0);
    /* Nothing is a value, too. */
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, NULL, 0), 0);
    assert_int_equal(act(&o, SNIC_REPLICA_GET, 1, NULL, 0), 0);
    assert_true(o.any && o.size == 0);
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, bytes, 0), 0); /* with what was read */
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, NULL, 0), 0);  /* deletes */
    assert_int_equal(act(&o, SNIC_REPLICA_GET, 1, NULL, 0), SNIC_ENOENT);
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, NULL, 0), SNIC_ECANCELED);
    assert_false(o.any);
    /* A CAS that lost has what won; its own value is released. */
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, "right", 5), 0);
    o.op.ts++;
    assert_int_equal(act(&o, SNIC_REPLICA_CAS, 1, "wrong", 5), SNIC_ECANCELED);
    assert_int_equal(o.size, 5);
    assert_memory_equal(o.data, "right", 5);
    assert_int_equal(info().values, 1);
    embedder_holds_all(bytes);
    /* What is under way when it stops. */
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 3, bytes, 9), 0);
    assert_int_equal(begin(&p, SNIC_REPLICA_GET, 3, NULL, 0), 0);
    snic_replica_stop(fix.r);
    snic_replica_stop(fix.r);
    assert_int_equal(o.done + p.done, 0);
    run(MS);
    assert_int_equal(o.op.result, SNIC_EUNKNOWN);
    assert_int_equal(p.op.result, SNIC_ESTALE);
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 3, bytes, 9), SNIC_ESTALE);
    assert_int_equal(snic_replica_override(fix.r, 0, 0), SNIC_ESTALE);
    stop();
    finish();
}

/* What next gives: deleted keys not, what is being written or deleted without its value. */
static void test_replica_edges_next_gives_keys(void **state)
{
    struct snic_replica_entry e;
    struct op o, p;
    uint64_t cursor = 0;
    (void)state;
    memset(&o, 0, sizeof(o));
    memset(&p, 0, sizeof(p));
    doors(1);
    start();
    run(2000 * (uint64_t)MS);
    assert_int_equal(snic_replica_next(fix.r, &cursor, &e), SNIC_ENOENT);
    for (uint64_t k = 1; k <= 4; k++)
        assert_int_equal(act(&o, SNIC_REPLICA_PUT, k, "abcd", (uint32_t)k), 0);
    assert_int_equal(act(&o, SNIC_REPLICA_DELETE, 2, NULL, 0), 0);
    assert_int_equal(begin(&o, SNIC_REPLICA_DELETE, 3, NULL, 0), 0);
    assert_int_equal(begin(&p, SNIC_REPLICA_PUT, 4, "new", 3), 0);
    uint32_t seen = 0;
    while (snic_replica_next(fix.r, &cursor, &e) == 0) {
        uint64_t k = e.key.w[0];
        assert_true(k == 1 || k == 3 || k == 4);
        seen |= 1u << k;
        if (k == 1) {
            assert_int_equal(e.size, 1);
            assert_memory_equal(e.data, "a", 1);
        } else {
            assert_null(e.data);
            assert_int_equal(snic_replica_look(fix.r, &e.key, &e), SNIC_EAGAIN);
        }
    }
    assert_int_equal(seen, 1 << 1 | 1 << 3 | 1 << 4);
    run(100 * (uint64_t)MS);
    assert_true(o.done && p.done);
    struct snic_ddp_key k = {{3, 0}};
    assert_int_equal(snic_replica_look(fix.r, &k, &e), SNIC_ENOENT);
    k.w[0] = 4;
    assert_int_equal(snic_replica_look(fix.r, &k, &e), 0);
    assert_memory_equal(e.data, "new", 3);
    stop();
    finish();
}

/* ---- Stopped anywhere ---- */

/* After each thing that happens to a put: what was answered is there in the next run. */
static void test_replica_edges_stopped_anywhere_next_run_right(void **state)
{
    uint32_t answered = 0, unknown = 0;
    (void)state;
    for (uint32_t after = 0; answered < 3; after++) {
        struct op o, p;
        memset(&o, 0, sizeof(o));
        memset(&p, 0, sizeof(p));
        assert_true(after < 100);
        doors(1);
        start();
        run(2000 * (uint64_t)MS);
        assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, "old", 3), 0);
        assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 1, "newer", 5), 0);
        for (uint32_t i = 0; i < after; i++)
            (void)snic_world_run(fix.world, snic_world_now(fix.world) + MS, 1);
        snic_replica_stop(fix.r);
        run(10 * (uint64_t)MS);
        assert_int_equal(o.done, 1);
        assert_true(o.op.result == 0 || o.op.result == SNIC_EUNKNOWN);
        int right = o.op.result == 0;
        answered += (uint32_t)right;
        unknown += (uint32_t)!right;
        stop();
        fix.o.flags = 0;
        start();
        if (after % 2 == 0) { /* and again while it reads its log */
            (void)snic_world_run(fix.world, snic_world_now(fix.world) + MS, after % 7);
            stop();
            start();
        }
        for (uint32_t i = 0; !info().serves; i++) {
            assert_true(i < 20);
            run(1000 * (uint64_t)MS);
        }
        assert_int_equal(act(&p, SNIC_REPLICA_GET, 1, NULL, 0), 0);
        assert_true(p.size == 5 || (!right && p.size == 3));
        assert_memory_equal(p.data, p.size == 5 ? "newer" : "old", p.size);
        stop();
        finish();
    }
    assert_true(unknown > 0);
}

/* ---- Seldom ---- */

/* What the data path refuses takes nothing with it, and what it asks for comes: another epoch. */
static void test_replica_edges_refused_put_and_new_epoch(void **state)
{
    struct op o[8];
    uint32_t n = 0;
    int refused = 0;
    (void)state;
    memset(o, 0, sizeof(o));
    doors(1);
    fix.o.writes_max = 4;
    start();
    run(2000 * (uint64_t)MS);
    assert_int_equal(act(&o[0], SNIC_REPLICA_PUT, 1, "old", 3), 0);
    while (refused == 0) {
        assert_true(n < SNIC_COUNTOF(o));
        uint32_t live = fix.r->values.live;
        refused = begin(&o[n], SNIC_REPLICA_PUT, 2 + n, "newer", 5);
        assert_int_equal(fix.r->values.live, live + (refused == 0));
        n += refused == 0;
    }
    assert_int_equal(refused, SNIC_EAGAIN);
    assert_int_equal(fix.r->ops, n);
    uint32_t epoch = info().ddp.epoch;
    fix.r->due.need_epoch = 1;
    replica_settle(fix.r);
    run(2000 * (uint64_t)MS);
    assert_true(info().serves && info().ddp.epoch > epoch);
    for (uint32_t i = 0; i < n; i++)
        assert_true(o[i].done && o[i].op.result == 0);
    assert_int_equal(act(&o[0], SNIC_REPLICA_GET, 1, NULL, 0), 0);
    assert_memory_equal(o[0].data, "old", 3);
    assert_int_equal(act(&o[0], SNIC_REPLICA_PUT, 2 + n, "newer", 5), 0);
    stop();
    finish();
}

/* A node whose table is gone and that a view calls FULL stops; it does not serve nothing. */
static void test_replica_edges_full_out_of_nothing_stops(void **state)
{
    (void)state;
    doors(1);
    start();
    fix.r->spent = 1;
    run(2000 * (uint64_t)MS);
    assert_int_equal(info().state, SNIC_REPLICA_STOPPED);
    assert_int_equal(info().failure, SNIC_EPROTO);
    assert_false(info().serves);
    stop();
    finish();
}

/* ---- Another configuration ---- */

static void test_replica_edges_reconfigure_refused(void **state)
{
    struct snic_net_addr other, path, client;
    struct snic_replica_request right = {.kind = SNIC_MEMBER_ADD, .node = 1}, c;
    (void)state;
    memset(&other, 0, sizeof(other));
    memset(&path, 0, sizeof(path));
    memset(&client, 0, sizeof(client));
    assert_int_equal(snic_net_addr_parse(&other, "sim:1:7000"), 0);
    assert_int_equal(snic_net_addr_parse(&client, "sim:1:0"), 0);
    path.family = SNIC_NET_UNIX;
    right.addr = &other;
    doors(1);
    fix.o.nodes_max = 1;
    start();
    assert_int_equal(snic_replica_reconfigure(fix.r, &right), SNIC_EAGAIN);
    run(2000 * (uint64_t)MS);
    for (uint32_t i = 0; i < 7; i++) {
        c = right;
        c.flags = i == 0 ? SNIC_MEMBER_WITNESS << 1 : SNIC_MEMBER_WITNESS;
        c.addr = i == 1 ? &path : i == 2 || i == 5 ? NULL : &other;
        c.node = i == 3 ? SNIC_MEMBER_NODES_MAX : 1;
        c.client_addr = i == 4 || i == 5 ? &client : i == 6 ? &other : NULL; /* without a port */
        c.kind = i == 5 ? SNIC_MEMBER_REPLACE : i == 6 ? SNIC_MEMBER_REMOVE : SNIC_MEMBER_ADD;
        if (snic_replica_reconfigure(fix.r, &c) != SNIC_EINVAL)
            fail_msg("request %u", i);
    }
    assert_int_equal(snic_replica_reconfigure(fix.r, &right), SNIC_ENOSPC);
    snic_replica_stop(fix.r);
    assert_int_equal(snic_replica_reconfigure(fix.r, &right), SNIC_ESTALE);
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    assert_int_equal(replica_step_ddp(fix.r, &tick), SNIC_ESTALE);
    stop();
    finish();
}

/* ---- A full log ---- */

/*
 * Writers that do not wait for each other fill a log. While compaction makes room all but one get
 * EAGAIN, and when there is none to be made ENOSPC; the one is complete when others delete.
 */
static void test_replica_edges_full_log_refuses_all_but_one(void **state)
{
    enum { WRITERS = 16, SIZE = 2000 };
    static struct op ops[WRITERS], o;
    static const unsigned char bytes[SIZE];
    uint32_t open[WRITERS] = {0}, full = 0, waits = 0, opened = 0;
    uint64_t key = 0;
    (void)state;
    memset(ops, 0, sizeof(ops));
    memset(&o, 0, sizeof(o));
    doors(1);
    fix.o.keys_max = 4096;
    fix.o.values_bytes = 16 << 20;
    start();
    run(2000 * (uint64_t)MS);
    for (uint32_t step = 0; full < WRITERS - 1; step++) {
        assert_true(step < 5000);
        full = opened = 0;
        for (uint32_t i = 0; i < WRITERS; i++) {
            if (open[i] && ops[i].done)
                assert_int_equal(ops[i].op.result, 0);
            open[i] = open[i] && !ops[i].done;
            if (!open[i]) {
                int e = begin(&ops[i], SNIC_REPLICA_PUT, key, bytes, SIZE);
                open[i] = e == 0;
                key += e == 0;
                full += e == SNIC_ENOSPC;
                waits += e == SNIC_EAGAIN;
                assert_true(e == 0 || e == SNIC_EAGAIN || e == SNIC_ENOSPC);
            }
            opened += open[i];
        }
        run(MS);
    }
    assert_int_equal(opened, 1);
    assert_true(waits >= WRITERS - 1);
    for (uint64_t k = 0; k < key / 2; k++)
        assert_int_equal(act(&o, SNIC_REPLICA_DELETE, k, NULL, 0), 0);
    run(2000 * (uint64_t)MS);
    for (uint32_t i = 0; i < WRITERS; i++)
        assert_true(!open[i] || (ops[i].done && ops[i].op.result == 0));
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, key, bytes, SIZE), 0);
    stop();
    finish();
}

/* ---- The checks ---- */

#define BREAK(damage, repair)                                                                      \
    do {                                                                                           \
        damage;                                                                                    \
        if (snic_replica_check(fix.r) != SNIC_ECORRUPT)                                            \
            fail_msg("not noticed: %s", #damage);                                                  \
        repair;                                                                                    \
        assert_int_equal(snic_replica_check(fix.r), 0);                                            \
    } while (0)

static void test_replica_edges_check_broken_detected(void **state)
{
    struct op o;
    (void)state;
    memset(&o, 0, sizeof(o));
    doors(1);
    start();
    run(2000 * (uint64_t)MS);
    assert_int_equal(act(&o, SNIC_REPLICA_PUT, 1, "abcdefgh", 8), 0);
    assert_int_equal(begin(&o, SNIC_REPLICA_PUT, 2, "abcdefgh", 8), 0);
    struct snic_replica *r = fix.r;
    struct replica_values *v = &r->values;
    uint32_t used = 0, order = 0;
    while ((v->unit[used].state & 3) != REPLICA_U_USED)
        used++;
    while (v->free[order] == SNIC_REPLICA__NIL)
        order++;
    struct replica_unit *u = &v->unit[used], *f = &v->unit[v->free[order]];
    BREAK(r->ops--, r->ops++);
    BREAK(r->sends_used++, r->sends_used--);
    BREAK(r->peers[0].open = 0, r->peers[0].open = SNIC_REPLICA__NIL);
    BREAK(r->conns_live++, r->conns_live--);
    BREAK(r->depth = 1, r->depth = 0);
    BREAK(v->live++, v->live--);
    uint32_t refs = u->refs;
    BREAK(u->refs = 0, u->refs = refs);
    uint32_t was = u->state;
    BREAK(u->state = REPLICA_U_INSIDE, u->state = was);
    uint32_t size = u->size;
    BREAK(u->size = 1u << 30, u->size = size);
    BREAK(f->state = REPLICA_U_USED, f->state = REPLICA_U_FREE);
    BREAK(f->units++, f->units--);
    uint32_t last = v->free[order] + f->units - 1;
    BREAK(v->unit[last].first++, v->unit[last].first--);
    assert_true(f->units > 1);
    BREAK(v->unit[last].state = REPLICA_U_INSIDE, v->unit[last].state = REPLICA_U_LAST);
    uint32_t units = f->units;
    BREAK(f->units = 0, f->units = units);
    struct replica_unit two[] = {f[1], f[units - 1]}; /* two that are free, side by side */
    BREAK((f->units = 1, f[1].units = units - 1, f[1].state = REPLICA_U_FREE,
           f[units - 1].first = v->free[order] + 1),
          (f->units = units, f[1] = two[0], f[units - 1] = two[1]));
    BREAK(f->next = v->free[order], f->next = SNIC_REPLICA__NIL); /* in a circle */
    uint64_t classes = v->classes[order / 64];
    uint32_t moved = v->free[order];
    BREAK((v->free[order] = SNIC_REPLICA__NIL,
           v->classes[order / 64] &= ~(UINT64_C(1) << order % 64)),
          (v->free[order] = moved, v->classes[order / 64] = classes)); /* in no list */
    BREAK((v->free[order] = SNIC_REPLICA__NIL, v->free[0] = moved, v->classes[order / 64] = 0,
           v->classes[0] |= 1),
          (v->free[0] = SNIC_REPLICA__NIL, v->classes[0] = 0, v->free[order] = moved,
           v->classes[order / 64] = classes)); /* in another one */
    BREAK(v->classes[order / 64] = 0, v->classes[order / 64] = UINT64_C(1) << order % 64);
    uint32_t first = v->free[order];
    BREAK(v->free[order] = SNIC_REPLICA__NIL, v->free[order] = first);
    BREAK(v->free[order] = used, v->free[order] = first);
    run(100 * (uint64_t)MS);
    assert_int_equal(o.done, 1);
    stop();
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_edges_options_checked),
        cmocka_unit_test(test_replica_edges_memory_and_address_checked),
        cmocka_unit_test(test_replica_edges_link_options_checked),
        cmocka_unit_test(test_replica_edges_operations_refused),
        cmocka_unit_test(test_replica_edges_next_gives_keys),
        cmocka_unit_test(test_replica_edges_stopped_anywhere_next_run_right),
        cmocka_unit_test(test_replica_edges_refused_put_and_new_epoch),
        cmocka_unit_test(test_replica_edges_full_out_of_nothing_stops),
        cmocka_unit_test(test_replica_edges_reconfigure_refused),
        cmocka_unit_test(test_replica_edges_full_log_refuses_all_but_one),
        cmocka_unit_test(test_replica_edges_check_broken_detected),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
