/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A flash SSD in simulated time: the controller. die.c has the dies, opts.c the
 * parameters.
 *
 * A read: queue, fetch (one command at a time, round robin over the queues that
 * are not empty), splitter (a command's pieces follow one another at a distance),
 * dies, link in the order in which pieces leave their dies, completion. A write:
 * queue, fetch, link, buffer in order of arrival, completion; the buffer is
 * programmed behind the host's back.
 *
 * Nothing happens between two calls: submit and poll first catch up with all inner
 * events up to their time. Completions of reads are in the order of time among
 * themselves, and so are those of writes (each passes a FIFO last), so that two
 * lists that poll merges take the place of a sorted one.
 *
 * Invariants
 *   S1 A command is in one place: queue, fetching, splits and pieces, arriving,
 *      admission, done; `inside` counts them.
 *   S2 Commands leave once, in the order of done_ns.
 *   S3 reading == pieces of fetched reads that have not left their die; it is
 *      below window + pieces of one command, the size of the pool.
 *   S4 buffered <= buffer_bytes; what waits for admission did not fit.
 *   S5 No event is earlier than now.
 */
#include "ssd/ssd_priv.h"

/** State of a command, for check. */
enum ssd_state { SSD_FREE, SSD_QUEUED, SSD_READING, SSD_WRITING, SSD_DONE };

static struct snic_ssd_cmd *ssd_cmd(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct snic_ssd_cmd, node);
}

/* ---- Events ---- */

static uint32_t ssd_fetch_event(const struct snic_ssd *d)
{
    return d->o.dies;
}

static uint32_t ssd_arrival_event(const struct snic_ssd *d)
{
    return d->o.dies + 1;
}

/* ---- Fetch ---- */

static void ssd_ring_push(struct snic_ssd *d, uint32_t q)
{
    d->queues[q].next = SNIC_SSD__NONE;
    if (d->ring.first == SNIC_SSD__NONE)
        d->ring.first = q;
    else
        d->queues[d->ring.last].next = q;
    d->ring.last = q;
}

/** Start on the next command if the fetcher is free, the window open and one is there. */
static void ssd_fetch(struct snic_ssd *d)
{
    uint32_t q = d->ring.first;
    if (d->fetching != NULL || q == SNIC_SSD__NONE)
        return;
    if (d->reading >= d->o.window)
        return;
    d->ring.first = d->queues[q].next;
    struct snic_ssd_cmd *cmd = ssd_cmd(snic_queue_pop(&d->queues[q].cmds));
    if (!snic_queue_empty(&d->queues[q].cmds))
        ssd_ring_push(d, q);
    d->fetching = cmd;
    uint32_t ns = cmd->op == SNIC_SSD_READ ? d->o.fetch_read_ns : d->o.fetch_write_ns;
    ssd_event_add(d, d->now + ns, ssd_fetch_event(d));
}

/* ---- Reads ---- */

/** Units that a bit of SSD_WHOLE stands for: there are 64 bits for those that the read touches. */
static uint64_t ssd_whole_units(const struct snic_ssd *d, const struct snic_ssd_cmd *cmd)
{
    uint64_t first = cmd->offset / d->o.read_unit;
    uint64_t last = (cmd->offset + cmd->length - 1) / d->o.read_unit;
    return (last - first) / 64 + 1;
}

/** Whether the unit around @p offset, of a fetched read, lies in one run. */
static int ssd_unit_whole(const struct snic_ssd *d, const struct snic_ssd_cmd *cmd, uint64_t offset)
{
    if (d->o.condition != SNIC_SSD_AGEING)
        return d->o.condition == SNIC_SSD_CLEAN;
    uint64_t i = offset / d->o.read_unit - cmd->offset / d->o.read_unit;
    return (cmd->priv[SSD_WHOLE] >> i / ssd_whole_units(d, cmd) & 1) != 0;
}

