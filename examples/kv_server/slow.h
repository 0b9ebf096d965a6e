/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/slow.h
 * The list of slow commands, for SLOWLOG. */
#ifndef KV_SLOW_H
#define KV_SLOW_H

#include "engine_priv.h"

struct slow_entry {
    struct slow_entry *next; /* older */
    struct slow_entry *previous;
    int64_t id;
    int64_t unix_s;
    int64_t took_us;
    uint32_t argc; /* arguments kept, each as size and bytes */
    char name[KV_CLIENT_NAME_MAX];
    size_t size;
    unsigned char args[];
};

struct kv_slow {
    struct slow_entry *first; /* the newest */
    struct slow_entry *last;
    uint64_t count;
    int64_t id;
};

/** Drop the oldest entries but @p keep. */
void kv_slow_cut(struct kv_slow *s, uint64_t keep);

#endif
