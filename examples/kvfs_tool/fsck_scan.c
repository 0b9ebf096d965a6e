/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Reads all records, finishes commits, and reports findings. */
#include "fsck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The store ---- */

static int64_t fsck_op(struct fsck *f, struct snic_kvop *op)
{
    int64_t rc = f->o->op(f->o->ctx, op);
    if (rc < 0 && rc != SNIC_ENOENT && f->error == 0)
        f->error = (int)rc;
    return rc;
}

void fsck_note(struct fsck *f, const struct snic_kvop_key *key, const char *what)
{
    char text[256], line[1536];
    snic_kvfs_key_text(key, text, sizeof(text));
    snprintf(line, sizeof(line), "%s: %s", text, what);
    if (f->o->print != NULL)
        f->o->print(f->o->ctx, line);
}

int fsck_finding(struct fsck *f, const struct snic_kvop_key *key, int mendable, const char *what)
{
    fsck_note(f, key, what);
    f->r->findings++;
    if (!mendable || !f->o->repair || f->error != 0)
        return 0;
    f->r->mended++;
    return 1;
}

void fsck_put(struct fsck *f, const struct snic_kvop_key *key, void *record, uint32_t size)
{
    struct snic_kvop_change c = {.key = *key, .kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    if (size != 0) {
        snic_kvfs_seal(key, record, size, 0);
        c.kind = SNIC_KVOP_PUT;
        c.value = record;
        c.size = size;
    }
    (void)fsck_op(f, &op);
}

uint32_t fsck_get(struct fsck *f, const struct snic_kvop_key *key)
{
    struct snic_kvop_get g = {.key = *key, .value = f->value, .room = SNIC_KVOP_VALUE_MAX};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    int64_t rc = f->o->op(f->o->ctx, &op);
    if (rc == SNIC_ECORRUPT) {
        f->value[0] = 0;
        return 1;
    }
    if (rc < 0 && rc != SNIC_ENOENT && f->error == 0)
        f->error = (int)rc;
    return rc < 0 || g.result != 0 ? 0 : g.size;
}

void fsck_group(struct fsck *f, uint64_t group, fsck_record_fn fn)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_SCAN, .key = {.group = group}, .scan_max = 4096};
    unsigned char *room = malloc(FSCK_ROOM);
    if (room == NULL) {
        f->error = SNIC_ENOMEM;
        return;
    }
    op.out = room;
    op.out_room = FSCK_ROOM;
    do {
        if (fsck_op(f, &op) < 0)
            break;
        for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
             r = snic_kvop_next(&op, r)) {
            struct snic_kvop_key key;
            snic_kvop_key_set(&key, group, snic_kvop_record_key(r), r->key_size);
            fn(f, &key, snic_kvop_record_value(r), r->value_size);
            op.after = key;
        }
    } while (!op.end && op.out_count > 0 && f->error == 0);
    free(room);
}

void fsck_groups(struct fsck *f, void (*fn)(struct fsck *f, uint64_t group))
{
    struct snic_kvop op = {.kind = SNIC_KVOP_GROUPS, .scan_max = 8192};
    uint64_t *groups = malloc(8192 * sizeof(*groups));
    if (groups == NULL) {
        f->error = SNIC_ENOMEM;
        return;
    }
    op.out = groups;
    op.out_room = 8192 * sizeof(*groups);
    do {
        if (fsck_op(f, &op) < 0)
            break;
        for (uint32_t i = 0; i < op.out_count && f->error == 0; i++)
            fn(f, groups[i]);
    } while (!op.end && op.out_count > 0 && f->error == 0);
    free(groups);
}

/* ---- Inodes in memory ---- */

