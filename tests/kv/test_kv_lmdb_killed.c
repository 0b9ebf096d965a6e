/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB when another process is killed inside LMDB's commit: behind the write of the
 * meta page, which is what commits, and before what makes it visible to other processes. Readers
 * see the state before until the next transaction that writes; what the dead one committed counts
 * all the same, so nothing may be built on the state before.
 */
#include "kv_lmdb_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

enum { KILLED_LOG = 70, KILLED_RECORD = 64, KILLED_BEFORE = 3, KILLED_WRITES_MAX = 20 };

/* The meta page's write that is this process's last; 0: none. */
static uint32_t killed_at;

/* LMDB writes its meta pages, and nothing else, to a file that is open with O_DSYNC. */
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t n = syscall(SYS_pwrite64, fd, data, size, offset);
    if (killed_at > 0 && (fcntl(fd, F_GETFL) & O_DSYNC) != 0 && --killed_at == 0)
        (void)raise(SIGKILL);
    return n;
}

struct killed {
    char path[512];
    uint32_t at;
};

static void killed_record(unsigned char *p, uint64_t who, uint64_t n)
{
    memset(p, 0, KILLED_RECORD);
    snic_put_le64(p, who);
    snic_put_le64(p + 8, n);
}

static void killed_append(struct kvl *k, uint64_t who, uint64_t n)
{
    unsigned char p[KILLED_RECORD];
    killed_record(p, who, n);
    kvl_append(k, KILLED_LOG, p, sizeof(p));
}

/* New blocks for an object. */
static void killed_grow(struct kvl *k, uint64_t object)
{
    static unsigned char p[4 * KVL_BLOCK];
    kvl_fill(p, object, 0, sizeof(p), 1);
    KVL_EQUAL(kvl_object(k, SNIC_KVOP_OBJECT_WRITE, 0, object, 0, sizeof(p), p), sizeof(p));
}

static void killed_other(void *ctx)
{
    struct killed *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, 0);
    KVL_EQUAL(snic_kv_sole(k.kv), 0);
    killed_at = s->at;
    for (uint64_t n = 0; n < KILLED_BEFORE; n++)
        killed_append(&k, 2, n);
    killed_grow(&k, KILLED_LOG + 1);
    killed_at = 0;
    kvl_close(&k);
}

/* Each record is there once, at its place, and each process's are in their order. */
static void killed_look(struct kvl *k, uint64_t own)
{
    uint64_t next[3] = {0};
    uint64_t count = kvl_get(k, KILLED_LOG, 0, 0);
    for (uint64_t n = 0; n < count; n++) {
        unsigned char p[KILLED_RECORD];
        unsigned char right[KILLED_RECORD];
        assert_int_equal(kvl_object(k, SNIC_KVOP_OBJECT_READ, 0, KILLED_LOG, n * KILLED_RECORD,
                                    KILLED_RECORD, p),
                         KILLED_RECORD);
        uint64_t who = snic_get_le64(p);
        assert_in_range(who, 1, 2);
        killed_record(right, who, next[who]++);
        assert_memory_equal(p, right, sizeof(p));
    }
    assert_int_equal(next[1], own);
}

/* A handle that may not write reads what readers see. */
static void killed_reader(void *ctx)
{
    struct killed *s = ctx;
    struct kvl k;
    kvl_open(&k, s->path, SNIC_KV_OPEN_READONLY);
    uint64_t count = kvl_get(&k, KILLED_LOG, 0, 0);
    KVL_CHECK(count >= 1);
    for (uint64_t n = 0; n < count; n++) {
        unsigned char p[KILLED_RECORD];
        KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, KILLED_LOG, n * KILLED_RECORD,
                             KILLED_RECORD, p),
                  KILLED_RECORD);
    }
    kvl_close(&k);
}

/* Turn the loop until the process has ended. How it has. */
static int killed_wait(struct kvl *k, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0)
        assert_true(snic_loop_once(k->loop, 1000000) >= 0);
    return status;
}

/* @return 1: the other one was killed */
static int killed_once(const char *path, uint32_t at, int sole)
{
    struct killed s = {.at = at};
    struct kvl k;
    (void)snprintf(s.path, sizeof(s.path), "%s", path);
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    killed_append(&k, 1, 0);
    assert_int_equal(kvl_sync(&k), 0);
    int status = killed_wait(&k, kvl_fork(killed_other, &s));
    int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    assert_int_equal(killed_wait(&k, kvl_fork(killed_reader, &s)), 0);
    while (sole && !snic_kv_sole(k.kv))
        assert_true(snic_loop_once(k.loop, 10000000) >= 0);
    killed_append(&k, 1, 1);
    killed_append(&k, 1, 2);
    killed_grow(&k, KILLED_LOG + 2);
    killed_look(&k, 3);
    kvl_close(&k);
    kvl_open(&k, path, 0); /* sole: what the dead one had reserved is back */
    killed_look(&k, 3);
    kvl_close(&k);
    kvl_audit(path);
    return killed;
}

static void killed_each(int sole)
{
    uint32_t at = 1;
    for (int killed = 1; killed; at++) {
        char path[512];
        assert_true(at <= KILLED_WRITES_MAX);
        kvl_path(path, sizeof(path));
        killed = killed_once(path, at, sole);
    }
    assert_true(at > KILLED_BEFORE + 1); /* each append was one at least */
}

static void test_kv_lmdb_killed_and_the_others_go_on(void **state)
{
    (void)state;
    killed_each(0);
}

static void test_kv_lmdb_killed_and_the_other_is_sole(void **state)
{
    (void)state;
    killed_each(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_killed_and_the_others_go_on),
        cmocka_unit_test(test_kv_lmdb_killed_and_the_other_is_sole),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
