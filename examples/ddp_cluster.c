/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ddp_cluster: a replicated table of N nodes in one process, over a simulated network and simulated
 * disks, driven by a script or by hand. With `trace on` it prints each message of the protocol,
 * each record that goes to a log and each that is durable: to see what a model does, and when.
 *
 *     ddp_cluster [--nodes N] [--model synch|strict|renf|event|scope] [--witness N] [--paper]
 *                 [--disk-us N] [SCRIPT]
 *
 * Commands, one a line (# begins a comment):
 *     put NODE KEY VALUE [&]     get NODE KEY [&]     del NODE KEY [&]
 *     cas NODE KEY OLD NEW [&]   OLD: the value it is to replace, - for nothing
 *     persist NODE [&]           with model scope: what was written at that node
 *     crash NODE   power NODE   crash all   power all   restart NODE   restart all
 *     partition A B [one-way]    heal
 *     run MS       show          trace on|off          help          quit
 * Keys, up to 16 bytes, and values are words. A command waits for its answer, at most 2 s of
 * simulated time; with & it does not wait.
 *
 * Nothing is left to chance: delays are fixed, so a script always prints the same. Exit code 0; 1:
 * a line was no command, and was left out, or it failed; 2: a mistake on the command line.
 */
#include "snicstore/replica.h"

#include "output.h"
#include "version.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 7, OPS = 64, LINE = 256, WORDS = 8, KEY = 16, PORT = 7000 };
enum { DISK_BYTES = 1 << 20, MS = 1000000 };

struct node {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_replica *r;
    void *mem;
    uint32_t number;
    uint32_t starts;
    uint64_t scope;
};

struct op {
    struct snic_replica_op op;
    int used;
    uint32_t node;
    char text[LINE];
};

static struct {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *clock;
    struct snic_timer tick;
    struct snic_net_addr addrs[SNIC_DDP_NODES_MAX];
    struct node node[NODES];
    struct op op[OPS];
    uint32_t nodes;
    uint32_t model;
    uint32_t flags;
    uint64_t witness; /* number of a node; none if there is no such node */
    uint64_t disk_us;
    uint64_t start;
    int trace;
} g = {.nodes = 3, .model = SNIC_DDP_SYNCH, .witness = UINT64_MAX, .disk_us = 100};

static void die(int code, const char *format, ...) SNIC_PRINTF(2, 3);
static void die(int code, const char *format, ...)
{
    va_list ap;
    (void)fprintf(stderr, "ddp_cluster: ");
    va_start(ap, format);
    (void)vfprintf(stderr, format, ap);
    va_end(ap);
    (void)fprintf(stderr, "\n");
    exit(code);
}

static void trace(const char *format, ...) SNIC_PRINTF(1, 2);
static void trace(const char *format, ...)
{
    uint64_t us = (snic_world_now(g.world) - g.start) / 1000;
    va_list args;
    printf("%6llu.%03llu  ", (unsigned long long)(us / 1000), (unsigned long long)(us % 1000));
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    printf("\n");
}

/* ---- Names ---- */

static struct snic_ddp_key key_of(const char *name)
{
    struct snic_ddp_key k = {{0, 0}};
    memcpy(&k, name, snic_min_u64(strlen(name), sizeof(k)));
    return k;
}

/* Up to 16 bytes, ended. */
static const char *key_name(const struct snic_ddp_key *k)
{
    static char text[KEY + 1];
    memcpy(text, k, KEY);
    text[KEY] = '\0';
    return text;
}

static const char *ts_name(uint64_t ts)
{
    static char text[4][40];
    static unsigned next;
    char *t = text[next++ % 4];
    (void)snprintf(t, 40, "%u.%llu.%u", snic_ddp_ts_epoch(ts),
                   (unsigned long long)snic_ddp_ts_version(ts), snic_ddp_ts_node(ts));
    return t;
}

static const char *mask_name(uint32_t mask)
{
    static char text[2][4 * 16];
    static unsigned next;
    char *t = text[next++ % 2];
    size_t n = 0;
    for (uint32_t i = 0; i < 16; i++) {
        if ((mask >> i & 1) != 0)
            n += (size_t)snprintf(t + n, 64 - n, "%s%u", n != 0 ? "," : "", i);
    }
    if (n == 0)
        (void)snprintf(t, 64, "-");
    return t;
}

static const char *const message_names[] = {
    "?",      "INV",     "ACK",         "ACK_C",       "ACK_P",         "VAL",       "VAL_C",
    "VAL_P",  "PERSIST", "PERSIST_ACK", "PERSIST_VAL", "QUERY",         "NACK",      "PULL",
    "RECORD", "PULLED",  "DIGEST",      "RESTARTED",   "PURGE_REQUEST", "PURGE_ACK", "PURGE"};

/* ---- What is printed ---- */

static void trace_send(uint32_t node, const struct snic_replica_trace *t)
{
    const struct snic_ddp_msg *m = &t->action->msg;
    char value[40] = "";
    if (m->type == SNIC_DDP_DIGEST)
        return; /* 64 of them */
    if (t->data != NULL)
        (void)snprintf(value, sizeof(value), " = %.*s", (int)snic_min_u64(t->size, 30),
                       (const char *)t->data);
    else if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        (void)snprintf(value, sizeof(value), " deleted");
    if (m->ts == 0)
        trace("%u -> %-5s %s", node, mask_name(t->action->to), message_names[m->type]);
    else
        trace("%u -> %-5s %-6s %s %s%s%s", node, mask_name(t->action->to), message_names[m->type],
              key_name(&m->key), ts_name(m->ts), value,
              (m->flags & SNIC_DDP_MSG_REPLAY) != 0 ? " (replay)" : "");
}

static void trace_action(uint32_t node, const struct snic_replica_trace *t)
{
    const struct snic_ddp_action *a = t->action;
    if (a->type == SNIC_DDP_SEND)
        trace_send(node, t);
    else if (a->type == SNIC_DDP_APPEND)
        trace("%u log      %s %s%s", node, key_name(&a->msg.key), ts_name(a->msg.ts),
              (a->flags & SNIC_DDP_BACKGROUND) != 0 ? " (background)" : "");
    else if (a->type == SNIC_DDP_CAUGHT_UP)
        trace("%u has caught up", node);
    else if (a->type == SNIC_DDP_READY)
        trace("%u is recovered after the restart", node);
    else if (a->type == SNIC_DDP_SUSPECT)
        trace("%u suspects %s", node, mask_name(a->to));
}

static void on_trace(void *ctx, const struct snic_replica_trace *t)
{
    const struct node *n = ctx;
    if (!g.trace)
        return;
    if (t->kind == SNIC_REPLICA_TRACE_ACTION)
        trace_action(n->number, t);
    else if (t->kind == SNIC_REPLICA_TRACE_EVENT && t->event->type == SNIC_DDP_APPENDED)
        trace("%u durable  %s %s", n->number, key_name(&t->event->key), ts_name(t->event->ts));
    else if (t->kind == SNIC_REPLICA_TRACE_MEMBER && t->member->type == SNIC_MEMBER_VIEW)
        trace("%u view %u: full %s, learners %s%s", n->number, t->member->view.epoch,
              mask_name(t->member->view.full), mask_name(t->member->view.learners),
              t->member->view.restart != 0 ? ", restart" : "");
}

static void on_done(struct snic_replica_op *done)
{
    struct op *o = SNIC_CONTAINER(done, struct op, op);
    o->used = 0;
    if (done->result == 0 && done->kind == SNIC_REPLICA_GET)
        trace("%s: %.*s (%s)", o->text, (int)done->size, (const char *)done->data,
              ts_name(done->ts));
    else if (done->result == 0 && done->kind != SNIC_REPLICA_SYNC)
        trace("%s: done (%s)", o->text, ts_name(done->ts));
    else if (done->result == SNIC_ECANCELED && done->data != NULL)
        trace("%s: refused, it holds %.*s (%s)", o->text, (int)done->size, (const char *)done->data,
              ts_name(done->ts));
    else
        trace("%s: %s", o->text, done->result == 0 ? "done" : snic_strerror(done->result));
}

/* ---- Nodes ---- */

static void node_up(struct node *n, int found)
{
    struct snic_replica_opts o;
    if (n->r != NULL)
        return;
    if (snic_world_loop(g.world, n->number, &n->loop) != 0 ||
        snic_net_sim_open(&n->net, g.fabric, n->loop, NULL) != 0 ||
        snic_io_mem_open(&n->io, n->loop, n->disk) != 0)
        die(1, "cannot open the simulated devices of a node: out of memory");
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.flags = found ? SNIC_REPLICA_FOUND : 0;
    o.loop = n->loop;
    o.net = n->net;
    o.log = n->io;
    o.addrs = g.addrs;
    o.cluster = 1;
    o.node = n->number;
    o.incarnation = 100 * ++n->starts;
    o.configured = (uint16_t)((1u << g.nodes) - 1);
    o.witness = (uint16_t)(g.witness < g.nodes ? 1u << g.witness : 0);
    o.model = g.model;
    o.ddp_flags = g.flags;
    o.keys_max = 64;
    o.value_max = 1000;
    o.values_bytes = 512 * 1024;
    o.background_ns = 20 * MS;
    o.wal.opts_size = sizeof(o.wal);
    o.wal.flags = SNIC_WAL_CREATE;
    o.wal.segment_bytes = 32768;
    o.wal.block_bytes = 512;
    o.wal.uuid[0] = n->number;
    o.trace = on_trace;
    o.ctx = n;
    size_t size = snic_replica_memsize(&o);
    if (n->mem == NULL)
        n->mem = aligned_alloc(SNIC_REPLICA_ALIGN, snic_align_up(size, SNIC_REPLICA_ALIGN));
    if (n->mem == NULL || size == 0 || snic_replica_init(&n->r, n->mem, size, &o) != 0)
        die(1, "cannot start a node: out of memory");
    n->scope = 0;
}

static void node_down(struct node *n, int power)
{
    if (n->r == NULL)
        return;
    for (uint32_t i = 0; i < OPS; i++) {
        if (g.op[i].used && g.op[i].node == n->number) {
            g.op[i].used = 0;
            trace("%s: no reply: node %u went down", g.op[i].text, n->number);
        }
    }
    snic_replica_stop(n->r);
    if (power)
        snic_disk_power_cut(n->disk, SNIC_FAULT_KEEP_NONE);
    snic_net_shut(n->net);
    (void)snic_replica_fini(n->r);
    snic_io_close(n->io);
    snic_loop_close(n->loop);
    n->r = NULL;
}

static void on_tick(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

static void run(uint64_t ns)
{
    uint64_t until = snic_world_now(g.world) + ns;
    snic_loop_arm(g.clock, &g.tick, until); /* time advances without nodes, too */
    (void)snic_world_run(g.world, until, UINT64_MAX);
}

static void begin(void)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 1, .nodes_max = NODES + 1};
    struct snic_net_fabric_opts f = {.opts_size = sizeof(f)};
    f.link.delay_min_ns = f.link.delay_max_ns = 20000;
    if (snic_world_open(&g.world, &w) != 0 || snic_world_loop(g.world, NODES, &g.clock) != 0 ||
        snic_net_fabric_open(&g.fabric, g.world, &f) != 0)
        die(1, "cannot set up the simulation: out of memory");
    snic_timer_init(&g.tick, on_tick);
    for (uint32_t i = 0; i < g.nodes; i++) {
        struct snic_disk_opts d = {.opts_size = sizeof(d), .sector = 512, .size = DISK_BYTES};
        d.delay_min_ns = d.delay_max_ns = g.disk_us * 1000;
        if (snic_disk_open(&g.node[i].disk, &d) != 0)
            die(1, "cannot set up the simulated disks: out of memory");
        g.node[i].number = i;
        g.addrs[i].family = SNIC_NET_SIM;
        g.addrs[i].node = i;
        g.addrs[i].port = PORT;
    }
    for (uint32_t i = 0; i < g.nodes; i++)
        node_up(&g.node[i], 1);
    run(3000 * (uint64_t)MS); /* they find each other */
    g.start = snic_world_now(g.world);
}

