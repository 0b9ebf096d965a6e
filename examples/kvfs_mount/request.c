/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A request of the kernel becomes a call: what all operations have in common. */
#include "mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the request states of its caller. */
static void request_cred(struct km_call *c)
{
    struct snic_fsop_cred *cred = &c->r.op.cred;
    const struct snic_fuse_request *r;

    if (c->fuse != NULL) {
        const struct fuse_ctx *ctx = fuse_req_ctx(c->fuse);

        cred->uid = ctx->uid;
        cred->gid = ctx->gid;
        cred->pid = (uint32_t)ctx->pid;
        cred->umask = ctx->umask;
        return;
    }
    r = &c->dev->request;
    cred->uid = r->head.uid;
    cred->gid = r->head.gid;
    cred->pid = r->head.pid;
    if (r->head.opcode == SNIC_FUSE_MKNOD)
        cred->umask = r->in.mknod.umask;
    else if (r->head.opcode == SNIC_FUSE_MKDIR)
        cred->umask = r->in.mkdir.umask;
    else if (r->head.opcode == SNIC_FUSE_CREATE)
        cred->umask = r->in.create.umask;
}

struct km_call *km_begin(fuse_req_t req, enum snic_fsop_kind kind, fuse_ino_t ino)
{
    struct km_call *c = km_call_take();

    km_call_clear(c);
    c->fuse = req;
    c->r.op.kind = kind;
    c->r.op.flags = SNIC_FSOP_CHECKED; /* the kernel has, by default_permissions */
    c->r.op.ino = ino;
    request_cred(c);
    return c;
}

/* The numbers behind "Groups:" in a thread's status. @return how many there are, at most @p max */
static uint32_t request_groups(uint32_t tid, uint32_t *out, uint32_t max)
{
    static const char name[] = "Groups:";
    char path[48];
    char *line = NULL;
    size_t room = 0;
    uint32_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tid, tid);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (getline(&line, &room, f) > 0) {
        char *at = line + sizeof(name) - 1;

        if (strncmp(line, name, sizeof(name) - 1) != 0)
            continue;
        for (char *end; n < max; n++, at = end) {
            unsigned long gid = strtoul(at, &end, 10);

            if (end == at)
                break;
            out[n] = (uint32_t)gid;
        }
        break;
    }
    free(line);
    (void)fclose(f);
    return n;
}

void km_groups(struct km_call *c)
{
    c->r.op.cred.groups = c->groups;
    c->r.op.cred.group_count = request_groups(c->r.op.cred.pid, c->groups, SNIC_FSOP_GROUPS_MAX);
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

    if (error == 0)
        km_go(c);
    else
        km_answer_refuse(c, error);
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
