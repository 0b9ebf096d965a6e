/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hierarchical timing wheel (Varghese and Lauck, 1987, scheme 7) over 54-bit
 * ticks: nine levels of 64 slots, six bits of the tick each. A timer sits on the
 * level of the highest six-bit group in which its tick differs from now_tick, in
 * the slot which that group names. Time jumps from occupied slot to occupied slot
 * by the bitmaps; a slot of level 1 or above that time reaches is dealt to the
 * levels below, so a timer moves at most eight times.
 *
 * I1  A timer on level L agrees with now_tick in all groups above L, and its group
 *     L is greater than now_tick's; on level 0 also equal. So every timer of a
 *     level expires before every timer of a higher one, and within a level lower
 *     slots expire first: the earliest timer is in the lowest occupied slot of the
 *     lowest occupied level.
 * I2  A deadline before now_tick is kept as if its tick were now_tick. Hence
 *     now_tick never passes an occupied slot.
 * I3  Bit s of occupied[L] is set exactly if slots[L][s] is not empty.
 * I4  Bit s of sorted[L]: slots[L][s] is in order of (deadline, sequence). An empty
 *     slot may have either. Time-outs of one length come in order, so that the loop,
 *     which asks for the deadline before each sleep, hardly ever waits for a sort.
 * I5  next_known implies that next_ns is the earliest deadline of all, or
 *     SNIC_NEVER without timers.
 */
#include "snicstore/base.h"

#define SNIC_WHEEL__BITS 6
/* An arm looks at most this far back for its place before it leaves the slot unsorted. */
#define SNIC_WHEEL__STEPS 8
SNIC_STATIC_ASSERT(SNIC_WHEEL_SLOTS == 1 << SNIC_WHEEL__BITS, "six bits a level");
SNIC_STATIC_ASSERT(SNIC_WHEEL__BITS *SNIC_WHEEL_LEVELS + SNIC_WHEEL_TICK_SHIFT == 64,
                   "the levels cover every deadline");

static struct snic_timer *wheel_timer(struct snic_link *l)
{
    return SNIC_CONTAINER(l, struct snic_timer, link);
}

static int wheel_before(const struct snic_timer *a, const struct snic_timer *b)
{
    if (a->deadline_ns != b->deadline_ns)
        return a->deadline_ns < b->deadline_ns;
    return a->sequence < b->sequence;
}

/* level * 64 + index for a tick not before now_tick. */
static unsigned wheel_slot(uint64_t now_tick, uint64_t tick)
{
    uint64_t differ = now_tick ^ tick;
    unsigned level = 0;
    if (differ != 0)
        level = (63u - (unsigned)__builtin_clzll(differ)) / SNIC_WHEEL__BITS;
    unsigned index = (unsigned)(tick >> (level * SNIC_WHEEL__BITS)) & (SNIC_WHEEL_SLOTS - 1);
    return level * SNIC_WHEEL_SLOTS + index;
}

static void wheel_insert(struct snic_wheel *w, struct snic_timer *t)
{
    uint64_t tick = snic_max_u64(t->deadline_ns >> SNIC_WHEEL_TICK_SHIFT, w->now_tick); /* I2 */
    unsigned slot = wheel_slot(w->now_tick, tick);
    unsigned level = slot / SNIC_WHEEL_SLOTS;
    uint64_t bit = (uint64_t)1 << (slot % SNIC_WHEEL_SLOTS);
    struct snic_link *head = &w->slots[level][slot % SNIC_WHEEL_SLOTS];
    struct snic_link *after = head->prev;

    if (snic_link_alone(head)) {
        w->sorted[level] |= bit;
    } else if ((w->sorted[level] & bit) != 0) { /* I4 */
        unsigned steps = 0;
        while (after != head && steps < SNIC_WHEEL__STEPS && wheel_before(t, wheel_timer(after))) {
            after = after->prev;
            steps++;
        }
        if (after != head && wheel_before(t, wheel_timer(after))) {
            after = head->prev;
            w->sorted[level] &= ~bit;
        }
    }
    snic_link_append(after->next, &t->link);
    w->occupied[level] |= bit; /* I3 */
    t->slot = (uint16_t)slot;
}

