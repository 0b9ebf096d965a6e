/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The core of the event loop: messages, deferred work, timers, tasks, pollers
 * and the order of one iteration. Backends are uring.c and sim.c.
 *
 * Invariants
 *   I1 `posted` is a list in reverse posting order, NULL, or &asleep. Posters
 *      only push; the owner only takes it whole. There is no pop of a single
 *      message, so no ABA.
 *   I2 The owner sleeps only after replacing NULL by &asleep. A poster that
 *      finds &asleep replaces it and wakes: exactly one wake per sleep.
 *   I3 A phase runs the messages and tasks that were there when it began, and
 *      as many timers as were armed then; what they add waits for the next
 *      iteration, but a timer that another arms for the present may run in this
 *      one. One that arms itself does not. So no phase starves the next one.
 *   I4 A task is on `ready`, on `turn`, running, or off; `running` is NULL once
 *      the running task was taken off, and it is not touched after that.
 */
#include "loop/loop_priv.h"

#define LOOP_ROUNDS 2 /* more of messages, at the end of an iteration (I3) */

/* ---- Messages ---- */

void snic_loop_post(struct snic_loop *l, struct snic_loop_msg *msg)
{
    SNIC_DASSERT(msg->fn != NULL);
    struct snic_node *old = atomic_load_explicit(&l->posted, memory_order_relaxed);
    do {
        msg->node.next = old == &l->asleep ? NULL : old;
        /* Release pairs with the acquire in loop_collect(): fn sees what we wrote. */
    } while (!atomic_compare_exchange_weak_explicit(&l->posted, &old, &msg->node,
                                                    memory_order_release, memory_order_relaxed));
    if (old == &l->asleep)
        l->ops->wake(l); /* I2 */
}

void snic_loop_defer(struct snic_loop *l, struct snic_loop_msg *msg)
{
    SNIC_DASSERT(msg->fn != NULL);
    snic_queue_push(&l->deferred, &msg->node);
}

void snic_loop_wake(struct snic_loop *l)
{
    /* Acquire and release: pairs with loop_wake_seen(). When the flag was set already, the
     * message that will clear it has yet to run, and the loop goes round for it. */
    if (atomic_exchange_explicit(&l->wake_pending, 1, memory_order_acq_rel) == 0)
        snic_loop_post(l, &l->wake_msg);
}

void loop_collect(struct snic_loop *l)
{
    if (atomic_load_explicit(&l->posted, memory_order_relaxed) == NULL)
        return;
    /* Acquire pairs with the release in snic_loop_post(). */
    struct snic_node *n = atomic_exchange_explicit(&l->posted, NULL, memory_order_acquire);
    struct snic_node *order = NULL;
    while (n != NULL && n != &l->asleep) {
        struct snic_node *next = n->next;
        n->next = order;
        order = n;
        n = next;
    }
    while (order != NULL) {
        struct snic_node *next = order->next;
        snic_queue_push(&l->deferred, order);
        order = next;
    }
}

static int loop_run_first(struct snic_loop *l, struct snic_queue *q)
{
    struct snic_node *n = snic_queue_pop(q);
    if (n == NULL)
        return 0;
    struct snic_loop_msg *msg = SNIC_CONTAINER(n, struct snic_loop_msg, node);
    l->stats.messages++;
    msg->fn(msg);
    return 1;
}

int loop_run_message(struct snic_loop *l)
{
    return loop_run_first(l, &l->deferred);
}

/* ---- Time ---- */

uint64_t snic_loop_now(const struct snic_loop *l)
{
    return l->now_ns;
}

uint64_t snic_loop_clock(const struct snic_loop *l)
{
    return l->ops->clock(l);
}

void snic_loop_arm(struct snic_loop *l, struct snic_timer *t, uint64_t deadline_ns)
{
    SNIC_DASSERT(t->fn != NULL);
    if (t == l->firing && l->timers) /* I3: once in an iteration */
        deadline_ns = snic_max_u64(deadline_ns, l->now_ns + 1);
    snic_wheel_arm(&l->wheel, t, deadline_ns);
}

void snic_loop_cancel(struct snic_loop *l, struct snic_timer *t)
{
    snic_wheel_cancel(&l->wheel, t);
}

