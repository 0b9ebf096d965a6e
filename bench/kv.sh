#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kv.sh [--seconds N]
#
# Called by bench/run.sh: the storage node of examples/kv_server beside redis-server and fio. Every
# case runs in each of five rounds, one after the other, and the rows are medians. --seconds N is
# the time of a case in a round, by default 3. CPU rows: all of a server's processes, per operation.
#
#   memory_get   GETs of 64-byte values out of memory, redis-benchmark -P 16 -c 50, both servers.
#   device_get   GETs of records that only the device has, 16 connections of 16 commands, beside
#                fio's io_uring engine reading as many bytes at the same depth from the same file;
#                three in a hundred are in the host's memory, too: offload-all has --offload all
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=3
[ "${1:-}" = --seconds ] && seconds=${2:?--seconds N}
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
mkdir -p "$bin/../kv" && work=$(mktemp -d "$(cd "$bin/../kv" && pwd)/XXXXXX") || exit 1
bin=$(cd "$bin" && pwd)

keys=1000000 value=1000 depth=256 memory_keys=100000
. bench/common.sh

# servers PORT PID: the processes of the two roles
servers() {
    dpu=$(info "$1" dpu_pid)
    if [ "${dpu:-0}" != 0 ]; then
        echo "$dpu $(info "$1" host_pid)"
    else
        echo "$2"
    fi
}

# memory WHO PORT PID...
memory() {
    who=$1 at=$2
    shift 2
    n=$per_round
    t0=$(ticks "$@")
    rate=$(redis-benchmark -p "$at" -t get -P 16 -c 50 -n $n -r $memory_keys --csv 2>/dev/null |
        tr -d '"' | awk -F, '$1 == "GET" { print $2 }')
    [ -n "$rate" ] || die "redis-benchmark failed at $who"
    keep memory_get "$who" "$rate"
    keep memory_get_cpu "$who" "$(per_op $(($(ticks "$@") - t0)) $n)"
}
# device CASE WHO PORT HOST_PID PID...
device() {
    case=$1 who=$2 at=$3 host=$4
    shift 4
    t0=$(ticks "$@") h0=$(ticks "$host")
    "$bin/kv_load" --server 127.0.0.1:"$at" --op get --keys $keys --value-bytes $value \
        --clients 16 --pipeline $((depth / 16)) --seconds "$seconds" --seed "$round" --report \
        >"$work/load" || die "the load failed at $who: $(cat "$work/load")"
    t1=$(ticks "$@") h1=$(ticks "$host")
    n=$(sed -n 's/^operations=//p' "$work/load")
    keep "$case" "$who" "$(sed -n 's/^rate=//p' "$work/load")"
    keep "${case}_p50" "$who" "$(sed -n 's/^p50_us=//p' "$work/load")"
    keep "${case}_p99" "$who" "$(sed -n 's/^p99_us=//p' "$work/load")"
    keep "${case}_cpu" "$who" "$(per_op $((t1 - t0)) "$n")"
    keep "${case}_host_cpu" "$who" "$(per_op $((h1 - h0)) "$n")"
}
# What a GET of such a record reads, in blocks, from places in use, as deep.
disk() {
    fio --name=f --filename="$1" --readonly --rw=randread --bs=1536 --blockalign=512 --direct=1 \
        --ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=$depth \
        --size="$2" --runtime="$seconds" --time_based \
        --norandommap --randrepeat=0 --minimal >"$work/fio" 2>"$work/fio.err" ||
        die "fio: $(cat "$work/fio.err")"
    keep device_get fio "$(awk -F';' '{ print $8 }' "$work/fio")"
    # Its CPU share, over user and system.
    keep device_get_cpu fio "$(awk -F';' '{ u = $88 + $89; print ($8 > 0 ? u * 1e4 / $8 : 0) }' \
        "$work/fio")"
}

# ---- Servers in memory, one filled like the other ----

begin redis redis-server --port $port --save '' --appendonly no --dir "$work"
begin single "$bin/kv_server" --listen 127.0.0.1:$port --single-process --file "$work/memory" \
    --size 1G --memory 256M --log-level warning
begin pair "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/pair" --size 1G --memory 256M \
    --log-level warning
for s in redis single pair; do answers $s; done
awk -v n=$memory_keys -v set='*3\r\n$3\r\nSET\r\n$16\r\n' 'BEGIN { for (i = 0; i < n; i++)
    printf "%skey:%012d\r\n$64\r\n%064d\r\n", set, i, i }' >"$work/sets"
