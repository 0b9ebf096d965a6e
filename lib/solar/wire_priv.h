/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packets under AUTH (specification 1.2 b): the keys of a connection, replays, and putting a packet
 * into a train, sealed or not.
 */
#ifndef SNIC_SOLAR_WIRE_PRIV_H
#define SNIC_SOLAR_WIRE_PRIV_H

#include "snicstore/solar.h"

#define SNIC_SOLAR__AT_PN 56 /* where a packet's number is, see ebs.h */
#define SNIC_SOLAR__AT_PATH 20

/** The packet numbers received, the highest and those below it, so that none counts twice. */
#define SNIC_SOLAR__WINDOW 2048u
struct solar_window {
    uint64_t top;
    uint64_t bits[SNIC_SOLAR__WINDOW / 64];
};
/** [any] @return 1 @p pn is new; 0 it was received before, or is below the window */
int solar_window_fresh(const struct solar_window *w, uint64_t pn);
/** It was received. [owner] */
void solar_window_mark(struct solar_window *w, uint64_t pn);

/** A key object of the backend and the bytes in it: shared by all sessions, reloaded on demand. */
struct solar_scratch {
    void *key; /* of AES-128-GCM */
    unsigned char bytes[16];
    uint32_t loaded;
    uint32_t pad;
};
struct solar_way {
    struct snic_ebs_key key;
    unsigned char bytes[16];
    uint32_t generation; /* pn / 2^32 */
    uint32_t known;
};
/**
 * Both directions of a connection. Its keys are derived with mac from the shared secret and from
 * the ids and random numbers of HELLO and HELLO_ACK, of both sides; each has 2^32 packet numbers of
 * each path, after which the next one is derived: pn / 2^32 selects it. Plain data.
 */
struct solar_session {
    const struct snic_ebs_sec_ops *ops; /* borrowed; NULL: there is no session */
    void *secret;
    uint64_t client_id;
    uint64_t client_nonce; /* HELLO's nonce         */
    uint64_t server_nonce; /* HELLO_ACK's key_nonce */
    uint32_t client_conn;
    uint32_t server_conn;
    uint32_t client_epoch;
    uint32_t server_epoch;
    struct solar_way way[2]; /* by direction */
    /* Of the direction received, by path: each has numbers of its own. */
    struct solar_window seen[SNIC_EBS_PATHS];
};
/** snic_ebs_seal() with the key that the packet's pn selects. [owner] @return likewise */
SNIC_NODISCARD int solar_session_seal(struct solar_session *s, struct solar_scratch *scratch,
                                      unsigned direction, const void *packet,
                                      const struct snic_ebs_place *place, void *out, const void *in,
                                      unsigned char tag[16]);
/**
 * snic_ebs_open() with the key that the packet's pn selects; an authentic pn is marked. [owner]
 * @return likewise; SNIC_EEXIST its pn was received before, or is below the window
 */
SNIC_NODISCARD int solar_session_open(struct solar_session *s, struct solar_scratch *scratch,
                                      unsigned direction, const void *packet,
                                      const struct snic_ebs_place *place, void *out);
/**
 * The number after @p last on a path, of the key that all paths seal with: a path that sends little
 * skips numbers when another has used up a key. [any]
 */
uint64_t solar_session_next(const struct solar_session *s, unsigned direction, uint64_t last);
/** The tag of a HELLO, HELLO_ACK or RESET, of its encoded header. [any] @return 0 or mac's error */
SNIC_NODISCARD int solar_vouch(const struct snic_ebs_sec_ops *ops, void *secret, unsigned direction,
                               const void *packet, unsigned char tag[16]);
/** @return 0; SNIC_EACCES its tag is wrong or missing; mac's error. [any] */
SNIC_NODISCARD int solar_vouched(const struct snic_ebs_sec_ops *ops, void *secret,
                                 unsigned direction, const void *packet,
                                 const struct snic_ebs_place *place);

/* ---- State of an agent or a target ---- */

struct solar_wire {
    const struct snic_ebs_sec_ops *ops;
    struct solar_scratch seal;
    struct solar_scratch open;
    unsigned char *plain; /* a decrypted body; NULL: no AUTH here */
};

/** 1: @p ops has all that AUTH needs, and there are two different key objects. */
int solar_wire_able(const struct snic_ebs_sec_ops *ops, void *const keys[2]);
void solar_wire_init(struct solar_wire *w, const struct snic_ebs_sec_ops *ops, void *const keys[2]);
struct solar_train;
/**
 * Encode @p h at the end of @p t, seal it, and add it. @p session NULL: no AUTH; @p secret: a
 * packet of the handshake. @p small: the body is copied behind the header (or is there already);
 * otherwise the train points to it, or to its ciphertext. [owner]
 * @return 0; or the cipher's error: nothing was added
 */
int solar_wire_add(struct solar_wire *w, struct solar_session *session, void *secret,
                   struct solar_train *t, unsigned direction, struct snic_ebs_header *h,
                   const void *body, uint32_t body_size, int small);
/** Bytes of a packet after its body. */
static inline uint32_t solar_wire_tail(const struct solar_session *session)
{
    return session != NULL ? SNIC_EBS_TAG_BYTES : 0;
}

#endif /* SNIC_SOLAR_WIRE_PRIV_H */
