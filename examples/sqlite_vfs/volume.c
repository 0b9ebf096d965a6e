/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two threads per volume, as in files_local.c: the DPU's mounts and serves the image, the host's
 * runs the loop of the file library. SQLite's threads call the library (filelib_sync.h).
 */
#include "volume.h"

#include "snicstore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sv_mount {
    struct sv_volume volume;
    struct sv_mount *next;
    uint32_t users;
    char *why; /* while it opens */
    struct snic_loop *dpu_loop;
    struct snic_loop *host_loop;
    struct snic_dma *host_dma;
    struct snic_dma *dpu_dma;
    struct snic_io *io;
    struct snic_files *files;
    struct snic_files_server *server;
    struct snic_channel_hub *dpu_hub;
    struct snic_channel_hub *host_hub;
    struct snic_filelib *group;
    void *files_mem, *server_mem, *dpu_hub_mem, *host_hub_mem, *group_mem;
    struct snic_loop_msg stop;
    pthread_barrier_t ready; /* before it `opened` and the links are set */
    int opened;              /* of the DPU's thread: 0 or SNIC_E*        */
    pthread_t dpu_thread, host_thread;
};

static pthread_mutex_t sv_mounts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sv_mount *sv_mounts;

static void *sv_memory(size_t size)
{
    return size == 0
               ? NULL
               : aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(size, SNIC_FILES_ALIGN));
}

static int sv_failed(struct sv_mount *m, const char *what, int rc, int os_error)
{
    (void)snprintf(m->why, SV_WHY, "%s: %.120s: %s", what, m->volume.path,
                   os_error != 0 ? strerror(abs(os_error)) : snic_strerror(rc));
    return rc;
}

/* ---- The lock folder ---- */

/* The folder may be a link to one with files of others. */
static int sv_is_ours(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL && (strcmp(dot, ".lock") == 0 || strcmp(dot, ".shm") == 0);
}

/*
 * Locks and shared memory belong to the mount before and must not outlive it: a wal-index may
 * describe writes that were lost with the power.
 */
static int sv_locks_prepare(struct sv_mount *m)
{
    const char *path = m->volume.locks;
    struct dirent *e;
    DIR *d;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sv_failed(m, "cannot make the lock folder PATH.locks", SNIC_EIO, errno);
    d = opendir(path);
    if (d == NULL)
        return sv_failed(m, "cannot read the lock folder PATH.locks", SNIC_EIO, errno);
    while ((e = readdir(d)) != NULL)
        if (sv_is_ours(e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    return 0;
}

/* ---- The DPU's thread ---- */

/* A file without any data becomes an image; what holds something stays as it is. */
static int sv_is_hole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int hole = fd >= 0 && lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
    if (fd >= 0)
        (void)close(fd);
    return hole;
}

static int sv_mount_image(struct sv_mount *m)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = m->volume.path};
    struct snic_files_format_opts format = {.opts_size = sizeof(format)};
    struct snic_files_info info;
    int os_error = 0, hole = sv_is_hole(m->volume.path), rc;
    size_t size;
    o.flags = SNIC_IO_OPEN_TRY_DIRECT | SNIC_IO_OPEN_LOCK;
    rc = snic_io_uring_open(&m->io, m->dpu_loop, &o, &os_error);
    if (rc == SNIC_EBUSY)
        return sv_failed(m, "the image is in use by another process", rc, 0);
    if (rc != 0)
        return sv_failed(m, "cannot open the image", rc, os_error);
    rc = snic_files_probe(m->io, &info);
    if (rc == SNIC_ENOENT && !hole)
        return sv_failed(m, "neither an image of the file service nor an empty file", rc, 0);
    if (rc == SNIC_ENOENT) {
        rc = snic_files_format(m->io, &format);
        if (rc == 0)
            rc = snic_files_probe(m->io, &info);
    }
    if (rc != 0)
        return sv_failed(m, "cannot format or read the image", rc, 0);
    size = snic_files_memsize(&info, NULL);
    m->files_mem = sv_memory(size);
    if (m->files_mem == NULL)
        return sv_failed(m, "out of memory for the image's tables", SNIC_ENOMEM, 0);
    rc = snic_files_mount(&m->files, m->files_mem, size, m->io, NULL);
    return rc == 0 ? sv_locks_prepare(m) : sv_failed(m, "cannot mount the image", rc, 0);
}

static void sv_host_gone(void *ctx, struct snic_files_server *s, int reason)
{
    (void)s;
    (void)reason;
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
    return snic_files_serve(&m->server, m->server_mem, size, m->files, hub, offer, &o);
}

static struct snic_channel_hub *sv_hub(struct sv_mount *m, struct snic_dma *dma, void **mem,
                                       int dpu)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .ctx = m};
    size_t size = snic_channel_hub_memsize(&o);
    struct snic_channel_hub *hub = NULL;
    o.accept = dpu ? sv_host_accept : NULL;
    *mem = sv_memory(size);
    if (*mem == NULL || snic_channel_hub_init(&hub, *mem, size, dma, &o) != 0)
        return NULL;
    return hub;
}

