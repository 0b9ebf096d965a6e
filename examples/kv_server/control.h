/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/control.h
 * Control messages between the roles, over the dma link beside the channels.
 */
#ifndef KV_CONTROL_H
#define KV_CONTROL_H

#include <stdint.h>

#define KV_CONTROL_MAGIC 0x4356564bu

enum kv_control_kind {
    KV_CONTROL_STATS = 1,    /**< DPU -> host: its figures, for INFO                       */
    KV_CONTROL_DRAINED = 2,  /**< DPU -> host: no client is left, write out and go          */
    KV_CONTROL_SHUTDOWN = 3, /**< host -> DPU: a client asked for SHUTDOWN                 */
    /** host -> DPU: messages: is there a password; cpu_ns, offloaded, to_host: the limit of a
        client's unread replies; records_up: of all clients; records_down: of a command */
    KV_CONTROL_SETTINGS = 4,
    KV_CONTROL_KILL = 5, /**< host -> DPU: reset client `messages`                             */
    KV_CONTROL_KEEP = 6  /**< host -> DPU: spare client `messages`, or (offloaded 0) not       */
};

/** Both ends run the same binary: host byte order. */
struct kv_control {
    uint32_t magic;
    uint32_t kind;
    uint64_t pid;
    uint64_t cpu_ns;
    uint64_t messages;
    uint64_t offloaded;
    uint64_t to_host;
    uint64_t cache_items;
    uint64_t cache_tombstones;
    uint64_t cache_floor;
    uint64_t records_up;
    uint64_t records_down;
    uint64_t invalidations;
    uint64_t read_errors;
    uint64_t offload_to_host;
    uint64_t segments_free;
    uint64_t file_reads;
    uint64_t file_writes;
    uint64_t cache_evicted;
    uint64_t stalls;
    uint64_t hog_resets;
    uint64_t refused;
    uint64_t idle_closed;
    uint64_t offload_busy;
    uint64_t pool_free;
    uint64_t full_resets;  /**< client-output-buffer-limit        */
    uint64_t share_resets; /**< a fair share of maxmemory-clients */
    uint64_t total_resets; /**< maxmemory-clients                 */
    uint64_t query_resets; /**< client-query-buffer-limit         */
};

/** The storage switch, DPU -> host, with each KV_CONTROL_STATS (--qos). */
#define KV_CONTROL_DEVICE 0x4456564bu
struct kv_control_device {
    uint32_t magic;
    uint32_t write_cost; /**< in 1/16 */
    uint32_t state[2];   /**< read, write */
    uint64_t rate;
    uint64_t completed_rate;
    uint64_t latency_ns[2];
    uint64_t thresh_ns[2];
    uint32_t active;
    uint32_t slots;
    uint32_t queued;
    uint32_t inflight;
    uint64_t lost;
    uint64_t parts;
};

/** One tenant, likewise; those without any work yet are not sent. */
#define KV_CONTROL_TENANT 0x5456564bu
struct kv_control_tenant {
    uint32_t magic;
    uint32_t number;
    uint32_t weight;
    uint32_t credit;
    uint32_t queued;
    uint32_t inflight;
    uint64_t ops[2]; /**< read, write */
    uint64_t bytes[2];
    uint64_t wait_ns; /**< sums */
    uint64_t device_ns;
    uint64_t wait_p50_ns;
    uint64_t wait_p99_ns;
    uint64_t errors;
};

#endif
