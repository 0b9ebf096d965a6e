/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The kv door on a store in memory, on any loop.
 *
 * A request takes effect when it completes: with the handle's next message, which takes all
 * that wait, or when its timer fires. The door's state of a request is in the request.
 *
 * Invariants
 *   M1 A request in flight is in `queue` (or the list of the message that runs), or its timer is
 *      armed, by its state. State 0: not in flight.
 *   M2 done is called from kv_mem_finish() alone, once per request, from the loop.
 *   M3 Once the medium has crashed, no request of a handle opened before touches it.
 */
#include <stdlib.h>

#include "kv/mem_priv.h"

enum { KV_MEM_DEPTH = 4096, KV_MEM_TRANSFER = 1 << 20, KV_MEM_BATCH = 8 };
enum kv_mem_state { KV_MEM_IDLE = 0, KV_MEM_QUEUED = 1, KV_MEM_TIMED = 2, KV_MEM_LATE = 3 };

struct kv_mem {
    struct snic_kv kv;
    struct snic_kvmem *medium;
    struct snic_queue queue;
    struct snic_loop_msg msg;
    struct snic_link link; /* medium->handles */
    uint64_t epoch;        /* the medium's when opened */
    uint32_t in_flight;
    uint8_t posted; /* msg is posted and not delivered */
    uint8_t closing;
};

/** In a request's backend words. */
struct kv_mem_flight {
    struct snic_timer timer;
    struct kv_mem *handle;
    uint64_t deadline_ns;
    uint64_t keep; /* the verdict, when `judged` */
    uint32_t kind;
    int32_t error;
    uint8_t state;
    uint8_t judged;
    uint8_t cancelled;
};
SNIC_STATIC_ASSERT(sizeof(struct kv_mem_flight) <= sizeof(((struct snic_kv_req *)0)->backend),
                   "a flight lives in its request");

static struct kv_mem_flight *kv_mem_flight_of(struct snic_kv_req *req)
{
    return (struct kv_mem_flight *)(void *)req->backend;
}

static void kv_mem_finish(struct kv_mem *k, struct snic_kv_req *req)
{
    SNIC_ASSERT(k->in_flight > 0); /* M2 */
    kv_mem_flight_of(req)->state = KV_MEM_IDLE;
    k->in_flight--;
    kv_req_finish(&k->kv, req);
}

static void kv_mem_end(struct kv_mem *k, struct snic_kv_req *req, int64_t result)
{
    req->op->result = result;
    kv_mem_finish(k, req);
}

/** Wait with a timer, for `delay_ns` or until the time is up. */
static void kv_mem_arm(struct kv_mem *k, struct kv_mem_flight *f, uint64_t now_ns,
                       uint64_t delay_ns)
{
    uint64_t at = now_ns + delay_ns;
    f->state = at < now_ns || at > f->deadline_ns ? KV_MEM_LATE : KV_MEM_TIMED;
    snic_loop_arm(k->kv.loop, &f->timer, f->state == KV_MEM_LATE ? f->deadline_ns : at);
}

static void kv_mem_timer(struct snic_timer *t, uint64_t now_ns);

/** The flight's timer is first used here: most requests never need one. */
static void kv_mem_arm_first(struct kv_mem *k, struct kv_mem_flight *f, uint64_t delay_ns)
{
    snic_timer_init(&f->timer, kv_mem_timer);
    kv_mem_arm(k, f, snic_loop_now(k->kv.loop), delay_ns);
}

