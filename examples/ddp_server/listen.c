/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The clients' port. The loops of a node share it (SO_REUSEPORT): the kernel deals connections out
 * among all sockets that listen on it, of any process of this user.
 *   L1 it opens when everything else that a start needs has succeeded and every loop is about to
 *      run, so each connection is accepted.
 *   L2 it does not open beside another process's sockets. Those of a node that was killed live on
 *      while the kernel takes its rings apart, after the process can be waited for; connections
 *      that they get are reset.
 */
#include "node.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LISTEN_TRY_MS 5u /* between two looks whether the port is free */

/* Can a socket that does not share the port be bound to it? 0, or the error */
static int listen_bind(const struct snic_net_addr *a)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    int is_four = a->family == SNIC_NET_IPV4;
    int one = 1;
    int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;

    if (fd < 0)
        return 0; /* listening reports it */
    memcpy(&four.sin_addr, a->ip, sizeof(four.sin_addr));
    memcpy(&six.sin6_addr, a->ip, sizeof(six.sin6_addr));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    r = is_four ? bind(fd, (struct sockaddr *)&four, sizeof(four))
                : bind(fd, (struct sockaddr *)&six, sizeof(six));
    r = r == 0 ? 0 : errno;
    (void)close(fd);
    return r;
}

/* L2, for a port that is shared; one that is not is waited for by the network itself. */
static void listen_wait(const struct ds_config *c)
{
    const struct timespec pause = {.tv_nsec = LISTEN_TRY_MS * 1000000L};
    struct snic_net_addr a;

    ex_address("listen", c->server.listen, &a);
    if (a.family == SNIC_NET_UNIX || a.port == 0)
        return;
    for (uint32_t waited = 0; listen_bind(&a) == EADDRINUSE; waited += LISTEN_TRY_MS) {
        if (waited >= EX_TAKEN_WAIT_MS)
            ex_die("cannot listen on %s (--listen): %s", c->server.listen,
                   snic_strerror(SNIC_EADDRINUSE));
        (void)nanosleep(&pause, NULL);
    }
}

void ds_node_listen(struct ds_node *n)
{
    static char address[128];
    struct ds_config *c = n->config;
    struct snic_net_addr bound;

    if (n->count > 1)
        listen_wait(c);
    for (uint32_t i = 0; i < n->count; i++) {
        ds_client_listen(&n->shards[i], &bound);
        (void)snic_net_addr_format(&bound, address, sizeof(address));
        c->server.listen = address; /* the others listen on the port that the first one got */
    }
    ex_log(EX_INFO, "node %llu listens on %s, %u shard%s in '%s'", (unsigned long long)c->node,
           address, n->count, n->count > 1 ? "s" : "", c->server.directory);
}
