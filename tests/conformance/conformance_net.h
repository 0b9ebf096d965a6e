/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What every backend of the network door must do: one suite, run against each.
 *
 * A backend opens two handles, a server's and a client's, and defines one step
 * ahead. Each test watches two rules by itself: no event comes from inside a call, and
 * every accepted request is done exactly once and before `closed`.
 */
#ifndef SNIC_TESTS_CONFORMANCE_NET_H
#define SNIC_TESTS_CONFORMANCE_NET_H

#include <stddef.h>
#include <stdint.h>

#include "snicstore/net.h"
#include "support.h"

enum conf_kind { CONF_SIM, CONF_TCP4, CONF_TCP6, CONF_UNIX };

struct conf_backend {
    const char *name;
    enum conf_kind kind;
    uint32_t loop_mask; /* SNIC_LOOP_HAVE_* to hide */
    uint32_t caps_mask; /* SNIC_NET_CAP_* to hide */
};

/** The two sides under test. */
struct conf_env {
    const struct conf_backend *backend;
    struct snic_net *server;
    struct snic_net *client;
    struct snic_net_addr listen_addr;
    struct snic_loop *loop;         /* uring: both sides' */
    struct snic_loop *loops[2];     /* sim */
    struct snic_world *world;       /* sim */
    struct snic_net_fabric *fabric; /* sim */
    struct snic_rng rng;
    struct conf_peer *chaotic[8];
    uint32_t chaotic_count;
    int inside;      /* calls of the door under way */
    const char *bad; /* the first broken rule seen in an event */
};

/** Call the door and notice events from inside. */
#define CONF_CALL(env, call)                                                                       \
    do {                                                                                           \
        (env)->inside++;                                                                           \
        call;                                                                                      \
        (env)->inside--;                                                                           \
    } while (0)

/** Backend hooks, defined by each test program. Open fails the test or skips it. */
void conf_backend_open(struct conf_env *e, const struct snic_net_uring_opts *server,
                       const struct snic_net_uring_opts *client);
/** Shut what is open, check for leaks. */
void conf_backend_close(struct conf_env *e);
/** Go on a little; 0 when nothing can happen any more. */
int conf_backend_step(struct conf_env *e);

/** The suite times the backends, as cmocka tests; returns how many. */
size_t conformance_net(struct CMUnitTest *out, size_t max, const struct conf_backend *backends,
                       size_t count);

/* ---- Parts that a backend's own tests use, too ---- */

struct conf_peer;

/** A send request with its bytes. */
struct conf_req {
    struct snic_net_send_req s;
    struct conf_peer *peer;
    struct snic_iov iov[SNIC_NET_IOV_MAX];
    unsigned char *bytes;
    int busy;
};

#define CONF_REQS 80
#define CONF_HELD 64

/** One end of a connection: sends and checks a stream of known bytes, and counts. */
struct conf_peer {
    struct conf_env *env;
    struct snic_net *net;
    struct snic_net_conn *conn; /* NULL: none, or closed */
    struct conf_req *reqs;
    uint64_t tx_seed; /* the bytes it sends */
    uint64_t rx_seed; /* the bytes it expects, unless unchecked */
    uint64_t to_send; /* still to be queued */
    uint64_t queued;
    uint64_t received;
    uint32_t piece_max; /* most bytes of a request */
    uint32_t flags;     /* of its requests */
    uint32_t in_flight;
    uint32_t in_flight_high;
    uint32_t dones;
    uint32_t done_errors;
    int last_result;
    uint32_t lent;
    uint32_t lent_high;
    uint32_t connected;
    int connect_error;
    uint32_t eofs;
    uint32_t writables;
    uint32_t zeros; /* sends that were refused for now */
    uint32_t closes;
    int reason;
    int unchecked;
    int lazy;  /* sends when writable, not when done */
    int hold;  /* keep buffers until conf_peer_put_all() */
    int chaos; /* hold and pause at random */
    int pause_ticks;
    int shutdown_when_sent;
    int close_when_sent;
    int shutdown_on_eof;
    int close_on_recv;
    int abort_on_recv;
    int aborted;
    int ended; /* it called shutdown or close */
    struct snic_net_buf *held[CONF_HELD];
    uint32_t held_count;
};

extern const struct snic_net_stream_events conf_events;

void conf_peer_init(struct conf_peer *p, struct conf_env *e, struct snic_net *n);
void conf_peer_fini(struct conf_peer *p);
/** Queue as much as is accepted; call after each change. */
void conf_peer_send(struct conf_peer *p);
void conf_peer_put_all(struct conf_peer *p);
/** A listener that binds accepted connections to peers in turn. */
struct conf_server {
    struct conf_env *env;
    struct snic_net_listener *listener;
    struct conf_peer *peers;
    uint32_t peers_max;
    uint32_t accepted;
    int abort_all; /* abort instead of bind */
};
void conf_listen(struct conf_server *s, struct conf_env *e, struct conf_peer *peers, uint32_t max);
void conf_connect(struct conf_peer *p, const struct snic_net_addr *to);

