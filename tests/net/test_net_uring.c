/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sockets on io_uring: the conformance suite over TCP, IPv6 and UNIX sockets and with each
 * kernel feature hidden.
 */
#include "conformance_net.h"

#define HIDE_MULTI (SNIC_LOOP_HAVE_MULTISHOT_ACCEPT | SNIC_LOOP_HAVE_MULTISHOT_RECV)

static const struct conf_backend backends[] = {
    {"tcp", CONF_TCP4, 0, 0},
    {"tcp_single_recv", CONF_TCP4, SNIC_LOOP_HAVE_MULTISHOT_RECV, 0},
    {"tcp_no_ring", CONF_TCP4, SNIC_LOOP_HAVE_BUF_RING | SNIC_LOOP_HAVE_MULTISHOT_ACCEPT,
     SNIC_NET_CAP_GSO | SNIC_NET_CAP_GRO},
    {"tcp_no_zc", CONF_TCP4, SNIC_LOOP_HAVE_SEND_ZC | SNIC_LOOP_HAVE_DEFER_TASKRUN, 0},
    {"tcp6", CONF_TCP6, 0, 0},
    {"unix", CONF_UNIX, 0, 0},
    {"unix_plain", CONF_UNIX, HIDE_MULTI | SNIC_LOOP_HAVE_BUF_RING, 0},
};

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[512];
    size_t n = conformance_net(tests, SNIC_COUNTOF(tests), backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
