/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The link by nvme-fs: a call is a command of a queue pair. Locks that wait have queues of their
 * own, so that others find room however many they are. Bytes are copied by the queue's engine, to
 * and from memory that the other process can reach; the call's own it cannot.
 *
 * A completion does not have whether the file system's session is alone: that comes as a message
 * (struct km_state), with the other side's counters.
 */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>

struct kr_nvme {
    struct snic_dma *dma;
    struct snic_nvmefslink_host *host;
    struct snic_nvmefslink_queue *queues[KM_NVMEFS_QUEUES]; /* 0: all but waiting locks */
    struct snic_nvmefs_host_stats before;                   /* of links that are gone */
    struct km_state state;                                  /* the last one */
    uint64_t dma_before;
    uint64_t looks_before;
    uint64_t rung_before;
};

SNIC_STATIC_ASSERT((KM_NVMEFS_QUEUES - 1) * (KM_NVMEFS_LOCKS - 1) + KM_NVMEFS_DEPTH / 2 >
                       KM_LOCKS_WAITING,
                   "waiting locks leave room");

static const uint8_t nvme_ops[SNIC_FSOP_KINDS] = {
    [SNIC_FSOP_LOOKUP] = SNIC_NVMEFS_LOOKUP,
    [SNIC_FSOP_GETATTR] = SNIC_NVMEFS_GETATTR,
    [SNIC_FSOP_SETATTR] = SNIC_NVMEFS_SETATTR,
    [SNIC_FSOP_READLINK] = SNIC_NVMEFS_READLINK,
    [SNIC_FSOP_MKNOD] = SNIC_NVMEFS_MKNOD,
    [SNIC_FSOP_CREATE] = SNIC_NVMEFS_CREATE,
    [SNIC_FSOP_MKDIR] = SNIC_NVMEFS_MKDIR,
    [SNIC_FSOP_SYMLINK] = SNIC_NVMEFS_SYMLINK,
    [SNIC_FSOP_UNLINK] = SNIC_NVMEFS_UNLINK,
    [SNIC_FSOP_RMDIR] = SNIC_NVMEFS_RMDIR,
    [SNIC_FSOP_RENAME] = SNIC_NVMEFS_RENAME,
    [SNIC_FSOP_LINK] = SNIC_NVMEFS_LINK,
    [SNIC_FSOP_OPEN] = SNIC_NVMEFS_OPEN,
    [SNIC_FSOP_RELEASE] = SNIC_NVMEFS_RELEASE,
    [SNIC_FSOP_FLUSH] = SNIC_NVMEFS_FLUSH,
    [SNIC_FSOP_FSYNC] = SNIC_NVMEFS_FSYNC,
    [SNIC_FSOP_READ] = SNIC_NVMEFS_READ,
    [SNIC_FSOP_WRITE] = SNIC_NVMEFS_WRITE,
    [SNIC_FSOP_FALLOCATE] = SNIC_NVMEFS_FALLOCATE,
    [SNIC_FSOP_SEEK] = SNIC_NVMEFS_SEEK,
    [SNIC_FSOP_COPY] = SNIC_NVMEFS_COPY,
    [SNIC_FSOP_OPENDIR] = SNIC_NVMEFS_OPENDIR,
    [SNIC_FSOP_READDIR] = SNIC_NVMEFS_READDIR,
    [SNIC_FSOP_RELEASEDIR] = SNIC_NVMEFS_RELEASEDIR,
    [SNIC_FSOP_STATFS] = SNIC_NVMEFS_STATFS,
    [SNIC_FSOP_SETXATTR] = SNIC_NVMEFS_SETXATTR,
    [SNIC_FSOP_GETXATTR] = SNIC_NVMEFS_GETXATTR,
    [SNIC_FSOP_LISTXATTR] = SNIC_NVMEFS_LISTXATTR,
    [SNIC_FSOP_REMOVEXATTR] = SNIC_NVMEFS_REMOVEXATTR,
    [SNIC_FSOP_ACCESS] = SNIC_NVMEFS_ACCESS,
    [SNIC_FSOP_GETLK] = SNIC_NVMEFS_GETLK,
    [SNIC_FSOP_SETLK] = SNIC_NVMEFS_SETLK,
    [SNIC_FSOP_FLOCK] = SNIC_NVMEFS_FLOCK,
    [SNIC_FSOP_SYNCFS] = SNIC_NVMEFS_SYNCFS,
    [SNIC_FSOP_RESOLVE] = SNIC_NVMEFS_RESOLVE,
};

