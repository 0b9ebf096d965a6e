/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A block server whose own segment, SNIC_VOLUME_META, is damaged: what clients have stored is there
 * all the same, and no epoch is used twice.
 */
#include "test_volume_util.h"

static int setup(uint32_t transport)
{
    buffer = aligned_alloc(4096, 1u << 20);
    assert_non_null(buffer);
    volfix_start(&fix, transport, support_seed(), 1);
    memset(buffer, 5, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
    return 0;
}

static uint32_t epoch(void)
{
    struct snic_volume_server_stats s;
    snic_volume_server_get_stats(fix.server[0].s, &s);
    return s.srv_epoch;
}

/* The client, which has lived on, reads and writes. */
static void assert_serves(void)
{
    memset(buffer, 0, 1u << 20);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, 1u << 20, buffer), 1u << 20);
    assert_true(all_are(buffer, 1u << 20, 5));
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, 0, 1u << 20, buffer), 1u << 20);
}

static void kill_at_home(void)
{
    volfix_settle_home(&fix, 0);
    volfix_server_kill(&fix, 0, SNIC_FAULT_KEEP_NONE);
}

static void damage_block(void)
{
    unsigned char *disk = snic_disk_bytes(fix.server[0].disk), *found = NULL;
    for (uint64_t at = 0; at < VOLFIX_DISK; at += 4096)
        if (memcmp(disk + at, "Nvsvrem0", 8) == 0)
            found = disk + at;
    assert_non_null(found); /* the last one is home, the others the log */
    found[20] ^= 1;
}

/* Both copies of the table of the segment's blocks 0 ... 127, or, page 0, of what it is. */
static void damage_pages(uint32_t page)
{
    unsigned char *disk = snic_disk_bytes(fix.server[0].disk);
    uint32_t copies = 0;
    for (uint64_t at = 0; at < VOLFIX_DISK; at += 4096) {
        if (memcmp(disk + at, "SNICSEGT", 8) != 0 || snic_get_le32(disk + at + 28) != page ||
            snic_get_le64(disk + at + 32) != SNIC_VOLUME_META)
            continue;
        memset(disk + at, 0, 4096);
        copies++;
    }
    assert_int_equal(copies, 2);
}

static void test_volume_damage_of_own_block_is_mended(void **state)
{
    (void)state;
    uint32_t before = epoch();
    kill_at_home();
    damage_block();
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_int_equal(epoch(), before + 1);
    assert_serves();
    kill_at_home();
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_int_equal(epoch(), before + 2);
    assert_serves();
}

static void test_volume_damage_of_own_versions_wants_salvage(void **state)
{
    (void)state;
    uint32_t before = epoch();
    kill_at_home();
    damage_pages(1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(volfix_server_start(&fix, 0), SNIC_ECORRUPT);
        volfix_server_stop(&fix, 0);
    }
    fix.salvage = SNIC_SEGMENTS_SALVAGE;
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    uint32_t after = epoch();
    assert_int_not_equal(after, before);
    assert_serves();
    fix.salvage = 0;
    kill_at_home();
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_int_equal(epoch(), after + 1);
    assert_serves();
}

static void test_volume_damage_of_all_starts_anew(void **state)
{
    (void)state;
    uint32_t before = epoch();
    kill_at_home();
    damage_pages(0);
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_int_not_equal(epoch(), before);
    assert_serves();
}

/* What the log had is lost, and with it, perhaps, that an epoch was used. */
static void test_volume_damage_of_log_starts_anew(void **state)
{
    (void)state;
    const uint32_t log = 65536, head = 32768;
    uint32_t before = epoch();
    kill_at_home();
    memset(snic_disk_bytes(fix.server[0].disk) + log + head, 0, (4u << 20) - head);
    assert_int_equal(volfix_server_start(&fix, 0), SNIC_ECORRUPT);
    volfix_server_stop(&fix, 0);
    fix.salvage = SNIC_SEGMENTS_SALVAGE;
    assert_int_equal(volfix_server_start(&fix, 0), 0);
    assert_true(epoch() != before && epoch() != before + 1);
    assert_serves();
}

/* The same over both transports. */
#define CASE(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown, NULL},                                           \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown, NULL                                            \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {CASE(test_volume_damage_of_own_block_is_mended),
                                       CASE(test_volume_damage_of_own_versions_wants_salvage),
                                       CASE(test_volume_damage_of_all_starts_anew),
                                       CASE(test_volume_damage_of_log_starts_anew)};
    return SUPPORT_MAIN(argc, argv, tests);
}
