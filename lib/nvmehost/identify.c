/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's Identify data and logs. Every number is hostile: each is bounded before it is used.
 */
#include "nvmehost/nvmehost_priv.h"

#include "snicstore/nvme_wire.h"

/* Log2 of the block size of namespaces that are used. */
enum { NVMEHOST_SHIFT_MIN = 9, NVMEHOST_SHIFT_MAX = 16 };

int nvmehost_identify_ctrl(struct nvmehost_path *p, const unsigned char *data)
{
    const struct snic_nvme_id_ctrl *id = (const void *)data;
    const struct snic_nvmehost_opts *o = &p->s->o;
    uint32_t shift = 12U + p->mps + id->mdts;
    uint16_t oncs = snic_get_le16(&id->oncs), maxcmd = snic_get_le16(&id->maxcmd);
    uint64_t capsule = (uint64_t)snic_get_le32(&id->ioccsz) * 16;
    p->part = o->command_max;
    if (id->mdts != 0 && shift < 31)
        p->part = (uint32_t)snic_min_u64(p->part, 1U << shift);
    p->inline_max = 0;
    if (capsule >= SNIC_NVME_SQE_BYTES && snic_get_le16(&id->icdoff) == 0)
        p->inline_max =
            (uint32_t)snic_min_u64(capsule - SNIC_NVME_SQE_BYTES, SNIC_NVMETCP_INLINE_MAX);
    if (maxcmd >= 2)
        p->entries = (uint32_t)snic_min_u64(p->entries, maxcmd);
    p->ns.caps = SNIC_IO_CAP_FUA;
    p->ns.caps |= (oncs & SNIC_NVME_ONCS_WRITE_ZEROES) != 0 ? SNIC_IO_CAP_ZERO : 0;
    p->ns.caps |= (oncs & SNIC_NVME_ONCS_DSM) != 0 ? SNIC_IO_CAP_DISCARD : 0;
    p->ns.atomic = snic_get_le16(&id->awupf) + 1U; /* blocks */
    p->vwc = id->vwc & 1U;
    p->oaes = snic_get_le32(&id->oaes);
    p->has_ana = (id->cmic & 0x08U) != 0;
    p->ana = SNIC_NVME_ANA_OPTIMIZED;
    return id->cntrltype > SNIC_NVME_CNTRLTYPE_IO ? SNIC_ENOTSUP : 0;
}

int nvmehost_identify_ns(struct nvmehost_path *p, const unsigned char *data)
{
    const struct snic_nvme_id_ns *id = (const void *)data;
    uint32_t format = (id->flbas & 15U) | (id->flbas >> 1 & 0x30U);
    uint64_t blocks = snic_get_le64(&id->nsze);
    const struct snic_nvme_lbaf *f = &id->lbaf[format];
    static const uint8_t none[16];
    if (blocks == 0)
        return SNIC_ENOENT;
    if (format > id->nlbaf)
        return SNIC_EPROTO;
    if (snic_get_le16(&f->ms) != 0 || f->lbads < NVMEHOST_SHIFT_MIN ||
        f->lbads > NVMEHOST_SHIFT_MAX)
        return SNIC_ENOTSUP;
    if (p->state == NVMEHOST_PATH_UP && 1U << f->lbads != p->ns.block)
        return SNIC_ESTALE; /* before a command is made of it */
    if (blocks > (uint64_t)INT64_MAX >> f->lbads || p->part < 1U << f->lbads)
        return SNIC_EPROTO;
    p->shift = f->lbads;
    p->part = (uint32_t)snic_min_u64(p->part, UINT64_C(65536) << p->shift); /* NLB has 16 bits */
    p->ns.block = 1U << f->lbads;
    p->ns.size = blocks << f->lbads;
    p->ns.group = snic_get_le32(&id->anagrpid);
    p->ns.caps &= ~SNIC_IO_CAP_READONLY;
    p->ns.caps |= (id->nsattr & 1U) != 0 ? SNIC_IO_CAP_READONLY : 0;
    if ((id->nsfeat & 2U) != 0)
        p->ns.atomic = snic_get_le16(&id->nawupf) + 1U;
    p->zero_blocks = (uint32_t)snic_min_u64(p->part >> p->shift, 65536);
    memset(p->ns.id, 0, sizeof(p->ns.id));
    if (memcmp(id->nguid, none, 16) != 0) {
        p->ns.id[0] = SNIC_NVME_NIDT_NGUID;
        memcpy(p->ns.id + 1, id->nguid, 16);
    } else if (memcmp(id->eui64, none, 8) != 0) {
        p->ns.id[0] = SNIC_NVME_NIDT_EUI64;
        memcpy(p->ns.id + 1, id->eui64, 8);
    }
    return 0;
}

