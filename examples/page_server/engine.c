/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Messages, reads, and the start and end. What happens to updates is in replay.c. */
#include "engine_priv.h"

#include "../common.h"

#include <stdlib.h>
#include <string.h>

static void engine_serve(struct engine *e);

/* ---- GET ---- */

static void engine_get_read(struct engine_request *r);

static void engine_get_done(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine_request *r = b->request;
    struct engine *e = b->engine;
    struct engine_page *p = &e->pages[r->q.page];
    uint64_t lsn = 0;

    if (q->result == (int64_t)e->page_bytes &&
        page_check(b->data, e->page_bytes, r->q.page, &lsn) == 0 && lsn >= r->target) {
        r->data = b->data;
        r->reply.length = e->page_bytes;
        r->reply.lsn = lsn;
        request_answer(r, WIRE_OK);
    } else if (q->result >= 0 && p->applied != b->applied && !e->stopped) {
        e->stats.retries++; /* two replays later this place is being written again */
        engine_get_read(r);
        return;
    } else {
        ex_log(EX_ERROR, "cannot read page %llu: %s", (unsigned long long)r->q.page,
               q->result < 0 ? snic_strerror((int)q->result) : "checksum mismatch");
        request_answer(r, q->result < 0 ? WIRE_FAILED : WIRE_DAMAGED);
    }
    engine_serve(e);
}

/* The page file holds what this GET wants. It has a buffer. */
static void engine_get_read(struct engine_request *r)
{
    struct engine *e = r->engine;
    struct engine_page *p = &e->pages[r->q.page];
    struct engine_buffer *b = r->buffer;

    b->request = r;
    b->applied = p->applied;
    if (p->applied == 0) { /* never written: zeros */
        memset(b->data, 0, e->page_bytes);
        page_seal(b->data, e->page_bytes, r->q.page, 0);
        b->io.result = e->page_bytes;
        engine_get_done(&b->io);
        return;
    }
    buffer_submit(b, 0, page_place(r->q.page, e->page_bytes, p->place), e->page_bytes,
                  engine_get_done);
}

static void engine_get(struct engine_request *r)
{
    struct engine *e = r->engine;
    struct engine_page *p = &e->pages[r->q.page];

    e->stats.gets++;
    r->target = r->q.lsn > p->durable ? r->q.lsn : p->durable; /* P3 */
    if (p->damaged) { /* before the LSN: what it had may be unknown */
        request_answer(r, WIRE_DAMAGED);
    } else if (r->q.lsn > p->logged) {
        request_answer(r, WIRE_AHEAD);
    } else if (p->applied < r->target) {
        e->stats.get_waits++;
        snic_queue_push(&p->waiters, &r->node);
    } else {
        snic_queue_push(&e->starved, &r->node);
        engine_serve(e);
    }
}

/* ---- LOG ---- */

/* A damaged page takes an update of all of it, and its repetition while it is not durable. */
static int engine_log_mends(const struct engine *e, const struct engine_page *p,
                            const struct wire_request *q)
{
    if (q->lsn == p->logged)
        return p->logged != p->durable;
    return q->lsn > p->logged && replay_is_whole(e, q->offset, q->length);
}

static void engine_log(struct engine_request *r)
{
    struct engine *e = r->engine;
    struct engine_page *p = &e->pages[r->q.page];
    int again = r->q.lsn == p->logged; /* a retry: it is logged, but durable? */
    struct log_record *n;

    if (p->damaged ? !engine_log_mends(e, p, &r->q) : !again && r->q.previous != p->logged) {
        request_answer(r, p->damaged ? WIRE_DAMAGED : WIRE_GAP);
        return;
    }
    n = log_record_new(again ? 0 : r->q.length);
    n->page = r->q.page;
    n->lsn = r->q.lsn;
    n->previous = r->q.previous;
    n->offset = r->q.offset;
    n->user = r;
    memcpy(n->data, r->q.data, n->length);
    if (log_append(&e->log, n) != 0) {
        free(n);
        request_answer(r, WIRE_BUSY);
        return;
    }
    e->stats.logs++;
    p->logged = r->q.lsn;
    r->q.data = NULL;
}

/* ---- Remote files: READ and WRITE ---- */

static void engine_remote_done(struct store_req *q)
{
    struct engine_buffer *b = SNIC_CONTAINER(q, struct engine_buffer, io);
    struct engine_request *r = b->request;
    struct engine *e = b->engine;

    if (r->q.op == WIRE_READ) {
        r->data = b->data;
        r->reply.length = r->q.length;
    }
    request_answer(r, q->result == (int64_t)r->q.length ? WIRE_OK : WIRE_FAILED);
    engine_serve(e);
}

