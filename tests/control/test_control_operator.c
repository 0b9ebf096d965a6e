/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operation of an aged system: damaged blocks, servers lost for good, leases used up, keys.
 */
#include "test_control_util.h"

/* A disk, attached by client 0; each block begins with a number of its own. */
static void attached_numbered(void)
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

/* All data of the server are on its device, and none in memory. */
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
    attached_numbered();
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
    /* To write it heals it; the other one stays as it is. */
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

/* The versions of these blocks are lost. */
static void test_control_lost_versions_move_as_damaged(void **state)
{
    (void)state;
    attached_numbered();
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

/* The owner of a store is recorded twice. */
static void test_control_damaged_own_block_is_no_loss(void **state)
{
    (void)state;
    attached_numbered();
    uint32_t from = server_of(0), number = ctlfix_id(&fix, from);
    for (uint32_t round = 0; round < 4; round++) {
        unsigned char *disk = snic_disk_bytes(fix.server[from].disk), *found = NULL;
        settle_home(from);
        ctlfix_server_kill(&fix, from, SNIC_FAULT_KEEP_NONE);
        for (uint64_t at = 0; at < 48u << 20; at += 4096)
            if (memcmp(disk + at, "CONTROL0", 8) == 0)
                found = disk + at; /* the last one is home, and the second of two */
        assert_non_null(found);
        assert_memory_equal(found - 128 * 4096, found, 4096); /* mended */
        found[20 - (ptrdiff_t)(round % 2) * 128 * 4096] ^= 1;
        if (round == 3)
            found[20] ^= 1;
        ctlfix_server_start(&fix, from);
        if (round == 3)
            break;
        ctlfix_ready(&fix);
        assert_int_equal(ctlfix_id(&fix, from), number);
        assert_block(5, 1);
    }
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    assert_int_equal(fix.server[from].ready, 0);
    assert_int_equal(fix.server[from].refused, SNIC_ECORRUPT);
}

/* ---- Leases run out ---- */

static int revoke(void)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_REVOKE};
    memcpy(m.name, ctlfix_name(0), strlen(ctlfix_name(0)));
    return ctlfix_request(&fix, &m);
}

/* The last lease can be revoked like others; then the disk is reissued. */
static void test_control_last_lease_revoked_while_held(void **state)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_REISSUE};
    (void)state;
    attached_numbered();
    ctlfix_client_kill(&fix, 0);
    for (uint32_t i = 2; i < SNIC_CONTROL_LEASE_MAX; i++)
        assert_int_equal(revoke(), 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
    assert_int_equal(fix.client[0].handle[0].lease, SNIC_CONTROL_LEASE_MAX);
    /* No client takes it over. */
    ctlfix_client_start(&fix, 1);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), SNIC_EOVERFLOW);
    memset(buffer, 8, 8192);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8192, buffer), 8192);
    memcpy(m.name, ctlfix_name(0), strlen(ctlfix_name(0)));
    assert_int_equal(ctlfix_request(&fix, &m), SNIC_EBUSY);
    /* But the operator does. */
    assert_int_equal(revoke(), 0);
    ctlfix_run(&fix, 50 * CTLFIX_MS);
    assert_int_equal(fix.client[0].handle[0].lost, SNIC_ESTALE);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 4096, buffer), SNIC_EROFS);
    assert_int_equal(revoke(), 0); /* it is so already */
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    ctlfix_run(&fix, 500 * CTLFIX_MS);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, SNIC_CONTROL_TAKE), SNIC_EOVERFLOW);
    ctlfix_ready(&fix);
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_int_equal(ctlfix_attach(&fix, 1, 0, 0), 0);
    assert_int_equal(fix.client[1].handle[0].lease, 1);
    assert_int_equal(ctlfix_io(&fix, 1, 0, SNIC_IO_READ, 0, 8192, buffer), 8192);
    assert_int_equal(buffer[4096], 8);
}

/* ---- Servers that are lost for good ---- */

static int forget(uint32_t id)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_FORGET, .server = id};
    return ctlfix_request(&fix, &m);
}

static uint32_t nodes(void)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_NODES};
    fix.items = 0;
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    return fix.items;
}

static void move_all_from(uint32_t server)
{
    uint32_t id = ctlfix_id(&fix, server);
    for (uint32_t i = 0; i < CTLFIX_SEGMENTS; i++)
        if (where(1, i).server == id)
            assert_int_equal(ctlfix_move(&fix, 0, i, (server + 1) % 3), 0);
}

/* A server's device is replaced by an empty one. */
static void server_anew(uint32_t server)
{
    memset(snic_disk_bytes(fix.server[server].disk), 0, 48u << 20);
    snic_disk_sync(fix.server[server].disk);
    ctlfix_server_start(&fix, server);
}

