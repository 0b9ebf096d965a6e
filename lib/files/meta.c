/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Files and directories: MKDIR, RMDIR, CREATE, DELETE, RENAME, truncation, and what only looks.
 *
 * M1  An operation checks everything, then changes the present state and appends all its
 *     records to the control buffer, which go into one entry: it is atomic.
 * M2  Operations take effect in the order of submission; one that finds no room in the
 *     control buffer waits, and so do all behind it.
 * M3  A freed segment goes to limbo with the records that free it.
 */
#include "files/files_priv.h"

/* The most that one operation appends, padding included: a truncation's single records. */
#define SNIC_FILES__CONTROL_ROOM (8192u)

SNIC_STATIC_ASSERT(SNIC_FILES__CONTROL_ROOM >= (SNIC_FILES__TRUNC_RECORDS + 4) * 32 + 4 * 296,
                   "a truncation's records fit");

/* ---- Changes ---- */

static void meta_appended(struct snic_files *f, struct snic_files_req *r)
{
    f->control_appended++;
    r->private_.control_ticket = f->control_appended;
}

static void meta_record_node(struct snic_files *f, uint32_t index)
{
    files_record_node(&f->pending, f->info.block_bytes, index, &f->nodes[index]);
}

/* The file is gone: its waiting requests would not be run otherwise. */
static void meta_ordered_drop(struct snic_files *f, uint32_t node)
{
    struct files_node *n = &f->nodes[node];
    struct snic_node *p;
    while ((p = snic_queue_pop(&n->ordered)) != NULL)
        files_finish(f, SNIC_CONTAINER(p, struct snic_files_req, node), SNIC_ENOENT);
    n->barrier = 0;
    n->writers = 0;
}

/* Take the node out of everything and free it, its segments to limbo; one record. */
static void meta_remove(struct snic_files *f, uint32_t index)
{
    struct files_node *n = &f->nodes[index];
    uint32_t dir = files_find_id(f, n->parent);
    uint32_t queued = n->dirty_next;
    files_name_remove(f, index);
    f->nodes[dir].children--;
    if (n->kind == SNIC_FILES_DIR)
        f->dirs--;
    else
        f->files--;
    while (n->first != SNIC_FILES__NONE) { /* M3 */
        uint32_t seg = n->first;
        files_seg_detach(f, seg);
        files_limbo_push(f, &f->limbo_pending, seg);
    }
    n->id = 0;
    meta_ordered_drop(f, index);
    memset(n, 0, sizeof(*n));
    n->first = SNIC_FILES__NONE;
    n->dirty_next = queued;
    n->chain = f->free_node;
    f->free_node = index;
    meta_record_node(f, index);
}

static uint64_t meta_make(struct snic_files *f, uint64_t dir, uint8_t kind, const void *name,
                          uint32_t size)
{
    uint32_t index = f->free_node;
    struct files_node *n = &f->nodes[index];
    SNIC_ASSERT(index != SNIC_FILES__NONE);
    f->free_node = n->chain;
    n->id = (f->next_id++ << SNIC_FILES__SLOT_BITS) | index;
    n->size = 0;
    n->parent = dir;
    n->kind = kind;
    n->name_size = (uint8_t)size;
    n->dirty_ticket = 0;
    memset(n->name, 0, sizeof(n->name));
    memcpy(n->name, name, size);
    files_name_insert(f, index);
    f->nodes[files_find_id(f, dir)].children++;
    if (kind == SNIC_FILES_DIR)
        f->dirs++;
    else
        f->files++;
    meta_record_node(f, index);
    return n->id;
}

/* ---- Operations: 0 appended, 1 done without a record, or an error ---- */

static int meta_dir_check(const struct snic_files *f, uint64_t dir)
{
    uint32_t d = files_find_id(f, dir);
    if (d == SNIC_FILES__NONE)
        return SNIC_ENOENT;
    return f->nodes[d].kind == SNIC_FILES_DIR ? 0 : SNIC_ENOTDIR;
}

