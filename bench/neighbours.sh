#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# neighbours.sh [--seconds N] [--requests N] [--most N] [--repeats N] [PROGRAM...]
#
# What one client costs the others. Victims: 4 clients with Poisson arrivals at 30 % of what the
# same clients get from the server alone in a closed loop; latency counts from the time that a
# request is due. Beside them, on the same server, one neighbour after the other:
#
#   good      4 clients of the same offered load: what the rest is compared with
#   slow      asks for large replies and reads four bytes per second
#   paused    asks for large replies and reads none
#   hostile   as many connections as the server takes: a third flood it, a third send what breaks
#             the protocol, a third are idle; those that are closed come again
#   full      has filled the disk, and continues to write
#
# PROGRAM, without one all; limits are the default ones, but for that of connections, 64:
#
#   kv_server        beside redis-server; neither syncs
#   page_server      pages of 8 KiB, each with an update: the DPU role reads them; no peer
#   solar_volume     4 KiB at random: a server with two disks, one client and its NBD socket for the
#                    victims, one for the neighbour, which while it is paused is stopped, too, and
#                    while it is hostile sends the server noise; beside nbdkit memory behind two
#                    nbdkit nbd. full: a store without room beside the two disks, of which the
#                    neighbour writes all of its own again and again (no peer)
#   director_proxy   in front of a redis-server, beside one without it
#   catalog          solar_volume ctl serve with a block server. Each client has a disk, asks where
#                    one of its segments is, and with 10 % renews its lease or (1 %) opens another
#                    disk. slow, paused: lookups of 64 segments; hostile: half of those that flood
#                    list segments as an operator does; full: asks for segments that no server has
#                    room for; no peer
#   kvfs_mount       as root; on LMDB, two processes, a cache that writes back, on ext4 on a loop
#                    device, beside such an ext4; 4 KiB at random past the page cache, each client a
#                    file. slow: large reads, then waits; paused: stopped amid them; hostile: 12
#                    threads that write 1 MiB at a time, make and remove names, and sync. The load
#                    is not fio's, whose latency does not count from the time a request is due
#
#   cell neighbours PROGRAM:NEIGHBOUR WHO ROUND ...        one round, as soon as it is over
#   row neighbours PROGRAM:NEIGHBOUR ours|PEER 4 X us      99th percentile of the victims' latency
#   row neighbours PROGRAM:NEIGHBOUR_p50 WHO 4 X us
#   row neighbours PROGRAM:NEIGHBOUR_rate WHO 4 X op/s     that was answered
#   row neighbours PROGRAM:NEIGHBOUR_errors WHO 4 N errors of all repeats: error replies, requests
#                                                          without one, connections lost
#   row neighbours PROGRAM:NEIGHBOUR_rise WHO 4 X x        99th percentile over that beside good
#   row neighbours PROGRAM:requests WHO 4 N operations     of the victims in a cell
#   row neighbours PROGRAM:rounds ours - N rounds          that are in these medians
#   row neighbours PROGRAM:time ours - N s                 of the whole program
#   ratio neighbours PROGRAM:NEIGHBOUR_rise ours/PEER 4 X  the peer's rise over ours
#   goal neighbours PROGRAM:NEIGHBOUR_rise X <= L met      or missed; L: 2, or the peer's rise if
#                                                          that is less, but not less than 1
#
# Values are medians of --repeats N rounds (5) in which the contestants take turns. --requests N: of
# the victims in a cell (100000), but what is due in --most N seconds (20; kvfs_mount 10) where that
# is less; --seconds N: of the closed loop (2). Neighbours run at nice 19: their own CPU time is not
# what is measured. A program that fails does not stop the others; one that is interrupted prints
# the rows of its rounds so far. SNIC_BENCH_PEERS=no leaves out the peers.
set -u
cd "$(dirname "$0")/.." || exit 1
usage() { sed -n '3,55s/^# \{0,1\}//p' "$0"; exit "$1"; }
seconds=2 requests=100000 most= repeats= programs=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --requests) requests=${2:?--requests N}; shift ;;
    --most) most=${2:?--most N}; shift ;;
    --repeats) repeats=${2:?--repeats N}; shift ;;
    kv_server | page_server | solar_volume | director_proxy | catalog | kvfs_mount)
        programs="$programs $1"
        ;;
    --help | -h) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done
