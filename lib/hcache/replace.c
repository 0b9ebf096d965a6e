/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Replacement inside a bucket.
 *
 * The default follows S3-FIFO (Yang et al., SOSP 2023) in each bucket: a small queue that most
 * pages only pass through, a main queue with second chances, and ghosts: fingerprints of pages that
 * have left. A scan's pages are used once, so they leave from the small queue and push nothing out
 * of the main one; a page that comes back while its ghost is there goes to the main queue at once.
 * No hit moves anything: the hits that the locks counted are looked at when a
 * page gets to the end of its queue.
 * Departures: the queues are of entries of one bucket, the order among those inserted between two
 * looks is that of the entries, and victims are named before they leave, so that one that is hit
 * meanwhile stays where it is. There are ghosts of both queues, and the small one adapts: a page
 * that returns shows that the queue it left was too short (as in ARC).
 *
 * CLOCK: one hand, a page with hits gets them taken away and a second chance.
 */
#include "snicstore/hcache.h"

#include <string.h>

#define SNIC_HCACHE__GHOSTS 16u
/* Quarters of an entry by which the small queue grows when a page that went through it comes back,
 * and shrinks when one of the main queue does. */
#define SNIC_HCACHE__LONGER 4u
#define SNIC_HCACHE__SHORTER 6u

/* Fingerprints of pages that left one of the queues, oldest overwritten first. */
struct replace_ghosts {
    uint16_t print[SNIC_HCACHE__GHOSTS];
    uint16_t next;
};

struct replace_s3 {
    uint8_t order[SNIC_HCACHE_WAYS_MAX]; /* oldest first, of both queues                    */
    uint8_t count;
    uint8_t target; /* of the small queue, in quarters of entries; 0: not set yet       */
    uint16_t small; /* a bit per entry                                                  */
    uint16_t print[SNIC_HCACHE_WAYS_MAX]; /* 0: empty                                       */
    struct replace_ghosts ghosts[2];      /* of the main and of the small queue             */
};
SNIC_STATIC_ASSERT(sizeof(struct replace_s3) <= SNIC_HCACHE_POLICY_BYTES, "state of a policy");

static void replace_remove(struct replace_s3 *s, uint32_t at)
{
    memmove(s->order + at, s->order + at + 1, s->count - at - 1u);
    s->count--;
}

static void replace_append(struct replace_s3 *s, uint32_t way)
{
    s->order[s->count++] = (uint8_t)way;
}

/* Was it there not long ago? Then it is a ghost no more. */
static int replace_returns(struct replace_ghosts *g, uint16_t print)
{
    uint32_t i;

    for (i = 0; i < SNIC_HCACHE__GHOSTS; i++)
        if (g->print[i] == print) {
            g->print[i] = 0;
            return 1;
        }
    return 0;
}

/* Entry @p way is another page than before, or empty. */
static void replace_leave(struct replace_s3 *s, uint32_t way)
{
    struct replace_ghosts *g = &s->ghosts[s->small >> way & 1];
    uint32_t i;

    for (i = 0; i < s->count; i++)
        if (s->order[i] == way) {
            replace_remove(s, i);
            break;
        }
    g->print[g->next] = s->print[way];
    g->next = (uint16_t)((g->next + 1u) % SNIC_HCACHE__GHOSTS);
    s->small &= (uint16_t) ~(1u << way);
    s->print[way] = 0;
}

/* A page came: into which queue, and was the small one too short or too long? */
static void replace_enter(struct replace_s3 *s, struct snic_hcache_way *ways, uint32_t way,
                          uint32_t n)
{
    uint16_t print = (uint16_t)ways[way].print;
    int returned = 0;

    s->print[way] = print;
    replace_append(s, way);
    if (replace_returns(&s->ghosts[1], print)) {
        if (s->target + SNIC_HCACHE__LONGER + 8 <= 4 * n)
            s->target = (uint8_t)(s->target + SNIC_HCACHE__LONGER);
        returned = 1;
    } else if (replace_returns(&s->ghosts[0], print)) {
        s->target =
            (uint8_t)(s->target > 4 + SNIC_HCACHE__SHORTER ? s->target - SNIC_HCACHE__SHORTER : 4);
        returned = 1;
    } else {
        s->small |= (uint16_t)(1u << way);
    }
    /* It has been used twice: without this it would be the first of the main queue to go, for those
     * before it have hits from better times. */
    if (returned && ways[way].hits == 0)
        ways[way].hits = 1;
}

