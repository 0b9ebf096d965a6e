/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: how connections, hosts and the director itself end; errors; bounds. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "dirseen.h"

/* ---- Contract ---- */

/** Options outside their ranges, memory too small, functions missing: refused. */
static void test_director_bad_options_are_refused(void **state)
{
    struct snic_director_opts o = {.opts_size = sizeof(o)};
    struct dirfix_opts fo = options(support_seed(), 0);
    struct snic_director *d = NULL;
    (void)state;
    assert_true(snic_director_memsize(&o) > (64u << 20));
    o.flags = 2;
    assert_int_equal(snic_director_memsize(&o), 0);
    o.flags = 0;
    o.conns_max = 70000;
    assert_int_equal(snic_director_memsize(&o), 0);
    o.conns_max = 1000;
    o.pool_bytes = 1 << 20;
    assert_int_equal(snic_director_memsize(&o), 0);
    o.pool_bytes = 0;
    o.conn_bytes = 100;
    assert_int_equal(snic_director_memsize(&o), 0);
    o.conn_bytes = 0;
    o.signatures_count = 1;
    assert_int_equal(snic_director_memsize(&o), 0);
    dirfix_open(&fix, &fo);
    size_t n = snic_director_memsize(&fix.o.director);
    void *mem = support_guard_alloc(n - 1, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&d, mem, n - 1, fix.net, NULL, &fix.user, &fix.o.director),
                     SNIC_ENOSPC);
    assert_int_equal(
        snic_director_init(&d, (char *)mem + 64, n, fix.net, NULL, &fix.user, &fix.o.director),
        SNIC_EINVAL);
    struct snic_director_user u = fix.user;
    u.frame = NULL;
    assert_int_equal(snic_director_init(&d, mem, n, fix.net, NULL, &u, &fix.o.director),
                     SNIC_EINVAL);
    assert_null(d);
    support_guard_free(mem);
    assert_int_equal(snic_director_listen(fix.d, &fix.addr, 0, NULL), SNIC_EADDRINUSE);
    dirfix_close(&fix);
}

/** More connections than conns_max are refused; a place that is free again is used again. */
static void test_director_full_connection_is_refused(void **state)
{
    struct dirfix_opts o = options(support_seed(), 4);
    (void)state;
    o.director.conns_max = 3;
    dirfix_open(&fix, &o);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3; i++)
            join(&fix, i);
        dirfix_run(&fix, 1000000);
        struct dirfix_client *c = join(&fix, 3);
        until_closed(&fix, c);
        assert_int_equal(c->reason, SNIC_ECONNRESET);
        assert_int_equal(dirfix_stats(&fix).refused, (uint64_t)round + 1);
        for (uint32_t i = 0; i < 3; i++)
            dirfix_disconnect(&fix.clients[i], i == 1);
        dirfix_run(&fix, 10000000);
        assert_int_equal(dirfix_stats(&fix).conns, 0);
    }
    dirfix_close(&fix);
}

/** Flows outside the signatures go to the net host untouched, or are refused without one. */
static void test_director_signature_decides(void **state)
{
    struct snic_director_signature sig = {
        .client = {.family = SNIC_NET_SIM, .node = DIRFIX_CLIENT}};
    struct dirfix_opts o = options(support_seed(), 2);
    (void)state;
    o.director.signatures = &sig;
    o.director.signatures_count = 1;
    dirfix_open(&fix, &o);
    struct dirfix_client *c = join(&fix, 1);
    until_closed(&fix, c);
    assert_int_equal(dirfix_stats(&fix).refused, 1);
    join(&fix, 0);
    dirfix_send(&fix.clients[0], DIRFIX_PING, 0, 0, 0, 0);
    dirfix_pump(&fix.clients[0]);
    dirfix_finish(&fix);
    assert_int_equal(seen[0].paths[DIRFIX_BY_RULE], 1);
    dirfix_close(&fix);
    o.net = 1;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < 2; i++) {
        c = join(&fix, i);
        dirfix_send(c, DIRFIX_PING, 0, 0, 0, 0);
        dirfix_pump(c);
    }
    dirfix_finish(&fix);
    assert_int_equal(seen[0].paths[DIRFIX_BY_RULE], 1);
    assert_int_equal(seen[1].paths[DIRFIX_BY_HOST], 1); /* PING went through */
    assert_int_equal(dirfix_stats(&fix).passed_through, 1);
    dirfix_close(&fix);
}