static int meta_make_run(struct snic_files *f, struct snic_files_req *r)
{
    uint8_t kind = r->op == SNIC_FILES_MKDIR ? SNIC_FILES_DIR : SNIC_FILES_FILE;
    uint64_t dir = r->op == SNIC_FILES_MKDIR ? SNIC_FILES_ROOT : r->dir;
    uint32_t old;
    int rc = meta_dir_check(f, dir);
    if (rc == 0)
        rc = files_name_valid(r->name, r->name_size);
    if (rc != 0)
        return rc;
    old = files_find_name(f, dir, r->name, r->name_size);
    if (old != SNIC_FILES__NONE) {
        if ((r->flags & SNIC_FILES_REPLACE) == 0)
            return SNIC_EEXIST;
        if (f->nodes[old].kind != kind)
            return SNIC_EISDIR;
        r->id = f->nodes[old].id;
        r->size = f->nodes[old].size;
        r->kind = kind;
        /* It may have been created just before: the answer waits until that is durable. */
        r->private_.control_ticket = f->control_appended;
        return 1;
    }
    if (kind == SNIC_FILES_DIR ? f->dirs >= f->info.dirs_max : f->files >= f->info.files_max)
        return SNIC_ENOSPC;
    if (f->next_id >= SNIC_FILES__GENERATION_MAX)
        return SNIC_ENOSPC;
    r->id = meta_make(f, dir, kind, r->name, r->name_size);
    r->size = 0;
    r->kind = kind;
    return 0;
}

static int meta_find(const struct snic_files *f, const struct snic_files_req *r, uint64_t dir,
                     uint32_t *index)
{
    int rc = meta_dir_check(f, dir);
    if (rc == 0)
        rc = files_name_valid(r->name, r->name_size);
    if (rc != 0)
        return rc;
    *index = files_find_name(f, dir, r->name, r->name_size);
    return *index == SNIC_FILES__NONE ? SNIC_ENOENT : 0;
}

static int meta_delete_run(struct snic_files *f, struct snic_files_req *r)
{
    uint32_t index;
    int rc = 0;
    if (r->op == SNIC_FILES_DELETE && r->name_size == 0)
        index = files_find_id(f, r->file);
    else
        rc = meta_find(f, r, r->op == SNIC_FILES_RMDIR ? SNIC_FILES_ROOT : r->dir, &index);
    if (rc != 0 || index == SNIC_FILES__NONE)
        return rc != 0 ? rc : SNIC_ENOENT;
    if (r->op == SNIC_FILES_DELETE && f->nodes[index].kind != SNIC_FILES_FILE)
        return SNIC_EISDIR;
    if (r->op == SNIC_FILES_RMDIR && f->nodes[index].kind != SNIC_FILES_DIR)
        return SNIC_ENOTDIR;
    if (f->nodes[index].children != 0)
        return SNIC_ENOTEMPTY;
    r->id = f->nodes[index].id;
    meta_remove(f, index);
    return 0;
}

static int meta_rename_target(struct snic_files *f, const struct snic_files_req *r, uint32_t from,
                              uint32_t *old)
{
    int rc = meta_dir_check(f, r->dir2);
    if (rc == 0)
        rc = files_name_valid(r->name2, r->name2_size);
    if (rc != 0)
        return rc;
    if (f->nodes[from].kind == SNIC_FILES_DIR && r->dir2 != SNIC_FILES_ROOT)
        return SNIC_EINVAL;
    *old = files_find_name(f, r->dir2, r->name2, r->name2_size);
    if (*old == SNIC_FILES__NONE || *old == from)
        return 0;
    if ((r->flags & SNIC_FILES_REPLACE) == 0)
        return SNIC_EEXIST;
    if (f->nodes[from].kind != SNIC_FILES_FILE)
        return f->nodes[*old].kind == SNIC_FILES_DIR ? SNIC_EEXIST : SNIC_ENOTDIR;
    return f->nodes[*old].kind == SNIC_FILES_FILE ? 0 : SNIC_EISDIR;
}

