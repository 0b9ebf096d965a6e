/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* `ddp_server ctl`: status, drain, changes of the members, override. */
#include "ctl.h"

#include "cluster.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CTL_TRIES 20u      /* of a change that is not taken yet, in two seconds */
#define CTL_ADDRESSES 4096 /* bytes of a list of addresses */

static const char summary[] =
    "ddp_server ctl: the operator's tool.\n\n"
    "  status    each node's shards: state, epoch, members, lag of others, the log's fill\n"
    "  add       a new node --node N at --address, for clients at --client (--witness: that only\n"
    "            votes); then start it\n"
    "  remove    --node N: it votes no more, and its directory is dead\n"
    "  replace   --node N by one with an empty directory, at --address and --client if it moves\n"
    "  override  --ended N,N: these nodes have ended for ever, and the node of --connect "
    "continues\n"
    "            without a majority; only when a majority of the disks is lost\n"
    "  drain     the node of --connect answers what it has taken, and ends\n"
    "  backup    write a copy of all keys to --file, each as it is at its moment\n"
    "  restore   write the keys of --file; with --if-absent only those that do not exist. Keys "
    "that\n"
    "            the file does not have stay";

/* ---- status ---- */

static int64_t ctl_number(const struct ctl_reply *r, const char *name)
{
    const struct ctl_reply *v = ctl_reply_find(r, name);

    return v != NULL ? v->number : 0;
}

static const char *ctl_text(const struct ctl_reply *r, const char *name)
{
    const struct ctl_reply *v = ctl_reply_find(r, name);

    return v != NULL && v->text != NULL ? v->text : "?";
}

/* "0,1,2" */
static void ctl_set(const struct ctl_reply *r, const char *name, char *out, size_t max)
{
    const struct ctl_reply *v = ctl_reply_find(r, name);
    size_t n = 0;

    (void)snprintf(out, max, "-");
    for (size_t i = 0; v != NULL && i < v->count && n < max; i++)
        n += (size_t)snprintf(out + n, max - n, "%s%" PRId64, i > 0 ? "," : "", v->items[i].number);
}

/* What a shard that does not serve yet is doing. */
static void status_progress(const struct ctl_reply *s)
{
    const struct ctl_reply *p = ctl_reply_find(s, "progress");
    const struct ctl_reply *waits = ctl_reply_find(s, "waits");

    if (waits != NULL && waits->text != NULL && waits->text[0] != 0)
        printf("    waits %s\n", waits->text);
    if (p == NULL)
        return;
    if (ctl_number(p, "reading") != 0)
        printf("    opens its log: %" PRId64 " of at most %" PRId64 " bytes\n",
               ctl_number(p, "read_bytes"), ctl_number(p, "read_total"));
    if (ctl_number(p, "learning") != 0 || ctl_number(p, "pulled") + ctl_number(p, "confirmed") > 0)
        printf(
            "    %s: %" PRId64 "%% of the keys compared, %" PRId64 " of its own confirmed, %" PRId64
            " not yet, %" PRId64 " pulled (%" PRId64 " bytes)\n",
            ctl_number(p, "learning") != 0 ? "learns" : "has learned",
            ctl_number(p, "learned_percent"), ctl_number(p, "confirmed"),
            ctl_number(p, "unconfirmed"), ctl_number(p, "pulled"), ctl_number(p, "pulled_bytes"));
}

static int ctl_has(const struct ctl_reply *r, const char *name, int64_t node)
{
    const struct ctl_reply *v = ctl_reply_find(r, name);

    for (size_t i = 0; v != NULL && i < v->count; i++)
        if (v->items[i].number == node)
            return 1;
    return 0;
}

/* A member whose directory was lost, and who was started again without `replace`: it has every key,
 * and the next failure stops the cluster. */
static int status_voteless(const struct ctl_reply *s, int64_t node)
{
    return ctl_reply_find(s, "vote") != NULL && ctl_number(s, "vote") == 0 &&
           ctl_has(s, "full", node) && !ctl_has(s, "vacant", node);
}

