/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The codec, and every violation in every state with the termination that the specification names.
 */
#include "test_nvmetcp_util.h"

enum { SEEN_BYTES = 4096 };

static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9};
static unsigned char zeros[1 << 16];

/* A PDU with its data (zeros) and digest. @return bytes */
static size_t make(unsigned char *b, struct snic_nvmetcp_pdu *pdu,
                   const struct snic_nvmetcp_params *p)
{
    static const unsigned char capsule[64];
    if (pdu->capsule == NULL)
        pdu->capsule = capsule;
    int n = snic_nvmetcp_encode(b, pdu, p);
    assert_true(n > 0);
    memset(b + n, 0, pdu->plen - (uint32_t)n);
    if (pdu->plen > pdu->head_size + pdu->pad_size + pdu->data_size)
        snic_put_le32(b + pdu->plen - 4, snic_crc32c(0, zeros, pdu->data_size));
    return pdu->plen;
}

/* What was encoded is decoded; every shorter prefix is not enough. */
static void test_nvmetcp_codec_round_trips(void **state)
{
    unsigned char b[SNIC_NVMETCP_HEADER_MAX], capsule[64];
    (void)state;
    for (size_t i = 0; i < sizeof(capsule); i++)
        capsule[i] = (unsigned char)(i * 3 + 1);
    for (size_t i = 0; i < SNIC_COUNTOF(types); i++) {
        for (uint32_t k = 0; k < 4 * 32 * 3; k++) {
            struct snic_nvmetcp_params p = {(uint8_t)(k & 3), (uint8_t)((k >> 2) & 31),
                                            types[i] == 9 || types[i] % 2 == 1, 0};
            struct snic_nvmetcp_pdu a = {.type = types[i], .capsule = capsule}, d;
            uint32_t data = k / 128;
            int has = types[i] == 4 || types[i] == 6 || types[i] == 7;
            a.data_size = has ? data * 4096 : 0;
            a.length = types[i] == 9 ? 512 : a.data_size;
            a.offset = 77;
            a.cccid = 0x1234;
            a.ttag = types[i] == 7 ? 0 : 0x4321;
            a.fes = 3;
            a.fei = 0x01020304;
            a.pda = 31;
            a.digests = 3;
            a.limit = 4096;
            a.flags = types[i] == 7 ? SNIC_NVMETCP_LAST | SNIC_NVMETCP_SUCCESS : 0;
            int n = snic_nvmetcp_encode(b, &a, &p);
            assert_int_equal(n, a.head_size);
            for (int cut = 0; cut < n; cut++)
                assert_int_equal(snic_nvmetcp_decode(&d, &p, b, (size_t)cut), SNIC_EAGAIN);
            assert_int_equal(snic_nvmetcp_decode(&d, &p, b, (size_t)n), 0);
            assert_true(d.type == a.type && d.flags == a.flags && d.plen == a.plen);
            assert_true(d.pad_size == a.pad_size && d.data_size == a.data_size);
            assert_true(a.data_size == 0 || (d.pdo % (4 * (p.pda + 1)) == 0 && d.pad_size < 128));
            if (types[i] <= 1)
                assert_true(d.pda == 31 && d.digests == 3 && d.limit == 4096);
            else if (types[i] <= 3)
                assert_true(d.fes == 3 && d.fei == 0x01020304);
            else if (types[i] <= 5)
                assert_memory_equal(d.capsule, capsule, types[i] == 4 ? 64 : 16);
            else
                assert_true(d.cccid == 0x1234 && d.ttag == a.ttag && d.offset == 77 &&
                            d.length == a.length);
        }
    }
}

