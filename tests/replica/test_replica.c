/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A node and a small cluster of them, without chance: what each call returns, and the thin line
 * from a client's put over the network and the logs to another client's get. */
#include "cluster.h"
#include "support.h"

#include <stdio.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static struct cluster *begin(uint32_t model, uint32_t nodes)
{
    struct cluster_opts o = {.seed = support_seed(), .model = model, .nodes = nodes, .checks = 16};
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < nodes; i++)
        cluster_up(c, i, 1);
    assert_true(cluster_settle(c, 10 * SECOND));
    return c;
}

static void end(struct cluster *c)
{
    cluster_judge(c, 1);
    if (c->failure != NULL)
        fail_msg("%s", c->failure);
    cluster_free(c);
}

static void must(struct cluster *c, int ok)
{
    if (!ok && c->failure != NULL)
        fail_msg("%s", c->failure);
    assert_true(ok);
}

/* What is put at one node is got from another; one dies, the others continue, it comes back. */
static void test_replica_three_one_dies_others_serve(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct cluster *c = begin(model, 3);
        struct cluster_op *w, *g;
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w) == 0);
        must(c, cluster_do(c, 1, SNIC_REPLICA_GET, 1, &g) == 0);
        assert_int_equal(g->content, w->content);
        cluster_down(c, 2, CLUSTER_CRASH);
        must(c, cluster_do(c, 1, SNIC_REPLICA_PUT, 1, &w) == 0);
        must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 1, &g) == 0);
        assert_int_equal(g->content, w->content);
        cluster_run(c, SECOND);
        cluster_up(c, 2, 0);
        must(c, cluster_settle(c, 20 * SECOND));
        must(c, cluster_do(c, 2, SNIC_REPLICA_GET, 1, &g) == 0);
        assert_int_equal(g->content, w->content);
        must(c, cluster_do(c, 2, SNIC_REPLICA_DELETE, 1, &w) == 0);
        must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 1, &g) == SNIC_ENOENT);
        cluster_run(c, SECOND);
        cluster_same(c);
        end(c);
    }
}

static struct snic_replica_stats look(struct cluster *c, uint32_t node)
{
    struct snic_replica_stats info;
    snic_replica_get_stats(c->node[node].r, &info);
    return info;
}

/*
 * A node that was away gets what changed. While it learns its log stays as it was, so that after a
 * crash it has all that it had (M2).
 */
static void test_replica_rejoins_by_difference(void **state)
{
    enum { KEYS = CLUSTER_KEYS, CHANGED = 2 };
    struct cluster_op *op;
    (void)state;
    struct cluster *c = begin(SNIC_DDP_SYNCH, 3);
    for (uint32_t k = 0; k < KEYS; k++)
        must(c, cluster_do(c, k % 3, SNIC_REPLICA_PUT, k, &op) == 0);
    cluster_run(c, SECOND);
    cluster_down(c, 2, CLUSTER_CRASH);
    for (uint32_t k = 0; k < CHANGED; k++)
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, k, &op) == 0);
    cluster_up(c, 2, 0);
    for (uint32_t i = 0; look(c, 2).ddp.role != SNIC_DDP_LEARNER; i++) {
        must(c, i < 1000000);
        cluster_run(c, CLUSTER_MS / 100);
    }
    for (uint32_t n = 0; n < 2; n++) { /* it learns nothing more */
        snic_net_fabric_partition(c->fabric, 2, n, 1);
        snic_net_fabric_partition(c->fabric, n, 2, 1);
    }
    cluster_run(c, 200 * CLUSTER_MS);
    cluster_down(c, 2, CLUSTER_POWER);
    cluster_up(c, 2, 0);
    cluster_run(c, 200 * CLUSTER_MS);
    assert_int_equal(look(c, 2).ddp.records, KEYS);
    for (uint32_t n = 0; n < 2; n++) {
        snic_net_fabric_partition(c->fabric, 2, n, 0);
        snic_net_fabric_partition(c->fabric, n, 2, 0);
    }
    must(c, cluster_settle(c, 20 * SECOND));
    struct snic_ddp_learning done = look(c, 2).ddp.learning;
    assert_int_equal(done.hints, 0);
    assert_int_equal(done.confirmed, KEYS - CHANGED);
    assert_true(done.pulled <= CHANGED);
    cluster_run(c, SECOND);
    cluster_same(c);
    cluster_down_all(c, CLUSTER_DARK);
    for (uint32_t n = 0; n < 3; n++)
        cluster_up(c, n, 0);
    must(c, cluster_settle(c, 20 * SECOND));
    cluster_run(c, SECOND);
    cluster_same(c);
    end(c);
}

