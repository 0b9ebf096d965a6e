/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_sec.h
 * Secrets of a block store: what a cipher has to offer, blocks that are encrypted at rest and their
 * tags, packets that are sealed.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h.
 * Memory      None of its own; libcrypto's keys are allocated by libcrypto when they are opened.
 * Threads     A key belongs to one thread at a time; functions without one are [any].
 * Progress    Wait-free, as far as the cipher is.
 * Errors      0 on success, a negative SNIC_E*.
 * Units       bytes; blocks of 4096 bytes.
 * Input       What is opened is hostile.
 *
 * Nothing that is computed from a disk's plaintext leaves the client but what is a function of that
 * disk's key as well: ciphertext, and its tag. What these still tell is listed, with every other
 * field on wire and disk, in lib/ebs/FORMAT.md.
 */
#ifndef SNIC_EBS_SEC_H
#define SNIC_EBS_SEC_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What a cipher's library offers ---- */

/**
 * What a cipher's library offers. A key is whatever its backend says; it is used by one thread at a
 * time. All return 0 or a negative SNIC_E*; out and in are the same or do not overlap.
 */
struct snic_ebs_sec_ops {
    uint32_t ops_size; /**< sizeof(struct snic_ebs_sec_ops) */
    uint32_t pad;
    /** AES-XTS of @p size bytes; @p unit is the number of their first 512 bytes on the disk, or any
        other: of each there is another permutation. */
    int (*xts_encrypt)(void *key, uint64_t unit, void *out, const void *in, size_t size);
    int (*xts_decrypt)(void *key, uint64_t unit, void *out, const void *in, size_t size);
    /** AES-GCM. open: SNIC_EACCES when the tag is wrong; @p out is then without meaning. */
    int (*gcm_seal)(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, unsigned char tag[16]);
    int (*gcm_open)(void *key, const unsigned char nonce[12], const void *aad, size_t aad_size,
                    void *out, const void *in, size_t size, const unsigned char tag[16]);
    /** An AES-128-GCM key has these bytes from now on: one object serves many connections. */
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
 * below 2^48): XTS under a key is a family of permutations, one for each unit, and what that of one
 * unit gives tells nothing of the others. So a disk has one key to keep, and servers none. [any]
 * @return 0, or the backend's error
 */
SNIC_API SNIC_NODISCARD int snic_ebs_tag_key_init(struct snic_ebs_tag_key *k,
                                                  const struct snic_ebs_sec_ops *ops, void *xts_key)
    SNIC_NONNULL(1, 2, 3);
/**
 * The tag of a block of 4096 bytes of plaintext at @p lba; never 0. What is read is compared with
 * it: the wrong key, a cipher that errs, another place's block. [any]
 *
 * It goes to servers, and is stored there, so it must tell nothing of the plaintext. It is a keyed
 * pseudo-random function, SipHash-2-4 of the block, then of that and lba under a second key, cut to
 * 32 bits. A plain checksum tells its 32 bits, and being linear, of 4 unknown bytes of an otherwise
 * known block all; the exclusive or of a checksum and a pad tells the difference of two blocks
 * wherever a pad is used twice. What this tells is whether two blocks written at one place of one
 * disk are equal, which XTS tells, too.
 *   The version is not part of it: a server that gives back an older block gives its version with
 * it, and a client remembers none; and blocks get other versions when a disk is reissued, by
 * servers, that cannot make tags. 32 bits find errors; against a server that forges they are odds
 * of 2^32 to one for each attempt, and each failed one is an I/O with SNIC_ECORRUPT.
 */
SNIC_API uint32_t snic_ebs_tag(const struct snic_ebs_tag_key *k, uint64_t lba, const void *block)
    SNIC_NONNULL(1, 3);

/**
 * Encrypt or decrypt a block at rest; the tweak is the number of its first 512 bytes on the disk,
 * little-endian as IEEE 1619 has it, and the data unit is the block. @p out may be @p in. [any]
 * @return 0; SNIC_ERANGE @p lba; or the backend's error
 */
SNIC_API SNIC_NODISCARD int snic_ebs_xts_encrypt(const struct snic_ebs_sec_ops *ops, void *key,
                                                 uint64_t lba, void *out, const void *in)
    SNIC_NONNULL(1, 4, 5);
SNIC_API SNIC_NODISCARD int snic_ebs_xts_decrypt(const struct snic_ebs_sec_ops *ops, void *key,
                                                 uint64_t lba, void *out, const void *in)
    SNIC_NONNULL(1, 4, 5);

/*
 * Ciphers of OpenSSL's libcrypto, in the library snicstore-crypto; built without libcrypto there
 * are none, and the functions say so. A key is opened and closed by whoever holds it.
 */
/** The table, or NULL. [any] */
SNIC_API const struct snic_ebs_sec_ops *snic_ebs_openssl(void);
/**
 * A key of AES-128-XTS (32 bytes) or AES-256-XTS (64), of AES-128-GCM (16) or AES-256-GCM (32).
 * Allocates, in libcrypto. The bytes are borrowed for the call. [any]
 * @return 0; SNIC_EINVAL its length, or XTS with two equal halves; SNIC_ENOMEM; SNIC_ENOTSUP
 */
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_xts_open(void **key, const unsigned char *bytes,
                                                      size_t size) SNIC_NONNULL(1, 2);
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_gcm_open(void **key, const unsigned char *bytes,
                                                      size_t size) SNIC_NONNULL(1, 2);
/** A shared secret, 16 ... 64 bytes. [any] @return 0; SNIC_EINVAL; SNIC_ENOMEM; SNIC_ENOTSUP */
SNIC_API SNIC_NODISCARD int snic_ebs_openssl_secret_open(void **key, const unsigned char *bytes,
                                                         size_t size) SNIC_NONNULL(1, 2);
/** Forget a key; NULL is fine. [owner] */
SNIC_API void snic_ebs_openssl_close(void *key);

/**
 * Packets that one wire key may seal on each path; pn goes on under the next one. Each path has
 * numbers of its own, as in QUIC's multipath extension, so that a slower one is no replay of a
 * faster one; the nonce is of path_id and pn: (salt ^ path_id) 4, pn 8.
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
/** 1 when the key should be replaced before the packet @p pn. [any] */
SNIC_API int snic_ebs_key_due(const struct snic_ebs_key *k, uint64_t pn) SNIC_NONNULL(1);
/**
 * Encrypt the body of an encoded packet that has AUTH: from @p in to @p out (may be the same), and
 * its tag. @p packet is what snic_ebs_encode() wrote. No pn of a path is sealed twice or out of
 * order. [owner]
 * @return 0; SNIC_ESTALE the key has sealed all it may, or pn is before it; SNIC_EINVAL pn was
 *         used, path_id is none, or the packet has no AUTH; or the backend's error, after which pn
 * counts as used
 */
SNIC_API SNIC_NODISCARD int snic_ebs_seal(struct snic_ebs_key *k, const void *packet,
                                          const struct snic_ebs_place *place, void *out,
                                          const void *in, unsigned char tag[16])
    SNIC_NONNULL(1, 2, 3, 6);
/**
 * Authenticate a packet that snic_ebs_decode() gave @p place for, and decrypt its body to @p out,
 * which may be where it is. [owner]
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
