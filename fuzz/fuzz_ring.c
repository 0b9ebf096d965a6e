/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The ring under a hostile peer: the input is a ring's options, then a string of operations of
 * both sides, between which it writes anything it likes into the shared memory. Nothing may
 * leave its memory, hang or crash; while the input has not written there, both sides must be
 * content and the structure must check.
 */
#include "snicstore/ring.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static uint32_t take(struct input *in)
{
    uint32_t v = 0;

    if (in->left > 0) {
        v = *in->at++;
        in->left--;
    }
    return v;
}

static uint32_t take16(struct input *in)
{
    uint32_t v = take(in);

    return v | take(in) << 8;
}

struct world {
    struct snic_ring_info info;
    unsigned char *mem;
    size_t size;
    void *aux, *mirror;
    int hostile;
    struct snic_ring_producer p[2];
    struct snic_ring_consumer c;
    struct snic_ring_responder r;
    struct snic_ring_collector k[2];
    struct snic_ring_rec held[2];
    uint64_t open[8];
    unsigned opens;
};

static void must(int condition)
{
    if (!condition)
        abort();
}

static void *block(size_t size)
{
    void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

    must(p != NULL);
    memset(p, 0, size);
    return p;
}

static void touch(const struct snic_ring_rec *rec)
{
    volatile unsigned char sum = 0;
    uint32_t i;

    for (i = 0; i < rec->data_bytes; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)rec->data)[i]);
    for (i = 0; i < rec->body_bytes; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)rec->body)[i]);
}

static void scribble(struct world *w, struct input *in)
{
    uint32_t where = take16(in);
    uint32_t how = take(in);
    size_t at = SNIC_RING_HEADER_BYTES + (size_t)where * 8 % (w->size - SNIC_RING_HEADER_BYTES - 7);
    uint64_t v;

    if (how & 1)
        at = SNIC_RING_OFF_PROGRESS + where % 6 * 128;
    v = snic_get_le64(w->mem + at);
    if (how & 2)
        v += (uint64_t)(how >> 3) * 16;
    else if (how & 4)
        v -= (uint64_t)(how >> 3) * 16;
    else
        v = (uint64_t)take16(in) << (how >> 2);
    snic_put_le64(w->mem + at, v);
    w->hostile = 1;
}

static void carry_out(struct world *w, const struct snic_ring_op *ops, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        must(ops[i].offset + ops[i].bytes <= w->size);
        if (ops[i].kind == SNIC_RING_OP_READ)
            memcpy(ops[i].local, w->mem + ops[i].offset, ops[i].bytes);
        else
            memcpy(w->mem + ops[i].offset, ops[i].local, ops[i].bytes);
    }
}

static void honest(const struct world *w, int64_t r)
{
    must(w->hostile || r != SNIC_ECORRUPT);
}

static int peek_run(struct snic_ring_consumer *c, struct snic_ring_rec *recs, uint32_t max)
{
    struct snic_ring_run run;
    int n = snic_ring_peek_run(c, &run, max), i;

    for (i = 0; i < n; i++) {
        recs[i] = run.first;
        recs[i].position += (uint32_t)i * run.stride_bytes;
        recs[i].data = (char *)recs[i].data + (uint32_t)i * run.stride_bytes;
    }
    return n;
}

