/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel: backpressure, delivery policies, wake-ups, exact DMA counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel/channel_priv.h"
#include "test_channel_util.h"

/* ---- Backpressure ---- */

/** Up full: EAGAIN, and one writable when the DPU has released. */
static void test_channel_up_full_writable_after_release(void **state)
{
    (void)state;
    for (int sim = 0; sim < 3; sim++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_channel_sender s;
        duo_open(&x, sim == 2, 0, 0);
        x.accept.flags = sim == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        u->verdict = 0; /* keep the tokens */
        assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
        uint32_t sent = 0;
        int r;
        while ((r = duo_send(&h, &s, sent, 200)) == 0)
            sent++;
        assert_int_equal(r, SNIC_EAGAIN);
        assert_in_range(sent, 5, 40);
        duo_run(&x);
        assert_int_equal(u->messages, sent);
        assert_int_equal(duo_send(&h, &s, 0, 200), SNIC_EAGAIN);
        duo_run(&x);
        uint32_t had = h.writable;
        /* Out of order: the space of the oldest is what counts. */
        for (uint32_t i = sent; i-- > 1;)
            snic_channel_release(u->c, &u->tokens[i]);
        duo_run(&x);
        assert_int_equal(h.writable, had);
        snic_channel_release(u->c, &u->tokens[0]);
        duo_run(&x);
        assert_true(h.writable > had);
        assert_int_equal(duo_send(&h, &s, 0, 200), 0);
        duo_run(&x);
        snic_channel_release(u->c, &u->tokens[sent]);
        duo_part(&x, &h, u);
        duo_close(&x);
    }
}

/** Down full: EAGAIN, and writable when the host has released. */
static void test_channel_down_full_writable_after_release(void **state)
{
    (void)state;
    for (int sim = 0; sim < 3; sim++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_iov iov = {"payload", 8};
        duo_open(&x, sim == 2, 0, 0);
        x.accept.flags = sim == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        h.verdict = 0;
        uint32_t sent = 0;
        int r;
        while ((r = snic_channel_down_push(u->c, sent, "head", 4, &iov, 1)) == 0)
            sent++;
        assert_int_equal(r, SNIC_EAGAIN);
        duo_run(&x);
        assert_int_equal(h.messages, sent);
        while (snic_channel_down_push(u->c, 0, "head", 4, &iov, 1) == 0)
            fail();
        duo_run(&x);
        uint32_t had = u->writable;
        for (uint32_t i = 0; i < sent; i++)
            snic_channel_release(h.c, &h.tokens[i]);
        duo_run(&x);
        assert_true(u->writable > had);
        assert_int_equal(snic_channel_down_push(u->c, 0, "head", 4, &iov, 1), 0);
        duo_run(&x);
        assert_int_equal(h.messages, sent + 1);
        snic_channel_release(h.c, &h.tokens[sent]);
        duo_part(&x, &h, u);
        duo_close(&x);
    }
}

/** A refused message comes again, the same one, after resume; nothing overtakes it. */
static void test_channel_refused_message_comes_again(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s;
    struct snic_iov iov = {"payload", 8};
    duo_open(&x, 0, 0, 0);
    duo_channel(&x, &h, &o);
    struct seen *u = &x.dpu[1];
    assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
    u->verdict = SNIC_EAGAIN;
    h.verdict = SNIC_EAGAIN;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(duo_send(&h, &s, i, 20), 0);
        assert_int_equal(snic_channel_down_push(u->c, i, "head", 4, &iov, 1), 0);
    }
    duo_run(&x);
    assert_int_equal(u->messages + h.messages, 0);
    u->verdict = h.verdict = 1;
    duo_run(&x);
    assert_int_equal(u->messages + h.messages, 0); /* not before resume */
    snic_channel_resume(u->c);
    snic_channel_resume(h.c);
    duo_run(&x);
    assert_int_equal(u->messages, 5);
    assert_int_equal(h.messages, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(u->types[i], i);
        assert_int_equal(h.types[i], i);
    }
    duo_part(&x, &h, u);
    duo_close(&x);
}

/* ---- Delivery ---- */

/** A slow answer holds nothing back by default, and everything in the paper's mode. */
static void test_channel_slow_answer_overtaken_unless_ordered(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_channel_slot slow;
        struct snic_iov iov = {"payload", 8};
        int ordered = n & 1;
        o.flags = ordered ? SNIC_CHANNEL_DOWN_ORDERED : 0;
        duo_open(&x, n / 2 == 2, 0, 0);
        x.accept.flags = n / 2 == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        assert_int_equal(snic_channel_down_reserve(u->c, 100, 8, 500, &slow), 0);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(snic_channel_down_push(u->c, i, "head", 4, &iov, 1), 0);
        duo_run(&x);
        assert_int_equal(h.messages, ordered ? 0 : 4);
        memset(slow.header, 1, 8);
        memset(slow.payload, 2, 500);
        snic_channel_down_commit(u->c, &slow, 300); /* shorter than reserved */
        duo_run(&x);
        assert_int_equal(h.messages, 5);
        assert_int_equal(h.types[ordered ? 0 : 4], 100);
        assert_int_equal(h.payload[ordered ? 0 : 4], 300);
        duo_part(&x, &h, u);
        duo_close(&x);
    }
}

