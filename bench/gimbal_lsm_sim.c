/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The stores and their backends. What is assumed of a store (RocksDB of the paper's setting, its
 * sizes scaled down so that every phase recurs many times in a second):
 *
 *   threads    each in a closed loop: LSM_CPU_NS of computing, then the operation's I/O; as many as
 *              bring the stores nearest to figure 11 (A, B, D full near 20 of them, F near 16)
 *   point read nothing if the key is cached (the LSM_CACHED hottest; with YCSB D the LSM_RECENT
 *              newest, which are in the memtables), else one block of 4 KiB: bloom filters spare
 *              the other levels, but for LSM_BLOOM_FALSE of 1000 reads that read one more block
 *   scan       (E) one read of 1 to 100 records
 *   update     1 KiB into the log; one log write is under way at a time and takes with it all
 *              that wait, in blocks of 4 KiB; then into the memtable
 *   flush      a full memtable becomes a micro blob of 256 KiB: 2 writes of 128 KiB
 *   compaction rewrites LSM_REWRITES times what was flushed: reads a blob, writes a blob
 *   stall      updates wait while a memtable is full and another is flushed, or LSM_BACKLOG
 *              memtables' compaction is due
 *
 * Every blob has a primary and a shadow on different backends, a write is done when both copies
 * are, a read needs one. Each instance is a tenant of each backend and holds back locally what
 * it may not send there yet. Keys are zipfian (0.99) over 10 M, scrambled.
 */
#include "gimbal_lsm.h"

#include "snicstore/ssd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LSM_THREADS 16
#define LSM_CPU_NS 60000u
#define LSM_NETWORK_NS 6000u
#define LSM_KEYS 10000000u
#define LSM_THETA 0.99
#define LSM_CACHED 2048u /* keys: a block cache of 8 MiB */
#define LSM_RECENT 65536u
#define LSM_BLOOM_FALSE 10u
#define LSM_BLOB 262144u
#define LSM_IO 131072u
#define LSM_BLOCK 4096u
#define LSM_RECORD 1024u
#define LSM_REWRITES 4u
#define LSM_BACKLOG 4u
#define LSM_UNITS 2u /* blobs a flush or a compaction has under way */
#define LSM_HIST_US 250000u
#define LSM_RATE_START 1000000000u /* not the search for the rate is measured, but what follows */
#define LSM_SPAN (16ull << 30)     /* of an instance on a backend: keys, then new blobs */

enum lsm_kind { LSM_POINT, LSM_LOG, LSM_FLUSH, LSM_MERGE_READ, LSM_MERGE_WRITE };
#define LSM_CLASSES 4u

/* Of each kind: its line at the client, the first goes first, and its tag. */
static const uint8_t lsm_class[] = {0, 1, 2, 3, 3};
static const uint8_t lsm_tag[] = {6, 4, 2, 0, 0};

struct lsm_instance;
struct lsm_thread;

/* So many I/Os, and then something happens. */
struct lsm_task {
    struct lsm_instance *of;
    struct lsm_thread *thread; /* LSM_POINT */
    uint32_t kind;
    uint32_t left;
    int busy;
};

struct lsm_io {
    struct sched_io s;
    struct snic_ssd_cmd cmd;
    struct lsm_io *next; /* free, held locally, or on the network */
    struct lsm_task *task;
    uint32_t backend;
    uint64_t at_ns;
};

struct lsm_fifo {
    struct lsm_io *first;
    struct lsm_io *last;
};

struct lsm_thread {
    struct lsm_task task;
    struct lsm_thread *next; /* computing, waiting for the log, or stalled */
    uint64_t at_ns;          /* when it is through computing */
    uint64_t begun_ns;
    uint32_t updates; /* the operation writes, after its read if it has one */
    uint32_t reads;   /* blocks still to read, one after the other */
    uint32_t length;
};

struct lsm_line {
    struct lsm_thread *first;
    struct lsm_thread *last;
};

