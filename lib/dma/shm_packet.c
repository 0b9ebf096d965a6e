/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two processes: packets on the socket, with their descriptors.
 *
 * Invariant
 *   S5 Packets leave in the order asked for: directly only if none waits. UNREG and DROP are
 *      marks on their entries; while one waits, nothing else is taken.
 */
#include "dma/shm_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SNIC_DMA_SHM__RETRY_NS 1000000

struct dma_shm_wire dma_shm_wire_make(enum dma_shm_type type)
{
    return (struct dma_shm_wire){
        .magic = SNIC_DMA_SHM__MAGIC, .version = SNIC_DMA_SHM__VERSION, .type = (uint16_t)type};
}

int dma_shm_transmit(int fd, const struct dma_shm_wire *w, const void *bytes, const int *fds,
                     uint32_t fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SNIC_DMA_SHM__FDS * sizeof(int))];
    } control;
    struct iovec iov[2] = {{(void *)(uintptr_t)w, sizeof(*w)}, {(void *)(uintptr_t)bytes, w->size}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = w->size > 0 ? 2 : 1};
    if (fd_count > 0) {
        SNIC_ASSERT(fd_count <= SNIC_DMA_SHM__FDS);
        memset(&control, 0, sizeof(control));
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    for (;;) {
        if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 1;
        if (errno == EINTR || errno == ECONNRESET) /* the peer left packets unread: see recv */
            continue;
        return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS
                   ? 0
                   : SNIC_EPIPE;
    }
}

void dma_shm_close_fds(struct dma_shm_in *in)
{
    for (int i = 0; i < in->fd_count; i++)
        if (in->fds[i] >= 0)
            (void)close(in->fds[i]);
    in->fd_count = 0;
}

/** Keep the descriptors of the packet; 0 when there are too many. */
static int dma_shm_take_fds(struct msghdr *m, struct dma_shm_in *in)
{
    int ok = 1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (in->fd_count < SNIC_DMA_SHM__FDS) {
                in->fds[in->fd_count++] = fd;
            } else {
                (void)close(fd);
                ok = 0;
            }
        }
    }
    return ok;
}

int dma_shm_receive(int fd, struct dma_shm_in *in)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(SNIC_DMA_SHM__FDS * sizeof(int))];
    } control;
    struct iovec iov[2] = {{&in->wire, sizeof(in->wire)}, {in->bytes, sizeof(in->bytes)}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n;
    in->fd_count = 0;
    do {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof(control.bytes);
        n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        /* A peer that closes with packets unread leaves ECONNRESET in front of what it sent. */
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0)
        return errno == EAGAIN ? 0 : SNIC_EIO;
    if (n == 0)
        return SNIC_EPIPE;
    int ok = dma_shm_take_fds(&m, in) && (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
             (size_t)n >= sizeof(in->wire) && in->wire.magic == SNIC_DMA_SHM__MAGIC &&
             in->wire.size == (size_t)n - sizeof(in->wire);
    if (!ok)
        dma_shm_close_fds(in);
    return ok ? 1 : SNIC_EPROTO;
}

/** Put a packet behind those that wait. 0, or SNIC_EAGAIN: no place. */
static int dma_shm_enqueue(struct dma_shm *s, const struct dma_shm_wire *w, const void *bytes,
                           int fd)
{
    if (s->out_tail - s->out_head == SNIC_DMA_SHM__QUEUE)
        return SNIC_EAGAIN;
    struct dma_shm_out *o = &s->out[s->out_tail % SNIC_DMA_SHM__QUEUE];
    o->fd = -1;
    if (fd >= 0) {
        o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (o->fd < 0)
            return SNIC_EAGAIN;
    }
    o->wire = *w;
    if (w->size > 0)
        memcpy(o->bytes, bytes, w->size);
    s->out_tail++;
    return 0;
}

void dma_shm_drop_queue(struct dma_shm *s)
{
    for (; s->out_head != s->out_tail; s->out_head++) {
        struct dma_shm_out *o = &s->out[s->out_head % SNIC_DMA_SHM__QUEUE];
        if (o->fd >= 0)
            (void)close(o->fd);
    }
}

/** Send the marked UNREGs and DROPs. 1 when none is left. */
static int dma_shm_flush_lazy(struct dma_shm *s)
{
    struct dma_shm_wire w = dma_shm_wire_make(DMA_SHM_UNREG);
    for (uint32_t i = 0; i < SNIC_DMA_SHM__REGIONS; i++) {
        if (!s->exports[i].unreg)
            continue;
        w.a = s->exports[i].key;
        if (dma_shm_transmit(s->fd, &w, NULL, NULL, 0) == 0)
            return 0;
        s->exports[i].unreg = 0;
        s->exports[i].key = 0;
    }
    w.type = DMA_SHM_DROP;
    for (uint32_t i = 0; i < SNIC_DMA_SHM__BLOCKS; i++) {
        if (!s->blocks[i].drop)
            continue;
        w.a = i;
        if (dma_shm_transmit(s->fd, &w, NULL, NULL, 0) == 0)
            return 0;
        s->blocks[i].drop = 0;
    }
    s->lazy = 0;
    return 1;
}

void dma_shm_flush(struct dma_shm *s)
{
    if (s->hold || s->closed)
        return;
    while (s->out_head != s->out_tail) {
        struct dma_shm_out *o = &s->out[s->out_head % SNIC_DMA_SHM__QUEUE];
        int r = dma_shm_transmit(s->fd, &o->wire, o->bytes, &o->fd, o->fd >= 0 ? 1 : 0);
        if (r == 0)
            break;
        if (o->fd >= 0)
            (void)close(o->fd);
        s->out_head++;
    }
    if (s->out_head == s->out_tail && (!s->lazy || dma_shm_flush_lazy(s)))
        return;
    snic_loop_arm(s->dma.loop, &s->retry, snic_loop_now(s->dma.loop) + SNIC_DMA_SHM__RETRY_NS);
}

void dma_shm_retry(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    dma_shm_flush(SNIC_CONTAINER(t, struct dma_shm, retry));
}

int dma_shm_packet(struct dma_shm *s, const struct dma_shm_wire *w, const void *bytes, int fd)
{
    if (s->lazy)
        dma_shm_flush(s);
    if (s->lazy)
        return SNIC_EAGAIN; /* S5 */
    if (!s->hold && s->out_head == s->out_tail) {
        int r = dma_shm_transmit(s->fd, w, bytes, &fd, fd >= 0 ? 1 : 0);
        if (r != 0)
            return r == 1 ? 0 : r;
    }
    int r = dma_shm_enqueue(s, w, bytes, fd);
    dma_shm_flush(s);
    return r;
}
