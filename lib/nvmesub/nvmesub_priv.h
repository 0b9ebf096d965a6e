/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Inside the subsystem engine.
 *
 * opts.c      options, memory
 * view.c      what other threads read: publication and reading
 * out.c       actions, completions, the data of commands; poll.c the next action
 * event.c     asynchronous events
 * host.c      identities, fences; rule.c who may connect
 * wait.c      what commands of a namespace wait for
 * ns.c        namespaces, ANA
 * reserve.c   reservations; record.c their records
 * identify.c, log.c, feature.c   the admin commands of these names
 * conn.c      connections and controllers, from open to stopped
 * connect.c   the Connect command; property.c properties, enable, reset, shutdown
 * admin.c     dispatch of commands, Abort, Keep Alive
 * io.c        I/O queues, on their own threads
 */
#ifndef SNIC_NVMESUB_PRIV_H
#define SNIC_NVMESUB_PRIV_H

#include <stdatomic.h>

#include "snicstore/nvmesub.h"

#define SNIC_NVMESUB__NONE 0xffffffffU
#define SNIC_NVMESUB__IDLE_NS UINT64_C(120000000000)
#define SNIC_NVMESUB__MS UINT64_C(1000000)
#define SNIC_NVMESUB__KATO_UNIT_MS 100U
#define SNIC_NVMESUB__HOST_WORDS (SNIC_NVMESUB_HOSTS_MAX / 64)

/* ---- What other threads read ---- */

/* Words of a namespace's copy in the view; the registrants' bitmap follows. */
enum { NVMESUB_W_BLOCKS, NVMESUB_W_STATE, NVMESUB_W_ANA, NVMESUB_W_RESV, NVMESUB_W_REGS };
#define SNIC_NVMESUB__W_PRESENT 1U
#define SNIC_NVMESUB__W_READ_ONLY 2U
/* Of a controller's word: epoch << 32 | flags. */
#define SNIC_NVMESUB__C_LIVE 1U
#define SNIC_NVMESUB__C_CREDIT 2U

/** A namespace: two copies, of which sequence & 1 is the current one. */
struct nvmesub_cell {
    _Atomic uint64_t sequence;
    _Atomic uint64_t words[];
};

struct snic_nvmesub_view {
    uint32_t namespaces_max;
    uint32_t words; /* of one copy                                                            */
    size_t stride;  /* bytes of a cell                                                        */
    uint32_t data_max;
    unsigned char *cells;
    _Atomic uint64_t *ctrl;  /* by controller slot; the owner writes                          */
    _Atomic uint32_t *seen;  /* by connection: its thread sets it, the owner clears it        */
    _Atomic uint32_t *fence; /* by host: both sides add and subtract                          */
};

/** A namespace as an I/O queue needs it. */
struct nvmesub_seen {
    uint64_t sequence; /* of the publication, never 0 */
    uint64_t blocks;
    uint32_t generation;
    uint8_t present;
    uint8_t read_only;
    uint8_t shift;
    uint8_t ana;
    uint8_t rtype;
    uint8_t registered;
    uint8_t holder;
};

/* ---- The owner's ---- */

/** A member of the queue of actions; kind 0: it is not in it. */
struct nvmesub_out {
    struct snic_link link;
    uint8_t kind;
};

enum nvmesub_cmd_state {
    NVMESUB_CMD_OUT = 1, /* in the queue of actions                                           */
    NVMESUB_CMD_EVENT,   /* an event request, with its controller                             */
    NVMESUB_CMD_HELD,    /* a Connect, with its host                                          */
    NVMESUB_CMD_WAITS,   /* for persisted or quiesced, with its namespace                     */
    NVMESUB_CMD_OWNER    /* with the owner: ABORT, AUTH                                       */
};
#define SNIC_NVMESUB__WAIT_PERSIST 1U
#define SNIC_NVMESUB__WAIT_QUIESCE 2U

enum nvmesub_conn_state {
    NVMESUB_CONN_FREE,
    NVMESUB_CONN_NEW,
    NVMESUB_CONN_ADMIN,
    NVMESUB_CONN_IO
};

struct nvmesub_conn {
    struct nvmesub_out out;   /* END                                                          */
    struct snic_link sibling; /* of its controller; or of the free list                       */
    struct snic_link cmds;    /* submitted and not returned                                   */
    struct snic_nvmesub_peer peer;
    uint32_t ctrl;
    uint32_t epoch; /* of the controller when an I/O queue was connected                      */
    uint16_t qid;
    uint16_t depth;
    uint16_t head;
    uint8_t state;
    uint8_t ended; /* END emitted or to be, or lost                                          */
    uint8_t reason;
    uint8_t no_sq_flow;
    uint8_t auth;   /* 1: must authenticate yet                                               */
    uint8_t fences; /* a deleted queue: its host is fenced until it has stopped               */
};

