/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a disk with a key gives away. Every byte that leaves the client or a server is kept, and
 * what the devices have is looked at: nothing there is a checksum of plaintext, and what goes with
 * a block reveals no more than its ciphertext does. The cipher is libcrypto's.
 */
#include "test_volume_util.h"

enum { BLOCK = 4096, KEPT_MAX = 8u << 20, WRITES_MAX = 64 };

static unsigned char kept[KEPT_MAX];
static size_t kept_size;

/* ---- Whatever leaves ---- */

static const struct snic_net_ops *below;
static struct snic_net_ops tapped;

static void keep(const struct snic_iov *iov, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(kept_size + iov[i].size <= sizeof(kept));
        memcpy(kept + kept_size, iov[i].base, iov[i].size);
        kept_size += iov[i].size;
    }
}

/* The fields of a client's WRITE of a block. */
struct stored {
    uint64_t lba;
    uint64_t wver;
    uint32_t data_crc; /* of its bytes as they are sent */
    uint32_t tag;
};
static struct stored writes[WRITES_MAX];
static uint32_t writes_count;

static void look(const unsigned char *p, size_t size, unsigned way)
{
    struct snic_ebs_header h;
    struct snic_ebs_place at;
    while (size >= SNIC_EBS_RPC_BYTES) {
        if (snic_ebs_decode(&h, &at, way, p, size) != 0)
            return; /* the servers' */
        if (h.type == SNIC_EBS_WRITE) {
            struct stored *s = &writes[writes_count++];
            const unsigned char *data = p + at.body_at + ((way & SNIC_EBS_STREAM) != 0 ? 4 : 0);
            assert_true(writes_count < WRITES_MAX);
            assert_int_equal(h.u.block.blk_cnt, 1);
            *s = (struct stored){h.u.block.lba, h.u.block.wver, 0, h.u.block.block_tag};
            if (h.u.block.op == SNIC_EBS_DATA)
                s->data_crc = snic_crc32c(0, data, BLOCK);
        }
        p += at.size;
        size -= at.size;
    }
}

static int tap_send(struct snic_net_conn *c, struct snic_net_send_req *s)
{
    size_t from = kept_size;
    int r = below->send(c, s);
    if (r == 1) {
        keep(s->iov, s->iov_count);
        look(kept + from, kept_size - from, SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER);
    }
    return r;
}

static int tap_dgram(struct snic_net_dgram *d, struct snic_net_train *t)
{
    size_t from = kept_size;
    int r = below->dgram_send(d, t);
    if (r != 1)
        return r;
    keep(t->iov, t->iov_count);
    for (size_t at = from; at < kept_size; at += t->segment) {
        size_t left = kept_size - at;
        look(kept + at, left < t->segment ? left : t->segment, SNIC_EBS_TO_SERVER);
    }
    return r;
}

static void tap(struct snic_net *n)
{
    below = n->ops;
    tapped = *below;
    tapped.send = tap_send;
    tapped.dgram_send = tap_dgram;
    n->ops = &tapped;
}

/* ---- A client with a key ---- */

static void *disk_key;

static int setup(uint32_t transport)
{
    unsigned char bytes[64];
    struct snic_rng rng;
    if (snic_ebs_openssl() == NULL)
        return 0;
    buffer = aligned_alloc(BLOCK, 64 * BLOCK);
    assert_non_null(buffer);
    snic_rng_init(&rng, support_seed());
    snic_rng_fill(&rng, bytes, sizeof(bytes));
    assert_int_equal(snic_ebs_openssl_xts_open(&disk_key, bytes, sizeof(bytes)), 0);
    volfix_start(&fix, transport, support_seed(), 1);
    volfix_client_kill(&fix);
    fix.sec = snic_ebs_openssl();
    fix.xts_key = disk_key;
    volfix_client_start(&fix);
    kept_size = 0;
    writes_count = 0;
    tap(fix.net);
    tap(fix.server[0].net);
    return 0;
}

static int teardown_key(void **state)
{
    if (snic_ebs_openssl() == NULL)
        return 0;
    fix.net->ops = below;
    fix.server[0].net->ops = below;
    int r = teardown(state);
    snic_ebs_openssl_close(disk_key);
    return r;
}

static void put(uint64_t lba, const unsigned char *block)
{
    unsigned char *copy = buffer + 63 * BLOCK;
    memcpy(copy, block, BLOCK);
    assert_int_equal(volfix_io(&fix, SNIC_IO_WRITE, lba * BLOCK, BLOCK, copy), BLOCK);
    memset(copy, 0, BLOCK);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, lba * BLOCK, BLOCK, copy), BLOCK);
    assert_memory_equal(copy, block, BLOCK);
}

/* The last write of @p lba. */
static struct stored stored_of(uint64_t lba)
{
    for (uint32_t i = writes_count; i-- > 0;)
        if (writes[i].lba == lba)
            return writes[i];
    fail_msg("block %u was never written", (unsigned)lba);
    return writes[0];
}

static int has(const unsigned char *p, size_t size, uint32_t v)
{
    unsigned char big[4], little[4];
    snic_put_be32(big, v);
    snic_put_le32(little, v);
    for (size_t i = 0; i + 4 <= size; i++)
        if ((p[i] == big[0] && memcmp(p + i, big, 4) == 0) ||
            (p[i] == little[0] && memcmp(p + i, little, 4) == 0))
            return 1; /* a call for each byte would be most of the time with sanitizers */
    return 0;
}

