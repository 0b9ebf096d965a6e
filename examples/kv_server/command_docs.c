/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* COMMAND: lists and documents the commands, and finds the keys of a command line. */
#include "command_docs.h"
#include "engine_priv.h"

#include <string.h>

/* ---- COMMAND DOCS ---- */

/* Count the elements of the list at @p p; it ends at its ')' or with the text. */
static int64_t docs_count(const char *p)
{
    int64_t count = *p != 0;
    int depth = 0;

    for (; *p != 0 && depth >= 0; p++) {
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        count += depth == 0 && *p == ',';
    }
    return count;
}

/* Length of the word at @p p. */
static size_t docs_word(const char *p)
{
    return strcspn(p, " ,");
}

static void docs_pair(struct kv_engine *e, const char *name, const char *value, size_t size)
{
    kv_put_bulk_text(e, name);
    kv_put_bulk(e, value, size);
}

/* Count the marks "?+&" of an argument. */
static int64_t docs_flags(const char *p)
{
    int64_t flags = 0;

    for (; *p != 0 && *p != ',' && *p != '(' && *p != ')'; p++)
        flags += (*p == '?' || *p == '+' || *p == '&') && p[-1] == ' ';
    return flags;
}

static int docs_has(const char *p, char mark)
{
    for (; *p != 0 && *p != ',' && *p != '(' && *p != ')'; p++)
        if (*p == mark && p[-1] == ' ')
            return 1;
    return 0;
}

static void docs_put_flags(struct kv_engine *e, const char *p, int64_t flags)
{
    kv_put_bulk_text(e, "flags");
    kv_put_set(e, flags);
    if (docs_has(p, '?'))
        kv_put_text(e, "+optional\r\n");
    if (docs_has(p, '+'))
        kv_put_text(e, "+multiple\r\n");
    if (docs_has(p, '&'))
        kv_put_text(e, "+multiple_token\r\n");
}

/* Write one argument, not those that it consists of. @return the ',', '(', ')' or end behind it */
static const char *docs_argument(struct kv_command *c, const char *p)
{
    static const struct {
        char mark;
        const char *name;
    } fields[] = {{'=', "token"}, {'^', "since"}, {'!', "deprecated_since"}};
    struct kv_engine *e = c->engine;
    size_t name = docs_word(p);
    const char *type = p + name + 1;
    const char *rest = type + docs_word(type);
    int64_t flags = docs_flags(rest);
    const char *end = rest + strcspn(rest, ",()");
    int64_t pairs = 2 + (flags > 0) + (*end == '(') + docs_has(rest, '@');

    for (size_t i = 0; i < SNIC_COUNTOF(fields); i++)
        pairs += docs_has(rest, fields[i].mark);
    kv_put_map(c, pairs);
    docs_pair(e, "name", p, name);
    docs_pair(e, "type", type, docs_word(type));
    if (docs_has(rest, '@')) {
        const char *at = strchr(rest, '@') + 1;

        kv_put_bulk_text(e, "key_spec_index");
        kv_put_integer(e, *at - '0');
    }
    for (size_t i = 0; i < SNIC_COUNTOF(fields); i++)
        if (docs_has(rest, fields[i].mark)) {
            const char *at = strchr(rest, fields[i].mark) + 1;

            docs_pair(e, fields[i].name, at, docs_word(at));
        }
    if (flags > 0)
        docs_put_flags(e, rest, flags);
    return end;
}

static void docs_arguments(struct kv_command *c, const char *p)
{
    kv_put_bulk_text(c->engine, "arguments");
    kv_put_count(c->engine, '*', docs_count(p));
    while (*p != 0) {
        p = docs_argument(c, p);
        if (*p == '(') {
            p += 2;
            kv_put_bulk_text(c->engine, "arguments");
            kv_put_count(c->engine, '*', docs_count(p));
            continue;
        }
        while (*p == ')' || *p == ' ')
            p++;
        if (*p == ',')
            p += 2;
    }
}

/* 1 if @p d is a subcommand of @p name: "x|y" is one of "x". */
static int docs_is_subcommand(const struct kv_doc *d, const char *name)
{
    size_t n = strlen(name);

    return strncmp(d->name, name, n) == 0 && d->name[n] == '|';
}

static void docs_put(struct kv_command *c, const struct kv_doc *d, int64_t subcommands)
{
    struct kv_engine *e = c->engine;

    kv_put_bulk_text(e, d->name);
    kv_put_map(c, 3 + (d->arguments[0] != 0) + (subcommands > 0));
    docs_pair(e, "summary", d->summary, strlen(d->summary));
    docs_pair(e, "since", d->since, strlen(d->since));
    docs_pair(e, "group", d->group, strlen(d->group));
    if (d->arguments[0] != 0)
        docs_arguments(c, d->arguments);
}

/* Write the documentation of a command and of its subcommands. */
static void docs_command(struct kv_command *c, const struct kv_doc *d)
{
    const struct kv_doc *s;
    int64_t count = 0;

    for (uint32_t i = 0; (s = kv_doc_at(i)) != NULL; i++)
        count += docs_is_subcommand(s, d->name);
    docs_put(c, d, count);
    if (count == 0)
        return;
    kv_put_bulk_text(c->engine, "subcommands");
    kv_put_map(c, count);
    for (uint32_t i = 0; (s = kv_doc_at(i)) != NULL; i++)
        if (docs_is_subcommand(s, d->name))
            docs_put(c, s, 0);
}

/* 1 if the server has the command and it is requested; without names all commands are. */
static int docs_wanted(const struct kv_command *c, const struct kv_doc *d)
{
    if (c->argc == 2)
        return strchr(d->name, '|') == NULL &&
               kv_command_find(c->engine, d->name, strlen(d->name)) != NULL;
    for (uint32_t i = 2; i < c->argc; i++)
        if (resp_arg_is(&c->argv[i], d->name))
            return kv_command_find(c->engine, d->name, strcspn(d->name, "|")) != NULL;
    return 0;
}

static void command_docs(struct kv_command *c)
{
    const struct kv_doc *d;
    int64_t count = 0;

    for (uint32_t i = 0; (d = kv_doc_at(i)) != NULL; i++)
        count += docs_wanted(c, d);
    kv_put_map(c, count);
    for (uint32_t i = 0; (d = kv_doc_at(i)) != NULL; i++)
        if (docs_wanted(c, d))
            docs_command(c, d);
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
