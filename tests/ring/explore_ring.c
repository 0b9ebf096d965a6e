/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The explorer described in explore_ring.h. */
#include "explore_ring.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program with longer stories sets it when it is built. */
#ifndef EXPLORE_MESSAGES
#define EXPLORE_MESSAGES 10
#endif
#ifndef EXPLORE_LOG
#define EXPLORE_LOG 96
#endif
enum { WORDS = 32, MESSAGES = EXPLORE_MESSAGES, LOG = EXPLORE_LOG, LATES = 6, DEPTH = 400 };

typedef uint8_t view[WORDS];

struct message {
    uint64_t value;
    view seen;
};

struct op {
    uint8_t kind;
    uint8_t word;
    uint8_t order;
    uint8_t failure;
    uint64_t value;
    uint64_t expected;
    const char *func;
};

struct thread {
    uint16_t logged;
    uint8_t done;
    uint8_t lates;
    uint64_t outcome;
    view at;      /* what it may still read */
    view pending; /* what an acquire fence would add */
    struct {
        uint8_t word, from, have;
        uint64_t value;
    } late[LATES];
    struct op next;
    uint64_t log[LOG];
};

struct state {
    uint8_t count[WORDS];
    view sc;     /* newest seq_cst store per word */
    view fenced; /* the global view of seq_cst fences */
    struct thread thread[EXPLORE_THREADS];
    struct message message[WORDS][MESSAGES];
};

struct frame {
    struct state state;
    unsigned choice; /* next to be tried */
    char step[96];
};

static struct {
    const struct explore_scenario *s;
    const struct explore_mutation *m;
    int exploring; /* inside a body */
    jmp_buf leave;
    struct thread *t;
    unsigned index, replayed;
    unsigned seen_kind; /* operations of the mutation's kind and function so far in this run */
    const volatile void *address[WORDS];
    uint64_t initial[WORDS];
    unsigned words;
    int grew;
    const char *failure;
    struct frame *stack;
    unsigned depth;
    unsigned char *memory_start;
    unsigned char *private_copy[EXPLORE_THREADS];
    uint64_t *set;
    uint64_t set_size, set_used;
    uint64_t swapped; /* the mutation "T before P" remembers what it read early */
} x;

/* Kept over runs: the trace of a failure is printed after its run. */
static struct frame *trace;

/* ---- Inside a body ---- */

static int word_of(const volatile void *at)
{
    unsigned i;

    for (i = 0; i < x.words; i++)
        if (x.address[i] == at)
            return (int)i;
    if (x.words == WORDS) {
        fprintf(stderr, "explore: more than %d words\n", WORDS);
        abort();
    }
    x.grew = 1;
    x.address[x.words] = at;
    memcpy(&x.initial[x.words],
           x.memory_start + ((const volatile unsigned char *)at - (unsigned char *)x.s->memory), 8);
    return (int)x.words++;
}

static int weakened(enum explore_kind kind, const char *func)
{
    if (x.m == NULL || x.m->func == NULL || kind != x.m->kind || strcmp(func, x.m->func) != 0 ||
        (x.m->only != 0 && x.m->only != x.index + 1))
        return 0;
    return x.m->nth < 0 || x.m->nth == (int)x.seen_kind++;
}

static uint64_t step(enum explore_kind kind, const volatile void *at, uint64_t value,
                     uint64_t expected, int order, int failure, const char *func)
{
    struct op *op = &x.t->next;

    if (weakened(kind, func))
        order = memory_order_relaxed;
    if (x.replayed < x.t->logged)
        return x.t->log[x.replayed++];
    memset(op, 0, sizeof(*op));
    op->kind = (uint8_t)kind;
    op->word = at != NULL ? (uint8_t)word_of(at) : 0;
    op->order = (uint8_t)order;
    op->failure = (uint8_t)failure;
    op->value = value;
    op->expected = expected;
    op->func = func;
    longjmp(x.leave, 1);
}

/* A step, or a plain access: outside bodies (set-up, final checks), and to a thread's own memory.
 */
static int is_step(const volatile void *at)
{
    uintptr_t start = (uintptr_t)x.s->memory;

    return (uintptr_t)at - start < x.s->memory_bytes;
}

