/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A block server's execution of commands (A2, A3). Up to SNIC_CONTROL__SLOTS single commands are at
 * the store at a time, so many become durable together. A sweep goes through all segments of a
 * disk, to raise or delete them, or of a verdict.
 */
#include "control/agent_priv.h"

static void control_agent_slot_done(struct snic_segments_req *q);

static struct control_agent_slot *control_agent_slot_take(struct snic_control_agent *a)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__SLOTS; i++) {
        struct control_agent_slot *t = &a->slot[i];
        if (t->used)
            continue;
        memset(t, 0, sizeof(*t));
        t->a = a;
        t->used = 1;
        t->session = a->session;
        t->req.done = control_agent_slot_done;
        t->req.flags = SNIC_SEGMENTS_ANY_GEN;
        t->req.disk = SNIC_SEGMENTS_ANY_DISK;
        a->slots_used++;
        return t;
    }
    return NULL;
}

static void control_agent_slot_free(struct snic_control_agent *a, struct control_agent_slot *t)
{
    SNIC_ASSERT(t->used);
    SNIC_ASSERT(a->slots_used > 0);
    t->used = 0;
    a->slots_used--;
}

/* 1: the store has it; 0: no space now; SNIC_E* it failed at once. */
static int control_agent_submit(struct snic_control_agent *a, struct control_agent_slot *t,
                                uint16_t op, uint64_t segment, uint32_t gen)
{
    t->req.op = op;
    t->req.seg_id = segment;
    t->req.gen = gen;
    int r = snic_segments_submit(a->o.store, &t->req);
    if (r == 0)
        return 1;
    control_agent_slot_free(a, t);
    if (r == SNIC_EAGAIN)
        control_agent_retry(a);
    return r == SNIC_EAGAIN ? 0 : r;
}

static void control_agent_slot_done(struct snic_segments_req *q)
{
    struct control_agent_slot *t = SNIC_CONTAINER(q, struct control_agent_slot, req);
    struct snic_control_agent *a = t->a;
    int r = q->result;
    if (r == SNIC_ENOENT && q->op == SNIC_SEGMENTS_DELETE)
        r = 0;
    if (t->session == a->session && t->part && r != 0 && r != SNIC_ENOENT && a->sweep_error == 0)
        a->sweep_error = r;
    if (!t->part)
        control_agent_result(a, t->session, t->tag, r);
    control_agent_slot_free(a, t);
    control_agent_claim_drained(a);
    control_agent_run(a);
}

/* ---- One segment ---- */

/* 1: it is submitted, or answered; 0: not now. */
static int control_agent_command_one(struct snic_control_agent *a,
                                     const struct control_agent_command *k)
{
    struct snic_segments_stat stat;
    uint16_t op = SNIC_SEGMENTS_CREATE;
    uint32_t gen = k->gen;
    if (k->segment == SNIC_VOLUME_META || k->segment == SNIC_CONTROL_META) {
        control_agent_result(a, a->session, k->tag, SNIC_EINVAL);
        return 1;
    }
    if (k->op == SNIC_CONTROL_DROP && a->sink.segment == k->segment)
        control_agent_sink_cancel(a);
    if (k->op == SNIC_CONTROL_DROP)
        op = SNIC_SEGMENTS_DELETE;
    if (k->op == SNIC_CONTROL_GEN) {
        op = SNIC_SEGMENTS_SET_GEN;
        /* If it has a higher one there is nothing to do, but that one has to be durable: it is set
           again, for the store answers a lower one at once. */
        if (snic_segments_find(a->o.store, k->segment, &stat) == 0 && stat.gen > gen)
            gen = stat.gen;
    }
    struct control_agent_slot *t = control_agent_slot_take(a);
    if (t == NULL)
        return 0;
    t->tag = k->tag;
    t->op = k->op;
    t->req.vd_id = k->vd;
    t->req.base_lba = k->lba;
    int r = control_agent_submit(a, t, op, k->segment, gen);
    if (r < 0)
        control_agent_result(a, a->session, k->tag, r);
    return r != 0;
}

/* ---- Sweeps ---- */

static void control_agent_sweep_finish(struct snic_control_agent *a)
{
    SNIC_ASSERT(a->sweep_op != 0);
    SNIC_ASSERT(a->slots_used == 0);
    uint32_t op = a->sweep_op;
    int error = a->sweep_error;
    a->sweep_op = 0;
    int verdict = op == SNIC_CONTROL__AGENT_SWEEP_VERDICT;
    if (error != 0 && (verdict || a->state == CONTROL_AGENT_CATCHING_UP))
        control_agent_refused(a, error); /* neither is answered: end the session */
    else if (verdict)
        control_agent_claim_done(a);
    else
        control_agent_result(a, a->session, a->sweep_tag, error);
}

