/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The subsystem's contract: options, Connect with each refusal, properties, reset, shutdown, KATO,
 * identify, features, logs, events, abort, I/O checks.
 */
#include "test_nvmesub_util.h"

#include <stdlib.h>

static struct nx x;

/* ---- Options, memory ---- */

static void test_nvmesub_opts_out_of_range_refused(void **state)
{
    (void)state;
    static const struct {
        struct snic_nvmesub_opts o;
        const char *wrong;
    } bad[] = {
        {{.flags = 8}, "flags"},
        {{.controllers_max = SNIC_NVMESUB_CONTROLLERS_MAX + 1}, "controllers_max"},
        {{.conns_max = SNIC_NVMESUB_CONNS_MAX + 1}, "conns_max"},
        {{.namespaces_max = SNIC_NVMESUB_NAMESPACES_MAX + 1}, "namespaces_max"},
        {{.hosts_max = SNIC_NVMESUB_HOSTS_MAX + 1}, "hosts_max"},
        {{.allowed_max = SNIC_NVMESUB_ALLOWED_MAX + 1}, "allowed_max"},
        {{.groups_max = SNIC_NVMESUB_GROUPS_MAX + 1}, "groups_max"},
        {{.entries_max = SNIC_NVMESUB_ENTRIES_MAX + 1}, "entries_max"},
        {{.queues_max = SNIC_NVMESUB_IO_QUEUES_MAX + 1}, "queues_max"},
        {{.depth_max = 1}, "depth_max"},
        {{.depth_max = SNIC_NVMESUB_DEPTH_MAX + 1}, "depth_max"},
        {{.data_max = 4095}, "data_max"},
        {{.data_max = 12288}, "data_max"},
        {{.data_max = SNIC_NVMESUB_DATA_MAX * 2}, "data_max"},
        {{.capsule_bytes = 17}, "capsule_bytes"},
        {{.kato_ms_max = SNIC_NVMESUB_KATO_MS_MAX + 1}, "kato_ms_max"},
        {{.subnqn = ""}, "subnqn"},
        {{.serial = "123456789012345678901"}, "serial"},
        {{.model = "12345678901234567890123456789012345678901"}, "model"},
        {{.firmware = "123456789"}, "firmware"},
    };
    static _Alignas(SNIC_NVMESUB_ALIGN) unsigned char mem[SNIC_NVMESUB_ALIGN];
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_nvmesub_opts o = bad[i].o;
        struct snic_nvmesub *s = (void *)mem;
        o.opts_size = sizeof(o);
        if (o.subnqn == NULL)
            o.subnqn = NX_SUBNQN;
        support_names(snic_nvmesub_opts_wrong(&o), bad[i].wrong);
        assert_int_equal(snic_nvmesub_memsize(&o), 0);
        assert_int_equal(snic_nvmesub_init(&s, mem, sizeof(mem), &o, 0), SNIC_EINVAL);
        assert_ptr_equal(s, mem);
    }
    struct snic_nvmesub_opts none = {.opts_size = sizeof(none)};
    support_names(snic_nvmesub_opts_wrong(&none), "subnqn");
    none.opts_size = 3;
    support_names(snic_nvmesub_opts_wrong(&none), "opts_size");
}