/** The user word is the connection's, goes with each message, and messages keep their order. */
static void test_director_user_word_travels(void **state)
{
    struct dirfix_opts o = options(support_seed(), 2);
    (void)state;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < 2; i++) {
        struct dirfix_client *c = join(&fix, i);
        for (uint32_t k = 0; k < 30; k++) {
            dirfix_send(c, DIRFIX_WORD, 0, 0, k + i * 100, 0);
            dirfix_send(c, DIRFIX_ECHO, 'w', (uint16_t)(k + i * 100), 3, 0); /* host compares */
        }
        dirfix_pump(c);
    }
    dirfix_finish(&fix);
    assert_int_equal(seen[0].ok, 60);
    assert_int_equal(seen[1].ok, 60);
    dirfix_close(&fix);
}

static void first_value(struct dirfix_client *c, const struct dirfix_msg *m,
                        const unsigned char *body)
{
    struct seen *s = c->user;
    (void)body;
    if (m->id == 0)
        s->last_value = m->value;
}

/** A write waits for the offloaded reads before it: one that ends at the host sees the old value.
 */
static void test_director_write_waits_for_reads_before_it(void **state)
{
    (void)state;
    for (int net = 0; net < 2; net++) {
        struct dirfix_opts o = options(support_seed(), 2);
        uint64_t nonsense[3] = {0, 0, 100};
        uint64_t hash = 0;
        o.net = net;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 1), 1);
        nonsense[0] = fix.file;
        hash = dirfix_hash(&fix, 0);
        assert_int_equal(snic_offload_cache(fix.offload, &hash, nonsense, fix.version), 1);
        struct dirfix_client *c = join(&fix, 0);
        c->reply = first_value;
        dirfix_send(c, DIRFIX_GET, 0, 0, 0, 0);
        dirfix_send(c, DIRFIX_SET, 0, 0, 5, 0);
        dirfix_send(c, DIRFIX_GET, 0, 0, 0, 0);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(fix.mismatches, 1);
        assert_int_equal(seen[0].last_value, 1000);
        assert_int_equal(dirfix_stats(&fix).offload_to_host, 1);
        dirfix_close(&fix);
    }
}

/* ---- Errors in what clients send ---- */

/** A broken message is answered, in its turn, and the connection closed; what follows is dropped.
 */
static void test_director_protocol_error_answers_and_closes(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 10; s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 1);
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        dirfix_send(c, DIRFIX_HOLD, 0, 0, 300, 0);
        dirfix_send(c, DIRFIX_PING, 0, 0, 0, 0);
        dirfix_send(c, s % 2 ? DIRFIX_BAD : DIRFIX_BYE, 0, 0, 0, 40);
        for (int i = 0; i < 50; i++)
            dirfix_send(c, DIRFIX_SET, 0, 1, 5, 100);
        dirfix_pump(c);
        until_closed(&fix, c);
        assert_int_equal(seen[0].ok, s % 2 ? 2 : 3);
        assert_int_equal(seen[0].error, s % 2);
        assert_int_equal(fix.keys[1].version, 0); /* nothing behind it was done */
        assert_int_equal(dirfix_stats(&fix).protocol_errors, s % 2);
        dirfix_close(&fix);
    }
}

/** A message above message_max ends the connection; one that the framer drops does not. */
static void test_director_too_large_is_refused(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 10; s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 1);
        o.director.message_max = 5000;
        o.net_recv_size = s % 2 ? 700 : 16000;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        for (uint32_t i = 0; i < 20; i++) {
            dirfix_send(c, DIRFIX_BIG, 0, 0, 0, 1000 * i);
            dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 4000);
        }
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 20);
        assert_int_equal(seen[0].error, 20);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 5001 - DIRFIX_HEAD);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 0);
        dirfix_pump(c);
        until_closed(&fix, c);
        assert_int_equal(seen[0].ok, 20);
        assert_int_equal(seen[0].error, 21);
        dirfix_close(&fix);
    }
}

/** Long messages cross the channel in pieces, several clients at once, between short ones. */
static void test_director_long_messages_go_in_pieces(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 4);
        o.local = s % 2 == 0;
        o.net = s % 3 == 2;
        o.director.message_max = 700000;
        o.director.pool_bytes = 16u << 20;
        o.net_recv_size = 16000;
        dirfix_open(&fix, &o);
        for (uint32_t i = 0; i < 4; i++) {
            struct dirfix_client *c = join(&fix, i);
            c->max_piece = 20000;
            for (uint32_t k = 0; k < 6; k++) {
                dirfix_send(c, DIRFIX_ECHO, 0, 0, k * 70000, (k + i * 2) % 6 * 100000 + 20000);
                dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 10);
                dirfix_send(c, DIRFIX_PING, 0, 0, 10, 10);
            }
            dirfix_pump(c);
        }
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(seen[i].ok, 18);
        dirfix_close(&fix);
    }
}

