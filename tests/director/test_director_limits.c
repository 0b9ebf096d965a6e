/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: messages and clients at the limits that the options set, and beyond. */
#include <stdlib.h>
#include <string.h>

#include "dirseen.h"

/* Make the engine find an item for keys 0..n-1 whose record is another's: reply() returns HOST. */
static void mislead(struct dirfix *f, uint16_t n)
{
    uint64_t nonsense[3] = {f->file, 0, 100};
    for (uint16_t k = 0; k < n; k++) {
        uint64_t hash = dirfix_hash(f, k);
        assert_int_equal(snic_offload_cache(f->offload, &hash, nonsense, f->version), 1);
    }
}

/* A client's reads of every length, all of which the engine hands back. */
static void send_long_reads(struct dirfix_client *c, uint32_t count, struct snic_rng *rng)
{
    /* Lengths of messages: around a batch's end, several pieces, and the largest. */
    static const uint32_t sizes[] = {16, 16351, 16352, 16353, 16384, 40000, 131072, 199999, 200000};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = sizes[snic_rng_below(rng, SNIC_COUNTOF(sizes))];
        dirfix_send(c, DIRFIX_GET, 0, (uint16_t)snic_rng_below(rng, 8), 0, size - DIRFIX_HEAD);
    }
    dirfix_pump(c);
}

/**
 * A message of any accepted length may be handed back by the engine: it reaches the host, in
 * pieces where it is longer than a batch, between other connections' messages of any length.
 */
static void test_director_long_messages_come_back_from_engine(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(12, 200); s++) {
        struct dirfix_opts o = options(support_seed() * 1000 + s, 6);
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed() * 1000 + s);
        o.net = s % 4 == 3;
        o.local = s % 2 == 0;
        o.ring_bytes = 262144;
        o.offload_message_max = 200000;
        o.host_delay_ns = 100000;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 5), 8);
        mislead(&fix, 8);
        for (uint32_t i = 0; i < 5; i++)
            send_long_reads(join(&fix, i), 20, &rng);
        for (uint32_t i = 0; i < 20; i++)
            dirfix_send(&fix.clients[5], DIRFIX_ECHO, 0, 0, 100,
                        (uint32_t)snic_rng_below(&rng, 60000));
        dirfix_pump(&fix.clients[5]);
        dirfix_finish(&fix);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(seen[i].ok, 20);
        assert_int_equal(seen[5].ok, 8 + 20);
        if (!o.net)
            assert_int_equal(dirfix_stats(&fix).offload_to_host, 100);
        dirfix_close(&fix);
    }
}

/** The same while clients leave, and hosts die, in the middle of such messages. */
static void test_director_long_messages_survive_ends(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < support_rounds(20, 300); s++) {
        struct dirfix_opts o = options(support_seed() * 1000 + s, 6);
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed() * 1000 + s);
        o.local = s % 2 == 0;
        o.net = s % 5 == 4;
        o.ring_bytes = 262144;
        o.offload_message_max = 200000;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 5), 8);
        for (int round = 0; round < 3; round++) {
            mislead(&fix, 8);
            for (uint32_t i = 0; i < 5; i++)
                send_long_reads(join(&fix, i), 20, &rng);
            dirfix_run(&fix, snic_rng_below(&rng, 3000000));
            for (uint32_t i = 0; i < 5; i++)
                if (snic_rng_below(&rng, 2) == 0)
                    dirfix_disconnect(&fix.clients[i], snic_rng_below(&rng, 2) == 0);
            if (!o.net && round == 1) {
                dirfix_host_kill(&fix);
                dirfix_run(&fix, snic_rng_below(&rng, 2000000));
                dirfix_host_attach(&fix);
                dirfix_run(&fix, 2000000);
            }
            dirfix_finish(&fix);
            for (uint32_t i = 0; i < 5; i++)
                if (!fix.clients[i].closed)
                    dirfix_disconnect(&fix.clients[i], 1);
            dirfix_run(&fix, 10000000);
        }
        dirfix_send(&fix.clients[5], DIRFIX_ECHO, 0, 0, 100, 150000);
        dirfix_pump(&fix.clients[5]);
        dirfix_finish(&fix);
        assert_true(seen[5].ok >= 9);
        dirfix_close(&fix);
    }
}

