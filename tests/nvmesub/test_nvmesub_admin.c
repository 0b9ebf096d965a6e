/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Admin commands: identify, logs, features, events, abort, authentication, discovery. */
#include "test_nvmesub_util.h"

static struct nx x;

static uint32_t identify(uint32_t conn, uint32_t cns, uint32_t nsid, uint32_t csi)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_IDENTIFY, nsid, 4096);
    e.cdw10 = cns;
    e.cdw11 = csi << 24;
    return nx_run(&x, conn, &e, NULL);
}

static uint32_t get_log(uint32_t conn, uint8_t id, uint32_t bytes, uint64_t offset)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_LOG, SNIC_NVME_NSID_ALL, bytes);
    e.cdw10 = id | (bytes / 4 - 1) << 16;
    e.cdw12 = (uint32_t)offset;
    e.cdw13 = (uint32_t)(offset >> 32);
    return nx_run(&x, conn, &e, NULL);
}

static uint32_t get_feature(uint32_t conn, uint8_t id, uint32_t select, uint32_t nsid)
{
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_FEATURES, nsid, 0);
    e.cdw10 = id | select << 8;
    return nx_run(&x, conn, &e, NULL);
}

static void test_nvmesub_identify_pages(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0), d = nx_admin(&x, 2, 0, 0);
    struct snic_nvmesub_ns_opts o = {.opts_size = sizeof(o),
                                     .nsid = 3,
                                     .shift = 12,
                                     .blocks = 777,
                                     .group = 2,
                                     .read_only = 1,
                                     .optimal_blocks = 8,
                                     .uuid = {1, 2},
                                     .eui64 = {9}};
    assert_int_equal(snic_nvmesub_ns_add(x.s, &o), 3);
    nx_ns(&x, 1, 5000);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_CTRL, 0, 0), 0);
    struct snic_nvme_id_ctrl id;
    memcpy(&id, x.last->data, sizeof(id));
    assert_int_equal(x.last->c.data_out, 4096);
    assert_memory_equal(id.sn, "S1                  ", 20);
    assert_int_equal(snic_get_le16(&id.cntlid), c.cntlid);
    assert_int_equal(id.mdts, 2); /* 16 KiB */
    assert_int_equal(id.cmic, 0x0b);
    assert_string_equal((char *)id.subnqn, NX_SUBNQN);
    assert_int_equal(snic_get_le32(&id.ioccsz), (64 + 8192) / 16);
    assert_int_equal(snic_get_le32(&id.iorcsz), 1);
    assert_int_equal(snic_get_le32(&id.nn), NX_NS);
    assert_int_equal(id.cntrltype, 1);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS, 3, 0), 0);
    const struct snic_nvme_id_ns *ns = (const void *)x.last->data;
    assert_int_equal(snic_get_le64(&ns->nsze), 777);
    assert_int_equal(ns->lbaf[0].lbads, 12);
    assert_int_equal(ns->nsattr, 1);
    assert_int_equal(snic_get_le32(&ns->anagrpid), 2);
    assert_int_equal(snic_get_le16(&ns->npwg), 7);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS, 2, 0), 0); /* not there: zeros */
    for (int i = 0; i < 4096; i++)
        assert_int_equal(x.last->data[i], 0);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS_LIST, 0, 0), 0);
    static const unsigned char list[12] = {1, 0, 0, 0, 3};
    assert_memory_equal(x.last->data, list, 12);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_CSI_NS_LIST, 1, 0), 0);
    assert_memory_equal(x.last->data, list + 4, 8);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS_DESC, 3, 0), 0);
    static const unsigned char heads[] = {1, 8, 3, 16, 4, 1};
    const unsigned char *p = x.last->data;
    for (size_t i = 0; i < sizeof(heads); i += 2, p += 4 + p[1])
        assert_memory_equal(p, heads + i, 2);
    assert_int_equal(p[0] | p[1], 0);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_CSI_NS, 3, 0), 0);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_CSI_CTRL, 0, 0), 0);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS_INDEPENDENT, 3, 0), 0);
    assert_int_equal(x.last->data[8], 1); /* write protected */
    assert_int_equal(x.last->data[14], 1);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_CTRL_LIST, 0, 0), 0);
    static const unsigned char ctrls[] = {2, 0, 1, 0, 2, 0, 0, 0};
    assert_memory_equal(x.last->data, ctrls, sizeof(ctrls));
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS_CTRL_LIST | 2U << 16, 3, 0), 0);
    assert_int_equal(x.last->data[0], 1);
    assert_int_equal(x.last->data[2], d.cntlid);
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_COMMAND_SETS, 0, 0), 0);
    assert_int_equal(x.last->data[0], 1);
    nx_close(&x);
}

