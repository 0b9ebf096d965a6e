/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads a whole store. It shares no code with the engine but the records' codecs. */
#include "test_kvfs_audit.h"

#include <stdlib.h>
#include <string.h>

enum { AUDIT_DIR = 0040000, AUDIT_FMT = 0170000, AUDIT_ROOM = 1 << 20 };

struct audit_inode {
    struct snic_fsop_attr a;
    int has_attr;
    int orphan;
    uint64_t names;
    uint64_t entries;
    uint64_t subdirs;
    uint64_t further; /* names of 'P' records                                                 */
    int xattr, acl, default_acl;
};

/* A name or a claim of one. */
struct audit_pair {
    uint64_t ino, dir;
    struct snic_fsop_hash h;
};

struct audit {
    struct snic_kvmem *m;
    struct audit_inode *inodes;
    uint64_t count, room;
    struct audit_pair *names, *claims;
    uint64_t name_count, claim_count, pair_room;
    uint64_t *index; /* hash table of inode numbers: position + 1                             */
    uint64_t mask;
};

static void audit_grow(struct audit *u)
{
    u->mask = u->mask == 0 ? 1023 : u->mask * 2 + 1;
    free(u->index);
    u->index = calloc(u->mask + 1, sizeof(*u->index));
    assert_non_null(u->index);
    u->room = (u->mask + 1) / 2;
    u->inodes = realloc(u->inodes, u->room * sizeof(*u->inodes));
    assert_non_null(u->inodes);
    for (uint64_t i = 0; i < u->count; i++) {
        uint64_t at = u->inodes[i].a.ino * 0x9e3779b97f4a7c15ULL & u->mask;
        while (u->index[at] != 0)
            at = (at + 1) & u->mask;
        u->index[at] = i + 1;
    }
}

static struct audit_inode *audit_inode(struct audit *u, uint64_t ino)
{
    uint64_t at;
    if (u->count == u->room)
        audit_grow(u);
    at = ino * 0x9e3779b97f4a7c15ULL & u->mask;
    while (u->index[at] != 0) {
        if (u->inodes[u->index[at] - 1].a.ino == ino)
            return &u->inodes[u->index[at] - 1];
        at = (at + 1) & u->mask;
    }
    u->index[at] = ++u->count;
    memset(&u->inodes[u->count - 1], 0, sizeof(u->inodes[0]));
    u->inodes[u->count - 1].a.ino = ino;
    return &u->inodes[u->count - 1];
}

static void audit_pair_add(struct audit *u, struct audit_pair **to, uint64_t *count,
                           struct audit_pair p)
{
    if (*count == u->pair_room) {
        u->pair_room = u->pair_room == 0 ? 1024 : u->pair_room * 2;
        u->names = realloc(u->names, u->pair_room * sizeof(p));
        u->claims = realloc(u->claims, u->pair_room * sizeof(p));
        assert_non_null(u->names);
        assert_non_null(u->claims);
    }
    (*to)[(*count)++] = p;
}

static void audit_entries(struct audit *u, uint64_t dir, struct snic_fsop_hash h,
                          const void *record, uint32_t size)
{
    struct snic_kvfs_entry e;
    uint32_t at = 0;
    int rc;
    while ((rc = snic_kvfs_entry_next(record, size, &at, &e)) == 1) {
        struct audit_pair p = {e.ino, dir, h};
        audit_inode(u, dir)->entries++;
        audit_inode(u, dir)->subdirs += e.type == AUDIT_DIR;
        audit_inode(u, e.ino)->names++;
        audit_pair_add(u, &u->names, &u->name_count, p);
    }
    assert_int_equal(rc, 0);
}

static void audit_xattr(struct audit_inode *i, const unsigned char *body)
{
    const char *name = (const char *)body + 2;
    uint32_t size = snic_get_le16(body);
    i->xattr = 1;
    if (size == 23 && memcmp(name, "system.posix_acl_access", size) == 0)
        i->acl = 1;
    if (size == 24 && memcmp(name, "system.posix_acl_default", size) == 0)
        i->default_acl = 1;
}

