/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file system in another process, behind a link (kr_link): requests are sent, answers received,
 * all on the loop's thread.
 *
 * When that process dies the supervisor starts it again. Meanwhile requests wait, for 30 s at most.
 * Then open files are opened anew, and idempotent requests that were in flight are sent again; the
 * rest (a name made, moved or removed, an append) ends with EIO: their outcome is unknown. For the
 * files a death is a power cut: what was fsynced is durable. So that no loss is silent, the next
 * fsync() or close() of a descriptor with writes that were not fsynced answers EIO, once, and so
 * does the next fsync() of a file or directory that was changed recently in another way, or written
 * through a descriptor that is closed. Locks are lost.
 *
 * The other process is not trusted: an invalid answer is EIO.
 */
#include "remote_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- Handles ---- */

static struct kr_handle *remote_handle(struct km_remote *r, uint64_t h)
{
    return h == 0 || h > r->handle_count || r->handles[h - 1].kind == 0 ? NULL : &r->handles[h - 1];
}

/* @return its number, 0: no memory */
static uint64_t remote_handle_new(struct km_remote *r, const struct km_call *c)
{
    uint64_t h = r->handle_free;

    if (h == 0) {
        uint64_t more = r->handle_count == 0 ? 256 : r->handle_count;
        struct kr_handle *grown =
            realloc(r->handles, (size_t)(r->handle_count + more) * sizeof(*grown));

        if (grown == NULL)
            return 0;
        r->handles = grown;
        for (uint64_t i = 0; i < more; i++) {
            memset(&grown[r->handle_count], 0, sizeof(*grown));
            grown[r->handle_count++].remote = h;
            h = r->handle_count;
        }
    }
    r->handle_free = r->handles[h - 1].remote;
    r->handles[h - 1] = (struct kr_handle){
        .ino = c->r.op.kind == SNIC_FSOP_OPEN || c->r.op.kind == SNIC_FSOP_OPENDIR
                   ? c->r.op.ino
                   : c->r.op.attr.ino,
        .remote = c->r.op.handle,
        .flags = c->r.op.flags & (SNIC_FSOP_CHECKED | SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE),
        .kind = c->r.op.kind == SNIC_FSOP_OPENDIR ? SNIC_FSOP_OPENDIR : SNIC_FSOP_OPEN,
        .cached = {.read_only = (c->r.op.flags & SNIC_FSOP_OPEN_WRITE) == 0}};
    return h;
}

static void remote_handle_free(struct km_remote *r, uint64_t h)
{
    struct kr_handle *e = remote_handle(r, h);

    if (e == NULL)
        return;
    memset(e, 0, sizeof(*e));
    e->remote = r->handle_free;
    r->handle_free = h;
}

/* ---- Queue ---- */

void remote_push(struct km_remote *r, struct km_call *c)
{
    c->next = NULL;
    if (r->first == NULL)
        r->first = c;
    else
        r->last->next = c;
    r->last = c;
}

static struct km_call *remote_pop(struct km_remote *r)
{
    struct km_call *c = r->first;

    if (c != NULL)
        r->first = c->next;
    return c;
}

static int remote_unqueue(struct km_remote *r, struct km_call *c)
{
    struct km_call *all = r->first;
    int found = 0;

    r->first = NULL;
    while (all != NULL) {
        struct km_call *next = all->next;

        if (all == c)
            found = 1;
        else
            remote_push(r, all);
        all = next;
    }
    return found;
}

/* ---- Sending ---- */

uint64_t remote_theirs(struct km_remote *r, const struct km_call *c)
{
    const struct kr_handle *h = c->reopen != 0 ? NULL : remote_handle(r, c->r.op.handle);

    return h != NULL ? h->remote : 0;
}

int remote_send(struct km_remote *r, struct km_call *c)
{
    uint32_t slot;
    int rc;

    if (r->free_count == 0)
        return SNIC_EAGAIN;
    slot = r->free_slots[r->free_count - 1];
    c->number = (uint64_t)r->generation << 32 | slot;
    rc = r->link->send(r, c);
    if (rc != 0)
        return rc;
    r->free_count--;
    r->slots[slot] = c;
    return 0;
}

/* ---- What may be lost: remote_lost.c ---- */

struct snic_fscache_handle *remote_cached(struct km_remote *r, uint64_t handle)
{
    struct kr_handle *h = remote_handle(r, handle);

    return h != NULL ? &h->cached : NULL;
}

/* Its last descriptor is closed: what was written through it counts as changes of the inode. */
static void remote_released(struct km_remote *r, uint64_t handle)
{
    const struct kr_handle *h = remote_handle(r, handle);

    if (h == NULL)
        return;
    if (h->lost)
        remote_lost_note(r, h->ino);
    if (h->cached.writes != 0)
        remote_changed(r, h->ino);
    remote_handle_free(r, handle);
}