case $seconds$requests$most$repeats in *[!0-9]*) echo "options take numbers" >&2; exit 2 ;; esac
programs=${programs:-kv_server page_server solar_volume director_proxy catalog kvfs_mount}
# Each program in a process of its own, which ends what it has started.
program=${programs# }
case $program in
*" "*)
    status=0 one=
    trap '[ -z "$one" ] || kill "$one"; wait; exit 143' INT TERM HUP
    for program in $programs; do
        sh bench/neighbours.sh --seconds "$seconds" --requests "$requests" \
            ${most:+--most "$most"} ${repeats:+--repeats "$repeats"} "$program" &
        one=$!
        wait $one || status=1
    done
    exit $status
    ;;
esac
began=$(date +%s)
case $program in kvfs_mount) most=${most:-10} ;; *) most=${most:-20} ;; esac
peers=${SNIC_BENCH_PEERS:-yes}
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
[ -x "$bin/neighbours" ] || { echo "neighbours.sh: no $bin/neighbours" >&2; exit 1; }
mkdir -p "$bin/../neighbours" && work=$(mktemp -d "$(cd "$bin/../neighbours" && pwd)/XXXXXX") ||
    exit 1
bin=$(cd "$bin" && pwd)
module=neighbours connections=64
. bench/common.sh
rounds=${repeats:-$rounds}
besides= victim= stopped= loops= memory=
# Mounts and loop devices of kvfs_mount, too.
unmount() {
    [ ! -d "$work/mnt.ours" ] || fusermount3 -u -z "$work/mnt.ours" 2>/dev/null
    for p in $running; do kill "$p" 2>/dev/null; done
    for p in $running; do wait "$p" 2>/dev/null; done
    running=
    for l in $loops; do
        umount "$l" 2>/dev/null || umount -l "$l" 2>/dev/null
    done
    loops=
}
printed= round=0
neighbours_finish() {
    trap '' INT TERM HUP
    [ -n "$printed" ] || [ "$round" -lt 2 ] || rows
    for p in $victim $besides $stopped; do kill -CONT "$p" 2>/dev/null; done
    for p in $victim $besides; do kill "$p" 2>/dev/null; done
    [ -z "$loops" ] || unmount
    [ -z "$memory" ] || [ "$memory" = "$work" ] || rm -rf "$memory"
    running="$victim $besides $running"
    finish
}
trap neighbours_finish EXIT

