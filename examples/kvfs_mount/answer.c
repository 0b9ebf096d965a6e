/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The way back to the kernel: an answer's bytes, as fuse_wire.h has them, are sent by what has read
 * the request, libfuse or fusedev.h, each of which puts its header before them.
 */
#include "mount.h"

int km_answer_error(struct km_call *c, int error)
{
    fuse_req_t req = c->fuse;
    struct snic_fusedev_call *dev = c->dev;

    c->fuse = NULL;
    c->dev = NULL;
    return dev != NULL ? snic_fusedev_reply_error(dev, -error) : fuse_reply_err(req, error);
}

int km_answer_bytes(struct km_call *c, const void *data, size_t size)
{
    fuse_req_t req = c->fuse;
    struct snic_fusedev_call *dev = c->dev;
    const struct snic_iov iov = {(void *)(uintptr_t)data, size};

    c->fuse = NULL;
    c->dev = NULL;
    return dev != NULL ? snic_fusedev_reply_data(dev, &iov, 1) : fuse_reply_buf(req, data, size);
}

void km_answer_refuse(struct km_call *c, int error)
{
    (void)km_answer_error(c, error);
    km_call_put(c);
}

static void answer_interrupted(fuse_req_t req, void *data)
{
    struct km_call *c = data;

    (void)req;
    c->interrupt(c);
}

void km_answer_interrupt(struct km_call *c, void (*fn)(struct km_call *c))
{
    if (c->dev == NULL) {
        if (fn != NULL)
            c->interrupt = fn; /* else it may be running */
        fuse_req_interrupt_func(c->fuse, fn != NULL ? answer_interrupted : NULL, c);
        return;
    }
    c->interrupt = fn;
    if (fn != NULL && c->dev->interrupted)
        fn(c);
}

int km_answer_interrupted(const struct km_call *c)
{
    return c->dev != NULL ? (int)c->dev->interrupted : fuse_req_interrupted(c->fuse);
}
