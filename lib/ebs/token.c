/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tokens: 48 bytes of claims and a MAC of them.
 *
 * I1  A token has one encoding: reading it and encoding the claims again gives the same bytes.
 * I2  Verify returns nothing of a token unless the MAC matched.
 */
#include "snicstore/ebs_token.h"

#define SNIC_EBS__TOKEN_FORMAT 1u
#define SNIC_EBS__TOKEN_CLAIMS 48u /* bytes before the MAC */
#define SNIC_EBS__TOKEN_LABEL 16u

SNIC_STATIC_ASSERT(SNIC_EBS__TOKEN_CLAIMS + SNIC_EBS_TAG_BYTES == SNIC_EBS_TOKEN_BYTES, "a token");

static int token_mac(const unsigned char claims[SNIC_EBS__TOKEN_CLAIMS],
                     const struct snic_ebs_sec_ops *ops, void *secret, unsigned char mac[32])
{
    unsigned char text[SNIC_EBS__TOKEN_LABEL + SNIC_EBS__TOKEN_CLAIMS];

    memcpy(text, "snic ebs token 1", SNIC_EBS__TOKEN_LABEL);
    memcpy(text + SNIC_EBS__TOKEN_LABEL, claims, SNIC_EBS__TOKEN_CLAIMS);
    return ops->mac(secret, text, sizeof(text), mac);
}

static int token_bad(const struct snic_ebs_token *t)
{
    return t->rights == 0 || (t->rights & ~SNIC_EBS_MAY_ALL) != 0 || t->gen == 0;
}

int snic_ebs_token_sign(unsigned char out[SNIC_EBS_TOKEN_BYTES], const struct snic_ebs_token *t,
                        const struct snic_ebs_sec_ops *ops, void *secret)
{
    unsigned char p[SNIC_EBS__TOKEN_CLAIMS] = {0};
    unsigned char mac[32];

    if (token_bad(t))
        return SNIC_EINVAL;
    p[0] = SNIC_EBS__TOKEN_FORMAT;
    p[1] = (unsigned char)t->rights;
    snic_put_be32(p + 4, t->key_id);
    snic_put_be64(p + 8, t->vd_id);
    snic_put_be32(p + 16, t->gen);
    snic_put_be32(p + 20, t->account);
    snic_put_be64(p + 24, t->not_after);
    int r = token_mac(p, ops, secret, mac);
    if (r != 0)
        return r;
    memcpy(out, p, sizeof(p));
    memcpy(out + sizeof(p), mac, SNIC_EBS_TAG_BYTES);
    return 0;
}

int snic_ebs_token_read(struct snic_ebs_token *t, const unsigned char in[SNIC_EBS_TOKEN_BYTES])
{
    struct snic_ebs_token k;
    unsigned char zeros = 0;

    if (in[0] != SNIC_EBS__TOKEN_FORMAT)
        return SNIC_EVERSION;
    k.rights = in[1];
    k.key_id = snic_get_be32(in + 4);
    k.vd_id = snic_get_be64(in + 8);
    k.gen = snic_get_be32(in + 16);
    k.account = snic_get_be32(in + 20);
    k.not_after = snic_get_be64(in + 24);
    for (uint32_t i = 32; i < SNIC_EBS__TOKEN_CLAIMS; i++)
        zeros |= in[i];
    if (token_bad(&k) || (in[2] | in[3] | zeros) != 0)
        return SNIC_EPROTO; /* I1 */
    *t = k;
    return 0;
}

int snic_ebs_token_verify(struct snic_ebs_token *t, const unsigned char in[SNIC_EBS_TOKEN_BYTES],
                          const struct snic_ebs_sec_ops *ops, void *secret)
{
    struct snic_ebs_token k;
    unsigned char mac[32];
    unsigned char differ = 0;

    int r = snic_ebs_token_read(&k, in);
    if (r == 0)
        r = token_mac(in, ops, secret, mac);
    if (r != 0)
        return r;
    for (uint32_t i = 0; i < SNIC_EBS_TAG_BYTES; i++)
        differ |= mac[i] ^ in[SNIC_EBS__TOKEN_CLAIMS + i];
    if (differ != 0)
        return SNIC_EACCES; /* I2 */
    *t = k;
    return 0;
}

int snic_ebs_token_permits(const struct snic_ebs_token *t, const struct snic_ebs_token_use *u)
{
    if (t->vd_id != u->vd_id || t->account != u->account || (u->rights & ~t->rights) != 0)
        return SNIC_EPERM;
    if (u->now > t->not_after)
        return SNIC_ETIMEDOUT;
    if (t->gen >> 16 < u->lease)
        return SNIC_ERANGE;
    return t->gen >> 16 < u->stored ? SNIC_ESTALE : 0;
}