static void end(void)
{
    g.trace = 0;
    for (uint32_t i = 0; i < OPS; i++)
        g.op[i].used = 0; /* not reported; those in flight are the nodes' until they stop */
    for (uint32_t i = 0; i < g.nodes; i++)
        node_down(&g.node[i], 0);
    for (uint32_t i = 0; i < g.nodes; i++) {
        snic_disk_close(g.node[i].disk);
        free(g.node[i].mem);
    }
    snic_loop_cancel(g.clock, &g.tick);
    snic_loop_close(g.clock);
    snic_net_fabric_close(g.fabric);
    snic_world_close(g.world);
}

/* ---- Commands ---- */

static void show_node(const struct node *n)
{
    static const char *const states[] = {
        "booting", "lost",     "no majority", "waits for a restart", "replaced", "outside",
        "learns",  "no lease", "serves"};
    struct snic_replica_stats info;
    struct snic_replica_entry e;
    uint64_t cursor = 0;
    if (n->r == NULL) {
        printf("  node %u is down\n", n->number);
        return;
    }
    snic_replica_get_stats(n->r, &info);
    printf("  node %u %s, epoch %u, full %s, learners %s\n", n->number,
           info.state == SNIC_REPLICA_STOPPED ? "is stopped" : states[info.member.state],
           info.member.view.epoch, mask_name(info.member.view.full),
           mask_name(info.member.view.learners));
    while (snic_replica_next(n->r, &cursor, &e) == 0) {
        if (e.data == NULL)
            printf("      %s %s (write in flight)\n", key_name(&e.key), ts_name(e.ts));
        else
            printf("      %s %s = %.*s\n", key_name(&e.key), ts_name(e.ts), (int)e.size,
                   (const char *)e.data);
    }
}

