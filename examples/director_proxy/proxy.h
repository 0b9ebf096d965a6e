/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * director_proxy's inside. A part is one director with a loop and sockets of its own, on a thread
 * of its own: parts share the port and nothing else. What the program wants to know of them, they
 * publish.
 */
#ifndef PROXY_H
#define PROXY_H

#include <pthread.h>
#include <stdatomic.h>

#include "../common.h"
#include "../resp/resp.h"

#define PROXY_PARTS_MAX 32

enum proxy_count {
    PROXY_CONNECTIONS,
    PROXY_ACCEPTED,
    PROXY_MESSAGES,
    PROXY_ANSWERED,
    PROXY_TO_SERVER,
    PROXY_PASSED,
    PROXY_REFUSED,
    PROXY_IDLE_CLOSED,
    PROXY_SERVER_GONE,
    PROXY_SERVER_ENDED,
    PROXY_PROTOCOL_ERRORS,
    PROXY_PAUSES,
    PROXY_RECV_BYTES,
    PROXY_SENT_BYTES,
    PROXY_COUNTS
};

struct proxy;

struct proxy_part {
    struct proxy *proxy;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_director *director;
    void *mem;
    struct snic_loop_poller poller;
    struct snic_loop_msg stop;
    struct snic_loop_msg missed;
    uint64_t failures; /* connections to the server that failed or that it ended, as last seen */
    struct ex_refused refused;
    uint32_t number;
    int done;
    pthread_t thread;
    _Atomic int missed_queued;
    _Alignas(SNIC_CACHELINE) _Atomic uint64_t counts[PROXY_COUNTS]; /* for other threads */
};

struct proxy {
    struct proxy_part *parts; /* the first runs on the main thread */
    uint64_t parts_count;
    struct snic_net_addr listen_addr; /* with the port that was chosen */
    struct snic_net_addr server_addr;
    struct resp_limits limits;
    uint64_t conns;
    uint64_t timeout_s; /* idle clients are closed after so long; 0: never */
    uint64_t message_max;
    const char *listen;
    const char *server;
    int pass;
    int steer; /* by CPU, not by the flow's hash */
    int draining;
    /* the first part's: is the server there? */
    struct snic_net_conn *probe;
    struct snic_timer probe_timer;
    uint64_t probed_ns;
    int probes; /* still to be made since a client's connection failed */
    int away;   /* logged as unreachable, and not yet as reachable again */
    int ended;
};

/* protocol.c */
void proxy_user(struct proxy_part *p, struct snic_director_user *out);

/* part.c: on the main thread, before and after the part's own has run */
void proxy_part_open(struct proxy_part *p);
void proxy_part_run(struct proxy_part *p);
void proxy_part_close(struct proxy_part *p);
void proxy_part_stop(struct proxy_part *p);

/* server.c */
void proxy_server_start(struct proxy *p);
/* A connection to the server failed; on the part's thread. */
void proxy_server_missed(struct proxy_part *p);
/* The same on the first part's. */
void proxy_server_look(struct proxy *p);
void proxy_server_stop(struct proxy *p);

#endif
