/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests and RADOS operations: sending, completing on the loop, time-outs.
 *
 * librados calls back on its own threads; that callback posts the operation to the loop and does
 * nothing else. A request waits for `pending` operations and parts; when that is 0 its `next` runs.
 * The operations of a request that is late or cancelled are aborted; it completes when they have
 * ended, so that nothing is written to its memory afterwards.
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdlib.h>

int kv_rados_error(int os_error)
{
    switch (os_error < 0 ? -os_error : os_error) {
    case 108: /* on the block list */
        return SNIC_ESHUTDOWN;
    case 107:
        return SNIC_EPEERDEAD;
    case 122: /* EDQUOT */
        return SNIC_ENOSPC;
    case 1:
    case 13:
        return SNIC_EACCES;
    default:
        return snic_error_from_os(os_error);
    }
}

void kv_rados_fail(struct kv_rados_call *c, int os_error)
{
    if (c->error != 0)
        return;
    c->os_error = os_error;
    c->error = kv_rados_error(os_error);
}

/* ---- Operations ---- */

struct kv_rados_sub *kv_rados_sub(struct kv_rados *k, struct kv_rados_call *c)
{
    struct kv_rados_sub *s = k->subs_free;
    if (s != NULL)
        k->subs_free = s->next;
    else
        s = malloc(sizeof(*s));
    SNIC_ASSERT(s != NULL); /* librados ends the process when out of memory, too */
    memset(s, 0, offsetof(struct kv_rados_sub, rvals));
    s->store = k;
    s->call = c;
    snic_link_init(&s->link);
    if (c != NULL)
        c->pending++;
    return s;
}

static void kv_rados_sub_end(struct kv_rados_sub *s)
{
    if (s->iter != NULL)
        rados_omap_get_end(s->iter);
    if (s->completion != NULL)
        rados_aio_release(s->completion);
    if (s->write != NULL)
        rados_release_write_op(s->write);
    if (s->read != NULL)
        rados_release_read_op(s->read);
    free(s->scratch);
    snic_link_remove(&s->link);
    s->next = s->store->subs_free;
    s->store->subs_free = s;
}

static void kv_rados_arrived(struct snic_loop_msg *msg)
{
    struct kv_rados_sub *s = SNIC_CONTAINER(msg, struct kv_rados_sub, msg);
    struct kv_rados_call *c = s->call;
    int result = s->sent != 0 ? s->sent : rados_aio_get_return_value(s->completion);
    s->then(s, result);
    kv_rados_sub_end(s);
    if (c != NULL)
        kv_rados_put(c);
}

/* On a thread of librados. */
static void kv_rados_callback(rados_completion_t completion, void *arg)
{
    struct kv_rados_sub *s = arg;
    (void)completion;
    snic_loop_post(s->store->kv.loop, &s->msg);
}

void kv_rados_send(struct kv_rados_sub *s, const char *name,
                   void (*then)(struct kv_rados_sub *s, int result))
{
    struct kv_rados *k = s->store;
    int flags = LIBRADOS_OPERATION_NOFLAG;
    s->msg.fn = kv_rados_arrived;
    s->then = then;
    k->kv.stats.store_ops++;
    if (s->write != NULL) /* a full cluster returns an error; only removals continue */
        flags = s->call == NULL || (s->call->req->op->flags & SNIC_KVOP_RESERVE) != 0
                    ? LIBRADOS_OPERATION_FULL_FORCE
                    : LIBRADOS_OPERATION_FULL_TRY;
    if (s->call != NULL) {
        snic_link_append(&s->call->subs, &s->link);
        s->call->sent_change |= s->write != NULL;
    }
    s->sent = rados_aio_create_completion2(s, kv_rados_callback, &s->completion);
    if (s->sent == 0 && s->write != NULL)
        s->sent = rados_aio_write_op_operate(s->write, k->io, s->completion, name, NULL, flags);
    else if (s->sent == 0)
        s->sent = rados_aio_read_op_operate(s->read, k->io, s->completion, name, flags);
    if (s->sent != 0)
        snic_loop_defer(k->kv.loop, &s->msg);
}

/* ---- Requests ---- */

void kv_rados_finish(struct kv_rados_call *c)
{
    struct kv_rados *k = c->store;
    struct snic_kv_req *req = c->req;
    struct snic_kvop *op = req->op;
    SNIC_ASSERT(c->pending == 0 && c->active && snic_link_alone(&c->subs));
    snic_loop_cancel(k->kv.loop, &c->timer);
    kv_rados_parts_free(c);
    free(c->data);
    c->data = NULL;
    op->os_error = c->os_error;
    if (c->error != 0) {
        int lost = c->late || c->cancelled || c->error == SNIC_ETIMEDOUT;
        op->result = c->late ? SNIC_ETIMEDOUT : c->cancelled ? SNIC_ECANCELED : c->error;
        if (op->failed_guard != UINT32_MAX)
            op->result = SNIC_ECANCELED;
        else if (lost && c->sent_change)
            op->result = SNIC_EUNKNOWN;
    }
    if (op->kind != SNIC_KVOP_GET && op->kind != SNIC_KVOP_SCAN)
        op->allocated = c->allocated;
    c->active = 0;
    c->next_free = k->calls_free;
    k->calls_free = c;
    k->in_flight--;
    kv_req_finish(&k->kv, req);
}

void kv_rados_put(struct kv_rados_call *c)
{
    SNIC_ASSERT(c->pending > 0);
    if (--c->pending != 0)
        return;
    if (c->error != 0)
        kv_rados_finish(c);
    else
        c->next(c);
}

#else
typedef int kv_rados_call_is_empty;
#endif /* SNIC_WITH_RADOS */
