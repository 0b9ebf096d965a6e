/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The records in memory: a hash table for gets, a B+ tree for order.
 *
 * A leaf's slots have the group and the first key bytes, so that a search reads a record only where
 * those are equal. Nodes are never merged: a leaf is freed with its last record. A leaf that is
 * full and gets a record at its end is not split in halves but followed by a new one: groups that
 * are created in ascending order leave full leaves.
 */
#include <stdlib.h>

#include "base/xxh.h"
#include "kv/mem_priv.h"

enum { KVMEM_TABLE_MIN = 1024 };

uint32_t kv_mem_hash(const struct snic_kvop_key *key)
{
    return (uint32_t)XXH3_64bits(key, sizeof(*key));
}

static uint64_t kv_mem_prefix(const struct snic_kvop_key *key)
{
    return snic_get_be64(key->bytes);
}

/** Order of a slot against a key. */
static int kv_mem_slot_compare(const struct kv_mem_slot *s, const struct snic_kvop_key *key,
                               uint64_t prefix)
{
    if (s->group != key->group)
        return s->group < key->group ? -1 : 1;
    if (s->prefix != prefix)
        return s->prefix < prefix ? -1 : 1;
    return snic_kvop_key_compare(&s->record->key, key);
}

/** The first slot of a leaf that is not below the key. */
static uint32_t kv_mem_leaf_lower(const struct kv_mem_node *n, const struct snic_kvop_key *key)
{
    uint64_t prefix = kv_mem_prefix(key);
    uint32_t low = 0;
    uint32_t high = n->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (kv_mem_slot_compare(&n->u.leaf.slots[mid], key, prefix) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/** The child of an inner node in whose range the key is. */
static uint32_t kv_mem_inner_child(const struct kv_mem_node *n, const struct snic_kvop_key *key)
{
    uint32_t low = 1;
    uint32_t high = n->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (snic_kvop_key_compare(&n->u.inner.keys[mid], key) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1;
}

/** The path from the root: inner nodes and the child taken at each. */
struct kv_mem_path {
    struct kv_mem_node *node[KVMEM_DEPTH];
    uint32_t child[KVMEM_DEPTH];
    struct kv_mem_node *leaf;
};

static void kv_mem_descend(const struct snic_kvmem *m, const struct snic_kvop_key *key,
                           struct kv_mem_path *p)
{
    struct kv_mem_node *n = m->root;
    for (uint32_t h = m->height; h > 0; h--) {
        p->node[h] = n;
        p->child[h] = kv_mem_inner_child(n, key);
        n = n->u.inner.child[p->child[h]];
    }
    p->leaf = n;
}

/* ---- Hash table ---- */

static struct kv_mem_record **kv_mem_bucket(const struct snic_kvmem *m, uint32_t hash)
{
    return &m->table[hash & m->table_mask];
}

struct kv_mem_record *kv_mem_find(const struct snic_kvmem *m, const struct snic_kvop_key *key)
{
    uint32_t hash = kv_mem_hash(key);
    struct kv_mem_record *r = *kv_mem_bucket(m, hash);
    while (r != NULL && (r->hash != hash || memcmp(&r->key, key, sizeof(*key)) != 0))
        r = r->chain;
    return r;
}

void kv_mem_fetch(const struct snic_kvmem *m, const struct snic_kvop_key **keys, uint32_t n)
{
    uint32_t hash[KVMEM_EXPECT];
    SNIC_DASSERT(n <= KVMEM_EXPECT);
    for (uint32_t i = 0; i < n; i++) {
        hash[i] = kv_mem_hash(keys[i]);
        __builtin_prefetch(kv_mem_bucket(m, hash[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct kv_mem_record *r = *kv_mem_bucket(m, hash[i]);
        if (r != NULL) {
            __builtin_prefetch(r);
            __builtin_prefetch(&r->key.bytes[SNIC_KVOP_KEY_MAX - 1]);
        }
    }
}

/** The link that leads to @p r. */
static struct kv_mem_record **kv_mem_chain_to(const struct snic_kvmem *m,
                                              const struct kv_mem_record *r)
{
    struct kv_mem_record **at = kv_mem_bucket(m, r->hash);
    while (*at != r)
        at = &(*at)->chain;
    return at;
}

/** Double the table. Without memory it stays, with longer chains. */
static int kv_mem_table_grow(struct snic_kvmem *m)
{
    uint64_t old = m->table == NULL ? 0 : m->table_mask + 1;
    uint64_t size = old == 0 ? KVMEM_TABLE_MIN : old * 2;
    struct kv_mem_record **table = calloc(size, sizeof(table[0]));
    if (table == NULL)
        return old == 0 ? SNIC_ENOMEM : 0;
    for (uint64_t i = 0; i < old; i++) {
        for (struct kv_mem_record *r = m->table[i], *next; r != NULL; r = next) {
            next = r->chain;
            r->chain = table[r->hash & (size - 1)];
            table[r->hash & (size - 1)] = r;
        }
    }
    free(m->table);
    m->table = table;
    m->table_mask = size - 1;
    return 0;
}

/* ---- Nodes ---- */

int kv_mem_reserve(struct snic_kvmem *m, uint32_t inserts)
{
    if (m->root == NULL || 2 * (m->entries + inserts) > m->table_mask + 1) {
        if (kv_mem_table_grow(m) != 0)
            return SNIC_ENOMEM;
    }
    uint32_t want = inserts * (m->height + 3) + 1;
    while (m->spare_count < want || m->root == NULL) {
        struct kv_mem_node *n = kv_mem_slab_carve(m, sizeof(*n));
        if (n == NULL)
            return SNIC_ENOMEM;
        n->count = 0;
        n->u.leaf.prev = NULL;
        n->u.leaf.next = NULL;
        if (m->root == NULL) {
            m->root = n;
            continue;
        }
        n->u.leaf.next = m->spare;
        m->spare = n;
        m->spare_count++;
    }
    return 0;
}

static struct kv_mem_node *kv_mem_node_get(struct snic_kvmem *m)
{
    struct kv_mem_node *n = m->spare;
    SNIC_ASSERT(n != NULL); /* kv_mem_reserve() */
    m->spare = n->u.leaf.next;
    m->spare_count--;
    n->count = 0;
    return n;
}

static void kv_mem_node_put(struct snic_kvmem *m, struct kv_mem_node *n)
{
    n->u.leaf.next = m->spare;
    m->spare = n;
    m->spare_count++;
}

/** Place (key, child) at @p at of an inner node with room. */
static void kv_mem_inner_place(struct kv_mem_node *n, uint32_t at, const struct snic_kvop_key *key,
                               struct kv_mem_node *child)
{
    size_t behind = n->count - at;
    memmove(&n->u.inner.keys[at + 1], &n->u.inner.keys[at], behind * sizeof(n->u.inner.keys[0]));
    memmove(&n->u.inner.child[at + 1], &n->u.inner.child[at], behind * sizeof(n->u.inner.child[0]));
    n->u.inner.keys[at] = *key;
    n->u.inner.child[at] = child;
    n->count++;
}

/** The upper part of a full inner node, from @p from on, into a new one. */
static struct kv_mem_node *kv_mem_inner_split(struct snic_kvmem *m, struct kv_mem_node *n,
                                              uint32_t from)
{
    struct kv_mem_node *upper = kv_mem_node_get(m);
    upper->count = n->count - from;
    memcpy(upper->u.inner.keys, &n->u.inner.keys[from], upper->count * sizeof(n->u.inner.keys[0]));
    memcpy(upper->u.inner.child, &n->u.inner.child[from],
           upper->count * sizeof(n->u.inner.child[0]));
    n->count = from;
    return upper;
}

/** Enter @p child, whose first key is @p key, behind the path's nodes. */
static void kv_mem_enter(struct snic_kvmem *m, struct kv_mem_path *p,
                         const struct snic_kvop_key *key, struct kv_mem_node *child)
{
    struct snic_kvop_key first = *key;
    for (uint32_t h = 1; h <= m->height; h++) {
        struct kv_mem_node *n = p->node[h];
        uint32_t at = p->child[h] + 1;
        if (n->count < KVMEM_FAN) {
            kv_mem_inner_place(n, at, &first, child);
            return;
        }
        uint32_t from = at == KVMEM_FAN ? KVMEM_FAN - 1 : KVMEM_FAN / 2;
        struct kv_mem_node *upper = kv_mem_inner_split(m, n, from);
        if (at <= from && at < KVMEM_FAN)
            kv_mem_inner_place(n, at, &first, child);
        else
            kv_mem_inner_place(upper, at - from, &first, child);
        first = upper->u.inner.keys[0];
        child = upper;
    }
    struct kv_mem_node *root = kv_mem_node_get(m);
    SNIC_ASSERT(m->height + 1 < KVMEM_DEPTH);
    root->u.inner.keys[0] = first;
    root->u.inner.child[0] = m->root;
    root->u.inner.keys[1] = first;
    root->u.inner.child[1] = child;
    root->count = 2;
    m->root = root;
    m->height++;
}

static void kv_mem_leaf_place(struct kv_mem_node *n, uint32_t at, struct kv_mem_record *r)
{
    memmove(&n->u.leaf.slots[at + 1], &n->u.leaf.slots[at],
            (n->count - at) * sizeof(n->u.leaf.slots[0]));
    n->u.leaf.slots[at] = (struct kv_mem_slot){r->key.group, kv_mem_prefix(&r->key), r};
    n->count++;
}

/** A new leaf behind a full one, with its slots from @p from on. */
static struct kv_mem_node *kv_mem_leaf_split(struct snic_kvmem *m, struct kv_mem_node *n,
                                             uint32_t from)
{
    struct kv_mem_node *upper = kv_mem_node_get(m);
    upper->count = n->count - from;
    memcpy(upper->u.leaf.slots, &n->u.leaf.slots[from], upper->count * sizeof(n->u.leaf.slots[0]));
    n->count = from;
    upper->u.leaf.next = n->u.leaf.next;
    upper->u.leaf.prev = n;
    if (upper->u.leaf.next != NULL)
        upper->u.leaf.next->u.leaf.prev = upper;
    n->u.leaf.next = upper;
    return upper;
}

void kv_mem_insert(struct snic_kvmem *m, struct kv_mem_record *r)
{
    struct kv_mem_path p;
    r->hash = kv_mem_hash(&r->key);
    struct kv_mem_record **bucket = kv_mem_bucket(m, r->hash);
    r->chain = *bucket;
    *bucket = r;
    m->entries++;

    kv_mem_descend(m, &r->key, &p);
    uint32_t at = kv_mem_leaf_lower(p.leaf, &r->key);
    if (p.leaf->count < KVMEM_LEAF) {
        kv_mem_leaf_place(p.leaf, at, r);
        return;
    }
    uint32_t from = at == KVMEM_LEAF ? KVMEM_LEAF : KVMEM_LEAF / 2;
    struct kv_mem_node *upper = kv_mem_leaf_split(m, p.leaf, from);
    if (at <= from && from < KVMEM_LEAF)
        kv_mem_leaf_place(p.leaf, at, r);
    else
        kv_mem_leaf_place(upper, at - from, r);
    kv_mem_enter(m, &p, &upper->u.leaf.slots[0].record->key, upper);
}

void kv_mem_replace(struct snic_kvmem *m, struct kv_mem_record *old, struct kv_mem_record *r)
{
    struct kv_mem_path p;
    r->hash = old->hash;
    r->chain = old->chain;
    *kv_mem_chain_to(m, old) = r;
    kv_mem_descend(m, &r->key, &p);
    uint32_t at = kv_mem_leaf_lower(p.leaf, &r->key);
    SNIC_ASSERT(at < p.leaf->count && p.leaf->u.leaf.slots[at].record == old);
    p.leaf->u.leaf.slots[at].record = r;
}

/** Remove an empty leaf from the tree, and inner nodes that are empty then. */
static void kv_mem_leave(struct snic_kvmem *m, struct kv_mem_path *p)
{
    struct kv_mem_node *n = p->leaf;
    if (m->height == 0)
        return;
    if (n->u.leaf.prev != NULL)
        n->u.leaf.prev->u.leaf.next = n->u.leaf.next;
    if (n->u.leaf.next != NULL)
        n->u.leaf.next->u.leaf.prev = n->u.leaf.prev;
    for (uint32_t h = 1; h <= m->height; h++) {
        kv_mem_node_put(m, n);
        n = p->node[h];
        uint32_t at = p->child[h];
        size_t behind = n->count - at - 1;
        memmove(&n->u.inner.keys[at], &n->u.inner.keys[at + 1],
                behind * sizeof(n->u.inner.keys[0]));
        memmove(&n->u.inner.child[at], &n->u.inner.child[at + 1],
                behind * sizeof(n->u.inner.child[0]));
        n->count--;
        if (n->count != 0)
            break;
    }
    SNIC_ASSERT(m->root->count != 0); /* a root with one child was replaced by it */
    while (m->height > 0 && m->root->count == 1) {
        n = m->root;
        m->root = n->u.inner.child[0];
        m->height--;
        kv_mem_node_put(m, n);
    }
}

void kv_mem_remove(struct snic_kvmem *m, struct kv_mem_record *r)
{
    struct kv_mem_path p;
    *kv_mem_chain_to(m, r) = r->chain;
    m->entries--;
    kv_mem_descend(m, &r->key, &p);
    uint32_t at = kv_mem_leaf_lower(p.leaf, &r->key);
    SNIC_ASSERT(at < p.leaf->count && p.leaf->u.leaf.slots[at].record == r);
    memmove(&p.leaf->u.leaf.slots[at], &p.leaf->u.leaf.slots[at + 1],
            (p.leaf->count - at - 1) * sizeof(p.leaf->u.leaf.slots[0]));
    if (--p.leaf->count == 0)
        kv_mem_leave(m, &p);
}

/* ---- Order ---- */

struct kv_mem_pos kv_mem_lower(const struct snic_kvmem *m, const struct snic_kvop_key *key)
{
    struct kv_mem_path p;
    kv_mem_descend(m, key, &p);
    return (struct kv_mem_pos){p.leaf, kv_mem_leaf_lower(p.leaf, key)};
}

struct kv_mem_pos kv_mem_begin(const struct snic_kvmem *m)
{
    struct snic_kvop_key key = {.group = 0};
    return kv_mem_lower(m, &key);
}

struct kv_mem_record *kv_mem_at(struct kv_mem_pos *p)
{
    if (p->at >= p->leaf->count) {
        if (p->leaf->u.leaf.next == NULL)
            return NULL;
        p->leaf = p->leaf->u.leaf.next;
        p->at = 0;
    }
    return p->at < p->leaf->count ? p->leaf->u.leaf.slots[p->at].record : NULL;
}

/* ---- Check ---- */

/** Leaves from left to right: in order, linked both ways, each record found by its key. */
static int kv_mem_leaves_check(const struct snic_kvmem *m, const struct kv_mem_node *n,
                               uint64_t *count)
{
    const struct kv_mem_record *last = NULL;
    for (; n != NULL; n = n->u.leaf.next) {
        if (n->count > KVMEM_LEAF || (n->count == 0 && m->height != 0))
            return SNIC_ECORRUPT; /* N2 */
        if (n->u.leaf.next != NULL && n->u.leaf.next->u.leaf.prev != n)
            return SNIC_ECORRUPT;
        for (uint32_t i = 0; i < n->count; i++) {
            const struct kv_mem_slot *s = &n->u.leaf.slots[i];
            const struct kv_mem_record *r = s->record;
            if (last != NULL && snic_kvop_key_compare(&last->key, &r->key) >= 0)
                return SNIC_ECORRUPT;
            if (s->group != r->key.group || s->prefix != kv_mem_prefix(&r->key))
                return SNIC_ECORRUPT;
            struct kv_mem_pos p = kv_mem_lower(m, &r->key);
            if (kv_mem_find(m, &r->key) != r || p.leaf != n || p.at != i)
                return SNIC_ECORRUPT; /* N1 */
            last = r;
            ++*count;
        }
    }
    return 0;
}

int kv_mem_tree_check(const struct snic_kvmem *m)
{
    uint64_t count = 0;
    struct kv_mem_node *n = m->root;
    for (uint32_t h = m->height; h > 0; h--) {
        if (n->count == 0 || n->count > KVMEM_FAN)
            return SNIC_ECORRUPT;
        n = n->u.inner.child[0];
    }
    if (n->u.leaf.prev != NULL)
        return SNIC_ECORRUPT;
    int r = kv_mem_leaves_check(m, n, &count);
    return r != 0 || count != m->entries ? SNIC_ECORRUPT : 0;
}

void kv_mem_tree_close(struct snic_kvmem *m)
{
    free(m->table);
}
