/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director and its hosts: how they end and return, what they may not do, what they must not
 * suffer. */
#include <stdlib.h>
#include <string.h>

#include "dirseen.h"

/* ---- Hosts end ---- */

/** The host dies at any step: every message is answered once, in order, reads on the device
 *  continue, and the next host serves the same clients. */
static void test_director_host_dies_and_returns(void **state)
{
    (void)state;
    uint32_t gone = 0, dpu = 0, cut = 0;
    for (uint64_t s = 0; s < support_rounds(80, 2000); s++) {
        struct dirfix_opts o = options(support_seed() * 10000 + s, 3);
        o.local = s % 2;
        o.host_delay_ns = 100000;
        if (s % 5 == 4)
            o.director.flags = 0;
        dirfix_open(&fix, &o);
        for (uint32_t i = 0; i < 3; i++)
            join(&fix, i);
        put_keys(&fix, &fix.clients[0], 8);
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t k = 0; k < 10; k++) {
                dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, k == 3 ? 60000 : 100, 10);
                dirfix_send(&fix.clients[i], DIRFIX_GET, 0, (uint16_t)(k % 8), 0, 0);
                dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, 10, k == 5 ? 50000 : 10);
            }
            dirfix_pump(&fix.clients[i]);
        }
        for (uint64_t i = snic_rng_below(&fix.rng, 1500); i > 0; i--)
            dirfix_step(&fix);
        dirfix_host_kill(&fix);
        dirfix_finish(&fix);
        dirfix_run(&fix, 10000000);
        for (uint32_t i = 0; i < 3; i++)
            if (fix.clients[i].closed) { /* it had half of a reply */
                cut++;
                join(&fix, i);
            }
        uint32_t before = seen[1].paths[DIRFIX_BY_DPU];
        for (uint16_t k = 0; k < 8; k++)
            dirfix_send(&fix.clients[1], DIRFIX_GET, 0, k, 0, 0);
        dirfix_send(&fix.clients[1], DIRFIX_ECHO, 0, 0, 10, 0);
        dirfix_pump(&fix.clients[1]);
        dirfix_finish(&fix);
        assert_int_equal(seen[1].paths[DIRFIX_BY_DPU], before + 8); /* without any host */
        for (uint32_t i = 0; i < 3; i++) {
            gone += seen[i].paths[DIRFIX_GONE];
            dpu += seen[i].paths[DIRFIX_BY_DPU];
        }
        assert_false(snic_director_host_attached(fix.d));
        dirfix_host_attach(&fix);
        dirfix_run(&fix, 1000000);
        assert_true(snic_director_host_attached(fix.d));
        uint32_t ok = seen[2].ok;
        for (uint32_t k = 0; k < 10; k++)
            dirfix_send(&fix.clients[2], k % 2 ? DIRFIX_SET : DIRFIX_GET, 0, 3, 5, 0);
        dirfix_pump(&fix.clients[2]);
        dirfix_finish(&fix);
        assert_int_equal(seen[2].ok, ok + 10);
        assert_int_equal(dirfix_stats(&fix).hosts, 2);
        dirfix_close(&fix);
    }
    assert_true(gone > 0 && dpu > 0 && cut > 0);
}

/** R7: what an older host had cached is forgotten when another attaches. */
static void test_director_new_host_empties_the_table(void **state)
{
    struct dirfix_opts o = options(support_seed(), 1);
    struct snic_offload_stats st;
    (void)state;
    dirfix_open(&fix, &o);
    join(&fix, 0);
    put_keys(&fix, &fix.clients[0], 8);
    unsigned char items[8][24];
    uint64_t versions[8];
    for (uint16_t k = 0; k < 8; k++) {
        uint64_t hash = dirfix_hash(&fix, k);
        assert_int_equal(snic_offload_get(fix.offload, &hash, items[k], &versions[k]), 0);
    }
    dirfix_host_kill(&fix);
    dirfix_run(&fix, 1000000);
    memset(fix.keys, 0, sizeof(fix.keys)); /* another store altogether */
    dirfix_host_attach(&fix);
    dirfix_run(&fix, 1000000);
    snic_offload_get_stats(fix.offload, &st);
    assert_int_equal(st.items, 0);
    assert_int_equal(st.floor, 8);
    uint32_t none = seen[0].none;
    for (uint16_t k = 0; k < 8; k++)
        dirfix_send(&fix.clients[0], DIRFIX_GET, 0, k, 0, 0);
    dirfix_pump(&fix.clients[0]);
    dirfix_finish(&fix);
    assert_int_equal(seen[0].none, none + 8);
    /* Had the table kept its items, clients would see another store's values. */
    for (uint16_t k = 0; k < 8; k++) {
        uint64_t hash = dirfix_hash(&fix, k);
        assert_int_equal(snic_offload_cache(fix.offload, &hash, items[k], versions[k]), 1);
        dirfix_send(&fix.clients[0], DIRFIX_GET, 0, k, 0, 0);
    }
    dirfix_pump(&fix.clients[0]);
    dirfix_finish(&fix);
    assert_int_equal(seen[0].none, none + 8);
    dirfix_close(&fix);
}