static uint64_t *plain(const volatile void *at)
{
    return (uint64_t *)(uintptr_t)at;
}

uint64_t explore_load(const volatile void *at, int order, const char *func)
{
    if (!x.exploring || !is_step(at))
        return *plain(at);
    if (x.m != NULL && x.m->swap_first != NULL && strcmp(func, x.m->func) == 0) {
        if (at == x.m->swap_second)
            return x.swapped;
        if (at == x.m->swap_first)
            x.swapped = step(EXPLORE_LOAD, x.m->swap_second, 0, 0, order, 0, func);
    }
    return step(EXPLORE_LOAD, at, 0, 0, order, 0, func);
}

void explore_store(volatile void *at, uint64_t value, int order, const char *func)
{
    if (x.exploring && is_step(at))
        (void)step(EXPLORE_STORE, at, value, 0, order, 0, func);
    else
        *plain(at) = value;
}

uint64_t explore_add(volatile void *at, uint64_t value, int order, const char *func)
{
    uint64_t old;

    if (x.exploring && is_step(at))
        return step(EXPLORE_ADD, at, value, 0, order, 0, func);
    old = *plain(at);
    *plain(at) = old + value;
    return old;
}

int explore_cas(volatile void *at, uint64_t *expected, uint64_t value, int order, int failure,
                const char *func)
{
    uint64_t seen =
        x.exploring ? step(EXPLORE_CAS, at, value, *expected, order, failure, func) : *plain(at);

    if (seen != *expected) {
        *expected = seen;
        return 0;
    }
    if (!x.exploring)
        *plain(at) = value;
    return 1;
}

void explore_fence(int order, const char *func)
{
    if (x.exploring)
        (void)step(EXPLORE_FENCE, NULL, 0, 0, order, 0, func);
}

uint64_t explore_late(const volatile void *at)
{
    return x.exploring ? step(EXPLORE_LATE, at, 0, 0, 0, 0, __func__) : *plain(at);
}

uint64_t explore_late_value(uint64_t number)
{
    return x.exploring ? step(EXPLORE_LATE_VALUE, NULL, number, 0, 0, 0, __func__) : number;
}

void explore_join_dead(unsigned thread)
{
    (void)step(EXPLORE_JOIN, NULL, thread, 0, 0, 0, __func__);
}

void explore_fail(const char *text)
{
    x.failure = text;
    if (x.exploring)
        longjmp(x.leave, 2);
}

/* Run thread @p index of @p st to its next step or its end. */
static void advance(struct state *st, unsigned index)
{
    struct thread *t = &st->thread[index];

    memcpy(x.private_copy[index], x.s->private_start[index], x.s->private_bytes[index]);
    x.t = t;
    x.index = index;
    x.replayed = 0;
    x.seen_kind = 0;
    x.exploring = 1;
    if (setjmp(x.leave) == 0) {
        uint64_t outcome = x.s->body[index](x.private_copy[index]);

        x.t->outcome = outcome;
        x.t->done = 1;
        memset(&x.t->next, 0, sizeof(x.t->next));
    }
    x.exploring = 0;
}

/* ---- Steps ---- */

static void join(view into, const view from)
{
    unsigned i;

    for (i = 0; i < WORDS; i++)
        if (into[i] < from[i])
            into[i] = from[i];
}

static int is_acquire(int order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst || order == memory_order_consume;
}

