/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The job file of examples/tenants: its meaning, and every mistake with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "snicstore/base.h"
#include "support.h"

#define SECOND UINT64_C(1000000000)

struct mistakes {
    unsigned ignored;
    char note[160]; /* the last of these */
    unsigned count;
    unsigned line[64];
    char text[64][160];
};

static void note(void *ctx, unsigned line, const char *text)
{
    struct mistakes *m = ctx;

    assert_true(m->count < SNIC_COUNTOF(m->line));
    m->line[m->count] = line;
    snprintf(m->text[m->count++], sizeof(m->text[0]), "%s", text);
}

static void note_ignored(void *ctx, unsigned line, const char *text)
{
    struct mistakes *m = ctx;

    m->ignored++;
    snprintf(m->note, sizeof(m->note), "%u: %s", line, text);
}

static const char *variable(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "SIZE") == 0 ? "8k" : strcmp(name, "LONG") == 0 ? "0123456789" : NULL;
}

static struct job_list list;
static struct mistakes wrong;

/* Parse a copy that ends where its memory ends. */
static unsigned parse(const char *text)
{
    size_t n = strlen(text);
    char *copy = n > 0 ? support_guard_alloc(n, 1) : NULL;
    unsigned r;

    memset(&wrong, 0, sizeof(wrong));
    if (n > 0)
        memcpy(copy, text, n);
    const struct job_source source = {note, note_ignored, variable, &wrong};
    r = job_parse(&list, n > 0 ? copy : "", n, &source);
    if (n > 0)
        support_guard_free(copy);
    assert_int_equal(r, wrong.count);
    return r;
}

/* Exactly one mistake, in @p line, whose text holds @p part. */
static void refuses(const char *text, unsigned line, const char *part)
{
    unsigned r = parse(text);

    if (r != 1 || wrong.line[0] != line || strstr(wrong.text[0], part) == NULL)
        fail_msg("'%s': %u mistakes, the first in line %u: '%s'; expected line %u: '%s'", text, r,
                 wrong.line[0], wrong.text[0], line, part);
}

static void accepts(const char *text)
{
    if (parse(text) != 0)
        fail_msg("'%s': line %u: %s", text, wrong.line[0], wrong.text[0]);
}

/** A section without options has the defaults. */
static void test_tenants_job_defaults(void **state)
{
    const struct job *j = &list.jobs[0];

    (void)state;
    accepts("[a]");
    assert_int_equal(list.count, 1);
    assert_int_equal(list.tenants, 1);
    assert_string_equal(j->name, "a");
    assert_int_equal(j->line, 1);
    assert_int_equal(j->kind, JOB_READ);
    assert_int_equal(j->random, 0);
    assert_int_equal(j->sizes, 1);
    assert_int_equal(job_block_max(j), 4096);
    assert_int_equal(job_block_min(j), 4096);
    assert_int_equal(j->size[0].percent, 100);
    assert_int_equal(j->depth, 1);
    assert_int_equal(j->count, 1);
    assert_int_equal(j->weight, 1);
    assert_int_equal(j->priority, 0);
    assert_true(j->rate_bytes == 0 && j->rate_ios == 0 && j->cap_bytes == 0 && j->cap_ios == 0);
    assert_true(j->offset == 0 && j->range == 0);
    assert_int_equal(job_start_ns(j, 0), 0);
    assert_true(job_stop_ns(j, 0) == UINT64_MAX);
}

