/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Changes that may be lost when the file system's process dies, until the next fsync() of the inode
 * has reported them.
 *
 * The last changes are in a ring. When one leaves it before it is durable, or old, its inode is no
 * longer known: if the process dies then (overflow), any inode that was changed may have lost
 * something, and the first fsync() of each reports that, once.
 *
 * Invariants
 *   RL1 `lost` has the inodes known to have lost changes that are not reported; `reported` has
 *       those that were reported since the last overflow; neither has 0.
 *   RL2 No inode above most has been changed.
 */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sets of inodes: linear probing, at most half full ---- */

static uint64_t set_place(const struct kr_set *s, uint64_t ino)
{
    return (ino * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (s->room - 1);
}

static uint64_t *set_find(const struct kr_set *s, uint64_t ino)
{
    uint64_t at = set_place(s, ino);

    while (s->slots[at] != 0 && s->slots[at] != ino)
        at = (at + 1) & (s->room - 1);
    return &s->slots[at];
}

static int set_has(const struct kr_set *s, uint64_t ino)
{
    return s->count != 0 && *set_find(s, ino) == ino;
}

/* @return 0; -1: no memory */
static int set_grow(struct kr_set *s)
{
    struct kr_set more = {.room = s->room == 0 ? 256 : 2 * s->room, .count = s->count};

    more.slots = calloc(more.room, sizeof(*more.slots));
    if (more.slots == NULL)
        return -1;
    for (uint64_t i = 0; i < s->room; i++)
        if (s->slots[i] != 0)
            *set_find(&more, s->slots[i]) = s->slots[i];
    free(s->slots);
    *s = more;
    return 0;
}

/* @return 0, also if it was present; -1: no memory */
static int set_add(struct kr_set *s, uint64_t ino)
{
    if (set_has(s, ino))
        return 0;
    if (2 * (s->count + 1) > s->room && set_grow(s) != 0)
        return -1;
    *set_find(s, ino) = ino;
    s->count++;
    return 0;
}

/* @return 1: it was present */
static int set_take(struct kr_set *s, uint64_t ino)
{
    uint64_t at;

    if (!set_has(s, ino))
        return 0;
    at = (uint64_t)(set_find(s, ino) - s->slots);
    s->slots[at] = 0;
    s->count--;
    for (;;) { /* entries behind it, up to a free slot, may have to move */
        uint64_t other;

        at = (at + 1) & (s->room - 1);
        other = s->slots[at];
        if (other == 0)
            return 1;
        s->slots[at] = 0;
        *set_find(s, other) = other;
    }
}

static void set_clear(struct kr_set *s)
{
    free(s->slots);
    *s = (struct kr_set){NULL, 0, 0};
}

/* ---- Changes ---- */

void remote_changed(struct km_remote *r, uint64_t ino)
{
    struct kr_change *e = &r->changes[r->change_count % KR_CHANGES];

    if (ino == 0)
        return;
    if (e->ino != 0) {
        r->left = *e;
        r->left_any = 1;
    }
    *e = (struct kr_change){.ino = ino, .number = r->change_count, .ns = snic_loop_now(r->m->loop)};
    r->change_count++;
    r->most = snic_max_u64(r->most, ino);
}

static int lost_may_be(const struct km_remote *r, const struct kr_change *e, uint64_t now)
{
    return e->number >= r->durable_changes && now - e->ns <= KR_CHANGE_NS;
}

/* Any inode so far may have lost something. */
static void lost_overflow(struct km_remote *r, const char *why)
{
    uint64_t now = snic_loop_now(r->m->loop);

    r->lost_any = 1;
    r->lost_all = r->most;
    set_clear(&r->reported);
    r->overflows++;
    if (r->overflow_logged_ns != 0 && now - r->overflow_logged_ns < 1000000000u)
        return;
    r->overflow_logged_ns = now != 0 ? now : 1;
    ex_log(EX_WARNING,
           "%s: it is unknown which files lost changes when the file system's process died: the "
           "next fsync of each file and directory fails once with EIO",
           why);
}

void remote_lost_note(struct km_remote *r, uint64_t ino)
{
    r->lost_any = 1;
    r->most = snic_max_u64(r->most, ino);
    if (set_add(&r->lost, ino) != 0)
        lost_overflow(r, "out of memory");
}

void remote_lose(struct km_remote *r)
{
    uint64_t now = snic_loop_now(r->m->loop);

    for (uint64_t i = 0; i < r->handle_count; i++) {
        struct kr_handle *h = &r->handles[i];

        if (h->kind == 0)
            continue;
        h->remote = 0;
        h->lost |= h->cached.writes != 0;
        h->cached.writes = 0;
        r->lost_any |= h->lost;
    }
    for (uint32_t i = 0; i < KR_CHANGES; i++) {
        struct kr_change *e = &r->changes[i];

        if (e->ino != 0 && lost_may_be(r, e, now))
            remote_lost_note(r, e->ino);
        e->ino = 0;
    }
    if (r->left_any && lost_may_be(r, &r->left, now))
        lost_overflow(r, "more changes than are recorded");
    r->left_any = 0;
}

int remote_lost_change(struct km_remote *r, uint64_t ino)
{
    if (set_take(&r->lost, ino)) {
        if (r->lost_all != 0)
            (void)set_add(&r->reported, ino); /* else once more */
        return 1;
    }
    if (ino > r->lost_all || set_has(&r->reported, ino))
        return 0;
    return set_add(&r->reported, ino) == 0; /* without memory it would be reported for ever */
}

void remote_lost_close(struct km_remote *r)
{
    set_clear(&r->lost);
    set_clear(&r->reported);
}
