/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* How much the messages of one connection delay others, in messages and iterations of the loop. */
#include "test_control_util.h"

enum { MANY = 1500, TURN = 64, OPS = 32 };

static struct flood {
    struct snic_net_conn *c;
    struct snic_net_send_req req;
    struct snic_iov iov;
    unsigned char bytes[512u << 10];
    uint32_t size;
    int connected, gone;
} flood;

static void flood_connected(void *ctx, struct snic_net_conn *c, int error)
{
    (void)ctx;
    (void)c;
    flood.connected = error == 0;
}

static void flood_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void flood_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
    flood.gone = 1;
}

static void flood_sent(struct snic_net_send_req *r)
{
    (void)r;
}

static void flood_put(const struct snic_control_msg *m)
{
    int n =
        snic_control_put(flood.bytes + flood.size, (uint32_t)sizeof(flood.bytes) - flood.size, m);
    assert_true(n > 0);
    flood.size += (uint32_t)n;
}

static void flood_open(uint32_t role)
{
    static const struct snic_net_stream_events ev = {
        .connected = flood_connected, .recv = flood_recv, .closed = flood_closed};
    struct snic_net_addr a = {.family = SNIC_NET_SIM, .node = CTLFIX_CTL, .port = 7100};
    struct snic_control_msg m;
    memset(&flood, 0, sizeof(flood));
    message(&m, SNIC_CONTROL_HELLO, "");
    m.role = (uint8_t)role;
    flood_put(&m);
    assert_int_equal(snic_net_connect(fix.op_net, &a, &ev, NULL, &flood.c), 0);
    while (!flood.connected)
        assert_int_equal(snic_world_step(fix.world), 1);
}

static void flood_send(void)
{
    flood.iov.base = flood.bytes;
    flood.iov.size = flood.size;
    flood.req.iov = &flood.iov;
    flood.req.iov_count = 1;
    flood.req.done = flood_sent;
    flood.req.region = SNIC_NO_REGION;
    assert_int_equal(snic_net_send(flood.c, &flood.req), 1);
}

/* An operator session that sends all requests at once, and then nothing more. */
static void flood_begin(uint32_t count)
{
    struct snic_control_msg m;
    flood_open(SNIC_CONTROL_OPERATOR);
    message(&m, SNIC_CONTROL_SET_QOS, "unknown"); /* each is refused, and counted */
    for (uint32_t i = 0; i < count; i++)
        flood_put(&m);
    flood_send();
}

static uint64_t refused(void)
{
    struct snic_control_stats s;
    snic_control_get_stats(fix.ctl, &s);
    return s.refused;
}

/* One iteration of the loop takes a bounded number of messages of a connection, however many
   have arrived; none is lost, the last ones included. */
static void test_control_fair_messages_interleaved(void **state)
{
    uint64_t before, last, most = 0;
    (void)state;
    attached();
    for (int last_words = 0; last_words < 2; last_words++) {
        before = last = refused();
        flood_begin(MANY);
        if (last_words)
            snic_net_shutdown(flood.c);
        while (last < before + MANY && !flood.gone) {
            assert_int_equal(snic_world_step(fix.world), 1);
            most = snic_max_u64(most, refused() - last);
            last = refused();
        }
        assert_int_equal(last - before, MANY);
        if (!last_words && !flood.gone)
            snic_net_abort(flood.c);
        while (!flood.gone)
            assert_int_equal(snic_world_step(fix.world), 1);
    }
    assert_in_range(most, 1, TURN);
    assert_int_equal(ctlfix_io(&fix, 0, 0, SNIC_IO_READ, 0, 8u << 20, buffer), 8u << 20);
}

/* A client that attaches again and again, without waiting for replies, has half of the
   operations at most. */
static void test_control_fair_ops_shared(void **state)
{
    struct snic_control_msg m;
    struct snic_control_stats s;
    uint32_t most = 0;
    (void)state;
    assert_int_equal(ctlfix_create(&fix, 0), 0);
    ctlfix_run(&fix, 100 * CTLFIX_MS);
    flood_open(SNIC_CONTROL_CLIENT);
    message(&m, SNIC_CONTROL_ATTACH, "root");
    m.flags = SNIC_CONTROL_TAKE;
    for (uint32_t i = 0; i < 200; i++)
        flood_put(&m);
    flood_send();
    for (uint32_t i = 0; i < 2000 && !flood.gone; i++) {
        assert_int_equal(snic_world_step(fix.world), 1);
        snic_control_get_stats(fix.ctl, &s);
        most = (uint32_t)snic_max_u64(most, s.ops);
    }
    assert_in_range(most, 4, OPS / 2);
    if (!flood.gone) /* silent for so long that its session has ended */
        snic_net_abort(flood.c);
    while (!flood.gone)
        assert_int_equal(snic_world_step(fix.world), 1);
    ctlfix_client_start(&fix, 0);
    assert_int_equal(ctlfix_attach(&fix, 0, 0, 0), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_control_fair_messages_interleaved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_fair_ops_shared, setup, teardown),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
