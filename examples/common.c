/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Logs, statistics, shutdown and CPU accounting of the example programs. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- Logs ---- */

static const char *const ex_levels[] = {"error", "warning", "info", "debug"};
static enum ex_level ex_log_level = EX_INFO;
static char ex_log_role[32] = ""; /* "": lines begin with the program's name */

int ex_log_parse(void *level, const char *text)
{
    for (int i = 0; i < (int)SNIC_COUNTOF(ex_levels); i++)
        if (strcmp(ex_levels[i], text) == 0) {
            *(enum ex_level *)level = (enum ex_level)i;
            return 0;
        }
    return -1;
}

void ex_log_set(enum ex_level level, const char *role)
{
    ex_log_level = level;
    snprintf(ex_log_role, sizeof(ex_log_role), "%s", role != NULL ? role : "");
}

/* "TIME PID ROLE LEVEL: " of a server's log, "PROGRAM: " of a tool. @return bytes */
static size_t ex_log_head(enum ex_level level, char *line, size_t size)
{
    struct timespec t;
    struct tm tm;
    size_t n;

    if (ex_log_role[0] == 0)
        return (size_t)snprintf(line, size, "%.200s: %s", program_invocation_short_name,
                                level == EX_WARNING ? "warning: " : "");
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &tm);
    n = strftime(line, size, "%Y-%m-%d %H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, size - n, ".%03ld %d %s %s: ", t.tv_nsec / 1000000,
                                (int)getpid(), ex_log_role, ex_levels[level]);
}

static void ex_log_list(enum ex_level level, const char *format, va_list ap)
{
    char line[1024];
    size_t n = ex_log_head(level, line, sizeof(line));

    if (vsnprintf(line + n, sizeof(line) - n - 1, format, ap) < 0)
        return;
    n = strlen(line);
    line[n++] = '\n';
    /* One write, so that lines of several processes do not mix. */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

void ex_log(enum ex_level level, const char *format, ...)
{
    va_list ap;

    if (level > ex_log_level)
        return;
    va_start(ap, format);
    ex_log_list(level, format, ap);
    va_end(ap);
}

void ex_die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    ex_log_list(EX_ERROR, format, ap);
    va_end(ap);
    exit(ex_exit_failure);
}

#define EX_REPORT_NS 1000000000u

void ex_report_refused(struct ex_refused *last, uint64_t refused, uint64_t conns_max, uint64_t now)
{
    if (refused == last->count || now - last->logged_ns < EX_REPORT_NS)
        return;
    ex_log(EX_WARNING,
           "%" PRIu64 " clients were refused: all %" PRIu64
           " connections were in use; raise --connections, or close idle ones with --timeout",
           refused - last->count, conns_max);
    last->count = refused;
    last->logged_ns = now;
}

/* ---- What is needed first ---- */

#define EX_LOCK_TRIES 120  /* of 50 ms */
#define EX_OTHER_FILES 32u /* beside those of an option */

void ex_open_files(const char *name, uint64_t count)
{
    struct rlimit r;

    count += EX_OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= count)
        return;
    r.rlim_cur = snic_min_u64(count, r.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur < count)
        ex_die("--%s: %" PRIu64 " open files are needed, the limit is %" PRIu64
               "; raise it with 'ulimit -n'",
               name, count, (uint64_t)r.rlim_max);
}

static int ex_io_uring_disabled(void)
{
    FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "r");
    int value = 0;

    if (f != NULL) {
        if (fscanf(f, "%d", &value) != 1)
            value = 0;
        (void)fclose(f);
    }
    return value;
}

