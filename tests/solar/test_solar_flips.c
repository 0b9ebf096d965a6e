/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One bit is wrong somewhere (specification 1.6): in any field of any packet, in data, in what
 * computes checksums, in the entries of tables. It is seen and counted, and the I/O ends well.
 *
 * What no end can see, and no test here: the client's memory before its checksum is taken; and data
 * that a device changes before that same device takes their checksum.
 */
#include "support.h"
#include "test_solar_util.h"

#include <stdio.h>

static unsigned char block[4][SNIC_EBS_BLOCK_BYTES], back[4][SNIC_EBS_BLOCK_BYTES];
static struct snic_iov out = {block, sizeof(block)}, in = {back, sizeof(back)};

static struct duo *flip_open(void)
{
    struct duo *d = &duo;
    for (size_t i = 0; i < sizeof(block); i++)
        block[i / 4096][i % 4096] = (unsigned char)(i * 5 + i / 251);
    duo_open(d);
    for (int i = 0; i < 12; i++) /* both sides know each other */
        duo_turn(d, 0);
    return d;
}

struct counts {
    uint64_t malformed, data_crc, other;
};

static struct counts counts_of(struct duo *d)
{
    struct snic_solar_target_stats t;
    struct snic_solar_stats a;
    snic_solar_target_get_stats(d->t, &t);
    snic_solar_get_stats(d->c, &a);
    return (struct counts){t.malformed + a.malformed, t.data_crc + a.data_crc,
                           t.refused + a.refused};
}

/* The next packet of @p type has its @p bit flipped on the way. @return how it was counted: 1 no
   packet, 2 damaged data, 3 refused, 0 not at all; -1: it has no such bit */
static int flip_next(struct duo *d, uint32_t type, uint32_t bit)
{
    for (int turn = 0; turn < 200; turn++) {
        for (uint32_t i = 0; i < d->letters; i++) {
            struct letter *l = &d->bag[i];
            if (l->bytes[1] != type)
                continue;
            if (bit >= l->size * 8)
                return -1;
            struct counts was = counts_of(d);
            l->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            duo_deliver(d, l);
            struct counts is = counts_of(d);
            *l = d->bag[--d->letters];
            return is.malformed > was.malformed ? 1
                   : is.data_crc > was.data_crc ? 2
                   : is.other > was.other       ? 3
                                                : 0;
        }
        duo_turn(d, 0);
    }
    fail_msg("no packet of type %u", type);
    return 0;
}

/* A write or a read of one block, with one bit of one of its packets flipped. */
static int flip_io(struct duo *d, uint8_t op, uint32_t type, uint32_t bit)
{
    struct snic_ebs_io io;
    struct snic_iov one = {op == SNIC_EBS_IO_WRITE ? block[0] : back[0], SNIC_EBS_BLOCK_BYTES};
    uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
    memset(back[0], 0, SNIC_EBS_BLOCK_BYTES);
    duo_io(d, &io, op, 7, 1, &one);
    int how = flip_next(d, type, bit);
    duo_until(d, done + 1);
    assert_int_equal(io.result, 0);
    if (op == SNIC_EBS_IO_READ)
        assert_memory_equal(back[0], block[0], SNIC_EBS_BLOCK_BYTES);
    assert_memory_equal(d->store[7], block[0], SNIC_EBS_BLOCK_BYTES);
    return how;
}

