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
# names with blanks count as the others
sed 's|/data/a|/data/my file 1|' "$dir/v2" >"$dir/blank2"
sed 's|/data/a|/data/my file 1|' "$dir/v3" >"$dir/blank3"
for v in blank2 blank3; do
    "$sim" --iolog "$dir/$v" >"$dir/$v.out"
    grep -q '^# 12 references, 4 distinct pages$' "$dir/$v.out"
done
wrong() { # CODE ARGUMENT...
    want=$1 code=0
    shift
    "$sim" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    test "$code" -eq "$want"
    test "$(wc -l <"$dir/err")" -eq 1
}
refused() { wrong 2 "$@"; } # a mistake on the command line
failed() { wrong 1 "$@"; }  # in a file
echo "not an iolog" >"$dir/bad"
printf 'fio version 2 iolog\n/a read 5\n' >"$dir/short"
failed --iolog "$dir/bad"
failed --iolog "$dir/short"
grep -q "short: line 2 is cut off: NAME ACTION OFFSET LENGTH is wanted" "$dir/err"
failed --iolog "$dir/none"
grep -q "none: No such file or directory" "$dir/err"
# one misspelled action in a trace that is good otherwise
sed 's|/data/a read 8192|/data/a raed 8192|' "$dir/v2" >"$dir/misspelled"
failed --iolog "$dir/misspelled"
grep -q "misspelled: line 6 has no action that fio writes (read, write" "$dir/err"
printf 'fio version 3 iolog\n/a read 0 4096\n' >"$dir/untimed"
failed --iolog "$dir/untimed"
grep -q "untimed: line 2 does not begin with a time" "$dir/err"
printf 'fio version 2 iolog\n/a add\n/a open\n' >"$dir/empty"
failed --iolog "$dir/empty"
grep -q "empty: has no read and no write" "$dir/err"
refused --trace nothing
refused --policies none
eight=lru,lru,lru,lru,lru,lru,lru,lru
"$sim" --iolog "$dir/v2" --policies $eight >"$dir/out"
refused --iolog "$dir/v2" --policies $eight,lru
grep -q -e "--policies" "$dir/err"
twenty=$eight,$eight,lru,lru,lru,lru
refused --iolog "$dir/v2" --policies $twenty,$twenty,$twenty,$twenty # 80, longer than its list
# each number at the ends of its range, and beyond
for at in "--page-bytes 512" "--page-bytes 65536" "--refs 1000" "--seed 18446744073709551614"; do
    "$sim" --iolog "$dir/v2" $at >"$dir/out"
done
for beyond in "--page-bytes 511" "--page-bytes 65537" "--page-bytes 655360" "--refs 999" \
    "--refs 100000001" \
    "--refs 1000000000" "--seed 18446744073709551615" "--seed -1" "--page-bytes x"; do
    refused --iolog "$dir/v2" $beyond
    grep -q -e "^hcache_sim: ${beyond% *}: '${beyond#* }' is not a number from [0-9]* to [0-9]*$" \
        "$dir/err"
done
refused --refs
refused --wrong 1
refused --page 4096
grep -q "use --page-bytes" "$dir/err"
refused --peers lru
grep -q "use --policies" "$dir/err"
failed --iolog "$dir/v2" --svg "$dir/none/picture"