static void test_nvmesub_identify_refusals(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    nx_ns(&x, 1, 5000);
    static const struct {
        uint32_t cns, nsid, csi, status;
    } bad[] = {
        {SNIC_NVME_CNS_NS, 0, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_NS, NX_NS + 1, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_NS, SNIC_NVME_NSID_ALL, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_NS_LIST, SNIC_NVME_NSID_ALL - 1, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_NS_LIST, SNIC_NVME_NSID_ALL, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_CSI_NS_LIST, 0, 2, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_CNS_NS_DESC, 2, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_CSI_NS, 2, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_CSI_NS, 1, 2, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_CNS_CSI_CTRL, 0, 2, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_CNS_NS_INDEPENDENT, 0, 0, NX_DNR(INVALID_NS)},
        {SNIC_NVME_CNS_NS_CTRL_LIST, 9, 0, NX_DNR(INVALID_NS)},
        {0x04, 1, 0, NX_DNR(INVALID_FIELD)},
        {0xff, 1, 0, NX_DNR(INVALID_FIELD)},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        assert_int_equal(identify(c.conn, bad[i].cns, bad[i].nsid, bad[i].csi), bad[i].status);
        assert_int_equal(x.last->c.data_out, 0);
    }
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_IDENTIFY, 0, 4095);
    e.cdw10 = SNIC_NVME_CNS_CTRL;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(SGL_LENGTH));
    nx_sqe(&e, SNIC_NVME_ADMIN_IDENTIFY, 0, 4096);
    e.sgl_key = (uint32_t)SNIC_NVME_SGL_DATA_OFFSET << 24;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(SGL_TYPE));
    nx_close(&x);
}

static void test_nvmesub_logs(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    nx_ns(&x, 1, 5000);
    assert_int_equal(identify(c.conn, 0x44, 5, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(identify(c.conn, SNIC_NVME_CNS_NS, 99, 0), NX_DNR(INVALID_NS));
    const unsigned char *p = nx_log(&x, &c, SNIC_NVME_LOG_ERROR, 128, 0);
    assert_int_equal(snic_get_le64(p), 2); /* the newest first */
    assert_int_equal(snic_get_le16(p + 12) >> 1, NX_DNR(INVALID_NS) | SNIC_NVME_MORE);
    assert_int_equal(snic_get_le32(p + 24), 99);
    assert_int_equal(snic_get_le64(p + 64), 1);
    struct snic_nvme_smart smart = {.temperature = {0x40, 1}, .available_spare = 77};
    snic_nvmesub_health(x.s, &smart);
    p = nx_log(&x, &c, SNIC_NVME_LOG_SMART, 512, 0);
    assert_int_equal(p[3], 77);
    p = nx_log(&x, &c, SNIC_NVME_LOG_FIRMWARE, 512, 0);
    assert_int_equal(p[0], 1);
    assert_int_equal(p[8], '0' + SNIC_VERSION_MAJOR);
    p = nx_log(&x, &c, SNIC_NVME_LOG_EFFECTS, 4096, 0);
    assert_int_equal(snic_get_le32(p + 4 * SNIC_NVME_ADMIN_IDENTIFY), 1);
    assert_int_equal(snic_get_le32(p + 1024 + 4 * SNIC_NVME_IO_WRITE), 3);
    assert_int_equal(snic_get_le32(p + 1024 + 4 * SNIC_NVME_IO_WRITE_UNCORRECTABLE), 0);
    p = nx_log(&x, &c, SNIC_NVME_LOG_SUPPORTED, 1024, 0);
    assert_int_equal(snic_get_le32(p + 4 * SNIC_NVME_LOG_ANA), 1);
    assert_int_equal(snic_get_le32(p + 4 * SNIC_NVME_LOG_DISCOVERY), 0);
    p = nx_log(&x, &c, SNIC_NVME_LOG_RESERVATION, 64, 0);
    assert_int_equal(p[8], SNIC_NVME_RESV_LOG_EMPTY);
    /* Offsets: any part is the same bytes as of the whole; behind the end are zeros. */
    unsigned char whole[8192];
    memcpy(whole, nx_log(&x, &c, SNIC_NVME_LOG_EFFECTS, 8192, 1), sizeof(whole));
    for (uint32_t at = 0; at <= 4096; at += 508) {
        assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_EFFECTS, 612, at), 0);
        assert_memory_equal(x.last->data, whole + at, 612);
    }
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_EFFECTS, 4, 4096), 0);
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_EFFECTS, 4, 4100), NX_DNR(INVALID_FIELD));
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_EFFECTS, 4, 2), NX_DNR(INVALID_FIELD));
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_EFFECTS, 4, ~UINT64_C(3)),
                     NX_DNR(INVALID_FIELD));
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_DISCOVERY, 1024, 0), NX_DNR(LOG_PAGE));
    assert_int_equal(get_log(c.conn, 0xdd, 64, 0), NX_DNR(LOG_PAGE));
    assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_SMART, NX_DATA + 4, 0), NX_DNR(INVALID_FIELD));
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_LOG, 1, 512);
    e.cdw10 = SNIC_NVME_LOG_SMART | 127U << 16;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_FIELD)); /* not per namespace */
    e.nsid = 0;
    e.cdw14 = 1U << 23;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(INVALID_FIELD));
    e.cdw14 = 0;
    e.sgl_length = 508;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(SGL_LENGTH));
    nx_close(&x);
}

static void test_nvmesub_error_log_keeps_newest(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    for (uint32_t i = 1; i <= 20; i++)
        assert_int_equal(identify(c.conn, 0x44, i, 0), NX_DNR(INVALID_FIELD));
    const unsigned char *p = nx_log(&x, &c, SNIC_NVME_LOG_ERROR, 640, 0);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(snic_get_le64(p + 64 * i), i < SNIC_NVMESUB_ERRORS_MAX ? 20 - i : 0);
        assert_int_equal(snic_get_le32(p + 64 * i + 24), i < SNIC_NVMESUB_ERRORS_MAX ? 20 - i : 0);
    }
    nx_close(&x);
}

