/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The link to the file system's process: opened, lost at its death, opened to its successor. */
#include "remote_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define KR_RETRY_NS 50000000u
#define KR_GIVE_UP_S 30u
#define KR_GIVE_UP_NS (KR_GIVE_UP_S * 1000000000ull)
#define KR_STOPPING_NS 2000000000u

/* ---- The links' events ---- */

static void remote_flush_run(struct snic_loop_msg *msg)
{
    struct km_remote *r = SNIC_CONTAINER(msg, struct km_remote, flush);

    r->flush_queued = 0;
    remote_flush(r);
}

void remote_more(struct km_remote *r)
{
    if (r->flush_queued || (r->first == NULL && r->state != KR_REOPENING))
        return;
    r->flush_queued = 1;
    snic_loop_defer(r->m->loop, &r->flush);
}

void remote_alone(struct km_remote *r, int alone, uint64_t valid_ns)
{
    if (!km_valid_set(r->m, alone, valid_ns))
        return;
    if (r->m->mounted_here)
        (void)km_notify_expire(r->m);
    km_cache_look(r->m);
}

/* ---- Death and successor ---- */

/* Is it idempotent, so that it may be sent again? */
static int remote_again(const struct km_call *c)
{
    switch (c->r.op.kind) {
    case SNIC_FSOP_MKNOD:
    case SNIC_FSOP_MKDIR:
    case SNIC_FSOP_SYMLINK:
    case SNIC_FSOP_UNLINK:
    case SNIC_FSOP_RMDIR:
    case SNIC_FSOP_RENAME:
    case SNIC_FSOP_LINK:
    case SNIC_FSOP_REMOVEXATTR:
        return 0;
    case SNIC_FSOP_CREATE:
        return (c->r.op.flags & SNIC_FSOP_EXCL) == 0;
    case SNIC_FSOP_WRITE:
        return (c->r.op.flags & SNIC_FSOP_APPEND) == 0;
    case SNIC_FSOP_SETXATTR:
        return (c->r.op.flags & (SNIC_FSOP_XATTR_CREATE | SNIC_FSOP_XATTR_REPLACE)) == 0;
    default:
        return 1;
    }
}

/* Calls that were sent are sent again, before those that were not, or end. */
static void remote_recall(struct km_remote *r)
{
    struct km_call *later = r->first;

    r->first = NULL;
    for (uint32_t i = 0; i < KR_SLOTS; i++) {
        struct km_call *c = r->slots[i];

        if (c == NULL)
            continue;
        r->slots[i] = NULL;
        r->free_slots[r->free_count++] = (uint16_t)i;
        if (c->reopen != 0)
            km_call_put(c);
        else if (c->cancelled)
            remote_end(c, SNIC_EINTR);
        else if (remote_again(c))
            remote_push(r, c);
        else
            remote_end(c, SNIC_EPEERDEAD);
    }
    if (r->first == NULL)
        r->first = later;
    else
        r->last->next = later;
    while (r->first != NULL && r->last->next != NULL)
        r->last = r->last->next;
}

/* Inode numbers that are written to a file. */
struct stale {
    uint64_t inos[512];
    size_t count;
    int fd;
    int bad;
};

static void stale_flush(struct stale *s)
{
    size_t bytes = s->count * sizeof(s->inos[0]);

    if (bytes > 0)
        s->bad |= write(s->fd, s->inos, bytes) != (ssize_t)bytes;
    s->count = 0;
}

static void stale_add(struct stale *s, uint64_t ino)
{
    s->inos[s->count++] = ino;
    if (s->count == SNIC_COUNTOF(s->inos))
        stale_flush(s);
}

/* Collect the inodes that are open or may have lost a change, to refresh them in the kernel. */
static void remote_stale(struct km_remote *r)
{
    struct stale s = {.count = 0};

    if (r->fresh_fd < 0)
        r->fresh_fd = memfd_create("kvfs_stale", MFD_CLOEXEC);
    s.fd = r->fresh_fd;
    for (uint64_t i = 0; i < r->handle_count; i++)
        if (r->handles[i].kind != 0)
            stale_add(&s, r->handles[i].ino);
    for (uint64_t i = 0; i < r->lost.room; i++)
        if (r->lost.slots[i] != 0)
            stale_add(&s, r->lost.slots[i]);
    stale_flush(&s);
    if (s.bad)
        ex_log(EX_WARNING, "the kernel may keep stale attributes and data");
    if (r->fresh_fd >= 0 && lseek(r->fresh_fd, 0, SEEK_CUR) == 0) {
        close(r->fresh_fd);
        r->fresh_fd = -1;
    }
}

