/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the load programs of bench/replica.sh share: options, which key and which operation is next,
 * latencies, and the report. C and C++.
 */
#ifndef SNIC_BENCH_REPLICA_LOAD_H
#define SNIC_BENCH_REPLICA_LOAD_H

#include <stdint.h>
#include <stdio.h>

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LOAD_SERVERS = 8, LOAD_KEY_BYTES = 16, LOAD_TEXT = 128 };

struct load_opts {
    char servers[LOAD_SERVERS][64]; /* host:port; the clients are spread over them */
    uint32_t servers_count;
    uint32_t clients;
    uint32_t pipeline;    /* operations of a client at a time  */
    uint32_t get_percent; /* 100: reads only                   */
    uint64_t keys;
    uint32_t value_bytes;
    double seconds;
    int zipf;       /* 0: uniform; 1: YCSB's zipfian, 0.99  */
    int fill;       /* set every key once, in order        */
    uint64_t first; /* fill from this key on               */
    uint64_t seed;
    /* RESP */
    uint32_t wait;            /* WAIT for so many replicas behind each SET, 0: none */
    char setup[LOAD_TEXT];    /* a command at the beginning of each connection      */
    char set_tail[LOAD_TEXT]; /* words behind SET key value                         */
    char get_tail[LOAD_TEXT]; /* words behind GET key                               */
    /* etcd */
    int serializable; /* reads of the member's own state, which may be stale */
};

struct load_stats {
    uint64_t gets;
    uint64_t sets;
    uint64_t missing;
    uint64_t errors;
    char first_error[LOAD_TEXT];
    uint64_t sent;     /* bytes */
    uint64_t received; /* bytes */
    uint64_t start_ns;
    uint64_t end_ns;
    struct snic_hist latency[2]; /* sets, gets */
};

struct load_draw {
    struct snic_rng rng;
    uint64_t keys;
    double theta, alpha, zetan, eta;
    int zipf;
};

/* Exits with the usage when they are wrong. */
void load_options(struct load_opts *o, int argc, char **argv);
void load_draw_init(struct load_draw *d, const struct load_opts *o);
uint64_t load_draw_key(struct load_draw *d);
int load_draw_is_get(struct load_draw *d, const struct load_opts *o);
/* LOAD_KEY_BYTES characters, and a zero */
void load_key(uint64_t key, char *out);
/* value_bytes that follow from the key */
void load_value(uint64_t key, uint32_t bytes, unsigned char *out);
uint64_t load_now(void);
void load_error(struct load_stats *s, const char *what);
/* name=value lines on stdout; the exit code */
int load_report(const struct load_opts *o, const struct load_stats *s);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_BENCH_REPLICA_LOAD_H */
