/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Asynchronous events. An event that the host wants is pending until an event request takes it;
 * then it is masked until the host reads its log page (with RAE 0), which also takes what is
 * pending: the page has it.
 */
#include "nvmesub/nvmesub_priv.h"

struct nvmesub_event_kind {
    uint32_t aec; /* the feature's bit that enables it; 0: always                             */
    uint8_t type;
    uint8_t info;
    uint8_t log;
};

static const struct nvmesub_event_kind nvmesub_event_kinds[SNIC_NVMESUB__EVENTS] = {
    {SNIC_NVME_AEC_NS, SNIC_NVME_EVENT_NOTICE, SNIC_NVME_NOTICE_NS, SNIC_NVME_LOG_CHANGED_NS},
    {SNIC_NVME_AEC_ANA, SNIC_NVME_EVENT_NOTICE, SNIC_NVME_NOTICE_ANA, SNIC_NVME_LOG_ANA},
    {SNIC_NVME_AEC_DISCOVERY, SNIC_NVME_EVENT_NOTICE, SNIC_NVME_NOTICE_DISCOVERY,
     SNIC_NVME_LOG_DISCOVERY},
    {0, SNIC_NVME_EVENT_IO, 0, SNIC_NVME_LOG_RESERVATION},
    {0, SNIC_NVME_EVENT_HEALTH, 0, SNIC_NVME_LOG_SMART},
};

void nvmesub_event_pump(struct snic_nvmesub *s, struct nvmesub_ctrl *c)
{
    uint32_t ready;
    while ((ready = c->events & ~c->masked) != 0 && !snic_link_alone(&c->aers)) {
        uint32_t i = (uint32_t)__builtin_ctz(ready);
        const struct nvmesub_event_kind *k = &nvmesub_event_kinds[i];
        struct snic_nvmesub_cmd *cmd = SNIC_CONTAINER(c->aers.next, struct snic_nvmesub_cmd, link);
        uint32_t info = k->info;
        if (k->type == SNIC_NVME_EVENT_HEALTH && (c->health & 2) != 0)
            info = 1; /* temperature */
        else if (k->type == SNIC_NVME_EVENT_HEALTH && (c->health & 1) != 0)
            info = 2; /* spare below its threshold */
        c->events &= ~(1U << i);
        c->masked |= 1U << i;
        c->aer_count--;
        cmd->cqe.dw0 = k->type | info << 8 | (uint32_t)k->log << 16;
        s->stats.events++;
        nvmesub_complete(s, cmd, 0);
    }
}

void nvmesub_event(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t event)
{
    uint32_t aec = nvmesub_event_kinds[__builtin_ctz(event)].aec;
    if (c->state != NVMESUB_CTRL_LIVE || (aec != 0 && (c->aec & aec) == 0))
        return;
    c->events |= event;
    nvmesub_event_pump(s, c);
}

void nvmesub_event_read(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t event)
{
    c->events &= ~event;
    c->masked &= ~event;
    nvmesub_event_pump(s, c);
}

void nvmesub_event_all(struct snic_nvmesub *s, uint32_t event)
{
    for (uint32_t i = 0; i < s->opts.controllers_max; i++)
        nvmesub_event(s, &s->ctrls[i], event);
}

void nvmesub_event_ns(struct snic_nvmesub *s, uint32_t nsid)
{
    for (uint32_t i = 0; i < s->opts.controllers_max; i++) {
        struct nvmesub_ctrl *c = &s->ctrls[i];
        if (c->state != NVMESUB_CTRL_LIVE)
            continue;
        nvmesub_bit_set(c->changed, nsid - 1);
        nvmesub_event(s, c, SNIC_NVMESUB__EV_NS);
    }
}

uint32_t nvmesub_aer(struct nvmesub_req *r)
{
    struct nvmesub_ctrl *c = r->ctrl;
    if (c->aer_count == SNIC_NVMESUB_AERS_MAX)
        return SNIC_NVMESUB__FAIL(AER_LIMIT);
    c->aer_count++;
    nvmesub_keep(r->cmd, &c->aers, NVMESUB_CMD_EVENT);
    nvmesub_event_pump(r->s, c);
    return SNIC_NVMESUB__PENDING;
}
