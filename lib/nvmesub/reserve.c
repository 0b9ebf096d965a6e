/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reservations: NVM Express base specification 2.0, section 8.19.
 *   R1 Bit i of regs is set exactly if keys[i] != 0; registrants counts them; so does
 *      hosts[i].registrations, over all namespaces.
 *   R2 rtype 0: holder NONE. Types 1 to 4: holder is a registrant. Types 5, 6: holder is NONE,
 *      every registrant holds, and there is one.
 *   R3 The view has a change before its command completes; a change of what persists is stored
 *      before.
 */
#include "nvmesub/nvmesub_priv.h"

struct nvmesub_resv {
    struct snic_nvmesub *s;
    struct nvmesub_ns *n;
    uint32_t nsid;
    uint32_t host;
    uint32_t cdw10;
    uint64_t crkey;
    uint64_t other; /* NRKEY, PRKEY                                                           */
    uint64_t gone[SNIC_NVMESUB__HOST_WORDS]; /* hosts that lost their registration            */
};

static int nvmesub_all_registrants(uint32_t rtype)
{
    return rtype >= SNIC_NVME_RESV_WRITE_EXCLUSIVE_AR;
}

static int nvmesub_resv_holds(const struct nvmesub_ns *n, uint32_t host)
{
    return n->rtype != 0 && nvmesub_bit(n->regs, host) &&
           (nvmesub_all_registrants(n->rtype) || n->holder == host);
}

/* ---- Notifications ---- */

static void nvmesub_notice(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t nsid,
                           uint8_t type)
{
    if ((c->resv_mask[nsid - 1] >> type & 1) != 0)
        return;
    c->notice_total++;
    if (c->notice_count == SNIC_NVMESUB_NOTICES_MAX) { /* the oldest is lost: its number shows it */
        c->notice_first = (c->notice_first + 1) % SNIC_NVMESUB_NOTICES_MAX;
        c->notice_count--;
    }
    c->notices[(c->notice_first + c->notice_count++) % SNIC_NVMESUB_NOTICES_MAX] =
        (struct nvmesub_notice){.count = c->notice_total, .nsid = nsid, .type = type};
    nvmesub_event(s, c, SNIC_NVMESUB__EV_RESV);
}

/** To the controllers of @p hosts, but those of the host that acts. */
static void nvmesub_notify(const struct nvmesub_resv *v, const uint64_t *hosts, uint8_t type)
{
    for (uint32_t i = 0; i < v->s->opts.controllers_max; i++) {
        struct nvmesub_ctrl *c = &v->s->ctrls[i];
        if (c->state == NVMESUB_CTRL_LIVE && c->host != v->host && nvmesub_bit(hosts, c->host))
            nvmesub_notice(v->s, c, v->nsid, type);
    }
}

/* ---- Registrants ---- */

/* A registration keeps its identity for good: of one name a quarter of all, others have room. */
static int nvmesub_resv_room(const struct nvmesub_resv *v)
{
    const struct nvmesub_host *hosts = v->s->hosts;
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->s->opts.hosts_max; i++)
        count += hosts[i].registrations != 0 && strcmp(hosts[i].nqn, hosts[v->host].nqn) == 0;
    return hosts[v->host].registrations != 0 || count < (v->s->opts.hosts_max + 3) / 4;
}

static uint32_t nvmesub_resv_add(struct nvmesub_resv *v, uint64_t key)
{
    if (key == 0)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (!nvmesub_resv_room(v))
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    v->n->keys[v->host] = key;
    if (!nvmesub_bit(v->n->regs, v->host)) {
        nvmesub_bit_set(v->n->regs, v->host);
        v->n->registrants++;
        v->s->hosts[v->host].registrations++;
    }
    return 0;
}

