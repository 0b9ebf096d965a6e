/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The node's inside: shared by the files of this module and its tests.
 *
 * wire.c bytes of messages; value.c memory for values; link.c datagrams, pieces; log.c what goes to
 * the log and comes back; node.c the two engines and the events between them; client.c operations;
 * replica.c memory, options, the outside.
 *
 * Invariants (numbered, cited in the code):
 * N1  Both engines are stepped from replica_step_ddp and replica_step_member only, which poll
 *     everything before they return. The membership is never stepped while it is polled: reports
 *     of the data path to it are kept in `due` until then. The data path may be stepped while
 *     the membership is polled (LEASE, VIEW), never the other way round.
 * N2  A value has one reference while the data path has its handle, one per operation it is part
 *     of, one per append that the log has not copied, one per hold.
 * N3  The log's reports of durability go to the engine that appended: each engine of this node has
 *     a number (`engine`), and answers to an earlier one's requests are dropped.
 * N4  A learner's first entry to the log retires everything before; so whatever FLUSH makes durable
 *     for it makes that durable, too (amendment A2).
 * N5  The membership sends nothing that depends on a record not yet durable: STORED follows the
 *     log's meta_stored().
 * N6  After `stopped` nothing is sent, stored or stepped; compaction may continue.
 */
#ifndef SNIC_REPLICA_PRIV_H
#define SNIC_REPLICA_PRIV_H

#include "snicstore/replica.h"

/* ---- wire.c ---- */

#define SNIC_REPLICA__RETIRE (1u << 16) /* of a log record's flags: an owner's flag */
#define SNIC_REPLICA__PACKET 16         /* a packet's header */
#define SNIC_REPLICA__FRAME 4           /* a frame's */
#define SNIC_REPLICA__DDP 72            /* a data-path message without its value */
#define SNIC_REPLICA__MEMBER 136
#define SNIC_REPLICA__PIECE 12 /* a piece's header */
#define SNIC_REPLICA__GRAIN 64 /* pieces are cut at multiples of it */
#define SNIC_REPLICA__RECORD 204
#define SNIC_REPLICA__DIGESTS 64 /* of a node, to each other one, when all restart */

enum replica_frame { REPLICA_DDP = 1, REPLICA_MEMBER, REPLICA_PIECE };

/* A part of a packet, as it lies there. */
struct replica_part {
    uint32_t kind; /* enum replica_frame */
    uint32_t size;
    const unsigned char *data;
};

/* Of a message that was cut. */
struct replica_cut {
    uint32_t crc;   /* of the whole */
    uint32_t total; /* bytes of the whole */
    uint32_t offset;
};

int replica_carries(const struct snic_ddp_msg *m);
void replica_put_packet(unsigned char *p, uint32_t size, uint32_t src, uint64_t cluster);
int replica_get_packet(const unsigned char *p, size_t size, uint64_t cluster, uint32_t *src);
int replica_get_part(const unsigned char *p, size_t size, size_t *at, struct replica_part *out);
void replica_put_frame(unsigned char *p, uint32_t kind, uint32_t size);
void replica_put_ddp(unsigned char *p, const struct snic_ddp_msg *m);
int replica_get_ddp(const unsigned char *p, size_t size, uint32_t value_max, struct snic_ddp_msg *m,
                    const unsigned char **value);
void replica_put_member(unsigned char *p, const struct snic_member_msg *m);
int replica_get_member(const unsigned char *p, size_t size, struct snic_member_msg *m);
void replica_put_cut(unsigned char *p, const struct replica_cut *c);
int replica_get_cut(const unsigned char *p, size_t size, uint32_t whole_max,
                    struct replica_cut *out);
void replica_put_record(unsigned char *p, const struct snic_member_record *r);
int replica_get_record(const unsigned char *p, size_t size, struct snic_member_record *r);

/* ---- value.c ---- */

#define SNIC_REPLICA__UNIT 128
#define SNIC_REPLICA__ORDERS 32
#define SNIC_REPLICA__NIL UINT32_MAX

enum replica_unit_state { REPLICA_U_INSIDE = 0, REPLICA_U_FREE, REPLICA_U_USED };

