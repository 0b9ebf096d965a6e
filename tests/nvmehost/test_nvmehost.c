/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options, names, refusals, lost targets, ANA, events, results.
 */
#include "test_nvmehost_util.h"
#include "wire.h"

#include <string.h>

static struct hx x;
static unsigned char data[256 << 10], back[256 << 10];

/* ---- Options and names ---- */

static void wrong(const struct snic_nvmehost_opts *o, const char *name)
{
    const char *text = snic_nvmehost_opts_wrong(o);
    assert_non_null(text);
    assert_memory_equal(text, name, strlen(name));
    assert_int_equal(snic_nvmehost_memsize(o), 0);
}

static void test_nvmehost_opts_out_of_range_refused(void **state)
{
    static const struct snic_net_addr addr[9];
    char name[SNIC_NVME_NQN_BYTES + 1];
    struct snic_nvmehost_opts good = {.opts_size = sizeof(good),
                                      .addrs = addr,
                                      .addr_count = 8,
                                      .subnqn = HX_SUBNQN,
                                      .hostnqn = HX_HOSTNQN},
                              o;
    (void)state;
    memset(name, 'n', sizeof(name));
    name[223] = 0;
    assert_null(snic_nvmehost_opts_wrong(&good));
    o = good;
    o.subnqn = o.hostnqn = name;
    o.queues = 16;
    o.depth = 4096;
    o.entries = 4096;
    o.kato_ms = 3600000;
    o.command_max = 1u << 30;
    o.transfer_max = 1u << 30;
    o.loss_ns = SNIC_NEVER;
    assert_null(snic_nvmehost_opts_wrong(&o));
    name[223] = 'n';
    name[224] = 0;
    wrong(&o, "subnqn: ");
#define WRONG(field, value)                                                                        \
    do {                                                                                           \
        o = good;                                                                                  \
        o.field = (value);                                                                         \
        wrong(&o, #field ": ");                                                                    \
    } while (0)
    WRONG(flags, 16);
    WRONG(pad, 1);
    WRONG(addrs, NULL);
    WRONG(addr_count, 0);
    WRONG(addr_count, 9);
    WRONG(nsid, UINT32_MAX);
    WRONG(subnqn, "");
    WRONG(hostnqn, NULL);
    WRONG(hostnqn, name);
    WRONG(queues, 17);
    WRONG(entries, 1);
    WRONG(entries, 4097);
    WRONG(depth, 4097);
    WRONG(digests, 4);
    WRONG(command_max, 4095);
    WRONG(command_max, (1u << 30) + 4096);
    WRONG(transfer_max, 4096);
    WRONG(transfer_max, (1u << 30) + 65536);
    WRONG(kato_ms, 99);
    WRONG(kato_ms, 3600001);
    WRONG(connect_ns, SNIC_NEVER);
    o = good;
    o.auth = (const void *)&x;
    wrong(&o, "random: ");
    WRONG(io_ns, SNIC_NEVER);
    WRONG(loss_ns, SNIC_NEVER - 1);
    WRONG(fence_ns, SNIC_NEVER);
    WRONG(backoff_ns, SNIC_NEVER);
    o = good;
    o.opts_size = 3;
    wrong(&o, "opts_size: ");
#undef WRONG
}

static void test_nvmehost_memory_small_refused(void **state)
{
    struct snic_nvmehost *h = (void *)&x;
    (void)state;
    hx_opts(&x);
    hx_open_target(&x);
    x.o.addrs = x.addrs;
    x.o.addr_count = 1;
    size_t size = snic_nvmehost_memsize(&x.o);
    assert_int_equal(size % SNIC_NVMEHOST_ALIGN, 0); /* aligned_alloc() requires it */
    void *mem = support_guard_alloc(size, SNIC_NVMEHOST_ALIGN);
    assert_int_equal(snic_nvmehost_open(&h, mem, size - 1, x.hnet, &x.o), SNIC_ENOSPC);
    assert_int_equal(snic_nvmehost_open(&h, (char *)mem + 64, size, x.hnet, &x.o), SNIC_EINVAL);
    x.o.queues = 99;
    assert_int_equal(snic_nvmehost_open(&h, mem, size, x.hnet, &x.o), SNIC_EINVAL);
    assert_ptr_equal(h, (void *)&x);
    support_guard_free(mem);
    x.o.queues = 0;
    hx_close(&x);
}

static void test_nvmehost_uri_parsed(void **state)
{
    struct snic_nvmehost_uri u;
    static const char *const bad[] = {
        "nvme-tcp:/127.0.0.1:1/n",        "nvme-tcp:///nqn",
        "nvme-tcp://1.2.3.4/nqn",         "nvme-tcp://1.2.3.4:4420",
        "nvme-tcp://1.2.3.4:4420/",       "nvme-tcp://1.2.3.4:4420,/nqn",
        "nvme-tcp://1.2.3.4:4420/n?",     "nvme-tcp://1.2.3.4:4420/n?nsid",
        "nvme-tcp://1.2.3.4:4420/n?a=1",  "nvme-tcp://1.2.3.4:4420/n?nsid=0",
        "nvme-tcp://1.2.3.4:1/n?nsid=",   "nvme-tcp://1.2.3.4:1/n?nsid=4294967295",
        "nvme-tcp://1.2.3.4:1/n?nsid=1&", "nvme-tcp://1.2.3.4:1/n?queues=17",
        "nvme-tcp://1.2.3.4:1/n?host=",   "nvme-tcp://1.2.3.4:1/n?digests=all",
        "nvme-tcp://1.2.3.4:1/n?kato=99", "nvme-tcp://1.2.3.4:1/n?volatile=2",
        "nvme-tcp://1.2.3.4:1/n?loss=0",  "nvme-tcp://1.2.3.4:1/n?entries=1",
        "nvme-tcp://1.2.3.4:1/n?lock=2",  "nvme-tcp://1.2.3.4:1/n?hostid=",
    };
    static const char *const bad_id[] = {
        "nvme-tcp://1.2.3.4:1/n?hostid=00000000-0000-0000-0000-000000000000",
        "nvme-tcp://1.2.3.4:1/n?hostid=0123456789abcdef0123456789abcde",
        "nvme-tcp://1.2.3.4:1/n?hostid=0123456789abcdef0123456789abcdef0",
        "nvme-tcp://1.2.3.4:1/n?hostid=0123456789abcdef0123456789abcdeg",
    };
    static const uint8_t id[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                   0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    static const char many[] = "nvme-tcp://1.2.3.4:1,1.2.3.4:1,1.2.3.4:1,1.2.3.4:1,1.2.3.4:1,"
                               "1.2.3.4:1,1.2.3.4:1,1.2.3.4:1,1.2.3.4:1/n";
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        assert_non_null(snic_nvmehost_uri_parse(&u, bad[i]));
    for (size_t i = 0; i < SNIC_COUNTOF(bad_id); i++)
        assert_non_null(snic_nvmehost_uri_parse(&u, bad_id[i]));
    assert_non_null(snic_nvmehost_uri_parse(&u, many)); /* nine */
    assert_int_equal(snic_nvmehost_uri_is("nvme-tcp:/x"), 0);
    assert_int_equal(snic_nvmehost_uri_is("nvme-tcp://"), 1);
    assert_null(snic_nvmehost_uri_parse(&u, "nvme-tcp://1.2.3.4:4420/nqn.2026-11.a:b"));
    assert_int_equal(u.opts.addr_count, 1);
    assert_int_equal(u.addrs[0].port, 4420);
    assert_string_equal(u.subnqn, "nqn.2026-11.a:b");
    assert_string_equal(u.hostnqn, "");
    assert_int_equal(u.opts.nsid, 0);
    assert_null(snic_nvmehost_uri_parse(&u, "nvme-tcp://[::1]:4420,127.0.0.1:4421/nqn?nsid=7&host=h"
                                            "&queues=4&entries=64&kato=2000&loss=9&digests=both"
                                            "&volatile=1&credit=1&volatile=0"));
    assert_int_equal(u.opts.addr_count, 2);
    assert_int_equal(u.addrs[0].family, SNIC_NET_IPV6);
    assert_int_equal(u.addrs[1].port, 4421);
    assert_int_equal(u.opts.nsid, 7);
    assert_string_equal(u.hostnqn, "h");
    assert_int_equal(u.opts.queues, 4);
    assert_int_equal(u.opts.entries, 64);
    assert_int_equal(u.opts.kato_ms, 2000);
    assert_int_equal(u.opts.loss_ns, 9 * HX_S);
    assert_int_equal(u.opts.digests, 3);
    assert_int_equal(u.opts.flags, SNIC_NVMEHOST_CREDIT);
    assert_null(snic_nvmehost_opts_wrong(&u.opts));
    assert_null(snic_nvmehost_uri_parse(
        &u, "nvme-tcp://1.2.3.4:1/n?hostid=01234567-89ab-CDEF-fedc-ba9876543210&nsid=2"));
    assert_memory_equal(u.opts.hostid, id, sizeof(id));
    assert_string_equal(u.hostnqn, "");
    assert_null(snic_nvmehost_uri_parse(&u, "nvme-tcp://1.2.3.4:1/n?lock=take&credit=1&lock=1"));
    assert_int_equal(u.opts.flags, SNIC_NVMEHOST_CREDIT | SNIC_NVMEHOST_LOCK);
    assert_null(snic_nvmehost_uri_parse(&u, "nvme-tcp://1.2.3.4:1/n?lock=1&lock=take"));
    assert_int_equal(u.opts.flags, SNIC_NVMEHOST_LOCK | SNIC_NVMEHOST_TAKE);
    assert_null(snic_nvmehost_uri_parse(&u, "nvme-tcp://1.2.3.4:1/n?lock=take&lock=0"));
    assert_int_equal(u.opts.flags, 0);
}

/* ---- Why no path comes up ---- */

static void refused(int error)
{
    hx_open_host(&x);
    assert_int_equal(snic_nvmehost_state(x.h), SNIC_EAGAIN);
    assert_int_equal(snic_nvmehost_wait(x.h, 2 * HX_S), error);
    assert_null(snic_nvmehost_io(x.h));
    assert_true(hx_stats(&x).failures > 0);
    hx_close_host(&x);
}

static void test_nvmehost_refusals_named(void **state)
{
    static const char *const hosts[] = {"nqn.2026-11.example:other"};
    (void)state;
    hx_opts(&x);
    hx_open_target(&x);
    x.o.subnqn = "nqn.2026-11.example:two";
    refused(SNIC_ENOENT);
    x.o.subnqn = HX_SUBNQN;
    x.o.nsid = 2;
    refused(SNIC_ENOENT);
    x.o.nsid = 0;
    x.addrs[0].port++;
    refused(SNIC_ECONNREFUSED);
    x.addrs[0].port--;
    snic_net_fabric_partition(x.fabric, 2, 1, 1);
    refused(SNIC_ETIMEDOUT);
    snic_net_fabric_partition(x.fabric, 2, 1, 0);
    hx_close(&x);
    hx_opts(&x);
    x.sub.flags = 0;
    x.sub.hosts = hosts;
    x.sub.host_count = 1;
    hx_open_target(&x);
    refused(SNIC_EACCES);
    hx_close(&x);
}

static void ana(uint32_t port, uint8_t state)
{
    assert_int_equal(snic_nvmesub_ana_set(snic_nvmet_engine(x.t, 0), 1, port, state), 0);
    snic_nvmet_run(x.t);
}

/* ---- Lost targets ---- */

/* A target that dies and returns: what was in flight is done by the new one. */
static void test_nvmehost_target_returns_requests_done(void **state)
{
    struct hx_req w[8], r;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.d.delay_min_ns = x.d.delay_max_ns = 20 * HX_MS;
    hx_open(&x);
    hx_fill(data, sizeof(data), 1);
    for (uint32_t i = 0; i < 8; i++)
        hx_start(&x, &w[i], SNIC_IO_WRITE, i * 4096, data + i * 4096, 4096);
    hx_start(&x, &r, SNIC_IO_READ, 8 * 4096, back, 4096);
    hx_run(&x, 10 * HX_MS);
    hx_kill_target(&x);
    hx_run(&x, 500 * HX_MS);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(w[i].done, 0);
    hx_start_target(&x);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(hx_wait(&x, &w[i]), 4096);
    assert_int_equal(hx_wait(&x, &r), 4096);
    assert_int_equal(hx_do(&x, SNIC_IO_READ, 0, back, 8 * 4096), 8 * 4096);
    assert_memory_equal(back, data, 8 * 4096);
    assert_int_equal(hx_stats(&x).proofs, 1);
    assert_int_equal(hx_stats(&x).fenced, 0);
    assert_int_equal(hx_stats(&x).resent, 9);
    hx_close(&x);
}

/* A target that does not: reads fail with EIO, writes of which a command was lost are unknown. */
static void test_nvmehost_target_lost_results(void **state)
{
    struct hx_req w, r, late;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.d.delay_min_ns = x.d.delay_max_ns = 20 * HX_MS;
    x.o.loss_ns = 3 * HX_S;
    hx_open(&x);
    hx_start(&x, &w, SNIC_IO_WRITE, 0, data, 4096);
    hx_start(&x, &r, SNIC_IO_READ, 4096, back, 4096);
    hx_run(&x, 10 * HX_MS);
    hx_kill_target(&x);
    hx_run(&x, HX_S);
    hx_start(&x, &late, SNIC_IO_WRITE, 0, data, 4096);
    assert_int_equal(hx_wait(&x, &w), SNIC_EUNKNOWN);
    assert_int_equal(hx_wait(&x, &r), SNIC_EIO);
    assert_int_equal(hx_wait(&x, &late), SNIC_EIO); /* no command of it was sent */
    assert_in_range(late.req.done_ns - late.req.queued_ns, 3 * HX_S, 3 * HX_S + 100 * HX_MS);
    hx_start_target(&x);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 4096), 4096); /* it is there again */
    hx_close(&x);
}

