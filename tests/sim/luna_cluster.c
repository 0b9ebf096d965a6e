/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The world's servers: each a target and a thread; one store for all, with the rights to it. */
#include "luna_world_priv.h"

#include <stdlib.h>

/* Instead of a checksum, where nothing is damaged: the words that are set. */
uint32_t world_crc(void *ctx, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = snic_get_le64(p) ^ snic_get_le64(p + 8) * 3 ^ snic_get_le64(p + size - 8) * 7;
    (void)ctx;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

void world_server_soon(struct world *w, uint32_t s)
{
    if (w->servers[s].awake || !w->servers[s].up)
        return;
    w->servers[s].awake = 1;
    world_at(w, w->now_ns + 2 * WORLD_US, EV_SERVER, s, 0, w->servers[s].serial);
}

void world_server_start(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    struct snic_luna_target_opts o = {.opts_size = sizeof(o), .conns_max = 64, .sends_max = 32};
    v->serial++;
    o.seed = w->o.seed * 31 + s;
    o.srv_epoch = v->serial * 4 + s + 1;
    o.rx_blocks = w->o.rx_blocks;
    o.frames_max = w->o.frames_max;
    o.idle_ns = 50 * WORLD_MS;
    o.crc = w->o.corrupt_ppm == 0 ? world_crc : NULL;
    size_t size = snic_luna_target_memsize(&o);
    if (v->mem == NULL) /* its incarnations are all of one size */
        v->mem = aligned_alloc(SNIC_LUNA_ALIGN, size);
    if (v->mem == NULL || snic_luna_target_init(&v->t, v->mem, size, &o, w->now_ns) != 0)
        abort();
    v->up = 1;
    v->awake = 0;
}

/* The blocks of the sends that were not asked for yet go with the thread. */
void world_server_drop(struct world *w, uint32_t s)
{
    struct snic_luna_target_action a;
    while (snic_luna_target_poll(w->servers[s].t, &a, 1, w->now_ns) == 1)
        if (a.type == SNIC_LUNA_TARGET_SEND)
            free((void *)(uintptr_t)a.send->cookie);
}

void world_server_die(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    uint64_t back = w->now_ns + snic_rng_below(&w->rng, 30 * WORLD_MS) + 1;
    if (!v->up)
        return;
    stream_server_died(w, s, snic_rng_below(&w->rng, 2) == 0);
    world_server_drop(w, s);
    v->up = 0;
    v->serial++;
    world_at(w, back, EV_SERVER_UP, s, 0, 0);
    world_hurts(w, back);
}

/* The data are copied there first, which takes no time here, then the old place refuses. */
void world_move(struct world *w)
{
    struct segment *of = w->segments[snic_rng_below(&w->rng, w->o.disks)];
    struct segment *g = &of[snic_rng_below(&w->rng, SEGMENTS)];
    g->server = (uint32_t)snic_rng_below(&w->rng, w->o.servers);
    g->gen++;
}

/* ---- The store ---- */

static struct segment *store_find(struct world *w, uint64_t seg_id)
{
    uint64_t disk = seg_id / 100 - 1, i = seg_id % 100;
    return disk < DISKS && i < SEGMENTS && seg_id >= 100 ? &w->segments[disk][i] : NULL;
}

static uint32_t store_refuses(struct world *w, uint32_t s, const struct snic_ebs_request *q,
                              struct segment **out)
{
    struct segment *g = store_find(w, q->seg_id);
    *out = g;
    if (g == NULL || g->server != s)
        return SNIC_EBS_NO_SEGMENT;
    if (q->vd_id != 7 + g->seg_id / 100 - 1)
        return SNIC_EBS_INVALID;
    if (q->op != SNIC_EBS_DO_FENCE &&
        (q->lba != (g->seg_id % 100) * 512 + q->block || q->block + q->count > 512))
        return SNIC_EBS_INVALID;
    return q->seg_gen < g->gen ? SNIC_EBS_STALE_GEN : SNIC_EBS_OK;
}

static uint32_t store_write(struct segment *g, const struct snic_ebs_request *q, uint64_t stamp)
{
    struct stored *b = &g->b[q->block];
    if (q->wver < g->fence)
        return SNIC_EBS_FENCED;
    if (q->wver < b->wver)
        return SNIC_EBS_SUPERSEDED;
    if (q->wver == b->wver)
        return SNIC_EBS_OK;
    b->wver = q->wver;
    b->stamp = stamp;
    b->crc = q->data_crc;
    b->block_tag = q->block_tag;
    b->kind = q->kind;
    return SNIC_EBS_OK;
}

static void store_block(const struct stored *b, uint64_t lba, unsigned char *p,
                        struct snic_ebs_read_block *out)
{
    memset(out, 0, sizeof(*out));
    out->wver = b->wver;
    out->data_crc = b->crc;
    out->block_tag = b->block_tag;
    if (b->wver == 0 || b->kind != 0)
        return;
    snic_put_le64(p, b->stamp);
    snic_put_le64(p + 8, lba);
    snic_put_le64(p + SNIC_EBS_BLOCK_BYTES - 8, b->stamp);
    out->data = p;
}

static void store_release(struct world *w, uint32_t request)
{
    w->requests[request].used = w->free_request;
    w->free_request = request;
}

static void store_read(struct world *w, uint32_t s, uint32_t request, struct segment *g)
{
    struct server *v = &w->servers[s];
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    struct snic_ebs_request *q = &w->requests[request].q;
    uint32_t n = 0;
    unsigned char *data = calloc(q->count, SNIC_EBS_BLOCK_BYTES);
    if (data == NULL)
        abort();
    for (uint64_t left = q->need; left != 0; left &= left - 1, n++) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        store_block(&g->b[q->block + i], q->lba + i, data + (size_t)n * SNIC_EBS_BLOCK_BYTES,
                    &blocks[n]);
    }
    uint64_t cookie = (uint64_t)(uintptr_t)data;
    int r = snic_luna_target_read_done(v->t, q, blocks, cookie, w->now_ns);
    if (r != 1)
        free(data);
    if (r == SNIC_EAGAIN)
        world_at(w, w->now_ns + 10 * WORLD_US, EV_STORED, s, request, v->serial);
    else
        store_release(w, request);
}

