/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A segment moves, as described in control.h. Each state begins with a command, or with a record
 * and a command, and ends with the answer. Any failure, also a server that is gone, ends the move,
 * and the segment stays; the destination's copy is dropped, now or when that server registers.
 *
 *     MAKE        the destination makes it, with the next generation, which is never disclosed
 *     COPY        it copies; again, while much has changed meanwhile
 *     SEAL        the generation after that is recorded, not disclosed (C4), and set at the source
 *     COPY_REST   it copies the remaining blocks
 *     OPEN        the generation after that is set at the destination
 *     RECORD      it and the new location are recorded, then disclosed; the source drops its copy
 *
 * So a client never has a generation that another server has, too: a server that did not get the
 * command to drop its copy, the source or the destination of a move that failed, refuses all
 * requests for it.
 */
#include "control/control_priv.h"

enum {
    CONTROL_MOVE_MAKE = 0,
    CONTROL_MOVE_COPY,
    CONTROL_MOVE_SEAL,
    CONTROL_MOVE_COPY_REST,
    CONTROL_MOVE_OPEN,
    CONTROL_MOVE_RECORD
};
#define SNIC_CONTROL__MOVE_PASSES_MAX 5u /* of copying; then it is sealed in any case */
#define SNIC_CONTROL__MOVE_REST_MAX 16   /* blocks */

static uint64_t control_move_id(const struct control_op *op)
{
    return snic_control_seg_id(op->vd, op->segment);
}

static void control_move_end(struct snic_control *c, struct control_op *op, int status)
{
    struct control_seg *g = &c->segs[op->seg];
    SNIC_ASSERT(g->moving);
    SNIC_ASSERT(c->servers[op->to].copying > 0);
    SNIC_ASSERT(c->servers[op->to].making > 0);
    c->servers[op->to].copying--;
    c->servers[op->to].making--;
    g->moving = 0;
    c->stats.moved += status == 0;
    c->stats.moves_failed += status != 0;
    control_report(c, status == 0 ? SNIC_CONTROL_MOVED : SNIC_CONTROL_MOVE_FAILED,
                   c->servers[op->to].id, op->vd, status, op->segment);
    control_op_reply(c, op, status, op->segment);
    control_op_free(c, op);
}

static void control_move_fail(struct snic_control *c, struct control_op *op, int status)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    int sealed = g->sealed;
    g->sealed = 0;
    (void)control_server_command(c, op->to, NULL, SNIC_CONTROL_DROP, control_move_id(op), op->vd, 0,
                                 0, NULL);
    if (sealed && status != SNIC_ENOENT)
        (void)control_location_send(c, d, g);
    control_move_end(c, op, status);
}

static int control_move_copy(struct snic_control *c, struct control_op *op, uint32_t gen)
{
    return control_server_command(c, op->to, op, SNIC_CONTROL_COPY, control_move_id(op), op->vd, 0,
                                  gen, &c->servers[op->from].peer);
}

static int control_move_seal(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    uint32_t old = g->gen, gen = control_seg_gen(d, g);
    if (!g->sealed) {
        if ((gen & 0xffffu) >= 0xfffdu)
            return SNIC_EOVERFLOW;
        g->gen = gen + 2;
        int r = control_put_seg(c, g);
        if (r != 0) {
            g->gen = old;
            return r;
        }
        g->sealed = 1;
        op->gen = g->gen;
    }
    return control_server_command(c, op->from, op, SNIC_CONTROL_GEN, control_move_id(op), op->vd, 0,
                                  op->gen, NULL);
}

static int control_move_record(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    uint32_t gen = g->gen;
    SNIC_ASSERT(g->sealed);
    SNIC_ASSERT(g->server == op->from);
    SNIC_ASSERT(op->gen > g->gen);
    g->gen =
        (uint32_t)snic_max_u64(op->gen, control_seg_gen(d, g)); /* a later lease may be higher */
    g->server = op->to;
    int r = control_put_seg(c, g);
    if (r != 0) {
        g->gen = gen;
        g->server = op->from;
        return r;
    }
    g->sealed = 0;
    c->servers[op->from].segments--;
    c->servers[op->to].segments++;
    (void)control_location_send(c, d, g);
    (void)control_server_command(c, op->from, NULL, SNIC_CONTROL_DROP, control_move_id(op), op->vd,
                                 0, 0, NULL);
    control_move_end(c, op, 0);
    return 0;
}

