/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scopes of clients at a shard. A client's writes with durability `scope` belong to its current
 * scope, which at each shard is a scope of the store, made with the first such write there.
 * When the table is full the scope that was not used for the longest time is forgotten, mostly of a
 * client that went away: what it wrote stays as it is, and SCOPE SYNC of it is refused.
 */
#include "node.h"

#include <stdlib.h>

#define SCOPES_MAX 1024u

struct scope_row {
    uint64_t home;
    uint64_t client; /* 0: free */
    uint64_t scope;
    uint64_t number;
    uint64_t used;
};

struct ds_scopes {
    uint64_t uses;
    struct scope_row rows[SCOPES_MAX];
};

/* The row of a client's scope, or else a free or the oldest one. */
static struct scope_row *scope_find(struct ds_scopes *t, uint64_t home, uint64_t client,
                                    uint64_t scope, int *found)
{
    struct scope_row *best = &t->rows[0];

    for (uint32_t i = 0; i < SCOPES_MAX; i++) {
        struct scope_row *w = &t->rows[i];

        *found = w->client == client && w->home == home && w->scope == scope;
        if (*found)
            return w;
        if (w->used < best->used)
            best = w;
    }
    return best;
}

uint64_t ds_scope_get(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope)
{
    struct scope_row *w;
    int found;

    if (s->scopes == NULL && (s->scopes = calloc(1, sizeof(*s->scopes))) == NULL)
        return 0;
    w = scope_find(s->scopes, home, client, scope, &found);
    w->used = ++s->scopes->uses;
    if (!found) {
        w->home = home;
        w->client = client;
        w->scope = scope;
        w->number = snic_store_scope(s->store);
    }
    return w->number;
}

uint64_t ds_scope_take(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope)
{
    struct scope_row *w;
    uint64_t number;
    int found;

    if (s->scopes == NULL)
        return 0;
    w = scope_find(s->scopes, home, client, scope, &found);
    if (!found)
        return 0;
    number = w->number;
    w->client = 0;
    w->used = 0;
    return number;
}
