/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvme-fs with a hostile end. Byte 0, bit 0: a hostile host against the DPU's half (entries, lists,
 * headers, messages, memory that changes or is not there), else a hostile DPU against the host's
 * half (completions, answers, memory). Bits 1 and 2: how the DPU's half looks. The honest half must
 * neither crash nor touch anything outside, keep its invariants, and give everything back at the
 * end.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmefs/nvmefs_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_REGION = 65536, FUZZ_SMALL = 8192, FUZZ_DEPTH = 4, FUZZ_HELD = 32, FUZZ_OUT = 8 };

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static uint64_t fuzz_take(struct fuzz_input *in, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes > 0 && in->left > 0; bytes--, in->left--)
        v = v << 8 | *in->at++;
    return v;
}

static void fuzz_must(int c)
{
    if (!c)
        abort();
}

/* ---- A hostile host ---- */

struct fuzz_dpu {
    struct snic_nvmefs_dpu *d;
    unsigned char *mem;
    size_t size;
    unsigned char *region[2];
    size_t region_size[2];
    struct snic_nvmefs_step *out[FUZZ_OUT];
    uint32_t out_count;
    struct snic_nvmefs_cmd *held[FUZZ_HELD];
    uint32_t held_count;
    uint32_t sum;
};

static void fuzz_dpu_ctl(struct fuzz_dpu *f, const struct snic_nvmefs_ctl *m)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    snic_nvmefs_ctl_encode(msg, m);
    (void)snic_nvmefs_dpu_control(f->d, msg, sizeof(msg));
}

static void fuzz_dpu_create(struct fuzz_dpu *f, uint16_t queue, uint32_t generation)
{
    struct snic_nvmefs_ctl m = {.type = SNIC_NVMEFS_CTL_CREATE,
                                .queue = queue,
                                .generation = generation,
                                .depth = FUZZ_DEPTH,
                                .sq = 4096,
                                .cq = 8192,
                                .bells = 0};
    fuzz_dpu_ctl(f, &m);
}

static int fuzz_dpu_op(struct fuzz_dpu *f, const struct snic_nvmefs_op *o)
{
    unsigned char *local = o->local;
    fuzz_must(o->length > 0 && local >= f->mem && local + o->length <= f->mem + f->size);
    if (o->key < 1 || o->key > 2 || o->offset > f->region_size[o->key - 1] ||
        o->length > f->region_size[o->key - 1] - o->offset)
        return SNIC_EFAULT;
    unsigned char *at = f->region[o->key - 1] + o->offset;
    if (o->kind == 1)
        memcpy(local, at, o->length);
    else
        memcpy(at, local, o->length);
    return 0;
}

static void fuzz_dpu_complete(struct fuzz_dpu *f, uint32_t i, int fail)
{
    struct snic_nvmefs_step *s = f->out[i];
    int result = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        int r = 0;
        if ((s->ops[k].flags & 2) != 0 && result != 0)
            continue;
        r = fuzz_dpu_op(f, &s->ops[k]);
        result = result == 0 ? r : result;
    }
    f->out[i] = f->out[--f->out_count];
    snic_nvmefs_dpu_complete(f->d, s, fail ? SNIC_EIO : result);
}

static void fuzz_dpu_bytes(struct fuzz_dpu *f, struct snic_nvmefs_cmd *c, int write)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->req.op.iov_count; i++) {
        unsigned char *p = c->req.op.iov[i].base;
        fuzz_must(p >= f->mem && p + c->req.op.iov[i].size <= f->mem + f->size);
        sum += c->req.op.iov[i].size;
        if (write)
            memset(p, 0x5a, c->req.op.iov[i].size);
        else
            f->sum += p[0] + p[c->req.op.iov[i].size - 1];
    }
    fuzz_must(sum == c->data_size);
    for (uint32_t i = 0; i < c->req.op.name_size; i++)
        f->sum += (unsigned char)c->req.op.name[i];
    for (uint32_t i = 0; i < c->req.op.name2_size; i++)
        f->sum += (unsigned char)c->req.op.name2[i];
    for (uint32_t i = 0; i < c->req.op.cred.group_count; i++)
        f->sum += c->req.op.cred.groups[i];
}

