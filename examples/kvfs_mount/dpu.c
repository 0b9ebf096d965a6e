/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process: the file system, for one host behind a link (kd_link).
 *
 * When the host has detached, its open files and locks end with the session that had them, and a
 * new session waits for the next host.
 */
#include "dpu_priv.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KD_LOOK_NS 50000000u
#define KD_STATE_NS 1000000000u /* a message to the host so often: a silent process is killed */

/* ---- Attach and detach ---- */

static void dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct kd *d = ctx;
    int rc;

    if (d->dma != NULL && pid == d->pid && !d->gone && !d->ending && dpu_cache_attach(d, dma) == 0)
        return;
    if (d->dma != NULL || d->ending) {
        snic_dma_close(dma);
        return;
    }
    d->pid = pid;
    d->dma = dma;
    rc = d->link->attach(d);
    if (rc != 0) {
        d->dma = NULL;
        ex_log(EX_ERROR, "refused host process %u: %s", pid, snic_strerror(rc));
        return;
    }
    d->state_due = 1;
    ex_log(EX_INFO, "host process %u attached", pid);
}

static void dpu_look_store(struct kd *d)
{
    struct snic_kvfs_stats s;

    snic_kvfs_get_stats(snic_fs_engine(d->store.fs), &s);
    km_store_judge(&d->store, &s, &d->dead);
}

static void dpu_send_state(struct kd *d)
{
    if (d->state_due)
        dpu_cache_send_state(d);
    if (d->state_due && d->dma != NULL && !d->gone)
        d->state_due = d->link->send_state(d) == SNIC_EAGAIN;
}

/* Other sessions have arrived, and wait until we acknowledge that, or have left. */
static void dpu_alone(struct kvfs_store *s, int alone)
{
    struct kd *d = SNIC_CONTAINER(s, struct kd, store);

    d->alone = (uint32_t)alone;
    d->state_due = 1;
    dpu_send_state(d);
}

static void dpu_look(struct snic_timer *t, uint64_t now)
{
    struct kd *d = SNIC_CONTAINER(t, struct kd, timer);

    if (d->mounted)
        dpu_look_store(d);
    if (now - d->state_ns >= KD_STATE_NS) {
        d->state_ns = now;
        d->state_due = 1;
    }
    dpu_send_state(d);
    snic_loop_arm(d->loop, t, now + KD_LOOK_NS);
}

static void dpu_stop(void *ctx)
{
    struct kd *d = ctx;

    d->ending = 1;
}

/* ---- Open, run, close ---- */

static int dpu_open(struct kd *d)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o),
                                  .path = d->config->socket,
                                  .size_max = (UINT64_C(4) << 30) + (d->config->cache_bytes << 1),
                                  .tag = km_tag(d->config)};
    int rc = kvfs_store_open(&d->store);

    if (rc == 0)
        rc = kvfs_store_mount(&d->store, d->config->mkfs || d->store.medium != NULL);
    if (rc != 0)
        return rc;
    d->end = calloc(1, d->link->end_bytes);
    if (d->end == NULL)
        return SNIC_ENOMEM;
    rc = d->link->open(d);
    if (rc != 0)
        return rc;
    umask(077);
    rc = snic_dma_shm_listen(&d->listener, d->loop, &o, dpu_accept, d);
    if (rc != 0)
        ex_log(EX_ERROR, "cannot listen on socket %s (--socket): %s", o.path,
               ex_listen_error(o.path, rc));
    return rc;
}

static size_t dpu_metrics(void *ctx, struct ex_metric *out)
{
    struct kd *d = ctx;
    size_t n = km_store_metrics(&d->store, out);

    out[n++] = (struct ex_metric){"cpu_ns", ex_cpu_process_ns(), 1};
    n += dpu_cache_metrics(d, out + n);
    return d->link->metrics == NULL ? n : n + d->link->metrics(d, out + n);
}

/* Served until now; the next host may be attached, and gets messages while the session ends. */
static int dpu_again(struct kd *d)
{
    int rc;

    dpu_cache_reap(d);
    d->link->reap(d);
    d->dma = NULL;
    d->gone = 0;
    d->mounted = 0;
    rc = snic_fs_unmount(d->store.fs);
    if (rc != 0 ||
        (d->ending && d->dma == NULL)) /* otherwise that host is served until it detaches */
        return rc;
    rc = kvfs_store_again(&d->store);
    if (rc != 0)
        return rc;
    d->mounted = 1;
    d->link->go(d);
    dpu_look_store(d);
    return 0;
}

static int dpu_serve(struct kd *d)
{
    int rc = 0;

    d->mounted = 1;
    d->link->go(d);
    snic_timer_init(&d->timer, dpu_look);
    dpu_look(&d->timer, snic_loop_now(d->loop));
    while (rc == 0 && (!d->ending || d->dma != NULL)) {
        (void)snic_loop_once(d->loop, SNIC_NEVER);
        dpu_cache_look(d);
        if (d->gone)
            rc = dpu_again(d);
    }
    snic_loop_cancel(d->loop, &d->timer);
    if (rc == 0 && d->mounted)
        rc = snic_fs_unmount(d->store.fs);
    if (rc != 0)
        ex_log(EX_ERROR, "store %s: cannot end its session, or begin the next one: %s",
               d->store.spec, snic_strerror(rc));
    return rc;
}

int km_dpu_run(struct km_config *config)
{
    struct kd *d = calloc(1, sizeof(*d));
    struct ex_stats *stats = NULL;
    int rc;

    if (d == NULL)
        ex_die("out of memory for the DPU role");
    d->config = config;
    d->loop = ex_loop_open((uint32_t)config->spin_us);
    d->link = config->nvmefs ? &dpu_nvmefs : &dpu_ring;
    d->store.spec = config->store;
    d->store.loop = d->loop;
    d->store.cache_bytes = config->records_bytes;
    d->store.alone = dpu_alone;
    d->store.requests = KM_REQUESTS;
    d->store.inodes = km_inodes(config);
    d->store.create = config->mkfs;
    d->store.sole = config->exclusive;
    d->store.read_only = config->read_only;
    d->store.flags = config->atime | config->diratime;
    ex_signals(d->loop, dpu_stop, d);
    rc = dpu_open(d);
    if (rc == 0)
        rc = ex_stats_start(&stats, d->loop, NULL, "kvfs", config->stats, NULL, dpu_metrics, d);
    if (rc == 0)
        rc = dpu_serve(d);
    ex_stats_stop(stats);
    ex_signals_off();
    if (d->listener != NULL)
        snic_dma_shm_unlisten(d->listener);
    if (config->folder != NULL && getppid() != config->supervisor)
        (void)rmdir(config->folder); /* the supervisor has died and cannot remove it */
    kvfs_store_close(&d->store);
    snic_loop_close(d->loop);
    if (d->end != NULL)
        d->link->close(d);
    free(d->end);
    free(d);
    return rc == 0 ? 0 : KM_FAILED;
}
