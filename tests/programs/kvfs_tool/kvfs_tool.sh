#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_tool.sh PROGRAM: messages and exit codes for wrong arguments, load, cat, dump and fsck.
set -u
tool=$1
work=$(mktemp -d /var/tmp/kvfs.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
spec=lmdb:$work/store

# expect CODE TEXT ARGUMENT...: run the tool, which must exit with CODE and print TEXT.
expect() {
    want=$1 text=$2
    shift 2
    timeout 600 "$tool" "$@" >"$work/out" 2>&1
    rc=$?
    ! grep -q 'io_uring' "$work/out" || { cat "$work/out"; exit 77; }
    [ $rc = "$want" ] && grep -q -e "$text" "$work/out" && return
    echo "FAILED: $*: exit $rc, expected $want and '$text': $(cat "$work/out")"
    exit 1
}

expect 0 'made a file system, uuid [0-9a-f-]\{36\}$' mkfs --store "$spec"
expect 16 "exists only while kvfs_mount" fsck --store mem
for command in mkfs dump stats ls; do
    expect 2 "exists only while kvfs_mount" $command --store mem
done
expect 2 "cat: argument PATH is missing" cat --store "$spec"
expect 2 "load: argument FOLDER is missing" load --store "$spec"
expect 2 "ls: one argument too many: 'extra'" ls --store "$spec" / extra
expect 2 "ls: 2 arguments too many, from 'a' on" ls --store "$spec" / a b
expect 2 "stats: unknown option '--what'" stats --store "$spec" --what
expect 2 "dump: --repair is not an option of this command" dump --repair --store "$spec"
expect 16 "fsck: --group is not an option of this command" fsck --group 1 --store "$spec"
expect 2 "'99x' is not a number" dump --store "$spec" --group 99x
expect 2 "'20T' is not a size between 0 and 1T" ls --store "$spec" --cache-size=20T
expect 2 "'1099511627777' is not a size" ls --store "$spec" --cache-size=1099511627777
expect 2 "'-1' is not a size between 0 and 1T" ls --store "$spec" --cache-size=-1
expect 2 "renamed: use --cache-size" ls --store "$spec" --cache-mb=16
timeout 600 "$tool" ls --store "$spec" --cache-size=1G || { echo "FAILED: ls: exit $?"; exit 1; }
expect 1 "no group 18446744073709551614" dump --store "$spec" --group 18446744073709551614
expect 2 "'18446744073709551616' is not a number" dump --store "$spec" --group 18446744073709551616
expect 16 "takes no value, but has 'yes'" fsck --store "$spec" --repair=yes
expect 2 "'what' is not one of" ls --store what
expect 1 "no group 99999" dump --store "$spec" --group 99999
expect 0 "group 0 'A'" dump --store "$spec" --group 0
expect 0 "must exist.*an existing file is an error" --help

mkdir -p "$work/tree/d"
echo one >"$work/tree/d/one"
echo two >"$work/tree/two"
ln -s two "$work/tree/soft"
expect 0 "^4 files, 8 bytes" load --store "$spec" "$work/tree"
expect 1 "/d/one: exists already in the store\|/two: exists already in the store\|/soft: exists" \
    load --store "$spec" "$work/tree"
expect 1 "/none in the store: no such" load --store "$spec" "$work/tree" /none
expect 0 "one" cat --store "$spec" /d/one
expect 0 "clean: 0 findings left, 0 mended" fsck --data --store "$spec"

# A path of 4095 bytes is loaded; a longer one is refused, with its length and what to do.
for bytes in 4095 4096 40960; do
    rm -rf "$work/deep" "$work/store"
    mkdir "$work/deep"
    python3 - "$work/deep" $bytes <<'EOF' || exit 1
import os
import sys
at, left = sys.argv[1], int(sys.argv[2]) - len(sys.argv[1])
os.chdir(at)
while left > 400:
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    left -= 201
os.mkdir("d" * (left // 2 - 1))
os.chdir("d" * (left // 2 - 1))
open("f" * (left - left // 2 - 1), "w").close()
EOF
    expect 0 'made' mkfs --store "$spec"
    if [ $bytes = 4095 ]; then
        expect 0 "^21 files, 0 bytes" load --store "$spec" "$work/deep"
        expect 0 "clean" fsck --store "$spec"
    else
        expect 1 "the path has 4[0-9]* bytes, the maximum is 4095: load a folder" \
            load --store "$spec" "$work/deep"
    fi
done
