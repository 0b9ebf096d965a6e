/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Copies a segment from another server: for SNIC_CONTROL__LIST blocks at a time it sends the
 * versions that it has, receives the newer blocks, and writes these under the received versions
 * (A4). The versions are remembered for the next pass over the same segment.
 *
 * A block that is damaged at the source is LOST here: reading it is an error as it was there,
 * writing it repairs it. A block that is here in the same version or a later one stays.
 *
 * A copied block: number 2, kind 1, zero 1, checksum 4, version 8, block_tag 4, zero 4; then 4096
 * bytes if it is of data.
 */
#include "control/agent_priv.h"

#define SNIC_CONTROL__SINK_KEEP_NS UINT64_C(1000000000)
#define SNIC_CONTROL__SINK_TIMEOUT_NS                                                              \
    UINT64_C(5000000000) /* a peer that does not respond for so long is gone */

static void control_agent_sink_write(struct snic_control_agent *a);
static void control_agent_sink_request(struct snic_control_agent *a);

/* The connection stays for the next pass, unless it failed. A request at the store completes first.
 */
static void control_agent_sink_end(struct snic_control_agent *a, int status)
{
    struct control_agent_sink *p = &a->sink;
    SNIC_ASSERT(p->busy);
    if (!p->ended)
        control_agent_result(a, p->session, p->tag, status);
    p->ended = 1;
    p->retry_due = 0;
    p->connect_due = 0;
    if (status < 0)
        control_stream_abort(&p->s);
    if (p->submitted)
        return;
    p->busy = 0;
    control_agent_claim_drained(a);
}

void control_agent_sink_cancel(struct snic_control_agent *a)
{
    a->sink.segment = 0;
    if (a->sink.busy)
        control_agent_sink_end(a, SNIC_ECANCELED);
}

static void control_agent_sink_lost(struct snic_control_agent *a, uint32_t block)
{
    a->stats.lost++;
    if (a->e.lost != NULL)
        a->e.lost(a->ctx, a->sink.segment, block);
}

static void control_agent_sink_done(struct snic_segments_req *q)
{
    struct snic_control_agent *a = SNIC_CONTAINER(q, struct snic_control_agent, sink.req);
    struct control_agent_sink *p = &a->sink;
    int r = q->result;
    p->submitted = 0;
    for (uint32_t i = 0; r == 0 && q->op == SNIC_SEGMENTS_WRITE && i < p->now; i++) {
        const struct snic_segments_block *b = &p->block[p->at + i];
        p->version[b->block] = snic_max_u64(p->version[b->block], b->wver);
        if (b->kind == SNIC_SEGMENTS_LOST && b->status == SNIC_SEGMENTS_DONE)
            control_agent_sink_lost(a, b->block);
    }
    if (p->ended || r != 0) {
        control_agent_sink_end(a, p->ended ? SNIC_ECANCELED : r);
        return;
    }
    if (q->op == SNIC_SEGMENTS_FENCE) {
        control_agent_sink_end(a, (int)p->copied);
        return;
    }
    p->at += p->now;
    p->copied += p->now;
    a->stats.copied_in += p->now;
    control_agent_sink_write(a);
}

static void control_agent_sink_submit(struct snic_control_agent *a, uint16_t op)
{
    struct control_agent_sink *p = &a->sink;
    SNIC_ASSERT(!p->submitted);
    SNIC_ASSERT(p->busy);
    memset(&p->req, 0, sizeof(p->req));
    p->req.done = control_agent_sink_done;
    p->req.op = op;
    p->req.seg_id = p->segment;
    p->req.flags = SNIC_SEGMENTS_ANY_GEN;
    p->req.min_wver = p->fence;
    if (op == SNIC_SEGMENTS_WRITE) {
        p->now = (uint32_t)snic_min_u64(p->count - p->at, a->list_max);
        p->req.blocks = &p->block[p->at];
        p->req.count = (uint16_t)p->now;
    }
    int r = snic_segments_submit(a->o.store, &p->req);
    p->retry_due = r == SNIC_EAGAIN;
    p->submitted = r == 0;
    if (p->retry_due)
        control_agent_retry(a);
    else if (r != 0)
        control_agent_sink_end(a, r);
}

