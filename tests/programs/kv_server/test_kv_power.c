/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The key-value server's store and engine on a file service on a simulated disk, and the power
 * cut again and again: clients send real messages, the power goes before or in the middle of a
 * random device operation, an arbitrary part of what was not synced survives, and every key is
 * compared with what was promised. The same image is used through many cuts. Then the promises
 * below are forgotten one at a time, and the comparison has to notice.
 */
#include "kv_files_direct.h"
#include "kv_model.h"
#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_BYTES (6u << 20)
#define RUN_TURNS 4000u
#define TEETH_CUTS 10000u
#define INTERVAL_MS 20u
#define GRACE_NS                                                                                   \
    10000000u /* for the writes and flushes of one interval: far more than they take               \
               */

struct setting {
    uint32_t sector;
    uint32_t align;
    uint32_t caps;
    uint32_t files_segment;
    uint32_t segment; /* of the log */
    uint32_t memory;
    uint32_t flush;
    uint32_t value_max;
};

static const struct setting settings[] = {
    {4096, 1, SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO, 65536, 65536, 65536, 16384, 8000},
    {512, 512, SNIC_IO_CAP_DISCARD, 16384, 32768, 131072, 65536, 5000},
    {512, 512, SNIC_IO_CAP_FUA, 32768, 32768, 16384, 8192, 3000},
    {4096, 4096, SNIC_IO_CAP_ZERO, 16384, 131072, 32768, 12288, 9000},
};

struct power {
    const struct setting *setting;
    struct snic_rng rng;
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct kv_shim shim;
    struct kv_direct direct;
    struct snic_files *files;
    void *mem;
    struct kvm model;
    enum kv_sync sync;
    enum kv_forget forget;
    uint64_t segments; /* of the log, at most */
    uint64_t cuts;
    uint64_t early; /* cuts in mounting, recovery and comparison */
    uint64_t compactions;
    uint64_t device_reads;
    int verbose;
};

static struct power power;

static int power_dead(void *ctx)
{
    struct power *p = ctx;

    return kv_shim_dead(&p->shim);
}

static void power_log(void *ctx, int level, const char *text)
{
    const struct power *p = ctx;

    if (p->verbose)
        print_message("  [%d] %s\n", level, text);
}

/* ---- A disk ---- */

static void power_disk(struct power *p)
{
    const struct setting *s = p->setting;
    struct snic_files_format_opts f = {.opts_size = sizeof(f)};
    struct snic_disk_opts o = {.opts_size = sizeof(o), .size = DISK_BYTES};
    struct snic_io *io;

    o.sector = s->sector;
    o.align = s->align;
    o.caps = s->caps;
    o.depth = 64;
    o.seed = snic_rng_next(&p->rng);
    o.delay_min_ns = 10000;
    o.delay_max_ns = 150000;
    assert_int_equal(snic_disk_open(&p->disk, &o), 0);
    assert_int_equal(snic_io_mem_open(&io, p->loop, p->disk), 0);
    f.segment_bytes = s->files_segment;
    f.files_max = 64;
    f.dirs_max = 1;
    f.journal_bytes = 131072;
    assert_int_equal(snic_files_format(io, &f), 0);
    snic_io_close(io);
    kvm_init(&p->model, snic_rng_next(&p->rng));
    p->model.loop = p->loop;
    p->model.sync = p->sync;
    p->model.interval_ns = INTERVAL_MS * 1000000u + GRACE_NS;
    p->model.value_max = s->value_max;
    p->model.dead = power_dead;
    p->model.ctx = p;
    p->segments = 10 + snic_rng_below(&p->rng, 10);
}

static void power_fault(struct power *p, uint64_t operations)
{
    struct snic_fault f = {.kind = SNIC_FAULT_POWER};

    f.ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_ZERO;
    f.after = 1 + snic_rng_below(&p->rng, operations);
    if (snic_rng_below(&p->rng, 4) == 0) {
        f.kind = SNIC_FAULT_TORN;
        f.bytes = (1 + snic_rng_below(&p->rng, 8)) * p->setting->sector;
    }
    f.seed = snic_rng_next(&p->rng) >> 1;
    switch (snic_rng_below(&p->rng, 6)) {
    case 0:
    case 1:
        f.seed = SNIC_FAULT_KEEP_NONE;
        break;
    case 2:
        f.seed = SNIC_FAULT_KEEP_ALL;
        break;
    default:
        break;
    }
    assert_int_equal(snic_disk_fault(p->disk, &f), 0);
}

/* ---- A run: from mounting to the power cut ---- */

static int power_mount(struct power *p)
{
    struct snic_files_mount_opts o = {.opts_size = sizeof(o)};
    struct snic_files_info info;
    size_t size;
    int rc = snic_files_probe(&p->shim.io, &info);

    if (rc != 0)
        return rc;
    kv_shim_layout(&p->shim, &info);
    o.depth = 16;
    o.bounce_count = 4;
    o.bounce_bytes = 16384;
    o.sync_delay_us = 500;
    size = snic_files_memsize(&info, &o);
    p->mem = aligned_alloc(SNIC_FILES_ALIGN, snic_align_up(size, SNIC_FILES_ALIGN));
    assert_non_null(p->mem);
    rc = snic_files_mount(&p->files, p->mem, size, &p->shim.io, &o);
    if (rc != 0)
        free(p->mem);
    return rc;
}

