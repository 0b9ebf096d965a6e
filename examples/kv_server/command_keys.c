/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on keys: DEL, EXISTS, TOUCH, TYPE, DBSIZE, FLUSHALL. */
#include "engine_priv.h"

#include <string.h>

/* Room for the deletion of all keys, or of those that exist. */
static int del_room(struct kv_command *c, int exist)
{
    uint64_t bytes = 0;
    uint64_t largest = 0;

    for (uint32_t i = 1; i < c->argc; i++) {
        uint64_t n = kv_record_bytes(c->argv[i].size, 0);

        if (exist && kv_command_peek(c, i) == NULL)
            continue;
        bytes += n;
        largest = snic_max_u64(largest, n);
    }
    return kv_command_room(c, bytes, largest, 1);
}

enum kv_outcome kv_cmd_del(struct kv_command *c)
{
    int64_t count = 0;
    int r = del_room(c, 0); /* all keys or none */

    if (r == SNIC_EMSGSIZE)
        r = del_room(c, 1);
    for (uint32_t i = 1; r == 0 && i < c->argc; i++) {
        struct kv_entry *e = kv_command_entry(c, i);

        if (e == NULL)
            continue;
        r = kv_delete(c, e);
        count += r == 0;
    }
    if (r != 0)
        return kv_write_failed(c, r);
    kv_put_integer(c->engine, count);
    return KV_DONE;
}

enum kv_outcome kv_cmd_exists(struct kv_command *c)
{
    int touch = c->spec->name[0] == 't';
    int64_t count = 0;

    for (uint32_t i = 1; i < c->argc; i++)
        count += (touch ? kv_command_entry(c, i) : kv_command_peek(c, i)) != NULL;
    kv_put_integer(c->engine, count);
    return KV_DONE;
}

enum kv_outcome kv_cmd_type(struct kv_command *c)
{
    struct kv_entry *e = kv_command_peek(c, 1);

    kv_put_text(c->engine, e != NULL ? "+string\r\n" : "+none\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_dbsize(struct kv_command *c)
{
    kv_depends(c, kv_store_tail(c->store));
    kv_put_integer(c->engine, (int64_t)kv_store_count(c->store, c->database));
    return KV_DONE;
}

enum kv_outcome kv_cmd_flush(struct kv_command *c)
{
    int all = strcmp(c->spec->name, "flushall") == 0;
    uint64_t end;
    int r;

    if (c->argc > 2 ||
        (c->argc == 2 && !resp_arg_is(&c->argv[1], "async") && !resp_arg_is(&c->argv[1], "sync"))) {
        kv_put_error(c->engine, "ERR syntax error");
        return KV_DONE;
    }
    r = kv_store_flush_keys(c->store, all ? KV_ALL_DATABASES : c->database, &end);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}
