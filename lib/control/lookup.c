/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lookups of segments: those that the volume requests are kept until they are answered, and
 * repeated with back-off: an answer may arrive late, without a request, or never, as when a server
 * is down. The volume repeats requests that it still needs, and does not cancel others: so when the
 * table is full an entry is evicted; and whether a LOOKUP permits to place the segment is decided
 * by the I/O that waits at the volume then.
 */
#include "control/client_priv.h"

/* The time until a LOOKUP is repeated: from retry_ns, up to SNIC_CONTROL__LOOKUP_RETRY_MAX_NS. */
static uint64_t control_lookup_backoff(const struct snic_control_client *c,
                                       struct control_client_lookup *lookup)
{
    uint64_t pause = c->o.retry_ns << lookup->attempts;
    if (pause < SNIC_CONTROL__LOOKUP_RETRY_MAX_NS && lookup->attempts < 16)
        lookup->attempts++;
    pause = snic_min_u64(pause, SNIC_CONTROL__LOOKUP_RETRY_MAX_NS);
    return snic_max_u64(pause, c->o.retry_ns);
}

static void control_lookup_item(struct snic_control_client *c, struct snic_control_msg *m,
                                const struct control_client_lookup *lookup, int status)
{
    SNIC_ASSERT(m->count < SNIC_CONTROL_ITEMS);
    struct snic_control_item *it = &m->item[m->count++];
    it->segment = lookup->segment;
    it->gen = lookup->gen;
    it->status = status;
    c->stats.lookups_sent++;
}

/* The waiting I/O decides whether the segment is to be placed. If some of it needs the location
   only if the segment is placed, that item is first: the other item places the segment. */
static void control_lookup_append(struct snic_control_client *c, struct snic_control_msg *m,
                                  struct control_client_lookup *lookup, uint64_t now)
{
    uint32_t waits = c->v != NULL ? snic_volume_waits(c->v, lookup->disk, lookup->segment) : 0;
    if (waits != SNIC_EBS_WAITS_PLACE) {
        lookup->last.ns = now;
        lookup->last.tag = m->tag;
        if (lookup->first.tag == 0)
            lookup->first = lookup->last;
        control_lookup_item(c, m, lookup, SNIC_CONTROL_IF_PLACED);
    }
    if ((waits & SNIC_EBS_WAITS_PLACE) != 0)
        control_lookup_item(c, m, lookup, 0);
}

static void control_lookup_begin(struct snic_control_client *c, struct snic_control_msg *m,
                                 const struct control_client_disk *d)
{
    control_msg(m, SNIC_CONTROL_LOOKUP, control_client_tag(c));
    m->vd = d->vd;
    m->lease = d->lease;
}

/* Those of a disk that are due, SNIC_CONTROL_ITEMS in a message. */
static void control_lookups_send_disk(struct snic_control_client *c, uint32_t disk, uint64_t now)
{
    struct snic_control_msg m;
    control_lookup_begin(c, &m, &c->disks[disk]);
    for (uint32_t i = 0; i < c->stats.lookups_pending; i++) {
        struct control_client_lookup *lookup = &c->lookups[i];
        if (lookup->disk != disk || lookup->due_ns > now)
            continue;
        lookup->due_ns = now + control_lookup_backoff(c, lookup);
        control_lookup_append(c, &m, lookup, now);
        if (m.count > SNIC_CONTROL_ITEMS - 2) {
            control_client_send(c, &m);
            control_lookup_begin(c, &m, &c->disks[disk]);
        }
    }
    if (m.count != 0)
        control_client_send(c, &m);
}

void control_lookups_send(struct snic_control_client *c)
{
    uint64_t now = control_client_now(c);
    if (!c->welcome || c->stats.lookups_pending == 0)
        return;
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].state == CONTROL_CLIENT_HELD)
            control_lookups_send_disk(c, i, now);
}

void control_lookups_deferred(struct snic_loop_msg *m)
{
    struct snic_control_client *c = SNIC_CONTAINER(m, struct snic_control_client, deferred);
    c->deferred_queued = 0;
    if (!c->closing)
        control_lookups_send(c);
}

struct control_client_lookup *control_lookup_find(struct snic_control_client *c, uint32_t disk,
                                                  uint64_t segment)
{
    for (uint32_t i = 0; i < c->stats.lookups_pending; i++)
        if (c->lookups[i].disk == disk && c->lookups[i].segment == segment)
            return &c->lookups[i];
    return NULL;
}

void control_lookup_free(struct snic_control_client *c, struct control_client_lookup *lookup)
{
    SNIC_ASSERT(c->stats.lookups_pending > 0);
    SNIC_ASSERT(lookup - c->lookups < (ptrdiff_t)c->stats.lookups_pending);
    *lookup = c->lookups[--c->stats.lookups_pending];
}

void control_lookups_drop(struct snic_control_client *c, uint32_t disk)
{
    for (uint32_t i = c->stats.lookups_pending; i-- > 0;)
        if (c->lookups[i].disk == disk)
            control_lookup_free(c, &c->lookups[i]);
}

void snic_control_client_map(struct snic_control_client *c, uint32_t disk, uint64_t segment,
                             uint32_t gen)
{
    if (disk >= c->o.disks_max || c->disks[disk].state != CONTROL_CLIENT_HELD)
        return;
    struct control_client_lookup *lookup = control_lookup_find(c, disk, segment);
    if (lookup == NULL) {
        if (c->stats.lookups_pending < c->o.lookups_max)
            lookup = &c->lookups[c->stats.lookups_pending++];
        else
            lookup = &c->lookups[c->evict_next++ % c->stats.lookups_pending];
        memset(lookup, 0, sizeof(*lookup));
        lookup->disk = disk;
        lookup->segment = segment;
    }
    lookup->gen = (uint32_t)snic_max_u64(lookup->gen, gen);
    lookup->due_ns = 0;
    if (!c->deferred_queued) {
        c->deferred_queued = 1;
        snic_loop_defer(c->o.loop, &c->deferred);
    }
}

/* It was not placed at some time after the LOOKUP with that tag: the first that is not answered, or
   the last; one between them is taken for the first. For later I/O the volume looks it up anew. */
void control_lookup_unplaced(struct snic_control_client *c, struct control_client_lookup *lookup,
                             uint32_t tag)
{
    SNIC_ASSERT(c->v != NULL);
    int last = tag == lookup->last.tag;
    uint32_t disk = lookup->disk;
    if (lookup->first.tag == 0 || (int32_t)(tag - lookup->first.tag) < 0)
        return;
    c->stats.locations += snic_volume_hole(c->v, disk, lookup->segment,
                                           last ? lookup->last.ns : lookup->first.ns) == 0;
    if (last)
        lookup->first.tag = 0;
    else
        lookup->first = lookup->last;
    if (snic_volume_waits(c->v, disk, lookup->segment) == 0)
        control_lookup_free(c, lookup);
}
