#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs.sh [--seconds N] [CASE...]
#
# Called by bench/run.sh, as root: KVFS as it is mounted, on LMDB (ours), in memory (ours_mem) and
# on RADOS (ours_rados, where Ceph's packages are), beside ext4, or what
# SNIC_BENCH_DIR lies on (ext4 in the rows), and bench/kvfs_pass, a FUSE pass-through over it (pass)
# with the same time-outs and sizes of requests. The contestants take turns in each of five rounds;
# rows are medians. --seconds N: of a data case in a round, by default 1; then all of it takes about
# a quarter of an hour.
#
#   data     8 KiB random reads and writes past the page cache at depths 1 and 16, from a file four
#            times as large as the memory that mount and load may use (a cgroup), 1 MiB sequential;
#            and 8 KiB through the page cache. device_*: bytes that the device moved per operation
#   meta     20,000 files in one folder and in a hundred: create, stat, readdir, list (readdir and
#            lstat), rename, unlink, in five parts (on RADOS a fifth of it); names are forgotten by
#            the kernel before stat and listing. fsync: 4 KiB files, created, written, synced
#   threads  8 KiB random reads and writes past the page cache by 1 to 256 threads, the file system
#            in a process of its own (ours_dpu); host_*: CPU time of all but that process
#   rss      memory of the mount per file after find over 100,000 (SNIC_BENCH_FILES) files
#
# cpu_*: CPU time of the whole machine per operation.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=1 cases=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    data | meta | threads | rss) cases="$cases $1" ;;
    *) sed -n '3,24s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
cases=${cases:-data meta threads rss}
build=${SNIC_BENCH_BUILD:-build/bench}
mkdir -p "$build/kvfs" && dir=${SNIC_BENCH_DIR:-$(cd "$build/kvfs" && pwd)} &&
    work=$(mktemp -d "$dir/XXXXXX") || exit 1
bin=$(cd -P "$build/bin" && pwd)
limit_mb=${SNIC_BENCH_LIMIT_MB:-128}
module=kvfs
. bench/mounts.sh
mkdir "$work/ext4" "$work/under" "$work/store" "$work/store.dpu"
all=ext4
# What both kinds of mount have alike; threads are those that do each best.
alike="--attr-timeout 60"
# shellcheck disable=SC2086
{
    [ ! -x "$bin/kvfs_pass" ] ||
        mounted pass "$bin/kvfs_pass" $alike --threads 8 "$work/under"
    mounted ours "$bin/kvfs_mount" $alike --store "lmdb:$work/store" --mkfs
    mounted ours_mem "$bin/kvfs_mount" $alike --store mem --mkfs
    if command -v ceph-osd >/dev/null &&
        sh "$cluster/rados_up.sh" "$work/ceph" memstore 1 $port >"$work/log.ceph" 2>&1; then
        mounted ours_rados "$bin/kvfs_mount" $alike \
            --store "rados:$work/ceph/ceph.conf:kvfs" --mkfs
    else
        echo "skip kvfs ours_rados: the packages of Ceph are missing"
    fi
    mounted ours_dpu "$bin/kvfs_mount" $alike --store "lmdb:$work/store.dpu" --mkfs --two-process
}
case " $all " in *" ours "*) ;; *) die "nothing to measure: $(cat "$work/log.ours")" ;; esac
first=$(for who in $all; do case $who in ours_dpu) ;; *) echo "$who" ;; esac; done)
device=$(df --output=source "$work" | tail -n 1)
device=/sys/class/block/$(basename "$(readlink -f "$device")")/stat
[ -e "$device" ] || device=
moved() { [ -z "$device" ] || awk '{ print 512 * ($3 + $7) }' "$device"; } # bytes

# ---- Data ----

# data CASE WHO RW BYTES DEPTH DIRECT FILE
data() {
    b=$(busy) m=$(moved)
    rate=$(fio_ "$2" --rw="$3" --bs="$4" --iodepth="$5" --direct="$6" --filename="$7" \
        --ioengine=io_uring --size="$8" --time_based --runtime="$seconds" --invalidate=0) || exit 1
    keep "$1" "$2" "$rate"
    # The whole time had as many operations per second; starting fio counts as 0.
    keep "cpu_$1" "$2" "$(per_op $(($(busy) - b)) "$(awk "BEGIN { print $rate * $seconds }")")"
    [ "$6" = 0 ] || [ -z "$m" ] ||
        keep "device_$1" "$2" "$(awk "BEGIN { print ($(moved) - $m) / ($rate * $seconds) }")"
}
data_all() {
    large=$((4 * limit_mb))m
    for who in $all; do
        # shellcheck disable=SC2046
        case $who in ext4) limit ext4 ;; pass | ours) limit $who $(serving $who) ;; esac
    done
    [ -n "$groups" ] || echo "skip kvfs memory limit: no cgroup controller; caches are dropped only"
    for who in $first; do
        fio_ $who --rw=write --bs=1m --direct=1 --ioengine=psync --filename=large --size=$large \
            --refill_buffers >/dev/null || exit 1
        fio_ $who --rw=write --bs=1m --ioengine=psync --filename=hot --size=32m --end_fsync=1 \
            >/dev/null || exit 1
        cat "$(place $who)/hot" >/dev/null
    done
    for round in $(seq "$rounds"); do
        calibrate
        for who in $first; do
            drop
            data randread_direct_1 $who randread 8k 1 1 large $large
            data randread_direct_16 $who randread 8k 16 1 large $large
            data randwrite_direct_1 $who randwrite 8k 1 1 large $large
            data randwrite_direct_16 $who randwrite 8k 16 1 large $large
            data seqread_direct $who read 1m 4 1 large $large
            data seqwrite_direct $who write 1m 4 1 large $large
            # What the kernel's cache serves is the same on every store.
            case $who in ours_mem | ours_rados) continue ;; esac
            cat "$(place $who)/hot" >/dev/null
            data randread_cached_1 $who randread 8k 1 0 hot 32m
            data randread_cached_16 $who randread 8k 16 0 hot 32m
            data randwrite_cached_1 $who randwrite 8k 1 0 hot 32m
            data randwrite_cached_16 $who randwrite 8k 16 0 hot 32m
            data seqread_cached $who read 1m 1 0 hot 32m
            data seqwrite_cached $who write 1m 1 0 hot 32m
        done
    done
    for who in $first; do rm -f "$(place $who)/large" "$(place $who)/hot"; done
    for g in "$groups"/kvfs.$$.*; do # no limit for the other cases
        [ ! -d "$g" ] || echo max 2>/dev/null >"$g/$limit_file" || echo -1 >"$g/$limit_file"
    done
}

