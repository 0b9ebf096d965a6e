/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_mount: a POSIX file system in a key-value store, mounted.
 *
 *     kvfs_mount --store lmdb:/var/lib/kvfs --mkfs /mnt
 *
 * Exit codes as of mount(8): 0 unmounted in order; 1 wrong usage; 32 it could not be mounted, or
 * the store could not be unmounted in order.
 */
#include "mount.h"

#include "../common.h"
#include "../server/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int main_pipe = -1; /* to the shell's process, which waits */

void km_serving(int status)
{
    unsigned char byte = (unsigned char)status;

    if (main_pipe < 0)
        return;
    if (write(main_pipe, &byte, 1) != 1 && errno != EPIPE)
        ex_log(EX_WARNING, "cannot report that the mount is ready: %s", strerror(errno));
    close(main_pipe);
    main_pipe = -1;
}

/* Go to the background: the caller's process stays until the mount serves, or cannot. */
static void main_background(void)
{
    unsigned char status = KM_FAILED;
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0)
        ex_die("cannot go to the background: pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0)
        ex_die("cannot go to the background: fork: %s", strerror(errno));
    if (pid > 0) {
        close(ends[1]);
        while (read(ends[0], &status, 1) < 0 && errno == EINTR)
            ;
        _exit(status);
    }
    close(ends[0]);
    main_pipe = ends[1];
    setsid();
}

/* A reader of our output must see its end; figures and the log are still written. */
static void main_silent(const struct km_config *c)
{
    if (freopen("/dev/null", "r", stdin) == NULL ||
        (c->stats == 0 && freopen("/dev/null", "w", stdout) == NULL))
        ex_log(EX_WARNING, "cannot go to the background: /dev/null: %s", strerror(errno));
}

static void main_detach(const struct km_config *c)
{
    main_silent(c);
    if (chdir("/") != 0)
        ex_log(EX_WARNING, "cannot leave the working directory: %s", strerror(errno));
}

static size_t main_metrics(void *ctx, struct ex_metric *out)
{
    struct km *m = ctx;
    const struct ex_metric all[] = {
        {"calls", m->calls, 1},
        {"errors", m->errors, 1},
        {"io_errors", m->io_errors, 1},
        {"read_bytes", m->read_bytes, 1},
        {"write_bytes", m->write_bytes, 1},
        {"in_flight", atomic_load(&m->in_flight), 0},
        {"spins", m->spins, 1}, /* polls instead of sleeping */
        {"locks_waiting", atomic_load(&m->locks_waiting), 0},
        {"held", km_known_held(m), 0},
        {"cpu_ns", ex_cpu_process_ns(), 1},
    };

    size_t n = SNIC_COUNTOF(all);

    memcpy(out, all, sizeof(all));
    n += km_open_metrics(m, out + n);
    n += km_store_metrics(&m->store, out + n);
    return n + km_remote_metrics(m, out + n);
}

static void main_stop(void *ctx)
{
    km_unmount_start(ctx);
}

static int main_stats(struct km *m, struct snic_net **net, struct ex_stats **stats)
{
    struct snic_net_uring_opts o = {.opts_size = sizeof(o), .taken_wait_ms = EX_TAKEN_WAIT_MS};
    const struct km_config *c = m->config;

    if (c->stats == 0 && c->metrics == NULL)
        return 0;
    if (c->metrics != NULL) {
        int r = snic_net_uring_open(net, m->loop, &o);

        if (r != 0) {
            ex_log(EX_ERROR, "cannot open the network for --metrics: %s", snic_strerror(r));
            return -1;
        }
    }
    return ex_stats_start(stats, m->loop, *net, "kvfs", c->stats, c->metrics, main_metrics, m);
}