/* ---- What a connection's messages see of each other ---- */

static void seen_value(struct dirfix_client *c, const struct dirfix_msg *m,
                       const unsigned char *body)
{
    struct seen *s = c->user;
    (void)body;
    s->ok++;
    if (m->arg == DIRFIX_BY_RULE)
        s->last_value = m->value;
}

/** The predicate's own answers, too, come behind a write of the client: it sees that. */
static void test_director_answer_waits_for_barrier(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct dirfix_opts o = options(support_seed(), 2);
        o.host_delay_ns = 500000;
        o.director.flags = order ? SNIC_DIRECTOR_IN_ORDER : 0;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = join(&fix, 0);
        c->reply = seen_value;
        for (uint32_t round = 0; round < 20; round++) {
            dirfix_send(c, DIRFIX_SET, 0, 3, round, 0);
            dirfix_send(c, DIRFIX_ECHO, 'w', (uint16_t)round, 10, 0);
            dirfix_send(c, DIRFIX_SEEN, 0, 3, 0, 0);
            dirfix_send(c, DIRFIX_WORD, 0, 0, round + 1, 0); /* waits as well, and counts once */
            dirfix_pump(c);
            dirfix_finish(&fix);
            assert_int_equal(seen[0].ok, 4 * (round + 1));
            dirfix_flush_all(&fix); /* the version is in the table again */
        }
        /* The last SEEN: behind the SET, so not the version before it. */
        dirfix_send(c, DIRFIX_SET, 0, 3, 77, 0);
        dirfix_send(c, DIRFIX_SEEN, 0, 3, 0, 0);
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_true(seen[0].last_value == 0 || seen[0].last_value >= fix.version);
        assert_int_equal(dirfix_stats(&fix).messages, 20 * 4 + 2);
        dirfix_close(&fix);
    }
}

/** The host sees each message with the word as the messages before it left it. */
static void test_director_user_word_is_the_message_s(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 20; s++) {
        struct dirfix_opts o = options(support_seed() * 100 + s, 2);
        o.host_delay_ns = 300000;
        o.director.flags = s % 2 ? SNIC_DIRECTOR_IN_ORDER : 0;
        dirfix_open(&fix, &o);
        put_keys(&fix, join(&fix, 1), 8);
        mislead(&fix, 8);
        struct dirfix_client *c = join(&fix, 0);
        for (uint32_t k = 1; k <= 30; k++) {
            /* Offloaded, and handed back when the word is another one. */
            dirfix_send(c, DIRFIX_GET, 'w', (uint16_t)(k % 8), k - 1, 0);
            dirfix_send(c, s % 3 ? DIRFIX_CHANGE : DIRFIX_WORD, 0, 0, k, 0);
            dirfix_send(c, DIRFIX_ECHO, 'w', (uint16_t)k, 3, 0); /* the host compares */
        }
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(seen[0].ok, 90);
        assert_true(dirfix_stats(&fix).offload_to_host > 0);
        dirfix_close(&fix);
    }
}

/* ---- Clients that do not read ---- */

static void pause_client(struct dirfix_client *c)
{
    snic_net_pause(c->conn, 1);
    c->paused = 1;
}

static void unpause_all(struct dirfix *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        f->clients[i].paused = 0;
        if (f->clients[i].conn != NULL)
            snic_net_pause(f->clients[i].conn, 0);
    }
}

/** However many clients do not take their offloaded replies: others' reads are offloaded, and
 *  neither memory nor contexts of the engine run out. */
