/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Inside nvme-fs: the two halves of a queue pair.
 *
 * sqe.c        entries, pointers, control messages
 * ops.c        headers of file operations
 * host.c       the host's half: submit, kick, reap
 * host_lay.c   how a command lies in its page: header, PRP and SGL lists
 * host_abort.c aborts, sleep, reset
 * dpu.c        the DPU's half: queues, control messages, what is to be done next
 * dpu_look.c   reading submission entries, and when to be rung for them
 * dpu_cmd.c    a command from its entry to its completion
 * dpu_data.c   where a command's bytes are: PRP and SGL, resolved to runs
 * dpu_post.c   completion entries
 * check.c      both halves, between calls
 */
#ifndef SNIC_NVMEFS_PRIV_H
#define SNIC_NVMEFS_PRIV_H

#include <stdatomic.h>

#include "snicstore/nvmefs.h"

#define SNIC_NVMEFS__SGL_DATA SNIC_NVME_SGL_DATA
#define SNIC_NVMEFS__SGL_LAST SNIC_NVME_SGL_LAST
#define SNIC_NVMEFS__POISON UINT64_C(0x8000000000000000) /* Dword0-1 of a free completion entry */
#define SNIC_NVMEFS__ANSWER_AT 0U
#define SNIC_NVMEFS__LISTS_AT 192U   /* in a command's page: behind the answer                    */
#define SNIC_NVMEFS__CTL_BYTES 4096U /* lists and header of a command, the DPU's copy           */
#define SNIC_NVMEFS__LOOK_MAX 32U
#define SNIC_NVMEFS__POST_MAX 16U /* completions in one step                                    */
#define SNIC_NVMEFS__REFUSED 64U
SNIC_STATIC_ASSERT(SNIC_NVMEFS_ANSWER_MAX <= SNIC_NVMEFS__LISTS_AT, "they do not overlap");

/* ---- Host ---- */

enum nvmefs_slot_state { NVMEFS_SLOT_FREE, NVMEFS_SLOT_SENT };

/** A command of the host's. */
struct nvmefs_slot {
    struct snic_nvmefs_req *req;
    uint32_t room; /* for data out, or bytes of data in                                      */
    uint8_t state;
    uint8_t wanted; /* an Abort is to be sent                                                 */
};

/**
 * Invariants
 *   H1 head <= tail <= head + depth: entries [head, tail) may not have been taken by the DPU.
 *   H2 A slot is SENT from the store of its entry until its completion was reaped; the free list
 *      has the others, each once; the last command id is Abort's and on no list.
 *   H3 At most depth commands are SENT, so no completion entry is overwritten before it is reaped.
 *   H4 Nothing that decides anything is read back from the queue's memory.
 */
struct snic_nvmefs_host {
    struct snic_nvmefs_host_opts opts;
    unsigned char *bells;
    unsigned char *sq;
    unsigned char *cq;
    unsigned char *pages;
    unsigned char *data;
    struct nvmefs_slot *slots;
    uint16_t *free;
    uint32_t free_count;
    uint32_t outstanding; /* users' requests, sent or lost                                    */
    uint32_t tail;
    uint32_t kicked; /* tail at the last kick                                                 */
    uint32_t head;
    uint32_t cq_head;
    uint32_t shift; /* log2 of depth                                                          */
    uint32_t generation;
    uint32_t wanted; /* slots that want an Abort                                              */
    int error;
    uint8_t aborting; /* the Abort command is out                                             */
    uint8_t armed;    /* the DPU's bell has rung since it last rang ours                      */
    uint16_t abort_cid;
    struct snic_queue lost; /* by a reset                                                     */
    struct snic_nvmefs_host_stats stats;
};

static inline uint32_t nvmefs_turn(uint32_t position, uint32_t shift)
{
    return (~(position >> shift)) & 1; /* 1 in the first round */
}

/** Write an entry and make it visible. */
void nvmefs_host_publish(struct snic_nvmefs_host *h, struct snic_nvmefs_sqe *s);
/** Format the queue's memory. */
void nvmefs_host_format(struct snic_nvmefs_host *h);
/** Send an Abort if one is wanted and can be sent. */
void nvmefs_host_abort_next(struct snic_nvmefs_host *h);
/** Copy @p bytes between @p data, of the queue's memory, and the request's pieces: to @p data if
    @p in. */
