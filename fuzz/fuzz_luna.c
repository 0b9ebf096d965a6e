/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent and the target face to face, and a string of operations between them: I/Os, time,
 * connections that break or are refused, sends that complete late, and bytes that are
 * delivered in pieces of any size, damaged, left out, or made up, with a header checksum and
 * numbers that are right again, so that the engines see the damage. Both are checked after each
 * operation.
 */
#include "snicstore/luna.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IOS = 8, BLOCKS = 20, REQUESTS = 128, DISK = 2048, CONNS = 2, PIPE = 1 << 19, LENT = 16 };

struct pipe {
    uint32_t head, tail;
    unsigned char *bytes;
};

struct conn {
    struct pipe way[2]; /* up, down */
    uint32_t gen, handle;
    int open; /* bit 0: at the agent, bit 1: at the target */
    int paused;
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_luna *c;
    struct snic_luna_target *t;
    uint64_t now;
    uint32_t requests, lent, kept;
    uint8_t damage[2], mask[2], refuse, lends;
    struct conn conn[CONNS];
    struct snic_ebs_request request[REQUESTS];
    struct snic_luna_send *lend[LENT], *keep[LENT];
    int busy[IOS];
    struct snic_ebs_io ios[IOS];
    struct snic_iov iov[2];
    unsigned char memory[(BLOCKS + 1) * SNIC_EBS_BLOCK_BYTES];
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

/* ---- Pipes ---- */

static void broken(struct fuzz *f, uint32_t i)
{
    struct conn *n = &f->conn[i];
    if ((n->open & 1) != 0)
        snic_luna_closed(f->c, 0, i, n->gen, SNIC_ECONNRESET, f->now);
    if ((n->open & 2) != 0)
        snic_luna_target_closed(f->t, n->handle, f->now);
    n->open = 0;
    n->paused = 0;
}

/* A field of the frame at @p p is changed, and its checksum made right again. */
static void damage(struct fuzz *f, unsigned char *p, uint32_t size, uint32_t dir)
{
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    unsigned direction = dir | SNIC_EBS_STREAM;
    uint8_t at = f->damage[dir], x = f->mask[dir];
    f->mask[dir] = 0;
    if (x == 0)
        return;
    if (at >= 240 || size < 128 || snic_ebs_decode(&h, &place, direction, p, size) != 0) {
        p[(at * 37u) % size] ^= x;
        return;
    }
    if (at < sizeof(h))
        ((unsigned char *)&h)[at] ^= x;
    unsigned char head[128];
    if (snic_ebs_encode(head, sizeof(head), NULL, direction, &h, NULL, place.body_size) == 128)
        memcpy(p, head, sizeof(head));
}

static void post(struct fuzz *f, uint32_t i, const struct snic_luna_send *s, uint32_t dir)
{
    struct pipe *p = &f->conn[i].way[dir];
    if (p->head == p->tail)
        p->head = p->tail = 0;
    if (p->tail + s->bytes > PIPE) {
        broken(f, i);
        return;
    }
    uint32_t at = p->tail;
    for (uint32_t k = 0; k < s->iov_count; k++) {
        memcpy(p->bytes + p->tail, s->iov[k].base, s->iov[k].size);
        p->tail += (uint32_t)s->iov[k].size;
    }
    must(p->tail - at == s->bytes && s->bytes > 0);
    damage(f, p->bytes + at, s->bytes, dir);
}

static void serve(struct fuzz *f, const struct snic_ebs_request *q)
{
    if (f->requests == REQUESTS)
        snic_luna_target_answer(f->t, q, SNIC_EBS_BUSY, 0, 50, f->now);
    else
        f->request[f->requests++] = *q;
}

static void deliver(struct fuzz *f, uint32_t i, uint32_t dir, uint32_t most)
{
    struct conn *n = &f->conn[i];
    struct pipe *p = &n->way[dir];
    uint32_t size = p->tail - p->head < most ? p->tail - p->head : most;
    if ((n->open >> (1 - dir) & 1) == 0)
        return;
    if (dir == 1) {
        (void)snic_luna_recv(f->c, 0, i, n->gen, p->bytes + p->head, size, f->now);
        p->head += size;
        return;
    }
    struct snic_ebs_request q;
    size_t used;
    int r;
    do {
        r = snic_luna_target_recv(f->t, n->handle, p->bytes + p->head, size, &used, &q, f->now);
        must(used <= size);
        p->head += (uint32_t)used;
        size -= (uint32_t)used;
        if (r == 1)
            serve(f, &q);
    } while (r == 1);
    must(r != 0 || size == 0);
}

/* ---- Actions ---- */

static void act(struct fuzz *f, const struct snic_ebs_action *a)
{
    struct conn *n = &f->conn[a->path % CONNS];
    if (a->type == SNIC_EBS_ACT_SEND) {
        must(a->path < CONNS && a->gen == n->gen && (n->open & 1) != 0);
        post(f, a->path, a->send, 0);
        if (f->lends && f->kept < LENT)
            f->keep[f->kept++] = a->send;
        else
            snic_luna_sent(f->c, a->send, f->now);
    } else if (a->type == SNIC_EBS_ACT_DONE) {
        must(f->busy[a->io - f->ios]);
        f->busy[a->io - f->ios] = 0;
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        must(a->path < CONNS);
        broken(f, a->path);
        n->gen = a->gen;
        n->way[0].head = n->way[0].tail = n->way[1].head = n->way[1].tail = 0;
        if (f->refuse || snic_luna_target_opened(f->t, &n->handle, f->now) != 0) {
            snic_luna_closed(f->c, 0, a->path, a->gen, SNIC_ECONNREFUSED, f->now);
            return;
        }
        n->open = 3;
        must(snic_luna_connected(f->c, 0, a->path, a->gen, f->now) == 0);
    } else if (a->type == SNIC_EBS_ACT_CLOSE) {
        must(a->path < CONNS && a->gen == n->gen && a->reason != 0);
        n->open &= ~1;
    } else if (a->type == SNIC_EBS_ACT_MAP) {
        (void)!snic_luna_map(f->c, a->disk, a->segment, a->segment + 1, 0, a->gen32 + 1, f->now);
    }
}

static void target_act(struct fuzz *f, const struct snic_luna_target_action *a)
{
    uint32_t i = 0;
    while (i < CONNS && !((f->conn[i].open & 2) != 0 && f->conn[i].handle == a->handle))
        i++;
    if (a->type == SNIC_LUNA_TARGET_SEND) {
        if (i < CONNS)
            post(f, i, a->send, 1);
        if (f->lends && f->lent < LENT)
            f->lend[f->lent++] = a->send;
        else
            snic_luna_target_sent(f->t, a->send, f->now);
    } else if (a->type == SNIC_LUNA_TARGET_CLOSE) {
        must(a->reason != 0);
        if (i < CONNS)
            f->conn[i].open &= ~2;
    }
}

static void poll(struct fuzz *f)
{
    struct snic_ebs_action a;
    struct snic_luna_target_action b;
    for (int i = 0; i < 400 && snic_luna_poll(f->c, &a, 1, f->now) == 1; i++)
        act(f, &a);
    for (int i = 0; i < 400 && snic_luna_target_poll(f->t, &b, 1, f->now) == 1; i++)
        target_act(f, &b);
}

static void give_back(struct fuzz *f)
{
    while (f->lent > 0)
        snic_luna_target_sent(f->t, f->lend[--f->lent], f->now);
    while (f->kept > 0)
        snic_luna_sent(f->c, f->keep[--f->kept], f->now);
}

/* ---- Operations ---- */

static void submit(struct fuzz *f)
{
    uint8_t a = take(f), b = take(f);
    struct snic_ebs_io *io = &f->ios[a % IOS];
    if (f->busy[a % IOS])
        return;
    memset(io, 0, sizeof(*io));
    io->op = a / IOS % 6;
    io->lba = take(f) * 8u;
    io->blocks = io->op <= SNIC_EBS_IO_WRITE ? BLOCKS : 1u + b % 70;
    io->iov = f->iov;
    io->iov_count = 2;
    int r = snic_luna_submit(f->c, io, f->now);
    must(r == 0 || r == SNIC_EINVAL || r == SNIC_EROFS);
    f->busy[a % IOS] = r == 0;
}

static void answer(struct fuzz *f, uint8_t op)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    if (f->requests == 0)
        return;
    struct snic_ebs_request q = f->request[--f->requests];
    uint32_t status = op < 20 ? 0 : op % 18;
    memset(blocks, 0, sizeof(blocks));
    if (q.op == SNIC_EBS_DO_READ && status == 0) {
        for (uint32_t i = op % 3; i < SNIC_EBS_READ_BLOCKS; i += 1 + op % 2) {
            blocks[i].data = f->memory + i * SNIC_EBS_BLOCK_BYTES;
            blocks[i].data_crc = snic_crc32c(0, blocks[i].data, SNIC_EBS_BLOCK_BYTES);
            blocks[i].status = i == 9 ? op % 5 : 0;
        }
        if (snic_luna_target_read_done(f->t, &q, blocks, 1, f->now) == SNIC_EAGAIN)
            f->request[f->requests++] = q;
        return;
    }
    snic_luna_target_answer(f->t, &q, status, q.data_crc ^ (op == 7), take(f), f->now);
}

