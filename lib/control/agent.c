/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A block server's end: public functions, the owner of its store, and registration.
 *
 * Blocks 0 and 128 of segment SNIC_CONTROL_META, each: magic 8, format 4, server 4, uuid 16,
 * incarnation 8, serial 8, zeros. Both are written each time, with a higher version, at least the
 * incarnation; their data and their versions are apart on the device. One readable copy is enough,
 * and the other is rewritten at the next start. A store without this segment that has others is
 * used without a catalog, and is not registered with one.
 */
#include "control/agent_priv.h"

#define SNIC_CONTROL__AGENT_MAGIC UINT64_C(0x304c4f52544e4f43)
#define SNIC_CONTROL__AGENT_FORMAT 1u
#define SNIC_CONTROL__APART 128u /* blocks: of a table of the store (segments/layout.c) */
#define SNIC_CONTROL__AGENT_TICK_NS UINT64_C(50000000)
#define SNIC_CONTROL__AGENT_RETRY_NS UINT64_C(2000000)

void control_agent_say(struct snic_control_agent *a, struct snic_control_msg *m)
{
    (void)control_stream_send(&a->s, m, 0);
}

/* Fill in the store's places and free places. */
void control_agent_room(struct snic_control_agent *a, struct snic_control_msg *m)
{
    struct snic_segments_info info;
    snic_segments_inspect(a->o.store, &info);
    m->value = info.places;
    m->bytes = info.dead != 0 ? 0 : info.places - info.segments;
}

void control_agent_refused(struct snic_control_agent *a, int error)
{
    if (a->e.refused != NULL && !a->closing)
        a->e.refused(a->ctx, error);
    a->begin_ns = snic_loop_now(a->o.loop) + 20 * a->o.retry_ns;
    control_stream_abort(&a->s);
}

void control_agent_retry(struct snic_control_agent *a)
{
    if (!a->closing)
        snic_loop_arm(a->o.loop, &a->retry,
                      snic_loop_now(a->o.loop) + SNIC_CONTROL__AGENT_RETRY_NS);
}

/* ---- The store's owner ---- */

static void control_agent_meta_done(struct snic_segments_req *q);

static int control_agent_meta_submit(struct snic_control_agent *a, uint16_t op)
{
    struct snic_segments_req *q = &a->meta_req;
    memset(q, 0, sizeof(*q));
    q->done = control_agent_meta_done;
    q->op = op;
    q->seg_id = SNIC_CONTROL_META;
    q->vd_id = SNIC_CONTROL_META;
    q->gen = 1;
    q->disk = SNIC_SEGMENTS_ANY_DISK;
    if (op != SNIC_SEGMENTS_CREATE) {
        q->blocks = &a->meta_block[a->meta_at];
        q->count = 1;
    }
    int r = snic_segments_submit(a->o.store, q);
    a->meta_out = r == 0;
    return r;
}

static int control_agent_meta_write(struct snic_control_agent *a)
{
    unsigned char *p = a->meta_data;
    a->version = snic_max_u64(a->version + 1, a->new_incarnation);
    memset(p, 0, SNIC_SEGMENTS_BLOCK);
    snic_put_le64(p, SNIC_CONTROL__AGENT_MAGIC);
    snic_put_le32(p + 8, SNIC_CONTROL__AGENT_FORMAT);
    snic_put_le32(p + 12, a->new_server);
    snic_put_le64(p + 16, a->new_uuid[0]);
    snic_put_le64(p + 24, a->new_uuid[1]);
    snic_put_le64(p + 32, a->new_incarnation);
    snic_put_le64(p + 40, a->new_serial);
    memset(a->meta_block, 0, sizeof(a->meta_block));
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        struct snic_segments_block *b = &a->meta_block[i];
        b->block = (uint16_t)(i * SNIC_CONTROL__APART);
        b->wver = a->version;
        b->data = p;
        b->data_crc = snic_crc32c(0, p, SNIC_SEGMENTS_BLOCK);
    }
    a->meta_at = 0;
    return control_agent_meta_submit(a, SNIC_SEGMENTS_WRITE);
}

/** The newest copy that can be read, NULL if there is none; @p damaged: another one can not be
 * read, or is older. */
static const struct snic_segments_block *control_agent_meta_best(struct snic_control_agent *a,
                                                                 int *damaged)
{
    const struct snic_segments_block *best = NULL;
    *damaged = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        const struct snic_segments_block *b = &a->meta_block[i];
        if (b->status != SNIC_SEGMENTS_DONE)
            *damaged = 1;
        else if (b->wver != 0 && (best == NULL || b->wver > best->wver))
            best = b;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++)
        *damaged |= best != NULL && best->wver != a->meta_block[i].wver;
    return best;
}