void nvmefs_host_copy(struct snic_nvmefs_host *h, const struct snic_fsop *op, unsigned char *data,
                      size_t bytes, int in);
/** Header, data and pointers of @p req as command @p cid. 0 or SNIC_E*. */
int nvmefs_host_lay(struct snic_nvmefs_host *h, struct snic_nvmefs_req *req, uint16_t cid,
                    struct snic_nvmefs_sqe *s);

/* ---- DPU ---- */

/** Of an address: the window is above. */
#define SNIC_NVMEFS__OFFSET_MASK ((UINT64_C(1) << 48) - 1)

enum nvmefs_cmd_state {
    NVMEFS_CMD_FREE,
    NVMEFS_CMD_READY,   /* on the ready list: wants a step                                    */
    NVMEFS_CMD_STEP,    /* its step is out                                                    */
    NVMEFS_CMD_STARVED, /* waits for chunks                                                   */
    NVMEFS_CMD_REQUEST, /* to be polled                                                       */
    NVMEFS_CMD_USER,    /* with the file system                                               */
    NVMEFS_CMD_DONE,    /* on its queue's done list                                           */
    NVMEFS_CMD_POSTING  /* its completion is in a step                                        */
};

enum nvmefs_cmd_phase {
    NVMEFS_POINTERS = 1, /* lists, and the header if one can know where it is                  */
    NVMEFS_DATA_IN = 2,
    NVMEFS_DATA_OUT = 3 /* in steps of its own: too many pieces for a completion's step        */
};

/** A place in the bytes of one direction of a command. */
struct nvmefs_cursor {
    uint32_t index;  /* piece                                                                 */
    uint32_t inside; /* bytes of it that are done                                             */
    uint32_t at;     /* bytes of the whole                                                    */
};

/** One direction as the entry has it, with the private copy of its list. */
struct nvmefs_dir {
    uint64_t pointer[2];
    const unsigned char *list; /* in ctl; NULL: none                                          */
    uint32_t list_bytes;
    uint32_t length; /* header and data                                                       */
    uint8_t sgl;
};

struct nvmefs_cmd {
    struct snic_nvmefs_cmd user; /* first                                                     */
    struct snic_link link;       /* of the one list that its state has                         */
    uint8_t state;
    uint8_t phase;
    uint8_t aborted;   /* by the host, while a step is out                                      */
    uint8_t cancelled; /* passed to the user's cancel, or on its list */
    uint8_t cancel;    /* on the list of those to be cancelled                                  */
    uint8_t header_here;
    uint8_t has_next; /* POSTING: the host has read the completion before its step has ended, and
                         reuses the command id: next is that entry                          */
    uint8_t sent;     /* the answer and data out are there                                        */
    uint16_t status;
    uint16_t wh_len;
    uint16_t rh_len;
    uint32_t in_bytes;  /* data in                                                            */
    uint32_t out_bytes; /* room for data out                                                  */
    uint32_t send;      /* bytes of data out that go back                                     */
    uint32_t answer_bytes;
    int64_t result;
    struct nvmefs_dir write;
    struct nvmefs_dir read;
    struct nvmefs_cursor cursor;
    uint32_t header_at; /* in ctl                                                             */
    uint32_t chunk_count;
    uint32_t chunks[SNIC_NVMEFS_PIECES_MAX];
    struct snic_iov iov[SNIC_NVMEFS_PIECES_MAX];
    struct snic_link cancel_link;
    uint64_t next[SNIC_NVMEFS_SQE_BYTES / 8];
    uint64_t answer[SNIC_NVMEFS_ANSWER_MAX / 8];
    uint64_t ctl[SNIC_NVMEFS__CTL_BYTES / 8];
};

enum nvmefs_step_kind { NVMEFS_STEP_LOOK = 1, NVMEFS_STEP_CMD, NVMEFS_STEP_POST };