/* ---- Clients end ---- */

/** QUIT's reply is the last; half-close still gets every answer; reset at any step leaks nothing.
 */
static void test_director_client_ends_in_every_way(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(120, 2000); s++) {
        struct dirfix_opts o = options(support_seed() * 10000 + s, 3);
        o.host_delay_ns = 50000;
        o.net = s % 4 == 3;
        o.no_offload = o.net;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        struct dirfix_client *other = join(&fix, 1);
        put_keys(&fix, other, 8);
        uint32_t ok = seen[1].ok;
        for (uint32_t i = 0; i < 12; i++) {
            dirfix_send(c, DIRFIX_GET, 0, (uint16_t)(i % 8), 0, 10);
            dirfix_send(c, i % 3 ? DIRFIX_ECHO : DIRFIX_SET, 0, 60, 5000, 10);
            dirfix_send(other, DIRFIX_GET, 0, (uint16_t)(i % 8), 0, 0);
        }
        dirfix_pump(c);
        dirfix_pump(other);
        for (uint64_t i = snic_rng_below(&fix.rng, 400); i > 0; i--)
            dirfix_step(&fix);
        if (s % 3 == 0 && c->out_size == 0 && c->conn != NULL) { /* all is sent: half-close */
            c->shut = 1;
            snic_net_shutdown(c->conn);
            dirfix_finish(&fix);
            assert_int_equal(seen[0].ok, 24);
            until_closed(&fix, c);
        } else {
            dirfix_disconnect(c, s % 2 == 0);
        }
        dirfix_finish(&fix);
        assert_int_equal(seen[1].ok, ok + 12);
        dirfix_run(&fix, 50000000);
        assert_int_equal(dirfix_stats(&fix).conns, 1);
        if (!o.net)
            assert_true(fix.host_closed <= 1);
        dirfix_close(&fix);
    }
}

/** The host ends a connection with its reply; requests behind it are not answered. */
static void test_director_quit_closes_after_reply(void **state)
{
    (void)state;
    for (int net = 0; net < 2; net++) {
        struct dirfix_opts o = options(support_seed(), 1);
        o.net = net;
        o.no_offload = net;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 3000, 0);
        dirfix_send(c, DIRFIX_QUIT, 0, 0, 0, 0);
        dirfix_send(c, DIRFIX_PING, 0, 0, 0, 0);
        dirfix_pump(c);
        until_closed(&fix, c);
        assert_true(seen[0].ok >= 2);
        dirfix_close(&fix);
    }
}

/* ---- Bounds ---- */

/** A client that reads nothing is stopped at its bound and harms no other; then it gets it all. */
static void test_director_slow_reader_is_bounded(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 3);
        o.director.conn_bytes = 64 << 10;
        o.director.pending_max = s % 2 ? 8 : 64;
        o.net = s % 3 == 2;
        o.no_offload = o.net;
        dirfix_open(&fix, &o);
        struct dirfix_client *slow = join(&fix, 0);
        struct dirfix_client *quick = join(&fix, 1);
        put_keys(&fix, quick, 8);
        uint64_t full = dirfix_stats(&fix).blocks_free;
        uint32_t ok = seen[1].ok;
        dirfix_run(&fix, 1000000);
        snic_net_pause(slow->conn, 1);
        slow->paused = 1;
        for (uint32_t i = 0; i < 400; i++)
            dirfix_send(slow, i % 4 ? DIRFIX_ECHO : DIRFIX_GET, 0, 3, 2000, 0);
        dirfix_pump(slow);
        for (uint32_t round = 0; round < 20; round++) {
            for (uint32_t i = 0; i < 20; i++)
                dirfix_send(quick, i % 2 ? DIRFIX_ECHO : DIRFIX_GET, 0, 2, 100, 0);
            dirfix_pump(quick);
            dirfix_finish(&fix);
        }
        assert_int_equal(seen[1].ok, ok + 400);
        struct snic_director_stats st = dirfix_stats(&fix);
        assert_true((full - st.blocks_free) * 4096 <=
                    (64u << 10) * 2 + o.director.pending_max * 8192ull);
        assert_int_equal(st.hog_resets, 0);
        assert_true(slow->order_count > 300);
        slow->paused = 0;
        snic_net_pause(slow->conn, 0);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 400);
        dirfix_close(&fix);
    }
}

