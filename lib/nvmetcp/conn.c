/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What both halves have in common: the received stream, cut anywhere, to PDUs; violations; the end.
 */
#include "nvmetcp/nvmetcp_priv.h"

void nvmetcp_conn_init(struct nvmetcp_conn *c, const struct nvmetcp_role *role, int to_host,
                       uint64_t now_ns)
{
    c->role = role;
    c->now_ns = now_ns;
    c->greet_ns = SNIC_NEVER;
    c->close_ns = SNIC_NEVER;
    c->tx.to_host = (uint8_t)to_host;
    c->rx.to_host = (uint8_t)!to_host;
    c->ic.kind = NVMETCP_OUT_IC;
    c->ic.head = c->ic_head;
    c->term.kind = NVMETCP_OUT_TERM;
    c->term.head = c->term_head;
}

/* ---- The end ---- */

void nvmetcp_conn_over(struct nvmetcp_conn *c, int reason)
{
    if (c->state == NVMETCP_OVER)
        return;
    if (c->state != NVMETCP_TERMINATING)
        c->reason = reason;
    c->state = NVMETCP_OVER;
    c->term_due = 0;
    c->ended_due = 1;
    c->in.phase = NVMETCP_DROP;
    c->greet_ns = SNIC_NEVER;
    c->close_ns = SNIC_NEVER;
    c->role->down(c);
}

void nvmetcp_conn_violation(struct nvmetcp_conn *c, uint16_t fes, uint32_t fei)
{
    uint32_t shown = (uint32_t)snic_min_u64(c->in.have, SNIC_NVMETCP__TERM_DATA);
    struct snic_nvmetcp_pdu pdu = {.fes = fes, .fei = fei, .data_size = shown};
    if (c->state >= NVMETCP_TERMINATING)
        return;
    pdu.type = c->tx.to_host ? SNIC_NVMETCP_C2H_TERM : SNIC_NVMETCP_H2C_TERM;
    c->state = NVMETCP_TERMINATING;
    c->reason = SNIC_EPROTO;
    c->fes = fes;
    c->fei = fei;
    c->term_due = 1;
    c->draining = 0;
    c->greet_ns = SNIC_NEVER;
    c->close_ns = c->now_ns + c->close_wait_ns;
    int n = snic_nvmetcp_encode(c->term_head, &pdu, &c->tx);
    SNIC_ASSERT(n == 24);
    memcpy(c->term_head + 24, c->in.head, shown);
    c->term.head_size = (uint8_t)(24 + shown);
    nvmetcp_out_queue(c, &c->term);
    c->in.phase = NVMETCP_DROP;
    c->role->down(c);
}

int nvmetcp_conn_refuse(struct nvmetcp_conn *c, uint16_t fes, uint32_t fei)
{
    c->in.pdu.fes = fes;
    c->in.pdu.fei = fei;
    return SNIC_EPROTO;
}

void nvmetcp_conn_peer_term(struct nvmetcp_conn *c)
{
    if (c->state >= NVMETCP_TERMINATING)
        return;
    c->from_peer = 1;
    c->fes = c->in.pdu.fes;
    c->fei = c->in.pdu.fei;
    nvmetcp_conn_over(c, SNIC_ECONNRESET);
}

void nvmetcp_conn_tick(struct nvmetcp_conn *c, uint64_t now_ns)
{
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    if (c->now_ns >= c->greet_ns || c->now_ns >= c->close_ns)
        nvmetcp_conn_over(c, SNIC_ETIMEDOUT);
}

uint64_t nvmetcp_conn_deadline(const struct nvmetcp_conn *c)
{
    int events = c->state != NVMETCP_OVER && !snic_queue_empty(&c->events);
    return c->term_due || c->ended_due || events ? c->now_ns
                                                 : snic_min_u64(c->greet_ns, c->close_ns);
}

int nvmetcp_conn_final(struct nvmetcp_conn *c, struct snic_nvmetcp_event *e, uint32_t type)
{
    uint8_t *due = type == SNIC_NVMETCP_TERM ? &c->term_due : &c->ended_due;
    if (!*due)
        return 0;
    *due = 0;
    memset(e, 0, sizeof(*e));
    e->type = type;
    e->reason = c->reason;
    e->fes = c->fes;
    e->fei = c->fei;
    e->from_peer = c->from_peer;
    return 1;
}

