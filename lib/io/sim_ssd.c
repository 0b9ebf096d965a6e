/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A simulated disk behind an SSD model: mem.c has the requests and the disk the
 * bytes; the model decides when a READ or WRITE completes.
 *
 * Invariants
 *   U1 A slot's command is in the model iff the slot is AWAITED.
 *   U2 The timer is armed for the model's deadline whenever the loop waits.
 */
#include <stdlib.h>

#include "io/mem_priv.h"
#include "snicstore/ssd.h"

struct io_ssd {
    struct io_mem_timing timing;
    struct io_mem *mem;
    struct snic_ssd *ssd;
    struct snic_timer timer;
    uint64_t now_ns;
    uint64_t other_ns; /* what FLUSH, ZERO and DISCARD take */
    uint32_t queues;
    struct snic_ssd_cmd cmds[]; /* of the slots */
};

/** The model's time: what its callers saw, never backwards. */
static uint64_t io_ssd_time(struct io_ssd *s, uint64_t now_ns)
{
    s->now_ns = snic_max_u64(s->now_ns, now_ns);
    return s->now_ns;
}

static void io_ssd_arm(struct io_ssd *s)
{
    uint64_t at = snic_ssd_deadline_ns(s->ssd);
    if (at != SNIC_NEVER)
        snic_loop_arm(s->mem->io.loop, &s->timer, at); /* U2 */
    else
        snic_loop_cancel(s->mem->io.loop, &s->timer);
}

static void io_ssd_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct io_ssd *s = SNIC_CONTAINER(t, struct io_ssd, timer);
    struct snic_ssd_cmd *cmd;
    while ((cmd = snic_ssd_poll(s->ssd, io_ssd_time(s, now_ns))) != NULL)
        io_mem_arrived(&s->mem->slots[cmd - s->cmds], now_ns); /* its done may submit */
    io_ssd_arm(s);
}

/** FLUSH, ZERO, DISCARD: how long it takes. */
static uint64_t io_ssd_other(struct io_ssd *s, const struct snic_io_req *req)
{
    if (req->op == SNIC_IO_ZERO || req->op == SNIC_IO_DISCARD)
        snic_ssd_trim(s->ssd, req->offset, req->length);
    return s->other_ns;
}

static uint64_t io_ssd_start(struct io_mem_timing *t, struct io_mem_slot *slot, uint64_t now_ns)
{
    struct io_ssd *s = SNIC_CONTAINER(t, struct io_ssd, timing);
    const struct snic_io_req *req = slot->req;
    if (req->op != SNIC_IO_READ && req->op != SNIC_IO_WRITE)
        return io_ssd_other(s, req);
    struct snic_ssd_cmd *cmd = &s->cmds[slot - s->mem->slots];
    *cmd = (struct snic_ssd_cmd){.op = req->op == SNIC_IO_READ ? SNIC_SSD_READ : SNIC_SSD_WRITE,
                                 .queue = req->tenant % s->queues,
                                 .length = (uint32_t)req->length,
                                 .offset = req->offset};
    int r = snic_ssd_submit(s->ssd, cmd, io_ssd_time(s, now_ns));
    SNIC_ASSERT(r == 0); /* as many places as slots, lengths within transfer_max */
    io_ssd_arm(s);
    return SNIC_NEVER;
}

static void io_ssd_close(struct io_mem_timing *t)
{
    struct io_ssd *s = SNIC_CONTAINER(t, struct io_ssd, timing);
    snic_loop_cancel(s->mem->io.loop, &s->timer);
    free(snic_ssd_fini(s->ssd));
    free(s);
}

/** The model and what the slots need of it. */
static int io_ssd_create(struct io_ssd **out, struct snic_ssd_opts *o)
{
    size_t size = snic_ssd_memsize(o);
    if (size == 0)
        return SNIC_EINVAL;
    struct io_ssd *s = calloc(1, sizeof(*s) + o->depth * sizeof(s->cmds[0]));
    void *mem = aligned_alloc(SNIC_SSD_ALIGN, snic_align_up(size, SNIC_SSD_ALIGN));
    if (s == NULL || mem == NULL) {
        free(s);
        free(mem);
        return SNIC_ENOMEM;
    }
    int r = snic_ssd_init(&s->ssd, mem, size, o);
    SNIC_ASSERT(r == 0);
    s->timing.start = io_ssd_start;
    s->timing.close = io_ssd_close;
    s->other_ns = (uint64_t)o->fetch_write_ns + o->post_write_ns;
    s->queues = o->queues;
    snic_timer_init(&s->timer, io_ssd_timer);
    *out = s;
    return 0;
}

int snic_io_ssd_open(struct snic_io **out, struct snic_loop *l, struct snic_disk *d,
                     const struct snic_ssd_opts *ssd)
{
    struct snic_ssd_opts o;
    struct io_ssd *s = NULL;
    struct io_mem *m = NULL;
    snic_ssd_opts_dct983(&o);
    int r = snic_opts_copy(&o, sizeof(o), ssd);
    if (r != 0)
        return r;
    o.depth = d->opts.depth;
    if (o.length_max < d->opts.align)
        return SNIC_EINVAL;
    r = io_ssd_create(&s, &o);
    if (r != 0)
        return r;
    r = io_mem_create(&m, l, d);
    if (r != 0) {
        free(snic_ssd_fini(s->ssd));
        free(s);
        return r;
    }
    s->mem = m;
    m->timing = &s->timing;
    uint32_t most = (uint32_t)snic_align_down(o.length_max, d->opts.align);
    m->io.geometry.transfer_max = (uint32_t)snic_min_u64(m->io.geometry.transfer_max, most);
    *out = &m->io;
    return 0;
}