static void test_director_slow_readers_leave_pool_to_others(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 8; s++) {
        enum { SLOW = 40 };
        struct dirfix_opts o = options(support_seed() * 100 + s, SLOW + 1);
        struct snic_offload_stats st;
        o.local = s % 2;
        o.contexts = s < 4 ? 1024 : 256; /* the pool, or the contexts are short */
        o.director.pool_bytes =
            s % 4 < 2 ? 16u << 20 : 0; /* 0: few blocks, nothing can be copied */
        o.director.flags = s % 3 ? SNIC_DIRECTOR_IN_ORDER : 0;
        dirfix_open(&fix, &o);
        struct dirfix_client *quick = join(&fix, SLOW);
        put_keys(&fix, quick, DIRFIX_KEYS);
        dirfix_flush_all(&fix);
        for (uint32_t i = 0; i < SLOW; i++) {
            struct dirfix_client *c = join(&fix, i);
            dirfix_run(&fix, 100000);
            pause_client(c);
            for (uint32_t k = 0; k < 200; k++)
                dirfix_send(c, DIRFIX_MGET, 4, (uint16_t)(k % (DIRFIX_KEYS - 4)), 0, 0);
            dirfix_pump(c);
        }
        dirfix_run(&fix, 50000000);
        uint32_t before = seen[SLOW].paths[DIRFIX_BY_DPU];
        for (uint32_t k = 0; k < 100; k++) {
            dirfix_send(quick, DIRFIX_MGET, 2, (uint16_t)(k % (DIRFIX_KEYS - 2)), 0, 0);
            dirfix_pump(quick);
            dirfix_run(&fix, 2000000);
        }
        dirfix_run(&fix, 10000000);
        snic_offload_get_stats(fix.offload, &st);
        assert_true(seen[SLOW].paths[DIRFIX_BY_DPU] - before >= 99);
        assert_true(st.pool_free > 0);
        unpause_all(&fix, SLOW);
        dirfix_finish(&fix);
        dirfix_close(&fix);
    }
}

/** Clients that do not read and fill all memory stop others for stall_ms once, not each. */
static void test_director_hogs_go_one_behind_the_other(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 4; s++) {
        enum { SLOW = 30 };
        struct dirfix_opts o = options(support_seed() * 100 + s, SLOW + 1);
        struct dirfix_client *quick;
        uint64_t began, ended = 0;
        o.local = s % 2;
        o.director.pool_bytes = 4u << 20;
        o.director.stall_ms = 50;
        o.host_delay_ns = 3000000; /* much is asked for before the first answer */
        dirfix_open(&fix, &o);
        quick = join(&fix, SLOW);
        for (uint32_t i = 0; i < SLOW; i++) {
            struct dirfix_client *c = join(&fix, i);
            dirfix_run(&fix, 100000);
            pause_client(c);
            for (uint32_t k = 0; k < 10; k++)
                dirfix_send(c, DIRFIX_ECHO, 0, 0, 150000, 0);
            dirfix_pump(c);
        }
        began = snic_world_now(fix.w);
        for (uint32_t k = 0; k < 200; k++) { /* one at a time */
            uint32_t ok = seen[SLOW].ok;
            dirfix_send(quick, DIRFIX_ECHO, 0, 0, 1000, 0);
            dirfix_pump(quick);
            while (seen[SLOW].ok == ok)
                assert_int_equal(dirfix_step(&fix), 1);
            ended = snic_world_now(fix.w);
        }
        struct snic_director_stats st = dirfix_stats(&fix);
        assert_true(st.stalls > 0 && st.hog_resets >= 3);
        /* 200 answers of 1.5 ms on average, and the time that the first hog was granted. */
        assert_true(ended - began < 200 * UINT64_C(2000000) + 6 * UINT64_C(50000000));
        unpause_all(&fix, SLOW);
        dirfix_finish(&fix);
        dirfix_close(&fix);
    }
}

/* ---- Places for clients ---- */

static uint32_t full_text(void *ctx, char *out, uint32_t max)
{
    struct dirfix_msg m = {.size = DIRFIX_HEAD, .op = DIRFIX_ERROR, .arg = 'f', .id = UINT32_MAX};
    (void)ctx;
    assert_true(max >= DIRFIX_HEAD);
    dirfix_encode((unsigned char *)out, &m);
    return DIRFIX_HEAD;
}

