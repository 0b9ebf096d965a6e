/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * /dev/fuse on a loop: a watch of the descriptor, reads until nothing is there or a round is full,
 * and replies by writev() where they are made.
 *
 * A call's block is its struct, then, on pages of its own, a buffer whose first page ends with a
 * WRITE's headers, so that its data begin the next. A request is read into the block on top of the
 * free ones; most that get no reply leave it there.
 *
 * Invariants
 *   D1 A block is free, or in flight: then the table of requests has its unique, and by_place its
 *      address.
 *   D2 The watch is armed unless no block is free, the device has ended, or its fn runs; of a
 *      polled device, from snic_fusedev_arm() until its fn runs, which reads nothing.
 *   D3 closed() is called once, and not while the watch is armed.
 *   D4 Requests that may wait for another one of the kernel (for a lock) have at most half of the
 *      blocks: what they wait for, an unlock or an INTERRUPT, is still read.
 *   D5 A reply that the kernel refuses is followed by one of EIO: its caller does not wait on.
 */
#include "snicstore/fusedev.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define SNIC_FUSEDEV__PAGE 4096U
#define SNIC_FUSEDEV__HEADERS                                                                      \
    (sizeof(struct snic_fuse_in_header) + sizeof(struct snic_fuse_write_in))
#define SNIC_FUSEDEV__ROUND 64 /* requests that are read before the loop runs */
#define SNIC_FUSEDEV__CALLS 64U

struct fusedev_block {
    struct snic_fusedev_call call; /* first: the server has its address */
    struct fusedev_block *next;    /* of the free ones */
    unsigned char *buffer;
    int waits; /* D4 */
};

struct snic_fusedev {
    struct snic_fusedev_opts o;
    struct snic_fusedev_ops ops;
    struct snic_fuse_conn conn;
    struct snic_loop_watch watch;
    struct snic_fuse_table *table;
    struct fusedev_block *free;
    struct fusedev_block **by_place;
    size_t buffer_size;
    uint32_t waiting; /* D4 */
    int reading;      /* fn runs: it sets the watch itself */
    int over;         /* 1: no more reads; 2: closed() was called */
    int result;
};

struct fusedev_layout {
    size_t table, by_place, blocks, buffers, buffer, total;
};

static void fusedev_table_opts(struct snic_fuse_table_opts *t, const struct snic_fusedev_opts *o)
{
    memset(t, 0, sizeof(*t));
    t->opts_size = (uint32_t)sizeof(*t);
    t->places_max = o->calls_max;
    t->seed = o->seed;
}

/* Whether the codec takes the offer, when a kernel of its own version begins. */
static int fusedev_offer(const struct snic_fuse_offer *o)
{
    struct snic_fuse_request init;
    struct snic_fuse_conn conn;
    if ((o->flags & SNIC_FUSE_OVER_IO_URING) != 0) /* the kernel would wait for rings */
        return SNIC_EINVAL;
    memset(&init, 0, sizeof(init));
    init.head.opcode = SNIC_FUSE_INIT;
    init.in.init.major = SNIC_FUSE_MAJOR;
    init.in.init.minor = SNIC_FUSE_MINOR;
    return snic_fuse_negotiate(&conn, o, &init);
}

static int fusedev_opts(struct snic_fusedev_opts *o, const struct snic_fusedev_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, (uint32_t)sizeof(*o), from) != 0)
        return SNIC_EINVAL;
    if (o->calls_max == 0)
        o->calls_max = SNIC_FUSEDEV__CALLS;
    if (o->offer.max_write == 0)
        o->offer.max_write = 128U << 10;
    if (o->offer.page_bytes == 0)
        o->offer.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    if (o->calls_max > SNIC_FUSEDEV_CALLS_MAX || (o->flags & ~SNIC_FUSEDEV_POLLED) != 0 ||
        o->loop == NULL || o->ops == NULL || o->ops->ops_size != sizeof(*o->ops) ||
        o->ops->request == NULL || o->ops->closed == NULL)
        return SNIC_EINVAL;
    return fusedev_offer(&o->offer);
}

static void fusedev_layout(struct fusedev_layout *l, const struct snic_fusedev_opts *o)
{
    struct snic_fuse_table_opts t;
    fusedev_table_opts(&t, o);
    l->table = (size_t)snic_align_up(sizeof(struct snic_fusedev), SNIC_FUSE_TABLE_ALIGN);
    l->by_place = l->table + snic_fuse_table_memsize(&t);
    l->blocks = (size_t)snic_align_up(l->by_place + o->calls_max * sizeof(void *), 64);
    l->buffers = (size_t)snic_align_up(l->blocks + o->calls_max * sizeof(struct fusedev_block),
                                       SNIC_FUSEDEV__PAGE);
    l->buffer = (size_t)snic_align_up((uint64_t)o->offer.max_write + SNIC_FUSEDEV__PAGE,
                                      SNIC_FUSEDEV__PAGE) +
                SNIC_FUSEDEV__PAGE; /* names need no more: 8192 is the kernel's least */
    l->total = l->buffers + l->buffer * o->calls_max;
}

