/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Set and Get Features. Nothing is saveable: the saved value is the default one. */
#include "nvmesub/nvmesub_priv.h"

#define SNIC_NVMESUB__NS SNIC_NVME_FEATURE_NS_SPECIFIC
#define SNIC_NVMESUB__SET SNIC_NVME_FEATURE_CHANGEABLE

struct nvmesub_feature {
    uint8_t id;
    uint8_t can;       /* SNIC_NVME_FEATURE_*                                                 */
    uint8_t discovery; /* discovery controllers have it, too                                  */
    uint8_t bytes16;   /* of data, in units of 16 bytes                                       */
    uint32_t preset;
};

static const struct nvmesub_feature nvmesub_features[] = {
    {SNIC_NVME_FEAT_ARBITRATION, SNIC_NVMESUB__SET, 0, 0, 7},
    {SNIC_NVME_FEAT_POWER, SNIC_NVMESUB__SET, 0, 0, 0},
    {SNIC_NVME_FEAT_TEMPERATURE, SNIC_NVMESUB__SET, 0, 0, 343},
    {SNIC_NVME_FEAT_ERROR_RECOVERY, SNIC_NVMESUB__SET, 0, 0, 0},
    {SNIC_NVME_FEAT_VWC, 0, 0, 0, 1},
    {SNIC_NVME_FEAT_QUEUES, SNIC_NVMESUB__SET, 0, 0, 0},
    {SNIC_NVME_FEAT_ATOMICITY, 0, 0, 0, 0},
    {SNIC_NVME_FEAT_AEC, SNIC_NVMESUB__SET, 1, 0, 0},
    {SNIC_NVME_FEAT_KATO, SNIC_NVMESUB__SET, 1, 0, 0},
    {SNIC_NVME_FEAT_HOST_BEHAVIOR, SNIC_NVMESUB__SET, 0, 32, 0},
    {SNIC_NVME_FEAT_HOSTID, 0, 0, 1, 0},
    {SNIC_NVME_FEAT_RESV_MASK, SNIC_NVMESUB__SET | SNIC_NVMESUB__NS, 0, 0, 0},
    {SNIC_NVME_FEAT_RESV_PERSIST, SNIC_NVMESUB__SET | SNIC_NVMESUB__NS, 0, 0, 0},
    {SNIC_NVME_FEAT_CREDIT, SNIC_NVMESUB__SET, 0, 0, 0},
};

#undef SNIC_NVMESUB__NS
#undef SNIC_NVMESUB__SET

static const struct nvmesub_feature *nvmesub_feature_find(const struct nvmesub_req *r)
{
    for (size_t i = 0; i < SNIC_COUNTOF(nvmesub_features); i++) {
        const struct nvmesub_feature *f = &nvmesub_features[i];
        if (f->id != (r->sqe.cdw10 & 0xff) || (nvmesub_discovery(r->s) && !f->discovery))
            continue;
        if (f->id == SNIC_NVME_FEAT_VWC && (r->s->opts.flags & SNIC_NVMESUB_NO_VWC) != 0)
            return NULL;
        return f;
    }
    return NULL;
}

/** Where a feature that is one plain number of the controller is. */
static uint32_t *nvmesub_feature_word(struct nvmesub_ctrl *c, uint8_t id)
{
    switch (id) {
    case SNIC_NVME_FEAT_ARBITRATION:
        return &c->arbitration;
    case SNIC_NVME_FEAT_POWER:
        return &c->power;
    case SNIC_NVME_FEAT_TEMPERATURE:
        return &c->temperature;
    case SNIC_NVME_FEAT_ERROR_RECOVERY:
        return &c->recovery;
    case SNIC_NVME_FEAT_AEC:
        return &c->aec;
    case SNIC_NVME_FEAT_KATO:
        return &c->kato_ms;
    default:
        return NULL;
    }
}

/** Both counts, 0's based. */
static uint32_t nvmesub_queue_counts(const struct snic_nvmesub *s)
{
    return (s->opts.queues_max - 1) | (s->opts.queues_max - 1) << 16;
}