/* Silence proves nothing: a write waits until its controller has ended for want of Keep Alives, a
 * read does not. */
static void test_nvmehost_silence_fences_changes(void **state)
{
    struct hx_req w, r;
    (void)state;
    hx_opts(&x);
    x.stubborn = 1;
    x.d.delay_min_ns = x.d.delay_max_ns = 20 * HX_MS;
    hx_open(&x);
    hx_start(&x, &w, SNIC_IO_WRITE, 0, data, 4096);
    hx_start(&x, &r, SNIC_IO_READ, 4096, back, 4096);
    hx_run(&x, 10 * HX_MS);
    uint64_t cut = snic_world_now(x.world);
    snic_net_fabric_partition(x.fabric, 2, 1, 1);
    snic_net_fabric_partition(x.fabric, 1, 2, 1);
    hx_run(&x, 3 * HX_S);
    snic_net_fabric_partition(x.fabric, 2, 1, 0);
    snic_net_fabric_partition(x.fabric, 1, 2, 0);
    assert_int_equal(hx_wait(&x, &r), 4096);
    assert_in_range(snic_world_now(x.world), cut + 3 * HX_S, cut + 6 * HX_S);
    assert_int_equal(hx_wait(&x, &w), 4096);
    assert_in_range(snic_world_now(x.world), cut + 3 * HX_S, cut + 9 * HX_S);
    assert_int_equal(hx_stats(&x).fenced, 1);
    assert_int_equal(hx_stats(&x).proofs, 0);
    hx_close(&x);
}

