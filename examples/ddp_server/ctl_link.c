/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A connection of `ctl` to a node: blocking, one request at a time. */
#include "cluster.h"
#include "ctl.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_SECONDS 30

/* Every reply from here on is this error. @return -1 */
static int link_lost(struct ctl_link *l, const char *why)
{
    (void)snprintf(l->lost, sizeof(l->lost), "the connection ended: %s", why);
    return -1;
}

static int link_connect(struct ctl_link *l, const char *address)
{
    char host[256];
    const char *port = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    if (port == NULL || port == address || (size_t)(port - address) >= sizeof(host)) {
        errno = EINVAL;
        return -1;
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)(port - address), address);
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = 0;
        memmove(host, host + 1, strlen(host));
    }
    if (getaddrinfo(host, port + 1, &hints, &list) != 0 || list == NULL) {
        errno = EINVAL;
        return -1;
    }
    l->fd = ex_connect(list->ai_addr, list->ai_addrlen, LINK_SECONDS);
    freeaddrinfo(list);
    return l->fd < 0 ? -1 : 0;
}

/* ADMIN CHALLENGE, ADMIN PROVE. 0; -1 */
static int link_prove(struct ctl_link *l, void *secret, char *error, size_t error_size)
{
    const char *challenge[] = {"ADMIN", "CHALLENGE"};
    unsigned char nonce[DS_NONCE];
    unsigned char proof[DS_PROOF];
    char text[2 * DS_PROOF + 1];
    const char *prove[] = {"ADMIN", "PROVE", text};
    struct ctl_reply r;
    int ok;

    ctl_link_command(l, &r, challenge, 2);
    ok = r.type == '$' && r.size == 2 * DS_NONCE && ds_hex_read(r.text, r.size, nonce) == 0;
    ctl_reply_free(&r);
    if (!ok) {
        (void)snprintf(error, error_size, "%s",
                       l->lost[0] != 0 ? l->lost : "it is not a ddp_server");
        return -1;
    }
    ds_cluster_prove(secret, nonce, proof);
    ds_hex_write(proof, DS_PROOF, text);
    ctl_link_command(l, &r, prove, 3);
    ok = r.type == '+';
    if (!ok)
        (void)snprintf(error, error_size, "%s", r.type == '-' ? r.text : "not a ddp_server");
    ctl_reply_free(&r);
    return ok ? 0 : -1;
}

int ctl_link_open(struct ctl_link *l, const char *address, const struct ctl *c, char *error,
                  size_t error_size)
{
    memset(l, 0, sizeof(*l));
    l->fd = -1;
    l->address = address;
    if (link_connect(l, address) != 0) {
        (void)snprintf(error, error_size, "%s", strerror(errno));
        ctl_link_close(l);
        return -1;
    }
    if (link_prove(l, c->secret, error, error_size) == 0)
        return 0;
    ctl_link_close(l);
    return -1;
}

void ctl_link_close(struct ctl_link *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    free(l->data);
    memset(l, 0, sizeof(*l));
    l->fd = -1;
}

static void link_write(struct ctl_link *l, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0 && l->lost[0] == 0) {
        ssize_t n = send(l->fd, p, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) /* a socket with a timeout ends so when ctl was stopped */
            continue;
        if (n <= 0) {
            (void)link_lost(l, strerror(errno));
            return;
        }
        p += n;
        size -= (size_t)n;
    }
}

void ctl_link_send(struct ctl_link *l, const struct snic_iov *argv, size_t count)
{
    struct resp_reply out = {0};

    resp_put_count(&out, '*', (int64_t)count);
    for (size_t i = 0; i < count; i++)
        resp_put_bulk(&out, argv[i].base, argv[i].size);
    if (out.failed)
        ex_die("out of memory for what %s sends", l->address);
    link_write(l, out.data, out.size);
    resp_reply_free(&out);
}

