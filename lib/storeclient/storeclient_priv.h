/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of a client. An operation becomes attempts, one after the other; an attempt is a
 * request on the connection to one node, which answers in the order of the requests.
 *
 *   request.c  the bytes of a request        reply.c  a reply, from bytes
 *   nodes.c    connections, probes, the choice of a node, attempts on their way
 *   ops.c      operations: what an answer, a lost attempt or the time means to them
 *
 * nodes.c never calls ops.c: it puts attempts that ended on c->ended, and the event that it works
 * for ends with storeclient_settle() (ops.c), which looks at them.
 *
 * C1  An operation has at most one attempt that is not late. Only that one writes to op->out.
 * C2  The bytes of an operation are borrowed by each attempt until it is `sent`; done is called
 *     only when none is left (op->unsent).
 * C3  op->unanswered counts the attempts of a write that may have been executed, or may be yet.
 * C4  Writes of one key: one has attempts, the others are behind it.
 */
#ifndef SNIC_STORECLIENT_PRIV_H
#define SNIC_STORECLIENT_PRIV_H

#include "snicstore/storeclient.h"

#include <string.h>

#define SNIC_STORECLIENT__TEXT 768 /* a request's bytes but key and value, at most */
#define SNIC_STORECLIENT__LINE 256 /* of a reply */
#define SNIC_STORECLIENT__PIECES 5
#define SNIC_STORECLIENT__BACKOFF_MAX UINT64_C(1000000000)
#define SNIC_STORECLIENT__PROBES_LOST 3 /* times attempt_ns without an answer: the node hangs */
#define SNIC_STORECLIENT__UNNAMED 4     /* times probe_ns: no other names the node any more */

enum storeclient_attempt_kind { STORECLIENT_A_OP = 0, STORECLIENT_A_AUTH, STORECLIENT_A_PROBE };

/* A reply, as much of it as has arrived. */
struct storeclient_reply {
    int32_t error;  /* not 0: an error line of this meaning instead of the fields */
    uint32_t count; /* of fields */
    int64_t field[7];
    uint64_t value_size;
    uint32_t has_value;
    uint32_t text_size;
    char text[SNIC_STORECLIENT__LINE]; /* of an element of a probe's answer */
};
/* The fields of the answer to an operation: the value is the last. */
enum storeclient_field {
    STORECLIENT_F_RESULT = 0,
    STORECLIENT_F_OUT,
    STORECLIENT_F_VERSION,
    STORECLIENT_F_SEEN,
    STORECLIENT_F_TTL_MS,
    STORECLIENT_F_COPIES,
    STORECLIENT_F_ANSWER,
    STORECLIENT_FIELDS
};

struct storeclient_parser {
    uint32_t state; /* enum storeclient_parse */
    uint32_t line_size;
    uint32_t left;    /* elements of the array that are still to come */
    uint32_t element; /* number of the present one */
    uint64_t bulk;    /* bytes of it still to come, its CRLF too */
    uint64_t at;      /* bytes of it that have arrived */
    char line[SNIC_STORECLIENT__LINE];
};

struct storeclient_node;

struct storeclient_attempt {
    struct snic_link link;          /* on its node's list, c->ended or c->free */
    struct snic_link of_op;         /* on its operation's list */
    struct snic_storeclient_op *op; /* NULL: nothing depends on it any more */
    struct storeclient_node *node;
    struct snic_net_send_req send;
    struct snic_iov iov[SNIC_STORECLIENT__PIECES];
    struct storeclient_reply reply;
    uint64_t begun_ns;
    uint32_t kind; /* enum storeclient_attempt_kind */
    uint32_t sent; /* the door has returned its bytes */
    uint32_t late; /* its operation went on to another node */
    uint32_t lost; /* ended without an answer */
    uint32_t ended;
    uint32_t text_size;
    char text[SNIC_STORECLIENT__TEXT];
};

