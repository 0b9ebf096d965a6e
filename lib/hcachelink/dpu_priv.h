/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's half.
 *
 *   NONE ── REGION ──▶ HEADER ── it makes sense ──▶ RUN ── END ──▶ DRAIN ──▶ STOP ──▶ NONE
 *                                                    └── death ──▶ SALVAGE ──▶ STOP ──▶ GONE
 *   In STOP nothing new begins; it ends when nothing is in flight any more.
 *
 * A task is a request of the host, a run an action of the engine: each has one DMA batch or one
 * request to the file system in flight at a time. Completions are only reported to the
 * engine; its actions are polled in the poller.
 *
 * Invariants
 *   D1  The engine's memory goes when nothing that it lent is in flight.
 *   D2  A task is answered once, when nothing of it is in flight; its number is free afterwards.
 *   D3  Values from the host are numbers to be checked: its region is reached by keys, never by
 *       pointers, until it is dead and its bytes no longer change.
 */
#ifndef SNIC_HCACHELINK_DPU_PRIV_H
#define SNIC_HCACHELINK_DPU_PRIV_H

#include "hcachelink/hcachelink_priv.h"

enum {
    HCACHELINK_D_NONE,
    HCACHELINK_D_HEADER,
    HCACHELINK_D_RUN,
    HCACHELINK_D_DRAIN,
    HCACHELINK_D_SALVAGE,
    HCACHELINK_D_STOP,
    HCACHELINK_D_GONE
};

struct hcachelink_task {
    struct snic_fs_req fs;
    struct snic_iov iov;
    struct snic_dma_batch batch;
    struct snic_dma_op op;
    struct snic_node node; /* answers to be sent, batches that found the door full */
    struct snic_hcachelink_dpu *d;
    unsigned char *page;
    uint64_t id;    /* the host's */
    uint64_t index; /* READ: the page; FSYNC: 1, flush only */
    int32_t result;
    uint16_t type; /* 0: free */
    uint16_t in_flight;
};

struct hcachelink_run {
    struct snic_fs_req fs;
    struct snic_iov iov;
    struct snic_dma_batch batch;
    struct snic_dma_op ops[SNIC_HCACHE_OPS_MAX];
    struct snic_node node; /* as a task's; free runs */
    struct snic_hcachelink_dpu *d;
    struct snic_hcache_action a;
    uint32_t busy;
};

struct snic_hcachelink_dpu {
    struct snic_hcachelink_dpu_opts opts;
    struct snic_hcachelink_dpu_stats stats;
    struct snic_dma *dma;
    struct snic_fs *fs;
    struct snic_hcache_control *engine; /* NULL: none */
    void *block;                        /* engine, runs and pages */
    struct snic_hcache_info info;
    unsigned char header[SNIC_HCACHE_HEADER_BYTES];
    uint64_t key, bytes, epoch; /* of the region */
    unsigned char *mapped;      /* the region, for SALVAGE; NULL: inaccessible */
    struct snic_dma_batch fetch_header;
    struct snic_dma_op header_op;
    struct hcachelink_run *runs;
    uint32_t runs_max, runs_busy;
    uint32_t tasks_busy;
    uint32_t header_busy;
    int32_t msg_result;
    int32_t failed;    /* why the region cannot be reached; 0: it can */
    uint64_t look_due; /* DRAIN, SALVAGE: idle after so many looks is the end */
    uint64_t give_up_ns;
    uint64_t salvage_from; /* stats.writes when the host died */
    uint64_t progress_ns;  /* DRAIN: its beginning, or the last page that was written */
    int32_t drain_error;   /* DRAIN: of a page that could not be; 0: none */
    int32_t refused;       /* RUN: the last flush failed so; 0: it did not, or nothing is dirty */
    int32_t refused_sent;  /* as last sent to the host */
    uint8_t state;
    uint8_t msg_due;   /* 0, HCACHELINK_REGION, HCACHELINK_END: a DONE with id 0 is owed;
                          HCACHELINK_FAILED */
    uint8_t alive_due; /* the host's keep-alive is to be answered */
    uint8_t dead;      /* nothing is sent to the host any more */
    uint8_t detached;  /* but it may live */
    uint8_t ended;     /* all is flushed and synced, or could not be: END is to be answered */
    uint8_t gone_due;
    uint8_t sim;
    struct snic_queue free_runs;
    struct snic_queue answers; /* tasks */
    struct snic_queue full;    /* runs whose batch the door had no room for */
    struct snic_queue full_tasks;
    struct snic_queue local; /* runs that were carried out in a dead host's memory */
    struct snic_timer timer;
    struct snic_loop_poller poller;
    struct hcachelink_task tasks[SNIC_HCACHELINK__TASKS_MAX + 1]; /* the last: END's */
};

#define SNIC_HCACHELINK__END_TASK SNIC_HCACHELINK__TASKS_MAX

static inline void hcachelink_dpu_kick(const struct snic_hcachelink_dpu *d)
{
    if (d->sim)
        snic_loop_wake(d->dma->loop);
}

/* ---- dpu_engine.c ---- */

/* Header checked: make the engine. 0, or SNIC_E*. */
int hcachelink_engine_open(struct snic_hcachelink_dpu *d);
/* Give its memory back (D1). */
void hcachelink_engine_close(struct snic_hcachelink_dpu *d);
/* Pass an event to the engine. */
void hcachelink_engine_step(struct snic_hcachelink_dpu *d, const struct snic_hcache_event *ev);
/* Nothing is dirty and nothing in flight, as of the last look. */
int hcachelink_engine_rests(const struct snic_hcachelink_dpu *d);

/* ---- dpu_task.c ---- */

/* A request of the host. */
void hcachelink_task_begin(struct snic_hcachelink_dpu *d, const struct hcachelink_message *m);
/* The engine has flushed what fsync @p index waited for. */
void hcachelink_task_synced(struct snic_hcachelink_dpu *d, uint64_t index, int32_t result);
/* SYNCFS, then the END is answered. */
void hcachelink_task_end(struct snic_hcachelink_dpu *d);
/* Batches that waited for room in the door. Did something. */
int hcachelink_task_pump(struct snic_hcachelink_dpu *d);
/* Ended: it is to be answered. */
void hcachelink_task_finish(struct hcachelink_task *t, int64_t result);

/* STOP: nothing new. */
void hcachelink_dpu_stop(struct snic_hcachelink_dpu *d);

/* ---- dpu_run.c ---- */

/* Take the engine's actions and start them. Did something. */
int hcachelink_engine_pump(struct snic_hcachelink_dpu *d);

/* ---- dpu_link.c ---- */

int hcachelink_dpu_poll(struct snic_loop_poller *p, int sleeping);

/* A request to the file system for the host's kernel, which has checked permissions. */
static inline void hcachelink_fs_req(struct snic_fs_req *r, uint32_t kind, uint64_t ino)
{
    memset(r, 0, sizeof(*r));
    r->op.kind = kind;
    r->op.flags = SNIC_FSOP_CHECKED;
    r->op.ino = ino;
}

#endif /* SNIC_HCACHELINK_DPU_PRIV_H */
