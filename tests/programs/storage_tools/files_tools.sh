#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# files_tools.sh FILES_LOCAL SNIC_FSCK SNIC_DUMP: what the two report of a real image, whole, with a
# damaged superblock, with both gone, cut off, and of a file that is none.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
image=$dir/image
fail() { echo "$1"; cat "$dir/out"; exit 1; }
has_line() { grep -q "$1" "$dir/out" || fail "no line '$1'"; }
fsck() { timeout 120 "$tool_fsck" "$@" >"$dir/out" 2>&1; code=$?; }
dump() { timeout 120 "$tool_dump" "$@" >"$dir/out" 2>&1; code=$?; }
# hurt BYTE: another value there
hurt() { printf '\377' | dd of="$image" bs=1 seek="$1" conv=notrunc 2>/dev/null || exit 1; }
tool_fsck=$2 tool_dump=$3

timeout 120 "$1" "$image" >"$dir/out" 2>&1
code=$?
! grep -q ' loop: ' "$dir/out" || exit 77 # no io_uring here
[ $code = 0 ] || fail "files_local: exit code $code"
cp "$image" "$dir/good"

fsck "$image"
[ $code = 0 ] || fail "fsck: exit code $code"
has_line '^clean$'
dump "$image"
[ $code = 0 ] || fail "dump: exit code $code"
for line in '^superblock 1 at byte 16384: whole' '^slot 1 at byte .*: newest' \
    '^journal half 1 .* replayed' '^file 2: .* "hello" in .*, 1000000 bytes, 1 segments$' \
    '^    place 0: segment 0 at byte .*, 1000000 bytes written$' '^free: 59 segments from 1 on'; do
    has_line "$line"
done
cmp "$image" "$dir/good" || fail "they changed it"

hurt 100
fsck "$image"
[ $code = 4 ] || fail "fsck, one superblock: exit code $code"
has_line '^error superblock with a wrong checksum'
has_line '^damaged, and can be mounted all the same$'
dump --all "$image"
has_line '^superblock 0 at byte 0: damaged$'
[ $code = 0 ] || fail "dump, one superblock: exit code $code"

hurt 16484
fsck "$image"
[ $code = 4 ] || fail "fsck, no superblock: exit code $code"
dump "$image"
[ $code = 1 ] || fail "dump, no superblock: exit code $code"

cp "$dir/good" "$image"
truncate -s 5000000 "$image"
fsck "$image"
[ $code = 4 ] || fail "fsck, cut off: exit code $code"
has_line 'truncated: the file is shorter than the image in it$'

cp "$0" "$image"
fsck "$image"
[ $code = 8 ] || fail "fsck, no image: exit code $code"
has_line ': not an image of the file service$'
# A limit of the process is named, and what raises it. Which one lets the program start and the
# io_uring fail depends on the descriptors inherited here.
for n in 4 5 6 7 8 9 10 11 12; do
    (exec >"$dir/out" 2>&1; ulimit -n $n && exec timeout 120 "$tool_dump" "$image")
    ! grep -q "io_uring" "$dir/out" || break
done
has_line "cannot set up io_uring: too many open files: the limit of this process is $n;.*ulimit -n"
dump "$dir/none"
[ $code = 1 ] || fail "dump, no file: exit code $code"
