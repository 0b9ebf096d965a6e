/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The checker: every kind of damage is found, mended where it can be, and the rest is kept. */
#include "../../examples/kvfs_tool/fsck.h"
#include "test_kvfs_audit.h"

#include <stdlib.h>
#include <string.h>

struct fsck_world {
    struct snic_kvmem *m;
    uint64_t dir, sub, file, big, linked;
};

static int64_t fsck_op(void *ctx, struct snic_kvop *op)
{
    snic_kvmem_apply(ctx, op);
    return op->result;
}

static enum fsck_code fsck_of(struct snic_kvmem *m, int repair, struct fsck_report *r)
{
    struct fsck_opts o = {.op = fsck_op, .ctx = m, .repair = repair, .data = 1};
    return fsck_run(&o, r);
}

static void fsck_begin(struct fsck_world *w)
{
    struct kvt t;
    char bytes[20000];
    memset(bytes, 'b', sizeof(bytes));
    kvt_open(&t, NULL);
    w->m = t.m;
    t.owns_medium = 0;
    w->dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    w->sub = kvt_mkdir(&t, w->dir, "sub", 0755);
    w->file = kvt_file(&t, w->sub, "file", 0644);
    w->big = kvt_file(&t, w->dir, "big", 0644);
    w->linked = kvt_file(&t, w->dir, "one", 0644);
    assert_int_equal(kvt_write(&t, w->file, 0, bytes, 100), 100);
    assert_int_equal(kvt_write(&t, w->big, 0, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(kvt_link(&t, w->linked, SNIC_FSOP_ROOT, "two"), 0);
    kvt_close(&t);
}

static void fsck_change(struct snic_kvmem *m, const struct snic_kvop_key *key, void *record,
                        uint32_t size)
{
    struct snic_kvop_change c = {.key = *key, .kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    if (size != 0) {
        snic_kvfs_seal(key, record, size, 0);
        c.kind = SNIC_KVOP_PUT;
        c.value = record;
        c.size = size;
    }
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

static uint32_t fsck_read(struct snic_kvmem *m, const struct snic_kvop_key *key, void *room)
{
    struct snic_kvop_get g = {.key = *key, .value = room, .room = 4096};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    snic_kvmem_apply(m, &op);
    assert_int_equal(g.result, 0);
    return g.size;
}

static void fsck_attr_of(struct snic_kvmem *m, uint64_t ino, struct snic_fsop_attr *a)
{
    unsigned char record[4096];
    struct snic_kvop_key key;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    uint32_t size = fsck_read(m, &key, record);
    assert_int_equal(snic_kvfs_attr_decode(a, record, size), 0);
}

static void fsck_set_attr(struct snic_kvmem *m, const struct snic_fsop_attr *a)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_key key;
    snic_kvfs_attr_encode(record, a);
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_ATTR);
    fsck_change(m, &key, record, sizeof(record));
}

static void fsck_entry_key(struct snic_kvmem *m, uint64_t ino, struct snic_kvop_key *key)
{
    struct snic_fsop_attr a;
    fsck_attr_of(m, ino, &a);
    snic_kvfs_key_hash(key, a.parent, SNIC_KVFS_REC_ENTRY, a.name);
}

/* ---- Damages ---- */

static void hurt_name_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    fsck_entry_key(m, w->file, &key);
    fsck_change(m, &key, NULL, 0);
}

static void hurt_dir_name_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    struct snic_fsop_hash h;
    struct snic_kvfs_super s;
    unsigned char record[4096];
    (void)w;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SUPER);
    uint32_t size = fsck_read(m, &key, record);
    assert_int_equal(snic_kvfs_super_decode(&s, record, size), 0);
    h = snic_kvfs_hash_name(s.seed, "dir", 3);
    snic_kvfs_key_hash(&key, 0, SNIC_KVFS_REC_ENTRY, h);
    fsck_change(m, &key, NULL, 0);
}

static void hurt_attr_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    fsck_change(m, &key, NULL, 0);
}

static void hurt_big_attr_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->big, SNIC_KVFS_REC_ATTR);
    fsck_change(m, &key, NULL, 0);
}

static void hurt_nlink(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    fsck_attr_of(m, w->linked, &a);
    a.nlink = 7;
    fsck_set_attr(m, &a);
}

static void hurt_dir_counts(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    fsck_attr_of(m, w->dir, &a);
    a.nlink = 2;
    a.entries = 9;
    fsck_set_attr(m, &a);
}

static void hurt_dir_parent(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    fsck_attr_of(m, w->sub, &a);
    a.parent = w->file;
    fsck_set_attr(m, &a);
}

static void hurt_root_nlink(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    (void)w;
    fsck_attr_of(m, 0, &a);
    a.nlink = 0;
    fsck_set_attr(m, &a);
}

