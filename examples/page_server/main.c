/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* page_server: the command line, and what the roles share. */
#include "roles.h"

#include "../supervisor.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#define PS_PLAIN_BUFFERS 32768u /* the depth of a plain file */
#define PS_FILES_OWN 64         /* descriptors beside those of clients */

static const char summary[] =
    "page_server: the storage of a database's pages (DDS section 9.1). Updates arrive as log\n"
    "records, are acknowledged when durable and replayed into pages; GetPage@LSN is answered by\n"
    "the DPU role alone when its cache says that the page on the device is new enough.\n\n"
    "Without a role option a supervisor starts the DPU role and the host role as two\n"
    "processes on shared memory and restarts one that dies.";

static int ps_role_parse(void *target, const char *text)
{
    enum ps_role *role = target;

    if (strcmp(text, "dpu") == 0)
        *role = PS_DPU;
    else if (strcmp(text, "host") == 0)
        *role = PS_HOST;
    else
        return -1;
    return 0;
}

static int ps_offload_parse(void *target, const char *text)
{
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return -1;
    *(int *)target = text[1] == 'n';
    return 0;
}

static void ps_options(struct ps_config *c, int argc, char **argv)
{
    int remote = 0;
    const struct ex_option options[] = {
        {"listen", EX_TEXT, &c->listen, "ADDRESS:PORT", "clients; default 127.0.0.1:7400", 0, 0,
         NULL},
        {"file", EX_TEXT, &c->file, "PATH", "image file or block device; default pages.img", 0, 0,
         NULL},
        {"size", EX_SIZE, &c->size, "BYTES", "of a new image; default what the pages need",
         64u << 20, UINT64_MAX / 2, NULL},
        {"pages", EX_NUMBER, &c->limits.pages, "N", "default 16384", 1, UINT64_C(1) << 32, NULL},
        {"page-bytes", EX_SIZE, &c->page_bytes, "BYTES", "of a page, power of two; default 8K", 512,
         WIRE_DATA_MAX, NULL},
        {"log-size", EX_SIZE, &c->log_bytes, "BYTES", "of the log file; default 64M", 1u << 20,
         (uint64_t)1 << 40, NULL},
        {.name = "log", .kind = EX_RENAMED, .value = "log-size"},
        {"buffers", EX_NUMBER, &c->buffers, "N",
         "pages that the host reads or replays at once; default 512", 4, 65536, NULL},
        {"offload", EX_PARSE, &c->offload, "on|off", "answer reads on the DPU; default on", 0, 0,
         ps_offload_parse},
        {"remote-file", EX_FLAG, &remote, NULL,
         "serve reads and writes of a plain file instead of pages (DDS section 8.1)", 0, 0, NULL},
        {"monolith", EX_FLAG, &c->plain, NULL, "one role, plain files, no offload", 0, 0, NULL},
        {"dir", EX_TEXT, &c->directory, "PATH", "of the monolith's files; default pages.dir", 0, 0,
         NULL},
        {"role", EX_PARSE, &c->role, "dpu|host", "play one role only", 0, 0, ps_role_parse},
        {"socket", EX_TEXT, &c->socket, "PATH", "between the roles; default FILE.sock", 0, 0, NULL},
        {"buffered", EX_FLAG, &c->buffered, NULL, "use the page cache, not direct I/O", 0, 0, NULL},
        {"connections", EX_NUMBER, &c->conns_max, "N", "most clients; default 256", 1, 60000, NULL},
        {.name = "conns", .kind = EX_RENAMED, .value = "connections"},
        {"timeout", EX_NUMBER, &c->timeout_s, "SECONDS", "close idle clients; default 0: never", 0,
         4000000, NULL},
        {"stats", EX_NUMBER, &c->stats, "SECONDS", "print a line of figures so often", 0, 86400,
         NULL},
        {"metrics", EX_TEXT, &c->metrics, "ADDRESS:PORT",
         "figures of the DPU role, or of the monolith, for Prometheus, at /metrics", 0, 0, NULL},
        {"log-level", EX_PARSE, &c->log_level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
    };

    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
    c->limits.page_bytes = (uint32_t)c->page_bytes;
    c->limits.remote = remote;
    if (!snic_is_pow2(c->page_bytes))
        ex_usage("--page-bytes: %" PRIu64 " is not a power of two", c->page_bytes);
    if (c->plain && c->role != PS_SUPERVISOR)
        ex_usage("--monolith and --role exclude each other");
    if (c->plain && c->buffers > PS_PLAIN_BUFFERS)
        ex_usage("--buffers: at most %u with --monolith", PS_PLAIN_BUFFERS);
    if (c->plain)
        c->role = PS_PLAIN;
}

/* Errors that can be found before anything is opened or written. */
static void ps_check(const struct ps_config *c)
{
    struct sockaddr_un u;
    struct snic_net_addr a;
    size_t size = strlen(c->socket);

    ex_address("listen", c->listen, &a);
    if (c->metrics != NULL)
        ex_address("metrics", c->metrics, &a);
    if (c->role != PS_PLAIN && (size == 0 || size >= sizeof(u.sun_path)))
        ex_usage("--socket: '%s' has %zu bytes, the path of a socket must have 1 to %zu", c->socket,
                 size, sizeof(u.sun_path) - 1);
}

/* Each client is a descriptor. */
static void ps_descriptors(const struct ps_config *c)
{
    struct rlimit r;
    rlim_t want = c->conns_max + PS_FILES_OWN;

    if (c->role == PS_SUPERVISOR || getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want)
        return;
    r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur < want)
        ex_log(EX_WARNING,
               "the limit of open files ('ulimit -n') does not allow %llu clients (--connections)",
               (unsigned long long)c->conns_max);
}

