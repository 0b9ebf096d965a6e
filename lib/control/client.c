/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client's end: sessions and leases. A session that ends is followed by another, in which leases
 * are resumed.
 */
#include "control/client_priv.h"

/* ---- Requests ---- */

static void control_client_request_disk(struct snic_control_client *c,
                                        struct control_client_disk *d)
{
    struct snic_control_msg m;
    if (!c->welcome)
        return;
    d->tag = control_client_tag(c);
    d->again_ns = 0;
    control_msg(&m, d->state == CONTROL_CLIENT_HELD ? SNIC_CONTROL_RESUME : SNIC_CONTROL_ATTACH,
                d->tag);
    m.vd = d->vd;
    m.lease = d->lease;
    m.flags = (uint8_t)d->flags;
    memcpy(m.key, d->key, sizeof(m.key));
    memcpy(m.name, d->name, sizeof(m.name));
    control_client_send(c, &m);
}

static void control_client_return_lease(struct snic_control_client *c, uint32_t vd, uint32_t lease)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_DETACH, 0);
    m.vd = vd;
    m.lease = lease;
    control_client_send(c, &m);
}

/* ---- Answers ---- */

static uint32_t control_client_disk_of(const struct snic_control_client *c, uint32_t vd)
{
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].state == CONTROL_CLIENT_HELD && c->disks[i].vd == vd)
            return i;
    return SNIC_CONTROL__NIL;
}

static void control_client_lease_lost(struct snic_control_client *c, uint32_t disk, int reason)
{
    SNIC_ASSERT(c->disks[disk].state == CONTROL_CLIENT_HELD);
    c->disks[disk].state = CONTROL_CLIENT_LOST;
    control_lookups_drop(c, disk);
    if (c->v != NULL)
        snic_volume_disk_lost(c->v, disk);
    if (c->e.lost != NULL)
        c->e.lost(c->ctx, disk, reason);
}

static void control_client_qos(struct snic_control_client *c, uint32_t disk,
                               const struct snic_control_qos *q)
{
    struct snic_volume_disk_opts o = {.opts_size = sizeof(o), .sa_epoch = c->disks[disk].lease};
    o.bytes_per_second = q->bytes_per_second;
    o.burst_bytes = q->burst_bytes;
    o.ios_per_second = q->ios_per_second;
    o.burst_ios = q->burst_ios;
    if (c->v != NULL) {
        int r = snic_volume_disk_qos(c->v, disk, &o);
        if (r != 0 && r != SNIC_ENOENT) { /* ENOENT: not opened yet, it is opened with these */
            c->stats.refused++;
            return;
        }
    }
    c->disks[disk].qos = *q;
    if (c->e.qos != NULL)
        c->e.qos(c->ctx, disk, q);
}

/* If a grant has no token the disk keeps its token, and another one is requested; for a disk
   without one when the volume needs it. */
static void control_client_store_token(struct snic_control_client *c, uint32_t disk,
                                       const struct snic_control_msg *m)
{
    struct control_client_disk *d = &c->disks[disk];
    uint64_t now = control_client_now(c);
    if (m->value == 0) {
        d->renew_ns = d->token_has ? now + SNIC_CONTROL__TOKEN_RETRY_NS : 0;
        return;
    }
    memcpy(d->token, m->token, sizeof(d->token));
    d->token_has = 1;
    d->renew_ns = now + snic_min_u64(m->value, UINT32_MAX) * UINT64_C(1000000000) / 3;
    c->stats.tokens++;
    if (c->v != NULL)
        (void)!snic_volume_disk_token(c->v, disk, d->token); /* if it is open */
}

