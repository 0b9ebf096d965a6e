/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/host.h
 * The host role: the engine, on files of the DPU and messages from its director.
 */
#ifndef KV_HOST_H
#define KV_HOST_H

#include "roles.h"

struct kv_host;

struct kv_host *kv_host_open(const struct kv_config *c);
struct snic_loop *kv_host_loop(struct kv_host *h);
/** Attach to this fresh link when the role runs, instead of connecting. */
void kv_host_use(struct kv_host *h, struct snic_dma *dma);
/** Ask for the end: once the DPU has drained, or at once if there is none. */
void kv_host_drain(void *host);
/**
 * Attach, serve, attach again after the DPU's death (two processes), until
 * drained. @return exit status
 */
int kv_host_run(struct kv_host *h);

#endif
