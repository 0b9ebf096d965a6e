/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/command_docs.h  The texts of COMMAND DOCS, and COMMAND INFO. */
#ifndef KV_COMMAND_DOCS_H
#define KV_COMMAND_DOCS_H

#include <stddef.h>
#include <stdint.h>

struct kv_doc {
    const char *name; /**< "command" or "command|subcommand" */
    const char *group;
    const char *since;
    const char *summary;
    const char *arguments; /**< see command_docs_data.c */
};

/** Sorted by name; NULL past the end. */
const struct kv_doc *kv_doc_at(uint32_t i);

struct kv_command;
struct kv_command_spec;
struct resp_arg;

/** The ten elements of COMMAND INFO. */
void kv_command_describe(struct kv_command *c, const struct kv_command_spec *s);
/** Is the command in an access category, "string"? */
int kv_command_in_category(const struct kv_command_spec *s, const struct resp_arg *category);

#endif
