/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The block store over a simulated disk. The input begins with a mode; then either a formatted
 * device is overwritten with the input, pages with good checksums or bad ones, and opened and
 * used; or it is a string of operations, four bytes each: writes, reads, fences, deletions,
 * waiting, rounds, power cuts. snic_segments_check() holds after every step; unless the device was
 * overwritten, what is read is what some write with that version wrote, and no older than what was
 * answered.
 */
#include <stdlib.h>

#include "segments/segments_priv.h"

#define SEGS 2
#define BLOCKS 6
#define REQS 12
#define LOG (2u << 20)
#define PLACES 2
#define TABLES (SNIC_SEGMENTS__LOG_AT + SNIC_SEGMENTS__LOG_HEAD + LOG)
#define BYTES (TABLES + PLACES * (2u << 20) + PLACES * 10 * 4096u)

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rig;
struct request {
    struct snic_segments_req q;
    struct snic_segments_block b;
    unsigned char data[4096];
    struct rig *g;
    uint32_t seg;
    uint32_t which;
    uint32_t use;
    uint64_t low;
    int busy;
};

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_segments *s;
    struct snic_segments_opts opts;
    unsigned char *mem;
    int opened;
    int result;
    int failed;
    int forged;  /* the device was overwritten */
    int control; /* one is under way           */
    struct request req[REQS];
    uint32_t use[SEGS];
    uint64_t answered[SEGS][BLOCKS];
};

static struct rig rig;

/* A version's block: the segment's incarnation and the version, all over. */
static void content(unsigned char *out, uint32_t use, uint64_t wver)
{
    memset(out, (int)(wver * 29 + use), 4096);
    snic_put_le64(out, wver);
    snic_put_le32(out + 2048, use);
}

static void on_opened(void *ctx, int result, const struct snic_segments_report *r)
{
    struct rig *g = ctx;
    REQUIRE(!g->opened);
    REQUIRE(g->forged || r->damaged == 0);
    g->opened = 1;
    g->result = result;
}

static void on_failed(void *ctx, uint32_t disk, int error)
{
    struct rig *g = ctx;
    REQUIRE(disk == 0 && error < 0 && !g->failed);
    g->failed = 1;
}

static void on_done(struct snic_segments_req *q)
{
    struct request *r = SNIC_CONTAINER(q, struct request, q);
    struct rig *g = r->g;
    uint64_t *answered = &g->answered[r->seg][r->which];
    REQUIRE(r->busy);
    r->busy = 0;
    if (q->op > SNIC_SEGMENTS_WRITE)
        g->control = 0;
    if (q->result != 0 || g->forged || r->use != g->use[r->seg])
        return;
    if (q->op == SNIC_SEGMENTS_WRITE && r->b.status <= SNIC_SEGMENTS_SUPERSEDED)
        *answered = snic_max_u64(*answered, r->b.wver);
    if (q->op != SNIC_SEGMENTS_READ)
        return;
    unsigned char want[4096] = {0};
    if (r->b.wver != 0 && r->b.kind == SNIC_SEGMENTS_DATA)
        content(want, r->use, r->b.wver);
    REQUIRE(r->b.wver >= r->low && memcmp(want, r->data, 4096) == 0);
    *answered = snic_max_u64(*answered, r->b.wver);
}

