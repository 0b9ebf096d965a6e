/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The node's inside: shared by the files of this module and its tests.
 *
 * wire.c bytes of messages; value.c memory for values; conn.c, peer.c, queue.c, link.c, dgram.c
 * connections and datagrams (README.md); log.c what goes to the log and comes back; node.c the two
 * engines and the events between them; client.c operations; replica.c memory, options, the outside.
 *
 * Invariants (numbered, cited in the code):
 * N1  Both engines are stepped from replica_step_ddp and replica_step_member only, which poll
 *     everything before they return. The membership is never stepped while it is polled: reports
 *     of the data path to it are kept in `due` until then. The data path may be stepped while
 *     the membership is polled (LEASE, VIEW), never the other way round.
 * N2  A value has one reference while the data path has its handle, one per operation it is part
 *     of, one per append that the log has not copied, one per message to another node whose bytes
 *     were not copied, one while it arrives, one per hold.
 * N3  The log's reports of durability go to the engine that appended: each engine of this node has
 *     a number (`engine`), and answers to an earlier one's requests are dropped.
 * N4  A learner's log stays as it is, and what is on its way to it stays so: all of it is before
 *     the FLUSH that the engine begins with. What the donor does not have is dropped from it record
 *     by record. But a log that cannot be used as it is, since records are missing in it or did not
 *     fit the table, is retired as a whole by the learner's first entry.
 * N5  The membership sends nothing that depends on a record not yet durable: STORED follows the
 *     log's meta_stored().
 * N6  After `stopped` nothing is sent, stored or stepped; compaction may continue.
 */
#ifndef SNIC_REPLICA_PRIV_H
#define SNIC_REPLICA_PRIV_H

#include "snicstore/replica.h"

/* ---- wire.c ---- */

/* Of a log record's flags, owner's flags: see FORMAT.md. */
#define SNIC_REPLICA__RETIRE (1u << 16)
#define SNIC_REPLICA__REPLACES (1u << 17)
#define SNIC_REPLICA__DROPS (1u << 18)
#define SNIC_REPLICA__WIRE_LOWEST 3 /* versions of the wire that are understood */
#if !defined(SNIC_REPLICA__WIRE_HIGHEST)
#define SNIC_REPLICA__WIRE_HIGHEST 3
#endif
#define SNIC_REPLICA__PACKET 32     /* a datagram's header */
#define SNIC_REPLICA__DATAGRAM 1400 /* the largest one */
#define SNIC_REPLICA__BLOCK 8       /* header of a block of a stream */
#define SNIC_REPLICA__BODY 8192     /* the rest of a block, at most */
#define SNIC_REPLICA__TAG 16
#define SNIC_REPLICA__FRAME 4     /* a frame's header */
#define SNIC_REPLICA__DDP 72      /* a data-path message without its value */
#define SNIC_REPLICA__DDP_MOST 80 /* of any version */
#define SNIC_REPLICA__MEMBER 80   /* a membership message without its view */
#define SNIC_REPLICA__VIEW 34     /* a view's head, */
#define SNIC_REPLICA__VIEW_NODE 9 /* and of a node in it, without its address */
#define SNIC_REPLICA__VIEW_MAX (34 + 16 * (9 + SNIC_MEMBER_ADDR_MAX))
#define SNIC_REPLICA__HELLO 80
#define SNIC_REPLICA__CREDIT 32
#define SNIC_REPLICA__TIMES 32
#define SNIC_REPLICA__RECORD_HEAD 52
#define SNIC_REPLICA__RECORD (52 + 2 * SNIC_REPLICA__VIEW_MAX) /* at most */

enum replica_frame {
    REPLICA_DDP = 1, /* a message without value, whole */
    REPLICA_MEMBER,
    REPLICA_HELLO,
    REPLICA_CREDIT,
    REPLICA_PING,
    REPLICA_PONG,
    REPLICA_BYTES, /* of a channel: messages one after the other, each with its value */
    REPLICA_TIMES,
    REPLICA_FRAMES
};

