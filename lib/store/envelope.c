/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A record's bytes: head, key, list of sessions, value. FORMAT.md has the layout. What is decoded
 * may come from a peer or a log: every field is checked, and the result points into the bytes.
 */
#include "store_priv.h"

static uint64_t store_list_bytes(uint32_t sessions)
{
    return (uint64_t)sessions * SNIC_STORE__SESSION;
}

/* 0; SNIC_EVERSION of another version; SNIC_ECORRUPT not an envelope. */
int store_envelope_get(const void *bytes, size_t size, struct store_envelope *out)
{
    const unsigned char *p = bytes;
    if (p == NULL || size < SNIC_STORE__HEAD)
        return SNIC_ECORRUPT;
    if (p[0] != SNIC_STORE__VERSION)
        return p[0] == 0 ? SNIC_ECORRUPT : SNIC_EVERSION;
    out->flags = p[1];
    out->key_size = snic_get_le16(p + 2);
    out->sessions = p[4];
    out->ttl_ns = snic_get_le64(p + 8);
    out->origin = snic_get_le64(p + 16);
    out->removed = snic_get_le64(p + 24);
    if ((out->flags & ~(uint32_t)(SNIC_STORE__DELETED | SNIC_STORE__EXPIRED)) != 0 ||
        out->flags == SNIC_STORE__EXPIRED || (p[5] | p[6] | p[7]) != 0 ||
        out->key_size > SNIC_STORE_KEY_MAX || out->sessions > SNIC_STORE_SESSIONS_MAX)
        return SNIC_ECORRUPT;
    uint64_t front = SNIC_STORE__HEAD + out->key_size + store_list_bytes(out->sessions);
    if (size < front || (out->origin != 0 && out->ttl_ns == 0))
        return SNIC_ECORRUPT;
    if ((out->flags & SNIC_STORE__DELETED) != 0 && (size != front || out->ttl_ns == 0))
        return SNIC_ECORRUPT;
    out->key = p + SNIC_STORE__HEAD;
    out->list = out->key + out->key_size;
    out->data = p + front;
    out->size = (uint32_t)(size - front);
    for (uint32_t i = 0; i < out->sessions; i++) {
        const unsigned char *x = out->list + store_list_bytes(i);
        if (snic_get_le64(x) == 0 || snic_get_le64(x + 8) == 0 || snic_get_le32(x + 36) != 0)
            return SNIC_ECORRUPT;
    }
    return 0;
}

void store_session_get(const struct store_envelope *e, uint32_t i, struct store_session *out)
{
    const unsigned char *p = e->list + store_list_bytes(i);
    out->client = snic_get_le64(p);
    out->sequence = snic_get_le64(p + 8);
    out->ts = snic_get_le64(p + 16);
    out->answer = snic_get_le64(p + 24);
    out->result = (int32_t)snic_get_le32(p + 32);
}

void store_session_put(unsigned char *list, uint32_t i, const struct store_session *in)
{
    unsigned char *p = list + store_list_bytes(i);
    snic_put_le64(p, in->client);
    snic_put_le64(p + 8, in->sequence);
    snic_put_le64(p + 16, in->ts);
    snic_put_le64(p + 24, in->answer);
    snic_put_le32(p + 32, (uint32_t)in->result);
    snic_put_le32(p + 36, 0);
}

/* Bytes before the value. */
uint32_t store_envelope_front(const struct store_envelope *e)
{
    return SNIC_STORE__HEAD + e->key_size + (uint32_t)store_list_bytes(e->sessions);
}

/* Head, key and list; the value follows. */
void store_envelope_put(unsigned char *bytes, const struct store_envelope *e)
{
    memset(bytes, 0, SNIC_STORE__HEAD);
    bytes[0] = SNIC_STORE__VERSION;
    bytes[1] = (unsigned char)e->flags;
    snic_put_le16(bytes + 2, (uint16_t)e->key_size);
    bytes[4] = (unsigned char)e->sessions;
    snic_put_le64(bytes + 8, e->ttl_ns);
    snic_put_le64(bytes + 16, e->origin);
    snic_put_le64(bytes + 24, e->removed);
    if (e->key_size != 0)
        memcpy(bytes + SNIC_STORE__HEAD, e->key, e->key_size);
    if (e->sessions != 0)
        memcpy(bytes + SNIC_STORE__HEAD + e->key_size, e->list, store_list_bytes(e->sessions));
}
