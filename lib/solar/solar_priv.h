/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SOLAR's internals: shared by the files of this module and its tests.
 *
 * I1  A transmission has a path_seq of its own and is in its path's ring from sending until it is
 *     answered, declared lost, or the path closes. Those from una up to next_seq are in the ring;
 *     no more than SNIC_SOLAR__RING at a time. They are in the order in which they were sent, so
 *     that one timer per path serves them all.
 * I2  inflight of a path is the sum of the weights in its ring; write_out of a server the sum of
 *     those of writes over its paths.
 * I3  A block of an RPC is unsent (at `next` or above), acked, to be sent again (need), or its last
 *     copy is in the ring of b.path under b.seq.
 * I4  Lists, disks and versions: Q1 to Q5 of ebs/queue.h. backlog of a load is the sum over its
 *     RPCs of blocks never sent.
 * I5  read_out is 4096 times the blocks of read RPCs that have their credit and are not acked.
 * I6  A train's data stay valid: an RPC is not released while refs counts trains with its blocks.
 */
#ifndef SNIC_SOLAR_PRIV_H
#define SNIC_SOLAR_PRIV_H

#include "ebs/opts.h"
#include "ebs/queue.h"
#include "snicstore/solar.h"
#include "solar/wire_priv.h"

#define SNIC_SOLAR__NIL UINT32_MAX
#define SNIC_SOLAR__RING 512u      /* transmissions of a path that are remembered */
#define SNIC_SOLAR__ONE 1024u      /* a block, in units of a window */
#define SNIC_SOLAR__WINDOW_MIN 10u /* 0.01 blocks */
#define SNIC_SOLAR__REORDER 3u
#define SNIC_SOLAR__REORDER_MAX 128u
#define SNIC_SOLAR__BAD_PORTS 16u
#define SNIC_SOLAR__BAD_PORT_NS UINT64_C(60000000000)
#define SNIC_SOLAR__MS UINT64_C(1000000)
#define SNIC_SOLAR__US UINT64_C(1000)
#define SNIC_SOLAR__NO_PATH 255
#define SNIC_SOLAR__MISSES 3     /* PROBEs or HELLOs in a row without an answer */
#define SNIC_SOLAR__WORTH 8      /* answers that show that a new port was of use */
#define SNIC_SOLAR__FUTILE_MAX 4 /* each such port in a row is kept longer, to about 100 ms */
#define SNIC_SOLAR__LATE_MAX (100 * SNIC_SOLAR__MS) /* later answers count as lost */
#define SNIC_SOLAR__PIECES 3u                       /* per packet of a train: headers, data, tag */
/* Bytes of a train per packet beside data: headers, INT, a READ_REQ's slots, tag. */
#define SNIC_SOLAR__HEAD                                                                           \
    (SNIC_EBS_PREFIX_BYTES + SNIC_EBS_READ_BLOCKS * SNIC_EBS_SLOT_BYTES + SNIC_EBS_TAG_BYTES)

struct solar_rpc;

enum solar_tx_kind { SOLAR_TX_NONE = 0, SOLAR_TX_WRITE, SOLAR_TX_READ, SOLAR_TX_PROBE };

struct solar_tx {
    uint64_t sent_ns;
    uint64_t rpc_id;
    uint64_t need; /* ASK: blocks that this one requested and that are not received */
    uint32_t seq;
    uint32_t last_in; /* ASK: path_seq of its latest answer */
    uint64_t held_ns; /* time of the server's report that it has it; 0: none */
    uint8_t kind;     /* enum solar_tx_kind; NONE: answered or lost */
    uint8_t pkt;
    uint8_t weight; /* blocks of inflight */
    uint8_t any;    /* ASK: last_in is set */
    uint32_t pad;
};