/* Submit the operation of these words; wait for the answer unless the last is "&". */
static void operate(uint32_t kind, struct node *n, char *const *word, uint32_t words,
                    const char *line)
{
    struct op *o = g.op;
    struct snic_replica_entry e;
    int wait = words < 2 || strcmp(word[words - 1], "&") != 0;
    while (o < g.op + OPS && o->used)
        o++;
    if (o == g.op + OPS || n->r == NULL) {
        trace("%s: %s", line,
              n->r == NULL ? "the node is down: restart it first"
                           : "too many operations without a reply");
        return;
    }
    memset(o, 0, sizeof(*o));
    (void)snprintf(o->text, sizeof(o->text), "%s", line);
    o->node = n->number;
    o->op.done = on_done;
    o->op.kind = kind;
    if (words > 2)
        o->op.key = key_of(word[2]);
    if (g.model == SNIC_DDP_SCOPE && kind != SNIC_REPLICA_GET && n->scope == 0)
        n->scope = snic_replica_scope(n->r);
    if (g.model == SNIC_DDP_SCOPE && kind != SNIC_REPLICA_GET)
        o->op.scope = n->scope;
    const char *value = kind == SNIC_REPLICA_PUT   ? word[3]
                        : kind == SNIC_REPLICA_CAS ? word[4]
                                                   : "";
    if (kind == SNIC_REPLICA_PUT || kind == SNIC_REPLICA_CAS) {
        o->op.data = value;
        o->op.size = (uint32_t)strlen(value);
    }
    if (kind == SNIC_REPLICA_CAS && strcmp(word[3], "-") != 0)
        o->op.ts = snic_replica_look(n->r, &o->op.key, &e) == 0 && e.size == strlen(word[3]) &&
                           memcmp(e.data, word[3], e.size) == 0
                       ? e.ts
                       : snic_ddp_ts(0, 1, n->number); /* it holds something else already */
    o->used = 1;
    int r = snic_replica_submit(n->r, &o->op);
    if (r == SNIC_ESTALE || (r == 0 && kind == SNIC_REPLICA_SYNC))
        n->scope = 0;
    if (r != 0) {
        o->used = 0;
        trace("%s: %s", line, snic_strerror(r));
        return;
    }
    for (uint32_t i = 0; wait && o->used && i < 20000; i++)
        run(100000);
}

