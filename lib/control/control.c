/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The catalog's public functions: options, memory, the log, sessions, time.
 */
#include "control/control_priv.h"

#define SNIC_CONTROL__TICK_NS UINT64_C(50000000)

/* ---- Options and memory ---- */

static void control_default(uint32_t *v, uint32_t value)
{
    if (*v == 0)
        *v = value;
}

static void control_wal_opts(const struct snic_control_opts *o, struct snic_wal_opts *w)
{
    memset(w, 0, sizeof(*w));
    w->opts_size = sizeof(*w);
    w->flags = o->flags;
    w->segment_bytes = 128u << 10; /* a catalog is small, and its device may be */
    w->record_max = 1024;
    w->batch_bytes = 64u << 10;
    w->uuid[0] = o->uuid[0];
    w->uuid[1] = o->uuid[1];
}

/* Less would end sessions between two ticks; much more would overflow the clock. */
static int control_time_ok(uint64_t ns)
{
    return ns >= 2 * SNIC_CONTROL__TICK_NS && ns <= UINT64_C(86400000000000);
}

/* Fill in defaults. @return which option is invalid, and how; NULL: none */
static const char *control_options(struct snic_control_opts *o,
                                   const struct snic_control_opts *from)
{
    struct snic_wal_opts w;
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    control_default(&o->disks_max, 256);
    control_default(&o->segments_max, 65536);
    control_default(&o->sessions_max, 64);
    control_default(&o->ops_max, 256);
    if (o->lease_ns == 0)
        o->lease_ns = UINT64_C(10000000000);
    if (o->server_ns == 0)
        o->server_ns = UINT64_C(3000000000);
    if ((o->flags & ~(SNIC_WAL_CREATE | SNIC_WAL_FORMAT)) != 0)
        return "flags: unknown bits";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    if (o->io == NULL || o->io->loop != o->loop)
        return "io: NULL, or of another loop";
    if (o->disks_max > 65536)
        return "disks_max: above 65536";
    if (o->segments_max > 1u << 28)
        return "segments_max: above 2^28";
    if (o->sessions_max > 4096)
        return "sessions_max: above 4096";
    if (o->ops_max > 32768)
        return "ops_max: above 32768";
    if (!control_time_ok(o->lease_ns))
        return "lease_ns: not 100 ms to 24 h";
    if (!control_time_ok(o->server_ns))
        return "server_ns: not 100 ms to 24 h";
    if (o->flags != 0 && o->uuid[0] == 0 && o->uuid[1] == 0)
        return "uuid: 0";
    control_wal_opts(o, &w);
    return snic_wal_memsize(o->io, &w) == 0 ? "io: the device is too small, or read-only" : NULL;
}

const char *snic_control_opts_wrong(const struct snic_control_opts *from)
{
    struct snic_control_opts o;
    return control_options(&o, from);
}

static const struct control_stream_events control_session_ev;