/* A directory that has names in it, but none itself, and is marked as removed. */
static void hurt_dir_removed(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    hurt_dir_name_gone(w, m);
    fsck_attr_of(m, w->dir, &a);
    a.nlink = 0;
    fsck_set_attr(m, &a);
}

/* A record of @p key with so many bytes of @p fill behind the head. */
static void fsck_plant(struct snic_kvmem *m, const struct snic_kvop_key *key, int fill,
                       uint32_t size)
{
    unsigned char record[4096];
    memset(record, fill, sizeof(record));
    fsck_change(m, key, record, SNIC_KVFS_HEAD + size);
}

static void hurt_table_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 0);
    fsck_change(m, &key, NULL, 0);
}

static void hurt_table(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 0);
    fsck_plant(m, &key, 1, 3);
}

static void hurt_beat_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 5);
    fsck_plant(m, &key, 0, 8);
}

static void hurt_beat(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    hurt_beat_gone(w, m);
    snic_kvfs_key_beat(&key, 5);
    fsck_plant(m, &key, 0, 3);
}

static void hurt_beat_alone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key_beat(&key, 5);
    fsck_plant(m, &key, 0, 8);
}

/* Numbers that no session ever has: too many to look at them all. */
static void hurt_session_range(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[SNIC_KVFS_HEAD + 24] = {0};
    struct snic_kvop_key key;
    hurt_beat_alone(w, m);
    snic_put_le32(record + 12, 1);
    snic_put_le64(record + 16, 2);
    snic_put_le64(record + 24, SNIC_KVFS_INO_MAX / 2);
    snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 5);
    fsck_change(m, &key, record, sizeof(record));
}

static void hurt_sessions(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    for (uint64_t id = 1001; id <= 1070; id++) {
        snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, id);
        fsck_plant(m, &key, 0, 8);
        snic_kvfs_key_beat(&key, id);
        fsck_plant(m, &key, 0, 8);
    }
}

static void hurt_session_key(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvop_key_set(&key, SNIC_KVFS_GROUP_SUPER, "s12", 3);
    fsck_plant(m, &key, 0, 8);
}

static void hurt_moves(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_MOVES);
    fsck_plant(m, &key, 0, 3);
}

static void hurt_no_numbers(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    fsck_plant(m, &key, 255, 8);
}

/* Keys that are never looked up: each hides a directory, or is taken for attributes. */
static void hurt_keys(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[4096];
    struct snic_kvop_key key;
    fsck_entry_key(m, w->file, &key);
    uint32_t size = fsck_read(m, &key, record);
    snic_kvop_key_set(&key, 0, "E123", 4);
    fsck_change(m, &key, record, size);
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    size = fsck_read(m, &key, record);
    snic_kvop_key_set(&key, w->file, "A1", 2);
    fsck_change(m, &key, record, size);
}

static void hurt_name_twice(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[4096];
    struct snic_kvop_key key;
    fsck_entry_key(m, w->file, &key);
    uint32_t size = fsck_read(m, &key, record), one = size - SNIC_KVFS_HEAD;
    memcpy(record + size, record + SNIC_KVFS_HEAD, one);
    fsck_change(m, &key, record, size + one);
}

static void hurt_unlisted(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_fsop_attr a;
    hurt_name_gone(w, m);
    fsck_attr_of(m, w->file, &a);
    a.nlink = 0;
    a.flags &= ~SNIC_KVFS_ATTR_PARENT;
    fsck_set_attr(m, &a);
    fsck_attr_of(m, w->sub, &a);
    a.entries--;
    fsck_set_attr(m, &a);
}

static void hurt_stray_object(struct fsck_world *w, struct snic_kvmem *m)
{
    char byte = 'x';
    struct snic_iov iov = {.base = &byte, .size = 1};
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_WRITE,
                           .object = w->big + 1000,
                           .length = 1,
                           .iov = &iov,
                           .iov_count = 1};
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 1);
}

static void hurt_next_ino(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[SNIC_KVFS_NUMBER_BYTES];
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_number_encode(record, 3);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    fsck_change(m, &key, record, sizeof(record));
}

/* /dir becomes a name in /dir/sub: they name each other. */
static void hurt_circle(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key from, to;
    struct snic_fsop_attr a;
    unsigned char record[4096];
    fsck_entry_key(m, w->dir, &from);
    uint32_t size = fsck_read(m, &from, record);
    fsck_attr_of(m, w->dir, &a);
    snic_kvfs_key_hash(&to, w->sub, SNIC_KVFS_REC_ENTRY, a.name);
    fsck_change(m, &to, record, size);
    fsck_change(m, &from, NULL, 0);
}