/* ---- Up ---- */

static void nvme_cred(struct snic_nvmefs_req *q, const struct snic_fsop_cred *cred)
{
    q->uid = cred->uid;
    q->gid = cred->gid;
    q->pid = cred->pid;
    q->umask = cred->umask;
    q->groups = cred->groups;
    q->group_count = cred->group_count;
}

static void nvme_names(struct snic_nvmefs_req *q, const struct snic_fsop *k)
{
    q->name = k->name;
    q->name_size = k->name_size;
    if (k->kind == SNIC_FSOP_SYMLINK) { /* the target travels as data */
        q->copy = (void *)(uintptr_t)k->name2;
        q->copy_size = k->name2_size;
        return;
    }
    q->name2 = k->name2;
    q->name2_size = k->name2_size;
    if (k->iov_count > 0) {
        q->copy = k->iov[0].base;
        q->copy_size = (uint32_t)k->iov[0].size;
    }
    if (k->kind == SNIC_FSOP_READDIR) /* an answer is no longer than that */
        q->copy_size = (uint32_t)snic_min_u64(q->copy_size, KM_NVMEFS_CHUNK);
}

static void nvme_set(struct snic_nvmefs_attr *to, const struct snic_fsop_attr *a)
{
    to->size = a->size;
    to->mode = a->mode;
    to->uid = a->uid;
    to->gid = a->gid;
    to->atime_sec = a->atime.sec;
    to->mtime_sec = a->mtime.sec;
    to->ctime_sec = a->ctime.sec;
    to->atime_nsec = a->atime.nsec;
    to->mtime_nsec = a->mtime.nsec;
    to->ctime_nsec = a->ctime.nsec;
}

static void nvme_request(struct km_remote *r, struct km_call *c)
{
    const struct snic_fsop *k = &c->r.k;
    struct snic_nvmefs_req *q = &c->nvme;

    memset(q, 0, sizeof(*q));
    q->op = k->kind < SNIC_FSOP_KINDS ? nvme_ops[k->kind] : 0;
    q->flags = k->flags;
    nvme_cred(q, &k->cred);
    nvme_names(q, k);
    q->ino = k->ino;
    q->ino2 = k->ino2;
    q->handle = remote_theirs(r, c);
    q->offset = k->offset;
    q->offset2 = k->offset2;
    q->length = k->length;
    q->rdev = k->rdev;
    q->mode = k->mode;
    q->set_mask = k->set_mask;
    q->lock = (struct snic_nvmefs_wire_lock){.owner = k->lock.owner,
                                             .start = k->lock.start,
                                             .end = k->lock.end,
                                             .type = k->lock.type,
                                             .pid = k->lock.pid};
    if (k->kind == SNIC_FSOP_SETATTR)
        nvme_set(&q->attr, &k->attr);
}

static int nvme_submit(struct snic_nvmefslink_queue *queue, struct snic_nvmefs_req *q)
{
    int rc = snic_nvmefslink_submit(queue, q);

    q->ctx = queue;
    return rc == SNIC_EPIPE || rc == SNIC_EPROTO ? SNIC_EAGAIN : rc; /* it is going: cut follows */
}

static int nvme_send(struct km_remote *r, struct km_call *c)
{
    struct kr_nvme *n = r->end;
    int rc = SNIC_EAGAIN;

    nvme_request(r, c);
    if ((c->r.k.flags & SNIC_FSOP_LOCK_WAIT) != 0)
        for (uint32_t i = 1; i < KM_NVMEFS_QUEUES && rc == SNIC_EAGAIN; i++)
            rc = nvme_submit(n->queues[i], &c->nvme);
    return rc == SNIC_EAGAIN ? nvme_submit(n->queues[0], &c->nvme) : rc;
}

static int nvme_cancel(struct km_remote *r, struct km_call *c)
{
    (void)r;
    (void)snic_nvmefslink_abort(c->nvme.ctx, &c->nvme); /* or it is home, or its queue is over */
    return 1;
}

/* ---- Down ---- */

