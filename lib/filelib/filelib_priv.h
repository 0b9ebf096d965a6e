/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A notification group behind its public header.
 *
 *   submit, any thread   takes an entry of the table, writes the message into the ring and
 *                        commits. Where entry, sender or ring space are missing, or others wait
 *                        already, the request is posted to the loop instead.
 *   loop thread          gets responses, sends what waits, completes.
 *
 * Invariants
 *  G1  A request is in exactly one place: an entry's `req`, the loop's messages, the waiting
 *      queue, the queue of the completed, or the caller's hands. The thread that takes it out of
 *      an entry (atomic exchange) completes it.
 *  G2  An entry gets its request after the message was written and before it is committed; the
 *      submitter does not touch the request after that: a hostile DPU may answer at once.
 *  G3  `queued` counts requests posted or waiting. While a thread's own one is among them,
 *      its later ones are posted too: a thread's requests of one tenant keep their order.
 *  G4  `ended` is set before the table is swept; a submitter looks at `ended` after it has put
 *      its request into the table. Both are sequentially consistent, so one of them sees the
 *      other and the request is completed.
 *  G5  A lane (a tenant) with requests waiting is on `ready`, or has no credit: then one of its
 *      requests is in flight, whose response puts it back. A request in flight holds a credit
 *      of its lane if it moves data.
 */
#ifndef SNIC_FILELIB_PRIV_H
#define SNIC_FILELIB_PRIV_H

#include <stdatomic.h>

#include "snicstore/credit.h"
#include "snicstore/filelib.h"
#include "files/wire.h"

#define SNIC_FILELIB__NO_ENTRY UINT32_MAX
#define SNIC_FILELIB__ALIGNED 262144 /* rings from here on have room for aligned payloads */
#define SNIC_FILELIB__TENANTS_MAX 4096u

/* Words of snic_filelib_req.private_. */
enum filelib_private {
    FILELIB_POS = 0,   /* bytes done by earlier parts                */
    FILELIB_PART = 1,  /* bytes of the part under way                */
    FILELIB_PHASE = 2, /* enum filelib_phase                         */
    FILELIB_CREDIT = 3 /* 1: holds a credit of its lane            */
};
enum filelib_phase {
    FILELIB_PHASE_DATA = 0,
    FILELIB_PHASE_FSYNC = 1 /* a long SYNC write's parts are there */
};

struct filelib_entry {
    _Atomic(struct snic_filelib_req *) req;
    atomic_uint generation;
    /* Free list. Its owner writes it before the push; a pop that is going to fail may read it
     * then, too. */
    atomic_uint next;
};

/* The requests of one tenant. */
struct filelib_lane {
    struct snic_credit credit; /* any thread            */
    struct snic_queue urgent;  /* loop thread from here; priority above 0: first */
    struct snic_queue waiting;
    struct snic_link ready;
};

struct snic_filelib {
    struct snic_channel *channel;
    struct snic_loop *loop;
    struct snic_filelib_opts opts;
    void *mem;
    struct filelib_entry *entries;
    uint32_t part_max; /* bytes of data in one message */
    uint32_t names_max;
    struct snic_channel_sender sender; /* the loop thread's */
    struct filelib_lane *lanes;
    struct snic_link ready;      /* loop thread; G5   */
    struct snic_queue completed; /* loop thread; for poll */
    uint32_t sending;
    struct snic_filelib_stats stats;                 /* loop thread */
    _Alignas(SNIC_CACHELINE) _Atomic(uint64_t) free; /* tag << 32 | entry, or NO_ENTRY */
    _Alignas(SNIC_CACHELINE) atomic_uint queued;     /* G3 */
    atomic_int ended;                                /* G4: reason, 0 while alive */
    _Alignas(SNIC_CACHELINE) _Atomic(uint64_t) submitted;
    _Atomic(uint64_t) crowded;
};

/* message.c */
int filelib_request_check(const struct snic_filelib *g, const struct snic_filelib_req *r);
int filelib_request_write(struct snic_filelib *g, struct snic_channel_sender *s,
                          struct snic_filelib_req *r, uint64_t id);
int filelib_response_take(struct snic_filelib *g, struct snic_filelib_req *r,
                          const struct files_wire_response *w, const struct snic_channel_msg *m);

#endif /* SNIC_FILELIB_PRIV_H */
