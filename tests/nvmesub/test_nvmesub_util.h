/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A subsystem and hosts, without a transport: connections, commands, and an owner that carries out
 * actions at once or, where a flag is set, when the test lets it.
 */
#ifndef SNIC_TESTS_NVMESUB_UTIL_H
#define SNIC_TESTS_NVMESUB_UTIL_H

#include "snicstore/nvmesub.h"
#include "support.h"

enum { NX_CONNS = 64, NX_DATA = 16384, NX_CMDS = 64, NX_RECORD = 32768, NX_NS = 16 };

#define NX_SUBNQN "nqn.2026-11.example:sub"
#define NX_DNR(code) (SNIC_NVME_SC_##code | SNIC_NVME_DNR)

struct nx_cmd {
    struct snic_nvmesub_cmd c;
    int busy, done, dropped;
    _Alignas(8) unsigned char data[NX_DATA];
};

struct nx_conn {
    int open, ended, lost, attached;
    uint8_t reason;
    struct snic_nvmesub_queue q;
};

struct nx {
    struct snic_nvmesub *s;
    struct snic_nvmesub_view *v;
    void *mem;
    uint64_t now;
    struct nx_conn conn[NX_CONNS];
    struct nx_cmd cmd[NX_CMDS];
    struct nx_cmd *last;
    /* what waits for the test */
    int hold_stop, hold_quiesce, hold_persist, hold_abort;
    struct snic_nvmesub_action quiesce, persist, abort, auth;
    int quiesces, persists, aborts, unfences, auths;
    int persist_error;
    unsigned char record[NX_NS][NX_RECORD]; /* what the owner has stored                      */
    int record_size[NX_NS];
};

/** A controller as its host sees it. */
struct nx_ctrl {
    uint32_t conn;
    uint16_t cntlid;
    int host;
};

/** Set the field of an NQN. */
void nx_name(uint8_t field[SNIC_NVME_NQN_BYTES], const char *nqn);
/** Names of host @p i. */
const char *nx_nqn(int i);
void nx_opts(struct snic_nvmesub_opts *o);
/** With @p o, or nx_opts() if NULL; any host is allowed. */
void nx_open(struct nx *x, const struct snic_nvmesub_opts *o);
/** All connections stop. */
void nx_close(struct nx *x);
/** Carry out all actions; the engine is checked. */
void nx_pump(struct nx *x);
/** A connection on a port from 10.0.0.1. */
uint32_t nx_conn(struct nx *x, uint32_t port);
/** The connections that ended stop. @return how many */
int nx_stop(struct nx *x);
void nx_lost(struct nx *x, uint32_t conn);

/** Zeroed entry with an SGL of @p bytes. */
void nx_sqe(struct snic_nvme_sqe *e, uint8_t opcode, uint32_t nsid, uint32_t bytes);
/** Send it; @p out of @p bytes if the command has data for the controller. The command, or NULL if
    none is free. */
struct nx_cmd *nx_send(struct nx *x, uint32_t conn, const struct snic_nvme_sqe *e, const void *out);
/** Send it and pump: its status, which must be there. x->last is the command. */
uint32_t nx_run(struct nx *x, uint32_t conn, const struct snic_nvme_sqe *e, const void *out);
/** The command has been looked at: it is free. */
void nx_free(struct nx_cmd *c);

void nx_connect_data(struct snic_nvme_connect_data *d, int host, uint16_t cntlid);
void nx_connect_sqe(struct snic_nvme_sqe *e, uint16_t qid, uint16_t entries, uint32_t kato_ms);
/** Connect, and enable; must succeed. */
struct nx_ctrl nx_admin(struct nx *x, int host, uint32_t port, uint32_t kato_ms);
uint32_t nx_cc(struct nx *x, const struct nx_ctrl *c, uint32_t cc);
uint32_t nx_csts(struct nx *x, const struct nx_ctrl *c);
/** Connect I/O queue @p qid of 8 entries; must succeed. The connection. */
uint32_t nx_queue(struct nx *x, const struct nx_ctrl *c, uint16_t qid);
uint32_t nx_feature(struct nx *x, const struct nx_ctrl *c, uint8_t id, uint32_t nsid,
                    uint32_t value);
/** Read @p bytes of a log page; must succeed. */
const unsigned char *nx_log(struct nx *x, const struct nx_ctrl *c, uint8_t id, uint32_t bytes,
                            int rae);
uint32_t nx_ns(struct nx *x, uint32_t nsid, uint64_t blocks);
/** An event request that stays; completes when it does. */
struct nx_cmd *nx_aer(struct nx *x, const struct nx_ctrl *c);
/** A reservation command on an I/O queue, forwarded. */
uint32_t nx_resv(struct nx *x, uint32_t conn, uint8_t opcode, uint32_t nsid, uint32_t cdw10,
                 uint64_t crkey, uint64_t other);
/** Check a read or write of one block at an I/O queue: the io_check result, or the status | 1
 * << 16. */
uint32_t nx_io(struct nx *x, uint32_t conn, uint8_t opcode, uint32_t nsid, uint64_t lba,
               struct snic_nvmesub_op *op);

#define NX_CC_EN (SNIC_NVME_CC_EN | 6U << 16 | 4U << 20)
#define NX_STATUS(s) (1U << 16 | (s))

#endif /* SNIC_TESTS_NVMESUB_UTIL_H */
