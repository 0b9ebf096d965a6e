/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The host's half. */
#include "nvmeauth/nvmeauth_priv.h"

int snic_nvmeauth_host_start(struct snic_nvmeauth *a, uint16_t tid, void *out, size_t room)
{
    static const uint8_t groups[] = {1, 2, 3, 4, 5, 0}; /* in the order of preference */
    uint8_t *d = (uint8_t *)out + 8;
    if (a->state != SNIC_NVMEAUTH_IDLE && a->state != SNIC_NVMEAUTH_DONE)
        return SNIC_EBUSY;
    if (room < 8 + SNIC_NVMEAUTH__DESCRIPTOR)
        return SNIC_ENOSPC;
    nvmeauth_message_begin(out, 8 + SNIC_NVMEAUTH__DESCRIPTOR, SNIC_NVMEAUTH__COMMON,
                           SNIC_NVMEAUTH__NEGOTIATE, tid);
    d[-1] = 1; /* NAPD */
    d[0] = SNIC_NVMEAUTH__CHAP;
    for (uint8_t i = SNIC_NVMEAUTH_SHA256; i <= SNIC_NVMEAUTH_SHA512; i++)
        if ((a->hashes >> i & 1) != 0)
            d[4 + d[2]++] = i;
    for (size_t i = 0; i < sizeof(groups); i++)
        if ((a->groups >> groups[i] & 1) != 0)
            d[4 + SNIC_NVMEAUTH__LIST + d[3]++] = groups[i];
    a->tid = tid;
    a->both = 0;
    a->state = SNIC_NVMEAUTH_NEGOTIATED;
    return 8 + (int)SNIC_NVMEAUTH__DESCRIPTOR;
}

/* The fields of a Challenge, checked. @return 0; enum snic_nvmeauth_failure */
static uint8_t nvmeauth_host_challenge_read(struct snic_nvmeauth *a,
                                            const struct nvmeauth_message *m)
{
    if (m->size < SNIC_NVMEAUTH__HEAD)
        return SNIC_NVMEAUTH_PAYLOAD;
    uint8_t hash = m->data[8], group = m->data[9];
    if (hash >= 32 || (a->hashes >> hash & 1) == 0)
        return SNIC_NVMEAUTH_NO_HASH;
    if (group >= 32 || (a->groups >> group & 1) == 0)
        return SNIC_NVMEAUTH_NO_GROUP;
    uint32_t size = snic_nvmeauth_digest_size(hash), dh = snic_nvmeauth_dh_size(group);
    if (m->data[6] != size || snic_get_le16(m->data + 10) != dh ||
        m->size < SNIC_NVMEAUTH__HEAD + size + dh || snic_get_le32(m->data + 12) == 0)
        return SNIC_NVMEAUTH_PAYLOAD;
    a->hash = hash;
    a->group = group;
    a->peer_sequence = snic_get_le32(m->data + 12);
    return 0;
}

/* Challenge to Reply. @return bytes; 0: a->failure */
static size_t nvmeauth_host_reply(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                  const struct snic_nvmeauth_keys *keys,
                                  const struct snic_nvmeauth_random *random,
                                  const struct nvmeauth_message *m, uint8_t *out)
{
    uint8_t session[SNIC_NVMEAUTH_DIGEST_BYTES] = {0};
    a->failure = nvmeauth_host_challenge_read(a, m);
    if (a->failure != 0)
        return 0;
    uint32_t size = snic_nvmeauth_digest_size(a->hash), dh = snic_nvmeauth_dh_size(a->group);
    const uint8_t *challenge = m->data + SNIC_NVMEAUTH__HEAD;
    struct nvmeauth_proof proof = {.key = &keys->host,
                                   .challenge = challenge,
                                   .sequence = a->peer_sequence,
                                   .session = session};
    a->both = keys->ctrl.size != 0;
    a->failure = SNIC_NVMEAUTH_FAILED;
    if (keys->host.size == 0 || (a->both && nvmeauth_equal(challenge, random->challenge, size)))
        return 0;
    nvmeauth_message_begin(out, SNIC_NVMEAUTH__HEAD + 2 * size + dh, SNIC_NVMEAUTH__CHAP,
                           SNIC_NVMEAUTH__REPLY, a->tid);
    out[6] = (uint8_t)size;
    out[8] = a->both;
    snic_put_le16(out + 10, (uint16_t)dh);
    if (a->both) {
        snic_put_le32(out + 12, nvmeauth_sequence(a, random));
        memcpy(out + SNIC_NVMEAUTH__HEAD + size, random->challenge, size);
    }
    int r = nvmeauth_session(a, ops, random->dh, challenge + size, session);
    if (r == SNIC_EPROTO)
        a->failure = SNIC_NVMEAUTH_PAYLOAD;
    if (r == 0 && dh > 0)
        r = ops->dh_public(a->group, random->dh, out + SNIC_NVMEAUTH__HEAD + 2 * size);
    if (r == 0)
        r = nvmeauth_respond(a, ops, &proof, out + SNIC_NVMEAUTH__HEAD);
    if (r == 0 && a->both) {
        proof.key = &keys->ctrl;
        proof.challenge = random->challenge;
        proof.sequence = a->own_sequence;
        proof.of_ctrl = 1;
        r = nvmeauth_respond(a, ops, &proof, a->response);
    }
    snic_nvmeauth_wipe(session, sizeof(session));
    if (r != 0)
        return 0;
    a->failure = 0;
    a->state = SNIC_NVMEAUTH_REPLIED;
    return SNIC_NVMEAUTH__HEAD + 2 * size + dh;
}

