/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The link over a channel of two rings: a call is a message of wire.h, and so is its answer. */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>

struct kr_ring {
    struct snic_channel_hub *hub;
    struct snic_channel *channel;
    void *hub_memory;
    struct snic_channel_sender sender;
};

/* ---- Sending ---- */

static int ring_send(struct km_remote *r, struct km_call *c)
{
    uint64_t head[SNIC_NVMEFS_HEADER_MAX / 8];
    struct kr_ring *ring = r->end;
    struct snic_fsop op = c->r.op;
    struct snic_iov pieces[2] = {{head, 0}, {NULL, 0}};
    struct km_up u = {.number = c->number};
    int data = snic_nvmefs_op_data(op.kind);
    int bytes;

    op.handle = remote_theirs(r, c);
    if (op.kind == SNIC_FSOP_SYMLINK) {
        pieces[1] = (struct snic_iov){(void *)(uintptr_t)op.name2, op.name2_size};
        op.name2_size = 0;
    } else if (data == 1 && op.iov_count > 0) {
        pieces[1] = op.iov[0];
    } else if (data == 2 && op.iov_count > 0) {
        u.room = (uint32_t)op.iov[0].size;
    }
    bytes = snic_nvmefs_head_encode(&op, head, sizeof(head));
    if (bytes < 0)
        return bytes;
    pieces[0].size = (size_t)bytes;
    u.head_bytes = (uint32_t)bytes;
    u.data_bytes = (uint32_t)pieces[1].size;
    return snic_channel_up_push(&ring->sender, KM_WIRE_CALL, &u, sizeof(u), pieces, 2) == 0
               ? 0
               : SNIC_EAGAIN; /* full, or the link ends */
}

static int ring_cancel(struct km_remote *r, struct km_call *c)
{
    struct kr_ring *ring = r->end;
    struct km_up u = {.number = c->number};

    return snic_channel_up_push(&ring->sender, KM_WIRE_CANCEL, &u, sizeof(u), NULL, 0) == 0;
}

/* ---- Answers ---- */

static int ring_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *msg)
{
    struct km_remote *r = ctx;
    const struct km_down *d = msg->header;

    (void)ch;
    remote_heard(r);
    if (msg->header_bytes != sizeof(*d))
        return 1;
    remote_alone(r, d->alone != 0, d->valid_ns);
    if (msg->type == KM_WIRE_CALL)
        remote_answer(r, d, msg->payload, msg->payload_bytes);
    remote_more(r);
    return 1;
}

static void ring_writable(void *ctx, struct snic_channel *ch)
{
    (void)ch;
    remote_flush(ctx);
}

static void ring_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct km_remote *r = ctx;

    (void)ch;
    (void)reason;
    r->cut = 1;
}

static void ring_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct km_remote *r = ctx;

    (void)h;
    (void)cause;
    r->cut = 1;
}

/* ---- Open and close ---- */

static void ring_fini(struct kr_ring *ring)
{
    snic_channel_hub_fini(ring->hub);
    free(ring->hub_memory);
    memset(ring, 0, sizeof(*ring));
}

static int ring_open(struct km_remote *r, struct snic_dma *dma)
{
    struct snic_channel_hub_opts h = {.opts_size = sizeof(h), .death = ring_death, .ctx = r};
    struct snic_channel_opts o = {.opts_size = sizeof(o),
                                  .kind = KM_WIRE_KIND,
                                  .up_bytes = KM_WIRE_RING,
                                  .down_bytes = KM_WIRE_RING};
    struct snic_channel_events e = {
        .message = ring_message, .writable = ring_writable, .closed = ring_closed, .ctx = r};
    struct kr_ring *ring = r->end;
    size_t size = snic_channel_hub_memsize(&h);
    int rc = SNIC_ENOMEM;

    if (posix_memalign(&ring->hub_memory, SNIC_CACHELINE, size) != 0) {
        snic_dma_close(dma);
        return rc;
    }
    rc = snic_channel_hub_init(&ring->hub, ring->hub_memory, size, dma, &h);
    if (rc != 0) {
        snic_dma_close(dma);
        free(ring->hub_memory);
        return rc;
    }
    rc = snic_channel_open(&ring->channel, ring->hub, &o, &e);
    if (rc == 0)
        rc = snic_channel_sender_init(&ring->sender, ring->channel);
    if (rc != 0) {
        if (ring->channel != NULL)
            snic_channel_close(ring->channel);
        ring_fini(ring);
    }
    return rc;
}

static int ring_connect(struct km_remote *r)
{
    static const struct snic_dma_events none;
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o),
                                  .timeout_ms = 1000,
                                  .path = r->m->config->socket,
                                  .tag = km_tag(r->m->config)};
    struct snic_dma *dma;
    int rc = snic_dma_shm_connect(&dma, r->m->loop, &o, &none);

    return rc != 0 ? rc : ring_open(r, dma);
}

static void ring_close(struct km_remote *r, int orderly)
{
    struct kr_ring *ring = r->end;
    struct snic_loop *loop = r->m->loop;
    uint64_t until = snic_loop_now(loop) + 2000000000u;

    snic_channel_close(ring->channel);
    while (orderly && snic_channel_hub_count(ring->hub) > 0 && snic_loop_now(loop) < until)
        (void)snic_loop_once(loop, 10000000u);
    ring_fini(ring);
}

const struct kr_link remote_ring = {.end_bytes = sizeof(struct kr_ring),
                                    .connect = ring_connect,
                                    .close = ring_close,
                                    .send = ring_send,
                                    .cancel = ring_cancel};
