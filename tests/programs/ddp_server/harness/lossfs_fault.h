/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Faults of the disk, set by commands (lossfs.c lists them): what an operation meets before it is
 * carried out. All calls need the file system's lock; lossfs_fault_enter() releases it while it
 * waits.
 */
#ifndef SNIC_TESTS_LOSSFS_FAULT_H
#define SNIC_TESTS_LOSSFS_FAULT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum lossfs_kind { LOSSFS_READ, LOSSFS_WRITE, LOSSFS_FSYNC, LOSSFS_OTHER, LOSSFS_KINDS };

struct lossfs_faults {
    pthread_mutex_t *lock;
    pthread_cond_t changed;
    int off;         /* without power: everything fails with EIO */
    uint64_t losses; /* an operation that began before a power loss does not happen after it */
    uint64_t stalled_until_ns[LOSSFS_KINDS];
    uint64_t slow_ns[LOSSFS_KINDS];
    int error[LOSSFS_KINDS]; /* errno; 0: none */
    int once[LOSSFS_KINDS];
    int lies;       /* a flush reports success and does nothing */
    uint64_t limit; /* bytes of all files; 0: none */
    uint64_t ops[LOSSFS_KINDS];
    uint64_t failed[LOSSFS_KINDS];
};

void lossfs_fault_init(struct lossfs_faults *f, pthread_mutex_t *lock);
/** Waits while a stall lasts. 0, or the errno with which the operation fails. */
int lossfs_fault_enter(struct lossfs_faults *f, enum lossfs_kind kind);
/** Power off ends all stalls; operations fail with EIO from then on, those that wait, too. */
void lossfs_fault_power(struct lossfs_faults *f, int on);
/**
 * One of the commands stall, slow, fail, lie, limit.
 * @return 0; 1: another command; -1: bad arguments
 */
int lossfs_fault_command(struct lossfs_faults *f, char *const *word, size_t words);

#endif