/** Ask the map once, at the fetch: it may change while the pieces are cut. */
static uint64_t ssd_units_whole(const struct snic_ssd *d, const struct snic_ssd_cmd *cmd)
{
    uint64_t bits = UINT64_MAX;
    uint32_t pages = d->o.read_unit / SNIC_SSD_PART;
    uint64_t units = ssd_whole_units(d, cmd);
    uint64_t first = cmd->offset / d->o.read_unit;
    uint64_t last = (cmd->offset + cmd->length - 1) / d->o.read_unit;
    for (uint64_t u = first; u <= last; u++)
        bits &= ~((uint64_t)!ssd_age_whole(&d->age, u * pages, pages) << (u - first) / units);
    return bits;
}

/** Pieces of @p cmd between @p at and @p end. */
static uint64_t ssd_pieces(const struct snic_ssd *d, const struct snic_ssd_cmd *cmd, uint64_t at,
                           uint64_t end)
{
    if (d->o.condition != SNIC_SSD_AGEING)
        return (end - 1) / d->unit - at / d->unit + 1;
    uint64_t n = 0;
    for (uint64_t next; at < end; at = next) {
        next = at + snic_min_u64(d->o.read_unit - at % d->o.read_unit, end - at);
        n += ssd_unit_whole(d, cmd, at) ? 1 : (next - 1) / SNIC_SSD_PART - at / SNIC_SSD_PART + 1;
    }
    return n;
}

/** Where a piece lies: striped by its address, but on an aged device not all of them. */
static uint32_t ssd_place(const struct snic_ssd *d, uint64_t unit, int whole)
{
    if (!whole) {
        uint64_t z = (unit ^ d->place_key) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        if ((z & 1023) >= d->o.read_striped)
            unit = z >> 32;
    }
    return (uint32_t)(unit % d->o.dies);
}

/** Cut the next piece of s; the time until the one after it may follow. */
static uint64_t ssd_cut(struct snic_ssd *d, struct ssd_split *s)
{
    uint64_t at = s->at;
    int whole = ssd_unit_whole(d, s->cmd, at);
    uint32_t unit = whole ? d->o.read_unit : SNIC_SSD_PART;
    s->at += snic_min_u64(unit - at % unit, s->end - at);
    uint64_t parts = (s->at - 1) / SNIC_SSD_PART - at / SNIC_SSD_PART + 1;
    ssd_die_read(d, ssd_place(d, at / unit, whole), s->cmd, (uint32_t)(s->at - at));
    return parts * d->o.split_ns;
}

static void ssd_split_event(struct snic_ssd *d, uint32_t i)
{
    struct ssd_split *s = &d->splits[i];
    SNIC_ASSERT(s->cmd != NULL && s->at < s->end);
    uint64_t ns = ssd_cut(d, s);
    if (s->at < s->end) {
        ssd_event_add(d, d->now + ns, d->o.dies + 2 + i);
        return;
    }
    s->cmd = NULL;
    s->next_free = d->splits_free;
    d->splits_free = i;
}

static void ssd_read_fetched(struct snic_ssd *d, struct snic_ssd_cmd *cmd)
{
    uint64_t end = cmd->offset + cmd->length;
    cmd->priv[SSD_WHOLE] = d->age.pages > 0 ? ssd_units_whole(d, cmd) : 0;
    uint64_t pieces = ssd_pieces(d, cmd, cmd->offset, end);
    cmd->state = SSD_READING;
    cmd->priv[SSD_LEFT] = pieces;
    d->reading += (uint32_t)pieces; /* S3 */
    SNIC_ASSERT(d->reading <= d->pieces_max);
    uint32_t i = d->splits_free;
    SNIC_ASSERT(i != SNIC_SSD__NONE);
    d->splits_free = d->splits[i].next_free;
    d->splits[i] = (struct ssd_split){.cmd = cmd, .at = cmd->offset, .end = end};
    ssd_split_event(d, i);
}

