/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A server as the agent sees it: the handshake, the set of its paths, and whether any works.
 */
#include "solar/solar_priv.h"

/* Without a live path for so long, twice as many ports are tried. */
#define SNIC_SOLAR__EXTRA_NS (20 * SNIC_SOLAR__MS)

/* Without one for so long the connection is replaced, and HELLO sent as to a new server: one that
   has lost the key of its tokens cannot send a valid RESET. */
#define SNIC_SOLAR__RENEW_NS (5000 * SNIC_SOLAR__MS)

static void solar_server_fresh(struct snic_solar *c, struct solar_server *s)
{
    s->up = 0;
    s->nonce = snic_rng_next(&c->q.rng);
    s->mine = (uint32_t)snic_rng_next(&c->q.rng);
    s->mine += s->mine == 0;
    s->conn_id = 0;
    s->token = 0;
    s->hello_ns = c->q.now_ns;
}

int snic_solar_server_add(struct snic_solar *c, uint32_t server, uint64_t now_ns)
{
    int r = ebs_server_add(&c->q, server, now_ns);
    if (r != 0)
        return r;
    struct solar_server *s = &c->servers[server];
    s->c = c;
    s->index = server;
    s->credit = c->o.window_start * c->o.paths;
    s->paths = c->paths + (size_t)server * c->path_slots;
    snic_timer_init(&s->timer, solar_server_fired);
    for (int kind = 0; kind < SOLAR_KINDS; kind++) {
        snic_link_init(&s->ready[kind]);
        snic_link_init(&s->again[kind]);
    }
    solar_server_fresh(c, s);
    s->dark_ns = c->q.now_ns;
    for (uint32_t i = 0; i < c->path_slots; i++) {
        struct solar_path *p = &s->paths[i];
        p->c = c;
        p->server = server;
        p->index = (uint8_t)i;
        p->pn = snic_max_u64((uint64_t)c->o.client_epoch << 32, c->pn_used);
        snic_timer_init(&p->timer, solar_path_fired);
        solar_path_reset(c, p);
        solar_cc_init(c, &p->cc, c->o.window_start); /* not the state of an earlier server */
        if (i < c->o.paths)
            solar_path_open(c, p);
    }
    solar_server_arm(c, s);
    return 0;
}

/* ---- Release of its number ---- */

/* Drop its queued trains: the next server with this number has another address. */
static void solar_server_unsend(struct snic_solar *c, uint32_t server)
{
    for (uint32_t n = c->pool.p.queued; n > 0; n--) {
        struct solar_train *t = solar_train_next(&c->pool);
        if (t->t.server == server)
            snic_solar_sent(c, &t->t, c->q.now_ns);
        else
            solar_train_queue(&c->pool, t);
    }
}

/*
 * Paths are closed, not forgotten: their gens and numbers continue, so a late packet of an old
 * socket, or an answer to an old transmission, matches nothing of the next server. pn continues,
 * too: the same server may return under any number, and refuses a HELLO whose pn is not above the
 * last one.
 */
int snic_solar_server_remove(struct snic_solar *c, uint32_t server, int forget, uint64_t now_ns)
{
    int r = ebs_server_release(&c->q, server, forget, now_ns);
    if (r != 0)
        return r;
    struct solar_server *s = &c->servers[server];
    solar_server_unsend(c, server);
    for (uint32_t i = 0; i < c->path_slots; i++) {
        struct solar_path *p = &s->paths[i];
        solar_path_close(c, p);
        c->pn_used = snic_max_u64(c->pn_used, p->pn);
        p->sent = p->acked = p->lost = p->timed_out = p->rerolls = 0;
    }
    SNIC_ASSERT(s->write_out == 0);
    snic_wheel_cancel(&c->q.wheel, &s->timer);
    ebs_server_removed(&c->q, s->load);
    memset(s, 0, sizeof(*s));
    s->load = &c->q.loads[server];
    return 0;
}

int snic_solar_server_auth(struct snic_solar *c, uint32_t server, void *secret, uint32_t key_id,
                           uint32_t account)
{
    if (server >= c->o.servers_max || !c->q.loads[server].used)
        return SNIC_ENOENT;
    struct solar_server *s = &c->servers[server];
    if (c->wire.plain == NULL || secret == NULL)
        return SNIC_EINVAL;
    if (s->up || s->usable_mask != 0)
        return SNIC_EBUSY;
    s->secret = secret;
    s->key_id = key_id;
    s->account = account;
    return 0;
}

