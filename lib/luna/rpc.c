/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An RPC: up to 64 blocks of one I/O in one segment, and nothing more than four sets of them (I1).
 * While some are out, all others are sent on the same connection, so when a connection ends all
 * that are out have to be sent again.
 */
#include "luna/luna_priv.h"

/* Damaged answers about a block before it counts as damaged at the server. */
#define SNIC_LUNA__WRONG 8

static struct luna_conn *luna_rpc_conn(struct snic_luna *c, const struct luna_rpc *r)
{
    return &c->servers[r->q.server].conns[r->conn];
}

/* Put it on the list that the state of its blocks requires, and update the backlog. */
void luna_rpc_list(struct snic_luna *c, struct luna_rpc *r)
{
    int on_list =
        r->q.where == EBS_RPC_FREE || r->q.where == LUNA_READY || r->q.where == EBS_RPC_OUT;
    uint32_t where = on_list ? (r->need != 0 ? LUNA_READY : EBS_RPC_OUT) : r->q.where;
    uint32_t queued = where == LUNA_READY ? ebs_ones(r->need) : 0;
    c->q.loads[r->q.server].backlog += queued - r->queued;
    r->queued = queued;
    if (queued > 0)
        c->q.dirty = 1;
    if (where == r->q.where)
        return;
    struct luna_server *s = &c->servers[r->q.server];
    if (where == EBS_RPC_OUT)
        ebs_rpc_move(&r->q, &c->q.outs, where);
    else if (r->tries > 0)
        ebs_rpc_move(&r->q, &s->again, where);
    else
        ebs_rpc_move(&r->q, &s->ready[r->q.op != SNIC_EBS_IO_WRITE], where);
}

/* Remove blocks from `out`; the caller adds them to another set. */
static void luna_rpc_take_back(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    uint32_t count = ebs_ones(blocks);
    SNIC_ASSERT((blocks & ~r->out) == 0);
    if (count == 0)
        return; /* an RPC without a server has no connection */
    struct luna_conn *n = luna_rpc_conn(c, r);
    r->out &= ~blocks;
    n->outside -= count;
    if (ebs_io_writes(r->q.op))
        n->write_out -= count;
    if (r->out == 0)
        snic_link_remove(&r->of_conn);
    c->q.dirty = 1; /* the window has space */
}

void luna_rpc_made(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct luna_rpc *r = SNIC_CONTAINER(rpc, struct luna_rpc, q);
    r->need = rpc->all;
    r->out = 0;
    r->busy = 0;
    r->summed = 0;
    r->conn = 0;
    r->turn = 0;
    r->twice = 0;
    r->tries = 0;
    memset(r->wrong, 0, sizeof(r->wrong));
    r->queued = 0;
    if (rpc->server != ebs_server_none(q))
        luna_rpc_list(r->c, r);
}

struct luna_rpc *luna_rpc_find(struct snic_luna *c, uint64_t id)
{
    struct luna_rpc *r = &c->rpcs[id & (c->o.rpcs_max - 1)];
    return r->q.id == id && r->q.where != EBS_RPC_FREE ? r : NULL;
}

/* ---- The end ---- */

void luna_rpc_end(struct ebs_queue *q, struct ebs_rpc *rpc, int result)
{
    struct luna_rpc *r = SNIC_CONTAINER(rpc, struct luna_rpc, q);
    struct snic_luna *c = r->c;
    luna_rpc_take_back(c, r, r->out);
    r->need = 0;
    r->busy = 0;
    q->loads[rpc->server].backlog -= r->queued;
    r->queued = 0;
    ebs_rpc_end(q, rpc, result);
}

void luna_rpc_sent(struct snic_luna *c, struct luna_rpc *r, struct luna_conn *n, uint64_t blocks)
{
    uint32_t count = ebs_ones(blocks);
    SNIC_ASSERT((blocks & ~r->need) == 0 && count > 0);
    SNIC_ASSERT(r->out == 0 || r->conn == n->index);
    if (r->out == 0)
        snic_link_append(&n->rpcs, &r->of_conn);
    r->conn = n->index;
    r->need &= ~blocks;
    r->out |= blocks;
    r->q.sent = 1;
    n->outside += count;
    if (ebs_io_writes(r->q.op))
        n->write_out += count;
    luna_rpc_list(c, r);
}

void luna_rpc_acked(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    luna_rpc_take_back(c, r, blocks);
    r->q.acked |= blocks;
    ebs_rpc_acknowledged(&c->q, &r->q);
    if (r->q.op == SNIC_EBS_IO_READ)
        c->q.s.blocks_read += ebs_ones(blocks);
    else
        c->q.s.blocks_written += ebs_ones(blocks);
    if (r->q.acked == r->q.all)
        luna_rpc_end(&c->q, &r->q, 0);
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
    r->q.io->retries += ebs_ones(blocks);
    c->s.replays += ebs_ones(blocks);
    r->need |= blocks;
    luna_rpc_list(c, r);
}

/* ---- Expiry ---- */

void luna_rpc_give_up(struct ebs_queue *q, struct ebs_rpc *rpc, int result)
{
    struct luna_rpc *r = SNIC_CONTAINER(rpc, struct luna_rpc, q);
    struct snic_luna *c = r->c;
    if (ebs_rpc_is_over(rpc))
        return;
    if (!rpc->sent || rpc->op == SNIC_EBS_IO_READ) {
        luna_rpc_end(q, rpc, result);
        return;
    }
    luna_rpc_take_back(c, r, r->out);
    r->busy = rpc->all & ~rpc->acked; /* its blocks are not sent any more */
    r->need = 0;
    ebs_rpc_fence(q, rpc, result);
    luna_rpc_list(c, r);
}

