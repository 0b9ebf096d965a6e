/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Real threads: hosts that read, write, fill, drop and fsync, and the engine in a thread of its
 * own, beside a shadow copy: the newest version of each page. Every page read must be whole and not
 * older than the shadow before the read. ThreadSanitizer runs this.
 */
#include "test_hcache_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LPNS = 24, HOSTS = 3 };

static struct {
    unsigned char *mem;
    size_t size;
    struct snic_hcache_info info;
    _Atomic uint64_t shadow[LPNS];
    pthread_mutex_t lock; /* of the store and of the requests */
    uint64_t store[LPNS];
    struct snic_hcache_event events[64];
    uint32_t event_count;
    _Atomic uint64_t answered[HOSTS];
    _Atomic int finished;
    _Atomic int failed;
    uint64_t rounds;
    uint64_t flushes, hits;
} s;

static void broken(int line)
{
    int none = 0;

    (void)atomic_compare_exchange_strong(&s.failed, &none, line);
}

static void send(uint32_t kind, uint64_t id, uint64_t lpn)
{
    pthread_mutex_lock(&s.lock);
    if (s.event_count < 64) {
        struct snic_hcache_event *ev = &s.events[s.event_count++];

        memset(ev, 0, sizeof(*ev));
        ev->kind = kind;
        ev->id = id;
        ev->ino = 1;
        ev->lpn = lpn;
        ev->count = 1;
    } else if (kind == SNIC_HCACHE_EV_FSYNC) {
        atomic_store(&s.answered[id >> 32], id); /* no room: as if it had not been requested */
    }
    pthread_mutex_unlock(&s.lock);
}

static uint64_t stored(uint64_t lpn)
{
    uint64_t v;

    pthread_mutex_lock(&s.lock);
    v = s.store[lpn];
    pthread_mutex_unlock(&s.lock);
    return v;
}

static void do_read(struct snic_hcache_host *h, uint64_t lpn)
{
    uint64_t least = atomic_load(&s.shadow[lpn]);
    struct snic_hcache_page page;
    int r = snic_hcache_get(h, 1, lpn, &page);

    if (r == 0) {
        uint64_t v = hw_version(page.data, s.info.page_bytes, 1, lpn);

        if (v == UINT64_MAX || v < least)
            broken(__LINE__);
        if (snic_hcache_put(h, &page) != 0)
            broken(__LINE__);
        if ((page.flags & SNIC_HCACHE_AHEAD) != 0)
            send(SNIC_HCACHE_EV_AHEAD, 0, lpn);
        return;
    }
    if (r != SNIC_ENOENT)
        return;
    send(SNIC_HCACHE_EV_MISS, 0, lpn);
    if (snic_hcache_lock(h, 1, lpn, SNIC_HCACHE_FILL, &page) != 0)
        return;
    least = stored(lpn);
    if (least != atomic_load(&s.shadow[lpn]))
        broken(__LINE__); /* locked and not cached: the store has the newest */
    hw_fill(page.data, s.info.page_bytes, 1, lpn, least);
    if (snic_hcache_unlock(h, &page, SNIC_HCACHE_UNLOCK_FILLED) != 0)
        broken(__LINE__);
}

static void do_write(struct snic_hcache_host *h, uint64_t lpn, uint64_t *own)
{
    struct snic_hcache_page page;
    int r = snic_hcache_lock(h, 1, lpn, 0, &page);
    uint64_t v;

    if (r == SNIC_EAGAIN)
        send(SNIC_HCACHE_EV_KICK, 0, 0);
    if (r != 0)
        return;
    v = atomic_load(&s.shadow[lpn]);
    if ((page.flags & SNIC_HCACHE_NEW) == 0 &&
        hw_version(page.data, s.info.page_bytes, 1, lpn) != v)
        broken(__LINE__);
    hw_fill(page.data, s.info.page_bytes, 1, lpn, v + 1);
    atomic_store(&s.shadow[lpn], v + 1); /* no other thread writes it while the page is locked */
    if (snic_hcache_unlock(h, &page, SNIC_HCACHE_UNLOCK_DIRTY) != 0)
        broken(__LINE__);
    own[lpn] = v + 1;
}

/* A direct write. */
static void do_direct(struct snic_hcache_host *h, uint64_t lpn)
{
    struct snic_hcache_page page;
    uint64_t v;

    if (snic_hcache_lock(h, 1, lpn, SNIC_HCACHE_DIRECT, &page) != 0)
        return;
    v = atomic_load(&s.shadow[lpn]);
    pthread_mutex_lock(&s.lock);
    s.store[lpn] = v + 1;
    pthread_mutex_unlock(&s.lock);
    atomic_store(&s.shadow[lpn], v + 1);
    if (snic_hcache_unlock(h, &page, SNIC_HCACHE_UNLOCK_DROP) != 0)
        broken(__LINE__);
}

