/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory that connections share: blocks (blocks.c), slots (messages under way), parts (long
 * messages); who waits for which, and what happens when none makes progress.
 *
 * I1  A connection with fewer than slots_own slots always gets one; slots_common counts what is
 *     left of the others.
 * I2  A connection waits on at most one list, with the bit of that list in wait_for. It is woken
 *     by looking again: nothing is handed over, so nothing is lost with a connection that ends.
 * I3  While a connection waits for memory, or the host is not heard for want of it, the stall timer
 *     is armed.
 * I4  A slot that was freed last is taken first, and only when there is none the next that was
 *     never used: slots cost as much memory as was ever needed at once.
 * I5  mark_ns is when the connection last completed SNIC_DIRECTOR__PROGRESS bytes, received or
 *     sent, or began to hold memory. One that holds some and has not moved for stall_ms is a hog;
 *     where memory has been short for so long already, one that has not moved for an eighth of it.
 * I6  Host and engine work on `flight` bytes of messages and expected replies. A connection takes
 *     no message while it has as many of flight_bytes as are left, and a quantum: with N that want
 *     more, each has an (N + 1)th part. It is woken by its own replies, which it waits for.
 */
#include "director/director_priv.h"

/* ---- Waiting ---- */

void director_wait(struct snic_director_conn *c, struct snic_link *list, uint32_t why)
{
    snic_link_remove(&c->wait);
    snic_link_append(list, &c->wait);
    c->wait_for |= why;
    if (why != SNIC_DIRECTOR__WAIT_CHANNEL)
        director_stall_check(c->d);
}

/* Let everybody on @list look again. */
void director_wake(struct snic_director *d, struct snic_link *list, uint32_t why)
{
    (void)d;
    while (!snic_link_alone(list)) {
        struct snic_director_conn *c = SNIC_CONTAINER(list->next, struct snic_director_conn, wait);
        snic_link_remove(&c->wait);
        c->wait_for &= ~why;
        director_ready(c);
    }
}

/* ---- What a connection holds ---- */

/*
 * What @c may hold before it takes another message: however many others hold theirs and do not
 * move, some is left.
 */
uint64_t director_share(const struct snic_director_conn *c)
{
    const struct snic_director *d = c->d;
    /* Enough for short replies of those that hold nothing: hogs leave it alone. */
    uint64_t kept = snic_min_u64(2 * (uint64_t)d->opts.conns_max, d->blocks_count / 4);
    uint64_t rest = d->blocks_free > kept ? d->blocks_free - kept : 0;
    rest *= SNIC_DIRECTOR__BLOCK;
    if (d->total_bytes != 0)
        rest = snic_min_u64(rest, d->total_bytes > d->held ? d->total_bytes - d->held : 0);
    rest /= SNIC_DIRECTOR__SHARE;
    return snic_min_u64(c->d->opts.conn_bytes, snic_max_u64(rest, 2 * SNIC_DIRECTOR__BLOCK));
}

/* @c holds @bytes more. I5 */
void director_hold(struct snic_director_conn *c, uint64_t bytes)
{
    if (c->mem == 0) {
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(c->d->loop);
    }
    c->mem += bytes;
    c->d->held += c->kept ? 0 : bytes;
}

/* @c received or sent @bytes. I5 */
void director_moved(struct snic_director_conn *c, uint64_t bytes)
{
    c->progress += bytes;
    c->active_ns = snic_loop_now(c->d->loop);
    if (c->progress - c->mark >= SNIC_DIRECTOR__PROGRESS) {
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(c->d->loop);
    }
}

/* ---- Slots ---- */

int director_slot_room(const struct snic_director_conn *c)
{
    return c->pending < c->d->slots_own || c->d->slots_common > 0; /* I1 */
}

/* I6 */
int director_flight_full(const struct snic_director_conn *c)
{
    const struct snic_director *d = c->d;
    uint64_t rest = d->opts.flight_bytes > d->flight ? d->opts.flight_bytes - d->flight : 0;
    return c->flight >= snic_max_u64(rest, d->opts.quantum);
}

/* Host and engine have ended with the message of @s; a second call has no effect. */
void director_flight_end(struct director_slot *s)
{
    SNIC_DASSERT(s->conn->flight >= s->cost && s->conn->d->flight >= s->cost);
    s->conn->flight -= s->cost;
    s->conn->d->flight -= s->cost;
    if (s->unread)
        s->conn->d->unread_flight -= s->cost;
    s->unread = 0;
    s->cost = 0;
}

