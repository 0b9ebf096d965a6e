/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/kvfs_mount/mount.h
 * A file system of fs.h behind FUSE: libfuse's low-level interface, or our own (--fuse dev).
 *
 * Layers, the lowest first (tests/layers.py refuses calls upwards):
 *
 *   call.c     memory of requests in flight
 *   answer.c   an answer's bytes go to the kernel, by libfuse or fusedev.h
 *   options.c  the command line
 *   store_state.c   metrics and health of the store of this process
 *   writers.c, open_count.c   inodes and files that are open
 *   helper.c, notify.c, validity.c, refresh.c   how long the kernel may cache what; what it has
 *              cached is invalid
 *   request.c  a request of FUSE becomes a struct snic_fsop: what all have in common
 *   file.c, known.c   open files; inodes that the kernel knows by number
 *   reply.c    the result becomes FUSE's answer
 *   local.c    the file system in this process
 *   remote.c, remote_lost.c   in another one, seen from here: calls, changes that it may lose
 *   cache.c    fscache.h before the link (--two-process --cache-size)
 *   remote_link.c   the other process's deaths and successors
 *   remote_ring.c, remote_nvmefs.c   the links to it
 *   dpu_ring.c, dpu_nvmefs.c, dpu_cache.c, dpu.c   and that process
 *   ops_data.c, ops.c   the operations of FUSE
 *   dev.c      receives the kernel's requests by fusedev.h, for --fuse dev
 *   session.c  receives the kernel's requests: by the thread of the file system itself, or by
 *              readers of their own; mounting
 *   unmount.c, main.c
 *
 * A request in flight is one block of memory: struct km_call, what the kernel wrote (names and data
 * are used where they are, data on a page's beginning), then, where the answer has data, that, in
 * the same place. So nothing is copied but by the kernel. The node ids of FUSE are inode numbers;
 * of an inode that the kernel knows there is a count of how often (known.c), of an open file what
 * file.c has.
 */
#ifndef KVFS_MOUNT_H
#define KVFS_MOUNT_H

#define FUSE_USE_VERSION 35
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../kvfs_tool/store.h"
#include "snicstore.h"

enum {
    KM_PAGE = 4096,
    KM_HEAD = 2 * KM_PAGE, /* struct km_call, then the headers before a WRITE's data  */
    KM_WRITE_HEADERS = 80, /* struct fuse_in_header, struct fuse_write_in             */
    KM_DATA = 1 << 20,     /* most of one READ or WRITE                               */
    KM_LARGE = 64 << 10,   /* larger answers are sent one in each round */
    KM_RECEIVE = KM_DATA + KM_PAGE,
    KM_BLOCK = KM_HEAD + KM_DATA + KM_PAGE,
    KM_BLOCKS = 32768,       /* in flight; address space until they are used            */
    KM_REQUESTS = 8192,      /* the engine's                                            */
    KM_LOCKS_WAITING = 4096, /* more get ENOLCK: others must get through                */
    KM_WRITERS = 4096,       /* lists of the table */
    KM_USERS = 64,           /* as those */
    KM_OPEN_FILES = 262144,  /* at most; default of an option */
    KM_OPEN_FILES_LEAST = 64,
    KM_SPIN_US = 50,
    KM_OPEN_FILES_MOST = 1 << 24
};

#define KM_SPIN_UNSET UINT64_MAX

struct km;

/* Of a lock request that waits. */
enum km_cancel {
    KM_CANCEL_NONE,
    KM_CANCEL_EARLY,   /* not sent yet                                        */
    KM_CANCEL_AT_ONCE, /* interrupted before it was sent                      */
    KM_CANCEL_POSTED,  /* the message is on its way to the loop               */
    KM_CANCEL_OVER     /* and the call has ended: the message frees the block */
};

/* A process makes the kernel refresh attributes; opens meanwhile keep no pages. */
enum km_refresh { KM_REFRESH_NONE, KM_REFRESH_RUNS, KM_REFRESH_OVER };

/* Exit codes, those of mount(8), which returns those of its helpers. */
enum { KM_USAGE = 1, KM_FAILED = 32 };

struct km_config {
    const char *mountpoint;
    const char *store;
    const char *options; /* -o */
    const char *metrics;
    uint64_t cache_bytes;   /* of records; of two processes: of pages, 0: none */
    uint64_t records_bytes; /* of two processes */
    uint64_t threads;
    uint64_t timeout; /* seconds that the kernel keeps names and attributes while we are alone */
    uint64_t stats;
    uint64_t spin_us;
    uint64_t open_files;
    uint64_t user_open_files; /* 0: half of those */
    int foreground;
    int mkfs;
    int exclusive;
    int writeback;  /* the kernel's */
    int write_back; /* the cache's */
    int prefetch;
    int read_only;
    uint32_t atime;    /* SNIC_KVFS_NO_ATIME, _STRICT_ATIME; 0: relatime */
    uint32_t diratime; /* SNIC_KVFS_NO_DIRATIME; 0: as files */
    int two_process;
    const char *link;   /* NULL, "ring", "nvmefs": between the two processes */
    int nvmefs;         /* it is nvme-fs */
    const char *fuse;   /* NULL, "libfuse", "dev": who reads /dev/fuse */
    int dev;            /* fusedev.h does */
    const char *role;   /* NULL, "host", "dpu": set by the supervisor */
    const char *socket; /* between the two */
    const char *folder; /* of the socket, if the supervisor made it */
    int supervisor;     /* its process then */
};

/* An owner that has set a lock through an open file, and not closed a descriptor since. */
struct km_owner {
    struct km_owner *next;
    uint64_t owner;
};

/* An open file: what the kernel calls its handle. */
struct km_file {
    struct snic_link link; /* m->files */
    uint64_t handle;       /* the engine's */
    struct km_owner *owners;
    int sgid;            /* set-gid without execution by the group, when it was opened */
    uint64_t writer;     /* the inode, if it counts in m->writers, */
    uint32_t open_flags; /* so */
    uint32_t uid;        /* of the user that opened it: it counts in m->open */
};

/* A request in flight; the head of its block. */
struct km_call {
    struct snic_fs_req r;
    struct km *m;
    fuse_req_t fuse;               /* the kernel's request, of libfuse, */
    struct snic_fusedev_call *dev; /* or of fusedev.h; both NULL: it needs no answer */
    struct km_call *next;          /* of the free ones */
    struct km_file *file;          /* that it is about, or NULL */
    struct snic_iov iov;
    struct snic_loop_msg post;   /* from a reader's thread to the loop's */
    struct snic_loop_msg cancel; /* SETLKW was interrupted */
    struct snic_node large;      /* in m->large */
    atomic_int cancelling;       /* enum km_cancel                                            */
    uint32_t raw;                /* flags of the kernel that libfuse does not pass on         */
    uint32_t size;               /* bytes that the kernel has room for                        */
    uint32_t seek;               /* a GETATTR for SEEK_DATA or SEEK_HOLE; else 0              */
    uint64_t copied;             /* COPY: by requests before */
    uint32_t open_flags;
    uint32_t opens; /* it counts in m->open */
    uint32_t waits; /* a lock request, counted in m->locks_waiting */
    int cancelled;  /* behind a link: so that the lock is not requested again after a death */
    void (*interrupt)(struct km_call *c);
    void *data;                      /* of the answer; km_call_data(), or memory of the ring */
    uint64_t number;                 /* behind a link: names the request, */
    uint64_t reopen;                 /* it opens the handle of this index again, */
    uint64_t dirty;                  /* writes of the handle when FSYNC was sent, */
    uint64_t changes;                /* and changes of all */
    struct snic_nvmefs_req nvme;     /* it as a command */
    void (*home)(struct km_call *c); /* it has an answer; NULL: km_call_done() */
    struct snic_fscache_req cached;  /* behind a cache */
    uint32_t groups[SNIC_FSOP_GROUPS_MAX];
};

/* Carries calls out; one of local.c, remote.c. */
struct km_carrier {
    /* From any reader's thread. km_call_done() follows, from the loop's. */
    void (*submit)(struct km *m, struct km_call *c);
    /* On the loop's thread. 0: it has not arrived yet. */
    int (*cancel)(struct km *m, struct km_call *c);
    /* Attributes as they are with what it has not sent. NULL: it sends all at once */
    void (*amend)(const struct km *m, struct snic_fsop_attr *a);
};

/* Open files: open_count.c. */
struct km_user;
struct km_open_count {
    pthread_mutex_t lock;
    struct km_user *users[KM_USERS];
    uint64_t count;
    uint64_t refused_user;
    uint64_t refused_all;
    uint64_t logged[2];    /* of each of those, in the log, */
    uint64_t logged_ns[2]; /* and when */
};

struct km_known;

struct km {
    struct km_config *config;
    struct snic_loop *loop;
    const struct km_carrier *carrier;
    struct kvfs_store store;  /* local.c */
    int mounted;              /* local.c */
    int dead;                 /* the session is, and that is logged */
    struct km_remote *remote; /* remote.c */
    struct km_cache *cache;   /* cache.c; NULL: none */
    struct km_known *known;   /* known.c */
    struct fuse_session *se;
    int fd;
    struct snic_fusedev *dev; /* dev.c; NULL: libfuse reads */
    void *dev_memory;
    size_t dev_size;
    int dev_closed;
    uint64_t init_unique; /* of FUSE_INIT, whose answer is amended */
    uint32_t init_flags;  /* what the kernel can do */
    uint32_t init_minor;
    double timeout;  /* seconds for names and attributes while we are alone */
    pthread_t owner; /* the loop's thread */
    pthread_t *readers;
    unsigned reader_count;
    atomic_int over;   /* unmounted: no more requests */
    atomic_int alone;  /* no other session: the kernel may keep names and attributes, */
    uint64_t valid_ns; /* until then (validity.c) */
    int valid_expired; /* that has passed, and the kernel is notified */
    atomic_int writeback;
    atomic_uint locks_waiting;
    atomic_uint in_flight;
    struct snic_loop_msg over_msg;
    atomic_int stopping;
    pthread_t stopper; /* unmount.c: waits for the unmounting */
    int stopper_runs;
    pthread_t refresher; /* refresh.c */
    int refresh_fd;
    pthread_mutex_t refresh_lock; /* of refresh_pid, from fork to reaping */
    pid_t refresh_pid;
    int refresh_ended;     /* by us: so it has not failed */
    atomic_int refreshing; /* enum km_refresh */
    int mounted_here;      /* session.c */
    struct snic_timer look;

    struct snic_link files; /* open ones: the loop's thread has them */

    struct km_open_count open;
    pthread_mutex_t writers_lock; /* writers.c */
    struct km_writer *writers[KM_WRITERS];
    int writers_unknown; /* no memory for all of them */

    struct snic_queue large; /* answers that session.c sends one at a time */
    int defer_large;

    pthread_mutex_t lock; /* of the blocks */
    unsigned char *arena;
    uint32_t arena_used;
    struct km_call *free;

    uint64_t calls; /* answered, by the loop's thread */
    uint64_t spins;
    uint64_t errors;
    uint64_t io_errors;
    uint64_t read_bytes;
    uint64_t write_bytes;
};

/* ---- options.c ---- */

/* Wrong usage: it ends the process. */
void km_wrong(const char *what) __attribute__((noreturn));
/* @return how many *@p out are, as ex_options() has taken them */
int km_arguments(struct km_config *c, int argc, char **argv, char ***out);
/* How many inodes the engine may know: what is open, and what is held without a name. */
static inline uint32_t km_inodes(const struct km_config *c)
{
    return (uint32_t)(c->open_files + c->open_files / 2);
}
/* A digest of the settings that both roles must have in common. */
uint64_t km_tag(const struct km_config *config);
/* What libfuse is to know of -o. */
void km_options_libfuse(const struct km_config *c, char *out, size_t room);

/* ---- call.c ---- */

int km_calls_open(struct km *m);
void km_calls_close(struct km *m);
/* A block; NULL when all are in flight. From any thread. */
struct km_call *km_call_get(struct km *m);
void km_call_put(struct km_call *c);
/* A call of nothing, in its block. */
void km_call_clear(struct km_call *c);
/* The block whose request this thread decodes now; NULL: none. */
void km_call_decode(struct km_call *c);
/* That block, the caller's from now on; NULL: it was taken. */
struct km_call *km_call_take(void);
/* Where the kernel's request is, so that a WRITE's data begin a page. */
static inline unsigned char *km_call_buffer(struct km_call *c)
{
    return (unsigned char *)c + KM_HEAD - KM_WRITE_HEADERS;
}
/* KM_DATA bytes for an answer; what the kernel wrote is there until then. */
static inline unsigned char *km_call_data(struct km_call *c)
{
    return (unsigned char *)c + KM_HEAD;
}

/* ---- answer.c: on any thread with libfuse, else on the loop's ---- */

/* Does the kernel wait for an answer? */
static inline int km_answer_due(const struct km_call *c)
{
    return c->fuse != NULL || c->dev != NULL;
}
/* Answer with an error of <errno.h>, or 0: done. @return 0; -ENOENT: the kernel has abandoned the
   request; another error of it */
int km_answer_error(struct km_call *c, int error);
/* Answer with bytes, which begin with the operation's struct if it has one. @return likewise */
int km_answer_bytes(struct km_call *c, const void *data, size_t size);
/* The answer is an error, and the call was not begun: release the block. */
void km_answer_refuse(struct km_call *c, int error);
/* Call @p fn at the request's interruption: at once, if it is interrupted already; NULL: do not. */
void km_answer_interrupt(struct km_call *c, void (*fn)(struct km_call *c));
int km_answer_interrupted(const struct km_call *c);

/* ---- dev.c: on the loop's thread ---- */

/* Serve m->fd by fusedev.h. @return 0; -1: it is logged */
int km_dev_open(struct km *m);
/* Read and begin a request. @return bytes, 1 at least; 0: none is there; -1: unmounted */
int km_dev_take(struct km *m);
/* Have the loop wake when there is one. @return 0; SNIC_E* */
int km_dev_wake(struct km *m);
/* No more requests. Runs the loop. */
void km_dev_end(struct km *m);
/* All requests have their answers. */
void km_dev_close(struct km *m);

/* ---- session.c ---- */

int km_session_open(struct km *m);
int km_session_mount(struct km *m);
/* Answer the kernel until it is unmounted. */
void km_session_run(struct km *m);
/* No more requests: what is in flight ends. From any thread. */
void km_session_over(struct km *m);
void km_session_close(struct km *m);

/* ---- notify.c ---- */

/* The kernel's protocol is of this minor version: for how long it may keep names and attributes. */
void km_notify_begin(struct km *m, uint32_t minor);
/* Does the kernel know epochs? Then all names are invalid at once. */
int km_notify_has_epochs(const struct km *m);
/* Invalidate names in the kernel, and attributes that come with them. It does not wait. @return ns
   after which they are invalid in the kernel, too */
uint64_t km_notify_expire(struct km *m);
/* Invalidate the inode's attributes in the kernel, so that it detects that its pages are old. It
   does not wait if the caller answers its call on an open file of the inode only afterwards. */
void km_notify_invalid(const struct km *m, uint64_t ino);

/* ---- validity.c: on the loop's thread ---- */

/* Replies may be cached until then, as snic_kvfs_valid_until_ns() states it; @p alone as in its
   statistics. @return 1: that has changed */
int km_valid_set(struct km *m, int alone, uint64_t until_ns);
/* How many seconds the kernel may cache a reply that is sent now. */
double km_valid_seconds(const struct km *m);
/* May memory of this process be used for replies? */
int km_valid_now(const struct km *m);
/* Periodically: when validity has ended without a word from the file system, the kernel's names are
   invalidated once. */
void km_valid_look(struct km *m);

/* ---- helper.c ---- */

/* Start this program anew with arguments @p what and the mount point, @p input as its standard
   input. It ends with the calling thread. @return as fork() */
pid_t km_helper_start(const struct km *m, const char *what, int input);
/* Wait for it. @return 0: it did what it should; -1 */
int km_helper_reap(pid_t pid);

/* ---- refresh.c ---- */

/* Refresh attributes and pages of the inodes whose numbers are in file @p fd, which it closes; by a
   helper process. @return 0; -1: one runs already, and the file is still open */
int km_refresh_start(struct km *m, int fd);
/* What that does, with the file as standard input: KM_REFRESH and the mount point. */
int km_refresh_helper(const char *at);
/* End that process; it exits once its pending calls are answered. @return it, 0: none */
pid_t km_refresh_end(struct km *m);
#define KM_REFRESH "--refresh"

/* ---- unmount.c ---- */

/* Unmount, by a helper process. */
void km_unmount_start(struct km *m);
/* What that does: its arguments are KM_UNMOUNT and the mount point. @return exit code */
int km_unmount_helper(const char *at);
#define KM_UNMOUNT "--unmount"

/* ---- request.c ---- */

/* Begin a call for a request, in the block of this thread; @p req: libfuse's, or NULL. */
struct km_call *km_begin(fuse_req_t req, enum snic_fsop_kind kind, fuse_ino_t ino);
void km_name(struct km_call *c, const char *name);
void km_name2(struct km_call *c, const char *name);
/* It may answer with @p size bytes. */
void km_room(struct km_call *c, size_t size);
/* The caller's groups, from /proc: the kernel does not send them. */
void km_groups(struct km_call *c);
/* The caller takes set-uid and set-gid with it: what decides over the latter. */
void km_kill(struct km_call *c);
/* It is about an open file, if @p fi has one. */
void km_use_file(struct km_call *c, const struct fuse_file_info *fi);
void km_go(struct km_call *c);
/* The same for one that opens: unless too many are open. */
void km_go_open(struct km_call *c);

/* ---- ops.c, ops_data.c ---- */

extern const struct fuse_lowlevel_ops km_ops;
void km_init(void *userdata, struct fuse_conn_info *conn);
void km_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void km_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                  struct fuse_file_info *fi);
void km_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void km_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
                 struct fuse_file_info *fi);
