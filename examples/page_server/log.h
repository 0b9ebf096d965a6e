/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/log.h
 * The log of page updates: what arrives while a write is under way shares the next one (group
 * commit). The file has two halves; one is written over when each of its records is in its page.
 */
#ifndef PS_LOG_H
#define PS_LOG_H

#include "store.h"

/** An update. One without bytes only waits for all before it. */
struct log_record {
    struct snic_node node; /**< the log's until durable, then the user's                        */
    uint64_t page;
    uint64_t lsn;
    uint64_t previous;
    uint32_t offset; /**< into the page's body                                                */
    uint32_t length;
    void *user;
    unsigned half;
    unsigned char data[];
};

/** The record, and all before it, survive power loss; or the device failed (@p result < 0). */
typedef void (*log_durable_fn)(void *ctx, struct log_record *r, int64_t result);

struct log {
    struct store *store;
    log_durable_fn durable;
    void (*blocked)(void *ctx);
    void *ctx;
    uint64_t half_bytes;
    uint64_t sequence; /* of the next block */
    unsigned half;     /* the one being written */
    uint64_t at;       /* in it */
    uint64_t unapplied[2];
    int gap; /* recovery: the older half does not reach to the newer */
    unsigned char *buffers[2];
    unsigned filling;
    uint32_t fill; /* bytes in buffers[filling] */
    uint32_t count;
    struct snic_queue waiting; /* records of the block being filled */
    struct snic_queue writing;
    struct store_req req;
    int busy;
    int64_t broken;
    struct snic_loop_msg kick;
    int kicked;
    uint64_t writes;
    uint64_t bytes;
};

/** Called at recovery for each record in the log, oldest first; takes @p r over. */
typedef void (*log_found_fn)(void *ctx, struct log_record *r);

/** What a log calls. */
struct log_events {
    log_found_fn found;
    log_durable_fn durable;
    /** Updates wait because the half that is next holds records that are in no page. */
    void (*blocked)(void *ctx);
    void *ctx;
};

/** Read what the log holds, and append behind it. Runs the loop. @return 0 or SNIC_E* */
int log_open(struct log *l, struct store *store, uint64_t bytes, const struct log_events *ev);
/** What waits is forgotten. Nothing may be under way on the store. */
void log_close(struct log *l);

/** A record with room for @p length bytes. Exits when there is no memory. */
struct log_record *log_record_new(uint32_t length);

/** Take @p r over until durable. @return 0; SNIC_EAGAIN no room now, nothing was taken */
int log_append(struct log *l, struct log_record *r);
/** Write what waits if there is room now; else `blocked` is called once more. */
void log_again(struct log *l);
/** Nothing is written any more: updates that wait, and later ones, fail with @p error. */
void log_break(struct log *l, int error);
/** The page file durably holds @p r, or a damaged page's mark stands for it; it is freed. */
void log_applied(struct log *l, struct log_record *r);

#endif
