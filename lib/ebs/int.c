/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The parts behind the headers: entries of an ACKV, and the INT block that switches write, in the
 * layout of HPCC (Li et al., SIGCOMM 2019, figure 7): a hop is 64 bits, speed 4, time 24, bytes
 * sent 20, queue 16. An INT block has no checksum, so any bytes are valid.
 */
#include "ebs/ebs_priv.h"

#define SNIC_EBS__HOP_BYTES 8
SNIC_STATIC_ASSERT(SNIC_EBS_INT_BYTES == 8 + SNIC_EBS_INT_HOPS * SNIC_EBS__HOP_BYTES, "the wire");

static const uint16_t int_gigabits[16] = {0, 1, 10, 25, 40, 50, 100, 200, 400, 800, 1600};

void snic_ebs_ack_get(struct snic_ebs_ack *a, const void *body, uint32_t i)
{
    const unsigned char *p = (const unsigned char *)body + (size_t)i * SNIC_EBS_ACK_BYTES;

    a->rpc_id = snic_get_be64(p);
    a->pkt_id = snic_get_be16(p + 8);
    a->status = snic_get_be16(p + 10);
    a->path_seq = snic_get_be32(p + 12);
    a->echo_ts = snic_get_be32(p + 16);
    a->hold_ns = snic_get_be32(p + 20);
    a->srv_crc = snic_get_be32(p + 24);
    a->path_id = p[28];
    a->path_gen = p[29];
    a->flags = snic_get_be16(p + 30);
}

void snic_ebs_ack_put(void *body, uint32_t i, const struct snic_ebs_ack *a)
{
    unsigned char *p = (unsigned char *)body + (size_t)i * SNIC_EBS_ACK_BYTES;

    snic_put_be64(p, a->rpc_id);
    snic_put_be16(p + 8, a->pkt_id);
    snic_put_be16(p + 10, a->status);
    snic_put_be32(p + 12, a->path_seq);
    snic_put_be32(p + 16, a->echo_ts);
    snic_put_be32(p + 20, a->hold_ns);
    snic_put_be32(p + 24, a->srv_crc);
    p[28] = a->path_id;
    p[29] = a->path_gen;
    snic_put_be16(p + 30, a->flags);
}

static uint64_t int_pack(const struct snic_ebs_hop *h)
{
    return (uint64_t)(h->speed & 15u) << 60 | (uint64_t)(h->ts_ns & 0xffffffu) << 36 |
           (uint64_t)(h->tx_units & 0xfffffu) << 16 |
           (h->q_units > UINT16_MAX ? UINT16_MAX : h->q_units);
}

void snic_ebs_int_get(struct snic_ebs_int *out, const void *bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;

    memset(out, 0, sizeof(*out));
    out->count = p[0] > SNIC_EBS_INT_HOPS ? SNIC_EBS_INT_HOPS : p[0];
    for (uint32_t i = 0; i < out->count; i++) {
        uint64_t v = snic_get_be64(p + 8 + (size_t)i * SNIC_EBS__HOP_BYTES);
        out->hop[i].speed = (uint8_t)(v >> 60);
        out->hop[i].ts_ns = (uint32_t)(v >> 36) & 0xffffffu;
        out->hop[i].tx_units = (uint32_t)(v >> 16) & 0xfffffu;
        out->hop[i].q_units = (uint32_t)v & 0xffffu;
    }
}

void snic_ebs_int_put(void *bytes, const struct snic_ebs_int *in)
{
    unsigned char *p = (unsigned char *)bytes;
    uint32_t n = in->count > SNIC_EBS_INT_HOPS ? SNIC_EBS_INT_HOPS : in->count;

    memset(p, 0, SNIC_EBS_INT_BYTES);
    p[0] = (unsigned char)n;
    for (uint32_t i = 0; i < n; i++)
        snic_put_be64(p + 8 + (size_t)i * SNIC_EBS__HOP_BYTES, int_pack(&in->hop[i]));
}

int snic_ebs_int_push(void *bytes, const struct snic_ebs_hop *hop)
{
    unsigned char *p = (unsigned char *)bytes;

    if (p[0] >= SNIC_EBS_INT_HOPS)
        return SNIC_ENOSPC;
    snic_put_be64(p + 8 + (size_t)p[0] * SNIC_EBS__HOP_BYTES, int_pack(hop));
    p[0]++;
    return 0;
}

uint64_t snic_ebs_hop_bps(unsigned speed)
{
    return speed < 16 ? int_gigabits[speed] * UINT64_C(1000000000) : 0;
}

unsigned snic_ebs_hop_speed(uint64_t bps)
{
    unsigned best = 0;

    for (unsigned i = 1; i < 16 && int_gigabits[i] != 0; i++) {
        if (snic_ebs_hop_bps(i) <= bps)
            best = i;
    }
    return best;
}
