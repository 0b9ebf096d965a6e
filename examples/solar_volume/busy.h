/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume client: when to log that a server only refuses, or that its store failed. Such a
 * server counts as reachable, so no other line explains why I/Os wait.
 */
#ifndef SOLAR_VOLUME_BUSY_H
#define SOLAR_VOLUME_BUSY_H

#include "snicstore/ebs_io.h"

#define BUSY_PATIENCE_NS UINT64_C(5000000000)
#define BUSY_AGAIN_NS UINT64_C(30000000000)
#define BUSY_WELL_NS UINT64_C(5000000000)

struct busy {
    uint64_t count;
    uint64_t logged_ns; /* when the present refusal was logged; 0: it was not */
    uint64_t failed;
    uint64_t failed_heard_ns;  /* the server's last report of a failure */
    uint64_t failed_logged_ns; /* when it was logged last, over or not; 0: never */
    uint32_t failed_logged;    /* it was logged, and the recovery was not */
};

/* To be called every second, before the others. @p is: NULL: the number has no server.
   @return 1: the number is unused, or was and is used again: the state is reset */
static inline int busy_anew(struct busy *b, const struct snic_ebs_busy *is)
{
    if (is != NULL && is->count >= b->count && is->failed >= b->failed)
        return 0;
    *b = (struct busy){.count = 0};
    return 1;
}

/* To be called every second. @return how many seconds it has refused, if that is to be logged, else
   0: it serves requests, gets none any more, or it was logged less than BUSY_AGAIN_NS ago. */
static inline uint64_t busy_look(struct busy *b, const struct snic_ebs_busy *is, uint64_t now_ns)
{
    int more = is->count != b->count;
    b->count = is->count;
    if (is->since_ns == 0 || is->since_ns > b->logged_ns)
        b->logged_ns = 0;
    if (!more || is->since_ns == 0 || now_ns < is->since_ns + BUSY_PATIENCE_NS ||
        (b->logged_ns != 0 && now_ns < b->logged_ns + BUSY_AGAIN_NS))
        return 0;
    b->logged_ns = now_ns;
    return (now_ns - is->since_ns) / UINT64_C(1000000000);
}

/* To be called every second. @return 1: log that its store failed, at most once in 30 s, however
   often it works in between; -1: log that it works again: it has served a request, and has reported
   no failure for BUSY_WELL_NS; 0 */
static inline int busy_failed_look(struct busy *b, const struct snic_ebs_busy *is, uint64_t now_ns)
{
    int more = is->failed != b->failed;
    int fails = more || (!b->failed_logged && is->failed_since_ns != 0);
    b->failed = is->failed;
    if (more)
        b->failed_heard_ns = now_ns;
    if (fails && (b->failed_logged_ns == 0 || now_ns >= b->failed_logged_ns + BUSY_AGAIN_NS)) {
        b->failed_logged_ns = now_ns;
        b->failed_logged = 1;
        return 1;
    }
    if (!b->failed_logged || is->failed_since_ns != 0 || now_ns < b->failed_heard_ns + BUSY_WELL_NS)
        return 0;
    b->failed_logged = 0;
    return -1;
}

#endif
