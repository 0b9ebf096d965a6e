/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/nvmeauth.h
 * DH-HMAC-CHAP, the in-band authentication of NVMe over Fabrics (NVM Express Base Specification
 * 2.0, 8.13): the controller's half and the host's half of one queue, and secrets.
 *
 * Depends on  snicstore/base.h.
 * Memory      Plain structs of the caller's, without pointers; nothing is allocated, but by
 *             libcrypto inside a call.
 * Threads     [owner] one thread owns an object; the other functions are [any].
 * Progress    No call waits. What costs time is the Diffie-Hellman exchange, once in put and once
 *             in get of the controller, twice in step of the host: below 1 ms with ffdhe2048, some
 *             10 ms with ffdhe8192, nothing with the null group.
 * Errors      A negative SNIC_E*; then nothing changed. What the peer sends wrong becomes a
 *             failure message, and the state FAILING or FAILED.
 * Units       bytes.
 * Input       Messages are hostile, as is the text of a secret. All other input is the owner's.
 *
 * A transaction. Each message to the controller is the data of an Authentication Send command, each
 * to the host those of an Authentication Receive, on the queue that is authenticated; every queue
 * of a controller has a transaction of its own.
 *
 *     host                                      controller
 *     host_start: AUTH_Negotiate           ->   ctrl_put
 *     host_step   <-                            ctrl_get: DH-HMAC-CHAP_Challenge
 *                 DH-HMAC-CHAP_Reply       ->   ctrl_put
 *     host_step   <-                            ctrl_get: DH-HMAC-CHAP_Success1
 *                 DH-HMAC-CHAP_Success2    ->   ctrl_put     only if the host has a key of the
 *                                                            controller (bidirectional)
 *
 * Either side that finds something wrong sends AUTH_Failure1 (controller) or AUTH_Failure2 (host)
 * instead of its next message, with one of enum snic_nvmeauth_failure. Then, or when it receives
 * one, it ends the connection. Secure channel concatenation (TLS) is refused.
 *
 * Keys and secrets. The object holds no key: the owner passes them with each message, and a change
 * of keys takes effect with the next one. Everything secret that a call computes is overwritten
 * before it returns, what the object needs later (the private DH exponent, the response that it
 * expects) when the transaction ends. Responses are compared in the same time wherever they differ.
 * A challenge that equals the controller's own is refused, so that no response can be had by
 * reflection.
 *
 * Randomness is the owner's, too: same input, same messages, bit for bit. It must be unpredictable,
 * and fresh for every call: never used for a second one.
 */
#ifndef SNIC_NVMEAUTH_H
#define SNIC_NVMEAUTH_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fields of Authentication Send and Receive: Dword10, and Dword11 has the bytes. */
#define SNIC_NVMEAUTH_CDW10 0xe9010100U /**< SECP E9h, SPSP1 01h, SPSP0 01h                  */

/** Hash functions. Sets of them have bit (1 << id). */
enum snic_nvmeauth_hash {
    SNIC_NVMEAUTH_SHA256 = 1,
    SNIC_NVMEAUTH_SHA384 = 2,
    SNIC_NVMEAUTH_SHA512 = 3
};
#define SNIC_NVMEAUTH_HASHES 0x0eU

/** Diffie-Hellman groups (RFC 7919). Sets of them have bit (1 << id). */
enum snic_nvmeauth_group {
    SNIC_NVMEAUTH_DH_NULL = 0,
    SNIC_NVMEAUTH_FFDHE2048 = 1,
    SNIC_NVMEAUTH_FFDHE3072 = 2,
    SNIC_NVMEAUTH_FFDHE4096 = 3,
    SNIC_NVMEAUTH_FFDHE6144 = 4,
    SNIC_NVMEAUTH_FFDHE8192 = 5
};
#define SNIC_NVMEAUTH_GROUPS 0x3fU

/** Longest digest, DH value, message. */
#define SNIC_NVMEAUTH_DIGEST_BYTES 64U
#define SNIC_NVMEAUTH_DH_BYTES 1024U
#define SNIC_NVMEAUTH_MESSAGE_BYTES 1168U
/** Of a name, with its zero. */
#define SNIC_NVMEAUTH_NQN_BYTES 224U

