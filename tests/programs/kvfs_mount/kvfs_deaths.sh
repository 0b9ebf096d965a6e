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
rounds=2 waits=1200
[ -z "$nightly" ] || { rounds=20 waits=3500; } # more than 4096 get ENOLCK
kvfs_open --two-process

of_ours() { # ROLE: its process; "supervisor" has none
    for p in $(kvfs_pid); do
        words=$(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null)
        case " $words " in "  " | *" --refresh "* | *" --unmount "*) continue ;; esac
        case $1,$words in
        supervisor,*--role*) ;;
        supervisor,* | *,*"--role $1"*) echo "$p" ;;
        esac
    done
}
check() { timeout -s KILL 120 python3 "$here/kvfs_deaths.py" "$mnt" "$@" 2>"$work/check.err"; }
failed() { fail "$*: $(tail -n 3 "$work/check.err")"; }

step "after a restart, names are looked up in the store"
n=0
while [ $((n += 1)) -le $rounds ]; do
    check die "$(of_ours dpu)" "$work/view$n" $n || failed "round $n"
done
kvfs_close
kvfs_again --two-process
n=0
while [ $((n += 1)) -le $rounds ]; do
    check same "$work/view$n" $n || failed "round $n, mounted anew"
done

step "an interrupted wait for a lock is not retried"
check cancel "$(of_ours dpu)" || failed cancel

step "the process dies while many wait for a lock, some of them interrupted"
check waits "$(of_ours host)" $waits || failed waits

step "the process dies while files are written, synced and read"
check load "$(of_ours host)" $((rounds + 1)) || failed load

step "the mount can be unmounted while the kernel's names are refreshed"
busy=$(check refresh "$(of_ours host)") || failed refresh
i=0 # others may look at it for a moment; ours is stopped
until fusermount3 -u "$mnt" 2>"$work/unmount"; do
    [ $((i += 1)) -le 20 ] || fail "our own process has the mount in use: $(cat "$work/unmount")"
    sleep 0.1
done
kill -CONT "$busy"
kvfs_gone || fail "a process is left"
kvfs_again --two-process
check refresh "$(of_ours host)" >"$work/busy" || failed refresh
kill -TERM "$(of_ours supervisor)" # it ends the process, which is stopped
kvfs_gone || fail "a process is left after SIGTERM"
! grep "is in use" "$work/log" || fail "our own process has the mount in use at SIGTERM"
kvfs_check
kvfs_again --two-process

if [ -n "$nightly" ]; then
    step "a process in a debugger is left alone"
    dpu=$(of_ours dpu)
    check traced "$dpu" "$work/log" || failed traced
    [ "$(of_ours dpu)" = "$dpu" ] || fail "it was killed"
    step "a stalled process is killed, and pending requests complete"
    dpu=$(of_ours dpu)
    kill -STOP "$dpu"
    check stalled || failed stalled
    [ "$(grep -c "process $dpu has not responded.*killing" "$work/log")" = 1 ] ||
        fail "the log has no line of it, or two"
    next=$(of_ours dpu)
    [ -n "$next" ] && [ "$next" != "$dpu" ] || fail "it was not killed"
fi

step "all are killed while the host unmounts: no process blocks on the mount"
dpu=$(of_ours dpu) host=$(of_ours host)
pids="$dpu $host"
kill -STOP "$dpu"
kill -KILL "$(of_ours supervisor)"
i=0 # the host stops with its parent, and sends to the file system's process, which does not answer
until grep -q "request_wait_answer" /proc/"$host"/task/*/stack 2>/dev/null ||
    [ -n "$(cat /proc/"$host"/task/*/children 2>/dev/null)" ]; do
    [ $((i += 1)) -le 200 ] || fail "the host does not stop"
    sleep 0.05
done
sleep 0.5 # until it waits: if it does not yet, this tries less
kill -KILL "$host"
timeout 30 stat "$mnt" >"$work/stat" 2>&1
[ $? != 124 ] || {
    for c in /sys/fs/fuse/connections/*/abort; do [ ! -e "$c" ] || step "left: $c"; done
    fail "stat of the mount point waits for ever"
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
