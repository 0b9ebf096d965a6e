#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check.sh [--update] LIBRARY.so ...: the exports are those of symbols.txt, no more, no less.
set -eu
list=$(dirname "$0")/symbols.txt
update=no
[ "$1" = --update ] && { update=yes; shift; }
now=$(mktemp)
trap 'rm -f "$now"' EXIT
for so in "$@"; do
    name=$(basename "$so" | sed 's/\.so.*//')
    nm -D --defined-only "$so" | awk -v n="$name" '$2 != "A" { print n, $3 }'
done | LC_ALL=C sort >"$now"
if grep -v ' snic_' "$now"; then
    echo "exported without the prefix snic_"
    exit 1
fi
if [ $update = yes ]; then
    cp "$now" "$list"
elif ! diff -u "$list" "$now"; then
    echo "The exports changed. If that is meant: sh tests/abi/check.sh --update $*"
    exit 1
fi