/** A piece has left its die. */
static void ssd_piece_read(struct snic_ssd *d, struct snic_ssd_cmd *cmd, uint32_t bytes)
{
    SNIC_DASSERT(cmd->state == SSD_READING && d->reading > 0);
    uint64_t start = snic_max_u64(d->link_read_free, d->now);
    d->link_read_free = start + (uint64_t)bytes * 1000 / d->o.link_read;
    if (--cmd->priv[SSD_LEFT] == 0) {
        cmd->done_ns = d->link_read_free + d->o.post_read_ns;
        cmd->state = SSD_DONE;
        snic_queue_push(&d->done[0], &cmd->node);
    }
    d->reading--;
    ssd_fetch(d);
}

/* ---- Writes ---- */

/** Let in what waits, oldest first, as far as there is room. */
static void ssd_admit(struct snic_ssd *d)
{
    while (!snic_queue_empty(&d->admission)) {
        struct snic_ssd_cmd *cmd = ssd_cmd(d->admission.first);
        if (cmd->length > d->o.buffer_bytes - d->buffered)
            break; /* S4 */
        (void)snic_queue_pop(&d->admission);
        d->buffered += cmd->length;
        d->ready += cmd->length;
        if (d->age.pages > 0)
            ssd_age_write(&d->age, cmd->offset, cmd->length);
        cmd->done_ns = d->now + d->o.post_write_ns;
        cmd->state = SSD_DONE;
        snic_queue_push(&d->done[1], &cmd->node);
    }
    ssd_die_drain(d);
}

/** A program unit has left the buffer. */
static void ssd_unit_programmed(struct snic_ssd *d)
{
    SNIC_DASSERT(d->buffered >= d->o.program_unit);
    d->buffered -= d->o.program_unit;
    ssd_admit(d);
}

static void ssd_arrival_next(struct snic_ssd *d)
{
    if (!snic_queue_empty(&d->arriving))
        ssd_event_add(d, ssd_cmd(d->arriving.first)->priv[SSD_ARRIVES], ssd_arrival_event(d));
}

static void ssd_write_fetched(struct snic_ssd *d, struct snic_ssd_cmd *cmd)
{
    uint64_t start = snic_max_u64(d->link_write_free, d->now);
    d->link_write_free = start + (uint64_t)cmd->length * 1000 / d->o.link_write;
    cmd->state = SSD_WRITING;
    cmd->priv[SSD_ARRIVES] = d->link_write_free;
    int first = snic_queue_empty(&d->arriving);
    snic_queue_push(&d->arriving, &cmd->node);
    if (first)
        ssd_arrival_next(d);
}

static void ssd_arrival(struct snic_ssd *d)
{
    SNIC_ASSERT(!snic_queue_empty(&d->arriving));
    snic_queue_push(&d->admission, snic_queue_pop(&d->arriving));
    ssd_arrival_next(d);
    ssd_admit(d);
}

/* ---- Time ---- */

static void ssd_fetched(struct snic_ssd *d)
{
    struct snic_ssd_cmd *cmd = d->fetching;
    SNIC_ASSERT(cmd != NULL);
    d->fetching = NULL;
    if (cmd->op == SNIC_SSD_READ)
        ssd_read_fetched(d, cmd);
    else
        ssd_write_fetched(d, cmd);
    ssd_fetch(d);
}

/** An operation of a die is over. */
static void ssd_die_over(struct snic_ssd *d, uint32_t i)
{
    struct ssd_piece piece = {0};
    if (ssd_die_event(d, i, &piece))
        ssd_unit_programmed(d);
    else if (piece.cmd != NULL)
        ssd_piece_read(d, piece.cmd, piece.bytes);
}

/** Let everything happen that happens until @p now_ns. */
static void ssd_advance(struct snic_ssd *d, uint64_t now_ns)
{
    SNIC_ASSERT(now_ns >= d->now);
    while (d->events > 0 && d->heap[0].at <= now_ns) {
        uint32_t what = d->heap[0].what;
        SNIC_DASSERT(d->heap[0].at >= d->now); /* S5 */
        d->now = d->heap[0].at;
        d->hole = 1;
        d->stats.events++;
        if (what < d->o.dies)
            ssd_die_over(d, what);
        else if (what == ssd_fetch_event(d))
            ssd_fetched(d);
        else if (what == ssd_arrival_event(d))
            ssd_arrival(d);
        else
            ssd_split_event(d, what - d->o.dies - 2);
        if (d->hole) {
            d->hole = 0;
            if (--d->events > 0)
                ssd_event_down(d, d->heap[d->events]);
        }
    }
    d->now = now_ns;
}

