/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node of two halves: its contract, and what each model does in which order.
 */
#include "test_ddpnic_world.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct snic_ddpnic_opts options(uint32_t model, uint32_t flags)
{
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o),
                                 .model = model,
                                 .flags = flags,
                                 .keys_max = NW_KEYS,
                                 .writes_max = 8,
                                 .waits_max = 16,
                                 .reads_max = 4,
                                 .scopes_max = 4,
                                 .vfifo_max = 4,
                                 .dfifo_max = 4,
                                 .others_max = NW_NODES - 1};
    return o;
}

static struct nw_world *world(uint32_t nodes, uint32_t model, uint32_t flags)
{
    struct snic_ddpnic_opts o = options(model, flags);
    struct nw_world *w = nw_new(support_seed(), nodes, &o);
    nw_start(w);
    return w;
}

/* All orders of things are fixed, so the text is: one write of three nodes, and then a read. */
static void golden(uint32_t model, uint32_t flags, const char *text)
{
    struct nw_world *w = world(3, model, flags);
    w->traced = 1;
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, model == SNIC_DDP_SCOPE ? 9 : 0, NULL) >= 0);
    assert_true(nw_op(w, SNIC_DDP_READ, 0, 1, 0, NULL) >= 0);
    nw_calm(w);
    if (model == SNIC_DDP_SCOPE) {
        assert_true(nw_op(w, SNIC_DDP_SYNC, 0, 0, 9, NULL) >= 0);
        nw_calm(w);
    }
    if (strcmp(w->trace, text) != 0)
        fail_msg("model %u flags %x:\n%s\nis not\n%s", model, flags, w->trace, text);
    nw_same(w);
    nw_promised(w);
    assert_int_equal(w->handles_live, 3);
    nw_free(w);
}

static void test_ddpnic_models_write_golden(void **state)
{
    (void)state;
    golden(SNIC_DDP_SYNCH, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 2s DMA; 2s LOG; 2s>1 ACK; "
           "0s>6 VAL; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_STRICT, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 1s>1 ACK_P; 2s DMA; "
           "2s>1 ACK_C; 0s>6 VAL_C; 0s wake; 0h done 0; 2s LOG; 2s>1 ACK_P; 0s>6 VAL_P; "
           "0s:ACK 6 last; 0h done 0; ");
    golden(SNIC_DDP_RENF, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 1s>1 ACK_P; 2s DMA; "
           "2s>1 ACK_C; 0s:ACK 6 last; 0h done 0; 2s LOG; 2s>1 ACK_P; 0s>6 VAL; 0s wake; "
           "0h done 0; ");
    golden(SNIC_DDP_EVENT, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 2s DMA; 2s>1 ACK_C; "
           "0s>6 VAL_C; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; 2s LOG; ");
    golden(SNIC_DDP_SCOPE, 0,
           "0h:INV 6; 0s>6 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s>1 ACK_C; 1s LOG; 2s DMA; 2s>1 ACK_C; "
           "0s>6 VAL_C; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; 2s LOG; 0h:PERSIST 6; "
           "0s>6 PERSIST; 0s MARK; 1s MARK; 2s MARK; 1s>1 PERSIST_ACK; 2s>1 PERSIST_ACK; "
           "0s:PERSIST_ACK 6 last; 0s>6 PERSIST_VAL; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNBATCHED,
           "0h:INV 2; 0h:INV 4; 0s VSTORE; 0s DSTORE; 0s>6 INV; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 0s:ACK 2; 2s DMA; 2s LOG; "
           "2s>1 ACK; 0s>6 VAL; 0s:ACK 4 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNICAST,
           "0h:INV 6; 0s>2 INV; 0s>4 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 2s VSTORE; "
           "2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 2s DMA; 2s LOG; 2s>1 ACK; "
           "0s>2 VAL; 0s>4 VAL; 0s:ACK 6 last; 0s wake; 0h done 0; 0h done 0; ");
    golden(SNIC_DDP_SYNCH, SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST,
           "0h:INV 2; 0h:INV 4; 0s>2 INV; 0s VSTORE; 0s DSTORE; 1s VSTORE; 1s DSTORE; 0s>4 INV; "
           "2s VSTORE; 2s DSTORE; 0s DMA; 0s LOG; 1s DMA; 1s LOG; 1s>1 ACK; 0s:ACK 2; 2s DMA; "
           "2s LOG; 2s>1 ACK; 0s>2 VAL; 0s>4 VAL; 0s:ACK 4 last; 0s wake; 0h done 0; 0h done 0; ");
}

