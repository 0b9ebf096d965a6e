/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The first byte chooses: a packet as received, a packet whose hdr_crc is made right first (so that
 * the code behind the checksum is reached), or one of the tables, driven by a string of operations
 * beside a model, with bits of its memory flipped now and then.
 */
#include <stdlib.h>

#include "ebs/ebs_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->left > 0; i++, in->left--)
        v |= (uint64_t)*in->at++ << (8 * i);
    return v;
}

/* What decodes encodes to the same bytes, but for those that mean nothing. */
static void round_trip(const struct snic_ebs_header *h, const struct snic_ebs_place *at,
                       unsigned way, const uint8_t *packet)
{
    unsigned char out[SNIC_EBS_PREFIX_BYTES];
    struct snic_ebs_header back;
    struct snic_ebs_place again;

    int r =
        snic_ebs_encode(out, sizeof(out), &again, way, h,
                        (way & SNIC_EBS_STREAM) != 0 ? NULL : packet + at->body_at, at->body_size);
    REQUIRE(r == (int)at->body_at);
    REQUIRE(memcmp(&again, at, sizeof(again)) == 0);
    REQUIRE(memcmp(out, packet, 52) == 0 && memcmp(out + 56, packet + 56, 8) == 0);
    unsigned char whole[SNIC_EBS_PACKET_BYTES];
    size_t rest = (way & SNIC_EBS_STREAM) != 0 ? 0 : at->size - at->body_at;
    memcpy(whole, out, (size_t)r);
    memcpy(whole + r, packet + at->body_at, rest);
    REQUIRE(snic_ebs_decode(&back, &again, way, whole, (size_t)r + rest) == 0);
    REQUIRE(memcmp(&back, h, sizeof(back)) == 0);
}

static int no_mac(void *secret, const void *in, size_t size, unsigned char out[32])
{
    (void)secret;
    memset(out, 0, 32);
    REQUIRE(size == 64 && memcmp(in, "snic ebs token 1", 16) == 0);
    return 0;
}

/* What is read and signed again is the same bytes. */
static void look_at_token(const unsigned char *token)
{
    static const struct snic_ebs_sec_ops ops = {.ops_size = sizeof(ops), .mac = no_mac};
    unsigned char again[SNIC_EBS_TOKEN_BYTES], zeros[16] = {0};
    struct snic_ebs_token t, v;
    int key = 0, r = snic_ebs_token_read(&t, token);
    REQUIRE(r == 0 || r == SNIC_EVERSION || r == SNIC_EPROTO);
    int verified = snic_ebs_token_verify(&v, token, &ops, &key);
    REQUIRE(verified == (r != 0 ? r : memcmp(token + 48, zeros, 16) == 0 ? 0 : SNIC_EACCES));
    if (r != 0)
        return;
    REQUIRE(snic_ebs_token_sign(again, &t, &ops, &key) == 0);
    REQUIRE(memcmp(again, token, 48) == 0);
}

static void look(const struct snic_ebs_header *h, const struct snic_ebs_place *at,
                 const uint8_t *packet)
{
    struct snic_ebs_ack a;
    struct snic_ebs_int hops;
    uint16_t slot;
    uint16_t gen;

    if (h->type == SNIC_EBS_TOKEN) {
        look_at_token(h->u.token);
    } else if (h->type == SNIC_EBS_ACKV) {
        for (uint32_t i = 0; i < h->pkt_cnt; i++)
            snic_ebs_ack_get(&a, packet + at->body_at, i);
    } else if (h->type == SNIC_EBS_READ_REQ) {
        for (uint32_t i = 0; i < at->body_size / SNIC_EBS_SLOT_BYTES; i++)
            snic_ebs_slot_get(packet + at->body_at, i, &slot, &gen);
    }
    if (at->int_at != 0) {
        snic_ebs_int_get(&hops, packet + at->int_at);
        REQUIRE(hops.count <= SNIC_EBS_INT_HOPS);
    }
}

/* One of the errors that snic_ebs_decode() promises. */
static int decoded_error(int r)
{
    return r == SNIC_EMSGSIZE || r == SNIC_EVERSION || r == SNIC_EPROTO || r == SNIC_ECORRUPT ||
           r == SNIC_EOVERFLOW || r == SNIC_ERANGE;
}

