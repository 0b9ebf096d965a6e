/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "power.h"

#include "support.h"

#define CUTS_MAX 1000000u

static void power_probe_done(struct snic_io_req *r)
{
    *(int *)(void *)(r + 1) = 1;
}

/* 1 while the handle works; a read is not counted by the plan. */
static int power_alive(struct snic_io *io)
{
    static unsigned char sector[65536] __attribute__((aligned(65536)));
    struct {
        struct snic_io_req req;
        int done;
    } probe;
    struct snic_io_req *p = &probe.req;
    memset(&probe, 0, sizeof(probe));
    probe.req.op = SNIC_IO_READ;
    probe.req.length = io->geometry.block > 4096 ? io->geometry.block : 4096;
    probe.req.buf.base = sector;
    probe.req.buf.size = (size_t)probe.req.length;
    probe.req.region = SNIC_NO_REGION;
    probe.req.done = power_probe_done;
    if (snic_io_submit(io, &p, 1) != 1)
        return 0;
    while (!probe.done)
        (void)snic_loop_once(io->loop, SNIC_NEVER);
    return probe.req.result > 0;
}

/* One run, cut before operation `cut`; 0 when it completed before. */
static int power_once(const struct power_case *c, uint64_t cut, uint32_t kind, uint64_t survivors)
{
    struct snic_disk *d;
    struct snic_io *io;
    struct snic_fault f;
    int dead;
    assert_int_equal(snic_disk_clone(c->base, &d), 0);
    memset(&f, 0, sizeof(f));
    f.kind = kind;
    f.ops = 1u << SNIC_IO_WRITE;
    if (kind == SNIC_FAULT_POWER)
        f.ops |= 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_ZERO;
    f.after = cut;
    f.seed = survivors;
    f.bytes = kind == SNIC_FAULT_TORN ? 4096 : 0;
    assert_int_equal(snic_disk_fault(d, &f), 0);
    assert_int_equal(snic_io_mem_open(&io, c->loop, d), 0);
    c->run(c->ctx, io);
    dead = !power_alive(io);
    snic_io_close(io);
    snic_disk_faults_clear(d);
    assert_int_equal(snic_io_mem_open(&io, c->loop, d), 0);
    if (dead && c->again != NULL && cut % 2 == 0) {
        c->again(c->ctx, io, d, cut + survivors);
        snic_io_close(io);
        assert_int_equal(snic_io_mem_open(&io, c->loop, d), 0);
    }
    c->judge(c->ctx, io, dead ? cut : 0, survivors);
    snic_io_close(io);
    snic_disk_close(d);
    return dead;
}

uint64_t power_enumerate(const struct power_case *c)
{
    struct snic_rng rng;
    uint64_t tried = 0;
    uint64_t step = c->step > 1 ? c->step : 1;
    uint64_t cut = 1 + c->seed % step;
    uint64_t few = cut + 4 * step; /* the beginning is tried whole; a short run has no more */
    uint64_t stride = step * support_stride(1, 4);
    snic_rng_init(&rng, c->seed);
    for (; cut < CUTS_MAX; cut += cut < few ? step : stride) {
        if (cut == few)
            cut += step * support_turn(stride / step);
        uint32_t i;
        if (!power_once(c, cut, SNIC_FAULT_POWER, SNIC_FAULT_KEEP_NONE))
            return tried;
        (void)power_once(c, cut, SNIC_FAULT_POWER, SNIC_FAULT_KEEP_ALL);
        tried += 2;
        for (i = 0; i < c->random; i++, tried++)
            (void)power_once(c, cut, SNIC_FAULT_POWER, 1 + snic_rng_below(&rng, 1u << 30));
        if (c->torn) {
            (void)power_once(c, cut, SNIC_FAULT_TORN, SNIC_FAULT_KEEP_NONE);
            (void)power_once(c, cut, SNIC_FAULT_TORN, 1 + snic_rng_below(&rng, 1u << 30));
            tried += 2;
        }
    }
    fail_msg("the run does not complete");
    return tried;
}
