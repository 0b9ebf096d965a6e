/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Format and probe: blocking, with one device request at a time and stack memory.
 *
 * F1  Format first destroys the superblocks, and writes them again when all else is durable:
 *     power loss during format leaves no image.
 * F2  The whole journal is zeroed, so that no entry of an earlier image can be replayed.
 */
#include "files/files_priv.h"

struct format_wait {
    struct snic_io_req io;
    int done;
};

static void format_wait_done(struct snic_io_req *io)
{
    SNIC_CONTAINER(io, struct format_wait, io)->done = 1;
}

/* One device request, run to its end. A short transfer is an error. */
int files_io_wait(struct snic_io *io, uint8_t op, uint64_t offset, void *mem, size_t size)
{
    struct format_wait w;
    struct snic_io_req *req = &w.io;
    int n;
    memset(&w, 0, sizeof(w));
    w.io.op = op;
    w.io.offset = offset;
    w.io.length = size;
    w.io.buf.base = mem;
    w.io.buf.size = size;
    w.io.region = SNIC_NO_REGION;
    w.io.done = format_wait_done;
    while ((n = snic_io_submit(io, &req, 1)) == 0)
        (void)snic_loop_once(io->loop, 1000000);
    if (n < 0)
        return SNIC_EIO;
    while (!w.done)
        (void)snic_loop_once(io->loop, SNIC_NEVER);
    if (w.io.result < 0)
        return (int)w.io.result;
    return (uint64_t)w.io.result == size ? 0 : SNIC_EIO;
}

