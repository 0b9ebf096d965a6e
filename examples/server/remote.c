/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "remote.h"

#include "../common.h"
#include "../secret.h"
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EX_REMOTE_WAIT_NS UINT64_C(10000000000)
#define EX_REMOTE_READ_BYTES ((size_t)1 << 20)

int ex_remote_is(const char *name)
{
    return snic_nvmehost_uri_is(name);
}

/* The text of /etc/machine-id, 32 digits (machine-id(5)); empty: there is none. */
static void remote_machine(char id[33])
{
    FILE *f = fopen("/etc/machine-id", "re");

    if (f == NULL || fgets(id, 33, f) == NULL || strspn(id, "0123456789abcdef") != 32)
        id[0] = 0;
    if (f != NULL)
        (void)fclose(f);
}

/* As `nvme gen-hostnqn` would, from what stays the same: a restarted program is the same host to
 * the target, which ends the commands of the old one before it serves the new one.
 *   The lock's key follows from the host id. Machines may have one name, so it is of the machine,
 * and of the name: two names of a machine are two hosts. */
static void remote_host(struct snic_nvmehost_uri *u, const char *uri)
{
    static const unsigned char key[16] = "machine's hostid";
    static const uint8_t none[16];
    char text[33 + SNIC_NVME_NQN_BYTES], name[64] = "", machine[33];
    uint64_t hash[2];
    int set = memcmp(u->opts.hostid, none, sizeof(none)) != 0;

    remote_machine(machine);
    (void)gethostname(name, sizeof(name) - 1);
    if (u->hostnqn[0] == 0 && !set && machine[0] == 0 &&
        (name[0] == 0 || strncmp(name, "localhost", 9) == 0))
        ex_die("'%s' (--file): this machine cannot be known from others: it has no machine-id "
               "in /etc, and no name but '%s': set host=HOSTNQN or hostid=UUID in the name of the "
               "device",
               uri, name);
    if (u->hostnqn[0] == 0)
        (void)snprintf(u->hostnqn, sizeof(u->hostnqn), "nqn.2014-08.org.snicstore:%s",
                       name[0] != 0 ? name : "localhost");
    if (set)
        return;
    int n = snprintf(text, sizeof(text), "%s %s", machine, u->hostnqn);
    snic_siphash128(key, text, (size_t)n, hash);
    snic_put_le64(u->opts.hostid, hash[0]);
    snic_put_le64(u->opts.hostid + 8, hash[1]);
}

static const char *remote_why(int r)
{
    switch (r) {
    case SNIC_EACCES:
        return "the target does not allow this host (host= in the name), or requires a secret "
               "of it (--auth-keys), or another one";
    case SNIC_EBUSY:
        return "another host has the namespace locked (stop that one, or, if it is gone for good, "
               "lock=take in the name), or this host has as many connections as the target allows";
    case SNIC_ENOENT:
        return "the target has no such subsystem or namespace (nsid=)";
    case SNIC_ENOTSUP:
        return "the namespace has metadata, or blocks of a size that is not supported";
    default:
        return snic_strerror(r);
    }
}

/* ---- Secrets ---- */

struct remote_secret {
    const char *hostnqn;
    struct snic_nvmeauth_keys *keys;
    int found;
};

/* ex_secret_line_fn: only the line of this host counts. */
static int remote_secret_line(void *ctx, char *text, char *why)
{
    struct remote_secret *s = ctx;
    char *words[4], *save = NULL;
    int count = 0;

    for (char *p = strtok_r(text, " \t", &save); p != NULL && count < 4 && p[0] != '#';
         p = strtok_r(NULL, " \t", &save))
        words[count++] = p;
    if (count == 0 || strcmp(words[0], s->hostnqn) != 0)
        return 0;
    if (s->found) {
        (void)snprintf(why, EX_SECRET_WHY, "host %s: named twice", s->hostnqn);
        return -1;
    }
    s->found = 1;
    return ex_secret_keys(words + 1, count - 1, s->keys, why);
}

static void remote_secret(struct snic_nvmehost_uri *u, const char *path)
{
    struct remote_secret s = {.hostnqn = u->hostnqn, .keys = &u->opts.keys};
    char why[EX_SECRET_WHY];

    if (path == NULL)
        return;
    u->opts.auth = snic_nvmeauth_openssl();
    u->opts.random = snic_nvmeauth_openssl_random;
    if (u->opts.auth == NULL)
        ex_die("--auth-keys: this program was built without libcrypto (libssl-dev)");
    if (ex_secret_read(path, remote_secret_line, &s, why) != 0)
        ex_die("cannot authenticate: %s", why);
    if (!s.found)
        ex_die("%s (--auth-keys) has no line for this host, %s (host= in the name of the device)",
               path, u->hostnqn);
}

/* ---- The lock ---- */

/* To the target the programs of a host id are one host. So those of a machine keep each other out
 * by a name that the kernel frees with the process. */
