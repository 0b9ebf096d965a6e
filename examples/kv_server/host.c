/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host role. When the DPU process dies the engine keeps what it has in memory;
 * a new DPU gets a new link, and the engine submits its unfinished writes again.
 *   H1 client ids carry the number of the attachment in their upper 16 bits, so that
 *      a late answer to a client of a dead DPU is dropped.
 */
#include "host.h"

#include "files_lib.h"
#include "qos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KV_RETRY_NS 50000000u
#define KV_RESEND_NS 1000000u    /* until settings are sent again that did not fit */
#define HOST_CREDIT 32           /* requests per tenant until the device grants some */
#define HOST_PATIENCE 40u        /* attempts before it logs that there is no DPU role */
#define KV_DRAIN_NS 15000000000u /* a DPU that does not drain is not waited for longer */
#define KV_STORE_NS 10000000000u /* then: one that makes no progress with the last writes */
#define KV_EPOCH_SHIFT 48
#define KV_REPLY_PIECE (4u << 20)

struct kv_host {
    const struct kv_config *config;
    struct snic_loop *loop;
    struct kv_engine *engine;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    void *hub_memory;
    struct snic_filelib *files;
    void *files_memory;
    struct snic_director_host *director;
    uint64_t epoch;
    size_t piece_at; /* of a long reply that is being sent in pieces */
    int dead;
    int draining;
    uint64_t drain_ns;
    int dpu_drained;
    struct snic_timer timer;
    struct snic_timer resend; /* of the settings, which did not fit into the queue to the DPU */
    uint64_t connect_ns;      /* not before */
    unsigned missed;          /* attempts since the last connection */
    struct ex_stats *stats;
    struct snic_net *net;
    struct kv_control dpu; /* its newest figures */
    struct kv_qos_heard heard;
    struct snic_dma *given; /* a link that was made for us */
};

/* ---- Up: to the director ---- */

static int host_gone(const struct kv_host *h, uint64_t client)
{
    return h->director == NULL || (client >> KV_EPOCH_SHIFT) != (h->epoch & 0xffff); /* H1 */
}

static uint64_t host_conn(uint64_t client)
{
    return client & (((uint64_t)1 << KV_EPOCH_SHIFT) - 1);
}

/* A reply above the director's message size goes in pieces; EAGAIN remembers how far. */
static int host_reply_long(struct kv_host *h, uint64_t conn, uint64_t seq,
                           const struct snic_iov *iov, uint32_t flags, uint64_t user)
{
    while (h->piece_at < iov->size) {
        size_t left = iov->size - h->piece_at;
        struct snic_iov piece = {(char *)iov->base + h->piece_at, left};
        int r;

        if (left > KV_REPLY_PIECE)
            piece.size = KV_REPLY_PIECE;
        r = snic_director_host_reply(h->director, conn, seq, &piece, 1,
                                     left > KV_REPLY_PIECE ? SNIC_DIRECTOR_REPLY_MORE : flags,
                                     user);
        if (r == SNIC_EAGAIN)
            return r;
        h->piece_at += piece.size;
    }
    h->piece_at = 0;
    return 0;
}

static int host_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                      uint32_t count, uint32_t flags, uint64_t user)
{
    struct kv_host *h = ctx;
    uint64_t conn = host_conn(client);
    uint32_t f = ((flags & KV_REPLY_CLOSE) != 0 ? SNIC_DIRECTOR_REPLY_CLOSE : 0) |
                 ((flags & KV_REPLY_USER) != 0 ? SNIC_DIRECTOR_REPLY_USER : 0);

    if (host_gone(h, client)) {
        h->piece_at = 0;
        return 0;
    }
    if (count == 1 && iov->size > 2 * KV_REPLY_PIECE)
        return host_reply_long(h, conn, seq, iov, f, user);
    return snic_director_host_reply(h->director, conn, seq, iov, count, f, user) == SNIC_EAGAIN
               ? SNIC_EAGAIN
               : 0;
}

/* R1, and the cache walk: an entry for the DPU's table, in order with the replies. */
static int host_entry(struct kv_host *h, const unsigned char key[16], const struct kv_item *item,
                      uint64_t version)
{
    struct snic_director_entry e = {key, item, version};

    return snic_director_host_entries(h->director, &e, 1) == SNIC_EAGAIN ? SNIC_EAGAIN : 0;
}

static int host_invalidate(void *ctx, const unsigned char key[16], uint64_t version)
{
    struct kv_host *h = ctx;

    /* Without a director nothing is served, and the next one starts empty (R7). */
    return h->director == NULL ? 0 : host_entry(h, key, NULL, version);
}

