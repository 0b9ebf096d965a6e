/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records: keys, checksums, layouts.
 *
 * A record is decoded without trust: invalid sizes and contents are SNIC_ECORRUPT, also when the
 * checksum is right, because another program may have written it.
 */
#include "kvfs/format_priv.h"
#include "base/xxh.h"

/* Places in an attribute record, behind the head. */
enum {
    KVFS_FORMAT_A_INO = 8,
    KVFS_FORMAT_A_SIZE = 16,
    KVFS_FORMAT_A_SPACE = 24,
    KVFS_FORMAT_A_RDEV = 32,
    KVFS_FORMAT_A_MODE = 40,
    KVFS_FORMAT_A_NLINK = 44,
    KVFS_FORMAT_A_UID = 48,
    KVFS_FORMAT_A_GID = 52,
    KVFS_FORMAT_A_FLAGS = 56,
    KVFS_FORMAT_A_RESERVED = 60,
    KVFS_FORMAT_A_TIMES = 64, /* atime, mtime, ctime, btime: seconds (8), nanoseconds (4) each */
    KVFS_FORMAT_A_PARENT = 112,
    KVFS_FORMAT_A_NAME = 120,
    KVFS_FORMAT_A_VERSION = 136,
    KVFS_FORMAT_A_ENTRIES = 144,
    KVFS_FORMAT_A_END = 152, /* zeros to the end                                                  */
    KVFS_FORMAT_TIME = 12
};
/* Places in the superblock, behind the head. */
enum {
    KVFS_FORMAT_S_VERSION = 8,
    KVFS_FORMAT_S_FLAGS = 12,
    KVFS_FORMAT_S_SEED = 16,
    KVFS_FORMAT_S_UUID = 24,
    KVFS_FORMAT_S_CREATED = 40,
    KVFS_FORMAT_S_END = 52
};
/* An entry: ino (8), type (4), name size (2), 2 zeros, name. */
enum { KVFS_FORMAT_ENTRY = 16, KVFS_FORMAT_NSEC_MAX = 999999999 };
enum { KVFS_FORMAT_ATTR_FLAGS = 0x3f, KVFS_FORMAT_HEAD_FLAGS = SNIC_KVFS_RESERVED };

SNIC_STATIC_ASSERT(KVFS_FORMAT_A_TIMES + 4 * KVFS_FORMAT_TIME == KVFS_FORMAT_A_PARENT, "on disk");
SNIC_STATIC_ASSERT(KVFS_FORMAT_A_END <= SNIC_KVFS_ATTR_BYTES, "on disk");
SNIC_STATIC_ASSERT(KVFS_FORMAT_S_CREATED + KVFS_FORMAT_TIME == KVFS_FORMAT_S_END, "on disk");
SNIC_STATIC_ASSERT(KVFS_FORMAT_S_END <= SNIC_KVFS_SUPER_BYTES, "on disk");
SNIC_STATIC_ASSERT(SNIC_KVFS_HEAD == 8, "on disk");

/* ---- Keys ---- */

struct snic_fsop_hash snic_kvfs_hash_name(uint64_t seed, const char *name, uint32_t size)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(name, size, seed);
    return (struct snic_fsop_hash){.high = h.high64, .low = h.low64};
}

static void kvfs_format_key(struct snic_kvop_key *k, uint64_t group, enum snic_kvfs_record kind,
                            uint32_t size)
{
    memset(k, 0, sizeof(*k));
    k->group = group;
    k->size = (uint8_t)size;
    k->bytes[0] = (uint8_t)kind;
}

static void kvfs_format_put_hash(uint8_t *p, struct snic_fsop_hash h)
{
    snic_put_be64(p, h.high);
    snic_put_be64(p + 8, h.low);
}

void snic_kvfs_key(struct snic_kvop_key *k, uint64_t group, enum snic_kvfs_record kind)
{
    kvfs_format_key(k, group, kind, 1);
}