/* Success1, with Success2 if that is due. @return bytes; a->failure if it failed */
static size_t nvmeauth_host_success(struct snic_nvmeauth *a, const struct nvmeauth_message *m,
                                    uint8_t *out)
{
    uint32_t size = snic_nvmeauth_digest_size(a->hash);
    a->failure = SNIC_NVMEAUTH_PAYLOAD;
    if (m->size < SNIC_NVMEAUTH__HEAD + (a->both ? size : 0) || m->data[6] != size ||
        m->data[8] > a->both)
        return 0;
    a->failure = SNIC_NVMEAUTH_FAILED;
    if (a->both &&
        (m->data[8] != 1 || !nvmeauth_equal(m->data + SNIC_NVMEAUTH__HEAD, a->response, size)))
        return 0;
    a->failure = 0;
    nvmeauth_forget(a);
    a->state = SNIC_NVMEAUTH_DONE; /* A2 */
    if (!a->both)
        return 0;
    nvmeauth_message_begin(out, SNIC_NVMEAUTH__HEAD, SNIC_NVMEAUTH__CHAP, SNIC_NVMEAUTH__SUCCESS2,
                           a->tid);
    return SNIC_NVMEAUTH__HEAD;
}

static size_t nvmeauth_host_message(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                                    const struct snic_nvmeauth_keys *keys,
                                    const struct snic_nvmeauth_random *random,
                                    const struct nvmeauth_message *m, uint8_t *out)
{
    if (m->type == SNIC_NVMEAUTH__COMMON && m->id == SNIC_NVMEAUTH__FAILURE1) {
        a->failure = m->data[7] != 0 ? m->data[7] : SNIC_NVMEAUTH_FAILED;
        a->remote = 1;
        return 0;
    }
    a->failure = SNIC_NVMEAUTH_PAYLOAD;
    if (m->tid != a->tid)
        return 0;
    if (m->type == SNIC_NVMEAUTH__CHAP && m->id == SNIC_NVMEAUTH__CHALLENGE &&
        a->state == SNIC_NVMEAUTH_NEGOTIATED)
        return nvmeauth_host_reply(a, ops, keys, random, m, out);
    if (m->type == SNIC_NVMEAUTH__CHAP && m->id == SNIC_NVMEAUTH__SUCCESS1 &&
        a->state == SNIC_NVMEAUTH_REPLIED)
        return nvmeauth_host_success(a, m, out);
    a->failure = SNIC_NVMEAUTH_MESSAGE;
    return 0;
}

int snic_nvmeauth_host_step(struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                            const struct snic_nvmeauth_keys *keys,
                            const struct snic_nvmeauth_random *random, const void *data,
                            size_t size, void *out)
{
    struct nvmeauth_message m;
    size_t n = 0;
    if (a->state != SNIC_NVMEAUTH_NEGOTIATED && a->state != SNIC_NVMEAUTH_REPLIED)
        return 0;
    if (nvmeauth_message_read(&m, data, size) != 0)
        a->failure = SNIC_NVMEAUTH_PAYLOAD;
    else
        n = nvmeauth_host_message(a, ops, keys, random, &m, out);
    if (a->failure == 0)
        return (int)n;
    nvmeauth_forget(a);
    a->state = SNIC_NVMEAUTH_OVER;
    if (a->remote)
        return 0;
    return (int)nvmeauth_failure_write(out, SNIC_NVMEAUTH__FAILURE2, a->tid, a->failure);
}
