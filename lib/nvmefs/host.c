/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The host's half of a queue pair: submit, kick, reap.
 *
 * An entry becomes visible with the store of its first word, which has the lap bit and comes last
 * (release). A completion is there when its second word has the phase and its first word is not the
 * poison that the host left in it: whichever order the two words come in, neither is believed
 * alone.
 *
 * Writers: of sq, sq_tail, lists and headers the host; of cq, sq_event, answers and data out the
 * DPU; and the host, before an entry of cq may be used again, of its first word.
 */
#include "nvmefs/nvmefs_priv.h"

typedef _Atomic(uint64_t) nvmefs_atomic;

static nvmefs_atomic *nvmefs_word(unsigned char *p)
{
    return (nvmefs_atomic *)(void *)p;
}

typedef _Atomic(uint32_t) nvmefs_bell;

static nvmefs_bell *nvmefs_bell_at(unsigned char *bells, size_t offset)
{
    return (nvmefs_bell *)(void *)(bells + offset);
}

/* ---- Layout ---- */

struct nvmefs_layout {
    uint64_t sq;
    uint64_t cq;
    uint64_t pages;
    uint64_t data;
    uint64_t bytes;
};

static const char *nvmefs_host_wrong(const struct snic_nvmefs_host_opts *o)
{
    if (!snic_is_pow2(o->depth) || o->depth < 2 || o->depth > SNIC_NVMEFS_DEPTH_MAX)
        return "depth: not a power of two 2..SNIC_NVMEFS_DEPTH_MAX";
    if (o->queue >= SNIC_NVMEFS_QUEUES_MAX)
        return "queue: not below SNIC_NVMEFS_QUEUES_MAX";
    if (o->reserved != 0)
        return "reserved: not 0";
    if (o->address % SNIC_NVMEFS_PAGE != 0 || o->address >> 48 >= SNIC_NVMEFS_WINDOWS_MAX)
        return "address: not of a page, or of no window";
    if (o->data_bytes % SNIC_NVMEFS_PAGE != 0 || o->data_bytes > SNIC_NVMEFS_DATA_MAX)
        return "data_bytes: not whole pages up to SNIC_NVMEFS_DATA_MAX";
    return NULL;
}

static int nvmefs_host_opts(struct snic_nvmefs_host_opts *o, const struct snic_nvmefs_host_opts *in)
{
    *o = (struct snic_nvmefs_host_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0)
        return r;
    o->depth = o->depth == 0 ? 64 : o->depth;
    return nvmefs_host_wrong(o) != NULL ? SNIC_EINVAL : 0;
}

const char *snic_nvmefs_host_opts_wrong(const struct snic_nvmefs_host_opts *in)
{
    struct snic_nvmefs_host_opts o = {.opts_size = sizeof(o)};
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return nvmefs_host_opts(&o, in) != 0 ? nvmefs_host_wrong(&o) : NULL;
}

static struct nvmefs_layout nvmefs_host_layout(const struct snic_nvmefs_host_opts *o)
{
    struct nvmefs_layout l;
    uint64_t n = o->depth;
    l.sq = SNIC_NVMEFS_PAGE;
    l.cq = l.sq + snic_align_up((n + 1) * SNIC_NVMEFS_SQE_BYTES, SNIC_NVMEFS_PAGE);
    l.pages = l.cq + snic_align_up(n * SNIC_NVMEFS_CQE_BYTES, SNIC_NVMEFS_PAGE);
    l.data = l.pages + n * SNIC_NVMEFS_PAGE;
    l.bytes = l.data + n * o->data_bytes;
    return l;
}

size_t snic_nvmefs_queue_bytes(const struct snic_nvmefs_host_opts *o)
{
    struct snic_nvmefs_host_opts copy;
    return nvmefs_host_opts(&copy, o) != 0 ? 0 : (size_t)nvmefs_host_layout(&copy).bytes;
}

static void nvmefs_host_place(struct snic_arena *a, uint32_t depth, struct snic_nvmefs_host **h,
                              struct nvmefs_slot **slots, uint16_t **free)
{
    *h = snic_arena_take(a, 1, sizeof(**h), SNIC_NVMEFS_ALIGN);
    *slots = snic_arena_take(a, depth, sizeof(**slots), 16);
    *free = snic_arena_take(a, depth, sizeof(**free), 16);
}

size_t snic_nvmefs_host_memsize(const struct snic_nvmefs_host_opts *o)
{
    struct snic_nvmefs_host_opts copy;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    struct snic_nvmefs_host *h;
    struct nvmefs_slot *slots;
    uint16_t *free;
    if (nvmefs_host_opts(&copy, o) != 0)
        return 0;
    nvmefs_host_place(&a, copy.depth, &h, &slots, &free);
    return a.used;
}

