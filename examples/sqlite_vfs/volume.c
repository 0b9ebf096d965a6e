/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's thread runs the loop of the file library, which SQLite's threads call
 * (filelib_sync.h). Where the path is an image a second thread is the DPU, as in files_local.c.
 */
#include "volume.h"

#include "snicstore.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct sv_mount {
    struct sv_volume volume;
    struct sv_mount *next;
    uint32_t users;
    int remote; /* the DPU is another process */
    char *why;  /* while it opens */
    struct snic_loop *dpu_loop;
    struct snic_loop *host_loop;
    struct snic_dma *host_dma;
    struct snic_dma *dpu_dma;
    struct sv_image image;
    struct snic_files_server *server;
    struct snic_channel_hub *dpu_hub;
    struct snic_channel_hub *host_hub;
    struct snic_filelib *group;
    void *server_mem, *dpu_hub_mem, *host_hub_mem, *group_mem;
    struct snic_loop_msg stop;
    pthread_barrier_t ready; /* each thread, when it has opened its side  */
    int opened;              /* by the thread that started last: 0 or SNIC_E* */
    pthread_t dpu_thread, host_thread;
};

static pthread_mutex_t sv_mounts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sv_mount *sv_mounts;

static int sv_mount_failed(struct sv_mount *m, const char *what, int rc, int os_error)
{
    return sv_failed(m->why, what, m->volume.path, rc, os_error);
}

/* ---- The DPU's thread ---- */

static void sv_host_gone(void *ctx, struct snic_files_server *s, int reason)
{
    (void)s;
    (void)reason;
    snic_loop_stop(((struct sv_mount *)ctx)->dpu_loop);
}

static void sv_host_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    (void)hub;
    (void)cause;
    snic_loop_stop(((struct sv_mount *)ctx)->dpu_loop);
}

static int sv_host_accept(void *ctx, struct snic_channel_hub *hub,
                          const struct snic_channel_offer *offer)
{
    struct sv_mount *m = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o), .gone = sv_host_gone, .ctx = m};
    size_t size = snic_files_server_memsize(&o);
    if (m->server != NULL)
        return SNIC_EBUSY;
    m->server_mem = sv_memory(size);
    if (m->server_mem == NULL)
        return SNIC_ENOMEM;
    return snic_files_serve(&m->server, m->server_mem, size, m->image.files, hub, offer, &o);
}

static struct snic_channel_hub *sv_hub(struct sv_mount *m, struct snic_dma *dma, void **mem,
                                       int dpu)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .ctx = m};
    size_t size = snic_channel_hub_memsize(&o);
    struct snic_channel_hub *hub = NULL;
    o.accept = dpu ? sv_host_accept : NULL;
    o.death = dpu ? sv_host_death : NULL;
    *mem = sv_memory(size);
    if (*mem == NULL || snic_channel_hub_init(&hub, *mem, size, dma, &o) != 0)
        return NULL;
    return hub;
}

static int sv_dpu_open(struct sv_mount *m)
{
    struct snic_dma_events none = {0};
    int rc = sv_image_open(&m->image, m->dpu_loop, m->volume.path, m->volume.locks, m->why);
    if (rc == 0)
        rc =
            snic_dma_local_open(&m->host_dma, m->host_loop, &none, &m->dpu_dma, m->dpu_loop, &none);
    if (rc == 0) {
        m->dpu_hub = sv_hub(m, m->dpu_dma, &m->dpu_hub_mem, 1);
        if (m->dpu_hub == NULL)
            rc = sv_mount_failed(m, "cannot serve the image", SNIC_ENOMEM, 0);
    }
    return rc;
}

static void sv_dpu_close(struct sv_mount *m)
{
    if (m->server != NULL)
        (void)snic_files_server_close(m->server);
    while (m->dpu_hub != NULL && snic_channel_hub_count(m->dpu_hub) > 0)
        if (snic_loop_once(m->dpu_loop, SNIC_NEVER) < 0)
            break;
    if (m->dpu_hub != NULL)
        (void)snic_channel_hub_fini(m->dpu_hub);
    sv_image_close(&m->image);
    snic_loop_close(m->dpu_loop);
}