/* Bytes as the specification lays them out, written down by hand. */
static void test_nvmetcp_codec_vectors(void **state)
{
    static const struct {
        uint8_t digests, to_host, size;
        struct snic_nvmetcp_pdu pdu;
        uint8_t bytes[28];
    } v[] = {
        {0,
         0,
         20,
         {.type = 0, .pda = 3, .digests = 3, .limit = 0x0a},
         {0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 3, 0x0a}},
        {0,
         1,
         20,
         {.type = 1, .pda = 1, .digests = 1, .limit = 0x20000},
         {1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 1, 0, 0, 2, 0}},
        {3,
         1,
         24,
         {.type = 3, .fes = 1, .fei = 0x0a, .data_size = 8},
         {3, 0, 24, 0, 32, 0, 0, 0, 1, 0, 0x0a}},
        {0, 0, 8, {.type = 4, .data_size = 512, .capsule = zeros}, {4, 0, 72, 72, 0x48, 2}},
        {3, 0, 8, {.type = 4, .data_size = 512, .capsule = zeros}, {4, 3, 72, 76, 0x50, 2}},
        {0, 1, 24, {.type = 5, .capsule = zeros}, {5, 0, 24, 0, 24}},
        {0,
         0,
         24,
         {.type = 6,
          .flags = 4,
          .cccid = 0x0102,
          .ttag = 0x0304,
          .offset = 0x1000,
          .length = 0x2000,
          .data_size = 0x2000},
         {6, 4, 24, 24, 0x18, 0x20, 0, 0, 2, 1, 4, 3, 0, 0x10, 0, 0, 0, 0x20}},
        {2,
         1,
         24,
         {.type = 7, .flags = 12, .cccid = 9, .length = 4096, .data_size = 4096},
         {7, 14, 24, 24, 0x1c, 0x10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x10}},
        {0,
         1,
         24,
         {.type = 9, .cccid = 7, .ttag = 8, .offset = 1, .length = 0x10000},
         {9, 0, 24, 0, 24, 0, 0, 0, 7, 0, 8, 0, 1, 0, 0, 0, 0, 0, 1}},
        /* The digest of 24 bytes: CRC32C, little-endian. */
        {1, 1, 28, {.type = 5, .capsule = zeros}, {5, 1, 24, 0, 28,   0,    0,    0,   0, 0,
                                                   0, 0, 0,  0, 0,    0,    0,    0,   0, 0,
                                                   0, 0, 0,  0, 0x9b, 0x12, 0x03, 0x89}},
    };
    unsigned char b[SNIC_NVMETCP_HEADER_MAX];
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(v); i++) {
        struct snic_nvmetcp_params p = {v[i].digests, 0, v[i].to_host, 0};
        struct snic_nvmetcp_pdu pdu = v[i].pdu;
        assert_true(snic_nvmetcp_encode(b, &pdu, &p) >= v[i].size);
        assert_memory_equal(b, v[i].bytes, v[i].size);
    }
}

static void test_nvmetcp_encode_wrong_refused(void **state)
{
    unsigned char b[SNIC_NVMETCP_HEADER_MAX];
    struct snic_nvmetcp_params p = {0, 0, 0, 0};
    struct snic_nvmetcp_pdu a = {.type = SNIC_NVMETCP_ICRESP};
    (void)state;
    assert_int_equal(snic_nvmetcp_encode(b, &a, &p), SNIC_EINVAL);
    a.type = 8;
    assert_int_equal(snic_nvmetcp_encode(b, &a, &p), SNIC_EINVAL);
    a.type = SNIC_NVMETCP_ICREQ;
    a.data_size = 1;
    assert_int_equal(snic_nvmetcp_encode(b, &a, &p), SNIC_EINVAL);
    a.type = SNIC_NVMETCP_H2C_TERM;
    a.data_size = 129;
    assert_int_equal(snic_nvmetcp_encode(b, &a, &p), SNIC_EINVAL);
}

/* ---- Violations met by a target ---- */

enum t_state { T_NEW, T_UP, T_CONNECTED, T_GRANTED, T_DOWN, T_STATES };

struct fixture {
    struct solo s;
    struct snic_nvmetcp_params p, back;
    uint16_t ttag;
    struct snic_iov iov;
    unsigned char data[4096];
};

static struct fixture fix;

/* A write of 4096 bytes whose R2T was sent. */
static void fixture_grant(struct fixture *f)
{
    unsigned char b[SEEN_BYTES], sqe[64] = {1, 0x40, 0x34, 0x12};
    struct snic_nvmetcp_pdu pdu;
    snic_put_le32(sqe + 32, 4096);
    sqe[39] = 0x5a;
    size_t n = solo_capsule(b, &f->p, sqe, NULL, 0);
    assert_int_equal(solo_feed(&f->s, b, n), n);
    struct snic_nvmetcp_event e = solo_event(&f->s, SNIC_NVMETCP_COMMAND);
    assert_int_equal(e.wanted, 4096);
    f->iov.base = f->data;
    f->iov.size = sizeof(f->data);
    assert_int_equal(snic_nvmetcp_target_grant(f->s.t, e.command, &f->iov, 1, 4096, f->s.now), 0);
    solo_output(&f->s);
    assert_int_equal(snic_nvmetcp_decode(&pdu, &f->back, f->s.out, f->s.out_size), 0);
    assert_true(pdu.type == SNIC_NVMETCP_R2T && pdu.cccid == 0x1234 && pdu.offset == 0 &&
                pdu.length == 4096);
    f->ttag = pdu.ttag;
    f->s.out_size = 0;
}

