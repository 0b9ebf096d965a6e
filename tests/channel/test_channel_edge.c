/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel: what it refuses, from users and from liars. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "channel/channel_priv.h"
#include "test_channel_util.h"

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

/** The acceptor's answer is the reason the host gets; without a listener it is ECONNREFUSED. */
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
    assert_int_equal(snic_channel_up_reserve(&s, 0, 1, 10000, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_up_reserve(&s, 65536, 1, 1, &slot), SNIC_EINVAL);
    assert_int_equal(snic_channel_down_reserve(u->c, 0, 257, 0, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_reserve(u->c, 0, 1, 1000, &slot), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_reserve(u->c, 65536, 1, 1, &slot), SNIC_EINVAL);
    struct snic_iov huge[2] = {{NULL, SIZE_MAX}, {NULL, SIZE_MAX}};
    assert_int_equal(snic_channel_up_push(&s, 0, "x", 1, huge, 2), SNIC_EMSGSIZE);
    assert_int_equal(snic_channel_down_push(u->c, 0, "x", 1, huge, 2), SNIC_EMSGSIZE);
    assert_int_equal(slot.position, 77);
    assert_int_equal(snic_channel_up_reserve(&s, 0, 1, 999, &slot), 0);
    snic_channel_up_cancel(&s);
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

/* ---- Liars ---- */

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

/** Rings that differ from the offer: refused, or ended before anything is delivered. */
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

/** An offer of another version, whatever its length, is refused as such: not left unanswered. */
static void test_channel_offer_of_other_version_refused(void **state)
{
    static const uint32_t sizes[] = {16, 64, sizeof(struct channel_ctl), 128};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        struct duo x;
        struct seen h;
        struct snic_channel_opts o = duo_opts(1);
        unsigned char other[128] = {0};
        duo_open(&x, 0, 0, 0);
        duo_channel(&x, &h, &o);
        struct channel_ctl m = x.hub[0]->slots[0].open; /* the refusal ends this one */
        m.version = SNIC_CHANNEL__VERSION + 1;
        memcpy(other, &m, sizeof(m));
        assert_int_equal(snic_dma_send(x.d[0], other, sizes[i]), 1);
        duo_run(&x);
        assert_int_equal(h.closed, 1);
        assert_int_equal(h.reason, SNIC_EVERSION);
        duo_part(&x, &h, &x.dpu[1]);
        duo_close(&x);
    }
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

/** A refusal names the wrong option, and only that one. */
static void test_channel_wrong_option_is_named(void **state)
{
    (void)state;
    {
        struct snic_channel_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_channel_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_channel_opts bad = good;                                                       \
        bad.field = value;                                                                         \
        support_names(snic_channel_opts_wrong(&bad), name);                                        \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(up_bytes, 2048, "up_bytes");
        WRONG(up_bytes, 5000, "up_bytes");
        WRONG(down_bytes, UINT64_C(1) << 32, "down_bytes");
        WRONG(up_progress, UINT64_C(2) << 20, "up_progress");
        WRONG(down_progress, UINT64_C(2) << 20, "down_progress");
        WRONG(payload_align, 24, "payload_align");
        WRONG(payload_align, 8192, "payload_align");
        WRONG(granule_bytes, 8, "granule_bytes");
        WRONG(senders_max, 1025, "senders_max");
        WRONG(flags, 1u << 2, "flags");
        WRONG(reserved, 1, "reserved");
        WRONG(record_max, 1u << 20, "record_max");
        WRONG(up_progress, 64, "up_progress");
#undef WRONG
    }
    {
        struct snic_channel_hub_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_channel_hub_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_channel_hub_opts bad = good;                                                   \
        bad.field = value;                                                                         \
        support_names(snic_channel_hub_opts_wrong(&bad), name);                                    \
        assert_int_equal(snic_channel_hub_memsize(&bad), 0);                                       \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(channels_max, 57, "channels_max");
#undef WRONG
    }
}

/* lib/channel/FORMAT.md. */
static void test_channel_format_vector(void **state)
{
    const struct channel_ctl m = {.magic = SNIC_CHANNEL_MAGIC,
                                  .version = SNIC_CHANNEL__VERSION,
                                  .type = CHANNEL_CTL_OPEN,
                                  .slot = 1,
                                  .generation = 2,
                                  .reason = 3,
                                  .kind = 4,
                                  .flags = 5,
                                  .record_max = 6,
                                  .payload_align = 7,
                                  .id = 8,
                                  .up_key = 9,
                                  .up_size = 10,
                                  .up_bytes = 11,
                                  .down_key = 12,
                                  .down_size = 13,
                                  .down_bytes = 14};
    (void)state;
    golden_bytes("channel", "open", &m, sizeof(m));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_bad_options_refused),
        cmocka_unit_test(test_channel_wrong_option_is_named),
        cmocka_unit_test(test_channel_refused_open_closed_with_reason),
        cmocka_unit_test(test_channel_oversize_rings_refused),
        cmocka_unit_test(test_channel_reserve_errors),
        cmocka_unit_test(test_channel_header_too_long_ends_channel),
        cmocka_unit_test(test_channel_offer_unlike_rings_refused),
        cmocka_unit_test(test_channel_offer_of_other_version_refused),
        cmocka_unit_test(test_channel_random_control_messages_survived),
        cmocka_unit_test(test_channel_format_vector),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
