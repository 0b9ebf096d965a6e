/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The inside of a block server's end.
 *
 *     agent.c  public functions; the store's owner; registration
 *     obey.c   commands
 *     pull.c   copies a segment from another server
 *     give.c   other servers copy from here
 *
 * Invariants
 * A1  Nothing is done for a catalog before its uuid and incarnation are durable here.
 * A2  Commands take effect in their order: they are submitted to the store in that order, and it
 *     executes requests of a segment in the order of submission. A command for all segments (a
 *     sweep) begins when those before it are done, and ends before the next begins.
 * A3  A command is answered when the store has it durable; none of a session that has ended.
 * A4  Copied blocks have their versions, so they never replace newer ones.
 * A5  Commands that a server receives while it registers wait until all verdicts are executed, and
 *     are executed before it sends READY; they are not answered.
 */
#ifndef SNIC_CONTROL_AGENT_PRIV_H
#define SNIC_CONTROL_AGENT_PRIV_H

#include "control/control_priv.h"

#define SNIC_CONTROL__PEERS 4u /* servers that copy from here at a time; one more is reset */
#define SNIC_CONTROL__SLOTS 16u
#define SNIC_CONTROL__QUEUE 1024u
#define SNIC_CONTROL__LIST SNIC_SEGMENTS_LIST_MAX
#define SNIC_CONTROL__COPIES 2u /* of the record of the store's owner */
#define SNIC_CONTROL__BLOCK 24u /* bytes of the header of a copied block */
#define SNIC_CONTROL__BODY (SNIC_CONTROL__LIST * (SNIC_CONTROL__BLOCK + SNIC_SEGMENTS_BLOCK))

enum control_agent_state {
    CONTROL_AGENT_LOADING = 0, /* reading the store's owner */
    CONTROL_AGENT_MENDING,     /* it is known, and a damaged copy is being rewritten */
    CONTROL_AGENT_IDLE,        /* it is known; no session, or no WELCOME yet */
    CONTROL_AGENT_STORING,     /* the data of WELCOME are being written */
    CONTROL_AGENT_CLAIMING,    /* claims are sent, verdicts awaited or executed */
    CONTROL_AGENT_CATCHING_UP, /* commands received meanwhile are executed */
    CONTROL_AGENT_READY
};

struct control_agent_command {
    uint64_t segment;
    uint64_t lba;
    uint32_t tag;
    uint32_t vd;
    uint32_t gen;
    uint8_t op;
    uint8_t pad[3];
    struct snic_net_addr addr;
};

/* A request at the store; free when its op is 0. */
struct control_agent_slot {
    struct snic_segments_req req;
    struct snic_control_agent *a;
    uint32_t tag;
    uint32_t session;
    uint8_t used;
    uint8_t part; /* of a sweep */
    uint8_t op;
    uint8_t pad;
};

struct control_agent_pull {
    struct control_stream s;
    struct snic_segments_req req;
    struct snic_segments_block block[SNIC_CONTROL__LIST];
    uint64_t version[SNIC_SEGMENTS_BLOCKS];
    uint64_t segment; /* whose versions these are */
    uint64_t source;  /* there */
    uint64_t fence;
    uint64_t heard_ns;
    uint32_t gen;
    uint32_t tag;
    uint32_t session;
    uint32_t first; /* of the requested blocks */
    uint32_t count; /* in block[] */
    uint32_t at;    /* of them, written */
    uint32_t now;   /* of them, being written */
    uint32_t copied;
    uint8_t busy;
    uint8_t ended; /* its result is reported; it ends when the store is done */
    uint8_t out;   /* the store has the request */
    uint8_t again; /* the store had no space */
    uint8_t fresh; /* versions begin anew */
    uint8_t due;   /* to connect when the previous connection is gone */
    uint8_t up;    /* 1: connected; 2: and has been answered */
    struct snic_net_addr addr;
    unsigned char *body;
};

struct control_agent_peer {
    struct control_stream s;
    struct snic_control_agent *a;
    struct snic_segments_req req;
    struct snic_segments_block block[SNIC_CONTROL__LIST];
    uint64_t version[SNIC_CONTROL__LIST];
    uint64_t heard_ns;
    uint32_t tag;
    uint8_t used;
    uint8_t out;
    uint8_t again;
    uint8_t pad;
    unsigned char *data;
    unsigned char *body;
};