static void test_nvmesub_opts_at_limits_accepted(void **state)
{
    (void)state;
    struct snic_nvmesub_opts o = {.opts_size = sizeof(o),
                                  .controllers_max = 64,
                                  .conns_max = SNIC_NVMESUB_CONNS_MAX,
                                  .namespaces_max = SNIC_NVMESUB_NAMESPACES_MAX,
                                  .hosts_max = SNIC_NVMESUB_HOSTS_MAX,
                                  .allowed_max = SNIC_NVMESUB_ALLOWED_MAX,
                                  .groups_max = SNIC_NVMESUB_GROUPS_MAX,
                                  .entries_max = SNIC_NVMESUB_ENTRIES_MAX,
                                  .queues_max = SNIC_NVMESUB_IO_QUEUES_MAX,
                                  .depth_max = SNIC_NVMESUB_DEPTH_MAX,
                                  .data_max = SNIC_NVMESUB_DATA_MAX,
                                  .kato_ms_max = SNIC_NVMESUB_KATO_MS_MAX,
                                  .subnqn = NX_SUBNQN};
    size_t size = snic_nvmesub_memsize(&o);
    struct snic_nvmesub *s = NULL;
    assert_int_equal(size % SNIC_NVMESUB_ALIGN, 0);
    void *mem = aligned_alloc(SNIC_NVMESUB_ALIGN, size);
    assert_int_equal(snic_nvmesub_init(&s, mem, size, &o, 0), 0);
    for (uint32_t i = 1; i <= SNIC_NVMESUB_NAMESPACES_MAX; i++) {
        struct snic_nvmesub_ns_opts n = {
            .opts_size = sizeof(n), .shift = 12, .blocks = 1, .uuid = {1}};
        assert_int_equal(snic_nvmesub_ns_add(s, &n), i);
    }
    struct snic_nvmesub_ns_opts n = {.opts_size = sizeof(n), .shift = 9, .blocks = 1, .uuid = {1}};
    assert_int_equal(snic_nvmesub_ns_add(s, &n), SNIC_ENOSPC);
    free(snic_nvmesub_fini(s));
    o.controllers_max = SNIC_NVMESUB_CONTROLLERS_MAX;
    assert_true(snic_nvmesub_memsize(&o) > size);
}

static void test_nvmesub_memory_one_byte_short_refused(void **state)
{
    (void)state;
    struct snic_nvmesub_opts o;
    nx_opts(&o);
    size_t size = snic_nvmesub_memsize(&o);
    unsigned char *mem = support_guard_alloc(size + 1, SNIC_NVMESUB_ALIGN);
    struct snic_nvmesub *s = NULL;
    assert_int_equal(snic_nvmesub_init(&s, mem, size - 1, &o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_nvmesub_init(&s, mem + 1, size, &o, 0), SNIC_EINVAL);
    assert_null(s);
    support_guard_free(mem);
}

/* ---- Connect ---- */

static uint32_t connect_on(uint32_t conn, struct snic_nvme_sqe *e, struct snic_nvme_connect_data *d)
{
    uint32_t status = nx_run(&x, conn, e, d);
    return status;
}

/* Every refusal that the specification names, each with the parameter that it names. */
static void test_nvmesub_connect_admin_refusals(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    uint32_t conn = nx_conn(&x, 0);
    struct snic_nvme_connect_data good, d;
    struct snic_nvme_sqe sound, e;
    nx_connect_data(&good, 1, SNIC_NVME_CNTLID_DYNAMIC);
    nx_connect_sqe(&sound, 0, 32, 0);
#define REFUSED(status, result)                                                                    \
    do {                                                                                           \
        assert_int_equal(connect_on(conn, &e, &d), status);                                        \
        assert_int_equal(x.last->c.cqe.dw0, result);                                               \
        e = sound;                                                                                 \
        d = good;                                                                                  \
    } while (0)
    e = sound;
    d = good;
    e.cdw10 |= 1;
    REFUSED(NX_DNR(CONNECT_FORMAT), 0);
    e.cdw11 = 0;
    REFUSED(NX_DNR(CONNECT_PARAM), 44);
    e.cdw11 = 33;
    REFUSED(NX_DNR(CONNECT_PARAM), 44);
    snic_put_le16(&d.cntlid, 1);
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    snic_put_le16(&d.cntlid, SNIC_NVME_CNTLID_STATIC);
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    d.subnqn[3]++;
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 256);
    memset(d.subnqn, 'a', sizeof(d.subnqn));
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 256);
    d.hostnqn[0] = 0;
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 512);
    memset(d.hostnqn, 'a', sizeof(d.hostnqn));
    REFUSED(NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 512);
    e.cdw12 = SNIC_NVMESUB_KATO_MS_MAX + 1;
    REFUSED(NX_DNR(KATO_INVALID), 0);
    e.sgl_length = 1023;
    REFUSED(NX_DNR(SGL_LENGTH), 0);
    e.sgl_key = 0x40U << 24;
    REFUSED(NX_DNR(SGL_TYPE), 0);
    e.flags = 0;
    REFUSED(NX_DNR(INVALID_FIELD), 0);
    e.flags |= 1;
    REFUSED(NX_DNR(INVALID_FIELD), 0);
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_GET, 0);
    REFUSED(NX_DNR(SEQUENCE), 0);
    nx_sqe(&e, SNIC_NVME_ADMIN_KEEP_ALIVE, 0, 0);
    REFUSED(NX_DNR(SEQUENCE), 0);
    assert_int_equal(connect_on(conn, &e, &d), 0);
    assert_int_equal(x.last->c.cqe.sqhd, 1);
    REFUSED(NX_DNR(SEQUENCE), 0); /* once is enough */
