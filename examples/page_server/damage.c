/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged pages. Their records hold the log (P5); when it needs that space they are marked durably
 * in the description of the pages, and the records are dropped. A mark names the newest LSN that
 * was acknowledged; only an update of the whole page writes a newer version, which ends the mark.
 */
#include "engine_priv.h"

#include "../common.h"

#include <inttypes.h>
#include <string.h>

/* ---- Which pages ---- */

void damage_keep(struct engine *e, struct engine_page *p)
{
    if (p->listed)
        return;
    p->listed = 1;
    snic_queue_push(&e->hurt, &p->damage_node);
}

void damage_set(struct engine *e, struct engine_page *p)
{
    e->stats.damaged += !p->damaged;
    p->damaged = 1;
    if (!snic_queue_empty(&p->pending))
        damage_keep(e, p);
}

void damage_clear(struct engine *e, struct engine_page *p)
{
    p->damaged = 0;
    p->heal = 1;
    e->stats.damaged--;
    e->stats.mended++;
    ex_log(EX_INFO, "page %" PRIu64 " is mended by an update of the whole page",
           (uint64_t)(p - e->pages));
}

/* From the next write of the marks on. */
static void damage_forget(struct engine *e, uint32_t i)
{
    memset(&e->marks[i], 0, sizeof(e->marks[i]));
    e->marks_count--;
}

void damage_recover(struct engine *e)
{
    for (uint32_t i = 0; i < DAMAGE_MAX; i++) {
        const struct damage_mark m = e->marks[i];
        struct engine_page *p = e->pages;

        if (m.lsn == 0)
            continue;
        if (e->o.limits.remote || m.page >= e->o.limits.pages || p[m.page].applied > m.lsn) {
            damage_forget(e, i); /* it is mended */
            continue;
        }
        p += m.page;
        p->marked = 1;
        p->durable = p->logged = m.lsn;
        if (m.lsn > e->version)
            e->version = m.lsn;
        damage_set(e, p);
    }
}

/* ---- Marks ---- */

static void damage_drop(struct engine *e, struct engine_page *p)
{
    struct snic_node *n;

    while ((n = snic_queue_pop(&p->pending)) != NULL) {
        e->stats.dropped++;
        log_applied(&e->log, SNIC_CONTAINER(n, struct log_record, node));
    }
}

/* The page's mark as it has to be. @return 1: it is, durably; 0: to be written; -1: full */
static int damage_mark(struct engine *e, struct engine_page *p)
{
    uint64_t page = (uint64_t)(p - e->pages);
    uint32_t i = 0;

    while (i < DAMAGE_MAX &&
           (p->marked ? e->marks[i].page != page || e->marks[i].lsn == 0 : e->marks[i].lsn != 0))
        i++;
    if (i == DAMAGE_MAX)
        return -1;
    if (e->marks[i].lsn >= p->durable)
        return 1;
    e->marks_count += !p->marked;
    e->marks[i].page = page;
    e->marks[i].lsn = p->durable;
    p->marked = 1;
    return 0;
}

/* The log can get no room: better an error than to wait for ever. */
static void damage_refuse(struct engine *e, int error, const char *why)
{
    if (e->log.broken == 0)
        ex_log(EX_ERROR,
               "cannot mark damaged pages, whose updates fill the log: %s; updates are refused "
               "until the server is restarted",
               why);
    log_break(&e->log, error);
}

static void damage_written(struct store_req *q);

static void damage_write(struct engine *e)
{
    struct store_req *q = &e->marks_io;

    e->marks_dirty = 0;
    e->marks_busy = 1;
    e->active++;
    shape_encode(e, e->marks_block);
    memset(q, 0, sizeof(*q));
    q->write = 1;
    q->sync = 1;
    q->file = STORE_SHAPE;
    q->size = STORE_ALIGN;
    q->data = e->marks_block;
    q->done = damage_written;
    e->o.store->submit(e->o.store, q);
}

/* The page's mark is durable, unless @p result is an error: its records need not be kept. */
static void damage_marked(struct engine *e, struct engine_page *p, int64_t result)
{
    p->listed = 0;
    if (result != STORE_ALIGN || !p->damaged) {
        if (p->damaged)
            damage_keep(e, p);
        return;
    }
    ex_log(EX_ERROR,
           "page %" PRIu64 " is marked as damaged, and its updates are dropped from the log; an "
           "update of the whole page mends it",
           (uint64_t)(p - e->pages));
    damage_drop(e, p);
}

static void damage_written(struct store_req *q)
{
    struct engine *e = SNIC_CONTAINER(q, struct engine, marks_io);
    struct snic_queue pages = e->marking;
    int needed = !snic_queue_empty(&pages);
    struct snic_node *n;

    e->marks_busy = 0;
    e->active--;
    memset(&e->marking, 0, sizeof(e->marking));
    while ((n = snic_queue_pop(&pages)) != NULL)
        damage_marked(e, SNIC_CONTAINER(n, struct engine_page, damage_node), q->result);
    if (e->stopped)
        return;
    if (q->result != STORE_ALIGN && needed) {
        damage_refuse(e, q->result < 0 ? (int)q->result : SNIC_EIO,
                      q->result < 0 ? snic_strerror((int)q->result) : "short write");
        return;
    }
    log_again(&e->log);
    if (e->marks_dirty && !e->marks_busy)
        damage_write(e);
}

/* Does the half that the log needs hold records of the page? Its oldest is the first. */
static int damage_holds(const struct engine *e, const struct engine_page *p)
{
    return SNIC_CONTAINER(p->pending.first, struct log_record, node)->half != e->log.half;
}

void damage_release(void *ctx)
{
    struct engine *e = ctx;
    struct snic_queue pages = e->hurt, drop = {NULL, NULL};
    struct snic_node *n;
    int full = 0;

    if (e->stopped || e->marks_busy || e->log.broken != 0)
        return;
    memset(&e->hurt, 0, sizeof(e->hurt));
    while ((n = snic_queue_pop(&pages)) != NULL) {
        struct engine_page *p = SNIC_CONTAINER(n, struct engine_page, damage_node);
        int r = 0;

        if (!p->damaged || snic_queue_empty(&p->pending))
            p->listed = 0;
        else if (!damage_holds(e, p))
            snic_queue_push(&e->hurt, n);
        else if ((r = damage_mark(e, p)) >= 0)
            snic_queue_push(r > 0 ? &drop : &e->marking, n);
        else
            snic_queue_push(&e->hurt, n);
        full |= r < 0;
    }
    if (!snic_queue_empty(&e->marking))
        damage_write(e);
    else if (full && snic_queue_empty(&drop))
        damage_refuse(e, SNIC_ENOSPC, "there are too many");
    while ((n = snic_queue_pop(&drop)) != NULL) /* the log may come back to this function */
        damage_marked(e, SNIC_CONTAINER(n, struct engine_page, damage_node), STORE_ALIGN);
    if (full && e->log.broken == 0)
        log_again(&e->log);
}

void damage_unmark(struct engine *e, struct engine_page *p)
{
    uint64_t page = (uint64_t)(p - e->pages);

    p->marked = 0;
    for (uint32_t i = 0; i < DAMAGE_MAX; i++)
        if (e->marks[i].lsn != 0 && e->marks[i].page == page)
            damage_forget(e, i);
    e->marks_dirty = 1; /* a mark that stays is older than the page, and so ends by itself */
    if (!e->marks_busy && !e->stopped)
        damage_write(e);
}
