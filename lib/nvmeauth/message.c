/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all messages have in common, and the choice of algorithms. */
#include "nvmeauth/nvmeauth_priv.h"

const char *snic_nvmeauth_failure_text(uint32_t explanation)
{
    static const char *const texts[] = {"no failure",
                                        "authentication failed",
                                        "no usable authentication protocol",
                                        "secure channel concatenation mismatch",
                                        "no usable hash function",
                                        "no usable DH group",
                                        "incorrect payload",
                                        "incorrect protocol message"};
    return explanation < SNIC_COUNTOF(texts) ? texts[explanation] : "unknown failure";
}

int nvmeauth_message_read(struct nvmeauth_message *m, const void *data, size_t size)
{
    if (data == NULL || size < SNIC_NVMEAUTH__FAILURE)
        return SNIC_EPROTO;
    m->data = data;
    m->size = size;
    m->type = m->data[0];
    m->id = m->data[1];
    m->tid = snic_get_le16(m->data + 4);
    return 0;
}

void nvmeauth_message_begin(uint8_t *out, size_t size, uint32_t type, uint32_t id, uint16_t tid)
{
    memset(out, 0, size);
    out[0] = (uint8_t)type;
    out[1] = (uint8_t)id;
    snic_put_le16(out + 4, tid);
}

size_t nvmeauth_failure_write(uint8_t *out, uint32_t id, uint16_t tid, uint8_t failure)
{
    nvmeauth_message_begin(out, SNIC_NVMEAUTH__FAILURE, SNIC_NVMEAUTH__COMMON, id, tid);
    out[6] = 1; /* reason: authentication failure */
    out[7] = failure;
    return SNIC_NVMEAUTH__FAILURE;
}

/* The ids of a list, as a set. */
static uint32_t nvmeauth_set(const uint8_t *ids, uint32_t count)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 32)
            set |= UINT32_C(1) << ids[i];
    return set;
}

static uint32_t nvmeauth_lowest(uint32_t set)
{
    for (uint32_t i = 0; i < 32; i++)
        if ((set >> i & 1) != 0)
            return i;
    return UINT32_MAX;
}

uint32_t nvmeauth_choose_hash(const uint8_t *ids, uint32_t count, uint32_t permitted)
{
    return nvmeauth_lowest(nvmeauth_set(ids, count) & permitted & SNIC_NVMEAUTH_HASHES);
}

uint32_t nvmeauth_choose_group(const uint8_t *ids, uint32_t count, uint32_t permitted)
{
    uint32_t set = nvmeauth_set(ids, count) & permitted & SNIC_NVMEAUTH_GROUPS;
    uint32_t some = nvmeauth_lowest(set & ~1U);
    return some != UINT32_MAX ? some : nvmeauth_lowest(set);
}
