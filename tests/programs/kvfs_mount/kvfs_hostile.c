/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_hostile SOCKET nonsense|garbage|sane N SEED
 *
 * The host's end of kvfs_mount's ring, without a mount, and not to be trusted:
 *
 *   nonsense  N messages in order of which the contents are random: kinds, sizes, handles, names
 *   garbage   N messages while random bytes are written into all memory that both sides share
 *   sane      as the mount does: a file is made, written, read and removed
 *
 * Exit code: 0; 1 a sane request got a wrong answer; 2 no file system's process was there.
 */
#include "kvfs_hostile.h"

#include "../../../examples/kvfs_mount/wire.h"

enum { HOSTILE_PAYLOAD = 70000 };
#define HOSTILE_WAIT_NS 60000000000ULL

struct hostile {
    struct snic_loop *loop;
    struct snic_channel_hub *hub;
    struct snic_channel *channel;
    struct snic_channel_sender sender;
    struct snic_rng rng;
    int closed;
    int answered; /* the sane request */
    uint64_t number;
    struct km_down down;
    unsigned char data[HOSTILE_PAYLOAD];
    uint32_t data_size;
    struct hostile_maps maps;
};

static int hostile_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m)
{
    struct hostile *h = ctx;
    const struct km_down *d = m->header;
    (void)ch;
    if (m->header_bytes == sizeof(*d) && m->type == KM_WIRE_CALL && d->number == h->number) {
        h->answered = 1;
        h->down = *d;
        h->data_size = (uint32_t)snic_min_u64(m->payload_bytes, sizeof(h->data));
        if (m->payload != NULL)
            memcpy(h->data, m->payload, h->data_size);
    }
    return 1;
}

static void hostile_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct hostile *h = ctx;
    (void)ch;
    (void)reason;
    h->closed = 1;
}

static void hostile_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    struct hostile *h = ctx;
    (void)hub;
    (void)cause;
    h->closed = 1;
}

/* Another host may be there still: its end takes the other side a moment. */
static int hostile_open(struct hostile *h, const char *path)
{
    static const struct snic_dma_events none;
    struct snic_channel_hub_opts ho = {.opts_size = sizeof(ho), .death = hostile_death, .ctx = h};
    struct snic_channel_opts o = {
        .opts_size = sizeof(o), .kind = KM_WIRE_KIND, .up_bytes = 1 << 20, .down_bytes = 1 << 20};
    struct snic_channel_events e = {.message = hostile_message, .closed = hostile_closed, .ctx = h};
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .timeout_ms = 30000, .path = path};
    struct snic_dma *dma;
    size_t size = snic_channel_hub_memsize(&ho);
    static void *memory; /* the process' end frees it */
    if (posix_memalign(&memory, SNIC_CACHELINE, size) != 0 ||
        snic_dma_shm_connect(&dma, h->loop, &so, &none) != 0)
        return -1;
    if (snic_channel_hub_init(&h->hub, memory, size, dma, &ho) != 0)
        return -1;
    return snic_channel_open(&h->channel, h->hub, &o, &e) == 0 &&
                   snic_channel_sender_init(&h->sender, h->channel) == 0
               ? 0
               : -1;
}

static void hostile_turn(struct hostile *h, uint64_t ns)
{
    if (snic_loop_once(h->loop, ns) < 0)
        exit(2);
}

/* ---- Nonsense ---- */

