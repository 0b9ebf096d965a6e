/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file system in another process, behind the ring: requests go up, answers come down, all on
 * the loop's thread.
 *
 * When that process dies the supervisor starts it again. Meanwhile requests wait, for 30 s at most.
 * Then open files are opened anew, and what was under way is asked again if asking twice does no
 * harm; the rest (a name made, moved or removed, an append) ends with EIO, since it may have
 * happened or not. To the files the death is what a power cut is to a disk: all that was
 * fsynced is there. So that no loss is silent, the next fsync() or close() of a descriptor with
 * writes that were not fsynced answers EIO, once, and so does the next fsync() of a file or folder
 * that was changed of late in another way. Locks that were held are gone.
 *
 * Invariants
 *   R1 A call is in one place: queued (not sent), sent (slots[] has it), or done.
 *   R2 A handle that the kernel has is an index into handles[]; the file system's own number for
 *      it changes with each of its lives, and is 0 while it has none.
 */
#include "mount.h"

#include "../common.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define KR_RETRY_NS 50000000u
#define KR_GIVE_UP_NS 30000000000u
#define KR_STOPPING_NS 2000000000u

enum { KR_SLOTS = 4096, KR_CHANGES = 2048 };
#define KR_CHANGE_NS 30000000000u /* so late the store has it for certain */

enum kr_state { KR_DOWN, KR_REOPENING, KR_UP };

struct kr_handle {
    uint64_t ino;
    uint64_t remote; /* R2 */
    uint64_t dirty;  /* writes since the last fsync */
    uint32_t flags;  /* of OPEN, without TRUNC */
    uint32_t kind;   /* SNIC_KVFS_OPEN, OPENDIR; 0: free, next in `remote` */
    int lost;        /* writes that may be */
};

/* Something was changed, and may be lost if the file system's process dies. */
struct kr_change {
    uint64_t ino; /* 0: no more */
    uint64_t number;
    uint64_t ns;
};

struct km_remote {
    struct km *m;
    enum kr_state state;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    struct snic_channel *channel;
    void *hub_memory;
    struct snic_channel_sender sender;
    struct snic_timer timer;
    struct snic_loop_msg flush;
    uint64_t down_ns;
    int flush_queued;
    int cut; /* the link is to be taken down */

    struct km_call *first; /* queued */
    struct km_call *last;
    struct km_call *slots[KR_SLOTS];
    uint16_t free_slots[KR_SLOTS];
    uint32_t free_count;
    uint32_t generation;

    struct kr_handle *handles;
    uint64_t handle_count;
    uint64_t handle_free; /* index + 1 */
    uint64_t reopen_next;
    uint64_t reopening;

    struct kr_change changes[KR_CHANGES]; /* the last ones, by number */
    uint64_t change_count;
    uint64_t durable_changes; /* below this they are durable: one fsync is for all, */
    uint64_t lost_changes;    /* and below this those that are left may be lost */
};

static void remote_flush(struct km_remote *r);

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
        .ino = c->r.k.kind == SNIC_KVFS_CREATE ? c->r.k.attr.ino : c->r.k.ino,
        .remote = c->r.k.handle,
        .flags = c->r.k.flags & (SNIC_KVFS_CHECKED | SNIC_KVFS_OPEN_READ | SNIC_KVFS_OPEN_WRITE),
        .kind = c->r.k.kind == SNIC_KVFS_OPENDIR ? SNIC_KVFS_OPENDIR : SNIC_KVFS_OPEN};
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

static void remote_push(struct km_remote *r, struct km_call *c)
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

/* ---- Up ---- */

static uint32_t remote_data_size(const struct snic_kvfs_req *k)
{
    return (k->kind == SNIC_KVFS_WRITE || k->kind == SNIC_KVFS_SETXATTR) && k->iov_count > 0
               ? (uint32_t)k->iov[0].size
               : 0;
}

