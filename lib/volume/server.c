/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The block server's public functions: options, memory, open and close. Its fronts receive from the
 * network; successive writes of a segment become one write of the store. Answers leave when all
 * that has arrived was handed in (V1).
 */
#include "volume/volume_priv.h"

/* ---- Options and memory ---- */

static const struct ebs_opt server_opts_rows[] = {
    SNIC_EBS__OPT(snic_volume_server_opts, disks, 0, 1, SNIC_SEGMENTS_DISKS_MAX, "1..16"),
    SNIC_EBS__OPT(snic_volume_server_opts, writes_max, 256, 4, 65536, "4..65536"),
    SNIC_EBS__OPT(snic_volume_server_opts, reads_max, 64, 4, 65536, "4..65536"),
    /* For the engines, which check them. */
    SNIC_EBS__OPT(snic_volume_server_opts, conns_max, 256, 0, UINT32_MAX, "0.."),
    SNIC_EBS__OPT(snic_volume_server_opts, trains_max, 64, 0, UINT32_MAX, "0.."),
    SNIC_EBS__OPT(snic_volume_server_opts, streams_max, 64, 0, UINT32_MAX, "0.."),
    SNIC_EBS__OPT(snic_volume_server_opts, sends_max, 64, 0, UINT32_MAX, "0.."),
    SNIC_EBS__OPT(snic_volume_server_opts, frames_max, 64, 0, UINT32_MAX, "0.."),
    SNIC_EBS__OPT(snic_volume_server_opts, tokens_max, 4096, 0, UINT32_MAX, "0.."),
};

/* What is wrong with keys, tokens and secrets, or NULL. */
static const char *server_auth_wrong(const struct snic_volume_server_opts *o)
{
    int luna = (o->transports & SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA)) != 0;
    if (o->token_key != NULL && o->unix_time == NULL)
        return "unix_time: NULL with token_key";
    if (o->token_key != NULL && o->sec == NULL)
        return "sec: NULL with token_key";
    if (o->token_key != NULL && (o->tokens_max < 8 || o->tokens_max > 1u << 20))
        return "tokens_max: not 8..2^20";
    if ((o->secret != NULL || o->secret_of != NULL) && o->token_key == NULL && luna)
        return "transports: LUNA would serve without the secret";
    return NULL;
}

static const char *server_io_wrong(const struct snic_volume_server_opts *o)
{
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or of another loop";
    if (o->io == NULL)
        return "io: NULL";
    for (uint32_t i = 0; i < o->disks; i++)
        if (o->io[i] == NULL || o->io[i]->loop != o->loop)
            return "io: a device is NULL, or of another loop";
    return NULL;
}

/* Which transports serve, for each a front. */
static void server_fronts(struct snic_volume_server *s)
{
    s->fronts = 0;
    if ((s->o.transports & SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR)) != 0)
        s->front[s->fronts++] = &volume_front_solar;
    if ((s->o.transports & SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA)) != 0)
        s->front[s->fronts++] = &volume_front_luna;
}

/* Options with their defaults, and the fronts. @return what is wrong with them, or NULL */
static const char *server_opts_fill(struct snic_volume_server *s,
                                    const struct snic_volume_server_opts *from)
{
    struct snic_volume_server_opts *o = &s->o;
    const uint32_t luna = SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return SNIC_EBS__OPTS_SIZE_WRONG;
    if (o->transports == 0)
        o->transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR) |
                        (o->secret == NULL && o->secret_of == NULL ? luna : 0);
    o->store.opts_size = sizeof(o->store);
    if ((o->flags & ~SNIC_VOLUME_GOVERNED) != 0)
        return "flags: unknown bits";
    if (o->transports >> (SNIC_VOLUME_LUNA + 1) != 0)
        return "transports: unknown bits";
    const char *wrong = ebs_opts_fill(o, server_opts_rows, SNIC_COUNTOF(server_opts_rows));
    if (wrong == NULL)
        wrong = server_io_wrong(o);
    if (wrong == NULL)
        wrong = server_auth_wrong(o);
    if (wrong == NULL)
        wrong = snic_segments_opts_wrong(o->io, o->disks, &o->store);
    server_fronts(s);
    for (uint32_t i = 0; i < s->fronts && wrong == NULL; i++)
        wrong = s->front[i]->wrong(s);
    return wrong;
}

