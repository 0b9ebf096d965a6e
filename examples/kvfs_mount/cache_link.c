/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The region's life: made when this mount is the only one of the store, offered to the file
 * system's process by a link of its own, left when others come, taken along when that process dies.
 */
#include "cache_priv.h"

#include <stdlib.h>
#include <string.h>

#define KC_AGAIN_NS 250000000u
#define KC_AGAIN_MOST_NS 60000000000ull
#define KC_GIVE_UP_NS 30000000000ull
/* hcachelink's: remote_link.c detects a silent process earlier, and whether it may be silent. */
#define KC_TIMEOUT_NS 300000000000ull

/* ---- The link's events ---- */

static void link_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct km_cache *k = ctx;
    struct km_cache_state s;

    (void)d;
    if (size == sizeof(s)) {
        memcpy(&s, msg, sizeof(s));
        if (s.kind == KM_WIRE_KIND) {
            k->theirs = s;
            remote_heard(k->m->remote);
            return;
        }
    }
    snic_hcachelink_host_recv(k->half, msg, size);
}

static void link_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct km_cache *k = ctx;

    (void)d;
    snic_hcachelink_host_doorbell(k->half, id);
}

static void link_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct km_cache *k = ctx;

    (void)d;
    snic_hcachelink_host_death(k->half, cause);
}

static void link_opened(void *ctx, struct snic_hcachelink_host *h)
{
    struct km_cache *k = ctx;
    uint64_t epoch;
    size_t size;
    void *region = snic_hcachelink_host_region(h, &size, &epoch);

    if (k->state == KC_DEAD) { /* dirty pages go to the store, then all starts over */
        k->state = KC_LEAVING;
        kc_tidy(k);
    } else if (k->state == KC_OPENING) {
        if (snic_hcache_host_attach(&k->hand, region, size, KC_OWNER, epoch) != 0)
            ex_die("hcache"); /* hcachelink has made it */
        k->state = KC_ON;
        k->wait_ns = 0;
        kc_release(k);
    }
}

static void link_closed(void *ctx, struct snic_hcachelink_host *h, int reason)
{
    struct km_cache *k = ctx;

    (void)h;
    kc_unfetch(k);
    k->over = 1;
    k->reason = reason;
    kc_tidy(k);
}

/* ---- Beginning ---- */

static int link_half(struct km_cache *k)
{
    struct snic_hcachelink_host_opts o = {
        .opts_size = sizeof(o),
        .flags = SNIC_HCACHELINK_SHARED,
        .timeout_ns = KC_TIMEOUT_NS,
        .cache = {.opts_size = sizeof(o.cache),
                  .page_bytes = KC_PAGE,
                  .mode = k->m->config->write_back ? SNIC_HCACHE_MODE_WRITE : SNIC_HCACHE_MODE_READ,
                  .pages = kc_pages_max(k)},
        .events = {.opened = link_opened, .closed = link_closed, .ctx = k}};
    size_t size = snic_hcachelink_host_memsize(&o);

    if (posix_memalign(&k->memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    return snic_hcachelink_host_init(&k->half, k->memory, size, &o);
}

/* A link to the file system's process, for the half that is there or a new one. */
static int link_connect(struct km_cache *k)
{
    static const struct snic_dma_events none;
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o),
                                  .timeout_ms = 1000,
                                  .path = k->m->config->socket,
                                  .tag = km_tag(k->m->config)};
    struct snic_dma *old = k->dma;
    struct snic_dma *dma;
    int rc = snic_dma_shm_connect(&dma, k->m->loop, &o, &none);

    if (rc != 0)
        return rc;
    dma->events = (struct snic_dma_events){link_recv, link_bell, link_death, k};
    if (k->half == NULL)
        rc = link_half(k);
    if (rc == 0)
        rc = snic_hcachelink_host_attach(k->half, dma);
    if (rc != 0) {
        snic_dma_close(dma);
        return rc;
    }
    k->dma = dma;
    k->over = 0;
    k->ending = 0;
    k->reason = 0;
    if (old != NULL)
        snic_dma_close(old);
    return 0;
}