static void fixture_open(struct fixture *f, enum t_state state, uint8_t digests, uint8_t pda)
{
    memset(f, 0, sizeof(*f));
    f->s.o.cpda = pda;
    solo_open(&f->s);
    f->p.pda = pda;
    f->back.to_host = 1;
    if (state == T_NEW)
        return;
    solo_greet(&f->s, digests, 0, 0);
    f->p.digests = digests;
    f->back.digests = digests;
    if (state >= T_CONNECTED)
        solo_connect(&f->s, &f->p, 4, 0);
    if (state >= T_GRANTED)
        fixture_grant(f);
    if (state == T_DOWN) {
        unsigned char b[8] = {0xff};
        assert_int_equal(solo_feed(&f->s, b, 8), 8);
        solo_expect_term(&f->s, SNIC_NVMETCP_FES_HEADER, 0);
    }
}

/* After its end a target drops all input and sends nothing. */
static void fixture_dead(struct fixture *f, const unsigned char *b, size_t n)
{
    assert_int_equal(solo_feed(&f->s, b, n), n);
    assert_int_equal(f->s.out_size, 0);
    solo_none(&f->s);
}

/* Every type byte in every state. */
static void test_nvmetcp_target_every_type_in_every_state(void **state)
{
    struct fixture *f = &fix;
    (void)state;
    for (int st = 0; st < T_STATES; st++) {
        for (uint32_t type = 0; type < 256; type++) {
            for (uint8_t digests = 0; digests < 4; digests++) {
                unsigned char b[SEEN_BYTES];
                fixture_open(f, (enum t_state)st, digests, 0);
                int known = type == 0 || type == 2 || type == 4 || type == 6;
                struct snic_nvmetcp_pdu pdu = {.type = known ? (uint8_t)type : 4};
                pdu.flags = SNIC_NVMETCP_LAST;
                pdu.cccid = 0x1234;
                pdu.ttag = f->ttag;
                pdu.data_size = type == 6 ? 4096 : 0;
                pdu.length = pdu.data_size;
                static unsigned char big[8192];
                size_t n = make(big, &pdu, &f->p);
                memcpy(b, big, 72);
                if (!known) {
                    big[0] = (unsigned char)type;
                    n = 8;
                }
                size_t used = solo_feed(&f->s, big, n);
                assert_int_equal(used, n);
                if (st == T_DOWN) {
                    fixture_dead(f, big, n);
                } else if (!known) {
                    solo_expect_term(&f->s, SNIC_NVMETCP_FES_HEADER, 0);
                } else if (type == 2) {
                    struct snic_nvmetcp_event e = solo_event(&f->s, SNIC_NVMETCP_ENDED);
                    assert_true(e.from_peer && e.reason == SNIC_ECONNRESET && f->s.out_size == 0);
                    solo_none(&f->s);
                } else if ((type == 0) != (st == T_NEW)) {
                    solo_expect_term(&f->s, SNIC_NVMETCP_FES_SEQUENCE, 0);
                } else if (type == 0) {
                    assert_int_equal(f->s.out_size, 128);
                } else if (type == 6 && st == T_GRANTED) {
                    struct snic_nvmetcp_event e = solo_event(&f->s, SNIC_NVMETCP_DATA_IN);
                    assert_true(e.all && e.data_size == 4096 && e.reason == 0);
                } else if (type == 6) {
                    solo_expect_term(&f->s, SNIC_NVMETCP_FES_HEADER, 10);
                } else { /* a capsule of zeros: a status, not the end */
                    assert_int_equal(f->s.out_size, (digests & 1) != 0 ? 28 : 24);
                    uint16_t status = st == T_UP ? 0x400c : 0x4002;
                    assert_int_equal(snic_get_le16(f->s.out + 22) >> 1, status);
                    solo_none(&f->s);
                }
                solo_close(&f->s);
            }
        }
    }
}

/* A valid PDU with one field changed. */
struct wrong {
    const char *what;
    enum t_state state;
    uint8_t type;
    uint8_t digests;
    uint8_t pda;
    uint32_t data;
    uint8_t at, bytes; /* of the field */
    uint32_t value;
    uint16_t fes;
    uint32_t fei;
};

