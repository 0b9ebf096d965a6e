/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The durable log over the simulated disk. Either the input is what the device holds, and is
 * opened, taken as it is and used; or it is a string of operations, four bytes each: appends,
 * waiting, power cuts, errors, damage, blocks forged with good checksums. snic_wal_check() holds
 * after every step; what is found was appended so, unless it was forged; what was durable is found,
 * unless something was damaged.
 */
#include <stdlib.h>

#include "wal/wal_priv.h"

#define KEYS 16
#define SEGMENT 16384
#define BLOCK 512
#define SEGMENTS 12
#define BYTES (8 * 4096 + SEGMENTS * SEGMENT)

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_wal *wal;
    void *mem;
    struct snic_wal_opts opts;
    struct snic_wal_report report;
    int opened;
    int result;
    int failed;
    int forged;  /* what is found may be anything */
    int damaged; /* and not all of it             */
    uint64_t ts;
    uint64_t position;
    uint64_t newest[KEYS];  /* appended           */
    uint64_t durable[KEYS]; /* promised           */
    uint64_t got[KEYS];
    struct {
        uint64_t position;
        uint64_t ts;
        uint32_t key;
    } waits[4096];
    uint32_t waiting;
};

static unsigned char letter(uint64_t key, uint64_t ts)
{
    return (unsigned char)(key * 37 + ts * 11 + 1);
}

static void on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct rig *g = ctx;
    REQUIRE(!g->opened);
    g->opened = 1;
    g->result = result;
    g->report = *report;
}

static void on_found(void *ctx, const struct snic_wal_record *r)
{
    struct rig *g = ctx;
    const unsigned char *p = r->bytes;
    REQUIRE(!g->opened && r->position > g->position);
    g->position = r->position;
    for (uint32_t i = 0; i < r->length; i++)
        REQUIRE(g->forged || p[i] == letter(r->key.w[0], r->ts));
    if (r->key.w[0] >= KEYS) {
        REQUIRE(g->forged);
        return;
    }
    REQUIRE(g->forged || (r->ts <= g->ts && r->scope == r->ts * 3 && r->length == r->ts % 500));
    g->got[r->key.w[0]] = snic_max_u64(g->got[r->key.w[0]], r->ts);
}

static void on_durable(void *ctx, uint64_t up_to)
{
    struct rig *g = ctx;
    uint32_t left = 0;
    for (uint32_t i = 0; i < g->waiting; i++) {
        if (g->waits[i].position <= up_to)
            g->durable[g->waits[i].key] = g->waits[i].ts;
        else
            g->waits[left++] = g->waits[i];
    }
    g->waiting = left;
}

static void on_failed(void *ctx, int error)
{
    struct rig *g = ctx;
    REQUIRE(g->failed == 0 && error < 0);
    g->failed = error;
}

static int on_keep(void *ctx, const struct snic_wal_record *r)
{
    const struct rig *g = ctx;
    return r->key.w[0] < KEYS && r->ts >= g->newest[r->key.w[0]];
}

static const struct snic_wal_events events = {.opened = on_opened,
                                              .found = on_found,
                                              .durable = on_durable,
                                              .failed = on_failed,
                                              .keep = on_keep};

static void run(struct rig *g, uint32_t steps)
{
    while (steps-- > 0 && snic_world_step(g->world) > 0)
        REQUIRE(g->wal == NULL || snic_wal_check(g->wal) == 0);
}

static void shut(struct rig *g)
{
    if (g->wal != NULL)
        REQUIRE(snic_wal_close(g->wal) == g->mem);
    g->wal = NULL;
    snic_io_close(g->io);
    snic_disk_faults_clear(g->disk);
}

static void start(struct rig *g, uint32_t flags)
{
    g->opened = 0;
    g->failed = 0;
    g->position = 0;
    g->waiting = 0;
    memset(g->got, 0, sizeof(g->got));
    REQUIRE(snic_io_mem_open(&g->io, g->loop, g->disk) == 0);
    g->opts.flags = flags;
    size_t size = snic_wal_memsize(g->io, &g->opts);
    REQUIRE(size > 0);
    REQUIRE(snic_wal_open(&g->wal, g->mem, size, g->io, &g->opts, &events, g) == 0);
    while (!g->opened && snic_world_step(g->world) > 0)
        ;
    REQUIRE(g->opened);
    REQUIRE(snic_wal_check(g->wal) == 0);
    if (g->result != 0)
        return;
    for (uint32_t k = 0; k < KEYS; k++) {
        REQUIRE(g->forged || g->damaged || g->got[k] >= g->durable[k]);
        REQUIRE(g->forged || g->got[k] <= g->newest[k]);
        g->newest[k] = g->got[k];
        g->durable[k] = g->got[k];
    }
    if (!g->forged && !g->damaged)
        REQUIRE(g->report.verdict != SNIC_WAL_CORRUPT);
    if (g->report.verdict != SNIC_WAL_CLEAN)
        REQUIRE(snic_wal_accept_tail(g->wal) == 0);
    run(g, 1000);
}

static void append(struct rig *g, const uint8_t *b)
{
    static unsigned char bytes[512];
    struct snic_wal_record r = {.bytes = bytes, .ts = g->ts + 1};
    uint64_t position = 0;
    r.key.w[0] = b[1] % KEYS;
    r.scope = r.ts * 3;
    r.length = (uint32_t)(r.ts % 500);
    r.flags = b[2] % 8u;
    r.epoch = b[3];
    memset(bytes, letter(r.key.w[0], r.ts), sizeof(bytes));
    int e = snic_wal_append(g->wal, &r, &position);
    if (g->failed != 0)
        REQUIRE(e == SNIC_EIO);
    REQUIRE(e == 0 || e == SNIC_EAGAIN || e == SNIC_ENOSPC || e == SNIC_EIO || e == SNIC_ECORRUPT ||
            e == SNIC_EBUSY);
    if (e != 0 || g->waiting == SNIC_COUNTOF(g->waits))
        return;
    g->ts++;
    g->newest[r.key.w[0]] = r.ts;
    g->waits[g->waiting].position = position;
    g->waits[g->waiting].ts = r.ts;
    g->waits[g->waiting++].key = (uint32_t)r.key.w[0];
}

