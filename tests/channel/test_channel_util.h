/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A host and a DPU in one world, and what each end of a channel saw.
 */
#ifndef SNIC_TEST_CHANNEL_UTIL_H
#define SNIC_TEST_CHANNEL_UTIL_H

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

static inline int seen_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
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

static inline void seen_opened(void *ctx, struct snic_channel *c)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    s->opened++;
}

static inline void seen_writable(void *ctx, struct snic_channel *c)
{
    struct seen *s = ctx;
    assert_ptr_equal(c, s->c);
    s->writable++;
}

static inline void seen_closed(void *ctx, struct snic_channel *c, int reason)
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

static inline struct snic_channel_events seen_events(struct seen *s)
{
    return (struct snic_channel_events){seen_message, seen_opened, seen_writable, seen_closed, s};
}

static inline int duo_accept(void *ctx, struct snic_channel_hub *h,
                             const struct snic_channel_offer *o)
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

static inline void duo_recv(void *ctx, struct snic_channel_hub *h, const void *msg, uint32_t size)
{
    struct duo *x = ctx;
    (void)h;
    assert_int_equal(size, 5);
    assert_memory_equal(msg, "hello", 5);
    x->user_messages++;
}

static inline void duo_bell(void *ctx, struct snic_channel_hub *h, uint32_t id)
{
    struct duo *x = ctx;
    (void)h;
    x->user_bells[id]++;
}

static inline void duo_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct duo *x = ctx;
    (void)cause;
    x->deaths++;
    if (x->fini_in_death)
        assert_non_null(snic_channel_hub_fini(h));
}

static inline void duo_open(struct duo *x, int sim, uint32_t caps, uint32_t channels_max)
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

static inline void duo_run(struct duo *x)
{
    for (uint64_t n = 0; snic_world_step(x->w) > 0; n++)
        if (n > 1000000)
            fail_msg("the world does not come to rest");
}

static inline void duo_close(struct duo *x)
{
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(snic_channel_hub_fini(x->hub[i]), x->mem[i]);
        support_guard_free(x->mem[i]);
    }
    for (int i = 0; i < 2; i++)
        snic_loop_close(x->loop[i]);
    snic_world_close(x->w);
}

static inline struct snic_channel_opts duo_opts(uint64_t id)
{
    return (struct snic_channel_opts){.opts_size = sizeof(struct snic_channel_opts),
                                      .kind = 3,
                                      .id = id,
                                      .up_bytes = 8192,
                                      .down_bytes = 8192};
}

/** Open channel @p id from the host and let it be accepted. */
static inline void duo_channel(struct duo *x, struct seen *h, const struct snic_channel_opts *o)
{
    memset(h, 0, sizeof(*h));
    h->verdict = 1;
    struct snic_channel_events e = seen_events(h);
    assert_int_equal(snic_channel_open(&h->c, x->hub[0], o, &e), 0);
    duo_run(x);
}

/** Close both ends and see the places free again. */
static inline void duo_part(struct duo *x, struct seen *h, struct seen *u)
{
    snic_channel_close(h->c);
    duo_run(x);
    assert_int_equal(u->closed, 1);
    assert_int_equal(u->reason, 0);
    snic_channel_close(u->c);
    u->c = NULL;
    duo_run(x);
}

static inline int duo_send(struct seen *h, struct snic_channel_sender *s, uint32_t type,
                           uint32_t bytes)
{
    static char payload[65536];
    struct snic_iov iov[2] = {{payload, bytes / 2}, {payload, bytes - bytes / 2}};
    (void)h;
    return snic_channel_up_push(s, type, "headhead", 8, iov, 2);
}

#endif
