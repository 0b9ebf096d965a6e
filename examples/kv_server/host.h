/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/host.h
 * The host role: runs the engine on the DPU's files, on requests that the DPU's director sends. */
#ifndef KV_HOST_H
#define KV_HOST_H

#include "../server/host.h"
#include "roles.h"

/** Prepare the role; exits on failure. */
struct ex_host *kv_host_open(const struct kv_config *c);
/** Serve until drained, then close everything. @return exit status */
int kv_host_run(struct ex_host *h);

#endif
