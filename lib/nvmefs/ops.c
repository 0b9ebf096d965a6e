/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The headers of file operations: a table maps the fields of a request (fsop.h) to an operation's
 * struct, and one encoder and one decoder serve all of them. fsop.c has flags and names.
 *
 * Invariants
 *   O1 Every byte of a header belongs to a field, a name, a group, or is checked to be zero.
 *   O2 Decoding accesses only [in, in + size) and uses no size that was not compared with that.
 *   O3 decode(encode(r)) returns every field that the operation has.
 */
#include "nvmefs/nvmefs_priv.h"

/** One field: its place in the request, in the operation's struct, and its bytes. */
struct nvmefs_field {
    uint16_t op;
    uint8_t wire;
    uint8_t bytes;
};

#define SNIC_NVMEFS__F(s, w, r)                                                                    \
    {                                                                                              \
        offsetof(struct snic_fsop, r), offsetof(struct s, w), sizeof(((struct s *)0)->w)           \
    }
#define SNIC_NVMEFS__FA(w, r)                                                                      \
    {                                                                                              \
        offsetof(struct snic_fsop, r), offsetof(struct snic_nvmefs_wire_attr, w),                  \
            sizeof(((struct snic_nvmefs_wire_attr *)0)->w)                                         \
    }

static const struct nvmefs_field nvmefs_f_node[] = {SNIC_NVMEFS__F(snic_nvmefs_op_node, ino, ino)};
static const struct nvmefs_field nvmefs_f_forget[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_forget, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_forget, count, length)};
static const struct nvmefs_field nvmefs_f_handle[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_handle, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_handle, handle, handle)};
static const struct nvmefs_field nvmefs_f_setattr[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, size, attr.size),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, atime_sec, attr.atime.sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, mtime_sec, attr.mtime.sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, ctime_sec, attr.ctime.sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, atime_nsec, attr.atime.nsec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, mtime_nsec, attr.mtime.nsec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, ctime_nsec, attr.ctime.nsec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, set_mask, set_mask),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, mode, attr.mode),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, uid, attr.uid),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, gid, attr.gid)};
static const struct nvmefs_field nvmefs_f_make[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_make, ino, ino), SNIC_NVMEFS__F(snic_nvmefs_op_make, rdev, rdev),
    SNIC_NVMEFS__F(snic_nvmefs_op_make, mode, mode)};
static const struct nvmefs_field nvmefs_f_rename[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_rename, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_rename, ino2, ino2)};
static const struct nvmefs_field nvmefs_f_release[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_release, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_release, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_release, owner, lock.owner)};
static const struct nvmefs_field nvmefs_f_io[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_io, ino, ino), SNIC_NVMEFS__F(snic_nvmefs_op_io, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_io, offset, offset)};
static const struct nvmefs_field nvmefs_f_fallocate[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_fallocate, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_fallocate, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_fallocate, offset, offset),
    SNIC_NVMEFS__F(snic_nvmefs_op_fallocate, length, length)};
static const struct nvmefs_field nvmefs_f_copy[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, offset, offset),
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, ino2, ino2),
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, offset2, offset2),
    SNIC_NVMEFS__F(snic_nvmefs_op_copy, length, length)};
static const struct nvmefs_field nvmefs_f_lock[] = {
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, ino, ino),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, handle, handle),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, owner, lock.owner),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, start, lock.start),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, end, lock.end),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, type, lock.type),
    SNIC_NVMEFS__F(snic_nvmefs_op_lock, pid, lock.pid)};
static const struct nvmefs_field nvmefs_f_attr[] = {SNIC_NVMEFS__FA(handle, handle),
                                                    SNIC_NVMEFS__FA(ino, attr.ino),
                                                    SNIC_NVMEFS__FA(size, attr.size),
                                                    SNIC_NVMEFS__FA(space, attr.space),
                                                    SNIC_NVMEFS__FA(rdev, attr.rdev),
                                                    SNIC_NVMEFS__FA(version, attr.version),
                                                    SNIC_NVMEFS__FA(entries, attr.entries),
                                                    SNIC_NVMEFS__FA(atime_sec, attr.atime.sec),
                                                    SNIC_NVMEFS__FA(mtime_sec, attr.mtime.sec),
                                                    SNIC_NVMEFS__FA(ctime_sec, attr.ctime.sec),
                                                    SNIC_NVMEFS__FA(btime_sec, attr.btime.sec),
                                                    SNIC_NVMEFS__FA(atime_nsec, attr.atime.nsec),
                                                    SNIC_NVMEFS__FA(mtime_nsec, attr.mtime.nsec),
                                                    SNIC_NVMEFS__FA(ctime_nsec, attr.ctime.nsec),
                                                    SNIC_NVMEFS__FA(btime_nsec, attr.btime.nsec),
                                                    SNIC_NVMEFS__FA(mode, attr.mode),
                                                    SNIC_NVMEFS__FA(nlink, attr.nlink),
                                                    SNIC_NVMEFS__FA(uid, attr.uid),
                                                    SNIC_NVMEFS__FA(gid, attr.gid),
                                                    SNIC_NVMEFS__FA(flags, attr.flags)};