/* ---- Public ---- */

int snic_ssd_submit(struct snic_ssd *d, struct snic_ssd_cmd *cmd, uint64_t now_ns)
{
    if ((cmd->op != SNIC_SSD_READ && cmd->op != SNIC_SSD_WRITE) || cmd->queue >= d->o.queues ||
        cmd->length == 0 || cmd->length > d->o.length_max || cmd->offset > UINT64_MAX - cmd->length)
        return SNIC_EINVAL;
    if (d->inside == d->o.depth)
        return SNIC_EAGAIN;
    ssd_advance(d, now_ns);
    d->inside++;
    d->stats.commands[cmd->op == SNIC_SSD_WRITE]++;
    cmd->state = SSD_QUEUED;
    struct ssd_queue *q = &d->queues[cmd->queue];
    int first = snic_queue_empty(&q->cmds);
    snic_queue_push(&q->cmds, &cmd->node);
    if (first)
        ssd_ring_push(d, cmd->queue);
    ssd_fetch(d);
    return 0;
}

struct snic_ssd_cmd *snic_ssd_poll(struct snic_ssd *d, uint64_t now_ns)
{
    ssd_advance(d, now_ns);
    struct snic_queue *from = &d->done[0];
    if (snic_queue_empty(from) ||
        (!snic_queue_empty(&d->done[1]) &&
         ssd_cmd(d->done[1].first)->done_ns < ssd_cmd(from->first)->done_ns))
        from = &d->done[1];
    if (snic_queue_empty(from) || ssd_cmd(from->first)->done_ns > now_ns)
        return NULL;
    struct snic_ssd_cmd *cmd = ssd_cmd(snic_queue_pop(from));
    SNIC_DASSERT(cmd->state == SSD_DONE && d->inside > 0);
    cmd->state = SSD_FREE;
    d->inside--; /* S2 */
    return cmd;
}

uint64_t snic_ssd_deadline_ns(const struct snic_ssd *d)
{
    uint64_t at = d->events > 0 ? d->heap[0].at : SNIC_NEVER;
    for (uint32_t i = 0; i < 2; i++) {
        if (!snic_queue_empty(&d->done[i]))
            at = snic_min_u64(at, ssd_cmd(d->done[i].first)->done_ns);
    }
    return snic_max_u64(at, d->now); /* a time that poll accepts */
}

void snic_ssd_get_stats(const struct snic_ssd *d, struct snic_ssd_stats *out)
{
    *out = d->stats;
    out->inside = d->inside;
    out->buffered = d->buffered;
}

void *snic_ssd_fini(struct snic_ssd *d)
{
    SNIC_ASSERT(d->inside == 0);
    return d;
}

/* ---- Check ---- */

static int ssd_check_dies(const struct snic_ssd *d, uint64_t *programs, uint64_t *pieces)
{
    for (uint32_t i = 0; i < d->o.dies; i++) {
        const struct ssd_die *die = &d->dies[i];
        int busy = die->first != SNIC_SSD__NONE || die->programs > 0 || die->collects;
        if (busy != (die->work != SSD_IDLE) && die->work != SSD_STALL)
            return 0; /* D1 */
        if (die->collects && die->debt == 0)
            return 0; /* D4 */
        if (die->programs > d->o.program_queue || (d->levels >> die->programs & 1) == 0)
            return 0;
        *programs += die->programs;
        uint64_t limit = d->pieces_max;
        for (uint32_t p = die->first; p != SNIC_SSD__NONE; p = d->pieces[p].next) {
            if (++*pieces > limit)
                return 0;
            if (d->pieces[p].cmd->state != SSD_READING)
                return 0;
        }
    }
    uint32_t listed = 0;
    for (uint32_t n = 0; n <= d->o.program_queue; n++) {
        for (uint32_t i = d->level[n].first; i != SNIC_SSD__NONE; i = d->dies[i].next) {
            if (d->dies[i].programs != n || ++listed > d->o.dies)
                return 0; /* D2 */
        }
    }
    return listed == d->o.dies;
}

