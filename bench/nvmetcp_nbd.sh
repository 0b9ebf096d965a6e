#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# nvmetcp_nbd.sh [--seconds N]
#
# What NBD servers take for the I/Os of bench/nvmetcp_net.c: fio's nbd engine on the last processor,
# the servers on the first, 4 KiB at random, 1, 32 and 128 in flight on one connection, no
# digests. nbdkit has its null plugin, by TCP over loopback. Ours is `solar_volume client`, on a
# UNIX socket, which has no null device: its disk is at `solar_volume server`, a file in memory, by
# SOLAR over loopback. --seconds N: of each row in each of the rounds, by default 1.
#
#   row nvmetcp nbd_read_d32 nbdkit|solar_volume 1 X io/cpu_s   of all processes but fio
#   row nvmetcp nbd_read_d32_front solar_volume 1 X io/cpu_s    of the NBD server alone
#   row nvmetcp nbd_read_d32_rate nbdkit|solar_volume 1 X io/s  and nbd_write
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=1
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    *) sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
for p in fio nbdkit taskset; do
    command -v $p >/dev/null || { echo "skip nvmetcp nbd: no $p"; exit 0; }
done
fio --enghelp=nbd >/dev/null 2>&1 ||
    { echo "skip nvmetcp nbd: this fio has no nbd engine"; exit 0; }
volume=${SNIC_BENCH_BUILD:-build/bench}/bin/solar_volume
servers="nbdkit solar_volume"
[ -x "$volume" ] || { echo "skip nvmetcp nbd solar_volume: no $volume"; servers=nbdkit; }
memory=/dev/shm
[ -w $memory ] || memory=${TMPDIR:-/tmp}
work=$(mktemp -d "$memory/nvmetcp_nbd.XXXXXX") || exit 1
. bench/common.sh

cpus=$(taskset -cp $$ | sed 's/.*: //')
first=${cpus%%[,-]*}
last=${cpus##*[,-]}
ready() {
    i=0
    until at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1") && [ -n "$at" ]; do
        [ $((i += 1)) -le 300 ] || die "it is not ready: $(cat "$1")"
        sleep 0.1
    done
}
begin nbdkit taskset -c "$first" nbdkit -f -p "$port" -i 127.0.0.1 null 256M
uri_nbdkit="nbd://127.0.0.1:$(port_of nbdkit)/"
all_nbdkit=$(pid_of nbdkit)
if [ "$servers" != nbdkit ]; then
    begin server taskset -c "$first" "$volume" server --listen 127.0.0.1:0 --store "$work/store" \
        --store-size 1G --disk 1:256M
    ready "$work/log.server"
    begin client taskset -c "$first" "$volume" client --server "$at" --disk 1 --size 256M \
        --epoch 1 --socket "$work/ours"
    ready "$work/log.client"
    uri_solar_volume="nbd+unix:///?socket=$work/ours"
    all_solar_volume="$(pid_of server) $(pid_of client)"
fi
sleep 0.5

# try CASE WHO OP DEPTH
try() {
    eval "uri=\$uri_$2 all=\$all_$2"
    # shellcheck disable=SC2154,SC2086
    before=$(ticks $all)
    [ "$2" = nbdkit ] || front=$(ticks "$(pid_of client)")
    # terse fields: reads, writes: 6 47 KiB, 8 49 IOPS
    taskset -c "$last" fio --name=nbd --ioengine=nbd --uri="$uri" --bs=4k --iodepth="$4" \
        --rw="rand$3" --size=256M --time_based --runtime="$seconds" --randrepeat=0 --norandommap \
        --output-format=terse --terse-version=3 >"$work/fio" 2>"$work/fio.err" ||
        die "fio: $(cat "$work/fio.err")"
    # shellcheck disable=SC2086
    after=$(ticks $all)
    ios=$(awk -F';' '/^3;/ { print ($6 + $47) / 4 }' "$work/fio")
    keep "$1" "$2" "$(awk "BEGIN { print $ios * $hz / ($after - $before + 0.001) }")"
    keep "$1_rate" "$2" "$(awk -F';' '/^3;/ { print $8 + $49 }' "$work/fio")"
    [ "$2" = nbdkit ] || keep "$1_front" "$2" \
        "$(awk "BEGIN { print $ios * $hz / ($(ticks "$(pid_of client)") - $front + 0.001) }")"
}
r=0
while [ $((r += 1)) -le "$rounds" ]; do
    calibrate
    for op in read write; do
        for depth in 1 32 128; do
            for server in $servers; do try nbd_${op}_d$depth "$server" $op $depth; done
        done
    done
done
for op in read write; do
    for depth in 1 32 128; do
        for server in $servers; do
            c=nbd_${op}_d$depth
            echo "row nvmetcp $c $server 1 $(middle $c "$server") io/cpu_s"
            ! kept ${c}_front "$server" ||
                echo "row nvmetcp ${c}_front $server 1 $(middle ${c}_front "$server") io/cpu_s"
            echo "row nvmetcp ${c}_rate $server 1 $(middle ${c}_rate "$server") io/s"
        done
    done
done
noise nvmetcp noise_nbd
