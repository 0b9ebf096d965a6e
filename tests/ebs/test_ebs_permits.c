/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a verified token permits, each claim alone. */
#include "snicstore/ebs.h"
#include "support.h"

static const struct snic_ebs_token sample = {.vd_id = UINT64_C(0x0102030405060708),
                                             .not_after = 0x6f5e4d3c,
                                             .key_id = 0x5167,
                                             .account = 0xacc00001,
                                             .gen = 3u << 16,
                                             .rights = SNIC_EBS_MAY_READ | SNIC_EBS_MAY_FENCE};

static void test_ebs_permits_the_rights_granted(void **state)
{
    const struct snic_ebs_token_use fits = {.vd_id = sample.vd_id,
                                            .now = sample.not_after,
                                            .account = sample.account,
                                            .rights = SNIC_EBS_MAY_READ,
                                            .lease = 3,
                                            .stored = 3};
    struct snic_ebs_token_use u = fits;
    (void)state;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), 0);
    u.rights = SNIC_EBS_MAY_READ | SNIC_EBS_MAY_FENCE;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), 0);
    u.rights |= SNIC_EBS_MAY_WRITE;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_EPERM);
    u = fits;
    u.vd_id++;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_EPERM);
    u = fits;
    u.account = 0;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_EPERM);
    u = fits;
    u.now++;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_ETIMEDOUT);
    u = fits;
    u.stored = 4; /* a later lease was granted, or this one revoked */
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_ESTALE);
    u.lease = 4; /* it does not help to claim that */
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_ERANGE);
    u.stored = 3;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), SNIC_ERANGE);
    u.lease = 1;
    u.stored = 0;
    assert_int_equal(snic_ebs_token_permits(&sample, &u), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ebs_permits_the_rights_granted)};
    return SUPPORT_MAIN(argc, argv, tests);
}
