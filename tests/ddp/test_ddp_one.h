/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One engine, node 0 of three: the test is the other two, its log and its client. Every step ends
 * with snic_ddp_check(), and leaves what the engine asked for in struct one.
 */
#ifndef SNIC_TESTS_TEST_DDP_ONE_H
#define SNIC_TESTS_TEST_DDP_ONE_H

#include "test_ddp_world.h"

struct one {
    struct snic_ddp *d;
    void *mem;
    size_t size;
    struct snic_ddp_view view;
    uint64_t now;
    uint32_t sent[32]; /* messages of each type since the last look */
    uint32_t did[16];  /* actions of each type */
    struct snic_ddp_msg last[32];
    struct snic_ddp_action done;
    uint32_t flush;   /* id of the last FLUSH */
    uint32_t suspect; /* mask of the last SUSPECT */
    uint32_t slow;    /* of it */
    uint32_t suspects;
    uint32_t order;  /* types of messages of this step: first, then last */
    uint16_t to[32]; /* of the last of each type */
};

struct snic_ddp_opts one_opts(uint32_t model, uint32_t flags);
/* In its first epoch, of three, with a lease of a second. */
struct one one_new(uint32_t model, uint32_t flags);
/* An engine that has received nothing yet. */
struct one one_fresh(uint32_t model, uint32_t node, uint32_t keys);
/* The next epoch. */
int one_view(struct one *x, uint16_t full, uint16_t learners, uint32_t donor, uint32_t restart);

/* Step it and take its actions. */
int one_step(struct one *x, const struct snic_ddp_event *ev);
/* A message about key 1 whose value is its timestamp. */
int one_message(struct one *x, uint32_t type, uint32_t src, uint64_t ts, uint32_t flags);
/* An operation on key 1; of a CAS, expect is what it compares with. */
int one_client(struct one *x, uint32_t type, uint64_t expect);
int one_appended(struct one *x, uint64_t ts);
int one_tick(struct one *x, uint64_t ns);
/* Time passes, with a TICK whenever there is something to do; how many messages of this type. */
uint32_t one_time(struct one *x, uint64_t ns, uint32_t type);
/* The result of snic_ddp_get() of key 1. */
int one_get(struct one *x);

#endif /* SNIC_TESTS_TEST_DDP_ONE_H */
