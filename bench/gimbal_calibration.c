/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Closed loops on the bare model: each stream keeps so many commands inside, and what completes
 * is replaced at once. Where the paper leaves a condition open, the one assumed here is named:
 * Figure 4 and appendix D's reads are on the fragmented device (their totals of 1.56 to 1.70 GB/s
 * are its limit, whatever the sizes), its writes on the clean one; 90/10 runs at 256 outstanding;
 * the "5 % writes" at each depth from 32 to 512, as the paper names none.
 */
#include "gimbal_calibration.h"

#include "snicstore/ssd.h"

#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
#define STREAM_DEPTH_MAX 512

struct stream {
    uint8_t op;
    uint32_t size;
    uint32_t depth;
    uint32_t writes; /* of 1000 commands, when op is a read */
    uint32_t sequential;
    uint64_t at; /* of the next command, if sequential */
    uint64_t bytes;
    uint64_t count;
    uint64_t latency_ns;
};

struct issued {
    struct snic_ssd_cmd cmd;
    struct stream *stream;
    uint64_t sent_ns;
};

struct bed {
    struct snic_ssd_opts opts;
    struct snic_ssd *ssd;
    struct snic_rng rng;
    struct issued issued[2 * STREAM_DEPTH_MAX];
    struct gimbal_fact *facts;
    size_t count;
    size_t max;
    const char *device;
    int ageing; /* on the map: CLEAN is filled in order, FRAGMENTED overwritten at random */
    void *mem;
    void *image[2]; /* of mem after its preconditioning, by condition */
};

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gimbal_calibration: %s\n", what);
        exit(1);
    }
}

/* ---- Running ---- */

static void issue(struct bed *b, struct issued *i, uint64_t now)
{
    struct stream *s = i->stream;
    i->cmd.op = s->op;
    i->cmd.length = s->size;
    i->sent_ns = now;
    if (s->writes > 0 && snic_rng_below(&b->rng, 1000) < s->writes)
        i->cmd.op = SNIC_SSD_WRITE;
    if (s->sequential)
        i->cmd.offset = s->at;
    else
        i->cmd.offset = snic_rng_below(&b->rng, (UINT64_C(700) << 30) / s->size) * s->size;
    s->at += s->size;
    must(snic_ssd_submit(b->ssd, &i->cmd, now) == 0, "a command was refused");
}

static void account(struct issued *i, uint64_t from)
{
    struct stream *s = i->stream;
    if (i->cmd.done_ns < from)
        return;
    s->bytes += s->size;
    if (i->cmd.op != s->op)
        return; /* of a mixture the latency of its reads */
    s->count++;
    s->latency_ns += i->cmd.done_ns - i->sent_ns;
}

static void *memory(size_t size)
{
    void *mem = aligned_alloc(SNIC_SSD_ALIGN, snic_align_up(size, SNIC_SSD_ALIGN));
    must(mem != NULL, "no memory");
    return mem;
}

/* An idle device of this condition in b->mem. */
static void device(struct bed *b, uint32_t condition, uint32_t n)
{
    b->opts.condition = b->ageing ? SNIC_SSD_AGEING : condition;
    b->opts.queues = b->ageing ? 2 : n;
    b->opts.seed = 1;
    size_t size = snic_ssd_memsize(&b->opts);
    if (b->mem == NULL || !b->ageing)
        b->mem = memory(size);
    if (b->ageing && b->image[condition] != NULL) {
        memcpy(b->mem, b->image[condition], size);
        return;
    }
    must(snic_ssd_init(&b->ssd, b->mem, size, &b->opts) == 0, "no model");
    if (!b->ageing)
        return;
    uint32_t overwrites = condition == SNIC_SSD_FRAGMENTED ? 300 : 0;
    must(snic_ssd_precondition(b->ssd, 1000, overwrites) == 0, "the model does not age");
    b->image[condition] = memory(size);
    memcpy(b->image[condition], b->mem, size);
}

