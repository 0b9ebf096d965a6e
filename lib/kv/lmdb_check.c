/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The metas of LMDB's file, and whether all its pages are present.
 *
 * The file's first two pages are its metas: each names a state of the data base, the one with the
 * larger transaction number is the latest. The last pages that a meta counts may be missing in a
 * whole file, when they were free before they were ever written: only pages that a tree uses must
 * be there. So when the file is shorter than its metas count, the trees are walked, through read()
 * and not through LMDB's mapping.
 *
 * LMDB trusts the contents of pages, too. A walk of all pages (SNIC_KV_OPEN_VERIFY) checks those
 * whose damage would end the process or spread: the sizes and places of nodes, large values, the
 * lists of free pages, and that no page is used twice.
 *
 * Format: of LMDB's data version 1, with the machine's own byte order and word size, as its mdb.c
 * defines MDB_page, MDB_meta, MDB_db and MDB_node.
 */
#include "kv/lmdb_check.h"
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SNIC_LMDB__META_MAGIC 0xBEEFC0DEU
#define SNIC_LMDB__NO_PAGE (~(size_t)0)

enum {
    LMDB_META_VERSION = 1,
    LMDB_METAS = 2,
    LMDB_PAGE_MIN = 512,
    LMDB_PAGE_MAX = 1 << 16,
    LMDB_PAGE_BRANCH = 1,
    LMDB_PAGE_LEAF = 2,
    LMDB_PAGE_BIG = 4,
    LMDB_PAGE_WRITING = 0xc010, /* flags with a meaning in memory only */
    LMDB_NODE_HEAD = 8,
    LMDB_NODE_KEY_MAX = 511,
    LMDB_FREE_STEP = 512,     /* numbers of free pages read at once */
    LMDB_NODE_BIG = 1,        /* its value is in pages of its own */
    LMDB_TREE_DEPTH_MAX = 32, /* LMDB's own */
    LMDB_META_TRIES = 20,     /* a process may be writing one ... */
    LMDB_META_WAIT_US = 2000,
    LMDB_CHECK_TRIES = 1000
};

struct lmdb_page_head {
    size_t number;
    uint16_t pad;
    uint16_t flags;
    uint16_t lower; /* the end of the nodes' places, which follow this head */
    uint16_t upper;
};
enum { LMDB_PAGE_HEAD = offsetof(struct lmdb_page_head, upper) + 2 };

struct lmdb_tree {
    uint32_t page_bytes; /* of the first tree: the file's */
    uint16_t flags;
    uint16_t depth;
    size_t branches;
    size_t leaves;
    size_t big; /* pages of values */
    size_t entries;
    size_t root;
};

struct lmdb_meta {
    uint32_t magic;
    uint32_t version;
    size_t address;
    size_t map_bytes;
    struct lmdb_tree trees[2]; /* the free pages; the data */
    size_t last;               /* page */
    size_t txn;
};

/** A walk through a tree: the pages from the root to where it is. */
struct lmdb_walk {
    int fd;
    uint64_t size; /* of the file */
    uint32_t page_bytes;
    size_t last;
    uint64_t left; /* pages it may still read: the file has no more */
    unsigned char *pages;
    unsigned char *used; /* walk of all pages: a bit for each; else NULL */
    int free_tree;       /* the tree of free pages is walked */
    uint32_t at[LMDB_TREE_DEPTH_MAX];
    uint32_t counts[LMDB_TREE_DEPTH_MAX];
    char *text;
};

/** 1; 0: there is none, or it is none of this version's. */
static int lmdb_meta_read(int fd, off_t at, struct lmdb_meta *m)
{
    return pread(fd, m, sizeof(*m), at + LMDB_PAGE_HEAD) == (ssize_t)sizeof(*m) &&
           m->magic == SNIC_LMDB__META_MAGIC && m->version == LMDB_META_VERSION;
}

static int lmdb_tree_valid(const struct lmdb_tree *t, size_t last)
{
    if (t->root == SNIC_LMDB__NO_PAGE)
        return t->depth == 0;
    return t->depth > 0 && t->depth <= LMDB_TREE_DEPTH_MAX && t->root >= LMDB_METAS &&
           t->root <= last;
}

