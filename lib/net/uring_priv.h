/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sockets on the loop's io_uring: what the files of the backend share. The description is
 * in uring.c.
 */
#ifndef SNIC_NET_URING_PRIV_H
#define SNIC_NET_URING_PRIV_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "loop/uring.h"
#include "net/net_priv.h"

#define SNIC_NET__URING_LISTENERS 64
#define SNIC_NET__URING_BACKLOG 4096  /* the kernel lowers it to net.core.somaxconn */
#define SNIC_NET__URING_RING_START 16 /* buffers in the kernel's ring, until it runs dry */
/* Accepting waits this long when the process has no descriptors or the kernel no memory left. */
#define SNIC_NET__URING_ACCEPT_RETRY_NS 50000000u
#define SNIC_NET__URING_BIND_MS 10 /* between looks at an address that is taken */
#define SNIC_NET__URING_SEND_RETRY_NS 1000000u
/* Below this the copy is cheaper than pinning the pages and waiting for their release: on Linux
 * that crossover lies between 10 and 64 KiB on real devices (and nowhere on loopback, which
 * copies in any case). */
#define SNIC_NET__URING_ZC_MIN 65536
/* Lazy sends up to this fit into a socket's buffer, as a rule; of more the end is waited for. */
#define SNIC_NET__URING_QUIET_MAX 65536
#define SNIC_NET__URING_LINGER_NS 5000000u

union net_uring_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

struct net_uring_buf {
    struct snic_net_buf b; /* first: users see this */
    struct net_uring *net;
    struct net_uring_conn *owner; /* NULL: in the pool */
    uint32_t owner_gen;           /* the owner's when received */
};

enum net_uring_state {
    NET_URING_FREE,
    NET_URING_CONNECTING,
    NET_URING_OPEN,
    NET_URING_DYING /* waits for the kernel, then dones and closed */
};

enum net_uring_eof { NET_URING_EOF_NONE, NET_URING_EOF_HELD, NET_URING_EOF_REPORTED };

struct net_uring_conn {
    struct snic_net_conn c; /* first: users see this */
    struct snic_net_stream_events ev;
    struct snic_link link; /* the handle's live list */
    struct snic_link work; /* something to do that must not happen inside a call */
    struct snic_link wait; /* the pool was empty */
    struct snic_uring_op recv_op;
    struct snic_uring_op send_op;
    struct loop_uring_quiet send_quiet; /* a lazy send that needs no room to wait for */
    struct snic_uring_op watch_op;      /* reset of a connection that is not receiving */
    struct snic_uring_op connect_op;
    struct snic_timer timer; /* CONNECTING: time-out; closing: linger; else: send again */
    struct snic_queue sends; /* not wholly sent */
    struct snic_queue sent;  /* wholly sent; zero-copy ones wait for the kernel's release */
    struct snic_queue held;  /* received beyond the bound or while paused */
    struct snic_uring_op *send_now;
    size_t iov_off; /* progress in the first of sends */
    uint32_t iov_at;
    uint32_t send_count; /* accepted, done not called */
    uint32_t zc_notifs;  /* zero-copy sends whose memory the kernel still uses */
    uint32_t lent;
    uint32_t held_count;
    uint32_t gen;
    uint32_t linger_turns;
    int fd;
    int reason;
    enum net_uring_state state;
    enum net_uring_eof eof;
    uint8_t bound;
    uint8_t recv_busy;
    uint8_t recv_multi;
    uint8_t recv_cancel;
    uint8_t bulk; /* outran its bound: one receive at a time until it is slower */
    uint8_t drained;
    uint8_t send_busy;
    uint8_t send_wait; /* the kernel had no memory; the timer starts it again */
    uint8_t send_full; /* the last quiet send found too little room: the next one waits for it */
    uint8_t watch_busy;
    uint8_t watch_over;
    uint8_t connect_busy;
    uint8_t cancels; /* DYING: all operations were cancelled */
    uint8_t paused;  /* by the user */
    uint8_t shut;    /* the user sends no more */
    uint8_t shut_sent;
    uint8_t closing; /* the user wants nothing but done and closed */
    uint8_t full;    /* send returned 0 */
    uint8_t report;  /* connected(error) comes before closed */
    uint8_t no_zc;
    union net_uring_sockaddr to;
    struct msghdr msg;
    struct iovec iov[SNIC_NET_IOV_MAX];
};

/* Lies in a request's backend words. */
struct net_uring_zc {
    struct snic_uring_op op;
    struct net_uring_conn *conn;
    uint32_t notifs;
    uint32_t used;
};

