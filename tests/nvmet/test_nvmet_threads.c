/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The same hosts (test_nvmet_play.h) over TCP, against a target whose two or three loops are
 * threads: for ThreadSanitizer, and for the oracle. Each host connection goes to a loop of its own
 * choice; the namespace, on the last loop, is removed and added by the first one's thread.
 */
#include "test_nvmet_play.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { PRESENT, REMOVING, GONE };

struct part {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_nvmet *t;
    void *mem;
    struct snic_loop_msg stop;
    pthread_t thread;
    int stopping;
};

static struct part part[TX_LOOPS];
static uint32_t loops;
static struct snic_nvmet_opts o;
static struct snic_nvmet_ns_opts n;
static struct snic_disk *disk;
static struct snic_io *io;
static void *qos_mem;
static struct snic_loop *loop; /* the hosts' */
static struct snic_net *net;
static struct nh hosts[PLAY_HOSTS];
static struct snic_net_addr addrs[TX_LOOPS];
static struct play play;
static struct snic_loop_msg message; /* to remove or add */
static _Atomic int namespace_is, message_away;
static uint32_t removals;

static struct snic_net_addr addr(void)
{
    return addrs[play_any(&play, loops)];
}

static void pass(void)
{
    (void)snic_loop_once(loop, play_any(&play, 1000000));
}

static int present(void)
{
    return atomic_load(&namespace_is) == PRESENT && !atomic_load(&message_away);
}

static void removed(void *ctx, struct snic_io *handle)
{
    (void)ctx;
    assert_ptr_equal(handle, io);
    atomic_store(&namespace_is, GONE);
}

/* On the first loop's thread. */
static void changed(struct snic_loop_msg *m)
{
    (void)m;
    if (atomic_load(&namespace_is) == PRESENT) {
        atomic_store(&namespace_is, REMOVING);
        assert_int_equal(snic_nvmet_ns_remove(part[0].t, 0, 1, removed, NULL), 0);
    } else if (atomic_load(&namespace_is) == GONE) {
        int r = snic_nvmet_ns_add(part[0].t, 0, &n);
        assert_true(r == 1 || r == SNIC_EEXIST); /* the answer is on its way */
        if (r == 1)
            atomic_store(&namespace_is, PRESENT);
    }
    atomic_store(&message_away, 0);
}

static void change(void)
{
    if (atomic_exchange(&message_away, 1))
        return;
    removals += atomic_load(&namespace_is) == PRESENT;
    message.fn = changed;
    snic_loop_post(part[0].loop, &message);
}

static void part_stop(struct snic_loop_msg *m)
{
    SNIC_CONTAINER(m, struct part, stop)->stopping = 1;
}

static void *part_run(void *ctx)
{
    struct part *p = ctx;
    while (!p->stopping)
        assert_true(snic_loop_once(p->loop, SNIC_NEVER) >= 0);
    assert_int_equal(snic_nvmet_check(p->t), 0);
    assert_ptr_equal(snic_nvmet_close(p->t), p->mem);
    if (p == &part[loops - 1])
        snic_io_close(io);
    snic_net_shut(p->net);
    return NULL;
}

static void part_open(uint32_t i)
{
    struct part *p = &part[i];
    size_t size = i == 0 ? snic_nvmet_memsize(&o) : snic_nvmet_join_memsize(&o);
    memset(p, 0, sizeof(*p));
    assert_int_equal(snic_loop_uring_open(&p->loop, NULL), 0);
    assert_int_equal(snic_net_uring_open(&p->net, p->loop, NULL), 0);
    p->mem = support_guard_alloc(size, SNIC_NVMET_ALIGN);
    if (i == 0)
        assert_int_equal(snic_nvmet_open(&p->t, p->mem, size, p->net, &o), 0);
    else
        assert_int_equal(snic_nvmet_join(&p->t, p->mem, size, p->net, part[0].t), 0);
    p->stop.fn = part_stop;
}

static void device_open(int with_switch)
{
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = TX_BYTES,
                               .seed = support_seed(),
                               .delay_min_ns = 20000,
                               .delay_max_ns = 2000000,
                               .depth = with_switch ? 1024 : 4};
    struct snic_qos_opts q = {.opts_size = sizeof(q), .flags = SNIC_QOS_AUTO};
    assert_int_equal(snic_disk_open(&disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&io, part[loops - 1].loop, disk), 0);
    memset(&n, 0, sizeof(n));
    n.opts_size = sizeof(n);
    n.nsid = 1;
    n.uuid[0] = 1;
    qos_mem = NULL;
    if (with_switch) {
        size_t size = snic_qos_memsize(io, &q);
        qos_mem = support_guard_alloc(size, SNIC_QOS_ALIGN);
        assert_int_equal(snic_qos_open(&io, qos_mem, size, io, &q), 0);
        n.reserve = snic_qos_reserve;
        n.commit = snic_qos_commit;
    }
    n.io = io;
}