static void wheel_remove(struct snic_wheel *w, struct snic_timer *t)
{
    unsigned level = t->slot / SNIC_WHEEL_SLOTS;
    unsigned index = t->slot % SNIC_WHEEL_SLOTS;

    SNIC_ASSERT(level < SNIC_WHEEL_LEVELS);
    snic_link_remove(&t->link);
    if (snic_link_alone(&w->slots[level][index]))
        w->occupied[level] &= ~((uint64_t)1 << index); /* I3 */
    if (t->deadline_ns == w->next_ns)
        w->next_known = 0; /* I5 */
    t->armed = 0;
    w->armed--;
}

/* Two chains in order, ended by NULL and joined by next, become one. */
static struct snic_link *wheel_merge(struct snic_link *a, struct snic_link *b)
{
    struct snic_link *first = NULL;
    struct snic_link **end = &first;
    while (a != NULL && b != NULL) {
        struct snic_link **least = wheel_before(wheel_timer(b), wheel_timer(a)) ? &b : &a;
        *end = *least;
        end = &(*least)->next;
        *least = *end;
    }
    *end = a != NULL ? a : b;
    return first;
}

/* Merge sort without recursion: runs[i] is empty or a sorted chain of 2^i timers. */
static void wheel_sort(struct snic_link *head)
{
    struct snic_link *runs[64] = {NULL};
    struct snic_link *rest = head->next;

    head->prev->next = NULL;
    while (rest != NULL) {
        struct snic_link *chain = rest;
        unsigned i = 0;
        rest = rest->next;
        chain->next = NULL;
        for (; runs[i] != NULL; i++) {
            chain = wheel_merge(runs[i], chain);
            runs[i] = NULL;
        }
        runs[i] = chain;
    }
    struct snic_link *all = NULL;
    for (unsigned i = 0; i < SNIC_COUNTOF(runs); i++)
        all = wheel_merge(runs[i], all);
    struct snic_link *last = head;
    for (; all != NULL; all = all->next) {
        last->next = all;
        all->prev = last;
        last = all;
    }
    last->next = head;
    head->prev = last;
}

/* The first timer of an occupied slot. */
static struct snic_timer *wheel_first(struct snic_wheel *w, unsigned level, unsigned index)
{
    uint64_t bit = (uint64_t)1 << index;
    if ((w->sorted[level] & bit) == 0) {
        wheel_sort(&w->slots[level][index]);
        w->sorted[level] |= bit;
    }
    return wheel_timer(w->slots[level][index].next);
}

/* The lowest occupied level; SNIC_WHEEL_LEVELS without timers. */
static unsigned wheel_level(const struct snic_wheel *w)
{
    unsigned level = 0;
    while (level < SNIC_WHEEL_LEVELS && w->occupied[level] == 0)
        level++;
    return level;
}

/* Time has reached a slot above level 0: deal its timers to the levels below. */
static void wheel_deal(struct snic_wheel *w, unsigned level, unsigned index, uint64_t start)
{
    struct snic_link *head = &w->slots[level][index];
    struct snic_link *l = head->next;

    SNIC_DASSERT(start > w->now_tick);
    w->now_tick = start;
    snic_link_init(head);
    w->occupied[level] &= ~((uint64_t)1 << index);
    while (l != head) {
        struct snic_link *next = l->next;
        wheel_insert(w, wheel_timer(l));
        l = next;
    }
}

void snic_wheel_init(struct snic_wheel *w, uint64_t now_ns)
{
    memset(w, 0, sizeof(*w));
    w->now_tick = now_ns >> SNIC_WHEEL_TICK_SHIFT;
    w->next_ns = SNIC_NEVER;
    w->next_known = 1;
    for (unsigned level = 0; level < SNIC_WHEEL_LEVELS; level++) {
        for (unsigned i = 0; i < SNIC_WHEEL_SLOTS; i++)
            snic_link_init(&w->slots[level][i]);
    }
}

void snic_wheel_arm(struct snic_wheel *w, struct snic_timer *t, uint64_t deadline_ns)
{
    if (t->armed)
        wheel_remove(w, t);
    t->deadline_ns = deadline_ns;
    t->sequence = w->sequence++;
    t->armed = 1;
    w->armed++;
    if (deadline_ns < w->next_ns)
        w->next_ns = deadline_ns; /* I5: a bound still, if not known */
    wheel_insert(w, t);
}