static void test_nvmesub_features(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    nx_ns(&x, 2, 5000);
    static const struct {
        uint8_t id, can;
        uint32_t nsid, preset, set, bad, status;
    } f[] = {
        {SNIC_NVME_FEAT_ARBITRATION, 4, 0, 7, 0x01020302, 8, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_POWER, 4, 0, 0, 0x20, 1, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_TEMPERATURE, 4, 0, 343, 350, 0x10000, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_ERROR_RECOVERY, 4, 0, 0, 5, 0x10000, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_VWC, 0, 0, 1, 1, 0, NX_DNR(NOT_CHANGEABLE)},
        {SNIC_NVME_FEAT_QUEUES, 4, 0, 3 | 3 << 16, 3 | 3 << 16, 0xffff, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_ATOMICITY, 0, 0, 0, 0, 0, NX_DNR(NOT_CHANGEABLE)},
        {SNIC_NVME_FEAT_AEC, 4, 0, 0, 0x900, 1U << 31, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_KATO, 4, 0, 0, 5000, SNIC_NVMESUB_KATO_MS_MAX + 1, NX_DNR(KATO_INVALID)},
        {SNIC_NVME_FEAT_RESV_MASK, 6, 2, 0, 6, 1, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_RESV_PERSIST, 6, 2, 0, 1, 2, NX_DNR(INVALID_FIELD)},
        {SNIC_NVME_FEAT_CREDIT, 4, 0, 0, 1, 2, NX_DNR(INVALID_FIELD)},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(f); i++) {
        assert_int_equal(get_feature(c.conn, f[i].id, SNIC_NVME_SELECT_SUPPORTED, f[i].nsid), 0);
        assert_int_equal(x.last->c.cqe.dw0, f[i].can);
        for (uint32_t s = 0; s < 3; s++) {
            assert_int_equal(get_feature(c.conn, f[i].id, s, f[i].nsid), 0);
            assert_int_equal(x.last->c.cqe.dw0, f[i].preset);
        }
        assert_int_equal(nx_feature(&x, &c, f[i].id, f[i].nsid, f[i].bad), f[i].status);
        if (f[i].can == 0)
            continue;
        assert_int_equal(nx_feature(&x, &c, f[i].id, f[i].nsid, f[i].set), 0);
        assert_int_equal(get_feature(c.conn, f[i].id, 0, f[i].nsid), 0);
        assert_int_equal(x.last->c.cqe.dw0, f[i].set);
        assert_int_equal(get_feature(c.conn, f[i].id, SNIC_NVME_SELECT_DEFAULT, f[i].nsid), 0);
        assert_int_equal(x.last->c.cqe.dw0, f[i].preset);
        struct snic_nvme_sqe e;
        nx_sqe(&e, SNIC_NVME_ADMIN_SET_FEATURES, f[i].nsid, 0);
        e.cdw10 = f[i].id | 1U << 31;
        assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(NOT_SAVEABLE));
        if ((f[i].can & 2) == 0)
            assert_int_equal(nx_feature(&x, &c, f[i].id, 2, f[i].set), NX_DNR(NOT_NS_SPECIFIC));
        else
            assert_int_equal(nx_feature(&x, &c, f[i].id, 3, 0), NX_DNR(INVALID_NS));
    }
    assert_int_equal(get_feature(c.conn, SNIC_NVME_FEAT_AEC, 4, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(get_feature(c.conn, 0x55, 0, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(nx_feature(&x, &c, 0x55, 0, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(get_feature(c.conn, SNIC_NVME_FEAT_RESV_MASK, 0, 3), NX_DNR(INVALID_NS));
    assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_RESV_MASK, SNIC_NVME_NSID_ALL, 8), 0);
    assert_int_equal(get_feature(c.conn, SNIC_NVME_FEAT_RESV_MASK, 0, 2), 0);
    assert_int_equal(x.last->c.cqe.dw0, 8);
    nx_queue(&x, &c, 1);
    assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_QUEUES, 0, 0), NX_DNR(SEQUENCE));
    nx_close(&x);
}

static void test_nvmesub_features_with_data(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    struct snic_nvme_sqe e;
    unsigned char data[512] = {1, 0, 1};
    nx_sqe(&e, SNIC_NVME_ADMIN_SET_FEATURES, 0, 512);
    e.cdw10 = SNIC_NVME_FEAT_HOST_BEHAVIOR;
    assert_int_equal(nx_run(&x, c.conn, &e, data), 0);
    data[3] = 1;
    assert_int_equal(nx_run(&x, c.conn, &e, data), NX_DNR(INVALID_FIELD));
    e.sgl_length = 16;
    assert_int_equal(nx_run(&x, c.conn, &e, data), NX_DNR(SGL_LENGTH));
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_FEATURES, 0, 512);
    e.cdw10 = SNIC_NVME_FEAT_HOST_BEHAVIOR;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    data[3] = 0;
    assert_memory_equal(x.last->data, data, 512);
    e.cdw10 |= SNIC_NVME_SELECT_DEFAULT << 8;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(x.last->data[0], 0);
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_FEATURES, 0, 16);
    e.cdw10 = SNIC_NVME_FEAT_HOSTID;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(HOSTID_FORMAT));
    e.cdw11 = 1;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(x.last->data[15], 0x11);
    nx_sqe(&e, SNIC_NVME_ADMIN_SET_FEATURES, 0, 16);
    e.cdw10 = SNIC_NVME_FEAT_HOSTID;
    assert_int_equal(nx_run(&x, c.conn, &e, data), NX_DNR(SEQUENCE));
    nx_close(&x);
}

