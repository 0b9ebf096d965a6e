/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* libcuckoo's cuckoohash_map: many writers, readers take spin locks. Its size is fixed. */
#include "peer.h"

#include <libcuckoo/cuckoohash_map.hh>

namespace
{
struct hash {
    size_t operator()(uint64_t key) const { return bench_hash(key); }
};
} // namespace

struct peer {
    libcuckoo::cuckoohash_map<uint64_t, bench_value, hash> map;
    explicit peer(uint64_t slots) : map(slots)
    {
        /* Whole buckets of four, a power of two of them; a full table throws instead of growing. */
        map.maximum_hashpower(map.hashpower());
    }
};

static inline int peer_put(struct peer *p, uint64_t key, struct bench_value v)
{
    try {
        p->map.insert_or_assign(key, v);
        return 1;
    } catch (const std::exception &) {
        return 0;
    }
}
static inline int peer_get(struct peer *p, uint64_t key, struct bench_value *v)
{
    return p->map.find(key, *v);
}
static inline uint64_t peer_get_n(struct peer *, const uint64_t *, struct bench_value *)
{
    return 0;
}
static inline void peer_del(struct peer *p, uint64_t key)
{
    p->map.erase(key);
}
static inline void peer_enter(struct peer *, int) {}
#define peer_pause peer_enter
#define peer_leave peer_enter

#include "loops.h"

static void *libcuckoo_open(uint64_t slots)
{
    try {
        return new peer(slots);
    } catch (const std::exception &) {
        return nullptr;
    }
}

static void libcuckoo_close(void *table)
{
    delete static_cast<peer *>(table);
}

static uint64_t libcuckoo_bytes(void *)
{
    return 0;
}

const struct bench_peer bench_libcuckoo = {
    "libcuckoo", 0,       1,        libcuckoo_open,  libcuckoo_close,
    loop_insert, nullptr, loop_run, libcuckoo_bytes,
};
