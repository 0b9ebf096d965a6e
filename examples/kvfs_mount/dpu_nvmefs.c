/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process, the link by nvme-fs: commands become requests of fsdispatch.h to the
 * file system. Those that arrive before the session is mounted wait in a list.
 */
#include "dpu_priv.h"

#include <stdlib.h>
#include <string.h>

struct kd_nvme {
    struct snic_nvmefslink_dpu *dpu;  /* of the attached host */
    struct snic_fsdispatch *dispatch; /* while a session is mounted */
    void *dispatch_memory;
    struct snic_nvmefs_cmd *first; /* waiting, by req.op.ctx, in order */
    struct snic_nvmefs_cmd *last;
    struct snic_nvmefs_dpu_stats before; /* of earlier hosts */
};

enum { NVME_COMMANDS = KM_NVMEFS_QUEUES * KM_NVMEFS_LOCKS };

SNIC_STATIC_ASSERT(KM_NVMEFS_DEPTH <= KM_NVMEFS_LOCKS, "the deepest queue");

/* ---- Requests ---- */

static void nvme_request(void *ctx, struct snic_nvmefslink_dpu *dpu, struct snic_nvmefs_cmd *c)
{
    struct kd *d = ctx;
    struct kd_nvme *n = d->end;

    if (d->mounted && n->dispatch != NULL) {
        snic_fsdispatch_request(n->dispatch, dpu, c);
        return;
    }
    c->req.op.ctx = NULL;
    if (n->first == NULL)
        n->first = c;
    else
        n->last->req.op.ctx = c;
    n->last = c;
}

/* @return 1: it waited */
static int nvme_unwait(struct kd_nvme *n, const struct snic_nvmefs_cmd *c)
{
    struct snic_nvmefs_cmd *before = NULL;

    for (struct snic_nvmefs_cmd *i = n->first; i != NULL; before = i, i = i->req.op.ctx) {
        if (i != c)
            continue;
        if (before == NULL)
            n->first = i->req.op.ctx;
        else
            before->req.op.ctx = i->req.op.ctx;
        if (n->last == i)
            n->last = before;
        return 1;
    }
    return 0;
}

static void nvme_cancel(void *ctx, struct snic_nvmefslink_dpu *dpu, struct snic_nvmefs_cmd *c)
{
    struct kd *d = ctx;
    struct kd_nvme *n = d->end;

    if (nvme_unwait(n, c))
        snic_nvmefslink_finish(dpu, c, SNIC_NVMEFS_STATUS_ABORTED, 0);
    else if (n->dispatch != NULL)
        snic_fsdispatch_cancel(n->dispatch, dpu, c);
}

/* ---- Attach and detach ---- */

static void nvme_recv(void *ctx, const void *msg, uint32_t size)
{
    (void)ctx;
    (void)msg;
    ex_log(EX_WARNING,
           "protocol error: malformed message of the host process (%u bytes): does it use another "
           "--link?",
           size);
}

static void nvme_death(void *ctx, enum snic_dma_death cause)
{
    struct kd *d = ctx;

    (void)cause;
    d->gone = 1;
}

static int nvme_attach(struct kd *d)
{
    struct snic_nvmefslink_dpu_opts o = {
        .opts_size = sizeof(o),
        .engine = {.opts_size = sizeof(o.engine),
                   .queues_max = KM_NVMEFS_QUEUES,
                   .depth_max = KM_NVMEFS_LOCKS,
                   .chunk_bytes = KM_NVMEFS_CHUNK},
        .request = nvme_request,
        .cancel = nvme_cancel,
        .ctx = d,
        .others = {.recv = nvme_recv, .death = nvme_death, .ctx = d}};
    struct kd_nvme *n = d->end;
    size_t size;
    void *memory;
    int rc = SNIC_ENOMEM;

    size = snic_nvmefslink_dpu_memsize(&o);
    if (posix_memalign(&memory, SNIC_NVMEFS_ALIGN, size) == 0) {
        rc = snic_nvmefslink_dpu_init(&n->dpu, memory, size, d->dma, &o);
        if (rc == 0)
            return 0;
        free(memory);
    }
    snic_dma_close(d->dma);
    return rc;
}

