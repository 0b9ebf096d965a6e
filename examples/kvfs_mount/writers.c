/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inodes of which the kernel may have dirty bytes that are unknown here: pages of a mapping, or of
 * its write-back cache. SEEK_DATA, SEEK_HOLE and st_blocks of such a file must not make a program
 * that copies it leave bytes out: all of it is reported as data.
 *
 * The kernel does not report mappings, but a mapping holds its open file (RELEASE comes after the
 * last one), can be written only where that was opened for reading and writing, and its pages are
 * written when it ends. So a file counts as long as it is open that way or, where the kernel or the
 * hybrid cache gathers writes, in any way that writes.
 *
 * A SETATTR of nothing is what the kernel sends for chown(-1, -1), and before it changes bytes of a
 * file with privileges. Where no process has the file open for writing it is the former.
 *
 * The loop's thread adds and drops, readers' threads look: the kernel has had the answer to the
 * open before anything could be written to its pages.
 */
#include "mount.h"

#include <fcntl.h>
#include <stdlib.h>

struct km_writer {
    struct km_writer *next;
    uint64_t ino;
    uint64_t count; /* files open for writing, */
    uint64_t pages; /* of which the kernel may have bytes */
};

static struct km_writer **writers_find(struct km *m, uint64_t ino)
{
    struct km_writer **at =
        &m->writers[(ino * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (KM_WRITERS - 1)];

    SNIC_STATIC_ASSERT((KM_WRITERS & (KM_WRITERS - 1)) == 0, "a power of two");
    while (*at != NULL && (*at)->ino != ino)
        at = &(*at)->next;
    return at;
}

static int writers_pages(const struct km *m, uint32_t open_flags)
{
    return ((int)open_flags & O_ACCMODE) == O_RDWR || m->config->writeback || m->config->write_back;
}

int km_writers_add(struct km *m, uint64_t ino, uint32_t open_flags)
{
    struct km_writer **at;
    int added;

    if (((int)open_flags & O_ACCMODE) == O_RDONLY)
        return 0;
    pthread_mutex_lock(&m->writers_lock);
    at = writers_find(m, ino);
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at != NULL)
            (*at)->ino = ino;
        else
            m->writers_unknown = 1; /* until the mount ends */
    }
    added = *at != NULL;
    if (added) {
        (*at)->count++;
        (*at)->pages += (uint64_t)writers_pages(m, open_flags);
    }
    pthread_mutex_unlock(&m->writers_lock);
    return added;
}

void km_writers_drop(struct km *m, uint64_t ino, uint32_t open_flags)
{
    struct km_writer **at;

    pthread_mutex_lock(&m->writers_lock);
    at = writers_find(m, ino);
    if (*at != NULL)
        (*at)->pages -= (uint64_t)writers_pages(m, open_flags);
    if (*at != NULL && --(*at)->count == 0) {
        struct km_writer *gone = *at;

        *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&m->writers_lock);
}

static int writers_has(struct km *m, uint64_t ino, int pages)
{
    const struct km_writer *w;
    int any;

    pthread_mutex_lock(&m->writers_lock);
    w = *writers_find(m, ino);
    any = m->writers_unknown || (w != NULL && (!pages || w->pages != 0));
    pthread_mutex_unlock(&m->writers_lock);
    return any;
}

int km_writers_any(struct km *m, uint64_t ino)
{
    return writers_has(m, ino, 1);
}

int km_writers_open(struct km *m, uint64_t ino)
{
    return writers_has(m, ino, 0);
}
