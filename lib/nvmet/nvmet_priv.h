/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's objects. A loop has struct snic_nvmet: connections and what is theirs. The first one
 * has the subsystems, too, on whose engines only its loop works (the owner), and a record of each
 * namespace, on whose device only the loop of its handle works. Loops exchange messages (mail.c),
 * in order for each pair; one to the own loop is a call.
 *
 * T1  A command is FREE or in exactly one state. SUBSYSTEM: nvmesub has it. DEVICE: it was started
 *     (io_start), and io_done follows. reserved: a switch has its request, and nothing has started.
 *     active of a connection counts SUBSYSTEM, DEVICE, reserved commands and a flush of its own;
 *     inside of a namespace counts all but the first.
 * T2  A connection's end: stopping and gone are set once, with io_lost before any message to the
 *     subsystem, and then nothing of it starts; STOPPED follows when active is 0. It is free when
 *     the socket is closed, the engine is over and the owner has answered STOPPED: by then all
 *     messages of the owner to this connection have been received.
 * T3  Memory of a connection's arena is in use from a command's admission until its response was
 *     sent, or the connection is free: what the socket may still read is never used again before.
 * T4  Nothing is done inside an event of a door but to note it, and to give the engine what was
 *     received, so that the buffer goes back at once: the pump, which the loop runs afterwards,
 *     serves each connection that is on the list of dirty ones.
 * T5  A command's mail is with one loop at a time, that of the connection, of the owner or of the
 *     device (away: not the connection's), and only that one may send it. To cancel a command that
 *     is away another mail is sent, which the device's loop returns; the command's return is dealt
 *     with when both are back.
 * T6  The device's loop starts nothing of a connection that is gone, or of a controller that the
 *     view has marked as ended, although io_start was before.
 * T7  A QUIESCE of a namespace goes to all loops, each answers when nothing that it waits for is
 *     inside there; after a removal the device's loop gives the handle back before the owner's
 *     engine gets the answer.
 */
#ifndef SNIC_NVMET_PRIV_H
#define SNIC_NVMET_PRIV_H

#include <stdatomic.h>

#include "snicstore/nvmet.h"

#define SNIC_NVMET__PAGE 4096U
#define SNIC_NVMET__IOVS SNIC_NET_IOV_MAX
#define SNIC_NVMET__HOSTS 64U
#define SNIC_NVMET__FAIL(code) (SNIC_NVME_SC_##code | SNIC_NVME_DNR)

struct nvmet_mail;
typedef void (*nvmet_mail_fn)(struct nvmet_mail *m);

/* To another loop: fn runs there. */
struct nvmet_mail {
    struct snic_loop_msg msg; /* of a batch that begins with this one */
    struct nvmet_mail *next;
    nvmet_mail_fn fn;
};

/* What one loop collects for another during an iteration. */
struct nvmet_box {
    struct nvmet_mail *first;
    struct nvmet_mail *last;
};

enum nvmet_cmd_state {
    NVMET_CMD_FREE = 0,
    NVMET_CMD_MEMORY,    /* waits for memory, in c->memory */
    NVMET_CMD_DATA,      /* its R2T is open, in c->granted */
    NVMET_CMD_RESERVED,  /* until the switch grants or returns it */
    NVMET_CMD_HELD,      /* by a fence, in c->held */
    NVMET_CMD_SUBSYSTEM, /* nvmesub has it */
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

/* Where a command is on the device's loop. */
enum nvmet_at {
    NVMET_AT_NONE = 0,
    NVMET_AT_ROOM,     /* waits for the device to take it, in dev->room */
    NVMET_AT_BUSY,     /* the same, in dev->busy */
    NVMET_AT_DEVICE,   /* its request is there */
    NVMET_AT_SWITCH,   /* reserved, not yet granted, or to be returned */
    NVMET_AT_GRANTED,  /* reserved; its mail is the connection's */
    NVMET_AT_REVOKED,  /* the switch has taken the grant back meanwhile */
    NVMET_AT_REJECTED, /* committed too late (T6): ends when the switch has returned it */
};

/* What the device's loop returns a command with. */
enum nvmet_back { NVMET_BACK_NONE = 0, NVMET_BACK_DONE, NVMET_BACK_GRANTED, NVMET_BACK_RETURNED };

/* What an authentication command has led to. */
enum nvmet_auth_result {
    NVMET_AUTH_NONE = 0,
    NVMET_AUTH_PENDING,
    NVMET_AUTH_FAILING, /* the host may still fetch the reason */
    NVMET_AUTH_DONE,
    NVMET_AUTH_OVER
};

enum nvmet_conn_kind { NVMET_CONN_NEW = 0, NVMET_CONN_ADMIN, NVMET_CONN_IO };

struct nvmet_cmd {
    struct snic_link link; /* the device's loop's while it is there */
    struct nvmet_conn *c;
    struct nvmet_ns *ns; /* of KIND_IO */
    const unsigned char *sqe;
    unsigned char *data;      /* its data, where they are or will be */
    struct nvmet_mail mail;   /* T5 */
    struct nvmet_mail cancel; /* T5 */
    uint32_t handle;
    uint32_t in;      /* bytes of data from the host */
    uint32_t wanted;  /* of these, to be granted */
    uint32_t to_host; /* bytes that the host expects */
    /* Zero in a new command, up to iov; all others are written before they are read. */
    uint32_t page; /* of the arena, pages of them */
    uint32_t pages;
    uint64_t arrived_ns;
    uint16_t verdict; /* a status that it gets instead of being started */
    uint8_t state;
    uint8_t kind;
    uint8_t complete;   /* its data are; a HELD one waits for io_start */
    uint8_t quiesced;   /* a QUIESCE waits for it */
    uint8_t admitted;   /* it has its memory */
    uint8_t reserved;   /* enum nvmet_reserved */
    uint8_t refused;    /* the switch did not admit it: it goes without */
    uint8_t away;       /* T5 */
    uint8_t cancelling; /* T5 */
    uint8_t back;       /* enum nvmet_back: the cancel is awaited */
    struct snic_iov iov;
    struct snic_nvmesub_op op;
    /* the device's loop's */
    uint64_t at;     /* next byte of the device */
    uint64_t left;   /* bytes from there */
    uint32_t range;  /* DISCARD: the next one */
    uint32_t status; /* for BACK_DONE, and credit */
    uint32_t credit;
    uint8_t where;       /* enum nvmet_at */
    uint8_t cancelled;   /* no step follows */
    uint8_t flushing;    /* its own flush is at the device, FUA */
    uint8_t result;      /* enum nvmet_back, of the owner, too; 1: it was aborted */
    uint8_t auth;        /* enum nvmet_auth_result */
    uint16_t aborts_cid; /* an Abort: of this connection, while it is on the way there */
    struct nvmet_conn *aborts;
    /* the subsystem's, or of the device's loop */
    union {
        struct snic_nvmesub_cmd sub;
        struct snic_io_req io;
    } u;
};

/* What the owner has of a connection, from its first Connect until STOPPED. */
struct nvmet_seat {
    struct snic_link link; /* first->seats */
    struct nvmet_sub *sub;
    uint32_t number;  /* of the engine */
    uint32_t tenant;  /* of the last Connect */
    uint8_t kind;     /* enum nvmet_conn_kind */
    uint8_t reason;   /* of END */
    uint8_t unproven; /* not yet authenticated, and has to be */
    uint8_t pad;
    const char *held; /* NQN of a Connect that the engine has, of a host without a key */
    struct snic_nvmesub_queue queue;
    struct snic_nvmeauth auth;
};

struct nvmet_conn {
    struct snic_link link;  /* free, fresh (oldest first) or up: connected, proven, no discovery */
    struct snic_link dirty; /* T4 */
    struct snic_nvmet *s;
    struct snic_net_conn *net; /* NULL: closed */
    struct snic_nvmetcp_target *t;
    struct nvmet_sub *sub; /* from the first successful Connect on */
    struct snic_nvmesub_queue queue;
    struct snic_nvmesub_queue mark; /* as it was connected, for other loops */
    struct snic_nvmesub_peer peer;
    uint32_t tenant;
    uint32_t active;      /* T1 */
    _Atomic uint8_t gone; /* T6 */
    uint8_t used;
    uint8_t kind;     /* enum nvmet_conn_kind */
    uint8_t over;     /* the engine has ended */
    uint8_t sought;   /* the owner has had a Connect of it */
    uint8_t ended;    /* the subsystem has ended it */
    uint8_t stopping; /* T2 */
    uint8_t leaving;  /* STOPPED was sent */
    uint8_t stopped;
    uint8_t shutdown; /* it wrote, or ends by one: flush all namespaces before STOPPED */
    uint8_t pad[3];
    struct nvmet_seat seat; /* the owner's */
    struct nvmet_mail lost;
    struct nvmet_mail stop; /* STOPPED, and its answer */
    struct nvmet_mail end;
    uint64_t proof_ns;   /* when authentication has to be complete, or SNIC_NEVER */
    uint32_t flush_next; /* of these flushes */
    struct nvmet_dev *flush_dev;
    struct nvmet_mail flush_mail;
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

/* A namespace as a loop's connections have it. */
struct nvmet_ns {
    struct nvmet_dev *dev;
    struct snic_nvmet *s;
    struct nvmet_mail added;
    struct nvmet_mail mail; /* QUIESCE, and its answer */
    uint32_t inside;        /* T1 */
    uint32_t quiesce_left;
    uint8_t present;
    uint8_t quiesce; /* an answer is owed */
    uint8_t removal; /* it is that the namespace goes */
    uint8_t pad[5];
};

/* A namespace and its device. */
struct nvmet_dev {
    struct nvmet_sub *sub;
    uint32_t nsid;
    /* the owner's; others read them while the namespace is there */
    uint32_t waiting; /* loops that have not answered QUIESCE */
    struct snic_nvmet *s;
    struct snic_io *io; /* NULL: free */
    snic_nvmet_reserve_fn reserve;
    snic_nvmet_commit_fn commit;
    snic_nvmet_ns_removed_fn removed;
    void *removed_ctx;
    struct snic_nvmesub_action quiesce;
    struct nvmet_mail mail; /* to give the handle back */
    /* the device's loop's */
    struct snic_io_waiter waiter;
    struct snic_link room; /* the device was full */
    struct snic_link busy; /* a switch had as many of the tenant as it takes (SNIC_EBUSY) */
    uint32_t inside;       /* reserved and started commands, flushes */
    uint32_t busy_count;
    uint32_t leaves; /* that nvmet_busy_again() has to follow */
    uint32_t again;
};

/* UNFENCE to a loop; while it is away it is noted that another is to follow. */
struct nvmet_note {
    struct nvmet_mail mail;
    struct nvmet_sub *sub;
    struct snic_nvmet *to;
    uint8_t away;
    uint8_t again;
};

/* A subsystem, on the owner's loop; others read view and devs. */
struct nvmet_sub {
    struct snic_nvmet *s;
    struct snic_nvmesub *engine; /* NULL: free */
    struct snic_nvmesub_view *view;
    struct nvmet_conn **conns; /* by number of the engine */
    struct nvmet_dev *devs;
    struct nvmet_note notes[SNIC_NVMET_LOOPS_MAX];
    struct snic_timer timer;
    uint64_t armed_ns;
    const char *hosts[SNIC_NVMET__HOSTS];
    char (*names)[SNIC_NVME_NQN_BYTES]; /* of the hosts */
    uint32_t host_count;
    uint32_t any_host;
    uint32_t index;
    int polling;
    int removing; /* 1; 2: gone was sent */
    struct snic_loop_msg gone;
    snic_nvmet_subsystem_removed_fn removed;
    void *removed_ctx;
    snic_nvmet_persist_fn persist;
    void *persist_ctx;
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

/* A loop of the target. */
struct snic_nvmet {
    struct snic_net *net;
    struct snic_loop *loop;
    void *mem;
    struct snic_nvmet *first;
    uint32_t index;
    uint32_t cmds; /* of a connection */
    uint32_t arena_pages;
    struct snic_nvmet_opts o;
    struct snic_nvmetcp_target_opts target;
    struct nvmet_ns **ns; /* by subsystem; NULL for discovery */
    struct nvmet_conn *conns;
    struct nvmet_port ports[SNIC_NVMESUB_PORTS_MAX];
    struct snic_link free_conns;
    struct snic_link fresh;
    struct snic_link up;
    struct snic_link dirty;
    struct snic_loop_msg pump;
    int pump_on;
    int closing;
    int closed;             /* nothing comes any more */
    int leaving;            /* DONE was sent */
    struct nvmet_mail done; /* to the owner: no connection is left; its answer */
    struct nvmet_box out[SNIC_NVMET_LOOPS_MAX];
    struct snic_loop_msg flush; /* of out */
    int flush_on;
    struct snic_nvmet_stats stats;
    /* the owner's, of the first loop */
    struct snic_nvmet *loops[SNIC_NVMET_LOOPS_MAX];
    uint32_t loop_count;
    uint32_t loops_done;
    size_t sub_size;
    struct nvmet_sub *subs; /* subsystems_max, then discovery */
    struct snic_link seats;
    struct snic_nvmet_auth_opts auth; /* ops NULL: none */
    uint32_t seat_count;
    uint32_t pending; /* QUIESCEs and UNFENCEs that loops have not answered */
};

/* mail.c */
/** Run m->fn on the loop of @p to: here and now if that is this one. */
void nvmet_mail_send(struct snic_nvmet *from, struct snic_nvmet *to, struct nvmet_mail *m,
                     nvmet_mail_fn fn);
void nvmet_mail_flush(struct snic_loop_msg *msg);

/* opts.c */
int nvmet_opts(struct snic_nvmet_opts *full, const struct snic_nvmet_opts *o, const char **wrong);
void nvmet_target_opts(const struct snic_nvmet_opts *o, struct snic_nvmetcp_target_opts *t);
void nvmet_sub_opts(const struct snic_nvmet_opts *o, struct snic_nvmesub_opts *s);

/* pages.c: @return 0 no such run is free */
int nvmet_pages_take(struct nvmet_conn *c, uint32_t pages, uint32_t *first);
void nvmet_pages_put(struct nvmet_conn *c, uint32_t first, uint32_t pages);

/* device.c, on the device's loop */
void nvmet_device_start(struct nvmet_mail *m);
void nvmet_device_reserve(struct nvmet_mail *m);
void nvmet_device_commit(struct nvmet_mail *m);
void nvmet_device_release(struct nvmet_mail *m);
void nvmet_device_cancel(struct nvmet_mail *m);
void nvmet_device_flush(struct nvmet_mail *m);
void nvmet_device_remove(struct nvmet_mail *m);
void nvmet_device_room(struct snic_io_waiter *w);
void nvmet_flush_room(struct snic_io_waiter *w);

/* inside.c */
/** A command that has been started goes to the device; a reserved one is committed. */
void nvmet_inside_start(struct nvmet_cmd *cmd);
/** Put the command before the switch. @return 0 it needs none */
int nvmet_inside_reserve(struct nvmet_cmd *cmd);
/** The reservation is not used: nvmet_cmd_returned() follows. */
void nvmet_inside_release(struct nvmet_cmd *cmd);
/** A started command is to end soon. */
void nvmet_inside_cancel(struct nvmet_cmd *cmd);
/** The device's loop returns it: cmd->result. */
void nvmet_inside_back(struct nvmet_mail *m);
/** It returns the cancel. */
void nvmet_inside_cancelled(struct nvmet_mail *m);
void nvmet_inside_quiesce(struct nvmet_mail *m);
/** The next flush of a connection that ends by a shutdown. @return 0 there is none left */
int nvmet_inside_flush(struct nvmet_conn *c);
void nvmet_inside_flushed(struct nvmet_mail *m);
void nvmet_inside_added(struct nvmet_mail *m);

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

/* seat.c, on the owner's loop, for connections of all loops */
void nvmet_seat_submit(struct nvmet_mail *m);
void nvmet_seat_lost(struct nvmet_mail *m);
void nvmet_seat_stopped(struct nvmet_mail *m);
void nvmet_seat_aborted(struct nvmet_mail *m);
void nvmet_seat_done(struct nvmet_mail *m);
void nvmet_seat_quiesced(struct nvmet_mail *m);
/** The host has its most connections. */
int nvmet_seat_full(const struct snic_nvmet *first, const struct nvmet_sub *sub,
                    const char *hostnqn);
/** When nothing is left on any loop, all loops are notified. */
void nvmet_seat_check(struct snic_nvmet *first);
/** Give a command back to its connection. */
void nvmet_seat_return(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);
void nvmet_seat_end(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);
void nvmet_seat_abort(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);
void nvmet_seat_quiesce(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);
void nvmet_seat_unfence(struct nvmet_sub *sub);
void nvmet_seat_removed(struct nvmet_mail *m);

/* auth.c, on the owner's loop */
/** Does the host have to authenticate? Flags of its rule. */
uint32_t nvmet_auth_rule(const struct snic_nvmet *first, const char *hostnqn);
/** A Connect was successful. */
void nvmet_auth_connected(struct nvmet_cmd *cmd, const struct snic_nvme_cqe *cqe);
/** Authentication Send or Receive. */
void nvmet_auth_command(struct nvmet_sub *sub, const struct snic_nvmesub_action *a);

/* change.c */
/** Into the list of hosts that are allowed. @return 0 it is there already */
int nvmet_change_add(struct nvmet_sub *sub, const char *hostnqn);
/** A seat or a note of the subsystem has come back: if it is being removed, it may be free. */
void nvmet_change_check(struct nvmet_sub *sub);

/* subsystem.c */
/** Carry out the engine's actions; inside one of them it only returns. */
void nvmet_sub_poll(struct nvmet_sub *sub);
/** The subsystem at all addresses into the discovery log, or out of it. */
void nvmet_discovery(struct snic_nvmet *s, uint32_t index);
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
/** The owner's messages to a connection: its commands, END, ABORT, the answer to STOPPED. */
void nvmet_conn_return(struct nvmet_mail *m);
void nvmet_conn_end(struct nvmet_mail *m);
void nvmet_conn_abort(struct nvmet_mail *m);
void nvmet_conn_left(struct nvmet_mail *m);
/** Commands of the loop that a fence of the subsystem holds try again. */
void nvmet_conn_unfence(struct snic_nvmet *s, struct nvmet_sub *sub);
/** When the loop closes and has no connection left the owner is notified. */
void nvmet_conn_done(struct snic_nvmet *s);
void nvmet_pump(struct snic_loop_msg *msg);

#endif /* SNIC_NVMET_PRIV_H */
