/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The client from outside: options, memory, the beginning and the end. */
#include "storeclient_priv.h"

/* ---- Options ---- */

static void storeclient_default(uint64_t *v, uint64_t value)
{
    if (*v == 0)
        *v = value;
}

static const char *storeclient_opts(struct snic_storeclient_opts *o,
                                    const struct snic_storeclient_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->ops_max == 0)
        o->ops_max = 256;
    storeclient_default(&o->timeout_ns, UINT64_C(10000000000));
    storeclient_default(&o->attempt_ns, 1000000000);
    storeclient_default(&o->probe_ns, 1000000000);
    storeclient_default(&o->retry_ns, 10000000);
    if (o->flags != 0)
        return "flags: not 0";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or on another loop";
    if (o->addrs == NULL || o->addr_count == 0 || o->addr_count > SNIC_STORECLIENT_NODES_MAX)
        return "addrs: NULL, or addr_count is not 1 to SNIC_STORECLIENT_NODES_MAX";
    if (o->ops_max > 65536)
        return "ops_max: more than 65536";
    if (o->client == 0)
        return "client: 0";
    if (o->password != NULL && strlen(o->password) > SNIC_STORECLIENT_PASSWORD_MAX)
        return "password: longer than SNIC_STORECLIENT_PASSWORD_MAX";
    uint64_t most = UINT64_C(1) << 40;
    if (o->timeout_ns > most || o->attempt_ns > most || o->probe_ns > most || o->retry_ns > most)
        return "timeout_ns, attempt_ns, probe_ns or retry_ns: more than 2^40";
    return NULL;
}

const char *snic_storeclient_opts_wrong(const struct snic_storeclient_opts *opts)
{
    struct snic_storeclient_opts o;
    return storeclient_opts(&o, opts);
}

/* ---- Memory ---- */

/* Once to measure, once to place. */
static void storeclient_layout(struct snic_arena *a, struct snic_storeclient *c)
{
    c->attempts_max = 2 * c->o.ops_max;
    c->buckets = (uint32_t)snic_pow2_up(c->o.ops_max);
    c->node = snic_arena_take(a, SNIC_STORECLIENT_NODES_MAX, sizeof(*c->node), SNIC_CACHELINE);
    c->attempts = snic_arena_take(a, c->attempts_max, sizeof(*c->attempts), SNIC_CACHELINE);
    c->bucket = snic_arena_take(a, c->buckets, sizeof(*c->bucket), SNIC_CACHELINE);
}

size_t snic_storeclient_memsize(const struct snic_storeclient_opts *opts)
{
    struct snic_storeclient c;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    memset(&c, 0, sizeof(c));
    if (storeclient_opts(&c.o, opts) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(c), SNIC_STORECLIENT_ALIGN);
    storeclient_layout(&a, &c);
    return a.used;
}

int snic_storeclient_init(struct snic_storeclient **out, void *mem, size_t mem_size,
                          const struct snic_storeclient_opts *opts)
{
    struct snic_storeclient_opts o;
    struct snic_arena a = {mem, mem_size, 0};
    if (storeclient_opts(&o, opts) != NULL || (uintptr_t)mem % SNIC_STORECLIENT_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < snic_storeclient_memsize(opts))
        return SNIC_ENOSPC;
    struct snic_storeclient *c = snic_arena_take(&a, 1, sizeof(*c), SNIC_STORECLIENT_ALIGN);
    memset(c, 0, sizeof(*c));
    c->o = o;
    if (o.password != NULL) {
        memcpy(c->password, o.password, strlen(o.password) + 1);
        c->o.password = c->password;
    }
    storeclient_layout(&a, c);
    memset(c->attempts, 0, c->attempts_max * sizeof(*c->attempts));
    snic_link_init(&c->free);
    snic_link_init(&c->ended);
    snic_link_init(&c->waiting);
    snic_link_init(&c->flight);
    snic_link_init(&c->done);
    snic_timer_init(&c->deliver, storeclient_deliver_fire);
    snic_put_le64(c->hash_key, o.client);
    for (uint32_t i = 0; i < c->buckets; i++)
        snic_link_init(&c->bucket[i]);
    for (uint32_t i = 0; i < c->attempts_max; i++) {
        c->attempts[i].sent = 1;
        snic_link_init(&c->attempts[i].of_op);
        snic_link_append(&c->free, &c->attempts[i].link);
    }
    for (uint32_t i = 0; i < o.addr_count; i++)
        storeclient_node_begin(c, &o.addrs[i]);
    c->o.addrs = NULL; /* copied */
    *out = c;
    return 0;
}

/* ---- The end ---- */

void snic_storeclient_stop(struct snic_storeclient *c)
{
    if (c->stopped)
        return;
    c->stopped = 1;
    storeclient_ops_stop(c);
    storeclient_nodes_stop(c);
}

int snic_storeclient_idle(const struct snic_storeclient *c)
{
    if (!c->stopped || c->ops != 0)
        return 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (c->node[i].conn != NULL)
            return 0;
    }
    return 1;
}

void *snic_storeclient_fini(struct snic_storeclient *c)
{
    SNIC_ASSERT(snic_storeclient_idle(c));
    snic_loop_cancel(c->o.loop, &c->deliver);
    return c;
}

/* ---- Operations ---- */

