/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "walfix.h"

#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define WHY(f, ...)                                                                                \
    do {                                                                                           \
        if ((f)->why[0] == 0)                                                                      \
            (void)snprintf((f)->why, sizeof((f)->why), __VA_ARGS__);                               \
    } while (0)

/* ---- A record's contents ---- */

static uint64_t walfix_mix(uint64_t key, uint64_t ts)
{
    struct snic_rng rng;
    snic_rng_init(&rng, key * 1000003 + ts);
    return snic_rng_next(&rng);
}

static void walfix_record(const struct walfix_model *m, struct snic_wal_record *r, uint64_t key,
                          uint64_t ts, uint32_t tombstone, unsigned char *bytes)
{
    uint64_t x = walfix_mix(key, ts);
    struct snic_rng rng;
    memset(r, 0, sizeof(*r));
    r->key.w[0] = key;
    r->key.w[1] = x;
    r->ts = ts;
    r->scope = x * 3;
    r->epoch = (uint32_t)(ts / 64 + 1);
    r->flags = (uint32_t)(x & 0xff) << 16 | (tombstone ? SNIC_WAL_TOMBSTONE : 0);
    r->length = tombstone ? 0 : (uint32_t)((x >> 8) % (m->length_max + 1));
    if (!tombstone && (x >> 40) % 4 != 0)
        r->length %= 100;
    if (m->long_from != 0 && ts >= m->long_from && !tombstone)
        r->length = m->length_max;
    if (r->length > m->length_max)
        r->length = m->length_max;
    r->bytes = bytes;
    snic_rng_init(&rng, x);
    snic_rng_fill(&rng, bytes, r->length);
}

/* ---- Callbacks ---- */

static void walfix_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct walfix *f = ctx;
    if (f->opened || f->in_call)
        WHY(f, "opened() twice, or from inside a call");
    f->opened = 1;
    f->result = result;
    f->report = *report;
}

static void walfix_found(void *ctx, const struct snic_wal_record *r)
{
    static unsigned char bytes[1u << 20];
    struct walfix *f = ctx;
    struct snic_wal_record want;
    uint64_t key = r->key.w[0];
    if (f->opened || f->in_call)
        WHY(f, "found() after opened(), or from inside a call");
    if (key >= WALFIX_KEYS) {
        WHY(f, "found key %llu", (unsigned long long)key);
        return;
    }
    walfix_record(&f->m, &want, key, r->ts, r->flags & SNIC_WAL_TOMBSTONE, bytes);
    if (r->ts > f->m.ts || r->key.w[1] != want.key.w[1] || r->scope != want.scope ||
        r->epoch != want.epoch || r->flags != want.flags || r->length != want.length ||
        memcmp(r->bytes, bytes, r->length) != 0)
        WHY(f, "key %llu ts %llu: other content", (unsigned long long)key,
            (unsigned long long)r->ts);
    if (r->position <= f->found_last)
        WHY(f, "position %llu after %llu", (unsigned long long)r->position,
            (unsigned long long)f->found_last);
    if (f->seen != NULL && r->position < f->seen_max)
        f->seen[r->position] = 1;
    f->found++;
    f->found_last = r->position;
    if (f->found_first == 0)
        f->found_first = r->position;
    if (r->ts < f->got[key])
        WHY(f, "key %llu: ts %llu behind %llu", (unsigned long long)key, (unsigned long long)r->ts,
            (unsigned long long)f->got[key]);
    if (r->ts >= f->got[key]) {
        f->got[key] = r->ts;
        f->got_tombstone[key] = (r->flags & SNIC_WAL_TOMBSTONE) != 0;
    }
}

static void walfix_durable(void *ctx, uint64_t up_to)
{
    struct walfix *f = ctx;
    if (f->in_call || up_to <= f->m.durable)
        WHY(f, "durable(%llu) after %llu, or from inside a call", (unsigned long long)up_to,
            (unsigned long long)f->m.durable);
    f->m.durable = up_to;
}

static void walfix_room(void *ctx)
{
    struct walfix *f = ctx;
    if (f->in_call)
        WHY(f, "room() from inside a call");
    f->rooms++;
}

static void walfix_failed(void *ctx, int error)
{
    struct walfix *f = ctx;
    if (f->in_call || f->failed != 0)
        WHY(f, "failed() twice, or from inside a call");
    f->failed = error;
}

static void walfix_stored(void *ctx)
{
    struct walfix *f = ctx;
    if (f->in_call)
        WHY(f, "meta_stored() from inside a call");
    f->stored++;
    f->m.meta_floor = f->m.meta_top;
}

static void walfix_accepted(void *ctx)
{
    struct walfix *f = ctx;
    f->accepted = 1;
}

static int walfix_keep(void *ctx, const struct snic_wal_record *r)
{
    struct walfix *f = ctx;
    uint64_t key = r->key.w[0];
    if (f->in_call || key >= WALFIX_KEYS)
        WHY(f, "keep() from inside a call, or of key %llu", (unsigned long long)key);
    if (key >= WALFIX_KEYS)
        return 0;
    return r->ts == f->m.newest[key] && r->ts > f->m.forgotten[key];
}

