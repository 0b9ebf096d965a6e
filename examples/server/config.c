/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "config.h"

#include "remote.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>

#define EX_SERVER_FILES 64 /* descriptors beside those of clients */
#define EX_SERVER_MORE 16u /* connections beside those of clients */

static int ex_role_parse(void *target, const char *text)
{
    enum ex_role *role = target;

    if (strcmp(text, "dpu") == 0)
        *role = EX_ROLE_DPU;
    else if (strcmp(text, "host") == 0)
        *role = EX_ROLE_HOST;
    else
        return -1;
    return 0;
}

size_t ex_server_options(struct ex_server *s, struct ex_option *out)
{
    const struct ex_option options[EX_SERVER_OPTIONS] = {
        {"listen", EX_TEXT, &s->listen, "ADDRESS:PORT", s->help[0], 0, 0, NULL},
        {"file", EX_TEXT, &s->file, "PATH", s->help[1], 0, 0, NULL},
        {"auth-keys", EX_TEXT, &s->auth_keys, "FILE",
         "with --file nvme-tcp://: the secret of this host, a line HOSTNQN SECRET [CTRLSECRET]", 0,
         0, NULL},
        {"buffered", EX_FLAG, &s->buffered, NULL, "use the page cache, not direct I/O", 0, 0, NULL},
        {"monolith", EX_FLAG, &s->monolith, NULL, "one role, plain files, no offload", 0, 0, NULL},
        {"dir", EX_TEXT, &s->directory, "PATH", s->help[2], 0, 0, NULL},
        {"role", EX_PARSE, &s->role, "dpu|host", "play one role only", 0, 0, ex_role_parse},
        {"socket", EX_TEXT, &s->socket, "PATH", "between the roles; default FILE.sock", 0, 0, NULL},
        {"connections", EX_NUMBER, &s->conns_max, "N", s->help[3], 1, 60000, NULL},
        {"timeout", EX_NUMBER, &s->timeout_s, "SECONDS", "close idle clients; default 0: never", 0,
         4000000, NULL},
        {"stats", EX_NUMBER, &s->stats, "SECONDS", "print a line of figures so often", 0, 86400,
         NULL},
        {"metrics", EX_TEXT, &s->metrics, "ADDRESS:PORT",
         "figures of the DPU role, or of the monolith, for Prometheus, at /metrics; the host's are "
         "in the lines of --stats",
         0, 0, NULL},
        {"log-level", EX_PARSE, &s->log_level, "error|warning|info|debug", "default info", 0, 0,
         ex_log_parse},
    };

    (void)snprintf(s->help[0], sizeof(s->help[0]), "clients; default %s", s->listen);
    (void)snprintf(s->help[1], sizeof(s->help[1]),
                   "image file, block device or nvme-tcp://ADDRESS:PORT/NQN; default %s", s->file);
    (void)snprintf(s->help[2], sizeof(s->help[2]), "of the monolith's files; default %s",
                   s->directory);
    (void)snprintf(s->help[3], sizeof(s->help[3]), "most clients; default %" PRIu64, s->conns_max);
    memcpy(out, options, sizeof(options));
    return SNIC_COUNTOF(options);
}

/*
 * Each client is a descriptor. Clients must leave those that the roles need among themselves,
 * also when one is started again.
 */
static void ex_server_descriptors(struct ex_server *s)
{
    struct rlimit r;
    rlim_t want = s->conns_max + EX_SERVER_FILES;

    if (s->role == EX_ROLE_SUPERVISOR || getrlimit(RLIMIT_NOFILE, &r) != 0)
        return;
    if (s->role == EX_ROLE_MONOLITH)
        want = r.rlim_max; /* a plain file is a descriptor, too */
    if (r.rlim_cur < want) {
        r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &r) != 0 && getrlimit(RLIMIT_NOFILE, &r) != 0)
            return;
    }
    if (r.rlim_cur <= EX_SERVER_FILES)
        ex_die("the limit of open files is %llu, and more than %d are needed: raise it with "
               "'ulimit -n'",
               (unsigned long long)r.rlim_cur, EX_SERVER_FILES);
    if (r.rlim_cur < s->conns_max + EX_SERVER_FILES && s->role != EX_ROLE_HOST) {
        s->conns_max = r.rlim_cur - EX_SERVER_FILES;
        ex_log(EX_WARNING,
               "the limit of open files ('ulimit -n') allows %llu clients only, fewer than "
               "--connections",
               (unsigned long long)s->conns_max);
    }
}

static void ex_server_check(const struct ex_server *s)
{
    struct sockaddr_un u;
    struct snic_net_addr a;
    size_t size = strlen(s->socket);

    ex_address("listen", s->listen, &a);
    if (s->metrics != NULL)
        ex_address("metrics", s->metrics, &a);
    if (s->auth_keys != NULL && !ex_remote_is(s->file))
        ex_usage(
            "--auth-keys %s: has no effect with --file '%s', which is not an nvme-tcp:// device",
            s->auth_keys, s->file);
    if (s->role < EX_ROLE_SINGLE && (size == 0 || size >= sizeof(u.sun_path)))
        ex_usage("--socket: '%s' has %zu bytes, the path of a socket must have 1 to %zu", s->socket,
                 size, sizeof(u.sun_path) - 1);
}

void ex_server_begin(struct ex_server *s)
{
    const char *names[] = {"super", "dpu", "host", s->name, s->name};

    if (s->monolith && s->role != EX_ROLE_SUPERVISOR)
        ex_usage("--monolith and --role exclude each other");
    if (s->single_process && (s->monolith || s->role != EX_ROLE_SUPERVISOR))
        ex_usage("--single-process, --monolith and --role exclude each other");
    if (s->monolith || s->single_process)
        s->role = s->monolith ? EX_ROLE_MONOLITH : EX_ROLE_SINGLE;
    ex_log_set(s->log_level, names[s->role]);
    signal(SIGPIPE, SIG_IGN); /* the reader of the log may end first */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full device */
    ex_server_descriptors(s);
    if (s->socket == NULL) {
        /* Of a remote device its subsystem's name, in the current folder. */
        const char *name = ex_remote_is(s->file) ? strrchr(s->file, '/') + 1 : s->file;
        int length = ex_remote_is(s->file) ? (int)strcspn(name, "?") : (int)strlen(name);
        (void)snprintf(s->socket_path, sizeof(s->socket_path), "%.*s.sock", length, name);
        s->socket = s->socket_path;
    }
    ex_server_check(s);
}

uint64_t ex_server_cpu_ns(const struct ex_server *s)
{
    return s->role == EX_ROLE_SINGLE ? ex_cpu_thread_ns() : ex_cpu_process_ns();
}

struct snic_net *ex_server_net(const struct ex_server *s, struct snic_loop *loop)
{
    struct snic_net_uring_opts o = {
        .opts_size = sizeof(o), .taken_wait_ms = EX_TAKEN_WAIT_MS, .sent_ms = UINT32_MAX};
    struct snic_net *net;
    int r;

    o.conns_max = (uint32_t)s->conns_max + EX_SERVER_MORE;
    r = snic_net_uring_open(&net, loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    return net;
}