static int word_number(const char *text, uint64_t most, uint64_t *out)
{
    uint64_t v = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || v > most)
            return 0;
        v = 10 * v + (uint64_t)(*p - '0');
    }
    *out = v;
    return *text != '\0' && v <= most;
}

static int word_node(const char *text, uint32_t *out)
{
    uint64_t v;
    if (!word_number(text, g.nodes - 1, &v))
        return 0;
    *out = (uint32_t)v;
    return 1;
}

/* What they return, and the others: 1; 0: the words make no sense, and nothing happened. */
static int command_node(char *const *word, uint32_t words)
{
    uint32_t node = 0, last = 0;
    int all = strcmp(word[1], "all") == 0;
    (void)words;
    if (!all && !word_node(word[1], &node))
        return 0;
    last = all ? g.nodes - 1 : node;
    for (uint32_t i = all ? 0 : node; i <= last; i++) {
        if (strcmp(word[0], "restart") == 0)
            node_up(&g.node[i], 0);
        else
            node_down(&g.node[i], word[0][0] == 'p');
    }
    return 1;
}

static int command_heal(char *const *word, uint32_t words)
{
    (void)word;
    (void)words;
    for (uint32_t a = 0; a < g.nodes; a++) {
        for (uint32_t b = 0; b < g.nodes; b++)
            snic_net_fabric_partition(g.fabric, a, b, 0);
    }
    return 1;
}

