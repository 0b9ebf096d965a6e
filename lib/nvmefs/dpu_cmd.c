/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A command from its entry to its completion.
 *
 *   entry ─▶ READY(POINTERS) ─▶ STEP ─▶ [STARVED] ─▶ READY(DATA_IN) ─▶ STEP ─▶ REQUEST ─▶ USER
 *        ─▶ [READY(DATA_OUT) ─▶ STEP] ─▶ DONE ─▶ POSTING ─▶ FREE
 *
 * Whatever is wrong ends in DONE with a status; where the queue is not OPEN any more, in FREE.
 */
#include "nvmefs/nvmefs_priv.h"

static void nvmefs_cmd_on(struct nvmefs_cmd *c, struct snic_link *list, enum nvmefs_cmd_state state)
{
    SNIC_DASSERT(snic_link_alone(&c->link));
    c->state = (uint8_t)state;
    snic_link_append(list, &c->link);
}

static void nvmefs_cmd_ready(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c,
                             enum nvmefs_cmd_phase phase)
{
    c->phase = (uint8_t)phase;
    nvmefs_cmd_on(c, &d->ready, NVMEFS_CMD_READY);
}

/* ---- Data in, when there are chunks ---- */

static void nvmefs_cmd_request(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    nvmefs_cmd_on(c, &d->requests, NVMEFS_CMD_REQUEST);
}

/** Chunks are taken: fetch what is to be fetched. */
static void nvmefs_cmd_fetch(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    uint64_t address;
    c->cursor = (struct nvmefs_cursor){0, 0, 0};
    if (c->header_here)
        while (c->cursor.at < c->wh_len &&
               nvmefs_dir_next(&c->write, &c->cursor, c->wh_len - c->cursor.at, &address) > 0) {
        }
    if (c->cursor.at < c->write.length)
        nvmefs_cmd_ready(d, c, NVMEFS_DATA_IN);
    else
        nvmefs_cmd_request(d, c);
}

static void nvmefs_cmd_feed(struct snic_nvmefs_dpu *d)
{
    while (!snic_link_alone(&d->starved)) {
        struct nvmefs_cmd *c = SNIC_CONTAINER(d->starved.next, struct nvmefs_cmd, link);
        if (!nvmefs_chunks_take(d, c))
            return;
        snic_link_remove(&c->link);
        nvmefs_cmd_fetch(d, c);
    }
}

void nvmefs_cmd_free(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    struct nvmefs_queue *q = nvmefs_queue_of(d, c);
    SNIC_ASSERT(c->state != NVMEFS_CMD_FREE && c->state != NVMEFS_CMD_USER);
    SNIC_ASSERT(q->busy > 0);
    snic_link_remove(&c->link);
    snic_link_remove(&c->cancel_link);
    int fed = c->chunk_count > 0;
    nvmefs_chunks_give(d, c);
    c->state = NVMEFS_CMD_FREE;
    q->busy--;
    q->nexts -= c->has_next;
    c->has_next = 0;
    if (fed)
        nvmefs_cmd_feed(d);
}

/* ---- The end ---- */

void nvmefs_cmd_end(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c, uint32_t status,
                    int64_t result)
{
    struct nvmefs_queue *q = nvmefs_queue_of(d, c);
    struct snic_fsop *op = &c->user.req.op;
    SNIC_ASSERT(c->state != NVMEFS_CMD_FREE && c->state != NVMEFS_CMD_DONE);
    snic_link_remove(&c->link);
    snic_link_remove(&c->cancel_link);
    if (q->state != NVMEFS_QUEUE_OPEN) {
        c->state = NVMEFS_CMD_DONE;
        nvmefs_cmd_free(d, c);
        return;
    }
    c->status = (uint16_t)status;
    c->result = result == INT64_MIN ? SNIC_EIO : result; /* no result is the poison */
    c->answer_bytes = 0;
    c->send = 0;
    c->sent = 0;
    if (status == SNIC_NVMEFS_STATUS_OK && c->result >= 0) {
        c->answer_bytes = snic_nvmefs_answer_encode(op, c->answer);
        if (c->out_bytes > 0)
            c->send = (uint32_t)snic_min_u64((uint64_t)c->result, c->out_bytes);
    }
    c->cursor = (struct nvmefs_cursor){0, 0, 0};
    /* Two operations of a step are for the entries. */
    if (nvmefs_out_count(d, c) > SNIC_NVMEFS_STEP_OPS - 2)
        nvmefs_cmd_ready(d, c, NVMEFS_DATA_OUT);
    else
        nvmefs_cmd_on(c, &q->done, NVMEFS_CMD_DONE);
}

