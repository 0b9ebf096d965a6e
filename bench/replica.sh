#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# replica.sh [--seconds N] [--short] [--only PART]
#
# Called by bench/run.sh: clusters of examples/ddp_server beside others that an engineer would take,
# of 3 and of 5 nodes on this machine and one disk, values of 1 KiB. Contestants take turns in each
# round (SNIC_BENCH_ROUNDS, by default 3); rows are medians. --seconds N: of a case in a round, by
# default 2. --short: one round of a second and a small store for the rejoin (8 minutes at most).
# --only nodes3|nodes5|overload|rejoin: one part.
#
#   ours      MINOS, clients spread over the nodes. Writes are durable at all nodes, reads are local
#             and linearizable (leases); `confirmed` are reads that a majority confirms, `memory`
#             writes that are in memory at all, `here` also durable at the coordinator
#   etcd      3.4, its defaults, clients at the leader (so that nothing is forwarded); writes are
#             durable at a majority, reads linearizable (ReadIndex); `serial` are its serializable
#             reads of one member, which may be stale
#   redis     one server with two replicas, appendfsync always, each SET followed by WAIT 2: durable
#             at the first, received by two; reads at the first, not linearizable after a failover
#   raft      400 lines on libraft (replica_peers/raft_server.c), batched; writes durable at a
#             majority, reads at the leader, not confirmed, so they may be stale
#   machine   calibration: processes that write 4 KiB and fdatasync at the same time, the slowest
#             counted (disk), a replicated write with nothing but its messages and disks (floor),
#             1 KiB over loopback TCP and back (echo), memcpy of 1 KiB (copy)
#
# Cases: write_N, read_N with N clients, one operation each at a time; read_64_p16 with pipelines of
# 16; ycsb_a, _b, _c: 64 clients, zipfian. Of each: rate; CPU of all processes of the servers per
# operation (cpu), of the client (client_cpu), of the machine without the client, kernel threads
# included (all_cpu); p50 and p99; of the loopback interface all bytes per operation less the
# client's payload (net); what the disk counted per operation: bytes written (disk), flushes.
# Machine-wide counts mean something on an otherwise idle machine only. `copies`: durable copies
# that the answer to a write means.
#
#   overload  writes with 4 times as many outstanding as at the highest rate: rate / highest
#   rejoin    a node is killed, 1 % of the keys are written, it starts again: bytes on the loopback
#             interface until it is full, as a part of the values' bytes; then the same under 16
#             clients (half of them writes): foreground p99 beside that without
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=2 short='' parts="nodes3 nodes5 overload rejoin"
rejoin_keys=${SNIC_BENCH_REJOIN_KEYS:-1000000}
rounds_default=3
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --only) parts=${2:?--only PART}; shift ;;
    --short) short=1 ;;
    *) sed -n '3,36s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
[ -z "$short" ] || { seconds=1 rejoin_keys=100000 rounds_default=1; }
SNIC_BENCH_ROUNDS=${SNIC_BENCH_ROUNDS:-$rounds_default}
build=${SNIC_BENCH_BUILD:-build/bench}
mkdir -p "$build/replica" && work=$(mktemp -d "$(cd "$build/replica" && pwd)/XXXXXX") || exit 1
bin=$(cd "$build/bin" && pwd)
. bench/common.sh
keys=10000
[ -x "$bin/ddp_server" ] || { echo "skip replica: ddp_server was not built"; exit 0; }

# ---- Counters ----

dev=$(stat -c '%Hd:%Ld' "$work")
block=$(readlink -f "/sys/dev/block/$dev" 2>/dev/null)
[ ! -e "$block/partition" ] || block=$(dirname "$block")
[ -e "$block/stat" ] || echo "skip replica disk: no block device under $work"
# busy ticks of the machine, loopback bytes, sectors written, flushes
counters() {
    awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
    cat /sys/class/net/lo/statistics/tx_bytes
    if [ -e "$block/stat" ]; then awk '{ print $7, $16 }' "$block/stat"; else echo 0 0; fi
}
field() { sed -n "s/^$1=//p" "$2"; }

