/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ADMIN: what an operator does, for clients that have proved the cluster's key:
 *     ADMIN CHALLENGE            32 hexadecimal digits, for this connection
 *     ADMIN PROVE proof          HMAC-SHA-256 under the key of "ddp_server admin", 0, the challenge
 *     ADMIN DRAIN                as SIGTERM
 *     MEMBERS ADD node address [CLIENT address] [WITNESS]    MEMBERS REMOVE node
 *     MEMBERS REPLACE node [address] [CLIENT address]
 *     MEMBERS OVERRIDE node[,node...] [ANYLOG]     these have ended for ever
 * A proof answers one challenge, so one that was overheard is of no use.
 */
#include "cluster.h"
#include "commands.h"

#include <string.h>

/* `number` of a shard where members_runs() applies: the node was heard a moment ago, or a
 * connection with it exists, too. */
#define MEMBERS_RUNS 2
#define MEMBERS_ALIVE 3

static void admin_challenge(struct ds_call *k)
{
    char text[2 * DS_NONCE + 1];

    ds_random(k->client->nonce, DS_NONCE);
    k->client->challenged = 1;
    ds_hex_write(k->client->nonce, DS_NONCE, text);
    ds_put_text(k->reply, text);
}

static void admin_prove(struct ds_call *k)
{
    unsigned char want[DS_PROOF];
    unsigned char proof[DS_PROOF];
    unsigned char differs = 0;
    int challenged = k->client->challenged;

    k->client->challenged = 0;
    if (k->shard->secret == NULL) {
        ds_error(k->reply, "ERR the node was started without --cluster-key");
        return;
    }
    if (challenged && k->argv[2].size == 2 * DS_PROOF &&
        ds_hex_read((const char *)k->argv[2].data, 2 * DS_PROOF, proof) == 0) {
        ds_cluster_prove(k->shard->secret, k->client->nonce, want);
        for (uint32_t i = 0; i < DS_PROOF; i++)
            differs |= want[i] ^ proof[i];
        if (differs == 0) {
            k->client->admin = k->client->auth = 1;
            resp_put_text(k->reply, "+OK\r\n");
            return;
        }
    }
    k->shard->auth_failures++;
    ds_error(
        k->reply,
        "WRONGPASS it is not the cluster's key that this node has, or the challenge was another");
}

void ds_cmd_admin(struct ds_call *k)
{
    if (k->argc == 2 && resp_arg_is(&k->argv[1], "challenge")) {
        admin_challenge(k);
    } else if (k->argc == 3 && resp_arg_is(&k->argv[1], "prove")) {
        admin_prove(k);
    } else if (!k->client->admin) {
        ds_error(k->reply, "NOPERM ADMIN needs the cluster's key: ADMIN CHALLENGE, then PROVE");
    } else if (k->argc == 2 && resp_arg_is(&k->argv[1], "drain")) {
        ds_node_drain(k->shard->node);
        resp_put_text(k->reply, "+OK\r\n");
    } else {
        ds_error(k->reply, "ERR unknown subcommand or wrong number of arguments for 'admin'");
    }
}

/* ---- MEMBERS ---- */

/* The addresses that a request has room for. */
struct members_addrs {
    struct snic_net_addr node;
    struct snic_net_addr client;
};

/* An argument that is ADDRESS:PORT. 0; -1 the error is put */
static int members_address(struct ds_request *r, const struct resp_arg *a,
                           struct snic_net_addr *out)
{
    char text[128];

    if (a->size < sizeof(text)) {
        memcpy(text, a->data, a->size);
        text[a->size] = 0;
        if (snic_net_addr_parse(out, text) == 0)
            return 0;
    }
    ds_error(&r->reply, "ERR '%.*s' is not ADDRESS:PORT", (int)snic_min_u64(a->size, 128),
             (const char *)a->data);
    return -1;
}

/* What follows the node's number. 0; -1 it makes no sense, and no error is put; 1 the error is put
 */
static int members_more(struct ds_request *r, struct snic_replica_request *q,
                        struct members_addrs *a)
{
    uint32_t i = 3;

    if (i < r->argc && !resp_arg_is(&r->argv[i], "client") &&
        !resp_arg_is(&r->argv[i], "witness")) {
        if (members_address(r, &r->argv[i++], &a->node) != 0)
            return 1;
        a->node.port = (uint16_t)(a->node.port + r->shard->index);
        q->addr = &a->node;
    }
    if (i + 1 < r->argc && resp_arg_is(&r->argv[i], "client")) {
        if (members_address(r, &r->argv[i + 1], &a->client) != 0)
            return 1;
        q->client_addr = &a->client;
        i += 2;
    }
    if (i < r->argc && resp_arg_is(&r->argv[i], "witness")) {
        q->flags = SNIC_MEMBER_WITNESS;
        i++;
    }
    return i == r->argc && (q->kind != SNIC_MEMBER_ADD || q->addr != NULL) &&
                   (q->kind != SNIC_MEMBER_REMOVE || r->argc == 3)
               ? 0
               : -1;
}

