/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's half: options, memory, commands, events, and what the owner calls.
 */
#include "nvmetcp/host_priv.h"

const struct nvmetcp_role nvmetcp_host_role = {
    .head = nvmetcp_host_head,
    .done = nvmetcp_host_done,
    .handed = nvmetcp_host_handed,
    .sent = nvmetcp_host_out_sent,
    .down = nvmetcp_host_down,
};

/* ---- Options and memory ---- */

static const char *nvmetcp_host_wrong(const struct snic_nvmetcp_host_opts *o)
{
    if ((o->flags & ~SNIC_NVMETCP_NO_SQ_FLOW) != 0)
        return "flags: unknown bits";
    if (o->pad != 0)
        return "pad: not 0";
    if ((o->digests & ~(SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST)) != 0)
        return "digests: unknown bits";
    if (o->hpda > 31)
        return "hpda: not 0..31";
    if (o->entries < 2 || o->entries > SNIC_NVMETCP_DEPTH_MAX)
        return "entries: not 2..4096";
    if (o->r2ts_max < 1 || o->r2ts_max > SNIC_NVMETCP_R2TS_MAX)
        return "r2ts_max: not 1..64";
    if (o->transfer_max < 4096 || o->transfer_max > SNIC_NVMETCP_TRANSFER_MAX)
        return "transfer_max: not 4096..1 GiB";
    if (o->greet_ns > SNIC_NVMETCP_NS_MAX)
        return "greet_ns: above 2^60";
    if (o->close_ns > SNIC_NVMETCP_NS_MAX)
        return "close_ns: above 2^60";
    return NULL;
}

