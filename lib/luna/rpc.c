/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An RPC: up to 64 blocks of one I/O in one segment, and nothing more than four sets of them (I1).
 * While some are out, all that leaves leaves on the same connection, so a connection that ends says
 * of all of them that they have to be sent again.
 */
#include "luna/luna_priv.h"

#define SNIC_LUNA__FENCE_NS (2 * SNIC_LUNA__MS)
#define SNIC_LUNA__FENCE_MAX_NS (100 * SNIC_LUNA__MS)
#define SNIC_LUNA__FENCE_LATER_NS (128 * SNIC_LUNA__MS) /* refused: then */
#define SNIC_LUNA__FENCE_LAST_NS (1000 * SNIC_LUNA__MS)
/* Damaged answers about a block before it is held for damaged at the server. */
#define SNIC_LUNA__WRONG 8

static struct luna_conn *luna_rpc_conn(struct snic_luna *c, const struct luna_rpc *r)
{
    return &c->servers[r->server].conns[r->conn];
}

static void luna_rpc_move(struct luna_rpc *r, struct snic_link *list, uint32_t where)
{
    snic_link_remove(&r->link);
    snic_link_append(list, &r->link);
    r->where = (uint8_t)where;
}

/* Put it on the list where its blocks say it belongs, and count what waits there. */
void luna_rpc_list(struct snic_luna *c, struct luna_rpc *r)
{
    struct luna_server *s = &c->servers[r->server];
    int on_list = r->where == LUNA_FREE || r->where == LUNA_READY || r->where == LUNA_OUT;
    uint32_t where = on_list ? (r->need != 0 ? LUNA_READY : LUNA_OUT) : r->where;
    uint32_t queued = where == LUNA_READY ? luna_ones(r->need) : 0;
    s->backlog += queued - r->queued;
    r->queued = queued;
    if (queued > 0)
        c->dirty = 1;
    if (where == r->where)
        return;
    if (where == LUNA_OUT)
        luna_rpc_move(r, &c->outs, where);
    else if (r->tries > 0)
        luna_rpc_move(r, &s->again, where);
    else
        luna_rpc_move(r, &s->ready[r->op != SNIC_LUNA_WRITE], where);
}

/* Blocks leave `out`, wherever they go. */
static void luna_rpc_take_back(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    uint32_t count = luna_ones(blocks);
    SNIC_ASSERT((blocks & ~r->out) == 0);
    if (count == 0)
        return; /* of nowhere, perhaps */
    struct luna_conn *n = luna_rpc_conn(c, r);
    r->out &= ~blocks;
    n->outside -= count;
    if (luna_is_write(r->op))
        n->write_out -= count;
    if (r->out == 0)
        snic_link_remove(&r->of_conn);
    c->dirty = 1; /* there is room */
}

void luna_rpc_new(struct snic_luna *c, struct snic_luna_io *io, uint32_t count,
                  const struct snic_ebs_where *w)
{
    struct luna_disk *d = &c->disks[io->disk];
    struct luna_rpc *r = SNIC_CONTAINER(c->free_rpcs.next, struct luna_rpc, link);
    uint64_t counter = snic_ebs_id_counter(r->id);
    SNIC_ASSERT(c->rpcs_free > 0 && count >= 1 && count <= SNIC_EBS_RPC_BLOCKS);
    /* The lower bits name the slot, the others count its uses. */
    counter = counter == 0 ? r->slot + ((uint64_t)1 << c->slot_bits)
                           : counter + ((uint64_t)1 << c->slot_bits);
    r->id = snic_ebs_id(c->o.client_epoch, counter);
    r->io = io;
    r->lba = io->lba + io->cursor;
    r->seg_id = w->seg_id;
    r->seg_gen = w->seg_gen;
    r->server = w->server;
    r->wver = io->wver;
    r->made_ns = c->now_ns;
    r->disk = io->disk;
    r->op = io->op;
    r->count = (uint8_t)count;
    r->all = luna_mask(count);
    r->need = r->all;
    r->acked = 0;
    r->out = 0;
    r->busy = 0;
    r->summed = 0;
    r->conn = 0;
    r->turn = 0;
    r->sent = 0;
    r->twice = 0;
    r->tries = 0;
    memset(r->wrong, 0, sizeof(r->wrong));
    r->refs = 0;
    r->queued = 0;
    r->result = 0;
    r->piece = io->piece;
    r->piece_block = io->piece_block;
    luna_ask_begin(c, r);
    c->rpcs_free--;
    c->s.rpcs++;
    c->s.rpcs_high = (uint32_t)snic_max_u64(c->s.rpcs_high, c->s.rpcs);
    c->servers[r->server].rpcs++;
    snic_link_append(&d->rpcs, &r->of_disk);
    r->where = LUNA_FREE;
    if (r->server != luna_nowhere(c)) {
        luna_rpc_list(c, r);
    } else {
        luna_rpc_move(r, &c->parked, LUNA_PARKED);
        luna_ask_parked(c, r);
    }
}