/** Every key arrives where it belongs; white space, comments and \r do not matter. */
static void test_tenants_job_every_key(void **state)
{
    const struct job *j = &list.jobs[0];

    (void)state;
    accepts("# comment\r\n"
            "; another\n"
            "\n"
            "  [ten-ant_1]  \r\n"
            "\trw = randrw\r\n"
            "rwmixread=70\n"
            "bssplit=4k/60:128KiB/40\n"
            "iodepth=32\n"
            "numjobs=3\n"
            "weight=256\n"
            "priority=7\n"
            "rate=1m\n"
            "rate_iops=1000\n"
            "cap_bytes=2GiB\n"
            "cap_iops=5\n"
            "floor_bytes=1GiB\n"
            "floor_iops=4\n"
            "group=3\n"
            "offset=1T\n"
            "size=3GB\n"
            "start=1.5\n"
            "stop=4s\n"
            "start_step=500ms\n"
            "stop_step=250us");
    assert_string_equal(j->name, "ten-ant_1");
    assert_int_equal(j->line, 4);
    assert_true(j->kind == JOB_MIXED && j->random == 1 && j->read_percent == 70);
    assert_int_equal(j->sizes, 2);
    assert_true(j->size[0].bytes == 4096 && j->size[0].percent == 60);
    assert_true(j->size[1].bytes == 131072 && j->size[1].percent == 40);
    assert_true(job_block_min(j) == 4096 && job_block_max(j) == 131072);
    assert_true(j->depth == 32 && j->count == 3 && j->weight == 256 && j->priority == 7);
    assert_true(j->rate_bytes == 1 << 20 && j->rate_ios == 1000);
    assert_true(j->cap_bytes == UINT64_C(2) << 30 && j->cap_ios == 5);
    assert_true(j->floor_bytes == UINT64_C(1) << 30 && j->floor_ios == 4 && j->group == 3);
    assert_true(j->offset == UINT64_C(1) << 40 && j->range == UINT64_C(3) << 30);
    assert_int_equal(job_start_ns(j, 2), SECOND * 5 / 2);
    assert_int_equal(job_stop_ns(j, 2), SECOND * 4 + 500000);
    assert_int_equal(list.tenants, 3);
}

/** Each rw, and fio's names of keys. */
static void test_tenants_job_kinds_and_aliases(void **state)
{
    static const struct {
        const char *name;
        uint32_t kind;
        uint32_t random;
    } kinds[] = {{"read", JOB_READ, 0},     {"write", JOB_WRITE, 0},     {"rw", JOB_MIXED, 0},
                 {"randread", JOB_READ, 1}, {"randwrite", JOB_WRITE, 1}, {"randrw", JOB_MIXED, 1}};

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(kinds); i++) {
        char text[64];

        snprintf(text, sizeof(text), "[a]\nreadwrite=%s\n", kinds[i].name);
        accepts(text);
        assert_int_equal(list.jobs[0].kind, kinds[i].kind);
        assert_int_equal(list.jobs[0].random, kinds[i].random);
    }
    accepts("[a]\nblocksize=512\nstartdelay=2m\nruntime=1h\n");
    assert_int_equal(job_block_max(&list.jobs[0]), 512);
    assert_int_equal(job_start_ns(&list.jobs[0], 0), 120 * SECOND);
    assert_int_equal(job_stop_ns(&list.jobs[0], 0), 3720 * SECOND);
    accepts("[a]\nnumjobs=3\nstart_step=2\nruntime=5\n");
    assert_int_equal(job_stop_ns(&list.jobs[0], 2), 9 * SECOND);
}

/** [global] is what the others begin with; their own options override it. */
static void test_tenants_job_global(void **state)
{
    (void)state;
    accepts(
        "[global]\nbs=8K\niodepth=4\nruntime=2\n[a]\n[b]\nbs=4k\nstop=9\n[c]\nbssplit=512/100\n");
    assert_int_equal(list.count, 3);
    assert_int_equal(list.jobs[0].size[0].bytes, 8192);
    assert_int_equal(list.jobs[0].depth, 4);
    assert_int_equal(job_stop_ns(&list.jobs[0], 0), 2 * SECOND);
    assert_int_equal(list.jobs[1].size[0].bytes, 4096);
    assert_int_equal(job_stop_ns(&list.jobs[1], 0), 9 * SECOND);
    assert_int_equal(list.jobs[2].size[0].bytes, 512);
    accepts("[global]\nstop=5\n[a]\nruntime=1\nstart=7\n");
    assert_int_equal(job_stop_ns(&list.jobs[0], 0), 8 * SECOND);
    accepts("[global]\nbssplit=4k/50:8k/50\n[a]\nbs=1K\n");
    assert_true(list.jobs[0].sizes == 1 && list.jobs[0].size[0].percent == 100);
    accepts("[global]\nrwmixread=10\n[a]\n[b]\nrw=rw\n"); /* for those that mix */
    assert_int_equal(list.jobs[1].read_percent, 10);
}

