/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is known about a key: OBJECT, MEMORY. And commands that cannot be, with the reason. */
#include "engine_priv.h"

#include <string.h>

#define OBJECT_EMBEDDED_MAX 44u /* Redis keeps such strings in one piece with their header */
#define OBJECT_SHARED 10000     /* numbers below are shared in Redis                       */

/* Is the value a number in Redis' sense? It needs the value. */
static enum kv_outcome object_number(struct kv_command *c, struct kv_entry *e, int64_t *n,
                                     int *is_number)
{
    const unsigned char *value;
    enum kv_outcome o;
    uint32_t size;

    *is_number = 0;
    if ((e->flags & KV_ENTRY_ENCODING) != 0 || e->value_size > 20)
        return KV_DONE;
    o = kv_value_to_modify(c, e, &value, &size);
    if (o == KV_DONE)
        *is_number = resp_number(value, size, n) == 0;
    return o;
}

static enum kv_outcome object_encoding(struct kv_command *c, struct kv_entry *e)
{
    int64_t n;
    int is_number;
    enum kv_outcome o = object_number(c, e, &n, &is_number);

    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    kv_put_bulk_text(c->engine,
                     is_number ? "int"
                     : (e->flags & KV_ENTRY_RAW) != 0 || e->value_size > OBJECT_EMBEDDED_MAX
                         ? "raw"
                         : "embstr");
    return KV_DONE;
}

static enum kv_outcome object_references(struct kv_command *c, struct kv_entry *e)
{
    int64_t n;
    int is_number;
    enum kv_outcome o = object_number(c, e, &n, &is_number);

    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    kv_put_integer(c->engine, is_number && n >= 0 && n < OBJECT_SHARED ? INT32_MAX : 1);
    return KV_DONE;
}

enum kv_outcome kv_cmd_object(struct kv_command *c)
{
    static const char *const help[] = {
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    How Redis would keep the value: int, embstr or raw.",
        "FREQ <key>",
        "    Not supported: accesses are not counted.",
        "IDLETIME <key>",
        "    Seconds since the host last used the value; reads that the DPU answers do not count.",
        "REFCOUNT <key>",
        "    References that Redis would count.",
        "HELP",
        "    Print this help."};
    static const char *const words[] = {"encoding", "refcount", "idletime", "freq"};
    struct kv_entry *e;
    uint32_t w = 0;

    if (kv_subcommand(c, "help")) {
        kv_put_help(c->engine, help, SNIC_COUNTOF(help));
        return KV_DONE;
    }
    while (w + 1 < SNIC_COUNTOF(words) && !kv_subcommand(c, words[w]))
        w++;
    e = kv_command_lookup(c, c->database, &c->argv[2], 0);
    if (e == NULL) {
        kv_put_null(c->engine);
        return KV_DONE;
    }
    switch (w) {
    case 0:
        return object_encoding(c, e);
    case 1:
        return object_references(c, e);
    case 2:
        kv_put_integer(c->engine, (int64_t)(kv_store_wall_ms(c->store) / 1000) - e->accessed);
        break;
    default:
        kv_put_error(c->engine, "ERR An LFU maxmemory policy is not selected, access frequency not "
                                "tracked. Please note that when switching between policies at "
                                "runtime LRU and LFU data will take some time to adjust.");
        break;
    }
    return KV_DONE;
}

/* ---- MEMORY ---- */

/* MEMORY USAGE key [SAMPLES n]. */
static void memory_usage(struct kv_command *c)
{
    struct kv_entry *e;

    for (uint32_t i = 3; i < c->argc; i++) {
        int64_t n;

        if (!resp_arg_is(&c->argv[i], "samples") || i + 1 >= c->argc) {
            kv_put_error(c->engine, "ERR syntax error");
            return;
        }
        i++;
        if (kv_number(c, &c->argv[i], &n) != 0)
            return;
        if (n < 0) {
            kv_put_error(c->engine, "ERR syntax error");
            return;
        }
    }
    e = kv_command_lookup(c, c->database, &c->argv[2], 0);
    if (e == NULL) {
        kv_put_null(c->engine);
        return;
    }
    kv_put_integer(c->engine, (int64_t)(sizeof(*e) + e->key_size + sizeof(void *) +
                                        (kv_store_value(c->store, e) != NULL
                                             ? kv_record_bytes(e->key_size, e->value_size)
                                             : 0)));
}

/* MEMORY STATS: what is known, under Redis' names. */
static void memory_stats(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_engine_stats s;

    kv_engine_get_stats(e, &s);
    kv_put_map(c, 3);
    kv_put_bulk_text(e, "total.allocated");
    kv_put_integer(e, (int64_t)s.memory_used);
    kv_put_bulk_text(e, "keys.count");
    kv_put_integer(e, (int64_t)s.keys);
    kv_put_bulk_text(e, "dataset.bytes");
    kv_put_integer(e, (int64_t)s.live_bytes);
}

enum kv_outcome kv_cmd_memory(struct kv_command *c)
{
    static const char *const help[] = {
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Nothing to report.",
        "PURGE",
        "    Does nothing: freed memory goes back to the allocator.",
        "STATS",
        "    Bytes of the index and of the newest records, keys, bytes of live records.",
        "USAGE <key> [SAMPLES <count>]",
        "    Bytes that the key takes in memory; the value's only if it is there, too.",
        "HELP",
        "    Print this help."};

    if (kv_subcommand(c, "usage")) {
        memory_usage(c);
    } else if (kv_subcommand(c, "stats")) {
        memory_stats(c);
    } else if (kv_subcommand(c, "purge")) {
        kv_put_text(c->engine, "+OK\r\n");
    } else if (kv_subcommand(c, "doctor")) {
        kv_put_bulk_text(c->engine, "Nothing to report.");
    } else if (kv_subcommand(c, "malloc-stats")) {
        kv_put_bulk_text(c->engine, "Stats not supported for the current allocator");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(c->engine, help, SNIC_COUNTOF(help));
    }
    return KV_DONE;
}

/* ---- What cannot be ---- */

enum kv_outcome kv_cmd_unsupported(struct kv_command *c)
{
    static const struct {
        const char *name;
        const char *reason;
    } reasons[] = {
        {"migrate", "use DUMP here and RESTORE there"},
        {"sort", "this server stores strings only, and SORT needs a list, set or sorted set"},
        {"sort_ro", "this server stores strings only, and SORT needs a list, set or sorted set"},
        {"wait", "this server has no replicas; with --sync always a reply means durable"},
    };
    const char *reason = "";

    for (size_t i = 0; i < SNIC_COUNTOF(reasons); i++)
        if (strcmp(c->spec->name, reasons[i].name) == 0)
            reason = reasons[i].reason;
    kv_put_error(c->engine, "ERR '%s' is not supported: %s", c->spec->name, reason);
    return KV_DONE;
}
