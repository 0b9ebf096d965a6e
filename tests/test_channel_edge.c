/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel: what it refuses, delivery policies, several channels, exact DMA counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel/channel_priv.h"
#include "support.h"

#define DUO_LOG 512

/** What one channel's end saw. */
struct seen {
    struct snic_channel *c;
    uint32_t opened;
    uint32_t writable;
    uint32_t closed;
    int reason;
    uint32_t messages;
    uint32_t types[DUO_LOG];
    struct snic_channel_token tokens[DUO_LOG];
    uint32_t payload[DUO_LOG];
    void *payloads[DUO_LOG];
    int verdict; /* what message answers */
    int close_in_closed;
};

/** A host and a DPU in one world. */
struct duo {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_channel_hub *hub[2];
    void *mem[2];
    struct snic_channel_accept_opts accept;
    int refuse; /* what accept answers instead */
    int fini_in_death;
    uint32_t offers;
    struct snic_channel_offer offer;
    struct seen dpu[64]; /* by offer id */
    uint32_t user_messages;
    uint32_t user_bells[SNIC_DMA_DOORBELLS];
    uint32_t deaths;
};

static int seen_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    assert_int_equal(s->closed, 0);
    assert_ptr_equal(m->header, c->header.bytes); /* private: the peer cannot change it any more */
    uint32_t i = s->messages % DUO_LOG;
    if (s->verdict == SNIC_EAGAIN)
        return SNIC_EAGAIN;
    s->types[i] = m->type;
    s->tokens[i] = m->token;
    s->payload[i] = m->payload_bytes;
    s->payloads[i] = m->payload;
    s->messages++;
    return s->verdict;
}

static void seen_opened(void *ctx, struct snic_channel *c)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    s->opened++;
}

static void seen_writable(void *ctx, struct snic_channel *c)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    s->writable++;
}

static void seen_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    s->closed++;
    s->reason = reason;
    if (s->close_in_closed) {
        snic_channel_close(c);
        s->c = NULL;
    }
}

static struct snic_channel_events seen_events(struct seen *s)
{
    return (struct snic_channel_events){seen_message, seen_opened, seen_writable, seen_closed, s};
}

static int duo_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct duo *x = ctx;
    struct seen *s = &x->dpu[o->id % 64];
    x->offers++;
    x->offer = *o;
    if (x->refuse != 0)
        return x->refuse;
    for (int i = 63; s->c != NULL && i > 1; i--) /* a liar uses an id twice */
        s = &x->dpu[i];
    memset(s, 0, sizeof(*s));
    s->verdict = 1;
    struct snic_channel_events e = seen_events(s);
    return snic_channel_accept(&s->c, h, o, &x->accept, &e);
}

static void duo_recv(void *ctx, struct snic_channel_hub *h, const void *msg, uint32_t size)
{
    struct duo *x = ctx;
    (void)h;
    assert_int_equal(size, 5);
    assert_memory_equal(msg, "hello", 5);
    x->user_messages++;
}

static void duo_bell(void *ctx, struct snic_channel_hub *h, uint32_t id)
{
    struct duo *x = ctx;
    (void)h;
    x->user_bells[id]++;
}

static void duo_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct duo *x = ctx;
    (void)cause;
    x->deaths++;
    if (x->fini_in_death)
        assert_non_null(snic_channel_hub_fini(h));
}

static void duo_open(struct duo *x, int sim, uint32_t caps, uint32_t channels_max)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = support_seed()};
    memset(x, 0, sizeof(*x));
    x->accept.opts_size = sizeof(x->accept);
    assert_int_equal(snic_world_open(&x->w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(x->w, i, &x->loop[i]), 0);
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = caps};
    int r = sim ? snic_dma_sim_open(&x->d[0], x->loop[0], &none, &x->d[1], x->loop[1], &none, &so)
                : snic_dma_local_open(&x->d[0], x->loop[0], &none, &x->d[1], x->loop[1], &none);
    assert_int_equal(r, 0);
    for (int i = 0; i < 2; i++) {
        struct snic_channel_hub_opts o = {.opts_size = sizeof(o),
                                          .channels_max = channels_max,
                                          .accept = i == 1 ? duo_accept : NULL,
                                          .recv = duo_recv,
                                          .doorbell = duo_bell,
                                          .death = duo_death,
                                          .ctx = x};
        size_t size = snic_channel_hub_memsize(&o);
        x->mem[i] = support_guard_alloc(size, 16);
        assert_int_equal(snic_channel_hub_init(&x->hub[i], x->mem[i], size - 1, x->d[i], &o),
                         SNIC_ENOSPC);
        assert_int_equal(snic_channel_hub_init(&x->hub[i], x->mem[i], size, x->d[i], &o), 0);
        assert_ptr_equal(snic_channel_hub_ctx(x->hub[i]), x);
        assert_ptr_equal(snic_channel_hub_dma(x->hub[i]), x->d[i]);
    }
}