/*
 * The last FULL node is lost while the two others learn: their logs have what was written until
 * they were left out, and an operator begins from these (M2).
 */
static void test_replica_override_while_all_others_learn(void **state)
{
    enum { KEYS = CLUSTER_KEYS };
    struct cluster_op *op;
    uint64_t wrote[KEYS];
    (void)state;
    struct cluster *c = begin(SNIC_DDP_SYNCH, 3);
    for (uint32_t k = 0; k < KEYS; k++) {
        must(c, cluster_do(c, k % 3, SNIC_REPLICA_PUT, k, &op) == 0);
        wrote[k] = op->content;
    }
    for (uint32_t n = 1; n < 3; n++)
        cluster_down(c, n, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    for (uint32_t n = 1; n < 3; n++)
        cluster_up(c, n, 0);
    /* At the first that learns: later, it may have all, and be FULL by the vote of the other. */
    for (uint32_t i = 0;
         look(c, 1).ddp.role != SNIC_DDP_LEARNER && look(c, 2).ddp.role != SNIC_DDP_LEARNER; i++) {
        must(c, i < 1000000);
        cluster_run(c, CLUSTER_MS / 100);
    }
    cluster_down(c, 0, CLUSTER_DARK); /* for ever */
    cluster_run(c, 3 * SECOND);
    for (uint32_t n = 1; n < 3; n++)
        must(c, !cluster_serves(c, n));
    for (uint32_t n = 1; n < 3; n++) {
        cluster_down(c, n, CLUSTER_DARK);
        cluster_up(c, n, 0);
    }
    cluster_run(c, SECOND);
    for (uint32_t n = 1; n < 3; n++)
        assert_int_equal(snic_replica_override(c->node[n].r, 1, 1), 0);
    for (uint32_t i = 0; !cluster_serves(c, 1) || !cluster_serves(c, 2); i++) {
        must(c, i < 1000);
        cluster_run(c, 20 * CLUSTER_MS);
    }
    for (uint32_t k = 0; k < KEYS; k++) {
        must(c, cluster_do(c, 1 + k % 2, SNIC_REPLICA_GET, k, &op) == 0);
        assert_int_equal(op->content, wrote[k]);
    }
    must(c, cluster_do(c, 1, SNIC_REPLICA_PUT, 1, &op) == 0);
    end(c);
}

/* What node 2 and the others have sent each other. */
static uint64_t traffic(struct cluster *c)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < 2; n++) {
        struct snic_replica_peer_stats to, from;
        assert_int_equal(snic_replica_get_peer(c->node[n].r, 2, &to), 0);
        assert_int_equal(snic_replica_get_peer(c->node[2].r, n, &from), 0);
        bytes += to.sent_bytes + from.sent_bytes;
    }
    return bytes;
}

/*
 * A node is away for 10 s, in which one key of a hundred changes: all bytes of its return, but for
 * the new values, are at most 2 % of those of the store. Then again, while the others take one
 * operation after the other, half of them writes: it returns with no change of the membership but
 * its own two.
 */
