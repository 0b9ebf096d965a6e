/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs: entries, pointers, headers, messages, bit by bit; options. */
#include "golden.h"
#include "test_nvmefs_util.h"

/* ---- Golden vectors: written by hand from the header's table ---- */

/* What would break: a DPU of another build, or real NVMe hardware, reads another command. */
static void test_nvmefs_sqe_bits_are_as_the_paper_has_them(void **state)
{
    static const unsigned char want[64] = {
        0xa3, 0x0c, 0x34, 0x12, 0,    0, 0,    0, /* Dword0: 1010 0011, bits 10, 11 */
        0xe8, 0x8f, 0,    0,    0,    0, 0x05, 0, /* PRP1 of write: window 5         */
        0xd8, 0x8f, 0,    0,    0,    0, 0x05, 0, /* PRP2                            */
        0,    0x10, 0,    0,    0,    0, 0x02, 0,
        0,    0x20, 0,    0,    0,    0, 0x02, 0, /* read                     */
        0x40, 0x20, 0,    0,                      /* Write_len 8256                  */
        0x88, 0,    0,    0,                      /* Read_len 136                    */
        0,    0,    0,    0,    0x88, 0, 0x40, 0, /* RH_len 136, WH_len 64           */
        0,    0,    0,    0,    0,    0, 0,    0};
    struct snic_nvmefs_sqe s = {
        .opcode = 0xa3,
        .distributed = 1,
        .lap = 1,
        .cid = 0x1234,
        .write = {SNIC_NVMEFS_ADDRESS(5, 0x8fe8), SNIC_NVMEFS_ADDRESS(5, 0x8fd8)},
        .read = {SNIC_NVMEFS_ADDRESS(2, 0x1000), SNIC_NVMEFS_ADDRESS(2, 0x2000)},
        .write_len = 8256,
        .read_len = 136,
        .rh_len = 136,
        .wh_len = 64};
    struct snic_nvmefs_sqe back;
    unsigned char out[64];
    (void)state;
    snic_nvmefs_sqe_encode(out, &s);
    assert_memory_equal(out, want, 64);
    golden_bytes("nvmefs", "submission", out, 64);
    assert_int_equal(snic_nvmefs_sqe_decode(&back, want), SNIC_NVMEFS_STATUS_OK);
    snic_nvmefs_sqe_encode(out, &back);
    assert_memory_equal(out, want, 64);
    /* Dword0 bits 14 and 15: SGL for write, for read. */
    s.write_sgl = 1;
    snic_nvmefs_sqe_encode(out, &s);
    assert_int_equal(out[1], 0x4c);
    s.write_sgl = 0;
    s.read_sgl = 1;
    snic_nvmefs_sqe_encode(out, &s);
    assert_int_equal(out[1], 0x8c);
}

static void test_nvmefs_sqe_every_bit_is_a_field_or_refused(void **state)
{
    struct snic_nvmefs_sqe s = {.opcode = 0xa3, .cid = 7, .wh_len = 48, .write_len = 48};
    unsigned char base[64];
    (void)state;
    snic_nvmefs_sqe_encode(base, &s);
    for (int bit = 0; bit < 512; bit++) {
        unsigned char e[64];
        unsigned char again[64];
        struct snic_nvmefs_sqe d;
        memcpy(e, base, 64);
        e[bit / 8] ^= (unsigned char)(1 << bit % 8);
        uint32_t status = snic_nvmefs_sqe_decode(&d, e);
        if (bit < 8) {
            assert_int_equal(status, SNIC_NVMEFS_STATUS_OPCODE);
            continue;
        }
        int reserved = bit == 8 || bit == 9 || bit == 12 || bit == 13 || (bit >= 32 && bit < 64) ||
                       (bit >= 384 && bit < 416) || bit >= 448;
        assert_int_equal(status, reserved ? SNIC_NVMEFS_STATUS_FIELD : SNIC_NVMEFS_STATUS_OK);
        snic_nvmefs_sqe_encode(again, &d);
        if (!reserved)
            assert_memory_equal(again, e, 64);
    }
}

