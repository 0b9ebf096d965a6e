/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Internals of the store in memory, shared by mem.c and mem_*.c.
 */
#ifndef SNIC_KV_MEM_PRIV_H
#define SNIC_KV_MEM_PRIV_H

#include "kv/kv_priv.h"

enum {
    KVMEM_LEAF = 93,
    KVMEM_FAN = 31,
    KVMEM_DEPTH = 20,
    KVMEM_CHUNK = 64, /* blocks, one bit each in a word */
    KVMEM_EXPECT = 32,
    KVMEM_FAULTS = 64,
    KVMEM_FENCES = 64,
    KVMEM_SLAB_STEP = 32,
    KVMEM_SLAB_MOST = 1024
};

/* ---- Records ---- */

/** A record; its value follows. An object is one, too: key.size is 0. */
struct kv_mem_record {
    struct kv_mem_record *chain;
    uint32_t hash;
    uint32_t size : 31; /* of the value */
    uint32_t damaged : 1;
    struct snic_kvop_key key;
};

struct kv_mem_slot {
    uint64_t group;
    uint64_t prefix; /* the key's first bytes, big-endian */
    struct kv_mem_record *record;
};

struct kv_mem_node {
    union {
        struct {
            struct kv_mem_node *next;
            struct kv_mem_node *prev;
            struct kv_mem_slot slots[KVMEM_LEAF];
        } leaf;
        struct { /* keys[i] <= all below child[i] < keys[i + 1]; keys[0] is unused */
            struct snic_kvop_key keys[KVMEM_FAN];
            struct kv_mem_node *child[KVMEM_FAN];
        } inner;
    } u;
    uint32_t count;
};

/** A position between records: the slot is the next one, if at < leaf->count. */
struct kv_mem_pos {
    struct kv_mem_node *leaf;
    uint32_t at;
};

/* ---- Objects ---- */

/** 64 consecutive blocks. */
struct kv_mem_chunk {
    uint64_t number;
    uint64_t taken;                   /* bit: the block has space */
    unsigned char *data[KVMEM_CHUNK]; /* NULL: zeros */
    uint32_t crc[KVMEM_CHUNK];        /* of data */
};

struct kv_mem_object {
    struct kv_mem_record record;
    struct kv_mem_chunk **chunks; /* in order of number */
    uint32_t count;
    uint32_t room;
    uint64_t blocks; /* taken */
};

/* ---- What a crash takes back ---- */

/** The state of a record or block before change number `change`. */
struct kv_mem_undo {
    uint64_t change;
    struct kv_mem_record *record; /* the old one; NULL: none, or the entry is of a block */
    struct snic_kvop_key key;     /* size 0: of a block of object key.group */
    uint64_t block;
    unsigned char *data;
    uint32_t crc;
    uint32_t taken;
};

/** Small memory. */
struct kv_mem_slab {
    struct kv_mem_slab_chunk *chunks;
    unsigned char *at; /* of the last chunk: the part not cut into runs yet */
    size_t left;
    unsigned char *carve_at; /* for memory that is kept until close */
    size_t carve_left;
    struct kv_mem_slab_run *runs;                                    /* free ones */
    struct kv_mem_slab_run *open[KVMEM_SLAB_MOST / KVMEM_SLAB_STEP]; /* with free cells, by size */
};

/** A client that was fenced. */
struct kv_mem_fence {
    uint32_t size;
    unsigned char identity[SNIC_KVOP_IDENTITY_MAX];
};

/*
 * Invariants
 *   N1 Every record is in the tree once and in the hash table once; an object exists iff a block of
 *      it is taken.
 *   N2 A leaf is never empty, unless it is the root; leaves are linked in order.
 *   N3 used is the sum of kv_mem_record_bytes() of the records and SNIC_KVOP_BLOCK for each
 *      taken block.
 *   N4 With track the undo log, run backwards, leads from what reads see to what is durable.
 */
