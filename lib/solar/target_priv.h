/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's internals.
 *
 * J1  A connection is in the slot whose number the lower bits of its id are.
 * J2  Acknowledgements of one (connection, path, peer) collect in one train, which is in the queue
 *     of trains from its first entry on and is closed when poll returns it.
 * J3  Nothing is kept of a request but its count and a bit, path_seq mod 256 of its path, while the
 *     owner has it: the owner keeps the rest.
 */
#ifndef SNIC_SOLAR_TARGET_PRIV_H
#define SNIC_SOLAR_TARGET_PRIV_H

#include "solar/solar_priv.h"

#define SNIC_SOLAR__WAYS 16u
#define SNIC_SOLAR__PROOF_BITS                                                                     \
    33 /* a proof is valid in the 8.6 s period in which it is made, and in the next                \
        */
#define SNIC_SOLAR__GREETED_NS (1000 * SNIC_SOLAR__MS) /* a slot is kept after a mere HELLO */
/* Of a read whose blocks are zeros and data alternately: a shorter packet ends a train. */
#define SNIC_SOLAR__READ_TRAINS (SNIC_EBS_READ_BLOCKS / 2u + 1)

struct solar_conn_path {
    uint32_t seq;              /* the last path_seq that was used */
    uint32_t train;            /* open ACKV, or NIL */
    uint64_t held[4];          /* J3 */
    uint32_t held_seq;         /* the highest of a request */
    uint32_t held_gen;         /* of the path, and 256; 0: none */
    uint32_t seen_seq;         /* the highest of all packets; statistics */
    uint32_t seen_gen;         /* likewise, of the path, and 256; 0: none */
    uint64_t pn;               /* used last */
    struct snic_ebs_peer peer; /* if proven: the address that sent its proof */
    uint32_t proven;
    uint32_t pad;
};

struct solar_conn {
    uint32_t used;
    uint32_t conn_id; /* ours */
    uint32_t client;  /* the id that our packets to it must have */
    uint32_t epoch;   /* of activity */
    uint32_t proved;  /* it has used the id that we assigned */
    uint32_t account; /* of its secret */
    uint32_t key_id;  /* of the key that the secret was derived from */
    void *secret;     /* AUTH */
    uint64_t client_id;
    uint64_t nonce;
    uint64_t heard_ns;
    uint64_t hello_pn;                            /* AUTH: the highest of a HELLO */
    uint64_t key_nonce;                           /* AUTH: ours in the keys */
    struct snic_solar_target_client client_stats; /* except for its id and time */
    struct solar_session session;
    struct solar_conn_path path[SNIC_SOLAR_PATHS_MAX];
};

struct snic_solar_target {
    struct snic_solar_target_opts o;
    void *mem;
    uint64_t now_ns;
    uint64_t epoch_ns; /* activity is counted in epochs */
    uint32_t epoch;
    uint32_t active; /* connections that sent packets in the last complete epoch */
    uint32_t active_now;
    struct snic_rng rng;
    uint64_t proof_salt;
    struct solar_conn *conns;
    struct solar_pool pool;
    struct solar_wire wire;
    struct snic_solar_target_stats s;
};

struct solar_conn *solar_conn_find(struct snic_solar_target *t, uint32_t conn_id);
/** For a client that sent HELLO @p pn. NULL: no free slot, or it is a replay. */
struct solar_conn *solar_conn_hello(struct snic_solar_target *t, const struct snic_ebs_hello *h,
                                    uint64_t pn, void *secret);
void solar_conn_heard(struct snic_solar_target *t, struct solar_conn *n);
/** Statistics of a received packet. */
void solar_conn_seen(struct solar_conn *n, const struct snic_ebs_header *h,
                     const struct snic_ebs_peer *peer);
uint64_t solar_conn_token(const struct snic_solar_target *t, uint32_t conn_id);
/** The value sent to an address, whose return proves that it receives there. Never 0. */
uint64_t solar_conn_proof(const struct snic_solar_target *t, const struct snic_ebs_peer *peer);
/** @p proof was received from @p peer on this path. */
void solar_conn_prove(const struct snic_solar_target *t, struct solar_conn *n, uint32_t path,
                      const struct snic_ebs_peer *peer, uint64_t proof);
int solar_conn_proven(const struct solar_conn *n, uint32_t path, const struct snic_ebs_peer *peer);
/** The number of the next packet on a path. */
uint64_t solar_conn_number(struct solar_conn *n, uint32_t path);

/* Requests that are received and not answered (J3). */
void solar_conn_holds(struct solar_conn *n, const struct snic_ebs_request *q);
void solar_conn_answers(struct solar_conn *n, const struct snic_ebs_request *q);

/* answer.c */
uint8_t solar_target_credit(const struct snic_solar_target *t);
/** Send a single packet, on @p n or, NULL, on no connection, authenticated by @p secret. @return 1;
 * 0 no train is free, or the cipher failed: not sent. */
int solar_target_single(struct snic_solar_target *t, struct solar_conn *n, void *secret,
                        const struct snic_ebs_peer *peer, struct snic_ebs_header *h,
                        uint32_t padding, const void *telemetry);

static inline int solar_target_auth(const struct snic_solar_target *t)
{
    return (t->o.flags & SNIC_SOLAR_AUTH) != 0;
}

#endif /* SNIC_SOLAR_TARGET_PRIV_H */
