/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file tests/support/nvmehost.h
 * A host of NVMe/TCP targets for tests: queues on a net handle, driven by the host's half of
 * nvmetcp. Calls that wait turn the loop, a real one or a world's.
 */
#ifndef SNIC_TESTS_NVMEHOST_H
#define SNIC_TESTS_NVMEHOST_H

#include "snicstore/net.h"
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"
#include "snicstore/nvmeauth.h"
#include "snicstore/nvmetcp.h"

struct nh {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr addr;
    const char *subnqn;
    const char *hostnqn;
    uint8_t hostid[16];
    uint32_t digests;
    uint32_t kato_ms;
    uint32_t entries; /* of I/O queues */
    uint32_t capsule; /* in-capsule data of I/O queues */
    uint32_t no_sq_flow;
    void (*after)(void);                  /* after each iteration of the loop; may be NULL */
    const struct snic_nvmeauth_ops *auth; /* NULL: it never authenticates */
    int (*random)(struct snic_nvmeauth_random *out);
    struct snic_nvmeauth_keys keys;
    uint32_t groups; /* that it offers; 0: all */
};

/** One iteration of the loop; a world in which nothing can happen any more is a failure. */
void nh_once(const struct nh *h);

struct nh_queue {
    struct nh *h;
    struct snic_net_conn *net; /* NULL: closed */
    struct snic_nvmetcp_host *e;
    void *mem;
    struct snic_queue bufs;
    struct snic_net_send_req req;
    struct snic_iov iov[SNIC_NET_IOV_MAX];
    size_t sending;
    struct snic_timer timer;
    int open; /* until nh_close() */
    int ready;
    int ended;
    int closed;
    int reason;    /* of ENDED */
    int deaf;      /* receives nothing: a slow reader */
    uint32_t term; /* FES of a TermReq */
    uint16_t cntlid;
    uint16_t pad;
    uint32_t required; /* Connect's completion has asked for authentication */
    struct snic_nvmeauth proof;
};

struct nh_cmd {
    struct snic_nvmetcp_command c;
    struct snic_iov iov;
    int done;
};

/** Connect the stream and exchange ICReq and ICResp. @return 0; SNIC_E* it ended before */
int nh_open(struct nh_queue *q, struct nh *h);
/** End it at once and free its memory. */
void nh_close(struct nh_queue *q);
/** What has come and what is to be sent. */
void nh_pump(struct nh_queue *q);

/** A zeroed command; @p data of @p bytes in the direction of the opcode. */
void nh_prepare(struct nh_cmd *cmd, const struct snic_nvme_sqe *e, void *data, uint32_t bytes);
/** Submit it. @return 0; SNIC_E* */
int nh_submit(struct nh_queue *q, struct nh_cmd *cmd);
/** Turn the loop until it is done. @return its status; 0xffff: the connection ended */
uint32_t nh_wait(struct nh_queue *q, struct nh_cmd *cmd);
/** Prepare, submit, wait; @p result may be NULL. */
uint32_t nh_run(struct nh_queue *q, const struct snic_nvme_sqe *e, void *data, uint32_t bytes,
                uint64_t *result);

/** Connect queue @p qid; qid 0 becomes an enabled controller. @return the status */
uint32_t nh_connect(struct nh_queue *q, uint16_t qid, uint16_t cntlid);
/** An Authentication Send or Receive (SNIC_NVME_FABRICS_AUTH_*). @return its status */
uint32_t nh_auth(struct nh_queue *q, uint8_t type, void *data, uint32_t bytes);
/** A transaction. @return the first status that is not 0; 0 the messages were exchanged, see
 * q->proof; or 0xffff */
uint32_t nh_authenticate(struct nh_queue *q);
/** Open and connect an admin queue; its controller is enabled. @return the status, or 0xffff */
uint32_t nh_admin(struct nh_queue *q, struct nh *h);
/** Open and connect I/O queue @p qid of it. */
uint32_t nh_io_queue(struct nh_queue *q, const struct nh_queue *admin, uint16_t qid);
uint32_t nh_property_set(struct nh_queue *q, uint32_t at, uint32_t value);
uint32_t nh_property_get(struct nh_queue *q, uint32_t at, uint64_t *value);
uint32_t nh_identify(struct nh_queue *q, uint32_t cns, uint32_t nsid, void *data);
uint32_t nh_log(struct nh_queue *q, uint32_t page, void *data, uint32_t bytes);

/** An I/O command of @p blocks blocks of @p bytes bytes in all, into @p cmd. */
void nh_rw(struct nh_cmd *cmd, uint8_t opcode, uint32_t nsid, uint64_t lba, uint32_t blocks,
           void *data, uint32_t bytes);
/** The same, waited for. */
uint32_t nh_io(struct nh_queue *q, uint8_t opcode, uint32_t nsid, uint64_t lba, uint32_t blocks,
               void *data, uint32_t bytes);

#define NH_ENDED 0xffffU

#endif /* SNIC_TESTS_NVMEHOST_H */
