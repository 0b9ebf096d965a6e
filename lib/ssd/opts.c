/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The parameters of a model: two presets, what is valid, and the memory it takes.
 */
#include "ssd/ssd_priv.h"

#include <stddef.h>

void snic_ssd_opts_dct983(struct snic_ssd_opts *o)
{
    *o = (struct snic_ssd_opts){
        .opts_size = sizeof(*o),
        .condition = SNIC_SSD_CLEAN,
        .queues = 1,
        .depth = 4096,
        .length_max = 1u << 20,
        .fetch_read_ns = 2000,
        .fetch_write_ns = 3800,
        .split_ns = 3000,
        .window = 512,
        .link_read = 3200,
        .link_write = 3200,
        .post_read_ns = 3000,
        .post_write_ns = 65000,
        .buffer_bytes = 4u << 20,
        .dies = 32,
        .read_ns = 72000,
        .read_part_ns = 6000,
        .read_unit = 32768,
        .read_striped = 870,
        .program_ns = 397000,
        .program_unit = 16384,
        .program_queue = 2,
        .write_share = 500,
        .switch_ns = 150000,
        .jitter = 82,
        .write_amplification = 440,
        .gc_read_ns = 78000,
        .gc_debt_ns = 8000000,
        .gc_chunk_ns = 350000,
        .stall_ns = 15000000,
        .stall_odds = 10253, /* write amplification / 450 */
        .stall_pool_bytes = 8000000,
        .stall_pool_rate = 140,
        .age_pages = 1u << 18,
        .age_block_pages = 256,
        .age_spare = 131, /* write amplification 4.40, by the formula */
    };
}

void snic_ssd_opts_p3600(struct snic_ssd_opts *o)
{
    snic_ssd_opts_dct983(o);
    o->read_unit = 8192;
    o->read_ns = 64000;
    o->read_part_ns = 29000;
    o->gc_read_ns = 93000;
    o->write_amplification = 325;
    o->stall_odds = 7573; /* write amplification / 450 */
    o->stall_pool_rate = 189;
    o->age_spare = 192; /* write amplification 3.25, by the formula */
}

/* ---- Validation and memory ---- */

struct ssd_range {
    uint32_t offset;
    uint32_t min;
    uint32_t max;
    const char *wrong;
};

#define SNIC_SSD__NS_MAX 1000000000u
#define SNIC_SSD__TIME(field, text)                                                                \
    {                                                                                              \
        offsetof(struct snic_ssd_opts, field), 0, SNIC_SSD__NS_MAX, text                           \
    }
#define SNIC_SSD__RANGE(field, min, max, text)                                                     \
    {                                                                                              \
        offsetof(struct snic_ssd_opts, field), min, max, text                                      \
    }