/* ---- The contract ---- */

/* Bad options, too little or misaligned memory. */
static void test_ddpnic_options_bad_refused(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SYNCH, 0);
    struct snic_ddpnic_opts bad;
    struct snic_ddpnic *d;
    (void)state;
    size_t size = snic_ddpnic_memsize(&o);
    assert_true(size > 0);
    assert_null(snic_ddpnic_opts_wrong(&o));
    unsigned char *mem = support_guard_alloc(size, SNIC_DDPNIC_ALIGN);
    assert_int_equal(snic_ddpnic_init(&d, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_ddpnic_init(&d, mem + 8, size, &o), SNIC_EINVAL);
    assert_int_equal(snic_ddpnic_init(&d, mem, size, &o), 0);
    assert_int_equal(snic_ddpnic_check(d), 0);
    support_guard_free(mem);
    for (uint32_t i = 0; i < 12; i++) {
        bad = o;
        uint32_t *field[] = {&bad.opts_size,  &bad.model,      &bad.flags,     &bad.node,
                             &bad.keys_max,   &bad.writes_max, &bad.waits_max, &bad.reads_max,
                             &bad.others_max, &bad.scopes_max, &bad.vfifo_max, &bad.dfifo_max};
        static const char *const name[] = {"opts_size",  "model",      "flags",     "node",
                                           "keys_max",   "writes_max", "waits_max", "reads_max",
                                           "others_max", "scopes_max", "vfifo_max", "dfifo_max"};
        const uint32_t value[] = {3, 6, 2, 16, 0, 1, 1, 1u << 21, 16, 1u << 17, 0, 1u << 21};
        *field[i] = value[i];
        support_names(snic_ddpnic_opts_wrong(&bad), name[i]);
        assert_int_equal(snic_ddpnic_memsize(&bad), 0);
        assert_int_equal(snic_ddpnic_init(&d, &bad, size, &bad), SNIC_EINVAL);
    }
}

/* The state as text; errors must not change it. */
static size_t canon(const struct nw_world *w, uint32_t n, unsigned char *out)
{
    size_t used = snic_ddpnic_canon(w->node[n].d, out, 8192);
    assert_true(used <= 8192);
    return used;
}

static void refused_host(struct nw_world *w, uint32_t n, struct snic_ddp_event ev, int error)
{
    static unsigned char before[8192];
    static unsigned char after[8192];
    size_t used = canon(w, n, before);
    assert_int_equal(nw_step_host(w, n, &ev), error);
    assert_int_equal(canon(w, n, after), used);
    assert_memory_equal(before, after, used);
}

static void refused_nic(struct nw_world *w, uint32_t n, struct snic_ddp_event ev, int error)
{
    static unsigned char before[8192];
    static unsigned char after[8192];
    size_t used = canon(w, n, before);
    assert_int_equal(nw_step_nic(w, n, &ev), error);
    assert_int_equal(canon(w, n, after), used);
    assert_memory_equal(before, after, used);
}

