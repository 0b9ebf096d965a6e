/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every record as a line of text, damaged ones with what is wrong. */
#include "tool.h"

#include "../common.h"

#include <stdio.h>
#include <string.h>

struct dump {
    struct kt *t;
    uint64_t records;
    uint64_t objects;
    uint64_t damaged;
};

static unsigned long long number(uint64_t n)
{
    return n;
}

/* Bytes of a name: what is not printable as \xNN. */
static void dump_text(const char *s, size_t n)
{
    (void)putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            (void)printf("\\x%02x", c);
        else
            (void)putchar(c);
    }
    (void)putchar('"');
}

static void dump_time(const char *name, const struct snic_fsop_time *t)
{
    (void)printf(" %s=%lld.%09u", name, (long long)t->sec, t->nsec);
}

static int dump_attr(const void *value, uint32_t size)
{
    struct snic_fsop_attr a;
    int rc = snic_kvfs_attr_decode(&a, value, size);

    if (rc != 0)
        return rc;
    (void)printf(" mode=%06o nlink=%u uid=%u gid=%u size=%llu space=%llu rdev=%llx flags=%x "
                 "version=%llu entries=%llu",
                 a.mode, a.nlink, a.uid, a.gid, number(a.size), number(a.space), number(a.rdev),
                 a.flags, number(a.version), number(a.entries));
    dump_time("atime", &a.atime);
    dump_time("mtime", &a.mtime);
    dump_time("ctime", &a.ctime);
    dump_time("btime", &a.btime);
    if ((a.flags & SNIC_KVFS_ATTR_PARENT) != 0)
        (void)printf(" parent=%llu name=%016llx%016llx", number(a.parent), number(a.name.high),
                     number(a.name.low));
    return 0;
}

static int dump_entries(const unsigned char *value, uint32_t size)
{
    struct snic_kvfs_entry e;
    uint32_t at = 0;
    int rc;

    while ((rc = snic_kvfs_entry_next(value, size, &at, &e)) == 1) {
        (void)printf(" %llu:%06o:", number(e.ino), e.type);
        dump_text(e.name, e.name_size);
    }
    return rc;
}

static int dump_super(const void *value, uint32_t size)
{
    struct snic_kvfs_super s;
    int rc = snic_kvfs_super_decode(&s, value, size);

    if (rc != 0)
        return rc;
    (void)printf(" version=%u flags=%x seed=%016llx uuid=", s.version, s.flags, number(s.seed));
    for (size_t i = 0; i < sizeof(s.uuid); i++)
        (void)printf("%02x", s.uuid[i]);
    dump_time("created", &s.created);
    return 0;
}

static int dump_xattr(const unsigned char *body, uint32_t size)
{
    uint32_t n = size < 2 ? UINT32_MAX : snic_get_le16(body);

    if (n > size - 2)
        return SNIC_ECORRUPT;
    (void)putchar(' ');
    dump_text((const char *)body + 2, n);
    (void)putchar('=');
    dump_text((const char *)body + 2 + n, size - 2 - n);
    return 0;
}

static int dump_value(const struct snic_kvop_key *key, const unsigned char *value, uint32_t size)
{
    const unsigned char *body = value + SNIC_KVFS_HEAD;
    uint32_t n = size - SNIC_KVFS_HEAD;

    switch (key->bytes[0]) {
    case SNIC_KVFS_REC_ATTR:
        return dump_attr(value, size);
    case SNIC_KVFS_REC_ENTRY:
        return dump_entries(value, size);
    case SNIC_KVFS_REC_SUPER:
        return dump_super(value, size);
    case SNIC_KVFS_REC_XATTR:
        return dump_xattr(body, n);
    case SNIC_KVFS_REC_TARGET:
        (void)putchar(' ');
        dump_text((const char *)body, n);
        return 0;
    case SNIC_KVFS_REC_NEXT_INO:
        if (n < 8)
            return SNIC_ECORRUPT;
        (void)printf(" %llu", number(snic_get_le64(body)));
        return 0;
    default:
        (void)printf(" %u bytes", n);
        return 0;
    }
}

static int dump_record(void *ctx, const struct snic_kvop_key *key, const void *value, uint32_t size)
{
    struct dump *d = ctx;
    char text[256];
    int flags = snic_kvfs_verify(key, value, size);
    int rc = 0;

    snic_kvfs_key_text(key, text, sizeof(text));
    (void)printf("%s:", text);
    if (flags < 0)
        rc = flags;
    else if ((flags & (int)SNIC_KVFS_RESERVED) != 0)
        (void)printf(" reserved by an unfinished commit, %u bytes", size);
    else
        rc = dump_value(key, value, size);
    if (rc < 0) {
        (void)printf(" corrupt: %s, %u bytes", snic_strerror(rc), size);
        d->damaged++;
    }
    (void)putchar('\n');
    d->records++;
    kt_progress(d->t, "%llu records", number(d->records));
    return 0;
}

static int dump_group(void *ctx, uint64_t group)
{
    struct dump *d = ctx;
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_STAT, .object = group};

    if (group > SNIC_KVFS_INO_MAX)
        return 0;
    if (kt_op(d->t, &op) >= 0 && op.allocated > 0) {
        (void)printf("group %llu object: %lld bytes taken\n", number(group),
                     (long long)op.allocated);
        d->objects++;
    } else if (op.result == SNIC_ECORRUPT) {
        (void)printf("group %llu object: corrupt map of extents\n", number(group));
        d->objects++;
        d->damaged++;
    }
    return 0;
}

int kt_dump(struct kt *t)
{
    struct dump d = {.t = t};
    struct kt_walk w = {.record = dump_record, .group = dump_group, .ctx = &d};
    int status;
    int rc;

    t->s.read_only = 1;
    t->s.verify = 1;
    status = kt_open(t, 0);
    if (status != 0)
        return status;
    rc = kt_walk(t, &w);
    kt_progress_end(t);
    if (rc != 0) {
        ex_log(EX_ERROR, "%s: %s", t->s.spec, snic_strerror(rc));
        return 1;
    }
    if (t->one_group && d.records + d.objects == 0) {
        ex_log(EX_ERROR, "%s: no group %llu", t->s.spec, number(t->group));
        return 1;
    }
    if (d.damaged > 0)
        ex_log(EX_ERROR, "%s: %llu of %llu records and objects are corrupt: run kvfs_tool fsck",
               t->s.spec, number(d.damaged), number(d.records + d.objects));
    return d.damaged > 0 ? 1 : 0;
}
