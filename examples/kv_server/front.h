/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/front.h
 * The monolith's own network front: what the director does on the DPU, for an
 * engine that owns its sockets. Frames messages, keeps replies in the order of the
 * requests, bounds memory per connection.
 *
 * Threads     The loop's.
 */
#ifndef KV_FRONT_H
#define KV_FRONT_H

#include "engine.h"
#include "resp.h"

struct kv_front;

struct kv_front_opts {
    struct snic_net *net;
    struct snic_net_addr address;
    uint32_t conns_max;
    uint32_t conn_bytes;  /**< a connection that holds more unsent bytes is not read from */
    uint32_t pending_max; /**< power of two: messages of a connection under way            */
    struct resp_limits limits;
};

struct kv_front_stats {
    uint64_t accepted, refused, closed, conns, messages, protocol_errors, oversized, pauses;
};

/** @return 0, SNIC_E* of snic_net_listen(), SNIC_ENOMEM */
int kv_front_open(struct kv_front **out, const struct kv_front_opts *o,
                  struct snic_net_addr *bound);
/** The engine that gets the messages; before the loop runs. */
void kv_front_engine(struct kv_front *f, struct kv_engine *e);
/** As kv_engine_events.reply; ctx is the front. */
int kv_front_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                   uint32_t count, uint32_t flags, uint64_t user);
/** Stop accepting and reading, send what is answered, close; then done(ctx). */
void kv_front_drain(struct kv_front *f, void (*done)(void *ctx), void *ctx);
/** After the drain. */
void kv_front_close(struct kv_front *f);
void kv_front_get_stats(const struct kv_front *f, struct kv_front_stats *out);

#endif