# ---- Names ----

# meta CASE WHO OPERATION FIRST COUNT FOLDERS
meta() {
    b=$(busy)
    out=$("$bin/kvfs_meta" "$(place "$2")" "$3" "$4" "$5" "$6" 1 2>&1) || die "$2: $out"
    b=$(($(busy) - b))
    case $3 in prepare | clear | unsync) return ;; esac
    keep "$1" "$2" "$(echo "$out" | awk '{ print $1 / $2 }')"
    keep "cpu_$1" "$2" "$(per_op $b "${out% *}")"
}
part_of() { case $1 in ours_rados) echo 800 ;; *) echo 4000 ;; esac; }
meta_all() {
    for folders in 1 100; do
        for who in $first; do meta - $who prepare 0 0 $folders; done
        for op in create stat readdir list rename unlink; do
            for round in $(seq "$rounds"); do
                calibrate
                for who in $first; do
                    n=$(part_of $who)
                    case $op in stat | readdir | list) drop 2 ;; esac
                    meta ${op}_$folders $who $op $(((round - 1) * n)) $n $folders
                done
            done
        done
        for round in $(seq "$rounds"); do
            [ $folders = 1 ] || break
            for who in $first; do
                meta fsync $who fsync $((round * 200)) 200 1
                meta - $who unsync $((round * 200)) 200 1
            done
        done
        for who in $first; do meta - $who clear 0 0 $folders; done
    done
}

# ---- Threads ----

threads_all() {
    for who in ext4 pass ours_dpu; do
        case " $all " in *" $who "*) ;; *) continue ;; esac
        fio_ $who --rw=write --bs=1m --direct=1 --ioengine=psync --filename=threads --size=256m \
            >/dev/null || exit 1
    done
    for round in $(seq "$rounds"); do
        calibrate
        for n in 1 4 16 64 256; do
            for rw in randread randwrite; do
                for who in ext4 pass ours_dpu; do
                    case " $all " in *" $who "*) ;; *) continue ;; esac
                    b=$(busy) d=$(dpu_ticks $who)
                    rate=$(fio_ $who --rw=$rw --bs=8k --direct=1 --ioengine=psync --numjobs=$n \
                        --filename=threads --size=256m --time_based --runtime="$seconds") || exit 1
                    b=$(($(busy) - b)) d=$(($(dpu_ticks $who) - ${d:-0}))
                    ops=$(awk "BEGIN { print $rate * $seconds }")
                    keep "threads_$rw.$n" $who "$rate"
                    keep "cpu_threads_$rw.$n" $who "$(per_op $b "$ops")"
                    keep "host_threads_$rw.$n" $who "$(per_op $((b - d)) "$ops")"
                done
            done
        done
    done
}

# ---- Memory ----

rss_all() {
    files=${SNIC_BENCH_FILES:-100000}
    for who in ours pass; do
        case " $all " in *" $who "*) ;; *) continue ;; esac
        at=$(place $who)
        "$bin/kvfs_meta" "$at" prepare 0 0 1000 1 >/dev/null &&
            "$bin/kvfs_meta" "$at" create 0 "$files" 1000 4 >/dev/null || die "files on $who"
        drop
        anon() { awk '/^RssAnon/ { print $2 * 1024 }' "/proc/$(serving $who | head -n 1)/status"; }
        before=$(anon)
        find "$at" -size +1 | wc -l >/dev/null
        after=$(anon)
        drop 2
        sleep 1
        keep rss_per_file $who "$(awk "BEGIN { print ($(anon) - $before) / $files }")"
        keep rss_per_file_at_find $who "$(awk "BEGIN { print ($after - $before) / $files }")"
        keep descriptors $who "$(ls "/proc/$(serving $who | head -n 1)/fd" | wc -l)"
    done
}

for c in $cases; do
    case $c in
    data) data_all ;;
    meta) meta_all ;;
    threads) threads_all ;;
    rss) rss_all ;;
    esac
done

# ---- Rows ----

for f in $(ls "$work" | sed -n 's/^v\.\(.*\)\.[^.]*$/\1/p' | sort -uV); do
    n=1
    case $f in *.*) n=${f##*.} ;; esac
    for who in ours ours_mem ours_rados ours_dpu pass ext4; do print_row "$f" $who "$n"; done
    for who in ours ours_mem ours_rados ours_dpu; do
        ratio_row "$f" $who pass "$n"
        ratio_row "$f" $who ext4 "$n"
    done
done
noise kvfs
