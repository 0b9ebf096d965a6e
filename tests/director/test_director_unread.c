/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: clients that do not read their replies, and what others wait for meanwhile. */
#include <string.h>

#include "dirseen.h"
#include "director/director_priv.h"

enum { HOGS = 24, HOG_DEPTH = 100, HOG_REPLY = 60000, HOG_FLIGHT = 262144 };

/* Messages of the hogs that the host or the engine has. */
static uint32_t hogs_under_way(void)
{
    uint32_t n = 0;
    for (const struct snic_link *l = fix.d->all.next; l != &fix.d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        for (const struct snic_link *k = c->slots.next; k != &c->slots; k = k->next)
            n += SNIC_CONTAINER(k, struct director_slot, link)->state == DIRECTOR_SLOT_HOST &&
                 c->client.net->peer.node != fix.clients[HOGS].node;
    }
    return n;
}

/* Replies that the director holds for the hog that holds least. */
static uint64_t hogs_least(void)
{
    uint64_t least = UINT64_MAX;
    for (const struct snic_link *l = fix.d->all.next; l != &fix.d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->client.net->peer.node != fix.clients[HOGS].node)
            least = snic_min_u64(least, c->mem);
    }
    return least;
}

static void hogs_open(uint64_t seed)
{
    struct dirfix_opts o = options(seed, HOGS + 1);
    o.net_recv_size = 16000;
    o.ring_bytes = 1u << 20;
    o.local = seed % 2;
    o.host_delay_ns = 300000;
    o.director.flags = seed % 3 ? SNIC_DIRECTOR_IN_ORDER : 0;
    o.director.flight_bytes = HOG_FLIGHT;
    o.director.conn_bytes = 256u << 20;
    o.director.pool_bytes = 512u << 20;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i <= HOGS; i++)
        join(&fix, i);
    dirfix_run(&fix, 1000000);
    for (uint32_t i = 0; i < HOGS; i++) {
        fix.clients[i].paused = 1;
        snic_net_pause(fix.clients[i].conn, 1);
        for (uint32_t k = 0; k < HOG_DEPTH; k++)
            dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, HOG_REPLY, 0);
        dirfix_pump(&fix.clients[i]);
    }
}

/** However many clients do not read, a message of another one waits for as many of theirs as half
 *  of flight_bytes has room for, not for one of each; they get all replies when they read. */
static void test_director_unread_replies_delay_others_by_flight_only(void **state)
{
    uint32_t bound = HOG_FLIGHT / 2 / HOG_REPLY + 1; /* the last may overdraw */
    (void)state;
    for (uint64_t s = 0; s < support_rounds(6, 30); s++) {
        hogs_open(support_seed() * 100 + s);
        while (hogs_least() <= SNIC_DIRECTOR__UNREAD + (1u << 20))
            assert_int_equal(dirfix_step(&fix), 1);
        uint32_t most = 0;
        uint64_t waits = dirfix_stats(&fix).unread_waits;
        for (uint32_t round = 0; round < 20; round++) {
            uint32_t ok = seen[HOGS].ok;
            dirfix_send(&fix.clients[HOGS], DIRFIX_ECHO, 0, 0, 10, 0);
            dirfix_pump(&fix.clients[HOGS]);
            while (seen[HOGS].ok == ok) {
                most = (uint32_t)snic_max_u64(most, hogs_under_way());
                assert_int_equal(dirfix_step(&fix), 1);
            }
            assert_int_equal(snic_director_check(fix.d), 0);
        }
        assert_in_range(most, 1, bound);
        assert_true(dirfix_stats(&fix).unread_waits > waits);
        assert_int_equal(dirfix_stats(&fix).hog_resets, 0);
        for (uint32_t i = 0; i < HOGS; i++) {
            if (i % 4 == 3) { /* some leave without a look at them */
                dirfix_disconnect(&fix.clients[i], i % 8 == 3);
                continue;
            }
            fix.clients[i].paused = 0;
            snic_net_pause(fix.clients[i].conn, 0);
        }
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < HOGS; i++)
            assert_true(seen[i].ok == HOG_DEPTH || i % 4 == 3);
        assert_int_equal(snic_director_check(fix.d), 0);
        dirfix_close(&fix);
    }
}

/** While clients hold more than flight_bytes of replies, a new one begins with one message. */
static void test_director_unread_new_client_begins_with_one(void **state)
{
    (void)state;
    hogs_open(support_seed());
    while (hogs_least() <= HOG_FLIGHT)
        assert_int_equal(dirfix_step(&fix), 1);
    dirfix_disconnect(&fix.clients[0], 1);
    until_closed(&fix, &fix.clients[0]);
    struct dirfix_client *c = join(&fix, 0);
    while (!c->open)
        assert_int_equal(dirfix_step(&fix), 1);
    dirfix_run(&fix, 1000000);
    const struct snic_director_conn *last =
        SNIC_CONTAINER(fix.d->all.prev, struct snic_director_conn, link);
    assert_int_equal(last->window, 1);
    for (uint32_t i = 0; i <= HOGS; i++)
        dirfix_disconnect(&fix.clients[i], 1);
    dirfix_run(&fix, 50000000);
    assert_int_equal(dirfix_stats(&fix).conns, 0);
    assert_int_equal(fix.d->unread_flight, 0);
    dirfix_close(&fix);
}

