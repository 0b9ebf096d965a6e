/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU's process: the file system, for one host behind the ring. Names and data are used where
 * the host put them, and bytes read go straight into the ring.
 *
 * When the host has gone, its open files and locks end with the session that had them, and a
 * new session waits for the next host.
 */
#include "mount.h"

#include "../common.h"
#include "wire.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KD_LOOK_NS 50000000u
#define KD_TELL_NS 1000000000u /* the host hears of us so often: a silent process is killed */

struct kd;

/* A name and a symlink's target, as long as the kernel lets through, and some. */
enum { KD_NAMES = SNIC_KVFS_NAME_MAX + 4096 + 256 };

struct kd_call {
    struct snic_fs_req r;
    struct kd *d;
    struct snic_link link; /* of calls that wait for locks, or of answers that wait for room */
    struct kd_call *next;
    struct snic_channel_token token;
    struct snic_channel_slot slot;
    struct snic_iov iov;
    uint64_t number;
    int has_token;
    int has_slot;
    struct km_down answer; /* waits for room */
    char names[KD_NAMES];
};

struct kd {
    const struct km_config *config;
    struct snic_loop *loop;
    struct kvfs_store store;
    struct snic_dma_listener *listener;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    struct snic_channel *channel;
    void *hub_memory;
    struct kd_call *calls;
    struct kd_call *free;
    uint32_t in_flight;
    struct snic_link locks;   /* wait for their turn */
    struct snic_link answers; /* wait for room in the ring */
    struct snic_timer timer;
    uint32_t alone;
    int stalled; /* a message waits for a call or for room */
    int gone;    /* the host */
    int mounted; /* else the next host's requests wait */
    int ending;
    int tell_alone;
    uint64_t told_ns;
    int dead; /* it has been said that the session is */
};

/* ---- Answers ---- */

static void dpu_put(struct kd_call *c)
{
    struct kd *d = c->d;

    c->next = d->free;
    d->free = c;
    d->in_flight--;
    if (d->stalled && d->channel != NULL) {
        d->stalled = 0;
        snic_channel_resume(d->channel);
    }
}

static void dpu_fill(const struct kd_call *c, struct km_down *h)
{
    const struct snic_kvfs_req *k = &c->r.k;

    memset(h, 0, sizeof(*h));
    h->number = c->number;
    h->result = k->result;
    h->handle = k->handle;
    h->alone = c->d->alone;
    if (k->kind == SNIC_KVFS_STATFS)
        h->u.statfs = k->statfs;
    else if (k->kind == SNIC_KVFS_GETLK)
        h->u.lock = k->lock;
    else
        h->u.attr = k->attr;
}

static void dpu_answers(struct kd *d)
{
    while (!snic_link_alone(&d->answers)) {
        struct kd_call *c = SNIC_CONTAINER(d->answers.next, struct kd_call, link);

        if (!d->gone && snic_channel_down_push(d->channel, KM_WIRE_CALL, &c->answer,
                                               sizeof(c->answer), NULL, 0) == SNIC_EAGAIN)
            return;
        snic_link_remove(&c->link);
        dpu_put(c);
    }
}

static void dpu_done(struct snic_fs_req *r)
{
    struct kd_call *c = SNIC_CONTAINER(r, struct kd_call, r);
    struct kd *d = c->d;

    if ((r->k.flags & SNIC_KVFS_LOCK_WAIT) != 0)
        snic_link_remove(&c->link);
    if (c->has_token)
        snic_channel_release(d->channel, &c->token);
    if (c->has_slot) {
        /* No more than there is room: a result need not be a count of bytes that were read. */
        uint64_t bytes = r->k.result > 0 ? (uint64_t)r->k.result : 0;

        dpu_fill(c, c->slot.header);
        snic_channel_down_commit(d->channel, &c->slot,
                                 (uint32_t)snic_min_u64(bytes, c->slot.payload_bytes));
        dpu_put(c);
        return;
    }
    dpu_fill(c, &c->answer);
    snic_link_append(&d->answers, &c->link);
    dpu_answers(d);
}

/* ---- Requests ---- */

