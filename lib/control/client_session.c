/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's session: leases and lookups. A lookup need not be answered: locations are sent when
 * C4 permits it, requested or not, and the client repeats the lookup of those that it still misses.
 */
#include "control/control_priv.h"

void control_client_session_welcome(struct control_session *s)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (s->c->servers[i].ts != 0)
            control_session_send_server(s, &s->c->servers[i]);
}

void control_client_session_gone(struct control_session *s)
{
    struct snic_control *c = s->c;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct control_disk *d = &c->disks[i];
        if (!d->used || d->session != s->index)
            continue;
        d->session = SNIC_CONTROL__NIL;
        d->grace_ns = 0;
        control_report(c, SNIC_CONTROL_ENDED, 0, d->vd, SNIC_ECONNRESET, d->lease);
    }
}

/* ---- Leases ---- */

static void control_client_session_attach(struct control_session *s,
                                          const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_named(c, m->name);
    int r;
    uint32_t rights = d != NULL ? control_lease_rights(c, s, d) : 0;
    if (rights == 0) { /* where there are accounts, the answer does not disclose if it exists */
        c->stats.forbidden += d != NULL;
        control_lease_grant(c, s, m->tag, c->e.rights != NULL ? SNIC_EPERM : SNIC_ENOENT, NULL);
        return;
    }
    if ((rights & SNIC_EBS_MAY_WRITE) == 0 && d->held && d->session != s->index)
        r = SNIC_EBUSY; /* a reader fences no other client */
    else if (control_disk_live(c, d) && d->session != s->index &&
             (m->flags & SNIC_CONTROL_TAKE) == 0)
        r = SNIC_EBUSY;
    else if (memcmp(d->key, m->key, sizeof(d->key)) != 0)
        r = SNIC_EACCES; /* before the holder loses anything */
    else if (!control_lease_signable(c, s, d))
        r = SNIC_EAGAIN; /* likewise: servers would refuse a client without a token */
    else
        r = control_attach(c, s, m->tag, d);
    if (r != 0)
        control_lease_grant(c, s, m->tag, r, d);
}

static void control_client_session_resume(struct control_session *s,
                                          const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    uint32_t rights = d != NULL ? control_lease_rights(c, s, d) : 0;
    if (rights == 0 && c->e.rights != NULL) {
        control_lease_grant(c, s, m->tag, SNIC_EPERM, NULL);
        return;
    }
    if (d == NULL || d->lease != m->lease || !d->held || d->account != s->s.auth.account ||
        control_attaching(c, d)) {
        control_lease_grant(c, s, m->tag, d == NULL ? SNIC_ENOENT : SNIC_ESTALE, NULL);
        return;
    }
    /* No need to wait for servers: those that can be reached refuse the leases before it. */
    d->session = s->index;
    d->raised = 1;
    control_lease_grant(c, s, m->tag, 0, d);
}

static void control_client_session_detach(struct control_session *s,
                                          const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    if (d != NULL && d->session == s->index && d->lease == m->lease) {
        d->session = SNIC_CONTROL__NIL;
        d->grace_ns = 0;
        d->held = 0;
        if (control_put_disk(c, d) != 0)
            d->held = 1; /* not recorded: it is free, but counts as held after a restart */
        control_report(c, SNIC_CONTROL_ENDED, 0, d->vd, 0, d->lease);
    }
    control_session_reply(s, m->tag, 0, 0);
}

/* ---- Locations of segments ---- */

static void control_client_session_lookup(struct control_session *s,
                                          const struct snic_control_msg *m)
{
    struct snic_control *c = s->c;
    struct control_disk *d = control_disk_find(c, m->vd);
    struct snic_control_msg out;
    if (d == NULL || d->session != s->index || d->lease != m->lease) {
        control_msg(&out, SNIC_CONTROL_LOST, m->tag);
        out.vd = m->vd;
        out.lease = m->lease;
        out.status = d == NULL ? SNIC_ENOENT : SNIC_ESTALE;
        control_session_send(s, &out);
        return;
    }
    control_msg(&out, SNIC_CONTROL_MAP, m->tag);
    out.vd = m->vd;
    c->stats.lookups += m->count;
    for (uint32_t i = 0; i < m->count && d->raised; i++) {
        uint64_t segment = m->item[i].segment;
        struct control_seg *g = control_seg_find(c, d->vd, segment);
        SNIC_ASSERT(out.count < SNIC_CONTROL_ITEMS);
        struct snic_control_item *it = &out.item[out.count];
        int r = 0;
        if (segment >= control_disk_segments(d))
            r = SNIC_EINVAL;
        else if (g == NULL && (m->item[i].status != 0 ||
                               (control_lease_rights(c, s, d) & SNIC_EBS_MAY_WRITE) == 0))
            r = SNIC_ENOENT;
        else if (g == NULL)
            r = control_place(c, d, segment);
        else
            out.count += (uint32_t)control_location_of(c, d, g, m->item[i].gen, it);
        if (r != 0 && r != SNIC_EAGAIN) {
            memset(it, 0, sizeof(*it));
            it->segment = segment;
            it->status = r;
            out.count++;
        }
    }
    if (out.count != 0)
        control_session_send(s, &out);
}

void control_client_session_msg(struct control_session *s, struct snic_control_msg *m)
{
    if (m->type == SNIC_CONTROL_ATTACH) {
        control_client_session_attach(s, m);
    } else if (m->type == SNIC_CONTROL_RESUME) {
        control_client_session_resume(s, m);
    } else if (m->type == SNIC_CONTROL_DETACH) {
        control_client_session_detach(s, m);
    } else if (m->type == SNIC_CONTROL_LOOKUP) {
        control_client_session_lookup(s, m);
    } else {
        control_session_malformed(s);
    }
}