static const struct wrong wrongs[] = {
    {"PFV", T_NEW, 0, 0, 0, 0, 8, 2, 1, 6, 8},
    {"HPDA", T_NEW, 0, 0, 0, 0, 10, 1, 32, 1, 10},
    {"ICReq HLEN", T_NEW, 0, 0, 0, 0, 2, 1, 127, 1, 2},
    {"ICReq PLEN short", T_NEW, 0, 0, 0, 0, 4, 4, 127, 1, 4},
    {"ICReq PLEN long", T_NEW, 0, 0, 0, 0, 4, 4, 132, 1, 4},
    {"capsule HDGSTF set", T_CONNECTED, 4, 0, 0, 0, 1, 1, 1, 1, 1},
    {"capsule HDGSTF clear", T_CONNECTED, 4, 1, 0, 0, 1, 1, 0, 1, 1},
    {"capsule DDGSTF set", T_CONNECTED, 4, 0, 0, 512, 1, 1, 2, 1, 1},
    {"capsule DDGSTF clear", T_CONNECTED, 4, 2, 0, 512, 1, 1, 0, 1, 1},
    {"capsule HLEN", T_CONNECTED, 4, 0, 0, 0, 2, 1, 71, 1, 2},
    {"capsule HLEN long", T_CONNECTED, 4, 3, 0, 0, 2, 1, 255, 1, 2},
    {"capsule PDO short", T_CONNECTED, 4, 0, 0, 512, 3, 1, 68, 1, 3},
    {"capsule PDO in the digest", T_CONNECTED, 4, 1, 0, 512, 3, 1, 72, 1, 3},
    {"capsule PDO unaligned", T_CONNECTED, 4, 0, 0, 512, 3, 1, 74, 1, 3},
    {"capsule PDO unaligned to CPDA", T_CONNECTED, 4, 0, 7, 512, 3, 1, 80, 1, 3},
    {"capsule PDO behind", T_CONNECTED, 4, 0, 0, 16, 3, 1, 92, 1, 3},
    {"capsule PDO at the end", T_CONNECTED, 4, 0, 0, 16, 3, 1, 88, 1, 4},
    {"capsule PLEN short", T_CONNECTED, 4, 0, 0, 0, 4, 4, 71, 1, 4},
    {"capsule PLEN 0", T_CONNECTED, 4, 3, 0, 0, 4, 4, 0, 1, 4},
    {"capsule PLEN of a digest only", T_CONNECTED, 4, 2, 0, 16, 4, 4, 76, 1, 4},
    {"capsule PLEN huge", T_CONNECTED, 4, 0, 0, 16, 4, 4, UINT32_MAX, 5, 0},
    {"capsule data beyond", T_CONNECTED, 4, 0, 0, 8208, 0, 0, 0, 5, 0},
    {"data HLEN", T_GRANTED, 6, 0, 0, 4096, 2, 1, 28, 1, 2},
    {"data PDO", T_GRANTED, 6, 0, 0, 4096, 3, 1, 20, 1, 3},
    {"data PLEN below HLEN", T_GRANTED, 6, 0, 0, 4096, 4, 4, 23, 1, 4},
    {"data HDGSTF", T_GRANTED, 6, 0, 0, 4096, 1, 1, 5, 1, 1},
    {"data DDGSTF", T_GRANTED, 6, 2, 0, 4096, 1, 1, 4, 1, 1},
    {"data CCCID", T_GRANTED, 6, 0, 0, 4096, 8, 2, 0x1235, 1, 8},
    {"data TTAG of none", T_GRANTED, 6, 0, 0, 4096, 10, 2, 0x7fff, 1, 10},
    {"data TTAG of another generation", T_GRANTED, 6, 0, 0, 4096, 10, 2, 4, 1, 10},
    {"data TTAG of a free grant", T_GRANTED, 6, 3, 0, 4096, 10, 2, 1, 1, 10},
    {"DATAL other than the data", T_GRANTED, 6, 0, 0, 4096, 16, 4, 4095, 1, 16},
    {"DATAL 0", T_GRANTED, 6, 0, 0, 0, 0, 0, 0, 1, 16},
    {"DATAL above MAXH2CDATA", T_GRANTED, 6, 0, 0, 135168, 0, 0, 0, 5, 0},
    {"DATAL above the R2T", T_GRANTED, 6, 3, 0, 8192, 0, 0, 0, 4, 0},
    {"DATAO behind", T_GRANTED, 6, 0, 0, 4096, 12, 4, 4, 4, 0},
    {"DATAO far behind", T_GRANTED, 6, 1, 0, 4096, 12, 4, UINT32_MAX, 4, 0},
    {"data out of order", T_GRANTED, 6, 0, 0, 512, 12, 4, 512, 2, 0},
    {"LAST too early", T_GRANTED, 6, 0, 0, 512, 0, 0, 0, 2, 0},
    {"LAST missing", T_GRANTED, 6, 0, 0, 4096, 1, 1, 0, 2, 0},
};

