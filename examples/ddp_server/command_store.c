/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * STORE: the operations of store.h as they are, for snicstore/storeclient.h and others who want
 * versions, conditions and sessions.
 *     STORE GET|DEL|EXPIRE key [option ...]     STORE PUT key value [option ...]
 *       TTL ms   KEEPTTL   CONFIRM   IF absent|present   IFVERSION version
 *       DURABILITY default|memory|here|all   COPIES n   SESSION client sequence seen age-ms
 *     STORE NODES
 * The reply is an array: result (0 or SNIC_E*), out, version, seen, TTL in ms, copies, answer,
 * value or nil; of NODES whether this node serves (1), and the addresses for clients of the nodes
 * of the configuration in force.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* A number without a sign; versions have 64 bits. 0; -1 */
static int store_number(const struct resp_arg *a, uint64_t *out)
{
    char text[24];
    char *end;

    if (a->size == 0 || a->size >= sizeof(text) || a->data[0] < '0' || a->data[0] > '9')
        return -1;
    memcpy(text, a->data, a->size);
    text[a->size] = 0;
    *out = strtoull(text, &end, 10);
    return *end != 0 ? -1 : 0;
}

/* An option with arguments from @p a on, @p left of them. @return how many it takes; 0: it is none
 */
static uint32_t store_option(struct ds_request *r, const struct resp_arg *a, uint32_t left)
{
    struct snic_store_op *op = &r->op;
    uint64_t n[4];
    int d;

    if (resp_arg_is(a, "keepttl")) {
        op->flags |= SNIC_STORE_KEEP_TTL;
        return 1;
    }
    if (resp_arg_is(a, "confirm")) {
        op->flags |= SNIC_STORE_CONFIRM;
        return 1;
    }
    if (left < 2)
        return 0;
    if (resp_arg_is(a, "if") && (resp_arg_is(&a[1], "absent") || resp_arg_is(&a[1], "present"))) {
        op->condition = resp_arg_is(&a[1], "absent") ? SNIC_STORE_IF_ABSENT : SNIC_STORE_IF_PRESENT;
        return 2;
    }
    if (resp_arg_is(a, "durability")) {
        d = ds_durability_of(&a[1]);
        if (d < 0 || d == SNIC_DDP_DURABILITY_SCOPE)
            return 0;
        op->durability = (uint32_t)d;
        return 2;
    }
    if (store_number(&a[1], &n[0]) != 0)
        return 0;
    if (resp_arg_is(a, "ttl") && n[0] <= DS_TTL_MAX_MS) {
        op->ttl_ns = n[0] * 1000000u;
        return 2;
    }
    if (resp_arg_is(a, "ifversion")) {
        op->condition = SNIC_STORE_IF_VERSION;
        op->version = n[0];
        return 2;
    }
    if (resp_arg_is(a, "copies") && n[0] <= DS_NODES_MAX) {
        op->copies_min = (uint32_t)n[0];
        return 2;
    }
    if (!resp_arg_is(a, "session") || left < 5)
        return 0;
    for (uint32_t i = 1; i < 4; i++)
        if (store_number(&a[i + 1], &n[i]) != 0)
            return 0;
    op->client = n[0];
    op->sequence = n[1];
    op->seen = n[2];
    op->age_ns = snic_min_u64(n[3], DS_TTL_MAX_MS) * 1000000u;
    return 5;
}

int ds_parse_store(struct ds_request *r)
{
    static const struct {
        const char *verb;
        uint32_t kind;
    } verbs[] = {{"get", SNIC_STORE_GET},
                 {"put", SNIC_STORE_PUT},
                 {"del", SNIC_STORE_DELETE},
                 {"expire", SNIC_STORE_EXPIRE}};
    uint32_t v = 0;
    uint32_t i = 3;

    while (v < SNIC_COUNTOF(verbs) && !resp_arg_is(&r->argv[1], verbs[v].verb))
        v++;
    if (v == SNIC_COUNTOF(verbs) || (v == 1 && r->argc < 4)) {
        ds_error(&r->reply, "ERR syntax error");
        return -1;
    }
    r->native = 1;
    r->op.kind = verbs[v].kind;
    if (v == 1) {
        r->op.data = r->argv[3].data;
        r->op.size = r->argv[3].size;
        i++;
    }
    while (i < r->argc) {
        uint32_t used = store_option(r, &r->argv[i], r->argc - i);

        if (used == 0) {
            ds_error(&r->reply, "ERR syntax error at option %u of STORE", i);
            return -1;
        }
        i += used;
    }
    r->blind =
        v == 1 && r->op.condition == SNIC_STORE_ALWAYS && r->op.client == 0 && r->op.flags == 0;
    return 0;
}

void ds_finish_store(struct ds_request *r)
{
    const struct snic_store_op *op = &r->op;
    /* A key whose time is over is there until its deletion: it has a TTL, which is not 0. */
    uint64_t ttl_ms = (op->ttl_ns + 999999u) / 1000000u;
    uint64_t numbers[6] = {op->out, op->version, op->seen, ttl_ms, op->copies, op->answer};

    if (op->result != 0 && op->result != SNIC_ENOENT && op->result != SNIC_ECANCELED &&
        op->result != SNIC_EEXIST && op->result != SNIC_EUNKNOWN) {
        ds_put_failure(r, op->result);
        return;
    }
    resp_put_count(&r->reply, '*', 8);
    resp_put_count(&r->reply, ':', op->result);
    for (uint32_t i = 0; i < SNIC_COUNTOF(numbers); i++)
        resp_put_count(&r->reply, ':', (int64_t)numbers[i]);
    if (op->data != NULL && op->result != SNIC_EUNKNOWN &&
        (op->kind == SNIC_STORE_GET || op->result == SNIC_ECANCELED))
        resp_put_bulk(&r->reply, op->data, op->size);
    else
        resp_put_text(&r->reply, "$-1\r\n");
}