/** Why a transaction failed: the explanation code of AUTH_Failure1 and AUTH_Failure2. */
enum snic_nvmeauth_failure {
    SNIC_NVMEAUTH_FAILED = 1,   /**< authentication failed                                    */
    SNIC_NVMEAUTH_PROTOCOL = 2, /**< no authentication protocol that is usable                */
    SNIC_NVMEAUTH_CONCAT = 3,   /**< secure channel concatenation mismatch                    */
    SNIC_NVMEAUTH_NO_HASH = 4,  /**< no hash function that is usable                          */
    SNIC_NVMEAUTH_NO_GROUP = 5, /**< no DH group that is usable                               */
    SNIC_NVMEAUTH_PAYLOAD = 6,  /**< incorrect payload                                        */
    SNIC_NVMEAUTH_MESSAGE = 7   /**< incorrect protocol message                               */
};
/** Text of an explanation code; never NULL. [any] */
SNIC_API const char *snic_nvmeauth_failure_text(uint32_t explanation);

/* ---- Secrets ---- */

/** A secret. Overwrite it with snic_nvmeauth_wipe() after use. */
struct snic_nvmeauth_key {
    uint8_t
        hash; /**< by which it is transformed, enum snic_nvmeauth_hash; 0: it is used as it is */
    uint8_t size; /**< 32, 48 or 64; 0: there is none                                          */
    uint8_t bytes[64];
};
/**
 * Read a secret as `nvme gen-dhchap-key` prints it, "DHHC-1:HH:BASE64:": HH is the hash, 00 for
 * none, and the base64 text is of the key and its CRC-32. A newline may follow. [any]
 * @return 0; SNIC_EINVAL not such a text; SNIC_ENOTSUP an unknown hash; SNIC_ECORRUPT the checksum
 *         is wrong
 */
SNIC_API SNIC_NODISCARD int snic_nvmeauth_key_parse(struct snic_nvmeauth_key *out, const char *text)
    SNIC_NONNULL(1, 2);
/** Overwrite @p size bytes so that no compiler leaves it out. [any] */
SNIC_API void snic_nvmeauth_wipe(void *data, size_t size);

/** The keys of a host. */
struct snic_nvmeauth_keys {
    struct snic_nvmeauth_key host; /**< proves the host's identity                             */
    struct snic_nvmeauth_key ctrl; /**< proves the controller's; size 0: there is none          */
};

/** Fresh random bytes, for one call. */
struct snic_nvmeauth_random {
    uint8_t challenge[SNIC_NVMEAUTH_DIGEST_BYTES];
    uint8_t dh[64];    /**< the private exponent                                             */
    uint32_t sequence; /**< where an object's sequence numbers begin                         */
};

/* ---- The functions of a cipher library ---- */

/** All return 0 or a negative SNIC_E*, and write what the hash or the group has. */
struct snic_nvmeauth_ops {
    uint32_t ops_size; /**< sizeof(struct snic_nvmeauth_ops)                                   */
    uint32_t pad;
    /** The digest of @p size bytes. */
    int (*digest)(uint32_t hash, const void *in, size_t size, uint8_t *out);
    /** HMAC of @p size bytes. */
    int (*hmac)(uint32_t hash, const void *key, size_t key_size, const void *in, size_t size,
                uint8_t *out);
    /** g^x mod p, with leading zeros; @p x is of 64 random bytes. */
    int (*dh_public)(uint32_t group, const uint8_t x[64], uint8_t *out);
    /** y^x mod p, with leading zeros. SNIC_EPROTO: y is not 2..p-2. */
    int (*dh_shared)(uint32_t group, const uint8_t x[64], const uint8_t *y, uint8_t *out);
};
/** Bytes of a digest, or of a DH value; 0: the null group, or there is no such one. [any] */
SNIC_API uint32_t snic_nvmeauth_digest_size(uint32_t hash);
SNIC_API uint32_t snic_nvmeauth_dh_size(uint32_t group);

/*
 * OpenSSL's libcrypto, in the library snicstore-crypto; built without it there is none.
 */
/** The table, or NULL. [any] */
SNIC_API const struct snic_nvmeauth_ops *snic_nvmeauth_openssl(void);
/** Fill @p out with libcrypto's random bytes. [any] @return 0; SNIC_EIO; SNIC_ENOTSUP built without
 * libcrypto */
SNIC_API SNIC_NODISCARD int snic_nvmeauth_openssl_random(struct snic_nvmeauth_random *out)
    SNIC_NONNULL(1);

/* ---- The two halves ---- */

enum snic_nvmeauth_state {
    SNIC_NVMEAUTH_IDLE = 0,   /**< controller: wants AUTH_Negotiate; host: before start          */
    SNIC_NVMEAUTH_NEGOTIATED, /**< controller: has Challenge; host: wants Challenge              */
    SNIC_NVMEAUTH_CHALLENGED, /**< controller: wants Reply                                       */
    SNIC_NVMEAUTH_REPLIED,    /**< controller: has Success1; host: wants Success1                */
    SNIC_NVMEAUTH_SUCCESS1,   /**< controller: wants Success2                                    */
    SNIC_NVMEAUTH_DONE,       /**< authenticated; AUTH_Negotiate begins a new transaction         */
    SNIC_NVMEAUTH_FAILING,    /**< controller: has AUTH_Failure1                                  */
    SNIC_NVMEAUTH_OVER        /**< failed: end the connection                                     */
};