typedef int (*conf_cond_fn)(void *ctx);
/** Step until the condition holds; fails the test when it never will. */
void conf_until(struct conf_env *e, conf_cond_fn cond, void *ctx);
/** Step until nothing happens for a while. */
void conf_settle(struct conf_env *e);
/** No rule was broken so far. */
void conf_check(struct conf_env *e);

/* ---- Pairs and crowds ---- */

struct conf_pair {
    struct conf_env e;
    struct conf_server s;
    struct conf_peer server;
    struct conf_peer client;
};

struct conf_many {
    struct conf_env e;
    struct conf_server s;
    struct conf_peer *server;
    struct conf_peer *client;
    uint32_t count;
};

struct snic_net_uring_opts conf_small(const struct conf_env *e);
/** Options NULL: conf_small(). */
void conf_env_open(struct conf_env *e, void **state, const struct snic_net_uring_opts *so,
                   const struct snic_net_uring_opts *co);
void conf_env_close(struct conf_env *e);
void conf_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer);
/** Bytes of the stream @p seed from @p offset on. */
void conf_req_fill_bytes(uint64_t seed, uint64_t offset, unsigned char *out, size_t size);
void conf_req_fill(struct conf_peer *p, struct conf_req *r, uint32_t size);
struct conf_pair *conf_pair_make(void **state);
void conf_pair_start(struct conf_pair *p);
struct conf_pair *conf_pair_open(void **state);
void conf_pair_close(struct conf_pair *p);
int conf_both_closed(void *ctx);
/** The server's side is closed and the client has heard of it. */
int conf_client_over(void *ctx);
struct conf_many *conf_many_open(void **state, uint32_t count,
                                 const struct snic_net_uring_opts *so);
void conf_many_close(struct conf_many *m);
int conf_many_closed(void *ctx);

/* ---- The tests ---- */

void conf_test_n(void **state);
void conf_test_no_listener_connect_refused(void **state);
void conf_test_pair_shutdown_both_closed_in_order(void **state);
void conf_test_client_half_closed_reply_arrives(void **state);
void conf_test_pair_random_traffic_intact(void **state);
void conf_test_reader_paused_sender_bounded(void **state);
void conf_test_buffers_held_receive_pauses_and_resumes(void **state);
void conf_test_client_aborts_sends_cancelled_peer_reset(void **state);
void conf_test_server_aborts_in_recv_client_reset(void **state);
void conf_test_close_with_queue_flushed(void **state);
void conf_test_close_while_peer_sends_nothing_received(void **state);
void conf_test_close_peer_idle_closed_anyway(void **state);
void conf_test_shut_connection_send_refused(void **state);
void conf_test_bad_send_refused(void **state);
void conf_test_connecting_ended_aborted(void **state);
void conf_test_connecting_sends_arrive(void **state);
void conf_test_buffers_held_put_after_closed_pool_whole(void **state);
void conf_test_buffers_of_predecessor_put_bound_kept(void **state);
void conf_test_many_connections_all_served(void **state);
void conf_test_pool_empty_others_resume(void **state);
void conf_test_table_full_extra_reset_then_served(void **state);
void conf_test_client_table_full_connect_refused(void **state);
void conf_test_address_taken_listen_refused(void **state);
void conf_test_unlisten_connections_live_on(void **state);
void conf_test_accept_aborts_client_told(void **state);
void conf_test_bad_arguments_refused(void **state);
void conf_test_handle_shut_everything_reported(void **state);
void conf_test_zero_copy_bytes_intact(void **state);
void conf_test_zero_copy_abort_all_done(void **state);
void conf_test_more_flag_everything_arrives(void **state);
void conf_test_lazy_flag_everything_arrives_and_is_done(void **state);
void conf_test_dgram_single_sizes_arrive(void **state);
void conf_test_dgram_train_split_again(void **state);
void conf_test_dgram_trains_in_a_row_each_its_own(void **state);
void conf_test_dgram_ecn_kept(void **state);
void conf_test_dgram_bad_arguments_refused(void **state);
void conf_test_dgram_queue_full_writable_follows(void **state);
void conf_test_dgram_closed_trains_done_port_free(void **state);
void conf_test_dgram_no_socket_told_others_go_on(void **state);

#endif /* SNIC_TESTS_CONFORMANCE_NET_H */
