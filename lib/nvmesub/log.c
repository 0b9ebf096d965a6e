/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Get Log Page. A page is written from its beginning through a window (out.c) that stores what the
 * host wants of it; behind its end are zeros.
 */
#include "nvmesub/nvmesub_priv.h"

typedef void (*nvmesub_log_fn)(struct nvmesub_req *r, struct nvmesub_window *w);

static void nvmesub_log_error_page(struct nvmesub_req *r, struct nvmesub_window *w)
{
    static const struct snic_nvme_error_entry none;
    const struct nvmesub_ctrl *c = r->ctrl;
    for (uint64_t i = 0; i < SNIC_NVMESUB_ERRORS_MAX; i++)
        nvmesub_window_put(w,
                           i < c->error_total
                               ? &c->errors[(c->error_total - 1 - i) % SNIC_NVMESUB_ERRORS_MAX]
                               : &none,
                           sizeof(none));
}

static void nvmesub_log_smart(struct nvmesub_req *r, struct nvmesub_window *w)
{
    struct snic_nvme_smart log = r->s->smart;
    snic_put_le64(log.error_entries, snic_get_le64(log.error_entries) + r->ctrl->error_total);
    nvmesub_window_put(w, &log, sizeof(log));
}

static void nvmesub_log_firmware(struct nvmesub_req *r, struct nvmesub_window *w)
{
    struct snic_nvme_firmware_log log = {.afi = 1};
    const char *firmware = r->s->firmware, *end = memchr(firmware, 0, sizeof(r->s->firmware));
    memset(log.frs[0], ' ', sizeof(log.frs[0]));
    memcpy(log.frs[0], firmware, end != NULL ? (size_t)(end - firmware) : sizeof(r->s->firmware));
    nvmesub_window_put(w, &log, sizeof(log));
}

static void nvmesub_log_changed(struct nvmesub_req *r, struct nvmesub_window *w)
{
    const struct nvmesub_ctrl *c = r->ctrl;
    unsigned char list[4096] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->s->opts.namespaces_max; i++) {
        if (!nvmesub_bit(c->changed, i))
            continue;
        if (count == 1024) { /* more than it can hold: this instead of the list */
            memset(list, 0, sizeof(list));
            memset(list, 0xff, 4);
            break;
        }
        snic_put_le32(list + (size_t)4 * count++, i + 1);
    }
    nvmesub_window_put(w, list, sizeof(list));
}

static void nvmesub_log_effects(struct nvmesub_req *r, struct nvmesub_window *w)
{
    static const uint8_t admin[] = {SNIC_NVME_ADMIN_GET_LOG,      SNIC_NVME_ADMIN_IDENTIFY,
                                    SNIC_NVME_ADMIN_ABORT,        SNIC_NVME_ADMIN_SET_FEATURES,
                                    SNIC_NVME_ADMIN_GET_FEATURES, SNIC_NVME_ADMIN_AER,
                                    SNIC_NVME_ADMIN_KEEP_ALIVE};
    static const uint8_t io[] = {SNIC_NVME_IO_FLUSH,        SNIC_NVME_IO_READ,
                                 SNIC_NVME_IO_COMPARE,      SNIC_NVME_IO_VERIFY,
                                 SNIC_NVME_IO_RESV_REPORT,  SNIC_NVME_IO_RESV_REGISTER,
                                 SNIC_NVME_IO_RESV_ACQUIRE, SNIC_NVME_IO_RESV_RELEASE};
    static const uint8_t content[] = {SNIC_NVME_IO_WRITE, SNIC_NVME_IO_WRITE_ZEROES,
                                      SNIC_NVME_IO_DSM};
    struct snic_nvme_effects_log log = {0};
    (void)r;
    for (size_t i = 0; i < sizeof(admin); i++)
        snic_put_le32(&log.admin[admin[i]], SNIC_NVME_EFFECT_SUPPORTED);
    for (size_t i = 0; i < sizeof(io); i++)
        snic_put_le32(&log.io[io[i]], SNIC_NVME_EFFECT_SUPPORTED);
    for (size_t i = 0; i < sizeof(content); i++)
        snic_put_le32(&log.io[content[i]], SNIC_NVME_EFFECT_SUPPORTED | SNIC_NVME_EFFECT_CONTENT);
    nvmesub_window_put(w, &log, sizeof(log));
}

