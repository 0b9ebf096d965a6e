/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conformance_dma.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define CONF_BYTES 65536

int conf_dma_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

/* ---- Fixture ---- */

static void conf_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct conf_dma_end *e = ctx;
    assert_ptr_equal(d, e->f->d[e->index]);
    assert_in_range(size, 1, SNIC_DMA_MSG_MAX);
    e->after_death += e->deaths;
    e->sizes[e->messages % CONF_DMA_LOG] = size;
    e->first[e->messages % CONF_DMA_LOG] = *(const unsigned char *)msg;
    memcpy(e->last, msg, size);
    e->messages++;
}

static void conf_bell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct conf_dma_end *e = ctx;
    assert_ptr_equal(d, e->f->d[e->index]);
    assert_in_range(id, 0, SNIC_DMA_DOORBELLS - 1);
    e->after_death += e->deaths;
    e->bells[id]++;
}

static void conf_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct conf_dma_end *e = ctx;
    assert_ptr_equal(d, e->f->d[e->index]);
    assert_int_equal(d->dead, 1);
    e->deaths++;
    e->cause = cause;
}

void conf_dma_setup(struct conf_dma *f, const struct conf_dma_backend *b)
{
    uint32_t caps = f->sim_caps;
    uint32_t chunk = f->sim_chunk;
    memset(f, 0, sizeof(*f));
    f->sim_caps = caps;
    f->sim_chunk = chunk;
    f->backend = b;
    for (int i = 0; i < 2; i++) {
        f->end[i].f = f;
        f->end[i].index = i;
        f->events[i] = (struct snic_dma_events){
            .recv = conf_recv, .doorbell = conf_bell, .death = conf_death, .ctx = &f->end[i]};
    }
    b->open(f);
    for (int i = 0; i < 2; i++) {
        assert_non_null(f->d[i]);
        assert_ptr_equal(f->d[i]->loop, f->loop[i]);
        assert_int_equal(f->d[i]->dead, 0);
    }
}

void conf_dma_teardown(struct conf_dma *f)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->end[i].after_death, 0);
        snic_dma_close(f->d[i]);
        f->d[i] = NULL;
    }
    conf_dma_spin(f, 20);
    f->backend->close(f);
}

void conf_dma_spin(struct conf_dma *f, int steps)
{
    for (int i = 0; i < steps; i++)
        (void)f->backend->step(f);
}

void conf_dma_until(struct conf_dma *f, const uint32_t *word, uint32_t value)
{
    for (uint32_t idle = 0; *(const volatile uint32_t *)word < value;) {
        idle = f->backend->step(f) != 0 ? 0 : idle + 1;
        if (idle > 60000)
            fail_msg("%s: waited in vain", f->backend->name);
    }
}

void conf_dma_done(struct snic_dma_batch *b)
{
    struct conf_dma_batch *c = (struct conf_dma_batch *)(void *)b;
    c->completed++;
}

static int conf_submit(struct conf_dma *f, int i, struct conf_dma_batch *b)
{
    struct snic_dma_batch *list = &b->b;
    b->b.done = conf_dma_done;
    b->b.ops = b->ops;
    b->b.result = 12345;
    b->completed = 0;
    int r = snic_dma_submit(f->d[i], &list, 1);
    assert_int_equal(b->completed, 0); /* never from inside submit */
    return r;
}

/** Submit from end @p i and wait; returns the result. */
static int conf_dma_do(struct conf_dma *f, int i, struct conf_dma_batch *b)
{
    assert_int_equal(conf_submit(f, i, b), 1);
    conf_dma_until(f, &b->completed, 1);
    assert_int_equal(b->completed, 1);
    return b->b.result;
}

static struct snic_dma_op *conf_op(struct conf_dma_batch *b, uint8_t kind, uint32_t flags,
                                   uint64_t key, uint64_t offset, void *local, uint32_t length)
{
    struct snic_dma_op *op = &b->ops[b->b.count++];
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    op->flags = (uint8_t)flags;
    op->key = key;
    op->offset = offset;
    op->local = local;
    op->length = length;
    return op;
}

static int conf_one(struct conf_dma *f, int i, uint8_t kind, uint64_t key, uint64_t offset,
                    void *local, uint32_t length)
{
    struct conf_dma_batch b = {.completed = 0};
    (void)conf_op(&b, kind, 0, key, offset, local, length);
    return conf_dma_do(f, i, &b);
}

