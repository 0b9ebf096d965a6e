/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* solar_volume server: its devices, and the log lines about them. */
#ifndef SOLAR_VOLUME_STORE_H
#define SOLAR_VOLUME_STORE_H

#include "volume.h"

/* The files or devices of --store, in its order; borrowed for ever. */
void store_begin(struct snic_loop *loop, const char *const *files, uint32_t count);
void store_end(void);
/* Exits if one of them alone is too small for a store. */
void store_fits(struct snic_io *const *io, const struct snic_segments_opts *o);
/* Why the store could not be opened. */
void store_refused(int result, const struct snic_segments_report *r);
/* Events of the block server: a device failed, versions are lost, a block is damaged. */
void store_failed(void *ctx, uint32_t disk, int error);
void store_damaged(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, uint32_t blocks);
void store_misread(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error);

#endif