/* A witness that does what it is for: it votes, and hears a majority. */
static int status_witness(const struct ctl_reply *s, int64_t node)
{
    const struct ctl_reply *hears = ctl_reply_find(s, "hears");
    const struct ctl_reply *configured = ctl_reply_find(s, "configured");

    return ctl_has(s, "witness", node) && ctl_number(s, "vote") != 0 && hears != NULL &&
           configured != NULL && 2 * hears->count > configured->count;
}

/* @return 1: it serves, or is a witness; and has its vote */
static int status_shard(const struct ctl_reply *s, int64_t node)
{
    int voteless = status_voteless(s, node);
    int writable = ctl_number(s, "writable") != 0 || ctl_has(s, "witness", node);
    const struct ctl_reply *peers = ctl_reply_find(s, "peers");
    int64_t segments = ctl_number(s, "log_segments");
    char full[64];
    char learners[64];
    char vacant[64];

    ctl_set(s, "vacant", vacant, sizeof(vacant));
    ctl_set(s, "full", full, sizeof(full));
    ctl_set(s, "learners", learners, sizeof(learners));
    printf("  shard %" PRId64 ": %s, epoch %" PRId64
           ", full %s, learners %s, vacant %s, min_full %" PRId64 "%s, %" PRId64
           " keys, log %" PRId64 "%% full\n",
           ctl_number(s, "shard"), ctl_text(s, "state"), ctl_number(s, "epoch"), full, learners,
           vacant, ctl_number(s, "min_full"), writable ? "" : " (writes are refused)",
           ctl_number(s, "keys"),
           segments > 0 ? 100 - 100 * ctl_number(s, "log_segments_free") / segments : 0);
    if (voteless)
        printf("    this node has no vote, since its directory was lost: `ddp_server ctl replace "
               "--node %" PRId64 "` gives it one\n",
               node);
    status_progress(s);
    for (size_t i = 0; peers != NULL && i < peers->count; i++) {
        const struct ctl_reply *p = &peers->items[i];
        const char *refusal = ctl_text(p, "refusal");

        printf("    node %" PRId64 ": %s, round trip %" PRId64 " us, flush %" PRId64
               " us, behind %" PRId64 " messages, %" PRId64 " bytes%s%s\n",
               ctl_number(p, "node"), ctl_text(p, "link"), ctl_number(p, "rtt_us"),
               ctl_number(p, "flush_us"), ctl_number(p, "lag_messages"), ctl_number(p, "lag_bytes"),
               refusal[0] != 0 ? ", refused: " : "", refusal);
    }
    return (ctl_number(s, "serves") != 0 && !voteless) || status_witness(s, node);
}

/* One node. @return 1: nothing is wrong */
static int status_node(const char *address, const struct ctl *c)
{
    const char *words[] = {"CLUSTER", "STATE"};
    const struct ctl_reply *shards;
    struct ctl_reply r;
    struct ctl_link l;
    char error[256];
    int serves = 1;

    if (ctl_link_open(&l, address, c, error, sizeof(error)) != 0) {
        printf("%s: %s\n", address, error);
        return 0;
    }
    ctl_link_command(&l, &r, words, 2);
    if (r.type == '-') {
        printf("%s: %s\n", address, r.text);
        ctl_reply_free(&r);
        ctl_link_close(&l);
        return 0;
    }
    printf("%s: node %" PRId64 " of %" PRId64 "\n", address, ctl_number(&r, "node"),
           ctl_number(&r, "nodes"));
    shards = ctl_reply_find(&r, "shards");
    for (size_t i = 0; shards != NULL && i < shards->count; i++)
        serves &= status_shard(&shards->items[i], ctl_number(&r, "node"));
    ctl_reply_free(&r);
    ctl_link_close(&l);
    return serves;
}

/* Does the node serve that has answered STORE NODES with @p r? */
static int ctl_serves(const struct ctl_reply *r)
{
    return r->count > 0 && r->items[0].number != 0;
}

/* The nodes of the configuration in force, as one of those in @p text knows them, into @p text: one
 * that serves, or else the first that answers. It stays if none does, or knows none. */
