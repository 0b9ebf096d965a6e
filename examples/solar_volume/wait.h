/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume client: when to log that I/O waits, and that it waits no more. Logged is what the
 * oldest waits for: once, and again where that is another server or another reason.
 */
#ifndef SOLAR_VOLUME_WAIT_H
#define SOLAR_VOLUME_WAIT_H

#include "snicstore/ebs_io.h"

#define WAIT_PATIENCE_NS UINT64_C(2000000000)
#define WAIT_AGAIN_NS UINT64_C(5000000000)

enum wait_event { WAIT_NOTHING, WAIT_BEGINS, WAIT_OVER };

struct wait {
    struct snic_ebs_wait is; /* what was logged last */
    uint32_t why;
    uint32_t logged; /* it was logged, and is not over */
    uint64_t logged_ns;
};

/* To be called every second. @p is: what the disk waits for, NULL: nothing; @p why: any number that
   stands for the reason. What has to be logged is in w->is. */
static inline enum wait_event wait_look(struct wait *w, const struct snic_ebs_wait *is,
                                        uint32_t why, uint64_t now_ns)
{
    int waits = is != NULL && now_ns >= is->since_ns + WAIT_PATIENCE_NS;
    if (!waits) {
        if (!w->logged)
            return WAIT_NOTHING;
        w->logged = 0;
        return WAIT_OVER;
    }
    if (w->logged_ns != 0 && now_ns < w->logged_ns + WAIT_AGAIN_NS)
        return WAIT_NOTHING;
    if (w->logged && w->is.server == is->server && w->why == why)
        return WAIT_NOTHING;
    w->is = *is;
    w->why = why;
    w->logged = 1;
    w->logged_ns = now_ns;
    return WAIT_BEGINS;
}

#endif
