/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A host that sends what the library never would, and a DPU that answers so.
 */
#include "filelinks.h"
#include "support.h"

#include <stdio.h>

static int responses;

static void count_done(struct snic_filelib_req *r)
{
    (void)r;
    responses++;
}

struct raw {
    struct snic_channel *channel;
    struct snic_channel_sender sender;
    unsigned replies;
    unsigned closed;
    int64_t result; /* of the last reply */
};

static int raw_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct raw *raw = ctx;
    (void)c;
    raw->replies++;
    if (m->header_bytes == 64)
        raw->result = (int64_t)snic_get_le64((const unsigned char *)m->header + 16);
    return 1;
}

static void raw_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct raw *)ctx)->closed++;
}

/* Replace the library's group by a channel that takes any bytes. */
static void raw_open(struct filelink *l, struct raw *raw)
{
    struct snic_channel_opts co;
    struct snic_channel_events e;
    filelink_group_close(l);
    while (l->gone == 1)
        assert_int_equal(snic_world_step(l->fx.world), 1);
    filelink_server_close(l);
    memset(&co, 0, sizeof(co));
    co.opts_size = sizeof(co);
    co.kind = SNIC_FILES_CHANNEL_KIND;
    co.up_bytes = 65536;
    co.down_bytes = 65536;
    memset(&e, 0, sizeof(e));
    memset(raw, 0, sizeof(*raw));
    e.message = raw_message;
    e.closed = raw_closed;
    e.ctx = raw;
    assert_int_equal(snic_channel_open(&raw->channel, l->host_hub, &co, &e), 0);
    assert_int_equal(snic_channel_sender_init(&raw->sender, raw->channel), 0);
}

static void raw_close(struct filelink *l, struct raw *raw)
{
    snic_channel_close(raw->channel);
    (void)snic_world_run(l->fx.world, snic_world_now(l->fx.world) + 1000000000, UINT64_MAX);
    filelink_server_close(l);
}

/* One message of `op` with these fields; the answer. */
static int64_t raw_request(struct filelink *l, struct raw *raw, uint8_t op, uint64_t file,
                           uint64_t length, uint32_t name_size, uint32_t key_size, uint32_t count,
                           uint32_t payload)
{
    static unsigned char bytes[16384];
    unsigned char h[128];
    struct snic_iov v = {bytes, payload};
    unsigned before = raw->replies;
    memset(h, 0, sizeof(h));
    h[0] = 2;
    h[1] = op;
    snic_put_le64(h + 16, file);
    snic_put_le64(h + 48, length);
    snic_put_le32(h + 64, name_size);
    snic_put_le32(h + 72, key_size);
    snic_put_le32(h + 80, count);
    assert_int_equal(snic_channel_up_push(&raw->sender, 1, h, sizeof(h), &v, 1), 0);
    while (raw->replies == before)
        assert_int_equal(snic_world_step(l->fx.world), 1);
    return raw->result;
}

static unsigned raw_hooks;

static int raw_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                          uint64_t version)
{
    (void)ctx;
    (void)keys;
    (void)key_size;
    (void)version;
    raw_hooks += count;
    return 0;
}

/* Sizes that do not fit the message are refused before anything is read by them. */
static void test_filelib_host_sizes_wrong_refused(void **state)
{
    struct filelink l;
    struct snic_files_hooks h;
    struct snic_files_server_stats before;
    struct snic_files_server_stats st;
    struct raw raw;
    uint64_t a;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    memset(&h, 0, sizeof(h));
    h.invalidate = raw_invalidate;
    snic_files_set_hooks(l.fx.files, &h);
    raw_hooks = 0;
    raw_open(&l, &raw);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 8, 1000, 8), SNIC_EINVAL);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 8, 0x20000001, 8), SNIC_EINVAL);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 4097, 1, 4097), SNIC_EINVAL);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 0, 5, 0), SNIC_EINVAL);
    assert_int_equal(raw_request(&l, &raw, 40, 0, 0, 0, 8, 3, 8), SNIC_EINVAL);
    assert_int_equal(raw_hooks, 0);
    snic_files_server_get_stats(l.server, &st);
    assert_int_equal(st.refused, 5);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 8, 1500, 12000), 0);
    assert_int_equal(raw_hooks, 1500);
    assert_int_equal(raw_request(&l, &raw, 41, 0, 0, 0, 4096, 1, 4096), 0);
    assert_int_equal(raw_hooks, 1501);
    snic_files_server_get_stats(l.server, &before);
    assert_int_equal(raw_request(&l, &raw, 2, a, 100, 0, 0, 0, 50), SNIC_EPROTO);
    assert_int_equal(raw_request(&l, &raw, 2, a, 50, 0, 0, 0, 100), SNIC_EPROTO);
    assert_int_equal(raw_request(&l, &raw, 2, a, 50, 0, 0, 0, 50), 50);
    assert_int_equal(raw_request(&l, &raw, 1, a, 50, 0, 0, 0, 50), SNIC_EPROTO);
    assert_int_equal(raw_request(&l, &raw, 1, a, UINT64_MAX, 0, 0, 0, 0), SNIC_EMSGSIZE);
    assert_int_equal(raw_request(&l, &raw, 10, 0, 0, 9, 0, 0, 5), SNIC_EPROTO);
    assert_int_equal(raw_request(&l, &raw, 10, 0, 0, 256, 0, 0, 256), SNIC_ENAMETOOLONG);
    snic_files_server_get_stats(l.server, &st);
    assert_int_equal(st.requests - before.requests, 7);
    assert_int_equal(st.responses - before.responses, 7);
    assert_int_equal(st.refused - before.refused, 6);
    assert_int_equal(st.write_bytes - before.write_bytes, 50);
    assert_int_equal(st.read_bytes - before.read_bytes, 0);
    raw_close(&l, &raw);
    filelink_close(&l);
}

