/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Other servers copy from here: a request names a part of a segment and the versions that the other
 * has; the answer has the blocks that are newer. One request of a peer at a time. A block that is
 * damaged here is sent as lost, under its version, or under 1 if that is lost, too.
 */
#include "control/agent_priv.h"

SNIC_STATIC_ASSERT(SNIC_SEGMENTS_BLOCKS % SNIC_CONTROL__LIST == 0, "requests are whole lists");
SNIC_STATIC_ASSERT(SNIC_CONTROL__BODY + SNIC_CONTROL_SMALL <= SNIC_CONTROL_LARGE, "BLOCKS fits");

#define SNIC_CONTROL__SOURCE_IDLE_NS UINT64_C(10000000000)

static void control_agent_source_reply(struct control_agent_source *p, int status, uint64_t fence,
                                       uint32_t size)
{
    struct snic_control_msg m;
    control_msg(&m, SNIC_CONTROL_BLOCKS, p->tag);
    m.status = status;
    m.value = fence;
    m.body = p->body;
    m.body_size = size;
    (void)control_stream_send(&p->s, &m, 0);
}

static uint32_t control_agent_source_body(struct control_agent_source *p)
{
    unsigned char *to = p->body;
    for (uint32_t i = 0; i < SNIC_CONTROL__LIST; i++) {
        const struct snic_segments_block *b = &p->block[i];
        int lost = b->status == SNIC_SEGMENTS_DAMAGED;
        uint8_t kind = lost ? SNIC_SEGMENTS_LOST : b->kind;
        uint64_t wver = lost ? snic_max_u64(b->wver, 1) : b->wver;
        if (wver <= p->version[i])
            continue;
        memset(to, 0, SNIC_CONTROL__BLOCK);
        snic_put_le16(to, b->block);
        to[2] = kind;
        snic_put_le32(to + 4, kind == SNIC_SEGMENTS_DATA ? b->data_crc : 0);
        snic_put_le64(to + 8, wver);
        snic_put_le32(to + 16, b->block_tag);
        to += SNIC_CONTROL__BLOCK;
        if (kind == SNIC_SEGMENTS_DATA) {
            memcpy(to, b->data, SNIC_SEGMENTS_BLOCK);
            to += SNIC_SEGMENTS_BLOCK;
        }
        p->a->stats.copied_out++;
    }
    SNIC_ASSERT(to - p->body <= (ptrdiff_t)SNIC_CONTROL__BODY);
    return (uint32_t)(to - p->body);
}

static void control_agent_source_done(struct snic_segments_req *q)
{
    struct control_agent_source *p = SNIC_CONTAINER(q, struct control_agent_source, req);
    struct snic_segments_stat stat;
    int r = q->result;
    p->submitted = 0;
    if (p->s.conn == NULL) {
        p->used = 0; /* it disconnected meanwhile */
        return;
    }
    if (p->a->closing)
        return;
    memset(&stat, 0, sizeof(stat));
    if (r == SNIC_ECORRUPT && q->refused != 0)
        r = 0; /* the other blocks are valid */
    if (r == 0)
        r = snic_segments_find(p->a->o.store, q->seg_id, &stat);
    control_agent_source_reply(p, r, stat.min_wver, r == 0 ? control_agent_source_body(p) : 0);
}

static void control_agent_source_read(struct control_agent_source *p)
{
    SNIC_ASSERT(p->used);
    SNIC_ASSERT(!p->submitted);
    int r = snic_segments_submit(p->a->o.store, &p->req);
    p->submitted = r == 0;
    p->retry_due = r == SNIC_EAGAIN;
    if (p->retry_due)
        control_agent_retry(p->a);
    else if (r != 0)
        control_agent_source_reply(p, r, 0, 0);
}

void control_agent_source_retry(struct snic_control_agent *a)
{
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES && !a->closing; i++)
        if (a->source[i].retry_due)
            control_agent_source_read(&a->source[i]);
}

static void control_agent_source_msg(void *owner, struct snic_control_msg *m)
{
    struct control_agent_source *p = owner;
    struct snic_segments_stat stat;
    p->heard_ns = snic_loop_now(p->a->o.loop);
    if (m->type != SNIC_CONTROL_PULL || p->submitted || p->retry_due ||
        m->value % SNIC_CONTROL__LIST != 0 || m->value >= SNIC_SEGMENTS_BLOCKS ||
        m->body_size != SNIC_CONTROL__LIST * 8 || m->segment == SNIC_VOLUME_META ||
        m->segment == SNIC_CONTROL_META) {
        control_stream_abort(&p->s);
        return;
    }
    p->tag = m->tag;
    int r = snic_segments_find(p->a->o.store, m->segment, &stat);
    if (r == 0 && stat.gen < m->gen)
        r = SNIC_EBUSY; /* it is not sealed here */
    if (r != 0) {
        control_agent_source_reply(p, r, 0, 0);
        return;
    }
    for (uint32_t i = 0; i < SNIC_CONTROL__LIST; i++) {
        struct snic_segments_block *b = &p->block[i];
        memset(b, 0, sizeof(*b));
        b->block = (uint16_t)(m->value + i);
        b->data = p->data + (size_t)i * SNIC_SEGMENTS_BLOCK;
        p->version[i] = snic_get_le64(m->body + 8 * i);
    }
    memset(&p->req, 0, sizeof(p->req));
    p->req.done = control_agent_source_done;
    p->req.op = SNIC_SEGMENTS_READ;
    p->req.seg_id = m->segment;
    p->req.flags = SNIC_SEGMENTS_ANY_GEN;
    p->req.blocks = p->block;
    p->req.count = SNIC_CONTROL__LIST;
    control_agent_source_read(p);
}

static void control_agent_source_gone(void *owner, int reason)
{
    struct control_agent_source *p = owner;
    (void)reason;
    p->retry_due = 0;
    p->used = p->submitted;
}

void control_agent_source_accept(void *ctx, struct snic_net_conn *n,
                                 const struct snic_net_addr *peer)
{
    struct snic_control_agent *a = ctx;
    uint64_t now = snic_loop_now(a->o.loop);
    struct control_agent_source *p = NULL;
    (void)peer;
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES && p == NULL; i++)
        if (!a->source[i].used)
            p = &a->source[i];
    for (uint32_t i = 0; i < SNIC_CONTROL__SOURCES && p == NULL; i++)
        if (!a->source[i].submitted && now - a->source[i].heard_ns > SNIC_CONTROL__SOURCE_IDLE_NS)
            control_stream_abort(&a->source[i].s); /* frees a place for the new one's retry */
    if (p == NULL || a->closing) {
        snic_net_abort(n);
        return;
    }
    p->used = 1;
    p->heard_ns = now;
    control_stream_accept(&p->s, n);
}

void control_agent_source_init(struct snic_control_agent *a, struct control_agent_source *p,
                               unsigned char *in, unsigned char *out, unsigned char *data,
                               unsigned char *body)
{
    static const struct control_stream_events ev = {.msg = control_agent_source_msg,
                                                    .gone = control_agent_source_gone};
    p->a = a;
    p->data = data;
    p->body = body;
    control_stream_init(&p->s, a->o.net, &ev, p, in, SNIC_CONTROL_SMALL, out, SNIC_CONTROL_LARGE);
}
