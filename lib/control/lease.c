/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Leases of disks: the rights of accounts, tokens, grants. Attach, and revoke: the next lease is
 * recorded, all servers refuse those before it, then it is granted.
 */
#include "control/control_priv.h"

/* 1: a client has its lease, or may still resume it. */
int control_disk_live(const struct snic_control *c, const struct control_disk *d)
{
    return d->held && (d->session != SNIC_CONTROL__NIL || control_now(c) < d->grace_ns);
}

static uint32_t control_lease_account_rights(struct snic_control *c, uint32_t account,
                                             const struct control_disk *d)
{
    if (c->e.rights == NULL)
        return SNIC_EBS_MAY_ALL;
    return c->e.rights(c->ctx, account, d->vd) & SNIC_EBS_MAY_ALL;
}

uint32_t control_lease_rights(struct snic_control *c, const struct control_session *s,
                              const struct control_disk *d)
{
    return control_lease_account_rights(c, s->s.auth.account, d);
}

/* @return the seconds for which it is valid; 0: there are none; SNIC_E*: none can be signed now */
static int control_lease_sign(struct snic_control *c, const struct control_session *s,
                              const struct control_disk *d, uint32_t lease,
                              unsigned char out[SNIC_EBS_TOKEN_BYTES])
{
    struct snic_ebs_token t = {.vd_id = d->vd,
                               .account = s->s.auth.account,
                               .gen = snic_volume_gen(lease, 0),
                               .rights = control_lease_rights(c, s, d)};
    return c->e.token != NULL ? c->e.token(c->ctx, &t, out) : 0;
}

int control_lease_signable(struct snic_control *c, const struct control_session *s,
                           const struct control_disk *d)
{
    unsigned char unused[SNIC_EBS_TOKEN_BYTES];
    return control_lease_sign(c, s, d, 1, unused) >= 0;
}

/* C7. The rights of the holder are recorded before a token permits them. 0, or not recorded. */
static int control_lease_record_rights(struct snic_control *c, const struct control_session *s,
                                       struct control_disk *d)
{
    uint32_t before = d->rights;
    d->rights |= control_lease_rights(c, s, d);
    int r = d->rights != before ? control_put_disk(c, d) : 0;
    if (r != 0)
        d->rights = before;
    return r;
}

/* Add a token to a grant. Without one the client keeps what it had, and requests it again. */
static void control_lease_token(struct snic_control *c, const struct control_session *s,
                                struct control_disk *d, struct snic_control_msg *m)
{
    int seconds = 0;
    if (control_lease_record_rights(c, s, d) == 0)
        seconds = control_lease_sign(c, s, d, d->lease, m->token);
    if (seconds <= 0) {
        memset(m->token, 0, sizeof(m->token));
        return;
    }
    m->value = (uint32_t)seconds;
    c->stats.tokens++;
}

void control_lease_grant(struct snic_control *c, struct control_session *s, uint32_t tag,
                         int status, struct control_disk *d)
{
    struct snic_control_msg m;
    if (status == 0)
        SNIC_ASSERT(d != NULL);
    if (status == 0)
        SNIC_ASSERT(d->raised);
    control_msg(&m, SNIC_CONTROL_GRANT, tag);
    m.status = status;
    c->stats.refused += status < 0;
    if (status == 0) {
        m.vd = d->vd;
        m.lease = d->lease;
        m.bytes = d->bytes;
        m.qos = d->qos;
        memcpy(m.name, d->name, sizeof(m.name));
        control_lease_token(c, s, d, &m);
    }
    if (status == 0 || status == SNIC_EACCES)
        memcpy(m.key, d->key, sizeof(m.key));
    control_session_send(s, &m);
}

static void control_lease_lost(struct snic_control *c, struct control_disk *d, int reason)
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
    control_session_send(s, &m);
    control_report(c, SNIC_CONTROL_ENDED, 0, d->vd, reason, d->lease);
}

/* ---- Attach ---- */

int control_attaching(const struct snic_control *c, const struct control_disk *d)
{
    for (uint32_t i = 0; i < c->o.ops_max && !d->raised; i++)
        if (c->ops[i].used && c->ops[i].type == CONTROL_OP_ATTACH &&
            c->ops[i].disk == (uint32_t)(d - c->disks) && c->ops[i].lease == d->lease)
            return 1;
    return 0;
}

