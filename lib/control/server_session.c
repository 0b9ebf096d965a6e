/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A block server's session. It sends HELLO, claims its segments, is sent verdicts, that is, which
 * of them to keep and from which generation on, and is READY when it has executed these. From then
 * on it gets commands.
 *
 * A claimed segment that the catalog does not place there is a deletion that the server missed, the
 * rest of a move, or a segment that was made but not recorded: it was never disclosed, or has been
 * moved or deleted since. The verdict is to delete it, if this catalog has made its disk.
 */
#include "control/control_priv.h"

/* It is safe to reuse the number: no segment is placed there, and none moves to or from a server
   that is down. */
int control_server_forget(struct snic_control *c, struct control_server *n)
{
    if (n->session != SNIC_CONTROL__NIL)
        return SNIC_EBUSY;
    if (n->segments != 0)
        return SNIC_ENOTEMPTY;
    int r = control_put_server_gone(c, n);
    if (r == 0)
        control_server_clear(n, n->id);
    return r;
}

static void control_server_down(struct snic_control *c, struct control_server *n)
{
    if (n->session == SNIC_CONTROL__NIL)
        return;
    n->session = SNIC_CONTROL__NIL;
    n->state = CONTROL_DOWN;
    n->lost_ns = control_now(c);
    control_op_server_gone(c, n->id - 1);
    SNIC_ASSERT(n->making == 0 && n->copying == 0);
    control_report(c, SNIC_CONTROL_SERVER_DOWN, n->id, 0, 0, n->segments);
}

void control_server_session_gone(struct control_session *s)
{
    struct snic_control *c = s->c;
    if (s->server != SNIC_CONTROL__NIL && c->servers[s->server].session == s->index)
        control_server_down(c, &c->servers[s->server]);
}

/* ---- Registration ---- */

static struct control_server *control_server_find(struct snic_control *c,
                                                  const struct snic_control_msg *m, int *error)
{
    int ours = m->uuid[0] == c->uuid[0] && m->uuid[1] == c->uuid[1];
    *error = SNIC_ENOSPC;
    if (m->server == 0) {
        for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
            if (c->servers[i].ts == 0)
                return &c->servers[i];
        return NULL;
    }
    *error = ours ? SNIC_ESTALE : SNIC_EPERM;
    if (!ours || m->server > SNIC_CONTROL_SERVERS_MAX || c->servers[m->server - 1].ts == 0 ||
        c->servers[m->server - 1].serial != m->serial)
        return NULL;
    return &c->servers[m->server - 1];
}

static int control_server_record(struct snic_control *c, struct control_server *n,
                                 const struct snic_control_msg *m)
{
    struct control_server old = *n;
    if (n->ts != 0 && control_addr_same(&n->addr, &m->addr) &&
        control_addr_same(&n->peer, &m->peer))
        return 0;
    n->addr = m->addr;
    n->peer = m->peer;
    if (n->ts == 0)
        n->serial = c->ts + 1; /* this record's */
    int r = control_put_server(c, n);
    if (r != 0) {
        *n = old;
        return r;
    }
    for (uint32_t i = 0; i < c->o.sessions_max; i++) {
        struct control_session *s = control_session_at(c, i);
        if (s != NULL && s->role == SNIC_CONTROL_CLIENT)
            control_session_send_server(s, n);
    }
    return 0;
}

/* 1: a live session from another address has its number: one of the two has a copy of the other's
   store. A server whose address has changed is accepted when the end of its old session has been
   noticed. */
static int control_server_duplicate(struct snic_control *c, const struct control_server *n,
                                    const struct snic_control_msg *m)
{
    return control_session_at(c, n->session) != NULL && !control_addr_same(&n->addr, &m->addr);
}

void control_server_session_hello(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct snic_control_msg w;
    int error;
    SNIC_ASSERT(s->server == SNIC_CONTROL__NIL);
    struct control_server *n = control_server_find(c, m, &error);
    if (n != NULL && (m->addr.family == 0 || m->peer.family == 0))
        error = SNIC_EINVAL;
    else if (n != NULL)
        error = control_server_duplicate(c, n, m) ? SNIC_EBUSY : control_server_record(c, n, m);
    if (error != 0) {
        control_report_refused(c, m->server, error, &m->addr); /* the address in its HELLO */
        control_session_reply(s, 0, error, 0);
        control_session_end(s, 1);
        return;
    }
    if (n->session != SNIC_CONTROL__NIL) { /* it reconnected before the old end was noticed */
        struct control_session *before = control_session_at(c, n->session);
        control_server_down(c, n);
        if (before != NULL)
            control_session_end(before, 0);
    }
    SNIC_ASSERT(n->state == CONTROL_DOWN);
    n->session = s->index;
    n->state = CONTROL_CLAIMING;
    n->claimed = 0;
    n->free = n->places = 0;
    s->server = n->id - 1;
    control_msg(&w, SNIC_CONTROL_WELCOME, 0);
    w.server = n->id;
    w.serial = n->serial;
    w.incarnation = c->incarnation;
    w.uuid[0] = c->uuid[0];
    w.uuid[1] = c->uuid[1];
    control_session_send(s, &w);
}