struct snic_kvmem {
    struct snic_kvmem_opts opts;
    struct snic_rng rng;
    /* records and objects */
    struct kv_mem_record **table;
    uint64_t table_mask;
    uint64_t entries; /* in the table */
    struct kv_mem_node *root;
    uint32_t height; /* 0: the root is a leaf */
    uint32_t spare_count;
    struct kv_mem_node *spare;
    struct kv_mem_slab slab;
    /* free blocks */
    unsigned char *blocks;
    uint64_t blocks_count;
    uint64_t used;
    uint64_t reserve; /* of opts.space, reserved for RESERVE */
    /* changes */
    struct kv_mem_undo *undo;
    uint64_t undo_count;
    uint64_t undo_room;
    uint64_t changes;
    uint64_t unsynced;
    /* faults */
    uint32_t faults_count;
    uint32_t crashed;
    uint32_t damaged; /* some checksums are wrong on purpose */
    uint64_t epoch;   /* crashes until now */
    struct snic_kv_fault faults[KVMEM_FAULTS];
    struct snic_link handles;
    uint32_t handles_count;
    /* clients */
    uint32_t opened; /* handles, ever: their identities */
    uint32_t fences_count;
    struct kv_mem_fence fences[KVMEM_FENCES]; /* modulo that */
};

static inline unsigned char *kv_mem_value(struct kv_mem_record *r)
{
    return (unsigned char *)(r + 1);
}
static inline struct kv_mem_object *kv_mem_object_of(struct kv_mem_record *r)
{
    return SNIC_CONTAINER(r, struct kv_mem_object, record);
}
static inline uint64_t kv_mem_record_bytes(uint32_t key_size, uint32_t value_size)
{
    return sizeof(struct kv_mem_record) + key_size + value_size;
}

/* ---- mem_slab.c ---- */

/** Memory that stays until the store is closed, or NULL. */
void *kv_mem_slab_carve(struct snic_kvmem *m, size_t size);
/** Memory that is returned with the same size, or NULL. */
void *kv_mem_slab_take(struct snic_kvmem *m, size_t size);
void kv_mem_slab_give(struct snic_kvmem *m, void *p, size_t size);
void kv_mem_slab_close(struct snic_kvmem *m);
/** A record with a copy of the value, in no table; NULL without memory. */
struct kv_mem_record *kv_mem_record_make(struct snic_kvmem *m, const struct snic_kvop_key *key,
                                         const void *value, uint32_t size);
/** Free one that is in no table any more, or NULL. */
void kv_mem_record_free(struct snic_kvmem *m, struct kv_mem_record *r);

/* ---- mem_tree.c ---- */

uint32_t kv_mem_hash(const struct snic_kvop_key *key);
/** Reserve nodes and table buckets for @p inserts. 0 or SNIC_ENOMEM. */
int kv_mem_reserve(struct snic_kvmem *m, uint32_t inserts);
struct kv_mem_record *kv_mem_find(const struct snic_kvmem *m, const struct snic_kvop_key *key);
/** Prefetch the records of up to KVMEM_EXPECT keys, all at the same time. */
void kv_mem_fetch(const struct snic_kvmem *m, const struct snic_kvop_key **keys, uint32_t n);
/** Add a record whose key does not exist; its key and size are set. The caller has reserved. */
void kv_mem_insert(struct snic_kvmem *m, struct kv_mem_record *r);
/** Put @p r in the place of @p old, whose key it has. */
void kv_mem_replace(struct snic_kvmem *m, struct kv_mem_record *old, struct kv_mem_record *r);
void kv_mem_remove(struct snic_kvmem *m, struct kv_mem_record *r);
/** The first record with a key of @p key or above. */
struct kv_mem_pos kv_mem_lower(const struct snic_kvmem *m, const struct snic_kvop_key *key);
/** The first record of all, for walks with kv_mem_at(). */
struct kv_mem_pos kv_mem_begin(const struct snic_kvmem *m);
/** The record at the position, or NULL at the end; moves to the next leaf at the end of one. */
struct kv_mem_record *kv_mem_at(struct kv_mem_pos *p);
/** 0 or SNIC_ECORRUPT. */
int kv_mem_tree_check(const struct snic_kvmem *m);
/** Free the table; kv_mem_slab_close() frees records and nodes. */
void kv_mem_tree_close(struct snic_kvmem *m);