/* An event is delivered once, is masked until its log is read, and is not lost meanwhile. */
static void test_nvmesub_events_masked_until_log_read(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0), deaf = nx_admin(&x, 2, 0, 0);
    struct nx_cmd *quiet = nx_aer(&x, &deaf);
    nx_ns(&x, 1, 100); /* not enabled yet: no event, but in the list */
    assert_int_equal(
        nx_feature(&x, &c, SNIC_NVME_FEAT_AEC, 0, SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA | 2), 0);
    struct nx_cmd *a = nx_aer(&x, &c), *b = nx_aer(&x, &c), *d = nx_aer(&x, &c);
    nx_ns(&x, 2, 100);
    assert_true(a->done && !b->done);
    assert_int_equal(a->c.cqe.dw0, SNIC_NVME_EVENT_NOTICE | SNIC_NVME_LOG_CHANGED_NS << 16);
    assert_int_equal(snic_nvmesub_ns_resize(x.s, 1, 200), 0);
    nx_pump(&x);
    assert_false(b->done); /* masked */
    assert_int_equal(snic_nvmesub_ana_set(x.s, 1, 0, SNIC_NVME_ANA_NON_OPTIMIZED), 0);
    nx_pump(&x);
    assert_true(b->done); /* another kind is not */
    assert_int_equal(b->c.cqe.dw0,
                     SNIC_NVME_EVENT_NOTICE | SNIC_NVME_NOTICE_ANA << 8 | SNIC_NVME_LOG_ANA << 16);
    static const unsigned char list[12] = {1, 0, 0, 0, 2};
    assert_memory_equal(nx_log(&x, &c, SNIC_NVME_LOG_CHANGED_NS, 12, 1), list, 12); /* RAE */
    assert_int_equal(snic_nvmesub_ns_read_only(x.s, 2, 1), 0);
    nx_pump(&x);
    assert_false(d->done);
    assert_memory_equal(nx_log(&x, &c, SNIC_NVME_LOG_CHANGED_NS, 12, 0), list, 12);
    nx_pump(&x);
    assert_false(d->done); /* the log had it */
    assert_int_equal(nx_log(&x, &c, SNIC_NVME_LOG_CHANGED_NS, 12, 0)[0], 0);
    assert_int_equal(snic_nvmesub_ns_remove(x.s, 2), 0);
    nx_pump(&x);
    assert_true(d->done);
    struct snic_nvme_smart smart = {.critical_warning = 2};
    snic_nvmesub_health(x.s, &smart);
    nx_free(a);
    nx_free(b);
    nx_free(d);
    a = nx_aer(&x, &c); /* it was pending */
    assert_true(a->done);
    assert_int_equal(a->c.cqe.dw0, SNIC_NVME_EVENT_HEALTH | 1 << 8 | SNIC_NVME_LOG_SMART << 16);
    assert_false(quiet->done);
    nx_free(a);
    struct nx_cmd *all[SNIC_NVMESUB_AERS_MAX];
    for (uint32_t i = 0; i < SNIC_NVMESUB_AERS_MAX; i++)
        all[i] = nx_aer(&x, &c);
    a = nx_aer(&x, &c);
    assert_true(a->done);
    assert_int_equal(a->c.cqe.status & ~SNIC_NVME_MORE, NX_DNR(AER_LIMIT));
    nx_free(a);
    nx_close(&x);
    for (uint32_t i = 0; i < SNIC_NVMESUB_AERS_MAX; i++)
        assert_true(all[i]->dropped);
}