static void test_ddpnic_host_refusals_change_nothing(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SCOPE, 0);
    struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = nw_key(0), .scope = 1};
    (void)state;
    o.writes_max = 3;
    o.reads_max = 1;
    o.scopes_max = 1;
    o.keys_max = 2;
    struct nw_world *w = nw_new(1, 2, &o);
    refused_host(w, 0, ev, SNIC_ESTALE); /* no membership */
    nw_start(w);
    ev.scope = 0;
    refused_host(w, 0, ev, SNIC_EINVAL); /* the model wants one */
    ev.type = SNIC_DDP_MESSAGE;
    refused_host(w, 0, ev, SNIC_EINVAL);
    ev.type = SNIC_DDPNIC_PCIE;
    refused_host(w, 0, ev, SNIC_EINVAL);
    ev.type = SNIC_DDPNIC_WAKE;
    ev.flags = SNIC_DDPNIC_ALL;
    refused_host(w, 0, ev, SNIC_EINVAL); /* it is a member */
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 0, 7, NULL) >= 0);
    assert_true(nw_op(w, SNIC_DDP_READ, 0, 0, 0, NULL) >= 0);
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_READ;
    ev.key = nw_key(0);
    refused_host(w, 0, ev, SNIC_EAGAIN); /* one read waits */
    ev.type = SNIC_DDP_DELETE;
    ev.scope = 8;
    refused_host(w, 0, ev, SNIC_EAGAIN); /* one scope is open */
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 7, NULL) >= 0);
    ev.scope = 7;
    ev.key = nw_key(2);
    refused_host(w, 0, ev, SNIC_ENOSPC); /* a third key */
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 7, NULL) >= 0);
    ev.key = nw_key(0);
    refused_host(w, 0, ev, SNIC_EAGAIN); /* three writes */
    assert_true(nw_op(w, SNIC_DDP_SYNC, 0, 0, 7, NULL) >= 0);
    ev.type = SNIC_DDP_SYNC;
    refused_host(w, 0, ev, SNIC_EAGAIN); /* is being synced */
    nw_calm(w);
    nw_same(w);
    nw_promised(w);
    for (int i = 0; i < 3; i++) /* all three places are free again */
        assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 0, 7, NULL) >= 0);
    ev.type = SNIC_DDP_WRITE;
    ev.scope = 7;
    for (int i = 0; i < 27; i++)
        refused_host(w, 0, ev, SNIC_EAGAIN);
    assert_true(nw_op(w, SNIC_DDP_READ, 0, 1, 0, NULL) >= 0);
    nw_calm(w);
    nw_same(w);
    assert_true(nw_op(w, SNIC_DDP_SYNC, 0, 0, 99, NULL) >= 0);
    assert_int_equal(w->op[w->ops - 1].state, NW_NONE); /* SNIC_ESTALE */
    nw_free(w);
}

static struct snic_ddp_msg inv(uint32_t src, uint64_t ts)
{
    struct snic_ddp_msg m = {.type = SNIC_DDP_INV,
                             .flags = SNIC_DDP_MSG_TOMBSTONE,
                             .src = (uint8_t)src,
                             .epoch = 1,
                             .src_incarnation = 1,
                             .dst_incarnation = 1,
                             .key = nw_key(1),
                             .ts = ts};
    return m;
}