/* ---- Steps ---- */

/** Lists and header: what is adjacent in the host's memory is one operation. */
static void nvmefs_pointer_ops(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c,
                               struct nvmefs_step *s)
{
    unsigned char *ctl = (unsigned char *)c->ctl;
    const uint64_t *from = c->answer;
    uint32_t bytes[3] = {c->read.list_bytes, c->write.list_bytes, c->header_here ? c->wh_len : 0U};
    uint32_t at = 0;
    for (uint32_t i = 0; i < 3;) {
        uint32_t n = bytes[i];
        uint32_t k = i + 1;
        for (; k < 3 && (bytes[k] == 0 || from[k] == from[i] + n) && n > 0 &&
               (bytes[k] == 0 || ((from[k] ^ from[i]) >> 48) == 0);
             k++)
            n += bytes[k];
        if (n > 0) {
            nvmefs_step_add(d, s, 1, 0, from[i], ctl + at, n);
            d->stats.reads_pointer++;
        }
        at += n;
        i = k;
    }
}

struct nvmefs_step *nvmefs_cmd_step(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    struct nvmefs_step *s = nvmefs_step_take(d, NVMEFS_STEP_CMD, c->user.queue);
    if (s == NULL)
        return NULL;
    snic_link_remove(&c->link);
    c->state = NVMEFS_CMD_STEP;
    s->cmds[0] = c;
    if (c->phase == NVMEFS_POINTERS)
        nvmefs_pointer_ops(d, c, s);
    else
        (void)nvmefs_data_ops(d, c, s, SNIC_NVMEFS_STEP_OPS);
    SNIC_ASSERT(s->user.count > 0);
    return s;
}

/** The header is here: is it valid, and does its operation fit the entry? A status. */
static uint32_t nvmefs_cmd_header(struct nvmefs_cmd *c)
{
    struct snic_fsop *op = &c->user.req.op;
    SNIC_ASSERT(c->header_at + c->wh_len <= SNIC_NVMEFS__CTL_BYTES);
    int r = snic_nvmefs_head_decode(op, (unsigned char *)c->ctl + c->header_at, c->wh_len);
    if (r != 0)
        return r == SNIC_EVERSION  ? SNIC_NVMEFS_STATUS_VERSION
               : r == SNIC_ENOTSUP ? SNIC_NVMEFS_STATUS_OPCODE
                                   : SNIC_NVMEFS_STATUS_HEADER;
    int kind = snic_nvmefs_op_data(op->kind);
    if ((c->in_bytes > 0 && kind != 1) || (c->out_bytes > 0 && kind != 2) ||
        c->rh_len != snic_nvmefs_op_answer(op->kind))
        return SNIC_NVMEFS_STATUS_FIELD;
    return SNIC_NVMEFS_STATUS_OK;
}

/** The lists are here. */
static void nvmefs_cmd_pointers(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    uint32_t status = nvmefs_dir_check(d, &c->write);
    if (status == SNIC_NVMEFS_STATUS_OK)
        status = nvmefs_dir_check(d, &c->read);
    if (status == SNIC_NVMEFS_STATUS_OK && c->header_here)
        status = nvmefs_cmd_header(c);
    if (status != SNIC_NVMEFS_STATUS_OK) {
        nvmefs_cmd_end(d, c, status, 0);
        return;
    }
    if (c->in_bytes + c->out_bytes > 0 &&
        (!snic_link_alone(&d->starved) || !nvmefs_chunks_take(d, c))) {
        d->stats.starved++;
        nvmefs_cmd_on(c, &d->starved, NVMEFS_CMD_STARVED);
        return;
    }
    nvmefs_cmd_fetch(d, c);
}

void nvmefs_cmd_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result)
{
    struct nvmefs_cmd *c = s->cmds[0];
    struct nvmefs_queue *q = nvmefs_queue_of(d, c);
    SNIC_ASSERT(c->state == NVMEFS_CMD_STEP);
    if (q->state != NVMEFS_QUEUE_OPEN) {
        nvmefs_cmd_free(d, c);
        return;
    }
    if (result != 0) {
        nvmefs_cmd_end(d, c, SNIC_NVMEFS_STATUS_TRANSFER, 0);
        return;
    }
    if (c->phase == NVMEFS_DATA_OUT) {
        if (c->cursor.at < c->answer_bytes + c->send) {
            nvmefs_cmd_ready(d, c, NVMEFS_DATA_OUT);
            return;
        }
        c->sent = 1;
        nvmefs_cmd_on(c, &q->done, NVMEFS_CMD_DONE);
        return;
    }
    if (c->aborted) {
        nvmefs_cmd_end(d, c, SNIC_NVMEFS_STATUS_ABORTED, 0);
        return;
    }
    if (c->phase == NVMEFS_POINTERS) {
        nvmefs_cmd_pointers(d, c);
        return;
    }
    if (c->cursor.at < c->write.length) {
        nvmefs_cmd_ready(d, c, NVMEFS_DATA_IN);
        return;
    }
    uint32_t status = c->header_here ? SNIC_NVMEFS_STATUS_OK : nvmefs_cmd_header(c);
    if (status != SNIC_NVMEFS_STATUS_OK)
        nvmefs_cmd_end(d, c, status, 0);
    else
        nvmefs_cmd_request(d, c);
}

