/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The record of a namespace's reservation, little-endian:
 *   0 "SNVR", 4 version 1 (2), 6 registrants (2), 8 GEN (4), 12 type (1), 13 PTPL (1),
 *   14 the holder's place among them, or ffffh (2), 16 NGUID, 32 UUID, 48 EUI64 (8), 56 zeros (4),
 *   60 CRC32C of all but itself (4), 64 registrants of 256 bytes: host id (16), key (8), NQN (232)
 */
#include "nvmesub/nvmesub_priv.h"

enum { NVMESUB_RECORD_HEAD = 64, NVMESUB_RECORD_HOST = 256, NVMESUB_RECORD_CRC = 60 };

size_t snic_nvmesub_record_max(const struct snic_nvmesub *s)
{
    return NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * s->opts.hosts_max;
}

static uint32_t nvmesub_record_crc(const unsigned char *p, size_t size)
{
    static const unsigned char zero[4];
    uint32_t crc = snic_crc32c(0, p, NVMESUB_RECORD_CRC);
    crc = snic_crc32c(crc, zero, sizeof(zero));
    return snic_crc32c(crc, p + NVMESUB_RECORD_HEAD, size - NVMESUB_RECORD_HEAD);
}

int snic_nvmesub_record(const struct snic_nvmesub *s, uint32_t nsid, void *out, size_t room)
{
    const struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    uint32_t count = n->ptpl ? n->registrants : 0;
    size_t size = NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * count;
    if (room < size)
        return SNIC_ENOSPC;
    unsigned char *p = out;
    memset(p, 0, size);
    memcpy(p, "SNVR", 4);
    snic_put_le16(p + 4, 1);
    snic_put_le16(p + 6, (uint16_t)count);
    snic_put_le32(p + 8, n->resv_gen);
    p[12] = n->ptpl ? n->rtype : 0;
    p[13] = n->ptpl;
    snic_put_le16(p + 14, 0xffff);
    memcpy(p + 16, n->nguid, 16);
    memcpy(p + 32, n->uuid, 16);
    memcpy(p + 48, n->eui64, 8);
    for (uint32_t i = 0, k = 0; k < count; i++) {
        if (!nvmesub_bit(n->regs, i))
            continue;
        unsigned char *h = p + NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * k;
        memcpy(h, s->hosts[i].hostid, 16);
        snic_put_le64(h + 16, n->keys[i]);
        memcpy(h + 24, s->hosts[i].nqn, SNIC_NVME_NQN_LENGTH);
        if (n->holder == i)
            snic_put_le16(p + 14, (uint16_t)k);
        k++;
    }
    snic_put_le32(p + NVMESUB_RECORD_CRC, nvmesub_record_crc(p, size));
    return (int)size;
}

static int nvmesub_record_valid(const struct snic_nvmesub *s, const unsigned char *p, size_t size)
{
    if (size < NVMESUB_RECORD_HEAD || memcmp(p, "SNVR", 4) != 0)
        return SNIC_ECORRUPT;
    if (snic_get_le16(p + 4) != 1)
        return SNIC_EVERSION;
    uint32_t count = snic_get_le16(p + 6), holder = snic_get_le16(p + 14);
    if (size != NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * count ||
        snic_get_le32(p + NVMESUB_RECORD_CRC) != nvmesub_record_crc(p, size))
        return SNIC_ECORRUPT;
    int single = p[12] >= 1 && p[12] <= SNIC_NVME_RESV_EXCLUSIVE_ACCESS_RO;
    if (p[12] > SNIC_NVME_RESV_EXCLUSIVE_ACCESS_AR || p[13] > 1 || (p[12] != 0 && count == 0) ||
        (single ? holder >= count : holder != 0xffff))
        return SNIC_ECORRUPT;
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *h = p + NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * i;
        static const unsigned char none[16];
        if (!nvmesub_nqn_fine((const char *)h + 24, 232) || snic_get_le64(h + 16) == 0 ||
            memcmp(h, none, 16) == 0)
            return SNIC_ECORRUPT;
        for (uint32_t k = 0; k < i; k++) {
            const unsigned char *g = p + NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * k;
            if (memcmp(h, g, 16) == 0 && strcmp((const char *)h + 24, (const char *)g + 24) == 0)
                return SNIC_ECORRUPT;
        }
        fresh += nvmesub_host_find(s, h, (const char *)h + 24) == SNIC_NVMESUB__NONE;
    }
    for (uint32_t i = 0; fresh != 0 && i < s->opts.hosts_max; i++)
        if (!s->hosts[i].used && s->hosts[i].out.kind == 0 &&
            atomic_load_explicit(&s->view.fence[i], memory_order_relaxed) == 0)
            fresh--;
    return fresh != 0 ? SNIC_ENOSPC : 0;
}

int snic_nvmesub_restore(struct snic_nvmesub *s, uint32_t nsid, const void *record, size_t size)
{
    const unsigned char *p = record;
    struct nvmesub_ns *n = nvmesub_ns_find(s, nsid);
    if (n == NULL)
        return SNIC_ENOENT;
    if (n->registrants != 0)
        return SNIC_EBUSY;
    int r = nvmesub_record_valid(s, p, size);
    if (r != 0)
        return r;
    if (memcmp(p + 16, n->nguid, 16) != 0 || memcmp(p + 32, n->uuid, 16) != 0 ||
        memcmp(p + 48, n->eui64, 8) != 0)
        return SNIC_ESTALE;
    n->resv_gen = snic_get_le32(p + 8);
    n->rtype = p[12];
    n->ptpl = p[13];
    for (uint32_t i = 0; i < snic_get_le16(p + 6); i++) {
        const unsigned char *h = p + NVMESUB_RECORD_HEAD + (size_t)NVMESUB_RECORD_HOST * i;
        uint32_t host = nvmesub_host_get(s, h, (const char *)h + 24);
        SNIC_ASSERT(host != SNIC_NVMESUB__NONE && !nvmesub_bit(n->regs, host));
        s->hosts[host].registrations++;
        n->registrants++;
        n->keys[host] = snic_get_le64(h + 16);
        nvmesub_bit_set(n->regs, host);
        if (i == snic_get_le16(p + 14))
            n->holder = host;
    }
    nvmesub_view_ns(s, nsid);
    return 0;
}
