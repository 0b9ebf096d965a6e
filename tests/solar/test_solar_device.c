/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Offloading to hardware that lies: one agent and one block server, each over a device that flips
 * bits on demand (sim/solar_device.h). Every place where a bit can flip, for writes and for reads:
 * what is detected is detected, and comes out right; what is undetectable is shown not to be.
 *
 *   flip in                  write                           read
 *   client memory            not detectable; client's own    -
 *   block, before checksum   not detectable but by samples   checksum made when it was written
 *   checksum                 server; lies on: quarantine     agent, which sums in software then
 *   cipher                   when it is read (block_tag)     block_tag
 *   block, after checksum    server                          agent
 *   headers                  their receiver                  their receiver
 *   Block entry              its check value                 the same
 *   Addr entry               -                               its check value
 *   DMA address              -                               compared; only a window prevents it
 *   QoS entry                its check value                 the same
 */
#include "sim/solar_device.h"
#include "support.h"

#include <stdlib.h>

#define BAG 128
#define BLOCKS 64
#define SEG_ID UINT64_C(0x5e61d0c5a97b3f21)
#define VD_ID UINT64_C(0x7d)

enum { AGENT, SERVER };

struct letter {
    uint32_t size, to, path, gen;
    unsigned char bytes[SNIC_EBS_PACKET_BYTES];
};

struct rig {
    struct device dev[2];
    struct snic_solar *c;
    struct snic_solar_target *t;
    unsigned char *cmem;
    void *tmem;
    size_t csize;
    uint64_t now;
    uint32_t letters, done, maps, ports;
    uint32_t misdirected; /* requests for what is not there */
    uint64_t naks, wrong; /* the agent's, as last seen */
    uint64_t version[BLOCKS];
    struct snic_ebs_read_block meta[BLOCKS];
    unsigned char store[BLOCKS][SNIC_EBS_BLOCK_BYTES];
    unsigned char host[BLOCKS][SNIC_EBS_BLOCK_BYTES];
    struct letter bag[BAG];
};

static struct rig rig;

static void rig_open(struct rig *r, int encrypted)
{
    struct snic_solar_opts o = {.opts_size = sizeof(o), .client_epoch = 3, .servers_max = 1};
    struct snic_solar_target_opts k = {.opts_size = sizeof(k), .srv_epoch = 9};
    struct snic_ebs_disk_opts disk = {
        .opts_size = sizeof(disk), .sa_epoch = 1, .blocks = 512, .vd_id = VD_ID};
    memset(r, 0, sizeof(*r));
    r->now = 1000;
    device_init(&r->dev[AGENT]);
    device_init(&r->dev[SERVER]);
    o.rpcs_max = 16;
    o.seed = support_seed();
    o.flags = encrypted ? SNIC_SOLAR_CRYPTO : 0;
    o.crc = device_crc;
    o.crc_ctx = &r->dev[AGENT];
    o.sec = &device_sec;
    k.crc = device_crc;
    k.crc_ctx = &r->dev[SERVER];
    disk.xts_key = encrypted ? &r->dev[AGENT] : NULL;
    r->csize = snic_solar_memsize(&o);
    size_t size = snic_solar_target_memsize(&k);
    r->cmem = support_guard_alloc(r->csize, SNIC_SOLAR_ALIGN);
    r->tmem = support_guard_alloc(size, SNIC_SOLAR_ALIGN);
    assert_int_equal(snic_solar_init(&r->c, r->cmem, r->csize, &o, r->now), 0);
    assert_int_equal(snic_solar_target_init(&r->t, r->tmem, size, &k, r->now), 0);
    assert_int_equal(snic_solar_server_add(r->c, 0, r->now), 0);
    assert_int_equal(snic_solar_attach(r->c, 0, &disk, r->now), 0);
}

static void rig_close(struct rig *r)
{
    assert_int_equal(snic_solar_target_check(r->t), 0);
    assert_int_equal(snic_solar_check(r->c), 0);
    assert_ptr_equal(snic_solar_fini(r->c), r->cmem);
    assert_ptr_equal(snic_solar_target_fini(r->t), r->tmem);
    support_guard_free(r->cmem);
    support_guard_free(r->tmem);
}