/** A block with arbitrary fields and a good checksum; a record in it, too. */
static void forge(struct rig *g, const uint8_t *b)
{
    struct wal_geo geo;
    unsigned char *disk = snic_disk_bytes(g->disk);
    if (wal_super_decode(&geo, disk) != 0 || wal_geo_fits(&geo, &g->io->geometry) != 0)
        return;
    wal_geo_derive(&geo);
    uint64_t gen = 1 + b[1] % 40u;
    struct wal_block h = {.used = b[2] * 2u, .index = b[3] % 32u, .generation = gen, .oldest = gen};
    unsigned char *at = disk + wal_offset(&geo, gen, h.index);
    struct wal_record rec = {.r = {.position = b[2], .length = b[3]}, .origin = b[1] % 8u};
    h.batch_first = h.index - b[2] % 3u;
    h.batch_end = h.index + 1 + b[1] % 3u;
    h.first = b[3] % 2 == 0 ? SNIC_WAL__BLOCK_HEAD : b[2];
    h.oldest -= b[2] % 5u;
    h.base = b[2];
    memset(at, b[0], BLOCK);
    rec.r.bytes = at + SNIC_WAL__BLOCK_HEAD + SNIC_WAL__RECORD_HEAD;
    rec.r.ts = b[1];
    (void)wal_record_encode(&geo, gen, &rec, at + SNIC_WAL__BLOCK_HEAD);
    wal_block_encode(&geo, &h, at);
    g->forged = 1;
}

static void damage(struct rig *g, const uint8_t *b)
{
    unsigned char *disk = snic_disk_bytes(g->disk);
    uint32_t at = ((uint32_t)b[1] << 10 | (uint32_t)b[2] << 2 | b[3] % 4u) % BYTES;
    if (b[3] % 16 == 15)
        memcpy(disk + at / BLOCK * BLOCK, disk + (at * 7u % BYTES) / BLOCK * BLOCK, BLOCK);
    else
        disk[at] ^= (unsigned char)(1u << b[3] / 32);
    g->damaged = 1;
}

static void fault(struct rig *g, const uint8_t *b)
{
    struct snic_fault f = {.kind = 1 + b[1] % 5u,
                           .after = 1 + b[2] % 16u,
                           .error = SNIC_EIO,
                           .bytes = b[3] * 64u,
                           .delay_ns = b[3] * 1000u,
                           .seed = b[3]};
    int r = snic_disk_fault(g->disk, &f);
    REQUIRE(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOSPC);
}

static void step(struct rig *g, const uint8_t *b)
{
    switch (b[0] % 16) {
    case 0:
        run(g, 1000);
        break;
    case 1:
        run(g, b[1]);
        break;
    case 2:
        fault(g, b);
        break;
    case 3:
        (void)snic_wal_flush(g->wal);
        break;
    case 4:
        snic_wal_compact(g->wal);
        break;
    case 5:
        if (snic_wal_meta_put(g->wal, b, b[1] % 5u) == 0)
            run(g, b[2] % 8u);
        break;
    case 6:
    case 7: /* damage and power cuts, then another run */
        if (b[0] / 16 % 4 == 1)
            damage(g, b);
        if (b[0] / 16 % 4 == 2)
            forge(g, b);
        snic_disk_power_cut(g->disk, b[3]);
        shut(g);
        start(g, 0);
        break;
    default:
        for (uint32_t i = 0; i <= b[3] % 32u; i++)
            append(g, b);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig g;
    static unsigned char mem[1 << 18] __attribute__((aligned(128)));
    struct snic_disk_opts o = {.opts_size = sizeof(o), .sector = 512, .size = BYTES, .depth = 8};
    if (size == 0)
        return 0;
    memset(&g, 0, sizeof(g));
    g.mem = mem;
    g.opts.opts_size = sizeof(g.opts);
    g.opts.segment_bytes = SEGMENT;
    g.opts.block_bytes = BLOCK;
    g.opts.batch_bytes = 16 * BLOCK;
    o.delay_max_ns = data[0] / 4 % 4 * 20000u;
    REQUIRE(snic_world_open(&g.world, NULL) == 0 && snic_world_loop(g.world, 0, &g.loop) == 0);
    REQUIRE(snic_disk_open(&g.disk, &o) == 0);
    if (data[0] % 4 == 0) { /* the input is the device */
        memcpy(snic_disk_bytes(g.disk), data + 1, size - 1 < BYTES ? size - 1 : BYTES);
        g.forged = 1;
        start(&g, 0);
    } else {
        start(&g, SNIC_WAL_CREATE | (data[0] % 4 == 1 ? SNIC_WAL_NO_FUA : 0));
        REQUIRE(g.result == 0);
    }
    data++;
    size--;
    for (uint32_t n = 0; size >= 4 && n < 400 && g.result == 0; data += 4, size -= 4, n++) {
        step(&g, data);
        if (g.result == 0)
            REQUIRE(snic_wal_check(g.wal) == 0);
    }
    shut(&g);
    snic_disk_close(g.disk);
    snic_loop_close(g.loop);
    snic_world_close(g.world);
    return 0;
}
