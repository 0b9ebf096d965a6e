/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The hooks of the io_uring backend: one loop with a server and a client on it, and a check that
 * no descriptor is left.
 */
#include "conformance_net.h"

#include <dirent.h>
#include <stdio.h>

static int open_fds(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d) != NULL)
        count++;
    (void)closedir(d);
    return count;
}

static int fds_before;

static void listen_addr(struct conf_env *e)
{
    char text[200];
    char path[160];
    if (e->backend->kind == CONF_UNIX) {
        static unsigned count;
        char name[32];
        (void)snprintf(name, sizeof(name), "socket%u", count++);
        support_tmpname(path, sizeof(path), name);
        (void)snprintf(text, sizeof(text), "unix:%s", path);
    } else {
        (void)snprintf(text, sizeof(text), "%s",
                       e->backend->kind == CONF_TCP6 ? "[::1]:0" : "127.0.0.1:0");
    }
    assert_int_equal(snic_net_addr_parse(&e->listen_addr, text), 0);
}

static void accept_none(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    (void)ctx;
    (void)peer;
    snic_net_abort(c);
}

static void skip_without_v6(struct snic_net *n)
{
    struct snic_net_addr a;
    struct snic_net_listener *l = NULL;
    static int known; /* 1: there, 2: not */
    if (known == 0) {
        assert_int_equal(snic_net_addr_parse(&a, "[::1]:0"), 0);
        known = snic_net_listen(n, &a, 0, accept_none, NULL, &l) == 0 ? 1 : 2;
        if (known == 1)
            snic_net_unlisten(l);
    }
    if (known == 2)
        support_skip("no IPv6 loopback");
}

void conf_backend_open(struct conf_env *e, const struct snic_net_uring_opts *server,
                       const struct snic_net_uring_opts *client)
{
    struct snic_loop_uring_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.entries = 64; /* small, so that it fills up */
    o.mask = e->backend->loop_mask;
    fds_before = open_fds();
    int r = snic_loop_uring_open(&e->loop, &o);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    assert_int_equal(snic_net_uring_open(&e->server, e->loop, server), 0);
    assert_int_equal(snic_net_uring_open(&e->client, e->loop, client), 0);
    if (e->backend->kind == CONF_TCP6)
        skip_without_v6(e->server);
    listen_addr(e);
}

void conf_backend_close(struct conf_env *e)
{
    snic_net_shut(e->client);
    snic_net_shut(e->server);
    snic_loop_close(e->loop);
    assert_int_equal(open_fds(), fds_before);
}

int conf_backend_step(struct conf_env *e)
{
    int r = snic_loop_once(e->loop, 1000000);
    assert_true(r >= 0);
    return r;
}