static void duo_run(struct duo *x)
{
    for (uint64_t n = 0; snic_world_step(x->w) > 0; n++)
        if (n > 1000000)
            fail_msg("the world does not come to rest");
}

static void duo_close(struct duo *x)
{
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(snic_channel_hub_fini(x->hub[i]), x->mem[i]);
        support_guard_free(x->mem[i]);
    }
    for (int i = 0; i < 2; i++)
        snic_loop_close(x->loop[i]);
    snic_world_close(x->w);
}

static struct snic_channel_opts duo_opts(uint64_t id)
{
    return (struct snic_channel_opts){.opts_size = sizeof(struct snic_channel_opts),
                                      .kind = 3,
                                      .id = id,
                                      .up_bytes = 8192,
                                      .down_bytes = 8192};
}

/** Open channel @p id from the host and let it be accepted. */
static void duo_channel(struct duo *x, struct seen *h, const struct snic_channel_opts *o)
{
    memset(h, 0, sizeof(*h));
    h->verdict = 1;
    struct snic_channel_events e = seen_events(h);
    assert_int_equal(snic_channel_open(&h->c, x->hub[0], o, &e), 0);
    duo_run(x);
}

/** Close both ends and see the places free again. */
static void duo_part(struct duo *x, struct seen *h, struct seen *u)
{
    snic_channel_close(h->c);
    duo_run(x);
    assert_int_equal(u->closed, 1);
    assert_int_equal(u->reason, 0);
    snic_channel_close(u->c);
    u->c = NULL;
    duo_run(x);
}

static int duo_send(struct seen *h, struct snic_channel_sender *s, uint32_t type, uint32_t bytes)
{
    static char payload[65536];
    struct snic_iov iov[2] = {{payload, bytes / 2}, {payload, bytes - bytes / 2}};
    (void)h;
    return snic_channel_up_push(s, type, "headhead", 8, iov, 2);
}

/* ---- Refusals ---- */

/** Bad options are refused before anything is allocated or sent. */
static void test_channel_bad_options_refused(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel *c = NULL;
    struct snic_channel_events e = seen_events(&h);
    duo_open(&x, 0, 0, 0);
    for (int n = 0; n < 12; n++) {
        struct snic_channel_opts o = duo_opts(1);
        switch (n) {
        case 0:
            o.opts_size = 3;
            break;
        case 1:
            o.up_bytes = 2048;
            break;
        case 2:
            o.down_bytes = 2048;
            break;
        case 3:
            o.up_bytes = 12345;
            break;
        case 4:
            o.payload_align = 24;
            break;
        case 5:
            o.payload_align = 8192;
            break;
        case 6:
            o.granule_bytes = 8;
            break;
        case 7:
            o.flags = SNIC_CHANNEL_UNMAPPED;
            break;
        case 8:
            o.flags = 0x80000000U;
            break;
        case 9:
            o.reserved = 1;
            break;
        case 10:
            o.senders_max = 1025;
            break;
        default:
            o.record_max = 1 << 30;
            break;
        }
        assert_int_equal(snic_channel_open(&c, x.hub[0], &o, &e), SNIC_EINVAL);
        assert_null(c);
        assert_int_equal(snic_channel_hub_count(x.hub[0]), 0);
    }
    struct snic_channel_hub_opts ho = {.opts_size = sizeof(ho), .channels_max = 57};
    assert_int_equal(snic_channel_hub_memsize(&ho), 0);
    duo_run(&x);
    assert_int_equal(x.offers, 0);
    duo_close(&x);
}

