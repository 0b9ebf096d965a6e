/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The shape of virtio-fs: one split virtqueue, as DPFS's device thread walks it. A request is a
 * chain of three descriptors (command, data, response), each found by the next field of the one
 * before.
 *
 * Two devices: `virtio` has any number of chains under way; `virtio_serial` finishes one before it
 * takes the next, as a single thread that waits for its DMA does.
 *
 * As generous as virtio allows: the avail entries of several requests are one read, responses, used
 * entries and used index of several are one batch, kicks are suppressed while the device
 * polls (NO_NOTIFY, by the same rule as nvme-fs), and the device interrupts by the driver's
 * used_event. Where memory is mapped the device sees the avail index by a load, as nvme-fs sees its
 * next entry. An 8 KiB write alone takes 11 operations, as the paper counts them:
 *     avail index, avail entry, 3 descriptors, command, data, response, used entry, used index,
 *     used_event
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmefs_lane.h"

enum { VQ_CHAINS = 256, VQ_DESCS = 1024, VQ_COMMAND = 80, VQ_RESPONSE = 24, VQ_GROUP = 16 };
enum { VQ_NEXT = 1, VQ_WRITE = 2 };

struct vq_desc {
    uint64_t address;
    uint32_t length;
    uint16_t flags;
    uint16_t next;
};

struct vq_avail {
    _Atomic(uint16_t) flags;
    _Atomic(uint16_t) idx;
    uint16_t ring[VQ_DESCS];
    _Atomic(uint16_t) used_event;
};

struct vq_used_elem {
    uint32_t id;
    uint32_t length;
};

struct vq_used {
    _Atomic(uint16_t) flags;
    _Atomic(uint16_t) idx;
    struct vq_used_elem ring[VQ_DESCS];
};

/** The region. Data of request i is behind it. */
struct vq_memory {
    _Alignas(4096) struct vq_desc desc[VQ_DESCS];
    _Alignas(128) struct vq_avail avail;
    _Alignas(128) struct vq_used used;
    _Alignas(128) unsigned char commands[VQ_CHAINS][128];
    _Alignas(128) unsigned char responses[VQ_CHAINS][128];
    _Alignas(4096) unsigned char data[];
};

/** What FUSE puts before a READ or WRITE: fuse_in_header, fuse_write_in. */
struct vq_command {
    uint32_t length;
    uint32_t opcode;
    uint64_t unique;
    uint64_t nodeid;
    uint32_t uid;
    uint32_t gid;
    uint32_t pid;
    uint32_t padding;
    uint64_t fh;
    uint64_t offset;
    uint32_t size;
    uint32_t write_flags;
    uint64_t lock_owner;
    uint32_t flags;
    uint32_t padding2;
};
SNIC_STATIC_ASSERT(sizeof(struct vq_command) == VQ_COMMAND, "as FUSE has it");

struct vq_hello {
    uint64_t key;
    uint64_t size;
};

/* ---- Driver ---- */

struct vq_driver {
    struct snic_dma *d;
    struct lane_user *u;
    struct vq_memory *m;
    struct snic_loop_poller poller;
    uint64_t key;
    uint16_t last_used;
    uint16_t notified;
    uint16_t tail;
    uint32_t out;
};

static void vq_kick(struct vq_driver *v)
{
    if (v->notified == v->tail)
        return;
    v->notified = v->tail;
    atomic_thread_fence(memory_order_seq_cst);
    if ((atomic_load_explicit(&v->m->used.flags, memory_order_relaxed) & 1) == 0)
        (void)snic_dma_ring(v->d, 0);
}

static int vq_reap(struct vq_driver *v)
{
    int n = 0;
    while (v->last_used != atomic_load_explicit(&v->m->used.idx, memory_order_acquire)) {
        uint32_t id = v->m->used.ring[v->last_used % VQ_DESCS].id;
        v->last_used++;
        v->out--;
        n++;
        v->u->done(v->u, id / 3);
    }
    return n;
}