struct replica_unit {
    union {
        uint32_t next; /* free: the list */
        uint32_t refs; /* used: as many as there are operations and holds, whatever their number */
    };
    uint32_t prev;
    uint32_t size;
    uint16_t pad;
    uint8_t state; /* + 4: the engine has it (N2) */
    uint8_t order;
};

struct replica_values {
    unsigned char *base;
    struct replica_unit *unit;
    uint32_t units;
    uint32_t live;
    uint32_t free[SNIC_REPLICA__ORDERS];
    uint64_t used_bytes;
};

size_t replica_values_memsize(uint64_t bytes);
void replica_values_init(struct replica_values *v, void *mem, uint64_t bytes);
uint64_t replica_value_new(struct replica_values *v, uint32_t size);
void replica_value_hold(struct replica_values *v, uint64_t h);
void replica_value_drop(struct replica_values *v, uint64_t h);
void replica_value_give(struct replica_values *v, uint64_t h);
void replica_value_release(struct replica_values *v, uint64_t h);
void replica_values_reclaim(struct replica_values *v);
unsigned char *replica_value_at(const struct replica_values *v, uint64_t h, uint32_t *size);
int replica_values_check(const struct replica_values *v);

/* ---- The node ---- */

/* A datagram that is filled, or on its way. */
struct replica_send {
    struct snic_net_train train;
    struct snic_iov iov;
    struct snic_replica *r;
    unsigned char *data;
    uint32_t used;
    uint32_t next; /* free one */
};

/* A large message that is being collected. */
struct replica_whole {
    unsigned char *data;
    uint64_t *have; /* a bit per grain */
    uint64_t touched;
    uint32_t crc;
    uint32_t total;
    uint32_t missing; /* grains */
    uint32_t src;
    uint32_t used;
    uint32_t pad;
};

struct replica_peer {
    struct snic_net_addr addr;
    uint32_t open;  /* the datagram that is being filled, or none */
    uint32_t piece; /* of a large message, which goes first: see link.c */
};

/* What is on its way to the log: to be appended, then to be durable. */
enum replica_entry_kind { REPLICA_E_RECORD = 1, REPLICA_E_FLUSH, REPLICA_E_RETIRE };
struct replica_entry {
    struct snic_ddp_key key;
    uint64_t ts;
    uint64_t scope;
    uint64_t value;    /* held until the log has copied it (N2); 0: none */
    uint64_t position; /* in the log, once it is there */
    uint32_t kind;
    uint32_t flags;  /* SNIC_WAL_* */
    uint32_t id;     /* FLUSH */
    uint32_t engine; /* N3 */
};

/* A ring of entries: [head, mid) are in the log and not durable, [mid, tail) wait for it. */
struct replica_log {
    struct snic_wal *wal;
    struct snic_wal_opts opts;
    void *mem;
    size_t size;
    struct replica_entry *entry;
    uint32_t entries; /* power of two */
    uint32_t head;
    uint32_t mid;
    uint32_t tail;
    uint64_t durable;
    uint64_t retired;   /* position of the last RETIRE: what is before it is of no use */
    uint64_t store_id;  /* STORE under way, 0: none */
    uint32_t accepting; /* accept_tail is under way */
    uint32_t writable;
    int32_t refusal;   /* the log's last result for entry mid; 0: no entry, or not yet tried */
    uint32_t too_much; /* there was more in it than this node takes: nothing was loaded */
};

/* Reports of the data path that the membership has not yet had (N1). */
struct replica_due {
    uint8_t slow;
    uint8_t caught_up;
    uint8_t need_epoch;
    uint8_t log;
    uint16_t slow_mask;
    uint16_t pad;
};

enum replica_op_state { REPLICA_OP_FREE = 0, REPLICA_OP_FLIGHT, REPLICA_OP_DONE };

