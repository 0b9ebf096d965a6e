/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a block costs a storage agent before and after the wire: headers with their checksum, the
 * block's checksum and the aggregate, the tables. Beside them what else could have been done: the
 * header copied as a struct, without a checksum; portable checksums; the XOR aggregate; a table
 * without check values. Prints the rows of the benchmark contract: medians of interleaved repeats.
 *
 *   bench_ebs [--seconds N]
 */
#include "snicstore/ebs.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPEATS 7
#define SEGMENTS 65536
#define SLOTS 4096

static unsigned char packet[SNIC_EBS_PACKET_BYTES];
static unsigned char whole[SNIC_EBS_HEADER_BYTES + SNIC_EBS_BLOCK_BYTES]; /* to be decoded */
static unsigned char block[SNIC_EBS_BLOCK_BYTES];
static uint32_t block_size;
static struct snic_ebs_header header;
static struct snic_ebs_qos *qos;
static struct snic_ebs_map *map;
static struct snic_ebs_addr *addr;
static struct snic_ebs_where bare[SEGMENTS]; /* the peer of the map */
static struct snic_rate rates[2];            /* the peer of the buckets */
static volatile uint64_t sink;

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void must(int r)
{
    if (r < 0) {
        fprintf(stderr, "bench_ebs: %s\n", snic_strerror(r));
        exit(1);
    }
}

/* ---- Bodies: do n units of work ---- */

static void run_encode(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        header.path_seq = (uint32_t)i;
        must(snic_ebs_encode(packet, sizeof(packet), NULL, SNIC_EBS_TO_SERVER, &header, NULL,
                             block_size));
    }
    sink = packet[55];
}

static void run_decode(uint64_t n)
{
    struct snic_ebs_header h;
    struct snic_ebs_place at;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        must(snic_ebs_decode(&h, &at, SNIC_EBS_TO_SERVER, whole, sizeof(whole)));
        sum += h.u.block.lba;
    }
    sink = sum;
}

/* Nothing checked, nothing converted: what the bytes alone cost. */
static void run_copy(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        header.path_seq = (uint32_t)i;
        memcpy(packet, &header, SNIC_EBS_HEADER_BYTES);
        __asm__ volatile("" : : "r"(packet) : "memory");
    }
}

static void run_bind(uint64_t n)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++) {
        header.u.block.wver = i;
        crc ^= snic_ebs_bind_crc(&header.u.block);
    }
    sink = crc;
}

static void run_block_crc(uint64_t n)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc ^= snic_crc32c(crc, block, sizeof(block));
    sink = crc;
}

static void run_block_crc_portable(uint64_t n)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc ^= snic_crc32c_portable(crc, block, sizeof(block));
    sink = crc;
}

static void run_agg(uint64_t n)
{
    uint32_t agg = 0;
    for (uint64_t i = 0; i < n; i++)
        agg = snic_ebs_agg_add(agg, (uint32_t)i);
    sink = agg;
}

static void run_agg_portable(uint64_t n)
{
    uint32_t power = snic_crc32c_power(SNIC_EBS_BLOCK_BYTES);
    uint32_t agg = 0;
    for (uint64_t i = 0; i < n; i++)
        agg = snic_crc32c_advance_portable(agg, power) ^ (uint32_t)i;
    sink = agg;
}

static void run_share(uint64_t n)
{
    uint32_t agg = 0;
    for (uint64_t i = 0; i < n; i++)
        agg ^= snic_ebs_agg_share((uint32_t)i, i % SNIC_EBS_RPC_BLOCKS);
    sink = agg;
}

/* The paper's aggregate needs the exclusive or of the data, since the check is of that. */
static void run_agg_xor(uint64_t n)
{
    static uint64_t sum[SNIC_EBS_BLOCK_BYTES / 8];
    const unsigned char *p = block;
    for (uint64_t i = 0; i < n; i++) {
        for (size_t k = 0; k < SNIC_COUNTOF(sum); k++) {
            uint64_t v;
            memcpy(&v, p + k * 8, 8);
            sum[k] ^= v;
        }
        __asm__ volatile("" : : "r"(sum) : "memory");
    }
    sink = sum[0];
}

