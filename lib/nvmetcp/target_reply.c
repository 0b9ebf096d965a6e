/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Slots of commands, and their responses. I2, J1.
 */
#include "nvmetcp/target_priv.h"

struct nvmetcp_slot *nvmetcp_slot_of(struct snic_nvmetcp_target *t, uint32_t command)
{
    uint32_t i = command & 0xffff;
    if (i >= t->o.depth_max)
        return NULL;
    struct nvmetcp_slot *s = &t->slots[i];
    return s->state == NVMETCP_SLOT_OPEN && s->gen == command >> 16 ? s : NULL;
}

void nvmetcp_reply_free(struct snic_nvmetcp_target *t, struct nvmetcp_reply *r)
{
    r->used = 0;
    nvmetcp_stack(&t->free_replies, &r->free);
}

void nvmetcp_slot_free(struct snic_nvmetcp_target *t, struct nvmetcp_slot *s)
{
    size_t stride = (size_t)snic_align_up(t->o.inline_max, 4096);
    if (s->inline_data != NULL) {
        size_t i = (size_t)(s->inline_data - t->inlines) / stride;
        nvmetcp_stack(&t->free_inlines, &t->inline_nodes[i]);
        s->inline_data = NULL;
        t->c.s.inlines--;
    }
    if (s->reply != NULL)
        nvmetcp_reply_free(t, s->reply);
    s->reply = NULL;
    if (t->connecting == s)
        t->connecting = NULL;
    s->state = NVMETCP_SLOT_FREE;
    s->gen++;
    t->c.s.active--;
    nvmetcp_stack(&t->free_slots, &s->free);
}

static void nvmetcp_reply_cqe(struct snic_nvmetcp_target *t, const struct nvmetcp_slot *s,
                              const struct snic_nvmetcp_completion *c, unsigned char *cqe)
{
    uint32_t fabrics = s->sqe[0] == SNIC_NVMETCP__FABRICS;
    uint64_t result = c->result;
    if ((t->flags & SNIC_NVMETCP_CREDIT) != 0 && !fabrics)
        result = (uint64_t)c->credit << 32 | (result & UINT32_MAX);
    memset(cqe, 0, SNIC_NVMETCP_CQE_BYTES);
    snic_put_le64(cqe, result);
    if ((t->flags & SNIC_NVMETCP_NO_SQ_FLOW) == 0)
        snic_put_le16(cqe + 8, t->sqhd);
    else
        snic_put_le16(cqe + 8, 0xffff);
    snic_put_le16(cqe + 12, s->cid);
    snic_put_le16(cqe + 14, (uint16_t)(c->status << 1));
}

/* The response holds nothing but success, and may be left out. */
static int nvmetcp_reply_short(const struct snic_nvmetcp_target *t,
                               const struct snic_nvmetcp_completion *c, uint32_t expected)
{
    return (t->flags & (SNIC_NVMETCP_NO_SQ_FLOW | SNIC_NVMETCP_CREDIT)) ==
               SNIC_NVMETCP_NO_SQ_FLOW &&
           c->status == 0 && c->result == 0 && c->size == expected;
}

static void nvmetcp_reply_data(struct snic_nvmetcp_target *t, struct nvmetcp_reply *r,
                               const struct nvmetcp_slot *s,
                               const struct snic_nvmetcp_completion *c, int success)
{
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_C2H_DATA, .flags = SNIC_NVMETCP_LAST};
    struct nvmetcp_span data = {.iov = c->iov};
    pdu.flags |= success ? SNIC_NVMETCP_SUCCESS : 0;
    pdu.cccid = s->cid;
    pdu.data_size = c->size;
    pdu.length = c->size;
    unsigned char *head = nvmetcp_head(t);
    r->out.head_size = (uint8_t)snic_nvmetcp_encode(head, &pdu, &t->c.tx);
    r->out.tail = head + r->out.head_size;
    r->out.pad_size = (uint8_t)pdu.pad_size;
    r->out.data = data;
    r->out.data_size = c->size;
    if ((t->c.tx.digests & SNIC_NVMETCP_DDGST) != 0) {
        snic_put_le32(head + r->out.head_size, nvmetcp_span_crc(data, c->size));
        r->out.tail_size = 4;
    }
}

void nvmetcp_target_respond(struct snic_nvmetcp_target *t, struct nvmetcp_slot *s,
                            const struct snic_nvmetcp_completion *c)
{
    struct nvmetcp_reply *r = s->reply;
    unsigned char cqe[SNIC_NVMETCP_CQE_BYTES];
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_CAPSULE_RESP, .capsule = cqe};
    int success = c->size > 0 && nvmetcp_reply_short(t, c, s->wanted);
    s->reply = NULL;
    memset(&r->out, 0, sizeof(r->out));
    r->out.kind = NVMETCP_OUT_REPLY;
    r->out.head = nvmetcp_head(t);
    r->cookie = c->cookie;
    r->size = c->size;
    if (t->connected)
        t->sqhd = (uint16_t)((t->sqhd + 1u) % t->entries);
    if (c->size > 0)
        nvmetcp_reply_data(t, r, s, c, success);
    if (success) {
        t->c.s.successes++;
    } else {
        unsigned char *to = nvmetcp_head(t) + r->out.head_size + r->out.tail_size;
        nvmetcp_reply_cqe(t, s, c, cqe);
        int n = snic_nvmetcp_encode(to, &pdu, &t->c.tx);
        if (c->size > 0)
            r->out.tail_size = (uint8_t)(r->out.tail_size + n);
        else
            r->out.head_size = (uint8_t)n;
    }
    t->heads_at += (size_t)r->out.head_size + r->out.tail_size;
    t->c.s.responses++;
    nvmetcp_slot_free(t, s);
    nvmetcp_out_queue(&t->c, &r->out);
}

int snic_nvmetcp_target_complete(struct snic_nvmetcp_target *t, uint32_t command,
                                 const struct snic_nvmetcp_completion *c, uint64_t now_ns)
{
    struct snic_nvmetcp_completion bad = {.status = SNIC_NVMETCP__TRANSPORT};
    struct nvmetcp_slot *s = nvmetcp_slot_of(t, command);
    t->c.now_ns = snic_max_u64(t->c.now_ns, now_ns);
    if (s == NULL)
        return t->c.state == NVMETCP_OVER ? SNIC_ENOTCONN : SNIC_ENOENT;
    if (t->c.state >= NVMETCP_TERMINATING) {
        nvmetcp_slot_free(t, s);
        return SNIC_ENOTCONN;
    }
    if (c->size > 0 && (s->dir != NVMETCP_DIR_OUT || c->size > s->wanted ||
                        !nvmetcp_span_fits(c->iov, c->iov_count, c->size)))
        return SNIC_EINVAL;
    if (s->grants > 0)
        return SNIC_EBUSY;
    nvmetcp_target_respond(t, s, s->corrupt ? &bad : c);
    nvmetcp_conn_resume(&t->c);
    return 0;
}
