/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The packet format: its bytes, written down once for all, and what is refused. */
#include "support.h"
#include "test_ebs_util.h"

#define FOR_TYPES(t) for (unsigned t = 1; t < SNIC_EBS_TYPE_END; t++)

/* Made by tests/ebs/ebs_golden.py from lib/ebs/FORMAT.md. Of WRITE and READ_RESP without their
   block, of PROBE and HELLO without the padding, which is zeros; INT blocks are zeros. */
static const char *const golden[SNIC_EBS_TYPE_END] = {
    [SNIC_EBS_WRITE] =
        "2d010126c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fddd6e93dd00000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "005500010c00beef000000112233445500030000000007770000cafeed96b64387b1797976543210"
        "aabbccdd00000000",
    [SNIC_EBS_WACK] =
        "28020210c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fdf8773bd300000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "005500010c00beef000000112233445500030000000007770000cafeed96b64387b1797976543210"
        "0badf00d00000000",
    [SNIC_EBS_READ_REQ] =
        "28030000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd13519ab200000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "005500090c00beef000000112233445500030000000007770000cafe00000000f4b7b1a676543210"
        "00000000000001030001000203000004ffff8001",
    [SNIC_EBS_READ_RESP] =
        "28040080c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd5fd8775600000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "005500010c00beef000000112233445500030000000007770000cafeed96b64387b1797976543210"
        "12345678aabbccdd",
    [SNIC_EBS_ACKV] =
        "24050000c0ffee0100070000000001230000000203fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fdace4dda100000001deadbeef00070000000001230005000011223344"
        "55667788000001000badf00d03fe0000000700000000012400060001112233455566778900000101"
        "0badf00e04fe0200",
    [SNIC_EBS_PROBE] =
        "28060000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd0f47aef500000001deadbeef000000e0000000000f1e2d3c4b5a6978"
        "00000000000000000000000000000000000000000000000000000000000000000ddc0ffeebadf00d"
        "00000099acc00001",
    [SNIC_EBS_PROBE_ACK] =
        "28070000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd6ee137fd00000001deadbeef000000e0000000000f1e2d3c4b5a6978"
        "00000000000000000000000000000000000000000000000000000000000000000ddc0ffeebadf00d"
        "00000099acc00001",
    [SNIC_EBS_RESET] =
        "28080000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000a01fdcbd50e6b00000001deadbeef887766554433221101030000000009c4"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000",
    [SNIC_EBS_HELLO] =
        "28090000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd13ce88e800000001deadbeef01020000feedface0000000f00000007"
        "0f1e2d3c4b5a697888776655443322110ddc0ffeebadf00d102030405060708000000099000010e0"
        "acc0000100000000",
    [SNIC_EBS_HELLO_ACK] =
        "280a0000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd128fd66700000001deadbeef01020000feedface0000000f00000000"
        "0f1e2d3c4b5a697888776655443322110ddc0ffeebadf00d102030405060708000000099000010e0"
        "5eed000000000002",
    [SNIC_EBS_FENCE] =
        "280b0000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd6b23bd3e00000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "000000000c00beef000000000000000000030000000007770000cafe00000000297d9f7776543210"
        "0000000000000000",
    [SNIC_EBS_FENCE_ACK] =
        "280c0000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000201fd66776cd800000001deadbeef0102030405060708f1f2f3f4f5f6f7f8"
        "000000000c00beef000000000000000000030000000007770000cafe00000000297d9f7776543210"
        "0000000000000000",
    [SNIC_EBS_NAK] =
        "280d0000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000401fd961a491700000001deadbeef000005dc800000000ddc0ffeebadf00d"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000",
    [SNIC_EBS_TOKEN] =
        "280e0000c0ffee0100070000000001230005000903fe0215112233445566778899aabbcc0000fffe"
        "2233445566778899000001fd6f4fcfeb00000001deadbeef01050000000051670102030405060708"
        "00030000acc00001000000006f5e4d3c000000000000000000000000000000009781d35a42d82f82"
        "71c3d1094682b8a3",
};

