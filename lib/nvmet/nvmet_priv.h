/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's objects.
 *
 * T1  A command is FREE or in exactly one state. SUBSYSTEM: nvmesub has it. ROOM and DEVICE: it was
 *     started (io_start), and io_done follows. reserved: a switch has its request, and nothing has
 *     started. active of a connection counts SUBSYSTEM, ROOM, DEVICE, reserved commands and a flush
 *     of its own; inside of a namespace counts all but the first.
 * T2  A connection's end: stopping is set once, with io_lost before any message to the subsystem,
 *     and then nothing of it starts; stopped() follows when active is 0. It is free when the
 *     socket is closed, the engine is over and it has stopped.
 * T3  Memory of a connection's arena is in use from a command's admission until its response was
 *     sent, or the connection is free: what the socket may still read is never used again before.
 * T4  Nothing is done inside an event of a door but to note it: the pump, which the loop runs
 *     afterwards, serves each connection that is on the list of dirty ones.
 */
#ifndef SNIC_NVMET_PRIV_H
#define SNIC_NVMET_PRIV_H

#include "snicstore/nvmet.h"

#define SNIC_NVMET__PAGE 4096U
#define SNIC_NVMET__IOVS SNIC_NET_IOV_MAX
#define SNIC_NVMET__HOSTS 64U
#define SNIC_NVMET__FAIL(code) (SNIC_NVME_SC_##code | SNIC_NVME_DNR)

enum nvmet_cmd_state {
    NVMET_CMD_FREE = 0,
    NVMET_CMD_MEMORY,    /* waits for memory, in c->memory */
    NVMET_CMD_DATA,      /* its R2T is open, in c->granted */
    NVMET_CMD_RESERVED,  /* until the switch grants or returns it */
    NVMET_CMD_HELD,      /* by a fence, in c->held */
    NVMET_CMD_SUBSYSTEM, /* nvmesub has it */
    NVMET_CMD_ROOM,      /* waits for the device to take it, in ns->room or ns->busy */
    NVMET_CMD_DEVICE,
    NVMET_CMD_SENDING /* until its data were sent */
};

enum nvmet_cmd_kind {
    NVMET_KIND_CONNECT = 1,
    NVMET_KIND_ADMIN,   /* of an admin queue */
    NVMET_KIND_FORWARD, /* of an I/O queue, for the subsystem */
    NVMET_KIND_IO
};

enum nvmet_reserved { NVMET_NOT_RESERVED = 0, NVMET_IS_RESERVED, NVMET_CANCELLED };

enum nvmet_conn_kind { NVMET_CONN_NEW = 0, NVMET_CONN_ADMIN, NVMET_CONN_IO };

struct nvmet_cmd {
    struct snic_link link;
    struct nvmet_conn *c;
    struct nvmet_ns *ns; /* of KIND_IO */
    const unsigned char *sqe;
    unsigned char *data; /* its data, where they are or will be */
    uint32_t handle;
    uint32_t in;      /* bytes of data from the host */
    uint32_t wanted;  /* of these, to be granted */
    uint32_t to_host; /* bytes that the host expects */
    uint32_t page;    /* of the arena, pages of them */
    uint32_t pages;
    uint32_t range;   /* DISCARD: the next one */
    uint16_t verdict; /* a status that it gets instead of being started */
    uint8_t state;
    uint8_t kind;
    uint8_t complete; /* its data are; a HELD one waits for io_start */
    uint8_t flushing; /* its own flush is at the device, FUA */
    uint8_t quiesced; /* a QUIESCE waits for it */
    uint8_t busy;     /* in ns->busy */
    uint8_t admitted; /* it has its memory */
    uint8_t reserved; /* enum nvmet_reserved */
    uint8_t refused;  /* the switch did not admit it: it goes without */
    uint8_t pad;
    uint64_t at;   /* next byte of the device */
    uint64_t left; /* bytes from there */
    struct snic_iov iov;
    struct snic_nvmesub_op op;
    union {
        struct snic_nvmesub_cmd sub;
        struct snic_io_req io;
    } u;
};