static void drive_packet(struct input *in, int forge)
{
    unsigned way = (unsigned)take(in, 1) & 3;
    unsigned char *p = malloc(in->left + 1);
    struct snic_ebs_header h;
    struct snic_ebs_place at;
    size_t size = in->left;

    REQUIRE(p != NULL);
    memcpy(p, in->at, size);
    int r = SNIC_EMSGSIZE;
    if (forge && size >= 64) {
        unsigned flags = snic_get_be16(p + 2);
        uint32_t head = p[1] == SNIC_EBS_ACKV ? 64 : 128;
        uint32_t body = head + ((flags & (SNIC_EBS_INT_REQ | SNIC_EBS_INT)) != 0 ? 80u : 0u);
        unsigned char scope[8];
        memcpy(scope, p + 4, 4);
        snic_put_be32(scope + 4, way);
        snic_put_be32(p + 52, 0);
        uint32_t crc = snic_crc32c(snic_crc32c(0, scope, 8), p, size < head ? size : head);
        if (size > body && p[1] != SNIC_EBS_WRITE && p[1] != SNIC_EBS_READ_RESP &&
            (flags & SNIC_EBS_AUTH) == 0 && way < 2)
            crc = snic_crc32c(crc, p + body, size - body);
        snic_put_be32(p + 52, crc);
    }
    r = snic_ebs_decode(&h, &at, way, p, size);
    REQUIRE(r == 0 || r == SNIC_ENOTSUP || decoded_error(r));
    if (r == 0) {
        if (way < 2) {
            REQUIRE(at.size == size);
            look(&h, &at, p);
        }
        round_trip(&h, &at, way, p);
    }
    free(p);
}

static void *memory(size_t size)
{
    void *mem = aligned_alloc(SNIC_EBS_ALIGN, (size_t)snic_align_up(size, SNIC_EBS_ALIGN));
    REQUIRE(size > 0 && mem != NULL);
    return mem;
}

/* Admission against the sums: never more than the burst and what the time brought, and a debt. */
static void drive_qos(struct input *in)
{
    struct snic_ebs_qos_opts o = {.opts_size = sizeof(o), .disks = 2};
    struct snic_ebs_qos_limits l = {.bytes_per_second = 1 + take(in, 5) % (UINT64_C(1) << 40),
                                    .burst_bytes = 1 + take(in, 4)};
    struct snic_ebs_qos *q;
    void *mem = memory(snic_ebs_qos_memsize(&o));
    uint64_t now = 0;
    uint64_t spent = 0;
    uint64_t last = 0;

    REQUIRE(snic_ebs_qos_init(&q, mem, snic_ebs_qos_memsize(&o), &o) == 0);
    REQUIRE(snic_ebs_qos_set(q, 0, &l, 0) == 0);
    while (in->left > 0) {
        uint32_t bytes = (uint32_t)take(in, 3);
        uint64_t ready = snic_ebs_qos_ready_ns(q, 0);
        now += take(in, 2) << 6;
        int r = snic_ebs_qos_admit(q, 0, bytes, now);
        REQUIRE((r == 0) == (ready <= now) && (r == 0 || r == SNIC_EAGAIN));
        if (r == 0) {
            spent += bytes;
            last = bytes;
        }
        double brought = (double)now * (double)l.bytes_per_second / 1e9;
        REQUIRE((double)spent <= ((double)l.burst_bytes + brought) * (1 + 1e-9) + 1 + (double)last);
        REQUIRE(snic_ebs_qos_check(q) == 0);
    }
    free(mem);
}

