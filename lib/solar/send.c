/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sending: the choice of a path, of blocks, and their packets.
 *
 * A train is for one path and takes blocks of any RPCs that wait for its server, because most I/Os
 * are a block or two, and a train of one packet costs as much as one of fourteen. Writes of data,
 * writes without, and read requests have separate trains, since the packets of a train are of one
 * size; the kind whose first RPC is the oldest has the next one.
 */
#include "solar/solar_priv.h"

#define SNIC_SOLAR__SEND_LOOK 32 /* RPCs scanned for blocks that may go over this path */
#define SNIC_SOLAR__SEND_DARK 8  /* blocks at a time on a path that is not ALIVE */
/* A server silent for so long gets one at a time on such a path: it may be overloaded. */
#define SNIC_SOLAR__SEND_SILENT_NS SNIC_SOLAR__LATE_MAX
#define SNIC_SOLAR__SEND_SLACK 16                   /* hedges that need no budget */
#define SNIC_SOLAR__TOKEN_NS (300 * SNIC_SOLAR__US) /* it is not sent to a server again before */

const unsigned char solar_zeros[SNIC_EBS_BLOCK_BYTES];

/* ---- Packets ---- */

static void solar_head(struct snic_solar *c, struct solar_server *s, struct solar_path *p,
                       struct snic_ebs_header *h, uint32_t type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->path_id = p->index;
    h->path_gen = (uint8_t)p->gen;
    h->conn_id = s->conn_id;
    h->path_seq = p->next_seq;
    h->tx_ts = (uint32_t)c->q.now_ns;
    h->srv_epoch = s->srv_epoch;
    h->pn = p->pn = solar_session_next(&s->session, SNIC_EBS_TO_SERVER, p->pn);
    h->pkt_cnt = 1;
}

static void solar_block_part(struct snic_solar *c, const struct solar_rpc *r, uint32_t pkt,
                             struct snic_ebs_block *b)
{
    b->vd_id = c->q.disks[r->q.disk].vd_id;
    b->seg_id = r->q.seg_id;
    b->lba = r->q.lba + pkt;
    b->wver = r->q.wver;
    b->seg_gen = r->q.seg_gen;
    b->blk_off = (uint16_t)((r->q.lba + pkt) % SNIC_EBS_SEGMENT_BLOCKS);
    b->blk_cnt = 1;
    b->tenant = (uint16_t)r->q.disk;
}

/* @p soft: the owner's crc function was wrong: compute it in software. */
static uint32_t solar_crc(const struct snic_solar *c, const void *data, int soft)
{
    return c->o.crc != NULL && !soft ? c->o.crc(c->o.crc_ctx, data, SNIC_EBS_BLOCK_BYTES)
                                     : snic_crc32c(0, data, SNIC_EBS_BLOCK_BYTES);
}

/* Bytes of a packet beside its body. */
static uint32_t solar_around(const struct snic_solar *c, struct solar_server *s)
{
    return SNIC_EBS_HEADER_BYTES +
           ((c->o.flags & SNIC_SOLAR_INT) != 0 ? (uint32_t)SNIC_EBS_INT_BYTES : 0u) +
           solar_wire_tail(solar_session_of(s));
}

/* May a packet of @p size follow in this train? */
static int solar_fits(const struct solar_train *t, uint32_t size)
{
    return t->t.packets == 0 || (t->t.packets < SNIC_SOLAR_TRAIN_MAX && size <= t->t.segment &&
                                 t->t.bytes == t->t.packets * t->t.segment);
}

/* The block's bytes as they are sent, their checksum, and with a key the plaintext's tag. @return
 * NULL: the cipher failed */
static const void *solar_write_data(struct snic_solar *c, struct solar_train *t,
                                    struct solar_rpc *r, uint32_t pkt)
{
    struct solar_blk *b = &r->b[pkt];
    void *key = c->q.disks[r->q.disk].xts_key;
    const void *plain = solar_rpc_buffer(r, pkt), *data = plain;
    if (key != NULL) {
        unsigned char *out = t->cipher + (size_t)t->t.packets * SNIC_EBS_BLOCK_BYTES;
        if (snic_ebs_xts_encrypt(c->o.sec, key, r->q.lba + pkt, out, plain) != 0)
            return NULL;
        data = out;
    }
    if (!b->summed) {
        b->block_tag =
            key == NULL ? 0 : snic_ebs_tag(&c->q.disks[r->q.disk].tag, r->q.lba + pkt, plain);
        b->data_crc = solar_crc(c, data, b->soft);
    }
    return data;
}

