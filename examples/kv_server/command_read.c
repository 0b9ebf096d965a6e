/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What commands read: entries, and values that may be on the device. */
#include "engine_priv.h"

void kv_depends(struct kv_command *c, uint64_t end)
{
    if (end > c->need)
        c->need = end;
}

struct kv_entry *kv_command_lookup(struct kv_command *c, uint32_t database,
                                   const struct resp_arg *key, int touch)
{
    struct kv_entry *e = kv_store_find(c->store, database, key->data, key->size);

    kv_depends(c, e != NULL ? kv_store_end(e) : kv_store_absence(c->store));
    if (e != NULL && touch)
        e->accessed = (uint32_t)(kv_store_wall_ms(c->store) / 1000);
    return e;
}

struct kv_entry *kv_command_entry(struct kv_command *c, uint32_t i)
{
    return kv_command_lookup(c, c->database, &c->argv[i], 1);
}

struct kv_entry *kv_command_peek(struct kv_command *c, uint32_t i)
{
    return kv_command_lookup(c, c->database, &c->argv[i], 0);
}

int kv_value_at_hand(struct kv_command *c, const struct kv_entry *entry,
                     const unsigned char **value, uint32_t *size)
{
    const struct kv_fetched *f = c->client->fetched;

    *value = kv_store_value(c->store, entry);
    *size = entry->value_size;
    if (*value != NULL)
        return 1;
    while (f != NULL && f->version != entry->version)
        f = f->next;
    if (f == NULL)
        return 0;
    *value = f->value;
    *size = f->size;
    return f->error != 0 ? f->error : 1;
}

enum kv_outcome kv_fetch(struct kv_command *c, const struct kv_entry *entry)
{
    if (kv_store_read(c->store, entry, c->spec->write, c->engine->fetched, c->engine,
                      c->client->id) != 0) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_LATER;
    }
    c->client->fetching++;
    return KV_FETCH;
}

enum kv_outcome kv_value_to_modify(struct kv_command *c, const struct kv_entry *entry,
                                   const unsigned char **value, uint32_t *size)
{
    int r = kv_value_at_hand(c, entry, value, size);

    if (r == 0)
        return kv_fetch(c, entry);
    if (r == 1)
        return KV_DONE;
    kv_put_error(c->engine, "ERR reading the value failed: %s", snic_strerror(r));
    return KV_LATER;
}