/* Congestion state of a path: windows in 1/SNIC_SOLAR__ONE blocks. */
struct solar_cc {
    uint32_t window[2];  /* fabric, end */
    uint64_t cut_ns[2];  /* decreased last */
    uint64_t over_ns[2]; /* since when all delays were above the target; 0 */
    uint64_t target_ns;  /* of the fabric's delay, without min_rtt */
    uint64_t hold_min_ns;
    /* HPCC */
    uint32_t wc;
    uint32_t stage;
    uint32_t round_seq;
    uint32_t u; /* Q16 */
    struct snic_ebs_int last;
    uint32_t telemetry; /* 1: the fabric's window is HPCC's */
};

enum { SOLAR_PENDING_CLOSE = 1, SOLAR_PENDING_OPEN = 2 };

struct solar_path {
    struct snic_timer timer;
    struct snic_solar *c;
    struct snic_link event; /* on c->path_events unless pending is 0 */
    uint32_t server;
    uint16_t gen;
    uint16_t close_gen;
    uint16_t port;
    uint8_t index;
    uint8_t state; /* enum snic_solar_path_state */
    uint8_t pending;
    uint8_t timeouts;  /* in a row */
    uint8_t answers;   /* PROBING: probes answered */
    uint8_t misses;    /* PROBEs and HELLOs not answered, in a row */
    uint8_t refusals;  /* of ports */
    uint8_t tail_done; /* the last packet was hedged */
    uint8_t have_srv_seq;
    uint8_t paced;    /* a train waits for pace_ns */
    uint8_t proven;   /* the server has this port's proof */
    uint8_t futile;   /* ports in a row that were of no use */
    uint32_t srv_seq; /* the highest path_seq received */
    uint32_t next_seq;
    uint32_t una;
    uint32_t inflight;
    uint32_t reorder;
    uint32_t queried;    /* una when the server was last queried */
    uint32_t held;       /* the server has some: deadlines are not in the order of the ring */
    uint64_t queried_ns; /* time of that query */
    uint64_t srtt_ns;    /* 0: none yet */
    uint64_t var_ns;
    uint64_t min_rtt_ns;
    uint64_t min_rtt_at_ns;
    uint64_t rto_ns;
    uint64_t heard_ns;
    uint64_t mark_ns;  /* timeouts count for transmissions sent since */
    uint64_t probe_ns; /* when the next PROBE or HELLO is due; SNIC_NEVER */
    uint64_t pace_ns;
    uint64_t last_sent_ns;
    uint64_t hint_ns;   /* the last that was accepted */
    uint64_t reopen_ns; /* OPENING, no port: request it again */
    uint64_t pn;        /* used last, of all gens */
    uint64_t proof;     /* the server's latest for this port; 0 */
    uint64_t sent;
    uint64_t acked;
    uint64_t lost;
    uint64_t timed_out;
    uint64_t rerolls;
    struct solar_cc cc;
    struct solar_tx *ring;
};

struct solar_bad_port {
    uint16_t port;
    uint64_t until_ns;
};

/* Kinds of trains: writes of data; ZERO and TRIM; read requests. */
enum { SOLAR_DATA = 0, SOLAR_NO_DATA, SOLAR_READ, SOLAR_KINDS };