void ex_io_uring_why(int rc, int os_error, char *text, size_t size)
{
    struct rlimit files = {0, 0}, locked = {0, 0};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_MEMLOCK, &locked);
    switch (os_error) {
    case EPERM:
    case EACCES:
        if (ex_io_uring_disabled() != 0)
            (void)snprintf(text, size,
                           "permission denied: io_uring is disabled by the sysctl "
                           "kernel.io_uring_disabled; set it to 0");
        else
            (void)snprintf(text, size,
                           "permission denied: a seccomp filter refuses io_uring_setup; "
                           "in a container allow it in the seccomp profile "
                           "(docker, podman: --security-opt seccomp=FILE)");
        break;
    case ENOSYS:
        (void)snprintf(text, size,
                       "this kernel has no io_uring (Linux 5.11 or later is needed), "
                       "or a seccomp filter hides it");
        break;
    case EMFILE:
        (void)snprintf(text, size,
                       "too many open files: the limit of this process is %llu; "
                       "raise it with 'ulimit -n'",
                       (unsigned long long)files.rlim_cur);
        break;
    case ENFILE:
        (void)snprintf(text, size,
                       "too many open files in the system; raise the sysctl "
                       "fs.file-max");
        break;
    case ENOMEM:
        (void)snprintf(text, size,
                       "out of memory for its rings (about 1 MiB), which kernels before "
                       "5.12 count as locked memory, of which this process may have "
                       "%llu KiB; raise it with 'ulimit -l'",
                       (unsigned long long)(locked.rlim_cur / 1024));
        break;
    default:
        (void)snprintf(text, size, "%s", os_error != 0 ? strerror(os_error) : snic_strerror(rc));
        break;
    }
}

int ex_folder_sync(const char *path)
{
    char folder[4200];
    const char *end = strrchr(path, '/');
    int fd;
    int r;

    (void)snprintf(folder, sizeof(folder), "%.*s", end != NULL ? (int)(end - path + 1) : 1,
                   end != NULL ? path : ".");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    r = fsync(fd);
    (void)close(fd);
    return r;
}

void ex_no_room(const char *path, uint64_t size, const char *why, int os_error)
{
    int error = abs(os_error);

    if (error == EFBIG || error == ENOSPC || error == EDQUOT)
        ex_die("cannot make '%s' of %" PRIu64 " MiB (%s): %s", path, size >> 20, why,
               strerror(error));
}

static void ex_wait_fire(struct snic_timer *t, uint64_t now)
{
    struct ex_wait *w = SNIC_CONTAINER(t, struct ex_wait, timer);

    if (now - w->moved_ns < w->timeout_s * 1000000000u)
        snic_loop_arm(w->loop, t, w->moved_ns + w->timeout_s * 1000000000u);
    else if (w->moved)
        ex_die("%s has answered nothing for %" PRIu64 " s (--timeout)", w->server, w->timeout_s);
    else
        ex_die("%s has answered nothing within %" PRIu64 " s (--timeout): is it %s?", w->server,
               w->timeout_s, w->kind);
}

void ex_wait_start(struct ex_wait *w)
{
    w->moved = 0;
    w->moved_ns = snic_loop_clock(w->loop);
    snic_timer_init(&w->timer, ex_wait_fire);
    snic_loop_arm(w->loop, &w->timer, w->moved_ns + w->timeout_s * 1000000000u);
}

void ex_wait_moved(struct ex_wait *w)
{
    w->moved = 1;
    w->moved_ns = snic_loop_now(w->loop);
}

void ex_wait_stop(struct ex_wait *w)
{
    snic_loop_cancel(w->loop, &w->timer);
}

struct snic_loop *ex_loop_open(uint32_t spin_us)
{
    int os_error = 0;
    struct snic_loop_uring_opts o = {
        .opts_size = sizeof(o), .spin_us = spin_us, .os_error = &os_error};
    struct snic_loop *loop;
    int r = snic_loop_uring_open(&loop, &o);

    if (r != 0) {
        char why[256];
        ex_io_uring_why(r, os_error, why, sizeof(why));
        ex_die("cannot set up io_uring: %s", why);
    }
    return loop;
}