/** A second host is refused while the first lives; other kinds of channel always. */
static void test_director_second_host_is_refused(void **state)
{
    struct dirfix_opts o = options(support_seed(), 1);
    struct snic_director_host *second = NULL;
    struct snic_director_host_events ev = {0};
    struct snic_director_host_opts ho = {.opts_size = sizeof(ho), .key_size = 8, .item_size = 24};
    (void)state;
    dirfix_open(&fix, &o);
    assert_int_equal(snic_director_host_open(&second, fix.hub[0], &ev, &ho), SNIC_EINVAL);
    ho.ring_bytes = 1000;
    ev.message = (void (*)(void *, uint64_t, uint64_t, uint64_t, const unsigned char *, uint32_t))(
        void (*)(void))abort;
    assert_int_equal(snic_director_host_open(&second, fix.hub[0], &ev, &ho), SNIC_EINVAL);
    ho.ring_bytes = 0;
    assert_int_equal(snic_director_host_open(&second, fix.hub[0], &ev, &ho), 0);
    dirfix_run(&fix, 10000000);
    struct snic_iov v = {&ho, 4};
    assert_int_equal(snic_director_host_reply(second, 1, 1, &v, 1, 0, 0), SNIC_EPEERDEAD);
    struct snic_director_entry e = {&ho, NULL, 1};
    assert_int_equal(snic_director_host_entries(second, &e, 1), SNIC_EPEERDEAD);
    assert_int_equal(snic_director_host_invalidate_all(second, 1), SNIC_EPEERDEAD);
    snic_director_host_close(second);
    join(&fix, 0);
    dirfix_send(&fix.clients[0], DIRFIX_ECHO, 0, 0, 10, 0);
    dirfix_pump(&fix.clients[0]);
    dirfix_finish(&fix);
    assert_int_equal(seen[0].ok, 1);
    dirfix_close(&fix);
}

/** A host that answers twice, or for others, is not heard: places of old messages are used again.
 */
static void test_director_stale_replies_are_ignored(void **state)
{
    (void)state;
    for (int net = 0; net < 2; net++) {
        struct dirfix_opts o = options(support_seed(), 2);
        unsigned char evil[DIRFIX_HEAD] = {0};
        struct snic_iov v = {evil, sizeof(evil)};
        o.local = net;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        uint64_t old = 0;
        for (uint32_t i = 0; i < 20; i++) {
            dirfix_send(c, i % 2 ? DIRFIX_HOLD : DIRFIX_ECHO, 0, 0, 100, 0);
            dirfix_pump(c);
            uint32_t had = fix.host_messages;
            while (fix.host_messages == had)
                assert_int_equal(dirfix_step(&fix), 1);
            if (i % 2) { /* it is held: answer the one before again, and one of no connection */
                uint64_t conn = fix.host_last_conn;
                uint64_t seq = fix.host_last_seq;
                assert_int_equal((uint32_t)old, (uint32_t)seq); /* the same place */
                assert_int_equal(snic_director_host_reply(fix.h, conn, old, &v, 1, 0, 0), 0);
                assert_int_equal(snic_director_host_reply(fix.h, conn + 1, seq, &v, 1, 0, 0), 0);
                assert_int_equal(snic_director_host_reply(fix.h, conn, ~seq, &v, 1, 0, 0), 0);
            }
            old = fix.host_last_seq;
            dirfix_finish(&fix);
        }
        assert_int_equal(seen[0].ok, 20);
        assert_int_equal(dirfix_stats(&fix).stale_replies, 30);
        dirfix_close(&fix);
    }
}

static void no_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                       const unsigned char *msg, uint32_t size)
{
    (void)ctx, (void)conn, (void)seq, (void)user, (void)msg, (void)size;
    fail();
}

/** A host whose keys or items have another size than the table's is turned away, and both ends can
 *  report which and how large. */
