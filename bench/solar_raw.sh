#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_raw.sh [--net] [--seconds N] [--rounds N] [--op write|read] [--who NAME] [--depth N] ...
#
# The plain sockets that SOLAR and LUNA are measured beside (described in bench/solar_raw.c),
# or with --net as the first argument SOLAR and LUNA themselves, in turns with those
# (bench/solar_net.c): over loopback, and as root over a veth pair between two network namespaces,
# MTU 9000, as it comes (link veth) and with segmentation and coalescing off at both ends (link
# veth_nogso): every packet is one. The CPU time is that of both ends. Rows:
#
#   row solar raw_write:LINK:dDEPTH WHO THREADS ns_cpu/rpc      and raw_write_rate, raw_read, ...
#   row solar write:LINK:dDEPTH WHO 1 ns_cpu/io                 --net, and what solar_net.c lists
#
# A raw ping-pong of UDP datagrams is `udp` at depth 1. What is not permitted prints a line that
# begins with "skip". All other arguments go to the program.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
program=$bin/solar_raw
[ "${1:-}" != --net ] || { program=$bin/solar_net; shift; }
if [ ! -x "$program" ]; then
    echo "$0: no $program: sh bench/run.sh solar builds it" >&2
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
"$program" --link lo "$@" || status=1

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
    "$program" --link veth --ns "$client" "$server" --host 10.99.0.2 "$@" || status=1
    if ip netns exec "$client" "$bin/solar_link" v0 && ip netns exec "$server" "$bin/solar_link" v0
    then
        "$program" --link veth_nogso --ns "$client" "$server" --host 10.99.0.2 "$@" ||
            status=1
    else
        echo "skip veth_nogso: segmentation cannot be switched off"
    fi
fi
exit $status
