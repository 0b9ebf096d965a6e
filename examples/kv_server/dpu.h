/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/dpu.h
 * The DPU role: sockets, director, offload engine, cache table, file service.
 */
#ifndef KV_DPU_H
#define KV_DPU_H

#include "offload_user.h"
#include "roles.h"

struct kv_dpu;

/** Open everything but the way to the host; exits with a clear line on failure. */
struct kv_dpu *kv_dpu_open(const struct kv_config *c);
struct snic_loop *kv_dpu_loop(struct kv_dpu *d);
/** Take a link to a host (local links; shm ones come by the listener). */
int kv_dpu_link(struct kv_dpu *d, struct snic_dma *dma);
/** Start to drain; thread-safe only through the loop. */
void kv_dpu_drain(void *dpu);
/** Run until drained and the hosts are gone. @return exit status */
int kv_dpu_run(struct kv_dpu *d);

#endif