/** Clients in the middle of long messages hold what these need, so that many find room. */
static void test_director_long_messages_hold_their_length(void **state)
{
    enum { STUCK = 60 };
    static const uint32_t sizes[] = {33 << 10, 70000};
    static unsigned char half[70000];
    (void)state;
    for (uint32_t k = 0; k < SNIC_COUNTOF(sizes); k++) {
        struct dirfix_opts o = options(support_seed() + k, STUCK + 1);
        struct dirfix_msg m = {.size = sizes[k], .op = DIRFIX_ECHO};
        uint32_t stuck = k == 0 ? STUCK : STUCK / 2;
        o.director.message_max = 2u << 20;
        o.director.pool_bytes = 16u << 20; /* a quarter of it, about, is for long messages */
        o.director.stall_ms = 50;
        dirfix_open(&fix, &o);
        dirfix_encode(half, &m);
        for (uint32_t i = 0; i < stuck; i++) {
            dirfix_send_raw(join(&fix, i), half, sizes[k] - 1);
            dirfix_pump(&fix.clients[i]);
        }
        dirfix_run(&fix, 200000000);
        assert_int_equal(snic_director_check(fix.d), 0);
        join(&fix, STUCK);
        for (uint32_t i = 0; i < 3; i++)
            dirfix_send(&fix.clients[STUCK], DIRFIX_ECHO, 0, 0, 10, 100000);
        dirfix_pump(&fix.clients[STUCK]);
        dirfix_run(&fix, 200000000);
        assert_int_equal(seen[STUCK].ok, 3);
        assert_int_equal(dirfix_stats(&fix).hog_resets, 0);
        for (uint32_t i = 0; i < stuck; i++)
            dirfix_disconnect(&fix.clients[i], i % 2);
        dirfix_run(&fix, 200000000);
        assert_int_equal(snic_director_check(fix.d), 0);
        assert_int_equal(dirfix_stats(&fix).conns, 1);
        dirfix_close(&fix);
    }
}

/** A client beyond conns_max hears of it; idle ones make room after idle_ms. */
static void test_director_full_reported_and_idle_closed(void **state)
{
    struct dirfix_opts o = options(support_seed(), 6);
    (void)state;
    o.director.conns_max = 3;
    o.director.idle_ms = 100;
    o.full = full_text;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < 3; i++) {
        dirfix_send(join(&fix, i), DIRFIX_ECHO, 0, 0, 10, 0);
        dirfix_pump(&fix.clients[i]);
    }
    dirfix_run(&fix, 10000000);
    for (uint32_t i = 3; i < 6; i++) { /* more than there are places: each hears it */
        struct dirfix_client *c = join(&fix, i);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 10, 0); /* is not read */
        dirfix_pump(c);
        until_closed(&fix, c);
        assert_int_equal(seen[i].paths['f'], 1);
        assert_int_equal(c->reason, 0);
    }
    assert_int_equal(dirfix_stats(&fix).refused, 3);
    assert_int_equal(dirfix_stats(&fix).idle_closed, 0);
    for (uint32_t k = 0; k < 30; k++) { /* one of them is not idle */
        dirfix_send(&fix.clients[1], DIRFIX_ECHO, 0, 0, 10, 0);
        dirfix_pump(&fix.clients[1]);
        dirfix_run(&fix, 10000000);
    }
    assert_int_equal(dirfix_stats(&fix).idle_closed, 2);
    assert_true(fix.clients[0].closed && !fix.clients[1].closed && fix.clients[2].closed);
    dirfix_send(join(&fix, 3), DIRFIX_ECHO, 0, 0, 10, 0);
    dirfix_pump(&fix.clients[3]);
    dirfix_finish(&fix);
    assert_int_equal(seen[3].ok, 1);
    dirfix_close(&fix);
}

