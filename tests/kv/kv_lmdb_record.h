/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Records what the store on LMDB does to its two files, in one ordered log, and hurts it on
 * request.
 *
 * LMDB's pwrite, writev and fdatasync are replaced by functions of the test program; the object
 * file is seen through snic_kv_lmdb_opts.wrap. From the log the files can be rebuilt as a power cut
 * might leave them: what was synced is there, of the rest any subset of pages.
 */
#ifndef SNIC_TESTS_KV_LMDB_RECORD_H
#define SNIC_TESTS_KV_LMDB_RECORD_H

#include "snicstore/kv.h"

enum record_file { RECORD_DATA, RECORD_OBJECTS, RECORD_FILES };

/** Begin with the store at @p path, which is closed: its files are the base of all images. */
void record_begin(const char *path);
/** No more events; the log stays. */
void record_stop(void);
void record_end(void);
/** Note a number; the log's length. */
size_t record_note(uint64_t number);
size_t record_length(void);
/** The last number noted before event @p cut, or 0. */
uint64_t record_noted(size_t cut);

enum record_choice { RECORD_NONE, RECORD_ALL, RECORD_RANDOM, RECORD_LATEST };
/**
 * Write to folder @p to what a cut before event @p cut leaves; @p choice and @p seed select which
 * of the pages that were not synced are there.
 */
void record_image(const char *to, size_t cut, enum record_choice choice, uint64_t seed);

/** For snic_kv_lmdb_opts.wrap. */
struct snic_io *record_wrap(void *ctx, struct snic_io *io);

/* ---- Faults: the after-th call from now on, and all that follow while `times` lasts ---- */

struct record_fault {
    uint32_t after; /* 0: none */
    uint32_t times;
    int error; /* errno, positive */
};
extern struct record_fault record_fault_data_write;
extern struct record_fault record_fault_data_sync;
extern struct record_fault record_fault_object_read;
extern struct record_fault record_fault_object_write;
extern struct record_fault record_fault_object_flush;
/** Flushes of the object file and syncs of the data base since the program began. */
extern uint64_t record_flushes;
extern uint64_t record_syncs;

#endif /* SNIC_TESTS_KV_LMDB_RECORD_H */