/** The acceptor's answer is the reason the host is told; nobody there is ECONNREFUSED. */
static void test_channel_refused_open_closed_with_reason(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        duo_open(&x, n & 1, 0, 0);
        x.refuse = n & 2 ? SNIC_EACCES : SNIC_EBUSY;
        duo_channel(&x, &h, &o);
        assert_int_equal(h.opened, 0);
        assert_int_equal(h.closed, 1);
        assert_int_equal(h.reason, x.refuse);
        struct snic_channel_sender s;
        assert_int_equal(snic_channel_sender_init(&s, h.c), SNIC_EPIPE);
        snic_channel_close(h.c);
        duo_run(&x);
        assert_int_equal(snic_channel_hub_count(x.hub[0]), 0);
        assert_int_equal(snic_channel_hub_count(x.hub[1]), 0);
        /* The DPU opens nothing: a host has no acceptor. */
        struct snic_channel_events e = seen_events(&h);
        memset(&h, 0, sizeof(h));
        assert_int_equal(snic_channel_open(&h.c, x.hub[1], &o, &e), 0);
        duo_run(&x);
        assert_int_equal(h.reason, SNIC_ECONNREFUSED);
        snic_channel_close(h.c);
        duo_run(&x);
        duo_close(&x);
    }
}

/** Rings larger than the DPU is willing to serve are its refusal, not its memory. */
static void test_channel_oversize_rings_refused(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    duo_open(&x, 0, 0, 0);
    x.hub[1]->opts.ring_bytes_max = 65536;
    o.up_bytes = 1 << 17;
    duo_channel(&x, &h, &o);
    assert_int_equal(h.reason, SNIC_EPROTO);
    snic_channel_close(h.c);
    duo_run(&x);
    duo_close(&x);
}

