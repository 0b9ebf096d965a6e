/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvme_driver ADDRESS:PORT SUBNQN HOSTNQN HOSTID: a host that carries out one command for each line
 * of stdin and answers each with one line that begins with its status (in hexadecimal; ffff: the
 * connection ended).
 *   connect | discover | close         the admin queue and one I/O queue; to discovery; end both
 *   secret TEXT                        authenticate by it from now on
 *   register KEY PTPL | acquire KEY TYPE | release KEY TYPE | unregister KEY | report NSID
 *   write NSID LBA BYTE | read NSID LBA    one block of 4096 bytes
 *   credit ON                          request credit, or no more
 *   flow NSID LBA BYTE                 a read, a write and a flush; the Dword1 of each completion
 *   load BYTES DEPTH MS    reads of namespace 1, so many at a time: the bytes, without those of the
 *                          first third of the time, and the longest time in ms in which this
 *                          process was not scheduled
 *   store BYTES DEPTH MS   the same with writes
 *   size NSID | list | ana | entries | clear NSID     identify, logs
 *   aer | event                            request events; wait for one
 * Commands of reservations are those of namespace 1. A command without an answer for LIMIT_S ends
 * the driver.
 */
#include "support.h"
#include "support/nvmehost.h"

#include "snicstore/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_S = 300, LOAD_TICK_NS = 10000000 };

static struct nh host;
static struct nh_queue admin, io;
static struct nh_cmd event;
static unsigned char data[1 << 16];
static int waits;
static char line[256];

static void no_answer(int number)
{
    static const char text[] = "nvme_driver: for 300 s no answer to: ";
    SNIC_STATIC_ASSERT(LIMIT_S == 300, "the text");
    (void)number;
    (void)!write(2, text, sizeof(text) - 1);
    (void)!write(2, line, strlen(line));
    _exit(3);
}

static void reply(uint32_t status, const char *format, ...) SNIC_PRINTF(2, 3);
static void reply(uint32_t status, const char *format, ...)
{
    va_list ap;
    printf("%x ", status & 0x7ff);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
    (void)fflush(stdout);
}

static void reserve(uint8_t opcode, uint32_t cdw10, uint64_t first, uint64_t second)
{
    struct snic_nvme_sqe e = {.opcode = opcode, .nsid = 1, .cdw10 = cdw10};
    snic_put_le64(data, first);
    snic_put_le64(data + 8, second);
    reply(nh_run(&io, &e, data, opcode == SNIC_NVME_IO_RESV_RELEASE ? 8 : 16, NULL), "done");
}

static void report(uint32_t nsid)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_IO_RESV_REPORT, .nsid = nsid, .cdw11 = 1};
    const struct snic_nvme_resv_status *s = (const void *)data;
    char text[1024] = "";
    size_t n = 0;
    e.cdw10 = 1024 / 4 - 1;
    uint32_t status = nh_run(&io, &e, data, 1024, NULL);
    uint32_t count = status == 0 ? snic_get_le16(s->regctl) : 0;
    for (uint32_t i = 0; i < count && i < 8; i++) {
        const struct snic_nvme_resv_controller *c = (const void *)(data + 64 + 64 * (size_t)i);
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %u:%llx:%u", c->hostid[0],
                              (unsigned long long)snic_get_le64(&c->rkey), c->rcsts & 1);
    }
    reply(status, "type %u ptpl %u%s", s->rtype, s->ptpls, text);
}

static void move(uint8_t opcode, uint32_t nsid, uint64_t lba, int byte)
{
    memset(data, byte, 4096);
    uint32_t status = nh_io(&io, opcode, nsid, lba, 1, data, 4096);
    reply(status, "%u", data[4095]);
}

static void credit(uint32_t on)
{
    struct snic_nvme_sqe e = {
        .opcode = SNIC_NVME_ADMIN_SET_FEATURES, .cdw10 = SNIC_NVME_FEAT_CREDIT, .cdw11 = on};
    reply(nh_run(&admin, &e, NULL, 0, NULL), "done");
}

static void flow(uint32_t nsid, uint64_t lba, int byte)
{
    static const uint8_t ops[] = {SNIC_NVME_IO_READ, SNIC_NVME_IO_WRITE, SNIC_NVME_IO_FLUSH};
    char text[64] = "";
    size_t n = 0;
    uint32_t status = 0;
    memset(data, byte, 4096);
    for (size_t i = 0; status == 0 && i < SNIC_COUNTOF(ops); i++) {
        struct nh_cmd cmd;
        int moves = ops[i] != SNIC_NVME_IO_FLUSH;
        nh_rw(&cmd, ops[i], nsid, moves ? lba : 0, 1, moves ? data : NULL, moves ? 4096 : 0);
        status = nh_submit(&io, &cmd) == 0 ? nh_wait(&io, &cmd) : 0x7ff;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%u ", (uint32_t)(cmd.c.result >> 32));
    }
    reply(status, "%s", text);
}

