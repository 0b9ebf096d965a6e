#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# files_local.sh PROGRAM: run the example on a new image, on the same image again, and on a file
# that is not an image, which it must refuse and leave unchanged.
set -u
image=$(mktemp) || exit 1
trap 'rm -f "$image" "$image.out"' EXIT
for run in first second; do
    timeout 120 "$1" "$image" >"$image.out" 2>&1
    code=$?
    cat "$image.out"
    ! grep -q 'cannot set up io_uring' "$image.out" || exit 77 # no io_uring here
    for line in 'host: read 1000000 bytes, the same' 'host: data/hello has 1000000 bytes' \
        'dpu: the host role is gone: '; do
        grep -q "^$line" "$image.out" || { echo "$run run: no line '$line'"; exit 1; }
    done
    [ $code = 0 ] || { echo "$run run: exit code $code"; exit 1; }
done

cp "$0" "$image" || exit 1
! timeout 120 "$1" "$image" >"$image.out" 2>&1 || { echo "ran on a file that is no image"; exit 1; }
grep -q ': not an image' "$image.out" || { cat "$image.out"; exit 1; }
cmp "$0" "$image" || { echo "the file that is not an image was changed"; exit 1; }
