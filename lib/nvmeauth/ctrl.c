/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The controller's half: AUTH_Negotiate, Challenge, Reply, Success1, Success2, the failures. */
#include "nvmeauth/nvmeauth_priv.h"

static void nvmeauth_ctrl_fail(struct snic_nvmeauth *a, uint8_t failure)
{
    nvmeauth_forget(a);
    a->failure = failure;
    a->state = SNIC_NVMEAUTH_FAILING;
}

/* A queue that is authenticated, at last: A2. */
static void nvmeauth_ctrl_done(struct snic_nvmeauth *a)
{
    nvmeauth_forget(a);
    a->state = SNIC_NVMEAUTH_DONE;
}

/* ---- Messages of the host ---- */

/* The descriptor of DH-HMAC-CHAP in AUTH_Negotiate. @return 0; enum snic_nvmeauth_failure */
static uint8_t nvmeauth_ctrl_descriptor(const struct nvmeauth_message *m, const uint8_t **out)
{
    uint32_t count = m->data[7];
    if (m->data[6] != 0)
        return SNIC_NVMEAUTH_CONCAT;
    if (count == 0 || m->size < 8 + (size_t)count * SNIC_NVMEAUTH__DESCRIPTOR)
        return SNIC_NVMEAUTH_PAYLOAD;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *d = m->data + 8 + (size_t)i * SNIC_NVMEAUTH__DESCRIPTOR;
        if (d[0] != SNIC_NVMEAUTH__CHAP)
            continue;
        if (d[2] == 0 || d[2] > SNIC_NVMEAUTH__LIST || d[3] == 0 || d[3] > SNIC_NVMEAUTH__LIST)
            return SNIC_NVMEAUTH_PAYLOAD;
        *out = d;
        return 0;
    }
    return SNIC_NVMEAUTH_PROTOCOL;
}

static uint8_t nvmeauth_ctrl_negotiate(struct snic_nvmeauth *a,
                                       const struct snic_nvmeauth_random *random,
                                       const struct nvmeauth_message *m)
{
    const uint8_t *d = NULL;
    a->tid = m->tid;
    uint8_t failure = nvmeauth_ctrl_descriptor(m, &d);
    if (failure != 0)
        return failure;
    uint32_t hash = nvmeauth_choose_hash(d + 4, d[2], a->hashes);
    uint32_t group = nvmeauth_choose_group(d + 4 + SNIC_NVMEAUTH__LIST, d[3], a->groups);
    if (hash == UINT32_MAX)
        return SNIC_NVMEAUTH_NO_HASH;
    if (group == UINT32_MAX)
        return SNIC_NVMEAUTH_NO_GROUP;
    a->hash = (uint8_t)hash;
    a->group = (uint8_t)group;
    a->both = 0;
    (void)nvmeauth_sequence(a, random);
    memcpy(a->challenge, random->challenge, snic_nvmeauth_digest_size(hash));
    if (group != SNIC_NVMEAUTH_DH_NULL)
        memcpy(a->dh, random->dh, sizeof(a->dh));
    a->state = SNIC_NVMEAUTH_NEGOTIATED;
    return 0;
}

/* The fields of a Reply; its values are at value, challenge and exponential. */
struct nvmeauth_reply {
    const uint8_t *value;
    const uint8_t *challenge;
    const uint8_t *exponential;
    uint32_t sequence;
    uint8_t both;
};

static uint8_t nvmeauth_ctrl_reply_read(const struct snic_nvmeauth *a,
                                        const struct nvmeauth_message *m, struct nvmeauth_reply *r)
{
    uint32_t size = snic_nvmeauth_digest_size(a->hash), dh = snic_nvmeauth_dh_size(a->group);
    if (m->size < SNIC_NVMEAUTH__HEAD + 2 * size + dh || m->data[6] != size ||
        snic_get_le16(m->data + 10) != dh || m->data[8] > 1)
        return SNIC_NVMEAUTH_PAYLOAD;
    r->both = m->data[8];
    r->sequence = snic_get_le32(m->data + 12);
    r->value = m->data + SNIC_NVMEAUTH__HEAD;
    r->challenge = r->value + size;
    r->exponential = r->challenge + size;
    if (r->both && r->sequence == 0)
        return SNIC_NVMEAUTH_PAYLOAD;
    if (r->both && nvmeauth_equal(r->challenge, a->challenge, size))
        return SNIC_NVMEAUTH_FAILED; /* ours, reflected */
    return 0;
}

