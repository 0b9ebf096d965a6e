/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's frame: memory, jobs, events in, actions out. control_priv.h has the invariants. */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

SNIC_STATIC_ASSERT(SNIC_HCACHE_OPS_MAX >= SNIC_HCACHE_WAYS_MAX + 2, "a visit's steps fit");
SNIC_STATIC_ASSERT(SNIC_HCACHE_STREAMS <= 64, "a bit per stream");

static int control_opts(struct snic_hcache_control_opts *o,
                        const struct snic_hcache_control_opts *in,
                        const struct snic_hcache_info *info)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0 || info->ways == 0 ||
        info->ways > SNIC_HCACHE_WAYS_MAX || info->buckets == 0)
        return SNIC_EINVAL;
    o->jobs = o->jobs != 0 ? o->jobs : 64;
    o->reserve = o->reserve != 0 ? o->reserve : (info->ways + 7) / 8;
    o->prefetch_max = o->prefetch_max != 0 ? o->prefetch_max : 64;
    o->look_ns = o->look_ns != 0 ? o->look_ns : 2000000;
    o->flush_ns = o->flush_ns != 0 ? o->flush_ns : 50000000;
    o->retry_ns = o->retry_ns != 0 ? o->retry_ns : 20000;
    if (o->policy == NULL)
        o->policy = snic_hcache_policy_default();
    if (o->seal == NULL)
        o->seal = snic_hcache_seal_crc();
    if (o->jobs < 2 || o->jobs > 1024 || o->reserve > info->ways ||
        o->policy->state_bytes > SNIC_HCACHE_POLICY_BYTES || o->policy->choose == NULL ||
        o->seal->reserved != 0 || o->unordered > 1 || o->reserved != 0)
        return SNIC_EINVAL;
    return 0;
}

static void *control_take(struct snic_arena *a, uint64_t count, uint64_t size, uint64_t align)
{
    return snic_arena_take(a, (size_t)count, (size_t)size, (size_t)align);
}

/* Measure (a->base NULL) or place everything; the engine itself comes first. */
static struct snic_hcache_control *hcache_control_place(struct snic_arena *a,
                                                        const struct snic_hcache_info *info,
                                                        const struct snic_hcache_control_opts *o,
                                                        struct snic_hcache_control *c)
{
    struct snic_hcache_control *at = control_take(a, 1, sizeof(*c), SNIC_CACHELINE);
    struct hcache_bits *bits[] = {&c->fresh,    &c->dirty,   &c->due,    &c->later,
                                  &c->visiting, &c->mend[0], &c->mend[1]};
    uint64_t words = snic_align_up(info->buckets, 64) / 64;
    uint32_t i;

    for (i = 0; i < SNIC_COUNTOF(bits); i++)
        bits[i]->words = control_take(a, words, 8, 8);
    c->since = control_take(a, info->buckets, 4, 8);
    c->synced = control_take(a, info->buckets, 2, 8);
    c->policy_state = control_take(a, info->buckets, o->policy->state_bytes, 8);
    c->look_words = words;
    c->look_copy = control_take(a, words + SNIC_CACHELINE / 8, 8, 8);
    c->jobs = control_take(a, o->jobs, sizeof(struct hcache_job), 8);
    c->free_jobs = control_take(a, o->jobs, 4, 4);
    c->out = control_take(a, o->jobs + SNIC_HCACHE__OUT_EXTRA, 4, 4);
    for (i = 0; i < o->jobs; i++) {
        unsigned char *page = control_take(a, 1, info->page_bytes, 64);
        unsigned char *other = control_take(a, 1, info->page_bytes, 64);
        unsigned char *copy = control_take(a, 2, info->bucket_bytes, 64);

        if (a->base == NULL || a->used == SIZE_MAX)
            continue;
        memset(&c->jobs[i], 0, sizeof(c->jobs[i]));
        c->jobs[i].index = i;
        c->jobs[i].page = page;
        c->jobs[i].other = other;
        c->jobs[i].copy = copy;
        c->free_jobs[i] = o->jobs - 1 - i;
    }
    return at;
}

size_t snic_hcache_control_memsize(const struct snic_hcache_info *info,
                                   const struct snic_hcache_control_opts *in)
{
    struct snic_hcache_control_opts o;
    struct snic_hcache_control c;
    struct snic_arena a = {NULL, SIZE_MAX, 0};

    if (control_opts(&o, in, info) != 0)
        return 0;
    memset(&c, 0, sizeof(c));
    (void)hcache_control_place(&a, info, &o, &c);
    return a.used == SIZE_MAX ? 0 : a.used;
}

static void control_all(struct hcache_bits *b, uint64_t buckets)
{
    uint64_t i;

    for (i = 0; i < buckets; i++)
        hcache_bit_set(b, i);
}

