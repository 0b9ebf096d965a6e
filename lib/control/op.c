/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations of several steps: an op waits for answers of servers, each of which arrives, or the
 * server's session ends. Attach (and revoke): the next lease is recorded, all servers refuse those
 * before it, it is granted. Place: a server makes a segment, it is recorded, then disclosed.
 */
#include "control/control_priv.h"

enum { CONTROL_MAKING = 0, CONTROL_MADE };
#define SNIC_CONTROL__TRIES 4u
#define SNIC_CONTROL__BACK_NS UINT64_C(10000000000) /* in which a server may reconnect */
#define SNIC_CONTROL__COMMAND_NS UINT64_C(10000000000)
#define SNIC_CONTROL__COPY_NS UINT64_C(60000000000)

/* ---- Ops ---- */

struct control_op *control_op_new(struct snic_control *c, uint32_t type,
                                  const struct control_session *s, uint32_t tag,
                                  struct control_session *whose)
{
    if (c->op_free == SNIC_CONTROL__NIL ||
        (whose != NULL && whose->ops >= c->o.ops_max - c->stats.ops))
        return NULL;
    struct control_op *op = &c->ops[c->op_free];
    uint32_t serial = op->serial + 1;
    c->op_free = op->next;
    memset(op, 0, sizeof(*op));
    op->used = 1;
    op->type = (uint8_t)type;
    op->serial = serial & 0xffffu;
    op->session = s != NULL ? s->index : SNIC_CONTROL__NIL;
    op->tag = tag;
    op->seg = SNIC_CONTROL__NIL;
    op->whose = SNIC_CONTROL__NIL;
    if (whose != NULL) {
        op->whose = whose->index;
        whose->ops++;
    }
    c->stats.ops++;
    return op;
}

void control_op_free(struct snic_control *c, struct control_op *op)
{
    SNIC_ASSERT(op->used);
    if (op->whose != SNIC_CONTROL__NIL)
        c->sessions[op->whose].ops--;
    op->used = 0;
    op->next = c->op_free;
    c->op_free = (uint32_t)(op - c->ops);
    c->stats.ops--;
}

uint32_t control_op_tag(const struct snic_control *c, const struct control_op *op)
{
    return op->serial << 16 | ((uint32_t)(op - c->ops) + 1);
}

void control_op_say(struct snic_control *c, const struct control_op *op, int status, uint64_t value)
{
    struct control_session *s = control_session_at(c, op->session);
    if (s != NULL)
        control_done(s, op->tag, status, value);
}

static int control_op_awaits(const struct control_op *op, uint32_t node)
{
    return op->used && (op->await[node / 64] >> node % 64 & 1) != 0;
}

static void control_op_heard(struct snic_control *c, struct control_op *op, uint32_t node,
                             int status)
{
    op->await[node / 64] &= ~(UINT64_C(1) << node % 64);
    op->awaited--;
    control_op_answer(c, op, node, status);
}

void control_op_result(struct snic_control *c, uint32_t node, uint32_t tag, int status)
{
    uint32_t index = (tag & 0xffffu) - 1;
    if (index >= c->o.ops_max || c->ops[index].serial != tag >> 16 ||
        !control_op_awaits(&c->ops[index], node))
        return; /* of an op that has ended */
    control_op_heard(c, &c->ops[index], node, status);
}

void control_op_session_gone(struct snic_control *c, uint32_t session)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        if (c->ops[i].used && c->ops[i].session == session)
            c->ops[i].session = SNIC_CONTROL__NIL;
        if (c->ops[i].used && c->ops[i].whose == session)
            c->ops[i].whose = SNIC_CONTROL__NIL;
    }
    c->sessions[session].ops = 0;
}

int control_op_of(const struct snic_control *c, const struct control_disk *d)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++)
        if (c->ops[i].used && c->ops[i].disk == (uint32_t)(d - c->disks))
            return 1;
    return 0;
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
void control_raise(struct snic_control *c, struct control_op *op, struct control_disk *d)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (c->nodes[i].state != CONTROL_DOWN)
            (void)control_command(c, i, c->nodes[i].state == CONTROL_READY ? op : NULL,
                                  SNIC_CONTROL_RAISE, 0, d->vd, 0, snic_volume_gen(d->lease, 0),
                                  NULL);
}

