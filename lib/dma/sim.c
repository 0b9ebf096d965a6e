/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two nodes of a simulated world: nothing is mapped, bytes move in
 * pieces at different times, and whatever no flag orders happens in random order.
 *
 * A batch in flight is a state with a timer. Each firing picks one piece at
 * random among those that the flags allow, moves it, and arms the timer again;
 * so two batches, and two operations of a batch, interleave piece by piece.
 * Messages and doorbells arrive after a random delay, messages in sending order.
 *
 * Invariants
 *   X1 Operations below `base` of a state are over; at most WINDOW from base on
 *      have a cell with what is left of them.
 *   X2 Due times in an inbox never decrease, so messages keep their order; death is
 *      due last and delivered when inbox and bells are empty.
 *   X3 Both ends and their memory are freed with the second close: pieces of a
 *      survivor move into resting memory until its death event, then stop.
 */
#include <stdlib.h>

#include "dma/blocks.h"
#include "dma/dma_priv.h"

#define SNIC_DMA_SIM__SLOTS 64
#define SNIC_DMA_SIM__REGIONS 1024
#define SNIC_DMA_SIM__WINDOW 32
#define SNIC_DMA_SIM__PIECES 8

struct dma_sim_end;

/** What is left of an operation. */
struct dma_sim_cell {
    uint32_t left;   /* one bit per piece to be moved                    */
    uint32_t piece;  /* bytes per piece                                  */
    uint8_t begun;   /* left and piece are set                           */
    uint8_t over;    /* completed, failed or left out                    */
    uint8_t stopped; /* failed or left out                               */
};

struct dma_sim_state {
    struct snic_timer timer;
    struct snic_node node; /* on the free list */
    struct dma_sim_end *end;
    struct snic_dma_batch *batch; /* NULL: free */
    uint32_t base;                /* X1 */
    uint8_t base_stopped;         /* the operation before base failed or was left out */
    uint64_t until_ns;            /* its bytes are on the link until then */
    struct dma_sim_cell cells[SNIC_DMA_SIM__WINDOW];
};

struct dma_sim_msg {
    uint64_t due_ns;
    uint32_t size;
    unsigned char bytes[SNIC_DMA_MSG_MAX];
};

struct dma_sim_region {
    uint64_t key; /* 0: free */
    unsigned char *base;
    size_t size;
    uint32_t rights;
    uint32_t generation;
};

struct dma_sim_end {
    struct snic_dma dma;
    struct dma_sim_link *link;
    struct dma_sim_end *peer;
    struct dma_sim_state *states; /* depth of them */
    struct snic_queue unused;
    struct dma_block *blocks;
    struct snic_timer arrival;
    uint64_t bells;
    uint64_t bells_due_ns;
    uint64_t death_due_ns; /* SNIC_NEVER: the peer lives */
    enum snic_dma_death cause;
    int inside; /* delivering: close must not free under us */
    int closed;
    int killed;
    uint32_t head; /* inbox */
    uint32_t tail;
    struct dma_sim_msg inbox[SNIC_DMA_SIM__SLOTS];
    struct dma_sim_region regions[SNIC_DMA_SIM__REGIONS];
};

struct dma_sim_link {
    struct dma_sim_end ends[2];
    struct snic_dma_sim_opts opts;
    struct snic_rng *rng;
    uint64_t free_ns; /* the link's bytes per time: it is taken until then */
    int open;
};

static struct dma_sim_end *dma_sim_self(struct snic_dma *d)
{
    return (struct dma_sim_end *)(void *)d;
}

static uint64_t dma_sim_delay(struct dma_sim_end *e)
{
    const struct snic_dma_sim_opts *o = &e->link->opts;
    return o->delay_min_ns + snic_rng_below(e->link->rng, o->delay_max_ns - o->delay_min_ns + 1);
}

/* ---- Memory ---- */

static int dma_sim_alloc(struct snic_dma *d, size_t size, void **out)
{
    return dma_block_alloc(&dma_sim_self(d)->blocks, size, out);
}

static void dma_sim_release(struct snic_dma *d, void *mem)
{
    dma_block_release(dma_sim_self(d)->blocks, mem); /* X3 */
}