static void nvmesub_log_ana_group(struct nvmesub_req *r, struct nvmesub_window *w, uint32_t group,
                                  int names)
{
    const struct nvmesub_group *g = &r->s->groups[group - 1];
    struct snic_nvme_ana_group log = {0};
    snic_put_le32(&log.grpid, group);
    snic_put_le32(&log.nnsids, names ? g->namespaces : 0);
    snic_put_le64(&log.chgcnt, g->changes);
    log.state = (uint8_t)nvmesub_ana_state(r->s, group, r->conn->peer.port);
    nvmesub_window_put(w, &log, sizeof(log));
    uint32_t left = names ? g->namespaces : 0;
    for (uint32_t i = 1; left != 0 && i <= r->s->opts.namespaces_max; i++) {
        unsigned char id[4];
        if (!r->s->ns[i - 1].used || r->s->ns[i - 1].group != group)
            continue;
        snic_put_le32(id, i);
        nvmesub_window_put(w, id, sizeof(id));
        left--;
    }
}

static void nvmesub_log_ana(struct nvmesub_req *r, struct nvmesub_window *w)
{
    struct snic_nvme_ana_header head = {0};
    int names = (r->sqe.cdw10 & 1U << 8) == 0; /* not RGO */
    uint16_t groups = 0;
    for (uint32_t i = 0; i < r->s->opts.groups_max; i++)
        groups = (uint16_t)(groups + (r->s->groups[i].namespaces != 0));
    snic_put_le64(&head.chgcnt, r->s->ana_changes);
    snic_put_le16(&head.ngrps, groups);
    nvmesub_window_put(w, &head, sizeof(head));
    for (uint32_t i = 1; i <= r->s->opts.groups_max; i++)
        if (r->s->groups[i - 1].namespaces != 0)
            nvmesub_log_ana_group(r, w, i, names);
}

static void nvmesub_log_reservation(struct nvmesub_req *r, struct nvmesub_window *w)
{
    const struct nvmesub_ctrl *c = r->ctrl;
    struct snic_nvme_resv_log log = {0};
    if (c->notice_count != 0) {
        const struct nvmesub_notice *n = &c->notices[c->notice_first];
        snic_put_le64(&log.count, n->count);
        log.type = n->type;
        log.available = (uint8_t)(c->notice_count - 1);
        snic_put_le32(&log.nsid, n->nsid);
    }
    nvmesub_window_put(w, &log, sizeof(log));
}

static int nvmesub_entry_seen(const struct nvmesub_req *r, const struct nvmesub_entry *e)
{
    return e->used && (e->all || (r->ctrl->rule != SNIC_NVMESUB__NONE &&
                                  nvmesub_bit(e->rules, r->ctrl->rule)));
}

static void nvmesub_log_discovery(struct nvmesub_req *r, struct nvmesub_window *w)
{
    static const struct snic_nvme_discovery_header none;
    struct snic_nvme_discovery_header head = none;
    uint64_t count = 0;
    for (uint32_t i = 0; i < r->s->opts.entries_max; i++)
        count += (uint64_t)nvmesub_entry_seen(r, &r->s->entries[i]);
    snic_put_le64(&head.genctr, r->s->genctr);
    snic_put_le64(&head.numrec, count);
    nvmesub_window_put(w, &head, sizeof(head));
    for (uint32_t i = 0; i < r->s->opts.entries_max; i++)
        if (nvmesub_entry_seen(r, &r->s->entries[i]))
            nvmesub_window_put(w, &r->s->entries[i].entry, sizeof(r->s->entries[i].entry));
}

static void nvmesub_log_supported(struct nvmesub_req *r, struct nvmesub_window *w);

struct nvmesub_log_kind {
    uint8_t id;
    uint8_t discovery; /* 0: I/O controllers, 1: discovery controllers, 2: both               */
    uint8_t event;     /* that reading it clears                                              */
    nvmesub_log_fn write;
};

static const struct nvmesub_log_kind nvmesub_logs[] = {
    {SNIC_NVME_LOG_SUPPORTED, 2, 0, nvmesub_log_supported},
    {SNIC_NVME_LOG_ERROR, 2, 0, nvmesub_log_error_page},
    {SNIC_NVME_LOG_SMART, 0, SNIC_NVMESUB__EV_HEALTH, nvmesub_log_smart},
    {SNIC_NVME_LOG_FIRMWARE, 0, 0, nvmesub_log_firmware},
    {SNIC_NVME_LOG_CHANGED_NS, 0, SNIC_NVMESUB__EV_NS, nvmesub_log_changed},
    {SNIC_NVME_LOG_EFFECTS, 0, 0, nvmesub_log_effects},
    {SNIC_NVME_LOG_ANA, 0, SNIC_NVMESUB__EV_ANA, nvmesub_log_ana},
    {SNIC_NVME_LOG_DISCOVERY, 1, SNIC_NVMESUB__EV_DISCOVERY, nvmesub_log_discovery},
    {SNIC_NVME_LOG_RESERVATION, 0, SNIC_NVMESUB__EV_RESV, nvmesub_log_reservation},
};

