/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Judges what was read, and mends: one thing of an inode at a time. Passes follow each other until
 * one finds nothing more to mend, so that no repair needs to foresee what follows from it.
 */
#include "fsck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUDGE_FMT = 0170000, JUDGE_DIR = 0040000, JUDGE_PASSES = 8 };

static int judge_is_dir(const struct fsck_inode *i)
{
    return i->has_attr && (i->a.mode & JUDGE_FMT) == JUDGE_DIR;
}

static void judge_key(struct snic_kvop_key *key, uint64_t ino)
{
    snic_kvfs_key(key, ino, SNIC_KVFS_REC_ATTR);
}

/* ---- Names ---- */

static int judge_has(const unsigned char *record, uint32_t size, const struct snic_kvfs_entry *e)
{
    struct snic_kvfs_entry other;
    uint32_t at = 0;
    while (size != 0 && snic_kvfs_entry_next(record, size, &at, &other) == 1)
        if (other.name_size == e->name_size && memcmp(other.name, e->name, e->name_size) == 0)
            return 1;
    return 0;
}

static uint32_t judge_count(const unsigned char *record, uint32_t size, uint64_t ino)
{
    struct snic_kvfs_entry e;
    uint32_t at = 0, count = 0;
    while (size != 0 && snic_kvfs_entry_next(record, size, &at, &e) == 1)
        count += e.ino == ino;
    return count;
}

static void judge_put_further(struct fsck *f, const struct snic_kvop_key *key, uint32_t count)
{
    unsigned char record[SNIC_KVFS_HEAD + 4] = {0};
    snic_put_le32(record + SNIC_KVFS_HEAD, count);
    fsck_put(f, key, record, count == 0 ? 0 : sizeof(record));
}

static int judge_is_first(const struct fsck_inode *i, uint64_t parent, struct snic_fsop_hash h)
{
    return (i->a.flags & SNIC_KVFS_ATTR_PARENT) != 0 && i->a.parent == parent &&
           i->a.name.high == h.high && i->a.name.low == h.low;
}

/* 'P': the names are there. One of them may be the first, which the attributes have. */
static void judge_further(struct fsck *f, const struct snic_kvop_key *key,
                          const unsigned char *record, uint32_t size)
{
    struct snic_fsop_hash h = {snic_get_be64(key->bytes + 9), snic_get_be64(key->bytes + 17)};
    uint64_t parent = snic_get_be64(key->bytes + 1);
    struct fsck_inode *i = fsck_find(f, key->group);
    struct snic_kvop_key entry;
    if (i == NULL || !i->has_attr || size != SNIC_KVFS_HEAD + 4 ||
        snic_kvfs_verify(key, record, size) != 0)
        return;
    snic_kvfs_key_hash(&entry, parent, SNIC_KVFS_REC_ENTRY, h);
    uint32_t bytes = fsck_get(f, &entry), count = snic_get_le32(record + SNIC_KVFS_HEAD);
    if (bytes != 0 && snic_kvfs_verify(&entry, f->value, bytes) != 0)
        return; /* damaged, or in a commit */
    uint32_t names = judge_count(f->value, bytes, key->group);
    uint32_t first = names != 0 && judge_is_first(i, parent, h);
    if (count > names || count < names - first) {
        if (fsck_finding(f, key, !f->damaged, "hard links that do not exist"))
            judge_put_further(f, key, names - first);
    }
}

/* A file has more names than its records list: is this one of those not listed? */
static void judge_unknown(struct fsck *f, const struct snic_kvop_key *key,
                          const unsigned char *record, uint32_t size,
                          const struct snic_kvfs_entry *e)
{
    struct snic_fsop_hash h = {snic_get_be64(key->bytes + 1), snic_get_be64(key->bytes + 9)};
    struct fsck_inode *i = fsck_find(f, e->ino);
    struct snic_kvop_key further;
    if (i == NULL || !i->has_attr || judge_is_dir(i) || i->names <= i->further + 1 ||
        judge_is_first(i, key->group, h))
        return;
    snic_kvfs_key_parent(&further, e->ino, key->group, h);
    if (fsck_get(f, &further) == 0 &&
        fsck_finding(f, &further, !f->damaged, "entry that its inode does not list"))
        judge_put_further(f, &further, judge_count(record, size, e->ino));
}