static int fsck_grow(struct fsck *f)
{
    uint64_t mask = f->mask == 0 ? 4095 : f->mask * 2 + 1;
    uint64_t *index = calloc(mask + 1, sizeof(*index));
    struct fsck_inode *inodes = realloc(f->inodes, (mask + 1) / 2 * sizeof(*inodes));
    if (inodes != NULL)
        f->inodes = inodes;
    if (index == NULL || inodes == NULL) {
        free(index);
        f->error = SNIC_ENOMEM;
        return -1;
    }
    free(f->index);
    f->index = index;
    f->mask = mask;
    f->room = (mask + 1) / 2;
    for (uint64_t i = 0; i < f->count; i++) {
        uint64_t at = f->inodes[i].a.ino * 0x9e3779b97f4a7c15ULL >> 20 & mask;
        while (index[at] != 0)
            at = (at + 1) & mask;
        index[at] = i + 1;
    }
    return 0;
}

struct fsck_inode *fsck_find(struct fsck *f, uint64_t ino)
{
    uint64_t at = ino * 0x9e3779b97f4a7c15ULL >> 20 & f->mask;
    for (; f->mask != 0 && f->index[at] != 0; at = (at + 1) & f->mask)
        if (f->inodes[f->index[at] - 1].a.ino == ino)
            return &f->inodes[f->index[at] - 1];
    return NULL;
}

struct fsck_inode *fsck_inode(struct fsck *f, uint64_t ino)
{
    struct fsck_inode *i = fsck_find(f, ino);
    uint64_t at;
    if (i != NULL)
        return i;
    if (f->count == f->room && fsck_grow(f) != 0)
        return NULL;
    at = ino * 0x9e3779b97f4a7c15ULL >> 20 & f->mask;
    while (f->index[at] != 0)
        at = (at + 1) & f->mask;
    f->index[at] = ++f->count;
    i = &f->inodes[f->count - 1];
    memset(i, 0, sizeof(*i));
    i->a.ino = ino;
    return i;
}

/* ---- Commits that were not finished ---- */

/* The record that a reservation stands for; size 0: none. NULL: unknown, it is corrupt. */
static const unsigned char *fsck_logical(struct fsck *f, const struct snic_kvop_key *key,
                                         const unsigned char *record, uint32_t *size)
{
    static const unsigned char none[1];
    struct snic_kvfs_reservation r;
    struct snic_kvop_key intent;
    const void *old_record, *new_record;
    int committed = 0;
    if (snic_kvfs_reservation_decode(&r, &old_record, &new_record, record, *size) != 0)
        return NULL;
    snic_kvfs_key_intent(&intent, r.session, r.number);
    uint32_t bytes = fsck_get(f, &intent);
    if (bytes >= SNIC_KVFS_HEAD + 8 && snic_kvfs_verify(&intent, f->value, bytes) == 0)
        committed = snic_get_le32(f->value + SNIC_KVFS_HEAD) == SNIC_KVFS_INTENT_COMMITTED;
    *size = committed ? r.new_size : r.old_size;
    record = committed ? new_record : old_record;
    if (record == NULL)
        return none;
    return snic_kvfs_verify(key, record, *size) == 0 ? record : NULL;
}

/* Replace a reserved record by what it is. */
static void fsck_settle(struct fsck *f, const struct snic_kvop_key *key,
                        const unsigned char *record, uint32_t size)
{
    uint32_t bytes = size;
    const unsigned char *is = fsck_logical(f, key, record, &bytes);
    unsigned char *copy = is == NULL || bytes == 0 ? NULL : malloc(bytes);
    if (is == NULL || (bytes != 0 && copy == NULL))
        return;
    if (copy != NULL)
        memcpy(copy, is, bytes);
    fsck_put(f, key, copy, bytes);
    free(copy);
}