/* A server that registers raises the lease before it is READY, and does not answer: it may have
   much to do first, and until then no location there is disclosed (C4). */
static void control_attach_raise(struct snic_control *c, struct control_op *op,
                                 struct control_disk *d)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (c->servers[i].state != CONTROL_DOWN)
            (void)control_server_command(c, i, c->servers[i].state == CONTROL_READY ? op : NULL,
                                         SNIC_CONTROL_RAISE, 0, d->vd, 0,
                                         snic_volume_gen(d->lease, 0), NULL);
}

static void control_attach_finish(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    SNIC_ASSERT(op->awaited == 0);
    SNIC_ASSERT(op->lease <= d->lease);
    struct control_session *s = control_session_at(c, op->session);
    int client = s != NULL && s->role == SNIC_CONTROL_CLIENT;
    int r = d->lease == op->lease ? 0 : SNIC_ESTALE; /* a later attach has begun */
    if (r == 0 && client) {
        d->raised = 1;
        r = control_lease_signable(c, s, d) ? 0 : SNIC_EAGAIN; /* the client attaches again */
    }
    if (r == 0 && client) {
        c->stats.grants++;
        control_report(c, SNIC_CONTROL_GRANTED, 0, d->vd, 0, d->lease);
    }
    if (client)
        control_lease_grant(c, s, op->tag, r, d);
    else
        control_op_reply(c, op, 0, op->lease);
    control_op_free(c, op);
}

int control_attach(struct snic_control *c, struct control_session *s, uint32_t tag,
                   struct control_disk *d)
{
    struct control_disk old = *d;
    int client = s != NULL && s->role == SNIC_CONTROL_CLIENT;
    uint32_t index = s != NULL ? s->index : SNIC_CONTROL__NIL;
    if (d->reissue)
        return SNIC_EBUSY;
    if (!client && d->lease == SNIC_CONTROL__LEASE_ENDED && !d->held) {
        if (s != NULL)
            control_session_reply(s, tag, 0, d->lease); /* no client can have one */
        return 0;
    }
    if (d->lease >= SNIC_CONTROL_LEASE_MAX + (client ? 0 : 1))
        return SNIC_EOVERFLOW;
    struct control_op *op = control_op_new(c, CONTROL_OP_ATTACH, s, tag, s);
    if (op == NULL)
        return SNIC_EAGAIN;
    d->lease++;
    d->held = (uint32_t)client;
    d->account = client ? s->s.auth.account : 0;
    d->rights = client ? control_lease_rights(c, s, d) : 0;
    int r = control_put_disk(c, d);
    if (r != 0) {
        d->lease = old.lease;
        d->held = old.held;
        d->account = old.account;
        d->rights = old.rights;
        control_op_free(c, op);
        return r;
    }
    if (d->session != index)
        control_lease_lost(c, d, SNIC_ESTALE);
    d->session = client ? index : SNIC_CONTROL__NIL;
    d->raised = 0;
    d->grace_ns = 0;
    op->disk = (uint32_t)(d - c->disks);
    op->vd = d->vd;
    op->lease = d->lease;
    SNIC_ASSERT(d->lease <= SNIC_CONTROL__LEASE_ENDED);
    control_attach_raise(c, op, d);
    if (op->awaited == 0)
        control_attach_finish(c, op);
    return 0;
}

void control_attach_answer(struct snic_control *c, struct control_op *op, uint32_t server,
                           int status)
{
    struct control_session *s = control_session_at(c, c->servers[server].session);
    if (status < 0 && status != SNIC_EPEERDEAD && s != NULL)
        control_session_end(s, 0); /* C4: no location is disclosed until it is READY again */
    if (op->awaited == 0)
        control_attach_finish(c, op);
}

/* C7. A token with rights that its account has no more may be in use even if the lease was
   returned. The tick retries a lease that cannot be ended now. */
void control_lease_review(struct snic_control *c)
{
    if (!c->serving || !c->rights_due)
        return;
    c->rights_due = 0;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct control_disk *d = &c->disks[i];
        uint32_t may = d->used ? control_lease_account_rights(c, d->account, d) : 0;
        if (d->used && ((d->rights & ~may) != 0 || (d->held && may == 0)) &&
            control_attach(c, NULL, 0, d) != 0)
            c->rights_due = 1;
    }
}