struct lsm_instance {
    uint32_t number;
    struct lsm_thread threads[LSM_THREADS];
    struct lsm_line joining; /* wait for the next log write */
    struct lsm_line logged;  /* wait for the one under way */
    struct lsm_line stalled;
    struct lsm_task log;
    struct lsm_task flush;
    struct lsm_task merges[LSM_UNITS];
    uint64_t memtable; /* bytes */
    uint64_t due;      /* bytes to rewrite */
    uint64_t inserted; /* keys */
    uint64_t written;  /* new bytes: where the next blob lies */
    uint32_t log_at;   /* bytes of the log's blob used */
    uint32_t log_on[2];
    uint64_t ops;
    struct lsm_fifo held[LSM_BACKENDS_MAX][LSM_CLASSES];
    uint32_t inflight[LSM_BACKENDS_MAX];
    uint32_t waiting[LSM_BACKENDS_MAX]; /* in held */
    uint32_t credit[LSM_BACKENDS_MAX];
};

struct lsm_backend {
    struct sched *sched;
    struct snic_ssd *ssd;
    void *mem;
    uint64_t next_ns; /* when it has something to do */
};

struct lsm {
    const struct lsm_spec *spec;
    const struct sched_ops *ops;
    struct lsm_backend backends[LSM_BACKENDS_MAX];
    struct lsm_instance instances[LSM_INSTANCES_MAX];
    struct lsm_fifo arrivals;
    struct lsm_fifo answers;
    struct lsm_line computing;
    struct lsm_io *free;
    struct snic_rng rng;
    double zeta;
    double cached; /* share of the reads */
    uint64_t now;
    uint64_t end;
    uint64_t outside;
    uint64_t bytes[2];
    uint64_t reads;
    uint64_t read_sum_ns;
    uint32_t hist[LSM_HIST_US];
};

static void lsm_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gimbal_lsm: %s\n", what);
        exit(1);
    }
}

static int lsm_measuring(const struct lsm *m)
{
    return m->now >= m->spec->warm_ns && m->now < m->end;
}

/* ---- Queues ---- */

static void lsm_fifo_push(struct lsm_fifo *f, struct lsm_io *io)
{
    io->next = NULL;
    if (f->first == NULL)
        f->first = io;
    else
        f->last->next = io;
    f->last = io;
}

static struct lsm_io *lsm_fifo_pop(struct lsm_fifo *f, uint64_t now)
{
    struct lsm_io *io = f->first;
    if (io == NULL || io->at_ns > now)
        return NULL;
    f->first = io->next;
    return io;
}

static void lsm_line_push(struct lsm_line *l, struct lsm_thread *t)
{
    t->next = NULL;
    if (l->first == NULL)
        l->first = t;
    else
        l->last->next = t;
    l->last = t;
}

static struct lsm_thread *lsm_line_pop(struct lsm_line *l)
{
    struct lsm_thread *t = l->first;
    if (t != NULL)
        l->first = t->next;
    return t;
}

/* ---- Clients of the backends ---- */

static int lsm_may_send(struct lsm *m, const struct lsm_instance *in, uint32_t b)
{
    if ((m->spec->flags & LSM_CREDITS) == 0 || m->ops->client_may_send == NULL)
        return 1;
    return m->ops->client_may_send(m->backends[b].sched, in->number, in->inflight[b], m->now);
}

static void lsm_client_pump(struct lsm *m, struct lsm_instance *in, uint32_t b)
{
    while (in->waiting[b] > 0 && lsm_may_send(m, in, b)) {
        uint32_t c = 0;
        while (in->held[b][c].first == NULL)
            c++;
        struct lsm_io *io = lsm_fifo_pop(&in->held[b][c], UINT64_MAX);
        in->waiting[b]--;
        in->inflight[b]++;
        io->s.client_sent_ns = m->now;
        io->at_ns = m->now + LSM_NETWORK_NS;
        lsm_fifo_push(&m->arrivals, io);
    }
}

