/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A path: the transmissions in flight on it, when they count as lost, and whether the path works.
 *
 * Every transmission has a number of its own (I1), and an answer has the number of its
 * transmission: so RTT samples are unambiguous, and a late answer to a transmission declared lost
 * is detected; then the path tolerates more reordering from there on (a store may answer in another
 * order than that of the requests, too).
 *
 * Numbers continue when the socket is replaced: an answer to the old socket matches nothing.
 */
#include "solar/solar_priv.h"

/* How long a packet sent at @p since_ns has been waiting, without the owner's delays (stalls). */
uint64_t solar_waited(const struct snic_solar *c, uint64_t since_ns)
{
    uint64_t waited = c->q.now_ns > since_ns ? c->q.now_ns - since_ns : 0;
    if (since_ns < c->stall_to_ns)
        waited -= c->stall_to_ns - snic_max_u64(since_ns, c->stall_from_ns);
    return waited;
}

/* The inverse: when a packet sent at @p since_ns will have waited @p ns. */
static uint64_t solar_path_due(const struct snic_solar *c, uint64_t since_ns, uint64_t ns)
{
    if (since_ns < c->stall_to_ns)
        ns += c->stall_to_ns - snic_max_u64(since_ns, c->stall_from_ns);
    return since_ns + ns;
}

/* ---- The ring ---- */

static struct solar_tx *solar_path_at(struct solar_path *p, uint32_t seq)
{
    return &p->ring[seq % SNIC_SOLAR__RING];
}

struct solar_tx *solar_path_find(struct solar_path *p, uint32_t seq)
{
    struct solar_tx *x = solar_path_at(p, seq);
    if (seq - p->una >= p->next_seq - p->una || x->kind == SOLAR_TX_NONE || x->seq != seq)
        return NULL;
    return x;
}

struct solar_tx *solar_path_push(struct snic_solar *c, struct solar_path *p, uint32_t kind,
                                 uint32_t weight)
{
    SNIC_ASSERT(p->next_seq - p->una < SNIC_SOLAR__RING);
    struct solar_tx *x = solar_path_at(p, p->next_seq);
    memset(x, 0, sizeof(*x));
    x->sent_ns = c->q.now_ns;
    x->seq = p->next_seq++;
    x->kind = (uint8_t)kind;
    x->weight = (uint8_t)weight;
    p->inflight += weight;
    if (kind == SOLAR_TX_WRITE)
        c->servers[p->server].write_out += weight;
    solar_server_expect(c, &c->servers[p->server]);
    if (kind != SOLAR_TX_PROBE) {
        p->last_sent_ns = c->q.now_ns;
        p->tail_done = 0;
    }
    p->sent++;
    return x;
}

void solar_path_release(struct snic_solar *c, struct solar_path *p, struct solar_tx *x)
{
    p->inflight -= x->weight;
    if (x->kind == SOLAR_TX_WRITE)
        c->servers[p->server].write_out -= x->weight;
    x->kind = SOLAR_TX_NONE;
    x->weight = 0;
    while (p->una != p->next_seq && solar_path_at(p, p->una)->kind == SOLAR_TX_NONE)
        p->una++;
    c->q.dirty = 1;
}

/* @p x is lost: its blocks of which no later copy is in flight are to be sent again. */
static void solar_path_lose(struct snic_solar *c, struct solar_path *p, struct solar_tx *x)
{
    struct solar_rpc *r = x->kind == SOLAR_TX_PROBE ? NULL : solar_rpc_find(c, x->rpc_id);
    uint64_t blocks = 0;
    if (x->kind != SOLAR_TX_PROBE)
        p->lost++;
    if (r != NULL && r->q.server != p->server) /* moved: it was restarted there */
        r = NULL;
    if (r != NULL && x->kind == SOLAR_TX_WRITE)
        blocks = ebs_bit(x->pkt);
    else if (r != NULL)
        blocks = x->need;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        const struct solar_blk *b = &r->b[ebs_lowest(left)];
        if (b->path != p->index || b->seq != x->seq)
            blocks &= ~ebs_bit(ebs_lowest(left));
    }
    solar_path_release(c, p, x);
    if (blocks != 0)
        solar_rpc_again(c, r, blocks);
}

void solar_path_drop_all(struct snic_solar *c, struct solar_path *p)
{
    while (p->una != p->next_seq)
        solar_path_lose(c, p, solar_path_at(p, p->una));
}

