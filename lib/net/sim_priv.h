/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated network: what its files share. The description is in sim.c, of switches in
 * sim_fabric.c.
 */
#ifndef SNIC_NET_SIM_PRIV_H
#define SNIC_NET_SIM_PRIV_H

#include "net/net_priv.h"

#define SNIC_NET__SIM_LISTENERS 64
#define SNIC_NET__SIM_PACKETS 4096
#define SNIC_NET__SIM_PACKET_BYTES 16384
#define SNIC_NET__SIM_BUCKETS 256
/* A stream that crosses a cut link for this long is lost, and a connect without an answer, unless
 * patience_ns was set. */
#define SNIC_NET__SIM_TIMEOUT_NS 30000000000u
/* A lost stream segment arrives this much later: the smallest retransmission time-out of Linux. */
#define SNIC_NET__SIM_RTO_NS 200000000u

/* One direction between two nodes. */
struct net_sim_path {
    struct net_sim_path *next;
    uint32_t from;
    uint32_t to;
    struct snic_net_link link;
    uint64_t busy_ns; /* the link has sent everything by then */
    int cut;
};

/* What chooses a datagram's way. */
struct net_sim_flow {
    uint32_t from;
    uint32_t to;
    uint16_t from_port;
    uint16_t to_port;
};

/* A datagram on its way. */
struct net_sim_packet {
    struct snic_node node;
    struct snic_link link; /* in the destination handle's list, or the fabric's */
    struct snic_timer arrive;
    struct snic_net_fabric *fabric;
    struct net_sim *to; /* NULL: among switches */
    struct snic_net_addr peer;
    struct net_sim_flow flow;
    uint32_t port;
    uint32_t size;
    uint32_t ecn;
    uint32_t wire;     /* in whose queue it is, or on which it travels */
    uint32_t hops;     /* wires entered */
    uint64_t extra_ns; /* delay beside that of the wire */
    int error;         /* 0; else the report on a datagram to `peer` */
    uint8_t queued;    /* it has not left the port yet */
    unsigned char *data;
};

/* ---- The fabric's switches ---- */

#define SNIC_NET__SIM_SWITCHES 1024
#define SNIC_NET__SIM_WIRES 16384
#define SNIC_NET__SIM_FAULTS 256
#define SNIC_NET__SIM_HOPS 32
#define SNIC_NET__SIM_FAR 255 /* a distance: no way */
#define SNIC_NET__SIM_NONE UINT32_MAX

/* A switch, or a node that has a wire. */
struct net_sim_place {
    uint32_t id;
    uint32_t first; /* wires that leave it, in order of their making */
    uint32_t last;
    uint32_t target; /* a node's column in the table of distances */
    uint64_t seed;
    enum snic_net_state state;
};

struct net_sim_wire {
    struct snic_net_link link;
    struct snic_net_wire_stats stats;
    uint32_t from; /* places */
    uint32_t to;
    uint32_t next;    /* leaves the same place */
    uint64_t busy_ns; /* the port has sent what is queued by then */
    enum snic_net_state state;
    int known_down; /* routes avoid it */
};

struct net_sim_fault {
    struct snic_net_fault x;
    uint64_t seen; /* that met the conditions, chance included */
    uint64_t hits;
    int on;
};

struct net_sim_graph {
    struct snic_loop *loop; /* NULL: no switches */
    struct snic_timer converge;
    struct snic_link transit; /* packets */
    struct net_sim_place *places;
    struct net_sim_wire *wires;
    unsigned char *far; /* [place * targets + target]: wires to go */
    uint32_t *turn;     /* work space of routing: places */
    uint32_t place_count;
    uint32_t place_max;
    uint32_t wire_count;
    uint32_t wire_max;
    uint32_t switches;
    uint32_t targets;
    uint64_t converge_ns;
    snic_net_hop_fn hop;
    void *hop_ctx;
    struct snic_net_fabric_stats stats;
};

