/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nodes added, removed and replaced, founding, with data; reads that a majority confirms. */
#include "cluster.h"
#include "support.h"

#include <stdio.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static void must(struct cluster *c, int ok)
{
    if (!ok && c->failure != NULL)
        fail_msg("%s", c->failure);
    assert_true(ok);
}

static struct snic_replica_stats info(struct cluster *c, uint32_t node)
{
    struct snic_replica_stats s;
    snic_replica_get_stats(c->node[node].r, &s);
    return s;
}

/* The founders found a cluster; the other nodes do not run yet. */
static struct cluster *begin_of(const struct cluster_opts *o)
{
    struct cluster *c = cluster_new(o);
    for (uint32_t i = 0; (o->founders >> i & 1) != 0; i++)
        cluster_up(c, i, 1);
    for (uint32_t i = 0; i < 1000 && !cluster_serves(c, 0); i++)
        cluster_run(c, 10 * CLUSTER_MS);
    cluster_run(c, SECOND);
    must(c, cluster_serves(c, 0));
    return c;
}

/* So many founders, and `more` others. */
static struct cluster *begin_with(uint32_t founders, uint32_t more, uint32_t witness,
                                  uint32_t nodes_max)
{
    struct cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_SYNCH, .checks = 16};
    o.nodes = founders + more;
    o.founders = (1u << founders) - 1;
    o.witness = witness;
    o.nodes_max = nodes_max;
    return begin_of(&o);
}

static struct cluster *begin(uint32_t founders, uint32_t more, uint32_t witness)
{
    return begin_with(founders, more, witness, 0);
}

static void end(struct cluster *c)
{
    cluster_judge(c, 1);
    if (c->failure != NULL)
        fail_msg("%s", c->failure);
    cluster_free(c);
}

static uint64_t put(struct cluster *c, uint32_t node, uint32_t key)
{
    struct cluster_op *w = NULL;
    must(c, cluster_do(c, node, SNIC_REPLICA_PUT, key, &w) == 0);
    return w->content;
}

static uint64_t get(struct cluster *c, uint32_t node, uint32_t key)
{
    struct cluster_op *g = NULL;
    must(c, cluster_do(c, node, SNIC_REPLICA_GET, key, &g) == 0);
    return g->content;
}

/* A fourth node learns the data and gets a vote: then two of four may not decide. */
static void test_replica_config_add_learns_and_votes(void **state)
{
    (void)state;
    struct cluster *c = begin(3, 1, 0);
    uint64_t v = put(c, 0, 1);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 2), SNIC_EEXIST);
    assert_int_equal(cluster_change(c, 3, SNIC_MEMBER_ADD, 3), SNIC_ESTALE);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 3), 0);
    cluster_run(c, SECOND);
    assert_int_equal(info(c, 0).member.change, SNIC_MEMBER_CHANGE_DECIDED);
    assert_int_equal(info(c, 0).member.view.vacant, 8);
    assert_int_equal(info(c, 0).min_full, 2); /* it has no vote yet */
    assert_int_equal(cluster_change(c, 1, SNIC_MEMBER_REMOVE, 2), SNIC_EBUSY);
    cluster_up(c, 3, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 15);
    assert_int_equal(info(c, 0).member.view.vacant, 0);
    assert_int_equal(info(c, 3).member.vote, 1);
    assert_int_equal(info(c, 0).min_full, 3);
    assert_true(get(c, 3, 1) == v);
    v = put(c, 3, 2);
    cluster_down(c, 0, CLUSTER_CRASH);
    cluster_run(c, SECOND);
    assert_true(get(c, 1, 2) == v);
    cluster_down(c, 1, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    assert_false(cluster_serves(c, 2) || cluster_serves(c, 3));
    cluster_up(c, 0, 0);
    cluster_run(c, 4 * SECOND);
    assert_true(cluster_serves(c, 3) && get(c, 3, 2) == v);
    end(c);
}

/* While a node is added in place of one that is down, no write is refused: the floor of FULL nodes
 * is that of the view by which the copies are counted, not of one that is decided already. */