# measure CASE WHO 'PIDS' COMMAND...: one case of one round
measure() {
    case=$1 who=$2 pids=$3
    shift 3
    # shellcheck disable=SC2086
    before="$(ticks $pids) $(counters | tr '\n' ' ')"
    if ! "$@" --seed "$round" >"$work/load" 2>"$work/load.err"; then
        echo "skip replica $case $who: $(field first_error "$work/load")$(cat "$work/load.err")"
        return
    fi
    # shellcheck disable=SC2086
    after="$(ticks $pids) $(counters | tr '\n' ' ')"
    # shellcheck disable=SC2046
    set -- $(echo "$before $after" | awk -v hz="$hz" -v n="$(field operations "$work/load")" \
        -v c="$(field client_cpu_us "$work/load")" -v s="$(field sent_bytes "$work/load")" \
        -v r="$(field received_bytes "$work/load")" '{
        net = ($8 - $3 - s - r) / n
        printf "%.3f %.3f %.1f %.1f %.4f", ($6 - $1) * 1e6 / hz / n,
            ($7 - $2) * 1e6 / hz / n - c, (net > 0 ? net : 0), ($9 - $4) * 512 / n,
            ($10 - $5) / n }')
    keep "$case" "$who" "$(field rate "$work/load")"
    keep "${case}_cpu" "$who" "$1"
    keep "${case}_client_cpu" "$who" "$(field client_cpu_us "$work/load")"
    keep "${case}_all_cpu" "$who" "$2"
    keep "${case}_net" "$who" "$3"
    case $case in
    read* | ycsb_c) ;;
    *)
        keep "${case}_disk" "$who" "$4"
        keep "${case}_flushes" "$who" "$5"
        ;;
    esac
    keep "${case}_p50" "$who" "$(field p50_us "$work/load")"
    keep "${case}_p99" "$who" "$(field p99_us "$work/load")"
}

# ---- Clusters: begin_WHO N starts nodes and sets at_WHO, the clients' addresses ----

# node NAME COMMAND...: as begin, but the port is in the command
node() {
    name=$1
    shift
    "$@" >>"$work/log.$name" 2>&1 &
    running="$running $!"
    eval "pid_$name=$!"
}
# list N PREFIX SEPARATOR: values of the variables PREFIX0, PREFIX1, ...
list() {
    i=0 out=
    while [ $i -lt "$1" ]; do
        eval "out=\$out\${out:+\$3}\$$2$i"
        i=$((i + 1))
    done
    echo "$out"
}
pids_of() { list "$2" "pid_$1" " "; }
# ready WHO PORT: waits until a SET is taken there
ready() {
    try=0
    until [ "$(redis-cli -p "$2" set key:ready 1 2>/dev/null)" = OK ]; do
        [ $((try += 1)) -le 300 ] || die "$1 did not start: $(tail -n 3 "$work"/log."$1"*)"
        sleep 0.1
    done
}