/* ---- Aborts ---- */

int nvmefs_cmd_abort(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    switch (c->state) {
    case NVMEFS_CMD_READY:
    case NVMEFS_CMD_STEP:
        if (c->phase == NVMEFS_DATA_OUT)
            return 0; /* it has been done */
        if (c->state == NVMEFS_CMD_STEP)
            c->aborted = 1;
        else
            nvmefs_cmd_end(d, c, SNIC_NVMEFS_STATUS_ABORTED, 0);
        return 1;
    case NVMEFS_CMD_STARVED:
    case NVMEFS_CMD_REQUEST:
        nvmefs_cmd_end(d, c, SNIC_NVMEFS_STATUS_ABORTED, 0);
        return 1;
    case NVMEFS_CMD_USER:
        if (!c->cancelled) {
            c->cancelled = 1;
            snic_link_append(&d->cancels, &c->cancel_link);
        }
        return 1;
    case NVMEFS_CMD_POSTING:
        if (!c->has_next)
            return 0;
        c->has_next = 0;
        nvmefs_queue_of(d, c)->nexts--;
        nvmefs_refuse(nvmefs_queue_of(d, c), c->user.req.cid, SNIC_NVMEFS_STATUS_ABORTED, 0);
        return 1;
    default:
        return 0;
    }
}

void nvmefs_queue_drain(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q)
{
    q->want_look = 0;
    q->refused_head = q->refused_tail;
    for (uint32_t i = 0; i < q->depth; i++) {
        struct nvmefs_cmd *c = &q->cmds[i];
        switch (c->state) {
        case NVMEFS_CMD_READY:
        case NVMEFS_CMD_STARVED:
        case NVMEFS_CMD_REQUEST:
        case NVMEFS_CMD_DONE:
            nvmefs_cmd_free(d, c);
            break;
        case NVMEFS_CMD_USER:
            (void)nvmefs_cmd_abort(d, c);
            break;
        default:
            break; /* its step is out, and frees it */
        }
    }
}

void nvmefs_queue_fail(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q, int error)
{
    if (q->state != NVMEFS_QUEUE_OPEN)
        return;
    q->state = NVMEFS_QUEUE_FAILED;
    q->ctl_due = d->detached ? 0 : SNIC_NVMEFS_CTL_FAILED;
    q->error = error;
    nvmefs_queue_drain(d, q);
}

/* ---- The beginning ---- */

/** Check the entry's sizes and addresses. A status. */
static uint32_t nvmefs_cmd_check(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c,
                                 const struct snic_nvmefs_sqe *e, uint64_t lists[2])
{
    if (e->wh_len < sizeof(struct snic_nvmefs_head) || e->wh_len > SNIC_NVMEFS_HEADER_MAX ||
        e->wh_len % 8 != 0 || e->wh_len > e->write_len || e->rh_len > e->read_len ||
        e->rh_len > SNIC_NVMEFS_ANSWER_MAX)
        return SNIC_NVMEFS_STATUS_FIELD;
    c->wh_len = e->wh_len;
    c->rh_len = e->rh_len;
    c->in_bytes = e->write_len - e->wh_len;
    c->out_bytes = e->read_len - e->rh_len;
    /* No operation has both, and none more than there are chunks for. */
    if (c->in_bytes > d->data_max || c->out_bytes > d->data_max ||
        (c->in_bytes > 0 && c->out_bytes > 0))
        return SNIC_NVMEFS_STATUS_FIELD;
    uint32_t r = nvmefs_dir_init(d, &c->read, e->read, e->read_sgl, e->read_len, &lists[0]);
    if (r == SNIC_NVMEFS_STATUS_OK)
        r = nvmefs_dir_init(d, &c->write, e->write, e->write_sgl, e->write_len, &lists[1]);
    if (r == SNIC_NVMEFS_STATUS_OK &&
        c->read.list_bytes + c->write.list_bytes + e->wh_len > SNIC_NVMEFS__CTL_BYTES)
        r = SNIC_NVMEFS_STATUS_SGL_COUNT;
    return r;
}

