/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Everything that lies in an image, shown part by part, whole or damaged: superblocks, slots,
 * chunks, journal entries and their records with what of them mount replays, then the tables
 * after that, with each file's segments, and the free ones.
 *
 * W1  What is shown was read with every length checked; a seal that holds proves nothing else.
 * W2  The tables are those that mount would build, less the records that it refuses.
 */
#include "files/files_priv.h"

struct files_walk {
    struct snic_files *f;
    struct files_loaded l;
    snic_files_item_fn fn;
    void *ctx;
    unsigned char *buf;    /* SNIC_FILES__ENTRY_MAX */
    uint64_t first_seq[2]; /* of the slots' generations */
    int loaded;            /* the tables are there */
};

static void walk_item(struct snic_files_item *it, enum snic_files_part part, uint64_t index,
                      uint64_t place, uint64_t bytes)
{
    memset(it, 0, sizeof(*it));
    it->part = (uint32_t)part;
    it->what = "whole";
    it->index = index;
    it->place = place;
    it->bytes = bytes;
}

static void walk_wrong(struct snic_files_item *it, int error, const char *what)
{
    it->error = error;
    it->what = what;
}

/* ---- Superblocks, checkpoints ---- */

static void walk_supers(struct snic_io *io, snic_files_item_fn fn, void *ctx)
{
    struct snic_files_info info;
    struct snic_files_item it;
    uint32_t i;
    for (i = 0; i < 2 && io->geometry.size >= SNIC_FILES__SLOTS_OFFSET; i++) {
        int rc = files_super_read(io, i, &info);
        walk_item(&it, SNIC_FILES_PART_SUPER, i, i == 0 ? 0 : SNIC_FILES__COPY_OFFSET,
                  SNIC_FILES__SUPER_BYTES);
        if (rc != 0) {
            walk_wrong(&it, rc, rc == SNIC_ENOENT ? "not there" : "damaged");
        } else {
            it.id = info.image_id;
            it.size = info.size;
            it.count = info.segments;
        }
        fn(ctx, &it);
    }
}

static int walk_slot(struct files_walk *w, uint64_t parity)
{
    const struct snic_files_info *info = &w->f->info;
    uint64_t place = files_slot_offset(info, parity);
    struct snic_files_item it;
    const char *wrong;
    int rc = files_io_wait(w->f->io, SNIC_IO_READ, place, w->buf, info->block_bytes);
    if (rc != 0)
        return rc;
    walk_item(&it, SNIC_FILES_PART_SLOT, parity, place, info->block_bytes);
    it.generation = snic_get_le64(w->buf + SNIC_FILES__SH_GENERATION);
    it.count = snic_get_le64(w->buf + SNIC_FILES__SH_CHUNKS);
    it.id = snic_get_le64(w->buf + SNIC_FILES__SH_NEXT_ID);
    it.sequence = snic_get_le64(w->buf + SNIC_FILES__SH_SEQ);
    wrong = files_header_wrong(info, w->buf, parity);
    if (files_blank(w->buf, info->block_bytes))
        it.what = "unused";
    else if (!files_sealed(w->buf, info->block_bytes, SNIC_FILES__SLOT_MAGIC, info->image_id,
                           place))
        walk_wrong(&it, SNIC_ECORRUPT, "damaged or cut off");
    else if (wrong != NULL)
        walk_wrong(&it, SNIC_ECORRUPT, wrong);
    else
        it.what = it.generation == w->l.generation ? "newest: mount begins with it" : "older";
    w->first_seq[parity] = it.sequence;
    w->fn(w->ctx, &it);
    return 0;
}

