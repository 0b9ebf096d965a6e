/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What every backend of the network door must do: one suite, run against each.
 *
 * A backend opens two handles, a server's and a client's, and says how to go one step
 * on. Each test watches two rules by itself: no event comes from inside a call, and
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

#endif /* SNIC_TESTS_CONFORMANCE_NET_H */