struct nvmefs_step {
    struct snic_nvmefs_step user; /* first                                                    */
    uint8_t kind;                 /* 0: free                                                  */
    uint8_t retried;              /* POST: the entries alone                                   */
    uint16_t queue;
    uint32_t first; /* POST: position of the first entry; LOOK: of the first entry            */
    uint32_t n;     /* entries                                                                */
    uint32_t arms;  /* LOOK: 1 + what it writes to sq_event; 0 nothing. POST: operations that
                       write entries                                                         */
    struct nvmefs_cmd *cmds[SNIC_NVMEFS__POST_MAX]; /* POST; NULL: a refusal                  */
    uint32_t event;
    unsigned char bytes[SNIC_NVMEFS__LOOK_MAX * SNIC_NVMEFS_SQE_BYTES];
    unsigned char second[SNIC_NVMEFS__LOOK_MAX * SNIC_NVMEFS_SQE_BYTES];
};

enum nvmefs_queue_state {
    NVMEFS_QUEUE_CLOSED,
    NVMEFS_QUEUE_OPEN,
    NVMEFS_QUEUE_FAILED,  /* drains, then waits for DELETE                                     */
    NVMEFS_QUEUE_DELETING /* drains, then CLOSED                                               */
};

struct nvmefs_refusal {
    int64_t result;
    uint16_t cid;
    uint16_t status;
};

struct nvmefs_queue {
    uint8_t state;
    uint8_t looking;   /* a look is out                                                        */
    uint8_t want_look; /* one is to be made                                                    */
    uint8_t never;     /* sq_event is NEVER                                                    */
    uint8_t turn;      /* the next look writes sq_event: 1 ALWAYS, 2 NEVER                     */
    uint8_t armed;     /* the host wants to be rung at the next completion                     */
    uint8_t unrung;    /* completions are there that it was not rung for                       */
    uint8_t ctl_due;   /* SNIC_NVMEFS_CTL_*: a control message to send; 0: none                */
    uint32_t empties;  /* looks in a row that found nothing                                    */
    uint32_t depth;
    uint32_t shift;
    uint32_t generation;
    uint32_t head;    /* entries taken                                                         */
    uint32_t cq_tail; /* completions placed                                                    */
    uint32_t busy;    /* commands that are not FREE                                            */
    uint32_t steps;   /* out                                                                   */
    uint32_t found;   /* by the last look that found any                                       */
    int error;        /* of the control message that waits                                     */
    uint64_t sq;
    uint64_t cq;
    uint64_t bells;
    uint32_t refused_head;
    uint32_t refused_tail;
    uint32_t nexts; /* commands that have one */
    struct nvmefs_refusal refused[SNIC_NVMEFS__REFUSED];
    struct snic_link done;
    struct nvmefs_cmd *cmds; /* by command id                                                  */
};

/** The last answer for a queue that does not exist. A host sends no other request before it. */
struct nvmefs_odd {
    uint32_t generation;
    int error;
    uint16_t type; /* 0: none waits                                                           */
};

struct nvmefs_window {
    uint64_t key;
    uint64_t size; /* 0: none                                                                 */
};

/**
 * Invariants
 *   D1 A command is in one state and on the one list that the state has.
 *   D2 Chunks are free or of one command; only starved commands wait, in order.
 *   D3 Every address was checked against its window when the list was copied, and is used from the
 *      copy: what the host does to its memory meanwhile changes data, not places.
 *   D4 Completion entries are placed in order of their steps; a queue that can not be written to is
 *      FAILED and gets nothing more.
 */
struct snic_nvmefs_dpu {
    struct snic_nvmefs_dpu_opts opts;
    struct nvmefs_window windows[SNIC_NVMEFS_WINDOWS_MAX];
    struct nvmefs_queue queues[SNIC_NVMEFS_QUEUES_MAX];
    struct nvmefs_cmd *cmds;
    struct nvmefs_step *steps;
    struct snic_queue free_steps;
    uint32_t steps_out;
    unsigned char *chunk_mem;
    uint32_t *free_chunks;
    uint32_t free_count;
    uint32_t data_max;
    uint32_t with_user;
    uint32_t next_queue; /* round robin                                                        */
    struct snic_queue again; /* steps whose entries are to be written once more                */
    struct nvmefs_odd odd[SNIC_NVMEFS_QUEUES_MAX];
    uint32_t bells; /* the host's, to be rung                                             */
    uint8_t detached;
    struct snic_link ready;
    struct snic_link starved;
    struct snic_link requests;
    struct snic_link cancels;
    struct snic_nvmefs_dpu_stats stats;
};