void snic_kvfs_key_hash(struct snic_kvop_key *k, uint64_t group, enum snic_kvfs_record kind,
                        struct snic_fsop_hash h)
{
    kvfs_format_key(k, group, kind, 17);
    kvfs_format_put_hash(k->bytes + 1, h);
}

void snic_kvfs_key_parent(struct snic_kvop_key *k, uint64_t group, uint64_t parent,
                          struct snic_fsop_hash h)
{
    kvfs_format_key(k, group, SNIC_KVFS_REC_PARENT, 25);
    snic_put_be64(k->bytes + 1, parent);
    kvfs_format_put_hash(k->bytes + 9, h);
}

void snic_kvfs_key_number(struct snic_kvop_key *k, uint64_t group, enum snic_kvfs_record kind,
                          uint64_t number)
{
    kvfs_format_key(k, group, kind, 9);
    snic_put_be64(k->bytes + 1, number);
}

void snic_kvfs_key_intent(struct snic_kvop_key *k, uint64_t session, uint64_t number)
{
    kvfs_format_key(k, SNIC_KVFS_GROUP_INTENTS, SNIC_KVFS_REC_INTENT, 17);
    snic_put_be64(k->bytes + 1, session);
    snic_put_be64(k->bytes + 9, number);
}

struct kvfs_format_text {
    char *out;
    size_t room;
    size_t size;
};

static void kvfs_format_char(struct kvfs_format_text *t, char c)
{
    if (t->size + 1 < t->room)
        t->out[t->size++] = c;
}

static void kvfs_format_string(struct kvfs_format_text *t, const char *s)
{
    for (; *s != 0; s++)
        kvfs_format_char(t, *s);
}

static void kvfs_format_decimal(struct kvfs_format_text *t, uint64_t v)
{
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    while (n > 0)
        kvfs_format_char(t, digits[--n]);
}

static void kvfs_format_group(struct kvfs_format_text *t, uint64_t group)
{
    if (group == SNIC_KVFS_GROUP_SUPER)
        kvfs_format_string(t, "super");
    else if (group == SNIC_KVFS_GROUP_ORPHANS)
        kvfs_format_string(t, "orphans");
    else if (group == SNIC_KVFS_GROUP_INTENTS)
        kvfs_format_string(t, "intents");
    else
        kvfs_format_decimal(t, group);
}

void snic_kvfs_key_text(const struct snic_kvop_key *k, char *out, size_t room)
{
    static const char hex[] = "0123456789abcdef";
    struct kvfs_format_text t = {.out = out, .room = room, .size = 0};
    uint32_t size = k->size < SNIC_KVOP_KEY_MAX ? k->size : SNIC_KVOP_KEY_MAX;
    uint8_t kind = k->bytes[0];
    if (room == 0)
        return;
    kvfs_format_string(&t, "group ");
    kvfs_format_group(&t, k->group);
    kvfs_format_string(&t, " '");
    kvfs_format_char(&t, kind > ' ' && kind < 127 ? (char)kind : '?');
    kvfs_format_string(&t, size > 1 ? "' " : "'");
    for (uint32_t i = 1; i < size; i++) {
        kvfs_format_char(&t, hex[k->bytes[i] >> 4]);
        kvfs_format_char(&t, hex[k->bytes[i] & 15]);
    }
    t.out[t.size] = 0;
}

/* ---- Head ---- */

/* The key is part of it, so that a record found under another key is not taken for one. */
static uint32_t kvfs_format_crc(const struct snic_kvop_key *k, const unsigned char *record,
                                uint32_t size)
{
    unsigned char first[8 + SNIC_KVOP_KEY_MAX + SNIC_KVFS_HEAD];
    uint32_t n = 8 + (uint32_t)k->size;
    SNIC_ASSERT(k->size <= SNIC_KVOP_KEY_MAX);
    snic_put_le64(first, k->group);
    memcpy(first + 8, k->bytes, k->size);
    memcpy(first + n, record, 4);
    memset(first + n + 4, 0, 4);
    return snic_crc32c(snic_crc32c(0, first, n + SNIC_KVFS_HEAD), record + SNIC_KVFS_HEAD,
                       size - SNIC_KVFS_HEAD);
}

