/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The baseline: the engine on plain files, without a DPU. */
#include "../server/monolith.h"

#include "files_plain.h"
#include "offload_user.h"
#include "roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KV_HARD_NS 10000000000u /* a client at the hard limit that takes nothing for so long */

struct kv_monolith {
    struct ex_monolith base;
    const struct kv_config *config;
    struct kv_offload user; /* for framing */
    struct kv_engine *engine;
};

static void monolith_shutdown(void *ctx, int nosave)
{
    struct kv_monolith *m = ctx;

    (void)nosave; /* what is in memory is always written: the log is the store */
    ex_monolith_drain(&m->base);
}

static size_t monolith_info(void *ctx, char *out, size_t max)
{
    struct kv_monolith *m = ctx;
    struct ex_front_stats f;
    int n;

    ex_front_get_stats(m->base.front, &f);
    n = snprintf(out, max,
                 "snicstore_role:monolith\r\noffloaded_share:0\r\nhost_cpu_us:%" PRIu64
                 "\r\ntotal_cpu_us:%" PRIu64 "\r\noutput_limit_resets:%" PRIu64
                 "\r\nclients_memory_resets:%" PRIu64 "\r\nquery_limit_resets:%" PRIu64 "\r\n",
                 ex_cpu_process_ns() / 1000, ex_cpu_process_ns() / 1000, f.limited[EX_FRONT_CONN],
                 f.limited[EX_FRONT_TOTAL], m->user.framing.query_limit);
    return n < 0 ? 0 : (size_t)n < max ? (size_t)n : max - 1;
}

static size_t monolith_metrics(struct ex_monolith *base, struct ex_metric *out)
{
    struct kv_monolith *m = SNIC_CONTAINER(base, struct kv_monolith, base);
    struct kv_engine_stats s;
    struct ex_front_stats f;
    size_t n;

    kv_engine_get_stats(m->engine, &s);
    ex_front_get_stats(m->base.front, &f);
    n = kv_engine_metrics(&s, out);
    out[n++] = (struct ex_metric){"output_limit_resets", f.limited[EX_FRONT_CONN], 1};
    out[n++] = (struct ex_metric){"clients_memory_resets", f.limited[EX_FRONT_TOTAL], 1};
    out[n++] = (struct ex_metric){"query_limit_resets", m->user.framing.query_limit, 1};
    return n;
}

/* ---- Between front and engine ---- */

static int monolith_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                          uint32_t count, uint32_t flags, uint64_t user)
{
    const struct kv_monolith *m = ctx;

    (void)user; /* the engine knows it */
    ex_front_reply(m->base.front, client, seq, iov, count,
                   (flags & KV_REPLY_CLOSE) != 0 ? EX_FRONT_CLOSE : 0);
    return 0;
}

static int monolith_message(void *ctx, uint64_t client, uint64_t seq, const unsigned char *msg,
                            size_t size)
{
    const struct kv_monolith *m = ctx;

    return kv_engine_message(m->engine, client, seq, 0, msg, size);
}

static void monolith_closed(void *ctx, uint64_t client)
{
    const struct kv_monolith *m = ctx;

    kv_engine_client_closed(m->engine, client);
}

static void monolith_second(void *ctx)
{
    struct kv_monolith *m = ctx;

    resp_framing_report(&m->user.framing);
}

static struct ex_front_limits monolith_limits(const struct resp_settings *s)
{
    const struct resp_out_limit *l = &s->out[0];

    return (struct ex_front_limits){.hard = l->hard,
                                    .hard_ns = KV_HARD_NS,
                                    .soft = l->soft,
                                    .soft_ns = l->soft_s * 1000000000u,
                                    .total = resp_settings_clients(s)};
}

/* CONFIG SET */
static void monolith_changed(void *ctx, const struct resp_settings *s)
{
    struct kv_monolith *m = ctx;
    struct ex_front_limits l = monolith_limits(s);

    m->user.framing.query_max = s->query;
    ex_front_set_limits(m->base.front, &l);
}

static int monolith_kill(void *ctx, uint64_t client)
{
    const struct kv_monolith *m = ctx;

    return ex_front_kill(m->base.front, client);
}

static int monolith_facts(void *ctx, uint64_t client, struct kv_client_facts *out)
{
    const struct kv_monolith *m = ctx;
    struct ex_front_facts f;

    if (!ex_front_get_facts(m->base.front, client, &f))
        return 0;
    memcpy(out->peer, f.peer, sizeof(f.peer));
    memcpy(out->own, f.own, sizeof(f.own));
    out->query_bytes = f.query_bytes;
    out->query_memory = f.query_memory;
    out->out_bytes = f.out_bytes;
    out->out_blocks = f.out_blocks;
    out->out_memory = f.out_memory;
    return 1;
}

static void monolith_no_evict(void *ctx, uint64_t client, int on)
{
    const struct kv_monolith *m = ctx;

    ex_front_no_evict(m->base.front, client, on);
}

/* ---- Open, run ---- */

/* The recovery runs the loop, so the engine comes before the first client. */
static void monolith_open_engine(struct kv_monolith *m, struct kv_plain *files)
{
    struct kv_engine_opts o;
    char error[256];
    int r;

    kv_engine_options(&o, m->config);
    o.loop = m->base.loop;
    o.files = &kv_plain_ops;
    o.files_ctx = files;
    o.events.reply = monolith_reply;
    o.events.ctx = m;
    o.info = monolith_info;
    o.shutdown = monolith_shutdown;
    o.changed = monolith_changed;
    o.kill = monolith_kill;
    o.facts = monolith_facts;
    o.no_evict = monolith_no_evict;
    o.ctx = m;
    r = kv_engine_open(&m->engine, &o, error, sizeof(error));
    if (r != 0)
        ex_die("cannot open the store in '%s': %s", m->config->server.directory, error);
}

static void monolith_listen(struct kv_monolith *m)
{
    const struct resp_settings *s = &m->config->settings;
    struct ex_front_opts o;

    memset(&o, 0, sizeof(o));
    m->user.framing.limits.bulk_max = KV_VALUE_MAX;
    m->user.framing.limits.message_max = (uint32_t)m->config->message_max;
    m->user.framing.query_max = s->query;
    o.in_order = 1;
    o.pending_max = KV_PENDING_MAX;
    o.limits = monolith_limits(s);
    o.limit_names[EX_FRONT_CONN] = "client-output-buffer-limit";
    o.limit_names[EX_FRONT_TOTAL] = "maxmemory-clients";
    o.user = kv_director_user(&m->user);
    o.message = monolith_message;
    o.closed = monolith_closed;
    o.second = monolith_second;
    o.ctx = m;
    ex_monolith_listen(&m->base, &o);
}

int kv_run_monolith(const struct kv_config *c)
{
    static struct kv_monolith m = {.base.metrics = monolith_metrics};
    struct kv_plain *files;
    char error[256];
    int r;

    m.config = c;
    ex_monolith_open(&m.base, &c->server);
    if (kv_plain_open(&files, m.base.loop, c->server.directory, !c->server.buffered, error,
                      sizeof(error)) != 0)
        ex_die("%s", error);
    monolith_open_engine(&m, files);
    monolith_listen(&m);
    (void)ex_monolith_run(&m.base);
    r = kv_engine_close(m.engine);
    if (r != 0)
        ex_log(EX_ERROR, "cannot write the last records to '%s': %s; they may be lost",
               c->server.directory, snic_strerror(r));
    kv_plain_close(files);
    ex_monolith_close(&m.base);
    return r != 0;
}