static void control_client_grant(struct snic_control_client *c, const struct snic_control_msg *m)
{
    struct snic_control_grant g;
    uint32_t i = 0;
    while (i < c->o.disks_max && (c->disks[i].tag != m->tag || c->disks[i].tag == 0 ||
                                  c->disks[i].state == CONTROL_CLIENT_NONE))
        i++;
    if (i == c->o.disks_max) { /* detached meanwhile, unless it answers an earlier RESUME */
        if (m->status == 0 && control_client_disk_of(c, m->vd) == SNIC_CONTROL__NIL)
            control_client_return_lease(c, m->vd, m->lease);
        return;
    }
    struct control_client_disk *d = &c->disks[i];
    d->tag = 0;
    if (d->state == CONTROL_CLIENT_HELD) {
        if (m->status != 0)
            control_client_lease_lost(c, i, m->status);
        else if (memcmp(&d->qos, &m->qos, sizeof(d->qos)) != 0) /* changed while disconnected */
            control_client_qos(c, i, &m->qos);
        if (m->status == 0)
            control_client_store_token(c, i, m);
        return;
    }
    if (d->state != CONTROL_CLIENT_REQUESTED)
        return;
    if (m->status == SNIC_EAGAIN) {
        d->again_ns = control_client_now(c) + c->o.retry_ns;
        return;
    }
    memset(&g, 0, sizeof(g));
    d->state = m->status == 0 ? CONTROL_CLIENT_HELD : CONTROL_CLIENT_NONE;
    g.vd = d->vd = m->vd;
    g.lease = d->lease = m->lease;
    g.bytes = m->bytes;
    g.qos = d->qos = m->qos;
    memcpy(g.key, m->key, sizeof(g.key));
    memcpy(g.token, m->token, sizeof(g.token));
    g.token_seconds = m->value;
    if (m->status == 0)
        control_client_store_token(c, i, m);
    c->e.granted(c->ctx, i, m->status, &g);
}

static void control_client_server(struct snic_control_client *c, const struct snic_control_msg *m)
{
    if (m->server - 1 >= SNIC_CONTROL_SERVERS_MAX)
        return;
    struct control_client_server *s = &c->server[m->server - 1];
    s->known = 1;
    s->addr = m->addr;
    if (s->number == SNIC_CONTROL__NIL || c->v == NULL)
        return;
    int r = snic_volume_server_readdress(c->v, s->number, &s->addr);
    SNIC_ASSERT(r == 0);
    (void)r;
}

static void control_client_number_release(struct snic_control_client *c, uint32_t number)
{
    SNIC_ASSERT(number < c->numbers);
    for (uint32_t k = 0; k < SNIC_CONTROL_SERVERS_MAX; k++)
        if (c->server[k].number == number)
            c->server[k].number = SNIC_CONTROL__NIL;
    c->stats.numbers_reused++;
}

/* The number whose server was used least recently, of those not in @p tried. */
static uint32_t control_client_number_lru(const struct snic_control_client *c,
                                          const uint64_t *tried)
{
    uint32_t oldest = SNIC_CONTROL__NIL;
    uint64_t least = UINT64_MAX;
    SNIC_ASSERT(c->numbers <= SNIC_CONTROL__NUMBERS_MAX);
    for (uint32_t n = 0; n < c->numbers; n++) {
        struct snic_ebs_busy is = {.used_ns = 0};
        if ((tried[n / 64] >> n % 64 & 1) != 0)
            continue;
        (void)!snic_volume_get_busy(c->v, n, &is); /* removed: used_ns 0, the first choice */
        if (is.used_ns >= least)
            continue;
        least = is.used_ns;
        oldest = n;
    }
    return oldest;
}

/*
 * A number for one more server. If all are assigned, that of the least recently used server is
 * freed: of those without segments and without I/O; else, with @p forget, of those with segments
 * and without I/O: these segments are looked up again when they are needed.
 * @return 0; SNIC_EBUSY I/O waits for all
 */
