/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the five models promise of crashes, both ways (ddp.h): what must survive does; and what may
 * be lost is lost in a case made for it, so that the tests of the first kind are known to be able
 * to fail.
 */
#include "cluster.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static struct cluster *begin_with(const struct cluster_opts *o)
{
    struct cluster *c = cluster_new(o);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 1);
    assert_true(cluster_settle(c, 20 * SECOND));
    return c;
}

static struct cluster *begin_slow(uint32_t model, uint64_t disk_ns)
{
    struct cluster_opts o = {.seed = support_seed(), .model = model, .nodes = 3, .checks = 16};
    o.background_ns = 50 * CLUSTER_MS;
    o.flush_ns_max = disk_ns;
    return begin_with(&o);
}

static struct cluster *begin(uint32_t model)
{
    return begin_slow(model, CLUSTER_MS / 2);
}

static void end(struct cluster *c)
{
    cluster_judge(c, 1);
    if (c->failure != NULL)
        fail_msg("%s", c->failure);
    cluster_free(c);
}

static void all_again(struct cluster *c, enum cluster_death how)
{
    cluster_down_all(c, how);
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 0);
    if (!cluster_settle(c, 30 * SECOND))
        fail_msg("no rest after a restart: %s", c->failure != NULL ? c->failure : "");
}

static uint64_t put(struct cluster *c, uint32_t node, uint32_t key)
{
    struct cluster_op *o;
    assert_int_equal(cluster_do(c, node, SNIC_REPLICA_PUT, key, &o), 0);
    return o->content;
}

/* What every node gives; 0: nothing is there. */
static uint64_t get(struct cluster *c, uint32_t key)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct cluster_op *o;
        if (!cluster_serves(c, i))
            continue;
        int r = cluster_do(c, i, SNIC_REPLICA_GET, key, &o);
        assert_true(r == 0 || r == SNIC_ENOENT);
        if (first != 0)
            assert_int_equal(o->content, first);
        first = o->content;
    }
    return first;
}

/* One node, the coordinator or another, in each way: nothing that was answered is lost. */
static void test_replica_one_node_lost_nothing_lost(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct cluster *c = begin(model);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t dies = i % 2;
            uint64_t v = put(c, 0, i);
            cluster_down(c, dies, i / 2 != 0 ? CLUSTER_DARK : CLUSTER_CRASH);
            cluster_run(c, 2 * SECOND);
            assert_int_equal(get(c, i), v);
            cluster_up(c, dies, 0);
            assert_true(cluster_settle(c, 30 * SECOND));
            assert_int_equal(get(c, i), v);
        }
        end(c);
    }
}

/*
 * The log goes round many times: what was written once, long ago, is copied along by compaction and
 * is there when all begin from their logs; what was deleted is not.
 */
static void test_replica_compaction_keeps_old_keys(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_STRICT; model++) {
        struct cluster *c = begin(model);
        uint64_t disk = (uint64_t)c->o.segment_bytes * c->o.segments;
        uint64_t blocks = 0;
        uint64_t old = put(c, 0, 7);
        uint64_t newest = 0;
        (void)put(c, 1, 6);
        assert_int_equal(cluster_do(c, 2, SNIC_REPLICA_DELETE, 6, NULL), 0);
        /* Each is durable by itself, so that it takes a block of 512 bytes or more. */
        for (uint32_t i = 0; blocks < 3 * disk; i++, blocks += 512)
            newest = put(c, i % 3, 1);
        all_again(c, CLUSTER_DARK);
        assert_int_equal(get(c, 7), old);
        assert_int_equal(get(c, 1), newest);
        assert_int_equal(get(c, 6), 0);
        end(c);
    }
}

/* The power of all goes right after the answer, with all that is not flushed. */
static void test_replica_all_dark_after_answer(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct cluster *c = begin(model);
        uint64_t v = put(c, 0, 1);
        all_again(c, CLUSTER_DARK);
        if (model == SNIC_DDP_SYNCH || model == SNIC_DDP_STRICT)
            assert_int_equal(get(c, 1), v);
        else /* RENF: it had not been read. EVENT, SCOPE: no operation had waited for the logs. */
            assert_int_equal(get(c, 1), 0);
        end(c);
    }
}

/* The same when it was read before, by a node that it was not written at. */
static void test_replica_all_dark_after_read(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        struct cluster *c = begin(model);
        struct cluster_op *o;
        uint64_t v = put(c, 0, 1);
        assert_int_equal(cluster_do(c, 2, SNIC_REPLICA_GET, 1, &o), 0);
        assert_int_equal(o->content, v);
        all_again(c, CLUSTER_DARK);
        if (model != SNIC_DDP_EVENT && model != SNIC_DDP_SCOPE)
            assert_int_equal(get(c, 1), v);
        else
            assert_int_equal(get(c, 1), 0);
        end(c);
    }
}

