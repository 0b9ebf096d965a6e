/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume: tokens, by which a catalog permits clients to use disks and servers know it.
 *
 * A file of --token-key is read again when it has changed: a key that is new in it is used, one
 * that is gone is not any more, at once.
 */
#ifndef SOLAR_VOLUME_TOKENS_H
#define SOLAR_VOLUME_TOKENS_H

#include "../common.h"

/* ---- Signing keys: catalog and servers ---- */

/* Exits with a clear line when the file is wrong. */
void tokens_begin(const char *path);
void tokens_end(void);
/* Read again if it has changed; where it is wrong, what was read before stays, and this is logged.
 * @return 1 there are other keys now */
int tokens_look(void);
/* As volume.h and control.h have them; the keys are borrowed until tokens_look(). */
void *tokens_key(void *ctx, uint32_t key_id);
uint64_t tokens_time(void *ctx);
/* What a server has refused since the last call, for its log. */
void tokens_refused(const struct snic_volume_server_stats *s);
/* With the first key, good for @p seconds from now on. 0, or an error. */
int tokens_sign(struct snic_ebs_token *t, uint64_t seconds, unsigned char *out);

/* ---- Accounts of a server that takes tokens: any with a key derived from the wire key ---- */

/* Secrets are made when they are asked for; those that no connection of @p server uses make room.
 */
void accounts_begin(const char *wire_key, const char *before, uint32_t connections);
void accounts_serve(struct snic_volume_server *server);
void accounts_end(void);
/* As tokens_look(); connections of keys that are gone end, @p ended of them. */
int accounts_look(uint32_t *ended);
void *accounts_secret(void *ctx, uint32_t key_id, uint32_t account);

#endif