static void audit_record(struct audit *u, uint64_t group, const struct snic_kvop_record *r)
{
    const unsigned char *key = snic_kvop_record_key(r), *value = snic_kvop_record_value(r);
    struct snic_fsop_hash h = {0, 0};
    struct snic_kvop_key k;
    snic_kvop_key_set(&k, group, key, r->key_size);
    if (snic_kvfs_verify(&k, value, r->value_size) != 0) {
        char text[256];
        snic_kvfs_key_text(&k, text, sizeof(text));
        print_error("%s\n", text);
    }
    assert_int_equal(snic_kvfs_verify(&k, value, r->value_size), 0);
    if (group == SNIC_KVFS_GROUP_ORPHANS) {
        audit_inode(u, snic_get_be64(key + 1))->orphan = 1;
    } else if (group >= SNIC_KVFS_GROUP_INTENTS) {
        assert_true(group != SNIC_KVFS_GROUP_INTENTS); /* nothing is unfinished */
    } else if (key[0] == SNIC_KVFS_REC_ATTR) {
        struct audit_inode *i = audit_inode(u, group);
        i->has_attr = 1;
        assert_int_equal(snic_kvfs_attr_decode(&i->a, value, r->value_size), 0);
    } else if (key[0] == SNIC_KVFS_REC_ENTRY) {
        h.high = snic_get_be64(key + 1);
        h.low = snic_get_be64(key + 9);
        audit_entries(u, group, h, value, r->value_size);
    } else if (key[0] == SNIC_KVFS_REC_PARENT) {
        struct audit_pair p = {group, snic_get_be64(key + 1), {0, 0}};
        uint32_t count = snic_get_le32(value + SNIC_KVFS_HEAD);
        p.h.high = snic_get_be64(key + 9);
        p.h.low = snic_get_be64(key + 17);
        audit_inode(u, group)->further += count;
        for (uint32_t i = 0; i < count; i++)
            audit_pair_add(u, &u->claims, &u->claim_count, p);
    } else if (key[0] == SNIC_KVFS_REC_XATTR) {
        audit_xattr(audit_inode(u, group), value + SNIC_KVFS_HEAD);
    }
}

static void audit_group(struct audit *u, uint64_t group, void *room)
{
    struct snic_kvop op;
    memset(&op, 0, sizeof(op));
    op.kind = SNIC_KVOP_SCAN;
    op.key.group = group;
    op.out = room;
    op.out_room = AUDIT_ROOM;
    op.scan_max = UINT32_MAX;
    do {
        snic_kvmem_apply(u->m, &op);
        assert_int_equal(op.result, 0);
        for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
             r = snic_kvop_next(&op, r)) {
            audit_record(u, group, r);
            snic_kvop_key_set(&op.after, group, snic_kvop_record_key(r), r->key_size);
        }
    } while (!op.end);
}

static void audit_read(struct audit *u)
{
    uint64_t *groups = malloc(AUDIT_ROOM);
    void *room = malloc(AUDIT_ROOM);
    struct snic_kvop op;
    assert_non_null(groups);
    assert_non_null(room);
    memset(&op, 0, sizeof(op));
    op.kind = SNIC_KVOP_GROUPS;
    op.out = groups;
    op.out_room = AUDIT_ROOM;
    op.scan_max = UINT32_MAX;
    do {
        snic_kvmem_apply(u->m, &op);
        assert_int_equal(op.result, 0);
        for (uint32_t i = 0; i < op.out_count; i++)
            audit_group(u, groups[i], room);
    } while (!op.end);
    free(room);
    free(groups);
}

static int audit_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct audit_pair));
}

