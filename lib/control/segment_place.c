/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Locations of segments, and their placement: a server makes a segment, it is recorded, then its
 * location is disclosed.
 */
#include "control/control_priv.h"

enum { CONTROL_PLACE_MAKING = 0, CONTROL_PLACE_MADE };
#define SNIC_CONTROL__PLACE_TRIES_MAX 4u
#define SNIC_CONTROL__RECONNECT_NS UINT64_C(10000000000) /* in which a server may reconnect */

/* ---- Locations ---- */

/*
 * C4. A location older than the requester's is not sent. The same generation is sent again: a
 * refusal that a server sent before a move may arrive after it, and the client then looks up a
 * location that it already has.
 */
int control_location_of(const struct snic_control *c, const struct control_disk *d,
                        const struct control_seg *g, uint32_t gen_min,
                        struct snic_control_item *out)
{
    SNIC_ASSERT(g->vd == d->vd);
    if (g->state != CONTROL_PLACED || g->sealed || !d->raised ||
        c->servers[g->server].state != CONTROL_READY)
        return 0;
    memset(out, 0, sizeof(*out));
    out->segment = g->segment;
    out->server = c->servers[g->server].id;
    out->gen = control_seg_gen(d, g);
    return out->gen >= gen_min;
}

int control_location_send(struct snic_control *c, struct control_disk *d, struct control_seg *g)
{
    struct control_session *s = control_session_at(c, d->session);
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_MAP, 0);
    m.vd = d->vd;
    m.count = 1;
    if (s == NULL || !control_location_of(c, d, g, 0, &m.item[0]))
        return 0;
    control_session_send(s, &m);
    return 1;
}

static void control_location_fail(struct snic_control *c, struct control_disk *d, uint64_t segment,
                                  int error)
{
    struct control_session *s = control_session_at(c, d->session);
    struct snic_control_msg m;
    control_report(c, SNIC_CONTROL_NO_PLACE, 0, d->vd, error, segment);
    if (s == NULL)
        return;
    control_msg(&m, SNIC_CONTROL_MAP, 0);
    m.vd = d->vd;
    m.count = 1;
    m.item[0].segment = segment;
    m.item[0].status = error == SNIC_ENOENT ? SNIC_EIO : error; /* ENOENT means: not placed */
    control_session_send(s, &m);
}

/* ---- Placement ---- */

uint32_t control_place_next_server(struct snic_control *c)
{
    for (uint32_t i = 1; i <= SNIC_CONTROL_SERVERS_MAX; i++) {
        uint32_t n = (c->last_server + i) % SNIC_CONTROL_SERVERS_MAX;
        if (c->servers[n].state == CONTROL_READY && c->servers[n].free > c->servers[n].making &&
            control_session_at(c, c->servers[n].session) != NULL) {
            c->last_server = n;
            return n;
        }
    }
    return SNIC_CONTROL__NIL;
}

/* No READY server has a free place. SNIC_EHOSTUNREACH: one that disconnected a short while ago, or
 * has not connected since this process began, may have. */
static int control_place_no_space(const struct snic_control *c)
{
    uint64_t now = control_now(c);
    int r = SNIC_EHOSTUNREACH;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++) {
        const struct control_server *n = &c->servers[i];
        if (n->ts == 0)
            continue;
        if (n->state == CONTROL_READY)
            r = SNIC_ENOSPC;
        else if (now - snic_max_u64(n->lost_ns, c->serving_ns) < SNIC_CONTROL__RECONNECT_NS)
            return SNIC_EHOSTUNREACH;
    }
    return r;
}

static int control_place_try(struct snic_control *c, struct control_op *op)
{
    SNIC_ASSERT(op->awaited == 0);
    struct control_disk *d = &c->disks[op->disk];
    op->to = control_place_next_server(c);
    if (op->to == SNIC_CONTROL__NIL)
        return control_place_no_space(c);
    op->state = CONTROL_PLACE_MAKING;
    op->gen = snic_volume_gen(d->lease, 0);
    c->servers[op->to].making++;
    int r = control_server_command(c, op->to, op, SNIC_CONTROL_MAKE,
                                   snic_control_seg_id(d->vd, op->segment), d->vd,
                                   op->segment * SNIC_SEGMENTS_BLOCKS, op->gen, NULL);
    if (r != 0)
        c->servers[op->to].making--;
    return r;
}

static void control_place_end(struct snic_control *c, struct control_op *op, int error)
{
    struct control_disk *d = &c->disks[op->disk];
    if (error != 0) {
        control_seg_free(c, d, &c->segs[op->seg]);
        control_location_fail(c, d, op->segment, error);
    }
    control_op_free(c, op);
}

int control_place(struct snic_control *c, struct control_disk *d, uint64_t segment)
{
    SNIC_ASSERT(segment < control_disk_segments(d));
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
        r = control_place_try(c, op);
        if (r != 0)
            control_seg_free(c, d, g);
    }
    if (r != 0) {
        control_op_free(c, op);
        if (r == SNIC_ENOSPC || r == SNIC_EHOSTUNREACH)
            control_report(c, SNIC_CONTROL_NO_PLACE, 0, d->vd, full ? SNIC_E2BIG : r, segment);
    }
    return r;
}

/* C2: the server has made it; now it may be recorded. */
static void control_place_record(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    SNIC_ASSERT(op->state == CONTROL_PLACE_MADE);
    SNIC_ASSERT(g->state == CONTROL_PLACING);
    g->server = op->to;
    g->gen = op->gen;
    int r = control_put_seg(c, g);
    if (r == SNIC_EAGAIN)
        return; /* the tick retries */
    c->servers[op->to].making--;
    if (r != 0) {
        (void)control_server_command(c, op->to, NULL, SNIC_CONTROL_DROP,
                                     snic_control_seg_id(d->vd, op->segment), d->vd, 0, 0, NULL);
        control_place_end(c, op, r);
        return;
    }
    control_seg_placed(c, d, g);
    c->stats.placed++;
    (void)control_location_send(c, d, g);
    control_place_end(c, op, 0);
}

void control_place_answer(struct snic_control *c, struct control_op *op, int status)
{
    SNIC_ASSERT(op->state == CONTROL_PLACE_MAKING || status < 0);
    SNIC_ASSERT(c->servers[op->to].making > 0);
    if (status >= 0) {
        op->state = CONTROL_PLACE_MADE;
        control_place_record(c, op);
        return;
    }
    c->servers[op->to].making--;
    if (status == SNIC_ENOSPC)
        c->servers[op->to].free = 0;
    if (status == SNIC_EEXIST) /* left of another attempt */
        (void)control_server_command(c, op->to, NULL, SNIC_CONTROL_DROP,
                                     snic_control_seg_id(op->vd, op->segment), op->vd, 0, 0, NULL);
    if (status != SNIC_ENOSPC) /* each full server gets one attempt */
        op->tries++;
    int r = op->tries < SNIC_CONTROL__PLACE_TRIES_MAX ? control_place_try(c, op) : status;
    if (r == SNIC_EPEERDEAD && op->to != SNIC_CONTROL__NIL)
        r = SNIC_EHOSTUNREACH;
    if (r != 0)
        control_place_end(c, op, r);
}

void control_place_tick(struct snic_control *c, struct control_op *op)
{
    if (op->state == CONTROL_PLACE_MADE)
        control_place_record(c, op);
}
