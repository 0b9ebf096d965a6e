/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between two processes: what the link (shm.c) and its making (shm_open.c) share.
 *
 * Packets on the socket and the page that both map: FORMAT.md.
 */
#ifndef SNIC_DMA_SHM_PRIV_H
#define SNIC_DMA_SHM_PRIV_H

#include "dma/dma_priv.h"
#include "loop/uring.h"

#define SNIC_DMA_SHM__MAGIC 0x616d4453U /* "SDma" */
#define SNIC_DMA_SHM__VERSION 1
#define SNIC_DMA_SHM__PAGE 4096
#define SNIC_DMA_SHM__REGIONS 1024
#define SNIC_DMA_SHM__BLOCKS 256
#define SNIC_DMA_SHM__QUEUE 128
#define SNIC_DMA_SHM__QUEUE_USER 64
#define SNIC_DMA_SHM__FDS 3

enum dma_shm_type {
    DMA_SHM_HELLO = 1,   /* connector: here I am                                    */
    DMA_SHM_WELCOME = 2, /* listener: bell page, connector's eventfd, listener's    */
    DMA_SHM_REFUSE = 3,  /* listener: a = SNIC_E*                                   */
    DMA_SHM_MSG = 4,     /* the user's bytes follow                                 */
    DMA_SHM_BLOCK = 5,   /* a = block, b = size; its memfd                          */
    DMA_SHM_REGION = 6,  /* a = key, b = block, c = offset, d = size, rights        */
    DMA_SHM_UNREG = 7,   /* a = key                                                 */
    DMA_SHM_DROP = 8     /* a = block                                               */
};

struct dma_shm_wire {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t rights;
    uint32_t size; /* bytes that follow */
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t d;
};
SNIC_STATIC_ASSERT(sizeof(struct dma_shm_wire) == 48, "wire format");

/** A packet that waits for room in the socket. */
struct dma_shm_out {
    struct dma_shm_wire wire;
    int fd; /* a duplicate, or -1 */
    unsigned char bytes[SNIC_DMA_MSG_MAX];
};

/** A packet as received; fds not taken are closed. */
struct dma_shm_in {
    struct dma_shm_wire wire;
    unsigned char bytes[SNIC_DMA_MSG_MAX];
    int fds[SNIC_DMA_SHM__FDS];
    int fd_count;
};

/** One end's words in the page that both map. */
struct dma_shm_lane {
    _Alignas(SNIC_CACHELINE) _Atomic(uint64_t) bells; /* rung for this end, not yet taken */
    _Atomic(uint64_t) closed; /* this end is closed and uses the other's memory no more   */
};

struct dma_shm_page {
    struct dma_shm_lane lanes[2]; /* 0: connector, 1: listener */
};

/** Our memory, which may be exported to the peer. */
struct dma_shm_block {
    unsigned char *mem; /* NULL: free                                               */
    size_t size;
    int fd;
    uint8_t sent; /* the peer knows it                                              */
    uint8_t drop; /* DROP is to be sent, then the entry is free                     */
};

/** A key of ours. */
struct dma_shm_export {
    uint64_t key; /* 0: free                                                        */
    uint32_t generation;
    uint8_t unreg; /* UNREG is to be sent, then the entry is free                   */
};

/** The peer's memory, mapped here. */
struct dma_shm_map {
    unsigned char *mem; /* NULL: free                                               */
    size_t size;
    uint64_t id;
    uint32_t users;  /* pointers handed out by map()                                */
    uint8_t dropped; /* the peer has released it                                    */
};

/** A key of the peer. */
struct dma_shm_import {
    uint64_t key; /* 0: free                                                        */
    unsigned char *base;
    size_t size;
    uint32_t rights;
    uint32_t map;
};

/** An operation of ours in the ring; pending until its last completion. */
struct dma_shm_watch {
    struct snic_uring_op op;
    struct dma_shm *link;
    int fd; /* polled, -1: this watch is not used                                   */
    uint8_t pending;
};

struct snic_dma_listener;