static const struct nvmefs_field nvmefs_f_statfs[] = {
    SNIC_NVMEFS__F(snic_nvmefs_wire_statfs, bytes, statfs.bytes),
    SNIC_NVMEFS__F(snic_nvmefs_wire_statfs, bytes_free, statfs.bytes_free),
    SNIC_NVMEFS__F(snic_nvmefs_wire_statfs, files, statfs.files),
    SNIC_NVMEFS__F(snic_nvmefs_wire_statfs, files_free, statfs.files_free)};
static const struct nvmefs_field nvmefs_f_answer_lock[] = {
    SNIC_NVMEFS__F(snic_nvmefs_wire_lock, owner, lock.owner),
    SNIC_NVMEFS__F(snic_nvmefs_wire_lock, start, lock.start),
    SNIC_NVMEFS__F(snic_nvmefs_wire_lock, end, lock.end),
    SNIC_NVMEFS__F(snic_nvmefs_wire_lock, type, lock.type),
    SNIC_NVMEFS__F(snic_nvmefs_wire_lock, pid, lock.pid)};

/** A struct on the wire: its size and its fields. */
struct nvmefs_shape {
    const struct nvmefs_field *fields;
    uint16_t count;
    uint16_t bytes;
};
#define SNIC_NVMEFS__S(f, s)                                                                       \
    {                                                                                              \
        f, SNIC_COUNTOF(f), sizeof(struct s)                                                       \
    }

enum nvmefs_shape_kind {
    NVMEFS_NODE,
    NVMEFS_FORGET,
    NVMEFS_HANDLE,
    NVMEFS_SETATTR,
    NVMEFS_MAKE,
    NVMEFS_RENAME,
    NVMEFS_RELEASE,
    NVMEFS_IO,
    NVMEFS_FALLOCATE,
    NVMEFS_COPY,
    NVMEFS_LOCK,
    NVMEFS_A_ATTR,
    NVMEFS_A_STATFS,
    NVMEFS_A_LOCK,
    NVMEFS_NONE
};

static const struct nvmefs_shape nvmefs_shapes[] = {
    [NVMEFS_NODE] = SNIC_NVMEFS__S(nvmefs_f_node, snic_nvmefs_op_node),
    [NVMEFS_FORGET] = SNIC_NVMEFS__S(nvmefs_f_forget, snic_nvmefs_op_forget),
    [NVMEFS_HANDLE] = SNIC_NVMEFS__S(nvmefs_f_handle, snic_nvmefs_op_handle),
    [NVMEFS_SETATTR] = SNIC_NVMEFS__S(nvmefs_f_setattr, snic_nvmefs_op_setattr),
    [NVMEFS_MAKE] = SNIC_NVMEFS__S(nvmefs_f_make, snic_nvmefs_op_make),
    [NVMEFS_RENAME] = SNIC_NVMEFS__S(nvmefs_f_rename, snic_nvmefs_op_rename),
    [NVMEFS_RELEASE] = SNIC_NVMEFS__S(nvmefs_f_release, snic_nvmefs_op_release),
    [NVMEFS_IO] = SNIC_NVMEFS__S(nvmefs_f_io, snic_nvmefs_op_io),
    [NVMEFS_FALLOCATE] = SNIC_NVMEFS__S(nvmefs_f_fallocate, snic_nvmefs_op_fallocate),
    [NVMEFS_COPY] = SNIC_NVMEFS__S(nvmefs_f_copy, snic_nvmefs_op_copy),
    [NVMEFS_LOCK] = SNIC_NVMEFS__S(nvmefs_f_lock, snic_nvmefs_op_lock),
    [NVMEFS_A_ATTR] = SNIC_NVMEFS__S(nvmefs_f_attr, snic_nvmefs_wire_attr),
    [NVMEFS_A_STATFS] = SNIC_NVMEFS__S(nvmefs_f_statfs, snic_nvmefs_wire_statfs),
    [NVMEFS_A_LOCK] = SNIC_NVMEFS__S(nvmefs_f_answer_lock, snic_nvmefs_wire_lock),
};

