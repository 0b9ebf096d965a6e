/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes of messages and of the catalog's records, as lib/control/FORMAT.md has them. */
#include "control/control_priv.h"
#include "golden.h"
#include "support.h"

static void test_control_format_vectors(void **state)
{
    static struct snic_control c;
    static struct snic_control_msg m;
    const struct snic_net_addr a = {.family = SNIC_NET_IPV4, .port = 0x1234, .ip = {127, 0, 0, 1}};
    const struct snic_net_addr b = {.family = SNIC_NET_SIM, .port = 0x5678, .node = 9};
    struct control_server server = {.addr = a, .peer = b, .serial = 0x0102030405060708};
    struct control_seg seg = {.server = 2, .gen = 0x30001};
    struct control_disk disk = {.bytes = 8u << 20,
                                .key = {0x1112131415161718, 0x2122232425262728},
                                .qos = {1, 2, 3, 4},
                                .lease = 5,
                                .held = 1,
                                .account = 6,
                                .rights = 7,
                                .name = "disk"};
    unsigned char p[256];
    (void)state;
    control_msg(&m, SNIC_CONTROL_MAP, 0);
    m.vd = 7;
    m.count = 1;
    m.item[0] = (struct snic_control_item){.segment = 5, .gen = 0x30001, .server = 2};
    golden_bytes("control", "map", p, (size_t)snic_control_put(p, sizeof(p), &m));
    control_msg(&m, SNIC_CONTROL_HELLO, 0x01020304);
    m.role = SNIC_CONTROL_STORE;
    m.server = 3;
    m.uuid[0] = 1;
    m.uuid[1] = 2;
    m.addr = a;
    m.peer = b;
    m.serial = 4;
    golden_bytes("control", "hello", p, (size_t)snic_control_put(p, sizeof(p), &m));
    c.incarnation = 3;
    c.uuid[0] = 1;
    c.uuid[1] = 2;
    c.vd = 4;
    golden_bytes("control", "head", p, control_record_head(p, &c));
    golden_bytes("control", "server", p, control_record_server(p, &server));
    golden_bytes("control", "disk", p, control_record_disk(p, &disk));
    golden_bytes("control", "segment", p, control_record_seg(p, &seg));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_format_vectors),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