struct dma_shm {
    struct snic_dma dma;
    struct snic_loop_poller poller;
    struct snic_queue done;
    struct dma_shm_page *page;
    struct dma_shm_lane *ours;
    struct dma_shm_lane *theirs;
    int fd;           /* socket                                         */
    int bell_fd;      /* eventfd we watch                               */
    int peer_bell_fd; /* eventfd we write                               */
    int pid_fd;
    uint32_t peer_pid;
    uint64_t size_max;
    uint64_t imported; /* bytes mapped from the peer                                */
    struct dma_shm_watch sock;
    struct dma_shm_watch bell;
    struct dma_shm_watch pid;
    struct dma_shm_watch write; /* of peer_bell_fd, not a poll                      */
    uint64_t one;               /* what it writes                                   */
    uint8_t write_again;
    uint8_t readable; /* the socket may have packets                                */
    uint8_t torn;     /* no more packets; death waits for its certificate           */
    uint8_t ended;    /* end of stream                                              */
    uint8_t exited;   /* the peer's process ended                                   */
    uint8_t lazy;     /* UNREG or DROP to be sent                                   */
    uint8_t hold;     /* packets wait in the queue until WELCOME went out           */
    uint8_t inside;   /* delivering: close must not free under us                   */
    uint8_t closed;
    uint8_t accepted; /* the user has it                                            */
    _Atomic(uint64_t) rung;
    _Atomic(uint64_t) owner; /* the loop's thread, once it ran                      */
    _Atomic(int) peer_gone;  /* for snic_dma_ring() on any thread                   */
    /* While a listener waits for the HELLO. */
    struct snic_dma_listener *listener;
    void (*greet)(struct dma_shm *s); /* its socket is readable */
    struct snic_link waiting;
    uint64_t deadline_ns;
    struct snic_timer retry; /* the socket was full                                 */
    uint32_t out_head;
    uint32_t out_tail;
    struct dma_shm_out out[SNIC_DMA_SHM__QUEUE];
    struct dma_shm_block blocks[SNIC_DMA_SHM__BLOCKS];
    struct dma_shm_export exports[SNIC_DMA_SHM__REGIONS];
    struct dma_shm_map maps[SNIC_DMA_SHM__BLOCKS];
    struct dma_shm_import imports[SNIC_DMA_SHM__REGIONS];
};

static inline struct dma_shm *dma_shm_self(struct snic_dma *d)
{
    return (struct dma_shm *)(void *)d;
}

static inline int dma_shm_gone(const struct dma_shm *s)
{
    return s->closed || s->dma.dead || s->torn || s->exited;
}

/* ---- shm_memory.c: the door's operations on memory, and the packets that are about it ---- */

int dma_shm_alloc(struct snic_dma *d, size_t size, void **out);
void dma_shm_block_free(struct dma_shm_block *b);
void dma_shm_release(struct snic_dma *d, void *mem);
int dma_shm_register(struct snic_dma *d, void *mem, size_t size, uint32_t rights, uint64_t *key);
void dma_shm_unregister(struct snic_dma *d, uint64_t key);
unsigned char *dma_shm_map_fd(int fd, uint64_t size);
int dma_shm_on_block(struct dma_shm *s, struct dma_shm_in *in);
void dma_shm_unmap_block(struct dma_shm *s, struct dma_shm_map *m);
int dma_shm_on_region(struct dma_shm *s, const struct dma_shm_wire *w);
int dma_shm_on_unreg(struct dma_shm *s, uint64_t key);
int dma_shm_on_drop(struct dma_shm *s, uint64_t id);
int dma_shm_resolve(struct snic_dma *d, const struct snic_dma_op *op, unsigned char **at);
int dma_shm_map(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size, void **out);
void dma_shm_unmap(struct snic_dma *d, void *mem);
/** A sealed memfd of @p size bytes, mapped. 0 or SNIC_ENOMEM. */
int dma_shm_memfd(size_t size, int *fd, void **mem);

/* ---- shm_packet.c ---- */

/** 1: packet; 0: none now; negative: SNIC_EPIPE end of stream, SNIC_EPROTO, SNIC_EIO. */
int dma_shm_receive(int fd, struct dma_shm_in *in);
void dma_shm_close_fds(struct dma_shm_in *in);
/** 1 sent; 0 no room now; SNIC_EPIPE. */
int dma_shm_transmit(int fd, const struct dma_shm_wire *w, const void *bytes, const int *fds,
                     uint32_t fd_count);
struct dma_shm_wire dma_shm_wire_make(enum dma_shm_type type);
/** Send what waits. */
void dma_shm_flush(struct dma_shm *s);
/** Send now or queue. 0; SNIC_EAGAIN no place; SNIC_EPIPE. */
int dma_shm_packet(struct dma_shm *s, const struct dma_shm_wire *w, const void *bytes, int fd);
/** The retry timer: send what waits. */
void dma_shm_retry(struct snic_timer *t, uint64_t now_ns);
/** Forget what waits. */
void dma_shm_drop_queue(struct dma_shm *s);

/* ---- shm.c ---- */

/** A link without a peer yet; fd is owned. NULL: no memory. */
struct dma_shm *dma_shm_new(struct snic_loop *l, int fd, uint64_t size_max);
/** Find out who is at the other end of fd. 0, SNIC_ENOTSUP, SNIC_ECONNRESET. */
int dma_shm_certify(struct dma_shm *s);
/** Take over the shared page and the eventfds, which are owned from here. 0 or SNIC_E*. */
int dma_shm_attach(struct dma_shm *s, int page_fd, int bell_fd, int peer_bell_fd, int connector);
/** Begin to watch the socket. 0 or SNIC_ENOMEM. */
int dma_shm_watch_start(struct dma_shm *s, struct dma_shm_watch *w, int fd);
/** Everything gone once the ring holds none of our operations. */
void dma_shm_discard(struct dma_shm *s);

#endif /* SNIC_DMA_SHM_PRIV_H */