struct luna_rpc *luna_rpc_find(struct snic_luna *c, uint64_t id)
{
    struct luna_rpc *r = &c->rpcs[id & (c->o.rpcs_max - 1)];
    return r->id == id && r->where != LUNA_FREE ? r : NULL;
}

/* ---- The end ---- */

static void luna_rpc_release(struct snic_luna *c, struct luna_rpc *r)
{
    struct snic_luna_io *io = r->io;
    uint64_t uses = snic_ebs_id_counter(r->id) >> c->slot_bits;
    if (io->result == 0)
        io->result = r->result;
    c->servers[r->server].rpcs--;
    c->s.rpcs--;
    snic_link_remove(&r->of_disk);
    snic_link_remove(&r->link);
    r->where = LUNA_FREE;
    r->io = NULL;
    /* A slot whose numbers are used up stays away for ever: ids never come back. */
    if (uses < (SNIC_EBS_COUNTER_MAX >> c->slot_bits)) {
        r->link.next = c->free_rpcs.next;
        r->link.prev = &c->free_rpcs;
        c->free_rpcs.next->prev = &r->link;
        c->free_rpcs.next = &r->link;
        c->rpcs_free++;
    }
    io->rpcs--;
    c->dirty = 1;
    luna_io_progress(c, io);
}

static void luna_rpc_end(struct snic_luna *c, struct luna_rpc *r, int result)
{
    luna_rpc_take_back(c, r, r->out);
    r->need = 0;
    r->busy = 0;
    r->acked = r->all;
    r->result = result;
    snic_wheel_cancel(&c->wheel, &r->timer);
    snic_ebs_ask_end(&r->ask);
    luna_rpc_move(r, &c->outs, LUNA_ENDED);
    luna_rpc_list(c, r);
    if (r->refs == 0)
        luna_rpc_release(c, r);
}

void luna_rpc_unref(struct snic_luna *c, struct luna_rpc *r)
{
    SNIC_ASSERT(r->refs > 0);
    if (--r->refs == 0 && r->where == LUNA_ENDED)
        luna_rpc_release(c, r);
}

void luna_rpc_halt(struct snic_luna *c, struct luna_rpc *r)
{
    if (r->where != LUNA_ENDED)
        luna_rpc_end(c, r, SNIC_EUNKNOWN);
}

void luna_rpc_sent(struct snic_luna *c, struct luna_rpc *r, struct luna_conn *n, uint64_t blocks)
{
    uint32_t count = luna_ones(blocks);
    SNIC_ASSERT((blocks & ~r->need) == 0 && count > 0);
    SNIC_ASSERT(r->out == 0 || r->conn == n->index);
    if (r->out == 0)
        snic_link_append(&n->rpcs, &r->of_conn);
    r->conn = n->index;
    r->need &= ~blocks;
    r->out |= blocks;
    r->sent = 1;
    n->outside += count;
    if (luna_is_write(r->op))
        n->write_out += count;
    luna_rpc_list(c, r);
}

void luna_rpc_acked(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    luna_rpc_take_back(c, r, blocks);
    r->acked |= blocks;
    snic_ebs_busy_over(&c->servers[r->server].busy);
    luna_ask_heard(c, r);
    if (r->op == SNIC_LUNA_READ)
        c->s.blocks_read += luna_ones(blocks);
    else
        c->s.blocks_written += luna_ones(blocks);
    if (r->acked == r->all)
        luna_rpc_end(c, r, 0);
}

/* ---- Once more ---- */

void luna_rpc_again(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    if (blocks == 0)
        return;
    SNIC_ASSERT((blocks & ~(r->out | r->busy)) == 0);
    luna_rpc_take_back(c, r, blocks & r->out);
    r->busy &= ~blocks;
    if (r->tries < 255)
        r->tries++;
    r->twice = 1;
    r->io->retries += luna_ones(blocks);
    c->s.replays += luna_ones(blocks);
    r->need |= blocks;
    luna_rpc_list(c, r);
}

static void luna_rpc_later(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks,
                           uint32_t retry_us);