#undef REFUSED
    nx_close(&x);
}

static void test_nvmesub_connect_io_refusals(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t conn = nx_conn(&x, 0), elsewhere = nx_conn(&x, 1);
    struct snic_nvme_connect_data good, d;
    struct snic_nvme_sqe sound, e;
    nx_connect_data(&good, 1, c.cntlid);
    nx_connect_sqe(&sound, 1, 16, 0);
#define REFUSED(at, status, result)                                                                \
    do {                                                                                           \
        assert_int_equal(connect_on(at, &e, &d), status);                                          \
        assert_int_equal(x.last->c.cqe.dw0, result);                                               \
        e = sound;                                                                                 \
        d = good;                                                                                  \
    } while (0)
    e = sound;
    d = good;
    e.cdw10 = 5U << 16;
    REFUSED(conn, NX_DNR(CONNECT_PARAM), 42);
    e.cdw11 = 16;
    REFUSED(conn, NX_DNR(CONNECT_PARAM), 44);
    snic_put_le16(&d.cntlid, 0);
    REFUSED(conn, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    snic_put_le16(&d.cntlid, (uint16_t)(c.cntlid + 1));
    REFUSED(conn, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    snic_put_le16(&d.cntlid, SNIC_NVME_CNTLID_DYNAMIC);
    REFUSED(conn, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    d.hostid[15]++;
    REFUSED(conn, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 0);
    nx_name(d.hostnqn, nx_nqn(2));
    REFUSED(conn, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 512);
    REFUSED(elsewhere, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    nx_cc(&x, &c, 0);
    REFUSED(conn, NX_DNR(SEQUENCE), 0); /* disabled */
    nx_cc(&x, &c, NX_CC_EN);
    assert_int_equal(connect_on(conn, &e, &d), 0);
    REFUSED(elsewhere, NX_DNR(CONNECT_PARAM), SNIC_NVME_IATTR_DATA | 16);
    uint32_t second = nx_conn(&x, 0);
    REFUSED(second, NX_DNR(SEQUENCE), 0); /* that queue exists */
#undef REFUSED
    nx_close(&x);
}

/* What is full is worth another try; nothing of the refused Connect remains. */
static void test_nvmesub_connect_beyond_tables_busy(void **state)
{
    (void)state;
    struct snic_nvmesub_opts o;
    nx_opts(&o);
    o.hosts_max = 3;
    nx_open(&x, &o);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct nx_ctrl last = {0};
    for (int i = 0; i < 3; i++)
        last = nx_admin(&x, i, 0, 0);
    uint32_t conn = nx_conn(&x, 0);
    nx_connect_sqe(&e, 0, 32, 0);
    nx_connect_data(&d, 3, SNIC_NVME_CNTLID_DYNAMIC);
    assert_int_equal(connect_on(conn, &e, &d), SNIC_NVME_SC_CONNECT_BUSY);
    nx_lost(&x, last.conn);
    nx_pump(&x);
    for (int i = 0; i < 4; i++)
        nx_admin(&x, 0, 0, 0);
    nx_connect_data(&d, 2, SNIC_NVME_CNTLID_DYNAMIC); /* its identity is new, and must not stay */
    assert_int_equal(connect_on(conn, &e, &d), SNIC_NVME_SC_CONNECT_BUSY);
    struct snic_nvmesub_stats st;
    snic_nvmesub_get_stats(x.s, &st);
    assert_int_equal(st.controllers, 6);
    assert_int_equal(st.refused, 2);
    for (uint32_t i = st.conns; i < o.conns_max; i++)
        nx_conn(&x, 0);
    struct snic_nvmesub_peer p = {.port = 0};
    assert_int_equal(snic_nvmesub_open(x.s, &p), SNIC_EAGAIN);
    p.port = SNIC_NVMESUB_PORTS_MAX;
    assert_int_equal(snic_nvmesub_open(x.s, &p), SNIC_EINVAL);
    nx_close(&x);
}

static void test_nvmesub_hosts_rules_and_ranges(void **state)
{
    (void)state;
    struct snic_nvmesub_opts o;
    nx_opts(&o);
    o.flags = 0;
    nx_open(&x, &o);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct snic_nvmesub_range r = {
        .family = SNIC_NVME_ADRFAM_IPV4, .bits = 31, .address = {10, 0, 0, 0}};
    nx_connect_sqe(&e, 0, 32, 0);
    nx_connect_data(&d, 1, SNIC_NVME_CNTLID_DYNAMIC);
    uint32_t conn = nx_conn(&x, 0);
    assert_int_equal(connect_on(conn, &e, &d), NX_DNR(CONNECT_HOST));
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 2, NULL, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_allow(x.s, "", 0, NULL, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, NULL, 1), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, &r, SNIC_NVMESUB_RANGES_MAX + 1),
                     SNIC_EINVAL);
    r.bits = 33;
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, &r, 1), SNIC_EINVAL);
    r.bits = 32; /* 10.0.0.0 alone */
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, &r, 1), 0);
    assert_int_equal(connect_on(conn, &e, &d), NX_DNR(CONNECT_HOST));
    r.bits = 31;
    r.address[3] = 2; /* and 3 */
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, &r, 1), 0);
    assert_int_equal(connect_on(conn, &e, &d), NX_DNR(CONNECT_HOST));
    r.address[3] = 0;
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, &r, 1), 0);
    assert_int_equal(connect_on(conn, &e, &d), 0);
    for (int i = 2; i < 5; i++)
        assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(i), 0, NULL, 0), 0);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(5), 0, NULL, 0), SNIC_ENOSPC);
    assert_int_equal(snic_nvmesub_deny(x.s, nx_nqn(5)), SNIC_ENOENT);
    x.hold_stop = 1;
    assert_int_equal(snic_nvmesub_deny(x.s, nx_nqn(1)), 0);
    nx_pump(&x);
    assert_true(x.conn[conn].ended);
    assert_int_equal(x.conn[conn].reason, SNIC_NVMESUB_BY_OWNER);
    nx_close(&x);
}