static void test_nvmefs_cqe_bits(void **state)
{
    static const unsigned char want[16] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                           0x02, 0x01, 0x03, 0,    0x34, 0x12, 0x09, 0};
    struct snic_nvmefs_cqe c = {.result = SNIC_ENOENT,
                                .sq_head = 0x102,
                                .queue = 3,
                                .cid = 0x1234,
                                .status = 4,
                                .phase = 1};
    struct snic_nvmefs_cqe back;
    unsigned char out[16];
    (void)state;
    snic_nvmefs_cqe_encode(out, &c);
    assert_memory_equal(out, want, 16);
    golden_bytes("nvmefs", "completion", out, 16);
    snic_nvmefs_cqe_decode(&back, want);
    assert_true(back.result == c.result && back.sq_head == c.sq_head && back.queue == c.queue &&
                back.cid == c.cid && back.status == c.status && back.phase == c.phase);
}

static void test_nvmefs_ctl_bytes(void **state)
{
    struct snic_nvmefs_ctl m = {.type = SNIC_NVMEFS_CTL_CREATE,
                                .queue = 2,
                                .window = 1,
                                .generation = 3,
                                .error = -5,
                                .depth = 64,
                                .data_max = 9,
                                .key = 10,
                                .size = 11,
                                .sq = 12,
                                .cq = 13,
                                .bells = 14};
    struct snic_nvmefs_ctl back;
    unsigned char out[SNIC_NVMEFS_CTL_BYTES];
    (void)state;
    snic_nvmefs_ctl_encode(out, &m);
    assert_memory_equal(out, "NVSF\1\0\2\0\2\0\1\0\3\0\0\0\xfb\xff\xff\xff\x40\0\0\0", 24);
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out)), 0);
    assert_memory_equal(&back, &m, sizeof(m));
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out) - 1), SNIC_EPROTO);
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, 7), SNIC_ENOENT);
    out[4] = 2;
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out)), SNIC_EVERSION);
    out[4] = 1;
    out[28] = 1;
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out)), SNIC_EPROTO);
    out[28] = 0;
    out[6] = 7;
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out)), SNIC_EPROTO);
    out[0] = 'X';
    assert_int_equal(snic_nvmefs_ctl_decode(&back, out, sizeof(out)), SNIC_ENOENT);
}

static void test_nvmefs_prp_pages(void **state)
{
    struct snic_nvmefs_extent p[3] = {{0x1f00, 0x100, 0}, {0x8000, 0x2000, 0}, {0x4000, 5, 0}};
    uint64_t e[5];
    (void)state;
    assert_int_equal(snic_nvmefs_prp_encode(p, 3, e, 5), 4);
    assert_int_equal(e[0], 0x1f00);
    assert_int_equal(e[1], 0x8000);
    assert_int_equal(e[2], 0x9000);
    assert_int_equal(e[3], 0x4000);
    assert_int_equal(snic_nvmefs_prp_encode(p, 3, e, 3), SNIC_E2BIG);
    p[1].address = 0x8008; /* begins inside a page */
    assert_int_equal(snic_nvmefs_prp_encode(p, 3, e, 5), SNIC_EINVAL);
    p[1].address = 0x8000;
    p[1].size = 0x1fff; /* ends inside one */
    assert_int_equal(snic_nvmefs_prp_encode(p, 3, e, 5), SNIC_EINVAL);
}

static void test_nvmefs_status_is_an_error(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < 0x800; s++)
        assert_int_equal(snic_nvmefs_status_error(s) == 0, s == 0);
    assert_int_equal(snic_nvmefs_status_error(SNIC_NVMEFS_STATUS_NO_SERVICE), SNIC_ENOTSUP);
    assert_int_equal(snic_nvmefs_status_error(SNIC_NVMEFS_STATUS_DELETED), SNIC_EUNKNOWN);
}

