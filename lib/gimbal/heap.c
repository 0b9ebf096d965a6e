/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A pairing heap of nodes that are embedded in what it orders: insert is O(1), remove amortised
 * logarithmic. group.c orders a group's flows with it, floor.c tenants that wait for a group's
 * caps.
 *
 * I1  No node's key is less than that of its parent. Keys are compared by their difference: they
 *     may wrap.
 * I2  prev of a first child is its parent, of any other node the sibling before it, of the root
 *     NULL; the root has no sibling.
 */
#include "gimbal/gimbal_priv.h"

static struct gimbal_node *heap_merge(struct gimbal_node *a, struct gimbal_node *b)
{
    if (gimbal_key_before(b->key, a->key)) {
        struct gimbal_node *least = b;
        b = a;
        a = least;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next != NULL)
        b->next->prev = b;
    a->child = b;
    return a;
}

/* Children without their parent: merged in pairs, then from the last pair to the first. */
static struct gimbal_node *heap_pairs(struct gimbal_node *child)
{
    struct gimbal_node *done = NULL;
    struct gimbal_node *root = NULL;
    while (child != NULL) {
        struct gimbal_node *a = child;
        struct gimbal_node *b = a->next;
        child = b != NULL ? b->next : NULL;
        if (b != NULL)
            a = heap_merge(a, b);
        a->next = done;
        done = a;
    }
    while (done != NULL) {
        struct gimbal_node *a = done;
        done = a->next;
        root = root != NULL ? heap_merge(root, a) : a;
    }
    if (root != NULL)
        root->prev = root->next = NULL;
    return root;
}

void gimbal_heap_insert(struct gimbal_node **root, struct gimbal_node *n)
{
    n->child = n->next = n->prev = NULL;
    *root = *root != NULL ? heap_merge(*root, n) : n;
    (*root)->prev = (*root)->next = NULL;
}

void gimbal_heap_remove(struct gimbal_node **root, struct gimbal_node *n)
{
    struct gimbal_node *below = heap_pairs(n->child);
    if (*root == n) {
        *root = below;
    } else {
        if (n->prev->child == n)
            n->prev->child = n->next;
        else
            n->prev->next = n->next;
        if (n->next != NULL)
            n->next->prev = n->prev;
        if (below != NULL)
            *root = heap_merge(*root, below);
    }
    if (*root != NULL)
        (*root)->prev = (*root)->next = NULL;
}

/* I1 and I2 of one node that is in the heap; adds the number of its children to @below: a heap of n
 * nodes has n - 1. */
int gimbal_heap_check(const struct gimbal_node *root, const struct gimbal_node *n, uint32_t *below)
{
    const struct gimbal_node *before = n;
    if (root == NULL || (n->prev == NULL) != (n == root) || (n == root && n->next != NULL))
        return SNIC_ECORRUPT;
    if (n->prev != NULL && n->prev->child != n && n->prev->next != n)
        return SNIC_ECORRUPT;
    for (const struct gimbal_node *k = n->child; k != NULL; k = k->next) {
        if (k->prev != before || gimbal_key_before(k->key, n->key))
            return SNIC_ECORRUPT;
        before = k;
        ++*below;
    }
    return 0;
}
