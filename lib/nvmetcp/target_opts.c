/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options of a target: defaults, ranges, the text that names a wrong one, and its memory.
 */
#include "nvmetcp/target_priv.h"

static int nvmetcp_out_of(uint64_t v, uint64_t min, uint64_t max)
{
    return v < min || v > max;
}

static const char *nvmetcp_target_wrong(const struct snic_nvmetcp_target_opts *o)
{
    if (o->flags != 0)
        return "flags: unknown bits";
    if (o->pad != 0)
        return "pad: not 0";
    if ((o->digests & ~(SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST)) != 0)
        return "digests: unknown bits";
    if (o->cpda > 31)
        return "cpda: not 0..31";
    if (nvmetcp_out_of(o->depth_max, 2, SNIC_NVMETCP_DEPTH_MAX))
        return "depth_max: not 2..4096";
    if (nvmetcp_out_of(o->inline_max, 1024, SNIC_NVMETCP_INLINE_MAX) || o->inline_max % 16 != 0)
        return "inline_max: not 1024..1 MiB, or no multiple of 16";
    if (nvmetcp_out_of(o->inline_buffers, 1, o->depth_max))
        return "inline_buffers: not 1..depth_max";
    if (nvmetcp_out_of(o->grants_max, 1, SNIC_NVMETCP_DEPTH_MAX))
        return "grants_max: not 1..4096";
    if (nvmetcp_out_of(o->r2ts_max, 1, SNIC_NVMETCP_R2TS_MAX))
        return "r2ts_max: not 1..64";
    if (nvmetcp_out_of(o->h2c_max, 4096, SNIC_NVMETCP_TRANSFER_MAX) || o->h2c_max % 4 != 0)
        return "h2c_max: not 4096..1 GiB, or no multiple of 4";
    if (nvmetcp_out_of(o->transfer_max, 4096, SNIC_NVMETCP_TRANSFER_MAX))
        return "transfer_max: not 4096..1 GiB";
    if (o->greet_ns > SNIC_NVMETCP_NS_MAX)
        return "greet_ns: above 2^60";
    if (o->data_ns > SNIC_NVMETCP_NS_MAX)
        return "data_ns: above 2^60";
    if (o->close_ns > SNIC_NVMETCP_NS_MAX)
        return "close_ns: above 2^60";
    return NULL;
}

int nvmetcp_target_opts(struct snic_nvmetcp_target_opts *full,
                        const struct snic_nvmetcp_target_opts *o, const char **wrong)
{
    memset(full, 0, sizeof(*full));
    *wrong = "opts_size: not that of the struct";
    if (snic_opts_copy(full, sizeof(*full), o) != 0)
        return SNIC_EINVAL;
    full->depth_max += full->depth_max == 0 ? 128 : 0;
    full->inline_max += full->inline_max == 0 ? 8192 : 0;
    if (full->inline_buffers == 0)
        full->inline_buffers = (uint32_t)snic_min_u64(16, full->depth_max);
    full->grants_max += full->grants_max == 0 ? full->depth_max : 0;
    full->r2ts_max += full->r2ts_max == 0 ? 4 : 0;
    full->h2c_max += full->h2c_max == 0 ? 128u << 10 : 0;
    full->transfer_max += full->transfer_max == 0 ? 1u << 20 : 0;
    full->greet_ns += full->greet_ns == 0 ? UINT64_C(10000000000) : 0;
    full->data_ns += full->data_ns == 0 ? UINT64_C(10000000000) : 0;
    full->close_ns += full->close_ns == 0 ? UINT64_C(30000000000) : 0;
    *wrong = nvmetcp_target_wrong(full);
    return *wrong == NULL ? 0 : SNIC_EINVAL;
}

const char *snic_nvmetcp_target_opts_wrong(const struct snic_nvmetcp_target_opts *o)
{
    struct snic_nvmetcp_target_opts full;
    const char *wrong;
    (void)nvmetcp_target_opts(&full, o, &wrong);
    return wrong;
}

static size_t nvmetcp_inline_stride(const struct snic_nvmetcp_target_opts *o)
{
    return (size_t)snic_align_up(o->inline_max, 4096);
}