/* ---- Headers ---- */

/* A WRITE's header, byte by byte. */
static void test_nvmefs_head_golden(void **state)
{
    static const uint32_t groups[1] = {0x22};
    static const unsigned char want[72] = {
        2, 19, 24, 0, 4, 0, 0, 0, 1, 0,    0, 0, 2, 0, 0, 0, 3,    0, 0, 0, 0x12, 0, 0, 0,
        1, 0,  0,  0, 0, 0, 0, 0, 9, 0,    0, 0, 0, 0, 0, 0, 5,    0, 0, 0, 0,    0, 0, 0,
        6, 0,  0,  0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0,    0, 0, 0};
    struct snic_fsop r = {.kind = SNIC_FSOP_WRITE,
                          .flags = SNIC_FSOP_APPEND,
                          .cred.uid = 1,
                          .cred.gid = 2,
                          .cred.pid = 3,
                          .cred.umask = 022 & 0x1f,
                          .tenant = 9,
                          .cred.groups = groups,
                          .cred.group_count = 1,
                          .ino = 5,
                          .handle = 6,
                          .offset = 4096};
    uint64_t out[SNIC_NVMEFS_HEADER_MAX / 8];
    (void)state;
    assert_int_equal(snic_nvmefs_head_encode(&r, out, sizeof(out)), 72);
    assert_memory_equal(out, want, 72);
    golden_bytes("nvmefs", "request", out, 72);
}

static void test_nvmefs_ctl_vector(void **state)
{
    const struct snic_nvmefs_ctl c = {.type = SNIC_NVMEFS_CTL_CREATE,
                                      .queue = 3,
                                      .generation = 0x01020304,
                                      .error = SNIC_ENOENT,
                                      .depth = 64,
                                      .data_max = 0x100000,
                                      .window = 5,
                                      .key = 0x1112131415161718,
                                      .size = 0x10000,
                                      .sq = SNIC_NVMEFS_ADDRESS(5, 0x1000),
                                      .cq = SNIC_NVMEFS_ADDRESS(5, 0x3000),
                                      .bells = SNIC_NVMEFS_ADDRESS(5, 0)};
    unsigned char out[SNIC_NVMEFS_CTL_BYTES];
    (void)state;
    snic_nvmefs_ctl_encode(out, &c);
    golden_bytes("nvmefs", "control", out, sizeof(out));
}

/** A request with everything that @p op may have. */
static void head_fill(struct snic_fsop *r, uint32_t op, struct snic_rng *rng)
{
    static char names[2][SNIC_FSOP_NAME_MAX];
    static uint32_t groups[SNIC_FSOP_GROUPS_MAX];
    memset(r, 0, sizeof(*r));
    r->kind = (uint8_t)op;
    uint64_t *words[] = {&r->ino,        &r->ino2,     &r->handle,   &r->offset,
                         &r->offset2,    &r->length,   &r->rdev,     &r->lock.owner,
                         &r->lock.start, &r->lock.end, &r->attr.size};
    for (size_t i = 0; i < SNIC_COUNTOF(words); i++)
        *words[i] = snic_rng_next(rng);
    r->mode = (uint32_t)snic_rng_next(rng);
    r->set_mask = (uint32_t)snic_rng_next(rng);
    r->attr.atime.sec = (int64_t)snic_rng_next(rng);
    r->attr.mtime.nsec = (uint32_t)snic_rng_next(rng);
    r->attr.gid = (uint32_t)snic_rng_next(rng);
    r->lock.type = (uint32_t)snic_rng_next(rng);
    r->cred.uid = (uint32_t)snic_rng_next(rng);
    r->tenant = (uint32_t)snic_rng_next(rng);
    r->cred.group_count = (uint32_t)snic_rng_below(rng, 9);
    r->cred.groups = groups;
    snic_rng_fill(rng, groups, sizeof(groups));
    snic_rng_fill(rng, names, sizeof(names));
    r->name = names[0];
    r->name2 = names[1];
    r->flags = 0;
}