/** Each mistake is reported with its line. */
static void test_tenants_job_structure_mistakes(void **state)
{
    (void)state;
    refuses("", 0, "no tenants");
    refuses("\n# nothing\n", 2, "no tenants");
    refuses("[global]\nbs=4k\n", 2, "no tenants");
    refuses("bs=4k\n[a]\n", 1, "before the first");
    refuses("[a]\nnonsense\n", 2, "neither");
    refuses("[a]\n\nunknown=1\n", 3, "unknown key 'unknown'");
    refuses("[a]\n=1\n", 2, "unknown key ''");
    refuses("[a]\nBS=4k\n", 2, "unknown key 'BS'");
    refuses("[a]\ninclude other.fio\n", 2, "include is not supported");
    refuses("[a\n[b]\n", 1, "is not [name]");
    refuses("[\n[b]\n", 1, "is not [name]");
    refuses("[a] x\n[b]\n", 1, "is not [name]");
    refuses("[]\n[b]\n", 1, "a name must have");
    refuses("[0123456789012345678901234567890123456789012345678]\n[b]\n", 1, "a name must have");
    refuses("[012345678901234567890123456789012345678901234567]\n[b]\n", 1, "a name must have");
    accepts("[01234567890123456789012345678901234567890123456]\n");
    refuses("[a]\nbs=4k\001\n", 2, "not a text file");
}

static void test_tenants_job_value_mistakes(void **state)
{
    /* Every key that takes a number, with what is just inside and just outside its range. */
    static const struct {
        const char *key;
        const char *good[3];
        const char *bad[6];
    } keys[] = {
        {"rwmixread", {"0", "50", "100"}, {"101", "-1", "1k", "50%", "0x10", "1 2"}},
        {"bs", {"512", "4608", "8M"}, {"0", "511", "768", "8388609", "16M", "4q"}},
        {"iodepth", {"1", "32", "1024"}, {"0", "1025", "4k", "1.5", "+1", "99999999999999999999"}},
        {"numjobs", {"1", "2", "1024"}, {"0", "1025", "a", "1,2", "4294967297", "-2"}},
        {"weight", {"1", "2", "256"}, {"0", "257", "1.0", "x", "4294967297", "1k"}},
        {"priority", {"0", "1", "7"}, {"8", "-1", "high", "4294967296", "1s", "7 7"}},
        {"rate", {"1", "1M", "1024G"}, {"0", "1025G", "1MBs", "18014398509481985K", "-5", "5/s"}},
        {"rate_iops",
         {"1", "7", "1099511627776"},
         {"0", "1099511627777", "1k", "18446744073709551617", "-1", "x"}},
        {"cap_bytes", {"1", "5KB", "1T"}, {"0", "2T", "none", "1KiBs", "-1", "1e6"}},
        {"floor_bytes", {"1", "5KB", "1T"}, {"0", "2T", "none", "1KiBs", "-1", "1e6"}},
        {"floor_iops", {"1", "9", "1000000"}, {"0", "1K", "many", "1099511627777", "-1", "1.2"}},
        {"group", {"1", "2", "64"}, {"0", "65", "1.0", "x", "4294967297", "1k"}},
        {"cap_iops", {"1", "9", "1000000"}, {"0", "1K", "many", "1099511627777", "-1", "1.2"}},
        {"offset", {"0", "1G", "4194304T"}, {"-1", "99999999999T", "x", "1.5G", "1Gi", "8388608T"}},
        {"size", {"4096", "1G", "50%"}, {"0", "99999999999T", "x", "1.5G", "101%", "8388608T"}},
        {"start", {"0", "0.000001", "86400"}, {"86401", "-1", "1.", "1.1234567", ".5", "1d"}},
        {"runtime", {"1us", "1.5m", "24h"}, {"0", "25h", "1441m", "1msec", "18446744073710", "x"}},
        {"stop",
         {"1us", "1.5ms", "86400s"},
         {"0", "86400.1", "1 s", "99999999999999999999", "x", "-1"}},
        {"start_step", {"0", "1", "1h"}, {"86401", "x", "-1", "1ss", "1,5", "1h1m"}},
        {"stop_step", {"0", "1", "1h"}, {"86401", "x", "-1", "1ss", "1,5", "1h1m"}},
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(keys); i++) {
        for (size_t k = 0; k < SNIC_COUNTOF(keys[i].good); k++) {
            snprintf(text, sizeof(text), "[a]\nrw=rw\n%s=%s\n", keys[i].key, keys[i].good[k]);
            accepts(text);
        }
        for (size_t k = 0; k < SNIC_COUNTOF(keys[i].bad); k++) {
            snprintf(text, sizeof(text), "[a]\nrw=rw\n%s=%s\n", keys[i].key, keys[i].bad[k]);
            refuses(text, 3, keys[i].key);
        }
        snprintf(text, sizeof(text), "[a]\nrw=rw\n%s=\n", keys[i].key);
        refuses(text, 3, "value is missing");
    }
    refuses("[a]\nweight=257\n", 2, "weight: '257' is not between 1 and 256");
    refuses("[a]\niodepth=0\n", 2, "is not between 1 and 1024");
    refuses("[a]\nstart=2 h\n", 2, "is not a time");
    refuses("[a]\nstart=25h\n", 2, "is not at most 24 hours");
    refuses("[a]\nruntime=0\n", 2, "is not more than 0, at most 24 hours");
    refuses("[a]\nrw=\n", 2, "value is missing");
    refuses("[a]\nrw=randomread\n", 2, "is not one of");
    refuses("[a]\nrw=rand\n", 2, "is not one of");
    refuses("[a]\nrw=READ\n", 2, "is not one of");
    refuses("[a]\nrw=trim\n", 2, "is not one of");
}

