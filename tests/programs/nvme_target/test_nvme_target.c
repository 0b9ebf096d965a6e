/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* examples/nvme_target as a process on loopback, driven by the host's half of nvmetcp. */
#include "snicstore/nvmesub.h"
#include "support.h"
#include "support/nvmehost.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NQN "nqn.2026-11.example:disk"
#define HOST_A "nqn.2026-11.example:a"
#define HOST_B "nqn.2026-11.example:b"
enum { BLOCK = 4096, FILE_BYTES = 16 << 20, ARGS = 32 };
#define NEVER_NS UINT64_C(240000000000) /* against hangs only */

static struct {
    pid_t pid;
    int out, err; /* pipes */
    char file[256];
    char ready[64];
    struct snic_loop *loop;
    struct snic_net *net;
    struct nh a, b;
    const char *loops;
} g;
static struct nh_queue admin, io, admin_b, io_b;
static unsigned char out[1 << 17], in[1 << 17];

/* ---- The process ---- */

static void start(const char *const *args)
{
    char *argv[ARGS + 2] = {(char *)(uintptr_t)NVME_TARGET};
    int o[2], e[2];
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 1] = (char *)(uintptr_t)args[i];
    assert_int_equal(pipe(o), 0);
    assert_int_equal(pipe(e), 0);
    g.pid = fork();
    if (g.pid == 0) {
        (void)dup2(o[1], 1);
        (void)dup2(e[1], 2);
        close(o[0]);
        close(e[0]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(o[1]);
    close(e[1]);
    g.out = o[0];
    g.err = e[0];
}

static size_t read_all(int fd, char *text, size_t size)
{
    size_t n = 0;
    for (ssize_t r; n + 1 < size && (r = read(fd, text + n, size - n - 1)) > 0;)
        n += (size_t)r;
    text[n] = 0;
    return n;
}

static int finish(int number, char *text, size_t size)
{
    int status;
    if (number != 0)
        assert_int_equal(kill(g.pid, number), 0);
    (void)read_all(g.err, text, size);
    assert_int_equal(waitpid(g.pid, &status, 0), g.pid);
    close(g.out);
    close(g.err);
    g.pid = 0;
    return status;
}

static void stop(void)
{
    char text[4096];
    int status = finish(SIGTERM, text, sizeof(text));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the target ended with %x: %s", (unsigned)status, text);
}

static void wait_ready(void)
{
    size_t n = 0;
    char line[64] = "";
    while (n + 1 < sizeof(line) && strchr(line, '\n') == NULL) {
        ssize_t r = read(g.out, line + n, 1);
        if (r <= 0) {
            char text[4096];
            (void)finish(0, text, sizeof(text));
            fail_msg("the target did not start: %s", text);
        }
        n += (size_t)r;
        line[n] = 0;
    }
    line[n - 1] = 0;
    assert_int_equal(strncmp(line, "ready ", 6), 0);
    memcpy(g.ready, line + 6, n - 6);
    assert_int_equal(snic_net_addr_parse(&g.a.addr, g.ready), 0);
    g.b.addr = g.a.addr;
}

/* Until the target's log has the text. */
static void wait_log(const char *text)
{
    static char log[8192];
    size_t n = 0;
    log[0] = 0;
    while (strstr(log, text) == NULL) {
        ssize_t r = read(g.err, log + n, sizeof(log) - 1 - n);
        assert_true(r > 0);
        n += (size_t)r;
        log[n] = 0;
    }
}

/* With more options behind those that all have. */
static void serve(const char *const *more)
{
    const char *args[ARGS] = {"--listen", "127.0.0.1:0", "--loops",     g.loops,  "--size",
                              "16M",      "--subsystem", NQN,           "--host", HOST_A,
                              "--host",   HOST_B,        "--namespace", g.file};
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        args[14 + i] = more[i];
    start(args);
    wait_ready();
}

static void open_hosts(void)
{
    struct snic_net_uring_opts n = {.opts_size = sizeof(n), .pool_buffers = 256};
    int r = snic_loop_uring_open(&g.loop, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring here");
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_uring_open(&g.net, g.loop, &n), 0);
    memset(&g.a, 0, sizeof(g.a));
    g.a.loop = g.loop;
    g.a.net = g.net;
    g.a.subnqn = NQN;
    g.a.hostnqn = HOST_A;
    g.a.hostid[0] = 1;
    g.b = g.a;
    g.b.hostnqn = HOST_B;
    g.b.hostid[0] = 2;
}

static void close_hosts(void)
{
    snic_net_shut(g.net);
    snic_loop_close(g.loop);
}

static int begin(void **state)
{
    (void)state;
    g.loops = "1";
    (void)signal(SIGPIPE, SIG_IGN);
    support_tmpname(g.file, sizeof(g.file), "nvme_target");
    open_hosts();
    return 0;
}

static int begin_loops(void **state)
{
    (void)begin(state);
    g.loops = "2";
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (g.pid != 0) {
        (void)kill(g.pid, SIGKILL);
        (void)waitpid(g.pid, NULL, 0);
        g.pid = 0;
    }
    nh_close(&io);
    nh_close(&admin);
    nh_close(&io_b);
    nh_close(&admin_b);
    close_hosts();
    (void)unlink(g.file);
    return 0;
}

static void connect_host(struct nh *h, struct nh_queue *ctrl, struct nh_queue *queue)
{
    assert_int_equal(nh_admin(ctrl, h), 0);
    assert_int_equal(nh_io_queue(queue, ctrl, 1), 0);
}

static void fill(unsigned char *p, size_t size, uint64_t seed)
{
    struct snic_rng r;
    snic_rng_init(&r, seed);
    snic_rng_fill(&r, p, size);
}

/* ---- Tests ---- */

static void write_and_verify(struct nh_queue *q, uint64_t seed)
{
    struct snic_rng r;
    snic_rng_init(&r, seed);
    for (int i = 0; i < 40; i++) {
        uint32_t blocks = 1 + (uint32_t)snic_rng_below(&r, 32);
        uint64_t lba = snic_rng_below(&r, FILE_BYTES / BLOCK - 32);
        fill(out, blocks * BLOCK, seed + (uint64_t)i);
        assert_int_equal(nh_io(q, SNIC_NVME_IO_WRITE, 1, lba, blocks, out, blocks * BLOCK), 0);
        memset(in, 0, blocks * BLOCK);
        assert_int_equal(nh_io(q, SNIC_NVME_IO_READ, 1, lba, blocks, in, blocks * BLOCK), 0);
        assert_memory_equal(in, out, blocks * BLOCK);
    }
}

/** All kinds of commands, with and without digests, data in the capsule, the switch. */
static void test_nvme_target_write_read_verify(void **state)
{
    static const char *const fair[] = {"--fair", "--weight", HOST_A "=4", "--cached", NULL};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        serve(i >= 2 ? fair : NULL);
        g.a.digests = (i & 1) != 0 ? 3 : 0;
        g.a.capsule = (i & 1) != 0 ? 8192 : 0;
        g.a.no_sq_flow = i == 2;
        connect_host(&g.a, &admin, &io);
        write_and_verify(&io, i + 1);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE_ZEROES, 1, 3, 9, NULL, 0), 0);
        memset(out, 0, sizeof(out));
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_COMPARE, 1, 3, 9, out, 9 * BLOCK), 0);
        struct snic_nvme_dsm_range range = {.blocks = 0};
        struct snic_nvme_sqe dsm = {
            .opcode = SNIC_NVME_IO_DSM, .nsid = 1, .cdw11 = SNIC_NVME_DSM_DEALLOCATE};
        snic_put_le32(&range.blocks, 100);
        assert_int_equal(nh_run(&io, &dsm, &range, sizeof(range), NULL), 0);
        assert_int_equal(nh_io(&io, SNIC_NVME_IO_VERIFY, 1, 0, FILE_BYTES / BLOCK, NULL, 0), 0);
        nh_close(&io);
        nh_close(&admin);
        stop();
    }
}

