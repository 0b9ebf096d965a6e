/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names of RADOS objects and omap keys, and the guards and records of a commit in an operation.
 */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

#include <stdio.h>

void kv_rados_group_name(char *name, uint64_t group)
{
    (void)snprintf(name, KV_RADOS_NAME, "g.%016llx", (unsigned long long)group);
}

void kv_rados_stripe_name(char *name, uint64_t object, uint64_t number)
{
    if (number == 0)
        kv_rados_group_name(name, object);
    else
        (void)snprintf(name, KV_RADOS_NAME, "o.%016llx.%010llx", (unsigned long long)object,
                       (unsigned long long)number);
}

void kv_rados_stripe_list_key(char *key, uint64_t number)
{
    (void)snprintf(key, KV_RADOS_NAME, "!i%010llx", (unsigned long long)number);
}

/** Key bytes behind the 'r', escaped; the size. */
static size_t kv_rados_escape(char *out, const unsigned char *bytes, uint32_t size)
{
    size_t n = 0;
    out[n++] = 'r';
    for (uint32_t i = 0; i < size; i++) {
        if (bytes[i] <= 1) {
            out[n++] = 1;
            out[n++] = bytes[i] == 0 ? 1 : 2;
        } else {
            out[n++] = (char)bytes[i];
        }
    }
    out[n] = 0;
    return n;
}

size_t kv_rados_key(char *out, const struct snic_kvop_key *key)
{
    return kv_rados_escape(out, key->bytes, key->size);
}

/* ---- COMMIT ---- */

void kv_rados_commit_guards(struct kv_rados_sub *s)
{
    const struct snic_kvop *op = s->call->req->op;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        const struct snic_kvop_guard *g = &op->guards[i];
        char key[KV_RADOS_KEY];
        size_t size = kv_rados_key(key, &g->key);
        const char *value = g->value == NULL ? "" : g->value;
        s->rvals[i] = 0;
        if (s->write != NULL)
            rados_write_op_omap_cmp2(s->write, key, LIBRADOS_CMPXATTR_OP_EQ, value, size, g->size,
                                     &s->rvals[i]);
        else
            rados_read_op_omap_cmp2(s->read, key, LIBRADOS_CMPXATTR_OP_EQ, value, size, g->size,
                                    &s->rvals[i]);
    }
}

void kv_rados_commit_changes(struct kv_rados_sub *s)
{
    const struct snic_kvop *op = s->call->req->op;
    char keys[SNIC_KVOP_CHANGES_MAX][KV_RADOS_KEY];
    const char *list[SNIC_KVOP_CHANGES_MAX];
    const char *values[SNIC_KVOP_CHANGES_MAX];
    size_t sizes[SNIC_KVOP_CHANGES_MAX];
    size_t value_sizes[SNIC_KVOP_CHANGES_MAX];
    for (uint32_t kind = SNIC_KVOP_PUT; kind <= SNIC_KVOP_DELETE; kind++) {
        size_t n = 0;
        for (uint32_t i = 0; i < op->change_count; i++) {
            const struct snic_kvop_change *ch = &op->changes[i];
            if (ch->kind != kind)
                continue;
            sizes[n] = kv_rados_key(keys[n], &ch->key);
            list[n] = keys[n];
            values[n] = ch->value;
            value_sizes[n] = ch->size;
            n++;
        }
        if (n != 0 && kind == SNIC_KVOP_PUT)
            rados_write_op_omap_set2(s->write, list, values, sizes, value_sizes, n);
        else if (n != 0)
            rados_write_op_omap_rm_keys2(s->write, list, sizes, n);
    }
}

int kv_rados_commit_failed(struct kv_rados_sub *s)
{
    struct snic_kvop *op = s->call->req->op;
    for (uint32_t i = 0; i < op->guard_count; i++) {
        if (s->rvals[i] == 0)
            continue;
        op->failed_guard = i;
        s->call->error = SNIC_ECANCELED;
        return 1;
    }
    return 0;
}

#else
typedef int kv_rados_name_is_empty;
#endif /* SNIC_WITH_RADOS */
