/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the backends of net share: options with their defaults, checks of what callers pass,
 * and a cursor over a gather list. All of it inline: the backends live in two libraries.
 */
#ifndef SNIC_NET_PRIV_H
#define SNIC_NET_PRIV_H

#include "snicstore/net.h"

/* Most bytes of one send request. */
#define SNIC_NET__SEND_MAX ((uint64_t)INT32_MAX)
/* Longest time-out, ms. */
#define SNIC_NET__PATIENCE_MAX (1u << 30)

/* Options with the defaults filled in, in range; SNIC_EINVAL otherwise. */
static inline int net_opts_read(struct snic_net_uring_opts *out,
                                const struct snic_net_uring_opts *in)
{
    struct snic_net_uring_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    if (in != NULL && snic_opts_copy(&o, sizeof(o), in) < 0)
        return SNIC_EINVAL;
    o.conns_max = o.conns_max != 0 ? o.conns_max : 1024;
    o.recv_buffers = o.recv_buffers != 0 ? o.recv_buffers : 8;
    o.recv_size = o.recv_size != 0 ? o.recv_size : 16384;
    o.pool_buffers = o.pool_buffers != 0 ? o.pool_buffers : 1024;
    o.send_queue = o.send_queue != 0 ? o.send_queue : 64;
    o.idle_ms = o.idle_ms != 0 ? o.idle_ms : 60000;
    o.dgrams_max = o.dgrams_max != 0 ? o.dgrams_max : 64;
    if (o.conns_max > 65535 || o.recv_size < 512 || o.recv_size > 1u << 20 ||
        o.pool_buffers > 32768 || !snic_is_pow2(o.pool_buffers) ||
        o.idle_ms > SNIC_NET__PATIENCE_MAX ||
        (o.sent_ms > SNIC_NET__PATIENCE_MAX && o.sent_ms != UINT32_MAX) || o.dgrams_max > 16384 ||
        (o.dgram_flags & ~(SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_WAIT | SNIC_NET_DGRAM_TIME)) != 0 ||
        o.taken_wait_ms > 60000 || o.dgram_recv_bytes > INT32_MAX / 2 ||
        o.dgram_send_bytes > INT32_MAX / 2)
        return SNIC_EINVAL;
    *out = o;
    return 0;
}

/* The group's size of SNIC_NET_STEER_CPU(), 0 without. */
static inline uint32_t net_steer_of(uint32_t flags)
{
    return flags >> 16;
}

static inline int net_listen_flags_valid(uint32_t flags)
{
    return (flags & ~(SNIC_NET_REUSEPORT | SNIC_NET_STEER_CPU(255))) == 0 &&
           (net_steer_of(flags) == 0 || (flags & SNIC_NET_REUSEPORT) != 0);
}

/* Bytes of a gather list, or 0 when it is not one: too many pieces, no bytes, too many bytes. */
static inline uint64_t net_iov_bytes(const struct snic_iov *iov, uint32_t count)
{
    uint64_t sum = 0;
    if (iov == NULL || count == 0 || count > SNIC_NET_IOV_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (iov[i].size > SNIC_NET__SEND_MAX || (iov[i].base == NULL && iov[i].size > 0))
            return 0;
        sum += iov[i].size;
    }
    return sum <= SNIC_NET__SEND_MAX ? sum : 0;
}

/* 1 if @s may be queued. */
static inline int net_send_valid(const struct snic_net_send_req *s)
{
    return s->done != NULL && net_iov_bytes(s->iov, s->iov_count) > 0 &&
           (s->flags & ~(SNIC_NET_SEND_ZC | SNIC_NET_SEND_MORE | SNIC_NET_SEND_LAZY)) == 0;
}

/* Datagrams that a train is, or 0 when it is none. */
static inline uint64_t net_train_count(const struct snic_net_train *t)
{
    uint64_t bytes = net_iov_bytes(t->iov, t->iov_count);
    if (t->done == NULL || t->segment == 0 || t->ecn > 3)
        return 0;
    return (bytes + t->segment - 1) / t->segment;
}

#endif /* SNIC_NET_PRIV_H */