static void test_director_host_of_other_sizes_is_turned_away(void **state)
{
    static const struct {
        const char *option;
        uint32_t key, item, host, director;
    } wrong[] = {{"key_size", 16, 24, 16, 8}, {"item_size", 8, 200, 200, 24}};
    struct dirfix_opts o = options(support_seed(), 1);
    struct snic_director_host_events ev = {.message = no_message};
    struct snic_director_mismatch m;
    (void)state;
    dirfix_open(&fix, &o);
    dirfix_host_kill(&fix);
    dirfix_host_attach(&fix);
    dirfix_run(&fix, 1000000);
    assert_int_equal(snic_director_get_mismatch(fix.d, &m), 0);
    assert_int_equal(snic_director_host_get_mismatch(fix.h, &m), 0);
    snic_director_upstream_close(fix.d);
    dirfix_run(&fix, 1000000);
    assert_int_equal(fix.host_deaths, 1);
    for (uint32_t i = 0; i < SNIC_COUNTOF(wrong); i++) {
        struct snic_director_host_opts ho = {
            .opts_size = sizeof(ho), .key_size = wrong[i].key, .item_size = wrong[i].item};
        struct snic_director_host *bad = NULL;
        assert_int_equal(snic_director_host_open(&bad, fix.hub[0], &ev, &ho), 0);
        dirfix_run(&fix, 10000000);
        assert_false(snic_director_host_attached(fix.d));
        for (int end = 0; end < 2; end++) {
            memset(&m, 0, sizeof(m));
            assert_int_equal(end ? snic_director_get_mismatch(fix.d, &m)
                                 : snic_director_host_get_mismatch(bad, &m),
                             1);
            assert_string_equal(m.option, wrong[i].option);
            assert_int_equal(m.host, wrong[i].host);
            assert_int_equal(m.director, wrong[i].director);
        }
        struct snic_iov v = {&ho, 4};
        assert_int_equal(snic_director_host_reply(bad, 1, 1, &v, 1, 0, 0), SNIC_EPEERDEAD);
        snic_director_host_close(bad);
    }
    dirfix_close(&fix);
}

/** Host and director may take messages of different lengths: the smaller counts, also for what
 *  waits since the host before, and again for the next host. */
static void test_director_smaller_message_max_counts(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct dirfix_opts o = options(support_seed(), 3);
        o.director.flags = order ? SNIC_DIRECTOR_IN_ORDER : 0;
        o.director.message_max = 100000;
        o.host_message_max = 5000;
        dirfix_open(&fix, &o);
        assert_int_equal(dirfix_stats(&fix).message_max, 5000);
        struct dirfix_client *c = join(&fix, 0);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 5000 - DIRFIX_HEAD);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 1);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 5001 - DIRFIX_HEAD);
        dirfix_pump(c);
        until_closed(&fix, c); /* as a message beyond the director's own */
        assert_int_equal(dirfix_stats(&fix).protocol_errors, 1);
        dirfix_host_kill(&fix);
        fix.o.host_message_max = 400000;
        dirfix_host_attach(&fix);
        dirfix_run(&fix, 1000000);
        assert_int_equal(dirfix_stats(&fix).message_max, 100000);
        c = join(&fix, 1);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 90000);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[1].ok, 1);
        dirfix_close(&fix);
    }
}

/** A net host that closes or resets ends its client after what preceded; one that is not
 *  there is answered for, and is there again when it is. */
static void test_director_net_host_ends(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(40, 500); s++) {
        struct dirfix_opts o = options(support_seed() * 1000 + s, 2);
        o.net = 1;
        o.no_offload = 1;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        for (uint32_t i = 0; i < 10; i++)
            dirfix_send(c, i % 3 == 2 ? DIRFIX_PING : DIRFIX_ECHO, 0, 0, 2000, 10);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 10);
        fix.server_mode = s % 2 ? 1 : 2;
        for (uint32_t i = 0; i < 5; i++)
            dirfix_send(c, i == 0 ? DIRFIX_PING : DIRFIX_ECHO, 0, 0, 10, 10);
        dirfix_pump(c);
        until_closed(&fix, c);
        assert_int_equal(seen[0].ok, 11);
        assert_int_equal(seen[0].error, 0);
        /* no listener */
        fix.server_mode = 0;
        snic_net_unlisten(fix.server_listener);
        c = join(&fix, 1);
        for (uint32_t i = 0; i < 6; i++)
            dirfix_send(c, i % 3 == 0 ? DIRFIX_PING : DIRFIX_ECHO, 0, 0, 10, 40000);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[1].ok, 2);
        assert_int_equal(seen[1].paths[DIRFIX_GONE], 4);
        assert_false(c->closed);
        dirfix_close(&fix);
    }
}

