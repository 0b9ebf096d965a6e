/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/offload_user.h
 * What an application gives to DDS: framer, predicate, offload function, reply
 * function, cache-on-write, invalidate-on-read.
 */
#ifndef KV_OFFLOAD_USER_H
#define KV_OFFLOAD_USER_H

#include "record.h"
#include "../resp/framing.h"
#include "tenant.h"
#include "snicstore.h"

struct kv_offload {
    struct resp_framing framing; /**< first: it is the director's                           */
    struct snic_loop *loop;
    uint64_t hash_seed[2];
    uint64_t wall_offset_ms; /**< wall clock minus the loop's, kept fresh by the role */
    /** Records from here on (file, offset: the order of the log) are in the host's memory, too:
        the host answers for them, faster than the device could, unless `all`. */
    uint64_t memory_file;
    uint32_t memory_offset;
    int all;
    int password; /**< there is one: only connections with KV_WORD_AUTH are answered      */
    const struct kv_tenants *tenants; /**< NULL: the device is not shared                  */
};

/** No host, or one that has not reported yet: everything is answered from the device. */
void kv_offload_forget_memory(struct kv_offload *k);
struct snic_offload_user kv_offload_user(struct kv_offload *k);
struct snic_director_user kv_director_user(struct kv_offload *k);

#endif
