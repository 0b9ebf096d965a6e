/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inside the authentication engine.
 *
 *   A1  Secrets of a transaction (dh, and response until it was sent or compared) are zero in IDLE,
 *       DONE, FAILING and OVER.
 *   A2  DONE is entered only behind a response that was compared: ctrl.c and host.c have one place
 *       each. FAILING and OVER are left never.
 *   A3  A message changes the state once, and one that is malformed changes nothing but that.
 */
#ifndef SNIC_NVMEAUTH_PRIV_H
#define SNIC_NVMEAUTH_PRIV_H

#include "snicstore/nvmeauth.h"

/* Types and ids of messages. */
#define SNIC_NVMEAUTH__COMMON 0x00U
#define SNIC_NVMEAUTH__CHAP 0x01U
#define SNIC_NVMEAUTH__NEGOTIATE 0x00U
#define SNIC_NVMEAUTH__CHALLENGE 0x01U
#define SNIC_NVMEAUTH__REPLY 0x02U
#define SNIC_NVMEAUTH__SUCCESS1 0x03U
#define SNIC_NVMEAUTH__SUCCESS2 0x04U
#define SNIC_NVMEAUTH__FAILURE2 0xf0U
#define SNIC_NVMEAUTH__FAILURE1 0xf1U
/* Sizes: the fixed part of all but AUTH_Negotiate and the failures; those. */
#define SNIC_NVMEAUTH__HEAD 16U
#define SNIC_NVMEAUTH__FAILURE 8U
#define SNIC_NVMEAUTH__DESCRIPTOR 64U
#define SNIC_NVMEAUTH__LIST 30U /* hash ids of a descriptor, then as many DH group ids */

/* A message that the peer has sent: what all have. */
struct nvmeauth_message {
    const uint8_t *data;
    size_t size;
    uint32_t type;
    uint32_t id;
    uint16_t tid;
};

/* message.c */
/** @return 0; SNIC_EPROTO shorter than any */
int nvmeauth_message_read(struct nvmeauth_message *m, const void *data, size_t size);
/** The first @p size bytes are cleared and begin with type, id, transaction. */
void nvmeauth_message_begin(uint8_t *out, size_t size, uint32_t type, uint32_t id, uint16_t tid);
size_t nvmeauth_failure_write(uint8_t *out, uint32_t id, uint16_t tid, uint8_t failure);
/** The one of @p count ids that comes first in the order of preference; UINT32_MAX: none. */
uint32_t nvmeauth_choose_hash(const uint8_t *ids, uint32_t count, uint32_t permitted);
uint32_t nvmeauth_choose_group(const uint8_t *ids, uint32_t count, uint32_t permitted);

/* compute.c */
int nvmeauth_equal(const void *a, const void *b, size_t size);
/** A1: nothing secret is left. */
void nvmeauth_forget(struct snic_nvmeauth *a);
/** The sequence number of the next challenge, never 0. */
uint32_t nvmeauth_sequence(struct snic_nvmeauth *a, const struct snic_nvmeauth_random *random);

/** What a response is computed of. */
struct nvmeauth_proof {
    const struct snic_nvmeauth_key *key;
    const uint8_t *challenge;
    uint32_t sequence;
    uint8_t of_ctrl; /* 1: the controller's, 0: the host's                        */
    uint8_t pad[3];
    const uint8_t *session; /* the session key; of the null group it is ignored          */
};
/** @return 0; the backend's error */
int nvmeauth_respond(const struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                     const struct nvmeauth_proof *p, uint8_t *out);
/** The session key of our exponent and the peer's value; nothing for the null group.
 * @return 0; SNIC_EPROTO the value; the backend's error */
int nvmeauth_session(const struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                     const uint8_t *x, const uint8_t *y, uint8_t *out);

#endif /* SNIC_NVMEAUTH_PRIV_H */
