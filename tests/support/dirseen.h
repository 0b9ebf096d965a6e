/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the director's tests that count answers share; each program has its own copy.
 */
#ifndef SNIC_TESTS_DIRSEEN_H
#define SNIC_TESTS_DIRSEEN_H

#include "dirfix.h"

static struct dirfix fix;

/* What a client got. */
struct seen {
    uint32_t ok, none, error, paths[256];
    uint32_t last_value;
    uint64_t bytes;
};

static struct seen seen[DIRFIX_CLIENTS];

static void on_reply(struct dirfix_client *c, const struct dirfix_msg *m, const unsigned char *body)
{
    struct seen *s = c->user;
    (void)body;
    s->ok += m->op == DIRFIX_OK;
    s->none += m->op == DIRFIX_NONE;
    s->error += m->op == DIRFIX_ERROR;
    s->paths[m->arg]++;
    s->last_value = m->value;
    s->bytes += m->size;
}

static struct dirfix_client *join(struct dirfix *f, uint32_t i)
{
    struct dirfix_client *c = dirfix_connect(f, i, on_reply);
    memset(&seen[i], 0, sizeof(seen[i]));
    c->user = &seen[i];
    return c;
}

static struct dirfix_opts options(uint64_t seed, uint32_t clients)
{
    struct dirfix_opts o = {.seed = seed, .clients = clients};
    o.director.flags = SNIC_DIRECTOR_IN_ORDER;
    return o;
}

__attribute__((unused)) static void until_closed(struct dirfix *f, struct dirfix_client *c)
{
    while (!c->closed)
        if (dirfix_step(f) == 0)
            fail_msg("the client is not closed");
}

__attribute__((unused)) static void put_keys(struct dirfix *f, struct dirfix_client *c,
                                             uint16_t keys)
{
    for (uint16_t k = 0; k < keys; k++)
        dirfix_send(c, DIRFIX_SET, 0, k, 1000u + k, 0);
    dirfix_pump(c);
    dirfix_finish(f);
    dirfix_flush_all(f);
}

#endif
