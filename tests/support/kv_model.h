/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Clients of the key-value engine that know what it may answer. Every key is written by one
 * client, so its writes have an order; all clients read it. A power cut ends a run: in the next
 * one each key must hold the state after its last write that was promised to survive (a floor),
 * or after a later one that was under way. The floor is the last acknowledged write, or one
 * that an answer to a reader has shown (sync always); the last one below the synced address, or
 * older than the interval (interval); what the run began with (none).
 */
#ifndef SNIC_TESTS_KV_MODEL_H
#define SNIC_TESTS_KV_MODEL_H

#include "engine_priv.h"

#define KVM_KEYS 40u
#define KVM_CLIENTS 7u
#define KVM_DEPTH 8u /* messages of one client under way */
#define KVM_OPS 400u /* writes of one key in one run     */
#define KVM_JUDGE 99u

struct kvm_state {
    int present;
    uint64_t id; /**< of the value; a counter's number */
    uint32_t size;
    uint64_t expire; /**< ms, 0: never                     */
};

enum kvm_kind { KVM_SET, KVM_DEL, KVM_EXPIRE, KVM_GET };

struct kvm_write {
    struct kvm_state put;   /**< SET: all; EXPIRE: the expiry          */
    struct kvm_state after; /**< of the key                            */
    enum kvm_kind kind;
    int applied;          /**< 0: it was refused                     */
    uint64_t end;         /**< log address that holds it, at most    */
    uint64_t answered_ns; /**< 0: not yet                            */
};

struct kvm_key {
    char name[32];
    uint32_t name_size;
    int counter;
    uint32_t owner;
    uint32_t count; /**< of writes; the first is what the run began with  */
    uint32_t floor;
    struct kvm_write write[KVM_OPS];
};

struct kvm_message {
    int live;
    uint64_t seq;
    enum kvm_kind kind;
    uint32_t client;
    uint64_t sent_ms;
    uint32_t count;
    uint32_t key[KVM_KEYS];
    uint32_t at[KVM_KEYS];    /**< the write; of a GET the newest one */
    uint32_t floor[KVM_KEYS]; /**< GET: when it was sent              */
};

struct kvm {
    struct snic_rng rng;
    struct snic_loop *loop;
    struct kv_engine *engine;
    enum kv_sync sync;
    uint64_t interval_ns;
    uint32_t value_max;
    int (*dead)(void *ctx); /**< the power is gone */
    void *ctx;
    uint64_t ids;
    uint64_t seq;
    int alone;  /**< a FLUSHALL waits: no client sends                           */
    int living; /**< the judge has ended: writes and addresses are of this run    */
    struct kvm_key key[KVM_KEYS];
    struct kvm_message message[KVM_CLIENTS][KVM_DEPTH];
    uint64_t answered; /**< writes, over all runs     */
    uint64_t refused;
    uint64_t read;
    /* the judge's one question */
    int judged;
    uint64_t present;   /**< keys that it was shown                 */
    uint64_t lingering; /**< expired keys that may still be counted */
    char answer[32768];
    size_t answer_size;
    char why[256]; /**< the first thing that was wrong, or "" */
};

/** All keys absent. The options are set by the caller afterwards. */
void kvm_init(struct kvm *m, uint64_t seed);
/** kv_engine_events.reply, on a struct kvm. */
int kvm_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov, uint32_t count,
              uint32_t flags, uint64_t user);
/** Send one random message of a random client, if it may send. */
void kvm_send(struct kvm *m);
/** The log address up to which the engine believes to have synced. */
uint64_t kvm_synced(const struct kvm *m);
/**
 * The power went at @p cut_ns, the engine is closed, nothing is under way: raise the floors to
 * what the sync mode promises. @p synced: kvm_synced() at the cut.
 */
void kvm_cut(struct kvm *m, uint64_t cut_ns, uint64_t synced);
/** Compare all keys with what the engine holds now, and start a new life with that. */
void kvm_judge(struct kvm *m);

#endif /* SNIC_TESTS_KV_MODEL_H */
