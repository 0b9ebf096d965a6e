/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The page server's engine on files in memory whose pages rot or refuse writes. A damaged page
 * answers WIRE_DAMAGED, now and after a restart, never an older version; other pages' updates
 * continue, however often the log is written over; an update of the whole page mends it.
 */
#include "engine.h"
#include "page.h"
#include "support.h"

#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 240u /* more than DAMAGE_MAX */
#define PAGE_BYTES 4096u
#define BODY (PAGE_BYTES - PAGE_HEADER)
#define LOG_BYTES (64u << 10)
#define TURNS 40u /* updates of a whole page each: the log is written over several times */
#define NONE 0xffffu

struct bed {
    struct snic_world *world;
    struct snic_loop *loop;
    struct store store;
    struct engine *engine;
    unsigned char *files[STORE_FILES];
    uint64_t sizes[STORE_FILES];
    struct store_req *queue[256];
    unsigned queued;
    struct snic_loop_msg msg;
    int waiting;
    uint8_t refuse[PAGES]; /* writes of this page */
    uint8_t unreadable[PAGES];
    int hold; /* writes of pages but page 1 */
    struct store_req *held[8];
    unsigned held_count;
    int refuse_shape;
    /* the newest reply */
    struct wire_reply reply;
    unsigned char data[PAGE_BYTES];
    int answered;
    uint64_t lsn; /* the newest used */
    uint64_t page_lsn[PAGES];
    unsigned errors_logged;
};

static struct bed bed;
static uint64_t log_bytes = LOG_BYTES;

/* ---- What the engine takes from common.c and store.c ---- */

void ex_log(enum ex_level level, const char *format, ...)
{
    (void)format;
    bed.errors_logged += level == EX_ERROR;
}

void ex_die(const char *format, ...)
{
    va_list a;

    va_start(a, format);
    (void)vfprintf(stderr, format, a);
    va_end(a);
    abort();
}

static void store_run_done(struct store_req *r)
{
    r->done = NULL;
}

int64_t store_run(struct store *s, struct store_req *r)
{
    r->done = store_run_done;
    s->submit(s, r);
    while (r->done != NULL)
        assert_true(snic_loop_once(s->loop, SNIC_NEVER) >= 0);
    return r->result;
}

/* ---- Files in memory ---- */

static int64_t bed_apply(struct bed *t, struct store_req *r)
{
    uint64_t page = r->offset / PAGE_BYTES / 2;

    assert_true(r->offset + r->size <= t->sizes[r->file]);
    if (r->write && ((r->file == STORE_PAGES && t->refuse[page]) ||
                     (r->file == STORE_SHAPE && t->refuse_shape)))
        return SNIC_EIO;
    for (uint64_t i = page;
         !r->write && r->file == STORE_PAGES && i <= (r->offset + r->size - 1) / PAGE_BYTES / 2;
         i++)
        if (t->unreadable[i])
            return SNIC_EIO;
    if (r->write)
        memcpy(t->files[r->file] + r->offset, r->data, r->size);
    else
        memcpy(r->data, t->files[r->file] + r->offset, r->size);
    return r->size;
}

static void bed_step(struct snic_loop_msg *m)
{
    struct bed *t = SNIC_CONTAINER(m, struct bed, msg);
    struct store_req *now[SNIC_COUNTOF(t->queue)];
    unsigned n = t->queued;

    t->waiting = 0;
    memcpy(now, t->queue, sizeof(now));
    t->queued = 0;
    for (unsigned i = 0; i < n; i++) {
        if (t->hold && now[i]->write && now[i]->file == STORE_PAGES &&
            now[i]->offset / PAGE_BYTES / 2 != 1) {
            t->held[t->held_count++] = now[i];
            continue;
        }
        now[i]->result = bed_apply(t, now[i]);
        now[i]->done(now[i]);
    }
}

static void bed_submit(struct store *s, struct store_req *r)
{
    struct bed *t = SNIC_CONTAINER(s, struct bed, store);

    assert_true(t->queued < SNIC_COUNTOF(t->queue));
    t->queue[t->queued++] = r;
    if (!t->waiting) {
        t->waiting = 1;
        t->msg.fn = bed_step;
        snic_loop_defer(t->loop, &t->msg);
    }
}