/* ---- Properties, reset, shutdown ---- */

static void test_nvmesub_properties(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    struct snic_nvme_sqe e;
    static const struct {
        uint32_t offset, eight, status;
    } gets[] = {{SNIC_NVME_PROP_CAP, 1, 0},
                {SNIC_NVME_PROP_CAP, 0, NX_DNR(INVALID_FIELD)},
                {SNIC_NVME_PROP_VS, 0, 0},
                {SNIC_NVME_PROP_VS, 1, NX_DNR(INVALID_FIELD)},
                {SNIC_NVME_PROP_CC, 0, 0},
                {SNIC_NVME_PROP_CSTS, 0, 0},
                {SNIC_NVME_PROP_CSTS, 2, NX_DNR(INVALID_FIELD)},
                {SNIC_NVME_PROP_CRTO, 0, 0},
                {SNIC_NVME_PROP_NSSR, 0, NX_DNR(INVALID_FIELD)},
                {0x24, 0, NX_DNR(INVALID_FIELD)}};
    uint64_t values[SNIC_COUNTOF(gets)];
    for (size_t i = 0; i < SNIC_COUNTOF(gets); i++) {
        nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_GET, 0);
        e.cdw10 = gets[i].eight;
        e.cdw11 = gets[i].offset;
        assert_int_equal(nx_run(&x, c.conn, &e, NULL), gets[i].status);
        values[i] = x.last->c.cqe.dw0 | (uint64_t)x.last->c.cqe.dw1 << 32;
    }
    assert_int_equal(values[0] & 0xffff, 15);
    assert_int_equal(values[2], SNIC_NVME_VERSION_2_0);
    assert_int_equal(values[4], NX_CC_EN);
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_SET, 0);
    e.cdw11 = SNIC_NVME_PROP_CSTS;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_FIELD));
    e.cdw11 = SNIC_NVME_PROP_CC;
    e.cdw10 = 1;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_FIELD));
    static const uint32_t bad[] = {NX_CC_EN | 1U << 7, NX_CC_EN | 1U << 11, NX_CC_EN | 1U << 4,
                                   NX_CC_EN ^ 1U << 16, NX_CC_EN ^ 1U << 20};
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        assert_int_equal(nx_cc(&x, &c, 0), 0);
        assert_int_equal(nx_csts(&x, &c), 0);
        assert_int_equal(nx_cc(&x, &c, bad[i]), 0);
        assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_CFS);
    }
    assert_int_equal(nx_cc(&x, &c, 0), 0);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN | 6U << 4), 0);
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY);
    nx_close(&x);
}

