/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The target's contract, and each kind of command from a host's queue to the disk and back. */
#include "test_nvmet_util.h"

#include <string.h>

static struct tx x;
static struct nh_queue admin, io;
static unsigned char out[1 << 18], in[1 << 18];

/* ---- Contract ---- */

/** Each option beyond its range is named, and there is no size for it. */
static void test_nvmet_opts_out_of_range_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t bad;
        const char *name;
    } cases[] = {
#define FIELD(f, v) {offsetof(struct snic_nvmet_opts, f), v, #f}
        FIELD(flags, 2),
        FIELD(conns_max, 1),
        FIELD(conns_max, SNIC_NVMET_CONNS_MAX + 1),
        FIELD(host_conns_max, 65),
        FIELD(loops_max, SNIC_NVMET_LOOPS_MAX + 1),
        FIELD(subsystems_max, SNIC_NVMET_SUBSYSTEMS_MAX + 1),
        FIELD(namespaces_max, SNIC_NVMET_NAMESPACES_MAX + 1),
        FIELD(queues_max, 65),
        FIELD(depth_max, 31),
        FIELD(depth_max, SNIC_NVMET_DEPTH_MAX + 1),
        FIELD(data_max, 2048),
        FIELD(data_max, 12288),
        FIELD(data_max, 2u << 20),
        FIELD(data_bytes, 4096),
        FIELD(data_bytes, SNIC_NVMET_DATA_BYTES_MAX + 4096),
        FIELD(data_bytes, (1u << 20) + 512),
        FIELD(capsule_bytes, 24),
        FIELD(capsule_bytes, (1u << 20) + 16),
        FIELD(capsules, 129),
#undef FIELD
    };
    struct snic_nvmet_opts o = {.opts_size = sizeof(o)};
    (void)state;
    assert_null(snic_nvmet_opts_wrong(&o));
    assert_int_not_equal(snic_nvmet_memsize(&o), 0);
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        struct snic_nvmet_opts bad = o;
        memcpy((char *)&bad + cases[i].at, &cases[i].bad, sizeof(uint32_t));
        support_names(snic_nvmet_opts_wrong(&bad), cases[i].name);
        assert_int_equal(snic_nvmet_memsize(&bad), 0);
    }
    o.greet_ns = SNIC_NVMETCP_NS_MAX + 1;
    support_names(snic_nvmet_opts_wrong(&o), "greet_ns");
    o.greet_ns = 0;
    o.data_ns = SNIC_NVMETCP_NS_MAX + 1;
    support_names(snic_nvmet_opts_wrong(&o), "data_ns");
    o.data_ns = 0;
    o.close_ns = SNIC_NVMETCP_NS_MAX + 1;
    support_names(snic_nvmet_opts_wrong(&o), "close_ns");
    o.opts_size = 3;
    support_names(snic_nvmet_opts_wrong(&o), "opts_size");
}

/** At their limits options are accepted, and a byte less of memory is not. */
static void test_nvmet_open_memory_short_refused(void **state)
{
    struct snic_nvmet *t = NULL;
    struct snic_nvmet_opts big = {.opts_size = sizeof(big),
                                  .conns_max = 16384,
                                  .host_conns_max = 16384,
                                  .subsystems_max = 64,
                                  .namespaces_max = 4096,
                                  .queues_max = 64,
                                  .depth_max = 1024,
                                  .data_max = 1u << 20,
                                  .data_bytes = 64u << 20,
                                  .capsule_bytes = 1u << 20,
                                  .capsules = 1024};
    (void)state;
    assert_int_not_equal(snic_nvmet_memsize(&big), 0);
    tx_opts(&x);
    x.idle = 1;
    tx_open(&x);
    size_t size = snic_nvmet_memsize(&x.o);
    unsigned char *mem = support_guard_alloc(size, SNIC_NVMET_ALIGN);
    assert_int_equal(snic_nvmet_open(&t, mem, size - SNIC_NVMET_ALIGN, x.net[0], &x.o),
                     SNIC_ENOSPC);
    assert_int_equal(snic_nvmet_open(&t, mem + 64, size - 64, x.net[0], &x.o), SNIC_EINVAL);
    x.o.depth_max = 1;
    assert_int_equal(snic_nvmet_open(&t, mem, size, x.net[0], &x.o), SNIC_EINVAL);
    assert_null(t);
    support_guard_free(mem);
    tx_close(&x);
}

