#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_two_rados.sh: two mounts of one store on RADOS. One is stopped until the other one has
# declared it dead: its kernel answers nothing from before, and what it was writing changes nothing
# when it resumes. Both append to one file: nothing that was synced is lost.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
kvfs_open
first=$mnt other=$work/other notes=$work/notes
mkdir "$other" "$notes"
stopped= lookers=

rados_finish() {
    rc=$?
    # shellcheck disable=SC2086
    [ -z "$stopped" ] || kill -CONT $stopped 2>/dev/null
    [ ! -s "$work/ceph/osd.0.pid" ] || kill -CONT "$(cat "$work/ceph/osd.0.pid")" 2>/dev/null
    fusermount3 -u -z "$other" 2>/dev/null
    for p in $lookers; do kill -9 "$p" 2>/dev/null; done
    (exit $rc)
    kvfs_finish
}
trap rados_finish EXIT

rados_mount() { # DIR
    # shellcheck disable=SC2086
    timeout 600 "$KVFS_MOUNT" --store "$spec" ${KVFS_OPTIONS:-} "$1" >>"$work/log" 2>&1 ||
        fail "mount: $(tail -n 5 "$work/log")"
}
rados_pids() { # DIR: the processes of its mount
    for p in $(kvfs_pid); do
        ! tr '\0' '\n' <"/proc/$p/cmdline" | grep -qxF "$1" || echo "$p"
    done
}
rados_gone() { # DIR: a mount that was declared dead is no more
    # shellcheck disable=SC2046
    kill -9 $(rados_pids "$1") 2>/dev/null
    fusermount3 -u -z "$1" 2>/dev/null
    kvfs_wait "the mount is still there" kvfs_no_mount "$1"
}

step "a stopped mount, declared dead: its kernel answers nothing from before"
echo old >"$first/f" # it is alone: its kernel may cache
python3 "$here/kvfs_two_rados.py" stale "$first/f" "$notes" >"$work/stale" 2>&1 &
lookers=$!
kvfs_wait "$(cat "$work/stale")" test -e "$notes/known"
stopped=$(rados_pids "$first")
# shellcheck disable=SC2086
kill -STOP $stopped
rados_mount "$other"
echo "new, longer" >"$other/f" && mv "$other/f" "$other/g" && echo x >"$other/f.new" ||
    fail "the other mount cannot change the file"
touch "$notes/go"
kvfs_wait "no result" test -s "$notes/result"
# shellcheck disable=SC2086
kill -CONT $stopped
stopped=
[ "$(cat "$notes/result")" = silent ] || fail "$(cat "$notes/result")"
wait "$lookers"
lookers=
timeout 600 touch "$first/late" 2>/dev/null && fail "a mount that lost its session makes files"
[ ! -e "$other/late" ] || fail "a mount that lost its session has made a file"
[ "$(cat "$other/g")" = "new, longer" ] || fail "the other mount's file has changed"
rados_gone "$first"

step "a stopped mount, declared dead while it writes: nothing of that arrives late"
# It is alone: what a write has to read is in its memory, so that the bytes are sent at once.
fusermount3 -u "$other" || fail "the other mount is in use"
kvfs_wait "the other mount is still there" kvfs_no_mount "$other"
rados_mount "$first"
files=48
for i in $(seq 0 $((files - 1))); do
    dd if=/dev/zero of="$first/late.$i" bs=1M count=1 2>"$work/dd" ||
        fail "cannot write: $(cat "$work/dd")"
done
rm -f "$notes"/*
# More than the sockets take is on its way to an OSD that does not read, when the mount stops.
kill -STOP "$(cat "$work/ceph/osd.0.pid")"
python3 "$here/kvfs_two_rados.py" late "$first" "$notes" $files >"$work/late" 2>&1 &
writer=$!
lookers=$writer
kvfs_wait "it does not begin" test -e "$notes/begun"
stopped=$(rados_pids "$first")
# shellcheck disable=SC2086
kill -STOP $stopped
kill -CONT "$(cat "$work/ceph/osd.0.pid")"
rados_mount "$other" # which ends when the stopped one is declared dead
head -c 1048576 /dev/zero | tr '\0' B >"$work/b"
# Soon: librados drops what is older than its time-out, 32 s.
python3 "$here/kvfs_two_rados.py" over "$other" $files >"$work/out" 2>&1 ||
    fail "the other mount cannot write: $(cat "$work/out")"
# shellcheck disable=SC2086
kill -CONT $stopped
stopped=
timeout 600 touch "$first/late" 2>"$work/out" && fail "a mount that lost its session makes files"
grep -q "Input/output error" "$work/out" || fail "a fenced mount answers: $(cat "$work/out")"
wait "$writer" || fail "the writer: $(cat "$work/late")"
sleep 2
for i in $(seq 0 $((files - 1))); do
    dd if="$other/late.$i" bs=1M iflag=direct 2>"$work/dd" | cmp -s - "$work/b" ||
        fail "a dead mount's write has arrived in file $i: $(cat "$work/late")"
done
grep -q "declared it dead" "$work/log" || fail "its death is not reported"
rados_gone "$first"

step "two mounts append to one file, behind the first stripe"
count=500
[ -z "$nightly" ] || count=50000
rados_mount "$first"
rm -f "$notes"/*
dd if=/dev/zero of="$first/log" bs=1M count=4 2>"$work/dd" || fail "cannot write: $(cat "$work/dd")"
python3 "$here/kvfs_two_rados.py" append "$first/log" "$notes" a $count >"$work/a" 2>&1 &
a=$!
python3 "$here/kvfs_two_rados.py" append "$other/log" "$notes" b $count >"$work/b.log" 2>&1 &
b=$!
lookers="$a $b"
wait $a || fail "the first mount: $(cat "$work/a")"
wait $b || fail "the other mount: $(cat "$work/b.log")"
lookers=
for m in "$first" "$other"; do
    python3 "$here/kvfs_two_rados.py" appended "$m/log" "$notes" 4194304 >"$work/out" 2>&1 ||
        fail "$m: $(cat "$work/out")"
    cat "$work/out"
done
fusermount3 -u "$first" || fail "the first mount is in use"
kvfs_wait "the first mount is still there" kvfs_no_mount "$first"

mnt=$other
kvfs_close
step "unmounted, and found in order"