/** Replies that fill all memory for clients that do not read: as many as need be are reset, and
 * the others live. */
static void test_director_hog_is_reset(void **state)
{
    enum { HOGS = 20 };
    (void)state;
    for (uint64_t s = 0; s < support_scale(4, 40); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, HOGS + 1);
        struct dirfix_client *hogs[HOGS];
        o.director.pool_bytes = 4u << 20;
        o.director.stall_ms = 50;
        o.local = s % 2;
        o.host_delay_ns = 3000000; /* much is asked for before the first answer */
        dirfix_open(&fix, &o);
        for (uint32_t k = 0; k < HOGS; k++)
            hogs[k] = join(&fix, k);
        struct dirfix_client *quick = join(&fix, HOGS);
        dirfix_run(&fix, 1000000);
        for (uint32_t k = 0; k < HOGS; k++) {
            snic_net_pause(hogs[k]->conn, 1);
            hogs[k]->paused = 1;
            for (uint32_t i = 0; i < 16; i++)
                dirfix_send(hogs[k], DIRFIX_ECHO, 0, 0, 150000,
                            0); /* 4 at first: 12 MB of replies */
            dirfix_pump(hogs[k]);
        }
        dirfix_run(&fix, 5000000);
        for (uint32_t i = 0; i < 40; i++)
            dirfix_send(quick, DIRFIX_ECHO, 0, 0, 1000, 0);
        dirfix_pump(quick);
        dirfix_finish(&fix);
        assert_int_equal(seen[HOGS].ok, 40);
        dirfix_run(&fix, 500000000);
        struct snic_director_stats st = dirfix_stats(&fix);
        assert_in_range(st.hog_resets, 1, HOGS);
        assert_true(st.stalls > 0);
        assert_int_equal(st.conns, HOGS + 1 - st.hog_resets);
        for (uint32_t k = 0; k < HOGS; k++) {
            hogs[k]->paused = 0;
            if (hogs[k]->conn != NULL)
                snic_net_pause(hogs[k]->conn, 0);
        }
        dirfix_finish(&fix);
        dirfix_close(&fix);
    }
}

/** Whose replies are known to be large has few of them under way: that client stops reading, and
 * still all others are answered. */
static void test_director_large_replies_narrow_the_window(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(4, 40); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 3);
        o.director.pool_bytes = 4u << 20;
        o.director.stall_ms = 50;
        o.local = s % 2;
        o.host_delay_ns = 3000000;
        dirfix_open(&fix, &o);
        struct dirfix_client *slow = join(&fix, 0);
        struct dirfix_client *quick = join(&fix, 1);
        for (uint32_t i = 0; i < 8; i++)
            dirfix_send(slow, DIRFIX_ECHO, 0, 0, 150000, 0);
        dirfix_pump(slow);
        dirfix_finish(&fix);
        snic_net_pause(slow->conn, 1);
        slow->paused = 1;
        for (uint32_t i = 0; i < 60; i++)
            dirfix_send(slow, DIRFIX_ECHO, 0, 0, 150000, 0); /* 9 MB of replies */
        dirfix_pump(slow);
        dirfix_run(&fix, 5000000);
        for (uint32_t i = 0; i < 40; i++)
            dirfix_send(quick, DIRFIX_ECHO, 0, 0, 1000, 0);
        dirfix_pump(quick);
        dirfix_finish(&fix);
        dirfix_run(&fix, 500000000);
        assert_int_equal(seen[1].ok, 40);
        assert_int_equal(dirfix_stats(&fix).hog_resets, 0);
        slow->paused = 0;
        snic_net_pause(slow->conn, 0);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 68);
        dirfix_close(&fix);
    }
}

/** Clients that read, each of more than fits together, get it all: memory is only waited for. */
static void test_director_large_replies_to_many_all_arrive(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_scale(3, 30); s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 8);
        o.director.pool_bytes = 4u << 20;
        o.local = s % 2;
        o.net_recv_size = 16000;
        dirfix_open(&fix, &o);
        for (uint32_t i = 0; i < 8; i++) {
            struct dirfix_client *c = join(&fix, i);
            for (uint32_t k = 0; k < 20; k++)
                dirfix_send(c, DIRFIX_ECHO, 0, 0, 150000, 0);
            dirfix_pump(c);
        }
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(seen[i].ok, 20);
        assert_int_equal(dirfix_stats(&fix).hog_resets, 0);
        dirfix_close(&fix);
    }
}

