/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel: several on one link, and the ends of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_channel_util.h"

/* ---- Several channels ---- */

/** Borrowed senders: as many as there are, and each exclusive. */
static void test_channel_senders_lent_and_returned(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender *s[8];
    o.senders_max = 7;
    duo_open(&x, 0, 0, 0);
    duo_channel(&x, &h, &o);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 7; i++) {
            s[i] = snic_channel_borrow(h.c);
            assert_non_null(s[i]);
            for (int k = 0; k < i; k++)
                assert_ptr_not_equal(s[i], s[k]);
            assert_int_equal(duo_send(&h, s[i], 1, 10), 0);
        }
        assert_null(snic_channel_borrow(h.c));
        duo_run(&x);
        for (int i = 0; i < 7; i++)
            snic_channel_give_back(s[i]);
    }
    assert_int_equal(x.dpu[1].messages, 21);
    duo_part(&x, &h, &x.dpu[1]);
    duo_close(&x);
}

/** Channels of one link do not touch each other; the user's messages and bells pass by. */
static void test_channel_many_on_one_link_apart(void **state)
{
    (void)state;
    enum { MANY = 20 };
    for (int sim = 0; sim < 2; sim++) {
        struct duo x;
        static struct seen h[MANY];
        struct snic_channel_sender s[MANY];
        struct snic_rng rng;
        snic_rng_init(&rng, support_seed());
        duo_open(&x, sim, 0, MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            struct snic_channel_opts o = duo_opts(i);
            duo_channel(&x, &h[i], &o);
            assert_int_equal(snic_channel_sender_init(&s[i], h[i].c), 0);
        }
        struct snic_channel *c = NULL;
        struct snic_channel_opts o = duo_opts(99);
        struct snic_channel_events e = seen_events(&h[0]);
        assert_int_equal(snic_channel_open(&c, x.hub[0], &o, &e), SNIC_EAGAIN);
        uint32_t sent[MANY] = {0};
        for (int n = 0; n < 400; n++) {
            uint32_t i = (uint32_t)snic_rng_below(&rng, MANY);
            if (duo_send(&h[i], &s[i], sent[i], 100) == 0)
                sent[i]++;
            if (n % 100 == 0) {
                assert_int_equal(snic_dma_send(x.d[0], "hello", 5), 1);
                assert_int_equal(snic_dma_ring(x.d[0], 40), 0);
            }
            for (uint64_t k = snic_rng_below(&rng, 20); k > 0; k--)
                (void)snic_world_step(x.w);
        }
        duo_run(&x);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(x.dpu[i].messages, sent[i]);
            for (uint32_t k = 0; k < sent[i]; k++)
                assert_int_equal(x.dpu[i].types[k], k);
        }
        assert_int_equal(x.user_messages, 4);
        assert_in_range(x.user_bells[40], 1, 4);
        for (uint32_t i = 0; i < MANY; i++)
            duo_part(&x, &h[i], &x.dpu[i]);
        assert_int_equal(snic_channel_hub_count(x.hub[0]), 0);
        duo_close(&x);
    }
}

/** Open and close for ever: places, keys and memory come back, late messages do no harm. */
static void test_channel_reopened_many_times_fresh(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++) {
        struct duo x;
        struct seen h;
        duo_open(&x, n == 2, 0, 2);
        x.accept.flags = n == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        for (uint64_t round = 0; round < support_scale(300, 5000); round++) {
            struct snic_channel_opts o = duo_opts(round);
            struct snic_channel_sender s;
            struct seen *u = &x.dpu[round % 64];
            duo_channel(&x, &h, &o);
            assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
            assert_int_equal(duo_send(&h, &s, 1, 50), 0);
            if (round % 3 == 0)
                duo_run(&x);
            if (round % 2 == 0) { /* the DPU closes first */
                h.close_in_closed = 1;
                duo_run(&x);
                snic_channel_close(u->c);
                u->c = NULL;
                duo_run(&x);
                assert_int_equal(h.closed, 1);
                assert_int_equal(h.reason, 0);
                assert_null(h.c);
            } else {
                duo_part(&x, &h, u);
            }
            assert_int_equal(u->messages, 1);
            assert_int_equal(snic_channel_hub_count(x.hub[0]), 0);
            assert_int_equal(snic_channel_hub_count(x.hub[1]), 0);
        }
        duo_close(&x);
    }
}

