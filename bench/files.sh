#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# files.sh [--seconds N]
#
# The file service beside fio's io_uring engine on the same bytes of the same file: O_DIRECT,
# registered buffers and files on both sides, one thread each, in turns, of which the first third is
# not counted: devices under a limit of their host begin with credit. Rows as of bench/run.sh, which
# calls this. --seconds N: time of each (default 2). SNIC_BENCH_BUILD: where the programs are.
# SNIC_BENCH_DIR: where the file goes, on the device to be measured.
set -u
cd "$(dirname "$0")/.." || exit 1
LC_ALL=C.UTF-8
export LC_ALL
seconds=2
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
bench=${SNIC_BENCH_BUILD:-build/bench}/bench/bench_files
[ -x "$bench" ] || { echo "files.sh: no $bench" >&2; exit 1; }
command -v fio >/dev/null || { echo "skip files fio: fio is not installed"; exit 0; }
dir=$(mktemp -d "${SNIC_BENCH_DIR:-${SNIC_BENCH_BUILD:-.}}/files.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
image=$dir/image
rounds=5

# Where the service's file lies: fio uses the same bytes.
place=$("$bench" --make --path "$image") || exit 1
base=${place% *} bytes=${place#* }

# ours OP BYTES DEPTH: op/s and CPU us/op
ours() { "$bench" --one "$1" "$2" "$3" --seconds "$seconds" --path "$image" || exit 1; }

# theirs OP BYTES DEPTH: the same of fio. Its CPU: user and system time of the job.
theirs() {
    case $1 in
    read) rw=randread ;;
    write) rw=randwrite ;;
    readseq) rw=read ;;
    writeseq) rw=write ;;
    esac
    # fields of the terse output: 8 and 49 IOPS, 88 and 89 user and system per cent
    fio --name=files --filename="$image" --offset="$base" --size="$bytes" --ioengine=io_uring \
        --direct=1 --bs="$2" --iodepth="$3" --rw=$rw --fixedbufs=1 --registerfiles=1 --thread \
        --time_based --ramp_time=$((seconds * 500))ms --runtime="$seconds" --randrepeat=0 \
        --norandommap --invalidate=0 --output-format=terse --terse-version=3 2>/dev/null |
        awk -F';' '/^3;/ { r = $8 + $49; c = $88 + $89; printf "%.1f %.3f\n", r, c * 1e4 / r }'
}

# median FILE COLUMN
median() {
    awk -v c="$2" '{ print $c }' "$1" | sort -g |
        awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# try NAME OP BYTES DEPTH
try() {
    : >"$dir/ours" && : >"$dir/fio"
    i=0
    while [ $i -lt $rounds ]; do
        ours "$2" "$3" "$4" >>"$dir/ours"
        theirs "$2" "$3" "$4" >>"$dir/fio"
        i=$((i + 1))
    done
    for who in ours fio; do
        echo "row files $1 $who 1 $(median "$dir/$who" 1) op/s"
        echo "row files $1_cpu $who 1 $(median "$dir/$who" 2) us/op"
    done
    echo "ratio files $1 ours/fio 1 $(awk -v a="$(median "$dir/ours" 1)" \
        -v b="$(median "$dir/fio" 1)" 'BEGIN { printf "%.3f", a / b }')"
}

try fio_read_4K_d32 read 4096 32
try fio_write_4K_d32 write 4096 32
try fio_read_128K_d16 readseq 131072 16
try fio_write_128K_d16 writeseq 131072 16