static void control_server_judge(struct snic_control *c, struct control_server *n,
                                 struct snic_control_item *it)
{
    uint32_t vd = (uint32_t)(it->segment >> 32);
    it->gen = 0;
    it->server = 0;
    it->status = 0;
    if (vd == 0 || vd > c->vd)
        return; /* of a disk that this catalog never made */
    const struct control_disk *d = control_disk_find(c, vd);
    const struct control_seg *g = control_seg_find(c, vd, it->segment & UINT32_MAX);
    if (d == NULL || g == NULL || g->state != CONTROL_PLACED || g->server != n->id - 1) {
        it->status = SNIC_ENOENT;
        c->stats.deleted++;
        return;
    }
    it->gen = control_seg_gen(d, g);
    n->claimed++;
}

/*
 * 1: the server has a segment that only a later state of this catalog can have made: of a lease
 * that this one never granted, or, if it is placed elsewhere, of the generation of a completed
 * move. (A move that failed leaves one more than the recorded generation.) Then this catalog is an
 * older copy that was restored, and its verdicts would delete acknowledged data.
 */
static int control_server_ahead(struct snic_control *c, const struct control_server *n,
                                const struct snic_control_item *it)
{
    uint32_t vd = (uint32_t)(it->segment >> 32);
    const struct control_disk *d = vd == 0 || vd > c->vd ? NULL : control_disk_find(c, vd);
    if (d == NULL)
        return 0;
    const struct control_seg *g = control_seg_find(c, vd, it->segment & UINT32_MAX);
    if (it->gen >> 16 > d->lease)
        return 1;
    return g != NULL && g->state == CONTROL_PLACED && g->server != n->id - 1 &&
           it->gen > control_seg_gen(d, g) + 1;
}

static void control_server_claim(struct control_session *s, struct control_server *n,
                                 struct snic_control_msg *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!control_server_ahead(s->c, n, &m->item[i]))
            continue;
        control_report(s->c, SNIC_CONTROL_SERVER_REFUSED, n->id, 0, SNIC_ESTALE, 0);
        control_session_reply(s, 0, SNIC_ESTALE, 0);
        control_session_end(s, 1);
        return;
    }
    for (uint32_t i = 0; i < m->count; i++)
        control_server_judge(s->c, n, &m->item[i]);
    m->type = SNIC_CONTROL_VERDICT;
    control_session_send(s, m);
}

static void control_server_ready(struct control_session *s, struct control_server *n,
                                 const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    SNIC_ASSERT(n->state == CONTROL_CLAIMING);
    n->state = CONTROL_READY;
    n->free = m->bytes;
    n->places = m->value;
    control_report(c, SNIC_CONTROL_SERVER_UP, n->id, 0, 0, n->segments);
    if (n->claimed < n->segments)
        control_report(c, SNIC_CONTROL_SEGMENTS_MISSING, n->id, 0, 0, n->segments - n->claimed);
}

void control_server_session_msg(struct control_session *s, struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct snic_control_msg pong;
    if (s->server == SNIC_CONTROL__NIL || c->servers[s->server].session != s->index)
        return; /* replaced */
    struct control_server *n = &c->servers[s->server];
    if (m->type == SNIC_CONTROL_PING) {
        n->free = m->bytes;
        n->places = m->value;
        control_msg(&pong, SNIC_CONTROL_PONG, m->tag);
        control_session_send(s, &pong);
    } else if (m->type == SNIC_CONTROL_CLAIM && n->state == CONTROL_CLAIMING) {
        control_server_claim(s, n, m);
    } else if (m->type == SNIC_CONTROL_READY && n->state == CONTROL_CLAIMING) {
        control_server_ready(s, n, m);
    } else if (m->type == SNIC_CONTROL_RESULT) {
        n->free = m->bytes;
        n->places = m->value;
        control_op_result(c, s->server, m->tag, m->status);
    } else {
        control_session_malformed(s);
    }
}
