/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes of names that are not durable yet: they are done in the lower folder at once, and each
 * leaves a record by which a power loss undoes it, from the last one backwards. What a removed or
 * replaced name referred to is kept in the lower folder's `.lossfs` until then.
 *
 * Paths are absolute paths of the lower folder. All calls need the file system's lock.
 */
#ifndef SNIC_TESTS_LOSSFS_NAMES_H
#define SNIC_TESTS_LOSSFS_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct lossfs_random;

/** 0, or an errno. Empties what an earlier process left. */
int lossfs_names_init(const char *lower);
/** After mkdir, or the creation of a file. */
void lossfs_names_created(const char *path, int is_folder);
/** Each 0 or an errno. */
int lossfs_names_unlink(const char *path);
int lossfs_names_rmdir(const char *path);
int lossfs_names_rename(const char *from, const char *to);
/** All changes so far are durable. */
void lossfs_names_commit(void);
/** Power loss: of the changes a prefix, of random length, stays. Returns how many were undone. */
size_t lossfs_names_lose(struct lossfs_random *r);
size_t lossfs_names_pending(void);

#endif
