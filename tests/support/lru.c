/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lru.h"

#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *must_have(void *block)
{
    if (block == NULL)
        abort();
    return block;
}

void lru_open(struct lru *l, uint32_t keys, uint32_t capacity)
{
    l->prev = must_have(calloc((size_t)keys + 1, sizeof(*l->prev)));
    l->next = must_have(calloc((size_t)keys + 1, sizeof(*l->next)));
    l->in = must_have(calloc(keys, 1));
    l->keys = keys;
    l->capacity = capacity;
    lru_clear(l);
}

void lru_close(struct lru *l)
{
    free(l->prev);
    free(l->next);
    free(l->in);
}

void lru_clear(struct lru *l)
{
    memset(l->in, 0, l->keys);
    l->prev[l->keys] = l->next[l->keys] = l->keys;
    l->count = 0;
}

void lru_remove(struct lru *l, uint32_t key)
{
    if (!l->in[key])
        return;
    l->next[l->prev[key]] = l->next[key];
    l->prev[l->next[key]] = l->prev[key];
    l->in[key] = 0;
    l->count--;
}

void lru_put(struct lru *l, uint32_t key)
{
    lru_remove(l, key);
    if (l->count == l->capacity)
        lru_remove(l, l->prev[l->keys]);
    l->next[key] = l->next[l->keys];
    l->prev[key] = l->keys;
    l->prev[l->next[key]] = key;
    l->next[l->keys] = key;
    l->in[key] = 1;
    l->count++;
}

int lru_get(struct lru *l, uint32_t key)
{
    if (!l->in[key])
        return 0;
    lru_put(l, key);
    return 1;
}

void draw_open(struct draw *d, uint32_t keys, int zipf)
{
    double sum = 0;

    d->keys = keys;
    d->sums = NULL;
    if (!zipf)
        return;
    d->sums = must_have(calloc(keys, sizeof(*d->sums)));
    for (uint32_t k = 0; k < keys; k++) {
        sum += pow((double)k + 1, -0.99);
        d->sums[k] = sum;
    }
}

void draw_close(struct draw *d)
{
    free(d->sums);
}

uint32_t draw_key(const struct draw *d, struct snic_rng *rng)
{
    uint32_t low = 0, high = d->keys - 1;
    double x;

    if (d->sums == NULL)
        return (uint32_t)snic_rng_below(rng, d->keys);
    x = (double)(snic_rng_next(rng) >> 11) / 9007199254740992.0 * d->sums[high];
    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (d->sums[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