static int vq_driver_poll(struct snic_loop_poller *p, int sleeping)
{
    struct vq_driver *v = SNIC_CONTAINER(p, struct vq_driver, poller);
    int n = vq_reap(v);
    vq_kick(v);
    if (sleeping && n == 0 && v->out > 0) {
        atomic_store_explicit(&v->m->avail.used_event, v->last_used, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        n = vq_reap(v);
    }
    return n;
}

static void vq_submit(void *host, uint32_t i)
{
    struct vq_driver *v = host;
    struct vq_memory *m = v->m;
    uint64_t base = (uint64_t)(m->data - (unsigned char *)m);
    uint16_t head = (uint16_t)(i * 3);
    struct vq_command c = {.length = VQ_COMMAND + (v->u->k.write ? v->u->k.bytes : 0),
                           .opcode = v->u->k.write ? 16 : 15,
                           .unique = v->tail,
                           .nodeid = 1,
                           .fh = 1,
                           .size = v->u->k.bytes};
    memcpy(m->commands[i], &c, sizeof(c));
    m->desc[head] = (struct vq_desc){(uint64_t)(m->commands[i] - (unsigned char *)m), VQ_COMMAND,
                                     VQ_NEXT, (uint16_t)(head + 1)};
    m->desc[head + 1] = (struct vq_desc){base + (uint64_t)i * v->u->k.bytes, v->u->k.bytes,
                                         (uint16_t)(VQ_NEXT | (v->u->k.write ? 0 : VQ_WRITE)),
                                         (uint16_t)(head + 2)};
    m->desc[head + 2] = (struct vq_desc){(uint64_t)(m->responses[i] - (unsigned char *)m),
                                         VQ_RESPONSE, VQ_WRITE, 0};
    m->avail.ring[v->tail % VQ_DESCS] = head;
    v->tail++;
    v->out++;
    atomic_store_explicit(&m->avail.idx, v->tail, memory_order_release);
    if (snic_loop_world(v->d->loop) != NULL)
        snic_loop_wake(v->d->loop);
}

static void *vq_driver_open(struct snic_dma *d, struct lane_user *u)
{
    struct vq_driver *v = calloc(1, sizeof(*v));
    void *mem = NULL;
    size_t size = sizeof(struct vq_memory) + (size_t)u->k.in_flight * u->k.bytes;
    v->d = d;
    v->u = u;
    if (snic_dma_alloc(d, size, &mem) != 0 ||
        snic_dma_register(d, mem, size, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE, &v->key) != 0)
        abort();
    v->m = mem;
    struct vq_hello hello = {v->key, size};
    if (snic_dma_send(d, &hello, sizeof(hello)) != 1)
        abort();
    snic_loop_poller_init(&v->poller, vq_driver_poll);
    snic_loop_poller_add(d->loop, &v->poller);
    return v;
}

static void vq_driver_end(void *host)
{
    (void)host;
}

static int vq_driver_over(void *host)
{
    return ((struct vq_driver *)host)->out == 0;
}

static void vq_driver_close(void *host)
{
    struct vq_driver *v = host;
    snic_loop_poller_remove(v->d->loop, &v->poller);
    free(v);
}

/* ---- Device ---- */

enum vq_stage { VQ_IDLE, VQ_DESC, VQ_FETCH, VQ_DONE };

struct vq_device;

/** A batch and what becomes of it. */
struct vq_batch {
    struct snic_dma_batch b;
    struct snic_dma_op ops[VQ_GROUP * 2 + 6];
    struct vq_device *v;
    int out;
};

struct vq_chain {
    struct vq_batch batch; /* first */
    enum vq_stage stage;
    uint16_t head;
    uint16_t next;
    uint32_t found;
    struct vq_desc desc[3];
    unsigned char command[128];
    unsigned char *data;
    struct vq_chain *link; /* on the done list, or free */
};

struct vq_device {
    struct snic_dma *d;
    struct lane_case k;
    struct snic_loop_poller poller;
    uint64_t key;
    size_t size;
    int mapped;
    unsigned char *view; /* of the avail ring's idx */
    uint16_t last_avail;
    uint16_t used;
    uint16_t used_event;
    struct vq_batch look; /* idx, then entries */
    int look_ring;
    uint32_t look_n;
    _Alignas(8) uint16_t avail[2];
    _Alignas(8) uint16_t ring[VQ_GROUP];
    _Alignas(8) uint16_t flags;
    int turn; /* 1 + what the next look writes to used.flags */
    int never;
    int belled;
    int want_look;
    uint32_t empties;
    struct vq_batch post;
    struct vq_chain *posting[VQ_GROUP];
    uint32_t posts;
    _Alignas(8) struct vq_used_elem elems[VQ_GROUP];
    _Alignas(8) uint16_t idx;
    unsigned char response[VQ_RESPONSE];
    struct vq_chain *chains;
    struct vq_chain *free;
    struct vq_chain *done;
    struct vq_chain **done_last;
    uint32_t busy;
    int serial; /* one chain at a time */
    int dead;
};

static void vq_add(struct vq_batch *b, uint8_t kind, uint8_t flags, uint64_t offset, void *local,
                   uint32_t length)
{
    b->ops[b->b.count++] = (struct snic_dma_op){.kind = kind,
                                                .flags = flags,
                                                .length = length,
                                                .key = b->v->key,
                                                .offset = offset,
                                                .local = local};
}

static void vq_go(struct vq_batch *b, snic_dma_done_fn done)
{
    struct snic_dma_batch *list = &b->b;
    b->b.done = done;
    b->b.ops = b->ops;
    b->out = 1;
    if (snic_dma_submit(b->v->d, &list, 1) != 1)
        b->v->dead = 1;
}

static void vq_walk_done(struct snic_dma_batch *b);

/** A chain's next step: read a descriptor, fetch what all point to, execute the command. */
static void vq_walk(struct vq_chain *c)
{
    struct vq_device *v = c->batch.v;
    c->batch.b.count = 0;
    if (c->stage == VQ_DESC && c->found < 3) {
        vq_add(&c->batch, SNIC_DMA_READ, 0, offsetof(struct vq_memory, desc) + c->next * 16U,
               &c->desc[c->found], 16);
        vq_go(&c->batch, vq_walk_done);
        return;
    }
    if (c->stage == VQ_DESC) {
        c->stage = VQ_FETCH;
        vq_add(&c->batch, SNIC_DMA_READ, 0, c->desc[0].address, c->command, c->desc[0].length);
        if ((c->desc[1].flags & VQ_WRITE) == 0)
            vq_add(&c->batch, SNIC_DMA_READ, 0, c->desc[1].address, c->data, c->desc[1].length);
        vq_go(&c->batch, vq_walk_done);
        return;
    }
    struct vq_command cmd;
    memcpy(&cmd, c->command, sizeof(cmd));
    if ((cmd.opcode != 15 && cmd.opcode != 16) || cmd.size != c->desc[1].length)
        abort();
    c->stage = VQ_DONE; /* the file system has answered */
    c->link = NULL;
    *v->done_last = c;
    v->done_last = &c->link;
}

static void vq_walk_done(struct snic_dma_batch *b)
{
    struct vq_chain *c = SNIC_CONTAINER(b, struct vq_chain, batch.b);
    c->batch.out = 0;
    if (c->stage == VQ_DESC) {
        if (c->desc[c->found].length > 2 << 20) /* a trusted driver; checked all the same */
            abort();
        c->next = c->desc[c->found++].next;
    }
    vq_walk(c);
}

static void vq_look_next(struct vq_device *v, uint32_t found)
{
    v->empties = found > 0 ? 0 : v->empties + 1;
    if (v->belled || found == VQ_GROUP || (v->serial && v->avail[1] != v->last_avail))
        v->want_look = 1;
    if (!v->never) {
        if (found > 0 && (v->mapped || v->busy >= 4)) {
            v->turn = 2;
            v->want_look = 1;
        }
        return;
    }
    if (v->mapped)
        return;
    v->want_look = 1;
    if (v->empties >= 8 || (v->empties >= 2 && v->busy < 2))
        v->turn = 1;
}

static void vq_look_done(struct snic_dma_batch *b);

/** The avail index is here: read the entries up to it. */
static void vq_look_entries(struct vq_device *v)
{
    uint32_t most = v->serial ? 1 : VQ_GROUP;
    v->look_n = (uint16_t)(v->avail[1] - v->last_avail);
    if (v->look_n > most)
        v->look_n = most;
    if (v->look_n == 0) {
        vq_look_next(v, 0);
        return;
    }
    v->look_ring = 1;
    v->look.b.count = 0;
    for (uint32_t i = 0; i < v->look_n;) {
        uint32_t at = (uint16_t)(v->last_avail + i) % VQ_DESCS;
        uint32_t n = (uint32_t)snic_min_u64(v->look_n - i, VQ_DESCS - at);
        vq_add(&v->look, SNIC_DMA_READ, 0, offsetof(struct vq_memory, avail.ring) + at * 2U,
               &v->ring[i], n * 2);
        i += n;
    }
    vq_go(&v->look, vq_look_done);
}

static void vq_look_done(struct snic_dma_batch *b)
{
    struct vq_device *v = SNIC_CONTAINER(b, struct vq_batch, b)->v;
    v->look.out = 0;
    if (!v->look_ring) {
        if (v->turn != 0 && v->look.b.count == 2) {
            v->never = v->turn == 2;
            v->turn = 0;
        }
        vq_look_entries(v);
        return;
    }
    v->look_ring = 0;
    for (uint32_t i = 0; i < v->look_n; i++) {
        struct vq_chain *c = v->free;
        if (c == NULL)
            abort();
        v->free = c->link;
        v->busy++;
        v->last_avail++;
        c->stage = VQ_DESC;
        c->found = 0;
        c->head = c->next = v->ring[i];
        vq_walk(c);
    }
    vq_look_next(v, v->look_n);
}

static void vq_look(struct vq_device *v)
{
    uint8_t fence = 0;
    v->want_look = 0;
    v->look.b.count = 0;
    if (v->serial && v->avail[1] != v->last_avail) { /* known from the last time */
        vq_look_entries(v);
        return;
    }
    v->belled = 0;
    if (v->turn != 0) {
        v->flags = (uint16_t)(v->turn - 1);
        vq_add(&v->look, SNIC_DMA_WRITE, 0, offsetof(struct vq_memory, used.flags), &v->flags, 2);
        fence = SNIC_DMA_FENCE;
    }
    vq_add(&v->look, SNIC_DMA_READ, fence, offsetof(struct vq_memory, avail.flags), v->avail, 4);
    vq_go(&v->look, vq_look_done);
}

static void vq_post_done(struct snic_dma_batch *b)
{
    struct vq_device *v = SNIC_CONTAINER(b, struct vq_batch, b)->v;
    uint16_t old = (uint16_t)(v->used - v->posts);
    v->post.out = 0;
    for (uint32_t i = 0; i < v->posts; i++) {
        v->posting[i]->link = v->free;
        v->free = v->posting[i];
        v->busy--;
    }
    v->want_look |= v->serial && v->avail[1] != v->last_avail;
    /* vring_need_event() */
    if ((uint16_t)(v->used - v->used_event - 1) < (uint16_t)(v->used - old))
        (void)snic_dma_ring(v->d, 0);
}

/** Responses and data, used entries, used index, used_event; one batch at a time, as the index is
    one. */
static void vq_post(struct vq_device *v)
{
    uint32_t n = 0;
    v->post.b.count = 0;
    for (; n < VQ_GROUP && v->done != NULL; n++) {
        struct vq_chain *c = v->done;
        v->done = c->link;
        v->posting[n] = c;
        v->elems[n] = (struct vq_used_elem){c->head, VQ_RESPONSE};
        if ((c->desc[1].flags & VQ_WRITE) != 0)
            vq_add(&v->post, SNIC_DMA_WRITE, 0, c->desc[1].address, c->data, c->desc[1].length);
        vq_add(&v->post, SNIC_DMA_WRITE, 0, c->desc[2].address, v->response, VQ_RESPONSE);
    }
    if (v->done == NULL)
        v->done_last = &v->done;
    v->posts = n;
    for (uint32_t i = 0; i < n;) {
        uint32_t at = (uint16_t)(v->used + i) % VQ_DESCS;
        uint32_t k = (uint32_t)snic_min_u64(n - i, VQ_DESCS - at);
        vq_add(&v->post, SNIC_DMA_WRITE, 0, offsetof(struct vq_memory, used.ring) + at * 8U,
               &v->elems[i], k * 8);
        i += k;
    }
    v->used = (uint16_t)(v->used + n);
    v->idx = v->used;
    vq_add(&v->post, SNIC_DMA_WRITE, SNIC_DMA_FENCE, offsetof(struct vq_memory, used.idx), &v->idx,
           2);
    vq_add(&v->post, SNIC_DMA_READ, SNIC_DMA_FENCE, offsetof(struct vq_memory, avail.used_event),
           &v->used_event, 2);
    vq_go(&v->post, vq_post_done);
}

static int vq_device_poll(struct snic_loop_poller *p, int sleeping)
{
    struct vq_device *v = SNIC_CONTAINER(p, struct vq_device, poller);
    int did = 0;
    if (v->key == 0 || v->dead)
        return 0;
    if (v->view != NULL && v->never && !v->look.out &&
        atomic_load_explicit((_Atomic(uint16_t) *)(void *)v->view, memory_order_acquire) !=
            v->last_avail)
        v->want_look = 1;
    if (sleeping && v->mapped && v->never) {
        v->turn = 1;
        v->want_look = 1;
    }
    if (v->done != NULL && !v->post.out) {
        vq_post(v);
        did = 1;
    }
    if (v->want_look && !v->look.out && (!v->serial || v->busy == 0)) {
        vq_look(v);
        did = 1;
    }
    return did;
}

static void vq_device_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct vq_device *v = ctx;
    struct vq_hello hello;
    void *mem = NULL;
    if (size != sizeof(hello))
        abort();
    memcpy(&hello, msg, sizeof(hello));
    v->key = hello.key;
    v->size = hello.size;
    if (v->mapped &&
        snic_dma_map(d, hello.key, offsetof(struct vq_memory, avail.idx), 2, &mem) == 0)
        v->view = mem;
    v->mapped = v->view != NULL;
    v->want_look = 1;
}

