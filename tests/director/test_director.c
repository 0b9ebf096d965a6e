/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** director: contract, order, bounds, and the whole node in a simulated world. */
#include <stdlib.h>
#include <string.h>

#include "dirfix.h"

static struct dirfix fix;

/* ---- A load whose every answer is known ---- */

/* Each client has keys of its own, so its program order determines what every read returns. */
enum { OWN_KEYS = 4, IDS = 1 << 14 };

struct load {
    uint32_t model[OWN_KEYS]; /* value + 1, 0: none */
    uint32_t expect[IDS];     /* GET: as model; ECHO: size + 1 */
    uint32_t any[IDS];        /* 1: may also be answered by host_gone() */
    uint32_t paths[256];
    uint32_t errors;
    uint16_t first;
};

static struct load loads[DIRFIX_CLIENTS];

static void check_value(uint32_t value, const unsigned char *body, uint32_t size)
{
    unsigned char want[8192];
    assert_int_equal(size, dirfix_value_size(value));
    dirfix_value(want, value);
    assert_memory_equal(body, want, size);
}

static void load_reply(struct dirfix_client *c, const struct dirfix_msg *m,
                       const unsigned char *body)
{
    struct load *l = c->user;
    uint32_t size = m->size - DIRFIX_HEAD;
    l->paths[m->arg]++;
    if (m->op == DIRFIX_ERROR) {
        l->errors++;
        return;
    }
    uint32_t want = l->expect[m->id % IDS];
    if (m->op == DIRFIX_NONE) {
        assert_int_equal(want, 0);
    } else if (want != 0 && m->arg != DIRFIX_BY_RULE) {
        assert_int_equal(m->value, want - 1);
        if (size == m->value && size > 0 && body[0] == (unsigned char)m->id) /* ECHO */
            for (uint32_t i = 0; i < size; i++)
                assert_int_equal(body[i], (unsigned char)(m->id + i));
        else if (size > 0)
            check_value(m->value, body, size);
    }
}

static void load_start(struct dirfix *f, uint32_t i)
{
    struct dirfix_client *c = dirfix_connect(f, i, load_reply);
    memset(&loads[i], 0, sizeof(loads[i]));
    loads[i].first = (uint16_t)(i * OWN_KEYS);
    c->user = &loads[i];
}

static void load_one(struct dirfix *f, struct dirfix_client *c)
{
    struct load *l = c->user;
    uint16_t k = (uint16_t)snic_rng_below(&f->rng, OWN_KEYS);
    uint16_t key = (uint16_t)(l->first + k);
    uint32_t value = (uint32_t)snic_rng_below(&f->rng, 1000000);
    uint32_t want = 0;
    uint32_t pad = snic_rng_below(&f->rng, 4) == 0 ? (uint32_t)snic_rng_below(&f->rng, 9000) : 5;
    uint32_t id = c->next_id % IDS;
    switch (snic_rng_below(&f->rng, 12)) {
    case 0:
    case 1:
        want = l->model[k] = value + 1;
        dirfix_send(c, DIRFIX_SET, 0, key, value, pad);
        break;
    case 2:
        l->model[k] = 0;
        dirfix_send(c, DIRFIX_DEL, 0, key, 0, 0);
        break;
    case 3:
        dirfix_send(c, DIRFIX_PING, 0, 0, 0, pad);
        break;
    case 4:
        value %= snic_rng_below(&f->rng, 8) == 0 ? 120000u : 400u;
        want = value + 1;
        dirfix_send(c, DIRFIX_ECHO, 0, 0, value, 0);
        break;
    case 5:
        dirfix_send(c, DIRFIX_HOLD, 0, 0, 50, 0);
        break;
    default:
        want = l->model[k];
        dirfix_send(c, DIRFIX_GET, 0, key, 0, 0);
        break;
    }
    l->expect[id] = want;
}

static void load_run(struct dirfix *f, uint32_t rounds, uint32_t batch)
{
    for (uint32_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < f->o.clients; i++) {
            struct dirfix_client *c = &f->clients[i];
            for (uint64_t n = snic_rng_below(&f->rng, batch); n > 0; n--)
                load_one(f, c);
            dirfix_pump(c);
        }
        if (f->host_alive || f->o.net) {
            for (uint16_t k = 0; k < DIRFIX_KEYS; k++)
                if (snic_rng_below(&f->rng, 3) == 0)
                    dirfix_flush(f, k);
        }
        dirfix_run(f, snic_rng_below(&f->rng, 300000));
        if (snic_rng_below(&f->rng, 4) == 0)
            dirfix_finish(f);
    }
    dirfix_finish(f);
}

/* Of all runs of a test together: how many reads find their key cached is chance. */
static uint64_t offloaded, offloading;