static void status_nodes(const struct ctl *c, char *text, size_t max)
{
    const char *words[] = {"STORE", "NODES"};
    char seeds[CTL_ADDRESSES];
    char *save = NULL;
    int serves = 0;

    (void)snprintf(seeds, sizeof(seeds), "%s", text);
    for (char *p = strtok_r(seeds, ",", &save); p != NULL && !serves;
         p = strtok_r(NULL, ",", &save)) {
        struct ctl_reply r;
        struct ctl_link l;
        char error[256];
        size_t n = 0;
        int take;

        if (ctl_link_open(&l, p, c, error, sizeof(error)) != 0)
            continue;
        ctl_link_command(&l, &r, words, 2);
        serves = ctl_serves(&r);
        take = serves || strcmp(text, c->connect) == 0;
        for (size_t i = 1; take && i < r.count && n < max; i++)
            n += (size_t)snprintf(text + n, max - n, "%s%s", i > 1 ? "," : "", r.items[i].text);
        ctl_reply_free(&r);
        ctl_link_close(&l);
    }
}

/* All nodes: those of --connect, or of the configuration in force. @return exit code: 1 something
 * is wrong */
static int ctl_status(const struct ctl *c)
{
    char text[CTL_ADDRESSES];
    char *save = NULL;
    int serve = 1;

    (void)snprintf(text, sizeof(text), "%s", c->connect);
    if (!c->connected)
        status_nodes(c, text, sizeof(text));
    for (char *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save))
        serve &= status_node(p, c);
    return serve ? 0 : 1;
}

/* ---- The others: of one node ---- */

static void ctl_drain(struct ctl_link *l, const struct ctl *c)
{
    const char *words[] = {"ADMIN", "DRAIN"};
    struct ctl_reply r;

    (void)c;
    ctl_link_command(l, &r, words, 2);
    if (r.type == '-')
        ex_die("%s: %s", l->address, r.text);
    ctl_reply_free(&r);
    printf("%s drains and ends\n", l->address);
}

/* Without --min-full it is a majority of those that hold data: a change of theirs is a change of
 * what writes need. */
static void members_floor(struct ctl_link *l, const struct ctl *c, int add)
{
    const char *words[] = {"CLUSTER", "STATE"};
    const struct ctl_reply *shards;
    const struct ctl_reply *s;
    struct ctl_reply r;
    size_t data = 0;
    size_t needed;

    ctl_link_command(l, &r, words, 2);
    shards = ctl_reply_find(&r, "shards");
    s = shards != NULL && shards->count > 0 ? &shards->items[0] : NULL;
    for (int64_t n = 0; s != NULL && n < DS_NODES_MAX; n++)
        data += ctl_has(s, "configured", n) && !ctl_has(s, "witness", n) && n != (int64_t)c->node;
    needed = (data + (size_t)add) / 2 + 1;
    if (s != NULL && ctl_number(s, "min_full_option") == 0 && data / 2 != (data + 1) / 2)
        printf("writes will need %zu node%s with all keys instead of %zu%s: start all nodes with "
               "--min-full for another number\n",
               needed, ctl_s(needed), (data + (size_t)!add) / 2 + 1,
               add ? ", from when the node has its vote on" : "");
    ctl_reply_free(&r);
}

/* Is the refusal that of a node that has the change already? Each shard refuses for itself: when it
 * is repeated, the first to have the change may have it by then. @p learned: an earlier one was
 * that the node learns. */
static int members_done(const struct ctl_reply *r, int learned)
{
    return learned && r->type == '-' && strstr(r->text, "has its vote") != NULL;
}

/* May the same request be taken a moment later: a shard is between two views, this node was out and
 * reads what it missed, or one that has just ended still counts as running? */
static int members_repeat(const struct ctl_reply *r)
{
    return ctl_reply_passing(r) || (r->type == '-' && strstr(r->text, "is alive") != NULL);
}

