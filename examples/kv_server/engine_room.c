/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands that wait for room, and when they are run again.
 *   E5 a command that waits for the log to be written or for space holds no other client's reads
 *      and deletions. While one that adds much to the log waits for the log to be written
 *      (e->large), no other command adds to it, or there might never be so much room at once; the
 *      device's speed bounds that. Nothing is held for space, which may not come: the write is
 *      answered with an error after KV_SPACE_NS.
 *   E6 what waits is tried in the order in which it began to wait. What a command needs is known
 *      (kv_need): it is not taken apart again before that is there.
 */
#include "engine_priv.h"

int kv_command_held(struct kv_command *c)
{
    const struct kv_engine *e = c->engine;

    if (e->large == NULL || e->large == c->client || c->in_exec)
        return 0;
    c->client->wait = KV_WAIT_LARGE;
    return 1;
}

static enum kv_wait room_wait(const struct kv_engine *e)
{
    return kv_store_space_short(e->store) ? KV_WAIT_SPACE : KV_WAIT_LOG;
}

/* Has it waited for space for too long? */
static int room_late(const struct kv_engine *e, const struct kv_client *c)
{
    return c->wait == KV_WAIT_SPACE && c->space_ns != 0 &&
           snic_loop_now(e->opts.loop) - c->space_ns >= KV_SPACE_NS;
}

int kv_command_waits(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_client *client = c->client;

    if (client->wait == KV_WAIT_LARGE)
        return 1;
    client->wait = room_wait(e);
    if (client->wait != KV_WAIT_SPACE)
        return 1;
    if (client->space_ns == 0)
        client->space_ns = snic_loop_now(e->opts.loop);
    return !c->in_exec && !room_late(e, client); /* E4 */
}

int kv_command_room(struct kv_command *c, uint64_t bytes, uint64_t record, int deletes)
{
    struct kv_engine *e = c->engine;
    int waits;
    int r;

    if (!deletes && kv_command_held(c)) {
        c->client->need = (struct kv_need){bytes, record, deletes};
        return SNIC_EAGAIN;
    }
    r = kv_store_check_room(c->store, bytes, record, deletes);
    waits = r == SNIC_EAGAIN && !kv_store_space_short(c->store);
    if (r == SNIC_EAGAIN)
        c->client->need = (struct kv_need){bytes, record, deletes};
    if (!waits && e->large == c->client)
        e->large = NULL;
    if (waits && e->large == NULL && !deletes && !c->in_exec && bytes > e->opts.memory_bytes / 4)
        e->large = c->client; /* E5 */
    return r;
}

enum kv_outcome kv_write_failed(struct kv_command *c, int error)
{
    if (error == SNIC_EAGAIN) {
        if (kv_command_waits(c))
            return KV_AGAIN;
        error = SNIC_ENOSPC;
    }
    c->engine->size = 0;
    c->need = 0; /* the error shows nothing of what was read */
    kv_put_store_error(c->engine, error);
    return KV_DONE;
}

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
    c->wait = room_wait(e);
    if (c->wait == KV_WAIT_SPACE && c->space_ns == 0) /* it waited for the log until now */
        c->space_ns = snic_loop_now(e->opts.loop);
    return !room_late(e, c) && (c->wait != KV_WAIT_SPACE || e->large != c);
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
