/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Grants: buffers lent for the next bytes of a write, each requested by one R2T. A grant is found
 * by its tag: its number, and above it its generation. J2, J3.
 */
#include "nvmetcp/target_priv.h"

static uint16_t nvmetcp_grant_tag(const struct snic_nvmetcp_target *t,
                                  const struct nvmetcp_grant *g)
{
    return (uint16_t)((uint32_t)(g - t->grants) | (uint32_t)g->gen << t->tag_bits);
}

static void nvmetcp_grant_free(struct snic_nvmetcp_target *t, struct nvmetcp_grant *g)
{
    g->used = 0;
    g->gen++;
    snic_queue_push(&t->free_grants, &g->free);
}

int snic_nvmetcp_target_grant(struct snic_nvmetcp_target *t, uint32_t command,
                              const struct snic_iov *iov, uint32_t iov_count, uint32_t size,
                              uint64_t now_ns)
{
    struct nvmetcp_slot *s = nvmetcp_slot_of(t, command);
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_R2T};
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    if (t->c.state >= NVMETCP_TERMINATING)
        return SNIC_ENOTCONN;
    if (s == NULL)
        return SNIC_ENOENT;
    if (s->dir != NVMETCP_DIR_IN || size == 0 || size > s->wanted - s->granted ||
        !nvmetcp_span_fits(iov, iov_count, size))
        return SNIC_EINVAL;
    if (s->grants >= t->r2ts || snic_queue_empty(&t->free_grants))
        return SNIC_EAGAIN;
    struct snic_node *n = snic_queue_pop(&t->free_grants);
    struct nvmetcp_grant *g = SNIC_CONTAINER(n, struct nvmetcp_grant, free);
    g->used = 1;
    g->waits = 1;
    g->corrupt = 0;
    g->all = 0;
    g->slot = (uint32_t)(s - t->slots);
    g->offset = s->granted;
    g->size = size;
    g->got = 0;
    g->iov = iov;
    g->at.iov = iov;
    g->at.skip = 0;
    g->expires_ns = t->c.now_ns + t->o.data_ns;
    snic_link_append(&t->open, &g->open);
    s->granted += size;
    s->grants++;
    t->c.s.grants++;
    t->c.s.r2ts++;
    pdu.cccid = s->cid;
    pdu.ttag = nvmetcp_grant_tag(t, g);
    pdu.offset = g->offset;
    pdu.length = size;
    memset(&g->out, 0, sizeof(g->out));
    g->out.kind = NVMETCP_OUT_R2T;
    unsigned char *head = nvmetcp_head(t);
    g->out.head = head;
    g->out.head_size = (uint8_t)snic_nvmetcp_encode(head, &pdu, &t->c.tx);
    t->heads_at += g->out.head_size;
    nvmetcp_out_queue(&t->c, &g->out);
    return 0;
}

int nvmetcp_target_data(struct snic_nvmetcp_target *t)
{
    struct nvmetcp_in *in = &t->c.in;
    const struct snic_nvmetcp_pdu *p = &in->pdu;
    uint32_t i = p->ttag & ((1u << t->tag_bits) - 1u);
    struct nvmetcp_grant *g = i < t->o.grants_max ? &t->grants[i] : NULL;
    int known =
        g != NULL && g->used && g->waits && g->out.handed && p->ttag == nvmetcp_grant_tag(t, g);
    if (known && p->cccid != t->slots[g->slot].cid)
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_HEADER, 8);
    if (!known)
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_HEADER, 10);
    if (p->length == 0)
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_HEADER, 16);
    if (p->length > t->o.h2c_max)
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_LIMIT, 0);
    if (p->offset < g->offset || p->offset - g->offset > g->size ||
        p->length > g->size - (p->offset - g->offset))
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_RANGE, 0);
    int last = (p->flags & SNIC_NVMETCP_LAST) != 0;
    if (p->offset - g->offset != g->got || last != (g->got + p->length == g->size))
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_SEQUENCE, 0);
    in->dest = g->at;
    t->filling = g;
    return 0;
}

int nvmetcp_target_data_done(struct snic_nvmetcp_target *t, int good)
{
    struct nvmetcp_grant *g = t->filling;
    struct nvmetcp_slot *s = &t->slots[g->slot];
    uint32_t length = t->c.in.pdu.length;
    t->filling = NULL;
    g->got += length;
    nvmetcp_span_skip(&g->at, length, g->size - g->got);
    if (!good) {
        g->corrupt = 1;
        s->corrupt = 1;
    }
    if (g->got < g->size)
        return 0;
    g->waits = 0;
    snic_link_remove(&g->open);
    s->arrived += g->size;
    s->grants--;
    t->c.s.grants--;
    g->all = s->arrived == s->wanted;
    nvmetcp_event(&t->c, &g->ev, SNIC_NVMETCP_DATA_IN);
    return 0;
}

void nvmetcp_grant_sent(struct snic_nvmetcp_target *t, struct nvmetcp_grant *g)
{
    if (!g->waits && g->ev.type == 0)
        nvmetcp_grant_free(t, g);
}

void nvmetcp_grant_polled(struct snic_nvmetcp_target *t, struct nvmetcp_grant *g)
{
    if (!g->out.queued)
        nvmetcp_grant_free(t, g);
}

/* The connection is terminating: no data will come. Their R2Ts may still be in the output. */
void nvmetcp_grants_void(struct snic_nvmetcp_target *t)
{
    while (!snic_link_alone(&t->open)) {
        struct nvmetcp_grant *g = SNIC_CONTAINER(t->open.next, struct nvmetcp_grant, open);
        snic_link_remove(&g->open);
        g->waits = 0;
        t->slots[g->slot].grants--;
        t->c.s.grants--;
        if (!g->out.queued)
            nvmetcp_grant_free(t, g);
    }
    t->filling = NULL;
}