/* The data were damaged: once more, but not for ever. */
void luna_rpc_wrong(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    uint64_t often = 0;
    c->s.data_crc++;
    r->summed &= ~blocks;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        uint32_t i = luna_lowest(left);
        if (r->wrong[i] < SNIC_LUNA__WRONG)
            r->wrong[i]++;
        if (r->wrong[i] == SNIC_LUNA__WRONG)
            often |= luna_bit(i);
    }
    if (often != 0 && r->op == SNIC_LUNA_READ) {
        luna_rpc_give_up(c, r, SNIC_ECORRUPT);
        return;
    }
    luna_rpc_again(c, r, blocks & ~often);
    if (often != 0)
        luna_rpc_later(c, r, often, 10000); /* a write, until its deadline */
}

/* ---- Giving up ---- */

void luna_rpc_give_up(struct snic_luna *c, struct luna_rpc *r, int result)
{
    if (r->where == LUNA_ENDED || r->where == LUNA_FENCING)
        return;
    if (!r->sent || r->op == SNIC_LUNA_READ) {
        luna_rpc_end(c, r, result);
        return;
    }
    luna_rpc_take_back(c, r, r->out);
    r->busy = r->all & ~r->acked; /* nothing of it is sent any more */
    r->need = 0;
    r->result = result;
    r->fence_ns = SNIC_LUNA__FENCE_NS;
    c->s.fences++;
    luna_rpc_move(r, &c->outs, LUNA_FENCING);
    luna_rpc_list(c, r);
    snic_wheel_arm(&c->wheel, &r->timer, c->now_ns);
}

/* Who answers is there, and cannot: to ask faster does not help. */
void luna_rpc_fence_refused(struct snic_luna *c, struct luna_rpc *r)
{
    r->fence_ns = snic_max_u64(2 * r->fence_ns, SNIC_LUNA__FENCE_LATER_NS);
    r->fence_ns = snic_min_u64(r->fence_ns, SNIC_LUNA__FENCE_LAST_NS);
    snic_wheel_arm(&c->wheel, &r->timer, c->now_ns + r->fence_ns);
}

void luna_rpc_fenced(struct snic_luna *c, struct luna_rpc *r)
{
    if (r->where == LUNA_FENCING)
        luna_rpc_end(c, r, r->result);
}

/*
 * A fence refuses all versions of the segment up to its RPC's, and who is refused so believes that
 * the lease is another's. When time runs out nobody with a smaller version is left; but a write
 * that the server refused may have smaller ones under way, and RPCs of its own I/O, which has one
 * version.
 */
static int luna_rpc_hopes(const struct snic_luna *c, const struct luna_rpc *r)
{
    const struct luna_disk *d = &c->disks[r->disk];
    if (r->io->cursor < r->io->blocks)
        return 1;
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        const struct luna_rpc *q = SNIC_CONTAINER(l, struct luna_rpc, of_disk);
        if (q->op != SNIC_LUNA_READ && q->wver <= r->wver && q->where != LUNA_FENCING &&
            q->where != LUNA_ENDED &&
            q->lba >> SNIC_EBS_SEGMENT_LOG2 == r->lba >> SNIC_EBS_SEGMENT_LOG2)
            return 1;
    }
    return 0;
}

void luna_rpc_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct luna_rpc *r = SNIC_CONTAINER(t, struct luna_rpc, timer);
    struct snic_luna *c = r->c;
    (void)now_ns;
    if (r->where == LUNA_FENCING) {
        if (!luna_rpc_hopes(c, r))
            (void)luna_send_fence(c, r);
        snic_wheel_arm(&c->wheel, t, c->now_ns + r->fence_ns);
        if (r->fence_ns < SNIC_LUNA__FENCE_MAX_NS)
            r->fence_ns = snic_min_u64(2 * r->fence_ns, SNIC_LUNA__FENCE_MAX_NS);
        return;
    }
    luna_rpc_again(c, r, r->busy);
}

/* ---- What the server says of some blocks ---- */

static void luna_rpc_park(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    c->s.stale_gens++;
    (void)snic_ebs_map_invalidate(c->disks[r->disk].map, r->lba >> SNIC_EBS_SEGMENT_LOG2,
                                  r->seg_gen);
    snic_wheel_cancel(&c->wheel, &r->timer);
    if (r->where != LUNA_PARKED) {
        luna_rpc_move(r, &c->parked, LUNA_PARKED);
        luna_ask_parked(c, r);
    }
    luna_rpc_again(c, r, blocks | r->busy);
    luna_rpc_list(c, r);
}

static void luna_rpc_lease(struct snic_luna *c, struct luna_rpc *r)
{
    struct luna_disk *d = &c->disks[r->disk];
    if (!d->lost) {
        d->lost = 1;
        d->say = 1;
        if (snic_link_alone(&d->event))
            snic_link_append(&c->disk_events, &d->event);
    }
    luna_rpc_end(c, r, SNIC_ESTALE);
}

