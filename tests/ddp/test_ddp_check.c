/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * snic_ddp_check() itself: each thing it promises to look at, broken alone in a state that has
 * everything. What all other tests rely on after every step must be able to fail.
 */
#include "test_ddp_one.h"

#include "ddp/ddp_priv.h"
#include "support.h"

#include <stdlib.h>

static void deliver(struct one *x, uint32_t type, uint32_t src, uint32_t key, uint64_t ts)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.epoch = x->view.epoch;
    m.key = world_key(key);
    m.ts = ts;
    m.value = ts;
    m.scope = x->view.donor;
    assert_int_equal(one_step(x, &ev), 0);
}

static void request(struct one *x, uint32_t type, uint32_t key, uint64_t scope)
{
    struct snic_ddp_event ev = {.type = type, .key = world_key(key), .token = 1, .value = 9};
    ev.scope = scope;
    assert_int_equal(one_step(x, &ev), 0);
}

/* A copy of the state, to be broken. */
struct broken {
    struct one *x;
    unsigned char *copy;
    struct snic_ddp *d;
    struct ddp_rec *mine;   /* key 1: two writes in flight here, a read waits */
    struct ddp_rec *theirs; /* key 2: locked by node 1's, one acknowledgement due, one parked */
    struct ddp_rec *gone;   /* key 3: a tombstone */
    struct ddp_write *w;    /* of mine, the newer */
    struct ddp_write *old;
};

static void broken_begin(struct broken *b, struct one *x)
{
    struct snic_ddp_key k1 = world_key(1), k2 = world_key(2), k3 = world_key(3);
    memset(b, 0, sizeof(*b));
    b->x = x;
    b->d = x->d;
    b->copy = malloc(x->size);
    assert_non_null(b->copy);
    memcpy(b->copy, x->mem, x->size);
    b->mine = ddp_find(x->d, &k1);
    b->theirs = ddp_find(x->d, &k2);
    b->gone = ddp_find(x->d, &k3);
    if (b->mine != NULL && b->mine->writes != SNIC_DDP__NIL) {
        b->w = ddp_write_find(x->d, b->mine, b->mine->vts);
        b->old = ddp_write_at(x->d, b->w->next == SNIC_DDP__NIL ? 0 : b->w->next);
    }
}

static void broken_detected(struct broken *b, const char *how)
{
    if (snic_ddp_check(b->d) != SNIC_ECORRUPT)
        fail_msg("not noticed: %s", how);
    memcpy(b->x->mem, b->copy, b->x->size);
    assert_int_equal(snic_ddp_check(b->d), 0);
}