/* Begin the state; without space in the log the tick retries it. */
static void control_move_enter(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    int r = 0;
    SNIC_ASSERT(op->awaited == 0);
    SNIC_ASSERT(g->moving);
    switch (op->state) {
    case CONTROL_MOVE_MAKE:
        (void)control_server_command(c, op->to, NULL, SNIC_CONTROL_DROP, control_move_id(op),
                                     op->vd, 0, 0, NULL);
        r = control_server_command(c, op->to, op, SNIC_CONTROL_MAKE, control_move_id(op), op->vd,
                                   op->segment * SNIC_SEGMENTS_BLOCKS, control_seg_gen(d, g) + 1,
                                   NULL);
        break;
    case CONTROL_MOVE_COPY:
        r = control_move_copy(c, op, 0);
        break;
    case CONTROL_MOVE_SEAL:
        r = control_move_seal(c, op);
        break;
    case CONTROL_MOVE_COPY_REST:
        r = control_move_copy(c, op, op->gen);
        break;
    case CONTROL_MOVE_OPEN:
        r = control_server_command(c, op->to, op, SNIC_CONTROL_GEN, control_move_id(op), op->vd, 0,
                                   (uint32_t)snic_max_u64(op->gen, control_seg_gen(d, g)), NULL);
        break;
    default:
        r = control_move_record(c, op);
        break;
    }
    if (r != 0 && r != SNIC_EAGAIN)
        control_move_fail(c, op, r);
}

void control_move_tick(struct snic_control *c, struct control_op *op)
{
    if (op->awaited == 0)
        control_move_enter(c, op);
}

void control_move_answer(struct snic_control *c, struct control_op *op, int status)
{
    if (status < 0) {
        control_move_fail(c, op, status);
        return;
    }
    if (op->state == CONTROL_MOVE_COPY && status > SNIC_CONTROL__MOVE_REST_MAX &&
        ++op->tries < SNIC_CONTROL__MOVE_PASSES_MAX) {
        control_move_enter(c, op);
        return;
    }
    SNIC_ASSERT(op->state < CONTROL_MOVE_RECORD);
    SNIC_ASSERT(op->awaited == 0);
    op->state++;
    if (op->state == CONTROL_MOVE_OPEN)
        op->gen = control_seg_gen(&c->disks[op->disk], &c->segs[op->seg]) + 1;
    control_move_enter(c, op);
}

int control_move(struct snic_control *c, struct control_session *s, uint32_t tag,
                 struct control_disk *d, struct control_seg *g, uint32_t to)
{
    struct control_server *n = &c->servers[to];
    if (g->state != CONTROL_PLACED || g->moving || d->reissue)
        return SNIC_EBUSY;
    if (g->server == to) {
        control_session_reply(s, tag, 0, g->segment);
        return 0;
    }
    if (n->state != CONTROL_READY || c->servers[g->server].state != CONTROL_READY)
        return SNIC_EHOSTUNREACH;
    if (n->copying != 0)
        return SNIC_EBUSY;
    if (n->free <= n->making)
        return SNIC_ENOSPC;
    if ((control_seg_gen(d, g) & 0xffffu) >= 0xfffdu)
        return SNIC_EOVERFLOW;
    struct control_op *op = control_op_new(c, CONTROL_OP_MOVE, s, tag, s);
    if (op == NULL)
        return SNIC_EAGAIN;
    op->disk = (uint32_t)(d - c->disks);
    op->vd = d->vd;
    op->seg = (uint32_t)(g - c->segs);
    op->segment = g->segment;
    op->from = g->server;
    op->to = to;
    g->moving = 1;
    n->copying++;
    n->making++;
    control_move_enter(c, op);
    return 0;
}
