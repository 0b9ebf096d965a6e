/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands that wait for room are run again.
 *   E6 what waits is tried in the order in which it began to wait. What a command needs is known
 *      (kv_need): it is not taken apart again before that is there.
 */
#include "engine_priv.h"

/* Does the client's command still wait? @p failed: of enum kv_wait, what others still wait for. */
static int room_still(struct kv_engine *e, struct kv_client *c, unsigned failed)
{
    const struct kv_need *n = &c->need;

    if (c == e->exclusive)
        return 0;
    if (n->bytes == 0) /* what it wants of the device depends on its size */
        return (failed & c->wait & ~(unsigned)KV_WAIT_SPACE) != 0;
    if (!n->deletes && e->large != NULL && e->large != c)
        return 1;
    if (kv_store_check_room(e->store, n->bytes, n->record, n->deletes) != SNIC_EAGAIN)
        return 0;
    c->wait = kv_room_wait(e);
    if (c->wait == KV_WAIT_SPACE && c->space_ns == 0) /* it waited for the log until now */
        c->space_ns = snic_loop_now(e->opts.loop);
    return !kv_room_late(e, c) && (c->wait != KV_WAIT_SPACE || e->large != c);
}

static void room_retry(struct kv_engine *e, struct kv_client *c, unsigned *failed)
{
    snic_link_remove(&c->link);
    if (!room_still(e, c, *failed) && kv_client_drain(e, c))
        return; /* it may be freed */
    snic_link_append(&e->waiting, &c->link);
    if (c->need.bytes == 0)
        *failed |= c->wait;
}

void kv_engine_room(struct kv_engine *e)
{
    struct kv_client *first = e->exclusive != NULL ? e->exclusive : e->large;
    struct snic_link list;
    unsigned failed = 0;

    if (first != NULL && !snic_link_alone(&first->link))
        room_retry(e, first, &failed);
    if (e->exclusive != NULL) /* E4 */
        return;
    snic_link_init(&list);
    while (!snic_link_alone(&e->waiting)) {
        struct snic_link *l = e->waiting.next;

        snic_link_remove(l);
        snic_link_append(&list, l);
    }
    while (!snic_link_alone(&list)) /* E6 */
        room_retry(e, SNIC_CONTAINER(list.next, struct kv_client, link), &failed);
}
