/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads of what is at hand here need no request. They wait for the end of the loop's iteration, or
 * for a command that is something else, and are looked up together: what takes time is to fetch
 * records and values from memory, and so those of all are fetched at once.
 *   K1 nothing else of any client runs while reads wait: each sees what was written before it.
 *   K2 one that finds its key held, or being written, or no room in this iteration (N6), becomes a
 *      request as if it had just come; so does any that comes while others are left for later.
 */
#include "node.h"

#include <string.h>

/* Is it a read of a key of this shard, and small? */
static int look_fits(struct ds_call *k)
{
    const struct ds_command *m = k->command;
    size_t bytes = 0;
    uint64_t hash;

    if (m->kind != DS_KEY || (m->rules & DS_WRITES) != 0 || m->parse != NULL ||
        !ds_how_plain(&k->how) || k->argc > DS_LOOK_ARGS)
        return 0;
    for (uint32_t i = 0; i < k->argc; i++)
        bytes += k->argv[i].size;
    return bytes <= DS_LOOK_BYTES &&
           (k->shard->node->count == 1 ||
            ds_key_shard(k->shard->node, &k->argv[m->key], &hash) == k->shard);
}

int ds_look_take(struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    struct ds_look *l;
    unsigned char *at;

    if (s->later != NULL || !look_fits(k))
        return 0;
    l = &s->looks[s->looks_count++];
    l->client = k->client->id;
    l->seq = seq;
    l->command = k->command;
    l->how = k->how;
    l->silent = k->client->silent || k->client->skip;
    l->argc = k->argc;
    at = l->bytes;
    for (uint32_t i = 0; i < k->argc; i++) {
        l->argv[i] = (struct resp_arg){at, k->argv[i].size};
        if (k->argv[i].size > 0)
            memcpy(at, k->argv[i].data, k->argv[i].size);
        at += k->argv[i].size;
    }
    s->looks_bytes += k->client->reply_bytes;
    if (s->looks_count == DS_LOOKS || s->looks_bytes >= DS_LOOKS_BYTES)
        ds_looks_run(s);
    return 1;
}

/* Of what was found; it may have to wait (K2). */
static void look_answer(struct ds_shard *s, struct ds_look *l, const struct snic_store_lookup *v)
{
    struct ds_call k = {.shard = s,
                        .client = ds_client_find(s, l->client),
                        .command = l->command,
                        .argv = l->argv,
                        .argc = l->argc,
                        .how = l->how,
                        .flags = l->silent ? DS_CALL_SILENT : 0,
                        .reply = &s->shown.reply};
    int found = v->result == 0 && v->entry.data != NULL;

    if (k.client == NULL)
        return;
    ds_reply_begin(k.reply, k.client);
    if ((found || v->result == SNIC_ENOENT) && !ds_request_held(s, &l->argv[l->command->key]) &&
        ds_turn_room(s)) {
        k.reply->borrows = 1; /* it is sent before anything else is done */
        ds_request_show(&k, found ? &v->entry : NULL);
        ds_client_reply(&k, l->seq);
    } else {
        ds_client_begin(&k, l->seq);
    }
}

void ds_looks_run(struct ds_shard *s)
{
    struct snic_store_lookup v[DS_LOOKS];
    uint32_t n = s->looks_count;

    if (n == 0)
        return;
    s->looks_count = 0;
    s->looks_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct resp_arg *key = &s->looks[i].argv[s->looks[i].command->key];

        v[i].key = key->data;
        v[i].key_size = key->size;
    }
    snic_store_look_many(s->store, v, n);
    for (uint32_t i = 0; i < n; i++)
        look_answer(s, &s->looks[i], &v[i]);
}