static int control_client_number_alloc(struct snic_control_client *c, int forget, uint32_t *number)
{
    if (c->numbers < c->o.servers_max) {
        *number = c->numbers;
        return 0;
    }
    for (int with = 0; with <= (forget != 0); with++) {
        uint64_t tried[SNIC_CONTROL__NUMBERS_MAX / 64] = {0};
        uint32_t n;
        while ((n = control_client_number_lru(c, tried)) != SNIC_CONTROL__NIL) {
            int r = snic_volume_server_remove(c->v, n, with);
            tried[n / 64] |= UINT64_C(1) << n % 64;
            if (r != 0 && r != SNIC_ENOENT)
                continue;
            control_client_number_release(c, n);
            *number = n;
            return 0;
        }
    }
    c->stats.numbers_exhausted++;
    return SNIC_EBUSY;
}

/* The volume's number of a server; assigns one at first. @p forget: if need be, frees another's. */
static int control_client_number(struct snic_control_client *c, uint32_t id, int forget,
                                 uint32_t *number)
{
    if (id - 1 >= SNIC_CONTROL_SERVERS_MAX || !c->server[id - 1].known)
        return SNIC_ENOENT;
    struct control_client_server *s = &c->server[id - 1];
    if (s->number == SNIC_CONTROL__NIL) {
        uint32_t n = 0;
        int r = control_client_number_alloc(c, forget, &n);
        if (r == 0)
            r = snic_volume_server_add(c->v, n, &s->addr);
        if (r != 0)
            return r;
        s->number = n;
        c->numbers += n == c->numbers;
    }
    *number = s->number;
    return 0;
}

/* A number may be free as soon as an I/O has ended; other obstacles last longer. */
static void control_client_postpone(struct snic_control_client *c,
                                    struct control_client_lookup *lookup, int number)
{
    lookup->due_ns = control_client_now(c) + SNIC_CONTROL__LOOKUP_RETRY_MAX_NS;
    if (number != SNIC_EBUSY)
        return;
    lookup->due_ns = control_client_now(c) + SNIC_CONTROL__NUMBER_RETRY_NS;
    snic_loop_arm(c->o.loop, &c->timer, lookup->due_ns);
}

static void control_client_item(struct snic_control_client *c, uint32_t disk,
                                const struct snic_control_item *it, uint32_t tag)
{
    struct control_client_lookup *lookup = control_lookup_find(c, disk, it->segment);
    uint32_t number = 0;
    int r = it->status;
    if (r == 0)
        r = control_client_number(c, it->server, lookup != NULL, &number);
    if (r == 0)
        r = snic_volume_map(c->v, disk, it->segment,
                            snic_control_seg_id(c->disks[disk].vd, it->segment), number, it->gen);
    c->stats.locations += r == 0;
    if (lookup == NULL || r == SNIC_ESTALE) /* an older map that was in flight */
        return;
    if (r == 0) {
        if (it->gen >= lookup->gen)
            control_lookup_free(c, lookup);
        return;
    }
    if (it->status == SNIC_ENOENT) {
        control_lookup_unplaced(c, lookup, tag);
        return;
    }
    if (it->status == SNIC_ENOSPC) { /* the user of the disk decides whether to wait for space */
        c->stats.no_space += snic_volume_refuse(c->v, disk, it->segment, SNIC_ENOSPC) == 0;
        if (snic_volume_waits(c->v, disk, it->segment) == 0) {
            control_lookup_free(c, lookup);
            lookup = NULL;
        }
    }
    if (lookup != NULL)
        control_client_postpone(c, lookup, it->status == 0 ? r : 0);
    if (c->e.lookup_failed != NULL)
        c->e.lookup_failed(c->ctx, disk, it->segment, r);
}

static void control_client_welcome(struct snic_control_client *c)
{
    SNIC_ASSERT(!c->welcome);
    c->welcome = 1;
    for (uint32_t i = 0; i < c->stats.lookups_pending; i++)
        c->lookups[i].due_ns = c->lookups[i].attempts = c->lookups[i].first.tag = 0;
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].state == CONTROL_CLIENT_REQUESTED ||
            c->disks[i].state == CONTROL_CLIENT_HELD)
            control_client_request_disk(c, &c->disks[i]);
    control_lookups_send(c); /* after the RESUMEs */
    if (c->e.link != NULL)
        c->e.link(c->ctx, 1);
}