/* Each result must have been set before, whatever bits flip. */
static void drive_map(struct input *in)
{
    enum { SEGMENTS = 1100 };
    static uint64_t model[SEGMENTS];
    struct snic_ebs_map_opts o = {.opts_size = sizeof(o), .chunks = 2, .segments = SEGMENTS};
    struct snic_ebs_map *m;
    size_t size = snic_ebs_map_memsize(&o);
    void *mem = memory(size);
    int flipped = 0;

    memset(model, 0, sizeof(model));
    REQUIRE(snic_ebs_map_init(&m, mem, size, &o) == 0);
    for (uint64_t i = 1; in->left > 0; i++) {
        unsigned op = (unsigned)take(in, 1);
        uint64_t s = take(in, 2) % (SEGMENTS + 2);
        struct snic_ebs_where w = {.seg_id = i, .seg_gen = op >> 4};
        struct snic_ebs_where got;
        if (op % 8 < 3) {
            int r = snic_ebs_map_set(m, s, &w);
            if (r == 0)
                model[s] = i;
        } else if (op % 8 == 3) {
            (void)snic_ebs_map_invalidate(m, s, op >> 4);
        } else if (op % 8 == 4 && op > 200) {
            (void)snic_ebs_map_next(m);
            memset(model, 0, sizeof(model));
        } else if (op % 8 == 5 && m->chunks > 0) { /* a bit of the entries or of the first level */
            uint64_t bit = take(in, 3);
            unsigned char *p = (unsigned char *)m->entry;
            size_t room = m->chunks * 512u * 24u;
            if (op > 128) {
                p = (unsigned char *)m->first;
                room = 12;
            }
            p[bit / 8 % room] ^= (unsigned char)(1u << bit % 8);
            flipped++;
        }
        int r = snic_ebs_map_get(m, s, &got);
        REQUIRE(s < SEGMENTS || r == SNIC_ERANGE);
        if (r == 0 && flipped < 4) /* the check has 16 bits: some four flips pass it */
            REQUIRE(got.seg_id == model[s]);
        if (flipped == 0)
            REQUIRE(snic_ebs_map_check(m) == 0 && r != SNIC_ECORRUPT);
    }
    free(mem);
}

static void drive_addr(struct input *in)
{
    enum { SLOTS = 8 };
    struct snic_ebs_expect model[SLOTS];
    uint16_t gens[SLOTS];
    int taken[SLOTS] = {0};
    struct snic_ebs_addr_opts o = {.opts_size = sizeof(o), .slots = SLOTS};
    struct snic_ebs_addr *a;
    size_t size = snic_ebs_addr_memsize(&o);
    void *mem = memory(size);

    memset(gens, 0, sizeof(gens));
    REQUIRE(snic_ebs_addr_init(&a, mem, size, &o) == 0);
    for (uint64_t i = 1; in->left > 0; i++) {
        unsigned op = (unsigned)take(in, 1);
        uint16_t s = (uint16_t)(take(in, 1) % SLOTS);
        if (op % 4 < 2) {
            struct snic_ebs_expect e = {.rpc_id = i, .lba = i * 2, .seg_id = i * 3, .dest = i * 4};
            uint16_t gen;
            int r = snic_ebs_addr_put(a, &e, &s, &gen);
            if (r == 0) {
                REQUIRE(!taken[s]);
                model[s] = e;
                gens[s] = gen;
                taken[s] = 1;
            }
        } else if (op % 4 == 2) {
            int damage = taken[s] && op > 200;
            if (damage)
                a->entry[s].lba ^= (uint64_t)1 << op % 64;
            int r = snic_ebs_addr_clear(a, s, gens[s]);
            REQUIRE(r == (damage ? SNIC_ECORRUPT : taken[s] ? 0 : SNIC_ENOENT));
            taken[s] = 0;
        } else if (taken[s]) {
            struct snic_ebs_header h;
            struct snic_ebs_expect got;
            memset(&h, 0, sizeof(h));
            h.type = SNIC_EBS_READ_RESP;
            h.rpc_id = model[s].rpc_id;
            h.u.block.lba = model[s].lba;
            h.u.block.seg_id = model[s].seg_id;
            h.u.block.addr_slot = s;
            h.u.block.addr_gen = (uint16_t)(gens[s] + (op >> 7));
            int r = snic_ebs_addr_match(a, &h, &got);
            REQUIRE(r == (op >> 7 ? SNIC_ENOENT : 0));
            REQUIRE(r != 0 || got.dest == model[s].dest);
        }
        REQUIRE(snic_ebs_addr_check(a) == 0);
    }
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    switch (take(&in, 1) % 5) {
    case 0:
        drive_packet(&in, 0);
        break;
    case 1:
        drive_packet(&in, 1);
        break;
    case 2:
        drive_qos(&in);
        break;
    case 3:
        drive_map(&in);
        break;
    default:
        drive_addr(&in);
        break;
    }
    return 0;
}
