/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The vocabulary of NVM Express: queue entries byte by byte, statuses with texts and errors. */
#include "snicstore/nvme.h"
#include "support.h"

static void test_nvme_sqe_bytes(void **state)
{
    (void)state;
    unsigned char raw[SNIC_NVME_SQE_BYTES + 1], back[SNIC_NVME_SQE_BYTES];
    struct snic_nvme_sqe s;
    for (unsigned i = 0; i < sizeof(raw); i++)
        raw[i] = (unsigned char)(i * 7 + 1);
    snic_nvme_sqe_load(&s, raw + 1); /* at any alignment */
    assert_int_equal(s.opcode, 8);
    assert_int_equal(s.flags, 15);
    assert_int_equal(s.cid, 0x1d16);
    assert_int_equal(s.nsid, 0x39322b24);
    assert_int_equal(s.sgl_length, (uint32_t)raw[33] | (uint32_t)raw[34] << 8 |
                                       (uint32_t)raw[35] << 16 | (uint32_t)raw[36] << 24);
    assert_int_equal(snic_nvme_sgl_type(&s), raw[40]);
    assert_int_equal(s.cdw10 & 0xff, raw[41]);
    assert_int_equal(s.cdw15 >> 24, raw[64]);
    snic_nvme_sqe_store(back, &s);
    assert_memory_equal(back, raw + 1, sizeof(back));
}

static void test_nvme_cqe_bytes(void **state)
{
    (void)state;
    struct snic_nvme_cqe c = {.dw0 = 0x04030201,
                              .dw1 = 0x08070605,
                              .sqhd = 0x0a09,
                              .sqid = 0x0c0b,
                              .cid = 0x0e0d,
                              .status = SNIC_NVME_SC_INVALID_FIELD | SNIC_NVME_DNR},
                         back;
    static const unsigned char expected[] = {1, 2,  3,  4,  5,  6,  7, 8,
                                             9, 10, 11, 12, 13, 14, 4, 0x80};
    unsigned char raw[SNIC_NVME_CQE_BYTES];
    snic_nvme_cqe_store(raw, &c);
    assert_memory_equal(raw, expected, sizeof(raw));
    raw[14] |= 1; /* a phase bit */
    snic_nvme_cqe_load(&back, raw);
    assert_memory_equal(&back, &c, sizeof(c));
}

static void test_nvme_directions(void **state)
{
    (void)state;
    static const struct {
        uint8_t opcode, type, direction;
    } d[] = {{SNIC_NVME_IO_WRITE, 0, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_IO_READ, 0, SNIC_NVME_DIR_IN},
             {SNIC_NVME_IO_FLUSH, 0, SNIC_NVME_DIR_NONE},
             {SNIC_NVME_IO_COMPARE, 0, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_IO_DSM, 0, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_ADMIN_IDENTIFY, 0, SNIC_NVME_DIR_IN},
             {SNIC_NVME_ADMIN_SET_FEATURES, 0, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_CONNECT, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_PROPERTY_GET, SNIC_NVME_DIR_NONE},
             {SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_AUTH_SEND, SNIC_NVME_DIR_OUT},
             {SNIC_NVME_FABRICS, SNIC_NVME_FABRICS_AUTH_RECEIVE, SNIC_NVME_DIR_IN}};
    for (size_t i = 0; i < SNIC_COUNTOF(d); i++) {
        struct snic_nvme_sqe s = {.opcode = d[i].opcode, .nsid = d[i].type};
        assert_int_equal(snic_nvme_direction(&s), d[i].direction);
    }
}

/* Every code has one text; flags do not matter; unknown ones have a text and an error, too. */
static void test_nvme_statuses(void **state)
{
    (void)state;
    unsigned known = 0;
    for (uint32_t s = 0; s < 0x800; s++) {
        const char *text = snic_nvme_status_text(s);
        assert_non_null(text);
        assert_ptr_equal(text, snic_nvme_status_text(s | SNIC_NVME_DNR | SNIC_NVME_MORE));
        int error = snic_nvme_status_error(s | SNIC_NVME_DNR);
        assert_int_equal(error == 0, s == 0);
        assert_string_not_equal(snic_errname(error), "SNIC_E?");
        known += strcmp(text, "unknown status") != 0;
    }
    assert_int_equal(known, 66);
    assert_int_equal(snic_nvme_status_error(0x7ff), SNIC_EIO);
    static const int errors[] = {0,           SNIC_EAGAIN,   SNIC_EBUSY,  SNIC_ENOMEM,
                                 SNIC_ENOSPC, SNIC_EROFS,    SNIC_ERANGE, SNIC_ENOTSUP,
                                 SNIC_EIO,    SNIC_ECORRUPT, SNIC_ESTALE, SNIC_ECANCELED};
    for (size_t i = 0; i < SNIC_COUNTOF(errors); i++) {
        uint32_t s = snic_nvme_error_status(errors[i]);
        assert_int_equal(s == 0, errors[i] == 0);
        assert_string_not_equal(snic_nvme_status_text(s), "unknown status");
    }
    assert_int_equal(snic_nvme_error_status(-99999), SNIC_NVME_SC_INTERNAL);
    assert_int_equal(SNIC_NVME_SCT(SNIC_NVME_SC_ANA_LOSS | SNIC_NVME_DNR), 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvme_sqe_bytes),
        cmocka_unit_test(test_nvme_cqe_bytes),
        cmocka_unit_test(test_nvme_directions),
        cmocka_unit_test(test_nvme_statuses),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