/** Rewrite both copies with the known data; connects when this is done, or has failed. */
static void control_agent_meta_mend(struct snic_control_agent *a)
{
    a->new_server = a->server;
    a->new_serial = a->serial;
    a->new_uuid[0] = a->uuid[0];
    a->new_uuid[1] = a->uuid[1];
    a->new_incarnation = a->incarnation;
    if (control_agent_meta_write(a) == 0)
        a->state = CONTROL_AGENT_MENDING;
}

static int control_agent_meta_loaded(struct snic_control_agent *a)
{
    int damaged;
    const struct snic_segments_block *b = control_agent_meta_best(a, &damaged);
    if (b == NULL && damaged)
        return SNIC_ECORRUPT;
    a->state = CONTROL_AGENT_IDLE;
    a->meta = 1;
    if (b == NULL)
        return 0; /* created, and never written */
    const unsigned char *p = b->data;
    if (b->kind != SNIC_SEGMENTS_DATA || snic_get_le64(p) != SNIC_CONTROL__AGENT_MAGIC ||
        snic_get_le64(p + 32) > b->wver)
        return SNIC_ECORRUPT;
    if (snic_get_le32(p + 8) != SNIC_CONTROL__AGENT_FORMAT)
        return SNIC_EVERSION;
    a->server = snic_get_le32(p + 12);
    a->uuid[0] = snic_get_le64(p + 16);
    a->uuid[1] = snic_get_le64(p + 24);
    a->serial = snic_get_le64(p + 40);
    a->incarnation = snic_get_le64(p + 32);
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) /* a damaged copy has a version, too */
        a->version = snic_max_u64(a->version, a->meta_block[i].wver);
    if (damaged)
        control_agent_meta_mend(a);
    return 0;
}

static int control_agent_meta_read(struct snic_control_agent *a)
{
    memset(a->meta_block, 0, sizeof(a->meta_block));
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++) {
        a->meta_block[i].block = (uint16_t)(i * SNIC_CONTROL__APART);
        a->meta_block[i].data = a->meta_data + (size_t)i * SNIC_SEGMENTS_BLOCK;
    }
    a->meta_at = 0;
    return control_agent_meta_submit(a, SNIC_SEGMENTS_READ);
}

static int control_agent_load(struct snic_control_agent *a)
{
    struct snic_segments_stat stat;
    uint64_t cursor = 0;
    if (snic_segments_find(a->o.store, SNIC_CONTROL_META, &stat) == 0)
        return control_agent_meta_read(a);
    while (snic_segments_next(a->o.store, &cursor, &stat) == 1)
        if (stat.seg_id != SNIC_VOLUME_META)
            return SNIC_EEXIST;
    a->state = CONTROL_AGENT_IDLE;
    return 0;
}

static void control_agent_meta_stored(struct snic_control_agent *a)
{
    a->server = a->new_server;
    a->serial = a->new_serial;
    a->uuid[0] = a->new_uuid[0];
    a->uuid[1] = a->new_uuid[1];
    a->incarnation = a->new_incarnation;
    if (a->state == CONTROL_AGENT_STORING)
        control_agent_claim(a);
}

/** A write is durable in one copy at least. */
static int control_agent_meta_written(const struct snic_control_agent *a)
{
    int done = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL__COPIES; i++)
        done |= a->meta_block[i].status == SNIC_SEGMENTS_DONE;
    return done ? 0 : SNIC_ECORRUPT;
}

static void control_agent_meta_done(struct snic_segments_req *q)
{
    struct snic_control_agent *a = SNIC_CONTAINER(q, struct snic_control_agent, meta_req);
    uint16_t op = q->op;
    int r = op != SNIC_SEGMENTS_CREATE && q->result == SNIC_ECORRUPT ? 0 : q->result;
    a->meta_out = 0;
    if (a->closing)
        return;
    if (r == 0 && op != SNIC_SEGMENTS_CREATE && a->meta_at + 1u < SNIC_CONTROL__COPIES) {
        a->meta_at++;
        r = control_agent_meta_submit(a, op);
        if (r == 0)
            return;
        if (op == SNIC_SEGMENTS_WRITE && a->meta_block[0].status == SNIC_SEGMENTS_DONE)
            r = 0; /* the next start writes the other one */
    }
    if (op == SNIC_SEGMENTS_READ) {
        r = r == 0 ? control_agent_meta_loaded(a) : r;
        if (r != 0)
            a->state = CONTROL_AGENT_LOADING;
    } else if (op == SNIC_SEGMENTS_CREATE) {
        a->meta |= r == 0;
        r = r == 0 ? control_agent_meta_write(a) : r;
    } else if (a->state == CONTROL_AGENT_MENDING) {
        a->state = CONTROL_AGENT_IDLE; /* one copy is readable */
        r = 0;
    } else {
        r = r == 0 ? control_agent_meta_written(a) : r;
        if (r == 0)
            control_agent_meta_stored(a);
    }
    if (r != 0)
        control_agent_refused(a, r);
}