/* ---- Hosts that are busy ---- */

/** Clients that go while the host takes nothing are reported later, or forgotten with the host. */
static void test_director_ends_reach_a_busy_host_later(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 8; s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 12);
        o.local = s % 2;
        dirfix_open(&fix, &o);
        for (uint32_t i = 0; i < 12; i++)
            join(&fix, i);
        dirfix_run(&fix, 1000000);
        snic_world_pause(fix.w, DIRFIX_HOST, 1);
        for (uint32_t i = 0; i < 12; i++) {
            fix.clients[i].max_piece = 50000;
            for (uint32_t k = 0; k < 30; k++)
                dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, 10, 8144); /* two fill a batch */
            dirfix_pump(&fix.clients[i]);
        }
        dirfix_run(&fix, 50000000);
        for (uint32_t i = 0; i < 10; i++)
            dirfix_disconnect(&fix.clients[i], 1);
        dirfix_run(&fix, 50000000);
        assert_true(dirfix_stats(&fix).conns > 2); /* the host must hear of them */
        snic_world_pause(fix.w, DIRFIX_HOST, 0);
        if (s % 4 < 2) {
            dirfix_run(&fix, 50000000);
            assert_int_equal(fix.host_closed, 10);
        } else {
            dirfix_host_kill(&fix);
            dirfix_run(&fix, 50000000);
        }
        dirfix_finish(&fix); /* the others are answered, by either */
        assert_int_equal(dirfix_stats(&fix).conns, 2);
        dirfix_close(&fix);
    }
}

/** A host whose replies find no room gets no further messages than those of one record. */
static void test_director_refused_host_is_left_alone(void **state)
{
    struct dirfix_opts o = options(support_seed(), 12);
    (void)state;
    dirfix_open(&fix, &o);
    for (int round = 0; round < 2; round++) { /* the first widens the windows */
        for (uint32_t i = 0; i < 12; i++) {
            if (round == 0)
                join(&fix, i);
            fix.clients[i].max_piece = 50000;
            for (uint32_t k = 0; k < 300; k++)
                dirfix_send(&fix.clients[i], DIRFIX_ECHO, 0, 0, round ? 5000 : 10, 0);
            dirfix_pump(&fix.clients[i]);
        }
        if (round == 0) {
            dirfix_finish(&fix);
            snic_world_pause(fix.w, DIRFIX_HOST, 1);
        }
    }
    dirfix_run(&fix, 50000000);
    assert_true(dirfix_stats(&fix).to_host > 3600 + 1500);
    uint32_t had = fix.host_messages;
    snic_world_pause(fix.w, DIRFIX_DPU, 1);
    snic_world_pause(fix.w, DIRFIX_HOST, 0);
    dirfix_run(&fix, 50000000);
    assert_in_range(fix.host_messages - had, 20, 700);
    snic_world_pause(fix.w, DIRFIX_DPU, 0);
    dirfix_finish(&fix);
    assert_int_equal(fix.host_messages, 7200);
    dirfix_close(&fix);
}

/* ---- A DPU that writes nonsense ---- */

struct raw {
    struct snic_channel *c;
    uint32_t messages;
    uint32_t longs;
};

static int raw_ignore(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    (void)ctx;
    (void)c;
    (void)m;
    return 1;
}

static void raw_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)reason;
    ((struct raw *)ctx)->c = NULL;
    snic_channel_close(c);
}

static int raw_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct snic_channel_events ev = {.message = raw_ignore, .closed = raw_closed, .ctx = ctx};
    return snic_channel_accept(&((struct raw *)ctx)->c, h, offer, NULL, &ev);
}

static void raw_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                        const unsigned char *msg, uint32_t size)
{
    struct raw *r = ctx;
    (void)conn;
    (void)user;
    r->messages++;
    if (size > 16384) { /* put together from pieces: all of one message */
        r->longs++;
        for (uint32_t i = 0; i < size; i++)
            assert_int_equal(msg[i], (unsigned char)seq);
    }
}