/* Once to measure, once to place; the log's bytes. */
static size_t control_layout(struct snic_arena *a, struct snic_control *c, void **wal)
{
    const struct snic_control_opts *o = &c->o;
    struct snic_wal_opts w;
    control_wal_opts(o, &w);
    size_t size = snic_wal_memsize(o->io, &w);
    *wal = snic_arena_take(a, 1, size, SNIC_CONTROL_ALIGN);
    c->disk_mask = (uint32_t)snic_pow2_up(o->disks_max) - 1;
    c->seg_mask = (uint32_t)snic_pow2_up(o->segments_max) - 1;
    c->disks = snic_arena_take(a, o->disks_max, sizeof(*c->disks), 64);
    c->segs = snic_arena_take(a, o->segments_max, sizeof(*c->segs), 64);
    c->servers = snic_arena_take(a, SNIC_CONTROL_SERVERS_MAX, sizeof(*c->servers), 64);
    c->sessions = snic_arena_take(a, o->sessions_max, sizeof(*c->sessions), 64);
    c->ops = snic_arena_take(a, o->ops_max, sizeof(*c->ops), 64);
    c->disk_hash = snic_arena_take(a, (size_t)c->disk_mask + 1, sizeof(uint32_t), 64);
    c->seg_hash = snic_arena_take(a, (size_t)c->seg_mask + 1, sizeof(uint32_t), 64);
    c->replaced = snic_arena_take(a, o->disks_max, sizeof(uint32_t), 64);
    unsigned char *in = snic_arena_take(a, o->sessions_max, SNIC_CONTROL_SMALL, 64);
    unsigned char *out = snic_arena_take(a, o->sessions_max, SNIC_CONTROL__OUT, 64);
    unsigned char *overload =
        snic_arena_take(a, 2 * SNIC_CONTROL__OVERLOAD_MAX, SNIC_CONTROL_SMALL, 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return size;
    control_catalog_init(c);
    control_overload_init(c, overload);
    memset(c->sessions, 0, o->sessions_max * sizeof(*c->sessions));
    for (uint32_t i = 0; i < o->sessions_max; i++) {
        struct control_session *s = &c->sessions[i];
        s->c = c;
        s->index = i;
        control_stream_init(&s->s, o->net, &control_session_ev, s,
                            in + (size_t)i * SNIC_CONTROL_SMALL, SNIC_CONTROL_SMALL,
                            out + (size_t)i * SNIC_CONTROL__OUT, SNIC_CONTROL__OUT);
        s->s.auth.opts = o->auth;
    }
    control_op_init(c);
    return size;
}

size_t snic_control_memsize(const struct snic_control_opts *o)
{
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    struct snic_control c;
    void *wal;
    memset(&c, 0, sizeof(c));
    if (control_options(&c.o, o) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(c), SNIC_CONTROL_ALIGN);
    (void)control_layout(&a, &c, &wal);
    return a.used == SIZE_MAX ? 0 : a.used;
}

/* ---- Sessions ---- */

static void control_session_welcome(struct control_session *s)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_WELCOME, 0);
    m.incarnation = s->c->incarnation;
    m.uuid[0] = s->c->uuid[0];
    m.uuid[1] = s->c->uuid[1];
    control_session_send(s, &m);
}

/* Servers and operators must have proven account 0, whose key is that of all accounts. */
static int control_role_ok(const struct control_session *s, uint32_t role)
{
    return s->c->o.auth == NULL || role == SNIC_CONTROL_CLIENT || s->s.auth.account == 0;
}

static void control_hello(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    if (!control_role_ok(s, m->role)) {
        c->stats.forbidden++;
        control_session_reply(s, 0, SNIC_EACCES, 0);
        control_session_end(s, 1);
    } else if (m->role == SNIC_CONTROL_STORE) {
        s->role = SNIC_CONTROL_STORE;
        control_server_session_hello(s, m);
    } else if (m->role == SNIC_CONTROL_CLIENT &&
               c->o.sessions_max - c->stats.sessions < control_sessions_reserved(c)) {
        control_sessions_full(c);
        control_session_reply(s, 0, SNIC_ENFILE, 0);
        control_session_end(s, 1);
    } else if (m->role == SNIC_CONTROL_CLIENT || m->role == SNIC_CONTROL_OPERATOR) {
        s->role = m->role;
        control_session_welcome(s);
        if (m->role == SNIC_CONTROL_CLIENT)
            control_client_session_welcome(s);
    } else {
        control_session_malformed(s);
    }
}

static void control_session_msg(void *owner, struct snic_control_msg *m)
{
    struct control_session *s = owner;
    s->heard_ns = control_now(s->c);
    if (s->ended || s->c->closing || s->c->dead)
        return;
    if ((s->role == 0) != (m->type == SNIC_CONTROL_HELLO)) {
        control_session_malformed(s);
    } else if (s->role == 0) {
        control_hello(s, m);
    } else if (m->type == SNIC_CONTROL_PING && s->role != SNIC_CONTROL_STORE) {
        struct snic_control_msg pong;
        control_msg(&pong, SNIC_CONTROL_PONG, m->tag);
        control_session_send(s, &pong);
    } else if (s->role == SNIC_CONTROL_STORE) {
        control_server_session_msg(s, m);
    } else if (s->role == SNIC_CONTROL_CLIENT) {
        control_client_session_msg(s, m);
    } else {
        control_operator_session_msg(s, m);
    }
}

