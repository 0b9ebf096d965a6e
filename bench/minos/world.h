/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated machine's inside: time, what takes time, and nodes. The protocol is the library's
 * engines'; the world carries out their actions and accounts their time:
 *   host.c  MINOS-B, and with broadcast or batching: ddp, run by the host's cores
 *   nic.c   MINOS-O and the steps to it: ddpnic, its two halves on host cores and SmartNIC cores
 *
 * W1 Events run in the order of (time, order of scheduling); an engine is stepped at event time.
 * W2 A server does one thing at a time, in the order of reservation; a core works off its queue.
 * W3 Every client is at all times in a core's queue, on a core, or waiting for an answer.
 * W4 Messages are neither lost nor doubled: at the end as many were handled as sent.
 */
#ifndef SNIC_BENCH_MINOS_WORLD_H
#define SNIC_BENCH_MINOS_WORLD_H

#include "minos.h"
#include "snicstore/ddpnic.h"

#define WORLD_NIL UINT32_MAX
#define WORLD_CORES_MAX 16
#define WORLD_NS UINT64_C(1000) /* in picoseconds */

struct world;
/* a and b are the event's own. */
typedef void (*world_event_fn)(struct world *w, uint32_t a, uint32_t b);
/* Runs on a core from w->now on; ends by world_core_until, then or in a later event. */
typedef void (*world_task_fn)(struct world *w, uint32_t node, uint32_t core, uint32_t arg);

struct world_event {
    uint64_t at; /* eventheap.h: time and order come first */
    uint64_t order;
    world_event_fn fn;
    uint32_t a;
    uint32_t b;
};

/* One thing at a time. */
struct world_server {
    uint64_t free;
    uint64_t busy;
};

struct world_task {
    world_task_fn fn;
    uint32_t arg;
    uint32_t pad;
};

/* Numbers in the order of coming; grows. */
struct world_queue {
    struct world_task *at;
    uint32_t first;
    uint32_t count;
    uint32_t size; /* a power of two, or 0 */
};

/* A host core. Number node * cores + core, so that it fits an event. */
struct world_core {
    struct world_queue queue;
    uint64_t since; /* when it began what it does */
    uint64_t busy;
    uint32_t working;
    uint32_t append; /* parcel of a record that it has to persist before it continues */
    uint64_t inv;    /* timestamp of the INV that it has taken up */
};

/* A message on its way, or a record that is being persisted; `to` is a mask. */
struct world_parcel {
    struct snic_ddp_msg m;
    uint64_t number; /* of an append */
    uint16_t to;
    uint16_t left; /* copies that have not arrived */
    uint8_t core;  /* of the client whose write it is about: it handles it at a host */
    uint8_t background;
    uint8_t written; /* into a FIFO */
    uint8_t pad;
    uint32_t next; /* of a free one */
    uint32_t id;
};

/* One half of a SmartNIC's queues: index 0 the vFIFO, 1 the dFIFO. */
struct world_fifo {
    struct world_server dma;
    struct world_queue waiting; /* being written, or written and without a slot */
    uint32_t writing;           /* how many the engine counts that are not in */
};

struct world_node {
    struct snic_ddp *ddp;     /* MINOS-B */
    struct snic_ddpnic *pair; /* MINOS-O */
    struct world_core *cores;
    struct world_server pcie_down;
    struct world_server pcie_up;
    struct world_server engine;
    struct world_server egress;
    struct world_server ingress;
    struct world_server snic[WORLD_CORES_MAX];
    struct world_fifo fifo[2];
    /* Appends begun and not durable, and flushes that wait for them (Scope in MINOS-B). */
    uint64_t appends;
    uint32_t appending; /* parcels, list by next */
    uint32_t flushing;  /* parcels, list */
};

enum world_what { WORLD_READ, WORLD_WRITE, WORLD_SYNC };

/* A closed loop: it sends a request as soon as the last one is answered. */
struct world_client {
    struct snic_rng rng;
    uint64_t issued;
    uint64_t began;     /* on its core */
    uint64_t login;     /* when its read began */
    uint64_t first_inv; /* of a write: deposited */
    uint64_t last_ack;  /* of a write: taken up */
    uint64_t ts;        /* of a write */
    uint64_t scope;
    uint32_t in_scope; /* writes */
    uint32_t what;
    uint32_t key;
    uint32_t requests; /* done */
    uint32_t active;   /* a request is outstanding */
    uint32_t pad;
};

