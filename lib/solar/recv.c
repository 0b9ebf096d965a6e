/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets received by the agent. First it checks that a packet is for this connection and from its
 * server (ids, nonce, token), then applies it to the path, then to the blocks: a late answer is
 * useless for the path and as good as any for its block.
 */
#include "solar/solar_priv.h"

/* Damaged answers in a row before a block counts as damaged at the server. */
#define SNIC_SOLAR__WRONG 8

struct solar_in {
    struct solar_server *s;
    struct solar_path *p; /* whose socket received it */
    const unsigned char *bytes;
    const unsigned char *body; /* decrypted, with AUTH */
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    uint64_t arrived_ns; /* arrival at this host; recv may be called later */
    int ce;
};

/* The owner's crc function may be wrong: a mismatch is verified in software. */
static int solar_recv_damaged(const struct snic_solar *c, const void *data, uint32_t crc)
{
    if (c->o.crc != NULL && c->o.crc(c->o.crc_ctx, data, SNIC_EBS_BLOCK_BYTES) == crc)
        return 0;
    return snic_crc32c(0, data, SNIC_EBS_BLOCK_BYTES) != crc;
}

static struct solar_path *solar_in_path(struct snic_solar *c, const struct solar_in *in,
                                        uint32_t path, uint32_t gen)
{
    struct solar_path *p = path < c->path_slots ? &in->s->paths[path] : NULL;
    return p != NULL && p->state > SNIC_SOLAR_OPENING && (p->gen & 0xffu) == gen ? p : NULL;
}

/* ---- An answer and its path ---- */

/* Without a receive timestamp, the answer may have waited in the socket during the owner's stall.
   A sample without the stall may be too small: it never lowers the least RTT. */
static uint64_t solar_in_rtt(const struct snic_solar *c, const struct solar_in *in,
                             const struct solar_path *q, const struct solar_tx *x)
{
    uint64_t rtt = (in->arrived_ns > x->sent_ns ? in->arrived_ns : c->q.now_ns) - x->sent_ns;
    if (x->sent_ns < c->stall_to_ns && q->min_rtt_ns != 0)
        rtt = snic_min_u64(rtt, snic_max_u64(solar_waited(c, x->sent_ns), q->min_rtt_ns));
    return rtt;
}

static void solar_in_sample(struct snic_solar *c, const struct solar_in *in, struct solar_path *q,
                            uint64_t rtt_ns, uint32_t hold_ns, uint32_t blocks, int ce)
{
    solar_path_rtt(c, q, rtt_ns);
    solar_cc_ack(c, q, rtt_ns, hold_ns, blocks, in->ce || ce);
    q->acked += blocks;
}

/* No transmission of that number is in flight: it was declared lost too early. */
static void solar_in_spurious(struct snic_solar *c, struct solar_path *q, uint32_t seq,
                              uint32_t echo_ts)
{
    if ((int32_t)(seq - q->next_seq) >= 0)
        return;
    c->s.spurious++;
    solar_server_was_late(c, solar_server_of(c, q), (uint32_t)((uint32_t)c->q.now_ns - echo_ts));
    if (q->reorder < SNIC_SOLAR__REORDER_MAX)
        q->reorder *= 2;
}

/* ---- Acknowledgements ---- */

/* The status of a READ_REQ is that of all its blocks. */
static void solar_in_status(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks,
                            uint32_t status, uint32_t retry_us)
{
    uint64_t id = r->q.id;
    for (uint64_t left = blocks; left != 0; left &= left - 1) {
        solar_rpc_status(c, r, ebs_lowest(left), status, retry_us);
        if (r->q.id != id || r->q.where == EBS_RPC_FREE)
            return;
    }
}

static void solar_in_block(struct snic_solar *c, struct solar_in *in, const struct snic_ebs_ack *a,
                           uint64_t requested, uint32_t retry_us)
{
    struct solar_rpc *r = solar_rpc_find(c, a->rpc_id);
    /* A block never sent has no answer. An answer to a READ_REQ is for all its blocks. */
    if (r == NULL || r->q.server != in->s->index || (requested == 0 && a->pkt_id >= r->next)) {
        c->s.late++;
        return;
    }
    if (r->q.op == SNIC_EBS_IO_READ &&
        (a->status == SNIC_EBS_OK || a->status == SNIC_EBS_SUPERSEDED)) {
        solar_rpc_again(c, r,
                        requested & ~r->q.acked); /* no valid answer: only data complete a read */
        return;
    }
    if (r->q.op != SNIC_EBS_IO_READ &&
        (a->status == SNIC_EBS_OK || a->status == SNIC_EBS_SUPERSEDED) &&
        a->srv_crc != r->b[a->pkt_id].bind_crc) {
        /* The stored block is not the one sent: damaged there, or of another mapping. */
        c->s.data_crc++;
        solar_rpc_status(c, r, a->pkt_id, SNIC_EBS_BAD_CRC, 0);
        return;
    }
    solar_in_status(c, r, requested != 0 ? requested : ebs_bit(a->pkt_id), a->status, retry_us);
}

