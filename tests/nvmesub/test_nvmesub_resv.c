/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reservations. Exhaustive: two hosts with two keys, every reachable state, every command with
 * every action, type and key, against a model written from the base specification 2.0,
 * section 8.19: status, registrants, holder, GEN, notifications, and what each host (and a third
 * one that never registers) may read and write. Then records, preempt and abort, notifications one
 * by one.
 */
#include "test_nvmesub_util.h"

static struct nx x;

/* ---- The model ---- */

enum { HOSTS = 2, OUTSIDER = 2 };

struct model {
    uint64_t key[HOSTS]; /* 0: not registered */
    uint32_t rtype;
    int holder; /* of types 1 to 4 */
    uint32_t gen;
    uint8_t notice[HOSTS]; /* the last command's */
};

enum { HOLDER, REGISTRANT, NEITHER };
/* The specification's table: may [type][who] read, write? */
static const uint8_t may_read[7][3] = {{1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 1, 1},
                                       {1, 1, 0}, {1, 1, 1}, {1, 1, 0}};
static const uint8_t may_write[7][3] = {{1, 1, 1}, {1, 0, 0}, {1, 0, 0}, {1, 1, 0},
                                        {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};

static int who(const struct model *m, int h)
{
    if (h == OUTSIDER || m->key[h] == 0)
        return NEITHER;
    return m->rtype >= 5 || (m->rtype != 0 && m->holder == h) ? HOLDER : REGISTRANT;
}

static void model_unregister(struct model *m, int h)
{
    int held = m->rtype >= 1 && m->rtype <= 4 && m->holder == h;
    m->key[h] = 0;
    if (held || (m->rtype >= 5 && m->key[0] == 0 && m->key[1] == 0))
        m->rtype = 0;
}

static uint32_t model_register(struct model *m, int h, uint32_t action, int iekey, uint64_t crkey,
                               uint64_t nrkey)
{
    uint32_t before = m->rtype;
    if (action > 2)
        return NX_DNR(INVALID_FIELD);
    if (action == 0 && m->key[h] != 0 && m->key[h] != nrkey)
        return NX_DNR(RESERVATION_CONFLICT);
    if (action == 1 && (m->key[h] == 0 || (!iekey && m->key[h] != crkey)))
        return NX_DNR(RESERVATION_CONFLICT);
    if (action == 2 && !iekey && (m->key[h] == 0 || m->key[h] != crkey))
        return NX_DNR(RESERVATION_CONFLICT);
    if (action != 1 && nrkey == 0)
        return NX_DNR(INVALID_FIELD);
    if (action == 1)
        model_unregister(m, h);
    else
        m->key[h] = nrkey;
    if (m->rtype == 0 && (before == 3 || before == 4) && m->key[!h] != 0)
        m->notice[!h] = SNIC_NVME_RESV_LOG_RELEASED;
    m->gen++;
    return 0;
}

static uint32_t model_preempt(struct model *m, int h, uint32_t rtype, uint64_t prkey)
{
    int other = !h, count = 0;
    uint32_t before = m->rtype;
    uint64_t held = before >= 1 && before <= 4 ? m->key[m->holder] : 0;
    if (before != 0 && prkey == held) { /* all registrants: PRKEY 0 */
        m->rtype = rtype;
        m->holder = h;
        if (m->key[other] != 0 && (prkey == 0 || m->key[other] == prkey)) {
            m->key[other] = 0;
            m->notice[other] = SNIC_NVME_RESV_LOG_REGISTRATION_PREEMPTED;
        } else if (m->key[other] != 0 && before != rtype) {
            m->notice[other] = SNIC_NVME_RESV_LOG_RELEASED;
        }
        m->gen++;
        return 0;
    }
    if (before != 0 && prkey == 0)
        return NX_DNR(INVALID_FIELD);
    for (int i = 0; i < HOSTS; i++)
        if (prkey != 0 && m->key[i] == prkey) {
            model_unregister(m, i);
            count++;
            if (i == other)
                m->notice[i] = SNIC_NVME_RESV_LOG_REGISTRATION_PREEMPTED;
        }
    if (count == 0)
        return NX_DNR(RESERVATION_CONFLICT);
    m->gen++;
    return 0;
}

static uint32_t model_acquire(struct model *m, int h, uint32_t action, int iekey, uint32_t rtype,
                              uint64_t crkey, uint64_t prkey)
{
    if (iekey || rtype == 0 || rtype > 6 || action > 2)
        return NX_DNR(INVALID_FIELD);
    if (m->key[h] == 0 || m->key[h] != crkey)
        return NX_DNR(RESERVATION_CONFLICT);
    if (action != 0)
        return model_preempt(m, h, rtype, prkey);
    if (m->rtype != 0)
        return m->rtype == rtype && who(m, h) == HOLDER ? 0 : NX_DNR(RESERVATION_CONFLICT);
    m->rtype = rtype;
    m->holder = h;
    return 0;
}

static uint32_t model_release(struct model *m, int h, uint32_t action, int iekey, uint32_t rtype,
                              uint64_t crkey)
{
    int other = !h;
    if (iekey || action > 1)
        return NX_DNR(INVALID_FIELD);
    if (m->key[h] == 0 || m->key[h] != crkey)
        return NX_DNR(RESERVATION_CONFLICT);
    if (action == 1) {
        if (m->key[other] != 0)
            m->notice[other] = SNIC_NVME_RESV_LOG_PREEMPTED;
        m->key[0] = m->key[1] = 0;
        m->rtype = 0;
        m->gen++;
        return 0;
    }
    if (m->rtype == 0 || who(m, h) != HOLDER)
        return 0;
    if (rtype != m->rtype)
        return NX_DNR(INVALID_FIELD);
    if (m->rtype >= 3 && m->key[other] != 0)
        m->notice[other] = SNIC_NVME_RESV_LOG_RELEASED;
    m->rtype = 0;
    return 0;
}

/* ---- The engine beside it ---- */

static struct nx_ctrl ctrl[HOSTS + 1];
static uint32_t queue[HOSTS + 1];

static void begin(void)
{
    nx_open(&x, NULL);
    nx_ns(&x, 1, 100);
    for (int h = 0; h <= HOSTS; h++) {
        ctrl[h] = nx_admin(&x, h, 0, 0);
        queue[h] = nx_queue(&x, &ctrl[h], 1);
    }
}

static uint32_t report(struct nx_ctrl *c, uint32_t q, uint32_t bytes, int eds)
{
    struct snic_nvme_sqe e;
    (void)c;
    nx_sqe(&e, SNIC_NVME_IO_RESV_REPORT, 1, bytes);
    e.cdw10 = bytes / 4 - 1;
    e.cdw11 = (uint32_t)eds;
    return nx_run(&x, q, &e, NULL);
}

static void compare(const struct model *m)
{
    assert_int_equal(report(&ctrl[0], queue[0], 192, 1), 0);
    const unsigned char *p = x.last->data;
    uint32_t count = (m->key[0] != 0 ? 1U : 0U) + (m->key[1] != 0 ? 1U : 0U);
    assert_int_equal(snic_get_le32(p), m->gen);
    assert_int_equal(p[4], m->rtype);
    assert_int_equal(snic_get_le16(p + 5), count);
    for (uint32_t i = 0; i < count; i++) {
        const struct snic_nvme_resv_controller *r = (const void *)(p + 64 + 64 * i);
        int h = r->hostid[0] - 0x10;
        assert_in_range(h, 0, 1);
        assert_int_equal(snic_get_le64(&r->rkey), m->key[h]);
        assert_int_equal(r->rcsts, m->rtype != 0 && who(m, h) == HOLDER);
        assert_int_equal(snic_get_le16(&r->cntlid), 0xffff);
    }
    for (int h = 0; h <= HOSTS; h++) {
        static const uint8_t reads[] = {SNIC_NVME_IO_READ, SNIC_NVME_IO_COMPARE,
                                        SNIC_NVME_IO_VERIFY};
        static const uint8_t writes[] = {SNIC_NVME_IO_WRITE, SNIC_NVME_IO_WRITE_ZEROES,
                                         SNIC_NVME_IO_DSM, SNIC_NVME_IO_FLUSH};
        struct snic_nvmesub_op op;
        uint32_t no = NX_STATUS(NX_DNR(RESERVATION_CONFLICT));
        for (size_t i = 0; i < sizeof(reads); i++)
            assert_int_equal(nx_io(&x, queue[h], reads[i], 1, 0, &op),
                             may_read[m->rtype][who(m, h)] ? 0 : no);
        for (size_t i = 0; i < sizeof(writes); i++)
            assert_int_equal(nx_io(&x, queue[h], writes[i], 1, 0, &op),
                             may_write[m->rtype][who(m, h)] ? 0 : no);
    }
    for (int h = 0; h < HOSTS; h++) {
        const unsigned char *log = nx_log(&x, &ctrl[h], SNIC_NVME_LOG_RESERVATION, 64, 0);
        assert_int_equal(log[8], m->notice[h]);
        assert_int_equal(log[9], 0);
    }
}

static uint32_t resv(int h, uint8_t opcode, uint32_t cdw10, uint64_t crkey, uint64_t other)
{
    return nx_resv(&x, queue[h], opcode, 1, cdw10, crkey, other);
}

static void clear_notices(void)
{
    for (int h = 0; h < HOSTS; h++)
        while (nx_log(&x, &ctrl[h], SNIC_NVME_LOG_RESERVATION, 64, 0)[8] != 0)
            ;
}

/** The engine in the model's state, by commands; the model's GEN is the engine's. */
static void enter(struct model *m)
{
    struct snic_nvmesub_ns_status st;
    for (int h = 0; h < HOSTS; h++)
        resv(h, SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_UNREGISTER | SNIC_NVME_RESV_IEKEY, 0, 0);
    for (int h = 0; h < HOSTS; h++)
        if (m->key[h] != 0)
            assert_int_equal(resv(h, SNIC_NVME_IO_RESV_REGISTER, 0, 0, m->key[h]), 0);
    if (m->rtype != 0)
        assert_int_equal(
            resv(m->holder, SNIC_NVME_IO_RESV_ACQUIRE, m->rtype << 8, m->key[m->holder], 0), 0);
    clear_notices();
    assert_int_equal(snic_nvmesub_get_ns(x.s, 1, &st), 0);
    m->gen = st.generation;
}

static void try_register(const struct model *m, int h, uint32_t action, int iekey)
{
    for (uint64_t crkey = 0; crkey <= 2; crkey++)
        for (uint64_t nrkey = 0; nrkey <= 2; nrkey++) {
            struct model after = *m;
            enter(&after);
            uint32_t status = model_register(&after, h, action, iekey, crkey, nrkey);
            assert_int_equal(resv(h, SNIC_NVME_IO_RESV_REGISTER,
                                  action | (iekey ? SNIC_NVME_RESV_IEKEY : 0U), crkey, nrkey),
                             status);
            compare(&after);
        }
}

static void try_acquire(const struct model *m, int h, uint32_t action, int iekey, uint32_t rtype)
{
    for (uint64_t crkey = 1; crkey <= 2; crkey++)
        for (uint64_t prkey = 0; prkey <= 2; prkey++) {
            struct model after = *m;
            enter(&after);
            uint32_t status = model_acquire(&after, h, action, iekey, rtype, crkey, prkey);
            assert_int_equal(resv(h, SNIC_NVME_IO_RESV_ACQUIRE,
                                  action | (iekey ? SNIC_NVME_RESV_IEKEY : 0U) | rtype << 8, crkey,
                                  prkey),
                             status);
            compare(&after);
        }
}

static void try_release(const struct model *m, int h, uint32_t action, int iekey, uint32_t rtype)
{
    for (uint64_t crkey = 1; crkey <= 2; crkey++) {
        struct model after = *m;
        enter(&after);
        uint32_t status = model_release(&after, h, action, iekey, rtype, crkey);
        assert_int_equal(resv(h, SNIC_NVME_IO_RESV_RELEASE,
                              action | (iekey ? SNIC_NVME_RESV_IEKEY : 0U) | rtype << 8, crkey, 0),
                         status);
        compare(&after);
    }
}

static void try_all(const struct model *m)
{
    for (int h = 0; h < HOSTS; h++)
        for (int iekey = 0; iekey < 2; iekey++) {
            for (uint32_t action = 0; action < 4; action++)
                try_register(m, h, action, iekey);
            for (uint32_t rtype = 0; rtype < (iekey ? 2 : 8); rtype++) {
                for (uint32_t action = 0; action < 4; action++)
                    try_acquire(m, h, action, iekey, rtype);
                for (uint32_t action = 0; action < 3; action++)
                    try_release(m, h, action, iekey, rtype);
            }
        }
}

/* Every state is one that commands reach, so enter() proves them reachable. Under a sanitizer every
 * n-th. */
static void test_nvmesub_reservations_all_states_all_commands(void **state)
{
    (void)state;
    uint64_t stride = support_stride(4, 24), n = support_turn(stride);
    begin();
    for (uint64_t k = 0; k < 9; k++)
        for (uint32_t rtype = 0; rtype <= 6; rtype++)
            for (int holder = 0; holder < HOSTS; holder++) {
                struct model m = {
                    .key = {k % 3, k / 3}, .rtype = rtype, .holder = rtype == 0 ? 0 : holder};
                if ((rtype == 0 && holder != 0) || (rtype != 0 && m.key[holder] == 0))
                    continue;
                if (n++ % stride == 0)
                    try_all(&m);
            }
    nx_close(&x);
}

/* ---- Records ---- */

static void test_nvmesub_reservation_survives_in_its_record(void **state)
{
    (void)state;
    begin();
    assert_int_equal(resv(0, SNIC_NVME_IO_RESV_REGISTER, 1U << 30, 0, 7), NX_DNR(INVALID_FIELD));
    assert_int_equal(x.persists, 0);
    assert_int_equal(resv(0, SNIC_NVME_IO_RESV_REGISTER, 3U << 30, 0, 7), 0);
    assert_int_equal(x.persists, 1);
    assert_int_equal(resv(1, SNIC_NVME_IO_RESV_REGISTER, 0, 0, 8), 0);
    assert_int_equal(resv(1, SNIC_NVME_IO_RESV_ACQUIRE, 3 << 8, 8, 0), 0);
    assert_int_equal(x.persists, 3);
    nx_close(&x);
    static struct nx old;
    old = x;
    begin();
    unsigned char *r = old.record[0];
    size_t size = (size_t)old.record_size[0];
    assert_int_equal(size, 64 + 2 * 256);
    for (size_t i = 0; i < size; i++) { /* no damage is taken for a record */
        r[i] ^= 1;
        assert_true(snic_nvmesub_restore(x.s, 1, r, size) < 0);
        r[i] ^= 1;
        assert_true(snic_nvmesub_restore(x.s, 1, r, i) < 0);
    }
    assert_int_equal(snic_nvmesub_restore(x.s, 2, r, size), SNIC_ENOENT);
    nx_ns(&x, 2, 5);
    assert_int_equal(snic_nvmesub_restore(x.s, 2, r, size), SNIC_ESTALE);
    assert_int_equal(snic_nvmesub_restore(x.s, 1, r, size), 0);
    assert_int_equal(snic_nvmesub_restore(x.s, 1, r, size), SNIC_EBUSY);
    assert_int_equal(snic_nvmesub_check(x.s), 0);
    struct model m = {.key = {7, 8}, .rtype = 3, .holder = 1, .gen = 2};
    compare(&m);
    unsigned char small[64];
    assert_int_equal(snic_nvmesub_record(x.s, 1, small, sizeof(small)), SNIC_ENOSPC);
    assert_int_equal(snic_nvmesub_record(x.s, 1, r, NX_RECORD), size);
    /* PTPL off: the record is emptied, the reservation stays as long as the power does. */
    assert_int_equal(nx_feature(&x, &ctrl[0], SNIC_NVME_FEAT_RESV_PERSIST, 1, 0), 0);
    assert_int_equal(x.record_size[0], 64);
    compare(&m);
    assert_int_equal(resv(0, SNIC_NVME_IO_RESV_REGISTER, SNIC_NVME_RESV_UNREGISTER, 7, 0), 0);
    assert_int_equal(x.persists, 1);
    assert_int_equal(resv(0, SNIC_NVME_IO_RESV_REGISTER, 3U << 30, 0, 7), 0);
    assert_int_equal(x.record_size[0], 64 + 2 * 256);
    assert_int_equal(resv(0, SNIC_NVME_IO_RESV_REGISTER, 2U << 30, 0, 7), 0);
    assert_int_equal(x.record_size[0], 64);
    assert_int_equal(x.persists, 3);
    nx_close(&x);
}

/* A command that changes what persists completes when that is stored, in any order of answers. */
static void test_nvmesub_reservation_completes_after_persisted(void **state)
{
    (void)state;
    begin();
    x.hold_persist = 1;
    struct snic_nvme_sqe e;
    unsigned char data[16] = {0};
    struct nx_cmd *c[3];
    nx_sqe(&e, SNIC_NVME_IO_RESV_REGISTER, 1, 16);
    e.cdw10 = 3U << 30;
    for (int i = 0; i < 2; i++) {
        data[8] = (unsigned char)(7 + i);
        c[i] = nx_send(&x, queue[i], &e, data);
        nx_pump(&x);
        assert_false(c[i]->done);
    }
    assert_int_equal(x.persists, 2);
    assert_int_equal(x.persist.sequence, 2);
    snic_nvmesub_persisted(x.s, 1, 1, 0);
    nx_pump(&x);
    assert_true(c[0]->done && !c[1]->done);
    data[8] = 9;
    e.cdw10 = SNIC_NVME_RESV_REPLACE | SNIC_NVME_RESV_IEKEY;
    c[2] = nx_send(&x, queue[0], &e, data);
    snic_nvmesub_persisted(x.s, 1, 2, SNIC_EIO);
    nx_pump(&x);
    assert_true(c[1]->done && !c[2]->done);
    assert_int_equal(c[1]->c.cqe.status & ~SNIC_NVME_MORE, SNIC_NVME_SC_INTERNAL);
    snic_nvmesub_persisted(x.s, 1, 1, 0); /* an old answer */
    nx_lost(&x, queue[0]);
    nx_pump(&x);
    assert_true(c[2]->dropped);
    snic_nvmesub_persisted(x.s, 1, 3, 0);
    nx_pump(&x);
    nx_close(&x);
}

static void test_nvmesub_preempt_and_abort_waits_for_quiesced(void **state)
{
    (void)state;
    begin();
    resv(0, SNIC_NVME_IO_RESV_REGISTER, 0, 0, 1);
    resv(1, SNIC_NVME_IO_RESV_REGISTER, 0, 0, 2);
    resv(1, SNIC_NVME_IO_RESV_ACQUIRE, 1 << 8, 2, 0);
    x.hold_quiesce = 1;
    struct snic_nvme_sqe e;
    unsigned char data[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};
    nx_sqe(&e, SNIC_NVME_IO_RESV_ACQUIRE, 1, 16);
    e.cdw10 = SNIC_NVME_RESV_PREEMPT_ABORT | 1 << 8;
    struct nx_cmd *c = nx_send(&x, queue[0], &e, data);
    nx_pump(&x);
    assert_false(c->done);
    assert_int_equal(x.quiesces, 1);
    assert_int_equal(x.quiesce.removal, 0);
    uint16_t host = x.conn[queue[1]].q.host;
    assert_int_equal(x.quiesce.hosts[0], UINT64_C(1) << host);
    /* Removal waits for the answer, then asks for more. */
    assert_int_equal(snic_nvmesub_ns_remove(x.s, 1), 0);
    nx_pump(&x);
    assert_int_equal(x.quiesces, 1);
    snic_nvmesub_quiesced(x.s, 1, 1);
    nx_pump(&x);
    assert_true(c->done && c->c.cqe.status == 0);
    assert_int_equal(x.quiesces, 2);
    assert_int_equal(x.quiesce.removal, 1);
    snic_nvmesub_quiesced(x.s, 1, 2);
    nx_close(&x);
}

static void test_nvmesub_reservation_refusals(void **state)
{
    (void)state;
    begin();
    assert_int_equal(report(&ctrl[0], queue[0], 192, 0), NX_DNR(HOSTID_FORMAT));
    assert_int_equal(report(&ctrl[0], queue[0], NX_DATA + 4, 1), NX_DNR(INVALID_FIELD));
    struct snic_nvme_sqe e;
    unsigned char data[16] = {0};
    nx_sqe(&e, SNIC_NVME_IO_RESV_REGISTER, 1, 8);
    assert_int_equal(nx_run(&x, queue[0], &e, data), NX_DNR(SGL_LENGTH));
    nx_sqe(&e, SNIC_NVME_IO_RESV_REGISTER, 2, 16);
    assert_int_equal(nx_run(&x, queue[0], &e, data), NX_DNR(INVALID_NS));
    nx_sqe(&e, SNIC_NVME_IO_READ, 1, 512);
    assert_int_equal(nx_run(&x, queue[0], &e, NULL), NX_DNR(INVALID_OPCODE));
    /* A host without an id may not reserve, and is a host of its own on every controller. */
    struct snic_nvme_connect_data d;
    uint16_t hosts[2];
    for (int i = 0; i < 2; i++) {
        struct nx_ctrl c = {.conn = nx_conn(&x, 0), .host = 5};
        nx_connect_data(&d, 5, SNIC_NVME_CNTLID_DYNAMIC);
        memset(d.hostid, 0, 16);
        nx_connect_sqe(&e, 0, 32, 0);
        assert_int_equal(nx_run(&x, c.conn, &e, &d), 0);
        c.cntlid = (uint16_t)x.last->c.cqe.dw0;
        nx_cc(&x, &c, NX_CC_EN);
        uint32_t q = nx_conn(&x, 0);
        snic_put_le16(&d.cntlid, c.cntlid);
        nx_connect_sqe(&e, 1, 8, 0);
        assert_int_equal(nx_run(&x, q, &e, &d), 0);
        assert_int_equal(nx_resv(&x, q, SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 1),
                         NX_DNR(HOSTID_FORMAT));
        hosts[i] = x.conn[q].q.host;
    }
    assert_int_not_equal(hosts[0], hosts[1]);
    nx_close(&x);
}

/* Masked kinds are silent; beyond the ring the oldest are lost, and their numbers show it. */
static void test_nvmesub_reservation_notifications(void **state)
{
    (void)state;
    begin();
    struct nx_cmd *aer = nx_aer(&x, &ctrl[1]);
    assert_int_equal(
        nx_feature(&x, &ctrl[1], SNIC_NVME_FEAT_RESV_MASK, 1, 1U << SNIC_NVME_RESV_LOG_RELEASED),
        0);
    resv(0, SNIC_NVME_IO_RESV_REGISTER, 0, 0, 1);
    resv(1, SNIC_NVME_IO_RESV_REGISTER, 0, 0, 2);
    resv(0, SNIC_NVME_IO_RESV_ACQUIRE, 3 << 8, 1, 0);
    resv(0, SNIC_NVME_IO_RESV_RELEASE, 3 << 8, 1, 0);
    assert_false(aer->done);
    assert_int_equal(nx_feature(&x, &ctrl[1], SNIC_NVME_FEAT_RESV_MASK, 1, 0), 0);
    for (uint32_t i = 0; i < SNIC_NVMESUB_NOTICES_MAX + 3; i++) {
        resv(0, SNIC_NVME_IO_RESV_ACQUIRE, 3 << 8, 1, 0);
        resv(0, SNIC_NVME_IO_RESV_RELEASE, 3 << 8, 1, 0);
    }
    assert_true(aer->done);
    assert_int_equal(aer->c.cqe.dw0, SNIC_NVME_EVENT_IO | SNIC_NVME_LOG_RESERVATION << 16);
    nx_free(aer);
    aer = nx_aer(&x, &ctrl[1]);
    assert_false(aer->done);
    for (uint32_t i = 0; i < SNIC_NVMESUB_NOTICES_MAX; i++) {
        const unsigned char *p = nx_log(&x, &ctrl[1], SNIC_NVME_LOG_RESERVATION, 64, 0);
        assert_int_equal(snic_get_le64(p), i + 4);
        assert_int_equal(p[8], SNIC_NVME_RESV_LOG_RELEASED);
        assert_int_equal(p[9], SNIC_NVMESUB_NOTICES_MAX - 1 - i);
        assert_int_equal(snic_get_le32(p + 12), 1);
    }
    assert_true(aer->done); /* more were left after the first */
    nx_free(aer);
    nx_close(&x);
}

/* Host 0 under another host id: a controller and a queue. */
static uint32_t another_id(uint8_t id)
{
    struct snic_nvme_connect_data d;
    struct snic_nvme_sqe e;
    struct nx_ctrl c = {.conn = nx_conn(&x, 0)};
    nx_connect_data(&d, 0, SNIC_NVME_CNTLID_DYNAMIC);
    d.hostid[0] = id;
    nx_connect_sqe(&e, 0, 32, 0);
    assert_int_equal(nx_run(&x, c.conn, &e, &d), 0);
    c.cntlid = (uint16_t)x.last->c.cqe.dw0;
    assert_int_equal(nx_cc(&x, &c, NX_CC_EN), 0);
    uint32_t q = nx_conn(&x, 0);
    nx_connect_data(&d, 0, c.cntlid);
    d.hostid[0] = id;
    nx_connect_sqe(&e, 1, 8, 0);
    assert_int_equal(nx_run(&x, q, &e, &d), 0);
    return q;
}

/** One name registers few of the identities: hosts of other names find some. */
static void test_nvmesub_registrations_of_a_name_bounded(void **state)
{
    uint32_t q[3];
    (void)state;
    nx_open(&x, NULL); /* 6 identities, of a name 2 */
    nx_ns(&x, 1, 100);
    nx_ns(&x, 2, 100);
    for (uint8_t i = 0; i < 3; i++)
        q[i] = another_id(i);
    assert_int_equal(nx_resv(&x, q[0], SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 1), 0);
    assert_int_equal(nx_resv(&x, q[1], SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 2), 0);
    assert_int_equal(nx_resv(&x, q[2], SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 3),
                     NX_DNR(RESERVATION_CONFLICT));
    assert_int_equal(nx_resv(&x, q[2], SNIC_NVME_IO_RESV_REGISTER, 1,
                             SNIC_NVME_RESV_REPLACE | SNIC_NVME_RESV_IEKEY, 0, 3),
                     NX_DNR(RESERVATION_CONFLICT));
    assert_int_equal(nx_resv(&x, q[1], SNIC_NVME_IO_RESV_REGISTER, 2, 0, 0, 2), 0);
    struct nx_ctrl other = nx_admin(&x, 1, 0, 0);
    uint32_t p = nx_queue(&x, &other, 1);
    assert_int_equal(nx_resv(&x, p, SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 4), 0);
    assert_int_equal(
        nx_resv(&x, q[0], SNIC_NVME_IO_RESV_REGISTER, 1, SNIC_NVME_RESV_UNREGISTER, 1, 0), 0);
    assert_int_equal(nx_resv(&x, q[2], SNIC_NVME_IO_RESV_REGISTER, 1, 0, 0, 3), 0);
    nx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmesub_reservations_all_states_all_commands),
        cmocka_unit_test(test_nvmesub_reservation_survives_in_its_record),
        cmocka_unit_test(test_nvmesub_reservation_completes_after_persisted),
        cmocka_unit_test(test_nvmesub_preempt_and_abort_waits_for_quiesced),
        cmocka_unit_test(test_nvmesub_reservation_refusals),
        cmocka_unit_test(test_nvmesub_reservation_notifications),
        cmocka_unit_test(test_nvmesub_registrations_of_a_name_bounded),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