static void control_session_gone(void *owner, int reason)
{
    struct control_session *s = owner;
    struct snic_control *c = s->c;
    SNIC_ASSERT(s->used);
    SNIC_ASSERT(c->stats.sessions > 0);
    (void)reason;
    c->stats.malformed += s->s.bad && s->s.why != SNIC_EACCES;
    c->stats.unauthenticated += s->s.why == SNIC_EACCES;
    s->ended = 1;
    if (s->role == SNIC_CONTROL_STORE)
        control_server_session_gone(s);
    else if (s->role == SNIC_CONTROL_CLIENT)
        control_client_session_gone(s);
    control_op_session_gone(c, s->index);
    SNIC_ASSERT(s->ops == 0);
    s->used = 0;
    c->stats.sessions--;
}

static const struct control_stream_events control_session_ev = {.msg = control_session_msg,
                                                                .gone = control_session_gone};

static void control_accept(void *ctx, struct snic_net_conn *n, const struct snic_net_addr *peer)
{
    struct snic_control *c = ctx;
    struct control_session *s = NULL;
    (void)peer;
    for (uint32_t i = 0; i < c->o.sessions_max && s == NULL; i++)
        if (!c->sessions[i].used)
            s = &c->sessions[i];
    if (c->closing || c->dead) {
        snic_net_abort(n);
        return;
    }
    if (s == NULL) {
        control_overload_accept(c, n);
        control_sessions_full(c);
        return;
    }
    s->used = 1;
    s->role = 0;
    s->ended = 0;
    s->serial++;
    s->server = SNIC_CONTROL__NIL;
    s->heard_ns = control_now(c);
    c->stats.sessions++;
    control_stream_accept(&s->s, n);
    s->s.durable = snic_wal_durable(c->wal);
}

void snic_control_accounts_changed(struct snic_control *c)
{
    for (uint32_t i = 0; i < c->o.sessions_max; i++)
        if (c->sessions[i].used)
            control_stream_recheck(&c->sessions[i].s);
    c->rights_due = 1;
    control_lease_review(c);
}

/* ---- Time ---- */

static void control_tick(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_control *c = SNIC_CONTAINER(t, struct snic_control, timer);
    for (uint32_t i = 0; i < c->o.sessions_max; i++) {
        struct control_session *s = &c->sessions[i];
        uint64_t most = s->role == SNIC_CONTROL_STORE ? c->o.server_ns : c->o.lease_ns;
        if (s->role == 0) /* it has not sent HELLO */
            most = snic_min_u64(most, SNIC_CONTROL__HELLO_NS);
        if (s->used && now_ns - s->heard_ns > most) /* an orderly close may never complete */
            control_session_end(s, 0);
    }
    control_overload_tick(c, now_ns);
    control_op_tick(c);
    if (!c->closing && !c->dead)
        control_lease_review(c);
    if (!c->closing && !c->dead)
        snic_loop_arm(c->o.loop, &c->timer, now_ns + SNIC_CONTROL__TICK_NS);
}

/* ---- The log ---- */

static void control_opened(struct snic_control *c, int result)
{
    struct snic_wal_report none;
    memset(&none, 0, sizeof(none));
    if (!c->closing)
        c->e.opened(c->ctx, result, &none);
}

static void control_serve(struct snic_control *c)
{
    uint64_t now = control_now(c);
    SNIC_ASSERT(c->opened);
    SNIC_ASSERT(!c->serving);
    c->serving = 1;
    c->rights_due = 1; /* they may have changed while no process served */
    c->serving_ns = control_now(c);
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].used && c->disks[i].held)
            c->disks[i].grace_ns = now + c->o.lease_ns;
    int r = snic_net_listen(c->o.net, &c->o.addr, 0, control_accept, c, &c->listener);
    if (r != 0)
        c->listener = NULL;
    else
        snic_loop_arm(c->o.loop, &c->timer, now + SNIC_CONTROL__TICK_NS);
    control_opened(c, r);
}

