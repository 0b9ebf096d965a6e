/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/host.h
 * The host role of a server: it attaches to the DPU role, opens the file library and its end of
 * the director, and attaches again when a DPU role has died. A program embeds struct ex_host and
 * finds itself in the callbacks with SNIC_CONTAINER.
 */
#ifndef EX_SERVER_HOST_H
#define EX_SERVER_HOST_H

#include "config.h"
#include "memory.h"

struct ex_host;

struct ex_host_ops {
    uint64_t drain_ns; /**< a DPU role that does not drain is not waited for longer             */
    /** The file library is open: open or continue the engine, and set what of @p o the program
        decides (message_max, key_size, item_size, version). May run the loop.
        @return 0; SNIC_E*: the link is closed, and attached again later */
    int (*attach)(struct ex_host *h, struct snic_director_host_opts *o);
    void (*attached)(struct ex_host *h); /**< the director is open                              */
    /** The link ends: no file request begins from here on. Also after a failed attach. */
    void (*detach)(struct ex_host *h);
    void (*detached)(struct ex_host *h); /**< may be NULL: the file library is closed           */
    size_t (*metrics)(struct ex_host *h, struct ex_metric *out);
    /** May be NULL: a message of the DPU role beside the channels. */
    void (*recv)(struct ex_host *h, const void *msg, uint32_t size);
    /* As snic_director_host_events. */
    void (*message)(struct ex_host *h, uint64_t conn, uint64_t seq, uint64_t user,
                    const unsigned char *msg, uint32_t size);
    void (*closed)(struct ex_host *h, uint64_t conn); /**< may be NULL                          */
    void (*writable)(struct ex_host *h);
};

struct ex_host {
    const struct ex_server *server;
    const struct ex_host_ops *ops;
    uint32_t tenants; /**< of the file library, and                                             */
    uint32_t credit;  /**< requests of each until the device grants some; 0: no tenants         */
    struct snic_loop *loop;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    struct snic_filelib *files;
    struct snic_director_host *director; /**< NULL: not attached                                */
    uint64_t attachments;
    int done; /**< the program sets it when it needs no more of the DPU role                     */
    int dead; /**< the link is                                                                  */
    int draining;
    uint64_t drain_ns;      /* since when */
    uint64_t connect_ns;    /* not before */
    unsigned missed;        /* attempts since the last connection */
    struct snic_dma *fresh; /* a link that was made for this role */
    struct snic_timer timer;
    struct ex_stats *stats;
    struct ex_memory hub_memory;
    struct ex_memory files_memory;
    char prefix[16]; /* of the metrics */
};

/** @p h is all zero; exits with a clear line on failure. */
void ex_host_open(struct ex_host *h, const struct ex_server *s, const struct ex_host_ops *ops);
/** Attach to this link when the role runs, instead of connecting (a single process). */
void ex_host_use(struct ex_host *h, struct snic_dma *dma);
/** Statistics and signals of a process of its own. @return 0 or SNIC_E*, with the error logged */
int ex_host_start(struct ex_host *h);
/** Ask for the end; ctx is a struct ex_host: once the DPU role has gone or the program is done. */
void ex_host_drain(void *ctx);
/** Serve until the end. The link may still be there. @return 0 or SNIC_E* of the loop */
int ex_host_run(struct ex_host *h);
/** Close the link, if there is one. At the top level only: closing runs the loop. */
void ex_host_detach(struct ex_host *h);
void ex_host_close(struct ex_host *h);

#endif
