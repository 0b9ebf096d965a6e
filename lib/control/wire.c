/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes of the control plane's messages: FORMAT.md.
 *
 * A type's fields are a mask, so a message has one encoding: decoding it and encoding it again
 * gives the same bytes.
 */
#include "control/control_priv.h"

#define SNIC_CONTROL__MAGIC 0x4353u

enum control_field {
    CONTROL_F_ROLE = 1 << 0, /* 4 bytes from here on */
    CONTROL_F_OP = 1 << 1,
    CONTROL_F_FLAGS = 1 << 2,
    CONTROL_F_STATUS = 1 << 3,
    CONTROL_F_VD = 1 << 4,
    CONTROL_F_LEASE = 1 << 5,
    CONTROL_F_GEN = 1 << 6,
    CONTROL_F_SERVER = 1 << 7,
    CONTROL_F_SEGMENT = 1 << 8, /* 8 bytes */
    CONTROL_F_BYTES = 1 << 9,
    CONTROL_F_VALUE = 1 << 10,
    CONTROL_F_INCARNATION = 1 << 11,
    CONTROL_F_UUID = 1 << 12,
    CONTROL_F_QOS = 1 << 13,
    CONTROL_F_ADDR = 1 << 14,
    CONTROL_F_PEER = 1 << 15,
    CONTROL_F_NAME = 1 << 16,
    CONTROL_F_KEY = 1 << 17,
    CONTROL_F_SERIAL = 1 << 18,
    CONTROL_F_ITEMS = 1 << 19,
    CONTROL_F_REST = 1 << 20,
    CONTROL_F_TOKEN = 1 << 21,
    CONTROL_F_PROOF = 1 << 22,
    CONTROL_F_SPACE = CONTROL_F_BYTES | CONTROL_F_VALUE
};

static const uint32_t control_type_fields[SNIC_CONTROL_TYPE_END] = {
    [SNIC_CONTROL_HELLO] = CONTROL_F_ROLE | CONTROL_F_SERVER | CONTROL_F_UUID | CONTROL_F_ADDR |
                           CONTROL_F_PEER | CONTROL_F_SERIAL,
    [SNIC_CONTROL_WELCOME] =
        CONTROL_F_SERVER | CONTROL_F_INCARNATION | CONTROL_F_UUID | CONTROL_F_SERIAL,
    [SNIC_CONTROL_DONE] = CONTROL_F_STATUS | CONTROL_F_VALUE,
    [SNIC_CONTROL_PING] = CONTROL_F_SPACE,
    [SNIC_CONTROL_PONG] = CONTROL_F_VALUE,
    [SNIC_CONTROL_ATTACH] = CONTROL_F_FLAGS | CONTROL_F_NAME | CONTROL_F_KEY,
    [SNIC_CONTROL_RESUME] = CONTROL_F_VD | CONTROL_F_LEASE,
    [SNIC_CONTROL_GRANT] = CONTROL_F_STATUS | CONTROL_F_VD | CONTROL_F_LEASE | CONTROL_F_BYTES |
                           CONTROL_F_VALUE | CONTROL_F_QOS | CONTROL_F_NAME | CONTROL_F_KEY |
                           CONTROL_F_TOKEN,
    [SNIC_CONTROL_DETACH] = CONTROL_F_VD | CONTROL_F_LEASE,
    [SNIC_CONTROL_LOOKUP] = CONTROL_F_VD | CONTROL_F_LEASE | CONTROL_F_ITEMS,
    [SNIC_CONTROL_MAP] = CONTROL_F_VD | CONTROL_F_ITEMS,
    [SNIC_CONTROL_SERVER] = CONTROL_F_SERVER | CONTROL_F_ADDR,
    [SNIC_CONTROL_QOS] = CONTROL_F_VD | CONTROL_F_QOS,
    [SNIC_CONTROL_LOST] = CONTROL_F_STATUS | CONTROL_F_VD | CONTROL_F_LEASE,
    [SNIC_CONTROL_CLAIM] = CONTROL_F_FLAGS | CONTROL_F_ITEMS,
    [SNIC_CONTROL_VERDICT] = CONTROL_F_FLAGS | CONTROL_F_ITEMS,
    [SNIC_CONTROL_READY] = CONTROL_F_SPACE,
    [SNIC_CONTROL_COMMAND] = CONTROL_F_OP | CONTROL_F_VD | CONTROL_F_GEN | CONTROL_F_SEGMENT |
                             CONTROL_F_VALUE | CONTROL_F_ADDR,
    [SNIC_CONTROL_RESULT] = CONTROL_F_STATUS | CONTROL_F_SPACE,
    [SNIC_CONTROL_PULL] = CONTROL_F_GEN | CONTROL_F_SEGMENT | CONTROL_F_VALUE | CONTROL_F_REST,
    [SNIC_CONTROL_BLOCKS] = CONTROL_F_STATUS | CONTROL_F_VALUE | CONTROL_F_REST,
    [SNIC_CONTROL_CREATE] = CONTROL_F_BYTES | CONTROL_F_QOS | CONTROL_F_NAME | CONTROL_F_KEY,
    [SNIC_CONTROL_DELETE] = CONTROL_F_NAME,
    [SNIC_CONTROL_REVOKE] = CONTROL_F_NAME,
    [SNIC_CONTROL_SET_QOS] = CONTROL_F_QOS | CONTROL_F_NAME,
    [SNIC_CONTROL_MOVE] = CONTROL_F_SERVER | CONTROL_F_SEGMENT | CONTROL_F_NAME,
    [SNIC_CONTROL_REISSUE] = CONTROL_F_NAME,
    [SNIC_CONTROL_FORGET] = CONTROL_F_SERVER,
    [SNIC_CONTROL_DISKS] = CONTROL_F_VALUE,
    [SNIC_CONTROL_NODES] = CONTROL_F_VALUE,
    [SNIC_CONTROL_SEGMENTS] = CONTROL_F_VALUE | CONTROL_F_NAME,
    [SNIC_CONTROL_DISK] = CONTROL_F_FLAGS | CONTROL_F_VD | CONTROL_F_LEASE | CONTROL_F_BYTES |
                          CONTROL_F_VALUE | CONTROL_F_QOS | CONTROL_F_NAME | CONTROL_F_KEY,
    [SNIC_CONTROL_NODE] = CONTROL_F_FLAGS | CONTROL_F_SERVER | CONTROL_F_SEGMENT | CONTROL_F_SPACE |
                          CONTROL_F_ADDR | CONTROL_F_PEER,
    [SNIC_CONTROL_SEGMENT] = CONTROL_F_VD | CONTROL_F_ITEMS,
    [SNIC_CONTROL_AUTH] =
        CONTROL_F_OP | CONTROL_F_VD | CONTROL_F_GEN | CONTROL_F_UUID | CONTROL_F_PROOF,
};

