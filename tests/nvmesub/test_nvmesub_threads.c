/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Readers of the view on threads of their own beside the owner that publishes: each read is one
   publication, never a mixture, and never an older one than the last. */
#include "nvmesub/nvmesub_priv.h"
#include "test_nvmesub_util.h"

static struct nx x;

enum { READERS = 3 };
static _Atomic int stop;
static _Atomic uint64_t reads[READERS];
static uint64_t bad[READERS];

/* Each reader has been scheduled for long enough. */
static int enough(void)
{
    for (int i = 0; i < READERS; i++)
        if (atomic_load_explicit(&reads[i], memory_order_relaxed) < 1000)
            return 0;
    return 1;
}

static void reader(unsigned index)
{
    struct nvmesub_seen n;
    uint32_t last = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        nvmesub_view_read(x.v, 1, index, 0, &n);
        atomic_fetch_add_explicit(&reads[index], 1, memory_order_relaxed);
        bad[index] += n.blocks != (uint64_t)n.generation * 3 || n.rtype != n.generation % 7 ||
                      n.registered != (n.generation >> index & 1) || n.generation < last;
        last = n.generation;
        nvmesub_view_read(x.v, 2, index, 0, &n);
        bad[index] += n.present;
    }
}

static void publish(uint32_t i)
{
    struct nvmesub_ns *n = &x.s->ns[0];
    n->generation = i;
    n->blocks = (uint64_t)i * 3;
    n->rtype = (uint8_t)(i % 7);
    n->regs[0] = i & 7;
    nvmesub_view_ns(x.s, 1);
}

static void body(void *ctx, unsigned index)
{
    (void)ctx;
    if (index > 0) {
        reader(index - 1);
        return;
    }
    for (uint32_t i = 2; i < support_scale(200000, 5000000) || !enough(); i++)
        publish(i);
    atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

static void test_nvmesub_view_read_is_one_publication(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 3);
    publish(1);
    support_threads(READERS + 1, body, NULL);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(bad[i], 0);
    }
    x.s->ns[0].regs[0] = 0;
    x.s->ns[0].rtype = 0;
    nvmesub_view_ns(x.s, 1);
    nx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_view_read_is_one_publication),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