/* This process's incarnation is durable before it is sent to any peer. */
static void control_begin(struct snic_control *c)
{
    SNIC_ASSERT(!c->opened);
    if (c->head_ts == 0) {
        c->uuid[0] = c->o.uuid[0];
        c->uuid[1] = c->o.uuid[1];
    }
    c->incarnation++;
    int r = control_put_head(c);
    if (r == 0)
        r = control_put_replaced_gone(c);
    if (r == 0) {
        c->opened = 1;
        (void)snic_wal_flush(c->wal);
        return;
    }
    c->incarnation--;
    if (r != SNIC_EAGAIN)
        control_opened(c, r);
}

/* The log must always have space to record, and to copy by compaction, all that the options permit:
   half of it is enough for that. A full log could not even record the start of a process. */
static int control_fits(const struct snic_control *c)
{
    struct snic_wal_info i;
    snic_wal_inspect(c->wal, &i);
    uint64_t need = (uint64_t)c->o.segments_max * (SNIC_CONTROL__RECORD_HEAD + 24) +
                    ((uint64_t)c->o.disks_max + SNIC_CONTROL_SERVERS_MAX + 1) *
                        (SNIC_CONTROL__RECORD_HEAD + SNIC_CONTROL__RECORD);
    return need <= (uint64_t)i.segments * i.segment_bytes / 2;
}

static void control_wal_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct snic_control *c = ctx;
    if (c->closing)
        return;
    if (result == 0 && report->verdict == SNIC_WAL_CORRUPT)
        result = SNIC_ECORRUPT;
    if (result == 0)
        result = control_recover_finish(c);
    if (result == 0 && !control_fits(c))
        result = SNIC_ENOSPC;
    if (result == 0 && report->verdict == SNIC_WAL_SUSPECT) {
        result = snic_wal_accept_tail(c->wal);
        if (result == 0)
            return;
    }
    if (result == 0)
        control_begin(c);
    else
        c->e.opened(c->ctx, result, report);
}

static void control_wal_accepted(void *ctx)
{
    struct snic_control *c = ctx;
    if (!c->closing)
        control_begin(c);
}

static void control_wal_room(void *ctx)
{
    struct snic_control *c = ctx;
    if (!c->closing && !c->opened && !c->dead)
        control_begin(c);
}

static void control_wal_durable(void *ctx, uint64_t up_to)
{
    struct snic_control *c = ctx;
    if (c->closing)
        return;
    for (uint32_t i = 0; i < c->o.sessions_max; i++)
        if (c->sessions[i].used)
            control_stream_durable(&c->sessions[i].s, up_to);
    if (c->opened && !c->serving && up_to >= c->position)
        control_serve(c);
}

static void control_wal_failed(void *ctx, int error)
{
    struct snic_control *c = ctx;
    if (c->closing)
        return;
    c->dead = 1;
    for (uint32_t i = 0; i < c->o.sessions_max; i++)
        if (c->sessions[i].used)
            control_session_end(&c->sessions[i], 0);
    (void)control_overload_end(c);
    snic_loop_cancel(c->o.loop, &c->timer);
    if (!c->serving)
        control_opened(c, error);
    else if (c->e.failed != NULL)
        c->e.failed(c->ctx, error);
}

/* ---- Open and close ---- */

