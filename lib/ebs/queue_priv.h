/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The queue's inside.
 *
 *     turn.c    disks' turns and notifications; the end of an I/O
 *     rpc.c     operations on an RPC that all transports share
 *     disk.c    disks, their limits, their segments' locations; options and memory
 *     queue.c   an I/O is submitted, admitted and split into RPCs; its deadline
 *     wait.c    lookups of segments, and what a disk waits for
 *     report.c  one round of work, and actions
 */
#ifndef SNIC_EBS__QUEUE_PRIV_H
#define SNIC_EBS__QUEUE_PRIV_H

#include "ebs/queue.h"

#define SNIC_EBS__QUANTUM 65536
#define SNIC_EBS__BACKLOG 256u /* blocks of a server not sent yet: then disks wait */

enum { EBS_IO_QUEUED = 1, EBS_IO_OUT, EBS_IO_OVER };

/* turn.c */
/* How many RPCs a server may have. */
uint32_t ebs_share(const struct ebs_queue *q, uint32_t server);
void ebs_disk_turn(struct ebs_queue *q, struct ebs_disk *d);
/* The disk has a notification for the owner. */
void ebs_disk_event(struct ebs_queue *q, struct ebs_disk *d);
/* MAP is to be reported for the disk's first I/O, whose segment is need_segment. */
void ebs_disk_lookup(struct ebs_queue *q, struct ebs_disk *d);
/* @segment has an answer: if the first I/O waits for it, or for a free RPC, it continues. */
void ebs_disk_resume(struct ebs_queue *q, struct ebs_disk *d, uint64_t segment);
/* It has no deadline any more, and is not slow. */
void ebs_io_forget_age(struct ebs_queue *q, struct snic_ebs_io *io);
/* Complete FLUSHes with no write before them. */
void ebs_disk_flushes(struct ebs_queue *q, struct ebs_disk *d);
/* Complete the I/O if it is over; called when an RPC of it ended, or its deadline passed. */
void ebs_io_progress(struct ebs_queue *q, struct snic_ebs_io *io);

/* rpc.c */
/* It begins to wait for its server, the first or another one. */
void ebs_rpc_wait_begin(struct ebs_queue *q, struct ebs_rpc *r);
void ebs_rpc_new(struct ebs_queue *q, struct snic_ebs_io *io, uint32_t count,
                 const struct snic_ebs_where *w);
/* 1: a write there was abandoned, and its fence is not acknowledged yet. */
int ebs_segment_abandoned(const struct ebs_queue *q, const struct ebs_disk *d, uint64_t segment);
/* Its segment is at @w from now on. */
void ebs_rpc_retarget(struct ebs_queue *q, struct ebs_rpc *r, const struct snic_ebs_where *w);

/* queue.c */
/* Zero @blocks of a read from there on; another I/O has no memory. */
void ebs_io_zero(const struct snic_ebs_io *io, uint32_t piece, uint32_t block, uint32_t blocks);
/* The segment that the first I/O waits for does not exist, and the I/O does not need it. */
void ebs_disk_hole(struct ebs_queue *q, struct ebs_disk *d);
/* The segment that the first I/O waits for cannot be placed. */
void ebs_disk_refuse(struct ebs_queue *q, struct ebs_disk *d, int result);

static inline uint64_t ebs_segment_of(const struct ebs_rpc *r)
{
    return r->lba >> SNIC_EBS_SEGMENT_LOG2;
}

#endif /* SNIC_EBS__QUEUE_PRIV_H */