/** Limits of reserve, and that a refused reserve changes nothing. */
static void test_channel_reserve_errors(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_slot slot = {.position = 77};
    struct snic_channel_sender s;
    struct snic_channel_info info;
    duo_open(&x, 0, 0, 0);
    o.record_max = 1000;
    duo_channel(&x, &h, &o);
    struct seen *u = &x.dpu[1];
    assert_int_equal(h.opened, 1);
    assert_int_equal(u->opened, 1);
    assert_int_equal(x.offer.record_max, 1000);
    assert_int_equal(x.offer.kind, 3);
    snic_channel_get_info(u->c, &info);
    assert_int_equal(info.record_max, 1000);
    assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
    assert_int_equal(snic_channel_up_reserve(&s, 0, 257, 0, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_up_reserve(&s, 0, 1, 1000, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_up_reserve(&s, 65536, 1, 1, &slot), SNIC_EINVAL);
    assert_int_equal(snic_channel_down_reserve(u->c, 0, 257, 0, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_reserve(u->c, 0, 1, 1000, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_reserve(u->c, 65536, 1, 1, &slot), SNIC_EINVAL);
    struct snic_iov huge[2] = {{NULL, SIZE_MAX}, {NULL, SIZE_MAX}};
    assert_int_equal(snic_channel_up_push(&s, 0, "x", 1, huge, 2), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_push(u->c, 0, "x", 1, huge, 2), SNIC_EMSGSIZE);
    assert_int_equal(slot.position, 77);
    assert_int_equal(snic_channel_up_reserve(&s, 0, 8, 8, &slot), 0);
    assert_int_equal(snic_channel_up_reserve(&s, 0, 8, 8, &slot), SNIC_EBUSY);
    snic_channel_up_cancel(&s);
    assert_int_equal(duo_send(&h, &s, 5, 0), 0); /* nothing but a header */
    assert_int_equal(snic_channel_up_reserve(&s, 6, 0, 0, &slot), 0);
    assert_null(slot.header);
    assert_null(slot.payload);
    snic_channel_up_commit(&s, 0);
    duo_run(&x);
    assert_int_equal(u->messages, 2);
    assert_int_equal(u->types[0], 5);
    assert_int_equal(u->types[1], 6);
    assert_null(u->payloads[0]);
    duo_part(&x, &h, u);
    duo_close(&x);
}

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
 * A message that comes after the last look and before the doorbell was asked for rings nobody: only
 * the look after the asking finds it.
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

/** A header longer than any may be comes from a liar: the channel ends, nothing is delivered. */
static void test_channel_header_too_long_ends_channel(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        struct snic_channel_sender s;
        static const char longer[300];
        duo_open(&x, n, 0, 0);
        duo_channel(&x, &h, &o);
        struct seen *u = &x.dpu[1];
        assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
        assert_int_equal(snic_ring_push(&s.ring, 1, longer, 256), 0);
        assert_int_equal(snic_ring_push(&s.ring, 2, longer, 257), 0);
        assert_int_equal(snic_ring_push(&s.ring, 3, longer, 8), 0);
        snic_channel_up_flush(&s);
        duo_run(&x);
        assert_int_equal(u->messages, 1);
        assert_int_equal(u->closed, 1);
        assert_int_equal(u->reason, SNIC_EPROTO);
        snic_channel_close(u->c);
        u->c = NULL;
        duo_run(&x);
        assert_int_equal(h.closed, 1);
        assert_int_equal(h.reason, SNIC_EPROTO);
        snic_channel_close(h.c);
        duo_run(&x);
        duo_close(&x);
    }
}

/* One of the fifteen ways in which an offer and its rings can be unlike. */
static void spoil_offer(struct channel_ctl *m, int way)
{
    uint64_t key = m->up_key;

    switch (way) {
    case 0:
        m->flags ^= SNIC_CHANNEL_UP_QUIESCENT;
        break;
    case 1:
        m->flags ^= SNIC_CHANNEL_DOWN_ORDERED;
        break;
    case 2:
        m->flags ^= 0x100;
        break;
    case 3:
        m->record_max++;
        break;
    case 4:
        m->payload_align = 16;
        break;
    case 5:
        m->up_bytes *= 2;
        break;
    case 6:
        m->down_bytes /= 2;
        break;
    case 7:
        m->up_size -= 64;
        break;
    case 8:
        m->down_size -= 8192;
        break;
    case 9:
        m->down_size = 0;
        break;
    case 10:
        m->up_size = UINT64_MAX;
        break;
    case 11:
        m->up_key = m->down_key;
        m->down_key = key;
        break;
    case 12:
        m->up_key += 1U << 16;
        break;
    case 13:
        m->up_bytes = UINT64_MAX;
        break;
    default:
        m->version++;
        break;
    }
}

/** Rings that are not what the offer says: refused, or ended before anything is delivered. */
static void test_channel_offer_unlike_rings_refused(void **state)
{
    (void)state;
    for (int n = 0; n < 30; n++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        duo_open(&x, 0, 0, 0);
        duo_channel(&x, &h, &o);
        x.accept.flags = n >= 15 ? SNIC_CHANNEL_UNMAPPED : 0;
        struct channel_ctl m = x.hub[0]->slots[0].open;
        m.slot = 3;
        m.generation = 77;
        m.id = 2;
        spoil_offer(&m, n % 15);
        assert_int_equal(snic_dma_send(x.d[0], &m, sizeof(m)), 1);
        duo_run(&x);
        struct seen *u = &x.dpu[2];
        if (u->closed != 0) { /* an unmapped DPU learns it later */
            assert_true(n >= 15);
            assert_true(u->reason < 0);
            assert_int_equal(u->opened, 0);
            snic_channel_close(u->c);
            u->c = NULL;
        } else {
            assert_int_equal(snic_channel_hub_count(x.hub[1]), 1);
        }
        duo_part(&x, &h, &x.dpu[1]);
        if (x.hub[1]->slots[3].used) { /* its goodbye is still owed */
            m.type = CHANNEL_CTL_CLOSE;
            m.version = SNIC_CHANNEL__VERSION;
            assert_int_equal(snic_dma_send(x.d[0], &m, sizeof(m)), 1);
            duo_run(&x);
        }
        assert_int_equal(snic_channel_hub_count(x.hub[1]), 0);
        duo_close(&x);
    }
}

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

/* ---- Several channels ---- */

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

/** Open and close for ever: places, keys and memory come back, late messages hurt nobody. */
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

/* ---- Nonsense in control messages ---- */

/** Any bytes behind the magic: the hub ignores, refuses or accepts, and its channels live on. */
static void test_channel_random_control_messages_survived(void **state)
{
    (void)state;
    struct duo x;
    struct seen h;
    struct snic_channel_opts o = duo_opts(1);
    struct snic_channel_sender s;
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed());
    duo_open(&x, 0, 0, 0);
    duo_channel(&x, &h, &o);
    assert_int_equal(snic_channel_sender_init(&s, h.c), 0);
    struct channel_ctl good = x.hub[0]->slots[0].open;
    for (uint64_t n = 0; n < support_scale(5000, 500000); n++) {
        struct channel_ctl m = good;
        m.slot = (uint32_t)snic_rng_below(&rng, 9) + 1; /* not the good channel's */
        m.type = (uint16_t)snic_rng_below(&rng, 5);
        m.generation = (uint32_t)snic_rng_below(&rng, 3);
        m.reason = (int32_t)snic_rng_below(&rng, 3) - 1;
        unsigned char *bytes = (unsigned char *)&m;
        for (uint64_t k = snic_rng_below(&rng, 4); k > 0; k--) {
            uint64_t at = 24 + snic_rng_below(&rng, sizeof(m) - 24);
            bytes[at] = (unsigned char)snic_rng_next(&rng);
        }
        if (snic_rng_below(&rng, 10) == 0)
            m.version++;
        uint32_t size = snic_rng_below(&rng, 10) == 0
                            ? (uint32_t)(4 + snic_rng_below(&rng, sizeof(m) - 4))
                            : (uint32_t)sizeof(m);
        assert_in_range(snic_dma_send(x.d[0], &m, size), 0, 1);
        if (n % 8 == 0)
            duo_run(&x);
        for (int i = 0; i < 64; i++) {
            if (i != 1 && x.dpu[i].c != NULL && x.dpu[i].closed) {
                snic_channel_close(x.dpu[i].c);
                x.dpu[i].c = NULL;
            }
        }
    }
    duo_run(&x);
    assert_int_equal(duo_send(&h, &s, 7, 50), 0);
    duo_run(&x);
    assert_int_equal(x.dpu[1].messages, 1);
    /* The link ends; what the nonsense opened ends with it. */
    snic_channel_close(h.c);
    (void)snic_channel_hub_fini(x.hub[0]);
    duo_run(&x);
    assert_int_equal(x.deaths, 1);
    for (int i = 0; i < 8; i++)
        if (x.hub[1]->slots[i].channel != NULL)
            snic_channel_close(x.hub[1]->slots[i].channel);
    (void)snic_channel_hub_fini(x.hub[1]);
    for (int i = 0; i < 2; i++) {
        support_guard_free(x.mem[i]);
        snic_loop_close(x.loop[i]);
    }
    snic_world_close(x.w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_bad_options_refused),
        cmocka_unit_test(test_channel_refused_open_closed_with_reason),
        cmocka_unit_test(test_channel_oversize_rings_refused),
        cmocka_unit_test(test_channel_reserve_errors),
        cmocka_unit_test(test_channel_up_full_writable_after_release),
        cmocka_unit_test(test_channel_down_full_writable_after_release),
        cmocka_unit_test(test_channel_refused_message_comes_again),
        cmocka_unit_test(test_channel_slow_answer_overtaken_unless_ordered),
        cmocka_unit_test(test_channel_batch_not_full_delivered_when_idle),
        cmocka_unit_test(test_channel_unmapped_batch_costs_one_read_one_head),
        cmocka_unit_test(test_channel_sleeping_dpu_rung_once),
        cmocka_unit_test(test_channel_message_before_arming_found),
        cmocka_unit_test(test_channel_cancel_wakes_for_younger_messages),
        cmocka_unit_test(test_channel_header_too_long_ends_channel),
        cmocka_unit_test(test_channel_offer_unlike_rings_refused),
        cmocka_unit_test(test_channel_senders_lent_and_returned),
        cmocka_unit_test(test_channel_many_on_one_link_apart),
        cmocka_unit_test(test_channel_reopened_many_times_fresh),
        cmocka_unit_test(test_channel_late_close_ignored),
        cmocka_unit_test(test_channel_dpu_closes_after_commit_delivered),
        cmocka_unit_test(test_channel_everything_closed_in_death_event),
        cmocka_unit_test(test_channel_close_with_token_asserts),
        cmocka_unit_test(test_channel_random_control_messages_survived),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
