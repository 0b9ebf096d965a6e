#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_hostile.sh PROGRAM: the file system's process behind a link, and a host that is not to be
# trusted (PROGRAM, which speaks that link): messages of nonsense, garbage in the memory that both
# share, deaths in between. The process lives, does not grow, and serves the next host; the file
# system stays in order.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
[ "${KVFS_SCOPE:-}" != nightly ] || [ -n "$nightly" ] || skip "nightly only"
work=$(mktemp -d "${TMPDIR:-/tmp}/kvfs_hostile.XXXXXX")
kvfs_guard
hosts=6 messages=1500
[ -z "$nightly" ] || hosts=200 messages=20000
seed=${KVFS_SEED:-$(date +%s)}
step "seed $seed"
spec=lmdb:$work/store
mkdir "$work/store"
"$KVFS_TOOL" mkfs --store "$spec" >"$work/log" 2>&1 || fail "mkfs: $(cat "$work/log")"
# shellcheck disable=SC2086
timeout -s KILL 2000 "$KVFS_MOUNT" --store "$spec" --role dpu --socket "$work/ring" \
    ${KVFS_OPTIONS:-} >"$work/log" 2>&1 &
guard=$!
pids=$guard
ended() { ! kill -0 $guard 2>/dev/null; }
listens() { [ -S "$work/ring" ] || ! kill -0 $guard 2>/dev/null; }
kvfs_wait "no socket" listens
[ -S "$work/ring" ] || {
    ! grep -q io_uring "$work/log" || skip "$(cat "$work/log")"
    fail "no file system's process: $(tail -n 5 "$work/log")"
}
dpu=$(cat "/proc/$guard/task/$guard/children")
dpu=${dpu% }
pids="$pids $dpu"

resident() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$dpu/status"; }
host() { # WHAT SEED: 0, or what it ended with; it comes again while another one's end is on its way
    end=$(($(date +%s) + 600))
    while :; do
        timeout 600 "$program" "$work/ring" "$1" $messages "$2" >"$work/host" 2>&1
        rc=$?
        [ $rc = 2 ] && kill -0 "$dpu" 2>/dev/null && [ "$(date +%s)" -lt $end ] || return $rc
        sleep 0.1
    done
}
alive() {
    [ "$(cat "/proc/$guard/task/$guard/children" 2>/dev/null)" = "$dpu " ] ||
        fail "host $n, $1: the file system's process died: $(tail -n 5 "$work/log")"
}
program=$1 n=0 most=0
while [ $((n += 1)) -le $hosts ]; do
    case $((n % 3)) in 0) what=garbage ;; *) what=nonsense ;; esac
    host $what $((seed + n)) # garbage may be the end of that host, too
    rc=$?
    alive $what
    [ $what = garbage ] || [ $rc = 0 ] || fail "host $n ended with $rc: $(cat "$work/host")"
    host sane $((seed + n)) || fail "host $n, after $what: not served: $(cat "$work/host")"
    alive sane
    [ $n -gt $((hosts / 2)) ] || [ "$(resident)" -le $most ] || most=$(resident)
done
# It holds files that nonsense has made, and rings of hosts: bounded. Sanitizers keep freed memory.
room=65536
! grep -q -e __asan_init -e __tsan_init "$KVFS_MOUNT" || room=1048576
settled() { [ "$(resident)" -le $((most + room)) ]; } # when the last host's memory is unmapped
kvfs_wait "it grew from $most KiB by more than $room KiB in the second half" settled
files=$(ls "/proc/$dpu/fd" | wc -l)
[ "$files" -le 100 ] || fail "it has $files files open"
kill -TERM "$dpu"
kvfs_wait "it does not end on SIGTERM" ended
wait $guard
rc=$?
pids=
[ $rc = 0 ] || fail "it ended with $rc: $(tail -n 5 "$work/log")"
store=lmdb
kvfs_check
step "all well"
