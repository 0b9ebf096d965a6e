/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The io door's conformance suite: waiting for room. */
#include "conformance_io_util.h"

enum { DEPTH = 3, USERS = 4, EACH = 24, QUIET = 8 };

/* A user of the handle: `wanted` requests, one or several at a time. */
struct user {
    struct snic_io_waiter waiter;
    struct snic_io *io;
    struct request r[EACH];
    uint32_t wanted;    /* requests still to be submitted */
    uint32_t submitted; /* and those that were */
    uint32_t calls;     /* of writable */
    uint32_t in_call;   /* of them from inside a call to the door */
    int result;         /* of the last submit */
    uint32_t *turns;    /* NULL, or the calls of writable of all users so far */
    uint32_t turn;      /* at which this one was called last */
    uint32_t gap_max;   /* most turns between two of its own */
};

static int calling; /* the door */

static void user_submit(struct user *u)
{
    while (u->wanted > 0) {
        struct snic_io_req *one = &u->r[u->submitted].req;
        calling++;
        u->result = snic_io_submit(u->io, &one, 1);
        calling--;
        if (u->result == 0) {
            calling++;
            snic_io_wait(u->io, &u->waiter);
            calling--;
        }
        if (u->result != 1)
            return;
        u->submitted++;
        u->wanted--;
    }
}

static void user_writable(struct snic_io_waiter *w)
{
    struct user *u = SNIC_CONTAINER(w, struct user, waiter);
    u->calls++;
    u->in_call += calling != 0;
    if (u->turns != NULL) {
        uint32_t now = ++*u->turns;
        u->gap_max = (uint32_t)snic_max_u64(u->gap_max, now - u->turn);
        u->turn = now;
    }
    assert_false(snic_io_waits(w));
    user_submit(u);
}

static void user_init(struct user *u, struct snic_io *io, unsigned char *mem)
{
    memset(u, 0, sizeof(*u));
    u->io = io;
    snic_io_waiter_init(&u->waiter, user_writable);
    for (uint32_t i = 0; i < EACH; i++)
        request_init(&u->r[i], io, SNIC_IO_WRITE, 0, mem, unit_of(io));
}

static uint32_t user_done(const struct user *u)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < u->submitted; i++)
        done += u->r[i].done != 0;
    return done;
}

/* Until all that was submitted is done, and then some: an event that is due has come by then. */
static void users_settle(struct conformance_io *c, struct user *u, uint32_t users)
{
    for (uint32_t quiet = 0; quiet < QUIET;) {
        uint32_t out = 0;
        for (uint32_t i = 0; i < users; i++)
            out += u[i].submitted - user_done(&u[i]);
        quiet = out == 0 ? quiet + 1 : 0;
        assert_true(snic_loop_once(c->loop, out == 0 ? 0 : SNIC_NEVER) >= 0);
    }
    for (uint32_t i = 0; i < users; i++)
        for (uint32_t k = 0; k < u[i].submitted; k++)
            assert_int_equal(u[i].r[k].done, 1);
}

static unsigned char *users_open(struct conformance_io *c, void **state, struct user *u,
                                 uint32_t users, uint32_t depth)
{
    (void)open_backend(c, state, depth);
    unsigned char *mem = buffer(unit_of(c->io));
    for (uint32_t i = 0; i < users; i++)
        user_init(&u[i], c->io, mem);
    return mem;
}

/* Without the event users would have to poll; a second one would come when nothing is free. */
void conformance_io_room_full_reported_once(void **state)
{
    struct conformance_io c;
    struct user u;
    unsigned char *mem = users_open(&c, state, &u, 1, DEPTH);
    u.wanted = DEPTH + 1;
    user_submit(&u);
    assert_int_equal(u.submitted, DEPTH);
    assert_int_equal(u.result, 0);
    assert_true(snic_io_waits(&u.waiter));
    snic_io_wait(c.io, &u.waiter); /* it waits already */
    assert_int_equal(u.calls, 0);
    users_settle(&c, &u, 1);
    assert_int_equal(u.submitted, DEPTH + 1);
    assert_int_equal(u.calls, 1);
    assert_int_equal(u.in_call, 0);
    assert_false(snic_io_waits(&u.waiter));
    conformance_io_close(&c);
    free(mem);
}