static void run_qos(uint64_t n)
{
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < n; i++)
        admitted += snic_ebs_qos_admit(qos, i % 64, 4096, i * 100) == 0;
    sink = admitted;
}

/* Two of base's buckets, which have no debt and no check value. */
static void run_rates(uint64_t n)
{
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < n; i++)
        admitted += snic_rate_take(&rates[0], 4096, i * 100) == 0 &&
                    snic_rate_take(&rates[1], 1, i * 100) == 0;
    sink = admitted;
}

static void run_map(uint64_t n)
{
    struct snic_ebs_where w;
    uint64_t sum = 0;
    uint64_t s = 1;
    for (uint64_t i = 0; i < n; i++) {
        s = s * UINT64_C(6364136223846793005) + 1442695040888963407u;
        must(snic_ebs_map_get(map, s >> 48, &w));
        sum += w.seg_id;
    }
    sink = sum;
}

static void run_array(uint64_t n)
{
    struct snic_ebs_where w;
    uint64_t sum = 0;
    uint64_t s = 1;
    for (uint64_t i = 0; i < n; i++) {
        s = s * UINT64_C(6364136223846793005) + 1442695040888963407u;
        w = bare[s >> 48];
        sum += w.seg_id;
    }
    sink = sum;
}

/* One block of a read: expected, matched, released. */
static void run_addr(uint64_t n)
{
    struct snic_ebs_expect e = {.seg_id = 7, .length = SNIC_EBS_BLOCK_BYTES};
    struct snic_ebs_expect got;
    struct snic_ebs_header h;
    memset(&h, 0, sizeof(h));
    h.type = SNIC_EBS_READ_RESP;
    h.u.block.seg_id = 7;
    for (uint64_t i = 0; i < n; i++) {
        e.rpc_id = i;
        e.lba = i;
        must(snic_ebs_addr_put(addr, &e, &h.u.block.addr_slot, &h.u.block.addr_gen));
        h.rpc_id = i;
        h.u.block.lba = i;
        must(snic_ebs_addr_match(addr, &h, &got));
        must(snic_ebs_addr_clear(addr, h.u.block.addr_slot, h.u.block.addr_gen));
    }
    sink = got.lba;
}

/* ---- Cases ---- */

struct bench_case {
    const char *name;
    const char *who;
    void (*run)(uint64_t n);
    uint64_t units;
    double ns[REPEATS]; /* per unit */
};

static struct bench_case cases[] = {
    {"encode", "ours", run_encode, 0, {0}},
    {"encode", "struct_copy", run_copy, 0, {0}},
    {"decode", "ours", run_decode, 0, {0}},
    {"bind_crc", "ours", run_bind, 0, {0}},
    {"block_crc", "ours", run_block_crc, 0, {0}},
    {"block_crc", "portable", run_block_crc_portable, 0, {0}},
    {"aggregate", "ours", run_agg, 0, {0}},
    {"aggregate", "portable", run_agg_portable, 0, {0}},
    {"aggregate", "xor_of_data", run_agg_xor, 0, {0}},
    {"aggregate_share", "ours", run_share, 0, {0}},
    {"qos_admit", "ours", run_qos, 0, {0}},
    {"qos_admit", "two_rates", run_rates, 0, {0}},
    {"map_get", "ours", run_map, 0, {0}},
    {"map_get", "bare_array", run_array, 0, {0}},
    {"addr_put_match_clear", "ours", run_addr, 0, {0}},
};

static void *memory(size_t size)
{
    void *mem = aligned_alloc(SNIC_EBS_ALIGN, (size_t)snic_align_up(size, SNIC_EBS_ALIGN));
    if (mem == NULL)
        exit(1);
    return mem;
}

