/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Are node states that count as equal equal? Of a state one memory image is kept; another that has
 * the same canonical bytes is its twin. Up to DN_TWINS images of a state take each event that the
 * state takes: the engine must return the same, emit the same messages and answers, and end in the
 * same state. Otherwise the canonical bytes leave out what decides something, and states were not
 * explored; or they have what decides nothing, and counts depend on what was found first.
 */
#include "ddp_node_priv.h"

#include <stdlib.h>
#include <string.h>

#define DN_TWINS 6

struct dn_image {
    struct mc_print128 print;
    struct dn_node *node; /* NULL: the state's own */
};
struct dn_twinned {
    uint32_t *event; /* that the state has taken */
    uint32_t events, room;
    uint32_t images;
    struct dn_image image[1 + DN_TWINS];
};
struct dn_twins {
    struct dn_twinned *of; /* by number of the state */
    uint32_t room;
    uint32_t *queue; /* images, state << 3 | number, that have taken no event yet */
    uint32_t queued, queue_room;
    uint32_t differ;
    char first[MC_TEXT]; /* the event that showed it */
};

static void *dn_grow(void *array, uint32_t *room, uint32_t need, size_t size)
{
    uint32_t old = *room;

    if (need <= old)
        return array;
    *room = need * 2;
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    memset((char *)array + old * size, 0, (*room - old) * size);
    return array;
}

static struct dn_twinned *dn_twinned(struct dn_twins *t, uint32_t node)
{
    t->of = dn_grow(t->of, &t->room, node + 1, sizeof(*t->of));
    return &t->of[node];
}

/* What of a node is its state, more or less: no more images than needed. */
static struct mc_print128 dn_image_print(const struct dn_space *s, const struct dn_node *n)
{
    struct dn_node *copy = dn_copy(s, n);
    struct mc_print128 f;

    memset(&copy->sum, 0, sizeof(copy->sum));
    dn_forget_past((struct snic_ddp *)(void *)copy->engine);
    f = mc_fingerprint(copy, s->node_size);
    free(copy);
    return f;
}

static int dn_image_known(const struct dn_twinned *c, struct mc_print128 f)
{
    uint32_t i = 0;

    while (i < c->images && (c->image[i].print.lo != f.lo || c->image[i].print.hi != f.hi))
        i++;
    return i < c->images;
}

void dn_twin_found(struct dn_space *s, uint32_t node, const struct dn_node *n)
{
    struct dn_twins *t = s->twins;
    struct dn_twinned *c = dn_twinned(t, node);
    struct mc_print128 f;

    if (!n->sum.alive || c->images > DN_TWINS)
        return;
    if (c->images == 0)
        c->image[c->images++].print = dn_image_print(s, dn_node_at(s, node));
    f = dn_image_print(s, n);
    if (dn_image_known(c, f))
        return;
    c->image[c->images].print = f;
    c->image[c->images++].node = dn_copy(s, n);
    t->queue = dn_grow(t->queue, &t->queue_room, t->queued + 1, sizeof(*t->queue));
    t->queue[t->queued++] = node << 3 | (c->images - 1);
}

/* The twin's number of a timer, which depends on what was allocated when; 0: it has no such. */
static uint32_t dn_twin_event(const struct dn_node *first, const struct dn_node *twin,
                              uint32_t event)
{
    const struct snic_ddp_timer *t = &first->timer[event & (DN_TIMERS - 1)];
    uint32_t i;

    if (event >> 27 != DN_FIRE)
        return event;
    for (i = 0; i < twin->sum.timers; i++)
        if (twin->timer[i].kind == t->kind && twin->timer[i].ts == t->ts &&
            memcmp(&twin->timer[i].key, &t->key, sizeof(t->key)) == 0)
            return DN_EVENT(DN_FIRE, i);
    return 0;
}

static int dn_number_order(const void *a, const void *b)
{
    uint32_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* In any order. */
static int dn_same_out(const struct dn_result *a, const struct dn_result *b)
{
    uint32_t of[2][DN_OUT];

    if (a->outs != b->outs)
        return 0;
    memcpy(of[0], a->out, a->outs * sizeof(of[0][0]));
    memcpy(of[1], b->out, b->outs * sizeof(of[1][0]));
    qsort(of[0], a->outs, sizeof(of[0][0]), dn_number_order);
    qsort(of[1], b->outs, sizeof(of[1][0]), dn_number_order);
    return memcmp(of[0], of[1], a->outs * sizeof(of[0][0])) == 0;
}

static int dn_same(const struct dn_result *a, const struct dn_result *b)
{
    return a->node == b->node && a->status == b->status && a->caught_up == b->caught_up &&
           a->ready == b->ready && a->need_epoch == b->need_epoch &&
           (a->bad == NULL) == (b->bad == NULL) && dn_same_out(a, b) && a->dones == b->dones &&
           memcmp(a->done, b->done, a->dones * sizeof(a->done[0])) == 0;
}

static void dn_twin_try(struct dn_space *s, uint32_t node, const struct dn_node *twin,
                        uint32_t event)
{
    const struct dn_result *first = mc_memo_find(&s->memo, (uint64_t)node << 32 | event);
    uint32_t its = dn_twin_event(dn_node_at(s, node), twin, event);
    struct dn_result *r = its != 0 ? dn_run(s, twin, node, its) : NULL;

    if ((r == NULL || !dn_same(first, r)) && s->twins->differ++ == 0)
        dn_event_print(s, node, event, s->twins->first, sizeof(s->twins->first));
    if (r != NULL)
        dn_result_free(r);
}

/* Each image has taken all events when this returns: those found meanwhile, too. */
void dn_twins_step(struct dn_space *s, uint32_t node, uint32_t event)
{
    struct dn_twins *t = s->twins;
    struct dn_twinned *c = dn_twinned(t, node);
    uint32_t images = c->images, i;

    c->event = dn_grow(c->event, &c->room, c->events + 1, sizeof(*c->event));
    c->event[c->events++] = event;
    for (i = 1; i < images; i++)
        dn_twin_try(s, node, dn_twinned(t, node)->image[i].node, event);
    while (t->queued > 0) {
        uint32_t at = t->queue[--t->queued];

        for (i = 0; i < dn_twinned(t, at >> 3)->events; i++)
            dn_twin_try(s, at >> 3, dn_twinned(t, at >> 3)->image[at & 7].node,
                        dn_twinned(t, at >> 3)->event[i]);
    }
}

uint32_t dn_twins_differ(const struct dn_space *s, const char **first)
{
    if (s->twins == NULL)
        return 0;
    *first = s->twins->first;
    return s->twins->differ;
}

struct dn_twins *dn_twins_new(void)
{
    struct dn_twins *t = calloc(1, sizeof(*t));

    if (t == NULL)
        abort();
    return t;
}

void dn_twins_free(struct dn_twins *t)
{
    uint32_t n, i;

    for (n = 0; t != NULL && n < t->room; n++) {
        for (i = 0; i < t->of[n].images; i++)
            free(t->of[n].image[i].node);
        free(t->of[n].event);
    }
    if (t != NULL) {
        free(t->of);
        free(t->queue);
    }
    free(t);
}
