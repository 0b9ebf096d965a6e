/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The SSD model driven by an operation string, against what it promises: each command comes back
 * once, in order of time, not before it can, and check holds after every step.
 *
 * Bytes 0..15: parameters. Then three bytes per operation: op, queue and whether to send or to
 * let time pass, or to trim; the offset; the length or the time. At the end everything drains.
 */
#include "snicstore/ssd.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_COMMANDS = 64, FUZZ_HEAD = 16 };

struct fuzz {
    struct snic_ssd *d;
    struct snic_ssd_opts o;
    struct snic_ssd_cmd cmd[FUZZ_COMMANDS];
    uint64_t sent_ns[FUZZ_COMMANDS];
    uint8_t inside[FUZZ_COMMANDS];
    uint64_t now;
    uint64_t last;
    uint32_t count;
    uint32_t next;
};

static void fuzz_opts(struct snic_ssd_opts *o, const uint8_t *p)
{
    if (p[0] & 1)
        snic_ssd_opts_dct983(o);
    else
        snic_ssd_opts_p3600(o);
    o->condition = p[0] >> 1 & 1;
    if (p[0] & 4)
        o->condition = SNIC_SSD_AGEING;
    o->age_block_pages = 8;
    o->age_pages = 8u * (1 + (p[0] >> 5));
    o->age_spare = 1 + p[1];
    o->age_fill = p[0] & 8 ? 1000 : 0;
    o->age_overwrites = p[0] & 16 ? 300 : 0;
    o->seed = p[1];
    o->queues = 1 + p[2] % 16;
    o->depth = 1 + p[3] % FUZZ_COMMANDS;
    o->dies = 1 + p[4] % 8;
    o->window = 1 + p[5] % 32;
    o->program_unit = 4096u << (p[6] & 3);
    o->buffer_bytes = 2 * o->program_unit + p[7] * 1000u;
    o->length_max = 1 + (o->buffer_bytes / 2 - 1) * p[8] / 255;
    o->read_unit = 4096u * (1 + p[9] % 8);
    o->program_queue = 1 + p[10] % 8;
    o->write_share = 1 + p[11] * 4u;
    o->jitter = p[12] * 2u;
    o->gc_debt_ns = p[13] * 10000u;
    o->gc_chunk_ns = 20000 + p[13] * 1000u; /* events, not only time */
    o->stall_ns = p[14] * 1000u;
    o->stall_odds = 1u << p[14] % 21;
    o->stall_pool_bytes = p[15] * 1000u;
    o->split_ns = p[15] * 20u;
    o->fetch_read_ns = p[15] % 4 * 500u;
}

/* Each completion once, in order, and no command faster than its own way. */
static void fuzz_poll(struct fuzz *f)
{
    for (struct snic_ssd_cmd *c; (c = snic_ssd_poll(f->d, f->now)) != NULL;) {
        size_t i = (size_t)(c - f->cmd);
        SNIC_ASSERT(i < FUZZ_COMMANDS && f->inside[i]);
        SNIC_ASSERT(c->done_ns >= f->last && c->done_ns <= f->now);
        uint64_t least = f->o.fetch_write_ns + f->o.post_write_ns;
        if (c->op == SNIC_SSD_READ)
            least = f->o.fetch_read_ns + f->o.read_ns / 2 + f->o.post_read_ns;
        SNIC_ASSERT(c->done_ns >= f->sent_ns[i] + least);
        f->last = c->done_ns;
        f->inside[i] = 0;
        f->count--;
    }
}

static void fuzz_send(struct fuzz *f, const uint8_t *p)
{
    uint32_t i = f->next++ % FUZZ_COMMANDS;
    if (f->inside[i])
        return;
    struct snic_ssd_cmd *c = &f->cmd[i];
    *c = (struct snic_ssd_cmd){.op = (uint8_t)(1 + (p[0] & 1)),
                               .queue = (p[0] >> 2) % f->o.queues,
                               .offset = p[1] * 2048u,
                               .length = 1 + p[2] * 700u % f->o.length_max};
    int r = snic_ssd_submit(f->d, c, f->now);
    SNIC_ASSERT(r == (f->count == f->o.depth ? SNIC_EAGAIN : 0));
    if (r != 0)
        return;
    f->inside[i] = 1;
    f->sent_ns[i] = f->now;
    f->count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    if (size < FUZZ_HEAD || size > 4096)
        return 0;
    memset(f, 0, sizeof(*f));
    fuzz_opts(&f->o, data);
    size_t bytes = snic_ssd_memsize(&f->o);
    SNIC_ASSERT(bytes > 0);
    void *mem = aligned_alloc(SNIC_SSD_ALIGN, snic_align_up(bytes, SNIC_SSD_ALIGN));
    if (mem == NULL || snic_ssd_init(&f->d, mem, bytes, &f->o) != 0)
        abort();
    for (size_t at = FUZZ_HEAD; at + 3 <= size; at += 3) {
        const uint8_t *p = data + at;
        if ((p[0] & 0xc2) == 0xc0) {
            snic_ssd_trim(f->d, p[1] * 2048u, p[2] * 700u);
        } else if (p[0] & 2) {
            f->now += ((uint64_t)p[1] << 8 | p[2]) * (p[0] & 1 ? 1000 : 10);
            fuzz_poll(f);
        } else {
            fuzz_send(f, p);
        }
        SNIC_ASSERT(snic_ssd_check(f->d) == 0);
    }
    uint32_t steps = 0;
    for (uint64_t at; (at = snic_ssd_deadline_ns(f->d)) != SNIC_NEVER;) {
        f->now = at;
        fuzz_poll(f);
        if (++steps % 64 == 0) /* check costs as much as many steps */
            SNIC_ASSERT(snic_ssd_check(f->d) == 0);
    }
    SNIC_ASSERT(snic_ssd_check(f->d) == 0);
    SNIC_ASSERT(f->count == 0);
    SNIC_ASSERT(snic_ssd_fini(f->d) == mem);
    free(mem);
    return 0;
}