/** The request takes effect and completes; or waits longer, if the fault plan has a delay. */
static void kv_mem_step(struct kv_mem *k, struct snic_kv_req *req)
{
    struct kv_mem_flight *f = kv_mem_flight_of(req);
    struct snic_kvmem *m = k->medium;
    struct snic_kvop *op = req->op;
    struct kv_mem_verdict v = {.kind = 0};
    if (m->crashed || k->epoch != m->epoch) { /* M3 */
        kv_mem_end(k, req, SNIC_EPEERDEAD);
        return;
    }
    if (f->cancelled) {
        kv_mem_end(k, req, SNIC_ECANCELED);
        return;
    }
    if (m->fences_count != 0 && snic_kvmem_fenced(m, k->kv.identity, k->kv.identity_size)) {
        kv_mem_end(k, req, SNIC_ESHUTDOWN);
        return;
    }
    if (!f->judged) {
        int r = snic_kvop_validate(op, k->kv.caps);
        if (r != 0) {
            kv_mem_end(k, req, r);
            return;
        }
    }
    if (f->judged) {
        v = (struct kv_mem_verdict){f->kind, f->error, 0, f->keep};
    } else if (m->faults_count != 0) {
        v = kv_mem_judge(m, op);
        if (v.delay_ns != 0) {
            f->judged = 1;
            f->kind = v.kind;
            f->error = v.error;
            f->keep = v.keep;
            kv_mem_arm_first(k, f, v.delay_ns);
            return;
        }
    }
    kv_mem_execute(m, op, &v);
    k->kv.stats.store_ops++;
    kv_mem_finish(k, req);
}

static void kv_mem_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct kv_mem_flight *f = SNIC_CONTAINER(t, struct kv_mem_flight, timer);
    struct snic_kv_req *req = SNIC_CONTAINER(f, struct snic_kv_req, backend);
    (void)now_ns;
    if (f->state == KV_MEM_LATE)
        kv_mem_end(f->handle, req, SNIC_ETIMEDOUT);
    else
        kv_mem_step(f->handle, req);
}

/** The keys of an operation, added to @p keys; their number then. Contents are not checked yet. */
static uint32_t kv_mem_keys(const struct snic_kvop *op, const struct snic_kvop_key **keys,
                            uint32_t n)
{
    if (op->kind == SNIC_KVOP_GET && op->gets != NULL) {
        for (uint32_t i = 0; i < op->get_count && n < KVMEM_EXPECT; i++)
            keys[n++] = &op->gets[i].key;
    } else if (op->kind == SNIC_KVOP_COMMIT) {
        for (uint32_t i = 0; op->guards != NULL && i < op->guard_count && n < KVMEM_EXPECT; i++)
            keys[n++] = &op->guards[i].key;
        for (uint32_t i = 0; op->changes != NULL && i < op->change_count && n < KVMEM_EXPECT; i++)
            keys[n++] = &op->changes[i].key;
    }
    return n;
}

/**
 * Prefetch the records of requests that wait together: most of the time of a look-up in a large
 * store is waiting for memory.
 */
static void kv_mem_expect(const struct kv_mem *k, struct snic_node *from)
{
    const struct snic_kvop_key *keys[KVMEM_EXPECT];
    uint32_t n = 0;
    for (uint32_t i = 0; from != NULL && i < KV_MEM_BATCH; i++, from = from->next)
        n = kv_mem_keys(SNIC_CONTAINER(from, struct snic_kv_req, node)->op, keys, n);
    kv_mem_fetch(k->medium, keys, n);
}

static void kv_mem_message(struct snic_loop_msg *msg)
{
    struct kv_mem *k = SNIC_CONTAINER(msg, struct kv_mem, msg);
    struct snic_queue q = k->queue;
    k->queue = (struct snic_queue){NULL, NULL};
    k->posted = 0;
    for (uint32_t i = 0; q.first != NULL; i++) {
        if (i % KV_MEM_BATCH == 0)
            kv_mem_expect(k, q.first);
        struct snic_node *n = snic_queue_pop(&q);
        kv_mem_step(k, SNIC_CONTAINER(n, struct snic_kv_req, node));
    }
}

static void kv_mem_enqueue(struct kv_mem *k, struct snic_kv_req *req)
{
    kv_mem_flight_of(req)->state = KV_MEM_QUEUED;
    snic_queue_push(&k->queue, &req->node);
    if (!k->posted) {
        k->posted = 1;
        snic_loop_defer(k->kv.loop, &k->msg);
    }
}

/* ---- Ops ---- */

static uint64_t kv_mem_delay(struct snic_kvmem *m)
{
    uint64_t spread = m->opts.delay_max_ns - m->opts.delay_min_ns;
    return m->opts.delay_min_ns + (spread == 0 ? 0 : snic_rng_below(&m->rng, spread + 1));
}

