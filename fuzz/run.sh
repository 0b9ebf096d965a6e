#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# run.sh [--seconds N] [TARGET...]
#
# libFuzzer with ASan and UBSan over the named targets (ring or fuzz_ring), or all, N seconds each
# (default 60), starting from the corpora. New inputs stay in the build folder; crashes are copied
# there too. First the canary must be found crashing. Exit code 1 when a target crashed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
exec </dev/null

all=
for f in fuzz/fuzz_*.c; do
    t=${f#fuzz/fuzz_}
    [ "$t" = canary.c ] || all="$all ${t%.c}"
done
usage() {
    sed -n '3,7s/^# \{0,1\}//p' fuzz/run.sh
    echo "Targets:$all"
    exit "$1"
}

seconds=60 targets=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --help | -h) usage 0 ;;
    -*) usage 2 ;;
    *)
        t=${1#fuzz_}
        case " $all " in
        *" $t "*) targets="$targets $t" ;;
        *) echo "no fuzz target '$1'; there are:$all" >&2; exit 2 ;;
        esac
        ;;
    esac
    shift
done
case $seconds in '' | *[!0-9]*) echo "--seconds $seconds is not a number" >&2; exit 2 ;; esac

. tests/packages.sh
runtime="/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a"
packages clang:clang "$runtime:libclang-rt-dev" llvm-symbolizer:llvm \
    /usr/include/stdio.h:libc6-dev cmake:cmake make:make liburing.h:liburing-dev \
    xxhash.h:libxxhash-dev || exit 1

out=${SNIC_BUILD:-$root/build}/fuzz
mkdir -p "$out" || exit 1
[ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null && CMAKE_GENERATOR=Ninja &&
    export CMAKE_GENERATOR
{ cmake -S "$root" -B "$out" -DCMAKE_C_COMPILER=clang -DSNIC_FUZZER=ON \
    -DSNIC_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSNIC_BUILD_TESTS=OFF \
    -DSNIC_BUILD_EXAMPLES=OFF -DSNIC_BUILD_BENCH=OFF && cmake --build "$out" -j "$(nproc)"; } \
    >"$out/log" 2>&1 || { tail -n 40 "$out/log" >&2; exit 1; }

[ -n "$targets" ] || targets=$all

# fuzz TARGET SECONDS: libFuzzer's exit code.
fuzz() {
    mkdir -p "$out/found/$1" "$out/crashes/$1"
    "$out/fuzz/fuzz_$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$out/crashes/$1/" "$out/found/$1" $3 >"$out/$1.log" 2>&1
}

mkdir -p "$out/empty"
if fuzz canary 30 "$out/empty"; then
    echo "canary: did not crash, so nothing here can be trusted" >&2
    exit 1
fi
rm -rf "$out/found/canary" "$out/crashes/canary"
echo "canary: crashed, as it must"
status=0
for t in $targets; do
    if [ ! -x "$out/fuzz/fuzz_$t" ]; then
        echo "no fuzz target '$t'" >&2
        status=1
        continue
    fi
    fuzz "$t" "$seconds" "$root/fuzz/corpus/$t"
    case $? in
    0)
        echo "$t: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$t.log") runs, no crash"
        ;;
    72 | 130 | 143) # libFuzzer's own for SIGINT and SIGTERM, and the shell's
        echo "$t: interrupted" >&2
        exit 1
        ;;
    *)
        tail -n 60 "$out/$t.log"
        echo "$t: CRASHED, inputs in $out/crashes/$t"
        status=1
        ;;
    esac
done
exit $status