/* Remove a directory's entries that lead nowhere, have a wrong type, or are there twice. */
static void judge_entries(struct fsck *f, const struct snic_kvop_key *key,
                          const unsigned char *record, uint32_t size)
{
    unsigned char *left = NULL;
    struct snic_kvfs_entry e;
    uint32_t at = 0, bytes = 0;
    int bad = 0;
    if (key->bytes[0] == SNIC_KVFS_REC_PARENT && key->size == 25)
        judge_further(f, key, record, size);
    if (key->bytes[0] != SNIC_KVFS_REC_ENTRY || snic_kvfs_verify(key, record, size) != 0)
        return;
    left = malloc(SNIC_KVOP_VALUE_MAX);
    if (left == NULL)
        return;
    while (snic_kvfs_entry_next(record, size, &at, &e) == 1) {
        judge_unknown(f, key, record, size, &e);
        struct fsck_inode *i = fsck_find(f, e.ino);
        int there = i != NULL && (i->has_attr ? i->a.nlink != 0 &&
                                                    (i->a.mode & JUDGE_FMT) == (e.type & JUDGE_FMT)
                                              : i->hurt);
        int second =
            there && judge_is_dir(i) && i->names > 1 &&
            (i->named_in != key->group || i->named_as.high != snic_get_be64(key->bytes + 1) ||
             i->named_as.low != snic_get_be64(key->bytes + 9));
        if (!there || second || judge_has(left, bytes, &e) ||
            snic_kvfs_entry_append(left, &bytes, SNIC_KVOP_VALUE_MAX, &e) != 0)
            bad = 1;
    }
    if (bad && fsck_finding(f, key, !f->damaged, "entry without an inode"))
        fsck_put(f, key, left, bytes);
    free(left);
}

/* Add a name. */
static void judge_link(struct fsck *f, struct fsck_inode *dir, const char *name,
                       struct fsck_inode *i)
{
    uint32_t length = (uint32_t)strlen(name);
    struct snic_fsop_hash h = snic_kvfs_hash_name(f->super.seed, name, length);
    struct snic_kvfs_entry e = {
        .ino = i->a.ino, .type = i->a.mode & JUDGE_FMT, .name_size = length, .name = name};
    struct snic_kvop_key key;
    snic_kvfs_key_hash(&key, dir->a.ino, SNIC_KVFS_REC_ENTRY, h);
    uint32_t size = fsck_get(f, &key);
    if (size != 0 && snic_kvfs_verify(&key, f->value, size) != 0)
        return; /* the names of this hash cannot be read: none is added to them */
    if (snic_kvfs_entry_append(f->value, &size, SNIC_KVOP_VALUE_MAX, &e) != 0)
        return;
    fsck_put(f, &key, f->value, size);
    i->a.parent = dir->a.ino;
    i->a.name = h;
    i->a.flags |= SNIC_KVFS_ATTR_PARENT;
    if (i->a.nlink == 0 || (!judge_is_dir(i) && i->names == 0))
        i->a.nlink = judge_is_dir(i) ? 2 : 1;
    fsck_put_attr(f, i);
}

static uint64_t judge_new_ino(struct fsck *f)
{
    unsigned char record[SNIC_KVFS_NUMBER_BYTES];
    struct snic_kvop_key key;
    uint64_t ino = f->next_ino > f->most ? f->next_ino : f->most + 1;
    f->next_ino = ino + 1;
    snic_kvfs_number_encode(record, f->next_ino);
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    fsck_put(f, &key, record, sizeof(record));
    return ino;
}

/* /lost+found, made if need be. */
static struct fsck_inode *judge_lost_found(struct fsck *f)
{
    static const char name[] = "lost+found";
    struct fsck_inode *root = fsck_find(f, 0), *dir;
    struct snic_kvfs_entry e;
    struct snic_kvop_key key;
    uint32_t at = 0;
    if (root == NULL || !root->has_attr)
        return NULL;
    snic_kvfs_key_hash(&key, 0, SNIC_KVFS_REC_ENTRY,
                       snic_kvfs_hash_name(f->super.seed, name, sizeof(name) - 1));
    uint32_t size = fsck_get(f, &key);
    while (size != 0 && snic_kvfs_entry_next(f->value, size, &at, &e) == 1) {
        dir = fsck_find(f, e.ino);
        if (e.name_size == sizeof(name) - 1 && memcmp(e.name, name, e.name_size) == 0)
            return dir != NULL && judge_is_dir(dir) ? dir : NULL;
    }
    struct snic_fsop_attr times = root->a;
    dir = fsck_inode(f, judge_new_ino(f));
    if (dir == NULL)
        return NULL;
    dir->has_attr = 1;
    dir->a.mode = JUDGE_DIR | 0700;
    dir->a.nlink = 2;
    dir->a.atime = dir->a.mtime = dir->a.ctime = dir->a.btime = times.mtime;
    judge_link(f, fsck_find(f, 0), name, dir);
    return fsck_find(f, dir->a.ino);
}

