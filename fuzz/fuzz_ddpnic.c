/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One node of two halves among hostile peers: a string of operations makes views, client
 * operations, stores and drains in any order, a slow PCIe, time, and messages whose every field is
 * the input's, with few keys, slots and small numbers so that they meet. After each step the node
 * is checked, and handles are counted: each comes back once. At the end the node is left out, what
 * is under way ends, and everything must have been answered.
 */
#include "snicstore/ddpnic.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HANDLES = 512, TOKENS = 512, PENDING = 64, QUEUE = 64, NODES = 4 };

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_ddpnic *d;
    uint64_t now;
    struct snic_ddp_view view;
    uint32_t handles;
    uint32_t tokens;
    uint32_t pending;
    uint32_t down;
    uint32_t back;
    uint8_t live[HANDLES];
    uint8_t open[TOKENS];
    struct snic_ddp_action pend[PENDING];
    struct snic_ddp_action pcie_down[QUEUE];
    struct snic_ddp_action pcie_back[QUEUE];
    struct snic_ddp_msg sent; /* the last message, to be turned against the node */
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static void fuzz_action(struct fuzz *f, int host, const struct snic_ddp_action *a)
{
    switch (a->type) {
    case SNIC_DDP_SEND:
        must(!host && a->to != 0 && (a->to & ~f->view.full) == 0);
        f->sent = a->msg;
        break;
    case SNIC_DDPNIC_PCIE:
    case SNIC_DDPNIC_WAKE:
        must((host ? f->down : f->back) < QUEUE);
        if (host)
            f->pcie_down[f->down++] = *a;
        else
            f->pcie_back[f->back++] = *a;
        break;
    case SNIC_DDPNIC_VSTORE:
    case SNIC_DDPNIC_DSTORE:
    case SNIC_DDPNIC_DMA:
    case SNIC_DDPNIC_LOG:
        if ((a->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)
            must(a->msg.value < f->handles && f->live[a->msg.value]);
        must(!host && f->pending < PENDING);
        f->pend[f->pending++] = *a;
        break;
    case SNIC_DDPNIC_MARK:
        must(!host && f->pending < PENDING);
        f->pend[f->pending++] = *a;
        break;
    case SNIC_DDP_DONE:
        must(host && a->token < f->tokens && f->open[a->token]);
        f->open[a->token] = 0;
        break;
    case SNIC_DDP_RELEASE:
        must(!host && a->msg.value < f->handles && f->live[a->msg.value]);
        f->live[a->msg.value] = 0;
        break;
    default:
        must(a->type == SNIC_DDP_SUSPECT || a->type == SNIC_DDP_NEED_EPOCH);
    }
}

static int fuzz_host(struct fuzz *f, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_host(f->d, f->now, ev);
    while (snic_ddpnic_poll_host(f->d, &a) != 0)
        fuzz_action(f, 1, &a);
    must(snic_ddpnic_check(f->d) == 0);
    return r;
}

static int fuzz_nic(struct fuzz *f, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_nic(f->d, f->now, ev);
    while (snic_ddpnic_poll_nic(f->d, &a) != 0)
        fuzz_action(f, 0, &a);
    must(snic_ddpnic_check(f->d) == 0);
    return r;
}

static struct snic_ddp_key fuzz_key(uint8_t b)
{
    struct snic_ddp_key k = {{b % 6, 0}};
    return k;
}

static uint64_t fuzz_ts(struct fuzz *f)
{
    uint8_t b = take(f);
    uint64_t version = take(f) % 16;
    if (b == 255)
        version = SNIC_DDP_VERSION_MAX - version;
    return b == 0 ? 0 : snic_ddp_ts(b / 64, version, b % NODES);
}

static void fuzz_client(struct fuzz *f, uint8_t b)
{
    static const uint32_t types[] = {SNIC_DDP_READ, SNIC_DDP_WRITE, SNIC_DDP_DELETE, SNIC_DDP_SYNC};
    struct snic_ddp_event ev = {.type = types[b % 4], .key = fuzz_key(take(f))};
    if (f->tokens == TOKENS || f->handles == HANDLES)
        return;
    ev.scope = b / 32;
    ev.token = f->tokens++;
    f->open[ev.token] = 1;
    if (ev.type == SNIC_DDP_WRITE) {
        ev.value = f->handles++;
        f->live[ev.value] = 1;
    }
    if (fuzz_host(f, &ev) == 0)
        return;
    must(f->open[ev.token]);
    f->open[ev.token] = 0;
    if (ev.type == SNIC_DDP_WRITE) {
        must(f->live[ev.value]);
        f->live[ev.value] = 0;
    }
}

static void fuzz_message(struct fuzz *f, uint8_t b)
{
    struct snic_ddp_msg m = f->sent;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    if (b % 4 != 0) {
        uint8_t c = take(f);
        memset(&m, 0, sizeof(m));
        m.flags = c % 8 == 7 ? c % 32 : c % 8 == 6 ? SNIC_DDP_MSG_TOMBSTONE : 0;
        m.key = fuzz_key(c / 8);
        m.ts = fuzz_ts(f);
        m.scope = c / 32;
    }
    if (b % 4 == 2)
        m.flags |= SNIC_DDP_MSG_REPLAY;
    m.type = take(f) % 16;
    m.src = b / 4 % 5;
    if (b == 252)
        m.src = 16;
    m.dst = b / 32 == 7 ? 1 : 0;
    m.epoch = f->view.epoch;
    m.src_incarnation = m.src < 16 ? f->view.incarnation[m.src] : 0;
    m.dst_incarnation = f->view.incarnation[0];
    int value = m.type == SNIC_DDP_INV && (m.flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
    if (f->handles == HANDLES)
        return;
    m.value = value ? f->handles : 0;
    if (value)
        f->live[f->handles++] = 1;
    if (fuzz_nic(f, &ev) != 0 && value) {
        must(f->live[m.value]);
        f->live[m.value] = 0;
    }
}

static void fuzz_view(struct fuzz *f, uint8_t b)
{
    struct snic_ddp_view v = f->view;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &v};
    v.epoch += b % 4 == 3 ? 0 : 1;
    v.full &= (uint16_t) ~(take(f) % 32 / 2);
    if (b / 4 % 16 == 1)
        v.full |= 1;
    if (b / 64 == 3)
        v.incarnation[b % NODES]++;
    struct snic_ddp_view old = f->view;
    f->view = v;
    if (fuzz_nic(f, &ev) != 0)
        f->view = old;
}

static void fuzz_complete(struct fuzz *f, uint32_t i)
{
    struct snic_ddp_action a = f->pend[i];
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_VSTORED + (a.type - SNIC_DDPNIC_VSTORE)};
    ev.key = a.msg.key;
    ev.ts = a.msg.ts;
    ev.id = a.id;
    ev.scope = a.msg.scope;
    f->pend[i] = f->pend[--f->pending];
    must(fuzz_nic(f, &ev) == 0);
}

