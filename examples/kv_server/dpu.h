/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/dpu.h
 * The DPU role: sockets, director, offload engine, cache table, file service. */
#ifndef KV_DPU_H
#define KV_DPU_H

#include "../server/dpu.h"
#include "roles.h"

/** Open everything but the way to the host; exits with a clear line on failure. */
struct ex_dpu *kv_dpu_open(const struct kv_config *c);
/** Run until drained and the host is gone; closes everything. @return exit status */
int kv_dpu_run(struct ex_dpu *d);

#endif