/* All answers of one datagram for one path are one sample: of the latest transmission of them. */
struct solar_newest {
    struct solar_path *of;
    struct solar_tx x;
    uint32_t hold_ns;
    uint32_t blocks;
    int ce;
};

static void solar_in_over(struct snic_solar *c, const struct solar_in *in,
                          const struct solar_newest *n)
{
    if (n->of == NULL)
        return;
    solar_in_sample(c, in, n->of, solar_in_rtt(c, in, n->of, &n->x), n->hold_ns, n->blocks, n->ce);
    solar_path_lose_before(c, n->of, &n->x);
}

/* @p x is answered; @p flags are the answer's. */
static void solar_in_newest(struct snic_solar *c, const struct solar_in *in, struct solar_newest *n,
                            struct solar_path *q, const struct solar_tx *x, uint32_t hold_ns,
                            uint32_t flags)
{
    if (n->of != q) {
        solar_in_over(c, in, n);
        memset(n, 0, sizeof(*n));
    }
    if (n->of == NULL || (int32_t)(x->seq - n->x.seq) > 0) {
        n->x = *x;
        n->hold_ns = hold_ns;
    }
    n->of = q;
    n->blocks++;
    n->ce |= (flags & SNIC_EBS_CE_ECHO) != 0;
}

static void solar_in_ack(struct snic_solar *c, struct solar_in *in, const struct snic_ebs_ack *a,
                         struct solar_newest *newest, uint32_t retry_us)
{
    struct solar_path *q = solar_in_path(c, in, a->path_id, a->path_gen);
    struct solar_tx *x = q == NULL ? NULL : solar_path_find(q, a->path_seq);
    uint64_t requested = 0;
    if (x != NULL && (x->rpc_id != a->rpc_id || x->kind == SOLAR_TX_PROBE ||
                      (x->kind == SOLAR_TX_WRITE && x->pkt != a->pkt_id)))
        return; /* its fields contradict each other */
    if (x != NULL) {
        requested = x->kind == SOLAR_TX_READ ? x->need : 0;
        solar_in_newest(c, in, newest, q, x, a->hold_ns, a->flags);
        solar_path_release(c, q, x);
    } else if (q != NULL) {
        solar_in_spurious(c, q, a->path_seq, a->echo_ts);
    }
    solar_in_block(c, in, a, requested, retry_us);
}

static void solar_in_telemetry(struct snic_solar *c, struct solar_in *in, uint32_t ack_seq)
{
    struct snic_ebs_int telemetry;
    if (in->place.int_at == 0)
        return;
    snic_ebs_int_get(&telemetry, in->bytes + in->place.int_at);
    solar_cc_int(c, in->p, &telemetry, ack_seq);
}

static void solar_in_acks(struct snic_solar *c, struct solar_in *in)
{
    struct solar_newest newest = {.of = NULL};
    struct snic_ebs_ack a;
    memset(&a, 0, sizeof(a));
    for (uint32_t i = 0; i < in->h.pkt_cnt; i++) {
        snic_ebs_ack_get(&a, in->body, i);
        solar_in_ack(c, in, &a, &newest, 0);
    }
    solar_in_over(c, in, &newest);
    solar_in_telemetry(c, in, a.path_seq);
}