static void field_put(unsigned char *p, uint32_t bytes, uint32_t value)
{
    for (uint32_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(value >> (8 * i));
}

static void test_nvmetcp_target_every_wrong_field_named(void **state)
{
    static unsigned char big[1 << 18];
    struct fixture *f = &fix;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(wrongs); i++) {
        const struct wrong *w = &wrongs[i];
        fixture_open(f, w->state, w->digests, w->pda);
        struct snic_nvmetcp_pdu pdu = {.type = w->type, .flags = SNIC_NVMETCP_LAST};
        pdu.cccid = 0x1234;
        pdu.ttag = f->ttag;
        pdu.data_size = w->data;
        pdu.length = w->data;
        if (w->data > sizeof(zeros))
            f->p.digests = 0; /* it is refused before its data */
        size_t n = make(big, &pdu, &f->p);
        field_put(big + w->at, w->bytes, w->value);
        if ((w->digests & 1) != 0 && w->at > 7)
            snic_put_le32(big + pdu.hlen, snic_crc32c(0, big, pdu.hlen));
        if (w->at == 4 && w->value > 1u << 20)
            n = 72;
        print_message("%s\n", w->what);
        (void)solo_feed(&f->s, big, n);
        solo_expect_term(&f->s, w->fes, w->fei);
        fixture_dead(f, big, n);
        /* It stays until the peer closes, or for 30 s. */
        assert_int_equal(snic_nvmetcp_target_deadline_ns(f->s.t), f->s.now + UINT64_C(30000000000));
        f->s.now += UINT64_C(30000000000) - 1;
        solo_none(&f->s);
        f->s.now++;
        struct snic_nvmetcp_event e = solo_event(&f->s, SNIC_NVMETCP_ENDED);
        assert_true(e.reason == SNIC_EPROTO && e.fes == w->fes && e.fei == w->fei);
        solo_none(&f->s);
        assert_int_equal(snic_nvmetcp_target_deadline_ns(f->s.t), SNIC_NEVER);
        solo_close(&f->s);
    }
}

/* A wrong header digest is fatal wherever the bit is, and FEI is the digest received. */
static void test_nvmetcp_target_header_digest_wrong_terminates(void **state)
{
    struct fixture *f = &fix;
    unsigned char b[256];
    (void)state;
    for (uint32_t bit = 8 * 8; bit < 8 * 76; bit += 7) {
        fixture_open(f, T_CONNECTED, 1, 0);
        struct snic_nvmetcp_pdu pdu = {.type = 4};
        size_t n = make(b, &pdu, &f->p);
        b[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        (void)solo_feed(&f->s, b, n);
        solo_expect_term(&f->s, SNIC_NVMETCP_FES_DIGEST, snic_get_le32(b + 72));
        solo_close(&f->s);
    }
}

/* Data of a grant that has them all, though its event was not polled; data that skip some. */
static void test_nvmetcp_target_data_twice_or_skipping_refused(void **state)
{
    static unsigned char b[8192];
    struct fixture *f = &fix;
    (void)state;
    for (int skip = 0; skip < 2; skip++) {
        fixture_open(f, T_GRANTED, 0, 0);
        struct snic_nvmetcp_pdu pdu = {.type = 6, .cccid = 0x1234, .ttag = f->ttag};
        pdu.length = pdu.data_size = skip ? 512 : 4096;
        pdu.offset = skip ? 512 : 0;
        pdu.flags = skip ? 0 : SNIC_NVMETCP_LAST;
        size_t n = make(b, &pdu, &f->p);
        assert_int_equal(solo_feed(&f->s, b, n), n);
        if (!skip)
            assert_int_equal(solo_feed(&f->s, b, n), n);
        if (skip)
            solo_expect_term(&f->s, SNIC_NVMETCP_FES_SEQUENCE, 0);
        else
            solo_expect_term(&f->s, SNIC_NVMETCP_FES_HEADER, 10);
        solo_close(&f->s);
    }
}

/* The TermReq shows the header; a malformed TermReq ends without an answer, and one with data is
   read whole. */
static void test_nvmetcp_target_term_requests(void **state)
{
    struct fixture *f = &fix;
    unsigned char b[256];
    struct snic_nvmetcp_params back = {0, 0, 1, 0};
    struct snic_nvmetcp_pdu pdu;
    (void)state;
    fixture_open(f, T_NEW, 0, 0);
    pdu = (struct snic_nvmetcp_pdu){.type = 0};
    size_t n = make(b, &pdu, &f->p);
    b[10] = 32;
    (void)solo_feed(&f->s, b, n);
    assert_int_equal(snic_nvmetcp_decode(&pdu, &back, f->s.out, f->s.out_size), 0);
    assert_int_equal(pdu.data_size, 128);
    assert_memory_equal(f->s.out + 24, b, 128);
    solo_close(&f->s);
    for (uint32_t plen = 0; plen < 200; plen++) {
        fixture_open(f, T_CONNECTED, 3, 3);
        memset(b, 0, sizeof(b));
        b[0] = SNIC_NVMETCP_H2C_TERM;
        b[2] = 24;
        b[8] = 2;
        snic_put_le32(b + 4, plen);
        int good = plen >= 24 && plen <= 152;
        (void)solo_feed(&f->s, b, good ? plen - (plen > 24) : 24);
        if (plen > 24 && good) {
            solo_none(&f->s);
            (void)solo_feed(&f->s, b, 1);
        }
        struct snic_nvmetcp_event e = solo_event(&f->s, SNIC_NVMETCP_ENDED);
        assert_true(e.reason == SNIC_ECONNRESET && e.from_peer == good && e.fes == (good ? 2 : 0));
        assert_int_equal(f->s.out_size, 0);
        solo_close(&f->s);
    }
}

/* ---- Violations met by a host ---- */

struct lone {
    struct snic_nvmetcp_host *h;
    void *mem;
    uint64_t now;
    struct snic_nvmetcp_params p; /* of the controller's PDUs */
    struct snic_nvmetcp_command r, w;
    struct snic_iov ri, wi;
    size_t out_size;
    unsigned char out[1 << 15];
    unsigned char data[8192];
};

static struct lone lone;

static void lone_output(struct lone *l)
{
    struct snic_iov iov[8];
    size_t bytes;
    uint32_t n;
    l->out_size = 0;
    while ((n = snic_nvmetcp_host_output(l->h, iov, 8, &bytes)) > 0) {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(l->out + l->out_size, iov[i].base, iov[i].size);
            l->out_size += iov[i].size;
        }
        snic_nvmetcp_host_sent(l->h, bytes, l->now);
    }
    assert_int_equal(snic_nvmetcp_host_check(l->h), 0);
}