static void nvmesub_resv_remove(struct snic_nvmesub *s, struct nvmesub_ns *n, uint32_t host)
{
    n->keys[host] = 0;
    nvmesub_bit_clear(n->regs, host);
    n->registrants--;
    s->hosts[host].registrations--;
    if (n->holder == host) {
        n->holder = SNIC_NVMESUB__NONE;
        n->rtype = 0;
    }
    if (n->registrants == 0)
        n->rtype = 0;
    nvmesub_host_put(s, host);
}

/** All registrants with @p key (0: any), but @p except. @return how many */
static uint32_t nvmesub_resv_remove_key(struct nvmesub_resv *v, uint64_t key, uint32_t except)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->s->opts.hosts_max; i++) {
        if (!nvmesub_bit(v->n->regs, i) || i == except || (key != 0 && v->n->keys[i] != key))
            continue;
        nvmesub_bit_set(v->gone, i);
        nvmesub_resv_remove(v->s, v->n, i);
        count++;
    }
    return count;
}

void nvmesub_resv_forget(struct snic_nvmesub *s, struct nvmesub_ns *n)
{
    for (uint32_t i = 0; n->registrants != 0 && i < s->opts.hosts_max; i++)
        if (nvmesub_bit(n->regs, i))
            nvmesub_resv_remove(s, n, i);
}

/* ---- The commands ---- */

static uint32_t nvmesub_resv_unregister(struct nvmesub_resv *v)
{
    struct nvmesub_ns *n = v->n;
    uint8_t rtype = n->rtype;
    nvmesub_resv_remove(v->s, n, v->host);
    if (n->rtype == 0 &&
        (rtype == SNIC_NVME_RESV_WRITE_EXCLUSIVE_RO || rtype == SNIC_NVME_RESV_EXCLUSIVE_ACCESS_RO))
        nvmesub_notify(v, n->regs, SNIC_NVME_RESV_LOG_RELEASED);
    return 0;
}

static uint32_t nvmesub_resv_register(struct nvmesub_resv *v)
{
    struct nvmesub_ns *n = v->n;
    uint64_t mine = n->keys[v->host];
    int ignore = (v->cdw10 & SNIC_NVME_RESV_IEKEY) != 0;
    switch (v->cdw10 & 7) {
    case SNIC_NVME_RESV_REGISTER:
        if (mine != 0 && mine != v->other)
            return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
        return nvmesub_resv_add(v, v->other);
    case SNIC_NVME_RESV_UNREGISTER:
        if (mine == 0 || (!ignore && mine != v->crkey))
            return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
        return nvmesub_resv_unregister(v);
    case SNIC_NVME_RESV_REPLACE: /* with IEKEY, whether the host is a registrant or not */
        if (!ignore && (mine == 0 || mine != v->crkey))
            return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
        return nvmesub_resv_add(v, v->other);
    default:
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    }
}

static void nvmesub_resv_hold(struct nvmesub_resv *v, uint8_t rtype)
{
    v->n->rtype = rtype;
    v->n->holder = nvmesub_all_registrants(rtype) ? SNIC_NVMESUB__NONE : v->host;
}

static uint32_t nvmesub_resv_take(struct nvmesub_resv *v, uint8_t rtype)
{
    struct nvmesub_ns *n = v->n;
    if (n->rtype == 0)
        nvmesub_resv_hold(v, rtype);
    else if (n->rtype != rtype || !nvmesub_resv_holds(n, v->host))
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    return 0;
}

static uint32_t nvmesub_resv_preempt(struct nvmesub_resv *v, uint8_t rtype)
{
    struct nvmesub_ns *n = v->n;
    uint8_t before = n->rtype;
    int all = nvmesub_all_registrants(before);
    if (before != 0 && (all ? v->other == 0 : v->other == n->keys[n->holder])) {
        nvmesub_resv_hold(v, rtype); /* first: the namespace is never without a reservation */
        nvmesub_resv_remove_key(v, v->other, v->host);
        if (before != rtype)
            nvmesub_notify(v, n->regs, SNIC_NVME_RESV_LOG_RELEASED);
    } else if (before != 0 && v->other == 0) {
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    } else if (v->other == 0 || nvmesub_resv_remove_key(v, v->other, SNIC_NVMESUB__NONE) == 0) {
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    }
    nvmesub_notify(v, v->gone, SNIC_NVME_RESV_LOG_REGISTRATION_PREEMPTED);
    n->resv_gen++;
    return 0;
}