static int dma_sim_register(struct snic_dma *d, void *mem, size_t size, uint32_t rights,
                            uint64_t *key)
{
    struct dma_sim_end *e = dma_sim_self(d);
    if (size == 0 || rights == 0 || (rights & ~SNIC_DMA__RIGHTS) != 0)
        return SNIC_EINVAL;
    if (!dma_block_holds(e->blocks, mem, size))
        return SNIC_EFAULT;
    for (uint32_t i = 0; i < SNIC_DMA_SIM__REGIONS; i++) {
        struct dma_sim_region *r = &e->regions[i];
        if (r->key != 0)
            continue;
        r->base = mem;
        r->size = size;
        r->rights = rights;
        r->key = ((uint64_t)++r->generation << 16) | i;
        *key = r->key;
        return 0;
    }
    return SNIC_ENOMEM;
}

static void dma_sim_unregister(struct snic_dma *d, uint64_t key)
{
    struct dma_sim_end *e = dma_sim_self(d);
    uint32_t i = (uint32_t)(key & 0xffff);
    SNIC_ASSERT(i < SNIC_DMA_SIM__REGIONS && e->regions[i].key == key);
    e->regions[i].key = 0;
}

static int dma_sim_map(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size, void **out)
{
    (void)d;
    (void)key;
    (void)offset;
    (void)size;
    (void)out;
    return SNIC_ENOTSUP;
}

static int dma_sim_resolve(struct snic_dma *d, const struct snic_dma_op *op, unsigned char **at)
{
    uint32_t i = (uint32_t)(op->key & 0xffff);
    const struct dma_sim_region *r = &dma_sim_self(d)->peer->regions[i % SNIC_DMA_SIM__REGIONS];
    if (op->key == 0 || i >= SNIC_DMA_SIM__REGIONS || r->key != op->key ||
        (dma_op_right(op) & ~r->rights) != 0 || op->offset > r->size ||
        op->length > r->size - op->offset)
        return SNIC_EFAULT;
    *at = r->base + op->offset;
    return dma_op_is_atomic(op) && ((uintptr_t)*at & 7) != 0 ? SNIC_EINVAL : 0;
}

/* ---- Pieces ---- */

static struct dma_sim_cell *dma_sim_cell_of(struct dma_sim_state *s, uint32_t i)
{
    return &s->cells[i % SNIC_DMA_SIM__WINDOW];
}

/** Did the operation before @p i fail, or was it left out? Only called when it is over. */
static int dma_sim_stopped_before(struct dma_sim_state *s, uint32_t i)
{
    return i == s->base ? s->base_stopped : dma_sim_cell_of(s, i - 1)->stopped;
}

static void dma_sim_over(struct dma_sim_state *s, uint32_t i, int result)
{
    struct dma_sim_cell *c = dma_sim_cell_of(s, i);
    struct snic_dma_batch *b = s->batch;
    c->over = 1;
    c->stopped = result != 0;
    if (result != 0 && result != SNIC_ECANCELED && (b->result == 0 || i < b->failed)) {
        b->result = result;
        b->failed = i;
    }
    while (s->base < b->count && dma_sim_cell_of(s, s->base)->over) {
        struct dma_sim_cell *o = dma_sim_cell_of(s, s->base);
        s->base_stopped = o->stopped;
        memset(o, 0, sizeof(*o));
        s->base++;
    }
}

/** May operation @p i move a piece now? Settles those that are to be left out. */
static int dma_sim_eligible(struct dma_sim_state *s, uint32_t i)
{
    const struct snic_dma_op *op = &s->batch->ops[i];
    struct dma_sim_cell *c = dma_sim_cell_of(s, i);
    if (c->over)
        return 0;
    if (c->begun)
        return 1;
    if ((op->flags & SNIC_DMA_FENCE) != 0 && i != s->base)
        return 0;
    if ((op->flags & SNIC_DMA_ORDERED) != 0 && i != s->base && !dma_sim_cell_of(s, i - 1)->over)
        return 0;
    if (((op->flags & SNIC_DMA_ORDERED) != 0 && dma_sim_stopped_before(s, i)) ||
        ((op->flags & SNIC_DMA_FENCE) != 0 && s->batch->result != 0)) {
        dma_sim_over(s, i, SNIC_ECANCELED);
        return 0;
    }
    return 1;
}

