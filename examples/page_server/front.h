/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/front.h
 * The baseline's own sockets: what the director does on the DPU, for an engine in one process.
 * Memory per connection is bounded: one that has too much under way or unsent is not read from.
 */
#ifndef PS_FRONT_H
#define PS_FRONT_H

#include "engine.h"

struct front;

struct front_opts {
    struct snic_net *net;
    struct snic_net_addr address;
    uint32_t conns_max; /**< up to 65535                                                       */
    uint32_t conn_bytes;
    uint32_t pending_max;
    uint64_t idle_ns; /**< connections without traffic for so long are closed; 0: never       */
};

/** @return 0, or SNIC_E* of snic_net_listen() */
int front_open(struct front **out, const struct front_opts *o, struct snic_net_addr *bound);
/** The engine that gets the messages; before the loop runs. */
void front_engine(struct front *f, struct engine *e);
/** Connections refused because conns_max were open. */
uint64_t front_refused(const struct front *f);
/** Connections closed after idle_ns. */
uint64_t front_idle_closed(const struct front *f);
/** As engine_events.reply. @return 0 */
int front_reply(struct front *f, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                uint32_t count);
/** Stop accepting and reading, answer what was taken, close; then done(ctx). */
void front_drain(struct front *f, void (*done)(void *ctx), void *ctx);
/** After the drain. */
void front_close(struct front *f);

#endif
