/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Putting a packet into a train. Its header, and a body of a few bytes, are in the train; a block
 * stays in the buffer of the client's I/O or of the store, or, when it is sealed, its ciphertext is
 * in the train's cipher buffer.
 */
#include "solar/solar_priv.h"

static int solar_wire_handshake(uint32_t type)
{
    return type == SNIC_EBS_HELLO || type == SNIC_EBS_HELLO_ACK || type == SNIC_EBS_RESET;
}

int solar_wire_able(const struct snic_ebs_sec_ops *ops, void *const keys[2])
{
    return ops != NULL && ops->ops_size >= sizeof(*ops) && ops->gcm_seal != NULL &&
           ops->gcm_open != NULL && ops->gcm_rekey != NULL && ops->mac != NULL && keys[0] != NULL &&
           keys[1] != NULL && keys[0] != keys[1];
}

void solar_wire_init(struct solar_wire *w, const struct snic_ebs_sec_ops *ops, void *const keys[2])
{
    w->ops = ops;
    w->seal.key = keys[0];
    w->open.key = keys[1];
}

/* @p out: the ciphertext's buffer; the tag is put at @p tag. */
static int solar_wire_seal(struct solar_wire *w, struct solar_session *session, void *secret,
                           unsigned direction, uint32_t type, const unsigned char *head,
                           const struct snic_ebs_place *at, void *out, const void *in,
                           unsigned char *tag)
{
    if (solar_wire_handshake(type))
        return solar_vouch(w->ops, secret, direction, head, tag);
    return solar_session_seal(session, &w->seal, direction, head, at, out, in, tag);
}

int solar_wire_add(struct solar_wire *w, struct solar_session *session, void *secret,
                   struct solar_train *t, unsigned direction, struct snic_ebs_header *h,
                   const void *body, uint32_t body_size, int small)
{
    struct snic_ebs_place at;
    uint32_t n = t->t.packets;
    unsigned char *head = t->head[n], *tag = t->tag[n];
    int handshake = solar_wire_handshake(h->type);
    int sealed = handshake ? secret != NULL : session != NULL;
    h->flags |= sealed ? SNIC_EBS_AUTH : 0;
    int size = snic_ebs_encode(head, SNIC_SOLAR__HEAD, &at, direction, h, body, body_size);
    SNIC_ASSERT(size > 0);
    unsigned char *behind = head + at.body_at;
    if (small && body_size > 0 && behind != body)
        memcpy(behind, body, body_size);
    if (sealed) {
        unsigned char *room =
            small || body_size == 0 ? behind : t->cipher + (size_t)n * SNIC_EBS_BLOCK_BYTES;
        int r = solar_wire_seal(w, session, secret, direction, h->type, head, &at, room,
                                small || body_size == 0 ? behind : body, tag);
        if (r != 0)
            return r;
        if (!handshake)
            body = room;
    }
    if (small || body_size == 0) {
        uint32_t tail = sealed ? SNIC_EBS_TAG_BYTES : 0;
        memcpy(behind + body_size, tag, tail);
        solar_train_add(t, head, (uint32_t)size + body_size + tail, NULL, 0);
    } else {
        solar_train_add(t, head, (uint32_t)size, body, body_size);
        if (sealed)
            solar_train_append(t, tag, SNIC_EBS_TAG_BYTES);
    }
    return 0;
}
