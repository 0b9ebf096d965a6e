/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damage planted on purpose, one kind at a time, with the checksums made right again where the
 * damage is in what they cover. The checker names what is wrong; the service refuses to mount, or
 * mounts the expected state, the last one or that before the last operation; and what shows an
 * image shows this one, too.
 */
#include "filefix.h"
#include "filepattern.h"
#include "support.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "files/layout.h"

#define SEG 16384u
#define BLOCK 4096u
#define IMAGE 77u
/* The images of this test have one chunk of nodes and one of segments. */
#define SLOT(g) (SNIC_FILES__SLOTS_OFFSET + ((g)&1u) * 3u * SNIC_FILES__CHUNK)
#define NODES(g) (SLOT(g) + SNIC_FILES__CHUNK)
#define SEGS(g) (SLOT(g) + 2u * SNIC_FILES__CHUNK)
#define HALF(g) (SLOT(2u) + 6u * SNIC_FILES__CHUNK + ((g)&1u) * 65536u)
#define LAST 99u

/* ---- The image ---- */

struct image {
    struct filefix fx;
    struct snic_disk *good;
    unsigned char *p; /* the disk                                        */
    uint64_t g;       /* generation of the newest checkpoint             */
    uint32_t entries; /* whole ones behind it, a block each              */
    uint64_t ids[5];  /* by index in the table: -, d, a, d/b, c          */
};

static uint64_t image_newest(const struct image *m)
{
    return snic_max_u64(snic_get_le64(m->p + SLOT(0) + SNIC_FILES__SH_GENERATION),
                        snic_get_le64(m->p + SLOT(1) + SNIC_FILES__SH_GENERATION));
}

static void image_file(struct image *m, uint64_t dir, const char *name, uint32_t node, size_t n)
{
    static unsigned char bytes[3 * SEG];
    assert_int_equal(filefix_create(m->fx.files, dir, name, &m->ids[node]), 0);
    pattern(bytes, n, node, 0);
    if (n != 0)
        assert_int_equal(filefix_write(m->fx.files, m->ids[node], 0, bytes, n, SNIC_FILES_SYNC), n);
}

/* Two commits, and whatever checkpoint they begin is finished. */
static void image_commits(struct image *m)
{
    uint64_t id;
    assert_int_equal(filefix_create(m->fx.files, 0, "x", &id), 0);
    assert_int_equal(filefix_delete(m->fx.files, 0, "x"), 0);
    assert_int_equal(filefix_unmount(&m->fx), 0);
    filefix_mount(&m->fx);
}

/* Both slots hold all files; behind the newer one are some entries, the last of which makes z. */
static void image_make(struct image *m)
{
    uint64_t g;
    uint64_t id;
    memset(m, 0, sizeof(*m));
    filefix_fresh(&m->fx);
    m->p = snic_disk_bytes(m->fx.disk);
    assert_int_equal(filefix_mkdir(m->fx.files, "d", &m->ids[1]), 0);
    image_file(m, 0, "a", 2, 3 * SEG);
    image_file(m, m->ids[1], "b", 3, SEG + 100);
    image_file(m, 0, "c", 4, 0);
    for (g = image_newest(m); image_newest(m) < g + 2;)
        image_commits(m);
    m->g = image_newest(m);
    do {
        image_commits(m);
        for (m->entries = 0; snic_get_le64(m->p + HALF(m->g) + m->entries * BLOCK +
                                           SNIC_FILES__JE_GENERATION) == m->g;)
            m->entries++;
    } while (m->entries < 4);
    assert_int_equal(filefix_create(m->fx.files, 0, "z", &id), 0);
    assert_int_equal(filefix_unmount(&m->fx), 0);
    m->entries++;
    assert_int_equal(image_newest(m), m->g);
    snic_disk_sync(m->fx.disk);
    assert_int_equal(snic_disk_clone(m->fx.disk, &m->good), 0);
}

static void image_seal(const struct image *m, uint64_t place, size_t size, uint64_t id)
{
    uint64_t h =
        XXH3_64bits_withSeed(m->p + place + 16, size - 16, id ^ (place * 0x9e3779b97f4a7c15u));
    snic_put_le64(m->p + place + 8, h);
}

