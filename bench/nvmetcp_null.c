/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A device without a medium: what is submitted completes in the loop at once. */
#include "nvmetcp_net.h"

enum { NULL_DEPTH = 1024 };

static struct {
    struct snic_io io;
    struct snic_io_room room;
    struct snic_queue done;
    struct snic_loop_msg msg;
    uint32_t in_flight;
    int msg_on;
} null_device;

static void null_done(struct snic_loop_msg *msg)
{
    struct snic_queue q = null_device.done;
    (void)msg;
    null_device.msg_on = 0;
    memset(&null_device.done, 0, sizeof(null_device.done));
    while (!snic_queue_empty(&q)) {
        struct snic_io_req *r = SNIC_CONTAINER(snic_queue_pop(&q), struct snic_io_req, node);
        r->done_ns = snic_loop_now(null_device.io.loop);
        null_device.in_flight--;
        null_device.io.stats.completed++;
        snic_io_room_freed(&null_device.room);
        r->done(r);
    }
}

static int null_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    uint32_t i;
    if (snic_io_room_taken(&null_device.room))
        return 0;
    for (i = 0; i < n && null_device.in_flight < NULL_DEPTH; i++) {
        struct snic_io_req *r = reqs[i];
        int valid = snic_io_validate(io, r);
        r->result = valid != 0 ? valid : r->op == SNIC_IO_FLUSH ? 0 : (int64_t)r->length;
        r->os_error = 0;
        r->credit = 0;
        r->queued_ns = r->device_ns = snic_loop_now(io->loop);
        null_device.in_flight++;
        io->stats.submitted++;
        snic_queue_push(&null_device.done, &r->node);
    }
    if (i > 0 && !null_device.msg_on) {
        null_device.msg_on = 1;
        snic_loop_defer(io->loop, &null_device.msg);
    }
    return (int)i;
}

static void null_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void null_close(struct snic_io *io)
{
    while (null_device.in_flight > 0 || !snic_io_room_idle(&null_device.room))
        (void)snic_loop_once(io->loop, 1000000);
}

static void null_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    (void)io;
    snic_io_room_wait(&null_device.room, w);
}

static int null_ready(const struct snic_io_room *r)
{
    (void)r;
    return null_device.in_flight < NULL_DEPTH;
}

struct snic_io *net_null_open(struct snic_loop *loop)
{
    static const struct snic_io_ops ops = {.ops_size = sizeof(ops),
                                           .name = "null",
                                           .submit = null_submit,
                                           .cancel = null_cancel,
                                           .close = null_close,
                                           .wait = null_wait};
    memset(&null_device, 0, sizeof(null_device));
    null_device.io.ops = &ops;
    null_device.io.loop = loop;
    null_device.io.geometry.size = UINT64_C(1) << 40;
    null_device.io.geometry.block = NET_BLOCK;
    null_device.io.geometry.memory_align = 1;
    null_device.io.geometry.offset_align = NET_BLOCK;
    null_device.io.geometry.length_align = NET_BLOCK;
    null_device.io.geometry.transfer_max = 1u << 20;
    null_device.io.geometry.atomic_write = NET_BLOCK;
    null_device.io.caps = SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO | SNIC_IO_CAP_DISCARD;
    null_device.io.depth_max = NULL_DEPTH;
    null_device.msg.fn = null_done;
    snic_io_room_init(&null_device.room, &null_device.io, null_ready);
    return &null_device.io;
}
