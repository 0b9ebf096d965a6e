/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An operator's end: one connection, one request at a time. */
#include "control/control_priv.h"

/* Unanswered pings are counted, not time: a process that was stopped itself finds the answers when
 * it continues, and its timer as well. */
#define SNIC_CONTROL__OPERATOR_PING_NS UINT64_C(1000000000)
#define SNIC_CONTROL__OPERATOR_UNANSWERED 4

struct snic_control_operator {
    struct control_stream s;
    struct snic_control_operator_events e;
    void *ctx;
    struct snic_loop *loop;
    struct snic_timer timer;
    uint32_t tag; /* of the pending request; 0: none */
    uint32_t tags;
    int error;           /* why it is gone */
    uint32_t unanswered; /* pings, since the last message */
    uint8_t closing;
    uint8_t up;
    uint8_t waits; /* `first` is to be sent when the catalog is authenticated */
    struct snic_control_msg first;
};

static void control_operator_done(struct snic_control_operator *k, int status, uint64_t value)
{
    if (k->tag == 0)
        return;
    k->tag = 0;
    k->e.done(k->ctx, status, value);
}

static void control_operator_msg(void *owner, struct snic_control_msg *m)
{
    struct snic_control_operator *k = owner;
    k->unanswered = 0;
    if (m->type == SNIC_CONTROL_DONE && m->tag == 0 && m->status < 0)
        k->error = m->status;
    else if (m->type == SNIC_CONTROL_DONE && m->tag == k->tag)
        control_operator_done(k, m->status, m->value);
    else if (m->tag != 0 && m->tag == k->tag && k->e.item != NULL)
        k->e.item(k->ctx, m);
}

static void control_operator_up(void *owner)
{
    struct snic_control_operator *k = owner;
    struct snic_control_msg m;
    SNIC_ASSERT(!k->up);
    control_msg(&m, SNIC_CONTROL_HELLO, 0);
    m.role = SNIC_CONTROL_OPERATOR;
    (void)control_stream_send(&k->s, &m, 0);
    k->up = 1;
    if (k->waits)
        (void)control_stream_send(&k->s, &k->first, 0);
    k->waits = 0;
    snic_loop_arm(k->loop, &k->timer, snic_loop_now(k->loop) + SNIC_CONTROL__OPERATOR_PING_NS);
}

static void control_operator_gone(void *owner, int reason)
{
    struct snic_control_operator *k = owner;
    if (k->error == 0)
        k->error = reason != 0 ? reason : SNIC_ECONNRESET;
    snic_loop_cancel(k->loop, &k->timer);
    if (!k->closing)
        control_operator_done(k, k->error, 0);
}

static void control_operator_ping(struct snic_timer *t, uint64_t now)
{
    struct snic_control_operator *k = SNIC_CONTAINER(t, struct snic_control_operator, timer);
    struct snic_control_msg m;
    if (k->unanswered++ == SNIC_CONTROL__OPERATOR_UNANSWERED) {
        k->error = SNIC_ECONNRESET;
        control_stream_abort(&k->s);
        return;
    }
    control_msg(&m, SNIC_CONTROL_PING, 0);
    if (k->up)
        (void)control_stream_send(&k->s, &m, 0);
    snic_loop_arm(k->loop, &k->timer, now + SNIC_CONTROL__OPERATOR_PING_NS);
}

/* @return which option is invalid, and how; NULL: none */
static const char *control_operator_options(struct snic_control_operator_opts *o,
                                            const struct snic_control_operator_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->flags != 0)
        return "flags: unknown bits";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    return NULL;
}

const char *snic_control_operator_opts_wrong(const struct snic_control_operator_opts *from)
{
    struct snic_control_operator_opts o;
    return control_operator_options(&o, from);
}

static struct snic_control_operator *control_operator_layout(struct snic_arena *a,
                                                             unsigned char **in,
                                                             unsigned char **out)
{
    struct snic_control_operator *k = snic_arena_take(a, 1, sizeof(*k), SNIC_CONTROL_ALIGN);
    *in = snic_arena_take(a, 1, SNIC_CONTROL_SMALL, 64);
    *out = snic_arena_take(a, 1, SNIC_CONTROL_SMALL, 64);
    return k;
}

size_t snic_control_operator_memsize(const struct snic_control_operator_opts *from)
{
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    struct snic_control_operator_opts o;
    unsigned char *in, *out;
    if (control_operator_options(&o, from) != NULL)
        return 0;
    (void)control_operator_layout(&a, &in, &out);
    return a.used;
}

int snic_control_operator_open(struct snic_control_operator **to, void *mem, size_t size,
                               const struct snic_control_operator_opts *from,
                               const struct snic_control_operator_events *e, void *ctx)
{
    static const struct control_stream_events ev = {
        .up = control_operator_up, .msg = control_operator_msg, .gone = control_operator_gone};
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_control_operator_opts o;
    unsigned char *in, *out;
    if (e->done == NULL || (uintptr_t)mem % SNIC_CONTROL_ALIGN != 0 ||
        control_operator_options(&o, from) != NULL)
        return SNIC_EINVAL;
    struct snic_control_operator *k = control_operator_layout(&a, &in, &out);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    memset(k, 0, sizeof(*k));
    k->e = *e;
    k->ctx = ctx;
    k->loop = o.loop;
    snic_timer_init(&k->timer, control_operator_ping);
    control_stream_init(&k->s, o.net, &ev, k, in, SNIC_CONTROL_SMALL, out, SNIC_CONTROL_SMALL);
    k->s.auth.opts = o.auth;
    int r = control_stream_connect(&k->s, &o.control);
    if (r != 0)
        return r;
    snic_loop_arm(k->loop, &k->timer, snic_loop_now(k->loop) + SNIC_CONTROL__OPERATOR_PING_NS);
    *to = k;
    return 0;
}

int snic_control_operator_request(struct snic_control_operator *k,
                                  const struct snic_control_msg *from)
{
    struct snic_control_msg m = *from;
    if (from->type < SNIC_CONTROL_CREATE || from->type > SNIC_CONTROL_SEGMENTS ||
        (from->name[0] != 0 && !snic_control_name_ok(from->name)))
        return SNIC_EINVAL;
    if (k->tag != 0)
        return SNIC_EBUSY;
    if (k->s.conn == NULL)
        return SNIC_EPIPE;
    size_t name = strlen(m.name); /* bounded by name_ok */
    memset(m.name + name, 0, sizeof(m.name) - name);
    m.tag = ++k->tags;
    int r = k->up ? control_stream_send(&k->s, &m, 0) : 0;
    if (!k->up) {
        k->first = m;
        k->waits = 1;
    }
    if (r == 0)
        k->tag = m.tag;
    return r;
}

void *snic_control_operator_close(struct snic_control_operator *k)
{
    SNIC_ASSERT(!k->closing);
    k->closing = 1;
    snic_loop_cancel(k->loop, &k->timer);
    control_stream_abort(&k->s);
    while (k->s.conn != NULL)
        (void)snic_loop_once(k->loop, SNIC_NEVER);
    return k;
}