/* Run the streams side by side; what completes in the first warm_ns does not count. */
static void run(struct bed *b, uint32_t condition, struct stream *s, uint32_t n, uint64_t warm_ns,
                uint64_t time_ns)
{
    device(b, condition, n);
    snic_rng_init(&b->rng, 1);
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        must(s[i].depth <= STREAM_DEPTH_MAX, "too deep");
        s[i].at = (uint64_t)i << 36;
        for (uint32_t q = 0; q < s[i].depth; q++) {
            b->issued[k] = (struct issued){.stream = &s[i], .cmd = {.queue = i}};
            issue(b, &b->issued[k++], 0);
        }
    }
    for (uint64_t now = 0; now < warm_ns + time_ns;) {
        now = snic_ssd_deadline_ns(b->ssd);
        struct snic_ssd_cmd *cmd;
        while ((cmd = snic_ssd_poll(b->ssd, now)) != NULL) {
            struct issued *i = SNIC_CONTAINER(cmd, struct issued, cmd);
            account(i, warm_ns);
            issue(b, i, now);
        }
    }
    must(snic_ssd_check(b->ssd) == 0, "the model is damaged");
    if (!b->ageing)
        free(b->mem); /* with the commands inside */
}

static double rate(const struct stream *s, uint64_t time_ns)
{
    return (double)s->bytes * 1000 / (double)time_ns; /* MB/s */
}

static struct stream reads(uint32_t size, uint32_t depth)
{
    return (struct stream){.op = SNIC_SSD_READ, .size = size, .depth = depth};
}

static struct stream writes(uint32_t size, uint32_t depth, uint32_t sequential)
{
    return (struct stream){
        .op = SNIC_SSD_WRITE, .size = size, .depth = depth, .sequential = sequential};
}

/* MB/s of one stream alone. Writing takes long to become steady. */
static double alone(struct bed *b, uint32_t condition, struct stream s)
{
    int mixed = s.op == SNIC_SSD_WRITE || s.writes > 0;
    uint64_t warm = mixed ? 1000 * MS : 100 * MS;
    uint64_t time = mixed ? 2000 * MS : 300 * MS;
    if (b->ageing && mixed && condition == SNIC_SSD_CLEAN && !s.sequential) {
        warm = 20 * MS; /* it ages: only until the first collection */
        time = 60 * MS;
    }
    run(b, condition, &s, 1, warm, time);
    return rate(&s, time);
}

static double latency_us(struct bed *b, uint32_t condition, struct stream s)
{
    run(b, condition, &s, 1, 10 * MS, 250 * MS);
    return (double)s.latency_ns / 1000 / (double)s.count;
}

static void pair(struct bed *b, uint32_t condition, struct stream x, struct stream y, double out[2])
{
    struct stream s[2] = {x, y};
    run(b, condition, s, 2, 300 * MS, 700 * MS);
    out[0] = rate(&s[0], 700 * MS);
    out[1] = rate(&s[1], 700 * MS);
}

static void fact(struct bed *b, const char *name, double low, double high, double model,
                 const char *unit)
{
    must(b->count < b->max, "too many facts");
    struct gimbal_fact *f = &b->facts[b->count++];
    *f = (struct gimbal_fact){
        .device = b->device, .name = name, .unit = unit, .low = low, .high = high, .model = model};
    if (model < low)
        f->error = (model / low - 1) * 100;
    else if (model > high)
        f->error = (model / high - 1) * 100;
}

/* The last fact is at odds with the others. */
static void known_miss(struct bed *b)
{
    b->facts[b->count - 1].missed = 1;
}

/* ---- The DCT983 ---- */

static void facts_reads(struct bed *b)
{
    const uint32_t clean = SNIC_SSD_CLEAN, aged = SNIC_SSD_FRAGMENTED;
    double most = alone(b, clean, reads(4096, 512));
    fact(b, "read_4K_clean", 1600, 1670, most, "MB/s");
    fact(b, "read_4K_fragmented", 1600, 1670, alone(b, aged, reads(4096, 512)), "MB/s");
    fact(b, "read_128K_clean", 3160, 3200, alone(b, clean, reads(131072, 64)), "MB/s");
    fact(b, "read_128K_depth_8", 3160, 3200, alone(b, clean, reads(131072, 8)), "MB/s");
    fact(b, "read_4K_alone", 80, 90, latency_us(b, clean, reads(4096, 1)), "us");
    fact(b, "read_128K_alone_clean", 0, 230, latency_us(b, clean, reads(131072, 1)), "us");
    fact(b, "read_128K_alone_fragmented", 0, 230, latency_us(b, aged, reads(131072, 1)), "us");
    uint32_t depth = 96;
    while (depth < 512 && alone(b, clean, reads(4096, depth)) < 0.95 * most)
        depth += 16;
    fact(b, "read_4K_at_95%_of_the_most", 500, 1000, latency_us(b, clean, reads(4096, depth)),
         "us");
}

