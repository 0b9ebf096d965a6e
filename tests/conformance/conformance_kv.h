/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The kv door's conformance suite: what snicstore/kv.h and kvop.h promise, as tests that run on any
 * backend and any loop. A handle's caps decide what is expected. A backend is done
 * when it passes.
 */
#ifndef SNIC_TESTS_CONFORMANCE_KV_H
#define SNIC_TESTS_CONFORMANCE_KV_H

#include "support.h"

#include "snicstore/kv.h"

/** An open handle, and what it stands on. */
struct conformance_kv {
    struct snic_kv *kv;
    struct snic_loop *loop;
    struct snic_world *world;  /**< NULL on a real loop                                    */
    struct snic_kvmem *medium; /**< NULL unless the backend is mem                         */
    void *own;                 /**< the backend's                                          */
};

struct conformance_kv_backend {
    const char *name;
    /** A loop and a handle on an empty store; or support_skip(). */
    void (*open)(struct conformance_kv *c, const struct conformance_kv_backend *b);
    /** Another handle on the same store and loop; NULL member: there cannot be one. */
    int (*again)(struct conformance_kv *c, struct snic_kv **out);
    /**
     * Damage a record behind the store's back; c->kv may be another handle after it. NULL member:
     * the store's records have no checksum.
     */
    void (*damage)(struct conformance_kv *c, const struct snic_kvop_key *key);
    /** The handle is closed (c->kv is NULL); end the rest. */
    void (*close)(struct conformance_kv *c);
    uint32_t caps;         /**< mem: to offer                                            */
    uint64_t delay_max_ns; /**< mem                                                      */
    uint32_t single;       /**< 1: `again` only when the first is closed, in one process    */
    uint32_t slow;         /**< 1: an operation takes a millisecond: shorter random runs   */
};

/** Add every test for every backend to @p out; their number. Names live on in static memory. */
size_t conformance_kv_tests(struct CMUnitTest *out, size_t max,
                            const struct conformance_kv_backend *backends, size_t count);

#endif /* SNIC_TESTS_CONFORMANCE_KV_H */