/** A refusal names the wrong option, and only that one. */
static void test_director_wrong_option_is_named(void **state)
{
    struct snic_director_opts d = {.opts_size = sizeof(d)};
    struct snic_offload_opts o = {.opts_size = sizeof(o), .key_size = 8, .cache_capacity = 16};
    (void)state;
    assert_null(snic_director_opts_wrong(&d));
    assert_null(snic_offload_opts_wrong(&o));
#define WRONG(who, opts, field, value, name)                                                       \
    do {                                                                                           \
        __typeof__(opts) saved = opts;                                                             \
        opts.field = value;                                                                        \
        assert_int_equal(snic_##who##_memsize(&opts), 0);                                          \
        assert_non_null(snic_##who##_opts_wrong(&opts));                                           \
        assert_int_equal(strncmp(snic_##who##_opts_wrong(&opts), name, strlen(name)), 0);          \
        opts = saved;                                                                              \
    } while (0)
    WRONG(director, d, opts_size, 1, "opts_size");
    WRONG(director, d, flags, 2, "flags");
    WRONG(director, d, conns_max, 65537, "conns_max");
    WRONG(director, d, message_max, (1u << 30) + 1, "message_max");
    WRONG(director, d, pending_max, 65537, "pending_max");
    WRONG(director, d, conn_bytes, 100, "conn_bytes");
    WRONG(director, d, quantum, (1u << 24) + 1, "quantum");
    WRONG(director, d, flight_bytes, (1u << 30) + 1, "flight_bytes");
    WRONG(director, d, signatures_count, 1, "signatures");
    WRONG(director, d, pool_bytes, 1 << 20, "pool_bytes");
    WRONG(offload, o, flags, 2, "flags");
    WRONG(offload, o, key_size, 65, "key_size");
    WRONG(offload, o, item_size, 241, "item_size");
    WRONG(offload, o, cache_capacity, 0, "cache_capacity");
    WRONG(offload, o, contexts, 3, "contexts");
    WRONG(offload, o, read_max, (256u << 20) + 1, "read_max");
    WRONG(offload, o, pool_bytes, 65536, "pool_bytes");
    WRONG(offload, o, message_max, (16u << 20) + 1, "message_max");
    WRONG(offload, o, read_align, 3, "read_align");
    WRONG(offload, o, tenants, 65537, "tenants");
    WRONG(offload, o, reserved, 1, "reserved");
#undef WRONG
}

/** Doors of different loops cannot be joined: two threads would run one engine. */
static void test_director_doors_of_other_loops_are_refused(void **state)
{
    struct dirfix_opts o = options(support_seed(), 1);
    struct snic_channel_offer offer = {.kind = SNIC_DIRECTOR_CHANNEL_KIND, .record_max = 65536};
    struct snic_offload_opts oo = {.opts_size = sizeof(oo), .key_size = 8, .cache_capacity = 16};
    struct snic_offload_user u = {NULL, NULL, NULL, NULL, NULL};
    struct snic_offload *e = NULL;
    struct snic_director *d = NULL;
    (void)state;
    dirfix_open(&fix, &o);
    size_t size = snic_offload_memsize(&oo);
    void *mem = support_guard_alloc(size, SNIC_OFFLOAD_ALIGN);
    u.func =
        (int (*)(void *, const struct snic_offload *, const struct snic_offload_msg *,
                 struct snic_offload_read *, struct snic_offload_reply *))(void (*)(void))abort;
    u.reply = (enum snic_offload_verdict(*)(void *, const struct snic_offload_msg *,
                                            const struct snic_offload_read *, const unsigned char *,
                                            int64_t, uint64_t,
                                            struct snic_offload_reply *))(void (*)(void))abort;
    assert_int_equal(snic_offload_init(&e, mem, size, fix.host, fix.files, &u, &oo), SNIC_EINVAL);
    assert_int_equal(snic_offload_init(&e, mem, size, fix.host, NULL, &u, &oo), 0);
    size_t n = snic_director_memsize(&fix.o.director);
    void *dmem = support_guard_alloc(n, SNIC_DIRECTOR_ALIGN);
    assert_int_equal(snic_director_init(&d, dmem, n, fix.net, e, &fix.user, &fix.o.director),
                     SNIC_EINVAL);
    support_guard_free(dmem);
    assert_ptr_equal(snic_offload_fini(e), mem);
    support_guard_free(mem);
    snic_director_upstream_close(fix.d);
    assert_int_equal(snic_director_upstream_channel(fix.d, fix.hub[0], &offer), SNIC_EINVAL);
    dirfix_close(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_long_messages_come_back_from_engine),
        cmocka_unit_test(test_director_long_messages_survive_ends),
        cmocka_unit_test(test_director_answer_waits_for_barrier),
        cmocka_unit_test(test_director_user_word_is_the_message_s),
        cmocka_unit_test(test_director_slow_readers_leave_pool_to_others),
        cmocka_unit_test(test_director_hogs_go_one_behind_the_other),
        cmocka_unit_test(test_director_long_messages_hold_their_length),
        cmocka_unit_test(test_director_full_reported_and_idle_closed),
        cmocka_unit_test(test_director_wrong_option_is_named),
        cmocka_unit_test(test_director_doors_of_other_loops_are_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