static void fsck_intent(struct fsck *f, const struct snic_kvop_key *key,
                        const unsigned char *record, uint32_t size)
{
    struct snic_kvfs_intent *n = malloc(sizeof(*n));
    f->r->intents++;
    if (n == NULL || snic_kvfs_verify(key, record, size) != 0 ||
        snic_kvfs_intent_decode(n, record, size) != 0) {
        (void)fsck_finding(f, key, 0, "corrupt intent");
        f->damaged = 1;
        free(n);
        return;
    }
    fsck_note(f, key, "unfinished commit");
    if (f->o->repair) {
        for (uint32_t i = 0; i < n->key_count; i++) {
            uint32_t bytes = fsck_get(f, &n->keys[i]);
            unsigned char *copy = bytes == 0 ? NULL : malloc(bytes);
            if (copy == NULL)
                continue;
            memcpy(copy, f->value, bytes);
            int flags = snic_kvfs_verify(&n->keys[i], copy, bytes);
            if (flags > 0 && ((uint32_t)flags & SNIC_KVFS_RESERVED) != 0)
                fsck_settle(f, &n->keys[i], copy, bytes);
            free(copy);
        }
        for (uint32_t i = 0; n->state == SNIC_KVFS_INTENT_COMMITTED && i < n->object_count; i++) {
            struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_TRUNCATE, .object = n->objects[i]};
            (void)fsck_op(f, &op);
        }
        fsck_put(f, key, NULL, 0);
        f->r->mended++;
    }
    free(n);
}

/* ---- Records ---- */

static void fsck_entries(struct fsck *f, const struct snic_kvop_key *key,
                         const unsigned char *record, uint32_t size)
{
    struct snic_fsop_hash h = {snic_get_be64(key->bytes + 1), snic_get_be64(key->bytes + 9)};
    struct snic_kvfs_entry e;
    uint32_t at = 0;
    int rc;
    while ((rc = snic_kvfs_entry_next(record, size, &at, &e)) == 1) {
        struct snic_fsop_hash is = snic_kvfs_hash_name(f->super.seed, e.name, e.name_size);
        struct fsck_inode *dir = fsck_inode(f, key->group);
        if (dir == NULL)
            return;
        dir->entries++;
        dir->subdirs += e.type == 0040000;
        struct fsck_inode *i = fsck_inode(f, e.ino);
        if (i == NULL)
            return;
        i->names++;
        i->named_in = key->group;
        i->named_as = h;
        if (f->has_super && (is.high != h.high || is.low != h.low))
            (void)fsck_finding(f, key, 0, "entry under the hash of another name");
    }
    if (rc < 0) {
        (void)fsck_finding(f, key, 0, "corrupt entry");
        f->damaged = 1;
    }
}

static void fsck_xattr(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key,
                       const unsigned char *record, uint32_t size)
{
    const char *name = (const char *)record + SNIC_KVFS_HEAD + 2;
    uint32_t bytes = size < SNIC_KVFS_HEAD + 2 ? 0 : snic_get_le16(record + SNIC_KVFS_HEAD);
    if (bytes == 0 || bytes > size - SNIC_KVFS_HEAD - 2) {
        if (fsck_finding(f, key, 1, "corrupt extended attribute"))
            fsck_put(f, key, NULL, 0);
        return;
    }
    i->xattr = 1;
    if (bytes == 23 && memcmp(name, "system.posix_acl_access", bytes) == 0)
        i->acl = 1;
    if (bytes == 24 && memcmp(name, "system.posix_acl_default", bytes) == 0)
        i->default_acl = 1;
}

static void fsck_attr(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key,
                      const unsigned char *record, uint32_t size)
{
    struct snic_fsop_attr a;
    if (snic_kvfs_attr_decode(&a, record, size) != 0 || a.ino != key->group) {
        (void)fsck_finding(f, key, 0, "invalid attributes");
        f->damaged = 1;
        return;
    }
    i->a = a;
    i->has_attr = 1;
    if (a.ino > f->most)
        f->most = a.ino;
}

/* 'P': how many further names there are in one place; which, judge_further() asks. */
static void fsck_further(struct fsck *f, struct fsck_inode *i, const struct snic_kvop_key *key,
                         const unsigned char *record, uint32_t size)
{
    uint32_t count = size == SNIC_KVFS_HEAD + 4 ? snic_get_le32(record + SNIC_KVFS_HEAD) : 0;
    i->further += count;
    if (count == 0 && fsck_finding(f, key, 1, "corrupt hard link record"))
        fsck_put(f, key, NULL, 0);
}

