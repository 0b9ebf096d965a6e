/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An RPC: up to 64 blocks of one I/O in one segment. It is a set of blocks and nothing more: which
 * are acknowledged, which have to be sent (again), and where the last copy of the others is.
 */
#include "solar/solar_priv.h"

#define SNIC_SOLAR__FENCE_NS (2 * SNIC_SOLAR__MS)
#define SNIC_SOLAR__FENCE_MAX_NS (16 * SNIC_SOLAR__MS)
#define SNIC_SOLAR__FENCE_LATER_NS (128 * SNIC_SOLAR__MS) /* refused: then */
#define SNIC_SOLAR__FENCE_LAST_NS (1000 * SNIC_SOLAR__MS)

static void solar_rpc_move(struct solar_rpc *r, struct snic_link *list, uint32_t where)
{
    snic_link_remove(&r->link);
    snic_link_append(list, &r->link);
    r->where = (uint8_t)where;
}

/* Put it on the list where its blocks say it belongs. */
void solar_rpc_list(struct snic_solar *c, struct solar_rpc *r)
{
    struct solar_server *s = &c->servers[r->server];
    uint32_t where = SOLAR_OUT;
    if (r->op == SNIC_SOLAR_READ && !r->credited)
        where = SOLAR_WAIT;
    else if (r->need != 0)
        where = SOLAR_AGAIN;
    else if (r->next < r->count)
        where = SOLAR_READY;
    if (where == r->where)
        return;
    c->dirty = 1;
    if (where == SOLAR_WAIT)
        solar_rpc_move(r, &c->read_wait, where);
    else if (where == SOLAR_AGAIN)
        solar_rpc_move(r, &s->again, where);
    else if (where == SOLAR_READY)
        solar_rpc_move(r, &s->ready[r->op != SNIC_SOLAR_WRITE], where);
    else
        solar_rpc_move(r, &c->outs, where);
}

/* Reads that wait get their turn, in the order of arrival, when less than the window is out. */
void solar_read_credit(struct snic_solar *c)
{
    while (!snic_link_alone(&c->read_wait) && c->read_out < c->read_max) {
        struct solar_rpc *r = SNIC_CONTAINER(c->read_wait.next, struct solar_rpc, link);
        r->credited = 1;
        c->read_out += (uint64_t)r->count * SNIC_EBS_BLOCK_BYTES;
        solar_rpc_list(c, r);
    }
}

struct solar_rpc *solar_rpc_new(struct snic_solar *c, struct snic_solar_io *io, uint32_t count,
                                const struct snic_ebs_where *w)
{
    struct solar_disk *d = &c->disks[io->disk];
    struct solar_rpc *r = SNIC_CONTAINER(c->free_rpcs.next, struct solar_rpc, link);
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
    r->all = solar_mask(count);
    r->acked = 0;
    r->need = 0;
    r->busy = 0;
    r->next = 0;
    r->credited = 0;
    r->sent = 0;
    r->refs = 0;
    r->result = 0;
    r->piece = io->piece;
    r->piece_block = io->piece_block;
    for (uint32_t i = 0; i < count; i++) {
        struct solar_blk *b = &r->b[i];
        memset(b, 0, sizeof(*b));
        b->path = SNIC_SOLAR__NO_PATH;
        b->copies = 1;
    }
    solar_ask_begin(c, r);
    c->rpcs_free--;
    c->s.rpcs++;
    c->s.rpcs_high = (uint32_t)snic_max_u64(c->s.rpcs_high, c->s.rpcs);
    c->servers[r->server].rpcs++;
    c->servers[r->server].backlog += count;
    snic_link_append(&d->rpcs, &r->of_disk);
    r->where = SOLAR_FREE;
    if (r->server != solar_nowhere(c)) {
        solar_rpc_list(c, r);
    } else {
        solar_rpc_move(r, &c->parked, SOLAR_PARKED);
        solar_ask_parked(c, r);
    }
    return r;
}

struct solar_rpc *solar_rpc_find(struct snic_solar *c, uint64_t id)
{
    struct solar_rpc *r = &c->rpcs[id & (c->o.rpcs_max - 1)];
    return r->id == id && r->where != SOLAR_FREE ? r : NULL;
}

