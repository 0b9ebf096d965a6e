/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/engine.h
 * The page server proper: takes requests, logs updates, replays them into pages, reads pages.
 * It uses neither sockets nor rings; requests are passed to engine_message(), and an event sends
 * replies.
 */
#ifndef PS_ENGINE_H
#define PS_ENGINE_H

#include "page.h"
#include "store.h"
#include "wire.h"

struct engine;

/**
 * Where results go. SNIC_EAGAIN from any of them means no room: engine_writable() follows, and
 * they are called again, in the same order.
 */
struct engine_events {
    int (*reply)(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                 uint32_t count);
    /** From now on no older version of the page may be answered; NULL: there is no cache. */
    int (*invalidate)(void *ctx, uint64_t page, uint64_t lsn);
    /** The file holds this version, and none is newer. */
    int (*cache)(void *ctx, uint64_t page, const struct page_item *item, uint64_t lsn);
    /** name=value lines about the role, for STAT. @return bytes */
    size_t (*stat)(void *ctx, int of_dpu, char *out, size_t max);
    void *ctx;
};

struct engine_opts {
    struct store *store; /**< its files open                                                   */
    struct wire_limits limits;
    uint64_t log_bytes;
    uint32_t buffers; /**< pages being read or replayed at once                                */
    struct engine_events events;
};

/** Sizes that the files must have. */
void engine_sizes(const struct wire_limits *limits, uint64_t log_bytes,
                  uint64_t sizes[STORE_FILES]);
/** For store_opts: refuse files that were made with other options than those of @p ctx, a struct
    engine_opts; exits with a line that names the option. @return 0 or SNIC_E* */
int engine_check_files(struct store *s, void *ctx);
/** Recover: look at all pages, read the log. Runs the loop. @return 0 or SNIC_E*, logged */
int engine_open(struct engine **out, const struct engine_opts *o);
/** The largest LSN that anything has. */
uint64_t engine_version(const struct engine *e);
/** Send all pages' entries to the cache; continues by itself. */
void engine_fill_cache(struct engine *e);
/** One whole message; the bytes are borrowed for the call. */
void engine_message(struct engine *e, uint64_t conn, uint64_t seq, const unsigned char *msg,
                    size_t size);
/** There is room again. */
void engine_writable(struct engine *e);
/** Run the loop until nothing is under way. */
void engine_drain(struct engine *e);
/**
 * Give up what is under way: nothing is submitted or answered any more. Runs the loop. Then end
 * the store, so that its requests complete, and call engine_close().
 */
void engine_stop(struct engine *e);
void engine_close(struct engine *e);

struct engine_stats {
    uint64_t gets;
    uint64_t get_waits; /**< for a replay                                                      */
    uint64_t logs;
    uint64_t log_writes;
    uint64_t log_bytes;
    uint64_t replays; /**< pages written                                                       */
    uint64_t replayed;
    uint64_t retries; /**< of reads that a replay overtook                                     */
    uint64_t busy;
    uint64_t errors;
    uint64_t damaged; /**< pages, now                                                          */
    uint64_t mended;  /**< pages, by updates of the whole page                                 */
    uint64_t dropped; /**< updates of damaged pages that the log no longer holds               */
};
void engine_get_stats(const struct engine *e, struct engine_stats *out);

#endif
