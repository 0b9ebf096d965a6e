/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a status means for an I/O; grants of credit in a byte. */
#include "ebs/ebs_priv.h"

static const int16_t status_error[SNIC_EBS_STATUS_END] = {
    [SNIC_EBS_OK] = 0,
    [SNIC_EBS_SUPERSEDED] = 0,
    [SNIC_EBS_STALE_GEN] = SNIC_ESTALE,
    [SNIC_EBS_BAD_CRC] = SNIC_ECORRUPT,
    [SNIC_EBS_BUSY] = SNIC_EAGAIN,
    [SNIC_EBS_BAD_VERSION] = SNIC_EVERSION,
    [SNIC_EBS_FENCED] = SNIC_ESTALE,
    [SNIC_EBS_BAD_AUTH] = SNIC_EACCES,
    [SNIC_EBS_INVALID] = SNIC_EINVAL,
    [SNIC_EBS_IO] = SNIC_EIO,
    [SNIC_EBS_NO_CONN] = SNIC_ENOTCONN,
    [SNIC_EBS_BAD_FLAGS] = SNIC_ENOTSUP,
    [SNIC_EBS_NO_SEGMENT] = SNIC_ENOENT,
    [SNIC_EBS_DAMAGED] = SNIC_ECORRUPT,
    [SNIC_EBS_NO_SPACE] = SNIC_ENOSPC,
    [SNIC_EBS_NO_LEASE] = SNIC_ESTALE,
    [SNIC_EBS_GEN_AHEAD] = SNIC_EAGAIN,
    [SNIC_EBS_UNPROVEN] = SNIC_EAGAIN,
    [SNIC_EBS_FORBIDDEN] = SNIC_EPERM,
    [SNIC_EBS_NO_TOKEN] = SNIC_EPERM,
};

int snic_ebs_status_error(unsigned status)
{
    return status < SNIC_EBS_STATUS_END ? status_error[status] : SNIC_EINVAL;
}

/* A number of 4 bits after its leading one, and an exponent; below 16 the number itself. */
uint8_t snic_ebs_credit_code(uint32_t blocks)
{
    if (blocks < 16)
        return (uint8_t)blocks;
    unsigned top = 31 - (unsigned)__builtin_clz(blocks); /* 4 ... 31 */
    if (top > 18)
        return UINT8_MAX;
    return (uint8_t)((top - 3) << 4 | (blocks >> (top - 4) & 15));
}

uint32_t snic_ebs_credit_blocks(uint8_t code)
{
    unsigned exponent = code >> 4;

    return exponent == 0 ? code : (16u + (code & 15u)) << (exponent - 1);
}