static uint8_t nvmeauth_ctrl_reply(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                   const struct snic_nvmeauth_keys *keys,
                                   const struct nvmeauth_message *m)
{
    struct nvmeauth_reply reply;
    uint8_t session[SNIC_NVMEAUTH_DIGEST_BYTES] = {0}, want[SNIC_NVMEAUTH_DIGEST_BYTES];
    uint8_t failure = nvmeauth_ctrl_reply_read(a, m, &reply);
    if (failure != 0)
        return failure;
    if (keys->host.size == 0 || (reply.both && keys->ctrl.size == 0))
        return SNIC_NVMEAUTH_FAILED;
    struct nvmeauth_proof proof = {.key = &keys->host,
                                   .challenge = a->challenge,
                                   .sequence = a->own_sequence,
                                   .session = session};
    int r = nvmeauth_session(a, ops, a->dh, reply.exponential, session);
    failure = r == SNIC_EPROTO ? SNIC_NVMEAUTH_PAYLOAD : SNIC_NVMEAUTH_FAILED;
    if (r == 0)
        r = nvmeauth_respond(a, ops, &proof, want);
    if (r == 0 && nvmeauth_equal(want, reply.value, snic_nvmeauth_digest_size(a->hash)))
        failure = 0;
    if (failure == 0 && reply.both) {
        proof.key = &keys->ctrl;
        proof.challenge = reply.challenge;
        proof.sequence = reply.sequence;
        proof.of_ctrl = 1;
        if (nvmeauth_respond(a, ops, &proof, a->response) != 0)
            failure = SNIC_NVMEAUTH_FAILED;
    }
    snic_nvmeauth_wipe(session, sizeof(session));
    snic_nvmeauth_wipe(want, sizeof(want));
    if (failure != 0)
        return failure;
    snic_nvmeauth_wipe(a->dh, sizeof(a->dh));
    a->both = reply.both;
    a->state = SNIC_NVMEAUTH_REPLIED;
    return 0;
}

/* The host has found a failure. */
static void nvmeauth_ctrl_failure2(struct snic_nvmeauth *a, const struct nvmeauth_message *m)
{
    nvmeauth_forget(a);
    a->failure = m->data[7] != 0 ? m->data[7] : SNIC_NVMEAUTH_FAILED;
    a->remote = 1;
    a->state = SNIC_NVMEAUTH_OVER;
}

static uint8_t nvmeauth_ctrl_message(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                     const struct snic_nvmeauth_keys *keys,
                                     const struct snic_nvmeauth_random *random,
                                     const struct nvmeauth_message *m)
{
    int common = m->type == SNIC_NVMEAUTH__COMMON;
    if (common && m->id == SNIC_NVMEAUTH__NEGOTIATE &&
        (a->state == SNIC_NVMEAUTH_IDLE || a->state == SNIC_NVMEAUTH_DONE))
        return nvmeauth_ctrl_negotiate(a, random, m);
    if (a->state != SNIC_NVMEAUTH_CHALLENGED && a->state != SNIC_NVMEAUTH_SUCCESS1)
        return SNIC_NVMEAUTH_MESSAGE;
    if (m->tid != a->tid)
        return SNIC_NVMEAUTH_PAYLOAD;
    if (common && m->id == SNIC_NVMEAUTH__FAILURE2) {
        nvmeauth_ctrl_failure2(a, m);
        return 0;
    }
    if (m->type != SNIC_NVMEAUTH__CHAP)
        return SNIC_NVMEAUTH_MESSAGE;
    if (m->id == SNIC_NVMEAUTH__REPLY && a->state == SNIC_NVMEAUTH_CHALLENGED)
        return nvmeauth_ctrl_reply(a, ops, keys, m);
    if (m->id != SNIC_NVMEAUTH__SUCCESS2 || a->state != SNIC_NVMEAUTH_SUCCESS1)
        return SNIC_NVMEAUTH_MESSAGE;
    if (m->size < SNIC_NVMEAUTH__HEAD)
        return SNIC_NVMEAUTH_PAYLOAD;
    nvmeauth_ctrl_done(a);
    return 0;
}

