/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MINOS-O, and Combined with and without batching or broadcast: the engine ddpnic, its host half on
 * host cores, its NIC half on the SmartNIC's, which are a pool.
 *
 * The FIFOs. Their slots are counted here, the engine's are more than can be in flight: there an
 * entry has its slot as soon as it is to be stored, here (as fits figure 13) once it is written, as
 * writing is pipelined; until then it waits in front, in order. An entry goes into the vFIFO, then
 * into the dFIFO. Each FIFO drains over a DMA channel of its own, and its slot is free when the
 * transfer ends.
 *
 * Of the engine's two times the PCIe is between: a message over it, from the host's posting to the
 * NIC's taking it up. The coherent lines cost the compare-and-swaps and no time on the way.
 */
#include "world.h"

#include <string.h>

static struct snic_ddpnic_opts nic_opts(const struct world *w)
{
    static const uint32_t flags[MINOS_DESIGNS] = {
        [MINOS_COMBINED] = SNIC_DDPNIC_UNBATCHED | SNIC_DDPNIC_UNICAST,
        [MINOS_COMBINED_BROADCAST] = SNIC_DDPNIC_UNBATCHED,
        [MINOS_COMBINED_BATCHING] = SNIC_DDPNIC_UNICAST};
    struct snic_ddpnic_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.model = w->s.model;
    o.flags = SNIC_DDP_PAPER | flags[w->s.design];
    o.keys_max = w->s.keys;
    o.writes_max = 1024;
    o.waits_max = 4096;
    o.reads_max = 1024;
    o.scopes_max = 1024;
    o.vfifo_max = o.dfifo_max = 4096;
    /* Nothing is lost, so nothing is sent again: ten days. */
    o.retransmit_ns = o.replay_ns = (uint64_t)1 << 50;
    return o;
}

size_t nic_memsize(const struct world *w)
{
    struct snic_ddpnic_opts o = nic_opts(w);
    return snic_ddpnic_memsize(&o);
}

void nic_init(struct world *w, uint32_t node, void *mem, size_t size)
{
    struct world_node *n = &w->nodes[node];
    struct snic_ddpnic_opts o = nic_opts(w);
    struct snic_ddp_view view;
    struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_action a;
    memset(&view, 0, sizeof(view));
    view.epoch = 1;
    view.full = (uint16_t)((1u << w->s.nodes) - 1);
    o.node = node;
    if (snic_ddpnic_init(&n->pair, mem, size, &o) != 0 ||
        snic_ddpnic_step_nic(n->pair, 0, &epoch) != 0 || snic_ddpnic_poll_nic(n->pair, &a) != 0 ||
        snic_ddpnic_step_host(n->pair, 0, &lease) != 0 || snic_ddpnic_poll_host(n->pair, &a) != 0)
        minos_die("an engine does not begin");
}

/* ---- What the NIC's half wants ---- */

/* Of one step. Copying a batched INV out takes one core's time after the other's; the FIFOs do not
 * wait for it. */
struct nic_turn {
    uint64_t at;
    uint32_t released; /* the compare-and-swap of the release is charged */
    uint32_t unpacks;  /* the core that copies out is taken */
    uint32_t stored;   /* parcel of the VSTORE */
};

static void nic_transmit(struct world *w, uint32_t node, uint32_t parcel)
{
    world_transmit(w, node, parcel);
}

static void nic_send(struct world *w, uint32_t node, const struct snic_ddp_action *a,
                     struct nic_turn *turn)
{
    uint32_t type = a->msg.type;
    uint8_t core = world_core_of(w, world_owner(w, &a->msg));
    uint32_t parcel = world_parcel_new(w, &a->msg, a->to, core);
    if (type == SNIC_DDP_INV) {
        /* Copied out by one core, a destination after the other. */
        if (w->s.design == MINOS_COMBINED_BATCHING) {
            uint64_t unpack = world_ps(w, MINOS_UNPACK);
            if (!turn->unpacks)
                turn->at = world_snic(w, node, unpack * (w->s.nodes - 1));
            turn->unpacks = 1;
            turn->at += unpack;
        }
        world_at(w, turn->at, nic_transmit, node, parcel);
        return;
    }
    uint64_t work = world_ps(w, MINOS_SNIC_SMALL);
    if ((type == SNIC_DDP_VAL || type == SNIC_DDP_VAL_C) && !turn->released) {
        work += world_ps(w, MINOS_CAS_SNIC);
        turn->released = 1;
    }
    world_at(w, world_snic(w, node, work) + work, nic_transmit, node, parcel);
}

