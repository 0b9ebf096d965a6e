/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options by a table: each row has a field's default (in place of 0), its range, and the text that
 * names it when it is wrong. Shared by the transports and their services.
 */
#ifndef SNIC_EBS__OPTS_H
#define SNIC_EBS__OPTS_H

#include "snicstore/ebs.h"

#include <stddef.h>

#define SNIC_EBS__OPTS_SIZE_WRONG "opts_size: not the struct's, or an unknown option is set"

struct ebs_opt {
    uint32_t offset;
    uint32_t bytes; /* 4 or 8 */
    uint64_t preset;
    uint64_t min;
    uint64_t max;
    const char *wrong;
};

#define SNIC_EBS__OPT(type, field, preset, min, max, range)                                        \
    {                                                                                              \
        offsetof(struct type, field), sizeof(((struct type *)0)->field), preset, min, max,         \
            #field ": not " range                                                                  \
    }

#define SNIC_EBS__HOUR UINT64_C(3600000000000)

/* The rows that the options of all agents have, under the same names. */
#define SNIC_EBS__AGENT_OPTS(type)                                                                 \
    SNIC_EBS__OPT(type, client_epoch, 0, 1, 65535, "1..65535"),                                    \
        SNIC_EBS__OPT(type, disks_max, 16, 1, 4096, "1..4096"),                                    \
        SNIC_EBS__OPT(type, servers_max, 8, 1, 1024, "1..1024"),                                   \
        SNIC_EBS__OPT(type, rpcs_max, 1024, 16, 65536, "16..65536"),                               \
        SNIC_EBS__OPT(type, chunks_max, 0, 1, 1u << 20, "1..2^20"),                                \
        SNIC_EBS__OPT(type, disk_blocks_max, 0, 512, UINT64_C(1) << 40, "512..2^40"),              \
        SNIC_EBS__OPT(type, deadline_ns, UINT64_C(60000000000), 1, 24 * SNIC_EBS__HOUR,            \
                      "1 ns..24 h"),                                                               \
        SNIC_EBS__OPT(type, slow_ns, UINT64_C(1000000000), 1, 24 * SNIC_EBS__HOUR, "1 ns..24 h"),  \
        SNIC_EBS__OPT(type, error_ns, 0, 0, 24 * SNIC_EBS__HOUR, "0..24 h"),                       \
        SNIC_EBS__OPT(type, suspect_ns, UINT64_C(300000000), 1, SNIC_EBS__HOUR, "1 ns..1 h"),      \
        SNIC_EBS__OPT(type, stall_ns, 1000000, 1000, SNIC_EBS__HOUR, "1 us..1 h")

/* The queue's options of an agent's. */
#define SNIC_EBS__QUEUE_OPTS(q, o)                                                                 \
    do {                                                                                           \
        memset((q), 0, sizeof(*(q)));                                                              \
        (q)->client_epoch = (o)->client_epoch;                                                     \
        (q)->disks_max = (o)->disks_max;                                                           \
        (q)->servers_max = (o)->servers_max;                                                       \
        (q)->rpcs_max = (o)->rpcs_max;                                                             \
        (q)->chunks_max = (o)->chunks_max;                                                         \
        (q)->disk_blocks_max = (o)->disk_blocks_max;                                               \
        (q)->deadline_ns = (o)->deadline_ns;                                                       \
        (q)->slow_ns = (o)->slow_ns;                                                               \
        (q)->error_ns = (o)->error_ns;                                                             \
        (q)->seed = (o)->seed;                                                                     \
    } while (0)

/* Fill in defaults. @return the text of the first row that is out of range; NULL */
const char *ebs_opts_fill(void *opts, const struct ebs_opt *rows, size_t count);
/* The defaults of two options that follow from each other: a chunk is a GiB. */
void ebs_opts_chunks(uint32_t *chunks_max, uint64_t *disk_blocks_max);

#endif /* SNIC_EBS__OPTS_H */
