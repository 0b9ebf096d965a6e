/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Finds a command and runs it. Error texts are Redis 7's. */
#include "engine_priv.h"

#include <stdio.h>

const struct kv_command_spec *kv_command_find(const struct kv_engine *e, const void *name,
                                              size_t size)
{
    struct resp_arg a = {name, (uint32_t)size};

    for (uint32_t i = 0; i < e->commands_count; i++)
        if (resp_arg_is(&a, e->commands[i].name))
            return &e->commands[i];
    return NULL;
}

static void command_unknown(struct kv_command *c)
{
    char args[160];
    size_t n = 0;

    args[0] = 0;
    for (uint32_t i = 1; i < c->argc && n < 128; i++) {
        uint32_t size = c->argv[i].size;
        int r;

        if (size > 128 - n)
            size = (uint32_t)(128 - n);
        r = snprintf(args + n, sizeof(args) - n, "'%.*s' ", (int)size,
                     (const char *)c->argv[i].data);
        n += r > 0 ? (size_t)r : 0;
    }
    kv_put_error(c->engine, "ERR unknown command '%.*s', with args beginning with: %s",
                 c->argv[0].size < 128 ? (int)c->argv[0].size : 128, (const char *)c->argv[0].data,
                 args);
}

/* The error is written: a transaction cannot be carried out any more. */
static enum kv_outcome command_refused(struct kv_command *c)
{
    if (!c->in_exec)
        kv_transaction_fail(c->client);
    return KV_DONE;
}

enum kv_outcome kv_command_run(struct kv_command *c)
{
    const struct kv_command_spec *spec =
        kv_command_find(c->engine, c->argv[0].data, c->argv[0].size);
    enum kv_outcome outcome;
    uint64_t began;

    c->spec = spec;
    if (resp_arg_is(&c->argv[0], "post") || resp_arg_is(&c->argv[0], "host:")) {
        c->flags |= KV_REPLY_CLOSE | KV_REPLY_SILENT; /* a web page made a browser send this */
        c->client->killed = 1;
        return KV_DONE;
    }
    if (spec == NULL) {
        command_unknown(c);
        return command_refused(c);
    }
    c->client->last_command = spec;
    if ((spec->arity > 0 && c->argc != (uint32_t)spec->arity) ||
        (spec->arity < 0 && c->argc < (uint32_t)-spec->arity)) {
        if ((spec->rules & KV_RULE_EXEC) != 0) { /* it ends the transaction all the same */
            kv_put_error(c->engine, "EXECABORT Transaction discarded because of: wrong number of "
                                    "arguments for 'exec' command");
            kv_transaction_forget(c->client);
            c->flags |= KV_REPLY_USER;
            return KV_DONE;
        }
        kv_put_error(c->engine, "ERR wrong number of arguments for '%s' command", spec->name);
        return command_refused(c);
    }
    if (kv_subcommand_check(c) != 0)
        return command_refused(c);
    if ((c->client->user & KV_WORD_AUTH) == 0 && (spec->rules & KV_RULE_NO_AUTH) == 0) {
        kv_put_error(c->engine, "NOAUTH Authentication required.");
        return command_refused(c);
    }
    if (spec->first_key > 0)
        for (uint32_t i = spec->first_key; i < c->argc; i += spec->step) {
            if (spec->last_key > 0 && i > (uint32_t)spec->last_key)
                break;
            if (c->argv[i].size > c->engine->opts.key_max) {
                kv_put_error(c->engine, "ERR key is longer than %u bytes", c->engine->opts.key_max);
                return command_refused(c);
            }
        }
    if (!c->in_exec && c->client->tx != NULL && c->client->tx->open &&
        (spec->rules & KV_RULE_AT_ONCE) == 0) {
        if ((spec->rules & KV_RULE_NO_MULTI) != 0) {
            kv_put_error(c->engine, "ERR Command not allowed inside a transaction");
            return command_refused(c);
        }
        kv_transaction_queue(c);
        return KV_DONE;
    }
    began = kv_slow_clock();
    outcome = spec->run(c);
    kv_slow_note(c, kv_slow_clock() - began);
    if (outcome == KV_DONE || outcome == KV_LATER)
        c->engine->stats.commands++;
    return outcome;
}