static void fuzz_dpu_finish(struct fuzz_dpu *f, uint32_t i, uint64_t how)
{
    struct snic_nvmefs_cmd *c = f->held[i];
    static const int64_t results[8] = {0, 1, 4096, INT64_MAX, SNIC_ENOENT, INT64_MIN, 8192, 70000};
    f->held[i] = f->held[--f->held_count];
    fuzz_dpu_bytes(f, c, 1);
    snic_nvmefs_dpu_finish(f->d, c, (how & 15) == 9 ? SNIC_NVMEFS_STATUS_NO_SERVICE : 0,
                           (how & 16) != 0 ? (int64_t)c->data_size : results[how & 7]);
}

static void fuzz_dpu_run(struct fuzz_dpu *f, uint64_t how)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    for (uint64_t n = 1 + how % 16; n > 0; n--) {
        struct snic_nvmefs_step *s =
            f->out_count < FUZZ_OUT ? snic_nvmefs_dpu_poll_step(f->d) : NULL;
        struct snic_nvmefs_cmd *c =
            f->held_count < FUZZ_HELD ? snic_nvmefs_dpu_poll_request(f->d) : NULL;
        if (s != NULL) {
            fuzz_must(s->count > 0 && s->count <= SNIC_NVMEFS_STEP_OPS);
            f->out[f->out_count++] = s;
        }
        if (c != NULL) {
            fuzz_dpu_bytes(f, c, 0);
            f->held[f->held_count++] = c;
        }
        if (f->out_count > 0 && (s == NULL || how % 3 == 0))
            fuzz_dpu_complete(f, (uint32_t)(how % f->out_count), how == 255);
        (void)snic_nvmefs_dpu_poll_cancel(f->d);
        (void)snic_nvmefs_dpu_poll_bells(f->d);
        while (snic_nvmefs_dpu_poll_control(f->d, msg)) {
        }
    }
}

/** An address that is often a good one. */
static uint64_t fuzz_address(struct fuzz_input *in)
{
    uint64_t kind = fuzz_take(in, 1);
    uint64_t v = fuzz_take(in, 2);
    switch (kind % 8) {
    case 0:
        return v & ~UINT64_C(4095);
    case 1:
        return SNIC_NVMEFS_ADDRESS(1, v % FUZZ_SMALL);
    case 2:
        return v << 48 | v;
    case 3:
        return FUZZ_REGION - (v & 31);
    case 4:
        return 16384 + (v & 0x3ff8);
    default:
        return v;
    }
}

/** A header that decodes, at @p at; its size. */
static uint16_t fuzz_header(struct fuzz_dpu *f, struct fuzz_input *in, uint32_t at)
{
    static const char names[64] = "name";
    uint64_t header[SNIC_NVMEFS_HEADER_MAX / 8];
    struct snic_fsop r = {.kind = (uint8_t)(fuzz_take(in, 1) % 40), .ino = 5, .name = names};
    uint64_t shape = fuzz_take(in, 1);
    r.name2 = names;
    r.name_size = (uint32_t)(shape & 15);
    int n = snic_nvmefs_head_encode(&r, header, sizeof(header));
    if (n < 0) {
        r.name_size = 0;
        n = snic_nvmefs_head_encode(&r, header, sizeof(header));
    }
    if (n < 0 || at + (uint32_t)n > FUZZ_REGION)
        return 48;
    memcpy(f->region[0] + at, header, (size_t)n);
    if ((shape & 0xc0) == 0xc0)
        f->region[0][at + fuzz_take(in, 1) % (uint32_t)n] ^= (unsigned char)(1 + shape);
    return (uint16_t)n;
}