/** A region of end @p i with all rights but those of @p without. */
static unsigned char *conf_region(struct conf_dma *f, int i, size_t size, uint32_t without,
                                  uint64_t *key)
{
    void *mem = NULL;
    assert_int_equal(snic_dma_alloc(f->d[i], size, &mem), 0);
    assert_non_null(mem);
    assert_int_equal((uintptr_t)mem % 4096, 0);
    for (size_t k = 0; k < size; k++)
        assert_int_equal(((unsigned char *)mem)[k], 0);
    uint32_t rights = SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC;
    assert_int_equal(snic_dma_register(f->d[i], mem, size, rights & ~without, key), 0);
    /* A key is of use to the peer once a message sent after it has arrived. */
    struct conf_dma_end *peer = &f->end[1 - i];
    uint32_t had = peer->messages;
    assert_int_equal(snic_dma_send(f->d[i], "key", 3), 1);
    conf_dma_until(f, &peer->messages, had + 1);
    return mem;
}

/* ---- Cases ---- */

/** Bytes written and read arrive, at any alignment, in both directions. */
static void conf_read_write(struct conf_dma *f, struct snic_rng *rng)
{
    for (int i = 0; i < 2; i++) {
        uint64_t key;
        unsigned char *mem = conf_region(f, 1 - i, CONF_BYTES, 0, &key);
        unsigned char *mine = malloc(CONF_BYTES);
        unsigned char *back = malloc(CONF_BYTES);
        for (int round = 0; round < 50; round++) {
            uint32_t size = (uint32_t)snic_rng_below(rng, round % 5 == 0 ? 20000 : 200);
            uint64_t at = snic_rng_below(rng, CONF_BYTES - size + 1);
            uint32_t skew = (uint32_t)snic_rng_below(rng, 8);
            if (skew + size > CONF_BYTES)
                skew = 0;
            snic_rng_fill(rng, mine, CONF_BYTES);
            assert_int_equal(conf_one(f, i, SNIC_DMA_WRITE, key, at, mine + skew, size), 0);
            assert_memory_equal(mem + at, mine + skew, size);
            memset(back, 0x5a, CONF_BYTES);
            assert_int_equal(conf_one(f, i, SNIC_DMA_READ, key, at, back + skew, size), 0);
            assert_memory_equal(back + skew, mine + skew, size);
            for (uint32_t k = 0; k < skew; k++)
                assert_int_equal(back[k], 0x5a);
            if (skew + size < CONF_BYTES)
                assert_int_equal(back[skew + size], 0x5a);
        }
        free(mine);
        free(back);
    }
}

/** What the owner did not grant is refused, wherever the range ends; nothing is touched. */
static void conf_errors(struct conf_dma *f)
{
    uint64_t key, ro, wo;
    unsigned char buf[64] = {1};
    unsigned char *mem = conf_region(f, 0, 4096, 0, &key);
    (void)conf_region(f, 0, 4096, SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC, &ro);
    (void)conf_region(f, 0, 4096, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_ATOMIC, &wo);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, 4096 - 64, buf, 64), 0);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, 4096, buf, 0), 0);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, 4096 - 63, buf, 64), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, 4097, buf, 0), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, UINT64_MAX - 8, buf, 64), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, 0, 0, buf, 8), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, UINT64_MAX, 0, buf, 8), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key + (1U << 16), 0, buf, 8), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 0, SNIC_DMA_READ, key, 0, buf, 8), SNIC_EFAULT); /* our own key */
    assert_int_equal(conf_one(f, 1, SNIC_DMA_WRITE, ro, 0, buf, 8), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, ro, 0, buf, 8), 0);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, wo, 0, buf, 8), SNIC_EFAULT);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_WRITE, wo, 0, buf, 8), 0);
    assert_int_equal(conf_one(f, 1, 0, key, 0, buf, 8), SNIC_EINVAL);
    assert_int_equal(conf_one(f, 1, 77, key, 0, buf, 8), SNIC_EINVAL);
    for (int k = 0; k < 4096; k++)
        assert_int_equal(mem[k], 0);
    struct conf_dma_batch b = {.completed = 0};
    conf_op(&b, SNIC_DMA_READ, 0, key, 0, buf, 8)->flags = 0x80;
    assert_int_equal(conf_dma_do(f, 1, &b), SNIC_EINVAL);
    int no_atomic = (f->d[1]->caps & SNIC_DMA_CAP_ATOMIC) == 0;
    int bad = no_atomic ? SNIC_ENOTSUP : SNIC_EINVAL;
    assert_int_equal(conf_one(f, 1, SNIC_DMA_ADD, key, 4, NULL, 8), bad);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_CAS, key, 0, NULL, 4), bad);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_ADD, ro, 0, NULL, 8),
                     no_atomic ? SNIC_ENOTSUP : SNIC_EFAULT);
    snic_dma_unregister(f->d[0], key);
    assert_int_equal(snic_dma_send(f->d[0], "x", 1), 1);
    conf_dma_until(f, &f->end[1].messages, f->end[1].messages + 1);
    assert_int_equal(conf_one(f, 1, SNIC_DMA_READ, key, 0, buf, 8), SNIC_EFAULT);
    assert_true(f->d[1]->stats.errors >= 10);
}