void snic_kvfs_seal(const struct snic_kvop_key *k, void *record, uint32_t size, uint16_t flags)
{
    unsigned char *p = record;
    SNIC_ASSERT(size >= SNIC_KVFS_HEAD);
    p[0] = k->bytes[0];
    p[1] = SNIC_KVFS_VERSION;
    snic_put_le16(p + 2, flags);
    snic_put_le32(p + 4, kvfs_format_crc(k, p, size));
}

int snic_kvfs_verify(const struct snic_kvop_key *k, const void *record, uint32_t size)
{
    const unsigned char *p = record;
    uint16_t flags;
    if (size < SNIC_KVFS_HEAD || k->size == 0 || k->size > SNIC_KVOP_KEY_MAX ||
        snic_get_le32(p + 4) != kvfs_format_crc(k, p, size) || p[0] != k->bytes[0])
        return SNIC_ECORRUPT;
    if (p[1] != SNIC_KVFS_VERSION)
        return SNIC_EVERSION;
    flags = snic_get_le16(p + 2);
    if ((flags & ~KVFS_FORMAT_HEAD_FLAGS) != 0)
        return SNIC_EVERSION;
    return flags;
}

/* ---- Attributes ---- */

static void kvfs_format_put_time(unsigned char *p, const struct snic_fsop_time *t)
{
    snic_put_le64(p, (uint64_t)t->sec);
    snic_put_le32(p + 8, t->nsec);
}

static int kvfs_format_get_time(struct snic_fsop_time *t, const unsigned char *p)
{
    t->sec = (int64_t)snic_get_le64(p);
    t->nsec = snic_get_le32(p + 8);
    t->reserved = 0;
    return t->nsec <= KVFS_FORMAT_NSEC_MAX;
}

static int kvfs_format_type_is_valid(uint32_t mode)
{
    switch (mode & KVFS_IFMT) {
    case KVFS_IFIFO:
    case KVFS_IFCHR:
    case KVFS_IFDIR:
    case KVFS_IFBLK:
    case KVFS_IFREG:
    case KVFS_IFLNK:
    case KVFS_IFSOCK:
        return 1;
    default:
        return 0;
    }
}

/* By words, as every record is decoded. */
static int kvfs_format_zeros(const unsigned char *p, uint32_t size)
{
    uint64_t any = 0;
    uint32_t i = 0;
    for (; i + 8 <= size; i += 8)
        any |= snic_get_le64(p + i);
    for (; i < size; i++)
        any |= p[i];
    return any == 0;
}

void snic_kvfs_attr_encode(void *record, const struct snic_fsop_attr *a)
{
    unsigned char *p = record;
    memset(p, 0, SNIC_KVFS_ATTR_BYTES);
    snic_put_le64(p + KVFS_FORMAT_A_INO, a->ino);
    snic_put_le64(p + KVFS_FORMAT_A_SIZE, a->size);
    snic_put_le64(p + KVFS_FORMAT_A_SPACE, a->space);
    snic_put_le64(p + KVFS_FORMAT_A_RDEV, a->rdev);
    snic_put_le32(p + KVFS_FORMAT_A_MODE, a->mode);
    snic_put_le32(p + KVFS_FORMAT_A_NLINK, a->nlink);
    snic_put_le32(p + KVFS_FORMAT_A_UID, a->uid);
    snic_put_le32(p + KVFS_FORMAT_A_GID, a->gid);
    snic_put_le32(p + KVFS_FORMAT_A_FLAGS, a->flags);
    kvfs_format_put_time(p + KVFS_FORMAT_A_TIMES, &a->atime);
    kvfs_format_put_time(p + KVFS_FORMAT_A_TIMES + KVFS_FORMAT_TIME, &a->mtime);
    kvfs_format_put_time(p + KVFS_FORMAT_A_TIMES + 2 * KVFS_FORMAT_TIME, &a->ctime);
    kvfs_format_put_time(p + KVFS_FORMAT_A_TIMES + 3 * KVFS_FORMAT_TIME, &a->btime);
    snic_put_le64(p + KVFS_FORMAT_A_PARENT, a->parent);
    snic_put_le64(p + KVFS_FORMAT_A_NAME, a->name.high);
    snic_put_le64(p + KVFS_FORMAT_A_NAME + 8, a->name.low);
    snic_put_le64(p + KVFS_FORMAT_A_VERSION, a->version);
    snic_put_le64(p + KVFS_FORMAT_A_ENTRIES, a->entries);
}