static void lsm_issue(struct lsm *m, struct lsm_task *task, uint32_t b, uint8_t op, uint64_t offset,
                      uint32_t length)
{
    struct lsm_instance *in = task->of;
    struct lsm_io *io = m->free;
    if (io != NULL)
        m->free = io->next;
    else
        io = calloc(1, sizeof(*io));
    lsm_must(io != NULL, "memory");
    io->task = task;
    io->backend = b;
    io->at_ns = 0;
    io->s.g.tenant = in->number;
    io->s.g.size = length;
    io->s.g.op = op;
    io->s.g.priority = 0;
    uint32_t class = 0;
    if ((m->spec->flags & LSM_TAGS) != 0) {
        io->s.g.priority = lsm_tag[task->kind];
        class = lsm_class[task->kind];
    }
    io->cmd.op = op == SNIC_GIMBAL_READ ? SNIC_SSD_READ : SNIC_SSD_WRITE;
    io->cmd.queue = in->number;
    io->cmd.length = length;
    io->cmd.offset = in->number * LSM_SPAN + offset;
    task->left++;
    m->outside++;
    in->waiting[b]++;
    lsm_fifo_push(&in->held[b][class], io);
    lsm_client_pump(m, in, b);
}

/* What a backend can still take from this client. */
static int64_t lsm_room(const struct lsm_instance *in, uint32_t b)
{
    return (int64_t)in->credit[b] - in->inflight[b] - in->waiting[b];
}

/* Primary and shadow of something new. */
static void lsm_allocate(struct lsm *m, struct lsm_instance *in, uint32_t on[2])
{
    uint32_t first = (uint32_t)snic_rng_below(&m->rng, m->spec->backends);
    uint32_t second = (uint32_t)snic_rng_below(&m->rng, m->spec->backends - 1);
    second += second >= first;
    on[0] = first;
    on[1] = second;
    if ((m->spec->flags & LSM_BALANCE) == 0)
        return;
    for (uint32_t b = 0; b < m->spec->backends; b++) { /* ties stay with chance */
        if (b == on[0] || b == on[1])
            continue;
        uint32_t worse = lsm_room(in, on[0]) < lsm_room(in, on[1]) ? 0 : 1;
        if (lsm_room(in, b) > lsm_room(in, on[worse]))
            on[worse] = b;
    }
}