/* ---- The engine ---- */

static int bed_reply(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                     uint32_t count)
{
    struct bed *t = ctx;
    unsigned char all[WIRE_REPLY + PAGE_BYTES];
    size_t size = 0;

    (void)conn;
    (void)seq;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(size + iov[i].size <= sizeof(all));
        memcpy(all + size, iov[i].base, iov[i].size);
        size += iov[i].size;
    }
    assert_int_equal(wire_reply_get(&t->reply, all, size), size);
    memcpy(t->data, all + WIRE_REPLY, size - WIRE_REPLY);
    t->answered = 1;
    return 0;
}

static size_t bed_stat(void *ctx, int of_dpu, char *out, size_t max)
{
    (void)ctx;
    (void)of_dpu;
    (void)out;
    (void)max;
    return 0;
}

static void bed_start(struct bed *t)
{
    struct engine_opts o;

    memset(&o, 0, sizeof(o));
    o.store = &t->store;
    o.limits.pages = PAGES;
    o.limits.page_bytes = PAGE_BYTES;
    o.log_bytes = log_bytes;
    o.buffers = 16;
    o.events.reply = bed_reply;
    o.events.stat = bed_stat;
    o.events.ctx = t;
    assert_int_equal(engine_open(&t->engine, &o), 0);
}

static void bed_spin(struct bed *t)
{
    for (int i = 0; i < 100; i++)
        assert_true(snic_loop_once(t->loop, 1000) >= 0);
}

static void bed_stop(struct bed *t)
{
    bed_spin(t);
    engine_stop(t->engine);
    bed_spin(t);
    engine_close(t->engine);
    t->engine = NULL;
}

static void bed_restart(struct bed *t)
{
    bed_stop(t);
    bed_start(t);
}

static int bed_setup(void **state)
{
    struct bed *t = &bed;
    struct snic_world_opts w = {.opts_size = sizeof(w)};
    const struct wire_limits limits = {.pages = PAGES, .page_bytes = PAGE_BYTES};

    (void)state;
    memset(t, 0, sizeof(*t));
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&t->world, &w), 0);
    assert_int_equal(snic_world_loop(t->world, 0, &t->loop), 0);
    engine_sizes(&limits, log_bytes, t->sizes);
    for (int i = 0; i < STORE_FILES; i++)
        t->files[i] = calloc(1, t->sizes[i]);
    t->store.submit = bed_submit;
    t->store.loop = t->loop;
    bed_start(t);
    return 0;
}

static int bed_teardown(void **state)
{
    (void)state;
    if (bed.engine != NULL)
        bed_stop(&bed);
    log_bytes = LOG_BYTES;
    for (int i = 0; i < STORE_FILES; i++)
        free(bed.files[i]);
    snic_loop_close(bed.loop);
    snic_world_close(bed.world);
    return 0;
}

/* ---- Requests ---- */

/* @return its status; NONE: no answer */
static unsigned bed_send(struct bed *t, struct wire_request *q)
{
    unsigned char message[WIRE_REQUEST + PAGE_BYTES];
    size_t head;

    if (q->op == WIRE_LOG)
        memcpy(message + WIRE_REQUEST, q->data, q->length);
    head = wire_request_put(message, q);
    t->answered = 0;
    engine_message(t->engine, 1, 1, message, head + (q->op == WIRE_LOG ? q->length : 0));
    bed_spin(t);
    return t->answered ? t->reply.status : NONE;
}

/* One more update of @p length bytes at the body's begin. */
static unsigned bed_log(struct bed *t, uint64_t page, uint32_t length)
{
    static unsigned char body[BODY];
    struct wire_request q = {.op = WIRE_LOG, .page = page, .length = length, .data = body};
    unsigned status;

    q.lsn = ++t->lsn;
    q.previous = t->page_lsn[page];
    memset(body, (int)(q.lsn & 0xff), sizeof(body));
    status = bed_send(t, &q);
    if (status == WIRE_OK)
        t->page_lsn[page] = q.lsn;
    return status;
}

