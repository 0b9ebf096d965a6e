/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Changes of a target that serves: hosts, sizes, ANA, subsystems that go, records of reservations.
 */
#include "test_nvmet_util.h"

#include <stdio.h>
#include <string.h>

#define HOST_0 x.h[0].hostnqn
#define HOST_1 x.h[1].hostnqn

static struct tx x;
static struct nh_queue admin, io, admin_b, io_b;
static unsigned char buf[1 << 16];

static struct {
    uint32_t calls;
    uint32_t subsystem;
    uint32_t nsid;
    uint64_t sequence;
    int answer; /* at once */
    int error;
} store;
static uint32_t gone, gone_number;

static void persist(void *ctx, uint32_t subsystem, uint32_t nsid, uint64_t sequence)
{
    assert_ptr_equal(ctx, &store);
    store.calls++;
    store.subsystem = subsystem;
    store.nsid = nsid;
    store.sequence = sequence;
    if (store.answer)
        snic_nvmet_persisted(x.t, subsystem, nsid, sequence, store.error);
}

static void removed(void *ctx, uint32_t subsystem)
{
    assert_ptr_equal(ctx, &gone);
    gone++;
    gone_number = subsystem;
}

static void begin_target(uint32_t flags)
{
    memset(&store, 0, sizeof(store));
    gone = 0;
    tx_opts(&x);
    x.s.flags = flags;
    x.s.persist = persist;
    x.s.persist_ctx = &store;
    tx_open(&x);
}

static uint32_t read_block(struct nh_queue *q)
{
    return nh_io(q, SNIC_NVME_IO_READ, 1, 0, 1, buf, TX_BLOCK);
}

/** Hosts come and go by their rules; controllers that a change excludes end, others do not. */
static void test_nvmet_change_hosts(void **state)
{
    struct snic_nvmesub_range far = {.family = SNIC_NVME_ADRFAM_IPV4, .bits = 8, .address = {10}};
    (void)state;
    begin_target(0);
    assert_int_equal(snic_nvmet_allow(x.t, 9, HOST_0, 0, NULL, 0), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_allow(x.t, 0, "", 0, NULL, 0), SNIC_EINVAL);
    assert_int_equal(snic_nvmet_deny(x.t, 0, HOST_0), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_deny(x.t, 9, HOST_0), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_any_host(x.t, 9, 1), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_allow(x.t, 0, HOST_0, 0, NULL, 0), 0);
    assert_int_equal(snic_nvmet_allow(x.t, 0, HOST_0, 0, NULL, 0), 0);
    tx_host(&x, 0, &admin, &io);
    assert_int_not_equal(nh_admin(&admin_b, &x.h[1]), 0);
    nh_close(&admin_b);
    assert_int_equal(snic_nvmet_any_host(x.t, 0, 1), 0);
    tx_host(&x, 1, &admin_b, &io_b);
    assert_int_equal(read_block(&io_b), 0);
    assert_int_equal(snic_nvmet_any_host(x.t, 0, 0), 0);
    assert_int_equal(read_block(&io_b), NH_ENDED);
    assert_int_equal(read_block(&io), 0);
    nh_close(&io_b);
    nh_close(&admin_b);
    assert_int_equal(snic_nvmet_allow(x.t, 0, HOST_1, 0, NULL, 0), 0);
    tx_host(&x, 1, &admin_b, &io_b);
    assert_int_equal(snic_nvmet_allow(x.t, 0, HOST_1, 0, &far, 1), 0);
    assert_int_equal(read_block(&io_b), NH_ENDED);
    nh_close(&io_b);
    nh_close(&admin_b);
    assert_int_equal(snic_nvmet_deny(x.t, 0, HOST_0), 0);
    assert_int_equal(read_block(&io), NH_ENDED);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** 64 names of each subsystem, again and again: the list and discovery's rules do not fill up. */
static void test_nvmet_change_hosts_limit(void **state)
{
    char nqn[32];
    (void)state;
    begin_target(0);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 65; i++) {
            (void)snprintf(nqn, sizeof(nqn), "nqn.%d.%d", round, i);
            assert_int_equal(snic_nvmet_allow(x.t, 0, nqn, 0, NULL, 0), i < 64 ? 0 : SNIC_ENOSPC);
        }
        for (int i = 64; i-- > 0;) {
            (void)snprintf(nqn, sizeof(nqn), "nqn.%d.%d", round, (i + 7 * round) % 64);
            assert_int_equal(snic_nvmet_deny(x.t, 0, nqn), 0);
        }
        assert_int_equal(snic_nvmet_check(x.t), 0);
    }
    tx_close(&x);
}

