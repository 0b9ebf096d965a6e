/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The inside of the control plane. A file uses only files that stand above it here, and on its own
 * line (tests/layers.py).
 *
 *     wire.c              messages as bytes
 *     auth.c              authentication of both ends of a connection
 *     stream.c            a connection that carries messages, and holds them back until durable
 *   the catalog:
 *     record.c            its records as bytes
 *     catalog.c           disks, segments, servers in memory; writes records
 *     recover.c           rebuilds the catalog from the records of a log
 *     session.c           what sessions of all kinds share; events for the caller's log
 *     overload.c          connections for which there is no session
 *     operation.c         the table of operations of several steps, and the commands they send
 *     lease.c             rights, tokens, grants; attach and revoke
 *     segment_place.c     locations of segments, and their placement at the first write
 *     segment_move.c      moves a segment to another server
 *     disk.c              creates and deletes disks
 *     disk_reissue.c      new leases for a disk
 *     dispatch.c          answers, lost servers and time, for the operations that wait for them
 *     server_session.c    a session of a block server: registration, claims
 *     client_session.c    a session of a client: leases, lookups
 *     operator_session.c  a session of an operator
 *     control.c           public functions; the log, time, accepts connections
 *   a block server's end (agent_priv.h):
 *     agent_report.c      claims, READY and results to the catalog
 *     store_owner.c       the store's record of its catalog
 *     copy_source.c       other servers copy from here
 *     copy_sink.c         copies a segment from another server
 *     command.c           executes commands
 *     agent.c             public functions, the session
 *   a client's end (client_priv.h):
 *     lookup.c            looks segments up
 *     client.c            public functions, the session, leases
 *   an operator's end:
 *     operator.c
 *
 * Invariants
 * C1  A message is held back until all records appended before it was made are durable. So the
 *     catalog in memory is that of the last record, and no peer has seen more than is durable.
 * C2  A segment is in the catalog only when its server has made it durably; the catalog never names
 *     one that does not exist.
 * C3  The generation of a segment that is disclosed is the recorded one, or lease << 16 if that is
 *     higher. Its server has at least that generation when it is disclosed: by MAKE, RAISE, GEN, or
 *     VERDICT.
 * C4  A segment's location is disclosed only while its server is READY, the requester has the
 *     disk's lease, which is known to be raised there, and the segment is not sealed.
 * C5  Until a move is recorded its destination is not disclosed.
 * C6  A server gets commands from one session at a time, in order, and executes them in order.
 * C7  The rights in tokens of the latest lease are recorded; if its account has fewer rights, the
 *     lease is ended.
 */
#ifndef SNIC_CONTROL_PRIV_H
#define SNIC_CONTROL_PRIV_H

#include "snicstore/control.h"

#define SNIC_CONTROL__NIL UINT32_MAX
#define SNIC_CONTROL__MARKS 16u
#define SNIC_CONTROL__LEASE_ENDED (SNIC_CONTROL_LEASE_MAX + 1) /* after the last one */
#define SNIC_CONTROL__HELLO_NS UINT64_C(3000000000) /* for a new connection to send HELLO */
#define SNIC_CONTROL__OVERLOAD_MAX 8u /* connections without a session, answered at a time */
#define SNIC_CONTROL__BURST 16u       /* messages of a connection in one iteration of the loop */
#define SNIC_CONTROL__OUT 65536u      /* bytes that wait to be sent to a session */

/* ---- Streams and their authentication ---- */

#define SNIC_CONTROL__SEAL 16u /* bytes behind a message */

enum control_auth_state { CONTROL_AUTH_NONE = 0, CONTROL_AUTH_WAITS, CONTROL_AUTH_DONE };

struct control_auth {
    const struct snic_control_auth *opts; /* NULL: no account is proven */
    void *secret;
    uint64_t connects[2]; /* the connecting end's random number */
    uint64_t accepts[2];
    uint64_t numbers; /* made by this end */
    uint64_t sent;    /* messages with a seal */
    uint64_t received;
    uint32_t key_id;
    uint32_t account;
    unsigned char session[32];
    uint8_t state; /* enum control_auth_state */
    uint8_t connector;
    uint8_t challenged; /* AUTH 2 was sent */
    uint8_t pad[5];
};

