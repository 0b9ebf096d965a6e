/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inodes that the kernel knows by number: the count of replies that named it (LOOKUP and its like)
 * less what it has forgotten (FORGET). One that loses its last name while the kernel knows it (a
 * current folder, a bind mount, O_PATH) is held in the file system by a handle (SNIC_FSOP_HOLD),
 * which ends when the kernel has forgotten the inode.
 *
 *   K1 An entry's count is above 0, or it waits for a free block to end its handle (`late`).
 *   K2 A count goes up before the kernel gets the answer: it may forget at once.
 *   K3 With no memory for an entry the inode is not known: it ends with its last name.
 *   K4 No call is submitted with the lock held: others may end inside, and their answers take it.
 *
 * A table with linear probing; readers' threads forget, the loop's thread does the rest.
 */
#include "mount.h"

#include <stdlib.h>
#include <string.h>

struct known_entry {
    uint64_t ino; /* 0: free */
    uint64_t count;
    uint64_t handle; /* 0: it has a name */
};

struct km_known {
    pthread_mutex_t lock;
    struct known_entry *table;
    uint64_t mask;
    uint64_t used;
    uint64_t held;
    uint64_t late;
};

enum { KNOWN_FIRST = 4096 };

int km_known_open(struct km *m)
{
    struct km_known *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return -1;
    k->table = calloc(KNOWN_FIRST, sizeof(*k->table));
    if (k->table == NULL) {
        free(k);
        return -1;
    }
    k->mask = KNOWN_FIRST - 1;
    pthread_mutex_init(&k->lock, NULL);
    m->known = k;
    return 0;
}

void km_known_close(struct km *m)
{
    if (m->known == NULL)
        return;
    free(m->known->table);
    pthread_mutex_destroy(&m->known->lock);
    free(m->known);
    m->known = NULL;
}

static uint64_t known_place(const struct km_known *k, uint64_t ino)
{
    return ((ino * 0x9e3779b97f4a7c15u) >> 20) & k->mask;
}

/* The inode's entry, or the free one where it would be. */
static struct known_entry *known_find(const struct km_known *k, uint64_t ino)
{
    uint64_t at = known_place(k, ino);

    while (k->table[at].ino != 0 && k->table[at].ino != ino)
        at = (at + 1) & k->mask;
    return &k->table[at];
}

/* @return 0; -1 no memory, and hardly any room */
static int known_grow(struct km_known *k)
{
    struct known_entry *old = k->table;
    uint64_t size = k->mask + 1;
    struct known_entry *table;

    if (k->used < size / 2)
        return 0;
    table = calloc(size * 2, sizeof(*table));
    if (table == NULL)
        return k->used < size / 8 * 7 ? 0 : -1;
    k->table = table;
    k->mask = size * 2 - 1;
    for (uint64_t i = 0; i < size; i++)
        if (old[i].ino != 0)
            *known_find(k, old[i].ino) = old[i];
    free(old);
    return 0;
}

/* Take it out; those behind it close the gap. */
static void known_remove(struct km_known *k, struct known_entry *e)
{
    uint64_t gap = (uint64_t)(e - k->table);
    uint64_t at = gap;

    k->held -= e->handle != 0;
    k->used--;
    for (;;) {
        at = (at + 1) & k->mask;
        if (k->table[at].ino == 0)
            break;
        if (((at - known_place(k, k->table[at].ino)) & k->mask) < ((at - gap) & k->mask))
            continue;
        k->table[gap] = k->table[at];
        gap = at;
    }
    memset(&k->table[gap], 0, sizeof(k->table[gap]));
}

/* Put the end of a handle in front of @p list. @return 0; -1 all blocks are in flight */
static int known_release(struct km *m, uint64_t ino, uint64_t handle, struct km_call **list)
{
    struct km_call *c = km_call_get(m);

    if (c == NULL)
        return -1;
    km_call_clear(c);
    c->r.op.kind = SNIC_FSOP_RELEASE;
    c->r.op.flags = SNIC_FSOP_CHECKED;
    c->r.op.ino = ino;
    c->r.op.handle = handle;
    c->next = *list;
    *list = c;
    return 0;
}

/* K4 */
static void known_go(struct km_call *list)
{
    while (list != NULL) {
        struct km_call *c = list;

        list = c->next;
        km_go(c);
    }
}

void km_known_add(struct km *m, uint64_t ino)
{
    struct km_known *k = m->known;
    struct known_entry *e;

    if (ino <= SNIC_FSOP_ROOT)
        return;
    pthread_mutex_lock(&k->lock);
    e = known_find(k, ino);
    if (e->ino == 0 && known_grow(k) == 0) {
        e = known_find(k, ino);
        e->ino = ino;
        k->used++;
    }
    e->count += e->ino != 0;
    pthread_mutex_unlock(&k->lock);
}

/* Those whose handle could not be ended for want of a block. Lock held. */
static void known_retry(struct km *m, struct km_call **list)
{
    struct km_known *k = m->known;

    for (uint64_t i = 0; i <= k->mask && k->late > 0; i++) {
        struct known_entry *e = &k->table[i];

        while (e->ino != 0 && e->count == 0) { /* another entry may move to its slot */
            if (known_release(m, e->ino, e->handle, list) != 0)
                return;
            known_remove(k, e);
            k->late--;
        }
    }
}

void km_known_drop(struct km *m, uint64_t ino, uint64_t count)
{
    struct km_known *k = m->known;
    struct km_call *list = NULL;
    struct known_entry *e;

    pthread_mutex_lock(&k->lock);
    if (k->late > 0)
        known_retry(m, &list);
    e = known_find(k, ino);
    if (e->ino != 0) {
        e->count -= snic_min_u64(count, e->count);
        if (e->count == 0 && e->handle != 0 && known_release(m, ino, e->handle, &list) != 0)
            k->late++;
        else if (e->count == 0)
            known_remove(k, e);
    }
    pthread_mutex_unlock(&k->lock);
    known_go(list);
}

void km_known_hold(struct km *m, uint64_t ino, uint64_t handle)
{
    struct km_known *k = m->known;
    struct km_call *list = NULL;
    struct known_entry *e;

    pthread_mutex_lock(&k->lock);
    e = known_find(k, ino);
    if (e->ino != 0 && e->count > 0 && e->handle == 0) {
        e->handle = handle;
        k->held++;
        handle = 0;
    }
    pthread_mutex_unlock(&k->lock);
    if (handle != 0) /* the kernel does not know it: another mount had made the name */
        (void)known_release(m, ino, handle, &list);
    known_go(list);
}

void km_known_end(struct km *m)
{
    struct km_known *k = m->known;
    int more;

    do {
        struct km_call *list = NULL;

        pthread_mutex_lock(&k->lock);
        more = 0;
        for (uint64_t i = 0; i <= k->mask && k->held > 0; i++) {
            struct known_entry *e = &k->table[i];

            if (e->ino == 0 || e->handle == 0)
                continue;
            if (known_release(m, e->ino, e->handle, &list) != 0) {
                more = 1;
                break;
            }
            e->handle = 0;
            k->held--;
        }
        pthread_mutex_unlock(&k->lock);
        known_go(list);
        while (atomic_load(&m->in_flight) > 0)
            (void)snic_loop_once(m->loop, 100000000u);
    } while (more);
}

uint64_t km_known_held(struct km *m)
{
    uint64_t held;

    pthread_mutex_lock(&m->known->lock);
    held = m->known->held;
    pthread_mutex_unlock(&m->known->lock);
    return held;
}