/* add, remove, replace: at a node that is not the one that changes. */
static void ctl_members(struct ctl_link *l, const struct ctl *c)
{
    char node[24];
    const char *words[7] = {"MEMBERS", c->verb, node};
    const struct timespec pause = {.tv_nsec = 100000000};
    int add = strcmp(c->verb, "add") == 0;
    int learned = 0;
    struct ctl_reply r;
    size_t n = 3;

    if (c->node == UINT64_MAX)
        ex_usage("--node is missing");
    if (c->address == NULL && add)
        ex_usage("--address is missing");
    (void)snprintf(node, sizeof(node), "%" PRIu64, c->node);
    if (c->address != NULL)
        words[n++] = c->address;
    if (c->client != NULL) {
        words[n++] = "CLIENT";
        words[n++] = c->client;
    }
    if (c->witness)
        words[n++] = "WITNESS";
    ctl_link_command(l, &r, words, n);
    for (uint32_t i = 0; i < CTL_TRIES && members_repeat(&r) && !members_done(&r, learned); i++) {
        learned |= strstr(r.text, "learns the keys") != NULL;
        (void)nanosleep(&pause, NULL);
        ctl_reply_free(&r);
        ctl_link_command(l, &r, words, n);
    }
    if (r.type == '-' && !members_done(&r, learned))
        ex_die("%s: %s", l->address, r.text);
    ctl_reply_free(&r);
    printf("%s of node %s is under way: done when `ddp_server ctl status` shows no vacant node, "
           "and the node %s; repeat it if not\n",
           c->verb, node, strcmp(c->verb, "remove") == 0 ? "gone" : "with its vote");
    if (!c->witness && strcmp(c->verb, "replace") != 0)
        members_floor(l, c, add);
    if (c->client == NULL && !c->witness && (add || c->address != NULL))
        printf("clients, and `ctl` itself, do not find the node by STORE NODES: --client was not "
               "given\n");
}

static void override_warn(const struct ctl *c)
{
    fprintf(stderr,
            "WARNING: override is for when a majority of the disks is lost for ever.\n"
            "  The node at %s will count the nodes %s as ended, and continue without them.\n"
            "  If one of them still runs, or is started again with the files that it has, both\n"
            "  sides take writes, and what one of them acknowledged is lost. Before this, make\n"
            "  certain that their processes have ended and that their directories are gone.\n"
            "  Writes that only they had are lost: those with durability `memory`, `here` or\n"
            "  `scope` that were not durable at this node.\n",
            c->connect, c->ended);
    if (c->any_log)
        fprintf(stderr, "  --any-log: this node may begin from a log that is not the newest. All "
                        "writes\n  that were acknowledged after it was left out may be lost.\n");
}

static void ctl_override(struct ctl_link *l, const struct ctl *c)
{
    const char *words[] = {"MEMBERS", "OVERRIDE", c->ended, "ANYLOG"};
    struct ctl_reply r;

    ctl_link_command(l, &r, words, c->any_log ? 4 : 3);
    if (r.type == '-')
        ex_die("%s: %s", l->address, r.text);
    ctl_reply_free(&r);
    printf("%s continues without the nodes %s when it can: `ddp_server ctl status`; then `replace` "
           "them, one after the other, with empty directories\n",
           l->address, c->ended);
}

/* What has to be right before anything is sent. */
static void override_check(const struct ctl *c)
{
    if (c->ended == NULL)
        ex_usage("--ended is missing: the nodes that have ended for ever");
    if (!c->connect_one)
        ex_usage("--connect is missing: override needs the address of the one node that continues");
    override_warn(c);
    if (!c->yes)
        ex_die("nothing was done: repeat it with --yes if all of this is certain");
}

/* The first node of --connect that can be reached, and that serves if it has to. */
static void ctl_open(struct ctl_link *l, const struct ctl *c, int serving)
{
    static char text[CTL_ADDRESSES];
    const char *words[] = {"STORE", "NODES"};
    char *save = NULL;
    char error[256] = "no address";

    (void)snprintf(text, sizeof(text), "%s", c->connect);
    for (char *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save)) {
        struct ctl_reply r = {0};
        int serves = 0;

        if (ctl_link_open(l, p, c, error, sizeof(error)) != 0)
            continue;
        if (serving) {
            ctl_link_command(l, &r, words, 2);
            serves = ctl_serves(&r);
            ctl_reply_free(&r);
        }
        if (serves || !serving)
            return;
        (void)snprintf(error, sizeof(error), "%s does not serve: `ddp_server ctl status`", p);
        ctl_link_close(l);
    }
    ex_die("cannot connect to %s (%s): %s", c->connect,
           c->connected || c->config == NULL
               ? "--connect"
               : "the founders' addresses, of --config: name others with --connect",
           error);
}

