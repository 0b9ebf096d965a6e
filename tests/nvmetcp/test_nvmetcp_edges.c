/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Grants, deadlines, ends, damaged data, and the host's contract, by hand.
 */
#include "test_nvmetcp_util.h"

#include <stdlib.h>

static struct duo duo;
static struct solo solo;
static unsigned char out[DUO_DISK];

/* ---- Grants ---- */

/* Errors of grant and complete, without any effect. */
static void test_nvmetcp_grant_wrong_refused(void **state)
{
    struct solo *s = &solo;
    unsigned char data[4096];
    struct snic_iov iov[2] = {{data, 4000}, {data, 96}};
    struct snic_nvmetcp_completion c = {.iov = iov, .iov_count = 1, .size = 1};
    (void)state;
    solo_up(s, 0);
    uint32_t w = solo_write(s, 4096), r = solo_command(s, 8);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, r, iov, 2, 4096, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w + 2, iov, 2, 4096, 0), SNIC_ENOENT);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w + 65536, iov, 2, 4096, 0), SNIC_ENOENT);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov, 2, 0, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov, 2, 4095, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov, 1, 4096, 0), SNIC_EINVAL);
    iov[1].size = 97;
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov, 2, 4097, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, r, &c, 0), SNIC_EINVAL);
    solo_output(s);
    assert_int_equal(s->out_size, 0);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov, 1, 4000, 0), 0);
    iov[1].size = 96;
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, iov + 1, 1, 96, 0),
                     SNIC_EAGAIN); /* MAXR2T */
    c.size = 0;
    assert_int_equal(snic_nvmetcp_target_complete(s->t, w, &c, 0), SNIC_EBUSY);
    solo_output(s);
    assert_int_equal(s->out_size, 24);
    solo_close(s);
}

/* A grant whose data do not come is taken back with the connection, exactly at its time. */
static void test_nvmetcp_grant_without_data_expires(void **state)
{
    struct solo *s = &solo;
    unsigned char data[4096];
    struct snic_iov iov = {data, 4096};
    struct snic_nvmetcp_completion c = {.status = 0};
    (void)state;
    s->o.data_ns = 5000;
    solo_up(s, 0);
    uint32_t w = solo_write(s, 4096);
    assert_int_equal(snic_nvmetcp_target_deadline_ns(s->t), SNIC_NEVER);
    assert_int_equal(snic_nvmetcp_target_grant(s->t, w, &iov, 1, 4096, s->now), 0);
    assert_int_equal(snic_nvmetcp_target_deadline_ns(s->t), s->now + 5000);
    s->now += 4999;
    solo_none(s);
    s->now += 1;
    assert_int_equal(solo_event(s, SNIC_NVMETCP_ENDED).reason, SNIC_ETIMEDOUT);
    assert_int_equal(snic_nvmetcp_target_deadline_ns(s->t), SNIC_NEVER);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, w, &c, 0), SNIC_ENOTCONN);
    solo_close(s);
}

/* All grants are in use, by other commands: refused without effect; with their data there is one
   again. */
static void test_nvmetcp_grants_all_used_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command w[3];
    struct snic_iov v = {out, 512};
    struct snic_nvmetcp_stats st;
    (void)state;
    duo_opts(d);
    d->to.grants_max = 2;
    d->hold = 1;
    duo_open(d);
    duo_connect(d);
    for (uint32_t i = 0; i < 3; i++) {
        duo_command(&w[i], 1, i * 512, &v, 1);
        duo_submit(d, &w[i]);
    }
    duo_run(d);
    assert_int_equal(d->opens, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(duo_execute(d, &d->open[i]), i < 2);
    duo_check(d);
    snic_nvmetcp_target_stats(d->t, &st);
    assert_true(st.grants == 2 && st.queued == 2);
    duo_run(d);
    assert_int_equal(duo_execute(d, &d->open[2]), 1);
    d->hold = 0;
    duo_run(d);
    assert_int_equal(d->done, 3);
    duo_close(d);
}

static void test_nvmetcp_host_greeting_expires(void **state)
{
    struct duo *d = &duo;
    (void)state;
    duo_opts(d);
    d->ho.greet_ns = 500;
    duo_open(d);
    assert_int_equal(snic_nvmetcp_host_deadline_ns(d->h), 1500);
    d->now = 1499;
    duo_events(d);
    assert_int_equal(d->h_ended, 0);
    d->now = 1500;
    duo_events(d);
    assert_true(d->h_ended == 1 && d->h_last.reason == SNIC_ETIMEDOUT);
    assert_int_equal(snic_nvmetcp_host_deadline_ns(d->h), SNIC_NEVER);
    duo_close(d);
}