/* Where in the guest's memory block @p pkt is. */
void *solar_rpc_guest(const struct solar_rpc *r, uint32_t pkt)
{
    const struct snic_iov *iov = r->io->iov + r->piece;
    uint32_t block = r->piece_block + pkt;
    while (block >= iov->size / SNIC_EBS_BLOCK_BYTES) {
        block -= (uint32_t)(iov->size / SNIC_EBS_BLOCK_BYTES);
        iov++;
    }
    return (unsigned char *)iov->base + (size_t)block * SNIC_EBS_BLOCK_BYTES;
}

/* ---- The end ---- */

static void solar_rpc_release(struct snic_solar *c, struct solar_rpc *r)
{
    struct snic_solar_io *io = r->io;
    struct solar_server *s = &c->servers[r->server];
    uint64_t uses = snic_ebs_id_counter(r->id) >> c->slot_bits;
    if (io->result == 0)
        io->result = r->result;
    s->rpcs--;
    c->s.rpcs--;
    snic_link_remove(&r->of_disk);
    snic_link_remove(&r->link);
    r->where = SOLAR_FREE;
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
    solar_io_progress(c, io);
}

static void solar_rpc_slots(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks)
{
    if (r->op != SNIC_SOLAR_READ)
        return;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[solar_lowest(left)];
        if (b->slotted)
            (void)snic_ebs_addr_clear(c->addr, b->slot, b->gen);
        b->slotted = 0;
    }
}

static void solar_rpc_end(struct snic_solar *c, struct solar_rpc *r, int result)
{
    uint64_t left = r->all & ~r->acked;
    solar_rpc_slots(c, r, left);
    if (r->credited)
        c->read_out -= (uint64_t)solar_ones(left) * SNIC_EBS_BLOCK_BYTES;
    c->servers[r->server].backlog -= (uint32_t)(r->count - r->next);
    r->next = r->count;
    r->need = 0;
    r->busy = 0;
    r->acked = r->all;
    r->result = result;
    snic_wheel_cancel(&c->wheel, &r->timer);
    snic_ebs_ask_end(&r->ask);
    solar_rpc_move(r, &c->outs, SOLAR_ENDED);
    if (r->refs == 0)
        solar_rpc_release(c, r);
    solar_read_credit(c);
}

void solar_rpc_unref(struct snic_solar *c, struct solar_rpc *r)
{
    SNIC_ASSERT(r->refs > 0);
    if (--r->refs == 0 && r->where == SOLAR_ENDED)
        solar_rpc_release(c, r);
}

void solar_rpc_halt(struct snic_solar *c, struct solar_rpc *r)
{
    if (r->where != SOLAR_ENDED)
        solar_rpc_end(c, r, SNIC_EUNKNOWN);
}

void solar_rpc_acked(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt)
{
    uint64_t bit = solar_bit(pkt);
    if ((r->acked & bit) != 0 || r->where == SOLAR_ENDED || r->where == SOLAR_FENCING)
        return;
    r->acked |= bit;
    r->busy &= ~bit;
    snic_ebs_busy_over(&c->servers[r->server].busy);
    solar_ask_heard(c, r);
    if (r->op == SNIC_SOLAR_READ) {
        solar_rpc_slots(c, r, bit);
        c->read_out -= SNIC_EBS_BLOCK_BYTES;
        c->s.blocks_read++;
        if (r->acked != r->all)
            solar_read_credit(c);
    } else {
        c->s.blocks_written++;
    }
    if (r->acked == r->all) {
        solar_rpc_end(c, r, 0);
    } else if ((r->need & bit) != 0) {
        r->need &= ~bit;
        if (r->where != SOLAR_PARKED)
            solar_rpc_list(c, r);
    }
}

/* ---- Once more ---- */

static uint8_t solar_rpc_copies(const struct solar_blk *b)
{
    if (b->tries < 3)
        return 1;
    return b->tries < 8 ? 2 : 3;
}

void solar_rpc_again(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks)
{
    blocks &= r->all & ~r->acked & ~r->need & ~r->busy;
    if (blocks == 0 || r->where == SOLAR_ENDED || r->where == SOLAR_FENCING)
        return;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[solar_lowest(left)];
        if (b->tries < 255)
            b->tries++;
        b->copies = solar_rpc_copies(b);
        b->path = SNIC_SOLAR__NO_PATH;
    }
    r->io->retries += solar_ones(blocks);
    r->need |= blocks;
    if (r->where != SOLAR_PARKED)
        solar_rpc_list(c, r);
}

/* ---- Giving up ---- */