struct control_stream_events {
    void (*up)(void *owner); /* connected; may be NULL */
    void (*msg)(void *owner, struct snic_control_msg *m);
    /* The last call; the stream may be used again. SNIC_EVERSION: the other side uses another
     * version; SNIC_EACCES: it has not accepted our key, or not proven its own, or requires one;
     * SNIC_ENOTSUP: it has none; SNIC_ENFILE: it has no session for us. */
    void (*gone)(void *owner, int reason);
};

/* Bytes up to `end` may leave when `position` is durable. */
struct control_mark {
    uint64_t position;
    uint32_t end;
    uint32_t pad;
};

struct control_stream {
    struct snic_net *net;
    struct snic_net_conn *conn; /* NULL: free */
    const struct control_stream_events *e;
    void *owner;
    unsigned char *in;
    unsigned char *out;
    uint32_t in_size;
    uint32_t in_used;
    uint32_t out_size;
    uint32_t written;  /* bytes */
    uint32_t released; /* of them, may leave */
    uint32_t sending;  /* of them, at the network */
    uint32_t marks;
    uint8_t closing; /* nothing is delivered, nothing taken */
    uint8_t ending;  /* to be closed when all has left */
    uint8_t bad;     /* ended by a malformed message */
    uint8_t ended;   /* the other side sends no more */
    uint32_t budget; /* messages that may be taken in this iteration */
    struct snic_timer deliver;
    struct snic_queue bufs;   /* lent, not taken yet */
    int32_t why;              /* SNIC_EVERSION, SNIC_EACCES, SNIC_ENOTSUP, SNIC_ENFILE; 0 */
    uint32_t unauthenticated; /* 1: AUTH is delivered as any other message */
    struct control_auth auth;
    uint64_t durable;
    struct control_mark mark[SNIC_CONTROL__MARKS];
    struct snic_net_send_req req;
    struct snic_iov iov;
};

void control_stream_init(struct control_stream *s, struct snic_net *net,
                         const struct control_stream_events *e, void *owner, unsigned char *in,
                         uint32_t in_size, unsigned char *out, uint32_t out_size);
void control_stream_accept(struct control_stream *s, struct snic_net_conn *c);
int control_stream_connect(struct control_stream *s, const struct snic_net_addr *a);
/* It leaves when @p position is durable. 0; SNIC_EPIPE; SNIC_ENOSPC: the other side does not read,
 * and the stream is about to be gone. */
int control_stream_send(struct control_stream *s, const struct snic_control_msg *m,
                        uint64_t position);
void control_stream_durable(struct control_stream *s, uint64_t position);
/* Orderly, or at once; gone() follows. No effect when it is free. */
void control_stream_close(struct control_stream *s);
void control_stream_abort(struct control_stream *s);

/* Look up the account's secret again; without one the stream is aborted. */
void control_stream_recheck(struct control_stream *s);

/* auth.c. A connection begins, of the end that connects or accepts. */
void control_auth_begin(struct control_auth *a, int connects);
/* The connecting end's first message. 0, or the cipher's error. */
int control_auth_hello(struct control_auth *a, struct snic_control_msg *out);
/* The other end's message. 0: send *out, not sealed, unless its type is 0; SNIC_E*: it ends. */
int control_auth_take(struct control_auth *a, const struct snic_control_msg *m,
                      struct snic_control_msg *out);
/* Write and compare the SNIC_CONTROL__SEAL bytes behind a message. */
int control_auth_seal(struct control_auth *a, unsigned char *message, uint32_t size);
int control_auth_open(struct control_auth *a, const unsigned char *message, uint32_t size);
/* Look up the account's secret again. 0: it has none any more. */
int control_auth_recheck(struct control_auth *a);

