/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets received by a block server. Each packet is a request of its own: it is checked, decoded
 * into plain data for the owner, and forgotten.
 */
#include "solar/target_priv.h"

struct solar_req_in {
    const struct snic_ebs_peer *peer;
    const unsigned char *bytes;
    const unsigned char *body; /* decrypted, with AUTH */
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    uint64_t arrived_ns; /* arrival at this host */
    uint32_t flags;
    struct solar_conn *n;
    void *secret; /* AUTH: of the sender of a HELLO, or of a packet without a connection */
};

/* The fields of an answer to a received packet. */
static void solar_target_echo(struct snic_solar_target *t, const struct solar_req_in *in,
                              struct snic_ebs_header *h, uint32_t type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->path_id = in->h.path_id;
    h->path_gen = in->h.path_gen;
    h->ack_path_id = in->h.path_id;
    h->ack_path_gen = in->h.path_gen;
    h->ack_seq = in->h.path_seq;
    h->echo_ts = in->h.tx_ts;
    h->tx_ts = (uint32_t)t->now_ns;
    h->srv_epoch = t->o.srv_epoch;
    h->rpc_id = in->h.rpc_id;
    h->pkt_id = in->h.pkt_id;
    h->pkt_cnt = in->h.pkt_cnt;
    h->credit = solar_target_credit(t);
    if (in->n != NULL) {
        h->conn_id = in->n->client;
        h->path_seq = ++in->n->path[in->h.path_id].seq;
        h->pn = solar_conn_number(in->n, in->h.path_id);
    }
}

static void solar_target_reset(struct snic_solar_target *t, const struct solar_req_in *in,
                               uint32_t conn_id, uint32_t status)
{
    struct snic_ebs_header h;
    if (solar_target_auth(t) && in->secret == NULL)
        return; /* no secret: the receiver could not authenticate it */
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_RESET;
    h.conn_id = conn_id;
    h.srv_epoch = t->o.srv_epoch;
    h.status = (uint16_t)status;
    h.rpc_id = in->h.rpc_id;
    h.pkt_cnt = 1;
    h.u.reset.token = solar_conn_token(t, conn_id);
    h.u.reset.ver_min = SNIC_EBS_VERSION;
    h.u.reset.ver_max = SNIC_EBS_VERSION;
    t->s.resets += (uint64_t)solar_target_single(t, NULL, in->secret, in->peer, &h, 0, NULL);
}

static void solar_target_nak(struct snic_solar_target *t, const struct solar_req_in *in,
                             uint32_t status, uint32_t retry_us, uint32_t bad_flags)
{
    struct snic_ebs_header h;
    solar_target_echo(t, in, &h, SNIC_EBS_NAK);
    h.status = (uint16_t)status;
    h.u.nak.retry_us = retry_us;
    h.u.nak.bad_flags = (uint16_t)bad_flags;
    h.u.nak.proof = status == SNIC_EBS_UNPROVEN ? solar_conn_proof(t, in->peer) : 0;
    t->s.naks += (uint64_t)solar_target_single(t, in->n, NULL, in->peer, &h, 0, NULL);
    in->n->client_stats.refused++;
}

static int solar_target_hello(struct snic_solar_target *t, struct solar_req_in *in)
{
    const struct snic_ebs_hello *k = &in->h.u.hello;
    struct snic_ebs_header h;
    if (k->ver_min > SNIC_EBS_VERSION || k->ver_max < SNIC_EBS_VERSION) {
        solar_target_reset(t, in, in->h.conn_id, SNIC_EBS_BAD_VERSION);
        return SNIC_EVERSION;
    }
    in->n = solar_conn_hello(t, k, in->h.pn, in->secret);
    if (in->n == NULL)
        return SNIC_ENOSPC;
    solar_conn_prove(t, in->n, in->h.path_id, in->peer, k->proof);
    solar_target_echo(t, in, &h, SNIC_EBS_HELLO_ACK);
    h.u.hello.proof = solar_conn_proof(t, in->peer);
    h.pkt_cnt = 1;
    h.pkt_id = 0;
    h.u.hello.ver_min = SNIC_EBS_VERSION;
    h.u.hello.ver_max = SNIC_EBS_VERSION;
    h.u.hello.conn_id = in->n->conn_id;
    h.u.hello.features = k->features & (SNIC_EBS_FEATURE_ACKV | SNIC_EBS_FEATURE_INT |
                                        (solar_target_auth(t) ? SNIC_EBS_FEATURE_AUTH : 0));
    h.u.hello.key_id = k->key_id;
    h.u.hello.key_nonce = in->n->key_nonce;
    h.u.hello.nonce = k->nonce;
    h.u.hello.reset_token = solar_conn_token(t, in->n->conn_id);
    h.u.hello.payload_max = SNIC_EBS_PACKET_BYTES;
    h.u.hello.client_id = k->client_id;
    t->s.hellos += (uint64_t)solar_target_single(t, in->n, in->secret, in->peer, &h,
                                                 in->place.body_size, NULL);
    return 0;
}