static void test_ddpnic_nic_refusals_change_nothing(void **state)
{
    struct nw_world *w = world(3, SNIC_DDP_SYNCH, 0);
    struct snic_ddp_msg m = inv(1, snic_ddp_ts(1, 2, 1));
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    struct snic_ddpnic_stats info;
    (void)state;
    struct snic_ddp_msg good = m;
    m.epoch = 2;
    refused_nic(w, 0, ev, SNIC_ESTALE);
    m = good;
    m.src_incarnation = 2;
    refused_nic(w, 0, ev, SNIC_ESTALE);
    m = good;
    m.src = 4;
    refused_nic(w, 0, ev, SNIC_ESTALE);
    m = good;
    m.src = 16;
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m = good;
    m.ts = snic_ddp_ts(1, 3, 1); /* odd: a lock's bit */
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.ts = snic_ddp_ts(1, 2, 2); /* another node's */
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.ts = snic_ddp_ts(2, 2, 1); /* an epoch to come */
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.ts = 0;
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m = good;
    m.flags |= SNIC_DDP_MSG_CAS;
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m = good;
    m.type = SNIC_DDP_VAL; /* before the INV: H21 */
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.type = SNIC_DDP_ACK_C; /* not this model's */
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.type = SNIC_DDP_PERSIST;
    refused_nic(w, 0, ev, SNIC_EPROTO);
    m.type = SNIC_DDP_NACK;
    refused_nic(w, 0, ev, SNIC_EPROTO);
    ev.msg = NULL;
    refused_nic(w, 0, ev, SNIC_EINVAL);
    for (uint32_t type = SNIC_DDPNIC_PCIE; type <= SNIC_DDPNIC_MARKED; type++) {
        ev.type = type;
        refused_nic(w, 0, ev, SNIC_EINVAL); /* completions of nothing */
    }
    ev.type = SNIC_DDP_FIRE;
    refused_nic(w, 0, ev, SNIC_EINVAL);
    struct snic_ddp_view v = w->view;
    ev.type = SNIC_DDP_EPOCH;
    ev.view = &v;
    refused_nic(w, 0, ev, SNIC_EINVAL); /* the same epoch */
    v.epoch = 2;
    v.learners = 8;
    refused_nic(w, 0, ev, SNIC_EINVAL);
    v.learners = 0;
    v.full |= 8;
    refused_nic(w, 0, ev, SNIC_EINVAL); /* one more */
    v.full = w->view.full;
    v.incarnation[1]++;
    refused_nic(w, 0, ev, SNIC_EINVAL);
    snic_ddpnic_get_stats(w->node[0].d, &info);
    assert_int_equal(info.counters.foreign, 3);
    assert_int_equal(info.counters.invalid, 10);
    nw_free(w);
}

static int persist(struct nw_world *w, uint32_t n, uint32_t src, uint32_t round)
{
    struct snic_ddp_msg m = inv(src, 0);
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    m.type = SNIC_DDP_PERSIST;
    m.flags = 0;
    m.dst = (uint8_t)n;
    m.scope = 9;
    m.index = round;
    return nw_step_nic(w, n, &ev);
}

/*
 * A scope that is used again after SYNC: a marker for a late copy of the first [PERSIST]sc was put
 * before the second one's writes came, and must not stand for the second one's.
 */
static void test_ddpnic_scope_used_again_marks_again(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SCOPE, 0);
    (void)state;
    w->traced = 1;
    assert_int_equal(persist(w, 1, 0, 1), 0);
    assert_int_equal(persist(w, 1, 0, 1), 0); /* a copy */
    assert_int_equal(persist(w, 1, 0, 2), 0);
    assert_int_equal(persist(w, 1, 0, 1), 0); /* a late one */
    assert_string_equal(w->trace, "1s MARK; ");
    nw_complete(w, 1, 0);
    assert_string_equal(w->trace, "1s MARK; 1s MARK; ");
    assert_int_equal(w->messages, 0);
    nw_complete(w, 1, 0);
    assert_int_equal(w->messages, 1);
    assert_int_equal(w->message[0].type, SNIC_DDP_PERSIST_ACK);
    assert_int_equal(w->message[0].index, 2);
    assert_int_equal(w->node[1].pending, 0);
    nw_free(w);
}

