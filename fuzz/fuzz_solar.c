/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent and the target face to face, and a string of operations between them: I/Os, time, and
 * datagrams that are delivered, dropped, repeated, damaged (with a header checksum that is right
 * again, so that the engines see the damage) or made up. Both are checked after each operation.
 */
#include "snicstore/solar.h"
#include "solar_cipher.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IOS = 8, BLOCKS = 20, BAG = 32, REQUESTS = 64, DISK = 2048 };

struct letter {
    uint32_t size;
    uint32_t to_target;
    uint32_t path;
    uint32_t gen;
    unsigned char bytes[SNIC_EBS_PACKET_BYTES];
};

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_solar *c;
    struct snic_solar_target *t;
    uint64_t now;
    uint32_t letters;
    uint32_t requests;
    struct letter bag[BAG];
    struct snic_ebs_request request[REQUESTS];
    int busy[IOS];
    struct snic_ebs_io ios[IOS];
    struct snic_iov iov;
    unsigned char memory[BLOCKS * SNIC_EBS_BLOCK_BYTES];
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

static void post(struct fuzz *f, const struct snic_solar_train *t, uint32_t to_target)
{
    uint32_t piece = 0;
    for (uint32_t i = 0; i < t->packets; i++) {
        struct letter *l = &f->bag[f->letters % BAG];
        f->letters += f->letters < BAG;
        l->size = 0;
        l->to_target = to_target;
        l->path = to_target ? t->path : (uint32_t)t->peer.word[0];
        l->gen = to_target ? t->gen : (uint32_t)t->peer.word[1];
        while (l->size < t->segment && piece < t->iov_count) {
            must(l->size + t->iov[piece].size <= sizeof(l->bytes));
            memcpy(l->bytes + l->size, t->iov[piece].base, t->iov[piece].size);
            l->size += (uint32_t)t->iov[piece++].size;
        }
    }
    must(piece == t->iov_count);
}

static void fuzz_act(struct fuzz *f, const struct snic_ebs_action *a)
{
    if (a->type == SNIC_EBS_ACT_SEND) {
        post(f, a->train, 1);
        snic_solar_sent(f->c, a->train, f->now);
    } else if (a->type == SNIC_EBS_ACT_DONE) {
        must(f->busy[a->io - f->ios]);
        f->busy[a->io - f->ios] = 0;
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        uint16_t port = (uint16_t)(50000 + a->path + 16 * (a->gen % 4));
        (void)!snic_solar_path_opened(f->c, a->server, a->path, a->gen, port, f->now);
    } else if (a->type == SNIC_EBS_ACT_MAP) {
        (void)!snic_solar_map(f->c, a->disk, a->segment, a->segment + 1, 0, a->gen32 + 1, f->now);
    }
}

static void fuzz_poll(struct fuzz *f)
{
    struct snic_ebs_action a;
    struct snic_solar_train *t;
    for (int i = 0; i < 200 && snic_solar_poll(f->c, &a, 1, f->now) == 1; i++)
        fuzz_act(f, &a);
    while (snic_solar_target_poll(f->t, &t, 1, f->now) == 1) {
        post(f, t, 0);
        snic_solar_target_sent(f->t, t);
    }
}

static void fuzz_deliver(struct fuzz *f, struct letter *l)
{
    struct snic_ebs_peer peer = {{l->path, l->gen, 0}};
    struct snic_ebs_request q;
    if (!l->to_target)
        (void)snic_solar_recv(f->c, 0, l->path, l->gen, l->bytes, l->size, 0, f->now);
    else if (snic_solar_target_recv(f->t, &peer, l->bytes, l->size, 0, &q, f->now) == 1) {
        if (f->requests == REQUESTS)
            snic_solar_target_answer(f->t, &q, SNIC_EBS_BUSY, 0, 50, f->now);
        else
            f->request[f->requests++] = q;
    }
}

/* A field is changed, and the header's checksum made right again: what cannot be decoded any more
   is delivered as it is. */
static void fuzz_damage(struct fuzz *f, struct letter *l)
{
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    unsigned direction = l->to_target ? SNIC_EBS_TO_SERVER : SNIC_EBS_TO_CLIENT;
    int known = snic_ebs_decode(&h, &place, direction, l->bytes, l->size) == 0;
    uint32_t at = take(f), x = take(f);
    if (!known || at >= 128 + 64) {
        l->bytes[(at * 17) % l->size] ^= (unsigned char)x;
        return;
    }
    if (at < sizeof(h))
        ((unsigned char *)&h)[at] ^= (unsigned char)x;
    unsigned char head[SNIC_EBS_PREFIX_BYTES + 4];
    int size = snic_ebs_encode(head, sizeof(head), NULL, direction, &h, l->bytes + place.body_at,
                               place.body_size);
    if (size > 0 && (uint32_t)size == place.body_at)
        memcpy(l->bytes, head, (size_t)size);
}

