/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The owner's side: what connections of all loops send to the subsystems, and what these answer.
 *
 * S1  A connection has a seat from its first Connect until STOPPED was answered. After the answer
 *     nothing is sent to it, so it may be used again.
 * S2  The target is closed when no loop has a connection left, no seat is in use and
 *     no QUIESCE or UNFENCE is pending: then all loops get the answer to DONE, and send nothing any
 * more.
 */
#include "nvmet/nvmet_priv.h"

/* ---- Connect ---- */

static void nvmet_seat_answer(struct nvmet_cmd *cmd, uint32_t status, uint32_t dw0)
{
    struct snic_nvmet *s = cmd->c->s;
    cmd->u.sub.cqe = (struct snic_nvme_cqe){.dw0 = dw0, .status = (uint16_t)status};
    cmd->u.sub.data_out = 0;
    cmd->result = NVMET_BACK_DONE;
    nvmet_mail_send(s->first, s, &cmd->mail, nvmet_conn_return);
}

/* Whose connection it is: of a Connect that is held, too, and NULL as long as it is a claim. */
static const char *nvmet_seat_host(const struct nvmet_seat *seat)
{
    if (seat->kind == NVMET_CONN_NEW)
        return seat->held;
    return seat->unproven ? NULL : seat->auth.hostnqn;
}

int nvmet_seat_full(const struct snic_nvmet *first, const struct nvmet_sub *sub,
                    const char *hostnqn)
{
    uint32_t n = 0;
    for (struct snic_link *l = first->seats.next; l != &first->seats; l = l->next) {
        const struct nvmet_seat *seat = SNIC_CONTAINER(l, struct nvmet_seat, link);
        const char *name = nvmet_seat_host(seat);
        n += name != NULL && seat->sub->index < first->o.subsystems_max &&
             strcmp(name, hostnqn) == 0;
    }
    /* Discovery needs no proof of a name: nothing there counts against its owner. */
    return sub->index < first->o.subsystems_max && n >= first->o.host_conns_max;
}

static void nvmet_seat_take(struct nvmet_conn *c, struct nvmet_sub *sub)
{
    int n = snic_nvmesub_open(sub->engine, &c->peer);
    SNIC_ASSERT(n >= 0); /* it has as many as there are connections */
    c->seat.sub = sub;
    c->seat.number = (uint32_t)n;
    sub->conns[n] = c;
    snic_link_append(&sub->s->seats, &c->seat.link);
    sub->s->seat_count++;
}

/* The subsystem by its name. @return 0 it was answered */
static int nvmet_seat_route(struct snic_nvmet *first, struct nvmet_cmd *cmd)
{
    struct nvmet_seat *seat = &cmd->c->seat;
    const struct snic_nvme_connect_data *d = (const void *)cmd->data;
    uint32_t at = offsetof(struct snic_nvme_connect_data, subnqn) | SNIC_NVME_IATTR_DATA;
    struct nvmet_sub *sub = NULL;
    if (memchr(d->subnqn, 0, sizeof(d->subnqn)) != NULL)
        sub = nvmet_sub_find(first, (const char *)d->subnqn);
    if (sub == NULL || (seat->sub != NULL && seat->sub != sub)) {
        first->stats.unknown++;
        nvmet_seat_answer(cmd, SNIC_NVMET__FAIL(CONNECT_PARAM), at);
        return 0;
    }
    if (memchr(d->hostnqn, 0, sizeof(d->hostnqn)) != NULL) { /* else the engine refuses it */
        seat->tenant = snic_nvmet_tenant((const char *)d->hostnqn);
        if (nvmet_seat_full(first, sub, (const char *)d->hostnqn)) {
            first->stats.busy++;
            nvmet_seat_answer(cmd, SNIC_NVME_SC_CONNECT_BUSY, 0);
            return 0;
        }
    }
    if (seat->sub == NULL)
        nvmet_seat_take(cmd->c, sub);
    seat->held = NULL;
    if (memchr(d->hostnqn, 0, sizeof(d->hostnqn)) != NULL &&
        nvmet_auth_rule(first, (const char *)d->hostnqn) == 0)
        seat->held = (const char *)d->hostnqn; /* until nvmet_seat_return() */
    return 1;
}