/* Every bit of the headers, and every n-th of data, of what a write and a read consist of. */
static void test_solar_flip_any_bit_of_a_packet_seen_and_mended(void **state)
{
    static const struct {
        uint8_t op, type;
    } rows[] = {{SNIC_EBS_IO_WRITE, SNIC_EBS_WRITE},
                {SNIC_EBS_IO_WRITE, SNIC_EBS_ACKV},
                {SNIC_EBS_IO_READ, SNIC_EBS_READ_REQ},
                {SNIC_EBS_IO_READ, SNIC_EBS_READ_RESP}};
    uint32_t stride = (uint32_t)support_stride(3, 23);
    (void)state;
    memset(&duo, 0, sizeof(duo));
    struct duo *d = flip_open();
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        uint32_t seen[4] = {0, 0, 0, 0}, flips = 0;
        if (rows[i].op == SNIC_EBS_IO_READ && i == 2)
            (void)flip_io(d, SNIC_EBS_IO_WRITE, SNIC_EBS_WRITE, 0); /* there is something */
        for (uint32_t bit = (uint32_t)support_turn(stride);; bit += bit < 1024 ? stride : 97) {
            int how = flip_io(d, rows[i].op, rows[i].type, bit);
            if (how < 0)
                break;
            seen[how]++;
            flips++;
            /* A flip in a header never counts as damaged data. */
            assert_int_equal(how, bit < 1024 || rows[i].type == SNIC_EBS_ACKV ||
                                          rows[i].type == SNIC_EBS_READ_REQ
                                      ? 1
                                      : 2);
        }
        printf("type %2u %5u flips: %u no packet, %u damaged data, %u refused, %u not seen\n",
               rows[i].type, flips, seen[1], seen[2], seen[3], seen[0]);
        assert_true(flips > 20 && seen[0] == 0);
    }
    duo_close(d);
}

struct liar {
    uint64_t calls, lies, every;
};

static uint32_t lying_crc(void *ctx, const void *data, size_t size)
{
    struct liar *l = ctx;
    uint32_t crc = snic_crc32c(0, data, size);
    if (++l->calls % l->every != 0)
        return crc;
    l->lies++;
    return crc ^ (1u << l->calls % 32);
}

/* Checksums by a device that lies: always at the one, often at the other side. What the agent sent
   out with a wrong one is refused, and computed here; other differences are looked into. */
static void test_solar_flip_checksum_engine_lies_found_out(void **state)
{
    (void)state;
    for (uint32_t which = 1; which <= 3; which++) {
        struct liar agent = {.every = which == 3 ? 3 : 1}, target = {.every = which == 3 ? 2 : 1};
        struct snic_ebs_io w, r;
        memset(&duo, 0, sizeof(duo));
        if ((which & 1) != 0) {
            duo.o.crc = lying_crc;
            duo.o.crc_ctx = &agent;
        }
        if ((which & 2) != 0) {
            duo.k.crc = lying_crc;
            duo.k.crc_ctx = &target;
        }
        struct duo *d = flip_open();
        memset(back, 0, sizeof(back));
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &out);
        duo_until(d, 1);
        duo_io(d, &r, SNIC_EBS_IO_READ, 20, 4, &in);
        duo_until(d, 2);
        assert_true(w.result == 0 && r.result == 0 && agent.lies + target.lies > 0);
        assert_true(which == 2 || counts_of(d).data_crc > 0);
        assert_memory_equal(back, block, sizeof(block));
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(d->crc[20 + i], snic_crc32c(0, block[i], SNIC_EBS_BLOCK_BYTES));
        duo_close(d);
    }
}

static uint64_t tables_of(struct duo *d)
{
    struct snic_solar_stats s;
    snic_solar_get_stats(d->c, &s);
    return s.tables;
}

/* Tables are private to their module, so entries are found by what is in them: the last place in
   the agent's memory that has this word, at an entry's offset. */
enum { WHERE_BYTES = 24, WHERE_SEG_ID = 0, EXPECT_BYTES = 48, EXPECT_DEST = 24 };
enum { LIMITS_BYTES = 80, LIMITS_RATE = 8 };

static unsigned char *entry_of(struct duo *d, uint64_t word, uint32_t offset)
{
    unsigned char *found = NULL, *mem = d->cmem;
    for (size_t at = 0, size = snic_solar_memsize(&d->o); at + 8 <= size; at += 8)
        if (memcmp(mem + at, &word, 8) == 0)
            found = mem + at - offset;
    return found;
}