/* The client of a key's write with a timestamp: the newest that hashed to the place. */
struct world_owner {
    uint64_t ts;
    uint32_t key;
    uint32_t client;
};
#define WORLD_OWNERS 65536u

struct world {
    const struct minos_param *p;
    struct minos_spec s;
    struct minos_result *out;
    struct minos_load load;
    uint64_t now;
    uint64_t order;
    struct world_event *heap;
    uint32_t heap_count;
    uint32_t heap_size;
    uint32_t cores; /* of a node */
    uint32_t clients;
    uint32_t stopping;  /* no new requests */
    uint32_t requester; /* the client whose request is being begun */
    struct world_node *nodes;
    struct world_client *client;
    struct world_parcel *parcels;
    uint32_t parcels_free;
    uint32_t parcels_size;
    struct world_owner *owners;
    /* Measuring. */
    uint64_t done; /* requests, all */
    uint64_t from; /* when the measured time began */
    uint64_t until;
    uint32_t measuring; /* 0 before, 1, 2 after */
    uint64_t sum[3];    /* latencies: reads, writes, logins */
    uint64_t count[3];
    uint64_t comm;    /* sum over writes: from first_inv to last_ack */
    uint64_t handler; /* sum over INVs taken up and acknowledged at once: lines 26 to 40, the
                         persist included, whether or not the acknowledgement waits for it */
    uint64_t handlers;
};

static inline uint64_t world_ps(const struct world *w, uint32_t parameter)
{
    return w->p->v[parameter] * WORLD_NS;
}
static inline uint64_t world_ns(const struct world *w)
{
    return w->now / WORLD_NS;
}
static inline uint64_t world_persist(const struct world *w)
{
    return w->s.persist_ns * WORLD_NS;
}
static inline int world_is_record(const struct snic_ddp_msg *m)
{
    return m->type == SNIC_DDP_INV;
}

/* Time. */
void world_at(struct world *w, uint64_t at, world_event_fn fn, uint32_t a, uint32_t b);
struct world_event world_next(struct world *w);
uint64_t world_reserve(struct world_server *s, uint64_t at, uint64_t time);
uint64_t world_snic(struct world *w, uint32_t node, uint64_t time);

/* Cores. */
void world_queue_push(struct world_queue *q, world_task_fn fn, uint32_t arg);
struct world_task world_queue_pop(struct world_queue *q);
void world_core_queue(struct world *w, uint32_t node, uint32_t core, world_task_fn fn,
                      uint32_t arg);
void world_core_until(struct world *w, uint32_t node, uint32_t core, uint64_t at);

/* Parcels. */
uint32_t world_parcel_new(struct world *w, const struct snic_ddp_msg *m, uint16_t to, uint8_t core);
void world_parcel_drop(struct world *w, uint32_t parcel);
void world_own(struct world *w, const struct snic_ddp_msg *m, uint32_t client);
uint32_t world_owner(const struct world *w, const struct snic_ddp_msg *m);
uint8_t world_core_of(const struct world *w, uint32_t client);
uint64_t world_bytes(const struct world *w, const struct snic_ddp_msg *m);
uint64_t world_time(const struct world *w, uint64_t bytes, uint32_t mbps);

/* The wire: from a NIC's send engine to the others' ingress, where arrive(node, parcel) is called
 * once for each of parcel->to. */
void world_transmit(struct world *w, uint32_t node, uint32_t parcel);

/* The next request. */
void world_issue(struct world *w, uint32_t client);
/* Clients: the engine's event of the present request of @p client; answered at @p at. */
struct snic_ddp_key world_key(uint32_t number);
struct snic_ddp_event world_request(const struct world *w, uint32_t client);
void world_answered(struct world *w, uint64_t token, uint64_t at);
/* For the hash of all actions. */
void world_note(struct world *w, uint32_t node, const struct snic_ddp_action *a);

/* What each design defines. */
void host_init(struct world *w, uint32_t node, void *mem, size_t size);
size_t host_memsize(const struct world *w);
void host_request(struct world *w, uint32_t node, uint32_t core, uint32_t client);
void host_arrive(struct world *w, uint32_t node, uint32_t parcel);
void nic_init(struct world *w, uint32_t node, void *mem, size_t size);
size_t nic_memsize(const struct world *w);
void nic_request(struct world *w, uint32_t node, uint32_t core, uint32_t client);
void nic_arrive(struct world *w, uint32_t node, uint32_t parcel);

#endif