/* wire.c */
void control_msg(struct snic_control_msg *m, uint32_t type, uint32_t tag);
/* 1: the address is encodable. */
int control_addr_known(const struct snic_net_addr *a);
int control_addr_same(const struct snic_net_addr *a, const struct snic_net_addr *b);

/* ---- The catalog ---- */

enum control_record { CONTROL_R_HEAD = 1, CONTROL_R_SERVER, CONTROL_R_DISK, CONTROL_R_SEGMENT };

struct control_disk {
    uint64_t ts;
    uint64_t bytes;
    uint64_t key[2]; /* 0: it has none */
    struct snic_control_qos qos;
    uint32_t used; /* enum control_used */
    uint32_t vd;
    uint32_t lease;
    uint32_t held;    /* recorded: the lease has not been returned */
    uint32_t session; /* of the holder; NIL: none */
    uint32_t raised;  /* 1: the lease is granted: READY servers refuse those before it */
    uint32_t next;    /* of the same hash, or free */
    uint32_t first;   /* of its segments */
    uint32_t segments;
    uint32_t reissue;  /* an op has it */
    uint32_t account;  /* of the lease's holder, which may have returned it; recorded */
    uint32_t rights;   /* SNIC_EBS_MAY_*: of any token of the lease; recorded. 0: not known */
    uint64_t grace_ns; /* until then the holder may resume */
    char name[SNIC_CONTROL_NAME];
};

enum control_seg_state { CONTROL_FREE = 0, CONTROL_PLACING, CONTROL_PLACED };

struct control_seg {
    uint64_t ts;
    uint32_t vd;
    uint32_t segment;
    uint32_t server; /* its place in the table */
    uint32_t gen;
    uint32_t next;      /* of the same hash, or free */
    uint32_t next_disk; /* of the same disk */
    uint32_t prev_disk;
    uint8_t state;  /* enum control_seg_state */
    uint8_t sealed; /* its location is not disclosed (C4) */
    uint8_t moving; /* an op has it */
    uint8_t pad;
};

/* control.h documents the tables' memory, for each of segments_max, disks_max and ops_max. */
SNIC_STATIC_ASSERT(sizeof(struct control_seg) == 40, "a segment's bytes");
SNIC_STATIC_ASSERT(sizeof(struct control_disk) + sizeof(uint32_t) == 188, "a disk's bytes");

enum control_server_state { CONTROL_DOWN = 0, CONTROL_CLAIMING, CONTROL_READY };

struct control_server {
    uint64_t ts;     /* 0: not used */
    uint64_t serial; /* no two servers have the same */
    uint32_t id;     /* its place in the table, plus 1 */
    uint32_t session;
    uint32_t state; /* enum control_server_state */
    uint32_t segments;
    uint32_t claimed; /* segments placed there that this registration has claimed */
    uint32_t copying; /* an op has a copy to it in progress */
    uint32_t making;  /* segments being made there */
    uint32_t pad;
    uint64_t free;
    uint64_t places;
    uint64_t lost_ns; /* when it was READY last; 0: never in this process */
    struct snic_net_addr addr;
    struct snic_net_addr peer;
};

struct control_session {
    struct snic_control *c;
    struct control_stream s;
    uint32_t index;
    uint32_t serial;
    uint8_t used;
    uint8_t role; /* 0: no HELLO yet */
    uint8_t ended;
    uint8_t pad;
    uint32_t server; /* its place in the table; NIL: none */
    uint32_t ops;    /* charged to it */
    uint64_t heard_ns;
};

/* A connection for which there is no session. */
struct control_overload {
    struct control_stream s;
    uint64_t since_ns;
    uint8_t used;
};

enum control_op_type {
    CONTROL_OP_ATTACH = 1,
    CONTROL_OP_PLACE,
    CONTROL_OP_MOVE,
    CONTROL_OP_REISSUE
};

