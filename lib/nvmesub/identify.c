/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Identify. */
#include "nvmesub/nvmesub_priv.h"

static void nvmesub_pad(void *out, size_t size, const char *text, size_t most)
{
    const char *end = memchr(text, 0, most);
    memset(out, ' ', size);
    memcpy(out, text, end != NULL ? (size_t)(end - text) : most);
}

static void nvmesub_identify_io(const struct snic_nvmesub *s, struct snic_nvme_id_ctrl *id)
{
    id->cmic = 0x0b; /* several ports, several controllers, ANA */
    id->mdts = (uint8_t)__builtin_ctz(s->opts.data_max / 4096);
    id->acl = SNIC_NVMESUB_ABORTS_MAX - 1;
    id->frmw = 0x03; /* one slot, read-only */
    id->lpa = 0x06;  /* effects, offsets and long pages */
    id->anatt = 10;
    id->anacap = 0x1f;
    snic_put_le32(&id->anagrpmax, s->opts.groups_max);
    snic_put_le32(&id->nanagrpid, s->opts.groups_max);
    id->sqes = 0x66;
    id->cqes = 0x44;
    snic_put_le32(&id->nn, s->opts.namespaces_max);
    snic_put_le32(&id->mnan, s->opts.namespaces_max);
    snic_put_le16(&id->oncs, SNIC_NVME_ONCS_COMPARE | SNIC_NVME_ONCS_DSM |
                                 SNIC_NVME_ONCS_WRITE_ZEROES | SNIC_NVME_ONCS_SAVE |
                                 SNIC_NVME_ONCS_RESERVATIONS | SNIC_NVME_ONCS_VERIFY);
    id->vwc = (s->opts.flags & SNIC_NVMESUB_NO_VWC) != 0 ? 4 : 5; /* no Flush of all namespaces */
    snic_put_le32(&id->ioccsz, (SNIC_NVME_SQE_BYTES + s->opts.capsule_bytes) / 16);
    snic_put_le32(&id->iorcsz, SNIC_NVME_CQE_BYTES / 16);
    snic_put_le32(&id->oaes, SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA);
    id->cntrltype = SNIC_NVME_CNTRLTYPE_IO;
}

static void nvmesub_identify_ctrl(const struct nvmesub_req *r, struct snic_nvme_id_ctrl *id)
{
    const struct snic_nvmesub *s = r->s;
    nvmesub_pad(id->sn, sizeof(id->sn), s->serial, sizeof(s->serial));
    nvmesub_pad(id->mn, sizeof(id->mn), s->model, sizeof(s->model));
    nvmesub_pad(id->fr, sizeof(id->fr), s->firmware, sizeof(s->firmware));
    id->rab = 6;
    snic_put_le16(&id->cntlid, nvmesub_cntlid(s, r->ctrl));
    snic_put_le32(&id->ver, SNIC_NVME_VERSION_2_0);
    snic_put_le32(&id->ctratt, 1U | 1U << 6);
    id->aerl = SNIC_NVMESUB_AERS_MAX - 1;
    id->elpe = SNIC_NVMESUB_ERRORS_MAX - 1;
    snic_put_le16(&id->wctemp, 343);
    snic_put_le16(&id->cctemp, 353);
    snic_put_le16(&id->kas, SNIC_NVMESUB__KATO_UNIT_MS / 100);
    snic_put_le16(&id->maxcmd, (uint16_t)s->opts.depth_max);
    snic_put_le32(&id->sgls, 1U | 1U << 20 | 1U << 21);
    id->msdbd = 1;
    snic_put_le16(&id->ofcs, 1); /* Disconnect */
    memcpy(id->subnqn, s->subnqn, strlen(s->subnqn));
    snic_put_le16(&id->psd[0].mp, 2500);
    if (nvmesub_discovery(s)) {
        id->mdts = (uint8_t)__builtin_ctz(s->opts.data_max / 4096);
        id->lpa = 0x04;
        snic_put_le32(&id->oaes, SNIC_NVME_AEC_DISCOVERY);
        id->cntrltype = SNIC_NVME_CNTRLTYPE_DISCOVERY;
    } else {
        nvmesub_identify_io(s, id);
    }
}

static void nvmesub_identify_ns(const struct nvmesub_ns *n, struct snic_nvme_id_ns *id)
{
    snic_put_le64(&id->nsze, n->blocks);
    snic_put_le64(&id->ncap, n->blocks);
    snic_put_le64(&id->nuse, n->blocks);
    id->nmic = 1;
    id->rescap = 0xff;
    if (n->optimal != 0) {
        uint16_t granularity = (uint16_t)(n->optimal - 1);
        id->nsfeat = 0x10;
        snic_put_le16(&id->npwg, granularity);
        snic_put_le16(&id->npwa, granularity);
        snic_put_le16(&id->npdg, granularity);
        snic_put_le16(&id->npda, granularity);
        snic_put_le16(&id->nows, granularity);
    }
    snic_put_le32(&id->anagrpid, n->group);
    id->nsattr = n->read_only;
    memcpy(id->nguid, n->nguid, 16);
    memcpy(id->eui64, n->eui64, 8);
    id->lbaf[0].lbads = n->shift;
}

static void nvmesub_identify_list(const struct nvmesub_req *r, unsigned char *out)
{
    uint32_t count = 0;
    for (uint32_t i = r->sqe.nsid + 1; i <= r->s->opts.namespaces_max && count < 1024; i++)
        if (nvmesub_ns_find(r->s, i) != NULL)
            snic_put_le32(out + (size_t)4 * count++, i);
}