size_t snic_fusedev_memsize(const struct snic_fusedev_opts *o)
{
    struct snic_fusedev_opts opts;
    struct fusedev_layout l;
    if (fusedev_opts(&opts, o) != 0)
        return 0;
    fusedev_layout(&l, &opts);
    return l.total;
}

/* ---- Writing ---- */

static int fusedev_error(int os_error)
{
    switch (os_error) {
    case ENODEV:
    case ENOTCONN:
    case ECONNABORTED:
        return SNIC_ENOTCONN;
    case ENOENT:
        return SNIC_ENOENT;
    default:
        return snic_error_from_os(os_error);
    }
}

static int fusedev_write(const struct snic_fusedev *d, const struct snic_iov *iov, uint32_t count)
{
    struct iovec v[SNIC_FUSEDEV_PIECES_MAX + 1];
    ssize_t n;
    SNIC_ASSERT(count <= SNIC_COUNTOF(v));
    for (uint32_t i = 0; i < count; i++) {
        v[i].iov_base = iov[i].base;
        v[i].iov_len = iov[i].size;
    }
    do
        n = writev(d->o.fd, v, (int)count);
    while (n < 0 && errno == EINTR);
    return n < 0 ? fusedev_error(errno) : 0;
}

static int fusedev_send(const struct snic_fusedev *d, const struct snic_fuse_answer *a)
{
    struct snic_iov one;
    one.base = (void *)(uintptr_t)&a->head;
    one.size = a->head.len;
    return fusedev_write(d, &one, 1);
}

static int fusedev_send_error(const struct snic_fusedev *d, uint64_t unique, int32_t error)
{
    struct snic_fuse_answer a;
    snic_fuse_answer_error(&a, unique, error);
    return fusedev_send(d, &a);
}

/* ---- Requests ---- */

static void fusedev_watch(struct snic_fusedev *d);

/* D3 */
static void fusedev_over(struct snic_fusedev *d, int result)
{
    if (d->over != 0)
        return;
    d->over = 1;
    d->result = result;
}

static void fusedev_close(struct snic_fusedev *d)
{
    if (d->over != 1 || d->watch.armed)
        return;
    d->over = 2;
    d->ops.closed(d->o.ctx, d->result);
}

static void fusedev_init_request(struct snic_fusedev *d, const struct snic_fuse_request *r)
{
    struct snic_fuse_answer a;
    int rc = snic_fuse_negotiate(&d->conn, &d->o.offer, r);
    if (rc == 0 || rc == SNIC_EAGAIN) {
        snic_fuse_answer_init(&a, r->head.unique, &d->conn);
        (void)fusedev_send(d, &a);
        return;
    }
    (void)fusedev_send_error(d, r->head.unique, SNIC_EPROTO);
    fusedev_over(d, rc);
}

static void fusedev_forgets(struct snic_fusedev *d, const struct snic_fuse_request *r)
{
    struct snic_fuse_forget_one one;
    if (d->ops.forget == NULL)
        return;
    if (r->head.opcode == SNIC_FUSE_FORGET) {
        d->ops.forget(d->o.ctx, r->head.nodeid, r->in.forget.nlookup);
        return;
    }
    for (uint32_t i = 0; i < r->in.batch_forget.count; i++) {
        snic_fuse_forget_at(r, i, &one);
        d->ops.forget(d->o.ctx, one.nodeid, one.nlookup);
    }
}

static void fusedev_interrupt(struct snic_fusedev *d, const struct snic_fuse_request *r)
{
    uint32_t place;
    int rc = snic_fuse_table_interrupt(d->table, r->head.unique, r->in.interrupt.unique, &place);
    if (rc == SNIC_EAGAIN)
        (void)fusedev_send_error(d, r->head.unique, SNIC_EAGAIN);
    if (rc != 1)
        return;
    d->by_place[place]->call.interrupted = 1;
    if (d->ops.interrupt != NULL)
        d->ops.interrupt(d->o.ctx, &d->by_place[place]->call);
}

