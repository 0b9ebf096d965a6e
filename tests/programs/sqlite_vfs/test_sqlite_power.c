/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SQLite on the VFS over a simulated device whose power is cut at every write, flush and zeroing,
 * with un-synced sectors kept by subsets and the write at the cut torn: afterwards the database is
 * whole, holds every transaction whose COMMIT returned, and at most the one under way besides. For
 * each kind of journal, and with recoveries that are cut, too.
 */
#include "filelink.h"
#include "power.h"
#include "support.h"
#include "vfs.h"
#include "volume.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRANSACTIONS 5 /* after the one that makes the tables */
#define STRIDE 11      /* by day every so many-th cut */

struct node {
    struct filelink l;
    const char *journal;              /* its mode */
    int committed;                    /* transactions whose COMMIT has returned */
    int tried;                        /* transactions begun */
    char *expected[TRANSACTIONS + 2]; /* contents after so many */
};

static int small;               /* transactions change one byte of one page */
static struct sv_volume volume; /* what the VFS finds under the name of a file of the host */

/* ---- The volume under the VFS ---- */

int sv_volume_get(const char *path, struct sv_volume **out, char *why)
{
    (void)path;
    (void)why;
    *out = &volume;
    return 0;
}

int sv_volume_is_open(const char *path)
{
    (void)path;
    return 0; /* its name stays: it is found as one that is not open yet */
}

void sv_volume_put(struct sv_volume *v)
{
    (void)v;
}

/* As a mount does. */
static void locks_clear(void)
{
    DIR *d = opendir(volume.locks);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
}

/* @return 0: what the disk holds is mounted, and the host is linked to it */
static int node_mount(struct node *n, struct snic_io *io)
{
    n->l.fx.io = io;
    if (filefix_try_mount(&n->l.fx) != 0)
        return -1;
    assert_int_equal(snic_files_check(n->l.fx.files), 0);
    filelink_connect(&n->l);
    filelink_group_open(&n->l);
    assert_int_equal(snic_filelib_sync_init(&volume.sync, n->l.group, SNIC_FILELIB_SYNC_OWNER), 0);
    locks_clear();
    return 0;
}

static void node_unmount(struct node *n)
{
    filelink_group_close(&n->l);
    filelink_server_close(&n->l);
    filelink_disconnect(&n->l);
    (void)filefix_unmount(&n->l.fx);
}

/* ---- The database ---- */

static sqlite3 *db_open(const struct node *n, const char *path, const char *vfs)
{
    sqlite3 *db = NULL;
    char sql[128];
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs) == SQLITE_OK) {
        (void)snprintf(sql, sizeof(sql),
                       "pragma page_size = %d; pragma synchronous = full; "
                       "pragma journal_mode = %s; pragma wal_autocheckpoint = 6",
                       small ? 4096 : 1024, n->journal);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
            return db;
    }
    (void)sqlite3_close(db);
    return NULL;
}

