/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One agent and one target of LUNA, joined by pipes in memory that hand on bytes in pieces of any
 * size, and a store that answers at once, or keeps its requests until the test releases them.
 */
#ifndef SNIC_TESTS_LUNA_UTIL_H
#define SNIC_TESTS_LUNA_UTIL_H

#include "snicstore/luna.h"
#include "support.h"

enum { DUO_CONNS = 4, DUO_BLOCKS = 1024, DUO_REQUESTS = 4096, DUO_PIPE = 8 << 20 };

struct duo_pipe {
    unsigned char *bytes;
    size_t head, tail;
    uint64_t put, got; /* of this connection's stream, in all */
};

struct duo_conn {
    struct duo_pipe up, down;
    uint32_t gen;    /* of the agent */
    uint32_t handle; /* of the target */
    int open;        /* bit 0: at the agent, bit 1: at the target */
    int paused;
    int resumed;
};

struct duo_stored {
    uint64_t wver;
    uint32_t crc, block_tag, kind;
    unsigned char data[SNIC_EBS_BLOCK_BYTES];
};

struct duo {
    struct snic_luna *c;
    struct snic_luna_target *t;
    struct snic_luna_opts o;
    struct snic_luna_target_opts k;
    void *cmem, *tmem;
    uint64_t now, step;
    size_t chunk;                    /* most bytes of a piece; 0: all */
    uint64_t split[2];               /* up, down: a piece ends there in the stream, too */
    uint64_t flip[2];                /* a bit of the first connection's stream, plus one; once */
    int lost_up, lost_down, refused; /* bytes vanish; CONNECT fails */
    int hold;                        /* requests are kept */
    int tape;                        /* the pipes keep what went through them */
    int lends;                       /* the target's sends are kept */
    int keeps;                       /* the agent's are */
    int mute;                        /* MAP has no answer */
    int still;                       /* no leaps to the next deadline */
    uint32_t status, maps, seg_gen, sa_epoch;
    uint32_t acts[16], closes, target_closes;
    int32_t reason, target_reason;
    uint64_t fence;
    void *xts_key;
    uint64_t moved; /* bytes that were delivered */
    uint32_t requests, lent, kept;
    struct duo_conn conn[DUO_CONNS];
    struct snic_luna_send *lend[256], *keep[256];
    struct snic_ebs_request request[DUO_REQUESTS];
    struct duo_stored store[DUO_BLOCKS];
};

/** Engines with the options of d->o and d->k, where they are set; disk 0 has DUO_BLOCKS blocks. */
void duo_open(struct duo *d);
void duo_close(struct duo *d);
/** A new target, as after a crash: connections break; the store stays. */
void duo_restart(struct duo *d, uint32_t srv_epoch);
/** All that is under way arrives, all ends act; the time advances by d->step. */
void duo_turn(struct duo *d);
/** The agent alone acts. @return how often */
uint64_t duo_agent(struct duo *d);
/** The kept buffers of the agent's sends are returned. */
void duo_keep_back(struct duo *d);
/** Turns until @p dones I/Os in all are done, at most @p turns. @return 1 they are */
int duo_until(struct duo *d, uint32_t dones, uint32_t turns);
/** Answer what is held. */
void duo_answer(struct duo *d);
/** A connection breaks. */
void duo_break(struct duo *d, uint32_t conn, int reason);
void duo_io(struct duo *d, struct snic_ebs_io *io, uint8_t op, uint64_t lba, uint32_t blocks,
            const struct snic_iov *iov, uint32_t pieces);
void duo_check(struct duo *d);
void duo_fill(unsigned char *p, size_t size, uint64_t seed);

#endif
