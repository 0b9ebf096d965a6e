/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests: validated, and submitted to the disk. One of length 0, which the protocol leaves open
 * and for which no client is to be disconnected, is done at once if its offset is within the disk;
 * block status of length 0 is refused, for its answer cannot be empty.
 *
 * A connection's request does not wait for all that other connections have queued: the disk serves
 * requests in the order of submission, so few are submitted, and connections take turns.
 */
#include "nbd_priv.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_MAGIC 0x25609513u
enum { FLAG_FUA = 1, FLAG_NO_HOLE = 2, FLAG_DF = 4, FLAG_ONE = 8, FLAG_FAST = 16 };

static uint32_t request_large(const struct nbd_req *q)
{
    uint64_t length = q->type == NBD_CMD_FLUSH ? 0 : q->length;
    return length <= NBD_SMALL ? 0 : (uint32_t)snic_min_u64(length, NBD_LARGE_MOST);
}

/* A connection has no more small requests at the disk than are free: what waits for a server that
   is away leaves room for the others. */
static int request_fits(const struct nbd_export *x, const struct nbd_req *q)
{
    uint32_t bytes = request_large(q);
    if (bytes == 0)
        return q->c->small < NBD_SMALL_MOST - x->small;
    return x->large + bytes <= NBD_LARGE_MOST - q->c->large ||
           (q->c->large == 0 && x->large_count < NBD_LARGE_COUNT);
}

/* The first request of the lane whose turn it is, which is the first; NULL: none has one. */
static struct nbd_req *request_turn(struct snic_queue *lanes, const struct nbd_export *x)
{
    struct snic_node *first = lanes->first;
    while (lanes->first != NULL) {
        struct nbd_lane *l = SNIC_CONTAINER(lanes->first, struct nbd_lane, node);
        struct nbd_req *q = SNIC_CONTAINER(l->reqs.first, struct nbd_req, turn);
        if (request_fits(x, q))
            return q;
        snic_queue_push(lanes, snic_queue_pop(lanes));
        if (lanes->first == first)
            break;
    }
    return NULL;
}

static void request_count(struct nbd_req *q, int sign)
{
    struct nbd_export *x = q->c->x;
    uint32_t bytes = request_large(q), one = (uint32_t)sign;
    if (bytes == 0) {
        x->small += one;
        q->c->small += one;
    } else {
        x->large_count += one;
        x->large += one * bytes;
        q->c->large += one * bytes;
    }
}

/* The requests of one kind that have their turn. */
static void request_begin(struct nbd_export *x, int large)
{
    struct snic_queue *lanes = &x->lanes[large];
    struct nbd_req *q;
    while ((q = request_turn(lanes, x)) != NULL) {
        struct nbd_lane *l = &q->c->lanes[large];
        (void)snic_queue_pop(&l->reqs);
        (void)snic_queue_pop(lanes);
        if (!snic_queue_empty(&l->reqs))
            snic_queue_push(lanes, &l->node);
        request_count(q, 1);
        block_submit(&x->dev, &q->b);
    }
}

static void request_pump(struct nbd_export *x)
{
    x->again = 1;
    if (x->pumping) /* something is done at once: the one that pumps looks again */
        return;
    x->pumping = 1;
    while (x->again) {
        x->again = 0;
        request_begin(x, 1);
        request_begin(x, 0);
    }
    x->pumping = 0;
}

static void request_queue(struct nbd_req *q)
{
    int large = request_large(q) != 0;
    struct nbd_lane *l = &q->c->lanes[large];
    if (snic_queue_empty(&l->reqs))
        snic_queue_push(&q->c->x->lanes[large], &l->node);
    snic_queue_push(&l->reqs, &q->turn);
    request_pump(q->c->x);
}

static void request_block_done(struct block_req *b, int result)
{
    struct nbd_req *q = SNIC_CONTAINER(b, struct nbd_req, b);
    struct nbd_export *x = q->c->x;
    if (result != 0)
        ex_log(EX_DEBUG, "an I/O failed: %s", snic_strerror(result));
    request_count(q, -1);
    nbd_reply(q, result);
    request_pump(x);
}

/* The protocol's error for a range that is not within the disk. */
static int request_outside(uint16_t type)
{
    return type == NBD_CMD_WRITE || type == NBD_CMD_ZEROES ? SNIC_ENOSPC : SNIC_EINVAL;
}

