/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The structural check: every table against every other. For tests, the fuzzer and the checker
 * of images; it changes nothing.
 */
#include "files/files_priv.h"

static int check_nodes(const struct snic_files *f)
{
    uint32_t files = 0;
    uint32_t dirs = 0;
    uint64_t children = 0;
    uint32_t i;
    if (f->nodes[0].id != 0 || f->nodes[0].kind != SNIC_FILES_DIR)
        return SNIC_ECORRUPT;
    children = f->nodes[0].children;
    for (i = 1; i < f->nodes_count; i++) {
        const struct files_node *n = &f->nodes[i];
        if (n->id == 0) {
            if (n->first != SNIC_FILES__NONE || n->segs != 0 || n->children != 0)
                return SNIC_ECORRUPT;
            continue;
        }
        if ((n->id & SNIC_FILES__SLOT_MASK) != i || n->id >> SNIC_FILES__SLOT_BITS >= f->next_id)
            return SNIC_ECORRUPT;
        if (files_find_name(f, n->parent, n->name, n->name_size) != i ||
            files_find_id(f, n->parent) == SNIC_FILES__NONE)
            return SNIC_ECORRUPT;
        if (n->kind == SNIC_FILES_DIR && (n->segs != 0 || n->parent != SNIC_FILES_ROOT))
            return SNIC_ECORRUPT;
        files += n->kind == SNIC_FILES_FILE;
        dirs += n->kind == SNIC_FILES_DIR;
        children += n->children;
    }
    return files == f->files && dirs == f->dirs && children == (uint64_t)files + dirs
               ? 0
               : SNIC_ECORRUPT;
}

/* The segments of one file: owner, index, marks. Their number is added to *owned. */
static int check_file(const struct snic_files *f, uint32_t node, uint64_t *owned)
{
    const struct files_node *n = &f->nodes[node];
    uint32_t prev = SNIC_FILES__NONE;
    uint32_t count = 0;
    uint32_t seg;
    for (seg = n->first; seg != SNIC_FILES__NONE; seg = f->segs[seg].next) {
        const struct files_seg *s = &f->segs[seg];
        if (count == f->segs_count || s->node != node || s->prev != prev)
            return SNIC_ECORRUPT;
        if (s->init > s->claimed || s->claimed > f->info.segment_bytes)
            return SNIC_ECORRUPT;
        if (files_seg_find(f, node, s->logical) != seg ||
            (f->bitmap[seg / 64] >> (seg % 64) & 1) == 0)
            return SNIC_ECORRUPT;
        prev = seg;
        count++;
    }
    *owned += count;
    return count == n->segs ? 0 : SNIC_ECORRUPT;
}

static int check_limbo(const struct snic_files *f, const struct files_limbo *l, uint64_t *owned)
{
    uint32_t seg = l->first;
    uint32_t n;
    for (n = 0; n < l->count; n++) {
        if (seg >= f->segs_count || f->segs[seg].node != SNIC_FILES__NONE ||
            (f->bitmap[seg / 64] >> (seg % 64) & 1) == 0)
            return SNIC_ECORRUPT;
        seg = f->segs[seg].next;
    }
    *owned += l->count;
    return 0;
}

static int check_segments(const struct snic_files *f)
{
    uint64_t owned = 0;
    uint64_t clear = 0;
    uint32_t i;
    for (i = 1; i < f->nodes_count; i++)
        if (f->nodes[i].id != 0 && check_file(f, i, &owned) != 0)
            return SNIC_ECORRUPT;
    if (check_limbo(f, &f->limbo_pending, &owned) != 0 ||
        check_limbo(f, &f->limbo_writing, &owned) != 0 ||
        check_limbo(f, &f->limbo_durable, &owned) != 0 ||
        check_limbo(f, &f->limbo_readers, &owned) != 0)
        return SNIC_ECORRUPT;
    for (i = 0; i < f->segs_count; i++)
        clear += (f->bitmap[i / 64] >> (i % 64) & 1) == 0;
    return clear == f->free_segs && owned + clear == f->segs_count ? 0 : SNIC_ECORRUPT;
}

static int check_dirty(const struct snic_files *f)
{
    uint64_t left = f->dirty_added - f->dirty_taken;
    uint32_t item = f->dirty_first;
    for (; item != SNIC_FILES__QUEUE_END; left--) {
        if (left == 0 || item >= (uint64_t)f->nodes_count + f->segs_count)
            return SNIC_ECORRUPT;
        item = item < f->nodes_count ? f->nodes[item].dirty_next
                                     : f->segs[item - f->nodes_count].dirty_next;
    }
    return left == 0 ? 0 : SNIC_ECORRUPT;
}

/* Writes in flight: what they claimed, and the counters over them. */
static int check_writes(const struct snic_files *f)
{
    const struct snic_link *l;
    uint32_t exclusive = 0;
    uint32_t poisoned = 0;
    uint32_t active = 0;
    for (l = f->writes.next; l != &f->writes; l = l->next) {
        const struct files_piece *p = SNIC_CONTAINER(l, struct files_piece, link);
        exclusive += p->exclusive;
        poisoned += p->error != 0 && p->extender != FILES_EXTEND_NOT;
        if (p->extender == FILES_EXTEND_GROW && p->error == 0 &&
            (p->from < f->segs[p->seg].init || p->to > f->segs[p->seg].claimed))
            return SNIC_ECORRUPT;
        if (++active > f->pieces_count)
            return SNIC_ECORRUPT;
    }
    if (exclusive != f->writes_exclusive || poisoned != f->poisoned)
        return SNIC_ECORRUPT;
    return files_busy_check(f, active);
}

int snic_files_check(const struct snic_files *f)
{
    int rc = check_nodes(f);
    if (rc == 0)
        rc = check_segments(f);
    if (rc == 0)
        rc = check_dirty(f);
    if (rc == 0)
        rc = check_writes(f);
    if (rc == 0 && (f->control_durable > f->control_taken || f->dirty_durable > f->dirty_taken ||
                    f->control_taken > f->control_appended))
        rc = SNIC_ECORRUPT;
    return rc;
}