uint64_t solar_server_rto(const struct snic_solar *c, const struct solar_server *s)
{
    uint64_t best = SNIC_NEVER;
    for (uint32_t i = 0; i < c->path_slots; i++)
        if (s->paths[i].srtt_ns != 0 && s->paths[i].state == SNIC_SOLAR_ALIVE)
            best = snic_min_u64(best, s->paths[i].rto_ns);
    if (best == SNIC_NEVER)
        best = c->o.rto_min_ns;
    return snic_max_u64(snic_min_u64(2 * best, c->o.rto_max_ns), solar_server_late(c, s));
}

/* ---- Silence and lateness ---- */

/*
 * Timeouts are short, for the sake of I/Os on a fabric that loses packets. A server whose thread
 * waits for its CPU answers later than that, and then short timeouts make it worse: all is sent
 * again, path after path is replaced before its answer can arrive, and most of the server's work is
 * for requests that no RPC waits for any more. So late answers raise the timeouts of all paths to
 * that server, for as long as they are late and not the exception; and while the server is silent,
 * probes back off.
 */

uint64_t solar_server_silence(const struct snic_solar *c, const struct solar_server *s)
{
    return s->quiet_ns == 0 ? 0 : solar_waited(c, s->quiet_ns);
}

void solar_server_expect(struct snic_solar *c, struct solar_server *s)
{
    if (s->quiet_ns == 0)
        s->quiet_ns = snic_max_u64(c->q.now_ns, 1);
}

uint64_t solar_server_late(const struct snic_solar *c, const struct solar_server *s)
{
    uint64_t since = c->q.now_ns - s->late_at_ns;
    uint64_t halvings = since / SNIC_SOLAR__LATE_MAX;
    uint64_t late = halvings < 8 ? s->late_ns >> halvings : 0;
    if (s->late_answers * 16 < s->gave_up) /* most are really lost, however late the others are */
        return 0;
    return late > c->o.rto_max_ns ? late : 0;
}

void solar_server_gave_up(struct solar_server *s)
{
    if (s->gave_up++ < 256)
        return;
    s->gave_up /= 2;
    s->late_answers /= 2;
}

void solar_server_was_late(struct snic_solar *c, struct solar_server *s, uint64_t rtt_ns)
{
    uint64_t old = solar_server_late(c, s);
    s->late_answers++;
    if (rtt_ns <= c->o.rto_max_ns || rtt_ns + rtt_ns / 4 < old)
        return;
    s->late_ns = snic_min_u64(rtt_ns + rtt_ns / 4, SNIC_SOLAR__LATE_MAX);
    s->late_at_ns = c->q.now_ns;
}

/* 1: @p port differs from the others as ECMP needs it, and is not one that failed. */
int solar_server_port(struct snic_solar *c, struct solar_server *s, const struct solar_path *p,
                      uint16_t port)
{
    for (uint32_t i = 0; i < c->path_slots; i++)
        if (&s->paths[i] != p && s->paths[i].state > SNIC_SOLAR_OPENING &&
            s->paths[i].port % 64 == port % 64)
            return 0;
    for (uint32_t i = 0; i < SNIC_SOLAR__BAD_PORTS; i++)
        if (s->bad[i].port == port && c->q.now_ns < s->bad[i].until_ns)
            return 0;
    return 1;
}

/* ---- The handshake ---- */

/* The connection is due: every bound path sends HELLO, and so will paths bound later. */
static void solar_server_hello(struct snic_solar *c, struct solar_server *s)
{
    s->hello_ns = SNIC_NEVER;
    for (uint32_t i = 0; i < c->path_slots; i++) {
        struct solar_path *p = &s->paths[i];
        if (p->state <= SNIC_SOLAR_OPENING)
            continue;
        p->misses = 0;
        p->probe_ns = c->q.now_ns;
        solar_path_arm(c, p);
    }
}

/* ---- SUSPECT and RECOVERED ---- */