static void test_nvmesub_ana_states_by_port(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    nx_ns(&x, 4, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct nx_ctrl other = nx_admin(&x, 2, 5, 0);
    struct snic_nvmesub_op op;
    static const struct {
        uint32_t state, status;
    } states[] = {{SNIC_NVME_ANA_NON_OPTIMIZED, 0},
                  {SNIC_NVME_ANA_INACCESSIBLE, SNIC_NVME_SC_ANA_INACCESSIBLE},
                  {SNIC_NVME_ANA_LOSS, NX_DNR(ANA_LOSS)},
                  {SNIC_NVME_ANA_CHANGE, SNIC_NVME_SC_ANA_CHANGE},
                  {SNIC_NVME_ANA_OPTIMIZED, 0}};
    for (size_t i = 0; i < SNIC_COUNTOF(states); i++) {
        assert_int_equal(snic_nvmesub_ana_set(x.s, 1, 0, states[i].state), 0);
        uint32_t r = nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op);
        assert_int_equal(r, states[i].status != 0 ? NX_STATUS(states[i].status)
                                                  : (uint32_t)SNIC_NVMESUB_IO_RUN);
        const unsigned char *p = nx_log(&x, &c, SNIC_NVME_LOG_ANA, 80, 0);
        assert_int_equal(snic_get_le64(p), i + 1);
        assert_int_equal(snic_get_le16(p + 8), 1);
        assert_int_equal(snic_get_le32(p + 16), 1);
        assert_int_equal(snic_get_le32(p + 20), 2);
        assert_int_equal(p[32], states[i].state);
        assert_int_equal(snic_get_le32(p + 48), 1);
        assert_int_equal(snic_get_le32(p + 52), 4);
        p = nx_log(&x, &other, SNIC_NVME_LOG_ANA, 80, 0);
        assert_int_equal(p[32], SNIC_NVME_ANA_OPTIMIZED);
    }
    assert_int_equal(snic_nvmesub_ns_group(x.s, 4, 3), 0);
    const unsigned char *p = nx_log(&x, &c, SNIC_NVME_LOG_ANA, 88, 0);
    assert_int_equal(snic_get_le16(p + 8), 2);
    assert_int_equal(snic_get_le32(p + 52), 3); /* the second group */
    assert_int_equal(snic_get_le32(p + 84), 4);
    unsigned char whole[88];
    memcpy(whole, p, sizeof(whole));
    for (uint32_t at = 0; at < sizeof(whole); at += 4) {
        assert_int_equal(get_log(c.conn, SNIC_NVME_LOG_ANA, 4, at), 0);
        assert_memory_equal(x.last->data, whole + at, 4);
    }
    struct snic_nvme_sqe e;
    nx_sqe(&e, SNIC_NVME_ADMIN_GET_LOG, 0, 80);
    e.cdw10 = SNIC_NVME_LOG_ANA | 1U << 8 | 19U << 16; /* RGO */
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(snic_get_le32(x.last->data + 20), 0);
    assert_int_equal(snic_get_le32(x.last->data + 48), 3);
    assert_int_equal(snic_nvmesub_ana_set(x.s, 0, 0, 1), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ana_set(x.s, 4, 0, 1), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ana_set(x.s, 1, SNIC_NVMESUB_PORTS_MAX, 1), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ana_set(x.s, 1, 0, 5), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ns_group(x.s, 1, 4), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ns_group(x.s, 2, 1), SNIC_ENOENT);
    nx_close(&x);
}

static void test_nvmesub_namespace_errors_change_nothing(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct snic_nvmesub_ns_opts sound = {
        .opts_size = sizeof(sound), .nsid = 1, .shift = 9, .blocks = 5, .nguid = {1}};
    static const struct {
        size_t at;
        uint32_t value;
    } bad[] = {{offsetof(struct snic_nvmesub_ns_opts, nsid), NX_NS + 1},
               {offsetof(struct snic_nvmesub_ns_opts, group), 4},
               {offsetof(struct snic_nvmesub_ns_opts, shift), 10},
               {offsetof(struct snic_nvmesub_ns_opts, blocks), 0},
               {offsetof(struct snic_nvmesub_ns_opts, blocks) + 4, 1U << 31},
               {offsetof(struct snic_nvmesub_ns_opts, read_only), 2},
               {offsetof(struct snic_nvmesub_ns_opts, optimal_blocks), 65537},
               {offsetof(struct snic_nvmesub_ns_opts, nguid), 0},
               {offsetof(struct snic_nvmesub_ns_opts, opts_size), 3}};
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_nvmesub_ns_opts o = sound;
        memcpy((char *)&o + bad[i].at, &bad[i].value, 4);
        assert_int_equal(snic_nvmesub_ns_add(x.s, &o), SNIC_EINVAL);
    }
    assert_int_equal(snic_nvmesub_ns_add(x.s, &sound), 1);
    assert_int_equal(snic_nvmesub_ns_add(x.s, &sound), SNIC_EEXIST);
    assert_int_equal(snic_nvmesub_ns_resize(x.s, 1, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ns_resize(x.s, 1, UINT64_MAX), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_ns_resize(x.s, 2, 1), SNIC_ENOENT);
    assert_int_equal(snic_nvmesub_ns_read_only(x.s, 2, 1), SNIC_ENOENT);
    assert_int_equal(snic_nvmesub_ns_remove(x.s, 2), SNIC_ENOENT);
    struct snic_nvmesub_ns_status st;
    assert_int_equal(snic_nvmesub_get_ns(x.s, 2, &st), SNIC_ENOENT);
    assert_int_equal(snic_nvmesub_get_ns(x.s, 1, &st), 0);
    assert_int_equal(st.blocks, 5);
    struct snic_nvmesub_ctrl_status cs;
    assert_int_equal(snic_nvmesub_get_ctrl(x.s, 0, &cs), SNIC_ENOENT);
    struct nx_ctrl c = nx_admin(&x, 1, 3, 700);
    assert_int_equal(snic_nvmesub_get_ctrl(x.s, c.cntlid - 1U, &cs), 0);
    assert_string_equal(cs.hostnqn, nx_nqn(1));
    assert_int_equal(cs.kato_ms, 700);
    assert_int_equal(cs.port, 3);
    nx_close(&x);
}