enum nvmesub_ctrl_state { NVMESUB_CTRL_FREE, NVMESUB_CTRL_LIVE, NVMESUB_CTRL_ENDING };

/* Events of a controller, bits of pending and masked. */
#define SNIC_NVMESUB__EV_NS 1U
#define SNIC_NVMESUB__EV_ANA 2U
#define SNIC_NVMESUB__EV_DISCOVERY 4U
#define SNIC_NVMESUB__EV_RESV 8U
#define SNIC_NVMESUB__EV_HEALTH 16U
#define SNIC_NVMESUB__EVENTS 5U

struct nvmesub_notice {
    uint64_t count;
    uint32_t nsid;
    uint8_t type;
};

/**
 * A controller. Its slot is free when its connections have stopped.
 *   N1 conns holds exactly its connections; io counts those with a qid that have not stopped.
 *   N2 draining: io > 0 and a reset, a shutdown or the end waits for them; then its host's ending
 *      counts it once.
 */
struct nvmesub_ctrl {
    struct snic_timer timer; /* KATO, or the idle limit                                       */
    struct snic_link order;  /* of the free list                                              */
    struct snic_link conns;
    struct snic_link aers;
    uint32_t *queue; /* by qid - 1: its connection, or NONE                                   */
    uint64_t *changed;
    uint8_t *resv_mask; /* by namespace                                                       */
    uint32_t admin;     /* its connection, or NONE                                            */
    uint32_t host;
    uint32_t rule; /* or NONE                                                                 */
    uint32_t epoch;
    uint32_t io;
    uint32_t cc;
    uint32_t csts;
    uint32_t kato_ms;
    uint32_t aec;
    uint32_t arbitration;
    uint32_t power;
    uint32_t temperature;
    uint32_t recovery;
    uint32_t events; /* SNIC_NVMESUB__EV_*: pending                                           */
    uint32_t masked;
    uint32_t aborts;
    uint32_t aer_count;
    uint32_t notice_count; /* in the ring                                                     */
    uint32_t notice_first;
    uint64_t notice_total;
    uint64_t error_total;
    uint8_t state;
    uint8_t draining;
    uint8_t reset;    /* CSTS.RDY becomes 0 when drained                                      */
    uint8_t shutdown; /* CSTS.SHST becomes complete when drained                              */
    uint8_t seen;     /* a command since the KATO timer was armed                               */
    uint8_t credit;
    uint8_t health; /* the critical warnings reported                                         */
    uint8_t behavior[512];
    struct nvmesub_notice notices[SNIC_NVMESUB_NOTICES_MAX];
    struct snic_nvme_error_entry errors[SNIC_NVMESUB_ERRORS_MAX];
};

/** An identity. */
struct nvmesub_host {
    struct nvmesub_out out; /* UNFENCE                                                        */
    struct snic_link held;
    uint32_t refs;          /* controllers                                                    */
    uint32_t registrations; /* namespaces                                                     */
    uint32_t ending;        /* N2                                                             */
    uint8_t used;
    uint8_t hostid[16];
    char nqn[SNIC_NVME_NQN_BYTES];
};

struct nvmesub_rule {
    uint8_t used;
    uint8_t flags;
    uint8_t count;
    struct snic_nvmesub_range ranges[SNIC_NVMESUB_RANGES_MAX];
    char nqn[SNIC_NVME_NQN_BYTES];
};

struct nvmesub_ns {
    struct nvmesub_out persist;
    struct nvmesub_out quiesce;
    struct snic_link waiting; /* commands                                                     */
    uint64_t *keys;           /* by host                                                      */
    uint64_t *regs;           /* bit per host                                                 */
    uint64_t *abort;          /* hosts of the next QUIESCE                                    */
    uint64_t blocks;
    uint64_t persist_want;
    uint64_t persist_sent;
    uint64_t persist_done;
    uint64_t quiesce_sent;
    uint64_t quiesce_done;
    uint32_t generation;
    uint32_t group;
    uint32_t optimal;
    uint32_t resv_gen;
    uint32_t holder; /* or NONE; with all registrants: NONE                                   */
    uint32_t registrants;
    uint8_t used;
    uint8_t removing;
    uint8_t removal_sent;
    uint8_t abort_wanted;
    uint8_t shift;
    uint8_t read_only;
    uint8_t rtype;
    uint8_t ptpl;
    uint8_t nguid[16];
    uint8_t uuid[16];
    uint8_t eui64[8];
};

struct nvmesub_group {
    uint64_t states; /* 4 bits per port                                                       */
    uint64_t changes;
    uint32_t namespaces;
};

