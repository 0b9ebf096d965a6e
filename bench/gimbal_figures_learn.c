/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch that learns its device (SNIC_GIMBAL_LEARN) beside one whose parameters were chosen by
 * hand, on three devices:
 *
 *   dct983  the defaults are its parameters
 *   p3600   thresh_max 3 ms, as the paper has it; nothing was tuned on it
 *   fast    14 GB/s, 20 us, invented; the defaults: what is learned does not go below
 *
 * Loads: mixed, 16 readers beside 16 writers (clean: 128 KiB, fragmented: 4 KiB); sizes, 16 readers
 * of 4 KiB beside 4 of 128 KiB; reads, writes: 16 alone. off_by: by how much a group's f-Util is
 * another than by hand, the largest of the load, of means over the seeds. converged: from when on
 * both thresholds stay within a tenth of their last value; the worst seed.
 */
#include "gimbal_figures.h"

enum { MIXED, SIZES, READS, WRITES, LOADS };
static const char *const learn_load[LOADS] = {"mixed", "sizes", "reads", "writes"};

#define MS UINT64_C(1000000)
#define SAMPLE_NS (10 * MS)

static const struct learn_device {
    const char *name;
    uint32_t device;
    uint64_t thresh_min_ns;
    uint64_t thresh_max_ns;
    uint64_t time_part; /* of the usual time: it has more I/Os in it */
} learn_devices[] = {
    {"dct983", SIM_DCT983, 0, 0, 1},
    {"p3600", SIM_P3600, 0, 3 * MS, 1},
    {"fast", SIM_FAST, 0, 0, 2},
};

static void learn_spec(struct sim_spec *s, const struct learn_device *d, uint32_t condition,
                       uint32_t load)
{
    uint32_t size = condition == SNIC_SSD_CLEAN ? 128 * KIB : 4 * KIB;
    fig_spec(s, &fig_who[FIG_OURS], condition);
    if (load == MIXED)
        fig_mixed(s, &fig_who[FIG_OURS], condition);
    else
        fig_short(s);
    if (load == SIZES) {
        fig_group(s, 0, 16, SNIC_GIMBAL_READ, 4 * KIB);
        fig_group(s, 1, 4, SNIC_GIMBAL_READ, 128 * KIB);
    } else if (load != MIXED) {
        fig_group(s, 0, 16, load == READS ? SNIC_GIMBAL_READ : SNIC_GIMBAL_WRITE, size);
    }
    s->device = d->device;
    s->time_ns /= d->time_part;
    if (load == MIXED)
        s->warm_ns = 2000 * MS; /* what learning may take */
}

static void learn_by_hand(struct sim_spec *s, const struct learn_device *d)
{
    s->gimbal.thresh_min_ns = d->thresh_min_ns;
    s->gimbal.thresh_max_ns = d->thresh_max_ns;
}

static void learn_itself(struct sim_spec *s)
{
    s->gimbal.flags = SNIC_GIMBAL_LEARN;
    s->sample_ns = SAMPLE_NS;
}

/* MB/s per worker of a group over its share of what 16 of its kind have alone. */
static double learn_futil(const struct sim_spec *s, uint32_t condition, uint32_t group)
{
    const struct sim_group *g = &s->group[group];
    double v[FIG_SEEDS_MAX];
    uint32_t workers = s->group[0].workers + s->group[1].workers;
    const struct sim_result *r = fig_results(s);
    double alone = fig_standalone(s->device, condition, g->op, g->size);
    for (uint32_t i = 0; i < fig_seeds(); i++)
        v[i] = alone > 0 ? r[i].group[group].mbps / g->workers / (alone / workers) : 0;
    return fig_mean(v);
}

static double learn_off_by(double got, double want)
{
    double off = want > 0 ? (got / want - 1) * 100 : 0;
    return off < 0 ? -off : off;
}