static int lmdb_meta_valid(const struct lmdb_meta *m, uint32_t page_bytes)
{
    return page_bytes >= LMDB_PAGE_MIN && page_bytes <= LMDB_PAGE_MAX &&
           (page_bytes & (page_bytes - 1)) == 0 && m->trees[0].page_bytes == page_bytes &&
           m->trees[1].flags == 0 && m->last >= LMDB_METAS - 1 &&
           m->last < m->map_bytes / page_bytes && lmdb_tree_valid(&m->trees[0], m->last) &&
           lmdb_tree_valid(&m->trees[1], m->last);
}

/** -1: both are valid; else the number of the invalid meta. */
static int lmdb_metas_look(int fd, char *text)
{
    struct lmdb_meta m;
    struct stat st;
    if (!lmdb_meta_read(fd, 0, &m))
        return -1; /* LMDB reports the error, or creates the file */
    uint32_t page_bytes = m.trees[0].page_bytes;
    if (!lmdb_meta_valid(&m, page_bytes))
        return 0;
    if (lmdb_meta_read(fd, (off_t)page_bytes, &m))
        return lmdb_meta_valid(&m, page_bytes) ? -1 : 1;
    if (fstat(fd, &st) == 0 && st.st_size < (off_t)LMDB_METAS * page_bytes)
        (void)snprintf(text, LMDB_TEXT,
                       "the file data.mdb was cut short: it has %lld bytes of %llu",
                       (long long)st.st_size, ((unsigned long long)m.last + 1) * page_bytes);
    return 1;
}

int lmdb_check_meta(const char *folder, int create, char *text)
{
    char path[4096];
    struct stat st;
    if ((size_t)snprintf(path, sizeof(path), "%s/data.mdb", folder) >= sizeof(path))
        return SNIC_EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (!create && fstat(fd, &st) == 0 && st.st_size == 0) {
        (void)close(fd);
        (void)snprintf(text, LMDB_TEXT,
                       "the file data.mdb is empty: there is no store in the folder");
        return SNIC_ENOENT;
    }
    int bad = 0;
    for (int i = 0; i < LMDB_META_TRIES && bad >= 0; i++) {
        if (i > 0)
            (void)usleep(LMDB_META_WAIT_US); /* ... and may be preempted there */
        bad = lmdb_metas_look(fd, text);
    }
    (void)close(fd);
    if (bad < 0) {
        text[0] = '\0';
        return 0;
    }
    if (text[0] == '\0')
        (void)snprintf(text, LMDB_TEXT,
                       "the file data.mdb is damaged: what its page %d says cannot be", bad);
    return SNIC_ECORRUPT;
}

/* ---- Pages ---- */

static int lmdb_walk_damaged(const struct lmdb_walk *w, size_t page)
{
    (void)snprintf(w->text, 256,
                   "the file data.mdb is damaged: its page %zu is not what it must be", page);
    return SNIC_ECORRUPT;
}

/** 1: the file has @p count pages from @p page on. */
static int lmdb_walk_there(const struct lmdb_walk *w, size_t page, size_t count)
{
    if (page < LMDB_METAS || page > w->last || count > w->last - page + 1)
        return lmdb_walk_damaged(w, page);
    uint64_t end = ((uint64_t)page + count) * w->page_bytes;
    if (end <= w->size)
        return 0;
    (void)snprintf(w->text, 256,
                   "the file data.mdb was cut short: it has %llu bytes of %llu, and those up to "
                   "%llu are in use",
                   (unsigned long long)w->size, ((unsigned long long)w->last + 1) * w->page_bytes,
                   (unsigned long long)end);
    return SNIC_ECORRUPT;
}

/** Of a walk of all: these pages are used from now on, and were not. */
static int lmdb_walk_use(const struct lmdb_walk *w, size_t page, size_t count)
{
    for (size_t i = page; w->used != NULL && i < page + count; i++) {
        unsigned char bit = (unsigned char)(1U << (i & 7));
        if ((w->used[i >> 3] & bit) != 0)
            return lmdb_walk_damaged(w, i);
        w->used[i >> 3] |= bit;
    }
    return 0;
}

