/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's half: states, events, and what the owner calls.
 */
#include "nvmetcp/target_priv.h"

static struct snic_nvmetcp_target *nvmetcp_target_of(struct nvmetcp_conn *c)
{
    return SNIC_CONTAINER(c, struct snic_nvmetcp_target, c);
}

/* ---- Input ---- */

static int nvmetcp_target_head(struct nvmetcp_conn *c)
{
    struct snic_nvmetcp_target *t = nvmetcp_target_of(c);
    uint8_t type = c->in.pdu.type;
    if (type == SNIC_NVMETCP_H2C_TERM)
        return 0;
    if ((c->state == NVMETCP_NEW) != (type == SNIC_NVMETCP_ICREQ))
        return nvmetcp_conn_refuse(c, SNIC_NVMETCP_FES_SEQUENCE, 0);
    if (type == SNIC_NVMETCP_CAPSULE_CMD)
        return nvmetcp_target_capsule(t);
    return type == SNIC_NVMETCP_H2C_DATA ? nvmetcp_target_data(t) : 0;
}

static int nvmetcp_target_greet(struct snic_nvmetcp_target *t)
{
    struct nvmetcp_conn *c = &t->c;
    const struct snic_nvmetcp_pdu *q = &c->in.pdu;
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_ICRESP};
    pdu.pda = c->rx.pda;
    pdu.digests = (uint8_t)(q->digests & ~t->o.digests);
    pdu.limit = t->o.h2c_max;
    c->ic.head_size = (uint8_t)snic_nvmetcp_encode(c->ic_head, &pdu, &c->tx);
    nvmetcp_out_queue(c, &c->ic);
    c->state = NVMETCP_UP;
    c->rx.digests = pdu.digests;
    c->tx.digests = pdu.digests;
    c->tx.pda = q->pda;
    c->s.digests = pdu.digests;
    t->r2ts = (uint32_t)snic_min_u64(t->o.r2ts_max, (uint64_t)q->limit + 1);
    return 0;
}

static int nvmetcp_target_done(struct nvmetcp_conn *c, int good)
{
    struct snic_nvmetcp_target *t = nvmetcp_target_of(c);
    switch (c->in.pdu.type) {
    case SNIC_NVMETCP_ICREQ:
        return nvmetcp_target_greet(t);
    case SNIC_NVMETCP_CAPSULE_CMD:
        nvmetcp_target_capsule_done(t, good);
        return 0;
    case SNIC_NVMETCP_H2C_DATA:
        return nvmetcp_target_data_done(t, good);
    default:
        nvmetcp_conn_peer_term(c);
        return 0;
    }
}

static void nvmetcp_target_out_sent(struct nvmetcp_conn *c, struct nvmetcp_out *o)
{
    struct snic_nvmetcp_target *t = nvmetcp_target_of(c);
    if (o->kind == NVMETCP_OUT_REPLY) {
        struct nvmetcp_reply *r = SNIC_CONTAINER(o, struct nvmetcp_reply, out);
        if (r->size > 0) {
            nvmetcp_event(c, &r->ev, SNIC_NVMETCP_SENT);
            return;
        }
        nvmetcp_reply_free(t, r);
        nvmetcp_conn_resume(c);
    } else if (o->kind == NVMETCP_OUT_R2T) {
        nvmetcp_grant_sent(t, SNIC_CONTAINER(o, struct nvmetcp_grant, out));
    }
}

static void nvmetcp_target_down(struct nvmetcp_conn *c)
{
    struct snic_nvmetcp_target *t = nvmetcp_target_of(c);
    nvmetcp_grants_void(t);
    if (t->arriving != NULL)
        nvmetcp_slot_free(t, t->arriving);
    t->arriving = NULL;
}

const struct nvmetcp_role nvmetcp_target_role = {
    .head = nvmetcp_target_head,
    .done = nvmetcp_target_done,
    .sent = nvmetcp_target_out_sent,
    .down = nvmetcp_target_down,
};

int snic_nvmetcp_target_recv(struct snic_nvmetcp_target *t, const void *data, size_t size,
                             size_t *used, uint64_t now_ns)
{
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    if (t->c.state == NVMETCP_OVER) {
        *used = size;
        return SNIC_ENOTCONN;
    }
    *used = nvmetcp_conn_recv(&t->c, data, size);
    return 0;
}

uint32_t snic_nvmetcp_target_want(const struct snic_nvmetcp_target *t, struct snic_iov *iov,
                                  uint32_t max)
{
    return nvmetcp_conn_want(&t->c, iov, max);
}

void snic_nvmetcp_target_filled(struct snic_nvmetcp_target *t, size_t size, uint64_t now_ns)
{
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    nvmetcp_conn_filled(&t->c, size);
}

int snic_nvmetcp_target_paused(const struct snic_nvmetcp_target *t)
{
    return t->c.in.phase == NVMETCP_ADMIT;
}

/* ---- Output ---- */

uint32_t snic_nvmetcp_target_output(struct snic_nvmetcp_target *t, struct snic_iov *iov,
                                    uint32_t max, size_t *bytes)
{
    return nvmetcp_out_take(&t->c, iov, max, bytes);
}

void snic_nvmetcp_target_sent(struct snic_nvmetcp_target *t, size_t bytes, uint64_t now_ns)
{
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    nvmetcp_conn_sent(&t->c, bytes);
}

void snic_nvmetcp_target_rewind(struct snic_nvmetcp_target *t)
{
    nvmetcp_out_rewind(&t->c);
}

/* ---- Events ---- */

