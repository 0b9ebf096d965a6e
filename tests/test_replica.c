/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A node and a small cluster of them, without chance: what each call says, and the thin line from
 * a client's put over the network and the logs to another client's get. */
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

/* What one node was given another gives; one dies, the others go on, it comes back. */
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_three_one_dies_others_serve),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