/* What would break: a field that one end writes and the other reads elsewhere. */
static void test_nvmefs_head_round_trips_for_every_op(void **state)
{
    struct snic_rng rng;
    uint32_t ops = 0;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint32_t op = 1; op < SNIC_FSOP_WIRE_KINDS; op++) {
        for (int round = 0; round < 50; round++) {
            struct snic_fsop r;
            struct snic_fsop back;
            uint64_t a[SNIC_NVMEFS_HEADER_MAX / 8];
            uint64_t b[SNIC_NVMEFS_HEADER_MAX / 8];
            head_fill(&r, op, &rng);
            r.name_size = (uint32_t)snic_rng_below(&rng, 40);
            r.name2_size = (uint32_t)snic_rng_below(&rng, 40);
            int n = snic_nvmefs_head_encode(&r, a, sizeof(a));
            if (n == SNIC_EINVAL) { /* it has no such name */
                r.name2_size = 0;
                n = snic_nvmefs_head_encode(&r, a, sizeof(a));
            }
            if (n == SNIC_EINVAL && op == SNIC_FSOP_LINK) {
                r.name_size = 0;
                r.name2_size = 7;
                n = snic_nvmefs_head_encode(&r, a, sizeof(a));
            }
            if (n == SNIC_EINVAL) {
                r.name_size = 0;
                n = snic_nvmefs_head_encode(&r, a, sizeof(a));
            }
            assert_true(n >= 48 && n % 8 == 0);
            assert_int_equal(snic_nvmefs_head_encode(&r, b, (uint32_t)n - 1), SNIC_EMSGSIZE);
            memset(&back, 0, sizeof(back));
            memcpy(b, a, (size_t)n);
            assert_int_equal(snic_nvmefs_head_decode(&back, b, (uint32_t)n), 0);
            assert_int_equal(back.kind, op);
            assert_int_equal(back.ino, r.ino);
            assert_int_equal(back.name_size, r.name_size);
            assert_memory_equal(back.cred.groups != NULL ? back.cred.groups : r.cred.groups,
                                r.cred.groups, r.cred.group_count * 4);
            if (r.name_size > 0)
                assert_memory_equal(back.name, r.name, r.name_size);
            if (r.name2_size > 0)
                assert_memory_equal(back.name2, r.name2, r.name2_size);
            /* Every field that was sent came: encoded again it is the same. */
            assert_int_equal(snic_nvmefs_head_encode(&back, b, sizeof(b)), n);
            assert_memory_equal(a, b, (size_t)n);
        }
        assert_true(snic_nvmefs_op_data(op) >= 0);
        assert_string_not_equal(snic_fsop_name(op), "?");
        ops++;
    }
    assert_int_equal(ops, 36);
    assert_int_equal(snic_nvmefs_op_data(0), SNIC_ENOTSUP);
    assert_int_equal(snic_nvmefs_op_data(SNIC_FSOP_WIRE_KINDS), SNIC_ENOTSUP);
}