/* The request of the arguments. 0; -1 the error is put */
static int members_request(struct ds_request *r, struct snic_replica_request *q,
                           struct members_addrs *a)
{
    static const char *const verbs[] = {"", "add", "remove", "replace"};
    int64_t node;
    int wrong = -1;

    memset(q, 0, sizeof(*q));
    for (uint32_t i = 1; i < SNIC_COUNTOF(verbs); i++)
        if (resp_arg_is(&r->argv[1], verbs[i]))
            q->kind = i;
    if (q->kind != 0 && resp_number(r->argv[2].data, r->argv[2].size, &node) == 0 && node >= 0 &&
        node < DS_NODES_MAX) {
        q->node = (uint32_t)node;
        wrong = members_more(r, q, a);
    }
    if (wrong < 0)
        ds_error(&r->reply, "ERR MEMBERS ADD node address [CLIENT address] [WITNESS] | REMOVE node "
                            "| REPLACE node [address] [CLIENT address]");
    return wrong == 0 ? 0 : -1;
}

static void members_failed(struct ds_request *r, const struct snic_replica_request *q, int rc)
{
    switch (rc) {
    case SNIC_EBUSY:
        ds_error(&r->reply, "TRYAGAIN the last change is not complete: a node of it is not FULL");
        break;
    case SNIC_ENOQUORUM:
        ds_error(&r->reply,
                 "TRYAGAIN without node %u no majority of voters would be heard, or no node "
                 "would have all keys",
                 q->node);
        break;
    case SNIC_ENOSPC:
        ds_error(&r->reply, "ERR this node has no memory for one more node: restart each node with "
                            "the addresses of all in --peers first");
        break;
    case SNIC_EINVAL:
        ds_error(&r->reply,
                 "ERR node %u cannot be changed at itself, or an address is wrong: with "
                 "one of IPv6 that for clients has to have the same host",
                 q->node);
        break;
    default:
        ds_put_failure(r, rc);
        break;
    }
}

/* "0,1" as a mask. @return 0: it is no list of nodes */
static uint16_t members_mask(const struct resp_arg *list)
{
    uint32_t mask = 0;
    uint32_t from = 0;

    for (uint32_t i = 0; i <= list->size; i++) {
        int64_t node;

        if (i < list->size && list->data[i] != ',')
            continue;
        if (resp_number(list->data + from, i - from, &node) != 0 || node < 0 ||
            node >= DS_NODES_MAX)
            return 0;
        mask |= 1u << node;
        from = i + 1;
    }
    return (uint16_t)mask;
}

static void members_override(struct ds_request *r)
{
    int any_log = r->argc == 4 && resp_arg_is(&r->argv[3], "anylog");
    uint16_t ended = members_mask(&r->argv[2]);
    int rc;

    if (ended == 0 || r->argc != 3u + (uint32_t)any_log) {
        ds_error(&r->reply, "ERR MEMBERS OVERRIDE node[,node...] [ANYLOG]");
        return;
    }
    rc = snic_replica_override(snic_store_replica(r->shard->store), ended, any_log);
    if (rc == SNIC_EINVAL)
        ds_error(&r->reply, "ERR one of these nodes is not configured, or is this node itself");
    else if (rc == SNIC_EAGAIN)
        ds_error(&r->reply, "LOADING shard %u reads its log: repeat it later", r->shard->index);
    else if (rc != 0)
        ds_put_failure(r, rc);
    else
        ex_log(EX_WARNING, "shard %u: an operator overrides: nodes 0x%x have ended for ever%s",
               r->shard->index, ended, any_log ? ", any log may be used" : "");
}

/* Does another shard of this node hear @p node? What it published last counts. */
static int members_heard_elsewhere(const struct ds_shard *s, uint32_t node)
{
    struct ds_node *n = s->node;
    int heard = 0;

    for (uint32_t i = 0; i < n->count; i++) {
        struct ds_shard *other = &n->shards[i];

        if (other == s)
            continue;
        (void)pthread_mutex_lock(&other->lock);
        heard |= other->snapshot.replica.member.hears >> node & 1;
        (void)pthread_mutex_unlock(&other->lock);
    }
    return heard;
}

/*
 * A node that is to be replaced, and runs: with a directory that has the vote, or is new and will
 * have it. To replace it now would void that directory; a request may be the repetition of one that
 * other shards refused. One that this shard has not heard of yet, or for a moment, another may
 * have, and one that has ended shows in a view that counts it, until that is another.
 * @return 1: it is so, and `number` or the error is set
 */