/* @return 0 added; SNIC_EIO the cipher failed */
static int solar_put_write(struct snic_solar *c, struct solar_path *p, struct solar_train *t,
                           struct solar_rpc *r, uint32_t pkt, uint32_t flags)
{
    struct solar_server *s = solar_server_of(c, p);
    struct solar_blk *b = &r->b[pkt];
    struct snic_ebs_header h;
    const void *data = NULL;
    uint32_t n = t->t.packets;
    if (r->q.op == SNIC_EBS_IO_WRITE && (data = solar_write_data(c, t, r, pkt)) == NULL)
        return SNIC_EIO;
    solar_head(c, s, p, &h, SNIC_EBS_WRITE);
    h.flags = (uint16_t)(flags | ((c->o.flags & SNIC_SOLAR_INT) != 0 ? SNIC_EBS_INT_REQ : 0) |
                         (c->q.disks[r->q.disk].xts_key != NULL ? SNIC_EBS_XTS : 0) |
                         (b->tries > 0 ? SNIC_EBS_RETX : 0));
    h.attempt = b->tries;
    h.rpc_id = r->q.id;
    h.pkt_id = (uint16_t)pkt;
    h.pkt_cnt = r->q.count;
    solar_block_part(c, r, pkt, &h.u.block);
    h.u.block.op = (uint8_t)(r->q.op - SNIC_EBS_IO_WRITE);
    if (data == NULL)
        b->data_crc = SNIC_EBS_CRC_ZEROS;
    h.u.block.data_crc = b->data_crc;
    h.u.block.block_tag = b->block_tag;
    if (!b->summed)
        b->bind_crc = snic_ebs_bind_crc(&h.u.block);
    b->summed = 1;
    h.u.block.bind_crc = b->bind_crc;
    if (solar_wire_add(&c->wire, solar_session_of(s), NULL, t, SNIC_EBS_TO_SERVER, &h, data,
                       data == NULL ? 0 : SNIC_EBS_BLOCK_BYTES, 0) != 0)
        return SNIC_EIO;
    struct solar_tx *x = solar_path_push(c, p, SOLAR_TX_WRITE, 1);
    x->rpc_id = r->q.id;
    x->pkt = (uint8_t)pkt;
    b->path = p->index;
    b->seq = x->seq;
    b->tried |= (uint16_t)(1u << p->index);
    r->q.sent = 1;
    t->rpc[n] = data != NULL ? r : NULL;
    r->q.refs += data != NULL;
    return 0;
}

/* Request @p blocks, at most 16. @return 0; SNIC_EAGAIN the Addr table is full; SNIC_EIO */
static int solar_put_read(struct snic_solar *c, struct solar_path *p, struct solar_train *t,
                          struct solar_rpc *r, uint64_t blocks, uint32_t flags)
{
    struct solar_server *s = solar_server_of(c, p);
    unsigned char slots[SNIC_EBS_READ_BLOCKS * SNIC_EBS_SLOT_BYTES];
    struct snic_ebs_header h;
    uint32_t n = t->t.packets, count = 0;
    for (uint64_t left = blocks; left != 0; left &= left - 1, count++) {
        uint32_t pkt = ebs_lowest(left);
        struct solar_blk *b = &r->b[pkt];
        struct snic_ebs_expect e = {
            .rpc_id = r->q.id, .seg_id = r->q.seg_id, .lba = r->q.lba + pkt};
        e.dest = (uintptr_t)solar_rpc_buffer(r, pkt);
        e.pkt_id = (uint16_t)pkt;
        e.length = SNIC_EBS_BLOCK_BYTES;
        if (!b->slotted && snic_ebs_addr_put(c->addr, &e, &b->slot, &b->gen) != 0)
            return SNIC_EAGAIN;
        b->slotted = 1;
        snic_ebs_slot_put(slots, count, b->slot, b->gen);
    }
    solar_head(c, s, p, &h, SNIC_EBS_READ_REQ);
    h.flags = (uint16_t)(flags | ((c->o.flags & SNIC_SOLAR_INT) != 0 ? SNIC_EBS_INT_REQ : 0));
    h.rpc_id = r->q.id;
    h.pkt_id = (uint16_t)ebs_lowest(blocks);
    h.pkt_cnt = r->q.count;
    solar_block_part(c, r, 0, &h.u.block);
    h.u.block.blk_cnt = r->q.count;
    h.u.block.need_mask = blocks;
    h.u.block.op = ebs_rpc_is_states(&r->q) ? SNIC_EBS_STATES : SNIC_EBS_DATA;
    h.u.block.bind_crc = snic_ebs_bind_crc(&h.u.block);
    if (solar_wire_add(&c->wire, solar_session_of(s), NULL, t, SNIC_EBS_TO_SERVER, &h, slots,
                       count * SNIC_EBS_SLOT_BYTES, 1) != 0)
        return SNIC_EIO;
    struct solar_tx *x = solar_path_push(c, p, SOLAR_TX_READ, count);
    x->rpc_id = r->q.id;
    x->need = blocks;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[ebs_lowest(left)];
        b->path = p->index;
        b->seq = x->seq;
        b->tried |= (uint16_t)(1u << p->index);
    }
    r->q.sent = 1;
    t->rpc[n] = NULL;
    return 0;
}