static void facts_writes(struct bed *b)
{
    const uint32_t clean = SNIC_SSD_CLEAN, aged = SNIC_SSD_FRAGMENTED;
    double w_clean = alone(b, clean, writes(4096, 256, 0));
    double w_aged = alone(b, aged, writes(4096, 256, 0));
    double r_aged = alone(b, aged, reads(4096, 512));
    fact(b, "write_4K_fragmented", 180, 180, w_aged, "MB/s");
    fact(b, "write_cost_fragmented", 8.9, 8.9, r_aged / w_aged, "reads");
    fact(b, "write_4K_clean", 1065, 1065, w_clean, "MB/s");
    fact(b, "write_128K_clean", 1300, 1300, alone(b, clean, writes(131072, 32, 1)), "MB/s");
    fact(b, "write_4K_fragmented/clean", 16.9, 16.9, w_aged / w_clean * 100, "%");
    struct stream nine = reads(4096, 256);
    nine.writes = 900;
    double mixed = alone(b, aged, nine) / alone(b, clean, nine);
    fact(b, "write_90%_fragmented/clean", 17.8, 17.8, mixed * 100, "%");
    fact(b, "write_4K_into_the_buffer", 70, 70, latency_us(b, clean, writes(4096, 1, 0)), "us");
    static const char *const names[] = {"5%_writes_drop_depth_32", "5%_writes_drop_depth_64",
                                        "5%_writes_drop_depth_128", "5%_writes_drop_depth_256",
                                        "5%_writes_drop_depth_512"};
    for (uint32_t i = 0; i < SNIC_COUNTOF(names); i++) {
        struct stream five = reads(4096, 32u << i);
        double before = alone(b, aged, five);
        five.writes = 50;
        fact(b, names[i], 42.6, 42.6, (1 - alone(b, aged, five) / before) * 100, "%");
    }
    known_miss(b); /* at 512: the fits that hit it miss the others */
}

static void facts_neighbours(struct bed *b)
{
    const uint32_t aged = SNIC_SSD_FRAGMENTED;
    double x[2], reader[2], writer[2];
    pair(b, aged, reads(4096, 32), reads(131072, 1), x);
    fact(b, "fig4_victim_beside_128K_depth_1", 906, 906, x[0], "MB/s");
    fact(b, "fig4_neighbour_128K_depth_1", 377, 377, x[1], "MB/s");
    known_miss(b);
    pair(b, aged, reads(4096, 32), reads(131072, 8), x);
    fact(b, "fig4_victim_beside_128K_depth_8", 411, 411, x[0], "MB/s");
    fact(b, "fig4_neighbour_128K_depth_8", 1275, 1275, x[1], "MB/s");
    known_miss(b);
    fact(b, "fig4_neighbour/victim_depth_8", 3.1, 3.1, x[1] / x[0], "times");
    known_miss(b);
    pair(b, aged, reads(4096, 32), reads(4096, 32), reader);
    pair(b, aged, reads(4096, 32), writes(4096, 32, 0), writer);
    fact(b, "fig4_victim_writer_for_reader", 59.1, 59.1, (1 - writer[0] / reader[0]) * 100, "%");
    pair(b, aged, reads(4096, 256), reads(65536, 256), x);
    fact(b, "appD_4K_beside_64K", 91, 91, x[0], "MB/s");
    fact(b, "appD_64K_beside_4K", 1473, 1473, x[1], "MB/s");
    pair(b, aged, reads(4096, 256), reads(4096, 128), x);
    fact(b, "appD_read_4K_twice_the_depth", 2.0, 2.0, x[0] / x[1], "times");
    pair(b, SNIC_SSD_CLEAN, writes(16384, 64, 1), writes(16384, 32, 1), x);
    fact(b, "appD_write_16K_twice_the_depth", 1.8, 1.8, x[0] / x[1], "times");
    known_miss(b);
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t size = 4096; size <= 131072; size *= 2, n++) {
        pair(b, aged, reads(4096, 128), writes(size, 128, 0), x);
        sum += x[0] / alone(b, aged, reads(4096, 128));
    }
    fact(b, "appD_read_4K_beside_writes", 38.9, 38.9, sum / n * 100, "%");
    known_miss(b);
}

