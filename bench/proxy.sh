#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# proxy.sh [--seconds N]
#
# Called by bench/run.sh: the bump in the wire. redis-benchmark against an unmodified redis-server,
# directly and through examples/director_proxy: `split` cuts messages and replies, `pass` lets bytes
# through, `split2` has two directors. Every case runs against each in each of five rounds, one
# after the other; rows are medians. --seconds N: time of a case in a round, about (default 2). CPU:
# of redis-server and the proxy together, and of the proxy alone.
#
#   c1      one client that waits for each answer: what the proxy adds to the latency
#   c50     50 such clients
#   c50_p16 50 clients with 16 commands under way
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=2
case ${1:-} in
'') ;;
--seconds) seconds=${2:?--seconds N} ;;
*) sed -n '3,13s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
esac
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null || {
    echo "skip: no redis-server or redis-benchmark" >&2
    exit 0
}
[ -x "$bin/director_proxy" ] || { echo "bench/proxy.sh: no $bin/director_proxy" >&2; exit 1; }
work=$(mktemp -d) || exit 1
. bench/common.sh

# measure CASE PATH PORT N PIDS PROXY_PID OPTIONS...: N GETs of 64 bytes
measure() {
    case=$1 path=$2 at=$3 n=$4 pids=$5 proxy=$6
    shift 6
    t0=$(ticks $pids) p0=$(ticks ${proxy:-$$})
    line=$(redis-benchmark -p "$at" -t get -d 64 -r 10000 -n "$n" --csv "$@" 2>/dev/null |
        tr -d '"' | awk -F, '$1 == "GET" { print $2, $5, $7 }')
    t1=$(ticks $pids) p1=$(ticks ${proxy:-$$})
    [ -n "$line" ] || die "redis-benchmark failed at $path"
    set -- $line
    keep "$case" "$path" "$1"
    keep "${case}_p50" "$path" "$(awk "BEGIN { print $2 * 1000 }")"
    keep "${case}_p99" "$path" "$(awk "BEGIN { print $3 * 1000 }")"
    keep "${case}_cpu" "$path" "$(per_op $((t1 - t0)) "$n")"
    [ -z "$proxy" ] || keep "${case}_proxy_cpu" "$path" "$(per_op $((p1 - p0)) "$n")"
}
# sized CASE OPTIONS...: how many operations take about $seconds with redis alone
sized() {
    redis-benchmark -p "$port_redis" -t get -d 64 -r 10000 -n 20000 --csv "$@" 2>/dev/null |
        tr -d '"' | awk -F, -v s="$seconds" '
            $1 == "GET" { n = int($2 * s); print n < 2000 ? 2000 : n }'
}

begin redis redis-server --port $port --save '' --dir "$work"
answers redis
begin split "$bin/director_proxy" --listen 127.0.0.1:$port --server 127.0.0.1:"$port_redis"
begin split2 "$bin/director_proxy" --directors 2 --listen 127.0.0.1:$port \
    --server 127.0.0.1:"$port_redis"
begin pass "$bin/director_proxy" --pass --listen 127.0.0.1:$port --server 127.0.0.1:"$port_redis"
for s in split split2 pass; do answers $s; done
redis-benchmark -p "$port_redis" -t set -d 64 -r 10000 -n 100000 -P 16 -q >/dev/null 2>&1

n_c1=$(sized -c 1) n_c50=$(sized -c 50) n_c50_p16=$(sized -c 50 -P 16)
round=0
while [ $((round += 1)) -le "$rounds" ]; do
    for case in c1 c50 c50_p16; do
        case $case in
        c1) set -- -c 1 ;;
        c50) set -- -c 50 ;;
        c50_p16) set -- -c 50 -P 16 ;;
        esac
        eval "n=\$n_$case"
        measure "$case" redis "$port_redis" "$n" "$pid_redis" "" "$@"
        measure "$case" split "$port_split" "$n" "$pid_redis $pid_split" "$pid_split" "$@"
        measure "$case" split2 "$port_split2" "$n" "$pid_redis $pid_split2" "$pid_split2" "$@"
        measure "$case" pass "$port_pass" "$n" "$pid_redis $pid_pass" "$pid_pass" "$@"
    done
done

# name PATH: as rows name it
name() { [ "$1" = redis ] && echo redis || echo ours; }
for case in c1 c50 c50_p16; do
    for path in redis split split2 pass; do
        tag=proxy_$case
        [ $path = redis ] || tag=proxy_${path}_$case
        threads=1
        [ $path = split2 ] && threads=2
        echo "row director $tag $(name $path) $threads $(middle $case $path) op/s"
        echo "row director ${tag}_p50 $(name $path) $threads $(middle ${case}_p50 $path) us"
        echo "row director ${tag}_p99 $(name $path) $threads $(middle ${case}_p99 $path) us"
        echo "row director ${tag}_cpu $(name $path) $threads $(middle ${case}_cpu $path) us/op"
        [ $path = redis ] || echo "row director ${tag}_proxy_cpu ours $threads" \
            "$(middle ${case}_proxy_cpu $path) us/op"
    done
done
for path in split split2 pass; do
    for p in p50 p99; do
        awk "BEGIN { printf \"row director proxy_${path}_added_$p ours 1 %.1f us\\n\", \
            $(middle c1_$p $path) - $(middle c1_$p redis) }"
    done
    awk "BEGIN { printf \"ratio director proxy_${path}_c50_p16 ours/redis 1 %.3f\\n\", \
        $(middle c50_p16 $path) / $(middle c50_p16 redis) }"
done
