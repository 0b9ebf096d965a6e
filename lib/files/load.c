/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Load an image into raw tables: the newest checkpoint, then the journal. Shared by mount and
 * the checker.
 *
 * D1  The newest slot header whose seal holds decides. Its chunks were durable before it, so
 *     a chunk whose seal does not hold is damage, not a crash.
 * D2  The first place of a half that holds no entry with the expected generation and number
 *     ends the journal. A commit was written only after the one before was durable; so any
 *     whole entry of the generation at or behind that place is damage as well.
 * D3  When entries of the next generation exist, the half before was closed: they continue
 *     with the next number from the start of the other half.
 */
#include "files/files_priv.h"

static void load_report(const struct files_loaded *l, int error, const char *what, uint64_t number)
{
    if (l->finding != NULL)
        l->finding(l->ctx, error, what, number);
}

/* The same, and where on the device it is. */
static int load_report_at(const struct files_loaded *l, int error, const char *what,
                          uint64_t number, uint64_t place)
{
    load_report(l, error, what, number);
    load_report(l, 0, "  that is at byte", place);
    return error;
}

int files_blank(const unsigned char *buf, uint32_t size)
{
    uint32_t i = 0;
    while (i < size && buf[i] == 0)
        i++;
    return i == size;
}

/* ---- Checkpoints ---- */

/* What is wrong with a header whose seal holds, or NULL. */
const char *files_header_wrong(const struct snic_files_info *info, const unsigned char *buf,
                               uint64_t parity)
{
    uint64_t g = snic_get_le64(buf + SNIC_FILES__SH_GENERATION);
    if (g == 0 || g > UINT64_MAX - 2)
        return "checkpoint header with an impossible generation, slot";
    if ((g & 1) != parity)
        return "checkpoint header with the other slot's generation, slot";
    if (snic_get_le64(buf + SNIC_FILES__SH_CHUNKS) != files_chunk_count(info))
        return "checkpoint header with a wrong number of chunks, slot";
    if (snic_get_le64(buf + SNIC_FILES__SH_SEQ) == 0)
        return "checkpoint header with no entry number, slot";
    return NULL;
}

/* Take the header in a slot if it is the newest so far; a slot without one is no error. */
static int load_header(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                       uint64_t parity, struct files_loaded *l)
{
    uint64_t place = files_slot_offset(info, parity);
    const char *wrong;
    uint64_t g;
    int rc = files_io_wait(io, SNIC_IO_READ, place, buf, info->block_bytes);
    if (rc != 0)
        return load_report_at(l, rc, "checkpoint header cannot be read, slot", parity, place);
    if (!files_sealed(buf, info->block_bytes, SNIC_FILES__SLOT_MAGIC, info->image_id, place)) {
        if (files_blank(buf, info->block_bytes))
            load_report(l, 0, "unused checkpoint slot", parity);
        else
            (void)load_report_at(l, 0, "checkpoint header damaged or cut off, slot", parity, place);
        return 0;
    }
    wrong = files_header_wrong(info, buf, parity);
    if (wrong != NULL)
        return load_report_at(l, SNIC_ECORRUPT, wrong, parity, place);
    g = snic_get_le64(buf + SNIC_FILES__SH_GENERATION);
    if (g > l->generation) {
        l->generation = g;
        l->next_id = snic_get_le64(buf + SNIC_FILES__SH_NEXT_ID);
        l->seq = snic_get_le64(buf + SNIC_FILES__SH_SEQ);
    }
    return 0;
}

/* Why a chunk is not the one that must be there. */
static const char *load_chunk_wrong(const struct snic_files_info *info, uint64_t index,
                                    uint64_t generation, const unsigned char *buf)
{
    uint64_t place = files_slot_offset(info, generation) + (index + 1) * SNIC_FILES__CHUNK;
    if (snic_get_le32(buf) != SNIC_FILES__CHUNK_MAGIC)
        return "no chunk where the checkpoint has one, chunk";
    if (!files_sealed(buf, SNIC_FILES__CHUNK, SNIC_FILES__CHUNK_MAGIC, info->image_id, place))
        return "checkpoint chunk with a wrong checksum, chunk";
    if (snic_get_le64(buf + SNIC_FILES__CH_GENERATION) != generation)
        return "checkpoint chunk of another generation, chunk";
    return "checkpoint chunk of another place, chunk";
}

