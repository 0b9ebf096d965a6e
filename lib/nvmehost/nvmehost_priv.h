/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's objects.
 *
 * P1  A slot is FREE, or has a request and is in exactly one state. SENT: an engine has its
 *     command. LIMBO: its command was lost with its path, which may still carry it out; HELD: the
 *     same, with the time at which the controller has ended for certain. Only a READY slot is sent,
 *     so a change is sent again, or completed with an error, when nothing of its earlier commands
 *     can happen.
 * P2  A path's commands have ended when the peer has ended all of its I/O connections (end of
 *     stream or reset, which proves it), or fence_ns after the last of its connections was aborted
 *     here. The end of the admin connection proves nothing: a target may serve its queues in
 *     several threads, and one that stands still may read its queue's commands afterwards.
 * P3  A connection's memory and the pieces of its commands are in use until the socket is closed.
 *     A slot in LIMBO leaves it when all connections of its path are closed.
 * P4  Nothing is done inside an event of a door, or inside a call of the handle, but to note it,
 *     and to give the engine what was received, so that the buffer goes back at once: the pump,
 *     which the loop runs afterwards, does everything else, `done` included.
 */
#ifndef SNIC_NVMEHOST_PRIV_H
#define SNIC_NVMEHOST_PRIV_H

#include "snicstore/credit.h"
#include "snicstore/nvmehost.h"

#define SNIC_NVMEHOST__IOVS SNIC_NET_IOV_MAX
#define SNIC_NVMEHOST__DATA 4096U
#define SNIC_NVMEHOST__ADMIN_ENTRIES 32U
#define SNIC_NVMEHOST__TICK_NS UINT64_C(50000000)
#define SNIC_NVMEHOST__POLL_NS UINT64_C(10000000)
#define SNIC_NVMEHOST__BACKOFF_NS UINT64_C(100000000)

enum nvmehost_slot_state {
    NVMEHOST_SLOT_FREE = 0,
    NVMEHOST_SLOT_READY, /* in s->ready */
    NVMEHOST_SLOT_SENT,
    NVMEHOST_SLOT_LIMBO,
    NVMEHOST_SLOT_HELD,  /* until retry_ns */
    NVMEHOST_SLOT_LATER, /* until retry_ns: its command has ended with a status worth another try */
    NVMEHOST_SLOT_DONE   /* in s->done, with its result */
};

struct nvmehost_slot {
    struct snic_nvmetcp_command cmd;
    struct snic_link link;
    struct snic_io_req *req;
    struct nvmehost_conn *conn; /* SENT, LIMBO */
    uint64_t at;                /* bytes of the request that are done */
    uint64_t part;              /* bytes of its command */
    uint64_t sent_ns;
    uint64_t retry_ns;
    int error;      /* of its last try */
    uint8_t state;  /* enum nvmehost_slot_state */
    uint8_t maybe;  /* a change whose command was lost: its outcome is not known */
    uint8_t flight; /* a later command than the first */
    uint8_t pad;
    struct snic_iov range_iov;
    struct snic_nvme_dsm_range range;
    struct snic_iov iov[SNIC_IO_IOV_MAX];
};

enum nvmehost_conn_state {
    NVMEHOST_CONN_CLOSED = 0,
    NVMEHOST_CONN_OPENING, /* until ICResp */
    NVMEHOST_CONN_UP,
    NVMEHOST_CONN_ENDING /* the engine has ended; the peer has until give_up_ns to close as well */
};

struct nvmehost_conn {
    struct nvmehost_path *p;
    struct snic_net_conn *net; /* NULL: closed */
    struct snic_nvmetcp_host *e;
    void *mem;
    size_t mem_size;
    struct snic_queue bufs;
    struct snic_net_send_req req;
    size_t sending;
    uint64_t give_up_ns;
    struct snic_nvmetcp_command cmd; /* of the path's steps */
    struct snic_iov cmd_iov;
    unsigned char *data; /* of cmd */
    uint32_t inflight;   /* slots */
    uint32_t room;       /* commands at a time; less while the engine takes none */
    uint16_t qid;
    uint8_t state;     /* enum nvmehost_conn_state */
    uint8_t connected; /* the socket is */
    uint8_t usable;    /* an I/O queue whose Connect has succeeded */
    uint8_t term;      /* the engine sends a TermReq, and ends by itself */
    uint8_t proved;    /* the peer has ended it */
    uint8_t worked;    /* it was usable: changes may be in it */
    uint8_t auth_sent; /* the pending command is an Authentication Send */
    uint8_t pad[7];
    struct snic_nvmeauth auth;
    struct snic_iov iov[SNIC_NVMEHOST__IOVS];
};