void km_op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void km_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void km_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void km_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                     struct fuse_file_info *fi);
void km_op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void km_op_copy(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                int flags);
void km_op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock);
void km_op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock,
                 int sleep);
void km_op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op);

/* ---- file.c: on the loop's thread ---- */

/* An open file for the handle that the call has brought. NULL: no memory. */
struct km_file *km_file_new(struct km_call *c);
/* What a call that has ended means for its open file; the last one frees it. */
void km_file_note(struct km_call *c);
/* Of a RELEASE: the owner of the locks that are left. */
uint64_t km_file_owner(const struct km_file *f);
void km_file_free(struct km *m, struct km_file *f);

/* ---- open_count.c ---- */

/* One more, of the call that is to open it, @return 0, or why not: EMFILE, ENFILE, ENOMEM. Any
   thread */
int km_open_take(struct km_call *c);
/* One less of the user's. */
void km_open_give(struct km *m, uint32_t uid);
struct ex_metric;
size_t km_open_metrics(struct km *m, struct ex_metric *out);

/* ---- writers.c ---- */

/* It was opened; @return 1: it counts, until dropped. On the loop's thread */
int km_writers_add(struct km *m, uint64_t ino, uint32_t open_flags);
void km_writers_drop(struct km *m, uint64_t ino, uint32_t open_flags);
/* May the kernel have dirty bytes of it that it has not sent? From any thread. */
int km_writers_any(struct km *m, uint64_t ino);
/* Is it open for writing? From any thread. */
int km_writers_open(struct km *m, uint64_t ino);