/* An option that the kind does not have. */
static int storeclient_op_foreign(const struct snic_storeclient_op *op)
{
    uint32_t flags = op->kind == SNIC_STORE_GET   ? (uint32_t)SNIC_STORE_CONFIRM
                     : op->kind == SNIC_STORE_PUT ? (uint32_t)SNIC_STORE_KEEP_TTL
                                                  : 0;
    if ((op->flags & ~flags) != 0)
        return 1;
    if (op->kind != SNIC_STORE_PUT && (op->data != NULL || op->size != 0))
        return 1;
    if (op->kind != SNIC_STORE_PUT && op->kind != SNIC_STORE_EXPIRE && op->ttl_ns != 0)
        return 1;
    if (op->kind == SNIC_STORE_GET)
        return op->condition != SNIC_STORE_ALWAYS || op->copies_min != 0 ||
               op->durability == SNIC_DDP_DURABILITY_HERE;
    return 0;
}

static int storeclient_op_wrong(const struct snic_storeclient_op *op)
{
    if (op->kind != SNIC_STORE_GET && op->kind != SNIC_STORE_PUT && op->kind != SNIC_STORE_DELETE &&
        op->kind != SNIC_STORE_EXPIRE)
        return SNIC_EINVAL;
    if (op->condition > SNIC_STORE_IF_VERSION || op->durability > SNIC_DDP_DURABILITY_ALL ||
        storeclient_op_foreign(op) || op->ttl_ns % 1000000 != 0)
        return SNIC_EINVAL;
    if ((op->key == NULL && op->key_size != 0) || (op->data == NULL && op->size != 0) ||
        (op->out == NULL && op->out_max != 0))
        return SNIC_EINVAL;
    if (op->key_size > SNIC_STORE_KEY_MAX || op->size > SNIC_STORE_VALUE_MAX)
        return SNIC_EMSGSIZE;
    return 0;
}

int snic_storeclient_submit(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    SNIC_ASSERT(op->done != NULL && op->state == STORECLIENT_O_FREE);
    if (c->stopped)
        return SNIC_ESTALE;
    int result = storeclient_op_wrong(op);
    if (result != 0)
        return result;
    if (c->ops == c->o.ops_max)
        return SNIC_EAGAIN;
    storeclient_op_begin(c, op);
    if (!c->settling && !c->deliver.armed)
        snic_loop_arm(c->o.loop, &c->deliver, 0);
    return 0;
}

const char *snic_storeclient_result_text(int result)
{
    switch (result) {
    case SNIC_ENOENT:
        return "the key does not exist";
    case SNIC_ECANCELED:
        return "the condition does not hold, or the client was stopped; nothing was written";
    case SNIC_EEXIST:
        return "another key has the same hash";
    case SNIC_EUNKNOWN:
        return "outcome unknown: the write is executed once, now or later, or never";
    case SNIC_ESTALE:
        return "no node serves: no majority of them is connected, or they still learn the keys; "
               "nothing was written";
    case SNIC_EAGAIN:
        return "the nodes had no room for the operation until the time was over; nothing was "
               "written";
    case SNIC_ENOQUORUM:
        return "fewer nodes have all keys than the write needs; nothing was written";
    case SNIC_ETIMEDOUT:
        return "no node has answered in time; nothing was written";
    case SNIC_EMSGSIZE:
        return "a value is longer than out_max, or than the nodes take";
    case SNIC_ENOSPC:
        return "the nodes have no space left: delete keys";
    case SNIC_EACCES:
        return "the nodes do not accept the password";
    case SNIC_EPROTO:
        return "a node does not understand the command STORE";
    default:
        return snic_strerror(result);
    }
}

/* ---- Looking ---- */

void snic_storeclient_get_stats(const struct snic_storeclient *c,
                                struct snic_storeclient_stats *out)
{
    *out = c->stats;
    out->ops = c->ops;
    out->nodes = c->nodes;
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct storeclient_node *n = &c->node[i];
        struct snic_storeclient_node *o = &out->node[i];
        o->addr = n->addr;
        o->connected = n->state == STORECLIENT_N_READY;
        o->serves = n->serves;
        o->rtt_ns = n->rtt_ns;
        o->attempts = n->count;
        o->late = n->late;
    }
}

int snic_storeclient_check(const struct snic_storeclient *c)
{
    const struct snic_link *const lists[3] = {&c->waiting, &c->flight, &c->done};
    uint32_t ops = 0;
    for (uint32_t i = 0; i < 3; i++) {
        for (const struct snic_link *l = lists[i]->next; l != lists[i]; l = l->next) {
            const struct snic_storeclient_op *op =
                SNIC_CONTAINER(l, struct snic_storeclient_op, link);
            uint32_t current = 0, unsent = 0;
            for (const struct snic_link *k = op->attempts_list.next; k != &op->attempts_list;
                 k = k->next) {
                const struct storeclient_attempt *a =
                    SNIC_CONTAINER(k, struct storeclient_attempt, of_op);
                current += !a->late && !a->ended;
                unsent += !a->sent;
                if (a->op != op)
                    return SNIC_ECORRUPT;
            }
            if (current > 1 || unsent != op->unsent || (i == 2 && unsent != 0))
                return SNIC_ECORRUPT; /* C1, C2 */
            ops++;
        }
    }
    return ops == c->ops ? 0 : SNIC_ECORRUPT;
}