/* The newest version that was acknowledged. */
static unsigned bed_get(struct bed *t, uint64_t page)
{
    struct wire_request q = {.op = WIRE_GET, .page = page};
    unsigned status = bed_send(t, &q);

    if (status == WIRE_OK) {
        assert_int_equal(t->reply.lsn, t->page_lsn[page]);
        assert_int_equal(t->data[PAGE_HEADER], t->page_lsn[page] & 0xff);
    }
    return status;
}

/* Write the log over, several times, with updates of page 1. */
static void bed_turn_log(struct bed *t)
{
    for (unsigned i = 0; i < TURNS; i++)
        assert_int_equal(bed_log(t, 1, BODY), WIRE_OK);
    assert_int_equal(bed_get(t, 1), WIRE_OK);
}

/* Change a byte of the @p newest (or else older) copy of a page, at @p at. */
static void bed_rot(struct bed *t, uint64_t page, int newest, uint32_t at)
{
    unsigned char *p[2];
    uint64_t lsn[2] = {0, 0};

    for (unsigned i = 0; i < 2; i++) {
        p[i] = t->files[STORE_PAGES] + page_place(page, PAGE_BYTES, i);
        (void)page_check(p[i], PAGE_BYTES, page, &lsn[i]);
    }
    p[(lsn[1] > lsn[0]) == newest][at] ^= 0x40;
}

/* No copy is damaged: what rotted was written again. */
static void bed_both_copies_good(struct bed *t, uint64_t page)
{
    uint64_t lsn;

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(page_check(t->files[STORE_PAGES] + page_place(page, PAGE_BYTES, i),
                                    PAGE_BYTES, page, &lsn),
                         0);
}

static void bed_damaged_until_mended(struct bed *t, uint64_t page)
{
    struct engine_stats s;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(bed_get(t, page), WIRE_DAMAGED);
        assert_int_equal(bed_log(t, page, 8), WIRE_DAMAGED);
        engine_get_stats(t->engine, &s);
        assert_int_equal(s.damaged, 1);
        bed_turn_log(t);
        bed_restart(t);
    }
    assert_int_equal(bed_log(t, page, BODY), WIRE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bed_get(t, page), WIRE_OK);
        engine_get_stats(t->engine, &s);
        assert_int_equal(s.damaged, 0);
        bed_turn_log(t);
        bed_restart(t);
    }
    assert_int_equal(bed_log(t, page, 8), WIRE_OK);
    assert_int_equal(bed_get(t, page), WIRE_OK);
}

/* ---- Tests ---- */

/* The stored copy rots while the server runs: its updates fill the log, and all others wait. */
static void test_page_engine_rotted_copy_others_go_on(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
    bed_rot(t, 0, 1, 2000);
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    bed_turn_log(t);
    bed_damaged_until_mended(t, 0);
}

/* The device refuses the write of one page: the same. */
static void test_page_engine_write_refused_others_go_on(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    t->refuse[0] = 1;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    bed_turn_log(t);
    t->refuse[0] = 0;
    bed_damaged_until_mended(t, 0);
}

/* The same, and the log waits for that page already. */
static void test_page_engine_write_refused_late_log_goes_on(void **state)
{
    struct bed *t = &bed;
    unsigned status = WIRE_OK;

    (void)state;
    t->hold = 1;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    for (unsigned i = 0; i < TURNS && status == WIRE_OK; i++)
        status = bed_log(t, 1, BODY);
    assert_int_equal(status, NONE);
    t->hold = 0;
    t->refuse[0] = 1;
    bed_submit(&t->store, t->held[0]);
    bed_spin(t);
    assert_true(t->answered);
    assert_int_equal(t->reply.status, WIRE_OK);
    t->page_lsn[1] = t->lsn;
    t->refuse[0] = 0;
    bed_damaged_until_mended(t, 0);
}