static int host_cache(void *ctx, const unsigned char key[16], const struct kv_item *item,
                      uint64_t version)
{
    struct kv_host *h = ctx;

    return h->director == NULL ? SNIC_EAGAIN : host_entry(h, key, item, version);
}

static int host_invalidate_all(void *ctx, uint64_t version)
{
    struct kv_host *h = ctx;

    if (h->director == NULL)
        return 0;
    return snic_director_host_invalidate_all(h->director, version) == SNIC_EAGAIN ? SNIC_EAGAIN : 0;
}

/* ---- Down: from the director ---- */

static uint64_t host_client(const struct kv_host *h, uint64_t conn)
{
    return conn | (h->epoch << KV_EPOCH_SHIFT);
}

static void host_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                         const unsigned char *msg, uint32_t size)
{
    struct kv_host *h = ctx;

    (void)kv_engine_message(h->engine, host_client(h, conn), seq, user, msg, size);
}

static void host_closed(void *ctx, uint64_t conn)
{
    struct kv_host *h = ctx;

    kv_engine_client_closed(h->engine, host_client(h, conn));
}

static void host_writable(void *ctx)
{
    struct kv_host *h = ctx;

    kv_engine_writable(h->engine);
}

static void host_death(void *ctx)
{
    struct kv_host *h = ctx;

    h->dead = 1;
}

static void host_files_closed(void *ctx, struct snic_filelib *g, int reason)
{
    struct kv_host *h = ctx;

    (void)g;
    (void)reason;
    h->dead = 1;
}

static void host_hub_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    struct kv_host *h = ctx;

    (void)hub;
    (void)cause;
    h->dead = 1;
}

static void host_recv(void *ctx, struct snic_channel_hub *hub, const void *msg, uint32_t size)
{
    struct kv_host *h = ctx;
    struct kv_control m;

    (void)hub;
    if (kv_qos_hear(&h->heard, msg, size) || size != sizeof(m))
        return;
    memcpy(&m, msg, sizeof(m));
    if (m.magic != KV_CONTROL_MAGIC)
        return;
    h->dpu = m;
    if (m.kind == KV_CONTROL_DRAINED) {
        h->dpu_drained = 1;
        kv_host_drain(h);
    }
}

/* ---- INFO, metrics ---- */

static uint64_t host_cpu_ns(const struct kv_host *h)
{
    return h->config->role == KV_ROLE_SINGLE ? ex_cpu_thread_ns() : ex_cpu_process_ns();
}

static size_t host_info(void *ctx, char *out, size_t max)
{
    struct kv_host *h = ctx;
    const struct kv_control *d = &h->dpu;
    uint64_t host = host_cpu_ns(h) / 1000;
    int n = snprintf(
        out, max,
        "snicstore_role:%s\r\nhost_pid:%d\r\ndpu_pid:%" PRIu64 "\r\nhost_cpu_us:%" PRIu64
        "\r\ndpu_cpu_us:%" PRIu64 "\r\ntotal_cpu_us:%" PRIu64 "\r\nmessages:%" PRIu64
        "\r\noffloaded:%" PRIu64 "\r\noffloaded_share:%.4f\r\nto_host:%" PRIu64
        "\r\noffload_to_host:%" PRIu64 "\r\nring_records_up:%" PRIu64
        "\r\nring_records_down:%" PRIu64 "\r\ninvalidations:%" PRIu64 "\r\ncache_items:%" PRIu64
        "\r\ncache_tombstones:%" PRIu64 "\r\ncache_floor:%" PRIu64 "\r\ncache_evicted:%" PRIu64
        "\r\noffload_busy:%" PRIu64 "\r\noffload_pool_free:%" PRIu64 "\r\nreply_stalls:%" PRIu64
        "\r\nhog_resets:%" PRIu64 "\r\noutput_limit_resets:%" PRIu64
        "\r\nclients_share_resets:%" PRIu64 "\r\nclients_memory_resets:%" PRIu64
        "\r\nquery_limit_resets:%" PRIu64 "\r\nclients_refused:%" PRIu64
        "\r\nclients_idle_closed:%" PRIu64 "\r\noffload_read_errors:%" PRIu64
        "\r\nfile_reads:%" PRIu64 "\r\nfile_writes:%" PRIu64 "\r\nfile_segments_free:%" PRIu64
        "\r\n",
        h->config->role == KV_ROLE_SINGLE ? "single-process" : "host", (int)getpid(), d->pid, host,
        d->cpu_ns / 1000, host + d->cpu_ns / 1000, d->messages, d->offloaded,
        d->messages > 0 ? (double)d->offloaded / (double)d->messages : 0.0, d->to_host,
        d->offload_to_host, d->records_up, d->records_down, d->invalidations, d->cache_items,
        d->cache_tombstones, d->cache_floor, d->cache_evicted, d->offload_busy, d->pool_free,
        d->stalls, d->hog_resets, d->full_resets, d->share_resets, d->total_resets, d->query_resets,
        d->refused, d->idle_closed, d->read_errors, d->file_reads, d->file_writes,
        d->segments_free);

    return n < 0 ? 0 : (size_t)n < max ? (size_t)n : max - 1;
}