void nvmefs_host_format(struct snic_nvmefs_host *h)
{
    uint32_t n = h->opts.depth;
    memset(h->bells, 0, SNIC_NVMEFS_PAGE);
    memset(h->sq, 0, (size_t)(n + 1) * SNIC_NVMEFS_SQE_BYTES);
    memset(h->cq, 0, (size_t)n * SNIC_NVMEFS_CQE_BYTES);
    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(nvmefs_word(h->cq + (size_t)i * SNIC_NVMEFS_CQE_BYTES),
                              SNIC_NVMEFS__POISON, memory_order_relaxed);
    h->tail = h->kicked = h->head = h->cq_head = 0;
    h->free_count = 0;
    for (uint32_t i = n - 1; i-- > 0;) { /* the last one is Abort's */
        h->slots[i] = (struct nvmefs_slot){.state = NVMEFS_SLOT_FREE};
        h->free[h->free_count++] = (uint16_t)i;
    }
    h->slots[n - 1] = (struct nvmefs_slot){.state = NVMEFS_SLOT_FREE};
    h->wanted = 0;
    h->error = 0;
    h->aborting = 0;
    h->armed = 0;
    h->abort_cid = (uint16_t)(n - 1);
    h->generation++;
}

int snic_nvmefs_host_init(struct snic_nvmefs_host **out, void *mem, size_t size, void *queue_mem,
                          const struct snic_nvmefs_host_opts *o)
{
    struct snic_nvmefs_host_opts copy;
    struct snic_arena a = {mem, size, 0};
    struct snic_nvmefs_host *h;
    struct nvmefs_slot *slots;
    uint16_t *free;
    int r = nvmefs_host_opts(&copy, o);
    if (r != 0)
        return r;
    if ((uintptr_t)mem % SNIC_NVMEFS_ALIGN != 0 || (uintptr_t)queue_mem % SNIC_NVMEFS_PAGE != 0)
        return SNIC_EINVAL;
    nvmefs_host_place(&a, copy.depth, &h, &slots, &free);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    memset(mem, 0, a.used);
    struct nvmefs_layout l = nvmefs_host_layout(&copy);
    h->opts = copy;
    h->bells = queue_mem;
    h->sq = h->bells + l.sq;
    h->cq = h->bells + l.cq;
    h->pages = h->bells + l.pages;
    h->data = h->bells + l.data;
    h->slots = slots;
    h->free = free;
    h->shift = (uint32_t)__builtin_ctz(copy.depth);
    nvmefs_host_format(h);
    *out = h;
    return 0;
}

void *snic_nvmefs_host_fini(struct snic_nvmefs_host *h)
{
    SNIC_ASSERT(h->outstanding == 0);
    return h;
}

void snic_nvmefs_host_create(const struct snic_nvmefs_host *h, struct snic_nvmefs_ctl *out)
{
    struct nvmefs_layout l = nvmefs_host_layout(&h->opts);
    *out = (struct snic_nvmefs_ctl){.type = SNIC_NVMEFS_CTL_CREATE,
                                    .queue = h->opts.queue,
                                    .generation = h->generation,
                                    .depth = h->opts.depth,
                                    .sq = h->opts.address + l.sq,
                                    .cq = h->opts.address + l.cq,
                                    .bells = h->opts.address};
}

/* ---- Submit ---- */

static void nvmefs_host_store(unsigned char *slot, const uint64_t words[SNIC_NVMEFS_SQE_BYTES / 8])
{
    for (uint32_t i = 1; i < SNIC_NVMEFS_SQE_BYTES / 8; i++)
        atomic_store_explicit(nvmefs_word(slot + (size_t)i * 8), words[i], memory_order_relaxed);
    /* Release pairs with the acquiring reads of the DPU's look: entry, header, data. */
    atomic_store_explicit(nvmefs_word(slot), words[0], memory_order_release);
}

void nvmefs_host_publish(struct snic_nvmefs_host *h, struct snic_nvmefs_sqe *s)
{
    uint64_t words[SNIC_NVMEFS_SQE_BYTES / 8];
    uint32_t at = h->tail & (h->opts.depth - 1);
    SNIC_ASSERT(h->tail - h->head < h->opts.depth); /* the entry is free */
    s->lap = (uint8_t)nvmefs_turn(h->tail, h->shift);
    snic_nvmefs_sqe_encode(words, s);
    if (at == 0) /* the copy behind the last entry: a read there needs no second one */
        nvmefs_host_store(h->sq + (size_t)h->opts.depth * SNIC_NVMEFS_SQE_BYTES, words);
    nvmefs_host_store(h->sq + (size_t)at * SNIC_NVMEFS_SQE_BYTES, words);
    h->tail++;
}