/* A user that waits when there is room already must not wait for ever. */
void conformance_io_room_there_reported_all_the_same(void **state)
{
    struct conformance_io c;
    struct user u;
    unsigned char *mem = users_open(&c, state, &u, 1, DEPTH);
    snic_io_wait(c.io, &u.waiter);
    assert_int_equal(u.calls, 0); /* not from inside the call */
    users_settle(&c, &u, 1);
    assert_int_equal(u.calls, 1);
    conformance_io_close(&c);
    free(mem);
}

/* A user that submits in each done must not keep the only place for ever. */
void conformance_io_room_greedy_starves_none(void **state)
{
    struct conformance_io c;
    struct user u[USERS];
    struct request greedy[2 * EACH];
    unsigned char *mem = users_open(&c, state, u, USERS, 1);
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        request_init(&greedy[i], c.io, SNIC_IO_WRITE, 0, mem, unit_of(c.io));
        greedy[i].chain = i + 1 < 2 * EACH ? &greedy[i + 1] : NULL;
    }
    assert_int_equal(request_submit(&greedy[0]), 1);
    for (uint32_t i = 0; i < USERS; i++) {
        u[i].wanted = 1;
        user_submit(&u[i]);
        assert_true(snic_io_waits(&u[i].waiter));
    }
    request_done_refused = 1; /* its second is refused: the others wait */
    request_wait(&greedy[0]);
    users_settle(&c, u, USERS);
    request_done_refused = 0;
    for (uint32_t i = 0; i < USERS; i++)
        assert_int_equal(user_done(&u[i]), 1);
    assert_int_equal(greedy[0].done, 1);
    assert_int_equal(greedy[1].done, 0);
    conformance_io_close(&c);
    free(mem);
}

/* Round robin: between two calls of a user there is at most one of every other. */
void conformance_io_room_users_take_turns(void **state)
{
    struct conformance_io c;
    struct user u[USERS];
    uint32_t turns = 0;
    unsigned char *mem = users_open(&c, state, u, USERS, 1);
    for (uint32_t i = 0; i < USERS; i++) {
        u[i].turns = &turns;
        u[i].wanted = EACH;
        user_submit(&u[i]);
        assert_int_equal(snic_io_waits(&u[i].waiter), 1);
    }
    assert_int_equal(u[0].submitted, 1);
    users_settle(&c, u, USERS);
    for (uint32_t i = 0; i < USERS; i++) {
        assert_int_equal(user_done(&u[i]), EACH);
        assert_true(u[i].gap_max <= USERS);
        assert_int_equal(u[i].in_call, 0);
    }
    conformance_io_close(&c);
    free(mem);
}

/* If a user leaves the queue or submits nothing, the next one is served. */
void conformance_io_room_left_passes_on(void **state)
{
    struct conformance_io c;
    struct user u[USERS];
    unsigned char *mem = users_open(&c, state, u, USERS, 1);
    for (uint32_t i = 0; i < USERS; i++) {
        u[i].wanted = i == 0 ? 1 : 2;
        user_submit(&u[i]);
    }
    snic_io_unwait(&u[0].waiter); /* which does not wait */
    snic_io_unwait(&u[1].waiter);
    u[2].wanted = 0;
    users_settle(&c, u, USERS);
    assert_int_equal(u[1].calls, 0);
    assert_int_equal(u[2].calls, 1);
    assert_int_equal(user_done(&u[3]), 2);
    u[1].wanted = 1;
    user_submit(&u[1]); /* without waiting */
    assert_int_equal(u[1].submitted, 1);
    users_settle(&c, u, USERS);
    conformance_io_close(&c);
    free(mem);
}

/* A user that is not called by a handle that closes waits for ever. */
void conformance_io_room_closed_reported(void **state)
{
    struct conformance_io c;
    struct user u[USERS];
    unsigned char *mem = users_open(&c, state, u, USERS, 1);
    for (uint32_t i = 0; i < USERS; i++) {
        u[i].wanted = 2;
        user_submit(&u[i]);
    }
    snic_io_close(c.io);
    c.io = NULL;
    assert_int_equal(u[0].r[0].done, 1);
    for (uint32_t i = 0; i < USERS; i++) {
        assert_int_equal(u[i].calls, 1);
        assert_int_equal(u[i].result, SNIC_ECANCELED);
        assert_false(snic_io_waits(&u[i].waiter));
    }
    conformance_io_close(&c);
    free(mem);
}