/* Serve until unmounted. @return exit code */
static int main_serve(struct km *m)
{
    struct snic_net *net = NULL;
    struct ex_stats *stats = NULL;
    int mounted = 0;

    if (main_stats(m, &net, &stats) == 0 && km_session_mount(m) == 0) {
        mounted = 1;
        ex_signals(m->loop, main_stop, m);
        if (m->config->role == NULL)
            ex_log_set(EX_INFO, "kvfs_mount");
        ex_log(EX_INFO, "%s is mounted at %s", m->config->store, m->config->mountpoint);
        if (!m->config->foreground)
            main_detach(m->config);
        km_serving(0);
        km_session_run(m);
        ex_signals_off();
    }
    ex_stats_stop(stats);
    if (net != NULL)
        snic_net_shut(net);
    return mounted ? 0 : KM_FAILED;
}

static int main_carrier(struct km *m)
{
    if (m->config->role == NULL)
        return km_local_open(m);
    return km_remote_open(m, m->config->nvmefs ? &remote_nvmefs : &remote_ring);
}

static int main_run(struct km_config *c)
{
    struct km *m = calloc(1, sizeof(*m));
    int status = KM_FAILED;

    if (m == NULL)
        ex_die("out of memory for the mount");
    m->config = c;
    m->owner = pthread_self();
    snic_link_init(&m->files);
    pthread_mutex_init(&m->writers_lock, NULL);
    pthread_mutex_init(&m->open.lock, NULL);
    /* Without readers session.c looks busily itself. */
    m->loop = ex_loop_open(c->threads == 0 ? 0 : (uint32_t)c->spin_us);
    if (km_calls_open(m) != 0 || km_known_open(m) != 0)
        ex_log(EX_ERROR, "out of memory: no address space for requests (ulimit -v)");
    else if (km_session_open(m) != 0)
        status = KM_USAGE; /* libfuse has printed which option */
    else if (main_carrier(m) == 0)
        status = main_serve(m);
    km_session_close(m);
    km_remote_close(m);
    if (km_local_close(m) != 0 && status == 0)
        status = KM_FAILED;
    km_known_close(m);
    km_calls_close(m);
    snic_loop_close(m->loop);
    if (status == 0)
        ex_log(EX_INFO, "unmounted");
    free(m);
    return status;
}

/* ---- Two processes ---- */

static char main_folder[] = "/tmp/kvfs_mount.XXXXXX";
static char main_ring[sizeof(main_folder) + 8];
static pid_t main_supervisor;

/* At each exit of the supervisor; its roles are forks, and do nothing here. */
static void main_clean(void)
{
    if (getpid() != main_supervisor)
        return;
    (void)unlink(main_ring);
    (void)rmdir(main_folder);
}

/* Where the store is, whatever folder a process is in: the name itself, or a copy for good. */
static char *main_store(const char *spec)
{
    const char *path = strchr(spec, ':');
    char cwd[4096];
    char *full;
    size_t size;

    if (path == NULL || path[1] == '/' || path[1] == ':') /* mem, or the cluster's default */
        return (char *)(uintptr_t)spec;
    path++;
    if (getcwd(cwd, sizeof(cwd)) == NULL || (strchr(cwd, ':') != NULL && spec[0] == 'r'))
        ex_die("--store: '%s' is relative to a directory whose name cannot be used: use an "
               "absolute path",
               spec);
    size = strlen(spec) + strlen(cwd) + 2;
    full = malloc(size);
    if (full == NULL)
        ex_die("out of memory for the path of the store");
    snprintf(full, size, "%.*s%s/%s", (int)(path - spec), spec, cwd, path);
    return full;
}

static void main_setenv(const char *name, long number)
{
    char text[24];

    snprintf(text, sizeof(text), "%ld", number);
    setenv(name, text, 1);
}

/*
 * Start this program again in both roles, with a socket that no other process can reach. In the
 * background all leave the caller's directory, so file names are made absolute.
 */
