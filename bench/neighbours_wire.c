/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The protocols of bench/neighbours: RESP, page_server's, and NBD with its handshake. */
#include "neighbours.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "page_server/wire.h"

#define NBD_MAGIC UINT64_C(0x4e42444d41474943)
#define NBD_IHAVEOPT UINT64_C(0x49484156454f5054)
#define NBD_REQUEST 28u
#define NBD_REPLY 16u

static void be(unsigned char *p, uint64_t v, unsigned bytes)
{
    while (bytes > 0) {
        p[--bytes] = (unsigned char)v;
        v >>= 8;
    }
}

static uint64_t of_be(const unsigned char *p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

/* ---- Connections ---- */

static int whole(int fd, unsigned char *p, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, p, size, 0);

        if (got <= 0)
            return -1;
        p += got;
        size -= (size_t)got;
    }
    return 0;
}

/* Fixed newstyle, the export whose name is empty. */
static int handshake(int fd)
{
    unsigned char b[20];

    if (whole(fd, b, 18) != 0 || of_be(b, 8) != NBD_MAGIC || of_be(b + 8, 8) != NBD_IHAVEOPT)
        return -1;
    be(b, 3, 4); /* fixed newstyle, no zeros */
    be(b + 4, NBD_IHAVEOPT, 8);
    be(b + 12, 1, 4); /* NBD_OPT_EXPORT_NAME */
    be(b + 16, 0, 4);
    if (send(fd, b, 20, MSG_NOSIGNAL) != 20 || whole(fd, b, 10) != 0)
        return -1;
    return 0;
}

static void limit(int fd)
{
    struct timeval t = {.tv_sec = 5};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)); /* of connecting, too */
}

