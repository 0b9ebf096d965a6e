/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_sec.h
 * Cryptography of a block store: the table of cipher functions, encryption of blocks at rest and
 * their tags, sealed packets.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h.
 * Memory      None of its own; libcrypto's keys are allocated by libcrypto when they are opened.
 * Threads     A key belongs to one thread at a time; functions without one are [any].
 * Progress    Wait-free, as far as the cipher is.
 * Errors      0 on success, a negative SNIC_E*.
 * Units       bytes; blocks of 4096 bytes.
 * Input       Packets to be opened are hostile.
 *
 * Of all that is computed from a disk's plaintext only functions of that disk's key, too, leave the
 * client: ciphertext, and its tag. What these still disclose is listed, with every other field on
 * wire and disk, in lib/ebs/FORMAT.md.
 */
#ifndef SNIC_EBS_SEC_H
#define SNIC_EBS_SEC_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The functions of a cipher library ---- */

/**
 * The functions of a cipher library. A key is opaque, its backend's; it is used by one thread at a
 * time. All return 0 or a negative SNIC_E*; out and in are the same or do not overlap.
 */
struct snic_ebs_sec_ops {
    uint32_t ops_size; /**< sizeof(struct snic_ebs_sec_ops) */
    uint32_t pad;
    /** AES-XTS of @p size bytes; @p unit is the number of their first 512 bytes on the disk, or any
        other: each has another permutation. */
    int (*xts_encrypt)(void *key, uint64_t unit, void *out, const void *in, size_t size);
    int (*xts_decrypt)(void *key, uint64_t unit, void *out, const void *in, size_t size);
    /** AES-GCM. open: SNIC_EACCES when the tag is wrong; @p out is then undefined. */
    int (*gcm_seal)(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, unsigned char tag[16]);
    int (*gcm_open)(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, const unsigned char tag[16]);
    /** Replace the bytes of an AES-128-GCM key: one object serves many connections. */
    int (*gcm_rekey)(void *key, const unsigned char bytes[16]);
    /** HMAC-SHA-256 under a secret that is shared with the other side. */
    int (*mac)(void *secret, const void *in, size_t size, unsigned char out[32]);
};

/**
 * The keys of a disk's tags, made of its XTS key and nothing else. Plain data, as secret as that.
 */
struct snic_ebs_tag_key {
    unsigned char of_data[16];
    unsigned char of_place[16];
};
/**
 * Both are 32 bytes of zeros, encrypted as the data unit 2^64 - 1, which is no block's (an lba is
 * below 2^48): XTS under a key is a family of permutations, one for each unit, and the output of
 * one unit's discloses nothing of the others. So a disk has one key to keep, and servers none.
 * [any]
 * @return 0, or the backend's error
 */
SNIC_API SNIC_NODISCARD int snic_ebs_tag_key_init(struct snic_ebs_tag_key *k,
                                                  const struct snic_ebs_sec_ops *ops, void *xts_key)
    SNIC_NONNULL(1, 2, 3);
/**
 * The tag of a block of 4096 bytes of plaintext at @p lba; never 0. Data that are read are compared
 * with it: this detects a wrong key, an error of the cipher, another place's block. [any]
 *
 * It goes to servers, and is stored there, so it must disclose nothing of the plaintext. It is a
 * keyed pseudo-random function, SipHash-2-4 of the block, then of that and lba under a second key,
 * cut to 32 bits. A plain checksum discloses its 32 bits, and being linear, all of 4 unknown bytes
 * of an otherwise known block; the exclusive or of a checksum and a pad discloses the difference of
 * two blocks wherever a pad is used twice. This tag discloses whether two blocks written at one
 * place of one disk are equal, as XTS does.
 *   The version is not part of it: a server that returns an older block returns that block's
 * version, too, and a client remembers none; and when a disk is reissued, blocks get other versions
 * from servers, which cannot make tags. 32 bits detect errors; against forgery by a server they are
 * odds of 2^32 to one for each attempt, and each failed one is an I/O with SNIC_ECORRUPT.
 */
SNIC_API uint32_t snic_ebs_tag(const struct snic_ebs_tag_key *k, uint64_t lba, const void *block)
    SNIC_NONNULL(1, 3);

/**
 * Encrypt a block at rest; the tweak is the number of its first 512 bytes on the disk,
 * little-endian as IEEE 1619 has it, and the data unit is the block. @p out may be @p in. [any]
 * @return 0; SNIC_ERANGE @p lba is not below 2^48; or the backend's error
 */
SNIC_API SNIC_NODISCARD int snic_ebs_xts_encrypt(const struct snic_ebs_sec_ops *ops, void *key,
                                                 uint64_t lba, void *out, const void *in)
    SNIC_NONNULL(1, 4, 5);
/** Decrypt such a block. [any] @return results as snic_ebs_xts_encrypt() */
SNIC_API SNIC_NODISCARD int snic_ebs_xts_decrypt(const struct snic_ebs_sec_ops *ops, void *key,
                                                 uint64_t lba, void *out, const void *in)
    SNIC_NONNULL(1, 4, 5);