static void test_nvmet_subsystem_errors_change_nothing(void **state)
{
    static const char *const bad_hosts[] = {""};
    (void)state;
    tx_opts(&x);
    x.o.subsystems_max = 2;
    tx_open(&x);
    struct snic_nvmet_subsystem_opts s = x.s;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EEXIST);
    s.subnqn = SNIC_NVME_DISCOVERY_NQN;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EEXIST);
    s.subnqn = "";
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.subnqn = NULL;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.subnqn = "nqn.2026-11.example:two";
    s.flags = SNIC_NVMESUB_DISCOVERY;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.flags = 0;
    s.serial = "123456789012345678901";
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.serial = NULL;
    s.hosts = bad_hosts;
    s.host_count = 1;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.host_count = 65;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_EINVAL);
    s.host_count = 0;
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), 1);
    s.subnqn = "nqn.2026-11.example:three";
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &s), SNIC_ENOSPC);
    assert_non_null(snic_nvmet_engine(x.t, 1));
    assert_null(snic_nvmet_engine(x.t, 2));
    tx_close(&x);
}

/** Loops that may not be joined, and ports that may not be shared. */
static void test_nvmet_join_errors_change_nothing(void **state)
{
    struct snic_net_addr a;
    struct snic_nvmet *t = NULL;
    struct snic_loop *loop;
    struct snic_net *net;
    (void)state;
    tx_opts(&x);
    x.idle = 1;
    tx_open(&x); /* 3 loops */
    assert_int_equal(snic_world_loop(x.world, 9, &loop), 0);
    assert_int_equal(snic_net_sim_open(&net, x.fabric, loop, NULL), 0);
    size_t size = snic_nvmet_join_memsize(&x.o);
    assert_true(size < snic_nvmet_memsize(&x.o));
    unsigned char *mem = support_guard_alloc(size, SNIC_NVMET_ALIGN);
    assert_int_equal(snic_nvmet_join(&t, mem, size, net, x.all[0]), SNIC_ENOSPC);
    assert_int_equal(snic_nvmet_join(&t, mem, size, net, x.all[1]), SNIC_EINVAL);
    tx_close_target(&x);
    x.o.loops_max = 2;
    unsigned char *first = support_guard_alloc(snic_nvmet_memsize(&x.o), SNIC_NVMET_ALIGN);
    assert_int_equal(snic_nvmet_open(&x.all[0], first, snic_nvmet_memsize(&x.o), x.net[0], &x.o),
                     0);
    assert_int_equal(snic_nvmet_join(&t, mem, size, x.net[0], x.all[0]), SNIC_EEXIST);
    assert_int_equal(snic_nvmet_join(&t, mem, size - SNIC_NVMET_ALIGN, net, x.all[0]), SNIC_ENOSPC);
    assert_int_equal(snic_nvmet_join(&t, mem + 64, size - 64, net, x.all[0]), SNIC_EINVAL);
    assert_int_equal(snic_nvmet_subsystem_add(x.all[0], &x.s), 0);
    x.n.io = x.io; /* on a loop that has not joined */
    assert_int_equal(snic_nvmet_ns_add(x.all[0], 0, &x.n), SNIC_EINVAL);
    assert_int_equal(snic_io_mem_open(&x.n.io, x.loop[0], x.disk), 0);
    assert_int_equal(snic_nvmet_ns_add(x.all[0], 0, &x.n), 1);
    assert_int_equal(snic_nvmet_join(&t, mem, size, net, x.all[0]), SNIC_EBUSY);
    assert_null(t);
    assert_int_equal(snic_nvmet_ns_remove(x.all[0], 0, 1, NULL, NULL), 0);
    assert_int_equal(snic_nvmet_join(&t, mem, size, net, x.all[0]), 0);
    assert_null(snic_nvmet_engine(t, 0));
    a = tx_addr(0);
    assert_int_equal(snic_nvmet_listen(t, &a, NULL), SNIC_EINVAL);
    assert_int_equal(snic_nvmet_share(t, 0, NULL), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_listen(x.all[0], &a, NULL), 0);
    assert_int_equal(snic_nvmet_share(x.all[0], 0, NULL), SNIC_EINVAL);
    a.node = 9;
    assert_int_equal(snic_nvmet_share(t, 0, &a), 0);
    assert_int_equal(snic_nvmet_share(t, 0, &a), SNIC_EEXIST);
    snic_nvmet_stop(x.all[0]);
    assert_ptr_equal(snic_nvmet_close(t), mem);
    assert_ptr_equal(snic_nvmet_close(x.all[0]), first);
    support_guard_free(first);
    support_guard_free(mem);
    snic_io_close(x.n.io);
    snic_net_shut(net);
    snic_loop_close(loop);
    tx_close(&x);
}

