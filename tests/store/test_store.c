/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Operations of a store in a cluster of three: what each returns, and what it leaves. */
#include "store_cluster.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

static struct store_cluster *fresh(void)
{
    struct store_cluster_opts o = {.seed = support_seed()};
    struct store_cluster *c = store_cluster_new(&o);
    for (uint32_t n = 0; n < c->o.nodes; n++)
        store_cluster_up(c, n, 1);
    assert_true(store_cluster_settle(c));
    return c;
}

static void done(struct store_cluster *c)
{
    if (c->failure != NULL)
        print_error("%s\n", c->failure);
    assert_null(c->failure);
    store_cluster_free(c);
}

/* Keys of any length and content; each key has its own value at every node. */
static void test_store_put_get_delete_at_any_node(void **state)
{
    (void)state;
    struct store_cluster *c = fresh();
    unsigned char key[SNIC_STORE_KEY_MAX];
    char value[32];
    static const uint32_t sizes[] = {0, 1, 16, 17, 255, 1024};
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        memset(key, (int)i, sizeof(key));
        (void)snprintf(value, sizeof(value), "value of %u", i);
        assert_int_equal(store_put(c, i % 3, key, sizes[i], value, (uint32_t)strlen(value)), 0);
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        memset(key, (int)i, sizeof(key));
        (void)snprintf(value, sizeof(value), "value of %u", i);
        for (uint32_t n = 0; n < 3; n++) {
            assert_int_equal(store_get(c, n, key, sizes[i]), 0);
            assert_int_equal(c->got.size, strlen(value));
            assert_memory_equal(c->got.data, value, strlen(value));
        }
        assert_int_equal(store_delete(c, (i + 1) % 3, key, sizes[i]), 0);
        assert_int_equal(store_get(c, i % 3, key, sizes[i]), SNIC_ENOENT);
    }
    done(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_put_get_delete_at_any_node),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