static size_t host_section(void *ctx, const char *section, char *out, size_t max)
{
    struct kv_host *h = ctx;

    return kv_qos_info(&h->heard, h->config, section, out, max);
}

static size_t host_metrics(void *ctx, struct ex_metric *out)
{
    struct kv_host *h = ctx;
    struct kv_engine_stats s;
    size_t n = 0;

    if (h->engine != NULL) {
        kv_engine_get_stats(h->engine, &s);
        n = kv_engine_metrics(&s, out);
    }
    out[n++] = (struct ex_metric){"attached", h->director != NULL, 0};
    out[n++] = (struct ex_metric){"attachments", h->epoch, 1};
    out[n++] = (struct ex_metric){"cpu_ns", host_cpu_ns(h), 1};
    return n;
}

static void host_shutdown(void *ctx, int nosave)
{
    struct kv_host *h = ctx;
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = KV_CONTROL_SHUTDOWN};

    (void)nosave; /* what is in memory is always written: the log is the store */
    if (h->dma != NULL)
        (void)snic_dma_send(h->dma, &m, sizeof(m));
    kv_host_drain(h);
}

/* CONFIG SET: send the settings to the DPU: is a password needed, limits of clients' memory. */
static void host_changed(void *ctx, const struct kv_settings *s)
{
    struct kv_host *h = ctx;
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = KV_CONTROL_SETTINGS};

    m.messages = s->password[0] != 0;
    m.cpu_ns = s->out[0].hard;
    m.offloaded = s->out[0].soft;
    m.to_host = s->out[0].soft_s;
    m.records_up = kv_settings_clients(s);
    m.records_down = s->query;
    if (h->dma != NULL && snic_dma_send(h->dma, &m, sizeof(m)) == 0)
        snic_loop_arm(h->loop, &h->resend, snic_loop_now(h->loop) + KV_RESEND_NS);
}

static void host_resend(struct snic_timer *t, uint64_t now)
{
    struct kv_host *h = SNIC_CONTAINER(t, struct kv_host, resend);

    (void)now;
    if (h->engine != NULL)
        host_changed(h, kv_engine_settings(h->engine));
}

/* Send a client's change to the DPU. @return 1; 0 it is of a DPU before this one, or no room */
static int host_tell(const struct kv_host *h, enum kv_control_kind kind, uint64_t client, int on)
{
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = kind};

    m.messages = host_conn(client);
    m.offloaded = on != 0;
    return h->dma != NULL && !host_gone(h, client) && snic_dma_send(h->dma, &m, sizeof(m)) > 0;
}

static int host_kill(void *ctx, uint64_t client)
{
    return host_tell(ctx, KV_CONTROL_KILL, client, 0);
}

static void host_no_evict(void *ctx, uint64_t client, int on)
{
    if (!host_tell(ctx, KV_CONTROL_KEEP, client, on))
        ex_log(EX_WARNING, "CLIENT NO-EVICT did not reach the DPU");
}

/* ---- Attach, detach ---- */

static void *host_memory(size_t size)
{
    void *p = NULL;

    if (size == 0 || posix_memalign(&p, 4096, size) != 0)
        ex_die("out of memory for the host role (%zu bytes)", size);
    return p;
}

static int host_attach_files(struct kv_host *h, struct snic_dma *dma)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    struct snic_filelib_opts f = {.opts_size = sizeof(f)};
    size_t size;
    int r;

    o.channels_max = 4;
    o.recv = host_recv;
    o.death = host_hub_death;
    o.ctx = h;
    size = snic_channel_hub_memsize(&o);
    h->hub_memory = host_memory(size);
    r = snic_channel_hub_init(&h->hub, h->hub_memory, size, dma, &o);
    if (r != 0)
        return r;
    h->dma = dma;
    f.depth = 1024;
    f.up_bytes = 8u << 20;
    f.down_bytes = 8u << 20;
    f.payload_align = 4096;
    if (h->config->tenants.on) {
        f.tenants = kv_tenants_count(&h->config->tenants);
        f.credit = HOST_CREDIT;
    }
    f.closed = host_files_closed;
    f.ctx = h;
    size = snic_filelib_memsize(&f);
    h->files_memory = host_memory(size);
    return snic_filelib_open(&h->files, h->files_memory, size, h->hub, &f);
}

