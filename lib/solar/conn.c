/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's memory and its connections: an id for a client, the numbers of the packets sent to
 * it, and nothing about its RPCs.
 *
 * A client's slot is one of 16 that a keyed hash of its id chooses, so that no client can aim at
 * another's; the connection id assigned to it is random in all bits, those of the slot included,
 * for the hash is. A token is a keyed hash of the connection id: after a restart it can be derived
 * again from the id alone, which a packet of a forgotten connection has.
 */
#include "solar/target_priv.h"

/* ---- Options and memory ---- */

static const struct ebs_opt solar_target_rows[] = {
    SNIC_EBS__OPT(snic_solar_target_opts, srv_epoch, 0, 1, UINT32_MAX, "1..2^32-1"),
    SNIC_EBS__OPT(snic_solar_target_opts, conns_max, 256, 1, 65536, "1..65536"),
    SNIC_EBS__OPT(snic_solar_target_opts, trains_max, 64, SNIC_SOLAR__READ_TRAINS, 4096, "9..4096"),
    SNIC_EBS__OPT(snic_solar_target_opts, rx_blocks, 1024, 1, 65536, "1..65536"),
    SNIC_EBS__OPT(snic_solar_target_opts, idle_ns, 10000 * SNIC_SOLAR__MS, 1, UINT64_MAX, "1.."),
};