/* Transaction i; 0 makes the tables. */
static int db_transaction(sqlite3 *db, int i)
{
    char sql[1024];
    if (i == 0)
        return sqlite3_exec(db,
                            "begin; create table t(id integer primary key, v);"
                            "create table m(k, pad); insert into m values(100, printf('%.*c', "
                            "1900, 'x')); commit",
                            NULL, NULL, NULL);
    if (small) {
        (void)snprintf(sql, sizeof(sql), "update m set k = %d", 100 + i);
        return sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    (void)snprintf(sql, sizeof(sql),
                   "begin; with recursive n(i) as (select 1 union all select i + 1 from n where "
                   "i < 4) insert into t(v) select printf('%%.*c', 200 + 97 * i, '%c') from n;"
                   "update t set v = v || '%d' where id %% 3 = %d;"
                   "delete from t where id %% 7 = %d; update m set k = %d; commit",
                   'a' + i, i, i % 3, i % 7, i);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* The first column of the first row, copied; NULL: the query failed. */
static char *db_value(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    char *out = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(s, 0);
        out = strdup(text == NULL ? "" : (const char *)text);
    }
    (void)sqlite3_finalize(s);
    return out;
}

#define CONTENTS                                                                                   \
    "select k || ' ' || ifnull((select group_concat(id || v, ' ') from (select * from t order by " \
    "id)), '') from m"

/* What the tables hold after so many transactions: of the same statements in memory. */
static void node_expect(struct node *n)
{
    sqlite3 *db = db_open(n, ":memory:", NULL);
    assert_non_null(db);
    n->expected[0] = strdup("no tables");
    for (int i = 0; i <= TRANSACTIONS; i++) {
        assert_int_equal(db_transaction(db, i), SQLITE_OK);
        n->expected[i + 1] = db_value(db, CONTENTS);
        assert_non_null(n->expected[i + 1]);
    }
    (void)sqlite3_close(db);
}

static void db_path(char *path, size_t size)
{
    (void)snprintf(path, size, "%.200s/shop/a.db", volume.path);
}

/* The run that is cut: in the middle the database is closed and opened again. */
static void node_run(void *ctx, struct snic_io *io)
{
    struct node *n = ctx;
    sqlite3 *db = NULL;
    char path[600];
    n->committed = n->tried = 0;
    if (node_mount(n, io) != 0)
        return;
    db_path(path, sizeof(path));
    for (int i = 0; i <= TRANSACTIONS; i++) {
        if (i % 3 == 0) {
            (void)sqlite3_close(db);
            db = db_open(n, path, "snicstore");
            if (db == NULL)
                break;
        }
        n->tried = i + 1;
        if (db_transaction(db, i) != SQLITE_OK)
            break;
        n->committed = i + 1;
    }
    (void)sqlite3_close(db);
    node_unmount(n);
}

/* A recovery whose power fails, too. */
static void node_again(void *ctx, struct snic_io *io, struct snic_disk *disk, uint64_t seed)
{
    struct snic_fault f = {.kind = SNIC_FAULT_POWER,
                           .ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_ZERO,
                           .after = 1 + seed % 5,
                           .seed = seed};
    struct node *n = ctx;
    char path[600];
    sqlite3 *db;
    assert_int_equal(snic_disk_fault(disk, &f), 0);
    if (node_mount(n, io) == 0) {
        db_path(path, sizeof(path));
        db = db_open(n, path, "snicstore");
        if (db != NULL)
            free(db_value(db, CONTENTS));
        (void)sqlite3_close(db);
        node_unmount(n);
    }
    snic_disk_faults_clear(disk);
    snic_disk_power_cut(disk, seed);
}

static void node_judge(void *ctx, struct snic_io *io, uint64_t cut, uint64_t survivors)
{
    struct node *n = ctx;
    char *whole, *found, path[600];
    sqlite3 *db;
    int k;
    assert_int_equal(node_mount(n, io), 0);
    db_path(path, sizeof(path));
    db = db_open(n, path, "snicstore");
    assert_non_null(db);
    whole = db_value(db, "pragma integrity_check");
    found = db_value(db, CONTENTS);
    if (found == NULL)
        found = strdup("no tables");
    for (k = 0; k <= TRANSACTIONS + 1 && strcmp(found, n->expected[k]) != 0;)
        k++;
    if (whole == NULL || strcmp(whole, "ok") != 0 || k < n->committed || k > n->tried)
        fail_msg("journal_mode=%s, cut %llu, survivors %llu: integrity_check %.100s; transactions "
                 "found %d, committed %d, begun %d: %.60s",
                 n->journal, (unsigned long long)cut, (unsigned long long)survivors,
                 whole == NULL ? "failed" : whole, k, n->committed, n->tried, found);
    assert_int_equal(
        sqlite3_exec(db, "create table after(a); insert into after values(1)", NULL, NULL, NULL),
        SQLITE_OK);
    free(whole);
    free(found);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    node_unmount(n);
}

/* ---- The cuts ---- */

static void volume_open(void)
{
    int fd;
    support_tmpname(volume.path, 200, "volume");
    fd = open(volume.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)snprintf(volume.locks, sizeof(volume.locks), "%.200s.locks", volume.path);
    assert_int_equal(mkdir(volume.locks, 0700), 0);
    assert_int_equal(sv_vfs_register(), SQLITE_OK);
}

static void volume_close(void)
{
    locks_clear();
    (void)rmdir(volume.locks);
    (void)unlink(volume.path);
}

static struct node *node_open(const char *journal, uint32_t sector)
{
    struct node *n = calloc(1, sizeof(*n));
    assert_non_null(n);
    volume_open();
    n->journal = journal;
    n->l.fx.disk_opts.sector = sector;
    n->l.open.up_bytes = 131072;
    n->l.open.down_bytes = 131072;
    filefix_open(&n->l.fx);
    assert_int_equal(snic_files_format(n->l.fx.io, &n->l.fx.format), 0);
    snic_disk_sync(n->l.fx.disk);
    assert_int_equal(snic_world_loop(n->l.fx.world, 1, &n->l.host_loop), 0);
    return n;
}

static void node_close(struct node *n)
{
    snic_loop_close(n->l.host_loop);
    snic_disk_close(n->l.fx.disk);
    snic_loop_close(n->l.fx.loop);
    snic_world_close(n->l.fx.world);
    free(n);
    volume_close();
}

static void cut_everywhere(const char *journal, uint32_t sector)
{
    struct node *n = node_open(journal, sector);
    struct power_case c = {.ctx = n,
                           .run = node_run,
                           .judge = node_judge,
                           .again = node_again,
                           .seed = support_seed() + support_turn(STRIDE),
                           .step = support_stride(STRIDE, STRIDE),
                           .random = (uint32_t)support_scale(1, 4),
                           .torn = 1};
    uint64_t tried;
    snic_io_close(n->l.fx.io);
    node_expect(n);
    c.base = n->l.fx.disk;
    c.loop = n->l.fx.loop;
    tried = power_enumerate(&c);
    print_message("journal_mode=%s, sectors of %u: %llu power cuts\n", journal, sector,
                  (unsigned long long)tried);
    assert_true(tried > 0);
    for (int i = 0; i <= TRANSACTIONS + 1; i++)
        free(n->expected[i]);
    node_close(n);
}

/** Without it a committed order would be lost, or half of one found, after a power failure. */
static void test_sqlite_power_rollback_journal(void **state)
{
    (void)state;
    cut_everywhere("delete", 4096);
    cut_everywhere("truncate", 512);
    cut_everywhere("persist", 4096);
}

/** Without it SQLite would take the data of the last transaction's journal, which PERSIST writes
 *  over, for those of this one: its checksums sample a byte in 200. */
static void test_sqlite_power_journal_written_over(void **state)
{
    (void)state;
    small = 1;
    cut_everywhere("persist", 512);
    small = 0;
}

/** The same in WAL mode, checkpoints included. */
static void test_sqlite_power_wal(void **state)
{
    (void)state;
    cut_everywhere("wal", 4096);
    cut_everywhere("wal", 512);
}

/** Without it a database would be damaged, or fail without a cause, when the image's files_max is
 *  reached: by the database itself, or by its journal. */
static void test_sqlite_files_max_reached_full(void **state)
{
    struct node *n = node_open("delete", 4096);
    int made = 0, full = 0;
    char path[600];
    sqlite3 *db;
    (void)state;
    assert_int_equal(node_mount(n, n->l.fx.io), 0);
    for (int i = 0; i < 40; i++) {
        int rc;
        (void)snprintf(path, sizeof(path), "%.200s/%d.db", volume.path, i);
        rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "snicstore");
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db, "create table t(a); insert into t values(7)", NULL, NULL, NULL);
        (void)sqlite3_close(db);
        assert_true(rc == SQLITE_OK || (rc & 0xff) == SQLITE_FULL);
        full += rc != SQLITE_OK;
        made += full == 0;
    }
    assert_int_equal(made, 31); /* of 32 files, one being the journal's */
    for (int i = 0; i < made; i++) {
        char *value;
        (void)snprintf(path, sizeof(path), "%.200s/%d.db", volume.path, i);
        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "snicstore"), SQLITE_OK);
        value = db_value(db, "select a from t");
        assert_string_equal(value, "7");
        free(value);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
    node_unmount(n);
    snic_io_close(n->l.fx.io);
    node_close(n);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sqlite_power_rollback_journal),
        cmocka_unit_test(test_sqlite_power_journal_written_over),
        cmocka_unit_test(test_sqlite_power_wal),
        cmocka_unit_test(test_sqlite_files_max_reached_full),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