/* The caller has checked director_slot_room(). */
struct director_slot *director_slot_take(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct snic_node *n = snic_queue_pop(&d->slots_idle);
    struct director_slot *s;
    if (n != NULL) {
        s = (struct director_slot *)SNIC_CONTAINER(n, struct director_piece, node);
    } else { /* I4 */
        SNIC_ASSERT(d->slots_made < d->slots_count);
        s = &d->slots[d->slots_made++];
        memset(s, 0, sizeof(*s));
        snic_link_init(&s->link);
    }
    if (c->pending >= d->slots_own)
        d->slots_common--;
    c->pending++;
    d->slots_free--;
    s->conn = c;
    s->flags = 0;
    s->bytes = 0;
    s->sent = 0;
    s->cost = (uint64_t)c->msg_size + SNIC_DIRECTOR__MESSAGE_COST + c->reply;
    c->flight += s->cost;
    d->flight += s->cost;
    s->unread = (uint8_t)director_unread(c);
    d->unread_flight += s->unread ? s->cost : 0;
    s->user = c->user;
    s->job = NULL;
    s->state = DIRECTOR_SLOT_HOST;
    snic_link_append(&c->slots, &s->link);
    return s;
}

void director_slot_give(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    struct snic_director *d = c->d;
    SNIC_DASSERT(s->state != DIRECTOR_SLOT_FREE && s->job == NULL);
    SNIC_DASSERT(snic_queue_empty(&s->pieces));
    director_flight_end(s);
    snic_link_remove(&s->link);
    s->state = DIRECTOR_SLOT_FREE;
    s->gen++;
    s->conn = NULL;
    s->piece.node.next = d->slots_idle.first;
    if (d->slots_idle.first == NULL)
        d->slots_idle.last = &s->piece.node;
    d->slots_idle.first = &s->piece.node;
    d->slots_free++;
    c->pending--;
    if (c->pending >= d->slots_own) {
        d->slots_common++;
        if (!snic_link_alone(&d->wait_slot))
            director_wake(d, &d->wait_slot, SNIC_DIRECTOR__WAIT_SLOT);
    }
}

/* ---- Long messages ---- */

/* May a message have @n blocks of the area? However long it is, it leaves most to others. */
static int director_area_fair(const struct snic_director *d, uint32_t n)
{
    return (uint64_t)n * SNIC_DIRECTOR__BLOCK <= SNIC_DIRECTOR__AREA_OWN ||
           n <= d->parts.runs.free_blocks / SNIC_DIRECTOR__SHARE;
}

/* The block of the area that @c's part begins with. */
static uint32_t director_part_run(const struct snic_director_conn *c)
{
    return (uint32_t)((size_t)(c->part - c->d->parts.area) / SNIC_DIRECTOR__BLOCK);
}

/* Memory for a message of @want bytes or some more, in @cap and @kind; NULL: there is none. */
static unsigned char *director_part_find(struct snic_director_conn *c, uint32_t want, uint32_t *cap,
                                         uint8_t *kind)
{
    struct snic_director *d = c->d;
    uint64_t bytes = snic_max_u64(want, (uint64_t)c->part_cap + c->part_cap / 4);
    bytes = snic_min_u64(bytes, d->opts.message_max);
    uint32_t n = (uint32_t)(snic_align_up(bytes, SNIC_DIRECTOR__BLOCK) / SNIC_DIRECTOR__BLOCK);
    *cap = (uint32_t)snic_min_u64((uint64_t)n * SNIC_DIRECTOR__BLOCK, d->opts.message_max);
    *kind = DIRECTOR_PART_RUN;
    if (c->part != NULL && c->part_kind == DIRECTOR_PART_RUN && director_area_fair(d, n) &&
        base_runs_extend(&d->parts.runs, director_part_run(c), n))
        return c->part;
    uint32_t i = director_area_fair(d, n) ? base_runs_take(&d->parts.runs, n) : SNIC_RUNS__NONE;
    if (i != SNIC_RUNS__NONE)
        return d->parts.area + (size_t)i * SNIC_DIRECTOR__BLOCK;
    *cap = d->opts.message_max;
    *kind = DIRECTOR_PART_BUFFER;
    if (d->parts.idle_count == 0 || (d->parts.idle_count == 1 && want <= SNIC_DIRECTOR__AREA_OWN &&
                                     d->opts.message_max > SNIC_DIRECTOR__AREA_OWN))
        return NULL; /* the last one is for those that only fit there */
    d->parts.idle_count--;
    return (unsigned char *)snic_queue_pop(&d->parts.idle);
}

/*
 * Make room for @want bytes of the message being assembled, keeping its present bytes.
 * 1; 0 @c now waits; SNIC_EMSGSIZE no message may be so long.
 */
