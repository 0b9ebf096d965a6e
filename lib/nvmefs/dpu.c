/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The DPU's half: queues, the host's messages and bells, and the next steps.
 *
 * A queue goes
 *
 *   CLOSED ── CREATE ──▶ OPEN ── DELETE ──▶ DELETING ── nothing left ──▶ CLOSED, DELETED is sent
 *                         └── its memory can not be reached ──▶ FAILED ── DELETE ──▶ DELETING
 *
 * Outside of OPEN nothing of a queue is started; what is out comes back and is dropped.
 */
#include "nvmefs/nvmefs_priv.h"

/* ---- Memory ---- */

static const char *nvmefs_dpu_wrong(const struct snic_nvmefs_dpu_opts *o)
{
    if ((o->flags & ~(SNIC_NVMEFS_DPU_ORDERED | SNIC_NVMEFS_DPU_EAGER)) != 0)
        return "flags: unknown bits";
    if (o->queues_max > SNIC_NVMEFS_QUEUES_MAX)
        return "queues_max: above SNIC_NVMEFS_QUEUES_MAX";
    if (!snic_is_pow2(o->depth_max) || o->depth_max < 2 || o->depth_max > SNIC_NVMEFS_DEPTH_MAX)
        return "depth_max: not a power of two 2..SNIC_NVMEFS_DEPTH_MAX";
    if (o->chunk_bytes % SNIC_NVMEFS_PAGE != 0 || o->chunk_bytes > SNIC_NVMEFS_DATA_MAX)
        return "chunk_bytes: not whole pages up to SNIC_NVMEFS_DATA_MAX";
    if (o->chunks < SNIC_NVMEFS_PIECES_MAX || o->chunks > (1U << 24))
        return "chunks: not SNIC_NVMEFS_PIECES_MAX..2^24";
    if (o->steps < 2 || o->steps > 65536)
        return "steps: not 2..65536";
    return o->look_max > SNIC_NVMEFS__LOOK_MAX ? "look_max: above 32" : NULL;
}

static int nvmefs_dpu_opts(struct snic_nvmefs_dpu_opts *o, const struct snic_nvmefs_dpu_opts *in)
{
    *o = (struct snic_nvmefs_dpu_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0)
        return r;
    o->queues_max = o->queues_max == 0 ? 8 : o->queues_max;
    o->depth_max = o->depth_max == 0 ? 64 : o->depth_max;
    o->chunk_bytes = o->chunk_bytes == 0 ? 65536 : o->chunk_bytes;
    o->chunks = o->chunks == 0 ? 256 : o->chunks;
    o->steps = o->steps == 0 ? 256 : o->steps;
    o->look_max = o->look_max == 0 ? 8 : o->look_max;
    return nvmefs_dpu_wrong(o) != NULL ? SNIC_EINVAL : 0;
}

const char *snic_nvmefs_dpu_opts_wrong(const struct snic_nvmefs_dpu_opts *in)
{
    struct snic_nvmefs_dpu_opts o = {.opts_size = sizeof(o)};
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return nvmefs_dpu_opts(&o, in) != 0 ? nvmefs_dpu_wrong(&o) : NULL;
}

static struct snic_nvmefs_dpu *nvmefs_dpu_place(struct snic_arena *a,
                                                const struct snic_nvmefs_dpu_opts *o)
{
    struct snic_nvmefs_dpu *d = snic_arena_take(a, 1, sizeof(*d), SNIC_NVMEFS_ALIGN);
    void *cmds = snic_arena_take(a, (size_t)o->queues_max * o->depth_max, sizeof(struct nvmefs_cmd),
                                 SNIC_NVMEFS_ALIGN);
    void *steps = snic_arena_take(a, o->steps, sizeof(struct nvmefs_step), SNIC_NVMEFS_ALIGN);
    void *list = snic_arena_take(a, o->chunks, sizeof(uint32_t), SNIC_NVMEFS_ALIGN);
    void *chunks = snic_arena_take(a, o->chunks, o->chunk_bytes, SNIC_NVMEFS_ALIGN);
    if (a->base == NULL || a->used == SIZE_MAX)
        return NULL;
    memset(d, 0, sizeof(*d));
    d->cmds = cmds;
    d->steps = steps;
    d->free_chunks = list;
    d->chunk_mem = chunks;
    return d;
}