static void remote_fresh(struct km_remote *r)
{
    off_t end;

    if (r->state != KR_UP || r->fresh_fd < 0 || atomic_load(&r->m->stopping))
        return;
    end = lseek(r->fresh_fd, 0, SEEK_SET);
    if (end == 0 && km_refresh_start(r->m, r->fresh_fd) == 0)
        r->fresh_fd = -1;
    else
        (void)lseek(r->fresh_fd, 0, SEEK_END);
}

/* End the process that refreshes the kernel's attributes: it does not wait for the next file
   system's process, with which another refresh begins. */
static void remote_refresh_abort(struct km_remote *r)
{
    pid_t pid = km_refresh_end(r->m);
    struct km_call *c = r->first;

    if (pid <= 0)
        return;
    r->first = NULL;
    while (c != NULL) {
        struct km_call *next = c->next;

        if (c->r.op.cred.pid == (uint32_t)pid)
            remote_end(c, SNIC_EINTR);
        else
            remote_push(r, c);
        c = next;
    }
}

/* Not inside an event: closing runs the loop. */
static void remote_down(struct km_remote *r)
{
    r->state = KR_DOWN;
    r->generation++;
    r->down_ns = snic_loop_now(r->m->loop);
    r->reopening = 0;
    r->link->close(r, 0);
    r->cut = 0;
    remote_lose(r);
    remote_stale(r);
    remote_recall(r);
    r->forgotten_ns = r->down_ns + (r->m->mounted_here ? km_notify_expire(r->m) : 0);
    ex_log(EX_WARNING, "the file system's process is gone; requests wait for the next one");
}

static void remote_unname(struct km_remote *r)
{
    struct km_call *c = r->first;

    r->first = NULL;
    while (c != NULL) {
        struct km_call *next = c->next;

        if (remote_by_name(&c->r.op))
            remote_end(c, SNIC_ESTALE);
        else
            remote_push(r, c);
        c = next;
    }
}

/* Open again what the kernel has open. */
static void remote_reopen(struct km_remote *r)
{
    while (r->reopen_next < r->handle_count) {
        struct kr_handle *h = &r->handles[r->reopen_next];
        struct km_call *c;

        if (h->kind != 0) {
            c = km_call_get(r->m);
            if (c == NULL)
                return;
            memset(&c->r, 0, sizeof(c->r));
            c->waits = 0;
            c->dirty = 0;
            c->home = NULL;
            c->reopen = r->reopen_next + 1;
            c->r.op.kind = h->kind;
            c->r.op.ino = h->ino;
            c->r.op.flags = h->flags;
            if (remote_send(r, c) != 0) {
                km_call_put(c);
                return;
            }
            r->reopening++;
        }
        r->reopen_next++;
    }
    if (r->reopening == 0) {
        remote_unname(r);
        r->state = KR_UP;
        remote_flush(r);
    }
}

static int remote_connect(struct km_remote *r)
{
    int rc = r->link->connect(r);

    if (rc == SNIC_EPERM && !r->refused)
        ex_log(EX_ERROR,
               "%s: the file system's process was started with another --link, --cache-size, "
               "--cache-writeback or --prefetch: use the same for both roles",
               r->m->config->socket);
    r->refused = rc == SNIC_EPERM;
    if (rc != 0)
        return rc;
    ex_log(EX_INFO, "attached to the file system's process");
    r->state = KR_REOPENING;
    r->reopen_next = 0;
    r->reopening = 0;
    return 0;
}

/* ---- A process that stalls ---- */

/* The process that listens at the socket, from the kernel: it need not respond. @return 0: none */
static pid_t remote_pid(const struct km_remote *r)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct ucred u = {.pid = 0};
    socklen_t size = sizeof(u);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", r->m->config->socket);
    if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &size) != 0)
        u.pid = 0;
    close(fd);
    return u.pid;
}

/* The process state, a letter of proc(5); 0: unknown. */
static char remote_pid_state(pid_t pid)
{
    char path[32];
    char text[128]; /* the name, in brackets, has 15 bytes at most */
    const char *p;
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (f != NULL) {
        n = fread(text, 1, sizeof(text) - 1, f);
        (void)fclose(f);
    }
    text[n] = 0;
    p = strrchr(text, ')');
    return (char)(p != NULL && p[1] == ' ' ? p[2] : 0);
}

/* It is silent for another reason than a fault: it waits for a disk, or is stopped by a debugger.
 */
static int remote_excused(struct km_remote *r, pid_t pid)
{
    char state = remote_pid_state(pid);

    if (state != 'D' && state != 't')
        return 0;
    if (!r->excused)
        ex_log(EX_WARNING, "the file system's process %d has not responded for %u s: it %s",
               (int)pid, KR_GIVE_UP_S,
               state == 'D' ? "waits for a disk" : "is stopped by a debugger");
    r->excused = 1;
    return 1;
}

/*
 * It sends a message every second when it has nothing to answer. One that does not is killed, so
 * that nothing that it does later conflicts with requests that are sent again, and the rest is as
 * for any death. Each check adds a bounded time to the silence, so that a pause of our own does not
 * count.
 */
