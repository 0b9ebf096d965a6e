# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced by the scripts that run solar_volume as processes, which then call
#
#   solar_begin NAME PROGRAM...   skip without these; $work is a folder of the test's own
#   ours() { echo $client ...; }  the processes to be killed at the end, however that comes
#   program=PATH                  of solar_volume, for refused
#
# 77 is the exit code where the programs, or io_uring, are not to be had.
exec </dev/null
work=

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
fail() {
    echo "FAILED: $*"
    tail -n 20 "$work"/*.log
    exit 1
}
# comes LOG PID: $at is the address of its ready line; 1: it ended
comes() {
    i=0
    until at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1") && [ -n "$at" ]; do
        kill -0 "$2" 2>/dev/null || {
            ! grep -q 'io_uring\|without libcrypto' "$1" ||
                { echo "skipped: $(cat "$1")"; exit 77; }
            return 1
        }
        [ $((i += 1)) -le 600 ] || fail "it is not ready"
        sleep 0.05
    done
}
ready() { # LOG PID
    comes "$@" || fail "it ended"
}
logged() { # WHAT LOG: LOG has it within 20 s
    i=0
    until grep -q -- "$1" "$2"; do
        [ $((i += 1)) -le 400 ] || fail "no log has '$1' within 20 s"
        sleep 0.05
    done
}
refused() { # WHAT ARGUMENT...: the program ends with an error and prints that
    what=$1
    shift
    timeout 60 "$program" "$@" >"$work/refused.log" 2>&1 && fail "it accepts $*"
    [ $? -ne 124 ] || fail "it waits: $*"
    grep -q -- "$what" "$work/refused.log" || fail "$*: not '$what'"
}
stop() { # PID: it ends in order on SIGTERM
    kill -TERM "$1"
    wait "$1" || fail "one ended with $?"
}