/* A client drives a key's version to the end: writes of it are refused, others continue. */
static void test_ddpnic_versions_used_up_requests_epoch(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_EVENT, 0);
    static _Alignas(SNIC_DDPNIC_ALIGN) unsigned char mem[65536];
    struct snic_ddpnic *d;
    struct snic_ddp_action a;
    struct snic_ddp_view v = {.epoch = 1, .full = 3, .incarnation = {1, 1}};
    struct snic_ddp_msg m = inv(1, snic_ddp_ts(1, SNIC_DDP_VERSION_MAX - 1, 1));
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v, .msg = &m};
    (void)state;
    assert_true(snic_ddpnic_memsize(&o) <= sizeof(mem));
    assert_int_equal(snic_ddpnic_init(&d, mem, sizeof(mem), &o), 0);
    assert_int_equal(snic_ddpnic_step_nic(d, 0, &ev), 0);
    assert_int_equal(snic_ddpnic_poll_nic(d, &a), 0);
    ev.type = SNIC_DDP_LEASE;
    ev.ts = SNIC_NEVER;
    assert_int_equal(snic_ddpnic_step_host(d, 0, &ev), 0);
    ev.type = SNIC_DDP_MESSAGE;
    assert_int_equal(snic_ddpnic_step_nic(d, 0, &ev), 0);
    while (snic_ddpnic_poll_nic(d, &a) != 0)
        continue;
    ev.type = SNIC_DDP_WRITE;
    ev.key = nw_key(1);
    assert_int_equal(snic_ddpnic_step_host(d, 0, &ev), SNIC_EAGAIN);
    assert_int_equal(snic_ddpnic_poll_host(d, &a), 1);
    assert_int_equal(a.type, SNIC_DDP_NEED_EPOCH);
    assert_int_equal(snic_ddpnic_poll_host(d, &a), 0);
    ev.key = nw_key(2);
    assert_int_equal(snic_ddpnic_step_host(d, 0, &ev), 0);
    assert_int_equal(snic_ddpnic_poll_host(d, &a), 1);
    assert_int_equal(a.msg.ts, snic_ddp_ts(1, 2, 0));
}

/* ---- What is MINOS-O's own ---- */

static uint32_t under_way(const struct nw_world *w, uint32_t n, uint32_t type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->node[n].pending; i++)
        count += w->node[n].pend[i].type == type;
    return count;
}

/* Complete the oldest of this type. */
static void complete(struct nw_world *w, uint32_t n, uint32_t type)
{
    for (uint32_t i = 0; i < w->node[n].pending; i++) {
        if (w->node[n].pend[i].type == type) {
            nw_complete(w, n, i);
            return;
        }
    }
    fail_msg("nothing of that type is under way");
}

/* A newer write gets to the NIC while the host's is on the PCIe: nothing is sent, and the answer
 * waits until the newer one is complete. */
static void test_ddpnic_pcie_gap_overtaken_waits(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SYNCH, 0);
    struct snic_ddpnic_stats info;
    (void)state;
    int first = nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL);
    assert_true(nw_op(w, SNIC_DDP_WRITE, 1, 1, 0, NULL) >= 0); /* larger: node 1 */
    assert_int_equal(nw_pcie_down(w, 1), 0);
    assert_int_equal(nw_deliver(w, 0, 0), 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    assert_int_equal(w->messages, 0);
    snic_ddpnic_get_stats(w->node[0].d, &info);
    assert_int_equal(info.counters.overtaken, 1);
    assert_int_equal(info.nic_writes, 1);
    complete(w, 0, SNIC_DDPNIC_VSTORE);
    complete(w, 0, SNIC_DDPNIC_DSTORE);
    assert_int_equal(w->op[first].state, NW_OPEN);
    nw_calm(w);
    assert_int_equal(w->op[first].state, NW_OK);
    nw_same(w);
    nw_free(w);
}

/* While one entry of a key is on the DMA the next two come: the middle one is dropped. */
static void test_ddpnic_vfifo_obsolete_entry_dropped(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_EVENT, 0);
    struct snic_ddpnic_stats info;
    struct snic_ddpnic_entry e;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL) >= 0);
        assert_int_equal(nw_pcie_down(w, 0), 0);
        complete(w, 0, SNIC_DDPNIC_VSTORE);
        assert_int_equal(under_way(w, 0, SNIC_DDPNIC_DMA), 1);
    }
    assert_int_equal(nw_look(w, 0, 1, &e), 1);
    assert_int_equal(e.host.ts, 0);
    assert_int_equal(e.stored, snic_ddp_ts(1, 6, 0));
    complete(w, 0, SNIC_DDPNIC_DMA);
    snic_ddpnic_get_stats(w->node[0].d, &info);
    assert_int_equal(info.counters.dropped, 1);
    assert_int_equal(info.vfifo, 1);
    assert_int_equal(nw_look(w, 0, 1, &e), 1);
    assert_int_equal(e.host.ts, snic_ddp_ts(1, 2, 0));
    complete(w, 0, SNIC_DDPNIC_DMA);
    assert_int_equal(nw_look(w, 0, 1, &e), 1);
    assert_int_equal(e.host.ts, snic_ddp_ts(1, 6, 0));
    nw_calm(w);
    nw_same(w);
    nw_free(w);
}