/* ---- From connections ---- */

void nvmet_seat_submit(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_conn *c = cmd->c;
    struct snic_nvmet *first = c->s->first;
    if (cmd->kind == NVMET_KIND_CONNECT && !nvmet_seat_route(first, cmd))
        return;
    first->stats.admin++;
    snic_nvmesub_submit(c->seat.sub->engine, c->seat.number, &cmd->u.sub,
                        snic_loop_now(first->loop));
    nvmet_sub_poll(c->seat.sub);
}

void nvmet_seat_lost(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, lost);
    struct nvmet_sub *sub = c->seat.sub;
    if (sub == NULL)
        return;
    snic_nvmesub_lost(sub->engine, c->seat.number, snic_loop_now(sub->s->loop));
    nvmet_sub_poll(sub);
}

void nvmet_seat_stopped(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, stop);
    struct snic_nvmet *first = c->s->first;
    struct nvmet_sub *sub = c->seat.sub;
    if (sub != NULL) {
        sub->conns[c->seat.number] = NULL;
        snic_nvmesub_stopped(sub->engine, c->seat.number, snic_loop_now(first->loop));
        snic_link_remove(&c->seat.link);
        first->seat_count--;
        c->seat.sub = NULL;
        c->seat.kind = NVMET_CONN_NEW;
        c->seat.unproven = 0;
        snic_nvmeauth_fini(&c->seat.auth);
    }
    nvmet_mail_send(first, c->s, &c->stop, nvmet_conn_left); /* S1 */
    if (sub != NULL) {
        nvmet_sub_poll(sub);
        nvmet_change_check(sub);
    }
    nvmet_seat_check(first);
}

void nvmet_seat_aborted(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_sub *sub = cmd->c->seat.sub;
    snic_nvmesub_abort_done(sub->engine, &cmd->u.sub, cmd->result);
    nvmet_sub_poll(sub);
}

/* ---- Actions ---- */

void nvmet_seat_return(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(a->cmd, struct nvmet_cmd, u.sub);
    struct nvmet_seat *seat = &cmd->c->seat;
    cmd->result = a->kind == SNIC_NVMESUB_DROP ? NVMET_BACK_NONE : NVMET_BACK_DONE;
    if (cmd->kind == NVMET_KIND_CONNECT)
        seat->held = NULL;
    if (cmd->result != NVMET_BACK_NONE && cmd->kind == NVMET_KIND_CONNECT &&
        a->cmd->cqe.status == 0) {
        seat->kind = a->attached ? NVMET_CONN_IO : NVMET_CONN_ADMIN;
        if (a->attached)
            seat->queue = a->queue;
        nvmet_auth_connected(cmd, &a->cmd->cqe);
    }
    nvmet_mail_send(sub->s, cmd->c->s, &cmd->mail, nvmet_conn_return);
}

void nvmet_seat_end(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct nvmet_conn *c = sub->conns[a->conn];
    SNIC_ASSERT(c != NULL);
    c->seat.reason = a->reason;
    nvmet_mail_send(sub->s, c->s, &c->end, nvmet_conn_end);
}

void nvmet_seat_abort(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(a->cmd, struct nvmet_cmd, u.sub);
    struct nvmet_conn *c = sub->conns[a->conn];
    if (c == NULL) {
        snic_nvmesub_abort_done(sub->engine, a->cmd, 0);
        return;
    }
    cmd->aborts = c;
    cmd->aborts_cid = a->cid;
    nvmet_mail_send(sub->s, c->s, &cmd->mail, nvmet_conn_abort);
}

/* ---- Quiesce (T7) ---- */