# ours_node I N: also one that ran before
ours_node() {
    # shellcheck disable=SC2086
    eval "node ours$1 \"$bin/ddp_server\" --listen 127.0.0.1:\$client$1 --node $1 \
        --peers $ours_peers --cluster $$ $ours_found --dir \"$work/ours$2.$1\" \
        --keys $ours_keys --memory $ours_memory --log-size $ours_log --log-level info"
}
begin_ours() {
    n=$1 ours_found=--found
    i=0
    ours_peers=
    while [ $i -lt "$n" ]; do
        eval "client$i=$port"
        ours_peers=$ours_peers${ours_peers:+,}127.0.0.1:$((port + 1))
        port=$((port + 8)) i=$((i + 1))
    done
    i=0
    while [ $i -lt "$n" ]; do ours_node $i "$n"; i=$((i + 1)); done
    at_ours= i=0
    while [ $i -lt "$n" ]; do
        eval "ready ours \$client$i; at_ours=\$at_ours\${at_ours:+,}127.0.0.1:\$client$i"
        i=$((i + 1))
    done
    pids_ours=$(pids_of ours "$n")
}
begin_etcd() {
    n=$1 i=0 cluster=
    while [ $i -lt "$n" ]; do
        eval "etcd_client$i=$((port)) etcd_peer$i=$((port + 1))"
        cluster=$cluster${cluster:+,}m$i=http://127.0.0.1:$((port + 1))
        port=$((port + 2)) i=$((i + 1))
    done
    i=0 ends=
    while [ $i -lt "$n" ]; do
        eval "c=http://127.0.0.1:\$etcd_client$i p=http://127.0.0.1:\$etcd_peer$i"
        ends=$ends${ends:+,}${c#http://}
        node etcd$i etcd --name m$i --data-dir "$work/etcd$n.$i" --listen-client-urls "$c" \
            --advertise-client-urls "$c" --listen-peer-urls "$p" \
            --initial-advertise-peer-urls "$p" --initial-cluster "$cluster" \
            --initial-cluster-state new --logger zap --log-level error \
            --quota-backend-bytes 8589934592
        i=$((i + 1))
    done
    i=0 at_etcd=
    until [ -n "$at_etcd" ]; do
        at_etcd=$(ETCDCTL_API=3 etcdctl --endpoints "$ends" endpoint status 2>/dev/null |
            awk -F', ' '$5 == "true" { print $1 }')
        [ $((i += 1)) -le 100 ] || die "etcd has no leader: $(tail -n 3 "$work"/log.etcd*)"
        sleep 0.2
    done
    pids_etcd=$(pids_of etcd "$n")
}
begin_redis() {
    first=$port i=0
    while [ $i -lt 3 ]; do
        mkdir "$work/redis$i"
        of=
        [ $i = 0 ] || of="--replicaof 127.0.0.1 $first"
        # shellcheck disable=SC2086
        node redis$i redis-server --port $port --save '' --appendonly yes --appendfsync always \
            --auto-aof-rewrite-percentage 0 --dir "$work/redis$i" $of
        port=$((port + 1)) i=$((i + 1))
    done
    i=0
    until [ "$(redis-cli -p $first info replication 2>/dev/null |
        grep -c 'slave.*state=online')" = 2 ]; do
        [ $((i += 1)) -le 300 ] || die "redis has no replicas: $(tail -n 3 "$work"/log.redis*)"
        sleep 0.1
    done
    at_redis=127.0.0.1:$first pids_redis=$(pids_of redis 3)
}
begin_raft() {
    n=$1 i=0 peers=
    while [ $i -lt "$n" ]; do
        peers="$peers $((port + i))"
        i=$((i + 1))
    done
    port=$((port + n)) i=0 leader=
    while [ $i -lt "$n" ]; do
        # shellcheck disable=SC2086
        eval "raft_client$i=$port"
        # shellcheck disable=SC2086
        node raft$i "$bin/raft_server" $((i + 1)) $port "$work/raft$n.$i" $peers
        port=$((port + 1)) i=$((i + 1))
    done
    try=0
    until [ -n "$leader" ]; do
        i=0
        while [ $i -lt "$n" ]; do
            eval "p=\$raft_client$i"
            # shellcheck disable=SC2154
            [ "$(redis-cli -p "$p" role 2>/dev/null)" != leader ] || leader=$p
            i=$((i + 1))
        done
        [ $((try += 1)) -le 100 ] || die "raft has no leader: $(tail -n 3 "$work"/log.raft*)"
        sleep 0.2
    done
    at_raft=127.0.0.1:$leader pids_raft=$(pids_of raft "$n")
}

# ---- Loads ----

# load WHO OPTIONS...: the client of one contestant
load() {
    who_=$1
    shift
    case $who_ in
    etcd) "$bin/etcd_load" --servers "$at_etcd" --keys $keys "$@" ;;
    serial) "$bin/etcd_load" --servers "$at_etcd" --serializable --keys $keys "$@" ;;
    redis) "$bin/resp_load" --servers "$at_redis" --wait 2 --keys $keys "$@" ;;
    raft) "$bin/resp_load" --servers "$at_raft" --keys $keys "$@" ;;
    memory | here)
        "$bin/resp_load" --servers "$at_ours" --setup "DURABILITY $who_" --keys $keys "$@"
        ;;
    confirmed)
        "$bin/resp_load" --servers "$at_ours" --setup "READLEVEL default CONFIRM" --keys $keys "$@"
        ;;
    *) "$bin/resp_load" --servers "$at_ours" --keys $keys "$@" ;;
    esac
}
# fill WHO OPTIONS...: all keys; once more where a cluster was without a leader or a lease meanwhile
fill() {
    try=0
    until load "$1" --fill "$2" "$3" "$4" "$5" >"$work/load" 2>"$work/load.err"; do
        [ $((try += 1)) -lt 4 ] || die "cannot fill $1: $(field first_error "$work/load")" \
            "$(cat "$work/load.err")"
        sleep 2
    done
}
# base WHO: whose servers they are
base() {
    case $1 in serial) echo etcd ;; memory | here | confirmed) echo ours ;; *) echo "$1" ;; esac
}
# run CASE WHO SUFFIX OPTIONS...
run() {
    case_=$1 w_=$2 suffix=$3
    shift 3
    eval "p_=\$pids_$(base "$w_")"
    # shellcheck disable=SC2154
    measure "$case_" "$w_$suffix" "$p_" load "$w_" --seconds "$seconds" "$@"
}
contestants() {
    who=ours
    [ ! -x "$bin/etcd_load" ] || ! command -v etcd >/dev/null || who="$who etcd"
    [ "$1" != 3 ] || ! command -v redis-server >/dev/null || who="$who redis"
    [ ! -x "$bin/raft_server" ] || who="$who raft"
    echo "$who"
}
for p in etcd:etcd-server redis-server:redis-server etcdctl:etcd-client; do
    command -v "${p%:*}" >/dev/null || echo "skip replica: ${p#*:} is not installed"