/* Each log writes what it gets next a second later. */
static void slow_logs(struct cluster *c)
{
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .ops = 1u << SNIC_IO_WRITE, .after = 1};
    f.offset = 8 * 4096;
    f.length = (uint64_t)c->o.segment_bytes * c->o.segments - f.offset;
    f.delay_ns = SECOND;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(snic_disk_fault(c->node[i].disk, &f), 0);
}

/* STRICT: a value that was read before it was durable, and whose writer was never answered. */
static void test_replica_strict_read_before_durable_unhappens(void **state)
{
    struct cluster *c = begin(SNIC_DDP_STRICT);
    struct cluster_op *w, *o = NULL;
    (void)state;
    uint64_t old = put(c, 0, 1);
    slow_logs(c);
    w = cluster_submit(c, 0, SNIC_REPLICA_PUT, 1, NULL, NULL);
    assert_non_null(w);
    cluster_run(c, CLUSTER_MS);
    assert_true(w->open);
    assert_int_equal(cluster_do(c, 2, SNIC_REPLICA_GET, 1, &o), 0);
    assert_int_equal(o->content, w->content);
    assert_true(w->open);
    all_again(c, CLUSTER_DARK);
    assert_int_equal(get(c, 1), old);
    end(c);
}

/* SYNCH and RENF make that reader wait. */
static void test_replica_synch_renf_read_waits_for_logs(void **state)
{
    static const uint32_t models[] = {SNIC_DDP_SYNCH, SNIC_DDP_RENF};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct cluster *c = begin_slow(models[i], 40 * CLUSTER_MS);
        struct cluster_op *w = cluster_submit(c, 0, SNIC_REPLICA_PUT, 1, NULL, NULL);
        cluster_run(c, CLUSTER_MS);
        struct cluster_op *o = cluster_submit(c, 2, SNIC_REPLICA_GET, 1, NULL, NULL);
        cluster_run(c, CLUSTER_MS);
        assert_non_null(w);
        assert_non_null(o);
        assert_true(o->open);
        cluster_run(c, SECOND);
        assert_true(!o->open && o->content == w->content);
        all_again(c, CLUSTER_DARK);
        assert_int_equal(get(c, 1), w->content);
        end(c);
    }
}

/* EVENT: what is older than the window is in the logs. */
static void test_replica_event_quiet_window_survives(void **state)
{
    struct cluster *c = begin(SNIC_DDP_EVENT);
    (void)state;
    uint64_t v = put(c, 0, 1);
    cluster_run(c, 200 * CLUSTER_MS);
    uint64_t lost = put(c, 1, 2);
    all_again(c, CLUSTER_DARK);
    assert_int_equal(get(c, 1), v);
    assert_true(lost != 0 && get(c, 2) == 0);
    end(c);
}

/* SCOPE: what was synced survives, what was not is lost; so of a key with both the older. */
static void test_replica_scope_synced_survives_open_lost(void **state)
{
    struct cluster *c = begin(SNIC_DDP_SCOPE);
    (void)state;
    uint64_t v = put(c, 0, 1);
    (void)put(c, 0, 2);
    assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_SYNC, 0, NULL), 0);
    uint64_t lost = put(c, 0, 3);
    (void)put(c, 1, 2); /* another scope, on top of one that was synced */
    all_again(c, CLUSTER_DARK);
    assert_int_equal(get(c, 1), v);
    assert_true(get(c, 2) != 0);
    assert_true(lost != 0 && get(c, 3) == 0);
    end(c);
}

static void cut_off(struct cluster *c, uint32_t node, int cut)
{
    for (uint32_t i = 0; i < 3; i++) {
        snic_net_fabric_partition(c->fabric, node, i, i != node && cut);
        snic_net_fabric_partition(c->fabric, i, node, i != node && cut);
    }
}

static void read_done(struct snic_replica_op *op)
{
    (void)op;
}

/*
 * SCOPE: a node is left out in the middle of a scope, and comes back without having crashed. The
 * scope went with its part: neither a write nor SYNC may take its number for a new one, and answer
 * for what the others have lost since.
 */
