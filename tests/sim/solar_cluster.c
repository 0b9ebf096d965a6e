/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The world's servers: each a target and a thread; one store for all, with the rights to it. */
#include "solar_world_priv.h"

#include <stdlib.h>

#define NONE UINT32_MAX

/* Instead of a checksum, where nothing is damaged: the words that are set. */
uint32_t world_crc(void *ctx, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = snic_get_le64(p) ^ snic_get_le64(p + 8) * 3 ^ snic_get_le64(p + size - 8) * 7;
    (void)ctx;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

struct solar_toy_key world_secret = {{11, 13}};

static void server_soon(struct world *w, uint32_t s)
{
    if (w->servers[s].awake || !w->servers[s].up)
        return;
    w->servers[s].awake = 1;
    world_at(w, w->now_ns + 2 * WORLD_US, EV_SERVER, s, 0, w->servers[s].serial);
}

void world_server_start(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    struct snic_solar_target_opts o = {.opts_size = sizeof(o), .conns_max = 16, .trains_max = 32};
    if (w->o.agent_ios == 0) { /* or agents that die one after the other find no place in 10 s */
        o.conns_max = 64;
        o.idle_ns = WORLD_S;
    }
    v->serial++;
    o.seed = w->o.seed * 31 + s;
    o.srv_epoch = v->serial * 4 + s + 1;
    o.rx_blocks = 256;
    memset(o.key, (int)(s + 1), sizeof(o.key));
    o.crc = w->o.corrupt_ppm == 0 ? world_crc : NULL;
    if (w->o.auth) {
        o.flags = SNIC_SOLAR_AUTH;
        o.sec = &solar_toy_ops;
        o.wire_keys[0] = &w->keys[1 + s][0];
        o.wire_keys[1] = &w->keys[1 + s][1];
        o.secret = &world_secret;
        o.key_id = 3;
    }
    size_t size = snic_solar_target_memsize(&o);
    if (v->mem == NULL) /* its incarnations are all of one size */
        v->mem = aligned_alloc(SNIC_SOLAR_ALIGN, size);
    if (v->mem == NULL || snic_solar_target_init(&v->t, v->mem, size, &o, w->now_ns) != 0)
        abort();
    v->up = 1;
    v->awake = 0;
    v->inbox = NONE;
}

void world_server_die(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    if (!v->up)
        return;
    v->up = 0;
    v->serial++;
    while (v->inbox != NONE) {
        uint32_t n = v->inbox;
        v->inbox = w->datagrams[n].next;
        world_release(w, n);
    }
    world_at(w, w->now_ns + snic_rng_below(&w->rng, 30 * WORLD_MS) + 1, EV_SERVER_UP, s, 0, 0);
}

/* The data are copied there first, which takes no time here, then the old place refuses. */
void world_move(struct world *w)
{
    uint64_t disk = snic_rng_below(&w->rng, w->o.disks);
    struct segment *g = &w->segments[disk][snic_rng_below(&w->rng, SEGMENTS)];
    g->server = (uint32_t)snic_rng_below(&w->rng, w->o.servers);
    g->gen++;
}

void world_reissue(struct world *w, uint32_t disk)
{
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        struct segment *g = &w->segments[disk][i];
        g->fence = 0;
        for (uint32_t k = 0; k < SNIC_EBS_SEGMENT_BLOCKS; k++)
            if (g->b[k].wver != 0)
                g->b[k].wver = snic_ebs_id(0, 1);
    }
    w->epoch[disk] = 1;
    w->r.reissued++;
}

void world_server_deliver(struct world *w, uint32_t s, uint32_t datagram)
{
    struct server *v = &w->servers[s];
    if (!v->up) {
        world_release(w, datagram);
        return;
    }
    w->datagrams[datagram].next = NONE;
    if (v->inbox == NONE)
        v->inbox = datagram;
    else
        w->datagrams[v->inbox_last].next = datagram;
    v->inbox_last = datagram;
    server_soon(w, s);
}

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
    if (q->vd_id != 7 + g->seg_id / 100 - 1 || q->lba != (g->seg_id % 100) * 512 + q->block ||
        q->block + q->count > 512)
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