static uint32_t nvmesub_feature_current(struct nvmesub_req *r, const struct nvmesub_feature *f,
                                        const struct nvmesub_ns *n)
{
    const uint32_t *word = nvmesub_feature_word(r->ctrl, f->id);
    if (word != NULL)
        return *word;
    switch (f->id) {
    case SNIC_NVME_FEAT_RESV_MASK:
        return r->ctrl->resv_mask[r->sqe.nsid - 1];
    case SNIC_NVME_FEAT_RESV_PERSIST:
        return n->ptpl;
    case SNIC_NVME_FEAT_CREDIT:
        return r->ctrl->credit;
    case SNIC_NVME_FEAT_QUEUES:
        return nvmesub_queue_counts(r->s);
    default:
        return f->preset;
    }
}

static uint32_t nvmesub_feature_data(struct nvmesub_req *r, const struct nvmesub_feature *f,
                                     uint32_t select)
{
    if (f->id == SNIC_NVME_FEAT_HOSTID && (r->sqe.cdw11 & 1) == 0)
        return SNIC_NVMESUB__FAIL(HOSTID_FORMAT); /* 128 bits only */
    uint32_t status = nvmesub_data_out(r, f->bytes16 * 16U);
    if (status != 0)
        return status;
    if (f->id == SNIC_NVME_FEAT_HOSTID)
        memcpy(r->cmd->data, r->s->hosts[r->ctrl->host].hostid, 16);
    else if (select == SNIC_NVME_SELECT_CURRENT)
        memcpy(r->cmd->data, r->ctrl->behavior, sizeof(r->ctrl->behavior));
    return 0;
}

uint32_t nvmesub_get_features(struct nvmesub_req *r)
{
    const struct nvmesub_feature *f = nvmesub_feature_find(r);
    uint32_t select = r->sqe.cdw10 >> 8 & 7;
    const struct nvmesub_ns *n = NULL;
    if (f == NULL || select > SNIC_NVME_SELECT_SUPPORTED)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (select == SNIC_NVME_SELECT_SUPPORTED) {
        r->cmd->cqe.dw0 = f->can;
        return 0;
    }
    if ((f->can & SNIC_NVME_FEATURE_NS_SPECIFIC) != 0) {
        n = nvmesub_ns_find(r->s, r->sqe.nsid);
        if (n == NULL)
            return SNIC_NVMESUB__FAIL(INVALID_NS);
    }
    if (f->bytes16 != 0)
        return nvmesub_feature_data(r, f, select);
    r->cmd->cqe.dw0 = select == SNIC_NVME_SELECT_CURRENT || f->id == SNIC_NVME_FEAT_QUEUES
                          ? nvmesub_feature_current(r, f, n)
                          : f->preset;
    return 0;
}

/* ---- Set ---- */

static uint32_t nvmesub_set_kato(struct nvmesub_req *r, uint32_t ms)
{
    uint32_t unit = SNIC_NVMESUB__KATO_UNIT_MS;
    if (ms > r->s->opts.kato_ms_max)
        return SNIC_NVMESUB__FAIL(KATO_INVALID);
    r->ctrl->kato_ms = (ms + unit - 1) / unit * unit;
    nvmesub_ctrl_arm(r->s, r->ctrl);
    return 0;
}

static uint32_t nvmesub_set_behavior(struct nvmesub_req *r)
{
    uint32_t status = nvmesub_data_in(r, 512);
    const unsigned char *p = r->cmd->data;
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < 512; i++)
        if (p[i] > (i < 3 ? 1 : 0)) /* ACRE, ETDAS, LBAFEE */
            return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    memcpy(r->ctrl->behavior, p, 512);
    return 0;
}

static uint32_t nvmesub_set_mask(struct nvmesub_req *r, uint32_t value)
{
    if ((value & ~0xeU) != 0)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (r->sqe.nsid == SNIC_NVME_NSID_ALL) {
        memset(r->ctrl->resv_mask, (int)value, r->s->opts.namespaces_max);
        return 0;
    }
    if (nvmesub_ns_find(r->s, r->sqe.nsid) == NULL)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    r->ctrl->resv_mask[r->sqe.nsid - 1] = (uint8_t)value;
    return 0;
}

