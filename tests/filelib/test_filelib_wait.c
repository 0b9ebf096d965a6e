/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Waiting and batches, in worlds where time is virtual: what is counted are turns of the loops, so
 * that a loop that looks again and again instead of sleeping is seen however fast it is.
 */
#include "filelinks.h"
#include "support.h"

static uint64_t turns(const struct snic_loop *l)
{
    struct snic_loop_stats st;
    snic_loop_get_stats(l, &st);
    return st.iterations;
}

/* Until nothing can ever happen again: no timer, no poll, no message is left. */
static void run_dry(struct filelink *l)
{
    uint32_t steps = 0;
    while (snic_world_step(l->fx.world) != 0)
        if (++steps == 100000)
            fail_msg("the world does not come to rest: something looks again and again");
}

static void read_start(struct filelink *l, struct snic_filelib_req *r, uint64_t file, void *buf,
                       size_t n)
{
    struct snic_filelib_req *p = r;
    memset(r, 0, sizeof(*r));
    r->op = SNIC_FILES_READ;
    r->file = file;
    r->length = n;
    r->buf.base = buf;
    r->buf.size = n;
    snic_filelib_submit(l->group, &p, 1);
}

/* A group without requests: host and DPU sleep until a request, whatever the link. */
static void test_filelib_idle_nothing_turns(void **state)
{
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_req *none[1];
        unsigned char byte = 0;
        uint64_t host;
        uint64_t dpu;
        uint64_t a;
        link_setup(&l, kind);
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        assert_int_equal(filelink_write(l.group, a, 0, "x", 1, SNIC_FILES_SYNC), 1);
        run_dry(&l);
        host = turns(l.host_loop);
        dpu = turns(l.fx.loop);
        assert_int_equal(snic_filelib_wait(l.group, none, 1, UINT64_C(3600000000000)), 0);
        assert_true(turns(l.host_loop) - host <= 3); /* an hour: its time-out, and no more */
        assert_int_equal(turns(l.fx.loop), dpu);
        assert_int_equal(filelink_read(l.group, a, 0, &byte, 1), 1); /* and they wake up */
        assert_int_equal(byte, 'x');
        filelink_close(&l);
    }
}

/* Turns of host and DPU for one read of a device that takes `delay_ns`. */
static uint64_t read_turns(unsigned kind, uint64_t delay_ns)
{
    struct filelink l;
    struct snic_filelib_req r;
    struct snic_filelib_req *out[1];
    unsigned char buf[100];
    uint64_t before;
    uint64_t after;
    uint64_t a;
    link_setup(&l, kind);
    l.fx.disk_opts.delay_min_ns = delay_ns;
    l.fx.disk_opts.delay_max_ns = delay_ns;
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    assert_int_equal(filelink_write(l.group, a, 0, links, sizeof(links), SNIC_FILES_SYNC),
                     sizeof(links));
    run_dry(&l);
    before = turns(l.host_loop) + turns(l.fx.loop);
    read_start(&l, &r, a, buf, 50);
    assert_int_equal(snic_filelib_wait(l.group, out, 1, SNIC_NEVER), 1);
    assert_ptr_equal(out[0], &r);
    assert_int_equal(r.result, 50);
    after = turns(l.host_loop) + turns(l.fx.loop);
    filelink_close(&l);
    return after - before;
}

/* A waiter sleeps: a device a thousand times as slow costs not one iteration more. */
static void test_filelib_wait_slow_device_no_more_turns(void **state)
{
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        uint64_t fast = read_turns(kind, 10000000);
        uint64_t slow = read_turns(kind, UINT64_C(10000000000));
        assert_true(fast > 0);
        assert_in_range(slow, 1, fast);
    }
}

static uint64_t flushes(const struct filelink *l)
{
    struct snic_channel_stats st;
    snic_channel_get_stats(snic_files_server_channel(l->server), &st);
    return st.flushes;
}

/*
 * Responses are collected up to batch_bytes, far more than one has: a single one is delivered all
 * the same, since the DPU goes idle; many at once share deliveries.
 */
static void test_filelib_batch_single_response_does_not_wait(void **state)
{
    unsigned kind;
    (void)state;
    for (kind = 0; kind < SNIC_COUNTOF(links); kind++) {
        struct filelink l;
        struct snic_filelib_req r[32];
        struct snic_filelib_req *out[32];
        static unsigned char buf[32][64];
        uint64_t before;
        uint64_t a;
        uint32_t n;
        uint32_t i;
        link_setup(&l, kind);
        l.fx.disk_opts.delay_max_ns = 0;
        l.serve.batch_bytes = 30000;
        filelink_open(&l);
        assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
        assert_int_equal(filelink_write(l.group, a, 0, buf, sizeof(buf), 0), sizeof(buf));
        for (i = 0; i < 5; i++) {
            run_dry(&l);
            before = flushes(&l);
            read_start(&l, &r[0], a, buf[0], 64);
            run_dry(&l); /* nothing else will come: it must have been delivered */
            assert_int_equal(snic_filelib_poll(l.group, out, 32), 1);
            assert_int_equal(r[0].result, 64);
            assert_int_equal(flushes(&l) - before, 1);
        }
        before = flushes(&l);
        for (i = 0; i < 32; i++)
            read_start(&l, &r[i], a, buf[i], 64);
        run_dry(&l);
        for (n = 0; n < 32;) {
            uint32_t got = snic_filelib_poll(l.group, out, 32);
            assert_true(got > 0);
            n += got;
        }
        assert_true(flushes(&l) - before < 32);
        filelink_close(&l);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_idle_nothing_turns),
        cmocka_unit_test(test_filelib_wait_slow_device_no_more_turns),
        cmocka_unit_test(test_filelib_batch_single_response_does_not_wait),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