int snic_hcache_control_init(struct snic_hcache_control **out, void *mem, size_t mem_size,
                             const struct snic_hcache_info *info,
                             const struct snic_hcache_control_opts *in, uint64_t now_ns)
{
    struct snic_hcache_control_opts o;
    struct snic_hcache_control c, *at;
    struct snic_arena a = {mem, mem_size, 0};
    size_t need = snic_hcache_control_memsize(info, in);

    if (need == 0 || ((uintptr_t)mem & (SNIC_CACHELINE - 1)) != 0)
        return SNIC_EINVAL;
    if (mem_size < need)
        return SNIC_ENOSPC;
    (void)control_opts(&o, in, info);
    memset(&c, 0, sizeof(c));
    memset(mem, 0, need);
    at = hcache_control_place(&a, info, &o, &c);
    hcache_geo_from(&c.g, info);
    c.policy = o.policy;
    c.seal = o.seal;
    c.seal_ctx = o.seal_ctx;
    c.holder = hcache_holder(SNIC_HCACHE__DPU, (uint32_t)o.epoch & 255);
    c.now_ns = now_ns;
    c.look_ns = o.look_ns;
    c.flush_ns = o.flush_ns;
    c.retry_ns = o.retry_ns;
    c.next_look_ns = now_ns;
    c.later_ns = SNIC_NEVER;
    c.jobs_max = o.jobs;
    c.reserve = o.reserve;
    c.unordered = (uint8_t)o.unordered;
    c.prefetch_max = o.prefetch_max == SNIC_HCACHE_NO_PREFETCH ? 0 : o.prefetch_max;
    c.window_max = c.prefetch_max;
    c.look_wanted = 1;
    c.mending[1] = 1;
    *at = c;
    control_all(&at->mend[1], info->buckets);
    control_all(&at->fresh, info->buckets);
    *out = at;
    return 0;
}

void *snic_hcache_control_fini(struct snic_hcache_control *c)
{
    return c;
}

/* ---- What to do next ---- */

static int control_next_fresh(struct snic_hcache_control *c, uint64_t *bucket)
{
    uint64_t words = c->look_words;
    uint64_t behind = UINT64_MAX << c->cursor % 64; /* the cursor's word: its end first, then all */
    uint64_t i;

    if (c->fresh.set == 0)
        return 0;
    for (i = 0; i <= words; i++) {
        uint64_t w = (c->cursor / 64 + i) % words;
        uint64_t ready = c->fresh.words[w] & ~c->visiting.words[w] & (i == 0 ? behind : UINT64_MAX);

        if (ready != 0) {
            *bucket = w * 64 + (uint64_t)__builtin_ctzll(ready);
            c->cursor = (*bucket + 1) % (words * 64);
            return 1;
        }
    }
    return 0;
}

static void control_timers(struct snic_hcache_control *c)
{
    uint64_t w;

    if (c->now_ns >= c->next_look_ns)
        c->look_wanted = 1;
    if (c->later.set == 0 || c->now_ns < c->later_ns)
        return;
    for (w = 0; w < c->look_words; w++) {
        uint64_t bits = c->later.words[w];

        c->fresh.set += (uint64_t)__builtin_popcountll(bits & ~c->fresh.words[w]);
        c->fresh.words[w] |= bits;
        c->later.words[w] = 0;
    }
    c->later.set = 0;
    c->later_ns = SNIC_NEVER;
}

static void control_mended(struct snic_hcache_control *c)
{
    int side;

    for (side = 0; side < 2; side++)
        if (c->mending[side] && c->mend[side].set == 0 &&
            c->out_count + 1 < c->jobs_max + SNIC_HCACHE__OUT_EXTRA) {
            c->mending[side] = 0;
            hcache_job_out(c, SNIC_HCACHE__OUT_RECOVERED + (uint32_t)side);
        }
}

static void control_run(struct snic_hcache_control *c)
{
    uint64_t bucket;

    control_timers(c);
    control_mended(c);
    hcache_fsync_judge(c);
    while (c->jobs_busy < c->jobs_max) {
        if (c->look_wanted && !c->look_running) {
            hcache_look_start(c, hcache_job_start(c, SNIC_HCACHE__JOB_LOOK, 0));
        } else if (c->jobs_busy + 1 < c->jobs_max && control_next_fresh(c, &bucket)) {
            /* one job stays free for the flushes that a visit starts, or visits would fill all */
            hcache_bit_clear(&c->fresh, bucket);
            hcache_bit_set(&c->visiting, bucket);
            hcache_visit_start(c, hcache_job_start(c, SNIC_HCACHE__JOB_VISIT, bucket));
        } else if (!hcache_fetch_next(c)) {
            break;
        }
    }
}

/* ---- Events ---- */