static void test_replica_rejoins_under_load(void **state)
{
    enum { KEYS = CLUSTER_KEYS_MOST };
    (void)state;
    struct cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_SYNCH, .nodes = 3};
    o.keys = KEYS;
    o.keys_max = KEYS + 20;
    o.value_max = 2000; /* 1 KB on average */
    o.checks = 1024;
    o.segment_bytes = 1 << 18;
    struct cluster *c = cluster_new(&o);
    struct cluster_op *op;
    uint64_t store = 0;
    for (uint32_t n = 0; n < 3; n++)
        cluster_up(c, n, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    for (uint32_t k = 0; k < KEYS; k++)
        must(c, cluster_do(c, k % 3, SNIC_REPLICA_PUT, k, &op) == 0);
    cluster_run(c, SECOND);
    struct snic_replica_entry e;
    for (uint64_t at = 0; snic_replica_next(c->node[0].r, &at, &e) == 0;)
        store += e.size;
    for (uint32_t load = 0; load < 2; load++) {
        cluster_down(c, 2, CLUSTER_CRASH);
        for (uint32_t k = 0; k < KEYS; k += 100)
            must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, k, &op) == 0);
        cluster_run(c, 10 * SECOND);
        uint32_t epoch = c->epoch, done = 0;
        cluster_up(c, 2, 0);
        uint64_t before = traffic(c);
        for (; load && !cluster_serves(c, 2); done++) {
            must(c, done < 4000);
            uint32_t kind = done % 2 != 0 ? SNIC_REPLICA_GET : SNIC_REPLICA_PUT;
            must(c, cluster_do(c, done / 2 % 2, kind, done * 7 % KEYS, &op) == 0);
        }
        must(c, cluster_settle(c, 20 * SECOND));
        uint64_t bytes = traffic(c) - before;
        struct snic_ddp_learning learned = look(c, 2).ddp.learning;
        print_message("%llu bytes of %llu, %llu pulled, %u operations meanwhile\n",
                      (unsigned long long)bytes, (unsigned long long)store,
                      (unsigned long long)learned.pulled, done);
        assert_int_equal(c->epoch, epoch + 2);
        if (load) {
            assert_true(done > 10);
        } else {
            assert_int_equal(learned.pulled, KEYS / 100);
            assert_true((bytes - learned.bytes) * 100 <= 2 * store); /* and 1 % of values */
        }
        cluster_run(c, SECOND);
        cluster_same(c);
    }
    end(c);
}

/*
 * Three copies, two, one, with the default floor: the last one refuses writes before anything is
 * sent, and reads; it takes them again when a second one is FULL.
 */
static void test_replica_floor_refuses_writes_not_reads(void **state)
{
    struct snic_replica_stats info;
    struct cluster_op *w, *g;
    (void)state;
    struct cluster *c = begin(SNIC_DDP_SYNCH, 3);
    cluster_down(c, 2, CLUSTER_CRASH);
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w) == 0);
    uint64_t content = w->content;
    cluster_down(c, 1, CLUSTER_CRASH);
    cluster_run(c, SECOND);
    assert_int_equal(snic_replica_override(c->node[0].r, 6, 0), 0);
    cluster_run(c, SECOND);
    snic_replica_get_stats(c->node[0].r, &info);
    assert_int_equal(info.full, 1);
    assert_int_equal(info.min_full, 2);
    assert_true(info.serves && !info.writable);
    uint32_t records = info.ddp.records;
    assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w), SNIC_ENOQUORUM);
    assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_DELETE, 1, &w), SNIC_ENOQUORUM);
    assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_CAS, 1, &w), SNIC_ENOQUORUM);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 1, &g) == 0);
    assert_int_equal(g->content, content);
    snic_replica_get_stats(c->node[0].r, &info);
    assert_int_equal(info.no_quorum, 3);
    assert_int_equal(info.ddp.writes, 0);
    assert_int_equal(info.ddp.records, records);
    cluster_up(c, 1, 0);
    cluster_run(c, 4 * SECOND);
    snic_replica_get_stats(c->node[0].r, &info);
    assert_int_equal(info.full, 2);
    assert_true(info.writable);
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w) == 0);
    must(c, cluster_do(c, 1, SNIC_REPLICA_GET, 1, &g) == 0);
    assert_int_equal(g->content, w->content);
    end(c);
}

