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

/** Connections beyond conns_max that get an error reply at a time; more are reset. */
#define KV_FRONT_REFUSALS 16u

struct kv_front_opts {
    struct snic_net *net;
    struct snic_net_addr address;
    uint32_t conns_max;
    struct kv_settings settings; /**< at the start                                         */
    uint32_t pending_max;        /**< power of two: messages of a connection under way            */
    struct resp_limits limits;
};

struct kv_front_stats {
    uint64_t accepted, refused, closed, conns, messages, protocol_errors, oversized, pauses,
        output_limit,   /**< closed for client-output-buffer-limit                               */
        clients_memory, /**< and for maxmemory-clients                                         */
        query_limit;    /**< and for a command longer than client-query-buffer-limit             */
};

/** @return 0, SNIC_E* of snic_net_listen(), SNIC_ENOMEM */
int kv_front_open(struct kv_front **out, const struct kv_front_opts *o,
                  struct snic_net_addr *bound);
/** The engine that gets the messages; before the loop runs. */
void kv_front_engine(struct kv_front *f, struct kv_engine *e);
/** CONFIG SET. */
void kv_front_settings(struct kv_front *f, const struct kv_settings *s);
/** CLIENT NO-EVICT: maxmemory-clients does not end this one. */
void kv_front_no_evict(struct kv_front *f, uint64_t client, int on);
/** As kv_engine_opts.facts. */
int kv_front_facts(struct kv_front *f, uint64_t client, struct kv_client_facts *out);
/** End a connection. @return 1; 0 there is none */
int kv_front_kill(struct kv_front *f, uint64_t client);
/** As kv_engine_events.reply; ctx is the front. */
int kv_front_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                   uint32_t count, uint32_t flags, uint64_t user);
/** Stop accepting and reading, send what is answered, close; then done(ctx). */
void kv_front_drain(struct kv_front *f, void (*done)(void *ctx), void *ctx);
/** After the drain. */
void kv_front_close(struct kv_front *f);
void kv_front_get_stats(const struct kv_front *f, struct kv_front_stats *out);

#endif