static void remote_header(struct km_remote *r, const struct km_call *c, struct km_up *u)
{
    const struct snic_kvfs_req *k = &c->r.k;
    const struct kr_handle *h = c->reopen != 0 ? NULL : remote_handle(r, k->handle);

    memset(u, 0, sizeof(*u));
    u->number = c->number;
    u->kind = k->kind;
    u->flags = k->flags;
    u->uid = k->cred.uid;
    u->gid = k->cred.gid;
    u->pid = k->cred.pid;
    u->umask = k->cred.umask;
    u->ino = k->ino;
    u->ino2 = k->ino2;
    u->handle = h != NULL ? h->remote : 0;
    u->offset = k->offset;
    u->offset2 = k->offset2;
    u->length = k->length;
    u->rdev = k->rdev;
    u->mode = k->mode;
    u->set_mask = k->set_mask;
    u->name_size = (uint16_t)k->name_size;
    u->name2_size = (uint16_t)k->name2_size;
    u->group_count = k->cred.group_count;
    u->data_size = remote_data_size(k);
    u->room = k->iov_count > 0 && k->kind != SNIC_KVFS_WRITE && k->kind != SNIC_KVFS_SETXATTR
                  ? (uint32_t)k->iov[0].size
                  : 0;
    if (k->kind == SNIC_KVFS_SETATTR) {
        u->u.set.size = k->attr.size;
        u->u.set.mode = k->attr.mode;
        u->u.set.uid = k->attr.uid;
        u->u.set.gid = k->attr.gid;
        u->u.set.atime = k->attr.atime;
        u->u.set.mtime = k->attr.mtime;
        u->u.set.ctime = k->attr.ctime;
    } else {
        u->u.lock = k->lock;
    }
}

/* 0; SNIC_EAGAIN: later */
static int remote_send(struct km_remote *r, struct km_call *c)
{
    const struct snic_kvfs_req *k = &c->r.k;
    struct snic_iov pieces[4] = {{(void *)(uintptr_t)k->cred.groups, k->cred.group_count * 4u},
                                 {(void *)(uintptr_t)k->name, k->name_size},
                                 {(void *)(uintptr_t)k->name2, k->name2_size},
                                 {NULL, remote_data_size(k)}};
    struct km_up u;
    uint32_t slot;
    int rc;

    if (r->free_count == 0)
        return SNIC_EAGAIN;
    if (pieces[3].size > 0)
        pieces[3].base = k->iov[0].base;
    slot = r->free_slots[r->free_count - 1];
    c->number = (uint64_t)r->generation << 32 | slot;
    remote_header(r, c, &u);
    rc = snic_channel_up_push(&r->sender, KM_WIRE_CALL, &u, sizeof(u), pieces, 4);
    if (rc != 0)
        return SNIC_EAGAIN; /* full, or the link is going */
    r->free_count--;
    r->slots[slot] = c;
    return 0;
}

static void remote_end(struct km_call *c, int64_t result)
{
    c->r.k.result = result;
    km_call_done(c);
}

/* ---- What may be lost ---- */

static void remote_changed(struct km_remote *r, uint64_t ino)
{
    uint64_t now = snic_loop_now(r->m->loop);

    if (ino == 0)
        return;
    r->changes[r->change_count % KR_CHANGES] =
        (struct kr_change){.ino = ino, .number = r->change_count, .ns = now};
    r->change_count++;
}

/* @return 1: a change of the inode may be lost; it is told once */
static int remote_lost_change(struct km_remote *r, uint64_t ino)
{
    int lost = 0;

    for (uint32_t i = 0; i < KR_CHANGES; i++) {
        struct kr_change *e = &r->changes[i];

        if (e->ino != ino || e->number >= r->lost_changes)
            continue;
        lost = 1;
        e->ino = 0;
    }
    return lost;
}

/* An FSYNC or FLUSH that cannot promise anything: asked when it is sent, so that one that was
   under way when the process died is asked, too. */
