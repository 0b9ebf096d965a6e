/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A channel with a hostile end: the input scribbles over both rings, moves cursors and commit
 * words by small steps, rings, sends control messages, and now and then behaves. The honest end
 * must neither crash nor touch anything outside, and must let go of everything at the end.
 *
 * Byte 0: bit 0 hostile DPU (else host), bit 1 unmapped DPU, bit 2 QUIESCENT up, bit 3 ordered
 * down. Then operations, one byte each with their arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/channel_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_BYTES 4096
#define FUZZ_HELD 8

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

struct fuzz_channel {
    struct snic_world *world;
    struct snic_loop *loop[2]; /* 0 honest, 1 hostile */
    struct snic_dma *d[2];
    struct snic_channel_hub *hub; /* of the honest end */
    void *hub_mem;
    struct snic_channel *c[SNIC_CHANNEL_MAX];
    struct snic_channel_sender sender;
    int hostile_dpu;
    uint32_t accept_flags;
    uint32_t flags;
    /* The hostile end. */
    unsigned char *ring[2];
    struct snic_ring_info info[2];
    struct snic_ring_producer producer;
    struct snic_ring_collector collector;
    int can_produce;
    int can_collect;
    struct channel_ctl open;
    /* What the honest end holds. */
    struct snic_channel *token_of[FUZZ_HELD];
    struct snic_channel_token tokens[FUZZ_HELD];
    struct snic_channel *slot_of[FUZZ_HELD];
    struct snic_channel_slot slots[FUZZ_HELD];
    uint32_t turn;
    volatile unsigned char sink;
};

static uint64_t fuzz_take(struct fuzz_input *in, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes > 0 && in->left > 0; bytes--, in->left--)
        v = v << 8 | *in->at++;
    return v;
}

static void fuzz_run(struct fuzz_channel *f, int most)
{
    while (most-- > 0 && snic_world_step(f->world) > 0) {
    }
}

/* ---- The honest end ---- */

static void fuzz_give(struct fuzz_channel *f, struct snic_channel *only)
{
    for (uint32_t i = 0; i < FUZZ_HELD; i++) {
        if (f->token_of[i] != NULL && (only == NULL || f->token_of[i] == only)) {
            snic_channel_release(f->token_of[i], &f->tokens[i]);
            f->token_of[i] = NULL;
        }
        if (f->slot_of[i] != NULL && (only == NULL || f->slot_of[i] == only)) {
            snic_channel_down_commit(f->slot_of[i], &f->slots[i], f->slots[i].payload_bytes / 2);
            f->slot_of[i] = NULL;
        }
    }
}

static int fuzz_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct fuzz_channel *f = ctx;
    const unsigned char *head = m->header;
    const unsigned char *body = m->payload;
    uint32_t i = f->turn++ % FUZZ_HELD;
    for (uint32_t k = 0; k < m->header_bytes; k++)
        f->sink = head[k];
    if (m->payload_bytes > 0) {
        f->sink = body[0];
        f->sink = body[m->payload_bytes - 1];
    }
    if (f->turn % 7 == 0)
        return SNIC_EAGAIN;
    if (!f->hostile_dpu && f->slot_of[i] == NULL) {
        struct snic_channel_slot *s = &f->slots[i];
        if (snic_channel_down_reserve(c, 1, m->header_bytes, m->payload_bytes, s) == 0) {
            f->slot_of[i] = c;
            if (s->header_bytes > 0)
                memset(s->header, 1, s->header_bytes);
            if (s->payload_bytes > 0)
                memset(s->payload, 2, s->payload_bytes);
        }
    }
    if (f->token_of[i] != NULL)
        return 1;
    f->token_of[i] = c;
    f->tokens[i] = m->token;
    return 0;
}

static void fuzz_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct fuzz_channel *f = ctx;
    if (reason > 0)
        abort();
    fuzz_give(f, c);
    for (uint32_t i = 0; i < SNIC_CHANNEL_MAX; i++)
        if (f->c[i] == c)
            f->c[i] = NULL;
    snic_channel_close(c);
}

static struct snic_channel_events fuzz_events(struct fuzz_channel *f)
{
    return (struct snic_channel_events){.message = fuzz_message, .closed = fuzz_closed, .ctx = f};
}

static int fuzz_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct fuzz_channel *f = ctx;
    struct snic_channel_events e = fuzz_events(f);
    struct snic_channel_accept_opts a = {.opts_size = sizeof(a), .flags = f->accept_flags};
    struct snic_channel *c = NULL;
    int r = snic_channel_accept(&c, h, o, &a, &e);
    for (uint32_t i = 0; r == 0; i++) {
        if (f->c[i] != NULL)
            continue;
        f->c[i] = c;
        break;
    }
    return r;
}

/* ---- The hostile end ---- */