struct solar_server {
    struct snic_timer timer;
    struct snic_solar *c;
    uint32_t index;
    uint8_t up;    /* HELLO_ACK received */
    uint8_t extra; /* twice the paths */
    uint8_t bad_next;
    uint8_t pad;
    uint16_t alive_mask;
    uint16_t usable_mask; /* bound: PROBING, ALIVE or SUSPECTED */
    uint16_t turn;
    uint32_t conn_id; /* the server's */
    uint32_t mine;    /* the id that its packets must have */
    uint32_t srv_epoch;
    uint32_t write_out;
    uint32_t credit;
    uint64_t token;
    uint64_t nonce;
    uint64_t retry_ns; /* no HELLO before that */
    uint64_t hello_ns; /* not up: when paths begin to send HELLO; SNIC_NEVER: they do */
    uint64_t dark_ns;  /* since when no path is ALIVE; SNIC_NEVER */
    uint64_t renew_ns; /* when the connection was last replaced; 0: never */
    uint64_t quiet_ns; /* the first packet sent since the last one received: when; 0: none */
    uint64_t rto_ns;   /* of the path that was answered last; 0: none was */
    uint64_t late_ns;  /* how late answers were whose transmission was declared lost */
    uint64_t late_at_ns;
    uint32_t gave_up;      /* transmissions that timed out; decays */
    uint32_t late_answers; /* of them: answered later */
    uint64_t sent;         /* packets with blocks, for the hedge budget; halved from time to time */
    uint64_t hedged;
    struct snic_link ready[SOLAR_KINDS]; /* RPCs with blocks never sent */
    struct snic_link again[SOLAR_KINDS]; /* RPCs with blocks to be sent again */
    uint64_t token_ns;                   /* a TOKEN with token_id is not sent again before */
    uint64_t token_id;
    struct solar_bad_port bad[SNIC_SOLAR__BAD_PORTS];
    struct solar_path *paths; /* SNIC_SOLAR_PATHS_MAX */
    void *secret;             /* AUTH, or NULL */
    uint32_t key_id;
    uint32_t account;
    struct ebs_load *load; /* backlog: blocks admitted and never sent */
    struct solar_session session;
};

/* States of RPCs, beside those of ebs/queue.h. */
enum solar_where {
    SOLAR_READY = EBS_RPC_OTHER, /* blocks never sent */
    SOLAR_AGAIN,                 /* blocks to be sent again, maybe some never sent */
    SOLAR_WAIT                   /* read: for credit */
};

struct solar_blk {
    uint32_t data_crc;
    uint32_t bind_crc;
    uint32_t block_tag;
    uint32_t seq;
    uint16_t tried; /* paths */
    uint8_t path;   /* of the last copy */
    uint8_t tries;
    uint8_t copies; /* to be sent of this try */
    uint8_t summed; /* the checksums are computed */
    uint16_t slot;  /* READ: Addr */
    uint16_t gen;
    uint8_t slotted;
    uint8_t wrong; /* answers with damaged data */
    uint8_t soft;  /* WRITE: the owner's crc function was wrong, compute it here */
};

struct solar_rpc {
    struct ebs_rpc q; /* its timer is BUSY's retry, and the fence's */
    struct snic_solar *c;
    uint64_t need;
    uint64_t busy;    /* refused for now: to be sent again when the timer fires */
    uint64_t turn_ns; /* AGAIN, READY: the RPC with the least is sent first */
    uint8_t next;
    uint8_t credited;
    uint8_t tries; /* of the block that was lost most often, at this server */
    uint8_t pad[5];
    struct solar_blk b[SNIC_EBS_RPC_BLOCKS];
};

struct solar_train {
    struct snic_solar_train t;
    struct snic_iov iov[SNIC_SOLAR_TRAIN_MAX * SNIC_SOLAR__PIECES];
    struct solar_rpc *rpc[SNIC_SOLAR_TRAIN_MAX]; /* agent: the RPC of each data block, or NULL */
    uint32_t conn;                               /* target: the connection of the acks */
    uint32_t acks;
    uint32_t ack_size; /* 0: it is no ACKV, or a closed one */
    uint32_t pad;
    uint64_t acked_ns; /* the latest of them */
    struct snic_ebs_header h;
    unsigned char head[SNIC_SOLAR_TRAIN_MAX][SNIC_SOLAR__HEAD];
    unsigned char tag[SNIC_SOLAR_TRAIN_MAX][SNIC_EBS_TAG_BYTES];
    unsigned char *cipher; /* SNIC_SOLAR_TRAIN_MAX blocks, or NULL */
};

/* Trains: a pool and the queue of those to be sent; both objects have one. */
struct solar_pool {
    struct ebs_pool p;
    struct solar_train *trains;
};

