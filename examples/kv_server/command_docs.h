/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/command_docs.h  COMMAND INFO. */
#ifndef KV_COMMAND_DOCS_H
#define KV_COMMAND_DOCS_H

#include <stddef.h>
#include <stdint.h>

struct kv_command;
struct kv_command_spec;
struct resp_arg;

/** The ten elements of COMMAND INFO. */
void kv_command_describe(struct kv_command *c, const struct kv_command_spec *s);
/** Is the command in an access category, "string"? */
int kv_command_in_category(const struct kv_command_spec *s, const struct resp_arg *category);

#endif