static int power_open(struct power *p, char *error, size_t error_size)
{
    const struct setting *s = p->setting;
    struct kv_engine_opts o = {.loop = p->loop};

    p->direct.files = p->files;
    p->direct.loop = p->loop;
    p->direct.forget = p->forget;
    o.files = &kv_direct_ops;
    o.files_ctx = &p->direct;
    o.events.reply = kvm_reply;
    o.events.ctx = &p->model;
    o.sync = p->sync;
    o.sync_interval_ms = INTERVAL_MS;
    o.memory_bytes = s->memory;
    o.segment_bytes = s->segment;
    o.device_bytes = p->segments * s->segment;
    o.databases = 2;
    o.key_max = 64;
    o.value_max = s->value_max;
    o.flush_bytes_max = s->flush;
    o.log = power_log;
    o.ctx = p;
    return kv_engine_open(&p->model.engine, &o, error, error_size);
}

static void power_work(struct power *p)
{
    uint32_t busy = 1 + (uint32_t)snic_rng_below(&p->rng, 6);

    for (uint32_t i = 0; i < RUN_TURNS && !power_dead(p) && p->model.why[0] == 0; i++) {
        static const uint32_t waits[] = {0, 0, 20000, 100000, 100000, 1000000, 3000000};
        uint32_t n = (uint32_t)snic_rng_below(&p->rng, busy + 1);

        while (n-- > 0)
            kvm_send(&p->model);
        (void)snic_loop_once(p->loop, waits[snic_rng_below(&p->rng, SNIC_COUNTOF(waits))]);
    }
    if (!power_dead(p)) /* the operation at which it was to strike never ran */
        snic_disk_power_cut(p->disk, snic_rng_next(&p->rng) >> 1);
}

static void power_run_engine(struct power *p)
{
    struct kv_engine_stats stats;
    char error[200];
    uint64_t cut_ns;
    uint64_t synced;
    int rc;

    p->model.engine = NULL;
    rc = power_open(p, error, sizeof(error));
    if (rc != 0) {
        if (!power_dead(p))
            (void)snprintf(p->model.why, sizeof(p->model.why), "the store does not open: %.150s",
                           error);
        return;
    }
    kvm_judge(&p->model);
    if (power_dead(p))
        p->early++;
    else if (p->model.why[0] == 0) {
        snic_disk_faults_clear(p->disk);
        power_fault(p, snic_rng_below(&p->rng, 3) == 0 ? 12 : 120);
        power_work(p);
    }
    cut_ns = snic_loop_now(p->loop);
    synced = kvm_synced(&p->model);
    kv_engine_get_stats(p->model.engine, &stats);
    p->compactions += stats.compactions;
    p->device_reads += stats.device_reads;
    (void)kv_engine_close(p->model.engine);
    p->model.engine = NULL;
    kvm_cut(&p->model, cut_ns, synced);
}

static void power_run(struct power *p)
{
    struct snic_io *io;
    int rc;

    assert_int_equal(snic_io_mem_open(&io, p->loop, p->disk), 0);
    kv_shim_open(&p->shim, io);
    p->shim.forget = p->forget;
    if (snic_rng_below(&p->rng, 6) == 0)
        power_fault(p, 12);
    rc = power_mount(p);
    if (rc == 0) {
        if (snic_files_check(p->files) != 0)
            (void)snprintf(p->model.why, sizeof(p->model.why), "the image is not consistent");
        else
            power_run_engine(p);
        (void)snic_files_unmount(p->files);
        free(p->mem);
    } else if (power_dead(p)) {
        p->early++;
    } else {
        (void)snprintf(p->model.why, sizeof(p->model.why), "the image does not mount: %s",
                       snic_strerror(rc));
    }
    p->cuts += (uint64_t)power_dead(p);
    snic_io_close(io);
    snic_disk_faults_clear(p->disk);
}

/* Up to @p runs runs on one disk. 1 when all promises were kept. */
static int power_disk_runs(struct power *p, uint64_t runs, uint64_t *run)
{
    int fine;

    power_disk(p);
    for (*run = 0; *run < runs && p->model.why[0] == 0; ++*run)
        power_run(p);
    fine = p->model.why[0] == 0;
    snic_disk_close(p->disk);
    return fine;
}

static void power_start(struct power *p, enum kv_sync sync, uint64_t salt)
{
    struct snic_world_opts w = {.opts_size = sizeof(w)};

    memset(p, 0, sizeof(*p));
    snic_rng_init(&p->rng, support_seed() * 1000003 + salt);
    w.seed = snic_rng_next(&p->rng);
    assert_int_equal(snic_world_open(&p->world, &w), 0);
    assert_int_equal(snic_world_loop(p->world, 0, &p->loop), 0);
    p->sync = sync;
    p->verbose = getenv("KV_POWER_VERBOSE") != NULL;
}