static struct snic_nvmetcp_target *nvmetcp_target_place(struct snic_arena *a,
                                                        const struct snic_nvmetcp_target_opts *o)
{
    struct snic_nvmetcp_target *t = snic_arena_take(a, 1, sizeof(*t), SNIC_CACHELINE);
    struct nvmetcp_slot *slots = snic_arena_take(a, o->depth_max, sizeof(*slots), SNIC_CACHELINE);
    struct nvmetcp_reply *replies =
        snic_arena_take(a, nvmetcp_target_replies(o), sizeof(*replies), SNIC_CACHELINE);
    struct nvmetcp_grant *grants =
        snic_arena_take(a, o->grants_max, sizeof(*grants), SNIC_CACHELINE);
    size_t heads_size = (size_t)nvmetcp_target_replies(o) * SNIC_NVMETCP__HEAD_MAX +
                        (size_t)o->grants_max * SNIC_NVMETCP__RESP + 2 * SNIC_NVMETCP__HEAD_MAX;
    unsigned char *heads = snic_arena_take(a, 1, heads_size, SNIC_CACHELINE);
    struct snic_node *nodes = snic_arena_take(a, o->inline_buffers, sizeof(*nodes), 8);
    unsigned char *inlines =
        snic_arena_take(a, o->inline_buffers, nvmetcp_inline_stride(o), SNIC_NVMETCP_ALIGN);
    if (a->base == NULL || a->used == SIZE_MAX)
        return NULL;
    memset(a->base, 0, (size_t)((unsigned char *)(nodes + o->inline_buffers) - a->base));
    /* Not the buffers of in-capsule data, a megabyte: of them, only what was received is read. */
    t->o = *o;
    t->mem = a->base;
    t->slots = slots;
    t->replies = replies;
    t->grants = grants;
    t->heads = heads;
    t->heads_size = heads_size;
    t->inline_nodes = nodes;
    t->inlines = inlines;
    return t;
}

size_t snic_nvmetcp_target_memsize(const struct snic_nvmetcp_target_opts *o)
{
    struct snic_nvmetcp_target_opts full;
    const char *wrong;
    struct snic_arena a = {.base = NULL};
    if (nvmetcp_target_opts(&full, o, &wrong) != 0)
        return 0;
    (void)nvmetcp_target_place(&a, &full);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_nvmetcp_target_init(struct snic_nvmetcp_target **out, void *mem, size_t size,
                             const struct snic_nvmetcp_target_opts *o, uint64_t now_ns)
{
    struct snic_nvmetcp_target_opts full;
    const char *wrong;
    struct snic_arena a = {.base = mem, .size = size};
    if (nvmetcp_target_opts(&full, o, &wrong) != 0 || (uintptr_t)mem % SNIC_NVMETCP_ALIGN != 0)
        return SNIC_EINVAL;
    struct snic_nvmetcp_target *t = nvmetcp_target_place(&a, &full);
    if (t == NULL)
        return SNIC_ENOSPC;
    nvmetcp_conn_init(&t->c, &nvmetcp_target_role, 1, now_ns);
    t->c.greet_ns = now_ns + full.greet_ns;
    t->c.close_wait_ns = full.close_ns;
    t->c.rx.pda = (uint8_t)full.cpda;
    t->entries = full.depth_max;
    t->inline_max = full.inline_max;
    while ((1u << t->tag_bits) < full.grants_max)
        t->tag_bits++;
    snic_link_init(&t->open);
    for (uint32_t i = 0; i < full.depth_max; i++)
        snic_queue_push(&t->free_slots, &t->slots[i].free);
    for (uint32_t i = 0; i < nvmetcp_target_replies(&full); i++)
        snic_queue_push(&t->free_replies, &t->replies[i].free);
    for (uint32_t i = 0; i < full.grants_max; i++) {
        snic_link_init(&t->grants[i].open);
        snic_queue_push(&t->free_grants, &t->grants[i].free);
    }
    for (uint32_t i = 0; i < full.inline_buffers; i++)
        snic_queue_push(&t->free_inlines, &t->inline_nodes[i]);
    *out = t;
    return 0;
}

void *snic_nvmetcp_target_fini(struct snic_nvmetcp_target *t)
{
    return t->mem;
}
