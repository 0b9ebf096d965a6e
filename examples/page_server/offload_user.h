/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file page_server/offload_user.h
 * What the page server gives to DDS: framer, predicate, offload function, reply function,
 * cache-on-write (Table 1 of the paper). Invalidation comes from the replay on the host, ordered
 * with its acknowledgements (engine_priv.h, P2), so invalidate-on-read has nothing to do.
 */
#ifndef PS_OFFLOAD_USER_H
#define PS_OFFLOAD_USER_H

#include "page.h"
#include "wire.h"

struct ps_offload {
    struct wire_limits limits;
    uint8_t flags;  /**< of its replies: WIRE_BY_DPU in the DPU role                           */
    char stat[400]; /**< the DPU's answer to STAT, kept fresh by the role                     */
    uint32_t stat_size;
};

struct snic_offload_user ps_offload_user(struct ps_offload *p);
struct snic_director_user ps_director_user(struct ps_offload *p);

#endif
