/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Paths: a controller each. WAIT, until it is tried; SETUP, the steps; UP; ENDING, until all of its
 * connections are closed, which decides when what was lost with it may be sent again (P2).
 */
#include "nvmehost/nvmehost_priv.h"

static uint64_t nvmehost_kato_ns(const struct snic_nvmehost *s)
{
    return s->o.kato_ms * UINT64_C(1000000);
}

int nvmehost_path_usable(const struct nvmehost_path *p)
{
    return p->state == NVMEHOST_PATH_UP &&
           (p->ana == SNIC_NVME_ANA_OPTIMIZED || p->ana == SNIC_NVME_ANA_NON_OPTIMIZED);
}

void nvmehost_path_fail(struct nvmehost_path *p, int error, int hard)
{
    struct snic_nvmehost *s = p->s;
    if (p->state != NVMEHOST_PATH_SETUP && p->state != NVMEHOST_PATH_UP)
        return;
    p->state = NVMEHOST_PATH_ENDING;
    p->enabled = 0;
    p->step = NVMEHOST_STEP_NONE;
    p->poll_ns = p->silent_ns = SNIC_NEVER;
    if (p->error == 0)
        p->error = error;
    p->hard = (uint8_t)hard;
    p->tried = 1;
    if (!s->leaving) {
        s->stats.failures++;
        s->stats.error = p->error;
    }
    for (uint32_t i = 0; i <= s->o.queues; i++)
        nvmehost_conn_end(&p->conns[i], error);
    nvmehost_kick(s);
}

/* ---- ENDING ---- */

/* P2: by the peer's end of them. The admin queue may end while a command of an I/O queue is still
 * to begin. */
static int nvmehost_path_proved(const struct nvmehost_path *p)
{
    int io = 1;
    for (uint32_t i = 1; i <= p->s->o.queues; i++)
        io &= !p->conns[i].worked || p->conns[i].proved;
    return io;
}

static void nvmehost_path_ending(struct nvmehost_path *p, uint64_t now)
{
    struct snic_nvmehost *s = p->s;
    int proved = nvmehost_path_proved(p), worked = 0, closed = 1;
    for (uint32_t i = 0; i <= s->o.queues; i++) {
        struct nvmehost_conn *c = &p->conns[i];
        if (proved && c->state == NVMEHOST_CONN_ENDING)
            c->give_up_ns = snic_min_u64(c->give_up_ns, now);
        nvmehost_conn_serve(c, now);
        closed &= c->state == NVMEHOST_CONN_CLOSED;
        worked |= c->worked;
    }
    if (!closed)
        return;
    s->stats.proofs += worked && proved;
    nvmehost_slots_freed(p, proved);
    p->state = NVMEHOST_PATH_WAIT;
    p->retry_ns = s->leaving ? SNIC_NEVER : now + p->backoff_ns;
    p->backoff_ns = snic_min_u64(p->backoff_ns * 2, s->o.backoff_ns);
    p->aer_on = p->alive_on = p->pending = 0;
    for (uint32_t i = 0; i <= s->o.queues; i++)
        p->conns[i].worked = p->conns[i].proved = 0;
    nvmehost_kick(s);
}

/* ---- SETUP ---- */

static void nvmehost_path_start(struct nvmehost_path *p, uint64_t now)
{
    p->state = NVMEHOST_PATH_SETUP;
    p->step = NVMEHOST_STEP_NONE;
    p->error = 0;
    p->setup_ns = now + p->s->o.connect_ns;
    p->poll_ns = p->silent_ns = SNIC_NEVER;
    p->aer_ns = now;
    p->alive_ns = now + nvmehost_kato_ns(p->s) / 2;
    p->enabled = 0;
    p->pending = p->want_ns = p->want_ana = p->has_credit = p->bye = 0;
    p->aer_on = p->alive_on = 0;
    p->queues = 0;
    snic_credit_init(&p->credit, SNIC_CREDIT_UNLIMITED);
    int r = nvmehost_conn_open(&p->conns[0], SNIC_NVMEHOST__ADMIN_ENTRIES);
    if (r != 0)
        nvmehost_path_fail(p, r, 0);
}

void nvmehost_path_ready(struct nvmehost_conn *c)
{
    struct nvmehost_path *p = c->p;
    if (p->state != NVMEHOST_PATH_SETUP)
        return;
    if (c->qid == 0) {
        nvmehost_step_begin(p, NVMEHOST_STEP_CONNECT);
    } else {
        SNIC_ASSERT(p->step == NVMEHOST_STEP_IO && p->next == c->qid);
        nvmehost_step_connect(p, c);
    }
}

/* ---- UP ---- */

static void nvmehost_path_event(struct nvmehost_path *p, const struct snic_nvmetcp_command *cmd)
{
    uint32_t type = cmd->result & 7U, info = cmd->result >> 8 & 0xffU;
    p->s->stats.events++;
    if (type != SNIC_NVME_EVENT_NOTICE)
        return;
    p->want_ns |= info == SNIC_NVME_NOTICE_NS;
    p->want_ana |= info == SNIC_NVME_NOTICE_ANA;
}

