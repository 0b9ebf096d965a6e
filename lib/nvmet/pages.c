/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The arena of a connection: contiguous runs of pages, first fit over a map of bits. Commands take
 * them in the order of arrival, so a large one is not passed by small ones for ever.
 */
#include "nvmet/nvmet_priv.h"

static int nvmet_page_used(const struct nvmet_conn *c, uint32_t page)
{
    return (c->map[page / 64] >> page % 64 & 1U) != 0;
}

int nvmet_pages_take(struct nvmet_conn *c, uint32_t pages, uint32_t *first)
{
    uint32_t all = c->s->arena_pages, run = 0;
    for (uint32_t page = 0; page < all;) {
        if (run == 0) {
            uint64_t unused = ~c->map[page / 64] >> page % 64;
            if (unused == 0) {
                page = (page / 64 + 1) * 64;
                continue;
            }
            page += (uint32_t)__builtin_ctzll(unused); /* bits behind `all` are set */
        }
        run = nvmet_page_used(c, page++) ? 0 : run + 1;
        if (run < pages)
            continue;
        *first = page - pages;
        for (uint32_t i = *first; i < page; i++)
            c->map[i / 64] |= UINT64_C(1) << i % 64;
        c->s->stats.memory += (uint64_t)pages * SNIC_NVMET__PAGE;
        return 1;
    }
    return 0;
}

void nvmet_pages_put(struct nvmet_conn *c, uint32_t first, uint32_t pages)
{
    c->s->stats.memory -= (uint64_t)pages * SNIC_NVMET__PAGE;
    for (uint32_t i = first; i < first + pages; i++) {
        SNIC_DASSERT(nvmet_page_used(c, i));
        c->map[i / 64] &= ~(UINT64_C(1) << i % 64);
    }
}
