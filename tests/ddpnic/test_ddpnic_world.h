/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small world around nodes of two halves, for this module's tests: a network that delays, loses,
 * doubles and reorders, a PCIe per node, FIFO stores, DMA and logs that take their time, a
 * membership that the test decides, clients. After every step the node is checked, and every answer
 * against what must be visible by then, and what is durable against what was promised; handles are
 * counted. What happens can be written down as text.
 */
#ifndef SNIC_TESTS_TEST_DDPNIC_WORLD_H
#define SNIC_TESTS_TEST_DDPNIC_WORLD_H

#include "snicstore/ddpnic.h"

enum {
    NW_NODES = 5,
    NW_KEYS = 3,
    NW_MESSAGES = 2048,
    NW_PCIE = 1024,
    NW_PENDING = 1024,
    NW_OPS = 2048,
    NW_WRITTEN = 2048,
    NW_TRACE = 8192
};

/* A store, DMA, log write or marker under way. */
struct nw_pending {
    uint32_t type; /* of the action */
    uint32_t id;
    struct snic_ddp_msg m; /* value: content */
};

struct nw_node {
    struct snic_ddpnic *d;
    void *mem;
    size_t size;
    int up;
    uint32_t incarnation;
    uint32_t down; /* messages to the NIC, queue */
    uint32_t back; /* to the host */
    uint32_t pending;
    uint32_t epoch;    /* of the last view */
    uint32_t suspects; /* SUSPECT actions */
    uint16_t suspect;  /* the last */
    struct snic_ddp_action pcie_down[NW_PCIE];
    struct snic_ddp_action pcie_back[NW_PCIE];
    struct nw_pending pend[NW_PENDING];
    uint64_t log[NW_KEYS]; /* the highest in the host's log */
    uint64_t log_content[NW_KEYS];
};

enum nw_state { NW_OPEN = 1, NW_OK, NW_NONE, NW_UNKNOWN };

struct nw_op {
    uint32_t type;
    uint32_t state;
    uint32_t node;
    uint32_t key;
    uint64_t floor; /* what the key had to show when it began */
    uint64_t scope;
    uint64_t ts;
};

struct nw_written {
    uint32_t key;
    uint32_t pad;
    uint64_t ts;
    uint64_t content; /* 0: deleted */
};

struct nw_world {
    struct snic_rng rng;
    struct snic_ddpnic_opts opts;
    uint32_t nodes;
    uint64_t now;
    uint32_t lose; /* of 1000 messages */
    uint32_t twice;
    uint32_t messages;
    uint32_t ops;
    uint32_t written;
    uint32_t handles;
    uint32_t stalls;
    uint64_t handles_live;
    uint64_t steps;
    uint64_t hash;              /* of all actions */
    uint64_t visible[NW_KEYS];  /* a read that begins now shows this or newer */
    uint64_t answered[NW_KEYS]; /* writes */
    uint64_t read[NW_KEYS];     /* could be */
    struct snic_ddp_view view;  /* the last decided */
    uint8_t *handle;            /* by number: its node + 1; 0: none */
    uint64_t *handle_content;
    uint32_t handles_max;
    int traced;
    char trace[NW_TRACE];
    struct nw_node node[NW_NODES];
    struct snic_ddp_msg message[NW_MESSAGES];
    struct nw_op op[NW_OPS];
    struct nw_written write[NW_WRITTEN];
};

struct nw_world *nw_new(uint64_t seed, uint32_t nodes, const struct snic_ddpnic_opts *opts);
void nw_free(struct nw_world *w);
/* The first epoch, all in. */
void nw_start(struct nw_world *w);
/* Without these from now on; nodes get the view separately. */
void nw_leave(struct nw_world *w, uint16_t gone);
void nw_notify(struct nw_world *w, uint32_t node);
void nw_notify_all(struct nw_world *w);
void nw_crash(struct nw_world *w, uint32_t node);
/* Begin an operation; its number, or -1 with *result if it was refused. */
int nw_op(struct nw_world *w, uint32_t type, uint32_t node, uint32_t key, uint64_t scope,
          int *result);
int nw_step_nic(struct nw_world *w, uint32_t node, const struct snic_ddp_event *ev);
int nw_step_host(struct nw_world *w, uint32_t node, const struct snic_ddp_event *ev);
int nw_deliver(struct nw_world *w, uint32_t i, int keep);
/* The oldest message of the PCIe: 0: taken, or SNIC_EAGAIN. */
int nw_pcie_down(struct nw_world *w, uint32_t node);
int nw_pcie_back(struct nw_world *w, uint32_t node);
void nw_complete(struct nw_world *w, uint32_t node, uint32_t i);
/* One thing that can happen does: 0 if nothing is left but time. */
int nw_random(struct nw_world *w);
/* Everything under way comes to its end in a fixed order, time-outs not. */
void nw_calm(struct nw_world *w);
/* As nw_random until nothing is left, the time-outs too. */
void nw_settle(struct nw_world *w);
/* All members have the same, nothing is locked, in flight or unanswered. */
void nw_same(struct nw_world *w);
/* What was promised is in every member's log and dFIFO. */
void nw_promised(struct nw_world *w);
struct snic_ddp_key nw_key(uint32_t key);
int nw_look(struct nw_world *w, uint32_t node, uint32_t key, struct snic_ddpnic_entry *out);

#endif /* SNIC_TESTS_TEST_DDPNIC_WORLD_H */