/* A UUID, where Identify Namespace has no identifier. */
void nvmehost_identify_desc(struct nvmehost_path *p, const unsigned char *data)
{
    uint32_t at = 0;
    while (at + 4 <= SNIC_NVME_IDENTIFY_BYTES && data[at] != 0) {
        uint32_t size = data[at + 1];
        if (at + 4 + size > SNIC_NVME_IDENTIFY_BYTES)
            return;
        if (data[at] == SNIC_NVME_NIDT_UUID && size == 16 && p->ns.id[0] == 0) {
            p->ns.id[0] = SNIC_NVME_NIDT_UUID;
            memcpy(p->ns.id + 1, data + at + 4, 16);
        }
        at += 4 + size;
    }
}

/* The state of the namespace's group; one that is not in what was read is taken to be optimized. */
void nvmehost_ana_log(struct nvmehost_path *p, const unsigned char *data)
{
    const struct snic_nvme_ana_header *head = (const void *)data;
    uint32_t groups = snic_get_le16(&head->ngrps), at = sizeof(*head);
    p->ana = SNIC_NVME_ANA_OPTIMIZED;
    for (uint32_t i = 0; i < groups; i++) {
        const struct snic_nvme_ana_group *g = (const void *)(data + at);
        if (at + sizeof(*g) > SNIC_NVMEHOST__DATA)
            return;
        if (snic_get_le32(&g->grpid) == p->ns.group) {
            p->ana = g->state & 15U;
            return;
        }
        uint64_t next = at + sizeof(*g) + (uint64_t)snic_get_le32(&g->nnsids) * 4;
        if (next > SNIC_NVMEHOST__DATA)
            return;
        at = (uint32_t)next;
    }
}

static void nvmehost_geometry(struct snic_nvmehost *s, const struct nvmehost_path *p)
{
    struct snic_io_geometry *g = &s->io.geometry;
    uint64_t atomic = snic_min_u64((uint64_t)p->ns.atomic << p->shift, p->part);
    g->size = p->ns.size;
    g->block = p->ns.block;
    g->memory_align = 1;
    g->offset_align = p->ns.block;
    g->length_align = p->ns.block;
    g->transfer_max = s->o.transfer_max;
    g->atomic_write = (uint32_t)snic_max_u64(atomic, 1);
    s->io.caps = p->ns.caps;
}

int nvmehost_same(const struct nvmehost_path *p)
{
    const struct snic_nvmehost *s = p->s;
    if (p->ns.block != s->io.geometry.block || memcmp(s->id, p->ns.id, sizeof(s->id)) != 0 ||
        ((s->io.caps & ~p->ns.caps) & ~SNIC_IO_CAP_READONLY) != 0 ||
        ((p->ns.caps & ~s->io.caps) & SNIC_IO_CAP_READONLY) != 0)
        return SNIC_ESTALE;
    return 0;
}

int nvmehost_adopt(struct nvmehost_path *p)
{
    struct snic_nvmehost *s = p->s;
    if (!s->open) {
        nvmehost_geometry(s, p);
        memcpy(s->id, p->ns.id, sizeof(s->id));
        return 0;
    }
    if (nvmehost_same(p) != 0)
        return SNIC_ESTALE;
    if (p->ns.size != s->io.geometry.size) {
        s->io.geometry.size = p->ns.size;
        s->stats.resizes++;
    }
    return 0;
}
