/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sessions of the catalog, and events for its log: what all kinds of sessions share.
 */
#include "control/control_priv.h"

uint64_t control_now(const struct snic_control *c)
{
    return snic_loop_now(c->o.loop);
}

void control_session_send(struct control_session *s, const struct snic_control_msg *m)
{
    if (s->ended)
        return;
    SNIC_ASSERT(s->used);
    if (control_stream_send(&s->s, m, s->c->position) == SNIC_ENOSPC) { /* C1 */
        s->c->stats.overrun++;
        s->ended = 1;
    }
}

void control_session_reply(struct control_session *s, uint32_t tag, int status, uint64_t value)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_DONE, tag);
    m.status = status;
    m.value = value;
    s->c->stats.refused += status < 0;
    control_session_send(s, &m);
}

static void control_emit(struct snic_control *c, const struct snic_control_event *e)
{
    if (c->e.event != NULL && !c->closing)
        c->e.event(c->ctx, e);
}

void control_report(struct snic_control *c, uint32_t type, uint32_t server, uint32_t vd, int error,
                    uint64_t value)
{
    struct snic_control_event e = {
        .type = type, .server = server, .vd = vd, .error = error, .value = value};
    const struct control_disk *d = vd != 0 ? control_disk_find(c, vd) : NULL;
    if (d != NULL)
        e.name = d->name;
    if (server - 1 < SNIC_CONTROL_SERVERS_MAX && c->servers[server - 1].addr.family != 0)
        e.addr = &c->servers[server - 1].addr;
    control_emit(c, &e);
}

void control_report_refused(struct snic_control *c, uint32_t server, int error,
                            const struct snic_net_addr *addr)
{
    struct snic_control_event e = {.type = SNIC_CONTROL_SERVER_REFUSED,
                                   .server = server,
                                   .error = error,
                                   .addr = addr->family != 0 ? addr : NULL};
    control_emit(c, &e);
}

void control_sessions_full(struct snic_control *c)
{
    struct snic_control_event e = {.type = SNIC_CONTROL_SESSIONS_FULL};
    e.value = ++c->stats.rejected;
    control_emit(c, &e);
}

void control_session_end(struct control_session *s, int orderly)
{
    SNIC_ASSERT(s->used);
    s->ended = 1;
    if (orderly)
        control_stream_close(&s->s);
    else
        control_stream_abort(&s->s);
}

void control_session_malformed(struct control_session *s)
{
    s->s.bad = 1;
    control_session_end(s, 0);
}

struct control_session *control_session_at(struct snic_control *c, uint32_t index)
{
    if (index >= c->o.sessions_max || !c->sessions[index].used || c->sessions[index].ended)
        return NULL;
    return &c->sessions[index];
}

void control_session_send_server(struct control_session *s, const struct control_server *n)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_SERVER, 0);
    m.server = n->id;
    m.addr = n->addr;
    control_session_send(s, &m);
}