/* A request for the server takes the block out of the free ones. */
static void fusedev_request(struct snic_fusedev *d, struct fusedev_block *b)
{
    struct snic_fusedev_call *c = &b->call;
    uint64_t stale;
    int waits =
        c->request.head.opcode == SNIC_FUSE_SETLKW && c->request.in.lk.lk.type != SNIC_FUSE_UNLCK;
    int rc;
    if (waits && d->waiting == d->o.calls_max / 2) { /* D4 */
        (void)fusedev_send_error(d, c->request.head.unique, -ENOLCK);
        return;
    }
    rc = snic_fuse_table_add(d->table, c->request.head.unique, &c->place);
    if (rc < 0) { /* a unique twice, or 0: no kernel does that */
        (void)fusedev_send_error(d, c->request.head.unique, SNIC_EIO);
        return;
    }
    d->free = b->next;
    d->by_place[c->place] = b;
    b->waits = waits;
    d->waiting += (uint32_t)waits;
    c->dev = d;
    c->ctx = NULL;
    c->interrupted = (uint32_t)rc;
    while ((stale = snic_fuse_table_stale(d->table)) != 0)
        (void)fusedev_send_error(d, stale, SNIC_EAGAIN);
    d->ops.request(d->o.ctx, c);
}

static void fusedev_dispatch(struct snic_fusedev *d, struct fusedev_block *b, size_t size)
{
    struct snic_fuse_request *r = &b->call.request;
    struct snic_iov one = {b->buffer, size};
    int rc = snic_fuse_parse(r, &d->conn, &one, 1);
    if (rc != 0) {
        if (r->head.unique != 0 && snic_fuse_has_reply(r->head.opcode))
            (void)fusedev_send_error(d, r->head.unique, snic_fuse_refusal(rc, r->head.opcode));
        return;
    }
    switch (r->head.opcode) {
    case SNIC_FUSE_INIT:
        fusedev_init_request(d, r);
        break;
    case SNIC_FUSE_DESTROY:
        (void)fusedev_send_error(d, r->head.unique, 0);
        break;
    case SNIC_FUSE_FORGET:
    case SNIC_FUSE_BATCH_FORGET:
        fusedev_forgets(d, r);
        break;
    case SNIC_FUSE_INTERRUPT:
        fusedev_interrupt(d, r);
        break;
    default:
        fusedev_request(d, b);
        break;
    }
}

/* @return bytes, at least 1: there may be more; 0 */
static int fusedev_read(struct snic_fusedev *d)
{
    struct fusedev_block *b = d->free;
    ssize_t n = read(d->o.fd, b->buffer, d->buffer_size);
    if (n >= 0) {
        fusedev_dispatch(d, b, (size_t)n);
        return n > 0 ? (int)n : 1;
    }
    if (errno == EAGAIN)
        return 0;
    if (errno == EINTR || errno == ENOENT) /* ENOENT: the caller has died meanwhile */
        return 1;
    fusedev_over(d, errno == ENODEV || errno == ECONNABORTED ? 0 : snic_error_from_os(errno));
    return 0;
}

static int fusedev_polled(const struct snic_fusedev *d)
{
    return (d->o.flags & SNIC_FUSEDEV_POLLED) != 0;
}

static void fusedev_readable(struct snic_loop_watch *w, int result)
{
    struct snic_fusedev *d = SNIC_CONTAINER(w, struct snic_fusedev, watch);
    int round = fusedev_polled(d) ? 0 : SNIC_FUSEDEV__ROUND;
    if (result != 0)
        fusedev_over(d, result);
    d->reading = 1;
    for (int i = 0; i < round && d->over == 0 && d->free != NULL; i++)
        if (!fusedev_read(d))
            break;
    d->reading = 0;
    fusedev_watch(d);
    fusedev_close(d);
}

/* D2 */
static void fusedev_watch(struct snic_fusedev *d)
{
    int rc;
    if (d->over != 0 || d->free == NULL || d->watch.armed || fusedev_polled(d))
        return;
    rc = snic_loop_watch_start(d->o.loop, &d->watch);
    if (rc != 0)
        fusedev_over(d, rc);
}

/* The block is free again, before the kernel has the reply: it may reuse the unique. */
static void fusedev_release(struct snic_fusedev *d, struct snic_fusedev_call *c)
{
    struct fusedev_block *b = (struct fusedev_block *)(void *)c;
    SNIC_ASSERT(d->by_place[c->place] == b); /* D1: it has no reply yet */
    snic_fuse_table_remove(d->table, c->place);
    d->by_place[c->place] = NULL;
    d->waiting -= (uint32_t)b->waits;
    b->next = d->free;
    d->free = b;
}

/* Reading had stopped for lack of blocks. */
static void fusedev_resume(struct snic_fusedev *d)
{
    if (d->reading)
        return;
    fusedev_watch(d);
    fusedev_close(d);
}

int snic_fusedev_poll(struct snic_fusedev *d)
{
    int n = 0;
    SNIC_ASSERT(fusedev_polled(d) && !d->reading);
    d->reading = 1;
    if (d->over == 0 && d->free != NULL)
        n = fusedev_read(d);
    d->reading = 0;
    fusedev_close(d);
    return d->over != 0 ? SNIC_ENOTCONN : n;
}

