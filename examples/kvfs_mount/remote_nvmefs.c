/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The link by nvme-fs: a call is a command of a queue pair. Locks that wait have queues of their
 * own, so that they do not keep others out, however many they are. Bytes are copied by the queue's
 * engine, to and from memory that the other process can reach; the call's own it cannot.
 *
 * A completion does not state whether the file system's session is alone: a message does (struct
 * km_state), with the other process's counters.
 */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>

struct kr_nvme {
    struct snic_dma *dma;
    struct snic_nvmefslink_host *host;
    struct snic_nvmefslink_queue *queues[KM_NVMEFS_QUEUES]; /* 0: all but waiting locks */
    struct snic_nvmefs_host_stats before;                   /* of earlier links */
    struct km_state state;                                  /* the last one */
    uint64_t dma_before;
    uint64_t looks_before;
    uint64_t rung_before;
};

SNIC_STATIC_ASSERT((KM_NVMEFS_QUEUES - 1) * (KM_NVMEFS_LOCKS - 1) + KM_NVMEFS_DEPTH / 2 >
                       KM_LOCKS_WAITING,
                   "waiting locks leave room");

/* ---- Sending ---- */

static void nvme_request(struct km_remote *r, struct km_call *c)
{
    struct snic_nvmefs_req *q = &c->nvme;

    memset(q, 0, sizeof(*q));
    q->op = c->r.op;
    q->op.handle = remote_theirs(r, c);
    if (q->op.kind == SNIC_FSOP_SYMLINK) { /* the target is sent as data */
        c->iov = (struct snic_iov){(void *)(uintptr_t)q->op.name2, q->op.name2_size};
        q->op.iov = &c->iov;
        q->op.iov_count = 1;
        q->op.name2_size = 0;
    } else if (q->op.kind == SNIC_FSOP_READDIR) { /* an answer is no longer than that */
        c->iov.size = (size_t)snic_min_u64(c->iov.size, KM_NVMEFS_CHUNK);
    }
}

static int nvme_submit(struct snic_nvmefslink_queue *queue, struct snic_nvmefs_req *q)
{
    int rc = snic_nvmefslink_submit(queue, q);

    q->op.ctx = queue;
    return rc == SNIC_EPIPE || rc == SNIC_EPROTO ? SNIC_EAGAIN
                                                 : rc; /* the link ends: its closed event follows */
}

static int nvme_send(struct km_remote *r, struct km_call *c)
{
    struct kr_nvme *n = r->end;
    int rc = SNIC_EAGAIN;

    nvme_request(r, c);
    if ((c->r.op.flags & SNIC_FSOP_LOCK_WAIT) != 0)
        for (uint32_t i = 1; i < KM_NVMEFS_QUEUES && rc == SNIC_EAGAIN; i++)
            rc = nvme_submit(n->queues[i], &c->nvme);
    return rc == SNIC_EAGAIN ? nvme_submit(n->queues[0], &c->nvme) : rc;
}

static int nvme_cancel(struct km_remote *r, struct km_call *c)
{
    (void)r;
    (void)snic_nvmefslink_abort(c->nvme.op.ctx,
                                &c->nvme); /* unless it is answered, or its queue has ended */
    return 1;
}

/* ---- Answers ---- */

/* The queue's engine has detected most invalid answers: then it is EPROTO. */
static int64_t nvme_result(const struct km_call *c)
{
    const struct snic_nvmefs_req *q = &c->nvme;

    if (q->status == SNIC_NVMEFS_STATUS_ABORTED && c->cancelled)
        return SNIC_EINTR;
    if (q->status != SNIC_NVMEFS_STATUS_OK)
        ex_log(EX_ERROR, "the file system's process failed %s with status 0x%x",
               snic_fsop_name(q->op.kind), q->status);
    else if (q->op.result == SNIC_EPROTO)
        ex_log(EX_ERROR, "protocol error: malformed reply of the file system's process to %s",
               snic_fsop_name(q->op.kind));
    return q->op.result;
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
    d.handle = q->op.handle;
    if (q->op.kind == SNIC_FSOP_STATFS)
        d.u.statfs = q->op.statfs;
    else if (q->op.kind == SNIC_FSOP_GETLK)
        d.u.lock = q->op.lock;
    else
        d.u.attr = q->op.attr;
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
    remote_alone(r, s.alone != 0, s.valid_ns);
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
