/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * page_load: connections with many operations on their way, and the phases of a run.
 *   L1 An operation keeps its place until it is answered for good: after a refusal "try again", and
 *      with --reconnect after a lost connection, it is sent once more as it was.
 *   L2 One update of a page is in flight at a time, so an update sent twice is done once.
 */
#ifndef PAGE_LOAD_LOAD_H
#define PAGE_LOAD_LOAD_H

#include "../common.h"
#include "../page_server/wire.h"
#include "model.h"

enum load_kind { KIND_GET, KIND_LOG, KIND_MIXED, KIND_FILL, KIND_READ, KIND_WRITE, KIND_CHECK };

enum load_state { OP_FREE, OP_SENT, OP_AGAIN };

struct load_op {
    enum load_state state;
    uint8_t op; /* enum wire_op */
    uint8_t flags;
    uint64_t page; /* READ, WRITE: byte position */
    uint64_t lsn;
    uint64_t previous;
    uint64_t floor; /* GET: nothing older may come */
    uint32_t offset;
    uint32_t generation;
    uint64_t sent_ns;
};

struct load_conn {
    struct load *load;
    struct snic_net_conn *conn; /* NULL: lost */
    struct load_op *ops;
    uint32_t *spare; /* indices of free ops */
    uint32_t spares;
    unsigned char *halves[2]; /* one is filled while the other is being sent */
    size_t filled;
    unsigned filling;
    int sending;
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char *in; /* a reply that is received in pieces */
    size_t in_size;
};

/* The reply to STAT. */
struct load_stat {
    uint64_t pid;
    uint64_t cpu_us;
    uint64_t messages;
    uint64_t offloaded;
};

enum load_phase { PHASE_HELLO, PHASE_ADOPT, PHASE_BEFORE, PHASE_RUN, PHASE_AFTER, PHASE_CHECK };

struct load {
    const char *address;
    uint64_t clients;
    uint64_t pipeline;
    uint64_t seconds;
    uint64_t requests;
    uint64_t update_bytes;
    uint64_t update_percent;
    uint64_t timeout_s;
    uint64_t seed;
    enum load_kind kind;
    int reconnect;
    int check;
    int report;

    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr addr;
    struct snic_rng rng;
    struct model model;
    struct load_conn *conns;
    uint64_t connected;
    uint64_t gone;
    enum load_phase phase;
    struct snic_timer timer; /* of the phase, and of operations to send again */
    struct snic_timer retry;
    struct ex_wait wait;
    int remote;
    uint64_t pages;
    uint32_t page_bytes;
    uint64_t next; /* of phases that go through all pages */
    uint64_t active;
    uint64_t issued;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t until_ns;
    int over;                           /* of the phase: nothing new */
    void (*phase_over)(struct load *l); /* it has nothing under way and nothing more to send */
    struct load_stat host[2];
    struct load_stat dpu[2];
    uint64_t cpu_us[2]; /* ours */
    uint64_t done;
    uint64_t gets;
    uint64_t logs;
    uint64_t by_dpu;
    uint64_t again;
    uint64_t lost;
    uint64_t checked; /* pages read only to be checked */
    uint64_t wrong;
    uint64_t errors;
    struct snic_hist latency;
};

/* conn.c */
void load_open(struct load *l);
void load_close(struct load *l);
/* Send what the phase wants on all connections. */
void load_issue(struct load *l);

/* request.c */
/* 1 and *op filled: the next operation of the phase; 0 nothing more now. */
int load_next(struct load *l, struct load_op *op);
/* A reply; 1: done; 0: send it again. */
int load_reply(struct load *l, struct load_op *op, const struct wire_reply *r,
               const unsigned char *data);

#endif