int snic_control_name_ok(const char *name)
{
    size_t n = 0;
    for (; n < SNIC_CONTROL_NAME && name[n] != 0; n++) {
        char c = name[n];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return 0;
    }
    return n > 0 && n < SNIC_CONTROL_NAME;
}

/* ---- Fields ---- */

struct control_cursor {
    unsigned char *out; /* NULL: reading */
    const unsigned char *in;
    uint32_t at;
    uint32_t size;
    int bad; /* an error */
};

static int control_wire_has(struct control_cursor *k, uint32_t n)
{
    if (k->bad == 0 && k->size - k->at < n)
        k->bad = k->out != NULL ? SNIC_ENOSPC : SNIC_EPROTO;
    return k->bad == 0;
}

static void control_wire_u32(struct control_cursor *k, uint32_t *v)
{
    if (!control_wire_has(k, 4))
        return;
    if (k->out != NULL)
        snic_put_le32(k->out + k->at, *v);
    else
        *v = snic_get_le32(k->in + k->at);
    k->at += 4;
}

static void control_wire_u8(struct control_cursor *k, uint8_t *v)
{
    uint32_t wide = *v;
    control_wire_u32(k, &wide);
    if (wide > UINT8_MAX)
        k->bad = SNIC_EPROTO;
    else
        *v = (uint8_t)wide;
}

static void control_wire_i32(struct control_cursor *k, int32_t *v)
{
    uint32_t raw = (uint32_t)*v;
    control_wire_u32(k, &raw);
    *v = (int32_t)raw;
}

static void control_wire_u64(struct control_cursor *k, uint64_t *v)
{
    if (!control_wire_has(k, 8))
        return;
    if (k->out != NULL)
        snic_put_le64(k->out + k->at, *v);
    else
        *v = snic_get_le64(k->in + k->at);
    k->at += 8;
}

