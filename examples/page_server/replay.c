/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Updates: from the log into their pages, now and at recovery. */
#include "engine_priv.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_BYTES (1u << 20)

/* ---- Replay ---- */

static void replay_write(struct engine_buffer *b);

/* A replay ended: answer the requests that waited, free the buffer. */
static void replay_end(struct engine_buffer *b)
{
    struct engine *e = b->engine;

    e->pages[b->page].replaying = 0;
    e->active--;
    e->replaying--;
    buffer_put(b);
    e->serve(e);
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

/* P5 */
static void replay_failed(struct engine_buffer *b, const char *why)
{
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    struct snic_node *n;

    while ((n = snic_queue_pop(&p->pending)) != NULL)
        snic_queue_push(&b->replayed, n);
    p->pending = b->replayed;
    memset(&b->replayed, 0, sizeof(b->replayed));
    if (!e->stopped) {
        ex_log(EX_ERROR,
               "page %llu is damaged: cannot replay the log into it: %s; its updates stay in the "
               "log until it needs their space",
               (unsigned long long)b->page, why);
        damage_set(e, p);
    }
    while ((n = snic_queue_pop(&p->waiters)) != NULL)
        request_answer(SNIC_CONTAINER(n, struct engine_request, node), WIRE_DAMAGED);
    replay_end(b);
    if (!e->stopped)
        log_again(&e->log); /* it may wait for this page alone */
}

static void replay_applied(struct engine_buffer *b)
{
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    struct snic_node *n;

    if (b->lsn == p->applied) /* only the place that was damaged is written */
        return;
    p->place ^= 1;
    p->applied = b->lsn;
    e->stats.replays++;
    if (p->marked)
        damage_unmark(e, p);
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
}

static void replay_written(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];

    if (q->result != (int64_t)e->page_bytes && b->lsn != p->applied) {
        replay_failed(b, q->result < 0 ? snic_strerror((int)q->result) : "short write");
        return;
    }
    replay_applied(b);
    if (!snic_queue_empty(&p->pending) && !e->stopped) {
        replay_write(b); /* the buffer is the page */
        e->serve(e);
    } else {
        replay_end(b);
    }
}

static void replay_submit(struct engine_buffer *b, unsigned place, store_done_fn done)
{
    struct engine *e = b->engine;
    struct store_req *q = &b->io;
    int newest = done == replay_written && b->lsn != e->pages[b->page].applied;

    memset(q, 0, sizeof(*q));
    q->write = 1;
    q->sync = 1;
    q->file = STORE_PAGES;
    q->offset = page_place(b->page, e->page_bytes, place);
    q->size = e->page_bytes;
    q->data = b->data;
    if (newest) { /* zeros are no tag */
        snic_put_le64(&q->tag[0], b->page + 1);
        snic_put_le64(&q->tag[1], b->lsn);
    }
    q->done = done;
    e->o.store->submit(e->o.store, q);
}

/* A mended page has the same version in both places: else a later start would find the one that is
   damaged, and not know that it is the older. A failure costs no more than that. */
static void replay_healed(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine_page *p = &b->engine->pages[b->page];

    p->heal = 0;
    if (b->engine->stopped)
        replay_failed(b, "the server ends");
    else
        replay_submit(b, p->place ^ 1u, replay_written);
}

/* The buffer is the page as applied: change it, and write it to the other place. */
static void replay_write(struct engine_buffer *b)
{
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    struct snic_node *n;

    while ((n = snic_queue_pop(&p->pending)) != NULL) {
        struct log_record *r = SNIC_CONTAINER(n, struct log_record, node);

        memcpy(b->data + PAGE_HEADER + r->offset, r->data, r->length);
        b->lsn = r->lsn;
        snic_queue_push(&b->replayed, n);
    }
    page_seal(b->data, e->page_bytes, b->page, b->lsn);
    if (p->heal)
        replay_submit(b, p->place, replay_healed);
    else
        replay_submit(b, p->place ^ 1u, replay_written);
}

int replay_is_whole(const struct engine *e, uint32_t offset, uint32_t length)
{
    return offset == 0 && length == e->page_bytes - PAGE_HEADER;
}