/* WACK and NAK: one packet, identified by the header. */
static void solar_in_single(struct snic_solar *c, struct solar_in *in)
{
    const struct snic_ebs_header *h = &in->h;
    struct solar_newest newest = {.of = NULL};
    struct snic_ebs_ack a = {.rpc_id = h->rpc_id, .pkt_id = h->pkt_id, .status = h->status};
    uint32_t retry_us = h->type == SNIC_EBS_NAK ? h->u.nak.retry_us : 0;
    a.path_seq = h->ack_seq;
    a.path_id = h->ack_path_id;
    a.path_gen = h->ack_path_gen;
    a.echo_ts = h->echo_ts;
    a.hold_ns = h->hold_ns;
    a.flags = h->flags;
    if (h->type == SNIC_EBS_WACK)
        a.srv_crc = h->u.block.srv_crc;
    else
        c->s.naks++;
    if (h->type == SNIC_EBS_NAK && snic_ebs_id_epoch(h->rpc_id) == 0) {
        (void)ebs_queue_token_answered(&c->q, h->rpc_id, h->status);
        return; /* a TOKEN is not in its path's ring */
    }
    if (h->type == SNIC_EBS_NAK && h->status == SNIC_EBS_UNPROVEN)
        solar_path_unproven(c, in->p, h->u.nak.proof);
    if (h->type == SNIC_EBS_NAK && (a.status == SNIC_EBS_OK || a.status == SNIC_EBS_SUPERSEDED))
        return;
    solar_in_ack(c, in, &a, &newest, retry_us);
    solar_in_over(c, in, &newest);
    solar_in_telemetry(c, in, a.path_seq);
}

/* ---- Data ---- */

/* Copy into the I/O's memory. @return 0; SNIC_ECORRUPT the data are not those that were written */
static int solar_in_store(struct snic_solar *c, struct solar_in *in, const struct solar_rpc *r,
                          void *buffer)
{
    const struct snic_ebs_block *b = &in->h.u.block;
    const unsigned char *data = in->body;
    void *key = ebs_rpc_is_states(&r->q) ? NULL : c->q.disks[r->q.disk].xts_key;
    if (snic_ebs_bind_crc(b) != b->bind_crc || b->vd_id != c->q.disks[r->q.disk].vd_id)
        return SNIC_ECORRUPT;
    if (b->op != SNIC_EBS_DATA) {
        memset(buffer, 0, SNIC_EBS_BLOCK_BYTES);
        return 0;
    }
    if (solar_recv_damaged(c, data, b->data_crc))
        return SNIC_ECORRUPT;
    if (key == NULL) {
        if (b->block_tag != 0)
            return SNIC_ECORRUPT; /* written with a key, and read without */
        memcpy(buffer, data, SNIC_EBS_BLOCK_BYTES);
        return 0;
    }
    if (snic_ebs_xts_decrypt(c->o.sec, key, b->lba, buffer, data) != 0 ||
        snic_ebs_tag(&c->q.disks[r->q.disk].tag, b->lba, buffer) != b->block_tag)
        return SNIC_ECORRUPT;
    return 0;
}

static void solar_in_data(struct snic_solar *c, struct solar_in *in)
{
    const struct snic_ebs_header *h = &in->h;
    struct snic_ebs_expect e;
    struct solar_rpc *r = solar_rpc_find(c, h->rpc_id);
    if (r == NULL || r->q.op != SNIC_EBS_IO_READ || r->q.server != in->s->index ||
        h->pkt_id >= r->next || (r->q.acked >> h->pkt_id & 1) != 0) {
        c->s.late++;
        return;
    }
    if (h->status == SNIC_EBS_SUPERSEDED) {
        solar_rpc_again(c, r, ebs_bit(h->pkt_id)); /* no valid status of a read */
        return;
    }
    if (h->status != SNIC_EBS_OK) {
        solar_rpc_status(c, r, h->pkt_id, h->status, 0);
        return;
    }
    int bad = snic_ebs_addr_match(c->addr, h, &e);
    if (bad == SNIC_ENOENT) { /* late, or it released its transmission and has no valid slot */
        c->s.late++;
        solar_rpc_again(c, r, ebs_bit(h->pkt_id));
        return;
    }
    c->q.s.tables += bad == SNIC_ECORRUPT;
    if (bad == 0)
        bad = solar_in_store(c, in, r, (void *)(uintptr_t)e.dest);
    if (bad == 0) {
        solar_rpc_acked(c, r, h->pkt_id);
        return;
    }
    /* The slot, the packet or the server's block is damaged: read it again, a few times. */
    struct solar_blk *b = &r->b[h->pkt_id];
    c->s.data_crc++;
    if (b->slotted)
        (void)snic_ebs_addr_clear(c->addr, b->slot, b->gen);
    b->slotted = 0;
    if (++b->wrong >= SNIC_SOLAR__WRONG)
        solar_rpc_status(c, r, h->pkt_id, SNIC_EBS_DAMAGED, 0);
    else
        solar_rpc_again(c, r, ebs_bit(h->pkt_id));
}