/* The address shows which cause SNIC_EINVAL has. */
const char *ex_listen_error(const char *address, int r)
{
    struct sockaddr_un u;
    struct snic_net_addr a;
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;

    if (r != SNIC_EINVAL)
        return snic_strerror(r);
    if (path == address && snic_net_addr_parse(&a, address) == 0)
        return "no interface of this machine has the address";
    return strlen(path) >= sizeof(u.sun_path) ? "its path is longer than 107 bytes"
                                              : "its directory does not exist";
}

/*
 * The kernel closes the files of a killed process some time after the process is gone, when what it
 * had at the disk is done: on a busy disk more than 3 s. A lock counts only when it lasts.
 */
int ex_io_open(struct snic_io **io, struct snic_loop *loop, const struct snic_io_uring_opts *o,
               int *os_error)
{
    const struct timespec pause = {0, 50000000};
    int r = snic_io_uring_open(io, loop, o, os_error);

    for (int n = 0; r == SNIC_EBUSY && n < EX_LOCK_TRIES; n++) {
        nanosleep(&pause, NULL);
        r = snic_io_uring_open(io, loop, o, os_error);
    }
    return r;
}

/* ---- Statistics ---- */

/* Each figure has three lines, of 512 bytes at most in all. */
#define EX_FIGURE_BYTES 512u
#define EX_PAGE_MAX (EX_METRICS_MAX * EX_FIGURE_BYTES + 2048u)
#define EX_SCRAPERS 8

struct ex_scrape {
    struct ex_stats *stats;
    struct snic_net_conn *conn;
    char request[1024];
    size_t size;
    uint64_t number; /* in order of arrival */
    int answered;
    char page[EX_PAGE_MAX];
    char *more;
    struct snic_iov iov[2];
    struct snic_net_send_req send;
};

struct ex_stats {
    struct snic_loop *loop;
    struct snic_net *net;
    const char *prefix;
    uint64_t seconds;
    ex_stats_fn fill;
    ex_stats_page_fn page;
    void *ctx;
    struct snic_timer timer;
    struct snic_net_listener *listener;
    uint64_t accepted;
    uint32_t open; /* connections, those too whose place another has */
    struct ex_scrape scrapes[EX_SCRAPERS];
};

static void ex_stats_line(struct snic_timer *t, uint64_t now)
{
    struct ex_stats *s = SNIC_CONTAINER(t, struct ex_stats, timer);
    struct ex_metric m[EX_METRICS_MAX];
    size_t n = s->fill(s->ctx, m);

    for (size_t i = 0; i < n; i++)
        printf("%s%s=%" PRIu64, i > 0 ? " " : "", m[i].name, m[i].value);
    printf("\n");
    fflush(stdout);
    snic_loop_arm(s->loop, t, now + s->seconds * 1000000000u);
}

static void ex_scrape_sent(struct snic_net_send_req *q)
{
    struct ex_scrape *x = SNIC_CONTAINER(q, struct ex_scrape, send);

    free(x->more);
    x->more = NULL;
    if (q->result == 0 && x->conn != NULL)
        snic_net_close(x->conn);
}

/* "# HELP name words", the words being the name's. @return bytes */
static size_t ex_scrape_help(char *out, size_t max, const char *prefix, const char *name)
{
    int n = snprintf(out, max, "# HELP %s_%s %s\n", prefix, name, name);

    if (n < 0 || (size_t)n >= max)
        return 0;
    for (char *c = out + n - 1 - strlen(name); *c != '\n'; c++)
        if (*c == '_')
            *c = ' ';
    return (size_t)n;
}

/* @return bytes of the page of figures */
static size_t ex_scrape_figures(const struct ex_stats *s, char *body, size_t max)
{
    struct ex_metric m[EX_METRICS_MAX];
    size_t size = 0;
    size_t n = s->fill(s->ctx, m);

    for (size_t i = 0; i < n && size + EX_FIGURE_BYTES <= max; i++) {
        size += ex_scrape_help(body + size, max - size, s->prefix, m[i].name);
        size += (size_t)snprintf(body + size, max - size, "# TYPE %s_%s %s\n%s_%s %" PRIu64 "\n",
                                 s->prefix, m[i].name, m[i].counter ? "counter" : "gauge",
                                 s->prefix, m[i].name, m[i].value);
    }
    return size;
}