static void remote_listen(struct km_remote *r, uint64_t now)
{
    uint64_t passed = snic_min_u64(now - r->looked_ns, 2 * KR_RETRY_NS);
    pid_t pid;

    r->looked_ns = now;
    if (r->state == KR_DOWN ||
        (r->first == NULL && r->free_count == KR_SLOTS && !km_cache_waits(r->m)))
        r->silent_ns = 0;
    else
        r->silent_ns += passed;
    if (r->silent_ns < KR_GIVE_UP_NS)
        return;
    r->silent_ns = 0;
    pid = remote_pid(r);
    if (pid > 0 && remote_excused(r, pid))
        return;
    if (pid > 0 && kill(pid, SIGKILL) == 0) {
        ex_log(EX_ERROR, "the file system's process %d has not responded for %u s: killing it",
               (int)pid, KR_GIVE_UP_S);
        return;
    }
    ex_log(EX_ERROR, "the file system's process has not responded for %u s: closing its link",
           KR_GIVE_UP_S);
    r->cut = 1; /* so that no call waits for it */
}

static void remote_look(struct snic_timer *t, uint64_t now)
{
    struct km_remote *r = SNIC_CONTAINER(t, struct km_remote, timer);

    remote_listen(r, now);
    if (r->cut && r->state != KR_DOWN)
        remote_down(r);
    if (r->state == KR_DOWN)
        remote_refresh_abort(r);
    if (r->state == KR_DOWN && (now < r->forgotten_ns || remote_connect(r) != 0) &&
        now - r->down_ns > (atomic_load(&r->m->stopping) ? KR_STOPPING_NS : KR_GIVE_UP_NS)) {
        struct km_call *c;

        km_cache_give_up(r->m);
        c = r->first;
        r->first = NULL;
        while (c != NULL) {
            struct km_call *next = c->next;

            remote_end(c, SNIC_ETIMEDOUT);
            c = next;
        }
    }
    if (r->state == KR_REOPENING)
        remote_reopen(r);
    remote_fresh(r);
    km_valid_look(r->m);
    km_cache_look(r->m);
    snic_loop_arm(r->m->loop, t, now + KR_RETRY_NS);
}

/* ---- Open and close ---- */

int km_remote_open(struct km *m, const struct kr_link *link)
{
    struct km_remote *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return SNIC_ENOMEM;
    m->remote = r;
    r->link = link;
    m->carrier = &remote_carrier;
    r->m = m;
    r->flush.fn = remote_flush_run;
    r->generation = 1;
    r->fresh_fd = -1;
    for (uint32_t i = 0; i < KR_SLOTS; i++)
        r->free_slots[r->free_count++] = (uint16_t)(KR_SLOTS - 1 - i);
    snic_timer_init(&r->timer, remote_look);
    r->end = calloc(1, link->end_bytes);
    if (r->end == NULL)
        return SNIC_ENOMEM;
    r->down_ns = snic_loop_now(m->loop);
    r->looked_ns = r->down_ns;
    for (;;) {
        int rc = remote_connect(r);

        if (rc == 0)
            break;
        if (rc == SNIC_EPERM)
            return rc;
        if (snic_loop_clock(m->loop) - r->down_ns > KR_GIVE_UP_NS) {
            ex_log(EX_ERROR, "waiting for the file system's process at %s (kvfs_mount --role dpu)",
                   m->config->socket);
            return SNIC_ETIMEDOUT;
        }
        (void)snic_loop_once(m->loop, 20000000u);
    }
    r->state = KR_UP;
    snic_loop_arm(m->loop, &r->timer, snic_loop_now(m->loop) + KR_RETRY_NS);
    return m->config->cache_bytes != 0 ? km_cache_open(m) : 0;
}

void km_remote_close(struct km *m)
{
    struct km_remote *r = m->remote;

    if (r == NULL)
        return;
    km_cache_close(m);
    snic_loop_cancel(m->loop, &r->timer);
    if (r->end != NULL && r->state != KR_DOWN)
        r->link->close(r, 1);
    if (r->fresh_fd >= 0)
        close(r->fresh_fd);
    free(r->end);
    free(r->handles);
    remote_lost_close(r);
    free(r);
    m->remote = NULL;
}

size_t km_remote_metrics(const struct km *m, struct ex_metric *out)
{
    const struct km_remote *r = m->remote;

    size_t n;

    if (r == NULL)
        return 0;
    n = km_cache_metrics(m, out);
    out[n++] = (struct ex_metric){"lost_inodes", r->lost.count, 0}; /* not reported yet */
    out[n++] = (struct ex_metric){"lost_overflows", r->overflows, 1};
    return n + (r->link->metrics == NULL ? 0 : r->link->metrics(r, out + n));
}
