/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the files were made with. Where pages and the halves of the log lie follows from it, so a
 * start with other options would read, and write, the wrong places. Behind it the marks of damaged
 * pages (damage.c).
 */
#include "engine_priv.h"

#include "../common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* magic 4, crc 4 (of all behind it), version 4, remote 4, pages 8, page bytes 8, log bytes 8: in
 * the first sector, which no power cut tears. Zeros: no start got so far. */
#define SHAPE_MAGIC 0x50485350u /* "PSHP" */
#define SHAPE_VERSION 1u
#define SHAPE_VERSION_MARKS 2u /* damaged pages are marked in the sectors behind */
#define SHAPE_BYTES 40u

/* In each sector of the description but the first: magic 4, crc 4 (of all behind it), zeros 8,
 * marks of page 8 and lsn 8. No power cut tears a sector. Zeros: no mark. */
#define SHAPE_MARKS_MAGIC 0x474d4450u /* "PDMG" */
#define SHAPE_SECTOR 512u
#define SHAPE_MARKS_EACH 31u

_Static_assert(DAMAGE_MAX == (STORE_ALIGN / SHAPE_SECTOR - 1) * SHAPE_MARKS_EACH,
               "marks per block");

static int64_t shape_run(struct engine *e, int write, unsigned char *block)
{
    struct store_req q;

    memset(&q, 0, sizeof(q));
    q.write = (uint8_t)write;
    q.sync = 1;
    q.file = STORE_SHAPE;
    q.size = STORE_ALIGN;
    q.data = block;
    return store_run(e->o.store, &q);
}

static int shape_is_zeros(const unsigned char *sector)
{
    return sector[0] == 0 && memcmp(sector, sector + 1, SHAPE_SECTOR - 1) == 0;
}

static void shape_marks_encode(const struct engine *e, unsigned char *block)
{
    for (uint32_t i = 0; i < DAMAGE_MAX; i++) {
        unsigned char *s = block + SHAPE_SECTOR * (1 + i / SHAPE_MARKS_EACH);
        unsigned char *at = s + 16 + i % SHAPE_MARKS_EACH * 16;

        snic_put_le64(at, e->marks[i].page);
        snic_put_le64(at + 8, e->marks[i].lsn);
        if (i % SHAPE_MARKS_EACH == SHAPE_MARKS_EACH - 1 && !shape_is_zeros(s)) {
            snic_put_le32(s, SHAPE_MARKS_MAGIC);
            snic_put_le32(s + 4, snic_crc32c(0, s + 8, SHAPE_SECTOR - 8));
        }
    }
}

static int shape_marks_decode(struct engine *e, const unsigned char *block)
{
    e->marks_count = 0;
    for (uint32_t i = 0; i < DAMAGE_MAX; i++) {
        const unsigned char *s = block + SHAPE_SECTOR * (1 + i / SHAPE_MARKS_EACH);
        const unsigned char *at = s + 16 + i % SHAPE_MARKS_EACH * 16;

        if (!shape_is_zeros(s) && (snic_get_le32(s) != SHAPE_MARKS_MAGIC ||
                                   snic_get_le32(s + 4) != snic_crc32c(0, s + 8, SHAPE_SECTOR - 8)))
            return SNIC_ECORRUPT;
        e->marks[i].page = snic_get_le64(at);
        e->marks[i].lsn = snic_get_le64(at + 8);
        e->marks_count += e->marks[i].lsn != 0;
    }
    return 0;
}

void shape_encode(const struct engine *e, unsigned char *block)
{
    memset(block, 0, STORE_ALIGN);
    snic_put_le32(block, SHAPE_MAGIC);
    snic_put_le32(block + 8, e->marks_count > 0 ? SHAPE_VERSION_MARKS : SHAPE_VERSION);
    snic_put_le32(block + 12, (uint32_t)e->o.limits.remote);
    snic_put_le64(block + 16, e->o.limits.pages);
    snic_put_le64(block + 24, e->page_bytes);
    snic_put_le64(block + 32, e->o.log_bytes);
    snic_put_le32(block + 4, snic_crc32c(0, block + 8, SHAPE_BYTES - 8));
    shape_marks_encode(e, block);
}

/* Refuse what differs, by the name of its option. */
static void shape_compare(struct engine *e, const unsigned char *block)
{
    const struct {
        const char *option;
        uint64_t made, option_value;
    } all[] = {
        {"--page-bytes", snic_get_le64(block + 24), e->page_bytes},
        {"--pages", snic_get_le64(block + 16), e->o.limits.pages},
        {"--log-size", snic_get_le64(block + 32), e->o.log_bytes},
    };

    if (snic_get_le32(block + 4) != snic_crc32c(0, block + 8, SHAPE_BYTES - 8) ||
        snic_get_le32(block) != SHAPE_MAGIC)
        ex_die("the description of the pages is corrupt (checksum mismatch): they are not served; "
               "restore them from a copy");
    if (snic_get_le32(block + 8) == SHAPE_VERSION_MARKS) {
        if (shape_marks_decode(e, block) != 0)
            ex_die("the list of damaged pages is corrupt (checksum mismatch): the pages are not "
                   "served; restore them from a copy");
    } else if (snic_get_le32(block + 8) != SHAPE_VERSION)
        ex_die("the pages have a format version that this program does not support: use the "
               "release that wrote it");
    if (snic_get_le32(block + 12) != (uint32_t)e->o.limits.remote)
        ex_die("the pages were made %s --remote-file: start the server in the same way",
               e->o.limits.remote ? "without" : "with");
    for (size_t i = 0; i < SNIC_COUNTOF(all); i++)
        if (all[i].made != all[i].option_value)
            ex_die("%s is %" PRIu64 ", but the pages were made with %" PRIu64 ": use that",
                   all[i].option, all[i].option_value, all[i].made);
}

int shape_check(struct engine *e, int *fresh)
{
    unsigned char *block;
    int64_t r;

    if (posix_memalign((void **)&block, STORE_ALIGN, STORE_ALIGN) != 0)
        ex_die("out of memory for a block");
    r = shape_run(e, 0, block);
    *fresh = 1;
    for (uint32_t i = 0; r == STORE_ALIGN && i < SHAPE_BYTES; i++)
        *fresh &= block[i] == 0;
    if (r == STORE_ALIGN && !*fresh)
        shape_compare(e, block);
    free(block);
    return r == STORE_ALIGN ? 0 : r < 0 ? (int)r : SNIC_EIO;
}

int shape_note(struct engine *e)
{
    unsigned char *block;
    int64_t r;

    if (e->version != 0)
        ex_die("the description of the pages is missing: they are not served; restore them from a "
               "copy");
    if (posix_memalign((void **)&block, STORE_ALIGN, STORE_ALIGN) != 0)
        ex_die("out of memory for a block");
    shape_encode(e, block);
    r = shape_run(e, 1, block);
    free(block);
    return r == STORE_ALIGN ? 0 : r < 0 ? (int)r : SNIC_EIO;
}
