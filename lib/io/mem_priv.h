/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A handle on a simulated disk: what mem.c and sim_ssd.c share.
 */
#ifndef SNIC_IO_MEM_PRIV_H
#define SNIC_IO_MEM_PRIV_H

#include "io/disk_priv.h"

enum io_mem_state { IO_MEM_FREE, IO_MEM_QUEUED, IO_MEM_TIMED, IO_MEM_AWAITED, IO_MEM_REFUSED };

struct io_mem_slot {
    struct snic_link link; /* active */
    struct snic_loop_msg msg;
    struct snic_timer timer;
    struct io_mem *mem;
    struct snic_io_req *req;
    struct io_mem_slot *next_free;
    struct disk_verdict verdict;
    uint64_t covers; /* FLUSH */
    int32_t refusal;
    enum io_mem_state state;
    uint8_t cancelled;
};

/** A model of how long requests take, instead of the disk's delays. */
struct io_mem_timing {
    /** How long; or SNIC_NEVER, then io_mem_arrived() will be called once. */
    uint64_t (*start)(struct io_mem_timing *t, struct io_mem_slot *slot, uint64_t now_ns);
    /** The handle closes; nothing is in flight. */
    void (*close)(struct io_mem_timing *t);
};

struct io_mem {
    struct snic_io io;
    struct snic_disk *disk;
    struct io_mem_timing *timing; /* or NULL */
    struct snic_link link;        /* disk->handles */
    struct snic_link active;
    struct io_mem_slot *free;
    struct snic_io_room room;
    uint32_t in_flight;
    uint8_t closing;
    uint8_t dead;
    struct io_mem_slot slots[];
};

/** A handle without a timing. */
int io_mem_create(struct io_mem **out, struct snic_loop *l, struct snic_disk *d);
/** A request that its timing has taken is through: it takes effect now. From the loop. */
void io_mem_arrived(struct io_mem_slot *slot, uint64_t now_ns);

#endif /* SNIC_IO_MEM_PRIV_H */
