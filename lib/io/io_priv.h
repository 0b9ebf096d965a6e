/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the io backends share, inline because they live in different libraries.
 */
#ifndef SNIC_IO_PRIV_H
#define SNIC_IO_PRIV_H

#include "snicstore/io.h"

/** The door takes the request: clear the results, stamp the times. */
static inline void io_req_accept(struct snic_io *io, struct snic_io_req *req, uint64_t now_ns)
{
    SNIC_DASSERT(req->done != NULL);
    req->result = 0;
    req->os_error = 0;
    req->credit = 0;
    req->queued_ns = now_ns;
    req->device_ns = now_ns;
    req->done_ns = 0;
    io->stats.submitted++;
}

/** The last thing a door does with a request. */
static inline void io_req_finish(struct snic_io *io, struct snic_io_req *req, int64_t result,
                                 int32_t os_error)
{
    struct snic_io_stats *s = &io->stats;
    req->result = result;
    req->os_error = os_error;
    req->done_ns = snic_max_u64(snic_loop_now(io->loop), req->device_ns);
    s->completed++;
    if (result < 0)
        s->errors++;
    else if (req->op == SNIC_IO_READ)
        s->read_bytes += (uint64_t)result;
    else if (req->op == SNIC_IO_WRITE)
        s->write_bytes += (uint64_t)result;
    else if (req->op == SNIC_IO_FLUSH)
        s->flushes++;
    req->done(req);
}

#endif /* SNIC_IO_PRIV_H */
