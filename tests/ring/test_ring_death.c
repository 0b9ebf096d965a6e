/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Processes that die at every step of what they do with a ring. A child is single-stepped through
 * an operation, instruction by instruction; what the shared memory holds after each is what a death
 * there leaves. Each such state is copied, and on the copy the death is certified: one call
 * of the supervisor must repair it, and the others continue at once. At some of the steps the child
 * is killed indeed, and the same is required of the ring itself.
 */
#include "test_ring_util.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DIE_PUSH,
    DIE_RESERVE,
    DIE_BATCH,
    DIE_WRAP,
    DIE_CANCEL,
    DIE_ATTACH,
    DIE_REPAIR, /* the supervisor, in the middle of a repair */
    DIE_COLLECT,
    DIES
};

/* The writer: the token is also the record's type. */
enum { DEAD = 1, LIVE = 2, NEXT = 3 };

struct death {
    int op;
    struct snic_ring_opts opts;
    size_t size;
    void *mem;           /* shared with the child */
    _Atomic int *done;   /* the child: the operation is over */
    unsigned char *copy; /* where repair is tried */
    unsigned char *last; /* what was tried last */
    struct snic_ring_producer live, victim;
    struct snic_ring_collector collector;
    uint64_t aux[256];
    int live_open;   /* a living producer has a reservation open */
    uint32_t before; /* records of the living */
};

static uint32_t records_of(int op)
{
    return op == DIE_BATCH ? 3 : op == DIE_CANCEL ? 0 : 1;
}

/* ---- The child ---- */

static void die_reserve(struct snic_ring_producer *p, uint32_t data, uint32_t body)
{
    struct snic_ring_rec rec;

    if (snic_ring_reserve(p, DEAD, data, body, &rec) != 0)
        _exit(2);
    pattern_fill(rec.data, DEAD, 0, data);
    if (body != 0)
        pattern_fill(rec.body, DEAD, data, body);
    snic_ring_commit(p);
}

static void die_batch(struct snic_ring_producer *p)
{
    struct snic_ring_rec recs[3];
    uint32_t sizes[3] = {8, 40, 1}, i;

    if (snic_ring_reserve_n(p, DEAD, sizes, 3, recs) != 0)
        _exit(2);
    for (i = 0; i < 3; i++)
        pattern_fill(recs[i].data, DEAD, 0, sizes[i]);
    snic_ring_commit(p);
}

static void die(struct death *d)
{
    struct snic_ring_producer *p = &d->victim;
    unsigned char bytes[8];
    struct snic_ring_rec rec;

    pattern_fill(bytes, DEAD, 0, sizeof(bytes));
    raise(SIGSTOP);
    switch (d->op) {
    case DIE_ATTACH:
        if (snic_ring_producer_attach(p, d->mem, d->size, DEAD) != 0)
            _exit(2);
        /* fallthrough */
    case DIE_PUSH:
        if (snic_ring_push(p, DEAD, bytes, sizeof(bytes)) != 0)
            _exit(2);
        break;
    case DIE_RESERVE:
    case DIE_WRAP:
        die_reserve(p, 20, 70);
        break;
    case DIE_BATCH:
        die_batch(p);
        break;
    case DIE_CANCEL:
        if (snic_ring_reserve(p, DEAD, 30, 0, &rec) != 0)
            _exit(2);
        snic_ring_cancel(p);
        break;
    case DIE_REPAIR:
        ignore(snic_ring_abandon(d->mem, d->size, DEAD));
        break;
    default:
        if (snic_ring_claim(&d->collector, &rec) != 1 ||
            snic_ring_claim_release(&d->collector, &rec) != 0)
            _exit(2);
        break;
    }
    *d->done = 1;
    _exit(0);
}

/* A child that stands before the operation, traced; 0: not allowed here. */
static pid_t die_start(struct death *d)
{
    int status = 0;
    pid_t child;

    *d->done = 0;
    child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(3);
        die(d);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 0;
    return WIFSTOPPED(status) ? child : 0;
}

