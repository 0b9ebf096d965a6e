#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_deaths.sh: kvfs_mount as two processes. When the file system's process dies, the kernel
# believes no name from before, what was synced is there, and a waiter for a lock keeps waiting;
# when all die while the host unmounts, the mount is dead, too, and no process waits for it; and one
# that stalls (nightly: 30 s) is killed, with a word, and replaced.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
rounds=2 waits=1200 folders=
[ -z "$nightly" ] || { rounds=20 waits=3500; } # more than 4096 get ENOLCK
kvfs_open --two-process

check() { timeout -s KILL 1800 python3 "$here/kvfs_deaths.py" "$mnt" "$@" 2>"$work/check.err"; }
failed() { fail "$*: $(tail -n 3 "$work/check.err")"; }

step "after a restart, names are looked up in the store"
n=0
while [ $((n += 1)) -le $rounds ]; do
    i=$n tries=0
    until check die "$(kvfs_role dpu)" "$work/view$i" "$i" "$work/log"; do
        [ $? = 3 ] || failed "round $n"
        [ $((tries += 1)) -lt 5 ] || fail "round $n: five refreshes took more than 10 s each"
        i=$n.$tries
    done
    folders="$folders $i"
done
kvfs_close
kvfs_again --two-process
for i in $folders; do
    check same "$work/view$i" "$i" || failed "folder $i, mounted anew"
done

step "an interrupted wait for a lock is not retried"
check cancel "$(kvfs_role dpu)" "$(kvfs_role host)" || failed cancel

step "the process dies while many wait for a lock, some of them interrupted"
check waits "$(kvfs_role host)" $waits || failed waits

step "the process dies while files are written, synced and read"
check load "$(kvfs_role host)" $((rounds + 1)) || failed load

step "the mount can be unmounted while the kernel's names are refreshed"
busy=$(check refresh "$(kvfs_role host)" "$work/log") || failed refresh
kvfs_wait "our own process has the mount in use" kvfs_unmounted "$mnt"
kill -CONT "$busy"
kvfs_gone || fail "a process is left"
kvfs_again --two-process
check refresh "$(kvfs_role host)" "$work/log" >"$work/busy" || failed refresh
kill -TERM "$(kvfs_role supervisor)" # it ends the process, which is stopped
kvfs_gone || fail "a process is left after SIGTERM"
! grep "is in use" "$work/log" || fail "our own process has the mount in use at SIGTERM"
kvfs_check
kvfs_again --two-process

if [ -n "$nightly" ]; then
    step "a process in a debugger is left alone"
    dpu=$(kvfs_role dpu)
    check traced "$dpu" "$work/log" || failed traced
    [ "$(kvfs_role dpu)" = "$dpu" ] || fail "it was killed"
    step "a stalled process is killed, and pending requests complete"
    dpu=$(kvfs_role dpu)
    kill -STOP "$dpu"
    check stalled || failed stalled
    [ "$(grep -c "process $dpu has not responded.*killing" "$work/log")" = 1 ] ||
        fail "the log has no line of it, or two"
    next=$(kvfs_role dpu)
    [ -n "$next" ] && [ "$next" != "$dpu" ] || fail "it was not killed"
fi

step "all are killed while the host unmounts: no process blocks on the mount"
dpu=$(kvfs_role dpu) host=$(kvfs_role host)
pids="$dpu $host"
kill -STOP "$dpu"
kill -KILL "$(kvfs_role supervisor)"
# The host stops with its parent. The process that it starts for that sends a request, which the
# file system's process does not answer.
unmounts() {
    for p in $(cat /proc/"$host"/task/*/children 2>/dev/null); do
        grep -qzxF -e --unmount "/proc/$p/cmdline" &&
            grep -q request_wait "/proc/$p/wchan" && return
    done 2>/dev/null
    return 1
}
kvfs_wait "the host does not stop" unmounts
kill -KILL "$host"
timeout 600 stat "$mnt/none" >"$work/stat" 2>&1
[ $? != 124 ] || {
    for c in /sys/fs/fuse/connections/*/abort; do [ ! -e "$c" ] || step "left: $c"; done
    fail "stat of a name in the mount waits for ever"
}
# The unmounting that the host began may be carried out at any moment.
grep -q -e "not connected" -e "connection abort" "$work/stat" || ! kvfs_mounted ||
    fail "stat: $(cat "$work/stat")"
kill -KILL "$dpu"
kvfs_gone || fail "a process is left"
fusermount3 -u -z "$mnt" 2>"$work/unmount" || ! kvfs_mounted ||
    fail "cannot unmount: $(cat "$work/unmount")"
pids=
kvfs_check
step "all well"