int snic_kvfs_attr_decode(struct snic_fsop_attr *a, const void *record, uint32_t size)
{
    const unsigned char *p = record;
    struct snic_fsop_attr r;
    int ok;
    if (size != SNIC_KVFS_ATTR_BYTES)
        return SNIC_ECORRUPT;
    memset(&r, 0, sizeof(r));
    r.ino = snic_get_le64(p + KVFS_FORMAT_A_INO);
    r.size = snic_get_le64(p + KVFS_FORMAT_A_SIZE);
    r.space = snic_get_le64(p + KVFS_FORMAT_A_SPACE);
    r.rdev = snic_get_le64(p + KVFS_FORMAT_A_RDEV);
    r.mode = snic_get_le32(p + KVFS_FORMAT_A_MODE);
    r.nlink = snic_get_le32(p + KVFS_FORMAT_A_NLINK);
    r.uid = snic_get_le32(p + KVFS_FORMAT_A_UID);
    r.gid = snic_get_le32(p + KVFS_FORMAT_A_GID);
    r.flags = snic_get_le32(p + KVFS_FORMAT_A_FLAGS);
    ok = kvfs_format_get_time(&r.atime, p + KVFS_FORMAT_A_TIMES);
    ok &= kvfs_format_get_time(&r.mtime, p + KVFS_FORMAT_A_TIMES + KVFS_FORMAT_TIME);
    ok &= kvfs_format_get_time(&r.ctime, p + KVFS_FORMAT_A_TIMES + 2 * KVFS_FORMAT_TIME);
    ok &= kvfs_format_get_time(&r.btime, p + KVFS_FORMAT_A_TIMES + 3 * KVFS_FORMAT_TIME);
    r.parent = snic_get_le64(p + KVFS_FORMAT_A_PARENT);
    r.name.high = snic_get_le64(p + KVFS_FORMAT_A_NAME);
    r.name.low = snic_get_le64(p + KVFS_FORMAT_A_NAME + 8);
    r.version = snic_get_le64(p + KVFS_FORMAT_A_VERSION);
    r.entries = snic_get_le64(p + KVFS_FORMAT_A_ENTRIES);
    if (!ok || r.ino == 1 || r.ino >= SNIC_KVFS_INO_MAX || r.size > SNIC_KVOP_OBJECT_MAX ||
        !kvfs_format_type_is_valid(r.mode) || (r.flags & ~(uint32_t)KVFS_FORMAT_ATTR_FLAGS) != 0 ||
        snic_get_le32(p + KVFS_FORMAT_A_RESERVED) != 0 ||
        !kvfs_format_zeros(p + KVFS_FORMAT_A_END, SNIC_KVFS_ATTR_BYTES - KVFS_FORMAT_A_END))
        return SNIC_ECORRUPT;
    *a = r;
    return 0;
}

int kvfs_attr_is_empty_dir(const void *record, uint32_t size)
{
    const unsigned char *p = record;
    return size == SNIC_KVFS_ATTR_BYTES &&
           (snic_get_le32(p + KVFS_FORMAT_A_MODE) & KVFS_IFMT) == KVFS_IFDIR &&
           snic_get_le64(p + KVFS_FORMAT_A_ENTRIES) == 0;
}

/* ---- Entries ---- */