static void nowhere(uint32_t v, const char *what)
{
    if (has(kept, kept_size, v))
        fail_msg("%s is on the wire", what);
    if (has(snic_disk_bytes(fix.server[0].disk), VOLFIX_DISK, v))
        fail_msg("%s is on the device", what);
}

#define SKIP_WITHOUT_CIPHERS()                                                                     \
    do {                                                                                           \
        if (snic_ebs_openssl() == NULL)                                                            \
            skip();                                                                                \
    } while (0)

/* A checksum that is not keyed reveals 4 unknown bytes of a block whose rest is known. */
static void test_secret_no_checksum_of_plaintext_leaves(void **state)
{
    struct snic_rng rng;
    (void)state;
    SKIP_WITHOUT_CIPHERS();
    snic_rng_init(&rng, support_seed() + 1);
    snic_rng_fill(&rng, buffer, 8 * BLOCK);
    memset(buffer + BLOCK, 'a', BLOCK); /* as likely as text is */
    for (uint32_t i = 0; i < 8; i++)
        put(i == 7 ? 600 : i, buffer + i * BLOCK);
    volfix_settle_home(&fix, 0); /* in the log and at home */
    assert_true(writes_count >= 8 && kept_size > 8 * 2 * BLOCK);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t crc = snic_crc32c(0, buffer + i * BLOCK, BLOCK);
        nowhere(crc, "a block's CRC32C");
        nowhere(~crc, "a block's CRC32C without its last step");
        nowhere(crc ^ SNIC_EBS_CRC_ZEROS, "a block's CRC32C without its constant");
    }
}

/* Two equal blocks: at two places they are no more alike than two others. At one place they are,
   for ciphertexts are. */
static void test_secret_equal_blocks_are_equal_at_one_place_only(void **state)
{
    struct snic_rng rng;
    (void)state;
    SKIP_WITHOUT_CIPHERS();
    snic_rng_init(&rng, support_seed() + 2);
    snic_rng_fill(&rng, buffer, 2 * BLOCK);
    for (uint64_t i = 0; i < 8; i++)
        put(i < 4 ? i : 1000 + i, buffer);
    for (uint64_t i = 0; i < 8; i++)
        for (uint64_t k = 0; k < i; k++) {
            struct stored a = stored_of(i < 4 ? i : 1000 + i), b = stored_of(k < 4 ? k : 1000 + k);
            assert_true(a.tag != b.tag && a.data_crc != b.data_crc);
        }
    struct stored before = stored_of(2);
    put(2, buffer + BLOCK);
    assert_true(stored_of(2).tag != before.tag);
    put(2, buffer);
    struct stored again = stored_of(2);
    assert_true(again.wver > before.wver);
    assert_int_equal(again.tag, before.tag);
    assert_int_equal(again.data_crc, before.data_crc);
}

/* Of a function that is linear, or is one behind a pad, the values of four blocks whose exclusive
   or is zero have none either. */
static void test_secret_what_goes_with_a_block_is_not_linear(void **state)
{
    struct snic_rng rng;
    uint32_t tags = 0, places = 0;
    (void)state;
    SKIP_WITHOUT_CIPHERS();
    snic_rng_init(&rng, support_seed() + 3);
    snic_rng_fill(&rng, buffer, 3 * BLOCK);
    for (uint32_t i = 0; i < BLOCK; i++)
        buffer[3 * BLOCK + i] = buffer[i] ^ buffer[BLOCK + i] ^ buffer[2 * BLOCK + i];
    for (uint32_t i = 0; i < 4; i++) {
        put(5, buffer + i * BLOCK);
        tags ^= stored_of(5).tag;
        put(20 + i, buffer + i * BLOCK);
        places ^= stored_of(20 + i).tag;
    }
    assert_int_not_equal(tags, 0);
    assert_int_not_equal(places, 0);
}

/* The tag is of its key and place: a server can give no block for another one. */
static void test_secret_a_block_of_another_place_is_not_taken(void **state)
{
    struct snic_segments_block b = {.data = buffer + 8 * BLOCK};
    struct snic_segments_req q = {.op = SNIC_SEGMENTS_READ, .seg_id = 100, .count = 1};
    (void)state;
    SKIP_WITHOUT_CIPHERS();
    memset(buffer, 3, BLOCK);
    put(0, buffer);
    put(1, buffer);
    q.flags = SNIC_SEGMENTS_ANY_GEN;
    q.blocks = &b;
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    assert_int_equal(b.block_tag, stored_of(0).tag);
    q.op = SNIC_SEGMENTS_WRITE; /* block 0 in the place of block 1 */
    b.block = 1;
    b.wver = stored_of(1).wver + 1;
    assert_int_equal(volfix_store(&fix, 0, &q), 0);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, BLOCK, BLOCK, buffer), SNIC_ECORRUPT);
    assert_int_equal(volfix_io(&fix, SNIC_IO_READ, 0, BLOCK, buffer), BLOCK);
}

#define BOTH(name)                                                                                 \
    {#name "_solar", name, setup_solar, teardown_key, NULL},                                       \
    {                                                                                              \
#name "_luna", name, setup_luna, teardown_key, NULL                                        \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {BOTH(test_secret_no_checksum_of_plaintext_leaves),
                                       BOTH(test_secret_equal_blocks_are_equal_at_one_place_only),
                                       BOTH(test_secret_what_goes_with_a_block_is_not_linear),
                                       BOTH(test_secret_a_block_of_another_place_is_not_taken)};
    return SUPPORT_MAIN(argc, argv, tests);
}