static void passed(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

/* The simulated clock advances to events only. */
static void pass(uint64_t ns)
{
    struct snic_timer t;
    snic_timer_init(&t, passed);
    snic_loop_arm(fix.dpu, &t, snic_loop_clock(fix.dpu) + ns);
    dirfix_run(&fix, ns + 1);
    snic_loop_cancel(fix.dpu, &t);
}

/** A client that is not read from because of its unread replies, and one that holds more than a
 *  limit, are reset after their time only, and each has its own counter. */
static void test_director_unread_resets_of_share_and_limit_counted_apart(void **state)
{
    struct dirfix_opts o = options(support_seed(), 2);
    (void)state;
    o.director.conn_bytes = 256u << 10;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < 2; i++) {
        struct dirfix_client *c = join(&fix, i);
        dirfix_run(&fix, 1000000);
        c->paused = 1;
        snic_net_pause(c->conn, 1);
        for (uint32_t k = 0; k < HOG_DEPTH; k++)
            dirfix_send(c, DIRFIX_ECHO, 0, 0, HOG_REPLY, 0);
        dirfix_pump(c);
        pass(500000000);
        assert_int_equal(snic_director_reset_full(fix.d, i, 1000), 0);
        pass(1000000000);
        assert_int_equal(snic_director_reset_full(fix.d, i, 1000), 1);
        until_closed(&fix, c);
        assert_int_equal(dirfix_stats(&fix).share_resets, 1);
        assert_int_equal(dirfix_stats(&fix).full_resets, i);
    }
    dirfix_close(&fix);
}

/* ---- Memory that goes back ---- */

enum { TRIM_CHUNK = SNIC_DIRECTOR__CHUNK * SNIC_DIRECTOR__BLOCK };

/* What the director reads there again is not what it wrote. */
static void trim_release(void *ctx, void *mem, size_t size)
{
    uint64_t *released = ctx;
    memset(mem, 0xa5, size);
    assert_true(size <= TRIM_CHUNK && (uintptr_t)mem % SNIC_DIRECTOR__BLOCK == 0);
    *released += size;
}

static uint64_t trim_some(uint64_t keep, uint64_t most)
{
    uint64_t released = 0;
    uint64_t got = snic_director_trim(fix.d, keep, most, trim_release, &released);
    assert_int_equal(got, released);
    assert_int_equal(snic_director_check(fix.d), 0);
    return got;
}

/** What clients held that have gone goes back, but what is kept, and what was needed since the
 *  last call; the blocks in use are not touched. */
static void test_director_trim_returns_what_is_not_needed(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(3, 20); s++) {
        hogs_open(support_seed() * 100 + s);
        while (hogs_least() <= SNIC_DIRECTOR__UNREAD + (1u << 20))
            assert_int_equal(dirfix_step(&fix), 1);
        uint64_t held = fix.d->held;
        assert_int_equal(trim_some(0, UINT64_MAX), 0);
        assert_true(fix.d->chunks_empty * (uint64_t)TRIM_CHUNK <= TRIM_CHUNK);
        for (uint32_t i = 0; i < HOGS; i++)
            if (i % 2)
                dirfix_disconnect(&fix.clients[i], 1);
        dirfix_run(&fix, 10000000);
        for (uint32_t i = 1; i < HOGS; i += 2)
            until_closed(&fix, &fix.clients[i]);
        (void)trim_some(0, UINT64_MAX); /* they held it since the last call */
        for (uint32_t i = 0; i < HOGS; i += 2) {
            fix.clients[i].paused = 0;
            snic_net_pause(fix.clients[i].conn, 0);
        }
        dirfix_finish(&fix); /* each reply is compared */
        assert_int_equal(fix.d->held, 0);
        (void)trim_some(0, 0);
        assert_true(fix.d->chunks_empty > 8);
        assert_in_range(trim_some(0, 2 * TRIM_CHUNK), TRIM_CHUNK, 2 * TRIM_CHUNK);
        uint64_t left = fix.d->chunks_empty * (uint64_t)TRIM_CHUNK;
        assert_in_range(trim_some(left / 2, UINT64_MAX), left / 4, left / 2 + TRIM_CHUNK);
        uint64_t kept = fix.d->chunks_empty;
        dirfix_send(&fix.clients[HOGS], DIRFIX_ECHO, 0, 0, HOG_REPLY, 0);
        dirfix_pump(&fix.clients[HOGS]);
        dirfix_finish(&fix);
        (void)trim_some(0, UINT64_MAX); /* that reply was somewhere */
        assert_in_range(fix.d->chunks_empty, 1, 2);
        assert_true(kept > 2 && held > 8 * (uint64_t)TRIM_CHUNK);
        (void)trim_some(0, UINT64_MAX);
        assert_int_equal(fix.d->chunks_empty, 0);
        dirfix_send(&fix.clients[HOGS], DIRFIX_ECHO, 0, 0, HOG_REPLY, 0);
        dirfix_pump(&fix.clients[HOGS]);
        dirfix_finish(&fix);
        assert_int_equal(snic_director_check(fix.d), 0);
        dirfix_close(&fix);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_unread_replies_delay_others_by_flight_only),
        cmocka_unit_test(test_director_unread_new_client_begins_with_one),
        cmocka_unit_test(test_director_unread_resets_of_share_and_limit_counted_apart),
        cmocka_unit_test(test_director_trim_returns_what_is_not_needed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
