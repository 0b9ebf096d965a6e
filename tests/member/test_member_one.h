/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One membership engine, node 0 of three: the test is the other two and its disk. Every step ends
 * with snic_member_check(), and leaves what the engine asked for in struct one. */
#ifndef SNIC_TESTS_TEST_MEMBER_ONE_H
#define SNIC_TESTS_TEST_MEMBER_ONE_H

#include "snicstore/member.h"

enum { MS = 1000000 };

struct one {
    _Alignas(SNIC_MEMBER_ALIGN) unsigned char mem[8192];
    struct snic_member *m;
    struct snic_member_opts o;
    uint64_t now;
    uint64_t seq[16];
    /* What the last step gave. */
    struct snic_member_action actions[32];
    uint32_t count;
};

void one_init(struct one *t);
int one_step(struct one *t, const struct snic_member_event *ev);
int one_tick(struct one *t, uint64_t after);
const struct snic_member_action *one_action(const struct one *t, uint32_t type);
const struct snic_member_msg *one_sent(const struct one *t, uint32_t type);
/* A STORE that was asked for is done; what comes of it is in actions. */
void one_store(struct one *t);
struct snic_member_view one_view(uint32_t epoch, uint16_t full, uint16_t learners);
struct snic_member_msg one_from(uint32_t src, uint32_t type, uint32_t epoch);
int one_message(struct one *t, const struct snic_member_msg *msg);
int one_heartbeat(struct one *t, uint32_t src, uint32_t epoch, uint32_t inc, uint32_t flags);
/* Node 0 with the view {0, 1, 2} of epoch 9 on disk under its incarnation 4, booted as 5. */
void one_boot(struct one *t, int again);
uint64_t one_ballot(uint32_t node, uint64_t round);
int one_accept(struct one *t, uint32_t src, uint64_t round, const struct snic_member_view *v);

#endif