int loop_run_timer(struct snic_loop *l)
{
    struct snic_timer *t = snic_wheel_pop(&l->wheel, l->now_ns);
    if (t == NULL)
        return 0;
    l->stats.timers++;
    l->firing = t;
    t->fn(t, l->now_ns); /* it may free the timer */
    l->firing = NULL;
    return 1;
}

/* ---- Tasks ---- */

void snic_loop_ready(struct snic_loop *l, struct snic_loop_task *task)
{
    SNIC_DASSERT(task->fn != NULL && task->quantum >= 1);
    if (snic_link_alone(&task->link))
        snic_link_append(&l->ready, &task->link);
}

void snic_loop_unready(struct snic_loop *l, struct snic_loop_task *task)
{
    snic_link_remove(&task->link);
    if (l->running == task)
        l->running = NULL; /* I4 */
}

int loop_run_task(struct snic_loop *l, struct snic_link *from)
{
    if (snic_link_alone(from))
        return 0;
    struct snic_loop_task *task = SNIC_CONTAINER(from->next, struct snic_loop_task, link);
    snic_link_remove(&task->link);
    l->stats.task_turns++;
    int64_t budget = (int64_t)task->deficit + (int64_t)task->quantum;
    if (budget > INT32_MAX)
        budget = INT32_MAX;
    if (budget <= 0) { /* still paying for an overdraft */
        task->deficit = (int32_t)budget;
        snic_link_append(&l->ready, &task->link);
        return 1;
    }
    l->running = task;
    uint32_t used = task->fn(task, (uint32_t)budget);
    if (l->running == NULL)
        return 1;
    l->running = NULL;
    if (used < (uint32_t)budget) { /* nothing left; it may have made itself ready again */
        task->deficit = 0;
        return 1;
    }
    int64_t left = budget - (int64_t)used;
    task->deficit = left < INT32_MIN ? INT32_MIN : (int32_t)left;
    if (snic_link_alone(&task->link))
        snic_link_append(&l->ready, &task->link);
    return 1;
}

/* ---- Pollers ---- */

void snic_loop_poller_add(struct snic_loop *l, struct snic_loop_poller *p)
{
    SNIC_DASSERT(p->fn != NULL);
    if (snic_link_alone(&p->link))
        snic_link_append(&l->pollers, &p->link);
    snic_loop_wake(l); /* it wants to be called before the next sleep */
}

void snic_loop_poller_remove(struct snic_loop *l, struct snic_loop_poller *p)
{
    if (l->poller_next == &p->link)
        l->poller_next = p->link.next;
    snic_link_remove(&p->link);
}

uint32_t loop_run_pollers(struct snic_loop *l, int sleeping)
{
    uint32_t busy = 0;
    for (struct snic_link *i = l->pollers.next; i != &l->pollers; i = l->poller_next) {
        struct snic_loop_poller *p = SNIC_CONTAINER(i, struct snic_loop_poller, link);
        l->poller_next = i->next;
        if (p->fn(p, sleeping) > 0)
            busy++;
    }
    l->poller_next = NULL;
    return busy;
}

/* ---- One iteration ---- */

/** Account a gap of @p gap_ns in which the loop did not go round. */
static void loop_gap(struct snic_loop *l, uint64_t gap_ns)
{
    if (gap_ns <= l->stall_ns)
        return;
    l->stats.stalls++;
    l->stats.stall_max_ns = snic_max_u64(l->stats.stall_max_ns, gap_ns);
    if (l->on_stall != NULL)
        l->on_stall(l->ctx, gap_ns);
}

/** Read the clock: once per iteration, and after a sleep. */
static void loop_tick(struct snic_loop *l)
{
    l->now_ns = snic_max_u64(l->now_ns, l->ops->clock(l));
    if (l->now_ns > l->awake_ns)
        loop_gap(l, l->now_ns - l->awake_ns);
    l->awake_ns = l->now_ns;
}

static int loop_has_work(const struct snic_loop *l)
{
    const struct snic_node *posted = atomic_load_explicit(&l->posted, memory_order_relaxed);
    return !snic_queue_empty(&l->deferred) || !snic_queue_empty(&l->leaving) ||
           !snic_link_alone(&l->ready) || (posted != NULL && posted != &l->asleep);
}