/** The entry that the DPU looks at next. */
static void fuzz_entry(struct fuzz_dpu *f, struct fuzz_input *in, int good)
{
    struct nvmefs_queue *q = &f->d->queues[fuzz_take(in, 1) & 1];
    if (q->depth == 0)
        return;
    static const uint32_t lengths[8] = {0, 4096, 8192, 5, 9000, 4095, 65536, 0xffffffff};
    struct snic_nvmefs_sqe s = {.opcode = 0xa3, .lap = (uint8_t)nvmefs_turn(q->head, q->shift)};
    uint64_t how = fuzz_take(in, 1);
    uint32_t at = 16384 + 4096 - 256;
    s.cid = (uint16_t)(how & 3);
    s.wh_len = fuzz_header(f, in, at);
    uint64_t op = f->region[0][at + 1];
    s.write[0] = at;
    s.rh_len = (uint16_t)snic_nvmefs_op_answer((uint32_t)op);
    s.write_len = s.wh_len;
    s.read_len = s.rh_len;
    s.read[0] = 16384;
    uint32_t more = lengths[how >> 2 & 7];
    if (snic_nvmefs_op_data((uint32_t)op) == 1)
        s.write_len += more;
    else if (snic_nvmefs_op_data((uint32_t)op) == 2)
        s.read_len += more;
    s.write[1] = fuzz_address(in);
    s.read[1] = fuzz_address(in);
    if (!good) {
        uint64_t bits = fuzz_take(in, 2);
        s.opcode = (bits & 1) != 0 ? 0xa3 : (uint8_t)(bits >> 1 & 1 ? 0x08 : bits >> 8);
        s.write_sgl = bits >> 2 & 1;
        s.read_sgl = bits >> 3 & 1;
        s.distributed = bits >> 4 & 1;
        if ((bits >> 5 & 1) != 0)
            s.write[0] = fuzz_address(in);
        if ((bits >> 6 & 1) != 0)
            s.read[0] = fuzz_address(in);
        if ((bits >> 7 & 1) != 0)
            s.wh_len = (uint16_t)fuzz_take(in, 2);
        if ((bits >> 8 & 1) != 0)
            s.cid = (uint16_t)fuzz_take(in, 2);
        if ((bits >> 9 & 1) != 0)
            s.write[1] = fuzz_take(in, 8);
        if ((bits >> 10 & 1) != 0)
            s.read[1] = fuzz_take(in, 8);
        if ((bits >> 11 & 1) != 0)
            s.write_len = (uint32_t)fuzz_take(in, 4);
        if ((bits >> 12 & 1) != 0)
            s.read_len = (uint32_t)fuzz_take(in, 4);
    }
    snic_nvmefs_sqe_encode(f->region[0] + 4096 + (size_t)(q->head & (q->depth - 1)) * 64, &s);
    snic_nvmefs_dpu_bell(f->d, nvmefs_queue_number(f->d, q));
}

static void fuzz_control(struct fuzz_dpu *f, struct fuzz_input *in)
{
    unsigned char msg[SNIC_NVMEFS_CTL_BYTES];
    uint64_t how = fuzz_take(in, 1);
    struct snic_nvmefs_ctl m = {.type = (uint16_t)(1 + how % 6),
                                .queue = (uint16_t)(how >> 3 & 3),
                                .generation = (uint32_t)(how >> 5 & 3),
                                .depth = FUZZ_DEPTH,
                                .window = (uint16_t)(how >> 6 & 1),
                                .key = 1 + (how >> 6 & 1),
                                .size = (how & 32) != 0 ? FUZZ_REGION : FUZZ_SMALL,
                                .sq = 4096,
                                .cq = 8192};
    snic_nvmefs_ctl_encode(msg, &m);
    if ((how & 0x80) != 0)
        msg[fuzz_take(in, 1) % sizeof(msg)] ^= (unsigned char)fuzz_take(in, 1);
    (void)snic_nvmefs_dpu_control(f->d, msg, sizeof(msg) - (how == 0xff));
}

static void fuzz_dpu_step(struct fuzz_dpu *f, struct fuzz_input *in)
{
    uint64_t op = fuzz_take(in, 1);
    switch (op & 7) {
    case 0: {
        uint64_t at = fuzz_take(in, 2);
        f->region[0][at] = (unsigned char)fuzz_take(in, 1);
        break;
    }
    case 1:
        fuzz_entry(f, in, (op & 8) != 0);
        break;
    case 2:
        snic_nvmefs_dpu_bell(f->d, (uint32_t)(op >> 3));
        snic_nvmefs_dpu_tick(f->d, (uint32_t)(op >> 3 & 1));
        (void)snic_nvmefs_dpu_sleep(f->d);
        break;
    case 3:
        if ((op & 0xf8) == 0xf8) {
            fuzz_control(f, in);
        } else { /* a list: words that are addresses */
            uint64_t at = 16384 + (fuzz_take(in, 2) & 0xff8);
            snic_put_le64(f->region[0] + at, fuzz_address(in));
        }
        break;
    case 4:
        if (f->held_count > 0)
            fuzz_dpu_finish(f, (uint32_t)(op >> 3) % f->held_count, op >> 3);
        break;
    case 5:
        if ((op & 0x78) == 0)
            fuzz_control(f, in);
        fuzz_dpu_run(f, fuzz_take(in, 1));
        break;
    default:
        fuzz_dpu_run(f, op >> 3);
        break;
    }
    fuzz_must(snic_nvmefs_dpu_check(f->d) == 0);
}