struct snic_solar {
    struct ebs_queue q;
    struct snic_solar_opts o;
    void *mem;
    uint64_t last_poll_ns;
    uint64_t expected_ns; /* when the next poll is due */
    uint64_t stall_from_ns;
    uint64_t stall_to_ns;
    uint64_t client_id;
    uint64_t read_out;
    uint64_t read_max;
    uint64_t pn_used;    /* on any path of servers whose numbers were released */
    uint32_t path_slots; /* per server */
    uint32_t turn;       /* the server that may send first */
    struct solar_server *servers;
    struct solar_path *paths;
    struct solar_rpc *rpcs;
    struct snic_ebs_addr *addr;
    void *addr_mem;
    struct solar_pool pool;
    struct snic_link read_wait;
    struct snic_link path_events;
    struct solar_wire wire;
    struct snic_solar_stats s; /* except for those counted in q */
};

/** A block of zeros: padding, and blocks never written. */
extern const unsigned char solar_zeros[SNIC_EBS_BLOCK_BYTES];

/* init.c */
void solar_pool_init(struct solar_pool *p, struct solar_train *t, unsigned char *cipher,
                     uint32_t max);
struct solar_train *solar_train_take(struct solar_pool *p);
void solar_train_queue(struct solar_pool *p, struct solar_train *t);
/** The next of the queue, now the owner's, or NULL. */
struct solar_train *solar_train_next(struct solar_pool *p);
void solar_train_free(struct solar_pool *p, struct solar_train *t);
int solar_pool_check(const struct solar_pool *p);
/** Append a packet: @p head_size bytes of header and @p data_size of data. */
void solar_train_add(struct solar_train *t, void *head, uint32_t head_size, const void *data,
                     uint32_t data_size);

/** More bytes of the packet that was appended last. */
void solar_train_append(struct solar_train *t, void *bytes, uint32_t size);

/* agent.c */
extern const struct ebs_queue_ops solar_queue_ops;
void solar_stall(struct snic_solar *c, uint64_t now_ns);

/* rpc.c */
void solar_rpc_made(struct ebs_queue *q, struct ebs_rpc *rpc);
void solar_rpc_leave(struct ebs_queue *q, struct ebs_rpc *rpc);
void solar_rpc_begin(struct ebs_queue *q, struct ebs_rpc *rpc);
void solar_rpc_give_up(struct ebs_queue *q, struct ebs_rpc *rpc, int result);
void solar_rpc_end(struct ebs_queue *q, struct ebs_rpc *rpc, int result);
struct solar_rpc *solar_rpc_find(struct snic_solar *c, uint64_t id);
int solar_rpc_kind(const struct solar_rpc *r);
void solar_rpc_list(struct snic_solar *c, struct solar_rpc *r);
void solar_rpc_acked(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt);
void solar_rpc_again(struct snic_solar *c, struct solar_rpc *r, uint64_t blocks);
void solar_rpc_status(struct snic_solar *c, struct solar_rpc *r, uint32_t pkt, uint32_t status,
                      uint32_t retry_us);
void solar_rpc_fired(struct snic_timer *t, uint64_t now_ns);
void solar_read_credit(struct snic_solar *c);
void *solar_rpc_buffer(const struct solar_rpc *r, uint32_t pkt);

/* path.c */
void solar_path_reset(struct snic_solar *c, struct solar_path *p);
void solar_path_open(struct snic_solar *c, struct solar_path *p);
void solar_path_close(struct snic_solar *c, struct solar_path *p);
void solar_path_state(struct snic_solar *c, struct solar_path *p, uint32_t state);
void solar_path_reroll(struct snic_solar *c, struct solar_path *p);
void solar_path_heard(struct snic_solar *c, struct solar_path *p, int whole);
/** The server limits what it sends to this path until it receives @p proof from there. */
void solar_path_unproven(struct snic_solar *c, struct solar_path *p, uint64_t proof);
void solar_path_arm(struct snic_solar *c, struct solar_path *p);
void solar_path_fired(struct snic_timer *t, uint64_t now_ns);
void solar_path_release(struct snic_solar *c, struct solar_path *p, struct solar_tx *x);
void solar_path_rtt(struct snic_solar *c, struct solar_path *p, uint64_t rtt_ns);
void solar_path_lose_before(struct snic_solar *c, struct solar_path *p, const struct solar_tx *x);
/** Apply the answer to the PROBE @p x: which earlier transmissions the server has in progress. */
void solar_path_held(struct snic_solar *c, struct solar_path *p, const struct solar_tx *x,
                     const struct snic_ebs_probe *held);