static int dpu_fits(const struct km_up *u, const struct snic_channel_msg *m)
{
    uint64_t size =
        (uint64_t)u->name_size + u->name2_size + (uint64_t)u->group_count * 4 + u->data_size;

    return size == m->payload_bytes && u->group_count <= KM_GROUPS && u->room <= KM_DATA &&
           (uint32_t)u->name_size + u->name2_size <= KD_NAMES;
}

static void dpu_request(struct kd_call *c, const struct km_up *u, unsigned char *payload)
{
    struct snic_kvfs_req *k = &c->r.k;

    k->kind = u->kind < SNIC_KVFS_MKFS ? u->kind : 0; /* making and ending is not the host's */
    k->flags = u->flags;
    k->cred.uid = u->uid;
    k->cred.gid = u->gid;
    k->cred.pid = u->pid;
    k->cred.umask = u->umask;
    k->ino = u->ino;
    k->ino2 = u->ino2;
    k->handle = u->handle;
    k->offset = u->offset;
    k->offset2 = u->offset2;
    k->length = u->length;
    k->rdev = u->rdev;
    k->mode = u->mode;
    k->set_mask = u->set_mask;
    if (payload != NULL) { /* copied: the host could change a name after it was checked */
        memcpy(c->names, payload + (size_t)u->group_count * 4,
               (size_t)u->name_size + u->name2_size);
        k->name = c->names;
        k->name2 = c->names + u->name_size;
    }
    k->name_size = u->name_size;
    k->name2_size = u->name2_size;
    if (u->kind == SNIC_KVFS_SETATTR) {
        k->attr.size = u->u.set.size;
        k->attr.mode = u->u.set.mode;
        k->attr.uid = u->u.set.uid;
        k->attr.gid = u->u.set.gid;
        k->attr.atime = u->u.set.atime;
        k->attr.mtime = u->u.set.mtime;
        k->attr.ctime = u->u.set.ctime;
    } else {
        k->lock = u->u.lock;
    }
}

static void dpu_pieces(struct kd_call *c, const struct km_up *u, unsigned char *payload)
{
    struct snic_kvfs_req *k = &c->r.k;

    if (u->group_count > 0) {
        k->cred.groups = (const uint32_t *)(const void *)payload;
        k->cred.group_count = u->group_count;
    }
    if (payload != NULL && (u->kind == SNIC_KVFS_WRITE || u->kind == SNIC_KVFS_SETXATTR)) {
        c->iov.base = payload + (size_t)u->group_count * 4 + u->name_size + u->name2_size;
        c->iov.size = u->data_size;
    } else if (u->room > 0) {
        c->iov.base = c->slot.payload;
        c->iov.size = u->room;
    } else {
        return;
    }
    k->iov = &c->iov;
    k->iov_count = 1;
}

static void dpu_cancel(struct kd *d, uint64_t number)
{
    for (struct snic_link *i = d->locks.next; i != &d->locks; i = i->next) {
        struct kd_call *c = SNIC_CONTAINER(i, struct kd_call, link);

        if (c->number == number) {
            snic_fs_cancel(d->store.fs, &c->r);
            return;
        }
    }
}

static int dpu_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m)
{
    struct kd *d = ctx;
    const struct km_up *u = m->header;
    struct kd_call *c = d->free;

    if (m->header_bytes != sizeof(*u) || !dpu_fits(u, m)) {
        ex_log(EX_WARNING, "the host talks nonsense");
        return 1;
    }
    if (m->type == KM_WIRE_CANCEL) {
        dpu_cancel(d, u->number);
        return 1;
    }
    if (c == NULL || !d->mounted) {
        d->stalled = 1;
        return SNIC_EAGAIN;
    }
    c->has_slot = 0;
    if (u->room > 0) {
        int rc =
            snic_channel_down_reserve(ch, KM_WIRE_CALL, sizeof(struct km_down), u->room, &c->slot);

        if (rc == SNIC_EAGAIN) {
            d->stalled = 1;
            return SNIC_EAGAIN;
        }
        if (rc != 0)
            return 1; /* closed: nobody waits */
        c->has_slot = 1;
    }
    d->free = c->next;
    d->in_flight++;
    memset(&c->r, 0, sizeof(c->r));
    c->number = u->number;
    c->token = m->token;
    c->has_token = m->payload_bytes > 0;
    c->r.done = dpu_done;
    dpu_request(c, u, m->payload);
    dpu_pieces(c, u, m->payload);
    if ((u->flags & SNIC_KVFS_LOCK_WAIT) != 0)
        snic_link_append(&d->locks, &c->link);
    snic_fs_submit(d->store.fs, &c->r);
    return !c->has_token;
}

