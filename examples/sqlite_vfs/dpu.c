/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU role for several processes of a host:
 *
 *     sqlite_dpu IMAGE SOCKET
 *
 * mounts IMAGE and serves the processes that connect to SOCKET until SIGTERM or SIGINT. A file of
 * the lock folder, SOCKET.locks, is locked for each of them until none of its requests can take
 * effect any more (lock.h).
 * Exit code: 0 ended orderly, 1 a failure, 2 wrong usage.
 */
#include "image.h"
#include "lock.h"

#include "../common.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct peer {
    struct peer *next;
    struct dpu *dpu;
    struct snic_channel_hub *hub;
    struct snic_files_server *server;
    void *hub_mem, *server_mem;
    uint32_t pid;
    int lock_fd; /* -1: it has opened no channel yet */
    int dead;
    char lock[PATH_MAX + 32];
};

struct dpu {
    struct snic_loop *loop;
    struct sv_image image;
    struct peer *peers;
    const char *socket;
    char locks[PATH_MAX];
    int stopped;
};

static void peer_gone(void *ctx, struct snic_files_server *s, int reason)
{
    (void)s;
    (void)reason;
    ((struct peer *)ctx)->dead = 1;
}

static void peer_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    struct peer *p = ctx;
    (void)hub;
    p->dead = 1;
    ex_log(EX_INFO, "process %u is gone%s", p->pid,
           cause == SNIC_DMA_DEATH_EXIT ? ": it was killed, or ended without closing" : "");
}

/* Before the first request is taken: K4 of lock.c. */
static int peer_lock(struct peer *p, uint64_t host)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    (void)snprintf(p->lock, sizeof(p->lock), "%s/" SV_HOST_NAME, p->dpu->locks, host);
    p->lock_fd = open(p->lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->lock_fd >= 0 && fcntl(p->lock_fd, F_OFD_SETLK, &f) == 0)
        return 0;
    ex_log(EX_ERROR, "process %u is refused: cannot lock '%s': %s", p->pid, p->lock,
           strerror(errno));
    return SNIC_EIO;
}

static int peer_accept(void *ctx, struct snic_channel_hub *hub,
                       const struct snic_channel_offer *offer)
{
    struct peer *p = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o), .gone = peer_gone, .ctx = p};
    size_t size = snic_files_server_memsize(&o);
    int rc;
    if (p->server_mem != NULL || offer->id == 0)
        return SNIC_ECONNREFUSED;
    rc = peer_lock(p, offer->id);
    p->server_mem = sv_memory(size);
    if (rc == 0 && p->server_mem == NULL)
        rc = SNIC_ENOMEM;
    if (rc == 0)
        rc = snic_files_serve(&p->server, p->server_mem, size, p->dpu->image.files, hub, offer, &o);
    return rc;
}

static void dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct dpu *d = ctx;
    struct peer *p = calloc(1, sizeof(*p));
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .accept = peer_accept};
    size_t size = snic_channel_hub_memsize(&o);
    o.death = peer_death;
    o.ctx = p;
    if (p != NULL)
        p->hub_mem = sv_memory(size);
    if (p == NULL || p->hub_mem == NULL ||
        snic_channel_hub_init(&p->hub, p->hub_mem, size, dma, &o) != 0) {
        ex_log(EX_ERROR, "process %u is refused: out of memory", pid);
        snic_dma_close(dma);
        free(p == NULL ? NULL : p->hub_mem);
        free(p);
        return;
    }
    p->dpu = d;
    p->pid = pid;
    p->lock_fd = -1;
    p->next = d->peers;
    d->peers = p;
    ex_log(EX_INFO, "process %u connected", pid);
}

/* Everything that it had sent is executed; then its locks may be taken by others. */
static void peer_close(struct peer *p)
{
    if (p->server != NULL)
        (void)snic_files_server_close(p->server);
    (void)snic_channel_hub_fini(p->hub);
    if (p->lock_fd >= 0) {
        (void)unlink(p->lock);
        (void)close(p->lock_fd);
    }
    free(p->server_mem);
    free(p->hub_mem);
    free(p);
}

/* At the top level: closing runs the loop. */
static void dpu_reap(struct dpu *d, int all)
{
    for (struct peer **at = &d->peers; *at != NULL;) {
        struct peer *p = *at;
        if (!p->dead && !all) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        peer_close(p);
        at = &d->peers; /* others may have come or died meanwhile */
    }
}

static void dpu_stop(void *ctx)
{
    ((struct dpu *)ctx)->stopped = 1;
}

static int dpu_run(struct dpu *d)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = d->socket};
    struct snic_dma_listener *listener;
    int rc = snic_dma_shm_listen(&listener, d->loop, &o, dpu_accept, d);
    if (rc != 0)
        ex_die("cannot listen on socket '%s': %s", d->socket, ex_listen_error(d->socket, rc));
    ex_signals(d->loop, dpu_stop, d);
    ex_log(EX_INFO, "ready");
    while (rc >= 0 && !d->stopped) {
        rc = snic_loop_once(d->loop, SNIC_NEVER);
        dpu_reap(d, 0);
    }
    if (rc < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(rc));
    ex_signals_off();
    snic_dma_shm_unlisten(listener);
    dpu_reap(d, 1);
    return rc < 0;
}

int main(int argc, char **argv)
{
    struct dpu d = {0};
    char why[SV_WHY];
    int rc;
    if (argc != 3 || argv[1][0] == '-') {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fprintf(help ? stdout : stderr,
                      "usage: sqlite_dpu IMAGE SOCKET\nServe the databases of IMAGE to processes "
                      "that name SOCKET as their volume (sqlite_vfs).\n");
        return help ? 0 : 2;
    }
    if ((size_t)snprintf(d.locks, sizeof(d.locks), "%s.locks", argv[2]) >= sizeof(d.locks))
        ex_die("the path of the socket is too long");
    d.socket = argv[2];
    d.loop = ex_loop_open(0);
    if (sv_image_open(&d.image, d.loop, argv[1], d.locks, why) != 0)
        ex_die("cannot serve image '%s': %s", argv[1], why);
    rc = dpu_run(&d);
    sv_image_close(&d.image);
    snic_loop_close(d.loop);
    return rc;
}
