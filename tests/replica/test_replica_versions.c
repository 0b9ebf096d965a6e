/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Nodes of two builds: one that understands version 3 of the wire alone, and others that understand
 * a version 4, too, which only this program has (wire.c: its messages are 8 bytes longer). The
 * replica's sources are compiled into it with that version.
 */
#define SNIC_REPLICA__WIRE_HIGHEST 4

#include "replica/wire.c"

#include "replica/answer.c"
#include "replica/client.c"
#include "replica/conn.c"
#include "replica/dgram.c"
#include "replica/dgram_in.c"
#include "replica/link.c"
#include "replica/link_in.c"
#include "replica/log.c"
#include "replica/log_events.c"
#include "replica/node.c"
#include "replica/pace.c"
#include "replica/peer.c"
#include "replica/queue.c"
#include "replica/replica.c"
#include "replica/seal.c"
#include "replica/value.c"

#include "cluster.h"

#include "support.h"

#include <string.h>

#define SECOND (1000 * (uint64_t)CLUSTER_MS)

static uint32_t version(struct cluster *c, uint32_t from, uint32_t to)
{
    struct snic_replica_peer_stats p;
    assert_int_equal(snic_replica_get_peer(c->node[from].r, to, &p), 0);
    return p.version;
}

static void up(struct cluster *c, uint32_t node, int found, uint32_t lowest, uint32_t highest)
{
    cluster_up(c, node, found);
    c->node[node].r->wire_lowest = lowest;
    c->node[node].r->wire_highest = highest;
}

static void put_get(struct cluster *c)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct cluster_op *w, *g;
        assert_int_equal(cluster_do(c, i % 3, SNIC_REPLICA_PUT, i % 4, &w), 0);
        assert_int_equal(cluster_do(c, (i + 1) % 3, SNIC_REPLICA_GET, i % 4, &g), 0);
        assert_int_equal(g->content, w->content);
    }
}

/* A rolling upgrade: one node after the other understands version 4, and at last no other. */
static void test_replica_versions_upgrade_one_by_one(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16};
    (void)state;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        up(c, i, 1, 3, 3);
    assert_true(cluster_settle(c, 10 * SECOND));
    put_get(c);
    for (uint32_t i = 0; i < 3; i++) {
        cluster_down(c, i, CLUSTER_CRASH);
        cluster_run(c, SECOND);
        up(c, i, 0, 3, 4);
        assert_true(cluster_settle(c, 30 * SECOND));
        put_get(c);
        for (uint32_t n = 0; n < 3; n++) {
            for (uint32_t m = 0; m < 3; m++)
                assert_true(n == m || version(c, n, m) == (n <= i && m <= i ? 4u : 3u));
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        cluster_down(c, i, CLUSTER_CRASH);
        cluster_run(c, SECOND);
        up(c, i, 0, 4, 4);
        assert_true(cluster_settle(c, 30 * SECOND));
        put_get(c);
    }
    cluster_judge(c, 1);
    assert_null(c->failure);
    cluster_free(c);
}

/* Nothing in common: named, counted, and the node stays outside. */
static void test_replica_versions_without_one_in_common(void **state)
{
    struct cluster_opts o = {.seed = support_seed(), .checks = 16};
    struct snic_replica_peer_stats p;
    struct snic_replica_stats s;
    (void)state;
    struct cluster *c = cluster_new(&o);
    for (uint32_t i = 0; i < 3; i++)
        up(c, i, 1, i == 2 ? 4 : 3, i == 2 ? 4 : 3);
    cluster_run(c, 5 * SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t n = i == 2 ? 0 : 2;
        assert_int_equal(snic_replica_get_peer(c->node[i].r, n, &p), 0);
        assert_true(p.state != SNIC_REPLICA_PEER_UP && p.refusal != NULL);
        assert_int_equal(strncmp(p.refusal, "version: ", 9), 0);
        snic_replica_get_stats(c->node[i].r, &s);
        assert_true(s.wrong_version > 0);
        assert_int_equal(s.wrong_cluster + s.wrong_key, 0);
    }
    assert_int_equal(cluster_serves(c, 2), 0);
    cluster_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_versions_upgrade_one_by_one),
        cmocka_unit_test(test_replica_versions_without_one_in_common),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
