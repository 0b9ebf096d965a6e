/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The headers of file operations: a table maps the fields of a request to an operation's struct,
 * and one encoder and one decoder serve all of them.
 *
 * Invariants
 *   O1 Every byte of a header belongs to a field, a name, a group, or is checked to be zero.
 *   O2 Decoding touches only [in, in + size) and believes no size it has not compared with that.
 *   O3 decode(encode(r)) returns every field that the operation has.
 */
#include "nvmefs/nvmefs_priv.h"

/** One field: its place in the request, in the operation's struct, and its bytes. */
struct nvmefs_field {
    uint16_t req;
    uint8_t wire;
    uint8_t bytes;
};

#define SNIC_NVMEFS__F(s, w, r)                                                                    \
    {                                                                                              \
        offsetof(struct snic_nvmefs_req, r), offsetof(struct s, w), sizeof(((struct s *)0)->w)     \
    }
#define SNIC_NVMEFS__FA(w, r)                                                                      \
    {                                                                                              \
        offsetof(struct snic_nvmefs_req, r), offsetof(struct snic_nvmefs_wire_attr, w),            \
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
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, atime_sec, attr.atime_sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, mtime_sec, attr.mtime_sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, ctime_sec, attr.ctime_sec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, atime_nsec, attr.atime_nsec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, mtime_nsec, attr.mtime_nsec),
    SNIC_NVMEFS__F(snic_nvmefs_op_setattr, ctime_nsec, attr.ctime_nsec),
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
                                                    SNIC_NVMEFS__FA(atime_sec, attr.atime_sec),
                                                    SNIC_NVMEFS__FA(mtime_sec, attr.mtime_sec),
                                                    SNIC_NVMEFS__FA(ctime_sec, attr.ctime_sec),
                                                    SNIC_NVMEFS__FA(btime_sec, attr.btime_sec),
                                                    SNIC_NVMEFS__FA(atime_nsec, attr.atime_nsec),
                                                    SNIC_NVMEFS__FA(mtime_nsec, attr.mtime_nsec),
                                                    SNIC_NVMEFS__FA(ctime_nsec, attr.ctime_nsec),
                                                    SNIC_NVMEFS__FA(btime_nsec, attr.btime_nsec),
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

#define SNIC_NVMEFS__NAME 1U  /* has name                  */
#define SNIC_NVMEFS__NAME2 2U /* has name2                 */
#define SNIC_NVMEFS__PATH 4U  /* name is a path            */

struct nvmefs_op {
    const char *name;
    uint8_t shape;
    uint8_t answer;
    uint8_t data;  /* 0 none, 1 in, 2 out */
    uint8_t names; /* SNIC_NVMEFS__NAME, NAME2, PATH */
    uint32_t flags;
};

enum {
    NVMEFS_FL_IO = SNIC_NVMEFS_CHECKED | SNIC_NVMEFS_DIRECT | SNIC_NVMEFS_NOATIME,
    NVMEFS_FL_OPEN = SNIC_NVMEFS_CHECKED | SNIC_NVMEFS_DIRECT | SNIC_NVMEFS_APPEND |
                     SNIC_NVMEFS_SYNC | SNIC_NVMEFS_KILL_PRIV | SNIC_NVMEFS_EXCL |
                     SNIC_NVMEFS_TRUNC | SNIC_NVMEFS_OPEN_READ | SNIC_NVMEFS_OPEN_WRITE |
                     SNIC_NVMEFS_NOATIME,
    NVMEFS_FL_WRITE = SNIC_NVMEFS_CHECKED | SNIC_NVMEFS_DIRECT | SNIC_NVMEFS_APPEND |
                      SNIC_NVMEFS_SYNC | SNIC_NVMEFS_KILL_PRIV,
    NVMEFS_FL_AB = SNIC_NVMEFS_CHECKED | SNIC_NVMEFS_OWN_A | SNIC_NVMEFS_OWN_B,
    NVMEFS_FL_LOCK = SNIC_NVMEFS_CHECKED | SNIC_NVMEFS_LOCK_WAIT,
    NVMEFS_FL_ONE = SNIC_NVMEFS_CHECKED
};

