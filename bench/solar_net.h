/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_net: SOLAR and LUNA on real sockets. What its files share; the description is in
 * solar_net.c.
 */
#ifndef SNIC_BENCH_SOLAR_NET_H
#define SNIC_BENCH_SOLAR_NET_H

#include "snicstore.h"

#define NET_PREEMPTED 200000 /* cycles: about 60 us, for what takes a few */

enum { NET_SLOTS = 64, NET_BLOCKS = 4096, NET_SEGMENTS = NET_BLOCKS / 512 };

/* Stages of an I/O whose time is taken in a run of its own. */
enum net_stage { NET_ENGINE, NET_CRC, NET_SEC, NET_STAGES };

struct net_env {
    const char *ns[2]; /* client, server; NULL: this one */
    const char *host;  /* the server's address */
    struct snic_loop *loop;
    int crc;
    int qos;
    int sec;
    int stages; /* take their time */
    uint64_t cycles[NET_STAGES];
    void (*done)(uint32_t slot);
};

/* What both ends did on their sockets so far. */
struct net_counts {
    uint64_t sends;   /* calls */
    uint64_t recvs;   /* completions with data */
    uint64_t packets; /* datagrams sent; streams: messages */
};

/* One of those that are compared. */
struct net_who {
    const char *name;
    void (*open)(struct net_env *e);
    /* One block; done(slot) follows from the loop. */
    void (*submit)(uint32_t slot, int read);
    void (*close)(void);
    void (*count)(struct net_counts *k);
};

extern const struct net_who net_solar;  /* the engine itself */
extern const struct net_who net_volume; /* as a disk of the io door, engine and all */
extern const struct net_who net_luna;

void net_must(int ok, const char *what);
/* Memory for an object; aligned; zeros. */
void *net_memory(size_t size);
/* The block that slot @p i writes from and reads to, and its place. */
unsigned char *net_data(uint32_t i);
uint64_t net_lba(uint32_t i);
/* Checksums as the run wants them: none, or the library's, with or without a clock. */
uint32_t net_crc(void *env, const void *data, size_t size);
/* The key of the disk, if the run is to encrypt, and the table it is of. */
void *net_key(const struct net_env *e);
const struct snic_ebs_sec_ops *net_sec(const struct net_env *e);

static inline uint64_t net_cycles(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t v;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
#else
    return 0;
#endif
}
static inline uint64_t net_begin(const struct net_env *e)
{
    return e->stages ? net_cycles() : 0;
}
static inline void net_end(struct net_env *e, enum net_stage s, uint64_t began)
{
    uint64_t took = e->stages ? net_cycles() - began : 0;
    if (took < NET_PREEMPTED) /* or another process had the core meanwhile */
        e->cycles[s] += took;
}

/* solar_net_target.c: SOLAR's server without a store; what was written is as good as durable. */
void net_target_open(struct net_env *e, struct snic_net_addr *at);
void net_target_close(void);
void net_target_count(struct net_counts *k);
/* Add what the sockets of @p n did. */
void net_count(const struct snic_net *n, struct net_counts *k);

#endif
