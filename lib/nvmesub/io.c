/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * I/O queues, each on its own thread: commands checked against the view.
 *   Q1 Nothing is started (at_device counts it) after the controller's word has changed or the
 *      queue was lost; the owner learns of the end of what was started by stopped.
 *   Q2 fencing: the queue was lost with commands at the device, and its host's fence counts it.
 */
#include "nvmesub/nvmesub_priv.h"

static uint64_t nvmesub_io_word(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q)
{
    return atomic_load_explicit(&v->ctrl[q->ctrl], memory_order_acquire); /* view.c's store */
}

int snic_nvmesub_io_ended(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q)
{
    uint64_t word = nvmesub_io_word(v, q);
    return q->lost || word >> 32 != q->epoch || (word & SNIC_NVMESUB__C_LIVE) == 0;
}

static int nvmesub_io_writes(uint8_t opcode)
{
    return opcode == SNIC_NVME_IO_WRITE || opcode == SNIC_NVME_IO_WRITE_ZEROES ||
           opcode == SNIC_NVME_IO_DSM;
}

/** Base specification 2.0, section 8.19: what a reservation refuses. */
static int nvmesub_io_conflict(const struct nvmesub_seen *n, int writes)
{
    switch (n->rtype) {
    case 0:
        return 0;
    case SNIC_NVME_RESV_WRITE_EXCLUSIVE:
        return writes && !n->holder;
    case SNIC_NVME_RESV_EXCLUSIVE_ACCESS:
        return !n->holder;
    case SNIC_NVME_RESV_WRITE_EXCLUSIVE_RO:
    case SNIC_NVME_RESV_WRITE_EXCLUSIVE_AR:
        return writes && !n->registered;
    default:
        return !n->registered;
    }
}

static uint32_t nvmesub_io_ana(uint8_t state)
{
    switch (state) {
    case SNIC_NVME_ANA_INACCESSIBLE:
        return SNIC_NVME_SC_ANA_INACCESSIBLE;
    case SNIC_NVME_ANA_LOSS:
        return SNIC_NVMESUB__FAIL(ANA_LOSS);
    case SNIC_NVME_ANA_CHANGE:
        return SNIC_NVME_SC_ANA_CHANGE;
    default:
        return 0;
    }
}

static uint32_t nvmesub_io_ready(const struct nvmesub_seen *n, uint8_t opcode)
{
    int writes = nvmesub_io_writes(opcode);
    if (!n->present)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    uint32_t status = nvmesub_io_ana(n->ana);
    if (status != 0)
        return status;
    if (n->read_only && writes)
        return SNIC_NVMESUB__FAIL(WRITE_PROTECTED);
    if (nvmesub_io_conflict(n, writes || opcode == SNIC_NVME_IO_FLUSH))
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    return 0;
}

static int nvmesub_io_within(const struct nvmesub_seen *n, uint64_t lba, uint64_t blocks)
{
    return blocks <= n->blocks && lba <= n->blocks - blocks;
}

/** The SGL describes exactly @p bytes, in the capsule (to the controller only) or not. */
static uint32_t nvmesub_io_sgl(const struct snic_nvme_sqe *e, uint32_t bytes)
{
    uint8_t type = snic_nvme_sgl_type(e);
    if (type != SNIC_NVME_SGL_TRANSPORT &&
        (type != SNIC_NVME_SGL_DATA_OFFSET || snic_nvme_direction(e) != SNIC_NVME_DIR_OUT))
        return SNIC_NVMESUB__FAIL(SGL_TYPE);
    return e->sgl_length == bytes ? 0 : SNIC_NVMESUB__FAIL(SGL_LENGTH);
}

