/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory, mount, unmount.
 */
#include "files/files_priv.h"

static int mount_fill(struct snic_files_mount_opts *o, const struct snic_files_mount_opts *in)
{
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    if (in != NULL && snic_opts_copy(o, sizeof(*o), in) != 0)
        return SNIC_EINVAL;
    if (o->depth == 0)
        o->depth = 256;
    if (o->bounce_count == 0)
        o->bounce_count = 16;
    if (o->bounce_bytes == 0)
        o->bounce_bytes = 65536;
    if (o->sync_delay_us == 0)
        o->sync_delay_us = 1000000;
    return 0;
}

/* What is wrong with options whose defaults are filled in, or NULL. */
static const char *mount_wrong(const struct snic_files_mount_opts *o, uint32_t block)
{
    if (o->depth < 4 || o->depth > 4096)
        return "depth: not 4..4096";
    if (o->bounce_count < 2 || o->bounce_count > 1024)
        return "bounce_count: not 2..1024";
    if (!snic_is_pow2(o->bounce_bytes) || o->bounce_bytes < 4096 || o->bounce_bytes > (1u << 20))
        return "bounce_bytes: not a power of two 4096..1 MiB";
    if (o->bounce_bytes < block)
        return "bounce_bytes: less than a block of the image";
    return o->flags != 0 ? "flags: not 0" : NULL;
}

static int mount_options(struct snic_files_mount_opts *o, const struct snic_files_mount_opts *in,
                         uint32_t block)
{
    return mount_fill(o, in) != 0 || mount_wrong(o, block) != NULL ? SNIC_EINVAL : 0;
}