static void test_replica_scope_ends_with_its_node_part(void **state)
{
    struct cluster *c = begin(SNIC_DDP_SCOPE);
    (void)state;
    uint64_t older = put(c, 1, 2);
    assert_int_equal(cluster_do(c, 1, SNIC_REPLICA_SYNC, 0, NULL), 0);
    (void)put(c, 1, 2);
    uint64_t scope = c->node[1].scope;
    cut_off(c, 1, 1);
    struct cluster_op *w = cluster_submit(c, 1, SNIC_REPLICA_PUT, 1, NULL, NULL);
    assert_non_null(w);
    for (uint32_t i = 0; i < 3; i += 2) /* they lose it, and begin without node 1 */
        cluster_down(c, i, CLUSTER_DARK);
    for (uint32_t i = 0; i < 3; i += 2)
        cluster_up(c, i, 0);
    cluster_run(c, 10 * SECOND);
    cut_off(c, 1, 0);
    assert_true(cluster_settle(c, 30 * SECOND));
    assert_true(!w->open && w->result == SNIC_EUNKNOWN);
    static const uint32_t kinds[] = {SNIC_REPLICA_PUT, SNIC_REPLICA_DELETE, SNIC_REPLICA_CAS,
                                     SNIC_REPLICA_SYNC};
    for (uint32_t i = 0; i < SNIC_COUNTOF(kinds); i++) {
        int r = 0;
        c->node[1].scope = scope;
        assert_null(cluster_submit(c, 1, kinds[i], 3, NULL, &r));
        assert_int_equal(r, SNIC_ESTALE);
        c->node[0].scope = scope; /* nor may another node */
        assert_null(cluster_submit(c, 0, kinds[i], 3, NULL, &r));
        assert_int_equal(r, SNIC_ESTALE);
    }
    assert_true(c->node[1].scope == 0);
    struct snic_replica_op read = {.done = read_done, .kind = SNIC_REPLICA_GET, .scope = scope};
    read.key = cluster_key(2); /* to a read the number means nothing */
    assert_int_equal(snic_replica_submit(c->node[1].r, &read), 0);
    cluster_run(c, SECOND);
    assert_int_equal(read.result, 0);
    uint64_t after = put(c, 1, 3);
    assert_true(c->node[1].scope != scope);
    assert_int_equal(cluster_do(c, 1, SNIC_REPLICA_SYNC, 0, NULL), 0);
    all_again(c, CLUSTER_DARK);
    assert_int_equal(get(c, 2), older);
    assert_int_equal(get(c, 3), after);
    end(c);
}

/* A process that ends leaves what it gave to the disk; no cache is lost. */
static void test_replica_all_crash_again_and_again(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_STRICT; model++) {
        struct cluster *c = begin(model);
        for (uint32_t i = 0; i < 4; i++) {
            uint64_t v = put(c, i % 3, 1);
            all_again(c, i % 2 != 0 ? CLUSTER_POWER : CLUSTER_CRASH);
            assert_int_equal(get(c, 1), v);
        }
        end(c);
    }
}

/* Everything is lost but the log of one. */
static void test_replica_one_log_is_enough(void **state)
{
    (void)state;
    for (uint32_t survivor = 0; survivor < 3; survivor++) {
        struct cluster *c = begin(SNIC_DDP_SYNCH);
        uint64_t v = put(c, 0, 1);
        cluster_down_all(c, CLUSTER_DARK);
        cluster_up(c, survivor, 0);
        cluster_up(c, (survivor + 1) % 3, 0);
        cluster_run(c, 6 * SECOND);
        assert_int_equal(get(c, 1), v);
        cluster_down(c, (survivor + 1) % 3, CLUSTER_DARK);
        cluster_up(c, (survivor + 2) % 3, 0);
        cluster_run(c, 6 * SECOND);
        assert_int_equal(get(c, 1), v);
        end(c);
    }
}

/*
 * What a learner's log has of its former incarnation is retired (A2): a key that the others deleted
 * and purged while it was away does not come back when all begin from their logs.
 */
static void test_replica_former_run_stays_away(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_STRICT; model++) {
        struct cluster *c = begin(model);
        (void)put(c, 0, 1);
        uint64_t v = put(c, 0, 2);
        cluster_run(c, SECOND);
        cluster_down(c, 2, CLUSTER_CRASH);
        cluster_run(c, 2 * SECOND);
        assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_DELETE, 1, NULL), 0);
        cluster_run(c, 5 * SECOND); /* purged, and then the logs go round, so that they forget it */
        uint64_t disk = (uint64_t)c->o.segment_bytes * c->o.segments;
        for (uint64_t blocks = 0; blocks < 3 * disk; blocks += 512)
            (void)put(c, 0, 3);
        cluster_up(c, 2, 0);
        assert_true(cluster_settle(c, 30 * SECOND));
        cluster_run(c, SECOND);
        all_again(c, CLUSTER_DARK);
        assert_int_equal(get(c, 1), 0);
        assert_int_equal(get(c, 2), v);
        end(c);
    }
}

static struct snic_replica_stats info(struct cluster *c, uint32_t node)
{
    struct snic_replica_stats out;
    snic_replica_get_stats(c->node[node].r, &out);
    return out;
}

/*
 * A log with more keys than the table takes: a node that has it begins with nothing and learns. One
 * that others would have to learn from waits, whatever an operator states, until it has the space.
 */