enum nvmehost_path_state {
    NVMEHOST_PATH_WAIT = 0, /* until retry_ns */
    NVMEHOST_PATH_SETUP,
    NVMEHOST_PATH_UP,
    NVMEHOST_PATH_ENDING /* until its connections are closed */
};

enum nvmehost_step {
    NVMEHOST_STEP_NONE = 0,
    NVMEHOST_STEP_CONNECT,
    NVMEHOST_STEP_AUTH, /* of the admin queue, or of I/O queue p->next */
    NVMEHOST_STEP_CAP,
    NVMEHOST_STEP_CC,
    NVMEHOST_STEP_CSTS,
    NVMEHOST_STEP_CTRL,
    NVMEHOST_STEP_QUEUES,
    NVMEHOST_STEP_EVENTS,
    NVMEHOST_STEP_CREDIT,
    NVMEHOST_STEP_CHANGED, /* the log page of changed namespaces: re-arms the event */
    NVMEHOST_STEP_NS,
    NVMEHOST_STEP_DESC,
    NVMEHOST_STEP_ANA,
    NVMEHOST_STEP_IO,       /* Connect of I/O queue p->next */
    NVMEHOST_STEP_REGISTER, /* on I/O queue 1, as the following: the lock */
    NVMEHOST_STEP_ACQUIRE,
    NVMEHOST_STEP_HOLDER, /* who has it? */
    NVMEHOST_STEP_PREEMPT,
    NVMEHOST_STEP_UNLOCK,
    NVMEHOST_STEP_BYE /* CC.SHN, when the handle closes */
};

/* What a path's steps have found; it becomes the handle's with the first path. */
struct nvmehost_ns {
    uint64_t size;
    uint32_t block;
    uint32_t caps;
    uint32_t atomic;
    uint32_t group; /* ANA */
    uint8_t id[17]; /* kind and identifier; zeros: none */
    uint8_t pad[3];
};

struct nvmehost_path {
    struct snic_nvmehost *s;
    struct snic_net_addr addr;
    struct nvmehost_conn *conns; /* the admin queue, then the I/O queues */
    struct snic_credit credit;
    struct snic_nvmetcp_command aer;
    struct snic_nvmetcp_command alive;
    struct nvmehost_ns ns;
    uint64_t retry_ns;   /* WAIT */
    uint64_t backoff_ns; /* of the next */
    uint64_t setup_ns;   /* SETUP, or a step while UP: until then */
    uint64_t poll_ns;    /* the step STEP_CSTS asks again; SNIC_NEVER */
    uint64_t aer_ns;     /* next event request */
    uint64_t alive_ns;   /* next Keep Alive */
    uint64_t silent_ns;  /* the pending one has to be answered until then; SNIC_NEVER */
    uint64_t holder;     /* key of the lock's, STEP_PREEMPT */
    uint32_t part;       /* bytes of a command */
    uint32_t zero_blocks;
    uint32_t entries;
    uint32_t inline_max;
    uint32_t queues;
    uint32_t oaes;
    int error; /* why it went down last */
    uint16_t cntlid;
    uint16_t next;   /* I/O queue to connect */
    uint8_t state;   /* enum nvmehost_path_state */
    uint8_t step;    /* enum nvmehost_step; its command is pending, except CSTS that waits */
    uint8_t pending; /* the admin queue's cmd, or the I/O queue's */
    uint8_t ana;     /* SNIC_NVME_ANA_* of the namespace's group */
    uint8_t has_ana;
    uint8_t want_ns; /* events: they have changed */
    uint8_t want_ana;
    uint8_t vwc;
    uint8_t has_credit;
    uint8_t hard;  /* the error is not worth another try */
    uint8_t shift; /* log2 of the block */
    uint8_t mps;
    uint8_t aer_on;
    uint8_t alive_on;
    uint8_t tried;
    uint8_t bye;
    uint8_t enabled; /* the controller is: Keep Alives are due */
    uint8_t pad;
    uint16_t tid; /* of the next authentication */
};

struct snic_nvmehost {
    struct snic_io io;
    struct snic_io_room room;
    struct snic_net *net;
    struct snic_loop *loop;
    void *mem;
    struct snic_nvmehost_opts o;
    struct nvmehost_slot *slots;
    struct nvmehost_path *paths;
    struct snic_link free;
    struct snic_link ready;
    struct snic_link done;
    struct snic_timer timer;
    struct snic_loop_msg pump;
    uint64_t armed_ns;
    uint64_t tick_ns;
    uint32_t used; /* slots */
    uint32_t turn; /* of the choice between equals */
    uint8_t pump_on;
    uint8_t open; /* a path was up: the geometry is there */
    uint8_t closing;
    uint8_t leaving; /* nothing is inside any more: connections end */
    uint8_t id[17];
    uint8_t pad[3];
    struct snic_nvmehost_stats stats;
    char subnqn[SNIC_NVME_NQN_BYTES];
    char hostnqn[SNIC_NVME_NQN_BYTES];
};