void nvmefs_host_abort_next(struct snic_nvmefs_host *h)
{
    if (h->wanted == 0 || h->aborting || h->error != 0 || h->tail - h->head == h->opts.depth)
        return;
    for (uint32_t i = 0; i + 1 < h->opts.depth; i++) {
        struct nvmefs_slot *slot = &h->slots[i];
        if (!slot->wanted)
            continue;
        struct snic_nvmefs_sqe s = {.opcode = SNIC_NVMEFS_OPCODE_ABORT,
                                    .cid = (uint16_t)(h->opts.depth - 1),
                                    .write_len = (uint32_t)h->opts.queue | i << 16};
        slot->wanted = 0;
        h->wanted--;
        h->aborting = 1;
        h->abort_cid = s.cid;
        h->slots[s.cid].state = NVMEFS_SLOT_SENT;
        nvmefs_host_publish(h, &s);
        h->stats.aborts++;
        return;
    }
}

int snic_nvmefs_host_submit(struct snic_nvmefs_host *h, struct snic_nvmefs_req *req)
{
    struct snic_nvmefs_sqe s = {.opcode = SNIC_NVMEFS_OPCODE};
    if (h->error != 0)
        return h->error;
    if (req->distributed > 1)
        return SNIC_EINVAL;
    if (h->free_count == 0 || h->tail - h->head == h->opts.depth) {
        h->stats.full++;
        return SNIC_EAGAIN;
    }
    uint16_t cid = h->free[h->free_count - 1];
    SNIC_ASSERT(h->slots[cid].state == NVMEFS_SLOT_FREE);
    SNIC_ASSERT(h->slots[cid].req == NULL);
    int r = nvmefs_host_lay(h, req, cid, &s);
    if (r != 0)
        return r;
    h->free_count--;
    h->slots[cid].state = NVMEFS_SLOT_SENT;
    h->slots[cid].req = req;
    h->slots[cid].wanted = 0;
    req->cid = cid;
    s.cid = cid;
    s.distributed = req->distributed;
    nvmefs_host_publish(h, &s);
    h->outstanding++;
    h->stats.submitted++;
    return 0;
}