static void judge_rescue(struct fsck *f, uint64_t ino)
{
    struct fsck_inode *dir = judge_lost_found(f);
    struct fsck_inode *i = fsck_find(f, ino); /* the table may have moved */
    char name[32];
    if (dir == NULL || i == NULL)
        return;
    snprintf(name, sizeof(name), "#%llu", (unsigned long long)ino);
    judge_link(f, dir, name, i);
}

/* ---- Inodes ---- */

static void judge_delete_record(struct fsck *f, const struct snic_kvop_key *key,
                                const unsigned char *record, uint32_t size)
{
    (void)record;
    (void)size;
    fsck_put(f, key, NULL, 0);
}

static void judge_stray(struct fsck *f, const struct fsck_inode *i)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_TRUNCATE, .object = i->a.ino};
    struct snic_kvop_key key;
    judge_key(&key, i->a.ino);
    if (i->listed && i->records == 0) {
        struct snic_kvop_key o;
        snic_kvfs_key_number(&o, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, i->a.ino);
        fsck_note(f, &o, "its inode does not exist");
        if (f->o->repair)
            fsck_put(f, &o, NULL, 0);
    }
    struct snic_kvop stat = {.kind = SNIC_KVOP_OBJECT_STAT, .object = i->a.ino};
    int64_t rc = f->o->op(f->o->ctx, &stat);
    if (i->records == 0 && rc != SNIC_ECORRUPT && (rc < 0 || stat.allocated <= 0))
        return;
    if (!fsck_finding(f, &key, !f->damaged, "records or data without an inode"))
        return;
    fsck_group(f, i->a.ino, judge_delete_record);
    (void)f->o->op(f->o->ctx, &op);
}

/* Flags and counts from the records. 1: the inode's are wrong. */
static int judge_counts(const struct fsck_inode *i, struct snic_fsop_attr *a)
{
    uint64_t first;
    *a = i->a;
    a->flags &= ~(SNIC_KVFS_ATTR_ACL | SNIC_KVFS_ATTR_DEFAULT_ACL | SNIC_KVFS_ATTR_PARENTS);
    a->flags |=
        (i->acl ? SNIC_KVFS_ATTR_ACL : 0u) | (i->default_acl ? SNIC_KVFS_ATTR_DEFAULT_ACL : 0u) |
        (i->xattr ? SNIC_KVFS_ATTR_XATTR : 0u) | (i->further != 0 ? SNIC_KVFS_ATTR_PARENTS : 0u);
    if (judge_is_dir(i)) {
        a->nlink = (uint32_t)(2 + i->subdirs);
        a->entries = i->entries;
        a->parent = i->a.ino == 0 ? 0 : i->named_in;
    } else {
        first = i->names > i->further;
        a->nlink = (uint32_t)i->names;
        if (first && (a->flags & SNIC_KVFS_ATTR_PARENT) == 0) {
            a->flags |= SNIC_KVFS_ATTR_PARENT;
            a->parent = i->named_in;
            a->name = i->named_as;
        }
        if (!first)
            a->flags &= ~SNIC_KVFS_ATTR_PARENT;
        if (i->names == 1 && first)
            a->parent = i->named_in;
    }
    return memcmp(a, &i->a, sizeof(*a)) != 0;
}