done
for p in etcd_load raft_server; do
    [ -x "$bin/$p" ] || echo "skip replica: $p was not built, see bench/list/replica.cmake"
done

begin_all() {
    ours_keys=200000 ours_memory=512M ours_log=1G
    all=$(contestants "$1")
    for w in $all; do "begin_$w" "$1"; done
    for w in $all; do fill "$w" --clients 16 --pipeline 4; done
    round=0
}

nodes3() {
    begin_all 3
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        "$bin/calibrate" "$work" 3 "$seconds" >"$work/calibrate"
        for c in disk floor echo copy; do
            keep "${c}_p50" machine "$(field ${c}_p50_us "$work/calibrate")"
            keep "${c}_p99" machine "$(field ${c}_p99_us "$work/calibrate")"
        done
        for c in 1 16 64 256; do
            for w in $all; do run write_$c "$w" '' --clients $c --get-percent 0; done
            for w in $all; do run read_$c "$w" '' --clients $c; done
        done
        for w in $all; do
            run read_64_p16 "$w" '' --clients 64 --pipeline 16
            run ycsb_a "$w" '' --clients 64 --get-percent 50 --zipf
            run ycsb_b "$w" '' --clients 64 --get-percent 95 --zipf
            run ycsb_c "$w" '' --clients 64 --zipf
        done
        for w in memory here; do
            run write_1 $w '' --clients 1 --get-percent 0
            run write_64 $w '' --clients 64 --get-percent 0
        done
        run read_1 confirmed '' --clients 1
        run read_64 confirmed '' --clients 64
        case $all in *etcd*) run read_64 serial '' --clients 64 ;; esac
    done
    end_all
}
nodes5() {
    begin_all 5
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        "$bin/calibrate" "$work" 5 "$seconds" >"$work/calibrate"
        for c in disk floor; do
            keep "${c}_p50" machine_5 "$(field ${c}_p50_us "$work/calibrate")"
            keep "${c}_p99" machine_5 "$(field ${c}_p99_us "$work/calibrate")"
        done
        for w in $all; do
            run write_1 "$w" _5 --clients 1 --get-percent 0
            run write_64 "$w" _5 --clients 64 --get-percent 0
            run read_64 "$w" _5 --clients 64
            run ycsb_b "$w" _5 --clients 64 --get-percent 95 --zipf
        done
    done
    end_all
}

overload() {
    ours_keys=200000 ours_memory=512M ours_log=1G all=ours
    begin_ours 3
    fill ours --clients 16 --pipeline 4
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        run saturated_64 ours '' --clients 64 --get-percent 0
        run saturated_256 ours '' --clients 256 --get-percent 0
        run overload ours '' --clients 256 --pipeline 4 --get-percent 0
        run overload_64k ours '' --clients 64 --get-percent 0 --value-bytes 65000 --keys 1000
    done
    end_all
}

# full_again: waits until the node that came back serves, which only a full one does; 1 after two
# minutes
full_again() {
    i=0
    until tail -n +"$1" "$work/log.ours2" | grep -q 'this node serves'; do
        [ $((i += 1)) -le 1200 ] || return 1
        sleep 0.1
    done
}
tx() { cat /sys/class/net/lo/statistics/tx_bytes; }
rejoin() {
    ours_keys=$((rejoin_keys * 2)) ours_memory=$((rejoin_keys * 5 / 2048 + 128))M
    ours_log=$((rejoin_keys * 5 / 2048 + 256))M
    begin_ours 3
    ours_found= keys=$rejoin_keys all=ours round=1
    fill ours --clients 64 --pipeline 4
    for under in quiet load; do
        [ $under = quiet ] ||
            measure rejoin_before ours "$pids_ours" load ours --clients 16 --get-percent 50 \
                --seconds $((seconds * 3))
        # shellcheck disable=SC2154
        kill -9 "$pid_ours2"
        wait "$pid_ours2" 2>/dev/null
        sleep 3
        survivors=$at_ours at_ours=${at_ours%,*}
        load ours --fill --keys $((rejoin_keys / 100)) --clients 16 >"$work/load" ||
            { echo "skip replica rejoin: writes with two nodes fail"; break; }
        lines=$(($(wc -l <"$work/log.ours2") + 1)) start=$(date +%s%N) bytes=$(tx)
        ours_node 2 3
        if [ $under = load ]; then
            measure rejoin_during ours "$pids_ours" load ours --clients 16 --get-percent 50 \
                --seconds $((seconds * 3))
        fi
        full_again $lines || { echo "skip replica rejoin $under: not full in two minutes"; break; }
        keep rejoin_${under}_ms ours $((($(date +%s%N) - start) / 1000000))
        [ $under = load ] || keep rejoin_bytes ours "$(awk "BEGIN {
            printf \"%.4f\", ($(tx) - $bytes) / ($rejoin_keys * 1024) }")"
        at_ours=$survivors pids_ours=$(pids_of ours 3)
        sleep 1
    done
    end_all
    keys=10000
}