static int meta_rename_run(struct snic_files *f, struct snic_files_req *r)
{
    uint32_t from;
    uint32_t old;
    struct files_node *n;
    int rc = meta_find(f, r, r->dir, &from);
    if (rc == 0)
        rc = meta_rename_target(f, r, from, &old);
    if (rc != 0)
        return rc;
    n = &f->nodes[from];
    r->id = n->id;
    if (old == from) {
        r->private_.control_ticket = f->control_appended;
        return 1;
    }
    if (old != SNIC_FILES__NONE)
        meta_remove(f, old);
    files_name_remove(f, from);
    f->nodes[files_find_id(f, n->parent)].children--;
    n->parent = r->dir2;
    n->name_size = (uint8_t)r->name2_size;
    memset(n->name, 0, sizeof(n->name));
    memcpy(n->name, r->name2, r->name2_size);
    f->nodes[files_find_id(f, n->parent)].children++;
    files_name_insert(f, from);
    meta_record_node(f, from);
    return 0;
}

/* Free what lies beyond the new size, and forget bytes beyond it in the last segment. */
static void meta_truncate_cut(struct snic_files *f, uint32_t node, uint64_t size)
{
    struct files_node *n = &f->nodes[node];
    uint32_t block = f->info.block_bytes;
    uint32_t keep = (uint32_t)((size + f->info.segment_bytes - 1) >> f->seg_shift);
    uint32_t edge = (uint32_t)(size & (f->info.segment_bytes - 1));
    uint32_t freed = 0;
    uint32_t seg;
    uint32_t next;
    for (seg = n->first; seg != SNIC_FILES__NONE; seg = f->segs[seg].next)
        freed += f->segs[seg].logical >= keep;
    if (freed > SNIC_FILES__TRUNC_RECORDS)
        files_record_trunc(&f->pending, block, node, n->id, keep);
    for (seg = n->first; seg != SNIC_FILES__NONE; seg = next) {
        next = f->segs[seg].next;
        if (f->segs[seg].logical < keep)
            continue;
        files_seg_detach(f, seg);
        files_limbo_push(f, &f->limbo_pending, seg);
        if (freed <= SNIC_FILES__TRUNC_RECORDS)
            files_record_seg(&f->pending, block, seg, 0, 0, 0);
    }
    if (edge == 0)
        return;
    seg = files_seg_find(f, node, keep - 1);
    if (seg == SNIC_FILES__NONE || f->segs[seg].init <= edge)
        return;
    f->segs[seg].init = edge;
    f->segs[seg].claimed = edge;
    files_record_seg(&f->pending, block, seg, n->id, keep - 1, edge);
}

static int meta_truncate_run(struct snic_files *f, struct snic_files_req *r)
{
    struct files_node *n = &f->nodes[r->private_.node];
    if (r->length < n->size)
        meta_truncate_cut(f, r->private_.node, r->length);
    n->size = r->length;
    files_record_size(&f->pending, f->info.block_bytes, r->private_.node, n->id, n->size);
    return 0;
}

/* ---- Taking turns: M2 ---- */

static void meta_run(struct snic_files *f, struct snic_files_req *r)
{
    int rc;
    if (r->op == SNIC_FILES_TRUNCATE && f->nodes[r->private_.node].id != r->file) {
        files_finish(f, r, SNIC_ENOENT);
        return;
    }
    switch (r->op) {
    case SNIC_FILES_MKDIR:
    case SNIC_FILES_CREATE:
        rc = meta_make_run(f, r);
        break;
    case SNIC_FILES_DELETE:
    case SNIC_FILES_RMDIR:
        rc = meta_delete_run(f, r);
        break;
    case SNIC_FILES_RENAME:
        rc = meta_rename_run(f, r);
        break;
    default:
        rc = meta_truncate_run(f, r);
        break;
    }
    if (rc < 0) {
        files_finish(f, r, rc);
        return;
    }
    if (rc == 0)
        meta_appended(f, r);
    files_wait_durable(f, r, 0);
}

/* Let waiting control requests in while there is room for them. */
void files_control_run(struct snic_files *f)
{
    while (!snic_queue_empty(&f->control) &&
           f->pending.used + SNIC_FILES__CONTROL_ROOM <= SNIC_FILES__ENTRY_MAX) {
        struct snic_node *node = snic_queue_pop(&f->control);
        meta_run(f, SNIC_CONTAINER(node, struct snic_files_req, node));
    }
}