static const struct nvmefs_op nvmefs_ops[SNIC_NVMEFS_OPS] = {
    [SNIC_NVMEFS_LOOKUP] = {"lookup", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_FORGET] = {"forget", NVMEFS_FORGET, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_GETATTR] = {"getattr", NVMEFS_HANDLE, NVMEFS_A_ATTR, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_SETATTR] = {"setattr", NVMEFS_SETATTR, NVMEFS_A_ATTR, 0, 0,
                             NVMEFS_FL_ONE | SNIC_NVMEFS_KILL_PRIV},
    [SNIC_NVMEFS_READLINK] = {"readlink", NVMEFS_NODE, NVMEFS_NONE, 2, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_MKNOD] = {"mknod", NVMEFS_MAKE, NVMEFS_A_ATTR, 0, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_CREATE] = {"create", NVMEFS_MAKE, NVMEFS_A_ATTR, 0, 1, NVMEFS_FL_OPEN},
    [SNIC_NVMEFS_MKDIR] = {"mkdir", NVMEFS_MAKE, NVMEFS_A_ATTR, 0, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_SYMLINK] = {"symlink", NVMEFS_NODE, NVMEFS_A_ATTR, 1, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_UNLINK] = {"unlink", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 1,
                            NVMEFS_FL_ONE | SNIC_NVMEFS_HOLD},
    [SNIC_NVMEFS_RMDIR] = {"rmdir", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 1,
                           NVMEFS_FL_ONE | SNIC_NVMEFS_HOLD},
    [SNIC_NVMEFS_RENAME] = {"rename", NVMEFS_RENAME, NVMEFS_A_ATTR, 0, 3,
                            NVMEFS_FL_AB | SNIC_NVMEFS_OWN_C | SNIC_NVMEFS_HOLD},
    [SNIC_NVMEFS_LINK] = {"link", NVMEFS_RENAME, NVMEFS_A_ATTR, 0, 2, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_OPEN] = {"open", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 0, NVMEFS_FL_OPEN},
    [SNIC_NVMEFS_RELEASE] = {"release", NVMEFS_RELEASE, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_FLUSH] = {"flush", NVMEFS_RELEASE, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_FSYNC] = {"fsync", NVMEFS_HANDLE, NVMEFS_NONE, 0, 0,
                           NVMEFS_FL_ONE | SNIC_NVMEFS_OWN_A},
    [SNIC_NVMEFS_READ] = {"read", NVMEFS_IO, NVMEFS_NONE, 2, 0, NVMEFS_FL_IO},
    [SNIC_NVMEFS_WRITE] = {"write", NVMEFS_IO, NVMEFS_NONE, 1, 0, NVMEFS_FL_WRITE},
    [SNIC_NVMEFS_FALLOCATE] = {"fallocate", NVMEFS_FALLOCATE, NVMEFS_NONE, 0, 0,
                               NVMEFS_FL_AB | SNIC_NVMEFS_OWN_C | SNIC_NVMEFS_KILL_PRIV},
    [SNIC_NVMEFS_SEEK] = {"seek", NVMEFS_IO, NVMEFS_NONE, 0, 0, NVMEFS_FL_AB},
    [SNIC_NVMEFS_COPY] = {"copy", NVMEFS_COPY, NVMEFS_NONE, 0, 0,
                          NVMEFS_FL_ONE | SNIC_NVMEFS_KILL_PRIV},
    [SNIC_NVMEFS_OPENDIR] = {"opendir", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 0, NVMEFS_FL_OPEN},
    [SNIC_NVMEFS_READDIR] = {"readdir", NVMEFS_IO, NVMEFS_NONE, 2, 0,
                             NVMEFS_FL_IO | SNIC_NVMEFS_READDIR_PLUS},
    [SNIC_NVMEFS_RELEASEDIR] = {"releasedir", NVMEFS_HANDLE, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_STATFS] = {"statfs", NVMEFS_NODE, NVMEFS_A_STATFS, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_SETXATTR] = {"setxattr", NVMEFS_NODE, NVMEFS_NONE, 1, 1,
                              NVMEFS_FL_AB | SNIC_NVMEFS_KILL_PRIV},
    [SNIC_NVMEFS_GETXATTR] = {"getxattr", NVMEFS_NODE, NVMEFS_NONE, 2, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_LISTXATTR] = {"listxattr", NVMEFS_NODE, NVMEFS_NONE, 2, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_REMOVEXATTR] = {"removexattr", NVMEFS_NODE, NVMEFS_NONE, 0, 1, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_ACCESS] = {"access", NVMEFS_MAKE, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_GETLK] = {"getlk", NVMEFS_LOCK, NVMEFS_A_LOCK, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_SETLK] = {"setlk", NVMEFS_LOCK, NVMEFS_NONE, 0, 0, NVMEFS_FL_LOCK},
    [SNIC_NVMEFS_FLOCK] = {"flock", NVMEFS_LOCK, NVMEFS_NONE, 0, 0, NVMEFS_FL_LOCK},
    [SNIC_NVMEFS_SYNCFS] = {"syncfs", NVMEFS_NODE, NVMEFS_NONE, 0, 0, NVMEFS_FL_ONE},
    [SNIC_NVMEFS_RESOLVE] = {"resolve", NVMEFS_NODE, NVMEFS_A_ATTR, 0, 1 | SNIC_NVMEFS__PATH,
                             NVMEFS_FL_ONE},
};

