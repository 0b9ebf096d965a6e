/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file ddp_server/cluster.h  The files that the nodes of a cluster have in common. */
#ifndef DS_CLUSTER_H
#define DS_CLUSTER_H

#include "node.h"

#define DS_CLUSTER_KEY 32
#define DS_NONCE 16
#define DS_PROOF 32

/** `ddp_server found`. @return the program's exit code */
int ds_found(struct ds_config *c, int argc, char **argv);
/** The settings of a file; of a key beside it, too. Exits with a clear line when they are wrong. */
void ds_cluster_read(struct ds_config *c, const char *path);
void ds_cluster_key_read(const char *path, unsigned char key[DS_CLUSTER_KEY]);
/** A libcrypto key for mac(); one thread's. */
void *ds_cluster_secret(const unsigned char key[DS_CLUSTER_KEY]);
/** What proves to have the key, for a nonce of the other side. */
void ds_cluster_prove(void *secret, const unsigned char nonce[DS_NONCE],
                      unsigned char out[DS_PROOF]);
void ds_random(void *out, size_t size);
/** Lower-case hexadecimal digits. 0; -1 */
int ds_hex_read(const char *text, size_t size, unsigned char *out);
/** @p out has 2 size + 1 bytes. */
void ds_hex_write(const unsigned char *data, size_t size, char *out);

#endif