/* A removed namespace is refused at once; its id is free when the threads have let go of it. */
static void test_nvmesub_namespace_removal_quiesces(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvmesub_op queued, op;
    struct snic_nvme_cqe cqe;
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &queued), SNIC_NVMESUB_IO_RUN);
    x.hold_quiesce = 1;
    assert_int_equal(snic_nvmesub_ns_remove(x.s, 1), 0);
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), NX_STATUS(NX_DNR(INVALID_NS)));
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[q].q, &queued, &cqe),
                     SNIC_NVMESUB_IO_STATUS);
    assert_int_equal(cqe.status, NX_DNR(INVALID_NS));
    nx_pump(&x);
    assert_int_equal(x.quiesces, 1);
    assert_int_equal(x.quiesce.removal, 1);
    struct snic_nvmesub_ns_opts o = {
        .opts_size = sizeof(o), .nsid = 1, .shift = 9, .blocks = 5, .nguid = {1}};
    assert_int_equal(snic_nvmesub_ns_add(x.s, &o), SNIC_EEXIST);
    struct snic_nvmesub_ns_status st;
    assert_int_equal(snic_nvmesub_get_ns(x.s, 1, &st), 0);
    assert_int_equal(st.removing, 1);
    snic_nvmesub_quiesced(x.s, 1, x.quiesce.sequence);
    assert_int_equal(snic_nvmesub_ns_add(x.s, &o), 1);
    /* The id is the same, the namespace is not. */
    assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[q].q, &queued, &cqe),
                     SNIC_NVMESUB_IO_STATUS);
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), SNIC_NVMESUB_IO_RUN);
    nx_close(&x);
}

static void test_nvmesub_abort(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 2);
    struct snic_nvme_sqe e;
    struct nx_cmd *aer = nx_aer(&x, &c), *a[SNIC_NVMESUB_ABORTS_MAX];
    nx_sqe(&e, SNIC_NVME_ADMIN_ABORT, 0, 0);
    e.cid = 9;
    e.cdw10 = 8U << 16;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(x.last->c.cqe.dw0, 1); /* no such command */
    e.cdw10 = 7U << 16;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(x.last->c.cqe.dw0, 0);
    assert_true(aer->done);
    assert_int_equal(aer->c.cqe.status & ~SNIC_NVME_MORE, SNIC_NVME_SC_ABORT_REQUESTED);
    nx_free(aer);
    e.cdw10 = 1 | 5U << 16;
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), 0);
    assert_int_equal(x.last->c.cqe.dw0, 1); /* no such queue */
    x.hold_abort = 1;
    e.cdw10 = 2 | 5U << 16;
    for (uint32_t i = 0; i < SNIC_NVMESUB_ABORTS_MAX; i++) {
        a[i] = nx_send(&x, c.conn, &e, NULL);
        nx_pump(&x);
        assert_int_equal(x.abort.conn, q);
        assert_int_equal(x.abort.cid, 5);
    }
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(ABORT_LIMIT));
    snic_nvmesub_abort_done(x.s, &a[0]->c, 1);
    snic_nvmesub_abort_done(x.s, &a[1]->c, 0);
    nx_pump(&x);
    assert_true(a[0]->done && a[0]->c.cqe.dw0 == 0);
    assert_true(a[1]->done && a[1]->c.cqe.dw0 == 1);
    nx_lost(&x, c.conn);
    nx_pump(&x);
    assert_true(x.conn[c.conn].open); /* the owner has two of its commands */
    snic_nvmesub_abort_done(x.s, &a[2]->c, 1);
    snic_nvmesub_abort_done(x.s, &a[3]->c, 1);
    nx_pump(&x);
    assert_true(a[2]->dropped && a[3]->dropped);
    assert_false(x.conn[c.conn].open);
    nx_close(&x);
}

static void test_nvmesub_authentication_before_all_else(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), SNIC_NVMESUB_HOST_AUTH, NULL, 0), 0);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct nx_ctrl c = {.conn = nx_conn(&x, 0), .host = 1};
    nx_connect_data(&d, 1, SNIC_NVME_CNTLID_DYNAMIC);
    nx_connect_sqe(&e, 0, 32, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, &d), 0);
    c.cntlid = (uint16_t)x.last->c.cqe.dw0;
    assert_int_equal(x.last->c.cqe.dw0, c.cntlid | SNIC_NVME_CONNECT_ATR);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), NX_DNR(AUTH_REQUIRED));
    nx_sqe(&e, SNIC_NVME_ADMIN_KEEP_ALIVE, 0, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, NULL), NX_DNR(AUTH_REQUIRED));
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_AUTH_SEND, 64);
    struct nx_cmd *a = nx_send(&x, c.conn, &e, &d);
    nx_pump(&x);
    assert_int_equal(x.auths, 1);
    assert_ptr_equal(x.auth.cmd, &a->c);
    snic_nvmesub_auth_done(x.s, &a->c, 0);
    snic_nvmesub_authenticated(x.s, c.conn);
    nx_pump(&x);
    assert_true(a->done);
    nx_free(a);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), 0);
    nx_ns(&x, 1, 100);
    uint32_t q = nx_conn(&x, 0);
    nx_connect_data(&d, 1, c.cntlid);
    nx_connect_sqe(&e, 1, 8, 0);
    assert_int_equal(nx_run(&x, q, &e, &d), 0);
    struct snic_nvmesub_op op;
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), NX_STATUS(NX_DNR(AUTH_REQUIRED)));
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_AUTH_RECEIVE, 64);
    a = nx_send(&x, q, &e, NULL);
    nx_pump(&x);
    a->c.data_out = 64;
    snic_nvmesub_auth_done(x.s, &a->c, 0);
    snic_nvmesub_authenticated(x.s, q);
    snic_nvmesub_io_authenticated(&x.conn[q].q);
    nx_pump(&x);
    assert_int_equal(a->c.data_out, 64);
    nx_free(a);
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), SNIC_NVMESUB_IO_RUN);
    nx_close(&x);
}