/** Those that are there now (I3). */
static uint64_t loop_run_messages(struct snic_loop *l, struct snic_queue *q)
{
    struct snic_node *last = q->last;
    uint64_t done = 0;
    for (int more = last != NULL; more; done++) {
        more = q->first != last;
        (void)loop_run_first(l, q);
    }
    return done;
}

/** All phases but the sleep; the number of things done. */
static uint64_t loop_dispatch(struct snic_loop *l)
{
    loop_tick(l);
    uint64_t done = l->ops->reap(l);
    l->stats.completions += done;

    loop_collect(l);
    done += loop_run_messages(l, &l->deferred);
    l->timers = 1;
    for (uint64_t most = l->wheel.armed; most > 0 && loop_run_timer(l); most--) /* I3 */
        done++;
    l->timers = 0;

    while (!snic_link_alone(&l->ready)) { /* I3 */
        struct snic_link *t = l->ready.next;
        snic_link_remove(t);
        snic_link_append(&l->turn, t);
    }
    while (loop_run_task(l, &l->turn))
        done++;

    /* What all this has deferred, and what that defers, leaves with the same system call. */
    for (int i = 0; i < LOOP_ROUNDS; i++)
        done += loop_run_messages(l, &l->deferred);
    done += loop_run_messages(l, &l->leaving);
    return done + loop_run_pollers(l, 0);
}

/** Nothing to do: look busily for spin_ns. 1 when something came up. */
static int loop_spin(struct snic_loop *l, uint64_t wait_ns)
{
    uint64_t now = l->ops->clock(l);
    uint64_t until = now + snic_min_u64(l->spin_ns, wait_ns);
    while (now < until) {
        if (l->ops->pending(l) || loop_has_work(l) || loop_run_pollers(l, 0) > 0)
            return 1;
        now = l->ops->clock(l);
        l->awake_ns = now; /* waiting on purpose is no stall */
    }
    return 0;
}

/** Publish that we sleep. 0 when there is work after all. */
static int loop_go_to_sleep(struct snic_loop *l)
{
    if (loop_run_pollers(l, 1) > 0 || loop_has_work(l))
        return 0;
    struct snic_node *none = NULL;
    /* I2. Acquire and release: the poller flags published above precede it, and a message
     * that beat us is seen whole. */
    return atomic_compare_exchange_strong_explicit(&l->posted, &none, &l->asleep,
                                                   memory_order_acq_rel, memory_order_acquire) ||
           none == &l->asleep;
}

static int loop_sleep(struct snic_loop *l, uint64_t max_wait_ns)
{
    uint64_t deadline = snic_wheel_deadline_ns(&l->wheel);
    uint64_t wait = deadline == SNIC_NEVER  ? SNIC_NEVER
                    : deadline <= l->now_ns ? 0
                                            : deadline - l->now_ns;
    wait = snic_min_u64(wait, max_wait_ns);
    if (l->spin_ns != 0) {
        if (l->ops->submit(l) != 0)
            return SNIC_EIO;
        if (loop_spin(l, wait))
            return 0;
        if (wait != SNIC_NEVER)
            wait -= snic_min_u64(wait, l->spin_ns);
    }
    if (!loop_go_to_sleep(l))
        return l->ops->submit(l);
    uint64_t from = l->ops->clock(l);
    if (wait != SNIC_NEVER) /* the time since the iteration began is gone already */
        wait -= snic_min_u64(wait, from - snic_min_u64(from, l->awake_ns));
    l->stats.sleeps++;
    int r = l->ops->wait(l, wait);
    /* Sleeping no longer than asked for is no stall; what comes on top is. */
    uint64_t woke = l->ops->clock(l);
    l->awake_ns = wait == SNIC_NEVER ? woke : snic_min_u64(woke, from + wait);
    return r;
}

/**
 * @p flush: submit what the last phase queued before returning. Without it that
 * waits for the next iteration, whose sleep submits in the same system call; but
 * an iteration that does not sleep always submits, or busy tasks would starve I/O.
 */