/* Primary and shadow of old data, by its blob. */
static void lsm_placed(const struct lsm *m, const struct lsm_instance *in, uint64_t blob,
                       uint32_t on[2])
{
    uint32_t n = m->spec->backends;
    uint64_t z = (blob * LSM_INSTANCES_MAX + in->number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z ^= z >> 29;
    z *= UINT64_C(0xbf58476d1ce4e5b9);
    z ^= z >> 32;
    on[0] = (uint32_t)(z % n);
    on[1] = (on[0] + 1 + (uint32_t)(z >> 32) % (n - 1)) % n;
}

static uint32_t lsm_copy(const struct lsm *m, const struct lsm_instance *in, const uint32_t on[2])
{
    if ((m->spec->flags & LSM_BALANCE) != 0 && lsm_room(in, on[1]) > lsm_room(in, on[0]))
        return on[1];
    return on[0];
}

static uint64_t lsm_new_offset(struct lsm_instance *in, uint32_t length)
{
    uint64_t at = (uint64_t)LSM_KEYS * LSM_RECORD + in->written;
    in->written = (in->written + length) % (LSM_SPAN - (uint64_t)LSM_KEYS * LSM_RECORD - LSM_BLOB);
    return at;
}

static void lsm_write_blob(struct lsm *m, struct lsm_task *task)
{
    uint32_t on[2];
    lsm_allocate(m, task->of, on);
    uint64_t at = lsm_new_offset(task->of, LSM_BLOB);
    for (uint32_t done = 0; done < LSM_BLOB; done += LSM_IO)
        for (uint32_t copy = 0; copy < 2; copy++)
            lsm_issue(m, task, on[copy], SNIC_GIMBAL_WRITE, at + done, LSM_IO);
}

/* ---- A store ---- */

/* Compact what is due, LSM_UNITS blobs side by side. */
static void lsm_merge(struct lsm *m, struct lsm_instance *in)
{
    for (uint32_t u = 0; u < LSM_UNITS && in->due > 0 && m->now < m->end; u++) {
        struct lsm_task *task = &in->merges[u];
        if (task->busy)
            continue;
        uint32_t on[2];
        uint64_t blob = snic_rng_below(&m->rng, (uint64_t)LSM_KEYS * LSM_RECORD / LSM_BLOB);
        in->due -= LSM_BLOB;
        task->busy = 1;
        task->kind = LSM_MERGE_READ;
        lsm_placed(m, in, blob, on);
        uint32_t from = lsm_copy(m, in, on);
        for (uint32_t done = 0; done < LSM_BLOB; done += LSM_IO)
            lsm_issue(m, task, from, SNIC_GIMBAL_READ, blob * LSM_BLOB + done, LSM_IO);
    }
}

static void lsm_begin(struct lsm *m, struct lsm_thread *t);

static void lsm_finish(struct lsm *m, struct lsm_instance *in, struct lsm_thread *t)
{
    in->ops += (uint64_t)lsm_measuring(m);
    lsm_begin(m, t);
}

static void lsm_read_done(struct lsm *m, struct lsm_thread *t)
{
    uint64_t ns = m->now - t->begun_ns;
    if (!lsm_measuring(m))
        return;
    m->reads++;
    m->read_sum_ns += ns;
    m->hist[snic_min_u64(ns / 1000, LSM_HIST_US - 1)]++;
}

static void lsm_log(struct lsm *m, struct lsm_instance *in)
{
    uint32_t bytes = 0;
    if (in->log.busy || in->joining.first == NULL)
        return;
    for (struct lsm_thread *t; (t = lsm_line_pop(&in->joining)) != NULL; bytes += LSM_RECORD)
        lsm_line_push(&in->logged, t);
    bytes = (uint32_t)snic_align_up(bytes, LSM_BLOCK);
    if (in->log_at + bytes > LSM_BLOB || in->log_on[0] == in->log_on[1]) {
        lsm_allocate(m, in, in->log_on);
        in->log_at = 0;
    }
    in->log_at += bytes;
    in->log.busy = 1;
    uint64_t at = lsm_new_offset(in, bytes);
    for (uint32_t copy = 0; copy < 2; copy++)
        lsm_issue(m, &in->log, in->log_on[copy], SNIC_GIMBAL_WRITE, at, bytes);
}

/* A full memtable is flushed if no other is; updates wait while it cannot be. */
static int lsm_room_in_memtable(struct lsm *m, struct lsm_instance *in)
{
    if (in->memtable < LSM_BLOB)
        return 1;
    if (in->flush.busy || in->due >= (uint64_t)LSM_BACKLOG * LSM_REWRITES * LSM_BLOB)
        return 0;
    in->memtable -= LSM_BLOB;
    in->flush.busy = 1;
    lsm_write_blob(m, &in->flush);
    return 1;
}

static void lsm_update(struct lsm *m, struct lsm_instance *in, struct lsm_thread *t)
{
    if (!lsm_room_in_memtable(m, in)) {
        lsm_line_push(&in->stalled, t);
        return;
    }
    in->memtable += LSM_RECORD;
    lsm_line_push(&in->joining, t);
    lsm_log(m, in);
}

static void lsm_unstall(struct lsm *m, struct lsm_instance *in)
{
    while (in->stalled.first != NULL && lsm_room_in_memtable(m, in))
        lsm_update(m, in, lsm_line_pop(&in->stalled));
}

/* ---- Operations ---- */

static double lsm_uniform(struct lsm *m)
{
    return ((double)(snic_rng_next(&m->rng) >> 11) + 0.5) / 9007199254740992.0;
}

/* An integral that stands for the sum of the zipfian weights of so many keys. */
static double lsm_zeta(uint32_t keys)
{
    return (pow(keys + 1.0, 1 - LSM_THETA) - 1) / (1 - LSM_THETA);
}

/* The rank of a key that is not cached, the hottest of all being 0: its inverse. */
static uint64_t lsm_rank(struct lsm *m)
{
    double sum = (m->cached + lsm_uniform(m) * (1 - m->cached)) * m->zeta;
    double rank = pow(1 + sum * (1 - LSM_THETA), 1 / (1 - LSM_THETA)) - 1;
    return snic_min_u64((uint64_t)rank, LSM_KEYS - 1);
}

static void lsm_block_read(struct lsm *m, struct lsm_instance *in, struct lsm_thread *t)
{
    uint32_t on[2];
    uint64_t key = (lsm_rank(m) + in->inserted) * UINT64_C(0x9e3779b97f4a7c15);
    if (t->reads == 0) /* the last read finds the key, those before missed it */
        key ^= key >> 31;
    uint64_t block = key % (LSM_KEYS / (LSM_BLOCK / LSM_RECORD));
    lsm_placed(m, in, block * LSM_BLOCK / LSM_BLOB, on);
    uint64_t at = block * LSM_BLOCK;
    if (at % LSM_BLOB + t->length > LSM_BLOB)
        at -= t->length;
    lsm_issue(m, &t->task, lsm_copy(m, in, on), SNIC_GIMBAL_READ, at, t->length);
}

/* Blocks that a point read reads. */
static uint32_t lsm_blocks(struct lsm *m)
{
    if (lsm_uniform(m) < m->cached)
        return 0;
    return 1 + (snic_rng_below(&m->rng, 1000) < LSM_BLOOM_FALSE);
}

static void lsm_begin(struct lsm *m, struct lsm_thread *t)
{
    static const uint8_t writes[] = {
        ['A'] = 50, ['B'] = 5, ['C'] = 0, ['D'] = 5, ['E'] = 5, ['F'] = 50};
    char w = m->spec->workload;
    if (m->now >= m->end)
        return;
    t->begun_ns = m->now;
    t->updates = snic_rng_below(&m->rng, 100) < writes[(unsigned char)w];
    t->reads = t->updates && w != 'F' ? 0 : lsm_blocks(m) + 1; /* 1 more: it is a read */
    t->length = LSM_BLOCK;
    if (w == 'E' && !t->updates) {
        t->reads = 2;
        t->length =
            (uint32_t)snic_align_up((1 + snic_rng_below(&m->rng, 100)) * LSM_RECORD, LSM_BLOCK);
    }
    t->at_ns = m->now + LSM_CPU_NS;
    lsm_line_push(&m->computing, t);
}

/* The operation's next step: a block, the end of its read, the update, the end. */
static void lsm_step(struct lsm *m, struct lsm_instance *in, struct lsm_thread *t)
{
    if (t->reads > 1) {
        t->reads--;
        lsm_block_read(m, in, t);
        return;
    }
    if (t->reads == 1) {
        t->reads = 0;
        lsm_read_done(m, t);
    }
    if (t->updates == 0) {
        lsm_finish(m, in, t);
        return;
    }
    t->updates = 0;
    if (m->spec->workload == 'D' || m->spec->workload == 'E')
        in->inserted++;
    lsm_update(m, in, t);
}

static void lsm_task_done(struct lsm *m, struct lsm_task *task)
{
    struct lsm_instance *in = task->of;
    task->busy = 0;
    switch (task->kind) {
    case LSM_POINT:
        lsm_step(m, in, task->thread);
        break;
    case LSM_LOG: {
        struct lsm_line done = in->logged;
        in->logged.first = NULL;
        lsm_log(m, in); /* the next group commit starts without delay */
        for (struct lsm_thread *t; (t = lsm_line_pop(&done)) != NULL;)
            lsm_finish(m, in, t);
        break;
    }
    case LSM_FLUSH:
        in->due += (uint64_t)LSM_REWRITES * LSM_BLOB;
        lsm_merge(m, in);
        lsm_unstall(m, in);
        break;
    case LSM_MERGE_READ:
        task->busy = 1;
        task->kind = LSM_MERGE_WRITE;
        lsm_write_blob(m, task);
        break;
    default: /* LSM_MERGE_WRITE */
        lsm_merge(m, in);
        lsm_unstall(m, in);
        break;
    }
}

/* ---- Backends and time ---- */

static void lsm_answered(struct lsm *m, struct lsm_io *io)
{
    struct lsm_task *task = io->task;
    struct lsm_instance *in = task->of;
    uint32_t b = io->backend;
    in->inflight[b]--;
    in->credit[b] = io->s.g.credit;
    m->outside--;
    if (lsm_measuring(m))
        m->bytes[io->s.g.op] += io->s.g.size;
    if (m->ops->client_done != NULL)
        m->ops->client_done(m->backends[b].sched, &io->s, m->now);
    io->next = m->free;
    m->free = io;
    if (--task->left == 0)
        lsm_task_done(m, task);
    lsm_client_pump(m, in, b);
}

static void lsm_backend_turn(struct lsm *m, struct lsm_backend *b)
{
    struct snic_ssd_cmd *cmd;
    struct sched_io *s;
    while ((cmd = snic_ssd_poll(b->ssd, m->now)) != NULL) {
        struct lsm_io *io = SNIC_CONTAINER(cmd, struct lsm_io, cmd);
        m->ops->complete(b->sched, &io->s, m->now);
        io->at_ns = m->now + LSM_NETWORK_NS;
        lsm_fifo_push(&m->answers, io);
    }
    while ((s = m->ops->poll(b->sched, m->now)) != NULL) {
        struct lsm_io *io = SNIC_CONTAINER(s, struct lsm_io, s);
        lsm_must(snic_ssd_submit(b->ssd, &io->cmd, m->now) == 0, "the device refuses a command");
    }
    uint64_t turn = m->ops->deadline(b->sched);
    b->next_ns = turn == SNIC_NEVER ? turn : snic_max_u64(turn, m->now + 1);
    b->next_ns = snic_min_u64(b->next_ns, snic_ssd_deadline_ns(b->ssd));
}

static uint64_t lsm_next(struct lsm *m)
{
    uint64_t next = SNIC_NEVER;
    if (m->arrivals.first != NULL)
        next = m->arrivals.first->at_ns;
    if (m->answers.first != NULL)
        next = snic_min_u64(next, m->answers.first->at_ns);
    if (m->computing.first != NULL)
        next = snic_min_u64(next, m->computing.first->at_ns);
    for (uint32_t i = 0; i < m->spec->backends; i++)
        next = snic_min_u64(next, m->backends[i].next_ns);
    return next;
}

static void lsm_turn(struct lsm *m)
{
    struct lsm_io *io;
    while ((io = lsm_fifo_pop(&m->arrivals, m->now)) != NULL) {
        m->ops->submit(m->backends[io->backend].sched, &io->s, m->now);
        m->backends[io->backend].next_ns = m->now;
    }
    for (uint32_t i = 0; i < m->spec->backends; i++) {
        if (m->backends[i].next_ns <= m->now)
            lsm_backend_turn(m, &m->backends[i]);
    }
    while ((io = lsm_fifo_pop(&m->answers, m->now)) != NULL)
        lsm_answered(m, io);
    while (m->computing.first != NULL && m->computing.first->at_ns <= m->now) {
        struct lsm_thread *t = lsm_line_pop(&m->computing);
        lsm_step(m, t->task.of, t);
    }
}

/* ---- Setting up, results ---- */

static void lsm_open_backend(struct lsm *m, uint32_t i)
{
    struct lsm_backend *b = &m->backends[i];
    struct snic_gimbal_opts g = {.opts_size = sizeof(g), .rate_start = LSM_RATE_START};
    struct sched_opts s = {.tenants = m->spec->instances, .gimbal = &g};
    struct snic_ssd_opts o;
    if ((m->spec->flags & LSM_LATEST) != 0)
        g.flags = SNIC_GIMBAL_CREDIT_LATEST;
    snic_ssd_opts_dct983(&o);
    o.condition = SNIC_SSD_FRAGMENTED;
    if (m->spec->ageing) {
        o.condition = SNIC_SSD_AGEING;
        o.age_fill = 1000;
        o.age_overwrites = m->spec->age_before;
    }
    o.seed = m->spec->seed * LSM_BACKENDS_MAX + i;
    o.queues = m->spec->instances;
    o.depth = SNIC_SSD_DEPTH_MAX;
    size_t size = snic_ssd_memsize(&o);
    b->mem = aligned_alloc(SNIC_SSD_ALIGN, snic_align_up(size, SNIC_SSD_ALIGN));
    lsm_must(b->mem != NULL && snic_ssd_init(&b->ssd, b->mem, size, &o) == 0, "no model");
    b->sched = m->ops->open(&s, 0);
    lsm_must(b->sched != NULL, "no scheduler");
}

static void lsm_open_instance(struct lsm *m, uint32_t number)
{
    struct lsm_instance *in = &m->instances[number];
    in->number = number;
    in->log = (struct lsm_task){.of = in, .kind = LSM_LOG};
    in->flush = (struct lsm_task){.of = in, .kind = LSM_FLUSH};
    for (uint32_t u = 0; u < LSM_UNITS; u++)
        in->merges[u].of = in;
    in->memtable = snic_rng_below(&m->rng, LSM_BLOB); /* they do not flush in step */
    for (uint32_t t = 0; t < LSM_THREADS; t++) {
        in->threads[t].task =
            (struct lsm_task){.of = in, .thread = &in->threads[t], .kind = LSM_POINT};
        lsm_begin(m, &in->threads[t]);
    }
}

static double lsm_quantile(const struct lsm *m, double share)
{
    uint64_t need = (uint64_t)((double)m->reads * share);
    uint64_t below = 0;
    for (uint32_t us = 0; us < LSM_HIST_US; us++) {
        below += m->hist[us];
        if (below > need)
            return us + 0.5;
    }
    return 0;
}

static void lsm_results(const struct lsm *m, struct lsm_result *out)
{
    double seconds = (double)m->spec->time_ns / 1e9;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < m->spec->instances; i++) {
        sum += (double)m->instances[i].ops;
        squares += (double)m->instances[i].ops * (double)m->instances[i].ops;
    }
    out->kops = sum / seconds / 1e3;
    out->fairness = squares > 0 ? sum * sum / (m->spec->instances * squares) : 0;
    out->mean_us = m->reads > 0 ? (double)m->read_sum_ns / (double)m->reads / 1e3 : 0;
    out->p99_us = lsm_quantile(m, 0.99);
    out->p999_us = lsm_quantile(m, 0.999);
    out->read_mbps = (double)m->bytes[SNIC_GIMBAL_READ] / seconds / 1e6;
    out->write_mbps = (double)m->bytes[SNIC_GIMBAL_WRITE] / seconds / 1e6;
}