static int command_partition(char *const *word, uint32_t words)
{
    uint32_t a, b;
    if (!word_node(word[1], &a) || !word_node(word[2], &b) || a == b ||
        (words == 4 && strcmp(word[3], "one-way") != 0))
        return 0;
    snic_net_fabric_partition(g.fabric, a, b, 1);
    if (words == 3)
        snic_net_fabric_partition(g.fabric, b, a, 1);
    return 1;
}

static int command_trace(char *const *word, uint32_t words)
{
    int on = strcmp(word[1], "on") == 0;
    (void)words;
    if (!on && strcmp(word[1], "off") != 0)
        return 0;
    g.trace = on;
    return 1;
}

static int command_run(char *const *word, uint32_t words)
{
    uint64_t ms;
    (void)words;
    if (!word_number(word[1], 10000000, &ms))
        return 0;
    run(ms * MS);
    return 1;
}

static int command_show(char *const *word, uint32_t words)
{
    (void)word;
    (void)words;
    for (uint32_t i = 0; i < g.nodes; i++)
        show_node(&g.node[i]);
    return 1;
}

static int command_help(char *const *word, uint32_t words);

static const struct command {
    const char *name;
    const char *form;
    const char *help;
    uint32_t least, most; /* words */
    int (*run)(char *const *word, uint32_t words);
    uint32_t kind; /* of an operation, which has no run */
} commands[] = {
    {"put", "put NODE KEY VALUE [&]", "write", 4, 5, NULL, SNIC_REPLICA_PUT},
    {"get", "get NODE KEY [&]", "read", 3, 4, NULL, SNIC_REPLICA_GET},
    {"del", "del NODE KEY [&]", "delete", 3, 4, NULL, SNIC_REPLICA_DELETE},
    {"cas", "cas NODE KEY OLD|- NEW [&]", "replace OLD (-: none) by NEW", 5, 6, NULL,
     SNIC_REPLICA_CAS},
    {"persist", "persist NODE [&]", "make durable what was written there (model scope)", 2, 3, NULL,
     SNIC_REPLICA_SYNC},
    {"crash", "crash NODE|all", "end a process", 2, 2, command_node, 0},
    {"power", "power NODE|all", "cut the power of a node", 2, 2, command_node, 0},
    {"restart", "restart NODE|all", "start it again", 2, 2, command_node, 0},
    {"partition", "partition A B [one-way]", "cut the network between two nodes", 3, 4,
     command_partition, 0},
    {"heal", "heal", "end all partitions", 1, 1, command_heal, 0},
    {"run", "run MS", "let simulated time pass", 2, 2, command_run, 0},
    {"show", "show", "print the state of all nodes", 1, 1, command_show, 0},
    {"trace", "trace on|off", "print messages and records of the log", 2, 2, command_trace, 0},
    {"help", "help", "print this", 1, 1, command_help, 0},
    {"quit", "quit", "end", 1, 1, NULL, 0}};