/* ---- A train ---- */

static void solar_train_leave(struct snic_solar *c, struct solar_path *p, struct solar_train *t)
{
    t->t.server = p->server;
    t->t.path = p->index;
    t->t.gen = p->gen;
    c->s.trains++;
    c->s.packets += t->t.packets;
    solar_train_queue(&c->pool, t);
    solar_path_arm(c, p);
}

/* 1: SEND_DARK blocks at a time may go there, however many were lost. */
static int solar_is_dark(const struct solar_path *p)
{
    const struct snic_solar *c = p->c;
    return p->state != SNIC_SOLAR_ALIVE &&
           solar_server_silence(c, &c->servers[p->server]) < SNIC_SOLAR__SEND_SILENT_NS;
}

static uint32_t solar_room(const struct solar_path *p)
{
    uint32_t window = solar_cc_window(&p->cc) / SNIC_SOLAR__ONE;
    uint32_t ring = SNIC_SOLAR__RING - 1 - (p->next_seq - p->una);
    if (window < SNIC_SOLAR__SEND_DARK && solar_is_dark(p))
        window = SNIC_SOLAR__SEND_DARK;
    if (window == 0)
        window = 1;
    if (window <= p->inflight)
        return 0;
    return window - p->inflight < ring ? window - p->inflight : ring;
}

/* Where blocks go: over ALIVE paths without a timeout since they were heard, or else over all that
   have a socket. On a fabric that loses most packets a path is ALIVE by luck now and then: if only
   that one were used, everything would wait for its timeouts. */
static uint16_t solar_good_paths(const struct solar_server *s)
{
    uint16_t good = s->alive_mask;
    for (uint32_t left = good; left != 0; left &= left - 1)
        if (s->paths[__builtin_ctz(left)].timeouts > 0)
            good &= (uint16_t) ~(left & (0 - left));
    return good != 0 ? good : s->usable_mask;
}

/* Those of @p blocks that may go over @p p: not again those that have another path left. */
static uint64_t solar_fresh_here(struct snic_solar *c, const struct solar_path *p,
                                 const struct solar_rpc *r, uint64_t blocks)
{
    const struct solar_server *s = &c->servers[p->server];
    uint16_t good = solar_good_paths(s);
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        const struct solar_blk *b = &r->b[ebs_lowest(left)];
        if ((b->tried >> p->index & 1) != 0 && (good & ~b->tried) != 0)
            blocks &= ~ebs_bit(ebs_lowest(left));
    }
    return blocks;
}

/* A copy of these was sent over @p p; a block whose copies are sent, or without another path, is no
   longer to be sent. */
static void solar_copied(struct snic_solar *c, const struct solar_path *p, struct solar_rpc *r,
                         uint64_t blocks)
{
    const struct solar_server *s = &c->servers[p->server];
    uint16_t good = solar_good_paths(s);
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        struct solar_blk *b = &r->b[ebs_lowest(left)];
        if (b->copies > 0)
            b->copies--;
        int more = b->copies > 0 && (good & ~b->tried) != 0;
        if ((good & ~b->tried) == 0)
            b->tried = 0;
        if (!more)
            r->need &= ~ebs_bit(ebs_lowest(left));
    }
    c->s.retransmits += ebs_ones(blocks);
}