/** What was flushed is there after the target was killed and started again; so is its identity. */
static void test_nvme_target_killed_keeps_what_was_flushed(void **state)
{
    unsigned char before[4096];
    char text[4096];
    (void)state;
    serve(NULL);
    connect_host(&g.a, &admin, &io);
    assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_NS_DESC, 1, before), 0);
    fill(out, sizeof(out), 77);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_WRITE, 1, 64, 32, out, sizeof(out)), 0);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_FLUSH, 1, 0, 0, NULL, 0), 0);
    (void)finish(SIGKILL, text, sizeof(text));
    nh_close(&io);
    nh_close(&admin);
    serve(NULL);
    connect_host(&g.a, &admin, &io);
    assert_int_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 64, 32, in, sizeof(in)), 0);
    assert_memory_equal(in, out, sizeof(out));
    assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_NS_DESC, 1, in), 0);
    assert_memory_equal(in, before, sizeof(before));
    nh_close(&io);
    nh_close(&admin);
    stop();
}

/** Many I/O queues, so that some are on each loop, and a namespace on each: what one has written
 * another reads. */
static void test_nvme_target_queues_on_all_loops(void **state)
{
    static const char *const more[] = {"--memory", "16M", "--queues", "12", NULL};
    static struct nh_queue q[12];
    (void)state;
    serve(more);
    assert_int_equal(nh_admin(&admin, &g.a), 0);
    for (uint16_t i = 0; i < SNIC_COUNTOF(q); i++)
        assert_int_equal(nh_io_queue(&q[i], &admin, i + 1), 0);
    for (uint32_t i = 0; i < SNIC_COUNTOF(q); i++)
        for (uint32_t nsid = 1; nsid <= 2; nsid++) {
            fill(out, sizeof(out), i * 2 + nsid);
            assert_int_equal(nh_io(&q[i], SNIC_NVME_IO_WRITE, nsid, i * 32, 32, out, sizeof(out)),
                             0);
            assert_int_equal(nh_io(&q[(i + 5) % SNIC_COUNTOF(q)], SNIC_NVME_IO_READ, nsid, i * 32,
                                   32, in, sizeof(in)),
                             0);
            assert_memory_equal(in, out, sizeof(out));
        }
    for (uint32_t i = 0; i < SNIC_COUNTOF(q); i++)
        nh_close(&q[i]);
    nh_close(&admin);
    stop();
}