static int remote_lost(struct km_remote *r, struct km_call *c)
{
    const struct snic_kvfs_req *k = &c->r.k;
    struct kr_handle *h = remote_handle(r, k->handle);
    int lost = 0;

    c->changes = r->change_count;
    if (k->kind != SNIC_KVFS_FSYNC && k->kind != SNIC_KVFS_FLUSH)
        return 0;
    if (h != NULL) {
        c->dirty = h->dirty;
        lost = h->lost;
        h->lost = 0;
    }
    if (k->kind == SNIC_KVFS_FSYNC && r->lost_changes != 0)
        lost |= remote_lost_change(r, k->ino);
    return lost;
}

/* Send what waits, as far as the ring has room. */
static void remote_flush(struct km_remote *r)
{
    while (r->state == KR_UP && r->first != NULL) {
        struct km_call *c = r->first;

        if (remote_lost(r, c)) {
            (void)remote_pop(r);
            ex_log(EX_WARNING,
                   "inode %llu: changes before the file system's process died may be "
                   "lost",
                   (unsigned long long)c->r.k.ino);
            remote_end(c, SNIC_EIO);
            continue;
        }
        if (remote_send(r, c) != 0)
            return;
        if (r->first == c)
            (void)remote_pop(r);
    }
}

static void remote_flush_run(struct snic_loop_msg *msg)
{
    struct km_remote *r = SNIC_CONTAINER(msg, struct km_remote, flush);

    r->flush_queued = 0;
    remote_flush(r);
}

/* ---- Ends of calls ---- */

/* What fsync() of a file or folder promises beside the descriptor's writes. */
static void remote_note_change(struct km_remote *r, const struct snic_kvfs_req *k)
{
    if (k->result < 0)
        return;
    switch (k->kind) {
    case SNIC_KVFS_MKNOD:
    case SNIC_KVFS_MKDIR:
    case SNIC_KVFS_SYMLINK:
    case SNIC_KVFS_CREATE:
        remote_changed(r, k->attr.ino);
        remote_changed(r, k->ino);
        break;
    case SNIC_KVFS_OPEN:
        if ((k->flags & SNIC_KVFS_TRUNC) != 0)
            remote_changed(r, k->ino);
        break;
    case SNIC_KVFS_RENAME:
    case SNIC_KVFS_LINK:
    case SNIC_KVFS_COPY:
        remote_changed(r, k->ino);
        remote_changed(r, k->ino2);
        break;
    case SNIC_KVFS_UNLINK:
    case SNIC_KVFS_RMDIR:
    case SNIC_KVFS_SETATTR:
    case SNIC_KVFS_SETXATTR:
    case SNIC_KVFS_REMOVEXATTR:
    case SNIC_KVFS_FALLOCATE:
        remote_changed(r, k->ino);
        break;
    default:
        break;
    }
}

