/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Properties: what the registers of a local controller are. Enable, reset, shutdown. */
#include "nvmesub/nvmesub_priv.h"

static uint64_t nvmesub_cap(const struct snic_nvmesub *s)
{
    uint32_t depth = nvmesub_discovery(s) ? SNIC_NVMESUB_ADMIN_DEPTH : s->opts.depth_max;
    return (depth - 1)          /* MQES, 0's based */
           | 1U << 16           /* CQR */
           | 60U << 24          /* TO: 30 s */
           | UINT64_C(1) << 37  /* the NVM command set */
           | UINT64_C(1) << 43  /* and the commands for several */
           | UINT64_C(1) << 59; /* CRMS: ready with media */
}

uint32_t nvmesub_property_get(struct nvmesub_req *r)
{
    uint32_t eight = r->sqe.cdw10 & 7;
    const struct nvmesub_ctrl *c = r->ctrl;
    uint64_t value = 0;
    if (eight != (r->sqe.cdw11 == SNIC_NVME_PROP_CAP))
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    switch (r->sqe.cdw11) {
    case SNIC_NVME_PROP_CAP:
        value = nvmesub_cap(r->s);
        break;
    case SNIC_NVME_PROP_VS:
        value = SNIC_NVME_VERSION_2_0;
        break;
    case SNIC_NVME_PROP_CC:
        value = c->cc;
        break;
    case SNIC_NVME_PROP_CSTS:
        value = c->csts;
        break;
    case SNIC_NVME_PROP_CRTO:
        value = 60; /* ready with media within 30 s */
        break;
    default:
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    }
    r->cmd->cqe.dw0 = (uint32_t)value;
    r->cmd->cqe.dw1 = (uint32_t)(value >> 32);
    return 0;
}

static void nvmesub_cc_write(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t cc)
{
    uint32_t before = c->cc;
    int was = (before & SNIC_NVME_CC_EN) != 0, is = (cc & SNIC_NVME_CC_EN) != 0;
    c->cc = cc;
    if (was && !is) {
        c->reset = 1;
    } else if (!was && is && !c->reset) {
        nvmesub_ctrl_enable(s, c);
    } /* else: enabled when the reset is done */
    if (SNIC_NVME_CC_SHN(cc) != 0 && SNIC_NVME_CC_SHN(before) == 0) {
        c->csts |= SNIC_NVME_CSTS_SHST_OCCURRING;
        c->shutdown = 1;
    }
    if ((was && !is) || (SNIC_NVME_CC_SHN(cc) != 0 && SNIC_NVME_CC_SHN(before) == 0))
        nvmesub_ctrl_end(s, c, c->shutdown ? SNIC_NVMESUB_BY_SHUTDOWN : SNIC_NVMESUB_BY_RESET, 0);
}

uint32_t nvmesub_property_set(struct nvmesub_req *r)
{
    if ((r->sqe.cdw10 & 7) != 0 || r->sqe.cdw11 != SNIC_NVME_PROP_CC)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    nvmesub_cc_write(r->s, r->ctrl, r->sqe.cdw12);
    return 0;
}