#define BREAK(damage)                                                                              \
    do {                                                                                           \
        damage;                                                                                    \
        broken_detected(&b, #damage);                                                              \
    } while (0)

/* Strict in PAPER mode: own writes, others', waits of both kinds, reads, a tombstone. */
static struct one busy(void)
{
    struct one x = one_new(SNIC_DDP_STRICT, SNIC_DDP_PAPER);
    uint64_t gone = snic_ddp_ts(1, 2, 1), theirs = snic_ddp_ts(1, 8, 1);
    struct snic_ddp_event appended = {.type = SNIC_DDP_APPENDED, .key = world_key(3), .ts = gone};
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = SNIC_DDP_INV;
    m.src = 1;
    m.epoch = 1;
    m.key = world_key(3);
    m.ts = gone;
    m.flags = SNIC_DDP_MSG_TOMBSTONE;
    assert_int_equal(one_step(&x, &ev), 0);
    assert_int_equal(one_step(&x, &appended), 0);
    deliver(&x, SNIC_DDP_VAL_C, 1, 3, gone);
    deliver(&x, SNIC_DDP_VAL_P, 1, 3, gone);
    request(&x, SNIC_DDP_WRITE, 1, 0);
    request(&x, SNIC_DDP_WRITE, 1, 0);
    request(&x, SNIC_DDP_READ, 1, 0);
    deliver(&x, SNIC_DDP_INV, 1, 2, theirs);
    deliver(&x, SNIC_DDP_INV, 2, 2, snic_ddp_ts(1, 4, 2));
    return x;
}

static void test_ddp_check_records_broken_detected(void **state)
{
    (void)state;
    struct one x = busy();
    struct broken b;
    broken_begin(&b, &x);
    BREAK(b.theirs->rd--);
    BREAK(b.mine->gv = b.mine->vts + 1);
    BREAK(b.mine->gd = b.mine->vts + 1);
    BREAK(b.mine->dts = b.mine->vts + 1);
    BREAK(b.theirs->gv = b.theirs->rd);
    BREAK(b.gone->flags |= DDP_R_DIRTY);
    BREAK(b.gone->vts = b.gone->gv = b.gone->gd = b.gone->dts = 0);
    BREAK(b.gone->key.w[0] ^= 1);
    BREAK(b.gone->hash ^= 1);
    BREAK(ddp_timer_stop(b.d, ddp_timer_of_rec(b.d, b.theirs)));
    BREAK(b.gone->flags &= ~(uint32_t)SNIC_DDP_MSG_TOMBSTONE);
    BREAK(b.d->recs.used++);
    BREAK(b.d->tombstones++);
    for (uint32_t i = 0; i <= b.d->index.mask; i++) {
        if (ddp_index_slots(&b.d->index)[i].rec == 0) {
            BREAK(ddp_index_slots(&b.d->index)[i].rec = 1);
            break;
        }
    }
    free(b.copy);
    support_guard_free(x.mem);
}

static void test_ddp_check_writes_broken_detected(void **state)
{
    (void)state;
    struct one x = busy();
    struct broken b;
    broken_begin(&b, &x);
    assert_true(b.w->timer.armed != 0 && b.w->timer.armed == b.old->timer.armed);
    BREAK(b.w->flags &= ~(uint32_t)DDP_W_USED);
    BREAK(b.w->rec++);
    BREAK(b.w->ack_c |= 1 << 9);
    BREAK(b.w->ts = b.mine->vts + 1);
    BREAK(b.w->flags |= DDP_W_SETTLE | DDP_W_ABORTED);
    BREAK(b.old->flags |= DDP_W_SETTLE);
    BREAK(b.w->flags |= DDP_W_OWNS);
    BREAK((b.w->flags |= SNIC_DDP_MSG_CAS, b.mine->rd = 0));
    BREAK(ddp_timer_stop(b.d, ddp_timer_of_write(b.d, b.w)));
    BREAK(b.w->timer.armed = DDP_CLASSES + 1);
    BREAK(b.w->timer.prev = SNIC_DDP__NIL);
    BREAK(b.old->timer.next = SNIC_DDP__NIL);
    BREAK(b.w->timer.deadline_ns = b.old->timer.deadline_ns - 1);
    BREAK(b.mine->writes = b.d->writes.high);
    BREAK(b.d->writes.used--);
    BREAK(b.d->writes.used++);
    BREAK(b.d->restart_writes++);
    BREAK(b.w->flags |= DDP_W_RESTART);
    free(b.copy);
    support_guard_free(x.mem);
}

static void test_ddp_check_waits_and_reads_broken_detected(void **state)
{
    (void)state;
    struct one x = busy();
    struct broken b;
    broken_begin(&b, &x);
    struct ddp_wait *parked = ddp_wait_at(b.d, b.theirs->waits); /* node 2's: the newest */
    struct ddp_wait *due = ddp_wait_at(b.d, parked->next);
    struct ddp_read *q = ddp_read_at(b.d, b.mine->reads.first);
    assert_true(parked->tau != 0 && due->tau == 0);
    BREAK(b.theirs->waits = b.d->waits.high);
    BREAK(b.d->waits.used--);
    BREAK(b.d->waits.used++);
    BREAK(due->rec++);
    BREAK(due->flags = 0);
    BREAK(due->src = 9);
    BREAK(b.theirs->dts = due->ts);
    /* Complete and durable: both are due, and what is parked is not the less so. */
    BREAK((b.theirs->gd = parked->tau, b.theirs->gv = parked->tau, b.theirs->rd = 0));
    BREAK(b.mine->reads.first = b.d->reads.high);
    BREAK(b.d->reads.used--);
    BREAK(b.d->reads.used++);
    BREAK(q->rec++);
    BREAK(b.mine->rd = 0);
    free(b.copy);
    support_guard_free(x.mem);
}

static void test_ddp_check_engine_broken_detected(void **state)
{
    (void)state;
    struct one x = busy();
    struct broken b;
    broken_begin(&b, &x);
    BREAK(b.d->ring.count = 1);
    BREAK(b.d->dirty = 0);
    BREAK(b.d->ready.first = 0);
    BREAK(b.d->ticking = 1);
    BREAK(b.d->recs.high = b.d->recs.max + 1);
    BREAK(b.d->writes.high = b.d->writes.max + 1);
    BREAK(b.d->waits.high = b.d->waits.max + 1);
    BREAK(b.d->reads.high = b.d->reads.max + 1);
    BREAK(b.d->scopes.high = b.d->scopes.max + 1);
    BREAK(b.d->node_timers[DDP_T_PURGE].prev = 0);
    BREAK(b.theirs->timer.prev = b.theirs->timer.next = 0);
    BREAK(b.d->suspects.late[1]++);
    BREAK((b.w->late = 2, b.d->suspects.late[1] = 1));
    BREAK(b.d->suspects.reported = 2);
    BREAK(b.d->suspects.changed = 1);
    free(b.copy);
    support_guard_free(x.mem);
}

static void test_ddp_check_scopes_broken_detected(void **state)
{
    (void)state;
    struct one x = one_new(SNIC_DDP_SCOPE, 0);
    struct broken b;
    request(&x, SNIC_DDP_WRITE, 1, 5);
    uint64_t ts = x.last[SNIC_DDP_INV].ts;
    request(&x, SNIC_DDP_SYNC, 1, 5);
    deliver(&x, SNIC_DDP_ACK_C, 1, 1, ts);
    deliver(&x, SNIC_DDP_ACK_C, 2, 1, ts);
    assert_int_equal(x.sent[SNIC_DDP_PERSIST], 1);
    broken_begin(&b, &x);
    struct ddp_scope *s = ddp_scope_at(b.d, 0);
    BREAK(ddp_timer_stop(b.d, ddp_timer_of_scope(b.d, s)));
    BREAK(s->timer.prev = 0);
    BREAK(b.d->scopes.used++);
    BREAK(s->flags = 0);
    free(b.copy);
    support_guard_free(x.mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_check_records_broken_detected),
        cmocka_unit_test(test_ddp_check_writes_broken_detected),
        cmocka_unit_test(test_ddp_check_waits_and_reads_broken_detected),
        cmocka_unit_test(test_ddp_check_engine_broken_detected),
        cmocka_unit_test(test_ddp_check_scopes_broken_detected),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
