/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The lock of a namespace: two hosts, one that comes back, one that takes it, and none to have. */
#include "test_nvmehost_util.h"

static struct hx x;
static unsigned char data[HX_BLOCK];

/* Another host on the network of the first. */
struct other {
    struct snic_nvmehost *h;
    void *mem;
};

static int other_open(struct other *a, const char *nqn, uint32_t flags)
{
    struct snic_nvmehost_opts o = x.o;
    o.hostnqn = nqn;
    o.flags = flags;
    memset(o.hostid, 0, sizeof(o.hostid)); /* follows from the name */
    size_t size = snic_nvmehost_memsize(&o);
    a->mem = support_guard_alloc(size, SNIC_NVMEHOST_ALIGN);
    assert_int_equal(snic_nvmehost_open(&a->h, a->mem, size, x.hnet, &o), 0);
    for (int i = 0; i < 10000 && snic_nvmehost_state(a->h) == SNIC_EAGAIN; i++)
        hx_run(&x, HX_MS);
    assert_int_equal(snic_nvmehost_check(a->h), 0);
    return snic_nvmehost_state(a->h);
}

static void other_close(struct other *a)
{
    assert_ptr_equal(snic_nvmehost_close(a->h), a->mem);
    support_guard_free(a->mem);
}

static uint32_t other_locked(const struct other *a)
{
    struct snic_nvmehost_stats s;
    snic_nvmehost_get_stats(a->h, &s);
    return s.locked;
}

static void start(uint32_t paths)
{
    hx_opts(&x);
    x.paths = paths;
    x.o.flags = SNIC_NVMEHOST_LOCK;
    hx_open(&x);
    assert_int_equal(hx_stats(&x).locked, 1);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
}

/** A second host is refused while the first is there, whether it wants the lock or only the data;
 * when the first has closed it may. */
static void test_nvmehost_lock_keeps_others_out(void **state)
{
    struct other a;
    (void)state;
    for (uint32_t paths = 1; paths <= 3; paths += 2) {
        start(paths);
        assert_int_equal(other_open(&a, "nqn.other", SNIC_NVMEHOST_LOCK), SNIC_EBUSY);
        assert_int_equal(other_locked(&a), 0);
        other_close(&a);
        assert_int_equal(other_open(&a, "nqn.other", 0), 0);
        struct snic_io *io = x.io;
        x.io = snic_nvmehost_io(a.h);
        assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), SNIC_EPERM);
        x.io = io;
        other_close(&a);
        assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, data, sizeof(data)), sizeof(data));
        hx_close_host(&x);
        assert_int_equal(other_open(&a, "nqn.other", SNIC_NVMEHOST_LOCK), 0);
        assert_int_equal(other_locked(&a), 1);
        other_close(&a);
        hx_close(&x);
    }
}

/** A host that comes back, to the same target and to one that has forgotten, has the lock. */
static void test_nvmehost_lock_held_through_reconnect(void **state)
{
    struct other a;
    (void)state;
    start(2);
    hx_kill_target(&x);
    hx_start_target(&x);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
    assert_int_equal(other_open(&a, "nqn.other", SNIC_NVMEHOST_LOCK), SNIC_EBUSY);
    other_close(&a);
    hx_close_host(&x);
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_wait(x.h, 10 * HX_S), 0);
    x.io = snic_nvmehost_io(x.h);
    assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, data, sizeof(data)), sizeof(data));
    assert_int_equal(hx_stats(&x).locked, 1);
    hx_close(&x);
}

/** The one that takes it has it; the other's requests fail, also after it has connected again. */
static void test_nvmehost_lock_taken(void **state)
{
    struct other a;
    (void)state;
    start(1);
    assert_int_equal(other_open(&a, "nqn.other", SNIC_NVMEHOST_LOCK | SNIC_NVMEHOST_TAKE), 0);
    assert_int_equal(other_locked(&a), 1);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), SNIC_EPERM);
    assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, data, sizeof(data)), SNIC_EPERM);
    struct snic_io *io = x.io;
    x.io = snic_nvmehost_io(a.h);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, sizeof(data)), sizeof(data));
    x.io = io;
    other_close(&a);
    hx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_lock_keeps_others_out),
        cmocka_unit_test(test_nvmehost_lock_held_through_reconnect),
        cmocka_unit_test(test_nvmehost_lock_taken),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
