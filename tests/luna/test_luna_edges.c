/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is at the edge of luna.h. */
#include "test_luna_util.h"

/* An unknown place blocks only the requests that need it. */
static void test_luna_edges_unknown_place_others_go_on(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_ebs_io lost, other;
    (void)state;
    duo_open(d);
    d->mute = d->still = 1;
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, d->seg_gen, d->now), 0);
    duo_io(d, &lost, SNIC_EBS_IO_ZERO, 600, 1, NULL, 0);
    duo_io(d, &other, SNIC_EBS_IO_ZERO, 3, 1, NULL, 0);
    assert_true(duo_until(d, 1, 400));
    assert_true(other.done_ns != 0 && other.result == 0 && lost.done_ns == 0);
    assert_true(d->acts[SNIC_EBS_ACT_MAP] > 0);
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, d->seg_gen, d->now), 0);
    assert_true(duo_until(d, 2, 400));
    assert_int_equal(lost.result, 0);
    duo_close(d);
}

/* An unidentified peer keeps its place for a second, whatever it sends: not for ten. */
static void test_luna_edges_unauthenticated_evicted(void **state)
{
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .conns_max = 2};
    struct snic_luna_target *t;
    struct snic_luna_target_action a;
    const uint64_t second = UINT64_C(1000000000);
    uint32_t h[3];
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[0], 5), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[1], 3 + second / 2), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, second), 0);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second + 5), SNIC_ENOSPC);
    assert_int_equal(snic_luna_target_poll(t, &a, 1, second + 5), 1);
    assert_true(a.type == SNIC_LUNA_TARGET_CLOSE && a.handle == h[0]);
    assert_int_equal(snic_luna_target_opened(t, &h[2], second + 6), 0);
    assert_int_equal(snic_luna_target_check(t), 0);
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

/* A frame without blocks to @p t; a request of it is answered with @p status. */
static void frame_sent(struct snic_luna_target *t, uint32_t handle, struct snic_ebs_header *h,
                       uint32_t status, uint64_t now)
{
    unsigned char bytes[SNIC_EBS_HEADER_BYTES];
    struct snic_ebs_request q;
    size_t used = 0;
    h->srv_epoch = h->type == SNIC_EBS_HELLO ? 0 : 1;
    h->pkt_cnt = 1;
    h->path_seq++;
    assert_int_equal(snic_ebs_encode(bytes, sizeof(bytes), NULL,
                                     SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER, h, NULL, 0),
                     SNIC_EBS_HEADER_BYTES);
    int r = snic_luna_target_recv(t, handle, bytes, sizeof(bytes), &used, &q, now);
    assert_int_equal(r, h->type == SNIC_EBS_TOKEN);
    if (r == 1)
        snic_luna_target_answer(t, &q, status, 0, 0, now);
}

/* All that it sends; a HELLO_ACK has the number of the connection. */
static void answers_read(struct snic_luna_target *t, struct snic_ebs_header *h, uint64_t now)
{
    struct snic_luna_target_action a;
    struct snic_ebs_header in;
    struct snic_ebs_place place;
    while (snic_luna_target_poll(t, &a, 1, now) == 1) {
        assert_int_equal(a.type, SNIC_LUNA_TARGET_SEND);
        assert_int_equal(snic_ebs_decode(&in, &place, SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT,
                                         a.send->iov[0].base, SNIC_EBS_HEADER_BYTES),
                         0);
        if (in.type == SNIC_EBS_HELLO_ACK)
            h->conn_id = in.u.hello.conn_id;
        snic_luna_target_sent(t, a.send, now);
    }
}

/* Where tokens are needed, HELLO and PROBEs hold no place: of three connections those make room
   that have shown none, or one that was refused. */
