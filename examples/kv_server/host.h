/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/host.h
 * The host role: the engine, on files of the DPU and messages from its director. */
#ifndef KV_HOST_H
#define KV_HOST_H

#include "../server/host.h"
#include "roles.h"

struct ex_host *kv_host_open(const struct kv_config *c);
/** Serve until drained, then close everything. @return exit status */
int kv_host_run(struct ex_host *h);

#endif