int director_part_grow(struct snic_director_conn *c, uint32_t want)
{
    struct snic_director *d = c->d;
    unsigned char *mem;
    uint32_t cap = SNIC_DIRECTOR__DATA;
    uint8_t kind = DIRECTOR_PART_BLOCK;
    if (want > d->message_max)
        return SNIC_EMSGSIZE;
    if (want <= SNIC_DIRECTOR__DATA) {
        struct director_block *b = director_block_take(c, SNIC_DIRECTOR__RESERVE);
        if (b == NULL) {
            director_wait(c, &d->wait_block, SNIC_DIRECTOR__WAIT_BLOCK);
            return 0;
        }
        mem = b->data;
    } else {
        mem = director_part_find(c, want, &cap, &kind);
        if (mem == NULL) {
            director_wait(c, &d->parts.waiters, SNIC_DIRECTOR__WAIT_PART);
            return 0;
        }
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(d->loop);
    }
    if (mem != c->part) {
        uint32_t size = c->part_size;
        if (size > 0)
            memcpy(mem, c->part, size);
        director_part_give(c);
        c->part = mem;
        c->part_size = size;
    }
    c->part_cap = cap;
    c->part_kind = kind;
    return 1;
}

void director_part_give(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (c->part == NULL)
        return;
    if (c->part_kind == DIRECTOR_PART_BLOCK) {
        director_block_give(c, SNIC_CONTAINER(c->part, struct director_block, data));
    } else {
        if (c->part_kind == DIRECTOR_PART_RUN) {
            base_runs_give(&d->parts.runs, director_part_run(c));
        } else {
            snic_queue_push(&d->parts.idle, (struct snic_node *)(void *)c->part);
            d->parts.idle_count++;
        }
        if (!snic_link_alone(&d->parts.waiters))
            director_wake(d, &d->parts.waiters, SNIC_DIRECTOR__WAIT_PART);
    }
    c->part = NULL;
    c->part_kind = DIRECTOR_PART_BLOCK;
    c->part_size = 0;
    c->part_cap = 0;
}

/* ---- Stalls ---- */

/* Does a connection, or the host, wait for another to free memory? */
static int director_stall_any(const struct snic_director *d)
{
    int any = d->stalled || !snic_link_alone(&d->wait_block) || !snic_link_alone(&d->wait_slot);
    any |= d->channel == NULL && !snic_queue_empty(&d->retry); /* it needs blocks */
    return any || !snic_link_alone(&d->parts.waiters);
}

/* What @c keeps from others. */
static uint64_t director_stall_held(const struct snic_director_conn *c)
{
    uint64_t part = c->part_kind != DIRECTOR_PART_BLOCK ? c->part_cap : 0;
    return c->mem + part + (uint64_t)c->pending * sizeof(struct director_slot);
}

/*
 * The hog that holds most, one that is kept only where there is no other; NULL: none, or one was
 * reset and its memory is still to come back.
 */
static struct snic_director_conn *director_stall_hog(struct snic_director *d)
{
    uint64_t now = snic_loop_now(d->loop);
    uint64_t stall_ns = (uint64_t)d->opts.stall_ms * 1000000;
    uint64_t grace = now - d->stall_since_ns >= stall_ns ? stall_ns / 8 : stall_ns;
    struct snic_director_conn *hog = NULL;
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->evicted && !c->dead)
            return NULL;
        if (c->dead || now - c->mark_ns < grace)
            continue;
        if (c->mem == 0 && c->part_kind == DIRECTOR_PART_BLOCK && snic_link_alone(&d->wait_slot))
            continue; /* it only waits, as the others do */
        if (director_stall_held(c) > 0 &&
            (hog == NULL || c->kept < hog->kept ||
             (c->kept == hog->kept && director_stall_held(c) > director_stall_held(hog))))
            hog = c;
    }
    return hog;
}

/*
 * I3. Memory ran out: the hog that holds most has to go, at once when there is one, and the next
 * when its memory does not suffice.
 */
void director_stall_check(struct snic_director *d)
{
    uint64_t now = snic_loop_now(d->loop);
    uint64_t stall_ns = (uint64_t)d->opts.stall_ms * 1000000;
    if (d->stall.armed || !director_stall_any(d))
        return;
    if (d->stall_since_ns == 0 || now - d->stall_last_ns > stall_ns)
        d->stall_since_ns = now;
    d->stall_last_ns = now;
    struct snic_director_conn *hog = director_stall_hog(d);
    if (hog != NULL) {
        hog->evicted = 1;
        d->stats.hog_resets++;
        director_conn_abort(hog);
    }
    snic_loop_arm(d->loop, &d->stall, now + snic_max_u64(stall_ns / 16, 1000000));
}

/* All hold more than total_bytes: who holds most has to go, unless one is going already. */
void director_total_check(struct snic_director *d)
{
    struct snic_director_conn *hog = NULL;
    if (d->total_bytes == 0 || d->held <= d->total_bytes)
        return;
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->evicted && !c->dead)
            return;
        if (!c->dead && !c->kept && c->mem > (hog != NULL ? hog->mem : 0))
            hog = c;
    }
    if (hog == NULL)
        return;
    hog->evicted = 1;
    d->stats.total_resets++;
    director_conn_abort(hog);
}

void director_stall_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    director_stall_check(SNIC_CONTAINER(t, struct snic_director, stall));
}