static void fuzz_hostile_host(struct fuzz_input *in, uint64_t mode)
{
    struct fuzz_dpu f;
    struct snic_nvmefs_dpu_opts o = {.opts_size = sizeof(o),
                                     .flags = (uint32_t)(mode >> 1 & 3),
                                     .queues_max = 2,
                                     .depth_max = FUZZ_DEPTH,
                                     .chunk_bytes = 4096,
                                     .chunks = 20,
                                     .steps = 6};
    memset(&f, 0, sizeof(f));
    f.size = snic_nvmefs_dpu_memsize(&o);
    f.mem = aligned_alloc(SNIC_NVMEFS_ALIGN, snic_align_up(f.size, SNIC_NVMEFS_ALIGN));
    fuzz_must(snic_nvmefs_dpu_init(&f.d, f.mem, f.size, &o) == 0);
    for (uint16_t i = 0; i < 2; i++) {
        f.region_size[i] = i == 0 ? FUZZ_REGION : FUZZ_SMALL;
        f.region[i] = calloc(1, f.region_size[i]);
        struct snic_nvmefs_ctl m = {.type = SNIC_NVMEFS_CTL_WINDOW,
                                    .window = i,
                                    .key = (uint64_t)i + 1,
                                    .size = f.region_size[i]};
        fuzz_dpu_ctl(&f, &m);
    }
    fuzz_dpu_create(&f, 0, 1);
    fuzz_dpu_create(&f, 1, 1);
    while (in->left > 0)
        fuzz_dpu_step(&f, in);
    /* Whatever it did: with the host gone, everything comes back. */
    snic_nvmefs_dpu_detach(f.d);
    while (f.out_count > 0)
        fuzz_dpu_complete(&f, 0, 0);
    while (f.held_count > 0)
        fuzz_dpu_finish(&f, 0, 0);
    fuzz_must(snic_nvmefs_dpu_poll_step(f.d) == NULL);
    fuzz_must(snic_nvmefs_dpu_poll_request(f.d) == NULL);
    fuzz_must(snic_nvmefs_dpu_check(f.d) == 0 && snic_nvmefs_dpu_idle(f.d));
    fuzz_must(f.d->free_count == o.chunks);
    free(snic_nvmefs_dpu_fini(f.d));
    free(f.region[0]);
    free(f.region[1]);
}

/* ---- A hostile DPU ---- */

struct fuzz_host {
    struct snic_nvmefs_host *h;
    unsigned char *queue;
    size_t queue_bytes;
    struct snic_nvmefs_req reqs[FUZZ_DEPTH];
    struct snic_iov iov[FUZZ_DEPTH];
    unsigned char data[FUZZ_DEPTH][4096];
    int out[FUZZ_DEPTH];
    uint32_t count;
};

static void fuzz_host_submit(struct fuzz_host *f, uint64_t how)
{
    uint32_t i = (uint32_t)(how & 3);
    struct snic_nvmefs_req *r = &f->reqs[i];
    if (f->out[i])
        return;
    memset(r, 0, sizeof(*r));
    r->op.kind = (uint8_t)(1 + (how >> 2) % (SNIC_FSOP_WIRE_KINDS - 1));
    if (snic_nvmefs_op_data(r->op.kind) != 0) {
        f->iov[i] = (struct snic_iov){f->data[i], 4096};
        r->op.iov = &f->iov[i];
        r->op.iov_count = 1;
    }
    if (snic_nvmefs_host_submit(f->h, r) == 0) {
        f->out[i] = 1;
        f->count++;
    }
}

static void fuzz_host_reap(struct fuzz_host *f)
{
    struct snic_nvmefs_req *r;
    while ((r = snic_nvmefs_host_reap(f->h)) != NULL) {
        size_t i = (size_t)(r - f->reqs);
        fuzz_must(i < FUZZ_DEPTH && f->out[i]);
        fuzz_must(r->data_size <= 4096 && r->op.result != INT64_MIN);
        fuzz_must(r->op.kind != SNIC_FSOP_READ || r->op.result <= 4096);
        f->out[i] = 0;
        f->count--;
    }
    fuzz_must(f->count == snic_nvmefs_host_outstanding(f->h));
}