static int dma_sim_begin(struct dma_sim_state *s, struct snic_dma_op *op, struct dma_sim_cell *c)
{
    uint32_t chunk = s->end->link->opts.chunk;
    int r = dma_op_check(op, s->end->dma.caps);
    if (r != 0)
        return r;
    /* No piece is smaller than a chunk, and no operation has more than PIECES of them. */
    uint64_t piece = (op->length + SNIC_DMA_SIM__PIECES - 1) / SNIC_DMA_SIM__PIECES;
    piece = snic_max_u64(snic_align_up(piece, chunk), chunk);
    uint64_t pieces = snic_max_u64((op->length + piece - 1) / piece, 1);
    c->piece = (uint32_t)snic_min_u64(piece, UINT32_MAX);
    c->left = (1U << pieces) - 1;
    c->begun = 1;
    dma_op_count(&s->end->dma, op);
    return 0;
}

static uint32_t dma_sim_pick(struct dma_sim_state *s, const struct snic_dma_op *op, uint32_t left)
{
    uint32_t skip = 0;
    if (op->kind != SNIC_DMA_READ || (s->end->dma.caps & SNIC_DMA_CAP_ORDERED_READ) == 0)
        skip = (uint32_t)snic_rng_below(s->end->link->rng, (uint64_t)__builtin_popcount(left));
    for (; skip > 0; skip--)
        left &= left - 1;
    return (uint32_t)__builtin_ctz(left);
}

/** @p size bytes take the link, if they take time at all. */
static void dma_sim_take(struct dma_sim_state *s, size_t size)
{
    struct dma_sim_link *link = s->end->link;
    if (link->opts.bytes_per_us == 0)
        return;
    link->free_ns = snic_max_u64(link->free_ns, snic_loop_now(s->end->dma.loop)) +
                    size * UINT64_C(1000) / link->opts.bytes_per_us;
    s->until_ns = link->free_ns;
}

/** Move one piece of operation @p i. */
static void dma_sim_move(struct dma_sim_state *s, uint32_t i)
{
    struct snic_dma_op *op = &s->batch->ops[i];
    struct dma_sim_cell *c = dma_sim_cell_of(s, i);
    unsigned char *at = NULL;
    int r = c->begun ? 0 : dma_sim_begin(s, op, c);
    if (r == 0)
        r = dma_sim_resolve(&s->end->dma, op, &at);
    if (r != 0) {
        dma_sim_over(s, i, r);
        return;
    }
    uint32_t k = dma_sim_pick(s, op, c->left);
    uint64_t from = (uint64_t)k * c->piece;
    size_t size = (size_t)snic_min_u64(c->piece, op->length - from);
    if (op->kind == SNIC_DMA_READ)
        dma_copy_read((unsigned char *)op->local + from, at + from, size);
    else if (op->kind == SNIC_DMA_WRITE)
        dma_copy_write(at + from, (const unsigned char *)op->local + from, size);
    else
        dma_op_atomic(op, at);
    dma_sim_take(s, size);
    c->left &= ~(1U << k);
    if (c->left == 0)
        dma_sim_over(s, i, 0);
}

/** Move one piece chosen at random. 0 when the batch is complete. */
static int dma_sim_step(struct dma_sim_state *s)
{
    struct snic_dma_batch *b = s->batch;
    for (;;) {
        uint32_t base = s->base;
        uint32_t can[SNIC_DMA_SIM__WINDOW];
        uint32_t n = 0;
        for (uint32_t i = base; i < b->count && i - base < SNIC_DMA_SIM__WINDOW && s->base == base;
             i++)
            if (dma_sim_eligible(s, i))
                can[n++] = i;
        if (s->base != base)
            continue; /* something was left out: the window moved */
        if (base == b->count)
            return 0;
        SNIC_ASSERT(n > 0); /* the oldest operation waits for nothing */
        dma_sim_move(s, can[snic_rng_below(s->end->link->rng, n)]);
        return s->base < b->count;
    }
}

/* ---- Batches ---- */

static void dma_sim_finish(struct dma_sim_state *s)
{
    struct dma_sim_end *e = s->end;
    struct snic_dma_batch *b = s->batch;
    snic_loop_cancel(e->dma.loop, &s->timer);
    s->batch = NULL;
    snic_queue_push(&e->unused, &s->node);
    dma_batch_deliver(&e->dma, b);
}