/* A write that the network, or the device, holds while its path ends must not land on anything
 * newer. */
static void test_nvmehost_held_write_lands_on_nothing_newer(void **state)
{
    static struct wire wire;
    static const struct snic_fault slow = {
        .kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = 10 * HX_S};
    (void)state;
    for (uint32_t late = 0; late < 8; late++) {
        struct hx_req w1;
        hx_opts(&x);
        x.paths = 2;
        x.stubborn = 1;
        x.o.kato_ms = 8000;
        x.o.io_ns = 200 * HX_MS;
        hx_open_target(&x);
        struct snic_net_addr to = x.addrs[1];
        wire_open(&wire, x.world, x.fabric, 3, 4421, &to);
        x.addrs[1].node = 3;
        hx_open_host(&x);
        assert_int_equal(snic_nvmehost_wait(x.h, 10 * HX_S), 0);
        x.io = snic_nvmehost_io(x.h);
        ana(0, SNIC_NVME_ANA_NON_OPTIMIZED);
        hx_run(&x, 200 * HX_MS);
        assert_int_equal(hx_stats(&x).usable, 2);
        memset(data, 1, 4096);
        memset(data + 4096, 2, 4096);
        if (late % 2 == 0)
            snic_net_fabric_partition(x.fabric, 3, 1, 1);
        else
            assert_int_equal(snic_disk_fault(x.disk, &slow), 0);
        hx_start(&x, &w1, SNIC_IO_WRITE, 0, data, 4096);
        hx_run(&x, 50 * HX_MS);
        snic_net_fabric_partition(x.fabric, 3, 1, 1);
        hx_run(&x, 350 * HX_MS); /* the path ends, the write is in the network */
        assert_int_equal(hx_stats(&x).up, 1);
        if (late < 4)
            hx_run(&x, late * HX_S);
        else
            hx_run(&x, late * 7 * HX_S); /* longer than fence_ns */
        if (late >= 4)
            assert_int_equal(w1.done, 1);
        if (w1.done) {
            assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data + 4096, 4096), 4096);
            snic_net_fabric_partition(x.fabric, 3, 1, 0);
        } else {
            snic_net_fabric_partition(x.fabric, 3, 1, 0);
            assert_int_equal(hx_wait(&x, &w1), 4096);
            assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data + 4096, 4096), 4096);
        }
        hx_run(&x, 20 * HX_S);
        assert_memory_equal(snic_disk_bytes(x.disk), data + 4096, 4096);
        hx_close_host(&x);
        wire_close(&wire);
        hx_close(&x);
    }
}