/* A host that never connects is dropped. */
static void test_nvmetcp_greeting_expires(void **state)
{
    struct solo *s = &solo;
    (void)state;
    for (int greet = 0; greet < 2; greet++) {
        s->o.greet_ns = 7000;
        solo_open(s);
        if (greet)
            solo_greet(s, 0, 0, 0);
        assert_int_equal(snic_nvmetcp_target_deadline_ns(s->t), 8000);
        s->now = 8000;
        assert_int_equal(solo_event(s, SNIC_NVMETCP_ENDED).reason, SNIC_ETIMEDOUT);
        solo_close(s);
    }
}

/* ---- The end ---- */

/* drain: what is queued is sent, what comes is dropped; then the end. */
static void test_nvmetcp_end_drains(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.status = 0};
    struct snic_iov iov[4];
    size_t bytes;
    (void)state;
    for (int drain = 0; drain < 2; drain++) {
        solo_up(s, 0);
        uint32_t a = solo_command(s, 1), b = solo_command(s, 2);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, a, &c, 0), 0);
        snic_nvmetcp_target_end(s->t, SNIC_ECANCELED, drain, s->now);
        assert_int_equal(snic_nvmetcp_target_complete(s->t, b, &c, 0), SNIC_ENOTCONN);
        assert_int_equal(snic_nvmetcp_target_output(s->t, iov, 4, &bytes), drain);
        if (drain) {
            solo_none(s);
            snic_nvmetcp_target_sent(s->t, bytes, 0);
        }
        assert_int_equal(solo_event(s, SNIC_NVMETCP_ENDED).reason, SNIC_ECANCELED);
        snic_nvmetcp_target_closed(s->t, 0);
        solo_none(s);
        solo_close(s);
    }
}

/* After a violation commands that were not delivered are dropped, and those that were are completed
   to no effect. */
static void test_nvmetcp_violation_drops_commands(void **state)
{
    struct solo *s = &solo;
    struct snic_nvmetcp_completion c = {.status = 0};
    struct snic_nvmetcp_stats st;
    unsigned char b[160], sqe[64] = {0, 0x40};
    (void)state;
    solo_up(s, 0);
    uint32_t a = solo_command(s, 1);
    size_t n = solo_capsule(b, &plain, sqe, NULL, 0);
    memset(b + n, 0xee, 8);
    assert_int_equal(solo_feed(s, b, n + 8), n + 8);
    solo_event(s, SNIC_NVMETCP_TERM);
    solo_none(s);
    assert_int_equal(snic_nvmetcp_target_complete(s->t, a, &c, 0), SNIC_ENOTCONN);
    snic_nvmetcp_target_stats(s->t, &st);
    assert_int_equal(st.active, 0);
    snic_nvmetcp_target_closed(s->t, 0);
    assert_int_equal(solo_event(s, SNIC_NVMETCP_ENDED).reason, SNIC_EPROTO);
    solo_close(s);
}

/* ---- Damaged data ---- */

/* Data digests: in the capsule, for an R2T, and to the host. The command fails with Transient
   Transport Error, the connection lives. */
static void test_nvmetcp_data_damaged_fails_the_command_only(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command c, again;
    struct snic_iov v = {out, 4096};
    (void)state;
    for (int way = 0; way < 3; way++) {
        for (uint32_t bit = 0; bit < 4100 * 8; bit += 1237) {
            duo_opts(d);
            d->ho.digests = SNIC_NVMETCP_DDGST;
            d->host_inline = way == 0 ? 4096 : 0;
            duo_open(d);
            duo_connect(d);
            duo_command(&c, way == 2 ? 2 : 1, 0, &v, 1);
            duo_submit(d, &c);
            struct pipe *p = way == 2 ? &d->down : &d->up;
            int hit = 0;
            do { /* the PDU with the data, in the stream whole */
                duo_output(d);
                if (!hit && p->tail - p->head >= 4100) {
                    p->bytes[p->head + (way == 0 ? 72 : 24) + bit / 8] ^=
                        (unsigned char)(1u << bit % 8);
                    hit = 1;
                }
            } while (duo_round(d));
            assert_int_equal(hit, 1);
            assert_true(c.state == 1 && c.status == 0x22);
            assert_int_equal(c.error, way == 2 ? SNIC_ECORRUPT : 0);
            duo_command(&again, way == 2 ? 2 : 1, 0, &v, 1);
            duo_submit(d, &again);
            duo_run(d);
            assert_true(again.state == 1 && again.status == 0 && again.error == 0);
            duo_close(d);
        }
    }
}

