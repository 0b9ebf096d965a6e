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

#define KV_RESEND_NS 1000000u    /* until settings are sent again that did not fit */
#define HOST_CREDIT 32           /* requests per tenant until the device grants some */
#define KV_DRAIN_NS 15000000000u /* a DPU that does not drain is not waited for longer */
#define KV_STORE_NS 10000000000u /* then: one that makes no progress with the last writes */
#define KV_EPOCH_SHIFT 48
#define KV_REPLY_PIECE (4u << 20)

struct kv_host {
    struct ex_host base;
    const struct kv_config *config;
    struct kv_engine *engine;
    size_t piece_at;          /* of a long reply that is being sent in pieces */
    struct snic_timer resend; /* of the settings, which did not fit into the queue to the DPU */
    struct kv_control dpu;    /* its newest figures */
    struct kv_qos_heard heard;
};

static struct kv_host *host_of(struct ex_host *base)
{
    return SNIC_CONTAINER(base, struct kv_host, base);
}

/* ---- Up: to the director ---- */

static int host_gone(const struct kv_host *h, uint64_t client)
{
    return h->base.director == NULL ||
           (client >> KV_EPOCH_SHIFT) != (h->base.attachments & 0xffff); /* H1 */
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
        r = snic_director_host_reply(h->base.director, conn, seq, &piece, 1,
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
    return snic_director_host_reply(h->base.director, conn, seq, iov, count, f, user) == SNIC_EAGAIN
               ? SNIC_EAGAIN
               : 0;
}

/* R1, and the cache walk: an entry for the DPU's table, in order with the replies. */
static int host_entry(struct kv_host *h, const unsigned char key[16], const struct kv_item *item,
                      uint64_t version)
{
    struct snic_director_entry e = {key, item, version};

    return snic_director_host_entries(h->base.director, &e, 1) == SNIC_EAGAIN ? SNIC_EAGAIN : 0;
}

static int host_invalidate(void *ctx, const unsigned char key[16], uint64_t version)
{
    struct kv_host *h = ctx;

    /* Without a director nothing is served, and the next one starts empty (R7). */
    return h->base.director == NULL ? 0 : host_entry(h, key, NULL, version);
}

static int host_cache(void *ctx, const unsigned char key[16], const struct kv_item *item,
                      uint64_t version)
{
    struct kv_host *h = ctx;

    return h->base.director == NULL ? SNIC_EAGAIN : host_entry(h, key, item, version);
}

static int host_invalidate_all(void *ctx, uint64_t version)
{
    struct kv_host *h = ctx;

    if (h->base.director == NULL)
        return 0;
    return snic_director_host_invalidate_all(h->base.director, version) == SNIC_EAGAIN ? SNIC_EAGAIN
                                                                                       : 0;
}

/* ---- Down: from the director ---- */

static uint64_t host_client(const struct kv_host *h, uint64_t conn)
{
    return conn | (h->base.attachments << KV_EPOCH_SHIFT);
}

static void host_message(struct ex_host *base, uint64_t conn, uint64_t seq, uint64_t user,
                         const unsigned char *msg, uint32_t size)
{
    struct kv_host *h = host_of(base);

    (void)kv_engine_message(h->engine, host_client(h, conn), seq, user, msg, size);
}

static void host_closed(struct ex_host *base, uint64_t conn)
{
    struct kv_host *h = host_of(base);

    kv_engine_client_closed(h->engine, host_client(h, conn));
}

static void host_writable(struct ex_host *base)
{
    kv_engine_writable(host_of(base)->engine);
}

static void host_recv(struct ex_host *base, const void *msg, uint32_t size)
{
    struct kv_host *h = host_of(base);
    struct kv_control m;

    if (kv_qos_hear(&h->heard, msg, size) || size != sizeof(m))
        return;
    memcpy(&m, msg, sizeof(m));
    if (m.magic != KV_CONTROL_MAGIC)
        return;
    h->dpu = m;
    if (m.kind == KV_CONTROL_DRAINED) {
        base->done = 1;
        ex_host_drain(base);
    }
}

/* ---- INFO, metrics ---- */

static size_t host_info(void *ctx, char *out, size_t max)
{
    struct kv_host *h = ctx;
    const struct kv_control *d = &h->dpu;
    uint64_t host = ex_server_cpu_ns(h->base.server) / 1000;
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
        h->base.server->role == EX_ROLE_SINGLE ? "single-process" : "host", (int)getpid(), d->pid,
        host, d->cpu_ns / 1000, host + d->cpu_ns / 1000, d->messages, d->offloaded,
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

static size_t host_metrics(struct ex_host *base, struct ex_metric *out)
{
    struct kv_host *h = host_of(base);
    struct kv_engine_stats s;

    if (h->engine == NULL)
        return 0;
    kv_engine_get_stats(h->engine, &s);
    return kv_engine_metrics(&s, out);
}

static void host_shutdown(void *ctx, int nosave)
{
    struct kv_host *h = ctx;
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = KV_CONTROL_SHUTDOWN};

    (void)nosave; /* what is in memory is always written: the log is the store */
    if (h->base.dma != NULL)
        (void)snic_dma_send(h->base.dma, &m, sizeof(m));
    ex_host_drain(&h->base);
}

/* CONFIG SET: send the settings to the DPU: is a password needed, limits of clients' memory. */
static void host_changed(void *ctx, const struct resp_settings *s)
{
    struct kv_host *h = ctx;
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = KV_CONTROL_SETTINGS};

    m.messages = s->password[0] != 0;
    m.cpu_ns = s->out[0].hard;
    m.offloaded = s->out[0].soft;
    m.to_host = s->out[0].soft_s;
    m.records_up = resp_settings_clients(s);
    m.records_down = s->query;
    if (h->base.dma != NULL && snic_dma_send(h->base.dma, &m, sizeof(m)) == 0)
        snic_loop_arm(h->base.loop, &h->resend, snic_loop_now(h->base.loop) + KV_RESEND_NS);
}

