#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# fs_local.sh PROGRAM: the example in memory, on a new store, and on the same again.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for store in "" "$work/store" "$work/store"; do
    timeout 120 "$1" ${store:+"$store"} >"$work/out" 2>&1
    code=$?
    cat "$work/out"
    ! grep -q 'cannot set up io_uring' "$work/out" || exit 77 # no io_uring here
    grep -q '^/dir/hello has 12 bytes: hello, world$' "$work/out" || exit 1
    [ $code = 0 ] || { echo "exit code $code"; exit 1; }
done
timeout 120 "$1" --what >"$work/out" 2>&1
[ $? = 2 ] || { echo "an option is taken for a folder"; exit 1; }
! timeout 120 "$1" "$work/no/store" >"$work/out" 2>&1 || exit 1
grep -q '^fs_local: .*: ' "$work/out"