/* The `n` chunks from `first` on, in one read: D1. */
static int load_chunks(struct snic_io *io, const struct snic_files_info *info,
                       struct files_raw *raw, unsigned char *buf, uint64_t first, uint64_t n,
                       const struct files_loaded *l)
{
    uint64_t place = files_slot_offset(info, l->generation) + (first + 1) * SNIC_FILES__CHUNK;
    uint64_t i;
    int rc = files_io_wait(io, SNIC_IO_READ, place, buf, (size_t)n * SNIC_FILES__CHUNK);
    if (rc != 0)
        return load_report_at(l, rc, "checkpoint chunk cannot be read, chunk", first, place);
    for (i = 0; i < n && rc == 0; i++) {
        const unsigned char *p = buf + (size_t)i * SNIC_FILES__CHUNK;
        rc = files_chunk_unpack(info, raw, first + i, l->generation, p);
        if (rc != 0)
            (void)load_report_at(l, rc, load_chunk_wrong(info, first + i, l->generation, p),
                                 first + i, place + i * SNIC_FILES__CHUNK);
    }
    return rc;
}

static int load_checkpoint(struct snic_io *io, const struct snic_files_info *info,
                           struct files_raw *raw, unsigned char *buf, struct files_loaded *l)
{
    uint64_t chunks = files_chunk_count(info);
    uint64_t i;
    uint64_t n;
    int rc = load_header(io, info, buf, 0, l);
    if (rc == 0)
        rc = load_header(io, info, buf, 1, l);
    if (rc != 0)
        return rc;
    if (l->generation == 0) {
        load_report(l, SNIC_ECORRUPT, "no checkpoint", 0);
        return SNIC_ECORRUPT;
    }
    load_report(l, 0, "checkpoint generation", l->generation);
    for (i = 0; i < chunks && rc == 0; i += n) {
        n = snic_min_u64(snic_min_u64(io->geometry.transfer_max, SNIC_FILES__ENTRY_MAX) /
                             SNIC_FILES__CHUNK,
                         chunks - i);
        rc = load_chunks(io, info, raw, buf, i, n, l);
    }
    return rc;
}

/* ---- The journal ---- */

/* A plausible entry head at p: its length, or 0. `room` is what is left of the half. */
uint32_t files_entry_head(const struct snic_files_info *info, const unsigned char *p, uint64_t room,
                          uint64_t generation)
{
    uint32_t bytes = snic_get_le32(p + SNIC_FILES__JE_BYTES);
    if (snic_get_le32(p) != SNIC_FILES__JOURNAL_MAGIC ||
        snic_get_le64(p + SNIC_FILES__JE_GENERATION) != generation)
        return 0;
    if (bytes < SNIC_FILES__JE_HEAD || bytes > SNIC_FILES__ENTRY_MAX || bytes % 8 != 0 ||
        snic_align_up(bytes, info->block_bytes) > room)
        return 0;
    return bytes;
}

/* Read the entry at `at` of the half; its length in *bytes, 0 when there is none. */
int files_entry_read(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                     uint64_t generation, uint64_t at, uint32_t *bytes)
{
    uint64_t half = files_half_offset(info, generation);
    uint32_t n;
    int rc;
    *bytes = 0;
    rc = files_io_wait(io, SNIC_IO_READ, half + at, buf, info->block_bytes);
    if (rc != 0)
        return rc;
    n = files_entry_head(info, buf, info->journal_bytes / 2 - at, generation);
    if (n == 0)
        return 0;
    if (n > info->block_bytes) {
        uint32_t rest = (uint32_t)snic_align_up(n, info->block_bytes) - info->block_bytes;
        rc = files_io_wait(io, SNIC_IO_READ, half + at + info->block_bytes, buf + info->block_bytes,
                           rest);
        if (rc != 0)
            return rc;
    }
    if (files_sealed(buf, n, SNIC_FILES__JOURNAL_MAGIC, info->image_id, half + at))
        *bytes = n;
    return 0;
}

