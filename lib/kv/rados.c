/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on librados: open, submit, cancel, close. For the layout see rados_priv.h.
 *
 * librados has a time-out for operations, too, somewhat longer than the handle's: it ends calls
 * that cannot be cancelled (a blocking call of the thread).
 */
#include "kv/rados_priv.h"

#include <stdio.h>

#if defined(SNIC_WITH_RADOS)

#include <stdarg.h>
#include <stdlib.h>

enum { KV_RADOS_DEPTH = 1024, KV_RADOS_DEPTH_MAX = 65536, KV_RADOS_TRANSFER = 4 << 20 };

/* ---- Requests ---- */

/** Its operations end early, then it completes. */
static void kv_rados_abort(struct kv_rados_call *c)
{
    if (c->error == 0)
        c->error = c->late ? SNIC_ETIMEDOUT : SNIC_ECANCELED;
    c->pending++; /* it must not end while its parts are scanned */
    for (struct snic_link *l = c->subs.next; l != &c->subs; l = l->next) {
        struct kv_rados_sub *s = SNIC_CONTAINER(l, struct kv_rados_sub, link);
        s->aborted = 1;
        if (s->completion != NULL && s->sent == 0)
            (void)rados_aio_cancel(c->store->io, s->completion);
    }
    for (uint32_t i = 0; i < c->part_count; i++)
        kv_rados_part_abort(c->parts[i]);
    kv_rados_put(c);
}

static void kv_rados_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct kv_rados_call *c = SNIC_CONTAINER(t, struct kv_rados_call, timer);
    (void)now_ns;
    c->late = 1;
    kv_rados_abort(c);
}

static void kv_rados_begin(struct kv_rados_call *c)
{
    struct snic_kvop *op = c->req->op;
    int r = snic_kvop_validate(op, c->store->kv.caps);
    c->pending = 1;
    c->next = kv_rados_finish;
    if (c->cancelled)
        r = SNIC_ECANCELED;
    if (r != 0) {
        c->error = r;
        kv_rados_put(c);
        return;
    }
    switch (op->kind) {
    case SNIC_KVOP_GET:
        kv_rados_get(c);
        break;
    case SNIC_KVOP_SCAN:
        kv_rados_scan(c);
        break;
    case SNIC_KVOP_GROUPS:
        kv_rados_groups(c);
        break;
    case SNIC_KVOP_COMMIT:
        kv_rados_commit(c);
        break;
    case SNIC_KVOP_SPACE:
    case SNIC_KVOP_FENCE:
        kv_rados_thread_call(c);
        break;
    case SNIC_KVOP_SYNC: /* all that has completed is durable */
        break;
    default:
        kv_rados_object(c);
        break;
    }
    kv_rados_put(c);
}

static void kv_rados_start(struct snic_loop_msg *msg)
{
    struct kv_rados *k = SNIC_CONTAINER(msg, struct kv_rados, msg);
    struct snic_queue q = k->queue;
    k->queue = (struct snic_queue){NULL, NULL};
    k->posted = 0;
    for (struct snic_node *n = snic_queue_pop(&q); n != NULL; n = snic_queue_pop(&q)) {
        struct snic_kv_req *req = SNIC_CONTAINER(n, struct snic_kv_req, node);
        struct kv_rados_call *c = (struct kv_rados_call *)(uintptr_t)req->backend[0];
        c->started = 1;
        kv_rados_begin(c);
    }
}

static void kv_rados_accept(struct kv_rados *k, struct snic_kv_req *req, uint64_t now)
{
    struct kv_rados_call *c = k->calls_free;
    uint64_t timeout = req->timeout_ns != 0 ? req->timeout_ns : k->kv.timeout_ns;
    k->calls_free = c->next_free;
    k->in_flight++;
    memset(c, 0, sizeof(*c));
    snic_timer_init(&c->timer, kv_rados_timer);
    snic_link_init(&c->subs);
    c->store = k;
    c->req = req;
    c->active = 1;
    kv_req_accept(&k->kv, req, now);
    req->backend[0] = (uint64_t)(uintptr_t)c;
    if (timeout < SNIC_NEVER - now)
        snic_loop_arm(k->kv.loop, &c->timer, now + timeout);
    snic_queue_push(&k->queue, &req->node);
}

static int kv_rados_submit(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n)
{
    struct kv_rados *k = SNIC_CONTAINER(kv, struct kv_rados, kv);
    uint64_t now = snic_loop_clock(kv->loop);
    uint32_t i = 0;
    if (k->closing)
        return SNIC_ECANCELED;
    for (; i < n && k->calls_free != NULL; i++)
        kv_rados_accept(k, reqs[i], now);
    if (i != 0 && !k->posted) {
        k->posted = 1;
        snic_loop_defer(kv->loop, &k->msg);
    }
    return (int)i;
}

