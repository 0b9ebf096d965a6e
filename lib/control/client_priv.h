/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A client's end, inside: client.c has the session and the leases, want.c asks where segments are.
 */
#ifndef SNIC_CONTROL_CLIENT_PRIV_H
#define SNIC_CONTROL_CLIENT_PRIV_H

#include "control/control_priv.h"

#define SNIC_CONTROL__CLIENT_TICK_NS UINT64_C(50000000)
#define SNIC_CONTROL__CLIENT_SOON_NS UINT64_C(2000000)
#define SNIC_CONTROL__NUMBERS 1024u                        /* servers_max at most */
#define SNIC_CONTROL__CLIENT_RENEW_NS UINT64_C(1000000000) /* a token is asked for again then */
#define SNIC_CONTROL__CLIENT_WANT_NS                                                               \
    UINT64_C(500000000) /* what could not be had is asked for that often */

enum control_client_disk_state {
    CONTROL_CLIENT_NONE = 0,
    CONTROL_CLIENT_WANTED,
    CONTROL_CLIENT_HELD,
    CONTROL_CLIENT_OVER
};

struct control_client_disk {
    uint32_t state;
    uint32_t flags;
    uint32_t vd;
    uint32_t lease;
    uint32_t tag;                /* of what is asked */
    uint64_t again_ns;           /* the catalog was busy: to ask again then; 0: not for that */
    struct snic_control_qos qos; /* that hold */
    uint64_t key[2];
    uint64_t renew_ns;  /* to ask for another token then; 0: not now                      */
    uint32_t token_has; /* 1: `token` is one                                              */
    char name[SNIC_CONTROL_NAME];
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
};

struct control_client_server {
    struct snic_net_addr addr;
    uint32_t number; /* the volume's; NIL: not needed yet */
    uint32_t known;
};

/* When a LOOKUP with IF_PLACED left, and its tag, which comes back. */
struct control_client_asked {
    uint64_t ns;
    uint32_t tag;
    uint32_t pad;
};

struct control_client_want {
    uint64_t segment;
    uint64_t due_ns;
    uint32_t disk;
    uint32_t gen;
    uint32_t asks;
    uint32_t pad;
    /* The oldest that is not answered (tag 0: all are), and the newest. An answer between them
       counts as the oldest's: its time is early enough for all. */
    struct control_client_asked first;
    struct control_client_asked last;
};

struct snic_control_client {
    struct snic_control_client_opts o;
    struct snic_control_client_events e;
    void *ctx;
    struct snic_volume *v;
    struct control_stream s;
    struct snic_timer timer;
    struct snic_loop_msg soon;
    struct control_client_disk *disks;
    struct control_client_want *wants;
    struct snic_control_client_stats stats;
    uint64_t heard_ns;
    uint64_t ping_ns;
    uint64_t begin_ns;
    uint32_t tag;
    uint32_t numbers; /* given to servers */
    uint32_t victim;  /* the want that makes room next */
    int32_t why;      /* what the catalog refuses, before it says WELCOME */
    uint8_t welcome;
    uint8_t soon_queued;
    uint8_t closing;
    struct control_client_server server[SNIC_CONTROL_SERVERS_MAX];
};

static inline uint64_t control_client_now(const struct snic_control_client *c)
{
    return snic_loop_now(c->o.loop);
}

static inline void control_client_say(struct snic_control_client *c,
                                      const struct snic_control_msg *m)
{
    (void)control_stream_send(&c->s, m, 0);
}

/* For what is asked; 0 is none. */
static inline uint32_t control_client_tag(struct snic_control_client *c)
{
    c->tag += c->tag == UINT32_MAX ? 2 : 1;
    return c->tag;
}

/* want.c */
void control_wants_ask(struct snic_control_client *c);
void control_wants_soon(struct snic_loop_msg *m);
struct control_client_want *control_want_find(struct snic_control_client *c, uint32_t disk,
                                              uint64_t segment);
void control_want_free(struct snic_control_client *c, struct control_client_want *w);
void control_wants_drop(struct snic_control_client *c, uint32_t disk);
/* The answer to the LOOKUP with that @tag: it was nowhere. */
void control_want_nowhere(struct snic_control_client *c, struct control_client_want *w,
                          uint32_t tag);

#endif /* SNIC_CONTROL_CLIENT_PRIV_H */