/** The structs of a request and of its answer. */
struct nvmefs_form {
    uint8_t request;
    uint8_t answer;
};

static const struct nvmefs_form nvmefs_forms[SNIC_FSOP_WIRE_KINDS] = {
    [SNIC_FSOP_LOOKUP] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_FORGET] = {NVMEFS_FORGET, NVMEFS_NONE},
    [SNIC_FSOP_GETATTR] = {NVMEFS_HANDLE, NVMEFS_A_ATTR},
    [SNIC_FSOP_SETATTR] = {NVMEFS_SETATTR, NVMEFS_A_ATTR},
    [SNIC_FSOP_READLINK] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_MKNOD] = {NVMEFS_MAKE, NVMEFS_A_ATTR},
    [SNIC_FSOP_CREATE] = {NVMEFS_MAKE, NVMEFS_A_ATTR},
    [SNIC_FSOP_MKDIR] = {NVMEFS_MAKE, NVMEFS_A_ATTR},
    [SNIC_FSOP_SYMLINK] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_UNLINK] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_RMDIR] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_RENAME] = {NVMEFS_RENAME, NVMEFS_A_ATTR},
    [SNIC_FSOP_LINK] = {NVMEFS_RENAME, NVMEFS_A_ATTR},
    [SNIC_FSOP_OPEN] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_RELEASE] = {NVMEFS_RELEASE, NVMEFS_NONE},
    [SNIC_FSOP_FLUSH] = {NVMEFS_RELEASE, NVMEFS_NONE},
    [SNIC_FSOP_FSYNC] = {NVMEFS_HANDLE, NVMEFS_NONE},
    [SNIC_FSOP_READ] = {NVMEFS_IO, NVMEFS_NONE},
    [SNIC_FSOP_WRITE] = {NVMEFS_IO, NVMEFS_NONE},
    [SNIC_FSOP_FALLOCATE] = {NVMEFS_FALLOCATE, NVMEFS_NONE},
    [SNIC_FSOP_SEEK] = {NVMEFS_IO, NVMEFS_NONE},
    [SNIC_FSOP_COPY] = {NVMEFS_COPY, NVMEFS_NONE},
    [SNIC_FSOP_OPENDIR] = {NVMEFS_NODE, NVMEFS_A_ATTR},
    [SNIC_FSOP_READDIR] = {NVMEFS_IO, NVMEFS_NONE},
    [SNIC_FSOP_RELEASEDIR] = {NVMEFS_HANDLE, NVMEFS_NONE},
    [SNIC_FSOP_STATFS] = {NVMEFS_NODE, NVMEFS_A_STATFS},
    [SNIC_FSOP_SETXATTR] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_GETXATTR] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_LISTXATTR] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_REMOVEXATTR] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_ACCESS] = {NVMEFS_MAKE, NVMEFS_NONE},
    [SNIC_FSOP_GETLK] = {NVMEFS_LOCK, NVMEFS_A_LOCK},
    [SNIC_FSOP_SETLK] = {NVMEFS_LOCK, NVMEFS_NONE},
    [SNIC_FSOP_FLOCK] = {NVMEFS_LOCK, NVMEFS_NONE},
    [SNIC_FSOP_SYNCFS] = {NVMEFS_NODE, NVMEFS_NONE},
    [SNIC_FSOP_RESOLVE] = {NVMEFS_NODE, NVMEFS_A_ATTR},
};

static const struct nvmefs_shape *nvmefs_request_shape(uint32_t kind)
{
    return &nvmefs_shapes[nvmefs_forms[kind].request];
}

static const struct nvmefs_shape *nvmefs_answer_shape(uint32_t kind)
{
    return &nvmefs_shapes[nvmefs_forms[kind].answer];
}

int snic_nvmefs_op_data(uint32_t kind)
{
    if (kind == SNIC_FSOP_SYMLINK) /* the target, which may be longer than a name */
        return 1;
    return kind < SNIC_FSOP_WIRE_KINDS ? snic_fsop_data(kind) : SNIC_ENOTSUP;
}

uint32_t snic_nvmefs_op_answer(uint32_t kind)
{
    if (kind == 0 || kind >= SNIC_FSOP_WIRE_KINDS || nvmefs_forms[kind].answer == NVMEFS_NONE)
        return 0;
    return (uint32_t)sizeof(struct snic_nvmefs_answer) + nvmefs_answer_shape(kind)->bytes;
}

/* ---- Shapes ---- */

