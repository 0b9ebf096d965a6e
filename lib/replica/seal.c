/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Keys, sealed bytes, and random numbers.
 *
 * S1  A key seals each count once. Keys of a connection are made of both sides' random numbers, so
 *     neither side has used them before, and bytes of another connection do not open under them.
 * S2  Each direction has a key of its own, so what a node sent does not open at that node.
 * S3  A sealed datagram is taken once: its counter is above all before, or in the window and new.
 */
#include "replica_priv.h"

#define REPLICA_REKEY (UINT64_C(1) << 24) /* blocks of 8 KiB: below the limits of RFC 8446, 5.5 */

static int replica_mac(struct snic_replica *r, const void *in, size_t size, unsigned char out[32])
{
    return r->o.sec->mac(r->o.secret, in, size, out);
}

static void replica_draw_plain(struct snic_replica *r, unsigned char out[32])
{
    uint64_t x = snic_get_le64(r->o.random) ^ (uint64_t)r->o.node << 56 ^ r->boot ^ r->drawn;
    for (uint32_t i = 0; i < 4; i++) { /* splitmix64 */
        x += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        snic_put_le64(out + 8 * i, z ^ z >> 31);
    }
}

/* Random bytes, at most 32: unpredictable with ciphers, otherwise only different ones. */
void replica_draw(struct snic_replica *r, void *out, size_t size)
{
    unsigned char in[64], bytes[32];
    SNIC_ASSERT(size <= sizeof(bytes));
    r->drawn++;
    memset(in, 0, sizeof(in));
    memcpy(in, "replica random", 14);
    snic_put_le64(in + 16, r->drawn);
    snic_put_le64(in + 24, r->boot);
    memcpy(in + 32, r->o.random, 32);
    if (r->o.sec == NULL || replica_mac(r, in, sizeof(in), bytes) != 0)
        replica_draw_plain(r, bytes);
    memcpy(out, bytes, size);
}

/* ---- Hellos ---- */

static int replica_hello_mac(struct snic_replica *r, const unsigned char *p, unsigned char out[32])
{
    unsigned char in[16 + 64];
    memset(in, 0, sizeof(in));
    memcpy(in, "replica hello", 13);
    memcpy(in + 16, p, 64);
    return replica_mac(r, in, sizeof(in), out);
}

/* The last 16 bytes of an encoded hello. */
void replica_hello_seal(struct snic_replica *r, unsigned char *p)
{
    unsigned char mac[32];
    memset(p + 64, 0, 16);
    if (r->o.sec != NULL && replica_hello_mac(r, p, mac) == 0)
        memcpy(p + 64, mac, 16);
}

int replica_hello_right(struct snic_replica *r, const unsigned char *p)
{
    unsigned char mac[32];
    unsigned differ = 0;
    if (r->o.sec == NULL)
        return 1;
    if (replica_hello_mac(r, p, mac) != 0)
        return 0;
    for (uint32_t i = 0; i < 16; i++)
        differ |= (unsigned)(mac[i] ^ p[64 + i]);
    return differ == 0;
}

/* ---- Keys ---- */

static int replica_derive(struct snic_replica *r, const struct replica_conn *k, const char *label,
                          unsigned char out[32])
{
    unsigned char in[16 + 16 + 32];
    uint32_t from = k->initiator ? r->o.node : k->peer;
    uint32_t to = k->initiator ? k->peer : r->o.node;
    memset(in, 0, sizeof(in));
    memcpy(in, label, strlen(label));
    in[16] = (unsigned char)from;
    in[17] = (unsigned char)to;
    in[18] = (unsigned char)k->version;
    snic_put_le64(in + 24, r->o.cluster);
    memcpy(in + 32, k->initiator ? k->nonce : k->other, 16);
    memcpy(in + 48, k->initiator ? k->other : k->nonce, 16);
    return replica_mac(r, in, sizeof(in), out);
}