static uint64_t image_entry(const struct image *m, uint32_t index)
{
    return HALF(m->g) + (index == LAST ? m->entries - 1 : index) * BLOCK;
}

static void image_seal_entry(const struct image *m, uint32_t index)
{
    uint64_t at = image_entry(m, index);
    image_seal(m, at, snic_get_le32(m->p + at + SNIC_FILES__JE_BYTES), IMAGE);
}

/* ---- What to plant ---- */

enum unit {
    SUPER,
    COPY,
    SUPERS, /* both */
    NEWER,  /* header of the newer slot */
    OLDER,
    HEADERS, /* both */
    NODE_CHUNK,
    SEG_CHUNK,
    NODE, /* record `index` in the newer checkpoint */
    SEGMENT,
    ENTRY /* number `index` of the journal half in use */
};

enum change { SET, ADD };
enum state { REFUSED, SAME, BEFORE }; /* z is there, z is not */

struct damage {
    enum unit unit;
    uint32_t index;
    uint32_t at; /* byte of the unit */
    uint32_t size;
    enum change change;
    uint64_t value;
    int sealed;
    int rc; /* of mounting */
    enum state state;
    const char *expected;
    int remark; /* it is what power loss may leave: no error */
};

static void damage_field(unsigned char *p, const struct damage *d)
{
    uint64_t v = 0;
    uint32_t i;
    for (i = d->size; i-- > 0;)
        v = v << 8 | p[i];
    v = d->change == ADD ? v + d->value : d->value;
    for (i = 0; i < d->size; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void damage_unit(const struct image *m, const struct damage *d, uint64_t at, size_t size,
                        uint64_t id)
{
    damage_field(m->p + at + d->at, d);
    if (d->sealed)
        image_seal(m, at, size, id);
}

static void damage_record(const struct image *m, const struct damage *d, uint64_t chunk,
                          uint32_t bytes)
{
    damage_field(m->p + chunk + SNIC_FILES__CHUNK_HEAD + d->index * bytes + d->at, d);
    image_seal(m, chunk, SNIC_FILES__CHUNK, IMAGE);
}

static void damage_plant(const struct image *m, const struct damage *d)
{
    switch (d->unit) {
    case SUPER:
    case SUPERS:
        damage_unit(m, d, 0, SNIC_FILES__SUPER_BYTES, 0);
        if (d->unit == SUPER)
            break;
        damage_unit(m, d, SNIC_FILES__COPY_OFFSET, SNIC_FILES__SUPER_BYTES, 0);
        break;
    case COPY:
        damage_unit(m, d, SNIC_FILES__COPY_OFFSET, SNIC_FILES__SUPER_BYTES, 0);
        break;
    case NEWER:
        damage_unit(m, d, SLOT(m->g), BLOCK, IMAGE);
        break;
    case OLDER:
        damage_unit(m, d, SLOT(m->g + 1), BLOCK, IMAGE);
        break;
    case HEADERS:
        damage_unit(m, d, SLOT(0), BLOCK, IMAGE);
        damage_unit(m, d, SLOT(1), BLOCK, IMAGE);
        break;
    case NODE_CHUNK:
        damage_unit(m, d, NODES(m->g), SNIC_FILES__CHUNK, IMAGE);
        break;
    case SEG_CHUNK:
        damage_unit(m, d, SEGS(m->g), SNIC_FILES__CHUNK, IMAGE);
        break;
    case NODE:
        damage_record(m, d, NODES(m->g), SNIC_FILES__NODE_BYTES);
        break;
    case SEGMENT:
        damage_record(m, d, SEGS(m->g), SNIC_FILES__SEG_BYTES);
        break;
    case ENTRY:
    default:
        damage_field(m->p + image_entry(m, d->index) + d->at, d);
        if (d->sealed)
            image_seal_entry(m, d->index);
        break;
    }
}

/* ---- What comes of it ---- */

struct heard {
    const char *expected;
    uint32_t errors;
    uint32_t found; /* the text, as an error 1, as a remark 2 */
    uint64_t number;
    char all[2000];
};

static void heard_finding(void *ctx, int error, const char *what, uint64_t number)
{
    struct heard *h = ctx;
    size_t n = strlen(h->all);
    h->errors += error != 0;
    (void)snprintf(h->all + n, sizeof(h->all) - n, "%s%s %llu\n", error != 0 ? "error " : "", what,
                   (unsigned long long)number);
    if (h->found != 0 || strstr(what, h->expected) == NULL)
        return;
    h->found = error != 0 ? 1 : 2;
    h->number = number;
}

static void count_item(void *ctx, const struct snic_files_item *it)
{
    assert_non_null(it->what);
    *(uint32_t *)ctx += it->error != 0;
}

static void judge_file(struct snic_files *f, uint64_t dir, const char *name, uint64_t id, size_t n,
                       uint32_t tag)
{
    static unsigned char bytes[4 * SEG];
    uint64_t found;
    uint64_t size;
    assert_int_equal(filefix_find(f, dir, name, &found, &size), 0);
    assert_int_equal(found, id);
    assert_int_equal(size, n);
    assert_int_equal(filefix_read(f, id, 0, bytes, sizeof(bytes)), n);
    assert_true(is_pattern(bytes, n, tag, 0));
}

static void judge_state(struct image *m, enum state state)
{
    struct snic_files *f = m->fx.files;
    struct snic_files_stats st;
    assert_int_equal(snic_files_check(f), 0);
    snic_files_get_stats(f, &st);
    assert_int_equal(st.dirs, 1);
    assert_int_equal(st.files, state == SAME ? 4 : 3);
    judge_file(f, 0, "a", m->ids[2], 3 * SEG, 2);
    judge_file(f, m->ids[1], "b", m->ids[3], SEG + 100, 3);
    judge_file(f, 0, "c", m->ids[4], 0, 4);
    if (state == SAME) {
        uint64_t id;
        assert_int_equal(filefix_find(f, 0, "z", &id, NULL), 0);
    }
}

static void judge_checker(struct image *m, const struct damage *d, uint32_t number)
{
    struct snic_files_info info;
    struct heard h;
    uint32_t wrong = 0;
    int probed = snic_files_probe(m->fx.io, &info);
    size_t size = probed == 0 ? snic_files_memsize(&info, NULL) : SNIC_FILES_ALIGN;
    void *mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
    memset(&h, 0, sizeof(h));
    h.expected = d->expected;
    if (snic_files_examine(m->fx.io, mem, size, heard_finding, &h) != d->rc || h.found == 0 ||
        (h.found == 2) != (d->remark != 0) || (d->rc != 0 && h.errors == 0))
        fail_msg("damage %u, expected \"%s\", with %d: the checker reported\n%s", number,
                 d->expected, d->rc, h.all);
    if (d->unit == NODE || d->unit == SEGMENT)
        if (!d->remark && strstr(d->expected, "orphan") == NULL &&
            strcmp(d->expected, "no directory") != 0)
            assert_int_equal(h.number, d->index);
    assert_int_equal(snic_files_walk(m->fx.io, mem, size, count_item, &wrong), probed);
    if (d->unit <= NODE && strstr(d->expected, "differ") == NULL && d->state != SAME &&
        d->rc != SNIC_ERANGE && strstr(d->expected, "next id") == NULL)
        assert_true(wrong != 0);
    support_guard_free(mem);
}

static void damage_judge(struct image *m, const struct damage *d, uint32_t number)
{
    struct snic_files_info info;
    int rc;
    judge_checker(m, d, number);
    rc = filefix_try_mount(&m->fx);
    if (rc != d->rc)
        fail_msg("damage %u, \"%s\": mount gives %d, expected %d", number, d->expected, rc, d->rc);
    if (rc == 0) {
        judge_state(m, d->state);
        assert_int_equal(filefix_unmount(&m->fx), 0);
    }
    memcpy(m->p, snic_disk_bytes(m->good), (size_t)m->fx.disk_opts.size);
    assert_int_equal(snic_files_probe(m->fx.io, &info), 0);
}

/* ---- The list ---- */

#define BAD SNIC_ECORRUPT
#define ID(generation, node) ((uint64_t)(generation) << SNIC_FILES__SLOT_BITS | (node))
#define NEVER ((uint64_t)1 << 35)
#define LESS(n) (UINT64_MAX - (n) + 1)
#define RECORD(at) (SNIC_FILES__JE_HEAD + (at))
#define BODY(at) RECORD(SNIC_FILES__RECORD_HEAD + (at))

static const char super_wrong[] = "superblock with a wrong checksum or impossible numbers";

static const struct damage super_damages[] = {
    {SUPER, 0, 0, 4, SET, 0x11, 0, 0, SAME, "no superblock where one must be", 0},
    {SUPER, 0, 8, 8, ADD, 1, 0, 0, SAME, super_wrong, 0},
    {COPY, 0, 4, 4, SET, 9, 0, 0, SAME, "superblock of another version", 0},
    {COPY, 0, SNIC_FILES__SB_SIZE, 8, ADD, 1, 0, 0, SAME, super_wrong, 0},
    {SUPERS, 0, 0, 4, SET, 0, 0, SNIC_ENOENT, REFUSED, "no superblock where one must be", 0},
    {SUPERS, 0, 4, 4, SET, 2, 0, SNIC_EVERSION, REFUSED, "superblock of another version", 0},
    {SUPERS, 0, SNIC_FILES__SB_SIZE, 8, ADD, 1, 0, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_SEGMENT, 4, SET, 5000, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_BLOCK, 4, SET, 0, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_FILES, 4, SET, 0, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_FILES, 4, SET, 500, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_DIRS, 4, SET, 1u << 31, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_SEGMENTS, 8, ADD, 1, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_SLOT_BYTES, 8, ADD, 16384, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_JOURNAL_BYTES, 8, SET, 1, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_DATA, 8, SET, 0, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_DATA, 8, ADD, 512, 1, BAD, REFUSED, super_wrong, 0},
    {SUPERS, 0, SNIC_FILES__SB_SIZE, 8, ADD, 1u << 30, 1, SNIC_ERANGE, REFUSED,
     "image longer than the device", 0},
    {SUPER, 0, SNIC_FILES__SB_SEGMENTS, 8, ADD, LESS(1), 1, BAD, REFUSED,
     "two superblocks that differ", 0},
    {SUPERS, 0, SNIC_FILES__SB_IMAGE_ID, 8, ADD, 1, 1, BAD, REFUSED, "no checkpoint", 0},
};

static const struct damage checkpoint_damages[] = {
    {NEWER, 0, 8, 8, ADD, 1, 0, 0, SAME, "checkpoint header damaged or cut off", 1},
    {OLDER, 0, 40, 8, ADD, 1, 0, 0, SAME, "checkpoint header damaged or cut off", 1},
    {OLDER, 0, 0, 4, SET, 0x11, 1, 0, SAME, "checkpoint header damaged or cut off", 1},
    {HEADERS, 0, 8, 8, ADD, 1, 0, BAD, REFUSED, "no checkpoint", 0},
    {NEWER, 0, SNIC_FILES__SH_GENERATION, 8, ADD, 1, 1, BAD, REFUSED,
     "with the other slot's generation", 0},
    {NEWER, 0, SNIC_FILES__SH_GENERATION, 8, SET, 0, 1, BAD, REFUSED,
     "with an impossible generation", 0},
    {NEWER, 0, SNIC_FILES__SH_GENERATION, 8, ADD, 2, 1, BAD, REFUSED,
     "checkpoint chunk of another generation", 0},
    {OLDER, 0, SNIC_FILES__SH_GENERATION, 8, ADD, 2, 1, BAD, REFUSED,
     "checkpoint chunk of another generation", 0},
    {NEWER, 0, SNIC_FILES__SH_CHUNKS, 8, ADD, 1, 1, BAD, REFUSED, "a wrong number of chunks", 0},
    {NEWER, 0, SNIC_FILES__SH_SEQ, 8, SET, 0, 1, BAD, REFUSED, "with no entry number", 0},
    {NEWER, 0, SNIC_FILES__SH_SEQ, 8, ADD, 1, 1, BAD, REFUSED, "journal entry lost before", 0},
    {NEWER, 0, SNIC_FILES__SH_SEQ, 8, ADD, LESS(1), 1, BAD, REFUSED, "journal entry lost before",
     0},
    {NEWER, 0, SNIC_FILES__SH_SEQ, 8, ADD, 1000, 1, BAD, REFUSED, "journal entry lost before", 0},
    {NEWER, 0, SNIC_FILES__SH_NEXT_ID, 8, SET, (uint64_t)1 << 50, 1, BAD, REFUSED,
     "impossible number for the next id", 0},
    {NODE_CHUNK, 0, 0, 4, SET, 0, 0, BAD, REFUSED, "no chunk where the checkpoint has one", 0},
    {NODE_CHUNK, 0, 400, 1, ADD, 1, 0, BAD, REFUSED, "checkpoint chunk with a wrong checksum", 0},
    {SEG_CHUNK, 0, 16000, 1, ADD, 1, 0, BAD, REFUSED, "checkpoint chunk with a wrong checksum", 0},
    {NODE_CHUNK, 0, SNIC_FILES__CH_GENERATION, 8, ADD, LESS(2), 1, BAD, REFUSED,
     "checkpoint chunk of another generation", 0},
    {SEG_CHUNK, 0, SNIC_FILES__CH_INDEX, 8, SET, 0, 1, BAD, REFUSED,
     "checkpoint chunk of another place", 0},
};

static const struct damage node_damages[] = {
    {NODE, 2, SNIC_FILES__NR_ID, 8, ADD, 1, 1, BAD, REFUSED, "id of another place", 0},
    {NODE, 2, SNIC_FILES__NR_ID, 8, SET, ID(NEVER, 2), 1, BAD, REFUSED,
     "id that was never assigned", 0},
    {NODE, 2, SNIC_FILES__NR_KIND, 1, SET, 7, 1, BAD, REFUSED, "neither file nor directory", 0},
    {NODE, 2, SNIC_FILES__NR_KIND, 1, SET, 2, 1, BAD, REFUSED, "directory with a size", 0},
    {NODE, 4, SNIC_FILES__NR_KIND, 1, SET, 0, 1, BAD, REFUSED, "neither file nor directory", 0},
    {NODE, 1, SNIC_FILES__NR_KIND, 1, SET, 1, 1, BAD, REFUSED, "no directory", 0},
    {NODE, 1, SNIC_FILES__NR_PARENT, 8, SET, 5, 1, BAD, REFUSED, "directory that is not in the", 0},
    {NODE, 3, SNIC_FILES__NR_PARENT, 8, SET, ID(1, 30), 1, BAD, REFUSED, "orphan", 0},
    {NODE, 1, SNIC_FILES__NR_ID, 8, SET, 0, 1, BAD, REFUSED, "orphan", 0},
    {NODE, 2, SNIC_FILES__NR_SIZE, 8, SET, (uint64_t)1 << 60, 1, BAD, REFUSED, "impossible size",
     0},
    {NODE, 2, SNIC_FILES__NR_NAME, 1, SET, '/', 1, BAD, REFUSED, "impossible name", 0},
    {NODE, 2, SNIC_FILES__NR_NAME, 1, SET, '.', 1, BAD, REFUSED, "impossible name", 0},
    {NODE, 2, SNIC_FILES__NR_NAME_SIZE, 1, SET, 0, 1, BAD, REFUSED, "impossible name", 0},
    {NODE, 2, SNIC_FILES__NR_NAME_SIZE, 1, SET, 200, 1, BAD, REFUSED, "impossible name", 0},
    {NODE, 4, SNIC_FILES__NR_NAME, 1, SET, 'a', 1, BAD, REFUSED, "name that another of its", 0},
};

static const struct damage segment_damages[] = {
    {SEGMENT, 0, SNIC_FILES__SR_INIT, 4, SET, SEG + 1, 1, BAD, REFUSED, "more written bytes", 0},
    {SEGMENT, 0, SNIC_FILES__SR_LOGICAL, 4, SET, UINT32_MAX, 1, BAD, REFUSED, "place beyond the",
     0},
    {SEGMENT, 1, SNIC_FILES__SR_LOGICAL, 4, SET, 0, 1, BAD, REFUSED, "that another segment has", 0},
    {SEGMENT, 0, SNIC_FILES__SR_ID, 8, SET, ID(NEVER, 2), 1, BAD, REFUSED, "owner that has never",
     0},
    {SEGMENT, 0, SNIC_FILES__SR_ID, 8, SET, ID(1, 4000), 1, BAD, REFUSED, "owner that has never",
     0},
    {SEGMENT, 0, SNIC_FILES__SR_ID, 8, ADD, ID(1, 0), 1, BAD, REFUSED, "owner younger than", 0},
};

static const struct damage journal_damages[] = {
    {ENTRY, LAST, 8, 8, ADD, 1, 0, 0, BEFORE, "journal entry damaged or cut off", 1},
    {ENTRY, LAST, 80, 1, ADD, 1, 0, 0, BEFORE, "journal entry damaged or cut off", 1},
    {ENTRY, 1, 8, 8, ADD, 1, 0, BAD, REFUSED, "journal entry lost before", 0},
    {ENTRY, 0, 0, 4, SET, 0, 0, BAD, REFUSED, "journal entry lost before", 0},
    {ENTRY, 1, SNIC_FILES__JE_GENERATION, 8, ADD, LESS(2), 1, BAD, REFUSED,
     "journal entry lost before", 0},
    {ENTRY, 2, SNIC_FILES__JE_SEQ, 8, ADD, 1, 1, BAD, REFUSED, "journal entry lost before", 0},
    {ENTRY, LAST, SNIC_FILES__JE_SEQ, 8, ADD, LESS(1), 1, BAD, REFUSED, "journal entry lost before",
     0},
    {ENTRY, LAST, RECORD(0), 1, SET, 9, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(1), 1, SET, 1, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(2), 2, SET, 0, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(2), 2, ADD, 4, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(2), 2, SET, 8000, 1, BAD, REFUSED, "impossible record in journal entry",
     0},
    {ENTRY, LAST, RECORD(4), 4, SET, 0, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(4), 4, SET, 41, 1, BAD, REFUSED, "impossible record in journal entry", 0},
    {ENTRY, LAST, RECORD(0), 1, SET, FILES_RECORD_SEG, 1, BAD, REFUSED,
     "impossible record in journal entry", 0},
    {ENTRY, LAST, SNIC_FILES__JE_RECORDS, 4, ADD, 1, 1, BAD, REFUSED,
     "impossible record in journal entry", 0},
    {ENTRY, LAST, SNIC_FILES__JE_RECORDS, 4, SET, 0, 1, BAD, REFUSED,
     "impossible record in journal entry", 0},
    {ENTRY, LAST, BODY(SNIC_FILES__NR_KIND), 1, SET, 7, 1, BAD, REFUSED,
     "neither file nor directory", 0},
    {ENTRY, LAST, BODY(SNIC_FILES__NR_NAME), 1, SET, 'a', 1, BAD, REFUSED,
     "name that another of its", 0},
    {ENTRY, LAST, BODY(SNIC_FILES__NR_NAME_SIZE), 1, SET, 90, 1, BAD, REFUSED, "impossible name",
     0},
    {ENTRY, LAST, BODY(SNIC_FILES__NR_PARENT), 8, SET, ID(3, 20), 1, BAD, REFUSED, "orphan", 0},
};

static void try_all(const struct damage *list, size_t count)
{
    static struct image m;
    uint32_t i;
    image_make(&m);
    for (i = 0; i < count; i++) {
        damage_plant(&m, &list[i]);
        damage_judge(&m, &list[i], i);
    }
    snic_disk_close(m.good);
    filefix_close(&m.fx);
}

/* Superblocks: every field, one copy or both. */
static void test_files_planted_superblock_found(void **state)
{
    (void)state;
    try_all(super_damages, SNIC_COUNTOF(super_damages));
}

/* Checkpoint headers and chunks: every field, sums right and wrong. */
static void test_files_planted_checkpoint_found(void **state)
{
    (void)state;
    try_all(checkpoint_damages, SNIC_COUNTOF(checkpoint_damages));
}

/* Files and directories that cannot be, alone or beside each other. */
static void test_files_planted_node_found(void **state)
{
    (void)state;
    try_all(node_damages, SNIC_COUNTOF(node_damages));
}

/* Segments that cannot be. */
static void test_files_planted_segment_found(void **state)
{
    (void)state;
    try_all(segment_damages, SNIC_COUNTOF(segment_damages));
}

/* Journal entries: the last one damaged is an operation that was not; others are a gap. */
static void test_files_planted_journal_found(void **state)
{
    (void)state;
    try_all(journal_damages, SNIC_COUNTOF(journal_damages));
}

/* ---- Damage that takes more than one field ---- */

static void plant_id(const struct image *m, uint64_t place, uint64_t id, uint64_t chunk)
{
    snic_put_le64(m->p + place, id);
    image_seal(m, chunk, SNIC_FILES__CHUNK, IMAGE);
}

static uint64_t node_at(const struct image *m, uint32_t node)
{
    return NODES(m->g) + SNIC_FILES__CHUNK_HEAD + node * SNIC_FILES__NODE_BYTES;
}

static uint64_t seg_at(const struct image *m, uint32_t seg)
{
    return SEGS(m->g) + SNIC_FILES__CHUNK_HEAD + seg * SNIC_FILES__SEG_BYTES;
}

static void plant_parent_file(const struct image *m)
{
    plant_id(m, node_at(m, 3) + SNIC_FILES__NR_PARENT, m->ids[2], NODES(m->g));
}

static void plant_parent_itself(const struct image *m)
{
    plant_id(m, node_at(m, 3) + SNIC_FILES__NR_PARENT, m->ids[3], NODES(m->g));
}

static void plant_segment_of_directory(const struct image *m)
{
    plant_id(m, seg_at(m, 3), m->ids[1], SEGS(m->g));
}

/* The first segment of b claims to be the first of a, as another does. */
static void plant_segment_twice(const struct image *m)
{
    plant_id(m, seg_at(m, 3), m->ids[2], SEGS(m->g));
}

/* A free segment held by a, far behind its end: leaked until a is cut. */
static void plant_segment_leaked(const struct image *m)
{
    snic_put_le32(m->p + seg_at(m, 20) + SNIC_FILES__SR_LOGICAL, 50);
    snic_put_le32(m->p + seg_at(m, 20) + SNIC_FILES__SR_INIT, 100);
    plant_id(m, seg_at(m, 20), m->ids[2], SEGS(m->g));
}

/* Every place of the table that is free holds a file: the count is above the limit. */
static void plant_crowd(const struct image *m)
{
    uint32_t i;
    for (i = 6; i <= 40; i++) {
        unsigned char *p = m->p + node_at(m, i);
        memset(p, 0, SNIC_FILES__NODE_BYTES);
        snic_put_le64(p, ID(1, i));
        p[SNIC_FILES__NR_KIND] = SNIC_FILES_FILE;
        p[SNIC_FILES__NR_NAME_SIZE] = 2;
        p[SNIC_FILES__NR_NAME] = 'q';
        p[SNIC_FILES__NR_NAME + 1] = (unsigned char)('A' + i);
    }
    image_seal(m, NODES(m->g), SNIC_FILES__CHUNK, IMAGE);
}

/* A unit that is right elsewhere: each is bound to its place. */
static void plant_entry_again(const struct image *m)
{
    memcpy(m->p + image_entry(m, LAST) + BLOCK, m->p + image_entry(m, LAST), BLOCK);
}

static void plant_slot_in_the_other(const struct image *m)
{
    memcpy(m->p + SLOT(m->g + 1), m->p + SLOT(m->g), (size_t)3 * SNIC_FILES__CHUNK);
}

static void plant_superblock_in_copy(const struct image *m)
{
    memcpy(m->p + SNIC_FILES__COPY_OFFSET, m->p, SNIC_FILES__SUPER_BYTES);
}

/* Two entries change places, each sealed for the new one. */
static void plant_entries_swapped(const struct image *m)
{
    unsigned char keep[BLOCK];
    memcpy(keep, m->p + image_entry(m, 1), BLOCK);
    memcpy(m->p + image_entry(m, 1), m->p + image_entry(m, 2), BLOCK);
    memcpy(m->p + image_entry(m, 2), keep, BLOCK);
    image_seal_entry(m, 1);
    image_seal_entry(m, 2);
}

/* An entry of the next generation, whose number does not continue this one's. */
static void plant_entry_of_the_future(const struct image *m)
{
    uint64_t at = HALF(m->g + 1);
    memcpy(m->p + at, m->p + image_entry(m, LAST), BLOCK);
    snic_put_le64(m->p + at + SNIC_FILES__JE_GENERATION, m->g + 1);
    image_seal(m, at, snic_get_le32(m->p + at + SNIC_FILES__JE_BYTES), IMAGE);
}

static const struct {
    void (*plant)(const struct image *m);
    struct damage d;
} special_damages[] = {
    {plant_parent_file, {.rc = BAD, .expected = "file in something that is no directory"}},
    {plant_parent_itself, {.rc = BAD, .expected = "file in something that is no directory"}},
    {plant_segment_of_directory, {.rc = BAD, .expected = "owner is a directory"}},
    {plant_segment_twice, {.rc = BAD, .expected = "that another segment has"}},
    {plant_segment_leaked,
     {.state = SAME, .expected = "segments beyond the end of their file", .remark = 1}},
    {plant_crowd, {.rc = BAD, .expected = "more files than the image takes"}},
    {plant_entry_again,
     {.state = SAME, .expected = "journal entry damaged or cut off", .remark = 1}},
    {plant_slot_in_the_other,
     {.state = SAME, .expected = "checkpoint header damaged or cut off", .remark = 1}},
    {plant_superblock_in_copy, {.state = SAME, .expected = super_wrong}},
    {plant_entries_swapped, {.rc = BAD, .expected = "journal entry lost before"}},
    {plant_entry_of_the_future, {.rc = BAD, .expected = "journal entry lost before"}},
};

/* What only shows when structures are held against each other, or is right at another place. */
static void test_files_planted_relation_found(void **state)
{
    static struct image m;
    uint32_t i;
    (void)state;
    image_make(&m);
    for (i = 0; i < SNIC_COUNTOF(special_damages); i++) {
        struct damage d = special_damages[i].d;
        d.unit = ENTRY;
        special_damages[i].plant(&m);
        damage_judge(&m, &d, 100 + i);
    }
    snic_disk_close(m.good);
    filefix_close(&m.fx);
}

/* ---- A whole image is shown whole ---- */

struct shown {
    uint32_t parts[SNIC_FILES_PART_FREE + 1];
    uint32_t wrong;
    uint32_t replayed;
    uint64_t owned;
    uint64_t idle;
    uint64_t next_place; /* of the file's segments */
};

static void shown_item(void *ctx, const struct snic_files_item *it)
{
    struct shown *s = ctx;
    assert_in_range(it->part, 1, SNIC_FILES_PART_FREE);
    s->parts[it->part]++;
    s->wrong += it->error != 0;
    s->replayed += it->part == SNIC_FILES_PART_ENTRY && strcmp(it->what, "replayed") == 0;
    if (it->part == SNIC_FILES_PART_NODE)
        s->next_place = 0;
    if (it->part == SNIC_FILES_PART_SEGMENT) {
        assert_int_equal(it->logical, s->next_place++);
        s->owned++;
    }
    if (it->part == SNIC_FILES_PART_FREE)
        s->idle += it->count;
}

/* Both superblocks, slots and all chunks, the entries to replay, nodes, and each segment once. */
static void test_files_walk_whole_image_every_part_shown(void **state)
{
    static struct image m;
    struct snic_files_info info;
    struct shown s;
    size_t size;
    void *mem;
    (void)state;
    image_make(&m);
    assert_int_equal(snic_files_probe(m.fx.io, &info), 0);
    size = snic_files_memsize(&info, NULL);
    mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
    memset(&s, 0, sizeof(s));
    assert_int_equal(snic_files_walk(m.fx.io, mem, size, shown_item, &s), 0);
    assert_int_equal(s.parts[SNIC_FILES_PART_SUPER], 2);
    assert_int_equal(s.parts[SNIC_FILES_PART_SLOT], 2);
    assert_int_equal(s.parts[SNIC_FILES_PART_CHUNK], 4);
    assert_int_equal(s.parts[SNIC_FILES_PART_NODE], 5);
    assert_int_equal(s.owned, 5);
    assert_int_equal(s.owned + s.idle, info.segments);
    assert_int_equal(s.replayed, m.entries);
    assert_true(s.parts[SNIC_FILES_PART_RECORD] >= m.entries);
    assert_int_equal(s.wrong, 0);
    support_guard_free(mem);
    snic_disk_close(m.good);
    filefix_close(&m.fx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_planted_superblock_found),
        cmocka_unit_test(test_files_planted_checkpoint_found),
        cmocka_unit_test(test_files_planted_node_found),
        cmocka_unit_test(test_files_planted_segment_found),
        cmocka_unit_test(test_files_planted_journal_found),
        cmocka_unit_test(test_files_planted_relation_found),
        cmocka_unit_test(test_files_walk_whole_image_every_part_shown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
