/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The contract of both halves, by hand.
 */
#include "test_nvmetcp_util.h"

#include <stdlib.h>

static struct duo duo;
static unsigned char out[DUO_DISK], in[DUO_DISK];

/* Writes in the capsule and by R2T, and reads, give back what was written; with every mix of
   digests and alignments. */
static void test_nvmetcp_write_then_read_same_bytes(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command w[3], r;
    struct snic_iov a = {out, 4096}, b[2] = {{out + 4096, 1000}, {out + 5096, 50000}};
    struct snic_iov c = {out + 60000, 512}, all = {in, 55096};
    (void)state;
    fill(out, sizeof(out), 1);
    for (uint32_t i = 0; i < 48; i++) {
        duo_opts(d);
        d->ho.digests = i & 3;
        d->ho.hpda = (i & 4) != 0 ? 31 : 0;
        d->to.cpda = (i & 8) != 0 ? 31 : 0;
        d->host_inline = 4096;
        d->ho.r2ts_max = i % 3 + 1;
        d->grant_bytes = i >= 16 ? 10000 : 0;
        d->zero_copy = i >= 32;
        duo_open(d);
        duo_connect(d);
        duo_command(&w[0], 1, 0, &a, 1);
        duo_command(&w[1], 1, 4096, b, 2);
        duo_command(&w[2], 1, 100000, &c, 1);
        for (uint32_t k = 0; k < 3; k++)
            duo_submit(d, &w[k]);
        duo_run(d);
        assert_int_equal(d->done, 3);
        for (uint32_t k = 0; k < 3; k++)
            assert_true(w[k].error == 0 && w[k].status == 0);
        memset(in, 0, sizeof(in));
        duo_command(&r, 2, 0, &all, 1);
        duo_submit(d, &r);
        duo_run(d);
        assert_true(r.error == 0 && r.status == 0 && r.received == r.size);
        assert_memory_equal(in, out, 55096);
        assert_memory_equal(d->disk + 100000, out + 60000, 512);
        assert_int_equal(d->t_term + d->h_term + d->t_ended + d->h_ended, 0);
        duo_close(d);
    }
}

/* ---- Options and memory ---- */

static void target_wrong(struct snic_nvmetcp_target_opts o, const char *name)
{
    struct snic_nvmetcp_target *t = (void *)&duo;
    support_names(snic_nvmetcp_target_opts_wrong(&o), name);
    assert_int_equal(snic_nvmetcp_target_memsize(&o), 0);
    assert_int_equal(snic_nvmetcp_target_init(&t, duo.disk, sizeof(duo.disk), &o, 0), SNIC_EINVAL);
    assert_ptr_equal(t, &duo);
}

