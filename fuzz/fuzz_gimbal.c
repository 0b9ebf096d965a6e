/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch driven by a string of operations: tenants, I/Os, completions in any order, cancels and
 * time, after options made of the first bytes. After each operation the whole switch is checked;
 * at the end every I/O must come out.
 */
#include "snicstore/gimbal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TENANTS = 5, IOS = 64, NOWHERE = 0, QUEUED = 1, OUT = 2 };

struct fuzz {
    const uint8_t *in;
    size_t left;
    struct snic_gimbal *g;
    uint64_t now;
    uint32_t queued;
    uint32_t out;
    uint8_t where[IOS];
    struct snic_gimbal_io ios[IOS];
};

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint8_t take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->in++;
}

static void fuzz_open(struct fuzz *f)
{
    struct snic_gimbal_opts o = {.opts_size = sizeof(o), .tenants_max = TENANTS};
    uint8_t b = take(f);
    o.flags = b & 15;
    o.queue_max = 1 + b / 16;
    b = take(f);
    o.slot_threshold = 1 + b % 64;
    o.slot_bytes = 4096u << (b >> 6);
    b = take(f);
    o.quantum_bytes = 512u << b % 8;
    o.bucket_bytes = 512u << b / 32;
    b = take(f);
    o.slot_overlap = b * 4u;
    o.lost_ns = UINT64_C(1000) << b % 24;
    o.idle_ns = UINT64_C(1000) << b / 16;
    b = take(f);
    o.groups_max = b >> 6;
    o.flags |= (b & 3u) << 4; /* CREDIT_LATEST, NO_EXPRESS */
    o.flags |= (b >> 4 & 1u) * SNIC_GIMBAL_LEARN;
    if (b / 4 % 4 == 0) { /* express reads of many KiB, and of any size */
        o.quantum_bytes = SNIC_GIMBAL_SLOT_MAX;
        o.bucket_bytes = 1u << 20;
    }
    size_t size = snic_gimbal_memsize(&o);
    must(size > 0);
    void *mem = aligned_alloc(SNIC_GIMBAL_ALIGN, snic_align_up(size, SNIC_GIMBAL_ALIGN));
    must(mem != NULL && snic_gimbal_init(&f->g, mem, size, &o, f->now) == 0);
}

static void fuzz_group(struct fuzz *f, uint8_t op, const struct snic_gimbal_tenant_opts *o)
{
    uint32_t group = op % 4;
    if (op / 4 % 4 == 0)
        (void)!snic_gimbal_group_remove(f->g, group);
    else if (op / 4 % 4 == 1)
        (void)!snic_gimbal_group_set(f->g, group, o);
    else
        (void)!snic_gimbal_group_add(f->g, group, o);
}

static void fuzz_tenant(struct fuzz *f, uint8_t op)
{
    struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o)};
    uint32_t tenant = op % (TENANTS + 1);
    uint8_t b = take(f);
    o.weight = b;
    if (b % 4 == 3) {
        o.bytes_per_second = UINT64_C(1) << take(f) % 42;
        o.ios_per_second = take(f);
        o.priority_weight[b % 8] = take(f);
    }
    if (b % 8 == 5) { /* with groups and floors */
        b = take(f);
        o.floor_ios_per_second = (uint64_t)(b & 15) << b / 16;
        b = take(f);
        o.floor_bytes_per_second = (uint64_t)(b & 15) << b / 8;
        b = take(f);
        o.group = b % 4;
        if (b / 4 % 4 == 0) {
            o.group = 0;
            fuzz_group(f, take(f), &o);
            return;
        }
    }
    if (op / 8 % 4 == 0)
        (void)!snic_gimbal_tenant_remove(f->g, tenant);
    else if (op / 8 % 4 == 1)
        (void)!snic_gimbal_tenant_set(f->g, tenant, &o);
    else
        (void)!snic_gimbal_tenant_add(f->g, tenant, &o);
}

