/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/roles.h
 * The configuration and the roles that a kv_server process can play.
 */
#ifndef KV_ROLES_H
#define KV_ROLES_H

#include "../server/config.h"
#include "engine.h"
#include "tenant.h"

/** What the DPU role answers GETs of. */
enum kv_offload_mode {
    KV_OFFLOAD_DEVICE, /**< what only the device has                  */
    KV_OFFLOAD_ALL,    /**< also what the host has in memory          */
    KV_OFFLOAD_OFF
};

struct kv_config {
    struct ex_server server;
    uint64_t size; /**< of a new image                                            */
    int size_set;  /**< and not the default                                       */
    enum kv_sync sync;
    uint64_t sync_ms;
    uint64_t memory;
    uint64_t segment;
    uint64_t cache_entries;
    enum kv_offload_mode offload;
    uint64_t device_depth;  /**< requests on the device at once                             */
    uint64_t thresh_min_us; /**< the switch's (gimbal.h); 0: learned                       */
    uint64_t thresh_max_us; /**< likewise                                                  */
    uint64_t write_cost;    /**< likewise: the worst                                       */
    const char *devices;    /**< file of what the switch has learned, or NULL              */
    uint64_t message_max;   /**< of a command                                               */
    uint64_t databases;
    const char *seed; /**< 32 hex digits, set by the supervisor for its roles        */
    uint64_t hash_seed[2];
    struct kv_tenants tenants;     /**< on: --qos gimbal                                      */
    int tenants_set;               /**< --tenant or --tenant-by                                */
    struct resp_settings settings; /**< at the start                                        */
};

#define KV_PENDING_MAX 1024u
#define KV_KEY_MAX (64u << 10)
#define KV_VALUE_MAX (8u << 20)
/** --message-max: a message with one largest value and a handful of arguments fits. */
#define KV_MESSAGE_LEAST (9u << 20)
#define KV_MESSAGE_MOST (1u << 30)
#define KV_MESSAGE_DEFAULT (256u << 20)

/** Each returns the exit status. */
int kv_run_monolith(const struct kv_config *c);
int kv_run_dpu(const struct kv_config *c);
int kv_run_host(const struct kv_config *c);
int kv_run_single(const struct kv_config *c);

/** Does the server listen where only this machine reaches it? */
int kv_local(const struct kv_config *c);
/** The engine's options that all roles share. */
void kv_engine_options(struct kv_engine_opts *o, const struct kv_config *c);
/** The engine's figures as metrics. @return how many */
size_t kv_engine_metrics(const struct kv_engine_stats *s, struct ex_metric *out);

#endif
