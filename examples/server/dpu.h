/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/dpu.h
 * The DPU role of a server: network, director, offload engine, file service on an image, and the
 * link to one host role. A program embeds struct ex_dpu, opens its parts with its own options in
 * the order below, and finds itself in the callbacks with SNIC_CONTAINER.
 *
 * One host at a time: a new one reads the program's files only when all that the one before had in
 * flight has ended. Otherwise a write of the dead one could reach a file, and the cache, after the
 * new host has looked.
 */
#ifndef EX_SERVER_DPU_H
#define EX_SERVER_DPU_H

#include "config.h"
#include "image.h"

struct ex_dpu;

#define EX_DPU_METRICS 39

struct ex_dpu_ops {
    uint64_t tick_ns;
    uint64_t linger_ns; /**< after the drain the host is waited for so long; 0: not at all     */
    void (*tick)(struct ex_dpu *d, uint64_t now);
    /** May be NULL: metrics beside the EX_DPU_METRICS of all servers. */
    size_t (*metrics)(struct ex_dpu *d, struct ex_metric *out);
    /** May be NULL: a message of the host beside the channels. */
    void (*recv)(struct ex_dpu *d, const void *msg, uint32_t size);
    void (*host_gone)(struct ex_dpu *d); /**< may be NULL                                     */
    void (*drain)(struct ex_dpu *d);     /**< may be NULL: the drain begins                   */
    void (*drained)(struct ex_dpu *d);   /**< may be NULL: no client is left                  */
};

struct ex_dpu {
    const struct ex_server *server;
    const struct ex_dpu_ops *ops;
    uint32_t tenants; /**< of the file service, where something in front of it knows them      */
    struct snic_loop *loop;
    struct snic_net *net;
    struct ex_image image;
    struct snic_offload *offload; /**< NULL: the host answers everything                       */
    struct snic_director *director;
    struct ex_memory offload_memory;
    struct ex_memory director_memory;
    struct snic_dma_listener *listener;
    struct snic_timer timer;
    struct ex_stats *stats;
    char prefix[16]; /**< of the metrics                                                */
    struct ex_refused refused;
    uint64_t turned_ns; /**< when the last line about a host that is one too many was      */
    uint64_t drained_ns;
    int draining;
    int drained;
    struct { /* the host; all zero: none */
        struct snic_dma *dma;
        struct snic_channel_hub *hub;
        struct snic_files_server *server;
        void *hub_memory;
        void *server_memory;
        uint64_t since_ns;
        int cut; /* seen without a peer, while none is certified dead */
        int dead;
    } host;
};

struct ex_dpu_figures {
    struct snic_director_stats director;
    struct snic_offload_stats offload; /**< zeros without an offload engine */
    struct snic_files_stats files;
};

/* Each exits with a clear line on failure. */

/** @p d is all zero; the rest is opened in the order of these functions. */
void ex_dpu_open(struct ex_dpu *d, const struct ex_server *s, const struct ex_dpu_ops *ops);
void ex_dpu_open_image(struct ex_dpu *d, const struct ex_image_opts *o);
/** May be left out. @p option: what the size of its cache comes from, for an error */
void ex_dpu_open_offload(struct ex_dpu *d, struct snic_offload_opts *o,
                         const struct snic_offload_user *user, const char *option);
/** And listen for clients: conns_max, idle_ms and the address are the server's. */
void ex_dpu_open_director(struct ex_dpu *d, struct snic_director_opts *o,
                          const struct snic_director_user *user, const char *option);
/** Statistics and the first tick; then the role can run. */
void ex_dpu_start(struct ex_dpu *d);
/** Listen for host processes. */
void ex_dpu_listen(struct ex_dpu *d);
/** Take a link to a host. @return 0; SNIC_EBUSY there is one; SNIC_E* of the hub */
int ex_dpu_link(struct ex_dpu *d, struct snic_dma *dma);

/** Send to the host; without one, or without room, the message is dropped. */
void ex_dpu_send(struct ex_dpu *d, const void *msg, uint32_t size);
void ex_dpu_figures(const struct ex_dpu *d, struct ex_dpu_figures *out);
/** Start to drain; ctx is a struct ex_dpu. On the loop's thread. */
void ex_dpu_drain(void *ctx);
/** Run until drained and the host is gone, then close everything. @return exit status */
int ex_dpu_run(struct ex_dpu *d);

#endif