/** alloc, register and release refuse what is documented; a released block can be had again. */
static void conf_memory(struct conf_dma *f)
{
    void *mem = NULL;
    uint64_t key = 99;
    unsigned char other[64];
    assert_int_equal(snic_dma_alloc(f->d[0], 0, &mem), SNIC_EINVAL);
    assert_int_equal(snic_dma_alloc(f->d[0], SIZE_MAX - 5, &mem), SNIC_ENOMEM);
    assert_null(mem);
    assert_int_equal(snic_dma_alloc(f->d[0], 5000, &mem), 0);
    assert_int_equal(snic_dma_register(f->d[0], mem, 5000, 0, &key), SNIC_EINVAL);
    assert_int_equal(snic_dma_register(f->d[0], mem, 5000, 8, &key), SNIC_EINVAL);
    assert_int_equal(snic_dma_register(f->d[0], mem, 0, 1, &key), SNIC_EINVAL);
    assert_int_equal(snic_dma_register(f->d[0], mem, 1 << 20, 1, &key), SNIC_EFAULT);
    assert_int_equal(snic_dma_register(f->d[0], other, 64, 1, &key), SNIC_EFAULT);
    assert_int_equal(key, 99);
    for (int i = 0; i < 200; i++) {
        uint64_t k2;
        assert_int_equal(snic_dma_register(f->d[0], (char *)mem + 8, 64, 3, &key), 0);
        assert_int_equal(snic_dma_register(f->d[0], mem, 5000, 3, &k2), 0);
        assert_true(key != k2 && key != 0);
        snic_dma_unregister(f->d[0], key);
        snic_dma_unregister(f->d[0], k2);
        memset(mem, 0xee, 5000);
        snic_dma_release(f->d[0], mem);
        assert_int_equal(snic_dma_alloc(f->d[0], 5000, &mem), 0);
        assert_int_equal(((unsigned char *)mem)[17], 0);
        conf_dma_spin(f, 2);
    }
    snic_dma_release(f->d[0], mem);
}

/** CAS and ADD work as documented, and both ends at once lose no increment. */
static void conf_atomics(struct conf_dma *f)
{
    uint64_t key;
    unsigned char *mem = conf_region(f, 0, 4096, 0, &key);
    struct conf_dma_batch b = {.completed = 0};
    if ((f->d[1]->caps & SNIC_DMA_CAP_ATOMIC) == 0) {
        assert_int_equal(conf_one(f, 1, SNIC_DMA_ADD, key, 8, NULL, 8), SNIC_ENOTSUP);
        return;
    }
    struct snic_dma_op *add = conf_op(&b, SNIC_DMA_ADD, 0, key, 8, NULL, 8);
    add->operand = 7;
    struct snic_dma_op *hit = conf_op(&b, SNIC_DMA_CAS, SNIC_DMA_ORDERED, key, 8, NULL, 8);
    hit->compare = 7;
    hit->operand = 100;
    struct snic_dma_op *miss = conf_op(&b, SNIC_DMA_CAS, SNIC_DMA_ORDERED, key, 8, NULL, 8);
    miss->compare = 7;
    miss->operand = 5;
    struct snic_dma_op *minus = conf_op(&b, SNIC_DMA_ADD, SNIC_DMA_FENCE, key, 8, NULL, 8);
    minus->operand = UINT64_MAX;
    assert_int_equal(conf_dma_do(f, 1, &b), 0);
    assert_int_equal(add->value, 0);
    assert_int_equal(hit->value, 7);
    assert_int_equal(miss->value, 100);
    assert_int_equal(minus->value, 100);
    uint64_t word;
    memcpy(&word, mem + 8, 8);
    assert_int_equal(word, 99);
    assert_int_equal(f->d[1]->stats.atomics, 4);
}

