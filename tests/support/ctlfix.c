/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ctlfix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctlclient.h"
#include "sim/solar_cipher.h"
#include "support.h"

#define PORT_DATA 7000u
#define PORT_PEER 7001u
#define PORT_CTL 7100u

const struct snic_net_uring_opts ctlfix_net = {.opts_size = sizeof(ctlfix_net), .pool_buffers = 64};

/* ---- Servers ---- */

static void server_opened(void *ctx, int result, const struct snic_segments_report *report)
{
    struct ctlfix_server *s = ctx;
    (void)report;
    s->opened = 1;
    s->result = result;
}

static void agent_ready(void *ctx, int is, uint32_t server)
{
    struct ctlfix_server *s = ctx;
    (void)server;
    s->ready = is;
    s->readies += (uint64_t)is;
}

static void agent_refused(void *ctx, int error)
{
    struct ctlfix_server *s = ctx;
    s->refused = error;
}

static void agent_lost(void *ctx, uint64_t segment, uint32_t block)
{
    struct ctlfix_server *s = ctx;
    assert_true(block < SNIC_SEGMENTS_BLOCKS && segment >> 32 != 0);
    s->lost++;
}

static struct snic_net_addr at(uint32_t node, uint32_t port)
{
    return (struct snic_net_addr){.family = SNIC_NET_SIM, .node = node, .port = (uint16_t)port};
}

/* ---- Keys ---- */

static struct solar_toy_key secrets[CTLFIX_CLIENTS + 1];
static struct solar_toy_key signing[8];
static struct solar_toy_key wires[CTLFIX_SERVERS + CTLFIX_CLIENTS][2];

void *ctlfix_secret(uint32_t account)
{
    secrets[account].bytes[0] = 77;
    secrets[account].bytes[1] = account;
    return &secrets[account];
}

void *ctlfix_sign_key(uint32_t number)
{
    signing[number].bytes[0] = 99;
    signing[number].bytes[1] = number;
    return &signing[number];
}

uint64_t ctlfix_unix(const struct ctlfix *f)
{
    return UINT64_C(1700000000) + f->unix_later + snic_world_now(f->world) / (1000 * CTLFIX_MS);
}

static uint64_t unix_time(void *ctx)
{
    return ctlfix_unix(ctx);
}

static void *secret_of(void *ctx, uint32_t key_id, uint32_t account)
{
    const struct ctlfix *f = ctx;
    if (key_id != 5 || account > CTLFIX_CLIENTS || (f->gone >> account & 1) != 0)
        return NULL;
    return ctlfix_secret(account);
}

static void *token_key(void *ctx, uint32_t key_id)
{
    const struct ctlfix *f = ctx;
    return key_id < 8 && (f->known >> key_id & 1) != 0 ? ctlfix_sign_key(key_id) : NULL;
}

static uint32_t ctl_rights(void *ctx, uint32_t account, uint32_t vd)
{
    const struct ctlfix *f = ctx;
    if (account > CTLFIX_CLIENTS || (f->only[account] != 0 && f->only[account] != vd))
        return 0;
    return f->rights[account];
}

static int ctl_token(void *ctx, struct snic_ebs_token *t, unsigned char out[SNIC_EBS_TOKEN_BYTES])
{
    const struct ctlfix *f = ctx;
    if (f->sign == 0)
        return SNIC_EIO;
    t->key_id = f->sign;
    t->not_after = ctlfix_unix(f) + f->seconds;
    assert_int_equal(snic_ebs_token_sign(out, t, &solar_toy_ops, ctlfix_sign_key(f->sign)), 0);
    return (int)f->seconds;
}

static void keys_begin(struct ctlfix *f)
{
    struct snic_control_auth a = {.sec = &solar_toy_ops, .key_id = 5, .ctx = f};
    f->keys = 1;
    f->sign = 1;
    f->known = 1u << 1;
    f->seconds = 3600;
    a.secret = ctlfix_secret(0);
    a.seed = f->seed;
    f->auth_store = f->auth_operator = f->auth_ctl = a;
    f->auth_ctl.secret_of = secret_of;
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++) {
        a.secret = ctlfix_secret(i + 1);
        a.account = i + 1;
        f->auth_client[i] = a;
        f->rights[i + 1] = SNIC_EBS_MAY_ALL;
    }
}

void ctlfix_volume_keys(struct ctlfix *f, struct snic_volume_opts *o, uint32_t client)
{
    if (!f->keys || f->transport == SNIC_VOLUME_LUNA) /* that one shows tokens only */
        return;
    o->sec = &solar_toy_ops;
    o->secret = ctlfix_secret(client + 1);
    o->account = client + 1;
    o->key_id = 5;
    for (uint32_t k = 0; k < 2; k++)
        o->wire_keys[k] = &wires[CTLFIX_SERVERS + client][k];
}