static void prove(uint32_t conn)
{
    struct snic_nvme_sqe e;
    static const unsigned char message[64];
    nx_sqe(&e, SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_AUTH_SEND, sizeof(message));
    struct nx_cmd *a = nx_send(&x, conn, &e, message);
    nx_pump(&x);
    snic_nvmesub_auth_done(x.s, &a->c, 0);
    snic_nvmesub_authenticated(x.s, conn);
    if (x.conn[conn].attached)
        snic_nvmesub_io_authenticated(&x.conn[conn].q);
    nx_pump(&x);
    assert_true(a->done);
    nx_free(a);
}

static uint32_t connect_one(uint32_t conn, uint16_t qid, uint16_t cntlid)
{
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    nx_connect_data(&d, 1, cntlid);
    nx_connect_sqe(&e, qid, qid == 0 ? 32 : 8, 0);
    return nx_run(&x, conn, &e, &d);
}

/** A client that only knows a host's names neither keeps a queue from it nor fences it. */
static void test_nvmesub_claims_make_room_for_the_host(void **state)
{
    (void)state;
    struct snic_nvmesub_stats st;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), SNIC_NVMESUB_HOST_AUTH, NULL, 0), 0);
    struct nx_ctrl c = {.conn = nx_conn(&x, 0), .host = 1};
    assert_int_equal(connect_one(c.conn, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    c.cntlid = (uint16_t)x.last->c.cqe.dw0;
    prove(c.conn);
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), 0);
    uint32_t claim = nx_conn(&x, 0), q = nx_conn(&x, 0), late = nx_conn(&x, 0);
    assert_int_equal(connect_one(claim, 1, c.cntlid), 0);
    assert_int_equal(connect_one(q, 1, c.cntlid), 0);
    assert_false(x.conn[claim].open);
    prove(q);
    assert_int_equal(connect_one(late, 1, c.cntlid), NX_DNR(SEQUENCE));
    struct snic_nvmesub_op op;
    assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, 0, &op), SNIC_NVMESUB_IO_RUN);
    claim = nx_conn(&x, 0);
    assert_int_equal(connect_one(claim, 2, c.cntlid), 0);
    snic_nvmesub_get_stats(x.s, &st);
    uint64_t fences = st.fences;
    nx_lost(&x, claim);
    nx_pump(&x);
    snic_nvmesub_get_stats(x.s, &st);
    assert_int_equal(st.fences, fences);
    nx_lost(&x, q); /* a proven one may have started something */
    nx_pump(&x);
    snic_nvmesub_get_stats(x.s, &st);
    assert_int_equal(st.fences, fences + 1);
    nx_close(&x);
}

/** A rule that begins to require a proof ends unproven controllers; one that required it already
 * does not. */
static void test_nvmesub_proof_newly_required(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0), other = nx_admin(&x, 2, 0, 0);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), 0, NULL, 0), 0);
    nx_pump(&x);
    assert_true(x.conn[c.conn].open);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), SNIC_NVMESUB_HOST_AUTH, NULL, 0), 0);
    nx_pump(&x);
    assert_false(x.conn[c.conn].open);
    assert_true(x.conn[other.conn].open);
    c.conn = nx_conn(&x, 0);
    assert_int_equal(connect_one(c.conn, 0, SNIC_NVME_CNTLID_DYNAMIC), 0);
    prove(c.conn);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(1), SNIC_NVMESUB_HOST_AUTH, NULL, 0), 0);
    nx_pump(&x);
    assert_true(x.conn[c.conn].open);
    nx_close(&x);
}

/* ---- Discovery ---- */