static void rig_post(struct rig *r, const struct snic_solar_train *t, uint32_t from)
{
    for (uint32_t i = 0; i < t->packets; i++) {
        struct letter *l = &r->bag[r->letters++];
        assert_true(r->letters < BAG);
        l->to = 1 - from;
        l->path = from == AGENT ? t->path : (uint32_t)t->peer.word[0];
        l->gen = from == AGENT ? t->gen : (uint32_t)t->peer.word[1];
        l->size = device_send(&r->dev[from], t, i, l->bytes);
    }
}

static void rig_serve(struct rig *r, const struct snic_ebs_request *q)
{
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    uint32_t n = 0;
    if (q->seg_id != SEG_ID || q->vd_id != VD_ID || q->lba >= BLOCKS || q->block != q->lba) {
        r->misdirected++;
        snic_solar_target_answer(r->t, q, SNIC_EBS_NO_SEGMENT, 0, 0, r->now);
        return;
    }
    if (q->op == SNIC_EBS_DO_WRITE) {
        struct snic_ebs_read_block *b = &r->meta[q->block];
        if (q->wver > b->wver) {
            memcpy(r->store[q->block], q->data, SNIC_EBS_BLOCK_BYTES);
            *b = (struct snic_ebs_read_block){r->store[q->block], q->wver, q->data_crc,
                                              q->block_tag,       0,       0};
        }
        snic_solar_target_answer(r->t, q, SNIC_EBS_OK, q->data_crc, 0, r->now);
        return;
    }
    memset(blocks, 0, sizeof(blocks));
    for (uint64_t left = q->need; left != 0; left &= left - 1)
        blocks[n++] = r->meta[q->block + (uint32_t)__builtin_ctzll(left)];
    assert_true(snic_solar_target_read_done(r->t, q, blocks, 1, r->now) > 0);
}

static void rig_act(struct rig *r, const struct snic_ebs_action *a)
{
    if (a->type == SNIC_EBS_ACT_SEND) {
        rig_post(r, a->train, AGENT);
        snic_solar_sent(r->c, a->train, r->now);
    } else if (a->type == SNIC_EBS_ACT_OPEN) {
        uint16_t port = (uint16_t)(50000 + r->ports++);
        assert_int_equal(snic_solar_path_opened(r->c, 0, a->path, a->gen, port, r->now), 0);
    } else if (a->type == SNIC_EBS_ACT_MAP) {
        r->maps++;
        assert_int_equal(snic_solar_map(r->c, 0, 0, SEG_ID, 0, r->maps, r->now), 0);
    } else if (a->type == SNIC_EBS_ACT_DONE) {
        r->done++;
    }
}

static void rig_poll(struct rig *r)
{
    struct snic_ebs_action a;
    struct snic_solar_train *t;
    while (snic_solar_target_poll(r->t, &t, 1, r->now) == 1) {
        rig_post(r, t, SERVER);
        snic_solar_target_sent(r->t, t);
    }
    while (snic_solar_poll(r->c, &a, 1, r->now) == 1)
        rig_act(r, &a);
}

/* The owner looks at what the engine counts, and blames its device. */
static void rig_judge(struct rig *r)
{
    struct snic_solar_stats s;
    snic_solar_get_stats(r->c, &s);
    if (s.naks + s.data_crc != r->naks + r->wrong)
        device_blame(&r->dev[AGENT], 1);
    r->naks = s.naks;
    r->wrong = s.data_crc;
}

static void rig_turn(struct rig *r)
{
    uint32_t n = r->letters;
    static struct letter now[BAG];
    r->now += 20000;
    memcpy(now, r->bag, n * sizeof(now[0]));
    r->letters = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct letter *l = &now[i];
        struct snic_ebs_peer peer = {{l->path, l->gen, 0}};
        struct snic_ebs_request q;
        if (l->to == AGENT)
            (void)snic_solar_recv(r->c, 0, l->path, l->gen, l->bytes, l->size, 0, r->now);
        else if (snic_solar_target_recv(r->t, &peer, l->bytes, l->size, 0, &q, r->now) == 1)
            rig_serve(r, &q);
    }
    rig_poll(r);
    rig_judge(r);
    uint64_t due = snic_solar_deadline_ns(r->c);
    if (r->letters == 0 && due != SNIC_NEVER)
        r->now = snic_max_u64(r->now, due);
}