static int main_supervise(const struct km_config *c, int argc, char **argv)
{
    static char store[] = "--store";
    static char option[] = "--socket";
    static char stay[] = "--f";
    char **args = calloc((size_t)argc + 8, sizeof(*args));
    int n = 0;
    int status;

    if (args == NULL || mkdtemp(main_folder) == NULL)
        ex_die("cannot make directory %s: %s", main_folder, strerror(errno));
    snprintf(main_ring, sizeof(main_ring), "%s/ring", main_folder);
    main_supervisor = getpid();
    (void)atexit(main_clean);
    for (; n < argc; n++)
        args[n] = argv[n];
    if (!c->foreground) {
        args[n++] = store;
        args[n++] = main_store(c->store);
        args[n++] = stay;
        main_detach(c);
    }
    args[n++] = option;
    args[n++] = main_ring;
    args[n++] = (char *)(uintptr_t)c->mountpoint;
    main_setenv("KVFS_MOUNT_READY", main_pipe);
    main_setenv("KVFS_MOUNT_SUPERVISOR", main_supervisor);
    setenv("KVFS_MOUNT_FOLDER", main_folder, 1);
    ex_log_set(EX_INFO, "kvfs_mount");
    status = ex_supervise(NULL, n, args) == 0 ? 0 : KM_FAILED;
    free(args);
    return status;
}

/* What the supervisor left for the role. */
static void main_role(struct km_config *c)
{
    const char *fd = getenv("KVFS_MOUNT_READY");
    const char *pid = getenv("KVFS_MOUNT_SUPERVISOR");

    if (strcmp(c->role, "host") != 0 && strcmp(c->role, "dpu") != 0)
        km_wrong("--role: must be dpu or host");
    if (c->socket == NULL)
        km_wrong("--role needs --socket");
    c->folder = getenv("KVFS_MOUNT_FOLDER");
    c->supervisor = pid != NULL ? (int)strtol(pid, NULL, 10) : 0;
    main_pipe = fd != NULL ? (int)strtol(fd, NULL, 10) : -1;
    if (main_pipe >= 0 && strcmp(c->role, "dpu") == 0) {
        close(main_pipe);
        main_pipe = -1;
    }
}

/* A second one would hide the first, and prevent its unmounting. */
static void main_check_free(const char *at)
{
    FILE *f = fopen("/proc/self/mountinfo", "r");
    char *line = NULL;
    size_t room = 0;
    char place[4096];
    int ours = 0;

    while (f != NULL && getline(&line, &room, f) > 0)
        if (sscanf(line, "%*d %*d %*s %*s %4095s", place) == 1 && strcmp(place, at) == 0)
            ours = strstr(line, " - fuse.kvfs_mount ") != NULL; /* the last line is the topmost */
    free(line);
    if (f != NULL)
        fclose(f);
    if (ours)
        ex_die("%s: a kvfs_mount file system is mounted there already: unmount it first", at);
}