/* Different keys drain at the same time. */
static void test_ddpnic_vfifo_keys_drain_in_parallel(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SYNCH, 0);
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(nw_op(w, SNIC_DDP_WRITE, 0, k, 0, NULL) >= 0);
        assert_int_equal(nw_pcie_down(w, 0), 0);
        complete(w, 0, SNIC_DDPNIC_VSTORE);
    }
    assert_int_equal(under_way(w, 0, SNIC_DDPNIC_DMA), 3);
    nw_calm(w);
    nw_same(w);
    nw_free(w);
}

/* A full FIFO stalls the host's INV and refuses another node's; draining lets them in. */
static void test_ddpnic_fifo_full_stalls(void **state)
{
    struct snic_ddpnic_opts o = options(SNIC_DDP_SYNCH, 0);
    (void)state;
    o.vfifo_max = o.dfifo_max = 1;
    struct nw_world *w = nw_new(1, 2, &o);
    nw_start(w);
    for (uint32_t k = 0; k < 2; k++)
        assert_true(nw_op(w, SNIC_DDP_WRITE, 0, k, 0, NULL) >= 0);
    assert_true(nw_op(w, SNIC_DDP_WRITE, 1, 2, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    assert_int_equal(nw_pcie_down(w, 1), 0);
    assert_int_equal(nw_pcie_down(w, 0), SNIC_EAGAIN);
    assert_int_equal(nw_deliver(w, 0, 1), SNIC_EAGAIN);
    complete(w, 0, SNIC_DDPNIC_VSTORE);
    complete(w, 0, SNIC_DDPNIC_DMA);
    assert_int_equal(nw_pcie_down(w, 0), SNIC_EAGAIN); /* the dFIFO is still full */
    complete(w, 0, SNIC_DDPNIC_DSTORE);
    assert_int_equal(nw_pcie_down(w, 0), SNIC_EAGAIN);
    complete(w, 0, SNIC_DDPNIC_LOG);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    nw_settle(w);
    nw_same(w);
    nw_free(w);
}

/* The coordinator dies when the value is only in vFIFOs: the others finish it from there (A12). */
static void test_ddpnic_coordinator_crashes_replayed_from_vfifo(void **state)
{
    struct nw_world *w = world(3, SNIC_DDP_SYNCH, 0);
    struct snic_ddpnic_stats info;
    (void)state;
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    assert_int_equal(nw_deliver(w, 0, 0), 0); /* to node 1; node 2 never hears of it */
    nw_crash(w, 0);
    assert_true(nw_op(w, SNIC_DDP_READ, 1, 1, 0, NULL) >= 0);
    nw_leave(w, 1);
    nw_notify_all(w);
    struct snic_ddp_event tick = {.type = SNIC_DDP_TICK};
    w->now = snic_ddpnic_deadline_ns(w->node[1].d);
    assert_true(w->now != SNIC_NEVER);
    assert_int_equal(nw_step_nic(w, 1, &tick), 0);
    snic_ddpnic_get_stats(w->node[1].d, &info);
    assert_int_equal(info.counters.replays, 1);
    assert_int_equal(info.vfifo, 1);
    assert_int_equal(w->message[w->messages - 1].flags, SNIC_DDP_MSG_REPLAY);
    assert_int_equal(w->op[1].state, NW_OPEN);
    nw_settle(w);
    assert_int_equal(w->op[1].state, NW_OK);
    assert_int_equal(w->op[1].ts, snic_ddp_ts(1, 2, 0));
    nw_same(w);
    nw_free(w);
}

/* What the dFIFO gives after a crash is what was stored and not yet logged. */
static void test_ddpnic_crash_dfifo_kept(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_STRICT, 0);
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    (void)state;
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    assert_int_equal(snic_ddpnic_dfifo(w->node[0].d, &cursor, &e), SNIC_ENOENT);
    complete(w, 0, SNIC_DDPNIC_DSTORE);
    cursor = 0;
    assert_int_equal(snic_ddpnic_dfifo(w->node[0].d, &cursor, &e), 0);
    assert_int_equal(e.ts, snic_ddp_ts(1, 2, 0));
    assert_int_equal(e.key.w[0], 1);
    assert_int_equal(e.length, 8);
    assert_int_equal(snic_ddpnic_dfifo(w->node[0].d, &cursor, &e), SNIC_ENOENT);
    complete(w, 0, SNIC_DDPNIC_LOG);
    cursor = 0;
    assert_int_equal(snic_ddpnic_dfifo(w->node[0].d, &cursor, &e), SNIC_ENOENT);
    nw_free(w);
}

/* A node that is left out reports an unknown outcome to its clients. */
static void test_ddpnic_left_out_answers_unknown(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_SCOPE, 0);
    int result = 0;
    (void)state;
    int write = nw_op(w, SNIC_DDP_WRITE, 0, 1, 5, NULL);
    int sync = nw_op(w, SNIC_DDP_SYNC, 0, 1, 5, NULL);
    int read = nw_op(w, SNIC_DDP_READ, 0, 1, 0, NULL);
    int late = nw_op(w, SNIC_DDP_WRITE, 0, 2, 6, NULL);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    nw_leave(w, 1);
    nw_notify_all(w);
    assert_true(nw_op(w, SNIC_DDP_READ, 0, 1, 0, &result) < 0);
    assert_int_equal(result, SNIC_ESTALE);
    nw_calm(w); /* the write that was still on the PCIe, too */
    assert_int_equal(w->op[write].state, NW_UNKNOWN);
    assert_int_equal(w->op[sync].state, NW_UNKNOWN);
    assert_int_equal(w->op[read].state, NW_UNKNOWN);
    assert_int_equal(w->op[late].state, NW_UNKNOWN);
    nw_settle(w);
    nw_same(w);
    nw_free(w);
}