static void dma_sim_free(struct dma_sim_link *link);

/** Leave a callback of @p e; frees the link if it was closed in between. */
static void dma_sim_leave(struct dma_sim_end *e)
{
    e->inside--;
    if (e->inside == 0 && e->closed && --e->link->open == 0)
        dma_sim_free(e->link);
}

static void dma_sim_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct dma_sim_state *s = SNIC_CONTAINER(t, struct dma_sim_state, timer);
    struct dma_sim_end *e = s->end;
    if (s->base < s->batch->count && dma_sim_step(s)) {
        uint64_t wait = dma_sim_delay(e) / SNIC_DMA_SIM__PIECES + 1;
        snic_loop_arm(e->dma.loop, t, snic_max_u64(now_ns + wait, s->until_ns));
        return;
    }
    if (s->until_ns > now_ns) {
        snic_loop_arm(e->dma.loop, t, s->until_ns);
        return;
    }
    e->inside++;
    dma_sim_finish(s);
    dma_sim_leave(e);
}

static int dma_sim_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    struct dma_sim_end *e = dma_sim_self(d);
    if (d->dead || e->closed || e->killed)
        return SNIC_EPEERDEAD;
    uint32_t i = 0;
    for (; i < n && !snic_queue_empty(&e->unused); i++) {
        struct snic_node *node = snic_queue_pop(&e->unused);
        struct dma_sim_state *s = SNIC_CONTAINER(node, struct dma_sim_state, node);
        s->batch = b[i];
        s->base = 0;
        s->base_stopped = 0;
        s->until_ns = 0;
        memset(s->cells, 0, sizeof(s->cells));
        b[i]->result = 0;
        b[i]->failed = 0;
        snic_loop_arm(d->loop, &s->timer, snic_loop_now(d->loop) + dma_sim_delay(e));
    }
    d->stats.submitted += i;
    d->stats.queue_high =
        snic_max_u64(d->stats.queue_high, d->stats.submitted - d->stats.completed);
    return (int)i;
}

/* ---- Messages, doorbells, death ---- */

static void dma_sim_arm(struct dma_sim_end *e)
{
    uint64_t due = e->death_due_ns;
    if (e->head != e->tail)
        due = snic_min_u64(due, e->inbox[e->head % SNIC_DMA_SIM__SLOTS].due_ns);
    if (e->bells != 0)
        due = snic_min_u64(due, e->bells_due_ns);
    if (due != SNIC_NEVER && !e->closed && !e->killed && !e->dma.dead)
        snic_loop_arm(e->dma.loop, &e->arrival, due);
}

static int dma_sim_gone(const struct dma_sim_end *e)
{
    return e->closed || e->killed;
}

static int dma_sim_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    struct dma_sim_end *e = dma_sim_self(d);
    struct dma_sim_end *p = e->peer;
    if (size == 0 || size > SNIC_DMA_MSG_MAX)
        return SNIC_EMSGSIZE;
    if (d->dead || dma_sim_gone(e) || dma_sim_gone(p))
        return SNIC_EPEERDEAD;
    if (p->tail - p->head == SNIC_DMA_SIM__SLOTS)
        return 0;
    struct dma_sim_msg *m = &p->inbox[p->tail % SNIC_DMA_SIM__SLOTS];
    m->due_ns = snic_loop_now(d->loop) + dma_sim_delay(e);
    if (p->tail != p->head) /* X2 */
        m->due_ns = snic_max_u64(m->due_ns, p->inbox[(p->tail - 1) % SNIC_DMA_SIM__SLOTS].due_ns);
    m->size = size;
    memcpy(m->bytes, msg, size);
    p->tail++;
    d->stats.messages_sent++;
    dma_sim_arm(p);
    return 1;
}

static int dma_sim_ring(struct snic_dma *d, uint32_t id)
{
    struct dma_sim_end *e = dma_sim_self(d);
    struct dma_sim_end *p = e->peer;
    if (id >= SNIC_DMA_DOORBELLS)
        return SNIC_EINVAL;
    if (dma_sim_gone(e) || dma_sim_gone(p))
        return SNIC_EPEERDEAD;
    if (p->bells == 0)
        p->bells_due_ns = snic_loop_now(d->loop) + dma_sim_delay(e);
    p->bells |= UINT64_C(1) << id;
    d->stats.doorbells_sent++;
    dma_sim_arm(p);
    return 0;
}

