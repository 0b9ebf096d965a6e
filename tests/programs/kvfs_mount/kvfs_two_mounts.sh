#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_two_mounts.sh: two mounts of one store under load. One is stopped for longer than its lease
# and resumes; another one is killed. The first mount continues, gets the locks that they held, and
# has all that was synced; what was stopped does nothing more to the store, and reports it.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
load=2 rounds=1
[ -z "$nightly" ] || load=10 rounds=10
kvfs_open
first=$mnt other=$work/other notes=$work/notes
mkdir "$other" "$notes" "$mnt/race" "$mnt/d0" "$mnt/d1" "$mnt/d2" "$mnt/d3"
workers= victim=

two_finish() {
    rc=$?
    touch "$notes/stop"
    # The stopped mount ends, too; a worker in a mount that is gone gets its error.
    [ -z "$victim" ] || kill -9 "$victim" 2>/dev/null
    fusermount3 -u -z "$other" 2>/dev/null
    for p in $workers; do kill -9 "$p" 2>/dev/null; done
    (exit $rc)
    kvfs_finish
}
trap two_finish EXIT

two_mount() { # the other mount
    timeout 600 "$KVFS_MOUNT" --store "$spec" "$other" >>"$work/log" 2>&1 ||
        fail "mount: $(tail -n 5 "$work/log")"
    victim=
    for p in $(kvfs_pid); do
        ! tr '\0' '\n' <"/proc/$p/cmdline" | grep -qxF "$other" || victim=$p
    done
    [ -n "$victim" ] || fail "no process serves the other mount"
}
two_gone() { # the other mount, and its process
    kill -9 "$victim" 2>/dev/null
    fusermount3 -u -z "$other"
    victim=
}
two_work() { # NAME MOUNT: in the background
    python3 "$here/kvfs_two_mounts.py" work "$2" "$notes" "$1" 2 >>"$work/workers.log" 2>&1 &
    workers="$workers $!"
}
two_hold() { # NAME: a process on the other mount has a lock
    python3 "$here/kvfs_two_mounts.py" hold "$other" "$notes" "$1" >/dev/null 2>&1 &
    workers="$workers $!"
    kvfs_wait "the lock is not granted" test -e "$notes/$1"
}
two_lock() { # WHEN
    timeout 600 python3 "$here/kvfs_two_mounts.py" lock "$first" ||
        fail "$1: the lock that the other mount had is not free after 600 s"
}
# two_progress TENTHS: the first mount's workers progress within so many tenths of a second.
two_progress() {
    before=$(cat "$notes"/notes.a* | wc -l)
    i=0
    until [ "$(cat "$notes"/notes.a* | wc -l)" -gt $((before + 30)) ]; do
        [ $((i += 1)) -le "$1" ] || return 1
        sleep 0.1
    done
}
# Stop the other one where it has no lock of the store (LMDB's, or a file's in the kernel): those
# are free only when it resumes, or dies.
two_stop() {
    for _ in $(seq 50); do
        kill -STOP "$victim"
        two_progress 30 && return
        kill -CONT "$victim"
        sleep 0.2
    done
    fail "the first mount never progresses while the other one is stopped"
}
two_ended() { # PID: workers on the other mount: they report that it is over, nothing else
    wait "$1"
    rc=$?
    [ $rc = 3 ] || fail "workers on a mount that is over end with $rc: $(cat "$work/workers.log")"
}

round=0
while [ $((round += 1)) -le $rounds ]; do
    rm -f "$notes/stop"
    two_mount
    [ $round != 1 ] || timeout 1200 python3 "$here/kvfs_two_mounts.py" gone "$first" "$other" ||
        fail "what the other mount has removed"
    two_work "a$round." "$first"
    a=$!
    two_work "b$round." "$other"
    b=$!
    two_hold "held$round"
    sleep $load
    step "round $round: one is stopped for longer than its lease"
    two_stop
    two_lock "stopped"
    two_progress 6000 || fail "the first mount does not progress while the other one is stopped"
    kill -CONT "$victim"
    two_ended $b
    timeout 600 touch "$other/late" 2>/dev/null && fail "a mount that lost its session makes files"
    [ ! -e "$first/late" ] || fail "a mount that lost its session has made a file"
    two_progress 6000 || fail "the first mount does not progress after the other one resumes"
    two_gone

    step "round $round: one is killed"
    two_mount
    two_work "c$round." "$other"
    c=$!
    two_hold "again$round"
    sleep $load
    kill -9 "$victim"
    two_lock "killed"
    two_progress 6000 || fail "the first mount does not progress after the other one is killed"
    two_ended $c
    two_gone
    touch "$notes/stop"
    wait $a || fail "the first mount: $(cat "$work/workers.log")"
    timeout 900 python3 "$here/kvfs_two_mounts.py" check "$first" "$notes" || fail "in round $round"
done
kvfs_close
step "unmounted, and found in order"