/* 1: the server has it in progress, by its last report: it is not lost. */
static int solar_path_holds(const struct snic_solar *c, const struct solar_path *p,
                            const struct solar_tx *x)
{
    return x->held_ns != 0 && solar_waited(c, x->held_ns) < p->rto_ns;
}

void solar_path_held(struct snic_solar *c, struct solar_path *p, const struct solar_tx *x,
                     const struct snic_ebs_probe *held)
{
    p->held = 0;
    for (uint32_t seq = p->una; seq != x->seq; seq++) {
        struct solar_tx *old = solar_path_at(p, seq);
        if (old->kind == SOLAR_TX_NONE || old->kind == SOLAR_TX_PROBE ||
            held->held_seq - seq >= 256 || (held->held[seq % 256 / 64] >> seq % 64 & 1) == 0)
            continue;
        old->held_ns = c->q.now_ns;
        p->held = 1;
    }
}

/* An ASK with some answers waits for the rest until later ones on the path overtake them. */
static int solar_path_overtaken(const struct solar_path *p, const struct solar_tx *old,
                                const struct solar_tx *x)
{
    if (old->kind == SOLAR_TX_READ && old->any)
        return (int32_t)(p->srv_seq - old->last_in) > (int32_t)(ebs_ones(old->need) + p->reorder);
    return x->seq - old->seq >= p->reorder ||
           old->sent_ns + p->srtt_ns / 4 * p->reorder / SNIC_SOLAR__REORDER < x->sent_ns;
}

/* @p x was answered: older ones on this path beyond the reordering are lost; other paths' not. */
void solar_path_lose_before(struct snic_solar *c, struct solar_path *p, const struct solar_tx *x)
{
    struct solar_tx answered = *x;
    int any = 0;
    for (uint32_t seq = p->una; (int32_t)(seq - answered.seq) < 0; seq++) {
        struct solar_tx *old = solar_path_at(p, seq);
        if (old->kind == SOLAR_TX_NONE || old->kind == SOLAR_TX_PROBE ||
            solar_path_holds(c, p, old))
            continue;
        if (!solar_path_overtaken(p, old, &answered))
            break;
        solar_path_lose(c, p, old);
        any = 1;
    }
    if (any)
        solar_cc_loss(c, p);
}

/* ---- Time ---- */

void solar_path_rtt(struct snic_solar *c, struct solar_path *p, uint64_t rtt_ns)
{
    if (rtt_ns > 4000 * SNIC_SOLAR__MS)
        return;
    rtt_ns = snic_max_u64(rtt_ns, 1);
    if (p->srtt_ns == 0) {
        p->srtt_ns = rtt_ns;
        p->var_ns = rtt_ns / 2;
        p->min_rtt_ns = rtt_ns;
        p->min_rtt_at_ns = c->q.now_ns;
    } else {
        uint64_t off = rtt_ns > p->srtt_ns ? rtt_ns - p->srtt_ns : p->srtt_ns - rtt_ns;
        p->var_ns = p->var_ns - p->var_ns / 4 + off / 4;
        p->srtt_ns = snic_max_u64(p->srtt_ns - p->srtt_ns / 8 + rtt_ns / 8, 1);
    }
    if (rtt_ns <= p->min_rtt_ns || c->q.now_ns - p->min_rtt_at_ns > 10000 * SNIC_SOLAR__MS) {
        p->min_rtt_ns = rtt_ns;
        p->min_rtt_at_ns = c->q.now_ns;
    }
    p->rto_ns =
        snic_min_u64(snic_max_u64(p->srtt_ns + 4 * p->var_ns, c->o.rto_min_ns), c->o.rto_max_ns);
    c->servers[p->server].rto_ns = p->rto_ns;
    p->rto_ns = snic_max_u64(p->rto_ns, solar_server_late(c, &c->servers[p->server]));
}

static uint64_t solar_path_tail_ns(const struct solar_path *p)
{
    return snic_max_u64(2 * p->srtt_ns, p->srtt_ns + 4 * p->var_ns);
}

static int solar_path_has_tail(struct solar_path *p)
{
    const struct solar_tx *x = solar_path_at(p, p->next_seq - 1);
    return p->una != p->next_seq && !p->tail_done && p->srtt_ns != 0 &&
           (x->kind == SOLAR_TX_WRITE || x->kind == SOLAR_TX_READ);
}

