/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node and its log where the order of what is in it matters: a full log that a deletion passes,
 * compaction after the end or while newer values wait, and what an earlier engine asked for.
 */
#include "cluster.h"
#include "replica/replica_priv.h"
#include "support.h"

#include <stdio.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static void must(struct cluster *c, int ok)
{
    if (!ok && c->failure != NULL)
        fail_msg("%s", c->failure);
    assert_true(ok);
}

static void end(struct cluster *c)
{
    cluster_judge(c, 1);
    if (c->failure != NULL)
        fail_msg("%s", c->failure);
    cluster_free(c);
}

/*
 * One node with a small log, which it fills with keys, the last of them @again if there are @keys
 * without it; the put that the log had no room for. Returns how many keys it has.
 */
static struct cluster *begin_full(uint32_t *keys, uint32_t again, struct cluster_op **stuck)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 1, .checks = 16, .keys_max = 2000};
    struct cluster_op *w = NULL;
    uint32_t most = *keys, n = 0;
    o.segments = 10;
    struct cluster *c = cluster_new(&o);
    cluster_up(c, 0, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    do {
        w = cluster_submit(c, 0, SNIC_REPLICA_PUT, n < most ? n : again, NULL, NULL);
        cluster_run(c, 20 * CLUSTER_MS);
    } while (w != NULL && !w->open && ++n < 1900);
    cluster_run(c, SECOND);
    must(c, w != NULL && w->open);
    *keys = n;
    *stuck = w;
    return c;
}

static void restart(struct cluster *c)
{
    cluster_down_all(c, CLUSTER_DARK);
    cluster_up(c, 0, 0);
    must(c, cluster_settle(c, 10 * SECOND));
}

/* Keys that were deleted, and purged, leave nothing in the log: it takes as many others, and others
   again, but for some room that compaction wants. */
static void test_replica_log_purged_keys_give_room(void **state)
{
    struct cluster_op *stuck;
    uint32_t keys = UINT32_MAX;
    (void)state;
    struct cluster *c = begin_full(&keys, 0, &stuck);
    assert_true(keys >= 100 && keys < 500);
    for (uint32_t k = 0; k <= keys; k++)
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, k, NULL) == 0);
    for (uint32_t lap = 1; lap < 4; lap++) {
        cluster_run(c, 20 * SECOND);
        for (uint32_t k = 0; k < keys * 3 / 4; k++)
            must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, lap * keys + k, NULL) == 0);
        for (uint32_t k = 0; k < keys * 3 / 4; k++)
            must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, lap * keys + k, NULL) == 0);
    }
    end(c);
}

/*
 * A put waits for a full log when its key is deleted, and the deletion goes to the log in front of
 * it. It may not come behind it: when the deletion is purged and compaction has passed it, the key
 * would be there again. Whenever there is room at last.
 */
static void test_replica_log_no_put_behind_its_deletion(void **state)
{
    struct cluster_op *stuck;
    (void)state;
    for (uint32_t room = 1; room < 100; room += 6) {
        uint32_t keys = UINT32_MAX;
        struct cluster *c = begin_full(&keys, 0, &stuck);
        must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, keys, NULL) == 0);
        cluster_run(c, 20 * SECOND); /* it is purged */
        for (uint32_t k = 0; k < room; k++)
            must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, k, NULL) == 0);
        cluster_run(c, SECOND);
        restart(c);
        int r = cluster_do(c, 0, SNIC_REPLICA_GET, keys, NULL);
        if (r != SNIC_ENOENT)
            fail_msg("a key is there again (%d), %u keys deleted after it", r, room);
        end(c);
    }
}

/*
 * N6: a value whose successor waits for a full log is all there is of its key. When the node is
 * stopped what waited is forgotten, and compaction, which may continue, keeps the value.
 */
