/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * snic_ddpnic_check() itself: each thing it promises to look at, broken alone in a state that has
 * everything. What all other tests rely on after every step must be able to fail.
 */
#include "test_ddpnic_world.h"

#include "ddpnic/ddpnic_priv.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct nw_world *w;
    struct snic_ddpnic *d;
    unsigned char *right;
    size_t size;
    struct ddpnic_rec *done;   /* key 0: complete */
    struct ddpnic_rec *mine;   /* key 1: two writes of this node in the vFIFO; a read waits */
    struct ddpnic_rec *theirs; /* key 2: of node 2, and of node 1 an older one, parked */
} fix;

static struct ddpnic_rec *rec(uint32_t key)
{
    struct snic_ddp_key k = nw_key(key);
    return ddpnic_find(fix.d, &k);
}

static void arrive(uint32_t src)
{
    for (uint32_t i = 0; i < fix.w->messages; i++) {
        if (fix.w->message[i].src == src && fix.w->message[i].dst == 0) {
            assert_int_equal(nw_deliver(fix.w, i, 0), 0);
            return;
        }
    }
    fail_msg("nothing from %u", src);
}

static void write_to_nic(uint32_t n, uint32_t key)
{
    assert_true(nw_op(fix.w, SNIC_DDP_WRITE, n, key, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(fix.w, n), 0);
}

static void begin(uint32_t model)
{
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o), .model = model};
    o.flags = model == SNIC_DDP_STRICT ? (uint32_t)SNIC_DDP_PAPER : 0;
    o.keys_max = NW_KEYS;
    o.writes_max = 8;
    o.waits_max = 16;
    o.reads_max = o.scopes_max = o.vfifo_max = o.dfifo_max = 4;
    memset(&fix, 0, sizeof(fix));
    fix.w = nw_new(1, 3, &o);
    nw_start(fix.w);
    fix.d = fix.w->node[0].d;
    fix.size = fix.w->node[0].size;
}

static void remember(void)
{
    fix.right = malloc(fix.size);
    assert_non_null(fix.right);
    memcpy(fix.right, fix.w->node[0].mem, fix.size);
    assert_int_equal(snic_ddpnic_check(fix.d), 0);
}

static void busy(void)
{
    begin(SNIC_DDP_STRICT);
    assert_true(nw_op(fix.w, SNIC_DDP_WRITE, 0, 0, 0, NULL) >= 0);
    nw_calm(fix.w);
    write_to_nic(0, 1);
    write_to_nic(0, 1);
    assert_true(nw_op(fix.w, SNIC_DDP_READ, 0, 1, 0, NULL) >= 0);
    write_to_nic(1, 2);
    write_to_nic(2, 2);
    arrive(2);
    arrive(1);
    fix.done = rec(0);
    fix.mine = rec(1);
    fix.theirs = rec(2);
    remember();
}

static void finish(void)
{
    free(fix.right);
    nw_free(fix.w);
}

static void detected(const char *how)
{
    if (snic_ddpnic_check(fix.d) != SNIC_ECORRUPT)
        fail_msg("not noticed: %s", how);
    memcpy(fix.w->node[0].mem, fix.right, fix.size);
    assert_int_equal(snic_ddpnic_check(fix.d), 0);
}