static const struct nvmefs_op *nvmefs_op_of(uint32_t op)
{
    return op > 0 && op < SNIC_NVMEFS_OPS ? &nvmefs_ops[op] : NULL;
}

int snic_nvmefs_op_data(uint32_t op)
{
    const struct nvmefs_op *o = nvmefs_op_of(op);
    return o != NULL ? o->data : SNIC_ENOTSUP;
}

uint32_t snic_nvmefs_op_answer(uint32_t op)
{
    const struct nvmefs_op *o = nvmefs_op_of(op);
    if (o == NULL || o->answer == NVMEFS_NONE)
        return 0;
    return (uint32_t)sizeof(struct snic_nvmefs_answer) + nvmefs_shapes[o->answer].bytes;
}

const char *snic_nvmefs_op_name(uint32_t op)
{
    const struct nvmefs_op *o = nvmefs_op_of(op);
    return o != NULL ? o->name : "?";
}

/* ---- Shapes ---- */

static void nvmefs_shape_encode(const struct nvmefs_shape *s, const struct snic_nvmefs_req *req,
                                unsigned char *out)
{
    const unsigned char *base = (const unsigned char *)req;
    memset(out, 0, s->bytes);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct nvmefs_field *f = &s->fields[i];
        if (f->bytes == 8) {
            uint64_t v;
            memcpy(&v, base + f->req, 8);
            snic_put_le64(out + f->wire, v);
        } else {
            uint32_t v;
            memcpy(&v, base + f->req, 4);
            snic_put_le32(out + f->wire, v);
        }
    }
}

/** 0, or SNIC_EPROTO: bytes that belong to no field are not zero (O1). */
static int nvmefs_shape_decode(const struct nvmefs_shape *s, struct snic_nvmefs_req *req,
                               const unsigned char *in)
{
    unsigned char *base = (unsigned char *)req;
    uint32_t known = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct nvmefs_field *f = &s->fields[i];
        known += f->bytes;
        if (f->bytes == 8) {
            uint64_t v = snic_get_le64(in + f->wire);
            memcpy(base + f->req, &v, 8);
        } else {
            uint32_t v = snic_get_le32(in + f->wire);
            memcpy(base + f->req, &v, 4);
        }
    }
    /* Fields lie without gaps, what is left is a reserved word at the end. */
    for (uint32_t i = known; i < s->bytes; i++)
        if (in[i] != 0)
            return SNIC_EPROTO;
    return 0;
}

