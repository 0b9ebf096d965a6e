/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A disk whose leases are used up is reissued: as another disk, whose versions begin again, under
 * the name of the old one. Each segment is copied to a new one, whose blocks all have version 1,
 * that is, lower than any that the first lease will write.
 *
 *     SEAL   the next generation of the old segment is recorded and set: a client that had the last
 *            lease and does not know that it has ended is refused
 *     MAKE   the new segment is made, on the same server or another one
 *     COPY   it is filled
 *     RECORD it is recorded; NEXT takes the following segment
 *     SWAP   names are swapped by the record of the new disk; of two of a name the newer counts
 *     DROP   the old disk is deleted
 *
 * Meanwhile neither disk is attached, moved or deleted. If anything fails the new one is deleted.
 * If the catalog's process dies it stays, as a disk named NAME.reissue, until the reissue is
 * repeated. No disk is created with such a name, and one that was ever attached is not taken for
 * the rest of an attempt; a name that is too long is cut, and the old disk's number appended.
 */
#include "control/control_priv.h"

enum {
    CONTROL_REISSUE_NEXT = 0,
    CONTROL_REISSUE_SEAL,
    CONTROL_REISSUE_MAKE,
    CONTROL_REISSUE_COPY,
    CONTROL_REISSUE_RECORD,
    CONTROL_REISSUE_SWAP,
    CONTROL_REISSUE_DROP
};

static const char control_reissue_suffix[] = ".reissue";

static void control_reissue_end(struct snic_control *c, struct control_op *op, int status)
{
    struct control_disk *old = &c->disks[op->old_disk];
    struct control_disk *d = &c->disks[op->disk];
    SNIC_ASSERT(d->reissue);
    if (op->seg != SNIC_CONTROL__NIL)
        control_seg_free(c, d, &c->segs[op->seg]);
    d->reissue = 0;
    if (status != 0) {
        SNIC_ASSERT(old->reissue);
        old->reissue = 0;
        if (control_put_disk_gone(c, d) == 0)
            control_disk_drop(c, d);
    }
    control_op_reply(c, op, status, op->vd);
    control_op_free(c, op);
}

static uint64_t control_reissue_id(const struct control_op *op)
{
    return snic_control_seg_id(op->vd, op->segment);
}

/* The old disk's next segment; 0: there is none. */
static int control_reissue_next(struct snic_control *c, struct control_op *op)
{
    for (; op->cursor < c->o.segments_max; op->cursor++) {
        const struct control_seg *g = &c->segs[op->cursor];
        if (g->state != CONTROL_PLACED || g->vd != c->disks[op->old_disk].vd)
            continue;
        op->segment = g->segment;
        op->from = g->server;
        return 1;
    }
    return 0;
}

static int control_reissue_seal(struct snic_control *c, struct control_op *op)
{
    struct control_disk *old = &c->disks[op->old_disk];
    struct control_seg *g = &c->segs[op->cursor];
    uint32_t before = g->gen, gen = control_seg_gen(old, g);
    if ((gen & 0xffffu) == 0xffffu)
        return SNIC_EOVERFLOW;
    g->gen = gen + 1;
    int r = control_put_seg(c, g);
    if (r != 0) {
        g->gen = before;
        return r;
    }
    return control_server_command(c, op->from, op, SNIC_CONTROL_GEN,
                                  snic_control_seg_id(old->vd, op->segment), old->vd, 0, g->gen,
                                  NULL);
}

static int control_reissue_make(struct snic_control *c, struct control_op *op)
{
    struct control_disk *d = &c->disks[op->disk];
    const struct control_server *n = &c->servers[op->from];
    op->to =
        n->state == CONTROL_READY && n->free > n->making ? op->from : control_place_next_server(c);
    if (op->to == SNIC_CONTROL__NIL)
        return SNIC_ENOSPC;
    struct control_seg *g = control_seg_new(c, d->vd, (uint32_t)op->segment);
    if (g == NULL)
        return SNIC_ENOSPC;
    control_seg_link(c, d, g);
    op->seg = (uint32_t)(g - c->segs);
    return control_server_command(c, op->to, op, SNIC_CONTROL_MAKE, control_reissue_id(op), d->vd,
                                  op->segment * SNIC_SEGMENTS_BLOCKS, 0, NULL);
}

static int control_reissue_copy(struct snic_control *c, struct control_op *op)
{
    const struct control_disk *old = &c->disks[op->old_disk];
    if (c->servers[op->to].copying != 0)
        return SNIC_EAGAIN;
    int r = control_server_command(c, op->to, op, SNIC_CONTROL_COPY_NEW, control_reissue_id(op),
                                   op->vd, snic_control_seg_id(old->vd, op->segment),
                                   c->segs[op->cursor].gen, &c->servers[op->from].peer);
    c->servers[op->to].copying += r == 0;
    return r;
}

static int control_reissue_record(struct snic_control *c, struct control_op *op)
{
    SNIC_ASSERT(op->seg != SNIC_CONTROL__NIL);
    struct control_disk *d = &c->disks[op->disk];
    struct control_seg *g = &c->segs[op->seg];
    g->server = op->to;
    g->gen = 0;
    int r = control_put_seg(c, g);
    if (r != 0)
        return r;
    control_seg_placed(c, d, g);
    op->seg = SNIC_CONTROL__NIL;
    op->cursor++;
    op->state = CONTROL_REISSUE_NEXT;
    return 0;
}