static void vq_device_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct vq_device *v = ctx;
    (void)d;
    (void)id;
    v->belled = 1;
    v->want_look = 1;
}

static void vq_device_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct vq_device *v = ctx;
    (void)d;
    (void)cause;
    v->dead = 1;
}

static void *vq_device_open(struct snic_dma *d, const struct lane_case *k, int unmapped)
{
    struct vq_device *v = calloc(1, sizeof(*v));
    v->d = d;
    v->k = *k;
    v->mapped = !unmapped && (d->caps & SNIC_DMA_CAP_MAPPED) != 0;
    v->done_last = &v->done;
    v->look.v = v->post.v = v;
    v->chains = calloc(VQ_CHAINS, sizeof(*v->chains));
    for (uint32_t i = 0; i < VQ_CHAINS; i++) {
        struct vq_chain *c = &v->chains[i];
        c->batch.v = v;
        c->data = i < k->in_flight ? calloc(1, k->bytes) : NULL;
    }
    for (uint32_t i = k->in_flight; i-- > 0;) {
        v->chains[i].link = v->free;
        v->free = &v->chains[i];
    }
    d->events = (struct snic_dma_events){vq_device_recv, vq_device_bell, vq_device_death, v};
    snic_loop_poller_init(&v->poller, vq_device_poll);
    snic_loop_poller_add(d->loop, &v->poller);
    return v;
}

