/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The kinds of links that the tests of the file library try: mapped, mapped but treated as
 * unmapped, and unmapped ones.
 */
#ifndef SNIC_TESTS_FILELINKS_H
#define SNIC_TESTS_FILELINKS_H

#include "filelink.h"

static const struct {
    int sim;
    uint32_t accept;
    uint32_t channel;
    uint32_t payload_align;
    uint32_t disk_align;
} links[] = {
    {0, 0, 0, 8, 1},
    {0, SNIC_CHANNEL_UNMAPPED, 0, 4096, 4096},
    {1, 0, 0, 512, 512},
    {2, 0, SNIC_CHANNEL_UP_QUIESCENT | SNIC_CHANNEL_DOWN_ORDERED, 8, 4096},
};

static inline void link_setup(struct filelink *l, unsigned kind)
{
    memset(l, 0, sizeof(*l));
    l->sim = links[kind].sim;
    l->serve.channel_flags = links[kind].accept;
    l->open.channel_flags = links[kind].channel;
    l->open.payload_align = links[kind].payload_align;
    l->open.up_bytes = 65536;
    l->open.down_bytes = 65536;
    l->fx.disk_opts.align = links[kind].disk_align;
    l->fx.disk_opts.delay_max_ns = 100000;
    l->fx.disk_opts.size = 4u << 20;
}

static inline void fill(unsigned char *p, size_t n, unsigned tag)
{
    size_t i;
    for (i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + (i >> 8) + tag);
}

#endif /* SNIC_TESTS_FILELINKS_H */