struct control_op {
    uint8_t used;
    uint8_t type;  /* enum control_op_type */
    uint8_t state; /* the type's */
    uint8_t tries;
    uint32_t serial; /* 16 bits: of the tags */
    uint32_t next;
    uint32_t session; /* the requester's; NIL: gone */
    uint32_t tag;     /* the requester's */
    uint32_t disk;    /* in the table */
    uint32_t vd;
    uint32_t seg; /* in the table; NIL */
    uint32_t lease;
    uint32_t from; /* servers */
    uint32_t to;
    uint32_t gen;
    uint32_t awaited;
    uint32_t old_disk;                             /* reissue: the disk before */
    uint32_t cursor;                               /* reissue: in the table of segments */
    uint32_t charged;                              /* session that it counts for; NIL */
    uint64_t await[SNIC_CONTROL_SERVERS_MAX / 64]; /* servers that have not answered */
    uint64_t segment;
    uint64_t sent_ns; /* of the last command */
};

SNIC_STATIC_ASSERT(sizeof(struct control_op) == 112, "an op's bytes");

struct snic_control {
    struct snic_control_opts o;
    struct snic_control_events e;
    void *ctx;
    struct snic_wal *wal;
    struct snic_net_listener *listener;
    struct snic_timer timer;
    struct snic_control_stats stats;
    /* the catalog */
    uint64_t uuid[2];
    uint64_t incarnation;
    uint64_t head_ts;
    uint64_t ts;          /* used last */
    uint64_t serving_ns;  /* when serving began */
    uint64_t position;    /* appended last */
    uint32_t vd;          /* used last */
    uint32_t last_server; /* of the round robin for segments */
    struct control_disk *disks;
    struct control_seg *segs;
    struct control_server *servers;
    struct control_session *sessions;
    struct control_overload overload[SNIC_CONTROL__OVERLOAD_MAX];
    struct control_op *ops;
    uint32_t *disk_hash;
    uint32_t *seg_hash;
    uint32_t disk_mask;
    uint32_t seg_mask;
    uint32_t disk_free;
    uint32_t seg_free;
    uint32_t disk_end; /* all from here on were never used */
    uint32_t seg_end;
    uint32_t op_free;
    uint32_t *replaced; /* disks that others of their names have replaced, not recorded yet */
    uint32_t replaced_count;
    int error; /* of recovery */
    uint8_t opened;
    uint8_t closing;
    uint8_t dead;
    uint8_t serving;
    uint8_t rights_due; /* leases are to be compared with rights() */
};

/* record.c: the records' bytes */
#define SNIC_CONTROL__FORMAT 1u
#define SNIC_CONTROL__RECORD 192u
#define SNIC_CONTROL__RECORD_HEAD 72u /* the log's, of each */
uint32_t control_record_disk(unsigned char *p, const struct control_disk *d);
uint32_t control_record_seg(unsigned char *p, const struct control_seg *g);
uint32_t control_record_server(unsigned char *p, const struct control_server *n);
uint32_t control_record_head(unsigned char *p, const struct snic_control *c);

/* catalog.c */
void control_catalog_init(struct snic_control *c);
struct control_disk *control_disk_find(struct snic_control *c, uint32_t vd);
struct control_disk *control_disk_named(struct snic_control *c, const char *name);
struct control_disk *control_disk_new(struct snic_control *c, uint32_t vd);
void control_disk_free(struct snic_control *c, struct control_disk *d);
struct control_seg *control_seg_find(const struct snic_control *c, uint32_t vd, uint64_t segment);
struct control_seg *control_seg_new(struct snic_control *c, uint32_t vd, uint32_t segment);
void control_seg_link(struct snic_control *c, struct control_disk *d, struct control_seg *g);
/* PLACING to PLACED: its server and generation are recorded. */
void control_seg_placed(struct snic_control *c, struct control_disk *d, struct control_seg *g);
void control_seg_free(struct snic_control *c, struct control_disk *d, struct control_seg *g);
/* The generation that is disclosed (C3). */
uint32_t control_seg_gen(const struct control_disk *d, const struct control_seg *g);
uint64_t control_disk_segments(const struct control_disk *d);
void control_server_clear(struct control_server *n, uint32_t id);
/* Records: 0, or an error of snic_wal_append(): then nothing was recorded or changed. */
int control_put_head(struct snic_control *c);
int control_put_disk(struct snic_control *c, struct control_disk *d);
int control_put_disk_gone(struct snic_control *c, struct control_disk *d);
int control_put_replaced_gone(struct snic_control *c);
int control_put_seg(struct snic_control *c, struct control_seg *g);
int control_put_server(struct snic_control *c, struct control_server *n);
int control_put_server_gone(struct snic_control *c, const struct control_server *n);
/* For the log's compaction. 1: the record is the newest of its key. */
int control_record_current(void *ctx, const struct snic_wal_record *r);
int control_catalog_check(const struct snic_control *c);