/* A host that sends anything at all is answered or ignored; the service and its files live. */
static void test_filelib_hostile_host_service_survives(void **state)
{
    uint64_t rounds = support_scale(20000, 1000000);
    struct filelink l;
    struct snic_rng rng;
    struct raw raw;
    static unsigned char payload[9000];
    uint64_t a;
    uint64_t i;
    (void)state;
    link_setup(&l, 0);
    filelink_open(&l);
    assert_int_equal(filelink_named(l.group, SNIC_FILES_CREATE, 0, "a", &a), 0);
    raw_open(&l, &raw);
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        unsigned char h[256];
        struct snic_iov v;
        uint32_t size = snic_rng_below(&rng, 20) == 0 ? (uint32_t)snic_rng_below(&rng, 257) : 128;
        static const unsigned char ops[] = {1,  2,  3,  8,  9,  10, 11, 12,
                                            13, 14, 20, 21, 22, 40, 41, 42};
        uint32_t k;
        memset(h, 0, sizeof(h));
        h[0] = 2;
        h[1] = ops[snic_rng_below(&rng, sizeof(ops))];
        snic_put_le64(h + 8, i);
        snic_put_le64(h + 16, snic_rng_below(&rng, 3) ? a : snic_rng_next(&rng));
        snic_put_le64(h + 40, snic_rng_below(&rng, 100000));
        snic_put_le64(h + 48, snic_rng_below(&rng, 10000));
        v.base = payload;
        v.size = snic_rng_below(&rng, 4) ? snic_rng_below(&rng, 20) : snic_rng_below(&rng, 8192);
        snic_rng_fill(&rng, payload, 32);
        if (snic_rng_below(&rng, 2)) {
            snic_put_le64(h + 48, v.size);
            snic_put_le32(h + 64, (uint32_t)v.size);
        }
        for (k = (uint32_t)snic_rng_below(&rng, 4); k > 0; k--)
            snic_put_le64(h + snic_rng_below(&rng, 15) * 8,
                          snic_rng_next(&rng) >> snic_rng_below(&rng, 64));
        while (snic_channel_up_push(&raw.sender, 1, h, size, &v, 1) == SNIC_EAGAIN)
            assert_int_equal(snic_world_step(l.fx.world), 1);
        if (i % 64 == 0)
            assert_int_equal(snic_files_check(l.fx.files), 0);
    }
    (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 3000000000u, UINT64_MAX);
    assert_int_equal(snic_files_check(l.fx.files), 0);
    assert_true(raw.replies > rounds / 2);
    raw_close(&l, &raw);
    filelink_close(&l);
}

struct fake {
    struct snic_channel *channel;
    struct snic_rng rng;
    unsigned closed;
    unsigned kind;
    unsigned answered;
    unsigned char first[8]; /* the first request's id */
};

/* A DPU that answers with nonsense of one kind. */
static int fake_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct fake *f = ctx;
    const unsigned char *q = m->header;
    static unsigned char payload[20000];
    unsigned char h[64];
    struct snic_iov v;
    uint32_t size = sizeof(h);
    memset(h, 0, sizeof(h));
    h[0] = 2;
    h[1] = q[1];
    memcpy(h + 8, q + 8, 8);
    if (f->answered++ == 0)
        memcpy(f->first, h + 8, 8);
    v.base = payload;
    v.size = q[1] == SNIC_FILES_READ ? 100 : 0;
    snic_put_le64(h + 16, q[1] == SNIC_FILES_FSYNC ? 0 : 100);
    switch (f->kind) {
    case 0: /* right, so far */
        break;
    case 1:
        snic_put_le64(h + 8, snic_rng_next(&f->rng));
        break;
    case 2:
        h[1] ^= 1;
        break;
    case 3:
        v.size = 5000; /* more than requested */
        snic_put_le64(h + 16, v.size);
        break;
    case 4:
        snic_put_le64(h + 16, snic_rng_next(&f->rng));
        break;
    case 5:
        size = (uint32_t)snic_rng_below(&f->rng, 64);
        break;
    case 6: /* twice */
        (void)!snic_channel_down_push(c, 2, h, size, &v, 1);
        break;
    case 7:
        h[0] = 9;
        break;
    case 8:
        if (q[1] == SNIC_FILES_WRITE)
            snic_put_le64(h + 16, 99);
        break;
    case 9:
        memcpy(h + 8, f->first, 8);
        break;
    default:
        snic_rng_fill(&f->rng, h + snic_rng_below(&f->rng, 56), 8);
        v.size = snic_rng_below(&f->rng, 300);
        break;
    }
    (void)!snic_channel_down_push(c, 2, h, size, &v, 1);
    return 1;
}