/* A value larger than the window arrives in parts, as the other node takes them. */
static void test_replica_values_larger_than_the_window_arrive(void **state)
{
    (void)state;
    struct cluster_opts o = {.seed = support_seed(), .checks = 16};
    o.segment_bytes = 4 << 20;
    o.segments = 10;
    o.value_max = 120000;
    struct cluster_op *w, *g;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    for (uint32_t i = 0; i < 24; i++) {
        must(c, cluster_do(c, i % 3, SNIC_REPLICA_PUT, 1, &w) == 0);
        must(c, cluster_do(c, (i + 1) % 3, SNIC_REPLICA_GET, 1, &g) == 0);
        assert_int_equal(g->content, w->content);
    }
    end(c);
}

static int notified, inside, notified_inside;

static void notify_count(void *ctx)
{
    (void)ctx;
    notified++;
    notified_inside += inside;
}

static void no_done(struct snic_replica_op *op)
{
    (void)op;
}

/* A lease that ends between calls is found by the next call; that is reported by the loop. */
static void test_replica_notify_from_the_loop(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16, .notify = notify_count};
    struct snic_replica_op op = {.kind = SNIC_REPLICA_GET, .done = no_done};
    (void)state;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    op.key = cluster_key(1);
    for (uint32_t i = 0; i < 2; i++) {
        cluster_pause(c, 0, 1);
        cluster_run(c, SECOND);
        notified = notified_inside = 0;
        inside = 1;
        if (i == 0)
            assert_int_equal(snic_replica_submit(c->node[0].r, &op), SNIC_ESTALE);
        else
            assert_int_equal(snic_replica_override(c->node[0].r, 0, 0), 0);
        inside = 0;
        assert_int_equal(notified_inside, 0);
        cluster_pause(c, 0, 0);
        cluster_run(c, CLUSTER_MS);
        assert_true(notified > 0);
        must(c, cluster_settle(c, 10 * SECOND));
    }
    notified = 0;
    inside = 1;
    snic_replica_stop(c->node[0].r);
    inside = 0;
    assert_int_equal(notified, 0);
    cluster_run(c, CLUSTER_MS);
    assert_int_equal(notified, 1);
    end(c);
}

/* One node with a small log, which it fills with keys; the put that the log had no room for. */
static struct cluster *begin_full(uint32_t *keys, struct cluster_op **stuck)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 1, .checks = 16, .keys_max = 2000};
    int r = 0;
    o.segments = 10;
    struct cluster *c = cluster_new(&o);
    cluster_up(c, 0, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    struct cluster_op *w = NULL;
    for (*keys = 0; *keys < 1900; ++*keys) {
        w = cluster_submit(c, 0, SNIC_REPLICA_PUT, *keys, NULL, &r);
        cluster_run(c, 20 * CLUSTER_MS);
        if (w == NULL || w->open)
            break;
    }
    cluster_run(c, SECOND);
    *stuck = w;
    must(c, w != NULL && w->open);
    return c;
}

/* A full log refuses puts, and reports why; deletions are taken and are the way out. */
static void test_replica_full_log_takes_deletions(void **state)
{
    struct cluster_op *stuck;
    uint32_t keys, took = 0;
    int r;
    (void)state;
    struct cluster *c = begin_full(&keys, &stuck);
    assert_null(cluster_submit(c, 0, SNIC_REPLICA_PUT, keys + 1, NULL, &r));
    assert_int_equal(r, SNIC_ENOSPC);
    assert_null(cluster_submit(c, 0, SNIC_REPLICA_CAS, keys + 1, NULL, &r));
    assert_int_equal(r, SNIC_ENOSPC);
    for (uint32_t k = 0; k < 60; k++) {
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, k, NULL) == 0);
        took += stuck->open != 0;
    }
    assert_true(took > 0);
    cluster_run(c, SECOND);
    assert_true(!stuck->open && stuck->result == 0);
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, keys + 1, NULL) == 0);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys, NULL) == 0);
    cluster_down_all(c, CLUSTER_DARK);
    cluster_up(c, 0, 0);
    must(c, cluster_settle(c, 10 * SECOND));
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 5, NULL) == SNIC_ENOENT);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys, NULL) == 0);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys - 1, NULL) == 0);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys + 1, NULL) == 0);
    end(c);
}

