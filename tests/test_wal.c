/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The durable log: what each call returns, and what it leaves untouched.
 */
#include "support.h"
#include "walfix.h"

static struct walfix fix;

static void begin(void)
{
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.sector = 512;
    fix.disk_opts.size = 32768 + 16 * 16384;
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    fix.m.length_max = 512;
    walfix_start(&fix, support_seed());
}

static void finish(void)
{
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* Nothing that was appended comes back. */
static void test_wal_appended_reopened_found(void **state)
{
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(fix.report.formatted, 1);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(walfix_append(&fix, i % WALFIX_SOME, 0), 0);
        if (i % 3 == 0)
            walfix_settle(&fix);
    }
    walfix_settle(&fix);
    walfix_close(&fix);
    snic_disk_power_cut(fix.disk, SNIC_FAULT_KEEP_NONE);
    walfix_unplug(&fix);
    walfix_plug(&fix);
    assert_int_equal(walfix_open(&fix, 0), 0);
    assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
    assert_int_equal(fix.found, 100);
    walfix_judge(&fix);
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_appended_reopened_found),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