static int solar_target_probe(struct snic_solar_target *t, struct solar_req_in *in)
{
    struct snic_ebs_header h;
    solar_conn_prove(t, in->n, in->h.path_id, in->peer, in->h.u.probe.proof);
    solar_target_echo(t, in, &h, SNIC_EBS_PROBE_ACK);
    if (!solar_conn_proven(in->n, in->h.path_id, in->peer))
        h.status = SNIC_EBS_UNPROVEN;
    h.u.probe.proof = solar_conn_proof(t, in->peer);
    h.u.probe.probe_bytes = in->place.size;
    h.u.probe.nonce = in->h.u.probe.nonce;
    const struct solar_conn_path *p = &in->n->path[in->h.path_id];
    if (p->held_gen == (256u | in->h.path_gen)) {
        h.u.probe.held_seq = p->held_seq;
        memcpy(h.u.probe.held, p->held, sizeof(p->held));
    }
    (void)solar_target_single(t, in->n, NULL, in->peer, &h, in->place.body_size, NULL);
    return 0;
}

/* ---- Requests ---- */

/* Its account and connection, and where its answer goes. */
static void solar_target_from(const struct solar_req_in *in, struct snic_ebs_request *q,
                              uint32_t op)
{
    q->op = (uint8_t)op;
    q->data = NULL;
    q->account = in->n->account;
    q->from.packet.peer = *in->peer;
    q->from.packet.rpc_id = in->h.rpc_id;
    q->from.packet.rx_ns = in->arrived_ns;
    q->conn_id = in->n->conn_id;
    q->from.packet.path_seq = in->h.path_seq;
    q->from.packet.tx_ts = in->h.tx_ts;
    q->from.packet.pkt_id = in->h.pkt_id;
    q->from.packet.pkt_cnt = in->h.pkt_cnt;
    q->from.packet.flags = (uint16_t)((in->h.flags & (SNIC_EBS_INT_REQ | SNIC_EBS_XTS)) |
                                      ((in->flags & SNIC_SOLAR_CE) != 0 ? SNIC_EBS_CE_ECHO : 0));
    q->from.packet.path = in->h.path_id;
    q->from.packet.gen = in->h.path_gen;
    in->n->client_stats.requests++;
}

static void solar_target_request(const struct solar_req_in *in, struct snic_ebs_request *q,
                                 uint32_t op)
{
    const struct snic_ebs_block *b = &in->h.u.block;
    solar_target_from(in, q, op);
    q->kind = b->op;
    q->count = b->blk_cnt;
    q->block = b->blk_off;
    q->tenant = b->tenant;
    q->seg_gen = b->seg_gen;
    q->data_crc = b->data_crc;
    q->block_tag = b->block_tag;
    q->bind_crc = b->bind_crc;
    q->vd_id = b->vd_id;
    q->seg_id = b->seg_id;
    q->lba = b->lba;
    q->wver = b->wver;
    q->need = b->need_mask;
    if (op == SNIC_EBS_DO_WRITE)
        in->n->client_stats.blocks_written += q->count;
    if (op == SNIC_EBS_DO_READ)
        in->n->client_stats.blocks_read += ebs_ones(q->need);
    solar_conn_holds(in->n, q);
    if ((q->from.packet.flags & SNIC_EBS_INT_REQ) != 0 && in->place.int_at != 0)
        memcpy(q->from.packet.telemetry, in->bytes + in->place.int_at, SNIC_EBS_INT_BYTES);
}

static int solar_target_bound(const struct snic_ebs_block *b)
{
    return snic_ebs_bind_crc(b) == b->bind_crc && b->lba % SNIC_EBS_SEGMENT_BLOCKS == b->blk_off;
}

/* The owner's crc function may be wrong: a mismatch is verified in software. */
static int solar_target_damaged(const struct snic_solar_target *t, const struct snic_ebs_block *b,
                                const void *data)
{
    if (b->op != SNIC_EBS_DATA)
        return b->data_crc != SNIC_EBS_CRC_ZEROS;
    if (t->o.crc != NULL && t->o.crc(t->o.crc_ctx, data, SNIC_EBS_BLOCK_BYTES) == b->data_crc)
        return 0;
    return snic_crc32c(0, data, SNIC_EBS_BLOCK_BYTES) != b->data_crc;
}