/* The deletion of a key whose put waits for a full log takes that one's place: both are answered.
 */
static void test_replica_full_log_deletion_of_what_waits(void **state)
{
    struct cluster_op *stuck;
    uint32_t keys;
    (void)state;
    struct cluster *c = begin_full(&keys, &stuck);
    must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, keys, NULL) == 0);
    assert_true(!stuck->open && stuck->result == 0);
    for (uint32_t k = 0; k < 60; k++) /* now there is room for it, if it waited still */
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, k, NULL) == 0);
    cluster_run(c, SECOND);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys, NULL) == SNIC_ENOENT);
    cluster_down_all(c, CLUSTER_DARK);
    cluster_up(c, 0, 0);
    must(c, cluster_settle(c, 10 * SECOND));
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys, NULL) == SNIC_ENOENT);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, keys - 1, NULL) == 0);
    end(c);
}

/*
 * All restart while their logs are full of what is needed, and one of them has what another had no
 * room for. No key can be deleted before that is everywhere: there is space for it.
 */
static void test_replica_full_logs_restart_of_all(void **state)
{
    uint32_t differ = 0;
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct cluster_opts o = {.seed = support_seed() + i, .checks = 16, .keys_max = 2000};
        uint64_t records[3];
        uint32_t full = 0;
        o.segments = 10;
        struct cluster *c = cluster_new(&o);
        for (uint32_t n = 0; n < 3; n++)
            cluster_up(c, n, 1);
        must(c, cluster_settle(c, 10 * SECOND));
        uint32_t refused = 0; /* by one node after the other */
        for (uint32_t k = 0; k < 1900 && refused < 3; k++) {
            int took = cluster_submit(c, k % 3, SNIC_REPLICA_PUT, k, NULL, NULL) != NULL;
            refused = took ? 0 : refused + 1;
            cluster_run(c, 5 * CLUSTER_MS);
        }
        cluster_run(c, SECOND);
        for (uint32_t n = 0; n < 3; n++) {
            struct snic_replica_stats info;
            snic_replica_get_stats(c->node[n].r, &info);
            full += info.wal.full;
            records[n] = info.wal.records;
        }
        must(c, full != 0);
        differ += records[0] != records[1] || records[0] != records[2];
        cluster_down_all(c, CLUSTER_DARK);
        for (uint32_t n = 0; n < 3; n++)
            cluster_up(c, n, 0);
        must(c, cluster_settle(c, 10 * SECOND));
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, 0, NULL) == 0);
        end(c);
    }
    assert_true(differ != 0);
}

/*
 * A node takes deletions and no puts any more, for want of memory. That it answers the ones does
 * not count for it while the others wait: it is left out, and the put proceeds.
 */
static void test_replica_slow_for_one_write_is_slow(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16, .value_max = 128, .tight = 16};
    struct snic_replica_stats info;
    (void)state;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    for (uint32_t k = 0; k < 16; k++)
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, k, NULL) == 0);
    struct cluster_op *w = cluster_submit(c, 0, SNIC_REPLICA_PUT, 16, NULL, NULL);
    for (uint32_t i = 0; i < 2000 && w->open; i++) {
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, 20 + i % 8, NULL) == 0);
        cluster_run(c, 10 * CLUSTER_MS);
    }
    must(c, w != NULL && !w->open && w->result == 0);
    snic_replica_get_stats(c->node[0].r, &info);
    assert_int_equal(info.member.view.full, 3);
    end(c);
}