static void test_luna_edges_without_token_makes_room(void **state)
{
    static const uint16_t status[3] = {SNIC_EBS_OK, SNIC_EBS_FORBIDDEN, SNIC_EBS_OK};
    struct snic_luna_target_opts k = {
        .opts_size = sizeof(k), .flags = SNIC_LUNA_TARGET_TOKENS, .srv_epoch = 1, .conns_max = 3};
    struct snic_luna_target *t;
    struct snic_luna_target_action a;
    struct snic_ebs_header h[3];
    const uint64_t second = UINT64_C(1000000000);
    uint32_t handle[3], late;
    size_t size = snic_luna_target_memsize(&k);
    void *mem = support_guard_alloc(size, SNIC_LUNA_ALIGN);
    (void)state;
    assert_int_equal(snic_luna_target_init(&t, mem, size, &k, 0), 0);
    memset(h, 0, sizeof(h));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(snic_luna_target_opened(t, &handle[i], i), 0);
        h[i].type = SNIC_EBS_HELLO;
        h[i].u.hello =
            (struct snic_ebs_hello){.ver_min = 2, .ver_max = 2, .conn_id = 7, .client_id = 100 + i};
        frame_sent(t, handle[i], &h[i], 0, i);
        answers_read(t, &h[i], i);
        memset(&h[i].u, 0, sizeof(h[i].u));
        h[i].type = SNIC_EBS_TOKEN;
        if (i < 2)
            frame_sent(t, handle[i], &h[i], status[i], i);
        answers_read(t, &h[i], i);
    }
    for (uint32_t i = 1; i < 3; i++) {
        h[i].type = SNIC_EBS_PROBE;
        frame_sent(t, handle[i], &h[i], 0, second);
        answers_read(t, &h[i], second);
    }
    for (uint32_t i = 1; i < 4; i++) { /* the last finds none that may go */
        assert_int_equal(snic_luna_target_opened(t, &late, second + 5), SNIC_ENOSPC);
        assert_int_equal(snic_luna_target_poll(t, &a, 1, second + 5), i < 3);
        if (i == 3)
            break;
        assert_true(a.type == SNIC_LUNA_TARGET_CLOSE && a.handle == handle[i]);
        assert_int_equal(snic_luna_target_opened(t, &late, second + 6), 0);
    }
    assert_int_equal(snic_luna_target_check(t), 0);
    assert_ptr_equal(snic_luna_target_fini(t), mem);
    support_guard_free(mem);
}

/* What a disk waits for, and since when: a place, or a server, and which. */
static void test_luna_edges_what_a_disk_waits_for(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_ebs_io io;
    struct snic_ebs_wait w = {9, 9, 9, 9};
    (void)state;
    duo_open(d);
    d->mute = d->still = 1;
    assert_int_equal(snic_luna_get_wait(d->c, 1, &w), SNIC_ENOENT);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 0);
    assert_true(w.segment == 9 && w.since_ns == 9 && w.server == 9 && w.place == 9);
    uint64_t from = d->now;
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 600, 1, NULL, 0);
    for (int i = 0; i < 400; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 1);
    assert_true(w.segment == 1 && w.server == UINT32_MAX && w.place == 1);
    assert_in_range(w.since_ns, from, from + 1000000);
    d->status = SNIC_EBS_BUSY; /* it has a place, and is not done there */
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, 1, d->now), 0);
    for (int i = 0; i < 400; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 1);
    assert_true(w.segment == 1 && w.server == 0 && w.place == 0);
    assert_in_range(w.since_ns, from, from + 1000000);
    d->status = SNIC_EBS_NO_SEGMENT; /* the server knows better */
    for (int i = 0; i < 400; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 1);
    assert_true(w.segment == 1 && w.server == 0 && w.place == 1);
    d->status = 0;
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, 2, d->now), 0);
    assert_true(duo_until(d, 1, 400));
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 0);
    duo_close(d);
}

/* A large I/O progresses: what its last RPCs wait for is not as old as it is. */
static void test_luna_edges_what_waits_is_as_old_as_its_rpc(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_ebs_io io[2];
    struct snic_ebs_wait w;
    (void)state;
    d->mute = d->still = 1;
    d->o.rpcs_max = 16; /* of 24 that are needed */
    duo_open(d);
    assert_int_equal(snic_luna_map(d->c, 0, 0, 70, 0, 1, d->now), 0);
    d->status = SNIC_EBS_BUSY;
    uint64_t from = d->now;
    duo_io(d, &io[0], SNIC_EBS_IO_ZERO, 0, 512, NULL, 0);
    duo_io(d, &io[1], SNIC_EBS_IO_ZERO, 0, 1024, NULL, 0);
    for (int i = 0; i < 400; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 1);
    assert_true(w.segment == 0 && w.server == 0 && w.place == 0);
    assert_in_range(w.since_ns, from, from + 1000000);
    from = d->now;
    d->status = 0;
    for (int i = 0; i < 4000; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_wait(d->c, 0, &w), 1);
    assert_true(w.segment == 1 && w.server == UINT32_MAX && w.place == 1);
    assert_in_range(w.since_ns, from, d->now);
    assert_int_equal(snic_luna_map(d->c, 0, 1, 71, 0, 1, d->now), 0);
    assert_true(duo_until(d, 2, 4000));
    duo_close(d);
}