static void nvmefs_abort_entry(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q,
                               const struct snic_nvmefs_sqe *e)
{
    uint32_t queue = e->write_len & 0xffff;
    uint32_t cid = e->write_len >> 16;
    int found =
        queue == nvmefs_queue_number(d, q) && cid < q->depth && nvmefs_cmd_abort(d, &q->cmds[cid]);
    d->stats.aborts++;
    nvmefs_refuse(q, e->cid, SNIC_NVMEFS_STATUS_OK, found ? 0 : 1);
}

void nvmefs_cmd_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q, const void *entry)
{
    struct snic_nvmefs_sqe e;
    uint32_t status = snic_nvmefs_sqe_decode(&e, entry);
    if (e.cid >= q->depth) {
        nvmefs_refuse(q, e.cid, SNIC_NVMEFS_STATUS_FIELD, 0);
        return;
    }
    struct nvmefs_cmd *c = &q->cmds[e.cid];
    if (c->state == NVMEFS_CMD_POSTING && !c->has_next) {
        memcpy(c->next, entry, sizeof(c->next));
        c->has_next = 1;
        q->nexts++;
        return;
    }
    d->stats.commands++;
    if (c->state != NVMEFS_CMD_FREE) {
        nvmefs_refuse(q, e.cid, SNIC_NVMEFS_STATUS_CID, 0);
        return;
    }
    if (status != SNIC_NVMEFS_STATUS_OK) {
        nvmefs_refuse(q, e.cid, status, 0);
        return;
    }
    if (e.opcode == SNIC_NVMEFS_OPCODE_ABORT) {
        nvmefs_abort_entry(d, q, &e);
        return;
    }
    uint64_t lists[2] = {0, 0};
    c->header_here = c->aborted = c->cancelled = 0;
    status = nvmefs_cmd_check(d, c, &e, lists);
    if (status != SNIC_NVMEFS_STATUS_OK) {
        nvmefs_refuse(q, e.cid, status, 0);
        return;
    }
    c->user.req = (struct snic_nvmefs_req){.distributed = e.distributed, .cid = e.cid};
    c->user.data_size = 0;
    c->answer[0] = lists[0]; /* where the lists are, until they are fetched */
    c->answer[1] = lists[1];
    c->read.list = (unsigned char *)c->ctl;
    c->write.list = c->read.list + c->read.list_bytes;
    c->header_at = c->read.list_bytes + c->write.list_bytes;
    c->header_here = nvmefs_dir_first(&c->write, &c->answer[2]) >= c->wh_len &&
                     nvmefs_window_holds(d, c->answer[2], c->wh_len);
    q->busy++;
    if (c->header_here || c->header_at > 0) {
        nvmefs_cmd_ready(d, c, NVMEFS_POINTERS);
    } else { /* the header lies in two places: it comes with the data */
        c->state = NVMEFS_CMD_STEP;
        c->phase = NVMEFS_POINTERS;
        nvmefs_cmd_pointers(d, c);
    }
}

/* ---- The file system ---- */

struct snic_nvmefs_cmd *snic_nvmefs_dpu_poll_request(struct snic_nvmefs_dpu *d)
{
    if (snic_link_alone(&d->requests))
        return NULL;
    struct nvmefs_cmd *c = SNIC_CONTAINER(d->requests.next, struct nvmefs_cmd, link);
    SNIC_ASSERT(c->state == NVMEFS_CMD_REQUEST);
    snic_link_remove(&c->link);
    c->state = NVMEFS_CMD_USER;
    d->with_user++;
    return &c->user;
}

struct snic_nvmefs_cmd *snic_nvmefs_dpu_poll_cancel(struct snic_nvmefs_dpu *d)
{
    if (snic_link_alone(&d->cancels))
        return NULL;
    struct nvmefs_cmd *c = SNIC_CONTAINER(d->cancels.next, struct nvmefs_cmd, cancel_link);
    snic_link_remove(&c->cancel_link);
    return &c->user;
}

void snic_nvmefs_dpu_finish(struct snic_nvmefs_dpu *d, struct snic_nvmefs_cmd *user,
                            uint32_t status, int64_t result)
{
    struct nvmefs_cmd *c = SNIC_CONTAINER(user, struct nvmefs_cmd, user);
    struct nvmefs_queue *q = nvmefs_queue_of(d, c);
    SNIC_ASSERT(c->state == NVMEFS_CMD_USER && d->with_user > 0);
    d->with_user--;
    nvmefs_cmd_end(d, c, status, result);
    nvmefs_queue_settle(d, q);
}