static void control_wire_bytes(struct control_cursor *k, void *p, uint32_t n)
{
    if (!control_wire_has(k, n))
        return;
    if (k->out != NULL)
        memcpy(k->out + k->at, p, n);
    else
        memcpy(p, k->in + k->at, n);
    k->at += n;
}

int control_addr_known(const struct snic_net_addr *a)
{
    return a->family == 0 || a->family == SNIC_NET_IPV4 || a->family == SNIC_NET_IPV6 ||
           a->family == SNIC_NET_SIM;
}

static void control_wire_addr(struct control_cursor *k, struct snic_net_addr *a)
{
    uint32_t both = (uint32_t)a->family << 16 | a->port;
    control_wire_u32(k, &both);
    a->family = (uint16_t)(both >> 16);
    a->port = (uint16_t)both;
    control_wire_u32(k, &a->node);
    control_wire_bytes(k, a->ip, sizeof(a->ip));
    if (k->bad == 0 && !control_addr_known(a))
        k->bad = k->out != NULL ? SNIC_EINVAL : SNIC_EPROTO;
}

/* All bytes behind the end are zero. */
static void control_wire_name(struct control_cursor *k, char *name)
{
    int ended = 0;
    control_wire_bytes(k, name, SNIC_CONTROL_NAME);
    if (k->bad != 0)
        return;
    for (uint32_t i = 0; i < SNIC_CONTROL_NAME; i++) {
        if (ended && name[i] != 0)
            k->bad = SNIC_EPROTO;
        ended |= name[i] == 0;
    }
    if (!ended || (name[0] != 0 && !snic_control_name_ok(name)))
        k->bad = SNIC_EPROTO;
}

static void control_wire_items(struct control_cursor *k, struct snic_control_msg *m)
{
    control_wire_u32(k, &m->count);
    if (k->bad == 0 && m->count > SNIC_CONTROL_ITEMS)
        k->bad = SNIC_EPROTO;
    for (uint32_t i = 0; k->bad == 0 && i < m->count; i++) {
        control_wire_u64(k, &m->item[i].segment);
        control_wire_u32(k, &m->item[i].gen);
        control_wire_u32(k, &m->item[i].server);
        control_wire_i32(k, &m->item[i].status);
    }
}

static void control_wire_fields(struct control_cursor *k, struct snic_control_msg *m)
{
    uint32_t f = control_type_fields[m->type];
    if ((f & CONTROL_F_ROLE) != 0)
        control_wire_u8(k, &m->role);
    if ((f & CONTROL_F_OP) != 0)
        control_wire_u8(k, &m->op);
    if ((f & CONTROL_F_FLAGS) != 0)
        control_wire_u8(k, &m->flags);
    if ((f & CONTROL_F_STATUS) != 0)
        control_wire_i32(k, &m->status);
    if ((f & CONTROL_F_VD) != 0)
        control_wire_u32(k, &m->vd);
    if ((f & CONTROL_F_LEASE) != 0)
        control_wire_u32(k, &m->lease);
    if ((f & CONTROL_F_GEN) != 0)
        control_wire_u32(k, &m->gen);
    if ((f & CONTROL_F_SERVER) != 0)
        control_wire_u32(k, &m->server);
    if ((f & CONTROL_F_SEGMENT) != 0)
        control_wire_u64(k, &m->segment);
    if ((f & CONTROL_F_BYTES) != 0)
        control_wire_u64(k, &m->bytes);
    if ((f & CONTROL_F_VALUE) != 0)
        control_wire_u64(k, &m->value);
    if ((f & CONTROL_F_INCARNATION) != 0)
        control_wire_u64(k, &m->incarnation);
    if ((f & CONTROL_F_UUID) != 0) {
        control_wire_u64(k, &m->uuid[0]);
        control_wire_u64(k, &m->uuid[1]);
    }
    if ((f & CONTROL_F_QOS) != 0) {
        control_wire_u64(k, &m->qos.bytes_per_second);
        control_wire_u64(k, &m->qos.burst_bytes);
        control_wire_u64(k, &m->qos.ios_per_second);
        control_wire_u64(k, &m->qos.burst_ios);
    }
    if ((f & CONTROL_F_ADDR) != 0)
        control_wire_addr(k, &m->addr);
    if ((f & CONTROL_F_PEER) != 0)
        control_wire_addr(k, &m->peer);
    if ((f & CONTROL_F_NAME) != 0)
        control_wire_name(k, m->name);
    if ((f & CONTROL_F_KEY) != 0) {
        control_wire_u64(k, &m->key[0]);
        control_wire_u64(k, &m->key[1]);
    }
    if ((f & CONTROL_F_SERIAL) != 0)
        control_wire_u64(k, &m->serial);
    if ((f & CONTROL_F_TOKEN) != 0)
        control_wire_bytes(k, m->token, sizeof(m->token));
    if ((f & CONTROL_F_PROOF) != 0)
        control_wire_bytes(k, m->proof, sizeof(m->proof));
    if ((f & CONTROL_F_ITEMS) != 0)
        control_wire_items(k, m);
}