static void kv_rados_cancel(struct snic_kv *kv, struct snic_kv_req *req)
{
    struct kv_rados *k = SNIC_CONTAINER(kv, struct kv_rados, kv);
    struct kv_rados_call *c = (struct kv_rados_call *)(uintptr_t)req->backend[0];
    if (c < k->calls || c >= k->calls + kv->depth_max || !c->active || c->req != req)
        return; /* it has completed */
    if (c->cancelled || c->late)
        return;
    c->cancelled = 1;
    if (c->started)
        kv_rados_abort(c);
}

static int kv_rados_sole(struct snic_kv *kv)
{
    (void)kv;
    return 0;
}

/* ---- Close ---- */

static void kv_rados_free(struct kv_rados *k)
{
    for (struct kv_rados_sub *s = k->subs_free, *next; s != NULL; s = next) {
        next = s->next;
        free(s);
    }
    for (struct kv_rados_part *p = k->parts_free, *next; p != NULL; p = next) {
        next = p->next;
        free(p);
    }
    if (k->io != NULL)
        rados_ioctx_destroy(k->io);
    if (k->cluster != NULL)
        rados_shutdown(k->cluster);
    (void)pthread_mutex_destroy(&k->lock);
    (void)pthread_cond_destroy(&k->wake);
    free(k->calls);
    free(k);
}

static void kv_rados_close(struct snic_kv *kv)
{
    struct kv_rados *k = SNIC_CONTAINER(kv, struct kv_rados, kv);
    k->closing = 1;
    while (k->in_flight > 0 || k->tidying > 0 || k->posted) {
        int r = snic_loop_once(kv->loop, SNIC_NEVER);
        SNIC_ASSERT(r >= 0);
    }
    kv_rados_thread_close(k);
    kv_rados_stripes_close(k);
    kv_rados_free(k);
}

static const struct snic_kv_ops kv_rados_ops = {
    .ops_size = sizeof(struct snic_kv_ops),
    .name = "rados",
    .submit = kv_rados_submit,
    .cancel = kv_rados_cancel,
    .sole = kv_rados_sole,
    .close = kv_rados_close,
};

/* ---- Open ---- */

/** Where the caller of open wants the error. */
struct kv_rados_report {
    int *error; /* may be NULL */
    char *text; /* may be NULL */
    size_t text_size;
};

/** Set the error message; returns the error. */
static int kv_rados_refuse(const struct kv_rados_report *w, int os_error, const char *format, ...)
    SNIC_PRINTF(3, 4);
static int kv_rados_refuse(const struct kv_rados_report *w, int os_error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (w->text != NULL)
        (void)vsnprintf(w->text, w->text_size, format, args);
    va_end(args);
    if (w->error != NULL)
        *w->error = os_error;
    return kv_rados_error(os_error);
}

/*
 * May this client fence others? The monitors check the right before the address, so that a
 * malformed one shows it, and nothing is changed. @return -22 yes; -13, -1 no; others: unknown
 */
static int kv_rados_try_fence(struct kv_rados *k)
{
    const char *command = "{\"prefix\": \"osd blocklist\", \"blocklistop\": \"add\", "
                          "\"addr\": \"none/1\"}";
    char *out = NULL, *status = NULL;
    size_t out_size = 0, status_size = 0;
    int r =
        rados_mon_command(k->cluster, &command, 1, "", 0, &out, &out_size, &status, &status_size);
    rados_buffer_free(out);
    rados_buffer_free(status);
    return r;
}

/** The identity for FENCE; and other clients can be fenced. */
static int kv_rados_identify(struct kv_rados *k, const struct kv_rados_report *w)
{
    char *addresses = NULL;
    int r = rados_getaddrs(k->cluster, &addresses);
    size_t size = r < 0 ? 0 : strlen(addresses);
    if (size == 0 || size > sizeof(k->kv.identity)) {
        rados_buffer_free(addresses);
        return kv_rados_refuse(w, r < 0 ? r : -75, "the client's address is unknown");
    }
    memcpy(k->kv.identity, addresses, size);
    k->kv.identity_size = (uint32_t)size;
    rados_buffer_free(addresses);
    if ((k->kv.caps & SNIC_KV_CAP_READONLY) != 0)
        return 0;
    r = kv_rados_try_fence(k);
    if (r == -13 || r == -1)
        return kv_rados_refuse(w, r,
                               "no right to fence dead clients: the key needs mon 'profile rbd', "
                               "or 'allow command \"osd blocklist\"'");
    return r < 0 && r != -22 ? kv_rados_refuse(w, r, "no answer about the block list (%d)", r) : 0;
}