/* A server whose store is dead is known, by its answers to writes and promises. */
static void test_luna_edges_failed_store_is_known(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_ebs_io a, b;
    struct snic_ebs_busy is;
    (void)state;
    d->still = 1;
    duo_open(d);
    d->status = SNIC_EBS_IO;
    duo_io(d, &a, SNIC_EBS_IO_ZERO, 5, 1, NULL, 0);
    assert_true(duo_until(d, 1, 400));
    assert_int_equal(a.result, SNIC_EIO);
    assert_int_equal(snic_luna_get_busy(d->c, 0, &is), 0);
    assert_true(is.failed == 1 && is.failed_since_ns != 0 && is.count == 0 && is.since_ns == 0);
    uint64_t from = is.failed_since_ns;
    d->hold = 1;
    duo_io(d, &b, SNIC_EBS_IO_ZERO, 6, 1, NULL, 0);
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    for (uint32_t i = 0; i < 2; i++) /* so that there are copies, and the promise is needed */
        duo_break(d, i, SNIC_ECONNRESET);
    uint32_t fences = 0;
    for (int i = 0; i < 20000 && fences < 3; i++) {
        duo_turn(d);
        for (uint32_t k = 0; k < d->requests; k++) {
            fences += d->request[k].op == SNIC_EBS_DO_FENCE;
            snic_luna_target_answer(d->t, &d->request[k], SNIC_EBS_IO, 0, 0, d->now);
        }
        d->requests = 0;
    }
    for (int i = 0; i < 20; i++)
        duo_turn(d);
    assert_int_equal(snic_luna_get_busy(d->c, 0, &is), 0);
    assert_true(fences == 3 && is.failed >= 5 && is.failed_since_ns == from);
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    d->hold = 0; /* it can promise */
    assert_true(duo_until(d, 2, 40000));
    assert_int_equal(b.result, SNIC_EIO);
    assert_int_equal(snic_luna_get_busy(d->c, 0, &is), 0);
    assert_int_equal(is.failed_since_ns, 0);
    duo_close(d);
}

/* A connection that comes while another one is silent, and dies: it is probed before it is trusted
   with what the silent one has swallowed. */
static void test_luna_edges_new_connection_probed(void **state)
{
    static struct duo duo;
    struct duo *d = &duo;
    struct snic_luna_conn_stats s;
    struct snic_ebs_io io;
    const uint64_t ms = 1000000;
    (void)state;
    d->o.conns = 2;
    duo_open(d);
    for (int i = 0; i < 10; i++)
        duo_turn(d);
    d->still = d->refused = 1;
    duo_break(d, 1, SNIC_ECONNRESET);
    duo_turn(d);
    duo_io(d, &io, SNIC_EBS_IO_ZERO, 3, 1, NULL, 0);
    uint64_t began = d->now;
    uint32_t closes = d->closes;
    while (d->now < began + 3000 * ms && d->acts[SNIC_EBS_ACT_DONE] == 0) {
        d->conn[0].paused |= d->closes == closes; /* the server does not hear it any more */
        d->conn[1].paused |= d->now >= began + 390 * ms;
        d->refused = d->now < began + 250 * ms;
        d->now += ms;
        duo_turn(d);
        if (d->now == began + 390 * ms) {
            assert_int_equal(snic_luna_get_conn(d->c, 0, 1, &s), 0);
            assert_int_equal(s.state, SNIC_LUNA_UP);
        }
    }
    assert_int_equal(d->acts[SNIC_EBS_ACT_DONE], 1);
    assert_in_range(io.done_ns - began, 790 * ms, 1000 * ms);
    d->conn[1].paused = d->still = 0;
    duo_close(d);
}

/* ---- Options at the ends of their ranges ---- */