/* Is it a request for "/" or "/metrics"? */
static int ex_scrape_path(const char *request)
{
    const char *path = strchr(request, ' ');
    size_t n = path != NULL ? strcspn(path + 1, " ?\r\n") : 0;

    return (n == 1 && path[1] == '/') || (n == 8 && memcmp(path + 1, "/metrics", 8) == 0);
}

static void ex_scrape_answer(struct ex_scrape *x)
{
    int found = ex_scrape_path(x->request);
    char body[EX_PAGE_MAX - 256] = "only / and /metrics are here\n";
    size_t size = found ? ex_scrape_figures(x->stats, body, sizeof(body)) : strlen(body);
    size_t more = 0;

    x->answered = 1;
    if (found && x->stats->page != NULL && x->more == NULL)
        x->more = x->stats->page(x->stats->ctx, &more);
    x->iov[0].base = x->page;
    x->iov[1].base = x->more;
    x->iov[1].size = more;
    x->iov[0].size =
        (size_t)snprintf(x->page, sizeof(x->page),
                         "HTTP/1.0 %s\r\nContent-Type: text/plain%s\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n%.*s",
                         found ? "200 OK" : "404 Not Found", found ? "; version=0.0.4" : "",
                         size + more, (int)size, body);
    x->send.iov = x->iov;
    x->send.iov_count = more > 0 ? 2 : 1;
    x->send.region = SNIC_NO_REGION;
    x->send.done = ex_scrape_sent;
    if (snic_net_send(x->conn, &x->send) == 1)
        return;
    free(x->more);
    x->more = NULL;
    snic_net_abort(x->conn);
}

static void ex_scrape_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct ex_scrape *x = ctx;
    size_t room = sizeof(x->request) - 1 - x->size;
    size_t n = b->size < room ? b->size : room;

    if (x->conn != c) {
        snic_net_put(x->stats->net, b);
        return;
    }
    memcpy(x->request + x->size, b->data, n);
    x->size += n;
    x->request[x->size] = 0;
    snic_net_put(x->stats->net, b);
    /* A request that does not end within the buffer is answered all the same. */
    if (!x->answered &&
        (strstr(x->request, "\r\n\r\n") != NULL || x->size + 1 == sizeof(x->request)))
        ex_scrape_answer(x);
}

static void ex_scrape_eof(void *ctx, struct snic_net_conn *c)
{
    struct ex_scrape *x = ctx;

    if (x->conn == c && !x->answered)
        snic_net_close(c);
}

static void ex_scrape_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct ex_scrape *x = ctx;

    (void)reason;
    x->stats->open--;
    if (x->conn == c)
        x->conn = NULL;
}

/* A free place, or that of the oldest connection whose request has not ended: otherwise a few
 * silent ones would keep all places. @return NULL: all are being answered */
static struct ex_scrape *ex_scrape_place(struct ex_stats *s)
{
    struct ex_scrape *oldest = NULL;

    for (size_t i = 0; i < EX_SCRAPERS; i++) {
        struct ex_scrape *x = &s->scrapes[i];

        if (x->conn == NULL)
            return x;
        if (!x->answered && (oldest == NULL || x->number < oldest->number))
            oldest = x;
    }
    if (oldest != NULL)
        snic_net_abort(oldest->conn);
    return oldest;
}

static void ex_scrape_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = ex_scrape_recv, .eof = ex_scrape_eof, .closed = ex_scrape_closed};
    struct ex_stats *s = ctx;
    struct ex_scrape *x = ex_scrape_place(s);

    (void)peer;
    if (x == NULL) {
        snic_net_abort(c);
        return;
    }
    x->stats = s;
    x->conn = c;
    x->size = 0;
    x->number = s->accepted++;
    x->answered = 0;
    s->open++;
    snic_net_bind(c, &events, x);
}