static void nvmefs_shape_encode(const struct nvmefs_shape *s, const struct snic_fsop *op,
                                unsigned char *out)
{
    const unsigned char *base = (const unsigned char *)op;
    memset(out, 0, s->bytes);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct nvmefs_field *f = &s->fields[i];
        if (f->bytes == 8) {
            uint64_t v;
            memcpy(&v, base + f->op, 8);
            snic_put_le64(out + f->wire, v);
        } else {
            uint32_t v;
            memcpy(&v, base + f->op, 4);
            snic_put_le32(out + f->wire, v);
        }
    }
}

/** 0, or SNIC_EPROTO: bytes that belong to no field are not zero (O1). */
static int nvmefs_shape_decode(const struct nvmefs_shape *s, struct snic_fsop *op,
                               const unsigned char *in)
{
    unsigned char *base = (unsigned char *)op;
    uint32_t known = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct nvmefs_field *f = &s->fields[i];
        SNIC_DASSERT(f->wire == known); /* fields lie without gaps */
        known += f->bytes;
        if (f->bytes == 8) {
            uint64_t v = snic_get_le64(in + f->wire);
            memcpy(base + f->op, &v, 8);
        } else {
            uint32_t v = snic_get_le32(in + f->wire);
            memcpy(base + f->op, &v, 4);
        }
    }
    /* Fields lie without gaps, what is left is a reserved word at the end. */
    for (uint32_t i = known; i < s->bytes; i++)
        if (in[i] != 0)
            return SNIC_EPROTO;
    return 0;
}

/* ---- Requests ---- */

/** What a header can hold: 0 or SNIC_E*. */
static int nvmefs_head_check(const struct snic_fsop *op)
{
    if (op->kind >= SNIC_FSOP_WIRE_KINDS)
        return SNIC_ENOTSUP;
    if (op->kind == SNIC_FSOP_SYMLINK && op->name2_size != 0) /* the target travels as data */
        return SNIC_EINVAL;
    int r = snic_fsop_validate(op);
    return r == 0 && op->name_size > SNIC_NVMEFS_HEADER_MAX ? SNIC_ENAMETOOLONG : r;
}

int snic_nvmefs_head_encode(const struct snic_fsop *op, void *out, uint32_t room)
{
    int r = nvmefs_head_check(op);
    if (r != 0)
        return r;
    const struct snic_fsop_cred *cred = &op->cred;
    const struct nvmefs_shape *s = nvmefs_request_shape(op->kind);
    SNIC_ASSERT(op->name_size == 0 || op->name != NULL);
    SNIC_ASSERT(op->name2_size == 0 || op->name2 != NULL);
    SNIC_ASSERT(cred->group_count == 0 || cred->groups != NULL);
    uint32_t groups_at = (uint32_t)sizeof(struct snic_nvmefs_head) + s->bytes;
    uint32_t names_at = groups_at + (uint32_t)snic_align_up(cred->group_count * UINT64_C(4), 8);
    uint32_t end = names_at + op->name_size + op->name2_size;
    uint32_t size = (uint32_t)snic_align_up(end, 8);
    if (size > room || size > SNIC_NVMEFS_HEADER_MAX)
        return SNIC_EMSGSIZE;
    unsigned char *p = out;
    memset(p, 0, sizeof(struct snic_nvmefs_head));
    p[0] = SNIC_NVMEFS_OPS_VERSION;
    p[1] = (uint8_t)op->kind;
    snic_put_le16(p + 2, s->bytes);
    snic_put_le32(p + 4, op->flags);
    snic_put_le32(p + 8, cred->uid);
    snic_put_le32(p + 12, cred->gid);
    snic_put_le32(p + 16, cred->pid);
    snic_put_le32(p + 20, cred->umask);
    snic_put_le16(p + 24, (uint16_t)cred->group_count);
    snic_put_le16(p + 26, (uint16_t)op->name_size);
    snic_put_le16(p + 28, (uint16_t)op->name2_size);
    snic_put_le32(p + 32, op->tenant);
    nvmefs_shape_encode(s, op, p + sizeof(struct snic_nvmefs_head));
    for (uint32_t i = 0; i < cred->group_count; i++)
        snic_put_le32(p + groups_at + i * 4U, cred->groups[i]);
    memset(p + groups_at + cred->group_count * 4U, 0,
           names_at - groups_at - cred->group_count * 4U);
    if (op->name_size > 0)
        memcpy(p + names_at, op->name, op->name_size);
    if (op->name2_size > 0)
        memcpy(p + names_at + op->name_size, op->name2, op->name2_size);
    memset(p + end, 0, size - end);
    return (int)size;
}

static int nvmefs_zero(const unsigned char *p, uint32_t n)
{
    unsigned char all = 0;
    for (uint32_t i = 0; i < n; i++)
        all |= p[i];
    return all == 0;
}

