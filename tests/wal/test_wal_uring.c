/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The log on a real file through io_uring: some laps, closed and opened again, and a process that
 * is killed in the middle of its work.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "walfix.h"

static struct walfix fix;

static void plug(const char *path, uint32_t flags)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path};
    int os = 0;
    int r = snic_loop_uring_open(&fix.loop, NULL);
    if (r != 0)
        support_skip("no io_uring");
    o.flags = SNIC_IO_OPEN_CREATE | flags;
    o.size = 16u << 20;
    r = snic_io_uring_open(&fix.io, fix.loop, &o, &os);
    if (r == SNIC_ENOTSUP) {
        snic_loop_close(fix.loop);
        support_skip("no O_DIRECT here");
    }
    assert_int_equal(r, 0);
    fix.opts.opts_size = sizeof(fix.opts);
    fix.opts.segment_bytes = 1u << 20;
    fix.m.length_max = 32768;
}

static void unplug(void)
{
    walfix_unplug(&fix);
    snic_loop_close(fix.loop);
}

static int append_some(uint32_t n)
{
    for (uint32_t k = 0; k < n && fix.failed == 0;) {
        int e = walfix_append(&fix, (uint32_t)(fix.m.ts * 7 % WALFIX_SOME), 0);
        if (e == 0) {
            k++;
            continue;
        }
        if (e != SNIC_EAGAIN)
            return e;
        if (snic_loop_once(fix.loop, SNIC_NEVER) < 0)
            return SNIC_EIO;
    }
    return 0;
}

static void laps(uint32_t flags, uint32_t wal_flags)
{
    struct snic_wal_info i;
    char path[256];
    memset(&fix, 0, sizeof(fix));
    support_tmpname(path, sizeof(path), "log");
    (void)unlink(path);
    for (uint32_t run_number = 0; run_number < 3; run_number++) {
        plug(path, flags);
        fix.opts.flags = wal_flags;
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
        walfix_judge(&fix);
        assert_int_equal(append_some(4000), 0);
        assert_int_equal(walfix_meta(&fix), 0);
        walfix_settle(&fix);
        while (fix.m.meta_floor != fix.m.meta_top)
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) >= 0);
        snic_wal_inspect(fix.wal, &i);
        assert_true(run_number == 0 || i.compacted > 5);
        walfix_close(&fix);
        unplug();
        assert_string_equal(fix.why, "");
    }
}

/* Through the page cache, with and without FUA, and past it. */
static void test_wal_uring_buffered_laps_as_the_model(void **state)
{
    (void)state;
    laps(0, 0);
    laps(0, SNIC_WAL_NO_FUA);
}

static void test_wal_uring_direct_laps_as_the_model(void **state)
{
    (void)state;
    laps(SNIC_IO_OPEN_DIRECT, 0);
}

/* Killed at any moment: what it had reported as durable is there. */
static void test_wal_uring_killed_durable_there(void **state)
{
    char path[256];
    (void)state;
    memset(&fix, 0, sizeof(fix));
    support_tmpname(path, sizeof(path), "killed");
    (void)unlink(path);
    for (uint32_t run_number = 0; run_number < 6; run_number++) {
        uint64_t last[2] = {0, 0};
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        if (child == 0) { /* reports ts and durable after each append */
            plug(path, 0);
            if (walfix_open(&fix, SNIC_WAL_CREATE) != 0)
                _exit(1);
            walfix_judge(&fix);
            for (;;) {
                if (append_some(3) != 0 || snic_loop_once(fix.loop, 1000000) < 0 || fix.why[0] != 0)
                    _exit(2);
                uint64_t now[2] = {fix.m.ts, fix.m.durable};
                if (write(pipes[1], now, sizeof(now)) != sizeof(now))
                    _exit(3);
            }
        }
        assert_true(child > 0);
        close(pipes[1]);
        for (uint32_t k = 0; k < 100 + run_number * 150; k++) {
            uint64_t now[2];
            if (read(pipes[0], now, sizeof(now)) != sizeof(now))
                break;
            memcpy(last, now, sizeof(now));
        }
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        close(pipes[0]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            support_skip("no io_uring");
        if (!WIFSIGNALED(status))
            fail_msg("run_number %u: the child ended by itself, status %d", run_number,
                     WEXITSTATUS(status));
        /* The parent's model: the same appends, as many as were reported, and what
           may have followed. */
        plug(path, 0);
        fix.m.ts += 1u << 20;
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_not_equal(fix.report.verdict, SNIC_WAL_CORRUPT);
        assert_string_equal(fix.why, "");
        assert_true(fix.found_last >= last[1]);
        /* Continue from the contents. */
        uint64_t top = 0;
        for (uint32_t k = 0; k < WALFIX_KEYS; k++)
            top = snic_max_u64(top, fix.got[k]);
        fix.m.ts = top;
        fix.m.count = 0;
        fix.m.durable = snic_wal_durable(fix.wal);
        for (uint32_t k = 0; k < WALFIX_KEYS; k++) {
            if (fix.got[k] == 0)
                continue;
            fix.m.entry[fix.m.count++] = (struct walfix_entry){
                .ts = fix.got[k], .position = 1, .key = k, .tombstone = fix.got_tombstone[k]};
            fix.m.newest[k] = fix.got[k];
        }
        if (fix.report.verdict == SNIC_WAL_SUSPECT)
            walfix_accept(&fix);
        walfix_close(&fix);
        unplug();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_uring_buffered_laps_as_the_model),
        cmocka_unit_test(test_wal_uring_direct_laps_as_the_model),
        cmocka_unit_test(test_wal_uring_killed_durable_there),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