# ---- Rows ----

unit() {
    case $1 in
    *_cpu) echo us/op ;; *_p50 | *_p99) echo us ;; *_net | *_disk) echo B/op ;;
    *_flushes) echo flushes/op ;; *_ms) echo ms ;; rejoin_bytes) echo of_values ;;
    *) echo op/s ;;
    esac
}
# ratio CASE OURS PEER: above 1 ours is better
ratio() {
    kept "$1" "$2" && kept "$1" "$3" || return 0
    mine=$(middle "$1" "$2") theirs=$(middle "$1" "$3")
    [ "$(unit "$1")" = op/s ] || { t=$mine; mine=$theirs; theirs=$t; }
    awk -v o="$mine" -v p="$theirs" -v t="ratio replica $1 $2/$3 -" \
        'BEGIN { if (p > 0) printf "%s %.3f\n", t, o / p }'
}
rows() {
    for w in "ours 3" "here 1" "memory 0" "ours_5 5" "etcd 2" "etcd_5 3" "redis 1" "raft 2" \
        "raft_5 3"; do
        ! kept write_64 "${w% *}" || echo "row replica copies ${w% *} - ${w#* } durable"
    done
    for f in "$work"/v.*; do
        [ -e "$f" ] || continue
        name=${f##*/v.}
        c=${name%.*} w=${name##*.}
        echo "row replica $c $w - $(middle "$c" "$w") $(unit "$c")"
    done
    for p in etcd redis raft; do
        for c in write_1 write_16 write_64 write_256 read_1 read_16 read_64 read_256 read_64_p16 \
            ycsb_a ycsb_b ycsb_c; do
            ratio $c ours $p
            ratio ${c}_cpu ours $p
            ratio ${c}_p50 ours $p
            ratio ${c}_p99 ours $p
        done
        for c in write_1 write_64 read_64 ycsb_b; do
            ratio $c ours_5 ${p}_5
            ratio ${c}_cpu ours_5 ${p}_5
        done
    done
    ratio read_64_cpu ours serial
    ratio read_64_cpu confirmed etcd
    for c in write_1 write_64; do
        ratio $c here redis
        ratio ${c}_cpu here redis
    done
    if kept overload ours; then
        awk -v a="$(middle saturated_64 ours)" -v b="$(middle saturated_256 ours)" \
            -v o="$(middle overload ours)" \
            'BEGIN { printf "ratio replica overload ours/highest - %.3f\n", o / (a > b ? a : b) }'
    fi
    for c in disk floor; do
        kept write_1_p50 ours && kept ${c}_p50 machine || continue
        awk -v w="$(middle write_1_p50 ours)" -v d="$(middle ${c}_p50 machine)" \
            -v t="row replica write_1_p50_over_$c ours -" \
            'BEGIN { printf "%s %.1f us\n", t, w - d }'
    done
    if kept rejoin_during_p99 ours && kept rejoin_before_p99 ours; then
        awk -v a="$(middle rejoin_before_p99 ours)" -v b="$(middle rejoin_during_p99 ours)" \
            'BEGIN { printf "ratio replica rejoin_p99 during/before - %.3f\n", b / a }'
    fi
    noise replica
}

# A part that fails costs the others' rows nothing.
die() {
    echo "$0: $*" >&2
    rows
    exit 1
}
for part in $parts; do
    case $part in nodes3 | nodes5 | overload | rejoin) $part ;; *) die "--only $part?" ;; esac
    rm -rf "$work"/ours?.* "$work"/etcd?.* "$work"/raft?.* "$work"/redis? # and their disk space
done
rows
