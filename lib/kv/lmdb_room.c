/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Free space: of the object file for blocks, of the disk and of LMDB's map for records.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <sys/statvfs.h>

/**
 * Free bytes of the disk at which new records are refused. Objects stop growing earlier, at
 * SNIC_LMDB__KEPT_OBJECTS: without records, free blocks of the object file cannot be reused and
 * files cannot be overwritten. Removals may use the rest.
 */
#define SNIC_LMDB__KEPT_RECORDS (16ULL << 20)
#define SNIC_LMDB__MAP_RESERVE (4ULL << 20) /* of the record map, likewise */
#define SNIC_LMDB__LOW (256ULL << 20)       /* unused pages are counted below this */
#define SNIC_LMDB__TURNING 64U              /* unused pages that small transactions pass on */
#define SNIC_LMDB__ROOM_NS 100000000ULL     /* for which free space is remembered */

/** Shared: only the records have the blocks taken by other handles. There may be 65,000 records, so
 * their sum is cached. */
static void lmdb_space_sum(struct lmdb_kv *s)
{
    struct lmdb_key k = lmdb_key_number('F', 0);
    struct lmdb_value v = {0};
    s->sum_free = s->pool_blocks;
    s->sum_begun = (uint64_t)s->segment_end * LMDB_SEGMENT;
    while (lmdb_seek(s, &k, &v) == 0 && k.bytes[0] == 'F') {
        uint64_t n = snic_get_be64(k.bytes + 1);
        uint64_t used = 0;
        for (uint32_t i = 0; i < LMDB_WORDS && v.size == LMDB_SEGMENT_RECORD; i++)
            used += (uint64_t)__builtin_popcountll(snic_get_le64(v.data + 8 + 8 * i));
        if (v.size == LMDB_SEGMENT_RECORD && snic_get_le32(v.data + 4) > used)
            s->sum_free += snic_get_le32(v.data + 4) - used;
        s->sum_begun = (n + 1) * LMDB_SEGMENT;
        k = lmdb_key_number('F', n + 1);
    }
    s->sum_ns = snic_loop_clock(s->kv.loop) + SNIC_LMDB__ROOM_NS;
}

/** Free blocks of the file, and those of segments that were ever used. */
static void lmdb_space_own(struct lmdb_kv *s, uint64_t *own, uint64_t *begun)
{
    if (s->mode == LMDB_SHARED && snic_loop_now(s->kv.loop) >= s->sum_ns)
        lmdb_space_sum(s);
    *own = s->mode == LMDB_SHARED ? s->sum_free : s->blocks_free;
    *begun = s->mode == LMDB_SHARED ? s->sum_begun : (uint64_t)s->segment_end * LMDB_SEGMENT;
}

void lmdb_space_bytes(struct lmdb_kv *s, uint64_t *all, uint64_t *available)
{
    struct statvfs f;
    uint64_t unused = 0;
    uint64_t total = 0;
    if (fstatvfs(s->object_fd, &f) == 0) {
        unused = (uint64_t)f.f_bavail * f.f_frsize;
        unused = unused < SNIC_LMDB__KEPT_OBJECTS ? 0 : unused - SNIC_LMDB__KEPT_OBJECTS;
        unused = snic_align_down(unused, (uint64_t)LMDB_PREPARE_STEP * LMDB_BLOCK);
        /* Without the blocks reserved for root: df would count them as used. */
        total =
            (uint64_t)(f.f_blocks - (f.f_bfree - snic_min_u64(f.f_bfree, f.f_bavail))) * f.f_frsize;
    }
    uint64_t most = (uint64_t)s->segment_count * LMDB_SEGMENT * LMDB_BLOCK;
    *all = snic_min_u64(total, most + s->opts.map_bytes);
    if (available == NULL)
        return;
    uint64_t own;
    uint64_t begun;
    lmdb_space_own(s, &own, &begun);
    own *= LMDB_BLOCK;
    begun *= LMDB_BLOCK;
    uint64_t more = most > begun ? most - begun : 0;
    *available = snic_min_u64(own + snic_min_u64(unused, more), *all);
}

/**
 * Unused pages of the data base. Some of them were freed by the last transactions and are usable
 * only after the next ones, which free as many: those do not count.
 */
static uint64_t lmdb_space_unused(struct lmdb_kv *s)
{
    uint64_t pages = 0;
    MDB_cursor *c = NULL;
    if (lmdb_snapshot(s) != 0 || mdb_cursor_open(s->snap, 0, &c) != 0)
        return 0;
    MDB_val k;
    MDB_val v;
    while (mdb_cursor_get(c, &k, &v, MDB_NEXT) == 0) {
        size_t n = 0;
        if (v.mv_size >= sizeof(n))
            memcpy(&n, v.mv_data, sizeof(n));
        pages += n;
    }
    mdb_cursor_close(c);
    return pages < SNIC_LMDB__TURNING ? 0 : pages - SNIC_LMDB__TURNING;
}

/** Bytes that records may still take, of the map and of the disk, without the reserves. */
static uint64_t lmdb_space_room(struct lmdb_kv *s)
{
    struct statvfs f;
    MDB_envinfo info;
    uint64_t room = 0;
    uint64_t disk = UINT64_MAX;
    if (mdb_env_info(s->env, &info) == 0) {
        uint64_t kept = snic_min_u64(SNIC_LMDB__MAP_RESERVE, info.me_mapsize / 8);
        uint64_t left = info.me_mapsize - (uint64_t)info.me_last_pgno * 4096;
        room = left < kept ? 0 : left - kept;
    }
    if (fstatvfs(s->object_fd, &f) == 0) {
        disk = (uint64_t)f.f_bavail * f.f_frsize;
        disk = disk < SNIC_LMDB__KEPT_RECORDS ? 0 : disk - SNIC_LMDB__KEPT_RECORDS;
    }
    uint64_t both = snic_min_u64(room, disk);
    return both < SNIC_LMDB__LOW ? both + lmdb_space_unused(s) * 4096 : both;
}

static void lmdb_space_look(struct lmdb_kv *s)
{
    uint64_t now = snic_loop_now(s->kv.loop);
    if (now >= s->room_ns || (s->room < SNIC_LMDB__LOW && s->room_seq != s->durable_seq)) {
        s->room = lmdb_space_room(s);
        s->room_ns = now + SNIC_LMDB__ROOM_NS;
        s->room_seq = s->durable_seq;
    }
}

/** Bytes of records in memory. */
static uint64_t lmdb_space_pending(const struct lmdb_kv *s)
{
    return s->active->table.bytes + (s->flight == NULL ? 0 : s->flight->table.bytes);
}

int lmdb_space_tight(struct lmdb_kv *s)
{
    if (s->full != 0 || lmdb_space_pending(s) == 0)
        return 0;
    lmdb_space_look(s);
    return s->room < 8 * lmdb_space_pending(s);
}

int lmdb_space_admit(struct lmdb_kv *s, uint64_t bytes, int reserve)
{
    if (bytes == 0 || reserve)
        return 0;
    if (s->full != 0)
        return s->full;
    lmdb_space_look(s);
    /* Copy on write: a change may copy its page, and those above it. */
    return s->room < 4 * (lmdb_space_pending(s) + bytes) ? SNIC_ENOSPC : 0;
}

#endif /* SNIC_WITH_LMDB */