static int lone_recv(struct lone *l, const unsigned char *b, size_t n)
{
    size_t used;
    int r = snic_nvmetcp_host_recv(l->h, b, n, &used, l->now);
    assert_int_equal(used, n);
    return r;
}

static uint32_t lone_event(struct lone *l, struct snic_nvmetcp_event *e)
{
    e->type = 0;
    int r = snic_nvmetcp_host_poll(l->h, e, l->now);
    assert_int_equal(snic_nvmetcp_host_check(l->h), 0);
    return r == 1 ? e->type : 0;
}

/* state 0: ICReq sent; 1: a read and a write of 4096 bytes are out. */
static void lone_open(struct lone *l, int state, uint8_t digests, uint8_t pda)
{
    struct snic_nvmetcp_host_opts o = {.opts_size = sizeof(o), .entries = 8, .digests = digests};
    struct snic_nvmetcp_pdu pdu = {.type = 1, .digests = digests, .limit = 4096};
    struct snic_nvmetcp_event e;
    unsigned char b[256];
    memset(l, 0, sizeof(*l));
    o.hpda = pda;
    o.r2ts_max = 2;
    size_t size = snic_nvmetcp_host_memsize(&o);
    l->mem = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    assert_int_equal(snic_nvmetcp_host_init(&l->h, l->mem, size, &o, 0), 0);
    lone_output(l);
    assert_int_equal(l->out_size, 128);
    l->p.to_host = 1;
    l->p.pda = pda;
    if (state == 0)
        return;
    size_t n = make(b, &pdu, &l->p);
    assert_int_equal(lone_recv(l, b, n), 0);
    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_READY);
    l->p.digests = digests;
    l->ri.base = l->data;
    l->ri.size = 4096;
    l->wi.base = l->data + 4096;
    l->wi.size = 4096;
    duo_command(&l->r, 2, 0, &l->ri, 1);
    duo_command(&l->w, 1, 0, &l->wi, 1);
    assert_int_equal(snic_nvmetcp_host_submit(l->h, &l->r, 0), 0);
    assert_int_equal(snic_nvmetcp_host_submit(l->h, &l->w, 0), 0);
    lone_output(l);
}

static void lone_close(struct lone *l)
{
    struct snic_nvmetcp_event e;
    snic_nvmetcp_host_end(l->h, SNIC_ECONNABORTED, l->now);
    while (lone_event(l, &e) != 0)
        continue;
    support_guard_free(snic_nvmetcp_host_fini(l->h));
}

static void lone_expect_term(struct lone *l, uint16_t fes, uint32_t fei)
{
    struct snic_nvmetcp_params up = {0, 0, 0, 0};
    struct snic_nvmetcp_pdu pdu;
    struct snic_nvmetcp_event e;
    lone_output(l);
    assert_int_equal(snic_nvmetcp_decode(&pdu, &up, l->out, l->out_size), 0);
    assert_int_equal(pdu.type, SNIC_NVMETCP_H2C_TERM);
    assert_int_equal(pdu.fes, fes);
    assert_int_equal(pdu.fei, fei);
    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_TERM);
    assert_true(e.fes == fes && e.fei == fei && e.reason == SNIC_EPROTO);
    uint32_t type;
    while ((type = lone_event(l, &e)) == SNIC_NVMETCP_DONE)
        assert_int_equal(e.req->error, SNIC_ECANCELED);
    assert_int_equal(type, 0);
    snic_nvmetcp_host_closed(l->h, l->now);
    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_ENDED);
    assert_int_equal(e.reason, SNIC_EPROTO);
}