/* A host's header digest error by damage, each way. */
static void test_nvmetcp_header_damaged_ends(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command c;
    (void)state;
    for (int way = 0; way < 2; way++) {
        duo_opts(d);
        d->ho.digests = SNIC_NVMETCP_HDGST;
        duo_open(d);
        duo_connect(d);
        duo_command(&c, 0, 0, NULL, 0);
        duo_submit(d, &c);
        struct pipe *p = way ? &d->down : &d->up;
        do {
            duo_output(d);
            if (p->tail - p->head >= 24)
                p->bytes[p->head + 9] ^= 4;
        } while (duo_round(d));
        assert_int_equal(way ? d->h_term : d->t_term, 1);
        assert_int_equal((way ? d->h_last : d->t_last).fes, SNIC_NVMETCP_FES_DIGEST);
        assert_int_equal(way ? d->t_ended : d->h_ended, 1); /* by the TermReq */
        assert_int_equal(c.error, SNIC_ECANCELED);
        duo_close(d);
    }
}

/* ---- The host ---- */

static void test_nvmetcp_host_submit_wrong_refused(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command c, many[16];
    struct snic_iov v[2] = {{out, 1 << 20}, {out, 1}};
    (void)state;
    duo_opts(d);
    d->hold = 1;
    duo_open(d);
    duo_command(&c, 0, 0, NULL, 0);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EAGAIN); /* not READY */
    duo_connect(d);
    duo_command(&c, 1, 0, v, 2);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EINVAL); /* transfer_max */
    v[0].size = 100;
    duo_command(&c, 0, 0, v, 2);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EINVAL); /* no direction */
    duo_command(&c, 3, 0, v, 2);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EINVAL);
    duo_command(&c, 1, 0, v, 2);
    c.size--;
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EINVAL);
    for (uint32_t i = 0; i < 15; i++) {
        duo_command(&many[i], 0, 0, NULL, 0);
        duo_submit(d, &many[i]);
    }
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EINVAL);
    duo_command(&c, 0, 0, NULL, 0);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_EAGAIN); /* 15 of 16 entries */
    duo_run(d);
    assert_int_equal(d->opens, 15);
    d->hold = 0;
    duo_run(d);
    assert_int_equal(d->done, 15);
    duo_submit(d, &c);
    duo_run(d);
    assert_int_equal(d->done, 16);
    snic_nvmetcp_host_closed(d->h, d->now);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &c, 0), SNIC_ENOTCONN);
    duo_close(d);
}

/* Without SQ flow control, too, a host has one command less than entries; and a write goes into the
   capsule up to the limit and not beyond. */
static void test_nvmetcp_host_limits_exact(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command many[16];
    struct snic_iov v = {out, 513}, iov[4];
    size_t bytes;
    (void)state;
    duo_opts(d);
    d->ho.flags = d->queue.flags = SNIC_NVMETCP_NO_SQ_FLOW;
    d->host_inline = 512;
    duo_open(d);
    duo_connect(d);
    for (uint32_t i = 0; i < 15; i++) {
        v.size = i == 0 ? 513 : 512;
        duo_command(&many[i], 1, 0, &v, 1);
        duo_submit(d, &many[i]);
        assert_true(snic_nvmetcp_host_output(d->h, iov, 4, &bytes) >= 1);
        assert_int_equal(bytes, i == 0 ? 72 : 72 + 512);
    }
    duo_command(&many[15], 0, 0, NULL, 0);
    assert_int_equal(snic_nvmetcp_host_submit(d->h, &many[15], 0), SNIC_EAGAIN);
    duo_check(d);
    duo_close(d);
}