struct snic_replica {
    struct snic_replica_opts o; /* with all defaults */
    struct snic_net_dgram *dgram;
    struct snic_member *member;
    struct snic_ddp *ddp;
    void *ddp_mem;
    size_t ddp_size;
    struct snic_ddp_opts ddp_opts;
    struct snic_timer timer;   /* the engines' next deadline */
    struct snic_timer deliver; /* operations that are done, and notify: never inside a call */
    uint32_t state;            /* enum snic_replica_state */
    int32_t failure;           /* stop, because of this, when the step is over */
    uint32_t depth;            /* an engine is being polled (N1) */
    uint32_t notify;           /* due */

    /* Membership, as of the last VIEW. */
    struct snic_ddp_view view;
    uint32_t part;             /* enum snic_ddp_role that this engine has had last; FENCED: none */
    uint32_t part_incarnation; /* and under which */
    uint32_t spent;            /* this engine took part and was fenced: it is of no use any more */
    uint32_t engine;           /* N3 */
    uint32_t scopes;           /* numbers given */
    uint32_t restarts;         /* all do, and this node is not yet READY */
    uint32_t serves;           /* at the last notify */
    uint32_t log_good;
    uint64_t now_ns;
    uint64_t lease_ns;
    struct replica_due due;

    struct replica_values values;
    struct replica_log log;
    struct snic_link flight; /* operations */
    struct snic_link done;
    uint32_t ops;

    struct replica_peer peers[SNIC_DDP_NODES_MAX];
    struct replica_send *sends;
    uint32_t send_free;
    uint32_t sends_used;
    uint16_t to_flush;
    struct replica_whole *wholes;
    uint64_t touched;

    uint64_t events;
    uint64_t packets;
    uint64_t refused;
    uint64_t lost_sends;
    uint64_t lost_pieces;
    uint64_t no_room;
    uint64_t no_quorum;
};

/* The node stops when the step is over. */
static inline void replica_fail(struct snic_replica *r, int error)
{
    if (r->failure == 0)
        r->failure = error;
}

/* link.c */
uint32_t replica_link_least(const struct snic_replica_opts *o);
void replica_link_flush(struct snic_replica *r);
void replica_link_forget(struct snic_replica *r, uint32_t to);
void replica_link_ddp(struct snic_replica *r, uint16_t to, const struct snic_ddp_msg *msg);
void replica_link_member(struct snic_replica *r, uint16_t to, const struct snic_member_msg *m);
uint32_t replica_link_count(uint32_t datagram_max, uint32_t value_size);

/* link_in.c */
void replica_link_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                       uint32_t count);

/* node.c */
uint64_t replica_clock(const struct snic_replica *r);
uint64_t replica_now(struct snic_replica *r);
int replica_step_ddp(struct snic_replica *r, const struct snic_ddp_event *ev);
int replica_step_member(struct snic_replica *r, const struct snic_member_event *ev);
void replica_forget_all(struct snic_replica *r);
void replica_settle(struct snic_replica *r);
void replica_boot(struct snic_replica *r, const struct snic_member_record *record, int good,
                  int ran);
void replica_timer_fire(struct snic_timer *t, uint64_t now_ns);

/* answer.c */
void replica_client_done(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_client_end(struct snic_replica *r);
void replica_deliver(struct snic_replica *r);
void replica_deliver_fire(struct snic_timer *t, uint64_t now_ns);

/* log.c */
void replica_log_layout(struct snic_arena *a, struct snic_replica *r);
void replica_log_accept(struct snic_replica *r);
int replica_log_next(struct snic_replica *r, struct replica_entry *out);
int replica_log_keep(void *ctx, const struct snic_wal_record *rec);
void replica_log_stop(struct snic_replica *r);
void replica_log_fini(struct snic_replica *r);
enum replica_room { REPLICA_ROOM_RECORD = 0, REPLICA_ROOM_TOMBSTONE };
int replica_log_room(const struct snic_replica *r, enum replica_room of);
void replica_log_append(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_log_flush(struct snic_replica *r, uint32_t id);
void replica_log_store(struct snic_replica *r, uint64_t id, const struct snic_member_record *rec);
void replica_log_forget(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_log_retire(struct snic_replica *r);

/* log_events.c */
int replica_log_open(struct snic_replica *r);

#endif /* SNIC_REPLICA_PRIV_H */