/* What the answer means for the handle. */
static void remote_note(struct km_remote *r, struct km_call *c)
{
    struct snic_kvfs_req *k = &c->r.k;
    struct kr_handle *h;

    remote_note_change(r, k);
    switch (k->kind) {
    case SNIC_KVFS_OPEN:
    case SNIC_KVFS_CREATE:
    case SNIC_KVFS_OPENDIR:
        if (k->result == 0) {
            k->handle = remote_handle_new(r, c);
            if (k->handle == 0)
                k->result = SNIC_ENFILE;
        }
        break;
    case SNIC_KVFS_RELEASE:
    case SNIC_KVFS_RELEASEDIR:
        remote_handle_free(r, k->handle);
        break;
    case SNIC_KVFS_WRITE:
        h = remote_handle(r, k->handle);
        if (h != NULL && k->result > 0)
            h->dirty++;
        break;
    case SNIC_KVFS_FSYNC:
        h = remote_handle(r, k->handle);
        if (h != NULL && k->result == 0 && h->dirty == c->dirty)
            h->dirty = 0;
        if (k->result == 0)
            r->durable_changes = snic_max_u64(r->durable_changes, c->changes);
        break;
    case SNIC_KVFS_SYNCFS:
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

    h->remote = c->r.k.result == 0 ? c->r.k.handle : 0;
    r->reopening--;
    km_call_put(c);
}

static void remote_answer(struct km_remote *r, const struct km_down *d, void *data, uint32_t size)
{
    uint32_t slot = (uint32_t)d->number;
    struct km_call *c = slot < KR_SLOTS ? r->slots[slot] : NULL;
    struct snic_kvfs_req *k;

    if (c == NULL || c->number != d->number)
        return;
    r->slots[slot] = NULL;
    r->free_slots[r->free_count++] = (uint16_t)slot;
    k = &c->r.k;
    k->result = d->result > 0 && k->iov_count > 0 && k->kind != SNIC_KVFS_WRITE &&
                        k->kind != SNIC_KVFS_SETXATTR && d->result > (int64_t)size
                    ? SNIC_EIO
                    : d->result;
    if (k->kind == SNIC_KVFS_OPEN || k->kind == SNIC_KVFS_CREATE || k->kind == SNIC_KVFS_OPENDIR)
        k->handle = d->handle;
    if (k->kind == SNIC_KVFS_STATFS)
        k->statfs = d->u.statfs;
    else if (k->kind == SNIC_KVFS_GETLK)
        k->lock = d->u.lock;
    else
        k->attr = d->u.attr;
    c->data = data != NULL ? data : km_call_data(c);
    if (c->reopen != 0) {
        remote_reopened(r, c);
        return;
    }
    remote_note(r, c);
    km_call_done(c);
}

/* ---- Submit ---- */

static void remote_submit(struct km *m, struct km_call *c)
{
    struct km_remote *r = m->remote;

    c->reopen = 0;
    c->dirty = 0;
    remote_push(r, c);
    if (r->state == KR_UP && r->first == c)
        remote_flush(r);
}

static int remote_cancel(struct km *m, struct km_call *c)
{
    struct km_remote *r = m->remote;
    struct km_up u;

    if (remote_unqueue(r, c)) {
        remote_end(c, SNIC_EINTR);
        return 1;
    }
    memset(&u, 0, sizeof(u));
    u.number = c->number;
    return r->state == KR_DOWN ||
           snic_channel_up_push(&r->sender, KM_WIRE_CANCEL, &u, sizeof(u), NULL, 0) == 0;
}

static const struct km_carrier remote_carrier = {.submit = remote_submit, .cancel = remote_cancel};

/* ---- The link ---- */

static int remote_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *msg)
{
    struct km_remote *r = ctx;
    const struct km_down *d = msg->header;

    (void)ch;
    if (msg->header_bytes != sizeof(*d))
        return 1;
    if ((int)d->alone != atomic_load_explicit(&r->m->alone, memory_order_relaxed)) {
        atomic_store_explicit(&r->m->alone, (int)d->alone, memory_order_relaxed);
        if (r->m->mounted_here)
            km_session_expire(r->m);
    }
    if (msg->type == KM_WIRE_CALL)
        remote_answer(r, d, msg->payload, msg->payload_bytes);
    if (!r->flush_queued && (r->first != NULL || r->state == KR_REOPENING)) {
        r->flush_queued = 1;
        snic_loop_defer(r->m->loop, &r->flush);
    }
    return 1;
}

static void remote_writable(void *ctx, struct snic_channel *ch)
{
    (void)ch;
    remote_flush(ctx);
}

static void remote_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct km_remote *r = ctx;

    (void)ch;
    (void)reason;
    r->cut = 1;
}

static void remote_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct km_remote *r = ctx;

    (void)h;
    (void)cause;
    r->cut = 1;
}

