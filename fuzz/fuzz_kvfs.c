/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine on a store in memory, driven by a string of steps, eight bytes each: requests of every
 * kind, sensible and not; operations of the store completed in any order, with errors, with
 * unknown outcomes, with records damaged on the way; records of the store overwritten; time;
 * cancels. Each request is answered exactly once, snic_kvfs_check() holds all along, and at
 * the end, when the store does what it should, nothing is left waiting.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/kv.h"
#include "snicstore/kvfs.h"

#define CALLS 24
#define FLIGHT 256
#define BYTES 20000

#define REQUIRE(c)                                                                                 \
    do {                                                                                           \
        if (!(c))                                                                                  \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct call {
    struct snic_fsop req;
    int used;
    struct snic_iov iov;
    unsigned char bytes[BYTES];
};

struct rig {
    struct snic_kvmem *m;
    struct snic_kvfs *k;
    void *mem;
    struct snic_kvfs_now now;
    struct snic_kvfs_io *flight[FLIGHT];
    uint32_t in_flight;
    struct call call[CALLS];
    uint64_t inos[8]; /* the latest made or found */
    uint32_t ino_at;
};

static void *memory;
static struct rig rig;

static const char *const names[] = {"a", "b",  "cc", "user.x", "system.posix_acl_access",
                                    ".", "..", "",   "a/b",    "dir/sub/file"};

static void check(struct rig *g)
{
    REQUIRE(snic_kvfs_check(g->k) == 0);
}

static void done(struct rig *g)
{
    struct snic_fsop *r;
    while ((r = snic_kvfs_poll_done(g->k)) != NULL) {
        struct call *c = SNIC_CONTAINER(r, struct call, req);
        REQUIRE(c->used);
        c->used = 0;
        if (r->result >= 0 && r->attr.ino != 0)
            g->inos[g->ino_at++ % 8] = r->attr.ino;
    }
}

static void collect(struct rig *g)
{
    struct snic_kvfs_io *io;
    while (g->in_flight < FLIGHT && (io = snic_kvfs_poll_io(g->k)) != NULL)
        g->flight[g->in_flight++] = io;
}

static void carry_out(struct rig *g, struct snic_kvop *op, uint8_t how)
{
    static const int errors[] = {SNIC_EIO, SNIC_ETIMEDOUT, SNIC_ENOSPC, SNIC_ECORRUPT};
    int change = op->kind == SNIC_KVOP_COMMIT;
    op->failed_guard = UINT32_MAX;
    if (how < 200) {
        snic_kvmem_apply(g->m, op);
    } else if (how < 215) {
        op->result = errors[how % 4];
    } else if (how < 225 && change) {
        op->result = SNIC_ECANCELED;
        op->failed_guard = 0;
    } else if (how < 240 && change) {
        if (how % 2)
            snic_kvmem_apply(g->m, op);
        op->result = SNIC_EUNKNOWN;
        op->failed_guard = UINT32_MAX;
    } else {
        snic_kvmem_apply(g->m, op);
        if (op->kind == SNIC_KVOP_GET && op->gets[0].result == 0 && op->gets[0].size > 0)
            ((unsigned char *)op->gets[0].value)[how % op->gets[0].size] ^= 4;
    }
}

static void complete(struct rig *g, uint8_t which, uint8_t how)
{
    struct snic_kvfs_io *io;
    uint32_t at;
    collect(g);
    if (g->in_flight == 0)
        return;
    at = which % g->in_flight;
    io = g->flight[at];
    g->flight[at] = g->flight[--g->in_flight];
    carry_out(g, &io->op, how);
    g->now.mono_ns++;
    snic_kvfs_complete(g->k, io, g->now);
}

static void submit(struct rig *g, const uint8_t *d)
{
    static const uint64_t odd[] = {SNIC_FSOP_ROOT, 0, 7777, SNIC_FSOP_ROOT};
    struct call *c = NULL;
    struct snic_fsop *r;
    for (uint32_t i = 0; i < CALLS; i++)
        if (!g->call[i].used)
            c = &g->call[i];
    if (c == NULL)
        return;
    r = &c->req;
    memset(r, 0, sizeof(*r));
    r->kind = 1 + d[1] % (SNIC_FSOP_MKFS - 1);
    r->flags = (uint32_t)(d[2] & 0x3f) | ((uint32_t)(d[2] >> 6) << 8) | (3U << 10) |
               ((uint32_t)(d[3] & 3) << 16);
    r->ino = d[4] < 32 ? odd[d[4] % 4] : g->inos[d[4] % 8];
    r->ino2 = d[5] < 64 ? odd[d[5] % 4] : g->inos[d[5] % 8];
    r->name = names[d[6] % SNIC_COUNTOF(names)];
    r->name_size = (uint32_t)strlen(r->name);
    r->name2 = names[d[7] % SNIC_COUNTOF(names)];
    r->name2_size = (uint32_t)strlen(r->name2);
    r->handle = r->kind == SNIC_FSOP_RELEASE ? (1ULL << 63) | (r->ino << 2) | 3 : 0;
    r->offset = (uint64_t)(d[7] & 15) * 4001;
    r->offset2 = (uint64_t)(d[6] & 15) * 2000;
    r->length = (uint64_t)(d[3] >> 2) * 300 + 1;
    r->mode = r->kind == SNIC_FSOP_MKNOD ? 0100600U + d[3] : 0700U + d[3];
    r->set_mask = d[6] & 0xff;
    r->attr.size = r->length;
    r->attr.mode = d[7];
    c->iov = (struct snic_iov){.base = c->bytes, .size = (size_t)r->length};
    r->iov = &c->iov;
    r->iov_count = d[5] & 1;
    r->lock = (struct snic_fsop_lock){
        .owner = d[6] % 3U, .start = d[7] % 5U, .end = d[7] % 5U + 2U, .type = d[3] % 3U};
    c->used = 1;
    if (snic_kvfs_submit(g->k, r, g->now) != 0)
        c->used = 0;
}

/* A record of the store is overwritten: by garbage, or by itself with a byte changed. */
static void damage(struct rig *g, const uint8_t *d)
{
    unsigned char value[600];
    struct snic_kvop_get get = {.value = value, .room = sizeof(value)};
    struct snic_kvop read = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    struct snic_kvop_change c = {.kind = SNIC_KVOP_PUT, .value = value};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    uint64_t ino = g->inos[d[1] % 8];
    snic_kvfs_key(&get.key, ino == SNIC_FSOP_ROOT ? 0 : ino,
                  (enum snic_kvfs_record) "ADTK"[d[2] % 4]);
    snic_kvmem_apply(g->m, &read);
    if (get.result != 0 || get.size > sizeof(value))
        return;
    value[d[3] % get.size] ^= d[4];
    if (d[5] & 1)
        snic_kvfs_seal(&get.key, value, get.size, 0);
    c.key = get.key;
    c.size = get.size;
    snic_kvmem_apply(g->m, &op);
}

static void pass(struct rig *g, uint64_t ns)
{
    g->now.mono_ns += ns;
    g->now.wall_ns += (int64_t)ns;
    snic_kvfs_advance(g->k, g->now);
}

static void step(struct rig *g, const uint8_t *d)
{
    if (d[0] < 100)
        submit(g, d);
    else if (d[0] < 230)
        complete(g, d[1], d[2]);
    else if (d[0] < 240)
        pass(g, (uint64_t)d[1] * 10000000);
    else if (d[0] < 247)
        damage(g, d);
    else if (g->call[d[1] % CALLS].used)
        snic_kvfs_cancel(g->k, &g->call[d[1] % CALLS].req, g->now);
    done(g);
}

/* Everything ends, once the store answers and what waits for locks is cancelled. */
static void drain(struct rig *g)
{
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t used = 0;
        collect(g);
        if (g->in_flight > 0) {
            complete(g, 0, 0);
            done(g);
            continue;
        }
        for (uint32_t n = 0; n < CALLS; n++) {
            used += (uint32_t)g->call[n].used;
            if (g->call[n].used)
                snic_kvfs_cancel(g->k, &g->call[n].req, g->now);
        }
        done(g);
        if (used == 0)
            return;
        pass(g, 20000000);
    }
    abort(); /* something waits for ever */
}