static int kv_rados_connect(struct kv_rados *k, const struct snic_kv_rados_opts *o,
                            const struct kv_rados_report *w)
{
    char seconds[32];
    uint64_t limit = (k->kv.timeout_ns + 999999999) / 1000000000;
    const char *user = o->user != NULL ? o->user : "admin";
    int r = rados_create(&k->cluster, user);
    if (r < 0)
        return kv_rados_refuse(w, r, "librados: no handle for user %s", user);
    r = rados_conf_read_file(k->cluster, o->conf);
    if (r < 0)
        return kv_rados_refuse(w, r, "cannot read %s",
                               o->conf != NULL ? o->conf : "ceph.conf (CEPH_CONF)");
    (void)snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)limit);
    (void)rados_conf_set(k->cluster, "client_mount_timeout", seconds);
    (void)snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)limit + 2);
    (void)rados_conf_set(k->cluster, "rados_mon_op_timeout", seconds);
    (void)rados_conf_set(k->cluster, "rados_osd_op_timeout", seconds);
    r = rados_connect(k->cluster);
    if (r < 0)
        return kv_rados_refuse(w, r, "no connection to the cluster as %s (%d)", user, r);
    r = rados_ioctx_create(k->cluster, o->pool, &k->io);
    if (r < 0)
        return kv_rados_refuse(w, r, "no pool %s", o->pool);
    rados_ioctx_set_namespace(k->io, o->space != NULL ? o->space : "");
    k->client = rados_get_instance_id(k->cluster);
    return kv_rados_identify(k, w);
}

static struct kv_rados *kv_rados_make(struct snic_loop *l, const struct snic_kv_rados_opts *o)
{
    struct kv_rados *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return NULL;
    k->calls = calloc(o->depth, sizeof(k->calls[0]));
    if (k->calls == NULL) {
        free(k);
        return NULL;
    }
    for (uint32_t i = o->depth; i-- > 0;) {
        k->calls[i].next_free = k->calls_free;
        k->calls_free = &k->calls[i];
    }
    k->kv.ops = &kv_rados_ops;
    k->kv.loop = l;
    k->kv.caps =
        SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED | SNIC_KV_CAP_FENCE;
    if ((o->flags & SNIC_KV_OPEN_READONLY) != 0)
        k->kv.caps |= SNIC_KV_CAP_READONLY;
    k->kv.depth_max = o->depth;
    k->kv.stripe_bytes = KV_RADOS_STRIPE;
    k->kv.transfer_optimal = KV_RADOS_TRANSFER;
    k->kv.timeout_ns = o->timeout_ns;
    k->msg.fn = kv_rados_start;
    snic_link_init(&k->recent);
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_cond_init(&k->wake, NULL);
    return k;
}

/** The defaults are set. NULL, or what is wrong with which option. */
static const char *kv_rados_opts_wrong(const struct snic_kv_rados_opts *o,
                                       const struct snic_loop *l)
{
    if (o->pool == NULL)
        return "pool: missing";
    if ((o->flags & ~SNIC_KV_OPEN_READONLY) != 0)
        return "flags: unknown bits are set";
    if (o->depth > KV_RADOS_DEPTH_MAX)
        return "depth: more than 65536";
    return snic_loop_world(l) != NULL ? "a cluster cannot be used from a simulated loop" : NULL;
}

int snic_kv_rados_open(struct snic_kv **out, struct snic_loop *l,
                       const struct snic_kv_rados_opts *o, int *error, char *text, size_t text_size)
{
    const struct kv_rados_report report = {error, text, text_size};
    const struct kv_rados_report *w = &report;
    struct snic_kv_rados_opts opts = {.opts_size = 0};
    if (snic_opts_copy(&opts, sizeof(opts), o) != 0)
        return kv_rados_refuse(w, -22, "opts_size: not that of a version known here");
    opts.timeout_ns = opts.timeout_ns == 0 ? SNIC_KV__TIMEOUT_NS : opts.timeout_ns;
    opts.depth = opts.depth == 0 ? KV_RADOS_DEPTH : opts.depth;
    const char *wrong = kv_rados_opts_wrong(&opts, l);
    if (wrong != NULL)
        return kv_rados_refuse(w, -22, "%s", wrong);
    struct kv_rados *k = kv_rados_make(l, &opts);
    if (k == NULL)
        return kv_rados_refuse(w, -12, "no memory");
    int r = kv_rados_connect(k, &opts, w);
    if (r != 0) {
        kv_rados_free(k);
        return r;
    }
    if (error != NULL)
        *error = 0;
    *out = &k->kv;
    return 0;
}

#else

int snic_kv_rados_open(struct snic_kv **out, struct snic_loop *l,
                       const struct snic_kv_rados_opts *o, int *error, char *text, size_t text_size)
{
    (void)out;
    (void)l;
    (void)o;
    if (error != NULL)
        *error = 0;
    if (text != NULL)
        (void)snprintf(text, text_size, "built without librados");
    return SNIC_ENOTSUP;
}

#endif /* SNIC_WITH_RADOS */
