/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's objects.
 *
 * J1  A slot is FREE, ARRIVING (its capsule's data are not complete), READY (its event is queued)
 *     or OPEN (the owner has it). used counts those that are not FREE; used <= limit.
 * J2  granted of a slot is the sum of the sizes of all its grants, arrived the sum of those that
 *     are complete; grants counts those that are open.
 * J3  Open grants are on `open` in the order of their deadlines. A grant that is complete is freed
 *     when its event was polled and its R2T was reported as sent.
 * J4  What the queued PDUs have beside data lies in `heads` in the order of the queue, so that the
 *     end of one and the begin of the next are one piece to be sent. `heads` has room for those of
 *     all replies and grants, and twice SNIC_NVMETCP__HEAD_MAX: what is taken next is never in use.
 */
#ifndef SNIC_NVMETCP_TARGET_PRIV_H
#define SNIC_NVMETCP_TARGET_PRIV_H

#include "nvmetcp/nvmetcp_priv.h"

enum nvmetcp_slot_state {
    NVMETCP_SLOT_FREE = 0,
    NVMETCP_SLOT_ARRIVING,
    NVMETCP_SLOT_READY,
    NVMETCP_SLOT_OPEN
};

/* A response, or data and a response: header, digest of the data, response. */
#define SNIC_NVMETCP__HEAD_MAX (2 * SNIC_NVMETCP__RESP + 4)

struct nvmetcp_reply {
    struct nvmetcp_out out;
    struct nvmetcp_ev ev;
    struct snic_node free;
    uint64_t cookie;
    uint32_t size;
    uint32_t used;
};

struct nvmetcp_slot {
    struct nvmetcp_ev ev;
    struct snic_node free;
    struct nvmetcp_reply *reply; /* I2 */
    unsigned char *inline_data;  /* a buffer of the pool, or NULL */
    uint32_t inline_size;        /* that the command has */
    uint32_t wanted;             /* bytes to be granted, or that the host expects */
    uint32_t granted;
    uint32_t arrived;
    uint16_t grants;
    uint16_t gen;
    uint16_t cid;
    uint16_t status; /* the engine's answer; 0: none */
    uint8_t state;   /* enum nvmetcp_slot_state */
    uint8_t dir;     /* enum nvmetcp_dir */
    uint8_t corrupt;
    uint8_t pad;
    unsigned char sqe[SNIC_NVMETCP_SQE_BYTES];
};

struct nvmetcp_grant {
    struct nvmetcp_out out;
    struct nvmetcp_ev ev;
    struct snic_node free;
    struct snic_link open;
    const struct snic_iov *iov;
    struct nvmetcp_span at; /* of the next byte */
    uint64_t expires_ns;
    uint32_t slot;
    uint32_t offset;
    uint32_t size;
    uint32_t got;
    uint16_t gen;
    uint8_t used;
    uint8_t waits; /* for data */
    uint8_t corrupt;
    uint8_t all;
    uint8_t pad[2];
};

struct snic_nvmetcp_target {
    struct nvmetcp_conn c;
    struct snic_nvmetcp_target_opts o;
    void *mem;
    uint32_t flags; /* SNIC_NVMETCP_NO_SQ_FLOW, _CREDIT */
    uint32_t entries;
    uint32_t inline_max;
    uint32_t r2ts;
    uint32_t tag_bits;
    uint16_t sqhd;
    uint8_t connected;
    uint8_t pad;
    struct nvmetcp_slot *arriving;
    struct nvmetcp_slot *connecting; /* the Connect that is not complete */
    struct nvmetcp_grant *filling;
    struct nvmetcp_slot *slots;
    struct nvmetcp_reply *replies;
    struct nvmetcp_grant *grants;
    unsigned char *heads; /* J4 */
    size_t heads_size;
    size_t heads_at;
    unsigned char *inlines;
    struct snic_node *inline_nodes;
    struct snic_queue free_slots;
    struct snic_queue free_replies;
    struct snic_queue free_grants;
    struct snic_queue free_inlines;
    struct snic_link open; /* J3 */
};

extern const struct nvmetcp_role nvmetcp_target_role;

/** Where the next queued PDU has its header; SNIC_NVMETCP__HEAD_MAX bytes. */
static inline unsigned char *nvmetcp_head(struct snic_nvmetcp_target *t)
{
    if (t->heads_size - t->heads_at < SNIC_NVMETCP__HEAD_MAX)
        t->heads_at = 0;
    return t->heads + t->heads_at;
}

static inline uint32_t nvmetcp_target_replies(const struct snic_nvmetcp_target_opts *o)
{
    return 2 * o->depth_max;
}

/* A free object is the next to be taken: it is still in the cache. */
static inline void nvmetcp_stack(struct snic_queue *q, struct snic_node *n)
{
    n->next = q->first;
    if (q->first == NULL)
        q->last = n;
    q->first = n;
}

/* target_opts.c */
int nvmetcp_target_opts(struct snic_nvmetcp_target_opts *full,
                        const struct snic_nvmetcp_target_opts *o, const char **wrong);

/* target_reply.c */
void nvmetcp_slot_free(struct snic_nvmetcp_target *t, struct nvmetcp_slot *s);
void nvmetcp_reply_free(struct snic_nvmetcp_target *t, struct nvmetcp_reply *r);
void nvmetcp_target_respond(struct snic_nvmetcp_target *t, struct nvmetcp_slot *s,
                            const struct snic_nvmetcp_completion *c);
struct nvmetcp_slot *nvmetcp_slot_of(struct snic_nvmetcp_target *t, uint32_t command);

/* target_command.c */
int nvmetcp_target_capsule(struct snic_nvmetcp_target *t);
void nvmetcp_target_capsule_done(struct snic_nvmetcp_target *t, int good);

/* target_grant.c */
int nvmetcp_target_data(struct snic_nvmetcp_target *t);
int nvmetcp_target_data_done(struct snic_nvmetcp_target *t, int good);
void nvmetcp_grant_sent(struct snic_nvmetcp_target *t, struct nvmetcp_grant *g);
void nvmetcp_grant_polled(struct snic_nvmetcp_target *t, struct nvmetcp_grant *g);
void nvmetcp_grants_void(struct snic_nvmetcp_target *t);

static inline uint32_t nvmetcp_handle(const struct snic_nvmetcp_target *t,
                                      const struct nvmetcp_slot *s)
{
    return (uint32_t)s->gen << 16 | (uint32_t)(s - t->slots);
}
#endif /* SNIC_NVMETCP_TARGET_PRIV_H */