static uint32_t nvmesub_io_blocks(const struct snic_nvmesub_view *v, const struct nvmesub_seen *n,
                                  const struct snic_nvme_sqe *e, struct snic_nvmesub_op *op)
{
    static const uint8_t kinds[16] = {[SNIC_NVME_IO_WRITE] = SNIC_NVMESUB_WRITE,
                                      [SNIC_NVME_IO_READ] = SNIC_NVMESUB_READ,
                                      [SNIC_NVME_IO_COMPARE] = SNIC_NVMESUB_COMPARE,
                                      [SNIC_NVME_IO_WRITE_ZEROES] = SNIC_NVMESUB_ZEROES,
                                      [SNIC_NVME_IO_VERIFY] = SNIC_NVMESUB_VERIFY};
    int data = e->opcode != SNIC_NVME_IO_WRITE_ZEROES && e->opcode != SNIC_NVME_IO_VERIFY;
    op->kind = kinds[e->opcode];
    op->lba = e->cdw10 | (uint64_t)e->cdw11 << 32;
    op->blocks = (e->cdw12 & 0xffff) + 1;
    op->length = (uint64_t)op->blocks << n->shift;
    op->fua = (e->cdw12 & SNIC_NVME_RW_FUA) != 0;
    op->limited = (e->cdw12 & SNIC_NVME_RW_LR) != 0;
    op->deallocate = e->opcode == SNIC_NVME_IO_WRITE_ZEROES && (e->cdw12 & SNIC_NVME_RW_DEAC) != 0;
    uint32_t pract = e->opcode == SNIC_NVME_IO_WRITE_ZEROES ? 0U : SNIC_NVME_RW_STC;
    if ((e->cdw12 & (SNIC_NVME_RW_PRINFO | pract)) != 0)
        return SNIC_NVMESUB__FAIL(PROTECTION); /* no namespace has any */
    if (data && op->length > v->data_max)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD); /* MDTS */
    if (!nvmesub_io_within(n, op->lba, op->blocks))
        return SNIC_NVMESUB__FAIL(LBA_RANGE);
    op->offset = op->lba << n->shift;
    op->bytes = data ? (uint32_t)op->length : 0;
    return data ? nvmesub_io_sgl(e, op->bytes) : 0;
}

static uint32_t nvmesub_io_decode(const struct snic_nvmesub_view *v, const struct nvmesub_seen *n,
                                  const struct snic_nvme_sqe *e, struct snic_nvmesub_op *op)
{
    op->nsid = e->nsid;
    op->cid = e->cid;
    op->generation = n->generation;
    op->sequence = n->sequence;
    if (e->opcode == SNIC_NVME_IO_FLUSH) {
        op->kind = SNIC_NVMESUB_FLUSH;
        return 0;
    }
    if (e->opcode != SNIC_NVME_IO_DSM)
        return nvmesub_io_blocks(v, n, e, op);
    if ((e->cdw11 & SNIC_NVME_DSM_DEALLOCATE) == 0)
        op->kind = 0; /* hints only */
    else
        op->kind = SNIC_NVMESUB_DISCARD;
    op->count = (uint16_t)((e->cdw10 & 0xff) + 1);
    /* Linux sends the whole table of 256 ranges, whatever their number. */
    uint32_t used = op->count * (uint32_t)sizeof(struct snic_nvme_dsm_range);
    uint32_t most = 256 * (uint32_t)sizeof(struct snic_nvme_dsm_range);
    op->bytes = (uint32_t)snic_min_u64(snic_max_u64(e->sgl_length, used), most);
    return nvmesub_io_sgl(e, op->bytes);
}

static int nvmesub_io_known(uint8_t opcode)
{
    switch (opcode) {
    case SNIC_NVME_IO_FLUSH:
    case SNIC_NVME_IO_WRITE:
    case SNIC_NVME_IO_READ:
    case SNIC_NVME_IO_COMPARE:
    case SNIC_NVME_IO_WRITE_ZEROES:
    case SNIC_NVME_IO_DSM:
    case SNIC_NVME_IO_VERIFY:
        return SNIC_NVMESUB_IO_RUN;
    case SNIC_NVME_FABRICS:
    case SNIC_NVME_IO_RESV_REGISTER:
    case SNIC_NVME_IO_RESV_REPORT:
    case SNIC_NVME_IO_RESV_ACQUIRE:
    case SNIC_NVME_IO_RESV_RELEASE:
        return SNIC_NVMESUB_IO_FORWARD;
    default:
        return SNIC_NVMESUB_IO_STATUS;
    }
}