static void test_nvmet_change_size_and_ana(void **state)
{
    (void)state;
    begin_target(SNIC_NVMESUB_ANY_HOST);
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(snic_nvmet_ns_resize(x.t, 9, 1, TX_BYTES), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_ns_resize(x.t, 0, 2, TX_BYTES), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_ns_resize(x.t, 0, 1, TX_BLOCK - 1), SNIC_EINVAL);
    assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_NS, 1, buf), 0);
    assert_int_equal(snic_get_le64(buf), TX_BLOCKS);
    assert_int_equal(snic_nvmet_ns_resize(x.t, 0, 1, TX_BLOCK), 0);
    assert_int_equal(nh_identify(&admin, SNIC_NVME_CNS_NS, 1, buf), 0);
    assert_int_equal(snic_get_le64(buf), 1);
    assert_int_not_equal(nh_io(&io, SNIC_NVME_IO_READ, 1, 1, 1, buf, TX_BLOCK), 0);
    assert_int_equal(read_block(&io), 0);
    assert_int_equal(snic_nvmet_ana_set(x.t, 9, 1, 0, SNIC_NVME_ANA_LOSS), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_ana_set(x.t, 0, 1, 0, 9), SNIC_EINVAL);
    assert_int_equal(snic_nvmet_ana_set(x.t, 0, 1, 0, SNIC_NVME_ANA_INACCESSIBLE), 0);
    assert_int_not_equal(read_block(&io), 0);
    assert_int_equal(snic_nvmet_ana_set(x.t, 0, 1, 0, SNIC_NVME_ANA_OPTIMIZED), 0);
    assert_int_equal(read_block(&io), 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

static void ns_removed(void *ctx, struct snic_io *handle)
{
    (void)handle;
    ++*(int *)ctx;
}

/** It goes when its connections have ended; its number and name can be used again. */
static void test_nvmet_change_subsystem_removed(void **state)
{
    int done = 0;
    (void)state;
    begin_target(SNIC_NVMESUB_ANY_HOST);
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(snic_nvmet_subsystem_remove(x.t, 9, removed, &gone), SNIC_ENOENT);
    assert_int_equal(snic_nvmet_subsystem_remove(x.t, 0, removed, &gone), SNIC_EBUSY);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, ns_removed, &done), 0);
    tx_run(&x, 10 * TX_MS);
    assert_int_equal(done, 1);
    assert_int_equal(snic_nvmet_subsystem_remove(x.t, 0, removed, &gone), 0);
    assert_int_equal(snic_nvmet_subsystem_remove(x.t, 0, removed, &gone), SNIC_ENOENT);
    assert_null(snic_nvmet_engine(x.t, 0));
    assert_int_equal(read_block(&io), NH_ENDED);
    nh_close(&io);
    nh_close(&admin);
    tx_run(&x, 100 * TX_MS);
    assert_int_equal(gone, 1);
    assert_int_equal(gone_number, 0);
    assert_int_not_equal(nh_admin(&admin, &x.h[0]), 0);
    nh_close(&admin);
    assert_int_equal(snic_nvmet_subsystem_add(x.t, &x.s), 0);
    x.n.io = x.io;
    assert_int_equal(snic_nvmet_ns_add(x.t, 0, &x.n), 1);
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(read_block(&io), 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

/** Closed while one goes: its memory comes back all the same. */
static void test_nvmet_change_subsystem_removed_then_closed(void **state)
{
    int done = 0;
    (void)state;
    begin_target(SNIC_NVMESUB_ANY_HOST);
    tx_host(&x, 0, &admin, &io);
    assert_int_equal(snic_nvmet_ns_remove(x.t, 0, 1, ns_removed, &done), 0);
    tx_run(&x, 10 * TX_MS);
    assert_int_equal(snic_nvmet_subsystem_remove(x.t, 0, removed, &gone), 0);
    tx_close_target(&x);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

static void prepare(struct nh_cmd *cmd, uint32_t cdw10, uint64_t key)
{
    struct snic_nvme_sqe e = {.opcode = SNIC_NVME_IO_RESV_REGISTER, .nsid = 1, .cdw10 = cdw10};
    memset(buf, 0, 16);
    snic_put_le64(buf + 8, key);
    nh_prepare(cmd, &e, buf, 16);
}

/** A command that persists is answered when the store has answered, with an error if it has. */
static void test_nvmet_change_persists_before_answer(void **state)
{
    struct nh_cmd cmd;
    uint32_t ptpl = SNIC_NVME_RESV_PTPL_SET << 30;
    (void)state;
    begin_target(SNIC_NVMESUB_ANY_HOST);
    tx_host(&x, 0, &admin, &io);
    prepare(&cmd, 0, 5); /* without PTPL nothing is stored */
    assert_int_equal(nh_submit(&io, &cmd), 0);
    assert_int_equal(nh_wait(&io, &cmd), 0);
    assert_int_equal(store.calls, 0);
    prepare(&cmd, ptpl, 5);
    assert_int_equal(nh_submit(&io, &cmd), 0);
    tx_run(&x, 100 * TX_MS);
    nh_pump(&io);
    assert_int_equal(store.calls, 1);
    assert_int_equal(store.nsid, 1);
    assert_int_equal(cmd.done, 0);
    snic_nvmet_persisted(x.t, 9, 1, store.sequence, 0);
    assert_int_equal(cmd.done, 0);
    snic_nvmet_persisted(x.t, store.subsystem, 1, store.sequence, 0);
    assert_int_equal(nh_wait(&io, &cmd), 0);
    store.answer = 1;
    store.error = SNIC_EIO;
    prepare(&cmd, ptpl, 5);
    assert_int_equal(nh_submit(&io, &cmd), 0);
    assert_int_equal(nh_wait(&io, &cmd) & 0x7ff, SNIC_NVME_SC_INTERNAL);
    store.error = 0;
    prepare(&cmd, ptpl, 5);
    assert_int_equal(nh_submit(&io, &cmd), 0);
    assert_int_equal(nh_wait(&io, &cmd), 0);
    nh_close(&io);
    nh_close(&admin);
    tx_close(&x);
}

#define ONE(f) cmocka_unit_test_setup(f, tx_without_switch)
#define ALL(f) cmocka_unit_test_setup(f, tx_with_both)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ONE(test_nvmet_change_hosts),
        ALL(test_nvmet_change_hosts),
        ONE(test_nvmet_change_hosts_limit),
        ONE(test_nvmet_change_size_and_ana),
        ALL(test_nvmet_change_size_and_ana),
        ONE(test_nvmet_change_subsystem_removed),
        ALL(test_nvmet_change_subsystem_removed),
        ONE(test_nvmet_change_subsystem_removed_then_closed),
        ALL(test_nvmet_change_subsystem_removed_then_closed),
        ONE(test_nvmet_change_persists_before_answer),
        ALL(test_nvmet_change_persists_before_answer),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