static void test_control_forgotten_server_number_reused(void **state)
{
    (void)state;
    attached_numbered();
    uint32_t id = ctlfix_id(&fix, 1);
    assert_int_equal(forget(id), SNIC_EBUSY); /* it is here */
    assert_int_equal(forget(99), SNIC_ENOENT);
    assert_int_equal(forget(0), SNIC_ENOENT);
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_NONE);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(forget(id), SNIC_ENOTEMPTY);
    ctlfix_server_start(&fix, 1);
    ctlfix_ready(&fix);
    move_all_from(1);
    unsigned char *was = malloc(48u << 20);
    assert_non_null(was);
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_NONE);
    memcpy(was, snic_disk_bytes(fix.server[1].disk), 48u << 20);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    assert_int_equal(forget(id), 0);
    assert_int_equal(forget(id), SNIC_ENOENT);
    assert_int_equal(nodes(), 2);
    /* It is forgotten after a crash, too. */
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    assert_int_equal(nodes(), 2);
    /* Another one has its number, and the holder reads the disk there. */
    server_anew(1);
    ctlfix_ready(&fix);
    assert_int_equal(ctlfix_id(&fix, 1), id);
    assert_int_equal(nodes(), 3);
    assert_int_equal(ctlfix_move(&fix, 0, 0, 1), 0);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
    for (uint32_t i = 0; i < CTLFIX_BLOCKS; i++)
        assert_int_equal(snic_get_le64(buffer + (size_t)i * 4096),
                         UINT64_C(0x1234567800000000) + i);
    /* The old one comes again while the other is away: it is not taken for it. */
    move_all_from(1);
    ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_NONE);
    memcpy(snic_disk_bytes(fix.server[1].disk), was, 48u << 20);
    snic_disk_sync(fix.server[1].disk);
    free(was);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_server_start(&fix, 1);
    ctlfix_run(&fix, 1000 * CTLFIX_MS);
    assert_int_equal(fix.server[1].ready, 0);
    assert_int_equal(fix.server[1].refused, SNIC_ESTALE);
}

/* Server numbers are reused, however many servers register and are forgotten. */
static void test_control_server_numbers_do_not_run_out(void **state)
{
    (void)state;
    attached_numbered();
    move_all_from(1);
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX + 4; i++) {
        uint32_t id = ctlfix_id(&fix, 1);
        ctlfix_server_kill(&fix, 1, SNIC_FAULT_KEEP_NONE);
        while (forget(id) == SNIC_EBUSY)
            ctlfix_run(&fix, 200 * CTLFIX_MS);
        server_anew(1);
        ctlfix_ready(&fix);
        assert_true(ctlfix_id(&fix, 1) <= 3);
    }
    assert_int_equal(nodes(), 3);
}

/* ---- Keys ---- */

static int attach_key(uint32_t client, uint64_t a, uint64_t b, uint32_t flags)
{
    fix.key[0] = a;
    fix.key[1] = b;
    return ctlfix_attach(&fix, client, 0, flags);
}

/* A client without the key of a disk is refused before any data is lost. */
static void test_control_wrong_key_refused(void **state)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_DISKS};
    (void)state;
    fix.key[0] = 5;
    fix.key[1] = 6;
    attached_numbered();
    assert_int_equal(ctlfix_request(&fix, &m), 0);
    assert_true(fix.last.key[0] == 5 && fix.last.key[1] == 6);
    ctlfix_client_start(&fix, 1);
    assert_int_equal(attach_key(1, 5, 7, SNIC_CONTROL_TAKE), SNIC_EACCES);
    assert_true(fix.client[1].handle[0].key[0] == 5 && fix.client[1].handle[0].key[1] == 6);
    assert_int_equal(attach_key(1, 0, 0, SNIC_CONTROL_TAKE), SNIC_EACCES);
    assert_int_equal(attach_key(1, 5, 6, 0), SNIC_EBUSY);
    memset(buffer, 8, 8192);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_WRITE, 0, 8192, buffer), 8192);
    assert_int_equal(attach_key(1, 5, 6, SNIC_CONTROL_TAKE), 0);
    assert_int_equal(fix.client[1].handle[0].lease, 2); /* none was used up */
    /* After a crash, and when it has been reissued. */
    ctlfix_client_kill(&fix, 0);
    ctlfix_client_kill(&fix, 1);
    ctlfix_ctl_kill(&fix, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(ctlfix_ctl_start(&fix), 0);
    ctlfix_ready(&fix);
    ctlfix_run(&fix, 3000 * CTLFIX_MS);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(attach_key(0, 6, 5, 0), SNIC_EACCES);
    struct snic_control_msg r = {.type = SNIC_CONTROL_REISSUE};
    memcpy(r.name, ctlfix_name(0), strlen(ctlfix_name(0)));
    assert_int_equal(ctlfix_request(&fix, &r), 0);
    assert_int_equal(attach_key(0, 6, 5, 0), SNIC_EACCES);
    assert_int_equal(attach_key(0, 5, 6, 0), 0);
    assert_int_equal(fix.client[0].handle[0].lease, 1);
}

static void test_control_key_for_unencrypted_disk_refused(void **state)
{
    (void)state;
    attached_numbered();
    ctlfix_client_kill(&fix, 0);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(attach_key(0, 1, 0, 0), SNIC_EACCES);
    assert_int_equal(attach_key(0, 0, 1, 0), SNIC_EACCES);
    assert_int_equal(attach_key(0, 0, 0, 0), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_control_damaged_block_moves_as_damaged),
        CASE(test_control_lost_versions_move_as_damaged),
        CASE(test_control_damaged_own_block_is_no_loss),
        CASE(test_control_last_lease_revoked_while_held),
        CASE(test_control_forgotten_server_number_reused),
        CASE(test_control_server_numbers_do_not_run_out),
        CASE(test_control_wrong_key_refused),
        CASE(test_control_key_for_unencrypted_disk_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