field() { sed -n "s/^$2=//p" "$1"; }
# beside OPTION...: one more process of the neighbour
beside() {
    nice -n 19 "$bin/neighbours" --seconds "$lasts" --seed "$round" "$@" >"$work/beside" 2>&1 &
    besides="$besides $!"
}
# alone WHO OPTION...: the closed loop; sets rate_WHO
alone() {
    who=$1
    shift
    "$bin/neighbours" --as closed --seconds "$seconds" "$@" >"$work/alone" 2>&1 ||
        die "$program: $who: $(cat "$work/alone")"
    rate=$(field "$work/alone" rate | awk '{ printf "%d", $1 * 0.3 }')
    [ "$rate" -gt 0 ] || die "$program: $who answers nothing: $(cat "$work/alone")"
    eval "rate_$who=$rate"
}
# fill WHO OPTION...: all keys
fill() {
    who=$1
    shift
    "$bin/neighbours" --as fill --clients 1 "$@" >"$work/fill" 2>&1 &&
        [ "$(field "$work/fill" errors)" = 0 ] ||
        die "cannot fill $who: $(cat "$work/fill" "$work/log.$who")"
}
# open_loop [OPTION]...: more of what the victims do
open_loop() { beside --as open --rate "$rate" --requests 2000000000 "$@"; }
# cell NEIGHBOUR WHO: neighbour_PROGRAM NEIGHBOUR WHO starts it, beside victims with $load_WHO
cell() {
    eval "rate=\$rate_$2 load=\${load_$2_$1:-\$load_$2}"
    n=$((rate * most < requests ? rate * most : requests))
    bound=$((2 * n / rate + 10)) lasts=$((2 * n / rate + 180))
    # They are connected before the neighbour comes, and begin when it has been there for a second;
    # a disk is full before they come.
    if [ "$1" = full ]; then
        "neighbour_$program" "$1" "$2"
        [ "$program" != kvfs_mount ] || until_full "$2"
    fi
    # shellcheck disable=SC2086
    "$bin/neighbours" --as open --rate "$rate" --requests $n --seconds $bound \
        --delay 1500 --seed "$round" $load >"$work/victim" 2>&1 &
    victim=$!
    sleep 0.5
    [ "$1" = full ] || "neighbour_$program" "$1" "$2"
    wait $victim ||
        die "$program: the victims of $2 failed beside $1: $(cat "$work/victim" "$work"/log.*)"
    victim=
    for p in $stopped; do kill -CONT "$p"; done
    stopped=
    for p in $besides; do kill "$p" 2>/dev/null; done
    for p in $besides; do wait "$p"; done
    besides=
    # It has met the end of the disk.
    [ "$program $1" != "kvfs_mount full" ] || [ "$(field "$work/beside" errors)" -gt 0 ] ||
        die "$program: the disk of $2 did not fill: $(cat "$work/beside")"
    [ "$program" != kvfs_mount ] || rm -f "$folder"/f* "$folder"/h*
    sleep 0.5
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(for f in p99_us p50_us rate errors; do field "$work/victim" $f; done)
    keep "$program:$1" "$2" "$3"
    keep "$program:$1_p50" "$2" "$4"
    keep "$program:$1_rate" "$2" "$5"
    keep "$program:$1_errors" "$2" "$6"
    keep "$program:requests" "$2" $n
    echo "cell neighbours $program:$1 $2 $round $3 us, p50 $4 us, $5 op/s, $6 errors"
}
# rows: of $program, ours and $peer
rows() {
    printed=yes
    kept "$program:good" ours || return
    for w in $peer ours; do
        kept "$program:requests" "$w" || continue
        echo "row neighbours $program:requests $w 4 $(middle "$program:requests" "$w") operations"
    done
    echo "row neighbours $program:rounds ours - $(wc -l <"$work/v.$program:good.ours") rounds"
    for c in good slow paused hostile full; do
        limit=2
        for w in $peer ours; do
            kept "$program:$c" "$w" || continue
            p99=$(middle "$program:$c" "$w")
            t="row neighbours $program:$c"
            echo "$t $w 4 $p99 us"
            echo "${t}_p50 $w 4 $(middle "$program:${c}_p50" "$w") us"
            echo "${t}_rate $w 4 $(middle "$program:${c}_rate" "$w") op/s"
            echo "${t}_errors $w 4 $(awk '{ s += $1 } END { print s }' \
                "$work/v.$program:${c}_errors.$w") errors"
            [ $c != good ] || continue
            kept "$program:good" "$w" || continue
            rise=$(awk -v a="$p99" -v b="$(middle "$program:good" "$w")" \
                'BEGIN { printf "%.3f", (b > 0 ? a / b : 0) }')
            echo "${t}_rise $w 4 $rise x"
            if [ "$w" != ours ]; then
                peers_rise=$rise
                limit=$(awk -v r="$rise" 'BEGIN { print (r < 1 ? 1 : (r > 2 ? 2 : r)) }')
                continue
            fi
            kept "$program:$c" "${peer:-none}" && awk -v o="$rise" -v p="$peers_rise" \
                -v t="ratio neighbours $program:${c}_rise ours/$peer 4" \
                'BEGIN { if (o > 0) printf "%s %.3f\n", t, p / o }'
            awk -v r="$rise" -v l="$limit" -v t="goal neighbours $program:${c}_rise" \
                'BEGIN { printf "%s %s <= %s %s\n", t, r, l, (r + 0 <= l + 0 ? "met" : "missed") }'
        done
    done
}
# repeat NEIGHBOUR...: all rounds of $program, ours and $peer; and their rows
repeat() {
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for c in "$@"; do
            for w in ours $peer; do
                [ "$c $w" != "full nbdkit" ] || continue
                [ "$w" != nbdkit ] || nbdkit_again
                cell "$c" "$w"
            done
        done
    done
    rows
}