/* What is shown by output again after rewind is the same; the order of what follows stays. */
static void test_nvmetcp_output_rewound_repeats(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command c;
    struct snic_iov v = {out, 4096}, iov[2];
    unsigned char stream[8192];
    size_t size = 0, bytes;
    uint32_t step = 0;
    (void)state;
    duo_opts(d);
    d->ho.digests = 3;
    duo_open(d);
    duo_connect(d);
    snic_nvmetcp_host_inline(d->h, 4096);
    duo_command(&c, 1, 0, &v, 1);
    duo_submit(d, &c);
    for (;;) {
        uint32_t n = snic_nvmetcp_host_output(d->h, iov, 1 + step % 2, &bytes);
        if (n == 0 && step++ > 0) {
            snic_nvmetcp_host_rewind(d->h);
            n = snic_nvmetcp_host_output(d->h, iov, 1, &bytes);
        }
        if (n == 0)
            break;
        size_t take = step % 3 == 0 ? 0 : (bytes > 100 ? 100 : bytes);
        memcpy(stream + size, iov[0].base, take < iov[0].size ? take : iov[0].size);
        take = take < iov[0].size ? take : iov[0].size;
        size += take;
        snic_nvmetcp_host_sent(d->h, take, 0);
        assert_int_equal(snic_nvmetcp_host_check(d->h), 0);
        snic_nvmetcp_host_rewind(d->h);
        assert_int_equal(snic_nvmetcp_host_check(d->h), 0);
        step++;
    }
    assert_int_equal(size, 76 + 4096 + 4);
    assert_memory_equal(stream + 76, out, 4096);
    pipe_put(&d->up, stream, size);
    duo_run(d);
    assert_true(c.state == 1 && c.status == 0 && c.error == 0);
    duo_close(d);
}

/* Answered before its bytes are reported as sent, then the connection is over: it ends as lost, as
 * the socket may still have them; reported before, it ends as answered. */
static void test_nvmetcp_host_answered_unsent_is_lost(void **state)
{
    struct duo *d = &duo;
    struct snic_nvmetcp_command c;
    struct snic_iov v = {out, 65536}, iov[4];
    size_t bytes, used;
    (void)state;
    for (int way = 0; way < 4; way++) { /* bit 0: reported as sent; bit 1: data of an R2T */
        unsigned char resp[24] = {SNIC_NVMETCP_CAPSULE_RESP, 0, 24, 0, 24};
        unsigned char r2t[24] = {SNIC_NVMETCP_R2T, 0, 24, 0, 24};
        duo_opts(d);
        duo_open(d);
        duo_connect(d);
        duo_command(&c, 1, 0, &v, 1);
        duo_submit(d, &c);
        assert_true(snic_nvmetcp_host_output(d->h, iov, 4, &bytes) > 0);
        snic_put_le16(r2t + 8, c.cid);
        snic_put_le32(r2t + 16, 65536);
        snic_put_le16(resp + 20, c.cid);
        if (way & 2) {
            snic_nvmetcp_host_sent(d->h, bytes, d->now);
            assert_int_equal(snic_nvmetcp_host_recv(d->h, r2t, 24, &used, d->now), 0);
            assert_true(snic_nvmetcp_host_output(d->h, iov, 4, &bytes) > 0);
        }
        assert_int_equal(snic_nvmetcp_host_recv(d->h, resp, 24, &used, d->now), 0);
        for (uint32_t n = 1; (way & 1) && n > 0;) {
            snic_nvmetcp_host_sent(d->h, bytes, d->now);
            n = snic_nvmetcp_host_output(d->h, iov, 4, &bytes);
        }
        snic_nvmetcp_host_closed(d->h, d->now);
        assert_int_equal(snic_nvmetcp_host_check(d->h), 0);
        duo_events(d);
        assert_int_equal(c.state, 1);
        assert_int_equal(c.error, (way & 1) ? 0 : SNIC_ECANCELED);
        duo_close(d);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmetcp_grant_wrong_refused),
        cmocka_unit_test(test_nvmetcp_grant_without_data_expires),
        cmocka_unit_test(test_nvmetcp_grants_all_used_refused),
        cmocka_unit_test(test_nvmetcp_host_greeting_expires),
        cmocka_unit_test(test_nvmetcp_greeting_expires),
        cmocka_unit_test(test_nvmetcp_end_drains),
        cmocka_unit_test(test_nvmetcp_violation_drops_commands),
        cmocka_unit_test(test_nvmetcp_data_damaged_fails_the_command_only),
        cmocka_unit_test(test_nvmetcp_header_damaged_ends),
        cmocka_unit_test(test_nvmetcp_host_submit_wrong_refused),
        cmocka_unit_test(test_nvmetcp_host_limits_exact),
        cmocka_unit_test(test_nvmetcp_output_rewound_repeats),
        cmocka_unit_test(test_nvmetcp_host_answered_unsent_is_lost),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