static void test_nvmesub_commands_while_disabled_sequence_error(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    struct snic_nvme_sqe e;
    nx_cc(&x, &c, 0);
    nx_sqe(&e, SNIC_NVME_ADMIN_IDENTIFY, 0, 4096);
    e.cdw10 = SNIC_NVME_CNS_CTRL;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(SEQUENCE));
    nx_sqe(&e, SNIC_NVME_ADMIN_KEEP_ALIVE, 0, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(SEQUENCE));
    nx_cc(&x, &c, NX_CC_EN);
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    static const uint8_t unknown[] = {0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x80, 0xc0, 0xff};
    for (size_t i = 0; i < sizeof(unknown); i++) {
        nx_sqe(&e, unknown[i], 0, 0);
        assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_OPCODE));
    }
    nx_sqe(&e, SNIC_NVME_FABRICS, 0x33, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_OPCODE));
    nx_close(&x);
}

/* A reset ends the I/O queues; RDY falls when they have stopped; the admin queue works on. */
static void test_nvmesub_reset_waits_for_queues(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 1000);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q1 = nx_queue(&x, &c, 1), q2 = nx_queue(&x, &c, 2);
    struct snic_nvmesub_op op;
    struct snic_nvme_cqe cqe;
    struct snic_nvmesub_op queued;
    struct nx_cmd *aer = nx_aer(&x, &c);
    assert_int_equal(nx_io(&x, q1, SNIC_NVME_IO_READ, 1, 5, &queued), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(nx_io(&x, q1, SNIC_NVME_IO_WRITE, 1, 5, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[q1].q, &op, &cqe), SNIC_NVMESUB_IO_RUN);
    x.hold_stop = 1; /* the thread of q1 has not received END when it comes to the read */
    assert_int_equal(nx_cc(&x, &c, 0), 0);
    assert_true(aer->dropped);
    nx_free(aer);
    assert_true(x.conn[q1].ended);
    assert_int_equal(x.conn[q1].reason, SNIC_NVMESUB_BY_RESET);
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[q1].q, &queued, &cqe),
                     SNIC_NVMESUB_IO_DROP);
    x.hold_stop = 0;
    nx_pump(&x);
    assert_false(x.conn[q2].open); /* nothing at the device: it has stopped */
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY);
    assert_int_equal(nx_io(&x, q1, SNIC_NVME_IO_READ, 1, 5, &op), SNIC_NVMESUB_IO_DROP);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), 0); /* before it is done */
    assert_int_equal(nx_io(&x, q1, SNIC_NVME_IO_READ, 1, 5, &op), SNIC_NVMESUB_IO_DROP);
    snic_nvmesub_io_done(x.v, &x.conn[q1].q, op.cid, 0, 0, &cqe);
    nx_pump(&x);
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY);
    assert_false(x.conn[q1].open);
    nx_queue(&x, &c, 1);
    assert_int_equal(nx_cc(&x, &c, 0), 0);
    assert_int_equal(nx_csts(&x, &c), 0);
    nx_close(&x);
}

