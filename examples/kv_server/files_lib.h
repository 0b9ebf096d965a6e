/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/files_lib.h
 * The engine's files on a notification group of the file library.
 */
#ifndef KV_FILES_LIB_H
#define KV_FILES_LIB_H

#include "engine.h"

extern const struct kv_files_ops kv_lib_ops; /* ctx: the struct snic_filelib */

#endif
