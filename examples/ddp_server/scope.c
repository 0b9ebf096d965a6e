/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Scopes of clients at a shard. A client's writes with durability `scope` belong to its current
 * scope, which at each shard is a scope of the store, made with the first such write there.
 *
 * The store has few scopes, and one is open until its SYNC. So the node synchronizes those that no
 * client can any more: when the client has closed its connection or sent RESET, and when the table
 * is full, that which was not used for the longest time (SCOPE SYNC of it is refused then).
 *   C1 commands of a client that has left a scope may still wait for their keys, and write in it
 *      later. They end by --request-timeout (N5); its SYNC is not earlier, unless there are none.
 */
#include "node.h"

#include <stdlib.h>

#define SCOPES_MAX 1024u
#define SCOPES_LEFT_NS 1000000000u /* beyond --request-timeout: C1 */

struct scope_row {
    uint64_t home;
    uint64_t client; /* 0: free */
    uint64_t scope;
    uint64_t number;
    uint64_t used;
    uint64_t due_ns; /* its client has left it: synchronize it then; 0: it has not */
};

struct ds_scopes {
    uint64_t uses;
    uint32_t left; /* rows with due_ns */
    struct scope_row rows[SCOPES_MAX];
};

static void scope_free(struct ds_scopes *t, struct scope_row *w)
{
    t->left -= w->due_ns != 0;
    w->client = 0;
    w->used = 0;
    w->due_ns = 0;
}

/* ---- Those that no client synchronizes ---- */

static void scope_synced(struct snic_store_op *op)
{
    free(op);
}

/* Let the store end the scope: no one waits for it. @return 0: it cannot now, and has it still */
static int scope_sync(struct ds_shard *s, struct scope_row *w)
{
    struct snic_store_op *op = calloc(1, sizeof(*op));
    int rc = SNIC_EAGAIN;

    if (op != NULL) {
        op->done = scope_synced;
        op->kind = SNIC_STORE_SYNC;
        op->scope = w->number;
        op->copies_min = 1;
        rc = snic_store_submit(s->store, op);
    }
    if (rc != 0)
        free(op);
    if (rc == SNIC_EAGAIN || (rc != 0 && !snic_replica_serves(snic_store_replica(s->store))))
        return 0;
    scope_free(s->scopes, w); /* after another error the store does not have it any more */
    return 1;
}

void ds_scope_expire(struct ds_shard *s, uint64_t now_ns)
{
    for (uint32_t i = 0; s->scopes != NULL && s->scopes->left > 0 && i < SCOPES_MAX; i++) {
        struct scope_row *w = &s->scopes->rows[i];

        if (w->due_ns != 0 && now_ns >= w->due_ns && !scope_sync(s, w))
            return; /* again with the next publication */
    }
}

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

void ds_scope_left(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope, int later)
{
    uint64_t now = snic_loop_now(s->loop);
    struct scope_row *w = NULL;
    int found = 0;

    if (s->scopes != NULL)
        w = scope_find(s->scopes, home, client, scope, &found);
    if (!found)
        return;
    s->scopes->left += w->due_ns == 0;
    w->due_ns = now;
    if (later) /* C1 */
        w->due_ns += s->node->config->timeout_s * 1000000000u + SCOPES_LEFT_NS;
    else
        (void)scope_sync(s, w);
}

/* ---- Those of commands ---- */

uint64_t ds_scope_get(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope)
{
    struct scope_row *w;
    int found;

    if (s->scopes == NULL && (s->scopes = calloc(1, sizeof(*s->scopes))) == NULL)
        return 0;
    w = scope_find(s->scopes, home, client, scope, &found);
    if (!found && w->client != 0 && !scope_sync(s, w))
        return 0;
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
    if (snic_replica_serves(snic_store_replica(s->store))) {
        scope_free(s->scopes, w);
    } else { /* its SYNC is refused, and ends nothing */
        s->scopes->left += w->due_ns == 0;
        w->due_ns = snic_loop_now(s->loop);
    }
    return number;
}