static void agent_start(struct ctlfix_server *s)
{
    static const struct snic_control_agent_events ev = {
        .ready = agent_ready, .refused = agent_refused, .lost = agent_lost};
    struct snic_control_agent_opts o = {.opts_size = sizeof(o), .loop = s->loop, .net = s->net};
    o.store = snic_volume_server_store(s->s);
    o.control = at(CTLFIX_CTL, PORT_CTL);
    o.addr = at(s->index, PORT_DATA + s->port);
    o.listen = at(s->index, PORT_PEER);
    o.auth = s->f->keys ? &s->f->auth_store : NULL;
    size_t size = snic_control_agent_memsize(&o);
    assert_true(size > 0);
    s->agent_mem = support_guard_alloc(size, SNIC_CONTROL_ALIGN);
    s->ready = s->refused = 0;
    assert_int_equal(snic_control_agent_open(&s->agent, s->agent_mem, size, &o, &ev, s), 0);
}

/* A process that is dead sends nothing, though its parts are closed one after the other here. */
static void server_mute(struct ctlfix *f, uint32_t server, int mute)
{
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        snic_net_fabric_partition(f->fabric, server, CTLFIX_CLIENT + i, mute);
}

void ctlfix_server_start(struct ctlfix *f, uint32_t server)
{
    static const struct snic_volume_server_events ev = {.opened = server_opened};
    struct ctlfix_server *s = &f->server[server];
    struct snic_volume_server_opts o = {.opts_size = sizeof(o), .disks = 1};
    o.flags = SNIC_VOLUME_GOVERNED;
    assert_null(s->s);
    assert_int_equal(snic_world_loop(f->world, server, &s->loop), 0);
    assert_int_equal(snic_net_sim_open(&s->net, f->fabric, s->loop, &ctlfix_net), 0);
    assert_int_equal(snic_io_mem_open(&s->io, s->loop, s->disk), 0);
    o.loop = s->loop;
    o.net = s->net;
    o.addr = at(server, PORT_DATA + s->port);
    o.io = &s->io;
    o.seed = snic_rng_next(&f->rng);
    o.writes_max = 64;
    o.reads_max = 16;
    o.trains_max = 16;
    if (f->keys) {
        o.sec = &solar_toy_ops;
        o.secret_of = secret_of;
        o.secret_ctx = o.token_ctx = f;
        o.token_key = token_key;
        o.transports = SNIC_VOLUME_SERVES(SNIC_VOLUME_SOLAR) | SNIC_VOLUME_SERVES(SNIC_VOLUME_LUNA);
        o.unix_time = unix_time;
        for (uint32_t k = 0; k < 2; k++)
            o.wire_keys[k] = &wires[server][k];
    }
    o.store = (struct snic_segments_opts){
        .flags = SNIC_SEGMENTS_BLANK, .log_bytes = 4u << 20, .cache_blocks = 1024};
    o.store.uuid[0] = server + 1;
    size_t size = snic_volume_server_memsize(&o);
    assert_true(size > 0);
    void *mem = support_guard_alloc(size, SNIC_VOLUME_ALIGN);
    s->opened = 0;
    assert_int_equal(snic_volume_server_open(&s->s, mem, size, &o, &ev, s), 0);
    while (!s->opened)
        assert_int_equal(snic_world_step(f->world), 1);
    assert_int_equal(s->result, 0);
    agent_start(s);
}

void ctlfix_server_kill(struct ctlfix *f, uint32_t server, uint64_t seed)
{
    struct ctlfix_server *s = &f->server[server];
    server_mute(f, server, 1);
    snic_disk_power_cut(s->disk, seed);
    snic_net_fabric_kill(f->fabric, server);
    support_guard_free(snic_control_agent_close(s->agent));
    s->agent = NULL;
    support_guard_free(snic_volume_server_close(s->s));
    s->s = NULL;
    s->ready = 0;
    snic_io_close(s->io);
    snic_net_shut(s->net);
    snic_loop_close(s->loop);
    server_mute(f, server, 0);
}

void ctlfix_ready(struct ctlfix *f)
{
    for (uint32_t i = 0; i < f->servers; i++)
        while (f->server[i].s != NULL && !f->server[i].ready)
            assert_int_equal(snic_world_step(f->world), 1);
    ctlfix_run(f, CTLFIX_MS); /* what the last one sends is on its way */
}

uint32_t ctlfix_id(const struct ctlfix *f, uint32_t server)
{
    struct snic_control_agent_stats s;
    snic_control_agent_get_stats(f->server[server].agent, &s);
    return s.server;
}

/* ---- The catalog ---- */

static void ctl_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    struct ctlfix *f = ctx;
    (void)report;
    f->opened = 1;
    f->result = result;
}