static int vq_device_over(void *dpu)
{
    struct vq_device *v = dpu;
    return v->dead && !v->look.out && !v->post.out;
}

static void vq_device_close(void *dpu)
{
    struct vq_device *v = dpu;
    snic_loop_poller_remove(v->d->loop, &v->poller);
    for (uint32_t i = 0; i < VQ_CHAINS; i++)
        free(v->chains[i].data);
    free(v->chains);
    free(v);
}

static void *vq_serial_open(struct snic_dma *d, const struct lane_case *k, int unmapped)
{
    struct vq_device *v = vq_device_open(d, k, unmapped);
    v->serial = 1;
    return v;
}

const struct lane lane_virtio_serial = {.name = "virtio_serial",
                                        .host_open = vq_driver_open,
                                        .submit = vq_submit,
                                        .host_end = vq_driver_end,
                                        .host_over = vq_driver_over,
                                        .host_close = vq_driver_close,
                                        .dpu_open = vq_serial_open,
                                        .dpu_over = vq_device_over,
                                        .dpu_close = vq_device_close};

const struct lane lane_virtio = {.name = "virtio",
                                 .host_open = vq_driver_open,
                                 .submit = vq_submit,
                                 .host_end = vq_driver_end,
                                 .host_over = vq_driver_over,
                                 .host_close = vq_driver_close,
                                 .dpu_open = vq_device_open,
                                 .dpu_over = vq_device_over,
                                 .dpu_close = vq_device_close};