static void fuzz_host_cqe(struct fuzz_host *f, struct fuzz_input *in)
{
    struct snic_nvmefs_host *h = f->h;
    uint64_t how = fuzz_take(in, 1);
    static const int64_t results[8] = {0, 4096, 4097, SNIC_ENOENT, INT64_MIN, -600, -1, INT64_MAX};
    struct snic_nvmefs_cqe c = {.result = results[how & 7],
                                .sq_head = (uint16_t)h->tail,
                                .queue = h->opts.queue,
                                .cid = (uint16_t)(how >> 3 & 3),
                                .phase = (uint8_t)nvmefs_turn(h->cq_head, h->shift)};
    if ((how & 0xe0) == 0xe0)
        c.sq_head = (uint16_t)fuzz_take(in, 2);
    if ((how & 0xe0) == 0xc0)
        c.status = (uint16_t)fuzz_take(in, 2) & 0x7fff;
    if ((how & 0xe0) == 0xa0)
        c.cid = (uint16_t)fuzz_take(in, 2);
    if (how == 0x80)
        c.queue = (uint16_t)fuzz_take(in, 1);
    unsigned char bytes[16];
    snic_nvmefs_cqe_encode(bytes, &c);
    unsigned char *at = h->cq + (size_t)(h->cq_head & (h->opts.depth - 1)) * 16;
    if ((how & 0x60) != 0x20)
        memcpy(at, bytes, 16);
    else
        memcpy(at + 8, bytes + 8, 8); /* half of it */
}

static void fuzz_host_step(struct fuzz_host *f, struct fuzz_input *in)
{
    uint64_t op = fuzz_take(in, 1);
    switch (op & 7) {
    case 0: {
        uint64_t at = fuzz_take(in, 2) % f->queue_bytes;
        f->queue[at] = (unsigned char)fuzz_take(in, 1);
        break;
    }
    case 1:
    case 2:
        fuzz_host_submit(f, op >> 3 | (fuzz_take(in, 1) << 5));
        break;
    case 3:
        fuzz_host_cqe(f, in);
        break;
    case 4:
        fuzz_host_reap(f);
        break;
    case 5:
        (void)snic_nvmefs_host_kick(f->h);
        (void)snic_nvmefs_host_sleep(f->h);
        snic_nvmefs_host_belled(f->h);
        break;
    case 6:
        (void)snic_nvmefs_host_abort(f->h, &f->reqs[op >> 3 & 3]);
        break;
    default: { /* an answer that may decode */
        unsigned char *page = f->h->pages + (size_t)(op >> 3 & 3) * SNIC_NVMEFS_PAGE;
        const struct snic_fsop *r = &f->reqs[op >> 5 & 3].op;
        (void)snic_nvmefs_answer_encode(r, page);
        if ((op & 0xc0) == 0xc0)
            snic_nvmefs_host_reset(f->h);
        break;
    }
    }
    fuzz_must(snic_nvmefs_host_check(f->h) == 0);
}

static void fuzz_hostile_dpu(struct fuzz_input *in)
{
    static struct fuzz_host f;
    struct snic_nvmefs_host_opts o = {
        .opts_size = sizeof(o), .queue = 3, .depth = FUZZ_DEPTH, .data_bytes = 4096};
    memset(&f, 0, sizeof(f));
    size_t size = snic_nvmefs_host_memsize(&o);
    void *mem = aligned_alloc(SNIC_NVMEFS_ALIGN, snic_align_up(size, SNIC_NVMEFS_ALIGN));
    f.queue_bytes = snic_nvmefs_queue_bytes(&o);
    f.queue = aligned_alloc(4096, f.queue_bytes);
    fuzz_must(snic_nvmefs_host_init(&f.h, mem, size, f.queue, &o) == 0);
    while (in->left > 0)
        fuzz_host_step(&f, in);
    snic_nvmefs_host_reset(f.h);
    fuzz_host_reap(&f);
    fuzz_must(f.count == 0 && snic_nvmefs_host_error(f.h) == 0);
    free(snic_nvmefs_host_fini(f.h));
    free(f.queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size < 4096 ? size : 4096};
    uint64_t mode = fuzz_take(&in, 1);
    if ((mode & 1) != 0)
        fuzz_hostile_host(&in, mode);
    else
        fuzz_hostile_dpu(&in);
    return 0;
}
