/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What I/O queues on other threads read without a message. A namespace has two copies; sequence & 1
 * names the current one. The owner writes the other copy, then adds one to sequence.
 *   V1 A reader that finds sequence unchanged after it has read the current copy has read one
 *      publication: the copy it read is written again only after sequence has changed.
 *   V2 A reader never waits: it reads again only if two publications overtook it.
 * Only the owner writes cells and controllers' words; every thread adds to fences.
 */
#include "nvmesub/nvmesub_priv.h"

static struct nvmesub_cell *nvmesub_view_cell(const struct snic_nvmesub_view *v, uint32_t nsid)
{
    return (struct nvmesub_cell *)(void *)(v->cells + (size_t)(nsid - 1) * v->stride);
}

void nvmesub_view_ns(struct snic_nvmesub *s, uint32_t nsid)
{
    const struct nvmesub_ns *n = &s->ns[nsid - 1];
    struct nvmesub_cell *cell = nvmesub_view_cell(&s->view, nsid);
    uint64_t w[NVMESUB_W_REGS] = {0};
    if (n->used && !n->removing) {
        w[NVMESUB_W_BLOCKS] = n->blocks;
        w[NVMESUB_W_STATE] = SNIC_NVMESUB__W_PRESENT |
                             (n->read_only ? SNIC_NVMESUB__W_READ_ONLY : 0U) |
                             (uint64_t)n->shift << 8 | (uint64_t)n->generation << 32;
        w[NVMESUB_W_ANA] = s->groups[n->group - 1].states;
        w[NVMESUB_W_RESV] = n->rtype | (uint64_t)n->holder << 32;
    }
    uint64_t sequence = atomic_load_explicit(&cell->sequence, memory_order_relaxed);
    _Atomic uint64_t *copy = cell->words + ((sequence + 1) & 1) * s->view.words;
    /* The last change of sequence before these words: pairs with the fence of the reader (V1). */
    atomic_thread_fence(memory_order_release);
    for (uint32_t i = 0; i < NVMESUB_W_REGS; i++)
        atomic_store_explicit(&copy[i], w[i], memory_order_relaxed);
    for (uint32_t i = 0; i < s->host_words; i++)
        atomic_store_explicit(&copy[NVMESUB_W_REGS + i], n->regs[i], memory_order_relaxed);
    /* The words before sequence: pairs with the reader's first load. */
    atomic_store_explicit(&cell->sequence, sequence + 1, memory_order_release);
}

void nvmesub_view_ctrl(struct snic_nvmesub *s, const struct nvmesub_ctrl *c, int live)
{
    uint64_t word = (uint64_t)c->epoch << 32 | (live ? SNIC_NVMESUB__C_LIVE : 0U) |
                    (c->credit ? SNIC_NVMESUB__C_CREDIT : 0U);
    /* What made the controller what it is before the word: pairs with the loads in io.c. */
    atomic_store_explicit(&s->view.ctrl[nvmesub_ctrl_slot(s, c)], word, memory_order_release);
}

int nvmesub_view_same(const struct snic_nvmesub_view *v, uint32_t nsid, uint64_t sequence)
{
    /* As the reader's first load. */
    return sequence ==
           atomic_load_explicit(&nvmesub_view_cell(v, nsid)->sequence, memory_order_acquire) + 1;
}

void nvmesub_view_read(struct snic_nvmesub_view *v, uint32_t nsid, uint32_t host, uint32_t port,
                       struct nvmesub_seen *out)
{
    memset(out, 0, sizeof(*out));
    if (nsid == 0 || nsid > v->namespaces_max)
        return;
    struct nvmesub_cell *cell = nvmesub_view_cell(v, nsid);
    uint64_t w[NVMESUB_W_REGS + 1];
    uint64_t before = atomic_load_explicit(&cell->sequence, memory_order_acquire);
    for (;;) {
        _Atomic uint64_t *copy = cell->words + (before & 1) * v->words;
        for (uint32_t i = 0; i < NVMESUB_W_REGS; i++)
            w[i] = atomic_load_explicit(&copy[i], memory_order_relaxed);
        w[NVMESUB_W_REGS] =
            atomic_load_explicit(&copy[NVMESUB_W_REGS + host / 64], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire); /* pairs with the release fence above */
        uint64_t after = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        if (after == before)
            break;
        before = after;
    }
    out->sequence = before + 1;
    out->blocks = w[NVMESUB_W_BLOCKS];
    out->present = (w[NVMESUB_W_STATE] & SNIC_NVMESUB__W_PRESENT) != 0;
    out->read_only = (w[NVMESUB_W_STATE] & SNIC_NVMESUB__W_READ_ONLY) != 0;
    out->shift = (uint8_t)(w[NVMESUB_W_STATE] >> 8);
    out->generation = (uint32_t)(w[NVMESUB_W_STATE] >> 32);
    out->ana = (uint8_t)(w[NVMESUB_W_ANA] >> (4 * port) & 15);
    out->rtype = (uint8_t)w[NVMESUB_W_RESV];
    out->holder = w[NVMESUB_W_RESV] >> 32 == host;
    out->registered = (uint8_t)(w[NVMESUB_W_REGS] >> (host % 64) & 1);
}
