/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A target on node 1 of a world, its namespace on a disk in memory, and a host on node 2 whose
 * paths lead to ports of the target. Both are checked after every event.
 */
#ifndef SNIC_TESTS_NVMEHOST_UTIL_H
#define SNIC_TESTS_NVMEHOST_UTIL_H

#include "snicstore/nvmehost.h"
#include "snicstore/nvmet.h"
#include "support.h"

#define HX_SUBNQN "nqn.2026-11.example:one"
#define HX_HOSTNQN "nqn.2026-11.example:host"
#define HX_MS UINT64_C(1000000)
#define HX_S UINT64_C(1000000000)
enum { HX_BYTES = 4 << 20, HX_BLOCK = 4096, HX_BLOCKS = HX_BYTES / HX_BLOCK, HX_PORT = 4420 };

struct hx {
    /* set between hx_opts() and hx_open() */
    struct snic_nvmet_opts t_opts;
    struct snic_disk_opts d;
    struct snic_nvmet_subsystem_opts sub;
    struct snic_nvmet_ns_opts ns;
    struct snic_nvmehost_opts o;
    uint32_t paths;                              /* ports of the target, and paths of the host */
    struct snic_io *(*wrap)(struct snic_io *io); /* something before the disk; may be NULL */
    const struct snic_nvmet_auth_opts *auth;     /* the target requires it; may be NULL */
    uint32_t stubborn;                           /* the device cancels nothing */
    /* made by hx_open() */
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *tloop;
    struct snic_loop *hloop;
    struct snic_net *tnet;
    struct snic_net *hnet;
    struct snic_disk *disk;
    struct snic_io *tio;
    struct snic_nvmet *t;
    struct snic_nvmehost *h;
    struct snic_io *io;
    struct snic_net_addr addrs[SNIC_NVMEHOST_PATHS_MAX];
    void *tmem;
    void *hmem;
};

/** Defaults: one path, 64 KiB MDTS, KATO 1 s. */
void hx_opts(struct hx *x);
/** The world, the disk and the target. */
void hx_open_target(struct hx *x);
/** The target process dies and its sockets are reset; it may be started again. */
void hx_kill_target(struct hx *x);
void hx_start_target(struct hx *x);
/** The host, without waiting. */
void hx_open_host(struct hx *x);
/** Both; the handle is there. */
void hx_open(struct hx *x);
void hx_close(struct hx *x);
void hx_close_host(struct hx *x);
/** Run the world for so long. */
void hx_run(struct hx *x, uint64_t ns);
struct snic_nvmehost_stats hx_stats(const struct hx *x);

struct hx_req {
    struct snic_io_req req;
    int done;
};
/** Prepared and submitted. */
void hx_start(struct hx *x, struct hx_req *r, enum snic_io_op op, uint64_t offset, void *mem,
              uint64_t length);
/** Turn the world until it is done. @return its result */
int64_t hx_wait(struct hx *x, struct hx_req *r);
int64_t hx_do(struct hx *x, enum snic_io_op op, uint64_t offset, void *mem, uint64_t length);
void hx_fill(void *p, size_t size, uint64_t seed);

#endif /* SNIC_TESTS_NVMEHOST_UTIL_H */