static void solar_in_resp(struct snic_solar *c, struct solar_in *in)
{
    const struct snic_ebs_header *h = &in->h;
    struct solar_newest newest = {.of = NULL};
    struct solar_path *q = solar_in_path(c, in, h->ack_path_id, h->ack_path_gen);
    struct solar_tx *x = q == NULL ? NULL : solar_path_find(q, h->ack_seq);
    if (!in->p->have_srv_seq || (int32_t)(h->path_seq - in->p->srv_seq) > 0)
        in->p->srv_seq = h->path_seq;
    in->p->have_srv_seq = 1;
    if (x != NULL && x->kind == SOLAR_TX_READ && x->rpc_id == h->rpc_id &&
        (x->need >> h->pkt_id & 1) != 0) {
        solar_in_newest(c, in, &newest, q, x, h->hold_ns, h->flags);
        x->need &= ~ebs_bit(h->pkt_id);
        x->weight--;
        q->inflight--;
        x->any = 1;
        x->last_in = h->path_seq;
        if (x->need == 0)
            solar_path_release(c, q, x);
    } else if (q != NULL && x == NULL) {
        solar_in_spurious(c, q, h->ack_seq, h->echo_ts);
    }
    solar_in_telemetry(c, in, h->ack_seq);
    solar_in_data(c, in);
    solar_in_over(c, in, &newest);
    c->q.dirty = 1;
}

/* ---- The connection ---- */

static void solar_in_session(struct snic_solar *c, struct solar_server *s,
                             const struct snic_ebs_hello *h)
{
    memset(&s->session, 0, sizeof(s->session));
    s->session.ops = c->wire.ops;
    s->session.secret = s->secret;
    s->session.client_id = c->client_id;
    s->session.client_nonce = s->nonce;
    s->session.server_nonce = h->key_nonce;
    s->session.client_conn = s->mine;
    s->session.server_conn = s->conn_id;
    s->session.client_epoch = c->o.client_epoch;
    s->session.server_epoch = s->srv_epoch;
}

static int solar_in_hello(struct snic_solar *c, struct solar_in *in)
{
    struct solar_server *s = in->s;
    const struct snic_ebs_hello *h = &in->h.u.hello;
    if (in->h.conn_id != s->mine || h->nonce != s->nonce || h->client_id != c->client_id ||
        in->h.srv_epoch == 0 || (s->up && h->conn_id != s->conn_id))
        return SNIC_EPERM;
    s->quiet_ns = 0;
    if (!s->up) {
        s->up = 1;
        s->conn_id = h->conn_id;
        s->token = h->reset_token;
        s->srv_epoch = in->h.srv_epoch;
        s->hello_ns = SNIC_NEVER;
        if (s->secret != NULL)
            solar_in_session(c, s, h);
        for (uint32_t i = 0; i < c->path_slots; i++) {
            struct solar_path *p = &s->paths[i];
            p->misses = 0;
            if (p->state > SNIC_SOLAR_OPENING) {
                p->probe_ns = p->state == SNIC_SOLAR_ALIVE ? SNIC_NEVER : c->q.now_ns;
                solar_path_arm(c, p);
            }
        }
        solar_server_arm(c, s);
        c->q.dirty = 1;
    }
    in->p->proof = h->proof;
    solar_path_heard(c, in->p, in->place.body_size == SNIC_EBS_BLOCK_BYTES);
    return 0;
}

static int solar_in_reset(struct snic_solar *c, struct solar_in *in)
{
    struct solar_server *s = in->s;
    if (!s->up || in->h.conn_id != s->conn_id || in->h.u.reset.token != s->token)
        return SNIC_EPERM;
    c->s.resets++;
    solar_server_reset(c, s, in->h.u.reset.retry_us);
    return 0;
}

static int solar_in_probe(struct snic_solar *c, struct solar_in *in)
{
    struct solar_path *q = solar_in_path(c, in, in->h.ack_path_id, in->h.ack_path_gen);
    struct solar_tx *x = q == NULL ? NULL : solar_path_find(q, in->h.ack_seq);
    if (x == NULL && q != NULL && (int32_t)(in->h.ack_seq - q->next_seq) < 0)
        solar_server_was_late(c, in->s, (uint32_t)((uint32_t)c->q.now_ns - in->h.echo_ts));
    if (x == NULL || x->kind != SOLAR_TX_PROBE || x->need != in->h.u.probe.nonce)
        return SNIC_ESTALE;
    solar_path_rtt(c, q, solar_in_rtt(c, in, q, x));
    solar_path_held(c, q, x, &in->h.u.probe);
    solar_path_release(c, q, x);
    if (in->h.status == SNIC_EBS_OK)
        q->proven = 1;
    else
        solar_path_unproven(c, q, in->h.u.probe.proof);
    /* A small PROBE is no evidence that large packets pass the path. */
    if (in->place.body_size == SNIC_EBS_BLOCK_BYTES)
        solar_path_heard(c, q, 1);
    return 0;
}