/* Messages of a channel arrive in the order in which they were sent; of different ones, not. */
enum replica_channel {
    REPLICA_CH_CONTROL = 0, /* no values, taken at once */
    REPLICA_CH_WRITES,
    REPLICA_CH_RECORDS, /* a learner's transfer */
    REPLICA_CHANNELS
};

/* A part of a datagram or block, as it lies there. */
struct replica_part {
    uint32_t kind; /* enum replica_frame */
    uint32_t channel;
    uint32_t size;
    const unsigned char *data;
};

enum { REPLICA_SEALED = 1 << 0 }; /* of a packet, a block, a hello */
enum { REPLICA_REPLY = 1 << 1 };  /* of a hello */

/* A datagram's header. */
struct replica_packet {
    uint32_t version;
    uint32_t src;
    uint32_t dst;
    uint32_t lowest; /* versions that the sender understands */
    uint32_t highest;
    uint32_t flags;
    uint32_t session; /* SEALED: of the keys; else of the sender's process */
    uint32_t pad;
    uint64_t cluster;
    uint64_t counter; /* SEALED: the nonce */
};

/* The first frame of each side of a connection, not sealed; the same in all versions. */
struct replica_hello {
    uint32_t lowest;
    uint32_t highest;
    uint32_t src;
    uint32_t dst;
    uint32_t flags;
    uint32_t model;
    int32_t refusal; /* REPLY: SNIC_E* of replica_refusal(), 0: agreed */
    uint32_t value_max;
    uint64_t cluster;
    uint64_t boot; /* of the sender's process */
    unsigned char nonce[16];
    unsigned char echo[16]; /* REPLY: the other's nonce */
    unsigned char mac[16];
};

/* What the receiver of a stream permits and has taken. */
struct replica_credit {
    uint64_t limit[2];                /* bytes of WRITES and RECORDS, from the first on */
    uint32_t taken[REPLICA_CHANNELS]; /* messages, likewise */
    uint32_t stalls;                  /* how often one of them had to wait there */
};

/* The sender's clock, and what its log takes. */
struct replica_times {
    uint64_t stamp;
    uint64_t echo;    /* the last stamp received from the receiver; 0: none */
    uint64_t held_ns; /* and how long ago that was */
    uint32_t flush_us;
    uint32_t flushing_us; /* a flush that is under way, so far; 0: none is */
};

const char *replica_refusal(int why);
int replica_same_host(const struct snic_net_addr *a, const struct snic_net_addr *b);
int replica_carries(const struct snic_ddp_msg *m);
int replica_logs(const struct snic_ddp_msg *m);
uint32_t replica_channel_of(const struct snic_ddp_msg *m);
void replica_put_packet(unsigned char *p, const struct replica_packet *h);
void replica_put_packet_crc(unsigned char *p, uint32_t size);
int replica_get_packet(const unsigned char *p, size_t size, struct replica_packet *h);
void replica_put_block(unsigned char *p, uint32_t body, uint32_t flags);
void replica_put_block_crc(unsigned char *p, uint32_t body);
int replica_get_block(const unsigned char *p, uint32_t *body, uint32_t *flags);
int replica_get_block_crc(const unsigned char *p, uint32_t body);
int replica_get_part(const unsigned char *p, size_t size, size_t *at, struct replica_part *out);
void replica_put_frame(unsigned char *p, uint32_t kind, uint32_t channel, uint32_t size);
void replica_put_hello(unsigned char *p, const struct replica_hello *h);
int replica_get_hello(const unsigned char *p, size_t size, struct replica_hello *h);
void replica_put_credit(unsigned char *p, const struct replica_credit *c);
int replica_get_credit(const unsigned char *p, size_t size, struct replica_credit *c);
void replica_put_times(unsigned char *p, const struct replica_times *t);
int replica_get_times(const unsigned char *p, size_t size, struct replica_times *t);
uint32_t replica_ddp_size(uint32_t version);
void replica_put_ddp(unsigned char *p, uint32_t version, const struct snic_ddp_msg *m);
void replica_get_key(const unsigned char *p, struct snic_ddp_key *out);
int replica_get_ddp(const unsigned char *p, uint32_t version, uint32_t value_max,
                    struct snic_ddp_msg *m);
