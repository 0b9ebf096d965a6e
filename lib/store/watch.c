/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A ring of the last changes, and what reads it. Each change that becomes readable has the next
 * number. The ring holds the values of the last ones (of a deletion the deleted one, for its key),
 * changes_max and changes_bytes at most; a watch that is behind them has missed some. It begins
 * with the first watch.
 *
 * W1  Numbers first to next - 1 are in the ring, each at its number modulo changes_max.
 * W2  The first wake_left of the watches may not know of the last change. With many watches and
 *     changes they are called a part in each iteration, in turn; one whose turn comes late misses
 *     some.
 */
#include "store_priv.h"

#define SNIC_STORE__LOOKED 256   /* changes that one call looks at */
#define SNIC_STORE__LOOKS 32768u /* W2: changes and watches of an iteration of the loop */

static struct store_slot *watch_slot(const struct snic_store *s, uint64_t number)
{
    return &s->p.ring[number & (s->o.changes_max - 1)];
}

static void watch_forget(struct snic_store *s)
{
    struct store_slot *slot = watch_slot(s, s->ring_first++);
    s->ring_bytes -= slot->bytes;
    snic_replica_drop(s->replica, slot->value);
}

/* Each watch that waits is called from the loop: once around from here (W2). */
static void store_watch_wake(struct snic_store *s)
{
    if (s->waiting == 0)
        return;
    s->wake_left = s->stats.watches;
    if (!s->wake.armed)
        snic_loop_arm(s->loop, &s->wake, 0);
}

/* Forget all changes. Positions from here on are of another incarnation. */
void store_watch_reset(struct snic_store *s)
{
    unsigned char bytes[16];
    while (s->ring_first < s->ring_next)
        watch_forget(s);
    snic_put_le64(bytes, store_now(s));
    snic_put_le64(bytes + 8, (uint64_t)++s->resets << 32 | s->boot);
    s->incarnation = snic_siphash(s->o.hash_key, bytes, sizeof(bytes)) | 1;
    s->ring_first = s->ring_next = 1;
    store_watch_wake(s);
}

/* A readable change; @p value has the key. */
void store_watch_push(struct snic_store *s, uint32_t kind, uint64_t ts, uint64_t value)
{
    uint32_t bytes;
    s->stats.changes++;
    if (!s->ring_used) {
        s->ring_first = ++s->ring_next;
        return;
    }
    (void)snic_replica_value(s->replica, value, &bytes);
    while (s->ring_first < s->ring_next &&
           (s->ring_next - s->ring_first == s->o.changes_max ||
            s->ring_bytes + bytes > s->o.changes_bytes + SNIC_STORE__FRONT))
        watch_forget(s);
    struct store_slot *slot = watch_slot(s, s->ring_next++);
    slot->ts = ts;
    slot->value = value;
    slot->bytes = bytes;
    slot->kind = kind;
    s->ring_bytes += bytes;
    snic_replica_hold(s->replica, value);
    store_watch_wake(s);
}

void store_wake_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_store *s = SNIC_CONTAINER(t, struct snic_store, wake);
    for (s->looked = 0; s->wake_left != 0 && s->looked < SNIC_STORE__LOOKS; s->looked++) {
        if (snic_link_alone(&s->watches)) {
            s->wake_left = 0; /* all were stopped */
            break;
        }
        s->wake_left--;
        struct snic_store_watch *w = SNIC_CONTAINER(s->watches.next, struct snic_store_watch, link);
        snic_link_remove(&w->link);
        snic_link_append(&s->watches, &w->link);
        if (!w->waits)
            continue;
        w->waits = 0;
        s->waiting--;
        if (w->ready != NULL)
            w->ready(w);
    }
    if (s->wake_left != 0)
        snic_loop_arm(s->loop, t, now_ns);
}

/* ---- Calls ---- */

static void watch_now(const struct snic_store *s, struct snic_store_position *out)
{
    memset(out, 0, sizeof(*out));
    out->node = s->node;
    out->incarnation = s->incarnation;
    out->number = s->ring_next;
}

/* Can a watch continue there? */
static int watch_knows(const struct snic_store *s, const struct snic_store_position *p)
{
    return p->node == s->node && p->incarnation == s->incarnation && p->number >= s->ring_first &&
           p->number <= s->ring_next;
}

int snic_store_watch_start(struct snic_store *s, struct snic_store_watch *w)
{
    if (w->key == NULL && w->key_size != 0)
        return SNIC_EINVAL;
    int begins = w->position.incarnation == 0;
    int knows = watch_knows(s, &w->position);
    s->ring_used = 1;
    w->waits = 0;
    if (!knows)
        watch_now(s, &w->position);
    snic_link_append(&s->watches, &w->link);
    s->stats.watches++;
    if (begins || knows)
        return 0;
    s->stats.overflows++;
    return SNIC_EOVERFLOW;
}

/* Is it a change that the watch is for? Then @p out. */
static int watch_match(const struct snic_store *s, const struct snic_store_watch *w,
                       uint64_t number, struct snic_store_event *out)
{
    const struct store_slot *slot = watch_slot(s, number);
    struct store_envelope e;
    uint32_t size;
    const void *bytes = snic_replica_value(s->replica, slot->value, &size);
    if (store_envelope_get(bytes, size, &e) != 0)
        return 0;
    if (e.key_size < w->key_size || (!w->prefix && e.key_size != w->key_size) ||
        (w->key_size != 0 && memcmp(e.key, w->key, w->key_size) != 0))
        return 0;
    memset(out, 0, sizeof(*out));
    out->kind = slot->kind;
    out->key = e.key;
    out->key_size = e.key_size;
    out->version = slot->ts;
    if (slot->kind == SNIC_STORE_EVENT_PUT) {
        out->data = e.data;
        out->size = e.size;
    }
    return 1;
}

int snic_store_watch_next(struct snic_store *s, struct snic_store_watch *w,
                          struct snic_store_event *out)
{
    if (!watch_knows(s, &w->position)) {
        watch_now(s, &w->position);
        s->stats.overflows++;
        return SNIC_EOVERFLOW;
    }
    int more = 0;
    for (uint32_t i = 0; w->position.number < s->ring_next; i++) {
        if (i == SNIC_STORE__LOOKED) {
            more = 1;
            break;
        }
        s->looked++;
        if (watch_match(s, w, w->position.number++, out)) {
            out->position = w->position;
            return 0;
        }
    }
    if (!w->waits) {
        w->waits = 1;
        s->waiting++;
    }
    if (more)
        store_watch_wake(s); /* the rest later */
    return SNIC_EAGAIN;
}

void snic_store_watch_stop(struct snic_store *s, struct snic_store_watch *w)
{
    if (w->link.next == NULL || snic_link_alone(&w->link))
        return;
    snic_link_remove(&w->link);
    s->waiting -= w->waits;
    w->waits = 0;
    s->stats.watches--;
}

int store_watch_check(const struct snic_store *s)
{
    uint64_t bytes = 0;
    uint32_t watches = 0, waiting = 0;
    for (uint64_t n = s->ring_first; n < s->ring_next; n++)
        bytes += watch_slot(s, n)->bytes;
    for (const struct snic_link *l = s->watches.next; l != &s->watches; l = l->next) {
        waiting += SNIC_CONTAINER(l, struct snic_store_watch, link)->waits;
        watches++;
    }
    return bytes == s->ring_bytes && s->ring_next - s->ring_first <= s->o.changes_max &&
                   watches == s->stats.watches && waiting == s->waiting
               ? 0
               : SNIC_ECORRUPT; /* W1 */
}