static void test_tenants_job_split_mistakes(void **state)
{
    (void)state;
    accepts("[a]\nbssplit=4k/100\n");
    accepts("[a]\nbssplit=1k/10:2k/10:3k/10:4k/10:5k/10:6k/10:7k/10:8k/30\n");
    refuses("[a]\nbssplit=\n", 2, "value is missing");
    refuses("[a]\nbssplit=4k\n", 2, "is not SIZE/PERCENT");
    refuses("[a]\nbssplit=4k/\n", 2, "is not SIZE/PERCENT");
    refuses("[a]\nbssplit=4k/50:\n", 2, "is not SIZE/PERCENT");
    refuses("[a]\nbssplit=4k/50:8k/50:\n", 2, "is not SIZE/PERCENT");
    refuses("[a]\nbssplit=4k/50,8k/50\n", 2, "is not SIZE/PERCENT");
    refuses("[a]\nbssplit=4k/60:8k/50\n", 2, "add up to 110, not 100");
    refuses("[a]\nbssplit=4k/60:8k/30\n", 2, "add up to 90, not 100");
    refuses("[a]\nbssplit=4k/0:8k/100\n", 2, "between 1 and 100");
    refuses("[a]\nbssplit=4k/101\n", 2, "between 1 and 100");
    refuses("[a]\nbssplit=100/100\n", 2, "multiple of 512");
    refuses("[a]\nbssplit=9m/100\n", 2, "multiple of 512");
    refuses("[a]\nbssplit=1k/10:2k/10:3k/10:4k/10:5k/10:6k/10:7k/10:8k/10:9k/20\n", 2,
            "more than 8 sizes");
    refuses("[a]\nbs=4k\nbssplit=4k/100\n", 3, "exclude");
}

/** What only several keys together make wrong. */
static void test_tenants_job_contradictions(void **state)
{
    (void)state;
    refuses("[a]\nstop=2\nruntime=1\n", 2, "exclude");
    refuses("[a]\nstart=2\nstop=2\n", 3, "stops before it starts");
    refuses("[global]\nstop=2\n[a]\nstart=3\n", 3, "stops before it starts");
    refuses("[a]\nnumjobs=3\nstart_step=1\nstop=2\n", 1, "its last tenant stops");
    accepts("[a]\nnumjobs=3\nstart_step=1\nstop=2.5\n");
    refuses("[x]\n[a]\nbs=8k\nsize=4k\n", 2, "smaller than one I/O");
    accepts("[a]\nnumjobs=1000\n[b]\nnumjobs=24\n");
    assert_int_equal(list.tenants, 1024);
    refuses("[a]\nnumjobs=1000\n[b]\nnumjobs=25\n[c]\n", 3, "more than 1024 tenants");
}

/** All mistakes of a file are reported, in the order of their lines. */
static void test_tenants_job_several_mistakes(void **state)
{
    static const unsigned lines[] = {1, 3, 4, 5, 6, 7, 8};

    (void)state;
    assert_int_equal(parse("x=1\n[a]\nbs=3\nrate=q\nrw=none\n[b\nweight=0\nnothing\n"), 7);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(wrong.line[i], lines[i]);
}