static void *sv_dpu(void *arg)
{
    struct sv_mount *m = arg;
    int opened = sv_dpu_open(m);
    m->opened = opened;
    (void)pthread_barrier_wait(&m->ready);
    if (opened == 0)
        (void)snic_loop_run(m->dpu_loop); /* until the host has gone */
    sv_dpu_close(m);
    return NULL;
}

/* ---- The host's thread ---- */

static void sv_stop(struct snic_loop_msg *msg)
{
    snic_loop_stop(SNIC_CONTAINER(msg, struct sv_mount, stop)->host_loop);
}

/* Before the requests that were outstanding complete. */
static void sv_group_closed(void *ctx, struct snic_filelib *g, int reason)
{
    struct sv_mount *m = ctx;
    (void)g;
    (void)reason;
    atomic_store(&m->volume.ended, 1);
}

static int sv_connect(struct sv_mount *m)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = m->volume.path};
    struct snic_dma_events none = {0};
    int rc = snic_dma_shm_connect(&m->host_dma, m->host_loop, &o, &none);
    while (rc == 0 && m->volume.host == 0)
        if (getrandom(&m->volume.host, sizeof(m->volume.host), 0) < 0)
            rc = SNIC_EIO;
    return rc == 0 ? 0 : sv_mount_failed(m, "cannot connect to the DPU (sqlite_dpu)", rc, 0);
}

static int sv_host_open(struct sv_mount *m)
{
    struct snic_filelib_opts o = {.opts_size = sizeof(o), .closed = sv_group_closed, .ctx = m};
    size_t size = snic_filelib_memsize(&o);
    int rc = m->remote ? sv_connect(m) : 0;
    if (rc != 0)
        return rc;
    m->host_hub = sv_hub(m, m->host_dma, &m->host_hub_mem, 0);
    m->group_mem = sv_memory(size);
    if (m->host_hub == NULL || m->group_mem == NULL)
        return sv_mount_failed(m, "out of memory for the file library", SNIC_ENOMEM, 0);
    o.id = m->volume.host;
    rc = snic_filelib_open(&m->group, m->group_mem, size, m->host_hub, &o);
    if (rc == 0)
        rc = snic_filelib_sync_init(&m->volume.sync, m->group, 0);
    return rc == 0 ? 0 : sv_mount_failed(m, "cannot start the file library", rc, 0);
}

static void sv_host_close(struct sv_mount *m)
{
    if (m->group != NULL)
        (void)snic_filelib_close(m->group);
    while (m->host_hub != NULL && !atomic_load(&m->volume.ended) &&
           snic_channel_hub_count(m->host_hub) > 0)
        if (snic_loop_once(m->host_loop, SNIC_NEVER) < 0)
            break;
    if (m->host_hub != NULL)
        (void)snic_channel_hub_fini(m->host_hub);
    else if (m->host_dma != NULL)
        snic_dma_close(m->host_dma);
    snic_loop_close(m->host_loop);
}

static void *sv_host(void *arg)
{
    struct sv_mount *m = arg;
    int opened = sv_host_open(m);
    m->opened = opened;
    (void)pthread_barrier_wait(&m->ready);
    if (opened == 0)
        (void)snic_loop_run(m->host_loop);
    sv_host_close(m);
    return NULL;
}

/* ---- Open, close ---- */

static void sv_free(struct sv_mount *m)
{
    free(m->server_mem);
    free(m->dpu_hub_mem);
    free(m->host_hub_mem);
    free(m->group_mem);
    free(m);
}

static int sv_loop(struct sv_mount *m, struct snic_loop **out)
{
    int os_error = 0;
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .os_error = &os_error};
    int rc = snic_loop_uring_open(out, &o);
    return rc == 0 ? 0 : sv_mount_failed(m, "cannot set up io_uring", rc, os_error);
}

/* @return what the thread, which has opened its side, reports */
static int sv_thread(struct sv_mount *m, pthread_t *t, void *(*fn)(void *), struct snic_loop *loop)
{
    if (pthread_create(t, NULL, fn, m) != 0) {
        if (loop == m->host_loop && m->host_dma != NULL)
            snic_dma_close(m->host_dma); /* the DPU's thread ends */
        snic_loop_close(loop);
        return sv_mount_failed(m, "cannot start a thread", SNIC_ENOMEM, 0);
    }
    (void)pthread_barrier_wait(&m->ready);
    if (m->opened != 0)
        (void)pthread_join(*t, NULL);
    return m->opened;
}