static void io_begin(struct rig *r, struct snic_ebs_io *io, struct snic_iov *v, uint8_t op,
                     uint32_t lba, uint32_t count)
{
    memset(io, 0, sizeof(*io));
    v->base = r->host[lba];
    v->size = (size_t)count * SNIC_EBS_BLOCK_BYTES;
    io->op = op;
    io->lba = lba;
    io->blocks = count;
    io->iov = v;
    io->iov_count = 1;
    assert_int_equal(snic_solar_submit(r->c, io, r->now), 0);
}

/* One I/O from and to the client's memory at the same place; its result. */
static int io_do(struct rig *r, uint8_t op, uint32_t lba, uint32_t count)
{
    struct snic_ebs_io io;
    struct snic_iov v;
    uint32_t done = r->done;
    io_begin(r, &io, &v, op, lba, count);
    rig_poll(r);
    for (uint32_t i = 0; i < 3000 && r->done == done; i++)
        rig_turn(r);
    assert_int_equal(r->done, done + 1);
    if (op == SNIC_EBS_IO_WRITE && io.result == 0 && io.retries == 0)
        device_blame(&r->dev[AGENT], 0);
    return io.result;
}

static void fill(struct rig *r, uint32_t lba, uint32_t count, uint32_t seed)
{
    struct snic_rng g;
    snic_rng_init(&g, support_seed() * 1000003 + seed);
    snic_rng_fill(&g, r->host[lba], (size_t)count * SNIC_EBS_BLOCK_BYTES);
}

static void lie(struct rig *r, uint32_t who, enum device_point point, uint32_t type, uint32_t bit,
                uint32_t count)
{
    struct device_fault f = {.point = point, .type = type, .bit = bit, .count = count};
    device_lie(&r->dev[who], &f);
}

/* Packets and blocks that either end found to be damaged. */
static uint64_t found(const struct rig *r)
{
    struct snic_solar_stats a;
    struct snic_solar_target_stats t;
    snic_solar_get_stats(r->c, &a);
    snic_solar_target_get_stats(r->t, &t);
    return a.malformed + a.refused + a.data_crc + t.malformed + t.refused + t.data_crc;
}

/* A write of fresh bytes, then a read of them, either of which meets the fault: all is right. */
static void round_trip(struct rig *r, uint32_t lba, uint32_t count, uint32_t seed)
{
    static unsigned char wanted[BLOCKS][SNIC_EBS_BLOCK_BYTES];
    size_t size = (size_t)count * SNIC_EBS_BLOCK_BYTES;
    fill(r, lba, count, seed);
    memcpy(wanted, r->host[lba], size);
    assert_int_equal(io_do(r, SNIC_EBS_IO_WRITE, lba, count), 0);
    memset(r->host[lba], 0xee, size);
    assert_int_equal(io_do(r, SNIC_EBS_IO_READ, lba, count), 0);
    assert_memory_equal(r->host[lba], wanted, size);
}

/* Damage of the client's memory before anything is computed: only the client can know. */
static void test_device_host_memory_only_host_detects(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 0);
    fill(r, 3, 1, 1);
    uint32_t own = snic_crc32c(0, r->host[3], SNIC_EBS_BLOCK_BYTES); /* the client's DIF */
    r->host[3][100] ^= 4;
    assert_int_equal(io_do(r, SNIC_EBS_IO_WRITE, 3, 1), 0);
    assert_int_equal(io_do(r, SNIC_EBS_IO_READ, 3, 1), 0);
    assert_int_equal(found(r), 0);
    assert_int_not_equal(snic_crc32c(0, r->host[3], SNIC_EBS_BLOCK_BYTES), own);
    rig_close(r);
}