void nvmetcp_conn_sent(struct nvmetcp_conn *c, size_t bytes)
{
    nvmetcp_out_sent(c, bytes);
    if (c->draining && snic_queue_empty(&c->outs))
        nvmetcp_conn_over(c, c->reason);
}

/* ---- Input ---- */

static void nvmetcp_in_fail(struct nvmetcp_conn *c, int r)
{
    if (r == SNIC_EPROTO)
        nvmetcp_conn_violation(c, c->in.pdu.fes, c->in.pdu.fei);
    else
        nvmetcp_conn_over(c, r);
}

static void nvmetcp_in_done(struct nvmetcp_conn *c, int good)
{
    struct nvmetcp_in *in = &c->in;
    in->phase = NVMETCP_HEAD;
    in->dest.iov = NULL;
    c->s.pdus_in++;
    if (!good)
        c->s.bad_data++;
    int r = c->role->done(c, good);
    in->have = 0; /* a violation shows the header */
    if (r != 0)
        nvmetcp_in_fail(c, r);
}

/* Behind the pad. */
static void nvmetcp_in_data(struct nvmetcp_conn *c)
{
    struct nvmetcp_in *in = &c->in;
    in->left = in->pdu.data_size;
    in->crc = 0;
    in->phase = NVMETCP_DATA;
    if (in->left == 0)
        nvmetcp_in_done(c, 1);
    else if (in->dest.iov != NULL)
        nvmetcp_span_skip(&in->dest, 0, in->left);
}

/* The header is complete and right. */
static void nvmetcp_in_head(struct nvmetcp_conn *c)
{
    struct nvmetcp_in *in = &c->in;
    int r = c->role->head(c);
    if (r == SNIC_EAGAIN) {
        c->s.pauses += in->phase != NVMETCP_ADMIT;
        in->phase = NVMETCP_ADMIT;
    } else if (r != 0) {
        nvmetcp_in_fail(c, r);
    } else if (in->pdu.pad_size > 0) {
        in->left = in->pdu.pad_size;
        in->phase = NVMETCP_PAD;
    } else {
        nvmetcp_in_data(c);
    }
}

void nvmetcp_conn_resume(struct nvmetcp_conn *c)
{
    if (c->in.phase == NVMETCP_ADMIT)
        nvmetcp_in_head(c);
}

/* @return bytes consumed */
static size_t nvmetcp_in_gather(struct nvmetcp_conn *c, const unsigned char *data, size_t size)
{
    struct nvmetcp_in *in = &c->in;
    uint32_t want = in->have < SNIC_NVMETCP__CH ? SNIC_NVMETCP__CH : in->pdu.head_size;
    size_t n = snic_min_u64(want - in->have, size);
    memcpy(in->head + in->have, data, n);
    in->have += (uint32_t)n;
    if (in->have < want)
        return n;
    int r = snic_nvmetcp_decode(&in->pdu, &c->rx, in->head, in->have);
    if (r == 0)
        nvmetcp_in_head(c);
    else if (r != SNIC_EAGAIN)
        nvmetcp_in_fail(c, r);
    return n;
}

static void nvmetcp_in_arrived(struct nvmetcp_conn *c)
{
    struct nvmetcp_in *in = &c->in;
    if (in->left > 0)
        return;
    if ((c->rx.digests & SNIC_NVMETCP_DDGST) == 0 || in->pdu.type <= SNIC_NVMETCP_C2H_TERM) {
        nvmetcp_in_done(c, 1);
        return;
    }
    in->phase = NVMETCP_DIGEST;
    in->left = 4;
}

/* The next @p size bytes of data, at @p data or already in place. */
static void nvmetcp_in_bytes(struct nvmetcp_conn *c, const unsigned char *data, size_t size)
{
    struct nvmetcp_in *in = &c->in;
    int sum = (c->rx.digests & SNIC_NVMETCP_DDGST) != 0;
    in->left -= (uint32_t)size;
    while (size > 0 && in->dest.iov != NULL) {
        unsigned char *to;
        size_t n = nvmetcp_span_piece(&in->dest, size, &to);
        if (data != NULL) {
            memcpy(to, data, n);
            data += n;
        }
        if (sum)
            in->crc = snic_crc32c(in->crc, to, n);
        size -= n;
        nvmetcp_span_skip(&in->dest, n, size + in->left);
    }
    if (size > 0 && sum)
        in->crc = snic_crc32c(in->crc, data, size);
    nvmetcp_in_arrived(c);
}

