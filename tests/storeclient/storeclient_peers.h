/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Nodes that a client of a store talks to, in a simulated network: they share one table, so that
 * each is right by itself, and do what a test wants: answer late or never, refuse, die after they
 * executed, answer nonsense. Sessions are those of store.h, in the shortest form.
 */
#ifndef SNIC_TESTS_STORECLIENT_PEERS_H
#define SNIC_TESTS_STORECLIENT_PEERS_H

#include "support.h"

#include "snicstore/storeclient.h"

enum { PEERS_NODES = 3, PEERS_KEYS = 32, PEERS_LIST = 2, PEERS_SEQUENCES = 65536 };
enum { PEERS_MS = 1000000, PEERS_VALUE_MAX = 1 << 20 };

struct peers;
struct peers_conn;

struct peers_node {
    struct peers *p;
    uint32_t number;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_listener *listener;
    struct snic_net_addr addr;
    struct peers_conn *conns;
    uint64_t delay_ns;    /* before a request is executed */
    const char *refuse;   /* instead of executing: this line */
    int mute;             /* execute, and never answer */
    int die;              /* execute so many, without an answer, and reset the connection then */
    const char *nonsense; /* executed, and answered with this */
    int serves;
    uint64_t requests;
};

struct peers_key {
    char key[64];
    uint32_t key_size;
    int present;
    unsigned char *value;
    uint32_t size;
    uint64_t version;
    uint64_t ttl_ms;
    struct {
        uint64_t client, sequence, version;
    } list[PEERS_LIST];
    uint64_t removed; /* the highest version whose entry was removed */
};

struct peers {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop; /* the client's */
    struct snic_net *net;
    struct peers_node node[PEERS_NODES];
    struct peers_key keys[PEERS_KEYS];
    const char *password;
    uint64_t version;
    uint64_t window_ms;                 /* of the sessions; 0: without end */
    uint16_t executed[PEERS_SEQUENCES]; /* how often, by sequence */
    uint16_t arrived[PEERS_SEQUENCES];
    struct snic_storeclient *c;
    void *mem;
};

struct peers *peers_new(void);
/* The client, with options that are 0 set to the world's. */
void peers_client(struct peers *p, struct snic_storeclient_opts *o);
void peers_run(struct peers *p, uint64_t ns);
/* Stops the client, and everything. */
void peers_free(struct peers *p);
struct peers_key *peers_key(struct peers *p, const void *key, uint32_t size);

#endif
