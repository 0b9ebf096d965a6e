/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What monitoring tools send. Latency events are not recorded: the replies are those of a Redis
 * that does not, and CONFIG GET shows it. Latencies of each operation are in --metrics.
 */
#include "commands.h"

/* About what a key takes beside its bytes and its value's: record, envelope (ddp.h, store.h). */
#define MONITOR_KEY_BYTES 304

/* LATENCY LATEST | HISTORY event | RESET [event ...] | HISTOGRAM [command ...] | DOCTOR */
void ds_cmd_latency(struct ds_call *k)
{
    const struct resp_arg *a = &k->argv[1];

    if ((resp_arg_is(a, "latest") && k->argc == 2) || (resp_arg_is(a, "history") && k->argc == 3))
        resp_put_count(k->reply, '*', 0);
    else if (resp_arg_is(a, "reset"))
        resp_put_count(k->reply, ':', 0);
    else if (resp_arg_is(a, "histogram"))
        resp_put_map(k->reply, 0);
    else if (resp_arg_is(a, "doctor") && k->argc == 2)
        ds_put_text(k->reply, "Latency events are not recorded. --metrics has the latencies of "
                              "each operation and durability.");
    else
        ds_put_unknown_sub(k);
}

/* ---- MEMORY ---- */

static void memory_pair(struct resp_reply *r, const char *name, uint64_t n)
{
    ds_put_text(r, name);
    resp_put_count(r, ':', (int64_t)n);
}

void ds_cmd_memory(struct ds_call *k)
{
    struct ds_snapshot s;
    uint32_t serving;
    uint64_t keys;

    if (!resp_arg_is(&k->argv[1], "stats")) {
        ds_put_unknown_sub(k);
        return;
    }
    ds_info_sum(k->shard->node, &s, &serving);
    keys = s.store.keys;
    resp_put_map(k->reply, 4);
    memory_pair(k->reply, "keys.count", keys);
    memory_pair(k->reply, "keys.bytes-per-key", keys > 0 ? s.replica.values_bytes / keys : 0);
    memory_pair(k->reply, "dataset.bytes", s.replica.values_bytes);
    memory_pair(k->reply, "overhead.total", keys * MONITOR_KEY_BYTES);
}

/* MEMORY USAGE key [SAMPLES count] */
int ds_parse_memory(struct ds_request *r)
{
    int64_t n;

    if (resp_arg_is(&r->argv[1], "usage") &&
        (r->argc == 3 || (r->argc == 5 && resp_arg_is(&r->argv[3], "samples") &&
                          resp_number(r->argv[4].data, r->argv[4].size, &n) == 0 && n >= 0)))
        return 0;
    ds_error(&r->reply, "ERR syntax error: MEMORY USAGE key [SAMPLES count], or MEMORY STATS");
    return -1;
}

enum ds_verdict ds_cmd_memory_usage(struct ds_request *r, struct ds_value *v)
{
    if (v->present)
        resp_put_count(&r->reply, ':', (int64_t)r->key.size + v->size + MONITOR_KEY_BYTES);
    else
        resp_put_null(&r->reply);
    return DS_REPLY;
}