/* A client that writes and writes, until it is killed. */
static void client(int ready)
{
    struct nh_queue ctrl, queue;
    struct nh_cmd cmd[16];
    open_hosts();
    assert_int_equal(snic_net_addr_parse(&g.a.addr, g.ready), 0);
    if (nh_admin(&ctrl, &g.a) != 0 || nh_io_queue(&queue, &ctrl, 1) != 0)
        _exit(1);
    (void)!write(ready, "x", 1);
    for (;;) {
        for (uint32_t i = 0; i < 16; i++) {
            nh_rw(&cmd[i], SNIC_NVME_IO_WRITE, 1, i * 32, 32, out, sizeof(out));
            if (nh_submit(&queue, &cmd[i]) != 0)
                _exit(1);
        }
        for (uint32_t i = 0; i < 16; i++)
            (void)nh_wait(&queue, &cmd[i]);
    }
}

/** Clients are killed in the middle of writes: each time the host returns and is served. */
static void test_nvme_target_client_killed_in_the_middle(void **state)
{
    (void)state;
    serve(NULL);
    for (uint32_t i = 0; i < 8; i++) {
        int p[2];
        char c;
        assert_int_equal(pipe(p), 0);
        pid_t pid = fork();
        if (pid == 0)
            client(p[1]);
        close(p[1]);
        assert_int_equal(read(p[0], &c, 1), 1);
        (void)usleep(1000 * i);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        close(p[0]);
        connect_host(&g.a, &admin, &io);
        write_and_verify(&io, i);
        nh_close(&io);
        nh_close(&admin);
    }
    stop();
}

/** A host that reads nothing keeps no other from its work, and does not keep the target from its
 * end. */