/* When the first of them counts as lost. They are in the order of sending, except for those that
   the server has reported as held. */
static uint64_t solar_path_oldest(const struct snic_solar *c, struct solar_path *p)
{
    uint64_t due = SNIC_NEVER;
    for (uint32_t seq = p->una; seq != p->next_seq; seq++) {
        const struct solar_tx *x = solar_path_at(p, seq);
        if (x->kind == SOLAR_TX_NONE)
            continue;
        uint64_t since = snic_max_u64(x->sent_ns, x->held_ns);
        due = snic_min_u64(due, solar_path_due(c, since, p->rto_ns));
        if (!p->held || x->held_ns == 0)
            break;
    }
    return due;
}

/* Halfway to a timeout a small PROBE queries whether the server has the oldest; and again halfway
   to the next timeout, as long as it has. */
static uint64_t solar_path_curious(const struct snic_solar *c, struct solar_path *p)
{
    const struct solar_tx *x = solar_path_at(p, p->una);
    if (x->kind == SOLAR_TX_PROBE || p->state < SNIC_SOLAR_ALIVE)
        return SNIC_NEVER;
    uint64_t since = snic_max_u64(x->sent_ns, x->held_ns);
    if (p->queried == p->una && p->queried_ns >= since)
        return SNIC_NEVER;
    return solar_path_due(c, since, p->rto_ns / 2);
}

static uint64_t solar_path_deadline(struct snic_solar *c, struct solar_path *p)
{
    uint64_t due = SNIC_NEVER;
    if (p->state == SNIC_SOLAR_CLOSED)
        return due;
    if (p->state == SNIC_SOLAR_OPENING)
        return p->reopen_ns;
    if (p->una != p->next_seq)
        due = snic_min_u64(solar_path_oldest(c, p), solar_path_curious(c, p));
    if (solar_path_has_tail(p))
        due = snic_min_u64(due, solar_path_due(c, p->last_sent_ns, solar_path_tail_ns(p)));
    due = snic_min_u64(due, p->probe_ns);
    if (p->paced)
        due = snic_min_u64(due, p->pace_ns);
    return due;
}

/* A timer that is armed too early stays: it fires, finds nothing to do and is armed again. */
void solar_path_arm(struct snic_solar *c, struct solar_path *p)
{
    uint64_t due = solar_path_deadline(c, p);
    if (due == SNIC_NEVER)
        snic_wheel_cancel(&c->q.wheel, &p->timer);
    else if (!p->timer.armed || p->timer.deadline_ns > due)
        snic_wheel_arm(&c->q.wheel, &p->timer, due);
}

/* Declare lost what has waited too long. @return 1 that counts as a timeout of the path */
static int solar_path_expire(struct snic_solar *c, struct solar_path *p)
{
    int sign = 0;
    for (uint32_t seq = p->una; seq != p->next_seq; seq++) {
        struct solar_tx *x = solar_path_at(p, seq);
        if (x->kind == SOLAR_TX_NONE || solar_path_holds(c, p, x))
            continue;
        if (solar_waited(c, x->sent_ns) < p->rto_ns)
            break;
        sign |= x->sent_ns >= p->mark_ns && x->sent_ns >= p->heard_ns;
        if (x->kind == SOLAR_TX_PROBE && p->misses < 255)
            p->misses++;
        solar_server_gave_up(solar_server_of(c, p));
        solar_path_lose(c, p, x);
    }
    return sign;
}

static void solar_path_back_off(struct snic_solar *c, struct solar_path *p)
{
    /* Twice what the server needed for its last answer, on any path, and no less than half of
       the longest: a fast fabric that becomes slow is to be waited for. */
    uint64_t most = 2 * snic_max_u64(c->servers[p->server].rto_ns, c->o.rto_max_ns / 4);
    p->rto_ns = snic_min_u64(2 * p->rto_ns, snic_min_u64(most, c->o.rto_max_ns));
    p->rto_ns = snic_max_u64(p->rto_ns, solar_server_late(c, &c->servers[p->server]));
}

/* 1: its answer is overdue. It is not while recent answers were late; and the longer the server is
   silent on all paths, the longer we wait: its answer may arrive at a port that was replaced. And
   where one port after the other is as bad as the last one, all are: new sockets cost more than
   they help. */