static void simple(struct rig *g, enum snic_fsop_kind kind)
{
    struct call *c = &g->call[0];
    memset(&c->req, 0, sizeof(c->req));
    c->req.kind = kind;
    c->used = 1;
    REQUIRE(snic_kvfs_submit(g->k, &c->req, g->now) == 0);
    drain(g);
}

static void begin(struct rig *g)
{
    struct snic_kvmem_opts mo = {.opts_size = sizeof(mo), .seed = 1};
    struct snic_kvfs_opts o = {.opts_size = sizeof(o),
                               .requests_max = CALLS,
                               .inodes_max = 32,
                               .locks_max = 32,
                               .cache_bytes = 4096,
                               .stripe_bytes = 4U << 20,
                               .session_id = 1,
                               .caps = SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_BLOCK |
                                       SNIC_KV_CAP_CHECKSUM | SNIC_KV_CAP_ALLOC |
                                       SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED};
    size_t size = snic_kvfs_memsize(&o);
    REQUIRE(snic_kvmem_open(&g->m, &mo) == 0);
    if (memory == NULL) /* once: most of a short run would be this */
        memory = aligned_alloc(SNIC_CACHELINE, (size_t)snic_align_up(size, SNIC_CACHELINE));
    g->mem = memory;
    REQUIRE(g->mem != NULL);
    REQUIRE(snic_kvfs_init(&g->k, g->mem, size, &o) == 0);
    g->now = (struct snic_kvfs_now){.mono_ns = 1, .wall_ns = 1};
    snic_kvfs_set_sole(g->k, 1);
    for (int i = 0; i < 8; i++)
        g->inos[i] = SNIC_FSOP_ROOT;
    simple(g, SNIC_FSOP_MKFS);
    simple(g, SNIC_FSOP_MOUNT);
    REQUIRE(g->call[0].req.result == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig *g = &rig;
    if (size > 8000)
        return 0;
    for (uint32_t i = 0; i < CALLS; i++)
        g->call[i].used = 0;
    g->in_flight = 0;
    g->ino_at = 0;
    begin(g);
    for (size_t at = 0; at + 8 <= size; at += 8) {
        step(g, data + at);
        if (at % 64 == 0)
            check(g);
    }
    drain(g);
    check(g);
    simple(g, SNIC_FSOP_UNMOUNT);
    for (uint32_t i = 0; i < 100000; i++) { /* what the engine does by itself ends, too */
        collect(g);
        if (g->in_flight == 0)
            break;
        complete(g, 0, 0);
    }
    check(g);
    REQUIRE(snic_kvfs_fini(g->k) == memory);
    snic_kvmem_close(g->m);
    return 0;
}