static size_t nvmetcp_in_step(struct nvmetcp_conn *c, const unsigned char *data, size_t size)
{
    struct nvmetcp_in *in = &c->in;
    size_t n = snic_min_u64(in->left, size);
    switch ((enum nvmetcp_phase)in->phase) {
    case NVMETCP_HEAD:
        return nvmetcp_in_gather(c, data, size);
    case NVMETCP_PAD:
        in->left -= (uint32_t)n;
        if (in->left == 0)
            nvmetcp_in_data(c);
        return n;
    case NVMETCP_DATA:
        nvmetcp_in_bytes(c, data, n);
        return n;
    case NVMETCP_DIGEST:
        memcpy(in->digest + 4 - in->left, data, n);
        in->left -= (uint32_t)n;
        if (in->left == 0)
            nvmetcp_in_done(c, in->crc == snic_get_le32(in->digest));
        return n;
    case NVMETCP_ADMIT:
        return 0;
    case NVMETCP_DROP:
    default:
        return size;
    }
}

size_t nvmetcp_conn_recv(struct nvmetcp_conn *c, const unsigned char *data, size_t size)
{
    size_t at = 0;
    while (at < size && c->in.phase != NVMETCP_ADMIT)
        at += nvmetcp_in_step(c, data + at, size - at);
    c->s.bytes_in += at;
    return at;
}

uint32_t nvmetcp_conn_want(const struct nvmetcp_conn *c, struct snic_iov *iov, uint32_t max)
{
    const struct nvmetcp_in *in = &c->in;
    struct nvmetcp_span s = in->dest;
    uint32_t count = 0;
    if (in->phase != NVMETCP_DATA || s.iov == NULL)
        return 0;
    for (size_t left = in->left; left > 0 && count < max; count++) {
        unsigned char *base;
        size_t n = nvmetcp_span_piece(&s, left, &base);
        iov[count].base = base;
        iov[count].size = n;
        left -= n;
        nvmetcp_span_skip(&s, n, left);
    }
    return count;
}

void nvmetcp_conn_filled(struct nvmetcp_conn *c, size_t size)
{
    if (c->in.phase != NVMETCP_DATA) /* dropped meanwhile */
        return;
    SNIC_ASSERT(c->in.dest.iov != NULL && size <= c->in.left);
    c->s.bytes_in += size;
    if (size > 0)
        nvmetcp_in_bytes(c, NULL, size);
}

int nvmetcp_conn_check(const struct nvmetcp_conn *c)
{
    uint32_t queued = 0;
    int seen = c->cursor == NULL;
    for (const struct snic_node *n = c->outs.first; n != NULL; n = n->next) {
        const struct nvmetcp_out *o = SNIC_CONTAINER(n, struct nvmetcp_out, node);
        size_t size = nvmetcp_out_size(o);
        seen |= o == c->cursor;
        if (++queued > c->s.queued || !o->queued || size == 0)
            return SNIC_ECORRUPT; /* I1 */
        if (o == c->cursor && c->cursor_at >= size)
            return SNIC_ECORRUPT;
        if (queued == 1 && c->acked >= (o == c->cursor ? c->cursor_at + 1 : size))
            return SNIC_ECORRUPT; /* acked <= returned */
    }
    if (!seen || queued != c->s.queued || (queued == 0 && c->acked != 0))
        return SNIC_ECORRUPT; /* I1 */
    for (const struct snic_node *n = c->events.first; n != NULL; n = n->next)
        if (SNIC_CONTAINER(n, struct nvmetcp_ev, node)->type == 0)
            return SNIC_ECORRUPT; /* I3 */
    if (c->in.dest.iov != NULL && c->in.phase != NVMETCP_PAD && c->in.phase != NVMETCP_DATA &&
        c->in.phase != NVMETCP_DIGEST && c->in.phase != NVMETCP_DROP)
        return SNIC_ECORRUPT; /* I4 */
    return c->in.have <= sizeof(c->in.head) ? 0 : SNIC_ECORRUPT;
}