static const struct ssd_range ssd_ranges[] = {
    SNIC_SSD__RANGE(condition, 0, SNIC_SSD_AGEING, "condition: unknown"),
    SNIC_SSD__RANGE(reserved, 0, 0, "reserved: not 0"),
    SNIC_SSD__RANGE(queues, 1, SNIC_SSD_QUEUES_MAX, "queues: not 1..4096"),
    SNIC_SSD__RANGE(depth, 1, SNIC_SSD_DEPTH_MAX, "depth: not 1..65536"),
    SNIC_SSD__TIME(fetch_read_ns, "fetch_read_ns: above 10^9"),
    SNIC_SSD__TIME(fetch_write_ns, "fetch_write_ns: above 10^9"),
    SNIC_SSD__RANGE(split_ns, 0, 1000000, "split_ns: above 10^6"),
    SNIC_SSD__RANGE(window, 1, 1u << 20, "window: not 1..2^20"),
    SNIC_SSD__RANGE(link_read, 1, UINT32_MAX, "link_read: 0"),
    SNIC_SSD__RANGE(link_write, 1, UINT32_MAX, "link_write: 0"),
    SNIC_SSD__TIME(post_read_ns, "post_read_ns: above 10^9"),
    SNIC_SSD__TIME(post_write_ns, "post_write_ns: above 10^9"),
    SNIC_SSD__RANGE(buffer_bytes, 1, 1u << 30, "buffer_bytes: not 1..1 GiB"),
    SNIC_SSD__RANGE(dies, 1, SNIC_SSD_DIES_MAX, "dies: not 1..1024"),
    SNIC_SSD__RANGE(read_ns, 1, SNIC_SSD__NS_MAX, "read_ns: not 1..10^9"),
    SNIC_SSD__RANGE(read_part_ns, 0, 1000000, "read_part_ns: above 10^6"),
    SNIC_SSD__RANGE(read_unit, SNIC_SSD_PART, 1u << 20, "read_unit: not 4 KiB..1 MiB"),
    SNIC_SSD__RANGE(read_striped, 0, 1024, "read_striped: above 1024"),
    SNIC_SSD__RANGE(program_ns, 1, SNIC_SSD__NS_MAX, "program_ns: not 1..10^9"),
    SNIC_SSD__RANGE(program_unit, SNIC_SSD_PART, 1u << 20, "program_unit: not 4 KiB..1 MiB"),
    SNIC_SSD__RANGE(program_queue, 1, SNIC_SSD__PROGRAMS_MAX, "program_queue: not 1..8"),
    SNIC_SSD__RANGE(write_share, 1, 1023, "write_share: not 1..1023"),
    SNIC_SSD__TIME(switch_ns, "switch_ns: above 10^9"),
    SNIC_SSD__RANGE(jitter, 0, 512, "jitter: above 512"),
    SNIC_SSD__RANGE(write_amplification, 100, 10000, "write_amplification: not 100..10000"),
    SNIC_SSD__TIME(gc_read_ns, "gc_read_ns: above 10^9"),
    SNIC_SSD__TIME(gc_debt_ns, "gc_debt_ns: above 10^9"),
    SNIC_SSD__RANGE(gc_chunk_ns, 1, SNIC_SSD__NS_MAX, "gc_chunk_ns: not 1..10^9"),
    SNIC_SSD__TIME(stall_ns, "stall_ns: above 10^9"),
    SNIC_SSD__RANGE(stall_odds, 0, 1u << 20, "stall_odds: above 2^20"),
    SNIC_SSD__RANGE(stall_pool_bytes, 0, 1u << 30, "stall_pool_bytes: above 1 GiB"),
    SNIC_SSD__RANGE(stall_pool_rate, 0, 1000000, "stall_pool_rate: above 10^6"),
    SNIC_SSD__RANGE(age_pages, 8, SNIC_SSD_AGE_PAGES_MAX, "age_pages: not 8..2^24"),
    SNIC_SSD__RANGE(age_block_pages, 8, 65536, "age_block_pages: not 8..65536"),
    SNIC_SSD__RANGE(age_spare, 1, 4000, "age_spare: not 1..4000"),
    SNIC_SSD__RANGE(age_fill, 0, 1000, "age_fill: above 1000"),
    SNIC_SSD__RANGE(age_overwrites, 0, 10000, "age_overwrites: above 10000"),
    SNIC_SSD__RANGE(age_reserved, 0, 0, "age_reserved: not 0"),
};

