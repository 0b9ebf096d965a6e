/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv_server's store over files in memory, in a simulated world, and a model that keeps every
 * value that was written to each key. Power may be cut at a file operation: what the store finds
 * again must lie between the newest acknowledged and the newest written.
 *
 *   test_kv_store_files.c  the files, and what a power cut leaves of them
 *   test_kv_store_model.c  the store's events, and what it should hold
 */
#ifndef SNIC_TESTS_TEST_KV_STORE_UTIL_H
#define SNIC_TESTS_TEST_KV_STORE_UTIL_H

#include "store.h"
#include "support.h"

#define SEGMENT (64u << 10)
#define VALUE_MAX 8000u
#define KEYS 60u
#define FILES_MAX 256u
#define SECTOR 512u
#define HISTORY 4096u

struct mem_file {
    uint64_t id;
    char name[64];
    unsigned char *data;    /* what reads see            */
    unsigned char *durable; /* what survives a power cut */
    size_t size;
};

struct mem_fs {
    struct mem_file files[FILES_MAX];
    uint64_t next_id;
    uint64_t limit; /* most files, 0: any number */
    int error;      /* of writes, while not 0    */
};

struct mem_op {
    struct mem_op *next;
    struct kv_file_req *req;
    struct snic_timer timer;
};

struct version {
    uint64_t end; /* acknowledged when the log is durable up to here */
    uint64_t expire_ms;
    uint32_t size;
    int present;
};

struct model_key {
    struct version versions[HISTORY];
    uint32_t newest; /* number of the version; 0: absent */
};

struct kst {
    struct snic_world *world;
    struct snic_loop *loop;
    struct kv_store *store;
    struct snic_rng rng;
    struct mem_fs fs;
    struct mem_fs image; /* after the cut */
    struct mem_op *ops;
    struct model_key keys[KEYS];
    uint32_t acked[KEYS]; /* when power was cut */
    uint32_t newest[KEYS];
    uint32_t swaps;        /* exchanges of the two databases: key k is in (k + swaps) % 2 */
    uint64_t swap_end;     /* of the newest                                               */
    uint32_t swaps_issued; /* likewise                                                    */
    uint32_t swaps_acked;  /* when power was cut                                          */
    uint64_t operations;
    uint64_t cut_at; /* operation at which power is cut, 0: never */
    int cut;
    int room;
    int gone; /* the files below are detached */
    uint64_t durable;
    uint64_t cached;
    enum kv_sync sync;
};

extern struct kst kst;

static inline uint32_t kst_any(uint32_t n)
{
    return (uint32_t)(snic_rng_next(&kst.rng) % n);
}

/* ---- test_kv_store_files.c ---- */

extern const struct kv_files_ops kst_files_ops;
/* NULL: none. */
struct mem_file *kst_file_find(struct mem_fs *fs, uint64_t id);
void kst_files_clear(struct mem_fs *fs);

/* ---- test_kv_store_model.c ---- */

/* A world without a store yet; and the end of both. */
void kst_begin(uint64_t seed, enum kv_sync sync);
void kst_end(void);
/* Open the store on the files that there are. device_bytes 0: as large as may be. */
void kst_open(uint64_t device_bytes);
void kst_restart(void);
/* The files go away with what is in flight, and come back. */
void kst_detach_attach(void);
void kst_spin(uint64_t ns);

/* 1: taken, and the model knows. */
int kst_set(uint32_t k);
int kst_delete(uint32_t k);
void kst_flush(uint32_t database);
/* Exchange the databases; the first call makes the key by which the survivors' numbers are known.
 */
void kst_swap(void);
/* The database that key @p k is in. */
uint32_t kst_database(uint32_t k);
/* The result of a write that was not taken; runs the loop where waiting helps. 1: again. */
int kst_refused(int r);
/* The key holds its last written value. */
void kst_check_key(uint32_t k);
void kst_check_all(void);
/* After a cut: a version from the acknowledged one to the newest one. */
void kst_check_survivors(void);

#endif /* SNIC_TESTS_TEST_KV_STORE_UTIL_H */