static uint32_t from_hex(unsigned char *out, const char *hex)
{
    uint32_t n = 0;
    for (; hex[0] != 0 && hex[1] != 0; hex += 2) {
        unsigned hi = (unsigned)(hex[0] <= '9' ? hex[0] - '0' : hex[0] - 'a' + 10);
        unsigned lo = (unsigned)(hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10);
        out[n++] = (unsigned char)(hi << 4 | lo);
    }
    return n;
}

static int decode(unsigned type, const void *packet, size_t size)
{
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    return snic_ebs_decode(&h, &place, ebs_way(type), packet, size);
}

/* Two machines that disagree about one byte do not talk, or worse. */
static void test_ebs_every_type_has_the_written_bytes(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        unsigned char ours[SNIC_EBS_PACKET_BYTES];
        unsigned char theirs[SNIC_EBS_PACKET_BYTES];
        struct snic_ebs_header h;
        struct snic_ebs_header back;
        struct snic_ebs_place place;
        uint32_t size = ebs_sample_packet(ours, t, &place);
        uint32_t written = from_hex(theirs, golden[t]);

        assert_int_not_equal(size, 0);
        assert_int_equal(size, place.size);
        assert_memory_equal(ours, theirs, place.header_size);
        if (t == SNIC_EBS_ACKV || t == SNIC_EBS_READ_REQ) {
            assert_int_equal(written, size);
            assert_memory_equal(ours, theirs, size);
        } else {
            assert_int_equal(written, place.header_size);
        }
        assert_int_equal(snic_ebs_decode(&back, &place, ebs_way(t), ours, size), 0);
        ebs_sample(&h, t);
        assert_memory_equal(&back, &h, sizeof(h));
        assert_int_equal(place.size, size);
    }
}

/* What stood in the memory before must not be sent. */
static void test_ebs_encode_every_byte_is_written(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        for (unsigned with_int = 0; with_int < 2; with_int++) {
            unsigned char a[SNIC_EBS_PACKET_BYTES];
            unsigned char b[SNIC_EBS_PACKET_BYTES];
            unsigned char body[SNIC_EBS_BLOCK_BYTES];
            struct snic_ebs_header h;
            uint32_t size = ebs_sample_body(body, t);
            ebs_sample(&h, t);
            h.flags = (uint16_t)(with_int ? SNIC_EBS_INT : 0);
            memset(a, 0, sizeof(a));
            memset(b, 0xff, sizeof(b));
            int r = snic_ebs_encode(a, sizeof(a), NULL, ebs_way(t), &h, body, size);
            assert_true(r > 0);
            assert_int_equal(snic_ebs_encode(b, sizeof(b), NULL, ebs_way(t), &h, body, size), r);
            assert_memory_equal(a, b, (size_t)r);
            for (size_t i = (size_t)r; i < sizeof(b); i++)
                assert_int_equal(b[i], 0xff);
        }
    }
}

/* A bit that flips on the way must be seen by hdr_crc, or be one that others vouch for. */
static void test_ebs_decode_any_flipped_bit_is_refused(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        unsigned char p[SNIC_EBS_PACKET_BYTES];
        struct snic_ebs_place place;
        uint32_t size = ebs_sample_packet(p, t, &place);
        int data = t == SNIC_EBS_WRITE || t == SNIC_EBS_READ_RESP;

        for (uint32_t bit = 0; bit < size * 8; bit++) {
            uint32_t at = bit / 8;
            int others = (place.int_at != 0 && at >= place.int_at && at < place.body_at) ||
                         (data && at >= place.body_at);
            if (others && data && at >= place.body_at + 64)
                break; /* the rest of a block is as its beginning */
            p[at] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(decode(t, p, size) == 0, others);
            p[at] ^= (unsigned char)(1u << bit % 8);
        }
        assert_int_equal(decode(t, p, size), 0);
    }
}