struct nvmesub_entry {
    uint64_t *rules; /* bit per rule                                                          */
    uint8_t used;
    uint8_t all;
    struct snic_nvme_discovery_entry entry;
};

struct snic_nvmesub {
    struct snic_nvmesub_opts opts;
    char subnqn[SNIC_NVME_NQN_BYTES];
    char serial[20], model[40], firmware[8];
    struct snic_nvmesub_view view;
    struct snic_wheel wheel;
    struct snic_link out;
    uint64_t now;
    struct nvmesub_conn *conns;
    struct nvmesub_ctrl *ctrls;
    struct nvmesub_host *hosts;
    struct nvmesub_rule *rules;
    struct nvmesub_ns *ns;
    struct nvmesub_group *groups;
    struct nvmesub_entry *entries;
    struct snic_link free_conns;
    struct snic_link free_ctrls;
    uint64_t ana_changes;
    uint64_t genctr;
    uint32_t host_words;
    uint32_t rule_words;
    uint32_t ns_words;
    uint32_t closing; /* it is being removed */
    struct snic_nvme_smart smart;
    struct snic_nvmesub_stats stats;
};

/** A command while it is executed. */
struct nvmesub_req {
    struct snic_nvmesub *s;
    struct nvmesub_conn *conn;
    struct nvmesub_ctrl *ctrl;
    struct snic_nvmesub_cmd *cmd;
    struct snic_nvme_sqe sqe;
};

#define SNIC_NVMESUB__FAIL(code) (SNIC_NVME_SC_##code | SNIC_NVME_DNR)
/** A handler's result: it has kept the command. */
#define SNIC_NVMESUB__PENDING 0x10000U