static void hurt_reserved(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[4096], reserved[4096];
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    uint32_t size = fsck_read(m, &key, record);
    memset(reserved, 0, SNIC_KVFS_HEAD + sizeof(struct snic_kvfs_reservation));
    snic_put_le64(reserved + 8, 99);
    snic_put_le64(reserved + 16, 1);
    snic_put_le32(reserved + 24, size);
    memcpy(reserved + 32, record, size);
    struct snic_kvop_change c = {
        .key = key, .kind = SNIC_KVOP_PUT, .value = reserved, .size = size + 32};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvfs_seal(&key, reserved, size + 32, SNIC_KVFS_RESERVED);
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

/* A reservation that cannot be read does not show what belongs to it: all of it stays. */
static void hurt_reservation(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char reserved[64] = {0};
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    snic_put_le32(reserved + 24, 1U << 31);
    struct snic_kvop_change c = {
        .key = key, .kind = SNIC_KVOP_PUT, .value = reserved, .size = sizeof(reserved)};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvfs_seal(&key, reserved, sizeof(reserved), SNIC_KVFS_RESERVED);
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

static void hurt_checksum(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[4096];
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    uint32_t size = fsck_read(m, &key, record);
    record[100] ^= 1;
    struct snic_kvop_change c = {.key = key, .kind = SNIC_KVOP_PUT, .value = record, .size = size};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.result, 0);
}

/* The record of where the file's further name is. */
static void hurt_further_key(struct fsck_world *w, struct snic_kvmem *m, struct snic_kvop_key *key)
{
    unsigned char room[8192];
    struct snic_kvop scan = {.kind = SNIC_KVOP_SCAN,
                             .key = {.group = w->linked, .size = 1, .bytes = "P"},
                             .scan_max = 1,
                             .out = room,
                             .out_room = sizeof(room)};
    snic_kvmem_apply(m, &scan);
    const struct snic_kvop_record *r = snic_kvop_first(&scan);
    assert_non_null(r);
    snic_kvop_key_set(key, w->linked, snic_kvop_record_key(r), r->key_size);
}

static void hurt_further_gone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    struct snic_fsop_attr a;
    hurt_further_key(w, m, &key);
    fsck_change(m, &key, NULL, 0);
    fsck_attr_of(m, w->linked, &a);
    a.flags &= ~SNIC_KVFS_ATTR_PARENTS;
    fsck_set_attr(m, &a);
}

static void hurt_further_count(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    hurt_further_key(w, m, &key);
    fsck_plant(m, &key, 255, 4);
}

static void hurt_further_none(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    hurt_further_key(w, m, &key);
    fsck_plant(m, &key, 0, 4);
}

static void hurt_further_long(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    hurt_further_key(w, m, &key);
    fsck_plant(m, &key, 1, 4000);
}

static void hurt_further_elsewhere(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    struct snic_fsop_attr a;
    fsck_attr_of(m, w->file, &a);
    snic_kvfs_key_parent(&key, w->file, w->dir, a.name);
    fsck_plant(m, &key, 1, 4);
}

static void hurt_locks(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_LOCKS);
    fsck_plant(m, &key, 1, 41);
}

static void hurt_locks_type(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_LOCKS);
    fsck_plant(m, &key, 255, 80);
}

static void hurt_beyond(struct fsck_world *w, struct snic_kvmem *m)
{
    unsigned char record[4096];
    struct snic_kvop_key key;
    snic_kvfs_key(&key, w->file, SNIC_KVFS_REC_ATTR);
    uint32_t size = fsck_read(m, &key, record);
    key.group = SNIC_KVFS_INO_MAX;
    fsck_change(m, &key, record, size);
    key.group = SNIC_KVFS_GROUP_INTENTS - 1;
    fsck_change(m, &key, record, size);
}

static void hurt_fence_alone(struct fsck_world *w, struct snic_kvmem *m)
{
    struct snic_kvop_key key;
    (void)w;
    snic_kvfs_key_fence(&key, 5);
    fsck_plant(m, &key, 1, 8);
}

static void hurt_bytes(struct fsck_world *w, struct snic_kvmem *m)
{
    assert_int_equal(snic_kvmem_damage(m, w->big, 9000), 0);
}

