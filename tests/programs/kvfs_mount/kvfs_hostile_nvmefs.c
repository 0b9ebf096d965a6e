/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_hostile_nvmefs SOCKET nonsense|garbage|sane N SEED
 *
 * As kvfs_hostile, by nvme-fs:
 *
 * - nonsense: N commands whose contents are random (operations, sizes, handles, names); some are
 *   aborted, some changed where they lie while the other side may be reading them; a queue that
 *   breaks by this, or loses commands, is made anew
 * - garbage: the same while random bytes are written all over the queue's memory
 * - sane: as the mount does: a file is made, written, read and removed
 *
 * Exit code: 0; 1 a sane request got a wrong answer; 2 no file system's process was there.
 */
#include "kvfs_hostile.h"

#include "../../../examples/kvfs_mount/wire.h"

enum { HOSTILE_REQS = 64, HOSTILE_DATA = 65536, HOSTILE_DEPTH = 128 };
#define HOSTILE_WAIT_NS 60000000000ULL
#define HOSTILE_MS 1000000ULL

struct hostile_req {
    struct snic_nvmefs_req r; /* first */
    int out;
    struct snic_iov iov;
    uint32_t groups[300];
    unsigned char data[HOSTILE_DATA];
};

struct hostile {
    struct snic_loop *loop;
    struct snic_nvmefslink_host *host;
    struct snic_nvmefslink_queue *queue;
    struct snic_rng rng;
    int closed; /* for good */
    int broken; /* the queue */
    struct hostile_maps maps;
    struct hostile_req reqs[HOSTILE_REQS];
};

static void hostile_done(void *ctx, struct snic_nvmefslink_queue *q, struct snic_nvmefs_req *r)
{
    (void)ctx;
    (void)q;
    SNIC_CONTAINER(r, struct hostile_req, r)->out = 0;
}

static void hostile_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct hostile *h = ctx;
    snic_nvmefslink_close(q);
    h->queue = NULL;
    h->broken = 1;
    h->closed = reason == SNIC_EPEERDEAD;
}

static int hostile_queue(struct hostile *h)
{
    struct snic_nvmefslink_queue_opts q = {
        .opts_size = sizeof(q), .depth = HOSTILE_DEPTH, .data_bytes = HOSTILE_DATA};
    struct snic_nvmefslink_events e = {.done = hostile_done, .closed = hostile_closed, .ctx = h};
    h->broken = 0;
    return snic_nvmefslink_open(&h->queue, h->host, &q, &e);
}

/* Another host may be there still: its end takes the other side a moment. */
static int hostile_open(struct hostile *h, const char *path)
{
    static const struct snic_dma_events none;
    struct snic_nvmefslink_host_opts o = {.opts_size = sizeof(o)};
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .timeout_ms = 30000, .path = path};
    struct snic_dma *dma;
    size_t size = snic_nvmefslink_host_memsize(&o);
    static void *memory; /* the process' end frees it */
    if (posix_memalign(&memory, SNIC_CACHELINE, size) != 0 ||
        snic_dma_shm_connect(&dma, h->loop, &so, &none) != 0)
        return -1;
    return snic_nvmefslink_host_init(&h->host, memory, size, dma, &o) == 0 && hostile_queue(h) == 0
               ? 0
               : -1;
}

static void hostile_turn(struct hostile *h, uint64_t ns)
{
    if (snic_loop_once(h->loop, ns) < 0)
        exit(2);
}

/* ---- Nonsense ---- */

static void hostile_names(struct hostile *h, struct snic_nvmefs_req *r)
{
    static const char names[] = "abcaabbccaabcb";
    r->op.name = names + snic_rng_below(&h->rng, 8);
    r->op.name2 = names + snic_rng_below(&h->rng, 8);
    r->op.name_size = (uint32_t)snic_rng_below(&h->rng, 4);
    r->op.name2_size = (uint32_t)snic_rng_below(&h->rng, 4);
    if (r->op.kind != SNIC_FSOP_RENAME && r->op.kind != SNIC_FSOP_LINK)
        r->op.name2_size = 0;
}