static void request_step(struct world *w, struct input *in, uint32_t op)
{
    static const unsigned char zeros[512];
    struct snic_ring_producer *p = &w->p[w->info.flags != 0 ? 0 : op >> 4 & 1];
    struct snic_ring_rec recs[8];
    struct snic_ring_op ops[SNIC_RING_FETCH_OPS];
    uint32_t sizes[4];
    int n, i;

    switch (op & 7) {
    case 0:
        honest(w, snic_ring_push(p, 1, zeros, take16(in) % sizeof(zeros)));
        break;
    case 1:
        honest(w, snic_ring_push_n(p, 1, zeros, take(in) % 64, 1 + take(in) % 8));
        break;
    case 2:
        n = p->total != 0 ? SNIC_EBUSY : snic_ring_reserve(p, 2, take(in), take16(in), &recs[0]);
        honest(w, n);
        if (n == 0) {
            memset(recs[0].data, 1, recs[0].data_bytes);
            if (recs[0].body != NULL)
                memset(recs[0].body, 1, recs[0].body_bytes);
        }
        break;
    case 3:
        if (p->total != 0 && (op & 8) != 0)
            snic_ring_cancel(p);
        else if (p->total != 0)
            snic_ring_commit(p);
        break;
    case 4:
        for (i = 0; i < 4; i++)
            sizes[i] = take(in);
        n = snic_ring_reserve_n(p, 3, sizes, 1 + op / 64, recs);
        honest(w, n);
        if (n == 0)
            snic_ring_commit(p);
        break;
    case 5:
    case 6:
        if (w->c.g.base == NULL) {
            while ((n = snic_ring_fetch(&w->c, ops)) > 0)
                carry_out(w, ops, n);
            honest(w, n);
        }
        n = op & 8 ? peek_run(&w->c, recs, 1 + op / 32) : snic_ring_peek(&w->c, recs, 1 + op / 32);
        honest(w, n);
        for (i = 0; i < n; i++)
            touch(&recs[i]);
        while (n > 0)
            must(snic_ring_finish(&w->c, recs[--n].position) == 0 || w->hostile);
        if (snic_ring_head_op(&w->c, ops) == 1)
            carry_out(w, ops, 1);
        break;
    default:
        n = snic_ring_notify(p) + snic_ring_space_notify(&w->c);
        if (op & 8)
            snic_ring_wait_arm(p);
        if ((op & 64) != 0 && snic_ring_sleep_arm(&w->c, ops) == 1)
            carry_out(w, ops, 1);
        break;
    }
}

static void response_step(struct world *w, struct input *in, uint32_t op)
{
    uint32_t i = op >> 4 & 1;
    struct snic_ring_rec rec;
    struct snic_ring_op ops[6];
    unsigned calls = 0;
    int n;

    switch (op & 7) {
    case 0:
    case 1:
        n = w->opens == 8
                ? SNIC_EAGAIN
                : snic_ring_resp_reserve(&w->r, 1, take(in), op & 8 ? take16(in) : 0, &rec);
        honest(w, n);
        if (n == 0) {
            memset(rec.data, 1, rec.data_bytes);
            w->open[w->opens++] = rec.position;
        }
        break;
    case 2:
    case 3:
        if (w->opens == 0)
            break;
        i = op / 16 % w->opens;
        n = op & 8 ? snic_ring_resp_cancel(&w->r, w->open[i])
                   : snic_ring_resp_finish(&w->r, w->open[i],
                                           op & 64 ? SNIC_RING_WHOLE_BODY : take(in) % 2);
        must(w->hostile || n == 0 || n == SNIC_EINVAL);
        if (n == 0 || w->hostile)
            w->open[i] = w->open[--w->opens];
        break;
    case 4:
        while ((n = snic_ring_resp_flush(&w->r, ops, 4 + op / 128)) > 0 && ++calls < 10000)
            carry_out(w, ops, n);
        must(calls < 10000);
        honest(w, n);
        snic_ring_resp_sync(&w->r, ops);
        carry_out(w, ops, 1);
        if (w->r.remote)
            honest(w, snic_ring_resp_synced(&w->r));
        break;
    case 5:
    case 6:
        if (w->k[i].held != 0) {
            honest(w, snic_ring_claim_release(&w->k[i], &w->held[i]));
            break;
        }
        n = snic_ring_claim(&w->k[i], &w->held[i]);
        honest(w, n);
        if (n == 1)
            touch(&w->held[i]);
        break;
    default:
        n = snic_ring_resp_notify(&w->r) + snic_ring_collect_notify(&w->k[i]);
        snic_ring_collect_arm(&w->k[i]);
        if (snic_ring_resp_wait_arm(&w->r, ops) == 1)
            carry_out(w, ops, 1);
        break;
    }
}

