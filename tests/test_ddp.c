/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The replication engine: its contract, one behaviour at a time. */
#include "test_ddp_world.h"

#include "support.h"

/* Every model, both modes: a write is answered, read everywhere, and nothing is left behind. */
static void test_ddp_three_nodes_write_read_everywhere(void **state)
{
    (void)state;
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_SCOPE; model++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct world *w = world_new(1, 3, model, flags);
            uint64_t scope = model == SNIC_DDP_SCOPE ? 9 : 0;
            world_start(w);
            int a = world_op(w, SNIC_DDP_WRITE, 0, 1, 0, scope, NULL);
            int b = world_op(w, SNIC_DDP_WRITE, 2, 1, 0, scope, NULL);
            assert_true(a >= 0 && b >= 0);
            world_settle(w);
            assert_int_equal(w->op[a].state, OP_OK);
            for (uint32_t n = 0; n < 3; n++) {
                int r = world_op(w, SNIC_DDP_READ, n, 1, 0, 0, NULL);
                assert_int_equal(w->op[r].state, OP_OK);
                assert_int_equal(w->op[r].content, w->op[b].content);
                r = world_op(w, SNIC_DDP_READ, n, 2, 0, 0, NULL);
                assert_int_equal(w->op[r].result, SNIC_ENOENT);
            }
            world_same(w);
            world_free(w);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_three_nodes_write_read_everywhere),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