/* In a stream there is no UDP checksum either. */
static void test_ebs_decode_any_flipped_bit_of_a_frame_is_refused(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        unsigned char p[SNIC_EBS_HEADER_BYTES];
        struct snic_ebs_header h;
        struct snic_ebs_place place;
        unsigned way = ebs_way(t) | SNIC_EBS_STREAM;
        uint32_t body = 0;

        ebs_sample(&h, t);
        h.flags = 0;
        if (t == SNIC_EBS_WRITE || t == SNIC_EBS_READ_RESP)
            body = 3 * 4100;
        h.u.block.blk_cnt = body != 0 ? 3 : h.u.block.blk_cnt;
        int r = snic_ebs_encode(p, sizeof(p), NULL, way, &h, NULL, body);
        if (t == SNIC_EBS_ACKV) {
            assert_int_equal(r, SNIC_EINVAL);
            continue;
        }
        assert_int_equal(r, SNIC_EBS_HEADER_BYTES);
        struct snic_ebs_header back;
        assert_int_equal(snic_ebs_decode(&back, &place, way, p, sizeof(p)), 0);
        assert_memory_equal(&back, &h, sizeof(h));
        assert_int_equal(place.size, 128 + body);
        assert_int_equal(place.body_at, 128);
        for (uint32_t bit = 0; bit < sizeof(p) * 8; bit++) {
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_not_equal(snic_ebs_decode(&back, &place, way, p, sizeof(p)), 0);
            p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_int_equal(decode(t, p, sizeof(p)), SNIC_ECORRUPT); /* a datagram it is not */
    }
}

/* Cut or extended packets are refused, and nothing behind their end is read. */
static void test_ebs_decode_every_other_length_is_refused(void **state)
{
    (void)state;
    unsigned char *page = support_guard_alloc(SNIC_EBS_PACKET_BYTES + 8, 8);
    unsigned char *end = page + SNIC_EBS_PACKET_BYTES + 8;

    FOR_TYPES(t)
    {
        unsigned char p[SNIC_EBS_PACKET_BYTES + 8] = {0};
        uint32_t size = ebs_sample_packet(p, t, NULL);
        for (uint32_t n = 0; n <= sizeof(p); n++) {
            memcpy(end - n, p, n); /* ends where nothing can be touched */
            assert_int_equal(decode(t, end - n, n) == 0, n == size);
            if (n < 64)
                assert_int_equal(decode(t, end - n, n), SNIC_EMSGSIZE);
            if (n > SNIC_EBS_PACKET_BYTES)
                assert_int_equal(decode(t, end - n, n), SNIC_EOVERFLOW);
        }
    }
    memset(page, 0, SNIC_EBS_PACKET_BYTES + 8);
    support_guard_free(page);
}

/* A length that hdr_crc vouches for, but the header does not ask for. */
static void test_ebs_decode_forged_length_is_refused(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        unsigned char p[SNIC_EBS_PACKET_BYTES] = {0};
        struct snic_ebs_place place;
        uint32_t size = ebs_sample_packet(p, t, &place);
        int padding = t == SNIC_EBS_PROBE || t == SNIC_EBS_PROBE_ACK || t == SNIC_EBS_HELLO ||
                      t == SNIC_EBS_HELLO_ACK;

        for (uint32_t body = 0; body <= SNIC_EBS_BLOCK_BYTES; body++) {
            struct snic_ebs_place forged = place;
            forged.body_size = body;
            ebs_forge(p, &forged, ebs_way(t));
            int r = decode(t, p, place.body_at + body);
            assert_int_equal(r, padding || body == size - place.body_at ? 0 : SNIC_EOVERFLOW);
        }
    }
}