/* A block that changes after its checksum must not be stored, or reach the client. */
static void test_device_data_after_checksum_found_and_sent_again(void **state)
{
    struct rig *r = &rig;
    uint32_t step = (uint32_t)support_stride(41, 331);
    (void)state;
    rig_open(r, 0);
    round_trip(r, 0, 1, 0);
    for (uint32_t bit = (uint32_t)support_turn(step); bit < 32768; bit += step) {
        for (uint32_t who = 0; who < 2; who++) {
            uint64_t before = found(r);
            lie(r, who, DEVICE_DATA, who == AGENT ? SNIC_EBS_WRITE : SNIC_EBS_READ_RESP, bit, 1);
            round_trip(r, bit % 7, 1, bit);
            assert_int_equal(r->dev[who].hits, 1);
            assert_int_equal(found(r), before + 1);
        }
    }
    rig_close(r);
}

/* A header that changes on the way must not be believed, whatever it then holds. */
static void test_device_headers_every_bit_found(void **state)
{
    static const struct {
        uint32_t who, type, bits;
    } packets[] = {{AGENT, SNIC_EBS_WRITE, 1024},
                   {AGENT, SNIC_EBS_READ_REQ, 1024},
                   {SERVER, SNIC_EBS_ACKV, 768},
                   {SERVER, SNIC_EBS_READ_RESP, 1024}};
    struct rig *r = &rig;
    uint32_t step = (uint32_t)support_stride(1, 5);
    (void)state;
    for (uint32_t k = 0; k < SNIC_COUNTOF(packets); k++) {
        rig_open(r, 0);
        round_trip(r, 0, 1, 0);
        for (uint32_t bit = (uint32_t)support_turn(step); bit < packets[k].bits; bit += step) {
            uint64_t before = found(r);
            lie(r, packets[k].who, DEVICE_HEADER, packets[k].type, bit, 1);
            round_trip(r, bit % 7, 1, bit);
            assert_int_equal(r->dev[packets[k].who].hits, 1);
            assert_true(found(r) > before);
        }
        assert_int_equal(r->misdirected, 0);
        rig_close(r);
    }
}

/* A wrong checksum would be believed, or an engine that keeps lying be used for ever. */
static void test_device_checksum_wrong_once_healed_always_quarantined(void **state)
{
    struct rig *r = &rig;
    (void)state;
    for (uint32_t bit = 0; bit < 32; bit++) {
        rig_open(r, 0);
        r->dev[AGENT].distrust = 3;
        for (uint32_t who = 0; who < 2; who++) { /* for the write; the server's: on its arrival */
            uint64_t before = found(r);
            lie(r, who, DEVICE_CRC, 0, bit, 1);
            round_trip(r, 5, 1, bit);
            /* The server looks into a difference itself, and no peer hears of it. */
            assert_int_equal(found(r), before + (who == AGENT));
            lie(r, who, DEVICE_NONE, 0, 0, 0);
        }
        struct device_fault second = {.point = DEVICE_CRC, .bit = bit, .skip = 1, .count = 1};
        device_lie(&r->dev[AGENT], &second); /* of what was read */
        round_trip(r, 5, 1, bit + 1);
        assert_int_equal(r->dev[AGENT].hits, 1);
        assert_int_equal(r->dev[AGENT].quarantined, 0);
        lie(r, AGENT, DEVICE_CRC, 0, bit, 0);
        for (uint32_t i = 0; i < 4 && !r->dev[AGENT].quarantined; i++)
            round_trip(r, 6, 4, bit + 2 + i);
        assert_int_equal(r->dev[AGENT].quarantined, 1);
        assert_true(r->dev[AGENT].hits >= 3);
        uint64_t before = found(r);
        round_trip(r, 6, 4, bit + 3);
        assert_int_equal(found(r), before);
        rig_close(r);
    }
}

/* An engine that begins to lie while a disk is read does no harm: a difference is looked into. */
static void test_device_checksum_wrong_in_reads_right_all_the_same(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 0);
    r->dev[AGENT].distrust = 3;
    round_trip(r, 0, 8, 1);
    lie(r, AGENT, DEVICE_CRC, 0, 9, 0);
    memset(r->host[0], 0xee, 8 * SNIC_EBS_BLOCK_BYTES);
    uint64_t before = found(r);
    assert_int_equal(io_do(r, SNIC_EBS_IO_READ, 0, 8), 0);
    assert_int_equal(r->dev[AGENT].hits, 8);
    assert_int_equal(found(r), before);
    assert_memory_equal(r->host[0], r->store[0], 8 * SNIC_EBS_BLOCK_BYTES);
    rig_close(r);
}