static void test_nvmet_namespace_errors_change_nothing(void **state)
{
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    struct snic_nvmet_ns_opts n = x.n;
    struct snic_io fake = *x.io;
    n.nsid = 1;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EEXIST);
    n.nsid = 0;
    assert_int_equal(snic_nvmet_ns_add(x.t, 1, &n), SNIC_ENOENT);
    n.shift = 10;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL);
    n.shift = 0;
    n.io = NULL;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL);
    n.io = x.io;
    n.reserve = snic_qos_reserve;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL); /* without commit */
    n.reserve = NULL;
    n.io = &fake;
    fake.geometry.block = 8192;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL);
    fake.geometry = x.io->geometry;
    fake.geometry.transfer_max = 4096;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL);
    fake.geometry = x.io->geometry;
    fake.geometry.memory_align = 8192;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL);
    fake.geometry = x.io->geometry;
    fake.caps = SNIC_IO_CAP_FUA;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_ENOTSUP);
    fake.caps = x.io->caps;
    fake.geometry.size = 4095;
    n.shift = 12;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_ENOSPC);
    n.io = x.io;
    n.uuid[0] = 0;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), SNIC_EINVAL); /* no identifier */
    n.uuid[0] = 9;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &n), 2);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 3, NULL, NULL), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 1, 1, NULL, NULL), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 2, NULL, NULL), 0);
    tx_close(&x);
}

static void test_nvmet_listen_addresses(void **state)
{
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = 1, .port = 4420}, b;
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    assert_int_equal(snic_nvmet_listen(x.t, &a, NULL), SNIC_EADDRINUSE);
    for (uint32_t i = 1; i < SNIC_NVMESUB_PORTS_MAX; i++) {
        a.port = (uint16_t)(5000 + i);
        assert_int_equal(snic_nvmet_listen(x.t, &a, NULL), i);
    }
    assert_int_equal(snic_nvmet_listen(x.t, &a, NULL), SNIC_ENOSPC);
    assert_int_equal(snic_nvmet_listen_addr(x.t, 3, &b), 0);
    assert_int_equal(b.port, 5003);
    assert_int_equal(snic_nvmet_listen_addr(x.t, 16, &b), SNIC_ENOENT);
    tx_close(&x);
}

/** Tenants depend on the name alone. */
static void test_nvmet_tenant_of_name(void **state)
{
    (void)state;
    assert_int_equal(snic_nvmet_tenant("nqn.a"), snic_nvmet_tenant("nqn.a"));
    assert_int_not_equal(snic_nvmet_tenant("nqn.a"), snic_nvmet_tenant("nqn.b"));
    assert_int_not_equal(snic_nvmet_tenant("nqn.a"), SNIC_QOS_DEFAULT);
}

/* ---- Connect ---- */