/* ---- known.c ---- */

int km_known_open(struct km *m); /* 0; -1 no memory */
void km_known_close(struct km *m);
/* A reply is about to name the inode, or has not done so after all (drop it). */
void km_known_add(struct km *m, uint64_t ino);
/* It has forgotten it @p count times. From any thread. */
void km_known_drop(struct km *m, uint64_t ino, uint64_t count);
/* It has lost its last name, and @p handle keeps it. */
void km_known_hold(struct km *m, uint64_t ino, uint64_t handle);
/* No more requests: all such handles end. Runs the loop. */
void km_known_end(struct km *m);
/* Inodes without a name that are held. From any thread. */
uint64_t km_known_held(struct km *m);

/* ---- reply.c ---- */

/* It is over: reply to the kernel, release the block. On the loop's thread. */
void km_call_done(struct km_call *c);
/* Reply to the kernel now, to a call that waited in m->large. */
void km_call_answer(struct km_call *c);

/* ---- cache.c ---- */

int km_cache_open(struct km *m);
/* Requests have ended: what is dirty goes to the file system. While the link is there. */
void km_cache_close(struct km *m);
/* Do not wait for the file system's process any more: what it does not have is lost. */
void km_cache_give_up(struct km *m);
/* Periodically, and when other sessions come or leave, or the link is open again. */
void km_cache_look(struct km *m);
/* @return how many */
struct ex_metric;
size_t km_cache_metrics(const struct km *m, struct ex_metric *out);
/* A request waits for the other process. */
int km_cache_waits(const struct km *m);

/* ---- local.c ---- */

int km_local_open(struct km *m);
/** @return 0; <0 the store could not be unmounted in order: it is logged */
int km_local_close(struct km *m);

/* ---- remote_link.c, and the links ---- */

struct kr_link;
extern const struct kr_link remote_ring;
extern const struct kr_link remote_nvmefs;
int km_remote_open(struct km *m, const struct kr_link *link);
void km_remote_close(struct km *m);
struct ex_metric;
/* The link's figures. @return how many; 0 where there is no other process */
size_t km_remote_metrics(const struct km *m, struct ex_metric *out);

/* ---- store_state.c ---- */

/* The figures of the process that has the store; none in the other. @return how many */
size_t km_store_metrics(struct kvfs_store *store, struct ex_metric *out);
/* Log, once (*dead), that the session is declared dead, and that others cannot be; of a store that
   is mounted. */
struct snic_kvfs_stats;
void km_store_judge(struct kvfs_store *store, const struct snic_kvfs_stats *s, int *dead);

/* ---- dpu.c, main.c ---- */

int km_dpu_run(struct km_config *config);
/* The mount serves: report @p status to the process that waits for it (the shell). */
void km_serving(int status);

#endif /* KVFS_MOUNT_H */
