/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Replies and notifications.
 *
 * Invariants
 *   A1 All bytes that are sent were written: what an answer has, its struct's padding and the space
 *      behind a directory's names included, is zeroed first.
 *   A2 head.len is the number of bytes in the pieces.
 */
#include "fuse_priv.h"

void snic_fuse_answer_error(struct snic_fuse_answer *a, uint64_t unique, int32_t error)
{
    a->head.len = (uint32_t)sizeof(a->head);
    a->head.error = error;
    a->head.unique = unique;
}

void snic_fuse_answer_begin(struct snic_fuse_answer *a, const struct snic_fuse_request *r)
{
    const struct fuse_rule *rule = fuse_rule_of(r->head.opcode);
    uint32_t size = rule != NULL ? rule->out : 0;
    if (rule != NULL && (rule->flags & FUSE_XSIZE) != 0 && r->in.getxattr.size != 0)
        size = 0;
    snic_fuse_answer_error(a, r->head.unique, 0);
    memset(&a->out, 0, size); /* A1 */
    a->head.len += size;
}

int snic_fuse_answer_data(struct snic_fuse_answer *a, uint64_t unique, const struct snic_iov *data,
                          uint32_t count, struct snic_iov *out, uint32_t max)
{
    size_t size = sizeof(a->head);
    uint32_t n = 1;
    if (max == 0)
        return SNIC_E2BIG;
    for (uint32_t i = 0; i < count; i++) {
        if (data[i].size > INT32_MAX - size)
            return SNIC_EMSGSIZE;
        size += data[i].size;
        if (data[i].size == 0)
            continue;
        if (n == max)
            return SNIC_E2BIG;
        out[n++] = data[i];
    }
    snic_fuse_answer_error(a, unique, 0);
    a->head.len = (uint32_t)size; /* A2 */
    out[0].base = &a->head;
    out[0].size = sizeof(a->head);
    return (int)n;
}

/* ---- Entries of directories ---- */

size_t snic_fuse_dirent_bytes(uint32_t name_size, int plus)
{
    size_t n = sizeof(struct snic_fuse_dirent) + name_size;
    if (plus)
        n += sizeof(struct snic_fuse_entry_out);
    return (size_t)snic_align_up(n, 8);
}

int snic_fuse_dirent_put(void *at, size_t space, const struct snic_fuse_dirent *d, const char *name,
                         const struct snic_fuse_entry_out *plus)
{
    unsigned char *to = at;
    int rc = fuse_name_valid(name, d->namelen);
    size_t size;
    if (rc != 0)
        return rc;
    size = snic_fuse_dirent_bytes(d->namelen, plus != NULL);
    if (size > space)
        return 0;
    memset(to + size - 8, 0, 8); /* A1: behind the name */
    if (plus != NULL) {
        memcpy(to, plus, sizeof(*plus));
        to += sizeof(*plus);
    }
    memcpy(to, d, sizeof(*d));
    memcpy(to + sizeof(*d), name, d->namelen);
    return (int)size;
}

/* ---- Notifications ---- */

static void answer_notify(struct snic_fuse_answer *a, enum snic_fuse_notify_code code, size_t size)
{
    snic_fuse_answer_error(a, 0, (int32_t)code);
    memset(&a->out, 0, size); /* A1 */
    a->head.len += (uint32_t)size;
}

/* The name and its 0 follow. */
static int answer_notify_name(struct snic_fuse_answer *a, const char *name, uint32_t name_size,
                              struct snic_iov *out)
{
    static const char end[1] = {0};
    out[0].base = &a->head;
    out[0].size = a->head.len;
    out[1].base = (void *)(uintptr_t)name;
    out[1].size = name_size;
    out[2].base = (void *)(uintptr_t)end;
    out[2].size = 1;
    a->head.len += name_size + 1; /* A2 */
    return 3;
}

void snic_fuse_notify_inode(struct snic_fuse_answer *a, uint64_t ino, int64_t off, int64_t len)
{
    answer_notify(a, SNIC_FUSE_NOTIFY_INVAL_INODE, sizeof(a->out.inval_inode));
    a->out.inval_inode.ino = ino;
    a->out.inval_inode.off = off;
    a->out.inval_inode.len = len;
}

int snic_fuse_notify_entry(struct snic_fuse_answer *a, const struct snic_fuse_conn *conn,
                           uint64_t parent, const char *name, uint32_t name_size, int expire,
                           struct snic_iov out[3])
{
    int rc = fuse_name_valid(name, name_size);
    if (rc != 0)
        return rc;
    if (expire && (conn->offered & SNIC_FUSE_HAS_EXPIRE_ONLY) == 0)
        return SNIC_ENOTSUP;
    answer_notify(a, SNIC_FUSE_NOTIFY_INVAL_ENTRY, sizeof(a->out.inval_entry));
    a->out.inval_entry.parent = parent;
    a->out.inval_entry.namelen = name_size;
    a->out.inval_entry.flags = expire ? SNIC_FUSE_EXPIRE_ONLY : 0;
    return answer_notify_name(a, name, name_size, out);
}

int snic_fuse_notify_delete(struct snic_fuse_answer *a, uint64_t parent, uint64_t child,
                            const char *name, uint32_t name_size, struct snic_iov out[3])
{
    int rc = fuse_name_valid(name, name_size);
    if (rc != 0)
        return rc;
    answer_notify(a, SNIC_FUSE_NOTIFY_DELETE, sizeof(a->out.del));
    a->out.del.parent = parent;
    a->out.del.child = child;
    a->out.del.namelen = name_size;
    return answer_notify_name(a, name, name_size, out);
}

int snic_fuse_notify_epoch(struct snic_fuse_answer *a, const struct snic_fuse_conn *conn)
{
    if (conn->minor < 44)
        return SNIC_ENOTSUP;
    answer_notify(a, SNIC_FUSE_NOTIFY_INC_EPOCH, 0);
    return 0;
}