/* Milliseconds from @p from_ns until the thresholds are what they are at the end, worst seed. */
static double learn_converged(const struct sim_spec *s, uint64_t from_ns)
{
    const struct sim_result *r = fig_results(s);
    double worst = 0;
    for (uint32_t seed = 0; seed < fig_seeds(); seed++) {
        const struct sim_sample *v = fig_samples(s, seed);
        uint32_t n = r[seed].samples;
        for (uint32_t i = 0; i < n; i++) {
            double ms = (double)(i + 1) * ((double)SAMPLE_NS / 1e6) - (double)from_ns / 1e6;
            for (uint32_t k = 0; k < 2; k++) {
                float last = v[n - 1].limits_us[k];
                float now = v[i].limits_us[k];
                if ((now > last * 1.1f || now < last * 0.9f) && ms > worst)
                    worst = ms;
            }
        }
    }
    return worst;
}

/* What the first seed ended with. */
static void learn_values(const char *prefix, const struct sim_spec *s)
{
    const struct snic_gimbal_learned *l = &fig_results(s)[0].learned;
    const struct {
        const char *name;
        double v;
        const char *unit;
    } rows[] = {
        {"thresh_min", (double)l->thresh_min_ns / 1e3, "us"},
        {"thresh_max", (double)l->thresh_max_ns / 1e3, "us"},
        {"write_cost_worst", (double)l->write_cost_worst / SNIC_GIMBAL_COST_ONE, "x"},
        {"slots", l->slot_threshold, "slots"},
        {"rate_max", (double)l->rate_max / 1e6, "MB/s"},
    };
    for (uint32_t i = 0; i < SNIC_COUNTOF(rows); i++) {
        char name[96];
        fig_name(name, sizeof(name), "%s_%s", prefix, rows[i].name);
        fig_value(name, "ours", rows[i].v, rows[i].unit);
    }
}

/* Rows of one load; returns by how much it is off. */
static double learn_rows(const char *prefix, const struct sim_spec *hand,
                         const struct sim_spec *ours, uint32_t condition)
{
    double worst = 0;
    for (uint32_t g = 0; g < 2 && hand->group[g].workers > 0; g++) {
        char name[96];
        double want = learn_futil(hand, condition, g);
        double got = learn_futil(ours, condition, g);
        double off = learn_off_by(got, want);
        worst = off > worst ? off : worst;
        fig_name(name, sizeof(name), "%s_futil_%u", prefix, g);
        fig_value(name, "by_hand", want, "1");
        fig_value(name, "ours", got, "1");
    }
    return worst;
}

static void learn_device(const struct learn_device *d)
{
    double slowest = 0;
    char name[96];
    for (uint32_t condition = 0; condition < 2; condition++)
        for (uint32_t load = 0; load < LOADS; load++) {
            struct sim_spec hand;
            struct sim_spec ours;
            learn_spec(&hand, d, condition, load);
            ours = hand;
            learn_by_hand(&hand, d);
            learn_itself(&ours);
            fig_name(name, sizeof(name), "learn:%s_%s_%s", d->name, fig_condition[condition],
                     learn_load[load]);
            double off = learn_rows(name, &hand, &ours, condition);
            learn_values(name, &ours);
            double ms = learn_converged(&ours, 0);
            slowest = ms > slowest ? ms : slowest;
            fig_name(name, sizeof(name), "learn_%s_%s_%s_off_by", d->name, fig_condition[condition],
                     learn_load[load]);
            fig_goal(name, off, 5, 0, "%");
        }
    fig_name(name, sizeof(name), "learn_%s_converged", d->name);
    fig_goal(name, slowest, 2000, 0, "ms");
}

