/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* I/O commands: each check, each kind, completions. */
#include "test_nvmesub_util.h"

static struct nx x;

static uint32_t io_check(uint32_t q, const struct snic_nvme_sqe *e, struct snic_nvmesub_op *op)
{
    unsigned char raw[SNIC_NVME_SQE_BYTES];
    struct snic_nvme_cqe cqe = {0};
    snic_nvme_sqe_store(raw, e);
    int r = snic_nvmesub_io_check(x.v, &x.conn[q].q, raw, op, &cqe);
    return r == SNIC_NVMESUB_IO_STATUS ? NX_STATUS(cqe.status) : (uint32_t)r;
}

static void test_nvmesub_io_checks(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvme_sqe good, e;
    struct snic_nvmesub_op op;
    nx_sqe(&good, SNIC_NVME_IO_WRITE, 1, 4096);
    good.cdw10 = 92;
    good.cdw12 = 7 | SNIC_NVME_RW_FUA | SNIC_NVME_RW_LR;
    assert_int_equal(io_check(q, &good, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(op.kind, SNIC_NVMESUB_WRITE);
    assert_true(op.fua && op.limited && !op.deallocate);
    assert_int_equal(op.offset, 92 * 512);
    assert_int_equal(op.bytes, 4096);
    assert_int_equal(op.blocks, 8);
#define REFUSED(status)                                                                            \
    do {                                                                                           \
        assert_int_equal(io_check(q, &e, &op), NX_STATUS(status));                                 \
        e = good;                                                                                  \
    } while (0)
    e = good;
    e.cdw10 = 93;
    REFUSED(NX_DNR(LBA_RANGE));
    e.cdw11 = 0xffffffff;
    REFUSED(NX_DNR(LBA_RANGE));
    e.cdw10 = e.cdw11 = 0xffffffff;
    REFUSED(NX_DNR(LBA_RANGE));
    e.cdw12 += 32;
    REFUSED(NX_DNR(INVALID_FIELD)); /* MDTS */
    e.cdw12 |= 1U << 26;
    REFUSED(NX_DNR(PROTECTION));
    e.cdw12 |= SNIC_NVME_RW_STC;
    REFUSED(NX_DNR(PROTECTION));
    e.nsid = 0;
    REFUSED(NX_DNR(INVALID_NS));
    e.nsid = 2;
    REFUSED(NX_DNR(INVALID_NS));
    e.nsid = SNIC_NVME_NSID_ALL;
    REFUSED(NX_DNR(INVALID_NS));
    e.flags = 0;
    REFUSED(NX_DNR(INVALID_FIELD));
    e.flags |= 2;
    REFUSED(NX_DNR(INVALID_FIELD));
    e.sgl_length = 4095;
    REFUSED(NX_DNR(SGL_LENGTH));
    e.sgl_length = 4097;
    REFUSED(NX_DNR(SGL_LENGTH));
    e.sgl_key = 0x40U << 24;
    REFUSED(NX_DNR(SGL_TYPE));
    e.opcode = SNIC_NVME_IO_READ;
    e.sgl_key = (uint32_t)SNIC_NVME_SGL_DATA_OFFSET << 24;
    REFUSED(NX_DNR(SGL_TYPE));
    e.opcode = SNIC_NVME_IO_WRITE_UNCORRECTABLE;
    REFUSED(NX_DNR(INVALID_OPCODE));
    e.opcode = 0x80;
    REFUSED(NX_DNR(INVALID_OPCODE));
    e.sgl_key = (uint32_t)SNIC_NVME_SGL_DATA_OFFSET << 24;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
#undef REFUSED
    assert_int_equal(snic_nvmesub_ns_read_only(x.s, 1, 1), 0);
    assert_int_equal(io_check(q, &good, &op), NX_STATUS(NX_DNR(WRITE_PROTECTED)));
    e.opcode = SNIC_NVME_IO_READ;
    e.sgl_key = good.sgl_key;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    nx_close(&x);
}

static void test_nvmesub_io_kinds(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvme_sqe e;
    struct snic_nvmesub_op op;
    nx_sqe(&e, SNIC_NVME_IO_WRITE_ZEROES, 1, 0);
    e.cdw12 = 99 | SNIC_NVME_RW_DEAC; /* beyond MDTS */
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(op.kind, SNIC_NVMESUB_ZEROES);
    assert_true(op.deallocate && op.bytes == 0 && op.length == 51200);
    e.opcode = SNIC_NVME_IO_VERIFY;
    e.cdw12 = 99;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(op.kind, SNIC_NVMESUB_VERIFY);
    e.opcode = SNIC_NVME_IO_FLUSH;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(op.kind, SNIC_NVMESUB_FLUSH);
    e.opcode = SNIC_NVME_IO_COMPARE;
    e.cdw12 = 0;
    e.sgl_length = 512;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_int_equal(op.kind, SNIC_NVMESUB_COMPARE);
    nx_close(&x);
}

static void test_nvmesub_io_discard_ranges(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvme_sqe e;
    struct snic_nvmesub_op op, one;
    unsigned char data[48] = {0};
    nx_sqe(&e, SNIC_NVME_IO_DSM, 1, 48);
    e.cdw10 = 2;
    assert_int_equal(io_check(q, &e, &op), NX_STATUS(0)); /* hints: done */
    e.cdw11 = SNIC_NVME_DSM_DEALLOCATE;
    e.sgl_length = 32;
    assert_int_equal(io_check(q, &e, &op), NX_STATUS(NX_DNR(SGL_LENGTH)));
    e.sgl_length = 4097; /* more than a table has */
    assert_int_equal(io_check(q, &e, &op), NX_STATUS(NX_DNR(SGL_LENGTH)));
    e.sgl_length = 4096; /* the whole table, as Linux sends it */
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_true(op.count == 3 && op.bytes == 4096);
    e.sgl_length = 48;
    assert_int_equal(io_check(q, &e, &op), SNIC_NVMESUB_IO_RUN);
    assert_true(op.count == 3 && op.bytes == 48);
    snic_put_le32(data + 4, 10);
    snic_put_le64(data + 8, 90);
    snic_put_le32(data + 20, 10);
    snic_put_le64(data + 24, 91);
    assert_int_equal(snic_nvmesub_io_range(x.v, &op, data, 0, &one), 0);
    assert_int_equal(one.offset, 90 * 512);
    assert_int_equal(one.length, 5120);
    assert_int_equal(snic_nvmesub_io_range(x.v, &op, data, 1, &one), NX_DNR(LBA_RANGE));
    assert_int_equal(snic_nvmesub_io_range(x.v, &op, data, 2, &one), 0);
    assert_int_equal(one.length, 0);
    x.hold_quiesce = 1;
    assert_int_equal(snic_nvmesub_ns_remove(x.s, 1), 0);
    assert_int_equal(snic_nvmesub_io_range(x.v, &op, data, 0, &one), NX_DNR(INVALID_NS));
    nx_pump(&x);
    snic_nvmesub_quiesced(x.s, 1, x.quiesce.sequence);
    nx_close(&x);
}

/* Only a host that asked for credit gets it; completions count the queue's head. */
static void test_nvmesub_io_completions_and_credit(void **state)
{
    (void)state;
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    struct nx_ctrl c = nx_admin(&x, 1, 0, 0);
    uint32_t q = nx_queue(&x, &c, 1);
    struct snic_nvmesub_op op;
    struct snic_nvme_cqe cqe;
    for (uint32_t i = 0; i < 20; i++) {
        if (i == 10)
            assert_int_equal(nx_feature(&x, &c, SNIC_NVME_FEAT_CREDIT, 0, 1), 0);
        assert_int_equal(nx_io(&x, q, SNIC_NVME_IO_READ, 1, i, &op), SNIC_NVMESUB_IO_RUN);
        assert_int_equal(snic_nvmesub_io_start(x.v, &x.conn[q].q, &op, &cqe), SNIC_NVMESUB_IO_RUN);
        snic_nvmesub_io_done(x.v, &x.conn[q].q, op.cid, NX_DNR(READ_ERROR), 30 + i, &cqe);
        assert_int_equal(cqe.sqhd, (i + 2) % 8);
        assert_int_equal(cqe.dw1, i < 10 ? 0 : 30 + i);
        assert_int_equal(cqe.status, NX_DNR(READ_ERROR));
    }
    nx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_io_checks),
        cmocka_unit_test(test_nvmesub_io_kinds),
        cmocka_unit_test(test_nvmesub_io_discard_ranges),
        cmocka_unit_test(test_nvmesub_io_completions_and_credit),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