void solar_rpc_give_up(struct snic_solar *c, struct solar_rpc *r, int result)
{
    if (r->where == SOLAR_ENDED || r->where == SOLAR_FENCING)
        return;
    if (!r->sent || r->op == SNIC_SOLAR_READ) {
        solar_rpc_end(c, r, result);
        return;
    }
    c->servers[r->server].backlog -= (uint32_t)(r->count - r->next);
    r->next = r->count;
    r->need = 0;
    r->busy = 0;
    r->result = result;
    r->fence_ns = SNIC_SOLAR__FENCE_NS;
    c->s.fences++;
    solar_rpc_move(r, &c->outs, SOLAR_FENCING);
    snic_wheel_arm(&c->wheel, &r->timer, c->now_ns);
}

/* Who answers is there, and cannot: to ask faster does not help. */
void solar_rpc_fence_refused(struct snic_solar *c, struct solar_rpc *r)
{
    r->fence_ns = snic_max_u64(2 * r->fence_ns, SNIC_SOLAR__FENCE_LATER_NS);
    r->fence_ns = snic_min_u64(r->fence_ns, SNIC_SOLAR__FENCE_LAST_NS);
    snic_wheel_arm(&c->wheel, &r->timer, c->now_ns + r->fence_ns);
}

void solar_rpc_fenced(struct snic_solar *c, struct solar_rpc *r)
{
    if (r->where == SOLAR_FENCING)
        solar_rpc_end(c, r, r->result);
}

/*
 * A fence refuses all versions of the segment up to its RPC's, and who is refused so believes that
 * the lease is another's. When time runs out nobody with a smaller version is left; but a write
 * that the server refused may have smaller ones under way, and RPCs of its own I/O, which has one
 * version.
 */
static int solar_rpc_hopes(const struct snic_solar *c, const struct solar_rpc *r)
{
    const struct solar_disk *d = &c->disks[r->disk];
    if (r->io->cursor < r->io->blocks)
        return 1;
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        const struct solar_rpc *q = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (q->op != SNIC_SOLAR_READ && q->wver <= r->wver && q->where != SOLAR_FENCING &&
            q->where != SOLAR_ENDED &&
            q->lba >> SNIC_EBS_SEGMENT_LOG2 == r->lba >> SNIC_EBS_SEGMENT_LOG2)
            return 1;
    }
    return 0;
}

void solar_rpc_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct solar_rpc *r = SNIC_CONTAINER(t, struct solar_rpc, timer);
    struct snic_solar *c = r->c;
    (void)now_ns;
    if (r->where == SOLAR_FENCING) {
        if (!solar_rpc_hopes(c, r))
            solar_send_fence(c, r, r->fence_ns < SNIC_SOLAR__FENCE_MAX_NS ? 1 : 3);
        snic_wheel_arm(&c->wheel, t, c->now_ns + r->fence_ns);
        if (r->fence_ns < SNIC_SOLAR__FENCE_MAX_NS)
            r->fence_ns = snic_min_u64(2 * r->fence_ns, SNIC_SOLAR__FENCE_MAX_NS);
        return;
    }
    uint64_t blocks = r->busy;
    r->busy = 0;
    solar_rpc_again(c, r, blocks);
}

/* ---- What the server says of a block ---- */

static void solar_rpc_park(struct snic_solar *c, struct solar_rpc *r)
{
    c->s.stale_gens++;
    if (r->where == SOLAR_PARKED)
        return;
    (void)snic_ebs_map_invalidate(c->disks[r->disk].map, r->lba >> SNIC_EBS_SEGMENT_LOG2,
                                  r->seg_gen);
    snic_wheel_cancel(&c->wheel, &r->timer);
    r->need |= r->busy;
    r->busy = 0;
    solar_rpc_move(r, &c->parked, SOLAR_PARKED);
    solar_ask_parked(c, r);
}

static void solar_rpc_lease(struct snic_solar *c, struct solar_rpc *r)
{
    struct solar_disk *d = &c->disks[r->disk];
    if (!d->lost) {
        d->lost = 1;
        d->say = 1;
        if (snic_link_alone(&d->event))
            snic_link_append(&c->disk_events, &d->event);
    }
    solar_rpc_end(c, r, SNIC_ESTALE);
}

static void solar_rpc_refused(struct snic_solar *c, struct solar_rpc *r, uint32_t status)
{
    solar_rpc_give_up(c, r, snic_ebs_status_error(status));
}

