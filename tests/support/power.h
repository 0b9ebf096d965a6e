/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Power loss at every write: a run over a disk of io/mem is repeated, cut before its first,
 * second, ... write, flush or zeroing, until a run completes uncut. Each cut is tried with
 * several choices of un-synced sectors that survive: none, all, random ones; and as a write
 * torn in the middle.
 */
#ifndef SNIC_TESTS_POWER_H
#define SNIC_TESTS_POWER_H

#include "snicstore/io.h"

struct power_case {
    void *ctx;
    /** Use the disk until everything is done or the power is gone (requests end with SNIC_EIO). */
    void (*run)(void *ctx, struct snic_io *io);
    /** The power is back: judge what the disk holds. @p cut counts from 1, 0: the uncut run. */
    void (*judge)(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors);
    /**
     * NULL, or: begin to recover what @p disk holds, cut its power under way, and let go of it; the
     * judge comes afterwards. Called for every second cut.
     */
    void (*again)(void *ctx, struct snic_io *io, struct snic_disk *disk, uint64_t seed);
    const struct snic_disk *base; /**< where every run starts               */
    uint64_t seed;
    /** Try every step-th cut only, from 1 + seed % step; 0 and 1: all. By day with a sanitizer
     *  every fourth of these. */
    uint64_t step;
    uint32_t random; /**< random choices of survivors per cut                 */
    uint32_t torn;   /**< also tear the write at the cut                       */
    struct snic_loop *loop;
};

/** @return how many cuts were tried. Fails the test when a run never completes. */
uint64_t power_enumerate(const struct power_case *c);

#endif /* SNIC_TESTS_POWER_H */