static void hostile_fill(struct hostile *h, struct hostile_req *q)
{
    struct snic_rng *rng = &h->rng;
    struct snic_nvmefs_req *r = &q->r;
    memset(r, 0, sizeof(*r));
    r->op.kind = (uint8_t)(1 + snic_rng_below(rng, SNIC_FSOP_WIRE_KINDS - 1));
    r->op.flags = snic_rng_below(rng, 2) ? SNIC_FSOP_CHECKED : (uint32_t)hostile_number(rng);
    if (r->op.kind >= SNIC_FSOP_SETLK && r->op.kind <= SNIC_FSOP_FLOCK && snic_rng_below(rng, 2))
        r->op.flags |= SNIC_FSOP_LOCK_WAIT;
    r->distributed = snic_rng_below(rng, 30) == 0;
    hostile_names(h, r);
    r->op.ino = snic_rng_below(rng, 3) == 0 ? hostile_number(rng) : 1;
    r->op.ino2 = snic_rng_below(rng, 3) == 0 ? hostile_number(rng) : 1;
    r->op.handle = hostile_number(rng);
    r->op.offset = hostile_number(rng);
    r->op.offset2 = hostile_number(rng);
    r->op.length = hostile_number(rng);
    /* Not what this machine's disk could give: the tests beside this one need it. */
    if (r->op.kind == SNIC_FSOP_FALLOCATE && r->op.length >> 20 != 0 && r->op.length >> 48 == 0)
        r->op.length <<= 28;
    r->op.rdev = hostile_number(rng);
    r->op.mode = (uint32_t)hostile_number(rng);
    r->op.set_mask = (uint32_t)hostile_number(rng);
    r->op.cred.umask = (uint32_t)hostile_number(rng);
    hostile_bytes(rng, &r->op.lock, sizeof(r->op.lock));
    hostile_bytes(rng, &r->op.attr, sizeof(r->op.attr));
    if (snic_rng_below(rng, 4) == 0) {
        r->op.cred.groups = q->groups;
        r->op.cred.group_count = (uint32_t)snic_rng_below(rng, SNIC_COUNTOF(q->groups));
    }
    if (snic_nvmefs_op_data(r->op.kind) > 0) {
        q->iov.base = q->data;
        q->iov.size = (size_t)snic_rng_below(rng, snic_rng_below(rng, 4) ? 100 : HOSTILE_DATA);
        r->op.iov = &q->iov;
        r->op.iov_count = 1;
        if (r->op.kind == SNIC_FSOP_WRITE)
            r->op.offset &= 0xffffff;
    }
}

/* The queue's memory; what its engine keeps for itself has the same kind of file, and is small. */
static void hostile_memory(struct hostile *h)
{
    memset(&h->maps, 0, sizeof(h->maps));
    hostile_look(&h->maps);
    for (uint32_t i = 0; i < h->maps.count;) {
        if (h->maps.sizes[i] >= (size_t)HOSTILE_DEPTH * HOSTILE_DATA) {
            i++;
            continue;
        }
        h->maps.count--;
        h->maps.at[i] = h->maps.at[h->maps.count];
        h->maps.sizes[i] = h->maps.sizes[h->maps.count];
    }
}

/* Entries, headers and lists change; completions do not, or our own end would break at once. */
static void hostile_change(struct hostile *h)
{
    size_t entries = (HOSTILE_DEPTH + 1) * SNIC_NVMEFS_SQE_BYTES;
    size_t pages = SNIC_NVMEFS_PAGE + (size_t)snic_align_up(entries, SNIC_NVMEFS_PAGE) +
                   SNIC_NVMEFS_PAGE; /* nvmefs.h has the memory of a queue */
    size_t at = SNIC_NVMEFS_PAGE + snic_rng_below(&h->rng, entries - 8);
    if (snic_rng_below(&h->rng, 2) == 0)
        at = pages + snic_rng_below(&h->rng, HOSTILE_DEPTH * SNIC_NVMEFS_PAGE - 8);
    hostile_bytes(&h->rng, h->maps.at[0] + at, 1 + snic_rng_below(&h->rng, 8));
}

/*
 * Until the request is home. A lock may wait for one of ours, a changed command may be lost; what
 * the store is at ends in its own time, a reset or not.
 */
static void hostile_home(struct hostile *h, struct hostile_req *q)
{
    uint64_t start = snic_loop_clock(h->loop);
    uint64_t waited = 0;
    int attempts = 0;
    while (q->out && h->queue != NULL && waited < HOSTILE_WAIT_NS) {
        if (attempts == 0 && waited > 5 * HOSTILE_MS) {
            attempts++;
            (void)snic_nvmefslink_abort(h->queue, &q->r);
        } else if (waited > (attempts == 1 ? 50 : 1000) * HOSTILE_MS && attempts < 3) {
            attempts++;
            (void)snic_nvmefslink_reset(h->queue);
        }
        hostile_turn(h, HOSTILE_MS);
        waited = snic_loop_clock(h->loop) - start;
    }
}