/** The first @p size bytes of a value of the tree of free pages, which are at @p at of the file. */
static int lmdb_walk_free(const struct lmdb_walk *w, uint64_t at, uint32_t size, size_t page)
{
    size_t list[LMDB_FREE_STEP];
    size_t count;
    size_t last = w->last + 1;
    if (size < sizeof(count) ||
        pread(w->fd, &count, sizeof(count), (off_t)at) != (ssize_t)sizeof(count) ||
        count > size / sizeof(count) - 1)
        return lmdb_walk_damaged(w, page);
    for (size_t done = 0; done < count; done += LMDB_FREE_STEP) {
        size_t n = count - done < LMDB_FREE_STEP ? count - done : LMDB_FREE_STEP;
        ssize_t bytes = (ssize_t)(n * sizeof(count));
        if (pread(w->fd, list, n * sizeof(count), (off_t)(at + (done + 1) * sizeof(count))) !=
            bytes)
            return lmdb_walk_damaged(w, page);
        for (size_t i = 0; i < n; last = list[i++]) /* falling */
            if (list[i] < LMDB_METAS || list[i] >= last || lmdb_walk_use(w, list[i], 1) != 0)
                return lmdb_walk_damaged(w, page);
    }
    return 0;
}

/** Of a walk of all: the head of a large value's pages. */
static int lmdb_walk_big(const struct lmdb_walk *w, size_t page, size_t count)
{
    struct lmdb_page_head head;
    uint32_t pages;
    if (pread(w->fd, &head, LMDB_PAGE_HEAD, (off_t)((uint64_t)page * w->page_bytes)) !=
        (ssize_t)LMDB_PAGE_HEAD)
        return lmdb_walk_damaged(w, page);
    memcpy(&pages, &head.lower, sizeof(pages)); /* instead of lower and upper */
    if (head.number != page || (head.flags & ~LMDB_PAGE_WRITING) != LMDB_PAGE_BIG || pages != count)
        return lmdb_walk_damaged(w, page);
    return lmdb_walk_use(w, page, count);
}

/** Of a walk of all: 1: a node with these sizes is possible there. */
static int lmdb_walk_node_valid(const struct lmdb_walk *w, uint32_t room, uint16_t flags,
                                uint16_t key_size, uint32_t size)
{
    uint64_t value = (flags & LMDB_NODE_BIG) != 0 ? sizeof(size_t) : size;
    return (flags & ~LMDB_NODE_BIG) == 0 && key_size > 0 && key_size <= LMDB_NODE_KEY_MAX &&
           (!w->free_tree || key_size == sizeof(size_t)) &&
           LMDB_NODE_HEAD + (uint64_t)key_size + value <= room;
}

/** Node @p i of a page, with the bytes from there to the page's end; NULL: it is not inside. */
static const unsigned char *lmdb_walk_node(const struct lmdb_walk *w, const unsigned char *page,
                                           uint32_t i, uint32_t *room)
{
    uint16_t at;
    size_t number;
    memcpy(&number, page, sizeof(number));
    memcpy(&at, page + LMDB_PAGE_HEAD + (size_t)2 * i, 2);
    *room = w->page_bytes - at;
    if (at >= LMDB_PAGE_HEAD && (uint32_t)at + LMDB_NODE_HEAD <= w->page_bytes)
        return page + at;
    (void)lmdb_walk_damaged(w, number);
    return NULL;
}