static void nvmetcp_target_command_event(struct snic_nvmetcp_target *t, struct nvmetcp_slot *s,
                                         struct snic_nvmetcp_event *e)
{
    s->state = NVMETCP_SLOT_OPEN;
    e->command = nvmetcp_handle(t, s);
    e->sqe = s->sqe;
    if (s->inline_size > 0) {
        e->data = s->inline_data + snic_get_le64(s->sqe + 24);
        e->data_size = s->inline_size;
    }
    e->wanted = s->dir == NVMETCP_DIR_IN ? s->wanted : 0;
    e->to_host = s->dir == NVMETCP_DIR_OUT ? s->wanted : 0;
}

/* @return 0: it is void */
static int nvmetcp_target_event(struct snic_nvmetcp_target *t, struct nvmetcp_ev *ev,
                                struct snic_nvmetcp_event *e)
{
    int down = t->c.state >= NVMETCP_TERMINATING;
    memset(e, 0, sizeof(*e));
    e->type = ev->type;
    ev->type = 0;
    if (e->type == SNIC_NVMETCP_SENT) {
        struct nvmetcp_reply *r = SNIC_CONTAINER(ev, struct nvmetcp_reply, ev);
        e->cookie = r->cookie;
        nvmetcp_reply_free(t, r);
        nvmetcp_conn_resume(&t->c);
        return 1;
    }
    if (e->type == SNIC_NVMETCP_DATA_IN) {
        struct nvmetcp_grant *g = SNIC_CONTAINER(ev, struct nvmetcp_grant, ev);
        e->command = nvmetcp_handle(t, &t->slots[g->slot]);
        e->offset = g->offset;
        e->data_size = g->size;
        e->all = g->all;
        e->reason = g->corrupt ? SNIC_ECORRUPT : 0;
        nvmetcp_grant_polled(t, g);
        return !down;
    }
    struct nvmetcp_slot *s = SNIC_CONTAINER(ev, struct nvmetcp_slot, ev);
    if (down)
        nvmetcp_slot_free(t, s);
    else
        nvmetcp_target_command_event(t, s, e);
    return !down;
}

int snic_nvmetcp_target_poll(struct snic_nvmetcp_target *t, struct snic_nvmetcp_event *out,
                             uint64_t now_ns)
{
    struct nvmetcp_conn *c = &t->c;
    nvmetcp_conn_tick(c, now_ns);
    if (!snic_link_alone(&t->open) &&
        SNIC_CONTAINER(t->open.next, struct nvmetcp_grant, open)->expires_ns <= c->now_ns)
        nvmetcp_conn_over(c, SNIC_ETIMEDOUT);
    if (nvmetcp_conn_final(c, out, SNIC_NVMETCP_TERM) ||
        nvmetcp_conn_final(c, out, SNIC_NVMETCP_ENDED))
        return 1;
    while (c->state != NVMETCP_OVER && !snic_queue_empty(&c->events)) {
        struct snic_node *n = snic_queue_pop(&c->events);
        if (nvmetcp_target_event(t, SNIC_CONTAINER(n, struct nvmetcp_ev, node), out))
            return 1;
    }
    return 0;
}

uint64_t snic_nvmetcp_target_deadline_ns(const struct snic_nvmetcp_target *t)
{
    uint64_t d = nvmetcp_conn_deadline(&t->c);
    if (!snic_link_alone(&t->open))
        d = snic_min_u64(d, SNIC_CONTAINER(t->open.next, struct nvmetcp_grant, open)->expires_ns);
    return d;
}

/* ---- The queue and the end ---- */

int snic_nvmetcp_target_connected(struct snic_nvmetcp_target *t, const struct snic_nvmetcp_queue *q)
{
    struct snic_nvmetcp_queue full;
    memset(&full, 0, sizeof(full));
    if (snic_opts_copy(&full, sizeof(full), q) != 0 ||
        (full.flags & ~(SNIC_NVMETCP_NO_SQ_FLOW | SNIC_NVMETCP_CREDIT)) != 0 || full.entries < 2 ||
        full.entries > t->o.depth_max || full.inline_max > t->o.inline_max ||
        (t->connected && (full.entries != t->entries || full.inline_max != t->inline_max ||
                          ((full.flags ^ t->flags) & SNIC_NVMETCP_NO_SQ_FLOW) != 0)))
        return SNIC_EINVAL;
    if (t->c.state != NVMETCP_UP)
        return SNIC_ENOTCONN;
    t->flags = full.flags;
    t->entries = full.entries;
    t->inline_max = full.inline_max;
    t->connected = 1;
    t->c.greet_ns = SNIC_NEVER;
    return 0;
}

void snic_nvmetcp_target_end(struct snic_nvmetcp_target *t, int reason, int drain, uint64_t now_ns)
{
    struct nvmetcp_conn *c = &t->c;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    if (!drain || snic_queue_empty(&c->outs)) {
        nvmetcp_conn_over(c, reason);
    } else if (c->state < NVMETCP_TERMINATING) {
        c->state = NVMETCP_TERMINATING;
        c->reason = reason;
        c->draining = 1;
        c->greet_ns = SNIC_NEVER;
        c->close_ns = c->now_ns + c->close_wait_ns;
        c->in.phase = NVMETCP_DROP;
        nvmetcp_target_down(c);
    }
}

void snic_nvmetcp_target_closed(struct snic_nvmetcp_target *t, uint64_t now_ns)
{
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    nvmetcp_conn_over(&t->c, SNIC_ECONNRESET);
}

void snic_nvmetcp_target_stats(const struct snic_nvmetcp_target *t, struct snic_nvmetcp_stats *out)
{
    *out = t->c.s;
}