/* opts.c */
int nvmehost_opts(struct snic_nvmehost_opts *full, const struct snic_nvmehost_opts *o,
                  const char **wrong);
void nvmehost_engine_opts(const struct snic_nvmehost_opts *o, uint32_t entries,
                          struct snic_nvmetcp_host_opts *out);

/* nvmehost.c */
void nvmehost_kick(struct snic_nvmehost *s);

/* request.c */
void nvmehost_slots_init(struct snic_nvmehost *s);
int nvmehost_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n);
void nvmehost_cancel(struct snic_io *io, struct snic_io_req *req);
/** An engine has ended the command of a slot. */
void nvmehost_slot_ended(struct nvmehost_slot *x);
/** All connections of @p p are closed: what was lost with it is sent again at once, or later. */
void nvmehost_slots_freed(struct nvmehost_path *p, int proved);
void nvmehost_dispatch(struct snic_nvmehost *s);
void nvmehost_tick(struct snic_nvmehost *s, uint64_t now);
void nvmehost_finish(struct snic_nvmehost *s);
int nvmehost_slots_check(const struct snic_nvmehost *s);

/* conn.c */
/** @return 0; SNIC_E* it could not be started */
int nvmehost_conn_open(struct nvmehost_conn *c, uint32_t entries);
void nvmehost_conn_end(struct nvmehost_conn *c, int reason);
void nvmehost_conn_serve(struct nvmehost_conn *c, uint64_t now);
void nvmehost_conn_output(struct nvmehost_conn *c);
uint64_t nvmehost_conn_deadline(const struct nvmehost_conn *c);

/* path.c */
void nvmehost_path_serve(struct nvmehost_path *p, uint64_t now);
uint64_t nvmehost_path_deadline(const struct nvmehost_path *p);
/** It is no use any more: end its connections, then try again. */
void nvmehost_path_fail(struct nvmehost_path *p, int error, int hard);
/** The connection has its ICResp. */
void nvmehost_path_ready(struct nvmehost_conn *c);
/** A command that is no slot's has ended. */
void nvmehost_path_done(struct nvmehost_conn *c, struct snic_nvmetcp_command *cmd);
int nvmehost_path_usable(const struct nvmehost_path *p);

/* setup.c */
void nvmehost_step_begin(struct nvmehost_path *p, uint8_t step);
/** The pending step's command has succeeded. */
void nvmehost_step_done(struct nvmehost_path *p, struct nvmehost_conn *c, uint64_t result);
void nvmehost_step_submit(struct nvmehost_path *p, struct nvmehost_conn *c,
                          const struct snic_nvme_sqe *e, uint32_t bytes);
/** Queue @p c is connected, and authenticated where the target requires it. */
void nvmehost_step_proved(struct nvmehost_path *p, struct nvmehost_conn *c);
/** The Connect of queue @p c. */
void nvmehost_step_connect(struct nvmehost_path *p, struct nvmehost_conn *c);
void nvmehost_step_failed(struct nvmehost_path *p, uint32_t status);
/** It joins the others. */
void nvmehost_path_up(struct nvmehost_path *p);

/* lock.c: the steps from STEP_REGISTER to STEP_UNLOCK */
void nvmehost_lock_begin(struct nvmehost_path *p);
void nvmehost_lock_done(struct nvmehost_path *p);
void nvmehost_lock_failed(struct nvmehost_path *p, uint32_t status);

/* auth.c */
void nvmehost_auth_begin(struct nvmehost_path *p, struct nvmehost_conn *c);
/** The pending message was sent, or received. */
void nvmehost_auth_done(struct nvmehost_path *p, struct nvmehost_conn *c);

/* identify.c: @return 0; SNIC_E* it cannot be used */
int nvmehost_identify_ctrl(struct nvmehost_path *p, const unsigned char *data);
int nvmehost_identify_ns(struct nvmehost_path *p, const unsigned char *data);
void nvmehost_identify_desc(struct nvmehost_path *p, const unsigned char *data);
void nvmehost_ana_log(struct nvmehost_path *p, const unsigned char *data);
/** Its namespace is the handle's: SNIC_ESTALE it is not. */
int nvmehost_same(const struct nvmehost_path *p);
/** The path joins, or the namespace has changed. */
int nvmehost_adopt(struct nvmehost_path *p);

#endif /* SNIC_NVMEHOST_PRIV_H */