/** Clients that stop in the middle of a long message hold memory others wait for: they go. */
static void test_director_stalled_message_gives_way(void **state)
{
    struct dirfix_opts o = options(support_seed(), 8);
    (void)state;
    o.director.message_max = 300000;
    o.director.pool_bytes = 4u << 20;
    o.director.stall_ms = 50;
    o.net_recv_size = 16000;
    dirfix_open(&fix, &o);
    unsigned char half[290000] = {0};
    struct dirfix_msg m = {.size = 300000, .op = DIRFIX_ECHO};
    dirfix_encode(half, &m);
    for (uint32_t i = 0; i < 7; i++) {
        join(&fix, i);
        dirfix_send_raw(&fix.clients[i], half, sizeof(half));
        dirfix_pump(&fix.clients[i]);
    }
    dirfix_run(&fix, 200000000);
    struct dirfix_client *c = join(&fix, 7);
    for (uint32_t i = 0; i < 3; i++)
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 290000);
    dirfix_pump(c);
    dirfix_finish(&fix);
    assert_int_equal(seen[7].ok, 3);
    assert_true(dirfix_stats(&fix).hog_resets > 0);
    dirfix_close(&fix);
}

/** A flood of one client leaves the answers of another where they were. */
static void test_director_flood_leaves_others_alone(void **state)
{
    struct dirfix_opts o = options(support_seed(), 2);
    (void)state;
    o.director.quantum = 1024;
    dirfix_open(&fix, &o);
    struct dirfix_client *flood = join(&fix, 0);
    struct dirfix_client *quiet = join(&fix, 1);
    flood->max_piece = 100000;
    for (uint32_t i = 0; i < 4000; i++)
        dirfix_send(flood, DIRFIX_PING, 0, 0, 0, 50);
    dirfix_pump(flood);
    dirfix_run(&fix, 100000);
    dirfix_send(quiet, DIRFIX_PING, 0, 0, 0, 0);
    dirfix_pump(quiet);
    while (seen[1].ok == 0)
        assert_int_equal(dirfix_step(&fix), 1);
    assert_true(seen[0].ok < 3900);
    dirfix_finish(&fix);
    assert_int_equal(seen[0].ok, 4000);
    dirfix_close(&fix);
}

/* ---- Draining ---- */

/** What is under way is answered, then all are closed; a client that does not read is reset. */
static void test_director_drain_finishes_and_closes(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 10; s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 3);
        o.host_delay_ns = 200000;
        o.director.drain_ms = 20;
        dirfix_open(&fix, &o);
        for (uint32_t i = 0; i < 3; i++) {
            struct dirfix_client *c = join(&fix, i);
            for (uint32_t k = 0; k < 10; k++)
                dirfix_send(c, DIRFIX_ECHO, 0, 0, i == 2 ? 50000 : 10, 0);
            dirfix_pump(c);
        }
        dirfix_run(&fix, 500000);
        snic_net_pause(fix.clients[2].conn, 1);
        fix.clients[2].paused = 1;
        if (s % 2)
            dirfix_finish(&fix);
        dirfix_close(&fix); /* asserts that the drain ends */
        assert_true(s % 2 == 0 || (seen[0].ok == 10 && seen[1].ok == 10));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_bad_options_are_refused),
        cmocka_unit_test(test_director_full_connection_is_refused),
        cmocka_unit_test(test_director_signature_decides),
        cmocka_unit_test(test_director_user_word_travels),
        cmocka_unit_test(test_director_write_waits_for_reads_before_it),
        cmocka_unit_test(test_director_protocol_error_answers_and_closes),
        cmocka_unit_test(test_director_too_large_is_refused),
        cmocka_unit_test(test_director_long_messages_go_in_pieces),
        cmocka_unit_test(test_director_client_ends_in_every_way),
        cmocka_unit_test(test_director_quit_closes_after_reply),
        cmocka_unit_test(test_director_slow_reader_is_bounded),
        cmocka_unit_test(test_director_hog_is_reset),
        cmocka_unit_test(test_director_large_replies_narrow_the_window),
        cmocka_unit_test(test_director_large_replies_to_many_all_arrive),
        cmocka_unit_test(test_director_stalled_message_gives_way),
        cmocka_unit_test(test_director_flood_leaves_others_alone),
        cmocka_unit_test(test_director_drain_finishes_and_closes),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