static int ssd_check_events(const struct snic_ssd *d)
{
    uint32_t expected = d->fetching != NULL;
    expected += !snic_queue_empty(&d->arriving);
    for (uint32_t i = 0; i < d->o.dies; i++)
        expected += d->dies[i].work != SSD_IDLE; /* D1 */
    for (uint32_t i = 0; i < d->o.window; i++)
        expected += d->splits[i].cmd != NULL;
    if (d->events != expected)
        return 0;
    for (uint32_t i = 0; i < d->events; i++) {
        if (d->heap[i].at < d->now) /* S5 */
            return 0;
        if (i > 0 && ssd_before(d->heap[i], d->heap[(i - 1) / 4]))
            return 0;
    }
    return !d->hole;
}

/** Commands in @p q, SNIC_SSD__NONE if one is in a wrong state or done out of order. */
static uint32_t ssd_check_list(const struct snic_queue *q, uint32_t state, uint32_t max)
{
    uint32_t n = 0;
    uint64_t last = 0;
    for (struct snic_node *p = q->first; p != NULL; p = p->next) {
        const struct snic_ssd_cmd *cmd = ssd_cmd(p);
        if (cmd->state != state || ++n > max || (p->next == NULL) != (p == q->last))
            return SNIC_SSD__NONE;
        if (state == SSD_DONE && cmd->done_ns < last)
            return SNIC_SSD__NONE; /* S2 */
        last = cmd->done_ns;
    }
    return n;
}

/** Pieces of fetched reads are uncut or at a die. */
static int ssd_check_pieces(const struct snic_ssd *d, uint64_t at_dies)
{
    uint64_t uncut = 0;
    for (uint32_t i = 0; i < d->o.window; i++) {
        const struct ssd_split *s = &d->splits[i];
        if (s->cmd != NULL && s->at < s->end)
            uncut += ssd_pieces(d, s->cmd, s->at, s->end);
    }
    return uncut + at_dies == d->reading && d->reading <= d->pieces_max; /* S3 */
}

int snic_ssd_check(const struct snic_ssd *d)
{
    uint64_t programs = 0, pieces = 0, found = d->fetching != NULL;
    if (!ssd_check_events(d) || !ssd_check_dies(d, &programs, &pieces) ||
        !ssd_check_pieces(d, pieces) || !ssd_age_check(&d->age))
        return SNIC_ECORRUPT;
    if (d->buffered > d->o.buffer_bytes ||
        d->ready + programs * d->o.program_unit != d->buffered) /* S4, D3 */
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < d->o.queues + 4; i++) {
        uint32_t q = i - 4;
        uint32_t n = i < 2   ? ssd_check_list(&d->done[i], SSD_DONE, d->inside)
                     : i < 3 ? ssd_check_list(&d->arriving, SSD_WRITING, d->inside)
                     : i < 4 ? ssd_check_list(&d->admission, SSD_WRITING, d->inside)
                             : ssd_check_list(&d->queues[q].cmds, SSD_QUEUED, d->inside);
        if (n == SNIC_SSD__NONE)
            return SNIC_ECORRUPT;
        found += n;
    }
    uint32_t in_ring = 0;
    for (uint32_t q = d->ring.first; q != SNIC_SSD__NONE; q = d->queues[q].next) {
        if (snic_queue_empty(&d->queues[q].cmds) || ++in_ring > d->o.queues)
            return SNIC_ECORRUPT;
    }
    return found <= d->inside && d->inside - found <= d->reading ? 0 : SNIC_ECORRUPT; /* S1 */
}