/** A batch that never fills is delivered when the DPU goes idle. */
static void test_channel_batch_not_full_delivered_when_idle(void **state)
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
        x.accept.batch_bytes = 1 << 30;
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        for (uint32_t i = 1; i <= 3; i++) {
            assert_int_equal(snic_channel_down_push(u->c, i, "head", 4, &iov, 1), 0);
            duo_run(&x);
            assert_int_equal(h.messages, i);
        }
        assert_int_equal(snic_channel_down_push(u->c, 9, "head", 4, &iov, 1), 0);
        snic_channel_down_flush(u->c);
        duo_run(&x);
        assert_int_equal(h.messages, 4);
        duo_part(&x, &h, u);
        duo_close(&x);
    }
}

/**
 * The paper's point, to the number: a batch of any size costs one cursor read, one data read
 * (two when it wraps) and one head write; going to sleep costs one flag write and a last look.
 */
static void test_channel_unmapped_batch_costs_one_read_one_head(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s;
    struct snic_channel_stats before, after;
    o.flags = SNIC_CHANNEL_UP_QUIESCENT;
    duo_open(&x, 1, SNIC_DMA_CAP_ORDERED_READ, 0);
    duo_channel(&x, &h, &o);
    struct seen *u = &x.dpu[1];
    assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
    for (uint32_t batch = 1; batch < 12; batch++) {
        snic_channel_get_stats(u->c, &before);
        uint64_t bells = x.d[0]->stats.doorbells_sent;
        for (uint32_t i = 0; i < batch; i++)
            assert_int_equal(duo_send(&h, &s, i, 64), 0);
        assert_int_equal(x.d[0]->stats.doorbells_sent, bells + 1); /* one bell for all */
        duo_run(&x);
        snic_channel_get_stats(u->c, &after);
        assert_int_equal(after.received - before.received, batch);
        uint64_t data = after.dma_data_reads - before.dma_data_reads;
        assert_in_range(data, 1, 2);
        assert_int_equal(after.dma_head_writes - before.dma_head_writes, 1);
        /* the batch; an empty look that carries the head; the armed look before sleep */
        assert_int_equal(after.dma_cursor_reads - before.dma_cursor_reads, 3);
        assert_int_equal(after.dma_flag_writes - before.dma_flag_writes, 1);
        assert_int_equal(after.dma_data_writes - before.dma_data_writes, 0);
        assert_int_equal(after.dma_sync_reads - before.dma_sync_reads, 0);
    }
    /* Down, in order: data, tail, and the read of head and sleep flag; nothing per message. */
    snic_channel_get_stats(u->c, &before);
    struct snic_iov iov = {"payload", 8};
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(snic_channel_down_push(u->c, i, "head", 4, &iov, 1), 0);
    duo_run(&x);
    snic_channel_get_stats(u->c, &after);
    assert_int_equal(h.messages, 5);
    assert_int_equal(after.dma_data_writes - before.dma_data_writes, 1);
    assert_int_equal(after.dma_sync_reads - before.dma_sync_reads, 1);
    assert_int_equal(after.doorbells - before.doorbells, 1);
    duo_part(&x, &h, u);
    duo_close(&x);
}

/** A host that sends to a waking DPU rings once, not per message; an awake DPU is not rung. */
static void test_channel_sleeping_dpu_rung_once(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s[3];
    duo_open(&x, 0, 0, 0);
    duo_channel(&x, &h, &o);
    for (int i = 0; i < 3; i++)
        assert_int_equal(snic_channel_sender_init(&s[i], h.c), 0);
    (void)snic_channel_hub_dma(x.hub[0]);
    struct snic_channel_slot slot;
    assert_int_equal(snic_channel_up_reserve(&s[0], 0, 8, 8, &slot), 0);
    snic_channel_up_commit(&s[0], 1); /* more follows: no bell yet */
    duo_run(&x);
    assert_int_equal(x.dpu[1].messages, 0);
    snic_channel_up_flush(&s[0]);
    duo_run(&x);
    assert_int_equal(x.dpu[1].messages, 1);
    uint64_t got = x.d[1]->stats.doorbells_received;
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(duo_send(&h, &s[i % 3], i, 10), 0);
    duo_run(&x);
    assert_int_equal(x.dpu[1].messages, 31);
    assert_int_equal(x.d[1]->stats.doorbells_received, got + 1);
    duo_part(&x, &h, &x.dpu[1]);
    duo_close(&x);
}