# ---- Servers that speak RESP ----

# resp NEIGHBOUR WHO: at $port_WHO
resp() {
    at="--protocol resp --address 127.0.0.1:$(port_of "$2")"
    case $1 in
    good) open_loop $load ;;
    # 128 MiB of replies in all
    slow | paused) beside --as "$1" $at --prefix big: --keys 1 --depth 128 ;;
    hostile) beside --as hostile $at --clients $connections --depth 64 $resp_keys ;;
    esac
}
# resp_ready WHO: fills it, and finds its saturation
resp_ready() {
    at="--protocol resp --address 127.0.0.1:$(port_of "$1")"
    answers "$1"
    i=0
    until [ "$(redis-cli -p "$(port_of "$1")" set x y 2>/dev/null)" = OK ]; do
        [ $((i += 1)) -le 100 ] || die "$1 takes nothing: $(cat "$work/log.$1")"
        sleep 0.1
    done
    for f in "$resp_keys" "--prefix big: --keys 1 --bytes 262144"; do
        fill "$1" $at $f
    done
    eval "load_$1=\"$at $resp_keys --writes 10\""
    alone "$1" $at $resp_keys --writes 10
}
resp_keys="--keys 20000 --bytes 1000"

# resp_rounds: ours is there; beside a redis-server
resp_rounds() {
    resp_ready ours
    if [ "$peers" = yes ] && command -v redis-server >/dev/null; then
        peer=redis
        begin redis redis-server --port $port --save '' --appendonly no --dir "$work" \
            --maxclients $connections
        resp_ready redis
    fi
    repeat good slow paused hostile
}

run_kv_server() {
    begin ours "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/kv" --size 1G \
        --connections $connections --sync none --log-level error
    resp_rounds
}
neighbour_kv_server() { resp "$@"; }

run_director_proxy() {
    begin behind redis-server --port $port --save '' --appendonly no --dir "$work"
    answers behind
    begin ours "$bin/director_proxy" --listen 127.0.0.1:$port \
        --server 127.0.0.1:"$(port_of behind)" --connections $connections --log-level error
    resp_rounds
}
neighbour_director_proxy() { resp "$@"; }

# ---- Virtual disks ----

