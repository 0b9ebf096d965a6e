/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file system in another process: what remote.c (requests and answers), remote_link.c (the
 * link's ends and beginnings) and the links themselves (remote_ring.c, remote_nvmefs.c) share.
 *
 * Invariants
 *   R1 A call is in one place: queued (not sent), sent (slots[] has it), or done.
 *   R2 A handle that the kernel has is an index into handles[]; the file system's own number for
 *      it changes at each restart of that process, and is 0 while the handle is not open there.
 */
#ifndef KVFS_MOUNT_REMOTE_PRIV_H
#define KVFS_MOUNT_REMOTE_PRIV_H

#include "mount.h"

#include "../common.h"
#include "wire.h"

/* More slots than locks may wait: other requests are not kept out. */
enum { KR_SLOTS = 2 * KM_LOCKS_WAITING, KR_CHANGES = 65536 };
#define KR_CHANGE_NS 30000000000u /* a change as old is in the store */

enum kr_state { KR_DOWN, KR_REOPENING, KR_UP };

struct kr_handle {
    uint64_t ino;
    uint64_t remote;                   /* R2 */
    uint32_t flags;                    /* of OPEN, without TRUNC */
    uint32_t kind;                     /* SNIC_FSOP_OPEN, OPENDIR; 0: free, next in `remote` */
    int lost;                          /* writes that may be */
    struct snic_fscache_handle cached; /* its `writes`: since the last fsync, also without cache */
};

/* Something was changed, and may be lost if the file system's process dies. */
struct kr_change {
    uint64_t ino; /* 0: no more */
    uint64_t number;
    uint64_t ns;
};

struct kr_set {
    uint64_t *slots; /* inodes, 0: none */
    uint64_t room;
    uint64_t count;
};

struct km_remote;

/* How calls are sent. A link reports by remote_heard(), remote_answer(), remote_more(). */
struct kr_link {
    size_t end_bytes; /* of r->end: zeroed, as long as r */
    /* A process listens at the socket: attach to it. 0; SNIC_E*: no resources are held */
    int (*connect)(struct km_remote *r);
    /* No events any more. Calls that were sent stay in slots[]. @p orderly: the process lives, and
       is notified; may run the loop */
    void (*close)(struct km_remote *r, int orderly);
    /* c->number is set. 0; SNIC_EAGAIN: later, or the link ends; others: never */
    int (*send)(struct km_remote *r, struct km_call *c);
    /* Of one that was sent: its result is not needed any more. 0: later */
    int (*cancel)(struct km_remote *r, struct km_call *c);
    size_t (*metrics)(const struct km_remote *r, struct ex_metric *out); /* may be NULL */
};

struct km_remote {
    struct km *m;
    enum kr_state state;
    const struct kr_link *link;
    void *end; /* the link's own */
    struct snic_timer timer;
    struct snic_loop_msg flush;
    uint64_t down_ns;
    uint64_t looked_ns;    /* the timer, last */
    uint64_t silent_ns;    /* it has sent nothing for so long, while requests waited */
    int excused;           /* the reason of its silence is logged */
    uint64_t forgotten_ns; /* then the kernel has invalidated all from before the death */
    int flush_queued;
    int cut;     /* the link is to be taken down */
    int refused; /* the refusal is logged */

    struct km_call *first; /* queued */
    struct km_call *last;
    struct km_call *slots[KR_SLOTS];
    uint16_t free_slots[KR_SLOTS];
    uint32_t free_count;
    uint32_t generation;

    struct kr_handle *handles;
    uint64_t handle_count;
    uint64_t handle_free; /* index + 1 */
    uint64_t reopen_next;
    uint64_t reopening;

    struct kr_change changes[KR_CHANGES]; /* the last ones, by number */
    uint64_t change_count;
    uint64_t durable_changes; /* below this they are durable: one fsync is for all */
    struct kr_change left;    /* the last one that has left the ring, if */
    int left_any;             /* any has */
    uint64_t most;            /* RL2 */
    struct kr_set lost;       /* inodes with changes that may be lost, until it is reported */
    struct kr_set reported;   /* since the overflow */
    uint64_t lost_all;        /* up to this one any may have lost changes; 0: there was none */
    uint64_t overflows;
    uint64_t overflow_logged_ns;
    int fresh_fd; /* numbers of inodes that the kernel has to look up again; -1: none */
    int lost_any; /* something may be, and no SYNCFS has reported it */
};

/* ---- remote.c ---- */

extern const struct km_carrier remote_carrier;

void remote_push(struct km_remote *r, struct km_call *c);
/* 0; SNIC_EAGAIN: later; others: never */
int remote_send(struct km_remote *r, struct km_call *c);
void remote_end(struct km_call *c, int64_t result);
/* What the cache knows of a handle, until the next one is opened; NULL: it is none. */
struct snic_fscache_handle *remote_cached(struct km_remote *r, uint64_t handle);
/* Send what waits, as far as the ring has room. */
void remote_flush(struct km_remote *r);
/* @p data are @p size bytes, or are where the call has room for them (NULL). */
void remote_answer(struct km_remote *r, const struct km_down *d, void *data, uint32_t size);
/* Does it use an inode number that a name had before a death? Then the kernel must look it up
 * again. */
int remote_by_name(const struct snic_fsop *k);
/* The other process lives. */
void remote_heard(struct km_remote *r);
/* The file system's own number of the handle that the call is about; 0: none */
uint64_t remote_theirs(struct km_remote *r, const struct km_call *c);

/* ---- remote_lost.c ---- */

/* Something of the inode was changed; 0: nothing. */
void remote_changed(struct km_remote *r, uint64_t ino);
/* A change of the inode is lost: the next fsync reports it. */
void remote_lost_note(struct km_remote *r, uint64_t ino);
/* The file system's process has died: note what may be lost. */
void remote_lose(struct km_remote *r);
/* @return 1: a change of the inode may be lost; 1 is returned once */
int remote_lost_change(struct km_remote *r, uint64_t ino);
void remote_lost_close(struct km_remote *r);

/* ---- remote_link.c: for the links ---- */

/* The other process states whether its session is alone, and until when that is proven. */
void remote_alone(struct km_remote *r, int alone, uint64_t valid_ns);
/* There may be room again: send what waits, soon. */
void remote_more(struct km_remote *r);

#endif /* KVFS_MOUNT_REMOTE_PRIV_H */