static void test_replica_log_compaction_after_the_end(void **state)
{
    struct cluster_op *stuck, *g;
    uint32_t keys = UINT32_MAX;
    (void)state;
    struct cluster *c = begin_full(&keys, 0, &stuck);
    uint32_t most = keys;
    cluster_free(c);
    for (uint32_t i = 0; i < 20; i++) {
        keys = most;
        c = begin_full(&keys, 1, &stuck);
        assert_int_equal(keys, most); /* the same run, but for the last put: of key 1 */
        for (uint32_t k = 0; k < 4; k++)
            (void)cluster_submit(c, 0, SNIC_REPLICA_DELETE, 10 + k, NULL, NULL);
        cluster_run(c, i * CLUSTER_MS / 4);
        snic_replica_stop(c->node[0].r);
        cluster_run(c, SECOND);
        restart(c);
        int r = cluster_do(c, 0, SNIC_REPLICA_GET, 1, &g);
        if (r != 0)
            fail_msg("stopped after %u/4 ms: %d", i, r);
        assert_true(g->content == 2 || g->content == stuck->content);
        end(c);
    }
}

/*
 * H28: a value whose successor waits for a full log is all there is of its key: compaction, which
 * looks at all again after each deletion, keeps it until the power of the node goes.
 */
static void test_replica_log_compaction_keeps_before_what_waits(void **state)
{
    struct cluster_op *stuck, *g;
    uint32_t keys = UINT32_MAX;
    (void)state;
    struct cluster *c = begin_full(&keys, 0, &stuck);
    cluster_free(c);
    c = begin_full(&keys, 1, &stuck);
    must(c, cluster_do(c, 0, SNIC_REPLICA_DELETE, 10, NULL) == 0);
    cluster_run(c, SECOND);
    assert_true(stuck->open); /* one deletion is not enough */
    restart(c);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 1, &g) == 0);
    assert_int_equal(g->content, 2);
    end(c);
}

/*
 * H28: newer values of all keys wait for the log, which is slower than they come. What it is full
 * of are older ones, of which the last of each key is needed and no other: it goes round and round.
 */
static void test_replica_log_newer_ones_wait_older_ones_go(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 1, .checks = 16};
    struct cluster_op *g;
    uint64_t newest = 0;
    uint32_t puts = 0, busy = 0;
    int r;
    (void)state;
    o.model = SNIC_DDP_EVENT;
    o.segments = 10;
    o.flush_ns_max = 4 * CLUSTER_MS;
    struct cluster *c = cluster_new(&o);
    cluster_up(c, 0, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    while (puts < 4000) { /* of some 200 bytes: six times what there is */
        struct cluster_op *w = cluster_submit(c, 0, SNIC_REPLICA_PUT, puts % 3, NULL, &r);
        if (w == NULL && r != SNIC_EAGAIN)
            fail_msg("%d after %u values of three keys", r, puts);
        newest = w != NULL && puts % 3 == 0 ? w->content : newest;
        puts += w != NULL;
        busy = w != NULL ? 0 : busy + 1;
        assert_true(busy < 1000);
        if (w == NULL)
            cluster_run(c, CLUSTER_MS);
    }
    cluster_run(c, SECOND);
    restart(c);
    must(c, cluster_do(c, 0, SNIC_REPLICA_GET, 0, &g) == 0);
    assert_int_equal(g->content, newest);
    end(c);
}

/* The log writes what it gets from now on so late; not the membership's file. */
static void slow_log(struct cluster *c, uint32_t node, uint64_t ns)
{
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .ops = 1u << SNIC_IO_WRITE, .after = 1};
    f.offset = 8 * 4096;
    f.length = (uint64_t)c->o.segment_bytes * c->o.segments - f.offset;
    f.delay_ns = ns;
    assert_int_equal(snic_disk_fault(c->node[node].disk, &f), 0);
}

/*
 * M4: the log's disk takes 400 ms, 1 s, 5 s for a write, the membership's file too. Writes wait for
 * it, and no node is evicted: heartbeats do not wait behind the log. With slow_ns one is.
 */
