/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A shard's doors and its replica: opened, watched, closed. */
#include "cluster.h"
#include "commands.h"

#include "../server/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SHARD_DGRAM_BYTES (4u << 20) /* that the kernel keeps for the nodes' socket */
#define SHARD_SENDS 1024u
#define SHARD_SCOPES 256u
#define SHARD_PUBLISH_NS 100000000u           /* between two snapshots */
#define SHARD_CONNS_MORE 64u                  /* beside those of clients */
#define SHARD_LOG_BYTES ((uint64_t)256 << 20) /* without --log-size, or more for long values */
#define SHARD_LOG_HEAD (512u << 10)           /* beside its segments */
#define SHARD_LOG_FRONT (64u << 10)           /* of a record, beside its value */

static void shard_notify(void *ctx);

/* ---- Opening ---- */

static void shard_open_net(struct ds_shard *s)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o),
                                    .taken_wait_ms = EX_TAKEN_WAIT_MS,
                                    .sent_ms = UINT32_MAX,
                                    .send_queue = SHARD_SENDS,
                                    .dgram_flags = SNIC_NET_DGRAM_WAIT,
                                    .dgram_recv_bytes = SHARD_DGRAM_BYTES,
                                    .dgram_send_bytes = SHARD_DGRAM_BYTES};
    int r;

    o.conns_max = (uint32_t)s->node->config->server.conns_max + SHARD_CONNS_MORE;
    r = snic_net_uring_open(&s->net, s->loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
}

/* Of a new log: what the option names, if eight segments for values up to --value-max are no more
 * (wal.h: a segment has room for three), since a log that was made too small stays so. */
static uint64_t shard_log_new(const struct ds_config *c)
{
    uint64_t segment = 4u << 20;
    uint64_t least;

    while (segment / 3 < c->value_max + SHARD_LOG_FRONT)
        segment *= 2;
    least = 8 * segment + SHARD_LOG_HEAD;
    if (c->log_bytes == 0)
        return snic_max_u64(SHARD_LOG_BYTES, 16 * segment);
    if (c->log_bytes < least)
        ex_die("--log-size: %" PRIu64 " bytes are too few for values of %" PRIu64
               " (--value-max): at least %" PRIu64 "M",
               c->log_bytes, c->value_max, (least >> 20) + 1);
    return c->log_bytes;
}

/* The size of the log: that which the file has, or that of a new one. A log's size cannot be
 * changed. What is smaller than any log is left for the replica to name. */
static uint64_t shard_log_size(const struct ds_config *c, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < DS_LOG_LEAST)
        return shard_log_new(c);
    if (c->log_bytes != 0 && c->log_bytes != (uint64_t)st.st_size)
        ex_die("--log-size: '%s' has %" PRIu64 " bytes, not %" PRIu64 ", and a log keeps the size "
               "that it was made with: leave the option out, or replace this node by one with an "
               "empty --dir (`ddp_server ctl replace`)",
               path, (uint64_t)st.st_size, c->log_bytes);
    return (uint64_t)st.st_size;
}

static void shard_open_log(struct ds_shard *s)
{
    const struct ds_config *c = s->node->config;
    struct snic_io_uring_opts o = {.opts_size = sizeof(o),
                                   .flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_LOCK};
    char path[4096];
    int os_error = 0;
    int r;

    if ((size_t)snprintf(path, sizeof(path), "%s/shard-%u.log", c->server.directory, s->index) >=
        sizeof(path))
        ex_die("--dir: the path is too long");
    o.path = path;
    o.size = shard_log_size(c, path);
    o.flags |= c->server.buffered ? 0 : SNIC_IO_OPEN_DIRECT;
    r = ex_io_open(&s->log, s->loop, &o, &os_error);
    if (r == SNIC_EBUSY)
        ex_die("cannot open '%s': another process has it locked: is this node running already?",
               path);
    if (r == SNIC_ENOTSUP)
        ex_die("cannot open '%s': its file system has no O_DIRECT: use another for --dir, or "
               "--buffered",
               path);
    if (r == SNIC_ENOSPC)
        ex_no_room(path, o.size, "--log-size", os_error);
    if (r != 0)
        ex_die("cannot open '%s': %s", path, os_error != 0 ? strerror(os_error) : snic_strerror(r));
}

/* The number of the shard's cluster: other shards' packets are another's. */
static uint64_t shard_cluster(const struct ds_shard *s)
{
    return s->node->config->cluster + s->index;
}

