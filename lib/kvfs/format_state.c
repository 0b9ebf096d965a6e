/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records of sessions, orphans and intents: layouts. */
#include "snicstore/kvfs_format.h"

enum { KVFS_FORMAT_STATE_KEY = 64, KVFS_FORMAT_STATE_PAIR = 16, KVFS_FORMAT_STATE_LIST = 8 };

SNIC_STATIC_ASSERT(8 + 1 + SNIC_KVOP_KEY_MAX <= KVFS_FORMAT_STATE_KEY,
                   "a key's place in an intent");
SNIC_STATIC_ASSERT(SNIC_KVFS_INTENT_KEYS_MAX >= SNIC_KVOP_CHANGES_MAX, "an intent's keys");

static unsigned char *kvfs_format_state_body(void *record)
{
    memset(record, 0, SNIC_KVFS_HEAD);
    return (unsigned char *)record + SNIC_KVFS_HEAD;
}

void snic_kvfs_key_beat(struct snic_kvop_key *k, uint64_t session)
{
    snic_kvfs_key_number(k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, session);
    k->bytes[k->size++] = 'b';
}

void snic_kvfs_key_fence(struct snic_kvop_key *k, uint64_t session)
{
    snic_kvfs_key_number(k, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_SESSION, session);
    k->bytes[k->size++] = 'f';
}

void snic_kvfs_number_encode(void *record, uint64_t number)
{
    snic_put_le64(kvfs_format_state_body(record), number);
}

int snic_kvfs_number_decode(uint64_t *number, const void *record, uint32_t size)
{
    if (size != SNIC_KVFS_NUMBER_BYTES)
        return SNIC_ECORRUPT;
    *number = snic_get_le64((const unsigned char *)record + SNIC_KVFS_HEAD);
    return 0;
}

uint32_t snic_kvfs_fence_encode(void *record, const void *identity, uint32_t size)
{
    SNIC_ASSERT(size <= SNIC_KVOP_IDENTITY_MAX);
    snic_kvfs_number_encode(record, 1);
    if (size != 0)
        memcpy((unsigned char *)record + SNIC_KVFS_NUMBER_BYTES, identity, size);
    return SNIC_KVFS_NUMBER_BYTES + size;
}

int snic_kvfs_fence_decode(const void **identity, uint32_t *size, const void *record,
                           uint32_t record_size)
{
    if (record_size < SNIC_KVFS_NUMBER_BYTES || record_size > SNIC_KVFS_FENCE_BYTES)
        return SNIC_ECORRUPT;
    *identity = (const unsigned char *)record + SNIC_KVFS_NUMBER_BYTES;
    *size = record_size - SNIC_KVFS_NUMBER_BYTES;
    return 0;
}

uint32_t snic_kvfs_session_encode(void *record, const struct snic_kvfs_session *s)
{
    SNIC_ASSERT(s->range_count <= SNIC_KVFS_SESSION_RANGES_MAX);
    unsigned char *at = kvfs_format_state_body(record);
    snic_put_le32(at, s->flags);
    snic_put_le32(at + 4, s->range_count);
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < s->range_count; i++, at += KVFS_FORMAT_STATE_PAIR) {
        snic_put_le64(at, s->ranges[i].first);
        snic_put_le64(at + 8, s->ranges[i].count);
    }
    return SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST + s->range_count * KVFS_FORMAT_STATE_PAIR;
}

int snic_kvfs_session_decode(struct snic_kvfs_session *s, const void *record, uint32_t size)
{
    const unsigned char *at = (const unsigned char *)record + SNIC_KVFS_HEAD;
    if (size < SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST)
        return SNIC_ECORRUPT;
    uint32_t count = snic_get_le32(at + 4);
    if (count > SNIC_KVFS_SESSION_RANGES_MAX ||
        size != SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST + count * KVFS_FORMAT_STATE_PAIR)
        return SNIC_ECORRUPT;
    memset(s, 0, sizeof(*s));
    s->flags = snic_get_le32(at);
    s->range_count = count;
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < count; i++, at += KVFS_FORMAT_STATE_PAIR) {
        s->ranges[i].first = snic_get_le64(at);
        s->ranges[i].count = snic_get_le64(at + 8);
        if (s->ranges[i].first < 2 || s->ranges[i].first > SNIC_KVFS_INO_MAX ||
            s->ranges[i].count > SNIC_KVFS_INO_MAX - s->ranges[i].first ||
            s->ranges[i].count > SNIC_KVFS_SESSION_RANGE_MAX)
            return SNIC_ECORRUPT;
    }
    return 0;
}

uint32_t snic_kvfs_orphan_encode(void *record, const struct snic_kvfs_orphan *o)
{
    SNIC_ASSERT(o->count <= SNIC_KVFS_ORPHAN_SESSIONS_MAX);
    unsigned char *at = kvfs_format_state_body(record);
    snic_put_le32(at, o->count);
    snic_put_le32(at + 4, 0);
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < o->count; i++, at += KVFS_FORMAT_STATE_PAIR) {
        snic_put_le64(at, o->claims[i].session);
        snic_put_le64(at + 8, o->claims[i].open);
    }
    return SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST + o->count * KVFS_FORMAT_STATE_PAIR;
}