/* A WRITE's bytes are copied at once, so it does not wait for a buffer. */
static void engine_remote(struct engine_request *r)
{
    struct engine *e = r->engine;

    if (r->q.op == WIRE_WRITE) {
        struct engine_buffer *b = buffer_get(e);

        if (b == NULL) {
            request_answer(r, WIRE_BUSY);
            return;
        }
        r->buffer = b;
        b->request = r;
        memcpy(b->data, r->q.data, r->q.length);
        r->q.data = NULL;
        buffer_submit(b, 1, r->q.page, r->q.length, engine_remote_done);
    } else {
        snic_queue_push(&e->starved, &r->node);
        engine_serve(e);
    }
}

/* ---- What waits for a buffer ---- */

static void engine_serve(struct engine *e)
{
    while (!e->stopped && !snic_queue_empty(&e->free_buffers)) {
        struct snic_node *n;

        /* Replays first: the log, and GETs that wait for them, depend on it. Other GETs do not wait
           for all updates that some client has sent. */
        if (e->replaying < e->o.buffers / 2 && (n = snic_queue_pop(&e->ready)) != NULL) {
            struct engine_page *p = SNIC_CONTAINER(n, struct engine_page, node);

            replay_start(e, p, buffer_get(e));
        } else if ((n = snic_queue_pop(&e->starved)) != NULL) {
            struct engine_request *r = SNIC_CONTAINER(n, struct engine_request, node);

            r->buffer = buffer_get(e);
            r->buffer->request = r;
            if (r->q.op == WIRE_READ)
                buffer_submit(r->buffer, 0, r->q.page, r->q.length, engine_remote_done);
            else
                engine_get_read(r);
        } else {
            return;
        }
    }
}

/* ---- Messages ---- */

static void engine_stat(struct engine_request *r)
{
    struct engine *e = r->engine;
    int of_dpu = (r->q.flags & WIRE_OF_DPU) != 0;

    r->reply.length = (uint32_t)e->o.events.stat(e->o.events.ctx, of_dpu, e->stat, sizeof(e->stat));
    r->reply.lsn = e->version;
    r->data = e->stat;
    request_answer(r, WIRE_OK);
}

void engine_message(struct engine *e, uint64_t conn, uint64_t seq, const unsigned char *msg,
                    size_t size)
{
    struct engine_request *r = request_new(e);
    enum wire_status status = wire_request_get(&r->q, msg, size, &e->o.limits);

    r->conn = conn;
    r->seq = seq;
    r->stage = STAGE_REPLY;
    if (status != WIRE_OK) {
        request_answer(r, status);
        return;
    }
    switch (r->q.op) {
    case WIRE_GET:
        engine_get(r);
        break;
    case WIRE_LOG:
        engine_log(r);
        break;
    case WIRE_READ:
    case WIRE_WRITE:
        engine_remote(r);
        break;
    default:
        engine_stat(r);
        break;
    }
}

/* ---- The DPU's cache after a start ---- */

/* Send page @p i to the cache if its version is certain. In remote-file mode: which file it is. */
static int engine_fill_entry(struct engine *e, uint64_t i)
{
    struct page_item item = {e->o.store->ids[STORE_PAGES], 0};

    if (e->o.limits.remote)
        return e->o.events.cache(e->o.events.ctx, i, &item, 1);
    /* The log may have a newer version, acknowledged before the start: its replay sends it. */
    if (e->pages[i].applied == 0 || e->pages[i].applied != e->pages[i].durable ||
        e->pages[i].damaged)
        return 0;
    item.offset = page_place(i, e->page_bytes, e->pages[i].place);
    return e->o.events.cache(e->o.events.ctx, i, &item, e->pages[i].applied);
}

static void engine_fill_step(struct engine *e)
{
    uint64_t end = e->o.limits.remote ? 1 : e->o.limits.pages;

    while (e->filling) {
        if (e->fill_page == end)
            e->filling = 0;
        else if (engine_fill_entry(e, e->fill_page) == SNIC_EAGAIN)
            return; /* engine_writable() comes */
        else
            e->fill_page++;
    }
}

void engine_fill_cache(struct engine *e)
{
    if (e->o.events.cache == NULL)
        return;
    e->floor = e->version;
    e->filling = 1;
    engine_fill_step(e);
}

