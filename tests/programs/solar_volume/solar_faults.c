/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_faults: the load of the paper's Table 2. Clients with a disk each keep a few I/Os of 4 to
 * 32 KiB in flight, a read for four writes, and everything that they read is compared with what
 * they know was acknowledged; counted is how many I/Os have no answer for a second. With --waits it
 * is a second without the waiting for a CPU (solar_faults_waits.c), for resumed_us likewise.
 *
 *     solar_faults load --transport solar --server 10.77.200.1:7000 --epoch 1 --milliseconds 4500
 *     solar_faults tcp_server --listen 10.77.200.1:7004
 *
 * It prints "ready" when every client has had an answer, and in the end a line "result" with pairs
 * of name=value. SIGUSR1 means that the server is back: resumed_us is how long after that the next
 * I/O was done, at most. SIGUSR2 means that the time is over. With --hold it prints "held" then,
 * and waits for a line on its standard input before all that was acknowledged is read back.
 *
 * I/Os in flight at once have no block in common of which one is written, so a client knows of each
 * block which version must be there. A block of a version that was not acknowledged is anything.
 */
#include "solar_faults.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULT_UNKNOWN UINT32_MAX
#define FAULT_WRITES UINT16_MAX
#define FAULT_HANG_NS UINT64_C(1000000000)
#define FAULT_MAGIC UINT64_C(0x736e696330323931)

static struct fault_options opt = {.server = "127.0.0.1:7000",
                                   .transport = "solar",
                                   .clients = 16,
                                   .depth = 4,
                                   .blocks = 1024,
                                   .epoch = 1,
                                   .milliseconds = 4000,
                                   .drain = 10,
                                   .seed = 1};

static struct {
    const struct fault_transport *transport;
    struct fault_client clients[FAULT_CLIENTS_MAX];
    struct snic_hist latency; /* ns */
    uint32_t version;
    uint32_t inside;
    uint64_t ios[2]; /* read, written */
    uint64_t hung;   /* had no answer for a second */
    uint64_t open;   /* of them: had none in the end */
    uint64_t errors;
    uint64_t wrong; /* blocks */
    uint64_t checked;
    uint64_t stall_ns; /* an iteration took that much longer than it was to wait, at most */
    uint64_t resumed_ns;
    int over; /* nothing counts any more */
} run;

static volatile sig_atomic_t back;
static volatile sig_atomic_t enough;
static struct timespec back_at;
static uint64_t back_waits_ns; /* fault_waits_ns() then */

uint64_t fault_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- What a block holds ---- */

