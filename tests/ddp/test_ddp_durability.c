/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each operation names: durability, number of copies; and slow logs beside silent nodes. */
#include "test_ddp_one.h"

#include "support.h"

#define MEMORY SNIC_DDP_DURABILITY_MEMORY
#define HERE SNIC_DDP_DURABILITY_HERE
#define ALL SNIC_DDP_DURABILITY_ALL
#define SCOPED SNIC_DDP_DURABILITY_SCOPE

static int submit(struct one *x, struct snic_ddp_event ev)
{
    ev.key = world_key(1);
    ev.token = 77;
    return one_step(x, &ev);
}
#define SUBMIT(x, ...) submit(x, (struct snic_ddp_event){__VA_ARGS__})

/* Acknowledgements of both others; VAL of what node 1 wrote. */
static void acks(struct one *x, uint32_t type, uint64_t ts)
{
    assert_int_equal(one_message(x, type, 1, ts, 0), 0);
    assert_int_equal(x->did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_message(x, type, 2, ts, 0), 0);
}

static uint64_t written_elsewhere(struct one *x, uint32_t node, uint32_t version)
{
    uint64_t ts = snic_ddp_ts(x->view.epoch, version, node);
    assert_int_equal(one_message(x, SNIC_DDP_INV, node, ts, 0), 0);
    assert_int_equal(one_message(x, SNIC_DDP_VAL_C, node, ts, 0), 0);
    return ts;
}

static void test_ddp_durability_decides_when_a_write_is_answered(void **state)
{
    (void)state;
    for (uint32_t durability = MEMORY; durability <= ALL; durability++) {
        struct one x = one_new(SNIC_DDP_EVENT, 0);
        assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .durability = durability, .value = 9),
                         0);
        uint64_t ts = x.last[SNIC_DDP_INV].ts;
        acks(&x, SNIC_DDP_ACK_C, ts);
        assert_int_equal(x.did[SNIC_DDP_DONE], durability == MEMORY);
        assert_int_equal(one_get(&x), 0); /* reads of memory are let in */
        assert_int_equal(one_appended(&x, ts), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], durability == HERE);
        if (durability == ALL)
            acks(&x, SNIC_DDP_ACK_P, ts);
        assert_int_equal(x.done.result, 0);
        assert_int_equal(x.done.msg.ts, ts);
        assert_int_equal(x.done.copies, 3);
        support_guard_free(x.mem);
    }
}

static void test_ddp_durability_that_does_not_fit_refused(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    const uint32_t write = SNIC_DDP_WRITE, read = SNIC_DDP_READ;
    assert_int_equal(SUBMIT(&x, .type = write, .durability = SCOPED + 1), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = write, .durability = SCOPED), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = write, .durability = ALL, .scope = 1), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = write, .copies_min = 17), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = read, .durability = HERE), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = read, .durability = SCOPED), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_SYNC), SNIC_EINVAL);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_DELETE, .durability = SCOPED, .scope = 5), 0);
    support_guard_free(x.mem);
}

static void test_ddp_copies_are_those_of_the_answers_epoch(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 9, .copies_min = 3), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
    assert_int_equal(one_view(&x, 3, 0, 0, 0), 0); /* node 2 is left out */
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.result, SNIC_EUNKNOWN);
    assert_int_equal(x.done.copies, 2);
    x.view.incarnation[2]++;
    assert_int_equal(one_view(&x, 3, 4, 0, 0), 0); /* and is a learner: no copy of its own */
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 10, .copies_min = 3),
                     SNIC_ENOQUORUM);
    assert_int_equal(x.did[SNIC_DDP_SEND], 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 10, .copies_min = 2), 0);
    support_guard_free(x.mem);
}

/* One flush and one replay, however many reads wait. */
static void test_ddp_durable_read_replays_what_is_in_memory(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t ts = written_elsewhere(&x, 1, 2);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = MEMORY), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1);
    assert_int_equal(x.to[SNIC_DDP_INV], 6);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, ts);
    assert_int_equal(x.last[SNIC_DDP_INV].flags,
                     SNIC_DDP_MSG_REPLAY | SNIC_DDP_SYNCH << SNIC_DDP_MSG_RULES);
    struct snic_ddp_event flushed = {.type = SNIC_DDP_FLUSHED, .id = x.flush};
    assert_int_equal(one_step(&x, &flushed), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    acks(&x, SNIC_DDP_ACK, ts);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.msg.ts, ts);
    assert_int_equal(x.sent[SNIC_DDP_VAL], 1);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1); /* it is known now */
    /* VAL again for a node that missed it. */
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_VAL], 1);
    support_guard_free(x.mem);
}