static uint32_t room(void)
{
    uint32_t n;

    pthread_mutex_lock(&s.lock);
    n = 64 - s.event_count;
    pthread_mutex_unlock(&s.lock);
    return n;
}

/* What this thread itself has written is in the store when its fsync is answered. */
static void do_fsync(unsigned index, uint64_t number, const uint64_t *own)
{
    uint64_t id = (uint64_t)index << 32 | number;
    uint64_t at[LPNS];
    uint32_t i;

    if (room() < 8)
        return;
    for (i = 0; i < LPNS; i++)
        at[i] = own[i];
    send(SNIC_HCACHE_EV_FSYNC, id, 0);
    while (atomic_load(&s.answered[index]) != id && atomic_load(&s.failed) == 0)
        sched_yield();
    for (i = 0; i < LPNS; i++)
        if (stored(i) < at[i])
            broken(__LINE__);
}

static void host(unsigned index)
{
    struct snic_hcache_host h;
    struct snic_rng rng;
    uint64_t own[LPNS] = {0};
    uint64_t i;

    snic_rng_init(&rng, support_seed() * 10 + index);
    if (snic_hcache_host_attach(&h, s.mem, s.size, index + 1, 1) != 0)
        broken(__LINE__);
    for (i = 0; i < s.rounds && atomic_load(&s.failed) == 0; i++) {
        uint64_t dice = snic_rng_below(&rng, 1000);
        uint64_t lpn = snic_rng_below(&rng, LPNS);

        if (dice < 600) {
            do_read(&h, lpn);
        } else if (dice < 950) {
            do_write(&h, lpn, own);
        } else if (dice < 995) {
            do_direct(&h, lpn);
        } else {
            do_fsync(index, i + 1, own);
        }
        if (i % 16 == 0)
            sched_yield();
    }
    pthread_mutex_lock(&s.lock);
    s.hits += h.stats.hits;
    pthread_mutex_unlock(&s.lock);
    atomic_fetch_add(&s.finished, 1);
}

/* ---- The DPU ---- */