/* ---- mem_undo.c ---- */

/** Begin a change: all that follows is one step for crashes. */
static inline void kv_mem_change(struct snic_kvmem *m)
{
    m->changes++;
    m->unsynced++;
}
/** Reserve @p n more undo records. 0 or SNIC_ENOMEM. */
int kv_mem_undo_reserve(struct snic_kvmem *m, uint64_t n);
/** Log the old state of a record (NULL: none) or a block; takes over the memory. Needs track. */
void kv_mem_undo_record(struct snic_kvmem *m, const struct snic_kvop_key *key,
                        struct kv_mem_record *old);
void kv_mem_undo_block(struct snic_kvmem *m, uint64_t object, uint64_t block, int taken,
                       unsigned char *data, uint32_t crc);

/* ---- mem_object.c ---- */

struct kv_mem_object *kv_mem_object_find(const struct snic_kvmem *m, uint64_t name);
/** Blocks of [offset, offset + length) that are not taken. */
uint64_t kv_mem_missing(const struct snic_kvmem *m, uint64_t object, uint64_t offset,
                        uint64_t length);
/** Check the blocks that the range covers in part. 0; SNIC_ECORRUPT and where. */
int kv_mem_edges(const struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length,
                 uint64_t *bad);
/** Allocate for a change of the range, with blocks for all of it if @p data. 0 or SNIC_ENOMEM. */
int kv_mem_prepare(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length,
                   int data);
/** Write bytes into a prepared range; each block is a change of its own, unless @p inside one. */
void kv_mem_write(struct snic_kvmem *m, uint64_t object, uint64_t offset,
                  const struct snic_iov *iov, uint64_t length, int inside);
/** A prepared range takes space; with @p zero it reads as zeros, too. */
void kv_mem_take(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length, int zero);
/** Free whole blocks, and zero the parts of others. 0 or SNIC_ENOMEM. */
int kv_mem_punch(struct snic_kvmem *m, uint64_t object, uint64_t offset, uint64_t length);
/** 0; SNIC_ECORRUPT and where. */
int kv_mem_read(const struct snic_kvmem *m, struct snic_kvop *op);
int64_t kv_mem_seek(const struct snic_kvmem *m, uint64_t object, uint64_t offset, int hole);
/** Restore a block from the undo record, and take its data over. 0 or SNIC_ENOMEM. */
int kv_mem_block_set(struct snic_kvmem *m, const struct kv_mem_undo *u);
/** Free the object; it is in no table any more. */
void kv_mem_object_free(struct snic_kvmem *m, struct kv_mem_object *o);
void kv_mem_block_put(struct snic_kvmem *m, unsigned char *data);
/** Counts and checksums of an object. 0 or SNIC_ECORRUPT. */
int kv_mem_object_check(const struct snic_kvmem *m, const struct kv_mem_object *o);

/* ---- mem_crash.c ---- */

/** All changes are durable. */
void kv_mem_sync(struct snic_kvmem *m);

/* ---- mem_run.c ---- */

/** The fault for an operation. kind 0: none. */
struct kv_mem_verdict {
    uint32_t kind;
    int32_t error;
    uint64_t delay_ns;
    uint64_t keep;
};
struct kv_mem_verdict kv_mem_judge(struct snic_kvmem *m, const struct snic_kvop *op);
/** Execute a valid operation whose results were cleared. */
void kv_mem_execute(struct snic_kvmem *m, struct snic_kvop *op, const struct kv_mem_verdict *v);

#endif /* SNIC_KV_MEM_PRIV_H */
