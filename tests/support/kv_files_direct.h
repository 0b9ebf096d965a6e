/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The key-value engine's files straight on a file service, without host and channel; and an io
 * handle in front of the device that can forget promises. Both for tests of power loss.
 */
#ifndef SNIC_TESTS_KV_FILES_DIRECT_H
#define SNIC_TESTS_KV_FILES_DIRECT_H

#include "engine.h"

/** Promises that are forgotten: a test that still passes with one of them has no teeth. */
enum kv_forget {
    KV_FORGET_NOTHING,
    KV_FORGET_SYNC,          /**< WRITE completes before it is durable          */
    KV_FORGET_FSYNC,         /**< FSYNC does nothing                            */
    KV_FORGET_FUA_DATA,      /**< the device's FUA, outside the metadata        */
    KV_FORGET_FUA_META,      /**< the device's FUA, in the metadata             */
    KV_FORGET_FLUSH_DATA,    /**< a flush with nothing but data before it       */
    KV_FORGET_FLUSH_JOURNAL, /**< a flush after a write to the journal          */
    KV_FORGET_FLUSH_CKPT,    /**< a flush after a write to a checkpoint slot    */
    KV_FORGET_FLUSH_ALL,
    KV_FORGET_FLUSH_NTH /**< only the `nth` flush                          */
};

struct kv_direct {
    struct snic_files *files;
    enum kv_forget forget; /**< SYNC or FSYNC */
    struct snic_loop *loop;
};

/** Over struct kv_direct. */
extern const struct kv_files_ops kv_direct_ops;

/** An io handle over another one, from which it takes everything but what it forgets. */
struct kv_shim {
    struct snic_io io;
    struct snic_io *below;
    enum kv_forget forget;
    uint64_t nth;          /**< counts down to the flush that is forgotten  */
    uint64_t data_offset;  /**< of the image: metadata lies before it        */
    uint64_t journal_from; /**< checkpoint slots lie before it               */
    uint64_t flushes;
    int journal_written; /**< since the last flush */
    int ckpt_written;
};

void kv_shim_open(struct kv_shim *s, struct snic_io *below);
/** Learn from a probe where the metadata lies; before that nothing is forgotten. */
void kv_shim_layout(struct kv_shim *s, const struct snic_files_info *info);
/** 1 when the power is gone. */
int kv_shim_dead(struct kv_shim *s);

#endif /* SNIC_TESTS_KV_FILES_DIRECT_H */