static void remote_home(struct km_call *c)
{
    if (c->home != NULL)
        c->home(c);
    else
        km_call_done(c);
}

void remote_end(struct km_call *c, int64_t result)
{
    c->r.op.result = result;
    if (c->r.op.kind == SNIC_FSOP_RELEASE || c->r.op.kind == SNIC_FSOP_RELEASEDIR)
        remote_released(c->m->remote, c->r.op.handle);
    remote_home(c);
}

/* Must an FSYNC, FLUSH or SYNCFS fail for lost changes? Checked whenever it is sent, so that one
   that was in flight when the process died is checked again. */
static int remote_lost(struct km_remote *r, struct km_call *c)
{
    const struct snic_fsop *k = &c->r.op;
    struct kr_handle *h = remote_handle(r, k->handle);
    int lost = 0;

    c->changes = r->change_count;
    if (k->kind == SNIC_FSOP_SYNCFS) {
        lost = r->lost_any;
        r->lost_any = 0;
        return lost;
    }
    if (k->kind != SNIC_FSOP_FSYNC && k->kind != SNIC_FSOP_FLUSH)
        return 0;
    if (h != NULL) {
        c->dirty = h->cached.writes;
        lost = h->lost;
        h->lost = 0;
    }
    if (k->kind == SNIC_FSOP_FSYNC)
        lost |= remote_lost_change(r, k->ino);
    return lost;
}

void remote_flush(struct km_remote *r)
{
    while (r->state == KR_UP && r->first != NULL) {
        struct km_call *c = r->first;
        int rc;

        if (remote_lost(r, c)) {
            (void)remote_pop(r);
            ex_log(EX_WARNING,
                   "inode %llu: changes made before the file system's process died may be lost",
                   (unsigned long long)c->r.op.ino);
            remote_end(c, SNIC_EIO);
            continue;
        }
        rc = remote_send(r, c);
        if (rc == SNIC_EAGAIN)
            return;
        if (r->first == c)
            (void)remote_pop(r);
        if (rc != 0)
            remote_end(c, rc);
    }
}

/* ---- Ends of calls ---- */

void remote_heard(struct km_remote *r)
{
    r->silent_ns = 0;
    r->excused = 0;
}

/* Record changes that fsync() of a file or folder makes durable beside the descriptor's writes. */
static void remote_note_change(struct km_remote *r, const struct snic_fsop *k)
{
    if (k->result < 0)
        return;
    switch (k->kind) {
    case SNIC_FSOP_MKNOD:
    case SNIC_FSOP_MKDIR:
    case SNIC_FSOP_SYMLINK:
    case SNIC_FSOP_CREATE:
        remote_changed(r, k->attr.ino);
        remote_changed(r, k->ino);
        break;
    case SNIC_FSOP_OPEN:
        if ((k->flags & SNIC_FSOP_TRUNC) != 0)
            remote_changed(r, k->ino);
        break;
    case SNIC_FSOP_RENAME:
    case SNIC_FSOP_LINK:
    case SNIC_FSOP_COPY:
        remote_changed(r, k->ino);
        remote_changed(r, k->ino2);
        break;
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_SETATTR:
    case SNIC_FSOP_SETXATTR:
    case SNIC_FSOP_REMOVEXATTR:
    case SNIC_FSOP_FALLOCATE:
        remote_changed(r, k->ino);
        break;
    default:
        break;
    }
}

/* What the answer means for the handle. */
static void remote_note(struct km_remote *r, struct km_call *c)
{
    struct snic_fsop *k = &c->r.op;
    struct kr_handle *h;

    remote_note_change(r, k);
    switch (k->kind) {
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_CREATE:
    case SNIC_FSOP_OPENDIR:
        if (k->result == 0) {
            k->handle = remote_handle_new(r, c);
            if (k->handle == 0)
                k->result = SNIC_ENFILE;
        }
        break;
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_RENAME: /* a handle that holds an inode; without memory it is held until this
                              process ends */
        if (k->result == 0 && k->handle != 0)
            k->handle = remote_handle_new(r, c);
        break;
    case SNIC_FSOP_RELEASE:
    case SNIC_FSOP_RELEASEDIR:
        remote_released(r, k->handle);
        break;
    case SNIC_FSOP_WRITE:
        h = remote_handle(r, k->handle);
        if (h != NULL && k->result > 0)
            h->cached.writes++;
        break;
    case SNIC_FSOP_FSYNC:
        h = remote_handle(r, k->handle);
        if (h != NULL && k->result == 0 && h->cached.writes == c->dirty)
            h->cached.writes = 0;
        if (k->result == 0)
            r->durable_changes = snic_max_u64(r->durable_changes, c->changes);
        break;
    case SNIC_FSOP_SYNCFS:
        if (k->result == 0)
            r->durable_changes = snic_max_u64(r->durable_changes, c->changes);
        break;
    default:
        break;
    }
}

