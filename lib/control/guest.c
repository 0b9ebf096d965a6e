/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's session: leases and lookups. A lookup need not be answered: locations are sent when
 * C4 permits it, requested or not, and the client repeats the lookup of those that it still misses.
 */
#include "control/control_priv.h"

/* 1: a client has its lease, or may still resume it. */
int control_disk_live(const struct snic_control *c, const struct control_disk *d)
{
    return d->held && (d->session != SNIC_CONTROL__NIL || control_now(c) < d->grace_ns);
}

uint32_t control_account_rights(struct snic_control *c, uint32_t account,
                                const struct control_disk *d)
{
    if (c->e.rights == NULL)
        return SNIC_EBS_MAY_ALL;
    return c->e.rights(c->ctx, account, d->vd) & SNIC_EBS_MAY_ALL;
}

uint32_t control_rights(struct snic_control *c, const struct control_session *s,
                        const struct control_disk *d)
{
    return control_account_rights(c, s->s.auth.account, d);
}

/* @return the seconds for which it is valid; 0: there are none; SNIC_E*: none can be signed now */
static int control_sign(struct snic_control *c, const struct control_session *s,
                        const struct control_disk *d, uint32_t lease,
                        unsigned char out[SNIC_EBS_TOKEN_BYTES])
{
    struct snic_ebs_token t = {.vd_id = d->vd,
                               .account = s->s.auth.account,
                               .gen = snic_volume_gen(lease, 0),
                               .rights = control_rights(c, s, d)};
    return c->e.token != NULL ? c->e.token(c->ctx, &t, out) : 0;
}

int control_can_sign(struct snic_control *c, const struct control_session *s,
                     const struct control_disk *d)
{
    unsigned char unused[SNIC_EBS_TOKEN_BYTES];
    return control_sign(c, s, d, 1, unused) >= 0;
}

/* C7. The rights of the holder are recorded before a token permits them. 0, or not recorded. */
static int control_rights_record(struct snic_control *c, const struct control_session *s,
                                 struct control_disk *d)
{
    uint32_t before = d->rights;
    d->rights |= control_rights(c, s, d);
    int r = d->rights != before ? control_put_disk(c, d) : 0;
    if (r != 0)
        d->rights = before;
    return r;
}

/* Add a token to a grant. Without one the client keeps what it had, and requests it again. */
static void control_grant_token(struct snic_control *c, const struct control_session *s,
                                struct control_disk *d, struct snic_control_msg *m)
{
    int seconds = 0;
    if (control_rights_record(c, s, d) == 0)
        seconds = control_sign(c, s, d, d->lease, m->token);
    if (seconds <= 0) {
        memset(m->token, 0, sizeof(m->token));
        return;
    }
    m->value = (uint32_t)seconds;
    c->stats.tokens++;
}

void control_grant(struct snic_control *c, struct control_session *s, uint32_t tag, int status,
                   struct control_disk *d)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_GRANT, tag);
    m.status = status;
    c->stats.refused += status < 0;
    if (status == 0) {
        m.vd = d->vd;
        m.lease = d->lease;
        m.bytes = d->bytes;
        m.qos = d->qos;
        memcpy(m.name, d->name, sizeof(m.name));
        control_grant_token(c, s, d, &m);
    }
    if (status == 0 || status == SNIC_EACCES)
        memcpy(m.key, d->key, sizeof(m.key));
    control_say(s, &m);
}

void control_guest_lost(struct snic_control *c, struct control_disk *d, int reason)
{
    struct control_session *s = control_session_at(c, d->session);
    struct snic_control_msg m;
    d->session = SNIC_CONTROL__NIL;
    if (s == NULL)
        return;
    control_msg(&m, SNIC_CONTROL_LOST, 0);
    m.vd = d->vd;
    m.lease = d->lease;
    m.status = reason;
    control_say(s, &m);
    control_tell(c, SNIC_CONTROL_ENDED, 0, d->vd, reason, d->lease);
}

void control_guest_welcome(struct control_session *s)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (s->c->nodes[i].ts != 0)
            control_node_say(s, &s->c->nodes[i]);
}

void control_guest_gone(struct control_session *s)
{
    struct snic_control *c = s->c;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct control_disk *d = &c->disks[i];
        if (!d->used || d->session != s->index)
            continue;
        d->session = SNIC_CONTROL__NIL;
        d->grace_ns = 0;
        control_tell(c, SNIC_CONTROL_ENDED, 0, d->vd, SNIC_ECONNRESET, d->lease);
    }
}

/* ---- Leases ---- */

static void control_guest_attach(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_named(c, m->name);
    int r;
    uint32_t rights = d != NULL ? control_rights(c, s, d) : 0;
    if (rights == 0) { /* where there are accounts, the answer does not disclose if it exists */
        c->stats.forbidden += d != NULL;
        control_grant(c, s, m->tag, c->e.rights != NULL ? SNIC_EPERM : SNIC_ENOENT, NULL);
        return;
    }
    if ((rights & SNIC_EBS_MAY_WRITE) == 0 && d->held && d->session != s->index)
        r = SNIC_EBUSY; /* a reader fences no other client */
    else if (control_disk_live(c, d) && d->session != s->index &&
             (m->flags & SNIC_CONTROL_TAKE) == 0)
        r = SNIC_EBUSY;
    else if (memcmp(d->key, m->key, sizeof(d->key)) != 0)
        r = SNIC_EACCES; /* before the holder loses anything */
    else if (!control_can_sign(c, s, d))
        r = SNIC_EAGAIN; /* likewise: servers would refuse a client without a token */
    else
        r = control_attach(c, s, m->tag, d);
    if (r != 0)
        control_grant(c, s, m->tag, r, d);
}

