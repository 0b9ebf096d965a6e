/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Keys that have the same hash. The module is compiled here with a hash that is the same for all
 * keys, so any two collide: every operation on the second key is refused and names the first.
 */
#define SNIC_STORE__HASH_MASK UINT64_C(0)
#include "store/access.c"
#include "store/change.c"
#include "store/changed.c"
#include "store/envelope.c"
#include "store/expire.c"
#include "store/index.c"
#include "store/plain.c"
#include "store/scan.c"
#include "store/store.c"
#include "store/watch.c"

#include "store_cluster.h"

#include "support.h"

static int touch(void *ctx, struct snic_store_change *ch)
{
    (void)ctx;
    ch->out_size = 0;
    return SNIC_STORE_CHANGE_PUT;
}

static void refused(struct store_cluster *c, uint32_t node, uint32_t kind, uint32_t condition,
                    uint64_t client)
{
    struct store_act *a = &c->got;
    memset(&a->op, 0, sizeof(a->op));
    a->op.kind = kind;
    a->op.key = "second";
    a->op.key_size = 6;
    a->op.data = kind == SNIC_STORE_PUT ? "other" : NULL;
    a->op.size = kind == SNIC_STORE_PUT ? 5 : 0;
    a->op.modify = touch;
    a->op.condition = condition;
    a->op.client = a->op.sequence = client;
    assert_int_equal(store_act(c, node, a), SNIC_EEXIST);
    assert_int_equal(a->size, 5);
    assert_memory_equal(a->data, "first", 5);
}

/* Every operation on a key whose hash another key has is refused, and changes nothing. */
static void test_store_weak_second_key_refused(void **state)
{
    struct store_cluster_opts o = {.seed = support_seed(), .checks = 1};
    struct store_cluster *c = store_cluster_new(&o);
    struct snic_store_entry e;
    static struct snic_store_cursor cursor;
    struct snic_store_stats stats;
    (void)state;
    for (uint32_t n = 0; n < 3; n++)
        store_cluster_up(c, n, 1);
    assert_true(store_cluster_settle(c));
    assert_int_equal(store_put(c, 0, "first", 5, "value", 5), 0);
    for (uint32_t n = 0; n < 3; n++) {
        refused(c, n, SNIC_STORE_GET, 0, 0);
        refused(c, n, SNIC_STORE_PUT, 0, 0);
        refused(c, n, SNIC_STORE_PUT, SNIC_STORE_IF_ABSENT, 0);
        refused(c, n, SNIC_STORE_PUT, 0, 5);
        refused(c, n, SNIC_STORE_DELETE, 0, 0);
        refused(c, n, SNIC_STORE_DELETE, SNIC_STORE_IF_PRESENT, 0);
        refused(c, n, SNIC_STORE_MODIFY, 0, 0);
        refused(c, n, SNIC_STORE_EXPIRE, 0, 0);
        assert_int_equal(snic_store_look(c->node[n].s, "second", 6, &e), SNIC_EEXIST);
        assert_int_equal(snic_store_look(c->node[n].s, "other", 5, &e), SNIC_EEXIST);
        assert_memory_equal(e.key, "first", 5);
        assert_null(e.data);
    }
    snic_store_get_stats(c->node[0].s, &stats);
    assert_int_equal(stats.collisions, 8);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(store_get(c, n, "first", 5), 0);
        assert_int_equal(c->got.size, 5);
        assert_memory_equal(c->got.data, "value", 5);
    }
    /* When the first is gone, the second has the place, in the index, too. */
    assert_int_equal(store_delete(c, 1, "first", 5), 0);
    assert_int_equal(store_put(c, 2, "second", 6, "other", 5), 0);
    assert_int_equal(store_get(c, 0, "first", 5), SNIC_EEXIST);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), 0);
    assert_memory_equal(e.key, "second", 6);
    assert_int_equal(snic_store_next(c->node[0].s, &cursor, &e), SNIC_ENOENT);
    assert_null(c->failure);
    store_cluster_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_weak_second_key_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
