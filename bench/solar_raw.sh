#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_raw.sh [--seconds N] [--rounds N] [--op write|read] [--who NAME] [--depth N] [--threads N]
#              [--values]
#
# The plain sockets that SOLAR and LUNA are measured beside (bench/solar_raw.c says what they do):
# over loopback, and as root over a veth pair between two network namespaces, MTU 9000, as it comes
# (link veth) and with segmentation and coalescing off at both ends (link veth_nogso): every packet
# is one. The CPU time is that of both ends. Rows:
#
#   row solar raw_write:LINK:dDEPTH WHO THREADS ns_cpu/rpc      and raw_write_rate, raw_read, ...
#
# A raw ping-pong of UDP datagrams is `udp` at depth 1. What is not permitted says so on a line that
# begins with "skip". All arguments go to solar_raw.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
if [ ! -x "$bin/solar_raw" ]; then
    echo "$0: no $bin/solar_raw: sh bench/run.sh solar builds it" >&2
    exit 1
fi
client=snic_raw_c$$ server=snic_raw_s$$
gone() {
    ip netns del "$client" 2>/dev/null
    ip netns del "$server" 2>/dev/null
}
trap gone EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

status=0
"$bin/solar_raw" --link lo "$@" || status=1

# The two ends of a cable: 10.99.0.1 and 10.99.0.2.
cable() {
    command -v ip >/dev/null || { echo "skip veth: ip (iproute2) is not installed"; return 1; }
    ip netns add "$client" 2>/dev/null && ip netns add "$server" 2>/dev/null || {
        echo "skip veth: no network namespaces here (root can make them)"
        return 1
    }
    ip -n "$client" link add v0 mtu 9000 type veth peer name v0 mtu 9000 netns "$server" &&
        ip -n "$client" addr add 10.99.0.1/24 dev v0 &&
        ip -n "$server" addr add 10.99.0.2/24 dev v0 &&
        ip -n "$client" link set v0 up && ip -n "$server" link set v0 up || {
        echo "skip veth: no veth pair to be had"
        return 1
    }
}
if cable; then
    "$bin/solar_raw" --link veth --ns "$client" "$server" --host 10.99.0.2 "$@" || status=1
    if ip netns exec "$client" "$bin/solar_link" v0 && ip netns exec "$server" "$bin/solar_link" v0
    then
        "$bin/solar_raw" --link veth_nogso --ns "$client" "$server" --host 10.99.0.2 "$@" ||
            status=1
    else
        echo "skip veth_nogso: segmentation cannot be switched off"
    fi
fi
exit $status