enum storeclient_node_state {
    STORECLIENT_N_FREE = 0,
    STORECLIENT_N_IDLE, /* waits to connect */
    STORECLIENT_N_CONNECTING,
    STORECLIENT_N_GREETING,
    STORECLIENT_N_READY,
    STORECLIENT_N_CLOSING
};

struct storeclient_node {
    struct snic_storeclient *c;
    struct snic_net_addr addr;
    struct snic_net_conn *conn;
    struct snic_timer timer; /* connect again; probe */
    struct snic_link attempts;
    struct storeclient_parser parser;
    struct storeclient_attempt auth;
    struct storeclient_attempt probe;
    uint64_t named_ns; /* when a node named its address last */
    uint64_t rtt_ns;
    uint64_t backoff_ns;
    uint64_t count;
    uint32_t state;
    uint32_t serves;
    uint32_t late;
    uint32_t full; /* the door takes no request until `writable` */
};

enum storeclient_op_state {
    STORECLIENT_O_FREE = 0,
    STORECLIENT_O_BEHIND, /* another write of its key */
    STORECLIENT_O_WAITS,  /* for a node: on c->waiting */
    STORECLIENT_O_PAUSES, /* until its timer */
    STORECLIENT_O_SENT,
    STORECLIENT_O_ENDS /* result is known: on c->done, or C2 */
};

struct snic_storeclient {
    struct snic_storeclient_opts o;
    char password[SNIC_STORECLIENT_PASSWORD_MAX + 1];
    struct storeclient_node *node;
    struct storeclient_attempt *attempts;
    struct snic_link *bucket;
    uint32_t attempts_max;
    uint32_t buckets; /* power of two */
    struct snic_link free;
    struct snic_link ended; /* attempts: answered or lost */
    struct snic_link waiting;
    struct snic_link flight; /* operations that neither wait for a node nor are done */
    struct snic_link done;
    struct snic_timer deliver;
    uint64_t sequence;
    unsigned char hash_key[16];
    int32_t refusal; /* of a node that does not accept this client */
    uint32_t ops;
    uint32_t nodes;
    uint32_t stopped;
    uint32_t settling;
    struct snic_storeclient_stats stats; /* its counters only */
};

/* request.c */
void storeclient_request_op(const struct snic_storeclient *c, struct storeclient_attempt *a,
                            uint64_t now_ns);
void storeclient_request_words(struct storeclient_attempt *a, const char *const *words,
                               uint32_t count);

/* reply.c */
/**
 * Take bytes of the answer to @p a. @return how many were taken; *complete: the answer is;
 * SNIC_EPROTO it is none.
 */
int64_t storeclient_reply_take(struct storeclient_parser *p, struct storeclient_attempt *a,
                               const char *data, size_t size, int *complete);
/* One text element of a probe's answer is complete when this is called by the parser's user. */
enum { STORECLIENT_REPLY_MORE = 0, STORECLIENT_REPLY_DONE, STORECLIENT_REPLY_ELEMENT };

/* nodes.c */
void storeclient_node_begin(struct snic_storeclient *c, const struct snic_net_addr *addr);
void storeclient_node_abort(struct storeclient_node *n);
int storeclient_node_choose(struct snic_storeclient *c, uint32_t tried);
int storeclient_node_send(struct storeclient_node *n, struct snic_storeclient_op *op);
struct storeclient_attempt *storeclient_attempt_current(const struct snic_storeclient_op *op);
void storeclient_attempt_detach(struct storeclient_attempt *a);
void storeclient_attempt_free(struct storeclient_attempt *a);
void storeclient_nodes_stop(struct snic_storeclient *c);

/* ops.c */
void storeclient_op_begin(struct snic_storeclient *c, struct snic_storeclient_op *op);
void storeclient_ops_stop(struct snic_storeclient *c);
void storeclient_settle(struct snic_storeclient *c);
void storeclient_deliver_fire(struct snic_timer *t, uint64_t now_ns);

#endif /* SNIC_STORECLIENT_PRIV_H */