/* Each field of a request reaches the other end: the op's fields, distinguished by their values. */
static void test_nvmefs_head_fields_reach_the_other_end(void **state)
{
    uint64_t a[SNIC_NVMEFS_HEADER_MAX / 8];
    struct snic_fsop back;
    (void)state;
    struct snic_fsop r = {.kind = SNIC_FSOP_SETATTR,
                          .ino = 1,
                          .handle = 2,
                          .set_mask = 3,
                          .attr = {.size = 4,
                                   .atime.sec = 5,
                                   .mtime.sec = -6,
                                   .ctime.sec = 7,
                                   .atime.nsec = 8,
                                   .mtime.nsec = 9,
                                   .ctime.nsec = 10,
                                   .mode = 11,
                                   .uid = 12,
                                   .gid = 13}};
    int n = snic_nvmefs_head_encode(&r, a, sizeof(a));
    memset(&back, 0, sizeof(back));
    assert_int_equal(snic_nvmefs_head_decode(&back, a, (uint32_t)n), 0);
    assert_memory_equal(&back, &r, sizeof(r));
    r = (struct snic_fsop){.kind = SNIC_FSOP_COPY,
                           .ino = 1,
                           .handle = 2,
                           .offset = 3,
                           .ino2 = 4,
                           .offset2 = 5,
                           .length = 6};
    n = snic_nvmefs_head_encode(&r, a, sizeof(a));
    memset(&back, 0, sizeof(back));
    assert_int_equal(snic_nvmefs_head_decode(&back, a, (uint32_t)n), 0);
    assert_memory_equal(&back, &r, sizeof(r));
    r = (struct snic_fsop){.kind = SNIC_FSOP_SETLK,
                           .flags = SNIC_FSOP_LOCK_WAIT,
                           .ino = 1,
                           .handle = 2,
                           .lock = {3, 4, 5, 6, 7}};
    n = snic_nvmefs_head_encode(&r, a, sizeof(a));
    memset(&back, 0, sizeof(back));
    assert_int_equal(snic_nvmefs_head_decode(&back, a, (uint32_t)n), 0);
    assert_memory_equal(&back, &r, sizeof(r));
}

/* Every single changed byte is refused, or decodes to something that encodes to just that. */
static void test_nvmefs_head_changed_bytes_are_refused_or_meant(void **state)
{
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint32_t op = 1; op < SNIC_FSOP_WIRE_KINDS; op++) {
        struct snic_fsop r;
        uint64_t a[SNIC_NVMEFS_HEADER_MAX / 8];
        head_fill(&r, op, &rng);
        r.cred.group_count = 3;
        int n = snic_nvmefs_head_encode(&r, a, sizeof(a));
        assert_true(n > 0);
        for (int i = 0; i < n; i++) {
            for (int bit = 0; bit < 8; bit++) {
                uint64_t b[SNIC_NVMEFS_HEADER_MAX / 8];
                uint64_t c[SNIC_NVMEFS_HEADER_MAX / 8];
                struct snic_fsop back;
                memcpy(b, a, (size_t)n);
                ((unsigned char *)b)[i] ^= (unsigned char)(1 << bit);
                memcpy(c, b, (size_t)n);
                memset(&back, 0, sizeof(back));
                int k = snic_nvmefs_head_decode(&back, b, (uint32_t)n);
                if (k != 0) {
                    assert_true(k == SNIC_EPROTO || k == SNIC_EVERSION || k == SNIC_ENOTSUP);
                    continue;
                }
                assert_int_equal(snic_nvmefs_head_encode(&back, b, sizeof(b)), n);
                assert_memory_equal(b, c, (size_t)n);
            }
        }
    }
}

static void test_nvmefs_head_errors(void **state)
{
    uint64_t a[SNIC_NVMEFS_HEADER_MAX / 8];
    struct snic_fsop r = {.kind = SNIC_FSOP_LOOKUP, .name = "x", .name_size = 1};
    (void)state;
    r.name_size = SNIC_FSOP_NAME_MAX + 1;
    assert_int_equal(snic_nvmefs_head_encode(&r, a, sizeof(a)), SNIC_ENAMETOOLONG);
    r.name_size = 1;
    r.name2_size = 1;
    assert_int_equal(snic_nvmefs_head_encode(&r, a, sizeof(a)), SNIC_EINVAL);
    r.name2_size = 0;
    r.flags = SNIC_FSOP_APPEND;
    assert_int_equal(snic_nvmefs_head_encode(&r, a, sizeof(a)), SNIC_EINVAL);
    r.flags = 0;
    r.cred.group_count = SNIC_FSOP_GROUPS_MAX + 1;
    assert_int_equal(snic_nvmefs_head_encode(&r, a, sizeof(a)), SNIC_E2BIG);
    r.kind = SNIC_FSOP_WIRE_KINDS;
    assert_int_equal(snic_nvmefs_head_encode(&r, a, sizeof(a)), SNIC_ENOTSUP);
    memset(a, 0, sizeof(a));
    ((unsigned char *)a)[0] = 1;
    assert_int_equal(snic_nvmefs_head_decode(&r, a, 48), SNIC_EVERSION);
    ((unsigned char *)a)[0] = SNIC_NVMEFS_OPS_VERSION;
    ((unsigned char *)a)[1] = 200;
    assert_int_equal(snic_nvmefs_head_decode(&r, a, 48), SNIC_ENOTSUP);
    assert_int_equal(snic_nvmefs_head_decode(&r, a, 47), SNIC_EPROTO);
    assert_int_equal(snic_nvmefs_head_decode(&r, a, 32), SNIC_EPROTO);
}