/* How late a timer is shows for how long this process was not scheduled, whatever comes. */
struct load_tick {
    struct snic_timer timer;
    uint64_t due, late;
};

static void load_tick(struct snic_timer *t, uint64_t now_ns)
{
    struct load_tick *tick = SNIC_CONTAINER(t, struct load_tick, timer);
    uint64_t now = snic_loop_clock(host.loop);
    (void)now_ns;
    if (now > tick->due)
        tick->late = snic_max_u64(tick->late, now - tick->due);
    tick->due = now + LOAD_TICK_NS;
    snic_loop_arm(host.loop, t, tick->due);
}

static void load(uint8_t opcode, uint32_t bytes, uint32_t depth, uint64_t ms)
{
    static struct nh_cmd cmds[128];
    static unsigned char buffer[128 << 10];
    struct load_tick tick = {.late = 0};
    uint64_t sum = 0, now = snic_loop_clock(host.loop);
    uint64_t counted = now + ms * 1000000 / 3, end = now + ms * 1000000;
    snic_timer_init(&tick.timer, load_tick);
    tick.due = now;
    load_tick(&tick.timer, 0);
    for (uint32_t i = 0; i < depth && i < SNIC_COUNTOF(cmds); i++) {
        nh_rw(&cmds[i], opcode, 1, 0, bytes / 4096, buffer, bytes);
        if (nh_submit(&io, &cmds[i]) != 0)
            exit(1);
    }
    for (; now < end && !io.ended; now = snic_loop_clock(host.loop)) {
        nh_once(&host);
        for (uint32_t i = 0; i < depth && i < SNIC_COUNTOF(cmds); i++) {
            if (!cmds[i].done)
                continue;
            sum += now >= counted ? bytes : 0;
            nh_rw(&cmds[i], opcode, 1, 0, bytes / 4096, buffer, bytes);
            if (nh_submit(&io, &cmds[i]) != 0)
                exit(1);
        }
    }
    snic_loop_cancel(host.loop, &tick.timer);
    uint32_t status = 0;
    for (uint32_t i = 0; i < depth && i < SNIC_COUNTOF(cmds); i++)
        status |= nh_wait(&io, &cmds[i]);
    reply(status, "%llu %llu", (unsigned long long)sum, (unsigned long long)tick.late / 1000000);
}

static void identify(const char *verb, uint32_t nsid)
{
    char text[1024] = "";
    size_t n = 0;
    uint32_t cns = verb[0] == 's' ? SNIC_NVME_CNS_NS : SNIC_NVME_CNS_NS_LIST;
    uint32_t status = nh_identify(&admin, cns, nsid, data);
    if (verb[0] == 's') {
        reply(status, "%llu", (unsigned long long)snic_get_le64(data));
        return;
    }
    for (uint32_t i = 0; i < 32 && snic_get_le32(data + 4 * i) != 0; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%u ", snic_get_le32(data + 4 * i));
    reply(status, "%s", text);
}

static void entries(void)
{
    static char text[8192];
    size_t n = 0;
    uint32_t status = nh_log(&admin, SNIC_NVME_LOG_DISCOVERY, data, 16384);
    uint64_t count = status == 0 ? snic_get_le64(data + 8) : 0;
    text[0] = 0;
    for (uint64_t i = 0; i < count && i < 15; i++) {
        const struct snic_nvme_discovery_entry *e = (const void *)(data + 1024 * (i + 1));
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.223s ", (const char *)e->subnqn);
    }
    reply(status, "%s", text);
}

/* The states of all groups: group=state. */
static void ana(void)
{
    char text[1024] = "";
    size_t n = 0, at = 16;
    uint32_t status = nh_log(&admin, SNIC_NVME_LOG_ANA, data, 4096);
    uint32_t groups = status == 0 ? snic_get_le16(data + 8) : 0;
    for (uint32_t i = 0; i < groups && at + 32 <= 4096; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%u=%u ", snic_get_le32(data + at),
                              data[at + 16] & 15U);
        at += 32 + 4 * (size_t)snic_get_le32(data + at + 4);
    }
    reply(status, "%s", text);
}

static void request_event(void)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_AER};
    nh_prepare(&event, &e, NULL, 0);
    waits = nh_submit(&admin, &event) == 0;
    reply(0, "%d", waits);
}

static void wait_event(void)
{
    if (!waits) {
        reply(0x7ff, "no request");
        return;
    }
    uint32_t status = nh_wait(&admin, &event);
    uint32_t result = (uint32_t)event.c.result;
    uint32_t page = result >> 16 & 0xff;
    waits = 0;
    if (status == 0 && page != 0) /* which clears it */
        (void)nh_log(&admin, page, data, page == SNIC_NVME_LOG_DISCOVERY ? 16384 : 4096);
    reply(status, "%06x", result);
}

static void end(void)
{
    nh_close(&io);
    nh_close(&admin);
    waits = 0;
}