/* May it be asked twice? */
static int remote_again(const struct km_call *c)
{
    switch (c->r.k.kind) {
    case SNIC_KVFS_MKNOD:
    case SNIC_KVFS_MKDIR:
    case SNIC_KVFS_SYMLINK:
    case SNIC_KVFS_UNLINK:
    case SNIC_KVFS_RMDIR:
    case SNIC_KVFS_RENAME:
    case SNIC_KVFS_LINK:
    case SNIC_KVFS_REMOVEXATTR:
        return 0;
    case SNIC_KVFS_CREATE:
        return (c->r.k.flags & SNIC_KVFS_EXCL) == 0;
    case SNIC_KVFS_WRITE:
        return (c->r.k.flags & SNIC_KVFS_APPEND) == 0;
    case SNIC_KVFS_SETXATTR:
        return (c->r.k.flags & (SNIC_KVFS_XATTR_CREATE | SNIC_KVFS_XATTR_REPLACE)) == 0;
    default:
        return 1;
    }
}

/* What was sent is asked again before what was not, or ends. */
static void remote_recall(struct km_remote *r)
{
    struct km_call *later = r->first;

    r->first = NULL;
    for (uint32_t i = 0; i < KR_SLOTS; i++) {
        struct km_call *c = r->slots[i];

        if (c == NULL)
            continue;
        r->slots[i] = NULL;
        r->free_slots[r->free_count++] = (uint16_t)i;
        if (c->reopen != 0)
            km_call_put(c);
        else if (remote_again(c))
            remote_push(r, c);
        else
            remote_end(c, SNIC_EIO);
    }
    if (r->first == NULL)
        r->first = later;
    else
        r->last->next = later;
    while (r->first != NULL && r->last->next != NULL)
        r->last = r->last->next;
}

/* At the top level: closing runs the loop. */
static void remote_down(struct km_remote *r)
{
    r->cut = 0;
    r->state = KR_DOWN;
    r->generation++;
    r->down_ns = snic_loop_now(r->m->loop);
    r->reopening = 0;
    snic_channel_close(r->channel);
    snic_channel_hub_fini(r->hub);
    free(r->hub_memory);
    r->channel = NULL;
    r->hub = NULL;
    for (uint64_t i = 0; i < r->handle_count; i++) {
        struct kr_handle *h = &r->handles[i];

        if (h->kind == 0)
            continue;
        h->remote = 0;
        h->lost |= h->dirty != 0;
        h->dirty = 0;
    }
    for (uint32_t i = 0; i < KR_CHANGES; i++)
        if (r->changes[i].number < r->durable_changes ||
            r->down_ns - r->changes[i].ns > KR_CHANGE_NS)
            r->changes[i].ino = 0;
    r->lost_changes = r->change_count;
    remote_recall(r);
    ex_log(EX_WARNING, "the file system's process has gone; requests wait for the next one");
}

/* Open again what the kernel has open. */
static void remote_reopen(struct km_remote *r)
{
    while (r->reopen_next < r->handle_count) {
        struct kr_handle *h = &r->handles[r->reopen_next];
        struct km_call *c;

        if (h->kind != 0) {
            c = km_call_get(r->m);
            if (c == NULL)
                return;
            memset(&c->r, 0, sizeof(c->r));
            c->waits = 0;
            c->dirty = 0;
            c->reopen = r->reopen_next + 1;
            c->r.k.kind = h->kind;
            c->r.k.ino = h->ino;
            c->r.k.flags = h->flags;
            if (remote_send(r, c) != 0) {
                km_call_put(c);
                return;
            }
            r->reopening++;
        }
        r->reopen_next++;
    }
    if (r->reopening == 0) {
        r->state = KR_UP;
        remote_flush(r);
    }
}