static void test_nvmefs_answers_round_trip(void **state)
{
    (void)state;
    for (uint32_t op = 1; op < SNIC_FSOP_WIRE_KINDS; op++) {
        unsigned char a[SNIC_NVMEFS_ANSWER_MAX];
        struct snic_fsop r = {.kind = (uint8_t)op, .handle = 1};
        struct snic_fsop back = {.kind = (uint8_t)op};
        for (size_t i = 0; i < offsetof(struct snic_fsop_attr, reserved); i++)
            ((unsigned char *)&r.attr)[i] = (unsigned char)(i + 1);
        r.lock = (struct snic_fsop_lock){1, 2, 3, 4, 5};
        r.statfs = (struct snic_fsop_statfs){6, 7, 8, 9};
        uint32_t n = snic_nvmefs_answer_encode(&r, a);
        assert_int_equal(n, snic_nvmefs_op_answer(op));
        assert_true(n <= SNIC_NVMEFS_ANSWER_MAX);
        if (n == 0) {
            assert_int_equal(snic_nvmefs_answer_decode(&back, a, 0), SNIC_EPROTO);
            continue;
        }
        assert_int_equal(snic_nvmefs_answer_decode(&back, a, n - 1), SNIC_EPROTO);
        assert_int_equal(snic_nvmefs_answer_decode(&back, a, n), 0);
        if (op == SNIC_FSOP_GETLK)
            assert_memory_equal(&back.lock, &r.lock, sizeof(r.lock));
        else if (op == SNIC_FSOP_STATFS)
            assert_memory_equal(&back.statfs, &r.statfs, sizeof(r.statfs));
        else
            assert_memory_equal(&back.attr, &r.attr, sizeof(r.attr));
        a[0] = 9;
        assert_int_equal(snic_nvmefs_answer_decode(&back, a, n), SNIC_EVERSION);
        a[0] = SNIC_NVMEFS_OPS_VERSION;
        a[1] ^= 1;
        assert_int_equal(snic_nvmefs_answer_decode(&back, a, n), SNIC_EPROTO);
    }
}

/* ---- Options ---- */