int snic_kvfs_entry_next(const void *record, uint32_t size, uint32_t *at,
                         struct snic_kvfs_entry *out)
{
    const unsigned char *p = record;
    uint32_t from = *at == 0 ? SNIC_KVFS_HEAD : *at;
    struct snic_kvfs_entry e;
    if (from == size && from > SNIC_KVFS_HEAD)
        return 0;
    if (from > size || size - from < KVFS_FORMAT_ENTRY)
        return SNIC_ECORRUPT;
    e.ino = snic_get_le64(p + from);
    e.type = snic_get_le32(p + from + 8);
    e.name_size = snic_get_le16(p + from + 12);
    e.name = (const char *)p + from + KVFS_FORMAT_ENTRY;
    if (e.name_size == 0 || e.name_size > SNIC_FSOP_NAME_MAX ||
        e.name_size > size - from - KVFS_FORMAT_ENTRY || snic_get_le16(p + from + 14) != 0 ||
        e.ino < 2 || e.ino >= SNIC_KVFS_INO_MAX || !kvfs_format_type_is_valid(e.type) ||
        (e.type & ~(uint32_t)KVFS_IFMT) != 0 || memchr(e.name, 0, e.name_size) != NULL ||
        memchr(e.name, '/', e.name_size) != NULL)
        return SNIC_ECORRUPT;
    *out = e;
    *at = from + KVFS_FORMAT_ENTRY + e.name_size;
    return 1;
}

int snic_kvfs_entry_append(void *record, uint32_t *size, uint32_t room,
                           const struct snic_kvfs_entry *e)
{
    uint32_t at = *size == 0 ? SNIC_KVFS_HEAD : *size;
    unsigned char *p = (unsigned char *)record + at;
    SNIC_ASSERT(e->name_size > 0 && e->name_size <= SNIC_FSOP_NAME_MAX);
    if (at > room || room - at < KVFS_FORMAT_ENTRY + e->name_size)
        return SNIC_ENOSPC;
    if (*size == 0)
        memset(record, 0, SNIC_KVFS_HEAD);
    snic_put_le64(p, e->ino);
    snic_put_le32(p + 8, e->type);
    snic_put_le16(p + 12, (uint16_t)e->name_size);
    snic_put_le16(p + 14, 0);
    memcpy(p + KVFS_FORMAT_ENTRY, e->name, e->name_size);
    *size = at + KVFS_FORMAT_ENTRY + e->name_size;
    return 0;
}

/* ---- Superblock ---- */

void snic_kvfs_super_encode(void *record, const struct snic_kvfs_super *s)
{
    unsigned char *p = record;
    memset(p, 0, SNIC_KVFS_SUPER_BYTES);
    snic_put_le32(p + KVFS_FORMAT_S_VERSION, s->version);
    snic_put_le32(p + KVFS_FORMAT_S_FLAGS, s->flags);
    snic_put_le64(p + KVFS_FORMAT_S_SEED, s->seed);
    memcpy(p + KVFS_FORMAT_S_UUID, s->uuid, sizeof(s->uuid));
    kvfs_format_put_time(p + KVFS_FORMAT_S_CREATED, &s->created);
}

int snic_kvfs_super_decode(struct snic_kvfs_super *s, const void *record, uint32_t size)
{
    const unsigned char *p = record;
    struct snic_kvfs_super r;
    if (size != SNIC_KVFS_SUPER_BYTES)
        return SNIC_ECORRUPT;
    memset(&r, 0, sizeof(r));
    r.version = snic_get_le32(p + KVFS_FORMAT_S_VERSION);
    r.flags = snic_get_le32(p + KVFS_FORMAT_S_FLAGS);
    r.seed = snic_get_le64(p + KVFS_FORMAT_S_SEED);
    memcpy(r.uuid, p + KVFS_FORMAT_S_UUID, sizeof(r.uuid));
    if (r.version != SNIC_KVFS_VERSION || r.flags != 0)
        return SNIC_EVERSION;
    if (!kvfs_format_get_time(&r.created, p + KVFS_FORMAT_S_CREATED) ||
        !kvfs_format_zeros(p + KVFS_FORMAT_S_END, SNIC_KVFS_SUPER_BYTES - KVFS_FORMAT_S_END))
        return SNIC_ECORRUPT;
    *s = r;
    return 0;
}