/* ---- Registration ---- */

static void control_agent_welcome(struct snic_control_agent *a, const struct snic_control_msg *m)
{
    int ours = m->uuid[0] == a->uuid[0] && m->uuid[1] == a->uuid[1] && m->server == a->server &&
               m->serial == a->serial;
    int r = 0;
    if (m->server == 0 || m->incarnation == 0 || (a->server != 0 && !ours))
        r = SNIC_EPERM;
    else if (m->incarnation < a->incarnation)
        r = SNIC_ESTALE; /* an older state of the catalog: a copy was restored */
    else if (a->meta_out)
        r = SNIC_EBUSY;
    if (r != 0) {
        control_agent_refused(a, r);
        return;
    }
    a->state = CONTROL_AGENT_STORING;
    a->new_server = m->server;
    a->new_serial = m->serial;
    a->new_uuid[0] = m->uuid[0];
    a->new_uuid[1] = m->uuid[1];
    a->new_incarnation = m->incarnation;
    if (ours && m->incarnation == a->incarnation) {
        control_agent_claim(a);
        return;
    }
    r = a->meta ? control_agent_meta_write(a)
                : control_agent_meta_submit(a, SNIC_SEGMENTS_CREATE); /* A1 */
    if (r != 0)
        control_agent_refused(a, r);
}

static void control_agent_claim_more(struct snic_control_agent *a)
{
    struct snic_segments_stat stat;
    struct snic_control_msg m;
    uint64_t next;
    control_msg(&m, SNIC_CONTROL_CLAIM, 0);
    while (m.count < SNIC_CONTROL_ITEMS &&
           snic_segments_next(a->o.store, &a->claim_cursor, &stat) == 1) {
        if (stat.seg_id == SNIC_VOLUME_META || stat.seg_id == SNIC_CONTROL_META)
            continue;
        m.item[m.count].segment = stat.seg_id;
        m.item[m.count++].gen = stat.gen;
    }
    next = a->claim_cursor;
    a->last = m.count < SNIC_CONTROL_ITEMS || snic_segments_next(a->o.store, &next, &stat) == 0;
    m.flags = a->last;
    a->stats.claimed += m.count;
    control_agent_say(a, &m);
}

/* The store completes requests of the previous session first. */
void control_agent_claim(struct snic_control_agent *a)
{
    a->state = CONTROL_AGENT_CLAIMING;
    a->claim_cursor = 0;
    a->claim_due = a->slots_used != 0 || a->pull.busy;
    if (!a->claim_due)
        control_agent_claim_more(a);
}

/* A verdict is executed. The commands received meanwhile follow the last one (A5). */
void control_agent_claimed(struct snic_control_agent *a)
{
    if (a->state != CONTROL_AGENT_CLAIMING)
        return;
    if (a->last)
        a->state = CONTROL_AGENT_CATCHING_UP;
    else
        control_agent_claim_more(a);
}

void control_agent_caught_up(struct snic_control_agent *a)
{
    struct snic_control_msg m;
    a->state = CONTROL_AGENT_READY;
    control_msg(&m, SNIC_CONTROL_READY, 0);
    control_agent_room(a, &m);
    control_agent_say(a, &m);
    if (a->e.ready != NULL)
        a->e.ready(a->ctx, 1, a->server);
}

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
    control_agent_say(a, &m);
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
        control_agent_verdict(a, m);
    else if (m->type == SNIC_CONTROL_COMMAND && a->state >= CONTROL_AGENT_STORING)
        control_agent_command(a, m);
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
    control_agent_forget(a);
    if (was && a->e.ready != NULL && !a->closing)
        a->e.ready(a->ctx, 0, a->server);
    int said = reason == SNIC_EACCES || reason == SNIC_ENOTSUP || reason == SNIC_ENFILE;
    if ((said || reason == SNIC_EVERSION) && a->e.refused != NULL && !a->closing)
        a->e.refused(a->ctx, reason);
    if (said) /* as control_agent_refused() */
        a->begin_ns = snic_loop_now(a->o.loop) + 20 * a->o.retry_ns;
}

