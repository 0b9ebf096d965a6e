/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One engine among hostile peers: a string of operations makes views, client operations,
 * completions in any order, time, and messages whose every field is the input's, with few keys and
 * small numbers so that they meet. After each step the engine is checked, and handles are counted:
 * each comes back once. At the end the node is left out, and everything must have been answered.
 */
#include "snicstore/ddp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HANDLES = 4096, TOKENS = 2048, PENDING = 256, NODES = 4 };

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_ddp *d;
    uint64_t now;
    struct snic_ddp_view view;
    uint32_t handles;
    uint32_t tokens;
    uint32_t pending;
    uint32_t flushes;
    uint8_t live[HANDLES];
    uint8_t open[TOKENS];
    struct snic_ddp_msg append[PENDING];
    uint32_t flush[PENDING];
    struct snic_ddp_msg sent; /* the last message, to be turned against the engine */
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static void fuzz_action(struct fuzz *f, const struct snic_ddp_action *a)
{
    switch (a->type) {
    case SNIC_DDP_SEND:
        must(a->to != 0 && (a->to & ~(f->view.full | f->view.learners)) == 0);
        f->sent = a->msg;
        break;
    case SNIC_DDP_APPEND:
        if ((a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            must(a->msg.value < f->handles && f->live[a->msg.value]);
        if (f->pending < PENDING && (a->flags & SNIC_DDP_DROPS) == 0)
            f->append[f->pending++] = a->msg;
        break;
    case SNIC_DDP_FLUSH:
        if (f->flushes < PENDING)
            f->flush[f->flushes++] = a->id;
        break;
    case SNIC_DDP_DONE:
        must(a->token < f->tokens && f->open[a->token]);
        f->open[a->token] = 0;
        break;
    case SNIC_DDP_RELEASE:
        must(a->msg.value < f->handles && f->live[a->msg.value]);
        f->live[a->msg.value] = 0;
        break;
    default:
        must(a->type <= SNIC_DDP_CHANGED);
    }
}

static int fuzz_event(struct fuzz *f, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddp_step(f->d, f->now, ev);
    while (snic_ddp_poll(f->d, &a) != 0)
        fuzz_action(f, &a);
    must(snic_ddp_check(f->d) == 0);
    return r;
}

static struct snic_ddp_key fuzz_key(uint8_t b)
{
    struct snic_ddp_key k = {{b % 6, 0}};
    return k;
}

static uint64_t fuzz_ts(struct fuzz *f)
{
    uint8_t b = take(f);
    uint64_t version = take(f) % 16;
    if (b == 255)
        version = SNIC_DDP_VERSION_MAX;
    return b == 0 ? 0 : snic_ddp_ts(b / 64, version, b % NODES);
}

static void fuzz_client(struct fuzz *f, uint8_t b)
{
    static const uint32_t types[] = {SNIC_DDP_READ, SNIC_DDP_WRITE,  SNIC_DDP_DELETE, SNIC_DDP_CAS,
                                     SNIC_DDP_SYNC, SNIC_DDP_LOADED, SNIC_DDP_WRITE,  SNIC_DDP_CAS};
    uint8_t k = take(f);
    struct snic_ddp_event ev = {.type = types[b % 8], .key = fuzz_key(k)};
    struct snic_ddp_entry e;
    int value = ev.type == SNIC_DDP_WRITE || ev.type == SNIC_DDP_CAS || ev.type == SNIC_DDP_LOADED;
    if (f->tokens == TOKENS || f->handles == HANDLES)
        return;
    if (ev.type == SNIC_DDP_LOADED || b / 8 % 4 == 1)
        ev.ts = fuzz_ts(f);
    else if (snic_ddp_get(f->d, f->now, &ev.key, &e) == 0)
        ev.ts = e.ts;
    ev.scope = b / 32;
    ev.durability = k / 6 % 8;
    ev.copies_min = k / 48;
    ev.token = f->tokens++;
    f->open[ev.token] = ev.type != SNIC_DDP_LOADED;
    if ((ev.type == SNIC_DDP_CAS || ev.type == SNIC_DDP_LOADED) && b / 8 % 4 == 2) {
        ev.flags = SNIC_DDP_MSG_TOMBSTONE;
        if (ev.type == SNIC_DDP_LOADED && k / 8 % 2)
            ev.flags |= SNIC_DDP_DROPS;
        value = 0;
    }
    if (ev.type == SNIC_DDP_LOADED && k / 16 % 2)
        ev.flags |= SNIC_DDP_REPLACES;
    if (value) {
        ev.value = f->handles++;
        f->live[ev.value] = 1;
    }
    if (fuzz_event(f, &ev) == 0)
        return;
    must(f->open[ev.token] == (ev.type != SNIC_DDP_LOADED));
    f->open[ev.token] = 0;
    if (value) {
        must(f->live[ev.value]);
        f->live[ev.value] = 0;
    }
}

static void fuzz_message(struct fuzz *f, uint8_t b)
{
    struct snic_ddp_msg m = f->sent;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    if (b % 4 != 0) {
        uint8_t c = take(f);
        memset(&m, 0, sizeof(m));
        m.flags = c % 32;
        m.key = fuzz_key(c / 32);
        m.ts = fuzz_ts(f);
        m.index = take(f) % 80;
        m.length = m.index % 20;
        m.scope = m.index / 20;
        m.flags |= (uint8_t)(m.index / 10 << SNIC_DDP_MSG_RULES);
        m.seen[0] = b % 4 == 1 ? fuzz_ts(f) : b % 4 == 2 ? m.scope + 1 : UINT64_MAX;
        m.seen[1] = b % 4 == 1 ? fuzz_ts(f) : 0;
    }
    m.type = take(f) % 24;
    m.src = b / 4 % 5;
    if (b == 252)
        m.src = 16;
    m.dst = b / 32 == 7 ? 1 : 0;
    m.epoch = f->view.epoch;
    m.src_incarnation = m.src < 16 ? f->view.incarnation[m.src] : 0;
    m.dst_incarnation = f->view.incarnation[0];
    int value = (m.type == SNIC_DDP_INV || m.type == SNIC_DDP_NACK || m.type == SNIC_DDP_RECORD) &&
                (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    if (f->handles == HANDLES)
        return;
    m.value = value ? f->handles : 0;
    if (value)
        f->live[f->handles++] = 1;
    if (fuzz_event(f, &ev) != 0 && value) {
        must(f->live[m.value]);
        f->live[m.value] = 0;
    }
}

/* A node that was left out may return: it hears of its log now, and not of what it requested. */
static void fuzz_return(struct fuzz *f)
{
    struct snic_ddp_stats info;
    snic_ddp_get_stats(f->d, &info);
    if (info.role != SNIC_DDP_FENCED || info.epoch == 0)
        return;
    for (uint32_t i = 0; i < f->pending; i++) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED};
        ev.key = f->append[i].key;
        ev.ts = f->append[i].ts;
        must(fuzz_event(f, &ev) == 0);
    }
    f->pending = f->flushes = 0;
}

static void fuzz_view(struct fuzz *f, uint8_t b)
{
    struct snic_ddp_view v = f->view;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
    uint8_t c = take(f);
    v.epoch += b % 4 == 3 ? 0 : 1;
    v.full = c % 16;
    v.learners = (uint16_t)(c / 16 & ~(b / 64 == 3 ? 0 : v.full));
    v.donor = b / 4 % 4;
    v.restart = b / 16 % 2;
    ev.flags = c % 8 == 7 ? (uint32_t)SNIC_DDP_RETIRED : 0;
    if (b / 32 % 2)
        v.incarnation[b % NODES]++;
    struct snic_ddp_view old = f->view;
    f->view = v;
    fuzz_return(f);
    if (fuzz_event(f, &ev) != 0)
        f->view = old;
}

static void fuzz_complete(struct fuzz *f, uint8_t b)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED};
    if (b % 2 && f->flushes > 0) {
        uint32_t i = b / 2 % f->flushes;
        ev.type = SNIC_DDP_FLUSHED;
        ev.id = f->flush[i];
        f->flush[i] = f->flush[--f->flushes];
    } else if (f->pending > 0) {
        uint32_t i = b / 2 % f->pending;
        ev.key = f->append[i].key;
        ev.ts = f->append[i].ts;
        f->append[i] = f->append[--f->pending];
    } else {
        return;
    }
    must(fuzz_event(f, &ev) == 0);
}