static int walk_chunks(struct files_walk *w, uint64_t parity)
{
    const struct snic_files_info *info = &w->f->info;
    uint64_t slot = files_slot_offset(info, parity);
    uint64_t i;
    for (i = 0; i < files_chunk_count(info); i++) {
        uint64_t place = slot + (i + 1) * SNIC_FILES__CHUNK;
        struct snic_files_item it;
        int rc = files_io_wait(w->f->io, SNIC_IO_READ, place, w->buf, SNIC_FILES__CHUNK);
        if (rc != 0)
            return rc;
        walk_item(&it, SNIC_FILES_PART_CHUNK, i, place, SNIC_FILES__CHUNK);
        it.generation = snic_get_le64(w->buf + SNIC_FILES__CH_GENERATION);
        if (files_blank(w->buf, SNIC_FILES__CHUNK))
            it.what = "unused";
        else if (!files_sealed(w->buf, SNIC_FILES__CHUNK, SNIC_FILES__CHUNK_MAGIC, info->image_id,
                               place))
            walk_wrong(&it, SNIC_ECORRUPT, "damaged or cut off");
        else if (snic_get_le64(w->buf + SNIC_FILES__CH_INDEX) != i)
            walk_wrong(&it, SNIC_ECORRUPT, "of another place");
        else if (parity == (w->l.generation & 1) && it.generation != w->l.generation)
            walk_wrong(&it, SNIC_ECORRUPT, "of another generation");
        w->fn(w->ctx, &it);
    }
    return 0;
}

/* ---- The journal ---- */

static void walk_record(const struct files_walk *w, uint64_t place, const unsigned char *p,
                        uint32_t bytes)
{
    const unsigned char *b = p + SNIC_FILES__RECORD_HEAD;
    uint32_t body = bytes - SNIC_FILES__RECORD_HEAD;
    struct snic_files_item it;
    walk_item(&it, SNIC_FILES_PART_RECORD, snic_get_le32(p + 4), place, bytes);
    if (p[0] == FILES_RECORD_PAD)
        return;
    if (p[0] == FILES_RECORD_NODE && body >= SNIC_FILES__NR_NAME) {
        it.id = snic_get_le64(b + SNIC_FILES__NR_ID);
        it.what = it.id != 0 ? "node" : "node freed";
        it.size = snic_get_le64(b + SNIC_FILES__NR_SIZE);
        it.parent = snic_get_le64(b + SNIC_FILES__NR_PARENT);
        it.kind = b[SNIC_FILES__NR_KIND];
        it.name = (const char *)b + SNIC_FILES__NR_NAME;
        it.name_size =
            (uint32_t)snic_min_u64(b[SNIC_FILES__NR_NAME_SIZE], body - SNIC_FILES__NR_NAME);
    } else if (p[0] == FILES_RECORD_SEG && body >= SNIC_FILES__SEG_BYTES) {
        it.id = snic_get_le64(b + SNIC_FILES__SR_ID);
        it.what = it.id != 0 ? "segment" : "segment freed";
        it.logical = snic_get_le32(b + SNIC_FILES__SR_LOGICAL);
        it.size = snic_get_le32(b + SNIC_FILES__SR_INIT);
    } else if (p[0] == FILES_RECORD_SIZE && body >= 16) {
        it.what = "size";
        it.id = snic_get_le64(b);
        it.size = snic_get_le64(b + 8);
    } else if (p[0] == FILES_RECORD_TRUNC && body >= 16) {
        it.what = "truncation";
        it.id = snic_get_le64(b);
        it.logical = snic_get_le32(b + 8);
    } else {
        walk_wrong(&it, SNIC_ECORRUPT, "impossible record");
    }
    w->fn(w->ctx, &it);
}

static void walk_records(const struct files_walk *w, uint64_t place, uint32_t bytes)
{
    uint32_t at = SNIC_FILES__JE_HEAD;
    struct snic_files_item it;
    while (at < bytes) {
        uint32_t size = files_record_bytes(w->buf, bytes, at, w->f->info.block_bytes);
        if (size == 0) {
            walk_item(&it, SNIC_FILES_PART_RECORD, 0, place + at, bytes - at);
            walk_wrong(&it, SNIC_ECORRUPT, "impossible record");
            w->fn(w->ctx, &it);
            return;
        }
        walk_record(w, place + at, w->buf + at, size);
        at += size;
    }
}