/* A controller that ends while a reset waits is not enabled by the EN that was written meanwhile.
 */
static void test_nvmesub_end_during_reset_is_final(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvmesub_queue old = x.conn[q].q;
    x.hold_stop = 1;
    assert_int_equal(nx_cc(&x, &c, 0), 0);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), 0);
    nx_lost(&x, c.conn);
    nx_pump(&x);
    x.hold_stop = 0;
    nx_pump(&x);
    assert_true(snic_nvmesub_io_ended(x.v, &old));
    nx_close(&x);
}

static void test_nvmesub_shutdown_completes_then_idles_out(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    x.hold_stop = 1;
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN | 1U << 14), 0);
    assert_int_equal(x.conn[q].reason, SNIC_NVMESUB_BY_SHUTDOWN);
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY | SNIC_NVME_CSTS_SHST_OCCURRING);
    x.hold_stop = 0;
    nx_pump(&x);
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY | SNIC_NVME_CSTS_SHST_COMPLETE);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    uint32_t conn = nx_conn(&x, 0);
    nx_connect_data(&d, 1, c.cntlid);
    nx_connect_sqe(&e, 1, 8, 0);
    assert_int_equal(nx_run(&x, conn, &e, &d), NX_DNR(SEQUENCE));
    uint64_t until = snic_nvmesub_deadline_ns(x.s);
    assert_int_equal(until, x.now + UINT64_C(120000000000));
    x.now = until; /* the connection was used since: two more minutes */
    snic_nvmesub_tick(x.s, x.now);
    nx_pump(&x);
    assert_false(x.conn[c.conn].ended);
    x.hold_stop = 1;
    x.now = snic_nvmesub_deadline_ns(x.s);
    snic_nvmesub_tick(x.s, x.now);
    nx_pump(&x);
    assert_int_equal(x.conn[c.conn].reason, SNIC_NVMESUB_BY_IDLE);
    assert_int_equal(snic_nvmesub_deadline_ns(x.s), SNIC_NEVER);
    nx_close(&x);
}

static void test_nvmesub_kato(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 1001);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvmesub_op op;
    uint64_t kato = UINT64_C(1100000000);
    x.now = 1000 + kato;
    snic_nvmesub_tick(x.s, x.now); /* commands were seen */
    assert_int_equal(snic_nvmesub_deadline_ns(x.s), x.now + kato);
    nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op); /* a command of an I/O queue counts */
    x.now += kato;
    snic_nvmesub_tick(x.s, x.now - 1);
    snic_nvmesub_tick(x.s, x.now);
    nx_pump(&x);
    assert_false(x.conn[c.conn].ended);
    assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_KATO, 0, SNIC_NVMESUB_KATO_MS_MAX + 1),
                     NX_DNR(KATO_INVALID));
    assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_KATO, 0, 101), 0);
    assert_int_equal(snic_nvmesub_deadline_ns(x.s), x.now + 200000000);
    assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_KATO, 0, 100), 0);
    assert_int_equal(snic_nvmesub_deadline_ns(x.s), x.now + 100000000);
    x.hold_stop = 1;
    for (int i = 0; i < 2; i++) {
        x.now += 100000000;
        snic_nvmesub_tick(x.s, x.now);
        nx_pump(&x);
        assert_int_equal(x.conn[c.conn].ended, i);
        assert_int_equal(x.conn[q].ended, i);
    }
    assert_int_equal(x.conn[q].reason, SNIC_NVMESUB_BY_KATO);
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), SNIC_NVMESUB_IO_DROP);
    struct snic_nvmesub_stats st;
    snic_nvmesub_get_stats(x.s, &st);
    assert_int_equal(st.expired, 1);
    nx_close(&x);
}