void nvmehost_path_done(struct nvmehost_conn *c, struct snic_nvmetcp_command *cmd)
{
    struct nvmehost_path *p = c->p;
    int live = (p->state == NVMEHOST_PATH_SETUP || p->state == NVMEHOST_PATH_UP) && !c->term;
    if (cmd == &p->aer) {
        p->aer_on = cmd->error == 0 && cmd->status == 0 ? 0 : 2; /* 2: no more of them */
        if (live && p->aer_on == 0)
            nvmehost_path_event(p, cmd);
        return;
    }
    if (cmd == &p->alive) {
        p->alive_on = 0;
        p->silent_ns = SNIC_NEVER;
        if (live && (cmd->error != 0 || cmd->status != 0))
            nvmehost_path_fail(p, SNIC_EPROTO, 0);
        return;
    }
    p->pending = 0;
    if (!live)
        return;
    if (cmd->error != 0)
        nvmehost_path_fail(p, cmd->error == SNIC_ECANCELED ? SNIC_ECONNRESET : SNIC_EPROTO, 0);
    else if (cmd->status != 0)
        nvmehost_step_failed(p, cmd->status);
    else
        nvmehost_step_done(p, c, cmd->result);
}

static int nvmehost_path_admin(struct nvmehost_path *p, struct snic_nvmetcp_command *cmd,
                               uint8_t opcode, uint64_t now)
{
    struct snic_nvme_sqe e = {.opcode = opcode};
    memset(cmd, 0, sizeof(*cmd));
    snic_nvme_sqe_store(cmd->sqe, &e);
    return snic_nvmetcp_host_submit(p->conns[0].e, cmd, now) == 0;
}

/* Keep Alive, from the enabling of the controller on. */
static void nvmehost_path_alive(struct nvmehost_path *p, uint64_t now)
{
    if (now >= p->silent_ns) {
        nvmehost_path_fail(p, SNIC_ETIMEDOUT, 0);
        return;
    }
    if (p->alive_on || now < p->alive_ns)
        return;
    p->alive_on = (uint8_t)nvmehost_path_admin(p, &p->alive, SNIC_NVME_ADMIN_KEEP_ALIVE, now);
    p->alive_ns = now + nvmehost_kato_ns(p->s) / 2;
    p->silent_ns = now + nvmehost_kato_ns(p->s);
    p->want_ana |= p->has_ana && !nvmehost_path_usable(p); /* were an event lost */
}

static void nvmehost_path_work(struct nvmehost_path *p, uint64_t now)
{
    if (!p->aer_on && now >= p->aer_ns) {
        /* A target cannot keep the host busy with events. */
        p->aer_ns = now + SNIC_NVMEHOST__POLL_NS;
        p->aer_on = (uint8_t)nvmehost_path_admin(p, &p->aer, SNIC_NVME_ADMIN_AER, now);
    }
    if (p->step != NVMEHOST_STEP_NONE) {
        if (now >= p->setup_ns)
            nvmehost_path_fail(p, SNIC_ETIMEDOUT, 0);
        return;
    }
    p->setup_ns = now + p->s->o.connect_ns;
    if (p->s->leaving) { /* before events: a target may send them without end */
        if (!p->bye) {
            p->bye = 1;
            nvmehost_step_begin(p, p->s->stats.locked ? NVMEHOST_STEP_UNLOCK : NVMEHOST_STEP_BYE);
        }
    } else if (p->want_ns) {
        p->want_ns = 0;
        nvmehost_step_begin(p, NVMEHOST_STEP_CHANGED);
    } else if (p->want_ana) {
        p->want_ana = 0;
        nvmehost_step_begin(p, NVMEHOST_STEP_ANA);
    }
}

static void nvmehost_path_leave(struct nvmehost_path *p)
{
    if (p->state == NVMEHOST_PATH_WAIT)
        p->retry_ns = SNIC_NEVER;
    if (p->state == NVMEHOST_PATH_SETUP || p->bye == 2)
        nvmehost_path_fail(p, SNIC_ECONNABORTED, 0);
}

void nvmehost_path_serve(struct nvmehost_path *p, uint64_t now)
{
    if (p->s->leaving)
        nvmehost_path_leave(p);
    if (p->state == NVMEHOST_PATH_WAIT && now >= p->retry_ns)
        nvmehost_path_start(p, now);
    if (p->state == NVMEHOST_PATH_SETUP || p->state == NVMEHOST_PATH_UP)
        for (uint32_t i = 0; i <= p->s->o.queues; i++)
            nvmehost_conn_serve(&p->conns[i], now);
    if (p->state == NVMEHOST_PATH_SETUP) {
        if (now >= p->setup_ns)
            nvmehost_path_fail(p, SNIC_ETIMEDOUT, 0);
        else if (now >= p->poll_ns) {
            p->poll_ns = SNIC_NEVER;
            nvmehost_step_begin(p, NVMEHOST_STEP_CSTS);
        }
    }
    if (p->enabled && p->state != NVMEHOST_PATH_ENDING)
        nvmehost_path_alive(p, now);
    if (p->state == NVMEHOST_PATH_UP)
        nvmehost_path_work(p, now);
    if (p->state == NVMEHOST_PATH_ENDING)
        nvmehost_path_ending(p, now);
}

uint64_t nvmehost_path_deadline(const struct nvmehost_path *p)
{
    uint64_t at = SNIC_NEVER;
    if (p->state == NVMEHOST_PATH_WAIT)
        return p->retry_ns;
    for (uint32_t i = 0; i <= p->s->o.queues; i++)
        at = snic_min_u64(at, nvmehost_conn_deadline(&p->conns[i]));
    if (p->state == NVMEHOST_PATH_SETUP)
        at = snic_min_u64(at, snic_min_u64(p->setup_ns, p->poll_ns));
    if (p->state == NVMEHOST_PATH_UP && !p->aer_on)
        at = snic_min_u64(at, p->aer_ns);
    if (p->state == NVMEHOST_PATH_UP && p->step != NVMEHOST_STEP_NONE)
        at = snic_min_u64(at, p->setup_ns);
    if (p->enabled)
        at = snic_min_u64(at, snic_min_u64(p->silent_ns, p->alive_on ? SNIC_NEVER : p->alive_ns));
    return at;
}