static void nvmet_quiesce_answer(struct nvmet_dev *dev)
{
    struct nvmet_sub *sub = dev->sub;
    sub->s->pending--;
    snic_nvmesub_quiesced(sub->engine, dev->nsid, dev->quiesce.sequence);
    nvmet_sub_poll(sub);
    nvmet_seat_check(sub->s);
}

void nvmet_seat_removed(struct nvmet_mail *m)
{
    struct nvmet_dev *dev = SNIC_CONTAINER(m, struct nvmet_dev, mail);
    nvmet_quiesce_answer(dev);
}

void nvmet_seat_quiesced(struct nvmet_mail *m)
{
    struct nvmet_dev *dev = SNIC_CONTAINER(m, struct nvmet_ns, mail)->dev;
    SNIC_ASSERT(dev->waiting > 0);
    if (--dev->waiting > 0)
        return;
    if (dev->quiesce.removal)
        nvmet_mail_send(dev->sub->s, dev->s, &dev->mail, nvmet_device_remove);
    else
        nvmet_quiesce_answer(dev);
}

void nvmet_seat_quiesce(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct snic_nvmet *first = sub->s;
    struct nvmet_dev *dev = &sub->devs[a->nsid - 1];
    SNIC_ASSERT(dev->io != NULL && dev->waiting == 0);
    dev->quiesce = *a;
    dev->waiting = first->loop_count;
    first->pending++;
    for (uint32_t i = first->loop_count; i-- > 0;)
        nvmet_mail_send(first, first->loops[i], &first->loops[i]->ns[sub->index][a->nsid - 1].mail,
                        nvmet_inside_quiesce);
}

/* ---- Unfence ---- */

static void nvmet_note_back(struct nvmet_mail *m);

/* On the loop that it is for; the note goes back. */
static void nvmet_note_arrive(struct nvmet_mail *m)
{
    struct nvmet_note *n = SNIC_CONTAINER(m, struct nvmet_note, mail);
    nvmet_conn_unfence(n->to, n->sub);
    nvmet_mail_send(n->to, n->sub->s, m, nvmet_note_back);
}

static void nvmet_note_send(struct nvmet_note *n)
{
    n->away = 1;
    n->again = 0;
    n->sub->s->pending++;
    nvmet_mail_send(n->sub->s, n->to, &n->mail, nvmet_note_arrive);
}

static void nvmet_note_back(struct nvmet_mail *m)
{
    struct nvmet_note *n = SNIC_CONTAINER(m, struct nvmet_note, mail);
    n->away = 0;
    n->sub->s->pending--;
    if (n->again)
        nvmet_note_send(n);
    nvmet_change_check(n->sub);
    nvmet_seat_check(n->sub->s);
}

void nvmet_seat_unfence(struct nvmet_sub *sub)
{
    struct snic_nvmet *first = sub->s;
    for (uint32_t i = 0; i < first->loop_count; i++) {
        struct nvmet_note *n = &sub->notes[i];
        if (n->away) {
            n->again = 1;
            continue;
        }
        n->sub = sub;
        n->to = first->loops[i];
        nvmet_note_send(n);
    }
}

/* ---- The end (S2) ---- */

static void nvmet_seat_closed(struct nvmet_mail *m)
{
    SNIC_CONTAINER(m, struct snic_nvmet, done)->closed = 1;
}

void nvmet_seat_check(struct snic_nvmet *first)
{
    if (first->loops_done < first->loop_count || first->seat_count > 0 || first->pending > 0)
        return;
    first->loops_done = 0;
    for (uint32_t i = first->loop_count; i-- > 0;)
        nvmet_mail_send(first, first->loops[i], &first->loops[i]->done, nvmet_seat_closed);
}

void nvmet_seat_done(struct nvmet_mail *m)
{
    struct snic_nvmet *first = SNIC_CONTAINER(m, struct snic_nvmet, done)->first;
    first->loops_done++;
    nvmet_seat_check(first);
}
