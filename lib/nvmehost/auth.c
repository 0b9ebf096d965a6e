/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Authentication of a queue, behind its Connect: messages sent and received by turns until the
 * host's half (nvmeauth) is done.
 */
#include "nvmehost/nvmehost_priv.h"

static void nvmehost_auth_command(struct nvmehost_path *p, struct nvmehost_conn *c, uint8_t type,
                                  uint32_t bytes)
{
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_FABRICS, .nsid = type, .cdw10 = SNIC_NVMEAUTH_CDW10, .cdw11 = bytes};
    c->auth_sent = type == SNIC_NVME_FABRICS_AUTH_SEND;
    nvmehost_step_submit(p, c, &e, bytes);
}

static void nvmehost_auth_send(struct nvmehost_path *p, struct nvmehost_conn *c, int size)
{
    if (size > 0)
        nvmehost_auth_command(p, c, SNIC_NVME_FABRICS_AUTH_SEND, (uint32_t)size);
    else if (c->auth.state == SNIC_NVMEAUTH_DONE)
        nvmehost_step_proved(p, c);
    else
        nvmehost_path_fail(p, SNIC_EACCES, 1);
}

void nvmehost_auth_begin(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    const struct snic_nvmehost *s = p->s;
    if (s->o.auth == NULL) {
        nvmehost_path_fail(p, SNIC_EACCES, 1);
        return;
    }
    p->step = NVMEHOST_STEP_AUTH;
    snic_nvmeauth_init(&c->auth, s->hostnqn, s->subnqn, SNIC_NVMEAUTH_HASHES, SNIC_NVMEAUTH_GROUPS);
    nvmehost_auth_send(p, c,
                       snic_nvmeauth_host_start(&c->auth, p->tid++, c->data, SNIC_NVMEHOST__DATA));
}

/* The controller's message is in the queue's data; the answer takes its place. */
static void nvmehost_auth_answer(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    const struct snic_nvmehost_opts *o = &p->s->o;
    struct snic_nvmeauth_random random;
    unsigned char out[SNIC_NVMEAUTH_MESSAGE_BYTES];
    if (o->random(&random) != 0) {
        nvmehost_path_fail(p, SNIC_EIO, 0);
        return;
    }
    int n = snic_nvmeauth_host_step(&c->auth, o->auth, &o->keys, &random, c->data,
                                    SNIC_NVMEHOST__DATA, out);
    snic_nvmeauth_wipe(&random, sizeof(random));
    SNIC_ASSERT(n <= (int)sizeof(out));
    if (n > 0)
        memcpy(c->data, out, (size_t)n);
    nvmehost_auth_send(p, c, n);
}

void nvmehost_auth_done(struct nvmehost_path *p, struct nvmehost_conn *c)
{
    int over = c->auth.state == SNIC_NVMEAUTH_DONE || c->auth.state == SNIC_NVMEAUTH_OVER;
    if (!c->auth_sent) {
        nvmehost_auth_answer(p, c);
    } else if (over) {
        nvmehost_auth_send(p, c, 0);
    } else {
        memset(c->data, 0, SNIC_NVMEHOST__DATA);
        nvmehost_auth_command(p, c, SNIC_NVME_FABRICS_AUTH_RECEIVE, SNIC_NVMEHOST__DATA);
    }
}