uint32_t replica_put_member(unsigned char *p, const struct snic_member_msg *m);
int replica_get_member(const unsigned char *p, size_t size, struct snic_member_msg *m);
uint32_t replica_put_record(unsigned char *p, const struct snic_member_record *r);
int replica_get_record(const unsigned char *p, size_t size, struct snic_member_record *r);

int replica_put_addr(uint8_t *out, const struct snic_net_addr *a);
int replica_get_addr(const uint8_t *p, struct snic_net_addr *out);
int replica_put_client(uint8_t *p, const struct snic_net_addr *a);
int replica_get_client(const uint8_t *p, struct snic_net_addr *out);

/* ---- value.c ---- */

#define SNIC_REPLICA__UNIT 128
#define SNIC_REPLICA__CLASSES 256 /* of sizes: up to 2^30 units */
#define SNIC_REPLICA__NIL UINT32_MAX

enum replica_unit_state { REPLICA_U_INSIDE = 0, REPLICA_U_FREE, REPLICA_U_USED, REPLICA_U_LAST };

struct replica_unit {
    union {
        uint32_t next; /* free: the list */
        uint32_t refs; /* used: as many as there are operations and holds, whatever their number */
    };
    uint32_t prev;
    union {
        uint32_t units; /* of a free block */
        uint32_t size;  /* used: bytes */
        uint32_t first; /* in the last unit of a free block */
    };
    uint32_t state; /* + 4: the engine has it (N2) */
};