/* The job that @p ev continues, or NULL. */
static struct hcache_job *control_job_of(struct snic_hcache_control *c,
                                         const struct snic_hcache_event *ev)
{
    uint64_t index = ev->id & 0xffff;
    struct hcache_job *j;

    if (index >= c->jobs_max)
        return NULL;
    j = &c->jobs[index];
    if (j->kind == SNIC_HCACHE__JOB_NONE || j->emit != 0 || j->waits != ev->kind ||
        (uint32_t)(ev->id >> 16) != j->generation)
        return NULL;
    return j;
}

/* The link is gone, and with it everything: fsyncs fail, and nothing more is asked for. */
static void control_die(struct snic_hcache_control *c, int32_t why)
{
    uint32_t i;

    c->dead = why;
    c->out_count = 0;
    c->fsyncs_done = 0;
    for (i = 0; i < SNIC_HCACHE_FSYNCS; i++)
        if (c->fsync[i].state != SNIC_HCACHE__FSYNC_NONE) {
            c->fsync[i].state = SNIC_HCACHE__FSYNC_DONE;
            c->fsync[i].result = SNIC_EPEERDEAD;
            c->fsyncs_done++;
        }
}

static void control_host_dead(struct snic_hcache_control *c)
{
    uint32_t i;

    for (i = 0; i < c->jobs_max; i++) /* what they have read may be older than its last step */
        c->jobs[i].stale = 1;
    control_all(&c->mend[0], c->g.buckets);
    control_all(&c->fresh, c->g.buckets);
    c->mending[0] = 1;
}

static int control_completion(struct snic_hcache_control *c, const struct snic_hcache_event *ev)
{
    struct hcache_job *j = control_job_of(c, ev);

    if (j == NULL)
        return SNIC_ENOENT;
    j->waits = 0;
    j->result = ev->result;
    if (ev->kind == SNIC_HCACHE_EV_DMA && ev->result < 0) {
        control_die(c, ev->result);
        return 0;
    }
    if (ev->kind == SNIC_HCACHE_EV_DMA)
        c->stats.dmas += j->op_count;
    if (ev->kind == SNIC_HCACHE_EV_FETCHED) {
        j->bytes = ev->bytes;
        j->sum = ev->sum;
        j->packed = ev->summed; /* 1: sum is valid */
    }
    switch ((enum hcache_job_kind)j->kind) {
    case SNIC_HCACHE__JOB_LOOK:
        hcache_look_step(c, j);
        break;
    case SNIC_HCACHE__JOB_VISIT:
        hcache_visit_step(c, j);
        break;
    case SNIC_HCACHE__JOB_FLUSH:
        hcache_flush_step(c, j);
        break;
    case SNIC_HCACHE__JOB_FETCH:
        hcache_fetch_step(c, j);
        break;
    case SNIC_HCACHE__JOB_NONE:
        break;
    default:
        break;
    }
    return 0;
}

int snic_hcache_control_step(struct snic_hcache_control *c, const struct snic_hcache_event *ev,
                             uint64_t now_ns)
{
    int r = 0;

    if (c->dead != 0)
        return SNIC_EPEERDEAD;
    if (ev->kind > SNIC_HCACHE_EV_HOST_DEAD)
        return SNIC_EINVAL;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    switch ((enum snic_hcache_event_kind)ev->kind) {
    case SNIC_HCACHE_EV_NONE:
        break;
    case SNIC_HCACHE_EV_DMA:
    case SNIC_HCACHE_EV_FLUSHED:
    case SNIC_HCACHE_EV_FETCHED:
        r = control_completion(c, ev);
        break;
    case SNIC_HCACHE_EV_FSYNC:
        r = hcache_fsync_add(c, ev->id, ev->ino);
        break;
    case SNIC_HCACHE_EV_MISS:
        hcache_prefetch_miss(c, ev->ino, ev->lpn, ev->count);
        break;
    case SNIC_HCACHE_EV_AHEAD:
        hcache_prefetch_ahead(c, ev->ino, ev->lpn);
        break;
    case SNIC_HCACHE_EV_KICK:
        c->look_wanted = 1;
        break;
    case SNIC_HCACHE_EV_HOST_DEAD:
        control_host_dead(c);
        break;
    default:
        break;
    }
    if (c->dead == 0)
        control_run(c);
    return r;
}

/* ---- Actions ---- */