static int solar_path_awaited(struct snic_solar *c, struct solar_path *p)
{
    struct solar_server *s = solar_server_of(c, p);
    uint64_t enough =
        snic_max_u64(solar_server_silence(c, s) / 4, SNIC_SOLAR__MISSES * solar_server_late(c, s));
    enough = snic_max_u64(enough, p->futile * SNIC_SOLAR__MISSES * c->o.rto_max_ns);
    return solar_waited(c, p->heard_ns) >= enough;
}

static void solar_path_timeout(struct snic_solar *c, struct solar_path *p)
{
    p->timed_out++;
    c->s.timeouts++;
    p->mark_ns = c->q.now_ns;
    if (p->timeouts < 255)
        p->timeouts++;
    uint64_t silence = snic_max_u64(SNIC_SOLAR__MISSES * p->rto_ns, 10 * SNIC_SOLAR__MS);
    solar_path_back_off(c, p);
    solar_cc_timeout(c, p);
    if (p->state == SNIC_SOLAR_PROBING)
        return;
    if ((p->timeouts >= 3 || (p->timeouts >= 2 && solar_waited(c, p->heard_ns) >= silence)) &&
        solar_path_awaited(c, p)) {
        solar_path_reroll(c, p);
        return;
    }
    if (p->timeouts >= 2)
        solar_path_state(c, p, SNIC_SOLAR_SUSPECTED);
    p->probe_ns = c->q.now_ns;
}

/* Send a HELLO while there is no connection, else a PROBE. A path without answers to its HELLOs is
   replaced, as is one without answers to its PROBEs. */
static void solar_path_query(struct snic_solar *c, struct solar_path *p)
{
    uint64_t pause = solar_server_silence(c, solar_server_of(c, p)) / 8;
    pause = snic_max_u64(p->rto_ns, snic_min_u64(pause, 4 * c->o.rto_max_ns));
    if (solar_server_of(c, p)->up) {
        int sent = solar_send_probe(c, p, SNIC_SOLAR__PADDING);
        p->probe_ns = p->state == SNIC_SOLAR_ALIVE && sent ? SNIC_NEVER : c->q.now_ns + pause;
        return;
    }
    if (p->misses >= SNIC_SOLAR__MISSES && solar_path_awaited(c, p)) {
        solar_path_reroll(c, p);
        return;
    }
    if (solar_send_hello(c, p))
        p->misses++;
    p->probe_ns = c->q.now_ns + pause;
    solar_path_back_off(c, p);
}

static void solar_path_tick(struct snic_solar *c, struct solar_path *p)
{
    if (p->state == SNIC_SOLAR_OPENING) {
        if (c->q.now_ns >= p->reopen_ns) {
            p->reopen_ns = SNIC_NEVER;
            solar_path_open(c, p);
        }
        return;
    }
    if (solar_path_expire(c, p))
        solar_path_timeout(c, p);
    if (p->state >= SNIC_SOLAR_ALIVE && p->una != p->next_seq &&
        c->q.now_ns >= solar_path_curious(c, p)) {
        /* Without a train, or a session, it counts as sent: else the timer would be due again at
           once, and forever, for only time and the owner can change that. */
        (void)solar_send_probe(c, p, 0);
        p->queried = p->una;
        p->queried_ns = c->q.now_ns;
    }
    if (p->state == SNIC_SOLAR_PROBING && p->misses >= SNIC_SOLAR__MISSES &&
        solar_path_awaited(c, p))
        solar_path_reroll(c, p);
    if (p->state == SNIC_SOLAR_OPENING || p->state == SNIC_SOLAR_CLOSED)
        return;
    if (p->paced && c->q.now_ns >= p->pace_ns) {
        p->paced = 0;
        c->q.dirty = 1;
    }
    if (solar_path_has_tail(p) && solar_waited(c, p->last_sent_ns) >= solar_path_tail_ns(p)) {
        p->tail_done = 1;
        (void)solar_send_hedge(c, p);
    }
    if (c->q.now_ns >= p->probe_ns)
        solar_path_query(c, p);
}

void solar_path_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct solar_path *p = SNIC_CONTAINER(t, struct solar_path, timer);
    (void)now_ns;
    solar_path_tick(p->c, p);
    solar_path_arm(p->c, p);
}

/* ---- States ---- */

