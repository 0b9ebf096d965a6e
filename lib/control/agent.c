/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A block server's end: public functions, and the session with the catalog.
 */
#include "control/agent_priv.h"

#define SNIC_CONTROL__AGENT_TICK_NS UINT64_C(50000000)

/* ---- The session ---- */

static void control_agent_up(void *owner)
{
    struct snic_control_agent *a = owner;
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_HELLO, 0);
    m.role = SNIC_CONTROL_STORE;
    m.server = a->server;
    m.serial = a->serial;
    m.uuid[0] = a->uuid[0];
    m.uuid[1] = a->uuid[1];
    m.addr = a->o.addr;
    m.peer = a->peer_addr;
    a->heard_ns = a->ping_ns = snic_loop_now(a->o.loop);
    control_agent_send(a, &m);
}

static void control_agent_msg(void *owner, struct snic_control_msg *m)
{
    struct snic_control_agent *a = owner;
    a->heard_ns = snic_loop_now(a->o.loop);
    if (m->type == SNIC_CONTROL_WELCOME && a->state == CONTROL_AGENT_IDLE)
        control_agent_welcome(a, m);
    else if (m->type == SNIC_CONTROL_DONE && m->status < 0)
        control_agent_refused(a, m->status);
    else if (m->type == SNIC_CONTROL_VERDICT && a->state == CONTROL_AGENT_CLAIMING &&
             a->sweep_op == 0 && !a->claim_due)
        control_agent_verdict_begin(a, m);
    else if (m->type == SNIC_CONTROL_COMMAND && a->state >= CONTROL_AGENT_STORING)
        control_agent_command_queue(a, m);
    else if (m->type != SNIC_CONTROL_PONG)
        control_stream_abort(&a->s);
}

static void control_agent_gone(void *owner, int reason)
{
    struct snic_control_agent *a = owner;
    int was = a->state == CONTROL_AGENT_READY;
    a->session++;
    if (a->state != CONTROL_AGENT_LOADING)
        a->state = CONTROL_AGENT_IDLE;
    a->claim_due = 0;
    /* A catalog of another version is retried as rarely as one that refuses. */
    a->begin_ns = snic_max_u64(a->begin_ns, snic_loop_now(a->o.loop) +
                                                (reason == SNIC_EVERSION ? 20 : 1) * a->o.retry_ns);
    control_agent_commands_drop(a);
    if (was && a->e.ready != NULL && !a->closing)
        a->e.ready(a->ctx, 0, a->server);
    int rejected = reason == SNIC_EACCES || reason == SNIC_ENOTSUP || reason == SNIC_ENFILE;
    if ((rejected || reason == SNIC_EVERSION) && a->e.refused != NULL && !a->closing)
        a->e.refused(a->ctx, reason);
    if (rejected) /* as control_agent_refused() */
        a->begin_ns = snic_loop_now(a->o.loop) + 20 * a->o.retry_ns;
}

static void control_agent_tick(struct snic_timer *t, uint64_t now)
{
    struct snic_control_agent *a = SNIC_CONTAINER(t, struct snic_control_agent, timer);
    struct snic_control_msg m;
    if (a->state == CONTROL_AGENT_LOADING && !a->meta_submitted && now >= a->begin_ns) {
        int r = control_agent_load(a);
        if (r != 0)
            control_agent_refused(a, r);
    }
    if (a->s.conn == NULL && a->state == CONTROL_AGENT_IDLE && now >= a->begin_ns) {
        if (control_stream_connect(&a->s, &a->o.control) != 0)
            a->begin_ns = now + a->o.retry_ns;
        a->heard_ns = now;
    } else if (a->s.conn != NULL && now - a->heard_ns > 6 * a->o.ping_ns) {
        control_stream_abort(&a->s);
    } else if (a->state >= CONTROL_AGENT_CLAIMING && now - a->ping_ns >= a->o.ping_ns) {
        a->ping_ns = now;
        control_msg(&m, SNIC_CONTROL_PING, 0);
        control_agent_space(a, &m);
        control_agent_send(a, &m);
    }
    control_agent_sink_tick(a, now);
    snic_loop_arm(a->o.loop, &a->timer, now + SNIC_CONTROL__AGENT_TICK_NS);
}

static void control_agent_retried(struct snic_timer *t, uint64_t now)
{
    struct snic_control_agent *a = SNIC_CONTAINER(t, struct snic_control_agent, retry);
    (void)now;
    control_agent_sink_retry(a);
    control_agent_source_retry(a);
    control_agent_run(a);
}

/* ---- Public functions ---- */

/* Fill in defaults. @return which option is invalid, and how; NULL: none */
static const char *control_agent_options(struct snic_control_agent_opts *o,
                                         const struct snic_control_agent_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->ping_ns == 0)
        o->ping_ns = UINT64_C(500000000);
    if (o->retry_ns == 0)
        o->retry_ns = UINT64_C(100000000);
    if (o->flags != 0)
        return "flags: unknown bits";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    if (o->store == NULL || snic_segments_loop(o->store) != o->loop)
        return "store: NULL, or of another loop";
    if (o->addr.family == 0 || !control_addr_known(&o->addr))
        return "addr: not of IPv4, IPv6 or the simulator";
    if (o->listen.family == 0 || !control_addr_known(&o->listen))
        return "listen: not of IPv4, IPv6 or the simulator";
    return NULL;
}

const char *snic_control_agent_opts_wrong(const struct snic_control_agent_opts *from)
{
    struct snic_control_agent_opts o;
    return control_agent_options(&o, from);
}