static void test_replica_log_of_too_many_keys_is_not_the_end(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 3, .checks = 16, .writes_max = 2};
    (void)state;
    struct cluster *c = begin_with(&o); /* a table takes keys_max + 2 * 2 */
    for (uint32_t k = 0; k < 20; k++)
        (void)put(c, k % 3, k);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    for (uint32_t k = 6; k < 20; k++)
        assert_int_equal(cluster_do(c, 0, SNIC_REPLICA_DELETE, k, NULL), 0);
    for (uint32_t i = 0; i < 60 && info(c, 0).ddp.records > 6; i++)
        cluster_run(c, SECOND);
    assert_int_equal(info(c, 0).ddp.records, 6);
    c->o.keys_max = 12;
    cluster_up(c, 2, 0);
    assert_true(cluster_settle(c, 30 * SECOND));
    assert_int_equal(info(c, 2).ddp.records, 6);
    assert_int_equal(info(c, 2).log_good, 1);
    uint64_t v = get(c, 3);
    assert_true(v != 0 && get(c, 7) == 0);
    cluster_down_all(c, CLUSTER_DARK);
    c->o.keys_max = 1;
    for (uint32_t i = 0; i < 3; i++)
        cluster_up(c, i, 0);
    cluster_run(c, 10 * SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(info(c, i).state, SNIC_REPLICA_RUNNING);
        assert_int_equal(info(c, i).log_good, 0);
        assert_int_equal(info(c, i).member.state, SNIC_MEMBER_RESTARTING);
    }
    assert_int_equal(snic_replica_override(c->node[1].r, 0, 1), 0);
    cluster_run(c, 10 * SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(cluster_serves(c, i));
    c->o.keys_max = 64;
    all_again(c, CLUSTER_CRASH);
    assert_int_equal(get(c, 3), v);
    end(c);
}

/* The blocks in which the log's image differs from what it was rot. */
static void rot_what_changed(struct cluster *c, uint32_t node, const unsigned char *was)
{
    unsigned char *p = snic_disk_bytes(c->node[node].disk);
    uint32_t changed = 0;
    for (uint64_t at = 0; at < (uint64_t)c->o.segment_bytes * c->o.segments; at += 512) {
        if (memcmp(p + at, was + at, 512) == 0)
            continue;
        p[at + 200] ^= 4;
        changed++;
    }
    assert_true(changed > 0);
    snic_disk_sync(c->node[node].disk);
}

/*
 * A8: the end of a log is damaged, of which nothing shows that it was announced. Such a log is no
 * beginning while another is missing, though a majority is there; it is when that is back.
 */
static void test_replica_log_in_doubt_restarts_no_node(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .nodes = 3, .witness = 1, .checks = 16};
    (void)state;
    struct cluster *c = begin_with(&o);
    uint64_t size = (uint64_t)c->o.segment_bytes * c->o.segments;
    unsigned char *was = malloc(size);
    assert_non_null(was);
    cluster_run(c, SECOND);
    memcpy(was, snic_disk_bytes(c->node[0].disk), size);
    uint64_t v = put(c, 1, 1);
    cluster_down_all(c, CLUSTER_DARK);
    rot_what_changed(c, 0, was);
    free(was);
    cluster_up(c, 0, 0);
    cluster_up(c, 2, 0);
    cluster_run(c, 20 * SECOND);
    assert_int_equal(info(c, 0).log_good, 0);
    assert_int_equal(info(c, 0).member.state, SNIC_MEMBER_RESTARTING);
    assert_false(cluster_serves(c, 0));
    cluster_up(c, 1, 0);
    assert_true(cluster_settle(c, 30 * SECOND));
    assert_int_equal(get(c, 1), v);
    end(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_one_node_lost_nothing_lost),
        cmocka_unit_test(test_replica_compaction_keeps_old_keys),
        cmocka_unit_test(test_replica_all_dark_after_answer),
        cmocka_unit_test(test_replica_all_dark_after_read),
        cmocka_unit_test(test_replica_strict_read_before_durable_unhappens),
        cmocka_unit_test(test_replica_synch_renf_read_waits_for_logs),
        cmocka_unit_test(test_replica_event_quiet_window_survives),
        cmocka_unit_test(test_replica_scope_synced_survives_open_lost),
        cmocka_unit_test(test_replica_scope_ends_with_its_node_part),
        cmocka_unit_test(test_replica_all_crash_again_and_again),
        cmocka_unit_test(test_replica_former_run_stays_away),
        cmocka_unit_test(test_replica_one_log_is_enough),
        cmocka_unit_test(test_replica_log_of_too_many_keys_is_not_the_end),
        cmocka_unit_test(test_replica_log_in_doubt_restarts_no_node),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