struct change {
    unsigned type;
    uint32_t at;
    uint32_t size;
    uint64_t value;
    int error;
};
static const struct change changes[] = {
    {SNIC_EBS_WRITE, 0, 1, 0x1d, SNIC_EVERSION},
    {SNIC_EBS_WRITE, 0, 1, 0x0d, SNIC_EVERSION},
    {SNIC_EBS_WRITE, 0, 1, 0x28, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 0, 1, 0x20, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 1, 1, 0, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 1, 1, SNIC_EBS_TYPE_END, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 1, 1, 255, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 1, 1, SNIC_EBS_WACK, SNIC_EPROTO},
    {SNIC_EBS_WACK, 1, 1, SNIC_EBS_WRITE, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 2, 2, SNIC_EBS_INT_REQ | SNIC_EBS_INT, SNIC_EPROTO},
    {SNIC_EBS_WRITE, 2, 2, 0, SNIC_EPROTO}, /* no INT block, but the length of one */
    {SNIC_EBS_WRITE, 2, 2, SNIC_EBS_INT_REQ | 0x1000, SNIC_ENOTSUP},
    {SNIC_EBS_WRITE, 2, 2, SNIC_EBS_INT_REQ | 0x8000, SNIC_ENOTSUP},
    {SNIC_EBS_WRITE, 2, 2, SNIC_EBS_INT_REQ | 0x0c00, 0},
    {SNIC_EBS_WRITE, 16, 2, 9, SNIC_ERANGE}, /* pkt_id */
    {SNIC_EBS_WRITE, 16, 2, 8, 0},
    {SNIC_EBS_WRITE, 18, 2, 0, SNIC_ERANGE}, /* pkt_cnt */
    {SNIC_EBS_WRITE, 18, 2, 64, 0},
    {SNIC_EBS_WRITE, 18, 2, 65, SNIC_ERANGE},
    {SNIC_EBS_WRITE, 80, 2, 0x54, SNIC_ERANGE}, /* blk_off is not lba's */
    {SNIC_EBS_WRITE, 80, 2, 0x255, SNIC_ERANGE},
    {SNIC_EBS_WRITE, 82, 2, 0, SNIC_ERANGE}, /* blk_cnt */
    {SNIC_EBS_WRITE, 82, 2, 2, SNIC_ERANGE},
    {SNIC_EBS_WRITE, 84, 1, 0, SNIC_ERANGE}, /* block_log2 */
    {SNIC_EBS_WRITE, 84, 1, 9, SNIC_ERANGE},
    {SNIC_EBS_WRITE, 85, 1, 3, SNIC_ERANGE}, /* op */
    {SNIC_EBS_WRITE, 85, 1, SNIC_EBS_TRIM, SNIC_EOVERFLOW},
    {SNIC_EBS_WRITE, 88, 8, UINT64_C(0x0000fffffffffe55), SNIC_OK},
    {SNIC_EBS_WRITE, 88, 8, UINT64_C(0x0001000000000055), SNIC_ERANGE}, /* lba */
    {SNIC_EBS_WRITE, 88, 8, UINT64_MAX, SNIC_ERANGE},
    {SNIC_EBS_READ_RESP, 48, 2, SNIC_EBS_IO, SNIC_EOVERFLOW}, /* an error has no block */
    {SNIC_EBS_READ_REQ, 82, 2, 65, SNIC_ERANGE},
    {SNIC_EBS_READ_REQ, 82, 2, 10, SNIC_ERANGE}, /* blk_cnt is pkt_cnt */
    {SNIC_EBS_READ_REQ, 85, 1, SNIC_EBS_ZERO, SNIC_ERANGE},
    {SNIC_EBS_READ_REQ, 120, 8, 0, SNIC_ERANGE}, /* need_mask */
    {SNIC_EBS_READ_REQ, 120, 8, 0x203, SNIC_ERANGE},
    {SNIC_EBS_READ_REQ, 120, 8, 0x101, SNIC_EOVERFLOW},
    {SNIC_EBS_READ_REQ, 120, 8, 0x181, 0},
    {SNIC_EBS_ACKV, 18, 2, 0, SNIC_ERANGE},
    {SNIC_EBS_ACKV, 18, 2, 65, SNIC_ERANGE},
    {SNIC_EBS_ACKV, 18, 2, 3, SNIC_EOVERFLOW},
    {SNIC_EBS_HELLO, 64, 1, 0, SNIC_ERANGE}, /* versions */
    {SNIC_EBS_HELLO, 64, 1, 3, SNIC_ERANGE},
    {SNIC_EBS_HELLO, 65, 1, 16, SNIC_ERANGE},
    {SNIC_EBS_HELLO, 68, 4, 0, SNIC_ERANGE}, /* conn_id */
    {SNIC_EBS_HELLO, 112, 8, UINT64_MAX, 0},
    {SNIC_EBS_RESET, 72, 1, 4, SNIC_ERANGE},
    {SNIC_EBS_RESET, 73, 1, 16, SNIC_ERANGE},
    {SNIC_EBS_FENCE, 84, 1, 0, SNIC_ERANGE},
    {SNIC_EBS_FENCE, 96, 8, UINT64_MAX, 0},
    {SNIC_EBS_NAK, 70, 2, 0xffff, 0}, /* not looked at */
    {SNIC_EBS_NAK, 72, 8, UINT64_MAX, 0},
};

