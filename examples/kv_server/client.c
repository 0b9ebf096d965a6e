/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Clients, and what the engine holds of each. */
#include "engine_priv.h"

#include <stdlib.h>

static struct kv_client **client_slot(struct kv_engine *e, uint64_t id)
{
    struct kv_client **at = &e->clients[(id * 0x9e3779b97f4a7c15u >> 32) & e->client_mask];

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

struct kv_client *kv_client_find(struct kv_engine *e, uint64_t id)
{
    return *client_slot(e, id);
}

struct kv_client *kv_client_get(struct kv_engine *e, uint64_t id, uint64_t user)
{
    struct kv_client **at = client_slot(e, id);

    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL)
            return NULL;
        (*at)->id = id;
        (*at)->user = user;
        if (e->settings.password[0] == 0)
            (*at)->user |= KV_WORD_AUTH; /* one that comes later is for later connections */
        (*at)->created_ns = snic_loop_now(e->opts.loop);
        snic_link_init(&(*at)->link);
        e->client_count++;
        e->connections++;
    }
    return *at;
}

void kv_client_shift(struct kv_client *c)
{
    struct kv_message *m = c->first;

    c->first = m->next;
    free(m);
}

void kv_client_forget_values(struct kv_engine *e, struct kv_client *c)
{
    e->prefetched -= c->prefetched;
    c->prefetched = 0;
    while (c->fetched != NULL) {
        struct kv_fetched *f = c->fetched;

        c->fetched = f->next;
        free(f);
    }
}

void kv_client_free(struct kv_engine *e, struct kv_client *c)
{
    struct kv_client **at = client_slot(e, c->id);

    *at = c->next;
    snic_link_remove(&c->link);
    while (c->first != NULL)
        kv_client_shift(c);
    kv_client_forget_values(e, c);
    kv_transaction_free(c);
    if (e->exclusive == c)
        e->exclusive = NULL;
    if (e->large == c)
        e->large = NULL;
    free(c);
    e->client_count--;
}

void kv_each_client(struct kv_engine *e, void (*visit)(void *ctx, struct kv_client *c), void *ctx)
{
    for (uint32_t i = 0; i <= e->client_mask; i++)
        for (struct kv_client *c = e->clients[i]; c != NULL; c = c->next)
            visit(ctx, c);
}

uint64_t kv_client_argv_bytes(const struct kv_client *c)
{
    uint64_t n = 0;

    for (const struct kv_message *m = c->first; m != NULL; m = m->next)
        n += sizeof(*m) + m->size;
    return n;
}

uint64_t kv_client_bytes(const struct kv_client *c)
{
    uint64_t n = sizeof(*c) + kv_client_argv_bytes(c);

    for (const struct kv_fetched *f = c->fetched; f != NULL; f = f->next)
        n += sizeof(*f) + f->size;
    if (c->tx != NULL)
        n += sizeof(*c->tx) + c->tx->bytes + c->tx->out_room;
    return n;
}