/* ---- The host comes and goes ---- */

static void dpu_writable(void *ctx, struct snic_channel *ch)
{
    struct kd *d = ctx;

    dpu_answers(d);
    d->stalled = 0;
    snic_channel_resume(ch);
}

static void dpu_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct kd *d = ctx;

    (void)ch;
    if (reason != 0)
        ex_log(EX_WARNING, "the host has gone: %s", snic_strerror(reason));
    d->gone = 1;
}

static int dpu_offer(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct kd *d = ctx;
    struct snic_channel_accept_opts a = {.opts_size = sizeof(a), .flags = SNIC_CHANNEL_REGIONS};
    struct snic_channel_events e = {
        .message = dpu_message, .writable = dpu_writable, .closed = dpu_closed, .ctx = d};

    if (o->kind != KM_WIRE_KIND || d->channel != NULL)
        return SNIC_ECONNREFUSED;
    return snic_channel_accept(&d->channel, h, o, &a, &e);
}

static void dpu_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct kd *d = ctx;

    (void)h;
    (void)cause;
    d->gone = 1;
}

static void dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct kd *d = ctx;
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    size_t size;

    o.accept = dpu_offer;
    o.death = dpu_death;
    o.ctx = d;
    size = snic_channel_hub_memsize(&o);
    if (d->dma != NULL || d->ending || posix_memalign(&d->hub_memory, SNIC_CACHELINE, size) != 0) {
        snic_dma_close(dma);
        return;
    }
    if (snic_channel_hub_init(&d->hub, d->hub_memory, size, dma, &o) != 0) {
        free(d->hub_memory);
        snic_dma_close(dma);
        return;
    }
    d->dma = dma;
    ex_log(EX_INFO, "host %u attached", pid);
}

/* At the top level: closing runs the loop. */
static void dpu_reap(struct kd *d)
{
    struct snic_link *i;

    for (i = d->locks.next; i != &d->locks; i = i->next)
        snic_fs_cancel(d->store.fs, &SNIC_CONTAINER(i, struct kd_call, link)->r);
    while (d->in_flight > 0) {
        dpu_answers(d);
        (void)snic_loop_once(d->loop, 10000000u);
    }
    if (d->channel != NULL)
        snic_channel_close(d->channel);
    snic_channel_hub_fini(d->hub);
    free(d->hub_memory);
    d->channel = NULL;
    d->hub = NULL;
    d->dma = NULL;
    d->gone = 0;
    d->stalled = 0;
}

static void dpu_look_store(struct kd *d)
{
    struct snic_kvfs_stats s;

    snic_kvfs_get_stats(snic_fs_engine(d->store.fs), &s);
    km_store_judge(&d->store, &s, &d->dead);
    if (d->alone != (s.alone != 0)) {
        d->alone = s.alone != 0;
        d->tell_alone = 1;
    }
}

static void dpu_look(struct snic_timer *t, uint64_t now)
{
    struct kd *d = SNIC_CONTAINER(t, struct kd, timer);

    if (d->mounted)
        dpu_look_store(d);
    if (now - d->told_ns >= KD_TELL_NS) {
        d->told_ns = now;
        d->tell_alone = 1;
    }
    if (d->tell_alone && d->channel != NULL && !d->gone) {
        struct km_down h = {.alone = d->alone};

        d->tell_alone = snic_channel_down_push(d->channel, KM_WIRE_STATE, &h, sizeof(h), NULL, 0) ==
                        SNIC_EAGAIN;
    }
    snic_loop_arm(d->loop, t, now + KD_LOOK_NS);
}