static int solar_target_write(struct snic_solar_target *t, struct solar_req_in *in,
                              struct snic_ebs_request *q)
{
    const struct snic_ebs_block *b = &in->h.u.block;
    const unsigned char *data = in->body;
    if (!solar_target_bound(b) || solar_target_damaged(t, b, data)) {
        t->s.data_crc++;
        solar_target_nak(t, in, SNIC_EBS_BAD_CRC, 0, 0);
        return SNIC_ECORRUPT;
    }
    if (b->blk_cnt != 1 || b->wver == 0) {
        solar_target_nak(t, in, SNIC_EBS_INVALID, 0, 0);
        return SNIC_EINVAL;
    }
    if (t->s.writes_out >= t->o.rx_blocks) {
        solar_target_nak(t, in, SNIC_EBS_BUSY, 200, 0);
        return SNIC_EBUSY;
    }
    solar_target_request(in, q, SNIC_EBS_DO_WRITE);
    q->data = b->op == SNIC_EBS_DATA ? data : NULL;
    t->s.writes++;
    t->s.writes_out++;
    t->s.requests++;
    return 1;
}

static int solar_target_read(struct snic_solar_target *t, struct solar_req_in *in,
                             struct snic_ebs_request *q)
{
    const struct snic_ebs_block *b = &in->h.u.block;
    uint32_t count = ebs_ones(b->need_mask);
    if (!solar_target_bound(b) || (b->op != SNIC_EBS_DATA && b->op != SNIC_EBS_STATES) ||
        count == 0 || count > SNIC_EBS_READ_BLOCKS || b->blk_cnt > SNIC_EBS_RPC_BLOCKS ||
        (b->need_mask & ~ebs_mask(b->blk_cnt)) != 0 || in->h.pkt_cnt != b->blk_cnt ||
        (uint32_t)b->blk_off + b->blk_cnt > SNIC_EBS_SEGMENT_BLOCKS ||
        in->place.body_size != count * SNIC_EBS_SLOT_BYTES) {
        solar_target_nak(t, in, SNIC_EBS_INVALID, 0, 0);
        return SNIC_EINVAL;
    }
    if (!solar_conn_proven(in->n, in->h.path_id, in->peer)) {
        t->s.unproven++;
        solar_target_nak(t, in, SNIC_EBS_UNPROVEN, 0, 0);
        return SNIC_EACCES;
    }
    solar_target_request(in, q, SNIC_EBS_DO_READ);
    for (uint32_t i = 0; i < count; i++)
        snic_ebs_slot_get(in->body, i, &q->from.packet.slots[2 * i],
                          &q->from.packet.slots[2 * i + 1]);
    t->s.reads++;
    t->s.requests++;
    return 1;
}

static int solar_target_fence(struct snic_solar_target *t, struct solar_req_in *in,
                              struct snic_ebs_request *q)
{
    if (!solar_target_bound(&in->h.u.block)) {
        solar_target_nak(t, in, SNIC_EBS_INVALID, 0, 0);
        return SNIC_EINVAL;
    }
    solar_target_request(in, q, SNIC_EBS_DO_FENCE);
    t->s.fences++;
    t->s.requests++;
    return 1;
}

/* Its header is not encrypted: q->data points to the token there. */
static int solar_target_token(struct snic_solar_target *t, struct solar_req_in *in,
                              struct snic_ebs_request *q)
{
    memset(q, 0, sizeof(*q));
    solar_target_from(in, q, SNIC_EBS_DO_TOKEN);
    q->data = in->bytes + in->place.header_size - SNIC_EBS_TOKEN_BYTES;
    t->s.tokens++;
    t->s.requests++;
    return 1;
}

static int solar_target_refuse(struct snic_solar_target *t, struct solar_req_in *in, int error,
                               size_t size)
{
    struct snic_ebs_start peek;
    t->s.malformed++;
    if (error == SNIC_EVERSION) {
        t->s.versions++;
        t->s.peer_version = in->bytes[0] >> 4;
    }
    /* A connected client has our version: then the packet is damaged, or another sender's. */
    if (error == SNIC_EVERSION && snic_ebs_peek(&peek, in->bytes, size) == 0 &&
        solar_conn_find(t, peek.conn_id) == NULL) {
        in->h.rpc_id = peek.rpc_id;
        solar_target_reset(t, in, peek.conn_id, SNIC_EBS_BAD_VERSION);
    } else if (error == SNIC_ENOTSUP && !solar_target_auth(t)) {
        in->n = solar_conn_find(t, in->h.conn_id);
        if (in->n != NULL && in->h.path_id < SNIC_SOLAR_PATHS_MAX)
            solar_target_nak(t, in, SNIC_EBS_BAD_FLAGS, 0, in->h.flags & SNIC_EBS_MUST);
    }
    return error;
}