#define U32(field) #field, offsetof(struct snic_luna_opts, field), 0
#define U64(field) #field, offsetof(struct snic_luna_opts, field), 1
#define T32(field) #field, offsetof(struct snic_luna_target_opts, field), 0
#define T64(field) #field, offsetof(struct snic_luna_target_opts, field), 1

struct range {
    const char *name;
    size_t at;
    int wide;
    uint64_t least, most; /* 0 asks for the default */
};

static void put(void *opts, const struct range *r, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (r->wide)
        memcpy((char *)opts + r->at, &value, sizeof(value));
    else
        memcpy((char *)opts + r->at, &narrow, sizeof(narrow));
}

static void test_luna_edges_options_out_of_range_refused(void **state)
{
    const uint64_t ms = 1000000, hour = UINT64_C(3600000) * ms;
    const struct range agent[] = {
        {U32(disks_max), 1, 4096},
        {U32(servers_max), 1, 1024},
        {U32(conns), 1, SNIC_LUNA_CONNS_MAX},
        {U32(rpcs_max), 16, 65536},
        {U32(sends_max), 4, 4096},
        {U32(chunks_max), 1, 1u << 20},
        {U64(disk_blocks_max), 512, UINT64_C(1) << 40},
        {U64(deadline_ns), 1, 24 * hour},
        {U64(slow_ns), 1, 24 * hour},
        {U64(error_ns), 0, 24 * hour},
        {U64(suspect_ns), 1, hour},
        {U64(progress_ns), ms, hour},
        {U64(retry_max_ns), ms, hour},
        {U64(stall_ns), 1000, hour},
    };
    const struct range target[] = {
        {T32(conns_max), 1, 4096},
        {T32(frames_max), 2, 1024},
        {T32(sends_max), 4, 4096},
        {T64(stall_ns), 1, UINT64_C(1) << 60},
    };
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(agent); i++)
        for (uint64_t by = 1; by <= 10; by += 9) {
            const struct range *r = &agent[i];
            struct snic_luna_opts o = {.opts_size = sizeof(o), .client_epoch = 1};
            o.chunks_max = 1; /* a map of 2^40 blocks is not asked for */
            put(&o, r, r->least);
            assert_null(snic_luna_opts_wrong(&o));
            assert_true(snic_luna_memsize(&o) > 0);
            put(&o, r, r->most);
            assert_true(snic_luna_memsize(&o) > 0);
            put(&o, r, by == 1 ? r->most + 1 : 10 * r->most);
            assert_int_equal(snic_luna_memsize(&o), 0);
            support_names(snic_luna_opts_wrong(&o), r->name);
            if (r->least > 1) {
                put(&o, r, r->least - 1);
                assert_int_equal(snic_luna_memsize(&o), 0);
                assert_non_null(snic_luna_opts_wrong(&o));
            }
        }
    for (uint32_t i = 0; i < SNIC_COUNTOF(target); i++)
        for (uint64_t by = 1; by <= 10; by += 9) {
            const struct range *r = &target[i];
            struct snic_luna_target_opts o = {.opts_size = sizeof(o), .srv_epoch = 1};
            put(&o, r, r->least);
            assert_null(snic_luna_target_opts_wrong(&o));
            assert_true(snic_luna_target_memsize(&o) > 0);
            put(&o, r, r->most);
            assert_true(snic_luna_target_memsize(&o) > 0);
            put(&o, r, by == 1 ? r->most + 1 : 10 * r->most);
            assert_int_equal(snic_luna_target_memsize(&o), 0);
            support_names(snic_luna_target_opts_wrong(&o), r->name);
            if (r->least > 1) {
                put(&o, r, r->least - 1);
                assert_int_equal(snic_luna_target_memsize(&o), 0);
                assert_non_null(snic_luna_target_opts_wrong(&o));
            }
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_luna_edges_options_out_of_range_refused),
        cmocka_unit_test(test_luna_edges_unauthenticated_evicted),
        cmocka_unit_test(test_luna_edges_without_token_makes_room),
        cmocka_unit_test(test_luna_edges_what_a_disk_waits_for),
        cmocka_unit_test(test_luna_edges_what_waits_is_as_old_as_its_rpc),
        cmocka_unit_test(test_luna_edges_failed_store_is_known),
        cmocka_unit_test(test_luna_edges_unknown_place_others_go_on),
        cmocka_unit_test(test_luna_edges_new_connection_probed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
