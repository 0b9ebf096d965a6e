/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A block server's devices: what is wrong with which. */
#include "store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A disk that goes bad has many blocks that do, each of which is read again and again. */
#define STORE_REPORT_NS UINT64_C(5000000000)
/* While it opens; the count of all follows. */
#define STORE_TABLES_LOGGED 16u

static struct {
    struct snic_loop *loop;
    const char *const *files;
    uint32_t count;
    struct snic_timer timer; /* armed: a line was printed within STORE_REPORT_NS */
    int armed;
    uint32_t tables;  /* damaged ones that were logged */
    uint64_t misread; /* since that line */
    uint64_t seg_id;  /* the last of them */
    uint32_t block;
    uint32_t device;
    int error;
} st;

/* ---- Opening ---- */

void store_fits(struct snic_io *const *io, const struct snic_segments_opts *o)
{
    for (uint32_t i = 0; i < st.count; i++)
        if (snic_segments_memsize(&io[i], 1, o) == 0)
            ex_die("store %s is too small: %" PRIu64 " bytes, or its device takes too small I/Os",
                   st.files[i], io[i]->geometry.size);
}

static const char *store_corrupt(const struct snic_segments_report *r, char *text, size_t size)
{
    if (r->mixed) {
        snprintf(text, size, "it is a device of another store than those before it");
    } else if (r->is_disks != 0 && (r->is_disk != r->disk || r->is_disks != st.count)) {
        snprintf(text, size,
                 "it is device %u of %u of its store, but named as device %u of %u: name all, in "
                 "the order of their format",
                 r->is_disk + 1, r->is_disks, r->disk + 1, st.count);
    } else if (r->last_missing != 0) {
        snprintf(text, size,
                 "its log is corrupt: records %" PRIu64 " to %" PRIu64
                 " are missing, and what they wrote is lost (--salvage opens it without them)",
                 r->first_missing, r->last_missing);
    } else if (r->gaps != 0) {
        snprintf(text, size,
                 "its log is empty, but was not: what its records wrote is lost (--salvage opens "
                 "it without them)");
    } else {
        snprintf(text, size, "corrupt: its superblocks or its log are not as written");
    }
    return text;
}

void store_refused(int result, const struct snic_segments_report *r)
{
    char text[256] = "";
    const char *why = snic_strerror(result);
    if (result == SNIC_ENOENT)
        why = "it is blank (a file that did not exist was made), but the others are a store: it is "
              "not the device that belongs to it, and nothing was written to it (--format erases "
              "all of them)";
    if (result == SNIC_EEXIST)
        why = "not a store, or one whose first pages are lost (--format overwrites it)";
    if (result == SNIC_EVERSION) {
        snprintf(text, sizeof(text),
                 "its format is version %u, and this program supports version %u: serve it with "
                 "the release that wrote it, and copy each disk over NBD (nbdcopy, qemu-img "
                 "convert) to a new store of this one",
                 r->version, SNIC_SEGMENTS_VERSION);
        why = text;
    }
    if (result == SNIC_ENOSPC)
        why = "its file system is full, it is smaller than when it was formatted, or its log does "
              "not fit the memory";
    if (result == SNIC_EINVAL) {
        snprintf(text, sizeof(text),
                 "its size has changed since it was formatted (its log has %" PRIu64 " bytes)",
                 r->log_bytes);
        why = text;
    }
    if (result == SNIC_ECORRUPT)
        why = store_corrupt(r, text, sizeof(text));
    ex_log(EX_ERROR, "cannot open store %s: %s", r->disk < st.count ? st.files[r->disk] : "", why);
}

/* ---- Damage ---- */

static const char *store_block(uint64_t seg_id, uint32_t block, char *text, size_t size)
{
    if (seg_id >= SNIC_CONTROL_META)
        snprintf(text, size, "block %" PRIu32 " of the server's own segment", block);
    else
        snprintf(text, size,
                 "block %" PRIu64 " of disk %" PRIu64 " (block %" PRIu32 " of segment "
                 "%" PRIu64 ")",
                 (seg_id & UINT32_MAX) * SNIC_SEGMENTS_BLOCKS + block, seg_id >> 32, block,
                 seg_id & UINT32_MAX);
    return text;
}

/* A file that was copied with holes needs more space when it is written: on a full file system a
 * write is cut short, and the device has no error to report. */
static int store_full(const char *file)
{
    struct stat f;
    struct statvfs v;
    return stat(file, &f) == 0 && S_ISREG(f.st_mode) &&
           (uint64_t)f.st_blocks * 512 < (uint64_t)f.st_size && statvfs(file, &v) == 0 &&
           v.f_bavail * v.f_frsize < UINT64_C(1) << 20;
}

void store_failed(void *ctx, uint32_t disk, int error)
{
    (void)ctx;
    ex_log(EX_ERROR, "device %s failed: %s; its blocks are refused until the server is restarted",
           st.files[disk],
           store_full(st.files[disk])
               ? "the file has holes, as after a sparse copy, and its file system is full"
               : snic_strerror(error));
}

void store_damaged(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, uint32_t blocks)
{
    char text[128];
    (void)ctx;
    if (st.tables++ >= STORE_TABLES_LOGGED)
        return;
    if (blocks == 0)
        ex_log(EX_ERROR,
               "device %s: both copies of the table of place %" PRIu64
               " are corrupt: its segment is unknown",
               st.files[disk], seg_id);
    else
        ex_log(EX_ERROR,
               "device %s: both copies of a table are corrupt: %u blocks from %s on are refused",
               st.files[disk], blocks, store_block(seg_id, block, text, sizeof(text)));
}

static void store_report(uint64_t now)
{
    char text[128], more[64] = "";
    (void)store_block(st.seg_id, st.block, text, sizeof(text));
    if (st.misread > 1)
        snprintf(more, sizeof(more), "; %" PRIu64 " such reads since the last such line",
                 st.misread);
    ex_log(EX_ERROR, "device %s: %s %s%s%s", st.files[st.device], text,
           st.error == SNIC_ECORRUPT ? "is corrupt: checksum mismatch" : "cannot be read: ",
           st.error == SNIC_ECORRUPT ? "" : snic_strerror(st.error), more);
    st.misread = 0;
    st.armed = 1;
    snic_loop_arm(st.loop, &st.timer, now + STORE_REPORT_NS);
}

static void store_again(struct snic_timer *t, uint64_t now)
{
    (void)t;
    st.armed = 0;
    if (st.misread != 0)
        store_report(now);
}

void store_misread(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error)
{
    (void)ctx;
    st.misread++;
    st.device = disk;
    st.seg_id = seg_id;
    st.block = block;
    st.error = error;
    if (!st.armed)
        store_report(snic_loop_now(st.loop));
}

/* ---- Beginning and end ---- */

void store_begin(struct snic_loop *loop, const char *const *files, uint32_t count)
{
    memset(&st, 0, sizeof(st));
    st.loop = loop;
    st.files = files;
    st.count = count;
    snic_timer_init(&st.timer, store_again);
}

void store_end(void)
{
    if (st.misread != 0)
        store_report(snic_loop_now(st.loop));
    snic_loop_cancel(st.loop, &st.timer);
}