void engine_writable(struct engine *e)
{
    request_resume(e);
    if (!snic_queue_empty(&e->answered))
        return;
    engine_serve(e);
    engine_fill_step(e);
}

/* ---- Open, close ---- */

void engine_sizes(const struct wire_limits *limits, uint64_t log_bytes, uint64_t sizes[STORE_FILES])
{
    sizes[STORE_PAGES] = limits->pages * limits->page_bytes * (limits->remote ? 1 : 2);
    sizes[STORE_LOG] = log_bytes;
    sizes[STORE_SHAPE] = STORE_ALIGN;
}

uint64_t engine_version(const struct engine *e)
{
    return e->version;
}

static void engine_allocate(struct engine *e)
{
    size_t each = snic_align_up(e->page_bytes, STORE_ALIGN);

    e->pages = calloc(e->o.limits.remote ? 1 : (size_t)e->o.limits.pages, sizeof(*e->pages));
    e->buffers = calloc(e->o.buffers, sizeof(*e->buffers));
    if (e->pages == NULL || e->buffers == NULL ||
        posix_memalign((void **)&e->memory, STORE_ALIGN, each * e->o.buffers) != 0 ||
        posix_memalign((void **)&e->marks_block, STORE_ALIGN, STORE_ALIGN) != 0)
        ex_die("out of memory for the engine");
    for (uint32_t i = 0; i < e->o.buffers; i++) {
        e->buffers[i].engine = e;
        e->buffers[i].data = e->memory + i * each;
        buffer_put(&e->buffers[i]);
    }
}

int engine_check_files(struct store *s, void *ctx)
{
    const struct engine_opts *o = ctx;
    struct engine e = {.o = *o, .loop = s->loop, .page_bytes = o->limits.page_bytes};
    int fresh;

    return shape_check(&e, &fresh);
}

int engine_open(struct engine **out, const struct engine_opts *o)
{
    struct engine *e = calloc(1, sizeof(*e));
    const struct log_events ev = {replay_found, replay_durable, damage_release, e};
    int fresh = 0;
    int r;

    if (e == NULL)
        ex_die("out of memory for the pages' table (--pages)");
    e->o = *o;
    e->loop = o->store->loop;
    e->page_bytes = o->limits.page_bytes;
    e->serve = engine_serve;
    engine_allocate(e);
    r = shape_check(e, &fresh);
    if (r == 0 && !o->limits.remote)
        r = replay_scan(e);
    damage_recover(e);
    e->recovering = 1;
    if (r == 0)
        r = log_open(&e->log, o->store, o->log_bytes, &ev);
    if (r == 0 && fresh)
        r = shape_note(e);
    if (r != 0) {
        ex_log(EX_ERROR, "cannot recover the pages from the log: %s", snic_strerror(r));
        engine_stop(e);
        engine_close(e);
        return r;
    }
    replay_recovered(e);
    engine_serve(e);
    *out = e;
    return 0;
}

void engine_drain(struct engine *e)
{
    while (e->active > 0 || e->log.kicked)
        if (snic_loop_once(e->loop, SNIC_NEVER) < 0)
            return;
}

void engine_stop(struct engine *e)
{
    e->stopped = 1;
    e->log.broken = SNIC_ECANCELED;
    log_again(&e->log); /* what waits for room in the log ends */
    while (e->log.kicked)
        if (snic_loop_once(e->loop, 0) < 0)
            return;
}

/* Requests that still wait somewhere. */
static void engine_forget(struct snic_queue *q)
{
    struct snic_node *n;

    while ((n = snic_queue_pop(q)) != NULL)
        free(SNIC_CONTAINER(n, struct engine_request, node));
}

void engine_close(struct engine *e)
{
    uint64_t pages = e->o.limits.remote ? 1 : e->o.limits.pages;

    for (uint64_t i = 0; i < pages; i++) {
        struct snic_node *n;

        engine_forget(&e->pages[i].waiters);
        while ((n = snic_queue_pop(&e->pages[i].pending)) != NULL)
            free(SNIC_CONTAINER(n, struct log_record, node));
    }
    engine_forget(&e->starved);
    engine_forget(&e->answered);
    engine_forget(&e->spare);
    log_close(&e->log);
    free(e->pages);
    free(e->buffers);
    free(e->memory);
    free(e->marks_block);
    free(e);
}

void engine_get_stats(const struct engine *e, struct engine_stats *out)
{
    *out = e->stats;
    out->log_writes = e->log.writes;
    out->log_bytes = e->log.bytes;
}