/* ---- Fences ---- */

static void test_nvmesub_fence_holds_connect_and_writes(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 1000);
    struct nx_ctrl a = nx_admin(&x, 1, 0, 0), b = nx_admin(&x, 1, 0, 0), o = nx_admin(&x, 2, 0, 0);
    uint32_t qa = nx_queue(&x, &a, 1), qb = nx_queue(&x, &b, 1), qo = nx_queue(&x, &o, 1);
    struct snic_nvmesub_op op, other;
    struct snic_nvme_cqe cqe;
    assert_int_equal(nx_io(&x, qa, SNIC_NVME_IO_WRITE, 1, 5, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[qa].q, &op, &cqe), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_RUN);
    /* The thread of qa notices the loss; the owner does not know yet. */
    snic_nvmesub_io_lost(x.v, &x.conn[qa].q);
    snic_nvmesub_io_lost(x.v, &x.conn[qa].q);
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[qb].q, &other, &cqe), SNIC_NVMESUB_IO_HOLD);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_HOLD);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE_ZEROES, 1, 5, &other), SNIC_NVMESUB_IO_HOLD);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_DSM, 1, 5, &other), SNIC_NVMESUB_IO_HOLD);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_READ, 1, 5, &other), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(nx_io(&x, qo, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_RUN);
    nx_lost(&x, qa);
    nx_pump(&x);
    assert_true(x.conn[a.conn].open); /* hosts close I/O queues first, then shut down */
    assert_true(x.conn[qa].open);
    nx_lost(&x, a.conn);
    nx_pump(&x);
    assert_false(x.conn[a.conn].open);
    uint32_t conn = nx_conn(&x, 0), dead = nx_conn(&x, 0), io = nx_conn(&x, 0);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    nx_connect_data(&d, 1, SNIC_NVME_CNTLID_DYNAMIC);
    nx_connect_sqe(&e, 0, 32, 0);
    struct nx_cmd *held = nx_send(&x, conn, &e, &d), *gone = nx_send(&x, dead, &e, &d);
    nx_connect_data(&d, 1, b.cntlid);
    nx_connect_sqe(&e, 2, 8, 0);
    struct nx_cmd *queue = nx_send(&x, io, &e, &d);
    nx_pump(&x);
    assert_false(held->done || gone->done || queue->done);
    nx_lost(&x, dead);
    nx_pump(&x);
    assert_true(gone->dropped);
    nx_free(gone);
    nx_admin(&x, 3, 0, 0); /* other hosts do not notice */
    snic_nvmesub_io_done(x.v, &x.conn[qa].q, op.cid, 0, 0, &cqe);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_HOLD);
    assert_int_equal(x.unfences, 0);
    nx_pump(&x);
    assert_int_equal(x.unfences, 1);
    assert_true(held->done && held->c.cqe.status == 0);
    assert_true(queue->done && queue->c.cqe.status == 0 && x.conn[io].attached);
    nx_free(held);
    nx_free(queue);
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_RUN);
    nx_close(&x);
}

/* The fence that a thread raises falls with its last command. */
static void test_nvmesub_fence_until_last_command(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 1000);
    struct nx_ctrl a = nx_admin(&x, 1, 0, 0), b = nx_admin(&x, 1, 0, 0);
    uint32_t qa = nx_queue(&x, &a, 1), qb = nx_queue(&x, &b, 1);
    struct snic_nvmesub_op op, other;
    struct snic_nvme_cqe cqe;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nx_io(&x, qa, SNIC_NVME_IO_WRITE, 1, 5, &op), SNIC_NVMESUB_IO_RUN);
        assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[qa].q, &op, &cqe), SNIC_NVMESUB_IO_RUN);
    }
    snic_nvmesub_io_lost(x.v, &x.conn[qa].q);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_HOLD);
        snic_nvmesub_io_done(x.v, &x.conn[qa].q, op.cid, 0, 0, &cqe);
    }
    assert_int_equal(nx_io(&x, qb, SNIC_NVME_IO_WRITE, 1, 5, &other), SNIC_NVMESUB_IO_RUN);
    nx_close(&x);
}