static void nvme_stats(const struct kd_nvme *n, struct snic_nvmefs_dpu_stats *out)
{
    struct snic_nvmefs_dpu_stats s;

    *out = n->before;
    if (n->dpu == NULL)
        return;
    snic_nvmefs_dpu_get_stats(snic_nvmefslink_dpu_engine(n->dpu), &s);
    out->commands += s.commands;
    out->statuses += s.statuses;
    out->aborts += s.aborts;
    out->looks += s.looks;
    out->reads_pointer += s.reads_pointer;
    out->reads_data += s.reads_data;
    out->writes_data += s.writes_data;
    out->writes_cqe += s.writes_cqe;
    out->bells += s.bells;
    out->starved += s.starved;
}

static void nvme_reap(struct kd *d)
{
    struct kd_nvme *n = d->end;

    snic_nvmefslink_dpu_detach(n->dpu);
    while (n->first != NULL) {
        struct snic_nvmefs_cmd *c = n->first;

        n->first = c->req.op.ctx;
        snic_nvmefslink_finish(n->dpu, c, SNIC_NVMEFS_STATUS_ABORTED, 0);
    }
    while (!snic_nvmefslink_dpu_idle(n->dpu))
        (void)snic_loop_once(d->loop, 10000000u);
    nvme_stats(n, &n->before);
    free(snic_nvmefslink_dpu_fini(n->dpu));
    snic_dma_close(d->dma);
    n->dpu = NULL;
    if (n->dispatch != NULL)
        (void)snic_fsdispatch_fini(n->dispatch);
    n->dispatch = NULL; /* the file system ends with the session */
}

static void nvme_go(struct kd *d)
{
    struct snic_fsdispatch_opts o = {.opts_size = sizeof(o), .commands = NVME_COMMANDS};
    struct kd_nvme *n = d->end;
    struct snic_nvmefs_cmd *c = n->first;

    int rc = snic_fsdispatch_init(&n->dispatch, n->dispatch_memory, snic_fsdispatch_memsize(&o),
                                  d->store.fs, &o);

    if (rc != 0) /* options and memory are those of nvme_open() */
        ex_die("cannot dispatch the host's nvme-fs commands to the file system: %s",
               snic_strerror(rc));
    n->first = NULL;
    while (c != NULL) {
        struct snic_nvmefs_cmd *next = c->req.op.ctx;

        snic_fsdispatch_request(n->dispatch, n->dpu, c);
        c = next;
    }
}

static int nvme_send_state(struct kd *d)
{
    struct kd_nvme *n = d->end;
    struct snic_nvmefs_dpu_stats s;
    struct km_state m = {.kind = KM_WIRE_KIND, .alone = d->alone, .valid_ns = kd_valid_ns(d)};

    snic_nvmefs_dpu_get_stats(snic_nvmefslink_dpu_engine(n->dpu), &s);
    m.dma_reads = d->dma->stats.reads;
    m.dma_writes = d->dma->stats.writes;
    m.looks = s.looks;
    m.bells = s.bells;
    return snic_dma_send(d->dma, &m, sizeof(m)) == 0 ? SNIC_EAGAIN : 0;
}

static size_t nvme_metrics(const struct kd *d, struct ex_metric *out)
{
    struct snic_nvmefs_dpu_stats s;

    nvme_stats(d->end, &s);
    const struct ex_metric all[] = {
        {"nvmefs_commands", s.commands, 1},
        {"nvmefs_statuses", s.statuses, 1},
        {"nvmefs_aborts", s.aborts, 1},
        {"nvmefs_looks", s.looks, 1},
        {"nvmefs_reads_pointer", s.reads_pointer, 1},
        {"nvmefs_reads_data", s.reads_data, 1},
        {"nvmefs_writes_data", s.writes_data, 1},
        {"nvmefs_writes_cqe", s.writes_cqe, 1},
        {"nvmefs_bells_rung", s.bells, 1},
        {"nvmefs_starved", s.starved, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* ---- Open and close ---- */

static int nvme_open(struct kd *d)
{
    struct snic_fsdispatch_opts o = {.opts_size = sizeof(o), .commands = NVME_COMMANDS};
    struct kd_nvme *n = d->end;

    return posix_memalign(&n->dispatch_memory, SNIC_CACHELINE, snic_fsdispatch_memsize(&o)) == 0
               ? 0
               : SNIC_ENOMEM;
}

static void nvme_shut(struct kd *d)
{
    struct kd_nvme *n = d->end;

    free(n->dispatch_memory);
}

const struct kd_link dpu_nvmefs = {.end_bytes = sizeof(struct kd_nvme),
                                   .open = nvme_open,
                                   .close = nvme_shut,
                                   .attach = nvme_attach,
                                   .reap = nvme_reap,
                                   .go = nvme_go,
                                   .send_state = nvme_send_state,
                                   .metrics = nvme_metrics};