static void test_replica_log_stalls_evict_none(void **state)
{
    static const uint64_t stalls[] = {400, 1000, 5000, 5000};
    struct cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_SYNCH, .checks = 16};
    struct snic_replica_stats info;
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        o.slow_ns = k == 3 ? 300 * CLUSTER_MS : 0;
        struct cluster *c = cluster_new(&o);
        for (uint32_t i = 0; i < 3; i++)
            cluster_up(c, i, 1);
        must(c, cluster_settle(c, 10 * SECOND));
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, NULL) == 0);
        snic_replica_get_stats(c->node[0].r, &info);
        uint32_t epoch = info.member.view.epoch;
        struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .ops = 1u << SNIC_IO_WRITE, .after = 1};
        f.delay_ns = stalls[k] * CLUSTER_MS;
        f.length = (uint64_t)c->o.segment_bytes * c->o.segments;
        assert_int_equal(snic_disk_fault(c->node[2].disk, &f), 0);
        struct cluster_op *w = cluster_submit(c, 0, SNIC_REPLICA_PUT, 1, NULL, NULL);
        cluster_run(c, stalls[k] * CLUSTER_MS + SECOND / 2);
        snic_disk_faults_clear(c->node[2].disk);
        cluster_run(c, 2 * SECOND);
        must(c, w != NULL && !w->open && w->result == 0);
        snic_replica_get_stats(c->node[0].r, &info);
        assert_int_equal(info.member.view.epoch == epoch, k < 3);
        must(c, cluster_settle(c, 20 * SECOND));
        end(c);
    }
}

/*
 * N3: a node is requested to flush its log, which takes so long that it is voted out and comes back
 * as a learner, with another engine. That one does not hear of it: it never requested it.
 */
static void test_replica_log_answers_of_an_earlier_run(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_SCOPE, .checks = 16};
    struct snic_replica_stats info;
    struct cluster_op *w, *g;
    (void)state;
    o.slow_ns = 100 * CLUSTER_MS;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 1, &w) == 0);
    slow_log(c, 2, 5 * SECOND);
    must(c, cluster_do(c, 0, SNIC_REPLICA_SYNC, 1, NULL) == 0);
    for (uint32_t i = 0; i < 400 && c->node[2].role != SNIC_MEMBER_ROLE_LEARNER; i++)
        cluster_run(c, 10 * CLUSTER_MS);
    assert_int_equal(c->node[2].role, SNIC_MEMBER_ROLE_LEARNER);
    cluster_run(c, 10 * SECOND);
    snic_replica_get_stats(c->node[2].r, &info);
    assert_int_equal(info.failure, 0);
    must(c, cluster_settle(c, 10 * SECOND));
    must(c, cluster_do(c, 2, SNIC_REPLICA_GET, 1, &g) == 0);
    assert_int_equal(g->content, w->content);
    end(c);
}

/*
 * A learner drops own records for what comes in, and its log has to note each. While the log takes
 * nothing it drops only as many as there is room to note.
 */
static void test_replica_log_learner_sheds_what_the_log_notes(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 3, .checks = 16};
    struct snic_replica_stats info = {.state = 0};
    struct cluster_op *w;
    (void)state;
    struct cluster *c = cluster_new(&o);
    for (uint32_t n = 0; n < 3; n++)
        cluster_up(c, n, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    for (uint32_t k = 0; k < CLUSTER_KEYS; k++)
        must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, k, &w) == 0);
    cluster_run(c, SECOND);
    cluster_down(c, 2, CLUSTER_CRASH);
    must(c, cluster_do(c, 0, SNIC_REPLICA_PUT, 0, &w) == 0);
    cluster_up(c, 2, 0);
    for (uint32_t i = 0; info.ddp.role != SNIC_DDP_LEARNER; i++) {
        must(c, i < 1000000);
        cluster_run(c, CLUSTER_MS / 100);
        snic_replica_get_stats(c->node[2].r, &info);
    }
    struct snic_replica *r = c->node[2].r;
    assert_int_equal(info.ddp.learning.hints, CLUSTER_KEYS);
    assert_int_equal(replica_shed(r), 1);
    while (r->log.tail - r->log.head + 2 < r->log.entries)
        replica_log_flush(r, 1);
    for (uint32_t i = 0; i < CLUSTER_KEYS; i++)
        assert_int_equal(replica_shed(r), 0);
    snic_replica_get_stats(r, &info);
    assert_int_equal(info.ddp.learning.hints, CLUSTER_KEYS - 1);
    cluster_free(c);
}