/* As Linux disconnects: I/O queues, then a shutdown by the admin queue, then that. */
static void test_nvmesub_queues_closed_before_shutdown(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q1 = nx_queue(&x, &c, 1), q2 = nx_queue(&x, &c, 2);
    nx_lost(&x, q1);
    nx_pump(&x);
    assert_true(x.conn[q2].open && !x.conn[q2].ended);
    nx_lost(&x, q2);
    nx_pump(&x);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN | 1U << 14), 0);
    assert_int_equal(nx_csts(&x, &c), SNIC_NVME_CSTS_RDY | SNIC_NVME_CSTS_SHST_COMPLETE);
    nx_cc(&x, &c, 0);
    nx_cc(&x, &c, NX_CC_EN);
    q1 = nx_queue(&x, &c, 1);
    x.hold_stop = 1;
    nx_lost(&x, c.conn);
    nx_pump(&x);
    assert_int_equal(x.conn[q1].reason, SNIC_NVMESUB_BY_LOSS);
    nx_close(&x);
}

static void test_nvmesub_disconnect_deletes_one_queue(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 1000);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q1 = nx_queue(&x, &c, 1), q2 = nx_queue(&x, &c, 2);
    struct snic_nvme_sqe e;
    struct snic_nvmesub_op op;
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_DISCONNECT, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(QUEUE_TYPE));
    e.cdw10 = 1;
    assert_int_equal(nx_run(&x, q1, &e, NULL), NX_DNR(CONNECT_FORMAT));
    e.cdw10 = 0;
    x.hold_stop = 1;
    assert_int_equal(nx_run(&x, q1, &e, NULL), 0);
    assert_int_equal(x.conn[q1].reason, SNIC_NVMESUB_BY_HOST);
    assert_int_equal(nx_io(&x, q2, SNIC_NVME_IO_WRITE, 1, 5, &op), SNIC_NVMESUB_IO_HOLD);
    x.hold_stop = 0;
    nx_pump(&x);
    assert_int_equal(nx_io(&x, q2, SNIC_NVME_IO_WRITE, 1, 5, &op), SNIC_NVMESUB_IO_RUN);
    assert_true(x.conn[q2].open && x.conn[c.conn].open);
    nx_queue(&x, &c, 1);
    nx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_opts_out_of_range_refused),
        cmocka_unit_test(test_nvmesub_opts_at_limits_accepted),
        cmocka_unit_test(test_nvmesub_memory_one_byte_short_refused),
        cmocka_unit_test(test_nvmesub_connect_admin_refusals),
        cmocka_unit_test(test_nvmesub_connect_io_refusals),
        cmocka_unit_test(test_nvmesub_connect_beyond_tables_busy),
        cmocka_unit_test(test_nvmesub_hosts_rules_and_ranges),
        cmocka_unit_test(test_nvmesub_properties),
        cmocka_unit_test(test_nvmesub_commands_while_disabled_sequence_error),
        cmocka_unit_test(test_nvmesub_reset_waits_for_queues),
        cmocka_unit_test(test_nvmesub_end_during_reset_is_final),
        cmocka_unit_test(test_nvmesub_shutdown_completes_then_idles_out),
        cmocka_unit_test(test_nvmesub_kato),
        cmocka_unit_test(test_nvmesub_fence_holds_connect_and_writes),
        cmocka_unit_test(test_nvmesub_fence_until_last_command),
        cmocka_unit_test(test_nvmesub_queues_closed_before_shutdown),
        cmocka_unit_test(test_nvmesub_disconnect_deletes_one_queue),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
