/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lookups of segments: those that the volume requests are kept until they are answered, and
 * repeated with back-off: an answer may arrive late, without a request, or never, as when a server
 * is down. The volume repeats requests that it still needs, and does not cancel others: so when the
 * table is full an entry is evicted; and whether a LOOKUP permits to place the segment is decided
 * by the I/O that waits at the volume then.
 */
#include "control/client_priv.h"

/* The time until a LOOKUP is repeated: from retry_ns, up to SNIC_CONTROL__CLIENT_WANT_NS. */
static uint64_t control_want_patience(const struct snic_control_client *c,
                                      struct control_client_want *w)
{
    uint64_t pause = c->o.retry_ns << w->asks;
    if (pause < SNIC_CONTROL__CLIENT_WANT_NS && w->asks < 16)
        w->asks++;
    pause = snic_min_u64(pause, SNIC_CONTROL__CLIENT_WANT_NS);
    return snic_max_u64(pause, c->o.retry_ns);
}

static void control_lookup_add(struct snic_control_client *c, struct snic_control_msg *m,
                               const struct control_client_want *w, int status)
{
    struct snic_control_item *it = &m->item[m->count++];
    it->segment = w->segment;
    it->gen = w->gen;
    it->status = status;
    c->stats.asked++;
}

/* The waiting I/O decides whether the segment is to be placed. If some of it needs the location
   only if the segment is placed, that item is first: the other item places the segment. */
static void control_want_ask(struct snic_control_client *c, struct snic_control_msg *m,
                             struct control_client_want *w, uint64_t now)
{
    uint32_t waits = c->v != NULL ? snic_volume_waits(c->v, w->disk, w->segment) : 0;
    if (waits != SNIC_EBS_WAITS_PLACE) {
        w->last.ns = now;
        w->last.tag = m->tag;
        if (w->first.tag == 0)
            w->first = w->last;
        control_lookup_add(c, m, w, SNIC_CONTROL_IF_PLACED);
    }
    if ((waits & SNIC_EBS_WAITS_PLACE) != 0)
        control_lookup_add(c, m, w, 0);
}

static void control_lookup_begin(struct snic_control_client *c, struct snic_control_msg *m,
                                 const struct control_client_disk *d)
{
    control_msg(m, SNIC_CONTROL_LOOKUP, control_client_tag(c));
    m->vd = d->vd;
    m->lease = d->lease;
}

/* Those of a disk that are due, SNIC_CONTROL_ITEMS in a message. */
static void control_wants_ask_of(struct snic_control_client *c, uint32_t disk, uint64_t now)
{
    struct snic_control_msg m;
    control_lookup_begin(c, &m, &c->disks[disk]);
    for (uint32_t i = 0; i < c->stats.waiting; i++) {
        struct control_client_want *w = &c->wants[i];
        if (w->disk != disk || w->due_ns > now)
            continue;
        w->due_ns = now + control_want_patience(c, w);
        control_want_ask(c, &m, w, now);
        if (m.count > SNIC_CONTROL_ITEMS - 2) {
            control_client_say(c, &m);
            control_lookup_begin(c, &m, &c->disks[disk]);
        }
    }
    if (m.count != 0)
        control_client_say(c, &m);
}

void control_wants_ask(struct snic_control_client *c)
{
    uint64_t now = control_client_now(c);
    if (!c->welcome || c->stats.waiting == 0)
        return;
    for (uint32_t i = 0; i < c->o.disks_max; i++)
        if (c->disks[i].state == CONTROL_CLIENT_HELD)
            control_wants_ask_of(c, i, now);
}

void control_wants_soon(struct snic_loop_msg *m)
{
    struct snic_control_client *c = SNIC_CONTAINER(m, struct snic_control_client, soon);
    c->soon_queued = 0;
    if (!c->closing)
        control_wants_ask(c);
}

struct control_client_want *control_want_find(struct snic_control_client *c, uint32_t disk,
                                              uint64_t segment)
{
    for (uint32_t i = 0; i < c->stats.waiting; i++)
        if (c->wants[i].disk == disk && c->wants[i].segment == segment)
            return &c->wants[i];
    return NULL;
}

void control_want_free(struct snic_control_client *c, struct control_client_want *w)
{
    *w = c->wants[--c->stats.waiting];
}

void control_wants_drop(struct snic_control_client *c, uint32_t disk)
{
    for (uint32_t i = c->stats.waiting; i-- > 0;)
        if (c->wants[i].disk == disk)
            control_want_free(c, &c->wants[i]);
}

void snic_control_client_map(struct snic_control_client *c, uint32_t disk, uint64_t segment,
                             uint32_t gen)
{
    if (disk >= c->o.disks_max || c->disks[disk].state != CONTROL_CLIENT_HELD)
        return;
    struct control_client_want *w = control_want_find(c, disk, segment);
    if (w == NULL) {
        if (c->stats.waiting < c->o.lookups_max)
            w = &c->wants[c->stats.waiting++];
        else
            w = &c->wants[c->victim++ % c->stats.waiting];
        memset(w, 0, sizeof(*w));
        w->disk = disk;
        w->segment = segment;
    }
    w->gen = (uint32_t)snic_max_u64(w->gen, gen);
    w->due_ns = 0;
    if (!c->soon_queued) {
        c->soon_queued = 1;
        snic_loop_defer(c->o.loop, &c->soon);
    }
}

/* It was not placed at some time after the LOOKUP with that tag: the first that is not answered, or
   the last; one between them is taken for the first. For later I/O the volume looks it up anew. */
void control_want_nowhere(struct snic_control_client *c, struct control_client_want *w,
                          uint32_t tag)
{
    int last = tag == w->last.tag;
    uint32_t disk = w->disk;
    if (w->first.tag == 0 || (int32_t)(tag - w->first.tag) < 0)
        return;
    c->stats.answered +=
        snic_volume_hole(c->v, disk, w->segment, last ? w->last.ns : w->first.ns) == 0;
    if (last)
        w->first.tag = 0;
    else
        w->first = w->last;
    if (snic_volume_waits(c->v, disk, w->segment) == 0)
        control_want_free(c, w);
}