/* A frame forged by an attacker that knows the connection. */
static void make_up(struct fuzz *f, uint32_t i, uint32_t dir)
{
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    struct pipe *p = &f->conn[i].way[dir];
    unsigned char head[128];
    unsigned direction = dir | SNIC_EBS_STREAM;
    if (p->tail - p->head < 128 || p->tail + 128 > PIPE ||
        snic_ebs_decode(&h, &place, direction, p->bytes + p->head, 128) != 0)
        return;
    if (place.body_size > 0)
        return;
    h.type = take(f) % SNIC_EBS_TYPE_END;
    h.status = take(f) % 20;
    h.pkt_id = take(f) % 3;
    h.pkt_cnt = 1 + take(f) % 64;
    h.u.block.blk_cnt = take(f);
    h.u.block.op = take(f) % 3;
    if (snic_ebs_encode(head, sizeof(head), NULL, direction, &h, NULL, 0) == 128)
        memcpy(p->bytes + p->head, head, sizeof(head));
}

static void step(struct fuzz *f)
{
    uint8_t op = take(f), i = op >> 7, dir = op >> 6 & 1;
    struct pipe *p = &f->conn[i].way[dir];
    switch (op % 16) {
    case 0:
    case 1:
        submit(f);
        break;
    case 2:
        deliver(f, i, dir, take(f));
        break;
    case 3:
    case 4:
        deliver(f, i, dir, 1u + take(f) * 300u);
        break;
    case 5:
    case 6:
        deliver(f, i, dir, UINT32_MAX);
        break;
    case 7:
        f->damage[dir] = take(f);
        f->mask[dir] = take(f);
        break;
    case 8:
        if (p->head < p->tail) /* left out */
            p->head += 1 + take(f) % (p->tail - p->head);
        break;
    case 9:
        make_up(f, i, dir);
        break;
    case 10:
        broken(f, i);
        break;
    case 11:
    case 12:
        for (uint32_t k = 1 + take(f) % 32; k > 0; k--)
            answer(f, op / 16);
        break;
    case 13:
        f->lends = take(f) & 1;
        f->refuse = f->lends & dir;
        if (!f->lends)
            give_back(f);
        break;
    case 14:
        f->now += (uint64_t)take(f) << op / 8;
        break;
    default:
        if (snic_luna_deadline_ns(f->c) != SNIC_NEVER)
            f->now = snic_max_u64(f->now, snic_luna_deadline_ns(f->c));
        break;
    }
    poll(f);
}