static int remote_link(struct km_remote *r, struct snic_dma *dma)
{
    struct snic_channel_hub_opts h = {.opts_size = sizeof(h), .death = remote_death, .ctx = r};
    struct snic_channel_opts o = {.opts_size = sizeof(o),
                                  .kind = KM_WIRE_KIND,
                                  .up_bytes = KM_WIRE_RING,
                                  .down_bytes = KM_WIRE_RING};
    struct snic_channel_events e = {
        .message = remote_message, .writable = remote_writable, .closed = remote_closed, .ctx = r};
    size_t size = snic_channel_hub_memsize(&h);
    int rc = SNIC_ENOMEM;

    if (posix_memalign(&r->hub_memory, SNIC_CACHELINE, size) != 0) {
        snic_dma_close(dma);
        return rc;
    }
    rc = snic_channel_hub_init(&r->hub, r->hub_memory, size, dma, &h);
    if (rc != 0) {
        snic_dma_close(dma);
        free(r->hub_memory);
        return rc;
    }
    rc = snic_channel_open(&r->channel, r->hub, &o, &e);
    if (rc == 0)
        rc = snic_channel_sender_init(&r->sender, r->channel);
    if (rc != 0) {
        if (r->channel != NULL)
            snic_channel_close(r->channel);
        snic_channel_hub_fini(r->hub);
        free(r->hub_memory);
        r->channel = NULL;
        r->hub = NULL;
    }
    return rc;
}

static int remote_connect(struct km_remote *r)
{
    static const struct snic_dma_events none;
    struct snic_dma_shm_opts o = {
        .opts_size = sizeof(o), .timeout_ms = 1000, .path = r->m->config->socket};
    struct snic_dma *dma;
    int rc = snic_dma_shm_connect(&dma, r->m->loop, &o, &none);

    if (rc == 0)
        rc = remote_link(r, dma);
    if (rc != 0)
        return rc;
    ex_log(EX_INFO, "attached to the file system's process");
    r->state = KR_REOPENING;
    r->reopen_next = 0;
    r->reopening = 0;
    return 0;
}

static void remote_look(struct snic_timer *t, uint64_t now)
{
    struct km_remote *r = SNIC_CONTAINER(t, struct km_remote, timer);

    if (r->cut && r->state != KR_DOWN)
        remote_down(r);
    if (r->state == KR_DOWN && remote_connect(r) != 0 &&
        now - r->down_ns > (atomic_load(&r->m->stopping) ? KR_STOPPING_NS : KR_GIVE_UP_NS)) {
        struct km_call *c = r->first;

        r->first = NULL;
        while (c != NULL) {
            struct km_call *next = c->next;

            remote_end(c, SNIC_ETIMEDOUT);
            c = next;
        }
    }
    if (r->state == KR_REOPENING)
        remote_reopen(r);
    snic_loop_arm(r->m->loop, t, now + KR_RETRY_NS);
}

/* ---- Open and close ---- */

int km_remote_open(struct km *m)
{
    struct km_remote *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return SNIC_ENOMEM;
    m->remote = r;
    m->carrier = &remote_carrier;
    r->m = m;
    r->flush.fn = remote_flush_run;
    r->generation = 1;
    for (uint32_t i = 0; i < KR_SLOTS; i++)
        r->free_slots[r->free_count++] = (uint16_t)(KR_SLOTS - 1 - i);
    snic_timer_init(&r->timer, remote_look);
    r->down_ns = snic_loop_now(m->loop);
    while (remote_connect(r) != 0) {
        if (snic_loop_clock(m->loop) - r->down_ns > KR_GIVE_UP_NS) {
            ex_log(EX_ERROR, "no file system's process at %s", m->config->socket);
            return SNIC_ETIMEDOUT;
        }
        (void)snic_loop_once(m->loop, 20000000u);
    }
    r->state = KR_UP;
    snic_loop_arm(m->loop, &r->timer, snic_loop_now(m->loop) + KR_RETRY_NS);
    return 0;
}

void km_remote_close(struct km *m)
{
    struct km_remote *r = m->remote;
    uint64_t until = snic_loop_now(m->loop) + 2000000000u;

    if (r == NULL)
        return;
    snic_loop_cancel(m->loop, &r->timer);
    if (r->channel != NULL) {
        snic_channel_close(r->channel);
        while (snic_channel_hub_count(r->hub) > 0 && snic_loop_now(m->loop) < until)
            (void)snic_loop_once(m->loop, 10000000u);
        snic_channel_hub_fini(r->hub);
        free(r->hub_memory);
    }
    free(r->handles);
    free(r);
    m->remote = NULL;
}