static void control_attached(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_session *s = control_session_at(c, op->session);
    int client = s != NULL && s->role == SNIC_CONTROL_CLIENT;
    int r = d->lease == op->lease ? 0 : SNIC_ESTALE; /* a later attach has begun */
    if (r == 0 && client) {
        d->raised = 1;
        r = control_can_sign(c, s, d) ? 0 : SNIC_EAGAIN; /* the client attaches again */
    }
    if (r == 0 && client) {
        c->stats.grants++;
        control_tell(c, SNIC_CONTROL_GRANTED, 0, d->vd, 0, d->lease);
    }
    if (client)
        control_grant(c, s, op->tag, r, d);
    else
        control_op_say(c, op, 0, op->lease);
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
            control_done(s, tag, 0, d->lease); /* no client can have one */
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
    d->rights = client ? control_rights(c, s, d) : 0;
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
        control_guest_lost(c, d, SNIC_ESTALE);
    d->session = client ? index : SNIC_CONTROL__NIL;
    d->raised = 0;
    d->grace_ns = 0;
    op->disk = (uint32_t)(d - c->disks);
    op->vd = d->vd;
    op->lease = d->lease;
    control_raise(c, op, d);
    if (op->awaited == 0)
        control_attached(c, op);
    return 0;
}

static void control_attach_answer(struct snic_control *c, struct control_op *op, uint32_t node,
                                  int status)
{
    struct control_session *s = control_session_at(c, c->nodes[node].session);
    if (status < 0 && status != SNIC_EPEERDEAD && s != NULL)
        control_session_end(s, 0); /* C4: no location is disclosed until it is READY again */
    if (op->awaited == 0)
        control_attached(c, op);
}

/* ---- Place ---- */

uint32_t control_turn(struct snic_control *c)
{
    for (uint32_t i = 1; i <= SNIC_CONTROL_SERVERS_MAX; i++) {
        uint32_t n = (c->turn + i) % SNIC_CONTROL_SERVERS_MAX;
        if (c->nodes[n].state == CONTROL_READY && c->nodes[n].free > c->nodes[n].making &&
            control_session_at(c, c->nodes[n].session) != NULL) {
            c->turn = n;
            return n;
        }
    }
    return SNIC_CONTROL__NIL;
}

/* No READY server has a free place. SNIC_EHOSTUNREACH: one that disconnected a short while ago, or
 * has not connected since this process began, may have. */
static int control_no_room(const struct snic_control *c)
{
    uint64_t now = control_now(c);
    int r = SNIC_EHOSTUNREACH;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++) {
        const struct control_node *n = &c->nodes[i];
        if (n->ts == 0)
            continue;
        if (n->state == CONTROL_READY)
            r = SNIC_ENOSPC;
        else if (now - snic_max_u64(n->lost_ns, c->serving_ns) < SNIC_CONTROL__BACK_NS)
            return SNIC_EHOSTUNREACH;
    }
    return r;
}

static int control_place_at(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    op->to = control_turn(c);
    if (op->to == SNIC_CONTROL__NIL)
        return control_no_room(c);
    op->state = CONTROL_MAKING;
    op->gen = snic_volume_gen(d->lease, 0);
    c->nodes[op->to].making++;
    int r =
        control_command(c, op->to, op, SNIC_CONTROL_MAKE, snic_control_seg_id(d->vd, op->segment),
                        d->vd, op->segment * SNIC_SEGMENTS_BLOCKS, op->gen, NULL);
    if (r != 0)
        c->nodes[op->to].making--;
    return r;
}

static void control_place_end(struct snic_control *c, struct control_op *op, int error)
{
    struct control_disk *d = &c->disks[op->disk];
    if (error != 0) {
        control_seg_free(c, d, &c->segs[op->seg]);
        control_guest_no_place(c, d, op->segment, error);
    }
    control_op_free(c, op);
}

int control_place(struct snic_control *c, struct control_disk *d, uint64_t segment)
{
    struct control_op *op =
        control_op_new(c, CONTROL_OP_PLACE, NULL, 0, control_session_at(c, d->session));
    if (op == NULL)
        return SNIC_EAGAIN;
    op->disk = (uint32_t)(d - c->disks);
    op->vd = d->vd;
    op->segment = segment;
    struct control_seg *g = control_seg_new(c, d->vd, (uint32_t)segment);
    int r = g == NULL ? SNIC_ENOSPC : 0, full = g == NULL;
    if (r == 0) {
        control_seg_link(c, d, g);
        op->seg = (uint32_t)(g - c->segs);
        r = control_place_at(c, op);
        if (r != 0)
            control_seg_free(c, d, g);
    }
    if (r != 0) {
        control_op_free(c, op);
        if (r == SNIC_ENOSPC || r == SNIC_EHOSTUNREACH)
            control_tell(c, SNIC_CONTROL_NO_PLACE, 0, d->vd, full ? SNIC_E2BIG : r, segment);
    }
    return r;
}

