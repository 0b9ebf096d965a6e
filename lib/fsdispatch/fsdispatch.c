/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Requests of nvme-fs go to the file system. Names, groups and data stay where the link's engine
 * has them, which is private memory, until the request is finished.
 */
#include "snicstore/fsdispatch.h"

#define SNIC_FSDISPATCH__MAX 131072U

SNIC_STATIC_ASSERT(SNIC_NVMEFS_DATA_MAX == SNIC_FSOP_IO_MAX, "a command holds a request's data");

struct fsdispatch_call {
    struct snic_fs_req r;
    struct snic_fsdispatch *s;
    struct snic_nvmefslink_dpu *link;
    struct snic_nvmefs_cmd *cmd; /* NULL: free */
};

struct snic_fsdispatch {
    struct snic_fs *fs;
    struct fsdispatch_call *calls;
    uint32_t count;
    uint32_t in_flight;
};

/** The command's data as the file system takes them. 0; SNIC_E2BIG; SNIC_ENAMETOOLONG. */
static int fsdispatch_data(struct snic_fsop *op, uint32_t bytes)
{
    if (op->iov_count == 0)
        return 0;
    SNIC_ASSERT(op->iov != NULL);
    switch (op->kind) {
    case SNIC_FSOP_SYMLINK:
        if (bytes > SNIC_FSOP_SYMLINK_MAX)
            return SNIC_ENAMETOOLONG;
        SNIC_ASSERT(op->iov[0].size >= bytes); /* a chunk is a page at least */
        op->name2 = op->iov[0].base;
        op->name2_size = bytes;
        op->iov_count = 0;
        return 0;
    case SNIC_FSOP_READDIR: /* these take one piece; a shorter answer is no error */
    case SNIC_FSOP_READLINK:
        op->iov_count = 1;
        return 0;
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
    case SNIC_FSOP_SETXATTR:
        return op->iov_count > 1 ? SNIC_E2BIG : 0;
    default:
        return 0;
    }
}

/* ---- Requests ---- */

static void fsdispatch_done(struct snic_fs_req *r)
{
    struct fsdispatch_call *call = SNIC_CONTAINER(r, struct fsdispatch_call, r);
    struct snic_nvmefs_cmd *c = call->cmd;
    SNIC_ASSERT(c != NULL && call->s->in_flight > 0);
    call->cmd = NULL;
    call->s->in_flight--;
    if (r->op.result >= 0)
        c->req.op = r->op;
    snic_nvmefslink_finish(call->link, c, SNIC_NVMEFS_STATUS_OK, r->op.result);
}

void snic_fsdispatch_request(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    struct snic_fsdispatch *s = ctx;
    SNIC_ASSERT(c->index < s->count && s->calls[c->index].cmd == NULL);
    struct fsdispatch_call *call = &s->calls[c->index];
    if (c->req.distributed) {
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_NO_SERVICE, 0);
        return;
    }
    if (c->req.op.kind ==
        SNIC_FSOP_FORGET) { /* kvfs counts no lookups: inodes are found by number */
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_OK, 0);
        return;
    }
    memset(&call->r, 0, sizeof(call->r));
    SNIC_DASSERT(snic_fsop_validate(&c->req.op) == 0); /* as decoded */
    call->r.op = c->req.op;
    int r = fsdispatch_data(&call->r.op, c->data_size);
    if (r != 0) {
        snic_nvmefslink_finish(d, c, SNIC_NVMEFS_STATUS_OK, r);
        return;
    }
    call->cmd = c;
    call->link = d;
    call->s = s;
    call->r.done = fsdispatch_done;
    s->in_flight++;
    snic_fs_submit(s->fs, &call->r);
}

void snic_fsdispatch_cancel(void *ctx, struct snic_nvmefslink_dpu *d, struct snic_nvmefs_cmd *c)
{
    struct snic_fsdispatch *s = ctx;
    (void)d;
    SNIC_ASSERT(c->index < s->count);
    if (s->calls[c->index].cmd == c)
        snic_fs_cancel(s->fs, &s->calls[c->index].r);
}

/* ---- Memory ---- */

/** All options. Which one is wrong, and how; NULL: none. */
static const char *fsdispatch_opts_fill(struct snic_fsdispatch_opts *o,
                                        const struct snic_fsdispatch_opts *in)
{
    *o = (struct snic_fsdispatch_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return o->commands == 0 || o->commands > SNIC_FSDISPATCH__MAX ? "commands: not 1..131072"
                                                                  : NULL;
}

const char *snic_fsdispatch_opts_wrong(const struct snic_fsdispatch_opts *o)
{
    struct snic_fsdispatch_opts full;
    return fsdispatch_opts_fill(&full, o);
}

size_t snic_fsdispatch_memsize(const struct snic_fsdispatch_opts *o)
{
    struct snic_fsdispatch_opts full;
    if (fsdispatch_opts_fill(&full, o) != NULL)
        return 0;
    return sizeof(struct snic_fsdispatch) + full.commands * sizeof(struct fsdispatch_call);
}

int snic_fsdispatch_init(struct snic_fsdispatch **out, void *mem, size_t size, struct snic_fs *fs,
                         const struct snic_fsdispatch_opts *o)
{
    struct snic_fsdispatch_opts copy;
    if (fsdispatch_opts_fill(&copy, o) != NULL || (uintptr_t)mem % 16 != 0)
        return SNIC_EINVAL;
    if (size < snic_fsdispatch_memsize(&copy))
        return SNIC_ENOSPC;
    struct snic_fsdispatch *s = mem;
    memset(mem, 0, snic_fsdispatch_memsize(&copy));
    s->fs = fs;
    s->calls = (struct fsdispatch_call *)(void *)(s + 1);
    s->count = copy.commands;
    *out = s;
    return 0;
}

void *snic_fsdispatch_fini(struct snic_fsdispatch *s)
{
    SNIC_ASSERT(s->in_flight == 0);
    return s;
}

uint32_t snic_fsdispatch_in_flight(const struct snic_fsdispatch *s)
{
    return s->in_flight;
}
