/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What a cache's usefulness is compared with: keys drawn uniformly or by Zipf's law (0.99), and an
 * LRU of as many places.
 */
#ifndef SNIC_TESTS_SUPPORT_LRU_H
#define SNIC_TESTS_SUPPORT_LRU_H

#include "snicstore/base.h"

#include <stdint.h>

struct lru {
    uint32_t *prev, *next; /* element `keys` is the list's head */
    uint8_t *in;
    uint32_t keys;
    uint32_t capacity;
    uint32_t count;
};

void lru_open(struct lru *l, uint32_t keys, uint32_t capacity);
void lru_close(struct lru *l);
void lru_clear(struct lru *l);
void lru_remove(struct lru *l, uint32_t key);
/** @p key becomes the newest one; the oldest one leaves for it. */
void lru_put(struct lru *l, uint32_t key);
/** 1: it was there, and is the newest one now. */
int lru_get(struct lru *l, uint32_t key);

struct draw {
    double *sums; /* NULL: uniform */
    uint32_t keys;
};

void draw_open(struct draw *d, uint32_t keys, int zipf);
void draw_close(struct draw *d);
/** Zipf's ranks are the keys themselves: key 0 comes most often. */
uint32_t draw_key(const struct draw *d, struct snic_rng *rng);

#endif /* SNIC_TESTS_SUPPORT_LRU_H */