static void control_fill(struct snic_hcache_control *c, uint32_t what, struct snic_hcache_action *a)
{
    struct hcache_job *j;

    if (what == SNIC_HCACHE__OUT_WAKE) {
        a->kind = SNIC_HCACHE_ACT_WAKE;
        c->wake_queued = 0;
        return;
    }
    if (what >= SNIC_HCACHE__OUT_RECOVERED) {
        a->kind = SNIC_HCACHE_ACT_RECOVERED;
        a->id = what == SNIC_HCACHE__OUT_RECOVERED ? SNIC_HCACHE_HOST : SNIC_HCACHE_DPU;
        return;
    }
    SNIC_ASSERT(what < c->jobs_max);
    j = &c->jobs[what];
    SNIC_ASSERT(j->kind != SNIC_HCACHE__JOB_NONE && j->emit != 0);
    a->kind = j->emit;
    a->id = (uint64_t)j->generation << 16 | j->index;
    j->emit = 0;
    if (a->kind == SNIC_HCACHE_ACT_DMA) {
        a->ops = j->ops;
        a->count = j->op_count;
        return;
    }
    a->ino = j->ino;
    a->lpn = j->lpn;
    a->data = j->page;
    a->bytes = c->g.page_bytes;
    if (a->kind == SNIC_HCACHE_ACT_FLUSH) {
        a->data = j->packed ? j->other : j->page;
        a->bytes = j->bytes;
        a->packed = j->packed;
        a->end = j->end;
        a->sum = j->sum;
    }
}

/* The next finished fsync. */
static int control_fsync(struct snic_hcache_control *c, struct snic_hcache_action *a)
{
    uint32_t i;

    if (c->fsyncs_done == 0)
        return 0;
    for (i = 0; c->fsync[i].state != SNIC_HCACHE__FSYNC_DONE; i++)
        SNIC_ASSERT(i + 1 < SNIC_HCACHE_FSYNCS);
    a->kind = SNIC_HCACHE_ACT_SYNC;
    a->id = c->fsync[i].id;
    a->ino = c->fsync[i].ino;
    a->result = c->fsync[i].result;
    c->fsync[i].state = SNIC_HCACHE__FSYNC_NONE;
    c->fsyncs_done--;
    return 1;
}

uint32_t snic_hcache_control_poll(struct snic_hcache_control *c, struct snic_hcache_action *out,
                                  uint32_t max)
{
    uint32_t n;

    for (n = 0; n < max; n++) {
        memset(&out[n], 0, sizeof(out[n]));
        if (c->out_count != 0) {
            uint32_t what = c->out[c->out_head];

            c->out_head = (c->out_head + 1) % (c->jobs_max + SNIC_HCACHE__OUT_EXTRA);
            c->out_count--;
            control_fill(c, what, &out[n]);
        } else if (!control_fsync(c, &out[n])) {
            break;
        }
    }
    return n;
}

uint64_t snic_hcache_control_deadline_ns(const struct snic_hcache_control *c)
{
    uint64_t at = SNIC_NEVER;

    if (c->dead != 0)
        return SNIC_NEVER;
    if (!c->look_running && !c->look_wanted)
        at = c->next_look_ns;
    return c->later.set != 0 ? snic_min_u64(at, c->later_ns) : at;
}

int snic_hcache_control_idle(const struct snic_hcache_control *c)
{
    return c->jobs_busy == 0 && c->out_count == 0 && c->fresh.set == 0 && c->dirty.set == 0 &&
           c->later.set == 0 && c->due.set == 0 && !c->look_wanted;
}

void snic_hcache_control_get_stats(const struct snic_hcache_control *c,
                                   struct snic_hcache_control_stats *out)
{
    *out = c->stats;
}

int snic_hcache_control_check(const struct snic_hcache_control *c)
{
    const struct hcache_bits *bits[] = {&c->fresh,    &c->dirty,   &c->due,    &c->later,
                                        &c->visiting, &c->mend[0], &c->mend[1]};
    uint64_t visits = 0;
    uint32_t busy = 0;
    uint32_t i;

    for (i = 0; i < SNIC_COUNTOF(bits); i++) {
        uint64_t set = 0;
        uint64_t w;

        for (w = 0; w < c->look_words; w++)
            set += (uint64_t)__builtin_popcountll(bits[i]->words[w]);
        if (set != bits[i]->set)
            return SNIC_ECORRUPT;
    }
    for (i = 0; i < c->jobs_max; i++) {
        const struct hcache_job *j = &c->jobs[i];

        busy += j->kind != SNIC_HCACHE__JOB_NONE;
        visits += j->kind == SNIC_HCACHE__JOB_VISIT;
        if (j->kind == SNIC_HCACHE__JOB_VISIT && !hcache_bit(&c->visiting, j->bucket))
            return SNIC_ECORRUPT;
        if (j->kind != SNIC_HCACHE__JOB_NONE && j->waits == 0 && c->dead == 0)
            return SNIC_ECORRUPT; /* nothing would continue it */
    }
    if (busy != c->jobs_busy || visits != c->visiting.set)
        return SNIC_ECORRUPT;
    return c->due.set != 0 && !c->round_running ? SNIC_ECORRUPT : 0;
}