static void submit(struct rig *g, uint16_t op, const uint8_t *b)
{
    for (uint32_t i = 0; i < REQS; i++) {
        struct request *r = &g->req[i];
        if (r->busy)
            continue;
        memset(&r->q, 0, sizeof(r->q));
        memset(&r->b, 0, sizeof(r->b));
        r->g = g;
        r->seg = b[1] % SEGS;
        r->which = b[2] % BLOCKS;
        r->use = g->use[r->seg];
        r->low = g->answered[r->seg][r->which];
        r->q.done = on_done;
        r->q.op = op;
        r->q.flags = SNIC_SEGMENTS_ANY_GEN;
        r->q.seg_id = r->seg;
        r->q.gen = b[3] % 4;
        r->q.min_wver = b[3] % 32;
        r->q.disk = SNIC_SEGMENTS_ANY_DISK;
        r->q.blocks = &r->b;
        r->q.count = 1;
        r->b.block = (uint16_t)(r->which * 100);
        r->b.data = r->data;
        if (op == SNIC_SEGMENTS_WRITE) {
            r->b.wver = b[3] + 1u;
            r->b.kind = b[3] % 7 == 0 ? SNIC_SEGMENTS_ZERO : SNIC_SEGMENTS_DATA;
            content(r->data, r->use, r->b.wver);
            r->b.data_crc = snic_crc32c(0, r->data, 4096);
            if (r->b.kind != SNIC_SEGMENTS_DATA) {
                r->b.data = NULL;
                r->b.data_crc = 0;
            }
        }
        r->busy = 1;
        if (snic_segments_submit(g->s, &r->q) != 0)
            r->busy = 0;
        else if (op > SNIC_SEGMENTS_WRITE)
            g->control = 1;
        return;
    }
}

static void run(struct rig *g, uint32_t steps)
{
    while (steps-- > 0 && snic_world_step(g->world) > 0)
        REQUIRE(snic_segments_check(g->s) == 0);
}

static void shut(struct rig *g)
{
    REQUIRE(snic_segments_close(g->s) == g->mem);
    snic_io_close(g->io);
    for (uint32_t i = 0; i < REQS; i++)
        REQUIRE(!g->req[i].busy);
}

static void start(struct rig *g, uint32_t flags)
{
    static unsigned char mem[12 << 20] __attribute__((aligned(4096)));
    struct snic_segments_events e = {.opened = on_opened, .failed = on_failed};
    g->opened = 0;
    g->failed = 0;
    g->opts.flags = flags;
    g->mem = mem;
    REQUIRE(snic_io_mem_open(&g->io, g->loop, g->disk) == 0);
    REQUIRE(snic_segments_memsize(&g->io, 1, &g->opts) != 0);
    REQUIRE(snic_segments_open(&g->s, mem, sizeof(mem), &g->io, 1, &g->opts, &e, g) == 0);
    while (!g->opened)
        REQUIRE(snic_world_step(g->world) > 0);
    REQUIRE(snic_segments_check(g->s) == 0);
}

/* CREATE begins a new incarnation; what the one before answered does not count any more. */
static void control(struct rig *g, const uint8_t *b)
{
    static const uint16_t ops[] = {SNIC_SEGMENTS_SET_GEN, SNIC_SEGMENTS_FENCE, SNIC_SEGMENTS_DELETE,
                                   SNIC_SEGMENTS_CREATE};
    struct snic_segments_stat st;
    uint32_t seg = b[1] % SEGS;
    uint16_t op = ops[b[0] / 16 % 4];
    int there = snic_segments_find(g->s, seg, &st) == 0;
    if (g->control || there == (op == SNIC_SEGMENTS_CREATE))
        return;
    if (op == SNIC_SEGMENTS_CREATE) {
        g->use[seg]++;
        memset(g->answered[seg], 0, sizeof(g->answered[seg]));
    }
    submit(g, op, b);
    while (g->control && snic_world_step(g->world) > 0)
        REQUIRE(snic_segments_check(g->s) == 0);
}

static void step(struct rig *g, const uint8_t *b)
{
    switch (b[0] % 8) {
    case 0:
    case 1:
        submit(g, SNIC_SEGMENTS_WRITE, b);
        break;
    case 2:
        submit(g, SNIC_SEGMENTS_READ, b);
        break;
    case 3:
        run(g, b[1] % 32);
        break;
    case 4:
        snic_segments_checkpoint(g->s);
        break;
    case 5:
        control(g, b);
        break;
    case 6:
        if (b[1] % 4 == 0) {
            snic_disk_power_cut(g->disk, 1u + b[2]);
            for (uint32_t i = 0; i < REQS; i++)
                g->req[i].low = 0;
            shut(g);
            start(g, g->forged ? SNIC_SEGMENTS_SALVAGE : 0);
            REQUIRE(g->forged || g->result == 0);
        }
        break;
    default:
        run(g, 1);
        break;
    }
}