static void nic_written(struct world *w, uint32_t node, uint32_t parcel);
static void nic_drained(struct world *w, uint32_t node, uint32_t parcel);
static void nic_marked(struct world *w, uint32_t node, uint32_t parcel);
static void nic_wake(struct world *w, uint32_t node, uint32_t key);
static void nic_over_pcie(struct world *w, uint32_t node, uint32_t parcel);

/* Begin to write an entry: @p which 0 into the vFIFO, 1 into the dFIFO. */
static void nic_write(struct world *w, uint32_t node, uint32_t which, uint32_t parcel, uint64_t at)
{
    w->parcels[parcel].id = which;
    world_queue_push(&w->nodes[node].fifo[which].waiting, NULL, parcel);
    at += which == 0 ? world_ps(w, MINOS_VFIFO) : world_persist(w);
    world_at(w, at, nic_written, node, parcel);
}

static void nic_store(struct world *w, uint32_t node, const struct snic_ddp_action *a,
                      struct nic_turn *turn)
{
    uint32_t which = a->type == SNIC_DDPNIC_DSTORE;
    w->nodes[node].fifo[which].writing++;
    /* left: the entry of the other FIFO that follows. */
    if (which == 1 && turn->stored != WORLD_NIL && w->parcels[turn->stored].m.ts == a->msg.ts) {
        w->parcels[turn->stored].left = 1;
        return;
    }
    uint32_t parcel = world_parcel_new(w, &a->msg, 0, 0);
    if (which == 0)
        turn->stored = parcel;
    nic_write(w, node, which, parcel, w->now);
}

static void nic_drain(struct world *w, uint32_t node, uint32_t which,
                      const struct snic_ddp_action *a)
{
    uint64_t bytes = w->p->v[MINOS_RECORD] + w->p->v[MINOS_HEADER];
    uint64_t time = world_time(w, bytes, MINOS_PCIE_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].fifo[which].dma, w->now, time);
    uint32_t parcel = world_parcel_new(w, &a->msg, 0, 0);
    w->parcels[parcel].id = which;
    world_at(w, start + time + world_ps(w, MINOS_PCIE), nic_drained, node, parcel);
}

static void nic_mark(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    uint32_t parcel = world_parcel_new(w, &a->msg, 0, 0);
    w->parcels[parcel].id = a->id;
    world_at(w, w->now + world_persist(w), nic_marked, node, parcel);
}

/* Send to the host, to the core of the client that waits for it. */
static void nic_notify(struct world *w, uint32_t node, const struct snic_ddp_msg *m)
{
    uint32_t client = world_owner(w, m);
    if (m->type == SNIC_DDP_PERSIST_ACK)
        client = (uint32_t)(m->scope >> 32) - 1;
    uint32_t parcel = world_parcel_new(w, m, 0, world_core_of(w, client));
    uint64_t time = world_time(w, world_bytes(w, m), MINOS_PCIE_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].pcie_up, w->now, time);
    world_at(w, start + time + world_ps(w, MINOS_PCIE), nic_over_pcie, node, parcel);
}