/* 0: it was taken. */
static int fuzz_down(struct fuzz *f)
{
    struct snic_ddp_msg m = f->pcie_down[0].msg;
    struct snic_ddp_event ev = {.type = SNIC_DDPNIC_PCIE, .msg = &m};
    int r = fuzz_nic(f, &ev);
    must(r == 0 || r == SNIC_EAGAIN);
    if (r == 0)
        memmove(f->pcie_down, f->pcie_down + 1, --f->down * sizeof(f->pcie_down[0]));
    return r;
}

static void fuzz_back(struct fuzz *f)
{
    struct snic_ddp_action a = f->pcie_back[0];
    struct snic_ddp_event ev = {.type = a.type, .flags = a.flags, .key = a.msg.key, .msg = &a.msg};
    memmove(f->pcie_back, f->pcie_back + 1, --f->back * sizeof(f->pcie_back[0]));
    must(fuzz_host(f, &ev) == 0);
}

static void fuzz_step(struct fuzz *f)
{
    uint8_t op = take(f);
    uint8_t b = take(f);
    struct snic_ddp_event ev = {.type = SNIC_DDP_TICK};
    struct snic_ddp_timer t[8];
    uint32_t n;
    switch (op % 8) {
    case 0:
        fuzz_client(f, b);
        break;
    case 1:
    case 2:
        fuzz_message(f, b);
        break;
    case 3:
    case 4:
        if (f->pending > 0)
            fuzz_complete(f, b % f->pending);
        break;
    case 5:
        if (b % 2 != 0 && f->down > 0)
            (void)fuzz_down(f);
        else if (f->back > 0)
            fuzz_back(f);
        break;
    case 6:
        n = snic_ddpnic_timers(f->d, t, 8);
        if (b % 2 != 0) {
            f->now += (uint64_t)b * b * 1000;
        } else {
            ev.type = SNIC_DDP_FIRE;
            ev.id = n == 0 || b == 254 ? b : t[b / 2 % (n < 8 ? n : 8)].id;
        }
        (void)fuzz_nic(f, &ev);
        break;
    default:
        if (b % 8 == 0) {
            ev.type = SNIC_DDP_LEASE;
            ev.ts = b / 8 % 4 == 0 ? f->now + 1000 : SNIC_NEVER;
            must(fuzz_host(f, &ev) == 0);
        } else {
            fuzz_view(f, b);
        }
    }
}