/* One instruction further: 1, or 0 when the child has ended, which it does after a failure only. */
static int die_step(pid_t child)
{
    int status = 0;

    return ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

/* ---- What must hold after a death ---- */

/* A handle on the ring at @p mem that is otherwise @p p. */
static struct snic_ring_producer moved(struct snic_ring_producer p, void *mem)
{
    p.g.data = (unsigned char *)mem + (p.g.data - p.g.base);
    p.g.base = mem;
    return p;
}

static void take_all(struct death *d, void *mem, uint32_t count[4])
{
    struct snic_ring_consumer c;
    struct snic_ring_rec rec[32];
    int n, i;

    assert_int_equal(snic_ring_consumer_attach(&c, mem, d->size, NULL, 0), 0);
    while ((n = snic_ring_peek(&c, rec, 32)) > 0) {
        for (i = 0; i < n; i++) {
            assert_true(rec[i].type >= DEAD && rec[i].type <= NEXT);
            assert_true(pattern_ok(rec[i].data, rec[i].type, 0, rec[i].data_bytes));
            if (rec[i].body_bytes != 0)
                assert_true(
                    pattern_ok(rec[i].body, rec[i].type, rec[i].data_bytes, rec[i].body_bytes));
            count[rec[i].type]++;
        }
        assert_int_equal(snic_ring_release(&c, rec[n - 1].next), 0);
    }
    assert_int_equal(n, 0);
    assert_int_equal(snic_ring_space_notify(&c), 0);
    assert_int_equal(snic_ring_backlog(&c), 0);
}

/* What a consumer gets of the dead's records before the death is certified. */
static uint32_t seen_early(struct death *d, void *mem)
{
    struct snic_ring_consumer c;
    struct snic_ring_rec rec[32];
    uint32_t seen = 0;
    int i, n;

    assert_int_equal(snic_ring_consumer_attach(&c, mem, d->size, NULL, 0), 0);
    n = snic_ring_peek(&c, rec, 32);
    assert_true(n >= 0);
    for (i = 0; i < n; i++)
        seen += rec[i].type == DEAD;
    return seen;
}

/* Death certified, and repaired in one call once no living one is in the middle of a step. */
static void bury(struct death *d, void *mem)
{
    int r = snic_ring_abandon(mem, d->size, DEAD);

    if (d->live_open) {
        struct snic_ring_producer live = moved(d->live, mem);

        if (r == SNIC_EAGAIN)
            assert_int_equal(d->opts.discipline, SNIC_RING_QUIESCENT);
        snic_ring_commit(&live);
        if (r == SNIC_EAGAIN)
            r = snic_ring_abandon(mem, d->size, DEAD);
    }
    if (r != 0) /* it died before its attach, or after the supervisor before us had all but ended */
        assert_true(r == SNIC_ENOENT && (d->op == DIE_ATTACH || d->op == DIE_REPAIR));
    assert_int_equal(snic_ring_abandon(mem, d->size, DEAD), SNIC_ENOENT);
}

/* The others continue; nothing of theirs is lost or doubled; of the dead's, all or nothing. */
static void judge_request(struct death *d, void *mem, int done)
{
    uint32_t count[4] = {0};
    struct snic_ring_producer next;
    unsigned char bytes[24];
    uint32_t early = seen_early(d, mem);

    bury(d, mem);
    assert_int_equal(snic_ring_check(mem, d->size), 0); /* nothing waits for another push */
    assert_int_equal(snic_ring_producer_attach(&next, mem, d->size, NEXT), 0);
    pattern_fill(bytes, NEXT, 0, sizeof(bytes));
    assert_int_equal(snic_ring_push(&next, NEXT, bytes, sizeof(bytes)), 0);
    take_all(d, mem, count);
    assert_int_equal(count[NEXT], 1);
    assert_int_equal(count[LIVE], d->before);
    if (d->op == DIE_REPAIR)
        assert_int_equal(count[DEAD], 0);
    else if (done || early != 0 || count[DEAD] != 0)
        assert_int_equal(count[DEAD], records_of(d->op));
    assert_int_equal(snic_ring_check(mem, d->size), 0);
}

/* A dead collector's claim is returned as space; the rest goes to the living, once. */
static void judge_response(struct death *d, void *mem, int done)
{
    struct snic_ring_collector k;
    struct snic_ring_rec rec;
    uint32_t got = 0;
    int r = snic_ring_abandon(mem, d->size, DEAD);

    assert_int_equal(r, 0);
    assert_int_equal(snic_ring_collector_attach(&k, mem, d->size, NEXT), 0);
    for (; (r = snic_ring_claim(&k, &rec)) == 1; got++)
        assert_int_equal(snic_ring_claim_release(&k, &rec), 0);
    assert_int_equal(r, 0);
    assert_true(got == d->before - 1 || (got == d->before && !done));
    assert_int_equal(snic_get_le64((char *)mem + SNIC_RING_OFF_HEAD),
                     snic_get_le64((char *)mem + SNIC_RING_OFF_TAIL));
}

static void judge(struct death *d, void *mem, int done)
{
    if (d->op == DIE_COLLECT)
        judge_response(d, mem, done);
    else
        judge_request(d, mem, done);
}

/* ---- Scenes ---- */

static void scene_responses(struct death *d)
{
    struct snic_ring_responder r;
    struct snic_ring_op ops[4];
    struct snic_ring_rec rec;

    assert_int_equal(snic_ring_responder_attach(&r, d->mem, d->size, d->aux, sizeof(d->aux)), 0);
    for (d->before = 0; d->before < 3; d->before++) {
        assert_int_equal(snic_ring_resp_reserve(&r, 1, 8, 0, &rec), 0);
        assert_int_equal(snic_ring_resp_finish(&r, rec.position, 0), 0);
    }
    assert_int_equal(snic_ring_resp_flush(&r, ops, 4), 0);
    assert_int_equal(snic_ring_collector_attach(&d->collector, d->mem, d->size, DEAD), 0);
}

static void scene_push(struct death *d, struct snic_ring_producer *p, uint32_t type)
{
    unsigned char bytes[8];

    pattern_fill(bytes, type, 0, sizeof(bytes));
    assert_int_equal(snic_ring_push(p, type, bytes, sizeof(bytes)), 0);
    d->before += type == LIVE;
}

/* Bring the cursors to @p at: 16 bytes at a time, pushed and taken. */
static void scene_turn(struct death *d, struct snic_ring_producer *p, uint64_t at)
{
    struct snic_ring_consumer c;
    struct snic_ring_rec rec;

    assert_int_equal(snic_ring_consumer_attach(&c, d->mem, d->size, NULL, 0), 0);
    for (; at > 0; at -= 16) {
        assert_int_equal(snic_ring_push(p, LIVE, "", 0), 0);
        assert_int_equal(snic_ring_peek(&c, &rec, 1), 1);
        assert_int_equal(snic_ring_release(&c, rec.next), 0);
    }
    assert_int_equal(snic_ring_space_notify(&c), 0);
}

/* The ring as it is before the child's operation. */
static void scene_request(struct death *d)
{
    struct snic_ring_producer *first = &d->victim;
    struct snic_ring_rec rec;
    int one = d->opts.flags == SNIC_RING_ONE_PRODUCER;

    if (one || d->op != DIE_ATTACH)
        assert_int_equal(snic_ring_producer_attach(&d->victim, d->mem, d->size, DEAD), 0);
    if (!one) {
        assert_int_equal(snic_ring_producer_attach(&d->live, d->mem, d->size, LIVE), 0);
        first = &d->live;
    }
    scene_turn(d, first, d->op == DIE_WRAP ? 960 : 32);
    scene_push(d, first, LIVE);
    if (one && d->op == DIE_ATTACH)
        snic_ring_producer_detach(&d->victim);
    if (d->op == DIE_REPAIR) {
        assert_int_equal(snic_ring_reserve(&d->victim, DEAD, 100, 0, &rec), 0);
        if (!one)
            scene_push(d, &d->live, LIVE);
    }
    if (d->live_open) {
        assert_int_equal(snic_ring_reserve(&d->live, LIVE, 5, 0, &rec), 0);
        pattern_fill(rec.data, LIVE, 0, 5);
        d->before++;
    }
}

static void scene(struct death *d)
{
    assert_int_equal(snic_ring_init(d->mem, d->size, &d->opts), 0);
    d->before = 0;
    if (d->op == DIE_COLLECT)
        scene_responses(d);
    else
        scene_request(d);
}

/* Step through the operation and try each state of the memory; the number of steps, 0: no ptrace.
 */
static uint64_t die_everywhere(struct death *d, uint64_t *states)
{
    uint64_t steps = 0;
    pid_t child;

    scene(d);
    child = die_start(d);
    if (child == 0)
        return 0;
    memset(d->last, 0xff, d->size);
    do {
        steps++;
        if (memcmp(d->last, d->mem, d->size) == 0)
            continue;
        memcpy(d->last, d->mem, d->size);
        memcpy(d->copy, d->mem, d->size);
        judge(d, d->copy, 0);
        ++*states;
    } while (die_step(child) && !*d->done);
    assert_int_equal(*d->done, 1);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    judge(d, d->mem, 1);
    return steps;
}

static void die_indeed(struct death *d, uint64_t at)
{
    pid_t child;

    scene(d);
    child = die_start(d);
    assert_true(child != 0);
    while (at-- > 0 && die_step(child))
        ;
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    judge(d, d->mem, *d->done);
}

/* @p op in this kind of ring: every step by copy, and some kills. */
static void die_of(struct death *d, int op, struct snic_ring_opts opts, int live_open,
                   struct snic_rng *rng)
{
    uint64_t states = 0, steps, i;

    opts.kind = op == DIE_COLLECT ? SNIC_RING_RESPONSE : SNIC_RING_REQUEST;
    d->op = op;
    d->opts = opts;
    d->live_open = live_open;
    d->size = snic_ring_memsize(&opts);
    steps = die_everywhere(d, &states);
    if (steps == 0) {
        print_message("no single steps here\n");
        skip();
    }
    for (i = support_scale(3, 200); i > 0; i--)
        die_indeed(d, snic_rng_below(rng, steps));
    print_message("operation %d, discipline %u, flags %u, open %d: %llu steps, %llu states\n", op,
                  opts.discipline, opts.flags, live_open, (unsigned long long)steps,
                  (unsigned long long)states);
    assert_true(states > 1);
}

static struct death *death_open(void)
{
    struct death *d = calloc(1, sizeof(*d));
    size_t most = 65536;

    assert_non_null(d);
    d->mem = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    d->done =
        mmap(NULL, sizeof(*d->done), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    d->copy = aligned_alloc(4096, most);
    d->last = malloc(most);
    assert_true(d->mem != MAP_FAILED && d->done != MAP_FAILED && d->copy && d->last);
    return d;
}

static void death_close(struct death *d)
{
    munmap(d->mem, 65536);
    munmap((void *)d->done, sizeof(*d->done));
    free(d->copy);
    free(d->last);
    free(d);
}

/* A producer, or its supervisor, dies at any instruction among living ones. */
static void test_ring_producer_dies_at_every_step_others_go_on(void **state)
{
    struct death *d = death_open();
    struct snic_rng rng;
    uint32_t discipline;
    int op, live_open;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (discipline = 0; discipline < 2; discipline++)
        for (op = DIE_PUSH; op <= DIE_REPAIR; op++)
            for (live_open = 0; live_open < (op == DIE_REPAIR ? 1 : 2); live_open++) {
                struct snic_ring_opts o = request_opts(discipline, 1024);

                o.owners_max = 3;
                die_of(d, op, o, live_open, &rng);
            }
    death_close(d);
}

/* The only producer dies at any instruction; the next one takes its place at once. */
static void test_ring_one_producer_dies_at_every_step_next_goes_on(void **state)
{
    struct death *d = death_open();
    struct snic_rng rng;
    uint32_t discipline;
    int op;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (discipline = 0; discipline < 2; discipline++)
        for (op = DIE_PUSH; op <= DIE_REPAIR; op++) {
            struct snic_ring_opts o = request_opts(discipline, 1024);

            o.flags = SNIC_RING_ONE_PRODUCER;
            die_of(d, op, o, 0, &rng);
        }
    death_close(d);
}

/* A collector dies at any instruction of a claim and its release. */
static void test_ring_collector_dies_at_every_step_others_go_on(void **state)
{
    struct death *d = death_open();
    struct snic_rng rng;
    uint32_t discipline;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (discipline = 0; discipline < 2; discipline++) {
        struct snic_ring_opts o = request_opts(discipline, 1024);

        o.owners_max = 3;
        die_of(d, DIE_COLLECT, o, 0, &rng);
    }
    death_close(d);
}

/* ---- Not dead ---- */

static void sleepy_child(void *mem, size_t size)
{
    struct snic_ring_producer p;
    struct snic_ring_rec rec;

    if (snic_ring_producer_attach(&p, mem, size, DEAD) != 0 ||
        snic_ring_reserve(&p, DEAD, 8, 0, &rec) != 0)
        _exit(2);
    raise(SIGSTOP);
    pattern_fill(rec.data, DEAD, 0, 8);
    snic_ring_commit(&p);
    _exit(0);
}

/* A producer that is stopped for as long as you like is not dead: its record is waited for, not
 * skipped; other producers continue until M; when it wakes up, all arrives in order. */
static void test_ring_producer_stopped_is_waited_for(void **state)
{
    uint32_t discipline;

    (void)state;
    for (discipline = 0; discipline < 2; discipline++) {
        struct snic_ring_opts o = request_opts(discipline, 1024);
        size_t size;
        void *mem = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[64];
        uint32_t pushed = 0, looks;
        int status = 0, n;
        pid_t child;

        o.owners_max = 2;
        size = snic_ring_memsize(&o);
        assert_true(mem != MAP_FAILED);
        assert_int_equal(snic_ring_init(mem, size, &o), 0);
        assert_int_equal(snic_ring_producer_attach(&p, mem, size, LIVE), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, mem, size, NULL, 0), 0);
        child = fork();
        if (child == 0)
            sleepy_child(mem, size);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        while ((n = snic_ring_push(&p, LIVE, "", 0)) == 0)
            pushed++;
        assert_int_equal(n, SNIC_EAGAIN);
        assert_int_equal(pushed, 31);
        for (looks = 0; looks < 10000; looks++)
            assert_int_equal(snic_ring_peek(&c, rec, 64), 0);
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(snic_ring_peek(&c, rec, 64), 32);
        assert_true(rec[0].type == DEAD && pattern_ok(rec[0].data, DEAD, 0, 8));
        assert_true(rec[1].type == LIVE && rec[31].type == LIVE);
        munmap(mem, 65536);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_producer_dies_at_every_step_others_go_on),
        cmocka_unit_test(test_ring_one_producer_dies_at_every_step_next_goes_on),
        cmocka_unit_test(test_ring_collector_dies_at_every_step_others_go_on),
        cmocka_unit_test(test_ring_producer_stopped_is_waited_for),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
