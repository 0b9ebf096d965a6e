/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the messages prove:
 *
 *   K'  = HMAC(K, NQN || "NVMe-over-Fabrics")      transformed key, with the key's hash; or K
 *   KS  = H(g^xy mod p)                            session key
 *   Ca  = HMAC(KS, C)                              augmented challenge; with the null group C
 *   R1  = HMAC(Kh', Ca1 || S1 || T_ID || SC_C || "HostHost" || NQNh || 00h || NQNc)
 *   R2  = HMAC(Kc', Ca2 || S2 || T_ID || SC_C || "Controller" || NQNc || 00h || NQNh)
 */
#include "nvmeauth/nvmeauth_priv.h"

/* Bytes of R's input at most. */
#define SNIC_NVMEAUTH__INPUT (64U + 4 + 2 + 1 + 10 + 2 * SNIC_NVMEAUTH_NQN_BYTES)

uint32_t snic_nvmeauth_digest_size(uint32_t hash)
{
    return hash >= SNIC_NVMEAUTH_SHA256 && hash <= SNIC_NVMEAUTH_SHA512 ? 16 + 16 * hash : 0;
}

uint32_t snic_nvmeauth_dh_size(uint32_t group)
{
    static const uint16_t sizes[] = {0, 256, 384, 512, 768, 1024};
    return group < SNIC_COUNTOF(sizes) ? sizes[group] : 0;
}

int nvmeauth_equal(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t different = 0;
    for (size_t i = 0; i < size; i++) /* all of them: it takes the same time */
        different = (uint8_t)(different | (x[i] ^ y[i]));
    return different == 0;
}

void nvmeauth_forget(struct snic_nvmeauth *a)
{
    snic_nvmeauth_wipe(a->challenge, sizeof(a->challenge));
    snic_nvmeauth_wipe(a->response, sizeof(a->response));
    snic_nvmeauth_wipe(a->dh, sizeof(a->dh));
}

uint32_t nvmeauth_sequence(struct snic_nvmeauth *a, const struct snic_nvmeauth_random *random)
{
    a->own_sequence = a->own_sequence == 0 ? random->sequence : a->own_sequence + 1;
    if (a->own_sequence == 0) /* reserved */
        a->own_sequence = 1;
    return a->own_sequence;
}

static void nvmeauth_append(uint8_t *out, size_t *n, const void *data, size_t size)
{
    memcpy(out + *n, data, size);
    *n += size;
}

/* @return bytes of the key, at out; the backend's error */
static int nvmeauth_transform(const struct snic_nvmeauth_ops *ops,
                              const struct snic_nvmeauth_key *key, const char *nqn, uint8_t *out)
{
    uint8_t text[SNIC_NVMEAUTH_NQN_BYTES + 17];
    size_t n = 0;
    if (key->hash == 0) {
        memcpy(out, key->bytes, key->size);
        return key->size;
    }
    nvmeauth_append(text, &n, nqn, strlen(nqn));
    nvmeauth_append(text, &n, "NVMe-over-Fabrics", 17);
    int r = ops->hmac(key->hash, key->bytes, key->size, text, n, out);
    return r != 0 ? r : (int)snic_nvmeauth_digest_size(key->hash);
}

int nvmeauth_session(const struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                     const uint8_t *x, const uint8_t *y, uint8_t *out)
{
    uint8_t shared[SNIC_NVMEAUTH_DH_BYTES];
    if (a->group == SNIC_NVMEAUTH_DH_NULL)
        return 0;
    int r = ops->dh_shared(a->group, x, y, shared);
    if (r == 0)
        r = ops->digest(a->hash, shared, snic_nvmeauth_dh_size(a->group), out);
    snic_nvmeauth_wipe(shared, sizeof(shared));
    return r;
}

int nvmeauth_respond(const struct snic_nvmeauth *a, const struct snic_nvmeauth_ops *ops,
                     const struct nvmeauth_proof *p, uint8_t *out)
{
    const char *prover = p->of_ctrl ? a->subnqn : a->hostnqn;
    const char *other = p->of_ctrl ? a->hostnqn : a->subnqn;
    uint32_t size = snic_nvmeauth_digest_size(a->hash);
    uint8_t key[64], input[SNIC_NVMEAUTH__INPUT], numbers[7];
    size_t n = 0;
    int r = 0;
    if (a->group == SNIC_NVMEAUTH_DH_NULL)
        memcpy(input, p->challenge, size);
    else
        r = ops->hmac(a->hash, p->session, size, p->challenge, size, input);
    n += size;
    snic_put_le32(numbers, p->sequence);
    snic_put_le16(numbers + 4, a->tid);
    numbers[6] = 0; /* SC_C */
    nvmeauth_append(input, &n, numbers, sizeof(numbers));
    nvmeauth_append(input, &n, p->of_ctrl ? "Controller" : "HostHost", p->of_ctrl ? 10 : 8);
    nvmeauth_append(input, &n, prover, strlen(prover) + 1);
    nvmeauth_append(input, &n, other, strlen(other));
    int key_size = r == 0 ? nvmeauth_transform(ops, p->key, prover, key) : r;
    if (key_size == 0) /* no key: no response, rather than one that is easily had */
        key_size = SNIC_EINVAL;
    if (key_size > 0)
        r = ops->hmac(a->hash, key, (size_t)key_size, input, n, out);
    snic_nvmeauth_wipe(key, sizeof(key));
    snic_nvmeauth_wipe(input, sizeof(input));
    return key_size < 0 ? key_size : r;
}
