/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* COMMAND DOCS: documents the commands. */
#include "docs.h"

#include <string.h>

static void docs_text(struct resp_reply *r, const char *text)
{
    resp_put_bulk(r, text, strlen(text));
}

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

static void docs_pair(struct resp_reply *r, const char *name, const char *value, size_t size)
{
    docs_text(r, name);
    resp_put_bulk(r, value, size);
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

static void docs_put_flags(struct resp_reply *r, const char *p, int64_t flags)
{
    docs_text(r, "flags");
    resp_put_set(r, flags);
    if (docs_has(p, '?'))
        resp_put_text(r, "+optional\r\n");
    if (docs_has(p, '+'))
        resp_put_text(r, "+multiple\r\n");
    if (docs_has(p, '&'))
        resp_put_text(r, "+multiple_token\r\n");
}

/* Write one argument, not those that it consists of. @return the ',', '(', ')' or end behind it */
static const char *docs_argument(struct resp_reply *r, const char *p)
{
    static const struct {
        char mark;
        const char *name;
    } fields[] = {{'=', "token"}, {'^', "since"}, {'!', "deprecated_since"}};
    size_t name = docs_word(p);
    const char *type = p + name + 1;
    const char *rest = type + docs_word(type);
    int64_t flags = docs_flags(rest);
    const char *end = rest + strcspn(rest, ",()");
    int64_t pairs = 2 + (flags > 0) + (*end == '(') + docs_has(rest, '@');

    for (size_t i = 0; i < SNIC_COUNTOF(fields); i++)
        pairs += docs_has(rest, fields[i].mark);
    resp_put_map(r, pairs);
    docs_pair(r, "name", p, name);
    docs_pair(r, "type", type, docs_word(type));
    if (docs_has(rest, '@')) {
        const char *at = strchr(rest, '@') + 1;

        docs_text(r, "key_spec_index");
        resp_put_count(r, ':', *at - '0');
    }
    for (size_t i = 0; i < SNIC_COUNTOF(fields); i++)
        if (docs_has(rest, fields[i].mark)) {
            const char *at = strchr(rest, fields[i].mark) + 1;

            docs_pair(r, fields[i].name, at, docs_word(at));
        }
    if (flags > 0)
        docs_put_flags(r, rest, flags);
    return end;
}

static void docs_arguments(struct resp_reply *r, const char *p)
{
    docs_text(r, "arguments");
    resp_put_count(r, '*', docs_count(p));
    while (*p != 0) {
        p = docs_argument(r, p);
        if (*p == '(') {
            p += 2;
            docs_text(r, "arguments");
            resp_put_count(r, '*', docs_count(p));
            continue;
        }
        while (*p == ')' || *p == ' ')
            p++;
        if (*p == ',')
            p += 2;
    }
}

/* 1 if @p d is a subcommand of @p name: "x|y" is one of "x". */
static int docs_is_subcommand(const struct resp_doc *d, const char *name)
{
    size_t n = strlen(name);

    return strncmp(d->name, name, n) == 0 && d->name[n] == '|';
}

static void docs_put(struct resp_reply *r, const struct resp_doc *d, int64_t subcommands)
{

    docs_text(r, d->name);
    resp_put_map(r, 3 + (d->arguments[0] != 0) + (subcommands > 0));
    docs_pair(r, "summary", d->summary, strlen(d->summary));
    docs_pair(r, "since", d->since, strlen(d->since));
    docs_pair(r, "group", d->group, strlen(d->group));
    if (d->arguments[0] != 0)
        docs_arguments(r, d->arguments);
}

/* Write the documentation of a command and of its subcommands. */
static void docs_command(struct resp_reply *r, const struct resp_doc *d)
{
    const struct resp_doc *s;
    int64_t count = 0;

    for (uint32_t i = 0; (s = resp_doc_at(i)) != NULL; i++)
        count += docs_is_subcommand(s, d->name);
    docs_put(r, d, count);
    if (count == 0)
        return;
    docs_text(r, "subcommands");
    resp_put_map(r, count);
    for (uint32_t i = 0; (s = resp_doc_at(i)) != NULL; i++)
        if (docs_is_subcommand(s, d->name))
            docs_put(r, s, 0);
}

/* 1 if the server has the command and it is requested; without names all commands are. */
static int docs_wanted(const struct resp_docs *w, const struct resp_doc *d)
{
    if (w->argc == 2)
        return strchr(d->name, '|') == NULL && w->has(w->ctx, d->name, strlen(d->name));
    for (uint32_t i = 2; i < w->argc; i++)
        if (resp_arg_is(&w->argv[i], d->name))
            return w->has(w->ctx, d->name, strcspn(d->name, "|"));
    return 0;
}

void resp_docs_put(struct resp_reply *r, const struct resp_docs *w)
{
    const struct resp_doc *d;
    int64_t count = 0;

    for (uint32_t i = 0; (d = resp_doc_at(i)) != NULL; i++)
        count += docs_wanted(w, d);
    resp_put_map(r, count);
    for (uint32_t i = 0; (d = resp_doc_at(i)) != NULL; i++)
        if (docs_wanted(w, d))
            docs_command(r, d);
}