/** One half of a queue. Use the functions; state and failure may be read. */
struct snic_nvmeauth {
    uint8_t state;   /**< enum snic_nvmeauth_state                                            */
    uint8_t failure; /**< enum snic_nvmeauth_failure in FAILING and OVER                      */
    uint8_t remote;  /**< 1: the peer reported the failure                                   */
    uint8_t hash;    /**< as agreed                                                         */
    uint8_t group;
    uint8_t both; /**< 1: bidirectional                                                    */
    uint16_t tid;
    uint32_t hashes;
    uint32_t groups;
    uint32_t own_sequence;
    uint32_t peer_sequence;
    uint8_t challenge[SNIC_NVMEAUTH_DIGEST_BYTES];
    uint8_t response[SNIC_NVMEAUTH_DIGEST_BYTES]; /**< the controller's, to send or to expect    */
    uint8_t dh[64];
    char hostnqn[SNIC_NVMEAUTH_NQN_BYTES];
    char subnqn[SNIC_NVMEAUTH_NQN_BYTES];
};

/**
 * A half before its first transaction. The names are copied, and cut at their longest. [owner]
 * @param hashes  SNIC_NVMEAUTH_HASHES or a part of it: what is permitted; the first in the order
 *                of their ids that both sides permit is used
 * @param groups  likewise; the null group is the last choice
 */
SNIC_API void snic_nvmeauth_init(struct snic_nvmeauth *a, const char *hostnqn, const char *subnqn,
                                 uint32_t hashes, uint32_t groups) SNIC_NONNULL(1, 2, 3);
/** Overwrite it. [owner] */
SNIC_API void snic_nvmeauth_fini(struct snic_nvmeauth *a) SNIC_NONNULL(1);

/**
 * Controller: a message of the host, the data of an Authentication Send. Bytes beyond the message
 * are ignored, as are reserved fields. All but @p a are borrowed for the call. [owner]
 * @return the new state
 */
SNIC_API int snic_nvmeauth_ctrl_put(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                    const struct snic_nvmeauth_keys *keys,
                                    const struct snic_nvmeauth_random *random, const void *data,
                                    size_t size) SNIC_NONNULL(1, 2, 3, 4);
/**
 * Controller: the message to the host, for an Authentication Receive. In a state that has none,
 * that is a wrong message: the transaction fails, also an authenticated queue's. [owner]
 * @return its bytes; SNIC_ENOSPC @p room is too small for it
 */
SNIC_API SNIC_NODISCARD int snic_nvmeauth_ctrl_get(struct snic_nvmeauth *a,
                                                   const struct snic_nvmeauth_ops *ops, void *out,
                                                   size_t room) SNIC_NONNULL(1, 2, 3);

/**
 * Host: begin a transaction: AUTH_Negotiate at @p out. @p tid should differ from that of other
 * transactions of the controller that are under way. [owner]
 * @return its bytes; SNIC_ENOSPC; SNIC_EBUSY one is under way, or the last one failed
 */
SNIC_API SNIC_NODISCARD int snic_nvmeauth_host_start(struct snic_nvmeauth *a, uint16_t tid,
                                                     void *out, size_t room) SNIC_NONNULL(1, 3);
/**
 * Host: a message of the controller, the data of an Authentication Receive; the answer at @p out,
 * of at least SNIC_NVMEAUTH_MESSAGE_BYTES. With a key of the controller in @p keys the controller
 * has to prove its identity. When the state is DONE or OVER the transaction has ended with the
 * answer, or, if that has 0 bytes, without one. [owner]
 * @return bytes of the answer to send
 */
SNIC_API SNIC_NODISCARD int snic_nvmeauth_host_step(struct snic_nvmeauth *a,
                                                    const struct snic_nvmeauth_ops *ops,
                                                    const struct snic_nvmeauth_keys *keys,
                                                    const struct snic_nvmeauth_random *random,
                                                    const void *data, size_t size, void *out)
    SNIC_NONNULL(1, 2, 3, 4, 7);

/** Every structural invariant. For tests. [owner] @return 0; SNIC_ECORRUPT */
SNIC_API int snic_nvmeauth_check(const struct snic_nvmeauth *a) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NVMEAUTH_H */
