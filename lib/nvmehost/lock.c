/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The lock: a reservation of the namespace, Exclusive Access, that the host acquires on each path
 * when its I/O queues are connected, and gives back with its registration when the handle closes.
 * The key follows from the host id, so a host that comes back is the same registrant.
 *   With TAKE another holder is preempted, but only before a path was up: afterwards the one that
 * was preempted last has lost.
 */
#include "nvmehost/nvmehost_priv.h"

#include "snicstore/nvme_wire.h"

static uint64_t nvmehost_lock_key(const struct snic_nvmehost *s)
{
    uint64_t key = snic_get_le64(s->o.hostid) ^ snic_get_le64(s->o.hostid + 8);
    return key != 0 ? key : 1;
}

static void nvmehost_lock_send(struct nvmehost_path *p, uint8_t opcode, uint32_t cdw10,
                               uint64_t first, uint64_t second)
{
    struct snic_nvme_sqe e = {.opcode = opcode, .nsid = p->s->o.nsid, .cdw10 = cdw10};
    unsigned char *data = p->conns[1].data;
    snic_put_le64(data, first);
    snic_put_le64(data + 8, second);
    nvmehost_step_submit(p, &p->conns[1], &e, 16);
}

static void nvmehost_lock_acquire(struct nvmehost_path *p, uint32_t action, uint64_t other)
{
    nvmehost_lock_send(p, SNIC_NVME_IO_RESV_ACQUIRE, action | SNIC_NVME_RESV_EXCLUSIVE_ACCESS << 8,
                       nvmehost_lock_key(p->s), other);
}

static void nvmehost_lock_report(struct nvmehost_path *p)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_IO_RESV_REPORT, .nsid = p->s->o.nsid, .cdw11 = 1};
    e.cdw10 = SNIC_NVMEHOST__DATA / 4 - 1;
    memset(p->conns[1].data, 0, SNIC_NVMEHOST__DATA);
    nvmehost_step_submit(p, &p->conns[1], &e, SNIC_NVMEHOST__DATA);
}

/* @return the holder's key; 0: there is none */
static uint64_t nvmehost_lock_holder(const unsigned char *data)
{
    const struct snic_nvme_resv_status *s = (const void *)data;
    uint32_t count = snic_get_le16(s->regctl);
    uint32_t most = SNIC_NVMEHOST__DATA / sizeof(struct snic_nvme_resv_controller) - 1;
    const struct snic_nvme_resv_controller *c = (const void *)(data + sizeof(*s));
    for (uint32_t i = 0; i < count && i < most; i++)
        if ((c[i].rcsts & 1U) != 0)
            return snic_get_le64(&c[i].rkey);
    return 0;
}

void nvmehost_lock_begin(struct nvmehost_path *p)
{
    uint64_t key = nvmehost_lock_key(p->s);
    switch (p->step) {
    case NVMEHOST_STEP_REGISTER:
        nvmehost_lock_send(p, SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_REGISTER, 0, key);
        break;
    case NVMEHOST_STEP_ACQUIRE:
        nvmehost_lock_acquire(p, SNIC_NVME_RESV_ACQUIRE, 0);
        break;
    case NVMEHOST_STEP_HOLDER:
        nvmehost_lock_report(p);
        break;
    case NVMEHOST_STEP_PREEMPT:
        nvmehost_lock_acquire(p, SNIC_NVME_RESV_PREEMPT_ABORT, p->holder);
        break;
    default: /* unregistering a holder releases, too */
        nvmehost_lock_send(p, SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_UNREGISTER, key, 0);
        break;
    }
}

void nvmehost_lock_done(struct nvmehost_path *p)
{
    switch (p->step) {
    case NVMEHOST_STEP_REGISTER:
        nvmehost_step_begin(p, NVMEHOST_STEP_ACQUIRE);
        break;
    case NVMEHOST_STEP_HOLDER:
        p->holder = nvmehost_lock_holder(p->conns[1].data);
        if (p->holder == 0) /* it has left meanwhile */
            nvmehost_path_fail(p, SNIC_EBUSY, 0);
        else
            nvmehost_step_begin(p, NVMEHOST_STEP_PREEMPT);
        break;
    case NVMEHOST_STEP_UNLOCK:
        p->s->stats.locked = 0;
        nvmehost_step_begin(p, NVMEHOST_STEP_BYE);
        break;
    default:
        p->s->stats.locked = 1;
        nvmehost_path_up(p);
        break;
    }
}

void nvmehost_lock_failed(struct nvmehost_path *p, uint32_t status)
{
    struct snic_nvmehost *s = p->s;
    uint32_t sc = status & SNIC_NVME_SCT_SC;
    int conflict = sc == SNIC_NVME_SC_RESERVATION_CONFLICT;
    int take = (s->o.flags & SNIC_NVMEHOST_TAKE) != 0 && !s->open;
    if (p->step == NVMEHOST_STEP_UNLOCK) /* another path has done it */
        nvmehost_step_begin(p, NVMEHOST_STEP_BYE);
    else if (p->step == NVMEHOST_STEP_REGISTER && sc == SNIC_NVME_SC_INVALID_OPCODE)
        nvmehost_path_up(p); /* no reservations there */
    else if (p->step == NVMEHOST_STEP_ACQUIRE && conflict && take)
        nvmehost_step_begin(p, NVMEHOST_STEP_HOLDER);
    else if (conflict)
        nvmehost_path_fail(p, SNIC_EBUSY, !take);
    else
        nvmehost_path_fail(p, snic_nvme_status_error(status), 0);
}