static void dpu_stop(void *ctx)
{
    struct kd *d = ctx;

    d->ending = 1;
}

/* ---- Open, run, close ---- */

static int dpu_open(struct kd *d)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o), .path = d->config->socket};
    int rc = kvfs_store_open(&d->store);

    if (rc == 0)
        rc = kvfs_store_mount(&d->store, d->config->mkfs || d->store.medium != NULL);
    if (rc != 0)
        return rc;
    d->calls = calloc(KM_REQUESTS, sizeof(*d->calls));
    if (d->calls == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < KM_REQUESTS; i++) {
        d->calls[i].d = d;
        d->calls[i].next = d->free;
        d->free = &d->calls[i];
    }
    umask(077);
    rc = snic_dma_shm_listen(&d->listener, d->loop, &o, dpu_accept, d);
    if (rc != 0)
        ex_log(EX_ERROR, "%s: %s", o.path, snic_strerror(rc));
    return rc;
}

static size_t dpu_metrics(void *ctx, struct ex_metric *out)
{
    struct kd *d = ctx;
    size_t n = km_store_metrics(&d->store, out);

    out[n] = (struct ex_metric){"cpu_ns", ex_cpu_process_ns(), 1};
    return n + 1;
}

/* Served until now; the next host may be here already, and hears of us while the session ends. */
static int dpu_again(struct kd *d)
{
    int rc;

    dpu_reap(d);
    d->mounted = 0;
    rc = snic_fs_unmount(d->store.fs);
    if (rc != 0 || (d->ending && d->dma == NULL)) /* else it is served until it has gone */
        return rc;
    rc = kvfs_store_again(&d->store);
    if (rc != 0)
        return rc;
    d->mounted = 1;
    if (d->stalled && d->channel != NULL) {
        d->stalled = 0;
        snic_channel_resume(d->channel);
    }
    dpu_look_store(d);
    return 0;
}

static int dpu_serve(struct kd *d)
{
    int rc = 0;

    d->mounted = 1;
    snic_timer_init(&d->timer, dpu_look);
    dpu_look(&d->timer, snic_loop_now(d->loop));
    while (rc == 0 && (!d->ending || d->dma != NULL)) {
        (void)snic_loop_once(d->loop, SNIC_NEVER);
        if (d->gone)
            rc = dpu_again(d);
    }
    snic_loop_cancel(d->loop, &d->timer);
    if (rc == 0 && d->mounted)
        rc = snic_fs_unmount(d->store.fs);
    if (rc != 0)
        ex_log(EX_ERROR, "%s: %s", d->store.spec, snic_strerror(rc));
    return rc;
}

int km_dpu_run(struct km_config *config)
{
    struct kd *d = calloc(1, sizeof(*d));
    struct ex_stats *stats = NULL;
    int rc;

    if (d == NULL)
        ex_die("out of memory");
    d->config = config;
    d->loop = ex_loop_open((uint32_t)config->spin_us);
    snic_link_init(&d->locks);
    snic_link_init(&d->answers);
    d->store.spec = config->store;
    d->store.loop = d->loop;
    d->store.cache_mb = config->cache_mb;
    d->store.requests = KM_REQUESTS;
    d->store.create = config->mkfs;
    d->store.sole = config->exclusive;
    ex_signals(d->loop, dpu_stop, d);
    rc = dpu_open(d);
    if (rc == 0)
        rc = ex_stats_start(&stats, d->loop, NULL, "kvfs", config->stats, NULL, dpu_metrics, d);
    if (rc == 0)
        rc = dpu_serve(d);
    ex_stats_stop(stats);
    ex_signals_off();
    if (d->listener != NULL)
        snic_dma_shm_unlisten(d->listener);
    if (config->folder != NULL && getppid() != config->supervisor)
        (void)rmdir(config->folder); /* who would, has died */
    kvfs_store_close(&d->store);
    snic_loop_close(d->loop);
    free(d->calls);
    free(d);
    return rc == 0 ? 0 : 1;
}