static void test_nvmet_connect_unknown_subsystem_refused(void **state)
{
    uint64_t result;
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = SNIC_NVME_FABRICS_CONNECT, .cdw11 = 31};
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    assert_int_equal(nh_open(&admin, &x.h[0]), 0);
    memset(&d, 'x', sizeof(d)); /* names without an end */
    snic_nvmetcp_host_inline(admin.e, 8192);
    assert_int_equal(nh_run(&admin, &e, &d, sizeof(d), &result),
                     SNIC_NVME_SC_CONNECT_PARAM | SNIC_NVME_DNR);
    assert_int_equal(result, 256 | SNIC_NVME_IATTR_DATA);
    assert_int_equal(nh_run(&admin, &e, &d, 512, NULL), SNIC_NVME_SC_SGL_LENGTH | SNIC_NVME_DNR);
    x.h[0].subnqn = "nqn.2026-11.example:none";
    assert_int_equal(nh_connect(&admin, 0, SNIC_NVME_CNTLID_DYNAMIC),
                     SNIC_NVME_SC_CONNECT_PARAM | SNIC_NVME_DNR);
    assert_int_equal(tx_stats(&x).unknown, 2);
    x.h[0].subnqn = TX_SUBNQN; /* the connection is still good */
    assert_int_equal(nh_connect(&admin, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    nh_close(&admin);
    tx_close(&x);
}

/** Hosts that are not in the list are refused, and do not see the subsystem. */
static void test_nvmet_discovery_shows_allowed_subsystems(void **state)
{
    static const char *const allowed[] = {"nqn.2026-11.example:h1"};
    struct snic_nvmet_subsystem_opts two = {.opts_size = sizeof(two),
                                            .subnqn = "nqn.2026-11.example:two",
                                            .hosts = allowed,
                                            .host_count = 1};
    struct snic_nvme_discovery_entry *e = (void *)(in + 1024);
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    struct snic_net_addr b = {.family = SNIC_NET_SIM, .node = 1, .port = 4421};
    struct snic_net_addr shown;
    assert_int_equal(snic_net_addr_parse(&shown, "[fe80::2]:8009"), 0);
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &two), 1);
    assert_int_equal(snic_nvmet_listen(x.t, &b, &shown), 1);
    for (int i = 0; i < 2; i++) {
        x.h[i].subnqn = SNIC_NVME_DISCOVERY_NQN;
        assert_int_equal(nh_admin(&admin, &x.h[i]), 0);
        assert_int_equal(nh_log(&admin, SNIC_NVME_LOG_DISCOVERY, in, 8192), 0);
        assert_int_equal(snic_get_le64(in + 8), i == 0 ? 2 : 4);
        nh_close(&admin);
    }
    assert_string_equal((char *)e[1].subnqn, TX_SUBNQN);
    assert_memory_equal(e[1].traddr, "fe80::2 ", 8);
    assert_memory_equal(e[1].trsvcid, "8009 ", 5);
    assert_int_equal(e[1].adrfam, SNIC_NVME_ADRFAM_IPV6);
    assert_int_equal(e[1].trtype, SNIC_NVME_TRTYPE_TCP);
    assert_int_equal(e[1].treq, SNIC_NVME_TREQ_NOT_SPECIFIED);
    assert_string_equal((char *)e[2].subnqn, two.subnqn);
    x.h[0].subnqn = two.subnqn;
    assert_int_equal(nh_admin(&admin, &x.h[0]), SNIC_NVME_SC_CONNECT_HOST | SNIC_NVME_DNR);
    nh_close(&admin);
    x.h[1].subnqn = two.subnqn;
    assert_int_equal(nh_admin(&admin, &x.h[1]), 0);
    nh_close(&admin);
    tx_close(&x);
}

/* ---- I/O ---- */

static void io_sizes(void)
{
    static const uint32_t blocks[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < SNIC_COUNTOF(blocks); i++) {
        uint32_t bytes = blocks[i] * TX_BLOCK;
        tx_fill(out, bytes, i + 1);
        memset(in, 0, bytes);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 40 + i, blocks[i], out, bytes), 0);
        assert_memory_equal(snic_disk_bytes(x.disk) + (40 + i) * TX_BLOCK, out, bytes);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 40 + i, blocks[i], in, bytes), 0);
        assert_memory_equal(in, out, bytes);
    }
}