struct snic_control_agent {
    struct snic_control_agent_opts o;
    struct snic_control_agent_events e;
    void *ctx;
    struct control_stream s;
    struct snic_net_listener *listener;
    struct snic_net_addr peer_addr;
    struct snic_timer timer; /* connect, ping, silence */
    struct snic_timer retry; /* the store had no space */
    struct snic_control_agent_stats stats;
    uint32_t state;   /* enum control_agent_state */
    uint32_t session; /* counts them */
    uint64_t heard_ns;
    uint64_t ping_ns;  /* when the last was sent */
    uint64_t begin_ns; /* not to connect before */
    /* the store's owner: its catalog, and its number there */
    uint64_t uuid[2];
    uint64_t incarnation;
    uint64_t version; /* of the copies: incarnation or higher */
    uint64_t serial;
    uint32_t server;
    uint32_t meta; /* 1: the segment exists */
    uint64_t new_incarnation;
    uint64_t new_uuid[2];
    uint64_t new_serial;
    uint32_t new_server;
    struct snic_segments_req meta_req;
    struct snic_segments_block meta_block[SNIC_CONTROL__COPIES];
    unsigned char *meta_data; /* of each copy */
    uint8_t meta_at;          /* the copy in progress: a small log takes one at a time */
    uint8_t meta_out;
    uint8_t closing;
    uint8_t last;      /* the claim that is out is the last */
    uint8_t claim_due; /* when the store has completed all requests */
    /* commands */
    struct control_agent_slot slot[SNIC_CONTROL__SLOTS];
    uint32_t slots_used;
    uint32_t list_max;
    struct control_agent_command *queue;
    uint32_t queue_first;
    uint32_t queue_count;
    uint64_t cursor;   /* of the sweep */
    uint32_t sweep_op; /* enum snic_control_op, or SNIC_CONTROL__AGENT_SWEEP_VERDICT; 0: none */
    uint32_t sweep_tag;
    uint32_t sweep_vd;
    uint32_t sweep_gen;
    int sweep_worst;
    uint32_t verdict_at;
    uint64_t claim_cursor;
    struct snic_control_msg verdict;
    struct control_agent_pull pull;
    struct control_agent_peer peer[SNIC_CONTROL__PEERS];
};

#define SNIC_CONTROL__AGENT_SWEEP_VERDICT 100u

/* agent.c */
void control_agent_say(struct snic_control_agent *a, struct snic_control_msg *m);
void control_agent_room(struct snic_control_agent *a, struct snic_control_msg *m);
void control_agent_claim(struct snic_control_agent *a);
void control_agent_claimed(struct snic_control_agent *a);
void control_agent_caught_up(struct snic_control_agent *a);
void control_agent_refused(struct snic_control_agent *a, int error);
void control_agent_retry(struct snic_control_agent *a);
/* obey.c */
void control_agent_command(struct snic_control_agent *a, const struct snic_control_msg *m);
void control_agent_verdict(struct snic_control_agent *a, const struct snic_control_msg *m);
void control_agent_obey(struct snic_control_agent *a);
void control_agent_result(struct snic_control_agent *a, uint32_t session, uint32_t tag, int status);
void control_agent_forget(struct snic_control_agent *a);
/* pull.c */
void control_agent_pull_init(struct snic_control_agent *a, unsigned char *in, unsigned char *out,
                             unsigned char *body);
void control_agent_pull_begin(struct snic_control_agent *a, const struct control_agent_command *k);
void control_agent_pull_cancel(struct snic_control_agent *a);
void control_agent_pull_retry(struct snic_control_agent *a);
void control_agent_pull_tick(struct snic_control_agent *a, uint64_t now);
/* give.c */
void control_agent_give_accept(void *ctx, struct snic_net_conn *n,
                               const struct snic_net_addr *peer);
void control_agent_give_init(struct snic_control_agent *a, struct control_agent_peer *p,
                             unsigned char *in, unsigned char *out, unsigned char *data,
                             unsigned char *body);
void control_agent_give_retry(struct snic_control_agent *a);

#endif /* SNIC_CONTROL_AGENT_PRIV_H */
