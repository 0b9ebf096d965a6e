/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_token.h
 * Capabilities of a block store: a token grants an account rights on a disk, under a lease and
 * until a time. A catalog makes it, block servers check it without a query to the catalog.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h, snicstore/ebs_sec.h.
 * Memory      None of its own.
 * Threads     [any]; the cipher's secret belongs to one thread at a time.
 * Progress    Wait-free, as far as the cipher is.
 * Errors      0 on success, a negative SNIC_E*; then outputs are untouched.
 * Units       seconds since 1970-01-01 UTC, as the servers' clocks have them.
 * Input       A token that is verified is hostile.
 *
 * Format, SNIC_EBS_TOKEN_BYTES (64), big-endian:
 *
 *      0  format 1     1  rights        2  zero (2)      4  key_id (4)
 *      8  vd_id (8)   16  gen (4)      20  account (4)  24  not_after (8)
 *     32  zero (16)   48  MAC (16)
 *
 * The MAC is HMAC-SHA-256, cut to its first 128 bits, of the 16 bytes "snic ebs token 1" and of
 * bytes 0 ... 47, under the signing key that key_id names. Catalog and servers share signing keys;
 * clients have none. A token is not a bearer secret: SOLAR's servers accept it only on a connection
 * that has proven its account, by the key of that account. Over LUNA, which has no cipher, an
 * account is not proven, and an eavesdropper on the network can use a token until it expires.
 *
 * Rotating keys in operation: install the new key on the servers, then on the catalog, which signs
 * with it from then on; when the last token under the old key has expired, or at once, remove the
 * old key. A token whose key a server does not have is not accepted, and the client requests
 * another one from the catalog; no I/O fails by that.
 *
 * A token ends at not_after, by the server's clock; when its key is removed; or when a later lease
 * is granted or the lease is revoked: servers have the later lease in their segments, and refuse
 * requests under a token of an earlier one. A server that the catalog cannot reach does not have
 * it, and accepts the token until one of the other two ends it.
 */
#ifndef SNIC_EBS_TOKEN_H
#define SNIC_EBS_TOKEN_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/ebs_sec.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rights, which are bits. Others make a token malformed. */
#define SNIC_EBS_MAY_READ (1u << 0)
#define SNIC_EBS_MAY_WRITE (1u << 1) /**< also ZERO and TRIM */
#define SNIC_EBS_MAY_FENCE (1u << 2) /**< refuse earlier writes of the disk */
#define SNIC_EBS_MAY_ALL (SNIC_EBS_MAY_READ | SNIC_EBS_MAY_WRITE | SNIC_EBS_MAY_FENCE)

/** A token's claims; plain data. */
struct snic_ebs_token {
    uint64_t vd_id;     /**< the disk                                                            */
    uint64_t not_after; /**< it is valid up to this second, and not afterwards                   */
    uint32_t key_id;    /**< of the signing key                                                  */
    uint32_t account;   /**< the client's; 0: of a client that has none                          */
    uint32_t gen;       /**< the lease in the upper 16 bits (volume.h: snic_volume_gen()), not 0 */
    uint32_t rights;    /**< SNIC_EBS_MAY_*, not 0                                               */
};

/**
 * Make a token, signed with @p secret, a shared secret of @p ops that key_id names.
 * @return 0; SNIC_EINVAL no rights, unknown rights, or no generation; or the backend's error [any]
 */
SNIC_API SNIC_NODISCARD int snic_ebs_token_sign(unsigned char out[SNIC_EBS_TOKEN_BYTES],
                                                const struct snic_ebs_token *t,
                                                const struct snic_ebs_sec_ops *ops, void *secret)
    SNIC_NONNULL(1, 2, 3, 4);
/**
 * Read its claims, unverified: key_id is the key to verify it with.
 * @return 0; SNIC_EVERSION another format; SNIC_EPROTO malformed [any]
 */
SNIC_API SNIC_NODISCARD int snic_ebs_token_read(struct snic_ebs_token *t,
                                                const unsigned char in[SNIC_EBS_TOKEN_BYTES])
    SNIC_NONNULL(1, 2);
/**
 * Read a token and compare its MAC, in the same time wherever it differs.
 * @return 0; SNIC_EVERSION another format; SNIC_EPROTO malformed; SNIC_EACCES it was not signed
 *         with this key, or was changed; or the backend's error [any]
 */
SNIC_API SNIC_NODISCARD int snic_ebs_token_verify(struct snic_ebs_token *t,
                                                  const unsigned char in[SNIC_EBS_TOKEN_BYTES],
                                                  const struct snic_ebs_sec_ops *ops, void *secret)
    SNIC_NONNULL(1, 2, 3, 4);

/** A request that a token may permit. */
struct snic_ebs_token_use {
    uint64_t vd_id;
    uint64_t now;     /**< the server's clock, in seconds                                        */
    uint32_t account; /**< of the connection that it was received on                             */
    uint32_t rights;  /**< SNIC_EBS_MAY_*: all that it needs                                     */
    uint32_t lease;   /**< the highest lease that it names, in its generation or its version     */
    uint32_t stored;  /**< the segment's lease in the store; 0: not known                        */
};
/**
 * Does a verified token permit it?
 * @return 0; SNIC_EPERM another disk's or account's, or a right that it does not grant;
 *         SNIC_ETIMEDOUT it has expired; SNIC_ERANGE the request names a later lease than the
 *         token; SNIC_ESTALE a later lease is stored [any]
 */
SNIC_API SNIC_NODISCARD int snic_ebs_token_permits(const struct snic_ebs_token *t,
                                                   const struct snic_ebs_token_use *u)
    SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_TOKEN_H */