#define TARGET_WRONG(field, value)                                                                 \
    target_wrong(                                                                                  \
        (struct snic_nvmetcp_target_opts){.opts_size = sizeof(struct snic_nvmetcp_target_opts),    \
                                          .field = (value)},                                       \
        #field)
#define TARGET_RIGHT(field, value)                                                                 \
    assert_true(snic_nvmetcp_target_memsize(&(struct snic_nvmetcp_target_opts){                    \
                    .opts_size = sizeof(struct snic_nvmetcp_target_opts), .field = (value)}) > 0)

static void test_nvmetcp_target_options_wrong_refused(void **state)
{
    (void)state;
    TARGET_WRONG(flags, 1);
    TARGET_WRONG(pad, 1);
    TARGET_WRONG(digests, 4);
    TARGET_RIGHT(digests, 3);
    TARGET_WRONG(cpda, 32);
    TARGET_RIGHT(cpda, 31);
    TARGET_WRONG(depth_max, 1);
    TARGET_RIGHT(depth_max, 2);
    TARGET_WRONG(depth_max, SNIC_NVMETCP_DEPTH_MAX + 1);
    TARGET_RIGHT(depth_max, SNIC_NVMETCP_DEPTH_MAX);
    TARGET_WRONG(inline_max, 1008);
    TARGET_RIGHT(inline_max, 1024);
    TARGET_WRONG(inline_max, 1032);
    TARGET_WRONG(inline_max, SNIC_NVMETCP_INLINE_MAX + 16);
    TARGET_RIGHT(inline_max, SNIC_NVMETCP_INLINE_MAX);
    TARGET_WRONG(inline_buffers, 129);
    TARGET_RIGHT(inline_buffers, 128);
    TARGET_WRONG(grants_max, SNIC_NVMETCP_DEPTH_MAX + 1);
    TARGET_RIGHT(grants_max, SNIC_NVMETCP_DEPTH_MAX);
    TARGET_WRONG(r2ts_max, SNIC_NVMETCP_R2TS_MAX + 1);
    TARGET_RIGHT(r2ts_max, SNIC_NVMETCP_R2TS_MAX);
    TARGET_WRONG(h2c_max, 4092);
    TARGET_WRONG(h2c_max, 4098);
    TARGET_RIGHT(h2c_max, 4096);
    TARGET_WRONG(h2c_max, SNIC_NVMETCP_TRANSFER_MAX + 4);
    TARGET_WRONG(transfer_max, 4095);
    TARGET_RIGHT(transfer_max, SNIC_NVMETCP_TRANSFER_MAX);
    TARGET_WRONG(transfer_max, SNIC_NVMETCP_TRANSFER_MAX + 1);
    TARGET_WRONG(greet_ns, SNIC_NVMETCP_NS_MAX + 1);
    TARGET_WRONG(data_ns, SNIC_NVMETCP_NS_MAX + 1);
    TARGET_WRONG(close_ns, SNIC_NVMETCP_NS_MAX + 1);
    target_wrong((struct snic_nvmetcp_target_opts){.opts_size = 3}, "opts_size");
}

static void host_wrong(struct snic_nvmetcp_host_opts o, const char *name)
{
    struct snic_nvmetcp_host *h = (void *)&duo;
    support_names(snic_nvmetcp_host_opts_wrong(&o), name);
    assert_int_equal(snic_nvmetcp_host_memsize(&o), 0);
    assert_int_equal(snic_nvmetcp_host_init(&h, duo.disk, sizeof(duo.disk), &o, 0), SNIC_EINVAL);
    assert_ptr_equal(h, &duo);
}

#define HOST_WRONG(field, value)                                                                   \
    host_wrong((struct snic_nvmetcp_host_opts){.opts_size = sizeof(struct snic_nvmetcp_host_opts), \
                                               .field = (value)},                                  \
               #field)

static void test_nvmetcp_host_options_wrong_refused(void **state)
{
    (void)state;
    HOST_WRONG(flags, 2);
    HOST_WRONG(pad, 1);
    HOST_WRONG(digests, 4);
    HOST_WRONG(hpda, 32);
    HOST_WRONG(entries, 1);
    HOST_WRONG(entries, SNIC_NVMETCP_DEPTH_MAX + 1);
    HOST_WRONG(r2ts_max, SNIC_NVMETCP_R2TS_MAX + 1);
    HOST_WRONG(transfer_max, 4095);
    HOST_WRONG(transfer_max, SNIC_NVMETCP_TRANSFER_MAX + 1);
    HOST_WRONG(greet_ns, SNIC_NVMETCP_NS_MAX + 1);
    HOST_WRONG(close_ns, SNIC_NVMETCP_NS_MAX + 1);
}

/* One byte less than memsize, or an address not aligned, is refused; the sizes are those
   of the header. */
static void test_nvmetcp_memory_bounded(void **state)
{
    struct snic_nvmetcp_target_opts o = {.opts_size = sizeof(o)};
    struct snic_nvmetcp_host_opts ho = {.opts_size = sizeof(ho)};
    struct snic_nvmetcp_target *t = NULL;
    struct snic_nvmetcp_host *h = NULL;
    (void)state;
    size_t size = snic_nvmetcp_target_memsize(&o);
    unsigned char *m = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    assert_int_equal(snic_nvmetcp_target_init(&t, m, size - 1, &o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_nvmetcp_target_init(&t, m + 64, size, &o, 0), SNIC_EINVAL);
    assert_null(t);
    support_guard_free(m);
    assert_true(size <= 1200 + 128 * 464 + 128 * 192 + 16 * 8192 + 4096);
    assert_true(size <= 214 * 1024);
    size = snic_nvmetcp_host_memsize(&ho);
    m = support_guard_alloc(size, SNIC_NVMETCP_ALIGN);
    assert_int_equal(snic_nvmetcp_host_init(&h, m, size - 1, &ho, 0), SNIC_ENOSPC);
    assert_int_equal(snic_nvmetcp_host_init(&h, m + 64, size, &ho, 0), SNIC_EINVAL);
    assert_null(h);
    support_guard_free(m);
    assert_true(size <= 1200 + 128 * (200 + 256));
}

/* ---- Statuses that the target answers ---- */

static struct solo solo;

/* A command; its response's status, or 0xffff if it became an event. */
static uint16_t solo_status(struct solo *s, const unsigned char sqe[64], uint32_t data)
{
    static unsigned char b[16384], zeros[8192];
    size_t n = solo_capsule(b, &plain, sqe, zeros, data);
    s->out_size = 0;
    assert_int_equal(solo_feed(s, b, n), n);
    if (s->out_size == 0)
        return 0xffff;
    assert_int_equal(s->out_size, 24);
    assert_int_equal(snic_get_le16(s->out + 20), snic_get_le16(sqe + 2));
    solo_none(s);
    return snic_get_le16(s->out + 22) >> 1;
}

struct judged {
    uint8_t op, psdt, type;
    uint32_t length, data;
    uint64_t address;
    uint16_t status;
};

static const struct judged judged[] = {
    {2, 0, 0x5a, 4096, 0, 0, 0x4002}, /* PSDT 00b: PRPs */
    {2, 3, 0x5a, 4096, 0, 0, 0x4002}, /* reserved */
    {2, 1, 0x01, 4096, 0, 0, 0x4002}, /* a read into the capsule */
    {2, 1, 0x00, 4096, 0, 0, 0x4011}, /* data block by address */
    {1, 1, 0x40, 4096, 0, 0, 0x4011}, /* keyed */
    {1, 1, 0x5b, 4096, 0, 0, 0x4011},
    {1, 1, 0x5a, (1 << 20) + 1, 0, 0, 0x4002}, /* beyond transfer_max */
    {1, 1, 0x5a, 512, 512, 0, 0x4002},         /* data in the capsule that are not described */
    {1, 1, 0x01, 512, 0, 0, 0x400f},
    {1, 1, 0x01, 513, 512, 0, 0x400f},
    {1, 1, 0x01, 512, 512, 1, 0x400f},
    {1, 1, 0x01, 1, 512, 512, 0x400f},
    {1, 1, 0x01, 1, 512, 513, 0x4016},
    {1, 1, 0x01, 1, 512, UINT64_MAX, 0x4016},
    {1, 1, 0x01, UINT32_MAX, 512, 0, 0x400f},
    {0, 1, 0x5a, 0, 16, 0, 0x4002}, /* a flush with data */
    {3, 1, 0x5a, 0, 16, 0, 0x4002}, /* both directions */
    {0, 0, 0, 0, 0, 0, 0x4002},
};

static void test_nvmetcp_capsules_wrong_get_their_status(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_stats st;
    (void)state;
    solo_up(s, 0);
    for (size_t i = 0; i < SNIC_COUNTOF(judged); i++) {
        const struct judged *j = &judged[i];
        unsigned char sqe[64] = {j->op, (unsigned char)(j->psdt << 6), (unsigned char)i, 9};
        snic_put_le64(sqe + 24, j->address);
        snic_put_le32(sqe + 32, j->length);
        sqe[39] = j->type;
        assert_int_equal(solo_status(s, sqe, j->data), j->status);
    }
    snic_nvmetcp_target_stats(s->t, &st);
    assert_true(st.refused == SNIC_COUNTOF(judged) && st.active == 0 && st.inlines == 0);
    solo_close(s);
}

/* What is right is delivered, with the data that its SGL names. */
static void test_nvmetcp_capsules_right_delivered(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.status = 0x4001};
    unsigned char b[16384], data[8192];
    (void)state;
    s->o.inline_max = 8192;
    solo_up(s, 0);
    fill(data, sizeof(data), 3);
    for (uint32_t i = 0; i < 40; i++) {
        unsigned char sqe[64] = {1, 0x40, (unsigned char)i, 0};
        uint32_t size = i * 204 + 1, offset = i * 7 % size, length = size - offset - (i & 1);
        length += length == UINT32_MAX;
        snic_put_le64(sqe + 24, offset);
        snic_put_le32(sqe + 32, length);
        sqe[39] = 1;
        size_t n = solo_capsule(b, &plain, sqe, data, size);
        assert_int_equal(solo_feed(s, b, n), n);
        struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_COMMAND);
        assert_true(e.data_size == length && e.wanted == 0 && e.to_host == 0);
        assert_memory_equal(e.sqe, sqe, 64);
        if (length > 0)
            assert_memory_equal(e.data, data + offset, length);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, e.command, &c, s->now), 0);
        solo_output(s);
        assert_int_equal(snic_get_le16(s->out + 22) >> 1, 0x4001);
        s->out_size = 0;
    }
    solo_close(s);
}

