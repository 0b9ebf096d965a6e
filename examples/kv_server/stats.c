/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The figures of the engine and its store. */
#include "engine_priv.h"

#include <string.h>

void kv_engine_reset_stats(struct kv_engine *e)
{
    memset(&e->stats, 0, sizeof(e->stats));
    e->reply.errors = 0;
    e->connections = 0;
}

void kv_engine_get_stats(const struct kv_engine *e, struct kv_engine_stats *out)
{
    struct kv_engine_stats s;

    kv_store_get_stats(e->store, &s);
    s.commands = e->stats.commands;
    s.gets = e->stats.gets;
    s.hits = e->stats.hits;
    s.misses = e->stats.misses;
    s.sets = e->stats.sets;
    s.errors += e->stats.errors + e->reply.errors;
    s.query_limit = e->stats.query_limit;
    s.auth_failures = e->stats.auth_failures;
    s.clients = e->client_count;
    *out = s;
}