static void test_nvme_target_deaf_client_beside_another(void **state)
{
    static struct nh_cmd cmds[31];
    static unsigned char data[31][1 << 17];
    (void)state;
    serve(NULL);
    connect_host(&g.a, &admin, &io);
    connect_host(&g.b, &admin_b, &io_b);
    io.deaf = 1;
    for (uint32_t i = 0; i < SNIC_COUNTOF(cmds); i++) {
        nh_rw(&cmds[i], i % 2 == 0 ? SNIC_NVME_IO_READ : SNIC_NVME_IO_WRITE, 1, 2048, 32, data[i],
              sizeof(data[i]));
        assert_int_equal(nh_submit(&io, &cmds[i]), 0);
    }
    write_and_verify(&io_b, 5);
    stop();
}

static int raw_connect(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(g.a.addr.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

/** Ten times as many silent clients as there are connections: hosts are served, and the log has a
 * line about it. */
static void test_nvme_target_ten_times_too_many_clients(void **state)
{
    static const char *const few[] = {"--connections", "8", NULL};
    static int fd[80];
    (void)state;
    serve(few);
    connect_host(&g.a, &admin, &io);
    for (size_t i = 0; i < SNIC_COUNTOF(fd); i++)
        fd[i] = raw_connect();
    uint64_t end = snic_loop_clock(g.b.loop) + NEVER_NS;
    while (nh_admin(&admin_b, &g.b) != 0) { /* one of the last may have taken its place */
        nh_close(&admin_b);
        assert_true(snic_loop_clock(g.b.loop) < end);
    }
    write_and_verify(&io, 9);
    for (size_t i = 0; i < SNIC_COUNTOF(fd); i++)
        close(fd[i]);
    wait_log("raise --connections");
    nh_close(&admin_b);
    nh_close(&io);
    nh_close(&admin);
    stop();
}

/** Nonsense is answered by a termination or the end of the connection, and hurts no other. */
static void test_nvme_target_garbage(void **state)
{
    static const char *const soon[] = {"--connect-seconds", "1", NULL};
    (void)state;
    serve(soon);
    uint64_t begin = snic_loop_clock(g.a.loop), end = begin + NEVER_NS;
    while (nh_admin(&admin, &g.a) != 0 || nh_io_queue(&io, &admin, 1) != 0) {
        nh_close(&io);
        nh_close(&admin);
        uint64_t now = snic_loop_clock(g.a.loop);
        assert_true(now - begin >= 500000000 && now < end); /* it had its second, about */
        begin = now;
    }
    for (uint64_t i = 0; i < 32; i++) {
        int fd = raw_connect();
        fill(out, 8192, i + support_seed());
        if (i % 2 == 0) {
            memset(out, 0, 8); /* ICReq, of the right length */
            out[2] = 128;
            out[4] = 128;
            memset(out + 8, 0, 120);
        }
        (void)!send(fd, out, 8192, MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        while (recv(fd, in, sizeof(in), 0) > 0)
            ;
        close(fd);
    }
    write_and_verify(&io, 3);
    nh_close(&io);
    nh_close(&admin);
    stop();
}

/* ---- Authentication ---- */

/* Of `nvme gen-dhchap-key`, of the bytes 0, 1, 2 ... and of random ones. */
#define SECRET_A "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define SECRET_B                                                                                   \
    "DHHC-1:02:AQsjJVrkaifYXSAbUvND8541MKuvfm3/nl5ufhIOFEXrZVagjOzICJW+Gd8fK3EQumcXzw==:"
#define SECRET_C "DHHC-1:01:YIxnmbFpBiH8Ci+rnzvuh8NUXTVlsR4BhLR9AZDNIthSZgxm:"

static char keys_file[256];

static void write_keys(const char *text, mode_t mode)
{
    if (keys_file[0] == 0)
        support_tmpname(keys_file, sizeof(keys_file), "nvme_target_keys");
    FILE *f = fopen(keys_file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(keys_file, mode), 0);
}

static void has_keys(struct nh *h, const char *host, const char *ctrl)
{
    h->auth = snic_nvmeauth_openssl();
    h->random = snic_nvmeauth_openssl_random;
    if (h->auth == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    memset(&h->keys, 0, sizeof(h->keys));
    assert_int_equal(snic_nvmeauth_key_parse(&h->keys.host, host), 0);
    if (ctrl != NULL)
        assert_int_equal(snic_nvmeauth_key_parse(&h->keys.ctrl, ctrl), 0);
}

/** One host one way, one both ways; one with another's secret, or with none, is not served. */
static void test_nvme_target_authentication(void **state)
{
    const char *const more[] = {"--auth-keys", keys_file, "--auth-groups", "null,ffdhe3072", NULL};
    (void)state;
    write_keys("# hosts\n" HOST_A " " SECRET_A "\n\n  " HOST_B "  " SECRET_B " " SECRET_C "\n",
               0600);
    has_keys(&g.a, SECRET_A, NULL);
    has_keys(&g.b, SECRET_B, SECRET_C);
    serve(more);
    connect_host(&g.a, &admin, &io);
    connect_host(&g.b, &admin_b, &io_b);
    assert_true(admin.required && io.required && io_b.required);
    assert_int_equal(io.proof.group, SNIC_NVMEAUTH_FFDHE3072);
    assert_int_equal(io.proof.both, 0);
    assert_int_equal(io_b.proof.both, 1);
    write_and_verify(&io, 1);
    write_and_verify(&io_b, 2);
    nh_close(&admin_b);
    nh_close(&io_b);
    g.b.keys.host = g.a.keys.host;
    assert_int_equal(nh_admin(&admin_b, &g.b), SNIC_NVME_SC_AUTH_REQUIRED);
    nh_close(&admin_b);
    g.b.auth = NULL;
    assert_int_not_equal(nh_admin(&admin_b, &g.b), 0);
    write_and_verify(&io, 3);
    nh_close(&admin_b);
    nh_close(&io);
    nh_close(&admin);
    stop();
    g.a.auth = g.b.auth = NULL;
    (void)unlink(keys_file);
}

/** What is wrong with the file is named, with its line. */
static void test_nvme_target_bad_keys_named(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *want;
    } cases[] = {
        {HOST_A " " SECRET_A "\n", 0640, "chmod 600"},
        {HOST_A " " SECRET_A "\n", 0604, "chmod 600"},
        {HOST_A "\n", 0600, ":1: not HOSTNQN SECRET"},
        {"#\n" HOST_A " x\n", 0600, ":2: the host's secret is not DHHC-1"},
        {HOST_A " " SECRET_A " DHHC-1:09:x:\n", 0600, "controller's secret has an unknown hash"},
        {HOST_A " DHHC-1:00:BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:\n", 0600,
         "wrong checksum"},
        {HOST_A " " SECRET_A " " SECRET_A "\n", 0600, "must differ"},
        {HOST_A " " SECRET_A "\n" HOST_A " " SECRET_B "\n", 0600,
         ":2: host " HOST_A ": named twice"},
        {HOST_B " " SECRET_A "\n", 0600, "host " HOST_A " has no secret"},
    };
    char text[4096];
    (void)state;
    if (snic_nvmeauth_openssl() == NULL)
        support_skip("built without libcrypto (libssl-dev)");
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        write_keys(cases[i].text, cases[i].mode);
        const char *const args[] = {"--listen",    "127.0.0.1:0", "--subsystem", NQN,
                                    "--host",      HOST_A,        "--memory",    "1M",
                                    "--auth-keys", keys_file,     NULL};
        start(args);
        int status = finish(0, text, sizeof(text));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || strstr(text, cases[i].want) == NULL ||
            strstr(text, "DHHC-1:0") != NULL)
            fail_msg("case %zu ended with %x and: %s", i, (unsigned)status, text);
    }
    (void)unlink(keys_file);
}

/** Every mistake of the command line has a line that names it. */
static void test_nvme_target_startup_errors(void **state)
{
#define SUB "--subsystem", NQN
    static const struct {
        const char *args[10];
        int code;
        const char *text;
    } cases[] = {
        {{NULL}, 2, "--subsystem NQN is needed"},
        {{SUB, NULL}, 2, "has no namespace"},
        {{"--host", "any", NULL}, 2, "--subsystem NQN must come first"},
        {{"--memory", "1M", NULL}, 2, "--subsystem NQN must come first"},
        {{SUB, "--memory", "1M", NULL}, 2, "no host may connect"},
        {{SUB, "--memory", "1000", NULL}, 2, "multiple of 4K"},
        {{SUB, SUB, NULL}, 2, "named twice"},
        {{"--subsystem", SNIC_NVME_DISCOVERY_NQN, NULL}, 2, "discovery subsystem"},
        {{SUB, "--host", "", NULL}, 2, "1 to 223 characters"},
        {{SUB, "--host", "any", "--memory", "1M", "--weight", "x=1", NULL}, 2, "--fair"},
        {{"--weight", "x=0", NULL}, 2, "between 1 and 256"},
        {{SUB, "--host", "any", "--memory", "1M", "--transfer", "12K", NULL}, 2, "power of two"},
        {{SUB, "--host", "any", "--memory", "1M", "--memory-per-connection", "64K", NULL},
         2,
         "twice --transfer"},
        {{SUB, "--host", "any", "--memory", "1M", "--host-connections", "65", NULL},
         2,
         "above --connections"},
        {{SUB, "--host", "any", "--memory", "1M", "--listen", "0.0.0.0:0", NULL}, 2, "--advertise"},
        {{SUB, "--host", "any", "--memory", "1M", "--listen", "unix:/tmp/x", NULL}, 2, "TCP"},
        {{SUB, "--host", "any", "--memory", "1M", "--listen", "x", NULL}, 2, "is not ADDRESS:PORT"},
        {{SUB, "--host", "any", "--namespace", "/nowhere/at/all", NULL}, 1, "/nowhere/at/all"},
        {{SUB, "--host", "any", "--read-only", "/nowhere", NULL}, 1, "No such file"},
        {{"--auth-groups", "ffdhe1024", NULL}, 2, "--auth-groups"},
        {{SUB, "--ssd", "dct983", NULL}, 2, "not PROFILE:BYTES"},
        {{SUB, "--ssd", "dct983:5000", NULL}, 2, "not PROFILE:BYTES"},
        {{SUB, "--ssd", "other:1M", NULL}, 2, "--ssd 'other': not dct983"},
        {{SUB, "--host", "any", "--ssd", "p3600:1M", "--steer-cpu", NULL}, 2, "without --loops"},
        {{SUB, "--host", "any", "--memory", "1M", "--thresh-min", "99", NULL}, 2, "without --fair"},
        {{SUB, "--host", "any", "--memory", "1M", "--fair", "--thresh-min", "3700", NULL},
         2,
         "--thresh-max, which begins with 1500 unless it is set, too"},
        {{SUB, "--host", "any", "--memory", "1M", "--auth-groups", "null", NULL},
         2,
         "without --auth-keys"},
        {{SUB, "--host", "any", "--memory", "1M", "--auth-keys", "/nowhere", NULL},
         1,
         "--auth-keys): No such file"},
        {{SUB, "--host", "any", "--namespace", "/dev", NULL}, 1, "/dev"},
    };
#undef SUB
    char text[4096];
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        start(cases[i].args);
        int status = finish(0, text, sizeof(text));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[i].code ||
            strstr(text, cases[i].text) == NULL)
            fail_msg("case %zu ended with %x and: %s", i, (unsigned)status, text);
    }
}

int main(int argc, char **argv)
{
#define TEST(f)                                                                                    \
    cmocka_unit_test_setup_teardown(f, begin, end),                                                \
    {                                                                                              \
#f "_loops", f, begin_loops, end, NULL                                                     \
    }
    const struct CMUnitTest tests[] = {
        TEST(test_nvme_target_write_read_verify),
        TEST(test_nvme_target_killed_keeps_what_was_flushed),
        TEST(test_nvme_target_client_killed_in_the_middle),
        TEST(test_nvme_target_deaf_client_beside_another),
        TEST(test_nvme_target_ten_times_too_many_clients),
        TEST(test_nvme_target_garbage),
        TEST(test_nvme_target_queues_on_all_loops),
        TEST(test_nvme_target_authentication),
        cmocka_unit_test_setup_teardown(test_nvme_target_bad_keys_named, begin, end),
        cmocka_unit_test_setup_teardown(test_nvme_target_startup_errors, begin, end),
    };
#undef TEST
    return SUPPORT_MAIN(argc, argv, tests);
}
