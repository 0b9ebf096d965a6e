/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The records in the order of their keys: a treap of record numbers. A record's node is at its
 * number; the key is in the record's value, its first bytes are in the node, too. The priority of a
 * node is a hash of its number: numbers have nothing to do with the order of keys, so the depth is
 * O(log n) whatever keys are chosen.
 *
 * I1  In order: the keys of the left subtree are below the node's, those of the right above.
 * I2  A node's priority is at least its children's.
 * I3  A node that is in the tree has the handle of a value with its key that is alive: the record's
 *     own, or of a deletion that is not readable yet the one before it, which is held.
 * I4  Nodes of an earlier generation are in no tree, whatever they contain.
 */
#include "store_priv.h"

static uint32_t index_priority(uint32_t n)
{
    uint64_t h = ((uint64_t)n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32);
}

static int index_higher(uint32_t a, uint32_t b)
{
    uint32_t pa = index_priority(a), pb = index_priority(b);
    return pa != pb ? pa > pb : a > b;
}

int store_node_in(const struct snic_store *s, uint32_t n)
{
    const struct store_node *k = &s->p.nodes[n];
    return k->generation == s->generation && (k->flags & STORE_N_IN) != 0; /* I4 */
}

/* The key of a node that is in the tree. */
const unsigned char *store_node_key(const struct snic_store *s, uint32_t n, uint32_t *size)
{
    uint32_t bytes;
    const unsigned char *p = snic_replica_value(s->replica, s->p.nodes[n].value, &bytes);
    *size = snic_get_le16(p + 2);
    return p + SNIC_STORE__HEAD;
}

uint64_t store_key_prefix(const unsigned char *key, uint32_t size)
{
    unsigned char first[8] = {0};
    if (size != 0)
        memcpy(first, key, size < 8 ? size : 8);
    return snic_get_be64(first);
}

int store_key_compare(const unsigned char *a, uint32_t a_size, const unsigned char *b,
                      uint32_t b_size)
{
    uint32_t both = a_size < b_size ? a_size : b_size;
    int c = both != 0 ? memcmp(a, b, both) : 0;
    return c != 0 ? c : a_size < b_size ? -1 : a_size > b_size;
}

/* Order of the node against a key whose prefix is @p prefix. */
static int index_compare(const struct snic_store *s, uint32_t n, const unsigned char *key,
                         uint32_t size, uint64_t prefix)
{
    uint32_t have;
    if (s->p.nodes[n].prefix != prefix)
        return s->p.nodes[n].prefix < prefix ? -1 : 1;
    const unsigned char *mine = store_node_key(s, n, &have);
    return store_key_compare(mine, have, key, size);
}

/* The link that leads to @p n. */
static uint32_t *index_link(struct snic_store *s, uint32_t n)
{
    uint32_t p = s->p.nodes[n].parent;
    if (p == SNIC_STORE__NIL)
        return &s->root;
    return s->p.nodes[p].left == n ? &s->p.nodes[p].left : &s->p.nodes[p].right;
}

/* @p n takes the place of its parent, which becomes its child. */
static void index_rotate(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    uint32_t p = k->parent;
    struct store_node *up = &s->p.nodes[p];
    uint32_t *link = index_link(s, p);
    uint32_t moved;
    k->parent = up->parent;
    if (up->left == n) {
        moved = k->right;
        up->left = moved;
        k->right = p;
    } else {
        moved = k->left;
        up->right = moved;
        k->left = p;
    }
    if (moved != SNIC_STORE__NIL)
        s->p.nodes[moved].parent = p;
    up->parent = n;
    *link = n;
}

/* The node has its value, and is not in the tree. */
void store_index_add(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    uint32_t size;
    const unsigned char *key = store_node_key(s, n, &size);
    uint32_t *link = &s->root;
    k->prefix = store_key_prefix(key, size);
    k->left = k->right = k->parent = SNIC_STORE__NIL;
    while (*link != SNIC_STORE__NIL) {
        k->parent = *link;
        int c = index_compare(s, *link, key, size, k->prefix);
        SNIC_ASSERT(c != 0); /* one record has a key */
        link = c > 0 ? &s->p.nodes[*link].left : &s->p.nodes[*link].right;
    }
    *link = n;
    while (k->parent != SNIC_STORE__NIL && index_higher(n, k->parent))
        index_rotate(s, n);
    k->flags |= STORE_N_IN;
    s->stats.keys++;
}

void store_index_remove(struct snic_store *s, uint32_t n)
{
    struct store_node *k = &s->p.nodes[n];
    SNIC_ASSERT(store_node_in(s, n));
    while (k->left != SNIC_STORE__NIL || k->right != SNIC_STORE__NIL) {
        uint32_t up = k->left;
        if (up == SNIC_STORE__NIL || (k->right != SNIC_STORE__NIL && index_higher(k->right, up)))
            up = k->right;
        index_rotate(s, up);
    }
    *index_link(s, n) = SNIC_STORE__NIL;
    k->flags &= ~(uint32_t)STORE_N_IN;
    s->stats.keys--;
}

/* The first node that is not below the key (@p above: that is above it); none: NIL. */
uint32_t store_index_lower(const struct snic_store *s, const unsigned char *key, uint32_t size,
                           int above)
{
    uint64_t prefix = store_key_prefix(key, size);
    uint32_t best = SNIC_STORE__NIL;
    for (uint32_t n = s->root; n != SNIC_STORE__NIL;) {
        int c = index_compare(s, n, key, size, prefix);
        if (c > 0 || (c == 0 && !above)) {
            best = n;
            n = s->p.nodes[n].left;
        } else {
            n = s->p.nodes[n].right;
        }
    }
    return best;
}

uint32_t store_index_next(const struct snic_store *s, uint32_t n)
{
    uint32_t from = n;
    if (s->p.nodes[n].right != SNIC_STORE__NIL) {
        n = s->p.nodes[n].right;
        while (s->p.nodes[n].left != SNIC_STORE__NIL)
            n = s->p.nodes[n].left;
        return n;
    }
    do {
        from = n;
        n = s->p.nodes[n].parent;
    } while (n != SNIC_STORE__NIL && s->p.nodes[n].right == from);
    return n;
}

/* I1, I2 of all nodes, and how many there are. */
int store_index_check(const struct snic_store *s, uint32_t *count)
{
    uint32_t last = SNIC_STORE__NIL;
    uint32_t n = s->root;
    *count = 0;
    while (n != SNIC_STORE__NIL && s->p.nodes[n].left != SNIC_STORE__NIL)
        n = s->p.nodes[n].left;
    for (; n != SNIC_STORE__NIL; n = store_index_next(s, n)) {
        const struct store_node *k = &s->p.nodes[n];
        uint32_t size, before;
        const unsigned char *key = store_node_key(s, n, &size);
        if (!store_node_in(s, n) || k->prefix != store_key_prefix(key, size))
            return SNIC_ECORRUPT;
        if (k->parent != SNIC_STORE__NIL && index_higher(n, k->parent))
            return SNIC_ECORRUPT;
        if (last != SNIC_STORE__NIL) {
            const unsigned char *low = store_node_key(s, last, &before);
            if (store_key_compare(low, before, key, size) >= 0)
                return SNIC_ECORRUPT;
        }
        last = n;
        ++*count;
    }
    return 0;
}