/* Puts from @key on, at the first two nodes, until the logs are full; how many. */
static uint32_t fill(struct cluster *c, uint32_t key, uint32_t nodes)
{
    uint32_t n = 0;
    while (key + n < CLUSTER_KEYS_MOST &&
           cluster_do(c, n % nodes, SNIC_REPLICA_PUT, key + n, NULL) == 0)
        n++;
    cluster_run(c, SECOND);
    assert_true(n > 20 && key + n < CLUSTER_KEYS_MOST);
    return n;
}

/*
 * All logs are full when a node dies; meanwhile half of the keys goes, and others come until the
 * logs are full again. The node comes back with a log full of what the others do not have any more.
 * It makes room for what they have, but it may need a little more than they did: while no node has
 * room it may wait as a learner. A few deletions end that, at any full node.
 */
static void test_replica_log_learner_with_a_full_log(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 3, .checks = 64};
    (void)state;
    o.keys = CLUSTER_KEYS_MOST;
    o.keys_max = CLUSTER_KEYS_MOST + 20;
    o.segment_bytes = 16384;
    o.segments = 10;
    o.value_max = 512;
    struct cluster *c = cluster_new(&o);
    for (uint32_t n = 0; n < 3; n++)
        cluster_up(c, n, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    uint32_t keys = fill(c, 0, 3);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    for (uint32_t k = 0; k < keys; k += 2)
        must(c, cluster_do(c, k / 2 % 2, SNIC_REPLICA_DELETE, k, NULL) == 0);
    for (uint32_t k = 1; k < keys; k += 4)
        must(c, cluster_do(c, k / 4 % 2, SNIC_REPLICA_PUT, k, NULL) == 0);
    (void)fill(c, keys, 2);
    cluster_up(c, 2, 0);
    (void)cluster_settle(c, 10 * SECOND);
    for (uint32_t i = 0; i < 6; i++)
        must(c, cluster_do(c, i % 2, SNIC_REPLICA_DELETE, keys + i, NULL) == 0);
    must(c, cluster_settle(c, 10 * SECOND));
    must(c, cluster_do(c, 2, SNIC_REPLICA_PUT, 1, NULL) == 0);
    end(c);
}

/*
 * A learner's log is full, and has taken what it finds to have no room for; then nothing comes any
 * more, as from a donor that restarts. Own records that are not confirmed go, until that is in.
 */