static int command_help(char *const *word, uint32_t words)
{
    (void)word;
    (void)words;
    for (uint32_t i = 0; i < SNIC_COUNTOF(commands); i++)
        printf("  %-24s  %s\n", commands[i].form, commands[i].help);
    return 1;
}

static int command_operation(const struct command *c, char *const *word, uint32_t words,
                             const char *line)
{
    uint32_t node;
    if (!word_node(word[1], &node) || (words > c->least && strcmp(word[words - 1], "&") != 0))
        return 0;
    if (c->least > 2 && strlen(word[2]) > KEY) {
        printf("  key '%s' is too long: %d bytes at most\n", word[2], KEY);
        return 0;
    }
    if (c->kind == SNIC_REPLICA_SYNC && g.model != SNIC_DDP_SCOPE) {
        printf("  persist needs --model scope\n");
        return 0;
    }
    operate(c->kind, &g.node[node], word, words, line);
    return 1;
}

/* 1; 0: it is none; -1: quit. */
static int command(char *const *word, uint32_t words, const char *line)
{
    const struct command *c = NULL;
    for (uint32_t i = 0; i < SNIC_COUNTOF(commands); i++) {
        if (strcmp(word[0], commands[i].name) == 0)
            c = &commands[i];
    }
    if (c == NULL) {
        printf("  unknown command '%s' (\"help\" lists the commands)\n", word[0]);
        return 0;
    }
    int fits = words >= c->least && words <= c->most;
    if (fits && strcmp(c->name, "quit") == 0)
        return -1;
    if (fits && (c->run != NULL ? c->run(word, words) : command_operation(c, word, words, line)))
        return 1;
    printf("  usage: %s\n", c->form);
    return 0;
}

/* The words of a line, in place; WORDS: that many or more. */
static uint32_t split(char *p, char **word)
{
    uint32_t n = 0;
    while (n < WORDS) {
        p += strspn(p, " \t\r");
        if (*p == '\0')
            break;
        word[n++] = p;
        p += strcspn(p, " \t\r");
        if (*p != '\0')
            *p++ = '\0';
    }
    return n;
}

/* A line without its comment; 0: the end. One that is too long is left out. */
static int read_line(FILE *in, char *line, int *bad)
{
    while (fgets(line, LINE, in) != NULL) {
        if (strchr(line, '\n') != NULL || feof(in)) {
            line[strcspn(line, "#\r\n")] = '\0';
            return 1;
        }
        int c;
        while ((c = fgetc(in)) != '\n' && c != EOF)
            ;
        printf("  line is too long: %d bytes at most\n", LINE - 2);
        *bad = 1;
    }
    if (ferror(in)) {
        (void)fprintf(stderr, "ddp_cluster: cannot read the script: %s\n", strerror(errno));
        *bad = 1;
    }
    return 0;
}

