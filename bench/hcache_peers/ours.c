/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hybrid cache itself, region, host handle and engine, with DMA that is done at once. The
 * engine looks every 64 accesses, or when the host finds no room. */
#include "peer.h"

#include "snicstore/hcache.h"

#include <stdlib.h>
#include <string.h>

struct ours {
    void *mem;
    size_t size;
    struct snic_hcache_host host;
    struct snic_hcache_control *c;
    uint64_t now;
    uint64_t accesses;
};

static void ours_run(struct ours *o, uint32_t kind)
{
    struct snic_hcache_event ev;
    struct snic_hcache_action a;

    memset(&ev, 0, sizeof(ev));
    ev.kind = kind;
    o->now += 1000000;
    (void)(snic_hcache_control_step(o->c, &ev, o->now) == 0);
    while (snic_hcache_control_poll(o->c, &a, 1) != 0) {
        uint32_t i;

        if (a.kind != SNIC_HCACHE_ACT_DMA)
            continue;
        for (i = 0; i < a.count; i++) {
            struct snic_hcache_op *op = &a.ops[i];
            unsigned char *there = (unsigned char *)o->mem + op->offset;

            if (op->kind == SNIC_HCACHE_OP_READ) {
                memcpy(op->local, there, op->bytes);
            } else if (op->kind == SNIC_HCACHE_OP_WRITE) {
                memcpy(there, op->local, op->bytes);
            } else {
                op->value = snic_get_le64(there);
                if (op->kind == SNIC_HCACHE_OP_ADD)
                    snic_put_le64(there, op->value + op->operand);
                else if (op->value == op->compare)
                    snic_put_le64(there, op->operand);
            }
        }
        memset(&ev, 0, sizeof(ev));
        ev.kind = SNIC_HCACHE_EV_DMA;
        ev.id = a.id;
        (void)(snic_hcache_control_step(o->c, &ev, o->now) == 0);
    }
}

static void ours_close(void *cache)
{
    struct ours *o = cache;

    if (o->c != NULL)
        free(snic_hcache_control_fini(o->c));
    free(o->mem);
    free(o);
}

static void *ours_open_with(uint64_t pages, const struct snic_hcache_policy *policy)
{
    struct snic_hcache_opts opts = {.opts_size = sizeof(opts), .page_bytes = 512};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co), .look_ns = 1};
    struct ours *o = calloc(1, sizeof(*o));
    struct snic_hcache_info info;
    size_t need;
    void *mem;

    opts.pages = pages / SNIC_HCACHE_WAYS_MAX * SNIC_HCACHE_WAYS_MAX;
    co.policy = policy;
    co.prefetch_max = SNIC_HCACHE_NO_PREFETCH;
    if (o == NULL)
        return NULL;
    o->size = snic_hcache_memsize(&opts);
    o->mem = o->size != 0 ? aligned_alloc(SNIC_HCACHE_ALIGN, snic_align_up(o->size, 4096)) : NULL;
    if (o->mem == NULL || snic_hcache_init(o->mem, o->size, &opts) != 0 ||
        snic_hcache_geometry(o->mem, o->size, &info) != 0 ||
        snic_hcache_host_attach(&o->host, o->mem, o->size, 1, 1) != 0) {
        ours_close(o);
        return NULL;
    }
    need = snic_hcache_control_memsize(&info, &co);
    mem = aligned_alloc(SNIC_CACHELINE, snic_align_up(need, SNIC_CACHELINE));
    if (mem == NULL || snic_hcache_control_init(&o->c, mem, need, &info, &co, 0) != 0) {
        free(mem);
        ours_close(o);
        return NULL;
    }
    ours_run(o, SNIC_HCACHE_EV_NONE);
    return o;
}

static void *ours_open(uint64_t pages)
{
    return ours_open_with(pages, NULL);
}

static void *ours_open_clock(uint64_t pages)
{
    return ours_open_with(pages, snic_hcache_policy_clock());
}

static int ours_access(void *cache, uint64_t ino, uint64_t lpn)
{
    struct ours *o = cache;
    struct snic_hcache_page page;
    int tries;

    if (++o->accesses % 64 == 0)
        ours_run(o, SNIC_HCACHE_EV_NONE);
    if (snic_hcache_get(&o->host, ino, lpn, &page) == 0)
        return snic_hcache_put(&o->host, &page) == 0;
    for (tries = 0; tries < 3; tries++) {
        if (snic_hcache_lock(&o->host, ino, lpn, SNIC_HCACHE_FILL, &page) == 0) {
            if (snic_hcache_unlock(&o->host, &page, SNIC_HCACHE_UNLOCK_FILLED) != 0)
                abort();
            break;
        }
        ours_run(o, SNIC_HCACHE_EV_KICK);
    }
    return 0;
}

const struct hcache_peer hcache_peer_ours = {"ours", ours_open, ours_access, ours_close};
const struct hcache_peer hcache_peer_ours_clock = {"ours_clock", ours_open_clock, ours_access,
                                                   ours_close};