static int nvmesub_log_has(const struct snic_nvmesub *s, const struct nvmesub_log_kind *k)
{
    return k->discovery == 2 || k->discovery == nvmesub_discovery(s);
}

static void nvmesub_log_supported(struct nvmesub_req *r, struct nvmesub_window *w)
{
    unsigned char page[1024] = {0};
    for (size_t i = 0; i < SNIC_COUNTOF(nvmesub_logs); i++)
        if (nvmesub_log_has(r->s, &nvmesub_logs[i]))
            snic_put_le32(page + (size_t)4 * nvmesub_logs[i].id, 1);
    nvmesub_window_put(w, page, sizeof(page));
}

static void nvmesub_log_was_read(struct nvmesub_req *r, const struct nvmesub_log_kind *k)
{
    struct nvmesub_ctrl *c = r->ctrl;
    if (k->id == SNIC_NVME_LOG_CHANGED_NS)
        memset(c->changed, 0, r->s->ns_words * sizeof(uint64_t));
    if (k->event != 0)
        nvmesub_event_read(r->s, c, k->event);
    if (k->id == SNIC_NVME_LOG_RESERVATION && c->notice_count != 0) {
        c->notice_first = (c->notice_first + 1) % SNIC_NVMESUB_NOTICES_MAX;
        c->notice_count--;
        if (c->notice_count != 0)
            nvmesub_event(r->s, c, SNIC_NVMESUB__EV_RESV);
    }
}

uint32_t nvmesub_get_log(struct nvmesub_req *r)
{
    const struct nvmesub_log_kind *k = NULL;
    uint64_t bytes = ((uint64_t)(r->sqe.cdw10 >> 16 | (r->sqe.cdw11 & 0xffff) << 16) + 1) * 4;
    uint64_t offset = r->sqe.cdw12 | (uint64_t)r->sqe.cdw13 << 32;
    for (size_t i = 0; i < SNIC_COUNTOF(nvmesub_logs); i++)
        if (nvmesub_logs[i].id == (r->sqe.cdw10 & 0xff) && nvmesub_log_has(r->s, &nvmesub_logs[i]))
            k = &nvmesub_logs[i];
    if (k == NULL)
        return SNIC_NVMESUB__FAIL(LOG_PAGE);
    if (bytes > r->s->opts.data_max || offset % 4 != 0 || offset > UINT64_MAX - bytes ||
        (r->sqe.cdw14 & 1U << 23) != 0 || r->sqe.cdw14 >> 24 != 0 ||
        (r->sqe.nsid != 0 && r->sqe.nsid != SNIC_NVME_NSID_ALL))
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    uint32_t status = nvmesub_data_out(r, (uint32_t)bytes);
    if (status != 0)
        return status;
    struct nvmesub_window w = {.out = r->cmd->data, .from = offset, .to = offset + bytes};
    k->write(r, &w);
    if (offset > w.at)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if ((r->sqe.cdw10 & 1U << 15) == 0) /* not RAE */
        nvmesub_log_was_read(r, k);
    return 0;
}

int snic_nvmesub_entry(struct snic_nvmesub *s, uint32_t index,
                       const struct snic_nvme_discovery_entry *entry, const char *const *hosts,
                       uint32_t count)
{
    if (!nvmesub_discovery(s) || index >= s->opts.entries_max)
        return SNIC_EINVAL;
    for (uint32_t i = 0; hosts != NULL && i < count; i++)
        if (nvmesub_rule_find(s, hosts[i]) == NULL)
            return SNIC_ENOENT;
    struct nvmesub_entry *e = &s->entries[index];
    memset(e->rules, 0, s->rule_words * sizeof(uint64_t));
    e->used = entry != NULL;
    e->all = hosts == NULL;
    for (uint32_t i = 0; hosts != NULL && i < count; i++)
        nvmesub_bit_set(e->rules, (uint32_t)(nvmesub_rule_find(s, hosts[i]) - s->rules));
    if (entry != NULL)
        e->entry = *entry;
    s->genctr++;
    nvmesub_event_all(s, SNIC_NVMESUB__EV_DISCOVERY);
    return 0;
}