static int format_zero(struct snic_io *io, unsigned char *buf, uint64_t from, uint64_t to)
{
    memset(buf, 0, SNIC_FILES__CHUNK);
    for (; from < to; from += SNIC_FILES__CHUNK) {
        int rc = files_io_wait(io, SNIC_IO_WRITE, from, buf, SNIC_FILES__CHUNK);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int format_device_fits(const struct snic_io *io, uint32_t block)
{
    const struct snic_io_geometry *g = &io->geometry;
    return g->offset_align <= block && g->length_align <= block && g->block <= block &&
           g->memory_align <= SNIC_FILES_ALIGN && g->transfer_max >= SNIC_FILES__CHUNK;
}

/* The empty tables as checkpoint 1, then its header. */
static int format_checkpoint(struct snic_io *io, const struct snic_files_info *info,
                             unsigned char *buf)
{
    uint64_t chunks = files_chunk_count(info);
    uint64_t slot = files_slot_offset(info, 1);
    uint64_t i;
    int rc;
    for (i = 0; i < chunks; i++) {
        uint64_t place = slot + (i + 1) * SNIC_FILES__CHUNK;
        memset(buf, 0, SNIC_FILES__CHUNK);
        snic_put_le64(buf + SNIC_FILES__CH_GENERATION, 1);
        snic_put_le64(buf + SNIC_FILES__CH_INDEX, i);
        files_seal(buf, SNIC_FILES__CHUNK, SNIC_FILES__CHUNK_MAGIC, info->image_id, place);
        rc = files_io_wait(io, SNIC_IO_WRITE, place, buf, SNIC_FILES__CHUNK);
        if (rc != 0)
            return rc;
    }
    memset(buf, 0, SNIC_FILES__CHUNK);
    snic_put_le64(buf + SNIC_FILES__SH_GENERATION, 1);
    snic_put_le64(buf + SNIC_FILES__SH_CHUNKS, chunks);
    snic_put_le64(buf + SNIC_FILES__SH_NEXT_ID, 1);
    snic_put_le64(buf + SNIC_FILES__SH_SEQ, 1);
    files_seal(buf, info->block_bytes, SNIC_FILES__SLOT_MAGIC, info->image_id, slot);
    rc = files_io_wait(io, SNIC_IO_WRITE, slot, buf, info->block_bytes);
    if (rc != 0)
        return rc;
    memset(buf, 0, SNIC_FILES__CHUNK);
    return files_io_wait(io, SNIC_IO_WRITE, files_slot_offset(info, 0), buf, SNIC_FILES__CHUNK);
}

static int format_super(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf,
                        uint64_t place)
{
    memset(buf, 0, SNIC_FILES__CHUNK);
    files_super_encode(buf, info);
    files_seal(buf, SNIC_FILES__SUPER_BYTES, SNIC_FILES__SUPER_MAGIC, 0, place);
    return files_io_wait(io, SNIC_IO_WRITE, place, buf, SNIC_FILES__CHUNK);
}

static int format_write(struct snic_io *io, const struct snic_files_info *info, unsigned char *buf)
{
    uint64_t journal = files_half_offset(info, 0);
    int rc = format_zero(io, buf, 0, SNIC_FILES__SLOTS_OFFSET); /* F1 */
    if (rc == 0)
        rc = files_io_wait(io, SNIC_IO_FLUSH, 0, NULL, 0);
    if (rc == 0)
        rc = format_zero(io, buf, journal, journal + info->journal_bytes); /* F2 */
    if (rc == 0)
        rc = format_checkpoint(io, info, buf);
    if (rc == 0)
        rc = files_io_wait(io, SNIC_IO_FLUSH, 0, NULL, 0);
    if (rc == 0)
        rc = format_super(io, info, buf, 0);
    if (rc == 0)
        rc = format_super(io, info, buf, SNIC_FILES__COPY_OFFSET);
    if (rc == 0)
        rc = files_io_wait(io, SNIC_IO_FLUSH, 0, NULL, 0);
    return rc;
}

int snic_files_format(struct snic_io *io, const struct snic_files_format_opts *opts)
{
    _Alignas(SNIC_FILES_ALIGN) unsigned char buf[SNIC_FILES__CHUNK];
    struct snic_files_format_opts o;
    struct snic_files_info info;
    int rc;
    memset(&o, 0, sizeof(o));
    rc = snic_opts_copy(&o, sizeof(o), opts);
    if (rc != 0)
        return rc;
    if (o.reserved != 0)
        return SNIC_EINVAL;
    memset(&info, 0, sizeof(info));
    info.image_id = o.image_id;
    info.size = io->geometry.size;
    info.segment_bytes = o.segment_bytes != 0 ? o.segment_bytes : 1u << 20;
    info.block_bytes = o.block_bytes != 0 ? o.block_bytes : 4096;
    info.files_max = o.files_max != 0 ? o.files_max : 4096;
    info.dirs_max = o.dirs_max != 0 ? o.dirs_max : 256;
    info.journal_bytes = o.journal_bytes;
    info.version = SNIC_FILES__VERSION;
    rc = files_geometry(&info);
    if (rc != 0)
        return rc;
    if (!format_device_fits(io, info.block_bytes))
        return SNIC_EINVAL;
    return format_write(io, &info, buf);
}

int files_super_read(struct snic_io *io, uint32_t copy, struct snic_files_info *out)
{
    _Alignas(SNIC_FILES_ALIGN) unsigned char buf[SNIC_FILES__CHUNK];
    uint64_t place = copy == 0 ? 0 : SNIC_FILES__COPY_OFFSET;
    int rc = files_io_wait(io, SNIC_IO_READ, place, buf, SNIC_FILES__CHUNK);
    return rc != 0 ? rc : files_super_decode(buf, place, out);
}

int snic_files_probe(struct snic_io *io, struct snic_files_info *out)
{
    struct snic_files_info info[2];
    int rc[2];
    uint32_t i;
    uint32_t good;
    if (io->geometry.size < SNIC_FILES__SLOTS_OFFSET)
        return SNIC_ENOENT;
    if (!format_device_fits(io, SNIC_FILES__CHUNK))
        return SNIC_EINVAL;
    for (i = 0; i < 2; i++)
        rc[i] = files_super_read(io, i, &info[i]);
    if (rc[0] != 0 && rc[1] != 0)
        return rc[1] == SNIC_ENOENT ? rc[0] : rc[1];
    /* They are written once, the same: two that differ are two images' (F1). */
    if (rc[0] == 0 && rc[1] == 0 && memcmp(&info[0], &info[1], sizeof(info[0])) != 0)
        return SNIC_ECORRUPT;
    good = rc[0] == 0 ? 0 : 1;
    if (!format_device_fits(io, info[good].block_bytes))
        return SNIC_EINVAL;
    if (info[good].size > io->geometry.size)
        return SNIC_ERANGE;
    *out = info[good];
    return 0;
}
