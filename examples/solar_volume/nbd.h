/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Virtual disks for NBD clients: qemu, fio, nbdcopy, the kernel. Fixed newstyle handshake,
 * simple and structured replies, block status by context base:allocation; several clients at a
 * time, several connections of one client (what is acknowledged is durable, so a flush on one is
 * one on all).
 *
 * Block status is of blocks of 4096 bytes (nbd_status.c); CACHE has nothing to fetch and is done at
 * once; zeros take no data, so FAST_ZERO always succeeds. Extended headers and the experimental
 * RESIZE, which qemu 7.2 and libnbd 1.14 do not use, are refused: a disk has the size that it was
 * opened with.
 *
 * A connection has at most NBD_DEPTH requests and NBD_BYTES of their data inside, then it is not
 * read for a while. What is not the protocol ends the connection, with one line in the log.
 *
 * A client has NBD_HELLO_NS to choose a disk, as qemu gives its own, then its place is another's.
 *
 * Connections take turns at the disk, request by request: NBD_SMALL_MOST small ones are there at a
 * time, of one connection half of them; and large ones with NBD_LARGE_MOST bytes, or one of each
 * of NBD_LARGE_COUNT connections. A small one does not wait for large ones.
 *
 * There are NBD_CLIENTS connections at most, on a net handle of their own: whatever they hold of
 * what they sent, no other's receiving waits for it.
 */
#ifndef SOLAR_VOLUME_NBD_H
#define SOLAR_VOLUME_NBD_H

#include "block.h"

enum {
    NBD_DEPTH = 64,
    NBD_EXPORTS = 64,
    NBD_NAME = 64,
    NBD_CLIENTS = 64,
    NBD_REQUEST_MAX = 32 << 20,
    NBD_SMALL = 64 << 10, /* bytes; more are large */
    NBD_SMALL_MOST = 128,
    NBD_LARGE_MOST = 4 << 20,
    NBD_LARGE_COUNT = 8
};
#define NBD_BYTES (UINT64_C(96) << 20)
#define NBD_HELLO_NS UINT64_C(10000000000)

struct nbd_export {
    char name[NBD_NAME];
    struct block_dev dev;
    uint64_t size;
    int read_only;
    struct snic_queue lanes[2]; /* connections in turn: with small requests, with large ones */
    uint32_t small;             /* requests at the disk */
    uint32_t large;             /* bytes of those */
    uint32_t large_count;
    int pumping;
    int again;
};

struct nbd_stats {
    uint64_t clients; /* now */
    uint64_t accepted;
    uint64_t requests;
    uint64_t errors;   /* replies with an error */
    uint64_t protocol; /* connections ended for protocol errors */
    uint64_t turned_away;
};

struct nbd;

/** Listen at @p addr; exits with a clear line. */
struct nbd *nbd_open(struct snic_loop *loop, const struct snic_net_addr *addr);
/** Offer a disk; the first one also under the empty name. @return 0; SNIC_ENOSPC */
int nbd_export(struct nbd *n, const char *name, struct snic_io *io);
void nbd_stats(const struct nbd *n, struct nbd_stats *out);
/**
 * Accept no connections and no requests any more; over(ctx) when all that were accepted are
 * answered. A client that takes no answer for 3 s is cut off.
 */
void nbd_drain(struct nbd *n, void (*over)(void *ctx), void *ctx);
/** All connections end at once. No request may be inside any more: close the disks before. */
void nbd_close(struct nbd *n);

#endif
