/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hosts that write, read, die, reset and return, against an oracle: each block has an owner, who
 * writes numbers that only grow, and at any time a block may read as its last acknowledged number,
 * or as one of the writes since then whose outcome is unknown. A write that is acknowledged settles
 * the block for ever: one of before that lands later is what fences must prevent.
 */
#ifndef SNIC_TESTS_NVMET_PLAY_H
#define SNIC_TESTS_NVMET_PLAY_H

#include "test_nvmet_util.h"

enum { PLAY_HOSTS = 3, PLAY_BLOCKS = 12 };

/* What differs between a world and threads. */
struct play {
    struct nh *h;                       /* PLAY_HOSTS of them */
    struct snic_net_addr (*addr)(void); /* of any loop, for the next connection */
    void (*pass)(void);                 /* some time */
    void (*change)(void);               /* remove the namespace, or add it */
    int (*present)(void);               /* the namespace is, and is not being removed */
    struct snic_rng rng;
    uint32_t kills, reads, resets;
};

void play_begin(struct play *p);
/** One step of any host. */
void play_step(struct play *p);
/** All hosts die. */
void play_end(struct play *p);
/** What is on the disk, when nothing is at the device. */
void play_check_disk(const struct play *p, const unsigned char *disk);
uint32_t play_any(struct play *p, uint32_t n);

#endif /* SNIC_TESTS_NVMET_PLAY_H */
