/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated machine of bench_minos: its keys are YCSB's and the same everywhere, the same
 * scenario gives the same result, its books balance (W1 to W4 of bench/minos/world.h), and a write
 * without contention costs what the parameters add up to.
 */
#include "world.h"

#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct minos_param param;

static struct minos_spec spec_of(uint32_t design, uint32_t model)
{
    struct minos_spec s;
    memset(&s, 0, sizeof(s));
    s.design = design;
    s.model = model;
    s.nodes = 3;
    s.writes = 60;
    s.requests = 200;
    s.keys = 500;
    s.seed = support_seed();
    s.audit = 1;
    return s;
}

static void near(double got, double want, double error)
{
    if (fabs(got - want) > error)
        print_error("%.9g, not %.9g\n", got, want);
    assert_true(fabs(got - want) <= error);
}

/* Weights that are not i^-0.99, or not the same with another compiler: other figures. */
static void test_minos_load_zipfian_weights(void **state)
{
    static const struct {
        uint32_t keys;
        double zeta;
    } known[] = {{10, 2.956107516510364}, {1000, 7.728953217284738}, {100000, 12.778338062551171}};
    const double one = 72057594037927936.0; /* 2^56 */
    struct minos_load l;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        minos_load_init(&l, known[i].keys, 0, 990);
        assert_true(l.sum[0] == (uint64_t)1 << 56);
        near((double)l.sum[known[i].keys - 1] / one, known[i].zeta, 1e-7);
    }
    near((double)(l.sum[1] - l.sum[0]) / one, 0.5034777750283594, 1e-8);
    near((double)(l.sum[9] - l.sum[8]) / one, 0.10232929922807542, 1e-8);
    near((double)(l.sum[99999] - l.sum[99998]) / one, 1.1220184543019635e-05, 1e-11);
}

static void test_minos_load_drawn_same_everywhere(void **state)
{
    struct minos_load l;
    struct snic_rng rng;
    uint32_t crc = 0;
    uint32_t first = 0;
    (void)state;
    minos_load_init(&l, 100000, 0, 990);
    snic_rng_init(&rng, 7);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t k = minos_load_key(&l, &rng);
        unsigned char b[3] = {(unsigned char)k, (unsigned char)(k >> 8), (unsigned char)(k >> 16)};
        assert_true(k < 100000);
        crc = snic_crc32c(crc, b, sizeof(b));
        first += k == 0;
    }
    near(first / 20000.0, 1 / 12.778338062551171, 0.008);
    assert_int_equal(crc, 0xd666f210);
}

/* The shipped file with @p more behind it; what loading that gives. */
static int load_with(const char *more, struct minos_param *p)
{
    char path[] = "/tmp/minos_param_XXXXXX";
    int fd = mkstemp(path);
    char text[8192];
    FILE *from = fopen(MINOS_PARAMETERS_FILE, "r");
    assert_true(fd >= 0 && from != NULL);
    size_t size = fread(text, 1, sizeof(text), from);
    assert_true(size < sizeof(text));
    fclose(from);
    FILE *to = fdopen(fd, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, size, to), size);
    fputs(more, to);
    fclose(to);
    int r = minos_param_load(p, path);
    remove(path);
    return r;
}

/* An unknown, doubled or missing name would be a figure of other numbers than were meant. */
static void test_minos_param_file_refused(void **state)
{
    struct minos_param p;
    (void)state;
    assert_int_equal(load_with("# more words\n", &p), 0);
    assert_int_equal(p.hash, param.hash);
    assert_int_equal(load_with("cores 5\n", &p), -1);
    assert_int_equal(load_with("corse 5\n", &p), -1);
    assert_int_equal(load_with("cores\n", &p), -1);
    assert_int_equal(minos_param_load(&p, "/dev/null"), -1);
    assert_int_equal(minos_param_load(&p, "/nowhere"), -1);
}

/* A server that begins before it is done would make every queue too short (W2). */
static void test_minos_server_one_at_a_time(void **state)
{
    struct world_server s = {0, 0};
    (void)state;
    assert_int_equal(world_reserve(&s, 10, 5), 10);
    assert_int_equal(world_reserve(&s, 12, 5), 15);
    assert_int_equal(world_reserve(&s, 100, 1), 100);
    assert_int_equal(world_reserve(&s, 100, 1), 101);
    assert_int_equal(s.busy, 12);
}

static void test_minos_server_pool_first_free(void **state)
{
    struct world w;
    struct world_node n;
    (void)state;
    memset(&w, 0, sizeof(w));
    memset(&n, 0, sizeof(n));
    w.p = &param;
    w.nodes = &n;
    w.now = 7;
    for (uint64_t i = 0; i < param.v[MINOS_SNIC_CORES]; i++)
        assert_int_equal(world_snic(&w, 0, 10 + i), 7);
    assert_int_equal(world_snic(&w, 0, 1), 17); /* after the shortest */
    assert_int_equal(world_snic(&w, 0, 1), 18);
}

static void order_fn(struct world *w, uint32_t a, uint32_t b)
{
    (void)w;
    (void)a;
    (void)b;
}

/* Events in another order than that of (time, order of scheduling): not the same rows again (W1).
 */