/**
 * ORDERED and FENCE: data, then a flag. A reader that sees the flag sees the data; without
 * the rule the simulated link lets it see a hole.
 */
static void conf_order(struct conf_dma *f, struct snic_rng *rng)
{
    uint64_t key;
    unsigned char *mem = conf_region(f, 0, 8192, 0, &key);
    unsigned char data[1024];
    for (int round = 0; round < 60; round++) {
        struct conf_dma_batch b = {.completed = 0};
        uint64_t flag = (uint64_t)round + 1;
        memset(data, round + 1, sizeof(data));
        int fence = round & 1;
        (void)conf_op(&b, SNIC_DMA_WRITE, 0, key, 64, data, 500);
        (void)conf_op(&b, SNIC_DMA_WRITE, fence ? 0 : SNIC_DMA_ORDERED, key, 564, data, 524);
        (void)conf_op(&b, SNIC_DMA_WRITE, fence ? SNIC_DMA_FENCE : SNIC_DMA_ORDERED, key, 0, &flag,
                      8);
        assert_int_equal(conf_submit(f, 1, &b), 1);
        for (int idle = 0; b.completed == 0 && idle < 60000;) {
            uint64_t seen;
            memcpy(&seen, mem, 8);
            if (seen == flag)
                assert_memory_equal(mem + 64, data, sizeof(data));
            idle = f->backend->step(f) != 0 ? 0 : idle + 1;
        }
        assert_int_equal(b.completed, 1);
        assert_int_equal(b.b.result, 0);
        assert_memory_equal(mem + 64, data, sizeof(data));
        conf_dma_spin(f, (int)snic_rng_below(rng, 3));
    }
}

/** After an error nothing ordered or fenced behind it takes effect; `failed` names it. */
static void conf_failed_batch(struct conf_dma *f)
{
    uint64_t key;
    unsigned char *mem = conf_region(f, 0, 4096, 0, &key);
    unsigned char one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct conf_dma_batch b = {.completed = 0};
    (void)conf_op(&b, SNIC_DMA_WRITE, 0, key, 0, one, 8);
    (void)conf_op(&b, SNIC_DMA_WRITE, SNIC_DMA_ORDERED, key, 5000, one, 8); /* fails */
    (void)conf_op(&b, SNIC_DMA_WRITE, SNIC_DMA_ORDERED, key, 8, one, 8);
    (void)conf_op(&b, SNIC_DMA_WRITE, SNIC_DMA_ORDERED, key, 16, one, 8);
    (void)conf_op(&b, SNIC_DMA_WRITE, SNIC_DMA_FENCE, key, 24, one, 8);
    assert_int_equal(conf_dma_do(f, 1, &b), SNIC_EFAULT);
    assert_int_equal(b.b.failed, 1);
    assert_int_equal(mem[0], 1);
    for (int k = 8; k < 40; k++)
        assert_int_equal(mem[k], 0);
}

