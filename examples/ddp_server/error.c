/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Replies that all commands put. Texts without a state of the cluster in them are Redis 7's. */
#include "node.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void ds_error(struct resp_reply *r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    resp_put_verror(r, format, ap);
    va_end(ap);
}

void ds_format(struct resp_reply *r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    resp_put_vformat(r, format, ap);
    va_end(ap);
}

void ds_put_text(struct resp_reply *r, const char *text)
{
    resp_put_bulk(r, text, strlen(text));
}

const struct ds_command *ds_command_find(const struct ds_node *n, const struct resp_arg *name)
{
    for (uint32_t i = 0; i < n->commands_count; i++)
        if (resp_arg_is(name, n->commands[i].name))
            return &n->commands[i];
    return NULL;
}

void ds_put_unknown(struct ds_call *k)
{
    char args[160];
    size_t n = 0;

    args[0] = 0;
    for (uint32_t i = 1; i < k->argc && n < 128; i++) {
        uint32_t size = k->argv[i].size < 128 - n ? k->argv[i].size : (uint32_t)(128 - n);
        int r = snprintf(args + n, sizeof(args) - n, "'%.*s' ", (int)size,
                         (const char *)k->argv[i].data);

        n += r > 0 ? (size_t)r : 0;
    }
    ds_error(k->reply, "ERR unknown command '%.*s', with args beginning with: %s",
             k->argv[0].size < 128 ? (int)k->argv[0].size : 128, (const char *)k->argv[0].data,
             args);
}

void ds_put_unknown_sub(struct ds_call *k)
{
    const struct resp_arg *a = &k->argv[1];

    ds_error(k->reply, "ERR unknown subcommand or wrong number of arguments for '%s|%.*s'",
             k->command->name, a->size < 64 ? (int)a->size : 64, (const char *)a->data);
}

int64_t ds_wall_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