/* The next segment of the sweep, and its new generation (0: delete it). 1; 0 at the end. */
static int control_agent_sweep_next(struct snic_control_agent *a, uint64_t *cursor,
                                    uint64_t *segment, uint32_t *gen)
{
    struct snic_segments_stat stat;
    if (a->sweep_op == SNIC_CONTROL__AGENT_SWEEP_VERDICT) {
        uint32_t *at = &a->verdict_at;
        for (; *at < a->verdict.count; (*at)++) {
            const struct snic_control_item *it = &a->verdict.item[*at];
            if (it->segment == SNIC_VOLUME_META || it->segment == SNIC_CONTROL_META ||
                snic_segments_find(a->o.store, it->segment, &stat) != 0 ||
                (it->status == 0 && it->gen <= stat.gen))
                continue;
            *segment = it->segment;
            *gen = it->status == 0 ? it->gen : 0;
            return 1;
        }
        return 0;
    }
    while (snic_segments_next(a->o.store, cursor, &stat) == 1) {
        if (stat.vd_id != a->sweep_vd || stat.seg_id == SNIC_VOLUME_META ||
            stat.seg_id == SNIC_CONTROL_META ||
            (a->sweep_op == SNIC_CONTROL_RAISE && stat.gen >> 16 >= a->sweep_gen >> 16))
            continue;
        *segment = stat.seg_id;
        *gen = a->sweep_op == SNIC_CONTROL_RAISE ? snic_volume_gen(a->sweep_gen >> 16, 0) : 0;
        return 1;
    }
    return 0;
}

/* 1: over. */
static int control_agent_sweep(struct snic_control_agent *a)
{
    uint64_t cursor = a->cursor, segment = 0;
    uint32_t gen = 0;
    while (control_agent_sweep_next(a, &cursor, &segment, &gen)) {
        struct control_agent_slot *t = control_agent_slot_take(a);
        if (t == NULL)
            return 0;
        t->part = 1;
        if (gen == 0 && a->sink.segment == segment)
            control_agent_sink_cancel(a);
        a->stats.deleted += gen == 0 && a->sweep_op == SNIC_CONTROL__AGENT_SWEEP_VERDICT;
        int r = control_agent_submit(a, t, gen == 0 ? SNIC_SEGMENTS_DELETE : SNIC_SEGMENTS_SET_GEN,
                                     segment, gen);
        if (r == 0)
            return 0;
        if (r < 0)
            a->sweep_error = r;
        a->cursor = cursor;
        a->verdict_at += a->sweep_op == SNIC_CONTROL__AGENT_SWEEP_VERDICT;
    }
    if (a->slots_used != 0)
        return 0;
    control_agent_sweep_finish(a);
    return 1;
}

static int control_agent_sweep_begin(struct snic_control_agent *a, uint32_t op, uint32_t tag,
                                     uint32_t vd, uint32_t gen)
{
    SNIC_ASSERT(a->sweep_op == 0);
    if (a->slots_used != 0)
        return 0;
    a->sweep_op = op;
    a->sweep_tag = tag;
    a->sweep_vd = vd;
    a->sweep_gen = gen;
    a->sweep_error = 0;
    a->cursor = 0;
    return 1;
}

/* ---- The queue ---- */

static int control_agent_command_begin(struct snic_control_agent *a,
                                       const struct control_agent_command *k)
{
    switch (k->op) {
    case SNIC_CONTROL_MAKE:
    case SNIC_CONTROL_DROP:
    case SNIC_CONTROL_GEN:
        return control_agent_command_one(a, k);
    case SNIC_CONTROL_RAISE:
    case SNIC_CONTROL_DROP_ALL:
        return control_agent_sweep_begin(a, k->op, k->tag, k->vd, k->gen);
    case SNIC_CONTROL_COPY:
    case SNIC_CONTROL_COPY_NEW:
        if (a->slots_used != 0)
            return 0; /* its MAKE must be done first */
        control_agent_sink_begin(a, k);
        return 1;
    default:
        control_agent_result(a, a->session, k->tag, SNIC_EINVAL);
        return 1;
    }
}

void control_agent_run(struct snic_control_agent *a)
{
    while (!a->closing) {
        if (a->sweep_op != 0) {
            if (!control_agent_sweep(a))
                return;
            continue;
        }
        if (a->state == CONTROL_AGENT_CATCHING_UP && a->queue_count == 0 && a->slots_used == 0)
            control_agent_caught_up(a);
        if (a->state < CONTROL_AGENT_CATCHING_UP || a->queue_count == 0 ||
            !control_agent_command_begin(a, &a->queue[a->queue_first]))
            return; /* A5 */
        SNIC_ASSERT(a->queue_count > 0);
        a->queue_first = (a->queue_first + 1) % SNIC_CONTROL__QUEUE;
        a->queue_count--;
        a->stats.commands++;
    }
}

void control_agent_command_queue(struct snic_control_agent *a, const struct snic_control_msg *m)
{
    if (a->queue_count == SNIC_CONTROL__QUEUE) {
        control_stream_abort(&a->s); /* more than the catalog may send at once */
        return;
    }
    struct control_agent_command *k =
        &a->queue[(a->queue_first + a->queue_count++) % SNIC_CONTROL__QUEUE];
    k->op = m->op;
    k->tag = m->tag;
    k->segment = m->segment;
    k->vd = m->vd;
    k->lba = m->value;
    k->gen = m->gen;
    k->addr = m->addr;
    control_agent_run(a);
}

void control_agent_verdict_begin(struct snic_control_agent *a, const struct snic_control_msg *m)
{
    a->verdict = *m;
    a->verdict_at = 0;
    int r = control_agent_sweep_begin(a, SNIC_CONTROL__AGENT_SWEEP_VERDICT, 0, 0, 0);
    SNIC_ASSERT(r == 1); /* while it claims the store has no command (A5) */
    control_agent_run(a);
}

/* The session has ended: results of commands at the store are not sent. */
void control_agent_commands_drop(struct snic_control_agent *a)
{
    a->queue_count = 0;
    a->sweep_op = 0;
    control_agent_sink_cancel(a);
}
