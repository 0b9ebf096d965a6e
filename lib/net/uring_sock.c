/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The system calls that net makes on sockets: addresses, options, binding, ends.
 *
 * Sockets are in blocking mode: io_uring never blocks on them, and answers EAGAIN instead of
 * waiting when they are not. So no plain read or write is made here without MSG_DONTWAIT.
 */
#include "net/uring_priv.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int net_uring_addr_to(const struct snic_net_addr *a, union net_uring_sockaddr *s, socklen_t *size)
{
    memset(s, 0, sizeof(*s));
    switch (a->family) {
    case SNIC_NET_IPV4:
        s->v4.sin_family = AF_INET;
        s->v4.sin_port = htons(a->port);
        memcpy(&s->v4.sin_addr, a->ip, 4);
        *size = sizeof(s->v4);
        return 0;
    case SNIC_NET_IPV6:
        s->v6.sin6_family = AF_INET6;
        s->v6.sin6_port = htons(a->port);
        memcpy(&s->v6.sin6_addr, a->ip, 16);
        *size = sizeof(s->v6);
        return 0;
    case SNIC_NET_UNIX:
        if (a->path[0] == '\0' || memchr(a->path, '\0', sizeof(a->path)) == NULL)
            return SNIC_EINVAL;
        s->local.sun_family = AF_UNIX;
        memcpy(s->local.sun_path, a->path, sizeof(a->path));
        *size = sizeof(s->local);
        return 0;
    default:
        return SNIC_ENOTSUP;
    }
}

void net_uring_addr_from(struct snic_net_addr *a, const union net_uring_sockaddr *s, socklen_t size)
{
    memset(a, 0, sizeof(*a));
    if (size >= sizeof(s->v4) && s->any.sa_family == AF_INET) {
        a->family = SNIC_NET_IPV4;
        a->port = ntohs(s->v4.sin_port);
        memcpy(a->ip, &s->v4.sin_addr, 4);
    } else if (size >= sizeof(s->v6) && s->any.sa_family == AF_INET6) {
        a->family = SNIC_NET_IPV6;
        a->port = ntohs(s->v6.sin6_port);
        memcpy(a->ip, &s->v6.sin6_addr, 16);
    } else {
        a->family = SNIC_NET_UNIX;
        if (size > offsetof(struct sockaddr_un, sun_path))
            memcpy(a->path, s->local.sun_path, sizeof(a->path) - 1);
    }
}

/* The SNIC_E* code for a kernel error of a connection. */
int net_uring_error(int os_error)
{
    switch (os_error < 0 ? -os_error : os_error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return SNIC_ECONNRESET;
    case ECONNREFUSED:
    case ENOENT: /* UNIX: no such socket */
    case ENOTSOCK:
    case EAGAIN: /* UNIX: the backlog is full */
        return SNIC_ECONNREFUSED;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
        return SNIC_EHOSTUNREACH;
    default:
        return snic_error_from_os(os_error);
    }
}

static int net_uring_open_error(int os_error)
{
    switch (os_error) {
    case EADDRINUSE:
        return SNIC_EADDRINUSE;
    case EACCES:
    case EPERM:
    case EROFS:
        return SNIC_EACCES;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return SNIC_ENOSPC;
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return SNIC_ENOTSUP;
    default: /* EADDRNOTAVAIL, ENOENT: not an address of this machine */
        return SNIC_EINVAL;
    }
}

int net_uring_socket(const struct snic_net_addr *a, int type)
{
    int domain = a->family == SNIC_NET_UNIX   ? AF_UNIX
                 : a->family == SNIC_NET_IPV6 ? AF_INET6
                                              : AF_INET;
    int fd = socket(domain, type | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : net_uring_open_error(errno);
}

static void net_uring_sock_set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value)); /* a wish, not a need */
}

/* How long bytes may stay without acknowledgement. */
void net_uring_sock_patience(int fd, uint32_t ms)
{
    net_uring_sock_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms);
}

