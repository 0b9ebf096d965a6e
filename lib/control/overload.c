/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections for which the catalog has no session. The first SNIC_CONTROL__OVERLOAD_MAX of them at
 * a time are sent the reason when they send HELLO, or AUTH, and are closed; others are reset.
 * Sessions are reserved for servers that are recorded and down: without its server a segment is of
 * no use to any client.
 */
#include "control/control_priv.h"

static void control_overload_msg(void *owner, struct snic_control_msg *m)
{
    struct control_overload *x = owner;
    struct snic_control_msg out;
    (void)m;
    control_msg(&out, SNIC_CONTROL_DONE, 0);
    out.status = SNIC_ENFILE;
    if (control_stream_send(&x->s, &out, 0) == 0)
        control_stream_close(&x->s);
}

static void control_overload_gone(void *owner, int reason)
{
    struct control_overload *x = owner;
    SNIC_ASSERT(x->used);
    (void)reason;
    x->used = 0;
}

void control_overload_init(struct snic_control *c, unsigned char *memory)
{
    static const struct control_stream_events ev = {.msg = control_overload_msg,
                                                    .gone = control_overload_gone};
    for (uint32_t i = 0; i < SNIC_CONTROL__OVERLOAD_MAX; i++) {
        struct control_overload *x = &c->overload[i];
        unsigned char *in = memory + (size_t)i * 2 * SNIC_CONTROL_SMALL;
        x->used = 0;
        control_stream_init(&x->s, c->o.net, &ev, x, in, SNIC_CONTROL_SMALL,
                            in + SNIC_CONTROL_SMALL, SNIC_CONTROL_SMALL);
        x->s.unauthenticated = 1; /* each gets the same answer */
    }
}

void control_overload_accept(struct snic_control *c, struct snic_net_conn *n)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__OVERLOAD_MAX; i++) {
        struct control_overload *x = &c->overload[i];
        if (x->used)
            continue;
        x->used = 1;
        x->since_ns = control_now(c);
        control_stream_accept(&x->s, n);
        return;
    }
    snic_net_abort(n);
}

void control_overload_tick(struct snic_control *c, uint64_t now_ns)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__OVERLOAD_MAX; i++)
        if (c->overload[i].used && now_ns - c->overload[i].since_ns > SNIC_CONTROL__HELLO_NS)
            control_stream_abort(&c->overload[i].s);
}

int control_overload_end(struct snic_control *c)
{
    int used = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL__OVERLOAD_MAX; i++) {
        used += c->overload[i].used;
        control_stream_abort(&c->overload[i].s);
    }
    return used;
}

uint32_t control_sessions_reserved(const struct snic_control *c)
{
    uint32_t away = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        away += c->servers[i].ts != 0 && c->servers[i].session == SNIC_CONTROL__NIL;
    return (uint32_t)snic_min_u64(away, c->o.sessions_max / 2);
}