/* Everything whose checksum is right is not right yet. Failure leaves the output as it was. */
static void test_ebs_decode_forged_field_has_its_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(changes); i++) {
        const struct change *c = &changes[i];
        unsigned char p[SNIC_EBS_PACKET_BYTES];
        struct snic_ebs_place place;
        struct snic_ebs_place was;
        struct snic_ebs_header h;
        struct snic_ebs_header before;
        uint32_t size = ebs_sample_packet(p, c->type, &place);

        for (uint32_t k = 0; k < c->size; k++)
            p[c->at + k] = (unsigned char)(c->value >> (8 * (c->size - 1 - k)));
        ebs_forge(p, &place, ebs_way(c->type));
        memset(&h, 0xa5, sizeof(h));
        before = h;
        memset(&place, 0x5a, sizeof(place));
        was = place;
        int r = snic_ebs_decode(&h, &place, ebs_way(c->type), p, size);
        if (r != c->error)
            print_error("change %u of type %u at %u\n", (unsigned)i, c->type, c->at);
        assert_int_equal(r, c->error);
        if (r != 0 && r != SNIC_ENOTSUP) {
            assert_memory_equal(&h, &before, sizeof(h));
            assert_memory_equal(&place, &was, sizeof(place));
        } else {
            assert_int_equal(h.rpc_id, UINT64_C(0x0007000000000123));
            assert_int_equal(place.size, size);
        }
    }
}

/* What comes back to its sender, or belongs to another connection, is not for it. */
static void test_ebs_decode_other_direction_is_refused(void **state)
{
    (void)state;
    FOR_TYPES(t)
    {
        unsigned char p[SNIC_EBS_PACKET_BYTES];
        struct snic_ebs_header h;
        struct snic_ebs_place place;
        uint32_t size = ebs_sample_packet(p, t, &place);
        int both = t == SNIC_EBS_RESET || t == SNIC_EBS_ACKV;
        assert_int_equal(snic_ebs_decode(&h, &place, ebs_way(t) ^ 1, p, size),
                         both ? SNIC_ECORRUPT : SNIC_EPROTO);
    }
}

/* Each refusal of the encoder, and that it wrote nothing. */
static void test_ebs_encode_refuses_what_is_no_packet(void **state)
{
    (void)state;
    unsigned char body[SNIC_EBS_BLOCK_BYTES];
    unsigned char out[SNIC_EBS_PACKET_BYTES];
    unsigned char clean[SNIC_EBS_PACKET_BYTES];
    memset(clean, 0x77, sizeof(clean));

    FOR_TYPES(t)
    {
        struct snic_ebs_header h;
        uint32_t size = ebs_sample_body(body, t);
        struct snic_ebs_place place;
        int r = 0;
        ebs_sample(&h, t);
        for (size_t room = 0; r == 0; room++) {
            memcpy(out, clean, sizeof(out));
            r = snic_ebs_encode(out, room, &place, ebs_way(t), &h, body, size);
            if (r > 0) {
                assert_int_equal(r, room);
                break;
            }
            assert_int_equal(r, SNIC_ENOSPC);
            assert_memory_equal(out, clean, sizeof(out));
            r = 0;
        }
        memcpy(out, clean, sizeof(out));
        h.flags |= 0x4000;
        assert_int_equal(snic_ebs_encode(out, 4320, NULL, ebs_way(t), &h, body, size), SNIC_EINVAL);
        h.flags = SNIC_EBS_INT_REQ | SNIC_EBS_INT;
        assert_int_equal(snic_ebs_encode(out, 4320, NULL, ebs_way(t), &h, body, size), SNIC_EINVAL);
        h.flags = 0;
        assert_int_equal(snic_ebs_encode(out, 4320, NULL, 4, &h, body, size), SNIC_EINVAL);
        assert_int_equal(snic_ebs_encode(out, 4320, NULL, ebs_way(t), &h, body, 4097), SNIC_EINVAL);
        if (t != SNIC_EBS_WRITE && t != SNIC_EBS_READ_RESP && size > 0)
            assert_int_equal(snic_ebs_encode(out, 4320, NULL, ebs_way(t), &h, NULL, size),
                             SNIC_EINVAL);
        h.type = SNIC_EBS_TYPE_END;
        assert_int_equal(snic_ebs_encode(out, 4320, NULL, ebs_way(t), &h, body, size), SNIC_EINVAL);
        assert_memory_equal(out, clean, sizeof(out));
    }
}

