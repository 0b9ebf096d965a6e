/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An RPC: up to 64 blocks of one I/O in one segment. It is a set of blocks and nothing more: those
 * acknowledged, those to be sent (again), and the last copy of each of the others.
 */
#include "solar/solar_priv.h"

#define SNIC_SOLAR__FENCE_MAX_NS (16 * SNIC_SOLAR__MS)

#define SNIC_SOLAR__RPC_LOOK 32 /* RPCs at a list's head among which one is sorted in by age */
#define SNIC_SOLAR__RPC_LOST 8  /* an RPC that lost a block so often is sorted as a new one */

static struct solar_rpc *solar_rpc_of(struct snic_link *l)
{
    return SNIC_CONTAINER(l, struct solar_rpc, q.link);
}

int solar_rpc_kind(const struct solar_rpc *r)
{
    if (r->q.op == SNIC_EBS_IO_READ)
        return SOLAR_READ;
    return r->q.op == SNIC_EBS_IO_WRITE ? SOLAR_DATA : SOLAR_NO_DATA;
}

/* Its place on a list, in the order of age: an RPC that retransmits, or was restarted at another
   server, would else wait for all others at each loss. If more than RPC_LOOK are older it goes
   before some of them: at the end, it would make the fast path put all that follow behind it. */
static struct snic_link *solar_rpc_place(struct snic_link *list, const struct solar_rpc *r)
{
    struct snic_link *l = list->next;
    uint32_t looked = 0;
    if (l == list || solar_rpc_of(list->prev)->turn_ns <= r->turn_ns)
        return list;
    while (solar_rpc_of(l)->turn_ns <= r->turn_ns && looked++ < SNIC_SOLAR__RPC_LOOK)
        l = l->next; /* the last one is younger */
    return l;
}

/* Put it on the list that the state of its blocks requires. */
void solar_rpc_list(struct snic_solar *c, struct solar_rpc *r)
{
    struct solar_server *s = &c->servers[r->q.server];
    struct snic_link *list = &c->q.outs;
    uint32_t where = EBS_RPC_OUT;
    if (r->q.op == SNIC_EBS_IO_READ && !r->credited)
        where = SOLAR_WAIT;
    else if (r->need != 0)
        where = SOLAR_AGAIN;
    else if (r->next < r->q.count)
        where = SOLAR_READY;
    if (where == r->q.where)
        return;
    c->q.dirty = 1;
    if (where == SOLAR_WAIT)
        list = &c->read_wait;
    else if (where == SOLAR_AGAIN)
        list = solar_rpc_place(&s->again[solar_rpc_kind(r)], r);
    else if (where == SOLAR_READY)
        list = solar_rpc_place(&s->ready[solar_rpc_kind(r)], r);
    ebs_rpc_move(&r->q, list, where);
}

/* Waiting reads get their credit in the order of arrival, while less than the window is out. */
void solar_read_credit(struct snic_solar *c)
{
    while (!snic_link_alone(&c->read_wait) && c->read_out < c->read_max) {
        struct solar_rpc *r = SNIC_CONTAINER(c->read_wait.next, struct solar_rpc, q.link);
        r->credited = 1;
        c->read_out += (uint64_t)r->q.count * SNIC_EBS_BLOCK_BYTES;
        solar_rpc_list(c, r);
    }
}

void solar_rpc_made(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct solar_rpc *r = SNIC_CONTAINER(rpc, struct solar_rpc, q);
    r->need = 0;
    r->busy = 0;
    r->next = 0;
    r->credited = 0;
    r->tries = 0;
    r->turn_ns = rpc->made_ns;
    for (uint32_t i = 0; i < rpc->count; i++) {
        struct solar_blk *b = &r->b[i];
        memset(b, 0, sizeof(*b));
        b->path = SNIC_SOLAR__NO_PATH;
        b->copies = 1;
    }
    q->loads[rpc->server].backlog += rpc->count;
    if (rpc->server != ebs_server_none(q))
        solar_rpc_list(r->c, r);
}

struct solar_rpc *solar_rpc_find(struct snic_solar *c, uint64_t id)
{
    struct solar_rpc *r = &c->rpcs[id & (c->o.rpcs_max - 1)];
    return r->q.id == id && r->q.where != EBS_RPC_FREE ? r : NULL;
}

/* The address of block @p pkt in the I/O's memory. */
void *solar_rpc_buffer(const struct solar_rpc *r, uint32_t pkt)
{
    const struct snic_iov *iov = r->q.io->iov + r->q.piece;
    uint32_t block = r->q.piece_block + pkt;
    while (block >= iov->size / SNIC_EBS_BLOCK_BYTES) {
        block -= (uint32_t)(iov->size / SNIC_EBS_BLOCK_BYTES);
        iov++;
    }
    return (unsigned char *)iov->base + (size_t)block * SNIC_EBS_BLOCK_BYTES;
}