/** Groups and names behind the operation's struct, which ends at @p at; their sizes are in @p op.
 */
static int nvmefs_names_decode(struct snic_fsop *op, unsigned char *p, uint32_t at, uint32_t size)
{
    uint32_t groups = op->cred.group_count;
    uint32_t names_at = at + (uint32_t)snic_align_up(groups * UINT64_C(4), 8);
    uint32_t end = names_at + op->name_size + op->name2_size;
    if (snic_align_up(end, 8) != size || !nvmefs_zero(p + end, size - end) ||
        !nvmefs_zero(p + at + groups * 4U, names_at - at - groups * 4U))
        return SNIC_EPROTO;
    SNIC_ASSERT(at + groups * 4U <= names_at && names_at <= end && end <= size); /* O2 */
    for (uint32_t i = 0; i < groups; i++) { /* in place: to this machine's order */
        uint32_t v = snic_get_le32(p + at + i * 4U);
        memcpy(p + at + i * 4U, &v, 4);
    }
    op->cred.groups = groups > 0 ? (const uint32_t *)(const void *)(p + at) : NULL;
    op->name = op->name_size > 0 ? (const char *)p + names_at : NULL;
    op->name2 = op->name2_size > 0 ? (const char *)p + names_at + op->name_size : NULL;
    return 0;
}

int snic_nvmefs_head_decode(struct snic_fsop *op, void *in, uint32_t size)
{
    unsigned char *p = in;
    SNIC_ASSERT(((uintptr_t)in & 7) == 0);
    if (size < sizeof(struct snic_nvmefs_head) || size > SNIC_NVMEFS_HEADER_MAX || size % 8 != 0)
        return SNIC_EPROTO;
    if (p[0] != SNIC_NVMEFS_OPS_VERSION)
        return SNIC_EVERSION;
    op->kind = p[1];
    op->flags = snic_get_le32(p + 4);
    op->cred.uid = snic_get_le32(p + 8);
    op->cred.gid = snic_get_le32(p + 12);
    op->cred.pid = snic_get_le32(p + 16);
    op->cred.umask = snic_get_le32(p + 20);
    op->cred.group_count = snic_get_le16(p + 24);
    op->name_size = snic_get_le16(p + 26);
    op->name2_size = snic_get_le16(p + 28);
    op->tenant = snic_get_le32(p + 32);
    int r = nvmefs_head_check(op);
    if (r != 0)
        return r == SNIC_ENOTSUP ? r : SNIC_EPROTO;
    const struct nvmefs_shape *s = nvmefs_request_shape(op->kind);
    uint32_t at = (uint32_t)sizeof(struct snic_nvmefs_head) + s->bytes;
    if (snic_get_le16(p + 2) != s->bytes || at > size || snic_get_le16(p + 30) != 0 ||
        snic_get_le32(p + 36) != 0)
        return SNIC_EPROTO;
    r = nvmefs_names_decode(op, p, at, size);
    return r != 0 ? r : nvmefs_shape_decode(s, op, p + sizeof(struct snic_nvmefs_head));
}

/* ---- Answers ---- */

uint32_t snic_nvmefs_answer_encode(const struct snic_fsop *op, void *out)
{
    uint32_t size = snic_nvmefs_op_answer(op->kind);
    unsigned char *p = out;
    if (size == 0)
        return 0;
    SNIC_ASSERT(size <= SNIC_NVMEFS_ANSWER_MAX);
    memset(p, 0, sizeof(struct snic_nvmefs_answer));
    p[0] = SNIC_NVMEFS_OPS_VERSION;
    p[1] = (uint8_t)op->kind;
    snic_put_le16(p + 2, (uint16_t)size);
    nvmefs_shape_encode(nvmefs_answer_shape(op->kind), op, p + sizeof(struct snic_nvmefs_answer));
    return size;
}

int snic_nvmefs_answer_decode(struct snic_fsop *op, const void *in, uint32_t size)
{
    const unsigned char *p = in;
    uint32_t want = snic_nvmefs_op_answer(op->kind);
    if (want == 0 || size != want)
        return SNIC_EPROTO;
    if (p[0] != SNIC_NVMEFS_OPS_VERSION)
        return SNIC_EVERSION;
    if (p[1] != op->kind || snic_get_le16(p + 2) != want || snic_get_le32(p + 4) != 0)
        return SNIC_EPROTO;
    return nvmefs_shape_decode(nvmefs_answer_shape(op->kind), op,
                               p + sizeof(struct snic_nvmefs_answer));
}