static void dma(struct snic_hcache_op *op)
{
    unsigned char *there = s.mem + op->offset;
    uint64_t w;

    if (op->kind == SNIC_HCACHE_OP_CAS) {
        uint64_t seen = op->compare;

        (void)__atomic_compare_exchange_n((uint64_t *)(void *)there, &seen, op->operand, 0,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        op->value = seen;
    } else if (op->kind == SNIC_HCACHE_OP_ADD) {
        op->value = __atomic_fetch_add((uint64_t *)(void *)there, op->operand, __ATOMIC_ACQ_REL);
    } else if (op->offset >= s.info.data_offset) { /* a page: it is locked, or not used */
        for (w = 0; w < op->bytes; w += 8) {
            uint64_t *at = (uint64_t *)(void *)(there + w);
            unsigned char *local = (unsigned char *)op->local + w;

            if (op->kind == SNIC_HCACHE_OP_READ)
                snic_put_le64(local, *at);
            else
                *at = snic_get_le64(local);
        }
    } else {
        for (w = 0; w < op->bytes; w += 8) {
            uint64_t *at = (uint64_t *)(void *)(there + w);
            unsigned char *local = (unsigned char *)op->local + w;

            if (op->kind == SNIC_HCACHE_OP_READ)
                snic_put_le64(local, __atomic_load_n(at, __ATOMIC_ACQUIRE));
            else
                __atomic_store_n(at, snic_get_le64(local), __ATOMIC_RELEASE);
        }
    }
}

static void act(struct snic_hcache_control *c, const struct snic_hcache_action *a, uint64_t now)
{
    static const uint32_t event[] = {0, SNIC_HCACHE_EV_DMA, SNIC_HCACHE_EV_FLUSHED,
                                     SNIC_HCACHE_EV_FETCHED};
    struct snic_hcache_event ev;
    uint32_t i;

    if (a->kind == SNIC_HCACHE_ACT_SYNC)
        atomic_store(&s.answered[a->id >> 32], a->id);
    if (a->kind > SNIC_HCACHE_ACT_FETCH)
        return;
    memset(&ev, 0, sizeof(ev));
    ev.kind = event[a->kind];
    ev.id = a->id;
    for (i = 0; a->kind == SNIC_HCACHE_ACT_DMA && i < a->count; i++) {
        int pull = a->ops[i].kind == SNIC_HCACHE_OP_READ && i > 0 &&
                   a->ops[i].offset >= s.info.data_offset;

        /* A pull whose lock was not got reads what others write: a race that the engine throws
         * away, and that ThreadSanitizer would see. */
        if (!pull || a->ops[i - 1].value == a->ops[i - 1].compare)
            dma(&a->ops[i]);
    }
    pthread_mutex_lock(&s.lock);
    if (a->kind == SNIC_HCACHE_ACT_FLUSH) {
        uint64_t v = hw_version(a->data, a->bytes, 1, a->lpn);

        s.flushes++;
        if (v == UINT64_MAX || v < s.store[a->lpn])
            broken(__LINE__);
        s.store[a->lpn] = v;
    } else if (a->kind == SNIC_HCACHE_ACT_FETCH) {
        ev.result = a->lpn < LPNS ? 0 : SNIC_ENOENT;
        ev.bytes = a->bytes;
        if (a->lpn < LPNS)
            hw_fill(a->data, a->bytes, 1, a->lpn, s.store[a->lpn]);
    }
    pthread_mutex_unlock(&s.lock);
    if (snic_hcache_control_step(c, &ev, now) != 0)
        broken(__LINE__);
}

static void engine(void)
{
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                          .jobs = 8,
                                          .prefetch_max = 4,
                                          .look_ns = 2000,
                                          .flush_ns = 1000000};
    size_t need = snic_hcache_control_memsize(&s.info, &co);
    void *mem = aligned_alloc(SNIC_CACHELINE, (size_t)snic_align_up(need, SNIC_CACHELINE));
    struct snic_hcache_control *c;
    struct snic_hcache_action a;
    struct snic_hcache_event ev;
    uint64_t now = 0, idle = 0;

    if (mem == NULL || snic_hcache_control_init(&c, mem, need, &s.info, &co, now) != 0)
        abort();
    while (idle < 3000) {
        now += 1000;
        memset(&ev, 0, sizeof(ev));
        pthread_mutex_lock(&s.lock);
        if (s.event_count != 0)
            ev = s.events[--s.event_count];
        pthread_mutex_unlock(&s.lock);
        if (snic_hcache_control_step(c, &ev, now) != 0 && ev.kind == SNIC_HCACHE_EV_FSYNC)
            atomic_store(&s.answered[ev.id >> 32], ev.id);
        while (snic_hcache_control_poll(c, &a, 1) != 0)
            act(c, &a, now);
        if (atomic_load(&s.finished) == HOSTS)
            idle++;
        if (now % 8000 == 0)
            sched_yield();
    }
    if (!snic_hcache_control_idle(c) && atomic_load(&s.failed) == 0) {
        now += 100000000;
        memset(&ev, 0, sizeof(ev));
        (void)(snic_hcache_control_step(c, &ev, now) == 0);
        while (snic_hcache_control_poll(c, &a, 1) != 0)
            act(c, &a, now);
    }
    free(mem);
}

static void body(void *ctx, unsigned index)
{
    (void)ctx;
    if (index == HOSTS)
        engine();
    else
        host(index);
}

static void test_hcache_threads_shadow(void **state)
{
    struct snic_hcache_opts o = {sizeof(o), 512, 4, SNIC_HCACHE_MODE_WRITE, 16, 5};
    struct snic_hcache_counts c;
    uint32_t i;

    (void)state;
    memset(&s, 0, sizeof(s));
    pthread_mutex_init(&s.lock, NULL);
    s.rounds = support_rounds(40000, 2000000);
    s.size = snic_hcache_memsize(&o);
    s.mem = support_guard_alloc(s.size, SNIC_HCACHE_ALIGN);
    assert_int_equal(snic_hcache_init(s.mem, s.size, &o), 0);
    assert_int_equal(snic_hcache_geometry(s.mem, s.size, &s.info), 0);
    support_threads(HOSTS + 1, body, NULL);
    if (atomic_load(&s.failed) != 0)
        fail_msg("line %d", atomic_load(&s.failed));
    assert_int_equal(snic_hcache_check(s.mem, s.size, &c), 0);
    assert_int_equal(c.dirty + c.invalid + c.write_locked + c.read_locked + c.flights, 0);
    assert_int_equal(c.free, c.header_free);
    for (i = 0; i < LPNS; i++)
        assert_int_equal(s.store[i], atomic_load(&s.shadow[i]));
    print_message("%u hits, %u flushes\n", (unsigned)s.hits, (unsigned)s.flushes);
    pthread_mutex_destroy(&s.lock);
    support_guard_free(s.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_threads_shadow),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