int snic_nvmeauth_ctrl_put(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                           const struct snic_nvmeauth_keys *keys,
                           const struct snic_nvmeauth_random *random, const void *data, size_t size)
{
    struct nvmeauth_message m;
    if (a->state == SNIC_NVMEAUTH_FAILING || a->state == SNIC_NVMEAUTH_OVER)
        return a->state;
    uint8_t failure = SNIC_NVMEAUTH_PAYLOAD;
    if (nvmeauth_message_read(&m, data, size) == 0)
        failure = nvmeauth_ctrl_message(a, ops, keys, random, &m);
    if (failure != 0)
        nvmeauth_ctrl_fail(a, failure);
    return a->state;
}

/* ---- Messages to the host ---- */

static int nvmeauth_ctrl_challenge(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                   uint8_t *out, size_t room)
{
    uint32_t size = snic_nvmeauth_digest_size(a->hash), dh = snic_nvmeauth_dh_size(a->group);
    size_t n = SNIC_NVMEAUTH__HEAD + size + dh;
    if (room < n)
        return SNIC_ENOSPC;
    nvmeauth_message_begin(out, n, SNIC_NVMEAUTH__CHAP, SNIC_NVMEAUTH__CHALLENGE, a->tid);
    out[6] = (uint8_t)size;
    out[8] = a->hash;
    out[9] = a->group;
    snic_put_le16(out + 10, (uint16_t)dh);
    snic_put_le32(out + 12, a->own_sequence);
    memcpy(out + SNIC_NVMEAUTH__HEAD, a->challenge, size);
    if (dh > 0 && ops->dh_public(a->group, a->dh, out + SNIC_NVMEAUTH__HEAD + size) != 0) {
        nvmeauth_ctrl_fail(a, SNIC_NVMEAUTH_FAILED);
        return 0;
    }
    a->state = SNIC_NVMEAUTH_CHALLENGED;
    return (int)n;
}

static int nvmeauth_ctrl_success1(struct snic_nvmeauth *a, uint8_t *out, size_t room)
{
    uint32_t size = snic_nvmeauth_digest_size(a->hash);
    size_t n = SNIC_NVMEAUTH__HEAD + (a->both ? size : 0);
    if (room < n)
        return SNIC_ENOSPC;
    nvmeauth_message_begin(out, n, SNIC_NVMEAUTH__CHAP, SNIC_NVMEAUTH__SUCCESS1, a->tid);
    out[6] = (uint8_t)size;
    out[8] = a->both;
    if (a->both) {
        memcpy(out + SNIC_NVMEAUTH__HEAD, a->response, size);
        snic_nvmeauth_wipe(a->response, sizeof(a->response));
        a->state = SNIC_NVMEAUTH_SUCCESS1;
    } else {
        nvmeauth_ctrl_done(a);
    }
    return (int)n;
}

int snic_nvmeauth_ctrl_get(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops, void *out,
                           size_t room)
{
    int n = 0;
    if (room < SNIC_NVMEAUTH__FAILURE)
        return SNIC_ENOSPC;
    if (a->state == SNIC_NVMEAUTH_NEGOTIATED)
        n = nvmeauth_ctrl_challenge(a, ops, out, room);
    else if (a->state == SNIC_NVMEAUTH_REPLIED)
        n = nvmeauth_ctrl_success1(a, out, room);
    else if (a->state != SNIC_NVMEAUTH_FAILING && a->state != SNIC_NVMEAUTH_OVER)
        nvmeauth_ctrl_fail(a, SNIC_NVMEAUTH_MESSAGE);
    if (n != 0)
        return n;
    memset(out, 0, snic_min_u64(room, SNIC_NVMEAUTH_MESSAGE_BYTES));
    a->state = SNIC_NVMEAUTH_OVER;
    return (int)nvmeauth_failure_write(out, SNIC_NVMEAUTH__FAILURE1, a->tid, a->failure);
}
