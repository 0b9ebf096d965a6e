/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The peer: the same I/Os by RPCs over the kernel's TCP, one connection per client, TCP_NODELAY,
 * pipelined, with a server that keeps the blocks in memory. Plain sockets and the kernel's own
 * timers, nothing of this library.
 *
 * A frame is a header of 64 bytes, and the data of a write or of a read's answer.
 */
#include "solar_faults.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TCP_MAGIC 0x52504331u
#define TCP_LBA_MAX (1u << 20)

struct tcp_frame {
    uint32_t magic;
    uint32_t client;
    uint32_t lba;
    uint16_t blocks;
    uint8_t write;
    uint8_t slot; /* the client's */
    unsigned char pad[FAULT_HEAD - 16];
};
SNIC_STATIC_ASSERT(sizeof(struct tcp_frame) == FAULT_HEAD, "lies in front of the data");

/* A frame that leaves: header and data, of which @sent bytes are gone. */
struct tcp_out {
    unsigned char *head;
    unsigned char *data;
    size_t size; /* of the data */
    size_t sent;
};

struct tcp_conn {
    int fd;
    int dead;
    struct tcp_frame in;
    size_t in_got; /* of header and data */
    unsigned char *in_data;
    size_t in_size; /* of the data */
    struct tcp_out out[2 * FAULT_DEPTH_MAX];
    uint32_t first; /* of the ring */
    uint32_t count;
};

/* ---- Both ends ---- */

static void tcp_address(const char *name, const char *text, struct sockaddr_in *a)
{
    struct snic_net_addr n;
    ex_address(name, text, &n);
    if (n.family != SNIC_NET_IPV4)
        ex_die("--%s: an IPv4 address is needed", name);
    memset(a, 0, sizeof(*a));
    a->sin_family = AF_INET;
    a->sin_port = htons(n.port);
    memcpy(&a->sin_addr, n.ip, 4);
}