/* At least @p size bytes are there. 0; -1 lost */
static int link_fill(struct ctl_link *l, size_t size)
{
    while (l->size - l->at < size && l->lost[0] == 0) {
        ssize_t n;

        if (l->at > 0) {
            memmove(l->data, l->data + l->at, l->size - l->at);
            l->size -= l->at;
            l->at = 0;
        }
        if (l->room - l->size < 65536) {
            l->room = 2 * l->room + 131072;
            l->data = realloc(l->data, l->room);
            if (l->data == NULL)
                ex_die("out of memory for what %s sends", l->address);
        }
        n = recv(l->fd, l->data + l->size, l->room - l->size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return link_lost(l, n == 0 ? "the node closed it" : strerror(errno));
        l->size += (size_t)n;
    }
    return l->lost[0] == 0 ? 0 : -1;
}

/* The length of the line at l->at, without its end, into @p n. 0; -1 lost */
static int link_line(struct ctl_link *l, size_t *n)
{
    for (*n = 0; link_fill(l, *n + 2) == 0; ++*n)
        if (l->data[l->at + *n] == '\r' && l->data[l->at + *n + 1] == '\n')
            return 0;
    return -1;
}

static char *link_copy(const struct ctl_link *l, const char *data, size_t size)
{
    char *p = malloc(size + 1);

    if (p == NULL)
        ex_die("out of memory for what %s sends", l->address);
    memcpy(p, data, size);
    p[size] = 0;
    return p;
}

/* What a reply's first line announces. 0; -1 lost */
static int link_rest(struct ctl_link *l, struct ctl_reply *r, const char *text, size_t n)
{
    r->type = n > 0 ? text[0] : '?';
    r->number = n > 0 ? strtoll(text + 1, NULL, 10) : 0;
    if ((r->type == '$' || r->type == '*') && r->number < 0) {
        r->type = '_';
    } else if (r->type == '$') {
        r->size = (size_t)r->number;
        if (link_fill(l, r->size + 2) != 0)
            return -1;
        r->text = link_copy(l, l->data + l->at, r->size);
        l->at += r->size + 2;
    } else if (r->type == '*') {
        r->count = (size_t)r->number;
        r->items = calloc(r->count + 1, sizeof(*r->items));
        if (r->items == NULL)
            ex_die("out of memory for what %s sends", l->address);
        for (size_t i = 0; i < r->count && l->lost[0] == 0; i++)
            ctl_link_take(l, &r->items[i]);
    } else if (r->type == '+' || r->type == '-') {
        r->size = n - 1;
        r->text = link_copy(l, text + 1, n - 1);
    } else if (r->type != ':') {
        (void)link_lost(l, "a reply is malformed");
    }
    return l->lost[0] == 0 ? 0 : -1;
}

void ctl_link_take(struct ctl_link *l, struct ctl_reply *r)
{
    size_t n;
    int lost = link_line(l, &n) != 0;

    memset(r, 0, sizeof(*r));
    if (!lost) {
        char *text = link_copy(l, l->data + l->at, n);

        l->at += n + 2;
        lost = link_rest(l, r, text, n) != 0;
        free(text);
    }
    if (lost) {
        ctl_reply_free(r);
        r->type = '-';
        r->text = link_copy(l, l->lost, strlen(l->lost));
    }
}

void ctl_link_command(struct ctl_link *l, struct ctl_reply *r, const char *const *words,
                      size_t count)
{
    struct snic_iov argv[8];

    SNIC_ASSERT(count <= SNIC_COUNTOF(argv));
    for (size_t i = 0; i < count; i++)
        argv[i] = (struct snic_iov){(void *)(uintptr_t)words[i], strlen(words[i])};
    ctl_link_send(l, argv, count);
    ctl_link_take(l, r);
}

void ctl_reply_free(struct ctl_reply *r)
{
    for (size_t i = 0; i < r->count; i++)
        ctl_reply_free(&r->items[i]);
    free(r->items);
    free(r->text);
    memset(r, 0, sizeof(*r));
}

int ctl_reply_passing(const struct ctl_reply *r)
{
    return r->type == '-' &&
           (strncmp(r->text, "TRYAGAIN", 8) == 0 || strncmp(r->text, "CLUSTERDOWN", 11) == 0 ||
            strncmp(r->text, "LOADING", 7) == 0);
}

const struct ctl_reply *ctl_reply_find(const struct ctl_reply *r, const char *name)
{
    for (size_t i = 0; i + 1 < r->count; i += 2)
        if (r->items[i].text != NULL && strcmp(r->items[i].text, name) == 0)
            return &r->items[i + 1];
    return NULL;
}
