# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced by the scripts that run solar_volume as processes, which then call
#
#   solar_begin NAME PROGRAM...   skip without these; $work is a folder of the test's own
#   ours() { echo $client ...; }  the processes to be killed at the end, however that comes
#   program=PATH                  of solar_volume, for refused
#
# Nothing here judges how fast the machine is: what has not come in $long seconds never will.
# 77 is the exit code where the programs, or io_uring, are not to be had.
exec </dev/null
work=
long=300

solar_finish() {
    rc=$?
    trap - EXIT
    for p in $(ours); do kill -9 "$p" 2>/dev/null; done
    rm -rf "$work"
    exit $rc
}
solar_begin() {
    name=$1
    shift
    for p in "$@"; do
        command -v "$p" >/dev/null || { echo "skipped: no $p"; exit 77; }
    done
    work=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX") || exit 1
    trap solar_finish EXIT
    trap 'exit 130' INT TERM HUP
}
# The last lines of each log, and of lines of statistics the last one.
fail() {
    echo "FAILED: $*"
    for l in "$work"/*.log; do
        echo "==> $l <=="
        grep -av '^[a-z_]*=[0-9]' "$l" | tail -n 20
        grep -a '^[a-z_]*=[0-9]' "$l" | tail -n 1
    done
    exit 1
}
# wait_until TEXT COMMAND...: it succeeds; fail with TEXT if it never does
wait_until() {
    text=$1 end=$(($(date +%s) + long))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $end ] || fail "$text"
        sleep 0.05
    done
}
# 0: $at is the address of a log's ready line, or its process has ended. A process that was just
# begun may not have made its log yet.
ready_or_ended() { # LOG PID
    at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1" 2>/dev/null)
    [ -n "$at" ] || ! kill -0 "$2" 2>/dev/null
}
# comes LOG PID: $at is the address of its ready line; 1: it ended
comes() {
    wait_until "it is not ready" ready_or_ended "$@"
    [ -z "$at" ] || return 0
    ! grep -q 'io_uring\|without libcrypto' "$1" || { echo "skipped: $(cat "$1")"; exit 77; }
    return 1
}
ready() { # LOG PID
    comes "$@" || fail "it ended"
}
logged() { # WHAT LOG
    wait_until "no log has '$1'" grep -q -- "$1" "$2"
}
refused() { # WHAT ARGUMENT...: the program ends with an error and prints that
    what=$1
    shift
    timeout $long "$program" "$@" >"$work/refused.log" 2>&1 && fail "it accepts $*"
    [ $? -ne 124 ] || fail "it waits: $*"
    grep -q -- "$what" "$work/refused.log" || fail "$*: not '$what'"
}
# moves DISK SERVER: all its segments are there; 1: not yet, as a server is not connected, or busy
moves() {
    verb move "$1" all "$2" >"$work/moves.log" 2>&1 && return
    grep -q 'not connected\|being moved\|cannot copy it\|cannot connect' "$work/moves.log" ||
        fail "a move to server $2"
    return 1
}
copy() { # FROM TO
    timeout $long nbdcopy "$@"
}
copy_fails() { # WHAT FROM TO: with an error, which is in copy.log
    what=$1
    shift
    copy "$@" >"$work/copy.log" 2>&1 && fail "$what"
    [ $? -ne 124 ] || fail "nbdcopy waits: $what"
}
stop() { # PID: it ends in order on SIGTERM
    kill -TERM "$1"
    wait "$1" || fail "one ended with $?"
}