/* 0; -1 no more */
static int hostile_send(struct hostile *h, int garbage)
{
    struct hostile_req *q = &h->reqs[snic_rng_below(&h->rng, HOSTILE_REQS)];
    if (h->queue != NULL)
        hostile_home(h, q);
    if (h->broken && !h->closed && hostile_queue(h) == 0)
        hostile_memory(h);
    if (q->out || h->queue == NULL)
        return -1;
    hostile_fill(h, q);
    q->out = snic_nvmefslink_submit(h->queue, &q->r) == 0;
    if (h->maps.count > 0 && garbage)
        hostile_scribble(&h->maps, &h->rng);
    else if (h->maps.count > 0 && snic_rng_below(&h->rng, 20) == 0)
        hostile_change(h);
    if (q->out && snic_rng_below(&h->rng, 16) == 0)
        (void)snic_nvmefslink_abort(h->queue, &q->r);
    if (snic_rng_below(&h->rng, 500) == 0)
        (void)snic_nvmefslink_reset(h->queue);
    return 0;
}

/* ---- Sane ---- */

static int64_t hostile_call(struct hostile *h, struct snic_nvmefs_req *r)
{
    uint64_t until = snic_loop_clock(h->loop) + HOSTILE_WAIT_NS;
    struct hostile_req *q = &h->reqs[0];
    q->r = *r;
    q->r.op.flags |= SNIC_FSOP_CHECKED;
    q->out = snic_nvmefslink_submit(h->queue, &q->r) == 0;
    while (q->out && !h->closed && snic_loop_clock(h->loop) < until)
        hostile_turn(h, 10000000);
    if (!q->out && q->r.status != SNIC_NVMEFS_STATUS_DELETED)
        return q->r.op.result;
    printf("%s: %s\n", snic_fsop_name(r->op.kind), h->closed ? "the queue is over" : "no answer");
    exit(h->closed ? 2 : 1);
}

/* The expected request; else the program ends and prints what it received. */
static void hostile_get(struct hostile *h, struct snic_nvmefs_req *r, int64_t result)
{
    int64_t got = hostile_call(h, r);
    if (got == result)
        return;
    printf("%s: %lld instead of %lld, status 0x%x\n", snic_fsop_name(r->op.kind), (long long)got,
           (long long)result, h->reqs[0].r.status);
    exit(1);
}

static int hostile_sane(struct hostile *h)
{
    static unsigned char bytes[10000];
    static unsigned char back[10000];
    struct snic_nvmefs_req make = {.op.kind = SNIC_FSOP_CREATE,
                                   .op.flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE,
                                   .op.ino = 1,
                                   .op.mode = 0100644,
                                   .op.name = "sane",
                                   .op.name_size = 4};
    hostile_get(h, &make, 0);
    struct snic_nvmefs_req io = {.op.kind = SNIC_FSOP_WRITE,
                                 .op.ino = h->reqs[0].r.op.attr.ino,
                                 .op.handle = h->reqs[0].r.op.handle,
                                 .op.iov = &(struct snic_iov){bytes, sizeof(bytes)},
                                 .op.iov_count = 1};
    hostile_bytes(&h->rng, bytes, sizeof(bytes));
    hostile_get(h, &io, sizeof(bytes));
    io.op.kind = SNIC_FSOP_READ;
    io.op.iov->base = back;
    hostile_get(h, &io, sizeof(bytes));
    if (memcmp(back, bytes, sizeof(bytes)) != 0) {
        printf("other bytes are read than were written\n");
        return 1;
    }
    struct snic_nvmefs_req gone = {
        .op.kind = SNIC_FSOP_UNLINK, .op.ino = 1, .op.name = "sane", .op.name_size = 4};
    hostile_get(h, &gone, 0);
    return 0;
}

int main(int argc, char **argv)
{
    static struct hostile h;
    struct snic_loop_uring_opts lo = {.opts_size = sizeof(lo)};
    if (argc != 5) {
        fprintf(stderr, "kvfs_hostile_nvmefs SOCKET nonsense|garbage|sane N SEED\n");
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
    hostile_memory(&h);
    if (h.maps.count == 0) {
        printf("nothing is shared\n");
        return 1;
    }
    for (unsigned long i = 0; i < n && !h.closed; i++) {
        if (hostile_send(&h, garbage) != 0) {
            printf("after %lu commands the other side takes no more\n", i);
            return garbage || h.closed ? 0 : 1;
        }
        if (i % 16 == 0)
            hostile_turn(&h, 0);
    }
    for (int i = 0; i < 200 && !h.closed; i++)
        hostile_turn(&h, 1000000);
    _Exit(0); /* no goodbye */
}