static void fake_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)c;
    (void)reason;
    ((struct fake *)ctx)->closed++;
}

static struct fake fake;

static int fake_accept(void *ctx, struct snic_channel_hub *h,
                       const struct snic_channel_offer *offer)
{
    struct snic_channel_events e;
    (void)ctx;
    memset(&e, 0, sizeof(e));
    e.message = fake_message;
    e.closed = fake_closed;
    e.ctx = &fake;
    return snic_channel_accept(&fake.channel, h, offer, NULL, &e);
}

/* A link whose DPU end is a fake. */
static void fake_open(struct filelink *l)
{
    struct snic_channel_hub_opts ho;
    struct snic_dma_events none;
    size_t size;
    filefix_open(&l->fx);
    assert_int_equal(snic_world_loop(l->fx.world, 1, &l->host_loop), 0);
    memset(&none, 0, sizeof(none));
    assert_int_equal(
        snic_dma_local_open(&l->host_dma, l->host_loop, &none, &l->dpu_dma, l->fx.loop, &none), 0);
    memset(&ho, 0, sizeof(ho));
    ho.opts_size = sizeof(ho);
    ho.accept = fake_accept;
    size = snic_channel_hub_memsize(&ho);
    l->dpu_hub_mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&l->dpu_hub, l->dpu_hub_mem, size, l->dpu_dma, &ho), 0);
    ho.accept = NULL;
    l->host_hub_mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&l->host_hub, l->host_hub_mem, size, l->host_dma, &ho),
                     0);
    filelink_group_open(l);
}

static void fake_judge(unsigned kind, const struct snic_filelib_req *r)
{
    unsigned i;
    for (i = 0; kind == 0 && i < 8; i++)
        assert_int_equal(r[i].result, i % 4 == 3 ? 0 : 100);
    if ((kind >= 1 && kind <= 5) || kind == 7)
        assert_int_equal(r[0].result, SNIC_EPROTO);
    if (kind == 8)
        assert_int_equal(r[2].result, SNIC_EPROTO);
    for (i = 0; kind == 9 && i < 8; i++)
        assert_int_equal(r[i].result, i == 0 ? 100 : SNIC_EPROTO);
}

/* Whatever the DPU answers, each request completes once and nothing is written beyond buffers;
 * an answer that is not the request's is never taken for one. */
static void test_filelib_hostile_dpu_requests_end(void **state)
{
    static const uint8_t ops[] = {SNIC_FILES_READ, SNIC_FILES_READ, SNIC_FILES_WRITE,
                                  SNIC_FILES_FSYNC};
    unsigned kind;
    (void)state;
    for (kind = 0; kind < 60; kind++) {
        struct filelink l;
        struct snic_filelib_req r[8];
        struct snic_filelib_req *p[8];
        unsigned char *buf = support_guard_alloc(800, 1);
        unsigned i;
        memset(&fake, 0, sizeof(fake));
        snic_rng_init(&fake.rng, support_seed() + kind);
        fake.kind = kind;
        link_setup(&l, 0);
        l.open.depth = kind == 9 ? 1 : 0; /* the entry is used again */
        fake_open(&l);
        memset(r, 0, sizeof(r));
        responses = 0;
        for (i = 0; i < 8; i++) {
            r[i].op = ops[i % 4];
            r[i].length = i % 4 == 3 ? 0 : 100;
            r[i].buf.base = buf + i * 100;
            r[i].buf.size = 100;
            r[i].done = count_done;
            p[i] = &r[i];
        }
        snic_filelib_submit(l.group, p, 8);
        (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 1000000000, UINT64_MAX);
        filelink_group_close(&l);
        assert_int_equal(responses, 8);
        fake_judge(kind, r);
        (void)snic_world_run(l.fx.world, snic_world_now(l.fx.world) + 1000000000, UINT64_MAX);
        snic_channel_close(fake.channel);
        filelink_disconnect(&l);
        snic_loop_close(l.host_loop);
        filefix_close(&l.fx);
        support_guard_free(buf);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_host_sizes_wrong_refused),
        cmocka_unit_test(test_filelib_hostile_host_service_survives),
        cmocka_unit_test(test_filelib_hostile_dpu_requests_end),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
