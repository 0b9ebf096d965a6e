/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls of librados that block (listing a pool, asking for its space, fencing a client) run on a
 * thread of their own, which begins with the first of them. GROUPS lists the pool once and serves
 * its pages from the sorted numbers; a group created or removed meanwhile is listed or not.
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdlib.h>

static int kv_rados_number_order(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* On the thread. */
static int kv_rados_list_pool(struct kv_rados *k, struct kv_rados_call *c)
{
    rados_list_ctx_t list;
    const char *name;
    size_t size;
    uint64_t room = 0;
    int r = rados_nobjects_list_open(k->io, &list);
    if (r < 0)
        return r;
    while ((r = rados_nobjects_list_next2(list, &name, NULL, NULL, &size, NULL, NULL)) == 0) {
        if (size != 18 || name[0] != 'g' || name[1] != '.')
            continue;
        if (c->number_count == room) {
            room = room == 0 ? 1024 : room * 2;
            uint64_t *more = realloc(c->numbers, room * sizeof(more[0]));
            SNIC_ASSERT(more != NULL);
            c->numbers = more;
        }
        c->numbers[c->number_count++] = strtoull(name + 2, NULL, 16);
    }
    rados_nobjects_list_close(list);
    if (c->number_count != 0)
        qsort(c->numbers, c->number_count, sizeof(c->numbers[0]), kv_rados_number_order);
    return r == -2 ? 0 : r;
}

/* On the thread. A cluster without a manager reports no sizes: then no limit is known. */
static int kv_rados_space(struct kv_rados *k, struct snic_kvop *op)
{
    struct rados_cluster_stat_t s;
    int r = rados_cluster_stat(k->cluster, &s);
    if (r < 0)
        return r;
    op->space = s.kb != 0 ? s.kb << 10 : SNIC_KVOP_OBJECT_MAX;
    op->space_free = s.kb != 0 ? s.kb_avail << 10 : SNIC_KVOP_OBJECT_MAX;
    return 0;
}

/*
 * On the thread. It returns when the monitors have the client on their block list and this handle
 * has the map with it: what this handle sends from now on makes an OSD take that map first, and so
 * refuse the client. What that one has in flight anywhere has happened before, or will not.
 */
static int kv_rados_fence(struct kv_rados *k, const struct snic_kvop *op)
{
    char address[SNIC_KVOP_IDENTITY_MAX + 1];
    memcpy(address, op->iov[0].base, op->iov[0].size);
    address[op->iov[0].size] = 0;
    return rados_blocklist_add(k->cluster, address, KV_RADOS_FENCE_SECONDS);
}

static int kv_rados_thread_run(struct kv_rados *k, struct kv_rados_call *c)
{
    switch (c->req->op->kind) {
    case SNIC_KVOP_SPACE:
        return kv_rados_space(k, c->req->op);
    case SNIC_KVOP_FENCE:
        return kv_rados_fence(k, c->req->op);
    default:
        return kv_rados_list_pool(k, c);
    }
}

static void *kv_rados_thread(void *arg)
{
    struct kv_rados *k = arg;
    (void)pthread_mutex_lock(&k->lock);
    for (;;) {
        struct snic_node *n = snic_queue_pop(&k->jobs);
        if (n == NULL && k->stop)
            break;
        if (n == NULL) {
            (void)pthread_cond_wait(&k->wake, &k->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&k->lock);
        struct kv_rados_call *c = SNIC_CONTAINER(n, struct kv_rados_call, node);
        c->thread_result = kv_rados_thread_run(k, c);
        snic_loop_post(k->kv.loop, &c->msg);
        (void)pthread_mutex_lock(&k->lock);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return NULL;
}

/** The page behind the cursor, which is the next number. */
static void kv_rados_groups_page(struct kv_rados_call *c)
{
    struct kv_rados *k = c->store;
    struct snic_kvop *op = c->req->op;
    uint64_t *out = op->out;
    uint64_t low = 0;
    uint64_t high = k->number_count;
    while (low < high) {
        uint64_t mid = (low + high) / 2;
        if (k->numbers[mid] < op->cursor)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < k->number_count && op->out_room - op->out_size >= sizeof(uint64_t); low++) {
        out[op->out_count++] = k->numbers[low];
        op->out_size += (uint32_t)sizeof(uint64_t);
        op->cursor = k->numbers[low] + 1;
    }
    op->end = low == k->number_count;
}

static void kv_rados_thread_done(struct snic_loop_msg *msg)
{
    struct kv_rados_call *c = SNIC_CONTAINER(msg, struct kv_rados_call, msg);
    struct kv_rados *k = c->store;
    if (c->thread_result < 0) {
        kv_rados_fail(c, c->thread_result);
        free(c->numbers);
    } else if (c->req->op->kind == SNIC_KVOP_GROUPS) {
        free(k->numbers);
        k->numbers = c->numbers;
        k->number_count = c->number_count;
        kv_rados_groups_page(c);
    }
    c->numbers = NULL;
    kv_rados_put(c);
}

void kv_rados_thread_call(struct kv_rados_call *c)
{
    struct kv_rados *k = c->store;
    c->pending++;
    c->numbers = NULL;
    c->number_count = 0;
    c->msg.fn = kv_rados_thread_done;
    c->next = kv_rados_finish;
    k->kv.stats.store_ops++;
    if (!k->threaded) {
        if (pthread_create(&k->thread, NULL, kv_rados_thread, k) != 0) {
            c->pending--;
            c->error = SNIC_EIO;
            return;
        }
        k->threaded = 1;
    }
    (void)pthread_mutex_lock(&k->lock);
    snic_queue_push(&k->jobs, &c->node);
    (void)pthread_cond_signal(&k->wake);
    (void)pthread_mutex_unlock(&k->lock);
}

void kv_rados_groups(struct kv_rados_call *c)
{
    struct kv_rados *k = c->store;
    c->next = kv_rados_finish;
    if (c->req->op->cursor != 0 && k->numbers != NULL) {
        kv_rados_groups_page(c);
    } else if (k->tidying != 0) { /* groups about to be removed are not listed */
        c->pending++;
        snic_queue_push(&k->tidy_waiters, &c->node);
    } else {
        kv_rados_thread_call(c);
    }
}

void kv_rados_thread_close(struct kv_rados *k)
{
    if (k->threaded) {
        (void)pthread_mutex_lock(&k->lock);
        k->stop = 1;
        (void)pthread_cond_signal(&k->wake);
        (void)pthread_mutex_unlock(&k->lock);
        (void)pthread_join(k->thread, NULL);
    }
    free(k->numbers);
}

#else
typedef int kv_rados_thread_is_empty;
#endif /* SNIC_WITH_RADOS */