/* Discard the measurements: another socket is another route through the fabric. */
void solar_path_reset(struct snic_solar *c, struct solar_path *p)
{
    p->timeouts = 0;
    p->answers = 0;
    p->misses = 0;
    p->refusals = 0;
    p->tail_done = 1;
    p->have_srv_seq = 0;
    p->paced = 0;
    p->proven = 0;
    p->proof = 0;
    p->reorder = SNIC_SOLAR__REORDER;
    p->srtt_ns = 0;
    p->var_ns = 0;
    p->min_rtt_ns = 0;
    p->rto_ns = solar_server_rto(c, &c->servers[p->server]);
    p->heard_ns = c->q.now_ns;
    p->mark_ns = c->q.now_ns;
    p->pace_ns = 0;
    p->probe_ns = SNIC_NEVER;
    p->reopen_ns = SNIC_NEVER;
    solar_cc_init(c, &p->cc, p->gen == 0 ? c->o.window_start : 1);
}

static void solar_path_report(struct snic_solar *c, struct solar_path *p, uint8_t what)
{
    if (p->pending == 0)
        snic_link_append(&c->path_events, &p->event);
    p->pending |= what;
}

/* Request a socket of this gen from the owner. */
void solar_path_open(struct snic_solar *c, struct solar_path *p)
{
    solar_path_state(c, p, SNIC_SOLAR_OPENING);
    solar_path_report(c, p, SOLAR_PENDING_OPEN);
}

static void solar_path_leave(struct snic_solar *c, struct solar_path *p)
{
    int bound = p->state > SNIC_SOLAR_OPENING;
    solar_path_state(c, p, SNIC_SOLAR_CLOSED);
    solar_path_drop_all(c, p);
    if (bound) {
        p->close_gen = p->gen;
        solar_path_report(c, p, SOLAR_PENDING_CLOSE);
    }
    if ((p->pending & SOLAR_PENDING_OPEN) != 0) { /* not reported yet: cancel it */
        p->pending &= (uint8_t)~SOLAR_PENDING_OPEN;
        if (p->pending == 0)
            snic_link_remove(&p->event);
    }
    p->gen++;
    p->port = 0;
    solar_path_reset(c, p);
}

void solar_path_close(struct snic_solar *c, struct solar_path *p)
{
    if (p->state == SNIC_SOLAR_CLOSED)
        return;
    solar_path_leave(c, p);
    solar_path_arm(c, p);
}

void solar_path_reroll(struct snic_solar *c, struct solar_path *p)
{
    struct solar_server *s = solar_server_of(c, p);
    p->rerolls++;
    c->s.rerolls++;
    if (p->answers >= SNIC_SOLAR__WORTH)
        p->futile = 0;
    else if (p->futile < SNIC_SOLAR__FUTILE_MAX)
        p->futile++;
    s->bad[s->bad_next].port = p->port;
    s->bad[s->bad_next].until_ns = c->q.now_ns + SNIC_SOLAR__BAD_PORT_NS;
    s->bad_next = (uint8_t)((s->bad_next + 1) % SNIC_SOLAR__BAD_PORTS);
    solar_path_leave(c, p);
    solar_path_open(c, p);
}

void solar_path_state(struct snic_solar *c, struct solar_path *p, uint32_t state)
{
    struct solar_server *s = solar_server_of(c, p);
    uint16_t bit = (uint16_t)(1u << p->index);
    p->state = (uint8_t)state;
    s->alive_mask &= (uint16_t)~bit;
    s->usable_mask &= (uint16_t)~bit;
    if (state == SNIC_SOLAR_ALIVE)
        s->alive_mask |= bit;
    if (state > SNIC_SOLAR_OPENING)
        s->usable_mask |= bit;
    c->q.dirty = 1;
    solar_server_alive(c, s);
}