/* ---- The end ---- */

static void solar_rpc_slots(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks)
{
    if (r->q.op != SNIC_EBS_IO_READ)
        return;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[ebs_lowest(left)];
        if (b->slotted)
            (void)snic_ebs_addr_clear(c->addr, b->slot, b->gen);
        b->slotted = 0;
    }
}

void solar_rpc_end(struct ebs_queue *q, struct ebs_rpc *rpc, int result)
{
    struct solar_rpc *r = SNIC_CONTAINER(rpc, struct solar_rpc, q);
    struct snic_solar *c = r->c;
    uint64_t left = rpc->all & ~rpc->acked;
    solar_rpc_slots(c, r, left);
    if (r->credited)
        c->read_out -= (uint64_t)ebs_ones(left) * SNIC_EBS_BLOCK_BYTES;
    q->loads[rpc->server].backlog -= (uint32_t)(rpc->count - r->next);
    r->next = rpc->count;
    r->need = 0;
    r->busy = 0;
    ebs_rpc_end(q, rpc, result);
    solar_read_credit(c);
}

void solar_rpc_acked(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt)
{
    uint64_t bit = ebs_bit(pkt);
    if ((r->q.acked & bit) != 0 || ebs_rpc_is_over(&r->q))
        return;
    r->q.acked |= bit;
    r->busy &= ~bit;
    ebs_rpc_acknowledged(&c->q, &r->q);
    if (r->q.op == SNIC_EBS_IO_READ) {
        solar_rpc_slots(c, r, bit);
        c->read_out -= SNIC_EBS_BLOCK_BYTES;
        c->q.s.blocks_read++;
        if (r->q.acked != r->q.all)
            solar_read_credit(c);
    } else {
        c->q.s.blocks_written++;
    }
    if (r->q.acked == r->q.all) {
        solar_rpc_end(&c->q, &r->q, 0);
    } else if ((r->need & bit) != 0) {
        r->need &= ~bit;
        if (r->q.where != EBS_RPC_PARKED)
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

/* @p blocks without those acknowledged, and those that are to be sent again already. */
static uint64_t solar_rpc_missing(const struct solar_rpc *r, uint64_t blocks)
{
    return ebs_rpc_is_over(&r->q) ? 0 : blocks & r->q.all & ~r->q.acked & ~r->need & ~r->busy;
}

static void solar_rpc_need(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks)
{
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[ebs_lowest(left)];
        if (b->tries < 255)
            b->tries++;
        b->copies = solar_rpc_copies(b);
        b->path = SNIC_SOLAR__NO_PATH;
    }
    r->q.io->retries += ebs_ones(blocks);
    r->need |= blocks;
    if (r->q.where != EBS_RPC_PARKED)
        solar_rpc_list(c, r);
}

void solar_rpc_again(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks)
{
    blocks = solar_rpc_missing(r, blocks);
    if (blocks == 0)
        return;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        uint64_t tries = r->b[ebs_lowest(left)].tries + UINT64_C(1);
        r->tries = (uint8_t)snic_min_u64(snic_max_u64(tries, r->tries), 255);
    }
    /* An RPC whose blocks are never answered would keep all others out of the windows. */
    if (r->tries >= SNIC_SOLAR__RPC_LOST) {
        r->turn_ns = c->q.now_ns;
        if (r->q.where == SOLAR_AGAIN)
            ebs_rpc_move(&r->q, &c->q.outs, EBS_RPC_OUT);
    }
    solar_rpc_need(c, r, blocks);
}

/* ---- Expiry and fences ---- */

void solar_rpc_give_up(struct ebs_queue *q, struct ebs_rpc *rpc, int result)
{
    struct solar_rpc *r = SNIC_CONTAINER(rpc, struct solar_rpc, q);
    if (ebs_rpc_is_over(rpc))
        return;
    if (!rpc->sent || rpc->op == SNIC_EBS_IO_READ) {
        solar_rpc_end(q, rpc, result);
        return;
    }
    q->loads[rpc->server].backlog -= (uint32_t)(rpc->count - r->next);
    r->next = rpc->count;
    r->need = 0;
    r->busy = 0;
    ebs_rpc_fence(q, rpc, result);
}