/* recover.c: a record of the log; all of them were read. */
void control_recover_record(void *ctx, const struct snic_wal_record *r);
int control_recover_finish(struct snic_control *c);

/* session.c */
uint64_t control_now(const struct snic_control *c);
/* The session at this place of the table, unless it has ended; NULL. */
struct control_session *control_session_at(struct snic_control *c, uint32_t index);
/* Held back until all records appended so far are durable (C1). */
void control_session_send(struct control_session *s, const struct snic_control_msg *m);
/* DONE */
void control_session_reply(struct control_session *s, uint32_t tag, int status, uint64_t value);
void control_session_send_server(struct control_session *s, const struct control_server *n);
/* Orderly: after what is queued has been sent. */
void control_session_end(struct control_session *s, int orderly);
/* The peer has sent what no peer of its role sends. */
void control_session_malformed(struct control_session *s);
void control_report(struct snic_control *c, uint32_t type, uint32_t server, uint32_t vd, int error,
                    uint64_t value);
void control_report_refused(struct snic_control *c, uint32_t server, int error,
                            const struct snic_net_addr *addr);
void control_sessions_full(struct snic_control *c);

/* overload.c */
void control_overload_init(struct snic_control *c, unsigned char *memory);
void control_overload_accept(struct snic_control *c, struct snic_net_conn *n);
void control_overload_tick(struct snic_control *c, uint64_t now_ns);
/* Ends them all. @return how many are not gone yet */
int control_overload_end(struct snic_control *c);
/* Sessions reserved for servers that are recorded and down, half of all at most. */
uint32_t control_sessions_reserved(const struct snic_control *c);

/* operation.c */
void control_op_init(struct snic_control *c);
/* @p charged: the session that it counts for, which has no more than are free; NULL: none.
 * @return NULL: no op is free */
struct control_op *control_op_new(struct snic_control *c, uint32_t type,
                                  const struct control_session *s, uint32_t tag,
                                  struct control_session *charged);
/* No answer is awaited, or none that arrives is of use. */
void control_op_free(struct snic_control *c, struct control_op *op);
/* DONE to the requester, if it is still connected. */
void control_op_reply(struct snic_control *c, const struct control_op *op, int status,
                      uint64_t value);
void control_op_session_gone(struct snic_control *c, uint32_t session);
/* 1: the disk has an op. */
int control_op_on_disk(const struct snic_control *c, const struct control_disk *d);
/* Send a server a command for @p op (NULL: without a result). 0; SNIC_EPEERDEAD */
int control_server_command(struct snic_control *c, uint32_t server, struct control_op *op,
                           uint32_t what, uint64_t id, uint32_t vd, uint64_t lba, uint32_t gen,
                           const struct snic_net_addr *from);

/* lease.c */
/* 1: a client has the disk's lease, or may still resume it. */
int control_disk_live(const struct snic_control *c, const struct control_disk *d);
/* SNIC_EBS_MAY_* of a session's account on a disk. */
uint32_t control_lease_rights(struct snic_control *c, const struct control_session *s,
                              const struct control_disk *d);