int snic_fusedev_arm(struct snic_fusedev *d)
{
    SNIC_ASSERT(fusedev_polled(d));
    return d->over != 0 || d->watch.armed ? 0 : snic_loop_watch_start(d->o.loop, &d->watch);
}

void snic_fusedev_stop(struct snic_fusedev *d)
{
    fusedev_over(d, 0);
    snic_loop_watch_stop(d->o.loop, &d->watch);
    if (!d->reading)
        fusedev_close(d);
}

/* D5 */
static int fusedev_sent(const struct snic_fusedev *d, uint64_t unique, int rc)
{
    if (rc != 0 && rc != SNIC_ENOENT && rc != SNIC_ENOTCONN)
        (void)fusedev_send_error(d, unique, SNIC_EIO);
    return rc;
}

int snic_fusedev_reply(struct snic_fusedev_call *c, const struct snic_fuse_answer *a)
{
    struct snic_fusedev *d = c->dev;
    uint64_t unique = c->request.head.unique;
    int rc;
    fusedev_release(d, c);
    rc = fusedev_sent(d, unique, fusedev_send(d, a));
    fusedev_resume(d);
    return rc;
}

int snic_fusedev_reply_error(struct snic_fusedev_call *c, int64_t result)
{
    struct snic_fuse_answer a;
    snic_fuse_answer_error(&a, c->request.head.unique, snic_fuse_error(result));
    return snic_fusedev_reply(c, &a);
}

int snic_fusedev_reply_data(struct snic_fusedev_call *c, const struct snic_iov *data,
                            uint32_t count)
{
    struct snic_fusedev *d = c->dev;
    struct snic_iov iov[SNIC_FUSEDEV_PIECES_MAX + 1];
    struct snic_fuse_answer a;
    uint64_t unique = c->request.head.unique;
    int n = snic_fuse_answer_data(&a, unique, data, count, iov, (uint32_t)SNIC_COUNTOF(iov));
    int rc;
    if (n < 0) {
        (void)snic_fusedev_reply_error(c, SNIC_EIO);
        return n;
    }
    fusedev_release(d, c);
    rc = fusedev_sent(d, unique, fusedev_write(d, iov, (uint32_t)n));
    fusedev_resume(d);
    return rc;
}

int snic_fusedev_notify(struct snic_fusedev *d, const struct snic_fuse_answer *a,
                        const struct snic_iov *iov, uint32_t count)
{
    return count > 0 ? fusedev_write(d, iov, count) : fusedev_send(d, a);
}

/* ---- Beginning and end ---- */

int snic_fusedev_init(struct snic_fusedev **out, void *mem, size_t mem_size,
                      const struct snic_fusedev_opts *o)
{
    struct snic_fuse_table_opts t;
    struct snic_fusedev_opts opts;
    struct fusedev_layout l;
    unsigned char *at = mem;
    struct snic_fusedev *d = mem;
    struct fusedev_block *blocks;
    int rc;
    if (fusedev_opts(&opts, o) != 0 || (uintptr_t)mem % SNIC_FUSEDEV_ALIGN != 0)
        return SNIC_EINVAL;
    fusedev_layout(&l, &opts);
    if (mem_size < l.total)
        return SNIC_ENOSPC;
    memset(mem, 0, l.buffers);
    d->o = opts;
    d->ops = *opts.ops;
    d->buffer_size = l.buffer - SNIC_FUSEDEV__PAGE + SNIC_FUSEDEV__HEADERS;
    d->watch.fd = opts.fd;
    d->watch.fn = fusedev_readable;
    fusedev_table_opts(&t, &opts);
    rc = snic_fuse_table_init(&d->table, at + l.table, l.by_place - l.table, &t);
    SNIC_ASSERT(rc == 0);
    d->by_place = (struct fusedev_block **)(void *)(at + l.by_place);
    blocks = (struct fusedev_block *)(void *)(at + l.blocks);
    for (uint32_t i = 0; i < opts.calls_max; i++) {
        blocks[i].buffer =
            at + l.buffers + l.buffer * i + SNIC_FUSEDEV__PAGE - SNIC_FUSEDEV__HEADERS;
        blocks[i].next = d->free;
        d->free = &blocks[i];
    }
    rc = fusedev_polled(d) ? 0 : snic_loop_watch_start(opts.loop, &d->watch);
    if (rc == 0)
        *out = d;
    return rc;
}

void *snic_fusedev_fini(struct snic_fusedev *d)
{
    SNIC_ASSERT(d->over == 2);
    SNIC_ASSERT(snic_fuse_table_count(d->table) == 0);
    (void)snic_fuse_table_fini(d->table);
    return d;
}

const struct snic_fuse_conn *snic_fusedev_conn(const struct snic_fusedev *d)
{
    return &d->conn;
}

uint32_t snic_fusedev_calls(const struct snic_fusedev *d)
{
    return snic_fuse_table_count(d->table);
}