static void dma_sim_die(struct dma_sim_end *e)
{
    for (uint32_t i = 0; i < e->link->opts.depth && !e->closed; i++) {
        struct dma_sim_state *s = &e->states[i];
        if (s->batch == NULL)
            continue;
        s->batch->result = SNIC_EPEERDEAD;
        s->batch->failed = s->base;
        dma_sim_finish(s);
    }
    if (e->dma.events.death != NULL && !e->closed)
        e->dma.events.death(e->dma.events.ctx, &e->dma, e->cause);
}

static void dma_sim_arrive(struct snic_timer *t, uint64_t now_ns)
{
    struct dma_sim_end *e = SNIC_CONTAINER(t, struct dma_sim_end, arrival);
    e->inside++;
    while (e->head != e->tail && !dma_sim_gone(e) &&
           e->inbox[e->head % SNIC_DMA_SIM__SLOTS].due_ns <= now_ns) {
        struct dma_sim_msg m = e->inbox[e->head++ % SNIC_DMA_SIM__SLOTS];
        e->dma.stats.messages_received++;
        if (e->dma.events.recv != NULL)
            e->dma.events.recv(e->dma.events.ctx, &e->dma, m.bytes, m.size);
    }
    if (e->bells != 0 && e->bells_due_ns <= now_ns) {
        uint64_t bells = e->bells;
        e->bells = 0;
        for (; bells != 0 && !dma_sim_gone(e); bells &= bells - 1) {
            e->dma.stats.doorbells_received++;
            if (e->dma.events.doorbell != NULL)
                e->dma.events.doorbell(e->dma.events.ctx, &e->dma,
                                       (uint32_t)__builtin_ctzll(bells));
        }
    }
    if (e->death_due_ns <= now_ns && e->head == e->tail && e->bells == 0 && !dma_sim_gone(e)) {
        e->dma.dead = 1;
        dma_sim_die(e);
    }
    if (!dma_sim_gone(e))
        dma_sim_arm(e);
    dma_sim_leave(e);
}

/** Notify the peer of @p e that it is gone, after all that it sent has arrived. */
static void dma_sim_announce(struct dma_sim_end *e, enum snic_dma_death cause)
{
    struct dma_sim_end *p = e->peer;
    if (dma_sim_gone(p) || p->death_due_ns != SNIC_NEVER)
        return;
    p->cause = cause;
    p->death_due_ns = snic_loop_now(e->dma.loop) + dma_sim_delay(e);
    if (p->tail != p->head) /* X2 */
        p->death_due_ns =
            snic_max_u64(p->death_due_ns, p->inbox[(p->tail - 1) % SNIC_DMA_SIM__SLOTS].due_ns);
    if (p->bells != 0)
        p->death_due_ns = snic_max_u64(p->death_due_ns, p->bells_due_ns);
    dma_sim_arm(p);
}

void snic_dma_sim_kill(struct snic_dma *d)
{
    struct dma_sim_end *e = dma_sim_self(d);
    if (dma_sim_gone(e))
        return;
    e->killed = 1;
    snic_loop_cancel(d->loop, &e->arrival);
    for (uint32_t i = 0; i < e->link->opts.depth; i++)
        snic_loop_cancel(d->loop, &e->states[i].timer);
    dma_sim_announce(e, SNIC_DMA_DEATH_EXIT);
}

/* ---- Open and close ---- */

static void dma_sim_free(struct dma_sim_link *link)
{
    for (int i = 0; i < 2; i++) {
        dma_block_free(link->ends[i].blocks);
        free(link->ends[i].states);
    }
    free(link);
}

static void dma_sim_close(struct snic_dma *d)
{
    struct dma_sim_end *e = dma_sim_self(d);
    SNIC_ASSERT(!e->closed);
    e->inside++;
    e->closed = 1;
    for (uint32_t i = 0; i < e->link->opts.depth; i++) {
        struct dma_sim_state *s = &e->states[i];
        if (s->batch == NULL)
            continue;
        if (e->killed) {
            s->batch->result = SNIC_EPEERDEAD;
            s->batch->failed = s->base;
        } else {
            while (s->base < s->batch->count && dma_sim_step(s)) {
            }
        }
        dma_sim_finish(s);
    }
    snic_loop_cancel(d->loop, &e->arrival);
    dma_sim_announce(e, e->killed ? SNIC_DMA_DEATH_EXIT : SNIC_DMA_DEATH_CLOSED);
    dma_sim_leave(e);
}

