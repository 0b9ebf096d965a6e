/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node of two halves: its contract, and what each model does in which order.
 */
#include "test_ddpnic_world.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct snic_ddpnic_opts options(uint32_t model, uint32_t flags)
{
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o),
                                 .model = model,
                                 .flags = flags,
                                 .keys_max = NW_KEYS,
                                 .writes_max = 8,
                                 .waits_max = 16,
                                 .reads_max = 4,
                                 .scopes_max = 4,
                                 .vfifo_max = 4,
                                 .dfifo_max = 4};
    return o;
}

static struct nw_world *world(uint32_t nodes, uint32_t model, uint32_t flags)
{
    struct snic_ddpnic_opts o = options(model, flags);
    struct nw_world *w = nw_new(support_seed(), nodes, &o);
    nw_start(w);
    return w;
}

/* All orders of things are fixed, so the text is: one write of three nodes, and then a read. */
static void golden(uint32_t model, uint32_t flags, const char *text)
{
    struct nw_world *w = world(3, model, flags);
    w->traced = 1;
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, model == SNIC_DDP_SCOPE ? 9 : 0, NULL) >= 0);
    assert_true(nw_op(w, SNIC_DDP_READ, 0, 1, 0, NULL) >= 0);
    nw_calm(w);
    if (model == SNIC_DDP_SCOPE) {
        assert_true(nw_op(w, SNIC_DDP_SYNC, 0, 0, 9, NULL) >= 0);
        nw_calm(w);
    }
    if (strcmp(w->trace, text) != 0)
        fail_msg("model %u flags %x:\n%s\nis not\n%s", model, flags, w->trace, text);
    nw_same(w);
    nw_promised(w);
    assert_int_equal(w->handles_live, 3);
    nw_free(w);
}

static void test_ddpnic_models_write_golden(void **state)
{
    (void)state;
    golden(SNIC_DDP_SYNCH, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 2s DMA; 2s LOG; 2s>1 ACK; "
           "0s>6 VAL; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_STRICT, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 1s>1 ACK_P; 2s DMA; "
           "2s>1 ACK_C; 0s>6 VAL_C; 0s wake; 0h done 0; 2s LOG; 2s>1 ACK_P; 0s>6 VAL_P; "
           "0s:ACK 6 last; 0h done 0; ");
    golden(SNIC_DDP_RENF, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 1s>1 ACK_P; 2s DMA; "
           "2s>1 ACK_C; 0s:ACK 6 last; 0h done 0; 2s LOG; 2s>1 ACK_P; 0s>6 VAL; 0s wake; "
           "0h done 0; ");
    golden(SNIC_DDP_EVENT, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 2s DMA; 2s>1 ACK_C; "
           "0s>6 VAL_C; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; 2s LOG; ");
    golden(SNIC_DDP_SCOPE, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 2s DMA; 2s>1 ACK_C; "
           "0s>6 VAL_C; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; 2s LOG; 0h:PERSIST 6; "
           "0s>6 PERSIST; 0s MARK; 1s MARK; 2s MARK; 1s>1 PERSIST_ACK; 2s>1 PERSIST_ACK; "
           "0s:PERSIST_ACK 6 last; 0s>6 PERSIST_VAL; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNBATCHED,
           "0h:INV 2; 0h:INV 4; 0s VSTORE; 0s DSTORE; 0s>6 INV; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 0s:ACK 2; 2s DMA; 2s LOG; "
           "2s>1 ACK; 0s>6 VAL; 0s:ACK 4 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNICAST,
           "0h:INV 6; 0s>2 INV; 0s>4 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 2s DMA; 2s LOG; 2s>1 ACK; "
           "0s>2 VAL; 0s>4 VAL; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST,
           "0h:INV 2; 0h:INV 4; 0s>2 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 0s>4 INV; "
           "2s VSTORE; 2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 0s:ACK 2; 2s DMA; "
           "2s LOG; 2s>1 ACK; 0s>2 VAL; 0s>4 VAL; 0s:ACK 4 last; 0s wake; 0h done 0; 0h done 0; ");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_models_write_golden),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