const char *snic_volume_server_opts_wrong(const struct snic_volume_server_opts *o)
{
    struct snic_volume_server s;
    memset(&s, 0, sizeof(s));
    return server_opts_fill(&s, o);
}

/* Once to measure, once to place; @store: the store's memory. 0: an engine's options are wrong. */
static int server_layout(struct snic_arena *a, struct snic_volume_server *s, void **store,
                         size_t *store_size)
{
    const struct snic_volume_server_opts *o = &s->o;
    for (uint32_t i = 0; i < s->fronts; i++)
        if (s->front[i]->layout(a, s) == 0)
            return 0;
    *store_size = snic_segments_memsize(o->io, o->disks, &o->store);
    *store = snic_arena_take(a, 1, *store_size, SNIC_VOLUME_ALIGN);
    struct volume_op *writes = snic_arena_take(a, o->writes_max, sizeof(*writes), 64);
    struct volume_op *reads = snic_arena_take(a, o->reads_max, sizeof(*reads), 64);
    unsigned char *data =
        snic_arena_take(a, o->reads_max, (size_t)SNIC_VOLUME__GROUP * SNIC_EBS_BLOCK_BYTES, 4096);
    s->meta = snic_arena_take(a, 1, SNIC_EBS_BLOCK_BYTES, 4096);
    if (o->token_key != NULL)
        (void)volume_grants_layout(a, s);
    if (o->secret != NULL || o->secret_of != NULL)
        s->opened_data = snic_arena_take(a, SNIC_VOLUME__GROUP, SNIC_EBS_BLOCK_BYTES, 4096);
    if (a->base != NULL && a->used != SIZE_MAX) {
        volume_ops_init(s, &s->writes, writes, o->writes_max, NULL);
        volume_ops_init(s, &s->reads, reads, o->reads_max, data);
    }
    return 1;
}

size_t snic_volume_server_memsize(const struct snic_volume_server_opts *from)
{
    struct snic_volume_server s;
    struct snic_arena a = {.base = NULL, .size = SIZE_MAX};
    void *store;
    size_t store_size;
    memset(&s, 0, sizeof(s));
    if (server_opts_fill(&s, from) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(s), SNIC_VOLUME_ALIGN);
    if (server_layout(&a, &s, &store, &store_size) == 0 || a.used == SIZE_MAX)
        return 0;
    return a.used + 3 * 4096; /* blocks are aligned to pages, the memory may not be */
}

/* ---- The pump ---- */

static void server_pump(struct snic_loop_msg *m)
{
    struct snic_volume_server *s = SNIC_CONTAINER(m, struct snic_volume_server, pump);
    s->pumping = 0;
    for (uint32_t i = 0; i < s->fronts && !s->closing; i++)
        s->front[i]->pump(s);
}

/* ---- Open and close ---- */

static void server_failed(void *ctx, uint32_t disk, int error)
{
    struct snic_volume_server *s = ctx;
    if (s->e.failed != NULL && !s->closing)
        s->e.failed(s->ctx, disk, error);
}

static void server_damaged(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block,
                           uint32_t blocks)
{
    struct snic_volume_server *s = ctx;
    if (s->e.damaged != NULL && !s->closing)
        s->e.damaged(s->ctx, disk, seg_id, block, blocks);
}

static void server_misread(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error)
{
    struct snic_volume_server *s = ctx;
    if (s->e.misread != NULL && !s->closing)
        s->e.misread(s->ctx, disk, seg_id, block, error);
}

static void server_room(void *ctx)
{
    volume_server_open_room(ctx);
}

