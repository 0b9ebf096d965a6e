/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Housekeeping: groups in which nothing is left are removed in the background. */
#include "kv/rados_priv.h"

#if defined(SNIC_WITH_RADOS)

static void kv_rados_tidy_end(struct kv_rados *k)
{
    if (--k->tidying != 0)
        return;
    for (struct snic_node *n = snic_queue_pop(&k->tidy_waiters); n != NULL;
         n = snic_queue_pop(&k->tidy_waiters)) {
        struct kv_rados_call *c = SNIC_CONTAINER(n, struct kv_rados_call, node);
        if (!kv_rados_dead(c))
            kv_rados_thread_call(c);
        kv_rados_put(c);
    }
}

static void kv_rados_tidied(struct kv_rados_sub *s, int result)
{
    (void)result; /* another handle was faster, or it stays: an empty group is harmless */
    kv_rados_tidy_end(s->store);
}

/** The group was read: remove it if it was empty and still is. */
static void kv_rados_tidy_look(struct kv_rados_sub *s, int result)
{
    char name[KV_RADOS_NAME];
    if (result < 0 || s->iter_result < 0 || s->iter == NULL || rados_omap_iter_size(s->iter) != 0) {
        kv_rados_tidy_end(s->store);
        return;
    }
    struct kv_rados_sub *w = kv_rados_sub(s->store, NULL);
    w->write = rados_create_write_op();
    rados_write_op_assert_version(w->write, rados_aio_get_version(s->completion));
    rados_write_op_remove(w->write);
    kv_rados_group_name(name, s->group);
    kv_rados_send(w, name, kv_rados_tidied);
}

void kv_rados_tidy(struct kv_rados *k, uint64_t group)
{
    char name[KV_RADOS_NAME];
    struct kv_rados_sub *s = kv_rados_sub(k, NULL);
    s->group = group;
    s->read = rados_create_read_op();
    rados_read_op_omap_get_vals2(s->read, "", "", 1, &s->iter, &s->more, &s->iter_result);
    kv_rados_group_name(name, group);
    k->tidying++;
    kv_rados_send(s, name, kv_rados_tidy_look);
}

#else
typedef int kv_rados_tidy_is_empty;
#endif /* SNIC_WITH_RADOS */
