/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The dma door's contract as tests. A backend supplies a fixture that opens a
 * link between two loops of this thread; conformance_dma_run() runs every case.
 */
#ifndef SNIC_TESTS_CONFORMANCE_DMA_H
#define SNIC_TESTS_CONFORMANCE_DMA_H

#include "snicstore/dma.h"

struct conf_dma;

/** How a backend is opened and driven. */
struct conf_dma_backend {
    const char *name;
    /** Open f->d[0] (host) and f->d[1] (dpu) with f->events[]; loops are in f->loop[]. */
    void (*open)(struct conf_dma *f);
    /** Close the loops; the handles are closed already. */
    void (*close)(struct conf_dma *f);
    /** Let both loops do something; 0 when nothing happened (and some time went by). */
    int (*step)(struct conf_dma *f);
};

#define CONF_DMA_LOG 4096

/** What happened at one end, in order. */
struct conf_dma_end {
    struct conf_dma *f;
    int index;
    uint32_t bells[SNIC_DMA_DOORBELLS];
    uint32_t deaths;
    enum snic_dma_death cause;
    uint32_t messages;
    uint32_t after_death; /* events received after the death */
    uint32_t sizes[CONF_DMA_LOG];
    unsigned char first[CONF_DMA_LOG];
    unsigned char last[SNIC_DMA_MSG_MAX];
};

struct conf_dma {
    const struct conf_dma_backend *backend;
    struct snic_world *world;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_dma_events events[2];
    struct conf_dma_end end[2];
    uint32_t sim_caps;
    uint32_t sim_chunk;
};

/** Run until *@p word >= @p value; fails the test when that never comes. */
void conf_dma_until(struct conf_dma *f, const uint32_t *word, uint32_t value);
/** Run @p steps more steps. */
void conf_dma_spin(struct conf_dma *f, int steps);
void conf_dma_setup(struct conf_dma *f, const struct conf_dma_backend *b);
void conf_dma_teardown(struct conf_dma *f);
/** A batch with room for ops, and its completion. */
struct conf_dma_batch {
    struct snic_dma_batch b;
    struct snic_dma_op ops[16];
    uint32_t completed;
};
/** The done function of such a batch: counts. */
void conf_dma_done(struct snic_dma_batch *b);

/** Every case of the suite, on @p b; fails the running cmocka test. */
void conformance_dma_run(const struct conf_dma_backend *b, uint32_t sim_caps, uint32_t sim_chunk);
/** Open descriptors of this process. */
int conf_dma_fds(void);

#endif /* SNIC_TESTS_CONFORMANCE_DMA_H */
