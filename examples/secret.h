/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/secret.h
 * Files of secrets for DH-HMAC-CHAP, which only their owner may read: lines of
 *   HOSTNQN SECRET [CTRLSECRET]
 * as `nvme gen-dhchap-key` prints them.
 */
#ifndef EX_SECRET_H
#define EX_SECRET_H

#include "common.h"

enum { EX_SECRET_LINE = 8192, EX_SECRET_WHY = 512 };

/** A line, without its end, which it may change. @return 0; -1 with @p why, EX_SECRET_WHY bytes */
typedef int (*ex_secret_line_fn)(void *ctx, char *text, char *why);
/**
 * Read the file, whose option is --auth-keys; nothing of it stays in memory but what @p line keeps.
 * @return 0; -1 with @p why: the file, its line, and what is wrong there
 */
int ex_secret_read(const char *path, ex_secret_line_fn line, void *ctx, char *why);
/** The secret of "host's" or "controller's", @p whose. @return 0; -1 with @p why */
int ex_secret_key(const char *whose, const char *text, struct snic_nvmeauth_key *out, char *why);
/** The words of a line after its name. @return 0; -1 with @p why */
int ex_secret_keys(char *const *words, int count, struct snic_nvmeauth_keys *out, char *why);

#endif
