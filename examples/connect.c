/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The connection of `ctl` with its server. */
#include "common.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int ex_connect(const struct sockaddr *to, uint32_t size, uint64_t seconds)
{
    struct timeval t = {.tv_sec = (time_t)seconds};
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = -1;

    if (fd < 0)
        return -1;
    /* With a timeout a stopped process gets EINTR. Linux continues a TCP connect() when it is
     * repeated, and a UNIX socket that has waited for a place in the backlog waits again. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) == 0)
        do
            r = connect(fd, to, size);
        while (r != 0 && errno == EINTR);
    if (r == 0)
        return fd;
    r = errno == EINPROGRESS || errno == EALREADY || errno == EAGAIN ? ETIMEDOUT : errno;
    (void)close(fd);
    errno = r;
    return -1;
}
