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

role() { # ROLE: its process
    for p in $(kvfs_pid); do
        words=$(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null)
        case " $words " in *" --refresh "* | *" --unmount "*) continue ;; esac
        case $words in *"--role $1"*) echo "$p" ;; esac
    done
}
port() { # a free one
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}
ask() {
    timeout -s KILL 120 python3 "$here/kvfs_cache.py" "$mnt" "$figures" "$@" 2>"$work/asked" ||
        fail "$*: $(tail -n 3 "$work/asked")"
}

for how in "" --prefetch "--cache-writeback --prefetch"; do
    say "reads that are answered here, and what has been written: ${how:-writes go to both}"
    figures=127.0.0.1:$(port)
    # shellcheck disable=SC2086
    if [ -z "$work" ]; then kvfs_open $two $how --metrics "$figures"; else
        kvfs_again $two $how --metrics "$figures"
    fi
    ask on
    ask hits
    ask same
    ask times
    case $how in
    --prefetch) # with an empty region
        ask long
        kvfs_close
        # shellcheck disable=SC2086
        kvfs_again $two $how --metrics "$figures"
        ask on
        ask sequence
        ;;
    *write-back*) ask back ;;
    esac
    kvfs_close
done

say "others come and go"
# shellcheck disable=SC2086
kvfs_again $two --cache-writeback --metrics "$figures"
other=$work/other
mkdir "$other"
ask on
ask before
timeout 120 "$KVFS_MOUNT" --store "$spec" "$other" >>"$work/log" 2>&1 || fail "no second mount"
ask off
ask both "$other"
fusermount3 -u "$other" || fail "cannot unmount the other one"
ask on
kvfs_close

say "the file system's process dies with pages that only the host has; then the host's"
# shellcheck disable=SC2086
kvfs_again $two --cache-writeback --metrics "$figures"
ask on
for n in 1 2 3; do
    ask die "$(role dpu)" $n
    ask on
done
host=$(role host)
ask left "$host"
i=0
until [ -n "$(role host)" ] && [ "$(role host)" != "$host" ] && kvfs_mounted &&
    [ -e "$mnt/left" ]; do
    [ $((i += 1)) -le 600 ] || fail "the host is not started again"
    sleep 0.05
done
ask found
kvfs_close

if mount -t tmpfs -o size=160m none "$work/store" 2>/dev/null; then
    say "a store that is full: fsync and close say so, and nobody else waits"
    full=$work/store
    "$KVFS_TOOL" mkfs --store "$spec" >>"$work/log" 2>&1 || fail "mkfs on tmpfs"
    # shellcheck disable=SC2086
    kvfs_again $two --cache-writeback --metrics "$figures"
    ask on
    ask full "$full"
    n=$(grep -c "refuses cached writes" "$work/log")
    [ "$n" -ge 1 ] && [ "$n" -le 60 ] || fail "$n lines of it in the log"
    kvfs_close
    umount "$full" && full=
fi

say "roles with different settings are refused at once"
"$KVFS_TOOL" mkfs --store "$spec" >>"$work/log" 2>&1
"$KVFS_MOUNT" --role dpu --link "$link" --cache-size 8M --socket "$work/own" --store "$spec" \
    2>>"$work/log" &
pids=$!
i=0
until [ -S "$work/own" ]; do
    [ $((i += 1)) -le 600 ] || fail "no socket"
    sleep 0.05
done
for wrong in "--link ring --cache-size 9M" "--link nvmefs" \
    "--link $link --cache-size 8M --cache-writeback" "--link $link --cache-size 8M --prefetch"; do
    # shellcheck disable=SC2086
    timeout 10 "$KVFS_MOUNT" -f --role host $wrong --socket "$work/own" "$mnt" 2>"$work/said"
    rc=$?
    [ $rc = 32 ] || fail "$wrong: ended with $rc: $(cat "$work/said")"
    grep -q "use the same for both roles" "$work/said" || fail "$wrong: $(cat "$work/said")"
done
timeout 60 "$KVFS_MOUNT" --role host --link "$link" --cache-size 8M --socket "$work/own" \
    --metrics "$figures" "$mnt" 2>>"$work/log" || fail "the same settings are refused"
ask on
fusermount3 -u "$mnt"
kill -TERM "$pids"
kvfs_gone || fail "a process is left"
pids=
say "all well"
