#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tenants.sh [--seconds N]
#
# Called by bench/run.sh: two tenants on one loop device over a file, 32 I/Os deep each, past the
# page cache. Ours: both in examples/tenants under the gimbal switch, the kernel's scheduler being
# none. The others: the kernel's none, mq-deadline and bfq, with a process of its own for each
# tenant (by which they distinguish tenants), without a switch. bfq-strict is bfq with its option
# strict_guarantees; as it comes, bfq hands a loop device whatever is there. The rows are medians
# of five rounds; --seconds N is the time of a case in a round, by default 2, after one of warming
# up: about ten minutes in all.
#
#   sizes    4 KiB random reads (a) beside 128 KiB random reads (b)
#   rw4      4 KiB random reads (a) beside 4 KiB random writes (b)
#   rw128    128 KiB random reads (a) beside 128 KiB random writes (b)
#   file     sizes on the file itself, under gimbal and without a switch (fifo)
#
# futil_a, futil_b: bandwidth over the fair one, which is half of what the tenant has alone, in the
# same round, without any scheduler. deviation: the larger of |futil - 1|. difference: the larger
# futil over the smaller, minus one. cpu: of the processes per I/O; cpu_all: of the whole machine.
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=2
[ "${1:-}" = --seconds ] && seconds=${2:?--seconds N}
bin=${SNIC_BENCH_BUILD:-build/bench}/bin
mkdir -p "$bin/../tenants" && work=$(mktemp -d "$(cd "$bin/../tenants" && pwd)/XXXXXX") || exit 1
bin=$(cd "$bin" && pwd)
bytes=1G loop= before=
. bench/common.sh
tenants_finish() {
    if [ -n "$loop" ]; then # the scheduler stays with the device's name
        [ -z "$before" ] || echo "$before" >"/sys/block/${loop#/dev/}/queue/scheduler"
        losetup -d "$loop" # detached when no process has it open any more
    fi
    finish
}
trap tenants_finish EXIT

# ---- The device ----

job() { # job CASE PART: the sections of a, of b, or of both
    case $1 in
    sizes | file) a='rw=randread\nbs=4K' b='rw=randread\nbs=128K' ;;
    rw4) a='rw=randread\nbs=4K' b='rw=randwrite\nbs=4K' ;;
    rw128) a='rw=randread\nbs=128K' b='rw=randwrite\nbs=128K' ;;
    esac
    printf '[global]\niodepth=32\n' >"$work/$1.$2"
    [ "$2" = b ] || printf '[a]\n%b\n' "$a" >>"$work/$1.$2"
    [ "$2" = a ] || printf '[b]\n%b\n' "$b" >>"$work/$1.$2"
}
for c in sizes rw4 rw128 file; do
    for part in a b both; do job $c $part; done
done
"$bin/tenants" --job "$work/sizes.a" --device "$work/disk" --size $bytes --direct --seconds 1 \
    --scheduler fifo >"$work/log" 2>&1 || die "cannot use a file here: $(tail -n 1 "$work/log")"

# ---- Runs ----