static int host_open_engine(struct kv_host *h)
{
    struct kv_engine_opts o;
    char error[256];
    int r;

    if (h->engine != NULL) {
        kv_engine_attach(h->engine, &kv_lib_ops, h->files);
        return 0;
    }
    kv_engine_options(&o, h->config);
    o.loop = h->loop;
    o.files = &kv_lib_ops;
    o.files_ctx = h->files;
    o.events.reply = host_reply;
    if (h->config->offload != KV_OFFLOAD_OFF) {
        o.events.invalidate = host_invalidate;
        o.events.invalidate_all = host_invalidate_all;
        o.events.cache = host_cache;
    }
    o.cache_memory = h->config->offload == KV_OFFLOAD_ALL;
    o.events.ctx = h;
    o.hook_bytes_max = snic_filelib_max(h->files);
    o.flush_bytes_max = (uint32_t)snic_min_u64(1u << 20, o.hook_bytes_max / 2);
    o.info = host_info;
    o.section = host_section;
    o.shutdown = host_shutdown;
    o.changed = host_changed;
    o.kill = host_kill;
    o.no_evict = host_no_evict;
    o.ctx = h;
    r = kv_engine_open(&h->engine, &o, error, sizeof(error));
    if (r != 0 && !h->dead)
        ex_die("cannot open the store in image '%s': %s", h->config->file, error);
    return r;
}

static int host_attach(struct kv_host *h, struct snic_dma *dma)
{
    static const struct snic_director_host_events events = {host_message, host_closed,
                                                            host_writable, host_death, NULL};
    struct snic_director_host_events ev = events;
    struct snic_director_host_opts o = {.opts_size = sizeof(o)};
    int r;

    h->dead = 0;
    h->epoch++;
    h->piece_at = 0;
    r = host_attach_files(h, dma);
    if (r == 0)
        r = host_open_engine(h);
    if (r != 0)
        return r;
    o.message_max = (uint32_t)h->config->message_max;
    o.key_size = 16;
    o.item_size = sizeof(struct kv_item);
    o.version = kv_engine_version(h->engine);
    ev.ctx = h;
    r = snic_director_host_open(&h->director, h->hub, &ev, &o);
    if (r != 0)
        return r;
    host_changed(h, kv_engine_settings(h->engine)); /* a new DPU has the options only */
    ex_log(EX_INFO, "attached to the DPU role");
    kv_engine_writable(h->engine);
    return 0;
}

/* At the top level only: closing runs the loop. */
static void host_detach(struct kv_host *h)
{
    if (h->engine != NULL)
        kv_engine_detach(h->engine);
    if (h->director != NULL)
        snic_director_host_close(h->director);
    h->director = NULL;
    if (h->files != NULL)
        snic_filelib_close(h->files);
    h->files = NULL;
    if (h->hub != NULL)
        snic_channel_hub_fini(h->hub);
    else if (h->dma != NULL)
        snic_dma_close(h->dma);
    h->hub = NULL;
    h->dma = NULL;
    free(h->hub_memory);
    free(h->files_memory);
    h->hub_memory = NULL;
    h->files_memory = NULL;
}

/* Connect to the DPU process, or find that it is not there yet. */
static void host_connect(struct kv_host *h)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    struct snic_dma_events none;
    struct snic_dma *dma = h->given;
    int r = 0;

    memset(&none, 0, sizeof(none));
    o.path = h->config->socket;
    h->given = NULL;
    if (dma == NULL)
        r = snic_dma_shm_connect(&dma, h->loop, &o, &none);
    if (r == 0) {
        h->missed = 0;
        r = host_attach(h, dma);
        if (r != 0) {
            ex_log(EX_WARNING, "cannot attach to the DPU role at '%s': %s", o.path,
                   snic_strerror(r));
            host_detach(h);
        }
    } else if (r != SNIC_ECONNREFUSED && r != SNIC_ENOENT) {
        ex_log(EX_WARNING, "cannot connect to the DPU role at '%s': %s", o.path, snic_strerror(r));
    } else if (++h->missed == HOST_PATIENCE) {
        ex_log(EX_INFO, "waiting for the DPU role at '%s' (kv_server --role dpu)", o.path);
    }
}