/* Locks end with their sessions: what cannot be read is worth nothing. */
static void fsck_locks(struct fsck *f, const struct snic_kvop_key *key, const unsigned char *record,
                       uint32_t size)
{
    uint32_t bytes = size - SNIC_KVFS_HEAD;
    int bad = bytes == 0 || bytes % FSCK_LOCK != 0;
    for (uint32_t at = 0; !bad && at < bytes; at += FSCK_LOCK) {
        const unsigned char *p = record + SNIC_KVFS_HEAD + at;
        uint32_t type = snic_get_le32(p + 32);
        bad = (type & 3) == 0 || (type & 3) == 3 || type > 7 ||
              snic_get_le64(p + 16) > snic_get_le64(p + 24);
    }
    if (bad && fsck_finding(f, key, 1, "corrupt locks"))
        fsck_put(f, key, NULL, 0);
}

/* Keys that no mount ever reads. */
static int fsck_unknown(const struct snic_kvop_key *key)
{
    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_ATTR:
    case SNIC_KVFS_REC_DATA:
    case SNIC_KVFS_REC_TARGET:
    case SNIC_KVFS_REC_LOCKS:
        return key->size != 1;
    case SNIC_KVFS_REC_ENTRY:
    case SNIC_KVFS_REC_XATTR:
        return key->size != 17;
    case SNIC_KVFS_REC_PARENT:
        return key->size != 25;
    default:
        return 1;
    }
}

static void fsck_file_record(struct fsck *f, const struct snic_kvop_key *key,
                             const unsigned char *record, uint32_t size)
{
    struct fsck_inode *i = fsck_inode(f, key->group);
    if (i == NULL)
        return;
    if (fsck_unknown(key)) {
        if (fsck_finding(f, key, 1, "record of an unknown kind"))
            fsck_put(f, key, NULL, 0);
        return;
    }
    i->records += key->bytes[0] != SNIC_KVFS_REC_ATTR;
    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_ATTR:
        fsck_attr(f, i, key, record, size);
        break;
    case SNIC_KVFS_REC_ENTRY:
        fsck_entries(f, key, record, size);
        break;
    case SNIC_KVFS_REC_DATA:
        i->data = 1;
        i->small = size - SNIC_KVFS_HEAD;
        if (size > SNIC_KVFS_HEAD + SNIC_KVFS_SMALL_MAX)
            (void)fsck_finding(f, key, 0, "more data than a small file may have");
        break;
    case SNIC_KVFS_REC_TARGET:
        i->target = size - SNIC_KVFS_HEAD;
        break;
    case SNIC_KVFS_REC_XATTR:
        fsck_xattr(f, i, key, record, size);
        break;
    case SNIC_KVFS_REC_PARENT:
        fsck_further(f, i, key, record, size);
        break;
    default:
        fsck_locks(f, key, record, size);
        break;
    }
}

static void fsck_put_number(struct fsck *f, const struct snic_kvop_key *key, uint64_t number)
{
    unsigned char record[SNIC_KVFS_NUMBER_BYTES];
    snic_kvfs_number_encode(record, number);
    fsck_put(f, key, record, sizeof(record));
}