struct net_uring_listener {
    struct snic_net_listener l;
    struct snic_uring_op op;
    struct snic_timer retry;
    snic_net_accept_fn accept;
    void *ctx;
    struct snic_net_addr addr;
    uint64_t path_dev;
    uint64_t path_ino;
    int fd; /* -1: the slot is free */
    uint8_t busy;
    uint8_t closing;
};

struct net_uring_dgram;
struct net_uring_pool;

struct net_uring {
    struct snic_net n; /* first: users see this */
    struct snic_net_uring_opts opts;
    uint32_t features; /* the loop's */
    int group;         /* buffer group, -1 without */
    struct io_uring_buf_ring *ring;
    size_t ring_bytes;
    unsigned char *data;
    size_t data_bytes;
    struct net_uring_buf *bufs;
    struct snic_node free_bufs; /* a stack */
    uint32_t ring_count;        /* buffers in the kernel's ring */
    uint64_t ring_grown_ns;
    uint32_t ring_target; /* as many should be there */
    uint32_t pool_out;    /* buffers that are held or lent */
    uint32_t live;
    uint32_t free_count;
    struct net_uring_conn *conn_mem;
    struct net_uring_conn **free_conns;
    struct snic_link conns; /* live */
    struct snic_link work;
    struct snic_link waiters;
    struct snic_loop_msg work_msg;
    uint8_t work_queued;
    uint8_t shutting;
    uint8_t zc_report; /* stop zero copy where the kernel copies all the same */
    struct net_uring_listener listeners[SNIC_NET__URING_LISTENERS];
    struct net_uring_pool *pool;     /* of datagrams; from the first socket on */
    struct net_uring_dgram **dgrams; /* opts.dgrams_max */
};

/* uring_sock.c: system calls on sockets */
int net_uring_addr_to(const struct snic_net_addr *a, union net_uring_sockaddr *s, socklen_t *size);
void net_uring_addr_from(struct snic_net_addr *a, const union net_uring_sockaddr *s,
                         socklen_t size);
int net_uring_error(int os_error);
int net_uring_socket(const struct snic_net_addr *a, int type);
void net_uring_sock_stream(int fd, const struct snic_net_addr *a,
                           const struct snic_net_uring_opts *o);
int net_uring_sock_bind(int fd, const union net_uring_sockaddr *s, socklen_t size,
                        uint32_t wait_ms);
int net_uring_sock_listen(const struct snic_net_addr *a, uint32_t flags,
                          const struct snic_net_uring_opts *o);
int net_uring_sock_steer(int fd, uint32_t group);
void net_uring_sock_patience(int fd, uint32_t ms);
void net_uring_sock_reset(int fd);
uint64_t net_uring_sock_unsent(int fd);
int net_uring_sock_error(int fd);
int net_uring_path_id(const char *path, uint64_t *dev, uint64_t *ino);

/* uring_buf.c */
int net_uring_buffers(struct net_uring *n);
void net_uring_conn_give(struct net_uring_conn *c);
void net_uring_work(struct net_uring_conn *c);
struct net_uring_buf *net_uring_buf_take(struct net_uring *n, uint32_t flags);
void net_uring_buf_more(struct net_uring *n);
void net_uring_buf_back(struct net_uring_buf *b);
void net_uring_buf_waiters(struct net_uring *n);

/* uring_stream.c */
void net_uring_pump(struct net_uring_conn *c);
void net_uring_die(struct net_uring_conn *c);
void net_uring_finish(struct net_uring_conn *c, int reason);
void net_uring_conn_init(struct net_uring_conn *c);
int net_uring_send(struct snic_net_conn *c, struct snic_net_send_req *s);
void net_uring_put(struct snic_net_buf *b);
void net_uring_pause(struct snic_net_conn *c, int paused);
void net_uring_shutdown(struct snic_net_conn *c);
void net_uring_close(struct snic_net_conn *c);
void net_uring_abort(struct snic_net_conn *c);

/* uring_dgram.c */
uint32_t net_uring_dgram_caps(void);
int net_uring_dgram_open(struct snic_net *n, const struct snic_net_addr *local,
                         const struct snic_net_dgram_events *ev, void *ctx,
                         struct snic_net_dgram **out);
int net_uring_dgram_addr(const struct snic_net_dgram *d, struct snic_net_addr *out);
int net_uring_dgram_send(struct snic_net_dgram *d, struct snic_net_train *t);
void net_uring_dgram_close(struct snic_net_dgram *d);

/* uring_dgram_recv.c */
void net_uring_pool_close(struct net_uring *n);

#endif /* SNIC_NET_URING_PRIV_H */
