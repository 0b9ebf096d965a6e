/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Memory, open, close, the pump, status. */
#include "nvmehost/nvmehost_priv.h"

/* ---- The pump ---- */

void nvmehost_kick(struct snic_nvmehost *s)
{
    if (s->pump_on)
        return;
    s->pump_on = 1;
    snic_loop_defer(s->loop, &s->pump);
}

static void nvmehost_fire(struct snic_timer *t, uint64_t now)
{
    struct snic_nvmehost *s = SNIC_CONTAINER(t, struct snic_nvmehost, timer);
    (void)now;
    s->armed_ns = SNIC_NEVER;
    nvmehost_kick(s);
}

static void nvmehost_arm(struct snic_nvmehost *s)
{
    uint64_t at = s->used > 0 ? s->tick_ns : SNIC_NEVER;
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        at = snic_min_u64(at, nvmehost_path_deadline(&s->paths[i]));
    if (at == s->armed_ns)
        return;
    s->armed_ns = at;
    if (at == SNIC_NEVER)
        snic_loop_cancel(s->loop, &s->timer);
    else
        snic_loop_arm(s->loop, &s->timer, at);
}

static void nvmehost_pump(struct snic_loop_msg *msg)
{
    struct snic_nvmehost *s = SNIC_CONTAINER(msg, struct snic_nvmehost, pump);
    uint64_t now = snic_loop_now(s->loop);
    s->pump_on = 0;
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        nvmehost_path_serve(&s->paths[i], now);
    if (now >= s->tick_ns) {
        s->tick_ns = now + SNIC_NVMEHOST__TICK_NS;
        nvmehost_tick(s, now);
    }
    nvmehost_finish(s);
    nvmehost_dispatch(s);
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        for (uint32_t k = 0; k <= s->o.queues; k++)
            nvmehost_conn_output(&s->paths[i].conns[k]);
    nvmehost_arm(s);
}

/* ---- The handle ---- */

static int nvmehost_ready(const struct snic_io_room *r)
{
    return !snic_link_alone(&SNIC_CONTAINER(r, struct snic_nvmehost, room)->free);
}

static void nvmehost_io_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&SNIC_CONTAINER(io, struct snic_nvmehost, io)->room, w);
}

static void nvmehost_io_close(struct snic_io *io)
{
    (void)snic_nvmehost_close(SNIC_CONTAINER(io, struct snic_nvmehost, io));
}

static const struct snic_io_ops nvmehost_ops = {.ops_size = sizeof(nvmehost_ops),
                                                .name = "nvmehost",
                                                .submit = nvmehost_submit,
                                                .cancel = nvmehost_cancel,
                                                .close = nvmehost_io_close,
                                                .wait = nvmehost_io_wait};

/* ---- Memory ---- */

static size_t nvmehost_engine_size(const struct snic_nvmehost_opts *o, uint32_t entries)
{
    struct snic_nvmetcp_host_opts e;
    nvmehost_engine_opts(o, entries, &e);
    return snic_nvmetcp_host_memsize(&e);
}

static void nvmehost_place_path(struct snic_arena *a, const struct snic_nvmehost_opts *o,
                                struct nvmehost_path *p)
{
    struct nvmehost_conn *conns = snic_arena_take(a, o->queues + 1, sizeof(*conns), SNIC_CACHELINE);
    if (p != NULL && conns != NULL)
        p->conns = conns;
    for (uint32_t i = 0; i <= o->queues; i++) {
        size_t size = nvmehost_engine_size(o, i == 0 ? SNIC_NVMEHOST__ADMIN_ENTRIES : o->entries);
        void *mem = snic_arena_take(a, 1, size, SNIC_NVMETCP_ALIGN);
        void *data = snic_arena_take(a, 1, SNIC_NVMEHOST__DATA, 64);
        if (p == NULL || conns == NULL)
            continue;
        conns[i].mem = mem;
        conns[i].mem_size = size;
        conns[i].data = data;
        conns[i].p = p;
        conns[i].qid = (uint16_t)i;
    }
}

static struct snic_nvmehost *nvmehost_place(struct snic_arena *a,
                                            const struct snic_nvmehost_opts *o)
{
    struct snic_nvmehost *s = snic_arena_take(a, 1, sizeof(*s), SNIC_CACHELINE);
    struct nvmehost_slot *slots = snic_arena_take(a, o->depth, sizeof(*slots), 64);
    struct nvmehost_path *paths = snic_arena_take(a, o->addr_count, sizeof(*paths), 64);
    int fits = a->base != NULL && a->used != SIZE_MAX;
    for (uint32_t i = 0; i < o->addr_count; i++)
        nvmehost_place_path(a, o, fits ? &paths[i] : NULL);
    if (a->base == NULL || a->used == SIZE_MAX)
        return NULL;
    s->slots = slots;
    s->paths = paths;
    return s;
}

size_t snic_nvmehost_memsize(const struct snic_nvmehost_opts *o)
{
    struct snic_nvmehost_opts full;
    struct snic_arena a = {.base = NULL};
    const char *wrong;
    if (nvmehost_opts(&full, o, &wrong) != 0)
        return 0;
    (void)nvmehost_place(&a, &full);
    return a.used == SIZE_MAX ? 0 : (size_t)snic_align_up(a.used, SNIC_NVMEHOST_ALIGN);
}

/* ---- Open and close ---- */