static int control_reissue_swap(struct snic_control *c, struct control_op *op)
{
    struct control_disk *old = &c->disks[op->old_disk];
    struct control_disk *d = &c->disks[op->disk];
    char name[SNIC_CONTROL_NAME];
    memcpy(name, d->name, sizeof(name));
    memcpy(d->name, old->name, sizeof(name));
    int r = control_put_disk(c, d);
    if (r == 0)
        memcpy(old->name, name, sizeof(name)); /* in memory only: it is about to be deleted */
    else
        memcpy(d->name, name, sizeof(name));
    op->state = r == 0 ? CONTROL_REISSUE_DROP : CONTROL_REISSUE_SWAP;
    return r;
}

static int control_reissue_finish(struct snic_control *c, struct control_op *op)
{
    struct control_disk *old = &c->disks[op->old_disk];
    int r = control_put_disk_gone(c, old);
    if (r != 0)
        return SNIC_EAGAIN; /* the swap is recorded and can not be undone: retry */
    control_disk_drop(c, old);
    control_reissue_end(c, op, 0);
    return 0;
}

/* Continue until an answer is awaited; without space in the log the tick continues. */
void control_reissue_step(struct snic_control *c, struct control_op *op)
{
    int r = 0;
    while (r == 0 && op->used && op->awaited == 0) {
        switch (op->state) {
        case CONTROL_REISSUE_NEXT:
            op->state = control_reissue_next(c, op) ? CONTROL_REISSUE_SEAL : CONTROL_REISSUE_SWAP;
            break;
        case CONTROL_REISSUE_SEAL:
            r = control_reissue_seal(c, op);
            break;
        case CONTROL_REISSUE_MAKE:
            r = control_reissue_make(c, op);
            break;
        case CONTROL_REISSUE_COPY:
            r = control_reissue_copy(c, op);
            break;
        case CONTROL_REISSUE_RECORD:
            r = control_reissue_record(c, op);
            break;
        case CONTROL_REISSUE_SWAP:
            r = control_reissue_swap(c, op);
            break;
        default:
            r = control_reissue_finish(c, op);
            break;
        }
    }
    if (r != 0 && r != SNIC_EAGAIN)
        control_reissue_end(c, op, r);
}

void control_reissue_answer(struct snic_control *c, struct control_op *op, int status)
{
    SNIC_ASSERT(op->state == CONTROL_REISSUE_SEAL || op->state == CONTROL_REISSUE_MAKE ||
                op->state == CONTROL_REISSUE_COPY);
    if (op->state == CONTROL_REISSUE_COPY)
        SNIC_ASSERT(c->servers[op->to].copying > 0);
    c->servers[op->to].copying -= op->state == CONTROL_REISSUE_COPY;
    if (status < 0) {
        control_reissue_end(c, op, status);
        return;
    }
    op->state++;
    control_reissue_step(c, op);
}

/* When the server registers again it is to delete segments that are not recorded: the new one must
 * not be recorded then. */
void control_reissue_gone(struct snic_control *c, struct control_op *op)
{
    if (op->state == CONTROL_REISSUE_COPY || op->state == CONTROL_REISSUE_RECORD)
        control_reissue_end(c, op, SNIC_EPEERDEAD);
}

int control_name_reserved(const char *name)
{
    size_t n = strlen(name), most = sizeof(control_reissue_suffix) - 1;
    return n >= most && strcmp(name + n - most, control_reissue_suffix) == 0;
}

static void control_reissue_name(const struct control_disk *old, char *name)
{
    char digits[10];
    uint32_t count = 0, vd = old->vd;
    size_t n = strlen(old->name);
    memset(name, 0, SNIC_CONTROL_NAME);
    memcpy(name, old->name, n);
    if (n + sizeof(control_reissue_suffix) > SNIC_CONTROL_NAME) {
        for (; vd != 0; vd /= 10)
            digits[count++] = (char)('0' + vd % 10);
        n = SNIC_CONTROL_NAME - sizeof(control_reissue_suffix) - 1 - count;
        name[n++] = '.';
        while (count > 0)
            name[n++] = digits[--count];
    }
    memcpy(name + n, control_reissue_suffix, sizeof(control_reissue_suffix));
    n += sizeof(control_reissue_suffix);
    memset(name + n, 0, SNIC_CONTROL_NAME - n);
}

/* Delete the disk that an earlier attempt has left. */
static int control_reissue_clear(struct snic_control *c, const char *name)
{
    struct control_disk *d = control_disk_named(c, name);
    if (d == NULL)
        return 0;
    if (d->lease != 0)
        return SNIC_EEXIST; /* it was attached: not left of an attempt */
    if (d->reissue)
        return SNIC_EBUSY;
    return control_disk_delete(c, d);
}

int control_reissue(struct snic_control *c, struct control_session *s, uint32_t tag,
                    struct control_disk *old)
{
    char name[SNIC_CONTROL_NAME];
    struct control_disk *d = NULL;
    control_reissue_name(old, name);
    if (old->reissue || control_disk_live(c, old) || control_op_on_disk(c, old))
        return SNIC_EBUSY;
    int r = control_reissue_clear(c, name);
    if (r == 0)
        r = control_disk_create(c, name, old->bytes, &old->qos, old->key, &d);
    if (r != 0)
        return r;
    struct control_op *op = control_op_new(c, CONTROL_OP_REISSUE, s, tag, s);
    if (op == NULL)
        return SNIC_EAGAIN; /* it is cleared the next time */
    old->held = 0;          /* no client can resume */
    old->session = SNIC_CONTROL__NIL;
    old->reissue = d->reissue = 1;
    op->disk = (uint32_t)(d - c->disks);
    op->old_disk = (uint32_t)(old - c->disks);
    op->vd = d->vd;
    control_reissue_step(c, op);
    return 0;
}
