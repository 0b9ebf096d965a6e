/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/monolith.h
 * The baseline of a server: one role with its own sockets and plain files, no DPU. A program embeds
 * struct ex_monolith and calls ex_monolith_open(), opens its files and its engine on the loop, then
 * calls ex_monolith_listen() and ex_monolith_run().
 */
#ifndef EX_SERVER_MONOLITH_H
#define EX_SERVER_MONOLITH_H

#include "front.h"

#define EX_MONOLITH_METRICS 7

struct ex_monolith {
    const struct ex_server *server;
    struct snic_loop *loop;
    struct snic_net *net;
    struct ex_front *front;
    /** Writes the program's metrics behind the EX_MONOLITH_METRICS common ones; may be NULL. */
    size_t (*metrics)(struct ex_monolith *m, struct ex_metric *out);
    int draining;
};

/* Functions that return nothing print the error and exit on failure. */

/** Open the loop; @p m is all zero but for metrics. */
void ex_monolith_open(struct ex_monolith *m, const struct ex_server *s);
/** Listen for clients; server and net of @p o are set here. */
void ex_monolith_listen(struct ex_monolith *m, struct ex_front_opts *o);
/** Start to drain; ctx is a struct ex_monolith. */
void ex_monolith_drain(void *ctx);
/** Serve until drained. @return 0, or SNIC_E* with the error logged */
int ex_monolith_run(struct ex_monolith *m);
/** Close the rest; the engine and its files are closed already. */
void ex_monolith_close(struct ex_monolith *m);

#endif