static void nvme_attr(struct snic_fsop_attr *to, const struct snic_nvmefs_attr *a)
{
    to->ino = a->ino;
    to->size = a->size;
    to->space = a->space;
    to->rdev = a->rdev;
    to->version = a->version;
    to->entries = a->entries;
    to->atime = (struct snic_fsop_time){.sec = a->atime_sec, .nsec = a->atime_nsec};
    to->mtime = (struct snic_fsop_time){.sec = a->mtime_sec, .nsec = a->mtime_nsec};
    to->ctime = (struct snic_fsop_time){.sec = a->ctime_sec, .nsec = a->ctime_nsec};
    to->btime = (struct snic_fsop_time){.sec = a->btime_sec, .nsec = a->btime_nsec};
    to->mode = a->mode;
    to->nlink = a->nlink;
    to->uid = a->uid;
    to->gid = a->gid;
    to->flags = a->flags;
}

/* An answer that cannot be has been found by the queue's engine, most often: then it is EPROTO. */
static int64_t nvme_result(const struct km_call *c)
{
    const struct snic_nvmefs_req *q = &c->nvme;

    if (q->status == SNIC_NVMEFS_STATUS_ABORTED && c->cancelled)
        return SNIC_EINTR;
    if (q->status != SNIC_NVMEFS_STATUS_OK)
        ex_log(EX_ERROR, "the file system's process failed %s with status 0x%x",
               snic_nvmefs_op_name(q->op), q->status);
    else if (q->result == SNIC_EPROTO)
        ex_log(EX_ERROR, "protocol error: malformed reply of the file system's process to %s",
               snic_nvmefs_op_name(q->op));
    return q->result;
}

static void nvme_done(void *ctx, struct snic_nvmefslink_queue *queue, struct snic_nvmefs_req *q)
{
    struct km_remote *r = ctx;
    struct km_call *c = SNIC_CONTAINER(q, struct km_call, nvme);
    struct km_down d;

    (void)queue;
    if (q->status == SNIC_NVMEFS_STATUS_DELETED) { /* no answer: sent again at the link's end */
        r->cut = 1;
        return;
    }
    remote_heard(r);
    memset(&d, 0, sizeof(d));
    d.number = c->number;
    d.result = nvme_result(c);
    d.handle = q->handle;
    if (c->r.k.kind == SNIC_FSOP_STATFS)
        d.u.statfs = (struct snic_fsop_statfs){.bytes = q->statfs.bytes,
                                               .bytes_free = q->statfs.bytes_free,
                                               .files = q->statfs.files,
                                               .files_free = q->statfs.files_free};
    else if (c->r.k.kind == SNIC_FSOP_GETLK)
        d.u.lock = (struct snic_fsop_lock){.owner = q->lock.owner,
                                           .start = q->lock.start,
                                           .end = q->lock.end,
                                           .type = q->lock.type,
                                           .pid = q->lock.pid};
    else
        nvme_attr(&d.u.attr, &q->attr);
    remote_answer(r, &d, NULL, q->data_size);
    remote_more(r);
}

static void nvme_opened(void *ctx, struct snic_nvmefslink_queue *queue)
{
    (void)queue;
    remote_more(ctx);
}

static void nvme_closed(void *ctx, struct snic_nvmefslink_queue *queue, int reason)
{
    struct km_remote *r = ctx;

    (void)queue;
    if (reason != 0 && reason != SNIC_EPEERDEAD)
        ex_log(EX_ERROR, "a queue pair of nvme-fs failed: %s", snic_strerror(reason));
    r->cut = 1;
}

static void nvme_recv(void *ctx, const void *msg, uint32_t size)
{
    struct km_remote *r = ctx;
    struct kr_nvme *n = r->end;
    struct km_state s;

    if (size != sizeof(s))
        return;
    memcpy(&s, msg, sizeof(s));
    if (s.kind != KM_WIRE_KIND)
        return;
    n->state = s;
    remote_heard(r);
    remote_alone(r, s.alone != 0);
    remote_more(r);
}

static void nvme_death(void *ctx, enum snic_dma_death cause)
{
    struct km_remote *r = ctx;

    (void)cause;
    r->cut = 1;
}

/* ---- Figures ---- */

static void nvme_add(struct snic_nvmefs_host_stats *to, const struct snic_nvmefs_host_stats *s)
{
    to->submitted += s->submitted;
    to->aborts += s->aborts;
    to->bells += s->bells;
    to->copied += s->copied;
    to->full += s->full;
}