/** Data in the capsule and by R2T, each with and without digests and SQ flow control. */
static void test_nvmet_write_read_verify(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        tx_opts(&x);
        tx_open(&x);
        x.h[0].capsule = (i & 1) != 0 ? 8192 : 0;
        x.h[0].digests = (i & 2) != 0 ? SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST : 0;
        x.h[0].no_sq_flow = (i & 4) != 0;
        tx_host(&x, 0, &admin, &io);
        io_sizes();
        assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_NS, 1, in), 0);
        assert_int_equal(snic_get_le64(in), TX_BLOCKS);
        assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_CTRL, 0, in), 0);
        assert_string_equal((char *)((struct snic_nvme_id_ctrl *)(void *)in)->subnqn, TX_SUBNQN);
        struct snic_nvmet_stats s = tx_stats(&x);
        assert_int_equal(s.writes, 5);
        assert_int_equal(s.read_bytes, 29 * TX_BLOCK);
        assert_int_equal(s.queues, 1);
        assert_int_equal(s.at_device, 0);
        nh_close(&io);
        nh_close(&admin);
        tx_close(&x);
    }
}

static struct snic_nvmet_observed observed[64];
static uint32_t observed_count;

static void observe(void *ctx, const struct snic_nvmet_observed *o)
{
    assert_ptr_equal(ctx, &observed_count);
    assert_true(observed_count < SNIC_COUNTOF(observed));
    observed[observed_count++] = *o;
}

/** Each I/O command is observed once, as what it was, with its host's tenant; admin is not. */
static void test_nvmet_observe_each_command_once(void **state)
{
    (void)state;
    tx_opts(&x);
    x.o.observe = observe;
    x.o.observe_ctx = &observed_count;
    observed_count = 0;
    tx_open(&x);
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 4, 2, out, 2 * TX_BLOCK), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 4, 3, in, 3 * TX_BLOCK), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_FLUSH, 1, 0, 1, NULL, 0), 0);
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .after = 1, .error = SNIC_EIO};
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_not_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
    static const uint32_t kinds[] = {SNIC_NVMESUB_WRITE, SNIC_NVMESUB_READ, SNIC_NVMESUB_FLUSH,
                                     SNIC_NVMESUB_READ};
    static const uint32_t bytes[] = {2 * TX_BLOCK, 3 * TX_BLOCK, 0, TX_BLOCK};
    assert_int_equal(observed_count, SNIC_COUNTOF(kinds));
    for (uint32_t i = 0; i < observed_count; i++) {
        assert_int_equal(observed[i].kind, kinds[i]);
        assert_int_equal(observed[i].bytes, bytes[i]);
        assert_int_equal(observed[i].status != 0, i == 3);
        assert_int_equal(observed[i].tenant, snic_nvmet_tenant(x.h[0].hostnqn));
        assert_int_equal(observed[i].subsystem, 0);
        assert_int_equal(observed[i].nsid, 1);
        assert_true(observed[i].ns < UINT64_C(1000000000));
    }
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** What io_check refuses never reaches the disk, and no data are asked for. */
static void test_nvmet_refused_before_data_move(void **state)
{
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin, &io);
    uint64_t ops = snic_disk_op_count(x.disk);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, TX_BLOCKS, 1, out, TX_BLOCK),
                     SNIC_NVME_SC_LBA_RANGE | SNIC_NVME_DNR);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 2, 0, 1, in, TX_BLOCK),
                     SNIC_NVME_SC_INVALID_NS | SNIC_NVME_DNR);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 2, out, TX_BLOCK),
                     SNIC_NVME_SC_SGL_LENGTH | SNIC_NVME_DNR);
    assert_int_equal(nh_io(&io, 0x7a, 1, 0, 1, in, TX_BLOCK),
                     SNIC_NVME_SC_INVALID_OPCODE | SNIC_NVME_DNR);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 32, out, 32 * TX_BLOCK),
                     SNIC_NVME_SC_INVALID_FIELD | SNIC_NVME_DNR); /* MDTS */
    assert_int_equal(snic_disk_op_count(x.disk), ops);
    assert_int_equal(tx_stats(&x).errors, 4);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