/* ---- Requests ---- */

/** Sizes of groups and names, as they may be. 0 or SNIC_E*. */
static int nvmefs_names_check(const struct nvmefs_op *o, uint32_t groups, uint32_t name,
                              uint32_t name2)
{
    uint32_t most =
        (o->names & SNIC_NVMEFS__PATH) != 0 ? SNIC_NVMEFS_HEADER_MAX : SNIC_NVMEFS_NAME_MAX;
    if (((o->names & SNIC_NVMEFS__NAME) == 0 && name != 0) ||
        ((o->names & SNIC_NVMEFS__NAME2) == 0 && name2 != 0))
        return SNIC_EINVAL;
    if (name > most || name2 > SNIC_NVMEFS_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    return groups > SNIC_NVMEFS_GROUPS_MAX ? SNIC_E2BIG : 0;
}

int snic_nvmefs_head_encode(const struct snic_nvmefs_req *req, void *out, uint32_t room)
{
    const struct nvmefs_op *o = nvmefs_op_of(req->op);
    if (o == NULL)
        return SNIC_ENOTSUP;
    int r = nvmefs_names_check(o, req->group_count, req->name_size, req->name2_size);
    if (r != 0)
        return r;
    if ((req->flags & ~o->flags) != 0)
        return SNIC_EINVAL;
    const struct nvmefs_shape *s = &nvmefs_shapes[o->shape];
    uint32_t groups_at = (uint32_t)sizeof(struct snic_nvmefs_head) + s->bytes;
    uint32_t names_at = groups_at + (uint32_t)snic_align_up(req->group_count * UINT64_C(4), 8);
    uint32_t end = names_at + req->name_size + req->name2_size;
    uint32_t size = (uint32_t)snic_align_up(end, 8);
    if (size > room || size > SNIC_NVMEFS_HEADER_MAX)
        return SNIC_EMSGSIZE;
    unsigned char *p = out;
    memset(p, 0, sizeof(struct snic_nvmefs_head));
    p[0] = SNIC_NVMEFS_OPS_VERSION;
    p[1] = req->op;
    snic_put_le16(p + 2, s->bytes);
    snic_put_le32(p + 4, req->flags);
    snic_put_le32(p + 8, req->uid);
    snic_put_le32(p + 12, req->gid);
    snic_put_le32(p + 16, req->pid);
    snic_put_le32(p + 20, req->umask);
    snic_put_le16(p + 24, (uint16_t)req->group_count);
    snic_put_le16(p + 26, (uint16_t)req->name_size);
    snic_put_le16(p + 28, (uint16_t)req->name2_size);
    snic_put_le32(p + 32, req->tenant);
    nvmefs_shape_encode(s, req, p + sizeof(struct snic_nvmefs_head));
    for (uint32_t i = 0; i < req->group_count; i++)
        snic_put_le32(p + groups_at + i * 4U, req->groups[i]);
    memset(p + groups_at + req->group_count * 4U, 0, names_at - groups_at - req->group_count * 4U);
    if (req->name_size > 0)
        memcpy(p + names_at, req->name, req->name_size);
    if (req->name2_size > 0)
        memcpy(p + names_at + req->name_size, req->name2, req->name2_size);
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

/** Groups and names behind the operation's struct, which ends at @p at. */
static int nvmefs_names_decode(struct snic_nvmefs_req *req, const struct nvmefs_op *o,
                               unsigned char *p, uint32_t at, uint32_t size)
{
    uint32_t groups = snic_get_le16(p + 24);
    uint32_t name = snic_get_le16(p + 26);
    uint32_t name2 = snic_get_le16(p + 28);
    if (nvmefs_names_check(o, groups, name, name2) != 0)
        return SNIC_EPROTO;
    uint32_t names_at = at + (uint32_t)snic_align_up(groups * UINT64_C(4), 8);
    uint32_t end = names_at + name + name2;
    if (snic_align_up(end, 8) != size || !nvmefs_zero(p + end, size - end) ||
        !nvmefs_zero(p + at + groups * 4U, names_at - at - groups * 4U))
        return SNIC_EPROTO;
    for (uint32_t i = 0; i < groups; i++) { /* in place: to this machine's order */
        uint32_t v = snic_get_le32(p + at + i * 4U);
        memcpy(p + at + i * 4U, &v, 4);
    }
    req->group_count = groups;
    req->groups = groups > 0 ? (const uint32_t *)(const void *)(p + at) : NULL;
    req->name_size = name;
    req->name2_size = name2;
    req->name = name > 0 ? (const char *)p + names_at : NULL;
    req->name2 = name2 > 0 ? (const char *)p + names_at + name : NULL;
    return 0;
}

int snic_nvmefs_head_decode(struct snic_nvmefs_req *req, void *in, uint32_t size)
{
    unsigned char *p = in;
    SNIC_ASSERT(((uintptr_t)in & 7) == 0);
    if (size < sizeof(struct snic_nvmefs_head) || size > SNIC_NVMEFS_HEADER_MAX || size % 8 != 0)
        return SNIC_EPROTO;
    if (p[0] != SNIC_NVMEFS_OPS_VERSION)
        return SNIC_EVERSION;
    const struct nvmefs_op *o = nvmefs_op_of(p[1]);
    if (o == NULL)
        return SNIC_ENOTSUP;
    const struct nvmefs_shape *s = &nvmefs_shapes[o->shape];
    uint32_t at = (uint32_t)sizeof(struct snic_nvmefs_head) + s->bytes;
    uint32_t flags = snic_get_le32(p + 4);
    if (snic_get_le16(p + 2) != s->bytes || at > size || (flags & ~o->flags) != 0 ||
        snic_get_le16(p + 30) != 0 || snic_get_le32(p + 36) != 0)
        return SNIC_EPROTO;
    int r = nvmefs_names_decode(req, o, p, at, size);
    if (r == 0)
        r = nvmefs_shape_decode(s, req, p + sizeof(struct snic_nvmefs_head));
    if (r != 0)
        return r;
    req->op = p[1];
    req->flags = flags;
    req->uid = snic_get_le32(p + 8);
    req->gid = snic_get_le32(p + 12);
    req->pid = snic_get_le32(p + 16);
    req->umask = snic_get_le32(p + 20);
    req->tenant = snic_get_le32(p + 32);
    return 0;
}

/* ---- Answers ---- */

uint32_t snic_nvmefs_answer_encode(const struct snic_nvmefs_req *req, void *out)
{
    uint32_t size = snic_nvmefs_op_answer(req->op);
    unsigned char *p = out;
    if (size == 0)
        return 0;
    memset(p, 0, sizeof(struct snic_nvmefs_answer));
    p[0] = SNIC_NVMEFS_OPS_VERSION;
    p[1] = req->op;
    snic_put_le16(p + 2, (uint16_t)size);
    nvmefs_shape_encode(&nvmefs_shapes[nvmefs_ops[req->op].answer], req,
                        p + sizeof(struct snic_nvmefs_answer));
    return size;
}

int snic_nvmefs_answer_decode(struct snic_nvmefs_req *req, const void *in, uint32_t size)
{
    const unsigned char *p = in;
    uint32_t want = snic_nvmefs_op_answer(req->op);
    if (want == 0 || size != want)
        return SNIC_EPROTO;
    if (p[0] != SNIC_NVMEFS_OPS_VERSION)
        return SNIC_EVERSION;
    if (p[1] != req->op || snic_get_le16(p + 2) != want || snic_get_le32(p + 4) != 0)
        return SNIC_EPROTO;
    return nvmefs_shape_decode(&nvmefs_shapes[nvmefs_ops[req->op].answer], req,
                               p + sizeof(struct snic_nvmefs_answer));
}