static void fuzz_submit(struct fuzz *f)
{
    uint8_t a = take(f), b = take(f);
    struct snic_ebs_io *io = &f->ios[a % IOS];
    if (f->busy[a % IOS])
        return;
    memset(io, 0, sizeof(*io));
    io->op = a / IOS % 6;
    io->blocks = 1 + b % BLOCKS;
    io->lba = take(f) * 8u;
    f->iov.base = f->memory;
    f->iov.size = (size_t)BLOCKS * SNIC_EBS_BLOCK_BYTES;
    io->blocks = io->op <= SNIC_EBS_IO_WRITE ? BLOCKS : io->blocks;
    io->iov = &f->iov;
    io->iov_count = 1;
    int r = snic_solar_submit(f->c, io, f->now);
    must(r == 0 || r == SNIC_EINVAL || r == SNIC_EROFS);
    f->busy[a % IOS] = r == 0;
}

static void fuzz_answer(struct fuzz *f, uint8_t op)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    if (f->requests == 0)
        return;
    struct snic_ebs_request q = f->request[--f->requests];
    uint32_t status = op < 20 ? 0 : op % 18;
    memset(blocks, 0, sizeof(blocks));
    if (q.op == SNIC_EBS_DO_READ && status == 0) {
        blocks[op % 16].data = f->memory;
        blocks[op % 16].data_crc = snic_crc32c(0, f->memory, SNIC_EBS_BLOCK_BYTES);
        if (snic_solar_target_read_done(f->t, &q, blocks, 1, f->now) == SNIC_EAGAIN)
            f->request[f->requests++] = q;
        return;
    }
    snic_solar_target_answer(f->t, &q, status, q.data_crc, take(f), f->now);
}

static void fuzz_step(struct fuzz *f)
{
    uint8_t op = take(f);
    struct letter *l = f->letters > 0 ? &f->bag[take(f) % f->letters] : NULL;
    switch (op % 8) {
    case 0:
        fuzz_submit(f);
        break;
    case 1:
    case 2:
        if (l != NULL) {
            fuzz_deliver(f, l);
            if (op / 8 != 0) /* or once more later */
                *l = f->bag[--f->letters];
        }
        break;
    case 3:
        if (l != NULL)
            fuzz_damage(f, l);
        break;
    case 4:
        while (f->letters > 0)
            fuzz_deliver(f, &f->bag[--f->letters]);
        break;
    case 5:
        fuzz_answer(f, op / 8);
        break;
    case 6:
        f->now += (uint64_t)take(f) << op / 8;
        break;
    default:
        if (snic_solar_deadline_ns(f->c) != SNIC_NEVER)
            f->now = snic_max_u64(f->now, snic_solar_deadline_ns(f->c));
        break;
    }
    fuzz_poll(f);
}

static void fuzz_open(struct fuzz *f)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 1, .servers_max = 1};
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 1, .conns_max = 2};
    struct snic_ebs_disk_opts d = {.opts_size = sizeof(d), .sa_epoch = 1, .blocks = DISK};
    static struct solar_toy_key keys[5];
    uint8_t b = take(f);
    o.disks_max = 1;
    o.rpcs_max = 16;
    o.paths = 1 + b % 3;
    o.trains_max = 4 + b / 16;
    o.flags = b & 8 ? SNIC_SOLAR_INT : 0;
    o.deadline_ns = UINT64_C(1) << (20 + b % 16);
    o.disk_blocks_max = DISK;
    o.chunks_max = 1;
    k.trains_max = 9 + b / 16;
    k.rx_blocks = 1 + b;
    int sealed = (b & 6) == 6;
    if (sealed) {
        o.flags |= SNIC_SOLAR_AUTH;
        k.flags = SNIC_SOLAR_AUTH;
        o.sec = k.sec = &solar_toy_ops;
        for (int i = 0; i < 2; i++) {
            o.wire_keys[i] = &keys[i];
            k.wire_keys[i] = &keys[2 + i];
        }
        k.secret = &keys[4];
    }
    size_t size = snic_solar_memsize(&o), ksize = snic_solar_target_memsize(&k);
    must(size > 0 && ksize > 0);
    void *mem = aligned_alloc(SNIC_SOLAR_ALIGN, size);
    void *kmem = aligned_alloc(SNIC_SOLAR_ALIGN, ksize);
    must(mem != NULL && kmem != NULL);
    must(snic_solar_init(&f->c, mem, size, &o, f->now) == 0);
    must(snic_solar_target_init(&f->t, kmem, ksize, &k, f->now) == 0);
    must(snic_solar_server_add(f->c, 0, f->now) == 0);
    must(!sealed || snic_solar_server_auth(f->c, 0, &keys[4], 0, 0) == 0);
    must(snic_solar_attach(f->c, 0, &d, f->now) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    memset(f, 0, sizeof(*f));
    f->in = data;
    f->left = size < 2048 ? size : 2048;
    f->now = 12345;
    fuzz_open(f);
    while (f->left > 0) {
        fuzz_step(f);
        must(snic_solar_check(f->c) == 0 && snic_solar_target_check(f->t) == 0);
    }
    snic_solar_halt(f->c, f->now);
    fuzz_poll(f);
    struct snic_solar_stats s;
    snic_solar_get_stats(f->c, &s);
    must(s.inside == 0 && s.trains_out == 0);
    free(snic_solar_fini(f->c));
    free(snic_solar_target_fini(f->t));
    return 0;
}