static int socket_of(const char *address)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    char host[64];
    const char *colon = strrchr(address, ':');
    int fd, on = 1, r;

    if (address[0] == '/') {
        if (strlen(address) >= sizeof(un.sun_path))
            nb_die("the path is too long: %s", address);
        memcpy(un.sun_path, address, strlen(address) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        limit(fd);
        r = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&un, sizeof(un));
    } else {
        if (colon == NULL || (size_t)(colon - address) >= sizeof(host))
            nb_die("not HOST:PORT: %s", address);
        memcpy(host, address, (size_t)(colon - address));
        host[colon - address] = 0;
        in.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
        if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
            nb_die("not an IPv4 address: %s", host);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        limit(fd);
        r = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&in, sizeof(in));
        if (r == 0)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    if (r != 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int nb_connect(const struct nb *n, struct nb_peer *p)
{
    int fd = socket_of(n->address);

    if (fd < 0)
        return -1;
    if ((n->protocol == NB_NBD && handshake(fd) != 0) ||
        (n->protocol == NB_CATALOG && nb_catalog_begin(n, p, fd) != 0) ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- Requests ---- */

static size_t put_resp(const struct nb *n, unsigned char *out, uint64_t id, uint64_t key)
{
    char name[64];
    int bytes = snprintf(name, sizeof(name), "%s%012llu", n->prefix, (unsigned long long)key);
    size_t used;

    if ((id & 1) == 0)
        return (size_t)snprintf((char *)out, NB_REQUEST_MAX, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n",
                                bytes, name);
    used =
        (size_t)snprintf((char *)out, NB_REQUEST_MAX, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%llu\r\n",
                         bytes, name, (unsigned long long)n->bytes);
    memset(out + used, 'v', n->bytes);
    memcpy(out + used + n->bytes, "\r\n", 2);
    return used + n->bytes + 2;
}

static size_t put_nbd(const struct nb *n, unsigned char *out, uint64_t id, uint64_t key)
{
    int write = (int)(id & 1);

    be(out, 0x25609513, 4);
    be(out + 4, 0, 2);
    be(out + 6, (uint64_t)write, 2); /* NBD_CMD_READ or NBD_CMD_WRITE */
    be(out + 8, id, 8);
    be(out + 16, key * n->bytes, 8);
    be(out + 24, n->bytes, 4);
    if (!write)
        return NBD_REQUEST;
    memset(out + NBD_REQUEST, (int)(1 + key % 255), n->bytes);
    return NBD_REQUEST + n->bytes;
}

size_t nb_put(const struct nb *n, struct nb_peer *p, unsigned char *out, uint64_t id, uint64_t key)
{
    struct wire_request r = {.id = id, .op = WIRE_GET, .page = key};

    if (n->protocol == NB_RESP)
        return put_resp(n, out, id, key);
    if (n->protocol == NB_NBD)
        return put_nbd(n, out, id, key);
    if (n->protocol == NB_CATALOG)
        return nb_catalog_put(n, p, out, id, key);
    if ((id & 1) == 0)
        return wire_request_put(out, &r);
    r.op = WIRE_LOG; /* the page's first update */
    r.lsn = 1;
    r.length = 8;
    memset(out + WIRE_REQUEST, 'u', r.length);
    return wire_request_put(out, &r) + r.length;
}

size_t nb_garbage(struct nb *n, unsigned char *out)
{
    uint64_t kind = snic_rng_next(&n->rng) % 3;
    struct nb_peer none = {0};
    size_t used = kind == 0 ? 0 : nb_put(n, &none, out, 0, 0);

    if (kind == 0) { /* noise */
        for (; used < 64; used += 8)
            snic_put_le64(out + used, snic_rng_next(&n->rng));
        return used;
    }
    if (n->protocol == NB_RESP)
        return (size_t)snprintf((char *)out, NB_REQUEST_MAX, "%s",
                                kind == 1 ? "*1000000000\r\n$3\r\nSET\r\n"
                                          : "*2\r\n$-7\r\nGET\r\n$99999999999\r\n");
    if (n->protocol == NB_NBD && kind == 1) {
        be(out + 16, UINT64_MAX - 4096, 8); /* far outside of the disk */
        return used;
    }
    out[kind == 1 ? 4 : 16] ^= 0xff; /* length or checksum */
    return used;
}

/* ---- Replies ---- */

static int64_t head_resp(const unsigned char *in, size_t size, uint64_t *skip, int *failed)
{
    const unsigned char *end = memchr(in, '\n', size);
    long long value;

    if (end == NULL)
        return size > 4096 ? -1 : 0;
    if (end == in || strchr("+-:$", in[0]) == NULL)
        return -1;
    *failed = in[0] == '-';
    if (in[0] == '$') {
        value = strtoll((const char *)in + 1, NULL, 10);
        if (value >= 0)
            *skip = (uint64_t)value + 2;
    }
    return end + 1 - in;
}

int64_t nb_head(const struct nb *n, struct nb_peer *p, const unsigned char *in, size_t size,
                uint64_t *id, uint64_t *skip, int *failed)
{
    *skip = 0;
    *failed = 0;
    if (n->protocol == NB_RESP)
        return size == 0 ? 0 : head_resp(in, size, skip, failed);
    if (n->protocol == NB_NBD) {
        if (size < NBD_REPLY)
            return 0;
        if (of_be(in, 4) != 0x67446698)
            return -1;
        *failed = of_be(in + 4, 4) != 0;
        *id = of_be(in + 8, 8);
        *skip = (*id & 1) == 0 && !*failed ? n->bytes : 0;
        return NBD_REPLY;
    }
    if (n->protocol == NB_CATALOG)
        return nb_catalog_head(p, in, size, id, failed);
    if (size < WIRE_REPLY)
        return 0;
    *id = snic_get_le64(in + 8);
    *failed = snic_get_le16(in + 20) != WIRE_OK;
    if (snic_get_le32(in + 4) < WIRE_REPLY)
        return -1;
    *skip = snic_get_le32(in + 4) - WIRE_REPLY;
    return WIRE_REPLY;
}