static void test_nvmesub_discovery_log(void **state)
{
    (void)state;
    struct snic_nvmesub_opts o;
    nx_opts(&o);
    o.flags |= SNIC_NVMESUB_DISCOVERY;
    nx_open(&x, &o);
    assert_int_equal(snic_nvmesub_allow(x.s, nx_nqn(2), 0, NULL, 0), 0);
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct nx_ctrl c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = (struct nx_ctrl){.conn = nx_conn(&x, 0), .host = i + 1};
        nx_connect_data(&d, i + 1, SNIC_NVME_CNTLID_DYNAMIC);
        nx_name(d.subnqn, SNIC_NVME_DISCOVERY_NQN);
        nx_connect_sqe(&e, 0, 32, i == 0 ? 0 : 5000);
        assert_int_equal(nx_run(&x, c[i].conn, &e, &d), 0);
        c[i].cntlid = (uint16_t)x.last->c.cqe.dw0;
        assert_int_equal(nx_cc(&x, &c[i], SNIC_NVME_CC_EN), 0);
        assert_int_equal(nx_csts(&x, &c[i]), SNIC_NVME_CSTS_RDY);
    }
    nx_connect_sqe(&e, 1, 8, 0);
    snic_put_le16(&d.cntlid, c[1].cntlid);
    assert_int_equal(nx_run(&x, nx_conn(&x, 0), &e, &d), NX_DNR(CONNECT_PARAM));
    assert_int_equal(x.last->c.cqe.dw0, 42);
    assert_int_equal(identify(c[0].conn, SNIC_NVME_CNS_CTRL, 0, 0), 0);
    assert_int_equal(x.last->data[111], SNIC_NVME_CNTRLTYPE_DISCOVERY);
    assert_int_equal(identify(c[0].conn, SNIC_NVME_CNS_NS_LIST, 0, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(get_log(c[0].conn, SNIC_NVME_LOG_SMART, 512, 0), NX_DNR(LOG_PAGE));
    assert_int_equal(nx_feature(&x, &c[0], SNIC_NVME_FEAT_QUEUES, 0, 0), NX_DNR(INVALID_FIELD));
    assert_int_equal(nx_feature(&x, &c[0], SNIC_NVME_FEAT_AEC, 0, SNIC_NVME_AEC_DISCOVERY), 0);
    nx_sqe(&e, SNIC_NVME_ADMIN_ABORT, 0, 0);
    assert_int_equal(nx_run(&x, c[0].conn, &e, NULL), NX_DNR(INVALID_OPCODE));
    struct nx_cmd *aer = nx_aer(&x, &c[0]);
    struct snic_nvme_discovery_entry entry = {.trtype = SNIC_NVME_TRTYPE_TCP, .subtype = 2};
    const char *hosts[] = {nx_nqn(2)}, *unknown[] = {"nqn.none"};
    assert_int_equal(snic_nvmesub_entry(x.s, 4, &entry, NULL, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmesub_entry(x.s, 0, &entry, unknown, 1), SNIC_ENOENT);
    assert_int_equal(snic_nvmesub_entry(x.s, 0, &entry, NULL, 0), 0);
    nx_pump(&x);
    assert_true(aer->done);
    assert_int_equal(aer->c.cqe.dw0, SNIC_NVME_EVENT_NOTICE | SNIC_NVME_NOTICE_DISCOVERY << 8 |
                                         SNIC_NVME_LOG_DISCOVERY << 16);
    entry.portid = 9;
    assert_int_equal(snic_nvmesub_entry(x.s, 2, &entry, hosts, 1), 0);
    const unsigned char *p = nx_log(&x, &c[0], SNIC_NVME_LOG_DISCOVERY, 4096, 0);
    assert_int_equal(snic_get_le64(p), 2);
    assert_int_equal(snic_get_le64(p + 8), 1);
    p = nx_log(&x, &c[1], SNIC_NVME_LOG_DISCOVERY, 4096, 0);
    assert_int_equal(snic_get_le64(p + 8), 2);
    assert_int_equal(p[1024], SNIC_NVME_TRTYPE_TCP);
    assert_memory_equal(p + 2048, &entry, sizeof(entry));
    assert_int_equal(snic_nvmesub_entry(x.s, 0, NULL, NULL, 0), 0);
    p = nx_log(&x, &c[0], SNIC_NVME_LOG_DISCOVERY, 1024, 0);
    assert_int_equal(snic_get_le64(p), 3);
    assert_int_equal(snic_get_le64(p + 8), 0);
    struct snic_nvmesub_ns_opts ns = {
        .opts_size = sizeof(ns), .nsid = 1, .shift = 9, .blocks = 5, .nguid = {1}};
    assert_int_equal(snic_nvmesub_ns_add(x.s, &ns), SNIC_EINVAL);
    x.hold_stop = 1; /* without KATO: two idle minutes */
    for (int i = 0; i < 2; i++) {
        x.now += UINT64_C(120000000000);
        snic_nvmesub_tick(x.s, x.now);
    }
    nx_pump(&x);
    assert_int_equal(x.conn[c[0].conn].reason, SNIC_NVMESUB_BY_IDLE);
    assert_int_equal(x.conn[c[1].conn].reason, SNIC_NVMESUB_BY_KATO);
    nx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_identify_pages),
        cmocka_unit_test(test_nvmesub_identify_refusals),
        cmocka_unit_test(test_nvmesub_logs),
        cmocka_unit_test(test_nvmesub_error_log_keeps_newest),
        cmocka_unit_test(test_nvmesub_features),
        cmocka_unit_test(test_nvmesub_features_with_data),
        cmocka_unit_test(test_nvmesub_events_masked_until_log_read),
        cmocka_unit_test(test_nvmesub_ana_states_by_port),
        cmocka_unit_test(test_nvmesub_namespace_errors_change_nothing),
        cmocka_unit_test(test_nvmesub_namespace_removal_quiesces),
        cmocka_unit_test(test_nvmesub_abort),
        cmocka_unit_test(test_nvmesub_authentication_before_all_else),
        cmocka_unit_test(test_nvmesub_claims_make_room_for_the_host),
        cmocka_unit_test(test_nvmesub_proof_newly_required),
        cmocka_unit_test(test_nvmesub_discovery_log),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