/** A goodbye of an earlier channel in the same place is not for the one that lives there now. */
static void test_channel_late_close_ignored(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s;
    duo_open(&x, 0, 0, 1);
    duo_channel(&x, &h, &o);
    struct channel_ctl late = x.hub[0]->slots[0].open;
    late.type = CHANNEL_CTL_CLOSE;
    duo_part(&x, &h, &x.dpu[1]);
    duo_channel(&x, &h, &o);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(snic_dma_send(x.d[i], &late, sizeof(late)), 1);
        duo_run(&x);
    }
    assert_int_equal(h.closed + x.dpu[1].closed, 0);
    assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
    assert_int_equal(duo_send(&h, &s, 1, 10), 0);
    duo_run(&x);
    assert_int_equal(x.dpu[1].messages, 1);
    duo_part(&x, &h, &x.dpu[1]);
    duo_close(&x);
}

/** Closed by the DPU right after the last commit: the host gets all of it first. */
static void test_channel_dpu_closes_after_commit_delivered(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_iov iov = {"payload", 8};
        o.flags = n & 1 ? SNIC_CHANNEL_DOWN_ORDERED : 0;
        duo_open(&x, n / 2 == 2, 0, 0);
        x.accept.flags = n / 2 == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        for (uint32_t i = 0; i < 20; i++)
            assert_int_equal(snic_channel_down_push(u->c, i, "head", 4, &iov, 1), 0);
        snic_channel_close(u->c);
        duo_run(&x);
        assert_int_equal(h.messages, 20);
        assert_int_equal(h.closed, 1);
        assert_int_equal(h.reason, 0);
        snic_channel_close(h.c);
        duo_run(&x);
        duo_close(&x);
    }
}

/** A service that lets go of everything when its host dies need not wait for a better time. */
static void test_channel_everything_closed_in_death_event(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++) {
        struct duo x;
        struct seen h[3];
        duo_open(&x, n == 2, 0, 0);
        x.accept.flags = n == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        for (uint32_t i = 0; i < 3; i++) {
            struct snic_channel_opts o = duo_opts(i);
            duo_channel(&x, &h[i], &o);
            x.dpu[i].close_in_closed = 1;
        }
        x.fini_in_death = 1;
        for (int i = 0; i < 3; i++)
            snic_channel_close(h[i].c);
        assert_ptr_equal(snic_channel_hub_fini(x.hub[0]), x.mem[0]);
        duo_run(&x);
        assert_int_equal(x.deaths, 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(x.dpu[i].closed, 1);
        for (int i = 0; i < 2; i++) {
            support_guard_free(x.mem[i]);
            snic_loop_close(x.loop[i]);
        }
        snic_world_close(x.w);
    }
}

struct abort_case {
    struct duo x;
    struct seen h;
};

static void close_with_token(void *ctx)
{
    struct abort_case *a = ctx;
    snic_channel_close(a->x.dpu[1].c);
}

/** Closing with a token out would free memory under the disk: a programmer error, caught. */
static void test_channel_close_with_token_asserts(void **state)
{
    (void)state;
    static struct abort_case a;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s;
    duo_open(&a.x, 0, 0, 0);
    duo_channel(&a.x, &a.h, &o);
    struct seen *u = &a.x.dpu[1];
    u->verdict = 0;
    assert_int_equal(snic_channel_sender_init(&s, a.h.c), 0);
    assert_int_equal(duo_send(&a.h, &s, 1, 50), 0);
    duo_run(&a.x);
    SUPPORT_EXPECT_ABORT(close_with_token, &a);
    snic_channel_release(u->c, &u->tokens[0]);
    duo_part(&a.x, &a.h, u);
    duo_close(&a.x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_senders_lent_and_returned),
        cmocka_unit_test(test_channel_many_on_one_link_apart),
        cmocka_unit_test(test_channel_reopened_many_times_fresh),
        cmocka_unit_test(test_channel_late_close_ignored),
        cmocka_unit_test(test_channel_dpu_closes_after_commit_delivered),
        cmocka_unit_test(test_channel_everything_closed_in_death_event),
        cmocka_unit_test(test_channel_close_with_token_asserts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
