/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * forwarder CONTROL SEED TUN...: carries IPv4 packets between TUN devices, which it makes; a packet
 * to an address that ends in .N goes to the N-th of them. Each pair of devices has its own delay,
 * jitter, duplication, reordering and loss. Fates are drawn from the seed, the pair, and how many
 * packets the pair had before: the same packets in the same order have the same fates.
 *
 * CONTROL is the path of a UNIX socket. A line is a command, its answer begins with "ok" or
 * "error":
 *
 *   link FROM TO NAME VALUE [NAME VALUE]...   from and to: numbers from 1, or *; of NAMEs not
 *                                             listed the value stays
 *     delay US, jitter US   late by delay + 0 ... jitter; jitter alone reorders
 *     reorder PPM           of a million packets so many are later by another `span` US
 *     span US
 *     dup PPM               ... are carried twice
 *     loss PPM              ... are dropped
 *   clear                                     all values are 0
 *   stats
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    FORWARDER_DEVICES = 16,
    FORWARDER_PACKET = 70000,
    FORWARDER_QUEUE = 8192,
    FORWARDER_HEADER = 10, /* struct virtio_net_hdr: segmentation is left to the receiver */
    FORWARDER_BATCH = 64,
    FORWARDER_MILLION = 1000000
};

enum { FATE_DELAY, FATE_JITTER, FATE_REORDER, FATE_SPAN, FATE_DUP, FATE_LOSS, FATES };
static const char *const forwarder_fate[FATES] = {"delay", "jitter", "reorder",
                                                  "span",  "dup",    "loss"};

struct forwarder_link {
    uint64_t value[FATES];
    uint64_t packets;
    uint64_t last_due; /* without jitter packets stay in order */
};

struct forwarder_packet {
    uint64_t due;
    uint64_t number;
    uint32_t to;
    uint32_t size;
    uint8_t *data;
};

static struct {
    int tun[FORWARDER_DEVICES];
    uint32_t devices;
    uint64_t seed;
    struct forwarder_link link[FORWARDER_DEVICES][FORWARDER_DEVICES];
    struct forwarder_packet heap[FORWARDER_QUEUE];
    uint32_t waiting;
    uint64_t number;
    uint64_t carried, lost, doubled, late, overflow;
} forwarder;

static uint64_t forwarder_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t forwarder_mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int forwarder_before(const struct forwarder_packet *a, const struct forwarder_packet *b)
{
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void forwarder_push(struct forwarder_packet p)
{
    struct forwarder_packet *h = forwarder.heap;
    uint32_t i = forwarder.waiting++;
    for (; i > 0 && forwarder_before(&p, &h[(i - 1) / 2]); i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = p;
}

static struct forwarder_packet forwarder_pop(void)
{
    struct forwarder_packet *h = forwarder.heap;
    struct forwarder_packet first = h[0], last = h[--forwarder.waiting];
    uint32_t i = 0;
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c + 1 < forwarder.waiting && forwarder_before(&h[c + 1], &h[c]))
            c++;
        if (c >= forwarder.waiting || !forwarder_before(&h[c], &last))
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = last;
    return first;
}

static void forwarder_send(uint32_t to, const uint8_t *data, size_t size)
{
    /* A device that is down or full loses the packet, as a network does. */
    if (write(forwarder.tun[to], data, size) == (ssize_t)size)
        forwarder.carried++;
    else
        forwarder.overflow++;
}

static void forwarder_later(uint64_t due, uint32_t to, const uint8_t *data, size_t size)
{
    uint8_t *copy = forwarder.waiting < FORWARDER_QUEUE ? malloc(size) : NULL;
    if (copy == NULL) {
        forwarder.overflow++;
        return;
    }
    memcpy(copy, data, size);
    forwarder.late++;
    forwarder_push((struct forwarder_packet){due, forwarder.number++, to, (uint32_t)size, copy});
}

/* A packet's fate on its link. */
static void forwarder_carry(uint32_t from, uint32_t to, const uint8_t *data, size_t size)
{
    struct forwarder_link *l = &forwarder.link[from][to];
    const uint64_t *v = l->value;
    uint64_t h = forwarder_mix(forwarder.seed ^ forwarder_mix(from * FORWARDER_DEVICES + to) ^
                               l->packets++ * UINT64_C(0xd1342543de82ef95));
    uint32_t copies = 1;
    if (h % FORWARDER_MILLION < v[FATE_LOSS]) {
        forwarder.lost++;
        return;
    }
    h = forwarder_mix(h);
    if (h % FORWARDER_MILLION < v[FATE_DUP]) {
        forwarder.doubled++;
        copies = 2;
    }
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t us = v[FATE_DELAY];
        h = forwarder_mix(h);
        us += v[FATE_JITTER] != 0 ? h % v[FATE_JITTER] : 0;
        h = forwarder_mix(h);
        us += h % FORWARDER_MILLION < v[FATE_REORDER] ? v[FATE_SPAN] : 0;
        if (us == 0 && forwarder_now() >= l->last_due) {
            forwarder_send(to, data, size);
            continue;
        }
        uint64_t due = forwarder_now() + us * 1000;
        if (v[FATE_JITTER] == 0 && v[FATE_REORDER] == 0) {
            due = due < l->last_due ? l->last_due : due;
            l->last_due = due;
        }
        forwarder_later(due, to, data, size);
    }
}

static void forwarder_receive(uint32_t from)
{
    static uint8_t data[FORWARDER_PACKET];
    for (int i = 0; i < FORWARDER_BATCH; i++) {
        ssize_t n = read(forwarder.tun[from], data, sizeof(data));
        if (n <= 0)
            return;
        if (n < FORWARDER_HEADER + 20 || data[FORWARDER_HEADER] >> 4 != 4)
            continue;
        uint32_t to = (uint32_t)data[FORWARDER_HEADER + 19] - 1;
        if (to < forwarder.devices && to != from)
            forwarder_carry(from, to, data, (size_t)n);
    }
}