static void facts_latencies(struct bed *b)
{
    double aged = 0, mixed = 0, eight = 0;
    uint32_t n = 0;
    for (uint32_t size = 4096; size <= 262144; size *= 2, n++) {
        double alone_us = latency_us(b, SNIC_SSD_CLEAN, reads(size, 1));
        aged += latency_us(b, SNIC_SSD_FRAGMENTED, reads(size, 1)) / alone_us - 1;
        struct stream mix = reads(size, 1);
        mix.writes = 300;
        mixed += latency_us(b, SNIC_SSD_CLEAN, mix) / alone_us - 1;
        eight += latency_us(b, SNIC_SSD_CLEAN, reads(size, 8)) / alone_us - 1;
    }
    fact(b, "appA_latency_fragmented", 52.0, 52.0, aged / n * 100, "%");
    known_miss(b);
    fact(b, "appA_latency_70/30", 83.6, 83.6, mixed / n * 100, "%");
    known_miss(b);
    fact(b, "appA_latency_depth_8", 80.5, 80.5, eight / n * 100, "%");
    known_miss(b);
}

/* ---- The P3600 ---- */

static void facts_second(struct bed *b, double read_128k, double write_4k)
{
    double r = alone(b, SNIC_SSD_CLEAN, reads(131072, 64));
    double w = alone(b, SNIC_SSD_FRAGMENTED, writes(4096, 256, 0));
    fact(b, "read_128K_clean", 2100, 2100, r, "MB/s");
    fact(b, "read_128K_below_dct983", 33.5, 33.5, (1 - r / read_128k) * 100, "%");
    fact(b, "write_4K_fragmented", 243, 243, w, "MB/s");
    fact(b, "write_4K_above_dct983", 35.0, 35.0, (w / write_4k - 1) * 100, "%");
}

static double model_of(const struct bed *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->facts[i].name, name) == 0)
            return b->facts[i].model;
    }
    must(0, "no such fact");
    return 0;
}

static void forget(struct bed *b)
{
    if (!b->ageing)
        return;
    free(b->mem);
    free(b->image[0]);
    free(b->image[1]);
    b->mem = b->image[0] = b->image[1] = NULL;
}

static size_t facts_of(struct gimbal_fact *out, size_t max, int ageing)
{
    struct bed *b = calloc(1, sizeof(*b));
    must(b != NULL, "no memory");
    b->ageing = ageing;
    b->facts = out;
    b->max = max;
    b->device = "dct983";
    snic_ssd_opts_dct983(&b->opts);
    facts_reads(b);
    facts_writes(b);
    facts_neighbours(b);
    facts_latencies(b);
    double read_128k = model_of(b, "read_128K_clean");
    double write_4k = model_of(b, "write_4K_fragmented");
    forget(b);
    b->device = "p3600";
    snic_ssd_opts_p3600(&b->opts);
    facts_second(b, read_128k, write_4k);
    size_t count = b->count;
    forget(b);
    free(b);
    return count;
}

size_t gimbal_calibration_facts(struct gimbal_fact *out, size_t max)
{
    return facts_of(out, max, 0);
}

size_t gimbal_calibration_ageing_facts(struct gimbal_fact *out, size_t max)
{
    return facts_of(out, max, 1);
}

void gimbal_calibration_rows(void)
{
    struct gimbal_fact facts[GIMBAL_FACTS_MAX];
    size_t count = gimbal_calibration_facts(facts, GIMBAL_FACTS_MAX);
    size_t hits = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gimbal_fact *f = &facts[i];
        char name[96];
        int n = snprintf(name, sizeof(name), "calibration_%s_%s", f->device, f->name);
        must(n > 0 && (size_t)n < sizeof(name), "a name too long");
        int hit = f->error >= -GIMBAL_FACT_HIT && f->error <= GIMBAL_FACT_HIT;
        printf("row gimbal %s paper - %.4g %s\n", name, f->low == 0 ? f->high : f->low, f->unit);
        if (f->high > f->low && f->low > 0)
            printf("row gimbal %s paper_to - %.4g %s\n", name, f->high, f->unit);
        printf("row gimbal %s model - %.4g %s\n", name, f->model, f->unit);
        printf("row gimbal %s error - %.3g %%\n", name, f->error);
        printf("row gimbal %s %s - 1 yes\n", name, hit ? "hit" : "miss");
        hits += (size_t)hit;
    }
    printf("row gimbal calibration_hits model - %zu facts\n", hits);
    printf("row gimbal calibration_misses model - %zu facts\n", count - hits);
}