int snic_kvfs_orphan_decode(struct snic_kvfs_orphan *o, const void *record, uint32_t size)
{
    const unsigned char *at = (const unsigned char *)record + SNIC_KVFS_HEAD;
    if (size < SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST)
        return SNIC_ECORRUPT;
    uint32_t count = snic_get_le32(at);
    if (count > SNIC_KVFS_ORPHAN_SESSIONS_MAX ||
        size != SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST + count * KVFS_FORMAT_STATE_PAIR)
        return SNIC_ECORRUPT;
    memset(o, 0, sizeof(*o));
    o->count = count;
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < count; i++, at += KVFS_FORMAT_STATE_PAIR) {
        o->claims[i].session = snic_get_le64(at);
        o->claims[i].open = snic_get_le64(at + 8);
        if (o->claims[i].open > 1)
            return SNIC_ECORRUPT;
    }
    return 0;
}

uint32_t snic_kvfs_intent_encode(void *record, const struct snic_kvfs_intent *n)
{
    SNIC_ASSERT(n->key_count <= SNIC_KVFS_INTENT_KEYS_MAX);
    SNIC_ASSERT(n->object_count <= SNIC_KVFS_INTENT_OBJECTS_MAX);
    unsigned char *at = kvfs_format_state_body(record);
    snic_put_le32(at, n->state);
    snic_put_le16(at + 4, n->key_count);
    snic_put_le16(at + 6, n->object_count);
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < n->object_count; i++, at += 8)
        snic_put_le64(at, n->objects[i]);
    for (uint32_t i = 0; i < n->key_count; i++, at += KVFS_FORMAT_STATE_KEY) {
        memset(at, 0, KVFS_FORMAT_STATE_KEY);
        snic_put_le64(at, n->keys[i].group);
        at[8] = n->keys[i].size;
        memcpy(at + 9, n->keys[i].bytes, n->keys[i].size);
    }
    return (uint32_t)(at - (unsigned char *)record);
}

int snic_kvfs_intent_decode(struct snic_kvfs_intent *n, const void *record, uint32_t size)
{
    const unsigned char *at = (const unsigned char *)record + SNIC_KVFS_HEAD;
    if (size < SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST)
        return SNIC_ECORRUPT;
    uint32_t state = snic_get_le32(at);
    uint16_t keys = snic_get_le16(at + 4);
    uint16_t objects = snic_get_le16(at + 6);
    if (state < SNIC_KVFS_INTENT_PENDING || state > SNIC_KVFS_INTENT_ABORTED ||
        keys > SNIC_KVFS_INTENT_KEYS_MAX || objects > SNIC_KVFS_INTENT_OBJECTS_MAX ||
        size != SNIC_KVFS_HEAD + KVFS_FORMAT_STATE_LIST + objects * 8u + keys * 64u)
        return SNIC_ECORRUPT;
    memset(n, 0, sizeof(*n));
    n->state = state;
    n->key_count = keys;
    n->object_count = objects;
    at += KVFS_FORMAT_STATE_LIST;
    for (uint32_t i = 0; i < objects; i++, at += 8)
        n->objects[i] = snic_get_le64(at);
    for (uint32_t i = 0; i < keys; i++, at += KVFS_FORMAT_STATE_KEY) {
        if (at[8] < 1 || at[8] > SNIC_KVOP_KEY_MAX)
            return SNIC_ECORRUPT;
        snic_kvop_key_set(&n->keys[i], snic_get_le64(at), at + 9, at[8]);
    }
    return 0;
}

int snic_kvfs_reservation_decode(struct snic_kvfs_reservation *r, const void **old_record,
                                 const void **new_record, const void *record, uint32_t size)
{
    const unsigned char *at = (const unsigned char *)record + SNIC_KVFS_HEAD;
    if (size < SNIC_KVFS_HEAD + sizeof(*r))
        return SNIC_ECORRUPT;
    uint32_t old_size = snic_get_le32(at + 16);
    uint32_t new_size = snic_get_le32(at + 20);
    uint32_t left = size - SNIC_KVFS_HEAD - (uint32_t)sizeof(*r);
    if (old_size > left || new_size != left - old_size ||
        (old_size != 0 && old_size < SNIC_KVFS_HEAD) ||
        (new_size != 0 && new_size < SNIC_KVFS_HEAD))
        return SNIC_ECORRUPT;
    r->session = snic_get_le64(at);
    r->number = snic_get_le64(at + 8);
    r->old_size = old_size;
    r->new_size = new_size;
    at += sizeof(*r);
    *old_record = old_size != 0 ? at : NULL;
    *new_record = new_size != 0 ? at + old_size : NULL;
    return 0;
}