static void replace_account(struct replace_s3 *s, struct snic_hcache_way *ways, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (s->print[i] != 0 &&
            ((ways[i].flags & SNIC_HCACHE_WAY_USED) == 0 || ways[i].print != s->print[i]))
            replace_leave(s, i);
    for (i = 0; i < n; i++)
        if (s->print[i] == 0 && (ways[i].flags & SNIC_HCACHE_WAY_USED) != 0)
            replace_enter(s, ways, i, n);
}

/*
 * The next one to give up from the small or the main queue; -1 if there is none. Those with hits
 * are moved on under way: from small to main, in main to its end.
 */
static int replace_pick(struct replace_s3 *s, struct snic_hcache_way *ways, int small,
                        uint32_t taken)
{
    uint32_t steps = 4u * s->count; /* every page gets three chances */
    uint32_t at = 0;

    while (steps-- > 0 && at < s->count) {
        uint32_t way = s->order[at];

        if ((s->small >> way & 1) != (small ? 1u : 0u) || (taken >> way & 1) != 0) {
            at++;
            continue;
        }
        if (ways[way].hits == 0)
            return (int)way;
        replace_remove(s, at);
        replace_append(s, way);
        if (small) {
            s->small &= (uint16_t) ~(1u << way);
            ways[way].hits = 0;
        } else {
            ways[way].hits--;
        }
    }
    return -1;
}

static uint32_t replace_s3_choose(void *state, struct snic_hcache_way *ways, uint32_t n,
                                  uint32_t want)
{
    struct replace_s3 *s = state;
    uint32_t taken = 0;
    uint32_t named = 0;
    uint32_t i;

    if (s->target == 0)
        s->target = (uint8_t)(n >= 8 ? n / 2 : 4); /* an eighth */
    replace_account(s, ways, n);
    for (i = 0; i < n; i++)
        if ((ways[i].flags & SNIC_HCACHE_WAY_VICTIM) != 0 && ways[i].hits == 0)
            taken |= 1u << i;
    for (; want > 0; want--) {
        uint32_t small = (uint32_t)__builtin_popcount(s->small & ~taken);
        int way = replace_pick(s, ways, 4 * small > s->target, taken);

        if (way < 0)
            way = replace_pick(s, ways, 4 * small <= s->target, taken);
        if (way < 0)
            break;
        taken |= 1u << way;
        named |= 1u << way;
    }
    return named;
}

struct replace_clock {
    uint32_t hand;
};

static uint32_t replace_clock_choose(void *state, struct snic_hcache_way *ways, uint32_t n,
                                     uint32_t want)
{
    struct replace_clock *s = state;
    uint32_t named = 0;
    uint32_t steps;

    for (steps = 0; want > 0 && steps < 2 * n; steps++) {
        struct snic_hcache_way *w = &ways[s->hand % n];
        uint32_t bit = 1u << s->hand % n;

        s->hand = (s->hand + 1) % n;
        if ((w->flags & (SNIC_HCACHE_WAY_USED | SNIC_HCACHE_WAY_VICTIM)) != SNIC_HCACHE_WAY_USED ||
            (named & bit) != 0)
            continue;
        if (w->hits != 0) {
            w->hits = 0;
            continue;
        }
        named |= bit;
        want--;
    }
    return named;
}

static const struct snic_hcache_policy replace_s3_policy = {
    sizeof(struct snic_hcache_policy), sizeof(struct replace_s3), "s3fifo", replace_s3_choose};
static const struct snic_hcache_policy replace_clock_policy = {
    sizeof(struct snic_hcache_policy), sizeof(struct replace_clock), "clock", replace_clock_choose};

const struct snic_hcache_policy *snic_hcache_policy_default(void)
{
    return &replace_s3_policy;
}

const struct snic_hcache_policy *snic_hcache_policy_clock(void)
{
    return &replace_clock_policy;
}