static void luna_rpc_refused(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks,
                             uint32_t status)
{
    int result = snic_ebs_status_error(status);
    /* Whoever answers has done with it; where no other copy is under way no fence is needed. */
    if (!r->twice && r->out == blocks && r->where != LUNA_PARKED)
        luna_rpc_end(c, r, result);
    else
        luna_rpc_give_up(c, r, result);
}

/* They wait, and are sent once more then. */
static void luna_rpc_later(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks,
                           uint32_t retry_us)
{
    if (r->where == LUNA_PARKED) {
        luna_rpc_again(c, r, blocks);
        return;
    }
    luna_rpc_take_back(c, r, blocks);
    r->busy |= blocks;
    luna_ask_heard(c, r);
    luna_rpc_list(c, r);
    if (!r->timer.armed)
        snic_wheel_arm(&c->wheel, &r->timer,
                       c->now_ns +
                           snic_max_u64(snic_min_u64(retry_us, 100000), 100) * SNIC_LUNA__US);
}

/* @p blocks are out. The RPC may be over afterwards. */
void luna_rpc_status(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks, uint32_t status,
                     uint32_t retry_us)
{
    SNIC_ASSERT(blocks != 0 && (blocks & ~r->out) == 0);
    if (status >= SNIC_EBS_STATUS_END)
        status = SNIC_EBS_INVALID; /* of a later version */
    switch ((enum snic_ebs_status)status) {
    case SNIC_EBS_SUPERSEDED:
        if (r->wver == c->disks[r->disk].wver) { /* by no later write of ours: there is none */
            luna_rpc_lease(c, r);
            break;
        }
        luna_rpc_acked(c, r, blocks);
        break;
    case SNIC_EBS_OK:
        luna_rpc_acked(c, r, blocks);
        break;
    case SNIC_EBS_BAD_CRC:
        luna_rpc_wrong(c, r, blocks);
        break;
    case SNIC_EBS_BUSY:
        c->s.busy++;
        snic_ebs_busy_said(&c->servers[r->server].busy, c->now_ns);
        luna_rpc_later(c, r, blocks, retry_us);
        break;
    case SNIC_EBS_STALE_GEN:
    case SNIC_EBS_NO_SEGMENT:
        luna_rpc_park(c, r, blocks);
        break;
    case SNIC_EBS_FENCED:
    case SNIC_EBS_NO_LEASE:
        luna_rpc_lease(c, r);
        break;
    case SNIC_EBS_NO_CONN:
    case SNIC_EBS_BAD_VERSION:
    case SNIC_EBS_BAD_FLAGS:
    case SNIC_EBS_BAD_AUTH:
        luna_rpc_later(c, r, blocks, 1000); /* of the connection, not of the blocks */
        break;
    case SNIC_EBS_IO:
        snic_ebs_busy_failed(&c->servers[r->server].busy, c->now_ns);
        luna_rpc_refused(c, r, blocks, status);
        break;
    case SNIC_EBS_INVALID:
    case SNIC_EBS_DAMAGED:
    case SNIC_EBS_NO_SPACE:
    case SNIC_EBS_STATUS_END:
    default:
        luna_rpc_refused(c, r, blocks, status);
        break;
    }
}

/* The segment is at @p w now: everything that is not acknowledged begins again there. */
void luna_rpc_retarget(struct snic_luna *c, struct luna_rpc *r, const struct snic_ebs_where *w)
{
    int bumped = w->seg_gen > r->seg_gen;
    if (r->where == LUNA_ENDED ||
        (r->seg_gen == w->seg_gen && r->server == w->server && r->where != LUNA_PARKED))
        return;
    if (r->where == LUNA_FENCING && bumped) {
        luna_rpc_end(c, r, r->result);
        return;
    }
    uint64_t again = r->out | r->busy;
    int fencing = r->where == LUNA_FENCING;
    luna_rpc_take_back(c, r, r->out);
    c->servers[r->server].backlog -= r->queued;
    r->queued = 0;
    c->servers[r->server].rpcs--;
    c->servers[w->server].rpcs++;
    r->server = w->server;
    r->seg_id = w->seg_id;
    r->seg_gen = w->seg_gen;
    r->turn++;
    r->summed = 0;
    memset(r->wrong, 0, sizeof(r->wrong)); /* of another place they say nothing */
    luna_ask_begin(c, r);
    if (fencing)
        return;
    snic_wheel_cancel(&c->wheel, &r->timer);
    if (again != 0) {
        r->twice = 1;
        if (r->tries < 255)
            r->tries++;
        r->io->retries += luna_ones(again);
        c->s.replays += luna_ones(again);
    }
    r->busy = 0;
    r->need = r->all & ~r->acked;
    r->where = LUNA_FREE; /* of no list: it is moved even if the kind of list stays the same */
    luna_rpc_list(c, r);
}