/* Any request; not all can be encoded. */
static void hostile_request(struct hostile *h, struct snic_fsop *op, uint32_t *groups)
{
    static const char names[9000] = "abcabcbcacab";
    memset(op, 0, sizeof(*op));
    op->kind = (uint32_t)snic_rng_below(&h->rng, SNIC_FSOP_KINDS + 3);
    op->flags = snic_rng_below(&h->rng, 2) ? SNIC_FSOP_CHECKED : (uint32_t)hostile_number(&h->rng);
    op->ino = snic_rng_below(&h->rng, 3) == 0 ? hostile_number(&h->rng) : 1;
    op->ino2 = snic_rng_below(&h->rng, 3) == 0 ? hostile_number(&h->rng) : 1;
    op->handle = hostile_number(&h->rng);
    op->offset = hostile_number(&h->rng);
    op->offset2 = hostile_number(&h->rng);
    op->length = hostile_number(&h->rng);
    /* Not what this machine's disk could give: the tests beside this one need it. */
    if (op->kind == SNIC_FSOP_FALLOCATE && op->length >> 20 != 0 && op->length >> 48 == 0)
        op->length <<= 28;
    op->rdev = hostile_number(&h->rng);
    op->mode = (uint32_t)hostile_number(&h->rng);
    op->set_mask = (uint32_t)hostile_number(&h->rng);
    op->cred.umask = (uint32_t)hostile_number(&h->rng);
    hostile_bytes(&h->rng, &op->lock, sizeof(op->lock));
    hostile_bytes(&h->rng, &op->attr, sizeof(op->attr));
    op->name = names + snic_rng_below(&h->rng, 4);
    op->name2 = names + snic_rng_below(&h->rng, 4);
    op->name_size = (uint32_t)snic_rng_below(&h->rng, snic_rng_below(&h->rng, 8) == 0 ? 1500 : 6);
    op->name2_size = snic_rng_below(&h->rng, 2) == 0 ? 0 : (uint32_t)snic_rng_below(&h->rng, 6);
    if (snic_rng_below(&h->rng, 4) == 0) {
        op->cred.groups = groups;
        op->cred.group_count = (uint32_t)snic_rng_below(&h->rng, 300);
    }
}

/* A request that decodes more often than not: what is wrong at first sight goes no further. */
static uint32_t hostile_header(struct hostile *h, struct km_up *u, unsigned char *payload)
{
    static uint32_t groups[300];
    struct snic_fsop op;
    int bytes = -1;
    memset(u, 0, sizeof(*u));
    for (int i = 0; i < 8 && bytes < 0; i++) {
        hostile_request(h, &op, groups);
        bytes = snic_nvmefs_head_encode(&op, payload, SNIC_NVMEFS_HEADER_MAX);
    }
    if (bytes < 0) {
        bytes = 8 * (int)snic_rng_below(&h->rng, 12);
        hostile_bytes(&h->rng, payload, (size_t)bytes);
    }
    if (bytes > 0 && snic_rng_below(&h->rng, 8) == 0)
        payload[snic_rng_below(&h->rng, (uint64_t)bytes)] ^=
            (unsigned char)(1 << snic_rng_below(&h->rng, 8));
    u->number = hostile_number(&h->rng);
    u->head_bytes = (uint32_t)bytes;
    u->data_bytes = (uint32_t)snic_rng_below(&h->rng, snic_rng_below(&h->rng, 4) == 0 ? 40000 : 2);
    u->room = (uint32_t)(snic_rng_below(&h->rng, 4) == 0   ? hostile_number(&h->rng)
                         : snic_rng_below(&h->rng, 2) == 0 ? snic_rng_below(&h->rng, 20000)
                                                           : 0);
    uint32_t size = u->head_bytes + u->data_bytes;
    if (snic_rng_below(&h->rng, 20) == 0)
        size = (uint32_t)snic_rng_below(&h->rng, 1000);
    if (snic_rng_below(&h->rng, 50) == 0)
        u->head_bytes = (uint32_t)hostile_number(&h->rng);
    return size;
}

/* 0; -1 the other side takes no more, as it may after garbage. */
static int hostile_send(struct hostile *h)
{
    static unsigned char bytes[HOSTILE_PAYLOAD];
    struct km_up u;
    uint32_t type =
        snic_rng_below(&h->rng, 10) == 0 ? (uint32_t)snic_rng_below(&h->rng, 65536) : KM_WIRE_CALL;
    uint32_t size = sizeof(u);
    struct snic_iov piece = {bytes, hostile_header(h, &u, bytes)};
    if (snic_rng_below(&h->rng, 20) == 0)
        size = (uint32_t)snic_rng_below(&h->rng, sizeof(u));
    for (int i = 0; i < 3000 && !h->closed; i++) {
        if (snic_channel_up_push(&h->sender, type, &u, size, &piece, piece.size > 0) != SNIC_EAGAIN)
            return 0;
        hostile_turn(h, 1000000);
    }
    return -1;
}

/* ---- Sane ---- */

