/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How long the store on LMDB waits for others that have its file: for a meta that is being
 * written, for a state that stays, for the write lock, for a handle that does not answer.
 * Another process has the file with LMDB alone; pread() and usleep() of this program choose when.
 */
#include "kv_lmdb_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__has_include)
#if __has_include(<lmdb.h>)
#define CHECK_LMDB 1
#endif
#endif

#if defined(CHECK_LMDB)
#undef CHECK_LMDB

#include <lmdb.h>

enum { CHECK_META = 16, CHECK_TRIES = 1000, CHECK_COMMITS = 2 };

static struct {
    char path[512];
    char data[600]; /* data.mdb */
    int to[2];
    int from[2];
    pid_t pid;
    uint32_t commits; /* so often, when a meta is read */
    uint32_t sleeps;  /* seen so far */
    uint32_t mend;    /* the sleep in which the meta becomes whole; 0: never */
    unsigned char meta[4096];
} check;

/* ---- The other process ---- */

static void check_other(void)
{
    MDB_env *env;
    MDB_txn *held = NULL;
    char c;
    (void)close(check.to[1]); /* its end is ours */
    KVL_EQUAL(mdb_env_create(&env), 0);
    KVL_EQUAL(mdb_env_set_mapsize(env, (size_t)1 << 30), 0);
    KVL_EQUAL(mdb_env_open(env, check.path, MDB_NOSYNC | MDB_NOTLS, 0600), 0);
    while (read(check.to[0], &c, 1) == 1) {
        for (int i = 0; c == 'c' && i < CHECK_COMMITS; i++) {
            MDB_txn *txn;
            MDB_dbi dbi;
            MDB_val key = {1, &c};
            MDB_val value = {sizeof(i), &i};
            KVL_EQUAL(mdb_txn_begin(env, NULL, 0, &txn), 0);
            KVL_EQUAL(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
            KVL_EQUAL(i == 0 ? mdb_put(txn, dbi, &key, &value, 0) : mdb_del(txn, dbi, &key, NULL),
                      0);
            KVL_EQUAL(mdb_txn_commit(txn), 0);
        }
        if (c == 'b')
            KVL_EQUAL(mdb_txn_begin(env, NULL, 0, &held), 0);
        if (c == 'e')
            mdb_txn_abort(held);
        KVL_EQUAL(write(check.from[1], &c, 1), 1);
    }
    mdb_env_close(env);
}

static void check_command(char c)
{
    KVL_EQUAL(write(check.to[1], &c, 1), 1);
    KVL_EQUAL(read(check.from[0], &c, 1), 1);
}

static void check_begin(void)
{
    struct kvl k;
    kvl_path(check.path, sizeof(check.path));
    (void)snprintf(check.data, sizeof(check.data), "%s/data.mdb", check.path);
    kvl_open(&k, check.path, SNIC_KV_OPEN_CREATE);
    kvl_close(&k);
    assert_int_equal(pipe(check.to), 0);
    assert_int_equal(pipe(check.from), 0);
    check.pid = fork();
    assert_true(check.pid >= 0);
    if (check.pid == 0) {
        check_other();
        _exit(0);
    }
    (void)close(check.to[0]);
    (void)close(check.from[1]);
    check_command('o'); /* it has opened it */
}

static void check_end(void)
{
    int status;
    (void)close(check.to[1]);
    (void)close(check.from[0]);
    assert_int_equal(waitpid(check.pid, &status, 0), check.pid);
    assert_int_equal(status, 0);
}

/* ---- The system calls ---- */

ssize_t pread(int fd, void *out, size_t size, off_t at)
{
    struct stat st;
    struct stat data;
    if (check.commits > 0 && at == CHECK_META && fstat(fd, &st) == 0 &&
        stat(check.data, &data) == 0 && st.st_ino == data.st_ino) {
        check.commits--;
        check_command('c');
    }
    return syscall(SYS_pread64, fd, out, size, at);
}

static void check_write_meta(const void *bytes)
{
    int fd = open(check.data, O_WRONLY | O_CLOEXEC);
    KVL_CHECK(fd >= 0);
    KVL_EQUAL(pwrite(fd, bytes, sizeof(check.meta), sizeof(check.meta)), sizeof(check.meta));
    (void)close(fd);
}

int usleep(useconds_t us)
{
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
    check.sleeps++;
    if (check.mend != 0 && check.sleeps == check.mend)
        check_write_meta(check.meta);
    return nanosleep(&t, NULL);
}

/* ---- Tests ---- */

static int check_open(struct kvl *k, uint64_t timeout_ns, char *text)
{
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = check.path, .timeout_ns = timeout_ns};
    text[0] = '\0';
    return kvl_try(k, &o, text);
}