/* Is what is pending all that the page will be? Then its stored copy is not read. */
static int replay_has_whole(const struct engine *e, const struct engine_page *p)
{
    for (const struct snic_node *n = p->pending.first; n != NULL; n = n->next) {
        const struct log_record *r = SNIC_CONTAINER(n, const struct log_record, node);

        if (replay_is_whole(e, r->offset, r->length))
            return 1;
    }
    return 0;
}

static void replay_read(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[b->page];
    const char *why = NULL;
    uint64_t lsn = 0;

    if (q->result != (int64_t)e->page_bytes)
        why = q->result < 0 ? snic_strerror((int)q->result) : "short read";
    else if (page_check(b->data, e->page_bytes, b->page, &lsn) != 0 || lsn != p->applied)
        why = "checksum mismatch";
    if (e->stopped) {
        replay_end(b);
    } else if (why == NULL) {
        replay_write(b);
    } else if (replay_has_whole(e, p)) {
        p->heal = 1;
        memset(b->data, 0, e->page_bytes);
        replay_write(b);
    } else {
        replay_failed(b, why);
    }
}

void replay_start(struct engine *e, struct engine_page *p, struct engine_buffer *b)
{
    b->page = (uint64_t)(p - e->pages);
    b->request = NULL;
    e->replaying++;
    b->lsn = p->applied;
    memset(&b->replayed, 0, sizeof(b->replayed));
    if (p->applied == 0 || (p->heal && replay_has_whole(e, p))) {
        memset(b->data, 0, e->page_bytes);
        replay_write(b);
    } else {
        buffer_submit(b, 0, page_place(b->page, e->page_bytes, p->place), e->page_bytes,
                      replay_read);
    }
}

/* P4 */
static void replay_ready(struct engine *e, struct engine_page *p)
{
    p->replaying = 1;
    e->active++;
    snic_queue_push(&e->ready, &p->node);
}

static void replay_pend(struct engine *e, struct log_record *r)
{
    struct engine_page *p = &e->pages[r->page];

    p->durable = r->lsn;
    snic_queue_push(&p->pending, &r->node);
    if (p->damaged && replay_is_whole(e, r->offset, r->length))
        damage_clear(e, p);
    if (p->damaged)
        damage_keep(e, p);
    else if (!p->replaying && !e->recovering)
        replay_ready(e, p);
}

/* An update did not become durable: fail the requests that wait for it. */
static void replay_refuse(struct engine_page *p)
{
    struct snic_queue q = p->waiters;
    struct snic_node *n;

    memset(&p->waiters, 0, sizeof(p->waiters));
    while ((n = snic_queue_pop(&q)) != NULL) {
        struct engine_request *r = SNIC_CONTAINER(n, struct engine_request, node);

        if (r->target > p->durable)
            request_answer(r, WIRE_FAILED);
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
        request_answer(request, result != 0 ? WIRE_FAILED : WIRE_OK);
        return;
    }
    if (r->lsn > e->version)
        e->version = r->lsn;
    request->stage = STAGE_INVALIDATE;
    request->reply.lsn = r->lsn;
    request_answer(request, WIRE_OK); /* P2 */
    replay_pend(e, r);
    e->serve(e);
}

/* ---- Recovery ---- */

/*
 * The log is the end of all updates: where it has the update that a copy bears, or one before, it
 * has all later ones. So what a page lacks shows in two ways: its first update in the log is
 * not the next one of its newest copy (`previous`), or the log has none, and a place is damaged
 * that may have held a newer version. Such a page is damaged; an older version is never served.
 */
void replay_found(void *ctx, struct log_record *r)
{
    struct engine *e = ctx;
    struct engine_page *p = e->pages;

    if (e->o.limits.remote || r->page >= e->o.limits.pages ||
        r->offset > e->page_bytes - PAGE_HEADER ||
        r->length > e->page_bytes - PAGE_HEADER - r->offset) {
        log_applied(&e->log, r); /* of a server with other sizes */
        return;
    }
    p += r->page;
    if (r->lsn <= p->logged) {
        if (p->lost)
            p->lost = DAMAGE_COVERED;
        log_applied(&e->log, r); /* in its page already */
        return;
    }
    if (!p->damaged && r->previous != p->logged && !replay_is_whole(e, r->offset, r->length)) {
        ex_log(EX_ERROR,
               "page %llu is damaged: its newest copy has LSN %llu, and what the log has begins "
               "behind LSN %llu",
               (unsigned long long)r->page, (unsigned long long)p->logged,
               (unsigned long long)r->previous);
        damage_set(e, p);
    }
    p->lost = 0;
    p->logged = r->lsn;
    if (r->lsn > e->version)
        e->version = r->lsn;
    replay_pend(e, r);
}