static void power_end(struct power *p)
{
    snic_loop_close(p->loop);
    snic_world_close(p->world);
}

/* ---- What must hold ---- */

static void power_holds(enum kv_sync sync, uint64_t cuts)
{
    uint64_t answered = 0;
    uint64_t refused = 0;
    uint64_t read = 0;
    uint64_t run;

    power_start(&power, sync, sync);
    for (uint64_t disk = 0; power.cuts < cuts; disk++) {
        power.setting = &settings[disk % SNIC_COUNTOF(settings)];
        if (!power_disk_runs(&power, 25, &run))
            fail_msg("seed %" PRIu64 ", disk %" PRIu64 ", cut %" PRIu64 ": %s", support_seed(),
                     disk, run, power.model.why);
        answered += power.model.answered;
        refused += power.model.refused;
        read += power.model.read;
    }
    print_message("%" PRIu64 " power cuts (%" PRIu64 " before the work began), %" PRIu64
                  " writes acknowledged, %" PRIu64 " refused, %" PRIu64 " values read (%" PRIu64
                  " from the device), %" PRIu64 " compactions\n",
                  power.cuts, power.early, answered, refused, read, power.device_reads,
                  power.compactions);
    assert_true(power.compactions * 4 >= cuts);
    power_end(&power);
}

/* An acknowledged write is lost, or one that a reader was shown. */
static void test_kv_power_lost_sync_always_acknowledged_there(void **state)
{
    (void)state;
    power_holds(KV_SYNC_ALWAYS, support_rounds(1000, 20000));
}

/* More than the interval's writes are lost. */
static void test_kv_power_lost_sync_interval_older_there(void **state)
{
    (void)state;
    power_holds(KV_SYNC_INTERVAL, support_rounds(200, 5000));
}

/* What was on the device is lost by moving it; a value is torn or mixed up. */
static void test_kv_power_lost_sync_none_nothing_mixed_up(void **state)
{
    (void)state;
    power_holds(KV_SYNC_NONE, support_rounds(100, 2000));
}

/* ---- What must be noticed ---- */

/*
 * Cut power with one guarantee broken until that was noticed @p enough times; how often it was. The
 * rarest needs some 250 cuts a time, so the bound is far above what any seed needs.
 */
static uint64_t power_noticed(enum kv_sync sync, enum kv_forget forget, uint32_t setting,
                              uint64_t enough)
{
    uint64_t noticed = 0;
    uint64_t run;

    power_start(&power, sync, 100 + forget);
    power.setting = &settings[setting];
    power.forget = forget;
    while (power.cuts < TEETH_CUTS && noticed < enough)
        noticed += !power_disk_runs(&power, 25, &run);
    print_message("forgotten %u: noticed %" PRIu64 " times in %" PRIu64 " cuts, last: %s\n",
                  (unsigned)forget, noticed, power.cuts, power.model.why);
    power_end(&power);
    return noticed;
}

/* The checker is blind to a missing SYNC of the log's writes. */
static void test_kv_power_lost_log_write_without_sync_noticed(void **state)
{
    (void)state;
    assert_true(power_noticed(KV_SYNC_ALWAYS, KV_FORGET_SYNC, 0, 3) > 0);
    assert_true(power_noticed(KV_SYNC_ALWAYS, KV_FORGET_SYNC, 1, 3) > 0);
}

/* The checker is blind to a missing FSYNC: of the interval, and of compaction. */
static void test_kv_power_lost_fsync_forgotten_noticed(void **state)
{
    (void)state;
    assert_true(power_noticed(KV_SYNC_INTERVAL, KV_FORGET_FSYNC, 1, 3) > 0);
    assert_true(power_noticed(KV_SYNC_NONE, KV_FORGET_FSYNC, 1, 1) > 0);
}

/* The checker is blind to one of the device's promises. */
static void test_kv_power_lost_device_forgets_noticed(void **state)
{
    static const struct {
        enum kv_forget forget;
        uint32_t setting;
    } cases[] = {
        {KV_FORGET_FUA_DATA, 0},      {KV_FORGET_FUA_META, 0},   {KV_FORGET_FLUSH_DATA, 1},
        {KV_FORGET_FLUSH_JOURNAL, 1}, {KV_FORGET_FLUSH_CKPT, 1}, {KV_FORGET_FLUSH_ALL, 3},
    };
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(cases); i++)
        assert_true(power_noticed(KV_SYNC_ALWAYS, cases[i].forget, cases[i].setting, 3) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_power_lost_sync_always_acknowledged_there),
        cmocka_unit_test(test_kv_power_lost_sync_interval_older_there),
        cmocka_unit_test(test_kv_power_lost_sync_none_nothing_mixed_up),
        cmocka_unit_test(test_kv_power_lost_log_write_without_sync_noticed),
        cmocka_unit_test(test_kv_power_lost_fsync_forgotten_noticed),
        cmocka_unit_test(test_kv_power_lost_device_forgets_noticed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