static void test_nvmet_zeroes_compare_verify_discard(void **state)
{
    struct snic_nvme_dsm_range ranges[3];
    static unsigned char table[4096];
    struct snic_nvme_sqe dsm = {
        .opcode = SNIC_NVME_IO_DSM, .nsid = 1, .cdw10 = 2, .cdw11 = SNIC_NVME_DSM_DEALLOCATE};
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    for (uint32_t capsule = 0; capsule <= 8192; capsule += 8192) {
        x.h[0].capsule = capsule;
        tx_host(&x, 0, &admin, &io);
        tx_fill(out, 8 * TX_BLOCK, 5);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 8, out, 8 * TX_BLOCK), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_COMPARE, 1, 0, 8, out, 8 * TX_BLOCK), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_COMPARE, 1, 0, 1, out, TX_BLOCK), 0);
        out[4095] ^= 1;
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_COMPARE, 1, 0, 1, out, TX_BLOCK),
                         SNIC_NVME_SC_COMPARE | SNIC_NVME_DNR);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_VERIFY, 1, 0, TX_BLOCKS, NULL, 0), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE_ZEROES, 1, 1, 2, NULL, 0), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 4, in, 4 * TX_BLOCK), 0);
        memset(out + TX_BLOCK, 0, 2 * TX_BLOCK);
        out[4095] ^= 1;
        assert_memory_equal(in, out, 4 * TX_BLOCK);
        memset(ranges, 0, sizeof(ranges));
        snic_put_le32(&ranges[0].blocks, 2);
        snic_put_le64(&ranges[2].lba, 6); /* the second has no blocks */
        snic_put_le32(&ranges[2].blocks, 1);
        uint64_t ops = snic_disk_op_count(x.disk);
        assert_int_equal(nh_run(&io, &dsm, ranges, sizeof(ranges), NULL), 0);
        assert_int_equal(snic_disk_op_count(x.disk), ops + 2);
        memcpy(table, ranges, sizeof(ranges));
        assert_int_equal(nh_run(&io, &dsm, table, sizeof(table), NULL), 0); /* as Linux sends it */
        assert_int_equal(snic_disk_op_count(x.disk), ops + 4);
        snic_put_le64(&ranges[2].lba, TX_BLOCKS);
        assert_int_equal(nh_run(&io, &dsm, ranges, sizeof(ranges), NULL),
                         SNIC_NVME_SC_LBA_RANGE | SNIC_NVME_DNR);
        nh_close(&io);
        nh_close(&admin);
        tx_run(&x, 10 * TX_MS);
    }
    tx_close(&x);
}

/* CC.SHN, and until it is complete. */
static void shut_down(struct nh_queue *q)
{
    uint64_t csts = 0;
    assert_int_equal(nh_property_set(q, SNIC_NVME_PROP_CC, SNIC_NVME_CC_EN | 1u << 14 | 0x460000),
                     0);
    while ((csts & SNIC_NVME_CSTS_SHST_COMPLETE) == 0)
        assert_int_equal(nh_property_get(q, SNIC_NVME_PROP_CSTS, &csts), 0);
}

/** Flush, FUA of writes and zeroes, and a shutdown survive a power cut that keeps nothing. */
static void test_nvmet_durable_through_power_cut(void **state)
{
    struct nh_cmd cmd;
    (void)state;
    for (uint32_t i = 0; i < 7; i++) {
        tx_opts(&x);
        if (i == 3)
            x.d.caps = SNIC_IO_CAP_ZERO; /* FUA is a write and a flush */
        tx_open(&x);
        tx_host(&x, 0, &admin, &io);
        tx_fill(out, TX_BLOCK, i);
        nh_rw(&cmd, SNIC_NVME_IO_WRITE, 1, 7, 1, out, TX_BLOCK);
        if (i == 4 || i == 6) {
            memset(snic_disk_bytes(x.disk) + 7 * TX_BLOCK, 1, TX_BLOCK);
            snic_disk_sync(x.disk);
            nh_rw(&cmd, SNIC_NVME_IO_WRITE_ZEROES, 1, 7, 1, NULL, 0);
            memset(out, 0, TX_BLOCK);
        }
        if (i >= 2 && i <= 4)
            cmd.c.sqe[51] = SNIC_NVME_RW_FUA >> 24;
        assert_int_equal(nh_submit(&io, &cmd), 0);
        assert_int_equal(nh_wait(&io, &cmd), 0);
        if (i == 0)
            assert_int_equal(nh_io(&io, SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0), 0);
        if (i >= 5) { /* before the shutdown, as Linux does */
            nh_close(&io);
            tx_run(&x, 10 * TX_MS);
        }
        if (i == 1 || i >= 5)
            shut_down(&admin);
        snic_disk_power_cut(x.disk, SNIC_FAULT_KEEP_NONE);
        assert_memory_equal(snic_disk_bytes(x.disk) + 7 * TX_BLOCK, out, TX_BLOCK);
        if (i != 1 && i < 5)
            assert_int_not_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), 0);
        nh_close(&io);
        nh_close(&admin);
        tx_close(&x);
    }
}

