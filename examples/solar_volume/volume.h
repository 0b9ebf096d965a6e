/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume: what its parts have in common. */
#ifndef SOLAR_VOLUME_VOLUME_H
#define SOLAR_VOLUME_VOLUME_H

#include "../common.h"

int sv_server(int argc, char **argv);
int sv_client(int argc, char **argv);
int sv_ctl(int argc, char **argv);

/* common to server and client: sv.c */
uint64_t sv_seed(void);       /* of the kernel's random numbers */
void *sv_memory(size_t size); /* aligned, or exits */
/* The file or device of option --@p option, locked; of @p size if it is not there. Exits with a
 * line that names it. */
struct snic_io *sv_file(struct snic_loop *loop, const char *option, const char *path,
                        uint64_t size);
/* A transport's option: solar or luna (or, for servers, both), as a set of
 * SNIC_VOLUME_SERVES(). */
int sv_transport(void *set, const char *text);
/* Open files that this process may have: raised to @p want as far as its hard limit permits. */
uint64_t sv_files(uint64_t want);
/* 1: --@p option is an address that only this machine reaches. Exits if it is none. */
int sv_loopback(const char *option, const char *address);
/* Receive buffers of 64 KiB: that a stream may keep, and the least for all of them. */
enum { SV_BUFFERS = 4, SV_POOL = 512 };
/* @p buffers: receive buffers of all streams; it is rounded up to a power of two. */
struct snic_net *sv_net(struct snic_loop *loop, uint32_t datagram_sockets, uint32_t streams,
                        uint32_t buffers, uint32_t dgram_flags);

#endif
