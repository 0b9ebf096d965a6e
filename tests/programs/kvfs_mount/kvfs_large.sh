#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_large.sh: answers that kvfs_mount gives one at a time (64 KiB and more), many of them at
# once: each reader gets its bytes, also beside readers that are killed and small requests; none is
# left when the mount goes in the middle of it.
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
mib=32 seconds=2
[ -z "$nightly" ] || mib=256 seconds=60
kvfs_open
python3 "$here/kvfs_large.py" fill "$mnt/large" $mib || fail "cannot fill a file"
timeout 1200 python3 "$here/kvfs_large.py" read "$mnt/large" $mib $seconds ||
    fail "large reads: $(tail -n 5 "$work/log")"

step "unmounted with reads under way"
python3 "$here/kvfs_large.py" drain "$mnt/large" $mib >"$work/workers.log" &
pids="$pids $!"
last=$!
kvfs_wait "no reader" grep -q reading "$work/workers.log"
fusermount3 -u -z "$mnt"
wait $last || fail "readers of a mount that goes: $(cat "$work/workers.log")"
kvfs_gone || fail "a process is left"
kvfs_again
timeout 1200 python3 "$here/kvfs_large.py" read "$mnt/large" $mib 1 || fail "read again"
kvfs_close