/** What fio's own job files have: read as fio reads it, or left out by name. */
static void test_tenants_job_of_fio(void **state)
{
    const struct job *j = list.jobs;

    (void)state;
    accepts("; comment\n[global]\nioengine=libaio ; an engine\ndirect=1\nthread\nbs=4k,16k\n"
            "iodepth=8 # deep\n\n[random readers]\nrw=randread:8\nsize=50%\n[global]\nbs=${SIZE}\n"
            "[/dev/sda]\nrw=readwrite\nrwmixwrite=30\n[/dev/sda]\nstonewall\nrw=write\nbs=,2k\n");
    assert_int_equal(list.count, 3);
    assert_string_equal(j[0].name, "random_readers");
    assert_true(j[0].kind == JOB_READ && j[0].random && j[0].size[0].bytes == 4096);
    assert_int_equal(j[0].depth, 8);
    assert_string_equal(j[1].name, "_dev_sda");
    assert_true(j[1].kind == JOB_MIXED && j[1].size[0].bytes == 8192 && j[1].read_percent == 70);
    assert_string_equal(j[2].name, "_dev_sda-2");
    assert_true(j[2].kind == JOB_WRITE && j[2].size[0].bytes == 2048);
    assert_int_equal(wrong.ignored, 5); /* ioengine, direct, thread, :8, stonewall */
    job_place(&list, UINT64_C(1000) << 20, 4096);
    assert_int_equal(j[0].range, (UINT64_C(500) << 20) / 4096 * 4096);
    accepts("[a]\noffset=25%\nsize=100%\n");
    job_place(&list, 1u << 20, 4096);
    assert_true(j[0].offset == (1u << 20) / 100 * 25 / 4096 * 4096 && j[0].range == 0);
    accepts("[a]\nsize=1%\nbs=64k\n"); /* not less than an I/O */
    job_place(&list, 1u << 20, 4096);
    assert_int_equal(j[0].range, 65536);
    accepts("[a]\nsize=10%\nsize=8k\n"); /* the last one counts */
    assert_string_equal(wrong.note, "2: size is ignored: line 3 overrides it");
    job_place(&list, 1u << 20, 4096);
    assert_int_equal(j[0].range, 8192);
    accepts("[a]\nrw=read\nrwmixread=50\n");
    assert_string_equal(wrong.note, "3: rwmixread is ignored: rw is neither rw nor randrw");
    accepts("[a]\ngroup_reporting\n");
    assert_string_equal(wrong.note, "2: group_reporting is ignored: it has no effect here");
    accepts("[a]\nbs=${NONE}4k\n"); /* empty, as in fio */
    assert_int_equal(j[0].size[0].bytes, 4096);
    refuses("[a]\nrw=rw\nbs=4k,8k\n", 3, "reads of 4096 and writes of 8192 bytes");
    refuses("[a]\nbs=4k,8k,4k,4k\n", 2, "more than three");
    refuses("[a]\nbs=4k,8x\n", 2, "is not a size");
    refuses("[a]\nbs=4k,100\n", 2, "multiple of 512");
    char text[600] = "[a]\n#";
    size_t n = strlen(text);
    for (int i = 0; i < 60; i++, n += 7)
        memcpy(text + n, "${LONG}", 8);
    refuses(text, 2, "after expansion");
}

/** The limits of a file: sections, and bytes in a line. */
static void test_tenants_job_limits(void **state)
{
    char *text = calloc(1, 65536);
    size_t n = 0;

    (void)state;
    for (unsigned i = 0; i < JOB_SECTIONS_MAX; i++)
        n += (size_t)snprintf(text + n, 65536 - n, "[s%u]\n", i);
    accepts(text);
    assert_int_equal(list.count, JOB_SECTIONS_MAX);
    snprintf(text + n, 65536 - n, "[more]\nbs=4k\n");
    refuses(text, JOB_SECTIONS_MAX + 1, "more than 64 sections");
    n = (size_t)snprintf(text, 65536, "[a]\n#");
    memset(text + n, 'x', 510);
    text[n + 510] = 0;
    accepts(text);
    text[n + 510] = 'x';
    text[n + 511] = 0;
    refuses(text, 2, "longer than");
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenants_job_defaults),
        cmocka_unit_test(test_tenants_job_every_key),
        cmocka_unit_test(test_tenants_job_kinds_and_aliases),
        cmocka_unit_test(test_tenants_job_global),
        cmocka_unit_test(test_tenants_job_of_fio),
        cmocka_unit_test(test_tenants_job_structure_mistakes),
        cmocka_unit_test(test_tenants_job_value_mistakes),
        cmocka_unit_test(test_tenants_job_split_mistakes),
        cmocka_unit_test(test_tenants_job_contradictions),
        cmocka_unit_test(test_tenants_job_several_mistakes),
        cmocka_unit_test(test_tenants_job_limits),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
