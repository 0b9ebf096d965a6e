/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The device blocks of the writes in flight: a treap over the pieces, by their first block, each
 * with the largest end below it, so that a new write finds in O(log n) steps whether it has to
 * wait (I7), however many are in flight.
 *
 * B1  max_end[0] is the largest block_end of the subtree, max_end[1] that of its exclusive pieces
 *     (0: none).
 */
#include "files/files_priv.h"

static void busy_pull(struct snic_files *f, uint32_t i)
{
    struct files_piece *p = &f->pieces[i];
    p->max_end[0] = p->block_end;
    p->max_end[1] = p->exclusive ? p->block_end : 0;
    for (int side = 0; side < 2; side++) {
        if (p->child[side] == SNIC_FILES__NONE)
            continue;
        const struct files_piece *c = &f->pieces[p->child[side]];
        p->max_end[0] = snic_max_u64(p->max_end[0], c->max_end[0]);
        p->max_end[1] = snic_max_u64(p->max_end[1], c->max_end[1]);
    }
}

static int busy_before(const struct snic_files *f, uint32_t a, uint32_t b)
{
    uint64_t x = f->pieces[a].block_first;
    uint64_t y = f->pieces[b].block_first;
    return x != y ? x < y : a < b;
}

/* The pieces of @root before @at, and the others. */
static void busy_split(struct snic_files *f, uint32_t root, uint32_t at, uint32_t *low,
                       uint32_t *high)
{
    if (root == SNIC_FILES__NONE) {
        *low = *high = SNIC_FILES__NONE;
        return;
    }
    if (busy_before(f, root, at)) {
        busy_split(f, f->pieces[root].child[1], at, &f->pieces[root].child[1], high);
        *low = root;
    } else {
        busy_split(f, f->pieces[root].child[0], at, low, &f->pieces[root].child[0]);
        *high = root;
    }
    busy_pull(f, root);
}

static uint32_t busy_merge(struct snic_files *f, uint32_t low, uint32_t high)
{
    if (low == SNIC_FILES__NONE || high == SNIC_FILES__NONE)
        return low == SNIC_FILES__NONE ? high : low;
    if (f->pieces[low].rank > f->pieces[high].rank) {
        f->pieces[low].child[1] = busy_merge(f, f->pieces[low].child[1], high);
        busy_pull(f, low);
        return low;
    }
    f->pieces[high].child[0] = busy_merge(f, low, f->pieces[high].child[0]);
    busy_pull(f, high);
    return high;
}

static uint32_t busy_insert(struct snic_files *f, uint32_t root, uint32_t i)
{
    struct files_piece *p = &f->pieces[i];
    if (root == SNIC_FILES__NONE || p->rank > f->pieces[root].rank) {
        busy_split(f, root, i, &p->child[0], &p->child[1]);
        root = i;
    } else {
        uint32_t *child = &f->pieces[root].child[busy_before(f, root, i)];
        *child = busy_insert(f, *child, i);
    }
    busy_pull(f, root);
    return root;
}

static uint32_t busy_erase(struct snic_files *f, uint32_t root, uint32_t i)
{
    SNIC_ASSERT(root != SNIC_FILES__NONE);
    if (root == i)
        return busy_merge(f, f->pieces[i].child[0], f->pieces[i].child[1]);
    uint32_t *child = &f->pieces[root].child[busy_before(f, root, i)];
    *child = busy_erase(f, *child, i);
    busy_pull(f, root);
    return root;
}

void files_busy_add(struct snic_files *f, struct files_piece *p)
{
    f->busy_rank = f->busy_rank * 6364136223846793005u + 1442695040888963407u;
    p->rank = (uint32_t)(f->busy_rank >> 32);
    p->child[0] = p->child[1] = SNIC_FILES__NONE;
    f->busy_root = busy_insert(f, f->busy_root, (uint32_t)(p - f->pieces));
    f->writes_exclusive += p->exclusive;
}

void files_busy_remove(struct snic_files *f, const struct files_piece *p)
{
    f->writes_exclusive -= p->exclusive;
    f->busy_root = busy_erase(f, f->busy_root, (uint32_t)(p - f->pieces));
}

/* Would a write of these device blocks have to wait? I7 */
int files_busy_conflict(struct snic_files *f, uint64_t first, uint64_t end, int exclusive)
{
    uint32_t i = f->busy_root;
    if (!exclusive && f->writes_exclusive == 0)
        return 0;
    while (i != SNIC_FILES__NONE) {
        const struct files_piece *p = &f->pieces[i];
        uint32_t left = p->child[0];
        f->stats.write_looks++;
        if ((exclusive || p->exclusive) && p->block_first < end && first < p->block_end)
            return 1;
        /* What ends behind `first` on the left and does not overlap begins behind `end`, and so
         * does all on the right. */
        if (left != SNIC_FILES__NONE && f->pieces[left].max_end[!exclusive] > first)
            i = left;
        else
            i = p->child[1];
    }
    return 0;
}

/* Pieces of the subtree, or UINT32_MAX: B1 or the order does not hold. For tests. */
static uint32_t busy_count(const struct snic_files *f, uint32_t i, uint32_t depth)
{
    const struct files_piece *p = &f->pieces[i];
    uint64_t max[2] = {p->block_end, p->exclusive ? p->block_end : 0};
    uint32_t n = 1;
    if (depth > f->pieces_count)
        return UINT32_MAX;
    for (int side = 0; side < 2; side++) {
        uint32_t c = p->child[side];
        if (c == SNIC_FILES__NONE)
            continue;
        uint32_t below = busy_count(f, c, depth + 1);
        if (below == UINT32_MAX || busy_before(f, i, c) != side || f->pieces[c].rank > p->rank)
            return UINT32_MAX;
        n += below;
        max[0] = snic_max_u64(max[0], f->pieces[c].max_end[0]);
        max[1] = snic_max_u64(max[1], f->pieces[c].max_end[1]);
    }
    return max[0] == p->max_end[0] && max[1] == p->max_end[1] ? n : UINT32_MAX;
}

int files_busy_check(const struct snic_files *f, uint32_t active)
{
    uint32_t n = f->busy_root == SNIC_FILES__NONE ? 0 : busy_count(f, f->busy_root, 0);
    return n == active ? 0 : SNIC_ECORRUPT;
}
