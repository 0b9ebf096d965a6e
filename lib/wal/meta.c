/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The membership file: two places, each with a version and a checksum. A put writes the first
 * place, flushes, writes the second, flushes. So while one is torn the other is whole, and what was
 * announced is in both. Bytes: FORMAT.md.
 */
#include "wal/wal_priv.h"

static const unsigned char wal_meta_magic[8] = {'w', 'a', 'l', 'm', 'e', 't', 'a', 0};

static uint64_t wal_meta_offset(const struct snic_wal *w)
{
    return wal_unit_offset(&w->geo, 1 + 2 * w->meta.place);
}

static uint32_t wal_meta_crc(const struct snic_wal *w, const unsigned char *slot, uint32_t length)
{
    return snic_crc32c(w->geo.seed, slot + 12, SNIC_WAL__META_HEAD - 12 + (size_t)length);
}

static void wal_meta_encode(struct snic_wal *w, const void *bytes, uint32_t length)
{
    unsigned char *slot = w->meta.slot;
    SNIC_ASSERT(length <= SNIC_WAL_META_MAX);
    memset(slot, 0, 2 * (size_t)w->geo.unit);
    memcpy(slot, wal_meta_magic, sizeof(wal_meta_magic));
    snic_put_le32(slot + 12, length);
    snic_put_le64(slot + 16, w->meta.version);
    if (length > 0)
        memcpy(slot + SNIC_WAL__META_HEAD, bytes, length);
    snic_put_le32(slot + 8, wal_meta_crc(w, slot, length));
}

/** Bytes of the place in use: whole blocks. */
static uint64_t wal_meta_bytes(const struct snic_wal *w)
{
    return snic_align_up(SNIC_WAL__META_HEAD + SNIC_WAL_META_MAX, w->geo.block);
}

/* ---- Reading, while opening ---- */

static void wal_meta_repair(struct snic_wal *w);

static void wal_meta_flushed(struct snic_wal *w)
{
    w->meta.good[w->meta.place] = 1;
    wal_meta_repair(w);
}

static void wal_meta_written(struct snic_wal *w)
{
    wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_meta_flushed);
}

/**
 * Both places have to hold the version that the owner will be shown. If one does not, or reads come
 * from a cache, both are written: the first one first, since the second is never begun before the
 * first is durable. A process that was killed may have written the first and not flushed it, so
 * that writing the second alone could leave none of them whole.
 */
static void wal_meta_repair(struct snic_wal *w)
{
    struct wal_meta *m = &w->meta;
    if (m->state != 1 || (m->good[0] && m->good[1])) {
        m->then(w);
        return;
    }
    m->place = m->good[0] ? 1 : 0;
    wal_meta_encode(w, m->file, m->length);
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, wal_meta_offset(w), m->slot, wal_meta_bytes(w),
                 wal_meta_written);
}

static void wal_meta_look(struct snic_wal *w)
{
    struct wal_meta *m = &w->meta;
    const unsigned char *slot = m->slot;
    uint32_t length = snic_get_le32(slot + 12);
    uint64_t version = snic_get_le64(slot + 16);
    if (memcmp(slot, wal_meta_magic, sizeof(wal_meta_magic)) != 0 || length > SNIC_WAL_META_MAX ||
        version == 0 || snic_get_le32(slot + 8) != wal_meta_crc(w, slot, length)) {
        m->bad[m->place] = !wal_is_zero(slot, (size_t)wal_meta_bytes(w));
    } else if (version >= m->version) {
        if (version > m->version)
            m->good[0] = 0;
        m->good[m->place] = 1;
        m->version = version;
        m->length = length;
        m->state = 1;
        memcpy(m->file, slot + SNIC_WAL__META_HEAD, length);
    }
}

static void wal_meta_arrived(struct snic_wal *w)
{
    struct wal_meta *m = &w->meta;
    wal_meta_look(w);
    if (m->place == 0) {
        m->place = 1;
        wal_op_begin(w, &w->side, SNIC_IO_READ, wal_meta_offset(w), m->slot, wal_meta_bytes(w),
                     wal_meta_arrived);
        return;
    }
    /* One bad and one empty: the first put there ever was did not come to its end. */
    if (m->state == 0 && m->bad[0] && m->bad[1])
        m->state = 2;
    if (!wal_trusts_reads(w) || !m->good[0] || !m->good[1]) {
        m->good[0] = 0;
        m->good[1] = 0;
    }
    wal_meta_repair(w);
}

void wal_meta_read(struct snic_wal *w, wal_then_fn then)
{
    w->doing = "the membership file cannot be read, or not be made durable";
    w->meta.then = then;
    w->meta.place = 0;
    wal_op_begin(w, &w->side, SNIC_IO_READ, wal_meta_offset(w), w->meta.slot, wal_meta_bytes(w),
                 wal_meta_arrived);
}

/* ---- Putting ---- */

static void wal_meta_put_write(struct snic_wal *w);

static void wal_meta_put_flushed(struct snic_wal *w)
{
    struct wal_meta *m = &w->meta;
    if (m->place == 0) {
        m->place = 1;
        wal_meta_put_write(w);
        return;
    }
    SNIC_ASSERT(m->put == WAL_JOB_RUNS && m->put_length <= SNIC_WAL_META_MAX);
    m->put = WAL_JOB_NONE;
    m->state = 1;
    m->length = m->put_length;
    memcpy(m->file, m->slot + SNIC_WAL__META_HEAD, m->length);
    w->info.metas++;
    if (w->events.meta_stored != NULL)
        w->events.meta_stored(w->ctx);
}

static void wal_meta_put_written(struct snic_wal *w)
{
    wal_op_begin(w, &w->side, SNIC_IO_FLUSH, 0, NULL, 0, wal_meta_put_flushed);
}

static void wal_meta_put_write(struct snic_wal *w)
{
    wal_op_begin(w, &w->side, SNIC_IO_WRITE, wal_meta_offset(w), w->meta.slot, wal_meta_bytes(w),
                 wal_meta_put_written);
}

void wal_meta_pump(struct snic_wal *w)
{
    if (w->meta.put != WAL_JOB_WAITS || w->erase == WAL_JOB_RUNS)
        return;
    w->meta.put = WAL_JOB_RUNS;
    w->meta.place = 0;
    wal_meta_put_write(w);
}

int snic_wal_meta_put(struct snic_wal *w, const void *bytes, uint32_t length)
{
    if (w->phase != WAL_OPEN)
        return w->phase == WAL_DEAD ? SNIC_EIO : SNIC_EBUSY;
    if (length > SNIC_WAL_META_MAX)
        return SNIC_EMSGSIZE;
    if (w->meta.put != WAL_JOB_NONE)
        return SNIC_EAGAIN;
    w->meta.put = WAL_JOB_WAITS;
    w->meta.put_length = length;
    w->meta.version++;
    wal_meta_encode(w, bytes, length);
    wal_kick(w);
    return 0;
}

int snic_wal_meta_get(const struct snic_wal *w, const void **bytes, uint32_t *length)
{
    if (!w->info.opened)
        return SNIC_EBUSY;
    if (w->meta.state != 1)
        return w->meta.state == 0 ? SNIC_ENOENT : SNIC_ECORRUPT;
    *bytes = w->meta.file;
    *length = w->meta.length;
    return 0;
}