static void target_open(int with_switch)
{
    struct snic_nvmet_subsystem_opts s = {
        .opts_size = sizeof(s), .subnqn = TX_SUBNQN, .flags = SNIC_NVMESUB_ANY_HOST};
    struct snic_net_addr any;
    assert_int_equal(snic_net_addr_parse(&any, "127.0.0.1:0"), 0);
    o = (struct snic_nvmet_opts){.opts_size = sizeof(o),
                                 .conns_max = 16,
                                 .host_conns_max = 16,
                                 .data_max = 64u << 10,
                                 .data_bytes = 128u << 10,
                                 .loops_max = loops};
    for (uint32_t i = 0; i < loops; i++)
        part_open(i);
    device_open(with_switch);
    assert_int_equal(snic_nvmet_subsystem_add(part[0].t, &s), 0);
    assert_int_equal(snic_nvmet_ns_add(part[0].t, 0, &n), 1);
    assert_int_equal(snic_nvmet_listen(part[0].t, &any, NULL), 0);
    for (uint32_t i = 1; i < loops; i++)
        assert_int_equal(snic_nvmet_share(part[i].t, 0, &any), 0);
    for (uint32_t i = 0; i < loops; i++)
        assert_int_equal(snic_nvmet_listen_addr(part[i].t, 0, &addrs[i]), 0);
    atomic_store(&namespace_is, PRESENT);
    for (uint32_t i = 0; i < loops; i++)
        assert_int_equal(pthread_create(&part[i].thread, NULL, part_run, &part[i]), 0);
}

static void target_close(void)
{
    for (uint32_t i = 0; i < loops; i++)
        snic_loop_post(part[i].loop, &part[i].stop);
    for (uint32_t i = 0; i < loops; i++)
        assert_int_equal(pthread_join(part[i].thread, NULL), 0);
    for (uint32_t i = 0; i < loops; i++) {
        support_guard_free(part[i].mem);
        snic_loop_close(part[i].loop);
    }
    if (qos_mem != NULL)
        support_guard_free(qos_mem);
}

static void run(uint32_t count, int with_switch, uint32_t steps)
{
    static const char *const nqns[PLAY_HOSTS] = {"nqn.2026-11.example:h0", "nqn.2026-11.example:h1",
                                                 "nqn.2026-11.example:h2"};
    loops = count;
    target_open(with_switch);
    memset(hosts, 0, sizeof(hosts));
    for (uint32_t i = 0; i < PLAY_HOSTS; i++) {
        hosts[i].loop = loop;
        hosts[i].net = net;
        hosts[i].subnqn = TX_SUBNQN;
        hosts[i].hostnqn = nqns[i];
        hosts[i].hostid[0] = (uint8_t)(i + 1);
        hosts[i].capsule = i == 0 ? 8192 : 0;
        hosts[i].digests = i;
    }
    play_begin(&play);
    for (uint32_t i = 0; i < steps; i++)
        play_step(&play);
    if (play_any(&play, 2) == 0)
        play_end(&play); /* or the target closes under them */
    while (atomic_load(&message_away))
        pass();
    target_close();
    play_end(&play);
    play_check_disk(&play, snic_disk_bytes(disk));
    snic_disk_close(disk);
}

static void test_nvmet_threads_hosts_die_and_return(void **state)
{
    uint64_t rounds = support_rounds(4, 200);
    (void)state;
    memset(&play, 0, sizeof(play));
    snic_rng_init(&play.rng, support_seed());
    play.h = hosts;
    play.addr = addr;
    play.pass = pass;
    play.change = change;
    play.present = present;
    assert_int_equal(snic_loop_uring_open(&loop, NULL), 0);
    assert_int_equal(snic_net_uring_open(&net, loop, NULL), 0);
    for (uint64_t i = 0; i < rounds; i++)
        run(2 + i % 2, i % 4 >= 2, 600);
    print_message("%u connections killed, %u resets, %u removals, %u reads checked\n", play.kills,
                  play.resets, removals, play.reads);
    assert_true(play.kills > 0);
    snic_net_shut(net);
    snic_loop_close(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmet_threads_hosts_die_and_return),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