/* A busy store is no damaged one: others may commit between each two looks. */
static void test_kv_lmdb_check_others_commit_all_the_time_busy(void **state)
{
    static const uint32_t beyond[] = {CHECK_TRIES + 100, 10 * CHECK_TRIES};
    struct kvl k;
    char text[256];
    (void)state;
    check_begin();
    check.commits = CHECK_TRIES / 2; /* as many as there are looks less the first ones */
    assert_int_equal(check_open(&k, 0, text), 0);
    assert_int_equal(check.commits, 0);
    kvl_close(&k);
    for (size_t i = 0; i < SNIC_COUNTOF(beyond); i++) {
        check.commits = beyond[i];
        assert_int_equal(check_open(&k, 0, text), SNIC_EBUSY);
        assert_non_null(strstr(text, "try again"));
        check.commits = 0;
        assert_int_equal(check_open(&k, 0, text), 0);
        kvl_close(&k);
    }
    check_end();
}

/* A meta that another process is writing is looked at again; one that stays so is damage. */
static void test_kv_lmdb_check_meta_being_written_waited_for(void **state)
{
    unsigned char torn[sizeof(check.meta)];
    struct kvl k;
    char text[256];
    (void)state;
    check_begin();
    int fd = open(check.data, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, check.meta, sizeof(check.meta), sizeof(check.meta)),
                     sizeof(check.meta));
    (void)close(fd);
    memset(torn, 0, sizeof(torn));
    for (uint32_t mend = 10; mend <= 200; mend += 190) {
        check_write_meta(torn);
        check.sleeps = 0;
        check.mend = mend;
        int r = check_open(&k, 0, text);
        check.mend = 0;
        assert_int_equal(r, mend == 10 ? 0 : SNIC_ECORRUPT);
        assert_int_equal(check.sleeps < 25, 1);
        if (r == 0)
            kvl_close(&k);
        else
            assert_non_null(strstr(text, "damaged"));
        check_write_meta(check.meta);
    }
    assert_int_equal(check_open(&k, 0, text), 0);
    kvl_close(&k);
    check_end();
}

/* Another process has the write lock: a change times out, the handle is used on. What the lock is
 * free for may take as long as the disk does: those changes have no limit of their own. */
static void test_kv_lmdb_check_write_lock_held_times_out(void **state)
{
    struct kvl k;
    char text[256];
    (void)state;
    check_begin();
    assert_int_equal(check_open(&k, 100000000, text), 0);
    k.timeout_ns = SNIC_NEVER;
    assert_int_equal(kvl_put(&k, 1, 1, 1, SNIC_KVOP_DURABLE), 0);
    for (uint64_t i = 0; i < 2; i++) {
        check_command('b');
        k.timeout_ns = 0; /* the handle's */
        for (uint64_t n = 0; n < 1 + 9 * i; n++) {
            int64_t r = kvl_put(&k, 1, 2 + n, 2, SNIC_KVOP_DURABLE);
            if (r != SNIC_ETIMEDOUT && r != SNIC_EUNKNOWN)
                assert_int_equal(r, SNIC_ETIMEDOUT);
        }
        check_command('e');
        k.timeout_ns = SNIC_NEVER;
        assert_int_equal(kvl_put(&k, 1, 50 + i, 3, SNIC_KVOP_DURABLE), 0);
        assert_int_equal(kvl_get(&k, 1, 1, 0), 1);
        assert_int_equal(kvl_get(&k, 1, 50 + i, 0), 3);
    }
    kvl_close(&k);
    check_end();
}

/* The handle that has the store alone does not come round: open waits timeout_ns. */
static void test_kv_lmdb_check_silent_handle_busy(void **state)
{
    struct kvl k;
    struct kvl other;
    char text[256];
    int go[2];
    char c = 0;
    (void)state;
    check_begin();
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        kvl_open(&other, check.path, 0);
        KVL_EQUAL(write(go[1], "o", 1), 1);
        KVL_EQUAL(raise(SIGSTOP), 0);
        kvl_close(&other);
        _exit(0);
    }
    assert_int_equal(read(go[0], &c, 1), 1);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    assert_int_equal(check_open(&k, 300000000, text), SNIC_EBUSY);
    assert_non_null(strstr(text, "does not answer"));
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(check_open(&k, 0, text), 0);
    kvl_close(&k);
    (void)close(go[0]);
    (void)close(go[1]);
    check_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_check_others_commit_all_the_time_busy),
        cmocka_unit_test(test_kv_lmdb_check_meta_being_written_waited_for),
        cmocka_unit_test(test_kv_lmdb_check_write_lock_held_times_out),
        cmocka_unit_test(test_kv_lmdb_check_silent_handle_busy),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}

#else

int main(void)
{
    return 77; /* built without LMDB */
}

#endif