static void test_nvmetcp_host_every_type_in_every_state(void **state)
{
    struct lone *l = &lone;
    static unsigned char b[8192];
    struct snic_nvmetcp_event e;
    (void)state;
    for (int st = 0; st < 2; st++) {
        for (uint32_t type = 0; type < 256; type++) {
            for (uint8_t digests = 0; digests < 4; digests++) {
                int known = type == 1 || type == 3 || type == 5 || type == 7 || type == 9;
                lone_open(l, st, digests, 0);
                struct snic_nvmetcp_pdu pdu = {.type = known ? (uint8_t)type : 5};
                unsigned char cqe[16] = {0};
                snic_put_le16(cqe + 12, l->w.cid);
                pdu.limit = 4096;
                pdu.flags = SNIC_NVMETCP_LAST;
                pdu.cccid = type == 7 ? l->r.cid : l->w.cid;
                pdu.length = 4096;
                pdu.data_size = type == 7 ? 4096 : 0;
                pdu.capsule = cqe;
                size_t n = make(b, &pdu, &l->p);
                if (!known) {
                    b[0] = (unsigned char)type;
                    n = 8;
                }
                (void)lone_recv(l, b, n);
                if (!known) {
                    lone_expect_term(l, SNIC_NVMETCP_FES_HEADER, 0);
                } else if (type == 3) {
                    uint32_t t;
                    while ((t = lone_event(l, &e)) == SNIC_NVMETCP_DONE)
                        assert_int_equal(e.req->error, SNIC_ECANCELED);
                    assert_true(t == SNIC_NVMETCP_ENDED && e.from_peer);
                } else if ((type == 1) != (st == 0)) {
                    lone_expect_term(l, SNIC_NVMETCP_FES_SEQUENCE, 0);
                } else if (type == 1) {
                    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_READY);
                } else if (type == 5) {
                    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_DONE);
                    assert_true(e.req == &l->w && l->w.error == 0 && l->w.status == 0);
                } else {
                    assert_int_equal(lone_event(l, &e), 0);
                    lone_output(l);
                    assert_true(type == 9 ? l->out_size >= 4096 + 24 : l->r.received == 4096);
                }
                lone_close(l);
            }
        }
    }
}

static const struct wrong host_wrongs[] = {
    {"PFV", T_NEW, 1, 0, 0, 0, 8, 2, 1, 6, 8},
    {"CPDA", T_NEW, 1, 0, 0, 0, 10, 1, 32, 1, 10},
    {"a digest not asked for", T_NEW, 1, 0, 0, 0, 11, 1, 1, 1, 11},
    {"MAXH2CDATA small", T_NEW, 1, 0, 0, 0, 12, 4, 4092, 1, 12},
    {"MAXH2CDATA odd", T_NEW, 1, 0, 0, 0, 12, 4, 4098, 1, 12},
    {"ICResp HLEN", T_NEW, 1, 0, 0, 0, 2, 1, 0, 1, 2},
    {"ICResp PLEN", T_NEW, 1, 0, 0, 0, 4, 4, 129, 1, 4},
    {"response HLEN", T_UP, 5, 0, 0, 0, 2, 1, 23, 1, 2},
    {"response PLEN", T_UP, 5, 1, 0, 0, 4, 4, 24, 1, 4},
    {"response HDGSTF", T_UP, 5, 1, 0, 0, 1, 1, 0, 1, 1},
    {"response CID", T_UP, 5, 1, 0, 0, 20, 2, 0x7777, 1, 20},
    {"data CCCID of none", T_UP, 7, 0, 0, 4096, 8, 2, 0x7777, 1, 8},
    {"data CCCID of a write", T_UP, 7, 0, 0, 4096, 8, 2, 1, 1, 8},
    {"SUCCESS without LAST", T_UP, 7, 0, 0, 4096, 1, 1, 8, 1, 1},
    {"data PDO", T_UP, 7, 0, 31, 4096, 3, 1, 64, 1, 3},
    {"DATAL", T_UP, 7, 0, 0, 4096, 16, 4, 4092, 1, 16},
    {"DATAL 0", T_UP, 7, 0, 0, 0, 0, 0, 0, 1, 16},
    {"data beyond", T_UP, 7, 0, 0, 4096, 12, 4, 1, 4, 0},
    {"data far beyond", T_UP, 7, 3, 0, 4096, 12, 4, UINT32_MAX, 4, 0},
    {"data out of order", T_UP, 7, 0, 0, 512, 12, 4, 512, 2, 0},
    {"LAST missing", T_UP, 7, 0, 0, 4096, 1, 1, 0, 2, 0},
    {"R2T CCCID of none", T_UP, 9, 0, 0, 4096, 8, 2, 0x7777, 1, 8},
    {"R2T CCCID of a read", T_UP, 9, 0, 0, 4096, 8, 2, 0, 1, 8},
    {"R2T of nothing", T_UP, 9, 0, 0, 4096, 16, 4, 0, 1, 16},
    {"R2T beyond", T_UP, 9, 1, 0, 4096, 16, 4, 4097, 4, 0},
    {"R2T far beyond", T_UP, 9, 0, 0, 4096, 12, 4, UINT32_MAX, 4, 0},
    {"R2T PLEN", T_UP, 9, 0, 0, 4096, 4, 4, 28, 1, 4},
};