static void nic_act(struct world *w, uint32_t node)
{
    struct nic_turn turn = {w->now, 0, 0, WORLD_NIL};
    struct snic_ddp_action a;
    while (snic_ddpnic_poll_nic(w->nodes[node].pair, &a) != 0) {
        world_note(w, node, &a);
        switch (a.type) {
        case SNIC_DDP_SEND:
            nic_send(w, node, &a, &turn);
            break;
        case SNIC_DDPNIC_PCIE:
            nic_notify(w, node, &a.msg);
            break;
        case SNIC_DDPNIC_WAKE:
            world_at(w, w->now, nic_wake, node, (uint32_t)a.msg.key.w[1]);
            break;
        case SNIC_DDPNIC_VSTORE:
        case SNIC_DDPNIC_DSTORE:
            nic_store(w, node, &a, &turn);
            break;
        case SNIC_DDPNIC_DMA:
            nic_drain(w, node, 0, &a);
            break;
        case SNIC_DDPNIC_LOG:
            nic_drain(w, node, 1, &a);
            break;
        case SNIC_DDPNIC_MARK:
            nic_mark(w, node, &a);
            break;
        case SNIC_DDP_RELEASE:
            break;
        default:
            minos_die("an action that has no place here");
        }
    }
}

/* ---- The NIC's events ---- */

static void nic_step(struct world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    if (snic_ddpnic_step_nic(w->nodes[node].pair, world_ns(w), ev) != 0)
        minos_die("an event was refused");
    nic_act(w, node);
}

/* Slots that are taken: the engine's count less what only is on its way in. */
static uint32_t nic_slots(const struct world *w, uint32_t node, uint32_t which)
{
    struct snic_ddpnic_stats info;
    snic_ddpnic_get_stats(w->nodes[node].pair, &info);
    return (which == 0 ? info.vfifo : info.dfifo) - w->nodes[node].fifo[which].writing;
}

/* Entries enter in the order in which their writing began: one that a newer of its key is in front
 * of could not drain, and with the only slot nothing would. */
static int nic_first_is_written(const struct world *w, const struct world_fifo *f)
{
    return f->waiting.count != 0 && w->parcels[f->waiting.at[f->waiting.first].arg].written;
}

/* The first that waits in front of a FIFO has a slot. */
static void nic_enter(struct world *w, uint32_t node, uint32_t which)
{
    struct world_fifo *f = &w->nodes[node].fifo[which];
    uint32_t parcel = world_queue_pop(&f->waiting).arg;
    struct world_parcel p = w->parcels[parcel];
    struct snic_ddp_event ev = {.type = which == 0 ? SNIC_DDPNIC_VSTORED : SNIC_DDPNIC_DSTORED,
                                .key = p.m.key,
                                .ts = p.m.ts};
    f->writing--;
    if (p.left != 0) {
        w->parcels[parcel].left = 0;
        w->parcels[parcel].written = 0;
        nic_write(w, node, 1, parcel, w->now);
    } else {
        world_parcel_drop(w, parcel);
    }
    nic_step(w, node, &ev);
}

/* An event of the NIC, and what enters the FIFOs because of it. */
static void nic_event(struct world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    struct world_fifo *f = w->nodes[node].fifo;
    if (ev != NULL)
        nic_step(w, node, ev);
    for (uint32_t which = 0; which < 2; which++) {
        while (nic_first_is_written(w, &f[which]) && nic_slots(w, node, which) < w->s.fifo)
            nic_enter(w, node, which);
    }
}

static void nic_written(struct world *w, uint32_t node, uint32_t parcel)
{
    w->parcels[parcel].written = 1;
    nic_event(w, node, NULL);
}

static void nic_drained(struct world *w, uint32_t node, uint32_t parcel)
{
    const struct world_parcel *p = &w->parcels[parcel];
    struct snic_ddp_event ev = {.type = p->id == 0 ? SNIC_DDPNIC_DRAINED : SNIC_DDPNIC_LOGGED,
                                .key = p->m.key,
                                .ts = p->m.ts};
    world_parcel_drop(w, parcel);
    nic_event(w, node, &ev);
}

static void nic_marked(struct world *w, uint32_t node, uint32_t parcel)
{
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_MARKED,
                                .id = w->parcels[parcel].id,
                                .scope = w->parcels[parcel].m.scope};
    world_parcel_drop(w, parcel);
    nic_event(w, node, &ev);
}

static void nic_message(struct world *w, uint32_t node, uint32_t parcel)
{
    struct snic_ddp_msg m = w->parcels[parcel].m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    world_parcel_drop(w, parcel);
    w->out->handled++;
    nic_event(w, node, &ev);
}