static void control_guest_resume(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    uint32_t rights = d != NULL ? control_rights(c, s, d) : 0;
    if (rights == 0 && c->e.rights != NULL) {
        control_grant(c, s, m->tag, SNIC_EPERM, NULL);
        return;
    }
    if (d == NULL || d->lease != m->lease || !d->held || d->account != s->s.auth.account ||
        control_attaching(c, d)) {
        control_grant(c, s, m->tag, d == NULL ? SNIC_ENOENT : SNIC_ESTALE, NULL);
        return;
    }
    /* No need to wait for servers: those that can be reached refuse the leases before it. */
    d->session = s->index;
    d->raised = 1;
    control_grant(c, s, m->tag, 0, d);
}

static void control_guest_detach(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    if (d != NULL && d->session == s->index && d->lease == m->lease) {
        d->session = SNIC_CONTROL__NIL;
        d->grace_ns = 0;
        d->held = 0;
        if (control_put_disk(c, d) != 0)
            d->held = 1; /* not recorded: it is free, but counts as held after a restart */
        control_tell(c, SNIC_CONTROL_ENDED, 0, d->vd, 0, d->lease);
    }
    control_done(s, m->tag, 0, 0);
}

/* ---- Locations of segments ---- */

/*
 * C4. A location older than the requester's is not sent. The same generation is sent again: a
 * refusal that a server sent before a move may arrive after it, and the client then looks up a
 * location that it already has.
 */
static int control_told(const struct snic_control *c, const struct control_disk *d,
                        const struct control_seg *g, uint32_t too_old,
                        struct snic_control_item *out)
{
    if (g->state != CONTROL_PLACED || g->sealed || !d->raised ||
        c->nodes[g->server].state != CONTROL_READY)
        return 0;
    memset(out, 0, sizeof(*out));
    out->segment = g->segment;
    out->server = c->nodes[g->server].id;
    out->gen = control_seg_gen(d, g);
    return out->gen >= too_old;
}

int control_guest_map(struct snic_control *c, struct control_disk *d, struct control_seg *g)
{
    struct control_session *s = control_session_at(c, d->session);
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_MAP, 0);
    m.vd = d->vd;
    m.count = 1;
    if (s == NULL || !control_told(c, d, g, 0, &m.item[0]))
        return 0;
    control_say(s, &m);
    return 1;
}

void control_guest_no_place(struct snic_control *c, struct control_disk *d, uint64_t segment,
                            int error)
{
    struct control_session *s = control_session_at(c, d->session);
    struct snic_control_msg m;
    control_tell(c, SNIC_CONTROL_NO_PLACE, 0, d->vd, error, segment);
    if (s == NULL)
        return;
    control_msg(&m, SNIC_CONTROL_MAP, 0);
    m.vd = d->vd;
    m.count = 1;
    m.item[0].segment = segment;
    m.item[0].status = error == SNIC_ENOENT ? SNIC_EIO : error; /* ENOENT means: not placed */
    control_say(s, &m);
}

static void control_guest_lookup(struct control_session *s, const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    struct snic_control_msg out;
    if (d == NULL || d->session != s->index || d->lease != m->lease) {
        control_msg(&out, SNIC_CONTROL_LOST, m->tag);
        out.vd = m->vd;
        out.lease = m->lease;
        out.status = d == NULL ? SNIC_ENOENT : SNIC_ESTALE;
        control_say(s, &out);
        return;
    }
    control_msg(&out, SNIC_CONTROL_MAP, m->tag);
    out.vd = m->vd;
    c->stats.lookups += m->count;
    for (uint32_t i = 0; i < m->count && d->raised; i++) {
        uint64_t segment = m->item[i].segment;
        struct control_seg *g = control_seg_find(c, d->vd, segment);
        struct snic_control_item *it = &out.item[out.count];
        int r = 0;
        if (segment >= control_disk_segments(d))
            r = SNIC_EINVAL;
        else if (g == NULL &&
                 (m->item[i].status != 0 || (control_rights(c, s, d) & SNIC_EBS_MAY_WRITE) == 0))
            r = SNIC_ENOENT;
        else if (g == NULL)
            r = control_place(c, d, segment);
        else
            out.count += (uint32_t)control_told(c, d, g, m->item[i].gen, it);
        if (r != 0 && r != SNIC_EAGAIN) {
            memset(it, 0, sizeof(*it));
            it->segment = segment;
            it->status = r;
            out.count++;
        }
    }
    if (out.count != 0)
        control_say(s, &out);
}

void control_guest_msg(struct control_session *s, struct snic_control_msg *m)
{
    if (m->type == SNIC_CONTROL_ATTACH) {
        control_guest_attach(s, m);
    } else if (m->type == SNIC_CONTROL_RESUME) {
        control_guest_resume(s, m);
    } else if (m->type == SNIC_CONTROL_DETACH) {
        control_guest_detach(s, m);
    } else if (m->type == SNIC_CONTROL_LOOKUP) {
        control_guest_lookup(s, m);
    } else {
        s->s.bad = 1;
        control_session_end(s, 0);
    }
}
