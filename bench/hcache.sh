#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# hcache.sh [--seconds N]
#
# Called by bench/run.sh, as root: the hybrid cache under the mount (the DPC paper's Fig. 8, and its
# host CPU), 4 KiB operations by 1 and 32 threads. Random reads, and writes, are of a file of
# 256 MiB that the cache holds, and has read, and the load's page cache does not (a cgroup of 48 MiB
# for the load); sequential reads of one of 768 MiB, twice as large as the cache. The contestants
# take turns in each of five rounds; rows are medians:
#
#   cached   the file system on LMDB in a process of its own (the DPU's), the host with a cache of
#            384 MiB that writes back and prefetches
#   plain    the same without the cache, the kernel's page cache alone
#   direct   plain, past the page cache, too: each operation goes to the DPU
#   nvmefs   direct, with commands of nvme-fs instead of messages in rings
#   one      one process: the file system in a thread of the mount, past the page cache
#   ext4     what SNIC_BENCH_DIR lies on (ext4 in the rows), past the page cache
#
# cpu_*: CPU time of the whole machine per operation; host_*: of all but the DPU's process.
# --seconds N: of a case in a round, by default 1.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=1
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    *) sed -n '3,23s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
build=${SNIC_BENCH_BUILD:-build/bench}
mkdir -p "$build/hcache" && dir=${SNIC_BENCH_DIR:-$(cd "$build/hcache" && pwd)} &&
    work=$(mktemp -d "$dir/XXXXXX") || exit 1
bin=$(cd -P "$build/bin" && pwd)
limit_mb=${SNIC_BENCH_LIMIT_MB:-48}
module=hcache
. bench/mounts.sh
[ -x "$bin/kvfs_mount" ] || { echo "skip hcache mounts: kvfs_mount was not built"; exit 0; }
mkdir "$work/ext4"
all=
for variant in cached plain nvmefs one; do
    mkdir "$work/store.$variant"
    case $variant in
    cached)
        how="--two-process --cache-size ${SNIC_BENCH_CACHE_MB:-384}M --cache-writeback --prefetch"
        ;;
    plain) how=--two-process ;;
    nvmefs) how="--two-process --link nvmefs" ;;
    one) how= ;;
    esac
    # shellcheck disable=SC2086
    mounted $variant "$bin/kvfs_mount" --store "lmdb:$work/store.$variant" --mkfs $how || exit 1
done

where() { case $1 in direct) echo plain ;; *) echo "$1" ;; esac; }
past() { case $1 in cached | plain) echo 0 ;; *) echo 1 ;; esac; }
variants="cached plain direct nvmefs one ext4"
for variant in cached plain nvmefs one ext4; do
    for f in file:256m large:768m; do
        fio_ $variant --rw=write --bs=1m --ioengine=psync --filename=${f%:*} --size=${f#*:} \
            --refill_buffers --end_fsync=1 >/dev/null || exit 1
    done
    limit $variant # what fio has of the page cache; the mount's processes stay outside
done
[ -n "$groups" ] || echo "skip hcache memory limit: no cgroup controller; caches are dropped only"

# measure RW THREADS WHO
measure() {
    at=$(where "$3") file=file part=$((256 / $2))
    case $1 in
    read) file=large part=$((768 / $2)) ;;
    randread) [ "$3" != cached ] || inside cached cat "$(place cached)/file" >/dev/null ;;
    esac
    case $1 in rand*) part=256 step= ;; *) step=--offset_increment=${part}m ;; esac
    drop
    b=$(busy) d=$(dpu_ticks "$at")
    # shellcheck disable=SC2086
    rate=$(fio_ "$at" --rw="$1" --bs=4k --direct="$(past "$3")" --ioengine=psync --numjobs="$2" \
        --filename=$file --size=${part}m $step --time_based --runtime="$seconds" \
        --invalidate=0) || exit 1
    b=$(($(busy) - b)) d=$(($(dpu_ticks "$at") - ${d:-0}))
    ops=$(awk "BEGIN { print $rate * $seconds }")
    keep "mount_$1.$2" "$3" "$rate"
    keep "cpu_mount_$1.$2" "$3" "$(per_op $b "$ops")"
    keep "host_mount_$1.$2" "$3" "$(per_op $((b - d)) "$ops")"
}
for round in $(seq "$rounds"); do
    calibrate
    for n in 1 32; do
        for rw in read randread write randwrite; do
            for variant in $variants; do measure $rw $n $variant; done
        done
    done
done

for f in $(ls "$work" | sed -n 's/^v\.\(.*\)\.[^.]*$/\1/p' | sort -uV); do
    for variant in $variants; do print_row "$f" $variant "${f##*.}"; done
    for peer in direct plain one ext4; do ratio_row "$f" cached $peer "${f##*.}"; done
    ratio_row "$f" nvmefs direct "${f##*.}"
    ratio_row "$f" direct one "${f##*.}"
done
noise hcache