/** A leaf: the pages of large values. */
static int lmdb_walk_leaf(const struct lmdb_walk *w, const unsigned char *page, uint32_t count)
{
    size_t number;
    memcpy(&number, page, sizeof(number));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t room;
        uint32_t size;
        uint16_t flags;
        uint16_t key_size;
        size_t big;
        const unsigned char *n = lmdb_walk_node(w, page, i, &room);
        if (n == NULL)
            return SNIC_ECORRUPT;
        memcpy(&size, n, 4);
        memcpy(&flags, n + 4, 2);
        memcpy(&key_size, n + 6, 2);
        if (w->used != NULL && !lmdb_walk_node_valid(w, room, flags, key_size, size))
            return lmdb_walk_damaged(w, number);
        uint64_t at = (uint64_t)number * w->page_bytes + (uint64_t)(n - page) + LMDB_NODE_HEAD +
                      key_size; /* of the value in the file */
        if ((flags & LMDB_NODE_BIG) == 0) {
            if (w->free_tree && w->used != NULL && lmdb_walk_free(w, at, size, number) != 0)
                return SNIC_ECORRUPT;
            continue;
        }
        memset(&big, 0, sizeof(big)); /* no pages of a large value */
        if (LMDB_NODE_HEAD + (size_t)key_size + sizeof(big) <= room)
            memcpy(&big, n + LMDB_NODE_HEAD + key_size, sizeof(big));
        size_t pages = ((size_t)size + LMDB_PAGE_HEAD - 1) / w->page_bytes + 1;
        int r = lmdb_walk_there(w, big, pages);
        if (r == 0 && w->used != NULL)
            r = lmdb_walk_big(w, big, pages);
        if (r == 0 && w->used != NULL && w->free_tree)
            r = lmdb_walk_free(w, (uint64_t)big * w->page_bytes + LMDB_PAGE_HEAD, size, number);
        if (r != 0)
            return r;
    }
    return 0;
}

/** Of a walk of all: 1: the head of a tree's page is one that LMDB can have written. */
static int lmdb_walk_head_valid(const struct lmdb_walk *w, const struct lmdb_page_head *head,
                                int leaf)
{
    uint32_t least = leaf || w->free_tree ? 1 : 2; /* children */
    return (head->flags & ~LMDB_PAGE_WRITING) == (leaf ? LMDB_PAGE_LEAF : LMDB_PAGE_BRANCH) &&
           head->lower % 2 == 0 && head->lower <= head->upper && head->upper <= w->page_bytes &&
           head->lower >= LMDB_PAGE_HEAD + 2 * least;
}

/** Of a walk of all: the places of the nodes, and those of a branch whole. */
static int lmdb_walk_places(const struct lmdb_walk *w, const unsigned char *page,
                            const struct lmdb_page_head *head, int leaf)
{
    uint32_t count = (uint32_t)(head->lower - LMDB_PAGE_HEAD) / 2;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t room;
        uint16_t key_size;
        const unsigned char *n = lmdb_walk_node(w, page, i, &room);
        if (n == NULL)
            return SNIC_ECORRUPT;
        memcpy(&key_size, n + 6, 2);
        if (n < page + head->upper || key_size > LMDB_NODE_KEY_MAX ||
            (!leaf && LMDB_NODE_HEAD + (uint32_t)key_size > room) ||
            (!leaf && i > 0 && key_size == 0))
            return lmdb_walk_damaged(w, head->number);
    }
    return 0;
}

/** Read page @p number to @p level; a leaf is processed whole. */
static int lmdb_walk_enter(struct lmdb_walk *w, const struct lmdb_tree *t, size_t number,
                           uint32_t level)
{
    struct lmdb_page_head head;
    unsigned char *page = w->pages + (size_t)level * w->page_bytes;
    w->at[level] = w->counts[level] = 0;
    int r = lmdb_walk_there(w, number, 1);
    if (r == 0)
        r = lmdb_walk_use(w, number, 1);
    if (r != 0 || (level + 1U == t->depth && t->big == 0 && w->used == NULL))
        return r;
    if (w->left-- == 0 ||
        pread(w->fd, page, w->page_bytes, (off_t)number * w->page_bytes) != (ssize_t)w->page_bytes)
        return lmdb_walk_damaged(w, number);
    memcpy(&head, page, sizeof(head));
    int leaf = level + 1U == t->depth;
    if (head.number != number || head.lower < LMDB_PAGE_HEAD || head.lower > w->page_bytes ||
        (head.flags & (LMDB_PAGE_BRANCH | LMDB_PAGE_LEAF)) !=
            (leaf ? LMDB_PAGE_LEAF : LMDB_PAGE_BRANCH))
        return lmdb_walk_damaged(w, number);
    if (w->used != NULL && !lmdb_walk_head_valid(w, &head, leaf))
        return lmdb_walk_damaged(w, number);
    if (w->used != NULL && lmdb_walk_places(w, page, &head, leaf) != 0)
        return SNIC_ECORRUPT;
    uint32_t count = (uint32_t)(head.lower - LMDB_PAGE_HEAD) / 2;
    if (leaf)
        return lmdb_walk_leaf(w, page, count);
    w->counts[level] = count;
    return 0;
}