/* Write the received blocks, then request the next part, then set the fence. */
static void control_agent_sink_write(struct snic_control_agent *a)
{
    struct control_agent_sink *p = &a->sink;
    SNIC_ASSERT(p->at <= p->count);
    if (p->at < p->count) {
        control_agent_sink_submit(a, SNIC_SEGMENTS_WRITE);
        return;
    }
    p->first += SNIC_CONTROL__LIST;
    if (p->first < SNIC_SEGMENTS_BLOCKS)
        control_agent_sink_request(a);
    else if (p->fence != 0)
        control_agent_sink_submit(a, SNIC_SEGMENTS_FENCE);
    else
        control_agent_sink_end(a, (int)p->copied);
}

void control_agent_sink_retry(struct snic_control_agent *a)
{
    struct control_agent_sink *p = &a->sink;
    if (!p->retry_due || a->closing)
        return;
    p->retry_due = 0;
    control_agent_sink_submit(a, p->at < p->count ? SNIC_SEGMENTS_WRITE : SNIC_SEGMENTS_FENCE);
}

/* ---- The peer ---- */

static void control_agent_sink_request(struct snic_control_agent *a)
{
    struct control_agent_sink *p = &a->sink;
    unsigned char body[SNIC_CONTROL__LIST * 8];
    struct snic_control_msg m;
    SNIC_ASSERT(p->first + SNIC_CONTROL__LIST <= SNIC_SEGMENTS_BLOCKS);
    for (uint32_t i = 0; i < SNIC_CONTROL__LIST; i++)
        snic_put_le64(body + 8 * i, p->version[p->first + i]);
    control_msg(&m, SNIC_CONTROL_PULL, 0);
    m.segment = p->source_segment;
    m.gen = p->gen;
    m.value = p->first;
    m.body = body;
    m.body_size = sizeof(body);
    p->heard_ns = snic_loop_now(a->o.loop);
    p->count = p->at = 0;
    (void)control_stream_send(&p->s, &m, 0);
}

/* The body's blocks; their bytes stay in it. */
static int control_agent_sink_parse(struct control_agent_sink *p, uint32_t size)
{
    const unsigned char *b = p->body;
    uint32_t left = size, next = p->first;
    p->count = p->at = 0;
    while (left >= SNIC_CONTROL__BLOCK) {
        uint32_t number = snic_get_le16(b);
        if (number < next || number >= p->first + SNIC_CONTROL__LIST || b[2] > SNIC_SEGMENTS_LOST)
            return SNIC_EPROTO;
        SNIC_ASSERT(p->count < SNIC_CONTROL__LIST); /* as numbers rise in a range of so many */
        struct snic_segments_block *x = &p->block[p->count];
        memset(x, 0, sizeof(*x));
        next = number + 1;
        x->block = (uint16_t)number;
        x->kind = b[2];
        x->data_crc = snic_get_le32(b + 4);
        x->wver = snic_get_le64(b + 8);
        if (p->fresh && x->wver != 0)
            x->wver = 1; /* older than a write of any lease */
        x->block_tag = snic_get_le32(b + 16);
        b += SNIC_CONTROL__BLOCK;
        left -= SNIC_CONTROL__BLOCK;
        if (x->wver == 0 || (x->kind != SNIC_SEGMENTS_DATA && x->data_crc != 0))
            return SNIC_EPROTO;
        if (x->kind == SNIC_SEGMENTS_DATA) {
            if (left < SNIC_SEGMENTS_BLOCK)
                return SNIC_EPROTO;
            x->data = (void *)(uintptr_t)b;
            b += SNIC_SEGMENTS_BLOCK;
            left -= SNIC_SEGMENTS_BLOCK;
        }
        p->count++;
    }
    return left == 0 ? 0 : SNIC_EPROTO;
}

