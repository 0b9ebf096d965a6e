/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Authentication, on the owner's loop: each seat has the controller's half of its queue. The
 * connection's loop learns of the result with the command's return: there the queue is opened, or
 * the connection closed behind the response that carries the failure.
 */
#include "nvmet/nvmet_priv.h"

/* Larger groups cost the owner's loop much, at the wish of clients that have no key. */
enum {
    NVMET_AUTH_GROUPS = 1 << SNIC_NVMEAUTH_DH_NULL | 1 << SNIC_NVMEAUTH_FFDHE2048 |
                        1 << SNIC_NVMEAUTH_FFDHE3072 | 1 << SNIC_NVMEAUTH_FFDHE4096
};

int snic_nvmet_auth(struct snic_nvmet *t, const struct snic_nvmet_auth_opts *o)
{
    struct snic_nvmet_auth_opts full;
    memset(&full, 0, sizeof(full));
    if (snic_opts_copy(&full, sizeof(full), o) != 0 || full.reserved != 0 || full.ops == NULL ||
        full.random == NULL || full.keys == NULL || t->first != t ||
        (full.hashes & ~SNIC_NVMEAUTH_HASHES) != 0 || (full.groups & ~SNIC_NVMEAUTH_GROUPS) != 0 ||
        full.limit_ns > SNIC_NVMETCP_NS_MAX)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < t->o.subsystems_max; i++)
        if (t->subs[i].engine != NULL)
            return SNIC_EBUSY;
    full.hashes += full.hashes == 0 ? SNIC_NVMEAUTH_HASHES : 0;
    full.groups += full.groups == 0 ? NVMET_AUTH_GROUPS : 0U;
    full.limit_ns += full.limit_ns == 0 ? UINT64_C(120000000000) : 0;
    t->auth = full;
    return 0;
}

uint32_t nvmet_auth_rule(const struct snic_nvmet *first, const char *hostnqn)
{
    struct snic_nvmeauth_keys keys;
    memset(&keys, 0, sizeof(keys));
    if (first->auth.ops == NULL)
        return 0;
    int r = first->auth.keys(first->auth.ctx, hostnqn, &keys);
    snic_nvmeauth_wipe(&keys, sizeof(keys));
    return r == SNIC_ENOENT ? 0 : SNIC_NVMESUB_HOST_AUTH;
}

void nvmet_auth_connected(struct nvmet_cmd *cmd, const struct snic_nvme_cqe *cqe)
{
    struct nvmet_seat *seat = &cmd->c->seat;
    const struct snic_nvmet_auth_opts *o = &seat->sub->s->auth;
    const struct snic_nvme_connect_data *d = (const void *)cmd->data;
    seat->unproven = (cqe->dw0 & SNIC_NVME_CONNECT_ATR) != 0;
    snic_nvmeauth_init(&seat->auth, (const char *)d->hostnqn, seat->sub->subnqn, o->hashes,
                       o->groups);
}

/* The data of an Authentication Send. @return a status */
static uint32_t nvmet_auth_send(const struct snic_nvmet_auth_opts *o, struct nvmet_seat *seat,
                                struct snic_nvmesub_cmd *n, const struct snic_nvmeauth_keys *keys)
{
    struct snic_nvmeauth_random random;
    memset(&random, 0, sizeof(random));
    if (o->random(&random) != 0)
        return SNIC_NVME_SC_INTERNAL;
    (void)snic_nvmeauth_ctrl_put(&seat->auth, o->ops, keys, &random, n->data, n->data_in);
    snic_nvmeauth_wipe(&random, sizeof(random));
    return 0;
}

static uint32_t nvmet_auth_run(const struct snic_nvmet_auth_opts *o, struct nvmet_seat *seat,
                               struct snic_nvmesub_cmd *n)
{
    struct snic_nvmeauth_keys keys;
    struct snic_nvme_sqe e;
    uint32_t status = SNIC_NVMET__FAIL(INVALID_OPCODE);
    memset(&keys, 0, sizeof(keys));
    snic_nvme_sqe_load(&e, n->sqe);
    int send = (e.nsid & 0xff) == SNIC_NVME_FABRICS_AUTH_SEND;
    if (o->ops == NULL || o->keys(o->ctx, seat->auth.hostnqn, &keys) == SNIC_ENOENT)
        return status;
    if ((e.cdw10 & ~0xffU) != SNIC_NVMEAUTH_CDW10 || e.cdw11 == 0)
        status = SNIC_NVMET__FAIL(INVALID_FIELD);
    else if (e.cdw11 != (send ? n->data_in : n->room))
        status = SNIC_NVMET__FAIL(SGL_LENGTH);
    else if (send)
        status = nvmet_auth_send(o, seat, n, &keys);
    else if (snic_nvmeauth_ctrl_get(&seat->auth, o->ops, n->data, n->room) < 0)
        status = SNIC_NVMET__FAIL(INVALID_FIELD); /* AL is too small for the message */
    else
        status = 0;
    if (!send && status == 0)
        n->data_out = n->room; /* zeros follow the message */
    snic_nvmeauth_wipe(&keys, sizeof(keys));
    return status;
}

void nvmet_auth_command(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(a->cmd, struct nvmet_cmd, u.sub);
    struct nvmet_seat *seat = &cmd->c->seat;
    uint32_t status = nvmet_auth_run(&sub->s->auth, seat, a->cmd);
    if (seat->auth.state == SNIC_NVMEAUTH_OVER) {
        cmd->auth = NVMET_AUTH_OVER;
        sub->s->stats.denied++;
    } else if (seat->auth.state == SNIC_NVMEAUTH_FAILING) {
        cmd->auth = NVMET_AUTH_FAILING;
    } else if (seat->auth.state == SNIC_NVMEAUTH_DONE && seat->unproven &&
               nvmet_seat_full(sub->s, sub, seat->auth.hostnqn)) {
        cmd->auth = NVMET_AUTH_OVER; /* claims were not counted */
        sub->s->stats.busy++;
    } else if (seat->auth.state == SNIC_NVMEAUTH_DONE) {
        cmd->auth = NVMET_AUTH_DONE;
        if (seat->unproven)
            snic_nvmesub_authenticated(sub->engine, seat->number);
        seat->unproven = 0;
    } else if (status == 0) {
        cmd->auth = NVMET_AUTH_PENDING;
    }
    snic_nvmesub_auth_done(sub->engine, a->cmd, status);
}
