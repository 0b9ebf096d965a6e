/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/session.h
 * What command_session.c and command_client.c share. */
#ifndef KV_SESSION_H
#define KV_SESSION_H

#include "engine_priv.h"

/** 1, or the error is written: a name has printable characters without blanks. */
int kv_session_name_valid(struct kv_command *c, const struct resp_arg *a);
void kv_session_name(struct kv_command *c, const char *name, uint32_t size);
/** CLIENT NO-EVICT. */
void kv_session_no_evict(struct kv_command *c, int on);
int64_t kv_session_id(const struct kv_client *c);

#endif