struct replica_values {
    unsigned char *base;
    struct replica_unit *unit;
    uint32_t units;
    uint32_t live;
    uint32_t free[SNIC_REPLICA__CLASSES];
    uint64_t classes[SNIC_REPLICA__CLASSES / 64]; /* a bit for each list that is not empty */
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
/* The same of a value whose size is known: of its unit, a cache miss, nothing is needed. */
static inline const unsigned char *replica_value_bytes(const struct replica_values *v, uint64_t h)
{
    SNIC_ASSERT(h != 0 && h <= v->units);
    return v->base + (h - 1) * SNIC_REPLICA__UNIT;
}
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

/* ---- Connections: conn.c, peer.c, queue.c, link.c, link_in.c ---- */

#define SNIC_REPLICA__SENDS 8       /* datagrams of each other node */
#define SNIC_REPLICA__BUFFER 32768  /* bytes of one of a connection's two buffers to send */
#define SNIC_REPLICA__REPLAY 64     /* datagrams that may come behind a later one, sealed */
#define SNIC_REPLICA__CONNS_MORE 10 /* beside two for each other node */

/* Of one direction. The nonce is `count`; every 2^24th takes a new key, made of the old one. */
struct replica_key {
    unsigned char bytes[16];
    uint64_t count;
};

/* A message to another node, from the engine's SEND until the node has taken it. */
struct replica_out {
    uint64_t value; /* a reference until its bytes are copied (N2); 0: none */
    uint64_t queued_ns;
    uint32_t length; /* of the value */
    uint32_t next;   /* of its list */
    uint32_t hashed; /* next of its bucket */
    uint32_t bucket;
    uint8_t channel;
    uint8_t sent;
    uint8_t size; /* of head */
    uint8_t pad;
    unsigned char head[SNIC_REPLICA__DDP_MOST];
};

struct replica_outs {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/* A channel to another node. Of the first message that waits `offset` bytes were sent. */
struct replica_to {
    struct replica_outs wait;
    struct replica_outs sent; /* and not yet taken there */
    uint64_t bytes;           /* sent */
    uint64_t limit;           /* that may be sent */
    uint64_t queued;          /* bytes of values that wait */
    uint32_t offset;
    uint32_t taken; /* messages, by the last credit */
};

enum replica_block_reason { REPLICA_FREE = 0, REPLICA_NO_VALUE, REPLICA_NO_LOG, REPLICA_NO_ENGINE };

/* A channel from another node (link_in.c). */
struct replica_from {
    unsigned char *ring; /* bytes that cannot be taken yet */
    uint64_t arrived;    /* bytes */
    uint64_t taken;
    uint64_t granted;  /* came stays at or below it */
    uint64_t value;    /* of the message that comes in; 0: none */
    uint64_t since_ns; /* that it is blocked */
    uint32_t blocked;  /* enum replica_block_reason */
    uint32_t ring_at;  /* of the first byte in the ring */
    uint32_t ring_used;
    uint32_t have;           /* bytes of the message's head */
    uint32_t got;            /* bytes of its value */
    uint32_t skip;           /* its value found no memory: it is lost */
    struct snic_ddp_msg msg; /* once its head is here */
    unsigned char head[SNIC_REPLICA__DDP_MOST];
};

enum replica_buffer_state { REPLICA_BUF_FREE = 0, REPLICA_BUF_READY, REPLICA_BUF_BUSY };
struct replica_buffer {
    struct snic_net_send_req req;
    struct snic_iov iov;
    struct replica_conn *conn;
    unsigned char *data;
    uint32_t used;
    uint32_t state; /* enum replica_buffer_state */
};

/* Keys of sealed datagrams: those of the last connection, and of the one before it. */
struct replica_session {
    struct replica_key out;
    struct replica_key in;
    uint64_t top;    /* the highest counter received */
    uint64_t window; /* bit i: top - i was received */
    uint32_t number;
    uint32_t used; /* 0: none */
};

enum replica_conn_state {
    REPLICA_CONN_NONE = 0,
    REPLICA_CONN_OPENING, /* connect is under way */
    REPLICA_CONN_HELLO,   /* the other's hello has not come */
    REPLICA_CONN_PROOF,   /* the other's first block under the keys has not come */
    REPLICA_CONN_UP,
    REPLICA_CONN_ENDING /* `closed` has not come */
};
struct replica_conn {
    struct snic_replica *r;
    struct snic_net_conn *c;
    struct snic_net_addr addr; /* accepted: of the other side */
    uint64_t since_ns;         /* in this state */
    uint64_t heard_ns;         /* last bytes received */
    uint64_t boot;             /* of the other's process */
    uint32_t peer;             /* SNIC_REPLICA__NIL: not known yet */
    uint32_t state;            /* enum replica_conn_state */
    uint32_t initiator;
    uint32_t version;
    uint32_t have; /* bytes of the block that comes in */
    uint32_t turn; /* the buffer that is sent next */
    unsigned char nonce[16];
    unsigned char other[16];
    struct replica_key out;
    struct replica_key in;
    struct replica_session session; /* of its datagrams */
    struct replica_buffer buffer[2];
    unsigned char *block;
};

struct replica_peer {
    struct snic_net_addr addr;
    struct replica_conn *conn; /* UP, or NULL */
    uint32_t open;             /* the datagram that is being filled, or none */
    uint32_t highest;          /* version that it understands, as far as is known */
    uint32_t out_free;
    uint32_t outs_free; /* that list's length: walking it in checks took half of a simulation */
    struct replica_out *outs;
    uint32_t *buckets;
    struct replica_to to[REPLICA_CHANNELS];
    struct replica_from from[REPLICA_CHANNELS]; /* of CONTROL only what was taken */
    uint32_t taken[REPLICA_CHANNELS];           /* messages */
    struct replica_credit credit;               /* as last sent */
    uint32_t their_stalls;
    uint32_t pad;
    uint64_t credit_at_ns; /* it is due then; SNIC_NEVER: nothing is owed */
    uint32_t ping;         /* to be sent: 1 PING, 2 PONG */
    uint32_t pinged;       /* PING is out, nothing has come since */
    uint64_t pinged_ns;
    struct replica_session session[2];
    uint64_t boot;       /* of its process, by its connection */
    uint64_t connect_ns; /* the next attempt */
    uint64_t backoff_ns;
    uint64_t up_ns;    /* since when its last connection was UP; 0: see backoff_ns */
    uint64_t probe_ns; /* no probe before */
    /* Measured. */
    uint64_t stamp; /* its last */
    uint64_t stamp_ns;
    uint64_t rtt_ns;
    uint64_t rtt_var_ns;
    uint64_t path_ns; /* from SEND to taken */
    uint64_t flush_ns;
    uint64_t flushing_ns;
    uint64_t heard_ns; /* engines' clock */
    const char *refusal;
    uint64_t sent;
    uint64_t sent_bytes;
    uint64_t received;
    uint64_t repeats;
    uint64_t lost;
    uint64_t connects;
    uint64_t stalls;
};

/* The last durations passed to the data path (SNIC_DDP_TIMES), and the log's. */
struct replica_pace {
    uint64_t retransmit_ns;
    uint64_t replay_ns;
    uint64_t log_ns;
    uint64_t flush_ns;
    uint32_t due; /* to be passed; 2: with AGAIN */
    uint32_t pad;
};

/* What is on its way to the log: to be appended, then to be durable. */
enum replica_entry_kind {
    REPLICA_E_RECORD = 1,
    REPLICA_E_FLUSH,
    REPLICA_E_RETIRE,
    REPLICA_E_DROP /* of a key, what is before it */
};
struct replica_entry {
    struct snic_ddp_key key;
    uint64_t ts;
    uint64_t scope;
    uint64_t value;    /* held until the log has copied it (N2); 0: none */
    uint64_t position; /* in the log, once it is there */
    uint64_t at_ns;    /* since when it waits for the log, 0: in the background */
    uint32_t kind;
    uint32_t flags;  /* SNIC_WAL_* */
    uint32_t id;     /* FLUSH */
    uint32_t engine; /* N3 */
    uint32_t alone;  /* RECORD: what the log has of its key gives way to it */
    uint32_t pad;
};

/* A ring of entries: [head, mid) are in the log and not durable, [mid, tail) wait for it. */
struct replica_log {
    struct snic_wal *wal;
    struct snic_wal_opts opts;
    void *mem;
    size_t size;
    struct replica_entry *entry;
    uint64_t *since;  /* by entry of the table: the key's records before this position are void */
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
    uint32_t gaps;     /* records are missing in it */
    uint32_t pad;
};

/* Reports of the data path that the membership has not yet had (N1). */
struct replica_due {
    uint8_t slow;
    uint8_t silent;
    uint8_t caught_up;
    uint8_t need_epoch;
    uint8_t log;
    uint8_t pad;
    uint16_t slow_mask; /* keep writes waiting */
    uint16_t slow_logs; /* of them: respond, their logs are slow */
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
    uint16_t floor;            /* min_full of the view that the data path has */
    uint32_t spent;            /* this engine took part and was fenced: it is of no use any more */
    uint32_t engine;           /* N3 */
    uint32_t scopes;           /* numbers given */
    uint32_t restarts;         /* all do, and this node is not yet READY */
    uint32_t serves;           /* at the last notify */
    uint32_t readable;         /* the engine served when it was last settled */
    uint32_t log_good;
    uint32_t found_ignored; /* FOUND, and the log shows an earlier run */
    uint64_t now_ns;
    uint64_t lease_ns;
    struct replica_due due;