static int sv_dpu_open(struct sv_mount *m)
{
    struct snic_dma_events none = {0};
    int rc = sv_mount_image(m);
    if (rc == 0)
        rc =
            snic_dma_local_open(&m->host_dma, m->host_loop, &none, &m->dpu_dma, m->dpu_loop, &none);
    if (rc == 0) {
        m->dpu_hub = sv_hub(m, m->dpu_dma, &m->dpu_hub_mem, 1);
        m->host_hub = sv_hub(m, m->host_dma, &m->host_hub_mem, 0);
        if (m->dpu_hub == NULL || m->host_hub == NULL)
            rc = sv_failed(m, "cannot link the host role to the DPU role", SNIC_ENOMEM, 0);
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
    if (m->files != NULL)
        (void)snic_files_unmount(m->files);
    if (m->io != NULL)
        snic_io_close(m->io);
    snic_loop_close(m->dpu_loop);
}

static void *sv_dpu(void *arg)
{
    struct sv_mount *m = arg;
    m->opened = sv_dpu_open(m);
    (void)pthread_barrier_wait(&m->ready);
    if (m->opened == 0)
        (void)snic_loop_run(m->dpu_loop); /* until the host has gone */
    sv_dpu_close(m);
    return NULL;
}

/* ---- The host's thread ---- */

static void sv_stop(struct snic_loop_msg *msg)
{
    snic_loop_stop(SNIC_CONTAINER(msg, struct sv_mount, stop)->host_loop);
}

static void *sv_host(void *arg)
{
    struct sv_mount *m = arg;
    (void)snic_loop_run(m->host_loop);
    (void)snic_filelib_close(m->group);
    while (snic_channel_hub_count(m->host_hub) > 0)
        if (snic_loop_once(m->host_loop, SNIC_NEVER) < 0)
            break;
    (void)snic_channel_hub_fini(m->host_hub);
    snic_loop_close(m->host_loop);
    return NULL;
}

static int sv_host_open(struct sv_mount *m)
{
    struct snic_filelib_opts o = {.opts_size = sizeof(o)};
    size_t size = snic_filelib_memsize(&o);
    int rc = SNIC_ENOMEM;
    m->group_mem = sv_memory(size);
    if (m->group_mem != NULL)
        rc = snic_filelib_open(&m->group, m->group_mem, size, m->host_hub, &o);
    if (rc == 0)
        rc = snic_filelib_sync_init(&m->volume.sync, m->group, 0);
    if (rc == 0)
        rc = -pthread_create(&m->host_thread, NULL, sv_host, m);
    return rc == 0 ? 0 : sv_failed(m, "cannot start the file library", rc, 0);
}

/* ---- Open, close ---- */

static void sv_free(struct sv_mount *m)
{
    free(m->files_mem);
    free(m->server_mem);
    free(m->dpu_hub_mem);
    free(m->host_hub_mem);
    free(m->group_mem);
    free(m);
}

static int sv_loops(struct sv_mount *m)
{
    int os_error = 0, rc;
    struct snic_loop_uring_opts o = {.opts_size = sizeof(o), .os_error = &os_error};
    rc = snic_loop_uring_open(&m->dpu_loop, &o);
    if (rc == 0) {
        rc = snic_loop_uring_open(&m->host_loop, &o);
        if (rc != 0)
            snic_loop_close(m->dpu_loop);
    }
    return rc == 0 ? 0 : sv_failed(m, "cannot set up io_uring", rc, os_error);
}

static int sv_start(struct sv_mount *m)
{
    int rc = sv_loops(m);
    if (rc != 0)
        return rc;
    (void)pthread_barrier_init(&m->ready, NULL, 2);
    if (pthread_create(&m->dpu_thread, NULL, sv_dpu, m) != 0) {
        snic_loop_close(m->host_loop);
        snic_loop_close(m->dpu_loop);
        return sv_failed(m, "cannot start a thread", SNIC_ENOMEM, 0);
    }
    (void)pthread_barrier_wait(&m->ready);
    rc = m->opened;
    if (rc == 0)
        rc = sv_host_open(m);
    if (rc != 0) {
        if (m->host_hub != NULL)
            (void)snic_channel_hub_fini(m->host_hub);
        snic_loop_close(m->host_loop);
        (void)pthread_join(m->dpu_thread, NULL);
    }
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
    rc = sv_start_quietly(m);
    if (rc != 0) {
        sv_free(m);
        return rc;
    }
    m->why = NULL;
    *out = m;
    return 0;
}

int sv_volume_get(const char *path, struct sv_volume **out, char *why)
{
    struct sv_mount *m;
    int rc = 0;
    (void)pthread_mutex_lock(&sv_mounts_lock);
    for (m = sv_mounts; m != NULL && strcmp(m->volume.path, path) != 0;)
        m = m->next;
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
        for (p = &sv_mounts; *p != m;)
            p = &(*p)->next;
        *p = m->next;
        snic_loop_post(m->host_loop, &m->stop);
        (void)pthread_join(m->host_thread, NULL);
        (void)pthread_join(m->dpu_thread, NULL);
        sv_free(m);
    }
    (void)pthread_mutex_unlock(&sv_mounts_lock);
}