/* A node that was slow for less than slow_ns, and serves: no node is left out for it later. */
static void test_replica_slow_no_more_stays(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16};
    struct snic_replica_stats info;
    (void)state;
    for (o.model = SNIC_DDP_SYNCH; o.model <= SNIC_DDP_SCOPE; o.model++) {
        struct cluster *c = cluster_new(&o);
        for (uint32_t i = 0; i < 3; i++)
            cluster_up(c, i, 1);
        must(c, cluster_settle(c, 10 * SECOND));
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, NULL) == 0);
        cluster_run(c, SECOND);
        cluster_pause(c, 2, 1);
        struct cluster_op *w = cluster_submit(c, 0, SNIC_REPLICA_PUT, 1, NULL, NULL);
        cluster_run(c, 200 * CLUSTER_MS); /* detect_ns is 250 ms */
        cluster_pause(c, 2, 0);
        cluster_run(c, 5 * SECOND); /* no other write comes */
        must(c, w != NULL && !w->open && w->result == 0);
        snic_replica_get_stats(c->node[0].r, &info);
        assert_int_equal(info.member.view.epoch, 1);
        end(c);
    }
}

/* Both places of the membership file in a log rot. */
static void lose_file(struct cluster *c, uint32_t node)
{
    unsigned char *p = snic_disk_bytes(c->node[node].disk);
    uint32_t places = 0;
    for (uint64_t at = 0; at < (uint64_t)c->o.segment_bytes * c->o.segments; at += 512) {
        if (memcmp(p + at, "walmeta", 8) != 0)
            continue;
        p[at + 100] ^= 1;
        places++;
    }
    assert_int_equal(places, 2);
    snic_disk_sync(c->node[node].disk);
}

/*
 * A9: a node that has lost its membership file never votes again, though its operator left FOUND as
 * on the first day; also when all have lost theirs, which would found the cluster anew.
 */
static void test_replica_lost_file_found_again_no_vote(void **state)
{
    struct snic_replica_stats info;
    struct cluster_op *w, *g;
    (void)state;
    struct cluster *c = begin(SNIC_DDP_SYNCH, 3);
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w) == 0);
    cluster_down(c, 2, CLUSTER_CRASH);
    lose_file(c, 2);
    cluster_up(c, 2, 1);
    must(c, cluster_settle(c, 20 * SECOND)); /* it comes back, as a learner first */
    snic_replica_get_stats(c->node[2].r, &info);
    assert_int_equal(info.member.vote, 0);
    must(c, cluster_do(c, 2, SNIC_REPLICA_GET, 1, &g) == 0);
    assert_int_equal(g->content, w->content);
    cluster_down_all(c, CLUSTER_CRASH);
    for (uint32_t i = 0; i < 3; i++) {
        lose_file(c, i);
        cluster_up(c, i, 1);
    }
    cluster_run(c, 20 * SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        snic_replica_get_stats(c->node[i].r, &info);
        assert_int_equal(info.member.vote, 0);
        assert_false(cluster_serves(c, i));
    }
    end(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_floor_refuses_writes_not_reads),
        cmocka_unit_test(test_replica_three_one_dies_others_serve),
        cmocka_unit_test(test_replica_values_larger_than_the_window_arrive),
        cmocka_unit_test(test_replica_rejoins_by_difference),
        cmocka_unit_test(test_replica_rejoins_under_load),
        cmocka_unit_test(test_replica_override_while_all_others_learn),
        cmocka_unit_test(test_replica_notify_from_the_loop),
        cmocka_unit_test(test_replica_full_log_takes_deletions),
        cmocka_unit_test(test_replica_full_log_deletion_of_what_waits),
        cmocka_unit_test(test_replica_full_logs_restart_of_all),
        cmocka_unit_test(test_replica_slow_for_one_write_is_slow),
        cmocka_unit_test(test_replica_slow_no_more_stays),
        cmocka_unit_test(test_replica_lost_file_found_again_no_vote),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