void solar_path_drop_all(struct snic_solar *c, struct solar_path *p);
struct solar_tx *solar_path_find(struct solar_path *p, uint32_t seq);
struct solar_tx *solar_path_push(struct snic_solar *c, struct solar_path *p, uint32_t kind,
                                 uint32_t weight);
uint64_t solar_waited(const struct snic_solar *c, uint64_t since_ns);

/* server.c */
void solar_server_fired(struct snic_timer *t, uint64_t now_ns);
void solar_server_shed(struct snic_solar *c, struct solar_server *s);
void solar_server_reset(struct snic_solar *c, struct solar_server *s, uint32_t retry_us);
void solar_server_alive(struct snic_solar *c, struct solar_server *s);
void solar_server_arm(struct snic_solar *c, struct solar_server *s);
int solar_server_port(struct snic_solar *c, struct solar_server *s, const struct solar_path *p,
                      uint16_t port);
uint64_t solar_server_rto(const struct snic_solar *c, const struct solar_server *s);
/** How long it has been silent, while packets waited for an answer. */
uint64_t solar_server_silence(const struct snic_solar *c, const struct solar_server *s);
void solar_server_expect(struct snic_solar *c, struct solar_server *s);
/** A transmission declared lost was answered: the server, or the route to it, takes @p rtt_ns. */
void solar_server_was_late(struct snic_solar *c, struct solar_server *s, uint64_t rtt_ns);
void solar_server_gave_up(struct solar_server *s);
/** The RTO that recent late answers require; 0: none was late. */
uint64_t solar_server_late(const struct snic_solar *c, const struct solar_server *s);

/* congestion.c */
void solar_cc_init(const struct snic_solar *c, struct solar_cc *cc, uint32_t blocks);
uint32_t solar_cc_window(const struct solar_cc *cc);
void solar_cc_ack(const struct snic_solar *c, struct solar_path *p, uint64_t rtt_ns,
                  uint64_t hold_ns, uint32_t blocks, int ce);
void solar_cc_int(const struct snic_solar *c, struct solar_path *p, const struct snic_ebs_int *in,
                  uint32_t ack_seq);
void solar_cc_loss(const struct snic_solar *c, struct solar_path *p);
void solar_cc_timeout(const struct snic_solar *c, struct solar_path *p);
uint64_t solar_cc_interval(const struct solar_path *p);

/* send.c */
void solar_send(struct snic_solar *c);
int solar_send_probe(struct snic_solar *c, struct solar_path *p, uint32_t padding);
int solar_send_hello(struct snic_solar *c, struct solar_path *p);
/** Send the disk's token to a server, unless that was just done. @return 1 it is sent */
int solar_send_token(struct snic_solar *c, struct solar_server *s, uint32_t disk);
/** @p copies of it, on as many paths. */
void solar_send_fence(struct snic_solar *c, struct solar_rpc *r, uint32_t copies);
int solar_send_hedge(struct snic_solar *c, struct solar_path *from);

/* As large as the largest packet with data, to detect a path that drops only those. */
#define SNIC_SOLAR__PADDING SNIC_EBS_BLOCK_BYTES

static inline struct solar_server *solar_server_of(struct snic_solar *c, const struct solar_path *p)
{
    return &c->servers[p->server];
}
/** NULL: no AUTH. */
static inline struct solar_session *solar_session_of(struct solar_server *s)
{
    return s->secret != NULL ? &s->session : NULL;
}
#endif /* SNIC_SOLAR_PRIV_H */