static int world_open(struct world *w, struct input *in)
{
    struct snic_ring_opts o;
    uint32_t a = take(in), b = take(in), i;
    int remote = a >> 2 & 1;

    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.kind = a & 1 ? SNIC_RING_REQUEST : SNIC_RING_RESPONSE;
    o.discipline = a >> 1 & 1;
    o.granule_bytes = 16U << (a >> 3 & 3);
    o.body_align = 8U << (b & 7);
    o.owners_max = b & 8 ? 2 : 0;
    o.flags = (a & 65) == 65 && o.owners_max == 0 ? SNIC_RING_ONE_PRODUCER : 0;
    o.capacity_bytes = UINT64_C(1024) << (b >> 4 & 3);
    o.progress_max = b & 64 ? o.capacity_bytes : 0;
    w->size = snic_ring_memsize(&o);
    if (w->size == 0)
        return 0;
    w->mem = block(w->size);
    must(snic_ring_init(w->mem, w->size, &o) == 0);
    must(snic_ring_geometry(w->mem, w->size, &w->info) == 0);
    w->aux = block((size_t)w->info.aux_bytes);
    w->mirror = block((size_t)w->info.mirror_bytes);
    for (i = 0; i < (o.flags != 0 ? 1U : 2U); i++) {
        uint64_t token = w->info.owners_max != 0 ? i + 1 : 0;

        must((a & 1 ? snic_ring_producer_attach(&w->p[i], w->mem, w->size, token)
                    : snic_ring_collector_attach(&w->k[i], w->mem, w->size, token)) == 0);
    }
    if (a & 1)
        must((remote ? snic_ring_consumer_attach_remote(&w->c, w->mem, w->size,
                                                        w->mem + SNIC_RING_OFF_HEAD, w->mirror,
                                                        (size_t)w->info.mirror_bytes, w->aux,
                                                        (size_t)w->info.aux_bytes, a >> 5 & 1)
                     : snic_ring_consumer_attach(&w->c, w->mem, w->size, w->aux,
                                                 (size_t)w->info.aux_bytes)) == 0);
    else
        must((remote ? snic_ring_responder_attach_remote(
                           &w->r, w->mem, w->size, w->mem + SNIC_RING_OFF_TAIL, w->mirror,
                           (size_t)w->info.mirror_bytes, w->aux, (size_t)w->info.aux_bytes)
                     : snic_ring_responder_attach(&w->r, w->mem, w->size, w->aux,
                                                  (size_t)w->info.aux_bytes)) == 0);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct snic_ring_info info;
    struct world w;
    uint32_t op;
    int r;

    memset(&w, 0, sizeof(w));
    if (size >= SNIC_RING_HEADER_BYTES) /* the input as a header */
        must(snic_ring_geometry(data, UINT64_MAX, &info) <= 0);
    if (!world_open(&w, &in))
        return 0;
    while (in.left > 0) {
        op = take(&in);
        if (op == 0xff) {
            scribble(&w, &in);
        } else if (op == 0xfe) {
            /* both sides are alive: abandon is valid only beside a hostile peer */
            w.hostile = 1;
            r = snic_ring_abandon(w.mem, w.size, 1 + (take(&in) & 1));
            must(r <= 0);
        } else if (w.info.kind == SNIC_RING_REQUEST) {
            request_step(&w, &in, op);
        } else {
            response_step(&w, &in, op);
        }
        r = snic_ring_check(w.mem, w.size);
        if (!w.hostile && w.info.kind == SNIC_RING_REQUEST && w.p[0].total + w.p[1].total == 0)
            must(r == 0);
    }
    free(w.mem);
    free(w.aux);
    free(w.mirror);
    return 0;
}