# ready LOG: the address on the log's line "ready"
ready() {
    i=0
    until at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1" 2>/dev/null) && [ -n "$at" ]; do
        [ $((i += 1)) -le 300 ] || die "it is not ready: $(cat "$1")"
        sleep 0.1
    done
}
nbd_blocks=16384
there() { # there SOCKET
    i=0
    until [ -S "$1" ]; do
        [ $((i += 1)) -le 300 ] || die "no $1"
        sleep 0.1
    done
}
# nbd_ready WHO SOCKET: writes the victims' disk
nbd_ready() {
    there "$2"
    fill "$1" --protocol nbd --address "$2" --keys $nbd_blocks --bytes 4096
}
nbd_load="--keys $nbd_blocks --bytes 4096 --writes 10"
# disks NAME STORE_SIZE SIZE: a server NAME, with a disk for victims and one of SIZE, each a client
disks() {
    begin "$1" "$bin/solar_volume" server --listen 127.0.0.1:0 --store "$memory/$1" \
        --store-size "$2" --disk 1:64M --disk "2:$3" --log-level error
    ready "$work/log.$1"
    eval "at_$1=$at"
    server=$at
    begin "$1_victim" "$bin/solar_volume" client --server "$server" --disk 1 --size 64M --epoch 1 \
        --socket "$work/$1.victim" --log-level error
    ready "$work/log.$1_victim"
    begin "$1_beside" "$bin/solar_volume" client --server "$server" --disk 2 --size "$3" --epoch 1 \
        --socket "$work/$1.beside" --log-level error
    ready "$work/log.$1_beside"
    nbd_ready "$1" "$work/$1.victim"
}
nbdkit_at() { # nbdkit_at victim|beside
    begin "nbdkit_$1" nbdkit -f -U "$work/nbdkit.$1" nbd hostname=127.0.0.1 \
        "port=$(port_of memory)" retry=10
    there "$work/nbdkit.$1"
}
# Some versions fail an assertion when a client closes a connection on which replies are due.
nbdkit_again() {
    for part in victim beside; do
        eval "p=\$pid_nbdkit_$part"
        # shellcheck disable=SC2154
        kill -0 "$p" 2>/dev/null && continue
        why=$(tail -n 1 "$work/log.nbdkit_$part")
        echo "neighbours: nbdkit ended and is started again: $why" >&2
        running=$(echo " $running " | sed "s/ $p / /")
        rm -f "$work/nbdkit.$part"
        nbdkit_at $part
    done
}
in_memory() { memory=$(mktemp -d "/dev/shm/neighbours.XXXXXX" 2>/dev/null) || memory=$work; }
run_solar_volume() {
    in_memory
    disks ours 1G 64M
    disks full 320M 206M
    load_ours="--protocol nbd --address $work/ours.victim $nbd_load"
    load_ours_full="--protocol nbd --address $work/full.victim $nbd_load"
    alone ours $load_ours
    if [ "$peers" = yes ] && command -v nbdkit >/dev/null; then
        peer=nbdkit
        begin memory nbdkit -f -p "$port" -i 127.0.0.1 memory 64M
        for c in victim beside; do nbdkit_at $c; done
        nbd_ready nbdkit "$work/nbdkit.victim"
        load_nbdkit="--protocol nbd --address $work/nbdkit.victim $nbd_load"
        alone nbdkit $load_nbdkit
    fi
    repeat good slow paused hostile full
}
neighbour_solar_volume() {
    at="--protocol nbd --address $work/$2.beside"
    case $1 in
    good) open_loop $at $nbd_load ;;
    slow) beside --as slow $at --keys 32 --bytes 1048576 --depth 32 ;;
    paused)
        beside --as paused $at --keys 32 --bytes 1048576 --depth 32
        sleep 0.5
        stopped=$(pid_of "$2_beside")
        kill -STOP "$stopped" || die "$2_beside is gone: $(cat "$work/log.$2_beside")"
        ;;
    hostile)
        beside --as hostile $at --clients $connections --depth 64 $nbd_load --writes 50
        [ "$2" != ours ] || beside --protocol udp --as hostile --address "$at_ours"
        ;;
    full)
        beside --as full --protocol nbd --address "$work/full.beside" --clients 1 --depth 4 \
            --keys 206 --bytes 1048576 --writes 100
        ;;
    esac
}

# ---- The catalog ----

catalog_load="--keys 8 --bytes 1 --writes 10"
run_catalog() {
    in_memory
    begin ours "$bin/solar_volume" ctl serve --listen 127.0.0.1:0 --catalog "$memory/catalog" \
        --connections $((connections + 8)) --log-level error
    ready "$work/log.ours"
    control=$at
    begin store "$bin/solar_volume" server --listen 127.0.0.1:0 --store "$memory/store" \
        --store-size 1G --control "$control" --log-level error
    ready "$work/log.store"
    for d in f0:8G $(for c in 0 1 2 3; do
        echo v$c:128M vo$c:2M n$c:128M no$c:2M h$c:128M ho$c:2M
    done); do
        "$bin/solar_volume" ctl create "${d%:*}" "${d#*:}" --control "$control" >"$work/log" 2>&1 ||
            die "cannot make a disk: $(cat "$work/log")"
    done
    load_ours="--protocol catalog --address $control --prefix v $catalog_load"
    alone ours $load_ours
    repeat good slow paused hostile full
}
neighbour_catalog() {
    at="--protocol catalog --address $control"
    case $1 in
    good) open_loop $at --prefix n $catalog_load ;;
    slow | paused) beside --as "$1" $at --prefix n --keys 64 --bytes 64 --depth 4096 ;;
    hostile) beside --as hostile $at --prefix h $catalog_load --clients $connections --depth 64 ;;
    full) beside --as full $at --prefix f --clients 1 --keys 4096 --bytes 1 --depth 64 ;;
    esac
}

