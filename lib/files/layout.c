/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Geometry of an image, checksums, superblocks, names. Pure functions.
 *
 * L1  What decode accepts has every offset inside the image, and every product below 2^63.
 */
#include "files/files_priv.h"
#include "base/xxh.h"

#define SNIC_FILES__SEAL_AT 16u
#define SNIC_FILES__JOURNAL_MIN (2u * 4u * SNIC_FILES__CHUNK)
#define SNIC_FILES__JOURNAL_MAX ((uint64_t)1 << 32)

static uint64_t files_checksum(const void *unit, size_t size, uint64_t image_id, uint64_t place)
{
    const unsigned char *p = unit;
    return XXH3_64bits_withSeed(p + SNIC_FILES__SEAL_AT, size - SNIC_FILES__SEAL_AT,
                                image_id ^ (place * 0x9e3779b97f4a7c15u));
}

void files_seal(void *unit, size_t size, uint32_t magic, uint64_t image_id, uint64_t place)
{
    unsigned char *p = unit;
    snic_put_le32(p, magic);
    snic_put_le32(p + 4, SNIC_FILES__VERSION);
    snic_put_le64(p + 8, files_checksum(unit, size, image_id, place));
}

int files_sealed(const void *unit, size_t size, uint32_t magic, uint64_t image_id, uint64_t place)
{
    const unsigned char *p = unit;
    return snic_get_le32(p) == magic && snic_get_le32(p + 4) == SNIC_FILES__VERSION &&
           snic_get_le64(p + 8) == files_checksum(unit, size, image_id, place);
}

uint32_t files_node_count(const struct snic_files_info *info)
{
    return info->files_max + info->dirs_max + 1;
}

uint64_t files_node_chunks(const struct snic_files_info *info)
{
    return (files_node_count(info) + SNIC_FILES__NODES_PER_CHUNK - 1) / SNIC_FILES__NODES_PER_CHUNK;
}

uint64_t files_chunk_count(const struct snic_files_info *info)
{
    return files_node_chunks(info) +
           (info->segments + SNIC_FILES__SEGS_PER_CHUNK - 1) / SNIC_FILES__SEGS_PER_CHUNK;
}

static uint64_t files_slot_bytes(const struct snic_files_info *info)
{
    return (files_chunk_count(info) + 1) * SNIC_FILES__CHUNK;
}

uint64_t files_slot_offset(const struct snic_files_info *info, uint64_t generation)
{
    return SNIC_FILES__SLOTS_OFFSET + (generation & 1) * files_slot_bytes(info);
}

uint64_t files_half_offset(const struct snic_files_info *info, uint64_t generation)
{
    return SNIC_FILES__SLOTS_OFFSET + 2 * files_slot_bytes(info) +
           (generation & 1) * (info->journal_bytes / 2);
}

static int layout_options_valid(const struct snic_files_info *info)
{
    if (!snic_is_pow2(info->block_bytes) || info->block_bytes < 4096 ||
        info->block_bytes > SNIC_FILES__CHUNK)
        return 0;
    if (!snic_is_pow2(info->segment_bytes) || info->segment_bytes < info->block_bytes ||
        info->segment_bytes > (1u << 30))
        return 0;
    if (info->files_max < 1 || info->files_max > (1u << 23) || info->dirs_max > (1u << 20))
        return 0;
    return info->size < ((uint64_t)1 << 62) &&
           (info->journal_bytes == 0 || (info->journal_bytes >= SNIC_FILES__JOURNAL_MIN &&
                                         info->journal_bytes <= SNIC_FILES__JOURNAL_MAX &&
                                         info->journal_bytes % (2 * SNIC_FILES__CHUNK) == 0));
}

/*
 * Fill segments, journal_bytes and data_offset from the other fields. The number of segments
 * and the space for their records depend on each other: one estimate from above, then the
 * space is what that estimate needs.
 */
int files_geometry(struct snic_files_info *info)
{
    uint64_t seg = info->segment_bytes;
    uint64_t meta;
    if (!layout_options_valid(info))
        return SNIC_EINVAL;
    info->segments = snic_min_u64(info->size / seg, UINT32_MAX - 16);
    if (info->segments == 0)
        return SNIC_ENOSPC;
    if (info->journal_bytes == 0) {
        uint64_t j = snic_align_up(files_slot_bytes(info), 2 * SNIC_FILES__CHUNK);
        info->journal_bytes = snic_min_u64(snic_max_u64(j, 512 * 1024), 64u << 20);
        if (info->journal_bytes > info->size / 8)
            info->journal_bytes = SNIC_FILES__JOURNAL_MIN;
    }
    for (;;) {
        meta = SNIC_FILES__SLOTS_OFFSET + 2 * files_slot_bytes(info) + info->journal_bytes;
        info->data_offset = snic_align_up(meta, seg);
        if (info->data_offset + seg > info->size)
            return SNIC_ENOSPC;
        if (info->segments <= (info->size - info->data_offset) / seg)
            return 0;
        info->segments = (info->size - info->data_offset) / seg;
    }
}

