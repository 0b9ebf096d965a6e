/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests of each phase, and the checks of replies. */
#include "load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UPDATE_TRIES 64

/* ---- Requests ---- */

static int load_next_get(struct load *l, struct load_op *op, uint64_t page)
{
    const struct model_page *p = &l->model.page[page];

    op->op = WIRE_GET;
    op->page = page;
    op->floor = p->acked > p->seen ? p->acked : p->seen;
    switch (snic_rng_below(&l->rng, 3)) {
    case 0: /* perhaps an update that is still on its way */
        op->lsn = p->count > 0 ? p->lsns[p->count - 1] : 0;
        break;
    case 1:
        op->lsn = op->floor;
        break;
    default:
        break;
    }
    return 1;
}

static int load_next_log(struct load *l, struct load_op *op, uint64_t page)
{
    struct model_page *p = &l->model.page[page];

    for (int i = 0; p->busy && i < UPDATE_TRIES; i++) {
        page = snic_rng_below(&l->rng, l->pages);
        p = &l->model.page[page];
    }
    if (p->busy) /* L2 */
        return load_next_get(l, op, page);
    p->busy = 1;
    op->op = WIRE_LOG;
    op->page = page;
    op->lsn = model_update(&l->model, page, &op->previous, &op->offset);
    return 1;
}

/* The next of a phase that takes all pages in order. */
static int load_next_page(struct load *l, uint64_t *page)
{
    if (l->next == l->pages) {
        l->over = 1;
        return 0;
    }
    *page = l->next++;
    return 1;
}

static int load_next_run(struct load *l, struct load_op *op)
{
    uint64_t page;

    if (l->kind == KIND_CHECK || (l->requests != 0 && l->issued == l->requests) ||
        snic_loop_clock(l->loop) >= l->until_ns) {
        l->over = 1;
        return 0;
    }
    if (l->kind != KIND_FILL)
        page = snic_rng_below(&l->rng, l->pages);
    else if (!load_next_page(l, &page))
        return 0;
    l->issued++;
    if (l->remote) {
        op->op = l->kind == KIND_READ ? WIRE_READ : WIRE_WRITE;
        op->page = page * l->page_bytes;
        return 1;
    }
    if (l->kind == KIND_FILL || l->kind == KIND_LOG ||
        (l->kind == KIND_MIXED && snic_rng_below(&l->rng, 100) < l->update_percent))
        return load_next_log(l, op, page);
    return load_next_get(l, op, page);
}

static int load_next_stat(struct load *l, struct load_op *op, uint64_t count)
{
    if (l->next == count) {
        l->over = 1;
        return 0;
    }
    op->op = WIRE_STAT;
    op->flags = (uint8_t)(l->next++ == 0 ? 0 : WIRE_OF_DPU);
    return 1;
}

int load_next(struct load *l, struct load_op *op)
{
    uint64_t page;

    switch (l->phase) {
    case PHASE_HELLO:
        return load_next_stat(l, op, 1);
    case PHASE_BEFORE:
    case PHASE_AFTER:
        return load_next_stat(l, op, 2);
    case PHASE_ADOPT:
    case PHASE_CHECK:
        return load_next_page(l, &page) ? load_next_get(l, op, page) : 0;
    case PHASE_RUN:
        return load_next_run(l, op);
    }
    return 0;
}

/* ---- Replies ---- */

static uint64_t load_value(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void load_take_stat(struct load *l, const struct load_op *op, const struct wire_reply *r,
                           const unsigned char *data)
{
    struct load_stat *s = &(op->flags != 0 ? l->dpu : l->host)[l->phase == PHASE_AFTER];
    char text[1024];
    size_t n = snic_min_u64(r->length, sizeof(text) - 1);

    memcpy(text, data, n);
    text[n] = 0;
    s->pid = load_value(text, "pid=");
    s->cpu_us = load_value(text, "cpu_us=");
    s->messages = load_value(text, "messages=");
    s->offloaded = load_value(text, "offloaded=");
    if (l->phase == PHASE_HELLO) {
        l->pages = load_value(text, "pages=");
        l->page_bytes = (uint32_t)load_value(text, "page_bytes=");
        l->remote = load_value(text, "remote=") != 0;
    }
}

static void load_is_wrong(struct load *l, const struct load_op *op, const struct wire_reply *r,
                          const char *what)
{
    if (l->wrong++ < 5)
        ex_log(EX_ERROR,
               "page %" PRIu64 ": %s (got LSN %" PRIu64 "%s, requested %" PRIu64 ", known %" PRIu64
               ")",
               op->page, what, r->lsn, (r->flags & WIRE_BY_DPU) != 0 ? " by the DPU" : "", op->lsn,
               op->floor);
}

static void load_take_page(struct load *l, const struct load_op *op, const struct wire_reply *r,
                           const unsigned char *data)
{
    struct model_page *p = &l->model.page[op->page];
    const char *what;

    if (r->length != l->page_bytes)
        what = "not a page";
    else if (r->lsn < op->lsn)
        what = "older than requested";
    else if (r->lsn < op->floor)
        what = "older than known at the time of the request";
    else if (l->phase == PHASE_ADOPT)
        what = model_adopt(&l->model, op->page, r->lsn, data);
    else
        what = model_check(&l->model, op->page, r->lsn, data);
    if (what != NULL)
        load_is_wrong(l, op, r, what);
    else if (r->lsn > p->seen)
        p->seen = r->lsn;
}

static void load_take(struct load *l, struct load_op *op, const struct wire_reply *r,
                      const unsigned char *data)
{
    struct model_page *p;

    switch (op->op) {
    case WIRE_GET:
        load_take_page(l, op, r, data);
        l->gets += l->phase == PHASE_RUN;
        l->checked += l->phase == PHASE_CHECK || l->kind == KIND_CHECK;
        break;
    case WIRE_LOG:
        p = &l->model.page[op->page];
        p->busy = 0;
        p->acked = op->lsn;
        l->logs++;
        break;
    case WIRE_READ:
        if (r->length != l->page_bytes ||
            memcmp(data, model_file(&l->model, op->page), l->page_bytes) != 0)
            load_is_wrong(l, op, r, "the bytes are not those of this position");
        l->gets++;
        break;
    case WIRE_WRITE:
        l->logs++;
        break;
    default:
        load_take_stat(l, op, r, data);
        break;
    }
}

int load_reply(struct load *l, struct load_op *op, const struct wire_reply *r,
               const unsigned char *data)
{
    uint64_t now = snic_loop_clock(l->loop);

    if (r->status == WIRE_BUSY || r->status == WIRE_GONE || r->status == WIRE_LOST ||
        (r->status == WIRE_AHEAD && op->lsn > op->floor))
        return 0;
    if (r->status != WIRE_OK) {
        if (l->errors++ < 5)
            ex_log(EX_ERROR, "request for page %" PRIu64 " failed: %s", op->page,
                   wire_status_text(r->status));
    } else {
        load_take(l, op, r, data);
    }
    if (l->phase == PHASE_RUN) {
        snic_hist_record(&l->latency, now - op->sent_ns);
        l->done++;
        l->by_dpu += (r->flags & WIRE_BY_DPU) != 0;
        l->end_ns = now;
    }
    return 1;
}