static void control_agent_tick(struct snic_timer *t, uint64_t now)
{
    struct snic_control_agent *a = SNIC_CONTAINER(t, struct snic_control_agent, timer);
    struct snic_control_msg m;
    if (a->state == CONTROL_AGENT_LOADING && !a->meta_out && now >= a->begin_ns) {
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
        control_agent_room(a, &m);
        control_agent_say(a, &m);
    }
    control_agent_pull_tick(a, now);
    snic_loop_arm(a->o.loop, &a->timer, now + SNIC_CONTROL__AGENT_TICK_NS);
}

static void control_agent_retried(struct snic_timer *t, uint64_t now)
{
    struct snic_control_agent *a = SNIC_CONTAINER(t, struct snic_control_agent, retry);
    (void)now;
    control_agent_pull_retry(a);
    control_agent_give_retry(a);
    control_agent_obey(a);
}

/* ---- Public functions ---- */

static int control_agent_options(struct snic_control_agent_opts *o,
                                 const struct snic_control_agent_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (o->ping_ns == 0)
        o->ping_ns = UINT64_C(500000000);
    if (o->retry_ns == 0)
        o->retry_ns = UINT64_C(100000000);
    if (o->flags != 0 || o->loop == NULL || o->net == NULL || o->store == NULL ||
        o->net->loop != o->loop || snic_segments_loop(o->store) != o->loop || o->addr.family == 0 ||
        !control_addr_known(&o->addr) || o->listen.family == 0 || !control_addr_known(&o->listen))
        return SNIC_EINVAL;
    return 0;
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
    unsigned char *pull_in = snic_arena_take(x, 1, SNIC_CONTROL_LARGE, 64);
    unsigned char *pull_out = snic_arena_take(x, 1, SNIC_CONTROL_SMALL, 64);
    unsigned char *pull_body = snic_arena_take(x, 1, SNIC_CONTROL__BODY, 64);
    int placed = x->base != NULL && x->used != SIZE_MAX;
    if (placed) {
        control_stream_init(&a->s, a->o.net, &ev, a, in, SNIC_CONTROL_SMALL, out,
                            SNIC_CONTROL__OUT);
        control_agent_pull_init(a, pull_in, pull_out, pull_body);
        a->s.opts = a->pull.s.opts = a->o.auth;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL__PEERS; i++) {
        unsigned char *p_in = snic_arena_take(x, 1, SNIC_CONTROL_SMALL, 64);
        unsigned char *p_out = snic_arena_take(x, 1, SNIC_CONTROL_LARGE, 64);
        unsigned char *p_data = snic_arena_take(x, 1, data, 64);
        unsigned char *p_body = snic_arena_take(x, 1, SNIC_CONTROL__BODY, 64);
        if (placed && x->used != SIZE_MAX)
            control_agent_give_init(a, &a->peer[i], p_in, p_out, p_data, p_body);
        if (placed)
            a->peer[i].s.opts = a->o.auth;
    }
}

size_t snic_control_agent_memsize(const struct snic_control_agent_opts *o)
{
    struct snic_arena x = {.base = NULL, .size = SIZE_MAX};
    struct snic_control_agent a;
    memset(&a, 0, sizeof(a));
    if (control_agent_options(&a.o, o) != 0)
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
    if ((uintptr_t)mem % SNIC_CONTROL_ALIGN != 0 || control_agent_options(&o, from) != 0)
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
    int r = snic_net_listen(o.net, &o.listen, 0, control_agent_give_accept, a, &a->listener);
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

static int control_agent_silent(const struct snic_control_agent *a)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__PEERS; i++)
        if (a->peer[i].used || a->peer[i].out)
            return 0;
    return a->s.conn == NULL && a->pull.s.conn == NULL && !a->pull.out && !a->meta_out &&
           a->slots_used == 0;
}

void *snic_control_agent_close(struct snic_control_agent *a)
{
    a->closing = 1;
    snic_loop_cancel(a->o.loop, &a->timer);
    snic_loop_cancel(a->o.loop, &a->retry);
    snic_net_unlisten(a->listener);
    control_stream_abort(&a->s);
    control_stream_abort(&a->pull.s);
    for (uint32_t i = 0; i < SNIC_CONTROL__PEERS; i++)
        control_stream_abort(&a->peer[i].s);
    while (!control_agent_silent(a))
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