int snic_control_open(struct snic_control **out, void *mem, size_t size,
                      const struct snic_control_opts *from, const struct snic_control_events *e,
                      void *ctx)
{
    static const struct snic_wal_events ev = {.opened = control_wal_opened,
                                              .found = control_recover_record,
                                              .durable = control_wal_durable,
                                              .room = control_wal_room,
                                              .failed = control_wal_failed,
                                              .accepted = control_wal_accepted,
                                              .keep = control_record_current};
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_control_opts o;
    struct snic_wal_opts w;
    void *wal;
    if (e->opened == NULL || (uintptr_t)mem % SNIC_CONTROL_ALIGN != 0 ||
        control_options(&o, from) != NULL)
        return SNIC_EINVAL;
    struct snic_control *c = snic_arena_take(&a, 1, sizeof(*c), SNIC_CONTROL_ALIGN);
    if (c == NULL)
        return SNIC_ENOSPC;
    memset(c, 0, sizeof(*c));
    c->o = o;
    c->e = *e;
    c->ctx = ctx;
    size_t wal_size = control_layout(&a, c, &wal);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    snic_timer_init(&c->timer, control_tick);
    control_wal_opts(&c->o, &w);
    int r = snic_wal_open(&c->wal, wal, wal_size, o.io, &w, &ev, c);
    if (r == 0)
        *out = c;
    return r;
}

static int control_idle(const struct snic_control *c)
{
    for (uint32_t i = 0; i < c->o.sessions_max; i++)
        if (c->sessions[i].used)
            return 0;
    return 1;
}

void *snic_control_close(struct snic_control *c)
{
    SNIC_ASSERT(!c->closing);
    c->closing = 1;
    snic_loop_cancel(c->o.loop, &c->timer);
    if (c->listener != NULL)
        snic_net_unlisten(c->listener);
    for (uint32_t i = 0; i < c->o.sessions_max; i++)
        if (c->sessions[i].used)
            control_session_end(&c->sessions[i], 0);
    while (control_overload_end(c) != 0 || !control_idle(c))
        (void)snic_loop_once(c->o.loop, SNIC_NEVER);
    (void)snic_wal_close(c->wal);
    return c;
}

/* ---- Views ---- */

int snic_control_addr(const struct snic_control *c, struct snic_net_addr *out)
{
    return c->listener == NULL ? SNIC_EBUSY : snic_net_listen_addr(c->listener, out);
}

void snic_control_get_stats(const struct snic_control *c, struct snic_control_stats *out)
{
    *out = c->stats;
    out->incarnation = c->incarnation;
    out->servers = out->servers_up = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++) {
        out->servers += c->servers[i].ts != 0;
        out->servers_up += c->servers[i].state == CONTROL_READY;
    }
}

int snic_control_find(const struct snic_control *c, uint32_t vd, uint64_t segment,
                      struct snic_control_item *out)
{
    const struct control_seg *g = control_seg_find(c, vd, segment);
    if (g == NULL || g->state != CONTROL_PLACED)
        return SNIC_ENOENT;
    memset(out, 0, sizeof(*out));
    out->segment = segment;
    out->server = c->servers[g->server].id;
    out->gen = g->gen;
    out->status = g->moving;
    return 0;
}

int snic_control_check(const struct snic_control *c)
{
    uint32_t free = 0, used = 0, placing = 0, moving = 0, ops[2] = {0, 0};
    for (uint32_t i = c->op_free; i != SNIC_CONTROL__NIL && free <= c->o.ops_max;
         i = c->ops[i].next)
        free++;
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        used += c->ops[i].used;
        ops[0] += c->ops[i].used &&
                  (c->ops[i].type == CONTROL_OP_PLACE ||
                   (c->ops[i].type == CONTROL_OP_REISSUE && c->ops[i].seg != SNIC_CONTROL__NIL));
        ops[1] += c->ops[i].used && c->ops[i].type == CONTROL_OP_MOVE;
    }
    for (uint32_t i = 0; i < c->o.segments_max; i++) {
        const struct control_seg *g = &c->segs[i];
        placing += g->state == CONTROL_PLACING;
        moving += g->moving;
        if (g->sealed && !g->moving)
            return SNIC_ECORRUPT;
    }
    if (free + used != c->o.ops_max || used != c->stats.ops || placing != ops[0] ||
        moving != ops[1])
        return SNIC_ECORRUPT;
    return c->error != 0 ? 0 : control_catalog_check(c);
}