static void replay_judge(struct engine *e, struct engine_page *p)
{
    if (p->lost > (e->log.gap ? 0 : DAMAGE_COVERED) && !p->damaged) {
        ex_log(EX_ERROR,
               "page %llu is damaged: a copy of it has a wrong checksum and may have been newer "
               "than LSN %llu; an update of the whole page mends it",
               (unsigned long long)(p - e->pages), (unsigned long long)p->applied);
        damage_set(e, p);
    }
    if (p->damaged)
        return;
    if ((p->bad >> p->place & 1) != 0)
        p->heal = 1;
    if (!snic_queue_empty(&p->pending) || (p->bad != 0 && p->applied != 0))
        replay_ready(e, p);
}

void replay_recovered(struct engine *e)
{
    uint64_t pages = e->o.limits.remote ? 0 : e->o.limits.pages;

    e->recovering = 0;
    for (uint64_t i = 0; i < pages; i++)
        replay_judge(e, &e->pages[i]);
    if (e->stats.damaged > 0)
        ex_log(EX_ERROR, "%llu pages are damaged: they are not served, all others are",
               (unsigned long long)e->stats.damaged);
}

/* Both places of a page, from the page file. */
static void replay_seen(struct engine *e, uint64_t page, const unsigned char *data)
{
    struct engine_page *p = &e->pages[page];
    uint64_t claims[2];

    for (unsigned i = 0; i < 2; i++) {
        const unsigned char *copy = data + (size_t)i * e->page_bytes;
        uint64_t lsn;

        claims[i] = page_claims(copy, e->page_bytes, page);
        if (page_check(copy, e->page_bytes, page, &lsn) == 0) {
            if (lsn > p->applied) {
                p->place = (uint8_t)i;
                p->applied = lsn;
            }
        } else if (claims[i] != 0) {
            p->bad |= (uint8_t)(1u << i);
        }
    }
    /* A torn write, or damage later: of the older copy, where its header can be read. */
    for (unsigned i = 0; i < 2; i++)
        if ((p->bad >> i & 1) && claims[i] > p->applied)
            p->lost = DAMAGE_LOST;
    p->durable = p->logged = p->applied;
    if (p->applied > e->version)
        e->version = p->applied;
}

/* Read each place by itself: one that the device cannot read is damaged, the others are not. */
static int replay_scan_each(struct engine *e, struct store_req *q)
{
    const struct store_req all = *q;
    int64_t r = 0;

    q->size = e->page_bytes;
    for (uint32_t at = 0; at < all.size; at += e->page_bytes) {
        q->offset = all.offset + at;
        q->data = all.data + at;
        r = store_run(e->o.store, q);
        if (r == SNIC_EPEERDEAD || r == SNIC_ECANCELED)
            break;
        if (r < 0) {
            ex_log(EX_ERROR, "cannot read a copy of page %llu: %s",
                   (unsigned long long)(q->offset / e->page_bytes / 2), snic_strerror((int)r));
            memset(q->data, 0xff, e->page_bytes);
            r = 0;
        }
    }
    q->data = all.data;
    return r < 0 ? (int)r : 0;
}

int replay_scan(struct engine *e)
{
    uint64_t places = e->o.limits.pages * 2;
    uint64_t step = SCAN_BYTES / e->page_bytes; /* even: a page's places are read together */
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
        if (r < 0 && r != SNIC_EPEERDEAD && r != SNIC_ECANCELED)
            r = replay_scan_each(e, &q);
        for (uint64_t i = 0; r >= 0 && i < n; i += 2)
            replay_seen(e, (at + i) / 2, q.data + i * e->page_bytes);
    }
    free(q.data);
    return r < 0 ? (int)r : 0;
}
