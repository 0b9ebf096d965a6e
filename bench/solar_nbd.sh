#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_nbd.sh [--seconds N]
#
# A virtual disk from end to end, as an NBD client sees it: fio's nbd engine, 4 KiB at random,
# depth 32, on a UNIX socket of `solar_volume client`, which reaches `solar_volume server` by SOLAR
# over loopback; and beside it nbdkit's nbd plugin, which reaches nbdkit's memory plugin by TCP. The
# server's store is a file in memory, so that no device is measured; it keeps its log, versions and
# checksums all the same, of which the memory plugin has none. Rows:
#
#   row solar nbd_write ours|nbdkit 1 X io/s            and nbd_read
#   row solar nbd_write_cpu ours|nbdkit 1 X us_cpu/io   of all processes but fio
#   row solar nbd_write_p99 ours|nbdkit 1 X us
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=2
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    *) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
volume=${SNIC_BENCH_BUILD:-build/bench}/bin/solar_volume
[ -x "$volume" ] || { echo "solar_nbd.sh: no $volume" >&2; exit 1; }
for p in fio nbdkit; do
    command -v $p >/dev/null || { echo "skip solar nbd: no $p"; exit 0; }
done
fio --enghelp=nbd >/dev/null 2>&1 || { echo "skip solar nbd: this fio has no nbd engine"; exit 0; }
memory=/dev/shm
[ -w $memory ] || memory=${TMPDIR:-/tmp}
work=$(mktemp -d "$memory/solar_nbd.XXXXXX") || exit 1
. bench/common.sh

# ready LOG: the address on the log's line "ready"
ready() {
    i=0
    until at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1") && [ -n "$at" ]; do
        [ $((i += 1)) -le 300 ] || die "it is not ready: $(cat "$1")"
        sleep 0.1
    done
}
there() { # SOCKET
    i=0
    until [ -S "$1" ]; do
        [ $((i += 1)) -le 300 ] || die "no $1"
        sleep 0.1
    done
}
begin server "$volume" server --listen 127.0.0.1:0 --store "$work/store" --store-size 1G \
    --disk 1:256M
ready "$work/log.server"
begin client "$volume" client --server "$at" --disk 1 --size 256M --epoch 1 --socket "$work/ours"
ready "$work/log.client"
begin memory nbdkit -f -p "$port" -i 127.0.0.1 memory 256M
begin nbdkit nbdkit -f -U "$work/nbdkit" nbd hostname=127.0.0.1 "port=$(port_of memory)" retry=10
there "$work/nbdkit"

# try WHO OP RW PID...
try() {
    server=$1 op=$2 rw=$3
    shift 3
    before=$(ticks "$@")
    # terse fields: reads, writes: 6 47 KiB, 8 49 IOPS; 14... and 55...: percentiles
    fio --name=nbd --ioengine=nbd --uri="nbd+unix:///?socket=$work/$server" --bs=4k --iodepth=32 \
        --rw="$rw" --size=256M --time_based --runtime="$seconds" --randrepeat=0 --norandommap \
        --percentile_list=99 --output-format=terse --terse-version=3 >"$work/fio" \
        2>"$work/fio.err" ||
        die "fio: $(cat "$work/fio.err")"
    after=$(ticks "$@")
    kib=$(awk -F';' '/^3;/ { print $6 + $47 }' "$work/fio")
    keep "nbd_$op" "$server" "$(awk -F';' '/^3;/ { print $8 + $49 }' "$work/fio")"
    keep "nbd_${op}_cpu" "$server" "$(per_op $((after - before)) $((kib / 4)))"
    keep "nbd_${op}_p99" "$server" "$(awk -F';' '/^3;/ { print }' "$work/fio" | tr ';' '\n' |
        sed -n 's/^99.000000%=//p' | sort -g | tail -n 1)"
}
r=0
while [ $((r += 1)) -le "$rounds" ]; do
    calibrate
    for op in write read; do
        try ours $op rand$op "$(pid_of server)" "$(pid_of client)"
        try nbdkit $op rand$op "$(pid_of memory)" "$(pid_of nbdkit)"
    done
done
for op in write read; do
    for server in ours nbdkit; do
        echo "row solar nbd_$op $server 1 $(middle nbd_$op $server) io/s"
        echo "row solar nbd_${op}_cpu $server 1 $(middle nbd_${op}_cpu $server) us_cpu/io"
        echo "row solar nbd_${op}_p99 $server 1 $(middle nbd_${op}_p99 $server) us"
    done
    awk "BEGIN { printf \"ratio solar nbd_$op ours/nbdkit 1 %.2f\\n\", \
        $(middle nbd_$op ours) / $(middle nbd_$op nbdkit) }"
    awk "BEGIN { printf \"ratio solar nbd_${op}_cpu ours/nbdkit 1 %.2f\\n\", \
        $(middle nbd_${op}_cpu nbdkit) / $(middle nbd_${op}_cpu ours) }"
done
noise solar
