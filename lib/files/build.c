/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The present state out of the durable one, after loading: each record is checked on its own and
 * against the others, and a defect is reported by name.
 *
 * B1  A segment record names a living file, or no file any more (then it is free); never a file
 *     that has not been, a directory, or a file younger than what its slot holds now.
 */
#include "files/files_priv.h"

static void build_report(const struct files_loaded *l, const char *what, uint64_t number,
                         uint64_t place)
{
    if (l->finding == NULL)
        return;
    l->finding(l->ctx, SNIC_ECORRUPT, what, number);
    l->finding(l->ctx, 0, "  its record in the checkpoint is at byte", place);
}

static uint64_t build_place(const struct snic_files *f, const struct files_loaded *l,
                            uint64_t chunk, uint64_t record, uint64_t bytes)
{
    return files_slot_offset(&f->info, l->generation) + (chunk + 1) * SNIC_FILES__CHUNK +
           SNIC_FILES__CHUNK_HEAD + record * bytes;
}

static uint64_t build_node_place(const struct snic_files *f, const struct files_loaded *l,
                                 uint32_t i)
{
    return build_place(f, l, i / SNIC_FILES__NODES_PER_CHUNK, i % SNIC_FILES__NODES_PER_CHUNK,
                       SNIC_FILES__NODE_BYTES);
}

static uint64_t build_seg_place(const struct snic_files *f, const struct files_loaded *l,
                                uint32_t i)
{
    return build_place(f, l, files_node_chunks(&f->info) + i / SNIC_FILES__SEGS_PER_CHUNK,
                       i % SNIC_FILES__SEGS_PER_CHUNK, SNIC_FILES__SEG_BYTES);
}

static void build_reset(struct snic_files *f)
{
    uint32_t i;
    memset(f->name_index, 0xff, ((size_t)f->name_mask + 1) * sizeof(*f->name_index));
    memset(f->seg_index, 0xff, ((size_t)f->seg_mask + 1) * sizeof(*f->seg_index));
    memset(f->bitmap, 0, (size_t)(f->segs_count + 63) / 64 * 8);
    if (f->segs_count % 64 != 0) /* what lies beyond the last segment is not free */
        f->bitmap[f->segs_count / 64] = UINT64_MAX << (f->segs_count % 64);
    memset(f->nodes, 0, f->nodes_count * sizeof(*f->nodes));
    for (i = 0; i < f->nodes_count; i++) {
        f->nodes[i].first = SNIC_FILES__NONE;
        f->nodes[i].dirty_next = SNIC_FILES__NOT_QUEUED;
    }
    for (i = 0; i < f->segs_count; i++) {
        struct files_seg *s = &f->segs[i];
        memset(s, 0xff, sizeof(*s));
        s->init = 0;
        s->claimed = 0;
    }
    f->nodes[0].kind = SNIC_FILES_DIR;
    f->free_segs = f->segs_count;
    f->dirty_first = SNIC_FILES__QUEUE_END;
    f->free_node = SNIC_FILES__NONE;
}

/* ---- Files and directories ---- */

/* What is wrong with a node record by itself, or NULL. */
static const char *build_node_wrong(const struct snic_files *f, uint32_t i, const unsigned char *r)
{
    uint64_t id = snic_get_le64(r + SNIC_FILES__NR_ID);
    uint64_t size = snic_get_le64(r + SNIC_FILES__NR_SIZE);
    uint32_t kind = r[SNIC_FILES__NR_KIND];
    if ((id & SNIC_FILES__SLOT_MASK) != i)
        return "id of another place in the table, node";
    if (id >> SNIC_FILES__SLOT_BITS == 0 || id >> SNIC_FILES__SLOT_BITS >= f->next_id)
        return "id that was never assigned, node";
    if (kind != SNIC_FILES_FILE && kind != SNIC_FILES_DIR)
        return "neither file nor directory, node";
    if (kind == SNIC_FILES_DIR && snic_get_le64(r + SNIC_FILES__NR_PARENT) != SNIC_FILES_ROOT)
        return "directory that is not in the root, node";
    if (kind == SNIC_FILES_DIR && size != 0)
        return "directory with a size, node";
    if (size > (uint64_t)(UINT32_MAX - 1) << f->seg_shift)
        return "impossible size, node";
    if (files_name_valid(r + SNIC_FILES__NR_NAME, r[SNIC_FILES__NR_NAME_SIZE]) != 0)
        return "impossible name, node";
    return NULL;
}

static const char *build_node(struct snic_files *f, uint32_t i, const unsigned char *r)
{
    struct files_node *n = &f->nodes[i];
    uint32_t name = r[SNIC_FILES__NR_NAME_SIZE];
    uint64_t parent = snic_get_le64(r + SNIC_FILES__NR_PARENT);
    const char *wrong = build_node_wrong(f, i, r);
    if (wrong != NULL)
        return wrong;
    if (files_find_name(f, parent, r + SNIC_FILES__NR_NAME, name) != SNIC_FILES__NONE)
        return "name that another of its directory has, node";
    n->id = snic_get_le64(r + SNIC_FILES__NR_ID);
    n->size = snic_get_le64(r + SNIC_FILES__NR_SIZE);
    n->parent = parent;
    n->kind = r[SNIC_FILES__NR_KIND];
    n->name_size = (uint8_t)name;
    memcpy(n->name, r + SNIC_FILES__NR_NAME, name);
    files_name_insert(f, i);
    if (n->kind == SNIC_FILES_DIR)
        f->dirs++;
    else
        f->files++;
    return NULL;
}