static void load_offloaded(void)
{
    print_message("%u replies offloaded in %u runs\n", (unsigned)offloaded, (unsigned)offloading);
    assert_true(offloaded > 50 * offloading);
    offloaded = offloading = 0;
}

static void load_with(const struct dirfix_opts *o)
{
    dirfix_open(&fix, o);
    for (uint32_t i = 0; i < o->clients; i++)
        load_start(&fix, i);
    load_run(&fix, 60, 12);
    struct snic_director_stats st = dirfix_stats(&fix);
    assert_int_equal(st.conns, o->clients);
    assert_int_equal(st.host_gone + st.protocol_errors + st.stale_replies + st.hog_resets, 0);
    if (!o->no_offload && !o->no_frame_reply) {
        assert_true(st.offloaded > 0);
        offloaded += st.offloaded;
        offloading++;
        assert_true(st.barrier_blocked > 0);
    }
    assert_int_equal(fix.mismatches, 0);
    for (uint32_t i = 0; i < o->clients; i++)
        assert_int_equal(loads[i].errors, 0);
    dirfix_close(&fix);
}

/** Each client sees its own writes and each request its own answer, in order. */
static void test_director_channel_pipelines_program_order(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(6, 100); i++) {
        struct dirfix_opts o = {.seed = support_seed() * 1000 + i, .clients = 5};
        o.local = i % 2 == 0;
        o.host_delay_ns = i % 3 == 0 ? 0 : 30000;
        o.director.flags = SNIC_DIRECTOR_IN_ORDER;
        o.no_offload = i % 6 == 5;
        load_with(&o);
    }
    load_offloaded();
}

/** The same with an unmodified server behind, whose replies are cut and interleaved. */
static void test_director_net_pipelines_program_order(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(4, 60); i++) {
        struct dirfix_opts o = {.seed = support_seed() * 1000 + i, .clients = 4, .net = 1};
        o.director.flags = SNIC_DIRECTOR_IN_ORDER;
        o.no_offload = 1;
        load_with(&o);
    }
}

/** Without a framer for replies a net host's clients are passed through, byte for byte. */
static void test_director_net_without_framer_passes_through(void **state)
{
    (void)state;
    struct dirfix_opts o = {.seed = support_seed(), .clients = 3, .net = 1, .no_frame_reply = 1};
    o.director.flags = SNIC_DIRECTOR_IN_ORDER;
    dirfix_open(&fix, &o);
    for (uint32_t i = 0; i < 3; i++)
        load_start(&fix, i);
    load_run(&fix, 30, 12);
    struct snic_director_stats st = dirfix_stats(&fix);
    assert_int_equal(st.passed_through, 3);
    assert_int_equal(st.messages, 0);
    dirfix_close(&fix);
}

/** Replies with request ids leave as they come, never mixed. */
static void test_director_channel_unordered_answers_whole(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(4, 60); i++) {
        struct dirfix_opts o = {.seed = support_seed() * 1000 + i, .clients = 5};
        o.local = i % 2 == 0;
        o.host_delay_ns = 60000;
        load_with(&o);
    }
    load_offloaded();
}

/* ---- Cuts ---- */

static uint32_t cut_ok, cut_paths[256];

static void cut_reply(struct dirfix_client *c, const struct dirfix_msg *m,
                      const unsigned char *body)
{
    (void)c;
    (void)body;
    cut_ok += m->op == DIRFIX_OK || m->op == DIRFIX_NONE;
    cut_paths[m->arg]++;
}

/* Messages for every destination: the predicate, the device, the host, a barrier, and one that
 * does not fit a received piece. */
static void cut_batch(struct dirfix_client *c)
{
    dirfix_send(c, DIRFIX_PING, 0, 0, 0, 0);
    dirfix_send(c, DIRFIX_GET, 0, 1, 0, 0);
    dirfix_send(c, DIRFIX_ECHO, 0, 0, 20, 3);
    dirfix_send(c, DIRFIX_MGET, 2, 1, 0, 0);
    dirfix_send(c, DIRFIX_SET, 0, 40, 9, 1);
    dirfix_send(c, DIRFIX_GET, 0, 2, 0, 0);
    dirfix_send(c, DIRFIX_ECHO, 0, 0, 700, 0);
    dirfix_send(c, DIRFIX_PING, 0, 0, 0, 13);
}

/** A batch for all destinations, cut in two at each byte with a pause between, so that every head
 *  and body is once cut everywhere: the same answers, in order or by id, over channel and net. */