int ex_stats_start(struct ex_stats **out, struct snic_loop *loop, struct snic_net *net,
                   const char *prefix, uint64_t seconds, const char *address, ex_stats_fn fill,
                   void *ctx)
{
    struct ex_stats *s = calloc(1, sizeof(*s));
    struct snic_net_addr a;
    int r = 0;

    if (s == NULL)
        return SNIC_ENOMEM;
    s->loop = loop;
    s->net = net;
    s->prefix = prefix;
    s->seconds = seconds;
    s->fill = fill;
    s->ctx = ctx;
    snic_timer_init(&s->timer, ex_stats_line);
    if (address != NULL) {
        ex_address("metrics", address, &a);
        if ((r = snic_net_listen(net, &a, 0, ex_scrape_accept, s, &s->listener)) != 0)
            ex_log(EX_ERROR, "cannot serve metrics at %s: %s", address,
                   ex_listen_error(address, r));
    }
    if (r != 0) {
        free(s);
        return r;
    }
    if (seconds > 0)
        snic_loop_arm(loop, &s->timer, snic_loop_now(loop) + seconds * 1000000000u);
    *out = s;
    return 0;
}

void ex_stats_page(struct ex_stats *s, ex_stats_page_fn page)
{
    s->page = page;
}

void ex_stats_stop(struct ex_stats *s)
{
    if (s == NULL)
        return;
    snic_loop_cancel(s->loop, &s->timer);
    if (s->listener != NULL)
        snic_net_unlisten(s->listener);
    for (size_t i = 0; i < EX_SCRAPERS; i++)
        if (s->scrapes[i].conn != NULL)
            snic_net_abort(s->scrapes[i].conn);
    while (s->open != 0)
        if (snic_loop_once(s->loop, 100000000u) < 0)
            break;
    free(s);
}

/* ---- Shutdown ---- */

static struct {
    struct snic_loop *loop;
    void (*fn)(void *ctx);
    void *ctx;
    struct snic_loop_msg msg;
    volatile sig_atomic_t queued;
} ex_signal;

static void ex_signal_run(struct snic_loop_msg *m)
{
    (void)m;
    ex_signal.queued = 0;
    ex_signal.fn(ex_signal.ctx);
}

static void ex_signal_caught(int number)
{
    int saved = errno;

    (void)number;
    if (!ex_signal.queued) {
        ex_signal.queued = 1;
        snic_loop_post(ex_signal.loop, &ex_signal.msg);
    }
    errno = saved;
}

int ex_signal_ignored(int number)
{
    struct sigaction sa;

    return sigaction(number, NULL, &sa) == 0 && (sa.sa_flags & SA_SIGINFO) == 0 &&
           sa.sa_handler == SIG_IGN;
}

static void ex_signal_set(void (*handler)(int))
{
    struct sigaction sa;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = handler;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    if (!ex_signal_ignored(SIGHUP))
        sigaction(SIGHUP, &sa, NULL);
}

void ex_signals(struct snic_loop *loop, void (*fn)(void *ctx), void *ctx)
{
    ex_signal.loop = loop;
    ex_signal.fn = fn;
    ex_signal.ctx = ctx;
    ex_signal.msg.fn = ex_signal_run;
    signal(SIGPIPE, SIG_IGN);
    ex_signal_set(ex_signal_caught);
}

void ex_signals_off(void)
{
    ex_signal_set(SIG_IGN);
}

/* ---- CPU time ---- */

static uint64_t ex_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ex_cpu_thread_ns(void)
{
    return ex_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t ex_cpu_process_ns(void)
{
    return ex_clock(CLOCK_PROCESS_CPUTIME_ID);
}