/** Many batches in flight complete exactly once each; a full handle returns 0 and recovers. */
static void conf_many_batches(struct conf_dma *f)
{
    enum { MANY = 600 };
    uint64_t key;
    unsigned char *mem = conf_region(f, 0, MANY * 8, 0, &key);
    struct conf_dma_batch *b = calloc(MANY, sizeof(*b));
    uint64_t *values = calloc(MANY, 8);
    uint32_t sent = 0;
    while (sent < MANY) {
        values[sent] = sent + 1;
        b[sent].b.count = 0;
        (void)conf_op(&b[sent], SNIC_DMA_WRITE, 0, key, sent * 8, &values[sent], 8);
        int r = conf_submit(f, 1, &b[sent]);
        assert_in_range(r, 0, 1);
        if (r == 0)
            assert_in_range(f->backend->step(f), 0, INT32_MAX);
        sent += (uint32_t)r;
    }
    for (uint32_t i = 0; i < MANY; i++)
        conf_dma_until(f, &b[i].completed, 1);
    conf_dma_spin(f, 50);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t v;
        memcpy(&v, mem + i * 8, 8);
        assert_int_equal(v, i + 1);
        assert_int_equal(b[i].completed, 1);
        assert_int_equal(b[i].b.result, 0);
    }
    assert_int_equal(f->d[1]->stats.submitted, f->d[1]->stats.completed);
    assert_true(f->d[1]->stats.queue_high >= 1);
    struct conf_dma_batch none = {.completed = 0};
    assert_int_equal(conf_dma_do(f, 1, &none), 0); /* an empty batch completes too */
    free(values);
    free(b);
}

/** Messages arrive in order, none lost, whatever their number; oversize and empty are refused. */
static void conf_messages(struct conf_dma *f, struct snic_rng *rng)
{
    unsigned char msg[SNIC_DMA_MSG_MAX + 1] = {0};
    assert_int_equal(snic_dma_send(f->d[0], msg, SNIC_DMA_MSG_MAX + 1), SNIC_EMSGSIZE);
    assert_int_equal(snic_dma_send(f->d[0], msg, 0), SNIC_EMSGSIZE);
    uint32_t base[2] = {f->end[0].messages, f->end[1].messages};
    uint32_t sent[2] = {0, 0};
    static uint32_t sizes[2][1000];
    int full = 0;
    while (sent[0] < 1000 || sent[1] < 1000) {
        int i = (int)snic_rng_below(rng, 2);
        if (sent[i] == 1000)
            i = 1 - i;
        uint32_t size = 1 + (uint32_t)snic_rng_below(rng, SNIC_DMA_MSG_MAX);
        memset(msg, (int)(sent[i] & 0xff), size);
        int r = snic_dma_send(f->d[i], msg, size);
        assert_in_range(r, 0, 1);
        if (r == 1)
            sizes[i][sent[i]++] = size;
        else
            full++;
        if (r == 0 || snic_rng_below(rng, 200) == 0)
            (void)f->backend->step(f);
    }
    for (int i = 0; i < 2; i++) {
        struct conf_dma_end *e = &f->end[1 - i];
        conf_dma_until(f, &e->messages, base[1 - i] + 1000);
        for (uint32_t k = 0; k < 1000; k++) {
            uint32_t at = (base[1 - i] + k) % CONF_DMA_LOG;
            assert_int_equal(e->sizes[at], sizes[i][k]);
            assert_int_equal(e->first[at], k & 0xff);
        }
        assert_int_equal(e->messages, base[1 - i] + 1000);
    }
    assert_true(full > 0); /* a bound there is */
}

/** Doorbells come at least once after the last ring, and not more often than rung. */
static void conf_doorbells(struct conf_dma *f, struct snic_rng *rng)
{
    uint32_t rung[SNIC_DMA_DOORBELLS] = {0};
    assert_int_equal(snic_dma_ring(f->d[0], SNIC_DMA_DOORBELLS), SNIC_EINVAL);
    for (int round = 0; round < 300; round++) {
        uint32_t id = (uint32_t)snic_rng_below(rng, SNIC_DMA_DOORBELLS);
        uint32_t times = 1 + (uint32_t)snic_rng_below(rng, 5);
        uint32_t had = f->end[1].bells[id];
        for (uint32_t k = 0; k < times; k++)
            assert_int_equal(snic_dma_ring(f->d[0], id), 0);
        rung[id] += times;
        conf_dma_until(f, &f->end[1].bells[id], had + 1);
    }
    conf_dma_spin(f, 50);
    uint64_t total = 0;
    for (uint32_t id = 0; id < SNIC_DMA_DOORBELLS; id++) {
        assert_true(f->end[1].bells[id] <= rung[id]);
        assert_int_equal(f->end[0].bells[id], 0);
        total += f->end[1].bells[id];
    }
    assert_int_equal(f->d[1]->stats.doorbells_received, total);
    for (uint32_t id = 0; id < SNIC_DMA_DOORBELLS; id++)
        assert_int_equal(snic_dma_ring(f->d[1], id), 0);
    for (uint32_t id = 0; id < SNIC_DMA_DOORBELLS; id++)
        conf_dma_until(f, &f->end[0].bells[id], 1);
}