/* ---- Devices with arbitrary contents ---- */

static uint32_t at_of(const uint8_t *b)
{
    static const uint32_t first[] = {0, SNIC_SEGMENTS__LOG_AT, TABLES, TABLES + PLACES * 5 * 4096u};
    static const uint32_t pages[] = {4, 24, PLACES * 5, PLACES * 5};
    return first[b[0] / 16 % 4] + b[1] % pages[b[0] / 16 % 4] * 4096;
}

/* Bytes of the input, four or more, go into a page, which gets a good checksum if it is a table. */
static void forge(struct rig *g, const uint8_t *b, const uint8_t *bytes, size_t length)
{
    unsigned char *disk = snic_disk_bytes(g->disk);
    unsigned char *page = disk + at_of(b);
    struct segments_geo geo;
    for (size_t i = 0; i < length; i++)
        page[((size_t)b[2] * 16 + i) % 4096] = bytes[i];
    if ((b[0] & 8) == 0)
        return;
    memset(&geo, 0, sizeof(geo));
    geo.uuid[0] = g->opts.uuid[0];
    geo.places = PLACES;
    geo.log_bytes = LOG;
    geo.wal_segment = 256u << 10;
    segments_geo_derive(&geo);
    uint32_t seed = page - disk < 8192 ? 0 : geo.seed;
    snic_put_le32(page + 8, snic_crc32c(seed, page + 12, 4096 - 12));
}

static void template_make(struct rig *g)
{
    const uint8_t create[4] = {0x35, 0, 0, 0};
    uint8_t write[4] = {0, 0, 0, 5};
    start(g, SNIC_SEGMENTS_FORMAT);
    REQUIRE(g->result == 0);
    g->control = 0;
    control(g, create);
    for (uint32_t i = 0; i < 8; i++) {
        write[2] = (uint8_t)i;
        write[3] = (uint8_t)(5 + i);
        submit(g, SNIC_SEGMENTS_WRITE, write);
        run(g, 200);
        if (i == 3) {
            snic_segments_checkpoint(g->s);
            run(g, 2000);
        }
    }
    shut(g);
    snic_disk_sync(g->disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct snic_disk *blank;
    struct rig *g = &rig;
    struct snic_disk_opts o = {.opts_size = sizeof(o), .sector = 512, .size = BYTES};
    if (size == 0)
        return 0;
    memset(g, 0, sizeof(*g));
    g->opts.opts_size = sizeof(g->opts);
    g->opts.log_bytes = LOG;
    g->opts.cache_blocks = 64;
    g->opts.uuid[0] = 77;
    o.delay_max_ns = data[0] / 2 % 4 * 10000u;
    REQUIRE(snic_world_open(&g->world, NULL) == 0 && snic_world_loop(g->world, 0, &g->loop) == 0);
    if (blank == NULL) { /* made once; every run has a copy */
        REQUIRE(snic_disk_open(&g->disk, &o) == 0);
        template_make(g);
        blank = g->disk;
    }
    REQUIRE(snic_disk_clone(blank, &g->disk) == 0);
    g->use[0] = 1;
    g->forged = data[0] % 2;
    data++;
    size--;
    while (g->forged && size >= 4) {
        size_t n = data[3] % 64;
        if (n > size - 4)
            n = size - 4;
        forge(g, data, data + 4, n);
        int last = (data[0] & 4) != 0;
        data += 4 + n;
        size -= 4 + n;
        if (last)
            break;
    }
    start(g, g->forged ? SNIC_SEGMENTS_SALVAGE : 0);
    REQUIRE(g->forged || g->result == 0);
    for (uint32_t n = 0; size >= 4 && n < 300 && g->result == 0; data += 4, size -= 4, n++) {
        step(g, data);
        REQUIRE(g->result != 0 || snic_segments_check(g->s) == 0);
    }
    shut(g);
    snic_disk_close(g->disk);
    snic_loop_close(g->loop);
    snic_world_close(g->world);
    return 0;
}