/* C2: the server has made it; now it may be recorded. */
static void control_place_record(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    g->server = op->to;
    g->gen = op->gen;
    int r = control_put_seg(c, g);
    if (r == SNIC_EAGAIN)
        return; /* the tick retries */
    c->nodes[op->to].making--;
    if (r != 0) {
        (void)control_command(c, op->to, NULL, SNIC_CONTROL_DROP,
                              snic_control_seg_id(d->vd, op->segment), d->vd, 0, 0, NULL);
        control_place_end(c, op, r);
        return;
    }
    g->state = CONTROL_PLACED;
    d->segments++;
    c->nodes[op->to].segments++;
    c->stats.segments++;
    c->stats.placed++;
    (void)control_guest_map(c, d, g);
    control_place_end(c, op, 0);
}

static void control_place_answer(struct snic_control *c, struct control_op *op, int status)
{
    if (status >= 0) {
        op->state = CONTROL_MADE;
        control_place_record(c, op);
        return;
    }
    c->nodes[op->to].making--;
    if (status == SNIC_ENOSPC)
        c->nodes[op->to].free = 0;
    if (status == SNIC_EEXIST) /* left of another attempt */
        (void)control_command(c, op->to, NULL, SNIC_CONTROL_DROP,
                              snic_control_seg_id(op->vd, op->segment), op->vd, 0, 0, NULL);
    if (status != SNIC_ENOSPC) /* each full server gets one attempt */
        op->tries++;
    int r = op->tries < SNIC_CONTROL__TRIES ? control_place_at(c, op) : status;
    if (r == SNIC_EPEERDEAD && op->to != SNIC_CONTROL__NIL)
        r = SNIC_EHOSTUNREACH;
    if (r != 0)
        control_place_end(c, op, r);
}

/* ---- All ---- */

void control_op_answer(struct snic_control *c, struct control_op *op, uint32_t node, int status)
{
    if (op->type == CONTROL_OP_ATTACH)
        control_attach_answer(c, op, node, status);
    else if (op->type == CONTROL_OP_PLACE)
        control_place_answer(c, op, status);
    else if (op->type == CONTROL_OP_REISSUE)
        control_reissue_answer(c, op, status);
    else
        control_move_step(c, op, status);
}

void control_op_node_gone(struct snic_control *c, uint32_t node)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        if (control_op_awaits(op, node))
            control_op_heard(c, op, node, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_MOVE && (op->from == node || op->to == node))
            control_move_step(c, op, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_PLACE && op->to == node)
            control_place_answer(c, op, SNIC_EPEERDEAD);
        else if (op->used && op->type == CONTROL_OP_REISSUE && op->to == node)
            control_reissue_gone(c, op);
    }
}

/* A server that does not answer a command in time is treated as gone, and registers again. */
static void control_op_late(struct snic_control *c, struct control_op *op)
{
    uint64_t most = op->type >= CONTROL_OP_MOVE ? SNIC_CONTROL__COPY_NS : SNIC_CONTROL__COMMAND_NS;
    if (op->awaited == 0 || control_now(c) - op->asked_ns <= most)
        return;
    for (uint32_t n = 0; n < SNIC_CONTROL_SERVERS_MAX; n++) {
        struct control_session *s = control_session_at(c, c->nodes[n].session);
        if (control_op_awaits(op, n) && s != NULL)
            control_session_end(s, 0);
    }
}

void control_op_tick(struct snic_control *c)
{
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        if (op->used)
            control_op_late(c, op);
        if (op->used && op->type == CONTROL_OP_MOVE)
            control_move_tick(c, op);
        else if (op->used && op->type == CONTROL_OP_PLACE && op->state == CONTROL_MADE)
            control_place_record(c, op);
        else if (op->used && op->type == CONTROL_OP_REISSUE)
            control_reissue_step(c, op);
    }
}

/* The disk is being deleted, with the segments that commands sent before will make. */
void control_op_disk_gone(struct snic_control *c, struct control_disk *d)
{
    uint32_t disk = (uint32_t)(d - c->disks);
    for (uint32_t i = 0; i < c->o.ops_max; i++) {
        struct control_op *op = &c->ops[i];
        struct control_session *s = control_session_at(c, op->session);
        if (!op->used || op->disk != disk)
            continue;
        if (op->type == CONTROL_OP_MOVE) {
            control_move_step(c, op, SNIC_ENOENT);
            continue;
        }
        if (op->type == CONTROL_OP_PLACE) {
            c->nodes[op->to].making--;
            control_seg_free(c, d, &c->segs[op->seg]);
        } else if (s != NULL && s->role == SNIC_CONTROL_CLIENT) {
            control_grant(c, s, op->tag, SNIC_ENOENT, NULL);
        } else {
            control_op_say(c, op, SNIC_ENOENT, 0);
        }
        control_op_free(c, op);
    }
}