/** MAPPED: the pointer is the peer's memory, also after its death. Else ENOTSUP. */
static void conf_map(struct conf_dma *f)
{
    uint64_t key, ro;
    void *p = NULL;
    unsigned char *mem = conf_region(f, 0, 8192, 0, &key);
    (void)conf_region(f, 0, 4096, SNIC_DMA_RIGHT_WRITE, &ro);
    if ((f->d[1]->caps & SNIC_DMA_CAP_MAPPED) == 0) {
        assert_int_equal(snic_dma_map(f->d[1], key, 0, 16, &p), SNIC_ENOTSUP);
        assert_null(p);
        return;
    }
    assert_int_equal(snic_dma_map(f->d[1], key, 1, 8192, &p), SNIC_EFAULT);
    assert_int_equal(snic_dma_map(f->d[1], key + 99, 0, 16, &p), SNIC_EFAULT);
    assert_int_equal(snic_dma_map(f->d[1], ro, 0, 16, &p), SNIC_EFAULT);
    assert_null(p);
    assert_int_equal(snic_dma_map(f->d[1], key, 4096, 4096, &p), 0);
    memcpy(mem + 4096, "hello", 6);
    assert_string_equal((char *)p, "hello");
    memcpy((char *)p + 100, "world", 6);
    assert_string_equal((char *)mem + 4196, "world");
    snic_dma_unregister(f->d[0], key);
    snic_dma_release(f->d[0], mem); /* the mapped pointer outlives it */
    conf_dma_spin(f, 10);
    ((volatile char *)p)[0] = 'x';
    snic_dma_close(f->d[0]);
    f->d[0] = NULL;
    conf_dma_until(f, &f->end[1].deaths, 1);
    assert_int_equal(((volatile char *)p)[0], 'x');
}

/** Closing notifies the peer once, after all that was sent; then everything answers EPEERDEAD. */
static void conf_close(struct conf_dma *f, int first)
{
    int other = 1 - first;
    uint32_t had = f->end[other].messages;
    assert_int_equal(snic_dma_send(f->d[first], "bye", 3), 1);
    assert_int_equal(snic_dma_send(f->d[first], "now", 3), 1);
    assert_int_equal(snic_dma_ring(f->d[first], 5), 0);
    snic_dma_close(f->d[first]);
    f->d[first] = NULL;
    conf_dma_until(f, &f->end[other].deaths, 1);
    assert_int_equal(f->end[other].messages, had + 2);
    assert_int_equal(f->end[other].bells[5], 1);
    assert_int_equal(f->end[other].cause, SNIC_DMA_DEATH_CLOSED);
    struct conf_dma_batch b = {.completed = 0};
    assert_int_equal(conf_submit(f, other, &b), SNIC_EPEERDEAD);
    assert_int_equal(snic_dma_send(f->d[other], "x", 1), SNIC_EPEERDEAD);
    assert_int_equal(snic_dma_ring(f->d[other], 0), SNIC_EPEERDEAD);
    conf_dma_spin(f, 50);
    assert_int_equal(f->end[other].deaths, 1);
    assert_int_equal(b.completed, 0);
}

/** Requests in flight at close or at the peer's death complete exactly once. */
static void conf_close_in_flight(struct conf_dma *f, int closer)
{
    uint64_t key;
    unsigned char buf[8] = {9};
    (void)conf_region(f, 0, 4096, 0, &key);
    struct conf_dma_batch b[20];
    memset(b, 0, sizeof(b));
    for (int i = 0; i < 20; i++) {
        (void)conf_op(&b[i], SNIC_DMA_WRITE, 0, key, (uint64_t)i * 8, buf, 8);
        assert_int_equal(conf_submit(f, 1, &b[i]), 1);
    }
    snic_dma_close(f->d[closer]);
    f->d[closer] = NULL;
    conf_dma_spin(f, 200);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(b[i].completed, 1);
        assert_true(b[i].b.result == 0 || b[i].b.result == SNIC_EPEERDEAD ||
                    b[i].b.result == SNIC_ECANCELED);
        if (closer == 1)
            assert_int_equal(b[i].b.result, 0);
    }
}