/* Before Connect nothing else; after it no second one. */
static void test_nvmetcp_connect_comes_first_and_once(void **state)
{
    struct solo *s = &solo;
    unsigned char flush[64] = {0, 0x40}, get[64] = {0x7f, 0x40, 0, 0, 4};
    unsigned char connect[64] = {0x7f, 0x40, 0, 0, 1};
    struct snic_nvmetcp_queue q = {.opts_size = sizeof(q), .entries = 4};
    (void)state;
    solo_open(s);
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_ENOTCONN);
    solo_greet(s, 0, 0, 0);
    assert_int_equal(solo_status(s, flush, 0), 0x400c);
    assert_int_equal(solo_status(s, get, 0), 0x400c);
    s->out_size = 0;
    q.entries = 1;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_EINVAL);
    q.entries = 5;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_EINVAL);
    q.entries = 4;
    q.flags = 4;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_EINVAL);
    q.flags = 0;
    q.inline_max = 8193;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_EINVAL);
    solo_connect(s, &plain, 4, 0);
    assert_int_equal(solo_status(s, connect, 0), 0x400c);
    assert_int_equal(solo_status(s, get, 0), 0xffff);
    struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_FABRICS);
    assert_int_equal(e.sqe[4], 4);
    assert_int_equal(solo_status(s, flush, 0), 0xffff);
    solo_event(s, SNIC_NVMETCP_COMMAND);
    q.inline_max = 8192;
    q.flags = SNIC_NVMETCP_NO_SQ_FLOW;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), SNIC_EINVAL);
    q.flags = SNIC_NVMETCP_CREDIT;
    assert_int_equal(snic_nvmetcp_target_connected(s->t, &q), 0);
    solo_close(s);
}

