/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the kv backends share, inline because they live in different libraries.
 */
#ifndef SNIC_KV_PRIV_H
#define SNIC_KV_PRIV_H

#include "snicstore/kv.h"

/** Time-out of handles opened without one. */
#define SNIC_KV__TIMEOUT_NS 30000000000ULL

/** Does the operation change something? */
static inline int kv_op_changes(const struct snic_kvop *op)
{
    switch (op->kind) {
    case SNIC_KVOP_COMMIT:
    case SNIC_KVOP_OBJECT_WRITE:
    case SNIC_KVOP_OBJECT_ZERO:
    case SNIC_KVOP_OBJECT_PUNCH:
    case SNIC_KVOP_OBJECT_ALLOC:
    case SNIC_KVOP_OBJECT_TRUNCATE:
        return 1;
    default:
        return 0;
    }
}

/** Clear the results. */
static inline void kv_op_begin(struct snic_kvop *op)
{
    op->failed_guard = UINT32_MAX;
    op->result = 0;
    op->allocated = 0;
    op->bad_offset = 0;
    op->os_error = 0;
    op->out_size = 0;
    op->out_count = 0;
    op->end = 0;
    op->space = 0;
    op->space_free = 0;
}

/** One key of a GET is answered: @p value NULL when there is no such record. */
static inline void kv_get_answer(struct snic_kvop_get *g, const void *value, uint32_t size)
{
    g->size = size;
    g->result = value == NULL ? SNIC_ENOENT : size > g->room ? SNIC_EMSGSIZE : 0;
    if (g->result == 0)
        memcpy(g->value, value, size);
}

/** The result of a GET whose keys are answered: that of its key, if it is one. */
static inline int64_t kv_get_result(const struct snic_kvop *op)
{
    return op->get_count == 1 ? op->gets[0].result : 0;
}

/** The handle accepts the request: clear the results, stamp the time. */
static inline void kv_req_accept(struct snic_kv *kv, struct snic_kv_req *req, uint64_t now_ns)
{
    SNIC_DASSERT(req->done != NULL && req->op != NULL);
    kv_op_begin(req->op);
    req->queued_ns = now_ns;
    req->done_ns = 0;
    kv->stats.submitted++;
    kv->stats.queue_high =
        snic_max_u64(kv->stats.queue_high, kv->stats.submitted - kv->stats.completed);
}

/** Count the operation's result. */
static inline void kv_req_count(struct snic_kv_stats *s, const struct snic_kvop *op)
{
    if (op->result < 0) {
        if (op->result == SNIC_ECANCELED && op->failed_guard != UINT32_MAX)
            s->guards_failed++;
        else if (op->result != SNIC_ENOENT)
            s->errors++;
    }
    switch (op->kind) {
    case SNIC_KVOP_GET:
        s->gets += op->get_count;
        break;
    case SNIC_KVOP_SCAN:
        s->scans++;
        break;
    case SNIC_KVOP_COMMIT:
        s->commits++;
        break;
    case SNIC_KVOP_OBJECT_READ:
        s->object_reads++;
        s->read_bytes += op->result > 0 ? (uint64_t)op->result : 0;
        break;
    case SNIC_KVOP_OBJECT_WRITE:
        s->object_writes++;
        s->write_bytes += op->result > 0 ? (uint64_t)op->result : 0;
        break;
    case SNIC_KVOP_SYNC:
        s->syncs++;
        break;
    default:
        break;
    }
}

/** The last thing a backend does with a request; op->result and the others are set. */
static inline void kv_req_finish(struct snic_kv *kv, struct snic_kv_req *req)
{
    kv_req_count(&kv->stats, req->op);
    kv->stats.completed++;
    req->done_ns = snic_max_u64(snic_loop_now(kv->loop), req->queued_ns);
    req->done(req);
}

#endif /* SNIC_KV_PRIV_H */
