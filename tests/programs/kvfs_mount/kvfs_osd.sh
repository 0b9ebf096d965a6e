#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_osd.sh: the OSD (bluestore) below a mount under load is killed, and started again. Back soon,
# requests have waited for it and none has failed; back after the store's time-out (30 s), requests
# have ended with an error. Either way the same mount continues, and has all that was synced.
set -u
export KVFS_OSD=bluestore
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
rounds=3
kvfs_open
notes=$work/notes
mkdir "$notes" "$mnt/race" "$mnt/d0" "$mnt/d1" "$mnt/d2" "$mnt/d3"
first=$(kvfs_pid)
workers=

osd_finish() {
    rc=$?
    touch "$notes/stop"
    # Do not wait for an OSD that does not come back.
    # shellcheck disable=SC2046
    [ $rc = 0 ] || kill -9 $(kvfs_pid) 2>/dev/null
    for p in $workers; do kill -9 "$p" 2>/dev/null; done
    (exit $rc)
    kvfs_finish
}
trap osd_finish EXIT

osd_kill() {
    kill -9 "$(cat "$work/ceph/osd.0.pid")" && rm "$work/ceph/osd.0.pid" || fail "no OSD to kill"
}
osd_start() {
    sh "$here/../../kv/kv_rados.sh" restart "$work/ceph"
    [ -s "$work/ceph/osd.0.pid" ] || fail "no OSD was started"
}
# Wait until the cluster itself answers.
osd_answers() {
    CEPH_CONF=$work/ceph/ceph.conf timeout 300 rados -p kvfs stat none >"$work/out" 2>&1
    grep -q 'No such file' "$work/out" || fail "the OSD does not come back: $(cat "$work/out")"
}

# 1 MiB blocks of a file, each of bytes of its own; NOTES/big has the sums of those synced.
big_work() {
    n=$(cat "$notes/big.next" 2>/dev/null || echo 0)
    until [ -e "$notes/stop" ]; do
        n=$((n + 1))
        echo $n >"$notes/big.next"
        head -c 1048576 /dev/urandom >"$notes/block"
        if dd if="$notes/block" of="$mnt/big" bs=1M seek=$n conv=notrunc,fsync 2>"$notes/big.err"
        then
            echo "$n $(sha256sum <"$notes/block")" >>"$notes/big"
        else
            grep -qE 'Input/output error|timed out' "$notes/big.err" || return 1
            echo "$n" >>"$notes/big.failed"
        fi
    done
}
big_check() {
    while read -r n sum; do
        [ "$(dd if="$mnt/big" bs=1M skip="$n" count=1 2>"$work/out" | sha256sum)" = "$sum" ] ||
            fail "MiB $n of a file was synced and is lost"
    done <"$notes/big"
}

load() { # NAME
    rm -f "$notes/stop"
    LOG_BYTES=3145728 python3 "$here/kvfs_two_mounts.py" work "$mnt" "$notes" "$1" 4 \
        >>"$work/workers.log" 2>&1 &
    small=$!
    big_work &
    big=$!
    workers="$small $big"
    goes_on
}
# Both continue. How soon is not checked.
goes_on() {
    [ -e "$notes/big" ] || : >"$notes/big"
    a=$(cat "$notes"/notes.* 2>/dev/null | wc -l) b=$(wc -l <"$notes/big") i=0
    until [ "$(cat "$notes"/notes.* 2>/dev/null | wc -l)" -gt $((a + 100)) ] &&
        [ "$(wc -l <"$notes/big")" -gt $((b + 3)) ]; do
        [ $((i += 1)) -le 3000 ] || fail "the mount makes no progress"
        kill -0 "$small" 2>/dev/null || return 1
        sleep 0.1
    done
}
load_ended() { # the exit code of the workers
    touch "$notes/stop"
    wait "$big" || fail "a writer failed, but not with an I/O error:" \
        "$(cat "$notes/big.err")"
    wait "$small"
    small_rc=$?
    workers=
    [ $small_rc = 0 ] || [ $small_rc = 3 ] || fail "workers: $(cat "$work/workers.log")"
}
all_there() {
    python3 "$here/kvfs_two_mounts.py" check "$mnt" "$notes" || fail "$1"
    big_check
}

round=0
while [ $((round += 1)) -le $rounds ]; do
    step "round $round: the OSD is killed and started again"
    load "a$round." || fail "workers end before anything happens: $(cat "$work/workers.log")"
    failed=$(cat "$notes/big.failed" 2>/dev/null | wc -l)
    began=$(date +%s)
    osd_kill
    osd_start
    osd_answers
    took=$(($(date +%s) - began))
    if [ $took -lt 20 ]; then
        goes_on || fail "a request failed, though the OSD was away for $took s only"
        load_ended
        [ $small_rc = 0 ] || fail "a request failed, though the OSD was away for $took s only"
        [ "$(cat "$notes/big.failed" 2>/dev/null | wc -l)" = "$failed" ] ||
            fail "a write failed, though the OSD was away for $took s only"
    else
        step "it took $took s: requests may have failed"
        load_ended
    fi
    all_there "after the OSD was away for $took s"

    step "round $round: the OSD stays away for longer than requests wait"
    load "b$round." || fail "workers end: $(cat "$work/workers.log")"
    osd_kill
    timeout 300 mkdir "$mnt/away$round" 2>"$work/out"
    rc=$?
    [ $rc = 1 ] && grep -qE 'Input/output error|timed out' "$work/out" ||
        fail "without an OSD mkdir ends with $rc: $(cat "$work/out")"
    timeout 300 cat "$mnt/d0/$round" 2>"$work/out"
    [ $? = 1 ] || fail "without an OSD a look for a name does not end, or finds it"
    osd_start
    osd_answers
    load_ended
    [ $small_rc = 3 ] || fail "no worker got an error: $(cat "$work/workers.log")"
    i=0
    until mkdir "$mnt/back$round" 2>"$work/out" || [ -d "$mnt/back$round" ]; do
        [ $((i += 1)) -le 100 ] || fail "the mount does not recover: $(cat "$work/out")"
        sleep 1
    done
    [ "$(kvfs_pid)" = "$first" ] || fail "another process serves the mount"
    all_there "after requests have failed"
done
load "c" || fail "workers end: $(cat "$work/workers.log")"
load_ended
[ $small_rc = 0 ] || fail "requests fail, though the OSD is back: $(cat "$work/workers.log")"
kvfs_unmount
kvfs_check
kvfs_again
all_there "in a new mount"
kvfs_close
step "unmounted, and found in order"