/* What the device damages before it sums it is stored: one flip is seen one time in 64. */
static void test_device_data_before_checksum_written_only_samples_see(void **state)
{
    struct rig *r = &rig;
    uint32_t caught = 0;
    (void)state;
    rig_open(r, 0);
    r->dev[AGENT].sample = 64;
    r->dev[AGENT].distrust = 1;
    lie(r, AGENT, DEVICE_FETCH, 0, 12345, 0); /* all the time */
    uint32_t writes = 0, wrong = 0;
    for (; writes < 65 && !r->dev[AGENT].quarantined; writes++) {
        fill(r, 9, 1, writes);
        r->dev[AGENT].crc_number |= writes == 0; /* the first is spared */
        assert_int_equal(io_do(r, SNIC_EBS_IO_WRITE, 9, 1), 0);
        wrong += memcmp(r->store[9], r->host[9], SNIC_EBS_BLOCK_BYTES) != 0;
    }
    assert_int_equal(r->dev[AGENT].caught, 1);
    assert_int_equal(wrong, writes - 1); /* stored, acknowledged, wrong */
    assert_memory_equal(r->store[9], r->host[9], SNIC_EBS_BLOCK_BYTES);
    for (uint32_t i = 0; i < 256; i++) { /* single flips */
        r->dev[AGENT].quarantined = 0;
        r->dev[AGENT].wrong = 0;
        uint64_t before = r->dev[AGENT].caught;
        lie(r, AGENT, DEVICE_FETCH, 0, i * 97, 1);
        fill(r, 9, 1, i);
        assert_int_equal(io_do(r, SNIC_EBS_IO_WRITE, 9, 1), 0);
        int same = memcmp(r->store[9], r->host[9], SNIC_EBS_BLOCK_BYTES) == 0;
        assert_int_equal(same, r->dev[AGENT].caught > before);
        caught += (uint32_t)same;
    }
    assert_in_range(caught, 3, 5);
    rig_close(r);
}

/* What the device damages before it sums it never gets to the client: the sum is older. */
static void test_device_data_before_checksum_read_right(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 0);
    round_trip(r, 0, 8, 1);
    for (uint32_t bit = 0; bit < 32768; bit += 513) {
        uint64_t before = found(r);
        lie(r, AGENT, DEVICE_FETCH, 0, bit, 1);
        memset(r->host[0], 0xee, 8 * SNIC_EBS_BLOCK_BYTES);
        assert_int_equal(io_do(r, SNIC_EBS_IO_READ, 0, 8), 0);
        assert_memory_equal(r->host[0], r->store[0], 8 * SNIC_EBS_BLOCK_BYTES);
        assert_int_equal(r->dev[AGENT].hits, 1);
        assert_int_equal(found(r), before);
    }
    rig_close(r);
}

/* A cipher that errs when it writes makes a block that cannot be read, and reports it; one that
   errs when it reads is used again. */
static void test_device_cipher_wrong_found_by_plaintext_sum(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 1);
    round_trip(r, 0, 8, 1);
    assert_memory_not_equal(r->store[0], r->host[0], SNIC_EBS_BLOCK_BYTES);
    for (uint32_t bit = 0; bit < 32768; bit += 1023) {
        uint64_t before = found(r);
        lie(r, AGENT, DEVICE_DECRYPT, 0, bit, 1);
        round_trip(r, 2, 1, bit);
        assert_int_equal(found(r), before + 1);
        lie(r, AGENT, DEVICE_ENCRYPT, 0, bit, 1);
        fill(r, 3, 1, bit);
        assert_int_equal(io_do(r, SNIC_EBS_IO_WRITE, 3, 1), 0); /* no end has its plaintext there */
        assert_int_equal(io_do(r, SNIC_EBS_IO_READ, 3, 1), SNIC_ECORRUPT);
    }
    rig_close(r);
}

/* The only place in the agent's memory where @p word is at @p at of @p size bytes that
   @p next follows at @p next_at. */