/* Overwriting the key does not starve it: it may return what was the newest when it began. */
static void test_ddp_durable_read_of_key_overwritten_meanwhile(void **state)
{
    (void)state;
    for (int tombstone = 0; tombstone < 2; tombstone++) {
        struct one x = one_new(SNIC_DDP_EVENT, 0);
        uint64_t a = snic_ddp_ts(1, 2, 1);
        uint32_t flags = tombstone ? SNIC_DDP_MSG_TOMBSTONE : 0;
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, a, flags), 0);
        assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, a, 0), 0);
        assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
        uint64_t b = written_elsewhere(&x, 2, 4);
        assert_int_equal(one_get(&x), 0); /* a is no longer the newest */
        assert_int_equal(one_appended(&x, a), 0);
        acks(&x, SNIC_DDP_ACK, a);
        assert_int_equal(x.did[SNIC_DDP_DONE], 1);
        assert_int_equal(x.done.result, tombstone ? SNIC_ENOENT : 0);
        assert_int_equal(x.done.msg.ts, a);
        assert_int_equal(x.done.msg.value, tombstone ? 0 : a);
        assert_int_equal(x.did[SNIC_DDP_RELEASE], !tombstone);
        /* The next one has a replay of its own. */
        assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
        assert_int_equal(x.last[SNIC_DDP_INV].ts, b);
        support_guard_free(x.mem);
    }
}

/* It waits for the lock, then for the log, and ends with the lease. */
static void test_ddp_durable_read_refused_without_lease(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t ts = written_elsewhere(&x, 1, 2);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), SNIC_EAGAIN);
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = 0};
    assert_int_equal(one_step(&x, &lease), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    acks(&x, SNIC_DDP_ACK, ts);
    assert_int_equal(x.done.result, SNIC_ESTALE);
    support_guard_free(x.mem);
}

static int of_key(struct one *x, struct snic_ddp_msg m, uint32_t key)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    m.epoch = x->view.epoch;
    m.key = world_key(key);
    m.value = 1000 + key;
    return one_step(x, &ev);
}
#define OF_KEY(x, key, ...) of_key(x, (struct snic_ddp_msg){__VA_ARGS__}, key)

/* No write is free: the record's timer tries again. */
static void test_ddp_durable_read_waits_for_a_free_write(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t locked = snic_ddp_ts(1, 2, 1);
    uint64_t ts = snic_ddp_ts(1, 2, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, locked, 0), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(one_tick(&x, 10000000), 0);
    assert_int_equal(x.sent[SNIC_DDP_INV], 1); /* the replay, which takes the last place */
    assert_int_equal(OF_KEY(&x, 2, .type = SNIC_DDP_INV, .src = 2, .ts = ts), 0);
    assert_int_equal(OF_KEY(&x, 2, .type = SNIC_DDP_VAL_C, .src = 2, .ts = ts), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct snic_ddp_event ev = {.type = i < 1 ? SNIC_DDP_WRITE : SNIC_DDP_DELETE};
        ev.key = world_key(3);
        ev.value = 2000 + i;
        assert_int_equal(one_step(&x, &ev), 0);
    }
    struct snic_ddp_event read = {.type = SNIC_DDP_READ, .durability = ALL};
    read.key = world_key(2);
    assert_int_equal(one_step(&x, &read), 0);
    assert_int_equal(x.did[SNIC_DDP_SEND], 0);
    acks(&x, SNIC_DDP_ACK_C, locked);
    uint64_t until = x.now + 20000000;
    for (x.last[SNIC_DDP_INV].ts = 0; x.last[SNIC_DDP_INV].ts != ts && x.now < until;)
        assert_int_equal(one_tick(&x, 1000000), 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, ts);
    support_guard_free(x.mem);
}