/* ---- Messages ---- */

void control_msg(struct snic_control_msg *m, uint32_t type, uint32_t tag)
{
    SNIC_ASSERT(type != 0);
    SNIC_ASSERT(type < SNIC_CONTROL_TYPE_END);
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)type;
    m->tag = tag;
}

int control_addr_same(const struct snic_net_addr *a, const struct snic_net_addr *b)
{
    return a->family == b->family && a->port == b->port && a->node == b->node &&
           memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

int snic_control_put(unsigned char *out, uint32_t size, const struct snic_control_msg *from)
{
    struct control_cursor k = {.out = out, .at = SNIC_CONTROL_HEAD, .size = size};
    if (from->type == 0 || from->type >= SNIC_CONTROL_TYPE_END)
        return SNIC_EINVAL;
    if (size < SNIC_CONTROL_HEAD)
        return SNIC_ENOSPC;
    control_wire_fields(&k, (struct snic_control_msg *)(uintptr_t)from); /* only read */
    if ((control_type_fields[from->type] & CONTROL_F_REST) != 0 && from->body_size != 0)
        control_wire_bytes(&k, (void *)(uintptr_t)from->body, from->body_size);
    SNIC_ASSERT(k.at <= size);
    if (k.bad != 0)
        return k.bad == SNIC_ENOSPC ? SNIC_ENOSPC : SNIC_EINVAL;
    snic_put_le16(out, SNIC_CONTROL__MAGIC);
    out[2] = SNIC_CONTROL_VERSION;
    out[3] = from->type;
    snic_put_le32(out + 4, k.at - SNIC_CONTROL_HEAD);
    snic_put_le32(out + 8, from->tag);
    snic_put_le32(out + 12, snic_crc32c(snic_crc32c(0, out, 12), out + SNIC_CONTROL_HEAD,
                                        k.at - SNIC_CONTROL_HEAD));
    return (int)k.at;
}

int snic_control_get(struct snic_control_msg *m, const unsigned char *in, uint32_t size,
                     uint32_t most)
{
    SNIC_ASSERT(most >= SNIC_CONTROL_HEAD);
    if (size < SNIC_CONTROL_HEAD)
        return 0;
    uint32_t body = snic_get_le32(in + 4);
    if (snic_get_le16(in) != SNIC_CONTROL__MAGIC)
        return SNIC_EPROTO;
    if (in[2] != SNIC_CONTROL_VERSION)
        return SNIC_EVERSION;
    if (in[3] == 0 || in[3] >= SNIC_CONTROL_TYPE_END)
        return SNIC_EPROTO;
    if (body > most - SNIC_CONTROL_HEAD)
        return SNIC_EMSGSIZE;
    uint32_t all = SNIC_CONTROL_HEAD + body;
    if (size < all)
        return 0;
    if (snic_get_le32(in + 12) != snic_crc32c(snic_crc32c(0, in, 12), in + SNIC_CONTROL_HEAD, body))
        return SNIC_ECORRUPT;
    memset(m, 0, sizeof(*m));
    m->type = in[3];
    m->tag = snic_get_le32(in + 8);
    struct control_cursor k = {.in = in, .at = SNIC_CONTROL_HEAD, .size = all};
    control_wire_fields(&k, m);
    SNIC_ASSERT(k.at <= all);
    if (k.bad == 0 && (control_type_fields[m->type] & CONTROL_F_REST) != 0) {
        m->body = in + k.at;
        m->body_size = all - k.at;
        k.at = all;
    }
    return k.bad != 0 || k.at != all ? SNIC_EPROTO : (int)all;
}
