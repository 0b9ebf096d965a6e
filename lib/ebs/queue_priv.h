/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The queue's inside.
 *
 *     disk.c   disks come and go, their limits change, their segments move; options and memory
 *     queue.c  an I/O is submitted, admitted, split into RPCs, and ends
 *     rpc.c    what all transports do with an RPC
 *     wait.c   who asks where a segment is, and what a disk waits for
 */
#ifndef SNIC_EBS_QUEUE_PRIV_H
#define SNIC_EBS_QUEUE_PRIV_H

#include "snicstore/ebs_queue.h"

#define SNIC_EBS__QUANTUM 65536
#define SNIC_EBS__BACKLOG 256u /* blocks of a server not sent yet: then disks wait */

enum { EBS_IO_QUEUED = 1, EBS_IO_OUT, EBS_IO_OVER };

/* queue.c */
/* How many RPCs a server may have. */
uint32_t ebs_share(const struct snic_ebs_queue *q, uint32_t server);
void ebs_disk_turn(struct snic_ebs_queue *q, struct snic_ebs_disk *d);
/* @blocks of a read from there on are zeros; another I/O has no memory. */
void ebs_io_zero(const struct snic_ebs_io *io, uint32_t piece, uint32_t block, uint32_t blocks);
/* The first I/O, which waits for a place, needs none there. */
void ebs_disk_hole(struct snic_ebs_queue *q, struct snic_ebs_disk *d);
/* The first I/O, which waits for a place, cannot have one. */
void ebs_disk_refuse(struct snic_ebs_queue *q, struct snic_ebs_disk *d, int result);
/* Is it over? An RPC of it was, or its time. */
void ebs_io_progress(struct snic_ebs_queue *q, struct snic_ebs_io *io);

/* disk.c */
/* @segment has an answer: if the first I/O waits for it, or for room, it goes on. */
void ebs_disk_goes_on(struct snic_ebs_queue *q, struct snic_ebs_disk *d, uint64_t segment);

/* rpc.c */
void ebs_rpc_new(struct snic_ebs_queue *q, struct snic_ebs_io *io, uint32_t count,
                 const struct snic_ebs_where *w);
/* 1: a write there was abandoned, and its fence does not count yet. */
int ebs_segment_abandoned(const struct snic_ebs_queue *q, const struct snic_ebs_disk *d,
                          uint64_t segment);
/* Its segment is at @w from now on. */
void ebs_rpc_retarget(struct snic_ebs_queue *q, struct snic_ebs_rpc *r,
                      const struct snic_ebs_where *w);

/* wait.c */
/* It begins to wait, here or elsewhere. */
void ebs_ask_begin(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
/* MAP is to be said for its segment. */
void ebs_ask_parked(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
/* MAP is to be said for the disk's first I/O, whose segment is need_segment. */
/* It has something to say. */
void ebs_disk_event(struct snic_ebs_queue *q, struct snic_ebs_disk *d);
void ebs_ask_disk(struct snic_ebs_queue *q, struct snic_ebs_disk *d);

static inline uint64_t ebs_segment_of(const struct snic_ebs_rpc *r)
{
    return r->lba >> SNIC_EBS_SEGMENT_LOG2;
}

#endif /* SNIC_EBS_QUEUE_PRIV_H */