static void test_replica_log_learner_gives_way_to_what_waits(void **state)
{
    struct cluster_opts o = {.seed = 2, .nodes = 3, .checks = 64}; /* the log is full enough */
    struct snic_replica_stats info;
    (void)state;
    o.keys = CLUSTER_KEYS_MOST;
    o.keys_max = CLUSTER_KEYS_MOST + 20;
    o.segment_bytes = 16384;
    o.segments = 10;
    o.value_max = 512;
    struct cluster *c = cluster_new(&o);
    for (uint32_t n = 0; n < 3; n++)
        cluster_up(c, n, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    uint32_t keys = fill(c, 0, 3);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    for (uint32_t k = 0; k < keys; k += 2)
        must(c, cluster_do(c, k / 2 % 2, SNIC_REPLICA_DELETE, k, NULL) == 0);
    cluster_run(c, SECOND);
    cluster_up(c, 2, 0);
    struct snic_replica *r = c->node[2].r;
    for (uint32_t i = 0; r->part != SNIC_DDP_LEARNER; i++) {
        must(c, i < 1000000);
        cluster_run(c, CLUSTER_MS / 100);
    }
    for (uint32_t i = 0; i < 32; i++)
        must(c, cluster_submit(c, i % 2, SNIC_REPLICA_PUT, keys + i, NULL, NULL) != NULL);
    for (uint32_t i = 0; r->log.tail - r->log.mid < 24; i++) {
        must(c, i < 1000);
        cluster_run(c, CLUSTER_MS / 100);
    }
    cluster_down(c, 0, CLUSTER_CRASH);
    cluster_down(c, 1, CLUSTER_CRASH);
    snic_replica_get_stats(r, &info);
    uint64_t hints = info.ddp.learning.hints;
    cluster_run(c, 5 * SECOND);
    snic_replica_get_stats(r, &info);
    assert_int_equal(r->log.tail, r->log.mid);
    assert_in_range(info.ddp.learning.hints, 1, hints - 1);
    cluster_free(c);
}

/*
 * All logs are full when a node dies; one in @most of the keys goes meanwhile, 0: none. When it is
 * back it drops up to @drops of its records, which it must request again, with the timestamps that
 * its log has. With @forgets its log keeps all of these, as if it had just been opened.
 */
static struct cluster *begin_again(uint64_t seed, uint32_t most, uint32_t drops, uint32_t forgets,
                                   uint32_t *keys)
{
    struct cluster_opts o = {.seed = seed, .nodes = 3, .checks = 64};
    uint32_t n = 0;
    o.keys = CLUSTER_KEYS_MOST;
    o.keys_max = CLUSTER_KEYS_MOST + 20;
    o.segment_bytes = 16384;
    o.segments = 14;
    o.value_max = 5000;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    must(c, cluster_settle(c, 10 * SECOND));
    *keys = fill(c, 0, 3);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    for (uint32_t k = 0; most != 0 && k < *keys / most; k++)
        must(c, cluster_do(c, k % 2, SNIC_REPLICA_DELETE, k, NULL) == 0);
    cluster_run(c, SECOND);
    cluster_up(c, 2, 0);
    struct snic_replica *r = c->node[2].r;
    for (uint32_t i = 0; r->part != SNIC_DDP_LEARNER; i++) {
        must(c, i < 1000000);
        cluster_run(c, CLUSTER_MS / 100);
    }
    for (uint32_t i = 0; i < 300; i++) {
        while (n < drops && replica_shed(r))
            n++;
        cluster_run(c, CLUSTER_MS / 100);
        if (forgets)
            memset(r->log.since, 0, snic_ddp_records(&r->ddp_opts) * sizeof(r->log.since[0]));
    }
    assert_true(n > 0);
    if (forgets) {
        cluster_down(c, 2, CLUSTER_CRASH);
        cluster_run(c, 2 * SECOND);
        cluster_up(c, 2, 0);
    }
    must(c, cluster_settle(c, 20 * SECOND));
    return c;
}

/* A log does not keep twice what a learner dropped and got again; when it is opened it sees
   which of the two it is. */
static void test_replica_log_learner_requests_again_what_it_dropped(void **state)
{
    uint32_t keys;
    (void)state;
    for (uint32_t forgets = 0; forgets < 2; forgets++) {
        struct cluster *c = begin_again(support_seed(), 4, UINT32_MAX, forgets, &keys);
        for (uint32_t k = 0; k < keys / 8; k++)
            must(c, cluster_do(c, 2, SNIC_REPLICA_PUT, k, NULL) == 0);
        end(c);
    }
}

/* Without any other room what comes again takes the place of what was dropped. */
static void test_replica_log_learner_requests_again_without_room(void **state)
{
    uint32_t keys;
    (void)state;
    end(begin_again(1, 0, 1, 0, &keys)); /* with this seed nothing else fits */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_log_purged_keys_give_room),
        cmocka_unit_test(test_replica_log_no_put_behind_its_deletion),
        cmocka_unit_test(test_replica_log_compaction_after_the_end),
        cmocka_unit_test(test_replica_log_compaction_keeps_before_what_waits),
        cmocka_unit_test(test_replica_log_newer_ones_wait_older_ones_go),
        cmocka_unit_test(test_replica_log_answers_of_an_earlier_run),
        cmocka_unit_test(test_replica_log_stalls_evict_none),
        cmocka_unit_test(test_replica_log_learner_sheds_what_the_log_notes),
        cmocka_unit_test(test_replica_log_learner_with_a_full_log),
        cmocka_unit_test(test_replica_log_learner_gives_way_to_what_waits),
        cmocka_unit_test(test_replica_log_learner_requests_again_what_it_dropped),
        cmocka_unit_test(test_replica_log_learner_requests_again_without_room),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