/* Errors that can be found before anything is opened. */
static void main_check(struct km_config *c)
{
    static char full[4096];
    struct snic_net_addr a;
    struct statvfs v;
    struct stat st;
    const char *spec;

    if (c->mountpoint == NULL)
        km_wrong("the mount point is missing: it is the last argument");
    if (stat(c->mountpoint, &st) != 0 && kvfs_store_parse(&spec, c->mountpoint) == 0)
        km_wrong("the mount point is missing: the last argument is a store");
    if (c->metrics != NULL)
        ex_address("metrics", c->metrics, &a);
    if (c->writeback && !c->exclusive)
        km_wrong("--kernel-writeback needs --exclusive: other mounts of the store would not see "
                 "what this one holds");
    if (c->exclusive && strncmp(c->store, "rados:", 6) == 0)
        km_wrong("--exclusive needs a store that can refuse other mounts: lmdb or mem");
    if ((c->write_back || c->prefetch) && c->cache_bytes == 0)
        km_wrong("--cache-writeback and --prefetch need --cache-size");
    if ((c->write_back || c->prefetch || c->records_bytes != 0) && !c->two_process &&
        c->role == NULL)
        km_wrong("--cache-writeback, --prefetch and --records-size need --two-process");
    if (c->link != NULL && !c->two_process && c->role == NULL)
        km_wrong("--link needs --two-process");
    if (c->read_only && (c->mkfs || c->writeback || strcmp(c->store, "mem") == 0))
        km_wrong("-o ro excludes --mkfs and --kernel-writeback, and needs a store that holds a "
                 "file system");
    if (c->dev && c->threads > 0)
        km_wrong("--threads excludes --fuse dev");
    if (c->two_process && c->threads > 0)
        km_wrong("--threads excludes --two-process");
    if (access("/dev/fuse", R_OK | W_OK) != 0)
        ex_die("/dev/fuse: %s: %s", strerror(errno),
               errno == EACCES ? "need root, or access to /dev/fuse"
                               : "is the module 'fuse' loaded (modprobe fuse)?");
    /* A role that died has left its mount. While the kernel closes that, the call fails. */
    if (c->role != NULL && statvfs(c->mountpoint, &v) != 0 &&
        (errno == ENOTCONN || errno == ECONNABORTED))
        (void)umount2(c->mountpoint, MNT_DETACH);
    if (statvfs(c->mountpoint, &v) != 0 || stat(c->mountpoint, &st) != 0)
        ex_die("mount point %s: %s%s", c->mountpoint, strerror(errno),
               errno == ENOTCONN ? ": a mount that died is there: fusermount3 -u -z it" : "");
    if (!S_ISDIR(st.st_mode))
        ex_die("mount point %s: not a directory", c->mountpoint);
    if (realpath(c->mountpoint, full) == NULL)
        ex_die("mount point %s: %s", c->mountpoint, strerror(errno));
    if (strcmp(full, "/") == 0) /* it could not be unmounted by its path */
        ex_die("mount point %s: cannot mount over the root directory", c->mountpoint);
    if (c->role == NULL)
        main_check_free(full);
    c->mountpoint = full;
}

int main(int argc, char **argv)
{
    struct km_config c = {
        .store = "mem", .timeout = 60, .spin_us = KM_SPIN_UNSET, .open_files = KM_OPEN_FILES};
    char **args;
    int status;
    int n;

    if (argc == 3 && strcmp(argv[1], KM_UNMOUNT) == 0)
        return km_unmount_helper(argv[2]);
    if (argc == 3 && strcmp(argv[1], KM_REFRESH) == 0)
        return km_refresh_helper(argv[2]);
    ex_exit_usage = KM_USAGE;
    ex_exit_failure = KM_FAILED;
    n = km_arguments(&c, argc, argv, &args);
    if (c.link != NULL && strcmp(c.link, "ring") != 0 && strcmp(c.link, "nvmefs") != 0)
        km_wrong("--link: must be ring or nvmefs");
    if (c.fuse != NULL && strcmp(c.fuse, "libfuse") != 0 && strcmp(c.fuse, "dev") != 0)
        km_wrong("--fuse: must be libfuse or dev");
    c.dev = c.fuse != NULL && strcmp(c.fuse, "dev") == 0;
    c.nvmefs = c.link != NULL && strcmp(c.link, "nvmefs") == 0;
    ex_log_set(EX_INFO, c.role);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (c.role != NULL)
        main_role(&c);
    if (c.spin_us == KM_SPIN_UNSET)
        c.spin_us = c.role != NULL && strcmp(c.role, "host") == 0 ? 0 : KM_SPIN_US;
    if (c.role != NULL && strcmp(c.role, "dpu") == 0) {
        status = km_dpu_run(&c);
        free(args);
        return status;
    }
    main_check(&c);
    if (!c.foreground)
        main_background();
    status = c.two_process && c.role == NULL ? main_supervise(&c, n, args) : main_run(&c);
    km_serving(status);
    free(args);
    return status;
}