/* A copy of the memory continues as the original does. */
static void test_ddpnic_memory_copied_same_node(void **state)
{
    struct nw_world *w = world(2, SNIC_DDP_RENF, 0);
    struct nw_node *n = &w->node[0];
    (void)state;
    assert_true(nw_op(w, SNIC_DDP_WRITE, 0, 1, 0, NULL) >= 0);
    assert_int_equal(nw_pcie_down(w, 0), 0);
    void *copy = support_guard_alloc(n->size, SNIC_DDPNIC_ALIGN);
    memcpy(copy, n->mem, n->size);
    memset(n->mem, 0xee, n->size);
    support_guard_free(n->mem);
    n->mem = copy;
    n->d = copy;
    nw_calm(w);
    nw_same(w);
    nw_free(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_models_write_golden),
        cmocka_unit_test(test_ddpnic_options_bad_refused),
        cmocka_unit_test(test_ddpnic_host_refusals_change_nothing),
        cmocka_unit_test(test_ddpnic_nic_refusals_change_nothing),
        cmocka_unit_test(test_ddpnic_versions_used_up_requests_epoch),
        cmocka_unit_test(test_ddpnic_scope_used_again_marks_again),
        cmocka_unit_test(test_ddpnic_pcie_gap_overtaken_waits),
        cmocka_unit_test(test_ddpnic_vfifo_obsolete_entry_dropped),
        cmocka_unit_test(test_ddpnic_vfifo_keys_drain_in_parallel),
        cmocka_unit_test(test_ddpnic_fifo_full_stalls),
        cmocka_unit_test(test_ddpnic_coordinator_crashes_replayed_from_vfifo),
        cmocka_unit_test(test_ddpnic_crash_dfifo_kept),
        cmocka_unit_test(test_ddpnic_left_out_answers_unknown),
        cmocka_unit_test(test_ddpnic_memory_copied_same_node),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