/** Errors and short transfers of the disk. */
static void test_nvmet_device_errors(void **state)
{
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .after = 1, .error = SNIC_EIO};
    (void)state;
    tx_opts(&x);
    tx_open(&x);
    tx_host(&x, 0, &admin, &io);
    tx_fill(out, 4 * TX_BLOCK, 9);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), SNIC_NVME_SC_READ_ERROR);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 1, out, TX_BLOCK),
                     SNIC_NVME_SC_WRITE_FAULT);
    f.error = SNIC_ENOSPC;
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 1, out, TX_BLOCK),
                     SNIC_NVME_SC_CAPACITY | SNIC_NVME_DNR);
    f = (struct snic_fault){.kind = SNIC_FAULT_SHORT, .after = 1, .bytes = TX_BLOCK};
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 0, 4, out, 4 * TX_BLOCK), 0);
    assert_memory_equal(snic_disk_bytes(x.disk), out, 4 * TX_BLOCK);
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 4, in, 4 * TX_BLOCK), 0);
    assert_memory_equal(in, out, 4 * TX_BLOCK);
    f.bytes = 0;
    assert_int_equal(snic_disk_fault(x.disk, &f), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 0, 1, in, TX_BLOCK), SNIC_NVME_SC_READ_ERROR);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** A device that takes few requests: the rest waits, in order, and all are served. */
