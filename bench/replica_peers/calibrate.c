/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the machine itself takes: the rows that the servers' rows are read beside.
 *
 *     calibrate FOLDER NODES SECONDS
 *
 * disk   NODES processes write 4 KiB and fdatasync at the same time, each to a file of its own,
 *        past the page cache; the slowest counts. In turns with the next:
 * floor  a replicated write with nothing but its messages and disks: 1 KiB from a client by TCP to
 *        one process, from that to NODES - 1 others, all write 4 KiB durably, the others answer,
 *        the first answers the client. Blocking calls, and RWF_DSYNC for write and fdatasync: of
 *        what was tried (io_uring with a flush of its own, or with RWF_DSYNC), the fastest
 * echo   1 KiB to another process over loopback TCP and back
 * copy   memcpy of 1 KiB
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/base.h"

enum { NODES = 8, BLOCK = 4096, BYTES = 1024, ANSWER = 64, FILE_BLOCKS = 4096 };

static uint64_t now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void all(int fd, void *bytes, size_t size, int out)
{
    unsigned char *p = bytes;
    while (size > 0) {
        ssize_t n = out ? write(fd, p, size) : read(fd, p, size);
        must(n > 0 || !out, "write");
        if (n <= 0)
            _exit(0); /* the parent has ended */
        p += n;
        size -= (size_t)n;
    }
}

/* The node's file, past the page cache where that can be. */
static int disk_open(const char *folder, const char *name, int node, unsigned char *block)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s.%d", folder, name, node);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(file >= 0 && block != NULL, path);
    memset(block, 'x', BLOCK);
    for (int i = 0; i < FILE_BLOCKS; i++)
        all(file, block, BLOCK, 1);
    must(fsync(file) == 0, "fsync");
    int direct = open(path, O_RDWR | O_DIRECT);
    must(unlink(path) == 0, path);
    return direct < 0 ? file : direct;
}

/* A byte in: write and flush; nanoseconds out. */
static void disk_node(const char *folder, int node, int fd)
{
    unsigned char *block = aligned_alloc(BLOCK, BLOCK);
    int file = disk_open(folder, "disk", node, block);
    for (off_t i = 0;; i++) {
        char go;
        all(fd, &go, 1, 0);
        uint64_t start = now();
        must(pwrite(file, block, BLOCK, i % FILE_BLOCKS * BLOCK) == BLOCK, "pwrite");
        must(fdatasync(file) == 0, "fdatasync");
        uint64_t took = now() - start;
        all(fd, &took, sizeof(took), 1);
    }
}

/* The first node has the connections to the others. */
static void floor_node(const char *folder, int node, int fd, const int *others, int count)
{
    unsigned char bytes[BYTES];
    struct iovec block = {aligned_alloc(BLOCK, BLOCK), BLOCK};
    int file = disk_open(folder, "floor", node, block.iov_base);
    for (off_t i = 0;; i++) {
        off_t at = i % FILE_BLOCKS * BLOCK;
        all(fd, bytes, BYTES, 0);
        for (int n = 0; n < count; n++)
            all(others[n], bytes, BYTES, 1);
        must(pwritev2(file, &block, 1, at, RWF_DSYNC) == BLOCK, "pwritev2");
        for (int n = 0; n < count; n++)
            all(others[n], bytes, ANSWER, 0);
        all(fd, bytes, ANSWER, 1);
    }
}

static void echo_node(int fd)
{
    unsigned char bytes[BYTES];
    for (;;) {
        all(fd, bytes, BYTES, 0);
        all(fd, bytes, BYTES, 1);
    }
}

static int tcp_pair(int fd[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int one = 1;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (l < 0 || fd[0] < 0 || bind(l, (struct sockaddr *)&a, size) != 0 || listen(l, 1) != 0 ||
        getsockname(l, (struct sockaddr *)&a, &size) != 0 ||
        connect(fd[0], (struct sockaddr *)&a, size) != 0)
        return -1;
    fd[1] = accept(l, NULL, NULL);
    (void)setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    close(l);
    return fd[1] < 0 ? -1 : 0;
}

static void child(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void report(const char *name, const struct snic_hist *h)
{
    printf("%s_p50_us=%.3f\n%s_p99_us=%.3f\n", name, (double)snic_hist_quantile(h, 500000) * 1e-3,
           name, (double)snic_hist_quantile(h, 990000) * 1e-3);
}

int main(int argc, char **argv)
{
    static struct snic_hist disk, floor, echo, copy;
    static unsigned char bytes[2][BYTES];
    int nodes[NODES], others[NODES], pair[2], tcp[2], client[2];
    must(argc == 4, "calibrate FOLDER NODES SECONDS");
    int count = (int)strtol(argv[2], NULL, 10);
    must(count >= 1 && count <= NODES, "NODES");
    for (int i = 0; i < count; i++) {
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
        if (fork() == 0) {
            child();
            close(pair[0]);
            disk_node(argv[1], i, pair[1]);
        }
        close(pair[1]);
        nodes[i] = pair[0];
    }
    must(tcp_pair(client) == 0, "tcp");
    for (int i = count; i-- > 0;) {
        must(i == 0 || tcp_pair(pair) == 0, "tcp");
        if (fork() == 0) {
            child();
            floor_node(argv[1], i, i == 0 ? client[1] : pair[1], others, i == 0 ? count - 1 : 0);
        }
        if (i > 0)
            others[i - 1] = pair[0];
    }
    must(tcp_pair(tcp) == 0, "tcp");
    if (fork() == 0) {
        child();
        echo_node(tcp[1]);
    }
    uint64_t until = now() + (uint64_t)(strtod(argv[3], NULL) * 1e9);
    for (uint64_t n = 0; n < 20 || now() < until; n++) {
        uint64_t slowest = 0, took;
        char go = 0;
        for (int i = 0; i < count; i++)
            all(nodes[i], &go, 1, 1);
        for (int i = 0; i < count; i++) {
            all(nodes[i], &took, sizeof(took), 0);
            slowest = took > slowest ? took : slowest;
        }
        snic_hist_record(&disk, slowest);
        uint64_t start = now();
        all(client[0], bytes[0], BYTES, 1);
        all(client[0], bytes[0], ANSWER, 0);
        snic_hist_record(&floor, now() - start);
        start = now();
        all(tcp[0], bytes[0], BYTES, 1);
        all(tcp[0], bytes[0], BYTES, 0);
        snic_hist_record(&echo, now() - start);
        start = now();
        for (int i = 0; i < 100; i++) {
            memcpy(bytes[i % 2], bytes[1 - i % 2], BYTES);
            __asm__ volatile("" : : "r"(bytes) : "memory");
        }
        snic_hist_record(&copy, (now() - start) / 100);
    }
    report("disk", &disk);
    report("floor", &floor);
    report("echo", &echo);
    report("copy", &copy);
    return 0;
}
