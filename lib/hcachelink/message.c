/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Messages to bytes and back. */
#include "snicstore/hcachelink.h"

#include "hcachelink/hcachelink_priv.h"

void hcachelink_encode(unsigned char out[SNIC_HCACHELINK__BYTES],
                       const struct hcachelink_message *m)
{
    memset(out, 0, SNIC_HCACHELINK__BYTES);
    snic_put_le32(out, SNIC_HCACHELINK__MAGIC);
    snic_put_le16(out + 4, SNIC_HCACHELINK__VERSION);
    snic_put_le16(out + 6, m->type);
    snic_put_le64(out + 8, m->id);
    snic_put_le64(out + 16, m->ino);
    snic_put_le64(out + 24, m->a);
    snic_put_le64(out + 32, m->b);
    snic_put_le64(out + 40, m->c);
    snic_put_le32(out + 48, (uint32_t)m->result);
}

int hcachelink_decode(struct hcachelink_message *m, const void *in, uint32_t size)
{
    const unsigned char *p = in;
    if (size < 8 || snic_get_le32(p) != SNIC_HCACHELINK__MAGIC)
        return SNIC_ENOENT;
    if (snic_get_le16(p + 4) != SNIC_HCACHELINK__VERSION)
        return SNIC_EVERSION;
    if (size != SNIC_HCACHELINK__BYTES || snic_get_le32(p + 52) != 0 || snic_get_le64(p + 56) != 0)
        return SNIC_EPROTO;
    *m = (struct hcachelink_message){.type = snic_get_le16(p + 6),
                                     .result = (int32_t)snic_get_le32(p + 48),
                                     .id = snic_get_le64(p + 8),
                                     .ino = snic_get_le64(p + 16),
                                     .a = snic_get_le64(p + 24),
                                     .b = snic_get_le64(p + 32),
                                     .c = snic_get_le64(p + 40)};
    return m->type < HCACHELINK_REGION || m->type > HCACHELINK_REFUSED || m->result > 0
               ? SNIC_EPROTO
               : 0;
}