static void test_nvmet_device_full_waits(void **state)
{
    static struct nh_cmd cmds[31];
    (void)state;
    tx_opts(&x);
    x.d.depth = 2;
    tx_open(&x);
    tx_host(&x, 0, &admin, &io);
    tx_fill(out, sizeof(out), 3);
    for (uint32_t i = 0; i < SNIC_COUNTOF(cmds); i++) {
        nh_rw(&cmds[i], SNIC_NVME_IO_WRITE, 1, i, 1, out + i * TX_BLOCK, TX_BLOCK);
        assert_int_equal(nh_submit(&io, &cmds[i]), 0);
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(cmds); i++)
        assert_int_equal(nh_wait(&io, &cmds[i]), 0);
    assert_memory_equal(snic_disk_bytes(x.disk), out, SNIC_COUNTOF(cmds) * TX_BLOCK);
    assert_true(tx_stats(&x).rooms > 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** More data than a connection's memory at a time: commands wait for it, in order. */
static void test_nvmet_memory_of_connection_waits(void **state)
{
    static struct nh_cmd cmds[16];
    static unsigned char data[16][64 << 10];
    (void)state;
    tx_opts(&x);
    x.o.data_bytes = 128u << 10;
    tx_open(&x);
    tx_host(&x, 0, &admin, &io);
    tx_fill(snic_disk_bytes(x.disk), 16 * sizeof(data[0]), 3);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t blocks = i % 3 == 0 ? 1 : 16;
        nh_rw(&cmds[i], SNIC_NVME_IO_READ, 1, i * 16, blocks, data[i], blocks * TX_BLOCK);
        assert_int_equal(nh_submit(&io, &cmds[i]), 0);
    }
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(nh_wait(&io, &cmds[i]), 0);
        assert_memory_equal(data[i], snic_disk_bytes(x.disk) + i * sizeof(data[0]), cmds[i].c.size);
    }
    assert_true(tx_stats(&x).waits > 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** By default as many writes have their data in capsules as the connection's memory holds. */
static void test_nvmet_capsules_follow_memory(void **state)
{
    static struct nh_cmd cmds[32];
    static unsigned char data[TX_BLOCK];
    (void)state;
    tx_opts(&x);
    x.d.delay_min_ns = x.d.delay_max_ns = 5 * TX_MS;
    assert_int_equal(x.o.data_bytes, 32 * 8192);
    tx_open(&x);
    x.h[0].capsule = TX_BLOCK;
    x.h[0].entries = 64;
    tx_host(&x, 0, &admin, &io);
    for (uint32_t i = 0; i < 32; i++) {
        nh_rw(&cmds[i], SNIC_NVME_IO_WRITE, 1, i, 1, data, TX_BLOCK);
        assert_int_equal(nh_submit(&io, &cmds[i]), 0);
    }
    tx_run(&x, 2 * TX_MS);
    assert_int_equal(tx_stats(&x).at_device, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(nh_wait(&io, &cmds[i]), 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** A host at its cap is not asked for data that the switch does not admit yet. */
static void test_nvmet_switch_admits_before_data_move(void **state)
{
    static struct nh_cmd cmds[8];
    static struct nh_queue admin2, io2;
    static unsigned char data[8][1 << 16];
    struct snic_gimbal_tenant_opts cap = {.opts_size = sizeof(cap), .ios_per_second = 10};
    struct snic_nvmetcp_stats s;
    (void)state;
    tx_opts(&x);
    x.qos = 1;
    x.o.data_bytes = 1u << 20;
    tx_open(&x);
    assert_int_equal(snic_qos_tenant_add(x.io, snic_nvmet_tenant(x.h[0].hostnqn), &cap), 0);
    tx_host(&x, 0, &admin, &io);
    tx_host(&x, 1, &admin2, &io2);
    for (uint32_t i = 0; i < 8; i++) {
        tx_fill(data[i], sizeof(data[i]), i);
        nh_rw(&cmds[i], SNIC_NVME_IO_WRITE, 1, i * 16, 16, data[i], sizeof(data[i]));
        assert_int_equal(nh_submit(&io, &cmds[i]), 0);
    }
    tx_run(&x, 150 * TX_MS);
    snic_nvmetcp_host_stats(io.e, &s);
    assert_true(s.r2ts >= 1 && s.r2ts <= 3);
    assert_int_equal(tx_stats(&x).reserved, 8);
    assert_int_equal(nh_io(&io2, SNIC_NVME_IO_WRITE, 1, 200, 16, data[0], sizeof(data[0])), 0);
    snic_nvmetcp_host_stats(io.e, &s);
    assert_true(s.r2ts <= 3); /* the other host did not wait for this one */
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(nh_wait(&io, &cmds[i]), 0);
    assert_memory_equal(snic_disk_bytes(x.disk), data, sizeof(data));
    nh_close(&io2);
    nh_close(&admin2);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/* Each on one loop and on several. */
#define TEST(f)                                                                                    \
    cmocka_unit_test_setup(f, tx_without_switch),                                                  \
    {                                                                                              \
#f "_loops", f, tx_with_loops, tx_without_switch, NULL                                     \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_opts_out_of_range_refused),
        cmocka_unit_test(test_nvmet_open_memory_short_refused),
        cmocka_unit_test(test_nvmet_subsystem_errors_change_nothing),
        cmocka_unit_test_setup(test_nvmet_join_errors_change_nothing, tx_with_loops),
        cmocka_unit_test_setup(test_nvmet_namespace_errors_change_nothing, tx_without_switch),
        cmocka_unit_test(test_nvmet_listen_addresses),
        cmocka_unit_test(test_nvmet_tenant_of_name),
        TEST(test_nvmet_connect_unknown_subsystem_refused),
        TEST(test_nvmet_discovery_shows_allowed_subsystems),
        TEST(test_nvmet_write_read_verify),
        TEST(test_nvmet_observe_each_command_once),
        TEST(test_nvmet_refused_before_data_move),
        TEST(test_nvmet_zeroes_compare_verify_discard),
        TEST(test_nvmet_durable_through_power_cut),
        TEST(test_nvmet_device_errors),
        TEST(test_nvmet_device_full_waits),
        TEST(test_nvmet_memory_of_connection_waits),
        cmocka_unit_test_setup(test_nvmet_capsules_follow_memory, tx_without_switch),
        TEST(test_nvmet_switch_admits_before_data_move),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
