/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests of objects: each becomes a job. */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

static void lmdb_object_finish(struct lmdb_job *j)
{
    struct snic_kvop *op = j->req->op;
    op->result = j->result;
    op->allocated = j->allocated;
    op->bad_offset = j->bad_offset;
    op->os_error = j->os_error;
    lmdb_done(j->s, j->req);
}

void lmdb_run_object(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    uint64_t blocks = 2;
    if (op->kind == SNIC_KVOP_OBJECT_WRITE)
        blocks = op->length / LMDB_BLOCK + 2;
    struct lmdb_job *j = lmdb_job_new(s, (uint32_t)blocks);
    if (j == NULL) {
        op->result = SNIC_ENOMEM;
        lmdb_done(s, req);
        return;
    }
    j->req = req;
    j->kind = op->kind;
    j->flags = op->flags;
    j->object = op->object;
    j->offset = op->offset;
    j->length = op->length;
    j->iov = op->iov;
    j->iov_count = op->iov_count;
    j->finish = lmdb_object_finish;
    switch (op->kind) {
    case SNIC_KVOP_OBJECT_READ:
        j->next = lmdb_read_start;
        break;
    case SNIC_KVOP_OBJECT_WRITE:
        j->exclusive = 1;
        j->next = lmdb_write_start;
        break;
    case SNIC_KVOP_OBJECT_STAT:
        j->offset = 0;
        j->length = SNIC_KVOP_OBJECT_MAX;
        j->next = lmdb_look_start;
        break;
    case SNIC_KVOP_OBJECT_SEEK:
        j->length = SNIC_KVOP_OBJECT_MAX - op->offset;
        j->next = lmdb_look_start;
        break;
    default:
        j->exclusive = 1;
        if (op->kind == SNIC_KVOP_OBJECT_TRUNCATE)
            j->length = SNIC_KVOP_OBJECT_MAX - op->offset;
        j->next = lmdb_change_start;
        break;
    }
    lmdb_job_queue(j);
}

#endif /* SNIC_WITH_LMDB */