static void link_free(struct km_cache *k)
{
    k->before.dma_ops += k->theirs.dma_ops;
    k->before.flushes += k->theirs.flushes;
    k->before.flush_failures += k->theirs.flush_failures;
    k->before.prefetched += k->theirs.prefetched;
    k->before.lag_ns = snic_max_u64(k->before.lag_ns, k->theirs.lag_ns);
    memset(&k->theirs, 0, sizeof(k->theirs));
    k->useful += k->hand.stats.useful;
    if (k->half != NULL)
        k->useful += snic_hcachelink_host_engine(k->half)->stats.useful;
    memset(&k->hand, 0, sizeof(k->hand));
    if (k->half != NULL)
        (void)snic_hcachelink_host_fini(k->half);
    free(k->memory);
    if (k->dma != NULL)
        snic_dma_close(k->dma);
    k->half = NULL;
    k->memory = NULL;
    k->dma = NULL;
    k->over = 0;
    k->ending = 0;
}

static void link_begin(struct km_cache *k, uint64_t now)
{
    int rc;

    k->wait_ns = k->wait_ns == 0 ? KC_AGAIN_NS : snic_min_u64(k->wait_ns * 2, KC_AGAIN_MOST_NS);
    k->again_ns = now + k->wait_ns;
    rc = link_connect(k);
    if (rc == 0) {
        k->state = KC_OPENING;
        return;
    }
    link_free(k);
    if (rc != SNIC_ECONNREFUSED && rc != SNIC_ETIMEDOUT) /* it is not ready, or just dead */
        ex_log(EX_WARNING, "running without the cache for now: %s", snic_strerror(rc));
}

/* ---- Leaving ---- */

static void link_each(struct km_cache *k, void (*fn)(struct km_cache *k, struct kc_inode *i))
{
    for (uint32_t s = 0; s < KC_HASH; s++) {
        struct kc_inode *i = k->inodes[s];

        while (i != NULL) {
            struct kc_inode *next = i->next;

            kc_inode_ref(i);
            fn(k, i);
            kc_inode_unref(k, i);
            i = next;
        }
    }
}

static void link_unsize(struct km_cache *k, struct kc_inode *i)
{
    (void)k;
    i->sized = 0;
    i->timed = 0;
}

/* Nothing is cached any more. */
static void link_off(struct km_cache *k)
{
    link_free(k);
    k->state = KC_OFF;
    k->regions++;
    link_each(k, kc_inode_lose); /* what could not be written out */
    link_each(k, link_unsize);
    kc_release(k);
}

static void link_sweep(struct km_cache *k, struct kc_inode *i)
{
    struct km_call *c;

    if (!i->dirty && i->due == 0)
        return;
    c = kc_own(k, NULL, SNIC_FSOP_FLUSH, i->ino);
    if (c == NULL)
        return; /* the next round */
    c->cached.kind = KC_SWEEP;
    c->cached.wants = KC_WANTS_FLUSH | KC_WANTS_TIMES;
    c->cached.step = KC_FLUSH;
    c->cached.inode = i;
    kc_inode_ref(i);
    k->sweeps++;
    kc_ready(k, c);
}

/* One round of flushes, then the rest is the half's. */
static void link_leave(struct km_cache *k)
{
    if (k->busy != 0 || k->sweeps != 0 || k->over)
        return;
    if (!k->ending) {
        k->ending = 1;
        link_each(k, link_sweep);
        kc_pump(k);
        if (k->sweeps != 0 || k->busy != 0)
            return;
    }
    if (k->ending == 1) {
        k->ending = 2;
        snic_hcachelink_host_end(k->half);
    }
}

/* ---- Death ---- */

static void link_died(struct km_cache *k)
{
    if (k->reason != SNIC_EPEERDEAD || k->dirty == 0) {
        if (k->reason != 0 && k->reason != SNIC_EPEERDEAD)
            ex_log(EX_ERROR, "the cache is lost: %s", snic_strerror(k->reason));
        link_off(k);
        return;
    }
    if (k->state != KC_DEAD)
        k->dead_ns = 0;
    k->died = 1;
    k->state = KC_DEAD;
}

/* The next process gets the region. */
static void link_again(struct km_cache *k, uint64_t now)
{
    int rc;

    if (k->m->remote->state != KR_UP) {
        k->dead_ns = 0;
        return;
    }
    if (k->dead_ns == 0)
        k->dead_ns = now;
    if (!k->over)
        return;
    rc = link_connect(k);
    if (rc == 0 || now - k->dead_ns <= KC_GIVE_UP_NS)
        return;
    ex_log(EX_ERROR, "the file system's process refuses the cache: %s", snic_strerror(rc));
    link_off(k);
}

/* ---- The state ---- */

