#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# neighbours.sh [--seconds N] [--requests N] [--repeats N] [PROGRAM...]
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
#   full      writes more and more, and goes on when no space is left
#
# PROGRAM, without one all; limits are the default ones, but for that of connections, 64:
#
#   kv_server        beside redis-server; neither syncs
#
#   row neighbours PROGRAM:NEIGHBOUR ours|PEER 4 X us      99th percentile of the victims' latency
#   row neighbours PROGRAM:NEIGHBOUR_p50 WHO 4 X us
#   row neighbours PROGRAM:NEIGHBOUR_rate WHO 4 X op/s     that was answered
#   row neighbours PROGRAM:NEIGHBOUR_errors WHO 4 N errors of all repeats: error replies, requests
#                                                          without one, connections lost
#   row neighbours PROGRAM:NEIGHBOUR_rise WHO 4 X x        99th percentile over that beside good
#   ratio neighbours PROGRAM:NEIGHBOUR_rise ours/PEER 4 X  the peer's rise over ours
#   goal neighbours PROGRAM:NEIGHBOUR_rise X <= L met      or missed; L: 2, or the peer's rise if
#                                                          that is less, but not less than 1
#
# Values are medians of --repeats N rounds (5) in which the contestants take turns. --requests N: of
# the victims in a cell (100000); --seconds N: of the closed loop (2). Neighbours run at nice 19:
# their own CPU time is not what is measured. SNIC_BENCH_PEERS=no leaves out the peers.
set -u
cd "$(dirname "$0")/.." || exit 1
usage() { sed -n '3,35s/^# \{0,1\}//p' "$0"; exit "$1"; }
seconds=2 requests=100000 repeats= programs=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --requests) requests=${2:?--requests N}; shift ;;
    --repeats) repeats=${2:?--repeats N}; shift ;;
    kv_server) programs="$programs $1" ;;
    --help | -h) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done
case $seconds$requests$repeats in *[!0-9]*) echo "options take numbers" >&2; exit 2 ;; esac
programs=${programs:-kv_server}
peers=${SNIC_BENCH_PEERS:-yes}
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
[ -x "$bin/neighbours" ] || { echo "neighbours.sh: no $bin/neighbours" >&2; exit 1; }
mkdir -p "$bin/../neighbours" && work=$(mktemp -d "$(cd "$bin/../neighbours" && pwd)/XXXXXX") ||
    exit 1
bin=$(cd "$bin" && pwd)
module=neighbours connections=64
. bench/common.sh
rounds=${repeats:-$rounds}
besides= victim=
neighbours_finish() {
    for p in $victim $besides; do kill -CONT "$p" 2>/dev/null; done
    running="$victim $besides $running"
    finish
}
trap neighbours_finish EXIT

field() { sed -n "s/^$2=//p" "$1"; }
# beside OPTION...: one more process of the neighbour
beside() {
    nice -n 19 "$bin/neighbours" --seconds "$bound" --seed "$round" "$@" >"$work/beside" 2>&1 &
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
# cell NEIGHBOUR WHO: neighbour_PROGRAM NEIGHBOUR WHO starts it, beside victims with $load_WHO
cell() {
    eval "rate=\$rate_$2 load=\$load_$2"
    bound=$((3 * requests / rate + 30))
    # They are connected before the neighbour comes, and begin when it has been there for a second.
    # shellcheck disable=SC2086
    "$bin/neighbours" --as open --rate "$rate" --requests "$requests" --seconds $bound \
        --delay 1500 --seed "$round" $load >"$work/victim" 2>&1 &
    victim=$!
    sleep 0.5
    "neighbour_$program" "$1" "$2"
    wait $victim || die "$program: the victims of $2 failed: $(cat "$work/victim")"
    victim=
    for p in $besides; do kill "$p" 2>/dev/null; done
    for p in $besides; do wait "$p"; done
    besides=
    sleep 0.5
    keep "$program:$1" "$2" "$(field "$work/victim" p99_us)"
    keep "$program:$1_p50" "$2" "$(field "$work/victim" p50_us)"
    keep "$program:$1_rate" "$2" "$(field "$work/victim" rate)"
    keep "$program:$1_errors" "$2" "$(field "$work/victim" errors)"
}
# rows OURS_PEER...: of $program
rows() {
    for c in good slow paused hostile full; do
        limit=2
        for w in ${2:-} ours; do
            kept "$program:$c" "$w" || continue
            p99=$(middle "$program:$c" "$w")
            t="row neighbours $program:$c"
            echo "$t $w 4 $p99 us"
            echo "${t}_p50 $w 4 $(middle "$program:${c}_p50" "$w") us"
            echo "${t}_rate $w 4 $(middle "$program:${c}_rate" "$w") op/s"
            echo "${t}_errors $w 4 $(awk '{ s += $1 } END { print s }' \
                "$work/v.$program:${c}_errors.$w") errors"
            [ $c != good ] || continue
            rise=$(awk -v a="$p99" -v b="$(middle "$program:good" "$w")" \
                'BEGIN { printf "%.3f", (b > 0 ? a / b : 0) }')
            echo "${t}_rise $w 4 $rise x"
            if [ "$w" != ours ]; then
                peer=$rise
                limit=$(awk -v r="$rise" 'BEGIN { print (r < 1 ? 1 : (r > 2 ? 2 : r)) }')
                continue
            fi
            kept "$program:$c" "${2:-none}" && awk -v o="$rise" -v p="$peer" \
                -v t="ratio neighbours $program:${c}_rise ours/$2 4" \
                'BEGIN { if (o > 0) printf "%s %.3f\n", t, p / o }'
            awk -v r="$rise" -v l="$limit" -v t="goal neighbours $program:${c}_rise" \
                'BEGIN { printf "%s %s <= %s %s\n", t, r, l, (r + 0 <= l + 0 ? "met" : "missed") }'
        done
    done
}
# repeat NEIGHBOURS WHO...: all rounds of $program
repeat() {
    cells=$1
    shift
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for c in $cells; do
            for w in "$@"; do cell "$c" "$w"; done
        done
    done
}

# ---- Servers that speak RESP ----

# resp NEIGHBOUR WHO: at $port_WHO
resp() {
    at="--protocol resp --address 127.0.0.1:$(port_of "$2")"
    case $1 in
    good) beside --as open --rate "$rate" --requests 2000000000 $load ;;
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
        "$bin/neighbours" --as fill --clients 1 $at $f >"$work/fill" 2>&1 ||
            die "$1: $(cat "$work/fill")"
        [ "$(field "$work/fill" errors)" = 0 ] || die "cannot fill $1: $(cat "$work/fill")"
    done
    eval "load_$1=\"$at $resp_keys --writes 10\""
    alone "$1" $at $resp_keys --writes 10
}
resp_keys="--keys 20000 --bytes 1000"

run_kv_server() {
    peer=
    begin ours "$bin/kv_server" --listen 127.0.0.1:$port --file "$work/kv" --size 1G \
        --conns $connections --sync none --log-level error
    resp_ready ours
    if [ "$peers" = yes ] && command -v redis-server >/dev/null; then
        peer=redis
        begin redis redis-server --port $port --save '' --appendonly no --dir "$work" \
            --maxclients $connections
        resp_ready redis
    fi
    repeat "good slow paused hostile" ours $peer
    rows ours $peer
}
neighbour_kv_server() { resp "$@"; }

for program in $programs; do
    "run_$program"
    end_all
done
noise neighbours