void snic_wheel_cancel(struct snic_wheel *w, struct snic_timer *t)
{
    if (t->armed)
        wheel_remove(w, t);
}

struct snic_timer *snic_wheel_pop(struct snic_wheel *w, uint64_t now_ns)
{
    uint64_t now_tick = now_ns >> SNIC_WHEEL_TICK_SHIFT;

    if (w->next_known && w->next_ns > now_ns)
        return NULL;
    for (;;) {
        unsigned level = wheel_level(w);
        if (level == SNIC_WHEEL_LEVELS)
            break;
        unsigned index = (unsigned)__builtin_ctzll(w->occupied[level]);
        if (level == 0) {
            struct snic_timer *t = wheel_first(w, 0, index);
            if (t->deadline_ns > now_ns)
                break;
            wheel_remove(w, t);
            return t;
        }
        /* Shifts stay below 64: level * 6 + 6 <= 54. */
        unsigned shift = level * SNIC_WHEEL__BITS;
        uint64_t above = w->now_tick >> (shift + SNIC_WHEEL__BITS) << (shift + SNIC_WHEEL__BITS);
        uint64_t start = above | (uint64_t)index << shift;
        if (start > now_tick)
            break;
        wheel_deal(w, level, index, start);
    }
    /* No occupied slot begins before now_tick, so time may move there: I1 and I2 hold. */
    w->now_tick = snic_max_u64(w->now_tick, now_tick);
    return NULL;
}

uint64_t snic_wheel_deadline_ns(struct snic_wheel *w)
{
    if (!w->next_known) {
        unsigned level = wheel_level(w);
        w->next_ns = SNIC_NEVER;
        if (level < SNIC_WHEEL_LEVELS) {
            unsigned index = (unsigned)__builtin_ctzll(w->occupied[level]);
            w->next_ns = wheel_first(w, level, index)->deadline_ns;
        }
        w->next_known = 1;
    }
    return w->next_ns;
}

/* I1 and I2 for one timer; the slot it was found in is its own. */
static int wheel_timer_true(const struct snic_wheel *w, const struct snic_timer *t, unsigned slot)
{
    uint64_t tick = snic_max_u64(t->deadline_ns >> SNIC_WHEEL_TICK_SHIFT, w->now_tick);
    return t->armed == 1 && t->slot == slot && wheel_slot(w->now_tick, tick) == slot &&
           t->sequence < w->sequence && (!w->next_known || t->deadline_ns >= w->next_ns);
}

int snic_wheel_check(const struct snic_wheel *w)
{
    uint64_t armed = 0;
    uint64_t earliest = SNIC_NEVER;

    for (unsigned slot = 0; slot < SNIC_WHEEL_LEVELS * SNIC_WHEEL_SLOTS; slot++) {
        unsigned level = slot / SNIC_WHEEL_SLOTS;
        unsigned index = slot % SNIC_WHEEL_SLOTS;
        const struct snic_link *head = &w->slots[level][index];
        int ordered = (w->sorted[level] >> index & 1) != 0;
        const struct snic_timer *last = NULL;
        if ((w->occupied[level] >> index & 1) != (uint64_t)!snic_link_alone(head))
            return SNIC_ECORRUPT; /* I3 */
        for (struct snic_link *l = head->next; l != head; l = l->next) {
            const struct snic_timer *t = wheel_timer(l);
            if (l->next->prev != l || l->prev->next != l || !wheel_timer_true(w, t, slot))
                return SNIC_ECORRUPT;
            if (ordered && last != NULL && !wheel_before(last, t))
                return SNIC_ECORRUPT; /* I4 */
            last = t;
            earliest = snic_min_u64(earliest, t->deadline_ns);
            if (++armed > w->armed)
                return SNIC_ECORRUPT; /* a list that does not end */
        }
    }
    if (w->next_known && w->next_ns != earliest)
        return SNIC_ECORRUPT; /* I5 */
    return armed == w->armed ? 0 : SNIC_ECORRUPT;
}