void solar_rpc_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct solar_rpc *r = SNIC_CONTAINER(t, struct solar_rpc, q.timer);
    struct snic_solar *c = r->c;
    (void)now_ns;
    if (r->q.where == EBS_RPC_FENCING) {
        uint32_t copies = ebs_rpc_fence_retry(&c->q, &r->q, SNIC_SOLAR__FENCE_MAX_NS);
        if (copies > 0)
            solar_send_fence(c, r, copies);
        return;
    }
    uint64_t blocks = r->busy;
    r->busy = 0;
    blocks = solar_rpc_missing(r, blocks);
    if (blocks != 0)
        solar_rpc_need(c, r, blocks);
}

/* ---- A block's status ---- */

static void solar_rpc_park(struct snic_solar *c, struct solar_rpc *r)
{
    if (!ebs_rpc_park(&c->q, &r->q))
        return;
    r->need |= r->busy;
    r->busy = 0;
}

static void solar_rpc_refused(struct snic_solar *c, struct solar_rpc *r, uint32_t status)
{
    solar_rpc_give_up(&c->q, &r->q, snic_ebs_status_error(status));
}

/* The server responds, and the block is sent again after @p us. */
static void solar_rpc_later(struct snic_solar *c, struct solar_rpc *r, uint64_t bit, uint32_t us)
{
    if (r->q.where == EBS_RPC_PARKED)
        return;
    r->busy |= bit;
    r->need &= ~bit;
    ebs_rpc_answered(&c->q, &r->q);
    solar_rpc_list(c, r);
    ebs_rpc_back_off(&c->q, &r->q, us);
}

/* The server needs the disk's token (again); then the block is sent again. */
static void solar_rpc_no_token(struct snic_solar *c, struct solar_rpc *r, uint64_t bit)
{
    struct ebs_disk *d = &c->q.disks[r->q.disk];
    c->s.no_token++;
    if (!ebs_disk_has_token(d)) {
        c->s.forbidden++;
        ebs_disk_token_refused(&c->q, d);
        solar_rpc_refused(c, r, SNIC_EBS_FORBIDDEN);
        return;
    }
    uint32_t wait_us = d->token_wait_us;
    if (solar_send_token(c, &c->servers[r->q.server], r->q.disk))
        ebs_disk_token_refused(&c->q, d);
    solar_rpc_later(c, r, bit, wait_us);
}

void solar_rpc_status(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt, uint32_t status,
                      uint32_t retry_us)
{
    uint64_t bit = ebs_bit(pkt);
    SNIC_ASSERT(pkt < r->next); /* a block never sent has no answer */
    if ((r->q.acked & bit) != 0 || ebs_rpc_is_over(&r->q))
        return;
    switch (ebs_rpc_verdict(&c->q, &r->q, status)) {
    case EBS_VERDICT_OVER:
        break;
    case EBS_VERDICT_DONE:
        solar_rpc_acked(c, r, pkt);
        break;
    case EBS_VERDICT_DAMAGED:
        r->b[pkt].summed = 0;
        r->b[pkt].soft = 1;
        solar_rpc_again(c, r, bit);
        break;
    case EBS_VERDICT_BUSY:
        solar_rpc_later(c, r, bit, retry_us);
        break;
    case EBS_VERDICT_MOVED:
        solar_rpc_park(c, r);
        break;
    case EBS_VERDICT_CONNECTION:
        solar_rpc_again(c, r, bit);
        break;
    case EBS_VERDICT_NO_TOKEN:
        solar_rpc_no_token(c, r, bit);
        break;
    case EBS_VERDICT_REFUSED:
    default:
        c->s.forbidden += status == SNIC_EBS_FORBIDDEN;
        solar_rpc_refused(c, r, status);
        break;
    }
}

/* ---- Restart at another server ---- */

void solar_rpc_leave(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct solar_rpc *r = SNIC_CONTAINER(rpc, struct solar_rpc, q);
    q->loads[rpc->server].backlog -= (uint32_t)(rpc->count - r->next);
}

/* Send everything again that is not acknowledged. */
void solar_rpc_begin(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct solar_rpc *r = SNIC_CONTAINER(rpc, struct solar_rpc, q);
    q->loads[rpc->server].backlog += (uint32_t)(rpc->count - r->next);
    solar_rpc_slots(r->c, r, rpc->all & ~rpc->acked);
    r->busy = 0;
    r->tries = 0;
    r->turn_ns = rpc->made_ns;
    r->need = ebs_mask(r->next) & ~rpc->acked;
    for (uint32_t i = 0; i < rpc->count; i++) {
        r->b[i].path = SNIC_SOLAR__NO_PATH;
        r->b[i].summed = 0;
        r->b[i].tried = 0;
        r->b[i].tries = 0;
        r->b[i].wrong = 0;
        r->b[i].copies = 1;
    }
    solar_rpc_list(r->c, r);
}