/* A target may refuse the digests that a host requests. */
static void test_nvmetcp_digests_refused(void **state)
{
    struct solo *s = &solo;
    (void)state;
    for (uint32_t refused = 0; refused < 4; refused++) {
        s->o.digests = refused;
        solo_open(s);
        solo_greet(s, 3, 0, 0); /* compares what was agreed */
        solo_close(s);
    }
}

/* A second Connect while the first is pending is refused, so that no more commands than its entries
   can be there when it is accepted; after a refusal there may be another. */
static void test_nvmetcp_connect_pending_refuses_another(void **state)
{
    struct solo *s = &solo;
    unsigned char connect[64] = {0x7f, 0x40, 0, 0, 1};
    struct snic_nvmetcp_completion c = {.status = 0x4182};
    (void)state;
    connect[39] = 0x5a;
    solo_open(s);
    solo_greet(s, 0, 0, 0);
    assert_int_equal(solo_status(s, connect, 0), 0xffff);
    uint32_t first = solo_event(s, SNIC_NVMETCP_CONNECT).command;
    assert_int_equal(solo_status(s, connect, 0), 0x400c);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, first, &c, s->now), 0);
    s->out_size = 0;
    solo_output(s);
    assert_int_equal(snic_get_le16(s->out + 22) >> 1, 0x4182);
    s->out_size = 0;
    solo_connect(s, &plain, 2, 0);
    solo_close(s);
}