static int64_t hostile_call(struct hostile *h, const struct snic_fsop *op, const void *data,
                            uint32_t data_bytes, uint32_t room)
{
    uint64_t head[SNIC_NVMEFS_HEADER_MAX / 8];
    int bytes = snic_nvmefs_head_encode(op, head, sizeof(head));
    uint64_t until = snic_loop_clock(h->loop) + HOSTILE_WAIT_NS;
    if (bytes < 0)
        exit(1);
    struct snic_iov pieces[2] = {{head, (size_t)bytes}, {(void *)(uintptr_t)data, data_bytes}};
    struct km_up u = {.number = ++h->number,
                      .head_bytes = (uint32_t)bytes,
                      .data_bytes = data_bytes,
                      .room = room};
    h->answered = 0;
    while (snic_channel_up_push(&h->sender, KM_WIRE_CALL, &u, sizeof(u), pieces, 2) ==
               SNIC_EAGAIN &&
           !h->closed)
        hostile_turn(h, 1000000);
    while (!h->answered && !h->closed && snic_loop_clock(h->loop) < until)
        hostile_turn(h, 10000000);
    if (h->answered)
        return h->down.result;
    printf("%s: %s\n", snic_fsop_name(op->kind), h->closed ? "the channel is closed" : "no answer");
    exit(h->closed ? 2 : 1);
}

/* The expected result; else the program ends and prints what it received. */
static void hostile_get(struct hostile *h, const struct snic_fsop *op, const void *data,
                        uint32_t data_bytes, uint32_t room, int64_t result)
{
    int64_t r = hostile_call(h, op, data, data_bytes, room);
    if (r == result)
        return;
    printf("%s: %lld instead of %lld\n", snic_fsop_name(op->kind), (long long)r, (long long)result);
    exit(1);
}

static int hostile_sane(struct hostile *h)
{
    struct snic_fsop op = {.kind = SNIC_FSOP_CREATE,
                           .flags = SNIC_FSOP_CHECKED | SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE,
                           .ino = 1,
                           .mode = 0100644,
                           .name = "sane",
                           .name_size = 4};
    unsigned char bytes[10000];
    hostile_get(h, &op, NULL, 0, 0, 0);
    op = (struct snic_fsop){.kind = SNIC_FSOP_WRITE,
                            .flags = SNIC_FSOP_CHECKED,
                            .ino = h->down.u.attr.ino,
                            .handle = h->down.handle};
    hostile_bytes(&h->rng, bytes, sizeof(bytes));
    hostile_get(h, &op, bytes, sizeof(bytes), 0, sizeof(bytes));
    op.kind = SNIC_FSOP_READ;
    hostile_get(h, &op, NULL, 0, sizeof(bytes), sizeof(bytes));
    if (h->data_size != sizeof(bytes) || memcmp(h->data, bytes, sizeof(bytes)) != 0) {
        printf("other bytes are read than were written\n");
        return 1;
    }
    op = (struct snic_fsop){.kind = SNIC_FSOP_UNLINK,
                            .flags = SNIC_FSOP_CHECKED,
                            .ino = 1,
                            .name = "sane",
                            .name_size = 4};
    hostile_get(h, &op, NULL, 0, 0, 0);
    return 0;
}

int main(int argc, char **argv)
{
    static struct hostile h;
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo)};
    if (argc != 5) {
        fprintf(stderr, "kvfs_hostile SOCKET nonsense|garbage|sane N SEED\n");
        return 2;
    }
    unsigned long n = strtoul(argv[3], NULL, 0);
    int garbage = strcmp(argv[2], "garbage") == 0;
    snic_rng_init(&h.rng, strtoull(argv[4], NULL, 0));
    if (snic_loop_uring_open(&h.loop, &lo) != 0 || hostile_open(&h, argv[1]) != 0)
        return 2;
    if (strcmp(argv[2], "sane") == 0)
        return hostile_sane(&h);
    for (int i = 0; i < 100; i++)
        hostile_turn(&h, 1000000); /* both sides are up */
    hostile_look(&h.maps);
    if (garbage && h.maps.count == 0) {
        printf("nothing is shared\n");
        return 1;
    }
    for (unsigned long i = 0; i < n && !h.closed; i++) {
        if (hostile_send(&h) != 0)
            break;
        if (garbage)
            hostile_scribble(&h.maps, &h.rng);
        if (i % 16 == 0)
            hostile_turn(&h, 0);
    }
    for (int i = 0; i < 200 && !h.closed; i++)
        hostile_turn(&h, 1000000);
    _Exit(0); /* no goodbye */
}