static void test_nvmefs_options_refused(void **state)
{
    struct snic_nvmefs_host_opts good = {.opts_size = sizeof(good)};
    struct snic_nvmefs_dpu_opts dpu = {.opts_size = sizeof(dpu)};
    (void)state;
    assert_true(snic_nvmefs_host_memsize(&good) > 0);
    assert_true(snic_nvmefs_dpu_memsize(&dpu) > 0);
    struct snic_nvmefs_host_opts o = good;
    o.depth = 3;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    assert_int_equal(snic_nvmefs_queue_bytes(&o), 0);
    o = good;
    o.depth = 8192;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    o = good;
    o.address = 64;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    o = good;
    o.address = SNIC_NVMEFS_ADDRESS(SNIC_NVMEFS_WINDOWS_MAX, 0);
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    o = good;
    o.data_bytes = 100;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    o = good;
    o.queue = SNIC_NVMEFS_QUEUES_MAX;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
    dpu.chunks = 15;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    dpu.chunks = 0;
    dpu.flags = 4;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    dpu.flags = 0;
    dpu.look_max = 33;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    dpu.look_max = 0;
    dpu.queues_max = SNIC_NVMEFS_QUEUES_MAX + 1;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    dpu.queues_max = SNIC_NVMEFS_QUEUES_MAX;
    dpu.depth_max = 2 * SNIC_NVMEFS_DEPTH_MAX;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    dpu.depth_max = SNIC_NVMEFS_DEPTH_MAX;
    assert_true(snic_nvmefs_dpu_memsize(&dpu) > 0);
    dpu.chunk_bytes = SNIC_NVMEFS_DATA_MAX + SNIC_NVMEFS_PAGE;
    assert_int_equal(snic_nvmefs_dpu_memsize(&dpu), 0);
    o = good;
    o.data_bytes = SNIC_NVMEFS_DATA_MAX + SNIC_NVMEFS_PAGE;
    assert_int_equal(snic_nvmefs_host_memsize(&o), 0);
}

/** A refusal names the wrong option, and only that one. */
static void test_nvmefs_wrong_option_is_named(void **state)
{
    (void)state;
    {
        struct snic_nvmefs_host_opts good = {.opts_size = sizeof(good), .data_bytes = 1u << 16};
        assert_null(snic_nvmefs_host_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_nvmefs_host_opts bad = good;                                                   \
        bad.field = value;                                                                         \
        support_names(snic_nvmefs_host_opts_wrong(&bad), name);                                    \
        assert_int_equal(snic_nvmefs_host_memsize(&bad), 0);                                       \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(depth, 3, "depth");
        WRONG(depth, 8192, "depth");
        WRONG(queue, SNIC_NVMEFS_QUEUES_MAX, "queue");
        WRONG(reserved, 1, "reserved");
        WRONG(address, 5, "address");
        WRONG(data_bytes, 5, "data_bytes");
        WRONG(data_bytes, 2u << 20, "data_bytes");
#undef WRONG
    }
    {
        struct snic_nvmefs_dpu_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_nvmefs_dpu_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_nvmefs_dpu_opts bad = good;                                                    \
        bad.field = value;                                                                         \
        support_names(snic_nvmefs_dpu_opts_wrong(&bad), name);                                     \
        assert_int_equal(snic_nvmefs_dpu_memsize(&bad), 0);                                        \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(flags, 1u << 9, "flags");
        WRONG(queues_max, 33, "queues_max");
        WRONG(depth_max, 3, "depth_max");
        WRONG(chunk_bytes, 5, "chunk_bytes");
        WRONG(chunks, 15, "chunks");
        WRONG(steps, 1, "steps");
        WRONG(look_max, 33, "look_max");
#undef WRONG
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmefs_sqe_bits_are_as_the_paper_has_them),
        cmocka_unit_test(test_nvmefs_wrong_option_is_named),
        cmocka_unit_test(test_nvmefs_sqe_every_bit_is_a_field_or_refused),
        cmocka_unit_test(test_nvmefs_cqe_bits),
        cmocka_unit_test(test_nvmefs_ctl_bytes),
        cmocka_unit_test(test_nvmefs_prp_pages),
        cmocka_unit_test(test_nvmefs_status_is_an_error),
        cmocka_unit_test(test_nvmefs_head_golden),
        cmocka_unit_test(test_nvmefs_ctl_vector),
        cmocka_unit_test(test_nvmefs_head_round_trips_for_every_op),
        cmocka_unit_test(test_nvmefs_head_fields_reach_the_other_end),
        cmocka_unit_test(test_nvmefs_head_changed_bytes_are_refused_or_meant),
        cmocka_unit_test(test_nvmefs_head_errors),
        cmocka_unit_test(test_nvmefs_answers_round_trip),
        cmocka_unit_test(test_nvmefs_options_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