static void test_replica_config_floor_is_of_the_same_view(void **state)
{
    struct cluster_op *w[64];
    uint32_t writes = 0;
    struct cluster_opts o = {.seed = support_seed(), .model = SNIC_DDP_SYNCH, .checks = 16};
    (void)state;
    o.nodes = 4;
    o.founders = 7;
    o.flush_ns_max = 100 * CLUSTER_MS;
    struct cluster *c = begin_of(&o);
    cluster_down(c, 1, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 5);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 3), 0);
    cluster_up(c, 3, 0);
    for (uint32_t i = 0, after = 0; i < 16000 && after < 400; i++) {
        after += info(c, 0).member.view.full == 13; /* decided; it is not installed yet */
        int result = 0;
        struct cluster_op *op =
            cluster_submit(c, i / 2 % 2 * 2, SNIC_REPLICA_PUT, i % 100, NULL, &result);
        if (op == NULL)
            assert_int_not_equal(result, SNIC_ENOQUORUM);
        else if (writes < SNIC_COUNTOF(w))
            w[writes++] = op;
        cluster_run(c, CLUSTER_MS / 4);
    }
    cluster_run(c, SECOND);
    assert_int_equal(info(c, 0).member.view.full, 13);
    assert_int_equal(info(c, 0).no_quorum + info(c, 2).no_quorum, 0);
    assert_int_equal(writes, SNIC_COUNTOF(w));
    for (uint32_t i = 0; i < writes; i++)
        assert_int_not_equal(w[i]->result, SNIC_ENOQUORUM);
    end(c);
}

/*
 * A disk is lost: its node holds data again and has no vote. REPLACE gives the vote back, so that
 * it and one other continue without the third.
 */
static void test_replica_config_replace_gives_the_vote_back(void **state)
{
    (void)state;
    struct cluster *c = begin(3, 0, 0);
    uint64_t v = put(c, 0, 1);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_new_disk(c, 2);
    cluster_up(c, 2, 1); /* FOUND was left on: it founds nothing */
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 2).member.vote, 0);
    assert_int_equal(info(c, 0).member.view.full, 7);
    assert_int_equal(cluster_change(c, 2, SNIC_MEMBER_REPLACE, 1), SNIC_ESTALE); /* it is mute */
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_REPLACE, 2), 0);
    cluster_run(c, SECOND);
    assert_int_equal(info(c, 2).member.vote, 1);
    assert_int_equal(info(c, 0).member.view.full, 7); /* without learning all again */
    cluster_down(c, 1, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    assert_true(cluster_serves(c, 0) && cluster_serves(c, 2));
    assert_true(get(c, 2, 1) == v);
    (void)put(c, 2, 2);
    end(c);
}

/* A node that is gone is replaced; its old disk comes back, and takes no part any more. */
static void test_replica_config_replaced_disk_comes_back(void **state)
{
    (void)state;
    struct cluster *c = begin(3, 0, 0);
    uint64_t v = put(c, 0, 1);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_REPLACE, 2), 0);
    cluster_run(c, SECOND);
    cluster_up(c, 2, 0);
    cluster_run(c, 3 * SECOND);
    assert_int_equal(info(c, 2).member.state, SNIC_MEMBER_REPLACED);
    assert_int_equal(info(c, 0).member.view.full, 3);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_new_disk(c, 2);
    cluster_up(c, 2, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 7);
    assert_int_equal(info(c, 2).member.vote, 1);
    assert_true(get(c, 2, 1) == v);
    end(c);
}

/* A node is removed: it stops, the others continue, its number may return with a new disk. */
static void test_replica_config_removed_node_stops(void **state)
{
    (void)state;
    struct cluster *c = begin(3, 0, 0);
    uint64_t v = put(c, 2, 1);
    assert_int_equal(cluster_change(c, 2, SNIC_MEMBER_REMOVE, 2), SNIC_EINVAL); /* itself */
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_REMOVE, 2), 0);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(info(c, 2).member.state, SNIC_MEMBER_REPLACED);
    assert_false(cluster_serves(c, 2));
    assert_int_equal(info(c, 0).member.view.configured, 3);
    assert_true(get(c, 1, 1) == v);
    v = put(c, 1, 1);
    cluster_down(c, 2, CLUSTER_CRASH);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 2), 0);
    cluster_new_disk(c, 2);
    cluster_up(c, 2, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 7);
    assert_true(get(c, 2, 1) == v);
    end(c);
}

/*
 * One node after another is removed and added under a new number: never more than nodes_max at a
 * time, though more in all. A node that kept memory for those that were removed would stop, and so
 * would all others with it.
 */
