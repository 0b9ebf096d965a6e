/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What answers mean.
 *     DURABILITY [default|memory|here|all|scope [COPIES n] [command argument ...]]
 *     READLEVEL  [default|memory|all [CONFIRM] [command argument ...]]
 *     SCOPE SYNC
 * With a command behind it the setting is this command's, else the connection's.
 */
#include "commands.h"

#include <string.h>

static const char *const durability_names[] = {"default", "memory", "here", "all", "scope"};

int ds_durability_of(const struct resp_arg *a)
{
    for (size_t i = 0; i < SNIC_COUNTOF(durability_names); i++)
        if (resp_arg_is(a, durability_names[i]))
            return (int)i;
    return -1;
}

static const char *durability_name(uint32_t durability)
{
    return durability < SNIC_COUNTOF(durability_names) ? durability_names[durability] : "?";
}

/* DURABILITY's arguments. @return how many; 0 the error is put */
static uint32_t durability_writes(struct ds_call *k)
{
    int64_t copies = 0;
    uint32_t used = 2;
    int d = ds_durability_of(&k->argv[1]);

    if (d < 0) {
        ds_error(k->reply, "ERR the durability is default, memory, here, all or scope");
        return 0;
    }
    if (k->argc > 3 && resp_arg_is(&k->argv[2], "copies")) {
        if (resp_number(k->argv[3].data, k->argv[3].size, &copies) != 0 || copies < 0 ||
            copies > DS_NODES_MAX) {
            ds_error(k->reply, "ERR COPIES: not a number from 0 to %u", DS_NODES_MAX);
            return 0;
        }
        used = 4;
    }
    k->how.durability = (uint8_t)d;
    k->how.copies = (uint16_t)copies;
    return used;
}

static uint32_t durability_reads(struct ds_call *k)
{
    int d = ds_durability_of(&k->argv[1]);

    if (d != SNIC_DDP_DURABILITY_DEFAULT && d != SNIC_DDP_DURABILITY_MEMORY &&
        d != SNIC_DDP_DURABILITY_ALL) {
        ds_error(k->reply, "ERR a read may return: default, memory or all");
        return 0;
    }
    k->how.reads = (uint8_t)d;
    k->how.confirm = k->argc > 2 && resp_arg_is(&k->argv[2], "confirm");
    return 2 + (uint32_t)k->how.confirm;
}

static void durability_show(struct ds_call *k, int reads)
{
    const struct ds_how *h = &k->client->how;

    resp_put_count(k->reply, '*', 2);
    ds_put_text(k->reply, durability_name(reads ? h->reads : h->durability));
    if (reads)
        ds_put_text(k->reply, h->confirm ? "confirm" : "");
    else
        resp_put_count(k->reply, ':', h->copies);
}

int ds_durability_take(struct ds_call *k)
{
    int reads = k->argv[0].size == 9; /* READLEVEL */
    uint32_t used;

    if (k->argc == 1) {
        durability_show(k, reads);
        return 0;
    }
    used = reads ? durability_reads(k) : durability_writes(k);
    if (used == 0)
        return 0;
    if (used < k->argc) {
        k->argv += used;
        k->argc -= used;
        return 1;
    }
    k->client->how = k->how;
    resp_put_text(k->reply, "+OK\r\n");
    return 0;
}

void ds_cmd_durability(struct ds_call *k)
{
    (void)k; /* ds_durability_take() did all */
}

/* ---- SCOPE SYNC ---- */

static void scope_done(struct snic_store_op *op)
{
    struct ds_request *r = SNIC_CONTAINER(op, struct ds_request, op);

    if (op->result != 0)
        ds_put_failure(r, op->result);
    ds_request_end(r);
}

void ds_visit_scope(struct ds_request *r)
{
    uint64_t number = ds_scope_take(r->shard, r->home->index, r->client, r->scope);

    if (number == 0) {
        if ((r->scope_shards >> r->shard->index & 1) != 0)
            ds_error(&r->reply, "UNKNOWN outcome unknown: too many clients have scopes, and this "
                                "one was forgotten; what it wrote may be lost in a restart");
        ds_request_end(r); /* or it wrote nothing here */
        return;
    }
    r->op.done = scope_done;
    r->op.kind = SNIC_STORE_SYNC;
    r->op.scope = number;
    r->op.copies_min = r->how.copies;
    ds_request_submit(r);
}

void ds_join_ok(struct ds_request *r)
{
    resp_put_text(&r->reply, "+OK\r\n");
}