/* 1: a line was no command. */
static int script(FILE *in)
{
    char line[LINE], words[LINE], *word[WORDS];
    int bad = 0;
    while (read_line(in, line, &bad)) {
        memcpy(words, line, sizeof(words));
        uint32_t n = split(words, word);
        if (n == 0)
            continue;
        printf("> %s\n", line);
        int r = command(word, n, line);
        if (r < 0)
            break;
        bad |= r == 0;
        (void)fflush(stdout);
    }
    return bad;
}

#define USAGE                                                                                      \
    "usage: ddp_cluster [--nodes N] [--model synch|strict|renf|event|scope] [--witness N] "        \
    "[--paper] [--disk-us N] [SCRIPT]"

static const char help[] =
    "A replicated table of some nodes in one process, over simulated networks and disks.\n\n"
    "Usage: ddp_cluster [OPTION]... [SCRIPT]\n\n"
    "  --nodes N                 1 to 7; default 3\n"
    "  --model synch|strict|renf|event|scope\n"
    "                            when a write is acknowledged and when it is durable; default "
    "synch\n"
    "  --witness N               node N votes, and holds no data; default none\n"
    "  --paper                   the protocol as published\n"
    "  --disk-us N               latency of a disk in microseconds; default 100\n"
    "  --help                    print this and exit\n"
    "  --version                 print the version and exit\n\n"
    "Commands, one a line of SCRIPT or of standard input:\n\n";

static const char *options(int argc, char **argv)
{
    static const char *const models[] = {"", "synch", "strict", "renf", "event", "scope"};
    const char *path = NULL;
    uint64_t nodes = g.nodes;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--help") == 0) {
            printf("%s", help);
            (void)command_help(NULL, 0);
            exit(0);
        } else if (strcmp(argv[i], "--version") == 0) {
            ex_version("ddp_cluster");
            exit(0);
        } else if (strcmp(argv[i], "--nodes") == 0) {
            if (!word_number(next, NODES, &nodes) || nodes < 1)
                die(2, "--nodes: '%s' is not a number between 1 and %d", next, NODES);
            i++;
        } else if (strcmp(argv[i], "--disk-us") == 0) {
            if (!word_number(next, 1000000, &g.disk_us))
                die(2, "--disk-us: '%s' is not a number between 0 and 1000000", next);
            i++;
        } else if (strcmp(argv[i], "--model") == 0) {
            for (g.model = SNIC_DDP_SCOPE; g.model > 0 && strcmp(models[g.model], next) != 0;)
                g.model--;
            if (g.model == 0)
                die(2, "--model: '%s' is not one of synch, strict, renf, event and scope", next);
            i++;
        } else if (strcmp(argv[i], "--witness") == 0) {
            if (!word_number(next, NODES - 1, &g.witness))
                die(2, "--witness: '%s' is not a number between 0 and %d", next, NODES - 1);
            i++;
        } else if (strcmp(argv[i], "--paper") == 0) {
            g.flags |= SNIC_DDP_PAPER;
        } else if (argv[i][0] != '-' && path == NULL) {
            path = argv[i];
        } else if (argv[i][0] != '-') {
            die(2, "one argument too many: '%s' (" USAGE ")", argv[i]);
        } else {
            die(2, "unknown option '%s' (" USAGE ")", argv[i]);
        }
    }
    if (g.witness != UINT64_MAX && (g.witness >= nodes || nodes < 2))
        die(2, "--witness: it is one of at least 2 nodes (--nodes), so that one holds data");
    g.nodes = (uint32_t)nodes;
    return path;
}

int main(int argc, char **argv)
{
    ex_output_must(1);
    const char *path = options(argc, argv);
    FILE *in = path != NULL ? fopen(path, "r") : stdin;
    if (in == NULL)
        die(1, "cannot open script '%s': %s", path, strerror(errno));
    begin();
    int bad = script(in);
    end();
    if (in != stdin)
        (void)fclose(in);
    return bad;
}