/* ---- Rig ---- */

void walfix_model_copy(struct walfix_model *to, const struct walfix_model *from)
{
    memcpy(to, from, offsetof(struct walfix_model, entry) + from->count * sizeof(from->entry[0]));
}

void walfix_plug(struct walfix *f)
{
    assert_int_equal(snic_io_mem_open(&f->io, f->loop, f->disk), 0);
}

void walfix_unplug(struct walfix *f)
{
    snic_io_close(f->io);
    f->io = NULL;
}

void walfix_start(struct walfix *f, uint64_t seed)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = seed};
    assert_int_equal(snic_world_open(&f->world, &w), 0);
    assert_int_equal(snic_world_loop(f->world, 0, &f->loop), 0);
    f->disk_opts.opts_size = sizeof(f->disk_opts);
    f->disk_opts.seed = seed;
    f->opts.opts_size = sizeof(f->opts);
    assert_int_equal(snic_disk_open(&f->disk, &f->disk_opts), 0);
    walfix_plug(f);
}

void walfix_end(struct walfix *f)
{
    if (f->wal != NULL)
        walfix_close(f);
    if (f->io != NULL)
        walfix_unplug(f);
    snic_disk_close(f->disk);
    snic_loop_close(f->loop);
    snic_world_close(f->world);
}

void walfix_close(struct walfix *f)
{
    assert_ptr_equal(snic_wal_close(f->wal), f->mem);
    support_guard_free(f->mem);
    f->wal = NULL;
}

void walfix_check(struct walfix *f)
{
    if (f->wal != NULL && snic_wal_check(f->wal) != 0)
        WHY(f, "snic_wal_check()");
}

int walfix_open(struct walfix *f, uint32_t flags)
{
    static const struct snic_wal_events events = {
        .opened = walfix_opened,
        .found = walfix_found,
        .durable = walfix_durable,
        .room = walfix_room,
        .failed = walfix_failed,
        .meta_stored = walfix_stored,
        .accepted = walfix_accepted,
        .keep = walfix_keep,
    };
    size_t size;
    f->opts.flags = flags | (f->opts.flags & (SNIC_WAL_NO_FUA | SNIC_WAL_REPEAT));
    f->opened = 0;
    f->failed = 0;
    f->accepted = 0;
    f->found = 0;
    f->found_first = 0;
    f->found_last = 0;
    memset(f->got, 0, sizeof(f->got));
    memset(f->got_tombstone, 0, sizeof(f->got_tombstone));
    size = snic_wal_memsize(f->io, &f->opts);
    assert_true(size > 0);
    f->mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    f->in_call = 1;
    assert_int_equal(snic_wal_open(&f->wal, f->mem, size, f->io, &f->opts, &events, f), 0);
    f->in_call = 0;
    while (!f->opened) {
        assert_true(snic_loop_once(f->loop, SNIC_NEVER) > 0);
        walfix_check(f);
    }
    if (f->result != 0)
        walfix_close(f);
    return f->result;
}

int walfix_append(struct walfix *f, uint32_t key, uint32_t flags)
{
    static unsigned char bytes[1u << 20];
    struct snic_wal_record r;
    uint64_t position = 0;
    uint64_t ts = f->m.ts + 1;
    int e;
    walfix_record(&f->m, &r, key, ts, flags & SNIC_WAL_TOMBSTONE, bytes);
    r.flags |= flags & (SNIC_WAL_BACKGROUND | SNIC_WAL_LAST_SPACE);
    if (f->m.count == WALFIX_ENTRIES)
        return SNIC_E2BIG;
    f->in_call = 1;
    e = snic_wal_append(f->wal, &r, &position);
    f->in_call = 0;
    memset(bytes, 0xee, r.length); /* it was copied */
    if (e != 0)
        return e;
    struct walfix_entry *n = &f->m.entry[f->m.count++];
    n->ts = ts;
    n->key = key;
    n->position = position;
    n->tombstone = (flags & SNIC_WAL_TOMBSTONE) != 0;
    f->m.ts = ts;
    f->m.newest[key] = ts;
    f->m.tombstone[key] = n->tombstone;
    walfix_check(f);
    return 0;
}

void walfix_settle(struct walfix *f)
{
    f->in_call = 1;
    uint64_t target = snic_wal_flush(f->wal);
    f->in_call = 0;
    while (snic_wal_durable(f->wal) < target && f->failed == 0) {
        assert_true(snic_loop_once(f->loop, SNIC_NEVER) > 0);
        walfix_check(f);
    }
}

void walfix_run(struct walfix *f, uint64_t ns)
{
    uint64_t until = snic_world_now(f->world) + ns;
    while (snic_world_run(f->world, until, 1) > 0)
        walfix_check(f);
}

int walfix_meta(struct walfix *f)
{
    static unsigned char bytes[SNIC_WAL_META_MAX];
    uint64_t version = f->m.meta_top + 1;
    uint32_t length = (uint32_t)(8 + walfix_mix(7, version) % (SNIC_WAL_META_MAX - 7));
    memset(bytes, (int)(version & 0xff), sizeof(bytes));
    snic_put_le64(bytes, version);
    f->in_call = 1;
    int e = snic_wal_meta_put(f->wal, bytes, length);
    f->in_call = 0;
    if (e == 0)
        f->m.meta_top = version;
    return e;
}

