# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced by the scripts that run solar_volume as processes, which then call
#
#   solar_begin NAME PROGRAM...   skip without these; $work is a folder of the test's own
#   ours() { echo $client ...; }  the processes to be killed at the end, however that comes
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
