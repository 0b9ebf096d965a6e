/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Open files. The kernel reports when a process closes a descriptor (FLUSH, with the process as
 * owner of locks) and when the last descriptor of an open file is closed (RELEASE), but not that
 * locks of the open file itself go with it. So the owners that have set locks through an open file
 * are recorded until they close; an owner left at its end is the open file.
 */
#include "mount.h"

#include <stdlib.h>
#include <sys/stat.h>

struct km_file *km_file_new(struct km_call *c)
{
    struct km_file *f = malloc(sizeof(*f));

    if (f != NULL) {
        f->handle = c->r.op.handle;
        f->owners = NULL;
        f->writer = 0;
        f->uid = c->r.op.cred.uid;
        c->opens = 0;
        if (c->r.op.kind != SNIC_FSOP_OPENDIR) {
            uint64_t ino = c->r.op.kind == SNIC_FSOP_CREATE ? c->r.op.attr.ino : c->r.op.ino;

            f->open_flags = c->open_flags;
            f->writer = km_writers_add(c->m, ino, c->open_flags) ? ino : 0;
        }
        f->sgid = (c->r.op.attr.mode & (S_ISGID | S_IXGRP)) == S_ISGID;
        snic_link_append(&c->m->files, &f->link);
    }
    return f;
}

static struct km_owner **file_find(struct km_file *f, uint64_t owner)
{
    struct km_owner **at = &f->owners;

    while (*at != NULL && (*at)->owner != owner)
        at = &(*at)->next;
    return at;
}

static void file_locked(struct km_file *f, uint64_t owner)
{
    struct km_owner **at = file_find(f, owner);

    if (*at != NULL)
        return;
    *at = malloc(sizeof(**at));
    if (*at != NULL) /* else its locks end when the file is closed by all */
        **at = (struct km_owner){.owner = owner};
}

static void file_closed(struct km_file *f, uint64_t owner)
{
    struct km_owner **at = file_find(f, owner);
    struct km_owner *gone = *at;

    if (gone != NULL)
        *at = gone->next;
    free(gone);
}

/* A close that failed may have left locks: they end with the file, after the others'. */
static void file_kept(struct km_file *f, uint64_t owner)
{
    struct km_owner **at = file_find(f, owner);
    struct km_owner *kept = *at;

    if (kept == NULL)
        return;
    *at = kept->next;
    kept->next = NULL;
    *file_find(f, owner) = kept;
}

uint64_t km_file_owner(const struct km_file *f)
{
    return f->owners != NULL ? f->owners->owner : 0;
}

void km_file_free(struct km *m, struct km_file *f)
{
    if (f == NULL)
        return;
    while (f->owners != NULL)
        file_closed(f, f->owners->owner);
    if (f->writer != 0)
        km_writers_drop(m, f->writer, f->open_flags);
    km_open_give(m, f->uid);
    snic_link_remove(&f->link);
    free(f);
}

void km_file_note(struct km_call *c)
{
    const struct snic_fsop *k = &c->r.op;

    if (c->file == NULL)
        return;
    switch (k->kind) {
    case SNIC_FSOP_SETLK:
        if (k->result == 0 && k->lock.type != SNIC_FSOP_UNLCK)
            file_locked(c->file, k->lock.owner);
        break;
    case SNIC_FSOP_FLUSH:
        if (k->result == 0)
            file_closed(c->file, k->lock.owner);
        else
            file_kept(c->file, k->lock.owner);
        break;
    case SNIC_FSOP_RELEASE:
    case SNIC_FSOP_RELEASEDIR:
        km_file_free(c->m, c->file);
        c->file = NULL;
        break;
    default:
        break;
    }
}