static void fuzz_step(struct fuzz *f)
{
    uint8_t op = take(f);
    uint8_t b = take(f);
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    struct snic_ddp_timer t[8];
    switch (op % 8) {
    case 0:
    case 1:
        fuzz_client(f, b);
        break;
    case 2:
    case 3:
        fuzz_message(f, b);
        break;
    case 4:
        fuzz_complete(f, b);
        break;
    case 5:
        f->now += (uint64_t)b * b * 1000;
        must(fuzz_event(f, &ev) == 0);
        break;
    case 6:
        ev.type = SNIC_DDP_FIRE;
        uint32_t n = snic_ddp_timers(f->d, t, 8);
        ev.id = n == 0 || b == 255 ? b : t[b % (n < 8 ? n : 8)].id;
        (void)fuzz_event(f, &ev);
        break;
    default:
        if (b % 16 == 8) {
            ev.type = SNIC_DDP_SHED;
            (void)fuzz_event(f, &ev);
        } else if (b % 8 == 0) {
            ev.type = SNIC_DDP_LEASE;
            ev.ts = b / 8 % 4 == 0 ? f->now + 1000 : SNIC_NEVER;
            must(fuzz_event(f, &ev) == 0);
        } else {
            fuzz_view(f, b);
        }
    }
}

static void fuzz_end(struct fuzz *f)
{
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &f->view};
    f->view.epoch++;
    f->view.full = 2;
    f->view.learners = 0;
    must(fuzz_event(f, &ev) == 0);
    for (uint32_t i = 0; i < f->tokens; i++)
        must(!f->open[i]);
    while (snic_ddp_next(f->d, &cursor, &e) == 0) {
        if ((e.flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
            continue;
        must(e.value < f->handles && f->live[e.value]);
        f->live[e.value] = 0;
    }
    for (uint32_t i = 0; i < f->handles; i++)
        must(!f->live[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz *f = calloc(1, sizeof(*f));
    must(f != NULL);
    f->in = data;
    f->left = size;
    uint8_t b = take(f);
    struct snic_ddp_opts o = {.opts_size = sizeof(o), .model = 1 + b % 5u, .flags = b / 8 % 4};
    o.keys_max = 4;
    o.writes_max = 4;
    o.waits_max = 3 + b / 64;
    o.reads_max = 2;
    o.scopes_max = 2;
    size_t bytes = snic_ddp_memsize(&o);
    void *mem = aligned_alloc(SNIC_DDP_ALIGN, snic_align_up(bytes, SNIC_DDP_ALIGN));
    must(mem != NULL && snic_ddp_init(&f->d, mem, bytes, &o) == 0);
    if (b / 32 % 2) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &f->view};
        struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
        f->view.epoch = 1;
        f->view.full = 15;
        must(fuzz_event(f, &ev) == 0 && fuzz_event(f, &lease) == 0);
    }
    while (f->left > 0)
        fuzz_step(f);
    fuzz_end(f);
    free(mem);
    free(f);
    return 0;
}
