/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/files_plain.h
 * The monolith's files: plain files of one directory, through io_uring. A file's
 * id is the hexadecimal number in its name ("log-%016x").
 */
#ifndef KV_FILES_PLAIN_H
#define KV_FILES_PLAIN_H

#include "engine.h"

struct kv_plain;

extern const struct kv_files_ops kv_plain_ops; /* ctx: the struct kv_plain */

/** Open (and create, and lock) @p directory. @return 0 or SNIC_E* with a line in @p error */
int kv_plain_open(struct kv_plain **out, struct snic_loop *loop, const char *directory, int direct,
                  char *error, size_t error_size);
void kv_plain_close(struct kv_plain *p);

#endif
