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

/* Sizes are right more often than not: what is wrong at first sight goes no further. */
static void hostile_header(struct hostile *h, struct km_up *u, uint32_t *payload)
{
    memset(u, 0, sizeof(*u));
    u->number = hostile_number(&h->rng);
    u->kind = (uint32_t)snic_rng_below(&h->rng, SNIC_FSOP_KINDS + 3);
    u->flags = (uint32_t)hostile_number(&h->rng);
    u->ino = snic_rng_below(&h->rng, 3) == 0 ? hostile_number(&h->rng) : 1;
    u->ino2 = snic_rng_below(&h->rng, 3) == 0 ? hostile_number(&h->rng) : 1;
    u->handle = hostile_number(&h->rng);
    u->offset = hostile_number(&h->rng);
    u->offset2 = hostile_number(&h->rng);
    u->length = hostile_number(&h->rng);
    /* Not what this machine's disk could give: the tests beside this one need it. */
    if (u->kind == SNIC_FSOP_FALLOCATE && u->length >> 20 != 0 && u->length >> 48 == 0)
        u->length <<= 28;
    u->rdev = hostile_number(&h->rng);
    u->mode = (uint32_t)hostile_number(&h->rng);
    u->set_mask = (uint32_t)hostile_number(&h->rng);
    u->umask = (uint32_t)hostile_number(&h->rng);
    hostile_bytes(&h->rng, &u->u, sizeof(u->u));
    u->name_size = (uint16_t)snic_rng_below(&h->rng, snic_rng_below(&h->rng, 8) == 0 ? 9000 : 12);
    u->name2_size = (uint16_t)snic_rng_below(&h->rng, snic_rng_below(&h->rng, 8) == 0 ? 9000 : 12);
    u->group_count =
        (uint32_t)(snic_rng_below(&h->rng, 4) == 0 ? hostile_number(&h->rng) % 300 : 0);
    u->data_size = (uint32_t)snic_rng_below(&h->rng, snic_rng_below(&h->rng, 4) == 0 ? 40000 : 2);
    u->room = (uint32_t)(snic_rng_below(&h->rng, 4) == 0   ? hostile_number(&h->rng)
                         : snic_rng_below(&h->rng, 2) == 0 ? snic_rng_below(&h->rng, 20000)
                                                           : 0);
    *payload = (uint32_t)u->name_size + u->name2_size + u->group_count * 4 + u->data_size;
    if (snic_rng_below(&h->rng, 20) == 0)
        *payload = (uint32_t)snic_rng_below(&h->rng, 1000);
    if (snic_rng_below(&h->rng, 50) == 0)
        u->group_count = (uint32_t)hostile_number(&h->rng);
}

/* 0; -1 the other side takes no more, as it may after garbage. */
static int hostile_send(struct hostile *h)
{
    static unsigned char bytes[HOSTILE_PAYLOAD];
    struct km_up u;
    uint32_t type =
        snic_rng_below(&h->rng, 10) == 0 ? (uint32_t)snic_rng_below(&h->rng, 65536) : KM_WIRE_CALL;
    uint32_t size = sizeof(u);
    uint32_t payload;
    hostile_header(h, &u, &payload);
    if (snic_rng_below(&h->rng, 20) == 0)
        size = (uint32_t)snic_rng_below(&h->rng, sizeof(u));
    if (payload > sizeof(bytes))
        payload = sizeof(bytes);
    hostile_bytes(&h->rng, bytes, payload < 64 ? payload : 64);
    for (uint32_t i = 0; i < payload && i < 24; i++) /* names that others meet */
        bytes[i] = (unsigned char)('a' + bytes[i] % 3);
    struct snic_iov piece = {bytes, payload};
    for (int i = 0; i < 3000 && !h->closed; i++) {
        if (snic_channel_up_push(&h->sender, type, &u, size, &piece, payload > 0) != SNIC_EAGAIN)
            return 0;
        hostile_turn(h, 1000000);
    }
    return -1;
}

/* ---- Sane ---- */

static int64_t hostile_ask(struct hostile *h, struct km_up *u, const void *name, const void *data)
{
    struct snic_iov pieces[2] = {{(void *)(uintptr_t)name, u->name_size},
                                 {(void *)(uintptr_t)data, u->data_size}};
    uint64_t until = snic_loop_clock(h->loop) + HOSTILE_WAIT_NS;
    u->number = ++h->number;
    u->flags |= SNIC_FSOP_CHECKED;
    h->answered = 0;
    while (snic_channel_up_push(&h->sender, KM_WIRE_CALL, u, sizeof(*u), pieces, 2) ==
               SNIC_EAGAIN &&
           !h->closed)
        hostile_turn(h, 1000000);
    while (!h->answered && !h->closed && snic_loop_clock(h->loop) < until)
        hostile_turn(h, 10000000);
    if (h->answered)
        return h->down.result;
    printf("request %u: %s\n", u->kind, h->closed ? "the channel is closed" : "no answer");
    exit(h->closed ? 2 : 1);
}

/* The expected request; else the program ends and prints what it received. */
static void hostile_get(struct hostile *h, struct km_up *u, const void *name, const void *data,
                        int64_t result)
{
    int64_t r = hostile_ask(h, u, name, data);
    if (r == result)
        return;
    printf("request %u: %lld instead of %lld\n", u->kind, (long long)r, (long long)result);
    exit(1);
}

static int hostile_sane(struct hostile *h)
{
    static const char name[] = "sane";
    struct km_up make = {.kind = SNIC_FSOP_CREATE,
                         .flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE,
                         .ino = 1,
                         .mode = 0100644,
                         .name_size = 4};
    hostile_get(h, &make, name, NULL, 0);
    uint64_t ino = h->down.u.attr.ino;
    struct km_up write = {.kind = SNIC_FSOP_WRITE,
                          .ino = ino,
                          .handle = h->down.handle,
                          .length = 10000,
                          .data_size = 10000};
    unsigned char bytes[10000];
    hostile_bytes(&h->rng, bytes, sizeof(bytes));
    struct km_up read = {.kind = SNIC_FSOP_READ,
                         .ino = ino,
                         .handle = h->down.handle,
                         .length = 10000,
                         .room = 10000};
    struct km_up gone = {.kind = SNIC_FSOP_UNLINK, .ino = 1, .name_size = 4};
    hostile_get(h, &write, NULL, bytes, 10000);
    hostile_get(h, &read, NULL, NULL, 10000);
    if (h->data_size != 10000 || memcmp(h->data, bytes, sizeof(bytes)) != 0) {
        printf("other bytes are read than were written\n");
        return 1;
    }
    hostile_get(h, &gone, name, NULL, 0);
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