struct snic_net_fabric {
    struct snic_world *world;
    struct snic_rng *rng;
    uint64_t gather_ns;
    uint32_t recv_size;
    uint32_t next_port;
    uint64_t next_serial;
    struct snic_net_link link;
    struct snic_link handles;
    struct net_sim_path *paths[SNIC_NET__SIM_BUCKETS];
    struct net_sim_graph graph;
    struct net_sim_fault faults[SNIC_NET__SIM_FAULTS];
    uint32_t fault_count;
    struct snic_queue packets; /* free */
    struct net_sim_packet *packet_mem;
    unsigned char *packet_data;
};

struct net_sim_buf {
    struct snic_net_buf b; /* first: users see this */
    struct net_sim *net;
    struct net_sim_conn *owner;
    unsigned char *mem;
    uint64_t arrive_ns;
    uint32_t owner_gen; /* the owner's when lent: a later connection in its slot is another */
};

enum net_sim_state {
    NET_SIM_FREE,
    NET_SIM_CONNECTING,
    NET_SIM_OPEN,
    NET_SIM_DYING /* the last dones and closed are on their way */
};

struct net_sim_conn {
    struct snic_net_conn c; /* first: users see this */
    struct net_sim_conn *peer;
    struct net_sim_path *out;
    struct net_sim_path *in;
    struct snic_net_stream_events ev;
    struct snic_link link;   /* the handle's live list */
    struct snic_link wait;   /* the receiver's pool was empty */
    struct snic_queue sends; /* not all taken */
    struct snic_queue dones; /* to be reported */
    struct snic_queue rx;    /* pieces in flight or held, in order */
    struct snic_timer rx_timer;
    struct snic_timer kick;  /* fires at once: dones, writable, closed */
    struct snic_timer stall; /* connect without answer, cut links */
    struct snic_timer aux;   /* SYN at the server's loop; the end of a close */
    struct snic_loop *aux_loop;
    uint64_t rx_last_ns;  /* nothing of this direction overtakes this */
    uint64_t fin_ns;      /* when the peer's end arrives */
    uint64_t rst_ns;      /* when a reset arrives */
    uint64_t open_ns;     /* CONNECTING: when the answer arrives */
    uint64_t patience_ns; /* a cut link that lasts so long is the end */
    size_t iov_off;
    uint32_t iov_at;
    uint32_t send_count; /* accepted, done not called */
    uint32_t rx_count;
    uint32_t lent;
    uint32_t gen;
    uint16_t local_port;
    enum net_sim_state state;
    int error;  /* CONNECTING: the answer; DYING: the reason */
    int paused; /* by the user */
    int bound;
    int shut;     /* the user sends no more */
    int closing;  /* the user wants no more events but done and closed */
    int fin_sent; /* our end is on its way */
    int eof;      /* the peer's end was delivered */
    int full;     /* send returned 0 */
    int report;   /* connected(error) comes before closed */
};

struct net_sim_listener {
    struct snic_net_listener l;
    snic_net_accept_fn accept;
    void *ctx;
    uint16_t port;
    uint32_t flags;
    uint64_t serial; /* the fabric's, in order of listening */
    int used;
    int dead; /* its node was killed */
};

struct net_sim_dgram {
    struct snic_net_dgram d;
    struct snic_net_dgram_events ev;
    void *ctx;
    struct snic_queue dones;
    struct snic_timer kick;
    uint32_t send_count;
    uint16_t port;
    int used;
    int closing;
    int full;
};

struct net_sim {
    struct snic_net n; /* first: users see this */
    struct snic_net_fabric *fabric;
    struct snic_net_uring_opts opts;
    struct snic_link link; /* the fabric's handles */
    uint32_t node;
    uint32_t live;
    int shutting;
    struct snic_link conns;   /* live */
    struct snic_queue bufs;   /* free */
    struct snic_link waiters; /* connections whose peer's bytes wait for this pool */
    struct snic_link packets; /* datagrams on their way here */
    struct net_sim_conn *conn_mem;
    struct net_sim_buf *buf_mem;
    unsigned char *buf_data;
    struct net_sim_conn **free_conns;
    uint32_t free_count;
    struct net_sim_listener listeners[SNIC_NET__SIM_LISTENERS];
    struct net_sim_dgram *dgrams; /* opts.dgrams_max */
};

