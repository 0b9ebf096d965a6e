/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file resp/docs.h  The reply to COMMAND DOCS, and its texts. */
#ifndef EX_RESP_DOCS_H
#define EX_RESP_DOCS_H

#include "reply.h"

struct resp_doc {
    const char *name; /**< "command" or "command|subcommand" */
    const char *group;
    const char *since;
    const char *summary;
    const char *arguments; /**< see docs_data.c */
};

/** Sorted by name; NULL past the end. */
const struct resp_doc *resp_doc_at(uint32_t i);

struct resp_docs {
    const struct resp_arg *argv; /**< COMMAND DOCS and names */
    uint32_t argc;
    int (*has)(void *ctx, const char *name, size_t size); /**< has the server this command? */
    void *ctx;
};
void resp_docs_put(struct resp_reply *r, const struct resp_docs *w);

#endif
