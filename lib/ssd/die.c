/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The dies: which work each does next, and for how long.
 *
 * A die does one operation at a time and never breaks it off. Reads are served in
 * order; writing is programs in order and, once enough debt has collected, garbage
 * collection until the debt is gone, before further programs. Between reading and
 * writing decides virtual time, as in start-time fair queueing with weights: only
 * the difference of the two virtual times is kept (`lag`), and a class that comes
 * back after it had nothing to do gets no credit for the time it was away.
 *
 * Invariants
 *   D1 A die is idle iff it has neither pieces nor programs nor collects; else
 *      exactly one event of it is pending.
 *   D2 A die is on the list of the level of its programs, and a level's bit is set
 *      iff its list has members.
 *   D3 ready + program_unit * (sum of programs) == buffered.
 *   D4 collects only with debt > 0.
 */
#include "ssd/ssd_priv.h"

/* ---- Dies by the number of their programs ---- */

static void ssd_level_leave(struct snic_ssd *d, uint32_t i)
{
    struct ssd_die *die = &d->dies[i];
    struct ssd_list *l = &d->level[die->programs];
    if (die->prev != SNIC_SSD__NONE)
        d->dies[die->prev].next = die->next;
    else
        l->first = die->next;
    if (die->next != SNIC_SSD__NONE)
        d->dies[die->next].prev = die->prev;
    else
        l->last = die->prev;
    if (l->first == SNIC_SSD__NONE)
        d->levels &= ~(1u << die->programs);
}

static void ssd_level_join(struct snic_ssd *d, uint32_t i)
{
    struct ssd_die *die = &d->dies[i];
    struct ssd_list *l = &d->level[die->programs];
    die->next = SNIC_SSD__NONE;
    die->prev = l->last;
    if (l->last != SNIC_SSD__NONE)
        d->dies[l->last].next = i;
    else
        l->first = i;
    l->last = i;
    d->levels |= 1u << die->programs; /* D2 */
}

/* ---- Operations ---- */

static uint64_t ssd_jitter(struct snic_ssd *d, uint64_t ns)
{
    uint64_t j = d->o.jitter;
    if (j == 0)
        return ns;
    uint64_t span = ns * j >> 9;
    return ns - (ns * j >> 10) + (span * (snic_rng_next(&d->rng) >> 48) >> 16);
}

static int ssd_die_reads(const struct ssd_die *die)
{
    return die->first != SNIC_SSD__NONE;
}

static int ssd_die_writes(const struct ssd_die *die)
{
    return die->programs > 0 || die->collects;
}

/** Begin the next operation of a die that does none. */
static void ssd_die_start(struct snic_ssd *d, uint32_t i)
{
    struct ssd_die *die = &d->dies[i];
    uint64_t ns;
    int reads = ssd_die_reads(die);
    if (reads && (!ssd_die_writes(die) || die->lag <= 0)) {
        uint32_t parts = (d->pieces[die->first].bytes + SNIC_SSD_PART - 1) / SNIC_SSD_PART;
        ns = ssd_jitter(d, d->o.read_ns + (uint64_t)parts * d->o.read_part_ns);
        die->lag += (int64_t)(ns * d->o.write_share);
        die->work = SSD_READ;
        die->was_read = 1;
    } else if (ssd_die_writes(die)) {
        die->work = die->collects ? SSD_COLLECT : SSD_PROGRAM;
        die->chunk = snic_min_u64(die->debt, d->o.gc_chunk_ns);
        ns = ssd_jitter(d, die->collects ? die->chunk : d->o.program_ns);
        if (die->was_read) {
            ns += d->o.switch_ns;
            d->stats.switches++;
        }
        die->lag -= (int64_t)(ns * (1024 - d->o.write_share));
        die->was_read = 0;
    } else {
        die->work = SSD_IDLE; /* D1 */
        return;
    }
    ssd_event_add(d, d->now + ns, i);
}