#define BREAK(damage)                                                                              \
    do {                                                                                           \
        damage;                                                                                    \
        detected(#damage);                                                                         \
    } while (0)

static void test_ddpnic_check_records_broken_detected(void **state)
{
    (void)state;
    busy();
    struct ddpnic_rec *r = fix.mine;
    struct ddpnic_line *done = &fix.done->line;
    const uint64_t next = 32; /* a version more */
    BREAK(done->vts += next);
    BREAK(fix.done->out += next);
    BREAK(fix.done->vin += next);
    BREAK(fix.done->enq += next);
    BREAK(r->line.gv = r->enq + next);
    BREAK(r->line.gd = r->enq + next);
    BREAK(r->dts = r->enq + next);
    BREAK(r->rel = r->enq + next);
    BREAK(done->word += next);
    BREAK(r->rel = r->out = r->vin = r->enq);
    BREAK(done->cache = SNIC_DDP__NIL);
    BREAK(done->cache = fix.d->nic.items.high);
    BREAK(ddpnic_item_at(fix.d, done->cache)->ts += next);
    BREAK(r->flags |= DDPNIC_R_DIRTY);
    BREAK(r->key.w[0] ^= 1);
    BREAK(r->hash ^= 1);
    BREAK(ddpnic_timer_stop(fix.d, ddpnic_timer_of_rec(fix.d, fix.theirs)));
    BREAK(fix.theirs->timer.prev = fix.theirs->timer.next = 0);
    BREAK(fix.d->recs.high--);
    for (uint32_t i = 0; i <= fix.d->index.mask; i++) {
        if (ddp_index_slots(&fix.d->index)[i].rec == 0) {
            BREAK(ddp_index_slots(&fix.d->index)[i].rec = 1);
            break;
        }
    }
    finish();
}

static void test_ddpnic_check_fifos_broken_detected(void **state)
{
    (void)state;
    busy();
    struct snic_ddpnic *d = fix.d;
    struct ddpnic_rec *r = fix.mine;
    struct ddpnic_item *first = ddpnic_item_at(d, r->vfirst);
    struct ddpnic_item *last = ddpnic_item_at(d, r->vlast);
    assert_true(first != last && r->dfirst == r->vlast);
    BREAK(r->vfirst = d->nic.items.high);
    BREAK(d->nic.vfifo = 0);
    BREAK(first->ts = 0);
    BREAK(first->flags &= ~(uint32_t)DDPNIC_I_VSLOT);
    BREAK(first->rec++);
    BREAK(last->flags |= DDPNIC_I_DMA);
    BREAK((r->line.word += 32, r->enq += 32));
    BREAK(r->vlast = r->vfirst);
    BREAK(first->flags |= DDPNIC_I_VIN);
    BREAK(r->dfirst = d->nic.items.high);
    BREAK(d->nic.dfifo = 0);
    BREAK(last->flags &= ~(uint32_t)DDPNIC_I_DSLOT);
    BREAK(last->flags |= DDPNIC_I_DIN);
    BREAK(r->dfirst = last->dnext);
    BREAK(d->nic.vfifo++);
    BREAK(d->nic.dfifo++);
    BREAK(d->o.vfifo_max = 0);
    BREAK(d->o.dfifo_max = 0);
    BREAK(first->refs++);
    BREAK(d->nic.items.used++);
    finish();
}

static void test_ddpnic_check_lists_broken_detected(void **state)
{
    (void)state;
    busy();
    struct snic_ddpnic *d = fix.d;
    struct ddpnic_rec *r = fix.mine;
    struct ddpnic_write *w = ddpnic_write_at(d, r->writes);
    struct ddpnic_wait *parked = ddpnic_wait_at(d, fix.theirs->waits);
    struct ddpnic_wait *due = ddpnic_wait_at(d, parked->next);
    assert_true(parked->tau != 0 && due->tau == 0 && w->next != SNIC_DDP__NIL);
    struct ddpnic_write *old = ddpnic_write_at(d, w->next);
    BREAK(r->writes = d->nic.writes.high);
    BREAK(d->nic.writes.used = 1);
    BREAK(d->nic.writes.used++);
    BREAK(w->rec++);
    BREAK(w->ts = r->enq + 32);
    BREAK(w->tau = r->enq + 32);
    BREAK(w->flags &= ~(uint32_t)DDPNIC_W_USED);
    BREAK(w->ack_c |= 1 << 9);
    BREAK(w->item = SNIC_DDP__NIL);
    BREAK(w->item = d->nic.items.high);
    BREAK(w->ts -= 32);
    BREAK(ddpnic_timer_stop(d, ddpnic_timer_of_write(d, w)));
    BREAK(w->timer.armed = DDP_CLASSES + 1);
    BREAK(w->timer.prev = SNIC_DDP__NIL);
    BREAK(old->timer.next = SNIC_DDP__NIL);
    BREAK(w->timer.next = w->timer.prev);
    BREAK(w->timer.deadline_ns = old->timer.deadline_ns - 1);
    BREAK(fix.theirs->waits = d->nic.waits.high);
    BREAK(d->nic.waits.used = 1);
    BREAK(d->nic.waits.used++);
    BREAK(due->rec++);
    BREAK(due->flags = 0);
    BREAK(due->src = 9);
    BREAK((fix.theirs->dts = fix.theirs->vin = due->ts,
           ddpnic_item_at(d, fix.theirs->dfirst)->flags |= DDPNIC_I_DIN));
    BREAK(fix.theirs->line.gv = fix.theirs->line.gd = parked->tau);
    BREAK(parked->tau = 0);
    BREAK(r->reads.first = d->host.reads.high);
    BREAK(d->host.reads.used = 0);
    BREAK(d->host.reads.used++);
    BREAK(ddpnic_read_at(d, r->reads.first)->rec++);
    BREAK(r->line.waits = 0);
    BREAK(r->host_writes = d->host.writes.high);
    BREAK(d->host.writes.used = 1);
    BREAK(d->host.writes.used++);
    BREAK(ddpnic_host_write_at(d, r->host_writes)->rec++);
    BREAK(d->nic.parked++);
    BREAK(d->nic.suspects.late[1]++);
    BREAK((w->late = 2, d->nic.suspects.late[1] = 1));
    BREAK(d->nic.suspects.reported = 2);
    finish();
}

static void test_ddpnic_check_rest_broken_detected(void **state)
{
    (void)state;
    busy();
    struct ddpnic_host *h = &fix.d->host;
    struct ddpnic_nic *n = &fix.d->nic;
    BREAK(h->ring.count = 1);
    BREAK(h->ready.first = 0);
    BREAK(h->ending = 0);
    BREAK(h->ending_scope = 0);
    BREAK(h->need_epoch = 1);
    BREAK(n->ring.count = 1);
    BREAK(n->dirty = 0);
    BREAK(n->sweep = 0);
    BREAK(n->mark_dirty = 1);
    BREAK(n->persist_dirty = 1);
    BREAK(n->ticking = 1);
    BREAK(n->suspects.changed = 1);
    finish();
}

static void test_ddpnic_check_scopes_broken_detected(void **state)
{
    (void)state;
    begin(SNIC_DDP_SCOPE);
    assert_true(nw_op(fix.w, SNIC_DDP_WRITE, 0, 1, 9, NULL) >= 0);
    nw_calm(fix.w);
    assert_true(nw_op(fix.w, SNIC_DDP_SYNC, 0, 0, 9, NULL) >= 0);
    assert_int_equal(nw_pcie_down(fix.w, 0), 0);
    remember();
    struct snic_ddpnic *d = fix.d;
    assert_true(d->nic.persists != SNIC_DDP__NIL);
    struct ddpnic_write *w = ddpnic_write_at(d, d->nic.persists);
    BREAK(d->nic.persists = d->nic.writes.high);
    BREAK(d->nic.writes.used = 0);
    BREAK(w->sent |= 1 << 9);
    BREAK(w->item = 0);
    BREAK(d->nic.marks++);
    BREAK(d->host.scopes.used++);
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_check_records_broken_detected),
        cmocka_unit_test(test_ddpnic_check_fifos_broken_detected),
        cmocka_unit_test(test_ddpnic_check_lists_broken_detected),
        cmocka_unit_test(test_ddpnic_check_rest_broken_detected),
        cmocka_unit_test(test_ddpnic_check_scopes_broken_detected),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
