/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Parts of states that are large and few: each is kept once and has a number. An item never moves
 * or changes. Equal are those with one fingerprint of 128 bits. The caller locks.
 *
 * And results: what an event does to a part, worked out once and looked up from then on. A result
 * begins with its event, 64 bits. Readers take no lock: a result is complete before its slot has
 * it.
 */
#ifndef SNIC_MC_INTERN_H
#define SNIC_MC_INTERN_H

#include "mc.h"

#include <stdatomic.h>

#define MC_INTERN_MAX (1u << 23)
#define MC_INTERN_ALIGN 64

struct mc_set {
    uint32_t *slot; /* number + 1 */
    uint64_t mask;
    uint32_t count;
    struct mc_print128 *print;
    void **item;
};

void mc_set_init(struct mc_set *s);
void mc_set_fini(struct mc_set *s);
/* The number of what has this fingerprint; a new one is a copy of item. */
uint32_t mc_set_add(struct mc_set *s, struct mc_print128 f, const void *item, size_t size);

struct mc_memo_table;
struct mc_memo {
    _Atomic(struct mc_memo_table *) table;
    struct mc_memo_table *old[64]; /* readers may still be in them */
    uint32_t olds;
    uint64_t count;
};

void mc_memo_init(struct mc_memo *m);
/* Gives each result to done first. */
void mc_memo_fini(struct mc_memo *m, void (*done)(void *result));
void *mc_memo_find(struct mc_memo *m, uint64_t event); /* NULL: none yet */
void mc_memo_add(struct mc_memo *m, void *result);

#endif /* SNIC_MC_INTERN_H */