/* sim_path.c */
struct net_sim_path *net_sim_path_find(struct snic_net_fabric *f, uint32_t from, uint32_t to);
struct net_sim_path *net_sim_path_make(struct snic_net_fabric *f, uint32_t from, uint32_t to);
uint64_t net_sim_path_delay(struct snic_net_fabric *f, const struct net_sim_path *p);
uint64_t net_sim_path_queued(const struct snic_net_fabric *f, const struct net_sim_path *p);
uint64_t net_sim_path_arrival(struct snic_net_fabric *f, struct net_sim_path *p, uint64_t bytes);
int net_sim_cut(const struct net_sim_conn *c);
struct net_sim_listener *net_sim_listener_of(struct net_sim *n, uint32_t port);
uint64_t net_sim_listeners(struct snic_net_fabric *f, uint32_t node, uint32_t port,
                           uint64_t before);
uint16_t net_sim_port(struct snic_net_fabric *f, uint32_t node);
int net_sim_link_read(struct snic_net_link *out, const struct snic_net_link *in);

/* sim_fabric.c */
struct net_sim_place *net_sim_place_find(const struct net_sim_graph *g, uint32_t id);
uint64_t net_sim_flow_hash(uint64_t seed, const struct net_sim_flow *w);
uint32_t net_sim_route(const struct net_sim_graph *g, const struct net_sim_place *at,
                       const struct net_sim_flow *w);
void net_sim_graph_close(struct snic_net_fabric *f);

/* sim_hop.c */
/* What faults and a link make of a datagram. */
struct net_sim_fate {
    uint64_t extra_ns;
    int drop;
    int fault; /* dropped by a fault */
    int copies;
    int corrupt;
    int mark;
};
void net_sim_faults(struct snic_net_fabric *f, struct net_sim_fate *fate,
                    const struct net_sim_flow *w, uint32_t place, uint32_t wire, uint32_t size);
void net_sim_damage(struct snic_net_fabric *f, struct net_sim_packet *p);
void net_sim_depart(struct snic_net_fabric *f, struct net_sim_packet *p,
                    const struct net_sim_place *at);

/* sim_stream.c */
struct net_sim_conn *net_sim_conn_take(struct net_sim *n);
void net_sim_conn_give(struct net_sim_conn *c);
void net_sim_arm_rx(struct net_sim_conn *c);
void net_sim_pump(struct net_sim_conn *c);
void net_sim_finish(struct net_sim_conn *c, int reason);
void net_sim_mended(struct net_sim_conn *c);
void net_sim_drain(struct net_sim_conn *c);
void net_sim_linger_fire(struct snic_timer *t, uint64_t now_ns);
int net_sim_send(struct snic_net_conn *c, struct snic_net_send_req *s);
void net_sim_put(struct snic_net_buf *b);
void net_sim_pause(struct snic_net_conn *c, int paused);
void net_sim_shutdown(struct snic_net_conn *c);
void net_sim_close(struct snic_net_conn *c);
void net_sim_abort(struct snic_net_conn *c);
int net_sim_patience(struct snic_net_conn *c, uint32_t ms);

/* sim_packet.c */
struct net_sim *net_sim_dgram_route(struct snic_net_fabric *f, uint32_t node, uint32_t port);
struct net_sim_packet *net_sim_packet_copy(struct snic_net_fabric *f,
                                           const struct net_sim_packet *p);
void net_sim_packet_free(struct net_sim_packet *p);
void net_sim_packet_fire(struct snic_timer *t, uint64_t now_ns);

/* sim_dgram.c */
int net_sim_dgram_open(struct snic_net *n, const struct snic_net_addr *local,
                       const struct snic_net_dgram_events *ev, void *ctx,
                       struct snic_net_dgram **out);
int net_sim_dgram_send(struct snic_net_dgram *d, struct snic_net_train *t);
void net_sim_dgram_close(struct snic_net_dgram *d);
int net_sim_dgram_addr(const struct snic_net_dgram *d, struct snic_net_addr *out);
void net_sim_dgram_shut(struct net_sim *n);

#endif /* SNIC_NET_SIM_PRIV_H */