static void test_replica_config_removed_node_makes_room(void **state)
{
    (void)state;
    struct cluster *c = begin_with(3, 2, 0, 4);
    uint64_t v = put(c, 0, 1);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 3), 0);
    cluster_up(c, 3, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 15);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 4), SNIC_ENOSPC);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_REMOVE, 2), 0);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(cluster_change(c, 0, SNIC_MEMBER_ADD, 4), 0); /* 2 still runs, and connects */
    cluster_up(c, 4, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).failure, 0);
    assert_int_equal(info(c, 0).member.view.full, 27);
    assert_int_equal(info(c, 2).member.state, SNIC_MEMBER_REPLACED);
    assert_true(get(c, 4, 1) == v);
    v = put(c, 4, 2);
    cluster_down(c, 0, CLUSTER_CRASH); /* its options have 2, its view does not */
    cluster_up(c, 0, 0);
    cluster_run(c, 4 * SECOND);
    assert_int_equal(info(c, 0).member.view.full, 27);
    assert_true(get(c, 0, 2) == v);
    end(c);
}

/* M6: a witness that lost its disk and was started with FOUND does not vote for a second time. */
static void test_replica_config_witness_found_again_has_no_vote(void **state)
{
    (void)state;
    struct cluster *c = begin(3, 0, 1);
    uint64_t v = put(c, 0, 1);
    cluster_down(c, 2, CLUSTER_CRASH);
    cluster_new_disk(c, 2);
    cluster_up(c, 2, 1);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(info(c, 2).member.vote, 0);
    assert_int_equal(cluster_change(c, 1, SNIC_MEMBER_REPLACE, 2), 0);
    cluster_run(c, 2 * SECOND);
    assert_int_equal(info(c, 2).member.vote, 1);
    cluster_down(c, 1, CLUSTER_CRASH);
    cluster_run(c, 2 * SECOND);
    assert_true(cluster_serves(c, 0) && get(c, 0, 1) == v);
    end(c);
}

static int done;
static int32_t answer;

static void confirm_done(struct snic_replica_op *op)
{
    done++;
    answer = op->result;
}

/* A confirmed read is answered where a majority grants, and nowhere else. */
static void test_replica_config_confirmed_read_needs_a_majority(void **state)
{
    struct snic_replica_op op = {.kind = SNIC_REPLICA_GET, .done = confirm_done};
    (void)state;
    struct cluster *c = begin(3, 0, 0);
    (void)put(c, 0, 1);
    op.key = cluster_key(1);
    op.flags = SNIC_REPLICA_OP_CONFIRM;
    done = 0;
    assert_int_equal(snic_replica_submit(c->node[0].r, &op), 0);
    assert_int_equal(done, 0);
    cluster_run(c, 20 * CLUSTER_MS); /* less than a heartbeat's: it was requested at once */
    assert_int_equal(done, 1);
    assert_int_equal(answer, 0);
    for (uint32_t n = 1; n < 3; n++) {
        snic_net_fabric_partition(c->fabric, 0, n, 1);
        snic_net_fabric_partition(c->fabric, n, 0, 1);
    }
    assert_true(cluster_serves(c, 0)); /* its lease lasts: a plain read is answered */
    (void)get(c, 0, 1);
    assert_int_equal(snic_replica_submit(c->node[0].r, &op), 0);
    cluster_run(c, 3 * SECOND);
    assert_int_equal(done, 1);
    for (uint32_t n = 1; n < 3; n++) {
        snic_net_fabric_partition(c->fabric, 0, n, 0);
        snic_net_fabric_partition(c->fabric, n, 0, 0);
    }
    cluster_run(c, SECOND);
    assert_int_equal(done, 2); /* it was left out meanwhile */
    assert_int_equal(answer, SNIC_ESTALE);
    op.flags = 2;
    assert_int_equal(snic_replica_submit(c->node[1].r, &op), SNIC_EINVAL);
    op.flags = SNIC_REPLICA_OP_CONFIRM;
    op.kind = SNIC_REPLICA_DELETE;
    assert_int_equal(snic_replica_submit(c->node[1].r, &op), SNIC_EINVAL);
    end(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_config_add_learns_and_votes),
        cmocka_unit_test(test_replica_config_floor_is_of_the_same_view),
        cmocka_unit_test(test_replica_config_replace_gives_the_vote_back),
        cmocka_unit_test(test_replica_config_replaced_disk_comes_back),
        cmocka_unit_test(test_replica_config_removed_node_stops),
        cmocka_unit_test(test_replica_config_removed_node_makes_room),
        cmocka_unit_test(test_replica_config_witness_found_again_has_no_vote),
        cmocka_unit_test(test_replica_config_confirmed_read_needs_a_majority),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
