/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* COMMAND: lists and documents the commands, and finds the keys of a command line. */
#include "../resp/docs.h"
#include "command_docs.h"
#include "engine_priv.h"

#include <string.h>

static int docs_has_command(void *ctx, const char *name, size_t size)
{
    return kv_command_find(ctx, name, size) != NULL;
}

static void command_docs(struct kv_command *c)
{
    struct resp_docs w = {c->argv, c->argc, docs_has_command, c->engine};

    resp_docs_put(&c->engine->reply, &w);
}

/* ---- COMMAND INFO, LIST, GETKEYS ---- */

static void command_info(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    uint32_t all = e->commands_count;

    kv_put_count(e, '*', c->argc <= 2 ? all : c->argc - 2);
    for (uint32_t i = 0; c->argc <= 2 && i < all; i++)
        kv_command_describe(c, &e->commands[i]);
    for (uint32_t i = 2; i < c->argc; i++) {
        const struct kv_command_spec *s =
            kv_command_find(c->engine, c->argv[i].data, c->argv[i].size);

        if (s != NULL)
            kv_command_describe(c, s);
        else
            kv_put_null(e);
    }
}

/* COMMAND LIST [FILTERBY MODULE|ACLCAT|PATTERN x]. */
static void command_list(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    int pattern = c->argc == 5 && resp_arg_is(&c->argv[3], "pattern");
    int aclcat = c->argc == 5 && resp_arg_is(&c->argv[3], "aclcat");
    int64_t count = 0;
    char head[24];
    size_t at = e->reply.size;

    if (c->argc != 2 && (c->argc != 5 || !resp_arg_is(&c->argv[2], "filterby") ||
                         (!pattern && !aclcat && !resp_arg_is(&c->argv[3], "module")))) {
        kv_put_error(e, "ERR syntax error");
        return;
    }
    for (uint32_t i = 0; i < e->commands_count; i++) {
        const struct kv_command_spec *s = &e->commands[i];
        const char *name = s->name;

        if (c->argc == 2 || (aclcat && kv_command_in_category(s, &c->argv[4])) ||
            (pattern && resp_glob(c->argv[4].data, c->argv[4].size, (const unsigned char *)name,
                                  strlen(name)))) {
            kv_put_bulk_text(e, name);
            count++;
        }
    }
    kv_put_before(e, at, head, resp_put_number(head, '*', count));
}

/* Positions of the keys in the command line argv[2..]. @return 0; -1 the error is replied */
static int command_keys(struct kv_command *c, uint32_t *first, uint32_t *last, uint32_t *step)
{
    const struct kv_command_spec *s = kv_command_find(c->engine, c->argv[2].data, c->argv[2].size);
    uint32_t argc = c->argc - 2;
    int64_t n = 0;

    if (s == NULL) {
        kv_put_error(c->engine, "ERR Invalid command specified");
        return -1;
    }
    if ((s->arity > 0 && argc != (uint32_t)s->arity) ||
        (s->arity < 0 && argc < (uint32_t)-s->arity)) {
        kv_put_error(c->engine, "ERR Invalid number of arguments specified for command");
        return -1;
    }
    *first = s->first_key;
    *step = s->step > 0 ? s->step : 1u;
    *last = s->last_key < 0 ? argc - (uint32_t)-s->last_key : (uint32_t)s->last_key;
    if (s->run == kv_cmd_eval) {
        if (resp_number(c->argv[4].data, c->argv[4].size, &n) != 0 || n < 0 ||
            n > (int64_t)argc - 3) {
            kv_put_error(c->engine, "ERR Invalid arguments specified for command");
            return -1;
        }
        *first = n > 0 ? 3 : 0;
        *last = 2 + (uint32_t)n;
    } else if (s->run == kv_cmd_object || s->run == kv_cmd_memory) {
        *first = argc > 2 ? 2 : 0;
        *last = 2;
    }
    if (*first == 0) {
        kv_put_error(c->engine, "ERR The command has no key arguments");
        return -1;
    }
    return 0;
}

static void command_getkeys(struct kv_command *c)
{
    uint32_t first;
    uint32_t last;
    uint32_t step;

    if (command_keys(c, &first, &last, &step) != 0)
        return;
    kv_put_count(c->engine, '*', (last - first) / step + 1);
    for (uint32_t i = first; i <= last; i += step)
        kv_put_bulk(c->engine, c->argv[2 + i].data, c->argv[2 + i].size);
}

enum kv_outcome kv_cmd_command(struct kv_command *c)
{
    static const char *const help[] = {
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    How many commands there are.",
        "DOCS [<command-name> ...]",
        "    What commands are for, and their arguments.",
        "GETKEYS <full-command>",
        "    The keys of a command line.",
        "INFO [<command-name> ...]",
        "    Describe these commands or all.",
        "LIST [FILTERBY PATTERN <pattern>]",
        "    The commands' names.",
        "HELP",
        "    Print this help."};

    if (c->argc == 1) {
        command_info(c);
    } else if (kv_subcommand(c, "count")) {
        kv_put_integer(c->engine, c->engine->commands_count);
    } else if (kv_subcommand(c, "docs")) {
        command_docs(c);
    } else if (kv_subcommand(c, "info")) {
        command_info(c);
    } else if (kv_subcommand(c, "list")) {
        command_list(c);
    } else if (kv_subcommand(c, "getkeys")) {
        command_getkeys(c);
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(c->engine, help, SNIC_COUNTOF(help));
    }
    return KV_DONE;
}
