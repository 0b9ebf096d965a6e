/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/roles.h
 * The configuration and the roles that a page_server process can play.
 */
#ifndef PS_ROLES_H
#define PS_ROLES_H

#include "../server/config.h"
#include "engine.h"

struct ps_config {
    struct ex_server server;
    uint64_t size; /**< of a new image, 0: as much as is needed                      */
    struct wire_limits limits;
    uint64_t page_bytes;
    uint64_t log_bytes;
    uint64_t buffers;
    int offload;
};

#define PS_CACHE_MAX UINT64_C(8000000000) /* entries that a cache table can have */
#define PS_PENDING_MAX 1024u
#define PS_CONN_BYTES (4u << 20)
#define PS_MESSAGE_MAX (WIRE_REQUEST + WIRE_DATA_MAX)

/** Each returns the exit status. */
int ps_run_dpu(const struct ps_config *c);
int ps_run_host(const struct ps_config *c);
int ps_run_monolith(const struct ps_config *c);

/** The reply to STAT of the role that has the engine. @return bytes */
size_t ps_engine_stat(const struct ps_config *c, const char *role, char *out, size_t max);
/** The engine's figures as metrics. @return how many */
size_t ps_engine_metrics(const struct engine *e, struct ex_metric *out);

#endif