static void host_resend(struct snic_timer *t, uint64_t now)
{
    struct kv_host *h = SNIC_CONTAINER(t, struct kv_host, resend);

    (void)now;
    if (h->engine != NULL)
        host_changed(h, kv_engine_settings(h->engine));
}

/* Send a client's change to the DPU. @return 1; 0 it is of a DPU before this one, or no room */
static int host_control(const struct kv_host *h, enum kv_control_kind kind, uint64_t client, int on)
{
    struct kv_control m = {.magic = KV_CONTROL_MAGIC, .kind = kind};

    m.messages = host_conn(client);
    m.offloaded = on != 0;
    return h->base.dma != NULL && !host_gone(h, client) &&
           snic_dma_send(h->base.dma, &m, sizeof(m)) > 0;
}

static int host_kill(void *ctx, uint64_t client)
{
    return host_control(ctx, KV_CONTROL_KILL, client, 0);
}

static void host_no_evict(void *ctx, uint64_t client, int on)
{
    if (!host_control(ctx, KV_CONTROL_KEEP, client, on))
        ex_log(EX_WARNING, "CLIENT NO-EVICT did not reach the DPU");
}

/* ---- Attach, detach ---- */

static int host_open_engine(struct kv_host *h)
{
    struct kv_engine_opts o;
    char error[256];
    int r;

    if (h->engine != NULL) {
        kv_engine_attach(h->engine, &kv_lib_ops, h->base.files);
        return 0;
    }
    kv_engine_options(&o, h->config);
    o.loop = h->base.loop;
    o.files = &kv_lib_ops;
    o.files_ctx = h->base.files;
    o.events.reply = host_reply;
    if (h->config->offload != KV_OFFLOAD_OFF) {
        o.events.invalidate = host_invalidate;
        o.events.invalidate_all = host_invalidate_all;
        o.events.cache = host_cache;
    }
    o.cache_memory = h->config->offload == KV_OFFLOAD_ALL;
    o.events.ctx = h;
    o.hook_bytes_max = snic_filelib_max(h->base.files);
    o.flush_bytes_max = (uint32_t)snic_min_u64(1u << 20, o.hook_bytes_max / 2);
    o.info = host_info;
    o.section = host_section;
    o.shutdown = host_shutdown;
    o.changed = host_changed;
    o.kill = host_kill;
    o.no_evict = host_no_evict;
    o.ctx = h;
    r = kv_engine_open(&h->engine, &o, error, sizeof(error));
    if (r != 0 && !h->base.dead)
        ex_die("cannot open the store in image '%s': %s", h->config->server.file, error);
    return r;
}