static void fuzz_end(struct fuzz *f)
{
    struct snic_ddpnic_entry e;
    struct snic_ddpnic_stats info;
    uint64_t cursor = 0;
    struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &f->view};
    f->view.epoch++;
    f->view.full = 0;
    must(fuzz_nic(f, &ev) == 0);
    while (f->down > 0 || f->back > 0 || f->pending > 0) {
        if (f->pending > 0)
            fuzz_complete(f, 0);
        else if (f->down > 0)
            must(fuzz_down(f) == 0);
        else
            fuzz_back(f);
    }
    for (uint32_t i = 0; i < f->tokens; i++)
        must(!f->open[i]);
    snic_ddpnic_get_stats(f->d, &info);
    must(info.vfifo == 0 && info.dfifo == 0 && info.nic_writes == 0 && info.waits == 0);
    while (snic_ddpnic_next(f->d, &cursor, &e) == 0) {
        if (e.host.ts == 0 || (e.host.flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
            continue;
        must(e.host.value < f->handles && f->live[e.host.value]);
        f->live[e.host.value] = 0;
    }
    for (uint32_t i = 0; i < f->handles; i++)
        must(!f->live[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz *f = calloc(1, sizeof(*f));
    must(f != NULL);
    f->in = data;
    f->left = size;
    uint8_t b = take(f);
    uint8_t c = take(f);
    struct snic_ddpnic_opts o = {.opts_size = sizeof(o), .model = 1 + b % 5u};
    o.flags = (c % 2 != 0 ? (uint32_t)SNIC_DDP_PAPER : 0) |
              (c / 2 % 2 != 0 ? (uint32_t)SNIC_DDPNIC_UNBATCHED : 0) |
              (c / 4 % 2 != 0 ? (uint32_t)SNIC_DDPNIC_UNICAST : 0);
    o.keys_max = 4;
    o.writes_max = 4;
    o.waits_max = 3 + b / 64;
    o.reads_max = 2;
    o.scopes_max = 2;
    o.vfifo_max = 1 + c / 8 % 4;
    o.dfifo_max = 1 + c / 32 % 4;
    size_t bytes = snic_ddpnic_memsize(&o);
    void *mem = aligned_alloc(SNIC_DDPNIC_ALIGN, snic_align_up(bytes, SNIC_DDPNIC_ALIGN));
    must(mem != NULL && snic_ddpnic_init(&f->d, mem, bytes, &o) == 0);
    if (b / 8 % 8 != 7) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_EPOCH, .view = &f->view};
        struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
        f->view.epoch = 1;
        f->view.full = 15;
        must(fuzz_nic(f, &ev) == 0 && fuzz_host(f, &lease) == 0);
    }
    while (f->left > 0) {
        fuzz_step(f);
        if (f->back > QUEUE / 2)
            fuzz_back(f);
    }
    fuzz_end(f);
    free(mem);
    free(f);
    return 0;
}