static int solar_in_fence(struct snic_solar *c, struct solar_in *in)
{
    struct solar_rpc *r = solar_rpc_find(c, in->h.rpc_id);
    if (r == NULL || !ebs_rpc_fence_matches(&r->q, in->s->index, &in->h))
        return SNIC_ESTALE;
    uint32_t disk = r->q.disk;
    if (ebs_rpc_fence_answered(&c->q, &r->q, in->h.status))
        (void)solar_send_token(c, in->s, disk);
    return 0;
}

static int solar_in_dispatch(struct snic_solar *c, struct solar_in *in)
{
    if (in->h.type == SNIC_EBS_HELLO_ACK)
        return solar_in_hello(c, in);
    if (in->h.type == SNIC_EBS_RESET)
        return solar_in_reset(c, in);
    if (!in->s->up || in->h.conn_id != in->s->mine || in->h.srv_epoch != in->s->srv_epoch)
        return SNIC_EPERM;
    in->s->quiet_ns = 0;
    if (in->h.credit != 0)
        in->s->credit = snic_ebs_credit_blocks(in->h.credit);
    if (in->h.type == SNIC_EBS_PROBE_ACK)
        return solar_in_probe(c, in);
    if (in->h.type == SNIC_EBS_FENCE_ACK)
        return solar_in_fence(c, in);
    solar_path_heard(c, in->p, 0); /* large packets passed in one direction at most */
    if (in->h.type == SNIC_EBS_ACKV)
        solar_in_acks(c, in);
    else if (in->h.type == SNIC_EBS_READ_RESP)
        solar_in_resp(c, in);
    else if (in->h.type == SNIC_EBS_WACK || in->h.type == SNIC_EBS_NAK)
        solar_in_single(c, in);
    else
        return SNIC_EPROTO;
    return 0;
}

/* With AUTH: check that it is authentic and its number is new; decrypt its body. */
static int solar_in_open(struct snic_solar *c, struct solar_in *in)
{
    struct solar_server *s = in->s;
    int r;
    in->body = in->bytes + in->place.body_at;
    if (s->secret == NULL)
        return (in->h.flags & SNIC_EBS_AUTH) != 0 ? SNIC_EPERM : 0;
    if ((in->h.flags & SNIC_EBS_AUTH) == 0) {
        r = SNIC_EACCES;
    } else if (in->h.type == SNIC_EBS_HELLO_ACK || in->h.type == SNIC_EBS_RESET) {
        r = solar_vouched(c->wire.ops, s->secret, SNIC_EBS_TO_CLIENT, in->bytes, &in->place);
    } else if (!s->up || in->h.conn_id != s->mine) {
        return SNIC_EPERM;
    } else {
        r = solar_session_open(&s->session, &c->wire.open, SNIC_EBS_TO_CLIENT, in->bytes,
                               &in->place, c->wire.plain);
        in->body = c->wire.plain;
    }
    c->s.replayed += r == SNIC_EEXIST;
    c->s.unauthentic += r != 0 && r != SNIC_EEXIST;
    return r;
}

int snic_solar_recv(struct snic_solar *c, uint32_t server, uint32_t path, uint32_t gen,
                    const void *data, size_t size, uint32_t flags, uint64_t now_ns)
{
    struct solar_in in;
    if (now_ns > c->q.now_ns && !c->q.halted)
        solar_stall(c, now_ns);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->s.packets_in++;
    if (server >= c->o.servers_max || path >= c->path_slots || !c->q.loads[server].used ||
        c->q.halted)
        return SNIC_ENOENT;
    in.s = &c->servers[server];
    in.p = &in.s->paths[path];
    if (in.p->gen != (uint16_t)gen || in.p->state <= SNIC_SOLAR_OPENING)
        return SNIC_ENOENT;
    int r = snic_ebs_decode(&in.h, &in.place, SNIC_EBS_TO_CLIENT, data, size);
    if (r != 0) {
        c->s.malformed++;
        if (r == SNIC_EVERSION) {
            c->s.versions++;
            c->s.peer_version = *(const unsigned char *)data >> 4;
        }
        return r;
    }
    in.bytes = data;
    in.arrived_ns = now_ns;
    in.ce = (flags & SNIC_SOLAR_CE) != 0;
    r = solar_in_open(c, &in);
    if (r == 0)
        r = solar_in_dispatch(c, &in);
    c->s.refused += r == SNIC_EPERM;
    return r;
}