/** Stands in for another thread that acts between the last look and the arming. */
struct between {
    struct snic_loop_poller poller;
    struct seen *host;
    struct seen *dpu;
    struct snic_channel_sender *sender;
    uint32_t left;
    uint32_t down;
};

static int between_poll(struct snic_loop_poller *p, int sleeping)
{
    struct between *b = SNIC_CONTAINER(p, struct between, poller);
    if (!sleeping || b->left == 0 || b->host == NULL)
        return 0;
    b->left--;
    if (b->down) {
        assert_int_equal(snic_channel_down_push(b->dpu->c, 1, "head", 4, NULL, 0), 0);
        snic_channel_down_flush(b->dpu->c);
    } else {
        assert_int_equal(duo_send(b->host, b->sender, 1, 10), 0);
    }
    return 0;
}

/**
 * A message that comes after the last look and before the doorbell was armed rings none: only
 * the look after the arming finds it.
 */
static void test_channel_message_before_arming_found(void **state)
{
    (void)state;
    for (uint32_t down = 0; down < 2; down++) {
        struct duo x;
        struct seen h;
        struct between b = {.left = 0};
        struct snic_channel_opts o = duo_opts(1);
        struct snic_channel_sender s;
        duo_open(&x, 0, 0, 0);
        /* In front of the channel's poller, on the loop that goes to sleep. */
        snic_loop_poller_init(&b.poller, between_poll);
        snic_loop_poller_add(x.loop[down ? 0 : 1], &b.poller);
        duo_channel(&x, &h, &o);
        assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
        struct seen *u = &x.dpu[1];
        b.host = &h;
        b.dpu = u;
        b.sender = &s;
        b.down = down;
        for (uint32_t n = 1; n <= 10; n++) {
            /* The first message rings and uses the arming up; the second comes in between. */
            b.left = 1;
            if (down) {
                assert_int_equal(snic_channel_down_push(u->c, 1, "head", 4, NULL, 0), 0);
                snic_channel_down_flush(u->c);
            } else {
                assert_int_equal(duo_send(&h, &s, 1, 10), 0);
            }
            duo_run(&x);
            assert_int_equal(b.left, 0);
            assert_int_equal(down ? h.messages : u->messages, 2 * n);
        }
        snic_loop_poller_remove(x.loop[down ? 0 : 1], &b.poller);
        duo_part(&x, &h, u);
        duo_close(&x);
    }
}

/**
 * A sender that dawdles holds back the younger messages of others; the DPU goes to sleep over
 * them, and a commit as well as a cancel must wake it.
 */
static void test_channel_cancel_wakes_for_younger_messages(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_channel_sender s[2];
        struct snic_channel_slot slot;
        int cancel = n & 1;
        o.flags = n & 2 ? SNIC_CHANNEL_UP_QUIESCENT : 0;
        duo_open(&x, n / 4 == 2, 0, 0);
        x.accept.flags = n / 4 == 1 ? SNIC_CHANNEL_UNMAPPED : 0;
        duo_channel(&x, &h, &o);
        for (int i = 0; i < 2; i++)
            assert_int_equal(snic_channel_sender_init(&s[i], h.c), 0);
        assert_int_equal(snic_channel_up_reserve(&s[0], 7, 8, 8, &slot), 0);
        assert_int_equal(duo_send(&h, &s[1], 1, 10), 0);
        duo_run(&x);
        assert_int_equal(x.dpu[1].messages, 0);
        if (cancel) {
            snic_channel_up_cancel(&s[0]);
        } else {
            memset(slot.header, 1, 8);
            snic_channel_up_commit(&s[0], 0);
        }
        duo_run(&x);
        assert_int_equal(x.dpu[1].messages, cancel ? 1 : 2);
        duo_part(&x, &h, &x.dpu[1]);
        duo_close(&x);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_up_full_writable_after_release),
        cmocka_unit_test(test_channel_down_full_writable_after_release),
        cmocka_unit_test(test_channel_refused_message_comes_again),
        cmocka_unit_test(test_channel_slow_answer_overtaken_unless_ordered),
        cmocka_unit_test(test_channel_batch_not_full_delivered_when_idle),
        cmocka_unit_test(test_channel_unmapped_batch_costs_one_read_one_head),
        cmocka_unit_test(test_channel_sleeping_dpu_rung_once),
        cmocka_unit_test(test_channel_message_before_arming_found),
        cmocka_unit_test(test_channel_cancel_wakes_for_younger_messages),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
