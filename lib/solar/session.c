/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A connection's keys, and the numbers of its received packets.
 *
 * I1  A key is of one secret, direction, generation, and of the random numbers and ids of one
 *     handshake: no two connections, and no two generations of one, share a key.
 * I2  A packet changes nothing before its tag is verified: a forged packet with a number of another
 *     generation costs the derivation of a key, and changes neither key nor window.
 * I3  Bit pn mod SNIC_SOLAR__WINDOW of a path's window is of pn for the pns above top -
 * SNIC_SOLAR__WINDOW.
 */
#include "solar/wire_priv.h"

#define SNIC_SOLAR__INFO_BYTES 64u
SNIC_STATIC_ASSERT(SNIC_EBS_KEY_PACKETS == UINT64_C(1) << 32, "a generation is pn / 2^32");

/* ---- The replay window ---- */

int solar_window_fresh(const struct solar_window *w, uint64_t pn)
{
    if (pn > w->top)
        return 1;
    if (w->top - pn >= SNIC_SOLAR__WINDOW)
        return 0;
    return (w->bits[pn % SNIC_SOLAR__WINDOW / 64] >> pn % 64 & 1) == 0;
}

void solar_window_mark(struct solar_window *w, uint64_t pn)
{
    if (pn > w->top) {
        uint64_t step = snic_min_u64(pn - w->top, SNIC_SOLAR__WINDOW);
        for (uint64_t at = pn - step + 1; step > 0; step--, at++)
            w->bits[at % SNIC_SOLAR__WINDOW / 64] &= ~(UINT64_C(1) << at % 64);
        w->top = pn;
    }
    if (w->top - pn < SNIC_SOLAR__WINDOW)
        w->bits[pn % SNIC_SOLAR__WINDOW / 64] |= UINT64_C(1) << pn % 64;
}

/* ---- Keys ---- */

/* I1: bytes 0 ... 15 of the MAC are the key, the next four the salt. */
static int solar_session_derive(const struct solar_session *s, unsigned direction,
                                uint32_t generation, struct solar_way *way)
{
    unsigned char info[SNIC_SOLAR__INFO_BYTES];
    unsigned char out[32];

    memcpy(info, "snic ebs keys 2", 16);
    snic_put_be32(info + 16, direction);
    snic_put_be32(info + 20, generation);
    snic_put_be64(info + 24, s->client_id);
    snic_put_be64(info + 32, s->client_nonce);
    snic_put_be64(info + 40, s->server_nonce);
    snic_put_be32(info + 48, s->client_conn);
    snic_put_be32(info + 52, s->server_conn);
    snic_put_be32(info + 56, s->client_epoch);
    snic_put_be32(info + 60, s->server_epoch);
    int r = s->ops->mac(s->secret, info, sizeof(info), out);
    if (r != 0)
        return r;
    snic_ebs_key_init(&way->key, s->ops, NULL, snic_get_be32(out + 16), (uint64_t)generation << 32);
    memcpy(way->bytes, out, sizeof(way->bytes));
    way->generation = generation;
    way->known = 1;
    return 0;
}

static int solar_session_load(struct solar_session *s, struct solar_scratch *scratch,
                              struct solar_way *way)
{
    if (!scratch->loaded || memcmp(scratch->bytes, way->bytes, sizeof(way->bytes)) != 0) {
        scratch->loaded = 0;
        int r = s->ops->gcm_rekey(scratch->key, way->bytes);
        if (r != 0)
            return r;
        memcpy(scratch->bytes, way->bytes, sizeof(way->bytes));
        scratch->loaded = 1;
    }
    way->key.key = scratch->key;
    return 0;
}

int solar_session_seal(struct solar_session *s, struct solar_scratch *scratch, unsigned direction,
                       const void *packet, const struct snic_ebs_place *place, void *out,
                       const void *in, unsigned char tag[16])
{
    uint64_t pn = snic_get_be64((const unsigned char *)packet + SNIC_SOLAR__AT_PN);
    struct solar_way *way = &s->way[direction];
    uint32_t generation = (uint32_t)(pn >> 32);
    int r;

    if (way->known && generation < way->generation)
        return SNIC_ESTALE;
    if (!way->known || way->generation != generation) {
        r = solar_session_derive(s, direction, generation, way);
        if (r != 0)
            return r;
    }
    r = solar_session_load(s, scratch, way);
    return r != 0 ? r : snic_ebs_seal(&way->key, packet, place, out, in, tag);
}

int solar_session_open(struct solar_session *s, struct solar_scratch *scratch, unsigned direction,
                       const void *packet, const struct snic_ebs_place *place, void *out)
{
    uint64_t pn = snic_get_be64((const unsigned char *)packet + SNIC_SOLAR__AT_PN);
    unsigned path = ((const unsigned char *)packet)[SNIC_SOLAR__AT_PATH];
    uint32_t generation = (uint32_t)(pn >> 32);
    struct solar_way *way = &s->way[direction];
    struct solar_way other;
    int r = 0;

    if (path >= SNIC_EBS_PATHS)
        return SNIC_EACCES;
    if (!solar_window_fresh(&s->seen[path], pn))
        return SNIC_EEXIST;
    if (!way->known || way->generation != generation) {
        way = &other;
        r = solar_session_derive(s, direction, generation, way);
    }
    if (r == 0)
        r = solar_session_load(s, scratch, way);
    if (r == 0)
        r = snic_ebs_open(&way->key, packet, place, out);
    if (r != 0)
        return r;
    solar_window_mark(&s->seen[path], pn); /* I2 */
    if (!s->way[direction].known || generation > s->way[direction].generation)
        s->way[direction] = *way;
    return 0;
}

uint64_t solar_session_next(const struct solar_session *s, unsigned direction, uint64_t last)
{
    const struct solar_way *way = &s->way[direction];

    return snic_max_u64(last, way->known ? (uint64_t)way->generation << 32 : 0) + 1;
}

/* ---- The handshake ---- */

int solar_vouch(const struct snic_ebs_sec_ops *ops, void *secret, unsigned direction,
                const void *packet, unsigned char tag[16])
{
    unsigned char text[16 + 4 + SNIC_EBS_HEADER_BYTES];
    unsigned char out[32];

    memcpy(text, "snic ebs hello2", 16);
    snic_put_be32(text + 16, direction);
    memcpy(text + 20, packet, SNIC_EBS_HEADER_BYTES);
    int r = ops->mac(secret, text, sizeof(text), out);
    if (r == 0)
        memcpy(tag, out, SNIC_EBS_TAG_BYTES);
    return r;
}

int solar_vouched(const struct snic_ebs_sec_ops *ops, void *secret, unsigned direction,
                  const void *packet, const struct snic_ebs_place *place)
{
    const unsigned char *received = (const unsigned char *)packet + place->tag_at;
    unsigned char tag[SNIC_EBS_TAG_BYTES];
    unsigned char differ = 0;

    if (place->tag_at == 0 || place->header_size != SNIC_EBS_HEADER_BYTES)
        return SNIC_EACCES;
    int r = solar_vouch(ops, secret, direction, packet, tag);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i < sizeof(tag); i++) /* constant time: no early exit */
        differ |= tag[i] ^ received[i];
    return differ == 0 ? 0 : SNIC_EACCES;
}
