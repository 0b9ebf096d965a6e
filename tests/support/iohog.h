/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Another user of a simulated disk of depth 1: its read holds the only place for a time. And the
 * work that a loop does meanwhile: a user that polls for room shows in it.
 */
#ifndef SNIC_TESTS_IOHOG_H
#define SNIC_TESTS_IOHOG_H

#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "snicstore/io.h"

#define IOHOG_NS 1000000000u
/* Of a request or two: polling every millisecond is beyond. */
#define IOHOG_WORK_MAX 64

struct iohog {
    struct snic_io_req req;
    unsigned char *bytes;
    int done;
};

static inline void iohog_done(struct snic_io_req *req)
{
    SNIC_CONTAINER(req, struct iohog, req)->done++;
}

/** Hold a place on @p io, a handle of @p d, for IOHOG_NS. */
static inline void iohog_hold(struct iohog *h, struct snic_disk *d, struct snic_io *io)
{
    struct snic_fault f = {.kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = IOHOG_NS};
    struct snic_io_req *one = &h->req;
    memset(h, 0, sizeof(*h));
    h->bytes = aligned_alloc(4096, 4096);
    assert_non_null(h->bytes);
    snic_io_req_init(&h->req);
    h->req.done = iohog_done;
    h->req.op = SNIC_IO_READ;
    h->req.length = 4096;
    h->req.buf = (struct snic_iov){h->bytes, 4096};
    assert_int_equal(snic_disk_fault(d, &f), 0);
    assert_int_equal(snic_io_submit(io, &one, 1), 1);
}

/** Timers and messages of the loop so far. */
static inline uint64_t iohog_work(const struct snic_loop *l)
{
    struct snic_loop_stats s;
    snic_loop_get_stats(l, &s);
    return s.timers + s.messages;
}

/** It is over; @p work is what the loop had done when it began. */
static inline void iohog_end(struct iohog *h, const struct snic_loop *l, uint64_t work)
{
    assert_int_equal(h->done, 1);
    assert_int_equal(h->req.result, 4096);
    work = iohog_work(l) - work;
    if (work > IOHOG_WORK_MAX)
        fail_msg("%llu timers and messages while the device was full", (unsigned long long)work);
    free(h->bytes);
}

#endif /* SNIC_TESTS_IOHOG_H */