/* ---- Events ---- */

static void test_nvmehost_resize_followed(void **state)
{
    (void)state;
    hx_opts(&x);
    hx_open(&x);
    struct snic_nvmesub *e = snic_nvmet_engine(x.t, 0);
    assert_int_equal(x.io->geometry.size, HX_BYTES);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(snic_nvmesub_ns_resize(e, 1, HX_BLOCKS / 2 + i), 0);
        snic_nvmet_run(x.t);
        hx_run(&x, 100 * HX_MS);
        assert_int_equal(x.io->geometry.size, (HX_BLOCKS / 2 + i) * HX_BLOCK);
        assert_int_equal(hx_stats(&x).resizes, i);
    }
    assert_int_equal(hx_do(&x, SNIC_IO_READ, HX_BYTES - HX_BLOCK, back, HX_BLOCK), SNIC_ERANGE);
    assert_int_equal(hx_stats(&x).connects, 1);
    hx_close(&x);
}

/* Requests follow the ANA states; with no path left they wait. */
static void test_nvmehost_ana_followed(void **state)
{
    struct hx_req r;
    (void)state;
    hx_opts(&x);
    x.paths = 2;
    hx_open(&x);
    hx_run(&x, 100 * HX_MS);
    assert_int_equal(hx_stats(&x).usable, 2);
    ana(0, SNIC_NVME_ANA_INACCESSIBLE);
    assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 4096), 4096);
    hx_run(&x, 100 * HX_MS);
    assert_int_equal(hx_stats(&x).usable, 1);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 4096), 4096);
    ana(1, SNIC_NVME_ANA_CHANGE);
    hx_start(&x, &r, SNIC_IO_WRITE, 0, data, 4096);
    hx_run(&x, 2 * HX_S);
    assert_int_equal(r.done, 0);
    assert_int_equal(hx_stats(&x).usable, 0);
    assert_int_equal(hx_stats(&x).up, 2);
    ana(0, SNIC_NVME_ANA_NON_OPTIMIZED);
    assert_int_equal(hx_wait(&x, &r), 4096);
    ana(1, SNIC_NVME_ANA_OPTIMIZED);
    hx_run(&x, 100 * HX_MS);
    assert_int_equal(hx_stats(&x).usable, 2);
    assert_int_equal(hx_stats(&x).failures, 0);
    hx_close(&x);
}