static int nvmetcp_host_opts(struct snic_nvmetcp_host_opts *full,
                             const struct snic_nvmetcp_host_opts *o, const char **wrong)
{
    memset(full, 0, sizeof(*full));
    *wrong = "opts_size: not that of the struct";
    if (snic_opts_copy(full, sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    full->entries += full->entries == 0 ? 128 : 0;
    full->r2ts_max += full->r2ts_max == 0 ? 1 : 0;
    full->transfer_max += full->transfer_max == 0 ? 1u << 20 : 0;
    full->greet_ns += full->greet_ns == 0 ? UINT64_C(10000000000) : 0;
    full->close_ns += full->close_ns == 0 ? UINT64_C(30000000000) : 0;
    *wrong = nvmetcp_host_wrong(full);
    return *wrong == NULL ? 0 : SNIC_EINVAL;
}

const char *snic_nvmetcp_host_opts_wrong(const struct snic_nvmetcp_host_opts *o)
{
    struct snic_nvmetcp_host_opts full;
    const char *wrong;
    (void)nvmetcp_host_opts(&full, o, &wrong);
    return wrong;
}

static struct snic_nvmetcp_host *nvmetcp_host_place(struct snic_arena *a,
                                                    const struct snic_nvmetcp_host_opts *o)
{
    struct snic_nvmetcp_host *h = snic_arena_take(a, 1, sizeof(*h), SNIC_CACHELINE);
    struct nvmetcp_task *tasks =
        snic_arena_take(a, nvmetcp_host_tasks(o), sizeof(*tasks), SNIC_CACHELINE);
    struct nvmetcp_send *sends =
        snic_arena_take(a, nvmetcp_host_sends(o), sizeof(*sends), SNIC_CACHELINE);
    if (a->base == NULL || a->used == SIZE_MAX)
        return NULL;
    memset(a->base, 0, a->used);
    h->o = *o;
    h->mem = a->base;
    h->tasks = tasks;
    h->sends = sends;
    return h;
}

size_t snic_nvmetcp_host_memsize(const struct snic_nvmetcp_host_opts *o)
{
    struct snic_nvmetcp_host_opts full;
    const char *wrong;
    struct snic_arena a = {.base = NULL};
    if (nvmetcp_host_opts(&full, o, &wrong) != 0)
        return 0;
    (void)nvmetcp_host_place(&a, &full);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_nvmetcp_host_init(struct snic_nvmetcp_host **out, void *mem, size_t size,
                           const struct snic_nvmetcp_host_opts *o, uint64_t now_ns)
{
    struct snic_nvmetcp_host_opts full;
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_ICREQ};
    const char *wrong;
    struct snic_arena a = {.base = mem, .size = size};
    if (nvmetcp_host_opts(&full, o, &wrong) != 0 || (uintptr_t)mem % SNIC_NVMETCP_ALIGN != 0)
        return SNIC_EINVAL;
    struct snic_nvmetcp_host *h = nvmetcp_host_place(&a, &full);
    if (h == NULL)
        return SNIC_ENOSPC;
    nvmetcp_conn_init(&h->c, &nvmetcp_host_role, 0, now_ns);
    h->c.greet_ns = now_ns + full.greet_ns;
    h->c.close_wait_ns = full.close_ns;
    h->c.rx.pda = (uint8_t)full.hpda;
    h->flow = (full.flags & SNIC_NVMETCP_NO_SQ_FLOW) == 0;
    while ((1u << h->tag_bits) < nvmetcp_host_tasks(&full))
        h->tag_bits++;
    for (uint32_t i = 0; i < nvmetcp_host_tasks(&full); i++)
        snic_queue_push(&h->free_tasks, &h->tasks[i].free);
    for (uint32_t i = 0; i < nvmetcp_host_sends(&full); i++)
        snic_queue_push(&h->free_sends, &h->sends[i].free);
    pdu.pda = (uint8_t)full.hpda;
    pdu.digests = (uint8_t)full.digests;
    pdu.limit = full.r2ts_max - 1;
    h->c.ic.head_size = (uint8_t)snic_nvmetcp_encode(h->c.ic_head, &pdu, &h->c.tx);
    nvmetcp_out_queue(&h->c, &h->c.ic);
    *out = h;
    return 0;
}

void *snic_nvmetcp_host_fini(struct snic_nvmetcp_host *h)
{
    SNIC_ASSERT(h->c.s.active == 0);
    return h->mem;
}

/* ---- Commands ---- */

void snic_nvmetcp_host_inline(struct snic_nvmetcp_host *h, uint32_t bytes)
{
    h->inline_max = bytes;
}

static void nvmetcp_task_sqe(struct snic_nvmetcp_command *q, int is_inline)
{
    unsigned char *sqe = q->sqe;
    sqe[1] = (unsigned char)((sqe[1] & 0x3f) | 0x40); /* PSDT: SGL */
    snic_put_le16(sqe + 2, q->cid);
    memset(sqe + 24, 0, 16);
    snic_put_le32(sqe + 32, q->size);
    sqe[39] = is_inline ? SNIC_NVMETCP__SGL_INLINE : SNIC_NVMETCP__SGL_DATA;
}

static void nvmetcp_task_capsule(struct snic_nvmetcp_host *h, struct nvmetcp_task *k)
{
    struct snic_nvmetcp_command *q = k->cmd;
    struct snic_nvmetcp_pdu pdu = {.type = SNIC_NVMETCP_CAPSULE_CMD, .capsule = q->sqe};
    pdu.data_size = k->is_inline ? q->size : 0;
    memset(&k->out, 0, sizeof(k->out));
    k->out.kind = NVMETCP_OUT_COMMAND;
    k->out.head = k->head;
    k->out.head_size = (uint8_t)snic_nvmetcp_encode(k->head, &pdu, &h->c.tx);
    k->out.pad_size = (uint8_t)pdu.pad_size;
    k->out.data.iov = q->iov;
    k->out.data_size = pdu.data_size;
    if (pdu.data_size > 0 && (h->c.tx.digests & SNIC_NVMETCP_DDGST) != 0) {
        snic_put_le32(k->tail, nvmetcp_span_crc(k->out.data, pdu.data_size));
        k->out.tail = k->tail;
        k->out.tail_size = 4;
    }
    nvmetcp_out_queue(&h->c, &k->out);
}

int snic_nvmetcp_host_submit(struct snic_nvmetcp_host *h, struct snic_nvmetcp_command *q,
                             uint64_t now_ns)
{
    enum nvmetcp_dir dir = nvmetcp_dir_of(q->sqe);
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    if (h->c.state >= NVMETCP_TERMINATING)
        return SNIC_ENOTCONN;
    if (q->size > 0 &&
        ((dir != NVMETCP_DIR_IN && dir != NVMETCP_DIR_OUT) || q->size > h->o.transfer_max ||
         !nvmetcp_span_fits(q->iov, q->iov_count, q->size)))
        return SNIC_EINVAL;
    uint16_t tail = (uint16_t)((h->sq_tail + 1u) % h->o.entries);
    if (h->c.state != NVMETCP_UP || h->ready.type != 0 || snic_queue_empty(&h->free_tasks) ||
        (h->flow && tail == h->sq_head))
        return SNIC_EAGAIN;
    struct snic_node *n = snic_queue_pop(&h->free_tasks);
    struct nvmetcp_task *k = SNIC_CONTAINER(n, struct nvmetcp_task, free);
    h->sq_tail = tail;
    k->cmd = q;
    k->outs = 1;
    k->r2ts = 0;
    k->answered = 0;
    k->corrupt = 0;
    k->last = 0;
    k->dir = (uint8_t)dir;
    k->is_inline = dir == NVMETCP_DIR_IN && q->size > 0 && q->size <= h->inline_max;
    k->at.iov = q->iov;
    k->at.skip = 0;
    q->received = 0;
    q->cid = (uint16_t)((uint32_t)(k - h->tasks) | (uint32_t)k->gen << h->tag_bits);
    h->c.s.active++;
    h->c.s.active_max = (uint32_t)snic_max_u64(h->c.s.active_max, h->c.s.active);
    h->c.s.commands++;
    nvmetcp_task_sqe(q, k->is_inline);
    nvmetcp_task_capsule(h, k);
    return 0;
}

/* ---- The stream ---- */

int snic_nvmetcp_host_recv(struct snic_nvmetcp_host *h, const void *data, size_t size, size_t *used,
                           uint64_t now_ns)
{
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    *used = size;
    if (h->c.state == NVMETCP_OVER)
        return SNIC_ENOTCONN;
    *used = nvmetcp_conn_recv(&h->c, data, size);
    return 0;
}

int snic_nvmetcp_host_paused(const struct snic_nvmetcp_host *h)
{
    return h->c.in.phase == NVMETCP_ADMIT;
}

uint32_t snic_nvmetcp_host_want(const struct snic_nvmetcp_host *h, struct snic_iov *iov,
                                uint32_t max)
{
    return nvmetcp_conn_want(&h->c, iov, max);
}

void snic_nvmetcp_host_filled(struct snic_nvmetcp_host *h, size_t size, uint64_t now_ns)
{
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    nvmetcp_conn_filled(&h->c, size);
}

uint32_t snic_nvmetcp_host_output(struct snic_nvmetcp_host *h, struct snic_iov *iov, uint32_t max,
                                  size_t *bytes)
{
    return nvmetcp_out_take(&h->c, iov, max, bytes);
}

void snic_nvmetcp_host_sent(struct snic_nvmetcp_host *h, size_t bytes, uint64_t now_ns)
{
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    nvmetcp_conn_sent(&h->c, bytes);
}

void snic_nvmetcp_host_rewind(struct snic_nvmetcp_host *h)
{
    nvmetcp_out_rewind(&h->c);
}

/* ---- Events and the end ---- */

static void nvmetcp_task_free(struct snic_nvmetcp_host *h, struct nvmetcp_task *k)
{
    k->cmd = NULL;
    k->gen++;
    h->c.s.active--;
    snic_queue_push(&h->free_tasks, &k->free);
}

int snic_nvmetcp_host_poll(struct snic_nvmetcp_host *h, struct snic_nvmetcp_event *out,
                           uint64_t now_ns)
{
    struct nvmetcp_conn *c = &h->c;
    nvmetcp_conn_tick(c, now_ns);
    if (nvmetcp_conn_final(c, out, SNIC_NVMETCP_TERM))
        return 1;
    struct snic_node *n = snic_queue_pop(&c->events);
    if (n == NULL)
        return nvmetcp_conn_final(c, out, SNIC_NVMETCP_ENDED);
    struct nvmetcp_ev *ev = SNIC_CONTAINER(n, struct nvmetcp_ev, node);
    memset(out, 0, sizeof(*out));
    out->type = ev->type;
    ev->type = 0;
    if (out->type == SNIC_NVMETCP_DONE) {
        struct nvmetcp_task *k = SNIC_CONTAINER(ev, struct nvmetcp_task, ev);
        out->req = k->cmd;
        nvmetcp_task_free(h, k);
    }
    return 1;
}

uint64_t snic_nvmetcp_host_deadline_ns(const struct snic_nvmetcp_host *h)
{
    return snic_queue_empty(&h->c.events) ? nvmetcp_conn_deadline(&h->c) : h->c.now_ns;
}

void snic_nvmetcp_host_end(struct snic_nvmetcp_host *h, int reason, uint64_t now_ns)
{
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    nvmetcp_conn_over(&h->c, reason);
}

void snic_nvmetcp_host_closed(struct snic_nvmetcp_host *h, uint64_t now_ns)
{
    h->c.now_ns = snic_max_u64(h->c.now_ns, now_ns);
    nvmetcp_conn_over(&h->c, SNIC_ECONNRESET);
}

void snic_nvmetcp_host_stats(const struct snic_nvmetcp_host *h, struct snic_nvmetcp_stats *out)
{
    *out = h->c.s;
}

int snic_nvmetcp_host_check(const struct snic_nvmetcp_host *h)
{
    uint32_t active = 0, sends = 0, outs = 0;
    if (nvmetcp_conn_check(&h->c) != 0)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < nvmetcp_host_tasks(&h->o); i++) {
        const struct nvmetcp_task *k = &h->tasks[i];
        if (k->cmd == NULL && (k->ev.type != 0 || (k->out.queued && h->c.state != NVMETCP_OVER)))
            return SNIC_ECORRUPT; /* H1 */
        if (k->cmd == NULL)
            continue;
        active++;
        outs += k->outs;
        sends += k->r2ts;
        if ((k->answered && k->outs == 0) != (k->ev.type != 0) || k->r2ts > h->o.r2ts_max ||
            k->cmd->received > k->cmd->size)
            return SNIC_ECORRUPT; /* H2 */
    }
    if (active != h->c.s.active)
        return SNIC_ECORRUPT;
    if (h->c.state == NVMETCP_OVER)
        return 0; /* output is forgotten, not taken apart */
    for (uint32_t i = 0; i < nvmetcp_host_sends(&h->o); i++) {
        const struct nvmetcp_send *s = &h->sends[i];
        sends -= s->used && !(s->left == 0 && s->out.handed);
        if (s->used != s->out.queued)
            return SNIC_ECORRUPT; /* H3 */
    }
    outs += h->c.ic.queued;
    outs += h->c.term.queued;
    return sends == 0 && outs == h->c.s.queued ? 0 : SNIC_ECORRUPT;
}
