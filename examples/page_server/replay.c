/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Updates: from the log into their pages, now and at recovery. */
#include "engine_priv.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_BYTES (1u << 20)

/* ---- Replay ---- */

static void replay_write(struct engine_buffer *b);

/* A replay ended: answer who waited, free the buffer. */
static void replay_end(struct engine_buffer *b)
{
    struct engine *e = b->engine;

    e->pages[b->page].replaying = 0;
    e->active--;
    e->replaying--;
    engine_buffer_put(b);
    engine_serve(e);
}

/* GETs that this version satisfies; the others wait on. */
static void replay_answer(struct engine_buffer *b)
{
    struct engine_page *p = &b->engine->pages[b->page];
    struct snic_queue q = p->waiters;
    struct snic_node *n;

    memset(&p->waiters, 0, sizeof(p->waiters));
    while ((n = snic_queue_pop(&q)) != NULL) {
        struct engine_request *r = SNIC_CONTAINER(n, struct engine_request, node);

        if (r->target > p->applied)
            snic_queue_push(&p->waiters, n);
        else /* the buffer will not last until there is room for a reply */
            snic_queue_push(&b->engine->starved, n);
    }
}

static void replay_failed(struct engine_buffer *b, const char *why)
{
    struct engine_page *p = &b->engine->pages[b->page];
    struct snic_node *n;

    if (!b->engine->stopped)
        ex_log(EX_ERROR, "cannot replay the log into page %llu: %s", (unsigned long long)b->page,
               why);
    p->damaged = 1; /* its records stay in the log, whose half is not used again */
    while ((n = snic_queue_pop(&b->replayed)) != NULL)
        free(SNIC_CONTAINER(n, struct log_record, node));
    while ((n = snic_queue_pop(&p->waiters)) != NULL)
        engine_answer(SNIC_CONTAINER(n, struct engine_request, node), WIRE_DAMAGED);
    replay_end(b);
}

static void replay_written(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    struct snic_node *n;

    if (q->result != (int64_t)e->page_bytes) {
        replay_failed(b, q->result < 0 ? snic_strerror((int)q->result) : "short write");
        return;
    }
    p->place ^= 1;
    p->applied = b->lsn;
    e->stats.replays++;
    if (e->o.events.cache != NULL && p->applied <= e->floor && p->applied == p->durable) {
        /* Of before this start: the DPU's hook was not allowed to take it. A refusal for want
           of room costs the page's offloading until its next update, nothing else. */
        struct page_item item = {e->o.store->ids[STORE_PAGES],
                                 page_place(b->page, e->page_bytes, p->place)};

        (void)e->o.events.cache(e->o.events.ctx, b->page, &item, p->applied);
    }
    while ((n = snic_queue_pop(&b->replayed)) != NULL) {
        e->stats.replayed++;
        log_applied(&e->log, SNIC_CONTAINER(n, struct log_record, node));
    }
    replay_answer(b);
    if (!snic_queue_empty(&p->pending) && !e->stopped) {
        replay_write(b); /* the buffer is the page */
        engine_serve(e);
    } else {
        replay_end(b);
    }
}

/* The buffer is the page as applied: change it, and write it to the other place. */
static void replay_write(struct engine_buffer *b)
{
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    struct snic_node *n;
    struct store_req *q = &b->io;

    while ((n = snic_queue_pop(&p->pending)) != NULL) {
        struct log_record *r = SNIC_CONTAINER(n, struct log_record, node);

        memcpy(b->data + PAGE_HEADER + r->offset, r->data, r->length);
        b->lsn = r->lsn;
        snic_queue_push(&b->replayed, n);
    }
    page_seal(b->data, e->page_bytes, b->page, b->lsn);
    memset(q, 0, sizeof(*q));
    q->write = 1;
    q->sync = 1;
    q->file = STORE_PAGES;
    q->offset = page_place(b->page, e->page_bytes, p->place ^ 1u);
    q->size = e->page_bytes;
    q->data = b->data;
    snic_put_le64(&q->tag[0], b->page + 1); /* zeros are no tag */
    snic_put_le64(&q->tag[1], b->lsn);
    q->done = replay_written;
    e->o.store->submit(e->o.store, q);
}

static void replay_read(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine *e = b->engine;
    uint64_t lsn = 0;

    if (q->result != (int64_t)e->page_bytes)
        replay_failed(b, q->result < 0 ? snic_strerror((int)q->result) : "short read");
    else if (page_check(b->data, e->page_bytes, b->page, &lsn) != 0 ||
             lsn != e->pages[b->page].applied)
        replay_failed(b, "checksum mismatch");
    else if (e->stopped)
        replay_end(b);
    else
        replay_write(b);
}