/* H12-like: the newer record's append was in no hurry. */
static void test_ddp_durable_write_overtaken_by_memory_write(void **state)
{
    (void)state;
    for (uint32_t paper = 0; paper < 2; paper++) {
        struct one x = one_new(SNIC_DDP_EVENT, paper ? SNIC_DDP_PAPER : 0);
        uint64_t a = snic_ddp_ts(1, 2, 1);
        uint64_t b = snic_ddp_ts(1, 4, 2);
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 2, b, 0), 0);
        assert_int_equal(x.did[SNIC_DDP_FLUSH], 0);
        uint32_t rules = SNIC_DDP_STRICT << SNIC_DDP_MSG_RULES;
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, a, rules), 0);
        assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
        assert_int_equal(x.sent[SNIC_DDP_ACK_C], !paper);
        assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, a, rules), 0);
        assert_int_equal(x.did[SNIC_DDP_FLUSH], 0); /* it is under way */
        assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 2, b, 0), 0);
        assert_int_equal(x.sent[SNIC_DDP_ACK_C], paper);
        assert_int_equal(x.sent[SNIC_DDP_ACK_P], 0);
        assert_int_equal(one_appended(&x, b), 0);
        assert_int_equal(x.sent[SNIC_DDP_ACK_P], 1);
        support_guard_free(x.mem);
    }
}

/* A follower that has it answers a second INV, though its log is slow. */
static void test_ddp_received_is_answered_before_durable(void **state)
{
    (void)state;
    const uint32_t probe = SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_TOMBSTONE;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, probe), 0);
    assert_int_equal(x.sent[SNIC_DDP_QUERY], 1); /* it was lost */
    assert_int_equal(x.did[SNIC_DDP_APPEND], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, probe), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK_C], 1);
    assert_int_equal(x.did[SNIC_DDP_RELEASE], 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK], 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, probe), 0);
    assert_int_equal(x.sent[SNIC_DDP_ACK], 1);
    support_guard_free(x.mem);
}

/* A large value is sent again to those only that do not have it. */
static void test_ddp_large_value_sent_again_on_request(void **state)
{
    (void)state;
    const uint8_t probe = SNIC_DDP_MSG_LOCKED | SNIC_DDP_MSG_TOMBSTONE;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 9, .length = 5000), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    assert_int_equal(one_time(&x, 1000000, SNIC_DDP_INV), 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, probe);
    assert_int_equal(x.last[SNIC_DDP_INV].length, 0);
    assert_int_equal(x.to[SNIC_DDP_INV], 6);
    assert_int_equal(one_message(&x, SNIC_DDP_QUERY, 2, ts, 0), 0);
    assert_int_equal(x.to[SNIC_DDP_INV], 4);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, 0);
    assert_int_equal(x.last[SNIC_DDP_INV].length, 5000);
    acks(&x, SNIC_DDP_ACK_C, ts);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(one_time(&x, 60000000, SNIC_DDP_INV), 0);
    assert_int_equal(one_time(&x, 10000000, SNIC_DDP_INV), 1);
    assert_int_equal(x.last[SNIC_DDP_INV].flags, probe);
    /* No more often than a flush takes. */
    struct snic_ddp_event times = {
        .type = SNIC_DDP_TIMES, .ts = 1000000, .scope = 10000000, .value = 5000000000};
    assert_int_equal(one_step(&x, &times), 0);
    assert_int_equal(one_time(&x, 100000000, SNIC_DDP_INV), 1); /* armed before */
    assert_int_equal(one_time(&x, 4800000000, SNIC_DDP_INV), 0);
    assert_int_equal(one_time(&x, 200000000, SNIC_DDP_INV), 1);
    support_guard_free(x.mem);
}

static void test_ddp_slow_log_beside_silent_node(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 9, .length = 5), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    for (uint32_t i = 0; i < 7; i++) {
        acks(&x, SNIC_DDP_ACK_C, ts);
        assert_int_equal(one_tick(&x, 70000000), 0);
        assert_int_equal(x.suspects, 0);
    }
    acks(&x, SNIC_DDP_ACK_C, ts);
    assert_int_equal(one_tick(&x, 70000000), 0);
    assert_int_equal(x.suspect, 6);
    assert_int_equal(x.slow, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 1, ts, 0), 0);
    assert_int_equal(one_tick(&x, 70000000), 0); /* node 2 did not answer */
    assert_int_equal(x.suspect, 6);
    assert_int_equal(x.slow, 2);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK_C, 2, ts, 0), 0);
    assert_int_equal(x.slow, 6);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 1, ts, 0), 0);
    assert_int_equal(x.suspect, 4);
    assert_int_equal(x.slow, 4);
    assert_int_equal(one_message(&x, SNIC_DDP_ACK, 2, ts, 0), 0);
    assert_int_equal(x.suspect, 0);
    support_guard_free(x.mem);
}