static void control_agent_sink_msg(void *owner, struct snic_control_msg *m)
{
    struct snic_control_agent *a = owner;
    struct control_agent_sink *p = &a->sink;
    int r = 0;
    p->up = 2;
    if (p->ended)
        return;
    p->heard_ns = snic_loop_now(a->o.loop);
    if (m->type != SNIC_CONTROL_BLOCKS || p->submitted || p->retry_due || p->at < p->count ||
        (m->status >= 0 && m->body_size > SNIC_CONTROL__BODY))
        r = SNIC_EPROTO;
    else if (m->status < 0)
        r = m->status;
    if (r == 0) {
        memcpy(p->body, m->body, m->body_size);
        r = control_agent_sink_parse(p, m->body_size);
    }
    p->fence = p->fresh ? 0 : m->value;
    if (r != 0)
        control_agent_sink_end(a, r);
    else
        control_agent_sink_write(a);
}

static void control_agent_sink_up(void *owner)
{
    ((struct snic_control_agent *)owner)->sink.up = 1;
    control_agent_sink_request(owner);
}

static void control_agent_sink_gone(void *owner, int reason)
{
    struct snic_control_agent *a = owner;
    struct control_agent_sink *p = &a->sink;
    int full = p->up == 1 && reason == SNIC_ECONNRESET; /* others copy from there: copy_source.c */
    p->up = 0;
    if (a->closing || !p->busy)
        return;
    if (!p->connect_due) {
        control_agent_sink_end(a, full ? SNIC_EAGAIN : reason != 0 ? reason : SNIC_ECONNRESET);
        return;
    }
    p->connect_due = 0;
    int r = control_stream_connect(&p->s, &p->addr);
    if (r != 0)
        control_agent_sink_end(a, r);
}

void control_agent_sink_begin(struct snic_control_agent *a, const struct control_agent_command *k)
{
    struct control_agent_sink *p = &a->sink;
    struct snic_segments_stat stat;
    int r = p->busy ? SNIC_EBUSY : 0;
    if (r == 0 && (k->segment == SNIC_VOLUME_META || k->segment == SNIC_CONTROL_META))
        r = SNIC_EINVAL;
    if (r == 0)
        r = snic_segments_find(a->o.store, k->segment, &stat);
    if (r != 0) {
        control_agent_result(a, a->session, k->tag, r);
        return;
    }
    if (p->segment != k->segment || k->op == SNIC_CONTROL_COPY_NEW)
        memset(p->version, 0, sizeof(p->version));
    p->fresh = k->op == SNIC_CONTROL_COPY_NEW;
    p->source_segment = p->fresh ? k->lba : k->segment;
    p->segment = k->segment;
    p->gen = k->gen;
    p->tag = k->tag;
    p->session = a->session;
    p->first = p->count = p->at = p->copied = 0;
    p->fence = 0;
    p->busy = 1;
    p->ended = p->submitted = p->retry_due = p->connect_due = 0;
    p->heard_ns = snic_loop_now(a->o.loop);
    if (p->s.conn != NULL && !p->s.closing && control_addr_same(&p->addr, &k->addr)) {
        control_agent_sink_request(a);
        return;
    }
    p->addr = k->addr;
    p->connect_due = p->s.conn != NULL; /* connect when the previous one is gone */
    control_stream_abort(&p->s);
    r = p->connect_due ? 0 : control_stream_connect(&p->s, &k->addr);
    if (r != 0)
        control_agent_sink_end(a, r);
}

void control_agent_sink_tick(struct snic_control_agent *a, uint64_t now)
{
    struct control_agent_sink *p = &a->sink;
    if (p->submitted || p->retry_due)
        return;
    if (p->busy && !p->ended && now - p->heard_ns > SNIC_CONTROL__SINK_TIMEOUT_NS)
        control_agent_sink_end(a, SNIC_ETIMEDOUT);
    else if (!p->busy && now - p->heard_ns > SNIC_CONTROL__SINK_KEEP_NS)
        control_stream_abort(&p->s); /* others may need its place there */
}

void control_agent_sink_init(struct snic_control_agent *a, unsigned char *in, unsigned char *out,
                             unsigned char *body)
{
    static const struct control_stream_events ev = {.up = control_agent_sink_up,
                                                    .msg = control_agent_sink_msg,
                                                    .gone = control_agent_sink_gone};
    control_stream_init(&a->sink.s, a->o.net, &ev, a, in, SNIC_CONTROL_LARGE, out,
                        SNIC_CONTROL_SMALL);
    a->sink.body = body;
}