/* ---- Results ---- */

static void test_nvmehost_status_becomes_error(void **state)
{
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .after = 1, .error = SNIC_ENOSPC};
    struct hx_req r;
    (void)state;
    hx_opts(&x);
    hx_open(&x);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    hx_start(&x, &r, SNIC_IO_WRITE, 0, data, 4096);
    assert_int_equal(hx_wait(&x, &r), SNIC_ENOSPC);
    assert_int_equal(r.req.os_error, SNIC_NVME_SC_CAPACITY);
    f.error = SNIC_EAGAIN; /* worth another try */
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    hx_start(&x, &r, SNIC_IO_WRITE, 0, data, 4096);
    assert_int_equal(hx_wait(&x, &r), 4096);
    assert_int_equal(r.req.os_error, 0);
    assert_int_equal(hx_stats(&x).retries, 1);
    hx_close(&x);
}

/* Writes are durable when they complete, unless the cache may hold them. */
static void test_nvmehost_writes_durable(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        hx_opts(&x);
        x.o.flags = i == 0 ? 0 : SNIC_NVMEHOST_VOLATILE;
        hx_open(&x);
        assert_int_equal(hx_do(&x, SNIC_IO_WRITE, 0, data, 65536), 65536);
        assert_int_equal(hx_do(&x, SNIC_IO_ZERO, 0, NULL, 4096), 4096);
        assert_int_equal(snic_disk_unsynced(x.disk, NULL, 0), i == 0 ? 0 : 16);
        assert_int_equal(hx_do(&x, SNIC_IO_FLUSH, 0, NULL, 0), 0);
        assert_int_equal(snic_disk_unsynced(x.disk, NULL, 0), 0);
        hx_close(&x);
    }
}