struct nvmet_conn {
    struct snic_link link;  /* free, fresh (no Connect yet, oldest first) or up */
    struct snic_link dirty; /* T4 */
    struct snic_nvmet *s;
    struct snic_net_conn *net; /* NULL: closed */
    struct snic_nvmetcp_target *t;
    struct nvmet_sub *sub; /* from the first Connect on */
    struct snic_nvmesub_queue queue;
    uint32_t sub_conn;
    uint32_t port;
    uint32_t tenant;
    uint32_t active; /* T1 */
    uint8_t used;
    uint8_t kind;     /* enum nvmet_conn_kind */
    uint8_t over;     /* the engine has ended */
    uint8_t ended;    /* the subsystem has ended it */
    uint8_t stopping; /* T2 */
    uint8_t stopped;
    uint8_t shutdown; /* flush all namespaces before stopped */
    uint8_t pad;
    uint32_t flush_next; /* of these flushes */
    struct snic_io_req flush;
    struct snic_io_waiter waiter; /* of the flush */
    struct snic_queue bufs;       /* received, not yet consumed */
    struct snic_net_send_req req;
    size_t sending;
    struct snic_timer timer;
    uint64_t armed_ns;
    struct snic_link memory;
    struct snic_link granted;
    struct snic_link held;
    struct snic_link free_cmds;
    struct nvmet_cmd *cmds;
    uint64_t *map; /* bit per page of the arena: in use */
    unsigned char *arena;
    void *target_mem;
    struct snic_iov iov[SNIC_NVMET__IOVS];
};

struct nvmet_ns {
    struct snic_io *io; /* NULL: free */
    struct nvmet_sub *sub;
    struct snic_io_waiter waiter;
    struct snic_link room; /* the device was full */
    struct snic_link busy; /* a switch had as many of the tenant as it takes (SNIC_EBUSY) */
    uint32_t nsid;
    uint32_t inside; /* T1 */
    uint32_t quiesce_left;
    uint32_t busy_count;
    uint8_t quiesce; /* an answer is owed */
    uint8_t removal; /* it is that the namespace goes */
    uint8_t pad[6];
    uint64_t quiesce_sequence;
    snic_nvmet_ns_removed_fn removed;
    void *removed_ctx;
    snic_nvmet_reserve_fn reserve;
    snic_nvmet_commit_fn commit;
};

struct nvmet_sub {
    struct snic_nvmet *s;
    struct snic_nvmesub *engine; /* NULL: free */
    struct snic_nvmesub_view *view;
    struct nvmet_conn **conns; /* by number of the engine */
    struct nvmet_ns *ns;
    struct snic_timer timer;
    uint64_t armed_ns;
    const char *const *hosts;
    uint32_t host_count;
    uint32_t any_host;
    int polling;
    void *mem;
    char subnqn[SNIC_NVME_NQN_BYTES];
};

struct nvmet_port {
    struct snic_nvmet *s;
    struct snic_net_listener *listener; /* NULL: free */
    struct snic_net_addr addr;
    struct snic_net_addr shown;
    uint32_t number;
    uint32_t pad;
};

struct snic_nvmet {
    struct snic_net *net;
    struct snic_loop *loop;
    void *mem;
    struct snic_nvmet_opts o;
    struct snic_nvmetcp_target_opts target;
    size_t sub_size;
    uint32_t cmds; /* of a connection */
    uint32_t arena_pages;
    struct nvmet_sub *subs; /* subsystems_max, then discovery */
    struct nvmet_conn *conns;
    struct nvmet_port ports[SNIC_NVMESUB_PORTS_MAX];
    struct snic_link free_conns;
    struct snic_link fresh;
    struct snic_link up;
    struct snic_link dirty;
    struct snic_loop_msg pump;
    int pump_on;
    int closing;
    struct snic_nvmet_stats stats;
};