static int forwarder_ends(const char *word, uint32_t *first, uint32_t *last)
{
    unsigned long n = strtoul(word, NULL, 10);
    *first = 0;
    *last = forwarder.devices - 1;
    if (strcmp(word, "*") == 0)
        return 0;
    if (n < 1 || n > forwarder.devices)
        return -1;
    *first = *last = (uint32_t)n - 1;
    return 0;
}

static int forwarder_set(char *const *word, size_t words)
{
    uint32_t a, b, c, d;
    if (words < 5 || words % 2 == 0 || forwarder_ends(word[1], &a, &b) != 0 ||
        forwarder_ends(word[2], &c, &d) != 0)
        return -1;
    for (size_t w = 3; w < words; w += 2) {
        uint32_t k = 0;
        while (k < FATES && strcmp(word[w], forwarder_fate[k]) != 0)
            k++;
        if (k == FATES)
            return -1;
        for (uint32_t i = a; i <= b; i++) {
            for (uint32_t j = c; j <= d; j++)
                forwarder.link[i][j].value[k] = strtoull(word[w + 1], NULL, 10);
        }
    }
    return 0;
}

static void forwarder_command(int fd, char *line)
{
    char *word[20] = {NULL}, *rest = line, out[256] = "ok\n";
    size_t words = 0;
    while (words < 20 && (word[words] = strtok_r(rest, " \r\n", &rest)) != NULL)
        words++;
    if (words == 1 && strcmp(word[0], "stats") == 0) {
        (void)snprintf(
            out, sizeof(out),
            "ok carried=%llu lost=%llu doubled=%llu late=%llu overflow=%llu waiting=%u\n",
            (unsigned long long)forwarder.carried, (unsigned long long)forwarder.lost,
            (unsigned long long)forwarder.doubled, (unsigned long long)forwarder.late,
            (unsigned long long)forwarder.overflow, forwarder.waiting);
    } else if (words == 1 && strcmp(word[0], "clear") == 0) {
        for (uint32_t i = 0; i < FORWARDER_DEVICES; i++) {
            for (uint32_t j = 0; j < FORWARDER_DEVICES; j++)
                memset(forwarder.link[i][j].value, 0, sizeof(forwarder.link[i][j].value));
        }
    } else if (words == 0 || strcmp(word[0], "link") != 0 || forwarder_set(word, words) != 0) {
        (void)snprintf(out, sizeof(out), "error: unknown command or bad arguments\n");
    }
    (void)send(fd, out, strlen(out), MSG_NOSIGNAL);
}

/* Commands come from one connection at a time, a line in one piece. */
static void forwarder_control(struct pollfd *listener, struct pollfd *client)
{
    char line[512];
    if ((listener->revents & POLLIN) != 0) {
        if (client->fd >= 0)
            (void)close(client->fd);
        client->fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        return;
    }
    if (client->fd < 0 || client->revents == 0)
        return;
    ssize_t n = recv(client->fd, line, sizeof(line) - 1, 0);
    if (n <= 0) {
        (void)close(client->fd);
        client->fd = -1;
        return;
    }
    line[n] = 0;
    forwarder_command(client->fd, line);
}

static int forwarder_tun(const char *name)
{
    struct ifreq r;
    memset(&r, 0, sizeof(r));
    (void)snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
    r.ifr_flags = (short)(IFF_TUN | IFF_NO_PI | IFF_VNET_HDR);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) != 0 ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) {
        (void)fprintf(stderr, "forwarder: %s: %s\n", name, strerror(errno));
        return -1;
    }
    return fd;
}

static int forwarder_listen(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    (void)unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 4) != 0) {
        (void)fprintf(stderr, "forwarder: %s: %s\n", path, strerror(errno));
        return -1;
    }
    return fd;
}

static void forwarder_run(int listener)
{
    struct pollfd p[FORWARDER_DEVICES + 2];
    for (uint32_t i = 0; i < forwarder.devices; i++)
        p[i] = (struct pollfd){.fd = forwarder.tun[i], .events = POLLIN};
    struct pollfd *control = &p[forwarder.devices];
    control[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    control[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (;;) {
        uint64_t now = forwarder_now();
        struct timespec wait = {1, 0};
        for (; forwarder.waiting > 0 && forwarder.heap[0].due <= now;) {
            struct forwarder_packet q = forwarder_pop();
            forwarder_send(q.to, q.data, q.size);
            free(q.data);
        }
        if (forwarder.waiting > 0 && forwarder.heap[0].due - now < 1000000000)
            wait = (struct timespec){0, (long)(forwarder.heap[0].due - now)};
        if (ppoll(p, forwarder.devices + 2, &wait, NULL) < 0 && errno != EINTR)
            return;
        for (uint32_t i = 0; i < forwarder.devices; i++) {
            if (p[i].revents != 0)
                forwarder_receive(i);
        }
        forwarder_control(&control[0], &control[1]);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 3 + FORWARDER_DEVICES) {
        (void)fprintf(stderr, "usage: forwarder CONTROL SEED TUN...\n");
        return 2;
    }
    forwarder.seed = strtoull(argv[2], NULL, 10);
    forwarder.devices = (uint32_t)argc - 3;
    for (uint32_t i = 0; i < forwarder.devices; i++) {
        forwarder.tun[i] = forwarder_tun(argv[3 + i]);
        if (forwarder.tun[i] < 0)
            return 1;
    }
    int listener = forwarder_listen(argv[1]);
    if (listener < 0)
        return 1;
    forwarder_run(listener);
    return 1;
}