/* ---- The status of blocks ---- */

static void luna_rpc_park(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    (void)ebs_rpc_park(&c->q, &r->q);
    luna_rpc_again(c, r, blocks | r->busy);
    luna_rpc_list(c, r);
}

static void luna_rpc_refused(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks,
                             uint32_t status)
{
    int result = snic_ebs_status_error(status);
    /* A server that answers has finished the request; without another copy in flight no fence is
       needed. */
    if (!r->twice && r->out == blocks && r->q.where != EBS_RPC_PARKED)
        luna_rpc_end(&c->q, &r->q, result);
    else
        luna_rpc_give_up(&c->q, &r->q, result);
}

/* The blocks are sent again after @p retry_us. */
static void luna_rpc_later(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks,
                           uint32_t retry_us)
{
    if (r->q.where == EBS_RPC_PARKED) {
        luna_rpc_again(c, r, blocks);
        return;
    }
    luna_rpc_take_back(c, r, blocks);
    r->busy |= blocks;
    ebs_rpc_answered(&c->q, &r->q);
    luna_rpc_list(c, r);
    ebs_rpc_back_off(&c->q, &r->q, retry_us);
}

/* The data were damaged: send or read them again, up to WRONG times. */
void luna_rpc_wrong(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    uint64_t often = 0;
    c->s.data_crc++;
    r->summed &= ~blocks;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        uint32_t i = ebs_lowest(left);
        if (r->wrong[i] < SNIC_LUNA__WRONG)
            r->wrong[i]++;
        if (r->wrong[i] == SNIC_LUNA__WRONG)
            often |= ebs_bit(i);
    }
    if (often != 0 && r->q.op == SNIC_EBS_IO_READ) {
        luna_rpc_give_up(&c->q, &r->q, SNIC_ECORRUPT);
        return;
    }
    luna_rpc_again(c, r, blocks & ~often);
    if (often != 0)
        luna_rpc_later(c, r, often, 10000); /* a write is retried until its deadline */
}

/* The server needs the disk's token (again); then the blocks are sent again. */
static void luna_rpc_no_token(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks)
{
    struct ebs_disk *d = &c->q.disks[r->q.disk];
    uint32_t wait_us = d->token_wait_us;
    c->s.no_token++;
    if (!ebs_disk_has_token(d)) {
        ebs_disk_token_refused(&c->q, d);
        luna_rpc_refused(c, r, blocks, SNIC_EBS_FORBIDDEN);
        return;
    }
    luna_token_due(c, &c->servers[r->q.server].conns[r->conn], r->q.disk);
    ebs_disk_token_refused(&c->q, d);
    luna_rpc_later(c, r, blocks, wait_us);
}

/* @p blocks are out. The RPC may be over afterwards. */
void luna_rpc_status(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks, uint32_t status,
                     uint32_t retry_us)
{
    SNIC_ASSERT(blocks != 0 && (blocks & ~r->out) == 0);
    switch (ebs_rpc_verdict(&c->q, &r->q, status)) {
    case EBS_VERDICT_OVER:
        break;
    case EBS_VERDICT_DONE:
        luna_rpc_acked(c, r, blocks);
        break;
    case EBS_VERDICT_DAMAGED:
        luna_rpc_wrong(c, r, blocks);
        break;
    case EBS_VERDICT_BUSY:
        luna_rpc_later(c, r, blocks, retry_us);
        break;
    case EBS_VERDICT_MOVED:
        luna_rpc_park(c, r, blocks);
        break;
    case EBS_VERDICT_CONNECTION:
        luna_rpc_later(c, r, blocks, 1000);
        break;
    case EBS_VERDICT_NO_TOKEN:
        luna_rpc_no_token(c, r, blocks);
        break;
    case EBS_VERDICT_REFUSED:
    default:
        luna_rpc_refused(c, r, blocks, status);
        break;
    }
}

/* ---- Restart at another server ---- */

void luna_rpc_leave(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct luna_rpc *r = SNIC_CONTAINER(rpc, struct luna_rpc, q);
    uint64_t again = r->out | r->busy;
    luna_rpc_take_back(r->c, r, r->out);
    q->loads[rpc->server].backlog -= r->queued;
    r->queued = 0;
    r->turn++;
    r->summed = 0;
    memset(r->wrong, 0, sizeof(r->wrong)); /* they do not apply to another server */
    if (again == 0 || rpc->where == EBS_RPC_FENCING)
        return;
    r->twice = 1;
    if (r->tries < 255)
        r->tries++;
    rpc->io->retries += ebs_ones(again);
    r->c->s.replays += ebs_ones(again);
}

/* Send everything again that is not acknowledged. */
void luna_rpc_begin(struct ebs_queue *q, struct ebs_rpc *rpc)
{
    struct luna_rpc *r = SNIC_CONTAINER(rpc, struct luna_rpc, q);
    (void)q;
    r->busy = 0;
    r->need = rpc->all & ~rpc->acked;
    luna_rpc_list(r->c, r);
}
