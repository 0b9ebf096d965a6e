/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The parameters of a model: two presets, what is valid, and the memory it takes.
 */
#include "ssd/ssd_priv.h"

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
}

/* ---- Validation and memory ---- */

static int ssd_between(uint64_t v, uint64_t min, uint64_t max)
{
    return v >= min && v <= max;
}

static int ssd_opts_controller(const struct snic_ssd_opts *o)
{
    const uint32_t ns_max = 1000000000;
    return o->condition <= SNIC_SSD_FRAGMENTED && o->reserved == 0 &&
           ssd_between(o->queues, 1, SNIC_SSD_QUEUES_MAX) &&
           ssd_between(o->depth, 1, SNIC_SSD_DEPTH_MAX) && o->fetch_read_ns <= ns_max &&
           o->fetch_write_ns <= ns_max && o->split_ns <= 1000000 &&
           ssd_between(o->window, 1, 1u << 20) && o->link_read > 0 && o->link_write > 0 &&
           o->post_read_ns <= ns_max && o->post_write_ns <= ns_max &&
           ssd_between(o->buffer_bytes, 1, 1u << 30) &&
           ssd_between(o->length_max, 1, o->buffer_bytes / 2) &&
           o->program_unit <= o->buffer_bytes / 2;
}

static int ssd_opts_dies(const struct snic_ssd_opts *o)
{
    const uint32_t ns_max = 1000000000;
    return ssd_between(o->dies, 1, SNIC_SSD_DIES_MAX) && ssd_between(o->read_ns, 1, ns_max) &&
           o->read_part_ns <= 1000000 && ssd_between(o->read_unit, SNIC_SSD_PART, 1u << 20) &&
           o->read_unit % SNIC_SSD_PART == 0 && o->read_striped <= 1024 &&
           ssd_between(o->program_ns, 1, ns_max) &&
           ssd_between(o->program_unit, SNIC_SSD_PART, 1u << 20) &&
           o->program_unit % SNIC_SSD_PART == 0 &&
           ssd_between(o->program_queue, 1, SNIC_SSD__PROGRAMS_MAX) &&
           ssd_between(o->write_share, 1, 1023) && o->switch_ns <= ns_max && o->jitter <= 512;
}

static int ssd_opts_collection(const struct snic_ssd_opts *o)
{
    const uint32_t ns_max = 1000000000;
    return ssd_between(o->write_amplification, 100, 10000) && o->gc_read_ns <= ns_max &&
           o->gc_debt_ns <= ns_max && ssd_between(o->gc_chunk_ns, 1, ns_max) &&
           o->stall_ns <= ns_max && o->stall_odds <= 1u << 20 && o->stall_pool_bytes <= 1u << 30 &&
           o->stall_pool_rate <= 1000000;
}

/** Where the tables of a model lie in its memory. */
struct ssd_layout {
    size_t heap, queues, splits, pieces, dies, total;
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
    l.total = at;
    return l;
}

static int ssd_opts_take(struct snic_ssd_opts *to, const struct snic_ssd_opts *o)
{
    snic_ssd_opts_dct983(to); /* what an older caller does not know */
    int r = snic_opts_copy(to, sizeof(*to), o);
    if (r == 0 && !(ssd_opts_controller(to) && ssd_opts_dies(to) && ssd_opts_collection(to)))
        r = SNIC_EINVAL;
    return r;
}

size_t snic_ssd_memsize(const struct snic_ssd_opts *o)
{
    struct snic_ssd_opts mine;
    if (ssd_opts_take(&mine, o) != 0)
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
    int r = ssd_opts_take(&mine, o);
    if (r != 0)
        return r;
    if ((uintptr_t)mem % SNIC_SSD_ALIGN != 0)
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
    if (mine.condition == SNIC_SSD_FRAGMENTED)
        d->gc_unit_ns = (uint64_t)(mine.write_amplification - 100) *
                        (mine.program_ns + parts * mine.gc_read_ns) / 100;
    ssd_tables_init(d);
    *out = d;
    return 0;
}
