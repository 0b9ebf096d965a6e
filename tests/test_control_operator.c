/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What an operator meets once the system is old: blocks that are damaged, servers that never come
 * again, disks whose leases run out, keys.
 */
#include <stdlib.h>

#include "ctlfix.h"
#include "support.h"

static struct ctlfix fix;
static unsigned char *buffer;

static int setup(void **state)
{
    (void)state;
    buffer = aligned_alloc(4096, 8u << 20);
    assert_non_null(buffer);
    ctlfix_start(&fix, support_seed(), 3);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctlfix_check(&fix);
    ctlfix_end(&fix);
    free(buffer);
    return 0;
}

static struct snic_control_item where(uint32_t vd, uint64_t segment)
{
    struct snic_control_item it;
    assert_int_equal(snic_control_find(fix.ctl, vd, segment, &it), 0);
    return it;
}

/* A disk, attached by client 0; each block begins with a number of its own. */
static void attached(void)
{
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    memset(buffer, 7, 8u << 20);
    for (uint32_t i = 0; i < CTLFIX_BLOCKS; i++)
        snic_put_le64(buffer + (size_t)i * 4096, UINT64_C(0x1234567800000000) + i);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8u << 20, buffer), 8u << 20);
}

static uint32_t server_of(uint64_t segment)
{
    for (uint32_t i = 0; i < 3; i++)
        if (ctlfix_id(&fix, i) == where(1, segment).server)
            return i;
    fail();
    return 0;
}

/* ---- Damage ---- */

/* All that the server has is at home, and no memory of it is left. */
static void settle_home(uint32_t server)
{
    struct snic_segments *s = snic_volume_server_store(fix.server[server].s);
    struct snic_segments_info info;
    snic_segments_checkpoint(s);
    do {
        ctlfix_run(&fix, CTLFIX_MS);
        snic_segments_inspect(s, &info);
    } while (info.dirty != 0);
}

static void damage(uint32_t server, uint64_t block)
{
    unsigned char *disk = snic_disk_bytes(fix.server[server].disk), *found = NULL;
    for (uint64_t at = 0; at < 48u << 20; at += 4096) /* the last one is home, the others the log */
        if (snic_get_le64(disk + at) == UINT64_C(0x1234567800000000) + block &&
            disk[at + 4095] == 7)
            found = disk + at;
    assert_non_null(found);
    found[2000] ^= 1;
}

static void assert_block(uint64_t block, int readable)
{
    memset(buffer, 0, 4096);
    int64_t r = ctlfix_io(&fix, 0, 0, SNIC_IO_READ, block * 4096, 4096, buffer);
    assert_int_equal(r, readable ? 4096 : SNIC_ECORRUPT);
    if (readable)
        assert_int_equal(snic_get_le64(buffer), UINT64_C(0x1234567800000000) + block);
}

static uint64_t lost(uint32_t server)
{
    struct snic_control_agent_stats s;
    snic_control_agent_get_stats(fix.server[server].agent, &s);
    return s.lost;
}

static void test_control_damaged_block_moves_as_damaged(void **state)
{
    (void)state;
    attached();
    uint32_t from = server_of(0), to = (from + 1) % 3, next = (from + 2) % 3;
    settle_home(from);
    ctlfix_server_kill(&fix, from, SNIC_FAULT_KEEP_NONE);
    damage(from, 5);
    damage(from, 130);
    ctlfix_server_start(&fix, from);
    ctlfix_ready(&fix);
    assert_block(5, 0);
    assert_int_equal(ctlfix_move(&fix, 0, 0, to), 0);
    assert_int_equal(where(1, 0).server, ctlfix_id(&fix, to));
    assert_int_equal(lost(to), 2);
    assert_int_equal(fix.server[to].lost, 2);
    assert_block(5, 0);
    assert_block(130, 0);
    assert_block(4, 1);
    assert_block(6, 1);
    assert_block(511, 1);
    /* To write it heals it; the other one goes on as it is. */
    snic_put_le64(buffer, UINT64_C(0x1234567800000000) + 5);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 5 * 4096, 4096, buffer), 4096);
    assert_block(5, 1);
    ctlfix_server_kill(&fix, to, SNIC_FAULT_KEEP_NONE);
    ctlfix_server_start(&fix, to);
    ctlfix_ready(&fix);
    assert_int_equal(ctlfix_move(&fix, 0, 0, next), 0);
    assert_int_equal(lost(next), 1);
    assert_block(5, 1);
    assert_block(130, 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_ZERO, 130 * 4096, 4096, NULL), 4096);
    assert_int_equal(ctlfix_move(&fix, 0, 0, from), 0);
    assert_int_equal(lost(from), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 2u << 20, buffer), 2u << 20);
    assert_int_equal(snic_get_le64(buffer + 130 * 4096), 0);
}

/* Both copies of the table of blocks 128 ... 255 of segment 0. */
static void damage_versions(uint32_t server)
{
    unsigned char *disk = snic_disk_bytes(fix.server[server].disk);
    uint32_t copies = 0;
    for (uint64_t at = 0; at < 48u << 20; at += 4096) {
        if (memcmp(disk + at, "SNICSEGT", 8) != 0 || snic_get_le32(disk + at + 28) != 2 ||
            snic_get_le64(disk + at + 32) != snic_control_seg_id(1, 0))
            continue;
        disk[at + 3000] ^= 1;
        copies++;
    }
    assert_int_equal(copies, 2);
}

/* Nobody knows any more how new these blocks were. */
static void test_control_lost_versions_move_as_damaged(void **state)
{
    (void)state;
    attached();
    uint32_t from = server_of(0), to = (from + 1) % 3;
    settle_home(from);
    ctlfix_server_kill(&fix, from, SNIC_FAULT_KEEP_NONE);
    damage_versions(from);
    ctlfix_server_start(&fix, from);
    ctlfix_ready(&fix);
    assert_block(200, 0);
    snic_put_le64(buffer, UINT64_C(0x1234567800000000) + 200);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 200 * 4096, 4096, buffer), SNIC_ECORRUPT);
    assert_int_equal(ctlfix_move(&fix, 0, 0, to), 0);
    assert_int_equal(lost(to), 128);
    assert_block(127, 1);
    assert_block(128, 0);
    assert_block(200, 0);
    assert_block(255, 0);
    assert_block(256, 1);
    snic_put_le64(buffer, UINT64_C(0x1234567800000000) + 200); /* there it heals */
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 200 * 4096, 4096, buffer), 4096);
    assert_block(200, 1);
    assert_block(201, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_control_damaged_block_moves_as_damaged, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_control_lost_versions_move_as_damaged, setup,
                                        teardown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