/* Fields at random, in both kinds of transport: what is encoded comes back, at its stated size. */
static void test_ebs_random_headers_come_back(void **state)
{
    (void)state;
    struct snic_rng r;
    static unsigned char body[SNIC_EBS_RPC_BLOCKS * 4100];
    uint64_t made = 0;
    snic_rng_init(&r, support_seed());
    snic_rng_fill(&r, body, sizeof(body));

    for (uint64_t i = 0; i < support_rounds(200000, 2000000); i++) {
        unsigned t = 1 + (unsigned)snic_rng_below(&r, SNIC_EBS_TYPE_END - 1);
        unsigned way = ebs_way(t) | (snic_rng_below(&r, 4) == 0 ? SNIC_EBS_STREAM : 0);
        unsigned char p[SNIC_EBS_PACKET_BYTES];
        struct snic_ebs_header h;
        struct snic_ebs_header back;
        struct snic_ebs_place place;
        struct snic_ebs_place seen;
        uint32_t size = ebs_sample_body(p, t);
        ebs_sample(&h, t);
        h.flags = (uint16_t)(snic_rng_next(&r) & 0xfff & ~(i % 3 ? 0xdu : 0u));
        h.rpc_id = snic_rng_next(&r);
        h.path_seq = (uint32_t)snic_rng_next(&r);
        h.pn = snic_rng_next(&r);
        h.status = (uint16_t)snic_rng_below(&r, 3);
        if (t != SNIC_EBS_ACKV && h.u.block.block_log2 == 12 && t <= SNIC_EBS_READ_RESP) {
            h.u.block.lba = snic_rng_next(&r) >> 17;
            h.u.block.blk_off = (uint16_t)(h.u.block.lba & 511);
            h.u.block.blk_cnt = (uint16_t)(1 + snic_rng_below(&r, 70));
            h.u.block.op = (uint8_t)snic_rng_below(&r, 4);
            h.u.block.wver = snic_rng_next(&r);
            size = (uint32_t)snic_rng_below(&r, 3) == 0 ? h.u.block.blk_cnt * 4100u : size;
            if (snic_rng_below(&r, 2) == 0)
                size = 0;
        }
        if (way & SNIC_EBS_STREAM && size < 4096)
            size = 0;
        int n = snic_ebs_encode(p, sizeof(p), &place, way, &h, body, size);
        if (n < 0)
            continue;
        made++;
        if ((way & SNIC_EBS_STREAM) == 0)
            memcpy(p + n, body, size);
        assert_int_equal(
            snic_ebs_decode(&back, &seen, way, p, way & SNIC_EBS_STREAM ? (uint32_t)n : place.size),
            0);
        assert_memory_equal(&back, &h, sizeof(h));
        assert_memory_equal(&seen, &place, sizeof(place));
    }
    assert_true(made > 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ebs_every_type_has_the_written_bytes),
        cmocka_unit_test(test_ebs_encode_every_byte_is_written),
        cmocka_unit_test(test_ebs_decode_any_flipped_bit_is_refused),
        cmocka_unit_test(test_ebs_decode_any_flipped_bit_of_a_frame_is_refused),
        cmocka_unit_test(test_ebs_decode_every_other_length_is_refused),
        cmocka_unit_test(test_ebs_decode_forged_length_is_refused),
        cmocka_unit_test(test_ebs_decode_forged_field_has_its_error),
        cmocka_unit_test(test_ebs_decode_other_direction_is_refused),
        cmocka_unit_test(test_ebs_encode_refuses_what_is_no_packet),
        cmocka_unit_test(test_ebs_random_headers_come_back),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