void solar_rpc_status(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt, uint32_t status,
                      uint32_t retry_us)
{
    uint64_t bit = solar_bit(pkt);
    SNIC_ASSERT(pkt < r->next); /* what was never sent has no answer */
    if ((r->acked & bit) != 0 || r->where == SOLAR_ENDED || r->where == SOLAR_FENCING)
        return;
    if (status >= SNIC_EBS_STATUS_END)
        status = SNIC_EBS_INVALID; /* of a later version */
    switch ((enum snic_ebs_status)status) {
    case SNIC_EBS_SUPERSEDED:
        if (r->wver == c->disks[r->disk].wver) { /* by no later write of ours: there is none */
            solar_rpc_lease(c, r);
            break;
        }
        solar_rpc_acked(c, r, pkt);
        break;
    case SNIC_EBS_OK:
        solar_rpc_acked(c, r, pkt);
        break;
    case SNIC_EBS_BAD_CRC:
        r->b[pkt].summed = 0;
        r->b[pkt].soft = 1;
        solar_rpc_again(c, r, bit);
        break;
    case SNIC_EBS_BUSY:
        c->s.busy++;
        snic_ebs_busy_said(&c->servers[r->server].busy, c->now_ns);
        if (r->where == SOLAR_PARKED)
            break;
        r->busy |= bit;
        r->need &= ~bit;
        solar_ask_heard(c, r);
        solar_rpc_list(c, r);
        if (!r->timer.armed)
            snic_wheel_arm(&c->wheel, &r->timer,
                           c->now_ns +
                               snic_max_u64(snic_min_u64(retry_us, 100000), 100) * SNIC_SOLAR__US);
        break;
    case SNIC_EBS_STALE_GEN:
    case SNIC_EBS_NO_SEGMENT:
        solar_rpc_park(c, r);
        break;
    case SNIC_EBS_FENCED:
    case SNIC_EBS_NO_LEASE:
        solar_rpc_lease(c, r);
        break;
    case SNIC_EBS_NO_CONN:
    case SNIC_EBS_BAD_VERSION:
    case SNIC_EBS_BAD_FLAGS:
    case SNIC_EBS_BAD_AUTH:
        solar_rpc_again(c, r, bit); /* of the connection, not of the block */
        break;
    case SNIC_EBS_IO:
        snic_ebs_busy_failed(&c->servers[r->server].busy, c->now_ns);
        solar_rpc_refused(c, r, status);
        break;
    case SNIC_EBS_INVALID:
    case SNIC_EBS_DAMAGED:
    case SNIC_EBS_NO_SPACE:
    case SNIC_EBS_STATUS_END:
    default:
        solar_rpc_refused(c, r, status);
        break;
    }
}

/* The segment is at @p w now: everything that is not acknowledged begins again there. */
void solar_rpc_retarget(struct snic_solar *c, struct solar_rpc *r, const struct snic_ebs_where *w)
{
    struct solar_server *from = &c->servers[r->server], *to = &c->servers[w->server];
    uint32_t unsent = (uint32_t)(r->count - r->next);
    int bumped = w->seg_gen > r->seg_gen;
    if (r->where == SOLAR_ENDED ||
        (r->seg_gen == w->seg_gen && r->server == w->server && r->where != SOLAR_PARKED))
        return;
    if (r->where == SOLAR_FENCING && bumped) {
        solar_rpc_end(c, r, r->result);
        return;
    }
    from->rpcs--;
    from->backlog -= unsent;
    to->rpcs++;
    to->backlog += unsent;
    r->server = w->server;
    r->seg_id = w->seg_id;
    r->seg_gen = w->seg_gen;
    solar_ask_begin(c, r);
    if (r->where == SOLAR_FENCING)
        return;
    snic_wheel_cancel(&c->wheel, &r->timer);
    solar_rpc_slots(c, r, r->all & ~r->acked);
    r->busy = 0;
    r->need = solar_mask(r->next) & ~r->acked;
    for (uint32_t i = 0; i < r->count; i++) {
        r->b[i].path = SNIC_SOLAR__NO_PATH;
        r->b[i].summed = 0;
        r->b[i].tried = 0;
        r->b[i].tries = 0;
        r->b[i].wrong = 0;
        r->b[i].copies = 1;
    }
    r->where = SOLAR_FREE; /* of no list: it is moved even if the kind of list stays the same */
    solar_rpc_list(c, r);
}