static uint64_t block_step(const struct fault_client *c, uint32_t lba, uint32_t version)
{
    uint64_t v = (uint64_t)version << 32 | lba;
    return (v ^ ((uint64_t)c->index + 1) << 56) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void block_fill(const struct fault_client *c, uint32_t lba, uint32_t version, void *to)
{
    uint64_t *w = to;
    uint64_t step = block_step(c, lba, version);
    w[0] = FAULT_MAGIC ^ ((uint64_t)c->index << 32 | lba);
    w[1] = version;
    for (uint32_t i = 2; i < FAULT_BLOCK / 8; i++)
        w[i] = w[i - 1] + step;
}

/* @return its version; 0: nothing was written there; FAULT_UNKNOWN: it is no block of that place */
static uint32_t block_version(const struct fault_client *c, uint32_t lba, const void *from)
{
    const uint64_t *w = from;
    uint64_t step = block_step(c, lba, (uint32_t)w[1]), first = w[0], bad = 0;
    if (first == 0) {
        for (uint32_t i = 1; i < FAULT_BLOCK / 8; i++)
            bad |= w[i];
        return bad != 0 ? FAULT_UNKNOWN : 0;
    }
    bad = first ^ FAULT_MAGIC ^ ((uint64_t)c->index << 32 | lba);
    bad |= w[1] >> 32;
    for (uint32_t i = 2; i < FAULT_BLOCK / 8; i++)
        bad |= w[i] ^ (w[i - 1] + step);
    return bad != 0 ? FAULT_UNKNOWN : (uint32_t)w[1];
}

static void block_read(struct fault_client *c, uint32_t lba, const void *data)
{
    uint32_t version = block_version(c, lba, data);
    run.checked++;
    if (version == FAULT_UNKNOWN || (c->known[lba] != FAULT_UNKNOWN && c->known[lba] != version)) {
        if (run.wrong++ < 10)
            fprintf(stderr,
                    "WRONG: block %" PRIu32 " of client %" PRIu32 " has version %" PRIx32
                    ", acknowledged was %" PRIx32 "\n",
                    lba, c->index, version, c->known[lba]);
    }
    c->known[lba] = version;
}

/* ---- I/Os ---- */

static int client_blocks_free(const struct fault_client *c, uint32_t lba, uint32_t blocks,
                              int write)
{
    for (uint32_t i = 0; i < blocks; i++)
        if (c->busy[lba + i] != 0 && (write || c->busy[lba + i] == FAULT_WRITES))
            return 0;
    return 1;
}

static void client_begin(struct fault_client *c, struct fault_io *io)
{
    for (uint32_t i = 0; i < io->blocks; i++) {
        if (io->write) {
            c->busy[io->lba + i] = FAULT_WRITES;
            block_fill(c, io->lba + i, io->version, io->data + (size_t)i * FAULT_BLOCK);
        } else {
            c->busy[io->lba + i]++;
        }
    }
    io->explained = 0;
    io->counted = 0;
    io->began_ns = fault_now();
    io->waits_ns = fault_waits_ns();
    run.inside++;
    run.transport->submit(io);
}

static void client_issue(struct fault_client *c, struct fault_io *io)
{
    for (uint32_t tries = 0; tries < 64; tries++) {
        io->blocks = 1 + (uint32_t)snic_rng_below(&c->rng, FAULT_IO_BLOCKS);
        io->lba = (uint32_t)snic_rng_below(&c->rng, opt.blocks - io->blocks + 1);
        io->write = snic_rng_below(&c->rng, 5) != 0;
        if (!client_blocks_free(c, io->lba, io->blocks, io->write))
            continue;
        /* Of another epoch it is another version. */
        io->version = (uint32_t)(opt.epoch << 20) + ++run.version % (1u << 20);
        client_begin(c, io);
        return;
    }
}

/* Since then, less the waiting for a CPU, when fault_waits_ns() was @p waits_ns. */
static uint64_t run_since(uint64_t then, uint64_t waits_ns, uint64_t now)
{
    uint64_t took = now > then ? now - then : 0;
    if (took >= FAULT_HANG_NS)
        fault_waits_count(now, 1);
    return took - snic_min_u64(took, fault_waits_ns() - waits_ns);
}

static int io_hung(const struct fault_io *io, uint64_t now)
{
    return run_since(io->began_ns, io->waits_ns, now) >= FAULT_HANG_NS;
}

static void io_hangs(struct fault_io *io, uint64_t now)
{
    io->counted = 1;
    run.hung++;
    snic_hist_record(&run.latency, now - io->began_ns);
}

static void io_count(struct fault_io *io, uint64_t now)
{
    run.ios[io->write]++;
    if (!io->counted && io_hung(io, now))
        io_hangs(io, now);
    else if (!io->counted)
        snic_hist_record(&run.latency, now - io->began_ns);
    if (back) {
        uint64_t at = (uint64_t)back_at.tv_sec * 1000000000u + (uint64_t)back_at.tv_nsec;
        /* Of a microsecond at least: 0 is that none was done. */
        run.resumed_ns = snic_max_u64(run.resumed_ns, run_since(at, back_waits_ns, now) + 1000);
        back = 0;
    }
}

void fault_done(struct fault_io *io, int64_t result)
{
    struct fault_client *c = io->client;
    uint64_t now = fault_now();
    int ok = result == (int64_t)io->blocks * FAULT_BLOCK;
    run.inside--;
    if (run.over) {
        io->began_ns = 0;
        return;
    }
    io_count(io, now);
    if (!ok && run.errors++ < 10)
        fprintf(stderr, "ERROR: an I/O of client %" PRIu32 ": %s\n", c->index,
                result < 0 ? snic_strerror((int)result) : "cut short");
    for (uint32_t i = 0; i < io->blocks; i++) {
        uint32_t lba = io->lba + i;
        c->busy[lba] = io->write ? 0 : (uint16_t)(c->busy[lba] - 1);
        if (io->write)
            c->known[lba] = ok ? io->version : FAULT_UNKNOWN;
        else if (ok)
            block_read(c, lba, io->data + (size_t)i * FAULT_BLOCK);
    }
    c->done++;
    io->began_ns = 0;
    io->next_ns = now;
    if (opt.pause_us != 0)
        io->next_ns += snic_rng_below(&c->rng, 2000 * opt.pause_us);
}

/* ---- A run ---- */

/* New I/Os. @return when the next is due */
static uint64_t run_issue(uint64_t now)
{
    uint64_t due = SNIC_NEVER;
    for (uint32_t i = 0; i < opt.clients; i++) {
        struct fault_client *c = &run.clients[i];
        for (uint32_t k = 0; k < opt.depth; k++) {
            struct fault_io *io = &c->io[k];
            if (io->began_ns == 0 && io->next_ns <= now)
                client_issue(c, io);
            if (io->began_ns == 0)
                due = snic_min_u64(due, io->next_ns);
        }
    }
    return due;
}

static void run_turn(uint64_t due)
{
    uint64_t now = fault_now();
    uint64_t wait = snic_min_u64(due > now ? due - now : 0, 10000000);
    fault_waits_begin(now, wait);
    run.transport->turn(wait);
    uint64_t then = fault_now();
    fault_waits_count(then, 0);
    if (then > now + wait)
        run.stall_ns = snic_max_u64(run.stall_ns, then - now - wait);
}

static int run_all_answered(void)
{
    for (uint32_t i = 0; i < opt.clients; i++)
        if (run.clients[i].done == 0)
            return 0;
    return 1;
}

static void run_explain(uint64_t now)
{
    for (uint32_t i = 0; i < opt.clients; i++)
        for (uint32_t k = 0; k < opt.depth; k++) {
            struct fault_io *io = &run.clients[i].io[k];
            if (io->began_ns == 0 || io->explained || !io_hung(io, now))
                continue;
            io->explained = 1;
            run.transport->explain(io);
        }
}

/* What has no answer for a second (or at all) hangs, whatever becomes of it. */
static void run_count_open(uint64_t now, int all)
{
    run.open = 0;
    for (uint32_t i = 0; i < opt.clients; i++)
        for (uint32_t k = 0; k < opt.depth; k++) {
            struct fault_io *io = &run.clients[i].io[k];
            if (io->began_ns == 0 || !(all || io_hung(io, now)))
                continue;
            run.open++;
            if (!io->counted)
                io_hangs(io, now);
        }
}

static void run_load(void)
{
    uint64_t limit = fault_now() + UINT64_C(30000000000);
    while (!run_all_answered()) {
        if (fault_now() > limit)
            ex_die("%s: no answer for 30 s", opt.server);
        run_turn(run_issue(fault_now()));
    }
    snic_hist_reset(&run.latency);
    run.ios[0] = run.ios[1] = run.hung = run.stall_ns = 0;
    printf("ready\n");
    fflush(stdout);
    uint64_t end = fault_now() + opt.milliseconds * 1000000, now;
    while ((now = fault_now()) < end && !enough) {
        run_turn(run_issue(now));
        if (opt.verbose)
            run_explain(fault_now()); /* what began meanwhile is younger */
    }
    run_count_open(now, 0);
}

/* What is under way ends, or hangs. */
static void run_drain(void)
{
    uint64_t end = fault_now() + opt.drain * UINT64_C(1000000000);
    while (run.transport->lasting && run.inside != 0 && fault_now() < end)
        run_turn(SNIC_NEVER);
    if (run.transport->lasting)
        run_count_open(fault_now(), 1);
}

static void run_read_back(void)
{
    for (uint32_t i = 0; i < opt.clients; i++) {
        struct fault_client *c = &run.clients[i];
        struct fault_io *io = &c->io[0];
        for (uint32_t lba = 0; lba < opt.blocks; lba += FAULT_IO_BLOCKS) {
            uint64_t end = fault_now() + UINT64_C(30000000000);
            io->lba = lba;
            io->blocks = (uint32_t)snic_min_u64(opt.blocks - lba, FAULT_IO_BLOCKS);
            io->write = 0;
            client_begin(c, io);
            while (io->began_ns != 0 && fault_now() < end)
                run_turn(SNIC_NEVER);
            if (io->began_ns != 0) {
                run.transport->explain(io);
                ex_die("reading back: no answer for 30 s");
            }
        }
    }
}

static void run_report(void)
{
    const struct snic_hist *h = &run.latency;
    printf("result transport=%s ios=%" PRIu64 " reads=%" PRIu64 " hung=%" PRIu64 " open=%" PRIu64
           " max_ms=%" PRIu64 " p50_us=%" PRIu64 " p99_us=%" PRIu64 " p999_us=%" PRIu64
           " errors=%" PRIu64 " wrong=%" PRIu64 " checked=%" PRIu64 " stall_ms=%" PRIu64
           " resumed_us=%" PRIu64 " waits_ms=%" PRIu64,
           opt.transport, run.ios[0] + run.ios[1], run.ios[0], run.hung, run.open, h->max / 1000000,
           snic_hist_quantile(h, 500000) / 1000, snic_hist_quantile(h, 990000) / 1000,
           snic_hist_quantile(h, 999000) / 1000, run.errors, run.wrong, run.checked,
           run.stall_ns / 1000000, run.resumed_ns / 1000, fault_waits_ns() / 1000000);
    run.transport->report(stdout);
    printf("\n");
    fflush(stdout);
}

/* ---- The program ---- */

static void on_back(int number)
{
    (void)number;
    clock_gettime(CLOCK_MONOTONIC, &back_at);
    back_waits_ns = fault_waits_ns();
    back = 1;
}

static void on_enough(int number)
{
    (void)number;
    enough = 1;
}

static void *must_have(size_t size)
{
    void *p = aligned_alloc(FAULT_BLOCK, snic_align_up(size, FAULT_BLOCK));
    if (p == NULL)
        ex_die("no memory");
    memset(p, 0, size);
    return p;
}

static void clients_open(void)
{
    size_t each = FAULT_BLOCK + FAULT_IO_BLOCKS * FAULT_BLOCK;
    for (uint32_t i = 0; i < opt.clients; i++) {
        struct fault_client *c = &run.clients[i];
        c->index = i;
        c->known = must_have(opt.blocks * sizeof(*c->known));
        c->busy = must_have(opt.blocks * sizeof(*c->busy));
        memset(c->known, 0xff, opt.blocks * sizeof(*c->known)); /* FAULT_UNKNOWN */
        snic_rng_init(&c->rng, opt.seed * 1000 + i);
        for (uint32_t k = 0; k < opt.depth; k++) {
            c->io[k].client = c;
            c->io[k].data = (unsigned char *)must_have(each) + FAULT_BLOCK;
            c->io[k].head = c->io[k].data - FAULT_HEAD;
        }
    }
}

static void clients_close(void)
{
    for (uint32_t i = 0; i < opt.clients; i++) {
        for (uint32_t k = 0; k < opt.depth; k++)
            free(run.clients[i].io[k].data - FAULT_BLOCK);
        free(run.clients[i].known);
        free(run.clients[i].busy);
    }
}

static void load_options(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"transport", EX_TEXT, &opt.transport, "solar|tcp", "how", 0, 0, NULL},
        {"server", EX_TEXT, &opt.server, "ADDR:PORT", "where", 0, 0, NULL},
        {"clients", EX_NUMBER, &opt.clients, "N", "each with a disk, 1.. of that number", 1,
         FAULT_CLIENTS_MAX, NULL},
        {"depth", EX_NUMBER, &opt.depth, "N", "I/Os in flight of each", 1, FAULT_DEPTH_MAX, NULL},
        {"blocks", EX_NUMBER, &opt.blocks, "N", "of a disk, 4 KiB each", 256, 1 << 20, NULL},
        {"epoch", EX_NUMBER, &opt.epoch, "N", "lease: higher than any before", 1, 4095, NULL},
        {"milliseconds", EX_NUMBER, &opt.milliseconds, "N", "how long", 1, 86400000, NULL},
        {"pause-us", EX_NUMBER, &opt.pause_us, "N", "mean time from an answer to the next I/O", 0,
         1000000, NULL},
        {"drain", EX_NUMBER, &opt.drain, "SECONDS", "patience in the end", 0, 3600, NULL},
        {"seed", EX_NUMBER, &opt.seed, "N", "of the choices", 0, UINT32_MAX, NULL},
        {"hold", EX_FLAG, &opt.hold, NULL, "wait for a line before reading back", 0, 0, NULL},
        {"waits", EX_TEXT, &opt.waits, "FILE",
         "numbers of processes: what they wait for a CPU is no time of an I/O", 0, 0, NULL},
        {"verbose", EX_FLAG, &opt.verbose, NULL, "explain what hangs", 0, 0, NULL},
    };
    ex_options(argc, argv, table, SNIC_COUNTOF(table), "The load of the paper's Table 2.");
}