/* Put blocks of @p r into the train. @return their number */
static uint32_t solar_fill(struct snic_solar *c, struct solar_path *p, struct solar_train *t,
                           struct solar_rpc *r, uint64_t blocks, uint32_t room)
{
    struct solar_server *s = solar_server_of(c, p);
    uint32_t done = 0, around = solar_around(c, s);
    while (blocks != 0 && done < room && t->t.packets < SNIC_SOLAR_TRAIN_MAX) {
        uint64_t part = blocks & (0 - blocks);
        if (r->q.op == SNIC_EBS_IO_READ) {
            uint32_t most = (uint32_t)snic_min_u64(SNIC_EBS_READ_BLOCKS, room - done);
            for (uint64_t left = blocks & ~part; left != 0 && ebs_ones(part) < most;
                 left &= left - 1)
                part |= left & (0 - left);
            uint32_t size = around + ebs_ones(part) * SNIC_EBS_SLOT_BYTES;
            if (!solar_fits(t, size) || solar_put_read(c, p, t, r, part, 0) != 0)
                break;
        } else {
            uint32_t size = around + (r->q.op == SNIC_EBS_IO_WRITE ? SNIC_EBS_BLOCK_BYTES : 0);
            if (s->write_out >= s->credit || !solar_fits(t, size))
                break;
            if (solar_put_write(c, p, t, r, ebs_lowest(part), 0) != 0)
                break;
        }
        s->sent += ebs_ones(part);
        done += ebs_ones(part);
        blocks &= ~part;
        if (ebs_lowest(part) >= r->next) {
            uint8_t next = (uint8_t)(64 - (uint32_t)__builtin_clzll(part));
            s->load->backlog -= (uint32_t)(next - r->next);
            r->next = next;
        } else {
            solar_copied(c, p, r, part);
        }
    }
    return done;
}

/* The first RPC from @p l on, of the SEND_LOOK scanned, with blocks that may go over @p p again.
   @return NULL: none */
static struct solar_rpc *solar_next_again(struct snic_solar *c, const struct solar_path *p,
                                          const struct snic_link *list, struct snic_link *l,
                                          uint32_t *looked)
{
    for (; l != list && ++*looked <= SNIC_SOLAR__SEND_LOOK; l = l->next) {
        struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, q.link);
        if (solar_fresh_here(c, p, r, r->need) != 0)
            return r;
    }
    return NULL;
}

static struct solar_rpc *solar_first_ready(const struct solar_server *s, int kind)
{
    return snic_link_alone(&s->ready[kind])
               ? NULL
               : SNIC_CONTAINER(s->ready[kind].next, struct solar_rpc, q.link);
}

/* The kind in @p open whose first RPC that may go over @p p is the oldest: were it always writes,
   reads would not be sent while windows are full and writes wait.
   @return SOLAR_KINDS: none */
static int solar_turn(struct snic_solar *c, const struct solar_server *s,
                      const struct solar_path *p, uint32_t open)
{
    uint64_t first_ns = SNIC_NEVER;
    int turn = SOLAR_KINDS;
    for (int kind = s->write_out < s->credit ? 0 : SOLAR_READ; kind < SOLAR_KINDS; kind++) {
        const struct snic_link *list = &s->again[kind];
        uint32_t looked = 0;
        if ((open >> kind & 1) == 0)
            continue;
        const struct solar_rpc *first = solar_next_again(c, p, list, list->next, &looked);
        const struct solar_rpc *ready = solar_first_ready(s, kind);
        if (first == NULL || (ready != NULL && ready->turn_ns < first->turn_ns))
            first = ready;
        if (first != NULL && first->turn_ns < first_ns) {
            first_ns = first->turn_ns;
            turn = kind;
        }
    }
    return turn;
}

