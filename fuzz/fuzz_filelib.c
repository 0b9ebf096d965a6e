/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A hostile DPU against the file library: each request gets the next answer of the input: how
 * many header bytes differ from a right answer, where and how, and how much payload. Every request
 * must complete once, and no buffer be overrun.
 */
#include <stdlib.h>
#include <string.h>

#include "snicstore/filelib.h"

#define REQUESTS 12u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *input;
static size_t input_left;
static unsigned completed;
static struct snic_channel *dpu_channel;

static void need(int ok)
{
    if (!ok)
        abort();
}

static uint8_t next(void)
{
    if (input_left == 0)
        return 0;
    input_left--;
    return *input++;
}

static int dpu_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    static unsigned char payload[4096];
    const unsigned char *q = m->header;
    unsigned char h[64];
    struct snic_iov v;
    unsigned answers = 1;
    (void)ctx;
    memset(h, 0, sizeof(h));
    h[0] = 1;
    h[1] = q[1];
    memcpy(h + 8, q + 8, 8);
    v.base = payload;
    v.size = q[1] == SNIC_FILES_READ || q[1] == SNIC_FILES_LIST ? 100 : 0;
    if (q[1] == SNIC_FILES_WRITE)
        memcpy(h + 16, q + 48, 8);
    else
        snic_put_le64(h + 16, v.size);
    while (input_left > 0) {
        uint8_t what = next();
        if (what < 100)
            break;
        if (what < 200)
            h[what % 64] = next();
        else if (what < 230)
            v.size = (size_t)next() * 4;
        else if (what < 240)
            snic_put_le64(h + 16, v.size);
        else
            answers = what % 4;
    }
    while (answers-- > 0)
        (void)!snic_channel_down_push(c, 2, h, sizeof(h), &v, 1);
    return 1;
}

static void dpu_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
}

static int dpu_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct snic_channel_events e;
    (void)ctx;
    memset(&e, 0, sizeof(e));
    e.message = dpu_message;
    e.closed = dpu_closed;
    return snic_channel_accept(&dpu_channel, h, offer, NULL, &e);
}

static void done(struct snic_filelib_req *r)
{
    need(r->result <= 0 || (uint64_t)r->result <= r->length);
    need(r->reserved == 0);
    r->reserved = 1;
    completed++;
}

static struct snic_channel_hub *hub_open(struct snic_dma *d, int dpu)
{
    struct snic_channel_hub_opts o;
    struct snic_channel_hub *h = NULL;
    size_t size;
    void *mem;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.accept = dpu ? dpu_accept : NULL;
    size = snic_channel_hub_memsize(&o);
    mem = aligned_alloc(SNIC_CACHELINE, snic_align_up(size, SNIC_CACHELINE));
    need(mem != NULL);
    need(snic_channel_hub_init(&h, mem, size, d, &o) == 0);
    return h;
}

static void send_request(struct snic_filelib *g, struct snic_filelib_req *r, unsigned char *buf)
{
    static const uint8_t ops[] = {SNIC_FILES_READ, SNIC_FILES_LIST, SNIC_FILES_WRITE,
                                  SNIC_FILES_CREATE};
    struct snic_filelib_req *p[REQUESTS];
    unsigned i;
    memset(r, 0, REQUESTS * sizeof(*r));
    for (i = 0; i < REQUESTS; i++) {
        r[i].op = ops[i % 4];
        r[i].name = "a";
        r[i].name_size = 1;
        r[i].length = i == 8 ? 20000 : 200; /* one in parts */
        r[i].buf.base = buf + (i == 8 ? REQUESTS * 200 : i * 200);
        r[i].buf.size = (size_t)r[i].length;
        r[i].done = done;
        p[i] = &r[i];
    }
    snic_filelib_submit(g, p, REQUESTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snic_world_opts w;
    struct snic_filelib_opts o;
    struct snic_dma_events none;
    struct snic_world *world;
    struct snic_loop *loop[2];
    struct snic_dma *d[2];
    struct snic_channel_hub *hub[2];
    struct snic_filelib *g = NULL;
    struct snic_filelib_req r[REQUESTS];
    unsigned char *buf = malloc(REQUESTS * 200 + 20000);
    void *mem;
    need(buf != NULL);
    input = data;
    input_left = size;
    completed = 0;
    memset(&w, 0, sizeof(w));
    memset(&none, 0, sizeof(none));
    w.opts_size = sizeof(w);
    need(snic_world_open(&world, &w) == 0);
    need(snic_world_loop(world, 0, &loop[0]) == 0 && snic_world_loop(world, 1, &loop[1]) == 0);
    need(snic_dma_local_open(&d[0], loop[0], &none, &d[1], loop[1], &none) == 0);
    hub[0] = hub_open(d[0], 0);
    hub[1] = hub_open(d[1], 1);
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.depth = 5;
    o.up_bytes = 16384;
    o.down_bytes = 16384;
    mem = aligned_alloc(SNIC_FILELIB_ALIGN,
                        snic_align_up(snic_filelib_memsize(&o), SNIC_FILELIB_ALIGN));
    need(mem != NULL);
    need(snic_filelib_open(&g, mem, snic_filelib_memsize(&o), hub[0], &o) == 0);
    send_request(g, r, buf);
    (void)snic_world_run(world, snic_world_now(world) + 1000000000u, UINT64_MAX);
    free(snic_filelib_close(g));
    need(completed == REQUESTS);
    (void)snic_world_run(world, snic_world_now(world) + 1000000000u, UINT64_MAX);
    snic_channel_close(dpu_channel);
    free(snic_channel_hub_fini(hub[0]));
    free(snic_channel_hub_fini(hub[1]));
    snic_loop_close(loop[0]);
    snic_loop_close(loop[1]);
    snic_world_close(world);
    free(buf);
    return 0;
}