    struct replica_values values;
    struct replica_log log;
    struct snic_link flight; /* operations */
    struct snic_link
        confirms; /* of them GETs that wait for a majority; in `ts` for which request */
    struct snic_link done;
    uint32_t ops;

    struct replica_peer peers[SNIC_DDP_NODES_MAX];
    struct replica_peer spare[SNIC_DDP_NODES_MAX]; /* memory for nodes that are added */
    uint32_t spare_count;
    struct replica_send *sends; /* datagrams */
    uint32_t send_free;
    uint32_t sends_used;
    uint16_t to_flush;
    uint16_t others;  /* configured ones but this node */
    uint16_t to_pump; /* nodes that something can be sent to */
    uint32_t send_count;
    struct snic_net_listener *listener;
    struct replica_conn *conns;
    uint32_t conn_count;
    uint32_t conns_live;
    uint32_t blocked;  /* channels from others that wait for something here */
    uint32_t retrying; /* their retry is what happens now */
    struct snic_timer link_timer;
    uint64_t link_at; /* when it is due; SNIC_NEVER */
    uint64_t boot;    /* of this process */
    uint64_t drawn;   /* random numbers */
    uint32_t wire_lowest;
    uint32_t wire_highest;
    unsigned char gcm_has[16]; /* the key that the cipher has */
    uint32_t gcm_any;
    struct replica_pace pace;

