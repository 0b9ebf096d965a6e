/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rebuilding the index from the log. Every record is checked; the newest version
 * of a key wins wherever it lies, because compaction moves records without
 * changing their version. Invalid bytes are skipped to the next record that is
 * whole and belongs to its file, and reported. The log continues in a new segment.
 */
#include "store_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_PIECE (1u << 20)

struct recover_file {
    uint64_t number;
    uint64_t file;
    uint64_t size;
};

struct recover {
    struct kv_store *store;
    struct kv_file_req req;
    int done;
    struct recover_file *files;
    size_t count;
    size_t room;
    int no_memory;
    char foreign[101]; /* a file that is not the store's; the beginning of its name */
    unsigned char *buffer;
    size_t buffer_size;
    uint64_t flush_all;      /* newest FLUSH of all databases */
    uint64_t *flush_version; /* newest FLUSH of each          */
    uint16_t *place;         /* where the index has each database of the log, of SWAPDB */
    uint64_t beyond_version; /* newest key of a database that there is not */
    uint32_t beyond;         /* the highest of these                       */
    uint64_t records;        /* of the current segment */
    uint64_t skipped;        /* bytes that were no records and not zero */
};

static void recover_done(struct kv_file_req *r)
{
    struct recover *v = r->owner;

    v->store->requests--;
    v->done = 1;
}

/* Submit v->req and run the loop until it is done. */
static int64_t recover_run(struct recover *v)
{
    v->done = 0;
    v->req.owner = v;
    kv_store_submit(v->store, &v->req, recover_done);
    while (!v->done)
        if (snic_loop_once(v->store->opts.loop, 1000000000u) < 0)
            return SNIC_EIO;
    return v->req.result;
}

static void recover_entry(struct kv_file_req *r, const char *name, uint64_t file, uint64_t size)
{
    struct recover *v = r->owner;
    uint64_t number = 0;

    if (strlen(name) != 20 || sscanf(name, "log-%16" SCNx64, &number) != 1 || number == 0) {
        kv_store_log(v->store, 1, "file '%.100s' is not a log segment: ignored", name);
        (void)snprintf(v->foreign, sizeof(v->foreign), "%s", name);
        return;
    }
    if (v->count == v->room) {
        size_t room = v->room == 0 ? 64 : v->room * 2;
        struct recover_file *files = realloc(v->files, room * sizeof(*files));

        if (files == NULL) {
            v->no_memory = 1;
            return;
        }
        v->files = files;
        v->room = room;
    }
    v->files[v->count].number = number;
    v->files[v->count].file = file;
    v->files[v->count].size = size;
    v->count++;
}