static void control_client_refused(struct snic_control_client *c, int error)
{
    c->stats.rejected += error == SNIC_ENFILE;
    c->begin_ns = control_client_now(c) + 20 * c->o.retry_ns;
    c->why = error;
    control_stream_abort(&c->s);
    if (c->e.refused != NULL && !c->closing)
        c->e.refused(c->ctx, error);
}

static void control_client_msg(void *owner, struct snic_control_msg *m)
{
    struct snic_control_client *c = owner;
    c->heard_ns = control_client_now(c);
    uint32_t disk = control_client_disk_of(c, m->vd);
    if (m->type == SNIC_CONTROL_WELCOME && !c->welcome)
        control_client_welcome(c);
    else if (m->type == SNIC_CONTROL_DONE && m->tag == 0 && m->status < 0 && !c->welcome)
        control_client_refused(c, m->status);
    else if (m->type == SNIC_CONTROL_SERVER)
        control_client_server(c, m);
    else if (m->type == SNIC_CONTROL_GRANT)
        control_client_grant(c, m);
    else if (m->type == SNIC_CONTROL_MAP)
        for (uint32_t i = 0; i < m->count && disk != SNIC_CONTROL__NIL && c->v != NULL; i++)
            control_client_item(c, disk, &m->item[i], m->tag);
    else if (m->type == SNIC_CONTROL_QOS && disk != SNIC_CONTROL__NIL)
        control_client_qos(c, disk, &m->qos);
    else if (m->type == SNIC_CONTROL_LOST && disk != SNIC_CONTROL__NIL &&
             c->disks[disk].lease <= m->lease)
        control_client_lease_lost(c, disk, m->status);
}

/* ---- The session ---- */

static void control_client_up(void *owner)
{
    struct snic_control_client *c = owner;
    struct snic_control_msg m;
    c->stats.connects++;
    c->why = 0;
    c->heard_ns = c->ping_ns = control_client_now(c);
    control_msg(&m, SNIC_CONTROL_HELLO, 0);
    m.role = SNIC_CONTROL_CLIENT;
    control_client_send(c, &m);
}

static void control_client_gone(void *owner, int reason)
{
    struct snic_control_client *c = owner;
    int was = c->welcome;
    if (c->why != 0)
        reason = c->why;
    else if (reason == SNIC_ENFILE || reason == SNIC_EACCES || reason == SNIC_ENOTSUP)
        control_client_refused(c, reason); /* before authentication */
    c->why = 0;
    c->welcome = 0;
    c->begin_ns = snic_max_u64(c->begin_ns, control_client_now(c) + c->o.retry_ns);
    int never = reason == SNIC_EVERSION || reason == SNIC_EACCES || reason == SNIC_ENOTSUP;
    if (was && c->e.link != NULL && !c->closing)
        c->e.link(c->ctx, 0);
    /* This catalog will never grant a lease. */
    for (uint32_t i = 0; never && i < c->o.disks_max && !c->closing; i++) {
        struct snic_control_grant none;
        if (c->disks[i].state != CONTROL_CLIENT_REQUESTED)
            continue;
        memset(&none, 0, sizeof(none));
        c->disks[i].state = CONTROL_CLIENT_NONE;
        c->e.granted(c->ctx, i, reason == SNIC_EACCES ? SNIC_ENOTCONN : reason, &none);
    }
}

/* RESUME is answered with a token. */
static void control_client_renew(struct snic_control_client *c, uint64_t now)
{
    for (uint32_t i = 0; i < c->o.disks_max && c->welcome; i++) {
        struct control_client_disk *d = &c->disks[i];
        if (d->state != CONTROL_CLIENT_HELD || d->renew_ns == 0 || now < d->renew_ns)
            continue;
        d->renew_ns = now + SNIC_CONTROL__TOKEN_RETRY_NS;
        control_client_request_disk(c, d);
    }
}