/* One of the table of sessions: all of them are read by every mount. */
static void fsck_session(struct fsck *f, const struct snic_kvop_key *key,
                         const unsigned char *record, uint32_t size)
{
    uint64_t id = key->size < 9 ? 0 : snic_get_be64(key->bytes + 1), number;
    const void *client;
    uint32_t bytes;
    int beat = key->size == 10 && key->bytes[9] == 'b';
    int fence = key->size == 10 && key->bytes[9] == 'f';
    struct snic_kvfs_session s;
    if (fence) { /* its session may do without: it is dead */
        if ((id != f->session || snic_kvfs_fence_decode(&client, &bytes, record, size) != 0) &&
            fsck_finding(f, key, 1, "fence that is corrupt or without a session"))
            fsck_put(f, key, NULL, 0);
    } else if (key->size != 9 && !beat) {
        if (fsck_finding(f, key, 1, "record of an unknown kind"))
            fsck_put(f, key, NULL, 0);
    } else if (id == 0 && !beat) {
        f->has_table = 1;
        if (snic_kvfs_number_decode(&number, record, size) != 0 &&
            fsck_finding(f, key, 1, "corrupt table of sessions"))
            fsck_put_number(f, key, 1);
    } else if (beat) {
        f->session_beats += id == f->session;
        if (id != f->session) {
            if (fsck_finding(f, key, 1, "heartbeat without a session"))
                fsck_put(f, key, NULL, 0);
        } else if (snic_kvfs_number_decode(&number, record, size) != 0 &&
                   fsck_finding(f, key, 1, "corrupt heartbeat")) {
            fsck_put_number(f, key, 1);
        }
    } else {
        f->r->sessions++;
        f->session = id;
        f->session_beats = 0;
        if (f->r->sessions >= FSCK_SESSIONS) {
            if (fsck_finding(f, key, 1, "more sessions than a mount supports"))
                fsck_put(f, key, NULL, 0);
        } else if (snic_kvfs_session_decode(&s, record, size) != 0 &&
                   fsck_finding(f, key, 1, "corrupt session"))
            fsck_put(f, key, NULL, 0);
    }
}

/* Between two sessions, and behind the last. */
static void fsck_session_end(struct fsck *f)
{
    struct snic_kvop_key key;
    if (f->session == 0 || f->session_beats != 0)
        return;
    snic_kvfs_key_beat(&key, f->session);
    f->session = 0;
    if (fsck_finding(f, &key, 1, "session without a heartbeat"))
        fsck_put_number(f, &key, 1);
}

static void fsck_super_record(struct fsck *f, const struct snic_kvop_key *key,
                              const unsigned char *record, uint32_t size)
{
    uint64_t number;
    if (key->bytes[0] == SNIC_KVFS_REC_SUPER && key->size == 1) {
        f->has_super = snic_kvfs_super_decode(&f->super, record, size) == 0;
        if (!f->has_super)
            (void)fsck_finding(f, key, 0, "corrupt superblock");
    } else if (key->bytes[0] == SNIC_KVFS_REC_NEXT_INO && key->size == 1) {
        if (snic_kvfs_number_decode(&f->next_ino, record, size) != 0)
            (void)fsck_finding(f, key, 0, "corrupt next inode number");
    } else if (key->bytes[0] == SNIC_KVFS_REC_MOVES && key->size == 1) {
        if (snic_kvfs_number_decode(&number, record, size) != 0 &&
            fsck_finding(f, key, 1, "corrupt number of moves"))
            fsck_put_number(f, key, 1);
    } else if (key->bytes[0] == SNIC_KVFS_REC_SESSION) {
        fsck_session(f, key, record, size);
    } else if (fsck_finding(f, key, 1, "record of an unknown kind")) {
        fsck_put(f, key, NULL, 0);
    }
}

static void fsck_hurt(struct fsck *f, const struct snic_kvop_key *key)
{
    struct fsck_inode *i = key->group < SNIC_KVFS_INO_MAX ? fsck_inode(f, key->group) : NULL;
    f->damaged = 1;
    if (i != NULL) {
        i->hurt = 1;
        f->most = snic_max_u64(f->most, key->group);
    }
}

/* May it be removed: of use only during a mount, or counted anew? All else is kept. */
static int fsck_may_go(const struct snic_kvop_key *key)
{
    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_LOCKS:
        return key->group < SNIC_KVFS_INO_MAX;
    case SNIC_KVFS_REC_PARENT:
        return key->group < SNIC_KVFS_INO_MAX && key->size == 25;
    case SNIC_KVFS_REC_SESSION:
    case SNIC_KVFS_REC_NEXT_INO:
    case SNIC_KVFS_REC_MOVES:
        return key->group == SNIC_KVFS_GROUP_SUPER;
    case SNIC_KVFS_REC_ORPHAN:
        return key->group == SNIC_KVFS_GROUP_ORPHANS;
    default:
        return 0;
    }
}

