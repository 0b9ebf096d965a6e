/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/fsdispatch.h
 * Requests of nvme-fs, executed by a file system: the IO dispatch of DPC's figure 3.
 *
 * Depends on  snicstore/base.h, snicstore/nvmefslink.h, snicstore/fs.h.
 * Memory      snic_fsdispatch_memsize() bytes of the caller's, then nothing is allocated.
 * Threads     The owner of the loop, which is both the link's and the file system's.
 * Progress    No call blocks.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       nvmefs.h has checked the form of requests; the file system checks their meaning.
 *
 * Requests of type 0 (standalone) go to the file system. Requests of type 1 (distributed) are for a
 * DFS client, which does not exist here: they end with SNIC_NVMEFS_STATUS_NO_SERVICE. nvme-fs has
 * no request to make, mount or unmount a file system. A host's open files and locks are those of
 * the mount: a server of one host after another unmounts and mounts in between.
 *
 *     o.request = snic_fsdispatch_request;      of snic_nvmefslink_dpu_opts
 *     o.cancel = snic_fsdispatch_cancel;
 *     o.ctx = dispatch;
 */
#ifndef SNIC_FSDISPATCH_H
#define SNIC_FSDISPATCH_H

#include "snicstore/base.h"
#include "snicstore/fs.h"
#include "snicstore/nvmefslink.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_fsdispatch;

/** Zero the struct, then set opts_size and commands. */
struct snic_fsdispatch_opts {
    uint32_t opts_size;
    uint32_t commands; /**< the link's queues_max * depth_max; at most 131072                 */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_fsdispatch_opts_wrong(const struct snic_fsdispatch_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_fsdispatch_init() needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_fsdispatch_memsize(const struct snic_fsdispatch_opts *o) SNIC_NONNULL(1);
/**
 * @param mem  at least snic_fsdispatch_memsize() bytes, aligned to 16; owned until fini
 * @param fs   mounted; it outlives the dispatch
 * @param o    copied
 * @return 0; SNIC_EINVAL an option (snic_fsdispatch_opts_wrong()) or the alignment; SNIC_ENOSPC
 *         @p size is too small [owner]
 */
SNIC_API SNIC_NODISCARD int snic_fsdispatch_init(struct snic_fsdispatch **out, void *mem,
                                                 size_t size, struct snic_fs *fs,
                                                 const struct snic_fsdispatch_opts *o)
    SNIC_NONNULL(1, 2, 4, 5);
/** End; asserts that no request is in flight. @return mem of init [owner] */
SNIC_API void *snic_fsdispatch_fini(struct snic_fsdispatch *s) SNIC_NONNULL(1);
/** Requests with the file system. [owner] */
SNIC_API uint32_t snic_fsdispatch_in_flight(const struct snic_fsdispatch *s) SNIC_NONNULL(1);
/** For snic_nvmefslink_dpu_opts.request; @p ctx is the dispatch. [owner] */
SNIC_API void snic_fsdispatch_request(void *ctx, struct snic_nvmefslink_dpu *d,
                                      struct snic_nvmefs_cmd *c) SNIC_NONNULL(1, 2, 3);
/** For snic_nvmefslink_dpu_opts.cancel; @p ctx is the dispatch. [owner] */
SNIC_API void snic_fsdispatch_cancel(void *ctx, struct snic_nvmefslink_dpu *d,
                                     struct snic_nvmefs_cmd *c) SNIC_NONNULL(1, 2, 3);
#ifdef __cplusplus
}
#endif
#endif /* SNIC_FSDISPATCH_H */
