#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_cache.sh LINK: kvfs_mount as two processes with the hybrid cache before the link. What
# it has is read without a request; sizes and times are those of what was written; nothing is
# lost when either process dies; a full store is reported at fsync and close, and stops no
# other process; mounts that come see all, and are seen; roles that were started with different
# settings are refused.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
link=$1
two="--two-process --link $link --cache-size 4M"
figures=127.0.0.1:0 full=

cache_finish() {
    rc=$?
    [ -z "$full" ] || umount -l "$full" 2>/dev/null
    (exit $rc)
    kvfs_finish
}
trap cache_finish EXIT

port() { # a free one
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}
check() {
    timeout -s KILL 1200 python3 "$here/kvfs_cache.py" "$mnt" "$figures" "$@" 2>"$work/check.err" ||
        fail "$*: $(tail -n 3 "$work/check.err")"
}

for how in "" --prefetch "--cache-writeback --prefetch"; do
    step "reads from the host cache and writes: ${how:-writes go to both}"
    figures=127.0.0.1:$(port)
    # shellcheck disable=SC2086
    if [ -z "$work" ]; then kvfs_open $two $how --metrics "$figures"; else
        kvfs_again $two $how --metrics "$figures"
    fi
    check on
    check hits
    check same
    check times
    case $how in
    --prefetch) # with an empty region
        check long
        kvfs_close
        # shellcheck disable=SC2086
        kvfs_again $two $how --metrics "$figures"
        check on
        check sequence
        ;;
    *write-back*) check back ;;
    esac
    kvfs_close
done

step "concurrent mounts and unmounts"
# shellcheck disable=SC2086
kvfs_again $two --cache-writeback --metrics "$figures"
other=$work/other
mkdir "$other"
check on
check before
timeout 600 "$KVFS_MOUNT" --store "$spec" "$other" >>"$work/log" 2>&1 || fail "no second mount"
check off
check both "$other"
kvfs_wait "the other one is in use" kvfs_unmounted "$other"
check on
kvfs_close

step "the file system's process dies with pages that only the host has; then the host's"
# shellcheck disable=SC2086
kvfs_again $two --cache-writeback --metrics "$figures"
check on
for n in 1 2 3; do
    check die "$(kvfs_role dpu)" $n
    check on
done
host=$(kvfs_role host)
check left "$host"
again() {
    p=$(kvfs_role host)
    [ -n "$p" ] && [ "$p" != "$host" ] && kvfs_mounted && [ -e "$mnt/left" ]
}
kvfs_wait "the host is not started again" again
check found
kvfs_close

if mount -t tmpfs -o size=160m none "$work/store" 2>/dev/null; then
    step "a full store: fsync and close fail with ENOSPC, other requests do not block"
    full=$work/store
    "$KVFS_TOOL" mkfs --store "$spec" >>"$work/log" 2>&1 || fail "mkfs on tmpfs"
    # shellcheck disable=SC2086
    kvfs_again $two --cache-writeback --metrics "$figures"
    began=$(date +%s)
    check on
    check full "$full"
    n=$(grep -c "refuses cached writes" "$work/log")
    seconds=$(($(date +%s) - began))
    [ "$n" -ge 1 ] && [ "$n" -le $((seconds + 3)) ] ||
        fail "$n lines of it in the log, in $seconds s"
    kvfs_close
    umount "$full" && full=
fi

step "roles with different settings are refused at once"
"$KVFS_TOOL" mkfs --store "$spec" >>"$work/log" 2>&1
"$KVFS_MOUNT" --role dpu --link "$link" --cache-size 8M --socket "$work/own" --store "$spec" \
    2>>"$work/log" &
pids=$!
kvfs_wait "no socket" test -S "$work/own"
for wrong in "--link ring --cache-size 9M" "--link nvmefs" \
    "--link $link --cache-size 8M --cache-writeback" "--link $link --cache-size 8M --prefetch"; do
    # shellcheck disable=SC2086
    timeout 600 "$KVFS_MOUNT" -f --role host $wrong --socket "$work/own" "$mnt" 2>"$work/err"
    rc=$?
    [ $rc = 32 ] || fail "$wrong: ended with $rc: $(cat "$work/err")"
    grep -q "use the same for both roles" "$work/err" || fail "$wrong: $(cat "$work/err")"
    ! grep -q "waiting for the file system's process" "$work/err" || fail "$wrong: not at once"
done
timeout 600 "$KVFS_MOUNT" --role host --link "$link" --cache-size 8M --socket "$work/own" \
    --metrics "$figures" "$mnt" 2>>"$work/log" || fail "the same settings are refused"
check on
kvfs_wait "it is in use" kvfs_unmounted "$mnt"
kill -TERM "$pids"
kvfs_gone || fail "a process is left"
pids=
step "all well"
