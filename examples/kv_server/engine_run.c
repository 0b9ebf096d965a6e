/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs the messages of clients, each as a command. */
#include "engine_priv.h"

#include <stdlib.h>

void kv_engine_no_memory(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user)
{
    static const char text[] = "-OOM out of memory\r\n";
    struct snic_iov iov = {(void *)(uintptr_t)text, sizeof(text) - 1};

    kv_answer(e, client, seq, user, 0, 0, &iov, 1);
}

/* Run the message's command; @p n arguments are in e->args. */
static enum kv_outcome engine_command(struct kv_command *c, int64_t n)
{
    struct kv_engine *e = c->engine;
    enum kv_outcome outcome;

    if (n < 0) {
        char text[RESP_ERROR_MAX];
        struct resp_limits limits = {UINT32_MAX, UINT32_MAX, 0};

        kv_put(e, text, resp_error(c->message, c->message_size, &limits, text));
        c->flags |= KV_REPLY_CLOSE;
        return KV_DONE;
    }
    if (n == 0)
        return KV_DONE; /* an empty message: an empty reply */
    if (c->client->last_command == NULL && kv_transaction_inherit(c) != 0) {
        c->flags |= KV_REPLY_CLOSE;
        return KV_DONE;
    }
    kv_store_act_for(e->store, kv_tenant_of(e->opts.tenants, c->client->user));
    outcome = kv_command_run(c);
    kv_store_act_for(e->store, KV_TENANT_SERVER);
    return outcome;
}

/* What a large command needed is not kept for ever. */
static void engine_trim(struct kv_engine *e)
{
    struct resp_arg *args;

    if (e->reply.room > KV_BUFFER_KEEP) {
        free(e->reply.data);
        e->reply.data = NULL;
        e->reply.room = 0;
    }
    if (e->args_room > KV_ARGS_KEEP && (args = malloc(KV_ARGS_INLINE * sizeof(*args))) != NULL) {
        free(e->args);
        e->args = args;
        e->args_room = KV_ARGS_INLINE;
    }
}

/* Run one message. KV_DONE or KV_LATER: it is over for the queue. */
enum kv_outcome kv_engine_run(struct kv_engine *e, struct kv_client *client, uint64_t seq,
                              const unsigned char *msg, size_t size)
{
    struct kv_command c = {.engine = e, .store = e->store, .client = client, .seq = seq};
    uint64_t id = client->id;
    enum kv_outcome outcome;
    uint64_t before = client->user;
    struct snic_iov iov;
    int64_t n;

    client->wait = KV_WAIT_TURN;
    client->need.bytes = 0;
    if (e->out.bytes > KV_OUT_LIMIT || (e->exclusive != NULL && e->exclusive != client)) /* E4 */
        return KV_AGAIN;
    engine_trim(e);
    n = kv_engine_args(e, msg, size);
    c.database = (uint32_t)(client->user & KV_WORD_DATABASE);
    c.argv = e->args;
    c.argc = n > 0 ? (uint32_t)n : 0;
    c.message = msg;
    c.message_size = size;
    e->reply.size = 0;
    e->reply.failed = 0;
    e->reply.resp3 = (client->user & KV_WORD_RESP3) != 0;
    client->used_ns = snic_loop_now(e->opts.loop);
    if (n == SNIC_ENOMEM) {
        kv_engine_no_memory(e, id, seq, client->user);
        return KV_DONE;
    }
    if ((client->user & (KV_WORD_SILENT | KV_WORD_SKIP)) != 0)
        c.flags |= KV_REPLY_SILENT | ((client->user & KV_WORD_SKIP) != 0 ? KV_REPLY_USER : 0);
    client->user &= ~KV_WORD_SKIP;
    if (client->killed)
        c.flags |= KV_REPLY_CLOSE;
    outcome = client->killed ? KV_DONE : engine_command(&c, n);
    if (outcome == KV_AGAIN || outcome == KV_FETCH) { /* it runs again as it was */
        client->user |= before & KV_WORD_SKIP;
        return outcome;
    }
    kv_client_forget_values(e, client);
    client->space_ns = 0;
    if (e->large == client)
        e->large = NULL;
    if (outcome != KV_DONE)
        return outcome;
    if (e->reply.failed) {
        kv_engine_no_memory(e, id, seq, client->user);
        return KV_DONE;
    }
    iov.base = e->reply.data;
    iov.size = e->reply.size;
    kv_answer(e, id, seq, client->user, c.flags, c.need, &iov, 1);
    return KV_DONE;
}

int kv_client_drain(struct kv_engine *e, struct kv_client *c)
{
    while (c->first != NULL && c->fetching == 0) {
        struct kv_message *m = c->first;
        enum kv_outcome o = kv_engine_run(e, c, m->seq, m->data, m->size);

        if (o == KV_AGAIN)
            return 0;
        if (o == KV_FETCH)
            return 1;
        kv_client_shift(c);
        if (c->gone && e->exclusive != c) { /* the rest of its messages is dropped */
            kv_client_free(e, c);
            return 1;
        }
    }
    return 1;
}
