/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table built with the CPU's tag compare and the one in portable C are one and the same. */
#include "test_cuckoo_util.h"

int second_init(struct snic_cuckoo **out, void *mem, size_t mem_size,
                const struct snic_cuckoo_opts *o);
int second_put(struct snic_cuckoo *t, const void *key, const void *item);
int second_get(const struct snic_cuckoo *t, const void *key, void *item);
int second_del(struct snic_cuckoo *t, const void *key);
uint64_t second_get_n(const struct snic_cuckoo *t, const void *keys, uint32_t n, void *items);
uint32_t second_put_n(struct snic_cuckoo *t, const void *keys, const void *items, uint32_t n);

static void twin_step(struct util_table *a, struct snic_cuckoo *b, struct snic_rng *rng)
{
    uint64_t key[SNIC_CUCKOO_BATCH_MAX][2];
    uint64_t item[SNIC_CUCKOO_BATCH_MAX][2];
    uint64_t out_a[SNIC_CUCKOO_BATCH_MAX][2] = {{0}};
    uint64_t out_b[SNIC_CUCKOO_BATCH_MAX][2] = {{0}};

    for (uint32_t i = 0; i < SNIC_CUCKOO_BATCH_MAX; i++) {
        key[i][0] = key[i][1] = snic_rng_below(rng, 1300);
        item[i][0] = item[i][1] = snic_rng_next(rng);
    }
    switch (snic_rng_below(rng, 8)) {
    case 0:
    case 1:
        assert_int_equal(snic_cuckoo_get(a->t, key, out_a), second_get(b, key, out_b));
        break;
    case 2:
        assert_int_equal(snic_cuckoo_del(a->t, key), second_del(b, key));
        break;
    case 3:
        assert_true(snic_cuckoo_get_n(a->t, key, 64, out_a) == second_get_n(b, key, 64, out_b));
        break;
    case 4:
        assert_int_equal(snic_cuckoo_put_n(a->t, key, item, 4), second_put_n(b, key, item, 4));
        break;
    default:
        assert_int_equal(snic_cuckoo_put(a->t, key, item), second_put(b, key, item));
        break;
    }
    assert_memory_equal(out_a, out_b, sizeof(out_a));
}

/* A lane order or mask that differs between the two shows as another byte in the tables. */
static void test_cuckoo_scalar_twin_same_bytes(void **state)
{
    struct util_table a;
    struct snic_cuckoo *b;
    struct snic_rng rng;
    void *mem;

    (void)state;
    snic_rng_init(&rng, support_seed());
    util_open(&a, 16, 16, 1024, support_seed());
    mem = support_guard_alloc(a.size, SNIC_CUCKOO_ALIGN);
    assert_int_equal(second_init(&b, mem, a.size, &a.o), 0);
    for (uint64_t i = 0; i < support_scale(20000, 1000000); i++) {
        twin_step(&a, b, &rng);
        if (i % 16 == 0)
            assert_memory_equal(a.mem, mem, a.size);
    }
    assert_memory_equal(a.mem, mem, a.size);
    assert_int_equal(snic_cuckoo_check(a.t), 0);
    util_close(&a);
    support_guard_free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_scalar_twin_same_bytes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