size_t snic_nvmefs_dpu_memsize(const struct snic_nvmefs_dpu_opts *o)
{
    struct snic_nvmefs_dpu_opts copy;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    if (nvmefs_dpu_opts(&copy, o) != 0)
        return 0;
    (void)nvmefs_dpu_place(&a, &copy);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_nvmefs_dpu_init(struct snic_nvmefs_dpu **out, void *mem, size_t size,
                         const struct snic_nvmefs_dpu_opts *o)
{
    struct snic_nvmefs_dpu_opts copy;
    struct snic_arena a = {mem, size, 0};
    int r = nvmefs_dpu_opts(&copy, o);
    if (r != 0)
        return r;
    if ((uintptr_t)mem % SNIC_NVMEFS_ALIGN != 0)
        return SNIC_EINVAL;
    struct snic_nvmefs_dpu *d = nvmefs_dpu_place(&a, &copy);
    if (d == NULL)
        return SNIC_ENOSPC;
    d->opts = copy;
    d->data_max = (uint32_t)snic_min_u64((uint64_t)copy.chunk_bytes * SNIC_NVMEFS_PIECES_MAX,
                                         SNIC_NVMEFS_DATA_MAX);
    snic_link_init(&d->ready);
    snic_link_init(&d->starved);
    snic_link_init(&d->requests);
    snic_link_init(&d->cancels);
    uint32_t cmds = copy.queues_max * copy.depth_max;
    memset(d->cmds, 0, cmds * sizeof(*d->cmds)); /* no old bytes go back to a host */
    for (uint32_t i = 0; i < cmds; i++) {
        struct nvmefs_cmd *c = &d->cmds[i];
        c->user.index = i;
        c->user.queue = i / copy.depth_max;
        snic_link_init(&c->link);
        snic_link_init(&c->cancel_link);
    }
    for (uint32_t i = 0; i < copy.queues_max; i++) {
        d->queues[i].cmds = &d->cmds[(size_t)i * copy.depth_max];
        snic_link_init(&d->queues[i].done);
    }
    memset(d->steps, 0, copy.steps * sizeof(*d->steps));
    for (uint32_t i = 0; i < copy.steps; i++) {
        d->steps[i].user.index = i;
        snic_queue_push(&d->free_steps, &d->steps[i].user.node);
    }
    for (uint32_t i = 0; i < copy.chunks; i++)
        d->free_chunks[d->free_count++] = copy.chunks - 1 - i;
    *out = d;
    return 0;
}

int snic_nvmefs_dpu_idle(const struct snic_nvmefs_dpu *d)
{
    for (uint32_t i = 0; i < d->opts.queues_max; i++)
        if (d->queues[i].state == NVMEFS_QUEUE_DELETING)
            return 0;
    return d->steps_out == 0 && d->with_user == 0;
}

void *snic_nvmefs_dpu_fini(struct snic_nvmefs_dpu *d)
{
    SNIC_ASSERT(d->steps_out == 0 && d->with_user == 0);
    return d;
}

/* ---- Queues ---- */

void snic_nvmefs_dpu_detach(struct snic_nvmefs_dpu *d)
{
    d->detached = 1;
    memset(d->odd, 0, sizeof(d->odd));
    d->bells = 0;
    for (uint32_t i = 0; i < d->opts.queues_max; i++) {
        struct nvmefs_queue *q = &d->queues[i];
        q->ctl_due = 0;
        if (q->state == NVMEFS_QUEUE_CLOSED)
            continue;
        q->state = NVMEFS_QUEUE_DELETING;
        nvmefs_queue_drain(d, q);
        nvmefs_queue_settle(d, q);
    }
    /* What was to be written once more is not. */
    for (struct snic_node *n = snic_queue_pop(&d->again); n != NULL; n = snic_queue_pop(&d->again))
        snic_nvmefs_dpu_complete(d, SNIC_CONTAINER(n, struct snic_nvmefs_step, node),
                                 SNIC_EPEERDEAD);
}

/* ---- Messages ---- */

static void nvmefs_odd(struct snic_nvmefs_dpu *d, const struct snic_nvmefs_ctl *m, uint16_t type,
                       int error)
{
    d->odd[m->queue] = (struct nvmefs_odd){m->generation, error, type};
}

static int nvmefs_create_check(const struct snic_nvmefs_dpu *d, const struct snic_nvmefs_ctl *m)
{
    if (m->queue >= d->opts.queues_max)
        return SNIC_EINVAL;
    if (d->queues[m->queue].state != NVMEFS_QUEUE_CLOSED)
        return SNIC_EBUSY;
    if (!snic_is_pow2(m->depth) || m->depth < 2 || m->depth > d->opts.depth_max ||
        ((m->sq | m->cq | m->bells) & 63) != 0)
        return SNIC_EINVAL;
    if (!nvmefs_window_holds(d, m->sq, (uint64_t)(m->depth + 1) * SNIC_NVMEFS_SQE_BYTES) ||
        !nvmefs_window_holds(d, m->cq, (uint64_t)m->depth * SNIC_NVMEFS_CQE_BYTES) ||
        !nvmefs_window_holds(d, m->bells, SNIC_NVMEFS_OFF_SQ_EVENT + 4))
        return SNIC_EFAULT;
    return 0;
}

static void nvmefs_create(struct snic_nvmefs_dpu *d, const struct snic_nvmefs_ctl *m)
{
    int r = nvmefs_create_check(d, m);
    if (r != 0) {
        nvmefs_odd(d, m, SNIC_NVMEFS_CTL_CREATED, r);
        return;
    }
    struct nvmefs_queue *q = &d->queues[m->queue];
    struct nvmefs_cmd *cmds = q->cmds;
    SNIC_ASSERT(q->busy == 0 && q->steps == 0); /* it was CLOSED */
    memset(q, 0, sizeof(*q));
    snic_link_init(&q->done);
    q->cmds = cmds;
    q->state = NVMEFS_QUEUE_OPEN;
    q->ctl_due = SNIC_NVMEFS_CTL_CREATED;
    q->depth = m->depth;
    q->shift = (uint32_t)__builtin_ctz(m->depth);
    q->generation = m->generation;
    q->sq = m->sq;
    q->cq = m->cq;
    q->bells = m->bells;
    q->want_look = 1; /* for a bell that rang before there was a queue */
    q->armed = 1;
}

static void nvmefs_delete(struct snic_nvmefs_dpu *d, const struct snic_nvmefs_ctl *m)
{
    struct nvmefs_queue *q = m->queue < d->opts.queues_max ? &d->queues[m->queue] : NULL;
    if (q == NULL || q->state == NVMEFS_QUEUE_CLOSED || q->generation != m->generation) {
        nvmefs_odd(d, m, SNIC_NVMEFS_CTL_DELETED, 0);
        return;
    }
    if (q->state == NVMEFS_QUEUE_DELETING)
        return;
    q->state = NVMEFS_QUEUE_DELETING;
    q->ctl_due = 0;
    nvmefs_queue_drain(d, q);
    nvmefs_queue_settle(d, q);
}

int snic_nvmefs_dpu_control(struct snic_nvmefs_dpu *d, const void *msg, size_t size)
{
    struct snic_nvmefs_ctl m;
    int r = snic_nvmefs_ctl_decode(&m, msg, size);
    if (r != 0 || d->detached)
        return r;
    if (m.queue >= SNIC_NVMEFS_QUEUES_MAX)
        return SNIC_EPROTO;
    switch (m.type) {
    case SNIC_NVMEFS_CTL_WINDOW:
        if (m.window >= SNIC_NVMEFS_WINDOWS_MAX || m.size > SNIC_NVMEFS__OFFSET_MASK)
            return SNIC_EPROTO;
        d->windows[m.window] = (struct nvmefs_window){m.key, m.size};
        return 0;
    case SNIC_NVMEFS_CTL_CREATE:
        nvmefs_create(d, &m);
        return 0;
    case SNIC_NVMEFS_CTL_DELETE:
        nvmefs_delete(d, &m);
        return 0;
    default:
        return SNIC_EPROTO;
    }
}

int snic_nvmefs_dpu_poll_control(struct snic_nvmefs_dpu *d, void *out)
{
    for (uint32_t i = 0; i < SNIC_NVMEFS_QUEUES_MAX; i++) {
        struct nvmefs_odd *o = &d->odd[i];
        struct snic_nvmefs_ctl m = {
            .type = o->type, .queue = (uint16_t)i, .generation = o->generation, .error = o->error};
        if (o->type == 0)
            continue;
        o->type = 0;
        snic_nvmefs_ctl_encode(out, &m);
        return 1;
    }
    for (uint32_t i = 0; i < d->opts.queues_max; i++) {
        struct nvmefs_queue *q = &d->queues[i];
        if (q->ctl_due == 0)
            continue;
        struct snic_nvmefs_ctl m = {.type = q->ctl_due,
                                    .queue = (uint16_t)i,
                                    .generation = q->generation,
                                    .error = q->error,
                                    .depth = q->depth,
                                    .data_max = d->data_max};
        q->ctl_due = 0;
        snic_nvmefs_ctl_encode(out, &m);
        return 1;
    }
    return 0;
}

/* ---- Bells ---- */

void snic_nvmefs_dpu_bell(struct snic_nvmefs_dpu *d, uint32_t queue)
{
    if (queue >= d->opts.queues_max || d->queues[queue].state != NVMEFS_QUEUE_OPEN)
        return;
    struct nvmefs_queue *q = &d->queues[queue];
    q->want_look = 1; /* also while a look is out: it may have looked too early */
    q->armed = 1;
    if (q->unrung) { /* it may have looked just before that completion */
        q->unrung = q->armed = 0;
        d->bells |= 1U << queue;
    }
}

uint32_t snic_nvmefs_dpu_poll_bells(struct snic_nvmefs_dpu *d)
{
    uint32_t bells = d->bells;
    d->bells = 0;
    d->stats.bells += (uint32_t)__builtin_popcount(bells);
    return bells;
}

int snic_nvmefs_dpu_peek(const struct snic_nvmefs_dpu *d, uint32_t queue,
                         struct snic_nvmefs_peek *out)
{
    if (queue >= d->opts.queues_max || d->queues[queue].state != NVMEFS_QUEUE_OPEN)
        return SNIC_ENOENT;
    const struct nvmefs_queue *q = &d->queues[queue];
    *out = (struct snic_nvmefs_peek){.key = d->windows[q->sq >> 48].key,
                                     .sq = q->sq & SNIC_NVMEFS__OFFSET_MASK,
                                     .sq_bytes = (q->depth + 1) * SNIC_NVMEFS_SQE_BYTES,
                                     .at = (q->head & (q->depth - 1)) * SNIC_NVMEFS_SQE_BYTES,
                                     .lap = nvmefs_turn(q->head, q->shift)};
    return q->never && !q->looking && !q->want_look;
}

void snic_nvmefs_dpu_tick(struct snic_nvmefs_dpu *d, uint32_t queue)
{
    if (queue < d->opts.queues_max && d->queues[queue].state == NVMEFS_QUEUE_OPEN)
        d->queues[queue].want_look = 1;
}

int snic_nvmefs_dpu_sleep(struct snic_nvmefs_dpu *d)
{
    int work = !snic_link_alone(&d->ready) || !snic_queue_empty(&d->again);
    for (uint32_t i = 0; i < d->opts.queues_max; i++) {
        struct nvmefs_queue *q = &d->queues[i];
        if (q->state != NVMEFS_QUEUE_OPEN)
            continue;
        if ((d->opts.flags & SNIC_NVMEFS_DPU_EAGER) != 0 && q->never) {
            q->turn = 1;
            q->want_look = 1;
        }
        work |= (q->want_look && !q->looking) || !snic_link_alone(&q->done) ||
                q->refused_head != q->refused_tail;
    }
    return work && !d->detached && !snic_queue_empty(&d->free_steps);
}

/* ---- What next ---- */

static struct nvmefs_step *nvmefs_next_of_queues(struct snic_nvmefs_dpu *d)
{
    for (uint32_t i = 0; i < d->opts.queues_max; i++) {
        uint32_t at = (d->next_queue + i) % d->opts.queues_max;
        struct nvmefs_queue *q = &d->queues[at];
        if (q->state != NVMEFS_QUEUE_OPEN)
            continue;
        struct nvmefs_step *s = NULL;
        if (!snic_link_alone(&q->done) || q->refused_head != q->refused_tail)
            s = nvmefs_post_begin(d, q);
        if (s == NULL)
            s = nvmefs_look_begin(d, q);
        if (s != NULL) {
            d->next_queue = (at + 1) % d->opts.queues_max;
            return s;
        }
    }
    return NULL;
}

struct snic_nvmefs_step *snic_nvmefs_dpu_poll_step(struct snic_nvmefs_dpu *d)
{
    if (d->detached)
        return NULL;
    struct snic_node *n = snic_queue_pop(&d->again);
    if (n != NULL)
        return SNIC_CONTAINER(n, struct snic_nvmefs_step, node);
    if (snic_queue_empty(&d->free_steps))
        return NULL;
    struct nvmefs_step *s;
    if (!snic_link_alone(&d->ready))
        s = nvmefs_cmd_step(d, SNIC_CONTAINER(d->ready.next, struct nvmefs_cmd, link));
    else
        s = nvmefs_next_of_queues(d);
    return s != NULL ? &s->user : NULL;
}

void snic_nvmefs_dpu_complete(struct snic_nvmefs_dpu *d, struct snic_nvmefs_step *user, int result)
{
    struct nvmefs_step *s = SNIC_CONTAINER(user, struct nvmefs_step, user);
    struct nvmefs_queue *q = &d->queues[s->queue];
    SNIC_ASSERT(s->kind != 0 && q->steps > 0);
    SNIC_ASSERT(d->steps_out > 0);
    d->stats.failures += result != 0;
    if (s->kind == NVMEFS_STEP_POST && result != 0 && !s->retried && !d->detached &&
        result != SNIC_EPEERDEAD && q->state == NVMEFS_QUEUE_OPEN && s->user.count > s->arms) {
        nvmefs_post_again(s);
        snic_queue_push(&d->again, &s->user.node);
        return;
    }
    enum nvmefs_step_kind kind = (enum nvmefs_step_kind)s->kind;
    q->steps--;
    d->steps_out--;
    s->kind = 0;
    if (kind == NVMEFS_STEP_LOOK)
        nvmefs_look_done(d, s, result);
    else if (kind == NVMEFS_STEP_CMD)
        nvmefs_cmd_done(d, s, result);
    else
        nvmefs_post_done(d, s, result);
    s->user.node.next = d->free_steps.first; /* last out, first in: it is in the cache */
    d->free_steps.first = &s->user.node;
    if (s->user.node.next == NULL)
        d->free_steps.last = &s->user.node;
    nvmefs_queue_settle(d, q);
}

void snic_nvmefs_dpu_get_stats(const struct snic_nvmefs_dpu *d, struct snic_nvmefs_dpu_stats *out)
{
    *out = d->stats;
}
