/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's objects.
 *
 * H1  A task is free, or has a command. outs counts the PDUs of it that are queued for output: its
 *     capsule, and one H2CData for each of its sends.
 * H2  A task is done, and its event queued, when its command was answered (or the connection is
 *     going down) and outs is 0: then nothing refers to the command's pieces any more. When the
 *     connection is over outs is taken to be 0, and the command has SNIC_ECANCELED: what output has
 *     returned is the owner's until the socket is closed.
 * H3  A send is free, or serves one R2T of a task: its PDU is queued. A controller may answer what
 *     output has returned before that is reported as sent, so there are more sends than R2Ts; input
 *     stands still while all are in use.
 */
#ifndef SNIC_NVMETCP_HOST_PRIV_H
#define SNIC_NVMETCP_HOST_PRIV_H

#include "nvmetcp/nvmetcp_priv.h"

struct nvmetcp_task {
    struct nvmetcp_out out;
    struct nvmetcp_ev ev;
    struct snic_node free;
    struct snic_nvmetcp_command *cmd; /* NULL: free */
    struct nvmetcp_span at;           /* of the next byte received */
    uint32_t outs;                    /* H1 */
    uint16_t r2ts; /* whose last H2CData output has not returned: the controller has no more */
    uint16_t gen;
    uint8_t dir; /* enum nvmetcp_dir */
    uint8_t answered;
    uint8_t is_inline;
    uint8_t corrupt;
    uint8_t last; /* no more data will follow */
    uint8_t pad[3];
    unsigned char tail[4];
    unsigned char head[76];
};

struct nvmetcp_send {
    struct nvmetcp_out out;
    struct snic_node free;
    struct nvmetcp_span at; /* of the data of the next PDU */
    uint32_t task;
    uint32_t offset;
    uint32_t left; /* behind the queued PDU */
    uint16_t ttag;
    uint16_t used;
    unsigned char tail[4];
    unsigned char head[SNIC_NVMETCP__RESP];
};

struct snic_nvmetcp_host {
    struct nvmetcp_conn c;
    struct snic_nvmetcp_host_opts o;
    void *mem;
    uint32_t inline_max;
    uint32_t h2c_max;
    uint32_t tag_bits;
    uint16_t sq_tail;
    uint16_t sq_head;
    uint8_t flow; /* SQ flow control */
    uint8_t pad[3];
    struct nvmetcp_ev ready;
    struct nvmetcp_task *receiving;
    struct nvmetcp_task *tasks;
    struct nvmetcp_send *sends;
    struct snic_queue free_tasks;
    struct snic_queue free_sends;
};

extern const struct nvmetcp_role nvmetcp_host_role;

static inline uint32_t nvmetcp_host_tasks(const struct snic_nvmetcp_host_opts *o)
{
    return o->entries - 1;
}
static inline uint32_t nvmetcp_host_sends(const struct snic_nvmetcp_host_opts *o)
{
    return 2 * nvmetcp_host_tasks(o) * o->r2ts_max;
}

/* host_data.c */
int nvmetcp_host_head(struct nvmetcp_conn *c);
int nvmetcp_host_done(struct nvmetcp_conn *c, int good);
void nvmetcp_host_handed(struct nvmetcp_conn *c, struct nvmetcp_out *o);
void nvmetcp_host_out_sent(struct nvmetcp_conn *c, struct nvmetcp_out *o);
void nvmetcp_host_down(struct nvmetcp_conn *c);
#endif /* SNIC_NVMETCP_HOST_PRIV_H */