# ---- File systems ----

file_load="--keys 1024 --bytes 4096"
# loop_at WHO: an ext4 at $work/loop.WHO
loop_at() {
    mkdir "$work/loop.$1" && truncate -s 384M "$work/image.$1" &&
        mkfs.ext4 -q -F "$work/image.$1" && mount -o loop "$work/image.$1" "$work/loop.$1" ||
        return 1
    loops="$loops $work/loop.$1"
}
# files WHO FOLDER: fills it, and finds the saturation
files() {
    for f in v n b; do
        case $f in b) keys=2048 ;; *) keys=1024 ;; esac
        fill "$1" --protocol file --address "$2" --prefix $f --keys $keys --bytes 4096 --clients 4
    done
    eval "folder_$1=$2"
    eval "load_$1=\"--protocol file --address $2 --prefix v $file_load --writes 10\""
    eval "alone $1 \$load_$1"
}
run_kvfs_mount() {
    [ -x "$bin/kvfs_mount" ] || { echo "skip neighbours kvfs_mount: it is not built"; return; }
    [ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && (: <>/dev/fuse) 2>/dev/null &&
        loop_at ours 2>"$work/log" ||
        { echo "skip neighbours kvfs_mount: it needs root, /dev/fuse and loop devices"; return; }
    mkdir "$work/mnt.ours" "$work/loop.ours/store"
    begin ours "$bin/kvfs_mount" -f --store "lmdb:$work/loop.ours/store" --mkfs --two-process \
        --cache-size 16M --cache-writeback "$work/mnt.ours"
    i=0
    until mountpoint -q "$work/mnt.ours"; do
        kill -0 "$(pid_of ours)" 2>/dev/null && [ $((i += 1)) -le 300 ] ||
            die "cannot mount: $(cat "$work/log.ours")"
        sleep 0.1
    done
    files ours "$work/mnt.ours"
    if [ "$peers" = yes ] && loop_at ext4; then
        peer=ext4
        : >"$work/log.ext4"
        files ext4 "$work/loop.ext4"
    fi
    repeat good slow paused hostile full
}
# until_full WHO: its disk no longer fills
until_full() {
    left=
    i=0
    while [ $((i += 1)) -le 60 ]; do
        now=$(df --output=avail "$work/loop.$1" | tail -n 1)
        [ "$now" != "$left" ] || break
        left=$now
        sleep 2
    done
}
neighbour_kvfs_mount() {
    eval "folder=\$folder_$2"
    at="--protocol file --address $folder"
    case $1 in
    good) open_loop $at --prefix n $file_load --writes 10 ;;
    slow) beside --as slow $at --prefix b ;;
    paused)
        beside --as paused $at --prefix b
        sleep 0.5
        stopped=${besides# }
        kill -STOP "$stopped"
        ;;
    hostile) beside --as hostile $at --prefix h --clients 12 ;;
    full) beside --as full $at --prefix f --clients 2 ;;
    esac
}

# ---- Pages ----

run_page_server() {
    at="--protocol page --address 127.0.0.1:$port"
    begin ours "$bin/page_server" --listen 127.0.0.1:$port --file "$work/pages" --pages 16384 \
        --connections $connections --log-level error
    i=0
    until "$bin/neighbours" $at --as open --clients 1 --requests 1 --seconds 5 \
        >"$work/probe" 2>&1 &&
        [ "$(field "$work/probe" errors)" = 0 ]; do
        [ $((i += 1)) -le 100 ] || die "page_server: $(cat "$work/probe" "$work/log.ours")"
        sleep 0.1
    done
    fill ours $at --keys 16384
    load_ours="$at --keys 16384"
    alone ours $load_ours
    repeat good slow paused hostile
}
neighbour_page_server() {
    case $1 in
    good) open_loop $load ;;
    slow | paused) beside --as "$1" $load --depth 4096 ;; # 128 MiB of replies in all
    hostile) beside --as hostile $load --clients $connections --depth 64 ;;
    esac
}

peer=
"run_$program"
noise neighbours "$program:noise"
echo "row neighbours $program:time ours - $(($(date +%s) - began)) s"