static void test_minos_events_in_order(void **state)
{
    struct world w;
    struct snic_rng rng;
    uint64_t last = 0;
    uint32_t number = 0;
    (void)state;
    memset(&w, 0, sizeof(w));
    snic_rng_init(&rng, support_seed());
    for (uint32_t i = 0; i < 3000; i++)
        world_at(&w, snic_rng_below(&rng, 200), order_fn, i, 0);
    for (uint32_t i = 0; i < 3000; i++) {
        struct world_event e = world_next(&w);
        assert_true(e.at > last || i == 0 || (e.at == last && e.a > number));
        last = e.at;
        number = e.a;
    }
    assert_int_equal(w.heap_count, 0);
    free(w.heap);
}

static void balance(const struct minos_spec *s)
{
    struct minos_result r;
    minos_run(&param, s, &r);
    assert_int_equal(r.differ, 0);
    assert_int_equal(r.sent, r.handled); /* W4 */
    assert_true(r.sent > 0);
    assert_int_equal(r.reads + r.writes, (uint64_t)s->requests * s->nodes);
    for (uint32_t u = 0; u < MINOS_USES; u++)
        assert_true(r.use[u] >= 0 && r.use[u] <= 1); /* W2 */
    /* Little's law, clients that do not think: the times of all requests fill that of all clients
     * but for the ends (W3). */
    assert_true(r.sojourn_ps <= r.clients * r.elapsed_ps);
    assert_true(r.sojourn_ps + r.clients * r.longest_ps >= r.clients * r.elapsed_ps);
}

static void test_minos_run_every_design_books_balance(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < MINOS_DESIGNS; d++) {
        for (uint32_t m = SNIC_DDP_SYNCH; m <= SNIC_DDP_SCOPE; m++) {
            struct minos_spec s = spec_of(d, m);
            balance(&s);
            s.keys = 3; /* where nearly every write meets another */
            s.fifo = 1;
            balance(&s);
        }
    }
}

static void test_minos_run_again_same_result(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < MINOS_DESIGNS; d++) {
        struct minos_spec s = spec_of(d, SNIC_DDP_SYNCH + d % 5);
        struct minos_result a;
        struct minos_result b;
        minos_run(&param, &s, &a);
        minos_run(&param, &s, &b);
        assert_memory_equal(&a, &b, sizeof(a));
        s.seed++;
        minos_run(&param, &s, &b);
        assert_true(a.actions != b.actions);
    }
}

static double ns(uint32_t which)
{
    return (double)param.v[which];
}

/* One way of a message, from where it is handed to the send engine to the other NIC. */
static double wire(int record)
{
    double bytes = ns(MINOS_HEADER) + (record ? ns(MINOS_RECORD) : 0);
    return ns(record ? MINOS_SEND_INV : MINOS_SEND_SMALL) + ns(MINOS_NET) +
           bytes / ns(MINOS_NET_MBPS) * 1000;
}

static double pcie(int record)
{
    double bytes = ns(MINOS_HEADER) + (record ? ns(MINOS_RECORD) : 0);
    return ns(MINOS_PCIE) + bytes / ns(MINOS_PCIE_MBPS) * 1000;
}

static double alone(uint32_t design)
{
    struct minos_spec s = spec_of(design, SNIC_DDP_SYNCH);
    struct minos_result r;
    s.nodes = 2;
    s.writes = 100;
    s.alone = 1;
    minos_run(&param, &s, &r);
    return r.write_ns;
}

/* What is charged is the sum of the parameters, once: two nodes, one client, Synch. */
static void test_minos_run_alone_latency_adds_up(void **state)
{
    double post = ns(MINOS_HOST_MESSAGE) + ns(MINOS_HOST_KILOBYTE);
    double cas = ns(MINOS_CAS_HOST);
    double host = ns(MINOS_HOST_MESSAGE);
    double small = ns(MINOS_SNIC_SMALL);
    double inv = ns(MINOS_SNIC_INV) + ns(MINOS_CAS_SNIC);
    (void)state;
    double b = ns(MINOS_HOST_WRITE) + 2 * cas + post + pcie(1) + wire(1) + pcie(1);
    b += host + 2 * cas + ns(MINOS_LLC) + ns(MINOS_PERSIST) + host;
    b += pcie(0) + wire(0) + pcie(0) + host + cas + host;
    near(alone(MINOS_B), b, 2);
    double o = ns(MINOS_HOST_WRITE) + cas + post + pcie(1) + inv + wire(1);
    o += inv + ns(MINOS_VFIFO) + ns(MINOS_PERSIST) + small;
    o += wire(0) + small + pcie(0) + host;
    near(alone(MINOS_O), o, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minos_load_zipfian_weights),
        cmocka_unit_test(test_minos_load_drawn_same_everywhere),
        cmocka_unit_test(test_minos_param_file_refused),
        cmocka_unit_test(test_minos_server_one_at_a_time),
        cmocka_unit_test(test_minos_server_pool_first_free),
        cmocka_unit_test(test_minos_events_in_order),
        cmocka_unit_test(test_minos_run_every_design_books_balance),
        cmocka_unit_test(test_minos_run_again_same_result),
        cmocka_unit_test(test_minos_run_alone_latency_adds_up),
    };
    if (minos_param_load(&param, MINOS_PARAMETERS_FILE) != 0)
        return 1;
    return SUPPORT_MAIN(argc, argv, tests);
}