/* An authentic packet was received. @p whole: packets of full size passed in both directions. */
void solar_path_heard(struct snic_solar *c, struct solar_path *p, int whole)
{
    p->heard_ns = c->q.now_ns;
    p->timeouts = 0;
    if (whole) {
        p->answers = p->answers < 255 ? p->answers + 1 : 255;
        p->misses = 0;
    }
    if (p->state == SNIC_SOLAR_PROBING && p->answers >= 2 && p->proven) {
        p->probe_ns = SNIC_NEVER;
        solar_path_state(c, p, SNIC_SOLAR_ALIVE);
        if (c->servers[p->server].extra)
            solar_server_shed(c, &c->servers[p->server]);
    } else if (p->state == SNIC_SOLAR_PROBING && whole) {
        p->probe_ns = c->q.now_ns;
        solar_path_arm(c, p);
    } else if (p->state == SNIC_SOLAR_SUSPECTED && whole && p->proven) {
        p->probe_ns = SNIC_NEVER;
        solar_path_state(c, p, SNIC_SOLAR_ALIVE);
    } else if (p->state == SNIC_SOLAR_SUSPECTED && whole) {
        p->probe_ns = c->q.now_ns;
        solar_path_arm(c, p);
    }
}

void solar_path_unproven(struct snic_solar *c, struct solar_path *p, uint64_t proof)
{
    p->proof = proof;
    p->proven = 0;
    if (p->state < SNIC_SOLAR_ALIVE)
        return;
    if (p->state == SNIC_SOLAR_ALIVE)
        solar_path_state(c, p, SNIC_SOLAR_SUSPECTED);
    p->probe_ns = c->q.now_ns;
    solar_path_arm(c, p);
}

/* ---- The owner's side ---- */

static struct solar_path *solar_path_of(struct snic_solar *c, uint32_t server, uint32_t path,
                                        uint32_t gen)
{
    if (server >= c->o.servers_max || path >= c->path_slots || !c->q.loads[server].used)
        return NULL;
    struct solar_path *p = &c->servers[server].paths[path];
    return p->gen == (uint16_t)gen ? p : NULL;
}

int snic_solar_path_opened(struct snic_solar *c, uint32_t server, uint32_t path, uint32_t gen,
                           uint16_t port, uint64_t now_ns)
{
    struct solar_path *p = solar_path_of(c, server, path, gen);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    if (p == NULL || p->state != SNIC_SOLAR_OPENING || (p->pending & SOLAR_PENDING_OPEN) != 0)
        return SNIC_ENOENT;
    if (port == 0) {
        p->reopen_ns = c->q.now_ns + 10 * SNIC_SOLAR__MS;
        solar_path_arm(c, p);
        return 0;
    }
    if (p->refusals < 16 && !solar_server_port(c, &c->servers[server], p, port)) {
        p->refusals++;
        return SNIC_EADDRINUSE;
    }
    p->port = port;
    p->heard_ns = c->q.now_ns;
    p->mark_ns = c->q.now_ns;
    p->probe_ns = snic_max_u64(c->q.now_ns, c->servers[server].retry_ns);
    solar_path_state(c, p, SNIC_SOLAR_PROBING);
    solar_path_arm(c, p);
    return 0;
}

void snic_solar_path_hint(struct snic_solar *c, uint32_t server, uint32_t path, uint32_t gen,
                          uint64_t now_ns)
{
    struct solar_path *p = solar_path_of(c, server, path, gen);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    if (p == NULL || p->state <= SNIC_SOLAR_OPENING || p->probe_ns <= c->q.now_ns + p->rto_ns)
        return;
    /* A closed port answers every probe with an error, and each such hint would send the next. */
    if (p->hint_ns != 0 && c->q.now_ns - p->hint_ns < 4 * c->o.rto_max_ns)
        return;
    p->hint_ns = c->q.now_ns;
    p->probe_ns = c->q.now_ns;
    solar_path_arm(c, p);
}

int snic_solar_get_path(const struct snic_solar *c, uint32_t server, uint32_t path,
                        struct snic_solar_path_stats *out)
{
    if (server >= c->o.servers_max || path >= c->path_slots || !c->q.loads[server].used)
        return SNIC_ENOENT;
    const struct solar_path *p = &c->servers[server].paths[path];
    memset(out, 0, sizeof(*out));
    out->state = p->state;
    out->gen = p->gen;
    out->port = p->port;
    out->srtt_ns = p->srtt_ns;
    out->var_ns = p->var_ns;
    out->min_rtt_ns = p->min_rtt_ns;
    out->rto_ns = p->rto_ns;
    out->window[0] = p->cc.window[0];
    out->window[1] = p->cc.window[1];
    out->inflight = p->inflight;
    out->reorder = p->reorder;
    out->sent = p->sent;
    out->acked = p->acked;
    out->lost = p->lost;
    out->timeouts = p->timed_out;
    out->rerolls = p->rerolls;
    return 0;
}