/*
 * Ciphers of OpenSSL's libcrypto, in the library snicstore-crypto; built without libcrypto there
 * are none, and the functions return NULL or SNIC_ENOTSUP. The caller opens and closes its keys.
 */
/** The table, or NULL. [any] */
SNIC_API const struct snic_ebs_sec_ops *snic_ebs_openssl(void);
/**
 * A key of AES-128-XTS (32 bytes) or AES-256-XTS (64). Allocates, in libcrypto. The bytes are
 * borrowed for the call. [any]
 * @return 0; SNIC_EINVAL its length, or two equal halves; SNIC_ENOMEM; SNIC_ENOTSUP built without
 *         libcrypto
 */
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_xts_open(void **key, const unsigned char *bytes,
                                                      size_t size) SNIC_NONNULL(1, 2);
/**
 * A key of AES-128-GCM (16 bytes) or AES-256-GCM (32). Allocates, in libcrypto. The bytes are
 * borrowed for the call. [any]
 * @return 0; SNIC_EINVAL its length; SNIC_ENOMEM; SNIC_ENOTSUP built without libcrypto
 */
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_gcm_open(void **key, const unsigned char *bytes,
                                                      size_t size) SNIC_NONNULL(1, 2);
/**
 * A shared secret, 16 ... 64 bytes, borrowed for the call. Allocates, in libcrypto. [any]
 * @return 0; SNIC_EINVAL its length; SNIC_ENOMEM; SNIC_ENOTSUP built without libcrypto
 */
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_secret_open(void **key, const unsigned char *bytes,
                                                         size_t size) SNIC_NONNULL(1, 2);
/** Forget a key; NULL is fine. [owner] */
SNIC_API void snic_ebs_openssl_close(void *key);

/**
 * Packets that one wire key may seal on each path; pn continues under the next key. Each path has
 * numbers of its own, as in QUIC's multipath extension, so that packets of a slower path do not
 * look like replays; the nonce is of path_id and pn: (salt ^ path_id) 4, pn 8.
 */
#define SNIC_EBS_KEY_PACKETS (UINT64_C(1) << 32)
/** A new key is due when no more than these are left. */
#define SNIC_EBS_KEY_REKEY (UINT64_C(1) << 24)

/** Wire key of one direction of a connection. Plain data; begin with snic_ebs_key_init(). */
struct snic_ebs_key {
    const struct snic_ebs_sec_ops *ops; /**< borrowed */
    void *key;                          /**< the backend's */
    uint64_t pn_first;                  /**< seals and opens pn_first ... pn_first + 2^32 - 1 */
    uint64_t pn_next[SNIC_EBS_PATHS];   /**< sealing, by path_id: no pn below it */
    uint32_t salt;                      /**< first 4 bytes of the nonce */
    uint32_t key_id;                    /**< the caller's */
};
/** A key of the backend for pn_first ... pn_first + 2^32 - 1; nothing is sealed yet. [owner] */
SNIC_API void snic_ebs_key_init(struct snic_ebs_key *k, const struct snic_ebs_sec_ops *ops,
                                void *key, uint32_t salt, uint64_t pn_first) SNIC_NONNULL(1, 2);
/** 1 when the key should be replaced before the packet @p pn, else 0. [any] */
SNIC_API int snic_ebs_key_due(const struct snic_ebs_key *k, uint64_t pn) SNIC_NONNULL(1);
/**
 * Encrypt the body of an encoded packet that has AUTH: from @p in to @p out (may be the same), and
 * its tag. @p packet is what snic_ebs_encode() wrote. No pn of a path is sealed twice or out of
 * order. [owner]
 * @return 0; SNIC_ESTALE the key has sealed all it may, or pn is before it; SNIC_EINVAL pn was
 *         used, path_id is not valid, or the packet has no AUTH; or the backend's error, after
 *         which pn counts as used
 */
SNIC_API SNIC_NODISCARD int snic_ebs_seal(struct snic_ebs_key *k, const void *packet,
                                          const struct snic_ebs_place *place, void *out,
                                          const void *in, unsigned char tag[16])
    SNIC_NONNULL(1, 2, 3, 6);
/**
 * Authenticate a packet, with @p place of snic_ebs_decode(), and decrypt its body to @p out, which
 * may be the body itself. [owner]
 * @return 0; SNIC_EACCES it is not authentic; SNIC_ESTALE pn is not one of this key; SNIC_EINVAL no
 *         AUTH; or the backend's error
 */
SNIC_API SNIC_NODISCARD int snic_ebs_open(const struct snic_ebs_key *k, const void *packet,
                                          const struct snic_ebs_place *place, void *out)
    SNIC_NONNULL(1, 2, 3);

#ifdef __cplusplus
}
#endif

#include "snicstore/ebs_token.h"

#endif /* SNIC_EBS_SEC_H */