/* ---- Open, run ---- */

static void host_tick(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now; /* only makes the loop go round */
}

struct kv_host *kv_host_open(const struct kv_config *c)
{
    struct kv_host *h = calloc(1, sizeof(*h));

    if (h == NULL)
        ex_die("out of memory for the host role");
    h->config = c;
    h->loop = ex_loop_open((uint32_t)c->spin_us);
    snic_timer_init(&h->timer, host_tick);
    snic_timer_init(&h->resend, host_resend);
    kv_qos_hear_init(&h->heard, c);
    return h;
}

struct snic_loop *kv_host_loop(struct kv_host *h)
{
    return h->loop;
}

void kv_host_use(struct kv_host *h, struct snic_dma *dma)
{
    h->given = dma;
}

void kv_host_drain(void *host)
{
    struct kv_host *h = host;

    if (!h->draining) {
        h->draining = 1;
        h->drain_ns = snic_loop_now(h->loop);
        snic_loop_arm(h->loop, &h->timer, h->drain_ns + KV_DRAIN_NS);
    }
}

/* One attempt per KV_RETRY_NS, also when links are made and lost at once. */
static int host_may_connect(struct kv_host *h)
{
    uint64_t now = snic_loop_clock(h->loop);

    if (h->dma != NULL || h->draining || (h->given == NULL && h->config->role == KV_ROLE_SINGLE))
        return 0;
    if (now < h->connect_ns) {
        snic_loop_arm(h->loop, &h->timer, h->connect_ns);
        return 0;
    }
    h->connect_ns = now + KV_RETRY_NS;
    return 1;
}

static int host_over(const struct kv_host *h)
{
    if (!h->draining)
        return 0;
    return h->dpu_drained || h->director == NULL ||
           snic_loop_now(h->loop) - h->drain_ns >= KV_DRAIN_NS;
}

static void host_report_gone(const struct kv_host *h)
{
    struct snic_director_mismatch m;

    if (h->director != NULL && snic_director_host_get_mismatch(h->director, &m))
        ex_log(EX_ERROR,
               "the DPU role refused this one: %s is %u here, %u there: start both from the same "
               "version",
               m.option, m.host, m.director);
    else
        ex_log(h->draining ? EX_INFO : EX_WARNING, "the DPU role is gone");
}

int kv_host_run(struct kv_host *h)
{
    int r = 0;

    while (r >= 0 && !host_over(h)) {
        if (h->dead) {
            host_report_gone(h);
            host_detach(h);
            h->dead = 0;
        }
        if (host_may_connect(h)) {
            host_connect(h);
            if (h->dma == NULL && h->config->role == KV_ROLE_SINGLE)
                ex_die("cannot link the host role to the DPU role");
            if (h->dma == NULL)
                snic_loop_arm(h->loop, &h->timer, h->connect_ns);
        }
        if (!h->dead)
            r = snic_loop_once(h->loop, SNIC_NEVER);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    if (h->config->role == KV_ROLE_HOST)
        ex_signals_off(); /* in a single process they are the DPU thread's */
    if (h->engine != NULL && h->director != NULL &&
        kv_engine_finish(h->engine, KV_STORE_NS) == SNIC_ETIMEDOUT) {
        ex_log(EX_ERROR,
               "the DPU role has not completed a write for %u s: writes that are not "
               "durable yet are lost",
               (unsigned)(KV_STORE_NS / 1000000000u));
        host_detach(h);
    }
    r = h->engine != NULL ? kv_engine_close(h->engine) : 0;
    h->engine = NULL;
    if (r != 0)
        ex_log(EX_ERROR, "cannot write the last records: %s; they may be lost", snic_strerror(r));
    host_detach(h);
    ex_stats_stop(h->stats);
    snic_net_shut(h->net);
    snic_loop_cancel(h->loop, &h->timer);
    snic_loop_cancel(h->loop, &h->resend);
    snic_loop_close(h->loop);
    kv_qos_hear_fini(&h->heard);
    free(h);
    return r != 0;
}

int kv_run_host(const struct kv_config *c)
{
    struct kv_host *h = kv_host_open(c);

    if (c->stats > 0 &&
        ex_stats_start(&h->stats, h->loop, NULL, "kv_host", c->stats, NULL, host_metrics, h) != 0)
        return 1;
    ex_signals(h->loop, kv_host_drain, h);
    return kv_host_run(h);
}