static int loop_iterate(struct snic_loop *l, uint64_t max_wait_ns, int flush)
{
    SNIC_ASSERT(!l->inside);
    l->inside = 1;
    l->stats.iterations++;
    if (l->external)
        l->awake_ns = l->ops->clock(l); /* the caller slept elsewhere */
    int r = 0;
    uint64_t done = loop_dispatch(l);
    if (done == 0 && max_wait_ns != 0 && !loop_has_work(l)) {
        r = loop_sleep(l, max_wait_ns);
        done = loop_dispatch(l);
    } else {
        flush = 1;
    }
    if (r == 0 && flush)
        r = l->ops->submit(l);
    if (l->external && !loop_go_to_sleep(l))
        done++;
    l->inside = 0;
    return r != 0 ? r : done > INT32_MAX ? INT32_MAX : (int)done;
}

int snic_loop_once(struct snic_loop *l, uint64_t max_wait_ns)
{
    if (l->ops->once != NULL)
        return l->ops->once(l);
    return loop_iterate(l, max_wait_ns, 1);
}

int snic_loop_run(struct snic_loop *l)
{
    int r = 1;
    l->stop = 0;
    while (!l->stop && r >= 0) {
        if (l->ops->once == NULL) {
            r = loop_iterate(l, SNIC_NEVER, 0);
        } else {
            r = l->ops->once(l);
            if (r == 0)
                return 0; /* nothing can ever happen again */
        }
    }
    if (r >= 0 && l->ops->once == NULL)
        r = l->ops->submit(l);
    return r < 0 ? r : 0;
}

void snic_loop_stop(struct snic_loop *l)
{
    l->stop = 1;
}

int snic_loop_fd(const struct snic_loop *l)
{
    if (l->ops->fd == NULL)
        return SNIC_ENOTSUP;
    /* The object is never const: `const` promises only that nothing visible changes. */
    struct snic_loop *self = (struct snic_loop *)(uintptr_t)l;
    int fd = self->ops->fd(self);
    if (fd < 0)
        return fd;
    self->external = 1;
    if (!self->inside && !loop_go_to_sleep(self))
        self->ops->wake(self); /* there is work already: readable at once */
    return fd;
}

uint64_t snic_loop_deadline(struct snic_loop *l)
{
    if (loop_has_work(l))
        return l->now_ns;
    return snic_wheel_deadline_ns(&l->wheel);
}

void snic_loop_get_stats(const struct snic_loop *l, struct snic_loop_stats *out)
{
    *out = l->stats;
}

/* ---- Regions ---- */

int snic_loop_region_add(struct snic_loop *l, void *mem, size_t size)
{
    if (size == 0)
        return SNIC_EINVAL;
    if (l->ops->region_add == NULL)
        return SNIC_ENOTSUP;
    for (uint32_t i = 0; i < l->regions_max; i++) {
        if (l->regions[i].base != NULL)
            continue;
        int r = l->ops->region_add(l, i, mem, size);
        if (r < 0)
            return r;
        l->regions[i].base = mem;
        l->regions[i].size = size;
        return (int)i;
    }
    return SNIC_ENOMEM;
}

void snic_loop_region_remove(struct snic_loop *l, int region)
{
    if (region < 0)
        return;
    SNIC_ASSERT((uint32_t)region < l->regions_max && l->regions[region].base != NULL);
    l->ops->region_remove(l, (uint32_t)region);
    l->regions[region].base = NULL;
    l->regions[region].size = 0;
}

int snic_loop_region_holds(const struct snic_loop *l, int region, const void *mem, size_t size)
{
    if (region < 0 || (uint32_t)region >= l->regions_max || l->regions[region].base == NULL)
        return 0;
    const struct loop_region *r = &l->regions[region];
    uintptr_t base = (uintptr_t)r->base;
    uintptr_t at = (uintptr_t)mem;
    return at >= base && size <= r->size && at - base <= r->size - size;
}

void snic_loop_close(struct snic_loop *l)
{
    if (l == NULL)
        return;
    SNIC_ASSERT(!l->inside);
    l->ops->close(l);
}

#undef LOOP_ROUNDS