void ssd_die_read(struct snic_ssd *d, uint32_t i, struct snic_ssd_cmd *cmd, uint32_t bytes)
{
    struct ssd_die *die = &d->dies[i];
    uint32_t p = d->pieces_free;
    SNIC_ASSERT(p != SNIC_SSD__NONE);
    d->pieces_free = d->pieces[p].next;
    d->pieces[p] = (struct ssd_piece){.cmd = cmd, .bytes = bytes, .next = SNIC_SSD__NONE};
    if (die->first == SNIC_SSD__NONE) {
        die->first = p;
        if (die->lag < 0)
            die->lag = 0;
    } else {
        d->pieces[die->last].next = p;
    }
    die->last = p;
    if (die->work == SSD_IDLE)
        ssd_die_start(d, i);
}

void ssd_die_drain(struct snic_ssd *d)
{
    uint32_t open = (1u << d->o.program_queue) - 1;
    while (d->ready >= d->o.program_unit && (d->levels & open) != 0) {
        uint32_t i = d->level[__builtin_ctz(d->levels)].first;
        struct ssd_die *die = &d->dies[i];
        if (!ssd_die_writes(die) && die->lag > 0)
            die->lag = 0;
        ssd_level_leave(d, i);
        die->programs++;
        ssd_level_join(d, i);
        d->ready -= d->o.program_unit; /* D3 */
        if (die->work == SSD_IDLE)
            ssd_die_start(d, i);
    }
}

/* ---- What an operation leaves behind ---- */

/** Take a unit from the pool; 1: it was empty and this die has to clean up at once, at the odds
 *  of a unit that owes so much. */
static int ssd_pool_take(struct snic_ssd *d, uint64_t owes_ns)
{
    if (d->o.condition == SNIC_SSD_CLEAN || d->o.stall_ns == 0)
        return 0;
    uint64_t ns = snic_min_u64(d->now - d->pool_at, UINT32_MAX);
    uint64_t grown = ns * d->o.stall_pool_rate + d->pool_part;
    d->pool_at = d->now;
    d->pool = snic_min_u64(d->pool + grown / 1000, d->o.stall_pool_bytes);
    d->pool_part = grown % 1000;
    if (d->pool >= d->o.program_unit) {
        d->pool -= d->o.program_unit;
        return 0;
    }
    uint64_t odds = d->o.stall_odds;
    if (d->o.condition == SNIC_SSD_AGEING && owes_ns == 0)
        return 0; /* the jitter of a clean device stays that of CLEAN */
    if (d->o.condition == SNIC_SSD_AGEING && d->gc_unit_ns > 0)
        odds = odds * snic_min_u64(owes_ns, SNIC_SSD__OWES_MAX) / d->gc_unit_ns;
    return (snic_rng_next(&d->rng) >> 44) < odds;
}

/** 1: the die stalls now. */
static int ssd_die_programmed(struct snic_ssd *d, uint32_t i)
{
    struct ssd_die *die = &d->dies[i];
    d->stats.programs++;
    ssd_level_leave(d, i);
    die->programs--;
    ssd_level_join(d, i);
    uint64_t owes_ns = d->age.pages > 0 ? ssd_age_take(&d->age) : d->gc_unit_ns;
    die->debt += owes_ns;
    if (die->debt >= d->o.gc_debt_ns && die->debt > 0)
        die->collects = 1;
    return ssd_pool_take(d, owes_ns);
}

int ssd_die_event(struct snic_ssd *d, uint32_t i, struct ssd_piece *read)
{
    struct ssd_die *die = &d->dies[i];
    int stalls = 0, programmed = die->work == SSD_PROGRAM;
    if (die->work == SSD_READ) {
        uint32_t p = die->first;
        *read = d->pieces[p];
        die->first = read->next;
        d->pieces[p].next = d->pieces_free;
        d->pieces_free = p;
        d->stats.pieces++;
    } else if (programmed) {
        stalls = ssd_die_programmed(d, i);
    } else if (die->work == SSD_COLLECT) {
        die->debt -= die->chunk;
        die->collects = die->debt > 0; /* D4 */
        d->stats.collected_ns += die->chunk;
    }
    if (stalls) {
        d->stats.stalls++;
        die->work = SSD_STALL;
        ssd_event_add(d, d->now + d->o.stall_ns, i);
    } else {
        ssd_die_start(d, i);
    }
    return programmed;
}