for p in "$port_redis" "$port_single" "$port_pair"; do
    redis-cli -p "$p" --pipe <"$work/sets" >"$work/pipe" 2>&1 ||
        die "cannot fill: $(cat "$work/pipe")"
done
sleep 1 # until the DPU role has reported its process id
all_pair=$(servers "$port_pair" "$pid_pair")
# As many requests as redis-server answers in a round's time.
rate=$(redis-benchmark -p "$port_redis" -t get -P 16 -c 50 -n 200000 -r $memory_keys -d 64 --csv \
    2>/dev/null | tr -d '"' | awk -F, '$1 == "GET" { printf "%d", $2 }')
per_round=$((${rate:-200000} * seconds))
round=0
while [ $((round += 1)) -le "$rounds" ]; do
    calibrate
    memory redis "$port_redis" "$pid_redis"
    memory ours "$port_single" "$pid_single"
    # shellcheck disable=SC2086
    memory two-process "$port_pair" $all_pair
done
end_all
rm -f "$work/memory" "$work/pair" "$work/sets"

# ---- Servers whose records are on the device ----

mkdir "$work/monolith"
begin monolith "$bin/kv_server" --listen 127.0.0.1:$port --monolith --dir "$work/monolith" \
    --memory 32M --log-level warning
begin two "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/two" --size 2G --memory 32M \
    --log-level warning
begin all "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/all" --size 2G --memory 32M \
    --offload all --log-level warning
begin library "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/library" --size 2G \
    --memory 32M --offload off --log-level warning
begin threads "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/threads" --size 2G \
    --memory 32M --single-process --log-level warning
for s in monolith two all library threads; do
    answers $s
    "$bin/kv_load" --server 127.0.0.1:"$(port_of $s)" --op fill --keys $keys --value-bytes $value \
        --clients 16 --pipeline 16 --report >"$work/load" || die "cannot fill: $(cat "$work/load")"
done
sleep 1 # until the DPU role has reported its process id
all_two=$(servers "$port_two" "$pid_two") host_two=$(info "$port_two" host_pid)
all_all=$(servers "$port_all" "$pid_all") host_all=$(info "$port_all" host_pid)
all_library=$(servers "$port_library" "$pid_library")
host_library=$(info "$port_library" host_pid)
round=0
while [ $((round += 1)) -le "$rounds" ]; do
    calibrate
    disk "$work/two" 1100M
    # shellcheck disable=SC2086
    device device_get ours "$port_two" "$host_two" $all_two
    # shellcheck disable=SC2086
    device device_get offload-all "$port_all" "$host_all" $all_all
    # shellcheck disable=SC2086
    device device_get library "$port_library" "$host_library" $all_library
    device device_get monolith "$port_monolith" "$pid_monolith" "$pid_monolith"
    device device_get single-process "$port_threads" "$pid_threads" "$pid_threads"
done

# ---- Rows ----

threads() {
    case $1 in
    ours | offload-all | single-process | two-process | library) echo 2 ;;
    *) echo 1 ;;
    esac
}
unit() {
    case $1 in *_cpu) echo us/op ;; *_p50 | *_p99) echo us ;; *) echo op/s ;; esac
}
# ratio CASE PEER [OURS]: more of a rate is better, less of anything else
ratio() {
    ours=$(middle "$1" "${3:-ours}") peer=$(middle "$1" "$2")
    [ "$(unit "$1")" = op/s ] || { t=$ours; ours=$peer; peer=$t; }
    awk -v o="$ours" -v p="$peer" -v t="ratio kv $1 ${3:-ours}/$2 $(threads "${3:-ours}")" \
        'BEGIN { if (p > 0) printf "%s %.3f\n", t, o / p }'
}
for c in memory_get memory_get_cpu device_get device_get_cpu device_get_host_cpu device_get_p50 \
    device_get_p99; do
    for w in ours offload-all single-process two-process library monolith redis fio; do
        ! kept "$c" "$w" || echo "row kv $c $w $(threads $w) $(middle $c $w) $(unit $c)"
    done
done
ratio memory_get redis
ratio memory_get redis two-process
ratio memory_get_cpu redis
ratio device_get fio
ratio device_get library
ratio device_get monolith
ratio device_get_cpu library
ratio device_get_cpu monolith
ratio device_get_cpu monolith library
noise kv