static int load(int argc, char **argv)
{
    static const struct fault_transport *const all[] = {&fault_solar, &fault_tcp};
    load_options(argc, argv);
    for (size_t i = 0; i < SNIC_COUNTOF(all); i++)
        if (strcmp(all[i]->name, opt.transport) == 0)
            run.transport = all[i];
    if (run.transport == NULL)
        ex_die("--transport %s: there is no such", opt.transport);
    struct sigaction act = {.sa_handler = on_back, .sa_flags = SA_RESTART};
    (void)sigaction(SIGUSR1, &act, NULL);
    act.sa_handler = on_enough;
    (void)sigaction(SIGUSR2, &act, NULL);
    clients_open();
    fault_waits_open(opt.waits);
    run.transport->open(run.clients, &opt);
    run_load();
    run_drain();
    if (opt.hold) {
        char line[16];
        printf("held\n");
        fflush(stdout);
        if (read(0, line, sizeof(line)) < 0)
            ex_die("standard input: %s", strerror(errno));
    }
    if (run.transport->lasting && run.inside == 0)
        run_read_back();
    run_report();
    run.over = 1;
    run.transport->close();
    clients_close();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "load") == 0)
        return load(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "tcp_server") == 0)
        return fault_tcp_server(argc - 1, argv + 1);
    fprintf(stderr, "Usage: solar_faults load|tcp_server [OPTION]... (--help)\n");
    return 2;
}