/* Until the log needs the space, a restart still has the updates. */
static void test_page_engine_write_refused_once_restart_recovers(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    t->refuse[0] = 1;
    assert_int_equal(bed_log(t, 0, 200), WIRE_OK);
    assert_int_equal(bed_get(t, 0), WIRE_DAMAGED);
    t->refuse[0] = 0;
    bed_restart(t);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
    bed_turn_log(t);
    bed_restart(t);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
}

/* The newest copy rots, and the log has no more what the older one lacks: the older is served. */
static void test_page_engine_newest_copy_rotted_never_older(void **state)
{
    static const uint32_t at[] = {2000, 0, 17}; /* body, magic, LSN */
    struct bed *t = &bed;

    (void)state;
    for (unsigned i = 0; i < SNIC_COUNTOF(at); i++) {
        uint64_t page = 2 + i;

        assert_int_equal(bed_log(t, page, 100), WIRE_OK);
        assert_int_equal(bed_log(t, page, 100), WIRE_OK);
        bed_turn_log(t);
        bed_stop(t);
        bed_rot(t, page, 1, at[i]);
        bed_start(t);
        bed_damaged_until_mended(t, page);
    }
}

/* As before, and the log has a later update: it is put into the older copy. */
static void test_page_engine_gap_behind_older_copy_damaged(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    bed_turn_log(t);
    t->refuse[0] = 1;
    assert_int_equal(bed_log(t, 0, 8), WIRE_OK); /* in the log only */
    bed_stop(t);
    t->refuse[0] = 0;
    bed_rot(t, 0, 1, 2000);
    bed_start(t);
    bed_damaged_until_mended(t, 0);
}

/* Both copies rot. */
static void test_page_engine_both_copies_rotted_damaged(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    bed_turn_log(t);
    bed_stop(t);
    bed_rot(t, 0, 1, 0);
    bed_rot(t, 0, 1, 0);
    bed_start(t);
    bed_damaged_until_mended(t, 0);
}

/* What can be right is damaged: a rotted older copy, or one that the log makes good. */
static void test_page_engine_rot_without_loss_served(void **state)
{
    struct bed *t = &bed;
    struct engine_stats s;

    (void)state;
    for (uint64_t page = 2; page < 5; page++) {
        assert_int_equal(bed_log(t, page, 100), WIRE_OK);
        assert_int_equal(bed_log(t, page, 100), WIRE_OK);
        if (page == 2)
            bed_turn_log(t);
        bed_stop(t);
        bed_rot(t, page, page != 2, 2000);
        if (page == 4)
            bed_rot(t, page, 1, 3000); /* of the older copy, now the newest */
        bed_start(t);
        assert_int_equal(bed_get(t, page), WIRE_OK);
        bed_both_copies_good(t, page);
    }
    bed_turn_log(t);
    bed_restart(t);
    for (uint64_t page = 2; page < 5; page++)
        assert_int_equal(bed_get(t, page), WIRE_OK);
    engine_get_stats(t->engine, &s);
    assert_int_equal(s.damaged, 0);
}

static void bed_start_body(void *ctx)
{
    bed_start(ctx);
}

/* A block in the middle of the log rots: the updates behind it are lost without a word. */
static void test_page_engine_log_block_rotted_start_refused(void **state)
{
    struct bed *t = &bed;
    unsigned status = WIRE_OK;

    (void)state;
    t->hold = 1;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    for (unsigned i = 0; i < TURNS && status == WIRE_OK; i++)
        status = bed_log(t, 1, BODY);
    assert_int_equal(status, NONE); /* both halves are full; the first holds page 0's update */
    t->hold = 0;
    t->refuse[0] = 1;
    engine_stop(t->engine);
    bed_submit(&t->store, t->held[0]);
    bed_stop(t);
    t->refuse[0] = 0;
    t->files[STORE_LOG][STORE_ALIGN + 100] ^= 1;
    assert_true(support_aborts(bed_start_body, t));
    t->files[STORE_LOG][STORE_ALIGN + 100] ^= 1;
    bed_start(t);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
}

static int bed_setup_large_log(void **state)
{
    log_bytes = 1u << 20;
    return bed_setup(state);
}

