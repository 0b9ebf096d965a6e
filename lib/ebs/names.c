/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names of numbers, their error codes, and numbers that are never reused.
 *
 * I1  A counter at its end stays there, and so does an epoch: no number is used twice.
 */
#include "ebs/ebs_priv.h"

static const char *const names_type[SNIC_EBS_TYPE_END] = {
    "?",     "WRITE", "WACK",      "READ_REQ", "READ_RESP", "ACKV", "PROBE", "PROBE_ACK",
    "RESET", "HELLO", "HELLO_ACK", "FENCE",    "FENCE_ACK", "NAK",  "TOKEN",
};

struct names_status {
    const char *name;
    int error;
};
static const struct names_status names_status[SNIC_EBS_STATUS_END] = {
    [SNIC_EBS_OK] = {"OK", 0},
    [SNIC_EBS_SUPERSEDED] = {"SUPERSEDED", 0},
    [SNIC_EBS_STALE_GEN] = {"STALE_GEN", SNIC_ESTALE},
    [SNIC_EBS_BAD_CRC] = {"BAD_CRC", SNIC_ECORRUPT},
    [SNIC_EBS_BUSY] = {"BUSY", SNIC_EAGAIN},
    [SNIC_EBS_BAD_VERSION] = {"BAD_VERSION", SNIC_EVERSION},
    [SNIC_EBS_FENCED] = {"FENCED", SNIC_ESTALE},
    [SNIC_EBS_BAD_AUTH] = {"BAD_AUTH", SNIC_EACCES},
    [SNIC_EBS_INVALID] = {"INVALID", SNIC_EINVAL},
    [SNIC_EBS_IO] = {"IO", SNIC_EIO},
    [SNIC_EBS_NO_CONN] = {"NO_CONN", SNIC_ENOTCONN},
    [SNIC_EBS_BAD_FLAGS] = {"BAD_FLAGS", SNIC_ENOTSUP},
    [SNIC_EBS_NO_SEGMENT] = {"NO_SEGMENT", SNIC_ENOENT},
    [SNIC_EBS_DAMAGED] = {"DAMAGED", SNIC_ECORRUPT},
    [SNIC_EBS_NO_SPACE] = {"NO_SPACE", SNIC_ENOSPC},
    [SNIC_EBS_NO_LEASE] = {"NO_LEASE", SNIC_ESTALE},
    [SNIC_EBS_GEN_AHEAD] = {"GEN_AHEAD", SNIC_EAGAIN},
    [SNIC_EBS_UNPROVEN] = {"UNPROVEN", SNIC_EAGAIN},
    [SNIC_EBS_FORBIDDEN] = {"FORBIDDEN", SNIC_EPERM},
    [SNIC_EBS_NO_TOKEN] = {"NO_TOKEN", SNIC_EPERM},
};

static const struct {
    int error;
    const char *name;
} names_drop[SNIC_EBS_DROP_END] = {
    [SNIC_EBS_DROP_SHORT] = {SNIC_EMSGSIZE, "short"},
    [SNIC_EBS_DROP_VERSION] = {SNIC_EVERSION, "version"},
    [SNIC_EBS_DROP_TYPE] = {SNIC_EPROTO, "type"},
    [SNIC_EBS_DROP_CRC] = {SNIC_ECORRUPT, "crc"},
    [SNIC_EBS_DROP_LENGTH] = {SNIC_EOVERFLOW, "length"},
    [SNIC_EBS_DROP_FIELD] = {SNIC_ERANGE, "field"},
    [SNIC_EBS_DROP_FLAG] = {SNIC_ENOTSUP, "flag"},
    [SNIC_EBS_DROP_OTHER] = {0, "other"},
};

const char *snic_ebs_type_name(unsigned type)
{
    return names_type[type < SNIC_EBS_TYPE_END ? type : 0];
}

const char *snic_ebs_status_name(unsigned status)
{
    return status < SNIC_EBS_STATUS_END ? names_status[status].name : "?";
}

int snic_ebs_status_error(unsigned status)
{
    return status < SNIC_EBS_STATUS_END ? names_status[status].error : SNIC_EINVAL;
}

enum snic_ebs_drop snic_ebs_drop_of(int error)
{
    unsigned i = 0;

    while (i < SNIC_EBS_DROP_OTHER && names_drop[i].error != error)
        i++;
    return (enum snic_ebs_drop)i;
}

const char *snic_ebs_drop_name(unsigned drop)
{
    return names_drop[drop < SNIC_EBS_DROP_END ? drop : SNIC_EBS_DROP_OTHER].name;
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

int snic_ebs_id_next(uint64_t *id)
{
    if (snic_ebs_id_counter(*id) == SNIC_EBS_COUNTER_MAX)
        return SNIC_ERANGE; /* I1 */
    *id += 1;
    return 0;
}

int snic_ebs_epoch_next(uint32_t *epoch)
{
    if (*epoch >= UINT16_MAX)
        return SNIC_ERANGE; /* I1 */
    *epoch += 1;
    return 0;
}