/* ---- The queue ---- */

/* The queue's entries are slots; one command more ends the connection, without a TermReq. */
static void test_nvmetcp_queue_full_ends(void **state)
{
    struct solo *s = &solo;
    unsigned char b[128], sqe[64] = {0, 0x40};
    struct snic_nvmetcp_completion c = {.status = 0};
    uint32_t commands[4];
    (void)state;
    s->o.depth_max = 8;
    solo_up(s, 0);
    for (uint16_t i = 0; i < 4; i++)
        commands[i] = solo_command(s, i);
    size_t n = solo_capsule(b, &plain, sqe, NULL, 0);
    assert_int_equal(solo_feed(s, b, n), n);
    assert_int_equal(s->out_size, 0);
    assert_int_equal(solo_event(s, SNIC_NVMETCP_ENDED).reason, SNIC_EOVERFLOW);
    solo_none(s);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, commands[0], &c, s->now), SNIC_ENOTCONN);
    solo_output(s);
    assert_int_equal(s->out_size, 0);
    solo_close(s);
}

/* A slot is free when its response is queued: a host that has not yet got it, because nothing is
   sent, cannot exceed the queue; but what is queued is bounded, too. */
static void test_nvmetcp_slot_free_when_response_queued(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.status = 0};
    struct snic_nvmetcp_stats st;
    unsigned char b[128], sqe[64] = {0, 0x40};
    struct snic_iov iov[64];
    size_t used, bytes, n;
    (void)state;
    solo_up(s, 0);
    n = solo_capsule(b, &plain, sqe, NULL, 0);
    for (uint32_t i = 0; i < 8; i++) { /* 2 * depth_max responses */
        assert_int_equal(snic_nvmetcp_target_recv(s->t, b, n, &used, 0), 0);
        assert_int_equal(used, n);
        uint32_t command = solo_event(s, SNIC_NVMETCP_COMMAND).command;
        assert_int_equal(snic_nvmetcp_target_complete(s->t, command, &c, 0), 0);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, command, &c, 0), SNIC_ENOENT);
    }
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 0);
    assert_int_equal(snic_nvmetcp_target_recv(s->t, b, n, &used, 0), 0);
    assert_int_equal(used, n);
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 1);
    solo_none(s);
    assert_int_equal(snic_nvmetcp_target_recv(s->t, b, n, &used, 0), 0);
    assert_int_equal(used, 0);
    assert_int_equal(snic_nvmetcp_target_output(s->t, iov, 64, &bytes), 1); /* side by side */
    assert_int_equal(bytes, 8 * 24);
    for (uint32_t i = 0; i < 8; i++) /* SQHD: 1 after Connect */
        assert_int_equal(snic_get_le16((unsigned char *)iov[0].base + 24 * i + 16), (i + 2) % 4);
    snic_nvmetcp_target_sent(s->t, 23, 0);
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 1);
    snic_nvmetcp_target_sent(s->t, 1, 0);
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 0);
    assert_int_equal(snic_nvmetcp_target_check(s->t), 0);
    solo_event(s, SNIC_NVMETCP_COMMAND);
    snic_nvmetcp_target_stats(s->t, &st);
    assert_true(st.pauses == 1 && st.active == 1 && st.queued == 7);
    solo_close(s);
}

/* No in-capsule buffer: input stands still until a command with one is complete. */
static void test_nvmetcp_inline_buffers_all_used_pauses(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.status = 0};
    unsigned char b[8192], data[512], sqe[64] = {1, 0x40};
    uint32_t command[2];
    size_t used;
    (void)state;
    fill(data, sizeof(data), 5);
    solo_up(s, 0);
    snic_put_le32(sqe + 32, 512);
    sqe[39] = 1;
    size_t n = solo_capsule(b, &plain, sqe, data, 512);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(solo_feed(s, b, n), n);
        command[i] = solo_event(s, SNIC_NVMETCP_COMMAND).command;
    }
    assert_int_equal(snic_nvmetcp_target_recv(s->t, b, n, &used, 0), 0);
    assert_int_equal(used, 72);
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 1);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, command[1], &c, 0), 0);
    assert_int_equal(snic_nvmetcp_target_paused(s->t), 0);
    assert_int_equal(snic_nvmetcp_target_recv(s->t, b + 72, n - 72, &used, 0), 0);
    assert_int_equal(used, n - 72);
    struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_COMMAND);
    assert_memory_equal(e.data, data, 512);
    assert_int_equal((uintptr_t)e.data % 4096, 0);
    solo_close(s);
}