static int host_attach(struct ex_host *base, struct snic_director_host_opts *o)
{
    struct kv_host *h = host_of(base);
    int r;

    h->piece_at = 0;
    r = host_open_engine(h);
    if (r != 0)
        return r;
    o->message_max = (uint32_t)h->config->message_max;
    o->key_size = 16;
    o->item_size = sizeof(struct kv_item);
    o->version = kv_engine_version(h->engine);
    return 0;
}

static void host_attached(struct ex_host *base)
{
    struct kv_host *h = host_of(base);

    host_changed(h, kv_engine_settings(h->engine)); /* a new DPU has the options only */
    kv_engine_writable(h->engine);
}

static void host_detach(struct ex_host *base)
{
    struct kv_host *h = host_of(base);

    if (h->engine != NULL)
        kv_engine_detach(h->engine);
}

static const struct ex_host_ops host_ops = {
    .drain_ns = KV_DRAIN_NS,
    .attach = host_attach,
    .attached = host_attached,
    .detach = host_detach,
    .metrics = host_metrics,
    .recv = host_recv,
    .message = host_message,
    .closed = host_closed,
    .writable = host_writable,
};

/* ---- Open, run ---- */

struct ex_host *kv_host_open(const struct kv_config *c)
{
    struct kv_host *h = calloc(1, sizeof(*h));

    if (h == NULL)
        ex_die("out of memory for the host role");
    h->config = c;
    if (c->tenants.on) {
        h->base.tenants = kv_tenants_count(&c->tenants);
        h->base.credit = HOST_CREDIT;
    }
    ex_host_open(&h->base, &c->server, &host_ops);
    snic_timer_init(&h->resend, host_resend);
    kv_qos_hear_init(&h->heard, c);
    return &h->base;
}

/* The engine writes what it still holds. @return 0 or SNIC_E* */
static int host_close_engine(struct kv_host *h)
{
    int r;

    if (h->engine == NULL)
        return 0;
    if (h->base.director != NULL && kv_engine_finish(h->engine, KV_STORE_NS) == SNIC_ETIMEDOUT) {
        ex_log(EX_ERROR,
               "the DPU role has not completed a write for %u s: writes that are not "
               "durable yet are lost",
               (unsigned)(KV_STORE_NS / 1000000000u));
        ex_host_detach(&h->base);
    }
    r = kv_engine_close(h->engine);
    h->engine = NULL;
    if (r != 0)
        ex_log(EX_ERROR, "cannot write the last records: %s; they may be lost", snic_strerror(r));
    return r;
}

int kv_host_run(struct ex_host *base)
{
    struct kv_host *h = host_of(base);
    int r;

    (void)ex_host_run(base);
    r = host_close_engine(h);
    snic_loop_cancel(base->loop, &h->resend);
    ex_host_close(base);
    kv_qos_hear_fini(&h->heard);
    free(h);
    return r != 0;
}

int kv_run_host(const struct kv_config *c)
{
    struct ex_host *base = kv_host_open(c);

    return ex_host_start(base) != 0 ? 1 : kv_host_run(base);
}