/* Load blocks of @p kind that may go over @p p, the oldest RPC's first. @return their number */
static uint32_t solar_load(struct snic_solar *c, struct solar_server *s, struct solar_path *p,
                           struct solar_train *t, int kind)
{
    const struct snic_link *list = &s->again[kind];
    uint32_t room = solar_room(p), done = 0, looked = 0;
    struct solar_rpc *again = solar_next_again(c, p, list, list->next, &looked), *ready;
    int full = 0;
    while (done < room && t->t.packets < SNIC_SOLAR_TRAIN_MAX) {
        ready = full ? NULL : solar_first_ready(s, kind);
        if (again != NULL && (ready == NULL || again->turn_ns <= ready->turn_ns)) {
            struct solar_rpc *r = again;
            again = solar_next_again(c, p, list, r->q.link.next, &looked);
            done += solar_fill(c, p, t, r, solar_fresh_here(c, p, r, r->need), room - done);
            if (r->need == 0)
                solar_rpc_list(c, r);
            continue;
        }
        if (ready == NULL)
            break;
        /* New blocks go over ALIVE paths, as long as there are any; see solar_pick(). */
        done += solar_fill(c, p, t, ready, ready->q.all & ~ebs_mask(ready->next), room - done);
        full = ready->next < ready->q.count;
        if (!full)
            solar_rpc_list(c, ready);
    }
    return done;
}

/* Build a train on @p p. @return its blocks; 0: no block may go there */
static uint32_t solar_build(struct snic_solar *c, struct solar_server *s, struct solar_path *p)
{
    struct solar_train *t = solar_train_take(&c->pool);
    uint32_t done = 0, open = (1u << SOLAR_KINDS) - 1;
    int kind;
    if (t == NULL)
        return 0;
    while (t->t.packets == 0 && (kind = solar_turn(c, s, p, open)) != SOLAR_KINDS) {
        done = solar_load(c, s, p, t, kind);
        open &= ~(1u << kind); /* a cipher that fails, a table that is full: try other kinds */
    }
    if (t->t.packets == 0) {
        solar_train_free(&c->pool, t);
        return 0;
    }
    if (p->srtt_ns != 0 && !solar_is_dark(p))
        p->pace_ns = snic_max_u64(p->pace_ns, c->q.now_ns) + done * solar_cc_interval(p);
    solar_train_leave(c, p, t);
    return done;
}

/* ---- The choice of a path ---- */

static uint64_t solar_score(const struct solar_path *p)
{
    uint64_t window = snic_max_u64(solar_cc_window(&p->cc), 1);
    uint64_t load = SNIC_SOLAR__ONE + (uint64_t)p->inflight * SNIC_SOLAR__ONE * 1024 / window;
    return snic_max_u64(p->srtt_ns, 1) * load / 1024 * (1 + 4 * (uint64_t)p->timeouts);
}

/* 1: the next train may leave over @p p. Right behind another (@p behind) one more than the pace
   permits may: both have one answer, and the burst is two trains. */
static int solar_pick_may(struct snic_solar *c, struct solar_path *p, int behind)
{
    uint64_t ahead = behind ? SNIC_SOLAR_TRAIN_MAX * solar_cc_interval(p) : 0;
    if (p->pace_ns <= c->q.now_ns + ahead)
        return 1;
    p->paced = 1;
    solar_path_arm(c, p);
    return 0;
}

/* The better of two random paths: one that takes all waiting blocks in a train, then the lower
   score. */
static struct solar_path *solar_pick_of(struct solar_path *a, struct solar_path *b, uint32_t want)
{
    int whole_a = solar_room(a) >= want, whole_b = solar_room(b) >= want;
    if (whole_a != whole_b)
        return whole_a ? a : b;
    return solar_score(a) <= solar_score(b) ? a : b;
}

/* Choose a path for @p want blocks, or for some of them. */
static struct solar_path *solar_pick(struct snic_solar *c, struct solar_server *s, uint32_t want,
                                     uint32_t not_these)
{
    struct solar_path *can[SNIC_SOLAR_PATHS_MAX];
    uint32_t n = 0;
    uint32_t mask = solar_good_paths(s);
    for (mask &= ~not_these; mask != 0; mask &= mask - 1) {
        struct solar_path *p = &s->paths[__builtin_ctz(mask)];
        if (solar_room(p) > 0 && solar_pick_may(c, p, 0))
            can[n++] = p;
    }
    if (n <= 1)
        return n == 0 ? NULL : can[0];
    uint64_t draw = snic_rng_next(&c->q.rng);
    struct solar_path *a = can[(uint32_t)draw % n], *b = can[(uint32_t)(draw >> 32) % n];
    if ((draw >> 24 & 31) == 0)
        return a;
    return solar_pick_of(a, b, want);
}

static int solar_has_work(const struct solar_server *s)
{
    for (int kind = 0; kind < SOLAR_KINDS; kind++)
        if (!snic_link_alone(&s->again[kind]) || !snic_link_alone(&s->ready[kind]))
            return 1;
    return 0;
}