static uint32_t nvmesub_resv_acquire(struct nvmesub_resv *v)
{
    uint32_t rtype = v->cdw10 >> 8 & 0xff;
    if ((v->cdw10 & SNIC_NVME_RESV_IEKEY) != 0 || rtype == 0 ||
        rtype > SNIC_NVME_RESV_EXCLUSIVE_ACCESS_AR || (v->cdw10 & 7) > SNIC_NVME_RESV_PREEMPT_ABORT)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (v->n->keys[v->host] == 0 || v->n->keys[v->host] != v->crkey)
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    if ((v->cdw10 & 7) == SNIC_NVME_RESV_ACQUIRE)
        return nvmesub_resv_take(v, (uint8_t)rtype);
    return nvmesub_resv_preempt(v, (uint8_t)rtype);
}

static uint32_t nvmesub_resv_release(struct nvmesub_resv *v)
{
    struct nvmesub_ns *n = v->n;
    uint8_t rtype = n->rtype;
    if ((v->cdw10 & SNIC_NVME_RESV_IEKEY) != 0 || (v->cdw10 & 7) > SNIC_NVME_RESV_CLEAR)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    if (n->keys[v->host] == 0 || n->keys[v->host] != v->crkey)
        return SNIC_NVMESUB__FAIL(RESERVATION_CONFLICT);
    if ((v->cdw10 & 7) == SNIC_NVME_RESV_CLEAR) {
        nvmesub_resv_remove_key(v, 0, SNIC_NVMESUB__NONE);
        nvmesub_notify(v, v->gone, SNIC_NVME_RESV_LOG_PREEMPTED);
        n->resv_gen++;
        return 0;
    }
    if (!nvmesub_resv_holds(n, v->host))
        return 0; /* nothing to release */
    if ((v->cdw10 >> 8 & 0xff) != rtype)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    n->rtype = 0;
    n->holder = SNIC_NVMESUB__NONE;
    if (rtype >= SNIC_NVME_RESV_WRITE_EXCLUSIVE_RO)
        nvmesub_notify(v, n->regs, SNIC_NVME_RESV_LOG_RELEASED);
    return 0;
}

static uint32_t nvmesub_resv_report(struct nvmesub_req *r, const struct nvmesub_ns *n)
{
    uint64_t bytes = ((uint64_t)r->sqe.cdw10 + 1) * 4;
    struct snic_nvme_resv_status head = {0};
    if ((r->sqe.cdw11 & 1) == 0)
        return SNIC_NVMESUB__FAIL(HOSTID_FORMAT);
    if (bytes > r->s->opts.data_max)
        return SNIC_NVMESUB__FAIL(INVALID_FIELD);
    uint32_t status = nvmesub_data_out(r, (uint32_t)bytes);
    if (status != 0)
        return status;
    struct nvmesub_window w = {.out = r->cmd->data, .from = 0, .to = bytes};
    snic_put_le32(&head.gen, n->resv_gen);
    head.rtype = n->rtype;
    snic_put_le16(head.regctl, (uint16_t)n->registrants);
    head.ptpls = n->ptpl;
    nvmesub_window_put(&w, &head, sizeof(head));
    for (uint32_t i = 0; i < r->s->opts.hosts_max && w.at < w.to; i++) {
        struct snic_nvme_resv_controller c = {0};
        if (!nvmesub_bit(n->regs, i))
            continue;
        snic_put_le16(&c.cntlid, SNIC_NVME_CNTLID_DYNAMIC);
        c.rcsts = nvmesub_resv_holds(n, i) ? 1 : 0;
        snic_put_le64(&c.rkey, n->keys[i]);
        memcpy(c.hostid, r->s->hosts[i].hostid, 16);
        nvmesub_window_put(&w, &c, sizeof(c));
    }
    return 0;
}