busy() { # ticks that all CPUs have worked
    awk '$1 == "cpu" { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
}
# load OUT DEVICE JOB OPTION...
load() {
    out=$1 device=$2 jobs=$3
    shift 3
    "$bin/tenants" --job "$jobs" --device "$device" --direct --overwrite --warmup 1 \
        --seconds $((seconds + 1)) --seed "$round" "$@" >"$work/$out" 2>"$work/$out.err" ||
        die "$*: $(cat "$work/$out.err" "$work/$out")"
}
rate() { awk -v t="$2" '$1 == t { print $6 }' "$work/$1"; } # rate OUT TENANT: MB/s
# count CASE WHO TICKS OUT...: keeps the runs' numbers; alone_a and alone_b are the round's
count() {
    case=$1 who=$2 worked=$3
    shift 3
    for o in "$@"; do
        awk '$1 == "all" { ios = $2 } $1 == "cpu:" { print ios, $2 }' "$work/$o"
    done >"$work/cpu"
    rates="$(for o in "$@"; do rate "$o" a; done) $(for o in "$@"; do rate "$o" b; done)"
    echo "$rates $alone_a $alone_b" | awk '{
        a = 2 * $1 / $3; b = 2 * $2 / $4
        da = a > 1 ? a - 1 : 1 - a
        db = b > 1 ? b - 1 : 1 - b
        most = da > db ? da : db
        apart = (a > b ? a / b : b / a) - 1
        printf "a=%.4f b=%.4f deviation=%.4f ", a, b, most
        printf "difference=%.4f sum=%.2f\n", apart, $1 + $2
    }' >"$work/values"
    eval "$(cat "$work/values")"
    keep "${case}_futil_a" "$who" "$a"
    keep "${case}_futil_b" "$who" "$b"
    keep "${case}_deviation" "$who" "$deviation"
    keep "${case}_difference" "$who" "$difference"
    keep "${case}_bandwidth" "$who" "$sum"
    keep "${case}_cpu" "$who" "$(awk '{ n += $1; c += $1 * $2 } END { print c / n }' "$work/cpu")"
    # The whole time, the warming up included, had about as many I/Os per second.
    [ "$worked" = - ] || keep "${case}_cpu_all" "$who" "$(awk -v w="$worked" -v hz="$hz" \
        -v s=$((seconds + 1)) '{ n += $1 } END { print w * 1e6 / hz / (n * s) }' "$work/cpu")"
}
# alone CASE DEVICE: what each tenant has by itself
alone() {
    for t in a b; do
        load alone.$t "$2" "$work/$1.$t" --scheduler fifo
        eval "alone_$t=$(rate alone.$t $t)"
        keep "$1_alone_$t" none "$(rate alone.$t $t)"
    done
}
# kernel NAME: the loop device's scheduler. @return whether there is such a one
kernel() {
    queue=/sys/block/${loop#/dev/}/queue
    echo "${1%-strict}" 2>/dev/null >"$queue/scheduler" || return
    case $1 in *-strict) echo 1 2>/dev/null >"$queue/iosched/strict_guarantees" ;; esac
}
# ours CASE
ours() {
    kernel none
    w=$(busy)
    load ours "$loop" "$work/$1.both"
    count "$1" ours $(($(busy) - w)) ours
}
# peer CASE NAME: a process for each tenant
peer() {
    kernel "$2" || return
    w=$(busy)
    (trap - EXIT; load "peer.a" "$loop" "$work/$1.a" --scheduler fifo) &
    running=$!
    load peer.b "$loop" "$work/$1.b" --scheduler fifo
    wait "$running" || die "a tenant of $2 failed"
    running=
    count "$1" "$2" $(($(busy) - w)) peer.a peer.b
}

# ---- Rounds ----

schedulers="none mq-deadline bfq bfq-strict"
if [ "$(id -u)" != 0 ] || ! command -v losetup >/dev/null ||
    ! loop=$(losetup --find --show --direct-io=on "$work/disk" 2>"$work/log"); then
    loop= schedulers=
    echo "skip tenants: a loop device needs root and losetup; only the cases on a file are here"
fi
[ -z "$loop" ] ||
    before=$(sed 's/.*\[\(.*\)\].*/\1/' "/sys/block/${loop#/dev/}/queue/scheduler")
there=
for s in $schedulers; do
    [ $s != bfq ] || kernel bfq || modprobe bfq 2>/dev/null
    if kernel $s; then
        there="$there $s"
    else
        echo "skip tenants $s: this kernel does not offer it"
    fi
done
round=0
while [ $((round += 1)) -le "$rounds" ]; do
    calibrate
    for c in ${loop:+sizes rw4 rw128}; do
        kernel none
        alone $c "$loop"
        ours $c
        for s in $there; do peer $c "$s"; done
    done
    alone file "$work/disk"
    load fifo "$work/disk" "$work/file.both" --scheduler fifo
    count file fifo - fifo
    load ours "$work/disk" "$work/file.both"
    count file ours - ours
done

# ---- Rows ----

unit() {
    case $1 in
    *_futil_* | *_deviation | *_difference) echo x ;;
    *_cpu | *_cpu_all) echo us/op ;;
    *) echo MB/s ;;
    esac
}
for c in sizes rw4 rw128 file; do
    for v in alone_a alone_b futil_a futil_b deviation difference bandwidth cpu cpu_all; do
        for w in ours fifo none mq-deadline bfq bfq-strict; do
            t=2
            case $w in ours | fifo) t=1 ;; esac
            kept "${c}_$v" $w || continue
            echo "row tenants ${c}_$v $w $t $(middle "${c}_$v" $w) $(unit "_$v")"
        done
    done
    # Less is better in all of these but the bandwidth.
    for v in deviation difference cpu cpu_all bandwidth; do
        for w in fifo none mq-deadline bfq bfq-strict; do
            kept "${c}_$v" $w || continue
            echo "$v $(middle "${c}_$v" ours) $(middle "${c}_$v" $w)" |
                awk -v t="ratio tenants ${c}_$v ours/$w 1" '$1 == "bandwidth" && $3 > 0 {
                    printf "%s %.3f\n", t, $2 / $3 } $1 != "bandwidth" && $2 > 0 {
                    printf "%s %.3f\n", t, $3 / $2 }'
        done
    done
done
noise tenants