static int sv_start(struct sv_mount *m)
{
    int rc = sv_loop(m, &m->host_loop);
    if (rc != 0)
        return rc;
    (void)pthread_barrier_init(&m->ready, NULL, 2);
    if (!m->remote) {
        rc = sv_loop(m, &m->dpu_loop);
        if (rc == 0)
            rc = sv_thread(m, &m->dpu_thread, sv_dpu, m->dpu_loop);
        if (rc != 0) {
            snic_loop_close(m->host_loop);
            return rc;
        }
    }
    rc = sv_thread(m, &m->host_thread, sv_host, m->host_loop);
    if (rc != 0 && !m->remote) /* it has closed the link, which ends the DPU's */
        (void)pthread_join(m->dpu_thread, NULL);
    return rc;
}

/* The threads of a volume take none of the program's signals. */
static int sv_start_quietly(struct sv_mount *m)
{
    sigset_t all, before;
    int rc;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = sv_start(m);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int sv_mount_new(const char *path, struct sv_mount **out, char *why)
{
    struct sv_mount *m = calloc(1, sizeof(*m));
    struct stat st;
    int rc;
    if (m == NULL || strlen(path) + sizeof(".locks") > sizeof(m->volume.locks)) {
        free(m);
        (void)snprintf(why, SV_WHY, "out of memory, or the path is too long");
        return SNIC_ENOMEM;
    }
    m->why = why;
    m->stop.fn = sv_stop;
    (void)snprintf(m->volume.path, sizeof(m->volume.path), "%s", path);
    (void)snprintf(m->volume.locks, sizeof(m->volume.locks), "%s.locks", path);
    m->remote = stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
    rc = sv_start_quietly(m);
    if (rc != 0) {
        sv_free(m);
        return rc;
    }
    m->why = NULL;
    *out = m;
    return 0;
}

/* The one that is open. One whose link has ended is left to those that have it. */
static struct sv_mount *sv_find(const char *path)
{
    for (struct sv_mount **p = &sv_mounts; *p != NULL;) {
        struct sv_mount *m = *p;
        if (strcmp(m->volume.path, path) != 0)
            p = &m->next;
        else if (atomic_load(&m->volume.ended))
            *p = m->next;
        else
            return m;
    }
    return NULL;
}

int sv_volume_is_open(const char *path)
{
    int is_open;
    (void)pthread_mutex_lock(&sv_mounts_lock);
    is_open = sv_find(path) != NULL;
    (void)pthread_mutex_unlock(&sv_mounts_lock);
    return is_open;
}

int sv_volume_get(const char *path, struct sv_volume **out, char *why)
{
    struct sv_mount *m;
    int rc = 0;
    (void)pthread_mutex_lock(&sv_mounts_lock);
    m = sv_find(path);
    if (m == NULL) {
        rc = sv_mount_new(path, &m, why);
        if (rc == 0) {
            m->next = sv_mounts;
            sv_mounts = m;
        }
    }
    if (rc == 0) {
        m->users++;
        *out = &m->volume;
    }
    (void)pthread_mutex_unlock(&sv_mounts_lock);
    return rc;
}

void sv_volume_put(struct sv_volume *v)
{
    struct sv_mount *m = SNIC_CONTAINER(v, struct sv_mount, volume);
    struct sv_mount **p;
    (void)pthread_mutex_lock(&sv_mounts_lock);
    if (--m->users == 0) {
        for (p = &sv_mounts; *p != NULL && *p != m;)
            p = &(*p)->next;
        if (*p == m)
            *p = m->next;
        snic_loop_post(m->host_loop, &m->stop);
        (void)pthread_join(m->host_thread, NULL);
        if (!m->remote)
            (void)pthread_join(m->dpu_thread, NULL);
        sv_free(m);
    }
    (void)pthread_mutex_unlock(&sv_mounts_lock);
}