/* All nodes are there: hang them into their directories, and chain the free ones. */
static int build_tree(struct snic_files *f, const struct files_loaded *l)
{
    uint32_t i;
    int bad = 0;
    for (i = f->nodes_count - 1; i > 0; i--) {
        struct files_node *n = &f->nodes[i];
        uint32_t dir;
        if (n->id == 0) {
            n->chain = f->free_node;
            f->free_node = i;
            continue;
        }
        dir = files_find_id(f, n->parent);
        if (dir == SNIC_FILES__NONE || f->nodes[dir].kind != SNIC_FILES_DIR) {
            build_report(l,
                         dir == SNIC_FILES__NONE ? "orphan: its directory is not there, node"
                                                 : "file in something that is no directory, node",
                         i, build_node_place(f, l, i));
            bad = 1;
        } else {
            f->nodes[dir].children++;
        }
    }
    return bad;
}

/* ---- Segments ---- */

/* What is wrong with a segment's record, or NULL; *node: its owner, NONE: it is free. B1 */
static const char *build_seg_wrong(const struct snic_files *f, const unsigned char *r,
                                   uint32_t *node)
{
    uint64_t id = snic_get_le64(r + SNIC_FILES__SR_ID);
    uint64_t slot = id & SNIC_FILES__SLOT_MASK;
    uint32_t logical = snic_get_le32(r + SNIC_FILES__SR_LOGICAL);
    *node = SNIC_FILES__NONE;
    if (id == 0)
        return NULL;
    if (slot == 0 || slot >= f->nodes_count || id >> SNIC_FILES__SLOT_BITS == 0 ||
        id >> SNIC_FILES__SLOT_BITS >= f->next_id)
        return "owner that has never been, segment";
    if (f->nodes[slot].id != id)
        return f->nodes[slot].id != 0 && f->nodes[slot].id < id
                   ? "owner younger than what its slot holds, segment"
                   : NULL;
    if (f->nodes[slot].kind != SNIC_FILES_FILE)
        return "owner is a directory, segment";
    if (snic_get_le32(r + SNIC_FILES__SR_INIT) > f->info.segment_bytes)
        return "more written bytes than a segment has, segment";
    if (logical >= UINT32_MAX - 1)
        return "place beyond the largest file, segment";
    if (files_seg_find(f, (uint32_t)slot, logical) != SNIC_FILES__NONE)
        return "place in its file that another segment has, segment";
    *node = (uint32_t)slot;
    return NULL;
}

static int build_segs(struct snic_files *f, const struct files_loaded *l)
{
    uint64_t beyond = 0;
    uint32_t i;
    int bad = 0;
    for (i = 0; i < f->segs_count; i++) {
        const unsigned char *r = f->raw_segs + (size_t)i * SNIC_FILES__SEG_BYTES;
        struct files_seg *s = &f->segs[i];
        uint32_t node;
        const char *wrong = build_seg_wrong(f, r, &node);
        if (wrong != NULL) {
            build_report(l, wrong, i, build_seg_place(f, l, i));
            bad = 1;
        }
        if (node == SNIC_FILES__NONE)
            continue;
        files_seg_attach(f, i, node, snic_get_le32(r + SNIC_FILES__SR_LOGICAL));
        s->init = snic_get_le32(r + SNIC_FILES__SR_INIT);
        s->claimed = s->init;
        f->bitmap[i / 64] |= (uint64_t)1 << (i % 64);
        f->free_segs--;
        beyond += (uint64_t)s->logical << f->seg_shift >= f->nodes[node].size;
    }
    /* A write that power loss cut off may leave them: they are its file's until that is cut. */
    if (beyond != 0 && l->finding != NULL)
        l->finding(l->ctx, 0, "segments beyond the end of their file", beyond);
    return bad;
}

int files_table_build(struct snic_files *f, const struct files_loaded *l)
{
    uint32_t i;
    int bad = 0;
    build_reset(f);
    for (i = 1; i < f->nodes_count; i++) {
        const unsigned char *r = f->raw_nodes + (size_t)i * SNIC_FILES__NODE_BYTES;
        const char *wrong = snic_get_le64(r) != 0 ? build_node(f, i, r) : NULL;
        if (wrong != NULL) {
            build_report(l, wrong, i, build_node_place(f, l, i));
            bad = 1;
        }
    }
    bad |= build_tree(f, l);
    bad |= build_segs(f, l);
    if (f->files > f->info.files_max || f->dirs > f->info.dirs_max) {
        if (l->finding != NULL)
            l->finding(l->ctx, SNIC_ECORRUPT,
                       f->files > f->info.files_max ? "more files than the image takes"
                                                    : "more directories than the image takes",
                       f->files > f->info.files_max ? f->files : f->dirs);
        bad = 1;
    }
    return bad ? SNIC_ECORRUPT : 0;
}