static void control_client_tick(struct snic_timer *t, uint64_t now)
{
    struct snic_control_client *c = SNIC_CONTAINER(t, struct snic_control_client, timer);
    struct snic_control_msg m;
    if (c->s.conn == NULL && now >= c->begin_ns) {
        c->heard_ns = now;
        if (control_stream_connect(&c->s, &c->o.control) != 0)
            c->begin_ns = now + c->o.retry_ns;
    } else if (c->s.conn != NULL && now - c->heard_ns > 4 * c->o.ping_ns) {
        control_stream_abort(&c->s);
    } else if (c->welcome && now - c->ping_ns >= c->o.ping_ns) {
        c->ping_ns = now;
        control_msg(&m, SNIC_CONTROL_PING, 0);
        control_client_send(c, &m);
    }
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].again_ns != 0 && now >= c->disks[i].again_ns)
            control_client_request_disk(c, &c->disks[i]);
    control_client_renew(c, now);
    control_lookups_send(c);
    snic_loop_arm(c->o.loop, &c->timer, now + SNIC_CONTROL__CLIENT_TICK_NS);
}

/* ---- Public functions ---- */

/* Fill in defaults. @return which option is invalid, and how; NULL: none */
static const char *control_client_options(struct snic_control_client_opts *o,
                                          const struct snic_control_client_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    o->disks_max = o->disks_max != 0 ? o->disks_max : 4;
    o->servers_max = o->servers_max != 0 ? o->servers_max : 4;
    o->lookups_max = o->lookups_max != 0 ? o->lookups_max : 2048;
    o->ping_ns = o->ping_ns != 0 ? o->ping_ns : UINT64_C(1000000000);
    o->retry_ns = o->retry_ns != 0 ? o->retry_ns : UINT64_C(50000000);
    if (o->flags != 0)
        return "flags: unknown bits";
    if (o->pad != 0)
        return "pad: not 0";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    if (o->disks_max > 64)
        return "disks_max: above 64";
    if (o->lookups_max > 1u << 20)
        return "lookups_max: above 2^20";
    if (o->servers_max > SNIC_CONTROL__NUMBERS_MAX)
        return "servers_max: above 1024";
    return NULL;
}

const char *snic_control_client_opts_wrong(const struct snic_control_client_opts *from)
{
    struct snic_control_client_opts o;
    return control_client_options(&o, from);
}

