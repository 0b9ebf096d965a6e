/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inside of the page server. One thread, that of the loop.
 *   P1 logged >= durable >= applied of each page; `place` holds `applied`, undamaged. A page is
 *      written to the other place, so what can be read stays what it is until a later replay.
 *   P2 An update becomes durable, then its page is invalidated in the DPU's cache, then it is
 *      acknowledged. Replies and invalidations leave in one order, so behind a reply that shows an
 *      update, no client gets an older page.
 *   P3 A GET is answered with applied >= what was durable when it was received.
 *   P4 A page is in `ready`, or has a buffer and is being replayed, or has nothing pending, or is
 *      damaged.
 *   P5 The records of a damaged page stay pending, and in the log, until the log needs their half
 *      or an update of the whole page mends it. They are dropped only behind a durable mark
 *      (damage.c), so the page stays damaged after a restart.
 */
#ifndef PS_ENGINE_PRIV_H
#define PS_ENGINE_PRIV_H

#include "engine.h"
#include "log.h"

struct engine_request;
struct engine_buffer;

/* Of engine_page.lost: covered where the log is without a gap. */
enum { DAMAGE_COVERED = 1, DAMAGE_LOST = 2 };

struct engine_page {
    uint64_t logged;           /* newest in the log, perhaps not yet durable */
    uint64_t durable;          /* newest that was acknowledged, or may have been */
    uint64_t applied;          /* what the page file holds */
    struct snic_queue pending; /* records to replay */
    struct snic_queue waiters; /* GETs that want more than `applied` */
    struct snic_node node;     /* in engine.ready */
    uint8_t place;             /* of the newest version, P1 */
    uint8_t replaying;
    uint8_t damaged;
    uint8_t listed; /* in engine.hurt or engine.marking */
    uint8_t marked; /* in engine.marks */
    uint8_t heal;   /* write both places: what `place` holds is worth nothing */
    uint8_t bad;    /* recovery: a bit per place that is damaged */
    uint8_t lost;   /* recovery: may a bad place have held the newest version? */
    struct snic_node damage_node;
};

/* Marks that the description of the pages has room for: 31 in each of its sectors but the first. */
#define DAMAGE_MAX 217u

/* A page that is damaged unless it has a version above `lsn`; 0: no mark. */
struct damage_mark {
    uint64_t page;
    uint64_t lsn;
};

enum engine_stage { STAGE_INVALIDATE, STAGE_REPLY };

/* A request of a client from its message to its reply. */
struct engine_request {
    struct snic_node node;
    struct engine *engine;
    uint64_t conn;
    uint64_t seq;
    struct wire_request q;
    uint64_t target; /* GET: the least LSN that will do, P3 */
    enum engine_stage stage;
    struct wire_reply reply;
    const void *data; /* of the reply */
    struct engine_buffer *buffer;
};

/* Room for a page. */
struct engine_buffer {
    struct snic_node node;
    struct engine *engine;
    unsigned char *data;
    struct store_req io;
    struct engine_request *request; /* whose read or write it is, or NULL: of a replay */
    uint64_t page;
    uint64_t applied;           /* of the page when its read began */
    struct snic_queue replayed; /* records that are in the buffer */
    uint64_t lsn;               /* and the newest of them */
};

struct engine {
    struct engine_opts o;
    struct snic_loop *loop;
    struct log log;
    struct engine_page *pages;
    unsigned char *memory; /* of the buffers */
    struct engine_buffer *buffers;
    struct snic_queue free_buffers;
    struct snic_queue starved;  /* requests that wait for a buffer */
    struct snic_queue ready;    /* pages to replay */
    uint32_t replaying;         /* buffers of replays: half of all at most */
    struct snic_queue answered; /* requests that wait for room in the way out */
    struct snic_queue spare;    /* requests to use again */
    uint64_t version;
    uint64_t floor;     /* the cache takes older versions only by events.cache */
    uint64_t fill_page; /* next page that is sent to the cache */
    int filling;
    void (*serve)(struct engine *e);      /* begin what waits for a buffer */
    int recovering;                       /* nothing is replayed before all records are known */
    struct snic_queue hurt;               /* damaged pages whose records hold the log */
    struct snic_queue marking;            /* of these the mark is being written */
    struct damage_mark marks[DAMAGE_MAX]; /* none moves: a torn write of all would lose it */
    uint32_t marks_count;                 /* those that are marks */
    int marks_busy;
    int marks_dirty; /* changed since the write under way began */
    unsigned char *marks_block;
    struct store_req marks_io;
    uint64_t active; /* requests and replays */
    int stopped;
    uint32_t page_bytes;
    char stat[1024];
    struct engine_stats stats;
};

/* request.c */
struct engine_request *request_new(struct engine *e);
/* Answer with r->reply and r->data, now or when there is room; r is gone then. */
void request_answer(struct engine_request *r, enum wire_status status);
/* There is room: send the answers that wait. */
void request_resume(struct engine *e);
struct engine_buffer *buffer_get(struct engine *e);
void buffer_put(struct engine_buffer *b);
/* Read or write buffer @p b. */
void buffer_submit(struct engine_buffer *b, int write, uint64_t offset, uint32_t size,
                   store_done_fn done);

/* shape.c: refuse files that were made with other options; note these ones in new files. Both run
 * the loop. @return 0 or SNIC_E* */
int shape_check(struct engine *e, int *fresh);
int shape_note(struct engine *e);
/* The description as it is to be now, with its marks, into STORE_ALIGN bytes. */
void shape_encode(const struct engine *e, unsigned char *block);

/* damage.c */
/* The page is damaged from now on. */
void damage_set(struct engine *e, struct engine_page *p);
/* Its content is known again: an update of the whole page is durable. */
void damage_clear(struct engine *e, struct engine_page *p);
/* A damaged page has records that the log holds. */
void damage_keep(struct engine *e, struct engine_page *p);
/* It holds a newer version than when it was marked. */
void damage_unmark(struct engine *e, struct engine_page *p);
/* The log needs room: mark damaged pages durably, then drop their records. */
void damage_release(void *ctx);
/* After the look at all pages: those that are marked. */
void damage_recover(struct engine *e);

/* replay.c */
void replay_durable(void *ctx, struct log_record *r, int64_t result);
void replay_found(void *ctx, struct log_record *r);
void replay_start(struct engine *e, struct engine_page *p, struct engine_buffer *b);
/* Look at both places of every page. Runs the loop. @return 0 or SNIC_E* */
int replay_scan(struct engine *e);
/* All records are known: judge the pages, and begin to replay. */
void replay_recovered(struct engine *e);
/* Does the update leave nothing of the version before? */
int replay_is_whole(const struct engine *e, uint32_t offset, uint32_t length);

#endif
