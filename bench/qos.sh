#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# qos.sh [--seconds N]
#
# kv_server with two tenants on a device that limits it: database 0 has one connection that waits
# for each answer, database 1 two hundred with sixteen commands each. Both read records that only
# the device has. The device is the file's, used by one request at a time (--device-depth 1), so it
# is the bottleneck whatever the machine. --seconds N: of a case in a round, by default 3.
#
#   kv_quiet_p99   of database 0, alone and beside the flood; first come first served, and with
#                  the switch. The goal is that the flood costs it a factor of two at most.
#   kv_flood_rate  what database 1 gets meanwhile: a switch must not buy the one with the other.
#   kv_both_rate   all operations in a second while both run.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=3
case "${1:-}" in
--seconds) seconds=${2:?--seconds N} ;;
--help)
    sed -n '3,14s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
"") ;;
*)
    echo "$0: unknown word '$1' (--help)" >&2
    exit 2
    ;;
esac
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
mkdir -p "$bin/../kv" && work=$(mktemp -d "$(cd "$bin/../kv" && pwd)/XXXXXX") || exit 1
bin=$(cd "$bin" && pwd)
. bench/common.sh

keys=150000 value=1000 flood_clients=200 flood_pipeline=16

# load OUT DATABASE OPTION...
load() {
    out=$1 database=$2
    shift 2
    [ "$database" = 0 ] && polite=0 || polite=19
    nice -n $polite "$bin/kv_load" --server 127.0.0.1:"$at" --database "$database" --keys $keys \
        --value-bytes $value --report "$@" >"$out" || die "the load failed: $(cat "$out")"
}
field() { sed -n "s/^$2=//p" "$1"; }

# serve WHO OPTION...
serve() {
    who=$1
    shift
    begin "$who" "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/$who" --size 1G \
        --memory 32M --device-depth 1 --log-level warning "$@"
    answers "$who"
    at=$(port_of "$who")
    i=0
    until [ "$(redis-cli -p "$at" set x y 2>/dev/null)" = OK ]; do # the host role is there
        [ $((i += 1)) -le 100 ] || die "$who: $(cat "$work/log.$who")"
        sleep 0.1
    done
    for d in 0 1; do load "$work/fill" $d --op fill --clients 16 --pipeline 16; done
}

# measure WHO: the quiet one alone, then beside the flood
measure() {
    who=$1 at=$(port_of "$1")
    load "$work/solo" 0 --clients 1 --seconds "$seconds" --seed "$round"
    # On two cores its clients compete with the server itself: they get what is left of the CPU.
    load "$work/flood" 1 --clients $flood_clients --pipeline $flood_pipeline \
        --seconds $((seconds + 3)) --seed "$round" &
    flood=$!
    sleep 2 # the flood's queues have built up
    load "$work/beside" 0 --clients 1 --seconds "$seconds" --seed "$((round + 1000))"
    wait $flood || die "the flood failed: $(cat "$work/flood")"
    for w in solo beside; do
        keep "kv_quiet_p99_$w" "$who" "$(field "$work/$w" p99_us)"
        keep "kv_quiet_p50_$w" "$who" "$(field "$work/$w" p50_us)"
    done
    keep kv_quiet_factor "$who" "$(awk -v s="$(field "$work/solo" p99_us)" \
        -v b="$(field "$work/beside" p99_us)" 'BEGIN { printf "%.3f", b / s }')"
    keep kv_flood_rate "$who" "$(field "$work/flood" rate)"
    keep kv_both_rate "$who" "$(awk -v a="$(field "$work/flood" rate)" \
        -v b="$(field "$work/beside" rate)" 'BEGIN { printf "%.1f", a + b }')"
}

serve fifo
serve gimbal --qos gimbal
round=0
while [ $((round += 1)) -le "$rounds" ]; do
    calibrate
    measure fifo
    measure gimbal
done

for w in fifo gimbal; do
    for c in solo beside; do
        echo "row qos kv_quiet_p99:$c $w 2 $(middle kv_quiet_p99_$c $w) us"
        echo "row qos kv_quiet_p50:$c $w 2 $(middle kv_quiet_p50_$c $w) us"
    done
    echo "row qos kv_flood_rate $w 2 $(middle kv_flood_rate $w) op/s"
    echo "row qos kv_both_rate $w 2 $(middle kv_both_rate $w) op/s"
    echo "row qos kv_quiet_factor $w 2 $(middle kv_quiet_factor $w) x"
done
factor=$(middle kv_quiet_factor gimbal)
awk -v f="$factor" 'BEGIN {
    printf "goal qos kv_quiet_p99 beside/solo %s <= 2 %s\n", f, f <= 2 ? "met" : "missed" }'
noise qos