static void fsck_unread(struct fsck *f, const struct snic_kvop_key *key, int why)
{
    int may = why == SNIC_ECORRUPT && fsck_may_go(key);
    if (fsck_finding(f, key, may,
                     why == SNIC_EVERSION ? "unsupported version" : "checksum mismatch"))
        fsck_put(f, key, NULL, 0);
    else
        fsck_hurt(f, key);
}

static void fsck_record(struct fsck *f, const struct snic_kvop_key *key,
                        const unsigned char *record, uint32_t size)
{
    int flags = snic_kvfs_verify(key, record, size);
    f->r->records++;
    if (f->o->progress != NULL && f->r->records % 4096 == 0)
        f->o->progress(f->o->ctx, f->r->records);
    if (key->group == SNIC_KVFS_GROUP_INTENTS)
        return;
    if (flags < 0) {
        fsck_unread(f, key, flags);
        return;
    }
    if (((uint32_t)flags & SNIC_KVFS_RESERVED) != 0) {
        if (f->o->repair && f->r->intents == 0 &&
            fsck_finding(f, key, 1, "reserved by a commit that does not exist"))
            fsck_settle(f, key, record, size);
        record = fsck_logical(f, key, record, &size);
        if (record == NULL) {
            (void)fsck_finding(f, key, 0, "corrupt reserved record");
            fsck_hurt(f, key);
        }
        if (record == NULL || size == 0)
            return;
    }
    if (key->group == SNIC_KVFS_GROUP_SUPER) {
        if (key->bytes[0] == SNIC_KVFS_REC_SESSION && key->size == 9)
            fsck_session_end(f);
        fsck_super_record(f, key, record, size);
    } else if (key->group == SNIC_KVFS_GROUP_ORPHANS) {
        struct fsck_inode *i = key->size == 9 ? fsck_inode(f, snic_get_be64(key->bytes + 1)) : NULL;
        if (i != NULL)
            i->listed = 1;
    } else if (key->group < SNIC_KVFS_INO_MAX) {
        fsck_file_record(f, key, record, size);
    }
}

static void fsck_delete(struct fsck *f, const struct snic_kvop_key *key,
                        const unsigned char *record, uint32_t size)
{
    (void)record;
    (void)size;
    fsck_put(f, key, NULL, 0);
}

/* Such a number was never assigned: a name that leads there leads nowhere. */
static void fsck_beyond(struct fsck *f, uint64_t group)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_TRUNCATE, .object = group};
    struct snic_kvop_key key;
    snic_kvfs_key(&key, group, SNIC_KVFS_REC_ATTR);
    if (!fsck_finding(f, &key, 1, "records or data of an inode number out of range"))
        return;
    fsck_group(f, group, fsck_delete);
    (void)fsck_op(f, &op);
}

static void fsck_load_group(struct fsck *f, uint64_t group)
{
    if (group == SNIC_KVFS_GROUP_SUPER || group == SNIC_KVFS_GROUP_INTENTS)
        return; /* have been read */
    if (group >= SNIC_KVFS_INO_MAX && group != SNIC_KVFS_GROUP_ORPHANS) {
        fsck_beyond(f, group);
        return;
    }
    if (group < SNIC_KVFS_INO_MAX)
        (void)fsck_inode(f, group); /* there may be an object alone */
    fsck_group(f, group, fsck_record);
}

int fsck_load(struct fsck *f)
{
    fsck_group(f, SNIC_KVFS_GROUP_INTENTS, fsck_intent);
    fsck_group(f, SNIC_KVFS_GROUP_SUPER, fsck_record);
    fsck_session_end(f);
    if (f->has_super && !f->has_table && !f->damaged) {
        struct snic_kvop_key key;
        snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, 0);
        if (fsck_finding(f, &key, 1, "no table of sessions"))
            fsck_put_number(f, &key, 1);
    }
    if (!f->has_super) {
        if (f->error == 0)
            f->error = f->damaged ? SNIC_ECORRUPT : SNIC_ENOENT;
        return f->error;
    }
    fsck_groups(f, fsck_load_group);
    return f->error;
}