static void fuzz_hostile_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct fuzz_channel *f = ctx;
    struct channel_ctl m;
    if (size != sizeof(m) || f->ring[0] != NULL)
        return;
    memcpy(&m, msg, sizeof(m));
    if (!f->hostile_dpu || m.type != CHANNEL_CTL_OPEN)
        return;
    void *up = NULL;
    void *down = NULL;
    if (snic_dma_map(d, m.up_key, 0, m.up_size, &up) != 0 ||
        snic_dma_map(d, m.down_key, 0, m.down_size, &down) != 0 ||
        snic_ring_geometry(up, m.up_size, &f->info[0]) != 0 ||
        snic_ring_geometry(down, m.down_size, &f->info[1]) != 0)
        abort();
    f->ring[0] = up;
    f->ring[1] = down;
    f->open = m;
    m.type = CHANNEL_CTL_ACCEPT;
    (void)snic_dma_send(d, &m, sizeof(m));
}

static void fuzz_hostile_rings(struct fuzz_channel *f)
{
    uint64_t keys[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t flag = i == 0 ? SNIC_CHANNEL_UP_QUIESCENT : SNIC_CHANNEL_DOWN_ORDERED;
        struct snic_ring_opts o = {.opts_size = sizeof(o),
                                   .kind = i == 0 ? SNIC_RING_REQUEST : SNIC_RING_RESPONSE,
                                   .discipline =
                                       f->flags & flag ? SNIC_RING_QUIESCENT : SNIC_RING_COMMIT,
                                   .capacity_bytes = FUZZ_BYTES};
        void *mem = NULL;
        size_t size = snic_ring_memsize(&o);
        if (snic_dma_alloc(f->d[1], size, &mem) != 0 || snic_ring_init(mem, size, &o) != 0 ||
            snic_ring_geometry(mem, size, &f->info[i]) != 0 ||
            snic_dma_register(f->d[1], mem, size, 3, &keys[i]) != 0)
            abort();
        f->ring[i] = mem;
    }
    f->can_produce =
        snic_ring_producer_attach(&f->producer, f->ring[0], f->info[0].memory_bytes, 0) == 0;
    f->can_collect =
        snic_ring_collector_attach(&f->collector, f->ring[1], f->info[1].memory_bytes, 0) == 0;
    f->open = (struct channel_ctl){.magic = SNIC_CHANNEL_MAGIC,
                                   .version = SNIC_CHANNEL__VERSION,
                                   .type = CHANNEL_CTL_OPEN,
                                   .generation = 1,
                                   .flags = f->flags,
                                   .record_max = f->info[0].record_max,
                                   .payload_align = f->info[0].body_align,
                                   .up_key = keys[0],
                                   .up_size = f->info[0].memory_bytes,
                                   .up_bytes = FUZZ_BYTES,
                                   .down_key = keys[1],
                                   .down_size = f->info[1].memory_bytes,
                                   .down_bytes = FUZZ_BYTES};
    (void)snic_dma_send(f->d[1], &f->open, sizeof(f->open));
}

static void fuzz_scribble(struct fuzz_channel *f, struct fuzz_input *in, int ring)
{
    uint64_t at = fuzz_take(in, 2);
    uint64_t n = 1 + fuzz_take(in, 1) % 16;
    for (uint64_t i = 0; i < n; i++)
        f->ring[ring][(at + i) % f->info[ring].memory_bytes] = (unsigned char)fuzz_take(in, 1);
}

static void fuzz_cursor(struct fuzz_channel *f, struct fuzz_input *in, int ring)
{
    static const uint32_t at[] = {SNIC_RING_OFF_PROGRESS, SNIC_RING_OFF_TAIL,
                                  SNIC_RING_OFF_PRODWAIT, SNIC_RING_OFF_HEAD,
                                  SNIC_RING_OFF_CONSLEEP};
    uint64_t b = fuzz_take(in, 2);
    unsigned char *word = f->ring[ring] + at[(b & 7) % 5];
    uint64_t v = snic_get_le64(word);
    int64_t step = (int64_t)((b >> 3) & 0xff) * 16 - 2048;
    snic_put_le64(word, b & 0x8000 ? (uint64_t)step << 40 : v + (uint64_t)step);
}

static void fuzz_commit_word(struct fuzz_channel *f, struct fuzz_input *in, int ring)
{
    const struct snic_ring_info *g = &f->info[ring];
    uint64_t i = fuzz_take(in, 1) % (g->capacity_bytes / g->granule_bytes);
    uint64_t lap = fuzz_take(in, 1) % 4;
    snic_put_le64(f->ring[ring] + g->commit_offset + i * 8,
                  (i * g->granule_bytes + lap * g->capacity_bytes) | (fuzz_take(in, 1) & 3));
}

static void fuzz_behave(struct fuzz_channel *f, struct fuzz_input *in)
{
    struct snic_ring_rec rec;
    uint32_t bytes = (uint32_t)fuzz_take(in, 1) * 2;
    static const unsigned char zero[1024];
    struct snic_iov iov = {(void *)(uintptr_t)zero, bytes};
    if (f->hostile_dpu) {
        if (f->c[0] != NULL &&
            snic_channel_up_push(&f->sender, 5, zero, bytes / 8, &iov, 1) == SNIC_EINVAL)
            abort();
        return;
    }
    if (f->can_produce && snic_ring_reserve(&f->producer, 5, bytes, bytes, &rec) == 0) {
        memset(rec.data, 3, rec.data_bytes);
        snic_ring_commit(&f->producer);
        if (snic_ring_notify(&f->producer))
            (void)snic_dma_ring(f->d[1], 0);
    }
    while (f->can_collect && snic_ring_claim(&f->collector, &rec) == 1)
        if (snic_ring_claim_release(&f->collector, &rec) != 0)
            f->can_collect = 0;
}