static void solar_send_server(struct snic_solar *c, struct solar_server *s)
{
    struct solar_path *p = NULL;
    uint32_t tried = 0;
    while (solar_has_work(s) && c->pool.p.free_count > 0) {
        uint32_t want =
            s->load->backlog < SNIC_SOLAR_TRAIN_MAX ? s->load->backlog : SNIC_SOLAR_TRAIN_MAX;
        if (p == NULL || solar_room(p) < want || !solar_pick_may(c, p, 1))
            p = solar_pick(c, s, want, tried);
        if (p == NULL)
            return;
        if (solar_build(c, s, p) == 0) {
            tried |= 1u << p->index;
            p = NULL;
        }
    }
}

void solar_send(struct snic_solar *c)
{
    for (uint32_t i = 0; i < c->q.servers_high; i++) {
        struct solar_server *s = &c->servers[(c->turn + i) % c->q.servers_high];
        if (s->load->used && s->up)
            solar_send_server(c, s);
    }
    c->turn = c->q.servers_high != 0 ? (c->turn + 1) % c->q.servers_high : 0;
    c->s.train_waits += c->pool.p.free_count == 0;
}

/* ---- Single packets ---- */

static int solar_send_one(struct snic_solar *c, struct solar_path *p, struct snic_ebs_header *h,
                          uint32_t padding)
{
    struct solar_server *s = solar_server_of(c, p);
    struct solar_train *t = solar_train_take(&c->pool);
    if (t == NULL)
        return 0;
    t->rpc[0] = NULL;
    if (solar_wire_add(&c->wire, solar_session_of(s), s->secret, t, SNIC_EBS_TO_SERVER, h,
                       solar_zeros, padding, 0) != 0) {
        solar_train_free(&c->pool, t);
        return 0;
    }
    solar_train_leave(c, p, t);
    return 1;
}

int solar_send_probe(struct snic_solar *c, struct solar_path *p, uint32_t padding)
{
    struct solar_server *s = solar_server_of(c, p);
    struct snic_ebs_header h;
    if (!s->up || c->pool.p.free_count == 0 || p->next_seq - p->una >= SNIC_SOLAR__RING - 1)
        return 0;
    solar_head(c, s, p, &h, SNIC_EBS_PROBE);
    h.u.probe.probe_bytes = SNIC_EBS_HEADER_BYTES + padding;
    h.u.probe.nonce = snic_rng_next(&c->q.rng);
    struct solar_tx *x = solar_path_push(c, p, SOLAR_TX_PROBE, 0);
    h.u.probe.proof = p->proof;
    h.u.probe.key_id = s->key_id;
    h.u.probe.account = s->account;
    x->need = h.u.probe.nonce;
    return solar_send_one(c, p, &h, padding);
}

int solar_send_hello(struct snic_solar *c, struct solar_path *p)
{
    struct solar_server *s = solar_server_of(c, p);
    struct snic_ebs_header h;
    for (uint32_t i = 0; i < c->path_slots; i++) /* a HELLO's pn is the highest of all paths */
        p->pn = snic_max_u64(p->pn, s->paths[i].pn);
    solar_head(c, s, p, &h, SNIC_EBS_HELLO);
    h.u.hello.ver_min = SNIC_EBS_VERSION;
    h.u.hello.ver_max = SNIC_EBS_VERSION;
    h.u.hello.conn_id = s->mine;
    h.u.hello.features = SNIC_EBS_FEATURE_ACKV |
                         ((c->o.flags & SNIC_SOLAR_INT) != 0 ? SNIC_EBS_FEATURE_INT : 0) |
                         (s->secret != NULL ? SNIC_EBS_FEATURE_AUTH : 0);
    h.u.hello.key_id = s->key_id;
    h.u.hello.account = s->account;
    h.u.hello.nonce = s->nonce;
    h.u.hello.epoch = c->o.client_epoch;
    h.u.hello.payload_max = SNIC_EBS_PACKET_BYTES;
    h.u.hello.client_id = c->client_id;
    h.u.hello.proof = p->proof;
    if (!solar_send_one(c, p, &h, SNIC_SOLAR__PADDING))
        return 0;
    solar_server_expect(c, s);
    c->s.hellos++;
    return 1;
}