static void lsm_close(struct lsm *m)
{
    while (m->outside > 0) { /* nothing new begins: what is inside comes back */
        uint64_t next = lsm_next(m);
        lsm_must(next != SNIC_NEVER, "an I/O is lost");
        m->now = next;
        lsm_turn(m);
    }
    for (uint32_t i = 0; i < m->spec->backends; i++) {
        m->ops->close(m->backends[i].sched);
        free(snic_ssd_fini(m->backends[i].ssd));
    }
    for (struct lsm_io *io; (io = m->free) != NULL; free(io))
        m->free = io->next;
    free(m);
}

void lsm_run(const struct lsm_spec *spec, struct lsm_result *out)
{
    struct lsm *m = calloc(1, sizeof(*m));
    lsm_must(m != NULL, "memory");
    lsm_must(spec->instances <= LSM_INSTANCES_MAX && spec->backends >= 2 &&
                 spec->backends <= LSM_BACKENDS_MAX,
             "too many instances, or not 2 to 12 backends");
    m->spec = spec;
    m->ops = spec->ops;
    m->end = spec->warm_ns + spec->time_ns;
    m->zeta = lsm_zeta(LSM_KEYS);
    m->cached = lsm_zeta(spec->workload == 'D' ? LSM_RECENT : LSM_CACHED) / m->zeta;
    snic_rng_init(&m->rng, spec->seed);
    for (uint32_t i = 0; i < m->spec->backends; i++)
        lsm_open_backend(m, i);
    for (uint32_t i = 0; i < spec->instances; i++)
        lsm_open_instance(m, i);
    while (m->now < m->end) {
        m->now = snic_min_u64(lsm_next(m), m->end);
        lsm_turn(m);
    }
    lsm_results(m, out);
    lsm_close(m);
}