static void tcp_ready(struct tcp_conn *k, int fd)
{
    int one = 1;
    memset(k, 0, sizeof(*k));
    k->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void tcp_fails(struct tcp_conn *k, ssize_t r)
{
    if (r == 0 || (errno != EAGAIN && errno != EINTR))
        k->dead = 1;
}

static void tcp_push(struct tcp_conn *k, unsigned char *head, unsigned char *data, size_t size)
{
    if (k->count == SNIC_COUNTOF(k->out))
        ex_die("more frames than were asked for");
    k->out[(k->first + k->count++) % SNIC_COUNTOF(k->out)] =
        (struct tcp_out){.head = head, .data = data, .size = size};
}

/* As much as the kernel takes. */
static void tcp_flush(struct tcp_conn *k)
{
    while (k->count > 0 && !k->dead) {
        struct iovec v[4 * FAULT_DEPTH_MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < k->count; i++) {
            struct tcp_out *o = &k->out[(k->first + i) % SNIC_COUNTOF(k->out)];
            size_t of_head = o->sent < FAULT_HEAD ? FAULT_HEAD - o->sent : 0;
            size_t of_data = o->sent < FAULT_HEAD ? 0 : o->sent - FAULT_HEAD;
            if (of_head > 0)
                v[n++] = (struct iovec){o->head + FAULT_HEAD - of_head, of_head};
            if (o->size > of_data)
                v[n++] = (struct iovec){o->data + of_data, o->size - of_data};
        }
        struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
        ssize_t r = sendmsg(k->fd, &m, MSG_NOSIGNAL);
        if (r <= 0) {
            tcp_fails(k, r);
            return;
        }
        for (size_t left = (size_t)r; left > 0;) {
            struct tcp_out *o = &k->out[k->first];
            size_t now = snic_min_u64(left, FAULT_HEAD + o->size - o->sent);
            o->sent += now;
            left -= now;
            if (o->sent == FAULT_HEAD + o->size) {
                k->first = (k->first + 1) % SNIC_COUNTOF(k->out);
                k->count--;
            }
        }
    }
}

/* The next frame, whose data go to @where's buffer. @return 1 it is whole; 0 not yet, or never */
static int tcp_take(struct tcp_conn *k, void (*where)(struct tcp_conn *k))
{
    while (!k->dead) {
        unsigned char *to = (unsigned char *)&k->in + k->in_got;
        size_t most = FAULT_HEAD - k->in_got;
        if (k->in_got >= FAULT_HEAD) {
            to = k->in_data + (k->in_got - FAULT_HEAD);
            most = FAULT_HEAD + k->in_size - k->in_got;
        }
        ssize_t r = recv(k->fd, to, most, 0);
        if (r <= 0) {
            tcp_fails(k, r);
            return 0;
        }
        k->in_got += (size_t)r;
        if (k->in_got == FAULT_HEAD) {
            if (k->in.magic != TCP_MAGIC || k->in.blocks == 0 || k->in.blocks > FAULT_IO_BLOCKS ||
                k->in.client >= FAULT_CLIENTS_MAX || k->in.lba > TCP_LBA_MAX)
                ex_die("a frame that is none");
            where(k);
        }
        if (k->in_got >= FAULT_HEAD && k->in_got == FAULT_HEAD + k->in_size) {
            k->in_got = 0;
            return 1;
        }
    }
    return 0;
}

/* ---- The client ---- */

static struct {
    const struct fault_options *o;
    struct fault_client *clients;
    struct tcp_conn conn[FAULT_CLIENTS_MAX];
} tcp;

static void tcp_open(struct fault_client *clients, const struct fault_options *o)
{
    struct sockaddr_in a;
    tcp.o = o;
    tcp.clients = clients;
    tcp_address("server", o->server, &a);
    for (uint32_t i = 0; i < o->clients; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
            ex_die("%s: %s", o->server, strerror(errno));
        tcp_ready(&tcp.conn[i], fd);
    }
}

static void tcp_submit(struct fault_io *io)
{
    struct tcp_conn *k = &tcp.conn[io->client->index];
    struct tcp_frame f = {.magic = TCP_MAGIC,
                          .client = io->client->index,
                          .lba = io->lba,
                          .blocks = (uint16_t)io->blocks,
                          .write = (uint8_t)io->write,
                          .slot = (uint8_t)(io - io->client->io)};
    memcpy(io->head, &f, sizeof(f));
    tcp_push(k, io->head, io->data, io->write ? (size_t)io->blocks * FAULT_BLOCK : 0);
    tcp_flush(k);
}

static void tcp_answer_data(struct tcp_conn *k)
{
    struct fault_io *io = &tcp.clients[k->in.client].io[k->in.slot % FAULT_DEPTH_MAX];
    if (io->began_ns == 0 || io->lba != k->in.lba || io->blocks != k->in.blocks)
        ex_die("an answer to nothing");
    k->in_data = io->data;
    k->in_size = k->in.write ? 0 : (size_t)io->blocks * FAULT_BLOCK;
}

static void tcp_turn(uint64_t max_wait_ns)
{
    struct pollfd p[FAULT_CLIENTS_MAX];
    const struct timespec wait = {0, (long)snic_min_u64(max_wait_ns, 999999999)};
    for (uint32_t i = 0; i < tcp.o->clients; i++) {
        struct tcp_conn *k = &tcp.conn[i];
        p[i] = (struct pollfd){.fd = k->dead ? -1 : k->fd, .events = POLLIN};
        if (k->count > 0)
            p[i].events |= POLLOUT;
    }
    if (ppoll(p, (nfds_t)tcp.o->clients, &wait, NULL) < 0 && errno != EINTR)
        ex_die("poll: %s", strerror(errno));
    for (uint32_t i = 0; i < tcp.o->clients; i++) {
        struct tcp_conn *k = &tcp.conn[i];
        if (p[i].revents == 0)
            continue;
        if ((p[i].revents & POLLOUT) != 0)
            tcp_flush(k);
        while (tcp_take(k, tcp_answer_data)) {
            struct fault_io *io = &tcp.clients[i].io[k->in.slot];
            fault_done(io, (int64_t)io->blocks * FAULT_BLOCK);
        }
    }
}

static void tcp_explain(const struct fault_io *io)
{
    (void)io; /* it has one path */
}

static void tcp_report(FILE *to)
{
    uint32_t dead = 0;
    uint64_t retransmits = 0;
    for (uint32_t i = 0; i < tcp.o->clients; i++) {
        struct tcp_info info;
        socklen_t size = sizeof(info);
        dead += tcp.conn[i].dead != 0;
        if (getsockopt(tcp.conn[i].fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
            retransmits += info.tcpi_total_retrans;
    }
    fprintf(to, " retransmits=%" PRIu64 " dead=%" PRIu32, retransmits, dead);
}

static void tcp_close(void)
{
    for (uint32_t i = 0; i < tcp.o->clients; i++)
        (void)close(tcp.conn[i].fd);
}

const struct fault_transport fault_tcp = {.name = "tcp",
                                          .open = tcp_open,
                                          .submit = tcp_submit,
                                          .turn = tcp_turn,
                                          .explain = tcp_explain,
                                          .report = tcp_report,
                                          .close = tcp_close};

/* ---- The server ---- */

struct tcp_client {
    struct tcp_conn conn;
    unsigned char write[FAULT_IO_BLOCKS * FAULT_BLOCK];
    struct tcp_frame heads[2 * FAULT_DEPTH_MAX]; /* of answers, in turn */
    uint32_t next;
    int used;
};

static struct {
    const char *listen;
    int fd;
    unsigned char *disk[FAULT_CLIENTS_MAX];
    struct tcp_client client[2 * FAULT_CLIENTS_MAX];
} ts = {.listen = "127.0.0.1:7004"};

/* A disk is as large as a place may lie; memory is what was written. */
static unsigned char *server_place(const struct tcp_frame *f)
{
    unsigned char **d = &ts.disk[f->client];
    if (*d == NULL) {
        void *p = mmap(NULL, (size_t)(TCP_LBA_MAX + FAULT_IO_BLOCKS) * FAULT_BLOCK,
                       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            ex_die("no memory");
        *d = p;
    }
    return *d + (size_t)f->lba * FAULT_BLOCK;
}

static void server_write_data(struct tcp_conn *k)
{
    struct tcp_client *c = SNIC_CONTAINER(k, struct tcp_client, conn);
    k->in_data = c->write;
    k->in_size = k->in.write ? (size_t)k->in.blocks * FAULT_BLOCK : 0;
}

static void server_serve(struct tcp_client *c)
{
    struct tcp_conn *k = &c->conn;
    /* No more is taken than there is room for answers to. */
    while (k->count < SNIC_COUNTOF(k->out) && tcp_take(k, server_write_data)) {
        unsigned char *at = server_place(&k->in);
        struct tcp_frame *head = &c->heads[c->next++ % SNIC_COUNTOF(c->heads)];
        size_t size = (size_t)k->in.blocks * FAULT_BLOCK;
        *head = k->in;
        if (k->in.write)
            memcpy(at, c->write, size);
        tcp_push(k, (unsigned char *)head, at, k->in.write ? 0 : size);
    }
    tcp_flush(k);
    if (k->dead) {
        (void)close(k->fd);
        c->used = 0;
    }
}

static void server_accept(void)
{
    int fd = accept4(ts.fd, NULL, NULL, SOCK_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < SNIC_COUNTOF(ts.client); i++) {
        struct tcp_client *c = &ts.client[i];
        if (c->used)
            continue;
        tcp_ready(&c->conn, fd);
        c->used = 1;
        return;
    }
    if (fd >= 0)
        (void)close(fd);
}

static void server_turn(void)
{
    struct pollfd p[SNIC_COUNTOF(ts.client) + 1];
    nfds_t n = SNIC_COUNTOF(ts.client);
    for (nfds_t i = 0; i < n; i++) {
        const struct tcp_conn *k = &ts.client[i].conn;
        p[i] = (struct pollfd){.fd = ts.client[i].used ? k->fd : -1};
        p[i].events =
            (short)((k->count < SNIC_COUNTOF(k->out) ? POLLIN : 0) | (k->count > 0 ? POLLOUT : 0));
    }
    p[n] = (struct pollfd){.fd = ts.fd, .events = POLLIN};
    if (poll(p, n + 1, -1) < 0 && errno != EINTR)
        ex_die("poll: %s", strerror(errno));
    for (nfds_t i = 0; i < n; i++)
        if (ts.client[i].used && p[i].revents != 0)
            server_serve(&ts.client[i]);
    if (p[n].revents != 0)
        server_accept();
}

int fault_tcp_server(int argc, char **argv)
{
    static const struct ex_option table[] = {
        {"listen", EX_TEXT, &ts.listen, "ADDR:PORT", "where", 0, 0, NULL}};
    struct sockaddr_in a;
    int one = 1;
    ex_options(argc, argv, table, SNIC_COUNTOF(table), "Blocks in memory, by RPCs over TCP.");
    tcp_address("listen", ts.listen, &a);
    ts.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ts.fd >= 0)
        (void)setsockopt(ts.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (ts.fd < 0 || bind(ts.fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(ts.fd, 64) < 0)
        ex_die("%s: %s", ts.listen, strerror(errno));
    printf("ready %s\n", ts.listen);
    fflush(stdout);
    for (;;)
        server_turn();
}
