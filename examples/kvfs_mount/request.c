/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A request of the kernel becomes a call: what all operations have in common. */
#include "mount.h"

#include <string.h>

struct km_call *km_begin(fuse_req_t req, enum snic_fsop_kind kind, fuse_ino_t ino)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    struct km_call *c = km_call_take();

    km_call_clear(c);
    c->fuse = req;
    c->r.op.kind = kind;
    c->r.op.flags = SNIC_FSOP_CHECKED; /* the kernel has, by default_permissions */
    c->r.op.ino = ino;
    c->r.op.cred.uid = ctx->uid;
    c->r.op.cred.gid = ctx->gid;
    c->r.op.cred.pid = (uint32_t)ctx->pid;
    c->r.op.cred.umask = ctx->umask;
    return c;
}

void km_groups(struct km_call *c)
{
    int n = fuse_req_getgroups(c->fuse, SNIC_FSOP_GROUPS_MAX, (gid_t *)c->groups);

    c->r.op.cred.groups = c->groups;
    c->r.op.cred.group_count =
        (uint32_t)snic_min_u64(n < 0 ? 0 : (uint32_t)n, SNIC_FSOP_GROUPS_MAX);
}

/* Of an open file without a set-gid bit that depends on them, the groups are not read. One that
   gets such a bit later may lose it by a write of a user with the group as a supplementary one. */
void km_kill(struct km_call *c)
{
    c->r.op.flags |= SNIC_FSOP_KILL_PRIV;
    if (c->r.op.cred.uid != 0 && (c->file == NULL || c->file->sgid))
        km_groups(c);
}

void km_go_open(struct km_call *c)
{
    int error = km_open_take(c);

    if (error == 0) {
        km_go(c);
        return;
    }
    (void)fuse_reply_err(c->fuse, error);
    km_call_put(c);
}

void km_name(struct km_call *c, const char *name)
{
    c->r.op.name = name;
    c->r.op.name_size = (uint32_t)strlen(name);
}

void km_use_file(struct km_call *c, const struct fuse_file_info *fi)
{
    if (fi == NULL || fi->fh == 0)
        return;
    c->file = (struct km_file *)(uintptr_t)fi->fh;
    c->r.op.handle = c->file->handle;
}

void km_name2(struct km_call *c, const char *name)
{
    c->r.op.name2 = name;
    c->r.op.name2_size = (uint32_t)strlen(name);
}

void km_go(struct km_call *c)
{
    atomic_fetch_add_explicit(&c->m->in_flight, 1, memory_order_relaxed);
    c->m->carrier->submit(c->m, c);
}

void km_room(struct km_call *c, size_t size)
{
    c->iov.base = km_call_data(c);
    c->iov.size = size;
    c->r.op.iov = &c->iov;
    c->r.op.iov_count = 1;
    c->r.op.length = size;
}