int snic_nvmefs_host_kick(struct snic_nvmefs_host *h)
{
    nvmefs_bell *event = nvmefs_bell_at(h->bells, SNIC_NVMEFS_OFF_SQ_EVENT);
    uint32_t rings;
    if (h->kicked == h->tail)
        return 0;
    h->kicked = h->tail;
    h->stats.kicks++;
    atomic_store_explicit(nvmefs_bell_at(h->bells, SNIC_NVMEFS_OFF_SQ_TAIL), h->tail,
                          memory_order_relaxed);
    /* The entries are seen before sq_event is read; the DPU writes sq_event, and fenced behind it
       looks at the entries: one of the two sees the other's. */
#if defined(__SANITIZE_THREAD__)
    rings = atomic_fetch_add_explicit(event, 0, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
    rings = atomic_load_explicit(event, memory_order_relaxed);
#endif
    if (rings == SNIC_NVMEFS_RING_NEVER)
        return 0;
    h->armed = 1;
    h->stats.bells++;
    return 1;
}

/* ---- Reap ---- */

/** The most that a good result of @p req can be. */
static int64_t nvmefs_most(const struct snic_fsop *op, uint32_t room)
{
    switch (op->kind) {
    case SNIC_FSOP_READ:
    case SNIC_FSOP_READLINK:
    case SNIC_FSOP_READDIR:
    case SNIC_FSOP_WRITE:
        return room;
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
        return room > 0 ? room : 65536;
    case SNIC_FSOP_COPY:
        return op->length > INT64_MAX ? INT64_MAX : (int64_t)op->length;
    case SNIC_FSOP_SEEK:
        return INT64_MAX;
    default:
        return 0;
    }
}

static int nvmefs_result_known(int64_t result, int64_t most)
{
    if (result >= 0)
        return result <= most;
    return result >= -511 || (result >= SNIC_EUNKNOWN && result <= SNIC_ECORRUPT);
}

/** The answer to command @p cid: the DPU's values are checked against the request. */
static void nvmefs_host_answer(struct snic_nvmefs_host *h, uint16_t cid,
                               struct snic_nvmefs_req *req, const struct snic_nvmefs_cqe *c)
{
    struct nvmefs_slot *slot = &h->slots[cid];
    unsigned char answer[SNIC_NVMEFS_ANSWER_MAX];
    uint32_t bytes = snic_nvmefs_op_answer(req->op.kind);
    req->status = c->status;
    req->data_size = 0;
    req->op.result = c->result;
    if (c->status != SNIC_NVMEFS_STATUS_OK) {
        req->op.result = snic_nvmefs_status_error(c->status);
        return;
    }
    if (!nvmefs_result_known(c->result, nvmefs_most(&req->op, slot->room))) {
        req->op.result = SNIC_EPROTO;
        return;
    }
    if (c->result < 0)
        return;
    if (bytes > 0) {
        SNIC_ASSERT(bytes <= sizeof(answer));
        memcpy(answer, h->pages + (size_t)cid * SNIC_NVMEFS_PAGE + SNIC_NVMEFS__ANSWER_AT, bytes);
        int r = snic_nvmefs_answer_decode(&req->op, answer, bytes);
        if (r != 0)
            req->op.result = r;
    }
    if (snic_nvmefs_op_data(req->op.kind) == 2 && c->result > 0) {
        req->data_size = (uint32_t)snic_min_u64((uint64_t)c->result, slot->room);
        if (req->op.iov_count > 0)
            nvmefs_host_copy(h, &req->op, h->data + (size_t)cid * h->opts.data_bytes,
                             req->data_size, 0);
    }
}

/** Take the next completion. 1; 0 none; SNIC_EPROTO malformed. */
static int nvmefs_host_entry(struct snic_nvmefs_host *h, struct snic_nvmefs_cqe *c)
{
    unsigned char *at = h->cq + (size_t)(h->cq_head & (h->opts.depth - 1)) * SNIC_NVMEFS_CQE_BYTES;
    uint64_t words[2];
    unsigned char bytes[SNIC_NVMEFS_CQE_BYTES];
    /* Acquire pairs with the DPU's release: what it wrote before the entry is seen behind it. */
    words[1] = atomic_load_explicit(nvmefs_word(at + 8), memory_order_acquire);
    memcpy(bytes + 8, &words[1], 8);
    if ((uint32_t)(bytes[14] & 1) != nvmefs_turn(h->cq_head, h->shift))
        return 0;
    words[0] = atomic_load_explicit(nvmefs_word(at), memory_order_acquire);
    if (words[0] == SNIC_NVMEFS__POISON) {
        h->stats.halves++;
        return 0;
    }
    memcpy(bytes, &words[0], 8);
    snic_nvmefs_cqe_decode(c, bytes);
    uint16_t taken = (uint16_t)(c->sq_head - (uint16_t)h->head);
    if (c->queue != h->opts.queue || c->cid >= h->opts.depth ||
        h->slots[c->cid].state != NVMEFS_SLOT_SENT || taken > h->tail - h->head)
        return SNIC_EPROTO;
    h->head += taken;
    atomic_store_explicit(nvmefs_word(at), SNIC_NVMEFS__POISON, memory_order_relaxed);
    h->cq_head++;
    return 1;
}

struct snic_nvmefs_req *snic_nvmefs_host_reap(struct snic_nvmefs_host *h)
{
    struct snic_nvmefs_cqe c;
    struct snic_node *n = snic_queue_pop(&h->lost);
    if (n != NULL) {
        SNIC_ASSERT(h->outstanding > 0);
        h->outstanding--;
        return SNIC_CONTAINER(n, struct snic_nvmefs_req, op.node);
    }
    while (h->error == 0) {
        int r = nvmefs_host_entry(h, &c);
        if (r < 0)
            h->error = r;
        if (r != 1)
            break;
        struct nvmefs_slot *slot = &h->slots[c.cid];
        slot->state = NVMEFS_SLOT_FREE;
        if (c.cid == h->abort_cid) {
            h->aborting = 0;
            nvmefs_host_abort_next(h);
            continue;
        }
        struct snic_nvmefs_req *req = slot->req;
        SNIC_ASSERT(req != NULL && req->cid == c.cid);
        SNIC_ASSERT(h->outstanding > 0);
        slot->req = NULL;
        h->wanted -= slot->wanted;
        slot->wanted = 0;
        nvmefs_host_answer(h, c.cid, req, &c);
        h->free[h->free_count++] = c.cid;
        h->outstanding--;
        h->stats.reaped++;
        h->stats.errors += req->status != SNIC_NVMEFS_STATUS_OK || req->op.result < 0;
        nvmefs_host_abort_next(h);
        return req;
    }
    return NULL;
}

int snic_nvmefs_host_error(const struct snic_nvmefs_host *h)
{
    return h->error;
}

uint32_t snic_nvmefs_host_outstanding(const struct snic_nvmefs_host *h)
{
    return h->outstanding;
}

void snic_nvmefs_host_get_stats(const struct snic_nvmefs_host *h,
                                struct snic_nvmefs_host_stats *out)
{
    *out = h->stats;
}