/* While there are more paths than `paths`, an ALIVE one replaces one that is not. */
void solar_server_shed(struct snic_solar *c, struct solar_server *s)
{
    uint32_t open = 0, idle = SNIC_SOLAR__NIL;
    for (uint32_t i = 0; i < c->path_slots; i++) {
        open += s->paths[i].state != SNIC_SOLAR_CLOSED;
        if (s->paths[i].state != SNIC_SOLAR_CLOSED && s->paths[i].state != SNIC_SOLAR_ALIVE)
            idle = i;
    }
    if (open > c->o.paths && idle != SNIC_SOLAR__NIL)
        solar_path_close(c, &s->paths[idle]);
}

void solar_server_alive(struct snic_solar *c, struct solar_server *s)
{
    if (s->alive_mask == 0) {
        if (s->dark_ns == SNIC_NEVER) {
            s->dark_ns = c->q.now_ns;
            s->extra = 0;
            solar_server_arm(c, s);
        }
        return;
    }
    s->dark_ns = SNIC_NEVER;
    if (s->load->suspect)
        ebs_server_suspect(&c->q, s->load, 0);
}

static uint64_t solar_server_renew_ns(const struct solar_server *s)
{
    return snic_max_u64(s->dark_ns, s->renew_ns) + SNIC_SOLAR__RENEW_NS;
}

static uint64_t solar_server_deadline(const struct snic_solar *c, const struct solar_server *s)
{
    uint64_t due = s->up ? SNIC_NEVER : s->hello_ns;
    if (s->dark_ns != SNIC_NEVER && !s->extra)
        due = snic_min_u64(due, s->dark_ns + SNIC_SOLAR__EXTRA_NS);
    if (s->dark_ns != SNIC_NEVER && !s->load->suspect)
        due = snic_min_u64(due, s->dark_ns + c->o.suspect_ns);
    if (s->dark_ns != SNIC_NEVER && s->up)
        due = snic_min_u64(due, solar_server_renew_ns(s));
    return due;
}

void solar_server_arm(struct snic_solar *c, struct solar_server *s)
{
    uint64_t due = solar_server_deadline(c, s);
    if (due == SNIC_NEVER)
        snic_wheel_cancel(&c->q.wheel, &s->timer);
    else if (!s->timer.armed || s->timer.deadline_ns > due)
        snic_wheel_arm(&c->q.wheel, &s->timer, due);
}

void solar_server_fired(struct snic_timer *t, uint64_t now_ns)
{
    struct solar_server *s = SNIC_CONTAINER(t, struct solar_server, timer);
    struct snic_solar *c = s->c;
    (void)now_ns;
    if (s->dark_ns != SNIC_NEVER && !s->extra && c->q.now_ns >= s->dark_ns + SNIC_SOLAR__EXTRA_NS) {
        s->extra = 1;
        for (uint32_t i = 0; i < c->path_slots; i++)
            if (s->paths[i].state == SNIC_SOLAR_CLOSED)
                solar_path_open(c, &s->paths[i]);
    }
    if (s->dark_ns != SNIC_NEVER && !s->load->suspect &&
        c->q.now_ns >= s->dark_ns + c->o.suspect_ns)
        ebs_server_suspect(&c->q, s->load, 1);
    if (s->dark_ns != SNIC_NEVER && s->up && c->q.now_ns >= solar_server_renew_ns(s))
        solar_server_reset(c, s, 0);
    if (!s->up && c->q.now_ns >= s->hello_ns)
        solar_server_hello(c, s);
    solar_server_arm(c, s);
}

/* The server has lost the connection (or must be assumed to): no packet in flight is answered. */
void solar_server_reset(struct snic_solar *c, struct solar_server *s, uint32_t retry_us)
{
    solar_server_fresh(c, s);
    s->renew_ns = c->q.now_ns;
    s->hello_ns = c->q.now_ns + snic_min_u64(retry_us, 100000) * SNIC_SOLAR__US;
    s->retry_ns = s->hello_ns;
    for (uint32_t i = 0; i < c->path_slots; i++)
        solar_path_drop_all(c, &s->paths[i]);
    solar_server_arm(c, s);
}

int snic_solar_server_renew(struct snic_solar *c, uint32_t server, uint64_t now_ns)
{
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    if (server >= c->o.servers_max || !c->q.loads[server].used)
        return SNIC_ENOENT;
    if (c->servers[server].up)
        solar_server_reset(c, &c->servers[server], 0);
    return 0;
}