static void judge_inode(struct fsck *f, uint64_t at)
{
    struct fsck_inode *i = &f->inodes[at];
    struct snic_fsop_attr a;
    struct snic_kvop_key key;
    judge_key(&key, i->a.ino);
    if (i->hurt)
        fsck_note_path(f, i, &key);
    if (!i->has_attr) {
        if (!i->hurt) /* what cannot be read may be its attributes */
            judge_stray(f, i);
        return;
    }
    f->r->inodes++;
    f->r->directories += (uint64_t)judge_is_dir(i);
    /* Neither the root nor a directory with names in it has been removed. */
    if (i->a.nlink == 0 && i->names == 0 && i->a.ino != 0 && i->entries == 0) {
        struct snic_kvop_key o;
        unsigned char record[SNIC_KVFS_ORPHAN_BYTES];
        struct snic_kvfs_orphan none = {.count = 0};
        f->r->orphans++;
        snic_kvfs_key_number(&o, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, i->a.ino);
        if (!i->listed && fsck_finding(f, &key, 1, "orphan inode that is not listed"))
            fsck_put(f, &o, record, snic_kvfs_orphan_encode(record, &none));
        return;
    }
    if (i->a.ino == 1)
        (void)fsck_finding(f, &key, 0, "inode number out of range");
    if (!judge_is_dir(i) && i->entries != 0)
        (void)fsck_finding(f, &key, 0, "entries in a non-directory inode");
    if (i->a.ino != 0 && i->names == 0) {
        if (fsck_finding(f, &key, !f->damaged, "inode without an entry"))
            judge_rescue(f, i->a.ino);
        return;
    }
    if (judge_counts(i, &a) &&
        fsck_finding(f, &key, !f->damaged, "wrong counts, flags or parent")) {
        i->a = a;
        fsck_put_attr(f, i);
        return;
    }
    fsck_file(f, i, &key);
}

/* Directories that cannot be reached from the root: they name each other. */
static void judge_loops(struct fsck *f)
{
    for (uint64_t n = 0; n < f->count; n++) {
        struct fsck_inode *i = &f->inodes[n];
        uint64_t steps = 0;
        if (!judge_is_dir(i) || i->names == 0)
            continue;
        while (i != NULL && i->a.ino != 0 && !i->reached && steps++ <= f->count)
            i = i->names == 0 ? NULL : fsck_find(f, i->named_in);
        if (i != NULL && (i->a.ino == 0 || i->reached)) {
            f->inodes[n].reached = 1;
            continue;
        }
        if (i == NULL)
            continue; /* below something that has no name: that is found by itself */
        i = &f->inodes[n];
        struct snic_kvop_key key;
        judge_key(&key, i->a.ino);
        if (!fsck_finding(f, &key, !f->damaged, "cycle of directories"))
            continue;
        /* One name of the circle goes; the directory is then without a name. */
        snic_kvfs_key_hash(&key, i->named_in, SNIC_KVFS_REC_ENTRY, i->named_as);
        fsck_put(f, &key, NULL, 0);
        return;
    }
}

static void judge_names_of(struct fsck *f, uint64_t group)
{
    if (group < SNIC_KVFS_INO_MAX)
        fsck_group(f, group, judge_entries);
}

void fsck_judge(struct fsck *f)
{
    struct fsck_inode *root = fsck_find(f, 0);
    struct snic_kvop_key key;
    uint64_t count = f->count;
    judge_key(&key, 0);
    if (root == NULL || !judge_is_dir(root)) {
        (void)fsck_finding(f, &key, 0, "no root directory");
        return;
    }
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_NEXT_INO);
    if (f->next_ino > SNIC_KVFS_INO_MAX && f->most < SNIC_KVFS_INO_MAX &&
        fsck_finding(f, &key, 1, "no inode numbers are left")) {
        f->next_ino = 0;
        (void)judge_new_ino(f);
    }
    if (f->next_ino <= f->most && fsck_finding(f, &key, 1, "next inode number is in use already"))
        (void)judge_new_ino(f);
    fsck_groups(f, judge_names_of);
    judge_loops(f);
    for (uint64_t n = 0; n < count && f->error == 0; n++)
        judge_inode(f, n);
}

/* ---- All of it ---- */

static int judge_pass(const struct fsck_opts *o, struct fsck_report *r)
{
    struct fsck f = {.o = o, .r = r};
    f.value = malloc(SNIC_KVOP_VALUE_MAX);
    f.error = f.value == NULL ? SNIC_ENOMEM : 0;
    if (f.error == 0 && fsck_load(&f) == 0)
        fsck_judge(&f);
    free(f.value);
    free(f.inodes);
    free(f.index);
    return f.error;
}

enum fsck_code fsck_run(const struct fsck_opts *o, struct fsck_report *r)
{
    uint64_t mended = 0, before;
    memset(r, 0, sizeof(*r));
    for (int pass = 0; pass < JUDGE_PASSES; pass++) {
        before = mended;
        memset(r, 0, sizeof(*r));
        r->error = judge_pass(o, r);
        mended += r->mended;
        r->mended = mended;
        if (r->error != 0)
            return FSCK_ERROR;
        if (mended == before)
            break;
    }
    if (r->findings != 0)
        return FSCK_LEFT;
    return mended != 0 ? FSCK_MENDED : FSCK_CLEAN;
}