/* All updates before the damaged block are in their pages; those behind it may not be. */
static void test_page_engine_log_middle_rotted_start_refused(void **state)
{
    struct bed *t = &bed;
    unsigned char *log = t->files[STORE_LOG];

    (void)state;
    for (unsigned i = 0; memcmp(log + (512u << 10), "PLOG", 4) != 0; i++) {
        assert_true(i < 200);
        assert_int_equal(bed_log(t, 1, BODY), WIRE_OK);
    }
    bed_stop(t);
    log[320u << 10] ^= 1; /* behind what beginning the half anew can tear */
    assert_memory_equal(log + (320u << 10) + 1, "LOG", 3);
    assert_true(support_aborts(bed_start_body, t));
    log[320u << 10] ^= 1;
    bed_start(t);
    assert_int_equal(bed_get(t, 1), WIRE_OK);
}

/* The older half was being begun anew when the power failed: nothing of it is needed. */
static void test_page_engine_log_half_torn_start_served(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(bed_log(t, 1, BODY), WIRE_OK);
    bed_stop(t);
    t->files[STORE_LOG][STORE_ALIGN + 100] ^= 1;
    bed_start(t);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
    assert_int_equal(bed_get(t, 1), WIRE_OK);
    bed_turn_log(t);
}

/* One place that cannot be read keeps the server from starting. */
static void test_page_engine_unreadable_place_others_served(void **state)
{
    struct bed *t = &bed;

    (void)state;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    bed_turn_log(t);
    bed_stop(t);
    t->unreadable[0] = 1;
    bed_start(t);
    assert_int_equal(bed_get(t, 1), WIRE_OK);
    bed_turn_log(t);
    assert_int_equal(bed_get(t, 0), WIRE_DAMAGED);
    t->unreadable[0] = 0;
}

/* The mark cannot be written, or there are too many: updates wait for ever. */
static void test_page_engine_damage_not_marked_updates_refused(void **state)
{
    struct bed *t = &bed;
    unsigned status = WIRE_OK;

    (void)state;
    assert_int_equal(bed_log(t, 1, 100), WIRE_OK);
    t->refuse[0] = 1;
    t->refuse_shape = 1;
    assert_int_equal(bed_log(t, 0, 100), WIRE_OK);
    for (unsigned i = 0; i < TURNS && status == WIRE_OK; i++)
        status = bed_log(t, 1, BODY);
    assert_int_equal(status, WIRE_FAILED);
    t->refuse[0] = 0;
    t->refuse_shape = 0;
    bed_restart(t); /* the log was kept */
    assert_int_equal(bed_get(t, 0), WIRE_OK);
    bed_turn_log(t);
    status = WIRE_OK;
    for (uint64_t page = 2; page < PAGES && status == WIRE_OK; page++) {
        t->refuse[page] = 1;
        status = bed_log(t, page, BODY);
    }
    for (unsigned i = 0; i < TURNS && status == WIRE_OK; i++)
        status = bed_log(t, 1, BODY);
    assert_int_equal(status, WIRE_FAILED);
    assert_int_equal(bed_get(t, 0), WIRE_OK);
}

int main(int argc, char **argv)
{
#define BED(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
    const struct CMUnitTest tests[] = {
        BED(test_page_engine_rotted_copy_others_go_on),
        BED(test_page_engine_write_refused_others_go_on),
        BED(test_page_engine_write_refused_late_log_goes_on),
        BED(test_page_engine_write_refused_once_restart_recovers),
        BED(test_page_engine_newest_copy_rotted_never_older),
        BED(test_page_engine_gap_behind_older_copy_damaged),
        BED(test_page_engine_both_copies_rotted_damaged),
        BED(test_page_engine_rot_without_loss_served),
        BED(test_page_engine_log_block_rotted_start_refused),
        cmocka_unit_test_setup_teardown(test_page_engine_log_middle_rotted_start_refused,
                                        bed_setup_large_log, bed_teardown),
        BED(test_page_engine_log_half_torn_start_served),
        BED(test_page_engine_unreadable_place_others_served),
        BED(test_page_engine_damage_not_marked_updates_refused),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