static int recover_order(const void *a, const void *b)
{
    const struct recover_file *x = a;
    const struct recover_file *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* From here on the log's numbers mean other databases of the index; the index follows at the end.
 */
static int recover_swap(struct recover *v, const struct kv_record *r, uint32_t other,
                        uint64_t address)
{
    uint32_t databases = v->store->index.databases;
    uint16_t kept;

    if (r->database >= databases || other >= databases) {
        v->beyond_version = snic_max_u64(v->beyond_version, r->version);
        v->beyond = (uint32_t)snic_max_u64(v->beyond, snic_max_u64(r->database, other));
        return 0;
    }
    kept = v->place[other];
    v->place[other] = v->place[r->database];
    v->place[r->database] = kept;
    return kv_swap_note(v->store, address, r->database, other);
}

/* The databases get the numbers that they have at the end of the log. */
static int recover_renumber(struct recover *v)
{
    struct kv_store *s = v->store;
    uint16_t *number;

    if (s->swaps_count == 0)
        return 0;
    number = calloc(s->index.databases, sizeof(*number));
    if (number == NULL || kv_index_reserve(&s->index) != 0) {
        free(number);
        return SNIC_ENOMEM;
    }
    for (uint32_t d = 0; d < s->index.databases; d++)
        number[v->place[d]] = (uint16_t)d;
    kv_swap_index(s, number);
    free(number);
    return 0;
}

/* Take one record at @p address into the index. */
static int recover_record(struct recover *v, const struct kv_record *r, const unsigned char *key,
                          const unsigned char *value, uint64_t address)
{
    struct kv_store *s = v->store;
    unsigned char hash[16];
    uint32_t d = r->database < s->index.databases ? v->place[r->database] : r->database;
    uint64_t low;
    uint64_t high;
    struct kv_entry *e;

    s->version = snic_max_u64(s->version, r->version);
    if (r->type == KV_RECORD_FLUSH && r->database == KV_ALL_DATABASES)
        v->flush_all = snic_max_u64(v->flush_all, r->version);
    if (r->type == KV_RECORD_FLUSH && r->database < s->index.databases)
        v->flush_version[d] = snic_max_u64(v->flush_version[d], r->version);
    if (r->type == KV_RECORD_SWAP)
        return recover_swap(v, r, kv_swap_other(r, value), address);
    if (r->type != KV_RECORD_SET && r->type != KV_RECORD_DEL)
        return 0;
    if (r->database == KV_MARK_DATABASE)
        return 0;
    if (r->database >= s->index.databases) {
        if (r->type == KV_RECORD_SET) {
            v->beyond_version = snic_max_u64(v->beyond_version, r->version);
            v->beyond = r->database > v->beyond ? r->database : v->beyond;
        }
        return 0;
    }
    if (r->version < v->flush_all || r->version < v->flush_version[d])
        return 0;
    kv_store_hash(s, d, key, r->key_size, hash, &low, &high);
    e = kv_index_find(&s->index, low, d, key, r->key_size);
    if (e == NULL) {
        e = kv_index_add(&s->index, low, d, key, r->key_size);
        if (e == NULL)
            return SNIC_ENOMEM;
        e->hash_high = high;
    } else if (r->version < e->version) {
        return 0;
    }
    e->version = r->version;
    e->address = address;
    e->value_size = r->value_size;
    e->flags = r->type == KV_RECORD_DEL ? KV_ENTRY_TOMB : 0;
    kv_index_expire(&s->index, e, r->type == KV_RECORD_DEL ? 0 : r->expire_ms);
    return 0;
}

/*
 * Take what records the buffer holds; @p last: no more bytes follow. Returns the
 * bytes consumed, or SNIC_ENOMEM.
 */
static int64_t recover_buffer(struct recover *v, struct kv_segment *g, uint64_t address,
                              size_t size, int last)
{
    size_t at = 0;

    while (size - at >= KV_RECORD_HEADER) {
        const unsigned char *key;
        const unsigned char *value;
        struct kv_record r;
        int64_t n = kv_record_decode(&r, v->buffer + at, size - at, &key, &value);
        int fits = n == 0 && kv_record_bytes(r.key_size, r.value_size) <= v->buffer_size - KV_PIECE;

        if (fits && !last)
            break; /* the rest of the record comes with the next piece */
        if (n <= 0 || r.file != g->file) {
            v->skipped += snic_get_le64(v->buffer + at) != 0 ? 8 : 0;
            at += 8;
            continue;
        }
        if (recover_record(v, &r, key, value, address + at) != 0)
            return SNIC_ENOMEM;
        v->records++;
        if (r.type != KV_RECORD_PAD)
            g->used += (uint64_t)n;
        if (r.type == KV_RECORD_DEL || r.type == KV_RECORD_FLUSH)
            g->kept += (uint64_t)n;
        g->swaps += r.type == KV_RECORD_SWAP;
        at += (uint64_t)n < size - at ? (size_t)n : size - at;
        if (r.type == KV_RECORD_PAD && (uint64_t)n > size)
            break;
    }
    return (int64_t)at;
}

static int recover_segment(struct recover *v, struct kv_segment *g, uint64_t file_size, char *error,
                           size_t error_size)
{
    struct kv_store *s = v->store;
    uint64_t base = g->number * s->opts.segment_bytes;
    uint64_t size = snic_min_u64(file_size, s->opts.segment_bytes);
    uint64_t offset = 0; /* of the next read   */
    size_t carried = 0;  /* bytes left of those before */

    v->records = 0;
    v->skipped = 0;
    while (offset < size) {
        uint64_t piece = snic_min_u64(KV_PIECE, size - offset);
        int64_t n;

        v->req.op = KV_FILE_READ;
        v->req.file = g->file;
        v->req.offset = offset;
        v->req.size = piece;
        v->req.data = v->buffer + carried;
        n = recover_run(v);
        if (n != (int64_t)piece) {
            snprintf(error, error_size, "cannot read log segment %" PRIu64 " at %" PRIu64 ": %s",
                     g->number, offset, snic_strerror(n < 0 ? (int)n : SNIC_EIO));
            return n < 0 ? (int)n : SNIC_EIO;
        }
        n = recover_buffer(v, g, base + offset - carried, carried + piece, offset + piece == size);
        if (n < 0)
            return SNIC_ENOMEM;
        carried = carried + piece - (size_t)n;
        memmove(v->buffer, v->buffer + n, carried);
        offset += piece;
    }
    if (v->skipped > 0)
        kv_store_log(
            s, 1, "log segment %" PRIu64 ": about %" PRIu64 " bytes are not valid records: skipped",
            g->number, v->skipped);
    return 0;
}

static int recover_delete(struct recover *v, struct kv_segment *g)
{
    v->req.op = KV_FILE_DELETE;
    v->req.file = g->file;
    snprintf(v->req.name, sizeof(v->req.name), "log-%016" PRIx64, g->number);
    return (int)recover_run(v);
}

/* What is deleted or flushed goes; what stays is counted as live. */
static void recover_sweep_visit(void *ctx, struct kv_entry *e)
{
    struct recover *v = ctx;
    struct kv_store *s = v->store;

    if ((e->flags & KV_ENTRY_TOMB) != 0 || e->version < v->flush_all ||
        e->version < v->flush_version[e->database])
        kv_index_remove(&s->index, e);
    else
        kv_log_live(s, e->address, kv_record_bytes(e->key_size, e->value_size));
}

/* What is not looked at would be lost to the next compaction: no segment beyond our size. */
static int recover_sizes(const struct recover *v, char *error, size_t error_size)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->files[i].size > v->store->opts.segment_bytes) {
            snprintf(error, error_size,
                     "log segment %" PRIu64 " has %" PRIu64
                     " bytes: set --segment to at least that",
                     v->files[i].number, v->files[i].size);
            return SNIC_EINVAL;
        }
    return 0;
}