/** The change is made: publish it, store it, abort; the command waits for what must be before. */
static uint32_t nvmesub_resv_settle(struct nvmesub_req *r, struct nvmesub_resv *v, uint8_t ptpl)
{
    struct nvmesub_ns *n = v->n;
    nvmesub_view_ns(r->s, v->nsid);
    if (n->ptpl || ptpl)
        nvmesub_persist(r->s, n, r->cmd);
    if (r->sqe.opcode == SNIC_NVME_IO_RESV_ACQUIRE &&
        (v->cdw10 & 7) == SNIC_NVME_RESV_PREEMPT_ABORT) {
        int any = 0;
        nvmesub_bit_clear(v->gone, v->host);
        for (uint32_t i = 0; i < r->s->host_words; i++) {
            n->abort[i] |= v->gone[i];
            any |= v->gone[i] != 0;
        }
        if (any) {
            n->abort_wanted = 1;
            nvmesub_quiesce_next(r->s, n);
            r->cmd->wait[1] = n->quiesce_sent + (n->abort_wanted ? 1 : 0);
            r->cmd->waits |= SNIC_NVMESUB__WAIT_QUIESCE;
        }
    }
    if (r->cmd->waits == 0)
        return 0;
    r->cmd->status = 0;
    nvmesub_keep(r->cmd, &n->waiting, NVMESUB_CMD_WAITS);
    return SNIC_NVMESUB__PENDING;
}

static uint32_t nvmesub_resv_change(struct nvmesub_req *r, struct nvmesub_ns *n)
{
    struct nvmesub_resv v = {
        .s = r->s, .n = n, .nsid = r->sqe.nsid, .host = r->ctrl->host, .cdw10 = r->sqe.cdw10};
    uint32_t bytes = r->sqe.opcode == SNIC_NVME_IO_RESV_RELEASE ? 8 : 16;
    uint32_t status = nvmesub_data_in(r, bytes);
    static const uint8_t none[16];
    if (status != 0)
        return status;
    if (memcmp(r->s->hosts[v.host].hostid, none, 16) == 0)
        return SNIC_NVMESUB__FAIL(HOSTID_FORMAT);
    v.crkey = snic_get_le64(r->cmd->data);
    if (bytes == 16)
        v.other = snic_get_le64((unsigned char *)r->cmd->data + 8);
    uint8_t before = n->ptpl;
    if (r->sqe.opcode == SNIC_NVME_IO_RESV_REGISTER) {
        uint32_t cptpl = v.cdw10 >> 30;
        if (cptpl == 1)
            return SNIC_NVMESUB__FAIL(INVALID_FIELD);
        status = nvmesub_resv_register(&v);
        if (status == 0 && cptpl != SNIC_NVME_RESV_PTPL_NONE)
            n->ptpl = cptpl == SNIC_NVME_RESV_PTPL_SET;
        if (status == 0)
            n->resv_gen++;
    } else if (r->sqe.opcode == SNIC_NVME_IO_RESV_ACQUIRE) {
        status = nvmesub_resv_acquire(&v);
    } else {
        status = nvmesub_resv_release(&v);
    }
    return status != 0 ? status : nvmesub_resv_settle(r, &v, before);
}

uint32_t nvmesub_reserve(struct nvmesub_req *r)
{
    struct nvmesub_ns *n = nvmesub_ns_find(r->s, r->sqe.nsid);
    if (n == NULL)
        return SNIC_NVMESUB__FAIL(INVALID_NS);
    if (r->sqe.opcode == SNIC_NVME_IO_RESV_REPORT)
        return nvmesub_resv_report(r, n);
    return nvmesub_resv_change(r, n);
}