/* One of the paths in @p mask, at random. */
static uint32_t solar_any_path(struct snic_solar *c, uint32_t mask)
{
    for (uint32_t skip = (uint32_t)snic_rng_below(&c->q.rng, ebs_ones(mask)); skip > 0; skip--)
        mask &= mask - 1;
    return (uint32_t)__builtin_ctz(mask);
}

static void solar_send_fence_on(struct snic_solar *c, struct solar_rpc *r, struct solar_path *p)
{
    struct snic_ebs_header h;
    solar_head(c, &c->servers[r->q.server], p, &h, SNIC_EBS_FENCE);
    h.rpc_id = r->q.id;
    solar_block_part(c, r, 0, &h.u.block);
    h.u.block.blk_cnt = 0;
    h.u.block.wver = r->q.wver + 1;
    h.u.block.bind_crc = snic_ebs_bind_crc(&h.u.block);
    (void)solar_send_one(c, p, &h, 0);
}

void solar_send_fence(struct snic_solar *c, struct solar_rpc *r, uint32_t copies)
{
    const struct solar_server *s = &c->servers[r->q.server];
    uint32_t mask = s->alive_mask != 0 ? s->alive_mask : s->usable_mask;
    for (; s->up && mask != 0 && copies > 0; copies--) {
        uint32_t path = solar_any_path(c, mask);
        solar_send_fence_on(c, r, &s->paths[path]);
        mask &= ~(1u << path);
    }
}

int solar_send_token(struct snic_solar *c, struct solar_server *s, uint32_t disk)
{
    const struct ebs_disk *d = &c->q.disks[disk];
    uint32_t mask = s->alive_mask != 0 ? s->alive_mask : s->usable_mask;
    struct snic_ebs_header h;
    /* Many blocks are refused together; one TOKEN serves all of them. */
    if (!s->up || mask == 0 || (s->token_ns > c->q.now_ns && s->token_id == ebs_disk_token_id(d)))
        return 0;
    struct solar_path *p = &s->paths[solar_any_path(c, mask)];
    s->token_ns = c->q.now_ns + SNIC_SOLAR__TOKEN_NS;
    s->token_id = ebs_disk_token_id(d);
    solar_head(c, s, p, &h, SNIC_EBS_TOKEN);
    h.rpc_id = s->token_id;
    memcpy(h.u.token, d->token, sizeof(h.u.token));
    c->s.tokens++;
    return solar_send_one(c, p, &h, 0);
}

/* The last packet of @p from has no answer, and no later one can reveal its loss: send a copy over
   another path. */
int solar_send_hedge(struct snic_solar *c, struct solar_path *from)
{
    struct solar_server *s = solar_server_of(c, from);
    struct solar_tx *x = solar_path_find(from, from->next_seq - 1);
    struct solar_rpc *r = x == NULL ? NULL : solar_rpc_find(c, x->rpc_id);
    /* Its segment may have moved: then all of the RPC was restarted there. */
    if (r == NULL || r->q.server != from->server || !s->up || c->pool.p.free_count == 0 ||
        s->hedged >= s->sent / 10 + SNIC_SOLAR__SEND_SLACK)
        return 0;
    uint64_t blocks =
        x->kind == SOLAR_TX_READ ? x->need & ~r->q.acked : ebs_bit(x->pkt) & ~r->q.acked;
    struct solar_path *p = solar_pick(c, s, 1, 1u << from->index);
    if (blocks == 0 || p == NULL || r->q.where == EBS_RPC_PARKED || ebs_rpc_is_over(&r->q) ||
        s->alive_mask == 0)
        return 0;
    struct solar_train *t = solar_train_take(&c->pool);
    int bad = x->kind == SOLAR_TX_READ
                  ? solar_put_read(c, p, t, r, blocks, SNIC_EBS_HEDGE)
                  : solar_put_write(c, p, t, r, ebs_lowest(blocks), SNIC_EBS_HEDGE);
    if (bad) {
        solar_train_free(&c->pool, t);
        return 0;
    }
    s->hedged += ebs_ones(blocks);
    c->s.hedges++;
    c->s.retransmits += ebs_ones(blocks);
    r->q.io->retries += ebs_ones(blocks);
    if (s->sent > (1u << 20)) { /* the budget decays: it covers recent traffic only */
        s->sent /= 2;
        s->hedged /= 2;
    }
    solar_train_leave(c, p, t);
    return 1;
}