/** All of them in @p to; NULL, or which is wrong. */
static const char *ssd_opts_fill(struct snic_ssd_opts *to, const struct snic_ssd_opts *o)
{
    snic_ssd_opts_dct983(to); /* what an older caller does not know */
    if (snic_opts_copy(to, sizeof(*to), o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    for (size_t i = 0; i < SNIC_COUNTOF(ssd_ranges); i++) {
        const struct ssd_range *r = &ssd_ranges[i];
        uint32_t value = 0;
        memcpy(&value, (const unsigned char *)to + r->offset, sizeof(value));
        if (value < r->min || value > r->max)
            return r->wrong;
    }
    if (to->length_max < 1 || to->length_max > to->buffer_bytes / 2)
        return "length_max: not 1..buffer_bytes / 2";
    if (to->read_unit % SNIC_SSD_PART != 0)
        return "read_unit: not a multiple of 4 KiB";
    if (to->program_unit % SNIC_SSD_PART != 0)
        return "program_unit: not a multiple of 4 KiB";
    if (to->program_unit > to->buffer_bytes / 2)
        return "program_unit: above buffer_bytes / 2";
    if (to->age_pages % to->age_block_pages != 0)
        return "age_pages: not a multiple of age_block_pages";
    return NULL;
}

const char *snic_ssd_opts_wrong(const struct snic_ssd_opts *o)
{
    struct snic_ssd_opts mine;
    return ssd_opts_fill(&mine, o);
}

/** Where the tables of a model lie in its memory. */
struct ssd_layout {
    size_t heap, queues, splits, pieces, dies, map, owner, block, bucket, total;
    uint32_t unit, pieces_max, events_max;
};

static size_t ssd_table(size_t *at, size_t count, size_t size)
{
    size_t here = *at;
    *at = (size_t)snic_align_up(here + count * size, SNIC_SSD_ALIGN);
    return here;
}

static struct ssd_layout ssd_layout(const struct snic_ssd_opts *o)
{
    struct ssd_layout l = {0};
    size_t at = (size_t)snic_align_up(sizeof(struct snic_ssd), SNIC_SSD_ALIGN);
    l.unit = o->condition == SNIC_SSD_CLEAN ? o->read_unit : SNIC_SSD_PART;
    l.pieces_max = o->window + o->length_max / l.unit + 2;
    l.events_max = o->dies + 2 + o->window;
    l.heap = ssd_table(&at, l.events_max, sizeof(struct ssd_event));
    l.queues = ssd_table(&at, o->queues, sizeof(struct ssd_queue));
    l.splits = ssd_table(&at, o->window, sizeof(struct ssd_split));
    l.pieces = ssd_table(&at, l.pieces_max, sizeof(struct ssd_piece));
    l.dies = ssd_table(&at, o->dies, sizeof(struct ssd_die));
    if (o->condition == SNIC_SSD_AGEING) {
        uint32_t blocks = ssd_age_blocks(o);
        l.map = ssd_table(&at, o->age_pages, sizeof(uint32_t));
        l.owner = ssd_table(&at, (size_t)blocks * o->age_block_pages, sizeof(uint32_t));
        l.block = ssd_table(&at, blocks, sizeof(struct ssd_block));
        l.bucket = ssd_table(&at, (size_t)o->age_block_pages + 1, sizeof(struct ssd_list));
    }
    l.total = at;
    return l;
}

size_t snic_ssd_memsize(const struct snic_ssd_opts *o)
{
    struct snic_ssd_opts mine;
    if (ssd_opts_fill(&mine, o) != NULL)
        return 0;
    return ssd_layout(&mine).total;
}

static void ssd_tables_init(struct snic_ssd *d)
{
    const uint32_t none = SNIC_SSD__NONE;
    d->ring = (struct ssd_list){none, none};
    for (uint32_t i = 0; i < d->o.window; i++)
        d->splits[i].next_free = i + 1 < d->o.window ? i + 1 : none;
    for (uint32_t i = 0; i < d->pieces_max; i++)
        d->pieces[i].next = i + 1 < d->pieces_max ? i + 1 : none;
    for (uint32_t i = 0; i <= SNIC_SSD__PROGRAMS_MAX; i++)
        d->level[i] = (struct ssd_list){none, none};
    for (uint32_t i = 0; i < d->o.dies; i++) {
        d->dies[i].first = none;
        d->dies[i].prev = i > 0 ? i - 1 : none;
        d->dies[i].next = i + 1 < d->o.dies ? i + 1 : none;
    }
    d->level[0] = (struct ssd_list){0, d->o.dies - 1};
    d->levels = 1;
}

int snic_ssd_init(struct snic_ssd **out, void *mem, size_t size, const struct snic_ssd_opts *o)
{
    struct snic_ssd_opts mine;
    if (ssd_opts_fill(&mine, o) != NULL || (uintptr_t)mem % SNIC_SSD_ALIGN != 0)
        return SNIC_EINVAL;
    struct ssd_layout l = ssd_layout(&mine);
    if (size < l.total)
        return SNIC_ENOSPC;
    unsigned char *base = mem;
    memset(base, 0, l.total);
    struct snic_ssd *d = mem;
    d->o = mine;
    d->unit = l.unit;
    d->pieces_max = l.pieces_max;
    d->heap = (void *)(base + l.heap);
    d->queues = (void *)(base + l.queues);
    d->splits = (void *)(base + l.splits);
    d->pieces = (void *)(base + l.pieces);
    d->dies = (void *)(base + l.dies);
    snic_rng_init(&d->rng, mine.seed);
    d->place_key = snic_rng_next(&d->rng);
    d->pool = mine.stall_pool_bytes;
    uint64_t parts = mine.program_unit / SNIC_SSD_PART;
    if (mine.condition == SNIC_SSD_AGEING) {
        d->age.map = (void *)(base + l.map);
        d->age.owner = (void *)(base + l.owner);
        d->age.block = (void *)(base + l.block);
        d->age.bucket = (void *)(base + l.bucket);
        ssd_age_init(&d->age, &mine);
        ssd_age_precondition(&d->age, mine.age_fill, mine.age_overwrites);
    }
    if (mine.condition != SNIC_SSD_CLEAN)
        d->gc_unit_ns = (uint64_t)(mine.write_amplification - 100) *
                        (mine.program_ns + parts * mine.gc_read_ns) / 100;
    ssd_tables_init(d);
    *out = d;
    return 0;
}