static void test_nvmehost_cancelled_before_sent(void **state)
{
    struct hx_req r, w;
    (void)state;
    hx_opts(&x);
    hx_open(&x);
    hx_kill_target(&x);
    hx_run(&x, 10 * HX_MS);
    hx_start(&x, &r, SNIC_IO_READ, 0, back, 4096);
    hx_start(&x, &w, SNIC_IO_WRITE, 0, data, 4096);
    snic_io_cancel(x.io, &r.req);
    assert_int_equal(hx_wait(&x, &r), SNIC_ECANCELED);
    hx_start_target(&x);
    assert_int_equal(hx_wait(&x, &w), 4096);
    hx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmehost_opts_out_of_range_refused),
        cmocka_unit_test(test_nvmehost_memory_small_refused),
        cmocka_unit_test(test_nvmehost_uri_parsed),
        cmocka_unit_test(test_nvmehost_refusals_named),
        cmocka_unit_test(test_nvmehost_target_returns_requests_done),
        cmocka_unit_test(test_nvmehost_target_lost_results),
        cmocka_unit_test(test_nvmehost_silence_fences_changes),
        cmocka_unit_test(test_nvmehost_held_write_lands_on_nothing_newer),
        cmocka_unit_test(test_nvmehost_resize_followed),
        cmocka_unit_test(test_nvmehost_ana_followed),
        cmocka_unit_test(test_nvmehost_status_becomes_error),
        cmocka_unit_test(test_nvmehost_writes_durable),
        cmocka_unit_test(test_nvmehost_cancelled_before_sent),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