static unsigned char *entry_of(struct rig *r, uint64_t word, size_t at, uint64_t next,
                               size_t next_at, size_t size)
{
    unsigned char *entry = NULL;
    for (size_t i = 0; i + size <= r->csize; i += 8) {
        uint64_t a, b;
        memcpy(&a, r->cmem + i + at, 8);
        memcpy(&b, r->cmem + i + next_at, 8);
        if (a != word || b != next)
            continue;
        assert_null(entry);
        entry = r->cmem + i;
    }
    assert_non_null(entry);
    return entry;
}

/* A damaged Block entry would send a block to another server, or to another segment there. */
static void test_device_block_entry_every_bit_looked_up_again(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 0);
    round_trip(r, 0, 1, 0);
    for (uint32_t bit = 0; bit < 24 * 8; bit++) {
        uint32_t maps = r->maps;
        unsigned char *e = entry_of(r, SEG_ID, 0, (uint64_t)maps << 32, 8, 24);
        e[bit / 8] ^= (unsigned char)(1u << bit % 8);
        round_trip(r, bit % BLOCKS, 1, bit);
        assert_int_equal(r->maps, maps + 1);
    }
    assert_int_equal(r->misdirected, 0);
    rig_close(r);
}

/* A damaged Addr entry would put a block anywhere into the client's memory. */
static void test_device_addr_entry_every_bit_requested_again(void **state)
{
    struct rig *r = &rig;
    (void)state;
    rig_open(r, 0);
    round_trip(r, 0, 3, 0);
    for (uint32_t bit = 0; bit < 48 * 8; bit++) {
        struct snic_ebs_io io;
        struct snic_iov v;
        uint32_t done = r->done;
        memset(r->host[0], 0xee, 3 * SNIC_EBS_BLOCK_BYTES);
        io_begin(r, &io, &v, SNIC_EBS_IO_READ, 1, 1);
        rig_poll(r); /* it is asked for */
        unsigned char *e = entry_of(r, SEG_ID, 8, (uint64_t)(uintptr_t)r->host[1], 24, 48);
        e[bit / 8] ^= (unsigned char)(1u << bit % 8);
        for (uint32_t i = 0; i < 3000 && r->done == done; i++)
            rig_turn(r);
        assert_int_equal(r->done, done + 1);
        assert_int_equal(io.result, 0);
        assert_memory_equal(r->host[1], r->store[1], SNIC_EBS_BLOCK_BYTES);
        for (uint32_t k = 0; k < SNIC_EBS_BLOCK_BYTES; k++)
            assert_true(r->host[0][k] == 0xee && r->host[2][k] == 0xee);
    }
    rig_close(r);
}

/* The address itself: software finds out when it is too late, a window in time. */
static void test_device_dma_address_compared_window_prevents(void **state)
{
    static unsigned char memory[BLOCKS][SNIC_EBS_BLOCK_BYTES];
    static unsigned char block[SNIC_EBS_BLOCK_BYTES];
    struct device d;
    (void)state;
    memset(block, 0x77, sizeof(block));
    for (uint32_t open = 0; open < 2; open++) {
        for (uint32_t bit = 0; bit < 32; bit++) {
            struct device_fault f = {.point = DEVICE_ADDRESS, .bit = bit, .count = 1};
            uint32_t stray = 0;
            device_init(&d);
            device_lie(&d, &f);
            memset(memory, 0, sizeof(memory));
            assert_int_equal(
                device_put(&d, memory[0], BLOCKS, 9, open ? 0 : 9, open ? BLOCKS : 1, block), 1);
            assert_int_equal(d.misplaced, 1);
            assert_memory_equal(memory[9], block, sizeof(block));
            for (uint32_t i = 0; i < BLOCKS; i++)
                stray += i != 9 && memory[i][0] != 0;
            assert_int_equal(stray, open && (9 ^ (bit < 6 ? 1u << bit : 64)) < BLOCKS);
            assert_int_equal(d.blocked, !stray);
            assert_int_equal(device_put(&d, memory[0], BLOCKS, 9, 9, 1, block), 0);
        }
    }
}