static inline int nvmesub_bit(const uint64_t *words, uint32_t i)
{
    return (int)(words[i / 64] >> (i % 64) & 1);
}
static inline void nvmesub_bit_set(uint64_t *words, uint32_t i)
{
    words[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline void nvmesub_bit_clear(uint64_t *words, uint32_t i)
{
    words[i / 64] &= ~(UINT64_C(1) << (i % 64));
}
static inline uint32_t nvmesub_ctrl_slot(const struct snic_nvmesub *s, const struct nvmesub_ctrl *c)
{
    return (uint32_t)(c - s->ctrls);
}
static inline uint16_t nvmesub_cntlid(const struct snic_nvmesub *s, const struct nvmesub_ctrl *c)
{
    return (uint16_t)(nvmesub_ctrl_slot(s, c) + 1);
}
static inline int nvmesub_discovery(const struct snic_nvmesub *s)
{
    return (s->opts.flags & SNIC_NVMESUB_DISCOVERY) != 0;
}
/** The namespace, if it is there and not being removed. */
static inline struct nvmesub_ns *nvmesub_ns_find(const struct snic_nvmesub *s, uint32_t nsid)
{
    if (nsid == 0 || nsid > s->opts.namespaces_max || !s->ns[nsid - 1].used ||
        s->ns[nsid - 1].removing)
        return NULL;
    return &s->ns[nsid - 1];
}

/* opts.c */
/** Options with defaults in @p out. 0 or SNIC_EINVAL. */
int nvmesub_opts_read(struct snic_nvmesub_opts *out, const struct snic_nvmesub_opts *in);
/** 1 if @p nqn is a name with its zero in @p size bytes. */
int nvmesub_nqn_fine(const char *nqn, size_t size);

/* view.c */
void nvmesub_view_ns(struct snic_nvmesub *s, uint32_t nsid);
void nvmesub_view_ctrl(struct snic_nvmesub *s, const struct nvmesub_ctrl *c, int live);
void nvmesub_view_read(struct snic_nvmesub_view *v, uint32_t nsid, uint32_t host, uint32_t port,
                       struct nvmesub_seen *out);
/** 1: nothing was published about the namespace since a reader has seen @p sequence. */
int nvmesub_view_same(const struct snic_nvmesub_view *v, uint32_t nsid, uint64_t sequence);

/* out.c */
void nvmesub_out_push(struct snic_nvmesub *s, struct nvmesub_out *o, uint8_t kind);
void nvmesub_complete(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint32_t status);
void nvmesub_drop(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd);
/** Put it on a list, or with the owner. */
void nvmesub_keep(struct snic_nvmesub_cmd *cmd, struct snic_link *list, uint8_t state);
/** Hand a command to the owner as an action of @p kind. */
void nvmesub_to_owner(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd, uint8_t kind);
/** The command's data are @p bytes to it, or from it. 0 or a status. */
uint32_t nvmesub_data_in(const struct nvmesub_req *r, uint32_t bytes);
uint32_t nvmesub_data_out(const struct nvmesub_req *r, uint32_t bytes);

/** A window on a structure that is written front to back: only what is inside is stored. */
struct nvmesub_window {
    unsigned char *out;
    uint64_t from;
    uint64_t to;
    uint64_t at;
};
void nvmesub_window_put(struct nvmesub_window *w, const void *data, size_t size);

/* event.c */
void nvmesub_event(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t event);
/** The host has read the event's log page. */
void nvmesub_event_read(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint32_t event);
/** Complete event requests for which there are events. */
void nvmesub_event_pump(struct snic_nvmesub *s, struct nvmesub_ctrl *c);
/** A namespace changed: in the list of all controllers. */
void nvmesub_event_ns(struct snic_nvmesub *s, uint32_t nsid);
void nvmesub_event_all(struct snic_nvmesub *s, uint32_t event);
uint32_t nvmesub_aer(struct nvmesub_req *r);

/* host.c */
/** The rule of an NQN, or NULL. */
struct nvmesub_rule *nvmesub_rule_find(const struct snic_nvmesub *s, const char *nqn);
/** 1 if the rule admits the address. */
int nvmesub_rule_admits(const struct nvmesub_rule *r, const struct snic_nvmesub_range *address);
/** The identity, made if it is new; NONE: hosts_max. */
uint32_t nvmesub_host_get(struct snic_nvmesub *s, const uint8_t hostid[16], const char *nqn);
uint32_t nvmesub_host_find(const struct snic_nvmesub *s, const uint8_t hostid[16], const char *nqn);
/** Free the slot if nothing refers to it. */
void nvmesub_host_put(struct snic_nvmesub *s, uint32_t host);
void nvmesub_fence_raise(struct snic_nvmesub *s, uint32_t host);
/** The last one lets the Connects run that were held, when UNFENCE is polled. */
void nvmesub_fence_lower(struct snic_nvmesub *s, uint32_t host);

/* ns.c */
void nvmesub_ana_changed(struct snic_nvmesub *s);
static inline uint32_t nvmesub_ana_state(const struct snic_nvmesub *s, uint32_t group,
                                         uint32_t port)
{
    return (uint32_t)(s->groups[group - 1].states >> (4 * port) & 15);
}
void nvmesub_quiesce_next(struct snic_nvmesub *s, struct nvmesub_ns *n);
/** Complete what waits on the namespace and need not any more. */
void nvmesub_ns_wake(struct snic_nvmesub *s, struct nvmesub_ns *n, int error);

/* reserve.c */
uint32_t nvmesub_reserve(struct nvmesub_req *r);
/** Remove all registrants, at once and silently. */
void nvmesub_resv_forget(struct snic_nvmesub *s, struct nvmesub_ns *n);
/** The namespace's record must be stored before @p cmd (or none) completes. */
void nvmesub_persist(struct snic_nvmesub *s, struct nvmesub_ns *n, struct snic_nvmesub_cmd *cmd);

/* identify.c, log.c, feature.c */
uint32_t nvmesub_identify(struct nvmesub_req *r);
uint32_t nvmesub_get_log(struct nvmesub_req *r);
uint32_t nvmesub_get_features(struct nvmesub_req *r);
uint32_t nvmesub_set_features(struct nvmesub_req *r);

/* conn.c */
/** A controller and its I/O queues end; of its admin queue, too, if @p all. */
void nvmesub_ctrl_end(struct snic_nvmesub *s, struct nvmesub_ctrl *c, uint8_t reason, int all);
void nvmesub_ctrl_arm(struct snic_nvmesub *s, struct nvmesub_ctrl *c);
struct nvmesub_ctrl *nvmesub_ctrl_new(struct snic_nvmesub *s, struct nvmesub_conn *conn,
                                      uint32_t host, uint32_t rule);
/** No I/O queue is left: what waited for that happens. */
void nvmesub_ctrl_drained(struct snic_nvmesub *s, struct nvmesub_ctrl *c);
void nvmesub_conn_end(struct snic_nvmesub *s, struct nvmesub_conn *conn, uint8_t reason);
/** An I/O queue that its host deletes. */
void nvmesub_conn_delete(struct snic_nvmesub *s, struct nvmesub_conn *conn);

/* connect.c, property.c, admin.c */
uint32_t nvmesub_connect(struct nvmesub_req *r);
uint32_t nvmesub_property_get(struct nvmesub_req *r);
uint32_t nvmesub_property_set(struct nvmesub_req *r);
/** Enable a controller whose CC.EN is set. */
void nvmesub_ctrl_enable(struct snic_nvmesub *s, struct nvmesub_ctrl *c);
/** Execute, or execute again, a command that its connection holds. */
void nvmesub_execute(struct snic_nvmesub *s, struct snic_nvmesub_cmd *cmd);

#endif /* SNIC_NVMESUB_PRIV_H */