/* The secret by the key and account of a HELLO or of a PROBE. */
static void *solar_target_secret(const struct snic_solar_target *t, uint32_t key_id,
                                 uint32_t account)
{
    if (t->o.secret_of != NULL)
        return account != 0 ? t->o.secret_of(t->o.secret_ctx, key_id, account) : NULL;
    return key_id == t->o.key_id && account == 0 ? t->o.secret : NULL;
}

/* With AUTH: check that it is authentic and its number is new; decrypt its body. */
static int solar_target_open(struct snic_solar_target *t, struct solar_req_in *in)
{
    int r;
    in->body = in->bytes + in->place.body_at;
    if (!solar_target_auth(t)) {
        t->s.refused += (in->h.flags & SNIC_EBS_AUTH) != 0;
        return (in->h.flags & SNIC_EBS_AUTH) != 0 ? SNIC_EPERM : 0;
    }
    if ((in->h.flags & SNIC_EBS_AUTH) == 0) {
        r = SNIC_EACCES;
    } else if (in->h.type == SNIC_EBS_HELLO) {
        in->secret = solar_target_secret(t, in->h.u.hello.key_id, in->h.u.hello.account);
        r = in->secret == NULL
                ? SNIC_EACCES
                : solar_vouched(t->wire.ops, in->secret, SNIC_EBS_TO_SERVER, in->bytes, &in->place);
    } else {
        struct solar_conn *n = solar_conn_find(t, in->h.conn_id);
        if (n == NULL) {
            /* It cannot be verified without its connection: its answer is a RESET, and nothing
               else. With many secrets only a PROBE has the account. */
            in->secret = t->o.secret;
            if (in->h.type == SNIC_EBS_PROBE)
                in->secret = solar_target_secret(t, in->h.u.probe.key_id, in->h.u.probe.account);
            return 0;
        }
        r = solar_session_open(&n->session, &t->wire.open, SNIC_EBS_TO_SERVER, in->bytes,
                               &in->place, t->wire.plain);
        in->body = t->wire.plain;
    }
    t->s.replayed += r == SNIC_EEXIST;
    t->s.unauthentic += r != 0 && r != SNIC_EEXIST;
    return r;
}

int snic_solar_target_recv(struct snic_solar_target *t, const struct snic_ebs_peer *peer,
                           const void *data, size_t size, uint32_t flags,
                           struct snic_ebs_request *out, uint64_t now_ns)
{
    struct solar_req_in in;
    t->now_ns = snic_max_u64(t->now_ns, now_ns);
    t->s.packets_in++;
    in.peer = peer;
    in.bytes = data;
    in.flags = flags;
    in.arrived_ns = now_ns;
    in.n = NULL;
    in.secret = t->o.secret; /* NULL with a secret per account */
    int r = snic_ebs_decode(&in.h, &in.place, SNIC_EBS_TO_SERVER, data, size);
    if (r != 0)
        return solar_target_refuse(t, &in, r, size);
    if (in.h.path_id >= SNIC_SOLAR_PATHS_MAX) {
        t->s.malformed++;
        return SNIC_ERANGE;
    }
    r = solar_target_open(t, &in);
    if (r != 0)
        return r;
    if (in.h.type == SNIC_EBS_HELLO)
        return solar_target_hello(t, &in);
    in.n = solar_conn_find(t, in.h.conn_id);
    if (in.n == NULL) {
        t->s.refused++;
        solar_target_reset(t, &in, in.h.conn_id, SNIC_EBS_NO_CONN);
        return SNIC_ENOTCONN;
    }
    if (in.h.srv_epoch != 0 && in.h.srv_epoch != t->o.srv_epoch) {
        t->s.refused++; /* a RESET would disclose the token of a client's connection */
        return SNIC_ENOTCONN;
    }
    in.n->proved = 1;
    solar_conn_heard(t, in.n);
    solar_conn_seen(in.n, &in.h, peer);
    if (in.h.type == SNIC_EBS_WRITE)
        return solar_target_write(t, &in, out);
    if (in.h.type == SNIC_EBS_READ_REQ)
        return solar_target_read(t, &in, out);
    if (in.h.type == SNIC_EBS_FENCE)
        return solar_target_fence(t, &in, out);
    if (in.h.type == SNIC_EBS_TOKEN)
        return solar_target_token(t, &in, out);
    return in.h.type == SNIC_EBS_PROBE ? solar_target_probe(t, &in) : SNIC_EPROTO;
}