int snic_volume_server_open(struct snic_volume_server **out, void *mem, size_t size,
                            const struct snic_volume_server_opts *o,
                            const struct snic_volume_server_events *e, void *ctx)
{
    static const struct snic_segments_events ev = {.opened = volume_server_opened,
                                                   .room = server_room,
                                                   .failed = server_failed,
                                                   .damaged = server_damaged,
                                                   .misread = server_misread};
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_volume_server checked;
    void *store;
    size_t store_size;
    memset(&checked, 0, sizeof(checked));
    if (e->opened == NULL || (uintptr_t)mem % SNIC_VOLUME_ALIGN != 0 ||
        server_opts_fill(&checked, o) != NULL)
        return SNIC_EINVAL;
    size_t skew = (4096 - (uintptr_t)mem % 4096) % 4096;
    struct snic_volume_server *s = snic_arena_take(&a, 1, sizeof(*s), SNIC_VOLUME_ALIGN);
    if (s == NULL)
        return SNIC_ENOSPC;
    /* Pages are aligned in memory, not only in the arena. */
    a.used = snic_align_up(a.used, 4096) + skew;
    struct snic_arena rest = {.base = (unsigned char *)mem + a.used,
                              .size = size > a.used ? size - a.used : 0};
    memset(s, 0, sizeof(*s));
    s->o = checked.o;
    server_fronts(s);
    s->e = *e;
    s->ctx = ctx;
    s->pump.fn = server_pump;
    if (server_layout(&rest, s, &store, &store_size) == 0)
        return SNIC_EINVAL;
    if (rest.used == SIZE_MAX)
        return SNIC_ENOSPC;
    int r = snic_segments_open(&s->store, store, store_size, o->io, o->disks, &s->o.store, &ev, s);
    if (r == 0)
        *out = s;
    return r;
}

static int server_silent(const struct snic_volume_server *s)
{
    for (uint32_t i = 0; i < s->fronts; i++)
        if (!s->front[i]->silent(s))
            return 0;
    return !s->pumping && !s->meta_out && s->writes.out == 0 && s->reads.out == 0;
}

void *snic_volume_server_close(struct snic_volume_server *s)
{
    s->closing = 1;
    for (uint32_t i = 0; i < s->fronts; i++)
        s->front[i]->stop(s);
    volume_request_returned(s, 0);
    while (!server_silent(s))
        (void)snic_loop_once(s->o.loop, SNIC_NEVER);
    (void)snic_segments_close(s->store);
    for (uint32_t i = 0; i < s->fronts; i++)
        s->front[i]->fini(s);
    return s;
}

/* ---- Views ---- */

int snic_volume_server_addr(const struct snic_volume_server *s, struct snic_net_addr *out)
{
    if (!s->listens)
        return SNIC_EBUSY;
    *out = s->addr;
    return 0;
}

uint32_t snic_volume_server_secrets(struct snic_volume_server *s)
{
    if (s->solar.target == NULL)
        return 0;
    return snic_solar_target_secrets(s->solar.target, volume_server_now(s));
}

int snic_volume_server_secret_used(const struct snic_volume_server *s, const void *secret)
{
    return s->solar.target != NULL && snic_solar_target_secret_used(s->solar.target, secret);
}

struct snic_segments *snic_volume_server_store(struct snic_volume_server *s)
{
    return s->store;
}

void snic_volume_server_get_stats(const struct snic_volume_server *s,
                                  struct snic_volume_server_stats *out)
{
    *out = s->stats;
    out->srv_epoch = s->epoch;
    out->inside = s->writes.out + s->reads.out;
    for (uint32_t i = 0; i < s->fronts; i++)
        s->front[i]->stats(s, out);
}

/* The cursor: which front, and 24 bits of a place there. */
int snic_volume_server_next_client(const struct snic_volume_server *s, uint32_t *cursor,
                                   struct snic_volume_server_client *out)
{
    while (*cursor >> 24 < s->fronts) {
        int r = s->front[*cursor >> 24]->client(s, *cursor & 0xffffffu, out);
        *cursor = r < 0 ? ((*cursor >> 24) + 1) << 24 : *cursor + 1;
        if (r == 1)
            return 1;
    }
    return 0;
}

static int server_check_ops(const struct volume_ops *p)
{
    uint32_t free = 0;
    for (uint32_t i = p->free; i != SNIC_VOLUME__NIL && free <= p->count; i = p->op[i].next) {
        if (i >= p->count || p->op[i].used)
            return SNIC_ECORRUPT;
        free++;
    }
    return free + p->out == p->count ? 0 : SNIC_ECORRUPT;
}

int snic_volume_server_check(const struct snic_volume_server *s)
{
    if (server_check_ops(&s->writes) != 0 || server_check_ops(&s->reads) != 0 || s->group != NULL)
        return SNIC_ECORRUPT;
    for (uint32_t i = 0; i < s->fronts; i++)
        if (s->front[i]->check(s) != 0)
            return SNIC_ECORRUPT;
    return snic_segments_check(s->store);
}