static void nvme_stats(const struct kr_nvme *n, struct snic_nvmefs_host_stats *out)
{
    struct snic_nvmefs_host_stats s;

    *out = n->before;
    for (uint32_t i = 0; i < KM_NVMEFS_QUEUES; i++) {
        if (n->queues[i] == NULL)
            continue;
        snic_nvmefs_host_get_stats(snic_nvmefslink_engine(n->queues[i]), &s);
        nvme_add(out, &s);
    }
}

static size_t nvme_metrics(const struct km_remote *r, struct ex_metric *out)
{
    const struct kr_nvme *n = r->end;
    struct snic_nvmefs_host_stats s;
    uint64_t commands;

    nvme_stats(n, &s);
    commands = s.submitted + s.aborts;
    const struct ex_metric all[] = {
        {"nvmefs_commands", commands, 1},
        {"nvmefs_aborts", s.aborts, 1},
        {"nvmefs_copied_bytes", s.copied, 1},
        {"nvmefs_bells_rung", s.bells, 1},
        {"nvmefs_bells_saved", commands - snic_min_u64(commands, s.bells), 0},
        {"nvmefs_bells_heard", n->rung_before + n->state.bells, 1},
        {"nvmefs_looks", n->looks_before + n->state.looks, 1},
        {"nvmefs_dma_ops", n->dma_before + n->state.dma_reads + n->state.dma_writes, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* ---- Open and close ---- */

static void nvme_close(struct km_remote *r, int orderly)
{
    struct kr_nvme *n = r->end;

    (void)orderly; /* what is under way ends as at a death, and no call waits for it */
    nvme_stats(n, &n->before);
    n->dma_before += n->state.dma_reads + n->state.dma_writes;
    n->looks_before += n->state.looks;
    n->rung_before += n->state.bells;
    memset(&n->state, 0, sizeof(n->state));
    snic_nvmefslink_host_detach(n->host);
    for (uint32_t i = 0; i < KM_NVMEFS_QUEUES; i++) {
        if (n->queues[i] != NULL)
            snic_nvmefslink_close(n->queues[i]);
        n->queues[i] = NULL;
    }
    free(snic_nvmefslink_host_fini(n->host));
    snic_dma_close(n->dma);
    n->host = NULL;
    n->dma = NULL;
}

static int nvme_host(struct km_remote *r)
{
    struct snic_nvmefslink_host_opts o = {
        .opts_size = sizeof(o),
        .queues_max = KM_NVMEFS_QUEUES,
        .others = {.recv = nvme_recv, .death = nvme_death, .ctx = r}};
    struct kr_nvme *n = r->end;
    size_t size = snic_nvmefslink_host_memsize(&o);
    void *memory;
    int rc;

    if (posix_memalign(&memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    rc = snic_nvmefslink_host_init(&n->host, memory, size, n->dma, &o);
    if (rc != 0)
        free(memory);
    return rc;
}

static int nvme_connect(struct km_remote *r)
{
    static const struct snic_dma_events none;
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o),
                                  .timeout_ms = 1000,
                                  .path = r->m->config->socket,
                                  .tag = km_tag(r->m->config)};
    struct snic_nvmefslink_events e = {
        .opened = nvme_opened, .done = nvme_done, .closed = nvme_closed, .ctx = r};
    struct kr_nvme *n = r->end;
    int rc = snic_dma_shm_connect(&n->dma, r->m->loop, &o, &none);

    if (rc != 0)
        return rc;
    rc = nvme_host(r);
    if (rc != 0) {
        snic_dma_close(n->dma);
        return rc;
    }
    for (uint32_t i = 0; i < KM_NVMEFS_QUEUES && rc == 0; i++) {
        struct snic_nvmefslink_queue_opts q = {.opts_size = sizeof(q),
                                               .depth = i == 0 ? KM_NVMEFS_DEPTH : KM_NVMEFS_LOCKS,
                                               .data_bytes = i == 0 ? KM_DATA : 0};

        rc = snic_nvmefslink_open(&n->queues[i], n->host, &q, &e);
    }
    if (rc != 0) {
        nvme_close(r, 0);
        r->cut = 0;
    }
    return rc;
}

const struct kr_link remote_nvmefs = {.end_bytes = sizeof(struct kr_nvme),
                                      .connect = nvme_connect,
                                      .close = nvme_close,
                                      .send = nvme_send,
                                      .cancel = nvme_cancel,
                                      .metrics = nvme_metrics};