static void nvmesub_io_seen(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q)
{
    _Atomic uint32_t *seen = &v->seen[q->conn];
    if (atomic_load_explicit(seen, memory_order_relaxed) == 0)
        atomic_store_explicit(seen, 1, memory_order_relaxed);
}

static int nvmesub_io_fenced(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q)
{
    /* Pairs with the subtraction: what ended before it is seen to have ended. */
    return atomic_load_explicit(&v->fence[q->host], memory_order_acquire) != 0;
}

void snic_nvmesub_io_finish(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                            uint32_t credit, struct snic_nvme_cqe *cqe)
{
    q->head = (uint16_t)(q->head + 1 >= q->depth ? 0 : q->head + 1);
    cqe->sqhd = q->no_sq_flow ? 0 : q->head;
    if ((nvmesub_io_word(v, q) & SNIC_NVMESUB__C_CREDIT) != 0)
        cqe->dw1 = credit;
}

void snic_nvmesub_io_status(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q, uint16_t cid,
                            uint32_t status, uint32_t credit, struct snic_nvme_cqe *cqe)
{
    *cqe = (struct snic_nvme_cqe){.cid = cid, .status = (uint16_t)status};
    snic_nvmesub_io_finish(v, q, credit, cqe);
}

int snic_nvmesub_io_check(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                          const void *sqe, struct snic_nvmesub_op *op, struct snic_nvme_cqe *cqe)
{
    struct snic_nvme_sqe e;
    struct nvmesub_seen n;
    uint32_t status = 0;
    if (snic_nvmesub_io_ended(v, q))
        return SNIC_NVMESUB_IO_DROP;
    nvmesub_io_seen(v, q);
    snic_nvme_sqe_load(&e, sqe);
    int what = nvmesub_io_known(e.opcode);
    if (what == SNIC_NVMESUB_IO_FORWARD)
        return what;
    memset(op, 0, sizeof(*op));
    if (q->auth)
        status = SNIC_NVMESUB__FAIL(AUTH_REQUIRED);
    else if (what == SNIC_NVMESUB_IO_STATUS)
        status = SNIC_NVMESUB__FAIL(INVALID_OPCODE);
    else if ((e.flags & SNIC_NVME_FLAG_FUSE) != 0 ||
             ((e.flags & SNIC_NVME_FLAG_PSDT) != SNIC_NVME_FLAG_SGL &&
              (e.flags & SNIC_NVME_FLAG_PSDT) != SNIC_NVME_FLAG_SGL_SEGMENT))
        status = SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (status == 0) {
        nvmesub_view_read(v, e.nsid, q->host, q->port, &n);
        status = nvmesub_io_ready(&n, e.opcode);
    }
    if (status == 0)
        status = nvmesub_io_decode(v, &n, &e, op);
    if (status != 0 || op->kind == 0) {
        snic_nvmesub_io_status(v, q, e.cid, status, 0, cqe);
        return SNIC_NVMESUB_IO_STATUS;
    }
    return nvmesub_io_writes(e.opcode) && nvmesub_io_fenced(v, q) ? SNIC_NVMESUB_IO_HOLD
                                                                  : SNIC_NVMESUB_IO_RUN;
}

