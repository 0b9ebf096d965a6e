/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One agent, one target, a network of one array and a store of one segment, turned by hand.
 */
#ifndef SNIC_TEST_SOLAR_UTIL_H
#define SNIC_TEST_SOLAR_UTIL_H

#include "snicstore/solar.h"

enum { BAG = 512 };

struct letter {
    uint32_t size, to_target, path, gen;
    unsigned char bytes[SNIC_EBS_PACKET_BYTES];
};

struct duo {
    struct snic_solar *c;
    struct snic_solar_target *t;
    void *cmem, *tmem;
    uint64_t now;
    uint32_t letters, requests, done;
    uint32_t maps, opened, acts[16];
    uint32_t status;          /* the store's answer */
    struct snic_solar_opts o; /* duo_open adds to what is set here */
    struct snic_solar_target_opts k;
    void *secret; /* AUTH: the agent's */
    uint32_t key_id, account;
    uint32_t account_seen; /* of the last request */
    uint64_t store_ns;     /* what the store takes */
    uint64_t refuse;       /* a write of lba refuse - 1 is refused, */
    uint64_t hold;         /* one of lba hold - 1 waits until this is 0 */
    uint32_t fences;       /* received, */
    uint32_t promise;      /* and what they are answered */
    int mute;              /* MAP has no answer */
    uint64_t nat;          /* part of the agent's address, as the target sees it */
    uint64_t ready[BAG];
    uint64_t version[512];
    unsigned char store[512][SNIC_EBS_BLOCK_BYTES];
    uint32_t crc[512], block_tag[512];
    struct snic_ebs_request request[BAG];
    struct letter bag[BAG];
};

/** The one there is: it is large. Zero it, set o, k and secret as wanted, then open. */
extern struct duo duo;

void duo_open(struct duo *d);
void duo_close(struct duo *d);
/** What is in the bag arrives (or is lost), all act, time passes to the next deadline. */
void duo_turn(struct duo *d, int lost);
/** The same with tables that are damaged, of which the checks would fail. */
void duo_turn_unchecked(struct duo *d);
/** Turn until @p done I/Os are done; fails the test when nothing comes of it. */
void duo_until(struct duo *d, uint32_t done);
void duo_deliver(struct duo *d, const struct letter *l);
/** How many I/Os are done. */
uint32_t duo_done(const struct duo *d);
void duo_io(struct duo *d, struct snic_ebs_io *io, uint8_t op, uint64_t lba, uint32_t blocks,
            struct snic_iov *iov);

#endif