static void flip_bit(void *at, uint32_t bit)
{
    ((unsigned char *)at)[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

/* The entry of a segment's place: it is not used, and asked for again. */
static void test_solar_flip_block_table_entry_fetched_again(void **state)
{
    uint32_t seen = 0;
    (void)state;
    memset(&duo, 0, sizeof(duo));
    struct duo *d = flip_open();
    struct snic_ebs_io w;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &out);
    duo_until(d, 1);
    unsigned char *entry = entry_of(d, 77, WHERE_SEG_ID);
    assert_non_null(entry);
    for (uint32_t bit = 0; bit < WHERE_BYTES * 8; bit++) {
        uint64_t was = tables_of(d);
        flip_bit(entry, bit);
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &out);
        duo_until(d, bit + 2);
        assert_int_equal(w.result, 0);
        seen += tables_of(d) > was;
    }
    printf("Block table: %u of %u flips of an entry seen\n", seen, WHERE_BYTES * 8);
    assert_int_equal(seen, WHERE_BYTES * 8);
    duo_close(d);
}

/* The entry of the memory into which a read block goes: not believed, requested again. */
static void test_solar_flip_addr_table_entry_requested_again(void **state)
{
    uint32_t seen = 0, tried = 0;
    (void)state;
    memset(&duo, 0, sizeof(duo));
    struct duo *d = flip_open();
    struct snic_ebs_io w, r;
    duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &out);
    duo_until(d, 1);
    for (uint32_t bit = 0; bit < EXPECT_BYTES * 8; bit++) {
        uint64_t was = tables_of(d);
        uint32_t done = d->acts[SNIC_EBS_ACT_DONE];
        memset(back, 0, sizeof(back));
        duo_io(d, &r, SNIC_EBS_IO_READ, 20, 4, &in);
        duo_turn(d, 0); /* it is asked for */
        unsigned char *entry = entry_of(d, (uintptr_t)back[2], EXPECT_DEST);
        assert_non_null(entry);
        flip_bit(entry, bit);
        for (int i = 0; i < 1000 && d->acts[SNIC_EBS_ACT_DONE] == done; i++)
            duo_turn_unchecked(d);
        assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], done + 1);
        assert_int_equal(r.result, 0);
        assert_memory_equal(back, block, sizeof(block));
        tried++;
        seen += tables_of(d) > was;
    }
    printf("Addr table: %u of %u flips of an entry seen\n", seen, tried);
    assert_true(seen == tried && tried > 300);
    duo_close(d);
}

/* The entry of a disk's limits: made again from the disk's settings. */
static void test_solar_flip_qos_table_entry_set_anew(void **state)
{
    struct snic_ebs_disk_opts o = {.opts_size = sizeof(o), .ios_per_second = 100000};
    uint32_t seen = 0;
    (void)state;
    memset(&duo, 0, sizeof(duo));
    struct duo *d = flip_open();
    struct snic_ebs_io w;
    o.bytes_per_second = (UINT64_C(1) << 32) + 12345;
    assert_int_equal(snic_solar_qos(d->c, 0, &o, d->now), 0);
    unsigned char *entry = entry_of(d, o.bytes_per_second, LIMITS_RATE);
    assert_non_null(entry);
    for (uint32_t bit = 0; bit < LIMITS_BYTES * 8; bit++) {
        uint64_t was = tables_of(d);
        flip_bit(entry, bit);
        duo_io(d, &w, SNIC_EBS_IO_WRITE, 20, 4, &out);
        duo_until(d, bit + 1);
        assert_int_equal(w.result, 0);
        seen += tables_of(d) > was;
    }
    printf("QoS table: %u of %u flips of an entry seen\n", seen, LIMITS_BYTES * 8);
    assert_int_equal(seen, LIMITS_BYTES * 8);
    duo_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solar_flip_any_bit_of_a_packet_seen_and_mended),
        cmocka_unit_test(test_solar_flip_checksum_engine_lies_found_out),
        cmocka_unit_test(test_solar_flip_block_table_entry_fetched_again),
        cmocka_unit_test(test_solar_flip_addr_table_entry_requested_again),
        cmocka_unit_test(test_solar_flip_qos_table_entry_set_anew),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