void files_control_start(struct snic_files *f, struct snic_files_req *r)
{
    f->stats.controls++;
    if (f->broken != 0) {
        files_finish(f, r, SNIC_EIO);
        return;
    }
    snic_queue_push(&f->control, &r->node);
    files_control_run(f);
}

/* ---- Looking ---- */

#define SNIC_FILES__LIST_STEP 1024 /* nodes of an image that one step looks at */

static void meta_describe(const struct snic_files *f, uint32_t index, struct snic_files_req *r)
{
    const struct files_node *n = &f->nodes[index];
    r->id = n->id;
    r->size = n->size;
    r->kind = n->kind;
    r->allocated = (uint64_t)n->segs << f->seg_shift;
}

/* As a LIST's result, from cursor on; SNIC_EAGAIN: some nodes were looked at, continue there. */
static int64_t meta_list(const struct snic_files *f, struct snic_files_req *r)
{
    unsigned char *p = r->buf.base;
    uint64_t room = r->length;
    uint64_t used = 0;
    uint64_t i;
    int rc = meta_dir_check(f, r->dir);
    if (rc != 0)
        return rc;
    if (r->iov != NULL || r->buf.size < r->length || (p == NULL && room != 0))
        return SNIC_EINVAL;
    uint64_t end = snic_min_u64(f->nodes_count, r->cursor + SNIC_FILES__LIST_STEP);
    for (i = r->cursor; i < end; i++) {
        const struct files_node *n = &f->nodes[i];
        uint64_t bytes = 24 + snic_align_up(n->name_size, 8);
        if (n->id == 0 || n->parent != r->dir)
            continue;
        if (bytes > room - used) {
            if (used == 0)
                return SNIC_EMSGSIZE;
            break;
        }
        memset(p + used, 0, (size_t)bytes);
        snic_put_le64(p + used, n->id);
        snic_put_le64(p + used + 8, n->size);
        snic_put_le32(p + used + 16, n->kind);
        snic_put_le32(p + used + 20, n->name_size);
        memcpy(p + used + 24, n->name, n->name_size);
        used += bytes;
    }
    r->cursor = i;
    return used == 0 && i < f->nodes_count ? SNIC_EAGAIN : (int64_t)used;
}

static void meta_list_step(struct snic_files *f, struct snic_files_req *r)
{
    int64_t rc = meta_list(f, r);
    if (rc != SNIC_EAGAIN) {
        files_finish(f, r, rc);
        return;
    }
    snic_queue_push(&f->lists, &r->node);
    if (!f->list_armed) {
        f->list_armed = 1;
        snic_loop_defer(f->loop, &f->list_msg);
    }
}

/* One step of one LIST per iteration of the loop, in turns. */
void files_list_run(struct snic_loop_msg *msg)
{
    struct snic_files *f = SNIC_CONTAINER(msg, struct snic_files, list_msg);
    struct snic_node *n = snic_queue_pop(&f->lists);
    f->list_armed = 0;
    if (n != NULL)
        meta_list_step(f, SNIC_CONTAINER(n, struct snic_files_req, node));
    if (!snic_queue_empty(&f->lists) && !f->list_armed) {
        f->list_armed = 1;
        snic_loop_defer(f->loop, &f->list_msg);
    }
}

void files_look(struct snic_files *f, struct snic_files_req *r)
{
    uint32_t index = SNIC_FILES__NONE;
    int64_t rc = 0;
    if (r->op == SNIC_FILES_LIST) {
        r->cursor = snic_max_u64(r->offset, 1);
        meta_list_step(f, r);
        return;
    }
    if (r->op == SNIC_FILES_OPEN)
        rc = meta_find(f, r, r->dir, &index);
    else
        index = files_find_id(f, r->file);
    if (rc == 0 && index == SNIC_FILES__NONE)
        rc = SNIC_ENOENT;
    if (rc == 0)
        meta_describe(f, index, r);
    files_finish(f, r, rc);
}

#undef SNIC_FILES__LIST_STEP