/* The first place in [*at, end of the half) with a plausible head, or the end. */
static int load_scan(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                     uint64_t generation, uint64_t *at)
{
    uint64_t end = info->journal_bytes / 2;
    while (*at < end) {
        uint32_t window = (uint32_t)snic_min_u64(end - *at, SNIC_FILES__ENTRY_MAX);
        uint32_t i;
        int rc =
            files_io_wait(io, SNIC_IO_READ, files_half_offset(info, generation) + *at, buf, window);
        if (rc != 0)
            return rc;
        for (i = 0; i < window; i += info->block_bytes)
            if (files_entry_head(info, buf + i, end - *at - i, generation) != 0) {
                *at += i;
                return 0;
            }
        *at += window;
    }
    return 0;
}

/* D2: no whole entry may be at or behind the place where the replay ended. */
static int load_tail(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                     uint64_t generation, uint64_t at, const struct files_loaded *l)
{
    uint64_t half = files_half_offset(info, generation);
    uint64_t ended = at;
    uint32_t bytes;
    int rc;
    while ((rc = load_scan(io, info, buf, generation, &at)) == 0 && at < info->journal_bytes / 2) {
        rc = files_entry_read(io, info, buf, generation, at, &bytes);
        if (rc != 0)
            return rc;
        if (bytes != 0)
            return load_report_at(l, SNIC_ECORRUPT, "journal entry lost before number",
                                  snic_get_le64(buf + SNIC_FILES__JE_SEQ), half + at);
        if (at == ended)
            (void)load_report_at(l, 0, "journal entry damaged or cut off, number", l->seq,
                                 half + at);
        at += info->block_bytes;
    }
    return rc;
}

/* Replay one half; *found counts its entries. */
static int load_half(struct snic_io *io, const struct snic_files_info *info, struct files_raw *raw,
                     unsigned char *buf, uint64_t generation, struct files_loaded *l,
                     uint64_t *found)
{
    uint64_t at = 0;
    int rc;
    *found = 0;
    while (at < info->journal_bytes / 2) {
        uint32_t bytes;
        uint32_t bad;
        rc = files_entry_read(io, info, buf, generation, at, &bytes);
        if (rc != 0)
            return rc;
        if (bytes == 0 || snic_get_le64(buf + SNIC_FILES__JE_SEQ) != l->seq)
            break;
        rc = files_entry_apply(raw, buf, bytes, snic_get_le32(buf + SNIC_FILES__JE_RECORDS), &bad);
        if (rc != 0)
            return load_report_at(l, rc, "impossible record in journal entry", l->seq,
                                  files_half_offset(info, generation) + at + bad);
        l->next_id = snic_max_u64(l->next_id, snic_get_le64(buf + SNIC_FILES__JE_NEXT_ID));
        l->seq++;
        at += snic_align_up(bytes, info->block_bytes);
        (*found)++;
    }
    rc = load_tail(io, info, buf, generation, at, l);
    if (rc == 0 && (*found != 0 || generation == l->generation)) {
        l->last = generation;
        l->position = at;
    }
    return rc;
}

/* `buf` holds SNIC_FILES__ENTRY_MAX bytes. */
int files_load(struct snic_io *io, const struct snic_files_info *info, struct files_raw *raw,
               unsigned char *buf, struct files_loaded *l)
{
    uint64_t found;
    int rc;
    l->generation = 0;
    rc = load_checkpoint(io, info, raw, buf, l);
    if (rc != 0)
        return rc;
    l->base_seq = l->seq;
    rc = load_half(io, info, raw, buf, l->generation, l, &found);
    if (rc != 0)
        return rc;
    load_report(l, 0, "journal entries", found);
    l->base_seq = l->seq;
    rc = load_half(io, info, raw, buf, l->generation + 1, l, &found); /* D3 */
    if (rc != 0)
        return rc;
    if (found == 0)
        return 0;
    load_report(l, 0, "journal entries of the next generation", found);
    return 0;
}