static void ctl_failed(void *ctx, int error)
{
    ((struct ctlfix *)ctx)->failed = error;
}

static void ctl_event(void *ctx, const struct snic_control_event *e)
{
    struct ctlfix *f = ctx;
    assert_in_range(e->type, 1, 15);
    f->events[e->type]++;
    f->event_value[e->type] = e->value;
    f->event_error[e->type] = e->error;
}

int ctlfix_ctl_start(struct ctlfix *f)
{
    const struct snic_control_events ev = {.opened = ctl_opened,
                                           .failed = ctl_failed,
                                           .event = ctl_event,
                                           .rights = f->keys ? ctl_rights : NULL,
                                           .token = f->keys ? ctl_token : NULL};
    struct snic_control_opts o = {.opts_size = sizeof(o), .flags = SNIC_WAL_CREATE};
    assert_null(f->ctl);
    assert_int_equal(snic_world_loop(f->world, CTLFIX_CTL, &f->loop), 0);
    assert_int_equal(snic_net_sim_open(&f->net, f->fabric, f->loop, &ctlfix_net), 0);
    assert_int_equal(snic_io_mem_open(&f->io, f->loop, f->disk), 0);
    o.loop = f->loop;
    o.net = f->net;
    o.io = f->io;
    o.addr = at(CTLFIX_CTL, PORT_CTL);
    o.disks_max = 8;
    o.segments_max = f->segments_max;
    o.sessions_max = f->sessions_max != 0 ? f->sessions_max : 16;
    o.ops_max = f->ops_max != 0 ? f->ops_max : 32;
    o.lease_ns = 2000 * CTLFIX_MS;
    o.server_ns = 1500 * CTLFIX_MS;
    o.uuid[0] = f->seed + 1;
    o.auth = f->keys ? &f->auth_ctl : NULL;
    size_t size = snic_control_memsize(&o);
    assert_true(size > 0);
    f->ctl_mem = support_guard_alloc(size, SNIC_CONTROL_ALIGN);
    f->opened = f->failed = 0;
    assert_int_equal(snic_control_open(&f->ctl, f->ctl_mem, size, &o, &ev, f), 0);
    while (!f->opened)
        assert_int_equal(snic_world_step(f->world), 1);
    return f->result;
}

void ctlfix_ctl_kill(struct ctlfix *f, uint64_t seed)
{
    snic_disk_power_cut(f->disk, seed);
    snic_net_fabric_kill(f->fabric, CTLFIX_CTL);
    support_guard_free(snic_control_close(f->ctl));
    f->ctl = NULL;
    snic_io_close(f->io);
    snic_net_shut(f->net);
    snic_loop_close(f->loop);
}

/* ---- The operator ---- */

static void call_item(void *ctx, const struct snic_control_msg *m)
{
    struct ctlfix *f = ctx;
    f->items++;
    f->last = *m;
}

static void call_done(void *ctx, int status, uint64_t value)
{
    struct ctlfix *f = ctx;
    f->call_done = 1;
    f->call_status = status;
    f->call_value = value;
}

static struct snic_control_operator_opts call_opts(const struct ctlfix *f)
{
    return (struct snic_control_operator_opts){.opts_size =
                                                   sizeof(struct snic_control_operator_opts),
                                               .loop = f->op_loop,
                                               .net = f->op_net,
                                               .control = at(CTLFIX_CTL, PORT_CTL),
                                               .auth = f->keys ? &f->auth_operator : NULL};
}

void ctlfix_request_begin(struct ctlfix *f, const struct snic_control_msg *m)
{
    static const struct snic_control_operator_events ev = {.item = call_item, .done = call_done};
    const struct snic_control_operator_opts o = call_opts(f);
    f->call_done = 0;
    f->items = 0;
    if (f->call != NULL) {
        int r = snic_control_operator_request(f->call, m);
        if (r == 0)
            return;
        (void)snic_control_operator_close(f->call);
        f->call = NULL;
    }
    size_t size = snic_control_operator_memsize(&o);
    assert_int_equal(snic_control_operator_open(&f->call, f->call_mem, size, &o, &ev, f), 0);
    assert_int_equal(snic_control_operator_request(f->call, m), 0);
}

int ctlfix_request(struct ctlfix *f, const struct snic_control_msg *m)
{
    ctlfix_request_begin(f, m);
    while (!f->call_done)
        assert_int_equal(snic_world_step(f->world), 1);
    return f->call_status;
}

const char *ctlfix_name(uint32_t disk)
{
    static const char *names[CTLFIX_DISKS] = {"root", "data-1", "data-2"};
    return names[disk];
}

