/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How commands write. What finds no room is run again when there is some (engine_room.c).
 *   E5 a command that waits for the log to be written or for space holds no other client's reads
 *      and deletions. While one that adds much to the log waits for the log to be written
 *      (e->large), no other command adds to it, or there might never be so much room at once; the
 *      device's speed bounds that. Nothing is held for space, which may not come: the write is
 *      answered with an error after KV_SPACE_NS.
 */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

int kv_command_held(struct kv_command *c)
{
    const struct kv_engine *e = c->engine;

    if (e->large == NULL || e->large == c->client || c->in_exec)
        return 0;
    c->client->wait = KV_WAIT_LARGE;
    return 1;
}

enum kv_wait kv_room_wait(const struct kv_engine *e)
{
    return kv_store_space_short(e->store) ? KV_WAIT_SPACE : KV_WAIT_LOG;
}

int kv_room_late(const struct kv_engine *e, const struct kv_client *c)
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
    client->wait = kv_room_wait(e);
    if (client->wait != KV_WAIT_SPACE)
        return 1;
    if (client->space_ns == 0)
        client->space_ns = snic_loop_now(e->opts.loop);
    return !c->in_exec && !kv_room_late(e, client); /* E4 */
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
    c->engine->reply.size = 0;
    c->need = 0; /* the error shows nothing of what was read */
    kv_put_store_error(c->engine, error);
    return KV_DONE;
}

int kv_delete(struct kv_command *c, struct kv_entry *e)
{
    uint64_t end;
    int r = kv_store_delete(c->store, e, &end);

    if (r == 0)
        kv_depends(c, end);
    return r;
}

enum kv_outcome kv_string_store(struct kv_command *c, const struct kv_string_put *p, int *stored)
{
    uint64_t end;
    int r;

    *stored = 0;
    if (kv_command_held(c))
        return KV_AGAIN;
    r = kv_store_set(c->store, p->database, p->key->data, p->key->size, p->value, p->size,
                     p->expire_ms, &end);
    *stored = r == 0;
    if (r != 0)
        return kv_write_failed(c, r);
    if (p->encoding != 0) {
        struct kv_entry *e = kv_store_find(c->store, p->database, p->key->data, p->key->size);

        if (e != NULL)
            e->flags |= (uint16_t)p->encoding;
    }
    kv_depends(c, end);
    return KV_DONE;
}

enum kv_outcome kv_rewrite(struct kv_command *c, struct kv_entry *e, uint64_t expire_ms,
                           int *written)
{
    struct kv_string_put p = {.database = e->database,
                              .key = &c->argv[1],
                              .expire_ms = expire_ms,
                              .encoding = e->flags & KV_ENTRY_ENCODING};
    const unsigned char *value;
    unsigned char *copy;
    enum kv_outcome o = kv_value_to_modify(c, e, &value, &p.size);

    *written = 0;
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    /* Making room for the new record may take the old one's place in memory. */
    copy = malloc(p.size > 0 ? p.size : 1);
    if (copy == NULL)
        return kv_write_failed(c, SNIC_ENOMEM);
    memcpy(copy, value, p.size);
    p.value = copy;
    o = kv_string_store(c, &p, written);
    free(copy);
    return o;
}
