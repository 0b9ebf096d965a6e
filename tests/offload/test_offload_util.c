/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A node of files and an engine, for the tests of offload. */
#include "test_offload_util.h"

#include <string.h>

unsigned char node_byte_at(uint64_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

int node_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
              struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct node *n = ctx;
    struct query a;
    (void)o;
    memcpy(&a, msg->data, sizeof(a));
    assert_int_equal(out->tenant, 0);
    if (n->no)
        return SNIC_ENOENT;
    if (n->answer) {
        memcpy(reply->header, "now", 3);
        reply->header_size = 3;
        memcpy(reply->trailer, "!", 1);
        reply->trailer_size = 1;
        return 1;
    }
    out->file = a.file;
    out->offset = a.offset + (uint64_t)out->part * a.gap;
    out->size = a.size;
    out->context[0] = 77;
    out->tenant = n->tenant;
    return out->part < n->more ? 2 : 0;
}

enum snic_offload_verdict node_reply(void *ctx, const struct snic_offload_msg *msg,
                                     const struct snic_offload_read *op, const unsigned char *data,
                                     int64_t result, uint64_t now_ns,
                                     struct snic_offload_reply *out)
{
    struct node *n = ctx;
    (void)msg;
    (void)now_ns;
    n->result = result;
    assert_int_equal(op->context[0], 77);
    for (int64_t i = 0; i < result; i++)
        assert_int_equal(data[i], node_byte_at(op->offset + (uint64_t)i));
    if (result < 0 || n->verdict)
        return SNIC_OFFLOAD_HOST;
    memcpy(out->header, "<<", 2);
    memcpy(out->trailer, ">>", 2);
    out->header_size = out->trailer_size = 2;
    out->skip = result > 1 ? 1 : 0;
    out->take = (uint32_t)result - out->skip;
    return SNIC_OFFLOAD_SEND;
}

void node_done(void *ctx, struct snic_offload_job *job)
{
    struct node *n = ctx;
    n->order[n->delivered++ % 4096] = job->cookie;
    if (job->status == SNIC_OFFLOAD_TO_HOST) {
        n->to_host++;
        assert_int_equal(job->iov_count, 0);
        assert_int_equal(job->message_size, sizeof(struct query));
    } else {
        unsigned char all[SNIC_OFFLOAD_PARTS_MAX * (4096 + 8)];
        uint32_t bytes = 0;
        for (uint32_t i = 0; i < job->iov_count; i++) {
            assert_true(job->iov[i].size <= sizeof(all) - bytes);
            memcpy(all + bytes, job->iov[i].base, job->iov[i].size);
            bytes += (uint32_t)job->iov[i].size;
        }
        if (all[0] == '<') {
            assert_memory_equal(all, "<<", 2);
            assert_memory_equal(all + bytes - 2, ">>", 2);
        } else {
            assert_memory_equal(all, "now!", 4);
        }
        assert_int_equal(bytes, job->bytes);
    }
    if (n->hold)
        n->held[n->held_count++] = job;
    else
        snic_offload_release(n->o, job);
    assert_int_equal(snic_offload_check(n->o), 0);
}

struct snic_offload_opts node_opts(void)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o),
                                  .key_size = 8,
                                  .item_size = 8,
                                  .cache_capacity = 64,
                                  .contexts = 8,
                                  .read_max = 4096,
                                  .pool_bytes = 64 << 10};
    return o;
}

void node_open(struct node *n, const struct snic_offload_opts *o, uint32_t align)
{
    struct snic_offload_user u = {.func = node_func, .reply = node_reply, .ctx = n};
    static unsigned char bytes[100000];
    memset(n, 0, sizeof(*n));
    n->fx.disk_opts.delay_min_ns = 1000;
    n->fx.disk_opts.delay_max_ns = 900000;
    n->fx.disk_opts.align = align;
    filefix_fresh(&n->fx);
    assert_int_equal(filefix_create(n->fx.files, 0, "f", &n->file), 0);
    for (uint32_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = node_byte_at(i);
    assert_int_equal(filefix_write(n->fx.files, n->file, 0, bytes, sizeof(bytes), 0),
                     sizeof(bytes));
    size_t size = snic_offload_memsize(o);
    n->mem = support_guard_alloc(size, SNIC_OFFLOAD_ALIGN);
    assert_int_equal(snic_offload_init(&n->o, n->mem, size, n->fx.loop, n->fx.files, &u, o), 0);
}

void node_close(struct node *n)
{
    for (uint32_t i = 0; i < n->held_count; i++)
        snic_offload_release(n->o, n->held[i]);
    assert_int_equal(snic_offload_active(n->o), 0);
    assert_int_equal(snic_offload_check(n->o), 0);
    assert_ptr_equal(snic_offload_fini(n->o), n->mem);
    support_guard_free(n->mem);
    assert_int_equal(filefix_unmount(&n->fx), 0);
    filefix_close(&n->fx);
}

int node_request(struct node *n, struct snic_offload_stream *s, uint64_t offset, uint32_t size,
                 uint64_t cookie)
{
    struct query a = {n->file, offset, size, 5000};
    struct snic_offload_msg m = {(const unsigned char *)&a, sizeof(a), 3, 4};
    uint32_t before = n->delivered;
    int r = snic_offload_submit(n->o, s, &m, cookie, node_done, n);
    assert_int_equal(n->delivered, before); /* never from inside */
    assert_int_equal(snic_offload_check(n->o), 0);
    return r;
}

void node_run(struct node *n)
{
    while (snic_world_step(n->fx.world) > 0) {
    }
}