static void set_up_tables(void)
{
    struct snic_ebs_qos_opts qo = {.opts_size = sizeof(qo), .disks = 64};
    struct snic_ebs_qos_limits l = {UINT64_C(1) << 40, UINT64_C(1) << 40, UINT64_C(1) << 30, 65536};
    struct snic_ebs_map_opts mo = {
        .opts_size = sizeof(mo), .chunks = SEGMENTS / 512, .segments = SEGMENTS};
    struct snic_ebs_addr_opts ao = {.opts_size = sizeof(ao), .slots = SLOTS};

    must(
        snic_ebs_qos_init(&qos, memory(snic_ebs_qos_memsize(&qo)), snic_ebs_qos_memsize(&qo), &qo));
    for (uint32_t i = 0; i < 64; i++)
        must(snic_ebs_qos_set(qos, i, &l, 0));
    must(snic_rate_init(&rates[0], l.bytes_per_second, l.burst_bytes, 0));
    must(snic_rate_init(&rates[1], l.ios_per_second, l.burst_ios, 0));
    must(
        snic_ebs_map_init(&map, memory(snic_ebs_map_memsize(&mo)), snic_ebs_map_memsize(&mo), &mo));
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        bare[i].seg_id = i * 3;
        must(snic_ebs_map_set(map, i, &bare[i]));
    }
    must(snic_ebs_addr_init(&addr, memory(snic_ebs_addr_memsize(&ao)), snic_ebs_addr_memsize(&ao),
                            &ao));
}

static void set_up(void)
{
    struct snic_rng rng;

    snic_rng_init(&rng, 1);
    snic_rng_fill(&rng, block, sizeof(block));
    block_size = sizeof(block);
    header.type = SNIC_EBS_WRITE;
    header.conn_id = 0xc0ffee;
    header.pkt_cnt = 1;
    header.u.block.lba = 512;
    header.u.block.blk_cnt = 1;
    header.u.block.data_crc = snic_crc32c(0, block, sizeof(block));
    header.u.block.bind_crc = snic_ebs_bind_crc(&header.u.block);
    set_up_tables();
    run_encode(1);
    memcpy(whole, packet, SNIC_EBS_HEADER_BYTES);
    memcpy(whole + SNIC_EBS_HEADER_BYTES, block, sizeof(block));
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Units that take about target_ns; the search is also the warm-up. */
static void calibrate(struct bench_case *c, uint64_t target_ns)
{
    for (c->units = 1;; c->units *= 2) {
        uint64_t start = clock_ns();
        c->run(c->units);
        uint64_t spent = clock_ns() - start;
        if (spent > target_ns / 4) {
            c->units = 1 + (uint64_t)((double)c->units * (double)target_ns / (double)spent);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    double seconds = 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
    }
    if (!(seconds > 0) || seconds > 3600)
        seconds = 2;
    uint64_t target =
        (uint64_t)(seconds * 1e9 / (double)((REPEATS + 1) * SNIC_COUNTOF(cases))) + 1000;

    set_up();
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++)
        calibrate(&cases[i], target);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
            uint64_t start = clock_ns();
            cases[i].run(cases[i].units);
            cases[i].ns[repeat] = (double)(clock_ns() - start) / (double)cases[i].units;
        }
    }
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        qsort(cases[i].ns, REPEATS, sizeof(cases[i].ns[0]), by_double);
        printf("row ebs %s %s 1 %.2f ns/op\n", cases[i].name, cases[i].who,
               cases[i].ns[REPEATS / 2]);
    }
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        for (size_t j = 0; j < SNIC_COUNTOF(cases); j++) {
            if (strcmp(cases[i].who, "ours") == 0 && strcmp(cases[j].who, "ours") != 0 &&
                strcmp(cases[i].name, cases[j].name) == 0)
                printf("ratio ebs %s ours/%s 1 %.2f\n", cases[i].name, cases[j].who,
                       cases[j].ns[REPEATS / 2] / cases[i].ns[REPEATS / 2]);
        }
    }
    return 0;
}