static void fuzz_control(struct fuzz_channel *f, struct fuzz_input *in)
{
    struct channel_ctl m = f->open;
    unsigned char *bytes = (unsigned char *)&m;
    m.type = (uint16_t)(fuzz_take(in, 1) % 4);
    m.slot = (uint32_t)fuzz_take(in, 1) % 10;
    m.generation = (uint32_t)fuzz_take(in, 1) % 4;
    for (uint64_t n = fuzz_take(in, 1) % 4; n > 0; n--) {
        uint64_t at = 20 + fuzz_take(in, 1) % (sizeof(m) - 20);
        bytes[at] = (unsigned char)fuzz_take(in, 1);
    }
    (void)snic_dma_send(f->d[1], &m, sizeof(m));
}

static void fuzz_step(struct fuzz_channel *f, struct fuzz_input *in)
{
    uint64_t op = fuzz_take(in, 1);
    int ring = (int)(op >> 4 & 1);
    if (f->ring[0] == NULL)
        op = 4;
    switch (op & 15) {
    case 0:
        fuzz_scribble(f, in, ring);
        break;
    case 1:
    case 2:
        fuzz_cursor(f, in, ring);
        break;
    case 3:
        fuzz_commit_word(f, in, ring);
        break;
    case 4:
    case 5:
        fuzz_run(f, 1 + (int)(op >> 4));
        break;
    case 6:
        (void)snic_dma_ring(f->d[1], 0);
        break;
    case 7:
        fuzz_control(f, in);
        break;
    case 8:
        fuzz_give(f, NULL);
        break;
    case 9:
        for (uint32_t i = 0; i < SNIC_CHANNEL_MAX; i++)
            if (f->c[i] != NULL)
                snic_channel_resume(f->c[i]);
        break;
    default:
        fuzz_behave(f, in);
        break;
    }
}

/* ---- Set up and down ---- */

static void fuzz_open(struct fuzz_channel *f)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = 1};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_events hostile = {.recv = fuzz_hostile_recv, .ctx = f};
    struct snic_channel_hub_opts ho = {
        .opts_size = sizeof(ho), .accept = fuzz_accept, .ctx = f, .ring_bytes_max = 65536};
    if (snic_world_open(&f->world, &wo) != 0 || snic_world_loop(f->world, 0, &f->loop[0]) != 0 ||
        snic_world_loop(f->world, 1, &f->loop[1]) != 0 ||
        snic_dma_local_open(&f->d[0], f->loop[0], &none, &f->d[1], f->loop[1], &hostile) != 0)
        abort();
    f->hub_mem = malloc(snic_channel_hub_memsize(&ho));
    if (snic_channel_hub_init(&f->hub, f->hub_mem, snic_channel_hub_memsize(&ho), f->d[0], &ho) !=
        0)
        abort();
    if (!f->hostile_dpu) {
        fuzz_hostile_rings(f);
    } else {
        struct snic_channel_opts o = {.opts_size = sizeof(o),
                                      .kind = 1,
                                      .up_bytes = FUZZ_BYTES,
                                      .down_bytes = FUZZ_BYTES,
                                      .granule_bytes = 16,
                                      .flags = f->flags};
        struct snic_channel_events e = fuzz_events(f);
        if (snic_channel_open(&f->c[0], f->hub, &o, &e) != 0 ||
            snic_channel_sender_init(&f->sender, f->c[0]) != 0)
            abort();
    }
    fuzz_run(f, 200);
}

static void fuzz_close(struct fuzz_channel *f)
{
    fuzz_give(f, NULL);
    fuzz_run(f, 500);
    snic_dma_close(f->d[1]);
    fuzz_run(f, 5000);
    fuzz_give(f, NULL);
    for (uint32_t i = 0; i < SNIC_CHANNEL_MAX; i++)
        if (f->c[i] != NULL)
            abort(); /* the death of the link ends every channel */
    if (snic_channel_hub_count(f->hub) != 0)
        abort();
    free(snic_channel_hub_fini(f->hub));
    snic_loop_close(f->loop[0]);
    snic_loop_close(f->loop[1]);
    snic_world_close(f->world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_channel f;
    struct fuzz_input in = {data, size < 4096 ? size : 4096};
    uint64_t mode = fuzz_take(&in, 1);
    memset(&f, 0, sizeof(f));
    f.hostile_dpu = (int)(mode & 1);
    f.accept_flags = mode & 2 ? SNIC_CHANNEL_UNMAPPED : 0;
    f.flags =
        (mode & 4 ? SNIC_CHANNEL_UP_QUIESCENT : 0) | (mode & 8 ? SNIC_CHANNEL_DOWN_ORDERED : 0);
    fuzz_open(&f);
    while (in.left > 0)
        fuzz_step(&f, &in);
    fuzz_close(&f);
    return 0;
}