static void replica_pair(const struct replica_conn *k, const unsigned char bytes[32],
                         struct replica_key *out, struct replica_key *in)
{
    memset(out, 0, sizeof(*out));
    memset(in, 0, sizeof(*in));
    memcpy(out->bytes, bytes + (k->initiator ? 0 : 16), 16);
    memcpy(in->bytes, bytes + (k->initiator ? 16 : 0), 16);
}

/* S1, S2: the connection's keys, and those of datagrams from now on. 0, or the cipher's error. */
int replica_conn_keys(struct snic_replica *r, struct replica_conn *k, struct replica_session *s)
{
    unsigned char bytes[32];
    int result = replica_derive(r, k, "replica stream", bytes);
    if (result != 0)
        return result;
    replica_pair(k, bytes, &k->out, &k->in);
    result = replica_derive(r, k, "replica dgram", bytes);
    if (result != 0)
        return result;
    memset(s, 0, sizeof(*s));
    replica_pair(k, bytes, &s->out, &s->in);
    result = replica_derive(r, k, "replica number", bytes);
    s->number = snic_get_le32(bytes) | 1;
    s->used = 1;
    return result;
}

static int replica_load(struct snic_replica *r, const unsigned char bytes[16])
{
    if (r->gcm_any && memcmp(r->gcm_has, bytes, 16) == 0)
        return 0;
    r->gcm_any = 0;
    int result = r->o.sec->gcm_rekey(r->o.gcm, bytes);
    if (result != 0)
        return result;
    memcpy(r->gcm_has, bytes, 16);
    r->gcm_any = 1;
    return 0;
}

/* A block of a stream was sealed or opened: the next count, and every 2^24th another key. */
int replica_key_next(struct snic_replica *r, struct replica_key *k)
{
    unsigned char in[32], bytes[32];
    if (++k->count % REPLICA_REKEY != 0)
        return 0;
    memset(in, 0, sizeof(in));
    memcpy(in, "replica next", 12);
    memcpy(in + 16, k->bytes, 16);
    int result = replica_mac(r, in, sizeof(in), bytes);
    if (result == 0)
        memcpy(k->bytes, bytes, 16);
    return result;
}

static void replica_nonce(unsigned char nonce[12], uint64_t count)
{
    memset(nonce, 0, 12);
    snic_put_le64(nonce + 4, count);
}

/* Under the key and its count: in place, the tag behind it. */
int replica_seal(struct snic_replica *r, const struct replica_key *k, const void *aad,
                 size_t aad_size, unsigned char *body, uint32_t size)
{
    unsigned char nonce[12];
    int result = replica_load(r, k->bytes);
    if (result != 0)
        return result;
    replica_nonce(nonce, k->count);
    return r->o.sec->gcm_seal(r->o.gcm, nonce, aad, aad_size, body, body, size, body + size);
}

/* The tag is behind the @p size bytes. 0; SNIC_EACCES not sealed under the key with this count. */
int replica_open(struct snic_replica *r, const struct replica_key *k, const void *aad,
                 size_t aad_size, unsigned char *out, const unsigned char *body, uint32_t size)
{
    unsigned char nonce[12];
    int result = replica_load(r, k->bytes);
    if (result != 0)
        return result;
    replica_nonce(nonce, k->count);
    return r->o.sec->gcm_open(r->o.gcm, nonce, aad, aad_size, out, body, size, body + size);
}

/* ---- Datagrams (S3) ---- */

int replica_replay_fresh(const struct replica_session *s, uint64_t counter)
{
    if (counter == 0)
        return 0;
    if (counter > s->top)
        return 1;
    uint64_t behind = s->top - counter;
    return behind < SNIC_REPLICA__REPLAY && (s->window >> behind & 1) == 0;
}

void replica_replay_note(struct replica_session *s, uint64_t counter)
{
    if (counter > s->top) {
        uint64_t ahead = counter - s->top;
        s->window = ahead < SNIC_REPLICA__REPLAY ? s->window << ahead : 0;
        s->top = counter;
    }
    s->window |= UINT64_C(1) << (s->top - counter);
}

#undef REPLICA_REKEY
