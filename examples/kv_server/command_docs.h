/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/command_docs.h  The texts of COMMAND DOCS. */
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

#endif