static int is_release(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static void log_result(struct thread *t, uint64_t value)
{
    if (t->logged == LOG) {
        fprintf(stderr, "explore: more than %d steps\n", LOG);
        abort();
    }
    t->log[t->logged++] = value;
}

static void read_message(struct state *st, struct thread *t, unsigned word, unsigned which,
                         int order)
{
    const struct message *m = &st->message[word][which];

    if (t->at[word] < which)
        t->at[word] = (uint8_t)which;
    join(t->pending, m->seen);
    if (is_acquire(order))
        join(t->at, m->seen);
}

static void write_message(struct state *st, struct thread *t, unsigned word, uint64_t value,
                          int order, const struct message *before)
{
    unsigned which = st->count[word]++;
    struct message *m;

    if (which == MESSAGES) {
        fprintf(stderr, "explore: more than %d stores to a word\n", MESSAGES);
        abort();
    }
    m = &st->message[word][which];
    t->at[word] = (uint8_t)which;
    memset(m, 0, sizeof(*m));
    m->value = value;
    if (is_release(order))
        memcpy(m->seen, t->at, sizeof(view));
    m->seen[word] = (uint8_t)which;
    if (before != NULL)
        join(m->seen, before->seen);
    if (order == memory_order_seq_cst)
        st->sc[word] = (uint8_t)which;
}

static int lates_open(const struct thread *t)
{
    unsigned i, n = 0;

    for (i = 0; i < t->lates; i++)
        n += !t->late[i].have;
    return n != 0;
}

static unsigned lowest(const struct state *st, const struct thread *t)
{
    unsigned least = t->at[t->next.word];

    if (t->next.order == memory_order_seq_cst && least < st->sc[t->next.word])
        least = st->sc[t->next.word];
    return least;
}

/* In how many ways can the thread's next step happen? 0: not now. */
static unsigned ways(const struct state *st, unsigned index)
{
    const struct thread *t = &st->thread[index];

    switch (t->next.kind) {
    case EXPLORE_LOAD:
        return st->count[t->next.word] - lowest(st, t);
    case EXPLORE_STORE:
    case EXPLORE_ADD:
    case EXPLORE_CAS:
        return !(is_release(t->next.order) && lates_open(t));
    case EXPLORE_FENCE:
        return !(t->next.order != memory_order_relaxed && lates_open(t));
    case EXPLORE_LATE:
        return 1;
    case EXPLORE_LATE_VALUE:
        return t->late[t->next.value].have;
    default: /* EXPLORE_JOIN */
        return st->thread[t->next.value].done && st->thread[t->next.value].outcome == EXPLORE_DEAD;
    }
}

static void do_cas(struct state *st, struct thread *t)
{
    unsigned word = t->next.word;
    unsigned newest = st->count[word] - 1U;
    struct message before = st->message[word][newest];

    log_result(t, before.value);
    if (before.value != t->next.expected) {
        read_message(st, t, word, newest, t->next.failure);
        return;
    }
    read_message(st, t, word, newest, t->next.order);
    write_message(st, t, word, t->next.value, t->next.order, &before);
}

static void do_step(struct state *st, unsigned index, unsigned way)
{
    struct thread *t = &st->thread[index];
    unsigned word = t->next.word;
    struct message before;

    switch (t->next.kind) {
    case EXPLORE_LOAD:
        way += lowest(st, t);
        log_result(t, st->message[word][way].value);
        read_message(st, t, word, way, t->next.order);
        break;
    case EXPLORE_STORE:
        log_result(t, 0);
        write_message(st, t, word, t->next.value, t->next.order, NULL);
        break;
    case EXPLORE_ADD:
        before = st->message[word][st->count[word] - 1];
        log_result(t, before.value);
        read_message(st, t, word, st->count[word] - 1U, t->next.order);
        write_message(st, t, word, before.value + t->next.value, t->next.order, &before);
        break;
    case EXPLORE_CAS:
        do_cas(st, t);
        break;
    case EXPLORE_FENCE:
        log_result(t, 0);
        if (is_acquire(t->next.order))
            join(t->at, t->pending);
        if (t->next.order == memory_order_seq_cst) {
            join(t->at, st->fenced);
            join(st->fenced, t->at);
        }
        break;
    case EXPLORE_LATE:
        log_result(t, t->lates);
        t->late[t->lates].word = (uint8_t)word;
        t->late[t->lates].from = t->at[word];
        t->lates++;
        break;
    case EXPLORE_LATE_VALUE:
        log_result(t, t->late[t->next.value].value);
        break;
    default:
        log_result(t, 0);
        join(t->at, st->thread[t->next.value].at);
        break;
    }
}

/*
 * Choice number @p choice of the state: a thread's step, the completion of a late load, or a
 * death. 1 and *next, 0 if there are not so many.
 */
static int choose(const struct state *st, unsigned choice, struct frame *next)
{
    unsigned i, k;

    for (i = 0; i < x.s->threads; i++) {
        const struct thread *t = &st->thread[i];
        unsigned n = t->done ? 0 : ways(st, i);

        if (choice < n) {
            next->state = *st;
            snprintf(next->step, sizeof(next->step),
                     "thread %u: %s kind %u word %u value %llx way %u", i, t->next.func,
                     t->next.kind, t->next.word, (unsigned long long)t->next.value, choice);
            do_step(&next->state, i, choice);
            advance(&next->state, i);
            return 1;
        }
        choice -= n;
        for (k = 0; k < t->lates; k++) {
            unsigned from = t->late[k].from;

            n = t->late[k].have ? 0 : st->count[t->late[k].word] - from;
            if (choice < n) {
                next->state = *st;
                snprintf(next->step, sizeof(next->step), "thread %u: late load %u done", i, k);
                next->state.thread[i].late[k].have = 1;
                next->state.thread[i].late[k].value =
                    st->message[t->late[k].word][from + choice].value;
                return 1;
            }
            choice -= n;
        }
        if ((x.s->killable >> i & 1) != 0 && !t->done) {
            if (choice == 0) {
                next->state = *st;
                snprintf(next->step, sizeof(next->step), "thread %u dies", i);
                next->state.thread[i].done = 1;
                next->state.thread[i].outcome = EXPLORE_DEAD;
                next->state.thread[i].lates = 0;
                return 1;
            }
            choice--;
        }
    }
    return 0;
}

/* ---- States seen ---- */

static void mix(uint64_t h[2], uint64_t v)
{
    h[0] = (h[0] ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    h[0] ^= h[0] >> 29;
    h[1] = (h[1] + v) * UINT64_C(0xc2b2ae3d27d4eb4f);
    h[1] ^= h[1] >> 31;
}

static void mix_bytes(uint64_t h[2], const void *at, size_t bytes)
{
    const unsigned char *p = at;
    uint64_t v;

    for (; bytes >= 8; p += 8, bytes -= 8) {
        memcpy(&v, p, 8);
        mix(h, v);
    }
    if (bytes != 0) {
        v = 0;
        memcpy(&v, p, bytes);
        mix(h, v);
    }
}

static void hash_state_sc(const struct state *st, uint64_t h[2])
{
    unsigned i;

    for (i = 0; i < x.words; i++)
        mix(h, st->message[i][st->count[i] - 1].value);
    for (i = 0; i < x.s->threads; i++) {
        const struct thread *t = &st->thread[i];

        mix(h, t->done ? t->outcome : (uint64_t)t->logged << 8);
        mix(h, t->done);
        if (!t->done)
            mix_bytes(h, t->log, t->logged * sizeof(t->log[0]));
    }
    h[0] |= 1; /* 0 marks a free place */
}

static void hash_state(const struct state *st, uint64_t h[2])
{
    unsigned i, k;

    h[0] = 1;
    h[1] = 2;
    if (x.s->sc) {
        hash_state_sc(st, h);
        return;
    }
    mix_bytes(h, st->sc, sizeof(view));
    mix_bytes(h, st->fenced, sizeof(view));
    for (i = 0; i < x.words; i++) {
        mix(h, st->count[i]);
        for (k = 0; k < st->count[i]; k++)
            mix_bytes(h, &st->message[i][k], sizeof(struct message));
    }
    for (i = 0; i < x.s->threads; i++) {
        const struct thread *t = &st->thread[i];

        mix(h, (uint64_t)t->logged << 8 | t->done);
        mix(h, t->outcome);
        mix_bytes(h, t->at, sizeof(view));
        mix_bytes(h, t->pending, sizeof(view));
        for (k = 0; k < t->lates; k++) {
            mix(h, t->late[k].have);
            mix(h, t->late[k].value);
        }
        mix_bytes(h, t->log, t->logged * sizeof(t->log[0]));
    }
    h[0] |= 1; /* 0 marks a free place */
}

static int seen_put(uint64_t *set, uint64_t size, const uint64_t h[2])
{
    uint64_t i = h[0] >> 1 & (size - 1);

    while (set[i * 2] != 0) {
        if (set[i * 2] == h[0] && set[i * 2 + 1] == h[1])
            return 1;
        i = (i + 1) & (size - 1);
    }
    set[i * 2] = h[0];
    set[i * 2 + 1] = h[1];
    return 0;
}

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (p == NULL)
        abort();
    return p;
}

static int seen(const struct state *st)
{
    uint64_t h[2];

    if (x.set_used * 2 > x.set_size) {
        uint64_t *bigger = allocate(x.set_size * 4, sizeof(uint64_t));
        uint64_t i;

        for (i = 0; i < x.set_size; i++)
            if (x.set[i * 2] != 0)
                (void)seen_put(bigger, x.set_size * 2, &x.set[i * 2]);
        free(x.set);
        x.set = bigger;
        x.set_size *= 2;
    }
    hash_state(st, h);
    if (seen_put(x.set, x.set_size, h))
        return 1;
    x.set_used++;
    return 0;
}

/* ---- The search ---- */

static void first_state(struct state *st)
{
    unsigned i;

    memset(st, 0, sizeof(*st));
    for (i = 0; i < WORDS; i++) {
        st->count[i] = 1;
        st->message[i][0].value = x.initial[i];
    }
    for (i = 0; i < x.s->threads; i++)
        advance(st, i);
    for (i = 0; i < WORDS; i++)
        st->message[i][0].value = x.initial[i];
}

/* All bodies ended: put the newest values into memory and let the scenario judge. */
static void judge(const struct state *st)
{
    uint64_t outcome[EXPLORE_THREADS];
    unsigned i;

    memcpy(x.s->memory, x.memory_start, x.s->memory_bytes);
    for (i = 0; i < x.words; i++)
        *plain(x.address[i]) = st->message[i][st->count[i] - 1].value;
    for (i = 0; i < EXPLORE_THREADS; i++)
        outcome[i] = st->thread[i].outcome;
    if (x.s->final != NULL)
        x.s->final(outcome);
    memcpy(x.s->memory, x.memory_start, x.s->memory_bytes);
}

static int all_done(const struct state *st)
{
    unsigned i;

    for (i = 0; i < x.s->threads; i++)
        if (!st->thread[i].done)
            return 0;
    return 1;
}

static void search(struct explore_result *r)
{
    x.depth = 0;
    first_state(&x.stack[0].state);
    x.stack[0].choice = 0;
    snprintf(x.stack[0].step, sizeof(x.stack[0].step), "start");
    r->states = 1;
    for (;;) {
        struct frame *f = &x.stack[x.depth];
        struct frame *next = f + 1;

        if (x.failure != NULL)
            return;
        if (!choose(&f->state, f->choice, next)) {
            if (f->choice == 0 && all_done(&f->state)) {
                r->ends++;
                judge(&f->state);
                if (x.failure != NULL)
                    return;
            } else if (f->choice == 0) {
                x.failure = "no thread can go on";
                return;
            }
            if (x.depth == 0)
                return;
            x.depth--;
            continue;
        }
        f->choice++;
        if (x.failure == NULL && seen(&next->state))
            continue;
        r->states++;
        next->choice = 0;
        if (++x.depth + 1 == DEPTH) {
            fprintf(stderr, "explore: deeper than %d steps\n", DEPTH);
            abort();
        }
    }
}

struct explore_result explore_run(const struct explore_scenario *s,
                                  const struct explore_mutation *m)
{
    struct explore_result r;
    unsigned i;

    memset(&x, 0, sizeof(x));
    x.s = s;
    x.m = m;
    if (trace == NULL)
        trace = allocate(DEPTH, sizeof(struct frame));
    x.stack = trace;
    x.memory_start = allocate(1, s->memory_bytes);
    memcpy(x.memory_start, s->memory, s->memory_bytes);
    for (i = 0; i < s->threads; i++)
        x.private_copy[i] = allocate(1, s->private_bytes[i]);
    do { /* again whenever a word was met that earlier states did not know */
        x.grew = 0;
        x.failure = NULL;
        free(x.set);
        x.set_size = 1 << 16;
        x.set_used = 0;
        x.set = allocate(x.set_size * 2, sizeof(uint64_t));
        memset(&r, 0, sizeof(r));
        search(&r);
    } while (x.grew);
    r.failure = x.failure;
    free(x.set);
    free(x.memory_start);
    for (i = 0; i < s->threads; i++)
        free(x.private_copy[i]);
    return r;
}

void explore_print_trace(void)
{
    unsigned i;

    for (i = 0; x.stack != NULL && i <= x.depth + 1; i++)
        fprintf(stderr, "  %s\n", x.stack[i].step);
}