static void start(struct fuzz *f)
{
    struct snic_luna_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .servers_max = 1};
    struct snic_luna_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .conns_max = 3};
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .blocks = DISK};
    uint8_t b = take(f);
    o.disks_max = 1;
    o.rpcs_max = 16;
    o.conns = b & 8 ? 2 : 1;
    o.flags = (b & 0x18) == 0x10 ? SNIC_LUNA_PAPER : 0;
    o.sends_max = 4 + b / 16;
    o.deadline_ns = UINT64_C(1) << (20 + b % 16);
    o.disk_blocks_max = DISK;
    o.chunks_max = 1;
    o.window_blocks = 1 + b;
    k.sends_max = 4 + b / 16;
    k.frames_max = 2 + b % 8;
    k.rx_blocks = 1 + b;
    size_t size = snic_luna_memsize(&o), ksize = snic_luna_target_memsize(&k);
    must(size > 0 && ksize > 0);
    void *mem = aligned_alloc(SNIC_LUNA_ALIGN, size);
    void *kmem = aligned_alloc(SNIC_LUNA_ALIGN, ksize);
    must(mem != NULL && kmem != NULL);
    must(snic_luna_init(&f->c, mem, size, &o, f->now) == 0);
    must(snic_luna_target_init(&f->t, kmem, ksize, &k, f->now) == 0);
    must(snic_luna_server_add(f->c, 0, f->now) == 0);
    must(snic_luna_attach(f->c, 0, &d, f->now) == 0);
    f->iov[0].base = f->memory;
    f->iov[0].size = 7 * SNIC_EBS_BLOCK_BYTES;
    f->iov[1].base = f->memory + 8 * SNIC_EBS_BLOCK_BYTES;
    f->iov[1].size = 13 * SNIC_EBS_BLOCK_BYTES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    static unsigned char pipes[CONNS][2][PIPE];
    struct fuzz *f = &fuzz;
    memset(f, 0, offsetof(struct fuzz, memory));
    for (uint32_t i = 0; i < CONNS; i++)
        for (uint32_t k = 0; k < 2; k++)
            f->conn[i].way[k].bytes = pipes[i][k];
    f->in = data;
    f->left = size < 2048 ? size : 2048;
    f->now = 12345;
    start(f);
    while (f->left > 0) {
        step(f);
        must(snic_luna_check(f->c) == 0 && snic_luna_target_check(f->t) == 0);
    }
    give_back(f);
    f->lends = 0;
    snic_luna_halt(f->c, f->now);
    poll(f);
    struct snic_luna_stats s;
    struct snic_luna_target_stats ts;
    snic_luna_get_stats(f->c, &s);
    snic_luna_target_get_stats(f->t, &ts);
    must(s.inside == 0 && s.sends_out == 0 && ts.requests == f->requests);
    free(snic_luna_fini(f->c));
    free(snic_luna_target_fini(f->t));
    return 0;
}
