/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A donor, node 0, and a learner, node 2, with nothing between them but what the test takes away.
 * Logs are durable at once, but for those that the test holds back. Everything is counted.
 */
#ifndef SNIC_TESTS_TEST_DDP_PAIR_H
#define SNIC_TESTS_TEST_DDP_PAIR_H

#include "snicstore/ddp.h"

enum { PAIR_DONOR = 0, PAIR_LEARNER, PAIR_QUEUE = 4096, PAIR_FRAME = 76 };

struct pair {
    struct snic_ddp *d[2];
    void *mem[2];
    struct snic_ddp_view view;
    struct snic_rng rng;
    uint64_t now;
    uint32_t lose; /* of 1000 messages */
    uint32_t twice;
    uint32_t count;
    struct snic_ddp_msg queue[PAIR_QUEUE];
    uint64_t bytes; /* of all messages, as on a wire */
    uint64_t sent;
    uint64_t steps;
    uint64_t appends; /* the learner's */
    uint64_t replaces;
    uint64_t drops;
    uint32_t most;      /* actions of a step */
    uint64_t confirmed; /* by a step, at most */
    uint32_t suspects;
    uint32_t flush; /* id of the learner's last FLUSH */
    int flushing;
    int hold; /* FLUSHED is the test's */
    int caught_up;
    int64_t handles[2]; /* given and not released */
};

struct pair *pair_new(uint32_t model, uint32_t keys_max);
void pair_free(struct pair *p);
struct snic_ddp_key pair_key(uint64_t i);
/* The donor writes: alone, and complete at once. */
void pair_write(struct pair *p, uint64_t key, uint32_t length);
void pair_delete(struct pair *p, uint64_t key);
/* The learner's log has what the donor has of this key now; newer: in the donor's epoch, but not
 * from it. */
void pair_load(struct pair *p, uint64_t key, int newer);
void pair_load_key(struct pair *p, const struct snic_ddp_key *key, uint64_t ts, uint32_t length,
                   uint32_t flags);
/* A new epoch, with the learner. */
void pair_join(struct pair *p, uint32_t flags);
int pair_step(struct pair *p, int who, const struct snic_ddp_event *ev);
/* One message arrives, or time passes. */
void pair_turn(struct pair *p);
/* Until the learner has caught up. */
void pair_run(struct pair *p);
/* Both have the same records, and the learner nothing else. */
void pair_same(struct pair *p);
struct snic_ddp_stats pair_stats(const struct pair *p);

#endif /* SNIC_TESTS_TEST_DDP_PAIR_H */
