/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of all commands. */
#include "commands.h"

#define ONE_KEY "the store orders each key by itself, and knows nothing atomic over several"

static const struct ds_command commands[] = {
    {"get", DS_KEY, 2, 0, "readonly fast", NULL, NULL, ds_cmd_get, NULL},
    {"set", DS_KEY, -3, 0, "write denyoom", NULL, ds_parse_set, ds_cmd_set, NULL},
    {"del", DS_EACH, -2, DS_SUM, "write", NULL, NULL, ds_cmd_del, NULL},
    {"ping", DS_LOCAL, -1, 0, "fast", ds_cmd_ping, NULL, NULL, NULL},
    {"mset", DS_REFUSED, -3, 0, "write", NULL, NULL, NULL, ONE_KEY},
};

const struct ds_command *ds_command_find(const struct resp_arg *name)
{
    for (size_t i = 0; i < SNIC_COUNTOF(commands); i++)
        if (resp_arg_is(name, commands[i].name))
            return &commands[i];
    return NULL;
}