static const char *solar_target_opts_fill(struct snic_solar_target_opts *full,
                                          const struct snic_solar_target_opts *o)
{
    memset(full, 0, sizeof(*full));
    if (snic_opts_copy(full, (uint32_t)sizeof(*full), o) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    const char *wrong = ebs_opts_fill(full, solar_target_rows, SNIC_COUNTOF(solar_target_rows));
    if (wrong != NULL)
        return wrong;
    if ((full->flags & ~SNIC_SOLAR_AUTH) != 0)
        return "flags: unknown bits";
    if (!snic_is_pow2(full->conns_max))
        return "conns_max: not a power of two";
    if ((full->flags & SNIC_SOLAR_AUTH) == 0)
        return NULL;
    if (!solar_wire_able(full->sec, full->wire_keys))
        return "flags: AUTH needs sec with GCM and MAC, and two wire_keys";
    if ((full->secret == NULL) == (full->secret_of == NULL))
        return "secret: AUTH needs it or secret_of, not both";
    return NULL;
}

const char *snic_solar_target_opts_wrong(const struct snic_solar_target_opts *o)
{
    struct snic_solar_target_opts full;
    return solar_target_opts_fill(&full, o);
}

static struct snic_solar_target *solar_target_layout(struct snic_arena *a,
                                                     const struct snic_solar_target_opts *o,
                                                     struct solar_conn **conns,
                                                     struct solar_train **trains,
                                                     unsigned char **sealed)
{
    struct snic_solar_target *t = snic_arena_take(a, 1, sizeof(*t), SNIC_SOLAR_ALIGN);
    *conns = snic_arena_take(a, o->conns_max, sizeof(**conns), SNIC_SOLAR_ALIGN);
    *trains = snic_arena_take(a, o->trains_max, sizeof(**trains), SNIC_SOLAR_ALIGN);
    *sealed = NULL;
    if ((o->flags & SNIC_SOLAR_AUTH) != 0) /* a decrypted block, and the trains' ciphertext */
        *sealed = snic_arena_take(a, 1 + (size_t)o->trains_max * SNIC_SOLAR_TRAIN_MAX,
                                  SNIC_EBS_BLOCK_BYTES, SNIC_SOLAR_ALIGN);
    return t;
}

size_t snic_solar_target_memsize(const struct snic_solar_target_opts *o)
{
    struct snic_solar_target_opts full;
    struct snic_arena a = {NULL, 0, 0};
    struct solar_conn *conns;
    struct solar_train *trains;
    unsigned char *sealed;
    if (solar_target_opts_fill(&full, o) != NULL)
        return 0;
    (void)solar_target_layout(&a, &full, &conns, &trains, &sealed);
    return a.used == SIZE_MAX ? 0 : snic_align_up(a.used, SNIC_SOLAR_ALIGN);
}

int snic_solar_target_init(struct snic_solar_target **out, void *mem, size_t size,
                           const struct snic_solar_target_opts *o, uint64_t now_ns)
{
    struct snic_solar_target_opts full;
    struct snic_arena a = {mem, size, 0};
    struct solar_conn *conns;
    struct solar_train *trains;
    unsigned char *sealed;
    if (solar_target_opts_fill(&full, o) != NULL || (uintptr_t)mem % SNIC_SOLAR_ALIGN != 0)
        return SNIC_EINVAL;
    size_t need = snic_solar_target_memsize(o);
    if (size < need)
        return SNIC_ENOSPC;
    memset(mem, 0, need);
    struct snic_solar_target *t = solar_target_layout(&a, &full, &conns, &trains, &sealed);
    t->o = full;
    if ((full.flags & SNIC_SOLAR_AUTH) == 0) {
        t->o.secret = NULL;
        t->o.secret_of = NULL;
    }
    t->mem = mem;
    t->now_ns = now_ns;
    t->epoch_ns = now_ns;
    t->epoch = 1;
    t->conns = conns;
    snic_rng_init(&t->rng, full.seed ^ full.srv_epoch);
    t->proof_salt = snic_rng_next(&t->rng);
    solar_pool_init(&t->pool, trains, sealed == NULL ? NULL : sealed + SNIC_EBS_BLOCK_BYTES,
                    full.trains_max);
    t->wire.plain = sealed;
    if (sealed != NULL)
        solar_wire_init(&t->wire, full.sec, full.wire_keys);
    *out = t;
    return 0;
}

void *snic_solar_target_fini(struct snic_solar_target *t)
{
    SNIC_ASSERT(t->pool.p.free_count + t->pool.p.queued == t->pool.p.max);
    return t->mem;
}

/* ---- Connections ---- */

struct solar_conn *solar_conn_find(struct snic_solar_target *t, uint32_t conn_id)
{
    struct solar_conn *n = &t->conns[conn_id & (t->o.conns_max - 1)];
    return n->used && n->conn_id == conn_id ? n : NULL;
}

/* A client's slots, or a connection's token: the second word keeps the two uses apart. */
static uint64_t solar_conn_hash(const struct snic_solar_target *t, uint64_t a, uint64_t b)
{
    unsigned char words[16];
    snic_put_le64(words, a);
    snic_put_le64(words + 8, b);
    return snic_siphash(t->o.key, words, sizeof(words));
}

uint64_t solar_conn_token(const struct snic_solar_target *t, uint32_t conn_id)
{
    return solar_conn_hash(t, conn_id, UINT64_C(0x70656b6f74));
}

/* ---- Addresses ---- */

/* Depends on a host and a time, and on no connection: a host that receives there may use it for
 * each of its connections, and for each port (RFC 9000, section 8.1.3): a path that moves to
 * another port, because it lost packets, does not need one more round trip. */
static uint64_t solar_conn_proof_at(const struct snic_solar_target *t,
                                    const struct snic_ebs_peer *peer, uint64_t slot)
{
    unsigned char words[32];
    for (uint32_t i = 0; i < 2; i++)
        snic_put_le64(words + (size_t)8 * i, peer->word[1 + i]);
    snic_put_le64(words + 16, slot);
    snic_put_le64(words + 24, t->proof_salt);
    return snic_siphash(t->o.key, words, sizeof(words)) | 1;
}

uint64_t solar_conn_proof(const struct snic_solar_target *t, const struct snic_ebs_peer *peer)
{
    return solar_conn_proof_at(t, peer, t->now_ns >> SNIC_SOLAR__PROOF_BITS);
}

void solar_conn_prove(const struct snic_solar_target *t, struct solar_conn *n, uint32_t path,
                      const struct snic_ebs_peer *peer, uint64_t proof)
{
    struct solar_conn_path *p = &n->path[path];
    uint64_t slot = t->now_ns >> SNIC_SOLAR__PROOF_BITS;
    if (proof == 0 || (proof != solar_conn_proof_at(t, peer, slot) &&
                       (slot == 0 || proof != solar_conn_proof_at(t, peer, slot - 1))))
        return;
    p->peer = *peer;
    p->proven = 1;
}

int solar_conn_proven(const struct solar_conn *n, uint32_t path, const struct snic_ebs_peer *peer)
{
    const struct solar_conn_path *p = &n->path[path];
    return p->proven && p->peer.word[1] == peer->word[1] && p->peer.word[2] == peer->word[2];
}

uint64_t solar_conn_number(struct solar_conn *n, uint32_t path)
{
    struct solar_conn_path *p = &n->path[path];
    return p->pn = solar_session_next(&n->session, SNIC_EBS_TO_CLIENT, p->pn);
}

/* Its open acknowledgements are sent unchanged: the train has all that it needs. */
static void solar_conn_fresh(struct snic_solar_target *t, struct solar_conn *n, uint32_t slot,
                             uint64_t client_id)
{
    uint32_t old = n->conn_id;
    memset(n, 0, sizeof(*n));
    for (uint32_t i = 0; i < SNIC_SOLAR_PATHS_MAX; i++) {
        n->path[i].train = SNIC_SOLAR__NIL;
        n->path[i].pn = (uint64_t)t->o.srv_epoch << 32;
    }
    do
        n->conn_id = ((uint32_t)snic_rng_next(&t->rng) & ~(t->o.conns_max - 1)) | slot;
    while (n->conn_id == 0 || n->conn_id == old);
    n->used = 1;
    n->client_id = client_id;
    n->client_stats.since_ns = t->now_ns;
}

/* The keys are of this handshake alone: they depend on the random numbers of both sides. */
static void solar_conn_keys(struct snic_solar_target *t, struct solar_conn *n,
                            const struct snic_ebs_hello *h)
{
    struct solar_session *s = &n->session;
    n->key_nonce = snic_rng_next(&t->rng);
    s->ops = t->wire.ops;
    s->secret = n->secret;
    s->client_id = h->client_id;
    s->client_nonce = h->nonce;
    s->server_nonce = n->key_nonce;
    s->client_conn = h->conn_id;
    s->server_conn = n->conn_id;
    s->client_epoch = h->epoch;
    s->server_epoch = t->o.srv_epoch;
}

uint32_t snic_solar_target_secrets(struct snic_solar_target *t, uint64_t now_ns)
{
    uint32_t ended = 0;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    for (uint32_t i = 0; i < t->o.conns_max && t->o.secret_of != NULL; i++) {
        struct solar_conn *n = &t->conns[i];
        if (!n->used)
            continue;
        n->secret = t->o.secret_of(t->o.secret_ctx, n->key_id, n->account);
        n->session.secret = n->secret;
        if (n->secret != NULL)
            continue;
        n->used = 0;
        memset(&n->session, 0, sizeof(n->session)); /* its keys, too */
        t->s.conns--;
        ended++;
    }
    return ended;
}

int snic_solar_target_secret_used(const struct snic_solar_target *t, const void *secret)
{
    for (uint32_t i = 0; i < t->o.conns_max; i++)
        if (t->conns[i].used && t->conns[i].secret == secret)
            return 1;
    return 0;
}

/* Until when its slot is not reassigned. A HELLO proves nothing: its address may be forged. */
static uint64_t solar_conn_until(const struct snic_solar_target *t, const struct solar_conn *n)
{
    uint64_t keep = n->proved ? t->o.idle_ns : snic_min_u64(t->o.idle_ns, SNIC_SOLAR__GREETED_NS);
    return n->used ? n->heard_ns + snic_min_u64(keep, SNIC_NEVER - n->heard_ns) : 0;
}

struct solar_conn *solar_conn_hello(struct snic_solar_target *t, const struct snic_ebs_hello *h,
                                    uint64_t pn, void *secret)
{
    uint64_t client_id = h->client_id;
    uint32_t base = (uint32_t)solar_conn_hash(t, client_id, t->o.seed);
    uint32_t ways = t->o.conns_max < SNIC_SOLAR__WAYS ? t->o.conns_max : SNIC_SOLAR__WAYS;
    struct solar_conn *n = NULL, *idle = NULL;
    for (uint32_t i = 0; i < ways; i++) {
        struct solar_conn *k = &t->conns[(base + i) & (t->o.conns_max - 1)];
        /* The id is no secret: a HELLO with it and another key must not end its connection. */
        if (k->used && k->client_id == client_id && k->secret == secret) {
            n = k;
            break;
        }
        if (idle == NULL || solar_conn_until(t, k) < solar_conn_until(t, idle))
            idle = k;
    }
    if (n == NULL && t->now_ns < solar_conn_until(t, idle)) {
        t->s.turned_away++;
        return NULL;
    }
    if (n == NULL || n->nonce != h->nonce || n->client != h->conn_id) {
        /* A replayed HELLO must not end the connection that was opened after it. */
        if (n != NULL && solar_target_auth(t) && pn <= n->hello_pn)
            return NULL;
        if (n == NULL) {
            n = idle;
            t->s.evicted += n->used;
            t->s.conns += !n->used;
        }
        solar_conn_fresh(t, n, (uint32_t)(n - t->conns), client_id);
        n->client = h->conn_id;
        n->nonce = h->nonce;
        n->heard_ns = t->now_ns;
        n->account = h->account;
        n->key_id = h->key_id;
        n->secret = secret;
        if (solar_target_auth(t))
            solar_conn_keys(t, n, h);
    }
    n->hello_pn = snic_max_u64(n->hello_pn, pn);
    return n;
}

void solar_conn_heard(struct snic_solar_target *t, struct solar_conn *n)
{
    n->heard_ns = t->now_ns;
    if (t->now_ns - t->epoch_ns >= 10 * SNIC_SOLAR__MS) {
        t->epoch++;
        t->epoch_ns = t->now_ns;
        t->active = t->active_now;
        t->active_now = 0;
    }
    if (n->epoch != t->epoch) {
        n->epoch = t->epoch;
        t->active_now++;
    }
}

/* Numbers continue when a path's port changes; packets lost in the change are missing, too. */
void solar_conn_seen(struct solar_conn *n, const struct snic_ebs_header *h,
                     const struct snic_ebs_peer *peer)
{
    struct snic_solar_target_client *s = &n->client_stats;
    struct solar_conn_path *p = &n->path[h->path_id];
    int32_t ahead = (int32_t)(h->path_seq - p->seen_seq);
    s->packets++;
    s->peer = *peer;
    s->paths += p->seen_gen == 0;
    if (p->seen_gen == 0 || ahead > 0) {
        s->missing += p->seen_gen == 0 ? 0 : (uint32_t)ahead - 1;
        s->rerolls += p->seen_gen != 0 && p->seen_gen != (256u | h->path_gen);
        p->seen_seq = h->path_seq;
        p->seen_gen = 256u | h->path_gen;
    } else if (ahead < 0 && s->missing > 0) {
        s->missing--;
    }
}

int snic_solar_target_get_client(const struct snic_solar_target *t, uint32_t slot,
                                 struct snic_solar_target_client *out)
{
    if (slot >= t->o.conns_max || !t->conns[slot].used)
        return SNIC_ENOENT;
    *out = t->conns[slot].client_stats;
    out->client_id = t->conns[slot].client_id;
    out->heard_ns = t->conns[slot].heard_ns;
    return 0;
}

void solar_conn_holds(struct solar_conn *n, const struct snic_ebs_request *q)
{
    struct solar_conn_path *p = &n->path[q->from.packet.path];
    if (p->held_gen != (256u | q->from.packet.gen)) {
        memset(p->held, 0, sizeof(p->held));
        p->held_gen = 256u | q->from.packet.gen;
        p->held_seq = q->from.packet.path_seq;
    }
    int32_t ahead = (int32_t)(q->from.packet.path_seq - p->held_seq);
    for (uint32_t i = 1; ahead > 0 && i <= 256 && i <= (uint32_t)ahead; i++)
        p->held[(p->held_seq + i) % 256 / 64] &= ~ebs_bit((p->held_seq + i) % 64);
    if (ahead > 0)
        p->held_seq = q->from.packet.path_seq;
    if (ahead > -256)
        p->held[q->from.packet.path_seq % 256 / 64] |= ebs_bit(q->from.packet.path_seq % 64);
}

void solar_conn_answers(struct solar_conn *n, const struct snic_ebs_request *q)
{
    struct solar_conn_path *p = &n->path[q->from.packet.path];
    if (p->held_gen == (256u | q->from.packet.gen) && p->held_seq - q->from.packet.path_seq < 256)
        p->held[q->from.packet.path_seq % 256 / 64] &= ~ebs_bit(q->from.packet.path_seq % 64);
}

void snic_solar_target_get_stats(const struct snic_solar_target *t,
                                 struct snic_solar_target_stats *out)
{
    *out = t->s;
    out->trains_out = ebs_pool_out(&t->pool.p);
}

int snic_solar_target_check(const struct snic_solar_target *t)
{
    uint32_t conns = 0;
    for (uint32_t i = 0; i < t->o.conns_max; i++) {
        const struct solar_conn *n = &t->conns[i];
        if (!n->used)
            continue;
        conns++;
        if ((n->conn_id & (t->o.conns_max - 1)) != i || n->conn_id == 0)
            return SNIC_ECORRUPT; /* J1 */
        for (uint32_t k = 0; k < SNIC_SOLAR_PATHS_MAX; k++) {
            uint32_t train = n->path[k].train;
            if (train == SNIC_SOLAR__NIL)
                continue;
            if (train >= t->pool.p.max || t->pool.trains[train].t.state != EBS_LENT_QUEUED ||
                t->pool.trains[train].ack_size == 0 || t->pool.trains[train].conn != i)
                return SNIC_ECORRUPT; /* J2 */
        }
    }
    if (conns != t->s.conns || t->s.writes_out > t->s.requests)
        return SNIC_ECORRUPT;
    return solar_pool_check(&t->pool);
}
