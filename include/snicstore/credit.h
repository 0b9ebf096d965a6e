/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/credit.h
 * The client's half of Gimbal's credit protocol (section 3.6, Algorithm 3): how many requests
 * one tenant may have under way at a target that grants them with each completion.
 *
 * Depends on  snicstore/base.h.
 * Memory      One plain struct of the caller's; nothing is allocated.
 * Threads     Every call but init from any thread, on the same struct, at the same time.
 * Progress    Lock-free.
 * Errors      None: a request is sent or held.
 * Units       requests, whatever their size.
 *
 *     if (snic_credit_take(&c))         send the request
 *     else                              put it into a queue of the caller's, then look at
 *                                       the credit once more: see below
 *     a completion brought `granted`:   snic_credit_return(&c, granted), then send what was
 *                                       held, as long as snic_credit_take() returns 1
 *
 * The rules.
 *   C1  A request leaves while total > inflight, or when nothing is in flight. So a target
 *       that grants 0 slows a client down to one request at a time and cannot stop it for ever:
 *       the answer to that one brings the next grant.
 *   C2  A completion replaces total by what it grants; grants do not add up, so a lost or late one
 *       cannot make credit grow. Of several the one that is returned last counts.
 *   C3  A grant below what is in flight takes nothing back: requests are held until enough of
 *       the others have come home.
 *   C4  A completion that grants nothing (it failed on the way, or carries no credit) goes
 *       to snic_credit_cancel(): total stays.
 *
 * Where several threads send, one that finds no credit may queue its request just after the last
 * completion looked at the queue. So it looks again after it has queued (C1: with nothing in
 * flight it then gets its turn), or hands the request to the thread of the completions, which
 * looks when it receives it (filelib does).
 *
 * Deviation. Algorithm 3 counts a request after it was submitted; here it is counted before,
 * because two threads could otherwise send on the same credit; snic_credit_cancel() takes back
 * what could not be submitted.
 */
#ifndef SNIC_CREDIT_H
#define SNIC_CREDIT_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** As a total: no limit, until a completion grants something. */
#define SNIC_CREDIT_UNLIMITED UINT32_MAX

/** Use the functions only. Eight bytes, aligned as a uint64_t. */
struct snic_credit {
    uint64_t word; /**< total << 32 | inflight, accessed atomically */
};

/** Begin with @p total; 0 counts as 1. No other call may be running. [owner] */
SNIC_API void snic_credit_init(struct snic_credit *c, uint32_t total) SNIC_NONNULL(1);
/**
 * May one more request be sent (C1)? Then it is in flight. [any]
 * @return 1 send it; 0 hold it (also at 2^32 - 1 in flight)
 */
SNIC_API SNIC_NODISCARD int snic_credit_take(struct snic_credit *c) SNIC_NONNULL(1);
/** A request in flight has come home and brought @p granted (C2). Asserts that one was. [any] */
SNIC_API void snic_credit_return(struct snic_credit *c, uint32_t granted) SNIC_NONNULL(1);
/** A request in flight is no more, without a grant (C4). Asserts that one was. [any] */
SNIC_API void snic_credit_cancel(struct snic_credit *c) SNIC_NONNULL(1);
/** How many requests snic_credit_take() would let go now. [any] */
SNIC_API uint32_t snic_credit_room(const struct snic_credit *c) SNIC_NONNULL(1);
/** The newest grant. [any] */
SNIC_API uint32_t snic_credit_total(const struct snic_credit *c) SNIC_NONNULL(1);
/** Requests in flight. [any] */
SNIC_API uint32_t snic_credit_inflight(const struct snic_credit *c) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_CREDIT_H */
