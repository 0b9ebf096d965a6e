#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_roles.sh LIAR LINK: kvfs_mount as two processes, joined by that link. The host believes
# nothing wrong that the file system's process (LIAR's part) may send; what a death of that process
# may have lost is reported; and nothing of the two is left, nor holds the caller's folder.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
[ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || skip "mounting wants root and /dev/fuse"
liar=$1 link=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/kvfs_roles.XXXXXX")
kvfs_guard
mnt=$work/mnt
spec=lmdb:$work/store
mkdir "$mnt" "$work/store"

new_role() { # ROLE PID: another one than PID
    p=$(kvfs_role "$1")
    [ -n "$p" ] && [ "$p" != "$2" ]
}
ended() {
    kvfs_gone || fail "$1: a process is left"
    kvfs_wait "$1: $mnt is still mounted" kvfs_no_mount
}
# Where the socket of our processes is.
folder() {
    tr '\0' '\n' <"/proc/$(kvfs_role host)/cmdline" | grep -A1 -x -e --socket | tail -n 1 |
        sed 's,/ring$,,'
}
two() { # DIR OPTION...: mount, from DIR
    at=$1
    shift
    (cd "$at" && timeout 600 "$KVFS_MOUNT" --two-process --link "$link" "$@" "$mnt" \
        2>>"$work/log") ||
        fail "cannot mount: $(tail -n 5 "$work/log")"
}

step "malformed responses: EIO, and the mount keeps working"
timeout -s KILL 2000 "$liar" "$work/ring" "$link" 2>"$work/liar" &
guard=$!
pids=$guard
listens() { [ -S "$work/ring" ] || ! kill -0 $guard 2>/dev/null; }
kvfs_wait "no socket" listens
[ -S "$work/ring" ] || {
    ! grep -q io_uring "$work/liar" || skip "$(cat "$work/liar")"
    fail "no socket of the other process: $(cat "$work/liar")"
}
serves() { kvfs_mounted || ! kill -0 $host 2>/dev/null; }
tries=0
until kvfs_mounted; do # a host that cannot connect for 30 s gives up, as it should
    kill -0 $guard 2>/dev/null || fail "the other process ended: $(tail -n 3 "$work/liar")"
    ! grep -q "attached to" "$work/log" || fail "connected, and no mount: $(tail -n 5 "$work/log")"
    [ $((tries += 1)) -le 5 ] || fail "no mount: $(tail -n 5 "$work/log")"
    timeout -s KILL 2000 "$KVFS_MOUNT" -f --role host --link "$link" --socket "$work/ring" \
        --store mem "$mnt" 2>>"$work/log" &
    host=$!
    pids="$guard $host"
    kvfs_wait "no mount" serves
done
cat >"$work/call.py" <<'END_PY'
import errno, fcntl, os, struct, sys

mnt = sys.argv[1]


def refused(what, call):
    try:
        r = call()
    except OSError as e:
        assert e.errno == errno.EIO, (what, e)
    else:
        raise AssertionError((what, r))


def lock():
    fd = os.open(mnt + "/lock", os.O_RDWR)
    fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))


def write():
    fd = os.open(mnt + "/write", os.O_WRONLY)
    os.write(fd, b"x" * 100)


calls = {"code": lambda: os.stat(mnt + "/code"), "open": lambda: os.open(mnt + "/open", os.O_RDWR),
        "lock": lock, "write": write}
name = sys.argv[2]
if name != "good":
    refused(name, calls.get(name, lambda: os.listdir(mnt + "/" + name)))
assert os.listdir(mnt + "/good") == ["a", "bb", "ccc"]
END_PY
for lie in good long over zero odd past head nul write open code lock; do
    : >"$work/log"
    timeout -s KILL 600 python3 "$work/call.py" "$mnt" $lie 2>"$work/call.err" ||
        fail "$lie: $(tail -n 2 "$work/call.err" "$work/log")"
    [ $lie = good ] || grep -q "protocol error\|malformed" "$work/log" || fail "$lie: not logged"
done
kvfs_wait "it is in use" kvfs_unmounted "$mnt"
ended "lies"
kill -TERM $guard
pids=

step "the loss of bytes that were written and closed before a death is reported"
"$KVFS_TOOL" mkfs --store "$spec" >>"$work/log" 2>&1 || fail "mkfs: $(cat "$work/log")"
two / --store "$spec"
cat >"$work/closed.py" <<'END_PY'
import errno, os, signal, sys

mnt, dpu = sys.argv[1], int(sys.argv[2])


def sync(name):
    fd = os.open(mnt + "/" + name, os.O_RDWR)
    try:
        os.fsync(fd)
        return 0
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)


def write(name):
    fd = os.open(mnt + "/" + name, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 10000)
    return fd


for name in "before", "closed", "open":
    fd = write(name)
    os.fsync(fd)
    os.close(fd)
fd = write("open")
os.close(write("closed"))
os.kill(dpu, signal.SIGKILL)
try:
    os.close(fd)
    raise AssertionError("open")
except OSError as e:
    assert e.errno == errno.EIO, e
assert sync("closed") == errno.EIO, "closed"
assert sync("closed") == 0 and sync("before") == 0
END_PY
timeout -s KILL 600 python3 "$work/closed.py" "$mnt" "$(kvfs_role dpu)" \
    2>"$work/call.err" || fail "$(tail -n 2 "$work/call.err")"

step "a supervisor that is killed, or gets SIGQUIT as from a terminal, leaves no folder"
at=$(folder)
[ -d "$at" ] || fail "no folder: $at"
kill -KILL "$(kvfs_role supervisor)"
ended SIGKILL
[ ! -e "$at" ] || fail "after SIGKILL $at is left: $(ls "$at")"
two / --store "$spec"
at=$(folder)
kill -QUIT "-$(kvfs_role supervisor)"
ended SIGQUIT
[ ! -e "$at" ] || fail "after SIGQUIT $at is left: $(ls "$at")"
timeout -s KILL 2000 "$KVFS_MOUNT" --role dpu --link "$link" --socket "$work/own" \
    --store "$spec" 2>>"$work/log" &
guard=$!
kvfs_wait "no socket" test -S "$work/own"
kill -TERM "$(cat "/proc/$guard/task/$guard/children")"
guard_ended() { ! kill -0 $guard 2>/dev/null; }
kvfs_wait "it does not end on SIGTERM" guard_ended
wait $guard || fail "the file system's process ended with $?"
[ -d "$work" ] && [ ! -e "$work/own" ] || fail "a user's socket, or its folder"

step "the caller's folder is free, relative names hold when a role is started again"
mkdir "$work/here"
two "$work/here" --store lmdb:../store
for p in $(kvfs_role dpu) $(kvfs_role host) $(kvfs_role supervisor); do
    [ "$(readlink "/proc/$p/cwd")" = / ] || fail "process $p is in $(readlink "/proc/$p/cwd")"
done
dpu=$(kvfs_role dpu)
kill -KILL "$dpu"
kvfs_wait "it is not started again" new_role dpu "$dpu"
[ "$(timeout 600 cat "$mnt/before" | wc -c)" = 10000 ] || fail "it does not serve again"
kvfs_wait "it is in use" kvfs_unmounted "$mnt"
ended "a folder"
"$KVFS_TOOL" fsck --store "$spec" >>"$work/log" 2>&1 || fail "fsck: $(tail -n 5 "$work/log")"
step "all well"