static int members_runs(struct ds_request *r, const struct snic_replica_request *q)
{
    struct snic_replica_peer_stats peer;
    struct snic_replica_stats i;
    const struct snic_member_view *v = &i.member.view;
    uint16_t learns;

    snic_replica_get_stats(snic_store_replica(r->shard->store), &i);
    learns = (uint16_t)(v->learners | (i.member.hears & ~(v->full | v->witness)));
    if (q->kind != SNIC_MEMBER_REPLACE)
        return 0;
    if (((v->vacant & learns) | i.member.voting) >> q->node & 1) {
        r->number =
            snic_replica_get_peer(snic_store_replica(r->shard->store), q->node, &peer) == 0 &&
                    peer.state == SNIC_REPLICA_PEER_UP
                ? MEMBERS_ALIVE
                : MEMBERS_RUNS;
    } else if (learns >> q->node & 1) {
        ds_error(&r->reply,
                 "TRYAGAIN node %u learns the keys: repeat it when it has them, and its "
                 "directory gets the vote; or stop it first, for an empty one",
                 q->node);
    } else if ((i.member.hears >> q->node & 1) == 0 &&
               (v->full >> q->node & 1 || members_heard_elsewhere(r->shard, q->node))) {
        ds_error(&r->reply, "TRYAGAIN node %u may run: not all shards have noticed its end",
                 q->node);
    } else {
        return 0;
    }
    return 1;
}

/*
 * A node that moves, and clients have an address of it: STORE NODES would name that for ever, right
 * or not. With one of IPv6 a view may have no room for the other.
 * @return 1: it is so, and the error is put
 */
static int members_astray(struct ds_request *r, const struct snic_replica_request *q)
{
    struct snic_replica_stats i;
    const char *known;
    char text[64];

    if (q->kind != SNIC_MEMBER_REPLACE || q->addr == NULL || q->client_addr != NULL ||
        q->addr->family == SNIC_NET_IPV6)
        return 0;
    snic_replica_get_stats(snic_store_replica(r->shard->store), &i);
    known = ds_state_client(r->shard->node->config, &i.member.view, q->node, text);
    if (known != NULL)
        ds_error(&r->reply,
                 "ERR clients reach node %u at %s: with another address name where they reach it "
                 "then, too (--client)",
                 q->node, known);
    return known != NULL;
}

/* Would shard S of both need one port? */
static int members_overlap(const struct snic_net_addr *a, const struct snic_net_addr *b,
                           uint32_t shards)
{
    return a->family == b->family && a->node == b->node &&
           memcmp(a->ip, b->ip, sizeof(a->ip)) == 0 &&
           (uint32_t)(a->port > b->port ? a->port - b->port : b->port - a->port) < shards;
}

/*
 * The address is that of another node, as --peers of this one have it: the node would never be
 * heard there. One that a view has with its address for clients was added or has moved: --peers may
 * be older than that.
 * @return 1: it is so, and the error is put
 */
static int members_taken(struct ds_request *r, const struct snic_replica_request *q)
{
    const struct ds_config *c = r->shard->node->config;
    struct snic_replica_stats s;
    const struct snic_member_view *v = &s.member.view;

    if (q->addr == NULL)
        return 0;
    snic_replica_get_stats(snic_store_replica(r->shard->store), &s);
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct snic_net_addr a = c->addrs[i];
        struct snic_net_addr client;

        a.port = (uint16_t)(a.port + r->shard->index);
        if (i == q->node || (v->configured >> i & 1) == 0 ||
            (i != c->node && snic_replica_client_addr(v, i, &client) == 0) ||
            !members_overlap(&a, q->addr, r->shard->node->count))
            continue;
        ds_error(&r->reply, "ERR %.*s has a port of node %u, by --peers of node %u",
                 (int)snic_min_u64(r->argv[3].size, 128), (const char *)r->argv[3].data, i,
                 (uint32_t)c->node);
        return 1;
    }
    return 0;
}

/* A shard that has the change already counts in `number`, so that a request can be repeated. */
void ds_visit_members(struct ds_request *r)
{
    struct snic_replica_request q;
    struct members_addrs addrs;
    int rc;

    if (resp_arg_is(&r->argv[1], "override")) {
        members_override(r);
    } else if (members_request(r, &q, &addrs) == 0 && !members_taken(r, &q) &&
               !members_astray(r, &q) && !members_runs(r, &q)) {
        rc = snic_replica_reconfigure(snic_store_replica(r->shard->store), &q);
        r->number = rc == SNIC_EEXIST || rc == SNIC_ENOENT;
        if (rc != 0 && !r->number)
            members_failed(r, &q, rc);
    }
    ds_request_end(r);
}

void ds_join_members(struct ds_request *r)
{
    uint32_t there = 0;
    int runs = 0;
    int alive = 0;

    for (uint32_t i = 0; i < r->parts_count; i++) {
        there += r->parts[i]->number != 0;
        runs |= r->parts[i]->number == MEMBERS_RUNS;
        alive |= r->parts[i]->number == MEMBERS_ALIVE;
    }
    if (there < r->parts_count)
        resp_put_text(&r->reply, "+OK\r\n");
    else if (alive)
        ds_error(&r->reply,
                 "ERR node %.*s is alive, and has its vote or will have it: stop it first "
                 "(`ddp_server ctl drain`), to replace it by one with an empty directory",
                 (int)r->argv[2].size, (const char *)r->argv[2].data);
    else if (runs)
        ds_error(&r->reply,
                 "TRYAGAIN the node runs, and has its vote or will have it: stop it first, to "
                 "replace it by one with an empty directory");
    else if (resp_arg_is(&r->argv[1], "add"))
        ds_error(&r->reply, "ERR the node is configured already, or there is a witness");
    else
        ds_error(&r->reply, "ERR no such node is configured");
}