static int kv_mem_submit(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n)
{
    struct kv_mem *k = SNIC_CONTAINER(kv, struct kv_mem, kv);
    if (k->closing)
        return SNIC_ECANCELED;
    uint64_t now = snic_loop_now(kv->loop);
    uint32_t i = 0;
    for (; i < n && k->in_flight < kv->depth_max; i++) {
        struct snic_kv_req *req = reqs[i];
        struct kv_mem_flight *f = kv_mem_flight_of(req);
        uint64_t timeout = req->timeout_ns != 0 ? req->timeout_ns : kv->timeout_ns;
        kv_req_accept(kv, req, now);
        k->in_flight++;
        f->handle = k;
        f->judged = 0;
        f->cancelled = 0;
        f->deadline_ns = timeout > SNIC_NEVER - now ? SNIC_NEVER : now + timeout;
        uint64_t delay = kv_mem_delay(k->medium);
        if (delay == 0)
            kv_mem_enqueue(k, req);
        else
            kv_mem_arm_first(k, f, delay);
    }
    return (int)i;
}

static void kv_mem_cancel(struct snic_kv *kv, struct snic_kv_req *req)
{
    struct kv_mem *k = SNIC_CONTAINER(kv, struct kv_mem, kv);
    struct kv_mem_flight *f = kv_mem_flight_of(req);
    if (f->state == KV_MEM_IDLE)
        return; /* it has completed */
    SNIC_ASSERT(f->handle == k);
    f->cancelled = 1;
    if (f->state == KV_MEM_QUEUED)
        return;
    snic_loop_cancel(kv->loop, &f->timer);
    kv_mem_enqueue(k, req);
}

static int kv_mem_sole(struct snic_kv *kv)
{
    const struct kv_mem *k = SNIC_CONTAINER(kv, struct kv_mem, kv);
    return k->medium->handles_count == 1;
}

static void kv_mem_close(struct snic_kv *kv)
{
    struct kv_mem *k = SNIC_CONTAINER(kv, struct kv_mem, kv);
    k->closing = 1;
    while (k->in_flight > 0 || k->posted) {
        int r = snic_loop_once(kv->loop, SNIC_NEVER);
        SNIC_ASSERT(r > 0 || snic_loop_world(kv->loop) == NULL); /* else the node is paused */
        SNIC_ASSERT(r >= 0);
    }
    if (!k->medium->crashed && k->epoch == k->medium->epoch)
        kv_mem_sync(k->medium);
    snic_link_remove(&k->link);
    k->medium->handles_count--;
    free(k);
}

static const struct snic_kv_ops kv_mem_ops = {
    .ops_size = sizeof(struct snic_kv_ops),
    .name = "mem",
    .submit = kv_mem_submit,
    .cancel = kv_mem_cancel,
    .sole = kv_mem_sole,
    .close = kv_mem_close,
};

int snic_kv_mem_open(struct snic_kv **out, struct snic_loop *l, struct snic_kvmem *m)
{
    if (m->crashed)
        return SNIC_EBUSY;
    struct kv_mem *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return SNIC_ENOMEM;
    k->kv.ops = &kv_mem_ops;
    k->kv.loop = l;
    k->kv.caps = m->opts.caps;
    k->kv.depth_max = KV_MEM_DEPTH;
    k->kv.stripe_bytes = m->opts.stripe_bytes;
    k->kv.transfer_optimal = KV_MEM_TRANSFER;
    k->kv.timeout_ns = SNIC_KV__TIMEOUT_NS;
    if ((m->opts.caps & SNIC_KV_CAP_FENCE) != 0) {
        snic_put_le32((unsigned char *)k->kv.identity, ++m->opened);
        k->kv.identity_size = 4;
    }
    k->medium = m;
    k->epoch = m->epoch;
    k->msg.fn = kv_mem_message;
    snic_link_append(&m->handles, &k->link);
    m->handles_count++;
    *out = &k->kv;
    return 0;
}
