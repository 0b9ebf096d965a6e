#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# quickstart.sh [--seconds N] [--keep]
#
# On a fresh Debian machine: installs what is missing (as root; else prints the line to run),
# builds, and runs the storage node three ways on the same data under the same uniformly drawn GETs:
#
#   monolith   one role on plain files
#   library    two roles, the host reads its files through the DPU (--offload off)
#   offload    two roles, the DPU answers GETs of records on the device itself (--offload all)
#
# Each time kv_load fills the store until nearly all records are on the device only, then reads
# for N seconds (default 10) and checks every value. The last lines are `result NAME VALUE UNIT`.
# Nothing is left running. --keep leaves the data and the logs; SNIC_BUILD names the build folder.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(dirname "$here")
LC_ALL=C
export LC_ALL
exec </dev/null

seconds=10 keep=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:-}; [ $# -gt 1 ] && shift ;;
    --seconds=*) seconds=${1#*=} ;;
    --keep) keep=1 ;;
    *) sed -n '3,14s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 2 ;;
    esac
    shift
done
case $seconds in
'' | *[!0-9]* | 0) echo "quickstart: --seconds takes a number above 0" >&2; exit 2 ;;
esac

keys=1000000 value=1000 memory=32M size=2G
clients=16 pipeline=16

. "$root/tests/packages.sh"
packages gcc:gcc /usr/include/stdio.h:libc6-dev cmake:cmake make:make liburing.h:liburing-dev \
    xxhash.h:libxxhash-dev || exit 1

build=${SNIC_BUILD:-$root/build}/quickstart
mkdir -p "$build" || exit 1
echo "== building in $build"
{ cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSNIC_BUILD_TESTS=OFF \
    -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_FUZZ=OFF -DSNIC_BUILD_SHARED=OFF &&
    cmake --build "$build" --target kv_server kv_load -- -j "$(nproc)"; } >"$build/log" 2>&1 ||
    { tail -n 40 "$build/log" >&2; exit 1; }

# A bare root may have no /proc, where the CPU times are read.
mounted=
[ -e /proc/self/stat ] || { mount -t proc proc /proc && mounted=1; } ||
    { echo "quickstart: mount /proc first" >&2; exit 1; }

# ---- One server at a time; it ends with us, however we end ----

server=
work=$(mktemp -d "$build/data.XXXXXX") || exit 1
stop() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null
    i=0
    while kill -0 "$server" 2>/dev/null && [ $((i += 1)) -le 300 ]; do sleep 0.1; done
    kill -9 "$server" 2>/dev/null # its roles end with it
    wait "$server" 2>/dev/null
    server=
}
finish() {
    stop
    if [ -n "$keep" ]; then
        echo "== data and logs are in $work" >&2
    else
        rm -rf "$work"
    fi
    [ -z "$mounted" ] || umount /proc
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
die() {
    echo "quickstart: $*" >&2
    [ ! -s "$work/log.$mode" ] || tail -n 20 "$work/log.$mode" >&2
    exit 1
}

# The value of this field of INFO.
info() {
    "$build/bin/kv_load" --server "$address" --info | sed -n "s/^$1:\([0-9.]*\).*/\1/p"
}

# start MODE ARGUMENT...: sets server, address, host and dpu (the roles' processes)
start() {
    mode=$1
    shift
    i=0
    while :; do
        address=127.0.0.1:$((20000 + ($$ + i * 7919) % 20000))
        "$build/bin/kv_server" --listen "$address" --memory $memory "$@" >"$work/log.$mode" 2>&1 &
        server=$!
        tries=0
        until [ "$(info process_id 2>/dev/null)" ]; do
            kill -0 "$server" 2>/dev/null || break
            [ $((tries += 1)) -le 600 ] || die "the server does not answer"
            sleep 0.1
        done
        kill -0 "$server" 2>/dev/null && break
        wait "$server"
        server=
        grep -q 'port in use' "$work/log.$mode" || die "the server did not start"
        [ $((i += 1)) -lt 10 ] || die "no free port"
    done
    host=$server dpu=
    [ "$mode" != monolith ] || return 0
    tries=0
    until dpu=$(info dpu_pid) && [ "${dpu:-0}" != 0 ]; do
        [ $((tries += 1)) -le 100 ] || die "the DPU role prints no statistics"
        sleep 0.1
    done
    host=$(info host_pid)
}

# CPU ticks (user and system) that processes have used.
ticks() {
    sum=0
    for p in "$@"; do
        t=$(sed 's/.*) //' "/proc/$p/stat" | awk '{ print $12 + $13 }')
        sum=$((sum + t))
    done
    echo $sum
}

field() { sed -n "s/^$2=//p" "$work/$1"; }

load() {
    out=$1
    shift
    "$build/bin/kv_load" --server "$address" --keys $keys --value-bytes $value \
        --clients $clients --pipeline $pipeline --report "$@" >"$work/$out" ||
        die "the load failed: $(tr '\n' ' ' <"$work/$out")"
    [ "$(field "$out" missing)" = 0 ] || die "records are missing: $(field "$out" missing)"
}

hz=$(getconf CLK_TCK)
# us_per_op TICKS OPERATIONS
us_per_op() { awk "BEGIN { printf \"%.3f\", $1 * 1e6 / $hz / $2 }"; }

measure() {
    load get.warm --op get --seconds 1 --seed 7
    sleep 1 # the DPU reports its figures twice a second: those of the warm-up must not count
    h0=$(ticks "$host") t0=$(ticks "$host" $dpu) o0=$(info offloaded)
    load "get.$mode" --op get --seconds "$seconds" --seed 42
    sleep 1
    h1=$(ticks "$host") t1=$(ticks "$host" $dpu) o1=$(info offloaded)
    n=$(field "get.$mode" operations)
    {
        echo "result get_rate_$mode $(field "get.$mode" rate) op/s"
        echo "result get_p50_$mode $(field "get.$mode" p50_us) us"
        echo "result get_p99_$mode $(field "get.$mode" p99_us) us"
        echo "result host_cpu_$mode $(us_per_op $((h1 - h0)) "$n") us/op"
        echo "result total_cpu_$mode $(us_per_op $((t1 - t0)) "$n") us/op"
    } >>"$work/results"
}

echo "== monolith: $keys records of $value bytes, $memory of memory"
mkdir "$work/monolith" && start monolith --monolith --dir "$work/monolith"
load fill.monolith --op fill
measure
stop
rm -rf "$work/monolith"

echo "== library: the same records on an image"
start library --file "$work/image" --size $size --offload off
load fill.library --op fill
measure
stop
rm -f "$work/image"

echo "== offload: the same records on an image"
start offload --file "$work/image" --size $size --offload all
load fill.offload --op fill
measure
share=$(awk "BEGIN { printf \"%.2f\", 100 * ($o1 - $o0) / $n }")
rate=$(field fill.offload rate)
stop
rm -f "$work/image"

echo "result offloaded $share %"
echo "result set_rate $rate op/s"
cat "$work/results"
awk "BEGIN { exit !($share >= 90) }" || die "less than 90 % of the GETs were offloaded"
exit 0