    uint64_t events;
    uint64_t packets;
    uint64_t refused;
    uint64_t lost_sends;
    uint64_t no_room;
    uint64_t wrong_cluster;
    uint64_t wrong_version;
    uint64_t wrong_key;
    uint64_t no_quorum;
};

/* How long the log's oldest entry that an answer waits for is under way; 0: none is. */
static inline uint64_t replica_log_running(const struct snic_replica *r)
{
    const struct replica_log *l = &r->log;
    const struct replica_entry *e = &l->entry[l->head & (l->entries - 1)];
    return l->head != l->mid && e->at_ns != 0 ? snic_loop_clock(r->o.loop) - e->at_ns : 0;
}

/* The node stops when the step is over. */
static inline void replica_fail(struct snic_replica *r, int error)
{
    if (r->failure == 0)
        r->failure = error;
}

/* seal.c */
void replica_draw(struct snic_replica *r, void *out, size_t size);
void replica_hello_seal(struct snic_replica *r, unsigned char *p);
int replica_hello_right(struct snic_replica *r, const unsigned char *p);
int replica_conn_keys(struct snic_replica *r, struct replica_conn *k, struct replica_session *s);
int replica_key_next(struct snic_replica *r, struct replica_key *k);
int replica_seal(struct snic_replica *r, const struct replica_key *k, const void *aad,
                 size_t aad_size, unsigned char *body, uint32_t size);
int replica_open(struct snic_replica *r, const struct replica_key *k, const void *aad,
                 size_t aad_size, unsigned char *out, const unsigned char *body, uint32_t size);
int replica_replay_fresh(const struct replica_session *s, uint64_t counter);
void replica_replay_note(struct replica_session *s, uint64_t counter);

/* queue.c */
uint32_t replica_link_number(const struct snic_replica *r, const struct replica_peer *p);
uint32_t replica_outs_pop(struct replica_peer *p, struct replica_outs *l);
void replica_out_free(struct snic_replica *r, struct replica_peer *p, uint32_t i);
void replica_out_sent(struct replica_peer *p, struct replica_to *t);
void replica_to_empty(struct snic_replica *r, struct replica_peer *p, struct replica_outs *l);
void replica_link_ddp(struct snic_replica *r, uint16_t to, const struct snic_ddp_msg *msg);
void replica_link_epoch(struct snic_replica *r);

/* peer.c */
void replica_link_wake(struct snic_replica *r, uint64_t at);
void replica_link_heard(struct snic_replica *r, struct replica_peer *p);
void replica_link_probe(struct snic_replica *r, struct replica_peer *p);
void replica_link_count(struct snic_replica *r, int why);
void replica_link_name(struct snic_replica *r, struct replica_peer *p, int why);
void replica_link_reset(struct snic_replica *r, struct replica_peer *p);
void replica_conn_leave(struct snic_replica *r, const struct replica_conn *k);
void replica_conn_abort(struct replica_conn *k);
void replica_link_stop(struct snic_replica *r);
void replica_link_layout(struct snic_arena *a, struct snic_replica *r);
void replica_link_know(struct snic_replica *r, uint16_t view, uint32_t n,
                       const struct snic_net_addr *addr);
uint32_t replica_link_places(const struct snic_replica *r);
int replica_link_check(const struct snic_replica *r);

/* link.c */
void replica_link_flush(struct snic_replica *r);
void replica_link_pump(struct snic_replica *r, struct replica_peer *p);
int replica_link_push(struct replica_conn *k);
int replica_link_credit(struct snic_replica *r, struct replica_peer *p,
                        const struct replica_credit *c);
void replica_link_owe(struct snic_replica *r, struct replica_peer *p);

/* dgram.c */
void replica_link_member(struct snic_replica *r, uint16_t to, const struct snic_member_msg *m);
void replica_dgram_flush(struct snic_replica *r);
void replica_dgram_forget(struct snic_replica *r, uint32_t to);

/* pace.c */
void replica_pace_rtt(struct snic_replica *r, struct replica_peer *p,
                      const struct replica_times *t);
void replica_pace_path(struct replica_peer *p, uint64_t ns);
void replica_pace_flush(struct snic_replica *r, uint64_t ns);
void replica_pace_update(struct snic_replica *r);
void replica_pace_again(struct snic_replica *r);

/* link_in.c */
int replica_link_block(struct snic_replica *r, struct replica_peer *p, struct replica_conn *k,
                       const unsigned char *body, uint32_t size);
void replica_link_retry(struct snic_replica *r);

/* dgram_in.c */
void replica_dgram_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                        uint32_t count);

/* conn.c */
int replica_conn_open(struct snic_replica *r);
void replica_conn_fire(struct snic_timer *t, uint64_t now_ns);

/* node.c */
uint64_t replica_clock(const struct snic_replica *r);
int replica_step_ddp(struct snic_replica *r, const struct snic_ddp_event *ev);
int replica_step_member(struct snic_replica *r, const struct snic_member_event *ev);
void replica_forget_all(struct snic_replica *r);
int replica_shed(struct snic_replica *r);
uint64_t replica_value_take(struct snic_replica *r, uint32_t size);
void replica_settle(struct snic_replica *r);
void replica_addrs(struct snic_replica *r, const struct snic_member_view *v);
void replica_boot(struct snic_replica *r, const struct snic_member_record *record, int good,
                  int ran);
void replica_timer_fire(struct snic_timer *t, uint64_t now_ns);

/* answer.c */
void replica_client_done(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_client_end(struct snic_replica *r);
void replica_op_finish(struct snic_replica *r, struct snic_replica_op *op, int result);
void replica_client_unconfirmed(struct snic_replica *r);
void replica_deliver(struct snic_replica *r);
void replica_deliver_fire(struct snic_timer *t, uint64_t now_ns);

/* log.c */
void replica_log_layout(struct snic_arena *a, struct snic_replica *r);
void replica_log_accept(struct snic_replica *r);
int replica_log_next(struct snic_replica *r, struct replica_entry *out);
int replica_log_stuck(struct replica_log *l);
int replica_log_yield(struct snic_replica *r);
void replica_log_ahead(const struct snic_replica *r);
void replica_log_has(struct snic_replica *r, const struct snic_ddp_key *key, uint64_t ts,
                     uint64_t position);
int replica_log_keep(void *ctx, const struct snic_wal_record *rec);
void replica_log_stop(struct snic_replica *r);
void replica_log_fini(struct snic_replica *r);
enum replica_room { REPLICA_ROOM_PUT = 0, REPLICA_ROOM_RECORD, REPLICA_ROOM_TOMBSTONE };
int replica_log_room(const struct snic_replica *r, enum replica_room of);
void replica_log_append(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_log_flush(struct snic_replica *r, uint32_t id);
void replica_log_store(struct snic_replica *r, uint64_t id, const struct snic_member_record *rec);
void replica_log_forget(struct snic_replica *r, const struct snic_ddp_action *a);
void replica_log_retire(struct snic_replica *r);
int replica_log_taken(struct snic_replica *r, uint32_t *at, struct replica_entry *out);

/* log_events.c */
int replica_log_open(struct snic_replica *r);

#endif /* SNIC_REPLICA_PRIV_H */
