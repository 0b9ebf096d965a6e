/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cipher functions for tests, of no strength: deterministic, fast, and with what the engine needs:
 * every bit of the input counts, and both sides of an exchange compute the same. */
#ifndef TEST_NVMEAUTH_UTIL_H
#define TEST_NVMEAUTH_UTIL_H

#include "snicstore/nvmeauth.h"

#define NA_HOST "nqn.2014-08.org.nvmexpress:uuid:0001"
#define NA_SUB "nqn.2026-11.example:disk"
enum { NA_CALLS = 32 };

/** All calls after the n-th fail; 0: none. Counted for tests of errors. */
extern uint32_t na_fail_at;
extern uint32_t na_calls;
const struct snic_nvmeauth_ops *na_ops(void);

struct na_pair {
    struct snic_nvmeauth host, ctrl;
    struct snic_nvmeauth_keys host_keys, ctrl_keys;
    struct snic_nvmeauth_random host_random, ctrl_random;
    uint8_t message[5][SNIC_NVMEAUTH_MESSAGE_BYTES];
    size_t size[5];
    uint32_t count;
};
/** Both halves before a transaction; @p both: bidirectional. */
void na_init(struct na_pair *p, uint32_t hash, uint32_t group, int both, uint64_t seed);
/** The next message: 0 Negotiate, 1 Challenge, 2 Reply, 3 Success1, 4 Success2. Made, not passed
 * on. @return its bytes */
size_t na_make(struct na_pair *p, uint32_t step);
/** Pass message @p step on to its receiver. */
void na_pass(struct na_pair *p, uint32_t step, const void *data, size_t size);
/** Steps of a transaction. */
uint32_t na_steps(const struct na_pair *p);
/** All steps from @p from on, unchanged, as far as they go. */
void na_finish(struct na_pair *p, uint32_t from);
/** Neither has been authenticated, and nothing secret is left in a half that has ended. */
int na_intact(const struct na_pair *p);

#endif
