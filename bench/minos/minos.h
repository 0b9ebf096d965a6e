/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The MINOS paper's machine in simulated time: a run's parameters and results.
 * Deterministic: the same parameters, scenario and seed give the same result, bit for bit.
 * Picoseconds inside.
 */
#ifndef SNIC_BENCH_MINOS_H
#define SNIC_BENCH_MINOS_H

#include "snicstore/ddp.h"

/* Every parameter, in the file's order: X(name in capitals, name in the file, fitted). */
#define MINOS_PARAMETERS(X)                                                                        \
    X(CORES, cores, 0)                                                                             \
    X(CLIENTS, clients_per_core, 0)                                                                \
    X(SNIC_CORES, snic_cores, 0)                                                                   \
    X(CAS_HOST, cas_host_ns, 0)                                                                    \
    X(CAS_SNIC, cas_snic_ns, 0)                                                                    \
    X(PCIE, pcie_ns, 0)                                                                            \
    X(PCIE_MBPS, pcie_mbps, 0)                                                                     \
    X(NET, net_ns, 0)                                                                              \
    X(NET_MBPS, net_mbps, 0)                                                                       \
    X(VFIFO, vfifo_ns, 0)                                                                          \
    X(PERSIST, persist_ns, 0)                                                                      \
    X(FIFO, fifo_entries, 0)                                                                       \
    X(SEND_INV, send_inv_ns, 0)                                                                    \
    X(SEND_SMALL, send_small_ns, 0)                                                                \
    X(GAP, send_gap_ns, 0)                                                                         \
    X(RECORD, record_bytes, 0)                                                                     \
    X(HEADER, header_bytes, 0)                                                                     \
    X(LLC, llc_ns, 0)                                                                              \
    X(READ, read_ns, 0)                                                                            \
    X(BACKGROUND, background_permille, 0)                                                          \
    X(SCOPE, scope_writes, 0)                                                                      \
    X(KEYS, keys, 0)                                                                               \
    X(THETA, zipf_permille, 0)                                                                     \
    X(WARM, warm_requests, 0)                                                                      \
    X(HOST_MESSAGE, host_message_ns, 1)                                                            \
    X(HOST_KILOBYTE, host_kilobyte_ns, 1)                                                          \
    X(HOST_WRITE, host_write_ns, 1)                                                                \
    X(SNIC_INV, snic_inv_ns, 1)                                                                    \
    X(SNIC_SMALL, snic_small_ns, 1)                                                                \
    X(UNPACK, snic_unpack_ns, 1)

enum {
#define MINOS_ENUM(id, name, fitted) MINOS_##id,
    MINOS_PARAMETERS(MINOS_ENUM)
#undef MINOS_ENUM
        MINOS_PARAMETER_COUNT
};

struct minos_param {
    uint64_t v[MINOS_PARAMETER_COUNT];
    uint32_t hash; /* of the names and values */
};

/* Figure 12's designs. */
enum minos_design {
    MINOS_B,
    MINOS_B_BROADCAST,
    MINOS_B_BATCHING,
    MINOS_COMBINED,
    MINOS_COMBINED_BROADCAST,
    MINOS_COMBINED_BATCHING,
    MINOS_O,
    MINOS_DESIGNS
};
extern const char *const minos_design_name[MINOS_DESIGNS];
extern const char *const minos_model_name[SNIC_DDP_SCOPE + 1]; /* by enum snic_ddp_model */

/* A scenario; without holes, as it is compared bytewise. 0 is the parameter file's value. */
struct minos_spec {
    uint32_t design;
    uint32_t model;
    uint32_t nodes;
    uint32_t writes; /* of 100 requests */
    uint32_t keys;
    uint32_t uniform;
    uint32_t fifo;
    uint32_t login;    /* each request is a read and a write (figure 11) */
    uint32_t requests; /* a node, measured */
    uint32_t alone;    /* one client on the whole machine */
    uint32_t audit;    /* at the end look at every record of every node */
    uint32_t padding;  /* 0 */
    uint64_t persist_ns;
    uint64_t net_ns;
    uint64_t seed;
};

/* Of the servers that work one thing at a time, the busiest of the kind. */
enum minos_use {
    MINOS_USE_CORE,
    MINOS_USE_SNIC,
    MINOS_USE_ENGINE,
    MINOS_USE_PCIE_DOWN,
    MINOS_USE_PCIE_UP,
    MINOS_USE_EGRESS,
    MINOS_USE_INGRESS,
    MINOS_USE_DMA,
    MINOS_USES
};
extern const char *const minos_use_name[MINOS_USES];

struct minos_result {
    double write_ns; /* from when the core begins it until the client is answered */
    double read_ns;
    double login_ns;
    double writes_per_us; /* of the whole machine */
    double reads_per_us;
    double comm; /* share of communication in a write, of figure 4; B only */
    double use[MINOS_USES];
    uint64_t writes;
    uint64_t reads;
    uint64_t obsolete; /* invalidations older than what they met */
    uint64_t events;
    uint64_t actions; /* hash of all that the engines asked for, with its time */
    /* Bookkeeping, over all of the run: */
    uint64_t clients;
    uint64_t elapsed_ps; /* until the last client was answered */
    uint64_t sojourn_ps; /* all requests, from issue (queueing included) to answer */
    uint64_t longest_ps; /* of them */
    uint64_t sent;       /* messages */
    uint64_t handled;
    uint64_t differ; /* keys that are not the same on all nodes once all is quiet */
};

/* params.c: 0, or -1 with a line on stderr. */
int minos_param_load(struct minos_param *p, const char *path);
const char *minos_param_name(uint32_t which);
int minos_param_fitted(uint32_t which);

/* world.c: simulate. Aborts the program when an engine breaks its contract. */
void minos_run(const struct minos_param *p, const struct minos_spec *s, struct minos_result *out);
void minos_die(const char *what) __attribute__((noreturn));

/* load.c: the keys that YCSB asks for. */
struct minos_load {
    uint64_t *sum; /* of the weights of keys 0 ... i */
    uint32_t keys;
    uint32_t uniform;
};
/* theta in thousandths. The table is made once per (keys, theta) and kept. */
void minos_load_init(struct minos_load *l, uint32_t keys, uint32_t uniform, uint32_t theta);
uint32_t minos_load_key(const struct minos_load *l, struct snic_rng *rng);

#endif