void files_super_encode(unsigned char *b, const struct snic_files_info *info)
{
    memset(b, 0, SNIC_FILES__SUPER_BYTES);
    snic_put_le64(b + SNIC_FILES__SB_IMAGE_ID, info->image_id);
    snic_put_le64(b + SNIC_FILES__SB_SIZE, info->size);
    snic_put_le32(b + SNIC_FILES__SB_SEGMENT, info->segment_bytes);
    snic_put_le32(b + SNIC_FILES__SB_BLOCK, info->block_bytes);
    snic_put_le32(b + SNIC_FILES__SB_FILES, info->files_max);
    snic_put_le32(b + SNIC_FILES__SB_DIRS, info->dirs_max);
    snic_put_le64(b + SNIC_FILES__SB_SEGMENTS, info->segments);
    snic_put_le64(b + SNIC_FILES__SB_SLOT_BYTES, files_slot_bytes(info));
    snic_put_le64(b + SNIC_FILES__SB_JOURNAL_BYTES, info->journal_bytes);
    snic_put_le64(b + SNIC_FILES__SB_DATA, info->data_offset);
}

/* L1 */
static int layout_super_plausible(const unsigned char *b, const struct snic_files_info *info)
{
    uint64_t meta;
    if (!layout_options_valid(info) || info->journal_bytes == 0 || info->segments == 0 ||
        info->segments > UINT32_MAX - 16)
        return 0;
    if (snic_get_le64(b + SNIC_FILES__SB_SLOT_BYTES) != files_slot_bytes(info))
        return 0;
    meta = SNIC_FILES__SLOTS_OFFSET + 2 * files_slot_bytes(info) + info->journal_bytes;
    if (info->data_offset < meta || info->data_offset > info->size ||
        info->data_offset % info->segment_bytes != 0)
        return 0;
    return info->segments <= (info->size - info->data_offset) / info->segment_bytes;
}

int files_super_decode(const unsigned char *b, uint64_t place, struct snic_files_info *info)
{
    struct snic_files_info i;
    if (snic_get_le32(b) != SNIC_FILES__SUPER_MAGIC)
        return SNIC_ENOENT;
    if (snic_get_le32(b + 4) != SNIC_FILES__VERSION)
        return SNIC_EVERSION;
    if (!files_sealed(b, SNIC_FILES__SUPER_BYTES, SNIC_FILES__SUPER_MAGIC, 0, place))
        return SNIC_ECORRUPT;
    memset(&i, 0, sizeof(i));
    i.image_id = snic_get_le64(b + SNIC_FILES__SB_IMAGE_ID);
    i.size = snic_get_le64(b + SNIC_FILES__SB_SIZE);
    i.segment_bytes = snic_get_le32(b + SNIC_FILES__SB_SEGMENT);
    i.block_bytes = snic_get_le32(b + SNIC_FILES__SB_BLOCK);
    i.files_max = snic_get_le32(b + SNIC_FILES__SB_FILES);
    i.dirs_max = snic_get_le32(b + SNIC_FILES__SB_DIRS);
    i.segments = snic_get_le64(b + SNIC_FILES__SB_SEGMENTS);
    i.journal_bytes = snic_get_le64(b + SNIC_FILES__SB_JOURNAL_BYTES);
    i.data_offset = snic_get_le64(b + SNIC_FILES__SB_DATA);
    i.version = SNIC_FILES__VERSION;
    if (!layout_super_plausible(b, &i))
        return SNIC_ECORRUPT;
    *info = i;
    return 0;
}

int files_name_valid(const void *name, uint32_t size)
{
    const char *s = name;
    uint32_t i;
    if (size == 0)
        return SNIC_EINVAL;
    if (size > SNIC_FILES_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    for (i = 0; i < size; i++)
        if (s[i] == '/' || s[i] == 0)
            return SNIC_EINVAL;
    if (s[0] == '.' && (size == 1 || (size == 2 && s[1] == '.')))
        return SNIC_EINVAL;
    return 0;
}

/* List entry: id u64, size u64, kind u32, name size u32, name padded with zeros to 8. */
int snic_files_entry_next(const void *list, size_t size, size_t *pos, struct snic_files_entry *out)
{
    const unsigned char *p = list;
    uint32_t n;
    if (*pos == size)
        return 0;
    if (*pos > size || size - *pos < 24)
        return SNIC_EPROTO;
    p += *pos;
    n = snic_get_le32(p + 20);
    if (n == 0 || n > SNIC_FILES_NAME_MAX || snic_align_up(n, 8) > size - *pos - 24)
        return SNIC_EPROTO;
    if (files_name_valid(p + 24, n) != 0)
        return SNIC_EPROTO;
    out->kind = snic_get_le32(p + 16);
    if (out->kind != SNIC_FILES_FILE && out->kind != SNIC_FILES_DIR)
        return SNIC_EPROTO;
    out->id = snic_get_le64(p);
    out->size = snic_get_le64(p + 8);
    out->name_size = n;
    out->name = (const char *)p + 24;
    *pos += 24 + (size_t)snic_align_up(n, 8);
    return 1;
}
