/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The inside of a client's end: client.c has the session and the leases, lookup.c looks segments
 * up.
 */
#ifndef SNIC_CONTROL_CLIENT_PRIV_H
#define SNIC_CONTROL_CLIENT_PRIV_H

#include "control/control_priv.h"

#define SNIC_CONTROL__CLIENT_TICK_NS UINT64_C(50000000)
#define SNIC_CONTROL__NUMBER_RETRY_NS UINT64_C(2000000)
#define SNIC_CONTROL__NUMBERS_MAX 1024u                   /* servers_max at most */
#define SNIC_CONTROL__TOKEN_RETRY_NS UINT64_C(1000000000) /* until a token is requested again */
#define SNIC_CONTROL__LOOKUP_RETRY_MAX_NS                                                          \
    UINT64_C(500000000) /* until a failed lookup is repeated */

enum control_client_disk_state {
    CONTROL_CLIENT_NONE = 0,
    CONTROL_CLIENT_REQUESTED,
    CONTROL_CLIENT_HELD,
    CONTROL_CLIENT_LOST
};

struct control_client_disk {
    uint32_t state;
    uint32_t flags;
    uint32_t vd;
    uint32_t lease;
    uint32_t tag;                /* of the pending request; 0: none */
    uint64_t again_ns;           /* the catalog was busy: retry then; 0: it was not */
    struct snic_control_qos qos; /* in effect */
    uint64_t key[2];
    uint64_t renew_ns;  /* to request another token then; 0: not now                      */
    uint32_t token_has; /* 1: `token` is set                                              */
    char name[SNIC_CONTROL_NAME];
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
};

struct control_client_server {
    struct snic_net_addr addr;
    uint32_t number; /* the volume's; NIL: not needed yet */
    uint32_t known;
};

/* When a LOOKUP with IF_PLACED was sent, and its tag, which the answer repeats. */
struct control_client_lookup_sent {
    uint64_t ns;
    uint32_t tag;
    uint32_t pad;
};

struct control_client_lookup {
    uint64_t segment;
    uint64_t due_ns;
    uint32_t disk;
    uint32_t gen;
    uint32_t attempts;
    uint32_t pad;
    /* The oldest that is not answered (tag 0: all are), and the newest. An answer to one between
       them is taken for the oldest's: its time is early enough for all. */
    struct control_client_lookup_sent first;
    struct control_client_lookup_sent last;
};

struct snic_control_client {
    struct snic_control_client_opts o;
    struct snic_control_client_events e;
    void *ctx;
    struct snic_volume *v;
    struct control_stream s;
    struct snic_timer timer;
    struct snic_loop_msg deferred;
    struct control_client_disk *disks;
    struct control_client_lookup *lookups;
    struct snic_control_client_stats stats;
    uint64_t heard_ns;
    uint64_t ping_ns;
    uint64_t begin_ns;
    uint32_t tag;
    uint32_t numbers;    /* assigned to servers */
    uint32_t evict_next; /* of the lookups */
    int32_t why;         /* the catalog's refusal before WELCOME */
    uint8_t welcome;
    uint8_t deferred_queued;
    uint8_t closing;
    struct control_client_server server[SNIC_CONTROL_SERVERS_MAX];
};

static inline uint64_t control_client_now(const struct snic_control_client *c)
{
    return snic_loop_now(c->o.loop);
}

static inline void control_client_send(struct snic_control_client *c,
                                       const struct snic_control_msg *m)
{
    (void)control_stream_send(&c->s, m, 0);
}

/* A request's tag; 0 is none. */
static inline uint32_t control_client_tag(struct snic_control_client *c)
{
    c->tag += c->tag == UINT32_MAX ? 2 : 1;
    return c->tag;
}

/* lookup.c */
void control_lookups_send(struct snic_control_client *c);
void control_lookups_deferred(struct snic_loop_msg *m);
struct control_client_lookup *control_lookup_find(struct snic_control_client *c, uint32_t disk,
                                                  uint64_t segment);
void control_lookup_free(struct snic_control_client *c, struct control_client_lookup *w);
void control_lookups_drop(struct snic_control_client *c, uint32_t disk);
/* The answer to the LOOKUP with that @tag: the segment is not placed. */
void control_lookup_unplaced(struct snic_control_client *c, struct control_client_lookup *w,
                             uint32_t tag);

#endif /* SNIC_CONTROL_CLIENT_PRIV_H */