size_t ps_engine_stat(const struct ps_config *c, const char *role, char *out, size_t max)
{
    int n = snprintf(out, max,
                     "role=%s\npid=%d\ncpu_us=%" PRIu64 "\npages=%" PRIu64
                     "\npage_bytes=%u\nremote=%d\n",
                     role, (int)getpid(), ex_cpu_process_ns() / 1000, c->limits.pages,
                     c->limits.page_bytes, c->limits.remote);

    return n < 0 ? 0 : snic_min_u64((uint64_t)n, max - 1);
}

size_t ps_engine_metrics(const struct engine *e, struct ex_metric *out)
{
    struct engine_stats s;

    engine_get_stats(e, &s);
    const struct ex_metric all[] = {
        {"gets", s.gets, 1},
        {"get_waits", s.get_waits, 1},
        {"logs", s.logs, 1},
        {"log_writes", s.log_writes, 1},
        {"log_bytes", s.log_bytes, 1},
        {"replays", s.replays, 1},
        {"replayed", s.replayed, 1},
        {"read_retries", s.retries, 1},
        {"busy", s.busy, 1},
        {"errors", s.errors, 1},
        {"damaged_pages", s.damaged, 0},
        {"mended_pages", s.mended, 1},
        {"dropped_updates", s.dropped, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"super", "dpu", "host", "page"};
    static char socket_path[4096];
    struct ps_config c = {
        .listen = "127.0.0.1:7400",
        .file = "pages.img",
        .directory = "pages.dir",
        .limits.pages = 16384,
        .page_bytes = 8192,
        .log_bytes = 64u << 20,
        .buffers = 512,
        .offload = 1,
        .conns_max = 256,
        .log_level = EX_INFO,
    };

    ps_options(&c, argc, argv);
    ex_log_set(c.log_level, names[c.role]);
    signal(SIGPIPE, SIG_IGN); /* the reader of the log may end first */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full device */
    ps_descriptors(&c);
    if (c.socket == NULL) {
        (void)snprintf(socket_path, sizeof(socket_path), "%s.sock", c.file);
        c.socket = socket_path;
    }
    ps_check(&c);
    switch (c.role) {
    case PS_DPU:
        return ps_run_dpu(&c);
    case PS_HOST:
        return ps_run_host(&c);
    case PS_PLAIN:
        return ps_run_plain(&c);
    case PS_SUPERVISOR:
        break;
    }
    return ex_supervise(NULL, argc, argv);
}
