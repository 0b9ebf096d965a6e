/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The io door's conformance suite: what snicstore/io.h promises, as tests that
 * run on any backend and any loop. A backend is done when it passes.
 */
#ifndef SNIC_TESTS_CONFORMANCE_IO_H
#define SNIC_TESTS_CONFORMANCE_IO_H

#include "support.h"

#include "snicstore/io.h"

/** An open handle, and what it stands on. */
struct conformance_io {
    struct snic_io *io;
    struct snic_loop *loop;
    struct snic_world *world; /**< NULL on a real loop                         */
    struct snic_disk *disk;   /**< of mem and sim_ssd, else NULL               */
};

/** How to make one; size is CONFORMANCE_IO_BYTES, content zero. */
struct conformance_io_backend {
    const char *name;
    /** Open with @p depth, or call support_skip(). */
    void (*open)(struct conformance_io *c, const struct conformance_io_backend *b, uint32_t depth);
    uint32_t mask;     /**< SNIC_LOOP_HAVE_* to hide       */
    uint32_t flags;    /**< uring: SNIC_IO_OPEN_*; sim_ssd: its condition */
    uint32_t align;    /**< mem, sim_ssd; 0: the default    */
    uint64_t delay_ns; /**< mem: longest; sim_ssd: not 0 makes it one die */
    uint32_t caps;     /**< mem, sim_ssd; 0: the default    */
};

#define CONFORMANCE_IO_BYTES ((uint64_t)1 << 20)

/** Add every test for every backend to @p out; their number. Names live on in static memory. */
size_t conformance_io_tests(struct CMUnitTest *out, size_t max,
                            const struct conformance_io_backend *backends, size_t count);

/** Close the handle, the loop, the world and the disk. */
void conformance_io_close(struct conformance_io *c);
/** mem on a simulated loop, for any test program. */
void conformance_io_open_mem_sim(struct conformance_io *c, const struct conformance_io_backend *b,
                                 uint32_t depth);

#endif /* SNIC_TESTS_CONFORMANCE_IO_H */