static void test_director_batch_cut_at_every_byte_is_answered(void **state)
{
    (void)state;
    enum { BATCH = 8 };
    for (uint32_t mode = 0; mode < 4; mode++) {
        struct dirfix_opts o = {.seed = support_seed() * 10 + mode, .clients = 2};
        o.net = mode / 2 != 0;
        o.director.flags = mode % 2 ? 0 : SNIC_DIRECTOR_IN_ORDER;
        o.no_offload = o.net;
        o.net_recv_size = 4000;
        if (o.net && o.director.flags == 0)
            continue; /* a stock server answers in order */
        dirfix_open(&fix, &o);
        struct dirfix_client *first = dirfix_connect(&fix, 1, cut_reply);
        for (uint16_t k = 1; k < 4; k++)
            dirfix_send(first, DIRFIX_SET, 0, k, k, 0);
        dirfix_pump(first);
        dirfix_finish(&fix);
        dirfix_flush_all(&fix);
        struct dirfix_client *c = dirfix_connect(&fix, 0, cut_reply);
        dirfix_run(&fix, 1000000);
        cut_batch(c);
        size_t whole = c->out_size;
        c->max_piece = (uint32_t)whole;
        dirfix_pump(c);
        dirfix_finish(&fix);
        for (uint32_t at = 1; at < whole; at++) {
            memset(cut_paths, 0, sizeof(cut_paths));
            cut_ok = 0;
            cut_batch(c);
            c->max_piece = at;
            dirfix_pump(c); /* sends at bytes, and the rest when they have left */
            c->max_piece = (uint32_t)whole;
            size_t left = c->out_size;
            c->out_size = c->out_at + c->sending; /* hold the rest back */
            dirfix_run(&fix, 500000);
            assert_int_equal(c->sending, 0);
            c->out_at = at;
            c->out_size = left;
            dirfix_pump(c);
            dirfix_finish(&fix);
            assert_int_equal(cut_ok, BATCH);
            assert_int_equal(cut_paths[DIRFIX_BY_RULE], 2);
            if (!o.no_offload && at % 8 != 0) /* not all: a flush may be due */
                assert_true(cut_paths[DIRFIX_BY_DPU] > 0);
        }
        dirfix_close(&fix);
    }
}

/** Bytes of another protocol on a connection outside the signatures pass both ways as they are,
 *  with its half-close; one that is reset leaves nothing behind. */
static void test_director_outside_the_signature_is_untouched(void **state)
{
    struct snic_director_signature sig = {
        .client = {.family = SNIC_NET_SIM, .node = DIRFIX_CLIENT + 1}};
    (void)state;
    for (uint64_t s = 0; s < support_scale(6, 60); s++) {
        struct dirfix_opts o = {.seed = support_seed() * 100 + s, .clients = 2, .net = 1};
        o.director.flags = SNIC_DIRECTOR_IN_ORDER;
        o.director.signatures = &sig;
        o.director.signatures_count = 1;
        o.director.message_max = 4096;
        o.no_offload = 1;
        dirfix_open(&fix, &o);
        struct dirfix_client *c = dirfix_connect(&fix, 0, cut_reply);
        cut_ok = 0;
        memset(cut_paths, 0, sizeof(cut_paths));
        /* Longer than any message may be, and of kinds that the director would answer or refuse. */
        for (uint32_t i = 0; i < 20; i++) {
            dirfix_send(c, DIRFIX_ECHO, 0, 0, 30000, 20000);
            dirfix_send(c, DIRFIX_PING, 0, 0, 0, 0);
        }
        dirfix_pump(c);
        dirfix_finish(&fix);
        assert_int_equal(cut_ok, 40);
        assert_int_equal(cut_paths[DIRFIX_BY_HOST], 40);
        struct snic_director_stats st = dirfix_stats(&fix);
        assert_int_equal(st.passed_through, 1);
        assert_int_equal(st.messages, 0);
        dirfix_send(c, DIRFIX_ECHO, 0, 0, 50000, 0);
        dirfix_pump(c);
        if (s % 2) { /* the last answer follows a half-close */
            while (c->out_size > 0)
                assert_int_equal(dirfix_step(&fix), 1);
            c->shut = 1;
            snic_net_shutdown(c->conn);
            dirfix_finish(&fix);
            assert_int_equal(cut_ok, 41);
        } else {
            dirfix_disconnect(c, 1);
        }
        dirfix_run(&fix, 50000000);
        assert_true(c->closed);
        assert_int_equal(dirfix_stats(&fix).conns, 0);
        dirfix_close(&fix);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_director_channel_pipelines_program_order),
        cmocka_unit_test(test_director_net_pipelines_program_order),
        cmocka_unit_test(test_director_net_without_framer_passes_through),
        cmocka_unit_test(test_director_channel_unordered_answers_whole),
        cmocka_unit_test(test_director_batch_cut_at_every_byte_is_answered),
        cmocka_unit_test(test_director_outside_the_signature_is_untouched),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