/* Records of any content, among them pieces of two long messages, mixed up. */
static void raw_nonsense(struct raw *raw, struct snic_world *w, struct snic_rng *rng)
{
    static unsigned char body[40000];
    for (uint64_t at[2] = {0, 0}, i = 0; i < support_scale(4000, 100000); i++) {
        unsigned char head[48];
        uint32_t type = 1 + (uint32_t)snic_rng_below(rng, 2);
        uint32_t k = (uint32_t)snic_rng_below(rng, 2);
        uint32_t n = 1 + (uint32_t)snic_rng_below(rng, type == 1 ? 500 : sizeof(body));
        snic_rng_fill(rng, head, sizeof(head));
        snic_rng_fill(rng, body, 64);
        if (type == 2 && snic_rng_below(rng, 8) > 0) { /* two long messages, mixed up */
            uint64_t total = 50000 + k * 30000u;
            if (at[k] >= total)
                at[k] = 0;
            n = (uint32_t)(n > total - at[k] ? total - at[k] : n);
            memset(body, (int)(k + 5), n);
            snic_put_le64(head, k);
            snic_put_le64(head + 8, k + 5);
            snic_put_le32(head + 24, n);
            snic_put_le16(head + 28, 1);
            snic_put_le64(head + 32, at[k]);
            snic_put_le64(head + 40, total);
            at[k] += n;
            if (snic_rng_below(rng, 10) == 0)
                at[k] += 7;
        } else if (type == 1 && snic_rng_below(rng, 2) == 0) {
            memset(body, 0, 32);
            snic_put_le32(body + 24, n > 32 ? n - 32 : 0);
            snic_put_le16(body + 28, (uint16_t)snic_rng_below(rng, 4));
        }
        struct snic_iov v = {body, n};
        while (raw->c != NULL &&
               snic_channel_down_push(raw->c, type, head, type == 2 ? 48 : 0, &v, 1) == SNIC_EAGAIN)
            (void)snic_world_step(w);
        (void)snic_world_run(w, snic_world_now(w), 50);
    }
}

/** The host's end takes any bytes: long messages arrive whole or not at all. */
static void test_director_host_end_survives_nonsense(void **state)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_loop *l[2];
    struct snic_world *w = NULL;
    struct snic_dma *d[2];
    struct snic_channel_hub *hub[2];
    void *mem[2];
    struct raw raw = {0};
    struct snic_director_host *h = NULL;
    struct snic_director_host_events ev = {.message = raw_message, .ctx = &raw};
    struct snic_director_host_opts o = {.opts_size = sizeof(o), .message_max = 100000};
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    assert_int_equal(snic_world_open(&w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(w, i, &l[i]), 0);
    assert_int_equal(snic_dma_local_open(&d[0], l[0], &none, &d[1], l[1], &none), 0);
    for (int i = 0; i < 2; i++) {
        struct snic_channel_hub_opts ho = {
            .opts_size = sizeof(ho), .accept = i ? raw_accept : NULL, .ctx = &raw};
        size_t n = snic_channel_hub_memsize(&ho);
        mem[i] = support_guard_alloc(n, 16);
        assert_int_equal(snic_channel_hub_init(&hub[i], mem[i], n, d[i], &ho), 0);
    }
    assert_int_equal(snic_director_host_open(&h, hub[0], &ev, &o), 0);
    while (raw.c == NULL)
        assert_int_equal(snic_world_step(w), 1);
    (void)snic_world_run(w, snic_world_now(w) + 1000000, 100000);
    raw_nonsense(&raw, w, &rng);
    (void)snic_world_run(w, snic_world_now(w) + 1000000, 100000);
    assert_true(raw.messages > 100 && raw.longs > 5);
    snic_director_host_close(h);
    (void)snic_world_run(w, snic_world_now(w) + 1000000, 100000);
    if (raw.c != NULL)
        snic_channel_close(raw.c);
    (void)snic_world_run(w, snic_world_now(w) + 1000000, 100000);
    for (int i = 0; i < 2; i++) {
        snic_channel_hub_fini(hub[i]);
        support_guard_free(mem[i]);
    }
    for (int i = 0; i < 2; i++)
        snic_loop_close(l[i]);
    snic_world_close(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_host_dies_and_returns),
        cmocka_unit_test(test_director_new_host_empties_the_table),
        cmocka_unit_test(test_director_second_host_is_refused),
        cmocka_unit_test(test_director_stale_replies_are_ignored),
        cmocka_unit_test(test_director_host_of_other_sizes_is_turned_away),
        cmocka_unit_test(test_director_smaller_message_max_counts),
        cmocka_unit_test(test_director_net_host_ends),
        cmocka_unit_test(test_director_ends_reach_a_busy_host_later),
        cmocka_unit_test(test_director_refused_host_is_left_alone),
        cmocka_unit_test(test_director_host_end_survives_nonsense),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