/* No delay, and an end for peers that are silent for idle_ms. Accepted sockets inherit this. */
void net_uring_sock_stream(int fd, const struct snic_net_addr *a,
                           const struct snic_net_uring_opts *o)
{
    int idle_s = (int)(o->idle_ms / 2000);
    if (a->family == SNIC_NET_UNIX)
        return;
    net_uring_sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    net_uring_sock_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    net_uring_sock_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s < 1 ? 1 : idle_s);
    net_uring_sock_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, idle_s < 5 ? 1 : idle_s / 5);
    net_uring_sock_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
    if (o->sent_ms != UINT32_MAX)
        net_uring_sock_patience(fd, o->sent_ms != 0 ? o->sent_ms : o->idle_ms);
}

int net_uring_path_id(const char *path, uint64_t *dev, uint64_t *ino)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return SNIC_ENOENT;
    *dev = (uint64_t)st.st_dev;
    *ino = (uint64_t)st.st_ino;
    return 0;
}

/* Remove a stale socket file, without a listener; 1 when it is gone. */
static int net_uring_path_stale(const union net_uring_sockaddr *s, socklen_t size)
{
    uint64_t dev = 0;
    uint64_t ino = 0;
    if (net_uring_path_id(s->local.sun_path, &dev, &ino) < 0)
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    int refused = connect(fd, &s->any, size) < 0 && errno == ECONNREFUSED;
    (void)close(fd);
    return refused && unlink(s->local.sun_path) == 0;
}

/* bind(), and again while another has the address and taken_wait_ms have not passed. */
int net_uring_sock_bind(int fd, const union net_uring_sockaddr *s, socklen_t size, uint32_t wait_ms)
{
    const struct timespec pause = {.tv_nsec = SNIC_NET__URING_BIND_MS * 1000000L};
    for (uint32_t waited = 0;; waited += SNIC_NET__URING_BIND_MS) {
        int r = bind(fd, &s->any, size);
        if (r < 0 && errno == EADDRINUSE && s->any.sa_family == AF_UNIX &&
            net_uring_path_stale(s, size))
            r = bind(fd, &s->any, size);
        if (r == 0 || errno != EADDRINUSE || waited >= wait_ms)
            return r;
        (void)nanosleep(&pause, NULL);
    }
}

/* A listening socket, or SNIC_E*. */
int net_uring_sock_listen(const struct snic_net_addr *a, uint32_t flags,
                          const struct snic_net_uring_opts *o)
{
    union net_uring_sockaddr s;
    socklen_t size = 0;
    int e = net_uring_addr_to(a, &s, &size);
    if (e < 0)
        return e;
    int fd = net_uring_socket(a, SOCK_STREAM);
    if (fd < 0)
        return fd;
    if (a->family != SNIC_NET_UNIX) {
        net_uring_sock_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if ((flags & SNIC_NET_REUSEPORT) != 0)
            net_uring_sock_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
        if (a->family == SNIC_NET_IPV6)
            net_uring_sock_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    net_uring_sock_stream(fd, a, o);
    int r = net_uring_sock_bind(fd, &s, size, o->taken_wait_ms);
    if (r == 0)
        r = listen(fd, SNIC_NET__URING_BACKLOG);
    if (r < 0) {
        e = net_uring_open_error(errno);
        (void)close(fd);
        return e;
    }
    return fd;
}

/*
 * Have the kernel choose socket number (CPU % group) of those that share @fd's port, numbered in
 * the order in which they were bound; 1 if it will. The program is the whole group's, so that each
 * replaces its like; where it names a socket that is not there (yet), the flow's hash decides.
 */
int net_uring_sock_steer(int fd, uint32_t group)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_CPU)),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, group),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = SNIC_COUNTOF(code), .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0;
}

/* Close without good-bye: what is queued is dropped and the peer sees a reset. */
void net_uring_sock_reset(int fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    (void)close(fd);
}

/* Bytes that the peer's kernel has not acknowledged, our end included. */
uint64_t net_uring_sock_unsent(int fd)
{
    int left = 0;
    return ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0 ? (uint64_t)left : 0;
}

/* The error that a socket has noticed, as errno; it is forgotten by this. */
int net_uring_sock_error(int fd)
{
    int e = 0;
    socklen_t size = sizeof(e);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size) < 0 ? errno : e;
}