static void test_nvmetcp_host_every_wrong_field_named(void **state)
{
    static unsigned char b[8192];
    struct lone *l = &lone;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(host_wrongs); i++) {
        const struct wrong *w = &host_wrongs[i];
        lone_open(l, w->state == T_UP, w->digests, w->pda);
        struct snic_nvmetcp_pdu pdu = {.type = w->type, .flags = SNIC_NVMETCP_LAST};
        pdu.limit = 4096;
        pdu.cccid = w->type == 7 ? l->r.cid : l->w.cid;
        pdu.length = w->data;
        pdu.data_size = w->type == 7 ? w->data : 0;
        size_t n = make(b, &pdu, &l->p);
        field_put(b + w->at, w->bytes, w->value);
        if ((w->digests & 1) != 0 && w->at > 7)
            snic_put_le32(b + pdu.hlen, snic_crc32c(0, b, pdu.hlen));
        print_message("%s\n", w->what);
        (void)lone_recv(l, b, n);
        lone_expect_term(l, w->fes, w->fei);
        lone_close(l);
    }
}

/* One R2T more than MAXR2T allows; data after the last. */
static void test_nvmetcp_host_r2t_limit(void **state)
{
    struct lone *l = &lone;
    unsigned char b[64];
    struct snic_nvmetcp_pdu pdu = {.type = 9, .length = 512};
    (void)state;
    lone_open(l, 1, 0, 0);
    pdu.cccid = l->w.cid;
    for (uint32_t i = 0; i < 3; i++) {
        pdu.offset = i * 512;
        size_t n = make(b, &pdu, &l->p);
        assert_int_equal(lone_recv(l, b, n), 0);
    }
    struct snic_nvmetcp_event e;
    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_TERM);
    assert_true(e.fes == SNIC_NVMETCP_FES_LIMIT && e.fei == 0);
    lone_close(l);
}

/* An answer to a command that has not been sent, and ICResp before ICReq. */
static void test_nvmetcp_host_answers_too_early_refused(void **state)
{
    struct lone *l = &lone;
    unsigned char b[256], cqe[16] = {0};
    struct snic_nvmetcp_pdu pdu = {.type = 5, .capsule = cqe};
    struct snic_nvmetcp_command c;
    struct snic_nvmetcp_event e;
    (void)state;
    lone_open(l, 1, 0, 0);
    duo_command(&c, 0, 0, NULL, 0);
    assert_int_equal(snic_nvmetcp_host_submit(l->h, &c, 0), 0);
    snic_put_le16(cqe + 12, c.cid);
    size_t n = make(b, &pdu, &l->p);
    (void)lone_recv(l, b, n);
    assert_int_equal(lone_event(l, &e), SNIC_NVMETCP_TERM);
    assert_true(e.fes == SNIC_NVMETCP_FES_HEADER && e.fei == 20);
    lone_close(l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_codec_round_trips),
        cmocka_unit_test(test_nvmetcp_codec_vectors),
        cmocka_unit_test(test_nvmetcp_encode_wrong_refused),
        cmocka_unit_test(test_nvmetcp_target_every_type_in_every_state),
        cmocka_unit_test(test_nvmetcp_target_every_wrong_field_named),
        cmocka_unit_test(test_nvmetcp_target_header_digest_wrong_terminates),
        cmocka_unit_test(test_nvmetcp_target_data_twice_or_skipping_refused),
        cmocka_unit_test(test_nvmetcp_target_term_requests),
        cmocka_unit_test(test_nvmetcp_host_every_type_in_every_state),
        cmocka_unit_test(test_nvmetcp_host_every_wrong_field_named),
        cmocka_unit_test(test_nvmetcp_host_r2t_limit),
        cmocka_unit_test(test_nvmetcp_host_answers_too_early_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