static void store_block(struct world *w, const struct stored *b, uint64_t lba,
                        struct snic_ebs_read_block *out)
{
    memset(out, 0, sizeof(*out));
    out->wver = b->wver;
    out->data_crc = b->crc;
    out->block_tag = b->block_tag;
    if (b->wver == 0 || b->kind != 0)
        return;
    unsigned char *p = w->buffers[w->buffer++ % BUFFERS];
    snic_put_le64(p, b->stamp);
    snic_put_le64(p + 8, lba);
    snic_put_le64(p + SNIC_EBS_BLOCK_BYTES - 8, b->stamp);
    out->data = p;
}

static void store_read(struct world *w, uint32_t s, uint32_t request, struct segment *g)
{
    struct server *v = &w->servers[s];
    struct snic_ebs_read_block blocks[SNIC_EBS_READ_BLOCKS];
    struct snic_ebs_request *q = &w->requests[request].q;
    uint32_t n = 0;
    for (uint64_t left = q->need; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        store_block(w, &g->b[q->block + i], q->lba + i, &blocks[n++]);
    }
    if (snic_solar_target_read_done(v->t, q, blocks, 1, w->now_ns) == SNIC_EAGAIN) {
        world_at(w, w->now_ns + 10 * WORLD_US, EV_STORED, s, request, v->serial);
        return;
    }
    w->requests[request].used = w->free_request;
    w->free_request = request;
}

void world_stored(struct world *w, uint32_t s, uint32_t request)
{
    struct server *v = &w->servers[s];
    struct request *r = &w->requests[request];
    struct segment *g;
    uint32_t status = store_refuses(w, s, &r->q, &g);
    server_soon(w, s);
    if (status == SNIC_EBS_OK && r->q.op == SNIC_EBS_DO_READ) {
        store_read(w, s, request, g);
        return;
    }
    if (status == SNIC_EBS_OK && r->q.op == SNIC_EBS_DO_WRITE)
        status = store_write(g, &r->q, r->stamp);
    else if (status == SNIC_EBS_OK)
        g->fence = snic_max_u64(g->fence, r->q.wver);
    snic_solar_target_answer(v->t, &r->q, status, r->q.data_crc, 0, w->now_ns);
    r->used = w->free_request;
    w->free_request = request;
}

static void server_request(struct world *w, uint32_t s, const struct snic_ebs_request *q)
{
    struct server *v = &w->servers[s];
    uint32_t n = w->free_request;
    if (n == NONE) {
        snic_solar_target_answer(v->t, q, SNIC_EBS_BUSY, 0, 300, w->now_ns);
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
        r->q.data = w->buffers; /* it is not NULL; the datagram goes */
    }
    uint64_t takes = snic_rng_below(&w->rng, w->o.store_ns) + 1;
    if (w->now_ns < v->slow_until_ns)
        takes += snic_rng_below(&w->rng, 20 * WORLD_MS);
    world_at(w, w->now_ns + takes, EV_STORED, s, n, v->serial);
}

void world_server_wake(struct world *w, uint32_t s)
{
    struct server *v = &w->servers[s];
    struct snic_solar_train *t;
    v->awake = 0;
    while (v->inbox != NONE) {
        struct datagram *d = &w->datagrams[v->inbox];
        struct snic_ebs_request q;
        uint32_t n = v->inbox;
        v->inbox = d->next;
        struct snic_ebs_peer peer = world_peer(w, d);
        if (snic_solar_target_recv(v->t, &peer, d->bytes, d->size, 0, &q, w->now_ns) == 1)
            server_request(w, s, &q);
        world_release(w, n);
    }
    while (snic_solar_target_poll(v->t, &t, 1, w->now_ns) == 1) {
        world_transmit(w, t, 0, s);
        snic_solar_target_sent(v->t, t);
    }
    if (w->o.check != 0 && snic_solar_target_check(v->t) != 0)
        world_fail(w, "snic_solar_target_check");
}