static void conf_close_in_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct conf_dma_end *e = ctx;
    (void)msg;
    (void)size;
    e->messages++;
    snic_dma_close(d);
    e->f->d[e->index] = NULL;
}

static void conf_close_in_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct conf_dma_end *e = ctx;
    (void)cause;
    e->deaths++;
    snic_dma_close(d);
    e->f->d[e->index] = NULL;
}

/** A handle may be closed inside any of its events; no further event comes. */
static void conf_close_in_event(struct conf_dma *f)
{
    f->d[1]->events.recv = conf_close_in_recv;
    f->d[0]->events.death = conf_close_in_death;
    uint32_t had = f->end[1].messages;
    assert_int_equal(snic_dma_send(f->d[0], "a", 1), 1);
    assert_int_equal(snic_dma_send(f->d[0], "b", 1), 1);
    assert_int_equal(snic_dma_ring(f->d[0], 3), 0);
    conf_dma_until(f, &f->end[0].deaths, 1);
    conf_dma_spin(f, 50);
    assert_int_equal(f->end[1].messages, had + 1);
    assert_in_range(f->end[1].bells[3], 0, 1); /* it may have come before the message */
    assert_null(f->d[0]);
    assert_null(f->d[1]);
}

struct conf_closer {
    struct conf_dma_batch b;
    struct conf_dma *f;
};

static void conf_done_closes(struct snic_dma_batch *b)
{
    struct conf_closer *c = (struct conf_closer *)(void *)b;
    c->b.completed++;
    snic_dma_close(c->f->d[1]);
    c->f->d[1] = NULL;
}

static void conf_close_in_done(struct conf_dma *f)
{
    uint64_t key;
    unsigned char buf[8] = {0};
    (void)conf_region(f, 0, 4096, 0, &key);
    struct conf_closer c = {.f = f};
    struct conf_dma_batch others[4];
    memset(others, 0, sizeof(others));
    (void)conf_op(&c.b, SNIC_DMA_WRITE, 0, key, 0, buf, 8);
    c.b.b.ops = c.b.ops;
    c.b.b.done = conf_done_closes;
    struct snic_dma_batch *list = &c.b.b;
    assert_int_equal(snic_dma_submit(f->d[1], &list, 1), 1);
    for (int i = 0; i < 4; i++) {
        (void)conf_op(&others[i], SNIC_DMA_WRITE, 0, key, 8, buf, 8);
        assert_int_equal(conf_submit(f, 1, &others[i]), 1);
    }
    conf_dma_until(f, &f->end[0].deaths, 1);
    assert_int_equal(c.b.completed, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(others[i].completed, 1);
}

void conformance_dma_run(const struct conf_dma_backend *b, uint32_t sim_caps, uint32_t sim_chunk)
{
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed());
    static struct conf_dma f; /* large */
    int before = conf_dma_fds();
    for (int n = 0; n < 15; n++) {
        f.sim_caps = sim_caps;
        f.sim_chunk = sim_chunk;
        conf_dma_setup(&f, b);
        switch (n) {
        case 0:
            conf_read_write(&f, &rng);
            break;
        case 1:
            conf_errors(&f);
            break;
        case 2:
            conf_memory(&f);
            break;
        case 3:
            conf_atomics(&f);
            break;
        case 4:
            conf_order(&f, &rng);
            break;
        case 5:
            conf_failed_batch(&f);
            break;
        case 6:
            conf_many_batches(&f);
            break;
        case 7:
            conf_messages(&f, &rng);
            break;
        case 8:
            conf_doorbells(&f, &rng);
            break;
        case 9:
            conf_map(&f);
            break;
        case 10:
        case 11:
            conf_close(&f, n - 10);
            break;
        case 12:
            conf_close_in_flight(&f, 1);
            break;
        case 13:
            conf_close_in_event(&f);
            break;
        default:
            conf_close_in_done(&f);
            break;
        }
        conf_dma_teardown(&f);
    }
    f.sim_caps = sim_caps;
    f.sim_chunk = sim_chunk;
    conf_dma_setup(&f, b);
    conf_close_in_flight(&f, 0);
    conf_dma_teardown(&f);
    assert_int_equal(conf_dma_fds(), before); /* nothing leaks */
}