int ctlfix_create(struct ctlfix *f, uint32_t disk)
{
    struct snic_control_msg m = {.type = SNIC_CONTROL_CREATE, .bytes = CTLFIX_BLOCKS * 4096};
    memcpy(m.name, ctlfix_name(disk), strlen(ctlfix_name(disk)));
    memcpy(m.key, f->key, sizeof(m.key));
    return ctlfix_request(f, &m);
}

void ctlfix_move_msg(struct snic_control_msg *m, uint32_t disk, uint64_t segment, uint32_t server)
{
    memset(m, 0, sizeof(*m));
    m->type = SNIC_CONTROL_MOVE;
    m->segment = segment;
    m->server = server;
    memcpy(m->name, ctlfix_name(disk), strlen(ctlfix_name(disk)));
}

int ctlfix_move(struct ctlfix *f, uint32_t disk, uint64_t segment, uint32_t server)
{
    struct snic_control_msg m;
    ctlfix_move_msg(&m, disk, segment, ctlfix_id(f, server));
    return ctlfix_request(f, &m);
}

/* ---- Beginning and end ---- */

void ctlfix_run(struct ctlfix *f, uint64_t ns)
{
    (void)snic_world_run(f->world, snic_world_now(f->world) + ns, UINT64_MAX);
}

void ctlfix_check(struct ctlfix *f)
{
    for (uint32_t i = 0; i < f->servers; i++)
        if (f->server[i].s != NULL)
            assert_int_equal(snic_volume_server_check(f->server[i].s), 0);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        if (f->client[i].v != NULL)
            assert_int_equal(snic_volume_check(f->client[i].v), 0);
    if (f->ctl != NULL)
        assert_int_equal(snic_control_check(f->ctl), 0);
    assert_string_equal(f->why, "");
}

static void start(struct ctlfix *f, uint64_t seed, uint32_t servers, int keys)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = seed};
    struct snic_net_fabric_opts n = {.opts_size = sizeof(n), .recv_size = 4096};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .seed = seed + 99, .size = 2u << 20};
    memset(f, 0, sizeof(*f));
    f->seed = seed;
    f->servers = servers;
    f->strict = 1;
    if (keys)
        keys_begin(f);
    f->segments_max = 64;
    f->lookups_max = 64 + CTLFIX_DISKS;
    f->servers_max = CTLFIX_SERVERS;
    snic_rng_init(&f->rng, seed);
    assert_int_equal(snic_world_open(&f->world, &w), 0);
    assert_int_equal(snic_net_fabric_open(&f->fabric, f->world, &n), 0);
    d.delay_min_ns = 20000;
    d.delay_max_ns = 200000;
    assert_int_equal(snic_disk_open(&f->disk, &d), 0);
    d.size = 48u << 20;
    assert_int_equal(snic_world_loop(f->world, CTLFIX_OPERATOR, &f->op_loop), 0);
    assert_int_equal(snic_net_sim_open(&f->op_net, f->fabric, f->op_loop, &ctlfix_net), 0);
    const struct snic_control_operator_opts call = call_opts(f);
    f->call_mem = support_guard_alloc(snic_control_operator_memsize(&call), SNIC_CONTROL_ALIGN);
    assert_int_equal(ctlfix_ctl_start(f), 0);
    for (uint32_t i = 0; i < servers; i++) {
        d.seed = seed + i;
        f->server[i].f = f;
        f->server[i].index = i;
        assert_int_equal(snic_disk_open(&f->server[i].disk, &d), 0);
        ctlfix_server_start(f, i);
    }
    ctlfix_ready(f);
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++)
        ctlclient_init(f, i);
}

void ctlfix_start(struct ctlfix *f, uint64_t seed, uint32_t servers)
{
    start(f, seed, servers, 0);
}

void ctlfix_start_keys(struct ctlfix *f, uint64_t seed, uint32_t servers)
{
    start(f, seed, servers, 1);
}

void ctlfix_end(struct ctlfix *f)
{
    for (uint32_t i = 0; i < CTLFIX_CLIENTS; i++) {
        if (f->client[i].v != NULL)
            ctlfix_client_kill(f, i);
        ctlclient_fini(f, i);
    }
    if (f->call != NULL)
        (void)snic_control_operator_close(f->call);
    support_guard_free(f->call_mem);
    snic_net_shut(f->op_net);
    snic_loop_close(f->op_loop);
    for (uint32_t i = 0; i < f->servers; i++) {
        if (f->server[i].s != NULL)
            ctlfix_server_kill(f, i, 0);
        snic_disk_close(f->server[i].disk);
    }
    if (f->ctl != NULL)
        ctlfix_ctl_kill(f, 0);
    snic_disk_close(f->disk);
    snic_net_fabric_close(f->fabric);
    snic_world_close(f->world);
    assert_string_equal(f->why, "");
}