const char *snic_files_mount_opts_wrong(const struct snic_files_info *info,
                                        const struct snic_files_mount_opts *in)
{
    struct snic_files_mount_opts o;
    if (mount_fill(&o, in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return mount_wrong(&o, info->block_bytes);
}

/* Place everything behind `f`; measures when the arena has no base. */
static void mount_place(struct snic_arena *a, struct snic_files *f,
                        const struct snic_files_mount_opts *o)
{
    size_t nodes = f->nodes_count;
    size_t segs = f->segs_count;
    unsigned char *bounce;
    uint32_t i;
    f->name_mask = (uint32_t)snic_pow2_up(nodes) - 1;
    f->seg_mask = (uint32_t)snic_pow2_up(segs) - 1;
    f->zeros = snic_arena_take(a, 1, SNIC_FILES__ZERO_BYTES, SNIC_FILES_ALIGN);
    f->pending.bytes = snic_arena_take(a, 1, SNIC_FILES__ENTRY_MAX, SNIC_FILES_ALIGN);
    f->writing.bytes = snic_arena_take(a, 1, SNIC_FILES__ENTRY_MAX, SNIC_FILES_ALIGN);
    f->ckpt_buf = snic_arena_take(a, 1, SNIC_FILES__CHUNK, SNIC_FILES_ALIGN);
    bounce = snic_arena_take(a, o->bounce_count, o->bounce_bytes, SNIC_FILES_ALIGN);
    f->bounce_free = snic_arena_take(a, o->bounce_count, sizeof(*f->bounce_free), 64);
    f->pieces = snic_arena_take(a, o->depth, sizeof(*f->pieces), 64);
    f->nodes = snic_arena_take(a, nodes, sizeof(*f->nodes), 64);
    f->segs = snic_arena_take(a, segs, sizeof(*f->segs), 64);
    f->raw_nodes = snic_arena_take(a, nodes, SNIC_FILES__NODE_BYTES, 64);
    f->raw_segs = snic_arena_take(a, segs, SNIC_FILES__SEG_BYTES, 64);
    f->name_index = snic_arena_take(a, (size_t)f->name_mask + 1, sizeof(uint32_t), 64);
    f->seg_index = snic_arena_take(a, (size_t)f->seg_mask + 1, sizeof(uint32_t), 64);
    f->bitmap = snic_arena_take(a, (segs + 63) / 64, sizeof(uint64_t), 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return;
    memset(f->zeros, 0, SNIC_FILES__ZERO_BYTES);
    memset(f->pieces, 0, o->depth * sizeof(*f->pieces));
    for (i = 0; i < o->bounce_count; i++)
        f->bounce_free[i] = bounce + (size_t)i * o->bounce_bytes;
}

static void mount_counts(struct snic_files *f, const struct snic_files_info *info)
{
    f->info = *info;
    f->nodes_count = files_node_count(info);
    f->segs_count = (uint32_t)info->segments;
    f->seg_shift = (uint32_t)__builtin_ctz(info->segment_bytes);
}

size_t snic_files_memsize(const struct snic_files_info *info,
                          const struct snic_files_mount_opts *in)
{
    struct snic_files_mount_opts o;
    struct snic_files f;
    struct snic_arena a;
    if (mount_options(&o, in, info->block_bytes) != 0 || info->segments == 0 ||
        info->segments > UINT32_MAX - 16 || !snic_is_pow2(info->segment_bytes) ||
        info->files_max > (1u << 23) || info->dirs_max > (1u << 20))
        return 0;
    memset(&f, 0, sizeof(f));
    memset(&a, 0, sizeof(a));
    mount_counts(&f, info);
    (void)snic_arena_take(&a, 1, sizeof(f), SNIC_FILES_ALIGN);
    mount_place(&a, &f, &o);
    return a.used == SIZE_MAX ? 0 : a.used;
}

static void mount_init(struct snic_files *f, struct snic_io *io,
                       const struct snic_files_mount_opts *o)
{
    const struct snic_io_geometry *g = &io->geometry;
    uint32_t i;
    f->io = io;
    f->loop = io->loop;
    f->hooks = o->hooks;
    f->align = (uint32_t)snic_max_u64(snic_max_u64(g->offset_align, g->length_align), 1);
    f->mem_align = g->memory_align > 1 ? g->memory_align : 1;
    f->transfer = (uint32_t)snic_align_down(snic_min_u64(g->transfer_max, 1u << 30),
                                            snic_max_u64(f->align, 4096));
    f->bounce_bytes = (uint32_t)snic_min_u64(o->bounce_bytes, f->transfer);
    f->fua = (io->caps & SNIC_IO_CAP_FUA) != 0;
    f->zero = (io->caps & SNIC_IO_CAP_ZERO) != 0;
    f->sync_delay_ns =
        o->sync_delay_us == UINT32_MAX ? SNIC_NEVER : (uint64_t)o->sync_delay_us * 1000;
    f->bounce_free_count = o->bounce_count;
    f->pieces_count = o->depth;
    f->pieces_free_count = o->depth;
    snic_link_init(&f->pieces_free);
    snic_link_init(&f->writes);
    f->busy_root = SNIC_FILES__NONE;
    for (i = 0; i < o->depth; i++) {
        f->pieces[i].files = f;
        snic_link_append(&f->pieces_free, &f->pieces[i].link);
    }
    files_frame_init(f);
    files_commit_init(f);
}

/* Continue where the journal ends: a checkpoint that was under way is restarted. */
static void mount_continue(struct snic_files *f, const struct files_loaded *l)
{
    f->seq = l->seq;
    f->generation = l->last;
    f->position = l->position;
    f->ckpt_chunks = files_chunk_count(&f->info);
    f->ckpt_seq = l->base_seq;
    if (l->last != l->generation)
        files_checkpoint_start(f);
}

/* Everything before the image is read: options, memory, lists. Also the checker's and walk's. */
int files_prepare(struct snic_files **out, void *mem, size_t mem_size, struct snic_io *io,
                  const struct snic_files_mount_opts *in)
{
    struct snic_files_mount_opts o;
    struct snic_files_info info;
    struct snic_arena a;
    struct snic_files *f;
    int rc = snic_files_probe(io, &info);
    if (rc != 0)
        return rc;
    if (mount_options(&o, in, info.block_bytes) != 0 || (uintptr_t)mem % SNIC_FILES_ALIGN != 0)
        return SNIC_EINVAL;
    memset(&a, 0, sizeof(a));
    a.base = mem;
    a.size = mem_size;
    f = snic_arena_take(&a, 1, sizeof(*f), SNIC_FILES_ALIGN);
    if (f == NULL)
        return SNIC_ENOSPC;
    memset(f, 0, sizeof(*f));
    mount_counts(f, &info);
    mount_place(&a, f, &o);
    if (a.used == SIZE_MAX)
        return SNIC_ENOSPC;
    mount_init(f, io, &o);
    *out = f;
    return 0;
}

/* Read the durable state and build the present one. */
int files_read_image(struct snic_files *f, struct files_loaded *l)
{
    struct files_raw raw = files_raw_of(f);
    int rc = files_load(f->io, &f->info, &raw, f->writing.bytes, l);
    if (rc != 0)
        return rc;
    f->next_id = l->next_id;
    if (f->next_id == 0 || f->next_id > SNIC_FILES__GENERATION_MAX) {
        if (l->finding != NULL)
            l->finding(l->ctx, SNIC_ECORRUPT, "impossible number for the next id", f->next_id);
        return SNIC_ECORRUPT;
    }
    return files_table_build(f, l);
}

int snic_files_mount(struct snic_files **out, void *mem, size_t mem_size, struct snic_io *io,
                     const struct snic_files_mount_opts *o)
{
    struct files_loaded l;
    struct snic_files *f = NULL;
    int rc;
    memset(&l, 0, sizeof(l));
    rc = files_prepare(&f, mem, mem_size, io, o);
    if (rc == 0)
        rc = files_read_image(f, &l);
    if (rc != 0)
        return rc;
    mount_continue(f, &l);
    files_io_submit(f);
    *out = f;
    return 0;
}

int snic_files_unmount(struct snic_files *f)
{
    int rc;
    while (f->active > 0)
        (void)snic_loop_once(f->loop, SNIC_NEVER);
    f->closing = 1;
    files_commit_all(f);
    while (f->finish_armed) /* the loop still has our message */
        (void)snic_loop_once(f->loop, SNIC_NEVER);
    rc = f->broken != 0 ? SNIC_EIO : 0;
    snic_io_unwait(&f->io_room);
    snic_loop_cancel(f->loop, &f->commit_timer);
    return rc;
}