static void control_client_layout(struct snic_arena *a, struct snic_control_client *c)
{
    static const struct control_stream_events ev = {
        .up = control_client_up, .msg = control_client_msg, .gone = control_client_gone};
    c->disks = snic_arena_take(a, c->o.disks_max, sizeof(*c->disks), 64);
    c->lookups = snic_arena_take(a, c->o.lookups_max, sizeof(*c->lookups), 64);
    unsigned char *in = snic_arena_take(a, 1, SNIC_CONTROL_SMALL, 64);
    unsigned char *out = snic_arena_take(a, 1, SNIC_CONTROL__OUT, 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    memset(c->disks, 0, c->o.disks_max * sizeof(*c->disks));
    control_stream_init(&c->s, c->o.net, &ev, c, in, SNIC_CONTROL_SMALL, out, SNIC_CONTROL__OUT);
    c->s.auth.opts = c->o.auth;
}

size_t snic_control_client_memsize(const struct snic_control_client_opts *o)
{
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    struct snic_control_client c;
    if (control_client_options(&c.o, o) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(c), SNIC_CONTROL_ALIGN);
    control_client_layout(&a, &c);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_control_client_open(struct snic_control_client **out, void *mem, size_t size,
                             const struct snic_control_client_opts *from,
                             const struct snic_control_client_events *e, void *ctx)
{
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_control_client_opts o;
    if (e->granted == NULL || (uintptr_t)mem % SNIC_CONTROL_ALIGN != 0 ||
        control_client_options(&o, from) != NULL)
        return SNIC_EINVAL;
    struct snic_control_client *c = snic_arena_take(&a, 1, sizeof(*c), SNIC_CONTROL_ALIGN);
    if (c == NULL)
        return SNIC_ENOSPC;
    memset(c, 0, sizeof(*c));
    c->o = o;
    c->e = *e;
    c->ctx = ctx;
    c->deferred.fn = control_lookups_deferred;
    control_client_layout(&a, c);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        c->server[i].number = SNIC_CONTROL__NIL;
    snic_timer_init(&c->timer, control_client_tick);
    snic_loop_arm(o.loop, &c->timer, control_client_now(c));
    *out = c;
    return 0;
}

void *snic_control_client_close(struct snic_control_client *c)
{
    SNIC_ASSERT(!c->closing);
    c->closing = 1;
    snic_loop_cancel(c->o.loop, &c->timer);
    control_stream_close(&c->s); /* sends queued messages first */
    uint64_t until = control_client_now(c) + c->o.ping_ns;
    while (c->s.conn != NULL || c->deferred_queued) {
        if (control_client_now(c) >= until)
            control_stream_abort(&c->s);
        (void)snic_loop_once(c->o.loop, c->o.retry_ns);
    }
    return c;
}

int snic_control_client_attach(struct snic_control_client *c, uint32_t disk, const char *name,
                               uint32_t flags, const uint64_t key[2])
{
    if (disk >= c->o.disks_max || !snic_control_name_ok(name) || (flags & ~SNIC_CONTROL_TAKE) != 0)
        return SNIC_EINVAL;
    struct control_client_disk *d = &c->disks[disk];
    if (d->state != CONTROL_CLIENT_NONE)
        return SNIC_EEXIST;
    memset(d, 0, sizeof(*d));
    d->state = CONTROL_CLIENT_REQUESTED;
    d->flags = flags;
    if (key != NULL)
        memcpy(d->key, key, sizeof(d->key));
    memcpy(d->name, name, strlen(name));
    control_client_request_disk(c, d);
    return 0;
}

void snic_control_client_detach(struct snic_control_client *c, uint32_t disk)
{
    if (disk >= c->o.disks_max)
        return;
    struct control_client_disk *d = &c->disks[disk];
    if (d->state == CONTROL_CLIENT_HELD && c->welcome)
        control_client_return_lease(c, d->vd, d->lease);
    control_lookups_drop(c, disk);
    memset(d, 0, sizeof(*d));
}

void snic_control_client_volume(struct snic_control_client *c, struct snic_volume *v)
{
    c->v = v;
    c->numbers = 0;
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        c->server[i].number = SNIC_CONTROL__NIL;
}

void snic_control_client_opened(struct snic_control_client *c, uint32_t disk)
{
    if (disk < c->o.disks_max && c->disks[disk].token_has && c->v != NULL)
        (void)!snic_volume_disk_token(c->v, disk, c->disks[disk].token);
}

void snic_control_client_token(struct snic_control_client *c, uint32_t disk)
{
    if (disk < c->o.disks_max && c->disks[disk].state == CONTROL_CLIENT_HELD)
        c->disks[disk].renew_ns = control_client_now(c); /* with the next tick */
}

void snic_control_client_lease(struct snic_control_client *c, uint32_t disk)
{
    if (disk < c->o.disks_max && c->disks[disk].state == CONTROL_CLIENT_HELD)
        control_client_lease_lost(c, disk, SNIC_ESTALE);
}

uint32_t snic_control_client_server(const struct snic_control_client *c, uint32_t number)
{
    for (uint32_t i = 0; i < SNIC_CONTROL_SERVERS_MAX; i++)
        if (c->server[i].number == number && number != SNIC_CONTROL__NIL)
            return i + 1;
    return 0;
}

void snic_control_client_get_stats(const struct snic_control_client *c,
                                   struct snic_control_client_stats *out)
{
    *out = c->stats;
    out->servers = c->numbers;
}