static int recover_files(struct recover *v, char *error, size_t error_size)
{
    struct kv_store *s = v->store;
    uint64_t cursor = 0;
    int r = recover_sizes(v, error, error_size);

    for (size_t i = 0; r == 0 && i < v->count; i++) {
        struct kv_segment *g = kv_log_segment_add(s, v->files[i].number);

        if (g == NULL)
            return SNIC_ENOMEM;
        g->file = v->files[i].file;
        g->state = KV_SEGMENT_SEALED;
        s->tail_segment = g->number;
        r = recover_segment(v, g, v->files[i].size, error, error_size);
        if (r == 0 && v->records == 0) {
            r = recover_delete(v, g); /* made ahead, never used */
            kv_log_segment_drop(s, g);
        }
    }
    if (r == 0 && v->beyond_version > v->flush_all) {
        snprintf(error, error_size, "the store has keys of database %u: set --databases above that",
                 v->beyond);
        r = SNIC_EINVAL;
    }
    if (r != 0)
        return r;
    do
        cursor = kv_index_scan(&s->index, cursor, 4096, recover_sweep_visit, v);
    while (cursor != 0);
    return recover_renumber(v);
}

static void recover_free(struct recover *v)
{
    free(v->files);
    free(v->flush_version);
    free(v->place);
    free(v->buffer);
}

int kv_recover(struct kv_store *s, char *error, size_t error_size)
{
    struct recover v;
    int r;

    memset(&v, 0, sizeof(v));
    v.store = s;
    v.buffer_size = (size_t)s->boundary + KV_PIECE;
    v.buffer = malloc(v.buffer_size);
    v.flush_version = calloc(s->index.databases, sizeof(uint64_t));
    v.place = calloc(s->index.databases, sizeof(*v.place));
    if (v.buffer == NULL || v.flush_version == NULL || v.place == NULL) {
        recover_free(&v);
        return SNIC_ENOMEM;
    }
    for (uint32_t d = 0; d < s->index.databases; d++)
        v.place[d] = (uint16_t)d;
    v.req.op = KV_FILE_LIST;
    v.req.entry = recover_entry;
    r = (int)recover_run(&v);
    if (v.no_memory)
        r = SNIC_ENOMEM;
    if (r < 0) {
        snprintf(error, error_size, "cannot list the log segments: %s", snic_strerror(r));
    } else if (v.count == 0 && v.foreign[0] != 0 && s->opts.files->image) {
        r = SNIC_EINVAL; /* their space is theirs: nothing is written */
        snprintf(error, error_size,
                 "it holds files of another program ('%s'): name another image with --file",
                 v.foreign);
    } else {
        if (v.count > 0)
            qsort(v.files, v.count, sizeof(*v.files), recover_order);
        r = recover_files(&v, error, error_size);
    }
    recover_free(&v);
    return r;
}
