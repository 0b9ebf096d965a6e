/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_volume server and ctl serve: which client may do what with which disk. A text file, a line
 * for each:
 *
 *     # client  disk  may
 *     7         1     rw
 *     8         1     r
 *
 * Clients have keys of their own (`ctl key client`), made of the server's wire key, which need not
 * be here. The file is read again when it has changed, as the wire keys are: a client that is gone
 * from it, or whose key is made of a wire key that is not used any more, is refused from then on.
 */
#ifndef SOLAR_VOLUME_CLIENTS_H
#define SOLAR_VOLUME_CLIENTS_H

#include "../common.h"

/* Lines, and clients, of a file. */
enum { CLIENTS_MAX = 4096 };

/* @p list may be NULL: no clients. Wire keys: the present one, and, or NULL, the one before. Exits
 * with a clear line when anything is wrong. */
void clients_begin(const char *list, const char *wire_key, const char *before);
void clients_end(void);
/* Read again if a file has changed; where something is wrong, what was read before stays, and it is
 * logged. @return 1 the secrets are others now; clients_old() when no old one is in use. */
int clients_look(void);
void clients_old(void);

/* As volume.h has them. */
void *clients_secret(void *ctx, uint32_t key_id, uint32_t account);
/* As control.h has it: account 0 has the wire key itself. */
void *clients_secret_of(void *ctx, uint32_t key_id, uint32_t account);
uint32_t clients_rights(void *ctx, uint32_t account, uint64_t vd_id);

#endif
