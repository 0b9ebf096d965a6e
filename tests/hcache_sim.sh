#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# hcache_sim.sh PROGRAM: iologs of both versions, a picture, and clear errors for what is none.
set -eu
sim=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{
    echo "fio version 2 iolog"
    echo "/data/a add"
    echo "/data/a open"
    for i in 0 1 2 3 0 1 2 3; do echo "/data/a read $((i * 4096)) 4096"; done
    echo "/data/a write 0 16384"
    echo "/data/a close"
} >"$dir/v2"
{
    echo "fio version 3 iolog"
    echo "0 /data/a add"
    for i in 0 1 2 3 0 1 2 3; do echo "$i /data/a read $((i * 4096)) 4096"; done
    echo "9 /data/a write 0 16384"
} >"$dir/v3"
# four pages in a cache of sixteen: the first four references miss
for v in v2 v3; do
    "$sim" --iolog "$dir/$v" --svg "$dir/$v.svg" >"$dir/$v.out"
    grep -q '^# 12 references, 4 distinct pages$' "$dir/$v.out"
    test "$(grep -c '^16 66.67 66.67 66.67 66.67$' "$dir/$v.out")" -eq 7
    grep -q '</svg>' "$dir/$v.svg"
done
refused() {
    code=0
    "$sim" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    test "$code" -eq 2
    test "$(wc -l <"$dir/err")" -eq 1
}
echo "not an iolog" >"$dir/bad"
printf 'fio version 2 iolog\n/a read 5\n' >"$dir/short"
refused --iolog "$dir/bad"
refused --iolog "$dir/short"
refused --iolog "$dir/none"
refused --trace nothing
refused --peers nobody
refused --page 1
refused --refs
refused --wrong 1