uint32_t snic_nvmesub_io_range(struct snic_nvmesub_view *v, const struct snic_nvmesub_op *op,
                               const void *data, uint32_t i, struct snic_nvmesub_op *out)
{
    const unsigned char *p = (const unsigned char *)data + (size_t)16 * i;
    struct nvmesub_seen n;
    SNIC_ASSERT(op->kind == SNIC_NVMESUB_DISCARD && i < op->count);
    nvmesub_view_read(v, op->nsid, 0, 0, &n);
    if (!n.present || n.generation != op->generation)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    *out = *op;
    out->count = 1;
    out->bytes = 0;
    out->blocks = snic_get_le32(p + 4);
    out->lba = snic_get_le64(p + 8);
    if (!nvmesub_io_within(&n, out->lba, out->blocks))
        return SNIC_NVMESUB__FAIL(LBA_RANGE);
    out->offset = out->lba << n.shift;
    out->length = (uint64_t)out->blocks << n.shift;
    return 0;
}

/** What was published since the check. */
static uint32_t nvmesub_io_again(struct snic_nvmesub_view *v, const struct snic_nvmesub_queue *q,
                                 const struct snic_nvmesub_op *op, uint8_t opcode)
{
    struct nvmesub_seen n;
    nvmesub_view_read(v, op->nsid, q->host, q->port, &n);
    uint32_t status = nvmesub_io_ready(&n, opcode);
    if (status == 0 && n.generation != op->generation)
        status = SNIC_NVMESUB__FAIL(INVALID_NS);
    if (status == 0 && !nvmesub_io_within(&n, op->lba, op->blocks))
        status = SNIC_NVMESUB__FAIL(LBA_RANGE);
    return status;
}

int snic_nvmesub_io_start(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q,
                          const struct snic_nvmesub_op *op, struct snic_nvme_cqe *cqe)
{
    static const uint8_t opcodes[] = {[SNIC_NVMESUB_READ] = SNIC_NVME_IO_READ,
                                      [SNIC_NVMESUB_WRITE] = SNIC_NVME_IO_WRITE,
                                      [SNIC_NVMESUB_FLUSH] = SNIC_NVME_IO_FLUSH,
                                      [SNIC_NVMESUB_ZEROES] = SNIC_NVME_IO_WRITE_ZEROES,
                                      [SNIC_NVMESUB_DISCARD] = SNIC_NVME_IO_DSM,
                                      [SNIC_NVMESUB_COMPARE] = SNIC_NVME_IO_COMPARE,
                                      [SNIC_NVMESUB_VERIFY] = SNIC_NVME_IO_VERIFY};
    uint32_t status = 0;
    if (snic_nvmesub_io_ended(v, q)) /* Q1 */
        return SNIC_NVMESUB_IO_DROP;
    if (op->sequence == 0 || !nvmesub_view_same(v, op->nsid, op->sequence))
        status = nvmesub_io_again(v, q, op, opcodes[op->kind]);
    if (status != 0) {
        snic_nvmesub_io_status(v, q, op->cid, status, 0, cqe);
        return SNIC_NVMESUB_IO_STATUS;
    }
    if (nvmesub_io_writes(opcodes[op->kind]) && nvmesub_io_fenced(v, q))
        return SNIC_NVMESUB_IO_HOLD;
    q->at_device++;
    return SNIC_NVMESUB_IO_RUN;
}

void snic_nvmesub_io_done(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q, uint16_t cid,
                          uint32_t status, uint32_t credit, struct snic_nvme_cqe *cqe)
{
    SNIC_ASSERT(q->at_device > 0);
    snic_nvmesub_io_status(v, q, cid, status, credit, cqe);
    if (--q->at_device == 0 && q->fencing) {
        q->fencing = 0; /* Q2; what the device has done is before what others see of this */
        atomic_fetch_sub_explicit(&v->fence[q->host], 1, memory_order_acq_rel);
    }
}

void snic_nvmesub_io_lost(struct snic_nvmesub_view *v, struct snic_nvmesub_queue *q)
{
    if (q->lost)
        return;
    q->lost = 1;
    if (q->at_device == 0)
        return;
    q->fencing = 1;
    /* Before the message to the owner, which synchronises by itself. */
    atomic_fetch_add_explicit(&v->fence[q->host], 1, memory_order_acq_rel);
}

void snic_nvmesub_io_authenticated(struct snic_nvmesub_queue *q)
{
    q->auth = 0;
}