static const struct snic_dma_ops dma_sim_ops = {
    .ops_size = sizeof(struct snic_dma_ops),
    .name = "sim",
    .alloc = dma_sim_alloc,
    .release = dma_sim_release,
    .register_ = dma_sim_register,
    .unregister = dma_sim_unregister,
    .map = dma_sim_map,
    .submit = dma_sim_submit,
    .send = dma_sim_send,
    .ring = dma_sim_ring,
    .close = dma_sim_close,
};

static void dma_sim_end_init(struct dma_sim_link *link, int i, struct snic_loop *loop,
                             const struct snic_dma_events *events)
{
    struct dma_sim_end *e = &link->ends[i];
    e->dma.ops = &dma_sim_ops;
    e->dma.loop = loop;
    e->dma.events = *events;
    e->dma.caps = link->opts.caps;
    e->link = link;
    e->peer = &link->ends[1 - i];
    e->death_due_ns = SNIC_NEVER;
    snic_timer_init(&e->arrival, dma_sim_arrive);
    for (uint32_t k = 0; k < link->opts.depth; k++) {
        snic_timer_init(&e->states[k].timer, dma_sim_fire);
        e->states[k].end = e;
        snic_queue_push(&e->unused, &e->states[k].node);
    }
}

static int dma_sim_opts_check(struct snic_dma_sim_opts *o, const struct snic_dma_sim_opts *opts)
{
    *o = (struct snic_dma_sim_opts){.opts_size = sizeof(*o),
                                    .caps = SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC};
    int r = opts != NULL ? snic_opts_copy(o, sizeof(*o), opts) : 0;
    if (r != 0)
        return r;
    if (o->delay_max_ns == 0) {
        o->delay_max_ns = snic_max_u64(o->delay_min_ns, 2000);
        o->delay_min_ns = o->delay_min_ns == 0 ? 500 : o->delay_min_ns;
    }
    o->chunk = o->chunk == 0 ? 64 : o->chunk;
    o->depth = o->depth == 0 ? 256 : o->depth;
    if ((o->caps & ~(SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC)) != 0 ||
        !snic_is_pow2(o->chunk) || o->chunk < 8 || o->chunk > (1U << 30) || o->depth > 65536 ||
        o->delay_max_ns < o->delay_min_ns || o->delay_max_ns > UINT64_C(1) << 60 ||
        o->bytes_per_us > UINT64_C(1) << 40)
        return SNIC_EINVAL;
    return 0;
}

int snic_dma_sim_open(struct snic_dma **host, struct snic_loop *host_loop,
                      const struct snic_dma_events *host_events, struct snic_dma **dpu,
                      struct snic_loop *dpu_loop, const struct snic_dma_events *dpu_events,
                      const struct snic_dma_sim_opts *opts)
{
    struct snic_dma_sim_opts o;
    int r = dma_sim_opts_check(&o, opts);
    if (r != 0)
        return r;
    struct snic_world *w = snic_loop_world(host_loop);
    if (w == NULL || w != snic_loop_world(dpu_loop) || host_loop == dpu_loop)
        return SNIC_EINVAL;
    struct dma_sim_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return SNIC_ENOMEM;
    link->opts = o;
    link->rng = snic_world_rng(w);
    link->open = 2;
    link->ends[0].states = calloc(o.depth, sizeof(struct dma_sim_state));
    link->ends[1].states = calloc(o.depth, sizeof(struct dma_sim_state));
    if (link->ends[0].states == NULL || link->ends[1].states == NULL) {
        dma_sim_free(link);
        return SNIC_ENOMEM;
    }
    dma_sim_end_init(link, 0, host_loop, host_events);
    dma_sim_end_init(link, 1, dpu_loop, dpu_events);
    *host = &link->ends[0].dma;
    *dpu = &link->ends[1].dma;
    return 0;
}
