/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The bytes of files and symbolic links: are they where the inode's flags place them, and as many
 * as its size? What is lost is named by the path, too.
 */
#include "fsck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BYTES_FMT = 0170000,
    BYTES_REG = 0100000,
    BYTES_LNK = 0120000,
    BYTES_READ = 1 << 20,
    BYTES_PATH = 1024, /* of a path as it is printed; the front of a longer one is left out */
    BYTES_DEEP = 4096  /* directories above each other: more are a circle */
};

/* ---- Paths ---- */

void fsck_put_attr(struct fsck *f, struct fsck_inode *i)
{
    unsigned char record[SNIC_KVFS_ATTR_BYTES];
    struct snic_kvop_key key;
    i->a.version++;
    snic_kvfs_attr_encode(record, &i->a);
    snic_kvfs_key(&key, i->a.ino, SNIC_KVFS_REC_ATTR);
    fsck_put(f, &key, record, sizeof(record));
}

/* The name of @p i in front of what is in out[at..]. @return where it begins; at: it is not known
 */
static uint32_t bytes_name(struct fsck *f, const struct fsck_inode *i, char *out, uint32_t at)
{
    struct snic_kvop_key key;
    struct snic_kvfs_entry e;
    uint32_t next = 0;
    snic_kvfs_key_hash(&key, i->named_in, SNIC_KVFS_REC_ENTRY, i->named_as);
    uint32_t size = i->names == 0 ? 0 : fsck_get(f, &key);
    if (size == 0 || snic_kvfs_verify(&key, f->value, size) != 0)
        return at;
    while (snic_kvfs_entry_next(f->value, size, &next, &e) == 1) {
        if (e.ino != i->a.ino || e.name_size + 1 > at)
            continue;
        at -= e.name_size + 1;
        out[at] = '/';
        for (uint32_t n = 0; n < e.name_size; n++)
            out[at + 1 + n] = (char)((unsigned char)e.name[n] < 0x20 ? '?' : e.name[n]);
        return at;
    }
    return at;
}

/* A path of @p i in out[0..BYTES_PATH], as far as its names can be read. */
static const char *bytes_path(struct fsck *f, const struct fsck_inode *i, char *out)
{
    uint32_t at = BYTES_PATH - 1;
    out[at] = 0;
    for (int deep = 0; i != NULL && i->a.ino != 0 && deep < BYTES_DEEP; deep++) {
        uint32_t before = at;
        at = bytes_name(f, i, out, at);
        if (at == before) {
            at = at < 3 ? 0 : at - 3;
            memcpy(out + at, "...", 3);
            break;
        }
        i = fsck_find(f, i->named_in);
    }
    if (out[at] == 0)
        out[--at] = '/';
    return out + at;
}

static int bytes_finding(struct fsck *f, const struct fsck_inode *i,
                         const struct snic_kvop_key *key, int mendable, const char *what)
{
    char path[BYTES_PATH], text[BYTES_PATH + 160];
    snprintf(text, sizeof(text), "%s: %s", bytes_path(f, i, path), what);
    return fsck_finding(f, key, mendable, text);
}

void fsck_note_path(struct fsck *f, const struct fsck_inode *i, const struct snic_kvop_key *key)
{
    char path[BYTES_PATH], text[BYTES_PATH + 64];
    snprintf(text, sizeof(text), "%s: has the corrupt records of this group",
             bytes_path(f, i, path));
    fsck_note(f, key, text);
}

/* ---- Bytes ---- */

static void bytes_read_all(struct fsck *f, const struct fsck_inode *i,
                           const struct snic_kvop_key *key)
{
    unsigned char *bytes = malloc(BYTES_READ);
    struct snic_iov iov = {.base = bytes};
    for (uint64_t at = 0; bytes != NULL && at < i->a.size;) {
        struct snic_kvop seek = {.kind = SNIC_KVOP_OBJECT_SEEK, .object = i->a.ino, .offset = at};
        int64_t next = f->o->op(f->o->ctx, &seek);
        if (next < 0 && next != SNIC_ENOENT)
            f->error = (int)next;
        if (next < 0 || (uint64_t)next >= i->a.size)
            break;
        at = (uint64_t)next;
        iov.size = i->a.size - at < BYTES_READ ? (size_t)(i->a.size - at) : BYTES_READ;
        struct snic_kvop read = {.kind = SNIC_KVOP_OBJECT_READ,
                                 .object = i->a.ino,
                                 .offset = at,
                                 .length = iov.size,
                                 .iov = &iov,
                                 .iov_count = 1};
        int64_t rc = f->o->op(f->o->ctx, &read);
        if (rc == SNIC_ECORRUPT) {
            char text[96];
            snprintf(text, sizeof(text), "bytes at %llu are corrupt",
                     (unsigned long long)read.bad_offset);
            (void)bytes_finding(f, i, key, 0, text);
            at = read.bad_offset + SNIC_KVOP_BLOCK;
        } else if (rc < 0) {
            f->error = (int)rc;
            break;
        } else {
            at += iov.size;
        }
    }
    free(bytes);
}

