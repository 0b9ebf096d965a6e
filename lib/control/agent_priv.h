/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The inside of a block server's end; its files are listed in control_priv.h.
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

#define SNIC_CONTROL__SOURCES 4u /* servers that copy from here at a time; one more is reset */
#define SNIC_CONTROL__SLOTS 16u
#define SNIC_CONTROL__QUEUE 1024u
#define SNIC_CONTROL__LIST SNIC_SEGMENTS_LIST_MAX
#define SNIC_CONTROL__COPIES 2u /* of the record of the store's owner */
#define SNIC_CONTROL__BLOCK 24u /* bytes of the header of a copied block */
#define SNIC_CONTROL__BODY (SNIC_CONTROL__LIST * (SNIC_CONTROL__BLOCK + SNIC_SEGMENTS_BLOCK))

enum control_agent_state {
    CONTROL_AGENT_LOADING = 0, /* reading the store's owner */
    CONTROL_AGENT_REPAIRING,   /* it is known, and a damaged copy is being rewritten */
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

struct control_agent_sink {
    struct control_stream s;
    struct snic_segments_req req;
    struct snic_segments_block block[SNIC_CONTROL__LIST];
    uint64_t version[SNIC_SEGMENTS_BLOCKS];
    uint64_t segment; /* whose versions these are */
    uint64_t source_segment;
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
    uint8_t ended;       /* its result is reported; it ends when the store is done */
    uint8_t submitted;   /* the store has the request */
    uint8_t retry_due;   /* the store had no space */
    uint8_t fresh;       /* versions begin anew */
    uint8_t connect_due; /* when the previous connection is gone */
    uint8_t up;          /* 1: connected; 2: and has been answered */
    struct snic_net_addr addr;
    unsigned char *body;
};

struct control_agent_source {
    struct control_stream s;
    struct snic_control_agent *a;
    struct snic_segments_req req;
    struct snic_segments_block block[SNIC_CONTROL__LIST];
    uint64_t version[SNIC_CONTROL__LIST];
    uint64_t heard_ns;
    uint32_t tag;
    uint8_t used;
    uint8_t submitted;
    uint8_t retry_due;
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
    uint8_t meta_submitted;
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
    int sweep_error; /* its first */
    uint32_t verdict_at;
    uint64_t claim_cursor;
    struct snic_control_msg verdict;
    struct control_agent_sink sink;
    struct control_agent_source source[SNIC_CONTROL__SOURCES];
};

#define SNIC_CONTROL__AGENT_SWEEP_VERDICT 100u

/* agent_report.c */
void control_agent_send(struct snic_control_agent *a, struct snic_control_msg *m);
/* Fill in the store's places and free places. */
void control_agent_space(struct snic_control_agent *a, struct snic_control_msg *m);
/* RESULT of a command of a session; not sent when that session has ended. */
void control_agent_result(struct snic_control_agent *a, uint32_t session, uint32_t tag, int status);
/* Report why registration failed, end the session, reconnect later than usual. */
void control_agent_refused(struct snic_control_agent *a, int error);
/* The store had no space for a request: retry soon. */
void control_agent_retry(struct snic_control_agent *a);
/* Begin to claim the store's segments. */
void control_agent_claim(struct snic_control_agent *a);
/* The store has completed requests of the session before, for which the claim waits. */
void control_agent_claim_drained(struct snic_control_agent *a);
/* A verdict is executed. */
void control_agent_claim_done(struct snic_control_agent *a);
void control_agent_caught_up(struct snic_control_agent *a);
/* store_owner.c */
int control_agent_load(struct snic_control_agent *a);
void control_agent_welcome(struct snic_control_agent *a, const struct snic_control_msg *m);
/* copy_source.c */
void control_agent_source_accept(void *ctx, struct snic_net_conn *n,
                                 const struct snic_net_addr *peer);
void control_agent_source_init(struct snic_control_agent *a, struct control_agent_source *p,
                               unsigned char *in, unsigned char *out, unsigned char *data,
                               unsigned char *body);
void control_agent_source_retry(struct snic_control_agent *a);
/* copy_sink.c */
void control_agent_sink_init(struct snic_control_agent *a, unsigned char *in, unsigned char *out,
                             unsigned char *body);
void control_agent_sink_begin(struct snic_control_agent *a, const struct control_agent_command *k);
void control_agent_sink_cancel(struct snic_control_agent *a);
void control_agent_sink_retry(struct snic_control_agent *a);
void control_agent_sink_tick(struct snic_control_agent *a, uint64_t now);
/* command.c */
void control_agent_command_queue(struct snic_control_agent *a, const struct snic_control_msg *m);
void control_agent_verdict_begin(struct snic_control_agent *a, const struct snic_control_msg *m);
/* Execute what can be executed now. */
void control_agent_run(struct snic_control_agent *a);
/* The session has ended: results of commands at the store are not sent. */
void control_agent_commands_drop(struct snic_control_agent *a);

#endif /* SNIC_CONTROL_AGENT_PRIV_H */