/* A send's blocks have no owner any more. */
void world_server_sent(struct world *w, uint32_t s, struct snic_luna_send *send)
{
    free((void *)(uintptr_t)send->cookie);
    snic_luna_target_sent(w->servers[s].t, send, w->now_ns);
}

void world_stored(struct world *w, uint32_t s, uint32_t request)
{
    struct server *v = &w->servers[s];
    struct request *r = &w->requests[request];
    struct segment *g;
    uint32_t status = store_refuses(w, s, &r->q, &g);
    world_server_soon(w, s);
    if (status == SNIC_EBS_OK && r->q.op == SNIC_EBS_DO_READ) {
        store_read(w, s, request, g);
        return;
    }
    if (status == SNIC_EBS_OK && r->q.op == SNIC_EBS_DO_WRITE)
        status = store_write(g, &r->q, r->stamp);
    else if (status == SNIC_EBS_OK)
        g->fence = snic_max_u64(g->fence, r->q.wver);
    snic_luna_target_answer(v->t, &r->q, status, r->q.data_crc, 0, w->now_ns);
    store_release(w, request);
}

static void server_request(struct world *w, uint32_t s, const struct snic_ebs_request *q)
{
    struct server *v = &w->servers[s];
    uint32_t n = w->free_request;
    if (n == WORLD_NONE || snic_rng_below(&w->rng, 2000) == 0) {
        snic_luna_target_answer(v->t, q, SNIC_EBS_BUSY, 0, 300, w->now_ns);
        return;
    }
    struct request *r = &w->requests[n];
    w->free_request = r->used;
    r->q = *q;
    r->stamp = 0;
    if (q->data != NULL) {
        const unsigned char *p = q->data;
        r->stamp = snic_get_le64(p);
        if (snic_get_le64(p + 8) != q->lba ||
            snic_get_le64(p + SNIC_EBS_BLOCK_BYTES - 8) != r->stamp)
            world_fail(w, "a server takes a block with other data than the client's");
        r->q.data = w->client_data; /* it is not NULL; what was passed to recv goes */
    }
    uint64_t takes = snic_rng_below(&w->rng, w->o.store_ns) + 1;
    if (w->now_ns < v->slow_until_ns)
        takes += snic_rng_below(&w->rng, v->slow_until_ns - w->now_ns);
    world_at(w, w->now_ns + takes, EV_STORED, s, n, v->serial);
}

/* ---- The thread ---- */

static void server_read(struct world *w, uint32_t s, struct link *l)
{
    struct server *v = &w->servers[s];
    struct snic_ebs_request q;
    const unsigned char *p = NULL;
    size_t size, used;
    int over, r;
    uint64_t serial = l->serial;
    while (!l->paused) {
        size = stream_peek(w, l, UP, &p, &over);
        if (size == 0 && !l->resumed)
            break;
        l->resumed = 0;
        do {
            r = snic_luna_target_recv(v->t, l->handle, p, size, &used, &q, w->now_ns);
            if (used > 0) {
                stream_read(w, l, UP, used);
                p += used;
                size -= used;
            }
            if (r == 1)
                server_request(w, s, &q);
        } while (r == 1);
        l->paused = r == SNIC_EAGAIN;
    }
    if (!l->paused && over && l->serial == serial && l->target_open) {
        snic_luna_target_closed(v->t, l->handle, w->now_ns);
        stream_target_ends(w, l);
    }
}

static void server_action(struct world *w, uint32_t s, const struct snic_luna_target_action *a)
{
    struct link *l = stream_of(w, s, a->handle);
    if (a->type == SNIC_LUNA_TARGET_SEND) {
        if (l != NULL)
            stream_send(w, l, DOWN, a->send);
        else
            world_server_sent(w, s, a->send);
    } else if (a->type == SNIC_LUNA_TARGET_CLOSE) {
        if (w->o.corrupt_ppm == 0 && a->reason != SNIC_ESTALE && a->reason != SNIC_ETIMEDOUT)
            world_fail(w, "a server finds fault with an honest stream");
        if (l != NULL)
            stream_target_ends(w, l);
    } else if (l != NULL) {
        l->paused = 0;
        l->resumed = 1;
        world_server_soon(w, s);
    }
}

void world_server_wake(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    struct snic_luna_target_action a;
    v->awake = 0;
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (l->used && l->target_open && l->server == s)
            server_read(w, s, l);
    }
    while (snic_luna_target_poll(v->t, &a, 1, w->now_ns) == 1)
        server_action(w, s, &a);
    uint64_t due = snic_luna_target_deadline_ns(v->t);
    if (due <= w->now_ns)
        world_server_soon(w, s);
    if (w->o.check != 0 && snic_luna_target_check(v->t) != 0)
        world_fail(w, "snic_luna_target_check");
}