static void link_tidy(struct snic_loop_msg *msg)
{
    struct km_cache *k = SNIC_CONTAINER(msg, struct km_cache, tidy);

    k->tidying = 0;
    if (k->half == NULL)
        return;
    if (k->over && (k->state != KC_DEAD || k->reason != SNIC_EPEERDEAD)) {
        if (k->busy == 0 && k->sweeps == 0)
            link_died(k);
        return;
    }
    if (k->state == KC_ON && k->reason != 0) /* pages that cannot be trusted */
        k->state = KC_LEAVING;
    if (k->state == KC_LEAVING)
        link_leave(k);
}

void kc_tidy(struct km_cache *k)
{
    if (k->tidying)
        return;
    k->tidying = 1;
    k->tidy.fn = link_tidy;
    snic_loop_defer(k->m->loop, &k->tidy);
}

void km_cache_look(struct km *m)
{
    struct km_cache *k = m->cache;
    uint64_t now = snic_loop_now(m->loop);
    int alone = atomic_load_explicit(&m->alone, memory_order_relaxed);

    if (k == NULL)
        return;
    if (k->state == KC_OFF && alone && !k->closing && m->remote->state == KR_UP &&
        now >= k->again_ns)
        link_begin(k, now);
    else if ((k->state == KC_ON || k->state == KC_OPENING) && (!alone || k->closing)) {
        k->state = KC_LEAVING;
        kc_tidy(k);
    } else if (k->state == KC_DEAD)
        link_again(k, now);
    kc_pump(k);
}

void km_cache_give_up(struct km *m)
{
    struct km_cache *k = m->cache;

    if (k != NULL && k->state == KC_DEAD && k->over)
        link_off(k);
}

/* ---- Figures ---- */

size_t km_cache_metrics(const struct km *m, struct ex_metric *out)
{
    const struct km_cache *k = m->cache;
    struct snic_hcache_host_stats half = {0};

    if (k == NULL)
        return 0;
    if (k->half != NULL)
        half = snic_hcachelink_host_engine(k->half)->stats;
    const struct ex_metric all[] = {
        {"cache_on", k->state == KC_ON, 0},
        {"cache_reads", k->reads, 1},
        {"cache_hits", k->hit_reads, 1}, /* of reads: no request was sent */
        {"cache_hit_pages", k->hit_pages, 1},
        {"cache_miss_pages", k->miss_pages, 1},
        {"cache_writes", k->writes, 1},
        {"cache_around", k->around, 1}, /* reads and changes by the link */
        {"cache_dirty_bytes", k->unflushed, 0},
        {"cache_flush_errors", k->flush_errors, 1},
        {"cache_lost_files", k->lost, 1}, /* whose bytes were dropped for that */
        {"cache_full", k->state == KC_ON && kc_full(k), 0},
        {"cache_bypassed_pages", k->bypassed, 1},
        {"cache_flushed_pages", k->before.flushes + k->theirs.flushes, 1},
        {"cache_flush_failures", k->before.flush_failures + k->theirs.flush_failures, 1},
        {"cache_flush_lag_max_us", snic_max_u64(k->before.lag_ns, k->theirs.lag_ns) / 1000, 0},
        {"cache_prefetched_pages", k->before.prefetched + k->theirs.prefetched, 1},
        {"cache_prefetched_used", k->useful + k->hand.stats.useful + half.useful, 1},
        {"cache_dma_ops", k->before.dma_ops + k->theirs.dma_ops, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* ---- The end ---- */

static void link_error(struct km_cache *k, struct kc_inode *i)
{
    i->opens = 0;
    if (i->dirty)
        kc_inode_lose(k, i);
    kc_inode_due(k, i, 0);
    i->told = 1;
}

void km_cache_close(struct km *m)
{
    struct km_cache *k = m->cache;
    uint64_t until = snic_loop_now(m->loop) + KC_GIVE_UP_NS;

    if (k == NULL)
        return;
    k->closing = 1;
    while ((k->state != KC_OFF || k->owned != 0) && snic_loop_now(m->loop) < until) {
        km_cache_look(m);
        (void)snic_loop_once(m->loop, 10000000u);
    }
    if (k->half != NULL && !k->over)
        snic_hcachelink_host_death(k->half, SNIC_DMA_DEATH_CLOSED); /* no call waits for it */
    for (int n = 0; n < 1000 && k->half != NULL && !k->over; n++)
        (void)snic_loop_once(m->loop, 1000000u);
    link_each(k, link_error);
    if (k->half != NULL && k->over)
        link_free(k);
    while (k->tidying)
        (void)snic_loop_once(m->loop, 1000000u);
    m->cache = NULL;
    m->carrier = &remote_carrier;
    free(k);
}