/* Credit only for a host that requested it, and not in the completions of fabrics commands. */
static void test_nvmetcp_credit_only_on_request(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.result = 0x1122334455667788, .credit = 77};
    unsigned char get[64] = {0x7f, 0x40, 0, 0, 4};
    (void)state;
    for (uint32_t credit = 0; credit < 2; credit++) {
        solo_up(s, credit != 0 ? SNIC_NVMETCP_CREDIT : 0);
        uint32_t command = solo_command(s, 3);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, command, &c, 0), 0);
        solo_output(s);
        assert_int_equal(snic_get_le32(s->out + 8), 0x55667788);
        assert_int_equal(snic_get_le32(s->out + 12), credit != 0 ? 77 : 0x11223344);
        assert_int_equal(solo_status(s, get, 0), 0xffff);
        command = solo_event(s, SNIC_NVMETCP_FABRICS).command;
        assert_int_equal(snic_nvmetcp_target_complete(s->t, command, &c, 0), 0);
        solo_output(s);
        assert_int_equal(snic_get_le32(s->out + 12), 0x11223344);
        solo_close(s);
    }
}

/* SUCCESS replaces the response only if flow control is off, there is no credit, and the response
   holds nothing else. */
static void test_nvmetcp_success_only_where_permitted(void **state)
{
    struct solo *s = &solo;
    static unsigned char data[512];
    struct snic_iov iov = {data, 512};
    struct snic_nvmetcp_completion c = {.iov = &iov, .iov_count = 1, .size = 512, .cookie = 5};
    unsigned char b[128], sqe[64] = {2, 0x40};
    (void)state;
    snic_put_le32(sqe + 32, 512);
    sqe[39] = 0x5a;
    for (uint32_t i = 0; i < 32; i++) {
        solo_up(s, i & 3);
        c.status = (i & 4) != 0 ? 0x4281 : 0;
        c.result = (i & 8) != 0;
        iov.size = c.size = (i & 16) != 0 ? 256 : 512;
        size_t n = solo_capsule(b, &plain, sqe, NULL, 0);
        assert_int_equal(solo_feed(s, b, n), n);
        struct snic_nvmetcp_event e = solo_event(s, SNIC_NVMETCP_COMMAND);
        assert_int_equal(e.to_host, 512);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, e.command, &c, 0), 0);
        solo_output(s);
        assert_int_equal(s->out[0], SNIC_NVMETCP_C2H_DATA);
        assert_int_equal(s->out[1], i == 1 ? 12 : 4);
        assert_int_equal(s->out_size, 24 + c.size + (i == 1 ? 0 : 24));
        assert_int_equal(solo_event(s, SNIC_NVMETCP_SENT).cookie, 5);
        solo_close(s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_write_then_read_same_bytes),
        cmocka_unit_test(test_nvmetcp_target_options_wrong_refused),
        cmocka_unit_test(test_nvmetcp_host_options_wrong_refused),
        cmocka_unit_test(test_nvmetcp_memory_bounded),
        cmocka_unit_test(test_nvmetcp_capsules_wrong_get_their_status),
        cmocka_unit_test(test_nvmetcp_capsules_right_delivered),
        cmocka_unit_test(test_nvmetcp_connect_comes_first_and_once),
        cmocka_unit_test(test_nvmetcp_digests_refused),
        cmocka_unit_test(test_nvmetcp_connect_pending_refuses_another),
        cmocka_unit_test(test_nvmetcp_queue_full_ends),
        cmocka_unit_test(test_nvmetcp_slot_free_when_response_queued),
        cmocka_unit_test(test_nvmetcp_inline_buffers_all_used_pauses),
        cmocka_unit_test(test_nvmetcp_credit_only_on_request),
        cmocka_unit_test(test_nvmetcp_success_only_where_permitted),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