static void nvmehost_init(struct snic_nvmehost *s, const struct snic_nvmehost_opts *o)
{
    static const unsigned char key[16] = "snicstore hostid";
    static const uint8_t none[16];
    memcpy(s->subnqn, o->subnqn, strlen(o->subnqn));
    memcpy(s->hostnqn, o->hostnqn, strlen(o->hostnqn));
    s->o = *o;
    s->o.subnqn = s->subnqn;
    s->o.hostnqn = s->hostnqn;
    if (memcmp(o->hostid, none, sizeof(none)) == 0) {
        uint64_t hash[2];
        snic_siphash128(key, s->hostnqn, strlen(s->hostnqn), hash);
        snic_put_le64(s->o.hostid, hash[0]);
        snic_put_le64(s->o.hostid + 8, hash[1]);
    }
    s->io.ops = &nvmehost_ops;
    s->io.loop = s->loop;
    s->io.depth_max = o->depth;
    s->armed_ns = SNIC_NEVER;
    s->pump.fn = nvmehost_pump;
    snic_timer_init(&s->timer, nvmehost_fire);
    snic_link_init(&s->free);
    snic_link_init(&s->ready);
    snic_link_init(&s->done);
    snic_io_room_init(&s->room, &s->io, nvmehost_ready);
    nvmehost_slots_init(s);
    for (uint32_t i = 0; i < o->addr_count; i++) {
        struct nvmehost_path *p = &s->paths[i];
        p->s = s;
        p->addr = o->addrs[i];
        p->backoff_ns = SNIC_NVMEHOST__BACKOFF_NS;
    }
    s->o.addrs = NULL;
}

int snic_nvmehost_open(struct snic_nvmehost **out, void *mem, size_t size, struct snic_net *net,
                       const struct snic_nvmehost_opts *o)
{
    struct snic_nvmehost_opts full;
    struct snic_arena a = {.base = mem, .size = size};
    const char *wrong;
    size_t need = snic_nvmehost_memsize(o);
    if (nvmehost_opts(&full, o, &wrong) != 0 || (uintptr_t)mem % SNIC_NVMEHOST_ALIGN != 0)
        return SNIC_EINVAL;
    if (need == 0 || size < need)
        return SNIC_ENOSPC;
    memset(mem, 0, need);
    struct snic_nvmehost *s = nvmehost_place(&a, &full);
    SNIC_ASSERT(s != NULL);
    s->mem = mem;
    s->net = net;
    s->loop = net->loop;
    nvmehost_init(s, &full);
    nvmehost_kick(s);
    *out = s;
    return 0;
}

static int nvmehost_quiet(const struct snic_nvmehost *s)
{
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        if (s->paths[i].state != NVMEHOST_PATH_WAIT)
            return 0;
    return !s->pump_on;
}

void *snic_nvmehost_close(struct snic_nvmehost *h)
{
    h->closing = 1;
    while (h->used > 0 || !snic_io_room_idle(&h->room))
        if (snic_loop_once(h->loop, SNIC_NEVER) < 0)
            break; /* the kernel refuses: nothing will come any more */
    h->leaving = 1;
    nvmehost_kick(h);
    while (!nvmehost_quiet(h))
        if (snic_loop_once(h->loop, SNIC_NEVER) < 0)
            break;
    snic_loop_cancel(h->loop, &h->timer);
    snic_nvmeauth_wipe(&h->o.keys, sizeof(h->o.keys));
    return h->mem;
}

/* ---- Status ---- */

int snic_nvmehost_state(const struct snic_nvmehost *h)
{
    int error = 0;
    if (h->open)
        return 0;
    for (uint32_t i = 0; i < h->o.addr_count; i++) {
        const struct nvmehost_path *p = &h->paths[i];
        if (!p->tried || !p->hard || p->error == 0)
            return SNIC_EAGAIN;
        error = p->error;
    }
    return error;
}

static void nvmehost_wait_fire(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
}

int snic_nvmehost_wait(struct snic_nvmehost *h, uint64_t ns)
{
    struct snic_timer t;
    uint64_t now = snic_loop_now(h->loop);
    uint64_t until = ns > SNIC_NEVER - now ? SNIC_NEVER : now + ns;
    int r;
    snic_timer_init(&t, nvmehost_wait_fire);
    if (until != SNIC_NEVER)
        snic_loop_arm(h->loop, &t, until);
    while ((r = snic_nvmehost_state(h)) == SNIC_EAGAIN && snic_loop_now(h->loop) < until)
        if (snic_loop_once(h->loop, SNIC_NEVER) < 0)
            break;
    snic_loop_cancel(h->loop, &t);
    return r == SNIC_EAGAIN ? (h->stats.error != 0 ? h->stats.error : SNIC_ETIMEDOUT) : r;
}

struct snic_io *snic_nvmehost_io(struct snic_nvmehost *h)
{
    return h->open ? &h->io : NULL;
}

void snic_nvmehost_get_stats(const struct snic_nvmehost *h, struct snic_nvmehost_stats *out)
{
    *out = h->stats;
    out->up = out->usable = 0;
    out->inside = h->used;
    for (uint32_t i = 0; i < h->o.addr_count; i++) {
        out->up += h->paths[i].state == NVMEHOST_PATH_UP;
        out->usable += nvmehost_path_usable(&h->paths[i]) != 0;
    }
}

int snic_nvmehost_check(const struct snic_nvmehost *h)
{
    for (uint32_t i = 0; i < h->o.addr_count; i++) {
        for (uint32_t k = 0; k <= h->o.queues; k++) {
            const struct nvmehost_conn *c = &h->paths[i].conns[k];
            if (c->state != NVMEHOST_CONN_CLOSED && snic_nvmetcp_host_check(c->e) != 0)
                return SNIC_ECORRUPT;
            if (c->usable && c->state != NVMEHOST_CONN_UP)
                return SNIC_ECORRUPT;
            if (h->paths[i].state == NVMEHOST_PATH_WAIT && c->state != NVMEHOST_CONN_CLOSED)
                return SNIC_ECORRUPT;
        }
    }
    return nvmehost_slots_check(h);
}