static const struct {
    const char *name;
    void (*hurt)(struct fsck_world *w, struct snic_kvmem *m);
    int mendable;
} hurts[] = {
    {"name gone", hurt_name_gone, 1},
    {"directory's name gone", hurt_dir_name_gone, 1},
    {"attributes gone", hurt_attr_gone, 1},
    {"big file's attributes gone", hurt_big_attr_gone, 1},
    {"nlink", hurt_nlink, 1},
    {"directory's counts", hurt_dir_counts, 1},
    {"directory's parent", hurt_dir_parent, 1},
    {"orphan not listed", hurt_unlisted, 1},
    {"the root's nlink", hurt_root_nlink, 1},
    {"full directory removed", hurt_dir_removed, 1},
    {"table of sessions gone", hurt_table_gone, 1},
    {"table of sessions", hurt_table, 1},
    {"session without heartbeat", hurt_beat_gone, 1},
    {"heartbeat", hurt_beat, 1},
    {"heartbeat without session", hurt_beat_alone, 1},
    {"session's numbers", hurt_session_range, 1},
    {"session's key", hurt_session_key, 1},
    {"sessions", hurt_sessions, 1},
    {"number of moves", hurt_moves, 1},
    {"no numbers left", hurt_no_numbers, 1},
    {"keys", hurt_keys, 1},
    {"name twice", hurt_name_twice, 1},
    {"object without inode", hurt_stray_object, 1},
    {"next inode number", hurt_next_ino, 1},
    {"circle", hurt_circle, 1},
    {"reservation without intent", hurt_reserved, 1},
    {"further name gone", hurt_further_gone, 1},
    {"further names' count", hurt_further_count, 1},
    {"no further names", hurt_further_none, 1},
    {"further names' length", hurt_further_long, 1},
    {"further name elsewhere", hurt_further_elsewhere, 1},
    {"locks' length", hurt_locks, 1},
    {"locks' types", hurt_locks_type, 1},
    {"numbers never given out", hurt_beyond, 1},
    {"fence without session", hurt_fence_alone, 1},
    {"reservation", hurt_reservation, 0},
    {"checksum", hurt_checksum, 0},
    {"object bytes", hurt_bytes, 0},
};

static void test_kvfs_fsck_clean_found_clean(void **state)
{
    struct fsck_world w;
    struct fsck_report r;
    (void)state;
    fsck_begin(&w);
    uint64_t before = snic_kvmem_digest(w.m);
    assert_int_equal(fsck_of(w.m, 0, &r), FSCK_CLEAN);
    assert_int_equal(r.inodes, 6);
    assert_int_equal(r.directories, 3);
    assert_int_equal(fsck_of(w.m, 1, &r), FSCK_CLEAN);
    assert_int_equal(snic_kvmem_digest(w.m), before);
    snic_kvmem_close(w.m);
}

static void test_kvfs_fsck_empty_store_refused(void **state)
{
    struct snic_kvmem *m;
    struct fsck_report r;
    (void)state;
    kvt_medium(&m, 0);
    assert_int_equal(fsck_of(m, 1, &r), FSCK_ERROR);
    assert_int_equal(r.error, SNIC_ENOENT);
    snic_kvmem_close(m);
}

/* Looking changes nothing; mending makes it clean, mountable and whole, or reports what is left. */
static void test_kvfs_fsck_each_damage_found_repaired(void **state)
{
    struct fsck_world w;
    (void)state;
    fsck_begin(&w);
    for (size_t i = 0; i < SNIC_COUNTOF(hurts); i++) {
        struct snic_kvmem *m;
        struct fsck_report r;
        struct kvt t;
        assert_int_equal(snic_kvmem_clone(w.m, &m), 0);
        hurts[i].hurt(&w, m);
        uint64_t before = snic_kvmem_digest(m);
        enum fsck_code look = fsck_of(m, 0, &r);
        int hidden = hurts[i].hurt == hurt_reserved; /* means the old record */
        if (look != (hidden ? FSCK_CLEAN : FSCK_LEFT))
            print_error("%s: %d\n", hurts[i].name, (int)look);
        assert_int_equal(look, hidden ? FSCK_CLEAN : FSCK_LEFT);
        assert_true(snic_kvmem_digest(m) == before);
        enum fsck_code mend = fsck_of(m, 1, &r);
        if (mend != (hurts[i].mendable ? FSCK_MENDED : FSCK_LEFT))
            print_error("%s: %d, %llu left\n", hurts[i].name, (int)mend,
                        (unsigned long long)r.findings);
        assert_int_equal(mend, hurts[i].mendable ? FSCK_MENDED : FSCK_LEFT);
        if (hurts[i].mendable) {
            assert_int_equal(fsck_of(m, 0, &r), FSCK_CLEAN);
            kvt_open_on(&t, m, NULL);
            assert_int_equal(kvt_mount(&t), 0);
            assert_true(kvt_try_create(&t, SNIC_FSOP_ROOT, "after", 0644) > 0);
            kvt_close(&t);
            audit_store(m, 0, NULL);
        }
        snic_kvmem_close(m);
    }
    snic_kvmem_close(w.m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fsck_clean_found_clean),
        cmocka_unit_test(test_kvfs_fsck_empty_store_refused),
        cmocka_unit_test(test_kvfs_fsck_each_damage_found_repaired),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