static void audit_inode_check(const struct audit_inode *i)
{
    const struct snic_fsop_attr *a = &i->a;
    int dir = (a->mode & AUDIT_FMT) == AUDIT_DIR;
    assert_true(i->has_attr || (i->names == 0 && i->orphan));
    if (!i->has_attr)
        return;
    if (a->nlink == 0) {
        assert_int_equal(i->names, 0);
        assert_int_equal(i->entries, 0);
        assert_true(i->orphan);
        return;
    }
    assert_int_equal(i->names, dir ? a->ino != 0 : a->nlink);
    if (dir) {
        assert_int_equal(a->nlink, 2 + i->subdirs);
        assert_int_equal(a->entries, i->entries);
    } else {
        uint64_t first = (a->flags & SNIC_KVFS_ATTR_PARENT) != 0;
        assert_int_equal(i->entries, 0);
        assert_int_equal(i->further + first, a->nlink);
        assert_int_equal((a->flags & SNIC_KVFS_ATTR_PARENTS) != 0, i->further != 0);
    }
    assert_int_equal((a->flags & SNIC_KVFS_ATTR_ACL) != 0, i->acl);
    assert_int_equal((a->flags & SNIC_KVFS_ATTR_DEFAULT_ACL) != 0, i->default_acl);
    if (i->xattr)
        assert_true((a->flags & SNIC_KVFS_ATTR_XATTR) != 0);
}

/* Each inode's names are those it claims. */
static void audit_names(struct audit *u, int first)
{
    for (uint64_t n = 0; n < u->count; n++) {
        const struct audit_inode *i = &u->inodes[n];
        struct audit_pair p = {i->a.ino, i->a.parent, i->a.name};
        int dir = (i->a.mode & AUDIT_FMT) == AUDIT_DIR;
        if (!i->has_attr || i->a.nlink == 0 || i->a.ino == 0)
            continue;
        if (dir || (i->a.flags & SNIC_KVFS_ATTR_PARENT) != 0)
            audit_pair_add(u, &u->claims, &u->claim_count, p);
    }
    assert_int_equal(u->name_count, u->claim_count);
    for (uint64_t n = 0; !first && n < u->name_count; n++) {
        memset(&u->names[n].h, 0, sizeof(u->names[n].h));
        memset(&u->claims[n].h, 0, sizeof(u->claims[n].h));
    }
    if (u->name_count == 0)
        return;
    qsort(u->names, u->name_count, sizeof(*u->names), audit_order);
    qsort(u->claims, u->claim_count, sizeof(*u->claims), audit_order);
    assert_memory_equal(u->names, u->claims, u->name_count * sizeof(*u->names));
}

/* Each directory is below the root. */
static void audit_tree(struct audit *u)
{
    for (uint64_t n = 0; n < u->count; n++) {
        const struct audit_inode *i = &u->inodes[n];
        uint64_t steps = 0;
        if ((i->a.mode & AUDIT_FMT) != AUDIT_DIR || i->a.nlink == 0)
            continue;
        while (i->a.ino != 0) {
            assert_true(steps++ < u->count);
            i = audit_inode(u, i->a.parent);
            assert_int_equal(i->a.mode & AUDIT_FMT, AUDIT_DIR);
        }
    }
}

void audit_store(struct snic_kvmem *m, int first, struct audit_counts *out)
{
    struct audit u = {.m = m};
    struct audit_counts counts = {0, 0, 0};
    audit_read(&u);
    for (uint64_t i = 0; i < u.count; i++) {
        audit_inode_check(&u.inodes[i]);
        counts.inodes += u.inodes[i].has_attr && u.inodes[i].a.nlink != 0;
        counts.orphans += (uint64_t)u.inodes[i].orphan;
    }
    audit_names(&u, first);
    audit_tree(&u);
    counts.names = u.name_count;
    free(u.inodes);
    free(u.index);
    free(u.names);
    free(u.claims);
    if (out != NULL)
        *out = counts;
}

void audit_mounted(struct kvt *t)
{
    kvt_settle(t);
    kvt_advance(t, 2 * t->o.times_ns + 1);
    kvt_settle(t);
    audit_store(t->m, 1, NULL);
}