/* What was stored is of a device ten times as fast, or as slow. */
static void learn_stale(const struct learn_device *d)
{
    static const struct {
        const char *name;
        struct snic_gimbal_profile p;
    } stale[2] = {
        {"fast",
         {.opts_size = sizeof(struct snic_gimbal_profile),
          .read_ns = 20000,
          .write_ns = 11000,
          .read_rate = {20000 * MS, 30000 * MS},
          .write_rate = {10000 * MS, 20000 * MS}}},
        {"slow",
         {.opts_size = sizeof(struct snic_gimbal_profile),
          .read_ns = 2 * MS,
          .write_ns = 2 * MS,
          .read_rate = {100 * MS, 300 * MS},
          .write_rate = {4 * MS, 100 * MS}}},
    };
    for (uint32_t k = 0; k < SNIC_COUNTOF(stale); k++) {
        struct sim_spec hand;
        struct sim_spec ours;
        char name[96];
        learn_spec(&hand, d, SNIC_SSD_CLEAN, MIXED);
        ours = hand;
        learn_by_hand(&hand, d);
        learn_itself(&ours);
        ours.profile = stale[k].p;
        fig_name(name, sizeof(name), "learn:%s_stale_%s", d->name, stale[k].name);
        double off = learn_rows(name, &hand, &ours, SNIC_SSD_CLEAN);
        learn_values(name, &ours);
        fig_name(name, sizeof(name), "learn_%s_stale_%s_off_by_after_2s", d->name, stale[k].name);
        fig_goal(name, off, 5, 0, "%");
        fig_name(name, sizeof(name), "learn_%s_stale_%s_converged", d->name, stale[k].name);
        fig_goal(name, learn_converged(&ours, 0), 2000, 0, "ms");
    }
}

/* A device filled in order is overwritten at random until it is steady, at 2 s. */
static void learn_overwritten(void)
{
    struct sim_spec hand;
    struct sim_spec ours;
    learn_spec(&hand, &learn_devices[0], SNIC_SSD_FRAGMENTED, MIXED);
    hand.condition = SNIC_SSD_AGEING;
    hand.age_ns = 2000 * MS;
    hand.age_after = 300;
    hand.warm_ns = 4000 * MS;
    ours = hand;
    learn_itself(&ours);
    double off = learn_rows("learn:overwritten", &hand, &ours, SNIC_SSD_FRAGMENTED);
    learn_values("learn:overwritten", &ours);
    fig_goal("learn_overwritten_off_by_after_2s", off, 5, 0, "%");
    fig_goal("learn_overwritten_converged", learn_converged(&ours, hand.age_ns), 2000, 0, "ms");
}

/* At 2 s each I/O begins to take three times as long; beside a device that is so from the start. */
static void learn_slower(void)
{
    static const uint32_t loads[2] = {READS, MIXED};
    for (uint32_t k = 0; k < SNIC_COUNTOF(loads); k++) {
        struct sim_spec always;
        struct sim_spec later;
        char name[96];
        learn_spec(&always, &learn_devices[0], SNIC_SSD_CLEAN, loads[k]);
        learn_itself(&always);
        always.warm_ns = 4000 * MS;
        always.slow_times = 3;
        later = always;
        always.slow_ns = 1;
        later.slow_ns = 2000 * MS;
        double want = (double)fig_results(&always)[0].learned.thresh_min_ns;
        double got = (double)fig_results(&later)[0].learned.thresh_min_ns;
        fig_name(name, sizeof(name), "learn:slower_%s_always", learn_load[loads[k]]);
        learn_values(name, &always);
        fig_name(name, sizeof(name), "learn:slower_%s", learn_load[loads[k]]);
        learn_values(name, &later);
        fig_name(name, sizeof(name), "learn_slower_%s_thresh_min_off_by", learn_load[loads[k]]);
        fig_goal(name, learn_off_by(got, want), 10, 0, "%");
        fig_name(name, sizeof(name), "learn_slower_%s_converged", learn_load[loads[k]]);
        fig_goal(name, learn_converged(&later, later.slow_ns), 2000, 0, "ms");
    }
}

void fig_learn(void)
{
    for (uint32_t k = 0; k < SNIC_COUNTOF(learn_devices); k++)
        learn_device(&learn_devices[k]);
    for (uint32_t k = 0; k < SNIC_COUNTOF(learn_devices); k++)
        learn_stale(&learn_devices[k]);
    learn_overwritten();
    learn_slower();
}