static void ctl_options(struct ctl *c, struct ds_config *config, int argc, char **argv)
{
    const struct ex_option options[] = {
        {"connect", EX_TEXT, &c->connect, "ADDRESS:PORT,...",
         "nodes; default those that --config has for clients (status: all that these know of), or "
         "127.0.0.1:6379",
         0, 0, NULL},
        {"config", EX_TEXT, &c->config, "FILE", "of `ddp_server found`", 0, 0, NULL},
        {"cluster-key", EX_TEXT, &c->key_file, "FILE",
         "the cluster's key; default FILE.key beside --config", 0, 0, NULL},
        {"node", EX_NUMBER, &c->node, "N", "of add, remove and replace", 0, DS_NODES_MAX - 1, NULL},
        {"address", EX_TEXT, &c->address, "ADDRESS:PORT",
         "of that node for the others; shard S uses the port plus S", 0, 0, NULL},
        {"client", EX_TEXT, &c->client, "ADDRESS:PORT",
         "of that node for clients: STORE NODES names it", 0, 0, NULL},
        {"witness", EX_FLAG, &c->witness, NULL, "add: it votes and holds no data", 0, 0, NULL},
        {"ended", EX_TEXT, &c->ended, "N,...", "override: these nodes have ended for ever", 0, 0,
         NULL},
        {"any-log", EX_FLAG, &c->any_log, NULL,
         "override: also begin from a log that others' may be newer than", 0, 0, NULL},
        {"yes", EX_FLAG, &c->yes, NULL, "override: the warning is understood", 0, 0, NULL},
        {"file", EX_TEXT, &c->file, "PATH", "of backup and restore", 0, 0, NULL},
        {"if-absent", EX_FLAG, &c->if_absent, NULL, "restore: keys that exist stay as they are", 0,
         0, NULL},
    };

    ex_synopsis = "ctl status|add|remove|replace|override|drain|backup|restore [OPTION]...";
    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
    if (c->config != NULL)
        ds_cluster_read(config, c->config);
    if (c->key_file == NULL)
        c->key_file = config->key_file;
    if (c->key_file == NULL)
        ex_usage("--config or --cluster-key is missing: ctl has to prove the cluster's key");
    c->connected = c->connect != NULL;
    c->connect_one = c->connect != NULL && strchr(c->connect, ',') == NULL;
    if (c->connect == NULL)
        c->connect = config->clients_text != NULL ? config->clients_text : "127.0.0.1:6379";
    ds_cluster_key_read(c->key_file, c->key);
    c->secret = ds_cluster_secret(c->key);
}

int ds_ctl(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct ctl_link *l, const struct ctl *c);
        int file;
    } verbs[] = {{"add", ctl_members, 0},     {"remove", ctl_members, 0},
                 {"replace", ctl_members, 0}, {"override", ctl_override, 0},
                 {"drain", ctl_drain, 0},     {"backup", ctl_backup, 1},
                 {"restore", ctl_restore, 1}};
    static struct ds_config config;
    struct ctl c = {.verb = argc > 1 ? argv[1] : "", .node = UINT64_MAX};
    struct ctl_link l;
    size_t i = 0;
    int verb = argc > 1 && argv[1][0] != '-';

    ctl_options(&c, &config, argc - verb, argv + verb);
    if (strcmp(c.verb, "status") == 0) {
        int code = ctl_status(&c);

        snic_ebs_openssl_close(c.secret);
        return code;
    }
    while (i < SNIC_COUNTOF(verbs) && strcmp(c.verb, verbs[i].name) != 0)
        i++;
    if (i == SNIC_COUNTOF(verbs))
        ex_usage("'%s' is none of status, add, remove, replace, override, drain, backup, restore",
                 c.verb);
    if (verbs[i].file && c.file == NULL)
        ex_usage("--file is missing");
    if (c.node != UINT64_MAX && verbs[i].run != ctl_members)
        ex_usage("--node is of add, remove and replace: %s is of the node of --connect", c.verb);
    if (verbs[i].run == ctl_drain && !c.connect_one)
        ex_usage("--connect is missing: drain needs the address of the one node that ends");
    if (verbs[i].run == ctl_override)
        override_check(&c);
    ctl_open(&l, &c, verbs[i].file);
    verbs[i].run(&l, &c);
    ctl_link_close(&l);
    snic_ebs_openssl_close(c.secret);
    return 0;
}