static void test_ddp_slow_flush_of_a_scope_is_reported(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SYNCH, 0);
    struct snic_ddp_msg m = {.type = SNIC_DDP_PERSIST, .src = 1, .epoch = 1, .scope = 5};
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 1);
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(x.did[SNIC_DDP_FLUSH], 0);
    assert_int_equal(x.last[SNIC_DDP_PERSIST_ACK].flags, SNIC_DDP_MSG_LOCKED);
    /* As coordinator: it is no acknowledgement. */
    assert_int_equal(
        SUBMIT(&x, .type = SNIC_DDP_WRITE, .value = 9, .durability = SCOPED, .scope = 7), 0);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    acks(&x, SNIC_DDP_ACK_C, ts);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_SYNC, .scope = 7, .copies_min = 4),
                     SNIC_ENOQUORUM);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_SYNC, .scope = 7, .copies_min = 3), 0);
    struct snic_ddp_event flushed = {.type = SNIC_DDP_FLUSHED, .id = x.flush};
    uint32_t round = x.last[SNIC_DDP_PERSIST].index;
    assert_int_equal(one_step(&x, &flushed), 0);
    for (uint32_t i = 0; i < 4; i++) {
        m = (struct snic_ddp_msg){.type = SNIC_DDP_PERSIST_ACK, .src = (uint8_t)(1 + i % 2)};
        m.epoch = 1;
        m.scope = 7;
        m.index = round;
        m.flags = i < 2 ? SNIC_DDP_MSG_LOCKED : 0;
        assert_int_equal(one_step(&x, &ev), 0);
        assert_int_equal(x.did[SNIC_DDP_DONE], i == 3);
    }
    assert_int_equal(x.done.copies, 3);
    support_guard_free(x.mem);
}

/* A read that waits stands in the way of its key's purge. */
static void test_ddp_durable_read_holds_back_purge(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t ts = snic_ddp_ts(1, 2, 1);
    assert_int_equal(one_message(&x, SNIC_DDP_INV, 1, ts, SNIC_DDP_MSG_TOMBSTONE), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_VAL_C, 1, ts, 0), 0);
    assert_int_equal(one_appended(&x, ts), 0);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_READ, .durability = ALL), 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE_REQUEST, 1, ts, 0), 0);
    assert_int_equal(x.sent[SNIC_DDP_PURGE_ACK], 0);
    assert_int_equal(one_message(&x, SNIC_DDP_PURGE, 1, ts, 0), 0);
    assert_int_equal(x.did[SNIC_DDP_FORGET], 0);
    acks(&x, SNIC_DDP_ACK, ts);
    assert_int_equal(x.done.result, SNIC_ENOENT);
    support_guard_free(x.mem);
}

/* A CAS that fails is a read of its durability. */
static void test_ddp_durable_cas_fails_with_what_is_durable(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_EVENT, 0);
    uint64_t ts = written_elsewhere(&x, 1, 2);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_CAS, .value = 10, .durability = HERE), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.result, SNIC_ECANCELED);
    assert_int_equal(SUBMIT(&x, .type = SNIC_DDP_CAS, .value = 9, .durability = ALL), 0);
    assert_int_equal(x.did[SNIC_DDP_DONE], 0);
    assert_int_equal(x.last[SNIC_DDP_INV].ts, ts);
    assert_int_equal(one_appended(&x, ts), 0);
    acks(&x, SNIC_DDP_ACK, ts);
    assert_int_equal(x.did[SNIC_DDP_DONE], 1);
    assert_int_equal(x.done.result, SNIC_ECANCELED);
    assert_int_equal(x.done.msg.ts, ts);
    support_guard_free(x.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_durability_decides_when_a_write_is_answered),
        cmocka_unit_test(test_ddp_durability_that_does_not_fit_refused),
        cmocka_unit_test(test_ddp_copies_are_those_of_the_answers_epoch),
        cmocka_unit_test(test_ddp_durable_read_replays_what_is_in_memory),
        cmocka_unit_test(test_ddp_durable_read_of_key_overwritten_meanwhile),
        cmocka_unit_test(test_ddp_durable_read_refused_without_lease),
        cmocka_unit_test(test_ddp_durable_read_waits_for_a_free_write),
        cmocka_unit_test(test_ddp_durable_write_overtaken_by_memory_write),
        cmocka_unit_test(test_ddp_received_is_answered_before_durable),
        cmocka_unit_test(test_ddp_large_value_sent_again_on_request),
        cmocka_unit_test(test_ddp_slow_log_beside_silent_node),
        cmocka_unit_test(test_ddp_slow_flush_of_a_scope_is_reported),
        cmocka_unit_test(test_ddp_durable_read_holds_back_purge),
        cmocka_unit_test(test_ddp_durable_cas_fails_with_what_is_durable),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