/* A damaged QoS entry would let a disk run free, or stand still: it is noticed and set anew. */
static void test_device_qos_entry_every_bit_set_again(void **state)
{
    struct snic_ebs_qos_opts o = {.opts_size = sizeof(o), .disks = 2};
    struct snic_ebs_qos_limits l = {1u << 20, 1000, 1u << 16, 100};
    size_t size = snic_ebs_qos_memsize(&o);
    unsigned char *mem = support_guard_alloc(size, SNIC_EBS_ALIGN);
    unsigned char *golden = malloc(size);
    struct snic_ebs_qos *q = NULL;
    uint32_t bits = 0;
    (void)state;
    assert_non_null(golden);
    assert_int_equal(snic_ebs_qos_init(&q, mem, size, &o), 0);
    memcpy(golden, mem, size);
    assert_int_equal(snic_ebs_qos_set(q, 1, &l, 1), 0);
    size_t first = 0, last = size - 1;
    while (mem[first] == golden[first])
        first++;
    while (mem[last] == golden[last])
        last--;
    for (size_t i = first; i <= last; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            mem[i] ^= (unsigned char)(1u << bit);
            assert_int_equal(snic_ebs_qos_admit(q, 1, 4096, 2), SNIC_ECORRUPT);
            assert_int_equal(snic_ebs_qos_set(q, 1, &l, 1), 0);
            assert_int_equal(snic_ebs_qos_check(q), 0);
            bits++;
        }
    }
    assert_in_range(bits, 8 * 70, 8 * 80); /* an entry */
    assert_int_equal(snic_ebs_qos_admit(q, 1, 4096, 2), 0);
    (void)snic_ebs_qos_fini(q);
    support_guard_free(mem);
    free(golden);
}

/* The aggregate over a segment, which is all that software looks at when hardware sums: wrong sums,
   blocks that changed places and one that is missing are seen; the exclusive or of sums, which is
   what the paper prints, is blind to two of them. */
static void test_device_aggregate_sees_what_xor_does_not(void **state)
{
    uint32_t crc[BLOCKS], agg = 0, xor = 0;
    struct rig *r = &rig;
    (void)state;
    memset(r, 0, sizeof(*r));
    fill(r, 0, BLOCKS, 1);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        crc[i] = snic_crc32c(0, r->host[i], SNIC_EBS_BLOCK_BYTES);
        agg = snic_ebs_agg_add(agg, crc[i]);
        xor ^= crc[i];
    }
    for (uint32_t fault = 0; fault < 4; fault++) {
        uint32_t now = 0, blind = 0, seen[BLOCKS];
        memcpy(seen, crc, sizeof(seen));
        if (fault == 0) {
            seen[11] ^= 1u << 7; /* a wrong sum */
        } else if (fault == 1) {
            seen[3] = crc[4];
            seen[4] = crc[3];
        } else if (fault == 2) { /* the same error in two blocks */
            uint32_t error = snic_crc32c(0, r->host[0], 9) ^ snic_crc32c(0, r->host[1], 9);
            seen[20] ^= error;
            seen[40] ^= error;
        }
        for (uint32_t i = 0; i < BLOCKS - (fault == 3); i++) {
            now = snic_ebs_agg_add(now, seen[i]);
            blind ^= seen[i];
        }
        assert_int_not_equal(now, agg);
        assert_int_equal(blind == xor, fault == 1 || fault == 2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_host_memory_only_host_detects),
        cmocka_unit_test(test_device_data_after_checksum_found_and_sent_again),
        cmocka_unit_test(test_device_headers_every_bit_found),
        cmocka_unit_test(test_device_checksum_wrong_once_healed_always_quarantined),
        cmocka_unit_test(test_device_checksum_wrong_in_reads_right_all_the_same),
        cmocka_unit_test(test_device_data_before_checksum_written_only_samples_see),
        cmocka_unit_test(test_device_data_before_checksum_read_right),
        cmocka_unit_test(test_device_cipher_wrong_found_by_plaintext_sum),
        cmocka_unit_test(test_device_block_entry_every_bit_looked_up_again),
        cmocka_unit_test(test_device_addr_entry_every_bit_requested_again),
        cmocka_unit_test(test_device_dma_address_compared_window_prevents),
        cmocka_unit_test(test_device_qos_entry_every_bit_set_again),
        cmocka_unit_test(test_device_aggregate_sees_what_xor_does_not),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