/* 1: a grant would have its token, or tokens are not used. */
int control_lease_signable(struct snic_control *c, const struct control_session *s,
                           const struct control_disk *d);
void control_lease_grant(struct snic_control *c, struct control_session *s, uint32_t tag,
                         int status, struct control_disk *d);
/* If rights may have changed: end the leases whose accounts have fewer (C7). */
void control_lease_review(struct snic_control *c);
int control_attach(struct snic_control *c, struct control_session *s, uint32_t tag,
                   struct control_disk *d);
void control_attach_answer(struct snic_control *c, struct control_op *op, uint32_t server,
                           int status);
/* 1: not all servers have answered the RAISE for the disk's lease; it is not granted yet. */
int control_attaching(const struct snic_control *c, const struct control_disk *d);

/* segment_place.c */
/* The location, if C4 permits to disclose it and it is not older than @p gen_min. 1; 0 */
int control_location_of(const struct snic_control *c, const struct control_disk *d,
                        const struct control_seg *g, uint32_t gen_min,
                        struct snic_control_item *out);
/* Send the holder the location of a segment, if C4 permits it now. 1: sent. */
int control_location_send(struct snic_control *c, struct control_disk *d, struct control_seg *g);
/* The next server, by round robin, that has a free place; NIL. */
uint32_t control_place_next_server(struct snic_control *c);
int control_place(struct snic_control *c, struct control_disk *d, uint64_t segment);
void control_place_answer(struct snic_control *c, struct control_op *op, int status);
void control_place_tick(struct snic_control *c, struct control_op *op);

/* segment_move.c */
int control_move(struct snic_control *c, struct control_session *s, uint32_t tag,
                 struct control_disk *d, struct control_seg *g, uint32_t to);
void control_move_answer(struct snic_control *c, struct control_op *op, int status);
void control_move_tick(struct snic_control *c, struct control_op *op);

/* disk.c */
int control_disk_create(struct snic_control *c, const char *name, uint64_t bytes,
                        const struct snic_control_qos *qos, const uint64_t key[2],
                        struct control_disk **out);
/* End its operations and delete it, and its segments. 0, or it is not recorded. */
int control_disk_delete(struct snic_control *c, struct control_disk *d);
/* Its deletion is recorded: servers drop its segments, and it is forgotten. */
void control_disk_drop(struct snic_control *c, struct control_disk *d);

/* disk_reissue.c */
/* 1: the name is reserved for a disk that is being reissued. */
int control_name_reserved(const char *name);
int control_reissue(struct snic_control *c, struct control_session *s, uint32_t tag,
                    struct control_disk *old);
void control_reissue_step(struct snic_control *c, struct control_op *op);
void control_reissue_answer(struct snic_control *c, struct control_op *op, int status);
/* The server that has the new segment is gone, and no answer of it is awaited. */
void control_reissue_gone(struct snic_control *c, struct control_op *op);

/* dispatch.c */
/* A server's RESULT of the command @p tag. */
void control_op_result(struct snic_control *c, uint32_t server, uint32_t tag, int status);
void control_op_server_gone(struct snic_control *c, uint32_t server);
void control_op_tick(struct snic_control *c);

/* server_session.c */
void control_server_session_hello(struct control_session *s, const struct snic_control_msg *m);
void control_server_session_msg(struct control_session *s, struct snic_control_msg *m);
void control_server_session_gone(struct control_session *s);
/* Remove a server that is gone for good. 0; SNIC_EBUSY, SNIC_ENOTEMPTY */
int control_server_forget(struct snic_control *c, struct control_server *n);

/* client_session.c */
void control_client_session_welcome(struct control_session *s);
void control_client_session_msg(struct control_session *s, struct snic_control_msg *m);
void control_client_session_gone(struct control_session *s);

/* operator_session.c */
void control_operator_session_msg(struct control_session *s, struct snic_control_msg *m);

#endif /* SNIC_CONTROL_PRIV_H */