static uint32_t nvmesub_set_persist(struct nvmesub_req *r, uint32_t value)
{
    struct nvmesub_ns *n = nvmesub_ns_find(r->s, r->sqe.nsid);
    if (n == NULL)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    if (value > 1)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (n->ptpl == value)
        return 0;
    n->ptpl = (uint8_t)value;
    nvmesub_persist(r->s, n, r->cmd);
    r->cmd->status = 0;
    nvmesub_keep(r->cmd, &n->waiting, NVMESUB_CMD_WAITS);
    return SNIC_NVMESUB__PENDING;
}

static uint32_t nvmesub_set_queues(struct nvmesub_req *r, uint32_t value)
{
    if ((value & 0xffff) == 0xffff || value >> 16 == 0xffff)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (r->ctrl->io != 0)
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    r->cmd->cqe.dw0 = nvmesub_queue_counts(r->s);
    return 0;
}

/** Bits that a plain number may have. */
static uint32_t nvmesub_feature_bits(const struct snic_nvmesub *s, uint8_t id)
{
    switch (id) {
    case SNIC_NVME_FEAT_ARBITRATION:
        return 0xffffff07U;
    case SNIC_NVME_FEAT_POWER:
        return 0xe0U; /* one state */
    case SNIC_NVME_FEAT_AEC:
        return nvmesub_discovery(s) ? SNIC_NVME_AEC_DISCOVERY
                                    : 0xffU | SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA;
    default:
        return 0xffffU;
    }
}

static uint32_t nvmesub_set_one(struct nvmesub_req *r, const struct nvmesub_feature *f)
{
    uint32_t value = r->sqe.cdw11;
    switch (f->id) {
    case SNIC_NVME_FEAT_KATO:
        return nvmesub_set_kato(r, value);
    case SNIC_NVME_FEAT_HOST_BEHAVIOR:
        return nvmesub_set_behavior(r);
    case SNIC_NVME_FEAT_RESV_MASK:
        return nvmesub_set_mask(r, value);
    case SNIC_NVME_FEAT_RESV_PERSIST:
        return nvmesub_set_persist(r, value);
    case SNIC_NVME_FEAT_QUEUES:
        return nvmesub_set_queues(r, value);
    case SNIC_NVME_FEAT_CREDIT:
        if (value > 1)
            return SNIC_NVMESUB__FAIL(INVALID_FIELD);
        r->ctrl->credit = (uint8_t)value;
        nvmesub_view_ctrl(r->s, r->ctrl, (r->ctrl->csts & SNIC_NVME_CSTS_RDY) != 0);
        return 0;
    default:
        break;
    }
    if ((value & ~nvmesub_feature_bits(r->s, f->id)) != 0)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    *nvmesub_feature_word(r->ctrl, f->id) = value;
    if (f->id == SNIC_NVME_FEAT_AEC)
        r->ctrl->health &= (uint8_t)value;
    return 0;
}

uint32_t nvmesub_set_features(struct nvmesub_req *r)
{
    const struct nvmesub_feature *f = nvmesub_feature_find(r);
    if (f == NULL)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if ((r->sqe.cdw10 & 1U << 31) != 0)
        return SNIC_NVMESUB__FAIL(NOT_SAVEABLE);
    if (f->id == SNIC_NVME_FEAT_HOSTID) /* Connect has set it */
        return SNIC_NVMESUB__FAIL(SEQUENCE);
    if ((f->can & SNIC_NVME_FEATURE_CHANGEABLE) == 0)
        return SNIC_NVMESUB__FAIL(NOT_CHANGEABLE);
    if ((f->can & SNIC_NVME_FEATURE_NS_SPECIFIC) == 0 && r->sqe.nsid != 0 &&
        r->sqe.nsid != SNIC_NVME_NSID_ALL)
        return SNIC_NVMESUB__FAIL(NOT_NS_SPECIFIC);
    return nvmesub_set_one(r, f);
}
