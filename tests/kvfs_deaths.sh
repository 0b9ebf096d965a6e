#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_deaths.sh: kvfs_mount as two processes. When the file system's process dies, the kernel
# believes no name from before; when all die while the host unmounts, the mount is dead, too, and
# nobody waits for it; and one that stalls (nightly: 30 s) is killed, with a word, and replaced.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
rounds=2
[ -z "$nightly" ] || rounds=20
kvfs_open --two-process

of_ours() { # ROLE: its process; "supervisor" has none
    for p in $(kvfs_pid); do
        words=$(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null)
        case $1,$words in
        supervisor,*--role* | *,*" --unmount "*) ;;
        supervisor,* | *,*"--role $1"*) echo "$p" ;;
        esac
    done
}
ask() { timeout -s KILL 120 python3 "$here/kvfs_deaths.py" "$mnt" "$@" 2>"$work/asked"; }
said() { fail "$*: $(tail -n 3 "$work/asked")"; }

say "names after a death are the store's"
n=0
while [ $((n += 1)) -le $rounds ]; do
    ask die "$(of_ours dpu)" "$work/view$n" $n || said "round $n"
done
kvfs_close
kvfs_again --two-process
n=0
while [ $((n += 1)) -le $rounds ]; do
    ask same "$work/view$n" $n || said "round $n, mounted anew"
done

if [ -n "$nightly" ]; then
    say "a process that stalls is killed, and what waits goes on"
    dpu=$(of_ours dpu)
    kill -STOP "$dpu"
    ask stalled || said stalled
    [ "$(grep -c "process $dpu has said nothing" "$work/log")" = 1 ] || fail "no word of it, or two"
    [ "$(of_ours dpu)" != "$dpu" ] || fail "it was not killed"
fi

say "all are killed while the host unmounts: nobody waits for the mount"
dpu=$(of_ours dpu) host=$(of_ours host)
pids="$dpu $host"
kill -STOP "$dpu"
kill -KILL "$(of_ours supervisor)"
i=0 # the host stops with its parent, and asks the file system's process, which does not answer
until grep -q "request_wait_answer" /proc/"$host"/task/*/stack 2>/dev/null ||
    [ -n "$(cat /proc/"$host"/task/*/children 2>/dev/null)" ]; do
    [ $((i += 1)) -le 200 ] || fail "the host does not stop"
    sleep 0.05
done
sleep 0.5 # until it waits: if it does not yet, this tries less
kill -KILL "$host"
timeout 30 stat "$mnt" >"$work/stat" 2>&1
[ $? != 124 ] || {
    for c in /sys/fs/fuse/connections/*/abort; do [ ! -e "$c" ] || say "left: $c"; done
    fail "stat of the mount point waits for ever"
}
grep -q -e "not connected" -e "connection abort" "$work/stat" || fail "stat: $(cat "$work/stat")"
kill -KILL "$dpu"
kvfs_gone || fail "a process is left"
fusermount3 -u -z "$mnt" || fail "cannot unmount"
pids=
kvfs_check
say "all well"
