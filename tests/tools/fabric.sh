#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# fabric.sh up | down | clear | fault NAME [K]
#
# A fabric of network namespaces that can fail. sol_c (client, 10.77.100.1) and sol_s (server,
# 10.77.200.1) are joined by four paths through sol_f; each path is one "spine", paths 0 and 1 share
# one top-of-rack switch (ToR), 2 and 3 the other. Both hosts choose the path by a hash of addresses
# and ports (ECMP), so a UDP source port stands for a path. `fault` breaks something, `clear` mends
# it. Drops are silent: the hosts see their links up and get no ICMP message. The faults, some with
# a number K of 0 to 3:
#
#   port_fail      path 0 loses its carrier; the kernel removes it at once
#   spine_fail     path 2 does
#   tor_fail       paths 0 and 1 drop everything
#   reboot         tor_fail for a second, then without carrier for two; prints its rules with what
#                  they have dropped, clears itself, and only then returns
#   drop75         every path drops 75 % of the packets, in both directions
#   drop75_1spine  path K (1) does
#   bh_tor         a quarter of all 5-tuples is dropped: the one with number K (0)
#   bh_spine       path K (2) drops everything
#   bh_ports       UDP source ports with the value K (1) modulo 4 are dropped
#
# Needs root, ip and nft, and ethtool to turn off segmentation offloads, so that each packet is
# dropped or not on its own. Kernel: VETH, NF_TABLES, NFT_HASH, NFT_NUMGEN, IP_ROUTE_MULTIPATH.
set -u
client=10.77.100.1 server=10.77.200.1 paths="0 1 2 3"

inside() { ip netns exec "$@"; }

up_namespaces() {
    for n in sol_c sol_f sol_s; do
        ip netns add $n && ip -n $n link set lo up &&
            inside $n sysctl -qw net.ipv4.fib_multipath_hash_policy=1 \
                net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
                net.ipv4.conf.all.ignore_routes_with_linkdown=1 || return 1
    done
    inside sol_f sysctl -qw net.ipv4.ip_forward=1
}

up_interface() { # NAMESPACE INTERFACE ADDRESS
    ip -n "$1" addr add "$3/30" dev "$2" && ip -n "$1" link set "$2" mtu 9000 up &&
        inside "$1" sysctl -qw "net.ipv4.conf.$2.rp_filter=0" \
            "net.ipv4.conf.$2.ignore_routes_with_linkdown=1" || return 1
    ! command -v ethtool >/dev/null || inside "$1" ethtool -K "$2" tx-udp-segmentation off gso off \
        tso off gro off >/dev/null 2>&1
    return 0
}

# routes add|replace: of the fabric, one table for each interface that packets enter by; of the
# hosts, all paths side by side
routes() {
    to_server= to_client=
    for i in $paths; do
        ip -n sol_f route "$1" $server via "10.79.$i.1" dev "fs$i" table $((100 + i)) &&
            ip -n sol_f route "$1" $client via "10.78.$i.1" dev "fc$i" table $((200 + i)) ||
            return 1
        to_server="$to_server nexthop via 10.78.$i.2 dev c$i"
        to_client="$to_client nexthop via 10.79.$i.2 dev s$i"
    done
    # shellcheck disable=SC2086
    ip -n sol_c route "$1" $server src $client $to_server &&
        ip -n sol_s route "$1" $client src $server $to_client
}

up() {
    down
    up_namespaces || return 1
    ip -n sol_c addr add $client/32 dev lo && ip -n sol_s addr add $server/32 dev lo || return 1
    for i in $paths; do
        ip link add "c$i" netns sol_c type veth peer name "fc$i" netns sol_f &&
            ip link add "s$i" netns sol_s type veth peer name "fs$i" netns sol_f &&
            up_interface sol_c "c$i" "10.78.$i.1" && up_interface sol_f "fc$i" "10.78.$i.2" &&
            up_interface sol_s "s$i" "10.79.$i.1" && up_interface sol_f "fs$i" "10.79.$i.2" &&
            ip -n sol_f rule add iif "fc$i" table $((100 + i)) &&
            ip -n sol_f rule add iif "fs$i" table $((200 + i)) || return 1
    done
    routes add && inside sol_f nft add table inet f && inside sol_f nft add chain inet f fab \
        '{ type filter hook forward priority 0; policy accept; }'
}

down() {
    for n in sol_c sol_f sol_s; do ip netns del $n 2>/dev/null; done
    return 0
}

links() { # up|down PATH...
    state=$1
    shift
    for i in "$@"; do
        ip -n sol_f link set "fc$i" "$state" && ip -n sol_f link set "fs$i" "$state" || return 1
    done
}

clear() { # a link that went down has taken its routes along
    # shellcheck disable=SC2086
    inside sol_f nft flush chain inet f fab && links up $paths && routes replace
}

rule() { inside sol_f nft add rule inet f fab "$@"; }

fault() {
    case $1 in
    port_fail) links down 0 ;;
    spine_fail) links down 2 ;;
    tor_fail) rule 'iifname { "fc0", "fc1", "fs0", "fs1" } counter drop' ;;
    reboot)
        fault tor_fail && sleep 1 && links down 0 1 && sleep 2 || return 1
        inside sol_f nft list chain inet f fab
        clear
        ;;
    drop75) rule 'numgen random mod 100 < 75 counter drop' ;;
    drop75_1spine)
        rule "iifname { \"fc${2:-1}\", \"fs${2:-1}\" } numgen random mod 100 < 75 counter drop"
        ;;
    bh_tor) rule 'meta l4proto { tcp, udp } jhash ip saddr . ip daddr . th sport . th dport' \
        "mod 4 seed 0xdeadbeef == ${2:-0} counter drop" ;;
    bh_spine) rule "iifname { \"fc${2:-2}\", \"fs${2:-2}\" } counter drop" ;;
    bh_ports) rule "udp sport & 3 == ${2:-1} counter drop" ;;
    *)
        echo "fabric.sh: unknown fault $1" >&2
        return 2
        ;;
    esac
}

case ${1:-} in
up | down | clear) "$1" ;;
fault)
    : "${2:?usage: fabric.sh fault NAME [K]}"
    shift
    fault "$@"
    ;;
*) sed -n '3,25s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