/* opts.c */
int nvmet_opts(struct snic_nvmet_opts *full, const struct snic_nvmet_opts *o, const char **wrong);
void nvmet_target_opts(const struct snic_nvmet_opts *o, struct snic_nvmetcp_target_opts *t);
void nvmet_sub_opts(const struct snic_nvmet_opts *o, struct snic_nvmesub_opts *s);

/* pages.c: @return 0 no such run is free */
int nvmet_pages_take(struct nvmet_conn *c, uint32_t pages, uint32_t *first);
void nvmet_pages_put(struct nvmet_conn *c, uint32_t first, uint32_t pages);

/* device.c */
void nvmet_device_start(struct nvmet_cmd *cmd);
/** A started command that has not reached the device, or has left it, ends. */
void nvmet_device_end(struct nvmet_cmd *cmd, uint32_t status, uint32_t credit);
/** A reserved command whose data are there reaches the device. */
void nvmet_device_commit(struct nvmet_cmd *cmd);
/** Put the command before the switch. @return 0 it needs none, or there is none */
int nvmet_device_reserve(struct nvmet_cmd *cmd);
/** The reservation is not used: nvmet_cmd_returned() follows. */
void nvmet_device_release(struct nvmet_cmd *cmd);
void nvmet_device_room(struct snic_io_waiter *w);
/** Answer a QUIESCE when nothing is left that it waits for. */
void nvmet_quiesced(struct nvmet_ns *ns);
void nvmet_device_quiesce(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);
/** The next flush of a connection that ends by a shutdown. @return 0 there is none left */
int nvmet_device_flush(struct nvmet_conn *c);
void nvmet_flush_room(struct snic_io_waiter *w);

/* command.c */
void nvmet_cmd_event(struct nvmet_conn *c, const struct snic_nvmetcp_event *e);
void nvmet_cmd_data(struct nvmet_conn *c, const struct snic_nvmetcp_event *e);
void nvmet_cmd_memory(struct nvmet_conn *c);
void nvmet_cmd_retry(struct nvmet_cmd *cmd);
/** The switch admits it: its data are requested. */
void nvmet_cmd_granted(struct nvmet_cmd *cmd);
/** The switch has returned a request that did not reach the device. */
void nvmet_cmd_returned(struct nvmet_cmd *cmd);
void nvmet_cmd_finish(struct nvmet_cmd *cmd, const struct snic_nvme_cqe *cqe, uint32_t data_out);
void nvmet_cmd_free(struct nvmet_cmd *cmd);
void nvmet_cmd_enter(struct nvmet_cmd *cmd, uint8_t state, struct snic_link *list);
int nvmet_cmd_abort(struct nvmet_conn *c, uint16_t cid);

/* subsystem.c */
/** Carry out the engine's actions; inside one of them it only returns. */
void nvmet_sub_poll(struct nvmet_sub *sub);
struct nvmet_ns *nvmet_sub_ns(struct nvmet_sub *sub, uint32_t nsid);
/** All subsystems at all addresses into the discovery log. */
void nvmet_discovery(struct snic_nvmet *s);
struct nvmet_sub *nvmet_sub_find(struct snic_nvmet *s, const char *subnqn);
void nvmet_sub_init(struct nvmet_sub *sub);
void nvmet_sub_fini(struct nvmet_sub *sub);
int nvmet_sub_open(struct nvmet_sub *sub, const struct snic_nvmet_subsystem_opts *o,
                   uint32_t flags);

/* conn.c */
void nvmet_conn_accept(void *ctx, struct snic_net_conn *net, const struct snic_net_addr *peer);
void nvmet_conn_dirty(struct nvmet_conn *c);
/** T2; harmless when stopping. */
void nvmet_conn_stop(struct nvmet_conn *c);
/** A command or flush has ended, or the socket: what follows of it. */
void nvmet_conn_check(struct nvmet_conn *c);
void nvmet_conn_init(struct nvmet_conn *c);
void nvmet_conn_kill(struct nvmet_conn *c, int reason, int drain);
void nvmet_pump(struct snic_loop_msg *msg);

#endif /* SNIC_NVMET_PRIV_H */
