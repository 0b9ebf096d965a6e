/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume: virtual disks over a network, by SOLAR (UDP) or LUNA (TCP).
 *
 *     solar_volume server --listen 127.0.0.1:7000 --store disk.img --store-size 4G --disk 1:1G
 *     solar_volume client --server 127.0.0.1:7000 --disk 1 --size 1G --epoch 1 \
 *         --socket /tmp/nbd.sock
 *     qemu-img info nbd+unix:///?socket=/tmp/nbd.sock
 *
 * The epoch has to be higher at each start of a client of this disk: writes of an epoch that was
 * used before count as older than the stored ones, and are lost.
 *
 * With a catalog of disks and servers, so that a disk is on several of them:
 *
 *     solar_volume ctl serve --listen 127.0.0.1:7100 --catalog catalog.log
 *     solar_volume server --listen 127.0.0.1:7000 --store a.img --control 127.0.0.1:7100
 *     solar_volume server --listen 127.0.0.1:7001 --store b.img --control 127.0.0.1:7100
 *     solar_volume ctl create root 8G
 *     solar_volume client --control 127.0.0.1:7100 --disk root --socket /tmp/nbd.sock
 *     solar_volume ctl move root all 2
 *
 * Keys are in files (keys.h): `ctl key disk FILE`, `ctl key wire FILE`; --disk-key, --wire-key.
 * Servers that copy segments from each other (--peer) use none: that is for a network of their own.
 */
#include "volume.h"

#include "../version.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

uint64_t sv_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        ex_die("cannot get random numbers: getrandom: %s", strerror(errno));
    return seed;
}

void *sv_memory(size_t size)
{
    void *p = size != 0 ? aligned_alloc(4096, snic_align_up(size, 4096)) : NULL;
    if (size == 0)
        ex_die("these options do not fit together: lower --connections, --servers, --disks or "
               "--segments");
    if (p == NULL)
        ex_die("out of memory: %zu bytes are needed; lower --connections, --servers, --disks or "
               "--segments",
               size);
    return p;
}

/* A file without a byte is one that was being made when its maker ended. */
static int file_is_empty(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0;
}

struct snic_io *sv_file(struct snic_loop *loop, const char *option, const char *path, uint64_t size)
{
    struct snic_io_uring_opts o = {.opts_size = sizeof(o), .path = path};
    struct snic_io *io = NULL;
    int os_error = 0, r = SNIC_ENOENT;
    o.flags = SNIC_IO_OPEN_TRY_DIRECT | SNIC_IO_OPEN_LOCK;
    if (!file_is_empty(path))
        r = ex_io_open(&io, loop, &o, &os_error);
    if (r == SNIC_ENOENT) {
        o.flags |= SNIC_IO_OPEN_CREATE;
        o.size = size;
        r = ex_io_open(&io, loop, &o, &os_error);
        ex_no_room(path, size, *option == 's' ? "--store-size" : "--catalog-size", os_error);
    }
    if (r != 0)
        ex_die("cannot open %s (--%s): %s", path, option,
               r == SNIC_EBUSY ? "in use by another process: stop that one first"
               : os_error != 0 ? strerror(os_error)
                               : snic_strerror(r));
    return io;
}

int sv_transport(void *set, const char *text)
{
    uint32_t solar = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR);
    uint32_t luna = SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
    uint32_t is = strcmp(text, "solar") == 0  ? solar
                  : strcmp(text, "luna") == 0 ? luna
                  : strcmp(text, "both") == 0 ? solar | luna
                                              : 0;
    if (is != 0)
        *(uint32_t *)set = is;
    return is != 0 ? 0 : -1;
}

uint64_t sv_files(uint64_t want)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0)
        return want;
    if (l.rlim_cur < want) {
        l.rlim_cur = want < l.rlim_max ? want : l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l);
        (void)getrlimit(RLIMIT_NOFILE, &l);
    }
    return l.rlim_cur;
}

int sv_loopback(const char *option, const char *address)
{
    static const unsigned char v6[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct snic_net_addr a;
    ex_address(option, address, &a);
    if (a.family == SNIC_NET_IPV4)
        return a.ip[0] == 127;
    return a.family == SNIC_NET_IPV6 &&
           (memcmp(a.ip, v6, sizeof(v6)) == 0 ||
            (memcmp(a.ip, mapped, sizeof(mapped)) == 0 && a.ip[12] == 127));
}

/* Buffers of a stream are as large as a group of blocks that the store writes at once. */
struct snic_net *sv_net(struct snic_loop *loop, uint32_t datagram_sockets, uint32_t streams,
                        uint32_t buffers, uint32_t dgram_flags)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o),
                                    .conns_max = streams,
                                    .recv_size = 65536,
                                    .recv_buffers = SV_BUFFERS,
                                    .pool_buffers = (uint32_t)snic_pow2_up(buffers),
                                    .send_queue = 192,
                                    .idle_ms = 30000,
                                    .dgrams_max = datagram_sockets,
                                    .dgram_flags =
                                        SNIC_NET_DGRAM_DF | SNIC_NET_DGRAM_TIME | dgram_flags,
                                    .dgram_recv_bytes = 4u << 20,
                                    .dgram_send_bytes = 4u << 20,
                                    .taken_wait_ms = EX_TAKEN_WAIT_MS};
    struct snic_net *net;
    int r = snic_net_uring_open(&net, loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    return net;
}

static void usage(FILE *to)
{
    fprintf(to,
            "Virtual disks over a network, by SOLAR (UDP) or LUNA (TCP).\n\n"
            "Usage: solar_volume server|client|ctl [OPTION]...\n\n"
            "  server     blocks of virtual disks, in a store on files or devices\n"
            "  client     a virtual disk for NBD clients\n"
            "  ctl        the control plane: catalog of disks and servers\n\n"
            "  --help     print this and exit; server --help, client --help and ctl --help list\n"
            "             the options of each\n"
            "  --version  print the version and exit\n");
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "server") == 0)
        return sv_server(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "client") == 0)
        return sv_client(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "ctl") == 0)
        return sv_ctl(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        ex_version("solar_volume");
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--help") != 0)
        fprintf(stderr, "solar_volume: unknown command '%s'\n\n", argv[1]);
    usage(argc >= 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    return argc >= 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
