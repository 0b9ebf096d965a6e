/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The use of ciphers, of any backend.
 *
 * I1  A nonce is salt, path and pn, and no pn of a path is sealed twice under a key: pn_next rises
 *     before the cipher is called, so that a failure does not free the number.
 * I2  A key seals and opens 2^32 packets on each path, those from pn_first on, and no others.
 * I3  All that is computed from plaintext and leaves is ciphertext and the tag, which is a keyed
 *     function of all of the block.
 */
#include "ebs/ebs_priv.h"
#include "snicstore/ebs_sec.h"

#define SNIC_EBS__UNITS (SNIC_EBS_BLOCK_BYTES / 512) /* of XTS's tweak in a block */

int snic_ebs_xts_encrypt(const struct snic_ebs_sec_ops *ops, void *key, uint64_t lba, void *out,
                         const void *in)
{
    if (lba >= SNIC_EBS_LBA_END)
        return SNIC_ERANGE;
    return ops->xts_encrypt(key, lba * SNIC_EBS__UNITS, out, in, SNIC_EBS_BLOCK_BYTES);
}

int snic_ebs_xts_decrypt(const struct snic_ebs_sec_ops *ops, void *key, uint64_t lba, void *out,
                         const void *in)
{
    if (lba >= SNIC_EBS_LBA_END)
        return SNIC_ERANGE;
    return ops->xts_decrypt(key, lba * SNIC_EBS__UNITS, out, in, SNIC_EBS_BLOCK_BYTES);
}

/* A data unit that is no block's. */
#define SNIC_EBS__TAG_UNIT UINT64_MAX
SNIC_STATIC_ASSERT(SNIC_EBS_LBA_END <= UINT64_MAX / SNIC_EBS__UNITS / 2, "no block has its number");

int snic_ebs_tag_key_init(struct snic_ebs_tag_key *k, const struct snic_ebs_sec_ops *ops,
                          void *xts_key)
{
    unsigned char bytes[32] = {0};
    int r = ops->xts_encrypt(xts_key, SNIC_EBS__TAG_UNIT, bytes, bytes, sizeof(bytes));
    if (r != 0)
        return r;
    memcpy(k->of_data, bytes, sizeof(k->of_data));
    memcpy(k->of_place, bytes + sizeof(k->of_data), sizeof(k->of_place));
    return 0;
}

uint32_t snic_ebs_tag(const struct snic_ebs_tag_key *k, uint64_t lba, const void *block)
{
    unsigned char place[16];

    snic_put_le64(place, lba);
    snic_put_le64(place + 8, snic_siphash(k->of_data, block, SNIC_EBS_BLOCK_BYTES));
    uint32_t tag = (uint32_t)snic_siphash(k->of_place, place, sizeof(place));
    return tag != 0 ? tag : 1; /* 0 means that there is no key */
}

void snic_ebs_key_init(struct snic_ebs_key *k, const struct snic_ebs_sec_ops *ops, void *key,
                       uint32_t salt, uint64_t pn_first)
{
    memset(k, 0, sizeof(*k));
    k->ops = ops;
    k->key = key;
    k->salt = salt;
    k->pn_first = pn_first;
    for (unsigned i = 0; i < SNIC_EBS_PATHS; i++)
        k->pn_next[i] = pn_first;
}

static int sec_in_range(const struct snic_ebs_key *k, uint64_t pn)
{
    return pn >= k->pn_first && pn - k->pn_first < SNIC_EBS_KEY_PACKETS; /* I2 */
}

int snic_ebs_key_due(const struct snic_ebs_key *k, uint64_t pn)
{
    return !sec_in_range(k, pn) || pn - k->pn_first >= SNIC_EBS_KEY_PACKETS - SNIC_EBS_KEY_REKEY;
}

static void sec_nonce(unsigned char nonce[12], const struct snic_ebs_key *k, unsigned path,
                      uint64_t pn)
{
    snic_put_be32(nonce, k->salt ^ path); /* differs between paths */
    snic_put_be64(nonce + 4, pn);
}

int snic_ebs_seal(struct snic_ebs_key *k, const void *packet, const struct snic_ebs_place *place,
                  void *out, const void *in, unsigned char tag[16])
{
    uint64_t pn = snic_get_be64((const unsigned char *)packet + EBS_AT_PN);
    unsigned path = ((const unsigned char *)packet)[EBS_AT_PATH_ID];
    unsigned char nonce[12];

    if (place->tag_at == 0 || path >= SNIC_EBS_PATHS)
        return SNIC_EINVAL;
    if (!sec_in_range(k, pn))
        return SNIC_ESTALE;
    if (pn < k->pn_next[path] || pn == UINT64_MAX)
        return SNIC_EINVAL;
    k->pn_next[path] = pn + 1; /* I1 */
    sec_nonce(nonce, k, path, pn);
    return k->ops->gcm_seal(k->key, nonce, packet, place->header_size, out, in, place->body_size,
                            tag);
}

int snic_ebs_open(const struct snic_ebs_key *k, const void *packet,
                  const struct snic_ebs_place *place, void *out)
{
    const unsigned char *p = (const unsigned char *)packet;
    uint64_t pn = snic_get_be64(p + EBS_AT_PN);
    unsigned char nonce[12];

    if (place->tag_at == 0 || p[EBS_AT_PATH_ID] >= SNIC_EBS_PATHS)
        return SNIC_EINVAL;
    if (!sec_in_range(k, pn))
        return SNIC_ESTALE;
    sec_nonce(nonce, k, p[EBS_AT_PATH_ID], pn);
    return k->ops->gcm_open(k->key, nonce, p, place->header_size, out, p + place->body_at,
                            place->body_size, p + place->tag_at);
}