/* An entry whose seal holds: is it replayed? */
static void walk_judge(const struct files_walk *w, struct snic_files_item *it)
{
    uint64_t g = w->l.generation;
    uint64_t first = w->first_seq[g & 1];
    if (g == 0 || it->generation < g)
        it->what = "old";
    else if (it->generation - g <= 1 && it->sequence < first)
        walk_wrong(it, SNIC_ECORRUPT, "of before its checkpoint");
    else if (it->generation - g <= 1 && it->sequence < w->l.seq)
        it->what = "replayed";
    else
        walk_wrong(it, SNIC_ECORRUPT, "behind a gap: not replayed");
}

static int walk_half(struct files_walk *w, uint64_t parity)
{
    const struct snic_files_info *info = &w->f->info;
    uint64_t half = files_half_offset(info, parity);
    uint64_t at = 0;
    while (at < info->journal_bytes / 2) {
        struct snic_files_item it;
        uint64_t generation;
        uint32_t bytes;
        int rc = files_io_wait(w->f->io, SNIC_IO_READ, half + at, w->buf, info->block_bytes);
        if (rc != 0)
            return rc;
        if (snic_get_le32(w->buf) != SNIC_FILES__JOURNAL_MAGIC) {
            at += info->block_bytes;
            continue;
        }
        generation = snic_get_le64(w->buf + SNIC_FILES__JE_GENERATION);
        walk_item(&it, SNIC_FILES_PART_ENTRY, parity, half + at, info->block_bytes);
        it.generation = generation;
        it.sequence = snic_get_le64(w->buf + SNIC_FILES__JE_SEQ);
        it.id = snic_get_le64(w->buf + SNIC_FILES__JE_NEXT_ID);
        it.count = snic_get_le32(w->buf + SNIC_FILES__JE_RECORDS);
        bytes = 0;
        if ((generation & 1) == parity)
            rc = files_entry_read(w->f->io, info, w->buf, generation, at, &bytes);
        if (rc != 0)
            return rc;
        if (bytes == 0)
            walk_wrong(&it, SNIC_ECORRUPT, "damaged or cut off");
        else
            walk_judge(w, &it);
        if (bytes != 0)
            it.bytes = bytes;
        w->fn(w->ctx, &it);
        if (bytes != 0)
            walk_records(w, half + at, bytes);
        at += bytes != 0 ? snic_align_up(bytes, info->block_bytes) : info->block_bytes;
    }
    return 0;
}

/* ---- The tables ---- */

/* The first `n` of a list of segments, cut off; *rest: what follows. */
static uint32_t walk_cut(struct snic_files *f, uint32_t list, uint32_t n)
{
    while (n-- > 1 && list != SNIC_FILES__NONE)
        list = f->segs[list].next;
    if (list == SNIC_FILES__NONE)
        return SNIC_FILES__NONE;
    n = f->segs[list].next;
    f->segs[list].next = SNIC_FILES__NONE;
    return n;
}

/* Put a file's segments into the order of the file: merge sort, from runs of one upwards. */
static void walk_sort(struct snic_files *f, uint32_t *list, uint32_t count)
{
    uint32_t run;
    for (run = 1; run != 0 && run < count; run *= 2) {
        uint32_t *to = list;
        uint32_t rest = *list;
        while (rest != SNIC_FILES__NONE) {
            uint32_t a = rest;
            uint32_t b = walk_cut(f, a, run);
            rest = walk_cut(f, b, run);
            while (a != SNIC_FILES__NONE || b != SNIC_FILES__NONE) {
                uint32_t *from = b == SNIC_FILES__NONE || (a != SNIC_FILES__NONE &&
                                                           f->segs[a].logical < f->segs[b].logical)
                                     ? &a
                                     : &b;
                *to = *from;
                to = &f->segs[*from].next;
                *from = *to;
            }
        }
        *to = SNIC_FILES__NONE;
    }
}

