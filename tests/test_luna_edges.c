/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is at the edge of luna.h. */
#include "test_luna_util.h"

/* A place that nobody can say keeps nobody waiting but who needs it. */
static void test_luna_edges_unknown_place_others_go_on(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_luna_io lost, other;
    (void)state;
    duo_open(d);
    d->mute = d->still = 1;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, d->seg_gen, d->now), 0);
    duo_io(d, &lost, SNIC_LUNA_ZERO, 600, 1, NULL, 0);
    duo_io(d, &other, SNIC_LUNA_ZERO, 3, 1, NULL, 0);
    assert_true(duo_until(d, 1, 400));
    assert_true(other.done_ns != 0 && other.result == 0 && lost.done_ns == 0);
    assert_true(d->told[SNIC_LUNA_MAP] > 0);
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, d->seg_gen, d->now), 0);
    assert_true(duo_until(d, 2, 400));
    assert_int_equal(lost.result, 0);
    duo_close(d);
}

/* Who does not say who he is keeps his place for a second, whatever he says: not for ten. */
static void test_luna_edges_strangers_make_room(void **state)
{
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .conns_max = 2};
    struct snic_luna_target *t;
    struct snic_luna_target_action a;
    const uint64_t second = UINT64_C(1000000000);
    uint32_t h[3];
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[0], 5), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[1], 3 + second / 2), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, second), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second + 5), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, second + 5), 1);
    assert_true(a.type == SNIC_LUNA_TARGET_CLOSE && a.handle == h[0]);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second + 6), 0);
    assert_int_equal(snic_luna_target_check(t), 0);
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_luna_edges_strangers_make_room),
        cmocka_unit_test(test_luna_edges_unknown_place_others_go_on),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