static void bytes_count(struct fsck *f, struct fsck_inode *i, uint64_t space)
{
    i->a.space = space;
    fsck_put_attr(f, i);
}

/* Nothing is lost: no finding. */
static void bytes_counted(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key,
                          uint64_t space)
{
    fsck_note(f, key, "space of its data differs from the count: --repair corrects it");
    if (!f->o->repair || f->error != 0)
        return;
    bytes_count(f, i, space);
    f->r->mended++;
}

/*
 * The space of a small file is counted in the commit that writes its bytes, so that without them
 * it is 0.
 */
static void bytes_small(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key)
{
    uint64_t space = snic_align_up(i->small, 512);
    struct snic_kvop_key d;
    char text[96];
    if (i->a.size > SNIC_KVFS_SMALL_MAX)
        (void)bytes_finding(f, i, key, 0, "small file of more than 8 KiB");
    if (i->a.space == space)
        return;
    if (i->data) {
        bytes_counted(f, i, key, space);
        return;
    }
    snic_kvfs_key(&d, i->a.ino, SNIC_KVFS_REC_DATA);
    snprintf(text, sizeof(text), "data lost: %llu bytes read as zeros",
             (unsigned long long)i->a.size);
    if (bytes_finding(f, i, &d, 1, text))
        bytes_count(f, i, 0);
}

/*
 * Bytes of a big file are counted after they are there: a mount that dies leaves some that are not
 * counted. Fewer than counted are there after a hole was punched and not yet counted, or when they
 * are lost: the two cannot be distinguished.
 */
static void bytes_big(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key)
{
    struct snic_kvop stat = {.kind = SNIC_KVOP_OBJECT_STAT, .object = i->a.ino};
    char text[160];
    if (i->data) {
        struct snic_kvop_key d;
        snic_kvfs_key(&d, i->a.ino, SNIC_KVFS_REC_DATA);
        if (bytes_finding(f, i, &d, 1, "data of a small file beside a big one's"))
            fsck_put(f, &d, NULL, 0);
    }
    int64_t rc = f->o->op(f->o->ctx, &stat);
    if (rc == SNIC_ECORRUPT) {
        (void)bytes_finding(f, i, key, 0, "corrupt map of extents: its data cannot be read");
        return;
    }
    if (rc < 0 && f->error == 0)
        f->error = (int)rc;
    if (rc >= 0 && (uint64_t)stat.allocated < i->a.space) {
        snprintf(text, sizeof(text),
                 "%llu of its %llu bytes of space are not in object %llu: lost, or a hole punched "
                 "before a mount died; they read as zeros",
                 (unsigned long long)(i->a.space - (uint64_t)stat.allocated),
                 (unsigned long long)i->a.space, (unsigned long long)i->a.ino);
        if (bytes_finding(f, i, key, 1, text))
            bytes_count(f, i, (uint64_t)stat.allocated);
    } else if (rc >= 0 && (uint64_t)stat.allocated > i->a.space) {
        bytes_counted(f, i, key, (uint64_t)stat.allocated);
    }
    if (f->o->data)
        bytes_read_all(f, i, key);
}

void fsck_file(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key)
{
    uint32_t type = i->a.mode & BYTES_FMT;
    if (type == BYTES_LNK && i->target == 0 && !i->hurt)
        (void)bytes_finding(f, i, key, 0, "symbolic link without a target");
    if (type == BYTES_LNK && i->target != 0 && i->a.size != i->target) {
        if (bytes_finding(f, i, key, 1, "size differs from its target's length")) {
            i->a.size = i->target;
            fsck_put_attr(f, i);
        }
    }
    if (type != BYTES_REG)
        return;
    if ((i->a.flags & SNIC_KVFS_ATTR_BIG) != 0)
        bytes_big(f, i, key);
    else if (!i->hurt) /* what cannot be read may be its bytes */
        bytes_small(f, i, key);
}