void replay_start(struct engine *e, struct engine_page *p, struct engine_buffer *b)
{
    b->page = (uint64_t)(p - e->pages);
    b->request = NULL;
    e->replaying++;
    memset(&b->replayed, 0, sizeof(b->replayed));
    if (p->applied == 0) {
        memset(b->data, 0, e->page_bytes);
        replay_write(b);
    } else {
        engine_submit(b, 0, page_place(b->page, e->page_bytes, p->place), e->page_bytes,
                      replay_read);
    }
}

/* P4 */
static void replay_pend(struct engine *e, struct log_record *r)
{
    struct engine_page *p = &e->pages[r->page];

    p->durable = r->lsn;
    snic_queue_push(&p->pending, &r->node);
    if (!p->replaying && !p->damaged) {
        p->replaying = 1;
        e->active++;
        snic_queue_push(&e->ready, &p->node);
    }
}

/* An update did not become durable: who waits for it waits in vain. */
static void replay_refuse(struct engine_page *p)
{
    struct snic_queue q = p->waiters;
    struct snic_node *n;

    memset(&p->waiters, 0, sizeof(p->waiters));
    while ((n = snic_queue_pop(&q)) != NULL) {
        struct engine_request *r = SNIC_CONTAINER(n, struct engine_request, node);

        if (r->target > p->durable)
            engine_answer(r, WIRE_FAILED);
        else
            snic_queue_push(&p->waiters, n);
    }
}

void replay_durable(void *ctx, struct log_record *r, int64_t result)
{
    struct engine *e = ctx;
    struct engine_request *request = r->user;

    if (result != 0)
        replay_refuse(&e->pages[r->page]);
    if (result != 0 || r->length == 0) {
        free(r);
        engine_answer(request, result != 0 ? WIRE_FAILED : WIRE_OK);
        return;
    }
    if (r->lsn > e->version)
        e->version = r->lsn;
    request->stage = STAGE_INVALIDATE;
    request->reply.lsn = r->lsn;
    engine_answer(request, WIRE_OK); /* P2 */
    replay_pend(e, r);
    engine_serve(e);
}

/* ---- Recovery ---- */

void replay_found(void *ctx, struct log_record *r)
{
    struct engine *e = ctx;
    struct engine_page *p = &e->pages[r->page];

    if (e->o.limits.remote || r->page >= e->o.limits.pages ||
        r->offset > e->page_bytes - PAGE_HEADER ||
        r->length > e->page_bytes - PAGE_HEADER - r->offset || r->lsn <= p->logged) {
        log_applied(&e->log, r); /* in its page already, or of a server with other sizes */
        return;
    }
    p->logged = r->lsn;
    if (r->lsn > e->version)
        e->version = r->lsn;
    replay_pend(e, r);
}

static void replay_seen(struct engine *e, uint64_t page, unsigned place, const unsigned char *data)
{
    struct engine_page *p = &e->pages[page];
    uint64_t lsn;

    if (page_check(data, e->page_bytes, page, &lsn) != 0 || lsn <= p->applied)
        return; /* zeros, a torn write, or the older version */
    p->place = (uint8_t)place;
    p->applied = p->durable = p->logged = lsn;
    if (lsn > e->version)
        e->version = lsn;
}

int replay_scan(struct engine *e)
{
    uint64_t places = e->o.limits.pages * 2;
    uint64_t step = SCAN_BYTES / e->page_bytes;
    struct store_req q;
    int64_t r = 0;

    memset(&q, 0, sizeof(q));
    q.file = STORE_PAGES;
    if (posix_memalign((void **)&q.data, STORE_ALIGN, SCAN_BYTES) != 0)
        ex_die("out of memory for the replay of the log");
    for (uint64_t at = 0; at < places && r >= 0; at += step) {
        uint64_t n = snic_min_u64(step, places - at);

        q.offset = at * e->page_bytes;
        q.size = (uint32_t)(n * e->page_bytes);
        r = store_run(e->o.store, &q);
        for (uint64_t i = 0; r >= 0 && i < n; i++)
            replay_seen(e, (at + i) / 2, (unsigned)((at + i) % 2), q.data + i * e->page_bytes);
    }
    free(q.data);
    return r < 0 ? (int)r : 0;
}