static int request_judge(const struct nbd_conn *c, uint16_t flags, uint16_t type, uint64_t offset,
                         uint32_t length)
{
    static const uint16_t known[] = {[NBD_CMD_READ] = FLAG_FUA,
                                     [NBD_CMD_WRITE] = FLAG_FUA,
                                     [NBD_CMD_FLUSH] = FLAG_FUA,
                                     [NBD_CMD_TRIM] = FLAG_FUA,
                                     [NBD_CMD_CACHE] = FLAG_FUA,
                                     [NBD_CMD_ZEROES] = FLAG_FUA | FLAG_NO_HOLE | FLAG_FAST,
                                     [NBD_CMD_STATUS] = FLAG_FUA | FLAG_ONE};
    uint16_t more = type == NBD_CMD_READ && c->structured ? FLAG_DF : 0;
    if (type > NBD_CMD_STATUS || type == NBD_CMD_DISC ||
        (flags & ~(unsigned)(known[type] | more)) != 0)
        return SNIC_EINVAL;
    if (type == NBD_CMD_STATUS && (!c->status || length == 0))
        return SNIC_EINVAL;
    if (type == NBD_CMD_FLUSH)
        return offset == 0 && length == 0 ? 0 : SNIC_EINVAL;
    if (c->x->read_only &&
        (type == NBD_CMD_WRITE || type == NBD_CMD_TRIM || type == NBD_CMD_ZEROES))
        return SNIC_EPERM;
    if (type <= NBD_CMD_WRITE && length > NBD_REQUEST_MAX)
        return SNIC_EINVAL;
    if (offset > c->x->size || length > c->x->size - offset)
        return request_outside(type);
    return 0;
}

/* Bytes that it needs here. */
static uint64_t request_room(uint16_t type, uint32_t length, int result)
{
    if (type == NBD_CMD_WRITE)
        return length; /* they come, whatever becomes of them */
    if (result != 0 || length == 0)
        return 0;
    if (type == NBD_CMD_READ)
        return (uint64_t)length + 2 * BLOCK_BYTES;
    return type == NBD_CMD_STATUS ? nbd_status_room() : 0;
}

static void request_start(struct nbd_req *q)
{
    static const uint8_t ops[] = {[NBD_CMD_READ] = SNIC_IO_READ,
                                  [NBD_CMD_WRITE] = SNIC_IO_WRITE,
                                  [NBD_CMD_FLUSH] = SNIC_IO_FLUSH,
                                  [NBD_CMD_TRIM] = SNIC_IO_DISCARD,
                                  [NBD_CMD_ZEROES] = SNIC_IO_ZERO};
    /* Nothing has to be fetched for CACHE: what is read first is cached where it is stored. */
    if (q->type == NBD_CMD_CACHE || (q->length == 0 && q->type != NBD_CMD_FLUSH)) {
        nbd_reply(q, 0);
        return;
    }
    if (q->type == NBD_CMD_STATUS) {
        nbd_status_start(q);
        return;
    }
    q->b.op = ops[q->type];
    request_queue(q);
}

/* A request that is free, with all that is known of it. */
static struct nbd_req *request_take(struct nbd_conn *c, unsigned char *memory, uint64_t room)
{
    const unsigned char *h = c->in;
    struct nbd_req *q = c->free;
    c->free = q->next;
    c->inside++;
    c->bytes += room;
    memset(&q->b, 0, offsetof(struct block_req, edge));
    q->c = c;
    q->memory = memory;
    q->memory_size = room;
    memcpy(q->head + 8, h + 8, 8);
    q->type = snic_get_be16(h + 6);
    q->offset = snic_get_be64(h + 16);
    q->length = snic_get_be32(h + 24);
    q->one = (snic_get_be16(h + 4) & FLAG_ONE) != 0;
    q->b.done = request_block_done;
    q->b.data = memory;
    q->b.offset = q->offset;
    q->b.length = q->length;
    q->b.fua = (snic_get_be16(h + 4) & FLAG_FUA) != 0;
    return q;
}

void nbd_request(struct nbd_conn *c)
{
    const unsigned char *h = c->in;
    uint16_t flags = snic_get_be16(h + 4), type = snic_get_be16(h + 6);
    uint32_t length = snic_get_be32(h + 24);
    c->have = 0;
    if (snic_get_be32(h) != REQUEST_MAGIC) {
        nbd_end(c, "sent no valid request");
        return;
    }
    if (type == NBD_CMD_DISC) {
        nbd_end(c, NULL);
        return;
    }
    if (type == NBD_CMD_WRITE && length > NBD_REQUEST_MAX) { /* its data are not to be waited for */
        nbd_end(c, "sent a write larger than the maximum");
        return;
    }
    int result = request_judge(c, flags, type, snic_get_be64(h + 16), length);
    uint64_t room = request_room(type, length, result);
    unsigned char *memory = room != 0 ? malloc(room) : NULL;
    c->n->s.requests++;
    if (room != 0 && memory == NULL) {
        nbd_end(c, "cannot be served: out of memory");
        return;
    }
    struct nbd_req *q = request_take(c, memory, room);
    if (type == NBD_CMD_WRITE && length != 0) {
        q->b.step = result; /* until its data are here */
        c->now = q;
        c->state = NBD_PAYLOAD;
        c->want = length;
    } else if (result != 0) {
        nbd_reply(q, result);
    } else {
        request_start(q);
    }
}

void nbd_payload(struct nbd_conn *c)
{
    struct nbd_req *q = c->now;
    int result = q->b.step;
    c->now = NULL;
    c->have = 0;
    c->want = 28;
    c->state = NBD_REQUEST;
    if (result != 0)
        nbd_reply(q, result);
    else
        request_start(q);
}