static void remote_reopened(struct km_remote *r, struct km_call *c)
{
    struct kr_handle *h = &r->handles[c->reopen - 1];

    h->remote = c->r.op.result == 0 ? c->r.op.handle : 0;
    r->reopening--;
    km_call_put(c);
}

/* The largest valid result of the request; @p size bytes of data were received with it. */
static int64_t remote_most(const struct snic_fsop *k, uint32_t size)
{
    switch (k->kind) {
    case SNIC_FSOP_READ:
    case SNIC_FSOP_READLINK:
    case SNIC_FSOP_READDIR:
        return (int64_t)snic_min_u64(k->iov[0].size, size);
    case SNIC_FSOP_GETXATTR:
    case SNIC_FSOP_LISTXATTR:
        return k->iov_count == 0 ? SNIC_FSOP_XATTR_LIST_MAX
                                 : (int64_t)snic_min_u64(k->iov[0].size, size);
    case SNIC_FSOP_WRITE:
    case SNIC_FSOP_COPY:
        return (int64_t)k->length;
    case SNIC_FSOP_SEEK:
        return INT64_MAX;
    default:
        return 0;
    }
}

/* Is it a valid answer to the request? */
static int remote_sane(const struct snic_fsop *k, const struct km_down *d, uint32_t size)
{
    const struct snic_fsop_lock *l = &d->u.lock;

    if (d->result > remote_most(k, size) || (d->result <= -512 && d->result > -1000))
        return 0; /* errors from 512 on are internal to the kernel: it refuses such an answer */
    if (k->kind != SNIC_FSOP_GETLK || d->result != 0 || l->type == SNIC_FSOP_UNLCK)
        return 1;
    return (l->type == SNIC_FSOP_RDLCK || l->type == SNIC_FSOP_WRLCK) && l->start <= INT64_MAX &&
           l->start <= l->end;
}

/* Is there a handle in the answer? */
static int remote_opens(uint32_t kind)
{
    switch (kind) {
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_CREATE:
    case SNIC_FSOP_OPENDIR:
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_RENAME:
        return 1;
    default:
        return 0;
    }
}

void remote_answer(struct km_remote *r, const struct km_down *d, void *data, uint32_t size)
{
    uint32_t slot = (uint32_t)d->number;
    struct km_call *c = slot < KR_SLOTS ? r->slots[slot] : NULL;
    struct snic_fsop *k;

    if (c == NULL || c->number != d->number)
        return;
    r->slots[slot] = NULL;
    r->free_slots[r->free_count++] = (uint16_t)slot;
    k = &c->r.op;
    k->result = d->result;
    if (!remote_sane(k, d, size)) {
        ex_log(EX_ERROR,
               "protocol error: the file system's process sent result %lld for operation %u",
               (long long)d->result, k->kind);
        k->result = SNIC_EIO;
    }
    if (remote_opens(k->kind))
        k->handle = d->handle;
    if (k->kind == SNIC_FSOP_STATFS)
        k->statfs = d->u.statfs;
    else if (k->kind == SNIC_FSOP_GETLK)
        k->lock = d->u.lock;
    else
        k->attr = d->u.attr;
    c->data = data != NULL ? data : km_call_data(c);
    if (c->reopen != 0) {
        remote_reopened(r, c);
        return;
    }
    remote_note(r, c);
    remote_home(c);
}

/*
 * These use the inode number that a name had before the death, which may be another file's now: the
 * kernel looks the path up again. Requests with a descriptor are not concerned.
 */
int remote_by_name(const struct snic_fsop *k)
{
    switch (k->kind) {
    case SNIC_FSOP_OPEN:
    case SNIC_FSOP_OPENDIR:
        return 1;
    case SNIC_FSOP_SETATTR:
        return k->handle == 0 && (k->set_mask & SNIC_FSOP_SET_SIZE) != 0;
    default:
        return 0;
    }
}

/* ---- Submit ---- */

static void remote_submit(struct km *m, struct km_call *c)
{
    struct km_remote *r = m->remote;

    c->reopen = 0;
    c->dirty = 0;
    c->cancelled = 0;
    remote_push(r, c);
    if (r->state == KR_UP && r->first == c)
        remote_flush(r);
}

static int remote_cancel(struct km *m, struct km_call *c)
{
    struct km_remote *r = m->remote;

    if (remote_unqueue(r, c)) {
        remote_end(c, SNIC_EINTR);
        return 1;
    }
    c->cancelled = 1;
    return r->state == KR_DOWN || r->link->cancel(r, c);
}

const struct km_carrier remote_carrier = {.submit = remote_submit, .cancel = remote_cancel};