/* Time that also counts while the machine is suspended: a lease ends then, too. */
static uint64_t shard_clock(void *ctx)
{
    struct timespec t;

    (void)ctx;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of an empty log: of no clock, which may have been set back since the disk before was lost. */
static uint32_t shard_file_number(void)
{
    uint32_t number;

    ds_random(&number, sizeof(number));
    return number % SNIC_MEMBER_FILE_NUMBERS + 1;
}

static void shard_options(struct ds_shard *s, struct snic_replica_opts *o,
                          struct snic_net_addr addrs[DS_NODES_MAX])
{
    const struct ds_config *c = s->node->config;

    memset(o, 0, sizeof(*o));
    for (uint32_t i = 0; i < c->nodes; i++) {
        addrs[i] = c->addrs[i];
        addrs[i].port = (uint16_t)(addrs[i].port + s->index);
    }
    o->opts_size = sizeof(*o);
    o->flags = c->found ? SNIC_REPLICA_FOUND : 0;
    o->loop = s->loop;
    o->net = s->net;
    o->log = s->log;
    o->addrs = addrs;
    o->cluster = shard_cluster(s);
    o->node = (uint32_t)c->node;
    o->incarnation = shard_file_number();
    o->configured = (uint16_t)((1u << c->nodes) - 1);
    o->witness = (uint16_t)(c->witness < c->nodes ? 1u << c->witness : 0);
    o->model = SNIC_DDP_SYNCH;
    o->keys_max = (uint32_t)(c->keys_max / s->node->count + 1);
    o->values_bytes = c->memory / s->node->count;
    o->min_full = (uint32_t)c->min_full;
    o->sends_max = SHARD_SENDS;
    o->scopes_max = SHARD_SCOPES;
    o->wal.opts_size = sizeof(o->wal);
    o->wal.flags = SNIC_WAL_CREATE;
    o->wal.uuid[0] = shard_cluster(s);
    o->wal.uuid[1] = c->node;
    o->notify = shard_notify;
    o->clock = shard_clock;
    o->ctx = s;
}

/* With the cluster's key everything between the nodes is sealed. */
static void shard_open_key(struct ds_shard *s, struct snic_replica_opts *o,
                           struct snic_store_opts *t)
{
    static const char label[] = "ddp_server keys";
    unsigned char first[16];
    unsigned char hash[32];
    int r;

    if (s->node->config->key_file == NULL)
        return;
    s->secret = ds_cluster_secret(s->node->config->key);
    ds_random(first, sizeof(first));
    r = snic_ebs_openssl_gcm_open(&s->gcm, first, sizeof(first));
    if (r != 0 || snic_ebs_openssl()->mac(s->secret, label, sizeof(label), hash) != 0)
        ex_die("cannot use the cluster's key: %s", snic_strerror(r));
    memcpy(t->hash_key, hash, sizeof(t->hash_key));
    o->sec = snic_ebs_openssl();
    o->secret = s->secret;
    o->gcm = s->gcm;
    ds_random(o->random, sizeof(o->random));
}

static void shard_open_store(struct ds_shard *s)
{
    const struct ds_config *c = s->node->config;
    struct snic_replica_opts o;
    struct snic_store_opts t = {.opts_size = sizeof(t)};
    struct snic_net_addr addrs[DS_NODES_MAX];
    char text[64];
    size_t size;
    int r;

    shard_options(s, &o, addrs);
    shard_open_key(s, &o, &t);
    t.replica = &o;
    t.value_max = (uint32_t)c->value_max;
    size = snic_store_memsize(&t);
    if (size == 0)
        ex_die("these options do not fit: %s", snic_store_opts_wrong(&t));
    (void)ex_memory(&s->memory, size, "tables and values: lower --memory or --keys");
    (void)snic_net_addr_format(&addrs[c->node], text, sizeof(text));
    r = snic_store_init(&s->store, s->memory.at, size, &t);
    if (r != 0)
        ex_die("cannot open the port of the nodes, %s (--peers, node %llu%s): %s", text,
               (unsigned long long)c->node, s->index > 0 ? ", and the shard's number" : "",
               ex_listen_error(text, r));
}

/* Once for each change. A removed node does not notify. */
static void shard_log_state(struct ds_shard *s, const struct snic_replica_stats *i)
{
    int replaced = i->state == SNIC_REPLICA_RUNNING && i->member.state == SNIC_MEMBER_REPLACED;

    if (s->epoch != i->member.view.epoch || s->served != (int)i->serves ||
        s->replaced != replaced) {
        s->epoch = i->member.view.epoch;
        s->replaced = replaced;
        s->served = (int)i->serves;
        ex_log(EX_INFO, "shard %u: epoch %u, full 0x%x, learners 0x%x, this node %s", s->index,
               i->member.view.epoch, i->member.view.full, i->member.view.learners,
               ds_state_name(i, s->snapshot.peers, s->node->config->node));
        if (i->serves && !i->member.vote)
            ex_log(EX_WARNING,
                   "shard %u: this node has no vote, since its directory was lost: `ddp_server ctl "
                   "replace --node %" PRIu64 "` gives it one",
                   s->index, s->node->config->node);
    }
}

static void shard_publish(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_shard *s = SNIC_CONTAINER(t, struct ds_shard, publish);
    struct snic_replica_stats i;

    ds_request_expire(s, now_ns);
    ds_scope_expire(s, now_ns);
    ds_state_publish(s);
    snic_replica_get_stats(snic_store_replica(s->store), &i);
    shard_log_state(s, &i);
    ds_state_refusals(s);
    ds_state_progress(s, now_ns);
    snic_loop_arm(s->loop, t, now_ns + SHARD_PUBLISH_NS);
}

static void shard_drain(struct snic_loop_msg *m);
static void shard_stop(struct snic_loop_msg *m);

void ds_shard_prepare(struct ds_shard *s)
{
    for (uint32_t i = 0; i < DS_HELD_LISTS; i++)
        snic_link_init(&s->held[i]);
    snic_link_init(&s->retry);
    snic_link_init(&s->timed);
    snic_link_init(&s->watch_waits);
    snic_timer_init(&s->watch_timer, ds_watch_retry);
    snic_link_init(&s->watch_later);
    snic_timer_init(&s->watch_turn, ds_watch_turn);
    snic_timer_init(&s->turn_timer, ds_turn_fire);
    snic_timer_init(&s->retry_timer, ds_request_retry);
    s->drain.fn = shard_drain;
    ds_random(&s->random, sizeof(s->random));
    (void)pthread_mutex_init(&s->lock, NULL);
    s->stop.fn = shard_stop;
    snic_timer_init(&s->publish, shard_publish);
}

void ds_shard_open(struct ds_shard *s)
{
    ds_shard_prepare(s);
    s->loop = ex_loop_open((uint32_t)s->node->config->server.spin_us);
    shard_open_net(s);
    shard_open_log(s);
    shard_open_store(s);
    shard_publish(&s->publish, snic_loop_now(s->loop));
}

/* ---- State ---- */

/* What ended the replica, in the words of the options. The node ends with it: what its supervisor
 * starts anew reads the log and learns the rest from the others. */
static void shard_failed(const struct ds_shard *s, int failure)
{
    const char *why = failure == SNIC_EEXIST     ? "the file is not a log of a shard"
                      : failure == SNIC_EVERSION ? "the log has another version's format"
                      : failure == SNIC_EINVAL   ? "the log does not fit the options"
                      : failure == SNIC_ENOSPC
                          ? "no space: --log-size is too small for a log of values up to "
                            "--value-max, or the file system is full"
                          : snic_strerror(failure);

    ex_die("shard %u has stopped: log '%s/shard-%u.log': %s", s->index,
           s->node->config->server.directory, s->index, why);
}

static void shard_notify(void *ctx)
{
    struct ds_shard *s = ctx;
    struct snic_replica_stats i;

    ds_state_publish(s);
    ds_state_progress(s, snic_loop_now(s->loop));
    snic_replica_get_stats(snic_store_replica(s->store), &i);
    if (i.state == SNIC_REPLICA_STOPPED && !s->stopped) {
        s->stopped = 1;
        if (i.failure != 0)
            shard_failed(s, i.failure);
    }
    shard_log_state(s, &i);
}

/* ---- The end ---- */

static void shard_stop(struct snic_loop_msg *m)
{
    struct ds_shard *s = SNIC_CONTAINER(m, struct ds_shard, stop);

    snic_loop_stop(s->loop);
}

/* No client is left here; when none is anywhere, all loops end. */
static void shard_drained(void *ctx)
{
    struct ds_shard *s = ctx;
    struct ds_node *n = s->node;

    if (atomic_fetch_sub(&n->undrained, 1) != 1)
        return;
    for (uint32_t i = 0; i < n->count; i++)
        snic_loop_post(n->shards[i].loop, &n->shards[i].stop);
}

static void shard_drain(struct snic_loop_msg *m)
{
    struct ds_shard *s = SNIC_CONTAINER(m, struct ds_shard, drain);

    ex_front_drain(s->front, shard_drained, s);
}

void ds_shard_close(struct ds_shard *s)
{
    snic_loop_cancel(s->loop, &s->watch_turn);
    snic_store_stop(s->store);
    snic_loop_cancel(s->loop, &s->publish);
    snic_loop_cancel(s->loop, &s->watch_timer);
    ex_front_close(s->front);
    s->front = NULL; /* what ends while the net shuts finds none */
    snic_net_shut(s->net);
    (void)snic_store_fini(s->store);
    snic_io_close(s->log);
    snic_loop_cancel(s->loop, &s->retry_timer);
    snic_loop_cancel(s->loop, &s->turn_timer);
    if (s->secret != NULL)
        snic_ebs_openssl_close(s->secret);
    if (s->gcm != NULL)
        snic_ebs_openssl_close(s->gcm);
    ex_memory_free(&s->memory);
    free(s->clients);
    free(s->args);
    free(s->scratch);
    free(s->scopes);
    free(s->cursors);
    resp_reply_free(&s->reply);
    resp_reply_free(&s->shown.reply);
    (void)pthread_mutex_destroy(&s->lock);
}