static void walk_segments(const struct files_walk *w, uint32_t node)
{
    struct snic_files *f = w->f;
    uint32_t seg;
    walk_sort(f, &f->nodes[node].first, f->nodes[node].segs);
    for (seg = f->nodes[node].first; seg != SNIC_FILES__NONE; seg = f->segs[seg].next) {
        const struct files_seg *s = &f->segs[seg];
        struct snic_files_item it;
        walk_item(&it, SNIC_FILES_PART_SEGMENT, seg, files_seg_place(f, seg),
                  f->info.segment_bytes);
        it.id = f->nodes[node].id;
        it.logical = s->logical;
        it.size = s->init;
        if ((uint64_t)s->logical << f->seg_shift >= f->nodes[node].size)
            it.what = "beyond the end of the file";
        w->fn(w->ctx, &it);
    }
}

static void walk_nodes(const struct files_walk *w)
{
    struct snic_files *f = w->f;
    uint32_t i;
    for (i = 1; i < f->nodes_count; i++) {
        const unsigned char *r = f->raw_nodes + (size_t)i * SNIC_FILES__NODE_BYTES;
        struct snic_files_item it;
        uint32_t dir;
        walk_item(&it, SNIC_FILES_PART_NODE, i, 0, SNIC_FILES__NODE_BYTES);
        it.id = snic_get_le64(r + SNIC_FILES__NR_ID);
        if (it.id == 0)
            continue;
        it.size = snic_get_le64(r + SNIC_FILES__NR_SIZE);
        it.parent = snic_get_le64(r + SNIC_FILES__NR_PARENT);
        it.kind = r[SNIC_FILES__NR_KIND];
        it.name = (const char *)r + SNIC_FILES__NR_NAME;
        it.name_size = r[SNIC_FILES__NR_NAME_SIZE];
        it.count = f->nodes[i].segs;
        dir = files_find_id(f, it.parent);
        if (f->nodes[i].id != it.id)
            walk_wrong(&it, SNIC_ECORRUPT, "impossible");
        else if (dir == SNIC_FILES__NONE || f->nodes[dir].kind != SNIC_FILES_DIR)
            walk_wrong(&it, SNIC_ECORRUPT, "in no directory");
        w->fn(w->ctx, &it);
        if (f->nodes[i].id == it.id)
            walk_segments(w, i);
    }
}

static void walk_free(const struct files_walk *w)
{
    const struct snic_files *f = w->f;
    struct snic_files_item it;
    uint32_t first = 0;
    uint32_t i;
    for (i = 0; i <= f->segs_count; i++) {
        if (i < f->segs_count && (f->bitmap[i / 64] >> (i % 64) & 1) == 0)
            continue;
        if (i > first) {
            walk_item(&it, SNIC_FILES_PART_FREE, first, files_seg_place(f, first),
                      (uint64_t)(i - first) << f->seg_shift);
            it.count = i - first;
            w->fn(w->ctx, &it);
        }
        first = i + 1;
    }
}

static void walk_load(struct files_walk *w)
{
    struct files_raw raw = files_raw_of(w->f);
    memset(raw.nodes, 0, (size_t)raw.nodes_count * SNIC_FILES__NODE_BYTES);
    memset(raw.segs, 0, (size_t)raw.segs_count * SNIC_FILES__SEG_BYTES);
    (void)files_load(w->f->io, &w->f->info, &raw, w->buf, &w->l);
    w->f->next_id = w->l.next_id;
    w->loaded = w->l.generation != 0;
}

int snic_files_walk(struct snic_io *io, void *mem, size_t mem_size, snic_files_item_fn fn,
                    void *ctx)
{
    struct files_walk w;
    uint64_t i;
    int rc;
    memset(&w, 0, sizeof(w));
    w.fn = fn;
    w.ctx = ctx;
    walk_supers(io, fn, ctx);
    rc = files_prepare(&w.f, mem, mem_size, io, NULL);
    if (rc != 0)
        return rc;
    w.buf = w.f->writing.bytes;
    walk_load(&w);
    for (i = 0; i < 2 && rc == 0; i++) {
        rc = walk_slot(&w, i);
        if (rc == 0)
            rc = walk_chunks(&w, i);
    }
    for (i = 0; i < 2 && rc == 0; i++)
        rc = walk_half(&w, i);
    if (rc != 0 || !w.loaded)
        return rc;
    (void)files_table_build(w.f, &w.l); /* W2 */
    walk_nodes(&w);
    walk_free(&w);
    return 0;
}