static int remote_lock(const char *uri, const struct snic_nvmehost_uri *u)
{
    static const unsigned char key[16] = "nvme-tcp lock";
    const struct timespec pause = {.tv_nsec = 10000000};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char text[SNIC_NVME_NQN_BYTES * 2 + 512];
    uint64_t hash[2];
    int n =
        snprintf(text, sizeof(text), "%.*s %s %016" PRIx64 "%016" PRIx64 " %u",
                 (int)strcspn(uri + 11, "/"), uri + 11, u->subnqn, snic_get_le64(u->opts.hostid),
                 snic_get_le64(u->opts.hostid + 8), u->opts.nsid + (u->opts.nsid == 0));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snic_siphash128(key, text, snic_min_u64((uint64_t)n, sizeof(text) - 1), hash);
    (void)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "snicstore-%016" PRIx64 "%016" PRIx64,
                   hash[0], hash[1]);
    /* As ex_io_open() waits for a process that is ending. */
    for (int i = 0; fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0; i++) {
        if (errno != EADDRINUSE || i == 300)
            ex_die("'%s' (--file) is in use by another process of this machine: stop that one, or "
                   "name another namespace",
                   uri);
        (void)nanosleep(&pause, NULL);
    }
    if (fd < 0)
        ex_die("cannot lock '%s': %s", uri, strerror(errno));
    return fd;
}

/* ---- Open, close ---- */

static void remote_name(struct snic_nvmehost_uri *u, const char *uri, uint32_t depth)
{
    const char *wrong = snic_nvmehost_uri_parse(u, uri);

    if (wrong != NULL)
        ex_die("'%s' (--file): %s", uri, wrong);
    remote_host(u, uri);
    if (strstr(uri, "?lock=") == NULL && strstr(uri, "&lock=") == NULL)
        u->opts.flags |= SNIC_NVMEHOST_LOCK;
    u->opts.depth = depth == 0                        ? 256
                    : depth > SNIC_NVMEHOST_DEPTH_MAX ? SNIC_NVMEHOST_DEPTH_MAX
                                                      : depth;
    wrong = snic_nvmehost_opts_wrong(&u->opts);
    if (wrong != NULL)
        ex_die("'%s' (--file): %s", uri, wrong);
}

void ex_remote_open(struct ex_remote *r, struct snic_loop *loop, const char *uri,
                    const char *auth_keys, uint32_t depth)
{
    struct snic_net_uring_opts net = {.opts_size = sizeof(net),
                                      .conns_max = 256,
                                      .recv_buffers = 32,
                                      .recv_size = 65536,
                                      .pool_buffers = 256};
    struct snic_nvmehost_stats stats;
    struct snic_nvmehost_uri u;
    struct snic_nvmehost *h;
    int rc;

    remote_name(&u, uri, depth);
    remote_secret(&u, auth_keys);
    r->lock = (u.opts.flags & SNIC_NVMEHOST_LOCK) != 0 ? remote_lock(uri, &u) : -1;
    rc = snic_net_uring_open(&r->net, loop, &net);
    if (rc != 0)
        ex_die("cannot set up the network for '%s': %s", uri, snic_strerror(rc));
    size_t size = snic_nvmehost_memsize(&u.opts);
    (void)ex_memory(&r->memory, size, "remote device");
    rc = snic_nvmehost_open(&h, r->memory.at, size, r->net, &u.opts);
    snic_nvmeauth_wipe(&u.opts.keys, sizeof(u.opts.keys));
    if (rc == 0)
        rc = snic_nvmehost_wait(h, EX_REMOTE_WAIT_NS);
    if (rc != 0)
        ex_die("cannot connect to '%s': %s", uri, remote_why(rc));
    r->io = snic_nvmehost_io(h);
    snic_nvmehost_get_stats(h, &stats);
    if (r->lock >= 0 && !stats.locked)
        ex_log(EX_WARNING, "'%s' is not locked: its target has no reservations", uri);
    ex_log(EX_INFO, "connected to '%s': %" PRIu64 " MiB", uri, r->io->geometry.size >> 20);
}

void ex_remote_close(struct ex_remote *r)
{
    if (r->net == NULL)
        return;
    snic_net_shut(r->net);
    ex_memory_free(&r->memory);
    if (r->lock >= 0)
        (void)close(r->lock);
    memset(r, 0, sizeof(*r));
}

static void remote_read_done(struct snic_io_req *req)
{
    req->done = NULL;
}

int ex_remote_zeros(struct snic_io *io, uint64_t at, uint64_t end)
{
    struct ex_memory m;
    unsigned char *data = ex_memory(&m, EX_REMOTE_READ_BYTES, "remote device");
    int zeros = 1;

    while (zeros && at < end) {
        struct snic_io_req req, *one = &req;

        snic_io_req_init(&req);
        req.done = remote_read_done;
        req.op = SNIC_IO_READ;
        req.offset = at;
        req.length = end - at < EX_REMOTE_READ_BYTES ? end - at : EX_REMOTE_READ_BYTES;
        req.buf.base = data;
        req.buf.size = (size_t)req.length;
        zeros = snic_io_submit(io, &one, 1) == 1;
        while (zeros && req.done != NULL)
            if (snic_loop_once(io->loop, SNIC_NEVER) < 0)
                ex_die("cannot read the remote device: its event loop has failed");
        for (uint64_t i = 0; i < req.length && zeros; i++)
            zeros = req.result == (int64_t)req.length && data[i] == 0;
        at += req.length;
    }
    ex_memory_free(&m);
    return zeros;
}