static int lmdb_walk_tree(struct lmdb_walk *w, const struct lmdb_tree *t)
{
    if (t->root == SNIC_LMDB__NO_PAGE)
        return 0;
    uint32_t level = 0;
    int r = lmdb_walk_enter(w, t, t->root, 0);
    while (r == 0) {
        if (w->at[level] == w->counts[level]) {
            if (level == 0)
                return 0;
            level--;
            continue;
        }
        const unsigned char *page = w->pages + (size_t)level * w->page_bytes;
        uint32_t room;
        uint32_t low;
        uint16_t high;
        const unsigned char *n = lmdb_walk_node(w, page, w->at[level]++, &room);
        if (n == NULL)
            return SNIC_ECORRUPT;
        memcpy(&low, n, 4);
        memcpy(&high, n + 4, 2); /* page numbers have 48 bits */
        r = lmdb_walk_enter(w, t, (size_t)((uint64_t)high << 32 | low), ++level);
    }
    return r;
}

/** The meta of the snapshot, which no writer overwrites while it is in use. 1 found. */
static int lmdb_check_find(int fd, MDB_txn *snap, uint32_t page_bytes, struct lmdb_meta *m)
{
    for (uint32_t i = 0; i < LMDB_METAS; i++)
        if (lmdb_meta_read(fd, (off_t)i * page_bytes, m) && m->txn == mdb_txn_id(snap))
            return lmdb_meta_valid(m, page_bytes);
    return 0;
}

/** The meta of the snapshot, which is renewed as long as two commits overtake it. 0 or SNIC_E*. */
static int lmdb_check_catch(int fd, MDB_txn *snap, uint32_t page_bytes, struct lmdb_meta *m,
                            char *text)
{
    size_t first = mdb_txn_id(snap);
    for (uint32_t tries = 0; !lmdb_check_find(fd, snap, page_bytes, m); tries++) {
        if (tries == LMDB_CHECK_TRIES) {
            int moves = mdb_txn_id(snap) != first;
            (void)snprintf(text, LMDB_TEXT,
                           moves ? "the file data.mdb changes faster than it can be checked: try "
                                   "again when fewer processes write"
                                 : "the file data.mdb does not have the state that LMDB reads");
            return moves ? SNIC_EBUSY : SNIC_ECORRUPT;
        }
        mdb_txn_reset(snap);
        int e = mdb_txn_renew(snap);
        if (e != 0) {
            (void)snprintf(text, LMDB_TEXT, "the file data.mdb cannot be read: %s",
                           mdb_strerror(e));
            return lmdb_error(e);
        }
    }
    return 0;
}

int lmdb_check_pages(MDB_env *env, MDB_txn *snap, int all, char *text)
{
    MDB_stat stat;
    struct lmdb_meta m;
    struct stat st;
    struct lmdb_walk w = {.text = text};
    if (mdb_env_stat(env, &stat) != 0 || mdb_env_get_fd(env, &w.fd) != 0)
        return SNIC_EIO;
    w.page_bytes = stat.ms_psize;
    int r = lmdb_check_catch(w.fd, snap, w.page_bytes, &m, text);
    if (r != 0)
        return r;
    /* The pages of a snapshot were in the file before the snapshot existed. */
    if (fstat(w.fd, &st) != 0)
        return SNIC_EIO;
    w.size = (uint64_t)st.st_size;
    w.last = m.last;
    w.left = m.last;
    if (w.size >= ((uint64_t)m.last + 1) * w.page_bytes && !all)
        return 0;
    w.pages = malloc((size_t)LMDB_TREE_DEPTH_MAX * w.page_bytes);
    w.used = all ? calloc(m.last / 8 + 1, 1) : NULL;
    if (w.pages == NULL || (all && w.used == NULL))
        r = SNIC_ENOMEM;
    w.free_tree = 1;
    if (r == 0)
        r = lmdb_walk_tree(&w, &m.trees[0]);
    w.free_tree = 0;
    if (r == 0)
        r = lmdb_walk_tree(&w, &m.trees[1]);
    free(w.used);
    free(w.pages);
    return r;
}

#endif /* SNIC_WITH_LMDB */