static void control_agent_layout(struct snic_arena *x, struct snic_control_agent *a)
{
    static const struct control_stream_events ev = {
        .up = control_agent_up, .msg = control_agent_msg, .gone = control_agent_gone};
    size_t data = (size_t)SNIC_CONTROL__LIST * SNIC_SEGMENTS_BLOCK;
    unsigned char *in = snic_arena_take(x, 1, SNIC_CONTROL_SMALL, 64);
    unsigned char *out = snic_arena_take(x, 1, SNIC_CONTROL__OUT, 64);
    a->queue = snic_arena_take(x, SNIC_CONTROL__QUEUE, sizeof(*a->queue), 64);
    a->meta_data = snic_arena_take(x, SNIC_CONTROL__COPIES, SNIC_SEGMENTS_BLOCK, 64);
    unsigned char *sink_in = snic_arena_take(x, 1, SNIC_CONTROL_LARGE, 64);
    unsigned char *sink_out = snic_arena_take(x, 1, SNIC_CONTROL_SMALL, 64);
    unsigned char *sink_body = snic_arena_take(x, 1, SNIC_CONTROL__BODY, 64);
    int placed = x->base != NULL && x->used != SIZE_MAX;
    if (placed) {
        control_stream_init(&a->s, a->o.net, &ev, a, in, SNIC_CONTROL_SMALL, out,
                            SNIC_CONTROL__OUT);
        control_agent_sink_init(a, sink_in, sink_out, sink_body);
        a->s.auth.opts = a->sink.s.auth.opts = a->o.auth;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES; i++) {
        unsigned char *p_in = snic_arena_take(x, 1, SNIC_CONTROL_SMALL, 64);
        unsigned char *p_out = snic_arena_take(x, 1, SNIC_CONTROL_LARGE, 64);
        unsigned char *p_data = snic_arena_take(x, 1, data, 64);
        unsigned char *p_body = snic_arena_take(x, 1, SNIC_CONTROL__BODY, 64);
        if (placed && x->used != SIZE_MAX)
            control_agent_source_init(a, &a->source[i], p_in, p_out, p_data, p_body);
        if (placed)
            a->source[i].s.auth.opts = a->o.auth;
    }
}

size_t snic_control_agent_memsize(const struct snic_control_agent_opts *o)
{
    struct snic_arena x = {.base = NULL, .size = SIZE_MAX};
    struct snic_control_agent a;
    memset(&a, 0, sizeof(a));
    if (control_agent_options(&a.o, o) != NULL)
        return 0;
    (void)snic_arena_take(&x, 1, sizeof(a), SNIC_CONTROL_ALIGN);
    control_agent_layout(&x, &a);
    return x.used == SIZE_MAX ? 0 : x.used;
}

int snic_control_agent_open(struct snic_control_agent **out, void *mem, size_t size,
                            const struct snic_control_agent_opts *from,
                            const struct snic_control_agent_events *e, void *ctx)
{
    struct snic_arena x = {.base = mem, .size = size};
    struct snic_control_agent_opts o;
    struct snic_segments_info info;
    if ((uintptr_t)mem % SNIC_CONTROL_ALIGN != 0 || control_agent_options(&o, from) != NULL)
        return SNIC_EINVAL;
    struct snic_control_agent *a = snic_arena_take(&x, 1, sizeof(*a), SNIC_CONTROL_ALIGN);
    if (a == NULL)
        return SNIC_ENOSPC;
    memset(a, 0, sizeof(*a));
    a->o = o;
    a->e = *e;
    a->ctx = ctx;
    a->session = 1;
    control_agent_layout(&x, a);
    if (x.used == SIZE_MAX)
        return SNIC_ENOSPC;
    snic_segments_inspect(o.store, &info);
    a->list_max = (uint32_t)snic_min_u64(info.list_max, SNIC_CONTROL__LIST);
    snic_timer_init(&a->timer, control_agent_tick);
    snic_timer_init(&a->retry, control_agent_retried);
    int r = snic_net_listen(o.net, &o.listen, 0, control_agent_source_accept, a, &a->listener);
    if (r != 0)
        return r;
    r = snic_net_listen_addr(a->listener, &a->peer_addr);
    if (r != 0) {
        snic_net_unlisten(a->listener);
        return r;
    }
    snic_loop_arm(o.loop, &a->timer, snic_loop_now(o.loop));
    *out = a;
    return 0;
}

static int control_agent_idle(const struct snic_control_agent *a)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES; i++)
        if (a->source[i].used || a->source[i].submitted)
            return 0;
    return a->s.conn == NULL && a->sink.s.conn == NULL && !a->sink.submitted &&
           !a->meta_submitted && a->slots_used == 0;
}

void *snic_control_agent_close(struct snic_control_agent *a)
{
    SNIC_ASSERT(!a->closing);
    a->closing = 1;
    snic_loop_cancel(a->o.loop, &a->timer);
    snic_loop_cancel(a->o.loop, &a->retry);
    snic_net_unlisten(a->listener);
    control_stream_abort(&a->s);
    control_stream_abort(&a->sink.s);
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES; i++)
        control_stream_abort(&a->source[i].s);
    while (!control_agent_idle(a))
        (void)snic_loop_once(a->o.loop, SNIC_NEVER);
    return a;
}

void snic_control_agent_get_stats(const struct snic_control_agent *a,
                                  struct snic_control_agent_stats *out)
{
    *out = a->stats;
    out->server = a->server;
    out->ready = a->state == CONTROL_AGENT_READY;
}