static void fuzz_submit(struct fuzz *f, uint8_t op)
{
    uint8_t b = take(f);
    struct snic_gimbal_io *io = &f->ios[b % IOS];
    if (f->where[b % IOS] != NOWHERE)
        return;
    io->tenant = op % (TENANTS + 1);
    io->op = b >> 7;
    io->priority = op / 8 % 9;
    io->size = take(f) * 256u << (b >> 6 & 1) * 8;
    int r = snic_gimbal_submit(f->g, io, f->now);
    must(r == 0 || r == SNIC_EINVAL || r == SNIC_ENOENT || r == SNIC_EBUSY);
    if (r != 0)
        return;
    f->where[b % IOS] = QUEUED;
    f->queued++;
}

static int fuzz_poll(struct fuzz *f)
{
    struct snic_gimbal_io *io = snic_gimbal_poll(f->g, f->now);
    if (io == NULL) {
        must(snic_gimbal_deadline_ns(f->g) > f->now);
        must(f->queued > 0 || snic_gimbal_deadline_ns(f->g) == SNIC_NEVER);
        return 0;
    }
    must(f->where[io - f->ios] == QUEUED);
    f->where[io - f->ios] = OUT;
    f->queued--;
    f->out++;
    return 1;
}

static void fuzz_complete(struct fuzz *f, uint32_t i, int ok)
{
    if (f->where[i] != OUT)
        return;
    snic_gimbal_complete(f->g, &f->ios[i], ok, f->now);
    f->where[i] = NOWHERE;
    f->out--;
}

static void fuzz_cancel(struct fuzz *f, uint32_t i)
{
    if (f->where[i] == NOWHERE)
        return;
    int r = snic_gimbal_cancel(f->g, &f->ios[i], f->now);
    must(r == (f->where[i] == OUT ? SNIC_EBUSY : 0));
    if (r != 0)
        return;
    f->where[i] = NOWHERE;
    f->queued--;
}

static void fuzz_step(struct fuzz *f)
{
    uint8_t op = take(f);
    switch (op % 8) {
    case 0:
        fuzz_tenant(f, take(f));
        break;
    case 1:
    case 2:
        fuzz_submit(f, (uint8_t)(op / 8 + 32 * (take(f) % 8)));
        break;
    case 3:
        for (int n = op / 8; n >= 0 && fuzz_poll(f); n--)
            continue;
        break;
    case 4:
    case 5:
        fuzz_complete(f, take(f) % IOS, op / 8 != 0);
        break;
    case 6:
        fuzz_cancel(f, take(f) % IOS);
        break;
    default:
        if (op / 8 == 0 && snic_gimbal_deadline_ns(f->g) != SNIC_NEVER)
            f->now = snic_max_u64(f->now, snic_gimbal_deadline_ns(f->g));
        else
            f->now += (uint64_t)take(f) << op / 8;
        break;
    }
}

static void fuzz_close(struct fuzz *f)
{
    for (uint32_t turns = 0; f->queued + f->out > 0; turns++) {
        must(turns < 100000);
        while (fuzz_poll(f))
            continue;
        uint64_t deadline = snic_gimbal_deadline_ns(f->g);
        int any = 0;
        for (uint32_t i = 0; i < IOS; i++) {
            any |= f->where[i] == OUT;
            fuzz_complete(f, i, 1);
        }
        if (!any) {
            must(deadline != SNIC_NEVER); /* no tenant is forgotten */
            f->now = deadline;
        }
        must(snic_gimbal_check(f->g) == 0);
    }
    free(snic_gimbal_fini(f->g));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz;
    struct fuzz *f = &fuzz;
    memset(f, 0, sizeof(*f));
    f->in = data;
    f->left = size < 2048 ? size : 2048;
    f->now = 12345;
    fuzz_open(f);
    while (f->left > 0) {
        fuzz_step(f);
        struct snic_gimbal_view v;
        snic_gimbal_get_view(f->g, &v);
        must(v.queued == f->queued && v.inflight == f->out);
        must(snic_gimbal_check(f->g) == 0);
    }
    fuzz_close(f);
    return 0;
}