/* ---- Judging ---- */

static void walfix_judge_meta(struct walfix *f)
{
    const unsigned char *p = NULL;
    const void *bytes = NULL;
    uint32_t length = 0;
    uint64_t version = 0;
    int e = snic_wal_meta_get(f->wal, &bytes, &length);
    if (e == 0 && length >= 8) {
        p = bytes;
        version = snic_get_le64(p);
        if (length != 8 + walfix_mix(7, version) % (SNIC_WAL_META_MAX - 7))
            WHY(f, "membership file: version %llu of %u bytes", (unsigned long long)version,
                length);
        for (uint32_t i = 8; i < length; i++)
            if (p[i] != (version & 0xff))
                WHY(f, "membership file: other content");
    } else if (e != SNIC_ENOENT) {
        WHY(f, "membership file: %s", snic_strerror(e));
    }
    if (version < f->m.meta_floor || version > f->m.meta_top)
        WHY(f, "membership file: version %llu, stored %llu, put %llu", (unsigned long long)version,
            (unsigned long long)f->m.meta_floor, (unsigned long long)f->m.meta_top);
    f->m.meta_floor = version;
    f->m.meta_top = version;
}

void walfix_judge(struct walfix *f)
{
    struct walfix_model *m = &f->m;
    uint64_t least = snic_max_u64(m->durable, f->found_last);
    uint64_t floor[WALFIX_KEYS] = {0};
    uint64_t top[WALFIX_KEYS] = {0};
    for (uint32_t i = 0; i < m->count; i++) {
        const struct walfix_entry *n = &m->entry[i];
        top[n->key] = n->ts;
        if (n->position <= least)
            floor[n->key] = n->ts;
    }
    for (uint32_t k = 0; k < WALFIX_KEYS; k++) {
        uint64_t got = f->got[k];
        if (got < floor[k] && floor[k] > m->forgotten[k])
            WHY(f, "key %u: ts %llu found, %llu at least (durable %llu, last found %llu)", k,
                (unsigned long long)got, (unsigned long long)floor[k],
                (unsigned long long)m->durable, (unsigned long long)f->found_last);
        if (got > top[k])
            WHY(f, "key %u: ts %llu found, appended %llu", k, (unsigned long long)got,
                (unsigned long long)top[k]);
        /* Either all of a forgotten key is gone or its tombstone is there. */
        if (got != 0 && got < m->forgotten[k] && floor[k] >= m->forgotten[k])
            WHY(f, "key %u came back: ts %llu, forgotten up to %llu", k, (unsigned long long)got,
                (unsigned long long)m->forgotten[k]);
    }
    walfix_judge_meta(f);
    /* The next run. */
    m->count = 0;
    for (uint32_t k = 0; k < WALFIX_KEYS; k++) {
        m->newest[k] = f->got[k];
        m->tombstone[k] = f->got_tombstone[k];
        if (f->got[k] < m->forgotten[k])
            m->forgotten[k] = 0;
        if (f->got[k] == 0)
            continue;
        struct walfix_entry *n = &m->entry[m->count++];
        n->ts = f->got[k];
        n->key = k;
        n->position = 1; /* in front of all to come */
        n->tombstone = f->got_tombstone[k];
    }
    m->durable = f->report.last > 0 ? snic_wal_durable(f->wal) : m->durable;
}

void walfix_accept(struct walfix *f)
{
    f->accepted = 0;
    assert_int_equal(snic_wal_accept_tail(f->wal), 0);
    while (!f->accepted && f->failed == 0) {
        assert_true(snic_loop_once(f->loop, SNIC_NEVER) > 0);
        walfix_check(f);
    }
}

void walfix_next_run(struct walfix *f, int probe)
{
    int e = walfix_open(f, 0);
    if (e != 0)
        fail_msg("open: %s", snic_strerror(e));
    if (f->report.verdict == SNIC_WAL_CORRUPT)
        WHY(f, "CORRUPT: %llu to %llu missing", (unsigned long long)f->report.first_missing,
            (unsigned long long)f->report.last_missing);
    walfix_judge(f);
    if (f->why[0] != 0)
        return;
    if (f->report.verdict == SNIC_WAL_SUSPECT)
        walfix_accept(f);
    if (!probe)
        return;
    e = walfix_append(f, 0, SNIC_WAL_TOMBSTONE);
    if (e == SNIC_EAGAIN) {
        walfix_run(f, 100000000);
        e = walfix_append(f, 0, SNIC_WAL_TOMBSTONE);
    }
    if (e != 0)
        WHY(f, "append afterwards: %s", snic_strerror(e));
    walfix_settle(f);
    walfix_close(f);
    e = walfix_open(f, 0);
    if (e != 0 || f->report.verdict != SNIC_WAL_CLEAN)
        WHY(f, "open afterwards: %s, verdict %u", snic_strerror(e), f->report.verdict);
    else
        walfix_judge(f);
}