/* ---- dpu.c ---- */

struct nvmefs_step *nvmefs_step_take(struct snic_nvmefs_dpu *d, enum nvmefs_step_kind kind,
                                     uint32_t queue);
/** Add an operation on the host's memory. */
void nvmefs_step_add(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, uint8_t kind, uint8_t flags,
                     uint64_t address, void *local, uint32_t length);
/** Has @p address a window, and does it hold @p size bytes from there? */
int nvmefs_window_holds(const struct snic_nvmefs_dpu *d, uint64_t address, uint64_t size);
/** The queue's memory can not be reached. */
void nvmefs_queue_fail(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q, int error);
/** Everything that the queue has is to end. */
void nvmefs_queue_drain(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q);
/** The queue may have nothing left. */
void nvmefs_queue_settle(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q);

static inline uint32_t nvmefs_queue_number(const struct snic_nvmefs_dpu *d,
                                           const struct nvmefs_queue *q)
{
    return (uint32_t)(q - d->queues);
}
static inline struct nvmefs_queue *nvmefs_queue_of(struct snic_nvmefs_dpu *d,
                                                   const struct nvmefs_cmd *c)
{
    return &d->queues[c->user.queue];
}

/* ---- dpu_look.c ---- */

/** Begin a look if one is wanted and possible. */
struct nvmefs_step *nvmefs_look_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q);
void nvmefs_look_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result);

/* ---- dpu_cmd.c ---- */

/** An entry has come. */
void nvmefs_cmd_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q, const void *entry);
/** The next step of a command that is READY. NULL: no step is free. */
struct nvmefs_step *nvmefs_cmd_step(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c);
void nvmefs_cmd_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result);
/** Complete with a status, or with a result. */
void nvmefs_cmd_end(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c, uint32_t status,
                    int64_t result);
/** Nothing of it is left. */
void nvmefs_cmd_free(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c);
/** The host aborts it. 1; 0 too late, it is done. */
int nvmefs_cmd_abort(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c);

/* ---- dpu_data.c ---- */

/** Check the entry's pointers; sets dirs and the lists' sizes. A status. */
uint32_t nvmefs_dir_init(const struct snic_nvmefs_dpu *d, struct nvmefs_dir *r,
                         const uint64_t pointer[2], int sgl, uint32_t length, uint64_t *list_at);
/** The list is here: all its pieces lie in windows and have the right length. A status. */
uint32_t nvmefs_dir_check(const struct snic_nvmefs_dpu *d, const struct nvmefs_dir *r);
/** The next run of bytes at the cursor, at most @p most; moves the cursor. Its length; 0: the end.
 */
uint32_t nvmefs_dir_next(const struct nvmefs_dir *r, struct nvmefs_cursor *k, uint32_t most,
                         uint64_t *address);
/** Bytes at the beginning that lie together. */
uint32_t nvmefs_dir_first(const struct nvmefs_dir *r, uint64_t *address);
/** Take chunks for the command's data. 0: there are too few. */
int nvmefs_chunks_take(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c);
void nvmefs_chunks_give(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c);
/** Operations of one direction from the cursor on, as many as @p room. Operations added. */
uint32_t nvmefs_data_ops(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c, struct nvmefs_step *s,
                         uint32_t room);
/** Operations that all of the answer and data out take. */
uint32_t nvmefs_out_count(const struct snic_nvmefs_dpu *d, const struct nvmefs_cmd *c);

/* ---- dpu_post.c ---- */

struct nvmefs_step *nvmefs_post_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q);
void nvmefs_post_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result);
/** The step failed: its entries alone, with a status, from now on. */
void nvmefs_post_again(struct nvmefs_step *s);
/** A completion without a command. */
void nvmefs_refuse(struct nvmefs_queue *q, uint16_t cid, uint32_t status, int64_t result);

#endif /* SNIC_NVMEFS_PRIV_H */