static unsigned char *nvmesub_descriptor(unsigned char *p, uint8_t type, const void *id,
                                         uint8_t size)
{
    static const uint8_t none[16];
    if (type != SNIC_NVME_NIDT_CSI && memcmp(id, none, size) == 0)
        return p;
    p[0] = type;
    p[1] = size;
    memcpy(p + 4, id, size);
    return p + 4 + size;
}

static void nvmesub_identify_descriptors(const struct nvmesub_ns *n, unsigned char *p)
{
    static const uint8_t nvm = 0;
    p = nvmesub_descriptor(p, SNIC_NVME_NIDT_EUI64, n->eui64, 8);
    p = nvmesub_descriptor(p, SNIC_NVME_NIDT_NGUID, n->nguid, 16);
    p = nvmesub_descriptor(p, SNIC_NVME_NIDT_UUID, n->uuid, 16);
    nvmesub_descriptor(p, SNIC_NVME_NIDT_CSI, &nvm, 1);
}

static void nvmesub_identify_ctrls(const struct nvmesub_req *r, unsigned char *out)
{
    uint16_t count = 0, first = (uint16_t)(r->sqe.cdw10 >> 16);
    for (uint32_t i = 0; i < r->s->opts.controllers_max && count < 2047; i++)
        if (r->s->ctrls[i].state == NVMESUB_CTRL_LIVE && i + 1 >= first)
            snic_put_le16(out + (size_t)2 * ++count, (uint16_t)(i + 1));
    snic_put_le16(out, count);
}

/** Those with a namespace that is there. */
static uint32_t nvmesub_identify_one(const struct nvmesub_req *r, uint32_t cns, unsigned char *out)
{
    const struct nvmesub_ns *n = nvmesub_ns_find(r->s, r->sqe.nsid);
    if (n == NULL)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    if (cns == SNIC_NVME_CNS_NS_DESC) {
        nvmesub_identify_descriptors(n, out);
    } else if (cns == SNIC_NVME_CNS_NS_INDEPENDENT) {
        struct snic_nvme_id_ns_independent *id = (void *)out;
        id->nsfeat = n->optimal != 0 ? 0x10 : 0;
        id->nmic = 1;
        id->rescap = 0xff;
        snic_put_le32(&id->anagrpid, n->group);
        id->nsattr = n->read_only;
        id->nstat = 1;
    } else if (cns == SNIC_NVME_CNS_NS_CTRL_LIST) {
        nvmesub_identify_ctrls(r, out);
    } /* else CNS 05h: all zeros, no protection information */
    return 0;
}

static uint32_t nvmesub_identify_fill(struct nvmesub_req *r, uint32_t cns, unsigned char *out)
{
    uint32_t nsid = r->sqe.nsid, csi = r->sqe.cdw11 >> 24;
    switch (cns) {
    case SNIC_NVME_CNS_NS:
        if (nsid == 0 || nsid > r->s->opts.namespaces_max)
            return SNIC_NVMESUB__FAIL(INVALID_NS);
        if (nvmesub_ns_find(r->s, nsid) != NULL)
            nvmesub_identify_ns(&r->s->ns[nsid - 1], (void *)out);
        return 0;
    case SNIC_NVME_CNS_CSI_NS_LIST:
    case SNIC_NVME_CNS_NS_LIST:
        if (cns == SNIC_NVME_CNS_CSI_NS_LIST && csi != 0)
            return SNIC_NVMESUB__FAIL(INVALID_FIELD);
        if (nsid >= SNIC_NVME_NSID_ALL - 1)
            return SNIC_NVMESUB__FAIL(INVALID_NS);
        nvmesub_identify_list(r, out);
        return 0;
    case SNIC_NVME_CNS_CSI_NS:
    case SNIC_NVME_CNS_NS_DESC:
    case SNIC_NVME_CNS_NS_INDEPENDENT:
    case SNIC_NVME_CNS_NS_CTRL_LIST:
        if (cns == SNIC_NVME_CNS_CSI_NS && csi != 0)
            return SNIC_NVMESUB__FAIL(INVALID_FIELD);
        return nvmesub_identify_one(r, cns, out);
    case SNIC_NVME_CNS_CSI_CTRL: /* the NVM command set: no limits beside MDTS */
        return csi != 0 ? SNIC_NVMESUB__FAIL(INVALID_FIELD) : 0;
    case SNIC_NVME_CNS_CTRL_LIST:
        nvmesub_identify_ctrls(r, out);
        return 0;
    case SNIC_NVME_CNS_COMMAND_SETS:
        snic_put_le64(out, 1); /* the NVM command set alone */
        return 0;
    default:
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    }
}

uint32_t nvmesub_identify(struct nvmesub_req *r)
{
    uint32_t cns = r->sqe.cdw10 & 0xff;
    uint32_t status = nvmesub_data_out(r, SNIC_NVME_IDENTIFY_BYTES);
    if (status != 0)
        return status;
    if (cns == SNIC_NVME_CNS_CTRL) {
        struct snic_nvme_id_ctrl *id = r->cmd->data;
        nvmesub_identify_ctrl(r, id);
        return 0;
    }
    if (nvmesub_discovery(r->s))
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    return nvmesub_identify_fill(r, cns, r->cmd->data);
}