static void nic_from_host(struct world *w, uint32_t node, uint32_t parcel)
{
    struct snic_ddp_msg m = w->parcels[parcel].m;
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_PCIE, .msg = &m};
    world_parcel_drop(w, parcel);
    nic_event(w, node, &ev);
}

/* The work of taking up a message, from now on. */
static uint64_t nic_taken(struct world *w, uint32_t node, uint32_t parcel)
{
    uint32_t type = w->parcels[parcel].m.type;
    uint64_t work = world_ps(w, type == SNIC_DDP_INV ? MINOS_SNIC_INV : MINOS_SNIC_SMALL);
    if (type == SNIC_DDP_INV || type == SNIC_DDP_VAL || type == SNIC_DDP_VAL_C)
        work += world_ps(w, MINOS_CAS_SNIC);
    return world_snic(w, node, work) + work;
}

void nic_arrive(struct world *w, uint32_t node, uint32_t parcel)
{
    world_at(w, nic_taken(w, node, parcel), nic_message, node, parcel);
}

/* ---- The host ---- */

static void nic_at_nic(struct world *w, uint32_t node, uint32_t parcel)
{
    world_at(w, nic_taken(w, node, parcel), nic_from_host, node, parcel);
}

static void nic_posted(struct world *w, uint32_t node, uint32_t parcel)
{
    uint64_t time = world_time(w, world_bytes(w, &w->parcels[parcel].m), MINOS_PCIE_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].pcie_down, w->now, time);
    world_at(w, start + time + world_ps(w, MINOS_PCIE), nic_at_nic, node, parcel);
}

/* Carry out @p ev from @p at on; returns when the core has finished it. */
static uint64_t nic_host(struct world *w, uint32_t node, uint64_t at,
                         const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    if (snic_ddpnic_step_host(w->nodes[node].pair, world_ns(w), ev) != 0)
        minos_die("an event was refused");
    while (snic_ddpnic_poll_host(w->nodes[node].pair, &a) != 0) {
        world_note(w, node, &a);
        switch (a.type) {
        case SNIC_DDPNIC_PCIE:
            at += world_ps(w, MINOS_HOST_MESSAGE);
            if (world_is_record(&a.msg)) {
                at += world_ps(w, MINOS_HOST_KILOBYTE);
                world_own(w, &a.msg, w->requester);
            }
            world_at(w, at, nic_posted, node, world_parcel_new(w, &a.msg, 0, 0));
            break;
        case SNIC_DDP_DONE:
            world_answered(w, a.token, at);
            break;
        default:
            minos_die("an action that has no place here");
        }
    }
    return at;
}

static void nic_wake(struct world *w, uint32_t node, uint32_t key)
{
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_WAKE};
    ev.key = world_key(key);
    (void)nic_host(w, node, w->now, &ev);
}

static void nic_host_message(struct world *w, uint32_t node, uint32_t core, uint32_t parcel)
{
    struct snic_ddp_msg m = w->parcels[parcel].m;
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_PCIE, .msg = &m};
    world_parcel_drop(w, parcel);
    world_core_until(w, node, core,
                     nic_host(w, node, w->now + world_ps(w, MINOS_HOST_MESSAGE), &ev));
}

static void nic_over_pcie(struct world *w, uint32_t node, uint32_t parcel)
{
    world_core_queue(w, node, w->parcels[parcel].core, nic_host_message, parcel);
}

void nic_request(struct world *w, uint32_t node, uint32_t core, uint32_t client)
{
    struct snic_ddp_event ev = world_request(w, client);
    uint64_t at = w->now;
    if (ev.type == SNIC_DDP_WRITE)
        at += world_ps(w, MINOS_HOST_WRITE) + world_ps(w, MINOS_CAS_HOST);
    if (ev.type == SNIC_DDP_READ)
        at += world_ps(w, MINOS_READ);
    w->requester = client;
    world_core_until(w, node, core, nic_host(w, node, at, &ev));
}
