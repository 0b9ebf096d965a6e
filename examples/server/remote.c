/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "remote.h"

#include "../common.h"
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EX_REMOTE_WAIT_NS UINT64_C(10000000000)
#define EX_REMOTE_READ_BYTES ((size_t)1 << 20)

int ex_remote_is(const char *name)
{
    return snic_nvmehost_uri_is(name);
}

/* As `nvme gen-hostnqn` would, from what stays the same: a restarted program is the same host to
 * the target, which ends the commands of the old one before it serves the new one. */
static void remote_host(struct snic_nvmehost_uri *u)
{
    char name[64] = "localhost";

    if (u->hostnqn[0] != 0)
        return;
    (void)gethostname(name, sizeof(name) - 1);
    (void)snprintf(u->hostnqn, sizeof(u->hostnqn), "nqn.2014-08.org.snicstore:%s", name);
}

static const char *remote_why(int r)
{
    switch (r) {
    case SNIC_EACCES:
        return "the target does not allow this host (host= in the name), or wants it to "
               "authenticate";
    case SNIC_ENOENT:
        return "the target has no such subsystem or namespace (nsid=)";
    case SNIC_ENOTSUP:
        return "the namespace has metadata, or blocks of a size that is not supported";
    default:
        return snic_strerror(r);
    }
}

void ex_remote_open(struct ex_remote *r, struct snic_loop *loop, const char *uri, uint32_t depth)
{
    struct snic_net_uring_opts net = {.opts_size = sizeof(net),
                                      .conns_max = 256,
                                      .recv_buffers = 32,
                                      .recv_size = 65536,
                                      .pool_buffers = 256};
    struct snic_nvmehost_uri u;
    struct snic_nvmehost *h;
    const char *wrong = snic_nvmehost_uri_parse(&u, uri);
    int rc;

    if (wrong != NULL)
        ex_die("'%s' (--file): %s", uri, wrong);
    remote_host(&u);
    u.opts.depth = depth == 0                        ? 256
                   : depth > SNIC_NVMEHOST_DEPTH_MAX ? SNIC_NVMEHOST_DEPTH_MAX
                                                     : depth;
    wrong = snic_nvmehost_opts_wrong(&u.opts);
    if (wrong != NULL)
        ex_die("'%s' (--file): %s", uri, wrong);
    rc = snic_net_uring_open(&r->net, loop, &net);
    if (rc != 0)
        ex_die("cannot set up the network for '%s': %s", uri, snic_strerror(rc));
    size_t size = snic_nvmehost_memsize(&u.opts);
    r->memory = ex_memory(size, "remote device");
    rc = snic_nvmehost_open(&h, r->memory, size, r->net, &u.opts);
    if (rc == 0)
        rc = snic_nvmehost_wait(h, EX_REMOTE_WAIT_NS);
    if (rc != 0)
        ex_die("cannot connect to '%s': %s", uri, remote_why(rc));
    r->io = snic_nvmehost_io(h);
    ex_log(EX_INFO, "connected to '%s': %" PRIu64 " MiB", uri, r->io->geometry.size >> 20);
}

void ex_remote_close(struct ex_remote *r)
{
    if (r->net == NULL)
        return;
    snic_net_shut(r->net);
    free(r->memory);
    memset(r, 0, sizeof(*r));
}

static void remote_read_done(struct snic_io_req *req)
{
    req->done = NULL;
}

int ex_remote_zeros(struct snic_io *io, uint64_t at, uint64_t end)
{
    unsigned char *data = ex_memory(EX_REMOTE_READ_BYTES, "remote device");
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
    free(data);
    return zeros;
}