static void begin(const char *subnqn)
{
    end();
    host.subnqn = subnqn;
    uint32_t status = nh_admin(&admin, &host);
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_ADMIN_SET_FEATURES,
                              .cdw10 = SNIC_NVME_FEAT_AEC,
                              .cdw11 = SNIC_NVME_AEC_NS | SNIC_NVME_AEC_ANA};
    if (strcmp(subnqn, SNIC_NVME_DISCOVERY_NQN) == 0)
        e.cdw11 = SNIC_NVME_AEC_DISCOVERY;
    if (status == 0)
        status = nh_run(&admin, &e, NULL, 0, NULL);
    if (status == 0 && strcmp(subnqn, SNIC_NVME_DISCOVERY_NQN) != 0)
        status = nh_io_queue(&io, &admin, 1);
    reply(status, "connected");
}

static void secret(void)
{
    char *text = strchr(line, ' ') + 1;
    text[strcspn(text, "\n")] = 0;
    host.auth = snic_nvmeauth_openssl();
    host.random = snic_nvmeauth_openssl_random;
    if (host.auth == NULL)
        exit(77);
    reply(snic_nvmeauth_key_parse(&host.keys.host, text) == 0 ? 0 : 0x7ff, "%s", text);
}

static int carry_out(const char *verb, uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t nsid = (uint32_t)a;
    if (strcmp(verb, "close") != 0 && (!admin.open || admin.ended)) {
        reply(0x7ff, "not connected");
        return 0;
    }
    if (strcmp(verb, "close") == 0)
        end();
    if (strcmp(verb, "close") == 0)
        reply(0, "closed");
    else if (strcmp(verb, "register") == 0)
        reserve(SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_REGISTER | (uint32_t)b << 30, 0, a);
    else if (strcmp(verb, "unregister") == 0)
        reserve(SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_UNREGISTER, a, 0);
    else if (strcmp(verb, "acquire") == 0)
        reserve(SNIC_NVME_IO_RESV_ACQUIRE, (uint32_t)b << 8, a, 0);
    else if (strcmp(verb, "release") == 0)
        reserve(SNIC_NVME_IO_RESV_RELEASE, (uint32_t)b << 8, a, 0);
    else if (strcmp(verb, "report") == 0)
        report(nsid);
    else if (strcmp(verb, "write") == 0)
        move(SNIC_NVME_IO_WRITE, nsid, b, (int)c);
    else if (strcmp(verb, "read") == 0)
        move(SNIC_NVME_IO_READ, nsid, b, 0);
    else if (strcmp(verb, "credit") == 0)
        credit(nsid);
    else if (strcmp(verb, "flow") == 0)
        flow(nsid, b, (int)c);
    else if (strcmp(verb, "load") == 0)
        load(SNIC_NVME_IO_READ, (uint32_t)a, (uint32_t)b, c);
    else if (strcmp(verb, "store") == 0)
        load(SNIC_NVME_IO_WRITE, (uint32_t)a, (uint32_t)b, c);
    else if (strcmp(verb, "size") == 0 || strcmp(verb, "list") == 0)
        identify(verb, nsid);
    else if (strcmp(verb, "entries") == 0)
        entries();
    else if (strcmp(verb, "ana") == 0)
        ana();
    else if (strcmp(verb, "aer") == 0)
        request_event();
    else if (strcmp(verb, "event") == 0)
        wait_event();
    else
        return -1;
    return 0;
}

int main(int argc, char **argv)
{
    struct snic_net_uring_opts n = {.opts_size = sizeof(n), .pool_buffers = 256};
    char verb[32];
    if (argc != 5 || snic_net_addr_parse(&host.addr, argv[1]) != 0)
        return 2;
    if (snic_loop_uring_open(&host.loop, NULL) != 0)
        return 77;
    if (snic_net_uring_open(&host.net, host.loop, &n) != 0)
        return 1;
    host.hostnqn = argv[3];
    host.entries = 128;
    host.hostid[0] = (uint8_t)strtoul(argv[4], NULL, 10);
    (void)signal(SIGALRM, no_answer);
    while ((void)alarm(0), fgets(line, sizeof(line), stdin) != NULL) {
        unsigned long long a = 0, b = 0, c = 0;
        (void)alarm(LIMIT_S);
        if (sscanf(line, "%31s %lli %lli %lli", verb, (long long *)&a, (long long *)&b,
                   (long long *)&c) < 1)
            continue;
        if (strcmp(verb, "connect") == 0)
            begin(argv[2]);
        else if (strcmp(verb, "secret") == 0)
            secret();
        else if (strcmp(verb, "discover") == 0)
            begin(SNIC_NVME_DISCOVERY_NQN);
        else if (carry_out(verb, a, b, c) != 0)
            reply(0x7ff, "unknown");
    }
    end();
    snic_net_shut(host.net);
    snic_loop_close(host.loop);
    return 0;
}
